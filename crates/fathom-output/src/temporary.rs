//! What must not stay when a signal ends the program: temporary files and directories that have a
//! name.
//!
//! A destructor removes them in every orderly end, and a signal is none. So they are held here, and
//! the program that catches the signal calls [`remove_temporary`] before it ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is there now.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A directory that is being written to gets new files while it is removed; so often it is tried
/// again.
const ATTEMPTS: usize = 1000;

/// A temporary file or directory that goes when a signal ends the program. Dropping this removes
/// nothing: it says that whoever made the file has removed it, or that it is to stay.
#[derive(Debug)]
pub struct TemporaryPath(PathBuf);

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        paths().remove(&self.0);
    }
}

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes something temporary by `make`, and holds what `path` gives of it. No signal comes between
/// the two.
///
/// # Errors
/// What `make` says.
pub fn hold<T, E>(
    make: impl FnOnce() -> Result<T, E>,
    path: impl FnOnce(&T) -> &Path,
) -> Result<(T, TemporaryPath), E> {
    let mut paths = paths();
    let made = make()?;
    let path = path(&made).to_owned();
    paths.insert(path.clone());
    Ok((made, TemporaryPath(path)))
}

/// Does what must not be ended by a signal in its midst.
pub(crate) fn uninterrupted<T>(what: impl FnOnce() -> T) -> T {
    let _paths = paths();
    what()
}

/// Removes all that is held, for a program that is about to end. Whoever would make more waits from
/// now on.
pub fn remove_temporary() {
    let paths = paths();
    for path in &*paths {
        for _ in 0..ATTEMPTS {
            let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            if removed.is_ok() || path.symlink_metadata().is_err() {
                break;
            }
        }
    }
    std::mem::forget(paths);
}
