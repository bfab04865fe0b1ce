//! The worker protocol: one JSON object per line on the worker's stdout.

use std::collections::BTreeMap;

use fathom_probe::{Mark, Note, StatementExecution, Watch};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_workload::engine::EngineInfo;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, WarningKind, Window};
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::failure::FailureKind;

/// The version of [`WorkerRequest`] and [`Event`]. A worker on another host may be older or newer than the
/// one who asks.
pub const PROTOCOL: u32 = 4;

/// What the worker is asked, one JSON object on stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRequest {
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
    /// What of the files the probe watches for the block trace.
    #[serde(default)]
    pub watch: Option<Watch>,
    /// Whether the clocks of its threads are marked, for the model time of its phases.
    #[serde(default)]
    pub marks: bool,
}

/// One call on a file, where those are watched. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCall {
    /// Number of the file.
    pub file: u32,
    /// What it was: a sync counts as a flush, a truncation as a discard.
    pub op: BlockOp,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Its begin and end.
    pub begin_ns: u64,
    /// As above.
    pub end_ns: u64,
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
    /// When a phase was, without its intervals that count for nothing.
    Window(Window),
    /// Intervals of the last window that count for nothing; several such events follow one another,
    /// since a phase may have more of them than fit into a line.
    Excluded {
        /// Begin and end of each, in order of time.
        intervals: Vec<(u64, u64)>,
    },
    /// The files that were watched, in order of their number: what each counts as.
    Files {
        /// By the file's number.
        causes: Vec<Cause>,
    },
    /// Where files lay on the device; several such events follow one another.
    Notes {
        /// In order of time.
        notes: Vec<Note>,
    },
    /// Calls on files; several such events follow one another.
    Calls {
        /// In order of their end.
        calls: Vec<FileCall>,
    },
    /// Marks of the threads; several such events follow one another.
    Marks {
        /// Those of one thread are in order of time.
        marks: Vec<Mark>,
        /// Marks that there was no room for, in all.
        lost: u64,
        /// Whether they tell how long a thread was ready to run.
        knows_queue: bool,
    },
    /// Statements that were executed; several such events follow one another.
    Statements {
        /// Texts, after those of the events before.
        texts: Vec<String>,
        /// In the order of their ends.
        executions: Vec<StatementExecution>,
    },
    /// A check that passed.
    Verified {
        /// E.g. `integrity_check ok`.
        check: String,
    },
    /// Something the reader must know.
    Warning {
        /// In words a user can act on.
        text: String,
        /// What kind of thing it says.
        #[serde(default)]
        kind: WarningKind,
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
        /// Whose fault that is.
        #[serde(default)]
        kind: FailureKind,
    },
}
