//! A row, and its columns.

use super::error::ConnectionError;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use postgres_protocol::types::array_from_sql;
use std::ops::Range;

/// A row, in the octets in which it came.
pub struct Row(DataRowBody);

/// One column of a row: its octets; none for NULL.
pub type Column<'a> = Option<&'a [u8]>;

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Row").field(&self.0.buffer()).finish()
    }
}

impl Row {
    pub(super) fn new(body: DataRowBody) -> Row {
        Row(body)
    }

    /// Its columns in order. A row that is cut off ends early; [`Row::places`] refuses it.
    pub fn columns(&self) -> impl Iterator<Item = Column<'_>> {
        let octets = self.0.buffer();
        let mut places = self.0.ranges();
        std::iter::from_fn(move || places.next().ok().flatten())
            .map(move |place| place.and_then(|place| octets.get(place)))
    }

    /// Where its columns lie in [`Row::octets`]; none for NULL.
    ///
    /// # Errors
    /// The row is cut off.
    pub fn places(&self) -> Result<Vec<Option<Range<usize>>>, ConnectionError> {
        let places = self.0.ranges().collect();
        places.map_err(|_| ConnectionError::Unexpected("a row that is cut off".into()))
    }

    /// The octets of the row.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        self.0.buffer()
    }

    /// The whole number in column `at` (from 0), which came in binary; `None` if there is none.
    #[must_use]
    pub fn int(&self, at: usize) -> Option<i64> {
        int_of(self.columns().nth(at)??)
    }
}

/// The whole number in a column that came in binary, of two, four or eight octets.
fn int_of(column: &[u8]) -> Option<i64> {
    match *column {
        [a, b] => Some(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

impl Row {
    /// The whole number in the octets of a column that came in binary.
    #[must_use]
    pub fn int_in(column: &[u8]) -> Option<i64> {
        int_of(column)
    }
}

/// The elements of a `bytea[]` that came in binary; none if it is no array of one dimension, or has
/// a NULL.
#[must_use]
pub fn bytes_array(column: &[u8]) -> Option<Vec<Vec<u8>>> {
    let array = array_from_sql(column).ok()?;
    if array.dimensions().count().ok()? > 1 {
        return None;
    }
    let mut values = array.values();
    let mut elements = Vec::new();
    while let Some(element) = values.next().ok()? {
        elements.push(element?.to_vec());
    }
    Some(elements)
}
