//! Reads of committed rows by their keys, outside of transactions.
//!
//! 1. Nothing uncommitted ever comes into a container, so what is there may be read. The latch of
//!    the container is held while a row is copied, so it is whole, and of one commit.
//! 2. The index is asked for a place by the hash alone, and between it and the container another
//!    row may come to the place: whoever followed it looks whether the row has the key. If it has
//!    not, the index is asked with the key. A key is at one place at a time, for a commit clears
//!    the old one before it fills the new one, so whatever was followed, a row that has the key is
//!    the one.
//! 3. A key that is not found, or whose place has no row any more, is missing only if no commit was
//!    moving rows meanwhile (`moves.rs`). Else it is looked for again, and if that goes on, at a
//!    moment when no commit is half applied.
//! 4. A table that was filled, dropped or got other columns meanwhile is found by its life, which
//!    is asked before and after.

use crate::container::Rid;
use crate::database::Database;
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key;
use crate::lent::Lent;
use crate::life::Span;
use crate::lookup::{Buffers, in_batches};
use crate::moves::MovesEnded;
use crate::pause;
use crate::row::{Row, RowView};
use crate::sabotage::has_defect;
use crate::table::{AtPlace, Table, TableInner};
use crate::value::Value;
use std::sync::Arc;

/// So often a key is looked for beside commits that move rows, before they are kept out.
const ATTEMPTS: usize = 8;

/// What one attempt to read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    Missing,
    /// Something changed meanwhile.
    Unknown,
}

/// A table at the beginning of an attempt.
struct Attempt<'t> {
    table: &'t Arc<TableInner>,
    span: Span,
    moves: MovesEnded,
    /// No commit is half applied as long as this lasts.
    is_quiet: bool,
    /// Defects, for tests.
    believes_hashes: bool,
    reads_any_row: bool,
}

impl<'t> Attempt<'t> {
    #[inline]
    fn begin(engine: &Engine, handle: &'t Table, is_quiet: bool) -> Result<Attempt<'t>> {
        // Before the definition: if another one takes the place of that meanwhile, this is found to
        // be over.
        let span = handle.0.span()?;
        let table = engine.table_of(handle)?;
        let defect = engine.options.defect();
        let believes_hashes = has_defect!(defect, BelievesHashes);
        let reads_any_row = has_defect!(defect, ReadsAnyRow);
        Ok(Attempt { table, span, moves: table.moves.ended(), is_quiet, believes_hashes, reads_any_row })
    }

    /// Reads the row of `key`, which may be at `rid`, to `row`. `its_key` is a buffer.
    #[inline]
    fn read(
        &self,
        key: &[u8],
        rid: Option<Rid>,
        row: &mut Vec<u8>,
        its_key: &mut Vec<u8>,
    ) -> Result<Outcome> {
        row.clear();
        let t = self.table;
        let there = match rid {
            Some(rid) if self.reads_any_row => t.read(rid, row)?.map_or(AtPlace::Nothing, |_| AtPlace::Row),
            Some(rid) => t.read_key_at(rid, key, row, its_key)?,
            None => AtPlace::Nothing,
        };
        // Now that it is read.
        if !t.life.now().is_some_and(|now| self.span.has_rows_of(now)) {
            return Ok(Outcome::Unknown);
        }
        Ok(match there {
            AtPlace::Row => Outcome::Found,
            AtPlace::Nothing if self.is_quiet || !t.moves.have_been_under_way(self.moves) => Outcome::Missing,
            AtPlace::LaterColumns if self.is_quiet => {
                let what = format!("a row of table {} has columns that the table has not", t.schema.name);
                return Err(Error::Internal { what });
            }
            AtPlace::Nothing | AtPlace::LaterColumns => Outcome::Unknown,
        })
    }

    /// Encodes `key` to the buffers, looks it up, and reads its row to them.
    #[inline]
    fn find(&self, key: &[Value<'_>], b: &mut Buffers) -> Result<Outcome> {
        let index = &self.table.indexes[0];
        b.key.clear();
        self.table.layout.user_key(key, &index.def.columns, false, &mut b.key)?;
        let hash = key::hash(&b.key);
        let likely = index.likely(&b.key, hash);
        pause::here();
        let outcome = self.read(&b.key, likely, &mut b.row, &mut b.its_key)?;
        if likely.is_none() || outcome != Outcome::Missing || self.believes_hashes {
            return Ok(outcome);
        }
        let rid = index.find(&b.key, hash);
        pause::here();
        self.read(&b.key, rid, &mut b.row, &mut b.its_key)
    }
}

impl Engine {
    /// Reads the committed row of a key to the buffers. The definition that it has the columns of;
    /// `None` if there is no such row.
    #[inline]
    fn read_committed<'t>(
        &self,
        handle: &'t Table,
        key: &[Value<'_>],
        b: &mut Buffers,
    ) -> Result<Option<&'t Arc<TableInner>>> {
        for _ in 0..ATTEMPTS {
            let attempt = Attempt::begin(self, handle, false)?;
            match attempt.find(key, b)? {
                Outcome::Found => return Ok(Some(attempt.table)),
                Outcome::Missing => return Ok(None),
                Outcome::Unknown => {}
            }
        }
        self.read_between_commits(handle, key, b)
    }

    /// As [`Engine::read_committed`], at a moment when no commit is half applied.
    #[cold]
    fn read_between_commits<'t>(
        &self,
        handle: &'t Table,
        key: &[Value<'_>],
        b: &mut Buffers,
    ) -> Result<Option<&'t Arc<TableInner>>> {
        loop {
            let mut try_once = || {
                let attempt = Attempt::begin(self, handle, true)?;
                attempt.find(key, b).map(|outcome| (attempt.table, outcome))
            };
            match self.quiesced(&mut try_once)? {
                (table, Outcome::Found) => return Ok(Some(table)),
                (_, Outcome::Missing) => return Ok(None),
                // A drop or a fill began: the next attempt is told.
                (_, Outcome::Unknown) => {}
            }
        }
    }

