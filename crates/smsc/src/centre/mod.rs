//! The centre: its transactions, written once against [`crate::store::Transaction`].
//!
//! | paper | here |
//! |---|---|
//! | Receiver | [`Operation::Receive`] |
//! | Sender | [`Operation::Claim`], then [`Operation::Complete`] |
//! | Scheduled Message Timer | [`Operation::ReleaseScheduled`], [`Operation::Expire`] |
//! | Notifier / Retry | [`Operation::Alert`], [`Operation::WakeDue`] |
//! | Flusher | [`Operation::NextSent`], the [`Archive`], [`Operation::DropSent`] |
//!
//! Besides them query, cancel, replace, accounts, what a restart needs, and what is due next.

mod account;
mod archive;
mod claim;
mod complete;
mod due;
mod finish;
mod flush;
mod lookup;
mod manage;
mod operation;
mod rebuild;
mod receipt;
mod receive;
mod recover;
mod retry;
mod timer;

pub use archive::{Archive, ArchiveError, ArchiveReader, Archived, read_archive};
pub use claim::Delivery;
pub use complete::{Completed, Completion, Verdict};
pub use due::{Due, Task};
pub use flush::flush;
pub use lookup::status;
pub use manage::{Refusal, Replacement, Status};
pub use operation::{Operation, Outcome, Rules};
pub use receipt::{RECEIPT_ESM_CLASS, receipt};
pub(crate) use receive::encode;
pub use receive::{Submission, SubmissionError};
pub use recover::{Recovered, recover};
pub use retry::{Failure, RetryPolicy};
pub use timer::Place;
