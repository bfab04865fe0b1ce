//! A real file system: `pwrite`, `fdatasync`, `flock`.

use super::{Medium, MediumFile};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Zeros are written in pieces of this size, bytes.
const ZERO_PIECE: usize = 1 << 20;
/// Reading past the page cache wants memory, offset and length at multiples of the device's block, which this is.
const DIRECT: usize = 4096;

/// The medium of a real database: files and directories of the operating system.
///
/// ```
/// use mmdb::medium::{FileMedium, Medium};
/// let dir = std::env::temp_dir().join(format!("mmdb-medium-{}", std::process::id()));
/// FileMedium.create_dir(&dir)?;
/// let f = FileMedium.create(&dir.join("a"))?;
/// f.preallocate(4096)?;
/// FileMedium.sync_dir(&dir)?;
/// assert_eq!((FileMedium.list(&dir)?, f.len()?), (vec!["a".to_owned()], 4096));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FileMedium;

#[derive(Debug)]
struct OsFile(File);

/// A locked file. A process that another thread has just forked has the file open, too, until it runs its program; closing
/// ours alone would leave the lock to it for so long.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // If it fails, closing the file unlocks it.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

impl Medium for FileMedium {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let f = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Arc::new(OsFile(f)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(path)?;
        // The new name must be durable too, or a power cut loses the directory with all that is in it.
        match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => File::open(p)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let entries = match std::fs::read_dir(dir) {
            Ok(e) => e,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(names),
            Err(e) => return Err(e),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let f = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&f, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(Locked(f)))
    }
}

impl MediumFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn read_device(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.drop_cache()?;
        // The device reads into `buf` itself, if that and the file system allow it; else through the cache, as ever.
        let aligned = buf.as_ptr().align_offset(DIRECT) == 0 && buf.len().is_multiple_of(DIRECT);
        let flags = rustix::fs::fcntl_getfl(&self.0)?;
        if aligned && rustix::fs::fcntl_setfl(&self.0, flags | rustix::fs::OFlags::DIRECT).is_ok() {
            let done = self.read_at(0, buf);
            rustix::fs::fcntl_setfl(&self.0, flags)?;
            match done {
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
                done => return done,
            }
        }
        self.read_at(0, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let zeros = vec![0u8; ZERO_PIECE.min(usize::try_from(len).unwrap_or(ZERO_PIECE))];
        let mut at = self.len()?;
        while at < len {
            let n = (len - at).min(zeros.len() as u64);
            self.0.write_all_at(&zeros[..n as usize], at)?;
            at += n;
        }
        self.0.sync_all()
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?)
    }
}
