//! A real file system: `pwrite`, `fdatasync`, `flock`.

use super::{Entry, Medium, MediumFile};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Zeros are written in pieces of this size, bytes. The page cache keeps a file in pieces as they
/// were written, and ext4 looks through the whole of one at each sync: with a mebibyte a flush of
/// 4 KiB took 66 µs and 23 µs of processor time, with 64 KiB 57 and 16, with less no less (Linux
/// 6.18).
const ZERO_PIECE: usize = 64 << 10;
/// Reading past the page cache wants memory, offset and length at multiples of the device's block,
/// which this is.
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

/// A locked file. A process that another thread has just forked has the file open, too, until it
/// runs its program; closing ours alone would leave the lock to it for so long.
struct Locked {
    file: File,
    /// Who has locked it.
    process: u32,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A process that was forked shares the lock and must not take it from the one that it is
        // for: there it ends with the last of the two that closes the file.
        if std::process::id() == self.process {
            // If it fails, closing the file unlocks it.
            let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
        }
    }
}

fn locked(f: File) -> io::Result<Box<dyn Send + Sync>> {
    rustix::fs::flock(&f, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
    Ok(Box::new(Locked { file: f, process: std::process::id() }))
}

/// Opens a regular file and nothing else. A FIFO would be waited for, and a device written to.
fn open_file(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let file = options.custom_flags((flags | OFlags::NONBLOCK).bits() as i32).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file("it is no regular file")) }
}

/// As [`open_file`], for writing. Names in a database's directory are its own, but a copy of it may
/// have come from anywhere: a link there would let the database write what lies elsewhere.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_file(options, OFlags::NOFOLLOW, path).map_err(|e| match e.raw_os_error() {
        Some(errno) if errno == rustix::io::Errno::LOOP.raw_os_error() => {
            no_file("it is a symbolic link, and what it leads to would be written: move the file itself here")
        }
        _ => e,
    })
}

fn no_file(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Makes a directory and all above it that are missing, and makes every new name durable: a power
/// cut that takes one of them takes all that is below. What is there already may have been made by
/// a process that was killed before it got so far, so its name is synced as well, as far up as this
/// is allowed.
fn make_dirs(
    path: &Path,
    make: &mut dyn FnMut(&Path) -> io::Result<()>,
    sync: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.is_dir()).collect();
    for dir in missing.iter().rev() {
        match make(dir) {
            // Another process was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            done => done?,
        }
    }
    for (i, dir) in path.ancestors().enumerate() {
        let Some(above) = dir.parent() else { break };
        match sync(above) {
            Err(e) if i < missing.len() => return Err(e),
            Err(_) => break,
            Ok(()) => {}
        }
    }
    Ok(())
}

impl OsFile {
    /// The first range without written blocks that begins at or after `at` and before `end`; it
    /// ends there at the latest.
    fn hole(&self, at: u64, end: u64) -> io::Result<Option<Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        if at >= end {
            return Ok(None);
        }
        let begin = match seek(&self.0, SeekFrom::Hole(at)) {
            // Not every file system can tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NXIO) => return Ok(None),
            found => found?,
        };
        if begin >= end {
            return Ok(None);
        }
        let data = match seek(&self.0, SeekFrom::Data(begin)) {
            // Nothing but a hole follows.
            Err(Errno::NXIO) => end,
            found => found?.min(end),
        };
        Ok((data > begin).then_some(begin..data))
    }

    /// Writes zeros, in pieces.
    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let zeros = vec![0u8; ZERO_PIECE.min(usize::try_from(range.end - range.start).unwrap_or(ZERO_PIECE))];
        let mut at = range.start;
        while at < range.end {
            let n = (range.end - at).min(zeros.len() as u64);
            self.0.write_all_at(&zeros[..n as usize], at)?;
            at += n;
        }
        Ok(())
    }
}

