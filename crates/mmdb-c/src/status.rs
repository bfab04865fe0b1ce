//! What a call came to.

use mmdb::Error;
use std::ffi::c_char;

/// What a call came to. Numbers do not change; later releases may add some.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_status {
    /// It was done.
    Ok = 0,
    /// A pointer is NULL that may not be, or points to a handle of another kind or one that was
    /// freed; a handle is in use by another thread or has a cursor open; a number stands for
    /// nothing. Nothing was done, and no handle was freed.
    Misuse = 1,
    /// A text is not UTF-8.
    NotText = 2,
    /// There is no such table, or it was dropped.
    NoSuchTable = 3,
    /// There is a table with this name.
    TableExists = 4,
    /// A column was dropped since the table's handle was made: get a new one.
    TableChanged = 5,
    /// The table is there, and defined in another way.
    SchemaDiffers = 6,
    /// The table has no such column.
    NoSuchColumn = 7,
    /// The table has no such index.
    NoSuchIndex = 8,
    /// No table can have this definition.
    Schema = 9,
    /// An option is out of range, or there is none with this name.
    Options = 10,
    /// The operation cannot be done with this table.
    Operation = 11,
    /// This database cannot do it.
    Unsupported = 12,
    /// A row is larger than a container holds.
    RowTooLarge = 13,
    /// Another row has the key.
    DuplicateKey = 14,
    /// A value does not fit its column.
    Value = 15,
    /// Another transaction has the lock: end this one and run it again (mmdb_run does).
    Deadlock = 16,
    /// A lock was not free in time.
    LockTimeout = 17,
    /// Another transaction changed it: end this one and run it again (mmdb_run does).
    Conflict = 18,
    /// The changes do not fit into a segment of the log.
    TransactionTooLarge = 19,
    /// The limit of memory is reached.
    MemoryLimit = 20,
    /// The system has no memory left.
    OutOfMemory = 21,
    /// The table has as many containers as a table can have.
    TableFull = 22,
    /// The snapshot was given up, because too much has changed since it was opened.
    SnapshotExpired = 23,
    /// The log has no room.
    LogFull = 24,
    /// An earlier failure ended all writing: open the database again.
    Poisoned = 25,
    /// Nobody knows whether the commit is durable: open the database again. Do not run it again as
    /// if nothing had been done. The message says if it was only that mmdb_set_wait_check ended the
    /// wait.
    Indeterminate = 26,
    /// A file contradicts itself.
    Corrupt = 27,
    /// There is no database.
    NoDatabase = 28,
    /// A directory is not what it should be.
    Directory = 29,
    /// A file is not what it should be.
    File = 30,
    /// The system refused a read, a write or the like, or somebody else has the database open.
    Io = 31,
    /// The database is closed.
    Closed = 32,
    /// The callback of mmdb_run did not want the transaction to commit.
    Aborted = 33,
    /// A defect of mmdb. Please report it.
    Internal = 34,
    /// What mmdb_set_wait_check was given ended a wait. A transaction that waited can only be
    /// undone: nothing of it was done.
    Interrupted = 35,
}

use mmdb_status as S;

/// Every status, its number and its name.
const NAMES: [(S, &std::ffi::CStr); 36] = [
    (S::Ok, c"ok"),
    (S::Misuse, c"misuse"),
    (S::NotText, c"not text"),
    (S::NoSuchTable, c"no such table"),
    (S::TableExists, c"table exists"),
    (S::TableChanged, c"table changed"),
    (S::SchemaDiffers, c"schema differs"),
    (S::NoSuchColumn, c"no such column"),
    (S::NoSuchIndex, c"no such index"),
    (S::Schema, c"schema"),
    (S::Options, c"options"),
    (S::Operation, c"operation"),
    (S::Unsupported, c"unsupported"),
    (S::RowTooLarge, c"row too large"),
    (S::DuplicateKey, c"duplicate key"),
    (S::Value, c"value"),
    (S::Deadlock, c"deadlock"),
    (S::LockTimeout, c"lock timeout"),
    (S::Conflict, c"conflict"),
    (S::TransactionTooLarge, c"transaction too large"),
    (S::MemoryLimit, c"memory limit"),
    (S::OutOfMemory, c"out of memory"),
    (S::TableFull, c"table full"),
    (S::SnapshotExpired, c"snapshot expired"),
    (S::LogFull, c"log full"),
    (S::Poisoned, c"poisoned"),
    (S::Indeterminate, c"indeterminate"),
    (S::Corrupt, c"corrupt"),
    (S::NoDatabase, c"no database"),
    (S::Directory, c"directory"),
    (S::File, c"file"),
    (S::Io, c"io"),
    (S::Closed, c"closed"),
    (S::Aborted, c"aborted"),
    (S::Internal, c"internal"),
    (S::Interrupted, c"interrupted"),
];

impl From<&Error> for mmdb_status {
    fn from(e: &Error) -> Self {
        match e {
            Error::NoSuchTable { .. } => S::NoSuchTable,
            Error::TableExists { .. } => S::TableExists,
            Error::TableChanged { .. } => S::TableChanged,
            Error::SchemaDiffers { .. } => S::SchemaDiffers,
            Error::NoSuchColumn { .. } => S::NoSuchColumn,
            Error::NoSuchIndex { .. } => S::NoSuchIndex,
            Error::Schema { .. } => S::Schema,
            Error::Options { .. } => S::Options,
            Error::Operation { .. } => S::Operation,
            Error::Unsupported { .. } | Error::Forked { .. } => S::Unsupported,
            Error::RowTooLarge { .. } => S::RowTooLarge,
            Error::DuplicateKey { .. } => S::DuplicateKey,
            Error::Value { .. } => S::Value,
            Error::Deadlock { .. } => S::Deadlock,
            Error::LockTimeout { .. } => S::LockTimeout,
            Error::Conflict { .. } => S::Conflict,
            Error::TransactionTooLarge { .. } => S::TransactionTooLarge,
            Error::MemoryLimit { .. } => S::MemoryLimit,
            Error::OutOfMemory { .. } => S::OutOfMemory,
            Error::TableFull { .. } => S::TableFull,
            Error::SnapshotExpired { .. } => S::SnapshotExpired,
            Error::LogFull { .. } => S::LogFull,
            Error::Poisoned { .. } => S::Poisoned,
            Error::Indeterminate { .. } => S::Indeterminate,
            Error::Corrupt { .. } | Error::CorruptTable { .. } => S::Corrupt,
            Error::NoDatabase { .. } => S::NoDatabase,
            Error::Directory { .. } => S::Directory,
            Error::File { .. } => S::File,
            Error::Io { .. } | Error::DiskFull { .. } => S::Io,
            Error::Closed => S::Closed,
            Error::Interrupted { .. } => S::Interrupted,
            // Errors may be added; one that this does not know yet has its message.
            _ => S::Internal,
        }
    }
}

/// The name of a status, such as "duplicate key"; "unknown" of another number. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn mmdb_status_name(status: i32) -> *const c_char {
    let found = NAMES.iter().find(|(s, _)| *s as i32 == status);
    found.map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// Whether running the transaction again may help: MMDB_STATUS_DEADLOCK, MMDB_STATUS_CONFLICT.
#[unsafe(no_mangle)]
pub extern "C" fn mmdb_status_is_retryable(status: i32) -> bool {
    status == S::Deadlock as i32 || status == S::Conflict as i32
}
