//! Gathers what one run brings.

use std::collections::BTreeMap;
use std::time::Duration;

use fathom_device::{RequestTimes, SERVED_MAX, Statistics};
use fathom_stack::StackRecord;
use fathom_workload::sample::{WarningKind, Window};
use fathom_workload::spec::Durability;

use super::machine_load::MachineLoad;
use super::trace::Observations;
use crate::event::Event;
use crate::failure::FailureKind;
use crate::machine_state::{Conditions, MachineState};
use crate::model_time::models_of_run;
use crate::plan::PlannedRun;
use crate::recording::Recording;
use crate::store::{RunRecord, RunRow, RunStatus, TraceRecord, Warning};

/// A floor below this (ns) is no device that waits for data to be safe: the fastest durable write
/// of a drive with power-loss protection takes about 10 µs.
const FLOOR_TOO_FAST_NS: u64 = 5_000;

/// Load per CPU before a run above which others were working too.
const BUSY_LOAD: f64 = 0.7;

/// What one run has brought so far.
#[derive(Debug)]
pub(super) struct Collector {
    record: RunRecord,
    started: bool,
    done: bool,
    said: Option<String>,
    /// Whose fault that is.
    kind: Option<FailureKind>,
}

impl Collector {
    pub fn new(turn: &PlannedRun, started_ms: i64) -> Collector {
        let row = RunRow {
            id: 0,
            cell: turn.cell,
            block: turn.block,
            position: turn.position,
            seed: turn.seed,
            status: RunStatus::Done,
            message: None,
            failure: None,
            started_ms,
            elapsed_ns: 0,
            engine: None,
            parameters: BTreeMap::new(),
            stack: StackRecord::default(),
            floor_ns: None,
            max_rss_bytes: None,
            involuntary_switches: None,
            steal_share: None,
            load: None,
            devices: Vec::new(),
            conditions: Conditions::default(),
        };
        let record = RunRecord {
            row,
            durability: None,
            phases: Vec::new(),
            samples: Vec::new(),
            io: Vec::new(),
            verified: Vec::new(),
            warnings: Vec::new(),
            trace: None,
            models: Vec::new(),
            sample_models: Vec::new(),
            recording: None,
        };
        Collector { record, started: false, done: false, said: None, kind: None }
    }

    fn warn(&mut self, kind: WarningKind, text: String) {
        self.record.warnings.push(Warning { kind, text });
    }

    pub fn stack(&mut self, record: &StackRecord) {
        self.record.warnings.extend(record.warnings.iter().cloned().map(Warning::from));
        self.record.row.stack = record.clone();
        // What a stack says of memory itself comes with a remedy.
        if let Some(reason) = record.volatile()
            && !record.warnings.iter().any(|warning| warning.contains("tmpfs"))
        {
            self.warn(WarningKind::NoDevice, format!(
                "{reason}. The durability that is given is what is left of the settings' promise on such a stack"
            ));
        }
    }

    pub fn floor(&mut self, floor_ns: Option<u64>) {
        self.record.row.floor_ns = floor_ns;
        if floor_ns.is_some_and(|ns| ns < FLOOR_TOO_FAST_NS) {
            // Without the time itself, which the row has: the report gathers runs with the same
            // warning into one line. And without an option's name: elsewhere it is `--on`.
            self.warn(WarningKind::NoDevice, format!(
                "nothing here waits for a device: one 4 KiB write + fdatasync took less than {} µs. The disk (or its virtual \
                 machine) does not sync, or there is none; the times are those of memory, and a power cut may lose what was \
                 acknowledged. Choose another directory",
                FLOOR_TOO_FAST_NS / 1000
            ));
        }
    }

    /// What the machine was like before the worker was started.
    pub fn begins(&mut self, state: MachineState) {
        self.record.row.conditions.begin = state;
    }

    /// And after it has ended.
    pub fn ends(&mut self, state: MachineState) {
        self.record.row.conditions.end = state;
    }

    pub fn machine_load(&mut self, machine_load: MachineLoad) {
        self.record.row.load = machine_load.load;
        let per_cpu = machine_load.load.map(|load| load / machine_load.cpus.max(1) as f64);
        // Our own worker of the run before keeps one CPU busy.
        let allowed = BUSY_LOAD.max(1.3 / machine_load.cpus.max(1) as f64);
        if per_cpu.is_some_and(|per_cpu| per_cpu > allowed) {
            // Without the load itself (the row has it): the report gathers runs with the same
            // warning into one line.
            self.warn(WarningKind::Noise, format!(
                "noisy machine: other programs were working when a run began (load average above {:.1} on {} CPUs). Stop \
                 them, or run at a quieter time",
                allowed * machine_load.cpus as f64,
                machine_load.cpus
            ));
        }
    }

    pub fn stolen(&mut self, before: MachineLoad, after: MachineLoad) {
        let total = after.total_ticks.saturating_sub(before.total_ticks);
        let steal = after.steal_ticks.saturating_sub(before.steal_ticks);
        if total > 0 {
            self.record.row.steal_share = Some(steal as f64 / total as f64);
        }
    }

