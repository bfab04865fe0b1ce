//! The capture library and the loadable extension, as they are kept inside this program.

use std::path::{Path, PathBuf};

use crate::error::TraceError;

static PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_capture.so"));
static EXTENSION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathomtrace.so"));

/// Name of the loadable extension, from which SQLite derives its entry point
/// `sqlite3_fathomtrace_init`.
pub const EXTENSION_NAME: &str = "libfathomtrace.so";

/// Writes the capture library into `directory` and gives its path.
pub fn write_preload(directory: &Path) -> Result<PathBuf, TraceError> {
    let path = directory.join("libfathom_capture.so");
    // LD_PRELOAD is a list of paths between spaces or colons, and there is no way to write one in a
    // path.
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(TraceError::refused(
            directory.display(),
            "a path with a space or a colon cannot be preloaded; choose another place with --spool DIR",
        ));
    }
    std::fs::write(&path, PRELOAD).map_err(TraceError::io(&path))?;
    // A process that cannot begin its spool renames it.
    let whole = directory.join(crate::spool::WHOLE);
    std::fs::write(&whole, []).map_err(TraceError::io(&whole))?;
    Ok(path)
}

/// Writes the loadable extension to `path`, for programs that bring an SQLite of their own.
///
/// # Errors
/// A place that cannot or must not be written.
pub fn write_extension(path: &Path) -> Result<(), TraceError> {
    fathom_output::write(path, &[], fathom_output::Access::Public, |out| {
        out.write_all(EXTENSION).map_err(TraceError::io(path))
    })
}
