//! Online backup: images of one moment, or fuzzy ones plus the piece of log that makes them whole.
//!
//! 1. A snapshot is opened, and the containers are copied as it shows them: all tables as of one
//!    commit, which the copy ends with, without any log. The rows that change meanwhile are kept in
//!    memory until they are copied, within [`crate::Options::snapshot_memory`].
//! 2. Where that is not enough, the snapshot is given up, and the containers are copied once more,
//!    as they are. The copy has images of all containers as of some moment between G0 and G1, and
//!    of each stream the frames up to G1 and not one more: a later frame could state a horizon that
//!    covers frames which the copy of another stream lacks. Tables that are checkpointed but not
//!    logged are as of G0 then.

use crate::container::Container;
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::log::HeldBack;
use crate::log::mark::{self, Mark};
use crate::log::segment;
use crate::manifest::{self, Image, Inventory, Manifest, PublishedCheckpoint};
use crate::medium::{Entry, Medium, MediumFile};
use crate::recovery::buffer::Buffer;
use crate::recovery::scan;
use crate::recovery::survey::{LOCK, Locks, Purpose, Survey, check_name, check_places, is_reserved};
use crate::register::ManifestState;
use crate::sabotage::has_defect;
use crate::schema::Logging;
use crate::snapshot::Snapshot;
use crate::standby::{Lineage, Role};
use crate::table::TableInner;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Refuses a directory that holds anything.
fn require_empty(medium: &dyn Medium, to: &Path) -> Result<()> {
    let names = medium.list(to).map_err(Error::io("list", to))?;
    if let Some(n) = names.iter().find(|n| *n != LOCK) {
        return Err(Error::directory(to, format!("it must be empty, and {n} is there")));
    }
    Ok(())
}

/// Makes directories in which a copy is to lie and locks them until it is done: two that go to one
/// place would each overwrite what the other has written, and both would report success. They must
/// be empty, and nothing is made or changed if one is not.
pub(crate) fn claim(medium: &dyn Medium, to: &Path, logs: &[&Path], locks: &mut Locks) -> Result<()> {
    let all = || logs.iter().copied().chain([to]);
    all().try_for_each(|dir| check_name(medium, dir))?;
    all().try_for_each(|dir| require_empty(medium, dir))?;
    for dir in [to].into_iter().chain(logs.iter().copied()) {
        medium.create_dir(dir).map_err(Error::io("create directory", dir))?;
        locks.take(medium, dir)?;
    }
    // Who was faster may have come and gone.
    all().try_for_each(|dir| require_empty(medium, dir))
}

/// Takes away what a copy that failed has written to its places, which were claimed: files with
/// names of a database's, and the `others` that it made. They would keep the room that a full disk
/// lacks, and the places from the next copy. What cannot be removed stays, and is no database: the
/// manifest goes before all that it names.
pub(crate) fn take_back(medium: &dyn Medium, to: &Path, logs: &[&Path], others: &[PathBuf]) {
    let manifest = to.join(manifest::NAME);
    if medium.entry(&manifest).is_ok_and(|there| there.is_some()) {
        let _ = medium.remove(&manifest);
        let _ = medium.sync_dir(to);
    }
    for dir in [to].into_iter().chain(logs.iter().copied()) {
        for name in medium.list(dir).unwrap_or_default() {
            let path = dir.join(&name);
            if name != LOCK && (is_reserved(&name) || others.contains(&path)) {
                let _ = medium.remove(&path);
            }
        }
        let _ = medium.sync_dir(dir);
    }
}

/// What a backup did.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let db = Database::open("/db", Options::in_memory())?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// let done = db.backup("/copy")?;
/// assert_eq!((done.gsn, done.containers, done.log_bytes), (1, 1, 0));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupStats {
    /// The last commit that the copy holds; it holds all before it.
    pub gsn: u64,
    /// Containers copied.
    pub containers: u64,
    /// Bytes of log copied: 0 where all is of one moment, because
    /// [`crate::Options::snapshot_memory`] was enough for what changed meanwhile.
    pub log_bytes: u64,
}

