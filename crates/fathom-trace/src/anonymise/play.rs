//! Plays a trace in private: one call after the other, in the order of the trace, on one thread.
//!
//! A replay measures; this looks. It shows each statement before it is executed, and tells what
//! came of it, so that two traces can be held against each other call by call. Connections that
//! would have waited for each other get `SQLITE_BUSY` instead, in both alike.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use libsqlite3_sys as ffi;
use rusqlite::Connection;

use crate::confine::{ConfinedConnection, MEANING};
use crate::error::TraceError;
use crate::format::Reader;
use crate::model::{Action, DONE, Event, ROW, Record, Setting, Start, Step, Value};
use crate::sql::{Attach, Verb, pragma, target_of_vacuum, vacuum_into};
use crate::start::{Layout, Restore};

/// Steps of SQLite's virtual machine that a statement may take, as in an import.
const STEPS_MAX: u64 = 1_000_000_000;

/// Settings that say how sure a commit is to be: nothing here outlives the play.
const DURABILITY: [&str; 3] = ["synchronous", "fullfsync", "checkpoint_fullfsync"];

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// The statement.
    pub statement: u32,
    /// SQLite's (extended) result code.
    pub code: i32,
    /// Rows that were returned.
    pub rows: u64,
    /// Rows that were changed.
    pub changes: u64,
    /// A hash of the plan, of a statement that was prepared; else 0.
    pub plan: u64,
}

/// Who looks on.
pub trait Watch {
    /// A database is opened or attached, or has another schema.
    fn schema(&mut self, connection: &ConfinedConnection);
    /// A statement is prepared.
    fn statement(&mut self, connection: &ConfinedConnection, statement: u32, sql: &str);
    /// A value is bound to a parameter of a statement.
    fn bound(&mut self, statement: u32, index: u32, value: &Value);
    /// Something came of a call.
    ///
    /// # Errors
    /// A full disk.
    fn done(&mut self, done: CallResult) -> Result<(), TraceError>;
    /// Nothing follows on this connection.
    fn closed(&mut self, connection: &ConfinedConnection);
}

/// A trace's databases, put back as they were.
pub struct Play {
    place: crate::private::Directory,
    memory: Vec<u32>,
    files: Vec<(u32, PathBuf, String)>,
}

struct Prepared {
    raw: *mut ffi::sqlite3_stmt,
    statement: u32,
    sql: Rc<str>,
    /// The file that a VACUUM INTO writes.
    vacuum: Option<PathBuf>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: null, or a statement that is finalised once, here, before its connection is
        // closed.
        unsafe { ffi::sqlite3_finalize(self.raw) };
    }
}

/// A connection with its statements, which go before it.
struct Open {
    handles: HashMap<u32, Prepared>,
    attach: Option<(String, u32)>,
    connection: ConfinedConnection,
}

impl Play {
    /// Puts the databases of a trace into a private directory.
    ///
    /// # Errors
    /// A trace that is damaged; databases that cannot be put back; a full disk.
    pub fn new(trace: &Path) -> Result<Play, TraceError> {
        let place = crate::private::directory(".fathom-anonymise-", &std::env::temp_dir())?;
        let mut play = Play { place, memory: Vec::new(), files: Vec::new() };
        let mut restore = Restore::default();
        for record in Reader::open(trace)? {
            match record? {
                Record::Database(database) => {
                    let path = play.place.path().join(format!("{}.db", database.id));
                    restore.database(&database, &path)?;
                    if database.start == Start::Memory {
                        play.memory.push(database.id);
                    } else {
                        let name = String::from_utf8_lossy(&database.path).into_owned();
                        play.files.push((database.id, path, name));
                    }
                }
                Record::Content(content) => restore.content(&content)?,
                _ => {}
            }
        }
        restore.finish(Layout::default())?;
        Ok(play)
    }

    /// A connection of a database.
    fn open(&self, database: u32) -> rusqlite::Result<ConfinedConnection> {
        let confined = match self.files.iter().find(|(id, ..)| *id == database) {
            Some((_, path, _)) => ConfinedConnection::open(path)?,
            None => ConfinedConnection::over(Connection::open_in_memory()?),
        };
        confined.busy_timeout(std::time::Duration::ZERO)?;
        confined.execute_batch("PRAGMA synchronous = OFF")?;
        Ok(confined.limit_steps(STEPS_MAX))
    }

