//! Entries: what a stack consists of, written down before it is made, so that it can always be
//! found and undone.
//!
//! The state directory holds one directory a stack:
//! ```text
//! STATE/stacks/ID/entry.json   what the stack consists of (Entry)
//! STATE/stacks/ID/owner        locked (flock) by the owner as long as it lives
//! STATE/stacks/ID/mnt/         mount point
//! STATE/stacks/ID/state/       what a guest kernel keeps while it runs, and what sidecars say
//! STATE/stacks/ID/TAG.device/  where a modelled device is served, if the stack has one
//! STATE/stacks/ID/TAG.log-device/  and that of its external log
//! STATE/lock                   taken to make an entry or to judge one
//! ```
//! An entry whose `owner` can be locked belongs to nobody any more, unless it is a named stack that
//! was completed: those outlive the command that made them. [`undo`] takes any entry down, from
//! whatever state it was left in; success, failure, drop and the sweep of leftovers all end there.
//!
//! What an entry says is removed with all its contents, so it is believed in what it can prove only
//! ([`Entry::check`]): the list must be this user's or root's own ([`trust`]), and each path must
//! be what Fathom itself would have made.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use fathom_device::is_log;
use fathom_ground::command::file_name;
use fathom_ground::system::is_root;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::StackError;
use super::trust;
use crate::ground::machine_mark::MachineMark;
use crate::ground::process::Process;
use crate::ground::tag::{is_tag, label_in};
use crate::guest;
use crate::spec::{StackRecord, StackSpec};

/// Largest entry, bytes; those of stacks have some KiB.
const LARGEST_ENTRY: u64 = 1 << 20;

/// What a stack consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// What the caller called it.
    pub label: String,
    /// Name of a stack for the user's own use.
    pub name: Option<String>,
    /// A named stack is complete and outlives its maker.
    pub kept: bool,
    /// What was asked for.
    pub spec: StackSpec,
    /// What was made, once it is.
    pub record: Option<StackRecord>,
    /// Process that made it.
    pub owner_pid: u32,
    /// Names of image files and `dir` directories begin with this; it holds label, process id and
    /// start time.
    pub tag: String,
    /// Directory of images, or of the `dir` directory.
    pub directory: PathBuf,
    /// The directory of a `dir` stack, to be removed with all its contents.
    pub work: Option<PathBuf>,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// Serve its modelled devices.
    #[serde(default)]
    pub servers: Vec<Process>,
    /// Number of the new file that is to keep the file system, by which it is known again.
    #[serde(default)]
    pub keep_inode: Option<u64>,
    /// The process namespace of [`Entry::owner_pid`], where it is known: in another one the number
    /// is another's, or nobody's.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// The machine that it was made on: others may have the same home.
    #[serde(default)]
    pub machine: Option<MachineMark>,
}

