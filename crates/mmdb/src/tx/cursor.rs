//! Cursors: rows one by one, own changes merged in.
//!
//! A cursor shows each row once, as it was when the cursor came to it. What is changed at the
//! cursor goes to the transaction's own changes, of which the cursor took those of before when it
//! was made: so a row that an update moves to a place ahead does not come again.

use super::Transaction;
use super::own_rows::OwnRows;
use super::row_lock::RowLock;
use super::write_set::own_rows;
use crate::container::{Rid, Slot};
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::key::{self, KeyBuf};
use crate::lock::{Bounds, Mode};
use crate::row::{Row, RowView};
use crate::table::TableInner;
use crate::value::Value;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Index entries fetched at a time: one at first, for who looks at the first row only and wants no
/// more locked than that, and four times as many each time.
const BATCHES: std::ops::RangeInclusive<usize> = 1..=64;
/// Entries fetched at once at most, whatever is expected: the index is latched meanwhile.
const EXPECTED_MAX: usize = 1024;

/// An iterator over rows, made by [`Transaction::range`] and [`Transaction::scan`].
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
/// # let mut tx = db.begin()?;
/// for id in [3, 1, 2] {
///     tx.insert(&t, &[id.into()])?;
/// }
/// let mut cursor = tx.scan(&t)?;                             // in order: the primary key is
/// assert_eq!(cursor.next().transpose()?.map(|r| r.to_json()), Some(r#"{"id":1}"#.into()));
/// assert_eq!(cursor.count(), 2);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor<'a, 'db> {
    tx: &'a mut Transaction<'db>,
    table: Arc<TableInner>,
    source: Source,
    own: OwnRows,
    reverse: bool,
    lock: RowLock,
    /// The committed row that was read last.
    row: Vec<u8>,
    at: At,
    /// It has returned an error, and returns nothing more.
    failed: bool,
}

/// Where a cursor stands.
#[derive(Debug)]
enum At {
    /// Before the first row, or behind the last.
    Nowhere,
    /// On the committed row that it keeps.
    Committed,
    /// On a row that its transaction had written before the cursor was made: its number in the
    /// write set, and its place in the arena.
    Own(usize, Range<usize>),
}

#[derive(Debug)]
enum Source {
    Ordered {
        index: usize,
        bounds: Bounds,
        /// What of them is left.
        rest: Bounds,
        batch: VecDeque<(KeyBuf, Rid)>,
        /// Entries to fetch next.
        want: usize,
        done: bool,
    },
    Places {
        /// The container to look through next, and how many on from one to the next.
        container: u32,
        step: u32,
        batch: VecDeque<Rid>,
    },
}

impl<'a, 'db> Cursor<'a, 'db> {
    fn new(tx: &'a mut Transaction<'db>, table: &Arc<TableInner>, source: Source, own: OwnRows) -> Self {
        let table = table.clone();
        let lock = RowLock { mode: Mode::Shared, skip_locked: false };
        let (reverse, row, failed) = (false, Vec::new(), false);
        Cursor { tx, table, source, own, reverse, lock, row, at: At::Nowhere, failed }
    }

    pub(super) fn empty(tx: &'a mut Transaction<'db>, table: &Arc<TableInner>) -> Self {
        let source = Source::Places { container: u32::MAX, step: 1, batch: VecDeque::new() };
        Self::new(tx, table, source, OwnRows::these(Vec::new()))
    }

    pub(super) fn ordered(
        tx: &'a mut Transaction<'db>,
        table: &Arc<TableInner>,
        index: usize,
        bounds: Bounds,
    ) -> Result<Self> {
        table.require_order(index)?;
        let own = tx.s.with_rows(|writes, rows| writes.rows_within(table, index, &bounds, rows));
        let (batch, want) = (VecDeque::new(), *BATCHES.start());
        let rest = bounds.clone();
        Ok(Self::new(tx, table, Source::Ordered { index, bounds, rest, batch, want, done: false }, own))
    }

    pub(super) fn all(tx: &'a mut Transaction<'db>, table: &Arc<TableInner>) -> Result<Self> {
        if table.indexes[0].def.kind == crate::schema::IndexKind::Ordered {
            return Self::ordered(tx, table, 0, (Bound::Unbounded, Bound::Unbounded));
        }
        Ok(Self::places(tx, table, 0, 1))
    }

    /// The rows in the containers from number `first` on, each `step`-th; the first part has the
    /// transaction's own. The table is locked.
    pub(super) fn places(
        tx: &'a mut Transaction<'db>,
        table: &Arc<TableInner>,
        first: u32,
        step: u32,
    ) -> Self {
        let own = if first == 0 { own_rows(&tx.s.writes, table, 0, &tx.s.arena) } else { Vec::new() };
        let source = Source::Places { container: first, step, batch: VecDeque::new() };
        Self::new(tx, table, source, OwnRows::these(own))
    }

