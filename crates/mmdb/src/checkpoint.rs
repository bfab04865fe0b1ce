//! Fuzzy two-sided checkpoints.
//!
//! 1. G0: a commit number such that everything up to it is applied (the gates are closed for a moment).
//! 2. Containers that changed since this side's last checkpoint are copied, each under a shared latch, into this side's
//!    file. The other side's file, the last good one, is never touched.
//! 3. G1: the last commit number given out. The images hold nothing newer. The file is synced, and nothing goes on
//!    before the durable horizon has reached G1: an image must not know commits that the log can lose.
//! 4. The manifest names the side, G0, G1 and every image's checksum, and is replaced atomically.
//! 5. Segments whose commits are all at or below G0 are released.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::log::Sabotage;
use crate::manifest::{self, Epoch, Image, Manifest, Published};
use crate::medium::MediumFile;
use crate::schema::{Logging, Schema};
use crate::sync::{MutexGuard, atomic::Ordering};
use crate::table::TableInner;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// What the manifest will say, and what the sides' files hold. One user at a time.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    pub(crate) next_table: u32,
    pub(crate) schemas: Vec<(u32, Schema)>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) published: Option<Published>,
    /// Per side: checksum of each container's image in the file.
    pub(crate) crcs: [HashMap<(u32, u32), u32>; 2],
}

impl Admin {
    pub(crate) fn forget_table(&mut self, id: u32) {
        for side in &mut self.crcs {
            side.retain(|k, _| k.0 != id);
        }
        if let Some(p) = &mut self.published {
            p.images.retain(|i| i.table != id);
        }
    }
}

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
    work: Vec<(Arc<TableInner>, u32)>,
    next: usize,
    copied: u64,
    file: Arc<dyn MediumFile>,
    published: bool,
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
        engine.log.check()?;
        let admin = engine.admin.lock();
        let side = admin.published.as_ref().map_or(0, |p| 1 - p.side);
        let medium = &*engine.options.medium;
        let path = engine.path.join(manifest::image_name(side));
        let file = match medium.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => medium.create(&path),
            other => other,
        };
        let file = file.map_err(Error::io("open", &path))?;
        let g0 = engine.quiesce();
        let mut work = Vec::new();
        for t in engine.live_tables().filter(|t| t.logging != Logging::Volatile) {
            work.extend(t.containers.iter().map(|(n, _)| (t.clone(), n)));
        }
        Ok(Stepwise { engine, admin, side, g0, work, next: 0, copied: 0, file, published: false })
    }

    /// Copies the next changed container. False if there is none left.
    pub fn step(&mut self) -> Result<bool> {
        let size = self.engine.space.container_size;
        while let Some((t, n)) = self.work.get(self.next) {
            self.next += 1;
            let Some(c) = t.containers.get(*n) else { continue };
            let copy = {
                let bytes = c.bytes.read();
                // Writers set it under the exclusive latch, so nothing is missed.
                if !c.dirty[self.side].swap(false, Ordering::Relaxed) || bytes.is_empty() {
                    continue;
                }
                bytes.to_vec()
            };
            let path = self.engine.path.join(manifest::image_name(self.side));
            let at = u64::from(c.image) * size as u64;
            self.file.write_at(at, &copy).map_err(Error::io("write", &path))?;
            self.admin.crcs[self.side].insert((t.id, *n), crc32c::crc32c(&copy));
            self.copied += 1;
            return Ok(true);
        }
        Ok(false)
    }

    /// Copies the rest and publishes.
    pub fn finish(mut self) -> Result<CheckpointStats> {
        while self.step()? {}
        let e = self.engine;
        let g1 = e.log.last();
        let path = e.path.join(manifest::image_name(self.side));
        let synced = self.file.sync().and_then(|()| e.options.medium.sync_dir(&e.path));
        if let Err(err) = synced.map_err(Error::io("sync", &path)) {
            e.log.poison(&err.to_string());
            return Err(err);
        }
        if e.log.sabotage != Sabotage::NoPublishRule {
            e.log.flush_all()?;
        }
        let mut images = Vec::with_capacity(self.work.len());
        for (t, n) in &self.work {
            let crc = self.admin.crcs[self.side].get(&(t.id, *n)).copied();
            if let (Some(c), Some(crc)) = (t.containers.get(*n), crc) {
                images.push(Image { table: t.id, number: *n, class: c.class, image: c.image, crc });
            }
        }
        let before = self.admin.published.replace(Published { side: self.side, g0: self.g0, g1, images });
        let epochs = self.admin.epochs.clone();
        // What earlier lives logged is all in the images.
        if let Some(last) = epochs.last().copied() {
            self.admin.epochs = vec![last];
        }
        if let Err(err) = e.store_manifest(&mut self.admin) {
            self.admin.published = before;
            self.admin.epochs = epochs;
            return Err(err);
        }
        self.published = true;
        let mut segments = 0;
        for s in &e.log.streams {
            segments += s.recycle(self.g0)? as u64;
        }
        let c = &e.counters;
        c.checkpoints.fetch_add(1, Ordering::Relaxed);
        c.checkpoint_containers.fetch_add(self.copied, Ordering::Relaxed);
        c.recycled.fetch_add(segments, Ordering::Relaxed);
        Ok(CheckpointStats { g0: self.g0, g1, containers: self.copied, segments })
    }
}

impl Engine {
    pub(crate) fn checkpoint(&self) -> Result<CheckpointStats> {
        if self.options.reference {
            return Ok(CheckpointStats { g0: 0, g1: 0, containers: 0, segments: 0 });
        }
        Stepwise::begin(self)?.finish()
    }

    pub(crate) fn manifest(&self, admin: &Admin) -> Manifest {
        Manifest {
            container_size: self.space.container_size as u32,
            streams: self.log.streams.len() as u32,
            kind: self.options.log_kind,
            horizon: self.log.horizon(),
            epochs: admin.epochs.clone(),
            next_table: admin.next_table,
            tables: admin.schemas.clone(),
            checkpoint: admin.published.clone(),
        }
    }

    /// Replaces the manifest. If it is unknown which of the two is on the disk, the database is poisoned: a further
    /// checkpoint might overwrite the side that the disk's manifest names.
    pub(crate) fn store_manifest(&self, admin: &mut Admin) -> Result<()> {
        let stored = self.manifest(admin).store(&*self.options.medium, &self.path);
        if let Err((maybe, err)) = stored {
            if maybe {
                self.log.poison(&err.to_string());
            }
            return Err(err);
        }
        Ok(())
    }
}
