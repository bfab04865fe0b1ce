//! results.db: what one `fathom run` measured, raw, in one SQLite file.
//!
//! The schema is `schema.sql` beside this file. [`Writer`] makes and fills such a file, one
//! transaction a run, so that a run is in the file whole or not at all; [`Results`] reads it. A
//! file that is not ours, is damaged, or was written by a later Fathom is never written to. Whoever
//! adds runs to a file holds its [`Lock`]; every run has a checksum, and one that is not as it was
//! written is never reported as a measurement.

mod checksum;
mod error;
mod excerpt;
mod json;
mod lock;
mod plain_names;
mod read;
mod rows;
mod shape;
mod write;

#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use lock::Lock;
pub use read::Results;
pub use rows::{
    BlockRow, CellRow, CutFinding, CutRow, ExperimentRow, IoOfRun, ModelOfRun, PhaseOfRun, RunRecord, RunRow,
    RunStatus, TraceOfRun, TraceRecord, TraceSource, VerifiedRow, Warning, WarningRow,
};
#[cfg(test)]
use write::beside;
pub use write::{Writer, check_new};

/// `PRAGMA user_version` of the files this Fathom writes.
pub const VERSION: i64 = 14;

/// `PRAGMA application_id` of every results file: `FATM`.
pub const APPLICATION_ID: i64 = 0x4641_544D;

const SCHEMA: &str = include_str!("schema.sql");
