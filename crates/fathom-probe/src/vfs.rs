//! The VFS "fathom": the platform's own, with every call counted and timed.
//!
//! There can be others beside it that do the same for the files of one directory, and refuse all
//! files elsewhere ([`Probe::confined`]).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::abi::{AUTH, ERROR, File, OK, Symbol, Vfs, VfsDelete, VfsOpen};
use crate::api::Api;
use crate::file::Head;
use crate::installed::{InstalledVfs, Root, VFS_NAME};
use crate::kind::{FileClass, Op};
use crate::meter::timed;

/// Why the probe could not be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// The library has no VFS to measure.
    NoPlatform,
    /// Another VFS is registered under the name "fathom".
    NameTaken,
    /// SQLite refused the registration with this result code.
    Refused(i32),
    /// The directory to which a VFS is to be confined cannot be found.
    NoDirectory(String),
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InstallError::NoPlatform => {
                write!(f, "this SQLite library has no default VFS; register one before installing the probe")
            }
            InstallError::NameTaken => write!(
                f,
                "this SQLite library already has a VFS named \"fathom\" from elsewhere; load the probe only once, as \
                 extension or as library"
            ),
            InstallError::NoDirectory(problem) => write!(f, "{problem}"),
            InstallError::Refused(code) => write!(f, "sqlite3_vfs_register failed with code {code}"),
        }
    }
}

impl std::error::Error for InstallError {}

/// The measuring VFS, registered in one SQLite library.
#[derive(Clone, Copy)]
pub struct Probe {
    pub(crate) installed: &'static InstalledVfs,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("platform", &self.platform()).finish_non_exhaustive()
    }
}

/// All that was ever installed: one entry per SQLite library in the process.
static INSTALLED: Mutex<Vec<&'static InstalledVfs>> = Mutex::new(Vec::new());

/// Those of one directory.
static CONFINED: Mutex<Vec<&'static InstalledVfs>> = Mutex::new(Vec::new());

/// The probe that was put into a platform's VFS, whose functions are called with `vfs`: the
/// platform's own, or another that was made as a copy of it and kept some of its functions, as
/// SQLite's "quota" does. A copy's data is the original's as a rule, by which libraries are told
/// apart where several have the probe.
///
/// # Safety
/// `vfs` must be a VFS with which SQLite, or another VFS, calls a function of the platform's.
pub unsafe fn find(vfs: *const Vfs) -> Option<&'static InstalledVfs> {
    let all = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let by = |is: &dyn Fn(&InstalledVfs) -> bool| all.iter().copied().find(|installed| is(installed));
    by(&|installed| ptr::eq(installed.platform, vfs))
        // SAFETY: by the caller's promise it is a VFS; every version has the field.
        .or_else(|| by(&|installed| ptr::eq(installed.methods.app_data, unsafe { (*vfs).app_data })))
        .or_else(|| all.first().copied())
}

impl Probe {
    /// The name to open a database with: the `zVfs` argument of `sqlite3_open_v2`, or `?vfs=fathom`
    /// in a URI.
    pub const VFS_NAME: &'static CStr = VFS_NAME;

    /// Registers the probe over the library's default VFS, under [`Probe::VFS_NAME`]. The default
    /// stays the default, so that only databases opened by that name are measured. A second call
    /// for the same library gives the first probe.
    ///
    /// # Errors
    /// See [`InstallError`].
    ///
    /// # Safety
    /// `api` must be of a library that stays loaded while any of its files is open, and no other
    /// thread may be in the middle of installing a VFS of this name.
    pub unsafe fn install(api: Api) -> Result<Self, InstallError> {
        // SAFETY: passed on from the caller.
        unsafe { Self::install_as(api, false) }
    }

