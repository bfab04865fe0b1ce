//! Storage stacks of Fathom: images, file systems, mounts, and what this machine can make.
//!
//! ```no_run
//! use fathom_stack::{Stack, StackSpec, floor_probe};
//!
//! let mount = Some("data=journal".into());
//! let spec = StackSpec { place: "ext4".into(), mount, ..StackSpec::default() };
//! let stack = Stack::up(&spec, "my measurement")?;
//! println!("{:?}", floor_probe(stack.path(), 200).map(|floor| floor.median_ns));
//! stack.down()?;
//! # Ok::<(), fathom_stack::StackError>(())
//! ```
//!
//! What a stack makes is written down before it is made ([`Stacks`]), guarded by a process that
//! outlives its owner, and swept when even that was killed ([`leftovers()`], [`down_all`]).

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod attribution;
pub mod blocks;
mod ground;
pub mod guest;
mod instruments;
mod spec;
mod stacks;

pub use ground::distribution::SOME_PACKAGES;
pub use ground::loop_device::{BlockDevice, LoopDevice};
pub use ground::watchdog::{STOOD_STILL, Watchdog};
pub use instruments::ageing::{Ageing, AgeingReport};
pub use instruments::cold::{ColdMethod, cold};
pub use instruments::environment::{directory_environment, environment};
pub use instruments::floor::{FLOOR_WRITE_BYTES, FloorError, FloorProbe, floor_probe};
pub use instruments::noise::{Noise, NoiseMeter, load_warning};
pub use spec::{
    Availability, Capability, FileSystem, Machine, Place, Problem, STACK_KEYS, StackRecord, StackSpec,
    available_filesystems, filesystem_in, filesystems_in_guest, image_state,
};
pub use stacks::{
    Leftover, Report, SMALLER_IMAGE, Stack, StackError, StackFailure, Stacks, companions, doctor, down_all,
    free_bytes, guard, is_state_writable, keeper, leftovers, named_stack, packages, sqlcipher_library, sweep,
    trusted_state,
};

#[cfg(test)]
pub(crate) fn can_loop() -> bool {
    fathom_ground::system::is_root() && spec::no_loop().is_none()
}
