//! What keeps a power cut from being tried.

use std::io;
use std::path::PathBuf;

/// Why states could not be made or looked at.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The operation log is not one that states can be made from.
    #[error("{}: {problem}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The log of a run lacks something, so that no state can be made.
    #[error(
        "{}: {problem}; the run is not used. All that a run writes is logged there: where there was no \
         room for it, free some, or give another place (TMPDIR, or `fathom cut --record`)",
        path.display()
    )]
    Unlogged {
        /// The log.
        path: PathBuf,
        /// What it lacks and why.
        problem: String,
    },
    /// No space left where what power cuts leave is worked out.
    #[error(
        "{}: the disk is full, and what power cuts leave is worked out there (TMPDIR): free some space there, or give the command \
         again with TMPDIR=DIR, a directory on a larger disk",
        path.display()
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
    },
    /// The stack could not be made or taken down.
    #[error(transparent)]
    Stack(#[from] fathom_stack::StackError),
    /// The database did not do as it was told while it was recorded.
    #[error("{what}: {problem}")]
    Database {
        /// The statement or setting.
        what: String,
        /// What SQLite said.
        problem: String,
    },
    /// The machine kept a database from being opened: no verdict on what a cut left of it.
    #[error(
        "{problem}: so it was each of four times, which is taken for this machine's failure, so that nothing is said of what a power \
         cut leaves{before}; give the command again once it is mended. If it is the same state on a machine at rest, it is the \
         database's own recovery that does not end"
    )]
    Machine {
        /// What was said.
        problem: String,
        /// The worst that was found before, as the sentence goes on; empty where all was kept.
        before: String,
    },
    /// Asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl CutError {
    /// Of a stack that is taken down after its run: nobody is told to look into a log that goes.
    pub(crate) fn taken_down(error: fathom_stack::StackError) -> CutError {
        match error {
            fathom_stack::StackError::Log { path, problem } => CutError::Unlogged { path, problem },
            error => CutError::Stack(error),
        }
    }

    /// Of a directory below the temporary one: its remedy is not that of a stack under test.
    pub(crate) fn of_scratch(error: fathom_stack::StackError) -> CutError {
        match error {
            fathom_stack::StackError::Full { path, .. } => CutError::NoRoom { path },
            error => CutError::Stack(error),
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> CutError {
        let what = what.into();
        move |source| CutError::Io { what, source }
    }

    pub(crate) fn database(what: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> CutError {
        let what = what.into();
        move |error| CutError::Database { what, problem: error.to_string() }
    }

    /// Of a state's number that is beyond them all.
    pub(crate) fn no_such_state(number: usize, states: usize) -> CutError {
        CutError::Usage(match states {
            0 => "this run has no states".into(),
            _ => format!("there is no state {number}: they are 0 to {}", states - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: where TMPDIR was full, a smaller `size_mib` was recommended, which is that of
    /// the file system under test, elsewhere.
    #[test]
    fn a_full_temporary_directory_is_no_full_stack() {
        let full = fathom_stack::StackError::Full { path: "/tmp".into(), has_image: false };
        let told = CutError::of_scratch(full).to_string();
        assert!(told.starts_with("/tmp: ") && told.contains("TMPDIR=DIR"), "{told}");
        assert!(!told.contains("size"), "{told}");
    }
}
