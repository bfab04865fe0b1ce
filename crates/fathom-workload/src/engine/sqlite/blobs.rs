//! Incremental blobs (<https://sqlite.org/c3ref/blob_open.html>).

use std::ffi::{CString, c_int, c_void};
use std::ptr::{null, null_mut};

use fathom_trace::model::BlobCall;
use libsqlite3_sys::SQLITE_MISUSE;

use super::connection::SqliteConnection;
use super::library::{OK, sqlite3_blob};
use crate::engine::EngineError;
use crate::engine::calls::BlobResult;

/// What SQLite answers where DEFENSIVE keeps a table from being written: shadow tables, and the
/// schema itself.
const MUST_STAY: &str = "may not be modified";

impl SqliteConnection {
    pub(super) fn blob_call(&mut self, blob: u32, call: &BlobCall) -> Result<BlobResult, EngineError> {
        if let BlobCall::Open { schema, table, column, row, writes, .. } = call {
            return self.open_blob(blob, [schema, table, column], *row, *writes);
        }
        let Some(&handle) = self.blobs.get(&blob) else {
            return Ok(BlobResult { code: SQLITE_MISUSE, bytes: 0 });
        };
        let functions = &self.library.functions;
        let number = |of: i64| c_int::try_from(of).unwrap_or(-1);
        let code = match call {
            BlobCall::Read { offset, bytes } => {
                let Some(read) = functions.sqlite3_blob_read else { return Err(self.no_blobs()) };
                // What goes beyond its end is refused before anything is copied.
                let room = number(*bytes).clamp(0, self.blob_bytes(handle));
                self.blob_buffer.resize(usize::try_from(room).unwrap_or(0), 0);
                let into = self.blob_buffer.as_mut_ptr().cast::<c_void>();
                // SAFETY: the blob is open; SQLite copies only where offset and length lie within
                // it, and then so many bytes are there.
                unsafe { read(handle, into, number(*bytes), number(*offset)) }
            }
            BlobCall::Write { offset, data } => {
                let Some(write) = functions.sqlite3_blob_write else { return Err(self.no_blobs()) };
                // SAFETY: the blob is open, and the bytes are given with their length.
                unsafe { write(handle, data.as_ptr().cast(), number(data.len() as i64), number(*offset)) }
            }
            BlobCall::Reopen { row, .. } => {
                let Some(reopen) = functions.sqlite3_blob_reopen else { return Err(self.no_blobs()) };
                // SAFETY: the blob is open.
                let code = unsafe { reopen(handle, *row) };
                let bytes = if code == OK { self.blob_bytes(handle) } else { 0 };
                return Ok(BlobResult { code, bytes: u64::try_from(bytes).unwrap_or(0) });
            }
            BlobCall::Close | BlobCall::Open { .. } => self.close_blob(blob),
        };
        Ok(BlobResult { code, bytes: 0 })
    }

    fn open_blob(
        &mut self,
        blob: u32,
        names: [&str; 3],
        row: i64,
        writes: bool,
    ) -> Result<BlobResult, EngineError> {
        if writes {
            self.may_write_blob(names)?;
        }
        self.close_blob(blob);
        let Some(open) = self.library.functions.sqlite3_blob_open else { return Err(self.no_blobs()) };
        let [Ok(schema), Ok(table), Ok(column)] = names.map(CString::new) else {
            return Err(self.refuse("opening a blob", "a name has a NUL byte".into()));
        };
        let schema = if schema.is_empty() { null() } else { schema.as_ptr() };
        let mut handle: *mut sqlite3_blob = null_mut();
        // SAFETY: the connection is open, the names end in NUL or are null, and `handle` is written
        // once.
        let code = unsafe {
            open(self.db, schema, table.as_ptr(), column.as_ptr(), row, c_int::from(writes), &mut handle)
        };
        if code != OK || handle.is_null() {
            return Ok(BlobResult { code, bytes: 0 });
        }
        self.blobs.insert(blob, handle);
        Ok(BlobResult { code, bytes: u64::try_from(self.blob_bytes(handle)).unwrap_or(0) })
    }

    /// On a confined connection SQLite keeps SQL from writing the schema and shadow tables
    /// (`SQLITE_DBCONFIG_DEFENSIVE`), but not blobs. So it is asked about an UPDATE of the same
    /// column first.
    fn may_write_blob(&mut self, [schema, table, column]: [&str; 3]) -> Result<(), EngineError> {
        if self.guard.is_null() {
            return Ok(());
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let schema = if schema.is_empty() { String::new() } else { quoted(schema) + "." };
        let (table, column) = (quoted(table), quoted(column));
        let sql = format!("UPDATE {schema}{table} SET {column} = {column}");
        match self.compile(&sql) {
            Ok((statement, _)) => {
                // SAFETY: finalised once, here.
                unsafe { (self.library.functions.sqlite3_finalize)(statement) };
                Ok(())
            }
            Err(error) if error.message.contains(MUST_STAY) => Err(self.refuse(
                &format!("writing a blob of {table}"),
                "a replay does not change the schema or a virtual table's own tables behind SQLite's back"
                    .into(),
            )),
            // What else is wrong SQLite says when the blob is opened.
            Err(_) => Ok(()),
        }
    }

    fn blob_bytes(&self, handle: *mut sqlite3_blob) -> c_int {
        // SAFETY: the blob is open.
        self.library.functions.sqlite3_blob_bytes.map_or(0, |bytes| unsafe { bytes(handle) })
    }

    fn close_blob(&mut self, blob: u32) -> c_int {
        match (self.blobs.remove(&blob), self.library.functions.sqlite3_blob_close) {
            // SAFETY: the blob is open and closed once: it was taken out.
            (Some(handle), Some(close)) => unsafe { close(handle) },
            _ => OK,
        }
    }

    /// Closes all that are open: a connection with one cannot be closed.
    pub(super) fn close_blobs(&mut self) {
        let open: Vec<u32> = self.blobs.keys().copied().collect();
        for blob in open {
            self.close_blob(blob);
        }
    }

    #[cold]
    fn no_blobs(&self) -> EngineError {
        let message = "this SQLite library was built without incremental blobs (SQLITE_OMIT_INCRBLOB)";
        self.refuse("opening a blob", message.into())
    }
}
