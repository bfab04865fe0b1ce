//! `fathom run`: experiment → plan → runs → results.db → table and report.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fathom_lab::experiment::{self, Cells, Experiment, Selection, Vocabulary};
use fathom_lab::plan::{Machine, Plan, Turn};
use fathom_lab::schedule::{self, Interrupt, Limits, Local, Summary};
use fathom_lab::store::{ExperimentRow, Results, StoreError, Writer};

use crate::cli::Run;
use crate::outcome::{Error, Outcome};
use crate::progress::Bar;

/// The seed where neither command line nor file gives one: a plain run is repeatable.
const DEFAULT_SEED: u64 = 1;

/// Runs the experiment and reports on it.
pub fn run(asked: &Run) -> super::Result {
    let capabilities = fathom_stack::doctor();
    let experiment = read_experiment(&asked.experiment)?;
    let machine = Machine::of(capabilities);
    let selection = Selection { quick: asked.quick, repeat: asked.repeat, sets: asked.set.clone() };
    let cells = experiment.cells(&selection, &Vocabulary::here()).map_err(Error::asked)?;
    for warning in &cells.warnings {
        eprintln!("warning: {warning}");
    }

    let file = results_file(asked, &experiment)?;
    let earlier = if asked.resume { Some(earlier_results(&file)?) } else { None };
    let seed = asked
        .seed
        .or(earlier.as_ref().map(|it| it.experiment.seed))
        .or(experiment.seed)
        .unwrap_or(DEFAULT_SEED);
    let plan = Plan::new(&experiment, &cells, asked.quick, seed, &machine);
    if asked.plan {
        print_plan(&plan);
        return Ok(Outcome::Good);
    }
    let turns = match &earlier {
        Some(results) => plan.missing(results).map_err(Error::asked)?,
        None => plan.turns(),
    };
    say_skipped(&plan);
    if plan.cells.iter().all(|cell| cell.skipped.is_some()) {
        return Err(Error::failed(
            "no cell of this experiment can run on this machine; `fathom doctor` shows what is missing",
        ));
    }

    let directory = working_directory(asked, &file)?;
    let (writer, file) = open_results(asked, &experiment, &cells, &plan, file, &directory)?;
    let limit = Duration::from_secs(asked.time_limit.unwrap_or(experiment.timeout_s));
    let summary = carry_out(asked, &plan, &turns, limit, &directory, writer)?;
    finish(asked, &experiment, &file, &summary)
}

