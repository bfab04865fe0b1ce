//! What runs in a guest: as its first process it answers about its disk; with an order it makes a
//! run.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::{Answer, DISK, LOG_DISK, Request};
use crate::findings::Findings;
use crate::found_file::files_below;
use crate::inspection::Inspection;
use crate::medium::{BLKFLSBUF, is_want};
use crate::recovery::find_at;
use crate::vfs;

/// The line to the host, and where the disk is mounted: in the guest's own `/dev`, where it
/// hides no file of the user's.
const LINE: &str = "/dev/ttyS0";
const POINT: &str = "/dev/fathom";
/// How long an umount may take.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(60);

/// The whole of `fathom cut-guest`.
#[must_use]
pub fn main() -> ExitCode {
    if std::process::id() != 1 {
        return match super::run::main() {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("{problem}");
                ExitCode::FAILURE
            }
        };
    }
    if let Err(problem) = prepare().and_then(|()| serve()) {
        // Nobody is left to tell of a complaint that cannot be made.
        let console = OpenOptions::new().write(true).open("/dev/console");
        let _ = console.and_then(|mut console| writeln!(console, "cut-guest: {problem}"));
    }
    loop {
        let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Mounts what programs expect. What is there already stays.
fn prepare() -> Result<(), String> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/dev/shm")] {
        // The directory's parent is in memory, or the host's own.
        let _ = fs::create_dir(at);
        match rustix::mount::mount(kind, at, kind, MountFlags::empty(), c"") {
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(error) => return Err(format!("mounting {kind} at {at}: {error}")),
        }
    }
    fs::create_dir_all(POINT).map_err(|error| format!("making {POINT}: {error}"))?;
    vfs::register().map_err(|error| error.to_string())
}

/// Answers until the line ends.
fn serve() -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{LINE}: {error}");
    let line = OpenOptions::new().read(true).write(true).open(LINE).map_err(wrong)?;
    let mut raw = tcgetattr(&line).map_err(|error| wrong(error.into()))?;
    raw.make_raw();
    tcsetattr(&line, OptionalActions::Now, &raw).map_err(|error| wrong(error.into()))?;
    let mut out = line.try_clone().map_err(wrong)?;
    let mut say = |answer: &Answer| {
        let mut text = serde_json::to_vec(answer).map_err(|error| error.to_string())?;
        text.push(b'\n');
        out.write_all(&text).map_err(wrong)
    };
    say(&Answer::Ready)?;
    let disk = File::open(DISK).map_err(|error| format!("{DISK}: {error}"))?;
    // That of an external log, if there is one.
    let disks: Vec<File> = std::iter::once(disk).chain(File::open(LOG_DISK).ok()).collect();
    let known = Findings::default();
    for text in BufReader::new(line).lines() {
        let text = text.map_err(wrong)?;
        let answer = match serde_json::from_str::<Request>(&text) {
            Ok(request) => look(&request, &disks, &known),
            Err(error) => Answer::Broken(format!("not understood: {error}")),
        };
        say(&answer)?;
    }
    Ok(())
}

fn look(request: &Request, disks: &[File], known: &Findings) -> Answer {
    // The host has changed the disks: whatever is kept of them is not what they hold.
    for disk in disks {
        // SAFETY: this ioctl takes no argument.
        if unsafe { libc::ioctl(disk.as_raw_fd(), BLKFLSBUF, 0) } != 0 {
            return Answer::Broken(format!("forgetting a disk: {}", std::io::Error::last_os_error()));
        }
    }
    let (flags, options) = flags_and_words(&request.options);
    let Ok(options) = std::ffi::CString::new(options) else {
        return Answer::Broken("a NUL byte in the mount options".into());
    };
    if let Err(error) = rustix::mount::mount(DISK, POINT, request.driver.as_str(), flags, options.as_c_str())
    {
        return refused(&request.driver, error);
    }
    let answer = if request.files {
        Answer::Files(files_below(Path::new(POINT)).map_err(|error| error.to_string()))
    } else {
        let alone = Findings::default();
        let known = if request.is_told_by_files { known } else { &alone };
        Answer::Found(find_at(&Path::new(POINT).join(&request.database), &request.subject, known))
    };
    match unmount() {
        Ok(()) => answer,
        Err(problem) => Answer::Broken(problem),
    }
}

