//! The register: what the manifest on the disk states, and the right to replace it.
//!
//! Tables and checkpoints change what is stated, one at a time, under the lock of
//! [`crate::admin::Admin`], which a checkpoint holds from its beginning to its end. The log
//! cannot wait for that: a segment must be named before it is used, and said to be begun before the
//! first commit in it is acknowledged. So who replaces the file holds the register, and nothing
//! else that anybody waits for under it: the order of locks is admin, register, stream.
//!
//! Every manifest repeats what is stated of tables and checkpoints and adds what the log has come
//! to: its segments and its horizon. Both are evidence of what a log directory must hold, should it
//! be lost, or exchanged for an older copy of itself.

use crate::error::{Error, Result};
use crate::identity::{Identity, Life};
use crate::log::{HeldBack, Log};
use crate::manifest::{Epoch, Manifest, PublishedCheckpoint};
use crate::medium::Medium;
use crate::options::{LogKind, Options};
use crate::sabotage::has_defect;
use crate::schema::Schema;
use crate::standby::Lineage;
use crate::sync::{self, Mutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Manifests that are stored only to state the horizon are longer apart if they are larger: by
/// [`Options::manifest_interval`] for each of these, bytes.
const PIECE: u64 = 1 << 20;

/// What the manifest on the disk states of tables, lives and checkpoints. It is never changed in
/// place: [`Register::state`] takes the place of it with another one once that is stored. So a
/// failure leaves behind what was there before, whole.
#[derive(Clone, Debug)]
pub(crate) struct ManifestState {
    pub(crate) identity: Identity,
    /// The life before this one, until the marks of all streams name this one.
    pub(crate) before: Option<Life>,
    pub(crate) next_table: u32,
    pub(crate) schemas: Vec<(u32, Schema)>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) published: Option<PublishedCheckpoint>,
    pub(crate) lineage: Lineage,
}

impl ManifestState {
    /// Nothing, for a database without files.
    pub(crate) fn nothing() -> ManifestState {
        let identity = Identity::random();
        ManifestState {
            identity,
            lineage: Lineage::new(identity),
            before: None,
            next_table: 1,
            schemas: Vec::new(),
            epochs: Vec::new(),
            published: None,
        }
    }

    pub(crate) fn life(&self) -> Option<Life> {
        self.epochs.last().map(|e| e.life())
    }
}

/// The evidence that is on the disk.
#[derive(Debug)]
struct Current {
    stated: Arc<ManifestState>,
    horizon: u64,
    /// Length of the manifest, bytes.
    bytes: u64,
    /// When it was last tried to store one.
    tried: Instant,
}

impl Current {
    /// Whether a manifest may take the place of the one on the disk: it is of the same life, and
    /// takes nothing back.
    fn require_successor(&self, next: &Manifest) {
        let stated = &*self.stated;
        assert!(
            next.horizon >= self.horizon,
            "what is stated to be durable stays so: commit {} after {}",
            next.horizon,
            self.horizon
        );
        assert!(next.next_table >= stated.next_table, "no table's number is given again");
        assert!(next.lineage.follows(&stated.lineage), "of a lineage nothing is taken back");
        assert!(next.identity == stated.identity && next.life() == stated.life(), "a life is one database's");
        let g1 = |p: Option<&PublishedCheckpoint>| p.map_or(0, |p| p.g1);
        let (before, now) = (g1(stated.published.as_ref()), g1(next.checkpoint.as_ref()));
        assert!(now >= before, "checkpoints go on: to commit {now} after {before}");
        assert!(
            now <= next.horizon || next.checkpoint == stated.published,
            "what a checkpoint holds is durable: up to commit {now}, the horizon is {}",
            next.horizon
        );
    }
}

#[derive(Debug)]
pub(crate) struct Register {
    /// The database's directory; `None` for a database without files.
    place: Option<(Arc<dyn Medium>, PathBuf)>,
    container_size: u32,
    kind: LogKind,
    /// Within so much time of its acknowledgement a commit is to be stated.
    within: Duration,
    current: Mutex<Current>,
}

impl Register {
    /// The register of the database in directory `path`, whose manifest states `stated` before
    /// anybody uses the log.
    pub(crate) fn new(
        path: &Path,
        options: &Options,
        container_size: usize,
        stated: ManifestState,
    ) -> Register {
        let current = Current { stated: Arc::new(stated), horizon: 0, bytes: 0, tried: Instant::now() };
        Register {
            place: (!options.reference).then(|| (options.medium.clone(), path.to_path_buf())),
            container_size: container_size as u32,
            kind: options.log_kind,
            within: options.manifest_interval,
            current: Mutex::new(current),
        }
    }

    pub(crate) fn stated(&self) -> Arc<ManifestState> {
        self.current.lock().stated.clone()
    }

    /// Takes something for stated that was stored otherwise, or (defects for tests) was not.
    pub(crate) fn assume(&self, stated: ManifestState) {
        self.current.lock().stated = Arc::new(stated);
    }