    /// The same rows from the last to the first; call it before the first row is taken.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let last = tx.scan(&t)?.rev().next().transpose()?;
    /// assert_eq!(last.map(|r| r.at(0) == 3.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.reverse = !self.reverse;
        self.own.turn();
        self
    }

    /// Says how many rows will be taken, where that is known: so many entries are fetched from the
    /// index at once, neither in several steps nor in vain. More rows may be taken all the same.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let first = tx.scan(&t)?.prefetch(1).next().transpose()?;
    /// assert_eq!(first.map(|r| r.at(0) == 1.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn prefetch(mut self, rows: usize) -> Self {
        if let Source::Ordered { want, .. } = &mut self.source {
            *want = rows.clamp(1, EXPECTED_MAX);
        }
        self
    }

    /// Locks the rows that are read as for a change, so that nobody else gets them meanwhile: two
    /// transactions that read a row and then change it would be in each other's way, and one of
    /// them would have to run again. Call it before the first row is taken.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// // The head of a queue, taken by one client at a time.
    /// let head = db.run(|tx| {
    ///     let head = tx.scan(&t)?.prefetch(1).for_update().next().transpose()?;
    ///     let Some(id) = head.and_then(|row| row.at(0).as_int()) else { return Ok(None) };
    ///     tx.delete(&t, &[id.into()])?;
    ///     Ok::<_, mmdb::Error>(Some(id))
    /// })?;
    /// assert_eq!(head, Some(1));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn for_update(mut self) -> Self {
        self.lock.mode = Mode::Exclusive;
        self
    }

    /// Passes over rows that another transaction has locked, and waits for none: `SKIP LOCKED` of
    /// SQL. So several clients at the head of one queue take a row each. Only the rows that are
    /// shown are locked, not the range and never the table, so the cursor shows no consistent state
    /// of it: rows are missing that are there, and a row may come into what was read. That nothing
    /// is shown says that nothing is there that is free. Who has or wants the whole table is waited
    /// for. Call it before the first row is taken; a cursor in no order, over a table whose primary
    /// key is not ordered, locks the table as without it.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let (mut one, mut other) = (db.begin()?, db.begin()?);
    /// for (client, id) in [(&mut one, 1), (&mut other, 2)] {
    ///     let mut queue = client.scan(&t)?.for_update().skip_locked();
    ///     assert_eq!(queue.next_with(|row| row.at(0).as_int())?, Some(Some(id)));
    ///     queue.delete()?;
    /// }
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn skip_locked(mut self) -> Self {
        self.lock.skip_locked = true;
        self
    }

    /// The next committed entries that this transaction has not changed.
    fn fill(&mut self) -> Result<()> {
        let (t, tx, lock, reverse) = (&*self.table, &mut *self.tx, self.lock, self.reverse);
        match &mut self.source {
            Source::Ordered { index, bounds, rest, batch, want, done } => {
                while batch.is_empty() && !*done {
                    let ix = &t.indexes[*index];
                    match tx.cursor_locks_left(t, lock)? {
                        None => {
                            ix.scan(&rest.0, &rest.1, *want, reverse, batch);
                            *done = batch.len() < *want;
                            if let Some((last, _)) = batch.back() {
                                let next = Bound::Excluded(last.clone());
                                *(if reverse { &mut rest.1 } else { &mut rest.0 }) = next;
                            }
                        }
                        Some(left) => {
                            // How far it will be read is seen first; what is there may change until
                            // that is locked.
                            let want = (*want).min(left);
                            ix.scan(&rest.0, &rest.1, want, reverse, batch);
                            let last =
                                batch.back().filter(|_| batch.len() == want).map(|(key, _)| key.clone());
                            batch.clear();
                            let part =
                                tx.cover_upto(t, *index, (&*bounds, &*rest), last.as_ref(), reverse)?;
                            ix.scan(&part.0, &part.1, usize::MAX, reverse, batch);
                            match last {
                                Some(last) => {
                                    *(if reverse { &mut rest.1 } else { &mut rest.0 }) =
                                        Bound::Excluded(last);
                                }
                                None => *done = true,
                            }
                        }
                    }
                    *want = (*want * 4).min(*BATCHES.end());
                    let writes = &tx.s.writes;
                    if writes.len() > 0 {
                        batch.retain(|(_, r)| writes.by_rid(t.id, *r).is_none());
                    }
                }
            }
            Source::Places { container, step, batch } => {
                if lock.mode == Mode::Exclusive {
                    tx.lock_table(t, Mode::Exclusive)?;
                }
                let writes = &tx.s.writes;
                while batch.is_empty() && *container < t.containers.len() {
                    if let Some(c) = t.containers.get(*container) {
                        let bytes = c.bytes.read();
                        for slot in 0..c.slots(t.space.container_size) {
                            let rid = Rid::new(*container, slot);
                            let live = bytes.get(c.range(slot)).is_some_and(|s| Slot(s).is_live());
                            if live && writes.by_rid(t.id, rid).is_none() {
                                batch.push_back(rid);
                            }
                        }
                    }
                    *container = container.saturating_add(*step);
                }
            }
        }
        // Now that it is read.
        tx.require_same(t)
    }

    /// Puts the next committed row into `self.row`, if it comes before the next own one. False if
    /// it has gone since its entry was seen.
    fn read_next(&mut self) -> Result<Option<bool>> {
        self.fill()?;
        let (t, reverse) = (&*self.table, self.reverse);
        let writes = &self.tx.s.writes;
        let part = |ix, within: &Bounds, most, rev| writes.ordered_part(t.id, ix, within, most, rev);
        let own = self.own.look(part, reverse);
        match &mut self.source {
            Source::Ordered { index, batch, .. } => {
                let own_first = match (own, batch.front()) {
                    (Some(own), Some((c, _))) => (own.key < *c) != reverse,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                let Some((key, rid)) = (if own_first { None } else { batch.pop_front() }) else {
                    return Ok(None);
                };
                if self.tx.locks_rows(t, self.lock.mode) {
                    let entry = (&key, rid);
                    return self.tx.read_entry(t, *index, entry, self.lock, &mut self.row).map(Some);
                }
                self.row.clear();
                // None in a table without locking: the row went away under the cursor.
                Ok(Some(t.read(rid, &mut self.row)?.is_some()))
            }
            Source::Places { batch, .. } => {
                let Some(rid) = batch.pop_front() else { return Ok(None) };
                self.row.clear();
                Ok(Some(t.read(rid, &mut self.row)?.is_some()))
            }
        }
    }

    /// What `read` makes of the next row, which is lent to it: no copy is allocated, as
    /// [`Iterator::next`] must.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// for id in [3, 1, 2] {
    ///     tx.insert(&t, &[id.into()])?;
    /// }
    /// let mut cursor = tx.scan(&t)?;
    /// let mut sum = 0;
    /// while let Some(id) = cursor.next_with(|row| row.at(0).as_int())? {
    ///     sum += id.unwrap_or(0);
    /// }
    /// assert_eq!(sum, 6);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`]; the cursor is at its end then.
    pub fn next_with<T>(&mut self, read: impl FnOnce(RowView<'_>) -> T) -> Result<Option<T>> {
        documented("Cursor::next_with", || {
            self.at = At::Nowhere;
            while !self.failed {
                match self.read_next() {
                    Ok(Some(true)) => {
                        self.at = At::Committed;
                        return Ok(Some(read(RowView { bytes: &self.row, layout: &self.table.layout })));
                    }
                    Ok(Some(false)) => {}
                    Ok(None) => {
                        let Some(own) = self.own.take() else { return Ok(None) };
                        self.at = At::Own(own.at, own.row.clone());
                        let bytes = &self.tx.s.arena[own.row];
                        return Ok(Some(read(RowView { bytes, layout: &self.table.layout })));
                    }
                    Err(e) => {
                        self.failed = true;
                        return Err(self.tx.noticed(&self.table, e));
                    }
                }
            }
            Ok(None)
        })
    }

    /// Changes some columns of the row that the cursor returned last. The iteration goes on behind
    /// that row, whatever the change does to its place in the index. False if the row is not there
    /// any more: it was deleted here, or by anybody in a table without locking.
    ///
    /// Call [`Cursor::for_update`] where rows are changed: without it a row is locked as for reading
    /// and then for the change, and of two transactions that do so one has to run again.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64)
    ///         .primary_key(&["id"]).ordered_index("by_n", &["n"]),
    /// )?;
    /// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into()])))?;
    /// db.run(|tx| {
    ///     let mut cursor = tx.range(&t, "by_n", [Value::Int(2)]..)?.for_update();
    ///     while let Some(n) = cursor.next_with(|row| row.at(1).as_int().unwrap_or(0))? {
    ///         cursor.update(&[("n", (n + 10).into())])?;         // it lies ahead now, and does not come again
    ///     }
    ///     Ok::<_, mmdb::Error>(())
    /// })?;
    /// let mut tx = db.begin()?;
    /// let all: Vec<_> = tx.range(&t, "by_n", [Value::Int(0)]..)?.collect::<Result<_, _>>()?;
    /// assert_eq!(all.iter().map(|row| row.at(1)).collect::<Vec<_>>(), [1.into(), 12.into(), 13.into()]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::update`]; [`Error::Operation`] where the cursor stands on no row, too.
    pub fn update(&mut self, set: &[(&str, Value<'_>)]) -> Result<bool> {
        self.tx.goes_on()?;
        documented("Cursor::update", || {
            let mut places = Vec::with_capacity(set.len());
            for &(name, value) in set {
                let schema = &self.table.schema;
                let missing = || Error::NoSuchColumn { table: schema.name.clone(), column: name.to_owned() };
                places.push((schema.columns.iter().position(|c| c.name == name).ok_or_else(missing)?, value));
            }
            self.update_at(&places)
        })
    }

    /// As [`Cursor::update`], with the columns' positions in place of their names.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    /// # let t = db.create_table(s.ordered_primary_key(&["id"]))?;
    /// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into()])))?;
    /// let mut tx = db.begin()?;
    /// let mut cursor = tx.scan(&t)?.for_update();
    /// while cursor.next_with(|_| ())?.is_some() {
    ///     assert!(cursor.update_at(&[(1, 0.into())])?);
    /// }
    /// assert!(cursor.update_at(&[(1, 0.into())]).is_err(), "it is behind the last row");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cursor::update`].
    pub fn update_at(&mut self, set: &[(usize, Value<'_>)]) -> Result<bool> {
        self.tx.goes_on()?;
        documented("Cursor::update_at", || {
            Transaction::may_be_set(&self.table, set)?;
            let k = self.key("change the row at a cursor")?;
            if let At::Own(at, _) = self.at {
                self.own.note_change(at);
            }
            self.tx.index_writes();
            self.tx.charge(false)?;
            self.tx.update_row(&self.table, (&k, key::hash(&k)), set)
        })
    }

    /// Removes the row that the cursor returned last. The iteration goes on behind it. False if the
    /// row is not there any more. What is said of locks at [`Cursor::update`] goes for this, too.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// db.run(|tx| (1..=10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// db.run(|tx| {
    ///     let mut cursor = tx.scan(&t)?.for_update();
    ///     while let Some(row) = cursor.next().transpose()? {
    ///         if row.at(0).as_int().is_some_and(|id| id % 2 == 0) {
    ///             cursor.delete()?;
    ///         }
    ///     }
    ///     Ok::<_, mmdb::Error>(())
    /// })?;
    /// assert_eq!(db.begin()?.scan(&t)?.count(), 5);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::delete`]; [`Error::Operation`] where the cursor stands on no row, too.
    pub fn delete(&mut self) -> Result<bool> {
        self.tx.goes_on()?;
        documented("Cursor::delete", || {
            let k = self.key("delete the row at a cursor")?;
            self.tx.index_writes();
            self.tx.charge(true)?;
            self.tx.delete_row(&self.table, (&k, key::hash(&k)), || "(the row at a cursor)".into())
        })
    }

    /// Whether the row that was returned last has this primary key: what is made of a row must not
    /// go to another one's place unnoticed.
    pub(crate) fn require_key(&mut self, key: &[Value<'_>]) -> Result<()> {
        let operation = "change the row at a cursor";
        let here = self.key(operation)?;
        let (t, mut given) = (&*self.table, Vec::new());
        t.layout.user_key(key, &t.indexes[0].def.columns, false, &mut given)?;
        if given == here {
            return Ok(());
        }
        let shown = (t.shown_key(0, &given), t.shown_key(0, &here));
        let reason = format!("its primary key is {}, and {} was given", shown.1, shown.0);
        Err(Error::Operation { table: t.schema.name.clone(), operation, reason })
    }

    /// The primary key of the row that was returned last.
    fn key(&mut self, operation: &'static str) -> Result<Vec<u8>> {
        let (t, tx) = (&*self.table, &mut *self.tx);
        tx.goes_on()?;
        if tx.is_outdated(t) {
            return Err(tx.outdated(t));
        }
        let row = match &self.at {
            At::Committed => &self.row[..],
            At::Own(_, row) => &tx.s.arena[row.clone()],
            At::Nowhere => {
                let reason = "it stands on none; take a row first".into();
                return Err(Error::Operation { table: t.schema.name.clone(), operation, reason });
            }
        };
        let mut k = Vec::new();
        t.layout.row_key(row, &t.indexes[0].def.columns, &mut k);
        Ok(k)
    }
}

impl Iterator for Cursor<'_, '_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.next_with(|row| row.to_row()).transpose()
    }
}
