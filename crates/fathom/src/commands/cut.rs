//! `fathom cut`: what a power cut leaves of a database, for each setting and file system.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_cut::{
    AcknowledgedContents, Behaviour, CutError, Explanation, History, Keeps, Limits, MMDB, POSTGRESQL,
    RecordedRun, Run, SMSC, Script, Side, has_own_work, has_server, judge, record,
};
use fathom_device::{Kind, Model, external_of};
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};
use fathom_lab::experiment::{Experiment, Selection, Vocabulary, builtin_named};
use fathom_lab::naming::title_of_words;
use fathom_lab::schedule::Interrupt;
use fathom_output::{Access, OutputError, shown_path, tell};
use fathom_report::{Cut, Cuts};
use fathom_stack::guest::Kernel;
use fathom_stack::{Machine, StackError, StackSpec};
use fathom_workload::engine::check_settings;
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use serde_json::Value as Json;

use crate::cli::{CutArgs, KeepsArg};
use crate::outcome::{Error, Outcome};

mod recordings;

use recordings::{Recordings, is_index, log_of, recorded_in};

/// Smallest image that every file system of a kind takes, beyond its own smallest, MiB.
const SIZE_MIB: u64 = 64;
/// The same where a cluster of PostgreSQL's lies on it, which has 40 MiB and as much log.
const CLUSTER_MIB: u64 = 256;
/// Time that each run has, whatever those before it have left.
const RUN_LEAST: Duration = Duration::from_secs(10);

/// Settings of a cell.
#[derive(Clone, Debug)]
struct Cell {
    filesystem: String,
    settings: BTreeMap<String, Json>,
    label: String,
}

/// Does what was asked.
pub fn run(asked: &CutArgs) -> super::Result {
    if !asked.table.is_empty() {
        return table(&asked.table);
    }
    let interrupt = Interrupt::new();
    let done = match &asked.replay {
        Some(directory) => replay(asked, directory, &interrupt),
        None => tried_all(asked, &interrupt),
    };
    // What was begun is gone with it, and what was found until then is shown.
    if let (Err(error), Some(signal)) = (&done, interrupt.signal()) {
        tell!("error: {}", error.message());
        crate::ending::as_the_signal(signal);
    }
    done
}

/// Records every cell and judges its states.
fn tried_all(asked: &CutArgs, interrupt: &Interrupt) -> super::Result {
    if asked.state.is_some() || asked.image.is_some() {
        let option = if asked.state.is_some() { "--state" } else { "--image" };
        return Err(Error::usage(format!("{option} is for --replay DIR, which names the recordings")));
    }
    let workload = workload(asked)?;
    let cells = cells(asked)?;
    check_piece(asked)?;
    let model = fathom_device::device_model(&asked.device)
        .map_err(|problem| Error::usage(format!("--device: {problem}")))?;
    let behaviour = behaviour(asked, &model)?;
    check_machine()?;
    let directory = super::simulate::directory(asked.dir.as_deref())?;
    fathom_stack::trusted_state().map_err(Error::failed)?;
    // What no cell can be made with is said before the first one has taken its time.
    let machine = Machine::here();
    let stacks: Vec<StackSpec> = cells.iter().map(|cell| stack(asked, cell, &machine, &directory)).collect();
    if let Some(problem) = stacks.iter().flat_map(|stack| stack.check(&machine)).next() {
        return Err(Error::usage(StackError::from(problem)));
    }
    super::open_stdout()?;
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))?;
    let mut recordings = Recordings::new(asked.record.as_deref())?;
    let mut cuts = Cuts::default();
    let begin = Instant::now();
    for (number, (cell, stack)) in (1..).zip(cells.iter().zip(stacks)) {
        if interrupt.is_raised() {
            break;
        }
        let left = Duration::from_secs(asked.time).saturating_sub(begin.elapsed());
        let share = left / u32::try_from(cells.len() + 1 - number).unwrap_or(1).max(1);
        note(&format!("{number} of {}: {}", cells.len(), title_of_words(&cell.label)));
        let stop = Stop { interrupt, end: end_of(begin, asked.time) };
        let found = recordings
            .begin(number)
            .and_then(|log| tried(asked, cell, stack, workload.as_ref(), behaviour, &log, share, &stop));
        if let Ok(Some((recorded, _))) = &found {
            recordings.done(number, recorded);
        }
        recordings.remove_undone();
        match found {
            Ok(Some((recorded, outcome))) => {
                cuts.cells.push(Cut::new(number, cell.label.clone(), recorded, outcome));
            }
            Ok(None) => break,
            Err(CutError::Stack(error @ (StackError::Unavailable { .. } | StackError::NeedsRoot { .. }))) => {
                cuts.without.push((cell.label.clone(), error.to_string()));
            }
            Err(CutError::Stack(error @ StackError::Spec { .. })) => return Err(Error::usage(error)),
            Err(error) => {
                cuts.without.push((cell.label.clone(), super::full::in_options_of_cut(&error.to_string())))
            }
        }
    }
    let kept = recordings.keep();
    // What was found is shown, whatever became of the recordings.
    let directory = kept.as_ref().ok().and_then(Option::as_deref);
    let shown = show(asked, &cuts, interrupt, directory);
    kept.and(shown)
}

