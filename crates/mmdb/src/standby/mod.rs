//! Standbys: databases that take the commits of another one, its primary.
//!
//! A primary's frames are differences of slots, so a standby has the same slots: it begins as a
//! copy of the primary's containers, and each frame is applied where it was made, and logged under
//! the same number. So a standby recovers as any database does, and what it has is what its own log
//! has. `docs/standby.md` has the states and what is guaranteed.

mod apply;
mod change;
mod confirm;
mod frames;
mod lineage;
mod position;
mod primary;
mod reader;
mod tail;
mod tails;

pub use confirm::Confirmation;
pub use frames::Frames;
pub(crate) use lineage::{Lineage, MANY_CHANGES, MAX_EPOCH, Role};
pub use position::Position;
pub use tail::Tail;
pub(crate) use tails::Tails;

use crate::checkpoint::CheckpointStats;
use crate::database::Database;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::log::HeldBack;
use crate::options::{LogKind, Options};
use crate::register::ManifestState;
use crate::sabotage::has_defect;
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::sync::Mutex;
use crate::table::Table;
use frames::{Entry, Place};
use lineage::Fence;
use std::path::Path;
use std::time::Duration;

/// A database that takes the commits of a primary, in order, and shows them. It is durable by
/// itself: it has a log and checkpoints of its own, survives a crash, and goes on where it stood.
///
/// It has no network: whoever embeds it brings the [`Frames`] of the primary's [`Tail`] to
/// [`Standby::apply`], and the [`Position`] that this returns back to
/// [`Database::acknowledge`].
///
/// ```
/// use mmdb::{ColumnType, Database, Options, Schema, Standby};
/// let options = Options::in_memory();
/// let primary = Database::open("/primary", options.clone())?;
/// let t = primary.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// primary.run(|tx| tx.insert(&t, &[1.into()]))?;
///
/// primary.backup_for_standby("/standby")?;
/// let standby = Standby::open("/standby", options)?;
/// primary.run(|tx| tx.insert(&t, &[2.into()]))?;
/// let mut tail = primary.tail(&standby.position())?;
/// let frames = tail.try_next()?.expect("a commit is durable");
/// let position = standby.apply(&frames)?;
/// primary.acknowledge("the other machine", &position)?;
/// assert_eq!(standby.snapshot()?.scan(&standby.table("t")?)?.count(), 2);
///
/// drop((tail, t, primary));
/// let db = standby.promote(2)?;                              // epoch 2: the old primary is fenced off
/// let t = db.table("t")?;
/// db.run(|tx| tx.insert(&t, &[3.into()]))?;
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct Standby {
    db: Database,
    /// One applies at a time.
    applier: Mutex<apply::Applier>,
    /// For the time after a promotion.
    expire_interval: Duration,
}

