//! Rows as bytes: `null bitmap | fixed columns | end offsets of the variable columns | their
//! bytes`.

use crate::codec::{put_u16, u16_at};
use crate::column::ColumnType;
use crate::container::Slot;
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::value::{Value, float_order};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where each column lies in an encoded row.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) table: String,
    pub(crate) columns: Vec<ColumnLayout>,
    /// Bytes before the variable part.
    head: usize,
    /// Offset of the table of end offsets.
    ends: usize,
    /// The generation of columns that this is.
    pub(crate) generation: u16,
    /// Those before, rising.
    past: Vec<PastLayout>,
    /// Of each column what it has in rows that were written before it was added, if it was.
    added: Vec<Option<Added>>,
}

/// An earlier generation of a table's columns.
#[derive(Debug)]
struct PastLayout {
    number: u16,
    layout: Layout,
    /// Where each column of today is in it; nowhere if it was added later.
    places: Vec<Option<usize>>,
}

/// The default of a column that was added: a row of it alone.
#[derive(Debug)]
struct Added {
    layout: Layout,
    row: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct ColumnLayout {
    pub(crate) name: String,
    pub(crate) kind: ColumnType,
    nullable: bool,
    /// Byte offset of a fixed column, ordinal of a variable one.
    at: usize,
}

/// Bytes of a column among the fixed ones.
fn width(kind: ColumnType) -> usize {
    match kind {
        ColumnType::Bool => 1,
        ColumnType::Int16 => 2,
        ColumnType::Int32 | ColumnType::UInt32 => 4,
        ColumnType::Int64
        | ColumnType::UInt64
        | ColumnType::Time
        | ColumnType::Float64
        | ColumnType::Decimal(_) => 8,
        ColumnType::FixedBytes(n) => n as usize,
        ColumnType::FixedText(n) => n as usize + 2,
        ColumnType::VarBytes(_) | ColumnType::VarText(_) => 0,
    }
}

/// The bits of a number that is checked, as a column of this type has them: the least significant
/// bytes stand in the row.
#[inline]
fn bits(kind: ColumnType, v: Value<'_>) -> u64 {
    match (v, kind) {
        (Value::Int(x) | Value::Time(x), _) => x as u64,
        (Value::UInt(x), _) => x,
        (Value::Float(x), _) => x.to_bits(),
        (Value::Bool(x), _) => x.into(),
        (Value::Decimal(x), ColumnType::Decimal(scale)) => {
            x.with_scale(scale).map_or(0, |x| x.unscaled() as u64)
        }
        _ => 0,
    }
}

fn is_variable(kind: ColumnType) -> bool {
    matches!(kind, ColumnType::VarBytes(_) | ColumnType::VarText(_))
}

impl Layout {
    pub(crate) fn new(schema: &Schema) -> Layout {
        let table = &schema.name;
        let (generations, width) = (&schema.generations, schema.columns.len());
        let now = schema.columns.iter().map(|c| (&*c.name, c.kind, c.nullable));
        let mut layout = Layout::of(table, width, now);
        layout.generation = generations.now;
        for past in &generations.past {
            let place = |at: usize| past.columns.iter().position(|c| c.id == generations.id(at));
            layout.past.push(PastLayout {
                number: past.number,
                places: (0..width).map(place).collect(),
                layout: Layout::of(
                    table,
                    past.columns.len(),
                    past.columns.iter().map(|c| ("", c.kind, c.nullable)),
                ),
            });
        }
        for (at, c) in schema.columns.iter().enumerate() {
            let default = generations.default_of(generations.id(at));
            let layout_of = || Layout::of(table, 1, std::iter::once((&*c.name, c.kind, c.nullable)));
            layout.added.push(default.map(|row| Added { layout: layout_of(), row: row.to_vec() }));
        }
        layout
    }

    /// The layout of `count` columns, each with its name, its type and whether it may be NULL.
    pub(crate) fn of<'c>(
        table: &str,
        count: usize,
        all: impl Iterator<Item = (&'c str, ColumnType, bool)>,
    ) -> Layout {
        let mut at = count.div_ceil(8);
        let mut vars = 0;
        let mut columns = Vec::with_capacity(count);
        for (name, kind, nullable) in all {
            let place = match kind {
                ColumnType::VarBytes(_) | ColumnType::VarText(_) => {
                    vars += 1;
                    vars - 1
                }
                k => {
                    let here = at;
                    at += width(k);
                    here
                }
            };
            columns.push(ColumnLayout { name: name.to_owned(), kind, nullable, at: place });
        }
        let (table, head) = (table.to_owned(), at + 2 * vars);
        Layout { table, columns, head, ends: at, generation: 0, past: Vec::new(), added: Vec::new() }
    }

