//! A state directory and an image directory of a test's own, and the assertion that nothing is left
//! of either.

#![allow(clippy::unwrap_used, dead_code, missing_docs, reason = "each test binary uses a part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathom_stack::{StackSpec, Stacks};

pub struct Place {
    /// Holds all of it, on the disk: tmpfs would let direct I/O and syncs go by untested.
    pub root: tempfile::TempDir,
    pub images: PathBuf,
    pub state: PathBuf,
}

/// Stacks with a guard, which this program cannot be. A child that another test is just starting
/// has a copy of what is open on a mount, or of its loop device, until its exec, which may take
/// seconds on a busy machine: what has to go is waited for longer than a user would.
pub fn stacks_at(state: &Path) -> Stacks {
    Stacks::at(state)
        .with_program(env!("CARGO_BIN_EXE_fathom-sidecar").into())
        .with_busy_limit(Duration::from_secs(60))
}

impl Place {
    pub fn new() -> Place {
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (images, state) = (root.path().join("images"), root.path().join("state"));
        fs::create_dir(&images).unwrap();
        Place { root, images, state }
    }

    pub fn stacks(&self) -> Stacks {
        stacks_at(&self.state)
    }

    pub fn spec(&self, filesystem: &str) -> StackSpec {
        StackSpec {
            place: filesystem.into(),
            size_mib: if filesystem == "xfs" { 300 } else { 128 },
            directory: Some(self.images.clone()),
            ..StackSpec::default()
        }
    }

    /// What of this place still exists: mounts, loop devices, image files, entries.
    pub fn left(&self) -> Vec<String> {
        let root = self.root.path().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut left: Vec<String> = mounts.lines().filter(|l| l.contains(root)).map(str::to_owned).collect();
        for device in fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(root) {
                left.push(format!("{}: {backing}", device.path().display()));
            }
        }
        for directory in [&self.images, &self.state.join("stacks")] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                left.push(entry.path().display().to_string());
            }
        }
        left
    }

    #[track_caller]
    pub fn assert_nothing_left(&self) {
        assert_eq!(self.left(), Vec::<String>::new());
    }

    /// As [`Place::assert_nothing_left`], but it may take a moment (another process cleans up).
    #[track_caller]
    pub fn assert_nothing_left_within(&self, limit: Duration) {
        wait_until(limit, || self.left().is_empty());
        self.assert_nothing_left();
    }
}

/// Held while a test makes stacks without an owner or looks at the machine as a whole: such tests
/// run one after the other, in whatever test binary and whichever checkout they are, for a machine
/// has one list of mounts and of loop devices.
pub struct Alone(fs::File);

pub fn alone() -> Alone {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    // Not where TMPDIR says: each run of all tests has a directory of its own.
    let directory = if Path::new("/tmp").is_dir() { "/tmp".into() } else { std::env::temp_dir() };
    let path = directory.join(format!("fathom-tests-{user}.lock"));
    let file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    // Each call opens the file anew, so that threads of one binary exclude each other, too. A copy
    // in a child that is just being started is closed by its exec.
    file.lock().unwrap();
    Alone(file)
}

impl Drop for Alone {
    fn drop(&mut self) {
        // At once, whoever has a copy.
        let _ = self.0.unlock();
    }
}

pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Whether images can be mounted here; prints why not.
pub fn can_mount() -> bool {
    let ext4 = fathom_stack::available_filesystems().into_iter().find(|f| f.filesystem == "ext4").unwrap();
    if !ext4.present {
        println!("skipped: {}", ext4.detail);
    }
    ext4.present
}

pub fn available(filesystem: &str) -> bool {
    let found = fathom_stack::available_filesystems().into_iter().find(|f| f.filesystem == filesystem);
    match found {
        Some(f) if f.present => true,
        Some(f) => {
            println!("skipped {filesystem}: {} ({})", f.detail, f.remedy);
            false
        }
        None => panic!("{filesystem} is not known"),
    }
}

/// A shell script under this name in a directory that is looked into for tools first.
///
/// A process of its own writes it: a file that this one has open for writing is, for a moment, open
/// in every child that another test forks just then, and is not executed meanwhile ("Text file
/// busy").
pub fn script(directory: &Path, name: &str, text: &str) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(directory.join(name))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    write!(shell.stdin.take().unwrap(), "#!/bin/sh\n{text}\n").unwrap();
    assert!(shell.wait().unwrap().success());
}
