//! One loaded SQLite library as a table of functions: the bundled release, or any `libsqlite3.so`
//! by its path.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fathom_probe::Probe;
use libsqlite3_sys as bundled;
pub(super) use libsqlite3_sys::{sqlite3, sqlite3_blob, sqlite3_stmt};

use super::super::EngineError;

/// `SQLITE_OPEN_*` and result codes are the same in every version.
pub(super) const OK: c_int = bundled::SQLITE_OK;
pub(super) const ROW: c_int = bundled::SQLITE_ROW;
pub(super) const DONE: c_int = bundled::SQLITE_DONE;

/// The entry point, as `sqlite3_auto_extension` takes it.
pub(super) type Entry =
    unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const bundled::sqlite3_api_routines) -> c_int;

pub(super) type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
type Authorizer = Option<
    unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_char,
        *const c_char,
        *const c_char,
        *const c_char,
    ) -> c_int,
>;
type BusyHandler = Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>;

/// Declares the table, with the C prototypes of <https://sqlite.org/c3ref/funclist.html>, and its
/// two ways of being filled.
macro_rules! function_table {
    (
        required { $($name:ident : fn($($arg:ty),*) $(-> $ret:ty)?;)* }
        variadic { $($open:ident : fn($($open_arg:ty),*; ...) -> $open_ret:ty;)* }
        optional { $($late:ident : fn($($late_arg:ty),*) $(-> $late_ret:ty)?;)* }
    ) => {
        /// The functions of one SQLite library. Those that old versions lack are optional.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub $open: Option<unsafe extern "C" fn($($open_arg),*, ...) -> $open_ret>,)*
            $(pub $late: Option<unsafe extern "C" fn($($late_arg),*) $(-> $late_ret)?>,)*
        }

        impl Functions {
            /// Those of the library that is linked into this program.
            fn bundled() -> Self {
                Functions {
                    $($name: bundled::$name,)*
                    $($open: Some(bundled::$open),)*
                    $($late: Some(bundled::$late),)*
                }
            }

            /// Those that `lookup` finds by name; the first required one that is missing is the
            /// error.
            ///
            /// # Safety
            /// Each address must be null or the function of that name of one and the same SQLite
            /// library that stays loaded.
            unsafe fn from_symbols(lookup: impl Fn(&CStr) -> *mut c_void) -> Result<Self, &'static str> {
                Ok(Functions {
                    $($name: {
                        let address = lookup(symbol(concat!(stringify!($name), "\0")));
                        if address.is_null() {
                            return Err(stringify!($name));
                        }
                        // SAFETY: the caller vouches that this is the function of this name, whose
                        // C prototype the field's type repeats; SQLite's interface never changes a
                        // prototype.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(address)
                        }
                    },)*
                    $($open: {
                        let address = lookup(symbol(concat!(stringify!($open), "\0")));
                        // SAFETY: as above; null becomes `None`.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                Option<unsafe extern "C" fn($($open_arg),*, ...) -> $open_ret>,
                            >(address)
                        }
                    },)*
                    $($late: {
                        let address = lookup(symbol(concat!(stringify!($late), "\0")));
                        // SAFETY: as above; null becomes `None`.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                Option<unsafe extern "C" fn($($late_arg),*) $(-> $late_ret)?>,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

function_table! {
    required {
        sqlite3_libversion: fn() -> *const c_char;
        sqlite3_libversion_number: fn() -> c_int;
        sqlite3_sourceid: fn() -> *const c_char;
        sqlite3_threadsafe: fn() -> c_int;
        sqlite3_initialize: fn() -> c_int;
        sqlite3_open_v2: fn(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int;
        sqlite3_close: fn(*mut sqlite3) -> c_int;
        sqlite3_errmsg: fn(*mut sqlite3) -> *const c_char;
        sqlite3_extended_errcode: fn(*mut sqlite3) -> c_int;
        sqlite3_extended_result_codes: fn(*mut sqlite3, c_int) -> c_int;
        sqlite3_busy_handler: fn(*mut sqlite3, BusyHandler, *mut c_void) -> c_int;
        sqlite3_prepare_v2: fn(*mut sqlite3, *const c_char, c_int, *mut *mut sqlite3_stmt, *mut *const c_char) -> c_int;
        sqlite3_bind_parameter_count: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_bind_null: fn(*mut sqlite3_stmt, c_int) -> c_int;
        sqlite3_bind_int64: fn(*mut sqlite3_stmt, c_int, i64) -> c_int;
        sqlite3_bind_double: fn(*mut sqlite3_stmt, c_int, f64) -> c_int;
        sqlite3_bind_text: fn(*mut sqlite3_stmt, c_int, *const c_char, c_int, Destructor) -> c_int;
        sqlite3_bind_blob: fn(*mut sqlite3_stmt, c_int, *const c_void, c_int, Destructor) -> c_int;
        sqlite3_clear_bindings: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_step: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_reset: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_finalize: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_next_stmt: fn(*mut sqlite3, *mut sqlite3_stmt) -> *mut sqlite3_stmt;
        sqlite3_sql: fn(*mut sqlite3_stmt) -> *const c_char;
        sqlite3_column_count: fn(*mut sqlite3_stmt) -> c_int;
        sqlite3_column_type: fn(*mut sqlite3_stmt, c_int) -> c_int;
        sqlite3_column_int64: fn(*mut sqlite3_stmt, c_int) -> i64;
        sqlite3_column_double: fn(*mut sqlite3_stmt, c_int) -> f64;
        sqlite3_column_text: fn(*mut sqlite3_stmt, c_int) -> *const c_uchar;
        sqlite3_column_blob: fn(*mut sqlite3_stmt, c_int) -> *const c_void;
        sqlite3_column_bytes: fn(*mut sqlite3_stmt, c_int) -> c_int;
        sqlite3_changes: fn(*mut sqlite3) -> c_int;
        sqlite3_get_autocommit: fn(*mut sqlite3) -> c_int;
        sqlite3_bind_zeroblob: fn(*mut sqlite3_stmt, c_int, c_int) -> c_int;
        sqlite3_set_authorizer: fn(*mut sqlite3, Authorizer, *mut c_void) -> c_int;
        sqlite3_limit: fn(*mut sqlite3, c_int, c_int) -> c_int;
    }
    variadic {
        sqlite3_db_config: fn(*mut sqlite3, c_int; ...) -> c_int;
    }
    optional {
        sqlite3_compileoption_get: fn(c_int) -> *const c_char; // since 3.6.23, and a build may omit it
        sqlite3_stmt_readonly: fn(*mut sqlite3_stmt) -> c_int; // since 3.7.4
        sqlite3_errstr: fn(c_int) -> *const c_char;            // since 3.7.15
        sqlite3_auto_extension: fn(Option<Entry>) -> c_int;
        sqlite3_cancel_auto_extension: fn(Option<Entry>) -> c_int; // since 3.7.15
        // A build may omit incremental blobs.
        sqlite3_blob_open: fn(*mut sqlite3, *const c_char, *const c_char, *const c_char, i64, c_int, *mut *mut sqlite3_blob) -> c_int;
        sqlite3_blob_reopen: fn(*mut sqlite3_blob, i64) -> c_int; // since 3.7.4
        sqlite3_blob_read: fn(*mut sqlite3_blob, *mut c_void, c_int, c_int) -> c_int;
        sqlite3_blob_write: fn(*mut sqlite3_blob, *const c_void, c_int, c_int) -> c_int;
        sqlite3_blob_bytes: fn(*mut sqlite3_blob) -> c_int;
        sqlite3_blob_close: fn(*mut sqlite3_blob) -> c_int;
        sqlite3_hard_heap_limit64: fn(i64) -> i64; // since 3.31
        sqlite3_vfs_find: fn(*const c_char) -> *mut bundled::sqlite3_vfs;
    }
}

/// A name from `concat!(…, "\0")`.
fn symbol(name: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).expect("the macro ends every name in its only NUL")
}

/// Write-ahead logging, `sqlite3_open_v2` and what else the engine rests on are all there from this
/// version on.
const OLDEST_VERSION: c_int = 3_007_000;

/// One loaded SQLite library. It stays loaded until the process ends, because a VFS registered with
/// it may be used until then.
pub(super) struct SqliteLibrary {
    /// Where it was loaded from; none for the bundled release.
    pub path: Option<PathBuf>,
    /// Whether it was built with `HAVE_FDATASYNC`, which `sqlite3_compileoption_get` does not tell.
    has_fdatasync: bool,
    /// Its functions.
    pub functions: Functions,
    /// The probe that is installed in it.
    probe: Option<Probe>,
}

impl std::fmt::Debug for SqliteLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteLibrary").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteLibrary {
    /// The bundled release.
    pub fn bundled() -> Result<&'static Self, EngineError> {
        static BUNDLED: Mutex<Option<&'static SqliteLibrary>> = Mutex::new(None);
        let mut known = BUNDLED.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(library) => Ok(library),
            None => {
                // SAFETY: the functions are those of the one library that is linked into this
                // program.
                let api = unsafe { fathom_probe::sqlite_api!(libsqlite3_sys) };
                // What the bundled release was compiled with is in `.cargo/config.toml`, and is
                // there for this crate, too.
                let has_fdatasync =
                    option_env!("LIBSQLITE3_FLAGS").is_some_and(|flags| flags.contains("-DHAVE_FDATASYNC=1"));
                let library =
                    Self { path: None, has_fdatasync, functions: Functions::bundled(), probe: None }
                        .checked(api)?;
                Ok(known.insert(library))
            }
        }
    }

    /// The library at `path`, loaded once per process.
    ///
    /// # Errors
    /// No such file, not a shared library, not SQLite, too old, or built without threads.
    pub fn at(path: &Path) -> Result<&'static Self, EngineError> {
        static LOADED: Mutex<Option<HashMap<PathBuf, &'static SqliteLibrary>>> = Mutex::new(None);
        let refused = |message: String| EngineError {
            subject: format!("library {}", path.display()),
            message: format!("{message}; setting `library` must be the path of a libsqlite3.so"),
            code: 0,
        };
        let path_found = path.canonicalize().map_err(|error| refused(error.to_string()))?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = loaded.get_or_insert_default();
        if let Some(library) = loaded.get(&path_found) {
            return Ok(library);
        }
        let handle = open_shared_object(&path_found).map_err(refused)?;
        // SAFETY: the handle is open and is never closed; that the names mean SQLite's functions is
        // what the user said by giving this path, and `checked` looks at the version before
        // anything else is called.
        let functions = unsafe { Functions::from_symbols(|name| libc::dlsym(handle, name.as_ptr())) }
            .map_err(|name| refused(format!("is not a SQLite library: it has no function {name}")))?;
        // SAFETY: as above.
        let api = unsafe { fathom_probe::Api::from_handle(handle) };
        // The name of a function that is called lies in the file's table of strings.
        let is_its_name = |name: &[u8]| name == b"fdatasync" || name.starts_with(b"fdatasync@");
        let has_fdatasync =
            std::fs::read(&path_found).is_ok_and(|file| file.split(|&byte| byte == 0).any(is_its_name));
        let library =
            Self { path: Some(path_found.clone()), has_fdatasync, functions, probe: None }.checked(api)?;
        loaded.insert(path_found, library);
        Ok(library)
    }

    /// Makes sure that the library can be used, initialises it and registers the probe's VFS with
    /// it.
    fn checked(
        mut self,
        api: Result<fathom_probe::Api, fathom_probe::MissingSymbol>,
    ) -> Result<&'static Self, EngineError> {
        let refused = |message: String, code: c_int| EngineError {
            subject: format!(
                "library {}",
                self.path.as_ref().map_or("bundled".into(), |p| p.display().to_string())
            ),
            message,
            code,
        };
        // SAFETY: these three take no arguments and may be called at any time.
        let (number, threads, started) = unsafe {
            let functions = &self.functions;
            (
                (functions.sqlite3_libversion_number)(),
                (functions.sqlite3_threadsafe)(),
                (functions.sqlite3_initialize)(),
            )
        };
        if number < OLDEST_VERSION {
            return Err(refused(format!("is SQLite {}, older than 3.7.0", self.version()), 0));
        }
        if threads == 0 {
            return Err(refused(
                "was built without threads (SQLITE_THREADSAFE=0); use a build with them".into(),
                0,
            ));
        }
        if started != OK {
            return Err(refused("sqlite3_initialize failed".into(), started));
        }
        let api = api.map_err(|missing| refused(missing.to_string(), 0))?;
        // SAFETY: the library stays loaded until the process ends, and both callers hold the lock
        // of their list of libraries; no other part of Fathom installs the probe.
        let probe = unsafe { Probe::install(api) }.map_err(|error| refused(error.to_string(), 0))?;
        self.probe = Some(probe);
        Ok(Box::leak(Box::new(self)))
    }

    /// The name of the VFS that measures the files in `directory`, and lets nothing be done to any
    /// other.
    ///
    /// # Errors
    /// A directory that is not there.
    pub fn vfs_of(&self, directory: &Path) -> Result<&'static CStr, EngineError> {
        let Some(probe) = &self.probe else { return Ok(Probe::VFS_NAME) };
        probe.confined(directory).map_err(|error| EngineError {
            subject: "the directory of the databases".into(),
            message: format!("{error}; does the directory exist, and may this user write there?"),
            // As SQLite itself would say it a moment later.
            code: bundled::SQLITE_CANTOPEN,
        })
    }

    /// E.g. `3.54.1`.
    pub fn version(&self) -> String {
        // SAFETY: gives a static NUL-terminated text.
        text(unsafe { (self.functions.sqlite3_libversion)() })
    }

    /// Source id, then the compile options where the library tells them.
    pub fn build(&self) -> Vec<String> {
        // SAFETY: gives a static NUL-terminated text.
        let mut lines = vec![text(unsafe { (self.functions.sqlite3_sourceid)() })];
        if let Some(option_at) = self.functions.sqlite3_compileoption_get {
            // SAFETY: gives a static NUL-terminated text, or null after the last option.
            lines.extend(
                (0..).map(|i| unsafe { option_at(i) }).take_while(|option| !option.is_null()).map(text),
            );
        }
        lines
    }

    /// The system call that its syncs make: `fdatasync`, or `fsync` if it was not told at its build
    /// that there is one.
    pub fn sync_call(&self) -> &'static str {
        if self.has_fdatasync { "fdatasync" } else { "fsync" }
    }

    /// What a result code means, in the library's words.
    pub fn meaning(&self, code: c_int) -> String {
        match self.functions.sqlite3_errstr {
            // SAFETY: gives a static NUL-terminated text for every code.
            Some(errstr) => text(unsafe { errstr(code) }),
            None => format!("SQLite result code {code}"),
        }
    }
}

/// Copies a text that SQLite gave; empty for null.
pub(super) fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null; every text that SQLite gives ends in NUL and lives at least until the next
    // call on its object.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Opens a shared object so that neither its names become visible to others nor others' names (the
/// bundled SQLite's, if this program should export them) to it.
pub(super) fn open_shared_object(path: &Path) -> Result<*mut c_void, String> {
    use std::os::unix::ffi::OsStrExt;
    if cfg!(target_feature = "crt-static") {
        return Err("this program is linked statically and loads no library; one that is built where it is to run does \
                    (cargo build --release -p fathom)"
            .to_owned());
    }
    let c_path =
        CString::new(path.as_os_str().as_bytes()).map_err(|_| "the path has a NUL byte".to_owned())?;
    #[cfg(target_env = "gnu")]
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    #[cfg(not(target_env = "gnu"))]
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
    // SAFETY: the path ends in NUL. Loading runs the object's initialisers: the user chose the
    // file.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), flags) };
    if handle.is_null() {
        // SAFETY: after a failure dlerror gives a NUL-terminated text for this thread, or null.
        let reason = text(unsafe { libc::dlerror() });
        return Err(format!("cannot be loaded: {reason}"));
    }
    Ok(handle)
}
