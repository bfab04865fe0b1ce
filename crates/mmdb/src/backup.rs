//! Online backup: fuzzy images plus the piece of log that makes them whole.
//!
//! The copy has images of all containers as of some moment between G0 and G1, and of each stream
//! the frames up to G1 and not one more: a later frame could state a horizon that covers frames
//! which the copy of another stream lacks.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::log::mark::{self, Mark};
use crate::log::segment;
use crate::manifest::{self, Image, Inventory, Manifest, Published};
use crate::medium::{Entry, Medium};
use crate::recovery::buffer::Buffer;
use crate::recovery::scan;
use crate::recovery::survey::{LOCK, Locks, Purpose, Survey, check_places};
use crate::sabotage::has_defect;
use crate::schema::Logging;
use crate::table::TableInner;
use std::path::Path;
use std::sync::Arc;

/// Refuses a directory that holds anything.
pub(crate) fn require_empty(medium: &dyn Medium, to: &Path) -> Result<()> {
    let names = medium.list(to).map_err(Error::io("list", to))?;
    if let Some(n) = names.iter().find(|n| *n != LOCK) {
        return Err(Error::directory(to, format!("it must be empty, and {n} is there")));
    }
    Ok(())
}

impl Engine {
    pub(crate) fn backup(&self, to: &Path) -> Result<()> {
        let medium = &*self.options.medium;
        if self.options.reference {
            let reason = "a database that is opened with Options::reference logs nothing";
            return Err(Error::Unsupported { operation: "back up", reason });
        }
        self.log.check()?;
        let to = &*medium.absolute(to).map_err(Error::io("find the place of", to))?;
        // Keeps checkpoints from recycling segments meanwhile.
        let _admin = self.admin.lock();
        let dirs: Vec<_> = (0..self.log.streams.len()).map(|i| to.join(format!("log-{i}"))).collect();
        dirs.iter().map(AsRef::as_ref).chain([to]).try_for_each(|dir| require_empty(medium, dir))?;
        medium.create_dir(to).map_err(Error::io("create directory", to))?;
        // A database of its own from now on: its log and the original's cannot be mistaken for each
        // other.
        let identity = Identity::random();
        let stated = self.stated();
        let (g0, moment) = self.begin_moment();
        let size = self.space.container_size;
        let path = to.join(manifest::image_name(0));
        let file = medium.create(&path).map_err(Error::io("create", &path))?;
        let mut images = Vec::new();
        let logged = self.live_tables().into_iter().filter(|t| t.logging == Logging::Logged);
        let numbers = |t: &Arc<TableInner>| t.containers.iter().map(|(number, _)| number).collect::<Vec<_>>();
        let logged = logged.flat_map(|t| numbers(&t).into_iter().map(move |number| (t.clone(), number)));
        for (t, number) in moment.work().into_iter().chain(logged) {
            if let Some(c) = t.containers.get(number) {
                let copy = {
                    let bytes = c.bytes.read();
                    c.take_before().unwrap_or_else(|| bytes.clone())
                };
                if copy.is_empty() {
                    continue;
                }
                let at = u64::from(c.image) * size as u64;
                file.write_at(at, &copy).map_err(Error::io("write", &path))?;
                images.push(Image {
                    table: t.id,
                    number,
                    class: c.class,
                    image: c.image,
                    crc: crc32c::crc32c(&copy),
                });
            }
        }
        file.sync().map_err(Error::io("sync", &path))?;
        let g1 = self.log.last();
        assert!(g1 >= g0, "commit numbers never fall: {g1} after {g0}");
        if !has_defect!(self.log.defect, BackupWithoutFlush) {
            self.log.flush_all()?;
        }
        let lacking = usize::from(has_defect!(self.log.defect, BackupLacksLog));
        let mut logs = Vec::new();
        for (i, (s, dir)) in self.log.streams.iter().zip(&dirs).enumerate() {
            medium.create_dir(dir).map_err(Error::io("create directory", dir))?;
            Mark { identity, stream: i as u32, life: stated.life() }.store(medium, dir)?;
            let mut log = Inventory::default();
            for number in s.live_segments().into_iter().skip(lacking) {
                let mut scanned = scan::read(medium, s.dir(), i, number, &stated.epochs, Buffer::default())?;
                let upto = if has_defect!(self.log.defect, BackupTakesMore) { u64::MAX } else { g1 };
                let cut = scanned.epoch.map_or(0, |e| e.cut.min(upto));
                let end = scanned.frames.iter().filter(|f| f.gsn <= cut).map(|f| f.at + f.len).max();
                // A segment that is ready but empty has no place in the copy.
                let Some(end) = end else { continue };
                scanned.bytes.truncate(end);
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
        medium.sync_dir(to).map_err(Error::io("sync", to))?;
        let m = Manifest {
            identity,
            closed: true,
            horizon: g1,
            before: None,
            logs,
            checkpoint: Some(Published { side: 0, g0, g1, images }),
            ..self.log.register.manifest(&self.log, &stated)
        };
        m.store(medium, to).map(drop).map_err(|e| e.1)
    }
}

/// Copies a backup (or a closed database whose log lies in its directory) from `from` to the empty
/// directory `to`, durably; the log goes where `options` say. The copy is a database of its own.
/// Opening `to` checks it.
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
/// damaged or a segment is missing; [`Error::Directory`] if a log directory is, or `to` is not
/// empty.
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &crate::Options) -> Result<()> {
    let (from, to, medium) = (from.as_ref(), to.as_ref(), &*options.medium);
    let mut locks = Locks::default();
    let source = crate::Options { stream_dirs: Vec::new(), ..options.clone() };
    let mut found = Survey::take(from, &source, Purpose::Read, &mut locks)?;
    let Some(m) = &found.manifest else {
        return Err(Error::NoDatabase { dir: from.to_owned() });
    };
    let m = Manifest { identity: Identity::random(), before: None, ..m.clone() };
    found.require_whole()?;
    check_places(to, options, m.logs.len(), true)?;
    let targets: Vec<_> = (0..m.logs.len()).map(|i| options.stream_dir(to, i)).collect();
    targets.iter().map(AsRef::as_ref).chain([to]).try_for_each(|dir| require_empty(medium, dir))?;
    let logs = found.homes.iter().map(|h| h.dir.as_path()).zip(targets.iter().map(AsRef::as_ref));
    for (i, (a, b)) in logs.chain([(from, to)]).enumerate() {
        medium.create_dir(b).map_err(Error::io("create directory", b))?;
        let names = medium.list(a).map_err(Error::io("list", a))?;
        let ours = [LOCK, mark::NAME, manifest::NAME];
        for n in names.iter().filter(|n| !ours.contains(&n.as_str())) {
            // What a link leads to is no part of the backup.
            if medium.entry(&a.join(n)).map_err(Error::io("look at", &a.join(n)))? == Some(Entry::Symlink) {
                continue;
            }
            copy(medium, &a.join(n), &b.join(n))?;
        }
        // Before its first opening a database has no marks.
        if i < targets.len() && m.life().is_some() {
            Mark { identity: m.identity, stream: i as u32, life: m.life() }.store(medium, b)?;
        }
        medium.sync_dir(b).map_err(Error::io("sync", b))?;
    }
    // Last, so that a copy that was cut off is no database.
    m.store(medium, to).map(drop).map_err(|e| e.1)
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
