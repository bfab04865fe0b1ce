//! `fathom run`: experiment → plan → runs → results.db → table and report.

use fathom_output::{say, shown, shown_path, tell};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_ground::system::may_write;
use fathom_lab::conduct::{self, Preparation, Request, RunError};
use fathom_lab::estimate::estimate;
use fathom_lab::experiment::{self, Experiment, Selection, TraceChoice};
use fathom_lab::plan::Plan;
use fathom_lab::remote::{Machines, REMOTE_FILE, Target};
use fathom_lab::schedule::{EarlyEnd, Interrupt, Local, Summary, World};
use fathom_lab::store::{self, Lock, Results, StoreError};
use fathom_trace::synthesise::{NAMES, profile};

use crate::cli::Run;
use crate::outcome::{Error, Outcome};
use crate::progress::{Bar, clock};
use crate::repeat::Invocation;

/// The largest experiment file, octets: a device, or a pipe that never ends, is not read for ever.
/// Those that come with Fathom have 10 KiB at most.
const EXPERIMENT_MAX: u64 = 4 << 20;

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
    let mut machines = connected(asked, &interrupt)?;
    let prepared = match &mut machines {
        Some(machines) => conduct::prepare_on(&request, machines),
        None => conduct::prepare(&request),
    };
    let prepared = prepared.map_err(wrong_or_failed)?;
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
        interrupt.on_signals().map_err(signal_handlers)?;
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
    finish(asked, &name, &request.out, (&report, &inputs), &summary)
}

/// The names of the machines of `--on`.
fn machines(asked: &Run) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for machine in &asked.on {
        let name = machine.to_string();
        if names.contains(&name) {
            return Err(Error::usage(format!("--on: {} is given twice", shown(&name))));
        }
        names.push(name);
    }
    if asked.dir.is_some() && !names.is_empty() && !asked.on.contains(&Target::Local) {
        return Err(Error::usage(
            "--dir: it names a directory of this machine, on which nothing runs: name that of another machine with it, as \
             in --on ssh:pi@board:/mnt/card",
        ));
    }
    Ok(names)
}

/// The machines of `--on`, each with its agent; none where only this machine is meant.
fn connected(asked: &Run, interrupt: &Interrupt) -> Result<Option<Machines>, Error> {
    if asked.on.is_empty() {
        return Ok(None);
    }
    interrupt.on_signals().map_err(signal_handlers)?;
    let mut machines = Machines::connect(&asked.on, interrupt).map_err(Error::failed)?;
    super::tell_notes(&machines.notes());
    Ok(Some(machines))
}

