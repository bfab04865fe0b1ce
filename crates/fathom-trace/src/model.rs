//! What a trace holds.
//!
//! A trace is a sequence of [`Record`]s. Definitions (processes, threads, databases, statements)
//! come before the first event that refers to them; each has a number counted from 0 within its
//! kind. An [`Event`] is one call of SQLite's interface, with the time at which it began and how
//! long it took. Events stand in the order in which the calls *returned*: a call that had to wait
//! for another one's lock comes after it. A [`Lock`] tells what a call read and when it held what
//! others waited for.

/// One record of a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Where the trace comes from; the first record.
    Origin(Origin),
    /// A process begins.
    Process(Process),
    /// A thread's first call.
    Thread(Thread),
    /// A database is met for the first time. Where it brings content, [`Record::Content`] follows.
    Database(Database),
    /// A piece of a database's content.
    Content(Content),
    /// A statement's text, once.
    Statement(Statement),
    /// A call.
    Event(Event),
    /// A lock that a call took or let go; before the call's event.
    Lock(Lock),
    /// A process has ended.
    Exit(Exit),
    /// Calls are missing from here on.
    Loss(Loss),
}

/// Where a trace comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `capture`, `import` or `synthesise`.
    pub how: String,
    /// Command line, file, or profile and seed: for people.
    pub what: String,
    /// Wall clock at time 0, seconds since 1970; 0 where it is not known.
    pub unix_s: u64,
    /// Whether text and blobs are replaced (`fathom trace anonymise`).
    pub anonymised: bool,
}

/// A process of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Number in this trace.
    pub id: u32,
    /// The operating system's number.
    pub pid: u32,
    /// The captured process that forked it.
    pub parent: Option<u32>,
    /// Its program, or what is known of it.
    pub program: String,
    /// SQLite's version there; empty where it is not known.
    pub sqlite: String,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Number in this trace.
    pub id: u32,
    /// Its process.
    pub process: u32,
    /// The operating system's number.
    pub tid: u32,
}

/// A database file, or a database in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Number in this trace.
    pub id: u32,
    /// Path as the application gave it.
    pub path: Vec<u8>,
    /// What it held when it was opened first.
    pub start: Start,
}

/// What a database held when it was opened first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: there was no file, or an empty one.
    Empty,
    /// Nothing: it lives in memory, or is temporary.
    Memory,
    /// The database file, which follows as content.
    Image {
        /// Its length in bytes.
        bytes: u64,
    },
    /// A script of SQL statements that makes it, which follows as content.
    Script {
        /// Its length in bytes.
        bytes: u64,
    },
    /// A generator of this crate makes it: see `synthesise`.
    Generator {
        /// The profile.
        profile: String,
        /// Its seed.
        seed: u64,
        /// Scale of the number of rows, in percent.
        scale_percent: u32,
    },
    /// It is not known, and why.
    Unknown {
        /// The reason: encrypted, not readable, not asked for.
        reason: String,
    },
}

/// A piece of a database's start content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The database.
    pub database: u32,
    /// Where the bytes belong.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A statement's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Number in this trace.
    pub id: u32,
    /// The text as it was prepared.
    pub sql: String,
}

/// One call of SQLite's interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Thread that called.
    pub thread: u32,
    /// Connection concerned: counted from 0 in order of opening.
    pub connection: u32,
    /// When the call began, ns since the trace's time 0.
    pub start_ns: u64,
    /// How long it took, ns. Of several steps in a row: the time inside them.
    pub duration_ns: u64,
    /// What was called.
    pub action: Action,
}

/// A lock on a database's file or write-ahead log that a connection got or lets go, within a call:
/// which state of the database the call reads, and in which order transactions ended. Locks stand
/// in the order in which they were held; the event of the call, with the same connection and a
/// start before `at_ns`, comes after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Thread that called.
    pub thread: u32,
    /// Connection concerned.
    pub connection: u32,
    /// Database concerned.
    pub database: u32,
    /// ns since the trace's time 0.
    pub at_ns: u64,
    /// What became of it.
    pub change: LockChange,
    /// Commits to this database since the trace's time 0: for [`LockChange::Read`] those that are
    /// seen, for a write that ends with a commit those with this one; else 0.
    pub commits: u64,
}

