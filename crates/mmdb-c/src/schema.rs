//! Definitions of tables.

use crate::argument::{place, put, text, texts};
use crate::failure::{Result, guard, misuse};
use crate::handle::{content, enter, give, take};
use crate::status::mmdb_status;
use mmdb::{Column, ColumnType, Locking, Logging, Schema, TimeUnit};
use std::ffi::c_char;
use std::sync::Mutex;

/// The definition of a table, in the making.
pub struct mmdb_schema {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_schema, Mutex<Schema>, b"mmdbSCH\x01");

/// Types of columns.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_type {
    /// Integer of 16 bits.
    Int16 = 1,
    /// Integer of 32 bits.
    Int32 = 2,
    /// Integer of 64 bits.
    Int64 = 3,
    /// Microseconds since 1970-01-01 UTC.
    Time = 4,
    /// Exactly `size` bytes.
    FixedBytes = 5,
    /// Text of up to `size` bytes, which takes them always.
    FixedText = 6,
    /// Up to `size` bytes.
    VarBytes = 7,
    /// Text of up to `size` bytes.
    VarText = 8,
    /// Integer of 32 bits without a sign.
    Uint32 = 9,
    /// Integer of 64 bits without a sign.
    Uint64 = 10,
    /// Floating-point number.
    Float64 = 11,
    /// Truth value.
    Bool = 12,
    /// Decimal number with `size` digits behind its point.
    Decimal = 13,
}

use mmdb_type as T;

/// A type by its number and size.
pub(crate) fn column_type(number: u32, size: u32) -> Result<ColumnType> {
    let small = || u16::try_from(size).map_err(|_| misuse(format!("{size} is no size of a column")));
    Ok(match number {
        n if n == T::Int16 as u32 => ColumnType::Int16,
        n if n == T::Int32 as u32 => ColumnType::Int32,
        n if n == T::Int64 as u32 => ColumnType::Int64,
        n if n == T::Time as u32 => ColumnType::Time,
        n if n == T::FixedBytes as u32 => ColumnType::FixedBytes(small()?),
        n if n == T::FixedText as u32 => ColumnType::FixedText(small()?),
        n if n == T::VarBytes as u32 => ColumnType::VarBytes(small()?),
        n if n == T::VarText as u32 => ColumnType::VarText(small()?),
        n if n == T::Uint32 as u32 => ColumnType::UInt32,
        n if n == T::Uint64 as u32 => ColumnType::UInt64,
        n if n == T::Float64 as u32 => ColumnType::Float64,
        n if n == T::Bool as u32 => ColumnType::Bool,
        n if n == T::Decimal as u32 => ColumnType::Decimal(
            u8::try_from(size).map_err(|_| misuse(format!("{size} digits behind a point")))?,
        ),
        other => return Err(misuse(format!("{other} is no mmdb_type"))),
    })
}

/// The number and size of a type, 0 where C knows none.
pub(crate) fn type_number(kind: ColumnType) -> (u32, u32) {
    match kind {
        ColumnType::Int16 => (T::Int16 as u32, 0),
        ColumnType::Int32 => (T::Int32 as u32, 0),
        ColumnType::Int64 => (T::Int64 as u32, 0),
        ColumnType::Time => (T::Time as u32, 0),
        ColumnType::FixedBytes(n) => (T::FixedBytes as u32, n.into()),
        ColumnType::FixedText(n) => (T::FixedText as u32, n.into()),
        ColumnType::VarBytes(n) => (T::VarBytes as u32, n.into()),
        ColumnType::VarText(n) => (T::VarText as u32, n.into()),
        ColumnType::UInt32 => (T::Uint32 as u32, 0),
        ColumnType::UInt64 => (T::Uint64 as u32, 0),
        ColumnType::Float64 => (T::Float64 as u32, 0),
        ColumnType::Bool => (T::Bool as u32, 0),
        ColumnType::Decimal(scale) => (T::Decimal as u32, scale.into()),
        _ => (0, 0),
    }
}

/// A column by what C says of it.
///
/// # Safety
/// `name` is NULL or a text.
pub(crate) unsafe fn column(name: *const c_char, kind: u32, size: u32, nullable: bool) -> Result<Column> {
    // SAFETY: says the caller.
    let name = unsafe { text(name, "the name of a column")? }.to_owned();
    Ok(Column { name, kind: column_type(kind, size)?, nullable })
}

/// What is locked by whoever uses a row.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_locking {
    /// The row.
    Record = 0,
    /// All rows on its 4 KiB page.
    Page = 1,
    /// All rows in its container.
    Container = 2,
    /// Nothing: no isolation.
    None = 3,
}

/// What of a table comes back when the database is opened again.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_logging {
    /// Every acknowledged commit.
    Logged = 0,
    /// What the last checkpoint had.
    Checkpointed = 1,
    /// Nothing.
    Volatile = 2,
}

/// What the numbers of a column count by which rows expire.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_time_unit {
    /// Seconds since 1970-01-01 UTC.
    Seconds = 0,
    /// Milliseconds.
    Milliseconds = 1,
    /// Microseconds: what columns of MMDB_TYPE_TIME have.
    Microseconds = 2,
}

