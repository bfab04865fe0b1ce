//! The cells of a results file on devices: what `fathom simulate` shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fathom_device::Model;
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use super::{Program, ReplayError, simulate};
use crate::model_time::PhaseModel;
use crate::naming::labels_without;
use crate::recording::Recording;
use crate::stats::{Interval, mean_interval};
use crate::store::{Results, RunRow, StoreError};
use fathom_random::derive_seed;

/// How often a run is replayed on a model that draws its times: each draw has other luck.
pub const DRAWS: u64 = 5;

/// Short recordings are replayed more often, so that the luck of so many operations is in the mean,
/// but no more often than this.
pub const MOST_DRAWS: u64 = 40;
const OPERATIONS_ENOUGH: u64 = 100_000;

/// So many runs of a cell are usual. More of them have luck of their own, so that each is drawn
/// less often.
const USUAL_RUNS: u64 = 3;

/// Replays of each of so many recordings of so many operations on a model that draws its times.
fn draws(operations: usize, runs: usize) -> u64 {
    let of_all = OPERATIONS_ENOUGH * USUAL_RUNS / (runs as u64).max(USUAL_RUNS);
    (of_all / (operations as u64).max(1)).clamp(DRAWS, MOST_DRAWS)
}

/// What must be known of a cell that is replayed by the device alone.
const BY_THE_DEVICE: &str = "what its threads did is not known (a guest kernel, a server): one execution after the other is replayed \
                             by the operations that came within it, as if it had waited for each of them. Its times are \
                             the device's alone, without CPU time";

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The devices.
    pub devices: Vec<Model>,
    /// This phase only.
    pub phase: Option<String>,
    /// This cell only, by its label.
    pub cell: Option<String>,
    /// The first so many runs of each cell only.
    pub runs: Option<usize>,
    /// Whether runs whose threads are not seen are replayed by their device alone; such times are
    /// no others' equal.
    pub by_the_device: bool,
}

/// A recorded run in one phase on one device: of one execution, geometric means over its draws, ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedRun {
    /// Its block.
    pub block: u32,
    /// Model time.
    pub model_ns: f64,
    /// Median of single executions; 0 where their begins were not told, as in the next three.
    pub p50_ns: f64,
    /// Their 99th percentile.
    pub p99_ns: f64,
    /// That of one in a thousand.
    pub p999_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// A cell in one phase on one device; geometric means over runs and draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Number of the cell.
    pub cell: i64,
    /// Its label.
    pub label: String,
    /// What its settings promise.
    pub durability: Option<Durability>,
    /// The phase.
    pub phase: String,
    /// Its abscissa, where it has one.
    pub x: Option<f64>,
    /// `transaction`, `query` or `operation`.
    pub unit: String,
    /// The device, by its model's name.
    pub device: String,
    /// Executions of one run.
    pub count: u64,
    /// Recorded runs.
    pub runs: usize,
    /// Replays of each.
    pub draws: usize,
    /// Executions per second of model time.
    pub rate: Interval,
    /// Model time of one execution, ns: the phase's divided by its executions.
    pub model_ns: Interval,
    /// Its own CPU time in that, ns; means from here on.
    pub cpu_ns: f64,
    /// Device time in that, ns.
    pub device_ns: f64,
    /// Other waiting in that, ns.
    pub other_ns: f64,
    /// Median of single executions, ns; none where their begins were not told.
    pub p50_ns: Option<f64>,
    /// Their 99th percentile, ns.
    pub p99_ns: Option<f64>,
    /// What one in a thousand of them takes longer than, ns.
    pub p999_ns: Option<f64>,
    /// Flushes of one execution.
    pub flushes: f64,
    /// Bytes written by one execution.
    pub written_bytes: f64,
    /// Bytes read by one execution.
    pub read_bytes: f64,
    /// Block of each run, and its model time of one execution, ns: the geometric mean over draws.
    #[serde(skip)]
    pub of_runs: Vec<(u32, f64)>,
    /// Each recorded run by itself.
    pub each_run: Vec<SimulatedRun>,
}

/// What was simulated.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Study {
    /// In the order of the cells, their phases, and the devices.
    pub rows: Vec<Row>,
    /// What must be known of a cell's numbers: its label, and each note.
    pub notes: Vec<(String, Vec<String>)>,
    /// Cells that could not be simulated, and why.
    pub without: Vec<(String, String)>,
    /// Operations that were replayed in all, and how long the replay and its model time took, ns.
    #[serde(skip)]
    pub replayed: (u64, u64),
}

