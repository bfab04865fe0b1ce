//! The seam between the engine and the disk.
//!
//! Everything the engine asks of a disk is one of the few calls of [`Medium`] and [`MediumFile`].
//! Three implementations: [`FileMedium`] (a real file system), [`MemoryMedium`] (nothing survives
//! the process) and [`CrashMedium`] (a seeded, adversarial disk for tests).
//!
//! What the engine assumes of a medium, and nothing more: bytes written are durable only after
//! `sync` of that file returned; a name is durable only after `sync_dir` of its directory returned;
//! `rename` is atomic; a sector of 512 bytes may be torn from its neighbours, in any order; after a
//! failed `sync` the bytes may be lost for good.

mod crash;
mod file;
mod memory;

pub use crash::{CrashKind, CrashMedium, Faults};
pub use file::FileMedium;
pub use memory::MemoryMedium;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a name in a directory stands for, links not followed.
///
/// ```
/// use mmdb::medium::{Entry, FileMedium, Medium};
/// assert_eq!(FileMedium.entry(&std::env::temp_dir().join("mmdb: no such name"))?, None);
/// assert_eq!(FileMedium.entry("/dev/null".as_ref())?, Some(Entry::Other));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file, and how many names it has: hard links are other names of the same bytes.
    File {
        /// At least 1.
        names: u64,
    },
    /// A symbolic link, wherever it leads.
    Symlink,
    /// A directory, a device, a pipe.
    Other,
}

