//! Ranges: what a transaction reads in the order of an index, and locks so that it stays as it was.
//!
//! A range is locked as far as its cursor has come. Before entries are taken from the index their
//! interval is listed (`lock/ranges.rs`), so that no key comes into it any more; each row is locked
//! when it is given out, and looked at again once it is.

use super::range_read::{Claim, RangeRead};
use super::row_lock::RowLock;
use super::{Cursor, Transaction};
use crate::container::Rid;
use crate::documented::documented;
use crate::engine::name;
use crate::error::Result;
use crate::key::{self, KeyBuf};
use crate::lock::{Bounds, Grant, Mode, RangeLocks};
use crate::sabotage::has_defect;
use crate::schema::{IndexKind, Locking};
use crate::table::{Table, TableInner};
use crate::tables::Tables;
use crate::value::Value;
use std::ops::{Bound, RangeBounds};

impl<'db> Transaction<'db> {
    /// Lists a key of index `ix` that this transaction brings, and waits for those who have read an
    /// interval with it. Its lock is held.
    pub(super) fn claim(&mut self, t: &TableInner, ix: usize, key: &[u8], hash: u64) -> Result<()> {
        let Some(ranges) = t.indexes[ix].ranges.as_ref().filter(|_| t.locking != Locking::None) else {
            return Ok(());
        };
        if has_defect!(self.db.options.defect(), NoRangeClaims) {
            return Ok(());
        }
        let key = KeyBuf::new(key);
        let mine = self.s.reads.iter().find(|r| r.table == t.id && r.index == ix).map(|r| r.reader);
        let mut readers = Vec::new();
        if !ranges.claim(&key, hash, self.age, mine, &mut readers) {
            return Ok(());
        }
        let name = &t.indexes[ix].def.name;
        let what = |key: &KeyBuf| format!("(a range of {name} with {})", t.shown_key(ix, key.as_slice()));
        let mut settled = Ok(());
        for reader in readers {
            let lock = name::reader(t.id, ix, reader);
            settled = self.lock(t, lock, Mode::IntentExclusive, || what(&key)).map(|_| ());
            if settled.is_err() {
                break;
            }
        }
        self.s.claims.push(Claim { table: t.id, index: ix, hash, key });
        settled
    }

    /// Lists an interval of index `ix` that this transaction reads: `whole`, of which `fresh` is
    /// new. Waits for those who are about to bring keys into it.
    fn cover(&mut self, t: &TableInner, ix: usize, whole: &Bounds, fresh: &Bounds) -> Result<()> {
        let Some(ranges) = &t.indexes[ix].ranges else { return Ok(()) };
        let what = || format!("(a range of {})", t.indexes[ix].def.name);
        let at = match self.s.reads.iter().position(|r| r.table == t.id && r.index == ix) {
            Some(at) => at,
            None => {
                let reader = ranges.reader();
                self.lock(t, name::reader(t.id, ix, reader), Mode::Shared, what)?;
                self.s.reads.push(RangeRead { table: t.id, index: ix, reader, locks: 0 });
                self.s.reads.len() - 1
            }
        };
        let mut keys = Vec::new();
        let read = &mut self.s.reads[at];
        if ranges.cover(read.reader, self.age, whole, fresh, &mut keys) {
            read.locks += 1;
        }
        for key in keys {
            let lock = name::key(t.id, ix, key::hash(key.as_slice()));
            self.lock(t, lock, Mode::Shared, what)?;
        }
        Ok(())
    }

    /// Whether rows have to be locked in this mode: the table has locks, and is not locked whole.
    #[inline]
    pub(super) fn locks_rows(&self, t: &TableInner, mode: Mode) -> bool {
        let whole = |held: Mode| held == Mode::Exclusive || (mode == Mode::Shared && held.is_whole());
        t.locking != Locking::None && !self.s.intents.iter().any(|i| i.0 == t.id && whole(i.1))
    }