/// A backup under way.
struct Target<'a> {
    medium: &'a dyn Medium,
    to: &'a Path,
    /// Of the log's streams.
    dirs: Vec<PathBuf>,
    identity: Identity,
}

/// Images that were copied: every commit up to `g0` is in them, none behind `g1`.
struct Copied {
    images: Vec<Image>,
    g0: u64,
    g1: u64,
}

impl Target<'_> {
    /// The file for the images, empty.
    fn create_images(&self) -> Result<(PathBuf, Arc<dyn MediumFile>)> {
        let path = self.to.join(manifest::image_name(0));
        let file = self.medium.create(&path).map_err(Error::io("create", &path))?;
        Ok((path, file))
    }

    /// Marks the directory of a stream's log.
    fn mark_log(&self, stream: usize, stated: &ManifestState) -> Result<&Path> {
        let dir = &*self.dirs[stream];
        let mark = Mark { identity: self.identity, stream: stream as u32, life: stated.life() };
        mark.store(self.medium, dir).map(|()| dir)
    }
}

fn image(t: &TableInner, number: u32, c: &Container, bytes: &[u8]) -> Image {
    let crc = crc32c::crc32c(bytes);
    Image { table: t.id, number, class: c.class, image: c.image, crc }
}

impl Engine {
    pub(crate) fn backup(&self, to: &Path) -> Result<BackupStats> {
        self.copy_to(to, false)
    }

    /// Copies the database as it is, for itself or `for_standby`: then every slot is as it is here,
    /// its version and what is behind its row too, for differences will follow.
    pub(crate) fn copy_to(&self, to: &Path, for_standby: bool) -> Result<BackupStats> {
        let medium = &*self.options.medium;
        if self.options.reference {
            let reason = "a database that is opened with Options::reference logs nothing";
            return Err(Error::Unsupported { operation: "back up", reason });
        }
        self.log.check()?;
        let to = &*medium.absolute(to).map_err(Error::io("find the place of", to))?;
        let _held = HeldBack::begin();
        // Keeps checkpoints from recycling segments meanwhile, and tables from coming and going.
        let mut admin = self.admin.lock();
        if for_standby {
            self.record_changes(&mut admin)?;
        }
        let dirs: Vec<_> = (0..self.log.streams.len()).map(|i| to.join(format!("log-{i}"))).collect();
        let mut locks = Locks::default();
        claim(medium, to, &dirs.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &mut locks)?;
        // A database of its own from now on: its log and the original's cannot be mistaken for each
        // other.
        let target = Target { medium, to, dirs, identity: Identity::random() };
        let done = self.copy_into(&target, for_standby);
        if done.is_err() {
            take_back(medium, to, &target.dirs.iter().map(AsRef::as_ref).collect::<Vec<_>>(), &[]);
        }
        done
    }

    /// Copies the database into places that are claimed.
    fn copy_into(&self, target: &Target<'_>, for_standby: bool) -> Result<BackupStats> {
        let (medium, to) = (target.medium, target.to);
        let stated = self.stated();
        let streams = self.log.streams.len();
        let of_one_moment = self.options.snapshot_memory > 0 && !for_standby;
        let copied = if of_one_moment { self.copy_snapshot(target)? } else { None };
        let (copied, logs, log_bytes) = match copied {
            Some(copied) => {
                self.make_durable()?;
                for stream in 0..streams {
                    let dir = target.mark_log(stream, &stated)?;
                    medium.sync_dir(dir).map_err(Error::io("sync", dir))?;
                }
                (copied, vec![Inventory::default(); streams], 0)
            }
            None => {
                let copied = self.copy_as_it_is(target)?;
                self.make_durable()?;
                let (logs, bytes) = self.copy_log(target, &stated, copied.g0, copied.g1)?;
                (copied, logs, bytes)
            }
        };
        medium.sync_dir(to).map_err(Error::io("sync", to))?;
        let Copied { images, g0, g1 } = copied;
        let done = BackupStats { gsn: g1, containers: images.len() as u64, log_bytes };
        let lineage = if for_standby {
            Lineage { role: Role::Standby, ..stated.lineage.clone() }
        } else {
            Lineage::new(target.identity)
        };
        let m = Manifest {
            identity: target.identity,
            lineage,
            closed: true,
            horizon: g1,
            before: None,
            logs,
            checkpoint: Some(PublishedCheckpoint { side: 0, g0, g1, images }),
            ..self.log.register.manifest(&self.log, &stated)
        };
        m.store(medium, to).map_err(|e| e.1)?;
        Ok(done)
    }

