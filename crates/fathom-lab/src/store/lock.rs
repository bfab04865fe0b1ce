//! One writer at a time: a lock on the results file itself.

use std::fs::{File, Metadata, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::StoreError;

/// Held while runs are added to a results file. It is a lock of the kernel on an open file
/// (`flock`), so that it ends with the process whatever ends that; there is no file that a killed
/// run could leave. Readers do not ask for it.
///
/// SQLite's own locks on the file are of another kind (`fcntl`), and closing *any* descriptor of a
/// file drops those of the whole process: so this one is closed after the connection is, and never
/// before.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Locks a results file that is there.
    ///
    /// # Errors
    /// [`StoreError::Busy`] with who holds it; a file that cannot be opened.
    pub fn take(path: &Path) -> Result<Lock, StoreError> {
        let file = File::open(path)
            .map_err(|error| StoreError::Other { path: path.to_path_buf(), detail: error.to_string() })?;
        Lock::of(path, file)
    }

    /// Locks an open file.
    pub(super) fn of(path: &Path, file: File) -> Result<Lock, StoreError> {
        match file.try_lock() {
            // A file system without such locks: SQLite's own must do.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => {
                Err(StoreError::Busy { path: path.to_path_buf(), holder: holder(&file) })
            }
        }
    }

    /// Whether a path leads to the file that is locked.
    pub(super) fn is_of(&self, path: &Path) -> bool {
        let number = |of: Metadata| (of.dev(), of.ino());
        let (Ok(own), Ok(there)) = (self.file.metadata(), path.metadata()) else { return false };
        number(own) == number(there)
    }
}

/// `fathom run mine.toml (process 123)` from the kernel's list of locks; `another process` where it
/// does not say.
fn holder(file: &File) -> String {
    let unknown = || "another process".to_owned();
    let (Ok(metadata), Ok(locks)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else {
        return unknown();
    };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let exact = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let inode = format!(":{}", metadata.ino());
    let holder_of = |is_it: &dyn Fn(&str) -> bool| {
        locks.lines().find_map(|line| {
            // `1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF`
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, _, process, at, ..] = words[..] else { return None };
            is_it(at).then(|| process.parse::<u32>().ok()).flatten().filter(|process| *process > 0)
        })
    };
    // Btrfs and overlays show another device there than they tell of the file.
    let process = holder_of(&|at| at == exact).or_else(|| holder_of(&|at| at.ends_with(&inode)));
    let Some(process) = process else { return unknown() };
    match std::fs::read(format!("/proc/{process}/cmdline")) {
        Ok(words) if !words.is_empty() => {
            let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
            format!("{words} (process {process})")
        }
        _ => format!("process {process}"),
    }
}
