//! Locks that a transaction takes and gives back.

use super::{Obstacle, Refusal, Transaction};
use crate::container::Rid;
use crate::documented::documented;
use crate::engine::name;
use crate::error::{Error, Result};
use crate::lock::{Grant, Mode};
use crate::schema::Locking;
use crate::table::{Table, TableInner};
use crate::tables::Tables;
use crate::value::Value;

impl Transaction<'_> {
    /// A table that is not there any more was left when that was seen.
    pub(super) fn unlock(&mut self, tables: &Tables) {
        self.forget_ranges(tables);
        for name in self.s.locks.drain(..) {
            self.db.locks.release(name, self.age);
        }
        for (table, mode) in self.s.intents.drain(..) {
            if let Some(t) = tables.get(table) {
                self.db.locks.leave(&t.lock, mode.is_whole(), self.age);
            }
        }
    }

    /// Takes a lock of a part of the table; `what` says of which, if it is refused.
    pub(super) fn lock(
        &mut self,
        t: &TableInner,
        name: u64,
        mode: Mode,
        what: impl FnOnce() -> String,
    ) -> Result<Grant> {
        let held = match self.db.locks.acquire(&t.lock, name, mode, self.age) {
            Ok(held) => held,
            Err(why) => return Err(self.refuse(t, why, what(), Obstacle::Part(t.id, name, mode))),
        };
        if held == Grant::New {
            self.s.locks.push(name);
        }
        self.stays(t).map(|()| held)
    }

    /// As [`Transaction::lock`], but `None` if somebody else has that part of the table.
    pub(super) fn lock_free(
        &mut self,
        t: &TableInner,
        name: u64,
        mode: Mode,
        what: impl FnOnce() -> String,
    ) -> Result<Option<Grant>> {
        let held = match self.db.locks.acquire_free(&t.lock, name, mode, self.age) {
            Ok(Some(held)) => held,
            Ok(None) => return Ok(None),
            Err(why) => return Err(self.refuse(t, why, what(), Obstacle::Whole(t.id, mode.intent()))),
        };
        if held == Grant::New {
            self.s.locks.push(name);
        }
        self.stays(t).map(|()| Some(held))
    }

    /// Whether a table is there still whose lock this has just been granted: a drop may have gone
    /// before while this waited. Then the table is left at once, for whoever waits there too; later
    /// it cannot be found by its number any more.
    #[inline]
    fn stays(&mut self, t: &TableInner) -> Result<()> {
        if t.is_live() && !self.is_outdated(t) { Ok(()) } else { self.leave_gone(t) }
    }

    #[cold]
    fn leave_gone(&mut self, t: &TableInner) -> Result<()> {
        if t.life.is_dropped() {
            let at = self.s.intents.iter().position(|i| i.0 == t.id);
            let mode = at.map(|at| self.s.intents.swap_remove(at).1);
            self.db.locks.leave(&t.lock, mode.is_some_and(Mode::is_whole), self.age);
        }
        Err(self.outdated(t))
    }

    /// A table is not what it was when this transaction first used it. If its definition has
    /// changed, the transaction is to be run again, and finds the new one.
    #[cold]
    pub(super) fn outdated(&mut self, t: &TableInner) -> Error {
        let error = self.unlike(t);
        if error.is_retryable() {
            self.refusal = Some(Box::new(Refusal { error: error.clone(), obstacle: None, age: self.age }));
        }
        error
    }

    /// The error of a read. Without locks a row may have columns of a definition that took the
    /// place of this transaction's since it looked: then it is to be run again.
    #[cold]
    pub(super) fn noticed(&mut self, t: &TableInner, error: Error) -> Error {
        let is_new = matches!(error, Error::Conflict { .. }) && self.refusal.is_none();
        if is_new { self.outdated(t) } else { error }
    }

    /// Refuses what was just read of a table without locking that is not what it was: rows, or the
    /// entries of an index, may have been given back, and then what is missing is no answer. Who
    /// locks a table keeps it as it is.
    #[inline]
    pub(super) fn require_same(&mut self, t: &TableInner) -> Result<()> {
        if t.locking == Locking::None && self.is_outdated(t) { Err(self.outdated(t)) } else { Ok(()) }
    }

    /// Whether this transaction has used the table in another life or with another definition.
    #[inline]
    pub(super) fn is_outdated(&self, t: &TableInner) -> bool {
        let first = self.s.spans.iter().find(|s| s.0 == t.id);
        first.is_some_and(|first| t.life.now() != Some(first.1))
    }

    /// Why a table is not what it was when this transaction first used it.
    #[cold]
    pub(super) fn unlike(&self, t: &TableInner) -> Error {
        let known = self.s.spans.iter().find(|s| s.0 == t.id).map(|s| s.1);
        let redefined = known.zip(t.life.now()).is_some_and(|(then, now)| t.life.was_redefined(then, now));
        if redefined { t.changed() } else { t.gone() }
    }

    /// Remembers that parts of the table are read or written, or takes it whole.
    pub(crate) fn lock_table(&mut self, t: &TableInner, mode: Mode) -> Result<()> {
        if t.locking == Locking::None && mode != Mode::Exclusive {
            return Ok(());
        }
        let have = self.s.intents.iter().position(|i| i.0 == t.id);
        let before = have.map(|i| self.s.intents[i].1);
        let joined = before.map_or(mode, |b| b.join(mode));
        if before == Some(joined) {
            return Ok(());
        }
        if joined.is_whole() {
            let again = before.is_some_and(Mode::is_whole);
            if let Err(why) = self.db.locks.acquire_whole(&t.lock, joined, self.age, again) {
                return Err(self.refuse(t, why, "(all rows)".into(), Obstacle::Whole(t.id, joined)));
            }
        }
        match have {
            Some(i) => self.s.intents[i].1 = joined,
            None => self.s.intents.push((t.id, joined)),
        }
        self.stays(t)
    }

    pub(super) fn has_whole_table(&self, t: &TableInner) -> bool {
        self.s.intents.iter().any(|i| i.0 == t.id && i.1.is_whole())
    }

    /// The lock that covers the row at `rid`, if it is not that of its primary key.
    pub(super) fn unit(t: &TableInner, rid: Rid) -> Result<Option<u64>> {
        Ok(match t.locking {
            Locking::Record | Locking::None => None,
            Locking::Page => {
                let at = usize::from(rid.slot()) * t.container(rid)?.slot_size;
                Some(name::page(t.id, rid.container(), at / crate::container::PAGE))
            }
            Locking::Container => Some(name::container(t.id, rid.container())),
        })
    }

    /// Takes the lock that a change of the row with this primary key takes, whether there is such a
    /// row or not: so a table without rows can lend its locks to something that is no row.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let stations = db.create_table(Schema::new("station").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let (mut one, mut other) = (db.begin()?, db.begin()?);
    /// one.lock_key(&stations, &[7.into()])?;
    /// assert!(!other.try_lock_key(&stations, &[7.into()])?, "it is taken");
    /// assert!(other.try_lock_key(&stations, &[8.into()])?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn lock_key(&mut self, table: &Table, key: &[Value<'_>]) -> Result<()> {
        self.goes_on()?;
        documented("Transaction::lock_key", || {
            let t = self.table(table)?;
            let (k, h) = self.user_key(t, 0, key)?;
            let locked = if t.locking == Locking::Record {
                let lock = name::key(t.id, 0, h);
                self.lock_table(t, Mode::IntentExclusive)
                    .and_then(|()| self.lock(t, lock, Mode::Exclusive, || t.shown_key(0, &k)).map(|_| ()))
            } else {
                self.locate(t, &k, h, Mode::Exclusive).map(|_| ())
            };
            self.s.key = k;
            locked
        })
    }

    /// As [`Transaction::lock_key`], but without waiting: false if somebody else has the lock, and
    /// then the transaction goes on.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (0..8i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// let mut busy = db.begin()?;
    /// busy.delete(&t, &[0.into()])?;
    /// let mut tx = db.begin()?;
    /// let free = (0..8i64).find(|&id| matches!(tx.try_lock_key(&t, &[id.into()]), Ok(true)));
    /// assert_eq!(free, Some(1), "row 0 is somebody else's, and nobody waited");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if the table is not [`Locking::Record`]: elsewhere a key has no lock of
    /// its own; [`Error::Value`] or [`Error::Operation`] if the key does not fit the primary key.
    pub fn try_lock_key(&mut self, table: &Table, key: &[Value<'_>]) -> Result<bool> {
        self.goes_on()?;
        documented("Transaction::try_lock_key", || {
            let t = self.table(table)?;
            if t.locking != Locking::Record {
                return Err(Error::Operation {
                    table: t.schema.name.clone(),
                    operation: "try the lock of a key",
                    reason: "keys have locks of their own only with Locking::Record".into(),
                });
            }
            let (k, h) = self.user_key(t, 0, key)?;
            self.s.key = k;
            self.lock_table(t, Mode::IntentExclusive)?;
            let name = name::key(t.id, 0, h);
            match self.db.locks.try_acquire(&t.lock, name, Mode::Exclusive, self.age) {
                Ok(Grant::New) => self.s.locks.push(name),
                Ok(Grant::Already) => {}
                Err(_) => return Ok(false),
            }
            self.stays(t).map(|()| true)
        })
    }
}
