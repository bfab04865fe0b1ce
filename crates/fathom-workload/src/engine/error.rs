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
    /// The engine's code (SQLite extended result code, or 0).
    pub code: i32,
}
