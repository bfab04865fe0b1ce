//! The one teardown: takes a stack down from whatever state it is in. Success, failure, drop, the
//! guard of a dead owner and the sweep of leftovers all end here.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fathom_device::{End, FILE, external_of, log_end, server};
use fathom_ground::command::{CommandLine, find_program};
use fathom_ground::fuse_mount::fusermount;
use fathom_ground::mountinfo::{Holder, holders, is_mounted};
use fathom_ground::system::is_root;

use super::entry::{Entry, device_points, image_path, mount_point};
use super::error::StackError;
use crate::blocks;
use crate::ground::loop_device;
use crate::ground::process::Process;
use crate::ground::tag::is_tag;
use crate::ground::watchdog::Watchdog;
use crate::guest;

/// How long one umount may take: it writes out everything that is dirty.
pub(crate) const UNMOUNT_LIMIT: Duration = Duration::from_secs(120);
/// How long a mount that is just being made may come in between.
const LATE: Duration = Duration::from_secs(1);
/// How long a server may take to write its log out once nothing is mounted any more.
const SERVER_END: Duration = Duration::from_secs(30);

/// What is done about a mount that is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyMount {
    /// How long a busy mount is tried again.
    pub wait: Duration,
    /// Whether it is then detached lazily.
    pub lazy: bool,
}

/// Takes an entry down from whatever state it is in: its trace instance, mounts at its mount point,
/// loop devices and image files of its tag, the `dir` directory, the entry itself. What is already
/// gone is fine.
///
/// # Errors
/// The entry names what Fathom has not made: then nothing is touched. The mount is busy or does not
/// go, the loop device stays, a file cannot be removed. With `lazy`, a busy mount is detached,
/// everything else is still undone, and the error tells of it.
pub(crate) fn undo(home: &Path, entry: &Entry, busy: BusyMount) -> Result<(), StackError> {
    entry.check(home).map_err(|problem| StackError::Disbelieved { path: home.to_path_buf(), problem })?;
    // Another process may have the number by now.
    let servers: Vec<Process> =
        entry.servers.iter().copied().filter(|process| process.runs(server::WORD)).collect();
    let watchdog = Watchdog::over(&servers);
    if let (true, Ok(instance)) = (is_tag(&entry.tag), blocks::instance_path(&entry.tag)) {
        gone(blocks::remove_instance(&instance), "remove", &instance)?;
    }
    let point = mount_point(home);
    let lazily = vacate(&point, busy)?;
    // Not before: what is busy stays as it is.
    guest::end_left_behind(&home.join(guest::STATE));
    gone(fs::remove_dir_all(home.join(guest::STATE)), "remove", &home.join(guest::STATE))?;
    let still_held = release_loops(&entry.tag, if lazily.is_some() { Duration::ZERO } else { busy.wait });
    let mut served = lazily.is_some();
    for device in device_points(home, entry) {
        if lazily.is_none() {
            written_out(|| loops_at_work(&device), busy.wait);
        }
        // Nobody uses it any more but a loop device that was detached lazily above; its server ends
        // with the mount.
        served |= unmount(&device, BusyMount { lazy: true, ..busy })?.is_some();
        gone(fs::remove_dir(&device), "remove", &device)?;
    }
    if !served {
        // The end of a server is what completes its log.
        for server in &servers {
            let _ = server.ended(SERVER_END);
        }
    }
    for end in [".img", ".log.img"] {
        gone(fs::remove_file(image_path(entry, end)), "remove", &image_path(entry, end))?;
    }
    for path in entry.unfinished() {
        gone(fs::remove_file(&path), "remove", &path)?;
    }
    if let Some(work) = &entry.work {
        gone(remove_when_quiet(work, busy.wait), "remove", work)?;
    }
    for name in ["entry.json.new", "entry.json", "owner"] {
        gone(fs::remove_file(home.join(name)), "remove", &home.join(name))?;
    }
    gone(fs::remove_dir(home), "remove", home)?;
    match (lazily, still_held) {
        (Some(holders), _) => Err(StackError::Busy { path: point, holders, lazily: true }),
        (None, Some(error)) => Err(error),
        (None, None) => logged(entry, watchdog.killed()),
    }
}

