//! What goes wrong in a store.

/// A store that failed. What the centre refuses is no error but an [`crate::centre::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("{path}: another process has this store open; wait until it has ended")]
    Busy {
        /// The directory.
        path: String,
    },
    /// A commit failed that several operations shared.
    #[error("{message}")]
    Group {
        /// In the words of its error.
        message: String,
        /// Whether that was a full disk.
        is_full_disk: bool,
    },
    /// mmdb refused or failed.
    #[error("mmdb: {0}")]
    Mmdb(#[from] mmdb::Error),
    /// SQLite refused or failed.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL cannot be started.
    #[error("PostgreSQL: {0}")]
    Server(#[from] postgresql_server::ServerError),
    /// PostgreSQL refused or failed.
    #[error("PostgreSQL: {message} (SQLSTATE {sqlstate})")]
    Postgresql {
        /// Five characters that name the kind of error.
        sqlstate: String,
        /// In the server's words.
        message: String,
    },
    /// A server that is connected says nothing.
    #[error(
        "{place}: the server has not answered for {seconds} s, although it is connected: it was stopped, is cut off, or \
         somebody has locked a table; what was under way may have been done or not; start again when it answers, and \
         what is in the store is gone on with"
    )]
    Silent {
        /// The URL, without a password; the directory of a private server.
        place: String,
        /// How long a server may take.
        seconds: f32,
    },
    /// A server that is there already, or what is on it, will not do.
    #[error("{place}: {problem}")]
    Refused {
        /// The URL, without a password.
        place: String,
        /// What is wrong, and what helps.
        problem: String,
    },
    /// There is no store where one was to be opened.
    #[error("{path}: {what}")]
    NoStore {
        /// The directory.
        path: String,
        /// What is there instead.
        what: &'static str,
    },
    /// What a store logs was decided when it was made.
    #[error(
        "{path}: the store keeps to what it was made with: it leaves out of its log {found} (asked for: {asked}); open it without asking"
    )]
    Logs {
        /// The directory.
        path: String,
        /// What it leaves out, or "nothing".
        found: String,
        /// What was asked for.
        asked: String,
    },
    /// More sessions are asked for than the store can have.
    #[error("{store}: {asked} sessions are needed, but {most}; take fewer --threads ({for_each})")]
    TooManySessions {
        /// The store's name.
        store: &'static str,
        /// How many are needed.
        asked: usize,
        /// How many there can be, and why.
        most: String,
        /// What a session is for.
        for_each: &'static str,
    },
    /// A row does not hold what the model says.
    #[error(
        "column {column} of a row holds no {expected}: the store was written by another version or is damaged"
    )]
    Row {
        /// Column, from 0.
        column: usize,
        /// What should be there.
        expected: &'static str,
    },
    /// A file of the store has been taken away while it is open.
    #[error(
        "{path} was deleted, moved or replaced while it was in use: what was written last is in no file that a start \
         would find, and was not acknowledged"
    )]
    Gone {
        /// The file or directory.
        path: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The store was given up ([`crate::store::Store::abandon`]).
    #[error("the store was given up while it had not answered")]
    Abandoned,
    /// The thread that writes has ended, and nobody commits any more.
    #[error("the thread that writes to the store has ended, and not as it should: its message is above")]
    WriterEnded,
    /// The tables contradict each other.
    #[error("the store contradicts itself: {0}; see `smsc check`")]
    Inconsistent(String),
    /// The store does not keep to its own protocol.
    #[error("internal: {0}")]
    Protocol(String),
}

