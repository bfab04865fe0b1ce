//! Stacks: written down, made, guarded, used, undone.

mod claim;
mod config;
mod devices;
mod doctor;
mod entry;
mod error;
pub mod guard;
mod haste;
mod images;
mod in_guest;
pub mod keeper;
mod leftovers;
mod mkfs;
mod mounted;
pub mod named_stack;
mod place;
mod remarks;
mod stack;
mod teardown;
mod trust;

pub use config::{Stacks, is_state_writable, trusted_state};
pub use doctor::{companions, doctor, packages, sqlcipher_library};
pub use error::{SMALLER_IMAGE, StackError, StackFailure};
pub use images::free_bytes;
pub use leftovers::{Leftover, Report, down_all, leftovers, sweep};
pub use stack::Stack;
