//! Tables described once: a store makes its schema, and its statements, from these descriptions.

use crate::transaction::StoreError;

/// One value. Times are integers of microseconds since 1970-01-01 00:00 UTC; there is no NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value<'a> {
    /// A number or a time.
    Int(i64),
    /// Text.
    Text(&'a str),
    /// Octets.
    Bytes(&'a [u8]),
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of 2 octets.
    Int16,
    /// A number of 4 octets.
    Int32,
    /// A number of 8 octets.
    Int64,
    /// Microseconds since 1970.
    Time,
    /// Text of at most so many octets.
    Text(u16),
    /// At most so many octets.
    Bytes(u16),
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
}

/// An index; the first of a table is its primary key.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// Name.
    pub name: &'static str,
    /// Columns by number, the most significant first.
    pub columns: &'static [usize],
    /// Whether rows are read in its order; else only by a whole key.
    pub ordered: bool,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Number: its place in [`TABLES`](super::TABLES).
    pub number: usize,
    /// Name.
    pub name: &'static str,
    /// Columns.
    pub columns: &'static [Column],
    /// Indexes, the primary key first.
    pub indexes: &'static [Index],
    /// Whether its rows follow from other tables, so that a restart can make them again
    /// ([`crate::housekeeping::recover`]) and a store may leave them out of its log
    /// ([`crate::model::UnloggedTables`]).
    pub derivable: bool,
}

/// A row as a store gives it.
pub trait Columns {
    /// The number in column `at`.
    ///
    /// # Errors
    /// The column does not hold one.
    fn int(&self, at: usize) -> Result<i64, StoreError>;
    /// The octets in column `at`; of a text, its UTF-8.
    ///
    /// # Errors
    /// The column holds neither.
    fn bytes(&self, at: usize) -> Result<&[u8], StoreError>;

    /// The text in column `at`.
    ///
    /// # Errors
    /// The column holds none.
    fn text(&self, at: usize) -> Result<String, StoreError> {
        let bytes = self.bytes(at)?.to_vec();
        String::from_utf8(bytes).map_err(|_| StoreError::row(at, "text"))
    }

    /// The number in column `at`, in a narrower type.
    ///
    /// # Errors
    /// It does not fit.
    fn small<N: TryFrom<i64>>(&self, at: usize) -> Result<N, StoreError>
    where
        Self: Sized,
    {
        N::try_from(self.int(at)?).map_err(|_| StoreError::row(at, "number in range"))
    }
}

/// A row of a table of the model.
pub trait Record: Sized + Clone + std::fmt::Debug + PartialEq {
    /// Its table.
    const TABLE: &'static Table;
    /// Gives all columns, in order, to `to`.
    fn with_values<T>(&self, to: impl FnOnce(&[Value<'_>]) -> T) -> T;
    /// Reads all columns.
    ///
    /// # Errors
    /// A column does not hold what the table says.
    fn read(row: &impl Columns) -> Result<Self, StoreError>;
}

/// Columns by name and type.
macro_rules! columns {
    ($($name:literal $kind:expr),* $(,)?) => {
        &[$(crate::model::Column { name: $name, kind: $kind }),*]
    };
}
pub(super) use columns;
