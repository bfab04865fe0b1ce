//! An open file under the probe: SQLite's calls counted, timed and passed on unchanged.
//!
//! SQLite finds a file's methods through the pointer at the head of its `sqlite3_file`. The probe
//! puts a [`WrappedFile`] where that pointer leads; its first field is the method table, so the same
//! pointer leads to everything the probe knows of the file. There are two ways to hold the file
//! itself:
//!
//! - *inside*: opened through the VFS "fathom". SQLite gives one block of memory; the probe's
//!   [`Head`] comes first and the platform's file follows it.
//! - *in place*: opened through the platform's VFS. The block is the platform's file; only the
//!   pointer at its head is replaced and the [`WrappedFile`] lives on the heap until the file is
//!   closed.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{BUSY, ERROR, File, IoMethods, OK, fcntl};
use crate::installed::{InstalledVfs, VFS_NAME};
use crate::kind::{FileClass, Op};
use crate::meter::{timed, timed_as};
use crate::refuse::{is_log_refused, is_refused};
use crate::watch::TrackedFile;

/// What the probe knows of one open file.
#[repr(C)]
pub struct WrappedFile {
    /// The table that SQLite calls. Must stay the first field.
    methods: IoMethods,
    /// The platform's file.
    inner: *mut File,
    /// The platform's methods of a file wrapped in place; null where they are at the head of
    /// `inner`.
    replaced: *const IoMethods,
    class: FileClass,
    installed: *const InstalledVfs,
    /// Null unless files are watched; a box that is freed when the file is closed.
    tracked: *mut TrackedFile,
}

/// What precedes the platform's file in the memory that SQLite gives to a file of the VFS "fathom".
///
/// SQLite aligns that memory to 8 bytes; the size of `Head` is a multiple of 8, where pointers have
/// 4 by being aligned so itself, and the platform's file is as aligned as it would be without the
/// probe.
#[repr(C, align(8))]
pub struct Head {
    base: File,
    wrapped: WrappedFile,
}

const _: () = assert!(size_of::<Head>().is_multiple_of(8) && align_of::<Head>() <= 8);

/// A method table that calls the probe, with the version of `inner` and null wherever `inner` has
/// null.
///
/// # Safety
/// `inner` must point to a method table of the size that its version implies.
unsafe fn methods_over(inner: *const IoMethods) -> IoMethods {
    // A table of version 1 ends before the fields of version 2, so fields are read one by one
    // through the pointer and no reference to the whole is made. SAFETY: each field read belongs to
    // the table's version.
    unsafe {
        let version = (*inner).version.min(3);
        let (v2, v3) = (version >= 2, version >= 3);
        IoMethods {
            version,
            close: (*inner).close.map(|_| close as _),
            read: (*inner).read.map(|_| read as _),
            write: (*inner).write.map(|_| write as _),
            truncate: (*inner).truncate.map(|_| truncate as _),
            sync: (*inner).sync.map(|_| sync as _),
            file_size: (*inner).file_size.map(|_| file_size as _),
            lock: (*inner).lock.map(|_| lock as _),
            unlock: (*inner).unlock.map(|_| unlock as _),
            check_reserved_lock: (*inner).check_reserved_lock.map(|_| check_reserved_lock as _),
            file_control: (*inner).file_control.map(|_| file_control as _),
            sector_size: (*inner).sector_size.map(|_| sector_size as _),
            device_characteristics: (*inner).device_characteristics.map(|_| device_characteristics as _),
            shm_map: if v2 { (*inner).shm_map.map(|_| shm_map as _) } else { None },
            shm_lock: if v2 { (*inner).shm_lock.map(|_| shm_lock as _) } else { None },
            shm_barrier: if v2 { (*inner).shm_barrier.map(|_| shm_barrier as _) } else { None },
            shm_unmap: if v2 { (*inner).shm_unmap.map(|_| shm_unmap as _) } else { None },
            fetch: if v3 { (*inner).fetch.map(|_| fetch as _) } else { None },
            unfetch: if v3 { (*inner).unfetch.map(|_| unfetch as _) } else { None },
        }
    }
}

impl Head {
    /// Bytes before the platform's file.
    pub const SIZE: usize = size_of::<Head>();