impl Medium for FileMedium {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OsFile(open_own(OpenOptions::new().read(true).write(true), path)?)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(OsFile(open_file(OpenOptions::new().read(true), OFlags::empty(), path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let create = || open_own(OpenOptions::new().read(true).write(true).create_new(true), path);
        let file = match create() {
            // A file that is there may have other names, and a link leads elsewhere: it is not
            // written over, but goes, and what it led to stays.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match self.entry(path)? {
                Some(Entry::File { .. } | Entry::Symlink) => {
                    std::fs::remove_file(path)?;
                    create()
                }
                _ => Err(no_file("something that is no file has this name")),
            },
            created => created,
        };
        Ok(Arc::new(OsFile(file?)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let sync = |dir: &Path| File::open(dir)?.sync_all();
        make_dirs(&std::path::absolute(path)?, &mut |dir| std::fs::create_dir(dir), &mut |dir| sync(dir))
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
            let kind = entry.file_type()?;
            // A link that leads nowhere is the name of a file that is not there.
            let leads_to_file = || std::fs::metadata(entry.path()).map_or(true, |there| there.is_file());
            if (kind.is_file() || kind.is_symlink() && leads_to_file())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn room(&self, dir: &Path) -> io::Result<Option<u64>> {
        let there = rustix::io::retry_on_intr(|| rustix::fs::statvfs(dir))?;
        // Some file systems have no size to tell.
        Ok((there.f_blocks > 0).then(|| there.f_bavail.saturating_mul(there.f_frsize)))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        locked(open_own(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)?)
    }

    fn lock_existing(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        match open_file(OpenOptions::new().read(true), OFlags::empty(), path) {
            Ok(f) => match locked(f) {
                // A network file system may want write access for an exclusive lock.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
                    locked(OpenOptions::new().read(true).write(true).open(path)?).map(Some)
                }
                done => done.map(Some),
            },
            // Neither is a path through what is no directory a lock; what it is shows when it is
            // used.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        use rustix::io::Errno;
        let opened =
            match OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits() as i32).open(dir) {
                Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Ok(None);
                }
                opened => opened?,
            };
        match locked(opened) {
            // Network file systems lock only what can be opened for writing; then the lock file has
            // to do.
            Err(e)
                if [Errno::BADF, Errno::NOLCK, Errno::OPNOTSUPP, Errno::INVAL, Errno::NOSYS]
                    .iter()
                    .any(|errno| e.raw_os_error() == Some(errno.raw_os_error())) =>
            {
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.is_file() => Ok(Some(Entry::File { names: there.nlink() })),
            Ok(there) if there.is_symlink() => Ok(Some(Entry::Symlink)),
            Ok(_) => Ok(Some(Entry::Other)),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        let mut at = PathBuf::new();
        for part in std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(at.pop()),
                // From the first that is not there on, names are as they are given.
                _ => at = at.join(part).canonicalize().unwrap_or_else(|_| at.join(part)),
            }
        }
        at
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
        // The device reads into `buf` itself, if that and the file system allow it; else through
        // the cache, as ever.
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
        let have = self.len()?;
        // The length says nothing of the space: `cp --sparse=always` leaves holes where zeros were,
        // which get their blocks at a flush, or do not get them. Holes are looked for before the
        // file grows, because what it grows by is one until it is written.
        let mut at = 0;
        while let Some(hole) = self.hole(at, have.min(len))? {
            self.write_zeros(hole.clone())?;
            at = hole.end;
        }
        self.write_zeros(have..len)?;
        self.0.sync_all()
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        use rustix::io::Errno;
        // The length stays: what is not written yet is not there.
        let take = || rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::KEEP_SIZE, 0, len);
        match rustix::io::retry_on_intr(take) {
            // Not every file system can.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            done => Ok(done?),
        }
    }

    fn has_name(&self) -> io::Result<bool> {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        // Nothing but the number of names: since Linux 6.13 a file whose times were asked for gets
        // new ones with its next write, which `fstat` at each flush made 30 µs longer.
        match statx(&self.0, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            Ok(told) if told.stx_mask & StatxFlags::NLINK.bits() != 0 => Ok(told.stx_nlink > 0),
            // Before Linux 4.11, or within a sandbox that does not know the call.
            _ => Ok(rustix::fs::fstat(&self.0)?.st_nlink > 0),
        }
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("mmdb-medium-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Only the last of four new directories was made durable, by a sync of the third: a power cut
    /// could take the first, and with it the log of commits that were acknowledged.
    #[test]
    fn every_directory_that_is_made_is_synced_up_to_the_first_that_was_there() {
        let base = place("dirs");
        let run = |path: &Path, fails: Option<&Path>| {
            let (mut made, mut synced) = (Vec::new(), Vec::new());
            let done = make_dirs(
                path,
                &mut |dir| {
                    made.push(dir.to_path_buf());
                    std::fs::create_dir(dir)
                },
                &mut |dir| {
                    synced.push(dir.to_path_buf());
                    if fails == Some(dir) { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
                },
            );
            (done.is_ok(), made, synced)
        };
        let paths = ["a", "a/b", "a/b/c", "a/b/c/d"].map(|p| base.join(p));
        let (done, made, synced) = run(&paths[3], None);
        assert!(done && made == paths);
        assert_eq!(synced[..4], [paths[2].clone(), paths[1].clone(), paths[0].clone(), base.clone()]);
        assert_eq!(synced.last().unwrap(), Path::new("/"));
        // One that is there may be as young.
        let (done, made, synced) = run(&paths[3], Some(&paths[0]));
        assert_eq!((done, made.len()), (true, 0), "whoever made it had to sync it");
        assert_eq!(synced, [paths[2].clone(), paths[1].clone(), paths[0].clone()]);
        // What is made here must be durable here.
        assert!(!run(&base.join("x/y"), Some(&base)).0);
        // A file in the way is an error.
        std::fs::write(base.join("file"), "").unwrap();
        assert!(!run(&base.join("file"), None).0 && !run(&base.join("file/x"), None).0);
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// A log directory that had been copied with `cp --sparse=always` had segments of full length
    /// and few blocks. They were used again as if they had their space, so a full disk was met by a
    /// flush, which poisons, and not by a commit, which is only refused.
    #[test]
    fn what_a_sparse_copy_left_out_gets_its_space_and_keeps_its_bytes() {
        use std::os::unix::fs::MetadataExt;
        let base = place("sparse");
        let path = base.join("segment");
        let file = File::create(&path).unwrap();
        file.write_all_at(&[7; 5000], 0).unwrap();
        file.write_all_at(&[8; 4096], 1 << 20).unwrap();
        file.set_len(3 << 20).unwrap();
        file.sync_all().unwrap();
        let space = || std::fs::metadata(&path).unwrap().blocks() * 512;
        if space() >= 2 << 20 {
            // This file system knows no holes.
            return std::fs::remove_dir_all(&base).unwrap();
        }
        let f = FileMedium.open(&path).unwrap();
        f.reserve(4 << 20).unwrap();
        assert_eq!(f.len().unwrap(), 3 << 20);
        f.preallocate(4 << 20).unwrap();
        assert!(space() >= 4 << 20, "{} bytes have space", space());
        let mut bytes = vec![1; 5 << 20];
        let n = f.read_at(0, &mut bytes).unwrap();
        let mut want = vec![0; 4 << 20];
        want[..5000].fill(7);
        want[1 << 20..(1 << 20) + 4096].fill(8);
        assert!(bytes[..n] == want, "what was there stays, and zeros are where nothing was");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn every_name_of_a_place_resolves_to_one() {
        let base = place("resolve").canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/sub")).unwrap();
        std::os::unix::fs::symlink(base.join("real"), base.join("link")).unwrap();
        for name in ["real/sub", "link/sub", "link/../real/./sub", "real/sub/../../link/sub/"] {
            assert_eq!(FileMedium.resolve(&base.join(name)), base.join("real/sub"));
        }
        assert_eq!(FileMedium.resolve(&base.join("link/new/../other")), base.join("real/other"));
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// A file that is being executed can be opened for writing by nobody, not even by root.
    #[test]
    fn looking_and_locking_need_no_right_to_write() {
        let running = std::env::current_exe().unwrap();
        assert!(FileMedium.open(&running).is_err());
        assert!(!FileMedium.open_to_read(&running).unwrap().is_empty().unwrap());
        let held = FileMedium.lock_existing(&running).unwrap();
        assert!(held.is_some());
        let second = FileMedium.lock_existing(&running).err().map(|e| e.kind());
        assert_eq!(second, Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    fn a_lock_is_one_at_a_time_and_looking_makes_no_file() {
        let base = place("lock");
        let path = base.join("LOCK");
        assert!(FileMedium.lock_existing(&path).unwrap().is_none() && !path.exists());
        let held = FileMedium.lock(&path).unwrap();
        assert_eq!(FileMedium.lock_existing(&path).err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
        drop(held);
        assert!(FileMedium.lock_existing(&path).unwrap().is_some());
        std::fs::remove_dir_all(&base).unwrap();
    }
}
