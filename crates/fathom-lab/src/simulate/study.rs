//! The cells of a results file on devices: what `fathom simulate` shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fathom_device::Model;
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use super::program::are_threads_seen;
use super::{Program, Slowest, simulate, simulate_with_slowest};
use crate::advise::{Candidate, has_several_files, losing_filesystem};
use crate::model_time::PhaseModel;
use crate::naming::{labels_without, titles_without};
use crate::recording::Recording;
use crate::stats::{Interval, mean_interval};
use crate::store::{PhaseOfRun, Results, RunRow, StoreError};
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
const BY_THE_DEVICE: &str = "replayed by its device alone, without CPU time: one execution after the other by the operations that \
                             came within it, as if it had waited for each of them";

/// What must be known of the promise of a cell with WAL whose runs had several database files:
/// whether a transaction was over more than one of them a recording does not tell.
pub const EACH_FILE: &str = "it has several database files: with WAL a power cut may leave a transaction over more than one of \
                             them (ATTACH) in some and not in the others";

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
    /// Which runs are replayed by their device alone; such times are no others' equal.
    pub by_the_device: ByTheDevice,
}

/// Which cells are replayed by their device alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByTheDevice {
    /// None: where threads are not seen a cell cannot be replayed.
    #[default]
    Never,
    /// Those of a run whose threads are not seen.
    Unseen,
    /// All.
    All,
}

impl ByTheDevice {
    /// Whether the runs of a cell are.
    fn is_of<'a>(self, mut recordings: impl Iterator<Item = &'a Recording>) -> bool {
        match self {
            ByTheDevice::Never => false,
            ByTheDevice::Unseen => recordings.any(|recording| !are_threads_seen(recording)),
            ByTheDevice::All => true,
        }
    }
}

/// A recorded run in one phase on one device: of one execution, geometric means over its draws, ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedRun {
    /// Its block.
    pub block: u32,
    /// Model time.
    pub model_ns: f64,
    /// Median of single executions; none where their begins were not told, as in the next three.
    pub p50_ns: Option<f64>,
    /// Their 99th percentile.
    pub p99_ns: Option<f64>,
    /// That of one in a thousand.
    pub p999_ns: Option<f64>,
    /// The longest.
    pub max_ns: Option<f64>,
    /// What the slowest executions did, of the first draw; none where several were under way at
    /// once.
    #[serde(default)]
    pub slowest: Option<Slowest>,
}