    /// What was copied must be durable here, or the copy could know commits that a crash takes
    /// back.
    fn make_durable(&self) -> Result<()> {
        if has_defect!(self.log.defect, BackupWithoutFlush) { Ok(()) } else { self.log.flush_all() }
    }

    /// Copies all tables as they are at this moment. `None` if more has changed meanwhile than is
    /// kept, a table was filled anew, or what it was cannot be written in the columns of today.
    fn copy_snapshot(&self, target: &Target<'_>) -> Result<Option<Copied>> {
        let snapshot = Snapshot::of(self);
        let (path, file) = target.create_images()?;
        let mut images = Vec::new();
        for t in self.live_tables().iter().filter(|t| t.logging != Logging::Volatile) {
            for (number, c) in t.containers.iter() {
                let bytes = match snapshot.image(t, c) {
                    Ok(Some(bytes)) if !bytes.is_empty() => bytes,
                    Ok(_) => continue,
                    Err(
                        Error::SnapshotExpired { .. }
                        | Error::NoSuchTable { .. }
                        | Error::Operation { .. }
                        | Error::Conflict { .. },
                    ) => return Ok(None),
                    Err(e) => return Err(e),
                };
                let at = u64::from(c.image) * self.space.container_size as u64;
                file.write_at(at, &bytes).map_err(Error::io("write", &path))?;
                images.push(image(t, number, c, &bytes));
            }
        }
        file.sync().map_err(Error::io("sync", &path))?;
        let gsn = snapshot.gsn();
        Ok(Some(Copied { images, g0: gsn, g1: gsn }))
    }

    /// Copies all containers one after the other, each as it is when its turn comes.
    fn copy_as_it_is(&self, target: &Target<'_>) -> Result<Copied> {
        let (path, file) = target.create_images()?;
        let (g0, moment) = self.begin_moment();
        let mut images = Vec::new();
        let logged = self.live_tables().into_iter().filter(|t| t.logging == Logging::Logged);
        let numbers = |t: &Arc<TableInner>| t.containers.iter().map(|(number, _)| number).collect::<Vec<_>>();
        let logged = logged.flat_map(|t| numbers(&t).into_iter().map(move |number| (t.clone(), number)));
        for (t, number) in moment.work().into_iter().chain(logged) {
            let Some(c) = t.containers.get(number) else { continue };
            let copy = {
                let bytes = c.bytes.read();
                c.take_before().unwrap_or_else(|| bytes.clone())
            };
            if copy.is_empty() {
                continue;
            }
            let at = u64::from(c.image) * self.space.container_size as u64;
            file.write_at(at, &copy).map_err(Error::io("write", &path))?;
            images.push(image(&t, number, c, &copy));
        }
        file.sync().map_err(Error::io("sync", &path))?;
        let g1 = self.log.last();
        assert!(g1 >= g0, "commit numbers never fall: {g1} after {g0}");
        Ok(Copied { images, g0, g1 })
    }

