//! The file of recordings that nobody asked to keep, and what becomes of it.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fathom_output::{TemporaryPath, shown_path, tell};
use tempfile::TempDir;

use crate::commands;
use crate::outcome::Error;

/// Where results lie that nobody asked to keep: a directory that goes again, of the user alone, for
/// a trace may lie in it. Its lock says that its process lives ([`remove_abandoned`]).
pub struct RecordingFile {
    pub file: PathBuf,
    // Dropped in this order: it is held until it is gone.
    _directory: TempDir,
    _held: (TemporaryPath, File),
}

/// How the directory begins.
const KEPT: &str = ".fathom-recorded-";

/// The file in it that its process has locked.
const LOCK: &str = "lock";

impl RecordingFile {
    /// In a directory of its own below `directory`, from which what killed commands have left goes
    /// first; what of that cannot be removed is told by `stack down --all`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(directory: &Path) -> Result<RecordingFile, Error> {
        let _ = remove_abandoned(directory);
        let problem = |error: std::io::Error| match fathom_ground::system::is_full_disk(&error) {
            true => temporary_is_full(),
            false => Error::failed(format!("{}: {error}", shown_path(directory))),
        };
        let make = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(KEPT).permissions(Permissions::from_mode(0o700)).tempdir_in(directory)
        };
        // Its reason alone: the user has not named the directory that is named there.
        let made = fathom_output::hold(make, TempDir::path).map_err(|error| error.kind().into());
        let (made, held) = made.map_err(problem)?;
        // By its name it is there when it is locked: found unlocked, the directory was taken for
        // one that a killed process has left, and removed.
        let begun = made.path().join("begun");
        let lock = File::create_new(&begun).map_err(problem)?;
        lock.lock().map_err(problem)?;
        std::fs::rename(&begun, made.path().join(LOCK)).map_err(problem)?;
        Ok(RecordingFile { file: made.path().join("recorded.db"), _directory: made, _held: (held, lock) })
    }
}

/// Keeps recordings that are complete in the file that `--out` names, which is there whole or not
/// at all.
///
/// # Errors
/// The file must not or cannot be written.
pub fn keep(recorded: &Path, out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    // What SQLite has not brought into the file itself would be missing.
    for end in ["-wal", "-journal"] {
        let mut beside = recorded.as_os_str().to_owned();
        beside.push(end);
        if std::fs::metadata(&beside).is_ok_and(|found| found.len() > 0) {
            return Err(Error::failed(format!("--out {}: the recordings are not complete", shown_path(out))));
        }
    }
    commands::check_kept(out)?;
    commands::write_copy("--out", out, inputs, recorded)?;
    tell!("Recorded: {}", shown_path(out));
    Ok(())
}

/// What there is to do where recordings do not fit: they are not kept, and nothing goes on with
/// them.
pub fn temporary_is_full() -> Error {
    Error::failed(format!(
        "{}: the disk is full, and recordings lie there (TMPDIR) for as long as the command runs. Nothing of them is kept: \
         free some space there, or give the command again with TMPDIR=DIR, a directory on a larger disk",
        shown_path(&std::env::temp_dir())
    ))
}

/// Removes what commands that were killed have left of recordings in `directory`: directories of
/// this user's whose process has ended. Gives their paths, and what could not be removed.
pub fn remove_abandoned(directory: &Path) -> (Vec<PathBuf>, Vec<String>) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().as_encoded_bytes().starts_with(KEPT.as_bytes());
        // Not behind a link, which might lead anywhere.
        let is_own = || {
            std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
        };
        if !is_named || !is_own() {
            continue;
        }
        // Without a lock it is just being made, or is none of these.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_err() {
            continue;
        }
        match std::fs::remove_dir_all(&path) {
            Ok(()) => removed.push(path),
            Err(error) => failed.push(format!("{}: {error}", shown_path(&path))),
        }
    }
    (removed, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kill -9` of a command that records left its directory, with an application's trace in it,
    /// for ever.
    #[test]
    fn only_what_a_process_that_has_ended_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let alive = RecordingFile::new(place.path()).unwrap();
        let mode = std::fs::metadata(alive.file.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let names =
            std::fs::read_dir(alive.file.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [LOCK], "under its own name when it is locked");
        let killed = place.path().join(".fathom-recorded-killed");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join(LOCK), "").unwrap();
        std::fs::write(killed.join("recorded.db"), "x").unwrap();
        // Not one of these: another name, no lock, a link to somewhere.
        let other = place.path().join("recorded");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        let unlocked = place.path().join(".fathom-recorded-mine");
        std::fs::create_dir(&unlocked).unwrap();
        std::os::unix::fs::symlink(&other, place.path().join(".fathom-recorded-link")).unwrap();
        let (removed, failed) = remove_abandoned(place.path());
        assert_eq!((removed, failed), (vec![killed.clone()], Vec::new()));
        assert!(alive.file.parent().unwrap().exists() && other.join(LOCK).exists() && unlocked.exists());
        // As whoever records next does.
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join(LOCK), "").unwrap();
        drop(RecordingFile::new(place.path()).unwrap());
        assert!(!killed.exists() && alive.file.parent().unwrap().exists());
        let path = alive.file.parent().unwrap().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