    /// How many more locks may be taken for ranges of the table; `None` if its rows need none: they
    /// are locked all together, by now at the latest, or not at all.
    pub(super) fn range_locks_left(&mut self, t: &TableInner, mode: Mode) -> Result<Option<usize>> {
        if !self.locks_rows(t, mode) {
            return Ok(None);
        }
        let taken = self.s.reads.iter().filter(|read| read.table == t.id).map(|read| read.locks);
        let left = self.db.options.range_locks.saturating_sub(taken.sum());
        self.lock_table(t, if left > 0 { mode.intent() } else { mode })?;
        Ok((left > 0).then_some(left))
    }

    /// How many more locks may be taken for a cursor's range, as
    /// [`Transaction::range_locks_left`] says; one that skips locked rows locks no range, and never
    /// the table.
    pub(super) fn cursor_locks_left(&mut self, t: &TableInner, lock: RowLock) -> Result<Option<usize>> {
        if lock.skip_locked && self.locks_rows(t, lock.mode) {
            return self.lock_table(t, lock.mode.intent()).map(|()| None);
        }
        self.range_locks_left(t, lock.mode)
    }

    /// Lists the part of a range up to the entry `last`, or to its end, before it is taken from the
    /// index: the part within `rest` of a cursor that is to read all of `bounds`. Returns what of
    /// the index to take.
    pub(super) fn cover_upto(
        &mut self,
        t: &TableInner,
        ix: usize,
        (bounds, rest): (&Bounds, &Bounds),
        last: Option<&KeyBuf>,
        reverse: bool,
    ) -> Result<Bounds> {
        let defect = self.db.options.defect();
        let upto = |bounds: &Bounds, end: Bound<KeyBuf>| {
            if reverse { (end, bounds.1.clone()) } else { (bounds.0.clone(), end) }
        };
        let (mut whole, mut fresh, part) = match last {
            None if has_defect!(defect, RangeEndsAtRow) => return Ok(rest.clone()),
            None => (bounds.clone(), rest.clone(), rest.clone()),
            Some(last) => {
                // All entries of the last one's key, whatever their places.
                let key = Bound::Included(KeyBuf::new(t.indexes[ix].key_of(last)));
                let entry = Bound::Included(last.clone());
                (upto(bounds, key.clone()), upto(rest, key), upto(rest, entry))
            }
        };
        if has_defect!(defect, RangeOfOneKey) {
            let end = if reverse { fresh.0 } else { fresh.1 };
            fresh = (end.clone(), end);
            whole = fresh.clone();
        }
        self.cover(t, ix, &whole, &fresh)?;
        Ok(part)
    }

    /// Locks the row that an entry of index `ix` leads to, and puts it into `row`. False if there
    /// is none any more with the entry's key: then whoever took it away is committed; or if its
    /// lock is somebody else's and such rows are skipped.
    pub(super) fn read_entry(
        &mut self,
        t: &TableInner,
        ix: usize,
        (entry, rid): (&KeyBuf, Rid),
        lock: RowLock,
        row: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut k = std::mem::take(&mut self.s.old);
        let found = self.lock_entry(t, ix, (t.indexes[ix].key_of(entry), rid), lock, (row, &mut k));
        self.s.old = k;
        found
    }

