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
    /// A commit failed that several operations shared; in the words of its error.
    #[error("{0}")]
    Group(String),
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