/// Why nothing was simulated.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// No run of the file kept a recording.
    #[error(
        "{0}: no run has a recording, so that there is nothing to replay. Measure once more on a modelled device with \
         `--set instruments.operations=true`, or give `fathom simulate` the trace itself"
    )]
    NoRecording(String),
    /// Every cell with a recording is one that cannot be replayed.
    #[error("{0}: nothing can be simulated: {1}")]
    Nothing(String, String),
    /// No cell or phase of this name.
    #[error("no {what} is called {name:?} in the recordings; there are: {}", known.join(", "))]
    NoSuch {
        /// `cell` or `phase`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The results cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Replays the recordings of the good runs on every device.
///
/// # Errors
/// [`StudyError`].
pub fn study(results: &Results, question: &Question) -> Result<Study, StudyError> {
    let file = results.path().display().to_string();
    let mut found = Study::default();
    let (mut has_any, mut labels, mut phases) = (false, Vec::new(), Vec::<String>::new());
    let shown = labels_without_devices(results);
    for (cell, shown) in results.cells.iter().zip(&shown) {
        let is_called =
            |label: &String| [&cell.label, shown].iter().any(|name| name.eq_ignore_ascii_case(label));
        let asked = question.cell.as_ref().is_none_or(is_called);
        let mut programs = Vec::new();
        let mut why = None;
        let mut is_by_device = false;
        for run in results.good_runs(cell.id).take(question.runs.unwrap_or(usize::MAX)) {
            let Some(recording) = results.recording(run.id)? else { continue };
            has_any = true;
            if !labels.contains(shown) {
                labels.push(shown.clone());
            }
            if !asked {
                break;
            }
            for phase in recording.windows.iter().map(|window| &window.phase) {
                if !phases.contains(phase) {
                    phases.push(phase.clone());
                }
            }
            let mut made = Program::of(&recording);
            let mut recording = recording;
            if let (true, Err(ReplayError::Threads)) = (question.by_the_device, &made)
                && let Some(other) = recording.by_the_device()
            {
                (is_by_device, made) = (true, Program::of(&other));
                recording = other;
            }
            match made {
                Ok(program) => programs.push((run, recording, program)),
                Err(error) => why = Some(error.to_string()),
            }
        }
        if let (true, Some(why)) = (programs.is_empty(), why) {
            found.without.push((shown.clone(), why));
        }
        let Some((_, first, program)) = programs.first() else { continue };
        let mut notes = program.notes();
        if is_by_device {
            notes.push(BY_THE_DEVICE.to_owned());
        }
        if !notes.is_empty() {
            found.notes.push((shown.clone(), notes));
        }
        let units = |phase: &str| {
            let of = |row: &&crate::store::PhaseOfRun| row.summary.phase == phase;
            results.phases.iter().find(of).map_or_else(String::new, |phase| phase.summary.unit.clone())
        };
        let wanted = |phase: &str| question.phase.as_ref().is_none_or(|other| other == phase);
        for (model, (draws, all, took)) in question.devices.iter().zip(on_all(&programs, &question.devices)) {
            found.replayed.0 += draws * programs.iter().map(|run| run.2.operations() as u64).sum::<u64>();
            found.replayed.1 += took;
            for (number, window) in first.windows.iter().enumerate().filter(|window| wanted(&window.1.phase))
            {
                let models: Vec<&PhaseModel> = all.iter().filter_map(|models| models.get(number)).collect();
                let (mut of_runs, mut each_run) = (Vec::new(), Vec::new());
                for ((run, ..), draws) in programs.iter().zip(all.chunks(draws as usize)) {
                    let mean = |of: &dyn Fn(&PhaseModel) -> u64| {
                        let of_draws =
                            |models: &Vec<PhaseModel>| models.get(number).map(|model| of(model) as f64);
                        let values: Vec<f64> = draws.iter().filter_map(of_draws).collect();
                        mean_interval(&values).map(|interval| interval.mid)
                    };
                    let Some(whole) = mean(&|model| model.model_ns) else { continue };
                    let model_ns = whole / window.count.max(1) as f64;
                    of_runs.push((run.block, model_ns));
                    let latency = |place: usize| mean(&|model| model.latency_ns[place]).unwrap_or(0.0);
                    each_run.push(SimulatedRun {
                        block: run.block,
                        model_ns,
                        p50_ns: latency(1),
                        p99_ns: latency(3),
                        p999_ns: latency(4),
                        max_ns: latency(5),
                    });
                }
                let row = Row {
                    of_runs,
                    each_run,
                    cell: cell.id,
                    label: shown.clone(),
                    durability: cell.durability,
                    phase: window.phase.clone(),
                    x: window.x,
                    unit: units(&window.phase),
                    device: model.name.clone(),
                    count: window.count,
                    runs: programs.len(),
                    draws: draws as usize,
                    ..of_phase(&models, window.count)
                };
                found.rows.push(row);
            }
        }
    }
    if !has_any {
        return Err(StudyError::NoRecording(file));
    }
    if found.rows.is_empty() {
        return Err(match (&question.cell, &question.phase, found.without.first()) {
            (Some(name), _, _) if !labels.iter().any(|label| label.eq_ignore_ascii_case(name)) => {
                StudyError::NoSuch { what: "cell", name: name.clone(), known: labels }
            }
            (_, _, Some((label, why))) => StudyError::Nothing(file, format!("{label}: {why}")),
            (_, Some(name), _) => StudyError::NoSuch { what: "phase", name: name.clone(), known: phases },
            _ => StudyError::Nothing(file, "no phase was recorded".into()),
        });
    }
    let order = |row: &Row| results.cells.iter().position(|cell| cell.id == row.cell);
    let place = |row: &Row| phases.iter().position(|phase| *phase == row.phase);
    found.rows.sort_by_key(|row| (order(row), place(row)));
    Ok(found)
}

/// A run that is replayed: itself, what it recorded, and the loop of that.
type RunProgram<'a> = (&'a RunRow, Recording, Program);

