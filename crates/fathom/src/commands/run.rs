//! `fathom run`: experiment → plan → runs → results.db → table and report.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_lab::conduct::{self, Preparation, Request, RunError};
use fathom_lab::experiment::{Experiment, Selection};
use fathom_lab::remote::{Machines, REMOTE_FILE};
use fathom_lab::schedule::{Interrupt, Local, Summary, World};
use fathom_output::{shown, shown_path, tell};

use super::trace_choice::trace;
use crate::cli::Run;
use crate::outcome::{Error, Outcome};
use crate::progress::Bar;
use crate::repeat::Invocation;

mod directory;
mod ending;
mod machines;
mod plan;
mod results_file;
mod source;

use directory::{check_directory, check_same_disk, working_directory};
use ending::finish;
use machines::{connected, machines, place};
use plan::{print_plan, say_skipped};
use results_file::{move_aside, report_file, results_file};
use source::read_source;

/// Options that are not in the command that repeats a run, for they do not change its result: how
/// an earlier one is gone on with, a look at the plan, and what is printed.
pub const NOT_REPEATED: &[&str] = &["resume", "plan", "quiet"];

/// Runs the experiment and reports on it.
pub fn run(asked: &Run, parsed: &Invocation) -> super::Result {
    let (source_name, source) = read_source(&asked.experiment)?;
    let name = Experiment::parse(&source_name, &source).map_err(Error::usage)?.name;
    let out = results_file(asked, &name)?;
    let mut sets = asked.set.clone();
    if asked.guest {
        sets.push("stack.guest=true".into());
    }
    if let Some(set) = libraries(&asked.sqlite)? {
        sets.push(set);
    }
    let mut request = Request {
        source_name,
        source,
        selection: Selection {
            quick: asked.quick,
            repeat: asked.repeat,
            sets,
            traces: asked.trace.iter().map(|word| trace(word)).collect::<Result<_, _>>()?,
            machines: machines(asked)?,
        },
        seed: asked.seed,
        directory: PathBuf::new(), // known below, when nothing can be asked wrongly any more
        out,
        resume: asked.resume,
        time_limit: asked.time_limit.map(Duration::from_secs),
        until: asked.until,
        budget: asked.budget,
        firm: 0,
        command: String::new(),
    };
    text_paths(asked, &request.out)?;
    if let Some(directory) = &asked.dir {
        check_directory(directory)?;
    }
    let interrupt = Interrupt::new();
    interrupt.keeps_runs();
    let mut machines = connected(asked, &interrupt)?;
    let prepared = match &mut machines {
        Some(machines) => conduct::prepare_on(&request, machines),
        None => conduct::prepare(&request),
    };
    let prepared = prepared.map_err(wrong_or_failed)?;
    if let Some(earlier) = &prepared.earlier {
        check_same_disk(asked, &request.out, earlier)?;
    }
    for warning in &prepared.cells.warnings {
        tell!("warning: {warning}");
    }
    if asked.plan {
        print_plan(&prepared, &request.out);
        return Ok(Outcome::Good);
    }
    say_skipped(&prepared.plan);
    request.command = parsed.again(NOT_REPEATED, &[("seed", prepared.plan.seed.to_string())]);
    // Before anything is made or renamed: whatever ends the command from here on is to end it in
    // order.
    if machines.is_none() {
        super::stop_on_signals(&interrupt)?;
    }
    request.directory = working_directory(asked, &request.out)?;
    let inputs = inputs(asked, &request);
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let report = report_file(asked, &request.out);
    super::check_unnamed("the report", &report, &inputs, fathom_report::HTML_MARK)?;
    if asked.out.is_none() && !asked.resume && request.out.exists() {
        let aside = move_aside(&request.out)?;
        tell!("Earlier results are kept as {}", shown_path(&aside));
    }
    let summary = carry_out(asked, &request, prepared, (interrupt, machines))?;
    finish(asked, &name, &request.out, (&report, &inputs), &request.command, &summary)
}

/// `--sqlite A,B` as the setting that it stands for: the libraries, paired by block. None where it
/// is not given.
fn libraries(asked: &[String]) -> Result<Option<String>, Error> {
    let mut paths: Vec<String> = Vec::new();
    for word in asked {
        let path = match word.as_str() {
            "bundled" => word.clone(),
            _ if word.starts_with(REMOTE_FILE) => word.clone(),
            "" => return Err(Error::usage("--sqlite: a library has no name; give A,B")),
            _ => {
                // A worker runs in a directory of its own.
                let path = std::path::absolute(word).map_err(Error::usage)?;
                super::text_path("--sqlite", &path)?.to_owned()
            }
        };
        if paths.contains(&path) {
            return Err(Error::usage(format!("--sqlite: {} is given twice", shown(word))));
        }
        paths.push(path);
    }
    if paths.is_empty() {
        return Ok(None);
    }
    // As TOML, in which a path may have commas and brackets.
    let texts: Vec<String> = paths.iter().map(|path| serde_json::json!(path).to_string()).collect();
    Ok(Some(format!("engine.library=[{}]", texts.join(", "))))
}

/// Refuses paths that are no text: a worker is told its directory in JSON, which has texts only, so
/// every run would fail.
fn text_paths(asked: &Run, out: &Path) -> Result<(), Error> {
    for (option, path) in [("--dir", asked.dir.as_deref()), ("--out", Some(out))] {
        let Some(path) = path else { continue };
        super::text_path(option, &std::path::absolute(path).map_err(Error::usage)?)?;
    }
    Ok(())
}

/// Every file that is read: the experiment and the traces.
fn inputs(asked: &Run, request: &Request) -> Vec<PathBuf> {
    let traces = request
        .selection
        .traces
        .iter()
        .filter(|trace| trace.parameter == "file")
        .map(|trace| trace.value.clone());
    traces.chain([asked.experiment.clone()]).map(PathBuf::from).collect()
}

fn carry_out(
    asked: &Run,
    request: &Request,
    prepared: Preparation,
    (interrupt, machines): (Interrupt, Option<Machines>),
) -> Result<Summary, Error> {
    // Before anything is made: no run could be.
    fathom_stack::trusted_state().map_err(Error::failed)?;
    // What a killed run left behind goes first: it would disturb this one and fill the disk. Only
    // what this state directory knows: the rest might be somebody else's, which
    // `stack down --leftovers` is asked for.
    let swept = fathom_stack::sweep();
    for label in &swept.removed {
        tell!("Removed what a killed run had left: {label}");
    }
    for reason in &swept.failed {
        tell!("warning: {reason}");
    }
    let mut world: Box<dyn World> = match machines {
        Some(mut machines) => {
            machines.work_in(request.directory.clone());
            Box::new(machines)
        }
        None => Box::new(Local::new(request.directory.clone(), interrupt).map_err(super::no_own_path)?),
    };
    let plan = &prepared.plan;
    if !asked.quiet {
        let running = plan.cells.iter().filter(|cell| cell.skipped.is_none()).count();
        let at_most = if prepared.ending.is_early() { "up to " } else { "" };
        tell!(
            "{}: {running} cells × {at_most}{} runs {}",
            plan.experiment,
            plan.repeats,
            place(asked, &request.directory)
        );
    }
    let bar = Bar::new(plan.runs(), asked.quiet);
    let carried = conduct::run(request, prepared, &mut *world, &mut |progress| bar.show(progress));
    bar.clear();
    for note in world.notes() {
        tell!("{note}");
    }
    carried.map_err(wrong_or_failed)
}

fn wrong_or_failed(error: RunError) -> Error {
    if error.asked_wrongly() { Error::usage(error) } else { Error::failed(error) }
}