/// A cell in one phase on one device; geometric means over runs and draws. Intervals are over runs:
/// draws of one run have its CPU time and its course in common, and would pass for as many
/// measurements as they are draws. Of one run they are over its draws, which is the device's luck
/// alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Number of the cell.
    pub cell: i64,
    /// Its label, without the device that it was recorded on.
    pub label: String,
    /// The same as people read it.
    pub title: String,
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
    /// Whether it was replayed by its device alone, so that no CPU time is in the numbers.
    pub by_the_device: bool,
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
    /// Their 99th percentile, ns; of three runs and more the geometric mean over runs.
    pub p99_ns: Option<f64>,
    /// Its 95 % interval over the runs; none of fewer than three.
    pub p99_interval: Option<Interval>,
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
    /// Cells on a file system on which explored power cuts took databases with their journal mode,
    /// whatever it promises: the label, and the file system.
    pub losing: Vec<(String, String)>,
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
    let (mut has_any, mut has_asked) = (false, false);
    let (mut labels, mut phases) = (Vec::new(), Vec::<String>::new());
    let names = names_without_devices(results);
    for (cell, (label, shown)) in results.cells.iter().zip(&names) {
        let is_called =
            |asked: &String| [&cell.label, label, shown].iter().any(|name| name.eq_ignore_ascii_case(asked));
        let asked = question.cell.as_ref().is_none_or(is_called);
        let mut recordings = Vec::new();
        for run in results.good_runs(cell.id).take(question.runs.unwrap_or(usize::MAX)) {
            let Some(recording) = results.recording(run.id)? else { continue };
            has_any = true;
            if !labels.contains(shown) {
                labels.push(shown.clone());
            }
            if !asked {
                break;
            }
            has_asked = true;
            for phase in recording.windows.iter().map(|window| &window.phase) {
                if !phases.contains(phase) {
                    phases.push(phase.clone());
                }
            }
            recordings.push((run, recording));
        }
        let (programs, is_by_device, why) = programs(recordings, question.by_the_device);
        let Some((first_run, first, program)) = programs.first() else {
            found.without.extend(why.map(|why| (shown.clone(), why)));
            continue;
        };
        let losing = losing_filesystem(results, cell);
        found.losing.extend(losing.map(|filesystem| (shown.clone(), filesystem.to_owned())));
        let mut notes = program.notes();
        let of_all = results.good_runs(cell.id).take(question.runs.unwrap_or(usize::MAX)).count();
        notes.extend(left_out(of_all, programs.len(), why));
        if is_by_device {
            notes.push(BY_THE_DEVICE.to_owned());
        }
        let own = cell.spec.engine.as_ref().and_then(Candidate::of);
        if own.is_some_and(|own| own.journal_mode == "wal") && has_several_files(results, cell.id) {
            notes.push(EACH_FILE.to_owned());
        }
        if !notes.is_empty() {
            found.notes.push((shown.clone(), notes));
        }
        let wanted = |phase: &str| question.phase.as_ref().is_none_or(|other| other == phase);
        for (model, (draws, all, took)) in question.devices.iter().zip(on_all(&programs, &question.devices)) {
            found.replayed.0 += draws * programs.iter().map(|run| run.2.operations() as u64).sum::<u64>();
            found.replayed.1 += took;
            for (number, window) in first.windows.iter().enumerate().filter(|window| wanted(&window.1.phase))
            {
                let of_each = all.iter().filter_map(|models| models.get(number));
                let models: Vec<&PhaseModel> = of_each.map(|phase| &phase.0).collect();
                let (mut of_runs, mut each_run) = (Vec::new(), Vec::new());
                for ((run, ..), draws) in programs.iter().zip(all.chunks(draws as usize)) {
                    let mean = |of: &dyn Fn(&PhaseModel) -> u64| {
                        let of_draws = draws.iter().filter_map(|models| models.get(number));
                        let values: Vec<f64> = of_draws.map(|phase| of(&phase.0) as f64).collect();
                        mean_interval(&values).map(|interval| interval.mid)
                    };
                    let Some(whole) = mean(&|model| model.model_ns) else { continue };
                    let model_ns = whole / window.count.max(1) as f64;
                    of_runs.push((run.block, model_ns));
                    let is_told = mean(&|model| model.latency_ns[5]).is_some_and(|ns| ns > 0.0);
                    let latency = |place: usize| mean(&|model| model.latency_ns[place]).filter(|_| is_told);
                    each_run.push(SimulatedRun {
                        block: run.block,
                        model_ns,
                        p50_ns: latency(1),
                        p99_ns: latency(3),
                        p999_ns: latency(4),
                        max_ns: latency(5),
                        slowest: draws.first().and_then(|models| models.get(number)?.1),
                    });
                }
                if let Some(why) = takes_no_time(&of_runs, &window.phase, &model.name) {
                    found.without.push((shown.clone(), why));
                    continue;
                }
                let over_all = of_phase(&models, of_runs, window.count);
                let p99_interval = p99_over(&each_run);
                let row = Row {
                    p99_ns: p99_interval.map(|p99| p99.mid).or(over_all.p99_ns),
                    p99_interval,
                    each_run,
                    cell: cell.id,
                    label: label.clone(),
                    title: shown.clone(),
                    durability: cell.durability,
                    phase: window.phase.clone(),
                    x: window.x,
                    unit: unit_of(&results.phases, first_run.id, &window.phase),
                    device: model.name.clone(),
                    by_the_device: is_by_device,
                    count: window.count,
                    runs: programs.len(),
                    draws: draws as usize,
                    ..over_all
                };
                found.rows.push(row);
            }
        }
    }
    if !has_any {
        return Err(StudyError::NoRecording(file));
    }
    if found.rows.is_empty() {
        return Err(why_nothing(question, file, has_asked, (labels, phases), &found.without));
    }
    let order = |row: &Row| results.cells.iter().position(|cell| cell.id == row.cell);
    let place = |row: &Row| phases.iter().position(|phase| *phase == row.phase);
    found.rows.sort_by_key(|row| (order(row), place(row)));
    Ok(found)
}

/// The unit of a run's phase. Cells of other workloads may have a phase of the same name that
/// counts something else.
fn unit_of(phases: &[PhaseOfRun], run: i64, phase: &str) -> String {
    let is_of = |row: &&PhaseOfRun| row.run == run && row.summary.phase == phase;
    phases.iter().find(is_of).map_or_else(String::new, |row| row.summary.unit.clone())
}

