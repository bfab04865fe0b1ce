//! The capture library and the loadable extension, as they are kept inside this program.

use std::path::{Path, PathBuf};

use crate::error::TraceError;

static PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathom_capture.so"));
static EXTENSION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfathomtrace.so"));

/// Name of the loadable extension, from which SQLite derives its entry point
/// `sqlite3_fathomtrace_init`.
pub const EXTENSION_NAME: &str = "libfathomtrace.so";

/// Whether the system has musl's loader, with which programs of that C library begin.
fn has_musl(directory: &Path) -> bool {
    std::fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("ld-musl-") && name.contains(".so")
    })
}

/// The static program of a release is made with musl, and so are the libraries inside: where
/// programs have another C library they would not even start with them.
fn check_system() -> Result<(), TraceError> {
    if cfg!(target_env = "musl") && !has_musl(Path::new("/lib")) {
        return Err(TraceError::refused(
            "capture",
            "this fathom is the static one, and its capture library fits no program of this system: use one that was \
             built here (cargo build --release -p fathom)",
        ));
    }
    Ok(())
}

/// Writes the capture library into `directory` and gives its path.
pub fn write_preload(directory: &Path) -> Result<PathBuf, TraceError> {
    check_system()?;
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
    check_system()?;
    fathom_output::write(path, &[], fathom_output::Access::Public, |out| {
        out.write_all(EXTENSION).map_err(TraceError::io(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: in programs of 32 bits `stat` fails of a file above 2 GiB, and a database of
    /// that size was said to begin empty.
    #[test]
    fn how_large_a_database_is_is_asked_for_with_64_bits() {
        let source = include_str!("../../capture/content.c");
        assert!(source.contains("STATX_SIZE") && !source.contains(" stat(") && !source.contains("(stat("));
    }

    /// With the static program `fathom trace capture -- true` ended with "invalid ELF header" of
    /// `true`, and with a reason that was none.
    #[test]
    fn a_system_with_musl_is_known_by_its_loader() {
        let place = tempfile::tempdir().unwrap();
        assert!(!has_musl(place.path()) && !has_musl(&place.path().join("none")));
        std::fs::write(place.path().join("ld-linux-armhf.so.3"), "").unwrap();
        assert!(!has_musl(place.path()));
        std::fs::write(place.path().join("ld-musl-armhf.so.1"), "").unwrap();
        assert!(has_musl(place.path()));
        assert_eq!(check_system().is_ok(), cfg!(not(target_env = "musl")) || has_musl(Path::new("/lib")));
    }
}
