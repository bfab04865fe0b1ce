//! The tables that all crash schedules work on: their columns, their indexes, and what stands in
//! their rows.

use super::engine::{
    Column, ColumnType, Database, Decimal, IndexDef, IndexKind, Locking, Logging, Row, Schema, Table,
    TimeUnit, Value,
};
use super::rng::Rng;
use std::collections::BTreeMap;

/// Lengths of the padding, bytes: rows of several classes, so that some outgrow their slots; with
/// the longest, a few commits fill a segment.
pub const PADS: [usize; 4] = [3, 10, 200, 390];
/// Values of the column that may be unique.
pub const TAGS: u64 = 9;

/// Rows by their keys.
pub type Rows = BTreeMap<u8, (u64, usize, u8)>;

/// Types of the column of tags: keys of each are in the order of the tags.
const TAG_TYPES: [ColumnType; 6] = [
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float64,
    ColumnType::Decimal(2),
];

/// A table with a primary key, an index of writers, and one of tags, which may be unique; and rows
/// may expire by their tags.
pub fn schema(name: &str, locking: Locking, logging: Logging, rng: &mut Rng) -> Schema {
    let s = Schema::new(name)
        .column("id", ColumnType::Int16)
        .column("writer", if rng.one_in(2) { ColumnType::Int64 } else { ColumnType::UInt64 })
        .column("tag", rng.of(&TAG_TYPES))
        .column("pad", ColumnType::VarBytes(400));
    let s = if rng.one_in(2) { s.ordered_primary_key(&["id"]) } else { s.primary_key(&["id"]) };
    let s = if rng.one_in(4) {
        s.hash_index("by_writer", &["writer"])
    } else {
        s.ordered_index("by_writer", &["writer"])
    };
    let s = match rng.below(4) {
        0 => s.unique_hash_index("by_tag", &["tag"]),
        1 => s.unique_ordered_index("by_tag", &["tag"]),
        2 => s.ordered_index("by_tag", &["tag"]),
        _ => s.hash_index("by_tag", &["tag"]),
    };
    let counts = |c: &Column| matches!(c.kind, ColumnType::Int32 | ColumnType::UInt32 | ColumnType::UInt64);
    let ordered = |i: &IndexDef| i.name == "by_tag" && i.kind == IndexKind::Ordered;
    let s = if counts(&s.columns[2]) && s.indexes.iter().any(ordered) && rng.one_in(2) {
        s.expire_by("tag", TimeUnit::Seconds)
    } else {
        s
    };
    s.locking(locking).logging(logging)
}

/// Whether no two rows of the table have the same tag.
pub fn is_unique(table: &Table) -> bool {
    table.schema().indexes.iter().any(|i| i.name == "by_tag" && i.unique)
}

/// The padding that `writer` puts into a row: nothing that packs well, so that the log has it at
/// its length.
pub fn padding(writer: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(writer);
    (0..len.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).take(len).collect()
}

/// A tag as the table has it: some numbers are negative, one is NaN.
pub fn tag_value(table: &Table, tag: u8) -> Value<'static> {
    match table.schema().columns[2].kind {
        ColumnType::Float64 if u64::from(tag) == TAGS - 1 => Value::Float(f64::NAN),
        ColumnType::Float64 => Value::Float(f64::from(tag) / 4.0 - 1.0),
        ColumnType::Decimal(scale) => {
            Decimal::new(i64::from(tag) * 5 - 20, scale).map(Value::Decimal).unwrap()
        }
        _ => Value::Int(tag.into()),
    }
}

/// The tag that a row has; one that nobody expects if the value is none.
fn tag_of(v: Value<'_>) -> u8 {
    let number = match v {
        Value::Float(x) if x.is_nan() => Some(TAGS as i64 - 1),
        Value::Float(x) => Some(((x + 1.0) * 4.0) as i64),
        Value::Decimal(d) => Some((d.unscaled() + 20) / 5),
        _ => v.as_int(),
    };
    number.and_then(|n| u8::try_from(n).ok()).unwrap_or(u8::MAX)
}

/// The values of a row of a table.
pub fn values<'p>(table: &Table, key: u8, content: (u64, usize, u8), pad: &'p [u8]) -> [Value<'p>; 4] {
    let (writer, _, tag) = content;
    [Value::Int(key.into()), Value::Int(writer as i64), tag_value(table, tag), Value::Bytes(pad)]
}

pub fn key(r: &Row) -> u8 {
    r.at(0).as_int().unwrap() as u8
}

/// What stands in a row. A padding that is not the writer's has a length that nobody expects.
pub fn content(r: &Row) -> (u64, usize, u8) {
    let (writer, pad) = (r.at(1).as_int().unwrap() as u64, r.at(3).as_bytes().unwrap());
    let whole = padding(writer, pad.len()) == pad;
    (writer, if whole { pad.len() } else { usize::MAX }, tag_of(r.at(2)))
}

/// All rows of a table, while nobody writes it.
pub fn rows(db: &Database, table: &Table) -> Result<Rows, String> {
    let mut tx = db.begin().map_err(|e| e.to_string())?;
    let all = tx.scan(table).map_err(|e| e.to_string())?;
    all.map(|r| r.map(|r| (key(&r), content(&r))).map_err(|e| e.to_string())).collect()
}
