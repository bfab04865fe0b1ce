//! Snapshot reads: a state of the whole database, read without locks.

use crate::argument::{place, put, text};
use crate::cursor::{CursorContent, Source, give_cursor, mmdb_cursor};
use crate::database::{database, mmdb_database};
use crate::failure::{Result, guard};
use crate::handle::{content, give, take};
use crate::moment::{Moment, Reading};
use crate::range::{bounds, mmdb_bound, range_bits};
use crate::row::{give_found, mmdb_row};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, table};
use crate::ticket::{give_ticket, mmdb_ticket};
use crate::value::{mmdb_value, values};
use mmdb::Snapshot;
use std::ffi::c_char;
use std::sync::Arc;

/// One moment of the whole database. Any number of threads may use it at once.
pub struct mmdb_snapshot {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_snapshot, Arc<Moment>, b"mmdbSNA\x01");

/// The snapshot that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle, which nobody frees meanwhile.
pub(crate) unsafe fn snapshot<'a>(p: *const mmdb_snapshot) -> Result<&'a Snapshot<'static>> {
    // SAFETY: says the caller.
    Ok(&unsafe { content(p)? }.snapshot)
}

/// Opens a snapshot: the database after all commits up to now. Free it with mmdb_snapshot_free; it
/// stays until its cursors are freed too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_open(
    db: *const mmdb_database,
    snapshot: *mut *mut mmdb_snapshot,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(snapshot, "snapshot")?;
        let db = database(db)?.clone();
        // SAFETY: it refers to what is behind the database, which stays where it is as long as
        // there is a clone of it: the moment has one, and drops it last.
        let opened = std::mem::transmute::<Snapshot<'_>, Snapshot<'static>>(db.snapshot()?);
        put(place, give(Arc::new(Moment { snapshot: opened, _db: db })));
        Ok(())
    })
}

/// The number of the last commit that the snapshot has. `ticket`, which may be NULL, becomes one
/// that tells when that is durable, to be freed with mmdb_ticket_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_gsn(
    snapshot: *const mmdb_snapshot,
    gsn: *mut u64,
    ticket: *mut *mut mmdb_ticket,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let moment = content(snapshot)?;
        put(gsn, moment.snapshot.gsn());
        if !ticket.is_null() {
            put(ticket, give_ticket(moment.snapshot.ticket()));
        }
        Ok(())
    })
}

/// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
/// mmdb_row_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_get(
    snapshot: *const mmdb_snapshot,
    of: *const mmdb_table,
    key: *const mmdb_value,
    count: usize,
    row: *mut *mut mmdb_row,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(row, "row")?;
        let found = content(snapshot)?.snapshot.get(table(of)?, &values(key, count)?)?;
        put(place, give_found(found));
        Ok(())
    })
}

/// Reads the rows that have a key in an index. Free the cursor with mmdb_cursor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_get_by(
    snapshot: *const mmdb_snapshot,
    of: *const mmdb_table,
    index: *const c_char,
    key: *const mmdb_value,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let index = text(index, "the name of an index")?;
        let rows = content(snapshot)?.snapshot.get_by(table(of)?, index, &values(key, count)?)?;
        put(place, give_cursor(CursorContent::new(Source::Rows(rows.into_iter()))));
        Ok(())
    })
}

/// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE.
/// Free it with mmdb_cursor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_range(
    snapshot: *const mmdb_snapshot,
    of: *const mmdb_table,
    index: *const c_char,
    lower: *const mmdb_bound,
    upper: *const mmdb_bound,
    flags: u32,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let (table, index) = (table(of)?, text(index, "the name of an index")?);
        let (bounds, reverse) = (bounds(lower, upper)?, range_bits(flags)?.reverse);
        let reading = Reading::new(content(snapshot)?, reverse, |s| s.range(table, index, bounds))?;
        put(place, give_cursor(CursorContent::new(Source::Snapshot(reading))));
        Ok(())
    })
}

/// Opens a cursor over all rows, in the order of the primary key if that is ordered. As
/// mmdb_snapshot_range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_scan(
    snapshot: *const mmdb_snapshot,
    of: *const mmdb_table,
    flags: u32,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let (table, reverse) = (table(of)?, range_bits(flags)?.reverse);
        let reading = Reading::new(content(snapshot)?, reverse, |s| s.scan(table))?;
        put(place, give_cursor(CursorContent::new(Source::Snapshot(reading))));
        Ok(())
    })
}

/// Writes all rows of all tables into the new file `path`, each as a line of JSON, as `mmdb dump`
/// prints them of a closed database. `rows`, which may be NULL, becomes their number. After an
/// error there is no file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_dump(
    snapshot: *const mmdb_snapshot,
    path: *const c_char,
    rows: *mut u64,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let written = content(snapshot)?.snapshot.dump_to(text(path, "the path of a dump")?)?;
        put(rows, written);
        Ok(())
    })
}

/// Frees a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_free(snapshot: *mut mmdb_snapshot) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if snapshot.is_null() { Ok(()) } else { take(snapshot).map(drop) } })
}