/// Records a cell and judges its states; none if it was interrupted.
#[expect(clippy::too_many_arguments, reason = "each is one thing that a cell takes")]
fn tried(
    asked: &CutArgs,
    cell: &Cell,
    stack: StackSpec,
    workload: Option<&WorkloadSpec>,
    behaviour: Behaviour,
    log: &Path,
    time: Duration,
    stop: &Stop<'_>,
) -> Result<Option<(RecordedRun, fathom_cut::Outcome)>, CutError> {
    let commits = usize::try_from(asked.commits).unwrap_or(usize::MAX);
    let is_over = || stop.is_over();
    let script = match workload {
        Some(workload) => {
            let script = Script::of_workload(workload, &cell.settings, asked.seed, commits, &is_over);
            if stop.interrupt.is_raised() {
                return Ok(None);
            }
            script?
        }
        None => Script::built_in(asked.commits, asked.seed),
    };
    let acknowledged =
        if has_own_work(&asked.engine) { None } else { Some(AcknowledgedContents::of(&script)?) };
    let run = Run {
        script,
        engine: EngineSpec { name: asked.engine.clone(), settings: cell.settings.clone() },
        seed: asked.seed,
        confined: workload.is_some(),
        stack,
    };
    let begin = Instant::now();
    let recording = record(&run, log, &is_over)?;
    if stop.interrupt.is_raised() {
        return Ok(None);
    }
    // Of a part of a run nothing is said: it would look like the whole.
    if recording.interrupted {
        return Err(CutError::Usage(
            "its run was not done within --time: give more time, or fewer --commits".into(),
        ));
    }
    if let Some(acknowledged) = acknowledged {
        recording.check(&acknowledged)?;
    }
    let script = workload.map(|_| run.script);
    let recorded = RecordedRun::of(&recording, asked.commits, asked.seed, script, behaviour);
    let left = time.saturating_sub(begin.elapsed());
    let outcome = judged(asked, &recorded, &recording.history, left, stop.interrupt)?;
    Ok(Some((recorded, outcome)))
}

/// What ends a run before its end.
struct Stop<'a> {
    interrupt: &'a Interrupt,
    /// When the time for all is over.
    end: Option<Instant>,
}

