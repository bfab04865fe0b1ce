//! Storage stacks of Fathom: images, file systems, mounts, and what this machine can make.
//!
//! ```no_run
//! use fathom_stack::{Stack, StackSpec, floor_probe};
//!
//! let spec = StackSpec { filesystem: "ext4".into(), mount: "data=journal".into(), ..StackSpec::default() };
//! let stack = Stack::up(&spec, "my measurement")?;
//! println!("{:?}", floor_probe(stack.path(), 200).map(|floor| floor.median_ns));
//! stack.down()?;
//! # Ok::<(), fathom_stack::StackError>(())
//! ```
//!
//! What a stack makes is written down before it is made ([`Stacks`]), guarded by a process that outlives its owner, and
//! swept when even that was killed ([`leftovers()`], [`down_all`]).

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod attribution;
pub mod blocks;
mod check;
mod claim;
mod cold;
mod command;
mod companion;
mod content;
pub mod device;
mod distribution;
mod doctor;
mod environment;
mod error;
mod filesystem;
mod floor;
mod given;
mod guard;
pub mod guest;
mod image;
mod leftovers;
pub mod lines;
mod loop_device;
mod mountinfo;
pub mod named;
mod noise;
pub mod pipe;
mod process;
pub mod signals;
mod spec;
mod stack;
pub mod suggest;
mod trust;
mod volatile;
mod words;

pub use check::{KnownFileSystem, SpecProblem};
pub use cold::{ColdMethod, cold};
pub use command::{CommandError, CommandProblem, shell_line};
pub use doctor::{companions, doctor, packages, sqlcipher_library};
pub use environment::{directory_environment, environment};
pub use error::StackError;
pub use filesystem::{Availability, available_filesystems, filesystems_in_guest, known_filesystems};
pub use floor::{FLOOR_WRITE_BYTES, FloorError, FloorProbe, floor_probe};
pub use given::{filesystem_in, holds};
pub use leftovers::{Leftover, Report, down_all, leftovers, sweep};
pub use loop_device::LoopDevice;
pub use mountinfo::Holder;
pub use noise::{Noise, NoiseMeter, load_warning};
pub use process::{Rescue, STOOD_STILL};
pub use spec::{Capability, StackRecord, StackSpec};
pub use stack::{BlockDevice, Stack, Stacks, device_model, trusted_state};

/// Whether this process is root and may so mount file systems, have loop devices, and use root's directories: root's user id, and not
/// that of a user namespace (`unshare -Ur`, a rootless container), which is an ordinary user outside of it.
#[must_use]
pub fn is_root() -> bool {
    // Without /proc nobody tells, and what root may not do after all fails with its own reason.
    rustix::process::geteuid().is_root() && !in_user_namespace()
}

/// Whether this process is in a user namespace other than the machine's own, as user_namespaces(7) has it: there all ids are their own.
pub(crate) fn in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|text| text.split_whitespace().ne(["0", "0", "4294967295"]))
}

/// The path of the program that runs. Without `/proc`, which a chroot may lack, the one that it was started by.
///
/// # Errors
/// The system tells neither.
pub fn own_program() -> std::io::Result<std::path::PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    std::env::current_exe().or_else(|error| {
        // SAFETY: getauxval takes an integer; for AT_EXECFN it gives 0 or the address of a C string that lies above the stack as long as
        // the process lives.
        let name = unsafe {
            let at = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
            if at.is_null() { c"" } else { std::ffi::CStr::from_ptr(at) }
        };
        let path = std::path::absolute(std::ffi::OsStr::from_bytes(name.to_bytes()));
        path.ok().filter(|it| it.is_file()).ok_or(error)
    })
}

/// CPUs of the machine that are online, whatever this process is pinned to.
pub(crate) fn online_cpus() -> usize {
    // SAFETY: sysconf takes no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

#[cfg(test)]
pub(crate) fn can_loop() -> bool {
    is_root() && filesystem::no_loop().is_none()
}
