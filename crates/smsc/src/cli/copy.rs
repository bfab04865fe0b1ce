//! A private copy of a store, on which it is recovered and checked: the store itself stays as it
//! was found.
//!
//! To open a store is to recover it: logs are read and cut, claims given back, files made anew.
//! After a crash that is evidence, and nobody who asks whether a store is well wants it changed by
//! the question.

use smsc::store::{StoreError, StoreKind};
use std::fs::{DirBuilder, File, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server whose process has just ended may take to end itself.
const ENDING: Duration = Duration::from_secs(15);
/// More directories in one another have no store.
const DEPTH: usize = 16;
/// What a check reads where it is, or what is of a process and not of the store.
const LEFT_OUT: [&str; 5] =
    ["archive.jsonl", "archive.jsonl.new", "accepted", "postmaster.pid", "postmaster.opts"];
/// The bytes of a database's file that SQLite locks (its `PENDING_BYTE` and what follows).
const SQLITE_LOCKS: (libc::off_t, libc::off_t) = (0x4000_0000, 512);

/// A copy that goes when it is dropped.
pub struct Copy {
    scratch: tempfile::TempDir,
    /// Where the store is, and where its copy is; then each directory of a log stream that is
    /// elsewhere.
    places: Vec<(PathBuf, PathBuf)>,
    /// Keeps others from opening the store while it is copied.
    locks: Vec<File>,
}

impl Copy {
    /// A place for the copy, below `$TMPDIR`; nothing is copied yet.
    ///
    /// # Errors
    /// The place cannot be made, or lies in the store, which would be changed and copied without an
    /// end.
    pub fn new(kind: StoreKind, store: &Path, streams: &[PathBuf]) -> Result<Copy> {
        let place = std::env::temp_dir();
        for from in streams.iter().map(PathBuf::as_path).chain([store]) {
            if is_within(&place, from)? {
                return Err(Error::other(format!("{} lies in {}", place.display(), from.display())));
            }
        }
        // Nobody else may enter, as long as the copy is there and after a kill: it may be of a
        // store that others cannot read.
        let own = std::fs::Permissions::from_mode(0o700);
        let scratch = tempfile::Builder::new().prefix("smsc-check-").permissions(own).tempdir_in(&place)?;
        if kind.has_server() {
            // Its server runs as another user, who has to get through: what is below is closed to
            // others as the cluster is.
            std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o711))?;
        }
        let to = |name: &str| scratch.path().join(name);
        let streams =
            streams.iter().enumerate().map(|(at, from)| (from.clone(), to(&format!("stream-{at}"))));
        let places = std::iter::once((store.to_owned(), to("store"))).chain(streams).collect();
        Ok(Copy { scratch, places, locks: Vec::new() })
    }

    /// Copies the store, which nobody may be using; false where `goes_on` said so.
    ///
    /// # Errors
    /// It is in use, or cannot be read; the copy cannot be written.
    pub fn fill(
        &mut self,
        kind: StoreKind,
        goes_on: &dyn Fn() -> bool,
    ) -> std::result::Result<bool, StoreError> {
        let busy = |path: &Path| StoreError::Busy { path: path.display().to_string() };
        let store = self.places[0].0.clone();
        if kind.has_server() {
            // Who has it lives, and its server does not end; file systems without locks have none.
            match locked(&store) {
                Ok(Lock::Free(file)) => self.locks.extend(file),
                Ok(Lock::Taken) => return Err(busy(&store)),
                Err(_) => {}
            }
            if !has_no_server(&store.join("postgresql/postmaster.pid"), goes_on) {
                return if goes_on() { Err(busy(&store)) } else { Ok(false) };
            }
        } else if kind == StoreKind::Mmdb {
            for (from, _) in &self.places {
                match locked(&from.join("LOCK")).map_err(io(from))? {
                    Lock::Free(file) => self.locks.extend(file),
                    Lock::Taken => return Err(busy(from)),
                }
            }
        } else {
            let path = store.join("smsc.db");
            let file = File::open(&path).map_err(io(&path))?;
            if is_locked(&file).map_err(io(&path))? {
                return Err(busy(&store));
            }
            self.locks.push(file);
        }
        for (from, to) in &self.places {
            // What is not there is told when the copy is opened.
            if from.exists() && !copy(from, to, DEPTH, goes_on).map_err(io(from))? {
                return Ok(false);
            }
        }
        self.locks.clear();
        Ok(true)
    }

    /// Where all of it is.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Where the store's copy is.
    pub fn store(&self) -> &Path {
        &self.places[0].1
    }

    /// Where the copies of its log streams are that are elsewhere.
    pub fn streams(&self) -> Vec<PathBuf> {
        self.places[1..].iter().map(|place| place.1.clone()).collect()
    }

    /// What is said of the copy, as said of the store.
    pub fn of_store(&self, error: &dyn std::fmt::Display) -> String {
        self.places.iter().fold(error.to_string(), |text, (from, to)| {
            text.replace(&to.display().to_string(), &from.display().to_string())
        })
    }
}

