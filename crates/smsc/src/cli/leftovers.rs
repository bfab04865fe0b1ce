//! What a bench that was killed has left, and how the next one knows that it is nobody's any more.
//!
//! The directory of a row that is to go again holds a file that its process has locked (flock(2)).
//! The kernel takes the lock away when the process ends, however it does, and not before: neither a
//! number that another process has by now nor a container that sees no others can mislead. What is
//! kept has no such file.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What the names of a row's directory and of those of its log streams begin with.
pub const PREFIX: &str = "smsc-bench-";
pub const LOG_PREFIX: &str = "smsc-bench-log-";

/// The file that is locked. It holds [`MARK`] and, each behind a NUL, the directories of log
/// streams.
const OWNER: &str = "smsc-bench.owner";
const MARK: &[u8] = b"smsc bench";
/// Longer than this it is none of ours, bytes.
const LONGEST: u64 = 1 << 20;

/// The claim on the directories of a row, as long as it is there.
#[derive(Debug)]
pub struct Claim {
    _locked: File,
}

impl Claim {
    /// Claims a row's directory, with those of its log streams.
    ///
    /// # Errors
    /// The file cannot be made, or this file system locks none. Then what a kill leaves stays.
    pub fn take(directory: &Path, streams: &[PathBuf]) -> io::Result<Claim> {
        // It has its name only when it is locked: before that it would look as left.
        let begun = directory.join(format!("{OWNER}.new"));
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&begun)?;
        file.try_lock()?;
        file.write_all(MARK)?;
        for stream in streams {
            file.write_all(b"\0")?;
            file.write_all(fs::canonicalize(stream)?.as_os_str().as_bytes())?;
        }
        fs::rename(&begun, directory.join(OWNER))?;
        Ok(Claim { _locked: file })
    }
}

/// Has a directory stay, whatever becomes of its process.
pub fn keep(directory: &Path) {
    let _ = fs::remove_file(directory.join(OWNER));
}

/// Removes what benches that were killed have left in a directory; what was removed. What cannot be
/// looked at or removed stays.
pub fn sweep(within: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    let is_of_bench = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
    let found = entries.filter(is_of_bench).map(|entry| entry.path());
    found.filter(|directory| remove_left(directory).unwrap_or(false)).collect()
}

/// Removes a directory whose process has ended; whether it was one.
fn remove_left(directory: &Path) -> io::Result<bool> {
    if !is_own(directory) {
        return Ok(false);
    }
    let path = directory.join(OWNER);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path)?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != user() || about.len() > LONGEST || file.try_lock().is_err() {
        return Ok(false);
    }
    // Another bench may have removed it just now.
    let named = fs::symlink_metadata(&path)?;
    let mut told = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut told)?;
    let is_it = (named.dev(), named.ino()) == (about.dev(), about.ino());
    if !is_it || !told.starts_with(MARK) || has_server(directory) {
        return Ok(false);
    }
    let streams = told.split(|byte| *byte == 0).skip(1);
    for stream in streams.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))) {
        let name = stream.file_name().unwrap_or_default().as_bytes();
        if stream.is_absolute() && name.starts_with(LOG_PREFIX.as_bytes()) && is_own(&stream) {
            fs::remove_dir_all(&stream)?;
        }
    }
    // The mark last: what is broken off is known again.
    for entry in fs::read_dir(directory)?.flatten().filter(|entry| entry.file_name() != OsStr::new(OWNER)) {
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_file(&path)?;
    fs::remove_dir(directory)?;
    Ok(true)
}

/// Whether it is a directory, and no link to one, of this user's.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|about| about.is_dir() && about.uid() == user())
}

fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether PostgreSQL is still ending there: the kernel ends its server a moment after its process.
fn has_server(directory: &Path) -> bool {
    let told = fs::read_to_string(directory.join("postgresql/postmaster.pid")).unwrap_or_default();
    let process = told.lines().next().and_then(|line| line.trim().parse::<u32>().ok());
    process.is_some_and(|process| Path::new(&format!("/proc/{process}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(within: &Path, name: &str) -> PathBuf {
        let path = within.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("data"), "messages").unwrap();
        path
    }

    /// What happened: each bench that was killed with -9 left its store, gigabytes of it, and no
    /// later one took it away.
    #[test]
    fn what_nobody_claims_any_more_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let dead = made(place.path(), "smsc-bench-dead");
        let stream = made(elsewhere.path(), "smsc-bench-log-dead");
        let precious = made(elsewhere.path(), "precious");
        drop(Claim::take(&dead, &[stream.clone(), precious.clone()]).unwrap());
        let alive = made(place.path(), "smsc-bench-alive");
        let claim = Claim::take(&alive, &[]).unwrap();
        let kept = made(place.path(), "smsc-bench-kept");
        drop(Claim::take(&kept, &[]).unwrap());
        keep(&kept);
        let other = made(place.path(), "other");
        drop(Claim::take(&other, &[]).unwrap());
        let serving = made(place.path(), "smsc-bench-serving");
        fs::create_dir(serving.join("postgresql")).unwrap();
        fs::write(serving.join("postgresql/postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
        drop(Claim::take(&serving, &[]).unwrap());
        let foreign = made(place.path(), "smsc-bench-foreign");
        fs::write(foreign.join(OWNER), "something else").unwrap();
        let linked = place.path().join("smsc-bench-link");
        std::os::unix::fs::symlink(&other, &linked).unwrap();
        assert_eq!(sweep(place.path()), std::slice::from_ref(&dead));
        assert!(!dead.exists() && !stream.exists());
        for path in [&precious, &alive, &kept, &other, &serving, &foreign, &linked] {
            assert!(path.join("data").exists(), "{}", path.display());
        }
        drop(claim);
        assert_eq!(sweep(place.path()), [alive]);
        assert!(sweep(&place.path().join("nothing")).is_empty());
    }
}
