//! SQLite's calls one by one.

use std::ffi::c_int;

use libsqlite3_sys::SQLITE_TRANSIENT;

use super::connection::SqliteConnection;
use super::library::{DONE, OK, ROW, sqlite3_stmt, text};
use crate::engine::calls::{Bound, Calls, Stepped};
use crate::engine::{EngineError, abridged};

/// A statement that a caller numbered.
pub(super) struct Numbered {
    pub handle: *mut sqlite3_stmt,
    columns: c_int,
    changes_rows: bool,
}

impl SqliteConnection {
    fn numbered_at(&self, handle: u32) -> Option<&Numbered> {
        self.numbered.get(handle as usize).and_then(Option::as_ref)
    }

    fn handle_at(&self, handle: u32) -> *mut sqlite3_stmt {
        self.numbered_at(handle).map_or(std::ptr::null_mut(), |numbered| numbered.handle)
    }
}

impl Calls for SqliteConnection {
    fn prepare_as(&mut self, handle: u32, sql: &str) -> Result<(), EngineError> {
        let (statement, _) = self.compile(sql)?;
        if statement.is_null() {
            return Err(self.refuse(&format!("`{}`", abridged(sql)), "is no statement".into()));
        }
        // SAFETY: the statement was just prepared.
        let columns = unsafe { (self.library.functions.sqlite3_column_count)(statement) };
        let changes_rows = fathom_trace::sql::Verb::of(sql).changes_rows();
        let place = handle as usize;
        if self.numbered.len() <= place {
            self.numbered.resize_with(place + 1, || None);
        }
        self.finalize(handle);
        self.numbered[place] = Some(Numbered { handle: statement, columns, changes_rows });
        Ok(())
    }

    fn bind(&mut self, handle: u32, index: u32, value: Bound<'_>) -> Result<(), EngineError> {
        let functions = &self.library.functions;
        let statement = self.handle_at(handle);
        let number = c_int::try_from(index).unwrap_or(c_int::MAX);
        let length = |bytes: &[u8]| c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: a null statement is refused by SQLite (SQLITE_MISUSE), and a live one is this connection's; text and blob are
        // given with their lengths and copied (SQLITE_TRANSIENT).
        let code = unsafe {
            match value {
                Bound::Null => (functions.sqlite3_bind_null)(statement, number),
                Bound::Integer(value) => (functions.sqlite3_bind_int64)(statement, number, value),
                Bound::Real(value) => (functions.sqlite3_bind_double)(statement, number, value),
                Bound::Text(bytes) => (functions.sqlite3_bind_text)(
                    statement,
                    number,
                    bytes.as_ptr().cast(),
                    length(bytes),
                    SQLITE_TRANSIENT(),
                ),
                Bound::Blob(bytes) => (functions.sqlite3_bind_blob)(
                    statement,
                    number,
                    bytes.as_ptr().cast(),
                    length(bytes),
                    SQLITE_TRANSIENT(),
                ),
                Bound::ZeroBlob(bytes) => {
                    let bytes = vec![0_u8; usize::try_from(bytes).unwrap_or(0)];
                    let length = length(&bytes);
                    (functions.sqlite3_bind_blob)(
                        statement,
                        number,
                        bytes.as_ptr().cast(),
                        length,
                        SQLITE_TRANSIENT(),
                    )
                }
            }
        };
        if code == OK { Ok(()) } else { Err(self.error(&format!("binding parameter {index}"), code)) }
    }

    fn clear_bindings(&mut self, handle: u32) {
        let statement = self.handle_at(handle);
        if !statement.is_null() {
            // SAFETY: the statement is live.
            unsafe { (self.library.functions.sqlite3_clear_bindings)(statement) };
        }
    }

    fn step(&mut self, handle: u32, rows: u64, to_end: bool) -> Stepped {
        let mut stepped = Stepped { rows: 0, changes: 0, code: libsqlite3_sys::SQLITE_MISUSE };
        let Some(numbered) = self.numbered_at(handle) else { return stepped };
        let functions = &self.library.functions;
        loop {
            // SAFETY: the statement is live.
            stepped.code = unsafe { (functions.sqlite3_step)(numbered.handle) };
            match stepped.code {
                ROW => {
                    stepped.rows += 1;
                    self.library.touch(numbered.handle, numbered.columns);
                    if stepped.rows == rows && !to_end {
                        break;
                    }
                }
                DONE => {
                    if numbered.changes_rows {
                        // SAFETY: the handle is open.
                        let changes = unsafe { (functions.sqlite3_changes)(self.db) };
                        stepped.changes = u64::try_from(changes).unwrap_or(0);
                    }
                    break;
                }
                code => {
                    // SAFETY: the handle is open.
                    let extended = unsafe { (functions.sqlite3_extended_errcode)(self.db) };
                    stepped.code = if extended & 0xff == code & 0xff { extended } else { code };
                    break;
                }
            }
        }
        stepped
    }

    fn sql(&self, handle: u32) -> String {
        let statement = self.handle_at(handle);
        if statement.is_null() {
            return String::new();
        }
        // SAFETY: the statement is live.
        text(unsafe { (self.library.functions.sqlite3_sql)(statement).cast() })
    }

    fn message(&self) -> String {
        // SAFETY: the handle is open.
        text(unsafe { (self.library.functions.sqlite3_errmsg)(self.db) })
    }

    fn reset(&mut self, handle: u32) {
        let statement = self.handle_at(handle);
        // SAFETY: null, which does nothing, or live. The result repeats that of the last step.
        unsafe { (self.library.functions.sqlite3_reset)(statement) };
    }

    fn finalize(&mut self, handle: u32) {
        if let Some(numbered) = self.numbered.get_mut(handle as usize).and_then(Option::take) {
            // SAFETY: finalised once, here: it was taken out. The result repeats that of the last step.
            unsafe { (self.library.functions.sqlite3_finalize)(numbered.handle) };
        }
    }
}
