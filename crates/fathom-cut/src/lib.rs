//! What a power cut leaves.
//!
//! A device's operation log with marks ([`History`]) tells what was safe at each moment and what
//! was in flight; [`States`] numbers what a power cut can leave of that; a [`Checker`] mounts a
//! state with the kernel's own driver, has SQLite recover the database and compares what it holds
//! with what had been acknowledged ([`AcknowledgedContents`]); [`explore()`] does so for many and counts;
//! an [`explanation`](explain()) names the fewest blocks that make a verdict, and whose they are.

mod acknowledged;
mod capture;
mod cell;
mod centre_store;
mod check;
mod content;
mod error;
mod explain;
mod explore;
mod findings;
mod fingerprint;
pub mod guest;
mod history;
mod image;
mod medium;
mod mmdb_store;
mod owner;
mod postgresql_store;
mod random;
mod record;
mod states;
mod verdict;
mod vfs;

pub use acknowledged::{AcknowledgedContents, Script};
pub use cell::{COMMITS_MAX, Outcome, RecordedRun, breaks, judge};
pub use centre_store::store_kind;
pub use check::{Checker, FoundFile, Subject};
pub use error::CutError;
pub use explain::{Explanation, explain};
pub use explore::{Exploration, Judge, Limits, PARTS, Tally, explore};
pub use fingerprint::Fingerprints;
pub use history::{BLOCK_BYTES, Flush, History, Mark, Present, Unit};
pub use medium::FileSystem;
pub use mmdb_store::options as mmdb_options;
pub use owner::Owners;
pub use record::{MMDB, POSTGRESQL, Recording, Run, SMSC, has_own_work, has_server, record};
pub use states::{Behaviour, EXHAUSTIVE, Epoch, InFlight, Keeps, State, States};
pub use verdict::{Class, Verdict};
