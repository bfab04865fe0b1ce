//! Carries out a plan: stack up, floor probe, worker, results, stack down, for one run after the
//! other.
//!
//! What the schedule needs from the world — clocks, stacks, workers, the machine's state — it asks
//! of a [`World`]. The real one ([`Local`]) mounts file systems and starts processes; the simulated
//! one ([`crate::sim`]) has a virtual clock and device, so that the way from plan to comparison is
//! tested in milliseconds and without noise of its own.

mod counted;
mod cut;
mod ending;
mod local;
mod machine_load;
mod record;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use fathom_device::{RequestTimes, Statistics};
use fathom_probe::Watch;
pub use fathom_stack::StackFailure;
use fathom_stack::{Capability, StackRecord, StackSpec};
use fathom_workload::engine::engine_named;

use crate::cell::Cell;
use crate::event::{Event, PROTOCOL, WorkerRequest};
use crate::failure::FailureKind;
use crate::machine_state::MachineState;
use crate::plan::{Needs, Plan, PlannedCell, PlannedRun};
use crate::remote::LOCAL;
use crate::store::{CutFinding, CutRow, RunStatus, StoreError, TraceRecord, Warning, Writer};
use fathom_random::derive_seed;

pub use ending::{COVERAGE_WHEN_STOPPED, EarlyEnd, Ending, Precision};
pub use local::{Interrupt, Local, disk_of, environment, stopped_by};
pub use machine_load::MachineLoad;
use record::Collector;
pub use trace::Observations;

/// What the scheduler needs from the world around it.
pub trait World {
    /// Monotonic time, ns.
    fn now_ns(&mut self) -> u64;
    /// Milliseconds since 1970 UTC.
    fn now_ms(&mut self) -> i64;
    /// Chooses the machine that the next runs are made on, as [`Cell::on`] names it.
    ///
    /// # Errors
    /// It is none of this world's.
    fn choose(&mut self, machine: &str) -> Result<(), String> {
        match machine {
            "" | LOCAL => Ok(()),
            other => Err(format!("{other} is another machine than this one: give --on {other}")),
        }
    }
    /// What a machine can do, for the plan.
    ///
    /// # Errors
    /// It cannot be asked.
    fn capabilities(&mut self, machine: &str, needs: Needs) -> Result<Vec<Capability>, String> {
        let _ = needs;
        self.choose(machine).map(|()| Vec::new())
    }
    /// What the results must carry to be understood elsewhere; the keys are stable.
    ///
    /// # Errors
    /// The machine cannot be asked.
    fn environment(&mut self) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::new())
    }
    /// Makes a fresh stack; there is none up before.
    ///
    /// # Errors
    /// Why it cannot be made, and what to do.
    fn up(&mut self, spec: &StackSpec, label: &str) -> Result<MountedStack, StackFailure>;
    /// Median of 4 KiB write + fdatasync on the stack that is up, ns; none where that means
    /// nothing.
    ///
    /// # Errors
    /// What the system said.
    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure>;
    /// CPUs for a worker of this cell; empty = not pinned.
    fn cpus(&mut self, cell: &PlannedCell) -> Vec<usize>;
    /// Executes the order in a fresh worker and hands on its events as they come.
    ///
    /// # Errors
    /// [`WorkError`].
    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError>;
    /// Begins the block trace of the stack that is up; says what the worker's probe is to watch for
    /// it. None where this world has nothing to trace.
    ///
    /// # Errors
    /// Why it cannot be traced, and what to do.
    fn trace(&mut self) -> Result<Option<Watch>, String> {
        Ok(None)
    }
    /// Ends the trace that was begun and attributes what was traced, after the worker has ended.
    ///
    /// # Errors
    /// What the system said.
    fn traced(&mut self, watched: Observations) -> Result<Option<TraceRecord>, String> {
        let _ = watched;
        Ok(None)
    }
    /// What the modelled devices of the stack that is up have done so far: the file system's, then
    /// its external log's; empty where it has none.
    ///
    /// # Errors
    /// A device is gone.
    fn devices(&mut self) -> Result<Vec<Statistics>, String> {
        Ok(Vec::new())
    }
    /// Has the modelled devices of the stack that is up keep what they serve from now on. Whether
    /// they do and their times can be compared with the worker's.
    ///
    /// # Errors
    /// A device is gone.
    fn keep_served(&mut self) -> Result<bool, String> {
        Ok(false)
    }
    /// What they have served since, in the order of [`World::devices`].
    ///
    /// # Errors
    /// A device is gone.
    fn served(&mut self) -> Result<Vec<Vec<RequestTimes>>, String> {
        Ok(Vec::new())
    }
    /// Tries what power cuts leave of a cell, on stacks of its own; none is up. None where this
    /// world has no power to cut.
    ///
    /// # Errors
    /// [`WorkError`]: why it was not tried.
    fn power_cut(&mut self, cell: &Cell, seed: u64) -> Result<Option<CutFinding>, WorkError> {
        let _ = (cell, seed);
        Ok(None)
    }
    /// Takes the stack down.
    ///
    /// # Errors
    /// What is left and what to do.
    fn down(&mut self) -> Result<(), String>;
    /// What the machine is doing just now.
    fn machine_load(&mut self) -> MachineLoad;
    /// What its battery, temperature and clocks are just now, as the kernel's files tell it: before
    /// a worker is started, which waits for it.
    fn state(&mut self) -> MachineState {
        MachineState::default()
    }
    /// The same with what its programs tell, after a worker has ended; and what about the machine
    /// makes times doubtful: it is hot, or its battery is empty. In words.
    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        (MachineState::default(), Vec::new())
    }
    /// What is to be told when the runs are over, in words: what was found or removed between them.
    /// Each is given once.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// Whether no further run is to be begun: the user wants to stop, or a machine is gone.
    fn interrupted(&mut self) -> bool;
    /// Whether the user wants to stop.
    fn is_stopped(&mut self) -> bool {
        self.interrupted()
    }
}

