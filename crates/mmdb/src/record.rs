//! Rows as structs: [`crate::record!`] gives a struct its columns, and [`Records`] reads and writes
//! rows of a table as such structs.

use crate::column::ColumnType;
use crate::decimal::Decimal;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::row::RowView;
use crate::schema::Schema;
use crate::table::Table;
use crate::tx::{Cursor, Transaction};
use crate::value::Value;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A type of a struct's field that stands in a column. `Option` of one may be NULL.
///
/// ```
/// use mmdb::{ColumnType, Field, Value};
/// assert_eq!(7i64.value(ColumnType::Time), Value::Time(7));
/// assert_eq!(Option::<u32>::from_value(Value::UInt(7)), Some(Some(7)));
/// assert_eq!(u32::from_value(Value::Text("7")), None);
/// ```
pub trait Field: Sized {
    /// Whether the column may be NULL.
    const NULLABLE: bool = false;
    /// The types of columns that hold it. Lengths are not looked at, but that of
    /// [`ColumnType::FixedBytes`].
    const TYPES: &'static [ColumnType];

    /// The value that a column of this type gets.
    fn value(&self, kind: ColumnType) -> Value<'_>;

    /// The field from a column's value; `None` if it has no such value.
    ///
    /// ```
    /// use mmdb::{Field, Value};
    /// assert_eq!(bool::from_value(Value::Bool(true)), Some(true));
    /// assert_eq!(bool::from_value(Value::Null), None);
    /// ```
    fn from_value(value: Value<'_>) -> Option<Self>;
}

/// A field whose type says what type its column has.
///
/// ```
/// use mmdb::{ColumnType, PlainField};
/// assert_eq!(<u64 as PlainField>::TYPE, ColumnType::UInt64);
/// assert_eq!(<[u8; 16] as PlainField>::TYPE, ColumnType::FixedBytes(16));
/// ```
pub trait PlainField: Field {
    /// The column's type.
    const TYPE: ColumnType;
}

macro_rules! integer {
    ($($rust:ty: $kind:ident, $types:expr, $value:expr;)*) => {$(
        impl Field for $rust {
            const TYPES: &'static [ColumnType] = &$types;

            fn value(&self, kind: ColumnType) -> Value<'_> {
                $value(*self, kind)
            }

            fn from_value(value: Value<'_>) -> Option<Self> {
                match value {
                    Value::UInt(v) => v.try_into().ok(),
                    v => v.as_int()?.try_into().ok(),
                }
            }
        }

        impl PlainField for $rust {
            const TYPE: ColumnType = ColumnType::$kind;
        }
    )*};
}

integer! {
    i16: Int16, [ColumnType::Int16], |v: i16, _| Value::Int(v.into());
    i32: Int32, [ColumnType::Int32], |v: i32, _| Value::Int(v.into());
    i64: Int64, [ColumnType::Int64, ColumnType::Time], |v, kind| match kind {
        ColumnType::Time => Value::Time(v),
        _ => Value::Int(v),
    };
    u32: UInt32, [ColumnType::UInt32], |v: u32, _| Value::UInt(v.into());
    u64: UInt64, [ColumnType::UInt64], |v, _| Value::UInt(v);
}

impl Field for f64 {
    const TYPES: &'static [ColumnType] = &[ColumnType::Float64];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Float(*self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.as_float()
    }
}

impl PlainField for f64 {
    const TYPE: ColumnType = ColumnType::Float64;
}

impl Field for bool {
    const TYPES: &'static [ColumnType] = &[ColumnType::Bool];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Bool(*self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl PlainField for bool {
    const TYPE: ColumnType = ColumnType::Bool;
}

impl Field for Decimal {
    const TYPES: &'static [ColumnType] = &[ColumnType::Decimal(0)];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Decimal(*self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.as_decimal()
    }
}

impl Field for String {
    const TYPES: &'static [ColumnType] = &[ColumnType::VarText(0), ColumnType::FixedText(0)];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Text(self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        value.as_text().map(str::to_owned)
    }
}

