//! `fathom run` as one call: from an experiment file to a filled results file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::analysis::Analysis;
use crate::experiment::{Cells, Diagnostic, Experiment, Selection, Vocabulary};
use crate::momentary::{at_end, is_momentary};
use crate::plan::{Machine, Needs, Plan, PlanDiffers, PlannedRun};
use crate::schedule::{Ending, Limits, Precision, Progress, Summary, World, cut_each, go_on};
use crate::store::{ExperimentRow, Results, StoreError, Writer};

/// Seed of experiments that name none.
pub const DEFAULT_SEED: u64 = 1;

/// What `fathom run` is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// What errors call the file: its path, or `built-in`.
    pub source_name: String,
    /// The experiment file, whole.
    pub source: String,
    /// `--quick`, `--repeat`, `--set`.
    pub selection: Selection,
    /// `--seed`; none = that of the results that are gone on with, the experiment file's, or
    /// [`DEFAULT_SEED`].
    pub seed: Option<u64>,
    /// Where stacks are made (`--dir`).
    pub directory: PathBuf,
    /// The results file (`--out`).
    pub out: PathBuf,
    /// `--resume`.
    pub resume: bool,
    /// Longest time of one run; none = the file's.
    pub time_limit: Option<Duration>,
    /// `--until`: more runs, until every value is known to within this share of it.
    pub until: Option<f64>,
    /// `--budget`: no block is begun that would not be over within this time.
    pub budget: Option<Duration>,
    /// Blocks that are made whatever the budget.
    pub firm: u32,
    /// The exact command that repeats this, for the record.
    pub command: String,
}

/// An experiment that is ready to run.
#[derive(Debug)]
pub struct Preparation {
    /// The experiment.
    pub experiment: Experiment,
    /// Its cells.
    pub cells: Cells,
    /// What is run here and in which order.
    pub plan: Plan,
    /// The runs to be made: all of the plan, or those that the earlier results lack.
    pub turns: Vec<PlannedRun>,
    /// With `--resume`, the results so far.
    pub earlier: Option<Results>,
    /// What ends it before its last block.
    pub ending: Ending,
    /// Whether it is a look, which ends after [`LOOK`].
    pub is_look: bool,
}

/// How long a look (`--quick`) may take, where nothing else says when it is over: so that with the
/// run that is under way then, making the tables and taking stacks down it is over in two minutes.
pub const LOOK: Duration = Duration::from_secs(95);

/// With `--until` and without `--repeat`: so many times as many runs as the experiment asks for are
/// the most.
const MOST_REPEATS: u32 = 10;

/// Why an experiment did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file or a `--set` is wrong.
    #[error(transparent)]
    Experiment(#[from] Diagnostic),
    /// `--resume` with another plan.
    #[error("{}: {source}", path.display())]
    Differs {
        /// The results file.
        path: PathBuf,
        /// What differs.
        source: PlanDiffers,
    },
    /// `--resume` without results.
    #[error("{}: there are no results to go on with; leave out `--resume` to begin", path.display())]
    NothingToResume {
        /// The results file.
        path: PathBuf,
    },
    /// Every cell is skipped here.
    #[error("nothing can be run: all {cells} cells are skipped here. {reason}")]
    AllSkipped {
        /// Their number.
        cells: usize,
        /// The first one's reason and remedy.
        reason: String,
    },
    /// A machine of `--on` cannot be asked.
    #[error("{0}")]
    Machine(String),
    /// The results file cannot be made, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RunError {
    /// Whether the user asked wrongly (exit code 2) or something failed (exit code 1).
    #[must_use]
    pub fn asked_wrongly(&self) -> bool {
        match self {
            RunError::Experiment(_) | RunError::Differs { .. } | RunError::NothingToResume { .. } => true,
            RunError::Store(error) => error.is_of_the_name(),
            RunError::AllSkipped { .. } | RunError::Machine(_) => false,
        }
    }
}

