//! Transactions.

mod commit;
mod cursor;
mod locks;
mod own_order;
mod own_rows;
mod range_read;
mod ranges;
mod row_lock;
mod scratch;
mod write_set;

pub use cursor::Cursor;

use crate::container::{Rid, class_of};
use crate::documented::documented;
use crate::engine::{Engine, name};
use crate::error::{Error, Result};
use crate::key;
use crate::lent::Lent;
use crate::lock::{LockFailure, Mode};
use crate::log::Ticket;
use crate::lookup::{Buffers, in_batches};
use crate::memory::SMALL;
use crate::options::Durability;
use crate::row::{Row, RowView, values_text};
use crate::sabotage::has_defect;
use crate::schema::{Locking, Logging};
use crate::sync::RwLockReadGuard;
use crate::sync::atomic::Ordering;
use crate::table::{Table, TableInner};
use crate::tables::Tables;
use crate::value::Value;
use scratch::Scratch;
use std::ops::Range;
use std::sync::Arc;
use write_set::{Change, Write};

/// A serializable transaction. It sees its own changes; others see them once it has committed.
/// Dropping it undoes it.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema};
/// let db = Database::in_memory()?;
/// let t = db.create_table(
///     Schema::new("t").column("id", ColumnType::Int64).column("state", ColumnType::Int16).primary_key(&["id"]),
/// )?;
/// let mut tx = db.begin()?;
/// tx.insert(&t, &[1.into(), 0.into()])?;
/// assert!(tx.update(&t, &[1.into()], &[("state", 2.into())])?);
/// assert!(tx.delete(&t, &[1.into()])?);
/// assert!(tx.get(&t, &[1.into()])?.is_none());
/// tx.commit()?.wait()?;
/// # Ok::<(), mmdb::Error>(())
/// ```
pub struct Transaction<'db> {
    db: &'db Engine,
    age: u64,
    /// Chooses among what is kept once for each processor.
    stripe: usize,
    /// Chooses the log's stream.
    lane: usize,
    s: Lent<Scratch>,
    open: bool,
    /// The lock that was refused, if one was: then this transaction can only end.
    refusal: Option<Box<Refusal>>,
    /// Bytes of the buffers and of what the commit will add to indexes, as far as they are counted.
    charged: u64,
    /// Bytes that the commit will add to indexes.
    promised: u64,
    /// The frame's body has at most so many bytes so far.
    logged: u64,
    /// A table without locking is in use.
    unlocked: bool,
}

/// What a transaction had to give way for.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: Error,
    /// `None` if waiting for it is of no use.
    obstacle: Option<Obstacle>,
    age: u64,
}

#[derive(Clone, Copy, Debug)]
enum Obstacle {
    /// A part of the table with this number: its lock, or somebody who has or wants the table
    /// whole.
    Part(u32, u64, Mode),
    /// The whole table.
    Whole(u32, Mode),
}

impl Refusal {
    /// A refusal of no lock.
    pub(crate) fn of(error: Error) -> Refusal {
        Refusal { error, obstacle: None, age: 0 }
    }

    /// Whether somebody older is still in the way. Holds nothing while it looks.
    pub(crate) fn stands(&self, db: &Engine) -> bool {
        let tables = db.enter(0);
        let gate = |table: u32, mode| {
            tables
                .get(table)
                .is_some_and(|t| t.alive().is_ok() && db.locks.refuses_table(&t.lock, mode, self.age))
        };
        match self.obstacle {
            Some(Obstacle::Part(table, name, mode)) => {
                db.locks.refuses(name, mode, self.age) || gate(table, mode.intent())
            }
            Some(Obstacle::Whole(table, mode)) => gate(table, mode),
            None => false,
        }
    }
}

/// Where a row that an operation looks for is.
#[derive(Clone, Copy)]
enum Found {
    /// Committed, at this place.
    There(Rid),
    /// Written by this transaction: number in the write set.
    Own(usize),
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({} changes)", self.s.writes.len())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.open {
            self.undo();
            self.db.counters.aborts.fetch_add(1, Ordering::Relaxed);
        }
        if self.charged > 0 {
            self.db.space.budget.add(-(self.charged as i64));
        }
    }
}

impl<'db> Transaction<'db> {
    pub(crate) fn new(db: &'db Engine, age: u64, stripe: usize, lane: usize) -> Self {
        let s = Lent::<Scratch>::take();
        assert!(s.is_clean(), "a transaction begins with nothing");
        Transaction {
            db,
            age,
            stripe,
            lane,
            s,
            open: true,
            refusal: None,
            charged: 0,
            promised: 0,
            logged: 0,
            unlocked: false,
        }
    }

    /// Gives back fresh slots and locks.
    fn undo(&mut self) {
        assert!(self.open, "a transaction ends once");
        let tables = self.db.enter(self.stripe);
        for w in self.s.writes.iter().filter(|w| w.fresh) {
            if let Some(t) = tables.get(w.table)
                && self.has_places_of(t)
            {
                t.release(w.class, w.rid, self.stripe);
            }
        }
        self.unlock(&tables);
        self.open = false;
    }

    /// Gives a fresh slot back, if it is still one: a fill that was given up has discarded the
    /// slots from before.
    fn give_back(&self, t: &TableInner, class: u8, rid: Rid) {
        let _gate = self.db.enter(self.stripe);
        if self.has_places_of(t) {
            t.release(class, rid, self.stripe);
        }
    }

    /// Whether places in a table are what they were when this transaction first used it, by
    /// whatever definition. This lasts as long as the gate is not left.
    fn has_places_of(&self, t: &TableInner) -> bool {
        let known = self.s.spans.iter().find(|s| s.0 == t.id);
        known.is_some_and(|s| t.life.now().is_some_and(|now| now.has_places_of(s.1)))
    }

