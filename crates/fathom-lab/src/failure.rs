//! What kind of thing made a run fail: whether it says anything of the settings.

use fathom_ground::system::is_full_disk;
use fathom_workload::engine::EngineError;
use fathom_workload::workload::WorkloadError;
use serde::{Deserialize, Serialize};

/// Why a run failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A connection was refused a lock that another one of the same application holds.
    Locked,
    /// The work was done and its result is wrong.
    Differs,
    /// The engine refused a setting or a statement.
    Engine,
    /// There was no space left where it worked.
    Full,
    /// There was no space left where its stack was to be made.
    NoRoom,
    /// The disk failed.
    Storage,
    /// The workload was asked wrongly.
    Asked,
    /// The machine did not do its part: the stack, its device, the worker's process, the time.
    #[default]
    Machine,
}

/// What a refused lock says of the settings: which of Fathom's own statements found it out does not
/// concern who reads it.
pub const LOCKED: &str =
    "while one of its connections has the database, another one cannot use it (database is locked)";

/// SQLite's result codes, <https://sqlite.org/rescode.html>.
mod code {
    pub const BUSY: i32 = 5;
    pub const LOCKED: i32 = 6;
    pub const NOMEM: i32 = 7;
    pub const IOERR: i32 = 10;
    pub const FULL: i32 = 13;
}

impl FailureKind {
    /// Whether it is the settings that do not go with the work.
    #[must_use]
    pub fn is_of_settings(self) -> bool {
        matches!(self, FailureKind::Locked | FailureKind::Differs | FailureKind::Engine)
    }

    /// Of a failure that was written down without its kind, by its words.
    #[must_use]
    pub fn of_message(message: &str) -> FailureKind {
        let has = |words: &[&str]| words.iter().any(|words| message.contains(words));
        match message {
            _ if has(&["database is locked"]) => FailureKind::Locked,
            // Traces of profiles are made up there, which is none of the places that it works in.
            _ if message.starts_with("/dev/shm: ") => FailureKind::Storage,
            _ if has(&["no space left (or a quota", "no space for an image"]) => FailureKind::NoRoom,
            _ if has(&["disk is full", "No space left"]) => FailureKind::Full,
            _ if has(&["disk I/O error"]) => FailureKind::Storage,
            _ if message.starts_with("verification failed") => FailureKind::Differs,
            _ if message.starts_with("engine ") => FailureKind::Engine,
            _ => FailureKind::Machine,
        }
    }
}

impl From<&EngineError> for FailureKind {
    fn from(error: &EngineError) -> FailureKind {
        match error.code & 0xff {
            code::BUSY | code::LOCKED => FailureKind::Locked,
            code::FULL => FailureKind::Full,
            code::IOERR => FailureKind::Storage,
            code::NOMEM => FailureKind::Machine,
            _ => FailureKind::Engine,
        }
    }
}

impl From<&WorkloadError> for FailureKind {
    fn from(error: &WorkloadError) -> FailureKind {
        match error {
            WorkloadError::Parameter { .. } | WorkloadError::Unknown { .. } => FailureKind::Asked,
            WorkloadError::Engine(error) => error.into(),
            WorkloadError::Verification(_) => FailureKind::Differs,
            WorkloadError::Io { source, .. } if is_full_disk(source) => FailureKind::Full,
            WorkloadError::Io { .. } => FailureKind::Storage,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn the_kind_is_that_of_the_error_and_not_of_its_words() {
        let engine = |code| {
            // Words that a schema may have as well.
            let message = "no such table: \"disk is full\"".to_owned();
            WorkloadError::Engine(EngineError { subject: "`SELECT`".into(), message, code })
        };
        let file = |code| {
            let source = std::io::Error::from_raw_os_error(code);
            WorkloadError::Io { path: "/x/disk is full".into(), source }
        };
        // What a store of the SMS centre says has no number of the system's.
        let store = |kind| {
            let source = std::io::Error::new(kind, "PostgreSQL: could not extend file (SQLSTATE 53100)");
            WorkloadError::Io { path: "/x/receive-1".into(), source }
        };
        for (error, kind) in [
            (engine(1), FailureKind::Engine),
            (engine(5), FailureKind::Locked),
            (engine(517), FailureKind::Locked),
            (engine(13), FailureKind::Full),
            (engine(10 | 3 << 8), FailureKind::Storage),
            (file(libc::ENOSPC), FailureKind::Full),
            (file(libc::EDQUOT), FailureKind::Full),
            (store(ErrorKind::StorageFull), FailureKind::Full),
            (store(ErrorKind::Other), FailureKind::Storage),
            (file(libc::EIO), FailureKind::Storage),
            (WorkloadError::Verification("rows of `database is locked`".into()), FailureKind::Differs),
        ] {
            assert_eq!(FailureKind::from(&error), kind, "{error}");
        }
    }

    #[test]
    fn failures_of_before_have_their_kind_by_their_words() {
        for (message, kind) in [
            ("engine sqlite: PRAGMA x: database is locked", FailureKind::Locked),
            ("engine sqlite: COMMIT: database or disk is full", FailureKind::Full),
            ("/x/w.db: No space left on device (os error 28)", FailureKind::Full),
            ("/dev/shm: No space left on device (os error 28)", FailureKind::Storage),
            ("directory /x: no space left (or a quota is used up): free some space", FailureKind::NoRoom),
            ("engine sqlite: COMMIT: disk I/O error", FailureKind::Storage),
            ("verification failed: rows differ", FailureKind::Differs),
            ("engine sqlite: no such table: t", FailureKind::Engine),
            ("fathom device-server has not answered for 30s", FailureKind::Machine),
        ] {
            assert_eq!(FailureKind::of_message(message), kind, "{message}");
        }
    }
}
