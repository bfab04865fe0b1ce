//! The part of SQLite's C interface that the probe speaks, declared here so that the crate links no
//! SQLite of its own.
//!
//! Layouts follow `sqlite3.h` (<https://sqlite.org/c3ref/vfs.html>,
//! <https://sqlite.org/c3ref/io_methods.html>,
//! <https://sqlite.org/c3ref/module.html>), whose structures only ever grow at the end and say so in `iVersion`.
//! Every method is an `Option`, because SQLite allows null in several places and a null must stay
//! null under the probe.

use std::ffi::{c_char, c_int, c_void};

/// `SQLITE_OK`.
pub const OK: c_int = 0;
/// `SQLITE_ERROR`.
pub const ERROR: c_int = 1;
/// `SQLITE_BUSY`.
pub const BUSY: c_int = 5;
/// `SQLITE_NOMEM`.
pub const NOMEM: c_int = 7;
/// `SQLITE_READONLY`.
pub const READONLY: c_int = 8;
/// `SQLITE_AUTH`.
pub const AUTH: c_int = 23;
/// `SQLITE_OK_LOAD_PERMANENTLY`: the library must stay mapped, because the VFS it registered lives
/// in it.
pub const OK_LOAD_PERMANENTLY: c_int = 256;

/// `SQLITE_NULL`, a value's type.
pub const NULL: c_int = 5;

/// `SQLITE_OPEN_*` bits that say what kind of file is opened.
pub mod open {
    use std::ffi::c_int;
    pub const TEMP_DB: c_int = 0x200;
    pub const TRANSIENT_DB: c_int = 0x400;
    pub const MAIN_JOURNAL: c_int = 0x800;
    pub const TEMP_JOURNAL: c_int = 0x1000;
    pub const SUBJOURNAL: c_int = 0x2000;
    pub const SUPER_JOURNAL: c_int = 0x4000;
    pub const WAL: c_int = 0x80000;
}

/// `SQLITE_FCNTL_*` operations that the probe looks at.
pub mod fcntl {
    use std::ffi::c_int;
    pub const SIZE_HINT: c_int = 5;
    pub const FILE_POINTER: c_int = 7;
    pub const VFSNAME: c_int = 12;
    pub const HAS_MOVED: c_int = 20;
    pub const VFS_POINTER: c_int = 27;
    pub const JOURNAL_POINTER: c_int = 28;
    pub const BEGIN_ATOMIC_WRITE: c_int = 31;
    pub const COMMIT_ATOMIC_WRITE: c_int = 32;
    pub const ROLLBACK_ATOMIC_WRITE: c_int = 33;
    pub const EXTERNAL_READER: c_int = 40;
}

/// A function pointer of unknown type.
pub type Symbol = unsafe extern "C" fn();

/// `sqlite3_file`: the head of every open file.
#[repr(C)]
pub struct File {
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, versions 1 to 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IoMethods {
    pub version: c_int,
    pub close: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub write: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub truncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub sync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub file_size: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub lock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub unlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub check_reserved_lock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub file_control: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub sector_size: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub device_characteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    // Version 2.
    pub shm_map: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    // Version 3.
    pub fetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

/// `sqlite3_vfs.xOpen`.
pub type VfsOpen = unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int;
/// `sqlite3_vfs.xDelete`.
pub type VfsDelete = unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int;

/// `sqlite3_vfs.xAccess`.
pub type VfsAccess = unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int;
/// `sqlite3_vfs.xSleep`.
pub type VfsSleep = unsafe extern "C" fn(*mut Vfs, c_int) -> c_int;

/// `sqlite3_vfs`, versions 1 to 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Vfs {
    pub version: c_int,
    pub file_size: c_int,
    pub max_pathname: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Option<VfsOpen>,
    pub delete: Option<VfsDelete>,
    pub access: Option<VfsAccess>,
    pub full_pathname: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Option<Symbol>>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<VfsSleep>,
    pub current_time: Option<unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    // Version 2.
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    // Version 3.
    pub set_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, Option<Symbol>) -> c_int>,
    pub get_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> Option<Symbol>>,
    pub next_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// `sqlite3_vtab`.
#[repr(C)]
pub struct Vtab {
    pub module: *const Module,
    pub references: c_int,
    pub error: *mut c_char,
}

/// `sqlite3_vtab_cursor`.
#[repr(C)]
pub struct VtabCursor {
    pub vtab: *mut Vtab,
}

/// `sqlite3_module`, version 1. Methods that the probe leaves null carry no type.
#[repr(C)]
pub struct Module {
    pub version: c_int,
    pub create: Option<Symbol>,
    pub connect: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            *const *const c_char,
            *mut *mut Vtab,
            *mut *mut c_char,
        ) -> c_int,
    >,
    pub best_index: Option<unsafe extern "C" fn(*mut Vtab, *mut c_void) -> c_int>,
    pub disconnect: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub destroy: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub open: Option<unsafe extern "C" fn(*mut Vtab, *mut *mut VtabCursor) -> c_int>,
    pub close: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub filter:
        Option<unsafe extern "C" fn(*mut VtabCursor, c_int, *const c_char, c_int, *mut *mut c_void) -> c_int>,
    pub next: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub eof: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub column: Option<unsafe extern "C" fn(*mut VtabCursor, *mut c_void, c_int) -> c_int>,
    pub rowid: Option<unsafe extern "C" fn(*mut VtabCursor, *mut i64) -> c_int>,
    pub update: Option<unsafe extern "C" fn(*mut Vtab, c_int, *mut *mut c_void, *mut i64) -> c_int>,
    pub begin: Option<Symbol>,
    pub sync: Option<Symbol>,
    pub commit: Option<Symbol>,
    pub rollback: Option<Symbol>,
    pub find_function: Option<Symbol>,
    pub rename: Option<Symbol>,
    // Version 2 and later; never read by SQLite when `version` is 1, kept so that no reader runs
    // off the end.
    pub savepoint: Option<Symbol>,
    pub release: Option<Symbol>,
    pub rollback_to: Option<Symbol>,
    pub shadow_name: Option<Symbol>,
    pub integrity: Option<Symbol>,
}
