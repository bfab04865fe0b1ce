//! Opening: images, then the log, then the indexes. The rules are numbered in `docs/recovery.md`.

pub(crate) mod buffer;
mod doubles;
pub(crate) mod replay;
mod report;
mod room;
#[cfg(test)]
mod salvaging;
pub(crate) mod scan;
pub(crate) mod survey;

use crate::admin::Admin;
use crate::container::{CLASSES, Container, MAX_CONTAINERS, Rid, Slot};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::{self, Identity, Life};
use crate::key::{self, KeyBuf};
use crate::log::frame::MAX_GSN;
use crate::log::mark::{self, Mark};
use crate::log::stream::{Closed, Place, Stream};
use crate::log::{Log, segment};
use crate::manifest::{self, Epoch, Image, Inventory, Manifest};
use crate::options::{MAX_STREAMS, Options};
use crate::register::{ManifestState, Register};
use crate::sabotage::{Defect, has_defect};
use crate::schema::{IndexDef, Logging, Schema};
use crate::spawner::Spawner;
use crate::standby::{Lineage, Role, Tails};
use crate::table::{Space, TableInner};
use buffer::Buffer;
use doubles::Entries;
use replay::{NAMED, Work, Worker};
pub use report::RecoveryReport;
use room::Room;
use scan::ScannedSegment;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use survey::{Home, Locks, Purpose, Survey};

/// Up to so many generations of a table's columns are kept without a look at its rows.
const MANY_GENERATIONS: usize = 64;

/// What is known of a segment after recovery.
struct Seen {
    number: u64,
    /// Last commit in it that counts.
    max_gsn: Option<u64>,
}

/// A database read into memory, nothing changed on disk.
pub(crate) struct LoadedDatabase {
    manifest: Manifest,
    tables: Vec<Option<Arc<TableInner>>>,
    space: Arc<Space>,
    streams: Vec<Vec<Seen>>,
    homes: Vec<Home>,
    locks: Locks,
    pub(crate) report: RecoveryReport,
    /// Only when salvaging: what could not be read.
    pub(crate) problems: Vec<String>,
    epochs_used: HashSet<u32>,
}

fn check_options(o: &Options) -> Result<()> {
    let bad = |option, reason: &str| Err(Error::Options { option, reason: reason.into() });
    if !(1..=MAX_STREAMS).contains(&o.streams) {
        return bad("streams", "must be 1 to 256");
    }
    if o.segment_bytes < 16384 || !o.segment_bytes.is_multiple_of(4096) || o.segment_bytes > segment::MAX_SIZE
    {
        return bad("segment_bytes", "must be a multiple of 4096 from 16 KiB to 4 GiB");
    }
    let least = 4 * o.segment_bytes * o.streams as u64;
    if o.max_log_bytes < least {
        return bad("max_log_bytes", "must be at least four segments for each stream");
    }
    if o.max_log_bytes <= o.checkpoint_log_bytes {
        return bad("max_log_bytes", "must be above checkpoint_log_bytes, or no checkpoint is ever due");
    }
    if !o.container_bytes.is_power_of_two() || !(4096..=65536).contains(&o.container_bytes) {
        return bad("container_bytes", "must be a power of two from 4 KiB to 64 KiB");
    }
    Ok(())
}

/// Opens or creates the database at `path`.
pub(crate) fn open(path: &Path, mut options: Options, role: Role) -> Result<Engine> {
    check_options(&options)?;
    // The process may change its working directory while the database is open.
    let absolute = |p: &Path| options.medium.absolute(p).map_err(Error::io("find the place of", p));
    let path = &absolute(path)?;
    options.stream_dirs = options.stream_dirs.iter().map(|d| absolute(d)).collect::<Result<_>>()?;
    if options.reference {
        let space =
            Arc::new(Space::new(options.container_bytes, options.memory_limit, options.snapshot_memory));
        let register = Register::new(path, &options, options.container_bytes, ManifestState::nothing());
        let log = Arc::new(Log::new(Vec::new(), register, 0, true, false, Defect::default()));
        return Ok(Engine::new(path.to_path_buf(), options, log, space, Admin::default(), None));
    }
    let mut locks = Locks::default();
    let mut found = survey(path, &options, &mut locks)?;
    // Nothing has been written so far, and nothing is if anything is wrong.
    require_role(path, found.manifest.as_ref(), role)?;
    let has_lived = found.manifest.as_ref().is_some_and(|m| m.life().is_some());
    let loaded = if has_lived {
        reload(path, &options, found, locks)?
    } else {
        if take_all(path, &options, &found.homes, found.manifest.is_none(), &mut locks)? {
            // Somebody else may have been faster before there were locks to keep him out.
            found = survey(path, &options, &mut locks)?;
        }
        if found.manifest.is_none() {
            // The identity comes first: a creation that is cut off after this goes on with it.
            // Until the first opening is done the manifest has no life, and says that way that the
            // streams' directories may not be made yet.
            let m = unborn(&options);
            m.store(&*options.medium, path).map_err(|e| e.1)?;
            found.manifest = Some(m);
        }
        load_whole(path, &options, found, locks)?
    };
    start(path, options, loaded)
}

