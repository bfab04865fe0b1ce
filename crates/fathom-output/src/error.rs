//! Why an output is not written.

use std::io;
use std::path::{Path, PathBuf};

/// Why an output is not written, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// What the name leads to must not be written to. Nothing was.
    #[error("{}: {problem}", crate::shown_path(path))]
    Refused {
        /// As it was named.
        path: PathBuf,
        /// What it is, and what to do.
        problem: String,
    },
    /// The operating system refused. A regular file is as it was.
    #[error("{}: {source}", crate::shown_path(path))]
    Io {
        /// As it was named.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

impl OutputError {
    pub(crate) fn refused(path: &Path, problem: impl Into<String>) -> OutputError {
        OutputError::Refused { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> OutputError + '_ {
        move |source| OutputError::Io { path: path.to_owned(), source }
    }
}
