//! SQLite's calls one by one.

use std::ffi::c_int;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use fathom_probe::StatementTimer;
use fathom_trace::model::BlobCall;

use super::connection::SqliteConnection;
use super::library::{DONE, OK, ROW, sqlite3_stmt, text};
use super::statement::NumberedStatement;
use crate::engine::Connection;
use crate::engine::calls::{Argument, BlobResult, Calls, Pauses, StepResult};
use crate::engine::statement_text::number_of;
use crate::engine::{EngineError, abridged};

impl SqliteConnection {
    fn numbered_at(&self, handle: u32) -> Option<&NumberedStatement> {
        self.numbered.get(handle as usize).and_then(Option::as_ref)
    }

    fn numbered_at_mut(&mut self, handle: u32) -> Option<&mut NumberedStatement> {
        self.numbered.get_mut(handle as usize).and_then(Option::as_mut)
    }

    /// Before a VACUUM INTO: its file is there, empty, and the user's alone; and it may be
    /// attached.
    #[inline]
    fn make_room(&mut self, handle: u32) {
        let file = self
            .numbered_at(handle)
            .filter(|statement| statement.is_at_rest)
            .and_then(|statement| statement.vacuum_into.as_deref());
        if let Some(file) = file {
            let file = file.to_owned();
            // What cannot be made SQLite will say better.
            let _ = empty(&file);
            self.allow(file.to_str());
        }
    }

    fn handle_at(&self, handle: u32) -> *mut sqlite3_stmt {
        self.numbered_at(handle).map_or(std::ptr::null_mut(), |numbered| numbered.handle)
    }
}

fn empty(file: &Path) -> std::io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(file)
}

impl Calls for SqliteConnection {
    fn prepare_as(&mut self, handle: u32, sql: &str) -> Result<(), EngineError> {
        let (mapped, vacuum_into) = self.vacuum_into(sql, handle).unzip();
        let (statement, _) = self.compile(mapped.as_deref().unwrap_or(sql))?;
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
        let kept = Vec::new();
        self.numbered[place] = Some(NumberedStatement {
            handle: statement,
            columns,
            changes_rows,
            is_at_rest: true,
            kept,
            number: number_of(sql),
            vacuum_into,
        });
        Ok(())
    }

