//! Cold caches: what a phone has after a restart, as far as software can bring it about.
//!
//! Two ways. As root, dirty data of the file system is written out and `3` goes to
//! `/proc/sys/vm/drop_caches`: page cache, directory entries and inodes. P2 dropped the page cache
//! (`1`); `3` is chosen here because an application that starts on a phone finds no directory entry
//! in memory either, and with `1` the lookup of the database would stay warm. Without root, each
//! file under the directory is synced and evicted with `posix_fadvise(DONTNEED)`, which drops its
//! pages and leaves names and inodes warm.
//!
//! Either way `mincore` is asked afterwards whether the pages are really gone: a page that some
//! process maps (SQLite with `mmap_size`, the WAL index) cannot be evicted while it is mapped, and
//! that is reported, not passed over.
//!
//! What this cannot empty: the database's own cache (close the connection, or use its own means),
//! the memory of a FUSE driver such as ntfs-3g (a few KiB of metadata; its data pages are the
//! kernel's and are dropped), and the cache inside the device. A loop image opened with direct I/O
//! is not in the page cache at all.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

/// How the caches were emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColdMethod {
    /// The kernel dropped page cache, directory entries and inodes of the whole machine (root).
    DropCaches,
    /// Each file's pages were evicted; names and inodes stayed warm (no root).
    Evicted {
        /// Regular files that were evicted.
        files: u64,
    },
    /// The caches are not cold; why, in words a user can act on.
    Failed(String),
}

impl std::fmt::Display for ColdMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColdMethod::DropCaches => f.write_str("page cache, directory entries and inodes dropped"),
            ColdMethod::Evicted { files } => {
                write!(f, "pages of {files} files evicted, names and inodes warm")
            }
            ColdMethod::Failed(why) => write!(f, "not cold: {why}"),
        }
    }
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Share of a file's sampled pages that may stay resident: the kernel may keep a page that it is
/// just using.
const RESIDENT_LIMIT: f64 = 0.05;
/// Files smaller than this are not judged: one page in use would be a large share of them.
const JUDGED_BYTES: u64 = 64 * 1024;
/// How many of the largest files are asked by `mincore` after the whole machine's caches were
/// dropped.
const SAMPLED_FILES: usize = 16;
/// Windows of [`WINDOW_PAGES`] pages that are sampled over one file.
const WINDOWS: u64 = 64;
const WINDOW_PAGES: u64 = 64;

/// Empties the caches of every regular file under `directory` (see the module's text for what that
/// covers).
///
/// Safe to call while this process has SQLite databases open under `directory`: the files are
/// opened in a thread that has a file table of its own, because closing a file releases all POSIX
/// locks that the *file table's* owner holds on it.
#[must_use]
pub fn cold(directory: &Path) -> ColdMethod {
    cold_by(directory, Path::new(DROP_CACHES))
}

/// As [`cold`], with the kernel's switch at another place (tests). What is in memory still is tried
/// once more: whoever else empties the caches just then, or reads ahead, has pages in its hands.
fn cold_by(directory: &Path, switch: &Path) -> ColdMethod {
    let outcome = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                own_file_table()?;
                let files = regular_files(directory)?;
                match drop_caches(directory, switch) {
                    Ok(()) => {
                        judge(&files, SAMPLED_FILES).or_else(|_| {
                            let again = drop_caches(directory, switch);
                            again.map_err(|e| format!("{}: {e}", switch.display()))?;
                            judge(&files, SAMPLED_FILES)
                        })?;
                        Ok(ColdMethod::DropCaches)
                    }
                    Err(_) => {
                        let evict_all = || -> Result<(), String> {
                            for (path, _) in &files {
                                evict(path).map_err(|e| format!("{}: {e}", path.display()))?;
                            }
                            judge(&files, files.len())
                        };
                        evict_all().or_else(|_| evict_all())?;
                        Ok(ColdMethod::Evicted { files: files.len() as u64 })
                    }
                }
            })
            .join()
    });
    match outcome {
        Ok(Ok(method)) => method,
        Ok(Err(why)) => ColdMethod::Failed(why),
        Err(_) => ColdMethod::Failed("the evicting thread panicked".into()),
    }
}

/// Gives the calling thread a copy of the file table, so that closing a file here leaves the
/// process's POSIX locks alone.
fn own_file_table() -> Result<(), String> {
    // SAFETY: the thread is ours and short-lived. It hands no descriptor to another thread and uses
    // none that another thread opened after this call, so the tables may part.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }
        .map_err(|e| format!("cannot get a file table of its own (unshare CLONE_FILES): {e}"))
}

