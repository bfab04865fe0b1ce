//! Storage stacks of Fathom: images, file systems, mounts, and what this machine can make.

mod cold;
mod floor;
mod spec;

pub use cold::{ColdMethod, cold};
pub use floor::{FLOOR_WRITE_BYTES, FloorError, FloorProbe, floor_probe};
pub use spec::{Capability, StackRecord, StackSpec};