impl StoreError {
    /// Whether a disk had no space left for the store, or a quota was used up.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        match self {
            StoreError::Group { is_full_disk, .. } => *is_full_disk,
            StoreError::Mmdb(error) => is_full_disk_of_mmdb(error),
            StoreError::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            StoreError::Server(error) => error.is_full_disk,
            StoreError::Postgresql { sqlstate, .. } => sqlstate == postgresql_server::DISK_FULL,
            StoreError::Io { source, .. } => is_full(source),
            _ => false,
        }
    }

    /// Whether it was the machine, and not what the store holds: another process has it, memory,
    /// files, processes or a program are missing, or a server did not answer in time.
    #[must_use]
    pub fn is_of_the_machine(&self) -> bool {
        match self {
            StoreError::Busy { .. } | StoreError::Silent { .. } => true,
            StoreError::Mmdb(mmdb::Error::OutOfMemory { .. }) => true,
            StoreError::Mmdb(mmdb::Error::Io { source, .. }) => postgresql_server::is_want(source),
            StoreError::Sqlite(error) => error.sqlite_error().is_some_and(|error| {
                use rusqlite::ffi::{SQLITE_IOERR_NOMEM, SQLITE_NOMEM};
                [SQLITE_NOMEM, SQLITE_IOERR_NOMEM].contains(&error.extended_code)
            }),
            StoreError::Server(error) => error.is_of_the_machine,
            StoreError::Postgresql { sqlstate, .. } => postgresql_server::is_want_state(sqlstate),
            StoreError::Io { source, .. } => postgresql_server::is_want(source),
            _ => false,
        }
    }

    /// The same for each operation that shared what failed.
    pub(crate) fn of_group(&self) -> StoreError {
        StoreError::Group { message: self.to_string(), is_full_disk: self.is_full_disk() }
    }

    pub(crate) fn row(column: usize, expected: &'static str) -> StoreError {
        StoreError::Row { column, expected }
    }

    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.display().to_string();
        |source| StoreError::Io { path, source }
    }

    /// A database in `path` that is not one of messages.
    pub(crate) fn foreign(path: &std::path::Path) -> StoreError {
        let what = "the database there has no tables of messages: another program made it, or its making was cut off";
        StoreError::NoStore { path: path.display().to_string(), what }
    }

    pub(crate) fn protocol(what: impl Into<String>) -> StoreError {
        StoreError::Protocol(what.into())
    }

    pub(crate) fn inconsistent(what: impl Into<String>) -> StoreError {
        StoreError::Inconsistent(what.into())
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn is_full_disk_of_mmdb(error: &mmdb::Error) -> bool {
    match error {
        mmdb::Error::DiskFull { .. } => true,
        mmdb::Error::Io { source, .. } => is_full(source),
        // All that these keep of the system's error is its words.
        mmdb::Error::LogFull { cause, .. }
        | mmdb::Error::Poisoned { cause }
        | mmdb::Error::Indeterminate { cause, .. } => [libc::ENOSPC, libc::EDQUOT]
            .into_iter()
            .any(|code| cause.contains(&std::io::Error::from_raw_os_error(code).to_string())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a store that could not be opened for want of memory, of files or of a
    /// server's answer was said to be damaged by a power cut.
    #[test]
    fn what_the_machine_has_not_is_told_from_what_a_store_holds() {
        let io = |code| StoreError::io(std::path::Path::new("/x"))(std::io::Error::from_raw_os_error(code));
        let mmdb = |code| {
            let source = std::sync::Arc::new(std::io::Error::from_raw_os_error(code));
            StoreError::Mmdb(mmdb::Error::Io { op: "open", file: "/x".into(), source })
        };
        for (code, is_of_it) in
            [(libc::EMFILE, true), (libc::ENOMEM, true), (libc::EIO, false), (libc::ENOENT, false)]
        {
            assert_eq!(
                [io(code), mmdb(code)].map(|error| error.is_of_the_machine()),
                [is_of_it; 2],
                "{code}"
            );
        }
        let refused =
            |sqlstate: &str| StoreError::Postgresql { sqlstate: sqlstate.into(), message: String::new() };
        let of_it =
            ["53200", "53300", "57P03", "53100", "XX001"].map(|code| refused(code).is_of_the_machine());
        assert_eq!(of_it, [true, true, true, false, false]);
        let sqlite = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            StoreError::from(error).is_of_the_machine()
        };
        // No memory for a page, or for a file's index; a page that is damaged.
        assert_eq!([7, 3082, 11].map(sqlite), [true, true, false]);
        assert!(StoreError::Busy { path: "/x".into() }.is_of_the_machine());
        assert!(!StoreError::inconsistent("x").is_of_the_machine());
    }

    /// What happened: only the words of a message told that a disk was full, and text that came
    /// with the work could have the same.
    #[test]
    fn a_full_disk_is_told_by_the_kind_of_the_error() {
        let io = |code| StoreError::io(std::path::Path::new("/x"))(std::io::Error::from_raw_os_error(code));
        let postgresql = |sqlstate: &str| {
            let message = "No space left on device".into();
            StoreError::Postgresql { sqlstate: sqlstate.into(), message }
        };
        let sqlite =
            |code| StoreError::Sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        let log = |cause: String| StoreError::Mmdb(mmdb::Error::LogFull { dir: "/x".into(), cause });
        let cause = std::io::Error::from_raw_os_error(libc::ENOSPC).to_string();
        for (error, is_full) in [
            (io(libc::ENOSPC), true),
            (io(libc::EDQUOT), true),
            (io(libc::EIO), false),
            (postgresql("53100"), true),
            (postgresql("42P01"), false),
            (sqlite(rusqlite::ffi::SQLITE_FULL), true),
            (sqlite(rusqlite::ffi::SQLITE_IOERR), false),
            (log(format!("/x/log-1: {cause}")), true),
            (log("the log holds 8 MiB, as much as Options::max_log_bytes allows".into()), false),
            (StoreError::protocol("disk is full"), false),
        ] {
            assert_eq!(error.is_full_disk(), is_full, "{error}");
            let shared = error.of_group();
            assert_eq!((shared.is_full_disk(), shared.to_string()), (is_full, error.to_string()));
        }
    }
}
