//! What can go wrong with a stack: what, where, and what to do about it.

use std::io;
use std::path::PathBuf;

use fathom_ground::command::{CommandError, shell_line};
use fathom_ground::mountinfo::Holder;

use crate::ground::watchdog::STOOD_STILL;
use crate::guest::GuestError;
use crate::spec::Problem;

/// What else there is to do where an image does not fit; not every command has that.
pub const SMALLER_IMAGE: &str = ", or a smaller `size_mib`";

/// Why a stack could not be brought up or taken down. Whatever had been made before an error is
/// undone.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// An image can only be mounted by root.
    #[error(
        "file system {filesystem} needs root, because it is mounted from an image: run with sudo, or use `dir` (a directory where you are)"
    )]
    NeedsRoot {
        /// As the specification names it.
        filesystem: String,
    },
    /// The file system is known, but this machine lacks something for it.
    #[error("this machine cannot make {filesystem}: {reason}{}", remedy_shown(.remedy))]
    Unavailable {
        /// As the specification names it.
        filesystem: String,
        /// What is missing.
        reason: String,
        /// The command that brings it; empty when none does.
        remedy: String,
    },
    /// The specification asks for something that cannot be.
    #[error("stack: {field}: {problem}")]
    Spec {
        /// The field of [`crate::StackSpec`].
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The directory for image or work cannot be used.
    #[error("directory {}: {problem}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// There is no space left in the directory.
    #[error(
        "directory {}: no space left (or a quota is used up): free some space there, or give another directory{}",
        path.display(), if *.has_image { SMALLER_IMAGE } else { "" }
    )]
    Full {
        /// The directory.
        path: PathBuf,
        /// Whether it was to take an image, which could be a smaller one.
        has_image: bool,
    },
    /// The image does not fit.
    #[error(
        "no space for an image of {} MiB in {}: {} MiB are free; free some space there, or give another directory{} (at least {min_mib} for {filesystem})",
        needed_bytes.div_ceil(1 << 20), path.display(), free_bytes >> 20, SMALLER_IMAGE
    )]
    NoSpace {
        /// Directory of the image.
        path: PathBuf,
        /// Size of all images of the stack, bytes.
        needed_bytes: u64,
        /// Free for this user, bytes.
        free_bytes: u64,
        /// As the specification names it.
        filesystem: String,
        /// The file system's smallest size, MiB.
        min_mib: u64,
    },
    /// The guest kernel does not come up, or has ended.
    #[error(transparent)]
    Guest(GuestError),
    /// mkfs, mount or umount failed or hung.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A mount was made but is not what was asked for.
    #[error("{}: {problem}", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What is written down about a stack is not believed.
    #[error("the entry {} is left as it is, and so is what it names: {problem}. If it is not needed, remove it by hand: `rm -r {}`", path.display(), shell_line([path.to_string_lossy()]))]
    Disbelieved {
        /// The entry's directory.
        path: PathBuf,
        /// What it says that Fathom would not have written.
        problem: String,
    },
    /// Processes still use the mount.
    #[error(
        "{} is busy: {}{}", path.display(), held(.holders),
        if *.lazily { "; detached lazily, its space and loop device come free when they end" } else { ": end them and try again" }
    )]
    Busy {
        /// The mount point.
        path: PathBuf,
        /// Who uses it, as far as this user may see.
        holders: Vec<Holder>,
        /// Whether it was detached all the same.
        lazily: bool,
    },
    /// The loop device stayed attached after the unmount.
    #[error("/dev/loop{number} is still attached to {backing}: {}; `losetup -d /dev/loop{number}` frees it", held(.holders))]
    LoopHeld {
        /// Number of the device.
        number: u32,
        /// Its backing file.
        backing: String,
        /// Who has it open.
        holders: Vec<Holder>,
    },
    /// A named stack of that name is already up.
    #[error("stack {name:?} is already up at {}; `fathom stack down {name}` removes it", path.display())]
    NameTaken {
        /// The name.
        name: String,
        /// Its mount point.
        path: PathBuf,
    },
    /// No named stack of that name is up.
    #[error("no stack named {name:?} is up{}", if up.is_empty() { String::from(" (none is)") } else { format!("; up: {}", up.join(", ")) })]
    NoSuchName {
        /// The name.
        name: String,
        /// Names that are up.
        up: Vec<String>,
    },
    /// Another process is at work on the named stack.
    #[error(
        "stack {name:?} is just being brought up or taken down by another command: try again when that has ended"
    )]
    InProgress {
        /// The name.
        name: String,
    },
    /// A name that cannot be a file's and a mount's name.
    #[error(
        "stack name {name:?}: use 1 to 32 letters, digits, '-', '_' or '.', beginning with a letter or digit"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// A modelled device did not answer any more.
    #[error("{STOOD_STILL}, so that nobody waits for it for ever; what was under way on the device is lost")]
    StoodStill,
    /// The log of operations lacks something.
    #[error(
        "the stack is down, but its log of operations {} is not complete: {problem}; `fathom stack operations` prints what is in it",
        path.display()
    )]
    Log {
        /// The log.
        path: PathBuf,
        /// What it lacks and why.
        problem: String,
    },
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl From<Problem> for StackError {
    fn from(problem: Problem) -> StackError {
        StackError::Spec { field: problem.field, problem: problem.to_string() }
    }
}

/// Why there is no stack, or why its floor is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct StackFailure {
    /// In words, with what to do.
    pub problem: String,
    /// Whether there was no space left: where it was to be made, or on it. Or a quota was used up.
    pub is_full_disk: bool,
}

impl From<String> for StackFailure {
    fn from(problem: String) -> StackFailure {
        StackFailure { problem, is_full_disk: false }
    }
}

impl From<StackError> for StackFailure {
    fn from(error: StackError) -> StackFailure {
        StackFailure { problem: error.to_string(), is_full_disk: error.is_full_disk() }
    }
}

impl StackError {
    /// Whether a disk had no space left for it, or a quota was used up.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        match self {
            StackError::Full { .. } | StackError::NoSpace { .. } => true,
            StackError::Io { source, .. } => fathom_ground::system::is_full_disk(source),
            _ => false,
        }
    }

    /// For `map_err`: what was being done to which path.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> StackError {
        let path = path.into();
        move |source| StackError::Io { what, path, source }
    }
}

fn remedy_shown(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!("; `{remedy}` brings it") }
}

fn held(holders: &[Holder]) -> String {
    const SHOWN: usize = 3;
    if holders.is_empty() {
        return "by whom cannot be seen".into();
    }
    let mut text = holders.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if holders.len() > SHOWN {
        text.push_str(&format!(" and {} more", holders.len() - SHOWN));
    }
    text
}