impl Entry {
    /// Reads the entry of a directory.
    ///
    /// # Errors
    /// It is not there, or not whole.
    pub fn read(home: &Path) -> io::Result<Entry> {
        // Entries of other state directories are looked at, too, and those may be anybody's: a pipe
        // is not waited for, nor is a device read to its end.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(home.join("entry.json"))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let mut text = Vec::new();
        file.take(LARGEST_ENTRY).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// As [`Entry::read`], of an entry that is to be acted upon.
    ///
    /// # Errors
    /// As [`Entry::read`]; where it is not believed, one that [`is_disbelief`] knows, with the
    /// reason.
    pub fn read_trusted(home: &Path) -> io::Result<Entry> {
        let refused = |problem: String| io::Error::new(io::ErrorKind::PermissionDenied, problem);
        trust::home(home)?;
        let entry = Entry::read(home)?;
        let path = home.join("entry.json");
        trust::file(&path, &fs::symlink_metadata(&path)?).map_err(refused)?;
        entry.check(home).map_err(refused)?;
        Ok(entry)
    }

    /// Whether each path that is removed with this entry is one that Fathom makes, and what is
    /// there is what Fathom has made.
    ///
    /// # Errors
    /// In words: which is not, and why.
    pub fn check(&self, home: &Path) -> Result<(), String> {
        let here = file_name(home);
        let expected = self.name.as_ref().map_or_else(|| self.tag.clone(), |name| format!("named-{name}"));
        // One that was never written has made nothing but its directory.
        let unwritten =
            self.name.is_none() && self.work.is_none() && self.servers.is_empty() && self.directory == home;
        if here != expected || !(is_tag(&self.tag) || unwritten) {
            return Err(format!(
                "it is the entry of {expected:?} with the tag {:?}, and so not of this place",
                self.tag
            ));
        }
        let plain =
            |path: &Path| path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
        for path in [&self.directory].into_iter().chain(&self.unfinished()) {
            if !plain(path) && path != home {
                return Err(format!("it names {}, which is no whole path", path.display()));
            }
        }
        if let Some(work) = &self.work {
            self.check_work(work)?;
        }
        self.unfinished().iter().try_for_each(|path| self.check_file(path))
    }

    fn check_work(&self, work: &Path) -> Result<(), String> {
        let shown = work.display();
        if !self.spec.place.is_directory() || *work != self.directory.join(&self.tag) {
            return Err(format!("it names {shown} as its working directory, which Fathom has not made"));
        }
        let Ok(about) = fs::symlink_metadata(work) else { return Ok(()) };
        // Where files have no owners, all that is made belongs to whom the directory belongs to.
        let of_directory = || fs::metadata(&self.directory).is_ok_and(|above| above.uid() == about.uid());
        if !about.is_dir() || !(trust::is_ours(&about) || of_directory()) {
            return Err(format!(
                "it names {shown}, which is no directory of this user's (id {})",
                about.uid()
            ));
        }
        Ok(())
    }

    /// Whether a file that goes with a stack that was not completed is the one that was made for
    /// it.
    fn check_file(&self, path: &Path) -> Result<(), String> {
        let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
        let is_its_own = if self.spec.keep.as_deref() == Some(path) {
            self.keep_inode == Some(about.ino())
        } else {
            // The data is told by the log that it lies beside, which is removed after it.
            self.spec.operations.as_deref().is_some_and(is_log)
        };
        if about.is_file() && is_its_own {
            return Ok(());
        }
        let shown = path.display();
        Err(format!(
            "it names the file {shown}, which is another than was made for it: move that one elsewhere first"
        ))
    }

    /// Stands for an entry whose maker died before it was written: nothing but the entry's
    /// directory can exist then.
    pub fn placeholder(home: &Path) -> Entry {
        let tag = file_name(home);
        let label = label_in(&tag).or_else(|| tag.strip_prefix("named-")).unwrap_or(&tag).to_owned();
        Entry {
            label,
            name: None,
            kept: false,
            spec: StackSpec::default(),
            record: None,
            owner_pid: 0,
            tag,
            directory: home.to_path_buf(),
            work: None,
            created_ms: 0,
            servers: Vec::new(),
            keep_inode: None,
            pid_namespace: None,
            machine: None,
        }
    }

    /// Whether it stands for what was never written down ([`Entry::placeholder`]).
    pub fn is_placeholder(&self) -> bool {
        self.owner_pid == 0
    }

    /// Whether its owner's number means here what it meant there.
    pub fn is_of_this_namespace(&self) -> bool {
        self.pid_namespace.is_none_or(|of| pid_namespace().is_none_or(|here| here == of))
    }

    /// Whether it is of another machine that has the same home. Not every file system that they
    /// share (of a virtual machine's host, say, or NFS with `nolock`) tells one of the other's locks.
    pub fn is_of_another_machine(&self) -> bool {
        self.machine.is_some_and(|machine| machine.is_elsewhere(MachineMark::here()))
    }

    /// Files that stay with a complete stack, and go with one that is not: the command may be given
    /// again as it was.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            self.spec.logs().into_iter().rev().chain(self.spec.keep.clone()).collect();
        // One without a name is never kept: its log is complete when it is taken down.
        all.retain(|_| self.name.is_some() && !self.kept);
        all
    }