/// Refuses to open a standby as a primary, and the other way about.
fn require_role(path: &Path, manifest: Option<&Manifest>, role: Role) -> Result<()> {
    let there = manifest.map(|m| m.lineage.role);
    let fenced = manifest.map_or(0, |m| m.lineage.fenced);
    let why = match (there, role) {
        (None, Role::Standby) => return Err(Error::NoDatabase { dir: path.to_owned() }),
        (Some(Role::Deposed), _) => format!(
            "this database was deposed by the primary of epoch {fenced}, which may lack its last commits; begin a \
             standby from Database::backup_for_standby of that one, or mmdb::restore this one into another directory \
             as a database of its own"
        ),
        (Some(Role::Standby), Role::Primary) => {
            "it is a standby; open it with Standby::open, and promote it if it is to become the primary"
                .into()
        }
        (Some(Role::Primary), Role::Standby) => {
            "it is no standby; one begins with Database::backup_for_standby".into()
        }
        _ => return Ok(()),
    };
    Err(Error::directory(path, why))
}

/// What is there to be opened, if nothing is wrong with it.
fn survey(path: &Path, options: &Options, locks: &mut Locks) -> Result<Survey> {
    let mut found = Survey::take(path, options, Purpose::Open, locks)?;
    if !has_defect!(options.defect(), NoIdentity) {
        found.require_whole()?;
    }
    Ok(found)
}

/// Reads a database that is to be opened.
fn load_whole(path: &Path, options: &Options, found: Survey, locks: Locks) -> Result<LoadedDatabase> {
    load(path, options, found, locks, false)?.ok_or_else(|| Error::NoDatabase { dir: path.to_owned() })
}

/// Reads a database that has been open before. It is read whole before anything is written, for it
/// may have to be refused: a crash that damaged the log can have taken the names of the LOCK files
/// with it, and a refusal leaves what it finds as it is.
fn reload(path: &Path, options: &Options, found: Survey, locks: Locks) -> Result<LoadedDatabase> {
    let mut loaded = load_whole(path, options, found, locks)?;
    if take_all(path, options, &loaded.homes, false, &mut loaded.locks)? {
        // Where directories have no locks of their own, somebody else may have been faster: then
        // what was read is of the life before.
        let again = survey(path, options, &mut loaded.locks)?;
        if again.manifest.as_ref() != Some(&loaded.manifest) {
            loaded = load_whole(path, options, again, loaded.locks)?;
        }
    }
    Ok(loaded)
}

/// Makes the directories that are not there yet and locks them all, each by a file in it. Whether
/// such a lock was not held before.
fn take_all(path: &Path, options: &Options, homes: &[Home], is_new: bool, locks: &mut Locks) -> Result<bool> {
    let medium = &*options.medium;
    // Where there is a manifest or a mark, the directory was made durably before it.
    if is_new {
        survey::check_name(medium, path)?;
        medium.create_dir(path).map_err(Error::io("create directory", path))?;
    }
    for home in homes.iter().filter(|h| h.mark.is_none()) {
        medium.create_dir(&home.dir).map_err(Error::io("create directory", &home.dir))?;
    }
    let mut made = locks.take(medium, path)?;
    for home in homes {
        made |= locks.take(medium, &home.dir)?;
    }
    Ok(made)
}

/// The manifest of a database whose first opening is not done.
fn unborn(options: &Options) -> Manifest {
    let identity = Identity::random();
    Manifest {
        identity,
        lineage: Lineage::new(identity),
        container_size: options.container_bytes as u32,
        kind: options.log_kind,
        closed: false,
        horizon: 0,
        before: None,
        epochs: Vec::new(),
        next_table: 1,
        tables: Vec::new(),
        logs: vec![Inventory::default(); options.streams],
        checkpoint: None,
    }
}

/// Makes the mark of every directory name `life`, durably: one that does already may have been
/// written by a process that was killed before its name was synced.
fn mark(
    options: &Options,
    room: &mut Room<'_>,
    identity: Identity,
    homes: &mut [Home],
    life: Option<Life>,
) -> Result<()> {
    for (i, home) in homes.iter_mut().enumerate() {
        let mark = Mark { identity, stream: i as u32, life };
        if home.mark == Some(mark) {
            options.medium.sync_dir(&home.dir).map_err(Error::io("sync", &home.dir))?;
        } else {
            room.with(&home.dir, 0, || mark.store(&*options.medium, &home.dir))?;
            home.mark = Some(mark);
        }
    }
    Ok(())
}

