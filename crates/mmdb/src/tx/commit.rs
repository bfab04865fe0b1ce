//! Commit: append, apply, unlock.
//!
//! 1. All locks are held. For tables without locking, the written keys are locked now, in order,
//!    for the commit only. The gate is passed and left when all is applied.
//! 2. The records are built from the slots as they are and the rows as they will be; the body's
//!    checksum is taken.
//! 3. Inside the stream's critical section the frame gets its number and its place. Before this
//!    point every failure leaves nothing behind; after it nothing can fail.
//! 4. The slots and indexes change, the locks are released, and only then does anybody wait for the
//!    disk.

use super::Transaction;
use super::write_set::{Change, Write};
use crate::container::{CLASSES, Container, SLOT_HEAD, Slot, clear_slot, write_slot};
use crate::documented::documented;
use crate::engine::name;
use crate::error::{Error, Result};
use crate::key;
use crate::lock::{Grant, LockFailure, Mode};
use crate::log::record::{self, Kind, Target};
use crate::log::{PoisonIfPanicking, Ticket};
use crate::options::{Durability, LogKind};
use crate::sabotage::has_defect;
use crate::schema::{Locking, Logging};
use crate::sync::atomic::Ordering;
use crate::table::TableInner;
use crate::tables::Tables;

/// Up to so many locks are looked through one by one.
const FEW_LOCKS: usize = 32;
/// And so many writes with each other.
const FEW_WRITES: usize = 32;

