//! Fuzzy two-sided checkpoints.
//!
//! 1. G0: a commit number such that everything up to it is applied (the gates are closed for a
//!    moment).
//! 2. Containers that changed since this side's last checkpoint are copied, each under a shared
//!    latch, into this side's file. The other side's file, the last good one, is never touched. No
//!    log repairs the images of a table that is only checkpointed, so they are all of the moment
//!    G0: whoever changes such a container first keeps a copy (`moment.rs`).
//! 3. G1: the last commit number given out. The images hold nothing newer. The file is synced, and
//!    nothing goes on before the durable horizon has reached G1: an image must not know commits
//!    that the log can lose.
//! 4. The manifest names the side, G0, G1 and every image's checksum, and is replaced atomically.
//! 5. Segments whose commits are all at or below G0 are released.

use crate::admin::Admin;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::{HeldBack, Log};
use crate::manifest::{self, Image, Manifest, PublishedCheckpoint};
use crate::medium::MediumFile;
use crate::moment::Moment;
use crate::register::ManifestState;
use crate::sabotage::has_defect;
use crate::schema::Logging;
use crate::sync::{MutexGuard, atomic::Ordering, thread};
use crate::table::TableInner;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether a checkpoint is due.
const LOOK: Duration = Duration::from_millis(50);
/// Pauses between attempts while checkpoints fail.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a checkpoint did.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// let first = db.checkpoint()?;
/// assert!(first.g0 <= first.g1);
/// assert_eq!(first.containers, 1);
/// db.checkpoint()?;                                          // the other side has to copy it too
/// assert_eq!(db.checkpoint()?.containers, 0, "nothing has changed since");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Every commit up to this is in the images; the log before it is not needed any more.
    pub g0: u64,
    /// No commit after this is in the images.
    pub g1: u64,
    /// Containers copied; those not changed since the side's last turn were not.
    pub containers: u64,
    /// Log segments released.
    pub segments: u64,
}

/// A checkpoint under way.
#[doc(hidden)]
#[derive(Debug)]
pub struct Stepwise<'a> {
    engine: &'a Engine,
    admin: MutexGuard<'a, Admin>,
    side: usize,
    g0: u64,
    /// How far the log went, in its own measure, before G0.
    position: u64,
    /// Bytes that had changed without a log before G0.
    unlogged: u64,
    work: Vec<(Arc<TableInner>, u32)>,
    next: usize,
    copied: u64,
    file: Arc<dyn MediumFile>,
    /// Length of the side's file at the beginning, bytes: behind it there is no image.
    length: u64,
    published: bool,
    _moment: Moment,
}