impl Field for Vec<u8> {
    const TYPES: &'static [ColumnType] = &[ColumnType::VarBytes(0)];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Bytes(self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(v) => Some(v.to_vec()),
            _ => None,
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    const TYPES: &'static [ColumnType] = &[Self::TYPE];

    fn value(&self, _: ColumnType) -> Value<'_> {
        Value::Bytes(self)
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bytes(v) => v.try_into().ok(),
            _ => None,
        }
    }
}

impl<const N: usize> PlainField for [u8; N] {
    const TYPE: ColumnType = {
        assert!(N <= u16::MAX as usize, "a column has at most 65,535 bytes");
        ColumnType::FixedBytes(N as u16)
    };
}

impl<T: Field> Field for Option<T> {
    const NULLABLE: bool = true;
    const TYPES: &'static [ColumnType] = T::TYPES;

    fn value(&self, kind: ColumnType) -> Value<'_> {
        self.as_ref().map_or(Value::Null, |v| v.value(kind))
    }

    fn from_value(value: Value<'_>) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::from_value(value).map(Some) }
    }
}

impl<T: PlainField> PlainField for Option<T> {
    const TYPE: ColumnType = T::TYPE;
}

/// The column of a struct's field.
///
/// ```
/// use mmdb::{ColumnType, RecordColumn};
/// const ID: RecordColumn = RecordColumn::of::<u64>("id", ColumnType::UInt64);
/// assert_eq!((ID.name, ID.kind, ID.nullable), ("id", ColumnType::UInt64, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordColumn {
    /// Name of the field and the column.
    pub name: &'static str,
    /// Type.
    pub kind: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}

impl RecordColumn {
    /// The column of this name and type for a field of type `T`. The `r#` of a field that is called
    /// as a word of Rust is none of the column's name.
    ///
    /// ```
    /// use mmdb::{ColumnType, RecordColumn};
    /// assert!(RecordColumn::of::<Option<String>>("body", ColumnType::VarText(160)).nullable);
    /// assert_eq!(RecordColumn::of::<u64>("r#type", ColumnType::UInt64).name, "type");
    /// ```
    ///
    /// # Panics
    /// If such a column cannot hold it: in a constant, as [`crate::record!`] makes it, that is an
    /// error of the compiler.
    #[must_use]
    pub const fn of<T: Field>(name: &'static str, kind: ColumnType) -> RecordColumn {
        let name = match name.as_bytes() {
            [b'r', b'#', ..] => name.split_at(2).1,
            _ => name,
        };
        let mut at = 0;
        while at < T::TYPES.len() {
            if T::TYPES[at].holds_what(kind) {
                return RecordColumn { name, kind, nullable: T::NULLABLE };
            }
            at += 1;
        }
        panic!("a column of this type cannot hold the field's type")
    }
}

/// A struct that is a row: [`crate::record!`] implements this.
///
/// ```
/// use mmdb::{ColumnType, Record};
/// mmdb::record! {
///     struct Point { id: u64, x: f64, y: f64 }
/// }
/// let s = Point::schema("point").primary_key(&["id"]);
/// assert_eq!((Point::NAME, s.columns.len(), s.columns[1].kind), ("Point", 3, ColumnType::Float64));
/// ```
pub trait Record: Sized {
    /// Name of the struct, for messages.
    const NAME: &'static str;
    /// The columns, in order of the fields.
    const COLUMNS: &'static [RecordColumn];

    /// Appends the fields' values.
    ///
    /// ```
    /// use mmdb::{Record, Value};
    /// mmdb::record! {
    ///     struct Point { id: u64, x: f64 }
    /// }
    /// let point = Point { id: 1, x: 0.5 };
    /// let mut values = Vec::new();
    /// point.put(&mut values);
    /// assert_eq!(values, [Value::UInt(1), Value::Float(0.5)]);
    /// ```
    fn put<'r>(&'r self, values: &mut Vec<Value<'r>>);

