//! A virtual clock and device: the lab without time of its own.
//!
//! The lab's statistics must be tested from end to end — plan, order, runs, results file,
//! comparison — against a truth that is known, thousands of times, and without the noise of the
//! machine that runs the tests. [`Medium`] is the seam: what a simulated workload asks of clock and
//! device. [`VirtualDevice`] answers it with seeded distributions and moves its clock by what an
//! operation "took"; nothing sleeps. [`VirtualLab`] is the [`World`] around it, so that
//! [`carry_out`](crate::schedule::carry_out) runs a plan on it unchanged.
//!
//! **The model of a noisy lab.** An operation takes a log-normal time around its median; now and
//! then one takes many times as long. Each run has an offset of its own (memory layout,
//! neighbours), each block has one that all its runs share (heat, other tenants), and the whole lab
//! drifts. All are log-normal factors, so they multiply.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fathom_probe::Split;
use fathom_stack::{StackRecord, StackSpec};
use fathom_workload::params::{Kind, Parameter, Params, Preset};
use fathom_workload::sample::{PhaseSummary, Sample, Sink, WarningKind};
use fathom_workload::spec::Durability;
use fathom_workload::workload::{Context, Workload, WorkloadError, WorkloadKind};
use serde_json::Value as Json;

use crate::event::{Event, WorkerRequest};
use crate::machine_state::MachineState;
use crate::plan::{Plan, PlannedCell};
use crate::schedule::{MachineLoad, MountedStack, StackFailure, WorkError, World};
use crate::store::{ExperimentRow, Warning};
use fathom_random::{Random, derive_seed};

/// What a simulated workload asks of clock and device.
pub trait Medium {
    /// Monotonic time, ns.
    fn now_ns(&mut self) -> u64;
    /// Works for about `median_ns` of CPU time.
    fn compute(&mut self, median_ns: f64);
    /// Writes 4 KiB.
    fn write(&mut self);
    /// Makes what was written durable.
    fn sync(&mut self);
}

/// How noisy the simulated lab is. Deviations are of the logarithm: 0.05 is about 5 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of one operation.
    pub operation: f64,
    /// Share of operations that take [`Noise::outlier_factor`] times as long.
    pub outlier_share: f64,
    /// How many times as long they take.
    pub outlier_factor: f64,
    /// Of one run.
    pub run: f64,
    /// Of one block, shared by its runs.
    pub block: f64,
    /// Growth of all times over one hour of virtual time.
    pub drift_per_hour: f64,
}

impl Default for Noise {
    /// A virtual machine on a bad day.
    fn default() -> Noise {
        Noise {
            operation: 0.3,
            outlier_share: 0.005,
            outlier_factor: 5.0,
            run: 0.02,
            block: 0.1,
            drift_per_hour: 10.0,
        }
    }
}

/// A device whose operations take seeded random times on a clock of its own.
#[derive(Clone, Debug)]
pub struct VirtualDevice {
    clock_ns: f64,
    rng: Random,
    noise: Noise,
    /// What multiplies every time just now.
    factor: f64,
}

/// Median times of the simulated device, ns: about those of a drive with power-loss protection.
const WRITE_NS: f64 = 10_000.0;
const SYNC_NS: f64 = 60_000.0;

impl VirtualDevice {
    /// A device at time 0.
    #[must_use]
    pub fn new(seed: u64, noise: Noise) -> VirtualDevice {
        VirtualDevice { clock_ns: 0.0, rng: Random::new(seed), noise, factor: 1.0 }
    }

    fn pass(&mut self, median_ns: f64) {
        let mut ns = median_ns * self.factor * (self.noise.operation * self.rng.normal()).exp();
        if self.rng.unit() < self.noise.outlier_share {
            ns *= self.noise.outlier_factor;
        }
        self.clock_ns += ns;
    }
}

impl Medium for VirtualDevice {
    fn now_ns(&mut self) -> u64 {
        self.clock_ns as u64
    }

    fn compute(&mut self, median_ns: f64) {
        self.pass(median_ns);
    }

    fn write(&mut self) {
        self.pass(WRITE_NS);
    }

    fn sync(&mut self) {
        self.pass(SYNC_NS);
    }
}

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "transactions",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: Preset::Integer(100),
        unit: "transactions",
        description: "how many are executed",
    },
    Parameter {
        name: "copy",
        kind: Kind::Integer { min: 0, max: 1_000_000 },
        default: Preset::Integer(0),
        unit: "",
        description: "a number without effect, to have the same cell twice",
    },
    Parameter {
        name: "slower_percent",
        kind: Kind::Number { min: 0.0, max: 10_000.0 },
        default: Preset::Number(0.0),
        unit: "%",
        description: "by how much each transaction is slower than it would be",
    },
];

