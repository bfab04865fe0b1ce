//! What SQL of strangers leaves free of the disks that it writes to.
//!
//! A script of a line can write without end: into tables, journals, temporary files and sorters, by
//! many steps or by one that writes a gigabyte. What all of that passes are the system calls with
//! which SQLite writes, and its VFS lets them be replaced (`xSetSystemCall`). Those that are put
//! there count bytes, and nothing else as a rule. Now and then they look at what is free where is
//! written; where that is less than is to stay, a write that would make a file longer fails as on a
//! full disk (`ENOSPC`, `SQLITE_FULL`). What lies in a file already can be written again, so that a
//! transaction is rolled back as ever.
//!
//! What is kept free is a part of what was free at first: a small disk can be used as before. The
//! disks are known by their device numbers; what lies on none of them is left alone, as the image
//! of a stack, which nobody else has.

use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

#[cfg(target_os = "android")]
use libc::__errno as place_of_errno;
#[cfg(not(target_os = "android"))]
use libc::__errno_location as place_of_errno;
use libsqlite3_sys as ffi;

/// The most that is kept free, bytes.
const LEFT_MAX: u64 = 1 << 30;

/// The part of what is free that is kept, where that is less: one of so many.
const LEFT_PART: u64 = 16;

/// One look each time that so many parts of one of what is kept have been written: what is written
/// between two looks may come out of it.
const LOOK_PART: u64 = 4;

/// Bytes between two looks, at least and at most: a look takes microseconds.
const LOOK_BYTES: (u64, u64) = (256 << 10, 64 << 20);

/// A disk of which something is kept free.
struct Kept {
    /// A directory on it.
    path: CString,
    /// The number of its device.
    device: u64,
    left_bytes: u64,
    /// Less than that was free when it was looked at last.
    is_low: bool,
    was_refused: bool,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// Bytes since the last look.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// Bytes between two looks.
static LOOK_AFTER: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether one of the disks is low.
static IS_LOW: AtomicBool = AtomicBool::new(false);

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of the system's, whose type differs between machines.
fn wide<T: TryInto<u64>>(number: T) -> u64 {
    number.try_into().unwrap_or(0)
}

/// Bytes that a user may still write, or none where the system does not tell.
fn free_bytes(path: &CStr) -> Option<u64> {
    let mut status = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in NUL, and the system fills the structure where it gives 0.
    let status = unsafe {
        if libc::statvfs(path.as_ptr(), status.as_mut_ptr()) != 0 {
            return None;
        }
        status.assume_init()
    };
    Some(wide(status.f_bavail).saturating_mul(wide(status.f_frsize)))
}

/// Keeps a part of the disk of `directory` free from SQL of strangers, from now on and in this
/// process: a sixteenth of what is free now, and a gigabyte at most. A disk of which something is
/// kept already stays as it is.
pub fn keep(directory: &Path) {
    keep_some(directory, None);
}

/// As [`keep`], so many bytes, which may be more than there are.
pub fn keep_bytes(directory: &Path, bytes: u64) {
    keep_some(directory, Some(bytes));
}

fn keep_some(directory: &Path, bytes: Option<u64>) {
    // What cannot be asked cannot be written to either, or is not known to be full.
    let Ok(device) = std::fs::metadata(directory).map(|status| status.dev()) else { return };
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return };
    let Some(free) = free_bytes(&path) else { return };
    let mut kept = kept();
    if let Some(known) = kept.iter_mut().find(|known| known.device == device) {
        let Some(bytes) = bytes else { return };
        known.left_bytes = bytes;
    } else {
        let left_bytes = bytes.unwrap_or((free / LEFT_PART).min(LEFT_MAX));
        kept.push(Kept { path, device, left_bytes, is_low: false, was_refused: false });
    }
    let least = kept.iter().map(|known| known.left_bytes).min().unwrap_or(u64::MAX);
    LOOK_AFTER.store((least / LOOK_PART).clamp(LOOK_BYTES.0, LOOK_BYTES.1), Ordering::Relaxed);
    drop(kept);
    look();
}