/// Begins a new life on top of what was loaded: new salt, new segments.
fn start(path: &Path, options: Options, mut l: LoadedDatabase) -> Result<Engine> {
    let medium = options.medium.clone();
    let old = &l.manifest;
    let last = old.life();
    let reshaped = last.is_some() && (old.logs.len() != options.streams || old.kind != options.log_kind);
    // First every mark names the life that the manifest names, then the manifest the new one and
    // the one before, then the marks the new one. So, wherever this is cut off, and however often,
    // a mark names one of the two. The manifest that was read may be one that a killed process has
    // left in the page cache: it must be there to stay before a mark is written that it alone
    // explains.
    medium.sync_dir(path).map_err(Error::io("sync", path))?;
    let mut room = Room::new(&*medium, path, old);
    mark(&options, &mut room, old.identity, &mut l.homes, last)?;
    // Frames that a kill left in the page cache were just read; commits will build on them, so they
    // must be durable.
    for (i, seen) in l.streams.iter().enumerate().filter(|_| !has_defect!(options.defect(), NoRecoverySync)) {
        let dir = &l.homes[i].dir;
        for s in seen.iter().filter(|s| s.max_gsn.is_some()) {
            let p = dir.join(segment::name(s.number));
            let file = medium.open(&p).map_err(Error::io("open", &p))?;
            file.sync().map_err(Error::io("sync", &p))?;
        }
        if !seen.is_empty() {
            medium.sync_dir(dir).map_err(Error::io("sync", dir))?;
        }
    }
    let cut = l.report.cut;
    let mut epochs: Vec<Epoch> =
        old.epochs.iter().copied().filter(|e| l.epochs_used.contains(&e.number)).collect();
    if let Some(e) = epochs.iter_mut().find(|e| e.cut == u64::MAX) {
        e.cut = cut;
    }
    let now = match old.epochs.last() {
        Some(e) if has_defect!(options.defect(), NoNewSalt) => {
            epochs.retain(|x| x.number != e.number);
            *e
        }
        e => Epoch { number: e.map_or(1, |e| e.number + 1), salt: identity::random(), cut: u64::MAX },
    };
    epochs.push(now);
    assert!(epochs.is_sorted_by(|a, b| a.number < b.number), "lives are numbered in order: {epochs:?}");
    assert!(
        epochs.iter().rev().skip(1).all(|e| e.cut != u64::MAX),
        "only the life that begins has no last commit yet: {epochs:?}"
    );
    let g0 = old.checkpoint.as_ref().map_or(0, |c| c.g0);
    let needed = |s: &&Seen| s.max_gsn.is_some_and(|m| m > g0);
    let mut streams = Vec::new();
    for (i, seen) in l.streams.iter().enumerate().take(options.streams) {
        let dir = l.homes[i].dir.clone();
        let closed: Vec<Closed> = seen
            .iter()
            .filter(needed)
            .map(|s| Closed { number: s.number, max_gsn: s.max_gsn.unwrap_or(0).min(cut) })
            .collect();
        let free = seen.iter().filter(|s| !needed(s)).map(|s| segment::name(s.number)).collect();
        let next = seen.iter().map(|s| s.number + 1).max().unwrap_or(1);
        let place = Place {
            medium: medium.clone(),
            dir,
            index: i as u32,
            epoch: now.number,
            salt: now.salt,
            segment_size: options.segment_bytes,
            mark: Mark { identity: old.identity, stream: i as u32, life: Some(now.life()) },
            budget: l.space.budget.clone(),
        };
        let stream = Stream::new(place, closed, free, next);
        stream.forget_frames(g0);
        streams.push(stream);
    }
    // Streams that are given up stay in the manifest until a checkpoint has made them superfluous.
    let given_up = l.streams.iter().skip(options.streams).map(|seen| Inventory {
        next: seen.iter().map(|s| s.number + 1).max().unwrap_or(1),
        begun: seen.iter().filter(needed).map(|s| s.number).max().unwrap_or(0),
        segments: seen.iter().filter(needed).map(|s| s.number).collect(),
    });
    let given_up: Vec<Inventory> = given_up.collect();
    let mut lineage = old.lineage.clone();
    lineage.cut_at(cut);
    let tails = Tails::new(epochs.clone(), options.tail_log_bytes, options.tail_log_floor_bytes);
    tails.has_changed(&lineage);
    let stated = ManifestState {
        identity: old.identity,
        lineage,
        before: last,
        next_table: old.next_table,
        schemas: old.tables.iter().map(|(id, schema)| (*id, without_unused(&l, *id, schema))).collect(),
        epochs,
        published: old.checkpoint.clone(),
    };
    let mut admin = Admin::default();
    if let Some(c) = &old.checkpoint {
        admin.crcs[c.side] = c.images.iter().map(|i| ((i.table, i.number), i.crc)).collect();
    }
    // Without checkpoints that come by themselves there is nothing to wait for.
    let by_itself = options.background && options.checkpoint_log_bytes > 0;
    let space_timeout = if by_itself { options.lock_timeout } else { Duration::ZERO };
    let register = Register::new(path, &options, l.space.container_size, stated);
    let log = Log::new(streams, register, cut, options.background, !options.group_commit, options.defect())
        .bounded(options.max_log_bytes, options.segment_bytes, space_timeout)
        .read_by(tails);
    let kind = l.manifest.kind;
    let locks: Box<dyn Send + Sync> = Box::new(l.locks);
    let engine = Engine::new(path.to_path_buf(), options, Arc::new(log), l.space, admin, Some(locks));
    assert!(
        engine.log.last() == cut && engine.log.horizon() == cut,
        "a life begins with what was recovered, all of it durable"
    );
    for t in l.tables.iter().flatten() {
        engine.enter_table(t);
    }
    *engine.recovered.lock() = l.report;
    // Before the first commit of this life: a crash in between just recovers again. When the shape
    // of the log changes, the manifest must still describe the old one until the checkpoint has
    // made it superfluous.
    let (register, stated) = (&engine.log.register, engine.stated());
    let mut m = register.manifest(&engine.log, &stated);
    if reshaped {
        m.logs.extend(given_up);
        m.kind = kind;
    }
    let bytes = m.encode().len() as u64;
    room.with(path, bytes, || m.store(&*medium, path).map(drop).map_err(|e| e.1))?;
    mark(&engine.options, &mut room, m.identity, &mut l.homes, Some(now.life()))?;
    // From here on the marks name this life and no other: a log of the life before would be an
    // older copy.
    let stated = ManifestState { before: None, ..ManifestState::clone(&stated) };
    if !reshaped {
        let state = || register.state(&engine.log, Some(stated.clone()), false).map(drop);
        room.with(path, bytes, state)?;
    } else {
        register.assume(stated);
        // At most: what its side has already need not be copied.
        let containers = engine.space.containers.load(Ordering::Relaxed);
        let images = containers * engine.space.container_size as u64;
        Room::named(engine.checkpoint(), path, images + bytes)?;
        // Streams that are given up had frames, too, or all of them other records.
        engine.log.streams.iter().for_each(|s| s.forget_frames(cut));
        for home in l.homes.iter().skip(engine.options.streams) {
            let remove = |name: &str| {
                let p = home.dir.join(name);
                medium.remove(&p).map_err(Error::io("remove", &p))
            };
            scan::numbers(&*medium, &home.dir)?.into_iter().try_for_each(|n| remove(&segment::name(n)))?;
            // The mark goes when all else is gone for good: what is left after a crash is known to
            // be ours.
            medium.sync_dir(&home.dir).map_err(Error::io("sync", &home.dir))?;
            remove(mark::NAME)?;
            medium.sync_dir(&home.dir).map_err(Error::io("sync", &home.dir))?;
        }
    }
    Ok(engine)
}