/// Writes the directory's file system out, then tells the kernel to drop its clean caches.
fn drop_caches(directory: &Path, switch: &Path) -> io::Result<()> {
    // Opened first: without the right to drop there is no reason to sync.
    let switch = OpenOptions::new().write(true).open(switch)?;
    rustix::fs::syncfs(File::open(directory)?)?;
    if rustix::io::write(&switch, b"3")? == 1 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Syncs one file and asks the kernel to forget its pages. A file that vanished meanwhile is as
/// cold as can be.
fn evict(path: &Path) -> io::Result<()> {
    let Some(file) = open(path)? else { return Ok(()) };
    // DONTNEED leaves dirty pages alone, so they are written first.
    rustix::fs::fdatasync(&file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn open(path: &Path) -> io::Result<Option<File>> {
    // O_NONBLOCK | O_NOFOLLOW: should the name have become a pipe or a link since it was listed, do
    // not hang on it.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Every regular file under `directory` with its size in bytes, largest first; links are not
/// followed.
fn regular_files(directory: &Path) -> Result<Vec<(PathBuf, u64)>, String> {
    let mut files = Vec::new();
    let mut open_directories = vec![directory.to_path_buf()];
    while let Some(next) = open_directories.pop() {
        let at = |e: io::Error| format!("{}: {e}", next.display());
        for entry in fs::read_dir(&next).map_err(at)? {
            let entry = entry.map_err(at)?;
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() {
                open_directories.push(entry.path());
            } else if meta.is_file() {
                files.push((entry.path(), meta.len()));
            }
        }
    }
    files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(files)
}

/// Fails with the first of the `limit` largest files that is still in memory.
fn judge(files: &[(PathBuf, u64)], limit: usize) -> Result<(), String> {
    for (path, bytes) in files.iter().take(limit) {
        // SQLite keeps its WAL index mapped as long as a connection is open; it is shared memory
        // rather than data.
        if *bytes < JUDGED_BYTES || path.as_os_str().as_bytes().ends_with(b"-shm") {
            continue;
        }
        let share = match resident_share(path) {
            Ok(Some(share)) => share,
            // Gone meanwhile, or the kernel does not tell this user: nothing to judge.
            Ok(None) => continue,
            Err(e) => return Err(format!("{}: mincore: {e}", path.display())),
        };
        if share > RESIDENT_LIMIT {
            return Err(format!(
                "{}: {:.0} % of its pages are still in memory; a process maps them (mmap_size?) or uses them: close it first",
                path.display(),
                share * 100.0
            ));
        }
    }
    Ok(())
}

/// Share of a file's pages in the page cache, 0 to 1, sampled in at most [`WINDOWS`] windows spread
/// evenly over it. `None` when the file is gone, empty, or not this user's to ask about (Linux ≥
/// 5.2 then answers "all resident").
///
/// # Errors
/// The system calls' errors.
pub(crate) fn resident_share(path: &Path) -> io::Result<Option<f64>> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(None) };
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK) } != 0 {
        return Ok(None);
    }
    let Some(file) = open(path)? else { return Ok(None) };
    let bytes = file.metadata()?.len();
    let page = rustix::param::page_size() as u64;
    let pages = bytes.div_ceil(page);
    if pages == 0 {
        return Ok(None);
    }
    let windows = pages.div_ceil(WINDOW_PAGES).min(WINDOWS);
    let (mut resident, mut asked) = (0u64, 0u64);
    for window in 0..windows {
        // Evenly spread: window i starts at page i × (pages / windows).
        let first = (window as u128 * pages as u128 / windows as u128) as u64;
        let count = WINDOW_PAGES.min(pages - first);
        let states = residency(&file, first * page, (count * page) as usize, count as usize)?;
        resident += states.iter().filter(|state| *state & 1 == 1).count() as u64;
        asked += count;
    }
    Ok(Some(resident as f64 / asked as f64))
}

