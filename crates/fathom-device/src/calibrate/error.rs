//! Why a device was not measured.

use std::io;
use std::path::PathBuf;

use super::sizes::SMALLEST_MIB;

/// Why a device was not measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// It must not be overwritten without being told so.
    #[error("{} {what}: what is on it would be overwritten. Give a directory on it, where a file of Fathom's own is measured, or add --destroy", path.display())]
    HoldsData {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// There is no such place.
    #[error("{}: does not exist. Is the card mounted? Give a directory on it, or the block device with --destroy", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// Too little is to be used of it.
    #[error("--size {size_mib} is too small to be random in: give {SMALLEST_MIB} or more")]
    Small {
        /// Asked for.
        size_mib: u64,
    },
    /// It cannot be measured.
    #[error("{}: {problem}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        problem: String,
    },
    /// Too little room.
    #[error("{}: {free_mib} MiB are free, and {size_mib} MiB are to be measured: use a smaller --size (at least {SMALLEST_MIB})", path.display())]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// Free for this user.
        free_mib: u64,
        /// Asked for.
        size_mib: u64,
    },
    /// An operation on it failed.
    #[error("{}: {what} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was done.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The user wants to stop.
    #[error("stopped; no model was written")]
    Stopped,
}