/// A built-in experiment by name, or a file: what looks like a path or exists is a file.
fn read_experiment(name: &str) -> Result<Experiment, Error> {
    if let Some(builtin) = experiment::builtin_named(name) {
        return Experiment::parse("built-in", builtin.source).map_err(Error::failed);
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && path.extension().is_none() {
        let names = experiment::builtin().iter().map(|one| one.name);
        let hint = fathom_workload::suggest::nearest(name, names)
            .map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
        return Err(Error::asked(format!(
            "no built-in experiment and no file is called \"{name}\"{hint}  `fathom list experiments` shows what there is"
        )));
    }
    let text = std::fs::read(path).map_err(|error| Error::asked(format!("{name}: {error}")))?;
    let text =
        String::from_utf8(text).map_err(|error| Error::asked(format!("{name}: not a text file: {error}")))?;
    Experiment::parse(name, &text).map_err(Error::asked)
}

/// Where the results go: `--out`, or `fathom-out/NAME/results.db` where the user stands.
fn results_file(asked: &Run, experiment: &Experiment) -> Result<PathBuf, Error> {
    let file = match &asked.out {
        Some(file) => file.clone(),
        None => Path::new("fathom-out").join(&experiment.name).join("results.db"),
    };
    if file.is_dir() {
        return Err(Error::asked(format!("--out {}: a directory; name a file in it", file.display())));
    }
    if asked.out.is_some() && !asked.resume && file.exists() {
        return Err(Error::asked(StoreError::Exists { path: file }));
    }
    Ok(file)
}

fn earlier_results(file: &Path) -> Result<Results, Error> {
    Results::load(file).map_err(|error| match error {
        StoreError::Missing { path } => {
            Error::asked(format!("--resume: {}: there are no results to go on with", path.display()))
        }
        other => Error::failed(other),
    })
}

/// The disk under test: `--dir`, or where the results are.
fn working_directory(asked: &Run, file: &Path) -> Result<PathBuf, Error> {
    let directory = match &asked.dir {
        Some(directory) => {
            let kind = std::fs::metadata(directory).map_err(|error| {
                Error::asked(format!(
                    "--dir {}: {error}; it must be a directory on the disk under test",
                    directory.display()
                ))
            })?;
            if !kind.is_dir() {
                return Err(Error::asked(format!("--dir {}: not a directory", directory.display())));
            }
            directory.clone()
        }
        None => {
            let parent = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
            std::fs::create_dir_all(parent).map_err(|error| {
                Error::failed(format!("{}: {error}; choose another place with --out", parent.display()))
            })?;
            parent.to_path_buf()
        }
    };
    std::path::absolute(&directory)
        .map_err(|error| Error::failed(format!("{}: {error}", directory.display())))
}

/// Opens the results file to go on with, or makes a new one. Earlier results at the default place are moved aside, never lost.
fn open_results(
    asked: &Run,
    experiment: &Experiment,
    cells: &Cells,
    plan: &Plan,
    file: PathBuf,
    directory: &Path,
) -> Result<(Writer, PathBuf), Error> {
    if asked.resume {
        let (writer, _) = Writer::resume(&file).map_err(Error::failed)?;
        return Ok((writer, file));
    }
    if asked.out.is_none() && file.exists() {
        let aside = move_aside(&file)?;
        eprintln!("Earlier results are kept as {}", aside.display());
    }
    if let Some(parent) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .map_err(|error| Error::failed(format!("{}: {error}", parent.display())))?;
    }
    let row = ExperimentRow {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        source_name: experiment.source_name.clone(),
        command: command_line(asked, plan.seed),
        seed: plan.seed,
        repeats: cells.repeats,
        quick: asked.quick,
        fathom_version: env!("CARGO_PKG_VERSION").into(),
        started_ms: now_ms(),
        finished_ms: None,
    };
    let writer = Writer::create(&file, &row, &schedule::environment(directory), &plan.rows())
        .map_err(Error::failed)?;
    Ok((writer, file))
}

/// Renames results (with their report and write-ahead log) to the first free number: `results.1.db`.
fn move_aside(file: &Path) -> Result<PathBuf, Error> {
    let numbered = |number: u32| file.with_file_name(format!("results.{number}.db"));
    let number = (1..).find(|number| !numbered(*number).exists()).unwrap_or(u32::MAX);
    let aside = numbered(number);
    let beside = |path: &Path, end: &str| PathBuf::from(format!("{}{end}", path.display()));
    for end in ["-wal", "-shm"] {
        if beside(file, end).exists() {
            rename(&beside(file, end), &beside(&aside, end))?;
        }
    }
    let report = file.with_file_name("report.html");
    if report.exists() {
        rename(&report, &file.with_file_name(format!("report.{number}.html")))?;
    }
    rename(file, &aside)?;
    Ok(aside)
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::rename(from, to)
        .map_err(|error| Error::failed(format!("{} → {}: {error}", from.display(), to.display())))
}