/// Keeps something free where temporary files lie: Rust's, and SQLite's own (`unixTempFileDir` in
/// its `os_unix.c`).
pub fn keep_temporary() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let fixed = ["/var/tmp", "/usr/tmp", "/tmp"].map(PathBuf::from);
        let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(named);
        named.chain(fixed).for_each(|directory| keep(&directory));
    });
}

/// What is said of a write that was refused here, and since the last time that this was asked; none
/// where a disk was really full.
#[must_use]
pub fn take_refusal() -> Option<String> {
    let mut kept = kept();
    let refused = kept.iter_mut().find(|known| known.was_refused)?;
    refused.was_refused = false;
    let (left, unit) = match refused.left_bytes {
        bytes if bytes < 1 << 20 => (bytes >> 10, "KiB"),
        bytes => (bytes >> 20, "MiB"),
    };
    Some(format!(
        "SQL of others leaves the last {left} {unit} of the disk of {} free",
        refused.path.to_string_lossy()
    ))
}

/// Looks at what is free everywhere.
#[cold]
fn look() {
    let mut kept = kept();
    WRITTEN.store(0, Ordering::Relaxed);
    for known in kept.iter_mut() {
        known.is_low = free_bytes(&known.path).is_some_and(|free| free < known.left_bytes);
    }
    IS_LOW.store(kept.iter().any(|known| known.is_low), Ordering::Relaxed);
}

/// Whether so many bytes may be written into a file, from where `at` says on.
fn may_write(file: c_int, bytes: usize, at: impl FnOnce() -> u64) -> bool {
    let bytes = wide(bytes);
    let before = WRITTEN.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) >= LOOK_AFTER.load(Ordering::Relaxed) {
        look();
    }
    !IS_LOW.load(Ordering::Relaxed) || has_room(file, bytes, at())
}

/// Whether they may where something is low.
#[cold]
fn has_room(file: c_int, bytes: u64, at: u64) -> bool {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the system fills the structure where it gives 0.
    let status = unsafe {
        if libc::fstat(file, status.as_mut_ptr()) != 0 {
            return true;
        }
        status.assume_init()
    };
    // What it has already takes no more. A file may be longer than what it has: SQLite gives it its
    // length first where it is mapped into memory.
    let has = wide(status.st_size).min(wide(status.st_blocks).saturating_mul(512));
    if at.saturating_add(bytes) <= has || (bytes == 1 && is_wal_index(file)) {
        return true;
    }
    // Somebody may have made room.
    look();
    let device = wide(status.st_dev);
    let mut kept = kept();
    match kept.iter_mut().find(|known| known.is_low && known.device == device) {
        Some(full) => {
            full.was_refused = true;
            false
        }
        None => true,
    }
}

/// Whether it is the index of a WAL (`-shm`). SQLite makes it longer by a byte at the end of each
/// of its pages, and takes a refusal for a broken disk (`SQLITE_IOERR_SHMSIZE`), also for who only
/// reads. It grows by 32 KiB where its WAL has grown by 4,096 pages, which is refused in time.
fn is_wal_index(file: c_int) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{file}"));
    name.is_ok_and(|name| name.as_os_str().as_bytes().ends_with(b"-shm"))
}

/// Asks for a write of this program's own that says as much as a stranger wants.
///
/// # Errors
/// [`std::io::ErrorKind::StorageFull`], with the words of [`take_refusal`].
pub(crate) fn ask(file: &File, bytes: usize, at: u64) -> std::io::Result<()> {
    keep_temporary();
    if may_write(file.as_raw_fd(), bytes, || at) {
        return Ok(());
    }
    let told = take_refusal().unwrap_or_else(|| "no space left".to_owned());
    Err(std::io::Error::new(std::io::ErrorKind::StorageFull, told))
}

