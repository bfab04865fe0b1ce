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
mod engines;
mod error;
mod explain;
mod explore;
mod fat;
mod findings;
mod fingerprint;
mod found_file;
pub mod guest;
mod history;
mod image;
mod inspection;
mod marks;
mod medium;
mod mmdb_store;
mod owner;
mod postgresql_store;
mod random;
mod record;
mod recovery;
mod safe;
mod scratch;
mod states;
mod subject;
mod verdict;
mod vfs;
mod work;
mod write_back;

pub use acknowledged::{AcknowledgedContents, Script};
pub use cell::{COMMITS_MAX, Outcome, RecordedRun, allowed, breaks, judge};
pub use centre_store::store_kind;
pub use check::Checker;
pub use engines::{MMDB, POSTGRESQL, SMSC, has_own_work};
pub use error::CutError;
pub use explain::{Explanation, explain};
pub use explore::{Exploration, Judge, Limits, PARTS, Tally, explore};
pub use fingerprint::Fingerprints;
pub use found_file::FoundFile;
pub use history::{BLOCK_BYTES, DeviceLog, Flush, History, Mark, Present, Unit};
pub use medium::FileSystem;
pub use mmdb_store::options as mmdb_options;
pub use owner::Owners;
pub use record::{Recording, Run, kept_promise, record};
pub use safe::{Safe, Side};
pub use scratch::Scratch;
pub use states::{Behaviour, EXHAUSTIVE, Epoch, InFlight, Keeps, State, States};
pub use subject::{Subject, has_server};
pub use verdict::{Class, Verdict};
