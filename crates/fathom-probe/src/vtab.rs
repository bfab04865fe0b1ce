//! The virtual table `fathom_io`: what all threads of the process have done, one row per file class
//! and operation.
//!
//! `UPDATE fathom_io SET calls = 0` starts all rows at zero again, with a WHERE clause only some of
//! them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::{ERROR, Module, NOMEM, NULL, OK, READONLY, Vtab, VtabCursor};
use crate::api::Api;
use crate::installed::InstalledVfs;
use crate::kind::{FileClass, Op};
use crate::meter::{ProcessRow, keep_durations, process_rows, reset_process_row};

const NAME: &CStr = c"fathom_io";
const SCHEMA: &CStr = c"CREATE TABLE fathom_io(\
    class TEXT, op TEXT, calls INTEGER, bytes INTEGER, ns INTEGER, p50_ns INTEGER, p99_ns INTEGER)";

static MODULE: Module = Module {
    version: 1,
    // No xCreate: the table is there in every connection without CREATE VIRTUAL TABLE
    // (eponymous-only, SQLite 3.9).
    create: None,
    connect: Some(connect),
    best_index: Some(best_index),
    disconnect: Some(disconnect),
    destroy: Some(disconnect),
    open: Some(open),
    close: Some(close),
    filter: Some(filter),
    next: Some(next),
    eof: Some(eof),
    column: Some(column),
    rowid: Some(rowid),
    update: Some(update),
    begin: None,
    sync: None,
    commit: None,
    rollback: None,
    find_function: None,
    rename: None,
    savepoint: None,
    release: None,
    rollback_to: None,
    shadow_name: None,
    integrity: None,
};

/// Makes `fathom_io` known to a connection; gives SQLite's result code.
///
/// # Safety
/// `db` must be an open connection of the library in which the probe is installed.
pub unsafe fn register(db: *mut c_void, installed: &'static InstalledVfs) -> c_int {
    keep_durations();
    let auxiliary = ptr::from_ref(installed).cast_mut().cast::<c_void>();
    // SAFETY: the module and the auxiliary data live for ever, so they need no destructor.
    unsafe { (installed.api.create_module)(db, NAME.as_ptr(), &raw const MODULE, auxiliary, None) }
}

#[repr(C)]
struct Table {
    /// SQLite's part. Must stay the first field.
    base: Vtab,
    api: Api,
}

#[repr(C)]
struct Cursor {
    /// SQLite's part. Must stay the first field.
    base: VtabCursor,
    api: Api,
    rows: Vec<ProcessRow>,
    position: usize,
}

/// Runs `body`; a panic becomes `SQLITE_ERROR` instead of going through SQLite.
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(ERROR)
}

/// A copy of `text` in memory of SQLite's, which frees it; null if there is none.
pub fn sqlite_string(api: &Api, text: &str) -> *mut c_char {
    let Ok(size) = c_int::try_from(text.len() + 1) else { return ptr::null_mut() };
    // SAFETY: the memory has room for the text and its NUL.
    unsafe {
        let copy = (api.malloc)(size).cast::<c_char>();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(text.as_ptr().cast(), copy, text.len());
            copy.add(text.len()).write(0);
        }
        copy
    }
}

unsafe extern "C" fn connect(
    db: *mut c_void,
    auxiliary: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    out: *mut *mut Vtab,
    _: *mut *mut c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: `register` gave this pointer, and what is installed stays.
        let api = unsafe { &*auxiliary.cast::<InstalledVfs>() }.api;
        // SAFETY: SQLite asks for exactly this call from within xConnect.
        let rc = unsafe { (api.declare_vtab)(db, SCHEMA.as_ptr()) };
        if rc != OK {
            return rc;
        }
        let base = Vtab { module: ptr::null(), references: 0, error: ptr::null_mut() };
        let table = Box::into_raw(Box::new(Table { base, api }));
        // SAFETY: SQLite's place for the result.
        unsafe { *out = table.cast::<Vtab>() };
        OK
    })
}

unsafe extern "C" fn disconnect(table: *mut Vtab) -> c_int {
    // SAFETY: made by `connect`, given back once.
    guarded(|| unsafe {
        drop(Box::from_raw(table.cast::<Table>()));
        OK
    })
}

unsafe extern "C" fn best_index(_: *mut Vtab, _: *mut c_void) -> c_int {
    // Always a scan of a hundred rows at most; SQLite filters and sorts.
    OK
}