/// A place that holds directories of files.
///
/// ```
/// use mmdb::medium::{Entry, Medium, MemoryMedium};
/// use std::path::Path;
/// let m = MemoryMedium::new();
/// m.create_dir(Path::new("/d"))?;
/// let f = m.create(Path::new("/d/a"))?;
/// f.write_at(0, b"hello")?;
/// f.sync()?;
/// m.sync_dir(Path::new("/d"))?;
/// m.rename(Path::new("/d/a"), Path::new("/d/b"))?;
/// assert_eq!(m.list(Path::new("/d"))?, ["b"]);
/// assert_eq!(m.open(Path::new("/d/b"))?.len()?, 5);
/// assert_eq!(m.open_to_read(Path::new("/d/b"))?.len()?, 5);
/// assert_eq!(m.entry(Path::new("/d/b"))?, Some(Entry::File { names: 1 }));
/// m.remove(Path::new("/d/b"))?;
/// assert_eq!(m.entry(Path::new("/d/b"))?, None);
/// let ours = m.lock(Path::new("/d/LOCK"))?;
/// assert!(m.lock(Path::new("/d/LOCK")).is_err(), "one at a time");
/// assert!(m.lock_existing(Path::new("/d/LOCK")).is_err());
/// assert!(m.lock_dir(Path::new("/d"))?.is_none(), "directories have no lock but that of their file");
/// assert_eq!(m.resolve(Path::new("/d")), Path::new("/d"), "no links here");
/// assert_eq!(m.absolute(Path::new("d"))?, Path::new("d"), "no working directory either");
/// assert_eq!(m.room(Path::new("/d"))?, None, "nor a size");
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Medium: Send + Sync + Debug {
    /// Opens an existing file for reading and writing; `NotFound` if there is none. What a link
    /// leads to, and what is no file, is refused.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;
    /// Opens an existing file that is only read, where the file system or the file's mode may
    /// forbid writing; `NotFound` if there is none. The default is for media that forbid nobody to
    /// write.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.open(path)
    }
    /// Creates an empty file in the place of one of that name, or of a link, neither of which is
    /// written to.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>>;
    /// Creates a directory and its parents, durably; fine if it is there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a file within one directory, atomically, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Names of the files in a directory, sorted, those that are symbolic links too; empty if the
    /// directory does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Takes the exclusive right to use a database; `WouldBlock` if another holds it. Dropping
    /// gives it back.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// As [`Medium::lock`] for who only reads: makes no file, and gives `None` if there is none to
    /// lock. The default is for media whose locks are no files.
    fn lock_existing(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.lock(path).map(Some)
    }
    /// Takes the exclusive right to use a directory, whatever becomes of the files in it;
    /// `WouldBlock` if another holds it, `None` if there is no such directory or it cannot be
    /// locked. The default is for media whose locks cannot be removed.
    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let _ = dir;
        Ok(None)
    }
    /// What is there under a name; `None` if nothing is. The default is for media that know no
    /// links.
    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        match self.open_to_read(path) {
            Ok(_) => Ok(Some(Entry::File { names: 1 })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
    /// The path from the root, so that it stays the same place when the process changes its working
    /// directory. Links stay as they are. The default is for media without a working directory.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// The one name of a place that has several, as far as it exists: without links, `.` and `..`.
    /// The default is for media where every place has one name.
    fn resolve(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
    /// Bytes that the files of a directory can still take together; `None` where nobody knows. The
    /// default is for media without a size.
    fn room(&self, dir: &Path) -> io::Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
}

/// An open file of a [`Medium`].
///
/// ```
/// use mmdb::medium::{Medium, MediumFile, MemoryMedium};
/// let f = MemoryMedium::new().create("/d/a".as_ref())?;
/// assert!(f.is_empty()?);
/// f.reserve(8)?;
/// f.preallocate(8)?;
/// f.write_at(6, b"hello")?;
/// f.sync()?;
/// assert!(f.has_name()?);
/// f.drop_cache()?;
/// let mut b = [0; 16];
/// let n = f.read_at(4, &mut b)?;
/// assert_eq!((&b[..n], f.len()?), (&b"\0\0hello"[..], 11));
/// assert_eq!(f.read_device(&mut b)?, 11);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait MediumFile: Send + Sync + Debug {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Fills `buf` from the start of the file with what the device has, not with what the cache
    /// has; returns the length read, shorter only at the end of the file. The default forgets the
    /// cache and reads.
    fn read_device(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.drop_cache()?;
        self.read_at(0, buf)
    }
    /// Writes all of `data` at `offset`, extending the file if need be.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes everything written so far durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Extends the file to `len` bytes of written zeros, so that later writes change no metadata
    /// and need no space, and syncs it. What is there keeps its bytes, and gets its space if it has
    /// none: a copy may have left out blocks of zeros.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Takes the space of the first `len` bytes without writing them; `StorageFull` if there is
    /// less. The default does nothing: then [`MediumFile::preallocate`] finds out.
    fn reserve(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Whether the file has a name yet: one that was deleted while it is open takes all that is
    /// written to it, and loses it when it is closed. Asked after every flush of the log, so it has
    /// to cost little. The default is for media where only the database deletes files.
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Forgets cached pages, so that what is read next comes from the device. A hint; the default
    /// does nothing.
    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a whole file of `len` bytes. A length is data of the disk, which may be damaged: memory
/// that is not there is an error.
pub(crate) fn read_all(file: &dyn MediumFile, len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut buf = Vec::new();
    buf.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    buf.resize(len, 0);
    let n = file.read_at(0, &mut buf)?;
    buf.truncate(n);
    Ok(buf)
}

/// Writes a file whole and durable, name and all: temporary file, sync, rename, sync of the
/// directory. An error comes with whether the new file may have taken the name already.
pub(crate) fn replace(
    medium: &dyn Medium,
    dir: &Path,
    name: &str,
    data: &[u8],
) -> std::result::Result<(), (bool, io::Error)> {
    let tmp = dir.join(format!("{name}.tmp"));
    (|| {
        let file = medium.create(&tmp)?;
        file.write_at(0, data)?;
        file.sync()
    })()
    .map_err(|e| {
        // The old file is as it was; half of a new one would only take the space that may be
        // missing.
        let _ = medium.remove(&tmp);
        (false, e)
    })?;
    (|| {
        medium.rename(&tmp, &dir.join(name))?;
        medium.sync_dir(dir)
    })()
    .map_err(|e| (true, e))
}