/// A stack that is up.
#[derive(Clone, Debug, PartialEq)]
pub struct MountedStack {
    /// An empty directory on it, the worker's alone.
    pub directory: PathBuf,
    /// What was made.
    pub record: StackRecord,
}

/// Why a worker brought no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkError {
    /// The user wants to stop; the run counts as not made.
    Interrupted,
    /// It was killed, timed out, crashed or talked nonsense: in words.
    Failed(String),
}

impl WorkError {
    /// With the reason added, where it is one in words.
    fn because(self, why: &str) -> WorkError {
        match self {
            WorkError::Interrupted => WorkError::Interrupted,
            WorkError::Failed(message) => WorkError::Failed(format!("{message}; {why}")),
        }
    }
}

/// How far the schedule is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Runs finished, earlier ones of a resumed experiment included.
    pub done: usize,
    /// Runs of the plan; the most of them where the schedule may end early.
    pub total: usize,
    /// Whether the schedule may end before it has made them all.
    pub may_end_early: bool,
    /// Runs that failed, of those finished now.
    pub failed: usize,
    /// The cell that runs, as the tables write it.
    pub title: String,
    /// Block of the run, from 0.
    pub block: u32,
    /// Share of the current run that is done, 0 to 1.
    pub share: f64,
    /// Estimated from the finished runs; none before the first.
    pub left: Option<Duration>,
    /// The floor probe of the current run, ns.
    pub floor_ns: Option<u64>,
}

/// How the schedule ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Runs that are good now.
    pub done: usize,
    /// Runs that failed now, with title and reason.
    pub failed: Vec<(String, String)>,
    /// Runs that are still missing because the user stopped.
    pub missing: usize,
    /// Whether the user stopped.
    pub interrupted: bool,
    /// Why it ended before its last block; none where it did not.
    pub ended: Option<EarlyEnd>,
    /// With [`Ending::until`]: the widest interval at the end, relative to its value.
    pub widest: Option<f64>,
    /// Blocks that were made or begun, earlier ones of a resumed experiment included.
    pub blocks: u32,
}

/// Limits and extras of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A run that takes longer has failed.
    pub run: Duration,
    /// What ends the schedule before its last block.
    pub ending: Ending,
    /// A look: no run is begun that would not be over within this time, by what the runs before it
    /// have taken, and one that goes on for much longer is cut off. What is missing can be made
    /// later.
    pub look: Option<Duration>,
}

impl Limits {
    /// When a run of a look is cut off: a seventh later than the look is to be over.
    fn look_is_over(&self) -> Option<Duration> {
        self.look.map(|look| look + look / 7)
    }
}

