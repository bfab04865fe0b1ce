//! Files in memory: for tests, doc examples and databases that need not survive.

use super::{Medium, MediumFile};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A medium whose files live as long as it does. Clones share the files.
///
/// ```
/// use mmdb::medium::{Medium, MemoryMedium};
/// let m = MemoryMedium::new();
/// m.create("/d/a".as_ref())?.write_at(0, b"hello")?;
/// assert_eq!(m.clone().open("/d/a".as_ref())?.len()?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    files: Arc<Mutex<BTreeMap<PathBuf, Arc<MemFile>>>>,
    locks: Arc<Mutex<BTreeSet<PathBuf>>>,
}

#[derive(Debug, Default)]
struct MemFile(RwLock<Vec<u8>>);

struct DirectoryLock(PathBuf, Arc<Mutex<BTreeSet<PathBuf>>>);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        self.1.lock().remove(&self.0);
    }
}

impl MemoryMedium {
    /// An empty medium.
    ///
    /// ```
    /// use mmdb::medium::{Medium, MemoryMedium};
    /// assert!(MemoryMedium::new().open("/d/a".as_ref()).is_err());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Medium for MemoryMedium {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        match self.files.lock().get(path) {
            Some(f) => Ok(f.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let f = Arc::new(MemFile::default());
        self.files.lock().insert(path.to_path_buf(), f.clone());
        Ok(f)
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let f = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_path_buf(), f);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.files.lock();
        let names = files.keys().filter(|p| p.parent() == Some(dir)).filter_map(|p| p.file_name());
        Ok(names.map(|n| n.to_string_lossy().into_owned()).collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        if !self.locks.lock().insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(DirectoryLock(path.to_path_buf(), self.locks.clone())))
    }
}

/// Copies as much of `data` from `offset` as fits `buf`.
pub(super) fn read_slice(data: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
    let n = buf.len().min(data.len() - start);
    buf[..n].copy_from_slice(&data[start..start + n]);
    n
}

/// Writes `data` at `offset`, extending with zeros.
pub(super) fn write_slice(to: &mut Vec<u8>, offset: u64, data: &[u8]) -> io::Result<()> {
    let start = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let end = start.checked_add(data.len()).ok_or(io::ErrorKind::InvalidInput)?;
    if to.len() < end {
        to.resize(end, 0);
    }
    to[start..end].copy_from_slice(data);
    Ok(())
}

impl MediumFile for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.read().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(read_slice(&self.0.read(), offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        write_slice(&mut self.0.write(), offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut data = self.0.write();
        if data.len() < len {
            data.resize(len, 0);
        }
        Ok(())
    }
}
