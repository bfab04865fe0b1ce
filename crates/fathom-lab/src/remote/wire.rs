//! What is said between Fathom and its agent on another machine: one JSON object a line
//! ([`fathom_ground::lines`]), as with the agent in a guest kernel, over the agent's standard input
//! and output.
//!
//! A guest is given single commands, for what it mounts belongs to the machine that it runs on.
//! Another machine makes whole stacks itself, writes down there what it makes and has its own guard
//! there: so the questions are those of [`World`](crate::schedule::World), and whatever becomes of
//! this side, that one cleans up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fathom_device::{RequestTimes, Statistics};
use fathom_probe::Watch;
use fathom_stack::{Capability, StackRecord, StackSpec};
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::event::WorkerRequest;
use crate::machine_state::MachineState;
use crate::plan::Needs;
use crate::schedule::MachineLoad;
use crate::store::{BlockRow, TraceRecord, Warning};

/// The version of [`Question`] and [`Answer`]; the program is pushed by its content, so that both
/// sides are one.
pub const VERSION: u32 = 6;

/// How often each side says that it lives.
pub const BEAT: Duration = Duration::from_secs(20);

/// What the agent is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Whoever asks lives; not answered.
    Beat,
    /// What is under way is to end; not answered, but what was asked before is.
    Stop,
    /// Everything that `fathom doctor` says there.
    Doctor,
    /// What a plan must know.
    Capabilities {
        /// Of which there is more to ask.
        needs: Needs,
    },
    /// What the results must carry.
    Environment,
    /// Removes what a run that was killed has left there.
    Sweep,
    /// Size of a file of the agent's own user; none where there is none.
    Size {
        /// Its path.
        path: PathBuf,
    },
    /// [`World::up`](crate::schedule::World::up): several [`Answer::Model`], then [`Answer::Up`].
    Up {
        /// What is made.
        spec: Box<StackSpec>,
        /// What it is called.
        label: String,
    },
    /// [`World::floor_ns`](crate::schedule::World::floor_ns).
    Floor,
    /// [`World::cpus`](crate::schedule::World::cpus).
    Cpus {
        /// The cell that is to be pinned.
        cell: Box<Cell>,
    },
    /// [`World::work`](crate::schedule::World::work): events as raw lines, then [`Answer::Worked`].
    Work {
        /// What is executed.
        order: Box<WorkerRequest>,
        /// Longest time, ms.
        limit_ms: u64,
    },
    /// [`World::trace`](crate::schedule::World::trace).
    Trace,
    /// [`World::traced`](crate::schedule::World::traced): several [`Answer::Blocks`], then
    /// [`Answer::Traced`].
    Traced,
    /// [`World::devices`](crate::schedule::World::devices).
    Devices,
    /// [`World::keep_served`](crate::schedule::World::keep_served).
    KeepServed,
    /// [`World::served`](crate::schedule::World::served): several [`Answer::Operations`], then
    /// [`Answer::RequestTimes`].
    RequestTimes,
    /// [`World::down`](crate::schedule::World::down).
    Down,
    /// [`World::machine_load`](crate::schedule::World::machine_load).
    MachineLoad,
    /// [`World::state`](crate::schedule::World::state).
    State,
    /// [`World::condition`](crate::schedule::World::condition).
    Condition,
    /// Replays a trace outside of any experiment: lines of its output as raw lines, then
    /// [`Answer::Replayed`].
    Replay {
        /// Words behind `fathom trace replay`; the directory is the agent's.
        words: Vec<String>,
    },
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The agent lives; said every [`BEAT`], whatever is under way.
    Beat,
    /// The agent is there.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Which Fathom it is ([`crate::version::version`]).
        fathom: String,
        /// Its number among the processes there.
        #[serde(default)]
        process: u32,
    },
    /// What was asked is done.
    Done,
    /// It cannot be done: why.
    Refused {
        /// In words.
        problem: String,
    },
    /// Of [`Question::Doctor`] and [`Question::Capabilities`].
    Capabilities {
        /// Each with its remedy.
        capabilities: Vec<Capability>,
        /// One command that installs what packages bring.
        packages: Option<String>,
    },
    /// Of [`Question::Environment`].
    Environment {
        /// By key.
        values: BTreeMap<String, String>,
    },
    /// Of [`Question::Sweep`].
    Swept {
        /// Labels of what was removed.
        removed: Vec<String>,
        /// Why other things were not.
        failed: Vec<String>,
    },
    /// Of [`Question::Size`].
    Size {
        /// Octets.
        bytes: Option<u64>,
    },
    /// A part of the text of a device's model, all of which may be longer than a line.
    Model {
        /// Number of the device.
        device: usize,
        /// The next part.
        text: String,
    },
    /// The end of [`Question::Up`].
    Up {
        /// The directory on it.
        directory: PathBuf,
        /// What was made, without the models.
        record: Box<StackRecord>,
    },
    /// Of [`Question::Up`] and [`Question::Floor`]: there is no space left, or a quota is used up.
    NoRoom {
        /// In words, with what to do.
        problem: String,
    },
    /// Of [`Question::Floor`].
    Floor {
        /// Median, ns.
        ns: Option<u64>,
    },
    /// Of [`Question::Cpus`].
    Cpus {
        /// Their numbers.
        cpus: Vec<usize>,
    },
    /// The end of [`Question::Work`].
    Worked {
        /// Why it failed; none where it did not.
        failed: Option<String>,
        /// It was told to stop.
        is_interrupted: bool,
    },
    /// Of [`Question::Trace`].
    Watch {
        /// What the worker's probe is to watch.
        watch: Option<Watch>,
    },
    /// Rows of a trace.
    Blocks {
        /// In order.
        rows: Vec<BlockRow>,
    },
    /// The end of a trace, without the rows.
    Traced {
        /// None where nothing could be traced.
        trace: Option<Box<TraceRecord>>,
    },
    /// Of [`Question::Devices`].
    Devices {
        /// The file system's, then its external log's.
        statistics: Vec<Statistics>,
    },
    /// Of [`Question::KeepServed`].
    Kept {
        /// Whether they are kept.
        is_kept: bool,
    },
    /// What one device has served.
    Operations {
        /// Number of the device.
        device: usize,
        /// In order of the answers.
        served: Vec<RequestTimes>,
    },
    /// The end of that.
    RequestTimes {
        /// How many devices there are.
        devices: usize,
    },
    /// Of [`Question::MachineLoad`].
    MachineLoad(MachineLoad),
    /// Of [`Question::State`].
    State(MachineState),
    /// Of [`Question::Condition`].
    Condition {
        /// What it is like.
        state: MachineState,
        /// What about it makes times doubtful.
        remarks: Vec<Warning>,
    },
    /// The end of [`Question::Replay`].
    Replayed {
        /// Exit code; none where a signal ended it.
        code: Option<i32>,
        /// What it wrote to stderr.
        said: String,
    },
}