    /// Makes the memory at `file` ready for the platform's `xOpen`, and gives the place of the
    /// platform's file.
    ///
    /// # Safety
    /// `file` must be memory for this head and the platform's file, not in use.
    pub unsafe fn prepare(file: *mut File) -> *mut File {
        // SAFETY: both heads lie inside the caller's memory; writing through the pointers makes no
        // reference.
        unsafe {
            let inner = file.byte_add(Self::SIZE);
            (*file).methods = ptr::null();
            (*inner).methods = ptr::null();
            inner
        }
    }

    /// Puts the probe in front of the platform's file, if the platform's `xOpen` left it open.
    ///
    /// # Safety
    /// After [`Head::prepare`] and the platform's `xOpen`; `installed` must live as long as the
    /// file; `name` is null or ends in NUL.
    pub unsafe fn finish(
        file: *mut File,
        name: *const c_char,
        class: FileClass,
        installed: *const InstalledVfs,
    ) {
        // SAFETY: the memory was prepared; SQLite does not move an open file.
        unsafe {
            let inner = file.byte_add(Self::SIZE);
            if (*inner).methods.is_null() {
                return;
            }
            let methods = methods_over((*inner).methods);
            let tracked = TrackedFile::open(name, class).map_or(ptr::null_mut(), Box::into_raw);
            let wrapped = &raw mut (*file.cast::<Head>()).wrapped;
            wrapped.write(WrappedFile { methods, inner, replaced: ptr::null(), class, installed, tracked });
            // The pointer to the table must reach the whole of `WrappedFile`, hence the cast.
            (*file).methods = wrapped.cast::<IoMethods>();
        }
    }
}

/// Puts the probe in front of a file that the platform has opened, in place. A file without methods
/// is left alone.
///
/// # Safety
/// `file` must be a file that the platform's VFS of `installed` opened, in use by no other thread
/// now.
pub unsafe fn wrap_in_place(file: *mut File, class: FileClass, installed: *const InstalledVfs) {
    // SAFETY: by the caller's promise the pointer and the table behind it are the platform's.
    unsafe {
        let replaced = (*file).methods;
        let mut all = in_place();
        if replaced.is_null() || all.contains(&replaced.addr()) {
            return;
        }
        let methods = methods_over(replaced);
        let tracked = ptr::null_mut();
        let wrapped = WrappedFile { methods, inner: file, replaced, class, installed, tracked };
        let wrapped = Box::into_raw(Box::new(wrapped));
        all.insert(wrapped.addr());
        (*file).methods = wrapped.cast::<IoMethods>();
    }
}

/// The method tables of files wrapped in place and still open, by address.
static IN_PLACE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn in_place() -> MutexGuard<'static, BTreeSet<usize>> {
    IN_PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The platform's `xRead` of an open file, which tells one VFS's files from another's.
///
/// # Safety
/// `file` must be open.
pub unsafe fn platform_read(
    file: *const File,
) -> Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int> {
    // SAFETY: an open file has a method table of at least version 1, and one listed in `IN_PLACE`
    // is a `WrappedFile`.
    unsafe {
        let methods = (*file).methods;
        if in_place().contains(&methods.addr()) {
            (*(*methods.cast::<WrappedFile>()).platform()).read
        } else {
            (*methods).read
        }
    }
}

impl WrappedFile {
    /// What is watched of the file, if it is.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "the box is the file's own, behind a raw pointer as all of SQLite's files are"
    )]
    fn tracked(&self) -> Option<&mut TrackedFile> {
        // SAFETY: null, or a box that lives until the file is closed. SQLite calls one method of a
        // file at a time, and no method keeps the reference.
        unsafe { self.tracked.as_mut() }
    }

    /// The platform's method table.
    #[inline]
    fn platform(&self) -> *const IoMethods {
        if self.replaced.is_null() {
            // SAFETY: the platform's file is open as long as the probe's is. Read each time: a VFS
            // may change its own methods.
            unsafe { (*self.inner).methods }
        } else {
            self.replaced
        }
    }
}

/// The probe's part of a file that SQLite hands to a method.
///
/// # Safety
/// `file` must carry the probe's method table, which is so wherever SQLite calls one of the methods
/// below.
#[inline]
unsafe fn wrapped<'a>(file: *mut File) -> &'a WrappedFile {
    // SAFETY: the table is the first field of a `WrappedFile`, and the pointer was made from a pointer
    // to all of it.
    unsafe { &*(*file).methods.cast::<WrappedFile>() }
}

