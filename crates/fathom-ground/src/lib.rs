//! What Fathom's crates ask of the system they run on. It knows no stack, no device and no
//! database.

pub mod command;
pub mod ends;
pub mod fnv;
pub mod fuse_mount;
pub mod lines;
pub mod mountinfo;
pub mod params;
pub mod pipe;
pub mod processes;
pub mod program;
pub mod sidecar;
pub mod signals;
pub mod system;