    /// The struct whose fields have the values that `value` gives, each of the field at a position.
    ///
    /// ```
    /// use mmdb::{Record, Value};
    /// mmdb::record! {
    ///     struct Point { id: u64, x: f64 }
    /// }
    /// let point = Point::take(|field| [Value::UInt(1), Value::Float(0.5)][field]);
    /// assert_eq!(point.map(|point| (point.id, point.x)), Ok((1, 0.5)));
    /// assert_eq!(Point::take(|_| Value::Null).err(), Some(0));
    /// ```
    ///
    /// # Errors
    /// The position of a field that cannot have its value.
    fn take<'v>(value: impl Fn(usize) -> Value<'v>) -> std::result::Result<Self, usize>;

    /// The definition of a table for such structs. It has no keys yet: chain
    /// [`Schema::primary_key`] and indexes to it.
    ///
    /// ```
    /// use mmdb::{Database, Record};
    /// mmdb::record! {
    ///     struct Point { id: u64, x: f64, y: f64 }
    /// }
    /// let db = Database::in_memory()?;
    /// db.create_table_if_missing(Point::schema("point").primary_key(&["id"]).ordered_index("by_x", &["x"]))?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    fn schema(table: &str) -> Schema {
        Self::COLUMNS.iter().fold(Schema::new(table), |schema, c| match c.nullable {
            true => schema.nullable(c.name, c.kind),
            false => schema.column(c.name, c.kind),
        })
    }
}

/// Declares a struct whose fields are columns.
///
/// The field's type says which type the column has: `i16`, `i32`, `i64`, `u32`, `u64`, `f64`,
/// `bool`, `[u8; N]`, and `Option` of each for one that may be NULL. For the others it stands
/// behind `as`: `String` as `VarText(n)` or `FixedText(n)`, `Vec<u8>` as `VarBytes(n)`, [`Decimal`]
/// as `Decimal(digits)`, and `i64` as `Time`. What does not go together does not compile.
///
/// ```
/// use mmdb::{Database, Decimal, Record, Records};
/// mmdb::record! {
///     /// What is sold.
///     #[derive(Debug, PartialEq)]
///     pub struct Item {
///         pub id: u64,
///         pub name: String as VarText(40),
///         pub price: Decimal as Decimal(2),
///         pub sold: Option<i64> as Time,
///     }
/// }
/// let db = Database::in_memory()?;
/// let items = db.create_table(Item::schema("item").primary_key(&["id"]).ordered_index("by_price", &["price"]))?;
/// let items: Records<Item> = Records::of(&items)?;
///
/// let pen = Item { id: 1, name: "pen".into(), price: Decimal::from(3), sold: None };
/// db.run(|tx| items.insert(tx, &pen))?;
/// db.run(|tx| {
///     let pen = items.get(tx, &[1u64.into()])?.expect("it is there");
///     items.update(tx, &Item { sold: Some(0), ..pen })
/// })?;
/// assert_eq!(db.begin()?.get(items.table(), &[1.into()])?.map(|row| row.to_json()),
///     Some(r#"{"id":1,"name":"pen","price":3.00,"sold":0}"#.into()));
/// # Ok::<(), mmdb::Error>(())
/// ```
///
/// ```compile_fail
/// mmdb::record! {
///     struct Wrong { id: u64, name: String as Int64 }
/// }
/// let s = <Wrong as mmdb::Record>::schema("t");              // a text in a column of integers
/// ```
///
/// ```compile_fail
/// mmdb::record! {
///     struct Wrong { id: u64, name: String }
/// }
/// // A text of what length?
/// ```
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $rust:ty $(as $kind:ident $(($n:expr))?)?),*
            $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $rust,)*
        }

        impl $crate::Record for $name {
            const NAME: &'static str = stringify!($name);
            const COLUMNS: &'static [$crate::RecordColumn] = &[
                $($crate::RecordColumn::of::<$rust>(
                    stringify!($field),
                    $crate::record!(@kind $rust $(as $kind $(($n))?)?),
                ),)*
            ];

            fn put<'r>(&'r self, values: &mut ::std::vec::Vec<$crate::Value<'r>>) {
                $(values.push($crate::Field::value(
                    &self.$field,
                    $crate::record!(@kind $rust $(as $kind $(($n))?)?),
                ));)*
            }

            fn take<'v>(
                value: impl ::std::ops::Fn(usize) -> $crate::Value<'v>,
            ) -> ::std::result::Result<Self, usize> {
                let mut next = 0usize;
                let mut at = || {
                    next += 1;
                    next - 1
                };
                ::std::result::Result::Ok($name {
                    $($field: {
                        let at = at();
                        <$rust as $crate::Field>::from_value(value(at)).ok_or(at)?
                    },)*
                })
            }
        }
    };
    (@kind $rust:ty as $kind:ident $(($n:expr))?) => {
        $crate::ColumnType::$kind $(($n))?
    };
    (@kind $rust:ty) => {
        <$rust as $crate::PlainField>::TYPE
    };
}