    /// Whether a table is in the life in which this transaction first used it. This lasts as long
    /// as the gate is not left.
    #[inline]
    fn is_same(&self, t: &TableInner) -> bool {
        let known = self.s.spans.iter().find(|s| s.0 == t.id);
        known.is_some_and(|s| t.life.now() == Some(s.1))
    }

    /// Gives up. Dropping does the same.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// tx.abort();
    /// assert!(db.begin()?.get(&t, &[1.into()])?.is_none());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn abort(self) {}

    /// Applies the changes, hands them to the log and returns a ticket for their durability. The
    /// locks are free when this returns; nothing here waits for the disk.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit()?;
    /// assert!(db.begin()?.get(&t, &[1.into()])?.is_some());      // others see it at once
    /// ticket.wait()?;                                            // and now no power cut takes it back
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LogFull`], [`Error::Poisoned`]; [`Error::Deadlock`] or [`Error::LockTimeout`] if an
    /// operation of this transaction returned it; and for tables without locking
    /// [`Error::TransactionTooLarge`], [`Error::Conflict`] and [`Error::DuplicateKey`]. Nothing is
    /// changed then.
    pub fn commit(self) -> Result<Ticket> {
        self.commit_with(Durability::Durable)
    }

    /// Lets it end and do nothing else: `error` left something half done.
    pub(crate) fn give_up(&mut self, error: &Error) {
        if self.refusal.is_none() {
            self.refusal = Some(Box::new(Refusal::of(error.clone())));
        }
    }

    /// What this transaction had to give way for, however its error was wrapped, mapped or dropped
    /// since.
    pub(crate) fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take().map(|refusal| *refusal)
    }

    /// Remembers why this transaction can only end.
    fn refuse(&mut self, t: &TableInner, why: LockFailure, key: String, obstacle: Obstacle) -> Error {
        let table = t.schema.name.clone();
        let error = match why {
            LockFailure::Died => Error::Deadlock { table, key },
            LockFailure::TimedOut => {
                Error::LockTimeout { table, key, wait: self.db.options.lock_timeout, runs: 1 }
            }
            LockFailure::Interrupted => Error::Interrupted { cause: "a lock" },
        };
        let obstacle = (why == LockFailure::Died).then_some(obstacle);
        self.refusal = Some(Box::new(Refusal { error: error.clone(), obstacle, age: self.age }));
        error
    }

    /// A transaction that had to give way is not whole: it may neither go on nor commit.
    fn goes_on(&self) -> Result<()> {
        self.refusal.as_ref().map_or(Ok(()), |r| Err(r.error.clone()))
    }

    /// The table inside a handle, if it is one of this database and not dropped.
    fn table<'t>(&mut self, t: &'t Table) -> Result<&'t Arc<TableInner>> {
        self.goes_on()?;
        // Before its definition is looked for: if another one takes the place of that meanwhile,
        // the span is found to be over.
        let now = t.0.span()?;
        let mine = self.db.table_of(t)?;
        match self.s.spans.iter().find(|s| s.0 == mine.id) {
            Some(first) if first.1 == now => {}
            // It was filled meanwhile, or its definition changed: what was read of it, locked and
            // written belongs to the life before.
            Some(_) => return Err(self.outdated(mine)),
            None => {
                self.s.spans.push((mine.id, now));
                self.unlocked |= mine.locking == Locking::None;
            }
        }
        Ok(mine)
    }

    /// The row with this key in index `ix`, own changes included. Takes no locks.
    fn find(&self, t: &TableInner, ix: usize, key: &[u8], hash: u64) -> Option<Found> {
        if let Some(i) = self.s.writes.by_key(t, ix, key, hash, &self.s.arena) {
            return Some(Found::Own(i));
        }
        let rid = t.indexes[ix].find(key, hash)?;
        // This transaction deleted it or gave it another key.
        if self.s.writes.by_rid(t.id, rid).is_some() {
            return None;
        }
        Some(Found::There(rid))
    }

    /// The row with the primary key `key`, locked in `mode` whether it exists or not.
    fn locate(&mut self, t: &TableInner, key: &[u8], hash: u64, mode: Mode) -> Result<Option<Found>> {
        let text = || t.shown_key(0, key);
        let exclusive = mode == Mode::Exclusive;
        // While the locks are taken.
        t.indexes[0].prefetch(hash);
        self.lock_table(t, if exclusive { Mode::IntentExclusive } else { Mode::IntentShared })?;
        let covered = !exclusive && self.has_whole_table(t);
        match t.locking {
            Locking::None => Ok(self.find(t, 0, key, hash)),
            _ if covered => Ok(self.find(t, 0, key, hash)),
            Locking::Record => {
                self.lock(t, name::key(t.id, 0, hash), mode, text)?;
                Ok(self.find(t, 0, key, hash))
            }
            Locking::Page | Locking::Container => {
                // The place may change until its unit is locked; absence is pinned by the lock of
                // the key.
                let mut pinned = None;
                let mut absent = false;
                loop {
                    match self.find(t, 0, key, hash) {
                        Some(Found::There(rid)) if pinned != Some(rid) => {
                            if let Some(unit) = Self::unit(t, rid)? {
                                self.lock(t, unit, mode, text)?;
                            }
                            pinned = Some(rid);
                        }
                        None if !absent => {
                            self.lock(t, name::key(t.id, 0, hash), mode, text)?;
                            absent = true;
                        }
                        found => return Ok(found),
                    }
                }
            }
        }
    }

    /// Appends the bytes of a found row to the arena. `None` if it went away (tables without
    /// locking only).
    fn fetch(&mut self, t: &TableInner, f: Found) -> Result<Option<Range<usize>>> {
        match f {
            Found::Own(i) => Ok(Some(self.s.writes[i].after.clone())),
            Found::There(rid) => {
                let start = self.s.arena.len();
                let there = self.read_place(t, rid)?;
                Ok(there.map(|_| start..self.s.arena.len()))
            }
        }
    }

    /// Appends what is at a place to the arena.
    #[inline]
    fn read_place(&mut self, t: &TableInner, rid: Rid) -> Result<Option<u64>> {
        t.read(rid, &mut self.s.arena).map_err(|e| self.noticed(t, e))
    }

    fn row(&self, t: &TableInner, r: Range<usize>) -> Row {
        Row { bytes: self.s.arena[r].into(), layout: t.layout.clone() }
    }

    /// Encodes a user's full key of index `ix`; the buffer must be given back to `self.s.key`.
    fn user_key(&mut self, t: &TableInner, ix: usize, key: &[Value<'_>]) -> Result<(Vec<u8>, u64)> {
        let mut k = std::mem::take(&mut self.s.key);
        k.clear();
        t.layout.user_key(key, &t.indexes[ix].def.columns, false, &mut k)?;
        let h = key::hash(&k);
        Ok((k, h))
    }

    /// The row with this primary key.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// let row = tx.get(&t, &[1.into()])?.expect("just inserted");
    /// assert_eq!(row.get("n"), Some(10.into()));
    /// assert!(tx.get(&t, &[2.into()])?.is_none());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`]; [`Error::Value`] or [`Error::Operation`] if the
    /// key does not fit the primary key.
    pub fn get(&mut self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>> {
        self.get_with(table, key, |row| row.to_row())
    }

    /// What `read` makes of the row with this primary key, which is lent to it: no copy is
    /// allocated, as [`Transaction::get`] must.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// assert_eq!(tx.get_with(&t, &[1.into()], |row| row.at(1).as_int())?, Some(Some(10)));
    /// assert_eq!(tx.get_with(&t, &[2.into()], |row| row.at(1).as_int())?, None);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_with<T>(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        read: impl FnOnce(RowView<'_>) -> T,
    ) -> Result<Option<T>> {
        self.goes_on()?;
        documented("Transaction::get_with", || {
            let t = self.table(table)?;
            let (k, h) = self.user_key(t, 0, key)?;
            let found = self.locate(t, &k, h, Mode::Shared);
            self.s.key = k;
            let mut out = None;
            if let Some(f) = found?
                && let Some(r) = self.fetch(t, f)?
            {
                // Without locks the slot may have got another row meanwhile.
                if t.locking != Locking::None || self.has_primary(t, r.clone()) {
                    out = Some(read(RowView { bytes: &self.s.arena[r.clone()], layout: &t.layout }));
                }
                if matches!(f, Found::There(_)) {
                    self.s.arena.truncate(r.start);
                }
            }
            Ok(out)
        })
    }

    /// The rows with these primary keys, in the order of the keys; `None` where there is none: as
    /// [`Transaction::get`] of each, locks included, but faster where the table is larger than the
    /// caches, since their misses overlap ([`crate::Database::get_many`]).
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[7.into()])?;
    /// let rows = tx.get_many(&t, [7i64, 70].map(|id| [Value::Int(id)]))?;
    /// assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_many<'v, K: AsRef<[Value<'v>]>>(
        &mut self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>> {
        let mut rows = Vec::new();
        self.get_many_with(table, keys, |_, row| rows.push(row.map(RowView::to_row)))?;
        Ok(rows)
    }

    /// As [`Transaction::get_many`], but lends each row to `read`: it gets the number of the key,
    /// from 0 on, and the row or `None`, once for each key and in their order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema, Value};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[7.into()])?;
    /// let mut there = Vec::new();
    /// tx.get_many_with(&t, [6i64, 7].map(|id| [Value::Int(id)]), |_, row| there.push(row.is_some()))?;
    /// assert_eq!(there, [false, true]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; `read` may have been given the rows of earlier keys.
    pub fn get_many_with<'v, K: AsRef<[Value<'v>]>>(
        &mut self,
        table: &Table,
        keys: impl IntoIterator<Item = K>,
        mut read: impl FnMut(usize, Option<RowView<'_>>),
    ) -> Result<()> {
        documented("Transaction::get_many_with", || {
            let mut lent = Lent::<Buffers>::take();
            in_batches(keys, |first, some| {
                let t = self.table(table)?;
                // What others change before its lock is taken is looked up again behind that.
                lent.batch.warm(t, some, true);
                for (n, key) in some.iter().enumerate() {
                    let found = self.get_with(table, key.as_ref(), |row| read(first + n, Some(row)))?;
                    if found.is_none() {
                        read(first + n, None);
                    }
                }
                Ok(())
            })
        })
    }

    /// Whether the row has the primary key that was just looked for: that in `self.s.key`.
    fn has_primary(&mut self, t: &TableInner, row: Range<usize>) -> bool {
        let s = &mut *self.s;
        s.old.clear();
        t.layout.row_key(&s.arena[row], &t.indexes[0].def.columns, &mut s.old);
        s.old == s.key
    }

    /// All rows with this key in the named index, in no particular order.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t").column("id", ColumnType::Int64).column("colour", ColumnType::VarText(20))
    ///         .primary_key(&["id"]).hash_index("by_colour", &["colour"]),
    /// )?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), "red".into()])?;
    /// tx.insert(&t, &[2.into(), "blue".into()])?;
    /// tx.insert(&t, &[3.into(), "red".into()])?;
    /// assert_eq!(tx.get_by(&t, "by_colour", &["red".into()])?.len(), 2);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`Error::NoSuchIndex`].
    pub fn get_by(&mut self, table: &Table, index: &str, key: &[Value<'_>]) -> Result<Vec<Row>> {
        self.goes_on()?;
        documented("Transaction::get_by", || {
            let t = self.table(table)?;
            let ix = t.index(index)?;
            if ix == 0 {
                return Ok(self.get(table, key)?.into_iter().collect());
            }
            let (k, h) = self.user_key(t, ix, key)?;
            self.lock_table(t, Mode::IntentShared)?;
            let locking = t.locking != Locking::None && !self.has_whole_table(t);
            if locking {
                self.lock(t, name::key(t.id, ix, h), Mode::Shared, || values_text(key))?;
            }
            let mut rids = Vec::new();
            // Nobody gives or takes this key any more, but a row may move until it is locked.
            loop {
                let mut now = Vec::new();
                t.indexes[ix].find_all(&k, h, &mut now);
                now.retain(|r| self.s.writes.by_rid(t.id, *r).is_none());
                if !locking || now == rids {
                    rids = now;
                    break;
                }
                for &rid in &now {
                    let n = match Self::unit(t, rid)? {
                        Some(n) => n,
                        None => {
                            let start = self.s.arena.len();
                            if self.read_place(t, rid)?.is_none() {
                                continue;
                            }
                            let mut pk = Vec::new();
                            t.layout.row_key(&self.s.arena[start..], &t.indexes[0].def.columns, &mut pk);
                            self.s.arena.truncate(start);
                            name::key(t.id, 0, key::hash(&pk))
                        }
                    };
                    self.lock(t, n, Mode::Shared, || values_text(key))?;
                }
                rids = now;
            }
            let mut rows = Vec::new();
            for rid in rids {
                let start = self.s.arena.len();
                if self.read_place(t, rid)?.is_some() {
                    let mut again = Vec::new();
                    t.layout.row_key(&self.s.arena[start..], &t.indexes[ix].def.columns, &mut again);
                    if again == k {
                        rows.push(self.row(t, start..self.s.arena.len()));
                    }
                }
                self.s.arena.truncate(start);
            }
            self.require_same(t)?;
            for i in self.s.writes.all_by_key(t, ix, &k, h, &self.s.arena) {
                rows.push(self.row(t, self.s.writes[i].after.clone()));
            }
            self.s.key = k;
            Ok(rows)
        })
    }

    /// Adds a row.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// use mmdb::Error;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// let twice = tx.insert(&t, &[1.into(), 11.into()]);
    /// assert!(matches!(twice, Err(Error::DuplicateKey { constraint, .. }) if constraint == "primary"));
    /// tx.insert(&t, &[2.into(), 20.into()])?;                    // the transaction goes on
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] names the constraint; [`Error::Value`] the column;
    /// [`Error::Operation`] if there are not as many values as columns; [`Error::RowTooLarge`];
    /// [`Error::MemoryLimit`], [`Error::OutOfMemory`], [`Error::TableFull`];
    /// [`Error::TransactionTooLarge`], told by the first change that is too much;
    /// [`Error::NoSuchTable`] and [`Error::TableChanged`] of the handle; [`Error::Deadlock`],
    /// [`Error::LockTimeout`] and, if the table's definition has changed, [`Error::Conflict`]. The
    /// transaction goes on after all but the last three, after which every call,
    /// [`Transaction::commit`] too, returns them again.
    pub fn insert(&mut self, table: &Table, values: &[Value<'_>]) -> Result<()> {
        self.goes_on()?;
        documented("Transaction::insert", || {
            let t = self.table(table)?;
            self.index_writes();
            self.forget_replaced();
            self.charge(false)?;
            self.forget_refused(|tx| {
                let start = tx.s.arena.len();
                t.encode_row(values, table.0.schema.columns.len(), &mut tx.s.arena)?;
                let row = start..tx.s.arena.len();
                let (found, h) = tx.locate_row(t, row.clone())?;
                if found.is_some() {
                    return Err(tx.duplicate(t, 0, row));
                }
                tx.insert_new(t, row, h, false)
            })
        })
    }

    /// Does what brings rows, and forgets them if it is refused: who goes on after many refusals
    /// must not hold what all of them brought.
    #[inline]
    fn forget_refused<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.s.arena.len();
        let done = f(self);
        if done.is_err() {
            self.s.arena.truncate(before);
        }
        done
    }

    /// Locks the primary key of the row and looks for who has it. And the key's hash.
    fn locate_row(&mut self, t: &TableInner, row: Range<usize>) -> Result<(Option<Found>, u64)> {
        let mut k = std::mem::take(&mut self.s.key);
        k.clear();
        t.layout.row_key(&self.s.arena[row], &t.indexes[0].def.columns, &mut k);
        let h = key::hash(&k);
        let found = self.locate(t, &k, h, Mode::Exclusive);
        self.s.key = k;
        Ok((found?, h))
    }

    /// Adds a row whose primary key is locked and nobody's; one that `replaces` would have replaced
    /// the row there.
    fn insert_new(&mut self, t: &TableInner, row: Range<usize>, hash: u64, replaces: bool) -> Result<()> {
        let class = self.class(t, row.len())?;
        // It is the primary key for which the row was looked for.
        let k = std::mem::take(&mut self.s.key);
        let claimed = self.claim(t, 0, &k, hash);
        self.s.key = k;
        claimed?;
        self.claim_keys(t, row.clone(), None, None, false)?;
        let placed = self.allocate(t, class).and_then(|rid| self.find_room_at(t, row.clone(), class, rid));
        let rid = match placed {
            Err(e @ Error::MemoryLimit { .. }) => {
                let Some(i) = self.deleted_here(t, row.clone(), hash, class) else { return Err(e) };
                return self.bring_back(t, i, row);
            }
            placed => placed?,
        };
        let change = Change::Insert;
        let w = Write { table: t.id, rid, class, change, hash, after: row, fresh: true, replaces };
        if let Err(e) = self.admit(t, &[&w], None) {
            self.give_back(t, class, rid);
            return Err(e);
        }
        self.promised += t.entry_bytes(1);
        self.s.with_rows(|writes, rows| writes.push(t, w, rows));
        Ok(())
    }

    /// The write that deletes the committed row with the primary key of `row`, where that leaves a
    /// slot in which `row` has room.
    #[cold]
    fn deleted_here(&self, t: &TableInner, row: Range<usize>, hash: u64, class: u8) -> Option<usize> {
        let mut k = Vec::new();
        t.layout.row_key(&self.s.arena[row], &t.indexes[0].def.columns, &mut k);
        let rid = t.indexes[0].find(&k, hash)?;
        let i = self.s.writes.by_rid(t.id, rid)?;
        let w = &self.s.writes[i];
        (w.change == Change::Delete && w.hash == hash && class <= w.class).then_some(i)
    }

    /// Makes the delete number `i` a change to `row`, which has the same primary key and whose
    /// other keys are claimed. So who deletes a row and inserts it again needs no second place for
    /// it at the memory limit, before the first is free.
    fn bring_back(&mut self, t: &TableInner, i: usize, row: Range<usize>) -> Result<()> {
        self.find_room(t, row.clone())?;
        let w = Write { change: Change::Update, after: row.clone(), ..self.s.writes[i].clone() };
        self.admit(t, &[&w], Some(i))?;
        self.s.with_rows(|writes, rows| writes.bring_back(t, i, row, rows));
        Ok(())
    }

    /// Forgets contents of rows that others have taken the place of: who changes a row again and
    /// again must not hold all that it ever was. Not where a cursor changes its row: it knows
    /// places in the arena.
    #[inline]
    fn forget_replaced(&mut self) {
        if self.s.is_crowded() {
            self.compact();
        }
    }

    #[cold]
    fn compact(&mut self) {
        self.s.compact();
        let bytes = self.s.bytes() + self.promised;
        if bytes < self.charged {
            self.db.space.budget.add(bytes as i64 - self.charged as i64);
            self.charged = bytes;
        }
    }

    /// Counts the memory of a large transaction; refused if that is too much, unless it `must` be.
    #[inline]
    fn charge(&mut self, must: bool) -> Result<()> {
        let bytes = self.s.bytes() + self.promised;
        if bytes < self.charged + SMALL { Ok(()) } else { self.charge_for(bytes, must) }
    }

    #[cold]
    fn charge_for(&mut self, bytes: u64, must: bool) -> Result<()> {
        let space = &self.db.space;
        // Buffers double; the next row may be the one.
        let arena = &self.s.arena;
        let next = if arena.capacity() - arena.len() < SMALL as usize { arena.capacity() as u64 } else { 0 };
        if !must && space.lacks(bytes - self.charged + next) {
            return Err(self.memory_limit());
        }
        space.budget.add((bytes - self.charged) as i64);
        self.charged = bytes;
        Ok(())
    }

    fn memory_limit(&self) -> Error {
        let space = &self.db.space;
        Error::MemoryLimit { table: None, bytes: space.bytes(), limit: space.limit }
    }

    /// Bytes that the keys of a row would take now in all indexes.
    fn need(&self, t: &TableInner, row: Range<usize>) -> u64 {
        let mut k = Vec::new();
        let mut need = 0;
        for index in &t.indexes {
            k.clear();
            t.layout.row_key(&self.s.arena[row.clone()], &index.def.columns, &mut k);
            need += index.need(&k, key::hash(&k));
        }
        need
    }

    /// Near the limit: whether the indexes can take the keys of a row that replaces another one. It
    /// may have some of them already; then they need no room.
    fn find_room(&self, t: &TableInner, row: Range<usize>) -> Result<()> {
        if !self.db.space.is_tight() {
            return Ok(());
        }
        let need = self.need(t, row);
        if need > 0 && self.db.space.lacks(need) { Err(t.full()) } else { Ok(()) }
    }

    /// Near the limit: whether the indexes can take the keys of a row that is to go to the free
    /// slot `rid`, or to the one that is returned instead; if not, the slot is given back. What
    /// [`crate::table::Space::reserve`] keeps is for rows in the places of deleted ones.
    fn find_room_at(&mut self, t: &TableInner, row: Range<usize>, class: u8, rid: Rid) -> Result<Rid> {
        let space = &self.db.space;
        if !space.is_tight() {
            return Ok(rid);
        }
        let need = self.need(t, row);
        let reserve = if t.was_used(rid) { 0 } else { space.reserve() };
        if need == 0 || !space.lacks(need.saturating_add(reserve)) {
            return Ok(rid);
        }
        let may_reuse = reserve > 0 && !space.lacks(need);
        // After a fill or a drop there is nothing to give back: this slot, too, was of the table's
        // earlier life.
        let gate = self.slots_gate(t)?;
        let instead = if may_reuse { t.allocate_used(class) } else { None };
        drop(gate);
        self.give_back(t, class, rid);
        instead.map_or_else(|| Err(t.full()), |rid| self.lock_slot(t, class, rid))
    }

    fn duplicate(&self, t: &TableInner, ix: usize, row: Range<usize>) -> Error {
        let def = &t.indexes[ix].def;
        Error::DuplicateKey {
            table: t.schema.name.clone(),
            constraint: def.name.clone(),
            key: t.layout.key_text(&self.s.arena[row], &def.columns),
        }
    }

    fn class(&self, t: &TableInner, len: usize) -> Result<u8> {
        class_of(len, self.db.space.container_size).ok_or_else(|| t.row_too_large(len))
    }

    /// A fresh slot under a locked unit.
    fn allocate(&mut self, t: &TableInner, class: u8) -> Result<Rid> {
        let gate = self.slots_gate(t)?;
        let rid = t.allocate(class, self.stripe, 0)?;
        drop(gate);
        self.lock_slot(t, class, rid)
    }

    /// The gate of the engine, for slots of a table that no lock keeps from fills and drops;
    /// nothing where one does.
    ///
    /// # Errors
    /// The table was filled or dropped since this transaction first used it.
    #[inline]
    fn slots_gate(&mut self, t: &TableInner) -> Result<Option<RwLockReadGuard<'db, Tables>>> {
        let alone = t.logging == Logging::Volatile || t.locking == Locking::None;
        let gate = (alone && !self.db.options.reference).then(|| self.db.enter(self.stripe));
        if gate.is_some() && !self.is_same(t) {
            return Err(self.outdated(t));
        }
        Ok(gate)
    }

    /// Locks the unit of a free slot that this transaction has taken, or gives the slot back.
    #[inline]
    fn lock_slot(&mut self, t: &TableInner, class: u8, rid: Rid) -> Result<Rid> {
        let locked = match Self::unit(t, rid) {
            Ok(Some(unit)) => self.lock(t, unit, Mode::Exclusive, || "(free slot)".into()).map(|_| ()),
            Ok(None) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = locked {
            self.give_back(t, class, rid);
            return Err(e);
        }
        Ok(rid)
    }

    /// Locks the secondary keys of a row that appears, changes (`old` to `new`) or goes, and checks
    /// unique ones. `committed` is the place that holds the row already. A row that `moves` is in
    /// no index for a moment while the commit is applied: who reads by any of its keys must wait
    /// until it is back.
    fn claim_keys(
        &mut self,
        t: &TableInner,
        new: Range<usize>,
        old: Option<Range<usize>>,
        committed: Option<Rid>,
        moves: bool,
    ) -> Result<()> {
        if !t.claims_keys {
            return Ok(());
        }
        let from = if moves { 0 } else { 1 };
        for ix in from..t.indexes.len() {
            let def = &t.indexes[ix].def;
            let mut k = std::mem::take(&mut self.s.key);
            k.clear();
            t.layout.row_key(&self.s.arena[new.clone()], &def.columns, &mut k);
            let h = key::hash(&k);
            let mut before = std::mem::take(&mut self.s.old);
            before.clear();
            let mut same = false;
            if let Some(old) = &old {
                t.layout.row_key(&self.s.arena[old.clone()], &def.columns, &mut before);
                same = before == k;
            }
            let old_hash = key::hash(&before);
            self.s.old = before;
            let mut done = Ok(());
            if !same || moves {
                // Writers of one non-unique key do not exclude each other, only its readers.
                let mode = if def.unique { Mode::Exclusive } else { Mode::IntentExclusive };
                if t.locking != Locking::None {
                    if old.is_some() {
                        let lock = name::key(t.id, ix, old_hash);
                        done = self.lock(t, lock, mode, || "(old key)".into()).map(|_| ());
                    }
                    if done.is_ok() {
                        done = self.lock(t, name::key(t.id, ix, h), mode, || "(new key)".into()).map(|_| ());
                    }
                    if done.is_ok() {
                        done = self.claim(t, ix, &k, h);
                    }
                }
                if done.is_ok()
                    && def.unique
                    && !same
                    && !has_defect!(self.db.options.defect(), NoUniqueCheck)
                {
                    match self.find(t, ix, &k, h) {
                        Some(Found::There(rid)) if Some(rid) == committed => {}
                        // Came, moved or went while this looked: what that means is told by the
                        // commit.
                        Some(Found::There(rid))
                            if t.locking == Locking::None
                                && !self.is_anothers(t, ix, rid, new.clone())? => {}
                        Some(_) => done = Err(self.duplicate(t, ix, new.clone())),
                        None => {}
                    }
                }
            }
            self.s.key = k;
            done?;
        }
        Ok(())
    }

    /// Whether the row at `rid` is another one than `row`, by its primary key, and has the same key
    /// in index `ix`. Without locks an index may lead to a place from which the row has just gone.
    fn is_anothers(&self, t: &TableInner, ix: usize, rid: Rid, row: Range<usize>) -> Result<bool> {
        let mut there = Vec::new();
        match t.read(rid, &mut there) {
            Ok(Some(_)) => {}
            // In columns of another definition: the commit tells that, too.
            Ok(None) | Err(Error::Conflict { .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
        let same = |ix: usize| {
            let (mut its, mut mine) = (Vec::new(), Vec::new());
            let columns = &t.indexes[ix].def.columns;
            t.layout.row_key(&there, columns, &mut its);
            t.layout.row_key(&self.s.arena[row.clone()], columns, &mut mine);
            its == mine
        };
        Ok(!same(0) && same(ix))
    }

    /// Changes some columns of the row with this primary key. False if there is no such row.
    /// Columns of the primary key cannot be changed; delete and insert instead.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// assert!(tx.update(&t, &[1.into()], &[("n", 11.into())])?);
    /// assert!(!tx.update(&t, &[2.into()], &[("n", 11.into())])?, "there is no row 2");
    /// assert_eq!(tx.get(&t, &[1.into()])?.map(|r| r.at(1) == 11.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`], and [`Error::NoSuchColumn`].
    pub fn update(&mut self, table: &Table, key: &[Value<'_>], set: &[(&str, Value<'_>)]) -> Result<bool> {
        self.goes_on()?;
        documented("Transaction::update", || {
            let mut columns = [(0usize, Value::Null); 16];
            let mut many = Vec::new();
            for (i, (c, v)) in set.iter().enumerate() {
                let col = table.column(c)?;
                match columns.get_mut(i) {
                    Some(place) => *place = (col, *v),
                    None => many.push((col, *v)),
                }
            }
            if many.is_empty() {
                return self.update_at(table, key, &columns[..set.len()]);
            }
            many.splice(0..0, columns);
            self.update_at(table, key, &many)
        })
    }

    /// As [`Transaction::update`], with the columns' positions in place of their names.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// assert!(tx.update_at(&t, &[1.into()], &[(1, 11.into())])?);
    /// assert_eq!(tx.get(&t, &[1.into()])?.map(|r| r.at(1) == 11.into()), Some(true));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::update`]; [`Error::NoSuchColumn`] for a position that no column has.
    pub fn update_at(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        set: &[(usize, Value<'_>)],
    ) -> Result<bool> {
        self.goes_on()?;
        documented("Transaction::update_at", || {
            let t = self.table(table)?;
            Self::may_be_set(t, set)?;
            self.index_writes();
            self.forget_replaced();
            self.charge(false)?;
            let (k, h) = self.user_key(t, 0, key)?;
            let done = self.update_row(t, (&k, h), set);
            self.s.key = k;
            done
        })
    }

    /// Whether an update may set these columns.
    fn may_be_set(t: &TableInner, set: &[(usize, Value<'_>)]) -> Result<()> {
        for (col, _) in set {
            let Some(column) = t.schema.columns.get(*col) else {
                return Err(Error::NoSuchColumn {
                    table: t.schema.name.clone(),
                    column: format!("number {col}"),
                });
            };
            if t.indexes[0].def.columns.contains(col) {
                return Err(Error::Operation {
                    table: t.schema.name.clone(),
                    operation: "update a column of the primary key",
                    reason: format!("{} is one; delete the row and insert another", column.name),
                });
            }
        }
        Ok(())
    }

    /// Changes columns of the row with the primary key `k`, whose hash is `h`. False if there is
    /// none.
    fn update_row(&mut self, t: &TableInner, key: (&[u8], u64), set: &[(usize, Value<'_>)]) -> Result<bool> {
        self.forget_refused(|tx| tx.update_found(t, key, set))
    }

    fn update_found(
        &mut self,
        t: &TableInner,
        (k, h): (&[u8], u64),
        set: &[(usize, Value<'_>)],
    ) -> Result<bool> {
        let Some(found) = self.locate(t, k, h, Mode::Exclusive)? else { return Ok(false) };
        let Some(old) = self.fetch(t, found)? else { return Ok(false) };
        let start = self.s.arena.len();
        if !t.layout.patch(set, old.clone(), &mut self.s.arena)? {
            let row = self.s.arena[old.clone()].to_vec();
            let mut values: Vec<Value<'_>> =
                (0..t.schema.columns.len()).map(|c| t.layout.get(&row, c)).collect();
            for (col, v) in set {
                values[*col] = *v;
            }
            t.layout.encode(&values, &mut self.s.arena)?;
        }
        let new = start..self.s.arena.len();
        self.replace(t, found, h, Some(old), new)?;
        Ok(true)
    }

    /// Gives a located row a new content with the same primary key, whose hash is `hash`. `old`,
    /// its content, is asked for where keys are claimed.
    fn replace(
        &mut self,
        t: &TableInner,
        found: Found,
        hash: u64,
        old: Option<Range<usize>>,
        new: Range<usize>,
    ) -> Result<()> {
        let class = self.class(t, new.len())?;
        let committed = match found {
            Found::There(rid) => Some(rid),
            Found::Own(i) => (!self.s.writes[i].fresh).then(|| self.s.writes[i].rid),
        };
        let rid = match found {
            Found::There(rid) => rid,
            Found::Own(i) => self.s.writes[i].rid,
        };
        let have = t.container(rid)?.class;
        let fits = class <= have;
        self.claim_keys(t, new.clone(), old, committed, !fits)?;
        self.find_room(t, new.clone())?;
        match found {
            Found::There(rid) if fits => {
                let change = Change::Update;
                let (fresh, replaces) = (false, true);
                let w = Write { table: t.id, rid, class: have, change, hash, after: new, fresh, replaces };
                self.admit(t, &[&w], None)?;
                self.s.with_rows(|writes, rows| writes.push(t, w, rows));
            }
            Found::Own(i) if fits => {
                let w = Write { after: new.clone(), ..self.s.writes[i].clone() };
                self.admit(t, &[&w], Some(i))?;
                self.s.with_rows(|writes, rows| writes.set_after(t, i, new, rows));
            }
            _ => {
                // The row moves to a larger slot: it goes here and appears there.
                let to = self.allocate(t, class)?;
                let change = Change::Insert;
                let (table, after) = (t.id, new.clone());
                // What this transaction inserted must still be nobody else's.
                let replaces = match found {
                    Found::Own(i) => self.s.writes[i].replaces,
                    Found::There(_) => true,
                };
                let comes = Write { table, rid: to, class, change, hash, after, fresh: true, replaces };
                let (change, fresh) = (Change::Delete, false);
                let goes = Write { table, rid, class: have, change, hash, after: 0..0, fresh, replaces };
                let admitted = match found {
                    Found::Own(i) if self.s.writes[i].fresh => self.admit(t, &[&comes], Some(i)),
                    Found::Own(i) => self.admit(t, &[&comes, &goes], Some(i)),
                    Found::There(_) => self.admit(t, &[&comes, &goes], None),
                };
                if let Err(e) = admitted {
                    self.give_back(t, class, to);
                    return Err(e);
                }
                match found {
                    Found::Own(i) if self.s.writes[i].fresh => {
                        self.s.with_rows(|writes, rows| writes.kill(t, i, rows));
                    }
                    Found::Own(i) => self.s.with_rows(|writes, rows| writes.make_delete(t, i, rows)),
                    Found::There(_) => self.s.with_rows(|writes, rows| writes.push(t, goes, rows)),
                }
                self.s.with_rows(|writes, rows| writes.push(t, comes, rows));
            }
        }
        Ok(())
    }

    /// Inserts the row, or replaces the one with the same primary key. True if there was one.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// assert!(!tx.upsert(&t, &[1.into(), 10.into()])?, "it was not there");
    /// assert!(tx.upsert(&t, &[1.into(), 11.into()])?, "it was there");
    /// assert_eq!(tx.scan(&t)?.count(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::insert`]; never [`Error::DuplicateKey`] of the primary key.
    pub fn upsert(&mut self, table: &Table, values: &[Value<'_>]) -> Result<bool> {
        self.goes_on()?;
        documented("Transaction::upsert", || {
            let t = self.table(table)?;
            self.index_writes();
            self.forget_replaced();
            self.charge(false)?;
            self.forget_refused(|tx| {
                let start = tx.s.arena.len();
                t.encode_row(values, table.0.schema.columns.len(), &mut tx.s.arena)?;
                let new = start..tx.s.arena.len();
                let (found, h) = tx.locate_row(t, new.clone())?;
                let Some(found) = found else {
                    tx.insert_new(t, new, h, true)?;
                    return Ok(false);
                };
                let old = if t.claims_keys { tx.fetch(t, found)? } else { None };
                tx.replace(t, found, h, old, new)?;
                Ok(true)
            })
        })
    }

    /// Removes the row with this primary key. False if there is none.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// assert!(tx.delete(&t, &[1.into()])?);
    /// assert!(!tx.delete(&t, &[1.into()])?, "it is gone");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::TransactionTooLarge`]; [`Error::CorruptTable`] of a blob
    /// that goes with the row.
    pub fn delete(&mut self, table: &Table, key: &[Value<'_>]) -> Result<bool> {
        self.goes_on()?;
        documented("Transaction::delete", || {
            let t = self.table(table)?;
            self.index_writes();
            // Who wants to get below the limit must be able to.
            self.charge(true)?;
            let (k, h) = self.user_key(t, 0, key)?;
            let done = self.delete_row(t, (&k, h), || values_text(key));
            self.s.key = k;
            done
        })
    }

    /// Removes the row with the primary key `key`, whose hash is `h`. False if there is none.
    fn delete_row(
        &mut self,
        t: &TableInner,
        (key, h): (&[u8], u64),
        what: impl Fn() -> String,
    ) -> Result<bool> {
        let is_gone = self.delete_row_alone(t, (key, h), what)?;
        if is_gone && !t.blobs.read().is_empty() {
            self.delete_blobs(t, key)?;
        }
        Ok(is_gone)
    }

    fn delete_row_alone(
        &mut self,
        t: &TableInner,
        (key, h): (&[u8], u64),
        what: impl Fn() -> String,
    ) -> Result<bool> {
        let Some(found) = self.locate(t, key, h, Mode::Exclusive)? else { return Ok(false) };
        if t.indexes.len() > 1 && t.locking != Locking::None {
            let Some(old) = self.fetch(t, found)? else { return Ok(false) };
            for ix in 1..t.indexes.len() {
                let def = &t.indexes[ix].def;
                let mut k = std::mem::take(&mut self.s.key);
                k.clear();
                t.layout.row_key(&self.s.arena[old.clone()], &def.columns, &mut k);
                let mode = if def.unique { Mode::Exclusive } else { Mode::IntentExclusive };
                let locked = self.lock(t, name::key(t.id, ix, key::hash(&k)), mode, &what);
                self.s.key = k;
                locked?;
            }
            // It was read for its keys alone: who deletes all rows must not hold all of them.
            if matches!(found, Found::There(_)) {
                self.s.arena.truncate(old.start);
            }
        }
        match found {
            Found::Own(i) if self.s.writes[i].fresh => {
                self.s.with_rows(|writes, rows| writes.kill(t, i, rows))
            }
            Found::Own(i) => {
                let w = Write { change: Change::Delete, after: 0..0, ..self.s.writes[i].clone() };
                self.admit(t, &[&w], Some(i))?;
                self.s.with_rows(|writes, rows| writes.make_delete(t, i, rows));
            }
            Found::There(rid) => {
                let class = t.container(rid)?.class;
                let change = Change::Delete;
                let (after, fresh, replaces) = (0..0, false, true);
                let w = Write { table: t.id, rid, class, change, hash: h, after, fresh, replaces };
                self.admit(t, &[&w], None)?;
                self.s.with_rows(|writes, rows| writes.push(t, w, rows));
            }
        }
        Ok(true)
    }
}