    /// Copies the frames up to `g1`. What the copy has of each stream, and their bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if one behind `g0` cannot be read any more: the copy would be refused by
    /// whoever opens it, when it is needed.
    fn copy_log(
        &self,
        target: &Target<'_>,
        stated: &ManifestState,
        g0: u64,
        g1: u64,
    ) -> Result<(Vec<Inventory>, u64)> {
        let medium = target.medium;
        let lacking = usize::from(has_defect!(self.log.defect, BackupLacksLog));
        let (mut logs, mut bytes) = (Vec::new(), 0);
        let (mut found, mut damage) = (0, None);
        for (i, s) in self.log.streams.iter().enumerate() {
            let dir = target.mark_log(i, stated)?;
            let mut log = Inventory::default();
            for number in s.live_segments().into_iter().skip(lacking) {
                let mut scanned = scan::read(medium, s.dir(), i, number, &stated.epochs, Buffer::default())?;
                let upto = if has_defect!(self.log.defect, BackupTakesMore) { u64::MAX } else { g1 };
                let cut = scanned.epoch.map_or(0, |e| e.cut.min(upto));
                found += scanned.frames.iter().filter(|f| f.gsn > g0 && f.gsn <= g1).count() as u64;
                damage = damage.or_else(|| Some((scanned.path.clone(), scanned.damage?)));
                let end = scanned.frames.iter().filter(|f| f.gsn <= cut).map(|f| f.at + f.len).max();
                // A segment that is ready but empty has no place in the copy.
                let Some(end) = end else { continue };
                scanned.bytes.truncate(end);
                bytes += end as u64;
                let path = dir.join(segment::name(number));
                let file = medium.create(&path).map_err(Error::io("create", &path))?;
                file.write_at(0, &scanned.bytes).map_err(Error::io("write", &path))?;
                file.sync().map_err(Error::io("sync", &path))?;
                log.segments.push(number);
                (log.next, log.begun) = (number + 1, number);
            }
            medium.sync_dir(dir).map_err(Error::io("sync", dir))?;
            logs.push(log);
        }
        let is_asked = !has_defect!(self.log.defect, BackupLacksLog | BackupWithoutFlush);
        if is_asked && found != g1 - g0 {
            let (file, at) = damage.unwrap_or_else(|| (self.path.clone(), 0));
            let what = format!(
                "of the {} commits behind {g0} up to {g1}, which are durable, the log has {found}: a backup \
                 would lack the others",
                g1 - g0
            );
            return Err(Error::corrupt(&file, at, what));
        }
        Ok((logs, bytes))
    }
}

/// Copies a backup (or a closed database whose log lies in its directory) from `from` to the empty
/// directory `to`, durably; the log goes where `options` say. The copy is a database of its own; of
/// a closed [`crate::Standby`] it is another standby of the same primary. Opening `to` checks it.
///
/// ```
/// use mmdb::{Database, Options, restore};
/// let options = Options::in_memory();
/// let db = Database::open("/db", options.clone())?;
/// db.backup("/backup")?;
/// restore("/backup", "/copy", &options)?;
/// let copy = Database::open("/copy", options)?;
/// assert_eq!(copy.tables().len(), 0);
/// # Ok::<(), mmdb::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`]; [`Error::NoDatabase`] if `from` has no manifest; [`Error::Corrupt`] if that is
/// damaged, or a segment or the file of images is missing; [`Error::File`] if one of them is a
/// link; [`Error::Directory`] if a log directory is missing, or `to` is not empty; [`Error::Io`]
/// with `WouldBlock` while another copy is made there. What was written is taken away again.
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &crate::Options) -> Result<()> {
    documented("restore", || {
        let (from, to, medium) = (from.as_ref(), to.as_ref(), &*options.medium);
        let mut locks = Locks::default();
        let source = crate::Options { stream_dirs: Vec::new(), ..options.clone() };
        let mut found = Survey::take(from, &source, Purpose::Read, &mut locks)?;
        let Some(m) = &found.manifest else {
            return Err(Error::NoDatabase { dir: from.to_owned() });
        };
        let identity = Identity::random();
        let m = Manifest { identity, lineage: m.lineage.of_copy(identity), before: None, ..m.clone() };
        found.require_whole()?;
        require_images(medium, from, &m)?;
        check_places(to, options, m.logs.len(), true)?;
        let targets: Vec<_> = (0..m.logs.len()).map(|i| options.stream_dir(to, i)).collect();
        let logs: Vec<&Path> = targets.iter().map(AsRef::as_ref).collect();
        claim(medium, to, &logs, &mut locks)?;
        let places = found.homes.iter().map(|h| h.dir.as_path()).zip(logs.iter().copied());
        let mut made = Vec::new();
        let done = restore_into(medium, places.chain([(from, to)]), &m, &mut made)
            // Last, so that a copy that was cut off is no database.
            .and_then(|()| m.store(medium, to).map(drop).map_err(|e| e.1));
        if done.is_err() {
            take_back(medium, to, &logs, &made);
        }
        done
    })
}