/// `mincore` of one window of a file: one byte a page, bit 0 set when the page is in memory.
fn residency(file: &File, offset: u64, length: usize, pages: usize) -> io::Result<Vec<u8>> {
    let mut states = vec![0u8; pages];
    // SAFETY: a new shared read-only mapping at an address the kernel chooses; it is never read
    // through, only asked about, so a concurrent truncation cannot fault. Unmapped below with the
    // same length.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `address` is a live mapping of `length` bytes, `states` has one byte for each of its
    // pages.
    let asked = unsafe { libc::mincore(address, length, states.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping made above, unmapped once.
    unsafe { libc::munmap(address, length) };
    if asked == 0 { Ok(states) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn filled(directory: &Path, name: &str, bytes: usize) -> PathBuf {
        let path = directory.join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![7u8; bytes]).unwrap();
        path
    }

    /// tmpfs has no device to evict to, so the tests work in the crate's own directory.
    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn eviction_makes_dirty_files_cold_and_counts_them() {
        let dir = on_disk();
        fs::create_dir(dir.path().join("sub")).unwrap();
        filled(&dir.path().join("sub"), "b.db", 1 << 20);
        // What is just written is warm, unless somebody syncs it and drops the machine's caches
        // between the two, as the test below does beside this one.
        let path = dir.path().join("a.db");
        let is_warm = |_| {
            filled(dir.path(), "a.db", 3 << 20);
            resident_share(&path).unwrap().unwrap() > 0.9
        };
        assert!((0..100).any(is_warm), "just written, so warm");
        let method = cold_by(dir.path(), Path::new("/nonexistent/drop_caches"));
        assert_eq!(method, ColdMethod::Evicted { files: 2 });
        assert!(resident_share(&path).unwrap().unwrap() <= RESIDENT_LIMIT);
        assert_eq!(fs::read(&path).unwrap(), vec![7u8; 3 << 20], "the data survived");
    }

    #[test]
    fn dropping_as_root_makes_dirty_files_cold() {
        let dir = on_disk();
        let path = filled(dir.path(), "a.db", 3 << 20);
        if OpenOptions::new().write(true).open(DROP_CACHES).is_err() {
            println!("skipped: {DROP_CACHES} is not writable (needs root)");
            return;
        }
        assert_eq!(cold(dir.path()), ColdMethod::DropCaches);
        assert!(resident_share(&path).unwrap().unwrap() <= RESIDENT_LIMIT);
    }

    #[test]
    fn a_mapped_file_is_reported_not_passed_over() {
        let dir = on_disk();
        let path = filled(dir.path(), "mapped.db", 1 << 20);
        let file = File::open(&path).unwrap();
        let length = 1 << 20;
        // SAFETY: a new mapping of a file of that length, read within its bounds and unmapped
        // below.
        unsafe {
            let address = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            assert_ne!(address, libc::MAP_FAILED);
            let bytes = std::slice::from_raw_parts(address.cast::<u8>(), length);
            assert_eq!(bytes.iter().map(|b| u64::from(*b)).sum::<u64>(), 7 << 20);
            let method = cold_by(dir.path(), Path::new("/nonexistent/drop_caches"));
            libc::munmap(address, length);
            assert!(matches!(&method, ColdMethod::Failed(why) if why.contains("mapped.db")), "{method:?}");
        }
        let method = cold_by(dir.path(), Path::new("/nonexistent/drop_caches"));
        assert_eq!(method, ColdMethod::Evicted { files: 1 }, "unmapped, so it goes");
    }

    /// Closing a file releases the POSIX locks of the closing file table's owner: an eviction in
    /// the worker's own table would silently unlock its open SQLite database.
    #[test]
    fn locks_of_this_process_survive() {
        let dir = on_disk();
        let path = filled(dir.path(), "locked.db", 1 << 20);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut lock = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 10,
            l_pid: 0,
        };
        // SAFETY: a valid descriptor and a lock description that outlives the call.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) }, 0);
        for switch in [DROP_CACHES, "/nonexistent/drop_caches"] {
            let method = cold_by(dir.path(), Path::new(switch));
            assert!(!matches!(method, ColdMethod::Failed(_)), "{method:?}");
        }
        // A thread with a file table of its own is another owner to the kernel: it sees our lock.
        let seen = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    own_file_table().unwrap();
                    let other = OpenOptions::new().read(true).write(true).open(&path).unwrap();
                    // SAFETY: as above; the kernel writes the conflicting lock into `lock`.
                    assert_eq!(unsafe { libc::fcntl(other.as_raw_fd(), libc::F_GETLK, &mut lock) }, 0);
                    i32::from(lock.l_type)
                })
                .join()
                .unwrap()
        });
        assert_eq!(seen, libc::F_WRLCK, "the lock must still be held");
    }

    #[test]
    fn a_missing_directory_is_a_reason() {
        let method = cold(Path::new("/nonexistent/fathom"));
        assert!(
            matches!(&method, ColdMethod::Failed(why) if why.contains("/nonexistent/fathom")),
            "{method:?}"
        );
    }
}
