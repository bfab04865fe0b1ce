//! What can be wrong with a trace file.

use std::path::{Path, PathBuf};

use fathom_output::{shown, shown_path};

/// What went wrong: which file, where in it, what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: {source}", shown_path(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// The file does not begin as a trace does.
    #[error(
        "{}: not a Fathom trace; `fathom trace import` makes one of .sql files, logs and SQLiteStatements output",
        shown_path(path)
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
    },
    /// A version of the format that this program does not know.
    #[error(
        "{}: is a trace of format version {found}, and this program reads version {known}; use a newer fathom",
        shown_path(path)
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u16,
        /// The newest version that is known.
        known: u16,
    },
    /// Bytes that are not as they were written.
    #[error(
        "{}: corrupt at byte {offset}: {problem}; what stands before is readable, the rest is not: copy it once more from where it came, or capture again",
        shown_path(path)
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the damaged header or chunk begins.
        offset: u64,
        /// What is wrong there.
        problem: String,
    },
    /// The file ends in the middle of a chunk, or without its end mark: its writer was killed, or
    /// the copy is not whole.
    #[error(
        "{}: torn at byte {offset}: {problem}; everything before is readable: copy it once more from where it came, if it was whole there",
        shown_path(path)
    )]
    Torn {
        /// The file.
        path: PathBuf,
        /// Where the unfinished chunk begins.
        offset: u64,
        /// What is missing.
        problem: String,
    },
    /// What was made of the input does not do what it does.
    #[error("{what}: {problem}")]
    Different {
        /// The input.
        what: String,
        /// What is different, and what to do.
        problem: String,
    },
    /// A line of the input cannot be used.
    #[error("{}", shown(&.0.to_string()))]
    Line(fathom_diagnostic::Diagnostic),
    /// Parts of the input cannot be used.
    #[error("{}: {}:{}", shown(what), shown(problem), list_of(lines))]
    Parts {
        /// The input.
        what: String,
        /// What is wrong and what to do.
        problem: String,
        /// The parts, a line each.
        lines: Vec<String>,
    },
    /// The input is readable, and this cannot be done with it.
    #[error("{}: {}", shown(what), shown(problem))]
    Refused {
        /// File, line or statement.
        what: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// A list of which each part has a line of its own, whatever stands in it.
pub(crate) fn list_of(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {}", shown(line))).collect()
}

impl From<fathom_output::OutputError> for TraceError {
    fn from(error: fathom_output::OutputError) -> TraceError {
        match error {
            fathom_output::OutputError::Refused { path, problem } => {
                TraceError::refused(path.display(), problem)
            }
            fathom_output::OutputError::Io { path, source } => TraceError::Io { path, source },
        }
    }
}

impl TraceError {
    /// An error of the operating system about `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> TraceError + '_ {
        move |source| TraceError::Io { path: path.to_owned(), source }
    }

    /// An input that cannot be used.
    pub(crate) fn refused(what: impl std::fmt::Display, problem: impl Into<String>) -> TraceError {
        TraceError::Refused { what: what.to_string(), problem: problem.into() }
    }

    /// A line of an input, from 1, that cannot be used.
    pub(crate) fn line(path: &Path, line: u64, problem: impl Into<String>) -> TraceError {
        TraceError::Line(in_line(&path.display().to_string(), line, problem))
    }
}

/// What is wrong in a line, from 1, whose text is not shown.
pub(crate) fn in_line(file: &str, line: u64, problem: impl Into<String>) -> fathom_diagnostic::Diagnostic {
    fathom_diagnostic::Diagnostic::in_line(file, usize::try_from(line).unwrap_or(usize::MAX), "", problem)
}