/// Why there is no row: nothing has the name that was asked for, or it cannot be replayed.
/// `has_asked` is whether a cell with a recording is asked for; then the cells and the phases that
/// there are.
fn why_nothing(
    question: &Question,
    file: String,
    has_asked: bool,
    (labels, phases): (Vec<String>, Vec<String>),
    without: &[(String, String)],
) -> StudyError {
    match (&question.cell, &question.phase, without.first()) {
        (Some(name), _, _) if !has_asked => {
            StudyError::NoSuch { what: "cell", name: name.clone(), known: labels }
        }
        (_, Some(name), _) if !phases.contains(name) => {
            StudyError::NoSuch { what: "phase", name: name.clone(), known: phases }
        }
        (_, _, Some((label, why))) => StudyError::Nothing(file, format!("{label}: {why}")),
        _ => StudyError::Nothing(file, "no phase was recorded".into()),
    }
}

/// A run that is replayed: itself, what it recorded, and the loop of that.
type RunProgram<'a> = (&'a RunRow, Recording, Program);

/// Replays of a cell on one device: draws of each run, their phases run by run and draw by draw,
/// and how long that took, ns.
type Replays = (u64, Vec<Vec<SimulatedPhase>>, u64);

/// A phase of one replay, and what its slowest executions did.
type SimulatedPhase = (PhaseModel, Option<Slowest>);

/// The loops of a cell's runs, whether they are of the device alone, and why one is missing. Of one
/// cell either all runs are replayed by their device alone or none is: their times are not each
/// other's equal.
fn programs(
    recordings: Vec<(&RunRow, Recording)>,
    by_the_device: ByTheDevice,
) -> (Vec<RunProgram<'_>>, bool, Option<String>) {
    let is_by_device = by_the_device.is_of(recordings.iter().map(|(_, recording)| recording));
    let (mut programs, mut why) = (Vec::new(), None);
    for (run, recording) in recordings {
        let made = match is_by_device {
            true => Program::of_the_device(&recording),
            false => Program::of(&recording).map(|program| (recording, program)),
        };
        match made {
            Ok((recording, program)) => programs.push((run, recording, program)),
            Err(error) => why = Some(error.to_string()),
        }
    }
    (programs, is_by_device, why)
}

/// What is said of a cell of whose runs some are not in its numbers; `why` one cannot be replayed,
/// where it has a recording.
fn left_out(of_all: usize, replayed: usize, why: Option<String>) -> Option<String> {
    let left_out = of_all.checked_sub(replayed).filter(|left_out| *left_out > 0)?;
    let (are, their) = if left_out == 1 { ("is", "its") } else { ("are", "their") };
    let why = why.unwrap_or_else(|| format!("no recording of {their} operations was kept"));
    Some(format!("{left_out} of {of_all} runs {are} not in the numbers: {why}"))
}

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
            // What the slowest executions did is told of the first draw alone.
            all.push(match draw {
                0 => simulate_with_slowest(program, recording, model, seed),
                _ => {
                    let phases = simulate(program, recording, model, seed).into_iter();
                    phases.map(|phase| (phase, None)).collect()
                }
            });
        }
    }
    (draws, all, started.elapsed().as_nanos() as u64)
}

/// The cells' labels and titles without the device that they were recorded on, which is none of
/// those that they are shown on; as they are where two would be the same.
fn names_without_devices(results: &Results) -> Vec<(String, String)> {
    let labels = labels_without(results, "stack.device");
    let is_twice = |label: &String| labels.iter().filter(|other| *other == label).count() > 1;
    if labels.iter().any(is_twice) {
        return results.cells.iter().map(|cell| (cell.label.clone(), cell.title.clone())).collect();
    }
    let titles = titles_without(results, "stack.device");
    labels.into_iter().zip(titles).collect()
}

/// Why there is no row of a phase, where some of its runs take no time: by its device alone, of one
/// that costs nothing, or where nothing came to it. So many a second are no number.
fn takes_no_time(of_runs: &[(u32, f64)], phase: &str, device: &str) -> Option<String> {
    of_runs.iter().any(|run| run.1 <= 0.0).then(|| {
        format!("{phase} on {device}: it takes no time there, for no CPU time is in it and the device has nothing to do")
    })
}

/// The value over runs with its interval: each run's is that of its draws. `draws` are all of them.
fn over_runs(of_runs: &[f64], draws: &[f64]) -> Interval {
    const NONE: Interval = Interval { low: 0.0, mid: 0.0, high: 0.0, n: 0, coverage: 0.0 };
    mean_interval(if of_runs.len() > 1 { of_runs } else { draws }).unwrap_or(NONE)
}

