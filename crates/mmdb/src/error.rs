//! What can go wrong, in words that name the table, key and constraint, or the file and offset.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The result of every fallible call of this crate.
///
/// ```
/// fn rows(db: &mmdb::Database, table: &str) -> mmdb::Result<usize> {
///     let t = db.table(table)?;
///     Ok(db.begin()?.scan(&t)?.count())
/// }
/// assert!(rows(&mmdb::Database::in_memory()?, "missing").is_err());
/// # Ok::<(), mmdb::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
///
/// [`Error::is_retryable`] tells which errors go away when the transaction is run again;
/// [`crate::Database::run`] does that by itself.
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(
/// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
/// # )?;
/// use mmdb::{Error, Value};
/// let mut tx = db.begin()?;
/// let e = tx.insert(&t, &[1.into(), "ten".into()]).unwrap_err();
/// assert!(matches!(&e, Error::Value { table, column, .. } if table == "t" && column == "n"));
/// assert_eq!(e.to_string(), "table t, column n: text where Int64 is declared");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The named table does not exist, or was dropped after the handle was made.
    #[error("table {table}: no such table")]
    NoSuchTable {
        /// Table name.
        table: String,
    },
    /// A table of that name is already there.
    #[error("table {table}: already exists")]
    TableExists {
        /// Table name.
        table: String,
    },
    /// A column was dropped since the handle was made, or columns are where others were.
    #[error(
        "table {table}: its columns have changed since this handle was made; get a new one from Database::table"
    )]
    TableChanged {
        /// Table name, as the handle knew it.
        table: String,
    },
    /// A table is there, but not as it was to be.
    #[error("table {table} is there, and differs: {}", .differences.join("; "))]
    SchemaDiffers {
        /// Table name.
        table: String,
        /// What differs, in words.
        differences: Vec<String>,
    },
    /// The table has no such column.
    #[error("table {table}: no column {column}")]
    NoSuchColumn {
        /// Table name.
        table: String,
        /// Column name or position.
        column: String,
    },
    /// The table has no such index.
    #[error("table {table}: no index {index}")]
    NoSuchIndex {
        /// Table name.
        table: String,
        /// Index name.
        index: String,
    },
    /// The definition of a table contradicts itself or exceeds a limit.
    #[error("table {table}: {reason}")]
    Schema {
        /// Table name.
        table: String,
        /// What is wrong.
        reason: String,
    },
    /// An option of [`crate::Options`] is out of its range, or contradicts another one.
    #[error("Options::{option} {reason}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// What it has to be.
        reason: String,
    },
    /// The table cannot do what was asked of it, because of how it is defined or what it holds now.
    #[error("table {table}: cannot {operation}: {reason}")]
    Operation {
        /// Table name.
        table: String,
        /// What was asked, as a verb with its object.
        operation: &'static str,
        /// Why not.
        reason: String,
    },
    /// The database as a whole cannot do what was asked, because of how it was opened.
    #[error("cannot {operation}: {reason}")]
    Unsupported {
        /// What was asked, as a verb with its object.
        operation: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A row is longer than a container can hold.
    #[error("table {table}: a row of {bytes} bytes exceeds the {max} that a container holds")]
    RowTooLarge {
        /// Table name.
        table: String,
        /// Length of the row, bytes.
        bytes: u64,
        /// Longest row possible, bytes.
        max: u64,
    },
    /// A unique constraint would be violated.
    #[error("table {table}, constraint {constraint}: key {key} is already present")]
    DuplicateKey {
        /// Table name.
        table: String,
        /// Name of the unique index, `primary` for the primary key.
        constraint: String,
        /// The key, as text.
        key: String,
    },
    /// A value does not fit its column.
    #[error("table {table}, column {column}: {reason}")]
    Value {
        /// Table name.
        table: String,
        /// Column name.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// Wait-die chose this transaction as the victim, or the lock policy forbids waiting. Run it
    /// again.
    #[error("table {table}, key {key}: lock held by another transaction; run the transaction again")]
    Deadlock {
        /// Table name.
        table: String,
        /// What was to be locked, as text.
        key: String,
    },
    /// Somebody kept a lock for longer than [`crate::Options::lock_timeout`], or
    /// [`crate::Database::run`] gave way [`crate::Options::max_runs`] times. Nothing was changed.
    #[error(
        "table {table}, key {key}: not free after {} ms and {runs} run{} of this transaction; commit or drop the \
         transaction that holds it, or raise Options::lock_timeout or Options::max_runs",
        .wait.as_millis(), if *.runs == 1 { "" } else { "s" }
    )]
    LockTimeout {
        /// Table name.
        table: String,
        /// What was to be locked, as text.
        key: String,
        /// Time from the first refusal or from the beginning of the wait until now.
        wait: Duration,
        /// How often the transaction was run.
        runs: u32,
    },
    /// A row of a table without locking changed between the operation and the commit. Run it again.
    #[error("table {table}, key {key}: changed by another transaction; run the transaction again")]
    Conflict {
        /// Table name.
        table: String,
        /// The key, as text.
        key: String,
    },
    /// With this change the transaction's frame would be larger than a log segment can hold. The
    /// change was not made; the transaction goes on, and may commit what it has.
    #[error(
        "transaction of {bytes} log bytes exceeds the {max} that a segment holds; commit in smaller parts, or raise \
         Options::segment_bytes"
    )]
    TransactionTooLarge {
        /// Size of the frame, bytes.
        bytes: u64,
        /// Largest frame possible, bytes.
        max: u64,
    },
    /// The memory limit is reached; nothing was changed. Rows can still be deleted, and what that
    /// frees be used again. Memory is taken in pieces (a container has up to 64 KiB), and the last
    /// sixteenth of the limit, and at most 512 KiB more, is kept for rows that take the place of
    /// deleted ones: so there may be less in use than the limit.
    #[error(
        "{}: memory limit of {limit} bytes reached ({bytes} in use, up to {} kept for rows in the places of deleted \
         ones, and no room for the next piece); delete rows, drop a table, or raise Options::memory_limit",
        .table.as_ref().map_or_else(|| "transaction".to_owned(), |table| format!("table {table}")), .limit / 8
    )]
    MemoryLimit {
        /// Table that asked for memory; `None` if a transaction's private changes did.
        table: Option<String>,
        /// Bytes in use.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// The system has no memory for another container; nothing was changed.
    #[error("table {table}: the system has no {bytes} bytes of memory left for another container")]
    OutOfMemory {
        /// Table name.
        table: String,
        /// Size of a container, bytes.
        bytes: u64,
    },
    /// The table has as many containers as a table can have; nothing was changed.
    #[error("table {table}: it has {containers} containers, the most that a table can have")]
    TableFull {
        /// Table name.
        table: String,
        /// Containers of the table.
        containers: u32,
    },
    /// The snapshot was given up, because rows that changed since took more memory than
    /// [`crate::Options::snapshot_memory`] allows. Open another one.
    #[error(
        "the snapshot was given up: what changed since it was opened takes more than {limit} bytes; read faster, \
         or raise Options::snapshot_memory"
    )]
    SnapshotExpired {
        /// The limit, bytes.
        limit: u64,
    },
    /// No log segment is ready. The commit was refused before it got a number; nothing was changed.
    #[error("log directory {}: no segment ready ({cause})", .dir.display())]
    LogFull {
        /// Directory of the stream.
        dir: PathBuf,
        /// Why none is ready: `disk full` and the like.
        cause: String,
    },
    /// An earlier write or sync failed. Nothing is acknowledged any more: close and open again.
    #[error("database is poisoned by an earlier failure: {cause}; reopen to recover")]
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// The commit may or may not survive: its flush failed, and reopening decides; or
    /// [`crate::Database::run`] was told not to wait for that any longer
    /// ([`crate::set_wait_check`]).
    #[error("commit {gsn}: outcome unknown, {cause}")]
    Indeterminate {
        /// Number of the commit.
        gsn: u64,
        /// The failure.
        cause: String,
    },
    /// This process was forked from the one that opened the database, and tried to write. Nothing
    /// was written, nothing is changed, and reading goes on.
    #[error(
        "nothing was written: the database belongs to process {process}, which opened it and from which this one was \
         forked, and can only be read here; open it after the fork, in one of the two"
    )]
    Forked {
        /// Number of the process that opened the database.
        process: u32,
    },
    /// Another database is the primary of this lineage now. Nothing is acknowledged here any more;
    /// which of the last commits survive is decided there.
    #[error(
        "deposed: this was the primary of epoch {epoch}, and there is one of epoch {by}; nothing is acknowledged here any \
         more, write there"
    )]
    Deposed {
        /// The epoch that the database was in.
        epoch: u64,
        /// The later one.
        by: u64,
    },
    /// The commit is durable here, and fewer standbys than wanted have acknowledged it in time. It
    /// may come to them yet.
    #[error(
        "commit {gsn} is durable here, and {standbys} of {wanted} standbys have acknowledged it after {} ms; wait \
         longer, or look why they are behind",
        .wait.as_millis()
    )]
    StandbysMissing {
        /// Number of the commit.
        gsn: u64,
        /// How many have it.
        standbys: usize,
        /// How many were to have it.
        wanted: usize,
        /// How long was waited.
        wait: Duration,
    },
    /// The log from a commit on, which a standby needs, may be gone.
    #[error(
        "the log from commit {gsn} to {} was released; begin the standby again from Database::backup_for_standby, \
         with a Database::tail open from before the copy until the standby's own is, or raise \
         Options::tail_log_bytes (or, where the disk was full, Options::tail_log_floor_bytes)",
        .oldest - 1
    )]
    TailLost {
        /// The first commit that is needed.
        gsn: u64,
        /// The first commit that is surely there.
        oldest: u64,
    },
    /// Bytes are not what a [`crate::Tail`] or a [`crate::Position`] gave. Nothing was applied.
    #[error("these are no whole frames or position: {what}; send them again")]
    FramesDamaged {
        /// What is wrong with them.
        what: String,
    },
    /// Frames begin behind the last commit that the standby has. Nothing was applied.
    #[error(
        "the frames begin with commit {gsn}, and the standby needs commit {needed}, or a change of a definition before \
         them, first; open a Database::tail from Standby::position"
    )]
    FramesGap {
        /// The first commit in them.
        gsn: u64,
        /// The first one that the standby does not have.
        needed: u64,
    },
    /// Frames, or a standby, belong to another history. Nothing was applied.
    #[error("{reason}; begin the standby again from Database::backup_for_standby of its primary")]
    FramesForeign {
        /// In what they differ.
        reason: String,
    },
    /// Frames are of a primary that was deposed. Nothing was applied.
    #[error(
        "the primary of epoch {epoch} is deposed, here only epoch {least} and later ones are followed; tell it by \
         Database::depose"
    )]
    FramesOutdated {
        /// The epoch of who sent them.
        epoch: u64,
        /// The least one that is accepted.
        least: u64,
    },
    /// Data that was acknowledged is missing or damaged. The database refuses to open; see
    /// [`crate::salvage`].
    #[error("{} is corrupt at offset {offset}: {what}", .file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// What was found.
        what: String,
    },
    /// Rows or indexes of a table contradict each other or its definition, whatever file they came
    /// from. The database refuses to open; see [`crate::salvage`].
    #[error("table {table} is corrupt: {what}")]
    CorruptTable {
        /// Table name.
        table: String,
        /// What was found.
        what: String,
    },
    /// There is no database in the directory.
    #[error("directory {}: there is no database (no MANIFEST)", .dir.display())]
    NoDatabase {
        /// The directory.
        dir: PathBuf,
    },
    /// A directory is not the one that belongs there: forgotten, missing, another database's,
    /// another stream's, an older copy. Nothing was changed.
    #[error("directory {}: {reason}", .dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A file is not one that a database may use: it has other names, or is a link. Nothing was
    /// changed.
    #[error("{}: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A database cannot be opened for want of room on a disk. Nothing of it is lost.
    #[error(
        "directory {}: its disk is full ({source}), and opening needs about {bytes} bytes more there; free as much, of \
         other files than the database's. Nothing is lost: OfflineDatabase and `mmdb dump` read it as it is",
        .dir.display()
    )]
    DiskFull {
        /// Where room is needed.
        dir: PathBuf,
        /// How much, bytes.
        bytes: u64,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// A call to the operating system failed.
    #[error("{op} {}: {source}", .file.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file.
        file: PathBuf,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// The database is being closed.
    #[error("database is closed")]
    Closed,
    /// What [`crate::set_wait_check`] was given ended a wait. A transaction that waited can only
    /// end, and nothing of it was done.
    #[error("interrupted while waiting for {cause}")]
    Interrupted {
        /// What was waited for.
        cause: &'static str,
    },
    /// This crate contradicts itself. Nothing was changed; report it.
    #[error("{what} (a defect of mmdb)")]
    Internal {
        /// What was found.
        what: String,
    },
}

