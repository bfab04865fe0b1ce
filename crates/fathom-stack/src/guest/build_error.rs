//! The kernel's source, and why no kernel was built.

use std::io;
use std::path::{Path, PathBuf};

use fathom_ground::command::CommandError;

use super::error::GuestError;

/// The package that brings the source, its version, the file's name and SHA-256: Debian's 6.12. The
/// sum is that of Debian's own signed list of packages (`apt-cache show linux-source-6.12`).
pub(super) const PACKAGE: &str = "linux-source-6.12";
pub(super) const VERSION: &str = "6.12.117-1~deb12u1";
pub(super) const SOURCE: &str = "linux-source-6.12_6.12.117-1~deb12u1_all.deb";
pub(super) const SOURCE_SHA256: &str = "e849faf31ca3555757f3a8877cb01af92122f744f75d1f3102734651c4e14703";
/// Where its authors have the same release, for machines without apt: an archive whose sum is not
/// known here, but stands in `sha256sums.asc` beside it.
const BY_HAND: &str = "https://cdn.kernel.org/pub/linux/kernel/v6.x/";

/// Free space that a build takes, MiB: the source unpacked and what is compiled of it.
pub(super) const SPACE_MIB: u64 = 2560;

/// Why no kernel was built, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Not on this machine.
    #[error("guest kernels run on x86-64 only, and this is {0}")]
    Machine(&'static str),
    /// No place to build in.
    #[error("there is no place for the kernel: set HOME, or FATHOM_CACHE_DIR to a directory of your own")]
    NoPlace,
    /// Programs are missing.
    #[error("to build a kernel, {missing} must be installed{}", if remedy.is_empty() { String::new() } else { format!(": {remedy}") })]
    Tools {
        /// Their names.
        missing: String,
        /// The command that brings them.
        remedy: String,
    },
    /// Not enough room.
    #[error("{}: a build takes {SPACE_MIB} MiB for a while, and {free_mib} MiB are free; set FATHOM_CACHE_DIR to a directory on another disk", path.display())]
    Space {
        /// Where.
        path: PathBuf,
        /// What is free.
        free_mib: u64,
    },
    /// Another build goes on.
    #[error("another `fathom stack kernel` is building in {}: wait until it has ended", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// No source.
    #[error(
        "the kernel's source cannot be had: {why}\n  With apt:    apt-get update, then again (it takes {PACKAGE} {VERSION})\n  \
         Without:     download linux-6.12.117.tar.xz and sha256sums.asc from {BY_HAND}\n               \
         and  fathom stack kernel --source linux-6.12.117.tar.xz --sha256 SUM\n               \
         SUM is what sha256sums.asc says of that archive: Fathom knows the sum of Debian's package alone"
    )]
    Source {
        /// What went wrong.
        why: String,
    },
    /// Not the file that was expected.
    #[error("{}: SHA-256 {found} instead of {SOURCE_SHA256}: the download is broken or another file; it was removed, try again", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// Not the file whose SHA-256 the user gave.
    #[error("{}: its SHA-256 is {found}, and --sha256 says {expected}: the download is broken, or another file; nothing was built of it", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it was to be.
        expected: String,
    },
    /// The source is not as the changes expect it.
    #[error("{}: {problem}. Changes are known for Linux 6.12; take that source", path.display())]
    Unlike {
        /// The file.
        path: PathBuf,
        /// What is not as expected.
        problem: String,
    },
    /// A step failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The compiler failed.
    #[error("the kernel does not compile: {said}\n  All of it: {}", log.display())]
    Compile {
        /// The last that was said.
        said: String,
        /// All that was said.
        log: PathBuf,
    },
    /// The kernel that was built does not run.
    #[error("the kernel was built, but does not run here: {0}")]
    Trial(GuestError),
    /// It lacks a file system.
    #[error("the kernel was built, but lacks {0}")]
    Lacks(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> BuildError + '_ {
    move |source| BuildError::Io { path: path.to_path_buf(), source }
}