impl Transaction<'_> {
    /// Commits with the given durability; see [`Transaction::commit`].
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// use mmdb::Durability;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit_with(Durability::Lazy)?;
    /// assert!(ticket.poll()?);                                   // a lazy ticket is resolved from the start
    /// assert_eq!(ticket.wait_durable()?, ticket.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<Ticket> {
        self.goes_on()?;
        documented("Transaction::commit_with", || {
            let lazy = durability == Durability::Lazy;
            let log = &self.db.log;
            // The reference mode has no concurrency control at all: what it leaves out is what it
            // measures.
            if self.unlocked && !self.db.options.reference {
                self.lock_unlocked_keys()?;
            }
            let stream = self.lane % log.streams.len().max(1);
            // A fill or a drop that begins from here on waits until this is applied; one that began
            // before is seen. Whatever fails below leaves the gate before the transaction is
            // undone.
            let tables = self.db.enter(self.stripe);
            self.goes_through(&tables)?;
            // Behind the append nothing can fail, and if something does the memory is not to be
            // believed.
            let (gsn, batch) = PoisonIfPanicking::during(log, "a commit", || {
                let numbered = if self.build_body(&tables)? {
                    // Before it has a number: nobody would ever learn what became of it.
                    log.require_own_process()?;
                    let crc = crc32c::crc32c(&self.s.body);
                    let (gsn, batch) = log.streams[stream].append(log, &self.s.body, crc, !lazy)?;
                    (gsn, Some(batch))
                } else {
                    // What was read may not be durable yet; nobody may act on what a crash could
                    // take back.
                    (log.last(), None)
                };
                self.apply(&tables);
                Ok::<_, Error>(numbered)
            })?;
            self.unlock(&tables);
            drop(tables);
            self.open = false;
            self.db.counters.commits[self.stripe % crate::engine::GATES].fetch_add(1, Ordering::Relaxed);
            Ok(Ticket::new(self.db.anchor(self.stripe), batch, stream, gsn, lazy))
        })
    }

    /// For tables without locking: excludes other commits of the same keys.
    fn lock_unlocked_keys(&mut self) -> Result<()> {
        let mut names = std::mem::take(&mut self.s.names);
        names.clear();
        let locked = self.name_unlocked_keys(&mut names).and_then(|()| {
            names.sort_unstable();
            names.dedup();
            names.iter().try_for_each(|&n| match self.db.locks.acquire_in_order(n, self.age) {
                Ok(Grant::New) => {
                    self.s.locks.push(n);
                    Ok(())
                }
                Ok(Grant::Already) => Ok(()),
                Err(why) => Err(self.unlocked_refused(n, why)),
            })
        });
        self.s.names = names;
        locked
    }

    /// Why the lock `name` of a written key was refused: its holder did not give it back in time,
    /// or nobody waits here.
    #[cold]
    fn unlocked_refused(&self, name: u64, why: LockFailure) -> Error {
        let tables = self.db.enter(self.stripe);
        let mut names = Vec::new();
        for w in self.s.writes.iter().filter(|w| w.change != Change::Dead) {
            let Some(t) = tables.get(w.table).filter(|t| t.locking == Locking::None) else { continue };
            names.clear();
            names.push(name::key(t.id, 0, w.hash));
            if t.claims_keys
                && let Err(e) = self.unique_names(t, w, &mut names)
            {
                return e;
            }
            if names.contains(&name) {
                let mut row = self.s.arena[w.after.clone()].to_vec();
                if row.is_empty()
                    && let Err(e) = t.read(w.rid, &mut row)
                {
                    return e;
                }
                let table = t.schema.name.clone();
                let key = t.layout.key_text(&row, &t.indexes[0].def.columns);
                return match why {
                    LockFailure::TimedOut => {
                        Error::LockTimeout { table, key, wait: self.db.options.lock_timeout, runs: 1 }
                    }
                    LockFailure::Died => Error::Conflict { table, key },
                    LockFailure::Interrupted => Error::Interrupted { cause: "a lock" },
                };
            }
        }
        Error::Internal { what: "a lock was asked for that belongs to no write".into() }
    }

    /// Appends the lock names of the unique keys that are written in tables without locking.
    fn name_unlocked_keys(&self, names: &mut Vec<u64>) -> Result<()> {
        // Left before the names are locked: their holders have to pass it.
        let tables = self.db.enter(self.stripe);
        for w in self.s.writes.iter().filter(|w| w.change != Change::Dead) {
            let t = self.db.existing(&tables, w.table)?;
            if t.locking != Locking::None {
                continue;
            }
            names.push(name::key(t.id, 0, w.hash));
            if t.claims_keys {
                self.unique_names(t, w, names)?;
            }
        }
        Ok(())
    }

    /// Appends the lock names of the secondary unique keys that a write gives and takes.
    fn unique_names(&self, t: &TableInner, w: &Write, names: &mut Vec<u64>) -> Result<()> {
        let mut before = Vec::new();
        if w.change != Change::Insert {
            t.read(w.rid, &mut before)?;
        }
        let mut k = Vec::new();
        for (ix, index) in t.indexes.iter().enumerate().skip(1).filter(|(_, i)| i.def.unique) {
            for row in [&before[..], &self.s.arena[w.after.clone()]] {
                if !row.is_empty() {
                    k.clear();
                    t.layout.row_key(row, &index.def.columns, &mut k);
                    names.push(name::key(t.id, ix, key::hash(&k)));
                }
            }
        }
        Ok(())
    }

    /// For tables without locking, whose written keys this commit has locked: whether the rows are
    /// still there that it changes, and the keys free that it gives. `k` is a buffer.
    fn check_unlocked(&self, t: &TableInner, w: &Write, slot: Slot<'_>, k: &mut Vec<u8>) -> Result<()> {
        // Once the column is there that is being added, it is run again.
        if w.change != Change::Delete && !t.has_room_to_grow(w.after.len()) {
            return Err(t.changed());
        }
        let primary = &t.indexes[0].def.columns;
        if w.change != Change::Insert {
            // The slot may have been freed, and filled with another row, since it was looked up.
            let row = &*t.layout.row_of(slot).unwrap_or_default();
            k.clear();
            t.layout.row_key(row, primary, k);
            if row.is_empty() || key::hash(k) != w.hash {
                let after = &self.s.arena[w.after.clone()];
                let shown = if after.is_empty() { row } else { after };
                let key = t.layout.key_text(shown, primary);
                return Err(Error::Conflict { table: t.schema.name.clone(), key });
            }
        }
        for (ix, index) in t.indexes.iter().enumerate().filter(|(_, i)| i.def.unique) {
            // A row that changes keeps its primary key; one that goes gives none.
            if w.change == Change::Delete || (ix == 0 && w.change == Change::Update) {
                continue;
            }
            k.clear();
            t.layout.row_key(&self.s.arena[w.after.clone()], &index.def.columns, k);
            if let Some(rid) = index.find(k, key::hash(k))
                && rid != w.rid
                && self.s.writes.by_rid(t.id, rid).is_none()
            {
                if ix == 0 && w.replaces {
                    // Run again, the row is there to be replaced.
                    let key = t.layout.key_text(&self.s.arena[w.after.clone()], primary);
                    return Err(Error::Conflict { table: t.schema.name.clone(), key });
                }
                return Err(self.duplicate(t, ix, w.after.clone()));
            }
        }
        Ok(())
    }

    /// Checks what changes in tables without locking, and builds the frame's body. False if nothing
    /// is to be logged.
    fn build_body(&mut self, tables: &Tables) -> Result<bool> {
        let mut body = std::mem::take(&mut self.s.body);
        let mut k = std::mem::take(&mut self.s.key);
        body.clear();
        let kind = self.kind();
        let put = |w: &Write| self.put_record(self.db.existing(tables, w.table)?, w, kind, &mut body, &mut k);
        let built = self.s.writes.iter().filter(|w| w.change != Change::Dead).try_for_each(put);
        let logged = !body.is_empty();
        self.s.body = body;
        self.s.key = k;
        built.map(|()| logged)
    }

    /// Appends the record of one write to `body`, if its table is logged. `k` is a buffer.
    fn put_record(
        &self,
        t: &TableInner,
        w: &Write,
        kind: Kind,
        body: &mut Vec<u8>,
        k: &mut Vec<u8>,
    ) -> Result<()> {
        let unlocked = t.locking == Locking::None && !self.db.options.reference;
        if t.logging != Logging::Logged && !unlocked {
            return Ok(());
        }
        let c = t.container(w.rid)?;
        let bytes = c.bytes.read();
        let Some(slot) = bytes.get(c.range(w.rid.slot())).map(Slot) else { return Err(t.gone()) };
        if unlocked {
            self.check_unlocked(t, w, slot, k)?;
        }
        if t.logging == Logging::Logged {
            self.encode(t, w, c.class, slot, kind, body);
        }
        Ok(())
    }

    /// Appends the record of one write to the slot as it is.
    #[inline(always)]
    fn encode(&self, t: &TableInner, w: &Write, class: u8, slot: Slot<'_>, kind: Kind, body: &mut Vec<u8>) {
        let target = Target {
            class,
            table: t.id,
            container: w.rid.container(),
            slot: w.rid.slot(),
            version: slot.version() + 1,
        };
        if w.change == Change::Delete {
            record::put_delete(body, kind, target, slot, self.scrubs());
        } else {
            let row = &self.s.arena[w.after.clone()];
            record::put_write(body, kind, target, slot, row, t.layout.generation);
        }
    }

    /// Whether every table that is written is in the life in which its slots were taken. Asked
    /// inside the gate, so that after this nothing of the transaction can be skipped.
    fn goes_through(&self, tables: &Tables) -> Result<()> {
        let mut last = None;
        for w in self.s.writes.iter().filter(|w| last.replace(w.table) != Some(w.table)) {
            let t = self.db.existing(tables, w.table)?;
            if !self.is_same(t) {
                return Err(self.unlike(t));
            }
        }
        Ok(())
    }

    fn kind(&self) -> Kind {
        match self.db.options.log_kind {
            LogKind::Differential => Kind::Difference,
            LogKind::AfterImage => Kind::After,
        }
    }

    /// Whether the frame holds these writes too, of which the first takes the place of write number
    /// `instead`. Told now and not by the commit, so that the transaction can commit what it has. A
    /// bound is added up as long as that is enough; only near the limit are the records built, as
    /// the commit will build them.
    #[inline]
    pub(super) fn admit(&mut self, t: &TableInner, new: &[&Write], instead: Option<usize>) -> Result<()> {
        if t.logging != Logging::Logged {
            return Ok(());
        }
        let Some(stream) = self.db.log.streams.first() else { return Ok(()) };
        let max = stream.max_body();
        for w in new {
            // A slot's rest may have to be zeroed, whatever the row's length.
            let slot = CLASSES.get(usize::from(w.class)).map_or(usize::MAX / 2, |&slot| slot);
            let changed = if w.change == Change::Delete && !self.scrubs() { 0 } else { slot };
            self.logged += record::most(changed) as u64;
        }
        if self.logged <= max { Ok(()) } else { self.admit_exactly(new, instead, max) }
    }

    #[cold]
    fn admit_exactly(&mut self, new: &[&Write], instead: Option<usize>, max: u64) -> Result<()> {
        let mut record = std::mem::take(&mut self.s.body);
        let tables = self.db.enter(self.stripe);
        let mut size = |w: &Write| -> Result<u64> {
            let t = self.db.existing(&tables, w.table)?;
            if t.logging != Logging::Logged || w.change == Change::Dead {
                return Ok(0);
            }
            let c = t.container(w.rid)?;
            let bytes = c.bytes.read();
            let Some(slot) = bytes.get(c.range(w.rid.slot())).map(Slot) else { return Err(t.gone()) };
            record.clear();
            self.encode(t, w, c.class, slot, self.kind(), &mut record);
            Ok(record.len() as u64)
        };
        let others = self.s.writes.iter().enumerate().filter(|(i, _)| Some(*i) != instead);
        let mut sizes = others.map(|(_, w)| size(w)).collect::<Vec<_>>().into_iter();
        let before = sizes.try_fold(0, |sum, n| n.map(|n| sum + n));
        let added = new.iter().map(|w| size(w)).collect::<Vec<_>>().into_iter();
        let added = added.into_iter().try_fold(0, |sum, n| n.map(|n| sum + n));
        self.s.body = record;
        let bytes = before? + added?;
        if bytes > max {
            // The bound stays above: the next one is looked at just as closely.
            return Err(Error::TransactionTooLarge { bytes, max });
        }
        self.logged = bytes;
        Ok(())
    }

    /// After-images leave nothing behind a deleted row, so that each one is a whole state whatever
    /// came before.
    fn scrubs(&self) -> bool {
        self.db.options.scrub || self.db.options.log_kind == LogKind::AfterImage
    }

    /// Whether a slot is as it was when this transaction read it, and the row's lock held: what was
    /// logged is the difference to that. Without any concurrency control nothing is certain.
    #[inline]
    fn require_place(&self, t: &TableInner, c: &Container, w: &Write, slot: Slot<'_>) {
        if self.db.options.reference {
            return;
        }
        assert_eq!(c.class, w.class, "slot {:?} of table {} is of the write's class", w.rid, t.id);
        assert_eq!(
            slot.is_live(),
            w.change != Change::Insert,
            "slot {:?} of table {} has a row, unless one comes",
            w.rid,
            t.id
        );
        assert!(self.holds_row(t, w), "the lock of slot {:?} of table {} is held", w.rid, t.id);
    }

    /// Whether the lock is held under which a row is written.
    #[inline]
    fn holds_row(&self, t: &TableInner, w: &Write) -> bool {
        let name = match t.locking {
            Locking::Record | Locking::None => name::key(t.id, 0, w.hash),
            Locking::Page | Locking::Container => match Self::unit(t, w.rid) {
                Ok(Some(unit)) => unit,
                _ => return false,
            },
        };
        // Of a few locks it is the same as asking the lock table, and cheaper.
        if self.s.locks.len() <= FEW_LOCKS && self.s.locks.contains(&name) {
            return true;
        }
        self.db.locks.holds(name, Mode::Exclusive, self.age)
            || self.s.intents.iter().any(|i| i.0 == t.id && i.1 == Mode::Exclusive)
    }

    /// Keeps the ghosts of all entries that the indexes are about to lose. Before the first of them
    /// changes: where rows exchange a unique key, giving it to one takes it from the other.
    #[cold]
    fn keep_entries(&mut self, tables: &Tables) {
        let mut row = std::mem::take(&mut self.s.old);
        let mut k = std::mem::take(&mut self.s.key);
        let loses = |w: &&Write| matches!(w.change, Change::Update | Change::Delete);
        for w in self.s.writes.iter().filter(loses) {
            let Some(t) = tables.get(w.table) else { continue };
            // A row that changes keeps its primary key.
            let kept = usize::from(w.change == Change::Update);
            if t.indexes.len() == kept {
                continue;
            }
            row.clear();
            if !matches!(t.read(w.rid, &mut row), Ok(Some(_))) {
                continue;
            }
            for index in t.indexes.iter().skip(kept) {
                k.clear();
                t.layout.row_key(&row, &index.def.columns, &mut k);
                let n = k.len();
                if w.change == Change::Update {
                    t.layout.row_key(&self.s.arena[w.after.clone()], &index.def.columns, &mut k);
                }
                let (before, now) = k.split_at(n);
                if before != now {
                    self.db.snapshots().keep_entry(index, before, w.rid);
                }
            }
        }
        self.s.old = row;
        self.s.key = k;
    }

    /// Changes slots and indexes. Other transactions cannot see it half done: they lack the locks.
    fn apply(&mut self, tables: &Tables) {
        let scrub = self.scrubs();
        // None is opened before this has left the gate; one may be closed.
        let db = self.db;
        let has_snapshots = db.snapshots().newest() != 0;
        let moving = self.moving_tables();
        self.each_of(tables, moving, |t| t.moves.begin());
        if has_snapshots && !has_defect!(db.options.defect(), NoGhosts) {
            self.keep_entries(tables);
        }
        let mut old = std::mem::take(&mut self.s.old);
        let mut k = std::mem::take(&mut self.s.key);
        let mut unlogged = 0;
        for i in 0..self.s.writes.len() {
            let w = self.s.writes[i].clone();
            let Some(t) = tables.get(w.table) else { continue };
            let Ok(c) = t.container(w.rid) else { continue };
            if w.change == Change::Dead {
                t.release(w.class, w.rid, self.stripe);
                continue;
            }
            old.clear();
            {
                let mut bytes = c.bytes.write();
                if t.logging == Logging::Checkpointed {
                    c.keep_before(&bytes);
                    unlogged += (SLOT_HEAD + w.after.len()) as u64;
                }
                // The table is in the life in which the slot was taken, and containers go only with
                // that.
                assert!(!bytes.is_empty(), "container {} is there", w.rid.container());
                let Some(slot) = bytes.get_mut(c.range(w.rid.slot())) else { continue };
                self.require_place(t, c, &w, Slot(slot));
                if has_snapshots && !has_defect!(self.db.options.defect(), NoVersions) {
                    self.db.snapshots().keep_row(t.id, &t.layout, c, w.rid, Slot(slot));
                }
                if w.change != Change::Insert
                    && (w.change == Change::Delete || t.indexes.len() > 1)
                    && let Some(row) = t.layout.row_of(Slot(slot))
                {
                    old.extend_from_slice(&row);
                }
                if w.change == Change::Delete {
                    clear_slot(slot, scrub);
                } else {
                    write_slot(slot, &self.s.arena[w.after.clone()], t.layout.generation);
                }
                c.mark_dirty();
            }
            let after = &self.s.arena[w.after.clone()];
            // A row that changes keeps its primary key.
            let kept = usize::from(w.change == Change::Update);
            for (ix, index) in t.indexes.iter().enumerate().skip(kept) {
                if has_defect!(self.db.options.defect(), BuildsAlone) && index.is_unfinished() {
                    continue;
                }
                let columns = &index.def.columns;
                let hash = |key: &[u8]| if ix == 0 { w.hash } else { key::hash(key) };
                k.clear();
                match w.change {
                    Change::Insert => {
                        t.layout.row_key(after, columns, &mut k);
                        index.insert(&k, hash(&k), w.rid);
                    }
                    Change::Delete => {
                        t.layout.row_key(&old, columns, &mut k);
                        index.remove(&k, hash(&k), w.rid);
                    }
                    Change::Update => {
                        t.layout.row_key(&old, columns, &mut k);
                        let n = k.len();
                        t.layout.row_key(after, columns, &mut k);
                        let (before, now) = k.split_at(n);
                        if before != now {
                            if !has_defect!(self.db.options.defect(), StaleIndex) {
                                index.remove(before, hash(before), w.rid);
                            }
                            index.insert(now, hash(now), w.rid);
                        }
                    }
                    Change::Dead => {}
                }
            }
            if w.change == Change::Delete {
                t.release(w.class, w.rid, self.stripe);
            }
        }
        if unlogged > 0 {
            // A checkpoint is due by these bytes as by those of the log.
            db.counters.unlogged[self.stripe % crate::engine::GATES].fetch_add(unlogged, Ordering::Relaxed);
        }
        self.each_of(tables, moving, |t| t.moves.end());
        self.s.old = old;
        self.s.key = k;
    }

    /// In which tables this takes a primary key from one place and gives it to another: a bit for
    /// each number of a table, whose last digits stand for it. Some more may be among them.
    #[inline]
    fn moving_tables(&self) -> u64 {
        if has_defect!(self.db.options.defect(), AnnouncesNoMoves) {
            return 0;
        }
        let (mut taken, mut given) = (0u64, 0u64);
        for w in self.s.writes.iter() {
            match w.change {
                Change::Delete => taken |= 1 << (w.table % u64::BITS),
                Change::Insert => given |= 1 << (w.table % u64::BITS),
                Change::Update | Change::Dead => {}
            }
        }
        let both = taken & given;
        if both == 0 || self.s.writes.len() > FEW_WRITES { both } else { self.exactly_moving(both) }
    }

    #[cold]
    fn exactly_moving(&self, likely: u64) -> u64 {
        let of = |change| self.s.writes.iter().filter(move |w| w.change == change);
        let is_given = |gone: &&Write| {
            of(Change::Insert).any(|comes| comes.table == gone.table && comes.hash == gone.hash)
        };
        of(Change::Delete).filter(is_given).fold(0, |all, w| all | 1 << (w.table % u64::BITS)) & likely
    }

    /// Does something with each of these tables that this has used.
    #[inline]
    fn each_of(&self, tables: &Tables, numbers: u64, f: impl Fn(&TableInner)) {
        if numbers == 0 {
            return;
        }
        for (id, _) in &self.s.spans {
            if numbers & 1 << (id % u64::BITS) != 0
                && let Some(t) = tables.get(*id)
            {
                f(t);
            }
        }
    }

    /// Builds maps over a large write set.
    #[inline]
    pub(super) fn index_writes(&mut self) {
        if self.s.writes.wants_maps() {
            self.build_maps();
        }
    }

    #[cold]
    fn build_maps(&mut self) {
        let tables = self.db.enter(self.stripe);
        let s = &mut *self.s;
        s.writes.build_maps(|id| tables.get(id), &s.arena);
    }
}