/// As [`undo`], where the owner was killed. In its directory it may have had guests of its own,
/// which `fathom cut` boots.
///
/// # Errors
/// As [`undo`].
pub(crate) fn undo_abandoned(home: &Path, entry: &Entry, busy: BusyMount) -> Result<(), StackError> {
    if let Some(work) = &entry.work {
        guest::end_left_behind(work);
    }
    undo(home, entry, busy)
}

/// Tells of a device whose server had to be killed, and of a log that is not complete.
fn logged(entry: &Entry, stood_still: bool) -> Result<(), StackError> {
    let killed = || "the device's server was killed, and the last operations are missing".to_owned();
    let external = entry.spec.operations.as_deref().filter(|_| entry.spec.log_mib.is_some()).map(external_of);
    for path in entry.spec.operations.iter().cloned().chain(external) {
        let problem = match log_end(&path) {
            Ok(End::Open) if !entry.servers.is_empty() => killed(),
            Ok(end @ (End::OperationsLost(_) | End::DataLost(_))) => end.to_string(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => error.to_string(),
            // Where it is gone, whoever took it knows. Without a server nothing was logged.
            _ => continue,
        };
        return Err(StackError::Log { path, problem });
    }
    if stood_still { Err(StackError::StoodStill) } else { Ok(()) }
}

/// Unmounts everything at `point` and removes it: an rmdir that succeeds proves that nothing is
/// mounted there, and that a mount whose caller was killed, and which is late, comes to nothing.
/// The holders when it was only possible lazily.
fn vacate(point: &Path, busy: BusyMount) -> Result<Option<Vec<Holder>>, StackError> {
    let start = Instant::now();
    let mut lazily = None;
    loop {
        lazily = unmount(point, busy)?.or(lazily);
        match fs::remove_dir(point) {
            // Mounted in between.
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < busy.wait.max(LATE) =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            removed => {
                gone(removed, "remove", point)?;
                return Ok(lazily);
            }
        }
    }
}

/// Unmounts everything at `point`; the holders when that was only possible lazily.
pub(crate) fn unmount(point: &Path, busy: BusyMount) -> Result<Option<Vec<Holder>>, StackError> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let umount = find_program("umount").unwrap_or_else(|| "umount".into());
    while is_mounted(point) {
        let error = match CommandLine::new(&umount, ["--".as_ref(), point.as_os_str()]).run(UNMOUNT_LIMIT) {
            // Mounts may be stacked: look again.
            Ok(_) => continue,
            // A modelled device that this user has mounted without root.
            Err(_) if !is_root() && fusermount(point, &[]).is_ok() => continue,
            Err(error) => error,
        };
        if !is_mounted(point) {
            break;
        }
        if start.elapsed() < busy.wait {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
            continue;
        }
        let holders = holders(point);
        if !busy.lazy {
            let busy = !holders.is_empty() || error.stderr.contains("busy");
            return Err(if busy {
                StackError::Busy { path: point.to_path_buf(), holders, lazily: false }
            } else {
                error.into()
            });
        }
        if is_root() || fusermount(point, &["-z"]).is_err() {
            CommandLine::new(&umount, ["--lazy".as_ref(), "--".as_ref(), point.as_os_str()])
                .run(UNMOUNT_LIMIT)?;
        }
        return Ok(Some(holders));
    }
    Ok(None)
}