/// The definition of a table without the generations of columns in which no row is written any
/// more, where there are many: every manifest repeats them. Rows of a later recovery are rows of
/// this one or written later.
fn without_unused(l: &LoadedDatabase, id: u32, schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    if schema.generations.past.len() > MANY_GENERATIONS
        && let Some(Some(t)) = l.tables.get(id as usize)
    {
        let used = t.count_generations();
        schema.generations.forget_unused(|number| used.contains_key(&number));
    }
    schema
}

/// Reads a database for who does not open it, changing nothing. `None` if there is none. `salvage`
/// takes what it can instead of refusing.
pub(crate) fn read(path: &Path, options: &Options, salvage: bool) -> Result<Option<LoadedDatabase>> {
    let mut locks = Locks::default();
    let mut found = Survey::take(path, options, Purpose::Read, &mut locks)?;
    if !salvage {
        found.require_whole()?;
    }
    load(path, options, found, locks, salvage)
}

/// Reads what was found without changing it. `None` if it is nothing.
fn load(
    path: &Path,
    options: &Options,
    found: Survey,
    locks: Locks,
    salvage: bool,
) -> Result<Option<LoadedDatabase>> {
    let Survey { manifest: Some(manifest), mut homes } = found else { return Ok(None) };
    let mut problems = Vec::new();
    for home in &mut homes {
        problems.extend(home.problems.drain(..).map(|e| e.to_string()));
    }
    let space =
        Arc::new(Space::new(manifest.container_size as usize, options.memory_limit, options.snapshot_memory));
    let mut tables: Vec<Option<Arc<TableInner>>> = (0..manifest.next_table).map(|_| None).collect();
    for (id, schema) in &manifest.tables {
        let t = Arc::new(TableInner::new(*id, schema.clone(), space.clone(), false));
        let path = path.join(manifest::NAME);
        *tables
            .get_mut(*id as usize)
            .ok_or_else(|| Error::corrupt(&path, 0, "table number out of range"))? = Some(t);
    }
    let mut report = RecoveryReport {
        manifest_horizon: manifest.horizon,
        is_closed: manifest.closed,
        ..RecoveryReport::default()
    };
    let began = Instant::now();
    load_images(path, options, &manifest, &tables, &space, salvage.then_some(&mut problems))?;
    report.images = space.containers.load(Ordering::Relaxed);
    report.image_time = began.elapsed();

    let began = Instant::now();
    let mut replay = Replay::new(options, &homes, &manifest, &tables, salvage);
    if salvage {
        // First find how far an unbroken log goes; only that much is applied.
        replay.run(false)?;
        let limit = replay.cut();
        replay = Replay::new(options, &homes, &manifest, &tables, salvage);
        replay.limit = Some(limit);
    }
    replay.run(true)?;
    replay.finish(&mut report, &mut problems)?;
    let (streams, epochs_used) = (replay.streams, replay.epochs_used);
    report.replay_time = began.elapsed();

    let began = Instant::now();
    for t in tables.iter().flatten() {
        let wanted =
            |i: &IndexDef| !has_defect!(options.defect(), NoUniqueIndex) || !i.unique || i.name == "primary";
        let problems = salvage.then_some(&mut problems);
        let built = build_some_indexes(t, options.recovery_threads, &options.spawner, problems, wanted);
        built.map_err(|e| match e {
            // Nobody gave it the key: what was read is wrong.
            Error::DuplicateKey { table, constraint, key } => {
                let what = format!(
                    "two rows share key {key} of index {constraint} (mmdb salvage copies the rest, \
                     and says which of the two it leaves out)"
                );
                Error::CorruptTable { table, what }
            }
            other => other,
        })?;
        t.collect_free();
    }
    report.index_time = began.elapsed();
    Ok(Some(LoadedDatabase { manifest, tables, space, streams, homes, locks, report, problems, epochs_used }))
}