    /// Reads the committed rows of up to [`crate::index::BATCH`] keys, of which the first has the number `first`.
    fn read_batch<'v, K: AsRef<[Value<'v>]>>(
        &self,
        handle: &Table,
        keys: &[K],
        first: usize,
        b: &mut Buffers,
        read: &mut impl FnMut(usize, Option<RowView<'_>>),
    ) -> Result<()> {
        let attempt = Attempt::begin(self, handle, false)?;
        let mut batch = std::mem::take(&mut b.batch);
        batch.encode(attempt.table, keys)?;
        batch.look_up(attempt.table, false);
        pause::here();
        for (n, key) in keys.iter().enumerate() {
            let (encoded, rid) = batch.key(n);
            let found = match attempt.read(encoded, rid, &mut b.row, &mut b.its_key)? {
                Outcome::Found => Some(attempt.table),
                Outcome::Missing if rid.is_none() || attempt.believes_hashes => None,
                // It was the place of another key, or is by now.
                Outcome::Missing | Outcome::Unknown => self.read_committed(handle, key.as_ref(), b)?,
            };
            read(first + n, found.map(|t| RowView { bytes: &b.row, layout: &t.layout }));
        }
        b.batch = batch;
        Ok(())
    }
}

impl Database {
    /// The row with this primary key as it was last committed, read outside of any transaction:
    /// without locks, so that it waits for no transaction, none waits for it, and it is never
    /// refused because of what others do. Cheaper than a transaction of one read; many keys at once
    /// are cheaper still with [`Database::get_many`].
    ///
    /// **What it sees.** The row is whole, of one commit, and the last one of its key at some
    /// moment between call and return: so all that was committed before the call is seen, one's own
    /// commits too. A key that is there all the time is never missed, also while its row moves. Of
    /// several calls each has its own moment (*read committed*): of a commit that changes two rows
    /// one call may see the first row changed, and a later call the second one not yet. Who needs
    /// several rows of one moment, or changes what was read, takes a [`Database::snapshot`] or a
    /// transaction. Changes of transactions that have not committed are never seen, those of one
    /// that this thread has open neither.
    ///
    /// What it sees may not be durable yet. Who acts on it outside of the database waits for
    /// [`Database::flush`] first.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// db.run(|tx| tx.insert(&t, &[1.into(), 10.into()]))?;
    /// let mut writer = db.begin()?;
    /// writer.update(&t, &[1.into()], &[("n", 11.into())])?;
    /// let row = db.get(&t, &[1.into()])?.expect("it is committed");    // and does not wait for the writer
    /// assert_eq!(row.get("n"), Some(10.into()));
    /// writer.commit()?.wait()?;
    /// assert_eq!(db.get(&t, &[1.into()])?.and_then(|row| row.at(1).as_int()), Some(11));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] or [`Error::Operation`] if the key does not fit the primary key;
    /// [`Error::NoSuchTable`] and [`Error::TableChanged`] of the handle; [`Error::Poisoned`] after a
    /// failed write or sync.
    pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>> {
        self.get_with(table, key, |row| row.to_row())
    }