impl Drop for Stepwise<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The side's file is a mixture now: everything has to be copied again.
            for (t, n) in &self.work {
                if let Some(c) = t.containers.get(*n) {
                    c.dirty[self.side].store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

impl<'a> Stepwise<'a> {
    pub(crate) fn begin(engine: &'a Engine) -> Result<Stepwise<'a>> {
        engine.log.require_own_process()?;
        let _held = HeldBack::begin();
        let admin = engine.admin.lock();
        engine.log.register.require_own_manifest(&engine.log)?;
        let same = has_defect!(engine.log.defect, OneSide);
        let published = engine.stated().published.as_ref().map(|p| p.side);
        let side = published.map_or(0, |side| if same { side } else { 1 - side });
        let medium = &*engine.options.medium;
        let path = engine.path.join(manifest::image_name(side));
        let file = match medium.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => medium.create(&path),
            other => other,
        };
        let file = file.map_err(Error::io("open", &path))?;
        let length = file.len().map_err(Error::io("measure", &path))?;
        let position = engine.log.position();
        let unlogged = engine.counters.unlogged();
        let (g0, moment) = engine.begin_moment();
        if let Some(before) = engine.stated().published.as_ref() {
            assert!(g0 >= before.g0, "checkpoints go on: from commit {g0} after {}", before.g0);
            assert!(side != before.side || same, "the side that the manifest names is not written");
        }
        let mut work = moment.work();
        if has_defect!(engine.log.defect, NoCheckpointedTables) {
            work.clear();
        }
        let volatile_too = has_defect!(engine.log.defect, VolatileTablesKept);
        let kept = |t: &&Arc<TableInner>| {
            t.logging == Logging::Logged || (volatile_too && t.logging == Logging::Volatile)
        };
        for t in engine.live_tables().iter().filter(|t| kept(t)) {
            work.extend(t.containers.iter().map(|(n, _)| (t.clone(), n)));
        }
        Ok(Stepwise {
            engine,
            admin,
            side,
            g0,
            position,
            unlogged,
            work,
            next: 0,
            copied: 0,
            file,
            length,
            published: false,
            _moment: moment,
        })
    }

    /// Copies the next changed container. False if there is none left.
    pub fn step(&mut self) -> Result<bool> {
        let size = self.engine.space.container_size;
        while let Some((t, n)) = self.work.get(self.next) {
            self.next += 1;
            let Some(c) = t.containers.get(*n) else { continue };
            let at = u64::from(c.image) * size as u64;
            let copy = {
                let bytes = c.bytes.read();
                // An image without a checksum is none, and none is in a file that was removed or
                // cut since.
                let known = (self.admin.crcs[self.side].contains_key(&(t.id, *n))
                    && at + size as u64 <= self.length)
                    || has_defect!(self.engine.log.defect, ForgetsBeforeManifest);
                match c.take_before() {
                    // It has changed since, so it stays to be copied next time.
                    Some(before) => before,
                    // Writers set it under the exclusive latch, so nothing is missed.
                    None if (!c.dirty[self.side].swap(false, Ordering::Relaxed) && known)
                        || bytes.is_empty() =>
                    {
                        continue;
                    }
                    None => bytes.clone(),
                }
            };
            let path = self.engine.path.join(manifest::image_name(self.side));
            assert_eq!(copy.len(), size, "the image of container {n} is a whole container");
            self.file.write_at(at, &copy).map_err(Error::io("write", &path))?;
            self.admin.crcs[self.side].insert((t.id, *n), crc32c::crc32c(&copy));
            self.copied += 1;
            return Ok(true);
        }
        Ok(false)
    }

    /// Copies the rest and publishes.
    pub fn finish(self) -> Result<CheckpointStats> {
        let _held = HeldBack::begin();
        // The administration's lock goes with it.
        self.publish()
    }

    fn publish(mut self) -> Result<CheckpointStats> {
        while self.step()? {}
        let e = self.engine;
        let g1 = e.log.last();
        assert!(g1 >= self.g0, "commit numbers never fall: {g1} after {}", self.g0);
        let path = e.path.join(manifest::image_name(self.side));
        let synced = self.file.sync().and_then(|()| e.options.medium.sync_dir(&e.path));
        if let Err(err) = synced.map_err(Error::io("sync", &path)) {
            // A directory that could not be opened was not synced, so it can be later.
            if !err.is_for_want_of_files() {
                e.log.poison(&err.to_string());
            }
            return Err(err);
        }
        if !self.file.has_name().map_err(Error::io("look at", &path))? {
            let name = manifest::image_name(self.side);
            return Err(Error::directory(
                &e.path,
                format!("{name} was removed while images were written to it"),
            ));
        }
        if !has_defect!(e.log.defect, NoPublishRule) {
            e.log.flush_all()?;
            let horizon = e.log.horizon();
            assert!(
                horizon >= g1,
                "images hold what is durable: up to commit {g1}, the horizon is {horizon}"
            );
        }
        let mut images = Vec::with_capacity(self.work.len());
        for (t, n) in &self.work {
            let Some(c) = t.containers.get(*n) else { continue };
            // Published without it, the container would be missing at the next opening, and its log
            // gone.
            let Some(&crc) = self.admin.crcs[self.side].get(&(t.id, *n)) else {
                let what = format!(
                    "the image of container {n} of table {} has no checksum, so the checkpoint was given up",
                    t.schema.name
                );
                return Err(Error::Internal { what });
            };
            images.push(Image { table: t.id, number: *n, class: c.class, image: c.image, crc });
        }
        require_places_of_their_own(&images);
        let published = Some(PublishedCheckpoint { side: self.side, g0: self.g0, g1, images });
        // What earlier lives logged is all in the images.
        let stated = e.stated();
        let epochs = stated.epochs.last().copied().into_iter().collect();
        let mut next = ManifestState { published, epochs, ..ManifestState::clone(&stated) };
        // A change may have been stated after later commits had gone out: some are kept for longer.
        let before = stated.published.as_ref().map_or(0, |p| p.g0);
        let asked = e.log.tails.done().map_or(before, |done| done.min(before));
        next.lineage.forget_changes(asked, e.log.tails.known_changes().unwrap_or(u64::MAX));
        let manifest = e.state(&mut self.admin, next)?;
        let on_disk = manifest.checkpoint.as_ref().map(|c| (c.side, c.g0, c.g1));
        assert_eq!(on_disk, Some((self.side, self.g0, g1)), "the manifest names this checkpoint");
        self.published = true;
        e.log.released(self.position);
        e.counters.unlogged_kept.fetch_max(self.unlogged, Ordering::Relaxed);
        let mut segments = 0;
        let upto = if has_defect!(e.log.defect, RecyclesTooMuch) { g1 } else { self.g0 };
        for (s, stated) in e.log.streams.iter().zip(&manifest.logs) {
            segments += s.recycle(&e.log, upto, &stated.segments)? as u64;
        }
        let c = &e.counters;
        c.checkpoints.fetch_add(1, Ordering::Relaxed);
        c.checkpoint_containers.fetch_add(self.copied, Ordering::Relaxed);
        c.recycled.fetch_add(segments, Ordering::Relaxed);
        Ok(CheckpointStats { g0: self.g0, g1, containers: self.copied, segments })
    }
}

/// No two images lie at one place, or one has overwritten the other.
fn require_places_of_their_own(images: &[Image]) {
    let mut places: Vec<u32> = images.iter().map(|i| i.image).collect();
    places.sort_unstable();
    let shared = places.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(shared.is_none(), "two containers have their images at one place: {shared:?}");
}

impl Engine {
    pub(crate) fn checkpoint(&self) -> Result<CheckpointStats> {
        if self.options.reference {
            return Ok(CheckpointStats { g0: 0, g1: 0, containers: 0, segments: 0 });
        }
        let done = Stepwise::begin(self).and_then(Stepwise::finish);
        let failing = match &done {
            Ok(_) => None,
            Err(e) => {
                self.counters.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
                if e.is_full_disk() {
                    self.make_room();
                }
                Some(e.to_string())
            }
        };
        // Commits that find the log full say why it is.
        let mut failure = self.log.checkpoint_failure.lock();
        if failing.is_none() {
            self.log.is_starving.store(false, Ordering::Relaxed);
        }
        *failure = failing.clone();
        drop(failure);
        let mut since = self.counters.failing.lock();
        let began = since.as_ref().map_or_else(Instant::now, |(began, _)| *began);
        *since = failing.map(|why| (began, why));
        drop(since);
        done
    }

    /// A checkpoint had no room: the next one gets that of log which nobody needs for a recovery,
    /// where it lies on the same disk.
    #[cold]
    fn make_room(&self) {
        for stream in self.log.streams.iter().skip(self.options.stream_dirs.len()) {
            // What cannot be removed is not: then there is no room.
            let _ = stream.make_room(&self.log);
        }
    }

    /// What the images of the next two checkpoints take of the disk beyond what their files have,
    /// bytes: each of the sides has all containers then.
    pub(crate) fn images_need(&self) -> u64 {
        let tables = self.live_tables();
        let kept = tables.iter().filter(|t| t.logging != Logging::Volatile);
        let containers: u64 = kept.map(|t| u64::from(t.containers.len())).sum();
        let whole = containers * self.space.container_size as u64;
        let missing = |side| {
            let path = self.path.join(manifest::image_name(side));
            match self.options.medium.open_to_read(&path).and_then(|file| file.len()) {
                Ok(there) => whole.saturating_sub(there),
                Err(e) if e.kind() == io::ErrorKind::NotFound => whole,
                // Nobody knows: it is no reason to refuse anything.
                Err(_) => 0,
            }
        };
        missing(0) + missing(1)
    }

    /// The body of the thread that takes checkpoints. One that fails is tried again, after a pause
    /// that doubles: the cause may be a full disk, and the attempts must not be what keeps it busy.
    pub(crate) fn run_checkpoints(weak: &std::sync::Weak<Engine>, log: &Log) {
        let mut pause = FIRST_PAUSE;
        let mut next = Instant::now();
        while !log.is_stopping() {
            thread::park_timeout(LOOK);
            let Some(engine) = weak.upgrade() else { return };
            let counters = &engine.counters;
            let unlogged = counters.unlogged().saturating_sub(counters.unlogged_kept.load(Ordering::Relaxed));
            // While the log gets no segments, none can make another one due.
            let is_due = log.is_starving.load(Ordering::Relaxed)
                || log.wants_checkpoint(engine.options.checkpoint_log_bytes, unlogged);
            if !is_due || Instant::now() < next || log.is_stopping() || log.is_poisoned() {
                continue;
            }
            match engine.checkpoint() {
                Ok(_) => pause = FIRST_PAUSE,
                Err(e) => {
                    // It is in the statistics. Segments that commits take meanwhile would take what
                    // room there will be, until no checkpoint could ever release them; but not
                    // where all of them have places of their own.
                    let shares_disk = engine.options.stream_dirs.len() < engine.options.streams;
                    let failure = log.checkpoint_failure.lock();
                    // One that was called for may have succeeded since.
                    if shares_disk && e.is_full_disk() && failure.is_some() {
                        log.is_starving.store(true, Ordering::Relaxed);
                    }
                    drop(failure);
                    next = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// What the manifest on the disk states. It stays so while `admin` is locked.
    pub(crate) fn stated(&self) -> Arc<ManifestState> {
        self.log.register.stated()
    }

    /// Makes `next` what the manifest states; see [`crate::register::Register::state`]. Returns the
    /// manifest stored.
    pub(crate) fn state(&self, _admin: &mut Admin, next: ManifestState) -> Result<Manifest> {
        let manifest = self.log.register.state(&self.log, Some(next), false);
        self.log.tails.wake();
        manifest
    }

    /// States that nothing comes after the horizon: the end of a life. Nothing may be committed any
    /// more.
    pub(crate) fn state_closed(&self) -> Result<()> {
        if has_defect!(self.log.defect, ClosesWithoutHorizon) {
            return Ok(());
        }
        let _held = HeldBack::begin();
        let _admin = self.admin.lock();
        self.log.register.state(&self.log, None, true).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::{self, Manifest};
    use crate::{ColumnType, Database, Error, Options, Schema};
    use std::path::Path;

    fn sample(options: Options) -> Database {
        let db = Database::open("/db", options).unwrap();
        let t =
            db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
        (0..9).for_each(|i| db.run(|tx| tx.insert(&t, &[i.into()])).unwrap());
        db.checkpoint().unwrap();
        db.checkpoint().unwrap();
        db
    }

    fn rows(options: Options) -> usize {
        let db = Database::open("/db", options).unwrap();
        db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count()
    }

    /// An image whose slot had seen 2^64 - 1 changes was believed, under a right checksum. The next
    /// change of the row was counted as none, so that no recovery took it from the log.
    #[test]
    fn a_version_that_no_slot_can_have_is_refused() {
        let options = Options::in_memory();
        drop(sample(options.clone()));
        let (medium, dir) = (&*options.medium, Path::new("/db"));
        let mut m = Manifest::load(medium, dir).unwrap().unwrap();
        let mut image = vec![0; m.container_size as usize];
        let c = m.checkpoint.as_mut().unwrap();
        let file = medium.open(&dir.join(manifest::image_name(c.side))).unwrap();
        let at = u64::from(c.images[0].image) * image.len() as u64;
        file.read_at(at, &mut image).unwrap();
        image[..8].fill(0xff);
        file.write_at(at, &image).unwrap();
        c.images[0].crc = crc32c::crc32c(&image);
        m.store(medium, dir).unwrap();
        let refused = Database::open("/db", options.clone()).unwrap_err();
        assert!(
            matches!(&refused, Error::CorruptTable { what, .. } if what.contains("version")),
            "{refused}"
        );
        let saved = crate::salvage("/db", "/saved", &options).unwrap();
        assert_eq!((saved.rows, saved.problems.len()), (8, 1), "{:?}", saved.problems);
    }

    /// A container whose image had no checksum was left out of the checkpoint, whose log was then
    /// recycled: the table was empty at the next opening. Such a container is copied again; should
    /// one still have none in the end, nothing is published.
    #[test]
    fn an_image_without_a_checksum_is_copied_again_and_never_published() {
        let options = Options::in_memory();
        let db = sample(options.clone());
        db.0.engine.admin.lock().crcs.iter_mut().for_each(|side| side.clear());
        assert_eq!((db.checkpoint().unwrap().containers, db.checkpoint().unwrap().containers), (1, 1));
        let mut step = db.checkpoint_stepwise().unwrap();
        while step.step().unwrap() {}
        step.admin.crcs.iter_mut().for_each(|side| side.clear());
        let refused = step.finish().unwrap_err();
        assert!(matches!(&refused, Error::Internal { what } if what.contains("no checksum")), "{refused}");
        drop(db);
        assert_eq!(rows(options), 9);
    }
}