fn load_images(
    path: &Path,
    options: &Options,
    manifest: &Manifest,
    tables: &[Option<Arc<TableInner>>],
    space: &Space,
    problems: Option<&mut Vec<String>>,
) -> Result<()> {
    let Some(c) = &manifest.checkpoint else { return Ok(()) };
    let file_path = path.join(manifest::image_name(c.side));
    if c.images.is_empty() {
        return Ok(());
    }
    let file = match options.medium.open_to_read(&file_path).map_err(Error::io("open", &file_path)) {
        Ok(file) => file,
        Err(e) => {
            // What the log has of rows that came later is saved all the same.
            let problems = problems.ok_or_else(|| e.clone())?;
            problems.push(format!("all images of the checkpoint, {} of them: {e}", c.images.len()));
            return Ok(());
        }
    };
    let size = space.container_size;
    let len = file.len().map_err(Error::io("measure", &file_path))?;
    // Checked before anything is sized by these numbers. What a salvage finds missing is an image
    // like any other.
    let whole = |i: &&Image| (u64::from(i.image) + 1) * size as u64 <= len && i.number < MAX_CONTAINERS;
    if let Some(i) = c.images.iter().find(|i| !whole(i)).filter(|_| problems.is_none()) {
        let what = format!("there is no image of container {} of table {}", i.number, i.table);
        return Err(Error::corrupt(&file_path, len.min(u64::from(i.image) * size as u64), what));
    }
    space.set_images(c.images.iter().filter(whole).map(|i| i.image).collect());
    let next = AtomicUsize::new(0);
    let failed: Mutex<Vec<Error>> = Mutex::new(Vec::new());
    let give_up = problems.is_none();
    let load = || {
        while let Some(i) = c.images.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = (|| {
                let at = u64::from(i.image) * size as u64;
                let mut b = vec![0; size];
                let n = file.read_at(at, &mut b).map_err(Error::io("read", &file_path))?;
                if n < size || crc32c::crc32c(&b) != i.crc {
                    let what = format!("the image of container {} of table {} is damaged", i.number, i.table);
                    return Err(Error::corrupt(&file_path, at, what));
                }
                let Some(Some(t)) = tables.get(i.table as usize) else { return Ok(()) };
                // Not kept in a checkpoint any more (the schema cannot change, so: written by an
                // older version).
                if t.logging == Logging::Volatile && !has_defect!(options.defect(), VolatileTablesKept) {
                    return Ok(());
                }
                if i.number >= MAX_CONTAINERS {
                    return Err(Error::corrupt(&path.join(manifest::NAME), 0, "container out of range"));
                }
                if CLASSES.get(usize::from(i.class)).is_none_or(|&s| s > size) {
                    return Err(Error::corrupt(&path.join(manifest::NAME), 0, "unknown slot class"));
                }
                let container = Container::new(i.class, i.image, b.into());
                container.dirty[c.side].store(false, Ordering::Relaxed);
                if !t.containers.put(i.number, container) {
                    let what = format!("container {} of table {} is named twice", i.number, i.table);
                    return Err(Error::corrupt(&path.join(manifest::NAME), 0, what));
                }
                space.containers.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })();
            if let (Err(e), Ok(mut f)) = (done, failed.lock()) {
                f.push(e);
                if give_up {
                    return;
                }
            }
        }
    };
    options.spawner.share(options.recovery_threads.clamp(1, c.images.len()), |_| load());
    let failed = failed.into_inner().unwrap_or_default();
    match problems {
        None => failed.into_iter().next().map_or(Ok(()), Err),
        Some(p) => {
            p.extend(failed.iter().map(ToString::to_string));
            Ok(())
        }
    }
}

/// Which commit numbers have been seen.
#[derive(Default)]
struct Bits(Vec<u64>, Vec<u64>);

impl Bits {
    /// Numbers this far ahead of all others are kept in a list: a damaged one must not cost memory,
    /// 8 MiB of bits.
    const AHEAD: u64 = 1 << 26;

    fn set(&mut self, i: u64) {
        if i >= self.0.len() as u64 * 64 + Self::AHEAD {
            return self.1.push(i);
        }
        let word = (i / 64) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (i % 64);
    }

    /// The first number not seen.
    fn first_gap(&mut self) -> u64 {
        let mut far = std::mem::take(&mut self.1);
        far.sort_unstable();
        // In order, so that each makes room for the next unless there is a gap before it anyway.
        far.into_iter().for_each(|i| self.set(i));
        match self.0.iter().position(|&w| w != u64::MAX) {
            Some(w) => w as u64 * 64 + u64::from(self.0[w].trailing_ones()),
            None => self.0.len() as u64 * 64,
        }
    }
}

/// The state of reading the log.
struct Replay<'a> {
    options: &'a Options,
    homes: &'a [Home],
    manifest: &'a Manifest,
    salvage: bool,
    /// Nothing behind this commit is applied.
    limit: Option<u64>,
    g0: u64,
    seen: Bits,
    /// Greatest horizon that a frame or the manifest states: up to here everything must be there.
    horizon: u64,
    max_gsn: u64,
    pending: Vec<Work>,
    /// Frames behind the limit, which are not pending any more.
    dropped: u64,
    /// Memory of segments that are applied.
    spare: Arc<Mutex<Vec<Buffer>>>,
    workers: Vec<Worker<'a>>,
    damage: Option<(PathBuf, u64)>,
    /// Only when salvaging: segments that cannot be read, or not all of them.
    unread: Vec<String>,
    /// Segments without a frame in which the manifest knows of some.
    outdated: Vec<Error>,
    last_end: Option<(PathBuf, u64)>,
    streams: Vec<Vec<Seen>>,
    epochs_used: HashSet<u32>,
    frames: u64,
    log_bytes: u64,
}