impl Stop<'_> {
    fn is_over(&self) -> bool {
        self.interrupt.is_raised() || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// When a run that begins now has to be done, of so many seconds for all; none: it may take as
/// long as it does.
fn end_of(begin: Instant, seconds: u64) -> Option<Instant> {
    let end = (seconds > 0).then(|| begin.checked_add(Duration::from_secs(seconds))).flatten()?;
    Some(end.max(Instant::now() + RUN_LEAST))
}

/// What a cell is recorded on.
fn stack(asked: &CutArgs, cell: &Cell, machine: &Machine, directory: &Path) -> StackSpec {
    let smallest = machine.filesystem(&cell.filesystem).map_or(0, |filesystem| filesystem.min_mib);
    let usual = if has_server(&asked.engine, &cell.settings) { CLUSTER_MIB } else { SIZE_MIB };
    StackSpec {
        place: cell.filesystem.as_str().into(),
        mkfs: asked.mkfs.clone(),
        mount: asked.mount.clone(),
        size_mib: asked.size.unwrap_or(usual.max(smallest)),
        log_mib: asked.log,
        directory: Some(directory.to_owned()),
        device: Some(asked.device.clone()),
        device_seed: asked.seed,
        guest: asked.guest,
        ..StackSpec::default()
    }
}

/// The table of what was printed as JSON.
fn table(files: &[PathBuf]) -> super::Result {
    let mut all = Cuts::default();
    for file in files {
        let wrong =
            |error: &dyn std::fmt::Display| Error::usage(format!("--table {}: {error}", shown_path(file)));
        let wanted = "what `fathom cut --json` has printed";
        let text = std::fs::read_to_string(file)
            .map_err(|error| wrong(&format!("{error}; give a file of {wanted}")))?;
        let read: Cuts = serde_json::from_str(&text).map_err(|error| {
            if !is_index(&text) {
                return wrong(&format!("it is not {wanted}: {error}"));
            }
            let above = file.parent().filter(|above| !above.as_os_str().is_empty());
            let directory = shown_path(above.unwrap_or(Path::new(".")));
            wrong(&format!(
                "it says what recordings are of, and not what became of them: give {wanted}, of these recordings \
                 with --replay {directory}"
            ))
        })?;
        all.cells.extend(read.cells);
    }
    super::open_stdout()?;
    fathom_output::raw(&all.markdown());
    Ok(Outcome::Good)
}

/// The states of recorded runs again, all or a piece.
fn judge_again(asked: &CutArgs, directory: &Path, interrupt: &Interrupt) -> super::Result {
    if asked.image.is_some() {
        return Err(Error::usage("--image is of one state: --state CELL/STATE, as the table names it"));
    }
    check_piece(asked)?;
    let recorded_cells = recorded_in(directory)?;
    check_machine()?;
    super::open_stdout()?;
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))?;
    let mut cuts = Cuts::default();
    let begin = Instant::now();
    let cells = recorded_cells.len();
    for (place, (number, recorded)) in recorded_cells.into_iter().enumerate() {
        let left = Duration::from_secs(asked.time).saturating_sub(begin.elapsed());
        let share = left / u32::try_from(cells - place).unwrap_or(1).max(1);
        let setting = |key: &str| recorded.settings.get(key).map_or("", String::as_str);
        let place = word_of(&recorded.filesystem.driver, recorded.log_bytes.is_some());
        let label = match setting("journal_mode") {
            "" => place,
            mode => format!("{place} {mode}/{}", setting("synchronous")),
        };
        let history = recorded.history(&log_of(directory, number)).map_err(asked_or_failed)?;
        let outcome = judged(asked, &recorded, &history, share, interrupt).map_err(asked_or_failed)?;
        cuts.cells.push(Cut::new(number, label, recorded, outcome));
        if interrupt.is_raised() {
            break;
        }
    }
    show(asked, &cuts, interrupt, Some(directory))
}

fn check_piece(asked: &CutArgs) -> Result<(), Error> {
    if asked.from < asked.states {
        return Ok(());
    }
    Err(Error::usage(format!("--from {}: the last state is --states {}", asked.from, asked.states)))
}