/// The simulated workload: transactions of one computation, one write and one sync. It is not among
/// Fathom's workloads; a [`Vocabulary`](crate::experiment::Vocabulary) that holds it makes
/// experiments of it possible.
pub static KIND: WorkloadKind = WorkloadKind {
    name: "sim",
    summary: "transactions on a virtual clock and device",
    parameters: PARAMETERS,
    needs_engine: false,
    needs: |_| None,
    abscissa: "rows",
    one_thread: |_| true,
    samples: |params| params.count("transactions"),
    idle: |_| None,
    create: |params| Ok(Box::new(Sim(params))),
};

struct Sim(Params);

impl Workload for Sim {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        transact(&self.0, &mut VirtualDevice::new(context.seed, Noise::default()), sink);
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, Json> {
        self.0.all().clone()
    }
}

/// The workload's work.
fn transact(params: &Params, medium: &mut dyn Medium, sink: &mut dyn Sink) {
    let count = params.count("transactions");
    let slower = 1.0 + params.number("slower_percent") / 100.0;
    let start_ns = medium.now_ns();
    let mut sum = Split::default();
    let mut walls = Vec::new();
    for seq in 0..count {
        let begin = medium.now_ns();
        medium.compute(20_000.0);
        let computed = medium.now_ns();
        medium.write();
        let written = medium.now_ns();
        medium.sync();
        let synced = medium.now_ns();
        let stretch = |ns: u64| (ns as f64 * slower) as u64;
        let mut split = Split {
            cpu_ns: stretch(computed - begin),
            write_ns: stretch(written - computed),
            sync_ns: stretch(synced - written),
            write_bytes: 4096,
            write_calls: 1,
            sync_calls: 1,
            ..Split::default()
        };
        split.wall_ns = split.cpu_ns + split.write_ns + split.sync_ns;
        sum.add(&split);
        walls.push(split.wall_ns);
        let (phase, database) = ("insert".into(), None);
        sink.sample(Sample { phase, x: None, seq, thread: 0, rows: 1, split, database, start_ns: 0 });
    }
    walls.sort_unstable();
    let rank = |share: f64| {
        let place = (walls.len() as f64 * share).ceil() as usize;
        walls.get(place.clamp(1, walls.len().max(1)) - 1).copied().unwrap_or(0)
    };
    sink.phase(PhaseSummary {
        phase: "insert".into(),
        x: None,
        unit: "transaction".into(),
        count,
        // The clock moved by the time without the slowness.
        wall_ns: ((medium.now_ns() - start_ns) as f64 * slower) as u64,
        latency_ns: [rank(0.0), rank(0.5), rank(0.9), rank(0.99), rank(0.999), rank(1.0)],
        split: sum,
        lock_wait_ns: Some(0),
        lock_waits: Some(0),
        critical_path: None,
    });
    sink.verified(format!("transactions {count}"));
}

/// What a results file says of a simulated experiment.
#[must_use]
pub fn experiment_row(plan: &Plan) -> ExperimentRow {
    ExperimentRow {
        name: plan.experiment.clone(),
        title: String::new(),
        source: String::new(),
        source_name: String::new(),
        command: String::new(),
        seed: plan.seed,
        repeats: plan.repeats,
        quick: plan.quick,
        fathom_version: "0".into(),
        started_ms: 0,
        finished_ms: None,
    }
}

/// The simulated world: plans run on it as on a machine, in no time.
#[derive(Clone, Debug)]
pub struct VirtualLab {
    device: VirtualDevice,
    seed: u64,
    /// The run's own offset and its block's.
    offsets: Random,
    /// Turns at which the worker breaks, by number of the run from 0; for tests of what happens
    /// then.
    pub breaks: BTreeMap<u64, WorkError>,
    /// The user stops before this run.
    pub stop_before: Option<u64>,
    /// The user stops while the first stack is made.
    pub stops_while_made: bool,
    /// Why no stack can be made.
    pub makes_nothing: Option<StackFailure>,
    /// What the machine is like before a run; each warms it by a degree.
    pub state: MachineState,
    runs: u64,
}

