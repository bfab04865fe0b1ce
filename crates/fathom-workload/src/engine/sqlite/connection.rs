//! One SQLite connection: statements prepared once and run on the calling thread.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Duration;

use fathom_probe::StatementTimer;
use fathom_trace::confine::Guard;
use libsqlite3_sys::{
    SQLITE_BLOB, SQLITE_FLOAT, SQLITE_INTEGER, SQLITE_NULL, SQLITE_OPEN_CREATE, SQLITE_OPEN_NOMUTEX,
    SQLITE_OPEN_READWRITE,
};

use super::busy::{BusyWaits, on_busy};
use super::extension;
use super::library::{DONE, OK, ROW, SqliteLibrary, sqlite3, sqlite3_blob, sqlite3_stmt, text};
use super::settings::{self, EffectiveSettings, Pragmas};
use super::statement::NumberedStatement;
use crate::changed;
use crate::engine::calls::Calls;
use crate::engine::statement_text::number_of;
use crate::engine::{Connection, EngineError, Statement, Value, abridged};
use crate::params::Params;

/// One open connection. It belongs to one thread at a time.
pub(super) struct SqliteConnection {
    pub(super) library: &'static SqliteLibrary,
    pub(super) db: *mut sqlite3,
    path: PathBuf,
    /// The engine's settings, for databases that are attached later.
    settings: Params,
    statements: Vec<Prepared>,
    by_sql: HashMap<String, usize>,
    /// Statements by the number that a caller gave them (see `Calls`).
    pub(super) numbered: Vec<Option<NumberedStatement>>,
    /// Open incremental blobs by their number, and where they are read to.
    pub(super) blobs: HashMap<u32, *mut sqlite3_blob>,
    pub(super) blob_buffer: Vec<u8>,
    /// Statements that hold a snapshot, by schema (see `Calls::hold`).
    pub(super) holders: Vec<(String, *mut sqlite3_stmt)>,
    /// Made by `Box::into_raw`, given to the busy handler, freed when the connection is dropped.
    busy: *mut BusyWaits,
    /// Asked about every statement once the connection is confined, else null; made and freed as
    /// `busy`.
    pub(super) guard: *mut Guard,
    /// One row's values, reused.
    row: Vec<Value>,
}

struct Prepared {
    handle: *mut sqlite3_stmt,
    sql: String,
    parameters: usize,
    columns: c_int,
    /// Whether it is an INSERT, UPDATE or DELETE, after which `sqlite3_changes` means it.
    changes_rows: bool,
    /// The number of its text, where statements are kept.
    number: Option<u32>,
}

// SAFETY: SQLite was checked to be built for threads (`SqliteLibrary::checked`), and a connection
// opened with NOMUTEX may move between threads as long as only one uses it at a time, which
// `&mut self` sees to.
unsafe impl Send for SqliteConnection {}