    /// What `read` makes of the row with this primary key as it was last committed; see
    /// [`Database::get`], which allocates a copy. `read` gets the row after all latches were given
    /// back, so it may do anything, and take as long as it likes.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// db.run(|tx| tx.insert(&t, &[1.into(), 10.into()]))?;
    /// assert_eq!(db.get_with(&t, &[1.into()], |row| row.at(1).as_int())?, Some(Some(10)));
    /// assert_eq!(db.get_with(&t, &[2.into()], |row| row.at(1).as_int())?, None);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn get_with<T>(
        &self,
        table: &Table,
        key: &[Value<'_>],
        read: impl FnOnce(RowView<'_>) -> T,
    ) -> Result<Option<T>> {
        documented("Database::get_with", || {
            let engine = &*self.0.engine;
            engine.log.check()?;
            let mut lent = Lent::<Buffers>::take();
            let b = &mut *lent;
            let found = engine.read_committed(table, key, b)?;
            Ok(found.map(|t| read(RowView { bytes: &b.row, layout: &t.layout })))
        })
    }

    /// The rows with these primary keys as they were last committed, in the order of the keys;
    /// `None` where there is none. Each row is as [`Database::get`] would give it, and each has a
    /// moment of its own: they are read in one go because that is faster. In a table that is larger
    /// than the caches a read waits for memory twice; here those waits overlap, 16 keys at a
    /// time, where the primary key is a hash index.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into(), (id * id).into()])))?;
    /// let rows = db.get_many(&t, [7i64, 70, 3].map(|id| [Value::Int(id)]))?;
    /// let squares: Vec<_> = rows.iter().map(|row| row.as_ref().and_then(|row| row.at(1).as_int())).collect();
    /// assert_eq!(squares, [Some(49), None, Some(9)]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`].
    pub fn get_many<'v, K: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        self.get_many_with(table, keys, |_, row| rows.push(row.map(RowView::to_row)))?;
        Ok(rows)
    }

    /// As [`Database::get_many`], but lends each row to `read`, and nothing is allocated: `read`
    /// gets the number of the key, from 0 on, and the row or `None`, once for each key and in their
    /// order. It holds no latch meanwhile.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&t, &[id.into(), 1.into()])))?;
    /// let (mut sum, mut missing) = (0, Vec::new());
    /// db.get_many_with(&t, (95..105i64).map(|id| [Value::Int(id)]), |n, row| match row {
    ///     Some(row) => sum += row.at(1).as_int().unwrap_or(0),
    ///     None => missing.push(95 + n),
    /// })?;
    /// assert_eq!((sum, missing), (5, vec![100, 101, 102, 103, 104]));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::get`]; `read` may have been given the rows of earlier keys.
    pub fn get_many_with<'v, K: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
        mut read: impl FnMut(usize, Option<RowView<'_>>),
    ) -> Result<()> {
        documented("Database::get_many_with", || {
            let engine = &*self.0.engine;
            engine.log.check()?;
            let mut lent = Lent::<Buffers>::take();
            let b = &mut *lent;
            in_batches(keys, |first, some| engine.read_batch(table, some, first, b, &mut read))
        })
    }
}
