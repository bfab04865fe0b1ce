//! The functions of one SQLite library that the probe calls, wherever that library came from.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;

use crate::abi::{Module, Symbol, Vfs};

type CreateModule = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    *const Module,
    *mut c_void,
    Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int;
type Exec = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>,
    *mut c_void,
    *mut *mut c_char,
) -> c_int;
type ResultText =
    unsafe extern "C" fn(*mut c_void, *const c_char, c_int, Option<unsafe extern "C" fn(*mut c_void)>);

/// Function table of one loaded SQLite library: the one compiled in, one opened by path, or the
/// host of an extension.
#[derive(Clone, Copy)]
pub struct Api {
    pub(crate) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub(crate) vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
    pub(crate) exec: Exec,
    pub(crate) file_control: unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *mut c_void) -> c_int,
    pub(crate) create_module: CreateModule,
    pub(crate) declare_vtab: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub(crate) value_int64: unsafe extern "C" fn(*mut c_void) -> i64,
    pub(crate) value_type: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(crate) result_int64: unsafe extern "C" fn(*mut c_void, i64),
    pub(crate) result_null: unsafe extern "C" fn(*mut c_void),
    pub(crate) result_text: ResultText,
    /// Missing where SQLite was built without loadable extensions.
    pub(crate) auto_extension: Option<unsafe extern "C" fn(Option<Symbol>) -> c_int>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("vfs_find", &(self.vfs_find as *const ())).finish_non_exhaustive()
    }
}

/// A function that the SQLite library does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSymbol {
    /// Name of the function, e.g. `sqlite3_vfs_register`.
    pub name: String,
}

impl std::fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the SQLite library has no function {}; use SQLite 3.14 or later, not stripped of it",
            self.name
        )
    }
}

impl std::error::Error for MissingSymbol {}

/// Slots in `sqlite3_api_routines` (`sqlite3ext.h`), counted in pointers. The table only ever grows
/// at its end.
mod slot {
    pub const DECLARE_VTAB: usize = 50;
    pub const EXEC: usize = 55;
    pub const FREE: usize = 58;
    pub const LIBVERSION_NUMBER: usize = 67;
    pub const MALLOC: usize = 68;
    pub const RESULT_INT64: usize = 83;
    pub const RESULT_NULL: usize = 84;
    pub const RESULT_TEXT: usize = 85;
    pub const VALUE_INT64: usize = 107;
    pub const VALUE_TYPE: usize = 113;
    pub const CREATE_MODULE_V2: usize = 119;
    pub const FILE_CONTROL: usize = 127;
    pub const VFS_FIND: usize = 141;
    pub const VFS_REGISTER: usize = 142;
    pub const AUTO_EXTENSION: usize = 192;
}

/// The oldest SQLite that lets an extension stay loaded, which a VFS must; younger than all else
/// that is used here.
const OLDEST_VERSION: c_int = 3_014_000;

/// The function at `address`, as the type that is asked for.
///
/// # Safety
/// `address` must be a function of type `F`, which must be a function pointer.
unsafe fn function<F: Copy>(address: *const c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: same size, and a function of this type by the caller's promise.
    unsafe { transmute_copy(&address) }
}

