//! The database on which an import compiles and executes what it reads: private, and nothing of it
//! outlives the import.
//!
//! Its connections are [`ConfinedConnection`], as those of a replay; ATTACH attaches another private
//! database, VACUUM INTO writes a file that goes at once, and PRAGMAs that name directories are
//! not executed. Each statement may take a limited number of steps.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, Statement};

use crate::confine::{ConfinedConnection, PRAGMAS, memory_max};
use crate::dump::VirtualTable;
use crate::error::TraceError;
use crate::model::{DONE, Outcome};
use crate::sql::{Attach, Target, Verb, pragma, target_of_vacuum, tokens, vacuum_into, with_pragma_name};

/// PRAGMAs that are not executed here: they name directories, or are about files and locks, which
/// this database does not have.
const NOT_HERE: [&str; 7] =
    ["temp_store", "journal_mode", "locking_mode", "mmap_size", "page_size", "synchronous", "wal_checkpoint"];

/// Above so many bytes of SQL the database is a file: memory is what an import should not need more
/// of the longer its input is.
const IN_MEMORY_BYTES: u64 = 256 << 20;

/// Steps of SQLite's virtual machine that a statement may take where nothing else is asked for:
/// half a minute to a minute of most machines.
pub const STEPS_MAX: u64 = 1_000_000_000;

/// Result codes: `SQLITE_NOMEM`, `SQLITE_INTERRUPT`, `SQLITE_FULL`.
const NO_MEMORY: i32 = 7;
const INTERRUPT: i32 = 9;
const FULL: i32 = 13;

/// Pages that a database may have where no statement has set less; SQLite's default was
/// 1,073,741,823 and is more now.
const LEAST_UNLIMITED: i64 = 1 << 29;

/// Where the private database lies.
pub struct Private {
    name: String,
    flags: OpenFlags,
    /// Keep databases in memory alive, which go with their last connections.
    holders: Vec<ConfinedConnection>,
    /// Holds the file, where it is one.
    place: Option<crate::private::Directory>,
    number: u64,
    attached: HashMap<u32, String>,
    /// Steps that a statement may take.
    steps_max: u64,
}

/// What a text became.
pub enum Compilation<'c> {
    Ready(Statement<'c>),
    /// Not executed here; nothing is known of what it gives.
    NotHere,
    /// ATTACH of a database by its path.
    Attach {
        target: Target,
        schema: String,
    },
    /// VACUUM INTO; byte at which the expression begins that names the file.
    VacuumInto {
        at: usize,
    },
    /// The row of a virtual table in a dump, which a loading script may have.
    VirtualTable(VirtualTable),
    /// No statement: spaces and comments.
    Nothing,
}

/// What is said of it elsewhere.
pub const DUMPED_TABLE: &str = "is how a dump makes a virtual table: that is done where the dump is the loading script of a folder (load.sql), and not while an application runs";

/// Why a text did not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is the beginning of a statement.
    Incomplete,
    /// SQLite's message.
    Wrong(String),
}

impl Fault {
    /// In words.
    #[must_use]
    pub fn problem(self) -> String {
        match self {
            Fault::Incomplete => "is the beginning of a statement (incomplete input)".to_owned(),
            Fault::Wrong(message) => message,
        }
    }
}

/// What came of an execution.
pub struct ExecutionResult {
    /// Rows and changes; none where they were not counted.
    pub counts: Option<(u64, u64)>,
    pub outcome: Outcome,
    /// Why what came of it says nothing about a replay.
    pub unfit: Option<Unfit>,
}

impl ExecutionResult {
    /// What is wrong with it, where nothing may be.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match &self.unfit {
            Some(unfit) => Some(unfit.to_string()),
            None => self.outcome.is_error().then(|| format!("fails: {}", self.outcome.message)),
        }
    }
}

/// Why an execution here says nothing about one in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It took its steps and was stopped.
    Steps(u64),
    /// The private database has no more room, where a replay's would have.
    Full,
    /// It wanted more memory than there is for it here.
    Memory,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Steps(most) => write!(
                f,
                "is not done after {most} steps of SQLite's virtual machine; --max-steps gives it more"
            ),
            Unfit::Full => f.write_str(
                "fills the private database of the import (1 GiB in memory, or what SQL of others may take in the directory for temporary files: TMPDIR)",
            ),
            Unfit::Memory => write!(
                f,
                "wants more memory than SQL of others gets here, {} MiB (half of the machine's, 4 GiB at most)",
                memory_max() >> 20
            ),
        }
    }
}