/// What is said of a mount that failed: a kernel without the driver has not looked at the disk, nor
/// has one that was short of memory.
fn refused(driver: &str, error: rustix::io::Errno) -> Answer {
    match error {
        rustix::io::Errno::NODEV => Answer::Broken(format!(
            "it has no driver {driver}: `fathom stack kernel` builds one that has all that Fathom knows"
        )),
        error if is_want(error) => Answer::Found(Inspection::Unseen(format!("mounting {driver}: {error}"))),
        error => Answer::Unmountable(std::io::Error::from(error).to_string()),
    }
}

/// What mount(8) hands to the kernel as flags, and the words that are left for the driver: some of
/// the guest's, such as F2FS, refuse the others.
fn flags_and_words(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::NOATIME;
    let mut words = Vec::new();
    for option in options.split(',') {
        match option {
            "sync" => flags |= MountFlags::SYNCHRONOUS,
            "dirsync" => flags |= MountFlags::DIRSYNC,
            "lazytime" => flags |= MountFlags::LAZYTIME,
            "async" | "nolazytime" => {}
            word => words.push(word),
        }
    }
    (flags, words.join(","))
}

fn unmount() -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match rustix::mount::unmount(POINT, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if begin.elapsed() < UNMOUNT_LIMIT => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(format!("unmounting {POINT}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the run of `fathom cut --mount dirsync` on F2FS was mounted by mount(8),
    /// which makes a flag of the word; its states were mounted with the word, which F2FS does not
    /// know, and "cannot be mounted" was the verdict on all of them.
    #[test]
    fn what_is_a_flag_is_no_word_for_the_driver() {
        let (flags, words) = flags_and_words("sync,dirsync,background_gc=off,lazytime,async");
        let all = MountFlags::SYNCHRONOUS | MountFlags::DIRSYNC | MountFlags::LAZYTIME;
        assert_eq!((flags, words.as_str()), (MountFlags::NOATIME | all, "background_gc=off"));
        assert_eq!(flags_and_words(""), (MountFlags::NOATIME, String::new()));
    }

    /// What happened: a recording that was replayed with a guest kernel without its driver could be
    /// mounted in no state, and so it was said.
    #[test]
    fn a_driver_that_is_not_there_is_no_verdict() {
        use rustix::io::Errno;
        assert!(matches!(refused("f2fs", Errno::NODEV), Answer::Broken(said) if said.contains("f2fs")));
        assert!(matches!(refused("f2fs", Errno::INVAL), Answer::Unmountable(_)));
    }

    /// What happened: a mount that this machine or the guest had no memory for was a verdict,
    /// *cannot be mounted*, and the worst that there is: a promise was broken by want of memory.
    #[test]
    fn want_of_memory_is_no_verdict() {
        use rustix::io::Errno;
        for error in [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::INTR] {
            assert!(is_want(error));
            let said = refused("f2fs", error);
            let is_told = |words: &str| words.contains("mounting f2fs");
            let is_want_of = matches!(&said, Answer::Found(Inspection::Unseen(words)) if is_told(words));
            assert!(is_want_of, "{said:?}");
        }
        // What drivers say of what they find: damaged, no such file system, not to be read.
        for error in [Errno::INVAL, Errno::IO, Errno::NODATA, Errno::BADMSG, Errno::NOENT, Errno::ROFS] {
            assert!(!is_want(error) && matches!(refused("f2fs", error), Answer::Unmountable(_)));
        }
    }
}