    /// What its next modelled device has done while it ran.
    pub fn device(&mut self, done: &Statistics) {
        self.record.row.devices.push(done.use_of());
    }

    /// What its devices served and its threads did, phase by phase.
    pub fn model(&mut self, watched: &Observations, served: &[Vec<RequestTimes>]) {
        let known_ns = known_until_ns(served, SERVED_MAX);
        let known = |window: &&Window| window.end_ns <= known_ns;
        let windows: Vec<Window> = watched.windows.iter().filter(known).cloned().collect();
        if windows.len() < watched.windows.len() {
            self.warn(WarningKind::Other, format!(
                "no model time from a phase on: more than {SERVED_MAX} operations came to the device, and so many are not kept. \
                 The times are as measured. Make the run shorter"
            ));
        }
        let record = &mut self.record;
        (record.models, record.sample_models) =
            models_of_run(&windows, &record.samples, watched.marks.as_ref(), served);
    }

    /// Keeps what is replayed on other models.
    pub fn recording(&mut self, watched: &Observations, served: &[Vec<RequestTimes>]) {
        let record = &mut self.record;
        let Observations { windows, marks, statements, .. } = watched;
        let recording = Recording::of_run(windows, &record.samples, marks.as_ref(), statements, served);
        match recording {
            Some(recording) => record.recording = Some(recording.encode()),
            None => self.warn(WarningKind::Other, format!(
                "no recording: more than {SERVED_MAX} operations came to the device, and so many are not kept. Make the run \
                 shorter"
            )),
        }
    }

    pub fn elapsed(&mut self, ns: u64) {
        self.record.row.elapsed_ns = ns;
    }

    /// How long the worker has worked.
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.record.row.elapsed_ns)
    }

    pub fn event(&mut self, event: Event) {
        match event {
            Event::Started { engine, durability, parameters } => {
                self.started = true;
                let mmap =
                    engine.as_ref().and_then(|engine| engine.settings.get("mmap_size")).map(String::as_str);
                if mmap.is_some_and(|size| size != "0" && !size.is_empty()) {
                    self.warn(
                        WarningKind::Other,
                        "mmap reads are not seen by the probe: with mmap_size above 0 page faults count as CPU and other \
                         time, not as reads"
                            .into(),
                    );
                }
                // A workload on plain files has no engine and no class; one with a store of its own
                // has that store's.
                let promised = engine.is_some() || durability != Durability::None;
                let kept = || fathom_cut::kept_promise(durability, &self.record.row.stack);
                self.record.durability = promised.then(kept);
                self.record.row.engine = engine;
                self.record.row.parameters = parameters;
            }
            // The schedule keeps what is for the trace.
            Event::Progress { .. }
            | Event::Window(_)
            | Event::Excluded { .. }
            | Event::Files { .. }
            | Event::Notes { .. }
            | Event::Calls { .. }
            | Event::Marks { .. }
            | Event::Statements { .. } => {}
            Event::Sample(sample) => self.record.samples.push(sample),
            Event::Phase(phase) => self.record.phases.push(phase),
            Event::Io(io) => self.record.io.push(io),
            Event::Verified { check } => self.record.verified.push(check),
            Event::Warning { text, kind } => self.warn(kind, text),
            Event::Done { max_rss_bytes, involuntary_switches } => {
                self.done = true;
                self.record.row.max_rss_bytes = Some(max_rss_bytes);
                self.record.row.involuntary_switches = Some(involuntary_switches);
            }
            Event::Failed { message, kind } => (self.said, self.kind) = (Some(message), Some(kind)),
        }
    }

    /// It fails for something of this kind.
    pub fn failed_for(&mut self, kind: FailureKind) {
        self.kind = Some(kind);
    }

    /// What was traced.
    pub fn trace(&mut self, trace: Option<TraceRecord>) {
        if let Some(lost) = trace.as_ref().map(|trace| trace.lost_events).filter(|lost| *lost > 0) {
            self.warn(WarningKind::Noise, format!(
                "block trace: the kernel's buffer had no room for {lost} events, so requests are missing. Fewer \
                 transactions in one run, or a machine with less other work, lose none"
            ));
        }
        self.record.trace = trace;
    }

    /// Whether the worker said all that a good run says.
    pub fn complete(&mut self) -> Result<(), String> {
        if let Some(message) = self.said.take() {
            return Err(message);
        }
        if !self.started || !self.done {
            return Err("the worker ended without saying that it was done".into());
        }
        if self.record.phases.is_empty() {
            let left_out = self.record.warnings.iter().find(|warning| warning.text.starts_with("left out: "));
            return Err(match left_out {
                Some(warning) => format!("the worker had nothing to measure: {}", warning.text),
                None => "the worker measured nothing: no phase was reported".into(),
            });
        }
        Ok(())
    }

    /// Marks the run as failed. What the worker itself said comes first.
    pub fn fail(&mut self, message: String) {
        let message = match self.said.take() {
            Some(said) if message != said => said,
            _ => message,
        };
        self.record.row.failure = Some(self.kind.unwrap_or_default());
        self.record.row.status = RunStatus::Failed;
        self.record.row.message = Some(message);
    }

    pub fn finish(self) -> RunRecord {
        self.record
    }
}

