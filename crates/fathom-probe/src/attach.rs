//! Measuring what is already open when the extension is loaded.
//!
//! In the `sqlite3` shell the database is open before `.load` can be given, so its connection holds
//! the platform's VFS and will open its journals through it. Two things bring it under the probe:
//! the platform's VFS gets the probe's entry points in place of its own, and the connection's open
//! files are wrapped where they are.
//!
//! SQLite asks applications to leave a registered VFS alone. Here four function pointers are
//! replaced, each by one atomic store, by functions that end in the replaced ones; whoever calls
//! meanwhile gets either. It is done only by the loadable extension, only to SQLite's own "unix"
//! VFS, and never undone, as the extension is never unloaded.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::{ERROR, File, OK, Vfs, VfsAccess, VfsDelete, VfsOpen, VfsSleep, fcntl};
use crate::file::{platform_read, wrap_in_place};
use crate::installed::InstalledVfs;
use crate::kind::{FileClass, Op};
use crate::meter::timed;
use crate::vfs::{Probe, find};

/// Replaces one function pointer of a registered VFS.
///
/// # Safety
/// `place` must be a field of a live VFS that holds a function pointer of the type of `function`.
unsafe fn replace(place: *mut c_void, function: *const ()) {
    // SAFETY: a nullable function pointer has the size and alignment of a data pointer on every
    // platform that SQLite's unix VFS runs on; atomic so that a concurrent caller sees the old
    // function or the new one.
    unsafe { AtomicPtr::from_ptr(place.cast::<*mut ()>()) }.store(function.cast_mut(), Ordering::Release);
}

/// Puts the probe into the platform's VFS itself, if that is SQLite's "unix". Doing it again
/// changes nothing.
///
/// # Safety
/// The probe's library must never be unloaded.
pub unsafe fn interpose(probe: Probe) -> bool {
    if probe.platform() != "unix" {
        return false;
    }
    let platform = probe.installed.platform;
    // SAFETY: a registered VFS is writable memory of the application's process, and has these
    // fields in every version.
    unsafe {
        replace((&raw mut (*platform).open).cast(), open as VfsOpen as *const ());
        replace((&raw mut (*platform).delete).cast(), delete as VfsDelete as *const ());
        replace((&raw mut (*platform).access).cast(), access as VfsAccess as *const ());
        replace((&raw mut (*platform).sleep).cast(), sleep as VfsSleep as *const ());
    }
    true
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: called as a function of the platform's VFS, as are all below.
    let Some(installed) = (unsafe { find(vfs) }) else { return ERROR };
    let Some(method) = installed.methods.open else { return ERROR };
    let class = FileClass::of_open(name, flags);
    // SAFETY: SQLite's own call, passed on.
    let rc = timed(class, Op::Open, 0, || unsafe { method(vfs, name, file, flags, flags_out) });
    if rc == OK {
        // SAFETY: the platform has just opened it and SQLite does not know it yet.
        unsafe { wrap_in_place(file, class, installed) };
    }
    rc
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: see `open`.
    let Some(method) = (unsafe { find(vfs) }).and_then(|installed| installed.methods.delete) else {
        return ERROR;
    };
    // SAFETY: a name ends in NUL.
    let class = unsafe { FileClass::of_name(name) };
    // SAFETY: SQLite's own call, passed on.
    timed(class, Op::Delete, 0, || unsafe { method(vfs, name, sync_directory) })
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: see `open`.
    let Some(method) = (unsafe { find(vfs) }).and_then(|installed| installed.methods.access) else {
        return ERROR;
    };
    // SAFETY: a name ends in NUL.
    let class = unsafe { FileClass::of_name(name) };
    // SAFETY: SQLite's own call, passed on.
    timed(class, Op::Access, 0, || unsafe { method(vfs, name, flags, out) })
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    // SAFETY: see `open`.
    let Some(method) = (unsafe { find(vfs) }).and_then(|installed| installed.methods.sleep) else { return 0 };
    // SAFETY: SQLite's own call, passed on.
    timed(FileClass::Database, Op::Sleep, 0, || unsafe { method(vfs, microseconds) })
}