    /// The manifest that states this, with what the log holds now.
    pub(crate) fn manifest(&self, log: &Log, stated: &ManifestState) -> Manifest {
        let too_much = has_defect!(log.defect, RecyclesTooMuch);
        let g0 = stated.published.as_ref().map_or(0, |p| if too_much { p.g1 } else { p.g0 });
        // Before the inventory: a commit that is durable by now is in a segment that the inventory
        // has.
        let horizon = log.horizon();
        Manifest {
            identity: stated.identity,
            container_size: self.container_size,
            kind: self.kind,
            closed: false,
            horizon,
            before: stated.before,
            epochs: stated.epochs.clone(),
            next_table: stated.next_table,
            tables: stated.schemas.clone(),
            logs: log.streams.iter().map(|s| s.inventory(g0)).collect(),
            checkpoint: stated.published.clone(),
            lineage: stated.lineage.clone(),
        }
    }

    pub(crate) fn kind(&self) -> LogKind {
        self.kind
    }

    /// States, of a log that is poisoned and writes nothing more, what `change` makes of it.
    pub(crate) fn state_last(&self, log: &Log, change: impl FnOnce(&mut ManifestState)) -> Result<()> {
        let _held = HeldBack::begin();
        let mut current = self.current.lock();
        let mut next = ManifestState::clone(&current.stated);
        change(&mut next);
        if let Some((medium, path)) = self.place.as_ref().filter(|_| !log.is_forked()) {
            self.require_own(log, &current.stated)?;
            let manifest = self.manifest(log, &next);
            current.require_successor(&manifest);
            manifest.store(&**medium, path).map_err(|e| e.1)?;
            current.horizon = manifest.horizon;
        }
        current.stated = Arc::new(next);
        Ok(())
    }

    /// Stores a manifest of the log as it is, which states `next` of all else, or the same as
    /// before; `closed` says that nothing will come after it. Afterwards the segments that it names
    /// may be used. After an error everything is as it was; if it is unknown which of two manifests
    /// is on the disk, the database is poisoned: a further checkpoint might overwrite the side that
    /// the disk's names.
    pub(crate) fn state(&self, log: &Log, next: Option<ManifestState>, closed: bool) -> Result<Manifest> {
        // A failure poisons, and wakes whoever waits.
        let _held = HeldBack::begin();
        let mut current = self.current.lock();
        current.tried = Instant::now();
        let next = next.map_or_else(|| current.stated.clone(), Arc::new);
        let Some((medium, path)) = &self.place else {
            let manifest = self.manifest(log, &next);
            current.stated = next;
            log.tails.has_changed(&current.stated.lineage);
            return Ok(manifest);
        };
        log.require_own_process()?;
        self.require_own(log, &current.stated)?;
        let manifest = Manifest { closed, ..self.manifest(log, &next) };
        current.require_successor(&manifest);
        let stored = manifest.store(&**medium, path);
        current.bytes = stored.map_err(|(maybe, err)| {
            if maybe {
                log.poison(&err.to_string());
            }
            err
        })?;
        current.stated = next;
        current.horizon = manifest.horizon;
        log.tails.has_changed(&current.stated.lineage);
        for (s, inventory) in log.streams.iter().zip(&manifest.logs) {
            s.named(inventory.next);
        }
        Ok(manifest)
    }

    /// How often to look whether the horizon is to be stated.
    pub(crate) fn look(&self) -> Duration {
        (self.within / 2).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    /// States the horizon, if it has moved and nobody has done so for a while. What cannot be
    /// stored now is tried again later.
    pub(crate) fn state_progress(&self, log: &Log) {
        let is_due = {
            let current = self.current.lock();
            let times = u32::try_from(1 + current.bytes / PIECE).unwrap_or(u32::MAX);
            let pause = self.within.saturating_sub(self.look()).saturating_mul(times);
            log.horizon() > current.horizon && sync::has_passed(current.tried, pause)
        };
        if is_due {
            let _ = self.state(log, None, false);
        }
    }

    /// Refuses to go on if the directory is not the one that was opened, to which the lock belongs:
    /// if that was moved away, there may be another database in its place.
    pub(crate) fn require_own_manifest(&self, log: &Log) -> Result<()> {
        self.require_own(log, &self.stated())
    }

    fn require_own(&self, log: &Log, stated: &ManifestState) -> Result<()> {
        let Some((medium, path)) = &self.place else { return Ok(()) };
        let there = match Manifest::load(&**medium, path) {
            // What was written here can be read.
            Err(Error::Corrupt { .. }) => None,
            there => there?,
        };
        let is_ours = |m: &Manifest| m.identity == stated.identity && m.life() == stated.life();
        if there.as_ref().is_some_and(is_ours) {
            return Ok(());
        }
        let what = "MANIFEST is not the one that was written here: the directory was replaced or emptied, or the file \
                    written to, while the database was open";
        let err = Error::directory(path, what);
        log.poison(&err.to_string());
        Err(err)
    }
}