impl Private {
    /// An empty one for one connection or several, for so many bytes of SQL; or a copy of the file
    /// `start`. A statement may take `steps_max` steps.
    ///
    /// # Errors
    /// A copy that the disk has no room for.
    pub fn new(
        start: Option<&Path>,
        bytes: u64,
        is_shared: bool,
        steps_max: u64,
    ) -> Result<Private, TraceError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut private = Private {
            name: String::new(),
            flags: OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            holders: Vec::new(),
            place: None,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            attached: HashMap::new(),
            steps_max,
        };
        if start.is_some() || (is_shared && bytes > IN_MEMORY_BYTES) {
            let file = private.place()?.join("private.db");
            if let Some(start) = start {
                std::fs::copy(start, &file).map_err(TraceError::io(start))?;
            }
            private.name = file.to_string_lossy().into_owned();
        } else if is_shared {
            private.name = format!("file:/fathom-import-{}-{}?vfs=memdb", std::process::id(), private.number);
            let holder = private.open()?;
            private.holders.push(holder);
        }
        Ok(private)
    }

    /// A connection of it.
    ///
    /// # Errors
    /// A start that is no database.
    pub fn open(&self) -> Result<ConfinedConnection, TraceError> {
        let refused = |error: rusqlite::Error| {
            TraceError::refused("the import's private database", format!("cannot be opened: {error}"))
        };
        let connection = Connection::open_with_flags(&self.name, self.flags).map_err(refused)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(refused)?;
        // What comes of the statements does not depend on any of these. A temporary database is not
        // written at a commit before a quarter of its cache is dirty, and each commit walks through
        // what is dirty: with 32 MiB that was half the time of an import of 300,000 statements.
        let cache_kib = if self.name.is_empty() { 1024 } else { 32 << 10 };
        connection
            .execute_batch(&format!(
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA cache_size = -{cache_kib}"
            ))
            .map_err(refused)?;
        Ok(ConfinedConnection::over(connection).limit_steps(self.steps_max))
    }

    /// Attaches the private database with this number to a connection: a copy of the file `start`,
    /// or empty, at first, and the same for all that attach it.
    ///
    /// # Errors
    /// A copy that the disk has no room for.
    pub fn attach(
        &mut self,
        connection: &ConfinedConnection,
        schema: &str,
        database: u32,
        start: Option<&Path>,
    ) -> Result<ExecutionResult, TraceError> {
        if !self.attached.contains_key(&database) {
            let name = if let Some(start) = start {
                let file = self.place()?.join(format!("attached-{database}.db"));
                std::fs::copy(start, &file).map_err(TraceError::io(start))?;
                file.to_string_lossy().into_owned()
            } else {
                let number = self.number;
                format!("file:/fathom-import-{}-{number}-{database}?vfs=memdb", std::process::id())
            };
            if let Ok(holder) = Connection::open_with_flags(&name, self.flags) {
                self.holders.push(ConfinedConnection::over(holder));
            }
            self.attached.insert(database, name);
        }
        let attached = connection.attach(&self.attached[&database], schema);
        let outcome = attached.err().map_or(Outcome::of(DONE), |error| outcome_of(&error));
        Ok(ExecutionResult { counts: None, outcome, unfit: None })
    }

    /// Executes a VACUUM INTO, whose file's name begins at byte `at`, into a file that goes at
    /// once.
    ///
    /// # Errors
    /// No directory for temporary files.
    pub fn vacuum_into(
        &mut self,
        connection: &ConfinedConnection,
        sql: &str,
        at: usize,
    ) -> Result<ExecutionResult, TraceError> {
        let file = self.place()?.join("vacuum-into.db");
        let name = file.to_string_lossy();
        let done = connection.allowing(&name, || match connection.prepare(&vacuum_into(sql, at, &name)) {
            Ok(mut statement) => execute(connection, &mut statement, Verb::Schema),
            Err(error) => ExecutionResult {
                counts: None,
                outcome: outcome_of(&error),
                unfit: unfit(connection, &error),
            },
        });
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TraceError::io(&file)(error)),
            _ => Ok(done),
        }
    }

    /// The directory of its files.
    fn place(&mut self) -> Result<PathBuf, TraceError> {
        if self.place.is_none() {
            self.place = Some(crate::private::directory("fathom-import-", &std::env::temp_dir())?);
        }
        Ok(self.place.as_ref().map(|place| place.path().to_owned()).unwrap_or_default())
    }
}