/// What becomes of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange {
    /// Reading begins: SHARED, or a snapshot of the write-ahead log.
    Read,
    /// Writing begins: RESERVED, or the write lock of the write-ahead log.
    Write,
    /// Nobody else may read: EXCLUSIVE.
    Exclusive,
    /// Writing ends.
    WriteEnd {
        /// Whether the database is changed.
        is_commit: bool,
    },
    /// Reading ends.
    ReadEnd,
}

/// What was called, and what came of it. `handle` numbers the prepared statements of a connection,
/// from 0; a number is used again only after it was finalised.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `sqlite3_open_v2`.
    Open {
        /// What was opened.
        database: u32,
        /// `SQLITE_OPEN_…` bits.
        flags: u32,
        /// Name of the VFS; empty for the default.
        vfs: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// `sqlite3_prepare_v3` and its kin.
    Prepare {
        /// The prepared statement.
        handle: u32,
        /// Its text.
        statement: u32,
        /// What came of it.
        outcome: Outcome,
    },
    /// `sqlite3_bind_…`.
    Bind {
        /// The prepared statement.
        handle: u32,
        /// Parameter, from 1.
        index: u32,
        /// Its value.
        value: Value,
    },
    /// `sqlite3_clear_bindings`.
    ClearBindings {
        /// The prepared statement.
        handle: u32,
    },
    /// `sqlite3_step`, once or several times with no other call on the connection between.
    Step(Step),
    /// `sqlite3_reset`.
    Reset {
        /// The prepared statement.
        handle: u32,
    },
    /// `sqlite3_finalize`.
    Finalize {
        /// The prepared statement.
        handle: u32,
    },
    /// `sqlite3_close`.
    Close {
        /// What came of it.
        outcome: Outcome,
    },
    /// A setting made by a call instead of a PRAGMA.
    Setting {
        /// Which one.
        setting: Setting,
        /// Its value.
        value: i64,
    },
    /// `sqlite3_wal_checkpoint_v2`.
    Checkpoint {
        /// Schema; empty for all.
        schema: String,
        /// `SQLITE_CHECKPOINT_…`.
        mode: u32,
        /// What came of it.
        outcome: Outcome,
    },
    /// The ATTACH statement whose [`Action::Step`] follows attaches this database.
    Attach {
        /// The schema's name.
        schema: String,
        /// What is attached.
        database: u32,
    },
    /// Something that a replay cannot do again by itself.
    Foreign(Foreign),
    /// A call of incremental blob I/O: `sqlite3_blob_open` and its kin.
    Blob(Blob),
}

/// A call on an incremental blob. Blobs of a connection are numbered from 0; a number is used again
/// only after it was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The blob.
    pub blob: u32,
    /// What was called.
    pub call: BlobCall,
    /// Whether a transaction that was begun by a statement is open afterwards. A blob that is open
    /// for writing outside of one holds its own until it is closed.
    pub in_transaction: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// A call on an incremental blob with what it was given. Offsets and lengths are C's `int`, and may
/// be wrong: the call then failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobCall {
    /// `sqlite3_blob_open`.
    Open {
        /// Schema; empty where none was named.
        schema: String,
        /// Table.
        table: String,
        /// Column.
        column: String,
        /// Row.
        row: i64,
        /// Whether it is opened for writing.
        writes: bool,
        /// Its length (`sqlite3_blob_bytes`); 0 where it could not be opened.
        bytes: u64,
    },
    /// `sqlite3_blob_read`.
    Read {
        /// From which byte.
        offset: i64,
        /// How many bytes.
        bytes: i64,
    },
    /// `sqlite3_blob_write`.
    Write {
        /// From which byte.
        offset: i64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// `sqlite3_blob_reopen`: the same column of another row.
    Reopen {
        /// Row.
        row: i64,
        /// Its length; 0 where it could not be opened.
        bytes: u64,
    },
    /// `sqlite3_blob_close`.
    Close,
}