/// Copies each directory to its place, but for what the copy has of its own. The log's come first,
/// in the order of their streams. What is about to be made of other names is noted in `made`.
fn restore_into<'a>(
    medium: &dyn Medium,
    places: impl Iterator<Item = (&'a Path, &'a Path)>,
    m: &Manifest,
    made: &mut Vec<PathBuf>,
) -> Result<()> {
    for (i, (a, b)) in places.enumerate() {
        let names = medium.list(a).map_err(Error::io("list", a))?;
        let ours = [LOCK, mark::NAME, manifest::NAME];
        for n in names.iter().filter(|n| !ours.contains(&n.as_str())) {
            // What a link leads to is no part of the backup.
            if medium.entry(&a.join(n)).map_err(Error::io("look at", &a.join(n)))? == Some(Entry::Symlink) {
                continue;
            }
            made.push(b.join(n));
            copy(medium, &a.join(n), &b.join(n))?;
        }
        // Before its first opening a database has no marks.
        if i < m.logs.len() && m.life().is_some() {
            Mark { identity: m.identity, stream: i as u32, life: m.life() }.store(medium, b)?;
        }
        medium.sync_dir(b).map_err(Error::io("sync", b))?;
    }
    Ok(())
}

/// Refuses a backup without the file of images that its manifest names: the copy would be refused
/// by whoever opens it. What a link leads to is not copied.
fn require_images(medium: &dyn Medium, from: &Path, m: &Manifest) -> Result<()> {
    let Some(c) = m.checkpoint.as_ref().filter(|c| !c.images.is_empty()) else { return Ok(()) };
    let path = from.join(manifest::image_name(c.side));
    match medium.entry(&path).map_err(Error::io("look at", &path))? {
        Some(Entry::File { .. }) => Ok(()),
        Some(Entry::Symlink) => {
            let what = "this is a symbolic link, and what it leads to is no part of the backup: move the file \
                        itself back here";
            Err(Error::file(&path, what))
        }
        Some(Entry::Other) => Err(Error::file(&path, "this is no file, and images must be files")),
        None => Err(Error::corrupt(&path, 0, "the images are missing: MANIFEST names them")),
    }
}

fn copy(medium: &dyn Medium, from: &Path, to: &Path) -> Result<()> {
    let source = medium.open_to_read(from).map_err(Error::io("open", from))?;
    let target = medium.create(to).map_err(Error::io("create", to))?;
    let mut b = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let n = source.read_at(at, &mut b).map_err(Error::io("read", from))?;
        if n == 0 {
            return target.sync().map_err(Error::io("sync", to));
        }
        target.write_at(at, &b[..n]).map_err(Error::io("write", to))?;
        at += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use crate::medium::{Medium, MemoryMedium};
    use crate::{Database, Error, Options};
    use std::sync::Arc;

    /// A database without a log wrote a backup that no opening accepted: found out when it is
    /// needed. Now nothing is written.
    #[test]
    fn a_database_without_a_log_refuses_to_be_backed_up() {
        let disk = MemoryMedium::new();
        let o = Options { medium: Arc::new(disk.clone()), reference: true, ..Options::in_memory() };
        let db = Database::open("/db", o).unwrap();
        let refused = db.backup("/copy").unwrap_err();
        assert!(
            matches!(refused, Error::Unsupported { reason, .. } if reason.contains("reference")),
            "{refused}"
        );
        assert!(disk.list("/copy".as_ref()).unwrap().is_empty());
    }
}