/// Bits of an index.
pub const MMDB_INDEX_ORDERED: u32 = 1;
/// No two rows may have the same key.
pub const MMDB_INDEX_UNIQUE: u32 = 2;

/// The two bits of an index: whether it is ordered, whether it is unique.
pub(crate) fn index_bits(flags: u32) -> Result<(bool, bool)> {
    if flags & !(MMDB_INDEX_ORDERED | MMDB_INDEX_UNIQUE) != 0 {
        return Err(misuse(format!("{flags} has bits that an index does not")));
    }
    Ok((flags & MMDB_INDEX_ORDERED != 0, flags & MMDB_INDEX_UNIQUE != 0))
}

/// Changes the definition that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle.
unsafe fn change(p: *mut mmdb_schema, f: impl FnOnce(Schema) -> Schema) -> Result<()> {
    // SAFETY: says the caller.
    let mut schema = enter(unsafe { content(p)? }, "mmdb_schema")?;
    let before = std::mem::replace(&mut *schema, Schema::new(""));
    *schema = f(before);
    Ok(())
}

/// A copy of the definition that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle.
pub(crate) unsafe fn given(p: *const mmdb_schema) -> Result<Schema> {
    // SAFETY: says the caller.
    Ok(enter(unsafe { content(p)? }, "mmdb_schema")?.clone())
}

/// Begins the definition of a table. Free it with mmdb_schema_free. What is wrong with it,
/// mmdb_create_table says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_new(name: *const c_char, schema: *mut *mut mmdb_schema) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(schema, "schema")?;
        put(place, give(Mutex::new(Schema::new(text(name, "the name of a table")?))));
        Ok(())
    })
}

/// Adds a column of an mmdb_type. `size` is looked at where the type has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_column(
    schema: *mut mmdb_schema,
    name: *const c_char,
    kind: u32,
    size: u32,
    nullable: bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let column = column(name, kind, size, nullable)?;
        change(schema, |mut s| {
            s.columns.push(column);
            s
        })
    })
}

/// Declares the primary key, whose index is named "primary". Its columns were added before.
/// `flags` is 0 or MMDB_INDEX_ORDERED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_primary_key(
    schema: *mut mmdb_schema,
    columns: *const *const c_char,
    count: usize,
    flags: u32,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let columns = texts(columns, count, "the columns of a primary key")?;
        let (ordered, _) = index_bits(flags)?;
        change(schema, |s| if ordered { s.ordered_primary_key(&columns) } else { s.primary_key(&columns) })
    })
}

/// Adds an index over columns that were added before. `flags`: MMDB_INDEX_ORDERED for ranges,
/// MMDB_INDEX_UNIQUE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_index(
    schema: *mut mmdb_schema,
    name: *const c_char,
    columns: *const *const c_char,
    count: usize,
    flags: u32,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let name = text(name, "the name of an index")?;
        let columns = texts(columns, count, "the columns of an index")?;
        let bits = index_bits(flags)?;
        change(schema, |s| match bits {
            (false, false) => s.hash_index(name, &columns),
            (false, true) => s.unique_hash_index(name, &columns),
            (true, false) => s.ordered_index(name, &columns),
            (true, true) => s.unique_ordered_index(name, &columns),
        })
    })
}

/// Sets an mmdb_locking. Without this, rows are locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_locking(schema: *mut mmdb_schema, locking: u32) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let locking = match locking {
            n if n == mmdb_locking::Record as u32 => Locking::Record,
            n if n == mmdb_locking::Page as u32 => Locking::Page,
            n if n == mmdb_locking::Container as u32 => Locking::Container,
            n if n == mmdb_locking::None as u32 => Locking::None,
            other => return Err(misuse(format!("{other} is no mmdb_locking"))),
        };
        change(schema, |s| s.locking(locking))
    })
}

/// Sets an mmdb_logging. Without this, the table is logged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_logging(schema: *mut mmdb_schema, logging: u32) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let logging = match logging {
            n if n == mmdb_logging::Logged as u32 => Logging::Logged,
            n if n == mmdb_logging::Checkpointed as u32 => Logging::Checkpointed,
            n if n == mmdb_logging::Volatile as u32 => Logging::Volatile,
            other => return Err(misuse(format!("{other} is no mmdb_logging"))),
        };
        change(schema, |s| s.logging(logging))
    })
}

/// Lets rows expire at the time in a column that was added before, which is the first of an ordered
/// index. `unit` is an mmdb_time_unit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_expire_by(
    schema: *mut mmdb_schema,
    column: *const c_char,
    unit: u32,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let column = text(column, "the name of a column")?;
        let unit = match unit {
            n if n == mmdb_time_unit::Seconds as u32 => TimeUnit::Seconds,
            n if n == mmdb_time_unit::Milliseconds as u32 => TimeUnit::Milliseconds,
            n if n == mmdb_time_unit::Microseconds as u32 => TimeUnit::Microseconds,
            other => return Err(misuse(format!("{other} is no mmdb_time_unit"))),
        };
        change(schema, |s| s.expire_by(column, unit))
    })
}

/// Frees a definition.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_schema_free(schema: *mut mmdb_schema) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if schema.is_null() { Ok(()) } else { take(schema).map(drop) } })
}
