//! The entry points of the loadable extension.
//!
//! `.load target/release/libfathom_probe` in the `sqlite3` shell, or `SELECT load_extension('…')`,
//! puts the probe under the databases that the connection has open and makes it the default VFS for
//! all that are opened later.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::abi::{ERROR, OK, OK_LOAD_PERMANENTLY, Symbol};
use crate::api::Api;
use crate::attach::{interpose, wrap_open_files};
use crate::vfs::Probe;
use crate::vtab::{register, sqlite_string};

type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;

/// The host of the extension, for connections opened later.
static HOST: OnceLock<Probe> = OnceLock::new();

/// The entry point that SQLite derives from the file name `libfathom_probe`.
///
/// # Safety
/// To be called by SQLite only, as the entry point of a loadable extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_fathomprobe_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments, passed on.
    catch_unwind(|| unsafe { load(db, message, routines) }).unwrap_or(ERROR)
}

/// The entry point that SQLite looks for first, whatever the file's name.
///
/// # Safety
/// See [`sqlite3_fathomprobe_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments, passed on.
    unsafe { sqlite3_fathomprobe_init(db, message, routines) }
}

/// # Safety
/// Arguments as SQLite gives them to an extension.
unsafe fn load(db: *mut c_void, message: *mut *mut c_char, routines: *const c_void) -> c_int {
    // SAFETY: as promised by the caller.
    let api = match unsafe { Api::from_routines(routines) } {
        Ok(api) => api,
        // Without functions there is no memory for a message either.
        Err(_) => return ERROR,
    };
    // SAFETY: the host stays loaded as long as it has files open, and so does this library: see the
    // result below.
    let probe = match unsafe { Probe::install_as(api, true) } {
        Ok(probe) => probe,
        Err(error) => {
            if !message.is_null() {
                // SAFETY: SQLite's place for a message from its own allocator.
                unsafe { *message = sqlite_string(&api, &error.to_string()) };
            }
            return ERROR;
        }
    };
    let probe = *HOST.get_or_init(|| probe);
    // SAFETY: `SQLITE_OK_LOAD_PERMANENTLY` keeps this library loaded; SQLite holds the connection's
    // mutex.
    unsafe {
        let rc = register(db, probe.installed);
        if rc != OK {
            return rc;
        }
        if interpose(probe) {
            wrap_open_files(db, probe.installed);
        }
        if let Some(auto_extension) = api.auto_extension {
            let rc = auto_extension(Some(transmute::<Entry, Symbol>(open_later)));
            if rc != OK {
                return rc;
            }
        }
    }
    OK_LOAD_PERMANENTLY
}

/// Gives `fathom_io` to a connection that is opened after the extension was loaded.
unsafe extern "C" fn open_later(db: *mut c_void, _: *mut *mut c_char, _: *const c_void) -> c_int {
    match HOST.get() {
        // SAFETY: SQLite calls this with a new connection of the host.
        Some(probe) => unsafe { register(db, probe.installed) },
        None => OK,
    }
}
