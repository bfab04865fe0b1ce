//! Online backup: fuzzy images plus the piece of log that makes them whole.
//!
//! The copy has images of all containers as of some moment between G0 and G1, and of each stream the frames up to G1
//! and not one more: a later frame could state a horizon that covers frames which the copy of another stream lacks.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::segment;
use crate::manifest::{self, Image, Manifest, Published};
use crate::medium::Medium;
use crate::recovery::buffer::Buffer;
use crate::recovery::scan;
use crate::schema::Logging;
use std::path::Path;

/// Refuses a directory that holds a database.
pub(crate) fn require_empty(medium: &dyn Medium, to: &Path) -> Result<()> {
    medium.create_dir(to).map_err(Error::io("create directory", to))?;
    let names = medium.list(to).map_err(Error::io("list", to))?;
    if let Some(n) = names.iter().find(|n| *n != "LOCK") {
        let e = std::io::Error::other("the directory is not empty");
        return Err(Error::io("write", &to.join(n))(e));
    }
    Ok(())
}

impl Engine {
    pub(crate) fn backup(&self, to: &Path) -> Result<()> {
        let medium = &*self.options.medium;
        self.log.check()?;
        // Keeps checkpoints from recycling segments meanwhile.
        let admin = self.admin.lock();
        require_empty(medium, to)?;
        let g0 = self.quiesce();
        let size = self.space.container_size;
        let path = to.join(manifest::image_name(0));
        let file = medium.create(&path).map_err(Error::io("create", &path))?;
        let mut images = Vec::new();
        for t in self.live_tables().filter(|t| t.logging != Logging::Volatile) {
            for (number, c) in t.containers.iter() {
                let copy = c.bytes.read().to_vec();
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
        self.log.flush_all()?;
        for (i, s) in self.log.streams.iter().enumerate() {
            let dir = to.join(format!("log-{i}"));
            medium.create_dir(&dir).map_err(Error::io("create directory", &dir))?;
            for number in s.live_segments() {
                let mut scanned = scan::read(medium, s.dir(), i, number, &admin.epochs, Buffer::default())?;
                let cut = scanned.epoch.map_or(0, |e| e.cut.min(g1));
                let end = scanned.frames.iter().filter(|f| f.gsn <= cut).map(|f| f.at + f.len).max();
                // A segment that is ready but empty has no place in the copy.
                let Some(end) = end else { continue };
                scanned.bytes.truncate(end);
                let path = dir.join(segment::name(number));
                let file = medium.create(&path).map_err(Error::io("create", &path))?;
                file.write_at(0, &scanned.bytes).map_err(Error::io("write", &path))?;
                file.sync().map_err(Error::io("sync", &path))?;
            }
            medium.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
        }
        medium.sync_dir(to).map_err(Error::io("sync", to))?;
        let m = Manifest {
            horizon: g1,
            checkpoint: Some(Published { side: 0, g0, g1, images }),
            ..self.manifest(&admin)
        };
        m.store(medium, to).map_err(|e| e.1)
    }
}

/// Copies a backup (or a closed database) from `from` to the empty directory `to`, byte by byte, and durably. Opening
/// `to` checks it.
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
/// [`Error::Io`]; [`Error::Corrupt`] if `from` has no valid manifest.
pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &crate::Options) -> Result<()> {
    let (from, to, medium) = (from.as_ref(), to.as_ref(), &*options.medium);
    let m = Manifest::load(medium, from)?
        .ok_or_else(|| Error::corrupt(&from.join(manifest::NAME), 0, "there is no manifest"))?;
    require_empty(medium, to)?;
    let mut dirs: Vec<_> =
        (0..m.streams).map(|i| (from.join(format!("log-{i}")), options.stream_dir(to, i as usize))).collect();
    dirs.push((from.to_path_buf(), to.to_path_buf()));
    for (a, b) in dirs {
        medium.create_dir(&b).map_err(Error::io("create directory", &b))?;
        let names = medium.list(&a).map_err(Error::io("list", &a))?;
        for n in names.iter().filter(|n| *n != "LOCK" && *n != manifest::NAME) {
            copy(medium, &a.join(n), &b.join(n))?;
        }
        medium.sync_dir(&b).map_err(Error::io("sync", &b))?;
    }
    // Last, so that a copy that was cut off is no database.
    m.store(medium, to).map_err(|e| e.1)
}

fn copy(medium: &dyn Medium, from: &Path, to: &Path) -> Result<()> {
    let source = medium.open(from).map_err(Error::io("open", from))?;
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