/// Reads and checks the experiment and plans its runs on this machine. Nothing is made or written.
///
/// # Errors
/// What is wrong with the file or a `--set`, with its place. With `--resume`: results that are
/// missing, cannot be read, or are of another plan.
pub fn prepare(request: &Request) -> Result<Preparation, RunError> {
    planned(request, &mut |cells| Ok(Machine::here(cells)))
}

/// As [`prepare`], on the machines of `request.selection.machines`, which are those of `world`.
///
/// # Errors
/// As [`prepare`], and a machine that cannot be asked.
pub fn prepare_on(request: &Request, world: &mut dyn World) -> Result<Preparation, RunError> {
    planned(request, &mut |cells| {
        let needs = Needs::of(cells);
        let mut machine = Machine::default();
        for name in &request.selection.machines {
            machine = machine.with(name, world.capabilities(name, needs).map_err(RunError::Machine)?);
        }
        Ok(machine)
    })
}

fn planned(
    request: &Request,
    machine: &mut dyn FnMut(&Cells) -> Result<Machine, RunError>,
) -> Result<Preparation, RunError> {
    let vocabulary = Vocabulary::here();
    let experiment = Experiment::parse(&request.source_name, &request.source)?;
    let mut cells = experiment.cells(&request.selection, &vocabulary)?;
    let mut ending =
        Ending { until: request.until, budget: request.budget, least: cells.repeats, firm: request.firm };
    if request.until.is_some() {
        // `--repeat` is the most then, and the file says what is the least.
        let of_file =
            experiment.cells(&Selection { repeat: None, ..request.selection.clone() }, &vocabulary)?;
        let most = request.selection.repeat.unwrap_or(of_file.repeats.saturating_mul(MOST_REPEATS));
        ending.least = of_file.repeats.min(most);
        cells =
            experiment.cells(&Selection { repeat: Some(most), ..request.selection.clone() }, &vocabulary)?;
    }
    // What --quick would make is checked too, so that a file that runs also runs quickly.
    if !request.selection.quick {
        experiment.cells(&Selection { quick: true, ..request.selection.clone() }, &vocabulary)?;
    }
    let earlier = if request.resume { Some(earlier(&request.out)?) } else { None };
    let of_earlier = earlier.as_ref().map(|results| results.experiment.seed);
    let seed = request.seed.or(of_earlier).or(experiment.seed).unwrap_or(DEFAULT_SEED);
    let plan = Plan::new(&experiment, &cells, request.selection.quick, seed, &machine(&cells)?);
    let turns = match &earlier {
        None => plan.turns(),
        Some(results) => {
            // How many runs these would have been is what the earlier ones decided.
            let compared = match ending.is_early() {
                true => Plan { repeats: results.experiment.repeats, ..plan.clone() },
                false => plan.clone(),
            };
            let differs = |source| RunError::Differs { path: request.out.clone(), source };
            compared.missing(results).map_err(differs)?;
            if let Some(difference) = plan.replaced(results) {
                return Err(differs(PlanDiffers { difference }));
            }
            plan.lacking(results)
        }
    };
    let is_look = request.selection.quick && request.selection.repeat.is_none() && !ending.is_early();
    Ok(Preparation { experiment, cells, plan, turns, earlier, ending, is_look })
}

fn earlier(file: &Path) -> Result<Results, RunError> {
    Results::load(file).map_err(|error| match error {
        StoreError::Missing { path } => RunError::NothingToResume { path },
        error => error.into(),
    })
}

