//! What a power cut leaves.
mod acknowledged;
mod content;
mod error;
mod history;


mod random;
mod states;
mod verdict;

pub use acknowledged::{Acknowledged, Script};
pub use error::CutError;
pub use history::{BLOCK_BYTES, Flush, History, Mark, Unit};

pub use states::{Behaviour, EXHAUSTIVE, Epoch, Keeps, State, States};
pub use verdict::{Class, Verdict};