impl Standby {
    /// Opens a standby: a copy that [`Database::backup_for_standby`] made, or one that was opened
    /// before. It recovers as a database does.
    ///
    /// ```
    /// use mmdb::{Database, Error, Options, Standby};
    /// let options = Options::in_memory();
    /// let primary = Database::open("/primary", options.clone())?;
    /// primary.backup_for_standby("/standby")?;
    /// let refused = Database::open("/standby", options.clone());
    /// assert!(matches!(refused, Err(Error::Directory { .. })), "it is a standby");
    /// assert!(Standby::open("/standby", options).is_ok());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::open`]; [`Error::Directory`] for what is no standby; [`Error::NoDatabase`];
    /// [`Error::Unsupported`] with [`Options::reference`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Standby> {
        documented("Standby::open", || {
            if options.reference {
                let reason = "a database that is opened with Options::reference logs nothing";
                return Err(Error::Unsupported { operation: "open a standby", reason });
            }
            let expire_interval = options.expire_interval;
            // Rows expire at the primary, and are deleted here as any other row is.
            let options = Options { expire_interval: Duration::ZERO, ..options };
            let db = Database::open_as(path.as_ref(), options, Role::Standby)?;
            Ok(Standby { db, applier: Mutex::default(), expire_interval })
        })
    }

    /// Applies frames, and makes them durable here. What the standby has already is passed over, so
    /// frames may come twice. Snapshots that are open are not disturbed.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema, Standby};
    /// # use mmdb::Error;
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// let t = primary.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// let mut tail = primary.tail(&standby.position())?.batch_bytes(1);
    /// (1..=2).try_for_each(|id| primary.run(|tx| tx.insert(&t, &[id.into()])))?;
    /// let (first, second) = (tail.try_next()?.expect("it is there"), tail.try_next()?.expect("it is there"));
    /// assert!(matches!(standby.apply(&second), Err(Error::FramesGap { gsn: 2, needed: 1 })));
    /// standby.apply(&first)?;
    /// standby.apply(&first)?;                                    // again: nothing happens
    /// assert_eq!(standby.apply(&second)?.gsn(), 2);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesGap`], [`Error::FramesForeign`], [`Error::FramesOutdated`] and
    /// [`Error::Options`] (another [`Options::log_kind`]): nothing was applied.
    /// [`Error::LogFull`], [`Error::TransactionTooLarge`], [`Error::FramesDamaged`],
    /// [`Error::OutOfMemory`], [`Error::MemoryLimit`] of a new index, and [`Error::Io`] of a
    /// change's manifest: what came before was applied, and the same frames can be given again.
    /// [`Error::Poisoned`] after a failed write or sync, [`Error::Directory`] if the directory was
    /// replaced or the log deleted: open it again.
    pub fn apply(&self, frames: &Frames) -> Result<Position> {
        documented("Standby::apply", || {
            let e = &self.db.0.engine;
            let _held = HeldBack::begin();
            let mut applier = self.applier.lock();
            e.log.check()?;
            self.admit(frames)?;
            let have = Place { gsn: e.log.last(), change: e.stated().lineage.last_change };
            let from = frames.head.from;
            let has_gap = from.gsn > have.gsn || from.change > have.change;
            if has_gap && !has_defect!(e.log.defect, AppliesGaps) {
                return Err(Error::FramesGap { gsn: from.gsn + 1, needed: have.gsn + 1 });
            }
            let done = frames.entries().try_for_each(|entry| match entry {
                Entry::Frame(gsn, body) if gsn > have.gsn => applier.apply(e, gsn, body),
                Entry::Change(change) if change.number > have.change => e.follow_change(*change),
                _ => Ok(()),
            });
            let flushed = match has_defect!(e.log.defect, AcknowledgesUndurable) {
                true => Ok(()),
                false => e.log.flush_all(),
            };
            done.and(flushed)?;
            Ok(self.position())
        })
    }

    /// Refuses frames of another history or a deposed primary; notes a new epoch, durably.
    fn admit(&self, frames: &Frames) -> Result<()> {
        let e = &self.db.0.engine;
        let (stated, head) = (e.stated(), &frames.head);
        let own = &stated.lineage;
        if head.lineage != own.id {
            let reason = format!("the frames are of lineage {}, and this is of {}", head.lineage, own.id);
            return Err(Error::FramesForeign { reason });
        }
        let (epoch, least) = (frames.epoch(), own.fenced.max(own.epoch()));
        if epoch < least && !has_defect!(e.log.defect, FollowsDeposed) {
            return Err(Error::FramesOutdated { epoch, least });
        }
        let count = own.fences.len();
        let believed = has_defect!(e.log.defect, FollowsForeign | FollowsDeposed);
        if head.fences.get(..count) != Some(&own.fences[..]) && !believed {
            let reason = format!(
                "the frames are of an epoch {epoch} that did not come after epoch {} of this standby",
                own.epoch()
            );
            return Err(Error::FramesForeign { reason });
        }
        if head.kind != e.log.register.kind() {
            let kind = if head.kind == LogKind::AfterImage { "AfterImage" } else { "Differential" };
            let reason =
                format!("has to be LogKind::{kind}, as the primary's is; open the standby again with it");
            return Err(Error::Options { option: "log_kind", reason });
        }
        let Some(next) = head.fences.get(count) else { return Ok(()) };
        if (e.log.last() > next.after || own.last_change > next.changes) && !believed {
            let reason = format!(
                "this standby has commits up to {} of epoch {}, which ended with commit {}",
                e.log.last(),
                own.epoch(),
                next.after
            );
            return Err(Error::FramesForeign { reason });
        }
        let fences = head.fences.clone();
        self.state(|lineage| lineage.fences = fences)
    }

    /// Makes what `change` does to the lineage durable.
    fn state(&self, change: impl FnOnce(&mut Lineage)) -> Result<()> {
        let e = &self.db.0.engine;
        let _held = HeldBack::begin();
        let mut admin = e.admin.lock();
        let before = e.stated();
        let mut next = ManifestState::clone(&before);
        change(&mut next.lineage);
        let is_promoted = next.lineage.role != before.lineage.role;
        let is_fenced = !is_promoted && next.lineage.fenced != before.lineage.fenced;
        if (is_promoted && has_defect!(e.log.defect, PromotesWithoutManifest))
            || (is_fenced && has_defect!(e.log.defect, FencesWithoutManifest))
        {
            e.log.register.assume(next);
            return Ok(());
        }
        e.state(&mut admin, next).map(drop)
    }

    /// What is durable here: to begin a [`Tail`] with, and to acknowledge.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// let primary = Database::open("/primary", options.clone())?;
    /// primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// assert_eq!(standby.position(), primary.position()?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn position(&self) -> Position {
        let e = &self.db.0.engine;
        // What is stated is stated after all commits before it were durable.
        let lineage = e.stated();
        let early = has_defect!(e.log.defect, AcknowledgesUndurable);
        Position::of(&lineage.lineage, if early { e.log.last() } else { e.log.horizon() })
    }

    /// The database as far as it is applied; see [`Database::snapshot`].
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// assert_eq!(standby.snapshot()?.gsn(), 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        self.db.snapshot()
    }

    /// The named table, to be read in a snapshot.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema, Standby};
    /// # let options = Options::in_memory();
    /// let primary = Database::open("/primary", options.clone())?;
    /// primary.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// assert_eq!(standby.table("t")?.name(), "t");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.db.table(name)
    }

    /// All tables, in order of creation.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// assert!(Standby::open("/standby", options)?.tables().is_empty());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        self.db.tables()
    }

    /// What the standby is doing. `last_gsn` is what is applied, `horizon` what is durable.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// assert_eq!(Standby::open("/standby", options)?.stats().last_gsn, 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.db.stats()
    }

    /// Takes a checkpoint; by itself one comes as in any database.
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// assert_eq!(Standby::open("/standby", options)?.checkpoint()?.g0, 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::checkpoint`].
    pub fn checkpoint(&self) -> Result<CheckpointStats> {
        self.db.checkpoint()
    }

    /// Promises, durably, to take nothing more of epochs below `epoch`, and tells what is durable
    /// here. Where a commit waits for `k` of `n` standbys, fence `n - k + 1` of them with the epoch
    /// to come, and promote the one of these with the greatest position: it has every such commit.
    ///
    /// ```
    /// # use mmdb::{Database, Error, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options)?;
    /// let mut tail = primary.tail(&standby.position())?;
    /// let frames = tail.try_next()?.expect("it introduces the primary");
    /// let position = standby.fence(2)?;
    /// assert_eq!((position.epoch(), position.fenced()), (1, 2));
    /// assert!(matches!(standby.apply(&frames), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
    /// // The primary learns of it, and acknowledges nothing more.
    /// assert!(matches!(primary.acknowledge("s", &position), Err(Error::Deposed { epoch: 1, by: 2 })));
    /// assert!(primary.begin().is_err());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesOutdated`] if the standby is in that epoch or a later one, or was fenced with a
    /// later one; [`Error::Unsupported`] above 2^60; [`Error::Io`], [`Error::Poisoned`];
    /// [`Error::Directory`] if the directory was replaced or the log deleted.
    pub fn fence(&self, epoch: u64) -> Result<Position> {
        documented("Standby::fence", || {
            let _held = HeldBack::begin();
            let _alone = self.applier.lock();
            self.require_newer(epoch)?;
            self.db.0.engine.log.flush_all()?;
            if self.db.0.engine.stated().lineage.fenced != epoch {
                self.state(|lineage| lineage.fenced = epoch)?;
            }
            Ok(self.position())
        })
    }

    fn require_newer(&self, epoch: u64) -> Result<()> {
        let stated = self.db.0.engine.stated();
        let least = stated.lineage.fenced.max(stated.lineage.epoch() + 1);
        if epoch < least {
            return Err(Error::FramesOutdated { epoch, least });
        }
        if epoch > MAX_EPOCH {
            let operation = "begin an epoch of that number";
            return Err(Error::Unsupported { operation, reason: "epochs are numbered up to 2^60" });
        }
        Ok(())
    }

    /// Makes the standby the primary of its lineage, in `epoch`, which must be later than every one
    /// before. That is durable when this returns, before anything is written here. Whoever follows
    /// it refuses the primary of before from then on.
    ///
    /// It begins with what the standby has. What the primary of before had acknowledged and never
    /// brought here is lost: see [`Standby::fence`] and [`crate::Ticket::wait_standbys`].
    ///
    /// ```
    /// # use mmdb::{Database, Error, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// let standby = Standby::open("/standby", options.clone())?;
    /// let refused = standby.promote(1);
    /// assert!(matches!(refused, Err(Error::FramesOutdated { epoch: 1, least: 2 })));
    /// let db = Standby::open("/standby", options)?.promote(2)?;
    /// assert_eq!(db.position()?.epoch(), 2);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Standby::fence`]; [`Error::Unsupported`] of a lineage that had 65,536 epochs, too;
    /// [`Error::Io`] if a thread was refused. It can be opened again, as what it was, or, if that
    /// was stated already, with [`Database::open`].
    pub fn promote(self, epoch: u64) -> Result<Database> {
        documented("Standby::promote", || {
            let e = &self.db.0.engine;
            self.require_newer(epoch)?;
            e.log.flush_all()?;
            let after = e.log.last();
            if e.stated().lineage.is_full(after) {
                let operation = "begin another epoch";
                return Err(Error::Unsupported { operation, reason: "a lineage has 65,536 epochs at most" });
            }
            // No frame kept the lists of free slots.
            e.live_tables().iter().for_each(|t| t.collect_free_again());
            self.state(|lineage| {
                lineage.forget_epochs_behind(after);
                let fence: Fence = lineage.next_fence(epoch, after);
                lineage.fences.push(fence);
                (lineage.role, lineage.fenced, lineage.recorded) = (Role::Primary, epoch, true);
            })?;
            self.db.0.start_expiry(self.expire_interval)?;
            Ok(self.db)
        })
    }

    /// Closes the standby; see [`Database::close`].
    ///
    /// ```
    /// # use mmdb::{Database, Options, Standby};
    /// # let options = Options::in_memory();
    /// # let primary = Database::open("/primary", options.clone())?;
    /// # primary.backup_for_standby("/standby")?;
    /// Standby::open("/standby", options)?.close()?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }

    /// Checks the indexes against the rows.
    #[doc(hidden)]
    pub fn verify(&self) -> Result<()> {
        let _alone = self.applier.lock();
        self.db.verify()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    /// A promotion to one epoch more than a manifest is read with was stated, and no opening could
    /// read the manifest again.
    #[test]
    fn a_lineage_with_as_many_epochs_as_can_be_is_not_promoted_again() {
        let options = Options::in_memory();
        let primary = Database::open("/primary", options.clone()).unwrap();
        primary.backup_for_standby("/standby").unwrap();
        let dir = Path::new("/standby");
        let mut m = Manifest::load(&*options.medium, dir).unwrap().unwrap();
        let most = 1 << 16;
        m.lineage.fences = (1..most).map(|epoch| Fence { epoch, ..Fence::FIRST }).collect();
        m.store(&*options.medium, dir).unwrap();
        let open = || Standby::open("/standby", options.clone()).unwrap();
        // The last one that can be.
        drop(open().promote(most).unwrap());
        let mut m = Manifest::load(&*options.medium, dir).unwrap().unwrap();
        assert_eq!((m.lineage.fences.len(), m.lineage.role), (1 << 16, Role::Primary));
        m.lineage.role = Role::Standby;
        m.store(&*options.medium, dir).unwrap();
        let refused = open().promote(most + 1).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
        assert_eq!(open().position().epoch(), most, "it is as it was");
    }
}