/// Steps of one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The prepared statement.
    pub handle: u32,
    /// Whether an execution begins here (it was prepared, or was at rest).
    pub begins: bool,
    /// Whether rows and changes are known: an imported log does not tell them.
    pub is_counted: bool,
    /// Rows that these steps returned.
    pub rows: u64,
    /// Rows changed (`sqlite3_changes`) by an INSERT, UPDATE or DELETE that ended here; else 0.
    pub changes: u64,
    /// Whether a transaction is open afterwards.
    pub in_transaction: bool,
    /// The last step's result: `SQLITE_ROW` (100), `SQLITE_DONE` (101), an error, or
    /// [`UNFINISHED`].
    pub outcome: Outcome,
}

/// Instead of a result code: the process ended within the call.
pub const UNFINISHED: i32 = -1;

/// Result code of a call, with SQLite's message where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// SQLite's (extended) result code.
    pub code: i32,
    /// SQLite's message; empty where nothing went wrong.
    pub message: String,
}

impl Outcome {
    /// A result without message.
    #[must_use]
    pub fn of(code: i32) -> Outcome {
        Outcome { code, message: String::new() }
    }

    /// Whether the call failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !matches!(self.code, OK | ROW | DONE)
    }
}

/// `SQLITE_OK`.
pub const OK: i32 = 0;
/// `SQLITE_ROW`.
pub const ROW: i32 = 100;
/// `SQLITE_DONE`.
pub const DONE: i32 = 101;

/// A setting made by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `sqlite3_busy_timeout`, ms.
    BusyTimeout,
    /// `sqlite3_wal_autocheckpoint`, pages.
    WalAutocheckpoint,
    /// `sqlite3_db_config` with this `SQLITE_DBCONFIG_…`, off or on.
    DbConfig(u32),
}

/// Something that a replay cannot do again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it is.
    pub kind: ForeignKind,
    /// Name of the function, collation, module or extension, or of the call.
    pub name: String,
}

/// Kinds of [`Foreign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKind {
    /// An SQL function of the application.
    Function,
    /// A collation of the application.
    Collation,
    /// A virtual table module of the application.
    Module,
    /// A loaded extension.
    Extension,
    /// A key was given: the database is encrypted.
    Encryption,
    /// A call that changes data without SQL: backup, deserialise.
    Call,
}

impl ForeignKind {
    /// Its name: `function`, `collation` …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ForeignKind::Function => "function",
            ForeignKind::Collation => "collation",
            ForeignKind::Module => "module",
            ForeignKind::Extension => "extension",
            ForeignKind::Encryption => "encryption",
            ForeignKind::Call => "call",
        }
    }
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process.
    pub process: u32,
    /// Time of its last call, ns since time 0.
    pub at_ns: u64,
    /// Whether it ended by itself; else it was killed, or replaced its program (`exec`).
    pub clean: bool,
}

/// Where the recording of a process ended and the process did not: the disk of the capture was
/// full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The process; none where nothing at all could be recorded of it.
    pub process: Option<u32>,
    /// Time of the last call that was recorded, ns since time 0.
    pub at_ns: u64,
}

/// How the sentence begins that tells of missing calls.
const LOST: &str = "calls are missing in this trace";

impl Loss {
    /// The sentence that tells of so many processes with missing calls.
    #[must_use]
    pub fn sentence(processes: u64) -> String {
        format!(
            "{LOST}: the disk of the capture was full, or the program may write no file as large (ulimit -f), and {processes} \
             processes went on unrecorded; capture again, with --spool DIR on a larger disk, or with a larger limit"
        )
    }

    /// Whether a warning is that sentence.
    #[must_use]
    pub fn is_told_by(warning: &str) -> bool {
        warning.starts_with(LOST)
    }
}

/// A typed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// 64-bit integer.
    Integer(i64),
    /// Double.
    Real(f64),
    /// Text: UTF-8 as a rule, and any bytes an application passes for it.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
    /// That many zero bytes (`sqlite3_bind_zeroblob64`).
    ZeroBlob(u64),
}

impl Value {
    /// Bytes of it: 8 for a number, its length for text and blobs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Value::Null => 0,
            Value::Integer(_) | Value::Real(_) => 8,
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len() as u64,
            Value::ZeroBlob(bytes) => *bytes,
        }
    }
}