impl Error {
    /// True if the same transaction, run again from its start, may succeed. [`Error::LockTimeout`]
    /// is not among them: that was tried for long enough.
    ///
    /// ```
    /// use mmdb::Error;
    /// let lock = Error::Deadlock { table: "t".into(), key: "(1)".into() };
    /// let value = Error::DuplicateKey { table: "t".into(), constraint: "primary".into(), key: "(1)".into() };
    /// assert!(lock.is_retryable() && !value.is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Deadlock { .. } | Error::Conflict { .. })
    }

    /// There is no room on the disk, or none for this user.
    pub(crate) fn is_full_disk(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Error::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// This process, or the system, can open no more files: nothing was done to any.
    pub(crate) fn is_for_want_of_files(&self) -> bool {
        use rustix::io::Errno;
        let codes = [Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];
        let lacks = |e: &io::Error| e.raw_os_error().is_some_and(|code| codes.contains(&code));
        matches!(self, Error::Io { source, .. } if lacks(source))
    }

    pub(crate) fn io(op: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_path_buf();
        move |e| Error::Io { op, file, source: Arc::new(e) }
    }

    pub(crate) fn directory(dir: &Path, reason: impl Into<String>) -> Error {
        Error::Directory { dir: dir.to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn file(file: &Path, reason: impl Into<String>) -> Error {
        Error::File { file: file.to_path_buf(), reason: reason.into() }
    }

    pub(crate) fn corrupt_table(table: &str, what: impl Into<String>) -> Error {
        Error::CorruptTable { table: table.to_owned(), what: what.into() }
    }

    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt { file: file.to_path_buf(), offset, what: what.into() }
    }
}