impl Api {
    /// Fills the table from `lookup`, which gives the address of a function by its C name, or null.
    /// See [`sqlite_api!`](crate::sqlite_api) for libraries that are linked and
    /// [`Api::from_handle`] for opened ones.
    ///
    /// # Errors
    /// The first function that is missing.
    ///
    /// # Safety
    /// Each address must be the function of that name of one and the same SQLite library, which
    /// stays loaded for as long as the table, or a probe installed with it, is used.
    pub unsafe fn from_symbols(
        mut lookup: impl FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, MissingSymbol> {
        let mut need = |name: &CStr| {
            let address = lookup(name);
            if address.is_null() {
                Err(MissingSymbol { name: name.to_string_lossy().into_owned() })
            } else {
                Ok(address)
            }
        };
        // SAFETY: the caller vouches that each non-null address is the function of that name, whose
        // C prototype the field's type repeats.
        unsafe {
            Ok(Self {
                vfs_find: function(need(c"sqlite3_vfs_find")?),
                vfs_register: function(need(c"sqlite3_vfs_register")?),
                malloc: function(need(c"sqlite3_malloc")?),
                free: function(need(c"sqlite3_free")?),
                exec: function(need(c"sqlite3_exec")?),
                file_control: function(need(c"sqlite3_file_control")?),
                create_module: function(need(c"sqlite3_create_module_v2")?),
                declare_vtab: function(need(c"sqlite3_declare_vtab")?),
                value_int64: function(need(c"sqlite3_value_int64")?),
                value_type: function(need(c"sqlite3_value_type")?),
                result_int64: function(need(c"sqlite3_result_int64")?),
                result_null: function(need(c"sqlite3_result_null")?),
                result_text: function(need(c"sqlite3_result_text")?),
                auto_extension: need(c"sqlite3_auto_extension").ok().map(|address| function(address)),
            })
        }
    }

    /// Fills the table from a library that was opened with `dlopen`.
    ///
    /// # Errors
    /// The first function that is missing.
    ///
    /// # Safety
    /// `handle` must come from `dlopen` of an SQLite library (or be null for the program itself)
    /// and must not be closed while the table, or a probe installed with it, is used.
    pub unsafe fn from_handle(handle: *mut c_void) -> Result<Self, MissingSymbol> {
        // SAFETY: the handle is open by the caller's promise and every name ends in NUL.
        unsafe { Self::from_symbols(|name| libc::dlsym(handle, name.as_ptr()).cast_const()) }
    }

    /// Fills the table from the `sqlite3_api_routines` that a loadable extension is given.
    ///
    /// # Errors
    /// A library older than 3.14.0, or one built without virtual tables.
    ///
    /// # Safety
    /// `routines` must be the pointer that SQLite passed to the extension's entry point.
    pub(crate) unsafe fn from_routines(routines: *const c_void) -> Result<Self, MissingSymbol> {
        let table = routines.cast::<*const c_void>();
        if table.is_null() {
            return Err(MissingSymbol { name: "sqlite3_api_routines".to_owned() });
        }
        // SAFETY: slot 67 has existed in every version of the table.
        let version = unsafe {
            let address = *table.add(slot::LIBVERSION_NUMBER);
            if address.is_null() { 0 } else { function::<unsafe extern "C" fn() -> c_int>(address)() }
        };
        if version < OLDEST_VERSION {
            return Err(MissingSymbol { name: format!("set of version 3.14.0 (its version is {version})") });
        }
        // SAFETY: the table of a library of at least this version holds all slots named in `slot`,
        // and a slot's function never changes.
        unsafe {
            Self::from_symbols(|name| {
                let slot = match name.to_bytes() {
                    b"sqlite3_vfs_find" => slot::VFS_FIND,
                    b"sqlite3_vfs_register" => slot::VFS_REGISTER,
                    b"sqlite3_malloc" => slot::MALLOC,
                    b"sqlite3_free" => slot::FREE,
                    b"sqlite3_exec" => slot::EXEC,
                    b"sqlite3_file_control" => slot::FILE_CONTROL,
                    b"sqlite3_create_module_v2" => slot::CREATE_MODULE_V2,
                    b"sqlite3_declare_vtab" => slot::DECLARE_VTAB,
                    b"sqlite3_value_int64" => slot::VALUE_INT64,
                    b"sqlite3_value_type" => slot::VALUE_TYPE,
                    b"sqlite3_result_int64" => slot::RESULT_INT64,
                    b"sqlite3_result_null" => slot::RESULT_NULL,
                    b"sqlite3_result_text" => slot::RESULT_TEXT,
                    b"sqlite3_auto_extension" => slot::AUTO_EXTENSION,
                    _ => return std::ptr::null(),
                };
                *table.add(slot)
            })
        }
    }
}

/// Makes an [`Api`] from a crate or module that declares SQLite's functions under their C names,
/// such as `libsqlite3_sys`: `fathom_probe::sqlite_api!(libsqlite3_sys)` gives
/// `Result<Api, MissingSymbol>`.
///
/// # Safety
/// Use it in an `unsafe` block: the functions must be those of one SQLite library.
#[macro_export]
macro_rules! sqlite_api {
    ($module:path) => {{
        use $module as sqlite;
        $crate::Api::from_symbols(|name: &::std::ffi::CStr| {
            let function = match name.to_bytes() {
                b"sqlite3_vfs_find" => sqlite::sqlite3_vfs_find as *const (),
                b"sqlite3_vfs_register" => sqlite::sqlite3_vfs_register as *const (),
                b"sqlite3_malloc" => sqlite::sqlite3_malloc as *const (),
                b"sqlite3_free" => sqlite::sqlite3_free as *const (),
                b"sqlite3_exec" => sqlite::sqlite3_exec as *const (),
                b"sqlite3_file_control" => sqlite::sqlite3_file_control as *const (),
                b"sqlite3_create_module_v2" => sqlite::sqlite3_create_module_v2 as *const (),
                b"sqlite3_declare_vtab" => sqlite::sqlite3_declare_vtab as *const (),
                b"sqlite3_value_int64" => sqlite::sqlite3_value_int64 as *const (),
                b"sqlite3_value_type" => sqlite::sqlite3_value_type as *const (),
                b"sqlite3_result_int64" => sqlite::sqlite3_result_int64 as *const (),
                b"sqlite3_result_null" => sqlite::sqlite3_result_null as *const (),
                b"sqlite3_result_text" => sqlite::sqlite3_result_text as *const (),
                b"sqlite3_auto_extension" => sqlite::sqlite3_auto_extension as *const (),
                _ => ::std::ptr::null(),
            };
            function.cast::<::std::ffi::c_void>()
        })
    }};
}
