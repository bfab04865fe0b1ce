//! Snapshot reads: a state of the whole database, read without locks.

mod cursor;
mod dump;
mod ghosts;
mod image;
mod opening;
mod registry;
mod versions;

pub use cursor::SnapshotCursor;
pub use dump::SnapshotDump;
pub(crate) use dump::line_of;
pub(crate) use ghosts::Ghosts;
pub(crate) use registry::Snapshots;
pub(crate) use versions::{Open, Versions};

use crate::container::{Rid, Slot};
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key;
use crate::lent::Lent;
use crate::life::Span;
use crate::log::Ticket;
use crate::lookup::{Buffers, in_batches};
use crate::pause;
use crate::row::{Row, RowView};
use crate::table::{Table, TableInner};
use crate::value::Value;
use registry::OpenSnapshot;
use std::ops::RangeBounds;
use std::sync::Arc;

/// The database as it was at one moment: after all commits up to a number, and none later. Reading
/// it takes no locks: it waits for nobody, nobody waits for it, and it is never refused because of
/// what others do. Several threads may share it.
///
/// While it is open, what commits change and delete is kept in memory, up to
/// [`crate::Options::snapshot_memory`] for all snapshots; beyond that the oldest is given up, and
/// its reads return [`Error::SnapshotExpired`]. [`crate::Stats::snapshot_bytes`] tells how much it
/// is.
///
/// What it shows may not be durable yet. Who acts on it outside of the database waits for its
/// [`Snapshot::ticket`] first.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema};
/// let db = Database::in_memory()?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
///
/// let before = db.snapshot()?;
/// db.run(|tx| (0..5i64).try_for_each(|id| tx.delete(&t, &[id.into()]).map(drop)))?;
/// assert_eq!(before.scan(&t)?.count(), 10);
/// assert_eq!(db.snapshot()?.scan(&t)?.count(), 5);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Snapshot<'db> {
    db: &'db Engine,
    opened: OpenSnapshot,
    stripe: usize,
}

impl std::fmt::Debug for OpenSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "number {} of commit {}", self.number, self.gsn)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.db.close_snapshot(self.opened.number);
    }
}