    /// As [`Probe::install`], and makes it the default VFS if `default` is set.
    ///
    /// # Errors
    /// See [`InstallError`].
    ///
    /// # Safety
    /// See [`Probe::install`].
    pub(crate) unsafe fn install_as(api: Api, default: bool) -> Result<Self, InstallError> {
        let mut all = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the functions are the library's; the name ends in NUL.
        let registered = unsafe { (api.vfs_find)(VFS_NAME.as_ptr()) };
        if !registered.is_null() {
            let own = all.iter().find(|installed| ptr::eq(&raw const installed.vfs, registered));
            return own.map(|installed| Self { installed }).ok_or(InstallError::NameTaken);
        }
        // SAFETY: null asks for the default.
        let platform = unsafe { (api.vfs_find)(ptr::null()) };
        if platform.is_null() {
            return Err(InstallError::NoPlatform);
        }
        // SAFETY: a registered VFS is valid, and `copy` reads no more than its version has.
        let methods = unsafe { copy(platform) };
        let installed: &'static mut InstalledVfs =
            Box::leak(Box::new(InstalledVfs { vfs: vfs_over(&methods), platform, methods, api, root: None }));
        // SAFETY: it is new, and never freed.
        let installed = unsafe { register(installed, default) }?;
        all.push(installed);
        Ok(Self { installed })
    }

    /// The name of a VFS that does what this one does for the files in `directory`, and refuses to
    /// open, look at or delete any other (`SQLITE_AUTH`), and to load libraries: for SQL that is
    /// not one's own. It is registered when it is first asked for, and stays.
    ///
    /// # Errors
    /// [`InstallError::NoDirectory`], or SQLite's refusal.
    pub fn confined(&self, directory: &Path) -> Result<&'static CStr, InstallError> {
        use std::os::unix::ffi::OsStrExt;
        let form = |path: &Path| [path.as_os_str().as_bytes(), b"/"].concat();
        let missing =
            |error: std::io::Error| InstallError::NoDirectory(format!("{}: {error}", directory.display()));
        let real = directory.canonicalize().map_err(missing)?;
        let given = std::path::absolute(directory).map_err(missing)?;
        let forms = [form(&real), form(&given)];
        let mut all = CONFINED.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.installed;
        let known = all.iter().copied().filter(|installed| ptr::eq(installed.platform, own.platform));
        if let Some(root) =
            known.filter_map(|installed| installed.root.as_ref()).find(|root| root.forms == forms)
        {
            return Ok(&root.name);
        }
        let number = all.len();
        let Ok(name) = CString::new(format!("fathom-in-{number}")) else {
            return Err(InstallError::NameTaken);
        };
        let installed: &'static mut InstalledVfs = Box::leak(Box::new(InstalledVfs {
            vfs: vfs_over(&own.methods),
            platform: own.platform,
            methods: own.methods,
            api: own.api,
            root: Some(Root { forms, name }),
        }));
        if let Some(root) = &installed.root {
            installed.vfs.name = root.name.as_ptr();
        }
        // SAFETY: it is new, and never freed.
        let installed = unsafe { register(installed, false) }?;
        all.push(installed);
        installed.root.as_ref().map(|root| root.name.as_c_str()).ok_or(InstallError::NameTaken)
    }

    /// Makes the virtual table `fathom_io` known to a connection: the sums over all threads of the
    /// process, by file class and operation. `UPDATE fathom_io SET calls = 0` starts the rows it
    /// matches at zero.
    ///
    /// # Errors
    /// SQLite's result code.
    ///
    /// # Safety
    /// `db` must be an open connection (`sqlite3 *`) of the library in which the probe was
    /// installed.
    pub unsafe fn add_table(&self, db: *mut c_void) -> Result<(), i32> {
        // SAFETY: passed on from the caller.
        match unsafe { crate::vtab::register(db, self.installed) } {
            OK => Ok(()),
            code => Err(code),
        }
    }

    /// Name of the platform's VFS underneath, e.g. `unix`.
    #[must_use]
    pub fn platform(&self) -> String {
        let name = self.installed.methods.name;
        if name.is_null() {
            return String::new();
        }
        // SAFETY: the name of a registered VFS ends in NUL and stays.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// Makes a VFS known to its library.
///
/// # Safety
/// Nothing else may know `installed` yet.
unsafe fn register(
    installed: &'static mut InstalledVfs,
    default: bool,
) -> Result<&'static InstalledVfs, InstallError> {
    let place: *mut InstalledVfs = installed;
    // SAFETY: `place` is valid for ever; it is written here before anything else knows it.
    let (rc, installed) = unsafe {
        (*place).vfs.app_data = place.cast::<c_void>();
        let rc = ((*place).api.vfs_register)(&raw mut (*place).vfs, c_int::from(default));
        (rc, &*place)
    };
    if rc == OK { Ok(installed) } else { Err(InstallError::Refused(rc)) }
}

