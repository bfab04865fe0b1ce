//! Rows that go when their time has come.
//!
//! A table says which of its columns is the time at which a row expires, and has an ordered index
//! that begins with it: whatever is due lies at the index's beginning. Expiry is nothing but
//! transactions that delete what is due there, a bounded number of rows each, with the locks of any
//! other: so it is logged, survives a crash like them, and who changes a row meanwhile and gives it
//! a later time keeps it.

use crate::column::ColumnType;
use crate::database::Database;
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Ticket;
use crate::options::Durability;
use crate::schema::{Expiry, IndexKind, Schema};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread;
use crate::table::{Table, TableInner};
use crate::time_unit::TimeUnit;
use crate::value::Value;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

/// Rows that one transaction deletes at most: so few locks at once that nobody waits for long.
const BATCH: u64 = 256;

impl Schema {
    /// Lets rows expire at the time in this column, which must be declared before: a
    /// [`ColumnType::Time`], or an integer that counts in `unit`. One in which it is NULL stays. An
    /// ordered index must begin with the column. Rows that are due go by [`Database::expire`], or by
    /// themselves with [`crate::Options::expire_interval`]; until then they are seen.
    ///
    /// ```
    /// use mmdb::{ColumnType, Database, Schema, TimeUnit};
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let db = Database::in_memory()?;
    /// let sessions = db.create_table(
    ///     Schema::new("session")
    ///         .column("id", ColumnType::Int64)
    ///         .column("until", ColumnType::UInt32)
    ///         .primary_key(&["id"])
    ///         .ordered_index("by_until", &["until"])
    ///         .expire_by("until", TimeUnit::Seconds),
    /// )?;
    /// db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&sessions, &[id.into(), (1000 + id).into()])))?;
    /// assert_eq!(db.expire(UNIX_EPOCH + Duration::from_millis(1_009_999))?, 10);
    /// assert_eq!(db.begin()?.scan(&sessions)?.count(), 90);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn expire_by(mut self, column: &str, unit: TimeUnit) -> Self {
        match self.columns.iter().position(|c| c.name == column) {
            Some(column) => self.expiry = Some(Expiry { column, unit }),
            None => self.unknown.push(column.to_owned()),
        }
        self
    }

    /// The index by which rows that are due are found.
    fn expiry_index(&self, column: usize) -> Option<usize> {
        let leads = |index: &crate::schema::IndexDef| index.columns.first() == Some(&column);
        self.indexes.iter().position(|index| index.kind == IndexKind::Ordered && leads(index))
    }

    /// Why rows cannot expire as the schema says; `None` if they can, or do not.
    pub(crate) fn expiry_problem(&self) -> Option<String> {
        let Expiry { column, unit } = self.expiry?;
        let Some(c) = self.columns.get(column) else {
            return Some("rows expire by a column that is not there".into());
        };
        let name = &c.name;
        match c.kind {
            ColumnType::Time if unit == TimeUnit::Microseconds => {}
            ColumnType::Time => {
                return Some(format!(
                    "rows expire by column {name}, which counts Microseconds and not {unit:?}"
                ));
            }
            ColumnType::Int32 | ColumnType::Int64 | ColumnType::UInt32 | ColumnType::UInt64 => {}
            kind => {
                return Some(format!(
                    "rows expire by column {name}, which is {kind:?}; it can be Time, or an integer of 4 or 8 bytes"
                ));
            }
        }
        if self.expiry_index(column).is_none() {
            return Some(format!("rows expire by column {name}, but no ordered index begins with it"));
        }
        None
    }
}

/// The values of a column that are due at a moment: from the least to the last; `None` if there is
/// none.
fn due(kind: ColumnType, until: i64) -> Option<[Value<'static>; 2]> {
    Some(match kind {
        ColumnType::Time => [Value::Time(i64::MIN), Value::Time(until)],
        ColumnType::UInt32 => [Value::UInt(0), Value::UInt(u64::try_from(until).ok()?.min(u32::MAX.into()))],
        ColumnType::UInt64 => [Value::UInt(0), Value::UInt(u64::try_from(until).ok()?)],
        ColumnType::Int32 if until < i64::from(i32::MIN) => return None,
        ColumnType::Int32 => [Value::Int(i32::MIN.into()), Value::Int(until.min(i32::MAX.into()))],
        _ => [Value::Int(i64::MIN), Value::Int(until)],
    })
}

/// What a transaction of an expiry did.
pub(crate) struct Batch {
    rows: u64,
    /// There may be more rows that are due.
    more: bool,
    ticket: Ticket,
}