impl<'db> Snapshot<'db> {
    /// Number of the last commit that it shows.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// assert_eq!(db.snapshot()?.gsn(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn gsn(&self) -> u64 {
        self.opened.gsn
    }

    /// Resolves once everything that the snapshot shows is durable.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Durability, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[1.into()]))?;
    /// let snapshot = db.snapshot()?;
    /// assert!(snapshot.get(&t, &[1.into()])?.is_some());
    /// snapshot.ticket().wait()?;                                 // and no power cut takes it back
    /// assert!(db.horizon() >= snapshot.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn ticket(&self) -> Ticket {
        Ticket::new(self.db.anchor(self.stripe), None, 0, self.opened.gsn, false)
    }

    /// The table inside a handle, if it is the one that the snapshot shows.
    fn table<'t>(&self, handle: &'t Table) -> Result<&'t Arc<TableInner>> {
        let mine = self.db.table_of(handle)?;
        self.stands(mine)?;
        Ok(mine)
    }

    /// The position of the named index, if it was there when the snapshot was opened: one that was
    /// made later does not know what went before.
    fn index(&self, t: &TableInner, name: &str) -> Result<usize> {
        let ix = t.index(name)?;
        if t.indexes[ix].born() >= self.opened.number {
            return Err(Error::Operation {
                table: t.schema.name.clone(),
                operation: "read a snapshot by an index",
                reason: format!("index {name} was created after the snapshot was opened"),
            });
        }
        Ok(ix)
    }

    /// Whether what was just read of a table is what the snapshot shows: asked after reading, for
    /// rows are forgotten only after it is said here that they will be.
    fn stands(&self, t: &TableInner) -> Result<()> {
        if self.opened.fate.is_given_up() {
            return Err(Error::SnapshotExpired { limit: self.db.snapshots().limit() });
        }
        let there = self.opened.tables.binary_search_by_key(&t.id, |(id, _)| *id);
        let span: Option<Span> = there.ok().and_then(|at| self.opened.tables.get(at)).map(|(_, span)| *span);
        match span.zip(t.life.now()) {
            Some((then, now)) if then.has_rows_of(now) => Ok(()),
            // It is there, with the same rows in other columns.
            Some((then, now)) if then.has_places_of(now) => Err(Error::Operation {
                table: t.schema.name.clone(),
                operation: "read a snapshot",
                reason: "columns were added or dropped after it was opened; open another one".to_owned(),
            }),
            _ => Err(t.gone()),
        }
    }

    /// As [`Snapshot::stands`], of what was read by index `ix`: one that was dropped has forgotten
    /// its entries, whatever the snapshot shows.
    fn stands_by(&self, t: &TableInner, ix: usize) -> Result<()> {
        self.stands(t)?;
        if t.keeps_index(ix) { Ok(()) } else { Err(t.index_gone(ix)) }
    }

    /// Appends the row that the snapshot shows at `rid` to `out`. False if it shows none.
    fn read(&self, t: &TableInner, rid: Rid, out: &mut Vec<u8>) -> Result<bool> {
        let c = t.container(rid)?;
        if c.born >= self.opened.number {
            return Ok(false);
        }
        let bytes = c.bytes.read();
        let versions = c.versions.lock();
        if let Some(version) = versions.at(rid.slot(), self.opened.number) {
            out.extend_from_slice(version.unwrap_or_default());
            return Ok(version.is_some());
        }
        drop(versions);
        // A table that was dropped has no bytes; who reads it is told afterwards.
        let row = bytes.get(c.range(rid.slot())).and_then(|slot| t.layout.row_of(Slot(slot)));
        out.extend_from_slice(row.as_deref().unwrap_or_default());
        Ok(row.is_some())
    }

    /// Appends the row that the snapshot shows at `rid` to `out`, if it has the key `key` in index
    /// `ix`. An entry of the index may be of another moment. `its_key` is a buffer.
    fn read_with_key(
        &self,
        t: &TableInner,
        ix: usize,
        key: &[u8],
        rid: Rid,
        out: &mut Vec<u8>,
        its_key: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        if !self.read(t, rid, out)? {
            return Ok(false);
        }
        its_key.clear();
        t.layout.row_key(&out[start..], &t.indexes[ix].def.columns, its_key);
        if its_key != key {
            out.truncate(start);
        }
        Ok(its_key == key)
    }

    /// Reads the row with a primary key to the buffers. False if there is none.
    fn read_by_primary_key(&self, t: &TableInner, key: &[Value<'_>], b: &mut Buffers) -> Result<bool> {
        let Buffers { key: encoded, row, its_key, .. } = b;
        encoded.clear();
        row.clear();
        let index = &t.indexes[0];
        t.layout.user_key(key, &index.def.columns, false, encoded)?;
        let hash = key::hash(encoded);
        if let Some(rid) = index.likely(encoded, hash) {
            pause::here();
            if self.read_with_key(t, 0, encoded, rid, row, its_key)? {
                return Ok(true);
            }
            // It was the place of another key, or this snapshot sees none there.
            if let Some(certain) = index.find(encoded, hash).filter(|certain| *certain != rid)
                && self.read_with_key(t, 0, encoded, certain, row, its_key)?
            {
                return Ok(true);
            }
        }
        // Behind today's entry: one that leaves the index in between is a ghost before.
        let mut ghosts = Vec::new();
        index.find_ghosts(encoded, &mut ghosts);
        for rid in ghosts {
            if self.read_with_key(t, 0, encoded, rid, row, its_key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The row with this primary key.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let snapshot = db.snapshot()?;
    /// db.run(|tx| tx.delete(&t, &[1.into()]))?;
    /// assert!(snapshot.get(&t, &[1.into()])?.is_some());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] or [`Error::Operation`] if the key does not fit the primary key;
    /// [`Error::SnapshotExpired`]; [`Error::NoSuchTable`] if the table was made, filled or dropped
    /// since, [`Error::Operation`] if it got or lost a column.
    pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>> {
        self.get_with(table, key, |row| row.to_row())
    }

    /// What `read` makes of the row with this primary key, which is lent to it.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[7.into()]))?;
    /// assert_eq!(db.snapshot()?.get_with(&t, &[7.into()], |row| row.at(0).as_int())?, Some(Some(7)));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<T>(
        &self,
        table: &Table,
        key: &[Value<'_>],
        read: impl FnOnce(RowView<'_>) -> T,
    ) -> Result<Option<T>> {
        documented("Snapshot::get_with", || {
            let t = self.table(table)?;
            let mut lent = Lent::<Buffers>::take();
            let b = &mut *lent;
            let is_there = self.read_by_primary_key(t, key, b)?;
            self.stands(t)?;
            Ok(is_there.then(|| read(RowView { bytes: &b.row, layout: &t.layout })))
        })
    }

    /// The rows with these primary keys, in the order of the keys; `None` where there is none: as
    /// [`Snapshot::get`] of each, but faster where the table is larger than the caches, since their
    /// misses overlap ([`crate::Database::get_many`]).
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let snapshot = db.snapshot()?;
    /// db.run(|tx| tx.delete(&t, &[7.into()]))?;
    /// let rows = snapshot.get_many(&t, [7i64, 70].map(|id| [Value::Int(id)]))?;
    /// assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_many<'v, K: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        self.get_many_with(table, keys, |_, row| rows.push(row.map(RowView::to_row)))?;
        Ok(rows)
    }

    /// As [`Snapshot::get_many`], but lends each row to `read`: it gets the number of the key, from
    /// 0 on, and the row or `None`, once for each key and in their order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let mut missing = Vec::new();
    /// db.snapshot()?.get_many_with(&t, (8..12i64).map(|id| [Value::Int(id)]), |n, row| {
    ///     if row.is_none() {
    ///         missing.push(8 + n);
    ///     }
    /// })?;
    /// assert_eq!(missing, [10, 11]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`]; `read` may have been given the rows of earlier keys.
    pub fn get_many_with<'v, K: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
        mut read: impl FnMut(usize, Option<RowView<'_>>),
    ) -> Result<()> {
        documented("Snapshot::get_many_with", || {
            let t = self.table(table)?;
            let mut lent = Lent::<Buffers>::take();
            let b = &mut *lent;
            in_batches(keys, |first, some| {
                b.batch.warm(t, some, false);
                for (n, key) in some.iter().enumerate() {
                    let is_there = self.read_by_primary_key(t, key.as_ref(), b)?;
                    self.stands(t)?;
                    read(first + n, is_there.then_some(RowView { bytes: &b.row, layout: &t.layout }));
                }
                Ok(())
            })
        })
    }

    /// A key of index `ix` as it is encoded, and the places where a row with it may be.
    fn places(&self, t: &TableInner, ix: usize, key: &[Value<'_>]) -> Result<(Vec<u8>, Vec<Rid>)> {
        let mut encoded = Vec::new();
        t.layout.user_key(key, &t.indexes[ix].def.columns, false, &mut encoded)?;
        let mut rids = Vec::new();
        t.indexes[ix].find_all(&encoded, key::hash(&encoded), &mut rids);
        // Behind today's entries: one that leaves them in between is a ghost before.
        t.indexes[ix].find_ghosts(&encoded, &mut rids);
        rids.sort_unstable();
        rids.dedup();
        Ok((encoded, rids))
    }

    /// All rows with this key in the named index, in no particular order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t")
    ///         .column("id", ColumnType::Int64)
    ///         .column("colour", ColumnType::VarText(20))
    ///         .primary_key(&["id"])
    ///         .hash_index("by_colour", &["colour"]),
    /// )?;
    /// db.run(|tx| tx.insert(&t, &[1.into(), "red".into()]))?;
    /// let snapshot = db.snapshot()?;
    /// db.run(|tx| tx.update(&t, &[1.into()], &[("colour", "blue".into())]))?;
    /// assert_eq!(snapshot.get_by(&t, "by_colour", &["red".into()])?.len(), 1);
    /// assert_eq!(snapshot.get_by(&t, "by_colour", &["blue".into()])?.len(), 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`], and [`Error::NoSuchIndex`].
    pub fn get_by(&self, table: &Table, index: &str, key: &[Value<'_>]) -> Result<Vec<Row>> {
        documented("Snapshot::get_by", || {
            let t = self.table(table)?;
            let ix = self.index(t, index)?;
            let (encoded, rids) = self.places(t, ix, key)?;
            let (mut rows, mut its_key) = (Vec::new(), Vec::new());
            for rid in rids {
                let mut row = Vec::new();
                if self.read_with_key(t, ix, &encoded, rid, &mut row, &mut its_key)? {
                    rows.push(RowView { bytes: &row, layout: &t.layout }.to_row());
                }
            }
            self.stands_by(t, ix)?;
            Ok(rows)
        })
    }

    /// Rows in order of the named ordered index, within bounds on its leading columns, as of
    /// [`crate::Transaction::range`].
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
    /// let t = db.create_table(schema)?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let snapshot = db.snapshot()?;
    /// db.run(|tx| tx.delete(&t, &[4.into()]))?;
    /// assert_eq!(snapshot.range(&t, "primary", [Value::Int(3)]..[Value::Int(6)])?.count(), 3);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`], [`Error::NoSuchIndex`], [`Error::Operation`] for a hash index.
    pub fn range<'v, K: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        index: &str,
        bounds: impl RangeBounds<K>,
    ) -> Result<SnapshotCursor<'_, 'db>> {
        documented("Snapshot::range", || {
            let t = self.table(table)?;
            let ix = self.index(t, index)?;
            t.require_order(ix)?;
            match t.bounds(ix, &bounds, &mut Vec::new())? {
                Some((lower, upper)) => Ok(SnapshotCursor::ordered(self, t, ix, lower, upper)),
                None => Ok(SnapshotCursor::empty(self, t)),
            }
        })
    }

    /// All rows: in order of the primary key if that is ordered, else in no particular order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// for row in db.snapshot()?.scan(&t)? {
    ///     assert_eq!(row?.to_json(), r#"{"id":1}"#);
    /// }
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SnapshotExpired`]; [`Error::NoSuchTable`] if the table was made, filled or dropped
    /// since, [`Error::Operation`] if it got or lost a column.
    pub fn scan(&self, table: &Table) -> Result<SnapshotCursor<'_, 'db>> {
        documented("Snapshot::scan", || {
            let t = self.table(table)?;
            Ok(SnapshotCursor::all(self, t))
        })
    }

    /// Part `part`, from 0, of `parts` parts of the rows, of about the same size, in no particular
    /// order: so that several threads read a table together.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (0..10_000i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let snapshot = db.snapshot()?;
    /// let count = |part| Ok::<usize, mmdb::Error>(snapshot.scan_part(&t, part, 3)?.count());
    /// assert_eq!(count(0)? + count(1)? + count(2)?, 10_000);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SnapshotExpired`]; [`Error::NoSuchTable`] if the table was made, filled or dropped
    /// since, [`Error::Operation`] if it got or lost a column.
    pub fn scan_part(&self, table: &Table, part: usize, parts: usize) -> Result<SnapshotCursor<'_, 'db>> {
        documented("Snapshot::scan_part", || {
            let t = self.table(table)?;
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            Ok(if part < parts {
                SnapshotCursor::places(self, t, number(part), number(parts))
            } else {
                SnapshotCursor::empty(self, t)
            })
        })
    }
}