    /// The row in a slot in today's columns, if there is one; none, too, of a generation that this
    /// does not know.
    #[inline]
    pub(crate) fn row_of<'s>(&self, slot: Slot<'s>) -> Option<Cow<'s, [u8]>> {
        let row = slot.row()?;
        if slot.generation() == self.generation {
            return Some(Cow::Borrowed(row));
        }
        let mut translated = Vec::new();
        self.translate(slot.generation(), row, &mut translated)?;
        Some(Cow::Owned(translated))
    }

    /// Appends a row of an earlier generation in today's columns to `out`. `None`, and nothing is
    /// appended, if there is no such generation or the row is none of it.
    #[cold]
    pub(crate) fn translate(&self, generation: u16, row: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let at = self.past.binary_search_by_key(&generation, |past| past.number).ok()?;
        let past = self.past.get(at)?;
        let value = |(col, place): (usize, &Option<usize>)| match place {
            Some(place) => past.layout.try_get(row, *place),
            None => self.default_of(col),
        };
        let values: Option<Vec<Value<'_>>> = past.places.iter().enumerate().map(value).collect();
        let start = out.len();
        let encoded = self.encode(&values?, out).ok();
        if encoded.is_none() {
            out.truncate(start);
        }
        encoded
    }

    /// What a column has in rows that were written before it was added; `None` if it never was.
    pub(crate) fn default_of(&self, col: usize) -> Option<Value<'_>> {
        let added = self.added.get(col)?.as_ref()?;
        added.layout.try_get(&added.row, 0)
    }

    fn bad(&self, col: usize, reason: String) -> Error {
        Error::Value { table: self.table.clone(), column: self.columns[col].name.clone(), reason }
    }

    /// Checks that `v` may stand in column `col` (which must exist).
    pub(crate) fn check(&self, col: usize, v: Value<'_>) -> Result<()> {
        let c = &self.columns[col];
        let long = |n: usize, max: u16| {
            if n > max as usize {
                return Err(self.bad(col, format!("{n} bytes exceed the {max} declared")));
            }
            Ok(())
        };
        match (c.kind, v) {
            (_, Value::Null) if c.nullable => Ok(()),
            (_, Value::Null) => Err(self.bad(col, "NULL is not allowed".into())),
            (ColumnType::Int16, Value::Int(i)) if i16::try_from(i).is_ok() => Ok(()),
            (ColumnType::Int32, Value::Int(i)) if i32::try_from(i).is_ok() => Ok(()),
            (ColumnType::UInt32, Value::UInt(i)) if u32::try_from(i).is_ok() => Ok(()),
            (ColumnType::Int64, Value::Int(_))
            | (ColumnType::UInt64, Value::UInt(_))
            | (ColumnType::Time, Value::Time(_))
            | (ColumnType::Float64, Value::Float(_))
            | (ColumnType::Bool, Value::Bool(_)) => Ok(()),
            // An integer of the other kind: it is one that fits both, or out of range.
            (ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, Value::UInt(i)) => {
                match i64::try_from(i) {
                    Ok(i) => self.check(col, Value::Int(i)),
                    Err(_) => Err(self.bad(col, format!("{i} is out of range"))),
                }
            }
            (ColumnType::UInt32 | ColumnType::UInt64, Value::Int(i)) => match u64::try_from(i) {
                Ok(i) => self.check(col, Value::UInt(i)),
                Err(_) => Err(self.bad(col, format!("{i} is out of range"))),
            },
            (ColumnType::Int16 | ColumnType::Int32 | ColumnType::UInt32, Value::Int(_) | Value::UInt(_)) => {
                Err(self.bad(col, format!("{v} is out of range")))
            }
            (ColumnType::Decimal(scale), Value::Decimal(d)) => match d.with_scale(scale) {
                Some(_) => Ok(()),
                None => Err(self.bad(col, format!("{d} does not fit {:?}", c.kind))),
            },
            (ColumnType::FixedBytes(n), Value::Bytes(b)) if b.len() != n as usize => {
                Err(self.bad(col, format!("{} bytes where {n} are declared", b.len())))
            }
            (ColumnType::FixedBytes(_), Value::Bytes(_)) => Ok(()),
            (ColumnType::FixedText(n) | ColumnType::VarText(n), Value::Text(t)) => long(t.len(), n),
            (ColumnType::VarBytes(n), Value::Bytes(b)) => long(b.len(), n),
            (k, v) => Err(self.bad(col, format!("{} where {k:?} is declared", v.kind()))),
        }
    }

    /// Appends the encoding of `values`, which are checked, to `out`.
    pub(crate) fn encode(&self, values: &[Value<'_>], out: &mut Vec<u8>) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(Error::Operation {
                table: self.table.clone(),
                operation: "make a row",
                reason: format!("{} values for {} columns", values.len(), self.columns.len()),
            });
        }
        let start = out.len();
        out.resize(start + self.head, 0);
        for (i, v) in values.iter().enumerate() {
            self.check(i, *v)?;
            let c = &self.columns[i];
            if !is_variable(c.kind) {
                self.put_fixed(i, *v, &mut out[start..]);
                continue;
            }
            if let Some(b) = v.as_bytes() {
                out.extend_from_slice(b);
            } else {
                out[start + i / 8] |= 1 << (i % 8);
            }
            let len = out.len() - start;
            let end = u16::try_from(len).map_err(|_| Error::RowTooLarge {
                table: self.table.clone(),
                bytes: len as u64,
                max: u16::MAX.into(),
            })?;
            let slot = start + self.ends + 2 * c.at;
            out[slot..slot + 2].copy_from_slice(&end.to_le_bytes());
        }
        Ok(())
    }

    /// Writes the checked value of a fixed column, whose bytes are zero, into `row`.
    fn put_fixed(&self, col: usize, v: Value<'_>, row: &mut [u8]) {
        let c = &self.columns[col];
        let at = c.at;
        match (c.kind, v) {
            (_, Value::Null) => row[col / 8] |= 1 << (col % 8),
            (ColumnType::FixedBytes(_), Value::Bytes(b)) => row[at..at + b.len()].copy_from_slice(b),
            (_, Value::Text(t)) => {
                row[at..at + 2].copy_from_slice(&(t.len() as u16).to_le_bytes());
                row[at + 2..at + 2 + t.len()].copy_from_slice(t.as_bytes());
            }
            // `check` has refused every other pair.
            (_, Value::Bytes(_)) => {}
            (kind, number) => {
                let width = width(kind);
                row[at..at + width].copy_from_slice(&bits(kind, number).to_le_bytes()[..width]);
            }
        }
    }

    /// Appends the row at `old` with the values of `set` to `out`, if only fixed columns change;
    /// else gives false and appends nothing. The columns must exist.
    pub(crate) fn patch(
        &self,
        set: &[(usize, Value<'_>)],
        old: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if set.iter().any(|(col, _)| is_variable(self.columns[*col].kind)) {
            return Ok(false);
        }
        set.iter().try_for_each(|(col, v)| self.check(*col, *v))?;
        let start = out.len();
        out.extend_from_within(old);
        let row = &mut out[start..];
        for &(col, v) in set {
            let c = &self.columns[col];
            row[col / 8] &= !(1 << (col % 8));
            row[c.at..c.at + width(c.kind)].fill(0);
            self.put_fixed(col, v, row);
        }
        Ok(true)
    }

    /// The value of column `col` of the encoded row `b`. Rows that [`Layout::valid`] refuses give
    /// NULLs, not panics.
    pub(crate) fn get<'a>(&self, b: &'a [u8], col: usize) -> Value<'a> {
        self.try_get(b, col).unwrap_or(Value::Null)
    }

    fn try_get<'a>(&self, b: &'a [u8], col: usize) -> Option<Value<'a>> {
        let c = self.columns.get(col)?;
        if b.get(col / 8)? & (1 << (col % 8)) != 0 {
            return Some(Value::Null);
        }
        let at = c.at;
        Some(match c.kind {
            ColumnType::Int16 => Value::Int(i16::from_le_bytes(b.get(at..at + 2)?.try_into().ok()?).into()),
            ColumnType::Int32 => Value::Int(i32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?).into()),
            ColumnType::Int64 => Value::Int(i64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?)),
            ColumnType::Time => Value::Time(i64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?)),
            ColumnType::UInt32 => Value::UInt(u32::from_le_bytes(b.get(at..at + 4)?.try_into().ok()?).into()),
            ColumnType::UInt64 => Value::UInt(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?)),
            ColumnType::Float64 => Value::Float(f64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?)),
            ColumnType::Bool => match b.get(at)? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                _ => return None,
            },
            ColumnType::Decimal(scale) => {
                let unscaled = i64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?);
                Value::Decimal(Decimal::new(unscaled, scale)?)
            }
            ColumnType::FixedBytes(n) => Value::Bytes(b.get(at..at + n as usize)?),
            ColumnType::FixedText(n) => {
                let len = u16_at(b, at).min(n) as usize;
                Value::Text(std::str::from_utf8(b.get(at + 2..at + 2 + len)?).ok()?)
            }
            ColumnType::VarBytes(_) | ColumnType::VarText(_) => {
                let end = u16_at(b, self.ends + 2 * at) as usize;
                let start = if at == 0 { self.head } else { u16_at(b, self.ends + 2 * at - 2) as usize };
                let s = b.get(start..end)?;
                match c.kind {
                    ColumnType::VarText(_) => Value::Text(std::str::from_utf8(s).ok()?),
                    _ => Value::Bytes(s),
                }
            }
        })
    }

    /// True if every column of `b` can be read.
    pub(crate) fn valid(&self, b: &[u8]) -> bool {
        b.len() >= self.head && (0..self.columns.len()).all(|c| self.try_get(b, c).is_some())
    }

    /// Appends the order-preserving encoding of one key part: comparing the bytes compares the
    /// values.
    pub(crate) fn key_part(&self, col: usize, v: Value<'_>, out: &mut Vec<u8>) {
        if self.columns[col].nullable {
            out.push(u8::from(!v.is_null()));
        }
        let kind = self.columns[col].kind;
        match v {
            Value::Null => {}
            Value::Bool(x) => out.push(x.into()),
            Value::Float(x) => out.extend_from_slice(&float_order(x).to_be_bytes()),
            Value::Int(_) | Value::UInt(_) | Value::Time(_) | Value::Decimal(_) => {
                let x = bits(kind, v);
                match kind {
                    ColumnType::Int16 => out.extend_from_slice(&((x as u16) ^ 0x8000).to_be_bytes()),
                    ColumnType::Int32 => out.extend_from_slice(&((x as u32) ^ 0x8000_0000).to_be_bytes()),
                    ColumnType::UInt32 => out.extend_from_slice(&(x as u32).to_be_bytes()),
                    ColumnType::UInt64 => out.extend_from_slice(&x.to_be_bytes()),
                    _ => out.extend_from_slice(&(x ^ (1 << 63)).to_be_bytes()),
                }
            }
            Value::Bytes(b) if matches!(kind, ColumnType::FixedBytes(_)) => {
                out.extend_from_slice(b);
            }
            Value::Bytes(b) => escape(b, out),
            Value::Text(t) => escape(t.as_bytes(), out),
        }
    }

    /// Appends the key that the row `b` has in the columns `cols`.
    pub(crate) fn row_key(&self, b: &[u8], cols: &[usize], out: &mut Vec<u8>) {
        for &c in cols {
            self.key_part(c, self.get(b, c), out);
        }
    }

    /// Appends the key made of `values`, which may be fewer than `cols` if `prefix`.
    pub(crate) fn user_key(
        &self,
        values: &[Value<'_>],
        cols: &[usize],
        prefix: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if values.len() > cols.len() || (!prefix && values.len() != cols.len()) {
            return Err(Error::Operation {
                table: self.table.clone(),
                operation: "make a key",
                reason: format!("{} values where {} columns are declared", values.len(), cols.len()),
            });
        }
        for (&c, v) in cols.iter().zip(values) {
            self.check(c, *v)?;
            self.key_part(c, *v, out);
        }
        Ok(())
    }

    /// The key of `b` in the columns `cols` as text, for messages.
    pub(crate) fn key_text(&self, b: &[u8], cols: &[usize]) -> String {
        let parts: Vec<String> = cols.iter().map(|&c| self.get(b, c).to_string()).collect();
        format!("({})", parts.join(", "))
    }
}

