//! Cursors: rows one by one.

use crate::argument::{place, put};
use crate::failure::{Result, guard, misuse};
use crate::handle::{content, enter, give, take};
use crate::moment::Reading;
use crate::row::{Lent, mmdb_row};
use crate::status::mmdb_status;
use crate::transaction_state::Cell;
use crate::value::{assignments, mmdb_assignment};
use mmdb::Row;
use std::sync::{Arc, Mutex};

/// Gives rows one by one. One thread at a time may use it.
pub struct mmdb_cursor {
    _private: [u8; 0],
}

/// What is behind it.
pub(crate) struct CursorContent {
    source: Source,
    row: Option<Lent>,
}

crate::handle::kind!(mmdb_cursor, Mutex<CursorContent>, b"mmdbCUR\x01");

/// Where rows come from.
pub(crate) enum Source {
    /// The cursor of a transaction with this number, which is in the transaction.
    Transaction(Arc<Cell>, u64),
    Snapshot(Reading),
    /// Rows that were read before.
    Rows(std::vec::IntoIter<Row>),
    /// What was found for each of some keys.
    Found(std::vec::IntoIter<Option<Row>>),
    /// It was at its end.
    End,
}

impl CursorContent {
    pub(crate) fn new(source: Source) -> CursorContent {
        CursorContent { source, row: None }
    }

    fn next(&mut self) -> Result<*const mmdb_row> {
        self.row = None;
        let row = match &mut self.source {
            Source::Transaction(cell, number) => {
                let mut state = cell.enter()?;
                let row = state.cursor(*number)?.next().transpose();
                // At its end, or broken off: the transaction is free again.
                if !matches!(row, Ok(Some(_))) {
                    state.close(*number);
                }
                row?
            }
            Source::Snapshot(reading) => reading.next()?,
            Source::Rows(rows) => rows.next(),
            Source::Found(rows) => rows.next().flatten(),
            Source::End => None,
        };
        // A key without a row is not the end.
        if row.is_none() && !matches!(self.source, Source::Found(_)) {
            self.source = Source::End;
        }
        self.row = row.map(Lent::new);
        Ok(self.row.as_ref().map_or(std::ptr::null(), Lent::pointer))
    }
}

impl Drop for CursorContent {
    fn drop(&mut self) {
        if let Source::Transaction(cell, number) = &self.source {
            cell.free(*number);
        }
    }
}

/// A cursor for the caller.
pub(crate) fn give_cursor(content: CursorContent) -> *mut mmdb_cursor {
    give(Mutex::new(content))
}

/// The next row, or NULL at the end. It belongs to the cursor and goes with the next call for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_cursor_next(
    cursor: *mut mmdb_cursor,
    row: *mut *const mmdb_row,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(row, "row")?;
        put(place, enter(content(cursor)?, "mmdb_cursor")?.next()?);
        Ok(())
    })
}

/// Changes columns of the row that the cursor of a transaction stands on. `found`, which may be
/// NULL, becomes whether it is still there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_cursor_update(
    cursor: *mut mmdb_cursor,
    set: *const mmdb_assignment,
    count: usize,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let set = assignments(set, count)?;
        let cursor = enter(content(cursor)?, "mmdb_cursor")?;
        let (cell, number) = changing(&cursor)?;
        put(found, cell.enter()?.cursor(number)?.update(&set)?);
        Ok(())
    })
}

/// Deletes the row that the cursor of a transaction stands on. `found` as in mmdb_cursor_update.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_cursor_delete(cursor: *mut mmdb_cursor, found: *mut bool) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let cursor = enter(content(cursor)?, "mmdb_cursor")?;
        let (cell, number) = changing(&cursor)?;
        put(found, cell.enter()?.cursor(number)?.delete()?);
        Ok(())
    })
}

fn changing(cursor: &CursorContent) -> Result<(&Cell, u64)> {
    match &cursor.source {
        Source::Transaction(cell, number) => Ok((cell, *number)),
        Source::End => Err(misuse("the cursor is at its end: it stands on no row")),
        Source::Snapshot(_) | Source::Rows(_) | Source::Found(_) => {
            Err(misuse("only a cursor of mmdb_range or mmdb_scan can change rows"))
        }
    }
}

/// Frees a cursor, and the row that it gave last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_cursor_free(cursor: *mut mmdb_cursor) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if cursor.is_null() { Ok(()) } else { take(cursor).map(drop) } })
}