/// Carries out `turns` of `plan` and writes each run to `writer` as soon as it is over. A failed
/// run does not stop the rest.
///
/// # Errors
/// The results file cannot be written (disk full): finished runs are in it.
pub fn carry_out(
    plan: &Plan,
    turns: &[PlannedRun],
    limits: Limits,
    world: &mut dyn World,
    writer: &mut Writer,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, StoreError> {
    go_on(plan, turns, limits, Precision::default(), world, writer, on_progress)
}

/// As [`carry_out`], where `precision` knows the earlier runs.
///
/// # Errors
/// As [`carry_out`].
pub(crate) fn go_on(
    plan: &Plan,
    turns: &[PlannedRun],
    limits: Limits,
    mut precision: Precision,
    world: &mut dyn World,
    writer: &mut Writer,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, StoreError> {
    let Limits { ending, .. } = limits;
    let begun_ns = world.now_ns();
    let total = plan.runs();
    let before = total.saturating_sub(turns.len());
    let mut summary = Summary { blocks: precision.blocks(), ..Summary::default() };
    let mut times = Times::default();
    for (number, turn) in turns.iter().enumerate() {
        if world.interrupted() {
            summary.interrupted = true;
        }
        let Some(planned) = plan.cells.iter().find(|cell| cell.id == turn.cell) else { continue };
        let of_block = turns[number..].iter().take_while(|other| other.block == turn.block).count();
        let begins_block = number == 0 || turns[number - 1].block != turn.block;
        // Where it may end early, no block is missing that was not begun.
        let missing = |is_begun: bool| match ending.is_early() {
            false => turns.len() - number,
            true if is_begun => of_block,
            true => 0,
        };
        if summary.interrupted {
            summary.missing = missing(!begins_block);
            break;
        }
        let spent = Duration::from_nanos(world.now_ns().saturating_sub(begun_ns));
        let left = times.left(&turns[number..number + of_block], 0.0).filter(|_| begins_block);
        // The first run is always made: nothing is known of how long one takes.
        let may_be_over = number > 0 && turn.block >= ending.firm;
        let is_over =
            may_be_over && ending.budget.is_some_and(|budget| spent + left.unwrap_or_default() > budget);
        let widest = if begins_block && turn.block >= ending.least { precision.widest() } else { None };
        summary.ended = match ending.until.zip(widest).filter(|(until, widest)| widest <= until) {
            Some((_, widest)) => Some(EarlyEnd::Precise { widest }),
            None => is_over.then_some(EarlyEnd::OutOfTime),
        };
        if summary.ended.is_some() {
            summary.missing = missing(!begins_block);
            break;
        }
        let this = times.left(&turns[number..=number], 0.0).unwrap_or_default();
        if number > 0 && limits.look.is_some_and(|look| spent + this > look) {
            summary.ended = Some(EarlyEnd::OutOfTime);
            summary.missing = turns.len() - number;
            break;
        }
        let run = limits.look_is_over().map_or(limits.run, |over| limits.run.min(over.saturating_sub(spent)));
        let is_cut = run < limits.run;
        summary.blocks = summary.blocks.max(turn.block + 1);
        // The file says at any time how many blocks there are: whoever kills this leaves it true.
        // Where a failed run is made again, later blocks may be there already.
        if ending.is_early() && begins_block {
            writer.repeats(summary.blocks)?;
        }
        let mut progress = Progress {
            done: before + number,
            total,
            may_end_early: ending.is_early(),
            failed: summary.failed.len(),
            title: planned.title(),
            block: turn.block,
            share: 0.0,
            left: times.left(&turns[number..], 0.0),
            floor_ns: None,
        };
        on_progress(&progress);
        let start_ns = world.now_ns();
        let mut collector = Collector::new(turn, world.now_ms());
        let limits = Limits { run, ..limits };
        let end = one_run(planned, turn, limits, world, &mut collector, &mut |share, floor_ns| {
            progress.share = share;
            progress.floor_ns = floor_ns;
            progress.left = times.left(&turns[number..], share);
            on_progress(&progress);
        });
        match end {
            Err(WorkError::Interrupted) => {
                summary.interrupted = true;
                summary.missing = missing(true);
                break;
            }
            // It has not failed: it was cut off.
            Err(WorkError::Failed(_)) if is_cut && collector.took() >= run => {
                summary.ended = Some(EarlyEnd::OutOfTime);
                summary.missing = turns.len() - number;
                break;
            }
            Err(WorkError::Failed(message)) => collector.fail(message),
            Ok(()) => {}
        }
        let record = collector.finish();
        match &record.row.message {
            Some(message) => summary.failed.push((planned.title(), message.clone())),
            None => {
                debug_assert_eq!(record.row.status, RunStatus::Done);
                summary.done += 1;
                precision.add(&record);
            }
        }
        writer.record(&record)?;
        times.add(turn.cell, world.now_ns().saturating_sub(start_ns));
    }
    summary.widest = ending.until.and_then(|_| precision.widest());
    Ok(summary)
}

/// Tries what power cuts leave of each cell that asks for it and is not among `tried`. Whether the
/// user stopped it.
///
/// # Errors
/// As [`carry_out`].
pub(crate) fn cut_each(
    plan: &Plan,
    tried: &[i64],
    world: &mut dyn World,
    writer: &mut Writer,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<bool, StoreError> {
    let asks = |planned: &&PlannedCell| {
        planned.cell.instruments.power_cut && planned.skipped.is_none() && !tried.contains(&planned.id)
    };
    let cells: Vec<&PlannedCell> = plan.cells.iter().filter(asks).collect();
    let mut times = Times::default();
    for (number, planned) in cells.iter().enumerate() {
        if world.interrupted() {
            return Ok(true);
        }
        let each = times.finished.values().map(|(sum, runs)| sum / runs).sum::<f64>() / number.max(1) as f64;
        let left = each * (cells.len() - number) as f64;
        on_progress(&Progress {
            done: plan.runs(),
            total: plan.runs(),
            may_end_early: false,
            failed: 0,
            title: format!("power cut {} of {}: {}", number + 1, cells.len(), planned.title()),
            block: 0,
            share: 0.0,
            left: (number > 0).then(|| Duration::from_nanos(left as u64)),
            floor_ns: None,
        });
        let begin_ns = world.now_ns();
        let finding = match world.power_cut(&planned.cell, plan.seed) {
            Ok(Some(finding)) => Ok(finding),
            Ok(None) => continue,
            Err(WorkError::Interrupted) => return Ok(true),
            Err(WorkError::Failed(reason)) => Err(reason),
        };
        writer.cut(&CutRow { cell: planned.id, finding })?;
        times.add(planned.id, world.now_ns().saturating_sub(begin_ns));
    }
    Ok(false)
}

fn one_run(
    planned: &PlannedCell,
    turn: &PlannedRun,
    limits: Limits,
    world: &mut dyn World,
    collector: &mut Collector,
    on_share: &mut dyn FnMut(f64, Option<u64>),
) -> Result<(), WorkError> {
    let stack = stack_of(planned, turn);
    world.choose(&planned.cell.on).map_err(WorkError::Failed)?;
    let mounted = match world.up(&stack, &planned.label) {
        Ok(mounted) => mounted,
        // What is broken off because the user wants to stop has not failed.
        Err(_) if world.is_stopped() => return Err(WorkError::Interrupted),
        Err(StackFailure { problem, is_full_disk }) => {
            if is_full_disk {
                collector.failed_for(FailureKind::NoRoom);
            }
            return Err(WorkError::Failed(problem));
        }
    };
    collector.stack(&mounted.record);
    // Nobody waits for the floor of a run that is not wanted any more.
    let worked = match world.interrupted() {
        true => Err(WorkError::Interrupted),
        false => on_stack(planned, turn, limits, world, &mounted, collector, on_share),
    };
    // The stack goes down whatever happened on it; what could not be undone is said, and fails the
    // run.
    let down = world.down();
    match (worked, down) {
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(message)) => Err(error.because(&message)),
        (Ok(()), Err(message)) => Err(WorkError::Failed(message)),
        (Ok(()), Ok(())) => Ok(()),
    }
}

fn on_stack(
    planned: &PlannedCell,
    turn: &PlannedRun,
    limits: Limits,
    world: &mut dyn World,
    mounted: &MountedStack,
    collector: &mut Collector,
    on_share: &mut dyn FnMut(f64, Option<u64>),
) -> Result<(), WorkError> {
    let floor_ns = world.floor_ns().map_err(|StackFailure { problem, is_full_disk }| {
        if is_full_disk {
            collector.failed_for(FailureKind::Full);
        }
        WorkError::Failed(problem)
    })?;
    if world.interrupted() {
        return Err(WorkError::Interrupted);
    }
    collector.floor(floor_ns);
    on_share(0.0, floor_ns);
    let watch =
        if planned.cell.instruments.blocks { world.trace().map_err(WorkError::Failed)? } else { None };
    let is_kept = world.keep_served().map_err(WorkError::Failed)?;
    let mut watched = Observations::default();
    let order = WorkerRequest {
        protocol: PROTOCOL,
        cell: planned.cell.clone(),
        seed: turn.seed,
        directory: mounted.directory.clone(),
        cpus: world.cpus(planned),
        watch,
        marks: is_kept && cell_threads_are_seen(&planned.cell),
    };
    let devices = world.devices().map_err(WorkError::Failed)?;
    collector.begins(world.state());
    let before = world.machine_load();
    collector.machine_load(before);
    let start_ns = world.now_ns();
    let worked = world.work(&order, limits.run, &mut |event| {
        if let Event::Progress { done } = event {
            on_share(done, floor_ns);
        } else if let Some(event) = watched.take(event) {
            collector.event(event);
        }
    });
    collector.elapsed(world.now_ns().saturating_sub(start_ns));
    collector.stolen(before, world.machine_load());
    worked?;
    // First of all: what the file system writes while other things are asked is not the run's.
    for (before, after) in devices.iter().zip(world.devices().map_err(WorkError::Failed)?) {
        collector.device(&after.since(before));
    }
    let (state, remarks) = world.condition();
    collector.ends(state);
    for Warning { kind, text } in remarks {
        collector.event(Event::Warning { kind, text });
    }
    if is_kept {
        let served = world.served().map_err(WorkError::Failed)?;
        collector.model(&watched, &served);
        if planned.cell.instruments.operations {
            collector.recording(&watched, &served);
        }
    }
    if watch.is_some() {
        collector.trace(world.traced(watched).map_err(WorkError::Failed)?);
    }
    collector.complete().map_err(WorkError::Failed)
}

/// Whether all the threads that work for a cell are the worker's, and all their calls on files are
/// told of. A server has processes of its own, and a store of a workload's own calls of its own.
fn cell_threads_are_seen(cell: &Cell) -> bool {
    match &cell.engine {
        None => cell.workload.name == "mobibench-file",
        // An embedded engine's calls go through the probe.
        Some(engine) => engine_named(&engine.name).is_some_and(|kind| kind.is_embedded),
    }
}

/// How long runs took, for the time that is left.
#[derive(Debug, Default)]
struct Times {
    /// Of each cell: ns in all, and runs.
    finished: HashMap<i64, (f64, f64)>,
}

impl Times {
    fn add(&mut self, cell: i64, ns: u64) {
        let (sum, runs) = self.finished.entry(cell).or_default();
        *sum += ns as f64;
        *runs += 1.0;
    }

    /// The time for `turns`, of the first of which `share` is done: each as long as its cell's
    /// finished runs took on average, or as long as all did where its cell has none yet.
    fn left(&self, turns: &[PlannedRun], share: f64) -> Option<Duration> {
        let (sum, runs) =
            self.finished.values().fold((0.0, 0.0), |all, finished| (all.0 + finished.0, all.1 + finished.1));
        let all = if runs > 0.0 { sum / runs } else { return None };
        let of = |cell: i64| self.finished.get(&cell).map_or(all, |(sum, runs)| sum / runs);
        let first = turns.first().map_or(0.0, |turn| of(turn.cell) * share.clamp(0.0, 1.0));
        let ns = turns.iter().map(|turn| of(turn.cell)).sum::<f64>() - first;
        Some(Duration::from_secs_f64(ns.max(0.0) / 1e9))
    }
}

/// The stack of a run: a modelled device draws other times in each, and the same ones whenever the
/// plan is run again, in one go or in parts.
fn stack_of(planned: &PlannedCell, turn: &PlannedRun) -> StackSpec {
    let mut stack = planned.cell.stack.clone();
    if stack.device.is_some() && stack.device_seed == 0 {
        stack.device_seed = run_seed(turn);
    }
    stack
}

/// A seed for what is random in a run beside its data.
#[must_use]
pub fn run_seed(turn: &PlannedRun) -> u64 {
    derive_seed(turn.seed, &[turn.cell.cast_unsigned()])
}