/// `0x00` becomes `0x00 0xff`, the end is `0x00 0x00`: shorter strings sort first.
fn escape(b: &[u8], out: &mut Vec<u8>) {
    for &x in b {
        out.push(x);
        if x == 0 {
            out.push(0xff);
        }
    }
    put_u16(out, 0);
}

/// The values of a key as text, for messages.
pub(crate) fn values_text(values: &[Value<'_>]) -> String {
    let parts: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("({})", parts.join(", "))
}

/// A copy of one row, as the transaction saw it.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema, Value};
/// let db = Database::in_memory()?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// let mut tx = db.begin()?;
/// tx.insert(&t, &[7.into()])?;
/// let row = tx.get(&t, &[7.into()])?.expect("just inserted");
/// assert_eq!(row.get("id"), Some(Value::Int(7)));
/// assert_eq!(row.at(0), Value::Int(7));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Row {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) layout: Arc<Layout>,
}

/// One row where it lies: reading it copies nothing and allocates nothing.
/// [`crate::Transaction::get_with`] and [`crate::Cursor::next_with`] lend it.
///
/// ```
/// # use mmdb::{ColumnType, Database, RowView, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(
/// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
/// # )?;
/// # let mut tx = db.begin()?;
/// # tx.insert(&t, &[7.into(), 10.into()])?;
/// let n = |row: RowView<'_>| row.at(1).as_int();
/// assert_eq!(tx.get_with(&t, &[7.into()], n)?, Some(Some(10)));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct RowView<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a Arc<Layout>,
}