    /// Does everything in the trace.
    ///
    /// # Errors
    /// A trace that is damaged; a database that cannot be opened; what the watch says.
    pub fn run(&self, trace: &Path, watch: &mut dyn Watch) -> Result<(), TraceError> {
        let mut texts: HashMap<u32, Rc<str>> = HashMap::new();
        let mut open: HashMap<u32, Open> = HashMap::new();
        for record in Reader::open(trace)? {
            match record? {
                Record::Statement(statement) => drop(texts.insert(statement.id, statement.sql.into())),
                Record::Event(Event { connection, action, .. }) => match action {
                    Action::Open { database, outcome, .. } if !outcome.is_error() => {
                        let made = self.open(database).map_err(|error| {
                            TraceError::refused(
                                trace.display(),
                                format!("a database of it cannot be opened: {error}"),
                            )
                        })?;
                        watch.schema(&made);
                        open.insert(
                            connection,
                            Open { handles: HashMap::new(), attach: None, connection: made },
                        );
                    }
                    Action::Close { .. } => {
                        if let Some(closed) = open.remove(&connection) {
                            watch.closed(&closed.connection);
                        }
                    }
                    action => {
                        if let Some(open) = open.get_mut(&connection) {
                            self.call(open, action, &texts, watch)?;
                        }
                    }
                },
                _ => {}
            }
        }
        for left in open.values() {
            watch.closed(&left.connection);
        }
        Ok(())
    }

    /// Pages of each database file, with its name.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn pages(&self) -> Result<Vec<(String, u64)>, TraceError> {
        let of = |(_, path, name): &(u32, PathBuf, String)| {
            let pages = ConfinedConnection::open(path)
                .and_then(|database| database.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)))
                .map_err(|error| {
                    TraceError::refused(name, format!("cannot be read after the statements: {error}"))
                })?;
            Ok((name.clone(), u64::try_from(pages).unwrap_or(0)))
        };
        self.files.iter().map(of).collect()
    }

    fn call(
        &self,
        open: &mut Open,
        action: Action,
        texts: &HashMap<u32, Rc<str>>,
        watch: &mut dyn Watch,
    ) -> Result<(), TraceError> {
        match action {
            Action::Prepare { handle, statement, .. } => {
                let Some(sql) = texts.get(&statement) else { return Ok(()) };
                open.handles.remove(&handle);
                watch.statement(&open.connection, statement, sql);
                let (prepared, code) = self.prepare(&open.connection, handle, statement, sql);
                open.handles.insert(handle, prepared);
                let plan = plan(&open.connection, sql);
                watch.done(CallResult { statement, code, rows: 0, changes: 0, plan })
            }
            Action::Bind { handle, index, value } => {
                if let Some(prepared) = open.handles.get(&handle) {
                    watch.bound(prepared.statement, index, &value);
                    bind(prepared.raw, index, &value);
                }
                Ok(())
            }
            Action::ClearBindings { handle } => {
                if let Some(prepared) = open.handles.get(&handle) {
                    // SAFETY: null, which is ignored, or a live statement.
                    unsafe { ffi::sqlite3_clear_bindings(prepared.raw) };
                }
                Ok(())
            }
            Action::Reset { handle } => {
                if let Some(prepared) = open.handles.get(&handle) {
                    // SAFETY: null, which is ignored, or a live statement.
                    unsafe { ffi::sqlite3_reset(prepared.raw) };
                }
                Ok(())
            }
            Action::Finalize { handle } => {
                open.handles.remove(&handle);
                Ok(())
            }
            Action::Step(step) => self.step(open, &step, watch),
            Action::Attach { schema, database } => {
                open.attach = Some((schema, database));
                Ok(())
            }
            Action::Setting { setting: Setting::DbConfig(option), value } if MEANING.contains(&option) => {
                let (option, value) = (option as c_int, c_int::from(value != 0));
                // SAFETY: the handle is open; these options take a number and a place for the
                // result, which may be null.
                unsafe {
                    ffi::sqlite3_db_config(open.connection.handle(), option, value, ptr::null_mut::<c_int>());
                }
                Ok(())
            }
            Action::Checkpoint { .. } => {
                // What it answers depends on who else reads at the moment.
                let _ = open.connection.execute_batch("PRAGMA wal_checkpoint");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn prepare(
        &self,
        connection: &ConfinedConnection,
        handle: u32,
        statement: u32,
        sql: &Rc<str>,
    ) -> (Prepared, i32) {
        let mut prepared = Prepared { raw: ptr::null_mut(), statement, sql: Rc::clone(sql), vacuum: None };
        let is_left_out = pragma(sql).is_some_and(|(name, _)| DURABILITY.contains(&name.as_str()))
            || Attach::of(sql).is_some();
        if is_left_out {
            return (prepared, ffi::SQLITE_OK);
        }
        let mapped = target_of_vacuum(sql).map(|at| {
            let file =
                self.place.path().join(format!("vacuum-{:x}-{handle}.db", ptr::from_ref(connection).addr()));
            let mapped = vacuum_into(sql, at, &file.to_string_lossy());
            prepared.vacuum = Some(file);
            mapped
        });
        let text = mapped.as_deref().unwrap_or(sql);
        let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
        connection.begin_statement();
        // SAFETY: the handle is open, the text is given with its length, and the place is that of a
        // pointer.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(
                connection.handle(),
                text.as_ptr().cast(),
                length,
                &mut prepared.raw,
                ptr::null_mut(),
            )
        };
        (prepared, code)
    }

    fn step(&self, open: &mut Open, step: &Step, watch: &mut dyn Watch) -> Result<(), TraceError> {
        let attach = open.attach.take();
        let Some(prepared) = open.handles.get(&step.handle) else { return Ok(()) };
        let connection = &open.connection;
        let statement = prepared.statement;
        let mut done = CallResult { statement, code: DONE, rows: 0, changes: 0, plan: 0 };
        if let Some((schema, database)) = attach {
            let file = match self.files.iter().find(|(id, ..)| *id == database) {
                Some((_, path, _)) => path.to_string_lossy().into_owned(),
                None => ":memory:".to_owned(),
            };
            if let Err(error) = connection.attach(&file, &schema) {
                done.code = error.sqlite_error().map_or(ffi::SQLITE_ERROR, |failure| failure.extended_code);
            }
            watch.schema(connection);
            return watch.done(done);
        }
        if prepared.raw.is_null() {
            return watch.done(done);
        }
        // A cursor that was left in the middle stops where it was left.
        let most = if step.outcome.code == ROW && step.is_counted { step.rows } else { u64::MAX };
        connection.begin_statement();
        let mut run = || {
            while done.rows < most {
                // SAFETY: a live statement of an open connection.
                match unsafe { ffi::sqlite3_step(prepared.raw) } {
                    ffi::SQLITE_ROW => (done.rows, done.code) = (done.rows + 1, ROW),
                    ffi::SQLITE_DONE => return done.code = DONE,
                    _ => {
                        // SAFETY: the handle is open.
                        return done.code = unsafe { ffi::sqlite3_extended_errcode(connection.handle()) };
                    }
                }
            }
        };
        match &prepared.vacuum {
            None => run(),
            Some(file) => {
                let _ = std::fs::remove_file(file);
                connection.allowing(&file.to_string_lossy(), run);
                let _ = std::fs::remove_file(file);
            }
        }
        let verb = Verb::of(&prepared.sql);
        if done.code == DONE && verb.changes_rows() {
            done.changes = connection.changes();
        }
        if done.code != ROW {
            // SAFETY: a live statement.
            unsafe { ffi::sqlite3_reset(prepared.raw) };
        }
        if matches!(verb, Verb::Schema | Verb::Rollback) {
            watch.schema(connection);
        }
        watch.done(done)
    }
}

