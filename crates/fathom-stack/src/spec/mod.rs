//! What may be asked of a stack, what this machine has for it, and the one judge of both.

mod capability;
mod check;
mod filesystem;
mod given;
mod keys;
mod machine;
mod place;
mod plain;
mod problem;
mod record;
mod stack_spec;
mod table;
mod words;

pub use capability::Capability;
pub use filesystem::FileSystem;
pub(crate) use given::bytes_of;
pub use given::filesystem_in;
pub use keys::STACK_KEYS;
pub(crate) use machine::no_loop;
pub use machine::{Availability, Machine, available_filesystems, filesystems_in_guest};
pub use place::Place;
pub use problem::Problem;
pub use record::{StackRecord, image_state};
pub use stack_spec::StackSpec;
