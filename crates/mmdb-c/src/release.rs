//! Handles in a cell, for languages in which a signal may break a program off between two steps:
//! the cell owns the handle, and is empty where that is freed.

use crate::blob::{mmdb_blobs, mmdb_blobs_free};
use crate::cursor::{mmdb_cursor, mmdb_cursor_free};
use crate::database::{mmdb_close, mmdb_database};
use crate::failure::{guard, misuse};
use crate::handle::is_handle;
use crate::options::{mmdb_options, mmdb_options_free};
use crate::row::{mmdb_row, mmdb_row_free};
use crate::schema::{mmdb_schema, mmdb_schema_free};
use crate::snapshot::{mmdb_snapshot, mmdb_snapshot_free};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, mmdb_table_free};
use crate::ticket::{mmdb_ticket, mmdb_ticket_free};
use crate::transaction::{mmdb_abort, mmdb_commit, mmdb_transaction};
use std::ffi::c_void;

/// Frees the handle of any kind that is in the cell, by the function for its kind (a transaction is
/// undone, a database closed), and puts NULL there, whatever that returns but MMDB_STATUS_MISUSE.
/// Nothing happens where NULL is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_release(cell: *mut *mut c_void) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    unsafe {
        empty(cell, |handle| {
            macro_rules! free_as {
                ($($kind:ty => $free:ident),*) => {
                    $(if is_handle::<$kind>(handle.cast()) { return $free(handle.cast()); })*
                };
            }
            free_as!(
                mmdb_row => mmdb_row_free,
                mmdb_cursor => mmdb_cursor_free,
                mmdb_transaction => mmdb_abort,
                mmdb_ticket => mmdb_ticket_free,
                mmdb_snapshot => mmdb_snapshot_free,
                mmdb_table => mmdb_table_free,
                mmdb_blobs => mmdb_blobs_free,
                mmdb_schema => mmdb_schema_free,
                mmdb_options => mmdb_options_free,
                mmdb_database => mmdb_close
            );
            guard(|| Err(misuse("a pointer is given for a handle that is none, or was freed")))
        })
    }
}

/// As mmdb_commit of the transaction in the cell, where NULL is afterwards if it was freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_commit_at(
    cell: *mut *mut mmdb_transaction,
    mode: u32,
    ticket: *mut *mut mmdb_ticket,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    unsafe { empty(cell.cast(), |handle| mmdb_commit(handle.cast(), mode, ticket)) }
}

/// Lets a handle be freed, and says so in its cell.
///
/// # Safety
/// `cell` is NULL or a place for a handle.
unsafe fn empty(cell: *mut *mut c_void, free: impl FnOnce(*mut c_void) -> mmdb_status) -> mmdb_status {
    if cell.is_null() || !cell.is_aligned() {
        return guard(|| Err(misuse("NULL is given for the cell of a handle")));
    }
    // SAFETY: it is such a place, says the caller.
    let handle = unsafe { cell.read() };
    if handle.is_null() {
        return mmdb_status::Ok;
    }
    let status = free(handle);
    if status != mmdb_status::Misuse {
        // SAFETY: as above.
        unsafe { cell.write(std::ptr::null_mut()) };
    }
    status
}
