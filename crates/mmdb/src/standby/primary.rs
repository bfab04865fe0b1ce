//! What a primary does for its standbys.

use super::lineage::Role;
use super::position::Position;
use super::tail::{Tail, require_past};
use crate::admin::Admin;
use crate::backup::BackupStats;
use crate::database::Database;
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::HeldBack;
use crate::register::ManifestState;
use crate::sabotage::has_defect;
use std::path::Path;

impl Database {
    /// Copies the database into the empty directory `to` (on the same medium), for a standby to
    /// begin with, while transactions go on: every commit that was durable when this was called is
    /// in it. Its directory may be brought to another machine, and is opened by
    /// [`crate::Standby::open`]. No log is kept for it on its way: open a [`Database::tail`] at
    /// [`Database::position`] before, and drop it when the standby's own is open, or a checkpoint
    /// may release what the standby needs first. [`Database::backup`] is another thing: a database
    /// of its own.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// let options = Options::in_memory();
    /// let primary = Database::open("/primary", options.clone())?;
    /// let copied = primary.backup_for_standby("/standby")?;
    /// assert_eq!(Standby::open("/standby", options)?.position().gsn(), copied.gsn);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::backup`].
    pub fn backup_for_standby(&self, to: impl AsRef<Path>) -> Result<BackupStats> {
        documented("Database::backup_for_standby", || self.0.engine.copy_to(to.as_ref(), true))
    }

    /// What is durable here, as a position in the lineage that standbys follow.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// assert_eq!(db.position()?.gsn(), db.horizon());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] with [`crate::Options::reference`].
    pub fn position(&self) -> Result<Position> {
        documented("Database::position", || {
            let e = &self.0.engine;
            e.require_log("tell a position")?;
            let horizon = e.log.horizon();
            Ok(Position::of(&e.stated().lineage, horizon))
        })
    }

    /// The durable commits behind `from`, in order, as they come: what a standby needs that stands
    /// there.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let from = db.position()?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let frames = db.tail(&from)?.try_next()?.expect("a commit is durable");
    /// assert_eq!(frames.last_gsn(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TailLost`] if the log from there on is not there any more; [`Error::FramesForeign`]
    /// if the position is not of this database's past; [`Error::Deposed`] if it is of a later epoch,
    /// or fenced with one: then this database is deposed; [`Error::Io`] or [`Error::Directory`] in
    /// its place if that could not be stated, as of [`Database::depose`], or that there are standbys.
    /// [`Error::Poisoned`]; [`Error::Unsupported`] with [`crate::Options::reference`].
    pub fn tail(&self, from: &Position) -> Result<Tail> {
        documented("Database::tail", || {
            let e = &self.0.engine;
            e.require_log("open a tail")?;
            e.heed(from)?;
            if !e.stated().lineage.recorded {
                let _held = HeldBack::begin();
                e.record_changes(&mut e.admin.lock())?;
            }
            Tail::open(e.log.clone(), &e.stated().lineage, from)
        })
    }

    /// Counts a standby's position as an acknowledgement of all commits up to it:
    /// [`crate::Ticket::wait_standbys`] waits for these. `standby` is its name, one for each; until
    /// [`Database::forget_standby`] the log that it needs to go on is kept, up to
    /// [`crate::Options::tail_log_bytes`]. After an opening none is known. Of one name the greatest
    /// position counts, for they may overtake each other: a standby that begins again with an older
    /// copy is forgotten first, or has another name.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// let primary = Database::open("/primary", options.clone())?;
    /// primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// primary.acknowledge("s", &standby.position())?;
    /// assert_eq!(primary.stats().standbys, [("s".to_owned(), 0)]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesForeign`] if the position is not of this database's past; [`Error::Deposed`] if
    /// it is of a later epoch, or fenced with one: then this database is deposed, and nothing is
    /// acknowledged here any more; [`Error::Io`] or [`Error::Directory`] in its place if that could
    /// not be stated, as of [`Database::depose`]. [`Error::Poisoned`]; [`Error::Unsupported`] with
    /// [`crate::Options::reference`].
    pub fn acknowledge(&self, standby: &str, position: &Position) -> Result<()> {
        documented("Database::acknowledge", || {
            let e = &self.0.engine;
            e.require_log("count an acknowledgement")?;
            e.heed(position)?;
            if !has_defect!(e.log.defect, CountsForeign) {
                require_past(&e.stated().lineage, position, e.log.horizon())?;
            }
            e.log.tails.acknowledge(standby, *position);
            Ok(())
        })
    }