unsafe extern "C" fn open(table: *mut Vtab, out: *mut *mut VtabCursor) -> c_int {
    guarded(|| {
        // SAFETY: made by `connect`.
        let api = unsafe { &*table.cast::<Table>() }.api;
        let base = VtabCursor { vtab: table };
        let cursor = Box::into_raw(Box::new(Cursor { base, api, rows: Vec::new(), position: 0 }));
        // SAFETY: SQLite's place for the result.
        unsafe { *out = cursor.cast::<VtabCursor>() };
        OK
    })
}

unsafe extern "C" fn close(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: made by `open`, given back once.
    guarded(|| unsafe {
        drop(Box::from_raw(cursor.cast::<Cursor>()));
        OK
    })
}

unsafe extern "C" fn filter(
    cursor: *mut VtabCursor,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: made by `open`; SQLite calls one method of a cursor at a time.
        let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
        cursor.rows = process_rows();
        cursor.position = 0;
        OK
    })
}

unsafe extern "C" fn next(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
    cursor.position = cursor.position.saturating_add(1);
    OK
}

unsafe extern "C" fn eof(cursor: *mut VtabCursor) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    c_int::from(cursor.position >= cursor.rows.len())
}

unsafe extern "C" fn column(cursor: *mut VtabCursor, context: *mut c_void, number: c_int) -> c_int {
    guarded(|| {
        // SAFETY: as in `filter`.
        let cursor = unsafe { &*cursor.cast::<Cursor>() };
        let Some(row) = cursor.rows.get(cursor.position) else { return ERROR };
        let api = &cursor.api;
        let text = |text: &'static str| {
            let length = c_int::try_from(text.len()).unwrap_or(0);
            // SAFETY: SQLite reads `length` bytes, now or later; the text is static, so no
            // destructor (SQLITE_STATIC).
            unsafe { (api.result_text)(context, text.as_ptr().cast(), length, None) };
        };
        let integer = |value: Option<u64>| match value.map(i64::try_from) {
            // SAFETY: the context is that of this call.
            Some(Ok(value)) => unsafe { (api.result_int64)(context, value) },
            // SAFETY: as above.
            _ => unsafe { (api.result_null)(context) },
        };
        match number {
            0 => text(row.class.name()),
            1 => text(row.op.name()),
            2 => integer(Some(row.cell.calls)),
            3 => integer(Some(row.cell.bytes)),
            4 => integer(Some(row.cell.ns)),
            5 => integer(row.p50_ns),
            6 => integer(row.p99_ns),
            _ => integer(None),
        }
        OK
    })
}

unsafe extern "C" fn rowid(cursor: *mut VtabCursor, out: *mut i64) -> c_int {
    guarded(|| {
        // SAFETY: as in `filter`.
        let cursor = unsafe { &*cursor.cast::<Cursor>() };
        let Some(row) = cursor.rows.get(cursor.position) else { return ERROR };
        // SAFETY: SQLite's place for the result.
        unsafe { *out = rowid_of(row.class, row.op) };
        OK
    })
}

fn rowid_of(class: FileClass, op: Op) -> i64 {
    (class as usize * Op::COUNT + op as usize) as i64
}

fn kind_of(rowid: i64) -> Option<(FileClass, Op)> {
    let number = usize::try_from(rowid).ok()?;
    Some((*FileClass::ALL.get(number / Op::COUNT)?, Op::ALL[number % Op::COUNT]))
}

unsafe extern "C" fn update(
    table: *mut Vtab,
    arguments: c_int,
    values: *mut *mut c_void,
    _: *mut i64,
) -> c_int {
    guarded(|| {
        // SAFETY: made by `connect`.
        let api = unsafe { &*table.cast::<Table>() }.api;
        // SAFETY: SQLite passes at least the old rowid. Null means INSERT, and it alone means
        // DELETE.
        let old = unsafe {
            let old = *values;
            (arguments > 1 && (api.value_type)(old) != NULL).then(|| (api.value_int64)(old))
        };
        if let Some((class, op)) = old.and_then(kind_of) {
            reset_process_row(class, op);
            return OK;
        }
        let message = sqlite_string(
            &api,
            "fathom_io takes no INSERT or DELETE; UPDATE fathom_io SET calls = 0 resets the rows it matches",
        );
        if message.is_null() {
            return NOMEM;
        }
        // SAFETY: SQLite frees the message; one that it has not taken yet is freed here.
        unsafe {
            (api.free)((*table).error.cast());
            (*table).error = message;
        }
        READONLY
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rowid_names_its_row() {
        for class in FileClass::ALL {
            for op in Op::ALL {
                assert_eq!(kind_of(rowid_of(class, op)), Some((class, op)));
            }
        }
        assert_eq!(kind_of(-1), None);
        assert_eq!(kind_of(i64::MAX), None);
        assert_eq!(kind_of((FileClass::COUNT * Op::COUNT) as i64), None);
    }
}
