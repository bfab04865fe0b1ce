//! A loadable extension: functions, collations and modules of an application that a replay would
//! lack.
//!
//! It is loaded here and not by SQLite, whose VFS opens nothing outside of the engine's directory.
//! SQLite calls its entry point when it opens a connection (`sqlite3_auto_extension`), and is told
//! to forget it afterwards, so that connections of others in this process do not get it.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::library::{Entry, OK, SqliteLibrary, open_shared_object};
use crate::engine::EngineError;

/// One connection at a time is opened with an extension.
static OPENING: Mutex<()> = Mutex::new(());

/// The entry point of the extension at `path`, loaded once per process.
fn entry_of(path: &Path) -> Result<Entry, EngineError> {
    static LOADED: Mutex<Option<HashMap<PathBuf, Entry>>> = Mutex::new(None);
    let refused = |message: String| EngineError {
        subject: format!("extension {}", path.display()),
        message: format!("{message}; setting `extension` must be the path of an extension of SQLite"),
        code: 0,
    };
    let path_found = path.canonicalize().map_err(|error| refused(error.to_string()))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if let Some(entry) = loaded.get(&path_found) {
        return Ok(*entry);
    }
    let handle = open_shared_object(&path_found).map_err(refused)?;
    let names = ["sqlite3_extension_init".to_owned(), entry_name(&path_found)];
    let found = names.iter().filter_map(|name| CString::new(name.as_str()).ok()).find_map(|name| {
        // SAFETY: the handle is open and is never closed; the name ends in NUL.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    });
    let Some(address) = found else {
        return Err(refused(format!("is no extension of SQLite: it has no function {}", names.join(" or "))));
    };
    // SAFETY: not null; that the name means an extension's entry point is what the user said by
    // giving this path. SQLite calls it with its own arguments.
    let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(address) };
    loaded.insert(path_found, entry);
    Ok(entry)
}

/// The name that SQLite makes of the file's (`loadext.c`): its letters up to the first dot, without
/// `lib`.
fn entry_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let file = file.strip_prefix("lib").unwrap_or(&file);
    let name: String =
        file.split('.').next().unwrap_or_default().chars().filter(char::is_ascii_alphabetic).collect();
    format!("sqlite3_{name}_init")
}

/// Opens a connection with the extension at `path`, where one is given.
///
/// # Errors
/// No such file, no extension, or a library that is older than automatic extensions can be taken
/// back (3.7.15).
pub(super) fn opening<T>(
    library: &SqliteLibrary,
    path: Option<&Path>,
    open: impl FnOnce() -> T,
) -> Result<T, EngineError> {
    let Some(path) = path else { return Ok(open()) };
    let entry = entry_of(path)?;
    let functions = &library.functions;
    let (Some(begin), Some(end)) =
        (functions.sqlite3_auto_extension, functions.sqlite3_cancel_auto_extension)
    else {
        return Err(EngineError {
            subject: format!("extension {}", path.display()),
            message: format!("SQLite {} cannot load it", library.version()),
            code: 0,
        });
    };
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the entry point stays loaded until the process ends.
    let code = unsafe { begin(Some(entry)) };
    if code != OK {
        return Err(EngineError {
            subject: format!("extension {}", path.display()),
            message: library.meaning(code),
            code,
        });
    }
    let opened = open();
    // SAFETY: as above.
    unsafe { end(Some(entry)) };
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_point_is_called_as_sqlite_calls_it() {
        for (file, name) in [
            ("/x/libRegexp2.so.1", "sqlite3_regexp_init"),
            ("pcre.so", "sqlite3_pcre_init"),
            ("a_b.so", "sqlite3_ab_init"),
        ] {
            assert_eq!(entry_name(Path::new(file)), name);
        }
    }
}