/// Whether a directory is another one, or lies in it at any depth, whatever links lead there.
fn is_within(inner: &Path, outer: &Path) -> Result<bool> {
    let Ok(outer) = std::fs::metadata(outer) else { return Ok(false) };
    let inner = inner.canonicalize()?;
    let is_outer = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == (outer.dev(), outer.ino()))
    };
    Ok(inner.ancestors().any(is_outer))
}

fn io(path: &Path) -> impl FnOnce(Error) -> StoreError {
    let path = path.display().to_string();
    |source| StoreError::Io { path, source }
}

/// Whether no server runs on a cluster; one whose process was killed needs a moment to end.
fn has_no_server(file: &Path, goes_on: &dyn Fn() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < ENDING && goes_on() {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let process = text.lines().next().unwrap_or_default().trim();
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        if process.is_empty() || name.trim_end() != "postgres" {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

enum Lock {
    /// Held now, if there is a file to lock.
    Free(Option<File>),
    /// Somebody else has it.
    Taken,
}

/// Locks a file, as mmdb does, or a directory, as who has a private server does, that is there,
/// without writing to it.
fn locked(path: &Path) -> Result<Lock> {
    let file = match File::open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Lock::Free(None));
        }
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Lock::Free(Some(file))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(Lock::Taken),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Whether another process has a lock of SQLite's on a database.
fn is_locked(file: &File) -> Result<bool> {
    // SAFETY: all zeros is a valid flock, a structure of integers.
    let mut asked: libc::flock = unsafe { std::mem::zeroed() };
    asked.l_type = libc::F_WRLCK as libc::c_short;
    asked.l_whence = libc::SEEK_SET as libc::c_short;
    (asked.l_start, asked.l_len) = SQLITE_LOCKS;
    // SAFETY: the descriptor is open, and the structure is valid and writable.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut asked) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(asked.l_type != libc::F_UNLCK as libc::c_short)
}

/// Copies a directory and what is below it; false where `goes_on` said so. Links are followed: a
/// copy that held one would lead back into the store.
fn copy(from: &Path, to: &Path, depth: usize, goes_on: &dyn Fn() -> bool) -> Result<bool> {
    let within = |path: &Path, error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    if depth == 0 {
        return Err(Error::other(format!("{}: directories in one another without an end", from.display())));
    }
    let same_as = |about: &Metadata| -> Result<()> {
        std::fs::set_permissions(to, about.permissions())?;
        // Root only: a server's files are its user's.
        let own = std::fs::metadata(to)?;
        if (own.uid(), own.gid()) == (about.uid(), about.gid()) {
            return Ok(());
        }
        chown(to, Some(about.uid()), Some(about.gid()))
    };
    // Its mode comes in the end: what is in it is nobody else's meanwhile.
    DirBuilder::new().mode(0o700).create(to).map_err(|error| within(to, error))?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if !goes_on() {
            return Ok(false);
        }
        let is_archive = name.to_str().is_some_and(|name| name.starts_with("archive-"));
        if is_archive || LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        let about = std::fs::metadata(&path).map_err(|error| within(&path, error))?;
        let copied = to.join(&name);
        if about.is_dir() {
            if !copy(&path, &copied, depth - 1, goes_on)? {
                return Ok(false);
            }
        } else if about.is_file() {
            let hint = "; TMPDIR names a directory for the copy that a check is made on";
            std::fs::copy(&path, &copied).map_err(|error| {
                Error::new(error.kind(), format!("{} → {}: {error}{hint}", path.display(), copied.display()))
            })?;
            // A server's owner, as above; the modes came with the file.
            let own = std::fs::metadata(&copied)?;
            if (own.uid(), own.gid()) != (about.uid(), about.gid()) {
                chown(&copied, Some(about.uid()), Some(about.gid()))
                    .map_err(|error| within(&copied, error))?;
            }
        }
        // Sockets and the like are of a process that has ended.
    }
    same_as(&std::fs::metadata(from)?).map_err(|error| within(to, error))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a private PostgreSQL that a centre had, a check waited 15 s for the end of
    /// its server; and a centre that was started while its store was copied changed it meanwhile.
    #[test]
    fn a_cluster_that_somebody_has_is_not_copied() {
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir(store.path().join("postgresql")).unwrap();
        let held = File::open(store.path()).unwrap();
        held.try_lock().unwrap();
        let mut copy = Copy::new(StoreKind::Postgresql, store.path(), &[]).unwrap();
        let refused = copy.fill(StoreKind::Postgresql, &|| true);
        assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
        held.unlock().unwrap();
        assert!(copy.fill(StoreKind::Postgresql, &|| true).unwrap());
        assert!(copy.store().join("postgresql").is_dir());
    }
}