/// Waits until what was dirty is on the device. Where that takes longer than umount may, the mount
/// is gone all the same, and the kernel goes on: as long as its loop devices are at work, and for
/// `wait` more, as somebody else may have them open. `at_work` tells it; none where there are no
/// loop devices any more. A server that stands still is the watchdog's affair.
fn written_out(mut at_work: impl FnMut() -> Option<bool>, wait: Duration) {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut since = Instant::now();
    while let Some(is_at_work) = at_work() {
        if is_at_work {
            since = Instant::now();
        } else if since.elapsed() >= wait {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether requests are under way on the loop devices that lie on a modelled device; none where
/// there are no such loop devices.
fn loops_at_work(device: &Path) -> Option<bool> {
    // Its name is of no other stack, and the state directory may be reached in several ways.
    let file = Path::new(device.file_name()?).join(FILE);
    let own = loop_device::attached().into_iter().filter(|(_, backing)| Path::new(backing).ends_with(&file));
    own.map(|(number, _)| loop_device::is_at_work(number)).reduce(|one, other| one || other)
}

/// Waits for the loop devices of a tag to go, detaches those that stay, and tells of one that
/// cannot be detached.
fn release_loops(tag: &str, wait: Duration) -> Option<StackError> {
    let mut error = None;
    for (number, backing) in loop_device::attached().into_iter().filter(|(_, file)| has_tag(file, tag)) {
        if loop_device::wait_detached(number, Some(tag), wait) {
            continue;
        }
        let detached = loop_device::detach(number, &format!("/.{tag}."));
        if detached.is_err() || !loop_device::wait_detached(number, Some(tag), Duration::from_millis(500)) {
            let holders = holders(Path::new(&format!("/dev/loop{number}")));
            error.get_or_insert(StackError::LoopHeld { number, backing, holders });
        }
    }
    error
}

/// Whether a backing file belongs to a tag: `…/.TAG.img` or `…/.TAG.log.img`.
fn has_tag(backing: &str, tag: &str) -> bool {
    is_tag(tag) && backing.contains(&format!("/.{tag}."))
}

/// Removes a directory with all that is in it. A server whose client was killed writes files until
/// it has ended itself; until then, and no longer than `wait`, the directory is tried again.
fn remove_when_quiet(path: &Path, wait: Duration) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && begin.elapsed() < wait => {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

fn gone(result: io::Result<()>, what: &'static str, path: &Path) -> Result<(), StackError> {
    match result {
        // A file system that is mounted read-only says so even of a name that does not exist.
        Err(e) if e.kind() != io::ErrorKind::NotFound && path.symlink_metadata().is_ok() => {
            Err(StackError::io(what, path)(e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a slow device took longer for what was dirty than umount may, and
    /// `stack down` said that the stack is down, and where its image is, while the kernel wrote to
    /// that for another minute.
    #[test]
    fn what_is_written_at_the_devices_own_pace_is_waited_for() {
        let begin = Instant::now();
        let wait = Duration::from_millis(50);
        // At work for four times as long as one that does nothing is waited for.
        let at_work = || (begin.elapsed() < wait * 4).then_some(true);
        written_out(at_work, wait);
        assert!(begin.elapsed() >= wait * 4);
        // Somebody else has it open; a moment between two requests is not the end.
        let begin = Instant::now();
        written_out(|| Some(false), wait);
        assert!(begin.elapsed() >= wait);
        written_out(|| Some(false), Duration::ZERO);
        written_out(|| None, Duration::from_secs(3600));
    }

    /// What happened: a run that SIGTERM ended left its directory and its entry behind, because the
    /// database server of its killed worker was still making files there.
    #[test]
    fn a_directory_that_a_server_still_writes_to_is_removed_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        let until = Instant::now() + Duration::from_millis(200);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let work = &work;
                scope.spawn(move || {
                    for number in 0.. {
                        let written = fs::write(work.join(format!("{writer}-{number}")), "x");
                        if written.is_err() || Instant::now() > until {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            remove_when_quiet(&work, Duration::from_secs(120)).unwrap();
        });
        assert!(!work.exists());
    }
}