fn signal_handlers(error: std::io::Error) -> Error {
    Error::failed(format!("signal handlers: {error}"))
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

/// Where the report goes: beside the results.
fn report_file(asked: &Run, file: &Path) -> PathBuf {
    if asked.out.is_none() {
        return file.with_file_name("report.html");
    }
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(".html");
    file.with_file_name(name)
}

fn wrong_or_failed(error: RunError) -> Error {
    if error.asked_wrongly() { Error::usage(error) } else { Error::failed(error) }
}

/// A built-in experiment by name, or a file: what looks like a path or exists is a file.
fn read_source(name: &str) -> Result<(String, String), Error> {
    if let Some(builtin) = experiment::builtin_named(name) {
        return Ok(("built-in".into(), builtin.source.into()));
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && path.extension().is_none() {
        let names = experiment::builtin().iter().map(|builtin| builtin.name);
        let hint = did_you_mean(nearest(name, names));
        return Err(Error::usage(format!(
            "no built-in experiment and no file is called \"{name}\"{hint}\n`fathom list experiments` shows what there is"
        )));
    }
    let mut text = Vec::new();
    let file =
        std::fs::File::open(path).and_then(|file| file.take(EXPERIMENT_MAX + 1).read_to_end(&mut text));
    file.map_err(|error| Error::usage(format!("{name}: {error}")))?;
    if text.len() as u64 > EXPERIMENT_MAX {
        let most = EXPERIMENT_MAX >> 20;
        return Err(Error::usage(format!("{name}: it has more than {most} MiB, and so is no experiment")));
    }
    let text =
        String::from_utf8(text).map_err(|error| Error::usage(format!("{name}: not a text file: {error}")))?;
    Ok((name.into(), text))
}

/// Where the results go: `--out`, or `fathom-out/NAME/results.db` where the user stands.
fn results_file(asked: &Run, name: &str) -> Result<PathBuf, Error> {
    let file = match &asked.out {
        Some(file) => file.clone(),
        None => conduct::default_out(name),
    };
    let refused =
        |problem: &str| Err(Error::usage(format!("--out {}: {problem}", fathom_output::shown_path(&file))));
    if file.is_dir() || file.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return refused("a directory; name a file in it");
    }
    if file.as_os_str() == "-" || file.file_name().is_none() {
        return refused("results are kept in a file: name one");
    }
    if asked.out.is_some() && report_file(asked, &file) == file {
        return refused("the report would have this name: end that of the results in .db");
    }
    if !file.exists() {
        store::check_new(&file).map_err(|error| Error::usage(format!("--out {error}")))?;
    }
    if asked.out.is_some() && !asked.resume && file.exists() {
        // What is no results file cannot be gone on with either.
        Results::load(&file).map_err(|error| Error::usage(format!("--out {error}; name another file")))?;
        return Err(Error::usage(StoreError::Exists { path: file }));
    }
    Ok(file)
}

/// The trace that `--trace` names: a file, or a profile.
pub(super) fn trace(word: &str) -> Result<TraceChoice, Error> {
    trace_of("--trace ", word)
}

/// The trace that a word names: a file, or a profile. `before` is what errors put before the word.
pub(super) fn trace_of(before: &str, word: &str) -> Result<TraceChoice, Error> {
    let path = Path::new(word);
    if path.is_file() {
        // Says at once what is wrong with it, before anything is made.
        fathom_trace::Reader::open(path).map_err(|error| Error::usage(format!("{before}{error}")))?;
        let stem =
            path.file_stem().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned());
        let value = std::path::absolute(path).map_err(Error::usage)?;
        let value = value.to_str().ok_or_else(|| {
            Error::usage(format!("{before}{word}: its path is not text (UTF-8); move or rename it"))
        })?;
        return Ok(TraceChoice { label: stem, parameter: "file", value: value.to_owned() });
    }
    if profile(word).is_ok() {
        return Ok(TraceChoice { label: word.to_owned(), parameter: "profile", value: word.to_owned() });
    }
    if path.is_dir() {
        let shown = shown_path(path);
        return Err(Error::usage(format!(
            "{before}{shown}: it is a directory and no trace; what an application's scripts in it do becomes one by \
             `fathom trace import {} --out app.trace`",
            super::quoted(&shown)
        )));
    }
    if path.exists() {
        return Err(Error::usage(format!("{before}{}: it is no file, and so no trace", shown_path(path))));
    }
    let hint = did_you_mean(nearest(word, NAMES));
    Err(Error::usage(format!(
        "{before}{word}: there is no such file, and no profile of this name{hint}\n`fathom list profiles` shows what can be made up"
    )))
}

/// Refuses a `--dir` in which nothing can be made, before the plan.
fn check_directory(directory: &Path) -> Result<(), Error> {
    let refused =
        |problem: String| Error::usage(format!("--dir {}: {problem}", fathom_output::shown_path(directory)));
    let kind = std::fs::metadata(directory)
        .map_err(|error| refused(format!("{error}; it must be a directory on the disk under test")))?;
    if !kind.is_dir() {
        return Err(refused("not a directory".into()));
    }
    match may_write(directory).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EROFS)) => {
            Err(refused("it is on a file system that is mounted read-only; give another directory".into()))
        }
        Err(Some(libc::EACCES)) => {
            Err(refused("you may not write there; give a directory of your own".into()))
        }
        // What else there is to say is said when something is made there.
        _ => Ok(()),
    }
}

/// The disk under test: `--dir`, or where the results are. The directory of the results is made.
fn working_directory(asked: &Run, file: &Path) -> Result<PathBuf, Error> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = match &asked.dir {
        Some(directory) => directory.clone(),
        None => parent.to_path_buf(),
    };
    std::fs::create_dir_all(parent).map_err(|error| {
        Error::failed(format!(
            "{}: {error}; choose another place with --out",
            fathom_output::shown_path(parent)
        ))
    })?;
    std::path::absolute(&directory)
        .map_err(|error| Error::failed(format!("{}: {error}", fathom_output::shown_path(&directory))))
}