/// Runs what was prepared and fills the results file.
///
/// A run that fails is recorded and does not stop the rest; see [`Summary::failed`]. When the user
/// stops, finished runs are kept and [`Summary::interrupted`] is set: `--resume` goes on.
///
/// # Errors
/// The results file: exists already, cannot be written, the disk is full. Nothing to run.
pub fn run(
    request: &Request,
    prepared: Preparation,
    world: &mut dyn World,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, RunError> {
    let Preparation { experiment, cells, plan, turns, earlier, ending, is_look } = prepared;
    let runnable = plan.cells.iter().filter(|cell| cell.skipped.is_none()).count();
    if runnable == 0 {
        let reason = plan.cells.iter().find_map(|cell| cell.skipped.clone()).unwrap_or_default();
        return Err(RunError::AllSkipped { cells: plan.cells.len(), reason });
    }
    let environment = world.environment().map_err(RunError::Machine)?;
    let mut precision = Precision::default();
    // What could not be tried may have become possible since.
    let tried = |results: &Results| {
        results.cuts.iter().filter(|cut| cut.finding.is_ok()).map(|cut| cut.cell).collect()
    };
    let cut: Vec<i64> = earlier.as_ref().map(tried).unwrap_or_default();
    let mut writer = if let Some(results) = earlier {
        let moved = moved(&results.environment, &environment);
        precision.add_analysis(&Analysis::of(&results)?);
        let mut writer = Writer::resume(results)?;
        writer.skips(&plan.rows())?;
        writer.warn(&moved)?;
        writer
    } else {
        let row = ExperimentRow {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            source: experiment.source.clone(),
            source_name: experiment.source_name.clone(),
            command: request.command.clone(),
            seed: plan.seed,
            repeats: plan.repeats,
            quick: plan.quick,
            fathom_version: crate::version::version(),
            started_ms: world.now_ms(),
            finished_ms: None,
        };
        Writer::create(&request.out, &row, &environment, &plan.rows())?
    };
    let mut warnings = cells.warnings;
    let governors = environment.iter().filter(|(key, _)| key.split(' ').next() == Some("governor"));
    warnings.extend(governors.filter_map(|(key, name)| governor(key, name, &environment)));
    writer.warn(&warnings)?;
    let run = request.time_limit.unwrap_or(Duration::from_secs(experiment.timeout_s));
    let limits = Limits { run, ending, look: is_look.then_some(LOOK) };
    let mut summary = go_on(&plan, &turns, limits, precision, world, &mut writer, on_progress)?;
    if !summary.interrupted {
        summary.interrupted = cut_each(&plan, &cut, world, &mut writer, on_progress)?;
    }
    // Who wants to stop does not wait for it, and a machine that is gone does not tell.
    if !summary.interrupted
        && let Ok(now) = world.environment()
    {
        for (key, value) in now.iter().filter(|(key, _)| is_momentary(key)) {
            writer.environment(&at_end(key), value)?;
        }
    }
    let finished = (summary.missing == 0).then(|| world.now_ms());
    writer.close(finished)?;
    Ok(summary)
}

/// `key` names the machine, where there are several.
fn governor(
    key: &str,
    name: &str,
    environment: &std::collections::BTreeMap<String, String>,
) -> Option<String> {
    if name == "performance" {
        return None;
    }
    let remedy = match environment.contains_key(&key.replacen("governor", "android", 1)) {
        true => "`adb shell cmd power set-fixed-performance-mode-enabled true`",
        false => "`cpupower frequency-set -g performance` (root)",
    };
    Some(format!(
        "the CPU {key} is `{name}`: the clock's speed changes while runs are measured. {remedy} keeps it steady"
    ))
}

/// What changed about the machine between the beginning and the resumption.
fn moved(
    before: &std::collections::BTreeMap<String, String>,
    now: &std::collections::BTreeMap<String, String>,
) -> Vec<String> {
    now.iter()
        .filter(|(key, _)| !is_momentary(key))
        .filter_map(|(key, value)| {
            let was = before.get(key).filter(|was| *was != value)?;
            Some(format!("the experiment was resumed on a changed machine: {key} was {was} and is {value}"))
        })
        .collect()
}

/// Where `fathom run NAME` writes its results when `--out` does not say.
#[must_use]
pub fn default_out(name: &str) -> PathBuf {
    Path::new("fathom-out").join(name).join("results.db")
}