/// Calls the platform's method `$method` of `$wrapped`. It exists: the probe's own stands in the
/// table only where the platform's does. Should a VFS take a method away from an open file, the
/// call fails like any other.
macro_rules! platform {
    ($wrapped:expr, $method:ident ( $($argument:expr),* )) => {{
        let wrapped: &WrappedFile = $wrapped;
        // SAFETY: SQLite's arguments are passed on as they came, to the method that they were meant
        // for, with the file that the platform opened.
        match unsafe { (*wrapped.platform()).$method } {
            // SAFETY: as above.
            Some(method) => unsafe { method(wrapped.inner, $($argument),*) },
            None => ERROR,
        }
    }};
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: see `read`; SQLite closes a file once, and calls nothing on it afterwards.
    let (place, is_in_place) = unsafe {
        let place = (*file).methods.cast_mut().cast::<WrappedFile>();
        (place, !(*place).replaced.is_null())
    };
    if is_in_place {
        in_place().remove(&place.addr());
        // SAFETY: `wrap_in_place` made it from a box. The platform gets its file back as it was.
        let wrapped = unsafe {
            let wrapped = Box::from_raw(place);
            (*file).methods = wrapped.replaced;
            wrapped
        };
        timed(wrapped.class, Op::Close, 0, || platform!(&wrapped, close()))
    } else {
        // SAFETY: it lies in the file's own memory, which SQLite keeps until this returns.
        let wrapped = unsafe { &*place };
        if !wrapped.tracked.is_null() {
            // SAFETY: made by `Box::into_raw` when the file was opened, and freed once, here.
            let mut tracked = unsafe { Box::from_raw(wrapped.tracked) };
            tracked.settle();
        }
        let rc = timed(wrapped.class, Op::Close, 0, || platform!(wrapped, close()));
        // SAFETY: as above; the file is no longer open.
        unsafe { (*file).methods = ptr::null() };
        rc
    }
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: called by SQLite through the table, as are all below.
    let wrapped = unsafe { wrapped(file) };
    let call =
        || timed(wrapped.class, Op::Read, count(bytes), || platform!(wrapped, read(to, bytes, offset)));
    TrackedFile::call(wrapped.tracked, Op::Read, offset, count(bytes), call)
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call =
        || timed(wrapped.class, Op::Write, count(bytes), || platform!(wrapped, write(from, bytes, offset)));
    let rc = TrackedFile::call(wrapped.tracked, Op::Write, offset, count(bytes), call);
    if let Some(tracked) = wrapped.tracked() {
        tracked.written(u64::try_from(offset).unwrap_or(0), count(bytes));
    }
    rc
}

unsafe extern "C" fn truncate(file: *mut File, size: i64) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    if let Some(tracked) = wrapped.tracked() {
        tracked.truncating(u64::try_from(size).unwrap_or(0));
    }
    let call = || timed(wrapped.class, Op::Truncate, 0, || platform!(wrapped, truncate(size)));
    TrackedFile::call(wrapped.tracked, Op::Truncate, size, 0, call)
}

unsafe extern "C" fn sync(file: *mut File, flags: c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || timed(wrapped.class, Op::Sync, 0, || platform!(wrapped, sync(flags)));
    let rc = TrackedFile::call(wrapped.tracked, Op::Sync, 0, 0, call);
    if let Some(tracked) = wrapped.tracked() {
        tracked.settle();
    }
    rc
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    timed(wrapped.class, Op::Size, 0, || platform!(wrapped, file_size(size)))
}

/// A lock that another connection holds is refused with `SQLITE_BUSY` or an extended code of it.
fn granted_or_busy(rc: c_int, granted: Op) -> Op {
    if rc & 0xff == BUSY { Op::Busy } else { granted }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || if is_refused() { BUSY } else { platform!(wrapped, lock(level)) };
    timed_as(wrapped.class, Op::Lock, call, |rc| (granted_or_busy(*rc, Op::Lock), 0))
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    timed(wrapped.class, Op::Unlock, 0, || platform!(wrapped, unlock(level)))
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, held: *mut c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    timed(wrapped.class, Op::Unlock, 0, || platform!(wrapped, check_reserved_lock(held)))
}

