//! The worker protocol: one JSON object per line on the worker's stdout.

use std::collections::BTreeMap;

use fathom_workload::engine::EngineInfo;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample};
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;

/// The version of [`Order`] and [`Event`]. A worker on another host may be older or newer than the one who asks.
pub const PROTOCOL: u32 = 1;

/// What the worker is asked, one JSON object on stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Protocol version; a worker refuses another one.
    pub protocol: u32,
    /// What to run.
    pub cell: Cell,
    /// Seed of this run.
    pub seed: u64,
    /// The directory on the mounted stack: exists, empty, the worker's alone.
    pub directory: std::path::PathBuf,
    /// CPUs to pin the worker to; empty = not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
}

/// What the worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The engine runs and every setting was read back.
    Started {
        /// The engine as it runs; none for plain files.
        engine: Option<EngineInfo>,
        /// What the settings promise.
        durability: Durability,
        /// Workload parameters with defaults filled in.
        parameters: BTreeMap<String, serde_json::Value>,
    },
    /// 0 to 1.
    Progress {
        /// Share of the run that is done.
        done: f64,
    },
    /// One execution.
    Sample(Sample),
    /// One phase, summed.
    Phase(PhaseSummary),
    /// VFS calls of a phase.
    Io(IoRow),
    /// A check that passed.
    Verified {
        /// E.g. `integrity_check ok`.
        check: String,
    },
    /// Something the reader must know.
    Warning {
        /// In words a user can act on.
        text: String,
    },
    /// The run is complete and verified. Always the last line of a good run.
    Done {
        /// Peak resident set, bytes.
        max_rss_bytes: u64,
        /// Involuntary context switches of the worker.
        involuntary_switches: u64,
    },
    /// The run failed. Always the last line of a bad run.
    Failed {
        /// What, where, what to do.
        message: String,
    },
}
