//! VFSes that are copies of "unix" work with the extension loaded.
//!
//! SQLite's own `quota` VFS copies the structure of the default VFS and changes some of its
//! functions. The extension replaces four functions of "unix", so a copy that is made afterwards
//! has the probe's functions with another VFS's address; these looked that address up, did not find
//! it, and failed: of SQLite's own test of `quota` 33 of 522 cases, and none of 831 without the
//! extension. A function of the probe now serves every VFS that it was copied into.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libsqlite3_sys as ffi;
use rusqlite::{Connection, OpenFlags};

/// What the copies were made of.
static ORIGINAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Opens through the VFS that was copied, as `quota` does.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    OPENED.fetch_add(1, Ordering::Relaxed);
    let original = ORIGINAL.load(Ordering::Relaxed);
    // SAFETY: SQLite's own call, passed on to a registered VFS that has this function.
    unsafe { ((*original).xOpen.unwrap())(original, name, file, flags, out) }
}

/// Registers a copy of a VFS under another name, changed by `change`.
fn copy_of(original: *mut ffi::sqlite3_vfs, name: &'static CStr, change: impl FnOnce(&mut ffi::sqlite3_vfs)) {
    // SAFETY: a registered VFS of this library has the size of its structure; the copy is never
    // freed.
    unsafe {
        let copy = Box::leak(Box::new(ptr::read(original)));
        copy.zName = name.as_ptr();
        copy.pNext = ptr::null_mut();
        change(copy);
        assert_eq!(ffi::sqlite3_vfs_register(copy, 0), ffi::SQLITE_OK);
    }
}

#[test]
fn a_vfs_that_is_a_copy_of_unix_works_after_the_extension_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let library = std::env::current_exe().unwrap().with_file_name("libfathom_probe");
    let library = CString::new(library.to_str().unwrap()).unwrap();
    let first = Connection::open(directory.path().join("first.db")).unwrap();
    let mut message = ptr::null_mut();
    // SAFETY: the connection is open, the name ends in NUL, and the message's place is valid.
    let loaded = unsafe {
        ffi::sqlite3_enable_load_extension(first.handle(), 1);
        ffi::sqlite3_load_extension(first.handle(), library.as_ptr(), ptr::null(), &raw mut message)
    };
    // SAFETY: null, or a text of SQLite's that ends in NUL.
    let said = (!message.is_null()).then(|| unsafe { CStr::from_ptr(message) });
    assert_eq!(loaded, ffi::SQLITE_OK, "{said:?}");
    // SAFETY: the names end in NUL.
    let (unix, default) =
        unsafe { (ffi::sqlite3_vfs_find(c"unix".as_ptr()), ffi::sqlite3_vfs_find(ptr::null())) };
    ORIGINAL.store(unix, Ordering::Relaxed);
    static DATA: u64 = 0;
    copy_of(unix, c"plain", |_| ());
    copy_of(unix, c"own-open", |copy| copy.xOpen = Some(open));
    copy_of(unix, c"own-data", |copy| {
        copy.xOpen = Some(open);
        copy.pAppData = (&raw const DATA).cast_mut().cast();
    });
    // The default is the probe's own VFS by now.
    copy_of(default, c"of-the-probe", |_| ());
    for vfs in [c"plain", c"own-open", c"own-data", c"of-the-probe"] {
        for mode in ["delete", "truncate", "wal"] {
            let path = directory.path().join(format!("{}-{mode}.db", vfs.to_str().unwrap()));
            let before = OPENED.load(Ordering::Relaxed);
            let open = || Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs).unwrap();
            let db = open();
            db.busy_timeout(std::time::Duration::from_millis(20)).unwrap();
            let is =
                db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get::<_, String>(0));
            assert_eq!(is.unwrap(), mode, "{vfs:?}");
            for sql in [
                "CREATE TABLE t(a)",
                "INSERT INTO t VALUES (zeroblob(9000))",
                "BEGIN; INSERT INTO t SELECT a FROM t; ROLLBACK",
                "BEGIN; INSERT INTO t SELECT a FROM t; COMMIT",
                "VACUUM",
            ] {
                db.execute_batch(sql).unwrap_or_else(|error| panic!("{vfs:?} {mode}: {sql}: {error}"));
            }
            // Another one's lock: the VFS sleeps while it waits.
            let other = open();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            let error = db.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
            assert_eq!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseBusy),
                "{vfs:?}: {error}"
            );
            other.execute_batch("ROLLBACK").unwrap();
            let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!((rows, sound.as_str()), (2, "ok"), "{vfs:?} {mode}");
            if vfs.to_bytes().starts_with(b"own") {
                assert!(OPENED.load(Ordering::Relaxed) > before, "its own function opened the files");
            }
        }
    }
    // What went through the copies is counted.
    let writes: i64 =
        first.query_row("SELECT sum(calls) FROM fathom_io WHERE op = 'write'", [], |row| row.get(0)).unwrap();
    assert!(writes > 0);
}
