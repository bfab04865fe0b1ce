//! What this machine can do.

use serde::{Deserialize, Serialize};

/// Whether this machine can do something, and if not, the command that brings it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// `root`, `loop`, `ext4`, `block-trace`, `drop-caches`, `postgresql`, `browser` …
    pub name: String,
    /// Whether it works here, found by trying where that is cheap.
    pub present: bool,
    /// Version or place when present; the reason when absent.
    pub detail: String,
    /// The exact command that brings it; empty when present or when nothing can.
    pub remedy: String,
}