/// A table whose rows are structs. Made once for a table, it knows which column each field is, and
/// can be cloned and used by all threads. What changes a row returns the errors of the operation
/// that it is named after, of [`Transaction`]; what reads one, [`Error::Value`] too, for a value
/// that its field cannot have.
///
/// ```
/// use mmdb::{Database, Record, Records};
/// mmdb::record! {
///     #[derive(Debug, PartialEq)]
///     struct Message { id: u64, receiver: String as VarText(20), due: i64 as Time }
/// }
/// let db = Database::in_memory()?;
/// let schema = Message::schema("message").primary_key(&["id"]).ordered_index("by_due", &["due"]);
/// let messages: Records<Message> = Records::of(&db.create_table(schema)?)?;
/// let message = |id| Message { id, receiver: format!("+39{id}"), due: 60_000_000 * id as i64 };
/// db.run(|tx| (1..=3).try_for_each(|id| messages.insert(tx, &message(id))))?;
///
/// let mut tx = db.begin()?;
/// let due: Vec<Message> = messages.range(&mut tx, "by_due", ..=[mmdb::Value::Time(120_000_000)])?.collect::<Result<_, _>>()?;
/// assert_eq!(due, [message(1), message(2)]);
/// # Ok::<(), mmdb::Error>(())
/// ```
pub struct Records<R> {
    table: Table,
    fields: Arc<Fields>,
    record: PhantomData<fn() -> R>,
}

/// Which columns a struct's fields are.
#[derive(Debug)]
struct Fields {
    /// The column of each field.
    columns: Vec<usize>,
    /// The field of each column, if they are not in the same order.
    of_columns: Option<Vec<usize>>,
    /// Fields of the primary key, in its order; and the others.
    key: Vec<usize>,
    others: Vec<usize>,
}

impl<R> Clone for Records<R> {
    fn clone(&self) -> Self {
        Records { table: self.table.clone(), fields: self.fields.clone(), record: PhantomData }
    }
}

impl<R: Record> std::fmt::Debug for Records<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Records<{}>({})", R::NAME, self.table.name())
    }
}

