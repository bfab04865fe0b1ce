//! The disk as an engine uses it that forgets to make something durable: what it would have synced
//! is taken for synced.

#[path = "../handing_on/mod.rs"]
mod handing_on;

use handing_on::hand_on;
use mmdb::medium::{CrashMedium, Medium, MediumFile};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What is not made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// The new manifest, before it takes its name.
    Manifest,
    /// The name of the new manifest.
    NameOfManifest,
    /// The names of segments.
    NamesOfSegments,
    /// The images of a checkpoint.
    Images,
    /// The files of a backup, or of the copy that is restored from it.
    Copies,
    /// Their names.
    NamesOfCopies,
}

#[derive(Debug)]
pub struct Careless {
    disk: CrashMedium,
    omission: Omission,
}

#[derive(Debug)]
struct Forgotten(Arc<dyn MediumFile>);

impl Careless {
    pub fn over(disk: CrashMedium, omission: Omission) -> Arc<dyn Medium> {
        Arc::new(Careless { disk, omission })
    }

    fn file(&self, path: &Path, file: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        let (name, ours) = (path.file_name().unwrap().to_string_lossy(), path.starts_with("/db"));
        let forgotten = match self.omission {
            Omission::Manifest => name == "MANIFEST.tmp" && ours,
            Omission::Images => name.starts_with("images-") && ours,
            Omission::Copies => path.to_string_lossy().starts_with("/backup-"),
            _ => false,
        };
        if forgotten { Arc::new(Forgotten(file)) } else { file }
    }
}

impl Medium for Careless {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(path, self.disk.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(path, self.disk.create(path)?))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let text = dir.to_string_lossy();
        let forgotten = match self.omission {
            Omission::NameOfManifest => text == "/db",
            Omission::NamesOfSegments => text.starts_with("/db/log-") || text.starts_with("/disk-"),
            Omission::NamesOfCopies => text.starts_with("/backup-"),
            _ => false,
        };
        if forgotten { Ok(()) } else { self.disk.sync_dir(dir) }
    }
    hand_on!(disk);
}

impl MediumFile for Forgotten {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.0.preallocate(len)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.drop_cache()
    }
}