impl<'a> Replay<'a> {
    fn new(
        options: &'a Options,
        homes: &'a [Home],
        manifest: &'a Manifest,
        tables: &'a [Option<Arc<TableInner>>],
        salvage: bool,
    ) -> Replay<'a> {
        let n = options.recovery_threads.clamp(1, 64);
        let g1 = manifest.checkpoint.as_ref().map_or(0, |c| c.g1);
        Replay {
            options,
            homes,
            manifest,
            salvage,
            limit: None,
            g0: manifest.checkpoint.as_ref().map_or(0, |c| c.g0),
            seen: Bits::default(),
            horizon: manifest.horizon.max(g1),
            max_gsn: 0,
            pending: Vec::new(),
            dropped: 0,
            spare: Arc::default(),
            workers: (0..n).map(|i| Worker::new(i, n, tables, options.defect())).collect(),
            damage: None,
            unread: Vec::new(),
            outdated: Vec::new(),
            last_end: None,
            streams: homes.iter().map(|_| Vec::new()).collect(),
            epochs_used: HashSet::new(),
            frames: 0,
            log_bytes: 0,
        }
    }

    /// The last commit before the first missing one.
    fn cut(&mut self) -> u64 {
        self.g0 + self.seen.first_gap()
    }

    /// Reads all segments: one thread per stream reads ahead while the workers apply.
    fn run(&mut self, apply: bool) -> Result<()> {
        let (options, manifest, homes, spare) = (self.options, self.manifest, self.homes, self.spare.clone());
        let (count, salvage) = (homes.len(), self.salvage);
        let read = |i: usize, give: &mut dyn FnMut(Result<ScannedSegment>) -> bool| {
            let home = &homes[i];
            // What is not ours is not read, even to salvage.
            let mut all = home.numbers.iter().filter(|_| home.is_ours);
            let mut next = |&n| {
                let buffer = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                let read = scan::read(&*options.medium, &home.dir, i, n, &manifest.epochs, buffer);
                give(match read {
                    Err(Error::Io { .. }) if salvage => {
                        scan::read_rest(&*options.medium, &home.dir, i, n, &manifest.epochs)
                    }
                    read => read,
                })
            };
            while all.next().is_some_and(&mut next) {}
        };
        let one = |me: &mut Self, s: Result<ScannedSegment>| {
            match s {
                Ok(s) => me.take(s),
                // One file must not cost all the others.
                Err(e @ (Error::Corrupt { .. } | Error::Io { .. })) if me.salvage => {
                    me.unread.push(e.to_string());
                }
                Err(e) => return Err(e),
            }
            if !apply {
                me.forget_pending();
                return Ok(());
            }
            // Everything up to the horizon must come, so it may be applied as it comes.
            me.apply_up_to(me.limit.unwrap_or(me.horizon))?;
            if me.limit.is_some() {
                me.dropped += me.forget_pending();
            }
            Ok(())
        };
        if options.recovery_threads == 1 {
            let mut done = Ok(());
            for i in 0..count {
                read(i, &mut |s| {
                    done = one(self, s);
                    done.is_ok()
                });
                std::mem::replace(&mut done, Ok(()))?;
            }
            return Ok(());
        }
        std::thread::scope(|scope| {
            let (tx, rx) = sync_channel::<Result<ScannedSegment>>(1);
            let (mut readers, mut unread) = (Vec::new(), Vec::new());
            for i in 0..count {
                let tx = tx.clone();
                // A send fails only if the receiver has failed and gone.
                match options.spawner.spawn_scoped(scope, move || read(i, &mut |s| tx.send(s).is_ok())) {
                    Ok(reader) => readers.push(reader),
                    Err(_) => unread.push(i),
                }
            }
            drop(tx);
            let mut done = rx.iter().try_for_each(|s| one(self, s));
            drop(rx);
            // Streams that have got no thread are read by this one.
            for i in unread {
                if done.is_ok() {
                    read(i, &mut |s| {
                        done = one(self, s);
                        done.is_ok()
                    });
                }
            }
            for reader in readers {
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
            done
        })
    }

    fn take(&mut self, s: ScannedSegment) {
        let max_gsn = s.max_gsn();
        self.streams[s.stream].push(Seen { number: s.number, max_gsn });
        if let Some(at) = s.unreadable {
            self.unread.push(format!("{} cannot be read at offset {at}", s.path.display()));
        }
        if let (Some(at), None) = (s.damage, &self.damage) {
            self.damage = Some((s.path.clone(), at));
        }
        if !has_defect!(self.options.defect(), BelievesEmptySegments) {
            self.outdated.extend(s.misses_frames(self.manifest));
        }
        let Some(epoch) = s.epoch else { return };
        let mut frames = Vec::with_capacity(s.frames.len());
        for f in s.frames.iter().filter(|f| f.gsn <= epoch.cut) {
            self.frames += 1;
            self.log_bytes += f.len as u64;
            self.horizon = self.horizon.max(f.horizon);
            self.max_gsn = self.max_gsn.max(f.gsn);
            if f.gsn > self.g0 {
                self.seen.set(f.gsn - self.g0 - 1);
                frames.push(*f);
            }
        }
        if max_gsn.is_some_and(|m| m > self.g0) {
            self.epochs_used.insert(epoch.number);
            self.last_end = Some((s.path.clone(), s.end));
        }
        if !frames.is_empty() {
            self.pending.push(Work { segment: Arc::new(s), frames });
        }
    }

    /// Forgets what waits, and gives back the segments that it holds: a salvage looks through a log
    /// that may be larger than the memory, and applies a part of it. How many frames these were.
    fn forget_pending(&mut self) -> u64 {
        let gone = std::mem::take(&mut self.pending);
        let frames = gone.iter().map(|w| w.frames.len() as u64).sum();
        let segments = gone.into_iter().filter_map(|w| Arc::into_inner(w.segment));
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(segments.map(|s| s.bytes));
        frames
    }

    fn apply_up_to(&mut self, limit: u64) -> Result<()> {
        let mut now = Vec::new();
        let mut later = Vec::new();
        for w in std::mem::take(&mut self.pending) {
            // Within a segment frames come in order of their commits.
            let n = w.frames.partition_point(|f| f.gsn <= limit);
            let (a, b) = w.frames.split_at(n);
            if !b.is_empty() {
                later.push(Work { segment: w.segment.clone(), frames: b.to_vec() });
            }
            if !a.is_empty() {
                now.push(Work { segment: w.segment, frames: a.to_vec() });
            }
        }
        self.pending = later;
        if now.is_empty() {
            return Ok(());
        }
        if let [only] = &mut self.workers[..] {
            only.apply(&now)?;
        } else {
            on_threads(&self.options.spawner, &mut self.workers, |w| w.apply(&now))?;
        }
        // What still waits for the horizon keeps its segment.
        let done = now.into_iter().filter_map(|w| Arc::into_inner(w.segment));
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(done.map(|s| s.bytes));
        Ok(())
    }

    fn finish(&mut self, report: &mut RecoveryReport, problems: &mut Vec<String>) -> Result<()> {
        problems.append(&mut self.unread);
        for e in self.outdated.drain(..) {
            if !self.salvage {
                return Err(e);
            }
            problems.push(e.to_string());
        }
        let mut cut = self.cut();
        if has_defect!(self.options.defect(), NoGapFreeCut) {
            cut = cut.max(self.max_gsn);
        }
        if cut < self.horizon {
            let what = format!(
                "commit {} is missing although all up to {} were acknowledged or are in the checkpoint",
                cut + 1,
                self.horizon
            );
            if !self.salvage {
                let (file, at) = self
                    .damage
                    .clone()
                    .or_else(|| self.last_end.clone())
                    .unwrap_or_else(|| (self.homes.first().map_or(PathBuf::new(), |h| h.dir.clone()), 0));
                return Err(Error::corrupt(&file, at, what));
            }
            problems.push(what);
            if let Some((file, at)) = &self.damage {
                problems.push(format!("{} is damaged at offset {at}", file.display()));
            }
        }
        assert!(
            cut >= self.horizon || self.salvage,
            "nothing that was acknowledged is missing: the log goes up to {cut} of {}",
            self.horizon
        );
        self.apply_up_to(self.limit.map_or(cut, |l| l.min(cut)))?;
        report.dropped_frames = self.dropped + self.forget_pending();
        if self.salvage || self.workers.len() == 1 {
            for w in &mut self.workers {
                w.finish(self.salvage.then_some(&mut *problems))?;
            }
        } else {
            on_threads(&self.options.spawner, &mut self.workers, |w| w.finish(None))?;
        }
        report.records = self.workers.iter().map(|w| w.records).sum();
        report.frames = self.frames;
        report.log_bytes = self.log_bytes;
        report.cut = cut;
        Ok(())
    }
}