impl<R: Record> Records<R> {
    /// The table's rows as structs. Columns and fields are found by their names, in whatever order
    /// they come.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// use mmdb::{Record, Records};
    /// mmdb::record! {
    ///     struct Message { id: u64, body: Option<String> as VarText(160), tries: u32 }
    /// }
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t").column("body", ColumnType::VarText(160)).column("id", ColumnType::UInt64).primary_key(&["id"]),
    /// )?;
    /// let e = Records::<Message>::of(&t).unwrap_err();
    /// assert_eq!(e.to_string(), "table t is there, and differs: \
    ///     column body is VarText(160), and field body of Message is VarText(160) or NULL; \
    ///     there is no column tries for field tries of Message");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SchemaDiffers`] names each column that is no field, each field that is no column,
    /// and those whose types differ.
    pub fn of(table: &Table) -> Result<Records<R>> {
        documented("Records::of", || {
            // The fields are those of today's columns: a handle of before would count as few
            // columns as it knows, and get the defaults of the others.
            let table = table.today();
            let schema = &table.0.schema;
            let mut differences = Vec::new();
            let mut columns = Vec::new();
            let words =
                |kind: ColumnType, nullable| format!("{kind:?}{}", if nullable { " or NULL" } else { "" });
            for field in R::COLUMNS {
                let (name, record) = (field.name, R::NAME);
                let Some(at) = schema.columns.iter().position(|c| c.name == name) else {
                    differences.push(format!("there is no column {name} for field {name} of {record}"));
                    continue;
                };
                let column = &schema.columns[at];
                if (column.kind, column.nullable) != (field.kind, field.nullable) {
                    let is = words(column.kind, column.nullable);
                    let wanted = words(field.kind, field.nullable);
                    differences
                        .push(format!("column {name} is {is}, and field {name} of {record} is {wanted}"));
                }
                columns.push(at);
            }
            for column in schema.columns.iter().filter(|c| R::COLUMNS.iter().all(|f| f.name != c.name)) {
                differences.push(format!("column {} is no field of {}", column.name, R::NAME));
            }
            if !differences.is_empty() {
                return Err(Error::SchemaDiffers { table: schema.name.clone(), differences });
            }
            let field_of = |column: usize| columns.iter().position(|&c| c == column);
            let of_columns: Vec<usize> = (0..columns.len()).filter_map(field_of).collect();
            let key: Vec<usize> = schema.indexes[0].columns.iter().filter_map(|&c| field_of(c)).collect();
            let others = (0..columns.len()).filter(|field| !key.contains(field)).collect();
            let of_columns = Some(of_columns).filter(|fields| !fields.is_sorted());
            let fields = Arc::new(Fields { columns, of_columns, key, others });
            Ok(Records { table, fields, record: PhantomData })
        })
    }

