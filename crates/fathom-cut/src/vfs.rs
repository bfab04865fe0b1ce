//! SQLite's own VFS, but for one thing: names are used as they are.
//!
//! A file system that is mounted nowhere is reached through `/proc/self/fd/N/…`. The kernel follows
//! that link by itself; SQLite would read it first, and the name that it finds there leads nowhere.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use rusqlite::ffi;

use crate::error::CutError;

/// Its name.
pub(crate) const NAME: &CStr = c"fathom-cut";

/// Makes it known to SQLite, once.
///
/// # Errors
/// SQLite's own VFS is not there (another system than Unix), or it takes no other.
pub(crate) fn register() -> Result<(), CutError> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let problem = REGISTERED.get_or_init(|| {
        // SAFETY: SQLite's list of VFSes may be asked and added to from any thread. The copy is
        // never freed, and nothing of it but its name and this function differs: as SQLite's own
        // variants of `unix` do, they share all else.
        unsafe {
            ffi::sqlite3_initialize();
            let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            if unix.is_null() {
                return Err("SQLite's VFS `unix` is not there".into());
            }
            let own = Box::leak(Box::new(ffi::sqlite3_vfs {
                zName: NAME.as_ptr(),
                pNext: std::ptr::null_mut(),
                xFullPathname: Some(as_it_is),
                ..*unix
            }));
            match ffi::sqlite3_vfs_register(own, 0) {
                ffi::SQLITE_OK => Ok(()),
                code => Err(format!("SQLite takes no other VFS: code {code}")),
            }
        }
    });
    problem.clone().map_err(|problem| CutError::Database { what: "the VFS of the checks".into(), problem })
}

/// # Safety
/// Called by SQLite: `name` is a C string, and `out` has room for `bytes` of them.
unsafe extern "C" fn as_it_is(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: as the function says.
    unsafe {
        let with_end = CStr::from_ptr(name).to_bytes_with_nul();
        if usize::try_from(bytes).is_ok_and(|room| with_end.len() <= room) {
            std::ptr::copy_nonoverlapping(name, out, with_end.len());
            ffi::SQLITE_OK
        } else {
            ffi::SQLITE_CANTOPEN
        }
    }
}