/// Renames results (with their report and write-ahead log) to the first free number:
/// `results.1.db`.
fn move_aside(file: &Path) -> Result<PathBuf, Error> {
    // Never from under another run: SQLite's files of both would be mixed up.
    let _lock = Lock::take(file).map_err(Error::failed)?;
    let numbered = |number: u32| file.with_file_name(format!("results.{number}.db"));
    let its_report = |number: u32| file.with_file_name(format!("report.{number}.html"));
    let is_free = |path: PathBuf| path.symlink_metadata().is_err();
    let number =
        (1..).find(|number| is_free(numbered(*number)) && is_free(its_report(*number))).unwrap_or(u32::MAX);
    let aside = numbered(number);
    let beside = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    for end in ["-wal", "-shm"] {
        if beside(file, end).exists() {
            rename(&beside(file, end), &beside(&aside, end))?;
        }
    }
    let report = file.with_file_name("report.html");
    if report.exists() {
        rename(&report, &its_report(number))?;
    }
    rename(file, &aside)?;
    Ok(aside)
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::rename(from, to).map_err(|error| {
        Error::failed(format!(
            "{} → {}: {error}",
            fathom_output::shown_path(from),
            fathom_output::shown_path(to)
        ))
    })
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
        None => Box::new(
            Local::new(request.directory.clone(), interrupt)
                .map_err(|error| Error::failed(format!("this program's own path: {error}")))?,
        ),
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
    carried.map_err(wrong_or_failed)
}

/// Where the runs are made, in words.
fn place(asked: &Run, directory: &Path) -> String {
    let names: Vec<String> = asked.on.iter().map(|machine| shown(&machine.to_string())).collect();
    match names.as_slice() {
        [] => format!("in {}", shown_path(directory)),
        names => format!("on {}", names.join(", ")),
    }
}

/// Prints the table, writes the report, and says what to do next.
fn finish(
    asked: &Run,
    name: &str,
    file: &Path,
    (report, inputs): (&Path, &[&Path]),
    summary: &Summary,
) -> super::Result {
    for (label, reason) in &summary.failed {
        tell!("failed: {}: {reason}", shown(label));
    }
    let results = Results::load(file).map_err(Error::failed)?;
    if summary.done > 0 {
        if !asked.quiet {
            let text = fathom_report::terminal(&results, &super::style()).map_err(Error::failed)?;
            fathom_output::raw(&(text + "\n"));
        }
        // Hours may have gone by since it was asked first.
        super::check_unnamed("the report", report, inputs, fathom_report::HTML_MARK)?;
        super::write_html("the report", &results, report, inputs)?;
        say!("Report: {}      Again: {}", shown_path(report), shown(&results.experiment.command));
    }
    say_ended(asked, summary);
    if is_look_over(asked, summary) {
        say_look(&results, summary);
        return Ok(if summary.done > 0 && summary.failed.is_empty() {
            Outcome::Good
        } else {
            Outcome::Failed
        });
    }
    if summary.interrupted || summary.missing > 0 {
        let resume = if asked.resume { String::new() } else { " --resume".into() };
        tell!(
            "Stopped: {} runs are kept, {} are missing. Go on with:  {}{resume}",
            summary.done,
            summary.missing,
            results.experiment.command
        );
        return Ok(Outcome::Failed);
    }
    if !summary.failed.is_empty() {
        tell!(
            "error: {} of {} runs failed; their numbers are not used. {}",
            summary.failed.len(),
            summary.failed.len() + summary.done,
            super::full::what_to_do(asked, file, &results)
        );
        return Ok(Outcome::Failed);
    }
    if !asked.quiet && name == "first-look" {
        say!("Next:   {}      fathom list", next_command(&asked.on));
    }
    Ok(Outcome::Good)
}

/// What to run after a first look, on the same machines.
fn next_command(machines: &[Target]) -> String {
    let names: Vec<String> = machines.iter().map(Target::to_string).collect();
    let is_here_alone = machines.iter().all(|machine| *machine == Target::Local);
    let (on, place) = match is_here_alone {
        true => (String::new(), ""),
        false => (format!(" --on {}", shown(&super::quoted(&names.join(",")))), " there"),
    };
    format!("fathom run journal-modes --quick{on}      (file systems; needs root{place})")
}

/// Whether `--quick` has ended it: nothing else that was asked for could.
fn is_look_over(asked: &Run, summary: &Summary) -> bool {
    summary.ended == Some(EarlyEnd::OutOfTime) && asked.budget.is_none()
}