/// Compiles one statement, with or without its semicolon.
///
/// # Errors
/// It does not compile.
pub fn compile<'c>(connection: &'c ConfinedConnection, sql: &str) -> Result<Compilation<'c>, Fault> {
    let wrong = |problem: &str| Fault::Wrong(problem.to_owned());
    connection.begin_statement();
    let mut words = tokens(sql).filter(|token| !token.is_blank());
    match words.next() {
        None => return Ok(Compilation::Nothing),
        Some(word) if word.is("attach") => {
            return match Attach::of(sql) {
                Some(Attach { target: Target::File(_) | Target::Memory, schema }) if schema.is_empty() => {
                    Err(wrong(
                        "under which name it attaches cannot be told from the text; write the name, or capture the application",
                    ))
                }
                Some(Attach { target: target @ (Target::File(_) | Target::Memory), schema }) => {
                    Ok(Compilation::Attach { target, schema })
                }
                _ => Err(wrong(
                    "which file it attaches cannot be told from the text; write the file, or capture the application",
                )),
            };
        }
        Some(word) if word.is("vacuum") => {
            if let Some(at) = target_of_vacuum(sql) {
                // Without a file of its own it is compiled only.
                return match connection.prepare(&vacuum_into(sql, at, "")) {
                    Ok(_) => Ok(Compilation::VacuumInto { at }),
                    Err(error) => Err(fault(connection, &error)),
                };
            }
        }
        Some(word) if word.is("insert") => {
            if let Some(table) = VirtualTable::of(sql) {
                return match table.check(connection) {
                    Ok(()) => Ok(Compilation::VirtualTable(table)),
                    Err(error) => Err(fault(connection, &error)),
                };
            }
        }
        Some(word) if word.is("pragma") => {
            if pragma(sql).is_some_and(|(name, _)| {
                NOT_HERE.contains(&name.as_str()) || PRAGMAS.contains(&name.as_str())
            }) {
                // Under a name that no PRAGMA has it compiles alike, and does nothing.
                let harmless = with_pragma_name(sql, "fathom_nothing").unwrap_or_default();
                return match connection.prepare(&harmless) {
                    Ok(_) => Ok(Compilation::NotHere),
                    Err(error) => Err(fault(connection, &error)),
                };
            }
        }
        Some(_) => {}
    }
    match connection.prepare(sql) {
        Ok(statement) => Ok(Compilation::Ready(statement)),
        Err(error) => Err(fault(connection, &error)),
    }
}

/// What is wrong with a text.
fn fault(connection: &ConfinedConnection, error: &rusqlite::Error) -> Fault {
    if let Some(unfit) = unfit(connection, error) {
        return Fault::Wrong(unfit.to_string());
    }
    match message_of(error) {
        message if message == "incomplete input" => Fault::Incomplete,
        message if message == "not authorized" => {
            let why = connection.take_refusal().unwrap_or_default();
            Fault::Wrong(format!("is not done by an import or replay: {why}"))
        }
        message => Fault::Wrong(message),
    }
}

/// Whether it is this database's fault and not the statement's.
fn unfit(connection: &ConfinedConnection, error: &rusqlite::Error) -> Option<Unfit> {
    match outcome_of(error).code & 0xff {
        NO_MEMORY => Some(Unfit::Memory),
        INTERRUPT => connection.steps_exceeded().map(Unfit::Steps),
        // A statement may have set the database a limit itself, which a replay keeps, too.
        FULL => {
            let most: i64 = connection.query_row("PRAGMA max_page_count", [], |row| row.get(0)).ok()?;
            (most > LEAST_UNLIMITED).then_some(Unfit::Full)
        }
        _ => None,
    }
}

/// Executes a statement to its end.
pub fn execute(
    connection: &ConfinedConnection,
    statement: &mut Statement<'_>,
    verb: Verb,
) -> ExecutionResult {
    let mut counted = 0;
    let mut why = None;
    let mut rows = statement.raw_query();
    let outcome = loop {
        match rows.next() {
            Ok(Some(_)) => counted += 1,
            Ok(None) => break Outcome::of(DONE),
            Err(error) => {
                why = unfit(connection, &error);
                break outcome_of(&error);
            }
        }
    };
    drop(rows);
    let changes = if verb.changes_rows() && !outcome.is_error() { connection.changes() } else { 0 };
    // What a PRAGMA answers depends on where it is asked.
    ExecutionResult { counts: (verb != Verb::Pragma).then_some((counted, changes)), outcome, unfit: why }
}

/// SQLite's extended result code and message.
fn outcome_of(error: &rusqlite::Error) -> Outcome {
    let code = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.extended_code,
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code,
        _ => 1,
    };
    Outcome { code, message: message_of(error) }
}

/// SQLite's message alone.
pub fn message_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// What to do about a message, where that is known.
pub fn hint(message: &str) -> &'static str {
    const ANDROIDS: [&str; 3] = ["LOCALIZED", "UNICODE", "PHONEBOOK"];
    if message.contains("no such collation") && ANDROIDS.iter().any(|name| message.contains(name)) {
        "; Android's own collation, which no other SQLite has"
    } else if message.contains("no such collation")
        || message.contains("no such function")
        || message.contains("no such module")
        || message.contains("unknown tokenizer")
    {
        "; the application or its system brought its own, which no other SQLite has"
    } else if message.contains("transaction within a transaction")
        || message.contains("no transaction is active")
        || message.contains("transaction of another connection")
        || message.contains("stands without what the log has")
    {
        "; statements of several connections need a .sql file for each of them, in one folder, and a log \
         that tells BEGIN and no COMMIT (Django before 4.2) is none of transactions: capture the application"
    } else if message.contains("no such table") || message.contains("no such column") {
        "; is the database as it was at the start given (a loading script, or --start)?"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: where memory ended, the import took it for a failure of the application's own
    /// that a replay would have, too.
    #[test]
    fn a_statement_that_finds_no_memory_here_says_nothing_about_a_replay() {
        let confined = ConfinedConnection::over(Connection::open_in_memory().expect("opens"));
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(NO_MEMORY), None);
        assert_eq!(unfit(&confined, &error), Some(Unfit::Memory));
        assert!(Unfit::Memory.to_string().contains(" MiB "), "{}", Unfit::Memory);
    }
}
