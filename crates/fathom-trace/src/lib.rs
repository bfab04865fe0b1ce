//! SQL traces: what an application asked of SQLite, call by call, so that it can be looked at, made anonymous and replayed.
//!
//! Start reading at [`model`], which says what a trace holds. [`format`] keeps it in a file (`docs/format.md` gives every
//! byte).

pub mod error;
pub mod format;
pub mod model;
pub mod wire;

pub use error::TraceError;
pub use format::{Reader, Writer};
