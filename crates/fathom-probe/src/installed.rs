//! The probe as it is installed in one SQLite library.

use std::ffi::{CStr, CString, c_char};

use crate::abi::Vfs;
use crate::api::Api;

/// Name under which the probe is registered.
pub const VFS_NAME: &CStr = c"fathom";

/// The probe in one SQLite library. Never freed: SQLite keeps pointers to a VFS for as long as
/// files are open.
pub struct InstalledVfs {
    /// What SQLite has registered. Its `app_data` points back here.
    pub vfs: Vfs,
    /// The platform's VFS, as SQLite has it.
    pub platform: *mut Vfs,
    /// The platform's methods as they were when the probe was installed.
    pub methods: Vfs,
    pub api: Api,
    /// The directory outside of which it opens nothing; none for "fathom" itself.
    pub root: Option<Root>,
}

/// A directory, in the forms in which SQLite may name what is in it.
pub struct Root {
    /// With a slash at the end: without symbolic links, and as it was given (SQLite did not resolve
    /// those of directories before 3.39).
    pub forms: [Vec<u8>; 2],
    /// Under which the VFS is registered.
    pub name: CString,
}

impl Root {
    /// Whether a file lies in the directory itself, where all files of a database lie.
    fn holds(&self, name: &[u8]) -> bool {
        let inside = |form: &Vec<u8>| name.strip_prefix(form.as_slice());
        let is_plain =
            |rest: &[u8]| !rest.is_empty() && !rest.contains(&b'/') && rest != b"." && rest != b"..";
        self.forms.iter().filter_map(inside).any(is_plain)
    }
}

impl InstalledVfs {
    /// Whether a call on a file of this name is passed on.
    ///
    /// # Safety
    /// `name` must be null or end in NUL.
    pub unsafe fn admits(&self, name: *const c_char) -> bool {
        let Some(root) = &self.root else { return true };
        // A temporary file has no name: the platform makes one up in the system's directory for
        // them, and unlinks it. SAFETY: by the caller's promise.
        name.is_null() || root.holds(unsafe { CStr::from_ptr(name) }.to_bytes())
    }
}

// SAFETY: all fields are set before the value is shared and never change, but for `vfs.next`, which
// belongs to SQLite and is only touched by it under its own mutex.
unsafe impl Send for InstalledVfs {}
// SAFETY: as above.
unsafe impl Sync for InstalledVfs {}