    /// The table.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// assert_eq!(counts.table().name(), "count");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The values of a row, in order of the columns.
    fn values<'r>(&self, record: &'r R) -> Vec<Value<'r>> {
        let mut values = Vec::with_capacity(R::COLUMNS.len());
        record.put(&mut values);
        match &self.fields.of_columns {
            Some(fields) => fields.iter().map(|&field| values[field]).collect(),
            None => values,
        }
    }

    /// The primary key of a row.
    fn key<'r>(&self, values: &[Value<'r>]) -> Vec<Value<'r>> {
        self.fields.key.iter().map(|&field| values[field]).collect()
    }

    /// As [`Transaction::insert`].
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| counts.insert(tx, &Count { id: 1, n: 10 }))?;
    /// assert!(db.run(|tx| counts.insert(tx, &Count { id: 1, n: 10 })).is_err(), "it is there already");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert(&self, tx: &mut Transaction<'_>, record: &R) -> Result<()> {
        tx.insert(&self.table, &self.values(record))
    }

    /// As [`Transaction::upsert`].
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// assert!(!db.run(|tx| counts.upsert(tx, &Count { id: 1, n: 10 }))?, "it was not there");
    /// assert!(db.run(|tx| counts.upsert(tx, &Count { id: 1, n: 11 }))?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::upsert`].
    pub fn upsert(&self, tx: &mut Transaction<'_>, record: &R) -> Result<bool> {
        tx.upsert(&self.table, &self.values(record))
    }

    /// Gives the row with the struct's primary key the struct's other fields. False if there is no
    /// such row.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| counts.insert(tx, &Count { id: 1, n: 10 }))?;
    /// assert!(db.run(|tx| counts.update(tx, &Count { id: 1, n: 11 }))?);
    /// assert!(!db.run(|tx| counts.update(tx, &Count { id: 2, n: 11 }))?, "there is no row 2");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn update(&self, tx: &mut Transaction<'_>, record: &R) -> Result<bool> {
        let mut values = Vec::with_capacity(R::COLUMNS.len());
        record.put(&mut values);
        let fields = &self.fields;
        let set: Vec<_> = fields.others.iter().map(|&field| (fields.columns[field], values[field])).collect();
        tx.update_at(&self.table, &self.key(&values), &set)
    }

    /// Removes the row with the struct's primary key. False if there is none.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| counts.insert(tx, &Count { id: 1, n: 10 }))?;
    /// assert!(db.run(|tx| counts.delete(tx, &Count { id: 1, n: 0 }))?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::delete`].
    pub fn delete(&self, tx: &mut Transaction<'_>, record: &R) -> Result<bool> {
        let mut values = Vec::with_capacity(R::COLUMNS.len());
        record.put(&mut values);
        tx.delete(&self.table, &self.key(&values))
    }

    /// The row with this primary key.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| counts.insert(tx, &Count { id: 1, n: 10 }))?;
    /// assert_eq!(counts.get(&mut db.begin()?, &[1u64.into()])?.map(|count| count.n), Some(10));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`Error::Value`] for a value that its field cannot have.
    pub fn get(&self, tx: &mut Transaction<'_>, key: &[Value<'_>]) -> Result<Option<R>> {
        documented("Records::get", || tx.get_with(&self.table, key, |row| self.read(row))?.transpose())
    }

    /// A row of this table, from wherever it comes: a cursor, a snapshot, an index.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// let mut sum = 0;
    /// for row in db.snapshot()?.scan(counts.table())? {
    ///     sum += counts.read(row?.view())?.n;
    /// }
    /// assert_eq!(sum, 60);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] for a value that its field cannot have: the row is another table's.
    pub fn read(&self, row: RowView<'_>) -> Result<R> {
        documented("Records::read", || {
            let columns = &self.fields.columns;
            R::take(|field| row.at(columns[field])).map_err(|field| Error::Value {
                table: self.table.name().to_owned(),
                column: R::COLUMNS[field].name.to_owned(),
                reason: format!("{} is no value for the field of {}", row.at(columns[field]), R::NAME),
            })
        })
    }

    /// As [`Transaction::range`].
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts = db.create_table(Count::schema("count").ordered_primary_key(&["id"]))?;
    /// # let counts: Records<Count> = Records::of(&counts)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// let mut tx = db.begin()?;
    /// let last = counts.range(&mut tx, "primary", [2u64.into()]..)?.last().transpose()?;
    /// assert_eq!(last.map(|count| count.n), Some(30));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::range`]; the iterator as [`Records::get`].
    pub fn range<'a, 'db, 'v, K: AsRef<[Value<'v>]>>(
        &self,
        tx: &'a mut Transaction<'db>,
        index: &str,
        bounds: impl RangeBounds<K>,
    ) -> Result<RecordCursor<'a, 'db, R>> {
        Ok(self.each(tx.range(&self.table, index, bounds)?))
    }

    /// All rows in order of the named ordered index: [`Records::range`] without bounds, of which
    /// the type of a key could not be told.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let schema = Count::schema("count").primary_key(&["id"]).ordered_index("by_n", &["n"]);
    /// # let counts: Records<Count> = Records::of(&db.create_table(schema)?)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 - id })))?;
    /// let mut tx = db.begin()?;
    /// let ids = counts.all(&mut tx, "by_n")?.map(|count| count.map(|count| count.id));
    /// let ids: Vec<u64> = ids.collect::<Result<_, _>>()?;
    /// assert_eq!(ids, [3, 2, 1]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Records::range`].
    pub fn all<'a, 'db>(
        &self,
        tx: &'a mut Transaction<'db>,
        index: &str,
    ) -> Result<RecordCursor<'a, 'db, R>> {
        self.range::<[Value<'_>; 0]>(tx, index, ..)
    }

    /// As [`Transaction::scan`].
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// let mut tx = db.begin()?;
    /// let sum: u64 = counts.scan(&mut tx)?.map(|count| count.map(|count| count.n)).sum::<Result<_, _>>()?;
    /// assert_eq!(sum, 60);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::scan`]; the iterator as [`Records::get`].
    pub fn scan<'a, 'db>(&self, tx: &'a mut Transaction<'db>) -> Result<RecordCursor<'a, 'db, R>> {
        Ok(self.each(tx.scan(&self.table)?))
    }

    /// The rows of a cursor on this table.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts = db.create_table(Count::schema("count").ordered_primary_key(&["id"]))?;
    /// # let counts: Records<Count> = Records::of(&counts)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// let mut tx = db.begin()?;
    /// let last = counts.each(tx.scan(counts.table())?.rev().for_update()).next().transpose()?;
    /// assert_eq!(last.map(|count| count.n), Some(30));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn each<'a, 'db>(&self, cursor: Cursor<'a, 'db>) -> RecordCursor<'a, 'db, R> {
        RecordCursor { cursor, records: self.clone() }
    }
}

