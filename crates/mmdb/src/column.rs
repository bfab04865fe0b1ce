//! Columns and their types.

use crate::codec::{Reader, put_u16};

/// The type of a column. Lengths are in bytes.
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema, Value};
/// # let db = Database::in_memory()?;
/// let t = db.create_table(
///     Schema::new("call")
///         .column("id", ColumnType::Int64)
///         .column("digest", ColumnType::FixedBytes(4))
///         .column("number", ColumnType::VarText(15))
///         .column("at", ColumnType::Time)
///         .primary_key(&["id"]),
/// )?;
/// let mut tx = db.begin()?;
/// tx.insert(&t, &[1.into(), b"\x01\x02\x03\x04".into(), "+39051".into(), Value::Time(0)])?;
/// let too_long = tx.insert(&t, &[2.into(), b"\x01\x02\x03\x04\x05".into(), "".into(), Value::Time(0)]);
/// assert_eq!(too_long.unwrap_err().to_string(), "table call, column digest: 5 bytes where 4 are declared");
/// # Ok::<(), mmdb::Error>(())
/// ```
///
/// Each number is kept as it is given, or refused: none is rounded or cut.
///
/// ```
/// # use mmdb::{ColumnType, Database, Decimal, Schema, Value};
/// # let db = Database::in_memory()?;
/// let t = db.create_table(
///     Schema::new("item")
///         .column("id", ColumnType::UInt64)
///         .column("price", ColumnType::Decimal(2))
///         .column("weight", ColumnType::Float64)
///         .column("sold", ColumnType::Bool)
///         .ordered_primary_key(&["id"])
///         .ordered_index("by_weight", &["weight"]),
/// )?;
/// let price: Decimal = "12.5".parse().expect("it is a decimal number");
/// let mut tx = db.begin()?;
/// tx.insert(&t, &[u64::MAX.into(), price.into(), 0.25.into(), false.into()])?;
/// let row = tx.get(&t, &[u64::MAX.into()])?.expect("just inserted");
/// assert_eq!(row.to_json(), r#"{"id":18446744073709551615,"price":12.50,"weight":0.25,"sold":false}"#);
///
/// let third = Decimal::new(333, 3).expect("three digits are possible");
/// let rounded = tx.insert(&t, &[2.into(), third.into(), 1.0.into(), true.into()]);
/// assert_eq!(rounded.unwrap_err().to_string(), "table item, column price: 0.333 does not fit Decimal(2)");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnType {
    /// A signed integer of 2 bytes.
    Int16,
    /// A signed integer of 4 bytes.
    Int32,
    /// A signed integer of 8 bytes.
    Int64,
    /// Microseconds since 1970-01-01 00:00 UTC, 8 bytes.
    Time,
    /// Exactly this many bytes.
    FixedBytes(u16),
    /// Text of at most this many bytes, stored in place: an update never moves the columns behind
    /// it.
    FixedText(u16),
    /// At most this many bytes.
    VarBytes(u16),
    /// Text of at most this many bytes.
    VarText(u16),
    /// An unsigned integer of 4 bytes.
    UInt32,
    /// An unsigned integer of 8 bytes.
    UInt64,
    /// A floating-point number of 8 bytes, IEEE 754. Indexes take NaN as the greatest number, equal
    /// to itself, and -0 as 0; rows keep what they were given.
    Float64,
    /// A truth value, 1 byte; false comes before true.
    Bool,
    /// A decimal number with this many digits behind the point, at most 18: an integer of 8 bytes.
    /// See [`crate::Decimal`].
    Decimal(u8),
}

impl ColumnType {
    /// Whether it is of the same kind as `other`, whatever their lengths are but the one of bytes
    /// that have exactly so many.
    pub(crate) const fn holds_what(self, other: ColumnType) -> bool {
        let (mine, its) = (self.code(), other.code());
        mine.0 == its.0 && (mine.1 == its.1 || !matches!(self, ColumnType::FixedBytes(_)))
    }

    const fn code(self) -> (u8, u16) {
        match self {
            ColumnType::Int16 => (1, 0),
            ColumnType::Int32 => (2, 0),
            ColumnType::Int64 => (3, 0),
            ColumnType::Time => (4, 0),
            ColumnType::FixedBytes(n) => (5, n),
            ColumnType::FixedText(n) => (6, n),
            ColumnType::VarBytes(n) => (7, n),
            ColumnType::VarText(n) => (8, n),
            ColumnType::UInt32 => (9, 0),
            ColumnType::UInt64 => (10, 0),
            ColumnType::Float64 => (11, 0),
            ColumnType::Bool => (12, 0),
            ColumnType::Decimal(scale) => (13, scale as u16),
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let (code, n) = self.code();
        out.push(code);
        put_u16(out, n);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Option<ColumnType> {
        let (code, n) = (r.u8()?, r.u16()?);
        ColumnType::from_code(code, n)
    }

    fn from_code(code: u8, n: u16) -> Option<Self> {
        Some(match code {
            1 => ColumnType::Int16,
            2 => ColumnType::Int32,
            3 => ColumnType::Int64,
            4 => ColumnType::Time,
            5 => ColumnType::FixedBytes(n),
            6 => ColumnType::FixedText(n),
            7 => ColumnType::VarBytes(n),
            8 => ColumnType::VarText(n),
            9 => ColumnType::UInt32,
            10 => ColumnType::UInt64,
            11 => ColumnType::Float64,
            12 => ColumnType::Bool,
            13 => ColumnType::Decimal(u8::try_from(n).ok()?),
            _ => return None,
        })
    }
}

/// A column of a [`crate::Schema`].
///
/// ```
/// use mmdb::{Column, ColumnType, Schema};
/// let s = Schema::new("t").nullable("due", ColumnType::Time);
/// assert_eq!(s.columns, [Column { name: "due".into(), kind: ColumnType::Time, nullable: true }]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name, unique in the table.
    pub name: String,
    /// Type.
    pub kind: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
}
