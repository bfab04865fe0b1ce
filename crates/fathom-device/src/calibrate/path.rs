//! What the path to a device takes by itself: a device without delays, served through FUSE beside
//! the target, and measured alike.
//!
//! It is served by a process of its own, as a modelled device is. A process that serves a device
//! and waits for it as well cannot be killed while it waits, and would leave its mount behind.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::sizes::BLOCK;
use super::target::{Direction, Target};
use crate::device::FILE;
use crate::presets::text_of;
use crate::server::{Request, Server};
use fathom_ground::fuse_mount::unmount;
use fathom_ground::mountinfo::{is_mounted, mount_of};

/// Medians of a read, a write and a flush, ns; none where the target is not served through FUSE, or
/// such a device cannot be served by `program`.
pub(super) fn of(target: &mut Target<'_>, count: usize, program: Option<&Path>) -> Option<[f64; 3]> {
    let program = program?;
    if !mount_of(&target.path).is_ok_and(|mount| mount.filesystem.starts_with("fuse")) {
        return None;
    }
    let place = private_directory(&std::env::temp_dir()).ok()?;
    let at = place.canonicalize().ok().map(|place| place.join("at"));
    let times = at.as_deref().and_then(|at| measured(target, at, count, program));
    // Still mounted where that failed: then it stays, and is empty.
    let _ = at.map(fs::remove_dir);
    let _ = fs::remove_dir(&place);
    times
}

/// A new directory in `parent` that only the user may enter, whatever the umask says. One that is
/// there already may be another user's, who would be in the way of a name that can be foreseen.
fn private_directory(parent: &Path) -> io::Result<PathBuf> {
    const TRIES: u32 = 100;
    let mut tried = 0;
    loop {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("fathom-path-{}-{:x}-{tried}", std::process::id(), since.as_nanos());
        let place = parent.join(name);
        match fs::DirBuilder::new().mode(0o700).create(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < TRIES => tried += 1,
            made => return made.map(|()| place),
        }
    }
}

fn measured(target: &mut Target<'_>, at: &Path, count: usize, program: &Path) -> Option<[f64; 3]> {
    fs::create_dir(at).ok()?;
    let image = rustix::fs::memfd_create("fathom-path", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::ftruncate(&image, target.bytes).ok()?;
    let request = Request {
        image: format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd()).into(),
        at: at.to_path_buf(),
        model: text_of("none")?.to_owned(),
        seed: 1,
        log: None,
        capture: false,
        answers: None,
        faults: Vec::new(),
    };
    let log = at.with_file_name("log");
    let started = Server::start(program, &request, &log);
    // Nobody is told why there is no such device.
    let _ = fs::remove_file(&log);
    let times = started.ok().and_then(|server| {
        let times = target.beside(&at.join(FILE), |other| {
            let [read, write] = [Direction::Read, Direction::Write]
                .map(|what| other.random(what, BLOCK, count, Duration::from_secs(2)));
            let mut flushes = Vec::new();
            for _ in 0..count.min(200) {
                other.operate(Direction::Write, 0, BLOCK)?;
                flushes.push(other.flush()? as f64);
            }
            Ok([read?.median(), write?.median(), super::sorted::median(flushes)])
        });
        // It takes its mount away when it is left alone.
        server.end();
        times
    });
    // One that had to be killed did not.
    let _ = is_mounted(at) && unmount(at);
    times
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What happened: the directory had the mode that the umask left, and a name that whoever else
    /// uses the machine could take first, so that the path was silently not measured.
    #[test]
    fn what_the_path_is_measured_in_is_the_users_alone() {
        let parent = tempfile::tempdir().unwrap();
        let made = [(), ()].map(|()| private_directory(parent.path()).unwrap());
        assert_ne!(made[0], made[1]);
        for place in made {
            assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