/// Says what a look has not come to.
fn say_look(results: &Results, summary: &Summary) {
    let cells = || results.cells.iter().filter(|cell| cell.skipped.is_none());
    let lacking: Vec<&str> = cells()
        .filter(|cell| results.good_runs(cell.id).next().is_none())
        .map(|cell| cell.title.as_str())
        .collect();
    let without = match lacking.len() {
        0 => String::new(),
        number => {
            format!(" {number} of {} cells have none: {}.", cells().count(), shown(&lacking.join(", ")))
        }
    };
    tell!(
        "Ended early, for --quick is a look of {} s at most: {} runs, {} are missing.{without} The rest: the same \
         command with --resume; longer at once: --budget 10m",
        conduct::LOOK.as_secs(),
        summary.done,
        summary.missing
    );
}

/// Says why there are fewer runs, or more, than the experiment asks for.
fn say_ended(asked: &Run, summary: &Summary) {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    match (summary.ended, asked.until, summary.widest) {
        (Some(EarlyEnd::Precise { widest }), _, _) => tell!(
            "Ended after {} runs of each cell: every value is known to within {} %.",
            summary.blocks,
            percent(widest)
        ),
        (Some(EarlyEnd::OutOfTime), _, widest) if !is_look_over(asked, summary) => {
            let known = widest.filter(|_| asked.until.is_some()).map_or_else(String::new, |share| {
                format!(" The widest interval is {} % so far.", percent(share))
            });
            tell!("Ended after {} runs of each cell: --budget.{known}", summary.blocks);
        }
        (None, Some(until), Some(widest)) if !summary.interrupted && widest > until => tell!(
            "Not as precise as asked: after {} runs of each cell the widest interval is {} %. A larger \
             --repeat allows more.",
            summary.blocks,
            percent(widest)
        ),
        _ => {}
    }
}

fn say_skipped(plan: &Plan) {
    let total = plan.cells.len();
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for reason in plan.cells.iter().filter_map(|cell| cell.skipped.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    for (reason, count) in reasons {
        tell!("skipped {count} of {total} cells: {reason}");
    }
}

fn print_plan(prepared: &Preparation, out: &Path) {
    let (plan, to_make) = (&prepared.plan, prepared.turns.len());
    let is_early = prepared.ending.is_early();
    let most = if is_early { " at most" } else { "" };
    say!("{}: {} runs of each cell{most}, seed {}", plan.experiment, plan.repeats, plan.seed);
    for cell in &plan.cells {
        match &cell.skipped {
            None => say!("  {:4}  {}", cell.id, cell.title()),
            Some(reason) => say!("  {:4}  {}  skipped: {reason}", cell.id, cell.title()),
        }
    }
    let planned = plan.turns().len();
    if to_make == planned {
        say!("{planned} runs in all{most}");
    } else {
        say!("{to_make} runs to make of {planned} in all{most}; the others are there already");
    }
    say!("{}", time_of(prepared, out));
    if prepared.is_look {
        let most = conduct::LOOK.as_secs();
        say!(
            "--quick begins nothing that would not be over after {most} s; --budget or --repeat ask for more"
        );
    }
}

/// How long the plan takes, as far as earlier results tell: those that are gone on with, those in
/// the file that is named, or those of the same experiment in its usual place.
fn time_of(prepared: &Preparation, out: &Path) -> String {
    let plan = &prepared.plan;
    let usual = conduct::default_out(&plan.experiment);
    let of = |file: &Path| {
        let results = Results::load(file).ok()?;
        Some((estimate(plan, &prepared.turns, &results)?, file.to_path_buf()))
    };
    let found = match &prepared.earlier {
        Some(results) => {
            estimate(plan, &prepared.turns, results).map(|estimate| (estimate, out.to_path_buf()))
        }
        None => of(out).or_else(|| of(&usual)),
    };
    let Some((found, file)) = found else {
        return "Time: not known, for no run of these cells is kept here; --budget 2m would bound it".into();
    };
    let most = if prepared.ending.is_early() { "at most " } else { "" };
    let others = match found.cells - found.known {
        0 => String::new(),
        others => format!("; {others} of {} cells were not measured there", found.cells),
    };
    let time = clock(found.time.as_secs_f64().ceil() as u64);
    format!("Time: {most}about {time} as in {}{others}", shown_path(&file))
}