/// An iterator over rows as structs, made by [`Records::range`], [`Records::scan`] and
/// [`Records::each`].
///
/// ```
/// # use mmdb::{Database, Record, Records};
/// # mmdb::record! { struct Count { id: u64, n: u64 } }
/// # let db = Database::in_memory()?;
/// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
/// assert!(counts.scan(&mut db.begin()?)?.next().is_none());
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordCursor<'a, 'db, R: Record> {
    cursor: Cursor<'a, 'db>,
    records: Records<R>,
}

impl<R: Record> RecordCursor<'_, '_, R> {
    /// Gives the row that the cursor returned last the struct's fields; the primary key has to be
    /// that row's. The iteration goes on behind it, as of [`Cursor::update`]. False if the row is
    /// not there any more.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// db.run(|tx| {
    ///     let mut cursor = counts.each(tx.scan(counts.table())?.for_update());
    ///     while let Some(mut count) = cursor.next().transpose()? {
    ///         count.n += 1;
    ///         assert!(cursor.update(&count)?);
    ///     }
    ///     Ok::<_, mmdb::Error>(())
    /// })?;
    /// assert_eq!(counts.get(&mut db.begin()?, &[3u64.into()])?.map(|count| count.n), Some(31));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::update`]; [`Error::Operation`] for another primary key, too.
    pub fn update(&mut self, record: &R) -> Result<bool> {
        documented("RecordCursor::update", || {
            let mut values = Vec::with_capacity(R::COLUMNS.len());
            record.put(&mut values);
            let fields = &self.records.fields;
            let set: Vec<_> =
                fields.others.iter().map(|&field| (fields.columns[field], values[field])).collect();
            self.cursor.require_key(&self.records.key(&values))?;
            self.cursor.update_at(&set)
        })
    }

    /// Removes the row that the cursor returned last. The iteration goes on behind it. False if the
    /// row is not there any more.
    ///
    /// ```
    /// # use mmdb::{Database, Record, Records};
    /// # mmdb::record! { struct Count { id: u64, n: u64 } }
    /// # let db = Database::in_memory()?;
    /// # let counts: Records<Count> = Records::of(&db.create_table(Count::schema("count").primary_key(&["id"]))?)?;
    /// db.run(|tx| (1..=3).try_for_each(|id| counts.insert(tx, &Count { id, n: 10 * id })))?;
    /// db.run(|tx| {
    ///     let mut cursor = counts.each(tx.scan(counts.table())?.for_update());
    ///     while let Some(count) = cursor.next().transpose()? {
    ///         if count.n > 10 {
    ///             cursor.delete()?;
    ///         }
    ///     }
    ///     Ok::<_, mmdb::Error>(())
    /// })?;
    /// assert_eq!(counts.scan(&mut db.begin()?)?.count(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::delete`].
    pub fn delete(&mut self) -> Result<bool> {
        documented("RecordCursor::delete", || self.cursor.delete())
    }
}

impl<R: Record> Iterator for RecordCursor<'_, '_, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Result<R>> {
        let records = &self.records;
        self.cursor.next_with(|row| records.read(row)).transpose().map(|read| read.and_then(|record| record))
    }
}