/// Lets every worker do its part, on a thread of its own if it can have one; the first error.
fn on_threads<'a>(
    spawner: &Spawner,
    workers: &mut [Worker<'a>],
    part: impl Fn(&mut Worker<'a>) -> Result<()> + Sync,
) -> Result<()> {
    let workers: Vec<_> = workers.iter_mut().map(Mutex::new).collect();
    let done = spawner
        .share(workers.len(), |i| part(&mut workers[i].lock().unwrap_or_else(PoisonError::into_inner)));
    done.into_iter().collect()
}

/// Fills the indexes of a table from its containers. A unique key that two rows share is a
/// [`Error::DuplicateKey`], a row that cannot be read a [`Error::CorruptTable`].
pub(crate) fn build_indexes(t: &TableInner, threads: usize, spawner: &Spawner) -> Result<()> {
    build_some_indexes(t, threads, spawner, None, |_| true)
}

fn build_some_indexes(
    t: &TableInner,
    threads: usize,
    spawner: &Spawner,
    problems: Option<&mut Vec<String>>,
    wanted: impl Fn(&IndexDef) -> bool,
) -> Result<()> {
    let threads = threads.clamp(1, 64).min(t.containers.len().max(1) as usize);
    let next = AtomicU32::new(0);
    let bad: Mutex<Vec<(u32, u16)>> = Mutex::new(Vec::new());
    let collect = || {
        let mut entries: Entries = t.indexes.iter().map(|_| Vec::new()).collect();
        let mut k = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= t.containers.len() {
                return entries;
            }
            let Some(c) = t.containers.get(n) else { continue };
            let bytes = c.bytes.read();
            if bytes.is_empty() {
                continue;
            }
            for slot in 0..c.slots(t.space.container_size) {
                let whole = &bytes[c.range(slot)];
                let row = t.layout.row_of(Slot(whole));
                let is_there = Slot(whole).is_live();
                // A manifest that lies about the size of a container's slots makes rows end in the
                // middle of others.
                let fits = match &row {
                    Some(row) => t.layout.valid(row),
                    None => !is_there,
                };
                // Of more changes than there can be commits the next one would count as none.
                let is_counted = Slot(whole).version() <= MAX_GSN;
                if !crate::log::record::is_canonical(whole) || !fits || !is_counted {
                    if let Ok(mut b) = bad.lock() {
                        b.push((n, slot));
                    }
                    continue;
                }
                let Some(row) = row else { continue };
                for (index, list) in t.indexes.iter().zip(&mut entries) {
                    k.clear();
                    t.layout.row_key(&row, &index.def.columns, &mut k);
                    list.push((KeyBuf::new(&k), Rid::new(n, slot)));
                }
            }
        }
    };
    let mut parts: Vec<Entries> = spawner.share(threads, |_| collect());
    let name = &t.schema.name;
    let mut bad = bad.into_inner().unwrap_or_default();
    match problems {
        None => {
            if let Some((n, slot)) = bad.first() {
                let what = format!(
                    "the row in container {n}, slot {slot} does not fit the schema, or its version no row"
                );
                return Err(Error::corrupt_table(name, what));
            }
        }
        Some(p) => {
            bad.sort_unstable();
            for slots in bad.chunk_by(|a, b| a.0 == b.0) {
                give_up_slots(t, slots, p);
            }
            doubles::leave_out(t, &mut parts, p);
        }
    }
    for (i, index) in t.indexes.iter().enumerate().filter(|(_, index)| wanted(&index.def)) {
        let lists = parts.iter_mut().map(|p| std::mem::take(&mut p[i])).collect();
        if let Err(second) = index.build(lists, threads, spawner) {
            let mut row = Vec::new();
            t.read(second, &mut row)?;
            let key = t.layout.key_text(&row, &index.def.columns);
            return Err(Error::DuplicateKey { table: name.clone(), constraint: index.def.name.clone(), key });
        }
    }
    Ok(())
}

