//! Rows.

use crate::argument::{place, put};
use crate::failure::{guard, misuse};
use crate::handle::{content, give, take};
use crate::status::mmdb_status;
use crate::value::mmdb_value;
use mmdb::Row;

/// A row: one value for each column of its table, in order.
pub struct mmdb_row {
    _private: [u8; 0],
}

/// What is behind it.
pub(crate) struct RowContent {
    values: Vec<mmdb_value>,
    /// What they point to. It does not move with this.
    _row: Row,
    /// A cursor frees it.
    is_lent: bool,
}

crate::handle::kind!(mmdb_row, RowContent, b"mmdbROW\x01");

/// The row of a cursor, which frees it.
pub(crate) struct Lent(*mut mmdb_row);

// SAFETY: a row is nobody's but the cursor's, and what it points to is its own.
unsafe impl Send for Lent {}

impl Lent {
    pub(crate) fn new(row: Row) -> Lent {
        Lent(give_row(row, true))
    }

    pub(crate) fn pointer(&self) -> *const mmdb_row {
        self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: `new` made it, and `mmdb_row_free` refuses it.
        let freed = unsafe { take(self.0) };
        debug_assert!(freed.is_ok(), "nobody else frees the row of a cursor");
    }
}

fn give_row(row: Row, is_lent: bool) -> *mut mmdb_row {
    let values = row.values().into_iter().map(mmdb_value::of).collect();
    give(RowContent { values, _row: row, is_lent })
}

/// A row for the caller, or NULL.
pub(crate) fn give_found(row: Option<Row>) -> *mut mmdb_row {
    row.map_or(std::ptr::null_mut(), |row| give_row(row, false))
}

/// The values of a row. They belong to the row and go with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_row_values(
    row: *const mmdb_row,
    values: *mut *const mmdb_value,
    count: *mut usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let row = content(row)?;
        put(place(values, "values")?, row.values.as_ptr());
        put(count, row.values.len());
        Ok(())
    })
}

/// Frees a row that mmdb_get or mmdb_snapshot_get gave. Rows of a cursor belong to that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_row_free(row: *mut mmdb_row) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        if row.is_null() {
            return Ok(());
        }
        if content(row)?.is_lent {
            return Err(misuse("the row belongs to a cursor, which frees it"));
        }
        take(row).map(drop)
    })
}