impl SqliteConnection {
    /// Opens (creates) the database file at `path` through a VFS and applies the settings, each
    /// read back.
    pub fn open(
        library: &'static SqliteLibrary,
        vfs: &CStr,
        path: &Path,
        settings: &Params,
    ) -> Result<(Self, EffectiveSettings), EngineError> {
        let file = path.display().to_string();
        let failed = |message: String, code: c_int| EngineError { subject: file.clone(), message, code };
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| failed("the path has a NUL byte".into(), 0))?;
        let mut db = null_mut();
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
        let extension = settings.optional_text("extension").map(Path::new);
        let code = extension::opening(library, extension, || {
            // SAFETY: path and VFS name end in NUL, `db` is written once.
            unsafe { (library.functions.sqlite3_open_v2)(c_path.as_ptr(), &mut db, flags, vfs.as_ptr()) }
        })?;
        if db.is_null() {
            return Err(failed(format!("cannot be opened: {}", library.meaning(code)), code));
        }
        let timeout = Duration::from_millis(settings.count("busy_timeout"));
        // From here on dropping it closes the handle, which SQLite asks for even when opening
        // failed.
        let mut connection = SqliteConnection {
            library,
            db,
            path: path.to_owned(),
            settings: settings.clone(),
            statements: Vec::new(),
            by_sql: HashMap::new(),
            numbered: Vec::new(),
            blobs: HashMap::new(),
            blob_buffer: Vec::new(),
            holders: Vec::new(),
            busy: Box::into_raw(BusyWaits::new(timeout)),
            guard: null_mut(),
            row: Vec::new(),
        };
        if code != OK {
            return Err(connection.error(&format!("opening {file}"), code));
        }
        // SAFETY: the handle is open; the handler's argument lives until the connection is dropped.
        unsafe {
            (library.functions.sqlite3_extended_result_codes)(db, 1);
            (library.functions.sqlite3_busy_handler)(db, Some(on_busy), connection.busy.cast());
        }
        settings::unlock(&mut connection, settings)?;
        let applied = settings::apply(&mut connection, settings, "main")?;
        Ok((connection, applied))
    }

    /// The database's file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How its statements wait for locks.
    pub(super) fn busy_waits(&mut self) -> &mut BusyWaits {
        // SAFETY: made by `Box::into_raw`, freed only on drop; the busy handler runs only within
        // calls on this connection, of which none is going on.
        unsafe { &mut *self.busy }
    }

    /// The one value of the first row of a query (a PRAGMA), as text; none when there is no row.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Option<String>, EngineError> {
        let mut answer = None;
        self.run_once(sql, |connection, handle| {
            if answer.is_none() {
                // SAFETY: the statement has a row.
                let value = unsafe { (connection.library.functions.sqlite3_column_text)(handle, 0) };
                answer = Some(text(value.cast()));
            }
        })?;
        Ok(answer)
    }

    /// Prepares, steps and finalises each statement of `sql`, as `sqlite3_exec` does.
    fn run_once(
        &mut self,
        sql: &str,
        mut on_row: impl FnMut(&Self, *mut sqlite3_stmt),
    ) -> Result<(), EngineError> {
        let functions = &self.library.functions;
        let mut rest = sql;
        while !rest.trim_start().is_empty() {
            let (handle, used) = self.compile(rest)?;
            let statement = &rest[..used];
            rest = &rest[used..];
            if handle.is_null() {
                if used == 0 {
                    // SQLite reads up to a NUL, and would find nothing there for ever.
                    return Err(self.refuse(&format!("`{}`", abridged(sql)), "has a NUL byte".into()));
                }
                continue; // a comment
            }
            let timer = StatementTimer::begin(number_of(statement));
            // SAFETY: the statement was just prepared on this connection.
            let mut code = unsafe { (functions.sqlite3_step)(handle) };
            while code == ROW {
                on_row(self, handle);
                // SAFETY: as above.
                code = unsafe { (functions.sqlite3_step)(handle) };
            }
            let error = (code != DONE).then(|| self.error(statement, code));
            // SAFETY: finalised once, here. The result repeats that of the last step.
            unsafe { (functions.sqlite3_finalize)(handle) };
            drop(timer);
            if let Some(error) = error {
                return Err(error);
            }
            changed::add_text(statement);
        }
        Ok(())
    }

    /// Prepares the first statement of `sql`: its handle (null for a comment) and its length in
    /// bytes.
    pub(super) fn compile(&self, sql: &str) -> Result<(*mut sqlite3_stmt, usize), EngineError> {
        let mut handle = null_mut();
        let mut tail = std::ptr::null();
        let length = c_int::try_from(sql.len()).map_err(|_| EngineError {
            subject: abridged(sql),
            message: "is longer than 2 GiB".into(),
            code: 0,
        })?;
        let begin = sql.as_ptr().cast();
        // SAFETY: the text is `length` bytes long; SQLite reads no further, and writes handle and
        // tail.
        let code = unsafe {
            (self.library.functions.sqlite3_prepare_v2)(self.db, begin, length, &mut handle, &mut tail)
        };
        if code != OK {
            return Err(self.error(sql, code));
        }
        // SAFETY: SQLite leaves the tail within (or one past) the text it was given.
        let used = usize::try_from(unsafe { tail.offset_from(begin) }).unwrap_or(sql.len());
        Ok((handle, used))
    }

    /// The connection's last error, with the statement and the file that it concerns.
    pub(super) fn error(&self, sql: &str, code: c_int) -> EngineError {
        let functions = &self.library.functions;
        // SAFETY: the handle is open (or a failed open, for which SQLite allows these too).
        let (message, extended) = unsafe {
            (text((functions.sqlite3_errmsg)(self.db)), (functions.sqlite3_extended_errcode)(self.db))
        };
        // A result that the connection did not record (misuse) keeps its own meaning.
        let (message, code) = if extended & 0xff == code & 0xff {
            (message, extended)
        } else {
            (self.library.meaning(code), code)
        };
        let hint = match code & 0xff {
            libsqlite3_sys::SQLITE_BUSY => {
                "; another connection held the lock for longer than setting busy_timeout allows"
            }
            libsqlite3_sys::SQLITE_FULL => "; the file system that it lies on is full",
            libsqlite3_sys::SQLITE_READONLY => "; the directory or the file system is read-only",
            libsqlite3_sys::SQLITE_CANTOPEN => "; does the directory exist, and may this user write there?",
            _ => "",
        };
        let refusal = match code & 0xff {
            libsqlite3_sys::SQLITE_AUTH => self.refusal(),
            libsqlite3_sys::SQLITE_FULL => {
                fathom_trace::room::take_refusal().map_or(String::new(), |told| format!("; {told}"))
            }
            _ => String::new(),
        };
        // It was refused before that.
        let hint = if code & 0xff == libsqlite3_sys::SQLITE_FULL && !refusal.is_empty() { "" } else { hint };
        EngineError {
            subject: format!("`{}` on {}", abridged(sql), self.path.display()),
            message: format!("{message} (code {code}){hint}{refusal}"),
            code,
        }
    }

    /// An error of this connection that SQLite does not know of.
    pub(super) fn refuse(&self, what: &str, message: String) -> EngineError {
        EngineError { subject: format!("{what} on {}", self.path.display()), message, code: 0 }
    }

    /// Binds the parameters. They are not copied: they must stay where they are until
    /// [`Self::rest`].
    fn bind(&self, prepared: &Prepared, params: &[Value]) -> Result<(), EngineError> {
        if params.len() != prepared.parameters {
            let message = format!("takes {} parameters, was given {}", prepared.parameters, params.len());
            return Err(self.refuse(&format!("`{}`", abridged(&prepared.sql)), message));
        }
        let functions = &self.library.functions;
        let handle = prepared.handle;
        for (number, value) in (1..).zip(params) {
            // SAFETY: the statement is live and at rest; text and blob are given with their
            // lengths, and SQLite may use them in place (a null destructor is SQLITE_STATIC),
            // because `rest` takes them away before they can move.
            let code = unsafe {
                match value {
                    Value::Null => (functions.sqlite3_bind_null)(handle, number),
                    Value::Integer(value) => (functions.sqlite3_bind_int64)(handle, number, *value),
                    Value::Real(value) => (functions.sqlite3_bind_double)(handle, number, *value),
                    Value::Text(value) => {
                        let length = c_int::try_from(value.len()).unwrap_or(c_int::MAX);
                        (functions.sqlite3_bind_text)(handle, number, value.as_ptr().cast(), length, None)
                    }
                    Value::Blob(value) => {
                        let length = c_int::try_from(value.len()).unwrap_or(c_int::MAX);
                        (functions.sqlite3_bind_blob)(handle, number, value.as_ptr().cast(), length, None)
                    }
                }
            };
            if code != OK {
                let error = self.error(&prepared.sql, code);
                self.rest(prepared);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Brings a statement to rest and takes its parameters away. The result code repeats that of
    /// the last step.
    fn rest(&self, prepared: &Prepared) {
        let functions = &self.library.functions;
        // SAFETY: the statement is live.
        unsafe {
            (functions.sqlite3_reset)(prepared.handle);
            if prepared.parameters > 0 {
                (functions.sqlite3_clear_bindings)(prepared.handle);
            }
        }
    }

    /// Binds, steps to the end with `on_row` for each row, and rests. Gives the number of rows.
    fn run(
        &self,
        prepared: &Prepared,
        params: &[Value],
        mut on_row: impl FnMut(*mut sqlite3_stmt),
    ) -> Result<u64, EngineError> {
        self.bind(prepared, params)?;
        let _timer = StatementTimer::begin(prepared.number);
        let step = self.library.functions.sqlite3_step;
        let mut rows = 0;
        loop {
            // SAFETY: the statement is live and its parameters are bound.
            match unsafe { step(prepared.handle) } {
                ROW => {
                    rows += 1;
                    on_row(prepared.handle);
                }
                DONE => break,
                code => {
                    let error = self.error(&prepared.sql, code);
                    self.rest(prepared);
                    return Err(error);
                }
            }
        }
        self.rest(prepared);
        Ok(rows)
    }

    fn prepared(&self, statement: Statement) -> Result<&Prepared, EngineError> {
        self.statements.get(statement.0).ok_or_else(|| {
            self.refuse(&format!("statement {}", statement.0), "was not prepared on this connection".into())
        })
    }

    /// Finalises the statements and closes the handle.
    fn shut(&mut self) -> Result<(), EngineError> {
        if self.db.is_null() {
            return Ok(());
        }
        self.close_blobs();
        let functions = &self.library.functions;
        for numbered in self.numbered.drain(..).flatten() {
            // SAFETY: each statement is finalised once, here. The result repeats that of its last
            // step.
            unsafe { (functions.sqlite3_finalize)(numbered.handle) };
        }
        for (_, holder) in self.holders.drain(..) {
            // SAFETY: as above.
            unsafe { (functions.sqlite3_finalize)(holder) };
        }
        for prepared in self.statements.drain(..) {
            // SAFETY: each statement is finalised once, here. The result repeats that of its last
            // step.
            unsafe { (functions.sqlite3_finalize)(prepared.handle) };
        }
        // SAFETY: the handle is open; what is left on it are statements that were lost.
        let leaked = unsafe { (functions.sqlite3_next_stmt)(self.db, null_mut()) };
        // SAFETY: a statement of this connection that was not finalised is live.
        let leaked = (!leaked.is_null()).then(|| text(unsafe { (functions.sqlite3_sql)(leaked) }));
        // SAFETY: the handle is open, and is not used again when this succeeds.
        let code = unsafe { (functions.sqlite3_close)(self.db) };
        if code != OK {
            let mut error = self.error("close", code);
            if let Some(sql) = leaked {
                error.message =
                    format!("{}: statement `{}` was never finalised", error.message, abridged(&sql));
            }
            return Err(error);
        }
        self.db = null_mut();
        Ok(())
    }
}

impl Pragmas for SqliteConnection {
    fn ask(&mut self, sql: &str) -> Result<Option<String>, EngineError> {
        SqliteConnection::ask(self, sql)
    }

    fn refuse(&self, setting: &str, message: String) -> EngineError {
        SqliteConnection::refuse(self, setting, message)
    }
}

impl Connection for SqliteConnection {
    fn execute_script(&mut self, sql: &str) -> Result<(), EngineError> {
        self.run_once(sql, |_, _| ())
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, EngineError> {
        if let Some(&known) = self.by_sql.get(sql) {
            return Ok(Statement(known));
        }
        let (handle, used) = self.compile(sql)?;
        let several = !sql[used..].trim().is_empty();
        if handle.is_null() || several {
            // SAFETY: finalising null does nothing; otherwise the statement is finalised once,
            // here.
            unsafe { (self.library.functions.sqlite3_finalize)(handle) };
            let message = if several { "is more than one statement" } else { "is no statement" };
            return Err(self.refuse(&format!("`{}`", abridged(sql)), message.into()));
        }
        let functions = &self.library.functions;
        // SAFETY: the statement is live.
        let (parameters, columns) = unsafe {
            ((functions.sqlite3_bind_parameter_count)(handle), (functions.sqlite3_column_count)(handle))
        };
        let changes_rows = changed::changes_rows(sql)
            // SAFETY: the statement is live.
            && functions.sqlite3_stmt_readonly.is_none_or(|readonly| unsafe { readonly(handle) } == 0);
        let parameters = usize::try_from(parameters).unwrap_or(0);
        let number = number_of(sql);
        let sql_text = sql.to_owned();
        self.statements.push(Prepared { handle, sql: sql_text, parameters, columns, changes_rows, number });
        self.by_sql.insert(sql.to_owned(), self.statements.len() - 1);
        Ok(Statement(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: Statement, params: &[Value]) -> Result<u64, EngineError> {
        let prepared = self.prepared(statement)?;
        self.run(prepared, params, |_| ())?;
        // `sqlite3_changes` keeps the count of the last INSERT, UPDATE or DELETE through all other
        // statements.
        if !prepared.changes_rows {
            return Ok(0);
        }
        // SAFETY: the handle is open.
        let changes = unsafe { (self.library.functions.sqlite3_changes)(self.db) };
        if changes > 0 {
            changed::add(params);
        }
        Ok(u64::try_from(changes).unwrap_or(0))
    }

    fn query(
        &mut self,
        statement: Statement,
        params: &[Value],
        on_row: &mut dyn FnMut(&[Value]),
    ) -> Result<u64, EngineError> {
        let mut row = std::mem::take(&mut self.row);
        let prepared = self.prepared(statement)?;
        let result = self.run(prepared, params, |handle| {
            row.clear();
            row.extend((0..prepared.columns).map(|column| self.library.value(handle, column)));
            on_row(&row);
        });
        self.row = row;
        result
    }

    fn drain(&mut self, statement: Statement, params: &[Value]) -> Result<(u64, u64), EngineError> {
        let prepared = self.prepared(statement)?;
        let mut bytes = 0;
        let rows =
            self.run(prepared, params, |handle| bytes += self.library.touch(handle, prepared.columns))?;
        Ok((rows, bytes))
    }

    fn lock_waits(&self) -> Option<(u64, u64)> {
        // SAFETY: made by `Box::into_raw`, freed only on drop; the busy handler runs only within
        // calls that have `&mut self` or, for statements, happen on this thread before or after
        // this one.
        let busy = unsafe { &*self.busy };
        Some((busy.waits, busy.wait_ns))
    }

    fn attach(&mut self, name: &str, schema: &str) -> Result<(), EngineError> {
        let path = super::file_of(self.path.parent().unwrap_or(Path::new("")), name)?;
        let file = path.display().to_string();
        let sql =
            format!("ATTACH DATABASE '{}' AS \"{}\"", file.replace('\'', "''"), schema.replace('"', "\"\""))
                + &settings::attached_key(&self.settings);
        self.unconfined(&file, |connection| {
            connection.execute_script(&sql)?;
            let settings = connection.settings.clone();
            settings::encrypted_pages(connection, &settings, schema)?;
            settings::apply(connection, &settings, schema).map(|_| ())
        })
    }

    fn confine(&mut self) -> Result<(), EngineError> {
        self.set_guard();
        Ok(())
    }

    fn calls(&mut self) -> Option<&mut dyn Calls> {
        Some(self)
    }

    fn close(mut self: Box<Self>) -> Result<(), EngineError> {
        self.shut()
    }
}

impl Drop for SqliteConnection {
    fn drop(&mut self) {
        if self.shut().is_err() {
            // The handle stays open because a statement was lost; then the handler must stay too.
            return;
        }
        // SAFETY: made by `Box::into_raw`, freed once, and the handle that could call the handler
        // is closed.
        drop(unsafe { Box::from_raw(self.busy) });
        if !self.guard.is_null() {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(self.guard) });
        }
    }
}

impl SqliteLibrary {
    /// Builds the value in a column of the present row.
    fn value(&self, handle: *mut sqlite3_stmt, column: c_int) -> Value {
        let functions = &self.functions;
        // SAFETY: the statement has a row and the column exists. Text and blob live until the next
        // step or a conversion of this column, and are copied here; bytes are asked after the
        // pointer, as SQLite wants it.
        unsafe {
            let bytes = |pointer: *const u8| {
                let length = usize::try_from((functions.sqlite3_column_bytes)(handle, column)).unwrap_or(0);
                if pointer.is_null() { &[][..] } else { std::slice::from_raw_parts(pointer, length) }
            };
            match (functions.sqlite3_column_type)(handle, column) {
                SQLITE_INTEGER => Value::Integer((functions.sqlite3_column_int64)(handle, column)),
                SQLITE_FLOAT => Value::Real((functions.sqlite3_column_double)(handle, column)),
                SQLITE_NULL => Value::Null,
                SQLITE_BLOB => {
                    Value::Blob(bytes((functions.sqlite3_column_blob)(handle, column).cast()).to_vec())
                }
                _ => {
                    let text = bytes((functions.sqlite3_column_text)(handle, column));
                    Value::Text(String::from_utf8_lossy(text).into_owned())
                }
            }
        }
    }

    /// Reads every column of the present row, as an application would, without keeping anything.
    /// Gives their bytes: 8 for a number, the length of a text or blob, 0 for NULL.
    pub(super) fn touch(&self, handle: *mut sqlite3_stmt, columns: c_int) -> u64 {
        let functions = &self.functions;
        let mut bytes = 0;
        for column in 0..columns {
            // SAFETY: the statement has a row and the column exists.
            bytes += unsafe {
                match (functions.sqlite3_column_type)(handle, column) {
                    SQLITE_INTEGER => {
                        std::hint::black_box((functions.sqlite3_column_int64)(handle, column));
                        8
                    }
                    SQLITE_FLOAT => {
                        std::hint::black_box((functions.sqlite3_column_double)(handle, column));
                        8
                    }
                    SQLITE_NULL => 0,
                    SQLITE_BLOB => {
                        std::hint::black_box((functions.sqlite3_column_blob)(handle, column));
                        u64::try_from((functions.sqlite3_column_bytes)(handle, column)).unwrap_or(0)
                    }
                    _ => {
                        std::hint::black_box((functions.sqlite3_column_text)(handle, column));
                        u64::try_from((functions.sqlite3_column_bytes)(handle, column)).unwrap_or(0)
                    }
                }
            };
        }
        bytes
    }
}
