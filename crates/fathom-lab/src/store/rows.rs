//! The rows of results.db as Rust values. Times are nanoseconds; moments are milliseconds since
//! 1970 UTC.

use std::collections::BTreeMap;

use fathom_cut::Outcome;
use fathom_device::DeviceUse;
use fathom_stack::StackRecord;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_workload::engine::EngineInfo;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, WarningKind, Window};
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::failure::FailureKind;
use crate::machine_state::Conditions;
use crate::model_time::PhaseModel;

/// The experiment that was run: one per results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRow {
    /// `journal-modes`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The experiment file, whole, as it was when it was run.
    pub source: String,
    /// `built-in` or the file's name.
    pub source_name: String,
    /// The exact command that repeats this.
    pub command: String,
    /// Seed of order and data.
    pub seed: u64,
    /// Planned runs of each cell.
    pub repeats: u32,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// Version of the Fathom that ran it, and behind a `+` its commit where it was built with one.
    pub fathom_version: String,
    /// When it began.
    pub started_ms: i64,
    /// When it was complete; none while runs are missing.
    pub finished_ms: Option<i64>,
}

/// One cell of the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellRow {
    /// Its number in the plan, from 1.
    pub id: i64,
    /// `ext4 wal full`.
    pub label: String,
    /// `ext4 WAL FULL`: the same for people; not in the file, made of `axes` ([`crate::naming`]).
    #[serde(skip)]
    pub title: String,
    /// The matrix' axes and this cell's value on each.
    pub axes: BTreeMap<String, String>,
    /// The whole cell.
    pub spec: Cell,
    /// What its settings promise; none until a worker said it.
    pub durability: Option<Durability>,
    /// Why this machine cannot run it and what would bring it; none for a cell that runs.
    pub skipped: Option<String>,
}

/// What a power cut leaves of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CutRow {
    /// [`CellRow::id`].
    pub cell: i64,
    /// What was found, or why nothing could be tried.
    pub finding: Result<CutFinding, String>,
}

/// What was found of power cuts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutFinding {
    /// The file system that was mounted again for each state.
    pub filesystem: String,
    /// The device at the cut, in words.
    pub device: String,
    /// What the settings promise.
    pub promise: Durability,
    /// What became of the states.
    pub outcome: Outcome,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Complete and verified.
    Done,
    /// Ended early or with a wrong result; its numbers are not used.
    Failed,
}

/// One execution of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number in the file.
    pub id: i64,
    /// [`CellRow::id`].
    pub cell: i64,
    /// Repeat number, from 0. Runs of one block are neighbours in time, so comparisons pair them.
    pub block: u32,
    /// Place within the block.
    pub position: u32,
    /// Seed of this run's data and order.
    pub seed: u64,
    /// How it ended.
    pub status: RunStatus,
    /// Why it failed.
    pub message: Option<String>,
    /// Whose fault that is; none of a run that did not fail.
    pub failure: Option<FailureKind>,
    /// When its worker was started.
    pub started_ms: i64,
    /// The whole worker, preparation included, ns.
    pub elapsed_ns: u64,
    /// The engine as it ran.
    pub engine: Option<EngineInfo>,
    /// Workload parameters, defaults filled in.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// The stack as it was made.
    pub stack: StackRecord,
    /// Median of the floor probe before this run: 4 KiB write + fdatasync on this stack, ns.
    pub floor_ns: Option<u64>,
    /// Peak resident set of the worker, bytes.
    pub max_rss_bytes: Option<u64>,
    /// Involuntary context switches of the worker.
    pub involuntary_switches: Option<u64>,
    /// Share of the CPU time that the hypervisor took during the run, 0 to 1.
    pub steal_share: Option<f64>,
    /// 1-minute load average just before the run.
    pub load: Option<f64>,
    /// How the run used its modelled devices (the file system's, then its external log's) and how
    /// well they kept their models' times.
    pub devices: Vec<DeviceUse>,
    /// Battery, temperature and clocks of the machine before and after it; files of versions before
    /// 13 know nothing of them.
    pub conditions: Conditions,
}

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseOfRun {
    /// [`RunRow::id`].
    pub run: i64,
    /// What the workload summed up.
    #[serde(flatten)]
    pub summary: PhaseSummary,
}

/// VFS calls of a phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IoOfRun {
    /// [`RunRow::id`].
    pub run: i64,
    /// What the probe counted.
    #[serde(flatten)]
    pub row: IoRow,
}