/// The 99th percentile over runs, three or more, each of which tells it.
fn p99_over(runs: &[SimulatedRun]) -> Option<Interval> {
    let of_runs: Option<Vec<f64>> = runs.iter().map(|run| run.p99_ns).collect();
    mean_interval(&of_runs?).filter(|p99| p99.n >= 3)
}

/// The numbers of a phase over all its replays; `of_runs` are the block and model time of each run.
fn of_phase(models: &[&PhaseModel], of_runs: Vec<(u32, f64)>, count: u64) -> Row {
    let count = count.max(1) as f64;
    let each = |of: &dyn Fn(&PhaseModel) -> u64| -> Vec<f64> {
        models.iter().map(|model| of(model) as f64 / count).collect()
    };
    let mean = |of: &dyn Fn(&PhaseModel) -> u64| {
        let all = each(of);
        all.iter().sum::<f64>() / all.len().max(1) as f64
    };
    let model_ns = each(&|model| model.model_ns);
    let of_each: Vec<f64> = of_runs.iter().map(|run| run.1).collect();
    let rates = |all: &[f64]| -> Vec<f64> { all.iter().map(|ns| 1e9 / ns.max(1e-3)).collect() };
    let is_told = models.iter().all(|model| model.latency_ns[5] > 0);
    let latency = |place: usize| is_told.then(|| mean(&|model| model.latency_ns[place]) * count);
    Row {
        cell: 0,
        label: String::new(),
        title: String::new(),
        durability: None,
        phase: String::new(),
        x: None,
        unit: String::new(),
        device: String::new(),
        by_the_device: false,
        count: 0,
        runs: 0,
        draws: 0,
        rate: over_runs(&rates(&of_each), &rates(&model_ns)),
        model_ns: over_runs(&of_each, &model_ns),
        cpu_ns: mean(&|model| model.cpu_ns),
        device_ns: mean(&|model| model.device_ns),
        other_ns: mean(&|model| model.other_ns),
        p50_ns: latency(1),
        p99_ns: latency(3),
        p99_interval: None,
        p999_ns: latency(4),
        flushes: mean(&|model| model.operations[2]),
        written_bytes: mean(&|model| model.bytes[1]),
        read_bytes: mean(&|model| model.bytes[0]),
        of_runs,
        each_run: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use fathom_probe::Mark;
    use fathom_workload::sample::{LaneSpan, PhaseSummary, Window};

    use super::*;

    /// One run in twenty may lose its marks. Its times have no CPU time, so that a mean over it and
    /// the others would be of nothing.
    #[test]
    fn one_run_whose_threads_are_not_seen_makes_a_cell_of_the_device_alone() {
        let lane = LaneSpan { thread: 0, marked: vec![7], start_ns: 1, end_ns: 2 };
        let window = Window {
            phase: "update".into(),
            x: None,
            start_ns: 1,
            end_ns: 2,
            count: 1,
            changed_bytes: 0,
            lanes: vec![lane],
            excluded: Vec::new(),
        };
        let unseen = Recording { windows: vec![window], ..Recording::default() };
        let seen = Recording { threads: [(7, vec![Mark::default(); 2])].into(), ..unseen.clone() };
        let is_of = |by: ByTheDevice, all: &[&Recording]| by.is_of(all.iter().copied());
        assert!(is_of(ByTheDevice::Unseen, &[&seen, &unseen]));
        assert!(!is_of(ByTheDevice::Unseen, &[&seen, &seen]));
        assert!(is_of(ByTheDevice::All, &[&seen]) && !is_of(ByTheDevice::Never, &[&seen, &unseen]));
    }

    /// What happened: a run of three had lost its marks, the numbers were those of the two others,
    /// and nothing said so.
    #[test]
    fn runs_that_cannot_be_replayed_are_told_beside_those_that_can() {
        let why = || Some("what its threads did is not known".to_owned());
        assert_eq!(left_out(3, 3, None), None);
        let one = "1 of 3 runs is not in the numbers: what its threads did is not known";
        assert_eq!(left_out(3, 2, why()).as_deref(), Some(one));
        let two = "2 of 3 runs are not in the numbers: no recording of their operations was kept";
        assert_eq!(left_out(3, 1, None).as_deref(), Some(two));
    }

    /// What happened: of a phase whose name was mistyped the reason was given for which one of the
    /// cells cannot be replayed; and of such a cell itself, asked for by its label, that there is
    /// none of this name.
    #[test]
    fn a_name_that_nothing_has_is_told_before_what_cannot_be_replayed() {
        let without = [("SMS mmdb".to_owned(), "several executed at once".to_owned())];
        let told = |cell: Option<&str>, phase: Option<&str>, has_asked| {
            let (cell, phase) = (cell.map(str::to_owned), phase.map(str::to_owned));
            let question = Question { cell, phase, ..Question::default() };
            let known = (vec!["SMS mmdb".to_owned()], vec!["send".to_owned()]);
            why_nothing(&question, "a.db".into(), has_asked, known, &without).to_string()
        };
        assert!(told(None, Some("sned"), true).starts_with("no phase is called \"sned\""));
        assert!(told(Some("sms redis"), None, false).starts_with("no cell is called \"sms redis\""));
        let cannot = "a.db: nothing can be simulated: SMS mmdb: several executed at once";
        assert_eq!(told(Some("sms/mmdb"), None, true), cannot);
        assert_eq!(told(None, Some("send"), true), cannot);
    }

    /// What happened: every phase had the unit of the first cell's that has one of its name, so
    /// that operations on files were transactions where SQLite's cell came before.
    #[test]
    fn a_phase_has_the_unit_of_its_own_run() {
        let phase = |run: i64, unit: &str| PhaseOfRun {
            run,
            summary: PhaseSummary {
                phase: "insert".into(),
                x: None,
                unit: unit.into(),
                count: 1,
                wall_ns: 1,
                latency_ns: [1; 6],
                split: Default::default(),
                lock_wait_ns: None,
                lock_waits: None,
                critical_path: None,
            },
        };
        let phases = [phase(1, "transaction"), phase(2, "operation")];
        assert_eq!(unit_of(&phases, 2, "insert"), "operation");
        assert_eq!(unit_of(&phases, 1, "insert"), "transaction");
        assert_eq!(unit_of(&phases, 2, "x"), "");
    }

    /// What happened: by the device alone queries that read nothing from it came at
    /// 1,000,000,000,000 a second, and were the fastest.
    #[test]
    fn what_takes_no_time_has_no_rate() {
        assert_eq!(takes_no_time(&[(0, 12.0), (1, 11.0)], "select", "sd-slow"), None);
        let why = takes_no_time(&[(0, 12.0), (1, 0.0)], "select", "sd-slow").unwrap();
        assert!(why.starts_with("select on sd-slow: it takes no time"), "{why}");
    }

    /// p99 had no interval here, where the advice had one of the same runs.
    #[test]
    fn p99_has_an_interval_over_three_runs_that_tell_it() {
        let run = |p99_ns: Option<f64>| SimulatedRun {
            block: 0,
            model_ns: 1.0,
            p50_ns: None,
            p99_ns,
            p999_ns: None,
            max_ns: None,
            slowest: None,
        };
        let over = |all: &[Option<f64>]| p99_over(&all.iter().map(|p99| run(*p99)).collect::<Vec<_>>());
        assert_eq!(over(&[Some(4.0), Some(1.0), Some(2.0)]), mean_interval(&[4.0, 1.0, 2.0]));
        assert_eq!((over(&[Some(4.0), Some(1.0)]), over(&[Some(1.0), None, Some(2.0)])), (None, None));
        assert_eq!(over(&[]), None);
    }

    /// What happened: three recordings of one setting took 1.35, 1.51 and 1.98 ms a transaction on
    /// `ufs-fresh`, and 40 draws of each made 120 measurements of them: 1.59 ms [1.55, 1.64], an
    /// interval that holds one of the three runs.
    #[test]
    fn draws_of_one_run_are_no_further_runs() {
        let runs = [1.3516e6, 1.5097e6, 1.9758e6];
        let draws: Vec<f64> = runs
            .iter()
            .flat_map(|run| (0..40).map(move |draw| run * (0.98 + 0.001 * f64::from(draw))))
            .collect();
        let found = over_runs(&runs, &draws);
        assert_eq!(found, mean_interval(&runs).unwrap());
        assert!(found.n == 3 && found.low < runs[0] && found.high > runs[2], "{found:?}");
        // Of one run there is the device's luck, and of one draw nothing.
        assert_eq!(over_runs(&runs[..1], &draws[..40]).n, 40);
        assert_eq!(over_runs(&runs[..1], &runs[..1]).coverage, 0.0);
        assert_eq!(over_runs(&[], &[]).n, 0);
    }
}