    /// Forgets a standby that is gone for good: its acknowledgements do not count any more, and no
    /// log is kept for it. Whether it was known.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// db.acknowledge("s", &db.position()?)?;
    /// assert!(db.forget_standby("s") && !db.forget_standby("s"));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn forget_standby(&self, standby: &str) -> bool {
        self.0.engine.log.tails.forget(standby)
    }

    /// Says that there is a primary of a later epoch: whoever carries the frames has learned it,
    /// for they were refused. From now on nothing is acknowledged here, and whoever waits gets
    /// [`Error::Deposed`]; it is stated in the manifest, so that the database is not opened as a
    /// primary again.
    ///
    /// ```
    /// # use mmdb::{Database, Error, Options};
    /// let options = Options::in_memory();
    /// let db = Database::open("/db", options.clone())?;
    /// db.depose(2)?;
    /// assert!(matches!(db.begin(), Err(Error::Deposed { epoch: 1, by: 2 })));
    /// drop(db);
    /// assert!(matches!(Database::open("/db", options), Err(Error::Directory { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesOutdated`] if this database is in that epoch or a later one: nothing happens.
    /// [`Error::Io`], or [`Error::Directory`] of one that was replaced, if it could not be stated;
    /// it is deposed all the same, until it is opened again.
    /// [`Error::Unsupported`] with [`crate::Options::reference`].
    pub fn depose(&self, by: u64) -> Result<()> {
        documented("Database::depose", || {
            let e = &self.0.engine;
            e.require_log("depose it")?;
            let epoch = e.stated().lineage.epoch();
            if by <= epoch {
                return Err(Error::FramesOutdated { epoch: by, least: epoch + 1 });
            }
            e.depose(by)
        })
    }
}

impl Engine {
    fn require_log(&self, operation: &'static str) -> Result<()> {
        if self.options.reference {
            let reason = "a database that is opened with Options::reference logs nothing";
            return Err(Error::Unsupported { operation, reason });
        }
        Ok(())
    }

    /// Looks whether a standby knows of a later epoch: then this database is deposed.
    fn heed(&self, position: &Position) -> Result<()> {
        self.log.check()?;
        let stated = self.stated();
        let (epoch, by) = (stated.lineage.epoch(), position.fenced());
        if position.lineage != stated.lineage.id || by <= epoch {
            return Ok(());
        }
        // Where it cannot be stated it is so all the same, and that is what whoever calls has to
        // know: this database would be opened as a primary again.
        self.depose(by)?;
        Err(Error::Deposed { epoch, by })
    }

    fn depose(&self, by: u64) -> Result<()> {
        let epoch = self.stated().lineage.epoch();
        // First of all nothing more is acknowledged.
        if !has_defect!(self.log.defect, DeposedGoesOn) {
            self.log.depose(epoch, by);
        }
        if has_defect!(self.log.defect, DeposesWithoutManifest | DeposedGoesOn) {
            return Ok(());
        }
        self.log.register.state_last(&self.log, |stated| {
            // News of several epochs may come in any order.
            (stated.lineage.role, stated.lineage.fenced) = (Role::Deposed, stated.lineage.fenced.max(by));
        })
    }

    /// From now on changes of definitions are kept for standbys, durably.
    pub(crate) fn record_changes(&self, admin: &mut Admin) -> Result<()> {
        let mut next = ManifestState::clone(&self.stated());
        if next.lineage.recorded {
            return Ok(());
        }
        next.lineage.recorded = true;
        self.state(admin, next).map(drop)
    }

    /// Before `next` is stated, in which table `id` is defined anew or missing: notes that for
    /// standbys. No commit that is numbered knows of it, and none will before it is stated.
    pub(crate) fn note_change(&self, next: &mut ManifestState, id: u32) {
        if !next.lineage.recorded {
            return;
        }
        let schema = next.schemas.iter().find(|(number, _)| *number == id).map(|(_, schema)| schema.clone());
        next.lineage.note(self.log.last(), id, next.next_table, schema);
    }
}

#[cfg(test)]
mod tests {
    use crate::register::ManifestState;
    use crate::{ColumnType, Database, Options, Schema, Standby};

    /// A change is noted behind the last commit, and stated a little later: commits in between may
    /// go out before it. A tail that had given these, and was slow to ask for the change, was told
    /// that the log was lost, for two checkpoints forgot what came before the last commit given.
    #[test]
    fn a_change_is_kept_for_a_tail_that_gave_later_commits_before_it() {
        let options = Options { background: false, ..Options::in_memory() };
        let db = Database::open("/primary", options.clone()).unwrap();
        let schema = |name| Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"]);
        let t = db.create_table(schema("t")).unwrap();
        let put = |id: i64| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap();
        put(1);
        db.backup_for_standby("/standby").unwrap();
        let standby = Standby::open("/standby", options).unwrap();
        let mut tail = db.tail(&standby.position()).unwrap();
        let e = &db.0.engine;
        let number = {
            let mut admin = e.admin.lock();
            let mut next = ManifestState::clone(&e.stated());
            let number = next.next_table;
            next.next_table += 1;
            next.schemas.push((number, schema("u")));
            e.note_change(&mut next, number);
            put(2);
            let first = tail.try_next().unwrap().unwrap();
            assert_eq!(standby.apply(&first).unwrap().gsn(), 2);
            e.state(&mut admin, next).unwrap();
            number
        };
        for _ in 0..3 {
            db.checkpoint().unwrap();
        }
        let change = tail.try_next().expect("what it asks for is kept").unwrap();
        standby.apply(&change).unwrap();
        assert_eq!(standby.table("u").unwrap().0.id, number);
        // Nobody asks for it any more.
        for _ in 0..2 {
            db.checkpoint().unwrap();
        }
        assert!(e.stated().lineage.changes.is_empty());
    }
}