fn carry_out(
    asked: &Run,
    plan: &Plan,
    turns: &[Turn],
    limit: Duration,
    directory: &Path,
    mut writer: Writer,
) -> Result<Summary, Error> {
    let interrupt = Interrupt::new();
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))?;
    // What a killed run left behind goes first: it would disturb this one and fill the disk.
    let swept = fathom_stack::down_all(true);
    for label in &swept.removed {
        eprintln!("Removed what a killed run had left: {label}");
    }
    for reason in &swept.failed {
        eprintln!("warning: {reason}");
    }
    let mut world = Local::new(directory.to_path_buf(), interrupt)
        .map_err(|error| Error::failed(format!("this program's own path: {error}")))?;
    if !asked.quiet {
        let running = plan.cells.iter().filter(|cell| cell.skipped.is_none()).count();
        eprintln!("{}: {running} cells × {} runs in {}", plan.experiment, plan.repeats, directory.display());
    }
    let bar = Bar::new(plan.turns().len(), asked.quiet);
    let limits = Limits { run: limit };
    let carried =
        schedule::carry_out(plan, turns, limits, &mut world, &mut writer, &mut |progress| bar.show(progress));
    bar.clear();
    let summary = carried.map_err(Error::failed)?;
    let finished = (summary.missing == 0 && !summary.interrupted).then(now_ms);
    writer.close(finished).map_err(Error::failed)?;
    Ok(summary)
}

/// Prints the table, writes the report, and says what to do next.
fn finish(asked: &Run, experiment: &Experiment, file: &Path, summary: &Summary) -> super::Result {
    for (label, reason) in &summary.failed {
        eprintln!("failed: {label}: {reason}");
    }
    let results = Results::load(file).map_err(Error::failed)?;
    if summary.done > 0 {
        if !asked.quiet {
            let text = fathom_report::terminal(&results, &super::style()).map_err(Error::failed)?;
            println!("{text}");
        }
        let report = file.with_file_name(if asked.out.is_some() {
            format!("{}.html", file.file_stem().unwrap_or_default().to_string_lossy())
        } else {
            "report.html".into()
        });
        super::write_html(&results, &report)?;
        println!("Report: {}      Again: {}", report.display(), results.experiment.command);
    }
    if summary.interrupted {
        let resume = if asked.resume { String::new() } else { " --resume".into() };
        eprintln!(
            "Stopped: {} runs are kept, {} are missing. Go on with:  {}{resume}",
            summary.done, summary.missing, results.experiment.command
        );
        return Ok(Outcome::Failed);
    }
    if !summary.failed.is_empty() {
        eprintln!(
            "error: {} of {} runs failed; their numbers are not used. Make them again with --resume",
            summary.failed.len(),
            summary.failed.len() + summary.done
        );
        return Ok(Outcome::Failed);
    }
    if !asked.quiet && experiment.name == "first-look" {
        println!("Next:   fathom run journal-modes --quick      (file systems; needs root)      fathom list");
    }
    Ok(Outcome::Good)
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
        eprintln!("skipped {count} of {total} cells: {reason}");
    }
}

fn print_plan(plan: &Plan) {
    println!("{}: {} runs of each cell, seed {}", plan.experiment, plan.repeats, plan.seed);
    for cell in &plan.cells {
        match &cell.skipped {
            None => println!("  {:4}  {}", cell.id, cell.label),
            Some(reason) => println!("  {:4}  {}  skipped: {reason}", cell.id, cell.label),
        }
    }
    println!("{} runs in all", plan.turns().len());
}

/// The command that makes the same plan again, quoted for a shell.
fn command_line(asked: &Run, seed: u64) -> String {
    let mut words = vec!["fathom".to_owned(), "run".to_owned(), asked.experiment.clone()];
    if asked.quick {
        words.push("--quick".into());
    }
    if let Some(repeat) = asked.repeat {
        words.extend(["--repeat".into(), repeat.to_string()]);
    }
    words.extend(["--seed".into(), seed.to_string()]);
    for set in &asked.set {
        words.extend(["--set".into(), set.clone()]);
    }
    for (name, path) in [("--dir", &asked.dir), ("--out", &asked.out)] {
        if let Some(path) = path {
            words.extend([name.into(), path.display().to_string()]);
        }
    }
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Milliseconds since 1970 UTC.
fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_word_comes_back_from_the_shell() {
        for word in ["plain", "two words", "it's", "", "a=b,c", "$x", "üñ"] {
            let script = format!("printf %s {}", super::quoted(word));
            let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
        }
    }
}