impl<'a> RowView<'a> {
    /// The value of the column at position `col`; NULL if there is no such column.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into()])?;
    /// assert_eq!(tx.get_with(&t, &[7.into()], |row| row.at(0) == 7.into() && row.at(9).is_null())?, Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn at(self, col: usize) -> Value<'a> {
        self.layout.get(self.bytes, col)
    }

    /// A copy of the row.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into()])?;
    /// assert_eq!(tx.get_with(&t, &[7.into()], |row| row.to_row())?, tx.get(&t, &[7.into()])?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn to_row(self) -> Row {
        Row { bytes: self.bytes.into(), layout: self.layout.clone() }
    }
}

impl fmt::Debug for RowView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_row().fmt(f)
    }
}

impl Row {
    /// The row, lent.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into()])?;
    /// let row = tx.get(&t, &[7.into()])?.expect("it was inserted");
    /// assert_eq!(row.view().at(0), row.at(0));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn view(&self) -> RowView<'_> {
        RowView { bytes: &self.bytes, layout: &self.layout }
    }

    /// The value of the column at position `col`; NULL if there is no such column.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into(), 10.into()])?;
    /// let row = tx.get(&t, &[7.into()])?.expect("it was inserted");
    /// assert_eq!(row.at(1), 10.into());
    /// assert!(row.at(99).is_null());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn at(&self, col: usize) -> Value<'_> {
        self.layout.get(&self.bytes, col)
    }

    /// The value of the named column; `None` if there is no such column.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into(), 10.into()])?;
    /// let row = tx.get(&t, &[7.into()])?.expect("it was inserted");
    /// assert_eq!(row.get("n"), Some(10.into()));
    /// assert_eq!(row.get("no such"), None);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn get(&self, column: &str) -> Option<Value<'_>> {
        let col = self.layout.columns.iter().position(|c| c.name == column)?;
        Some(self.at(col))
    }

    /// All values in order of the columns.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into(), 10.into()])?;
    /// let row = tx.get(&t, &[7.into()])?.expect("it was inserted");
    /// assert_eq!(row.values(), [7.into(), 10.into()]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn values(&self) -> Vec<Value<'_>> {
        (0..self.layout.columns.len()).map(|c| self.at(c)).collect()
    }

    /// The row as one JSON object, columns in order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[7.into(), 10.into()])?;
    /// let row = tx.get(&t, &[7.into()])?.expect("it was inserted");
    /// assert_eq!(row.to_json(), r#"{"id":7,"n":10}"#);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut s = String::from("{");
        for (i, c) in self.layout.columns.iter().enumerate() {
            if i > 0 {
                s.push(',');
            }
            // Writing to a String cannot fail.
            let _ = crate::value::write_json_text(&mut s, &c.name);
            s.push(':');
            s.push_str(&self.at(i).to_string());
        }
        s.push('}');
        s
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.values() == other.values()
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout() -> Layout {
        Layout::new(
            &Schema::new("t")
                .column("a", ColumnType::Int16)
                .nullable("b", ColumnType::VarText(300))
                .nullable("c", ColumnType::Int64)
                .column("d", ColumnType::FixedText(9))
                .nullable("e", ColumnType::VarBytes(300))
                .column("f", ColumnType::FixedBytes(3))
                .nullable("g", ColumnType::Time)
                .nullable("h", ColumnType::UInt32)
                .column("i", ColumnType::UInt64)
                .nullable("j", ColumnType::Float64)
                .column("k", ColumnType::Bool)
                .nullable("l", ColumnType::Decimal(3)),
        )
    }

    type Raw = (i16, Option<String>, Option<i64>, String, Option<Vec<u8>>, [u8; 3], Option<i64>, RawNumbers);
    type RawNumbers = (Option<u32>, u64, Option<f64>, bool, Option<i64>);

    const COLUMNS: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

    fn values(r: &Raw) -> [Value<'_>; 12] {
        let n = &r.7;
        [
            Value::Int(r.0.into()),
            r.1.as_ref().map_or(Value::Null, |t| Value::Text(t)),
            r.2.into(),
            Value::Text(&r.3),
            r.4.as_ref().map_or(Value::Null, |t| Value::Bytes(t)),
            Value::Bytes(&r.5),
            r.6.map_or(Value::Null, Value::Time),
            n.0.map_or(Value::Null, |v| Value::UInt(v.into())),
            Value::UInt(n.1),
            n.2.into(),
            Value::Bool(n.3),
            n.4.and_then(|v| Decimal::new(v, 3)).into(),
        ]
    }

    fn raw() -> impl Strategy<Value = Raw> {
        let text = proptest::option::of("[a-c\\x00]{0,4}");
        let bytes = proptest::option::of(proptest::collection::vec(0u8..3, 0..4));
        (
            any::<i16>(),
            text,
            any::<Option<i64>>(),
            "[a-d]{0,9}",
            bytes,
            any::<[u8; 3]>(),
            any::<Option<i64>>(),
            (
                any::<Option<u32>>(),
                any::<u64>(),
                proptest::option::of(float()),
                any::<bool>(),
                any::<Option<i64>>(),
            ),
        )
    }

    /// Every kind of number, and often the same one.
    fn float() -> impl Strategy<Value = f64> {
        let bits = any::<u64>().prop_map(f64::from_bits);
        let some = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 5e-324];
        prop_oneof![bits, proptest::sample::select(some.to_vec())]
    }

    proptest! {
        #[test]
        fn a_row_reads_back(r in raw()) {
            let l = layout();
            let mut b = vec![1, 2, 3];
            l.encode(&values(&r), &mut b).unwrap();
            prop_assert!(l.valid(&b[3..]));
            for (i, v) in values(&r).iter().enumerate() {
                prop_assert_eq!(l.get(&b[3..], i), *v);
                // To the bit, what orders do not see: the sign of zero, and which NaN it is.
                if let (Value::Float(read), Value::Float(given)) = (l.get(&b[3..], i), *v) {
                    prop_assert_eq!(read.to_bits(), given.to_bits());
                }
            }
        }

        #[test]
        fn a_patched_row_is_the_row_encoded_anew(a in raw(), b in raw(), columns in proptest::sample::subsequence(COLUMNS.to_vec(), 0..4)) {
            let l = layout();
            let (old, mut new) = (values(&a), values(&a));
            let set: Vec<(usize, Value<'_>)> = columns.iter().map(|&c| (c, values(&b)[c])).collect();
            set.iter().for_each(|&(c, v)| new[c] = v);
            let (mut patched, mut encoded) = (Vec::new(), Vec::new());
            l.encode(&old, &mut patched).unwrap();
            let length = patched.len();
            let fits = l.patch(&set, 0..length, &mut patched).unwrap();
            prop_assert_eq!(fits, !columns.contains(&1) && !columns.contains(&4), "columns of variable length are not patched");
            if fits {
                l.encode(&new, &mut encoded).unwrap();
                prop_assert_eq!(&patched[length..], &encoded[..]);
            }
        }

        #[test]
        fn keys_sort_as_their_values(a in raw(), b in raw()) {
            let l = layout();
            let (va, vb) = (values(&a), values(&b));
            let (mut ka, mut kb) = (Vec::new(), Vec::new());
            l.user_key(&va, &COLUMNS, false, &mut ka).unwrap();
            l.user_key(&vb, &COLUMNS, false, &mut kb).unwrap();
            prop_assert_eq!(ka.cmp(&kb), va.cmp(&vb));
            // Alone, too: of a whole row the first columns decide nearly always.
            for c in COLUMNS {
                ka.clear();
                kb.clear();
                l.key_part(c, va[c], &mut ka);
                l.key_part(c, vb[c], &mut kb);
                prop_assert_eq!(ka.cmp(&kb), va[c].cmp(&vb[c]), "column {}", c);
            }
        }

        #[test]
        fn no_bytes_make_a_row_panic(b: Vec<u8>) {
            let l = layout();
            for c in 0..=COLUMNS.len() {
                l.get(&b, c);
            }
            l.valid(&b);
        }
    }
}