    /// As [`Transaction::read_entry`], for the key of an entry; `k` is a buffer.
    fn lock_entry(
        &mut self,
        t: &TableInner,
        ix: usize,
        (key, rid): (&[u8], Rid),
        RowLock { mode, skip_locked }: RowLock,
        (row, k): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<bool> {
        let of_primary = |row: &[u8], k: &mut Vec<u8>| {
            k.clear();
            t.layout.row_key(row, &t.indexes[0].def.columns, k);
            name::key(t.id, 0, key::hash(k))
        };
        loop {
            let unit = Self::unit(t, rid)?;
            let lock = match unit {
                Some(unit) => unit,
                None if ix == 0 => name::key(t.id, 0, key::hash(key)),
                // The row's lock is that of its primary key, which only the row knows.
                None if !has_key(t, ix, (key, rid), (&mut *row, &mut *k))? => return Ok(false),
                None => of_primary(row, k),
            };
            let what = || format!("(a row of a range of {})", t.indexes[ix].def.name);
            if skip_locked {
                let Some(grant) = self.lock_free(t, lock, mode, what)? else { return Ok(false) };
                // While it was looked for the row may have gone: who brings it again need not wait.
                if !has_key(t, ix, (key, rid), (&mut *row, &mut *k))? {
                    if grant == Grant::New && self.s.locks.pop() == Some(lock) {
                        self.db.locks.release(lock, self.age);
                    }
                    return Ok(false);
                }
            } else if !has_defect!(self.db.options.defect(), NoRangeRowLocks)
                && self.lock(t, lock, mode, what)? == Grant::New
            {
                self.count_range_lock(t, ix);
            }
            // While this waited the row may have gone, and another one may have taken its place.
            if !has_key(t, ix, (key, rid), (&mut *row, &mut *k))? {
                return Ok(false);
            }
            if unit.is_some() || ix == 0 || of_primary(row, k) == lock {
                return Ok(true);
            }
        }
    }

    fn count_range_lock(&mut self, t: &TableInner, ix: usize) {
        if let Some(read) = self.s.reads.iter_mut().find(|read| read.table == t.id && read.index == ix) {
            read.locks += 1;
        }
    }

    /// Takes everything off the lists, before the locks are given back that it goes with.
    pub(super) fn forget_ranges(&mut self, tables: &Tables) {
        for claim in self.s.claims.drain(..) {
            let ranges = ranges_of(tables, claim.table, claim.index);
            if let Some(ranges) = ranges {
                ranges.unclaim(claim.key, claim.hash, self.age);
            }
        }
        for read in self.s.reads.drain(..) {
            let ranges = ranges_of(tables, read.table, read.index);
            if let Some(ranges) = ranges {
                ranges.uncover(read.reader);
            }
        }
    }

    /// Rows in order of the named ordered index, within bounds on its leading columns. A bound may
    /// give fewer columns than the index has: `[5]..=[5]` is every row whose first column is 5.
    ///
    /// What has been read is locked until the transaction ends, and no more: the rows, and the
    /// interval of keys from the bound where the cursor began to the row where it is, or to the
    /// other bound if it has come to the end. So others may change rows behind it and insert there,
    /// and neither in what was read. A cursor looks a few rows ahead, 4, 16 and then 64, or as many
    /// as [`Cursor::prefetch`] says; the interval reaches as far. Beyond
    /// [`crate::Options::range_locks`] the table is locked whole.
    ///
    /// ```
    /// use mmdb::{ColumnType, Database, Schema, Value};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// let mut tx = db.begin()?;
    /// (0..10).try_for_each(|i| tx.insert(&t, &[i.into()]))?;
    /// let some: Vec<_> = tx.range(&t, "primary", [Value::Int(3)]..[Value::Int(6)])?.collect::<Result<_, _>>()?;
    /// assert_eq!(some.iter().map(|r| r.at(0)).collect::<Vec<_>>(), [3.into(), 4.into(), 5.into()]);
    /// // Without bounds nothing tells the type of a key.
    /// assert_eq!(tx.range::<[Value<'_>; 0]>(&t, "primary", ..)?.count(), 10);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::NoSuchIndex`]; [`crate::Error::Operation`] for a hash index;
    /// [`crate::Error::Value`] for a bound that does not fit. The cursor:
    /// [`crate::Error::Deadlock`] and [`crate::Error::LockTimeout`].
    pub fn range<'v, K: AsRef<[Value<'v>]>>(
        &mut self,
        table: &Table,
        index: &str,
        bounds: impl RangeBounds<K>,
    ) -> Result<Cursor<'_, 'db>> {
        self.goes_on()?;
        documented("Transaction::range", || {
            let t = self.table(table)?;
            let ix = t.index(index)?;
            let Some((lower, upper)) = t.bounds(ix, &bounds, &mut self.s.key)? else {
                return Ok(Cursor::empty(self, t));
            };
            Cursor::ordered(self, t, ix, (lower, upper))
        })
    }