impl VirtualLab {
    /// A lab with this seed and noise.
    #[must_use]
    pub fn new(seed: u64, noise: Noise) -> VirtualLab {
        VirtualLab {
            device: VirtualDevice::new(derive_seed(seed, &[0]), noise),
            seed,
            offsets: Random::new(derive_seed(seed, &[1])),
            breaks: BTreeMap::new(),
            stop_before: None,
            stops_while_made: false,
            makes_nothing: None,
            state: MachineState::default(),
            runs: 0,
        }
    }
}

impl World for VirtualLab {
    fn now_ns(&mut self) -> u64 {
        self.device.now_ns()
    }

    fn now_ms(&mut self) -> i64 {
        // From some moment on; the year is no matter.
        1_700_000_000_000 + (self.device.clock_ns / 1e6) as i64
    }

    fn choose(&mut self, _machine: &str) -> Result<(), String> {
        Ok(())
    }

    fn up(&mut self, _spec: &StackSpec, _label: &str) -> Result<MountedStack, StackFailure> {
        // Making a stack takes a while, in which the lab drifts on.
        self.device.clock_ns += 5e9;
        if self.stops_while_made {
            self.stop_before = Some(0);
        }
        if let Some(problem) = &self.makes_nothing {
            return Err(problem.clone());
        }
        let record = StackRecord {
            filesystem: "virtual".into(),
            device: "virtual device".into(),
            ..StackRecord::default()
        };
        Ok(MountedStack { directory: PathBuf::from("/virtual"), record })
    }

    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure> {
        let start = self.device.now_ns();
        for _ in 0..100 {
            self.device.write();
            self.device.sync();
        }
        Ok(Some((self.device.now_ns() - start) / 100))
    }

    fn cpus(&mut self, _cell: &PlannedCell) -> Vec<usize> {
        Vec::new()
    }

    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError> {
        let number = self.runs;
        self.runs += 1;
        if let Some(error) = self.breaks.get(&number) {
            return Err(error.clone());
        }
        // All runs of a block have the same order seed, so they share the block's offset.
        let block = Random::new(derive_seed(self.seed, &[2, order.seed])).normal();
        let noise = self.device.noise;
        let hours = self.device.clock_ns / 3.6e12;
        self.device.factor = (noise.block * block + noise.run * self.offsets.normal()).exp()
            * (1.0 + noise.drift_per_hour * hours);
        let params = Params::read(PARAMETERS, &order.cell.workload.params)
            .map_err(|error| WorkError::Failed(error.to_string()))?;
        let parameters = params.all().clone();
        let begun_ns = self.device.now_ns();
        on_event(Event::Started { engine: None, durability: Durability::None, parameters });
        on_event(Event::Progress { done: 0.5 });
        transact(&params, &mut self.device, &mut HandOn(on_event));
        if self.device.now_ns() - begun_ns > limit.as_nanos() as u64 {
            return Err(WorkError::Failed("it took longer than its time limit".into()));
        }
        on_event(Event::Done { max_rss_bytes: 1 << 20, involuntary_switches: 0 });
        Ok(())
    }

    fn down(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn machine_load(&mut self) -> MachineLoad {
        MachineLoad {
            load: Some(0.0),
            cpus: 2,
            steal_ticks: 0,
            total_ticks: self.device.now_ns() / 10_000_000,
        }
    }

    fn state(&mut self) -> MachineState {
        self.state.clone()
    }

    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        self.state.temperature_mc = self.state.temperature_mc.map(|milli| milli + 1000);
        (self.state.clone(), Vec::new())
    }

    fn interrupted(&mut self) -> bool {
        self.stop_before.is_some_and(|number| self.runs >= number)
    }
}

/// A sink that makes events of what it gets.
struct HandOn<'a>(&'a mut dyn FnMut(Event));

impl Sink for HandOn<'_> {
    fn sample(&mut self, sample: Sample) {
        (self.0)(Event::Sample(sample));
    }
    fn phase(&mut self, summary: PhaseSummary) {
        (self.0)(Event::Phase(summary));
    }
    fn io(&mut self, row: fathom_workload::sample::IoRow) {
        (self.0)(Event::Io(row));
    }
    fn progress(&mut self, done: f64) {
        (self.0)(Event::Progress { done });
    }
    fn warning(&mut self, text: String) {
        (self.0)(Event::Warning { text, kind: WarningKind::Other });
    }
    fn verified(&mut self, check: String) {
        (self.0)(Event::Verified { check });
    }
}