unsafe extern "C" fn file_control(file: *mut File, op: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || platform!(wrapped, file_control(op, argument));
    match op {
        fcntl::SIZE_HINT
        | fcntl::HAS_MOVED
        | fcntl::BEGIN_ATOMIC_WRITE
        | fcntl::COMMIT_ATOMIC_WRITE
        | fcntl::ROLLBACK_ATOMIC_WRITE
        | fcntl::EXTERNAL_READER => timed(wrapped.class, Op::Control, 0, call),
        fcntl::VFSNAME => {
            let rc = call();
            if rc == OK {
                // SAFETY: the argument of this operation is a `char **` in which the platform left
                // a string of SQLite's allocator; `installed` outlives its files.
                unsafe { prefix_name(argument.cast::<*mut c_char>(), &*wrapped.installed) };
            }
            rc
        }
        _ => call(),
    }
}

/// Puts "fathom/" before the name of the VFS, as every VFS shim does (`SQLITE_FCNTL_VFSNAME`).
///
/// # Safety
/// `name` must point to null or to a string allocated by the SQLite library of `installed`.
unsafe fn prefix_name(name: *mut *mut c_char, installed: &InstalledVfs) {
    let prefix = VFS_NAME.to_bytes();
    // SAFETY: lengths are counted before bytes are copied; the new string has room for prefix,
    // slash, name and NUL. If there is no memory the platform's name stands.
    unsafe {
        if name.is_null() || (*name).is_null() {
            return;
        }
        let length = libc::strlen(*name);
        let Ok(size) = c_int::try_from(prefix.len() + 1 + length + 1) else { return };
        let longer = (installed.api.malloc)(size).cast::<c_char>();
        if longer.is_null() {
            return;
        }
        ptr::copy_nonoverlapping(prefix.as_ptr().cast(), longer, prefix.len());
        longer.add(prefix.len()).write(b'/' as c_char);
        ptr::copy_nonoverlapping(*name, longer.add(prefix.len() + 1), length + 1);
        (installed.api.free)((*name).cast());
        *name = longer;
    }
}

unsafe extern "C" fn sector_size(file: *mut File) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    platform!(wrapped, sector_size())
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    platform!(wrapped, device_characteristics())
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || platform!(wrapped, shm_map(region, bytes, extend, to));
    timed(FileClass::WalIndex, Op::Shm, count(bytes), call)
}

unsafe extern "C" fn shm_lock(file: *mut File, offset: c_int, number: c_int, flags: c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || {
        if is_log_refused(offset, flags) { BUSY } else { platform!(wrapped, shm_lock(offset, number, flags)) }
    };
    timed_as(FileClass::WalIndex, Op::Shm, call, |rc| (granted_or_busy(*rc, Op::Shm), 0))
}

unsafe extern "C" fn shm_barrier(file: *mut File) {
    // SAFETY: see `read`; a memory barrier takes less time than reading the clock.
    unsafe {
        let wrapped = wrapped(file);
        if let Some(method) = (*wrapped.platform()).shm_barrier {
            method(wrapped.inner);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut File, delete: c_int) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    timed(FileClass::WalIndex, Op::Shm, 0, || platform!(wrapped, shm_unmap(delete)))
}

unsafe extern "C" fn fetch(file: *mut File, offset: i64, bytes: c_int, to: *mut *mut c_void) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || platform!(wrapped, fetch(offset, bytes, to));
    timed_as(wrapped.class, Op::Fetch, call, |_| {
        // SAFETY: SQLite passes a place for the pointer, which the platform has filled by now.
        let mapped = !to.is_null() && unsafe { !(*to).is_null() };
        (Op::Fetch, if mapped { count(bytes) } else { 0 })
    })
}

unsafe extern "C" fn unfetch(file: *mut File, offset: i64, page: *mut c_void) -> c_int {
    // SAFETY: see `read`.
    let wrapped = unsafe { wrapped(file) };
    let call = || platform!(wrapped, unfetch(offset, page));
    if page.is_null() {
        // Gives up the whole mapping: a system call.
        timed(wrapped.class, Op::Fetch, 0, call)
    } else {
        // Counts down a number in memory: less than reading the clock.
        call()
    }
}

fn count(bytes: c_int) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