    /// Removes the rows of a range, with the bounds of [`Transaction::range`], and returns how many.
    /// The range is locked as one that was read to its end, and the rows as for a change: until the
    /// transaction ends nobody puts a row there.
    ///
    /// ```
    /// use mmdb::{ColumnType, Database, Schema, Value};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let gone = db.run(|tx| tx.delete_range(&t, "primary", [Value::Int(3)]..[Value::Int(6)]))?;
    /// assert_eq!((gone, db.begin()?.scan(&t)?.count()), (3, 7));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::range`] and [`Transaction::delete`]. After
    /// [`crate::Error::TransactionTooLarge`] the first rows of the range are removed: the
    /// transaction can commit that, and another one do the rest.
    pub fn delete_range<'v, K: AsRef<[Value<'v>]>>(
        &mut self,
        table: &Table,
        index: &str,
        bounds: impl RangeBounds<K>,
    ) -> Result<u64> {
        documented("Transaction::delete_range", || {
            let mut cursor = self.range(table, index, bounds)?.for_update();
            let mut count = 0;
            while cursor.next_with(|_| ())?.is_some() {
                count += u64::from(cursor.delete()?);
            }
            Ok(count)
        })
    }

    /// All rows: in order of the primary key if that is ordered, and then what is read is locked as
    /// with [`Transaction::range`]. Else in no particular order, and the table is locked against
    /// writers.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// tx.insert(&t, &[2.into(), 20.into()])?;
    /// let sum: i64 = tx.scan(&t)?.map(|row| row.map(|r| r.at(1).as_int().unwrap_or(0))).sum::<Result<_, _>>()?;
    /// assert_eq!(sum, 30);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`] and [`crate::Error::LockTimeout`], from the cursor if the primary
    /// key is ordered.
    pub fn scan(&mut self, table: &Table) -> Result<Cursor<'_, 'db>> {
        self.goes_on()?;
        documented("Transaction::scan", || {
            let t = self.table(table)?;
            if t.indexes[0].def.kind == IndexKind::Hash {
                self.lock_table(t, Mode::Shared)?;
            }
            Cursor::all(self, t)
        })
    }

    /// Part `part`, from 0, of `parts` parts of the rows, of about the same size, in no particular
    /// order: so that several threads, each with a transaction, read a table together. The table is
    /// locked against writers.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (0..10_000i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let count = |part| Ok::<usize, mmdb::Error>(db.begin()?.scan_part(&t, part, 3)?.count());
    /// assert_eq!(count(0)? + count(1)? + count(2)?, 10_000);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`] and [`crate::Error::LockTimeout`].
    pub fn scan_part(&mut self, table: &Table, part: usize, parts: usize) -> Result<Cursor<'_, 'db>> {
        self.goes_on()?;
        documented("Transaction::scan_part", || {
            let t = self.table(table)?;
            self.lock_table(t, Mode::Shared)?;
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            Ok(if part < parts {
                Cursor::places(self, t, number(part), number(parts))
            } else {
                Cursor::empty(self, t)
            })
        })
    }
}

/// The lists of an index; none of a table that was dropped, or of an index that came to nothing.
/// Places of indexes stay while a transaction uses the table: whoever drops one has it whole.
fn ranges_of(tables: &Tables, table: u32, index: usize) -> Option<&RangeLocks> {
    tables.get(table)?.indexes.get(index)?.ranges.as_deref()
}

/// Puts the row at `rid` into `row`. Whether there is one, with the key `key` in index `ix`; `k` is
/// a buffer.
fn has_key(
    t: &TableInner,
    ix: usize,
    (key, rid): (&[u8], Rid),
    (row, k): (&mut Vec<u8>, &mut Vec<u8>),
) -> Result<bool> {
    row.clear();
    k.clear();
    if t.read(rid, row)?.is_none() {
        return Ok(false);
    }
    t.layout.row_key(row, &t.indexes[ix].def.columns, k);
    Ok(k == key)
}
