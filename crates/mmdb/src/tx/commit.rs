//! Commit: append, apply, unlock.
//!
//! 1. All locks are held. For tables without locking, the written keys are locked now, in order, for the commit only.
//! 2. The records are built from the slots as they are and the rows as they will be; the body's checksum is taken.
//! 3. Inside the stream's critical section the frame gets its number and its place. Before this point every failure
//!    leaves nothing behind; after it nothing can fail.
//! 4. The slots and indexes change, the locks are released, and only then does anybody wait for the disk.

use super::Transaction;
use super::write_set::Change;
use crate::container::{Slot, clear_slot, write_slot};
use crate::engine::name;
use crate::error::{Error, Result};
use crate::key;
use crate::lock::Held;
use crate::log::Ticket;
use crate::log::record::{self, Kind, Target};
use crate::options::{Durability, LogKind};
use crate::schema::{Locking, Logging};
use crate::sync::atomic::Ordering;
use crate::table::TableInner;

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
        let lazy = durability == Durability::Lazy;
        let log = &self.db.log;
        // The reference mode has no concurrency control at all: what it leaves out is what it measures.
        if !self.db.options.reference && self.s.writes.iter().any(|w| w.change != Change::Dead) {
            self.lock_unlocked_tables()?;
        }
        let logged = self.build_body()?;
        let stream = self.lane % log.streams.len().max(1);
        let gate = self.db.enter(self.stripe);
        let (gsn, batch) = if logged {
            let crc = crc32c::crc32c(&self.s.body);
            match log.streams[stream].append(log, &self.s.body, crc, !lazy) {
                Ok((gsn, batch)) => (gsn, Some(batch)),
                Err(e) => {
                    drop(gate);
                    return Err(e);
                }
            }
        } else {
            // What was read may not be durable yet; nobody may act on what a crash could take back.
            (log.last(), None)
        };
        self.apply();
        drop(gate);
        self.unlock();
        self.open = false;
        self.db.counters.commits[self.stripe % crate::engine::GATES].fetch_add(1, Ordering::Relaxed);
        Ok(Ticket::new(self.db.anchor(self.stripe), batch, stream, gsn, lazy))
    }

    /// For tables without locking: excludes other commits of the same keys and checks that the rows are still there.
    fn lock_unlocked_tables(&mut self) -> Result<()> {
        let db = self.db;
        let free = |w: &super::Write| -> Option<&TableInner> {
            let t: &TableInner = db.table(w.table).ok()?;
            (t.locking == Locking::None && w.change != Change::Dead).then_some(t)
        };
        let mut names = std::mem::take(&mut self.s.names);
        names.clear();
        let mut any = false;
        for i in 0..self.s.writes.len() {
            let w = &self.s.writes[i];
            let Some(t) = free(w) else { continue };
            any = true;
            let mut before = Vec::new();
            if w.change != Change::Insert {
                t.read(w.rid, &mut before)?;
            }
            for (ix, index) in t.indexes.iter().enumerate().filter(|(_, i)| i.def.unique) {
                for row in [&before[..], &self.s.arena[w.after.clone()]] {
                    if !row.is_empty() {
                        let mut k = Vec::new();
                        t.layout.row_key(row, &index.def.columns, &mut k);
                        names.push(name::key(t.id, ix, key::hash(&k)));
                    }
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        for &n in &names {
            match self.db.locks.acquire_in_order(n, self.age) {
                Ok(Held::New) => self.s.locks.push(n),
                Ok(Held::Already) => {}
                Err(_) => {
                    self.s.names = names;
                    return Err(Error::Conflict { table: String::new(), key: "(commit)".into() });
                }
            }
        }
        self.s.names = names;
        if !any {
            return Ok(());
        }
        for i in 0..self.s.writes.len() {
            let w = self.s.writes[i].clone();
            let Some(t) = free(&w) else { continue };
            t.alive()?;
            let gone = |key: String| Error::Conflict { table: t.schema.name.clone(), key };
            let mut before = Vec::new();
            if w.change != Change::Insert && t.read(w.rid, &mut before)?.is_none() {
                return Err(gone(t.layout.key_text(&self.s.arena[w.after], &t.indexes[0].def.columns)));
            }
            if w.change == Change::Delete {
                // The slot may have been freed and filled with another row since it was looked up.
                let mut k = Vec::new();
                t.layout.row_key(&before, &t.indexes[0].def.columns, &mut k);
                let text = t.layout.key_text(&before, &t.indexes[0].def.columns);
                let name = name::key(t.id, 0, key::hash(&k));
                if self.s.names.binary_search(&name).is_err() {
                    return Err(gone(text));
                }
                continue;
            }
            for (ix, index) in t.indexes.iter().enumerate().filter(|(_, i)| i.def.unique) {
                let mut k = Vec::new();
                t.layout.row_key(&self.s.arena[w.after.clone()], &index.def.columns, &mut k);
                match t.indexes[ix].find(&k, key::hash(&k)) {
                    Some(rid) if rid != w.rid && self.s.writes.by_rid(t.id, rid).is_none() => {
                        return Err(self.duplicate(t, ix, w.after));
                    }
                    found => {
                        if ix == 0 && w.change == Change::Update && found != Some(w.rid) {
                            return Err(gone(t.layout.key_text(&self.s.arena[w.after], &index.def.columns)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Builds the frame's body. False if nothing is to be logged.
    fn build_body(&mut self) -> Result<bool> {
        let db = self.db;
        let mut body = std::mem::take(&mut self.s.body);
        body.clear();
        let kind = match db.options.log_kind {
            LogKind::Differential => Kind::Difference,
            LogKind::AfterImage => Kind::After,
        };
        let mut built = Ok(());
        for w in self.s.writes.iter().filter(|w| w.change != Change::Dead) {
            built = (|| {
                let t = db.table(w.table)?;
                t.alive()?;
                if t.logging != Logging::Logged {
                    return Ok(());
                }
                let c = t.container(w.rid)?;
                let bytes = c.bytes.read();
                let Some(slot) = bytes.get(c.range(w.rid.slot())).map(Slot) else { return t.alive() };
                let target = Target {
                    class: c.class,
                    table: t.id,
                    container: w.rid.container(),
                    slot: w.rid.slot(),
                    version: slot.version() + 1,
                };
                if w.change == Change::Delete {
                    record::put_delete(&mut body, kind, target, slot, self.scrubs());
                } else {
                    record::put_write(&mut body, kind, target, slot, &self.s.arena[w.after.clone()]);
                }
                Ok(())
            })();
            if built.is_err() {
                break;
            }
        }
        let logged = !body.is_empty();
        self.s.body = body;
        built.map(|()| logged)
    }

    /// After-images leave nothing behind a deleted row, so that each one is a whole state whatever came before.
    fn scrubs(&self) -> bool {
        self.db.options.scrub || self.db.options.log_kind == LogKind::AfterImage
    }

    /// Changes slots and indexes. Other transactions cannot see it half done: they lack the locks.
    fn apply(&mut self) {
        let scrub = self.scrubs();
        let mut old = std::mem::take(&mut self.s.old);
        let mut k = std::mem::take(&mut self.s.key);
        for i in 0..self.s.writes.len() {
            let w = self.s.writes[i].clone();
            let Ok(t) = self.db.table(w.table) else { continue };
            let Ok(c) = t.container(w.rid) else { continue };
            if w.change == Change::Dead {
                t.release(w.class, w.rid, self.stripe);
                continue;
            }
            old.clear();
            {
                let mut bytes = c.bytes.write();
                // Absent only if a table without locking was dropped under the transaction.
                let Some(slot) = bytes.get_mut(c.range(w.rid.slot())) else { continue };
                let wants_old = match w.change {
                    Change::Delete => true,
                    Change::Update => t.indexes.len() > 1,
                    _ => false,
                };
                if wants_old && let Some(row) = Slot(slot).row() {
                    old.extend_from_slice(row);
                }
                if w.change == Change::Delete {
                    clear_slot(slot, scrub);
                } else {
                    write_slot(slot, &self.s.arena[w.after.clone()]);
                }
                c.mark_dirty();
            }
            let after = &self.s.arena[w.after.clone()];
            for index in &t.indexes {
                let columns = &index.def.columns;
                match w.change {
                    Change::Insert => {
                        k.clear();
                        t.layout.row_key(after, columns, &mut k);
                        index.insert(&k, key::hash(&k), w.rid);
                    }
                    Change::Delete => {
                        k.clear();
                        t.layout.row_key(&old, columns, &mut k);
                        index.remove(&k, key::hash(&k), w.rid);
                    }
                    Change::Update if t.indexes.len() > 1 => {
                        k.clear();
                        t.layout.row_key(&old, columns, &mut k);
                        let n = k.len();
                        t.layout.row_key(after, columns, &mut k);
                        let (before, now) = k.split_at(n);
                        if before != now {
                            index.remove(before, key::hash(before), w.rid);
                            index.insert(now, key::hash(now), w.rid);
                        }
                    }
                    _ => {}
                }
            }
            if w.change == Change::Delete {
                t.release(w.class, w.rid, self.stripe);
            }
        }
        self.s.old = old;
        self.s.key = k;
    }

    /// Builds maps over a large write set.
    pub(super) fn index_writes(&mut self) {
        if self.s.writes.wants_maps() {
            let db = self.db;
            let s = &mut *self.s;
            s.writes.build_maps(|id| db.table(id).ok().map(|t| &**t), &s.arena);
        }
    }
}
