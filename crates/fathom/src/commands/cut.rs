//! `fathom cut`: what a power cut leaves of a database, for each setting and file system.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use fathom_cut::{AcknowledgedContents, Behaviour, CutError, RecordedRun, Run, Script, has_own_work, record};
use fathom_lab::naming::title_of_words;
use fathom_lab::schedule::Interrupt;
use fathom_output::tell;
use fathom_report::{Cut, Cuts};
use fathom_stack::{Machine, StackError, StackSpec};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};

use crate::cli::CutArgs;
use crate::outcome::Error;

mod cells;
mod findings;
mod judgement;
mod recordings;
mod replay;
mod stack;
mod stop;
mod table;
mod workload;

use cells::{Cell, cells};
use findings::show;
use judgement::{check_machine, check_piece, judged};
use recordings::Recordings;
use replay::replay;
use stack::{behaviour, stack};
use stop::{Stop, end_of};
use table::table;
use workload::workload;

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
    super::stop_on_signals(interrupt)?;
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
        let found = recordings.begin(number).and_then(|log| {
            let mut keep = |recorded: &RecordedRun| recordings.done(number, recorded);
            tried(asked, cell, stack, workload.as_ref(), behaviour, &log, &mut keep, share, &stop)
        });
        recordings.remove_undone();
        match found {
            Ok(Some((recorded, Ok(outcome)))) => {
                cuts.cells.push(Cut::new(number, cell.label.clone(), recorded, outcome));
            }
            Ok(None) => break,
            Err(CutError::Stack(error @ (StackError::Unavailable { .. } | StackError::NeedsRoot { .. }))) => {
                cuts.without.push((cell.label.clone(), error.to_string()));
            }
            Err(CutError::Stack(error @ StackError::Spec { .. })) => return Err(Error::usage(error)),
            Ok(Some((_, Err(error)))) | Err(error) => {
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

/// A cell's recording, and what was found of it.
type Tried = (RecordedRun, Result<fathom_cut::Outcome, CutError>);

/// Records a cell and judges its states; none if it was interrupted. The recording is `keep`'s
/// before the first state is judged: it stays also where the states cannot be, which is to be done
/// again then, and where the command is killed at it.
#[expect(clippy::too_many_arguments, reason = "each is one thing that a cell takes")]
fn tried(
    asked: &CutArgs,
    cell: &Cell,
    stack: StackSpec,
    workload: Option<&WorkloadSpec>,
    behaviour: Behaviour,
    log: &Path,
    keep: &mut dyn FnMut(&RecordedRun),
    time: Duration,
    stop: &Stop<'_>,
) -> Result<Option<Tried>, CutError> {
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
        write_back: asked.write_back,
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
    keep(&recorded);
    let left = time.saturating_sub(begin.elapsed());
    let outcome = judged(asked, &recorded, &recording.history, left, stop.interrupt);
    Ok(Some((recorded, outcome)))
}

fn note(line: &str) {
    if std::io::stderr().is_terminal() {
        tell!("{}", fathom_output::shown(line));
    }
}
