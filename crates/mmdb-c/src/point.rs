//! Rows by their primary keys: outside of transactions, and many at once.

use crate::argument::{place, put};
use crate::cursor::{CursorContent, Source, give_cursor, mmdb_cursor};
use crate::database::{database, mmdb_database};
use crate::failure::{Result, guard, misuse};
use crate::row::{give_found, mmdb_row};
use crate::snapshot::{mmdb_snapshot, snapshot};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, table};
use crate::transaction::{mmdb_transaction, within};
use crate::value::{mmdb_value, values};
use mmdb::{Row, Value};

/// Reads the row with a primary key as it was last committed, outside of any transaction: without
/// locks, so that this waits for no transaction, and none waits for it. Each such read has a moment
/// of its own. What it gives may not be durable yet (mmdb_flush). `row` becomes NULL if there is
/// none; free it with mmdb_row_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_committed(
    db: *const mmdb_database,
    of: *const mmdb_table,
    key: *const mmdb_value,
    count: usize,
    row: *mut *mut mmdb_row,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(row, "row")?;
        let found = database(db)?.get(table(of)?, &values(key, count)?)?;
        put(place, give_found(found));
        Ok(())
    })
}

/// As mmdb_get_committed, of many keys at once, which is faster. `keys` are `count` keys one behind
/// the other, of `columns` values each. mmdb_cursor_next gives a row for each key, in their order,
/// and NULL where there is none: call it `count` times. Free the cursor with mmdb_cursor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_many_committed(
    db: *const mmdb_database,
    of: *const mmdb_table,
    keys: *const mmdb_value,
    columns: usize,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        give_many(keys, columns, count, cursor, |keys| Ok(database(db)?.get_many(table(of)?, keys)?))
    })
}

/// As mmdb_get of many keys, which is faster; keys and cursor as of mmdb_get_many_committed. The
/// cursor does not keep the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_many(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    keys: *const mmdb_value,
    columns: usize,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        give_many(keys, columns, count, cursor, |keys| {
            let table = table(of)?;
            within(tx, |tx| Ok(tx.get_many(table, keys)?))
        })
    })
}

/// As mmdb_snapshot_get of many keys, which is faster; keys and cursor as of
/// mmdb_get_many_committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_get_many(
    of_snapshot: *const mmdb_snapshot,
    of: *const mmdb_table,
    keys: *const mmdb_value,
    columns: usize,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        give_many(keys, columns, count, cursor, |keys| Ok(snapshot(of_snapshot)?.get_many(table(of)?, keys)?))
    })
}

/// Has many keys read, and gives a cursor over what is found.
///
/// # Safety
/// `keys` is NULL or has `columns` times `count` values; `cursor` is NULL or a place for one.
unsafe fn give_many<'k>(
    keys: *const mmdb_value,
    columns: usize,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
    read: impl FnOnce(std::slice::Chunks<'_, Value<'k>>) -> Result<Vec<Option<Row>>>,
) -> Result<()> {
    let place = place(cursor, "cursor")?;
    let all = count.checked_mul(columns).filter(|_| columns > 0 || count == 0);
    let all = all.ok_or_else(|| misuse(format!("there are no {count} keys of {columns} values")))?;
    // SAFETY: they are there, says the caller.
    let values = unsafe { values(keys, all)? };
    let rows = read(values.chunks(columns.max(1)))?;
    // SAFETY: it is a place for one, says the caller.
    unsafe { put(place, give_cursor(CursorContent::new(Source::Found(rows.into_iter())))) };
    Ok(())
}