/// Copies a VFS field by field as far as its version goes, for an older one is shorter than
/// [`Vfs`].
///
/// # Safety
/// `vfs` must point to a VFS of the size that its version implies.
unsafe fn copy(vfs: *const Vfs) -> Vfs {
    // SAFETY: each field read belongs to the version; no reference to the whole is made.
    unsafe {
        let version = (*vfs).version.min(3);
        let (v2, v3) = (version >= 2, version >= 3);
        Vfs {
            version,
            file_size: (*vfs).file_size,
            max_pathname: (*vfs).max_pathname,
            next: ptr::null_mut(),
            name: (*vfs).name,
            app_data: (*vfs).app_data,
            open: (*vfs).open,
            delete: (*vfs).delete,
            access: (*vfs).access,
            full_pathname: (*vfs).full_pathname,
            dl_open: (*vfs).dl_open,
            dl_error: (*vfs).dl_error,
            dl_sym: (*vfs).dl_sym,
            dl_close: (*vfs).dl_close,
            randomness: (*vfs).randomness,
            sleep: (*vfs).sleep,
            current_time: (*vfs).current_time,
            get_last_error: (*vfs).get_last_error,
            current_time_int64: if v2 { (*vfs).current_time_int64 } else { None },
            set_system_call: if v3 { (*vfs).set_system_call } else { None },
            get_system_call: if v3 { (*vfs).get_system_call } else { None },
            next_system_call: if v3 { (*vfs).next_system_call } else { None },
        }
    }
}

/// The probe's VFS over the platform's: same version and limits, null where the platform has null.
fn vfs_over(platform: &Vfs) -> Vfs {
    // A `Head` is a few hundred bytes.
    let head = c_int::try_from(Head::SIZE).unwrap_or(c_int::MAX);
    Vfs {
        version: platform.version,
        file_size: platform.file_size.saturating_add(head),
        max_pathname: platform.max_pathname,
        next: ptr::null_mut(),
        name: VFS_NAME.as_ptr(),
        app_data: ptr::null_mut(),
        open: platform.open.map(|_| open as VfsOpen),
        delete: platform.delete.map(|_| delete as VfsDelete),
        access: platform.access.map(|_| access as _),
        full_pathname: platform.full_pathname.map(|_| full_pathname as _),
        dl_open: platform.dl_open.map(|_| dl_open as _),
        dl_error: platform.dl_error.map(|_| dl_error as _),
        dl_sym: platform.dl_sym.map(|_| dl_sym as _),
        dl_close: platform.dl_close.map(|_| dl_close as _),
        randomness: platform.randomness.map(|_| randomness as _),
        sleep: platform.sleep.map(|_| sleep as _),
        current_time: platform.current_time.map(|_| current_time as _),
        get_last_error: platform.get_last_error.map(|_| get_last_error as _),
        current_time_int64: platform.current_time_int64.map(|_| current_time_int64 as _),
        set_system_call: platform.set_system_call.map(|_| set_system_call as _),
        get_system_call: platform.get_system_call.map(|_| get_system_call as _),
        next_system_call: platform.next_system_call.map(|_| next_system_call as _),
    }
}

/// The probe to which SQLite's call on the VFS "fathom" belongs.
///
/// # Safety
/// `vfs` must be the VFS that [`Probe::install_as`] registered, or a copy of it.
unsafe fn installed<'a>(vfs: *mut Vfs) -> &'a InstalledVfs {
    // SAFETY: `app_data` was set before registration and points to memory that is never freed; a
    // copy that kept the functions with which it is called here keeps what they need.
    unsafe { &*(*vfs).app_data.cast::<InstalledVfs>() }
}

