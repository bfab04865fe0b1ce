//! What the centre asks of a store, row by row: point reads, ordered reads from a key, insert, put
//! and delete by key. The centre's transactions ([`crate::centre`]) are written once against this;
//! an engine that implements it is a store.
//!
//! Whole transactions, submitted and settled, are the level above: [`crate::store`].

mod error;

pub use error::StoreError;

use crate::model::{Index, Record, StationKey, Value};

/// One transaction of a store. Dropped without having been committed by its store, it never was.
///
/// Isolation is by [`Transaction::lock`]: whatever concerns a station (its row, its queue, its
/// messages and timers) is read for a decision and written only under that station's lock, so a
/// store needs no other.
pub trait Transaction {
    /// Keeps every other transaction that locks this station away until this one has ended. If
    /// waiting could be a deadlock, the transaction fails and its store runs it again.
    ///
    /// # Errors
    /// What the store runs again, or I/O.
    fn lock(&mut self, station: StationKey) -> Result<(), StoreError>;

    /// As [`Transaction::lock`], but without waiting: false if another transaction has this
    /// station. A store with one writer always has it.
    ///
    /// # Errors
    /// I/O.
    fn try_lock(&mut self, station: StationKey) -> Result<bool, StoreError>;

    /// A number for a message: greater than every number given before to whoever held the same
    /// lock.
    ///
    /// # Errors
    /// I/O.
    fn next_id(&mut self) -> Result<i64, StoreError>;

    /// The row with this primary key.
    ///
    /// # Errors
    /// I/O, a row that cannot be read.
    fn get<R: Record>(&mut self, key: &[Value<'_>]) -> Result<Option<R>, StoreError>;

    /// Rows in the order of an index of `R`'s table, from the first that is ≥ `from` to the last
    /// that is ≤ `to`, at most `limit`. An index without order takes `from` = `to` = a whole key,
    /// and gives rows in any order. Both bounds may give fewer columns than the index has; `to`
    /// then includes all that begin with it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    fn range<R: Record>(
        &mut self,
        index: &'static Index,
        from: &[Value<'_>],
        to: &[Value<'_>],
        limit: usize,
    ) -> Result<Vec<R>, StoreError>;

    /// Adds a row whose key is new.
    ///
    /// # Errors
    /// The key exists; I/O.
    fn insert<R: Record>(&mut self, row: &R) -> Result<(), StoreError>;

    /// Adds a row, or replaces the one with its key.
    ///
    /// # Errors
    /// I/O.
    fn put<R: Record>(&mut self, row: &R) -> Result<(), StoreError>;

    /// Gives some columns, by number, of the row with this primary key other values; whether there
    /// is such a row. Columns of the key cannot be given.
    ///
    /// # Errors
    /// I/O.
    fn update<R: Record>(
        &mut self,
        key: &[Value<'_>],
        set: &[(usize, Value<'_>)],
    ) -> Result<bool, StoreError>;

    /// Deletes the row with this primary key; whether there was one.
    ///
    /// # Errors
    /// I/O.
    fn delete<R: Record>(&mut self, key: &[Value<'_>]) -> Result<bool, StoreError>;
}
