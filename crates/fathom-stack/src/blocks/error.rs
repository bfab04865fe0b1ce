//! Why blocks could not be traced.

use std::io;
use std::path::PathBuf;

/// Why blocks could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Only root may trace.
    #[error("tracing a block device needs root: run with sudo")]
    NeedsRoot,
    /// The device is not the stack's alone.
    #[error(
        "{} is a directory on a device that everybody uses: blocks are traced on stacks with a device of their own (ext4, xfs …)",
        path.display()
    )]
    Shared {
        /// The stack's directory.
        path: PathBuf,
    },
    /// There is no tracefs.
    #[error("this kernel gives no tracefs (CONFIG_FTRACE): {0}")]
    NoTracefs(io::Error),
    /// A file of tracefs could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// This kernel describes its events otherwise than Fathom understands.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The description.
        path: PathBuf,
        /// What is missing.
        problem: String,
    },
}

impl TraceError {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> TraceError {
        let path = path.into();
        move |source| TraceError::Io { what, path, source }
    }
}