/// Empties slots of one container whose rows cannot be read, and names the first of them.
fn give_up_slots(t: &TableInner, slots: &[(u32, u16)], problems: &mut Vec<String>) {
    let Some(&(n, _)) = slots.first() else { return };
    let name = &t.schema.name;
    for (_, slot) in slots.iter().take(NAMED) {
        problems.push(format!("table {name}: unreadable row in container {n}, slot {slot}"));
    }
    if let Some(more) = slots.len().checked_sub(NAMED + 1) {
        problems.push(format!("table {name}, container {n}: {} more unreadable rows", more + 1));
    }
    if let Some(c) = t.containers.get(n) {
        let mut bytes = c.bytes.write();
        slots.iter().for_each(|(_, slot)| bytes[c.range(*slot)].fill(0));
    }
}

/// Checks that every row is in every index once, and nothing else is.
pub(crate) fn verify(e: &Engine) -> Result<()> {
    e.live_tables().iter().try_for_each(|t| verify_table(t))
}

fn verify_table(t: &TableInner) -> Result<()> {
    let name = &t.schema.name;
    let mut rows = 0;
    let mut k = Vec::new();
    for (n, c) in t.containers.iter() {
        let bytes = c.bytes.read();
        if bytes.is_empty() {
            continue;
        }
        for slot in 0..c.slots(t.space.container_size) {
            let bytes = &bytes[c.range(slot)];
            if !crate::log::record::is_canonical(bytes) {
                let what = format!("container {n}, slot {slot} has bytes behind its row");
                return Err(Error::corrupt_table(name, what));
            }
            let Some(row) = t.layout.row_of(Slot(bytes)) else { continue };
            rows += 1;
            for index in &t.indexes {
                k.clear();
                t.layout.row_key(&row, &index.def.columns, &mut k);
                // Not looked for among all rows that have the key: those may be all of the table.
                if !index.leads_to(&k, key::hash(&k), Rid::new(n, slot)) {
                    let what = format!("container {n}, slot {slot} is not in index {}", index.def.name);
                    return Err(Error::corrupt_table(name, what));
                }
            }
        }
    }
    for index in &t.indexes {
        let mut total = index.len();
        if !index.def.unique && index.def.kind == crate::schema::IndexKind::Hash {
            total = rows;
        }
        if total != rows {
            let what = format!("index {} has {total} entries for {rows} rows", index.def.name);
            return Err(Error::corrupt_table(name, what));
        }
    }
    Ok(())
}

impl LoadedDatabase {
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableInner>> {
        self.tables.iter().flatten()
    }

    pub(crate) fn verify(&self) -> Result<()> {
        self.tables().try_for_each(|t| verify_table(t))
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}
