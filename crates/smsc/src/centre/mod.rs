//! The centre: its transactions, written once against [`crate::transaction::Transaction`].
//!
//! | paper | here |
//! |---|---|
//! | Receiver | [`Operation::Receive`] |
//! | Sender | [`Operation::Claim`], then [`Operation::Complete`] |
//! | Scheduled Message Timer | [`Operation::ReleaseScheduled`], [`Operation::Expire`] |
//! | Notifier / Retry | [`Operation::Alert`], [`Operation::WakeDue`] |
//! | Flusher | [`Operation::NextSent`], the [`Archive`], [`Operation::DropSent`] |
//!
//! Besides them query, cancel, replace, accounts, what is due next, and what an operator looks at.
//!
//! The first three are written again, in SQL, for PostgreSQL (`store/postgresql/procedures.sql`).

mod account;
mod archive;
mod claim;
mod complete;
mod due;
mod finish;
mod forward;
mod lease;
mod manage;
mod operation;
mod outcome;
mod place;
mod receipt;
mod receive;
mod refusal;
mod retry;
mod rows;
mod rules;
mod sent;
mod status;
mod timer;
mod view;

pub(crate) use archive::moved_away;
pub use archive::{Archive, ArchiveError, ArchiveReader, ArchivedMessage, Rotation, read_archive, write_csv};
pub use claim::{Channel, Delivery};
pub use complete::{Completion, CompletionResult, Verdict};
pub use due::{Due, Task};
pub(crate) use finish::sent_row;
pub use forward::{Forward, PutBack, Settlement};
pub(crate) use manage::is_named;
pub use manage::{Form, Replacement};
pub use operation::Operation;
pub use outcome::Outcome;
pub use place::Place;
pub(crate) use receipt::civil;
pub use receipt::{NOTIFICATION_ESM_CLASS, RECEIPT_ESM_CLASS, notification, receipt, rfc3339};
pub use receive::{Submission, SubmissionError};
pub use refusal::Refusal;
pub use retry::{Failure, RetryPolicy};
pub(crate) use rows::{encode, queued, scheduled};
pub use rules::Rules;
pub use status::Status;
pub use view::RunPlace;