impl Engine {
    /// Deletes rows of a table that are due, as many as one transaction should; `None` if there are
    /// none, or the table's rows do not expire.
    fn expire_batch(&self, table: &Arc<TableInner>, now: SystemTime) -> Result<Option<Batch>> {
        let schema = &table.schema;
        let Some(expiry) = schema.expiry else { return Ok(None) };
        let Some(index) = schema.expiry_index(expiry.column) else { return Ok(None) };
        let Some([least, last]) = due(schema.columns[expiry.column].kind, expiry.unit.of(now)) else {
            return Ok(None);
        };
        let (name, handle) = (&schema.indexes[index].name, Table(table.clone()));
        // A row may have blobs that fill much of a segment: more rows of that kind are not begun.
        let most = if table.blobs.read().is_empty() { BATCH } else { 1 };
        let ((rows, more), ticket) = self.run_with(Durability::Durable, |tx| {
            let mut cursor = tx.range(&handle, name, [least]..=[last])?.prefetch(most as usize).for_update();
            let mut rows = 0;
            while cursor.next_with(|_| ())?.is_some() {
                match cursor.delete() {
                    Ok(gone) => rows += u64::from(gone),
                    // A segment holds no more: what it holds is done.
                    Err(Error::TransactionTooLarge { .. }) if rows > 0 => return Ok((rows, true)),
                    Err(e) => return Err(e),
                }
                if rows == most {
                    return Ok((rows, true));
                }
            }
            Ok((rows, false))
        })?;
        self.counters.expired.fetch_add(rows, Ordering::Relaxed);
        Ok((rows > 0).then_some(Batch { rows, more, ticket }))
    }

    /// Deletes all rows that are due, and waits until that is durable. Ends early if `is_over`.
    fn expire(&self, now: SystemTime, is_over: impl Fn() -> bool) -> Result<u64> {
        let mut rows = 0;
        let (mut last, mut failed) = (None, None);
        for id in self.live_tables().into_iter().filter(|t| t.schema.expiry.is_some()).map(|t| t.id) {
            // As it is defined at each time.
            while let Some(table) = self.live_tables().into_iter().find(|t| t.id == id) {
                if is_over() {
                    break;
                }
                match self.expire_batch(&table, now) {
                    Ok(None) => break,
                    Ok(Some(batch)) => {
                        rows += batch.rows;
                        last = Some(batch.ticket);
                        if !batch.more {
                            break;
                        }
                    }
                    // Of a table whose blobs go with the rows: it would come again and again.
                    Err(e @ Error::TableChanged { .. }) if table.is_newest() => {
                        failed.get_or_insert(e);
                        break;
                    }
                    // It is dropped, filled or redefined at this moment: the next look tells.
                    Err(
                        Error::NoSuchTable { .. } | Error::TableChanged { .. } | Error::NoSuchIndex { .. },
                    ) => {}
                    // Of this table: the rows of the others go all the same.
                    Err(
                        e @ (Error::LockTimeout { .. }
                        | Error::TransactionTooLarge { .. }
                        | Error::CorruptTable { .. }),
                    ) => {
                        failed.get_or_insert(e);
                        break;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        // One that is durable has those before it durable.
        last.map_or(Ok(()), |ticket| ticket.wait().map(drop))?;
        failed.map_or(Ok(rows), Err)
    }

    /// Expires rows again and again until told to stop; the body of a thread.
    pub(crate) fn run_expiry(weak: &Weak<Engine>, stop: &AtomicBool, interval: Duration) {
        while !stop.load(Ordering::Acquire) {
            thread::park_timeout(interval);
            let Some(engine) = weak.upgrade() else { return };
            let done = engine.expire(SystemTime::now(), || stop.load(Ordering::Acquire));
            *engine.counters.expiry_error.lock() = done.err().map(|e| e.to_string());
        }
    }
}

impl Database {
    /// Deletes the rows whose time has come by `now`, of every table that has a column for that
    /// ([`Schema::expire_by`]), and returns how many. They go in transactions of a few hundred rows
    /// at most, with the locks of any other; when this returns they are gone for good. Calls from
    /// several threads share the work.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, TimeUnit, Value};
    /// use std::time::{Duration, SystemTime};
    /// let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).nullable("until", ColumnType::Time);
    /// let schema = schema.primary_key(&["id"]).ordered_index("by_until", &["until"]);
    /// let t = db.create_table(schema.expire_by("until", TimeUnit::Microseconds))?;
    /// db.run(|tx| tx.insert(&t, &[1.into(), Value::Null]))?;     // stays for good
    /// db.run(|tx| tx.insert(&t, &[2.into(), Value::Time(0)]))?;  // 1970
    /// assert_eq!(db.expire(SystemTime::now())?, 1);
    /// assert_eq!(db.stats().expired_rows, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LogFull`], [`Error::Poisoned`]; [`Error::LockTimeout`] if somebody keeps a row that
    /// is due locked; [`Error::TransactionTooLarge`] if a segment does not hold the delete of one
    /// row; [`Error::CorruptTable`] if a blob that goes with one is not whole, and
    /// [`Error::TableChanged`] if a column of the blobs' table was dropped. The first of these four
    /// is returned when the rows of all other tables are gone. What went before stays gone; after
    /// [`Error::Indeterminate`] of waiting for it, the next opening tells.
    pub fn expire(&self, now: SystemTime) -> Result<u64> {
        documented("Database::expire", || self.0.engine.expire(now, || false))
    }

    /// One transaction of an expiry, so that tests can do things in between: how many rows went,
    /// and its ticket.
    #[doc(hidden)]
    pub fn expire_some(&self, table: &Table, now: SystemTime) -> Result<Option<(u64, Ticket)>> {
        let done = self.0.engine.expire_batch(self.0.engine.table_of(table)?, now)?;
        Ok(done.map(|batch| (batch.rows, batch.ticket)))
    }
}