/// Calls the platform's method; `$missing` if it has none, which cannot be: see `vfs_over`.
macro_rules! platform {
    ($installed:expr, $missing:expr, $method:ident ( $($argument:expr),* )) => {{
        let installed: &InstalledVfs = $installed;
        match installed.methods.$method {
            // SAFETY: SQLite's arguments are passed on as they came, to the method they were meant
            // for, with the VFS that this method belongs to.
            Some(method) => unsafe { method(installed.platform, $($argument),*) },
            None => $missing,
        }
    }};
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: called by SQLite with the registered VFS, as are all below, and with memory of
    // `file_size` bytes.
    let (installed, inner) = unsafe { (installed(vfs), Head::prepare(file)) };
    // SAFETY: a name ends in NUL.
    if unsafe { !installed.admits(name) } {
        return AUTH;
    }
    let class = FileClass::of_open(name, flags);
    // The name is passed on as the pointer that came: SQLite hides URI parameters behind its end.
    let rc = timed(class, Op::Open, 0, || platform!(installed, ERROR, open(name, inner, flags, flags_out)));
    // SAFETY: prepared above; what is installed stays.
    unsafe { Head::finish(file, name, class, installed) };
    rc
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: see `open`; a name ends in NUL.
    let (installed, class) = unsafe { (installed(vfs), FileClass::of_name(name)) };
    // SAFETY: as above.
    if unsafe { !installed.admits(name) } {
        return AUTH;
    }
    // SAFETY: as above.
    unsafe { crate::watch::deleting(name) };
    timed(class, Op::Delete, 0, || platform!(installed, ERROR, delete(name, sync_directory)))
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: see `delete`.
    let (installed, class) = unsafe { (installed(vfs), FileClass::of_name(name)) };
    // SAFETY: as above.
    if unsafe { !installed.admits(name) } {
        return AUTH;
    }
    timed(class, Op::Access, 0, || platform!(installed, ERROR, access(name, flags, out)))
}

unsafe extern "C" fn full_pathname(
    vfs: *mut Vfs,
    name: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, ERROR, full_pathname(name, size, out))
}

unsafe extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    if installed.root.is_some() {
        return ptr::null_mut();
    }
    platform!(installed, ptr::null_mut(), dl_open(name))
}

unsafe extern "C" fn dl_error(vfs: *mut Vfs, size: c_int, message: *mut c_char) {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, (), dl_error(size, message));
}

unsafe extern "C" fn dl_sym(vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> Option<Symbol> {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, None, dl_sym(library, name))
}

unsafe extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, (), dl_close(library));
}

unsafe extern "C" fn randomness(vfs: *mut Vfs, size: c_int, out: *mut c_char) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, 0, randomness(size, out))
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    timed(FileClass::Database, Op::Sleep, 0, || platform!(installed, 0, sleep(microseconds)))
}

unsafe extern "C" fn current_time(vfs: *mut Vfs, days: *mut f64) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, ERROR, current_time(days))
}

unsafe extern "C" fn get_last_error(vfs: *mut Vfs, size: c_int, message: *mut c_char) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, 0, get_last_error(size, message))
}

unsafe extern "C" fn current_time_int64(vfs: *mut Vfs, milliseconds: *mut i64) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, ERROR, current_time_int64(milliseconds))
}

unsafe extern "C" fn set_system_call(vfs: *mut Vfs, name: *const c_char, function: Option<Symbol>) -> c_int {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, ERROR, set_system_call(name, function))
}

unsafe extern "C" fn get_system_call(vfs: *mut Vfs, name: *const c_char) -> Option<Symbol> {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, None, get_system_call(name))
}

unsafe extern "C" fn next_system_call(vfs: *mut Vfs, name: *const c_char) -> *const c_char {
    // SAFETY: see `open`.
    let installed = unsafe { installed(vfs) };
    platform!(installed, ptr::null(), next_system_call(name))
}