/// Until when all is known that devices served which keep so many operations at most; without an
/// end where none has kept as many.
fn known_until_ns(served: &[Vec<RequestTimes>], most: usize) -> u64 {
    let full = served.iter().filter(|of_device| of_device.len() >= most);
    full.filter_map(|of_device| of_device.last()).map(RequestTimes::begun_ns).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a run with more operations than are kept the later phases had none, so
    /// that all waiting for the device was this machine's: by model time they took no time but the
    /// processor's, and nobody was told.
    #[test]
    fn what_is_beyond_the_operations_that_are_kept_has_no_model_time() {
        let at = |given_ns: u64| RequestTimes { given_ns, early_ns: 10, ..RequestTimes::default() };
        let served = [vec![at(100), at(200), at(300)], vec![at(150), at(250)]];
        assert_eq!(known_until_ns(&served, 4), u64::MAX, "all is kept");
        assert_eq!(known_until_ns(&served, 3), 290);
        assert_eq!(known_until_ns(&served, 2), 240, "of both devices");
        assert_eq!(known_until_ns(&[], 2), u64::MAX);
        let window = |phase: &str, end_ns| Window {
            phase: phase.into(),
            x: None,
            start_ns: 0,
            end_ns,
            count: 1,
            changed_bytes: 0,
            lanes: Vec::new(),
            excluded: Vec::new(),
        };
        let windows = vec![window("early", 100), window("late", 2000)];
        let watched = Observations { windows, ..Observations::default() };
        let turn = PlannedRun { cell: 1, block: 0, position: 0, seed: 1 };
        let modelled = |operations: usize| {
            let mut collector = Collector::new(&turn, 0);
            collector.model(&watched, &[vec![at(1000); operations]]);
            let phases: Vec<String> = collector.record.models.into_iter().map(|model| model.phase).collect();
            (phases, collector.record.warnings.len())
        };
        assert_eq!(modelled(5), (vec!["early".to_owned(), "late".to_owned()], 0));
        assert_eq!(modelled(SERVED_MAX), (vec!["early".to_owned()], 1));
    }

    /// What happened: of a trace of which a replay leaves all out it was said that "no phase was
    /// reported", and not what was left out.
    #[test]
    fn a_run_without_work_says_what_was_left_out() {
        let turn = PlannedRun { cell: 1, block: 0, position: 0, seed: 1 };
        let ended = |warning: Option<&str>| {
            let mut collector = Collector::new(&turn, 0);
            let (engine, parameters) = (None, BTreeMap::new());
            collector.event(Event::Started { engine, durability: Durability::None, parameters });
            if let Some(text) = warning {
                collector.event(Event::Warning { text: text.into(), kind: WarningKind::Other });
            }
            collector.event(Event::Done { max_rss_bytes: 0, involuntary_switches: 0 });
            collector.complete().unwrap_err()
        };
        let told = ended(Some("left out: 4 executions on databases in memory"));
        assert!(told.ends_with("left out: 4 executions on databases in memory"), "{told}");
        assert!(ended(None).contains("no phase was reported"));
    }

    #[test]
    fn a_store_without_an_engine_keeps_its_promise_and_plain_files_have_none() {
        let class = |durability| {
            let turn = PlannedRun { cell: 1, block: 0, position: 0, seed: 1 };
            let mut collector = Collector::new(&turn, 0);
            let parameters = BTreeMap::new();
            collector.event(Event::Started { engine: None, durability, parameters });
            collector.record.durability
        };
        assert_eq!(class(Durability::PowerCut), Some(Durability::PowerCut));
        assert_eq!(class(Durability::None), None);
    }

    /// A cell on ext4 without barriers was headed "keeps every commit at a power cut", beside a
    /// block trace without a flush.
    #[test]
    fn a_stack_whose_syncs_flush_nothing_keeps_no_promise_at_a_power_cut() {
        let kept = |mount: &str, durability| {
            let turn = PlannedRun { cell: 1, block: 0, position: 0, seed: 1 };
            let mut collector = Collector::new(&turn, 0);
            let record =
                StackRecord { filesystem: "ext4".into(), mount: mount.into(), ..StackRecord::default() };
            collector.stack(&record);
            collector.event(Event::Started { engine: None, durability, parameters: BTreeMap::new() });
            (collector.record.durability, collector.record.warnings.len())
        };
        assert_eq!(kept("rw,relatime", Durability::PowerCut), (Some(Durability::PowerCut), 0));
        assert_eq!(kept("rw,nobarrier", Durability::PowerCut), (Some(Durability::ProcessCrash), 1));
        assert_eq!(kept("rw,nobarrier", Durability::PowerCutPrefix), (Some(Durability::ProcessCrash), 1));
    }
}
