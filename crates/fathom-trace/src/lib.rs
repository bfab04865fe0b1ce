//! SQL traces: what an application asked of SQLite, call by call, so that it can be looked at, made
//! anonymous and replayed.
//!
//! Start reading at [`model`], which says what a trace holds. [`mod@format`] keeps it in a file
//! (`docs/format.md` gives every byte). [`capture`] runs a program with the capture library before
//! its SQLite, and [`spool`] makes one trace of what its processes left. [`import`] makes a trace
//! of logs and scripts, [`synthesise`] makes one up by a profile, [`info`] counts what a trace
//! does, [`anonymise`] makes one to pass on, and [`part`] a shorter one. [`start`] puts its
//! databases back for a replay, [`confine`] keeps what other people's SQL may do to the replay's
//! own files, and [`mod@room`] what it may fill of a disk; [`content`] tells whether two databases
//! hold the same.

pub mod anonymise;
mod assemble;
pub mod capture;
pub mod confine;
pub mod content;
mod dump;
pub mod error;
pub mod file_calls;
pub mod format;
pub mod import;
pub mod info;
pub mod model;
pub mod output;
pub mod part;
mod private;
pub mod reuse;
pub mod room;
pub mod spool;
pub mod sql;
pub mod start;
pub mod synthesise;
mod texts;
pub mod untold;
pub mod wire;

pub use assemble::{Assembler, Execution};
pub use error::TraceError;
pub use format::{Reader, Writer};
pub use start::work_directory;
