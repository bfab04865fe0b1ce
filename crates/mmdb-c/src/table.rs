//! Tables.

use crate::argument::{place, put, text};
use crate::database::{database, mmdb_database};
use crate::failure::{Result, guard, misuse};
use crate::handle::{content, give, take};
use crate::schema::{MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE, given, mmdb_schema, type_number};
use crate::status::mmdb_status;
use mmdb::{Database, IndexKind, Table};
use std::ffi::{CString, c_char};

/// A table of an open database. Any number of threads may use it at once; it outlives its
/// database's handle, and is of no use then.
pub struct mmdb_table {
    _private: [u8; 0],
}

/// What is behind it: the table, and its definition when the handle was made, as C reads it.
pub(crate) struct TableContent {
    table: Table,
    name: CString,
    columns: Vec<(CString, u32, u32, bool)>,
    indexes: Vec<(CString, u32, Vec<u32>)>,
}

crate::handle::kind!(mmdb_table, TableContent, b"mmdbTAB\x01");

/// The table that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle, which nobody frees meanwhile.
pub(crate) unsafe fn table<'a>(p: *const mmdb_table) -> Result<&'a Table> {
    // SAFETY: says the caller.
    Ok(&unsafe { content(p)? }.table)
}

/// A name as C reads it. One with a zero in it is cut there.
fn name(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// A handle for the caller.
pub(crate) fn give_table(table: Table) -> *mut mmdb_table {
    let schema = table.schema();
    let columns = schema.columns.iter().map(|c| {
        let (kind, size) = type_number(c.kind);
        (name(&c.name), kind, size, c.nullable)
    });
    let indexes = schema.indexes.iter().map(|i| {
        let ordered = if i.kind == IndexKind::Ordered { MMDB_INDEX_ORDERED } else { 0 };
        let unique = if i.unique { MMDB_INDEX_UNIQUE } else { 0 };
        (name(&i.name), ordered | unique, i.columns.iter().map(|&c| c as u32).collect())
    });
    let (columns, indexes) = (columns.collect(), indexes.collect());
    give(TableContent { name: name(&schema.name), columns, indexes, table })
}

/// A column of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_column {
    /// Its name, which belongs to the table's handle.
    pub name: *const c_char,
    /// An mmdb_type.
    pub kind: u32,
    /// Its size, where the type has one.
    pub size: u32,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// An index of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_index {
    /// Its name, which belongs to the table's handle.
    pub name: *const c_char,
    /// MMDB_INDEX_ORDERED, MMDB_INDEX_UNIQUE.
    pub flags: u32,
    /// Numbers of its columns, which belong to the table's handle.
    pub columns: *const u32,
    /// How many.
    pub count: usize,
}

/// Creates a table. Free the handle with mmdb_table_free; the table stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_create_table(
    db: *const mmdb_database,
    schema: *const mmdb_schema,
    table: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { create(db, schema, table, Database::create_table) })
}

/// Creates a table, or finds the one that has its name: MMDB_STATUS_SCHEMA_DIFFERS if that is
/// defined in another way. Free the handle with mmdb_table_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_create_table_if_missing(
    db: *const mmdb_database,
    schema: *const mmdb_schema,
    table: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { create(db, schema, table, Database::create_table_if_missing) })
}

unsafe fn create(
    db: *const mmdb_database,
    schema: *const mmdb_schema,
    table: *mut *mut mmdb_table,
    f: impl FnOnce(&Database, mmdb::Schema) -> mmdb::Result<Table>,
) -> Result<()> {
    // SAFETY: says the caller.
    unsafe {
        let place = place(table, "table")?;
        put(place, give_table(f(database(db)?, given(schema)?)?));
    }
    Ok(())
}

/// Finds a table by its name. Free the handle with mmdb_table_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_open(
    db: *const mmdb_database,
    name: *const c_char,
    table: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(table, "table")?;
        put(place, give_table(database(db)?.table(text(name, "the name of a table")?)?));
        Ok(())
    })
}

/// The table at a place among all tables, which are in the order of their creation; `table` becomes
/// NULL behind the last one. Where others drop tables meanwhile, go from the last place down: those
/// behind a table that is dropped move by one place. Free the handle with mmdb_table_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_at(
    db: *const mmdb_database,
    at: usize,
    table: *mut *mut mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(table, "table")?;
        let found = database(db)?.tables().into_iter().nth(at);
        put(place, found.map_or(std::ptr::null_mut(), give_table));
        Ok(())
    })
}

/// The table's name when the handle was made, or NULL if this is no table. It belongs to the
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_name(table: *const mmdb_table) -> *const c_char {
    let mut name = std::ptr::null();
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        name = content(table)?.name.as_ptr();
        Ok(())
    });
    name
}

/// How many columns and indexes the table had when the handle was made. Either may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_counts(
    table: *const mmdb_table,
    columns: *mut usize,
    indexes: *mut usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let table = content(table)?;
        put(columns, table.columns.len());
        put(indexes, table.indexes.len());
        Ok(())
    })
}

/// A column of the table, as it was when the handle was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_column(
    table: *const mmdb_table,
    at: usize,
    column: *mut mmdb_column,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let table = content(table)?;
        let place = place(column, "column")?;
        let Some((name, kind, size, nullable)) = table.columns.get(at) else {
            return Err(misuse(format!("column {at} of {}", table.columns.len())));
        };
        let (name, kind, size, nullable) = (name.as_ptr(), *kind, *size, *nullable);
        put(place, mmdb_column { name, kind, size, nullable });
        Ok(())
    })
}

/// An index of the table, as it was when the handle was made. The first one is the primary key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_index(
    table: *const mmdb_table,
    at: usize,
    index: *mut mmdb_index,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let table = content(table)?;
        let place = place(index, "index")?;
        let Some((name, flags, columns)) = table.indexes.get(at) else {
            return Err(misuse(format!("index {at} of {}", table.indexes.len())));
        };
        let (name, flags) = (name.as_ptr(), *flags);
        put(place, mmdb_index { name, flags, columns: columns.as_ptr(), count: columns.len() });
        Ok(())
    })
}

/// Frees a table's handle. The table stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_table_free(table: *mut mmdb_table) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if table.is_null() { Ok(()) } else { take(table).map(drop) } })
}