/// Wraps the files that a connection has open on the platform's VFS: databases, WALs, and rollback
/// journals in use.
///
/// # Safety
/// `db` must be a connection of the probe's library that no other thread uses meanwhile; SQLite
/// holds its mutex while it loads an extension.
pub unsafe fn wrap_open_files(db: *mut c_void, installed: &'static InstalledVfs) {
    // SAFETY: passed on.
    for schema in unsafe { schemas(db, installed) } {
        // SAFETY: passed on; the pointers that SQLite gives are those of the schema's files, closed
        // or open.
        unsafe {
            let vfs: *mut Vfs = pointer(db, installed, &schema, fcntl::VFS_POINTER);
            let file: *mut File = pointer(db, installed, &schema, fcntl::FILE_POINTER);
            if !ptr::eq(vfs, installed.platform) || !is_open(file) {
                continue;
            }
            let class = if schema.as_bytes() == b"temp" { FileClass::Temporary } else { FileClass::Database };
            wrap_in_place(file, class, installed);
            // Asking for the mode makes SQLite open the WAL if there is one.
            let wal = journal_mode(db, installed, &schema).is_some_and(|mode| mode.as_bytes() == b"wal");
            let journal: *mut File = pointer(db, installed, &schema, fcntl::JOURNAL_POINTER);
            // A journal in memory has methods of another kind, by whose address SQLite knows it.
            if is_open(journal)
                && platform_read(journal).map(|f| f as *const ())
                    == platform_read(file).map(|f| f as *const ())
            {
                let class = match (class, wal) {
                    (FileClass::Temporary, _) => FileClass::Temporary,
                    (_, true) => FileClass::Wal,
                    (_, false) => FileClass::RollbackJournal,
                };
                wrap_in_place(journal, class, installed);
            }
        }
    }
}

/// # Safety
/// `file` must be null or point to a file, open or closed.
unsafe fn is_open(file: *const File) -> bool {
    // SAFETY: by the caller's promise; a closed file has no methods.
    !file.is_null() && unsafe { !(*file).methods.is_null() }
}

/// One of the pointers that `sqlite3_file_control` gives; null if the schema has none.
///
/// # Safety
/// `db` must be a connection and `operation` one that stores a pointer to `T`.
unsafe fn pointer<T>(db: *mut c_void, installed: &InstalledVfs, schema: &CStr, operation: c_int) -> *mut T {
    let mut pointer: *mut T = ptr::null_mut();
    // SAFETY: the operation writes one pointer to where its argument points.
    let rc = unsafe {
        (installed.api.file_control)(db, schema.as_ptr(), operation, (&raw mut pointer).cast::<c_void>())
    };
    if rc == OK { pointer } else { ptr::null_mut() }
}

/// Runs a statement and collects one column's texts.
///
/// # Safety
/// `db` must be a connection of the probe's library.
unsafe fn column(db: *mut c_void, installed: &InstalledVfs, sql: &CStr, number: usize) -> Vec<CString> {
    struct Texts {
        number: usize,
        texts: Vec<CString>,
    }
    unsafe extern "C" fn row(
        texts: *mut c_void,
        columns: c_int,
        values: *mut *mut c_char,
        _: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the pointer that `sqlite3_exec` was given below, used by nothing else meanwhile.
        let texts = unsafe { &mut *texts.cast::<Texts>() };
        if usize::try_from(columns).is_ok_and(|columns| texts.number < columns) {
            // SAFETY: SQLite gives an array of `columns` strings, each of which may be null.
            unsafe {
                let value = *values.add(texts.number);
                if !value.is_null() {
                    texts.texts.push(CStr::from_ptr(value).to_owned());
                }
            }
        }
        OK
    }
    let mut texts = Texts { number, texts: Vec::new() };
    // SAFETY: the callback gets `texts` and ends before this returns. What failed gives no rows and
    // is left unmeasured.
    unsafe {
        (installed.api.exec)(db, sql.as_ptr(), Some(row), (&raw mut texts).cast(), ptr::null_mut());
    }
    texts.texts
}

/// # Safety
/// As for [`column`].
unsafe fn schemas(db: *mut c_void, installed: &InstalledVfs) -> Vec<CString> {
    // SAFETY: passed on.
    unsafe { column(db, installed, c"PRAGMA database_list", 1) }
}

/// # Safety
/// As for [`column`].
unsafe fn journal_mode(db: *mut c_void, installed: &InstalledVfs, schema: &CStr) -> Option<CString> {
    let name = schema.to_string_lossy().replace('"', "\"\"");
    let sql = CString::new(format!("PRAGMA \"{name}\".journal_mode")).ok()?;
    // SAFETY: passed on.
    unsafe { column(db, installed, &sql, 0) }.pop()
}
