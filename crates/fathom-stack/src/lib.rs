//! Storage stacks of Fathom: images, file systems, mounts, and what this machine can make.

mod spec;

pub use spec::{Capability, StackRecord, StackSpec};