/// What a system call gives that finds no room.
fn no_room() -> isize {
    // SAFETY: it is the calling thread's own, for as long as that lives.
    unsafe { *place_of_errno() = libc::ENOSPC };
    -1
}

/// `write(2)`, as SQLite calls it where it was built without `pwrite`.
unsafe extern "C" fn write(file: c_int, from: *const c_void, bytes: usize) -> isize {
    // SAFETY: it takes numbers only.
    let at = || wide(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) });
    if !may_write(file, bytes, at) {
        return no_room();
    }
    // SAFETY: SQLite's arguments are passed on as they came.
    unsafe { libc::write(file, from, bytes) }
}

/// `pwrite(2)` and `pwrite64(2)`, which are one where offsets have 64 bits anyway.
#[cfg(target_pointer_width = "64")]
unsafe extern "C" fn pwrite(file: c_int, from: *const c_void, bytes: usize, offset: libc::off_t) -> isize {
    if !may_write(file, bytes, || wide(offset)) {
        return no_room();
    }
    // SAFETY: as in `write`.
    unsafe { libc::pwrite(file, from, bytes, offset) }
}

/// `pwrite64(2)`, whose offset has 64 bits everywhere. That of `pwrite` has 32 or 64 where a word
/// has 32, as the library was built, and nobody tells which: it is left as it is there.
#[cfg(not(target_pointer_width = "64"))]
unsafe extern "C" fn pwrite64(
    file: c_int,
    from: *const c_void,
    bytes: usize,
    offset: libc::off64_t,
) -> isize {
    if !may_write(file, bytes, || wide(offset)) {
        return no_room();
    }
    // SAFETY: as in `write`.
    unsafe { libc::pwrite64(file, from, bytes, offset) }
}

/// Has a library of SQLite ask before it makes a file longer on a disk of which something is kept.
/// `vfs` is its default VFS; where that is none of SQLite's own for Unix, or from before 3.7.6,
/// nothing is changed.
///
/// # Safety
/// `vfs` must be null or what the library's `sqlite3_vfs_find` gave, and the library must stay
/// loaded.
pub unsafe fn install(vfs: *mut ffi::sqlite3_vfs) {
    type Symbol = unsafe extern "C" fn();
    // SAFETY: by the caller's promise; every version has the field.
    if vfs.is_null() || unsafe { (*vfs).iVersion } < 3 {
        return;
    }
    // SAFETY: version 3 has the field.
    let Some(set) = (unsafe { (*vfs).xSetSystemCall }) else { return };
    // SAFETY: SQLite calls what it is given under a name with the prototype of that name
    // (`aSyscall` in its `os_unix.c`), which these have. A name that it does not know it refuses.
    unsafe {
        let write =
            std::mem::transmute::<unsafe extern "C" fn(c_int, *const c_void, usize) -> isize, Symbol>(write);
        set(vfs, c"write".as_ptr(), Some(write));
    }
    #[cfg(target_pointer_width = "64")]
    // SAFETY: as above.
    unsafe {
        let pwrite = std::mem::transmute::<
            unsafe extern "C" fn(c_int, *const c_void, usize, libc::off_t) -> isize,
            Symbol,
        >(pwrite);
        set(vfs, c"pwrite".as_ptr(), Some(pwrite));
        set(vfs, c"pwrite64".as_ptr(), Some(pwrite));
    }
    #[cfg(not(target_pointer_width = "64"))]
    // SAFETY: as above.
    unsafe {
        let pwrite64 = std::mem::transmute::<
            unsafe extern "C" fn(c_int, *const c_void, usize, libc::off64_t) -> isize,
            Symbol,
        >(pwrite64);
        set(vfs, c"pwrite64".as_ptr(), Some(pwrite64));
    }
}

/// As [`install`], for the SQLite in this program.
pub(crate) fn install_bundled() {
    static ONCE: Once = Once::new();
    // SAFETY: null asks for the default VFS; the library is part of the program.
    ONCE.call_once(|| unsafe { install(ffi::sqlite3_vfs_find(std::ptr::null())) });
}