/// Judges what was asked for of a recording, within its share of the time.
fn judged(
    asked: &CutArgs,
    recorded: &RecordedRun,
    history: &History,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<fathom_cut::Outcome, CutError> {
    let limits = Limits {
        from: usize::try_from(asked.from).unwrap_or(usize::MAX),
        states: usize::try_from(asked.states).unwrap_or(usize::MAX),
        time: (asked.time > 0).then(|| time.max(Duration::from_secs(1))),
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    judge(recorded, history, threads, limits, &|| interrupt.is_raised(), &|_, _| {})
}

/// Prints what was found, and says whether it is as promised; `kept`: the directory of the
/// recordings.
fn show(asked: &CutArgs, cuts: &Cuts, interrupt: &Interrupt, kept: Option<&Path>) -> super::Result {
    if asked.json {
        super::print_json(cuts)?;
    } else if !cuts.cells.is_empty() || !cuts.without.is_empty() {
        fathom_output::raw(&cuts.terminal(&super::style(), kept));
    }
    if interrupt.is_raised() {
        let kept = asked.record.as_ref().and(kept);
        let kept = kept.map_or_else(String::new, |kept| {
            format!("; the runs that were done are kept in {}", shown_path(kept))
        });
        let said = "stopped before everything was tried: what was begun is removed";
        return Err(Error::failed(format!("{said}{kept}")));
    }
    let untried = cuts.cells.iter().find(|cell| cell.outcome.tally.states == 0);
    let failed =
        cuts.breaks_promise() || cuts.cells.is_empty() || !cuts.without.is_empty() || untried.is_some();
    if cuts.breaks_promise() {
        tell!("error: a power cut takes more than the settings promise (!)");
    } else if let Some(cell) = untried {
        let possible = cell.outcome.states_possible;
        tell!(
            "error: {}: no state was judged: it has {possible}, from 0 on, and --from is {}",
            fathom_output::shown(&cell.title()),
            asked.from
        );
    } else if failed {
        tell!("error: not everything could be tried");
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Good })
}

/// One state of a recorded run again.
fn replay(asked: &CutArgs, directory: &Path, interrupt: &Interrupt) -> super::Result {
    let Some(state) = &asked.state else {
        return judge_again(asked, directory, interrupt);
    };
    let numbers =
        state.split_once('/').and_then(|(cell, state)| Some((cell.parse().ok()?, state.parse().ok()?)));
    let Some((cell, number)): Option<(usize, usize)> = numbers else {
        return Err(Error::usage(format!("--state {state}: two numbers are asked for, as in 1/17")));
    };
    let cells = recorded_in(directory)?;
    let Some(recorded) = cells.get(&cell) else {
        let known: Vec<String> = cells.keys().map(usize::to_string).collect();
        return Err(Error::usage(format!(
            "--state {state}: there is no cell {cell}, but {}",
            known.join(", ")
        )));
    };
    check_machine()?;
    super::open_stdout()?;
    super::tidy_up_on_signals()?;
    let history = recorded.history(&log_of(directory, cell)).map_err(asked_or_failed)?;
    if let Some(image) = &asked.image {
        if fathom_output::is_standard_output(image) {
            return Err(Error::usage(
                "--image -: the explanation goes to standard output; name a file for the image",
            ));
        }
        let devices = std::iter::once((image.clone(), Side::Main))
            .chain(recorded.log_bytes.map(|_| (external_of(image), Side::Log)));
        for (file, side) in devices {
            // What is asked for is a new file: another one of that name would be gone.
            if file.symlink_metadata().is_ok_and(|found| found.is_file() || found.is_symlink()) {
                return Err(Error::usage(format!(
                    "--image {}: is there already; give a new name",
                    shown_path(&file)
                )));
            }
            fathom_output::write(&file, &[directory], Access::Private, |out| {
                recorded.copy_to(&history, number, side, out).map_err(ImageError::Cut)
            })
            .map_err(|error| match error {
                ImageError::Cut(error) => asked_or_failed(error),
                ImageError::Output(error) => super::refused_or_failed("--image", error),
            })?;
            tell!("Image: {}", shown_path(&file));
        }
    }
    let explanation = recorded.explain(&history, number).map_err(asked_or_failed)?;
    if asked.json {
        return super::print_json(&explanation);
    }
    fathom_output::raw(&shown(state, &explanation));
    Ok(Outcome::Good)
}

/// Why there is no image.
enum ImageError {
    Cut(CutError),
    Output(OutputError),
}

impl From<OutputError> for ImageError {
    fn from(error: OutputError) -> ImageError {
        ImageError::Output(error)
    }
}

fn shown(state: &str, explanation: &Explanation) -> String {
    let style = super::style();
    let head = fathom_output::shown(&format!("{state}: {}", explanation.verdict)).to_string();
    let lines: Vec<String> = explanation
        .lines
        .iter()
        .map(|line| style.paragraph("    ", &fathom_output::shown(line).to_string()))
        .collect();
    format!("  {}\n{}", style.bold(&head), lines.concat())
}

fn asked_or_failed(error: CutError) -> Error {
    match error {
        CutError::Usage(_) | CutError::Log { .. } => Error::usage(error),
        error => Error::failed(error),
    }
}

/// Root mounts what a cut leaves, or a guest does.
fn check_machine() -> Result<(), Error> {
    if fathom_ground::system::is_root() || Kernel::cached().is_some() {
        return Ok(());
    }
    Err(Error::failed(
        "fathom cut mounts a file system for each state that a power cut leaves, which needs root (run it with sudo) or the guest kernel (fathom stack kernel builds it)",
    ))
}

fn note(line: &str) {
    if std::io::stderr().is_terminal() {
        tell!("{}", fathom_output::shown(line));
    }
}

/// How the device behaves at a cut: as told, else as its model says.
fn behaviour(asked: &CutArgs, model: &Model) -> Result<Behaviour, Error> {
    let keeps = match asked.keeps {
        Some(KeepsArg::Flushed) => Keeps::Flushed,
        Some(KeepsArg::Lying) => Keeps::Lies,
        Some(KeepsArg::Protected) => Keeps::Answered,
        None if model.kind == Kind::Protected => Keeps::Answered,
        None => Keeps::Flushed,
    };
    let tear_bytes = match asked.tear {
        None => model.tear_bytes,
        Some(bytes @ (512 | 4096)) => bytes,
        Some(bytes) => return Err(Error::usage(format!("--tear {bytes}: it is 512 or 4096 bytes"))),
    };
    Ok(Behaviour { keeps, tear_bytes })
}

/// What is done instead of the built-in script.
fn workload(asked: &CutArgs) -> Result<Option<WorkloadSpec>, Error> {
    let mut params = BTreeMap::new();
    for (key, value) in asked.set.iter().filter_map(|word| word.strip_prefix("workload.")?.split_once('=')) {
        if params.insert(key.trim().to_owned(), typed(value.trim())).is_some() {
            return Err(Error::usage(format!("--set workload.{key}: it is given twice")));
        }
    }
    if has_own_work(&asked.engine) && (asked.trace.is_some() || asked.workload.is_some()) {
        return Err(Error::usage(format!(
            "--engine {} has work of its own: leave out --trace and --workload",
            asked.engine
        )));
    }
    let name = match (&asked.trace, &asked.workload) {
        (Some(word), _) => {
            let trace = super::run::trace(word)?;
            params.insert(trace.parameter.to_owned(), Json::from(trace.value));
            "trace"
        }
        (None, Some(name)) => name,
        (None, None) if params.is_empty() => return Ok(None),
        (None, None) => {
            return Err(Error::usage("--set workload.NAME=VALUE is for --workload or --trace: say which"));
        }
    };
    let spec = WorkloadSpec { name: name.to_owned(), params };
    fathom_workload::create(&spec).map_err(Error::usage)?;
    if fathom_workload::workload_named(name).is_some_and(|kind| !kind.needs_engine) {
        return Err(Error::usage(format!(
            "--workload {name}: it asks no engine, and power cuts are tried of SQLite"
        )));
    }
    Ok(Some(spec))
}

/// A value as it is meant: number, truth or word.
fn typed(value: &str) -> Json {
    match (value.parse::<i64>(), value.parse::<f64>(), value.parse::<bool>()) {
        (Ok(number), _, _) => Json::from(number),
        (_, Ok(number), _) => Json::from(number),
        (_, _, Ok(truth)) => Json::from(truth),
        _ => Json::from(value),
    }
}

/// The cells of `--set`, each setting checked.
fn cells(asked: &CutArgs) -> Result<Vec<Cell>, Error> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for word in asked.set.iter().filter(|word| !word.starts_with("workload.")) {
        let Some((key, values)) = word.split_once('=') else {
            return Err(Error::usage(format!("--set {word}: write KEY=VALUE, e.g. journal_mode=wal")));
        };
        let key = key.trim();
        let key = key.strip_prefix("engine.").or(key.strip_prefix("stack.")).unwrap_or(key).to_owned();
        if axes.iter().any(|axis| axis.0 == key) {
            return Err(Error::usage(format!(
                "--set {key}: it is given twice; several values stand with commas"
            )));
        }
        // A path may hold a comma.
        let split = |values: &str| values.split(',').map(|part| part.trim().to_owned()).collect();
        let is_path = ["library", "bin_directory"].contains(&&*key);
        let values: Vec<String> = if is_path { vec![values.to_owned()] } else { split(values) };
        if let Some(twice) = values.iter().enumerate().find(|names| values[..names.0].contains(names.1)) {
            return Err(Error::usage(format!("--set {key}: {} is given twice", twice.1)));
        }
        axes.push((key, values));
    }
    let machine = Machine::here();
    let is_said = |axes: &[(String, Vec<String>)], key: &str| axes.iter().any(|axis| axis.0 == key);
    if !is_said(&axes, "filesystem") {
        axes.insert(0, ("filesystem".into(), vec!["ext4".into()]));
    }
    let has_own_work = has_own_work(&asked.engine);
    let first_look = !has_own_work && !is_said(&axes, "journal_mode") && !is_said(&axes, "synchronous");
    for (key, default) in [("journal_mode", "delete,wal"), ("synchronous", "full")] {
        if !has_own_work && !first_look && !is_said(&axes, key) {
            axes.push((key.into(), default.split(',').map(Into::into).collect()));
        }
    }
    for name in axes.iter().filter(|axis| axis.0 == "filesystem").flat_map(|axis| &axis.1) {
        if name == "dir" {
            return Err(Error::usage(
                "--set filesystem=dir: a directory has no device of its own whose power could be cut",
            ));
        }
        if machine.filesystem(name).is_none() {
            let near = nearest(name, machine.filesystems().iter().map(|filesystem| &*filesystem.name));
            return Err(Error::usage(format!(
                "--set filesystem={name}: there is none of this name{}",
                did_you_mean_hint(near)
            )));
        }
    }
    let mut cells: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    for (key, values) in &axes {
        let with = |cell: &BTreeMap<String, String>, value: &String| {
            let mut cell = cell.clone();
            cell.insert(key.clone(), value.clone());
            cell
        };
        cells = cells.iter().flat_map(|cell| values.iter().map(move |value| with(cell, value))).collect();
    }
    if first_look {
        let modes = first_look_settings()?;
        let with = |cell: &BTreeMap<String, String>| {
            let merged = |mode: &BTreeMap<String, String>| {
                let mut merged = mode.clone();
                merged.extend(cell.clone());
                merged
            };
            modes.iter().map(merged).collect::<Vec<_>>()
        };
        cells = cells.iter().flat_map(with).collect();
    }
    let several: Vec<&str> =
        axes.iter().filter(|axis| axis.1.len() > 1).map(|axis| axis.0.as_str()).collect();
    cells.into_iter().map(|cell| checked(asked, cell, &several)).collect()
}