    fn bind(&mut self, handle: u32, index: u32, value: Argument<'_>) -> Result<(), EngineError> {
        let functions = &self.library.functions;
        let Some(numbered) = self.numbered.get_mut(handle as usize).and_then(Option::as_mut) else {
            return Err(self.error(&format!("binding parameter {index}"), libsqlite3_sys::SQLITE_MISUSE));
        };
        let statement = numbered.handle;
        let number = c_int::try_from(index).unwrap_or(c_int::MAX);
        let length = |bytes: &[u8]| c_int::try_from(bytes.len()).unwrap_or(c_int::MAX);
        // SAFETY: the statement is this connection's and live; text and blob are given with their
        // lengths, and are copied by SQLite or stay where they are until the parameter is bound
        // again or the statement is finalised (see `keep`).
        let code = unsafe {
            match value {
                Argument::Null => (functions.sqlite3_bind_null)(statement, number),
                Argument::Integer(value) => (functions.sqlite3_bind_int64)(statement, number, value),
                Argument::Real(value) => (functions.sqlite3_bind_double)(statement, number, value),
                Argument::Text(bytes) => {
                    let (place, destructor) = numbered.keep(index, bytes);
                    (functions.sqlite3_bind_text)(statement, number, place.cast(), length(bytes), destructor)
                }
                Argument::Blob(bytes) => {
                    let (place, destructor) = numbered.keep(index, bytes);
                    (functions.sqlite3_bind_blob)(statement, number, place.cast(), length(bytes), destructor)
                }
                // SQLite makes the bytes where they are wanted. More than it takes is refused here,
                // because this function does not look.
                Argument::ZeroBlob(bytes) => {
                    let most = (functions.sqlite3_limit)(self.db, libsqlite3_sys::SQLITE_LIMIT_LENGTH, -1);
                    match c_int::try_from(bytes).ok().filter(|bytes| *bytes <= most) {
                        Some(length) => (functions.sqlite3_bind_zeroblob)(statement, number, length),
                        None => libsqlite3_sys::SQLITE_TOOBIG,
                    }
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

    fn step(&mut self, handle: u32, rows: u64, to_end: bool) -> StepResult {
        let mut stepped = StepResult { rows: 0, changes: 0, code: libsqlite3_sys::SQLITE_MISUSE };
        self.make_room(handle);
        let functions = &self.library.functions;
        let Some(numbered) = self.numbered.get_mut(handle as usize).and_then(Option::as_mut) else {
            return stepped;
        };
        numbered.is_at_rest = false;
        let _timer = StatementTimer::begin(numbered.number);
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

    fn step_refused(&mut self, handle: u32) -> StepResult {
        let was_off = std::mem::replace(&mut self.busy_waits().is_off, true);
        let refuses = fathom_probe::RefusesLocks::begin();
        let stepped = self.step(handle, 0, true);
        drop(refuses);
        self.busy_waits().is_off = was_off;
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
        let reset = self.library.functions.sqlite3_reset;
        if let Some(numbered) = self.numbered_at_mut(handle) {
            // SAFETY: the statement is live. The result repeats that of the last step.
            unsafe { reset(numbered.handle) };
            numbered.is_at_rest = true;
        }
    }

    fn hold(&mut self, schema: &str) -> Result<(), EngineError> {
        let place = match self.holders.iter().position(|(name, _)| name == schema) {
            Some(place) => place,
            None => {
                // It always has a row, and its transaction is open as long as it was not stepped
                // beyond that.
                let sql = format!("SELECT count(*) FROM \"{}\".sqlite_master", schema.replace('"', "\"\""));
                let statement = self.compile(&sql)?.0;
                self.holders.push((schema.to_owned(), statement));
                self.holders.len() - 1
            }
        };
        // SAFETY: the statement is live.
        match unsafe { (self.library.functions.sqlite3_step)(self.holders[place].1) } {
            ROW => Ok(()),
            code => {
                let error = self.error("reading the schema for a snapshot", code);
                self.release();
                Err(error)
            }
        }
    }

    fn release(&mut self) {
        for (_, statement) in &self.holders {
            // SAFETY: the statement is live. The result repeats that of the last step.
            unsafe { (self.library.functions.sqlite3_reset)(*statement) };
        }
    }

    fn roll_back(&mut self) -> Result<(), EngineError> {
        // SAFETY: the handle is open.
        let is_open = unsafe { (self.library.functions.sqlite3_get_autocommit)(self.db) } == 0;
        if is_open { self.execute_script("ROLLBACK") } else { Ok(()) }
    }

    fn set_meaning(&mut self, option: u32, is_on: bool) {
        if let Ok(option) = c_int::try_from(option) {
            self.switch(option, c_int::from(is_on));
        }
    }

    fn wait_for_locks(&mut self, waits: bool) {
        self.busy_waits().is_off = !waits;
    }

    fn tell_pauses(&mut self, pauses: Arc<Pauses>) {
        self.busy_waits().pauses = Some(pauses);
    }

    fn finalize(&mut self, handle: u32) {
        if let Some(numbered) = self.numbered.get_mut(handle as usize).and_then(Option::take) {
            // SAFETY: finalised once, here: it was taken out. The result repeats that of the last
            // step.
            unsafe { (self.library.functions.sqlite3_finalize)(numbered.handle) };
        }
    }

    fn blob(&mut self, blob: u32, call: &BlobCall) -> Result<BlobResult, EngineError> {
        self.blob_call(blob, call)
    }
}