/// Binds a value; what cannot be bound stays NULL, in any trace alike.
fn bind(raw: *mut ffi::sqlite3_stmt, index: u32, value: &Value) {
    let number = c_int::try_from(index).unwrap_or(c_int::MAX);
    let length = |bytes: &[u8]| c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
    // SAFETY: null, which is refused, or a live statement; texts and blobs are given with their
    // lengths and copied.
    unsafe {
        match value {
            Value::Null => ffi::sqlite3_bind_null(raw, number),
            Value::Integer(value) => ffi::sqlite3_bind_int64(raw, number, *value),
            Value::Real(value) => ffi::sqlite3_bind_double(raw, number, *value),
            Value::Text(bytes) => ffi::sqlite3_bind_text(
                raw,
                number,
                bytes.as_ptr().cast(),
                length(bytes),
                ffi::SQLITE_TRANSIENT(),
            ),
            Value::Blob(bytes) => ffi::sqlite3_bind_blob(
                raw,
                number,
                bytes.as_ptr().cast(),
                length(bytes),
                ffi::SQLITE_TRANSIENT(),
            ),
            Value::ZeroBlob(bytes) => {
                ffi::sqlite3_bind_zeroblob(raw, number, c_int::try_from(*bytes).unwrap_or(c_int::MAX))
            }
        };
    }
}

/// A hash of how SQLite would do it; 0 of what has no plan.
fn plan(connection: &ConfinedConnection, sql: &str) -> u64 {
    if !matches!(Verb::of(sql), Verb::Select | Verb::Insert | Verb::Update | Verb::Delete) {
        return 0;
    }
    let Ok(mut explain) = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else { return 0 };
    let mut hasher = DefaultHasher::new();
    let mut rows = explain.raw_query();
    while let Ok(Some(row)) = rows.next() {
        (row.get::<_, i64>(0).ok(), row.get::<_, i64>(1).ok(), row.get::<_, String>(3).ok())
            .hash(&mut hasher);
    }
    hasher.finish().max(1)
}

/// SQLite's words for a result code.
pub fn words(code: i32) -> String {
    // SAFETY: it gives a static text for any number.
    let words = unsafe { CStr::from_ptr(ffi::sqlite3_errstr(code)) };
    words.to_string_lossy().into_owned()
}