/// Replays of a cell on one device: draws of each run, their phases run by run and draw by draw,
/// and how long that took, ns.
type Replays = (u64, Vec<Vec<PhaseModel>>, u64);

/// The runs of a cell on all devices, in the order of these; so many at a time as there are
/// processors, for no replay knows of another.
fn on_all(programs: &[RunProgram<'_>], devices: &[Model]) -> Vec<Replays> {
    let next = AtomicUsize::new(0);
    let all: Mutex<Vec<(usize, Replays)>> = Mutex::default();
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(model) = devices.get(number) else { return };
            let replays = on_one(programs, model);
            all.lock().unwrap_or_else(PoisonError::into_inner).push((number, replays));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..processors.min(devices.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|replays| replays.0);
    all.into_iter().map(|replays| replays.1).collect()
}

fn on_one(programs: &[RunProgram<'_>], model: &Model) -> Replays {
    let started = std::time::Instant::now();
    let operations = programs.first().map_or(0, |run| run.2.operations());
    // One draw is all where the times are always the same.
    let draws = if model.is_random() { draws(operations, programs.len()) } else { 1 };
    let mut all = Vec::with_capacity(programs.len() * draws as usize);
    for (run, recording, program) in programs {
        for draw in 0..draws {
            let seed = derive_seed(run.seed, &[run.cell.cast_unsigned(), draw]);
            all.push(simulate(program, recording, model, seed));
        }
    }
    (draws, all, started.elapsed().as_nanos() as u64)
}

/// The cells' labels without the device that they were recorded on, which is none of those that
/// they are shown on; as they are where two would be the same.
fn labels_without_devices(results: &Results) -> Vec<String> {
    let all: Vec<String> = results.cells.iter().map(|cell| cell.label.clone()).collect();
    let without = labels_without(results, "stack.device");
    let is_twice = |label: &String| without.iter().filter(|other| *other == label).count() > 1;
    if without.iter().any(is_twice) { all } else { without }
}

/// The numbers of a phase over all its replays.
fn of_phase(models: &[&PhaseModel], count: u64) -> Row {
    let count = count.max(1) as f64;
    let each = |of: &dyn Fn(&PhaseModel) -> u64| -> Vec<f64> {
        models.iter().map(|model| of(model) as f64 / count).collect()
    };
    let mean = |of: &dyn Fn(&PhaseModel) -> u64| {
        let all = each(of);
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let none = Interval { low: 0.0, mid: 0.0, high: 0.0, n: 0, coverage: 0.0 };
    let model_ns = each(&|model| model.model_ns);
    let rates: Vec<f64> = model_ns.iter().map(|ns| 1e9 / ns.max(1e-3)).collect();
    let is_told = models.iter().all(|model| model.latency_ns[5] > 0);
    let latency = |place: usize| is_told.then(|| mean(&|model| model.latency_ns[place]) * count);
    Row {
        cell: 0,
        label: String::new(),
        durability: None,
        phase: String::new(),
        x: None,
        unit: String::new(),
        device: String::new(),
        count: 0,
        runs: 0,
        draws: 0,
        rate: mean_interval(&rates).unwrap_or(none),
        model_ns: mean_interval(&model_ns).unwrap_or(none),
        cpu_ns: mean(&|model| model.cpu_ns),
        device_ns: mean(&|model| model.device_ns),
        other_ns: mean(&|model| model.other_ns),
        p50_ns: latency(1),
        p99_ns: latency(3),
        p999_ns: latency(4),
        flushes: mean(&|model| model.operations[2]),
        written_bytes: mean(&|model| model.bytes[1]),
        read_bytes: mean(&|model| model.bytes[0]),
        of_runs: Vec::new(),
        each_run: Vec::new(),
    }
}