/// Something the reader must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WarningRow {
    /// [`RunRow::id`], or none where it concerns the whole experiment.
    pub run: Option<i64>,
    /// In words a user can act on.
    pub text: String,
    /// What kind of thing it says.
    pub kind: WarningKind,
}

/// A warning of a run, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What kind of thing it says.
    pub kind: WarningKind,
    /// In words a user can act on.
    pub text: String,
}

impl From<String> for Warning {
    /// Of a text from where no kinds are known: by its words.
    fn from(text: String) -> Warning {
        Warning { kind: WarningKind::of_text(&text), text }
    }
}

/// A check that passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedRow {
    /// [`RunRow::id`].
    pub run: i64,
    /// E.g. `integrity_check ok`.
    pub text: String,
}

/// Everything that one run brought, ready to be written in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The run; `id` is given by the file and ignored here.
    pub row: RunRow,
    /// What the settings promise, as the worker said.
    pub durability: Option<Durability>,
    /// Phases, in the order in which they ended.
    pub phases: Vec<PhaseSummary>,
    /// Executions.
    pub samples: Vec<Sample>,
    /// VFS calls.
    pub io: Vec<IoRow>,
    /// Checks that passed.
    pub verified: Vec<String>,
    /// Warnings of this run.
    pub warnings: Vec<Warning>,
    /// The block trace, where it was switched on.
    pub trace: Option<TraceRecord>,
    /// The phases by the model, where a device was modelled.
    pub models: Vec<PhaseModel>,
    /// The model time of each of `samples`, ns; empty where no device was modelled.
    pub sample_models: Vec<Option<u64>>,
    /// What is replayed on other models
    /// ([`Recording::encode`](crate::recording::Recording::encode)).
    pub recording: Option<Vec<u8>>,
}

/// A phase of a run by the model of its device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelOfRun {
    /// [`RunRow::id`].
    pub run: i64,
    /// What the model makes of it.
    #[serde(flatten)]
    pub model: PhaseModel,
}

/// What a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceSource {
    /// Requests to the stack's device, as the kernel's block layer told them.
    Device,
    /// Calls on files, where the device could not be traced: offsets are those in the files.
    Files,
}

/// The block trace of a run, ready to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// What it shows.
    pub source: TraceSource,
    /// From its begin to its end, ns.
    pub span_ns: u64,
    /// Events that the kernel's buffer had no room for.
    pub lost_events: u64,
    /// Requests that had not completed when it ended.
    pub unfinished: u64,
    /// What a reader must know of the attribution.
    pub remarks: Vec<String>,
    /// The phases, times since the trace began.
    pub windows: Vec<Window>,
    /// The requests.
    pub rows: Vec<BlockRow>,
}

/// A request, or the piece of one that has one cause. Times are ns since the trace began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    /// Number of the request, in order of issue.
    pub request: u32,
    /// Number of the piece within it; most have one, 0.
    pub piece: u32,
    /// 0 the file system's device, 1 its external log.
    pub device: u8,
    /// What was asked.
    pub op: BlockOp,
    /// What made it.
    pub cause: Cause,
    /// The window that it was submitted in; none before the first phase, between and after.
    pub window: Option<u32>,
    /// When the request was made.
    pub submit_ns: u64,
    /// When the driver got it.
    pub issue_ns: u64,
    /// When it was complete.
    pub complete_ns: u64,
    /// Offset of the piece on the device (or in the file), bytes.
    pub offset: u64,
    /// Length of the piece, bytes.
    pub bytes: u64,
    /// Forced unit access was asked for.
    pub fua: bool,
    /// Somebody waits for it.
    pub sync: bool,
    /// The file system marked it as metadata.
    pub meta: bool,
}

/// The trace of a run without its requests, which are read when asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceOfRun {
    /// [`RunRow::id`].
    pub run: i64,
    /// As in [`TraceRecord`].
    pub source: TraceSource,
    /// As in [`TraceRecord`].
    pub span_ns: u64,
    /// As in [`TraceRecord`].
    pub lost_events: u64,
    /// As in [`TraceRecord`].
    pub unfinished: u64,
    /// As in [`TraceRecord`].
    pub remarks: Vec<String>,
    /// As in [`TraceRecord`].
    pub windows: Vec<Window>,
}
