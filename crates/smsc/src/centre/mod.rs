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
mod receipt;
mod receive;
mod retry;
mod sent;
mod timer;
mod view;

pub use archive::{Archive, ArchiveError, ArchiveReader, ArchivedMessage, Rotation, read_archive, write_csv};
pub use claim::{Channel, Delivery};
pub use complete::{Completion, CompletionResult, Verdict};
pub use due::{Due, Task};
pub(crate) use finish::sent_row;
pub use forward::{Forward, PutBack, Settlement};
pub use manage::{Refusal, Replacement, Status};
pub use operation::{Operation, Outcome, Rules};
pub(crate) use receipt::civil;
pub use receipt::{NOTIFICATION_ESM_CLASS, RECEIPT_ESM_CLASS, notification, receipt, rfc3339};
pub use receive::{Submission, SubmissionError};
pub(crate) use receive::{encode, queued, scheduled};
pub use retry::{Failure, RetryPolicy};
pub use timer::Place;
pub use view::RunPlace;
