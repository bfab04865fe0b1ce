//! The guest kernel: a Linux with the file systems that this machine's kernel lacks, run as a
//! process without root.
//!
//! It is user-mode Linux: the kernel itself as a program, whose system calls are the host's. Its
//! root is the host's files, read-only, so the same programs run in it; its disks are files of the
//! host, among them modelled devices. What reaches such a disk is what the kernel's real drivers
//! ask for, and takes the time that the disk takes. What a system call costs is another matter:
//! some 13 µs instead of 0.1, so processor time in a guest may not be compared with any other.
//!
//! [`Kernel`] is the cached kernel and how it is built, [`Guest`] one that runs, `agent` the first
//! process inside it.

pub mod agent;
mod build;
mod build_error;
mod clock;
mod error;
mod inherit;
pub(crate) mod keeper;
mod kernel;
mod layout;
mod machine;
mod owner;
mod patch;
mod protocol;
pub(crate) mod relay;
mod sha256;

pub(crate) use build::missing_tools;
pub use build::{Build, Step, trial};
pub use build_error::BuildError;
pub use error::GuestError;
pub(crate) use kernel::FILE_SYSTEMS;
pub use kernel::Kernel;
pub(crate) use layout::{BUILD, POINT, STATE};
pub(crate) use machine::{Beat, Disk};
pub use machine::{Guest, GuestTrace, KERNEL_WORDS, ProgramOutput, quotable};
pub use owner::tie_to_owner;
pub(crate) use protocol::milliseconds;

/// Ends what is left of a guest whose state is kept in `home`, and whoever held it.
pub(crate) fn end_left_behind(home: &std::path::Path) {
    // Most have none, and are not to look at all processes for that.
    if home.exists() {
        machine::end(home);
        keeper::end(home);
    }
}