/// What is tried where nothing is said: journal mode and synchronous setting of first-look's cells.
fn first_look_settings() -> Result<Vec<BTreeMap<String, String>>, Error> {
    let failed = |problem: &dyn std::fmt::Display| Error::failed(format!("first-look: {problem}"));
    let builtin = builtin_named("first-look").ok_or_else(|| failed(&"it is not built in"))?;
    let experiment = Experiment::parse("built-in", builtin.source).map_err(|error| failed(&error))?;
    let cells = experiment.cells(&Selection::default(), &Vocabulary::here());
    let settings = |cell: &fathom_lab::cell::Cell| {
        let engine = cell.engine.iter().flat_map(|engine| &engine.settings);
        engine
            .filter(|(key, _)| ["journal_mode", "synchronous"].contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    Ok(cells.map_err(|error| failed(&error))?.cells.iter().map(|(_, cell)| settings(cell)).collect())
}

/// A file system in a label: one word, as tables know it.
fn word_of(filesystem: &str, has_log: bool) -> String {
    format!("{filesystem}{}", if has_log { "+log" } else { "" })
}

/// A cell with its settings as the engine takes them.
fn checked(asked: &CutArgs, mut words: BTreeMap<String, String>, several: &[&str]) -> Result<Cell, Error> {
    let engine = asked.engine.as_str();
    let filesystem = words.remove("filesystem").unwrap_or_default();
    let place = word_of(&filesystem, asked.log.is_some());
    let settings: BTreeMap<String, Json> =
        words.iter().map(|(key, value)| (key.clone(), typed(value))).collect();
    let of = |key: &str| words.get(key).map_or("", String::as_str);
    let mut label = if engine == SMSC {
        let kind =
            fathom_cut::store_kind(&settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        return Ok(Cell { label: format!("{place} {SMSC}/{}", kind.name()), filesystem, settings });
    } else if engine == MMDB {
        fathom_cut::mmdb_options(&settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {MMDB}")
    } else if engine == POSTGRESQL {
        check_settings(engine, &settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {POSTGRESQL}")
    } else {
        check_settings("sqlite", &settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {}/{}", of("journal_mode"), of("synchronous"))
    };
    for key in several.iter().filter(|key| !["filesystem", "journal_mode", "synchronous"].contains(key)) {
        label += &format!(" {key}={}", of(key));
    }
    Ok(Cell { filesystem, settings, label })
}
