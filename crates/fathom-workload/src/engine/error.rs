//! What went wrong in an engine.

/// What went wrong in an engine: which statement or file, what the engine said, and what to do
/// where that is known.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {message}")]
pub struct EngineError {
    /// The statement, file or setting concerned.
    pub subject: String,
    /// The engine's own words, then what to do.
    pub message: String,
    /// SQLite's extended result code; [`DISK_FULL`] of another engine whose disk is full,
    /// [`MACHINE`] of one that the machine kept from working; else 0.
    pub code: i32,
}

/// SQLite's result code of a disk that is full (`SQLITE_FULL`).
pub const DISK_FULL: i32 = 13;

/// SQLite's result code for want of memory (`SQLITE_NOMEM`). Of another engine: it lacked that,
/// processes or files, a program was missing, or it did not answer in time.
pub const MACHINE: i32 = 7;
