//! What stands below everything: names and marks, images, loop devices, processes, packages.

pub mod content;
pub mod distribution;
pub mod identity;
pub mod image;
pub mod loop_device;
pub mod machine_mark;
pub mod process;
pub mod tag;
pub mod watchdog;