    /// Writes the entry, whole or not at all.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn write(&self, home: &Path) -> Result<(), StackError> {
        let (path, new) = (home.join("entry.json"), home.join("entry.json.new"));
        let text = serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .map_err(StackError::io("write", &path))?;
        // Others may read it, to see whose a loop device is, and never write it, whatever umask
        // says.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let written = options.open(&new).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&new, &path)).map_err(StackError::io("write", &path))
    }
}

/// Whether an entry could be read and is not believed, by the error of [`Entry::read_trusted`].
pub(crate) fn is_disbelief(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// Whether an entry's owner is gone; if so, the lock that keeps other sweeps away. Call with the
/// state locked.
pub(crate) fn abandoned(home: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(home.join("owner")) {
        Ok(owner) => {
            rustix::fs::flock(&owner, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(owner)
        }
        Err(e) => {
            if e.kind() == io::ErrorKind::NotFound {
                // Entries are made with the state locked, so this one is just being removed, or its
                // remover died on the last two steps. They do no harm to either: an rmdir takes
                // nothing that is in use.
                let _ = fs::remove_dir_all(home.join(guest::STATE));
                let _ = fs::remove_dir(mount_point(home)).and_then(|()| fs::remove_dir(home));
                let _ = fs::remove_dir(home);
            }
            None
        }
    }
}

/// Unlocks at once. Closing alone would not: a child that another thread is just starting has a
/// copy of the descriptor until its exec.
pub(crate) fn let_go(lock: &File) {
    // An unlock of a valid descriptor does not fail; if it did, the lock would end with the
    // descriptor's last copy.
    let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
}

/// Every entry's directory.
pub(crate) fn homes(state: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(stacks_in(state)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Takes the state's lock, making the state directory where it is missing.
///
/// # Errors
/// It cannot be made or written, or others could have written it ([`trust::state`]).
pub(crate) fn lock_state(state: &Path) -> Result<File, StackError> {
    let stacks = stacks_in(state);
    trust::state(state)?;
    // Root's stacks may have to be entered by the users of servers, a user's own by nobody else.
    let mode = if is_root() { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(&stacks).map_err(|e| StackError::Directory {
        path: state.to_path_buf(),
        problem: format!(
            "cannot keep the list of stacks here: {e}; set FATHOM_STATE_DIR to a directory you can write"
        ),
    })?;
    // Again: somebody may have been faster.
    trust::state(state)?;
    let path = state.join("lock");
    let lock = open_lock(&path).map_err(StackError::io("open", &path))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .map_err(io::Error::from)
        .map_err(StackError::io("lock", &path))?;
    Ok(lock)
}

/// Path that an image has for the moment between being made and losing its name.
pub(crate) fn image_path(entry: &Entry, end: &str) -> PathBuf {
    entry.directory.join(image_name(&entry.tag, end))
}

/// Name of an image: hidden, and ending in `.img` or `.log.img`.
pub(crate) fn image_name(tag: &str, end: &str) -> String {
    format!(".{tag}{end}")
}

/// Where an entry's stack is mounted.
pub(crate) fn mount_point(home: &Path) -> PathBuf {
    home.join("mnt")
}

/// Where the modelled devices of an entry are served: the file system's, then its external log's.
/// Their names hold the tag, by which loop devices on them are found.
pub(crate) fn device_points(home: &Path, entry: &Entry) -> Vec<PathBuf> {
    let spec = &entry.spec;
    let on_models = spec.device.is_some();
    let all = [(on_models, "device"), (on_models && spec.log_mib.is_some(), "log-device")];
    all.into_iter()
        .filter(|point| point.0)
        .map(|(_, end)| home.join(format!("{}.{end}", entry.tag)))
        .collect()
}

/// The directory of all entries, whole and without links where it is there: so the kernel names
/// what is mounted below it.
pub(crate) fn stacks_in(state: &Path) -> PathBuf {
    state.canonicalize().unwrap_or_else(|_| state.to_path_buf()).join("stacks")
}

/// Opens or makes a file to be locked: nobody else may open it, for who can read it can lock it.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

pub(crate) fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|about| about.ino())
}

/// The process namespace that this process is in, where /proc tells.
pub(crate) fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|about| about.ino())
}
