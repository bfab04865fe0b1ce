//! Changes of tables while others work.

use crate::argument::{place, put, text, texts};
use crate::database::{database, mmdb_database};
use crate::failure::guard;
use crate::schema::{column, index_bits};
use crate::status::mmdb_status;
use crate::table::{give_table, mmdb_table, table};
use crate::value::mmdb_value;
use mmdb::{NewIndex, Value};
use std::ffi::c_char;

/// Drops a table and its rows. Its handles stay to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_drop_table(
    db: *const mmdb_database,
    dropped: *const mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { Ok(database(db)?.drop_table(table(dropped)?)?) })
}

/// Gives a table another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_rename_table(
    db: *const mmdb_database,
    renamed: *const mmdb_table,
    to: *const c_char,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { Ok(database(db)?.rename_table(table(renamed)?, text(to, "a table's new name")?)?) })
}

/// Adds a column, which rows have with a value from now on; `value` NULL stands for the value NULL.
/// `changed` becomes another handle on the table, to be freed too; the one given goes on with the
/// columns that it knows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_add_column(
    db: *const mmdb_database,
    before: *const mmdb_table,
    name: *const c_char,
    kind: u32,
    size: u32,
    nullable: bool,
    value: *const mmdb_value,
    changed: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(changed, "changed")?;
        let value = value.as_ref().map_or(Ok(Value::Null), |v| v.read())?;
        let column = column(name, kind, size, nullable)?;
        put(place, give_table(database(db)?.add_column(table(before)?, column, value)?));
        Ok(())
    })
}

/// Drops a column. `changed` becomes another handle on the table, to be freed too; earlier ones
/// answer MMDB_STATUS_TABLE_CHANGED, unless it was the last column.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_drop_column(
    db: *const mmdb_database,
    before: *const mmdb_table,
    name: *const c_char,
    changed: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(changed, "changed")?;
        let done = database(db)?.drop_column(table(before)?, text(name, "the name of a column")?)?;
        put(place, give_table(done));
        Ok(())
    })
}

/// Gives a column another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_rename_column(
    db: *const mmdb_database,
    changed: *const mmdb_table,
    name: *const c_char,
    to: *const c_char,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (name, to) = (text(name, "the name of a column")?, text(to, "a column's new name")?);
        Ok(database(db)?.rename_column(table(changed)?, name, to)?)
    })
}

/// Builds an index while others work. `flags`: MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_create_index(
    db: *const mmdb_database,
    changed: *const mmdb_table,
    name: *const c_char,
    columns: *const *const c_char,
    count: usize,
    flags: u32,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let name = text(name, "the name of an index")?;
        let columns = texts(columns, count, "the columns of an index")?;
        let (ordered, unique) = index_bits(flags)?;
        let index = if ordered { NewIndex::ordered(name, &columns) } else { NewIndex::hash(name, &columns) };
        let index = if unique { index.unique() } else { index };
        Ok(database(db)?.create_index(table(changed)?, index)?)
    })
}

/// Drops an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_drop_index(
    db: *const mmdb_database,
    changed: *const mmdb_table,
    name: *const c_char,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { Ok(database(db)?.drop_index(table(changed)?, text(name, "the name of an index")?)?) })
}
