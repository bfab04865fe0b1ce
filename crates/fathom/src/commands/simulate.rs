//! `fathom simulate RESULTS|TRACE`: recorded runs on any modelled devices, in virtual time.

use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_device::{Kind, Model, RECORDER, presets};
use fathom_lab::failure::{FailureKind, LOCKED};
use fathom_lab::schedule::Interrupt;
use fathom_lab::simulate::{ByTheDevice, Question, StudyError, study};
use fathom_lab::store::Results;
use fathom_output::{shown_path, tell};
use fathom_report::Simulation;

use super::filesystems::filesystems;
use super::record::{self, Purpose, RecordingFile, RecordingRequest};
use crate::cli::Simulate;
use crate::outcome::{Error, Outcome};
use crate::repeat::Invocation;

/// Records the trace, if it is one, and replays the recordings on the devices.
pub fn run(asked: &Simulate, parsed: &Invocation) -> super::Result {
    let devices = devices(&asked.device)?;
    check_outputs(asked, &[&asked.input])?;
    if is_results(&asked.input) {
        refuse_of_traces(asked)?;
        super::tidy_up_on_signals()?;
        let results = super::load(&asked.input)?;
        let named = super::named_inputs(&results);
        let inputs = super::all_inputs(&[&asked.input], &named);
        check_outputs(asked, &inputs)?;
        return answer(asked, devices, &results, fathom_report::subject(&results), &inputs, None);
    }
    let command = parsed.again(&["json", "csv"], &[]);
    let interrupt = Interrupt::new();
    let done = recorded(asked, &command, &interrupt).and_then(|recorded| {
        let inputs = [&*asked.input];
        answer(asked, devices, &recorded.results, recorded.title, &inputs, recorded.not_kept)
    });
    // All that was begun is gone with it.
    if let (Err(_), Some(signal)) = (&done, interrupt.signal()) {
        crate::ending::as_the_signal(signal);
    }
    done
}

/// Replays the recordings, and writes and prints what was asked for. What fails to be written is an
/// error when the answer was printed.
fn answer(
    asked: &Simulate,
    devices: Vec<Model>,
    results: &Results,
    title: String,
    inputs: &[&Path],
    not_kept: Option<Error>,
) -> super::Result {
    let (phase, cell) = (asked.phase.clone(), asked.cell.clone());
    let by_the_device = if asked.device_alone { ByTheDevice::All } else { ByTheDevice::Unseen };
    let question = Question { devices, phase, cell, runs: None, by_the_device };
    let study = study(results, &question).map_err(|error| match error {
        StudyError::NoRecording(_) | StudyError::NoSuch { .. } => Error::usage(error),
        StudyError::Nothing(..) | StudyError::Store(_) => Error::failed(error),
    })?;
    let shown = Simulation { title, study };
    let mut problems = Vec::from_iter(not_kept);
    if let Some(file) = &asked.html {
        match super::write_text("--html", file, inputs, &shown.html()) {
            Ok(()) => tell!("Report: {}", shown_path(file)),
            Err(error) => problems.push(error),
        }
    }
    if let Some(file) = &asked.svg {
        match super::write_text("--svg", file, inputs, &shown.svg()) {
            Ok(()) => tell!("Figure: {}", shown_path(file)),
            Err(error) => problems.push(error),
        }
    }
    if asked.json {
        super::print_json(&shown.json())?;
    } else if asked.csv {
        fathom_output::raw(&shown.csv());
    } else if !super::takes_stdout(&[asked.html.as_deref(), asked.svg.as_deref()]) {
        fathom_output::raw(&shown.terminal(&super::style()));
    }
    super::first_of(problems).map_or(Ok(Outcome::Good), Err)
}

/// The models of `--device`; all presets with times of their own where none is named.
pub fn devices(words: &[String]) -> Result<Vec<Model>, Error> {
    if words.is_empty() {
        return Ok(presets().iter().filter(|model| model.kind != Kind::None).cloned().collect());
    }
    let mut found: Vec<Model> = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')) {
        if word.trim().is_empty() {
            return Err(Error::usage(format!(
                "--device {}: a name is missing before or after a comma",
                words.join(",")
            )));
        }
        let model = fathom_device::device_model(word.trim())
            .map_err(|problem| Error::usage(format!("--device: {problem}")))?;
        if let Some(same) = found.iter().find(|other| other.name == model.name) {
            return Err(Error::usage(format!("--device: {} is given twice", same.name)));
        }
        found.push(model);
    }
    Ok(found)
}

/// Whether the input is a database, and so results; what else is there is taken for a trace.
pub fn is_results(path: &Path) -> bool {
    let mut head = Vec::new();
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let opened = file.and_then(|_| std::fs::File::open(path).ok());
    let read = opened.map(|file| file.take(16).read_to_end(&mut head));
    matches!(read, Some(Ok(_))) && head == b"SQLite format 3\0"
}

/// Refuses what is of traces only.
fn refuse_of_traces(asked: &Simulate) -> Result<(), Error> {
    let of_traces = [
        ("--fs", !asked.fs.is_empty()),
        ("--set", !asked.set.is_empty()),
        ("--repeat", asked.repeat.is_some()),
        ("--dir", asked.dir.is_some()),
        ("--out", asked.out.is_some()),
    ];
    match of_traces.iter().find(|pair| pair.1) {
        Some((option, _)) => Err(Error::usage(format!(
            "{option} is for traces, which are recorded first: {} holds runs that were made",
            shown_path(&asked.input)
        ))),
        None => Ok(()),
    }
}

/// A recording that was made.
struct Recorded {
    results: Results,
    title: String,
    /// Why it could not be kept where that was asked for.
    not_kept: Option<Error>,
}

/// Records the trace with the settings that were asked for.
fn recorded(asked: &Simulate, command: &str, interrupt: &Interrupt) -> Result<Recorded, Error> {
    let word = super::text_path("TRACE", &asked.input)?;
    let trace = super::trace_choice::trace_of("", word)?;
    if trace.parameter == "file" {
        refuse_in_memory(&asked.input)?;
    }
    record::check_machine("fathom simulate TRACE")?;
    let directory = directory(asked.dir.as_deref())?;
    let filesystems = filesystems(&asked.fs, &fathom_stack::available_filesystems(), true)?;
    if !asked.fs.is_empty()
        && let Some(set) = asked.set.iter().find(|set| sets_the_filesystem(set))
    {
        return Err(Error::usage(format!(
            "--fs and --set {set}: both name the file system; give one of them"
        )));
    }
    record::images_that_fit(&directory, 1)?;
    super::stop_on_signals(interrupt)?;
    let kept = RecordingFile::new(&std::env::temp_dir())?;
    let title = trace.label.clone();
    let what = RecordingRequest {
        purpose: Purpose::Recording,
        trace,
        filesystems,
        devices: vec![RECORDER.into()],
        variants: Vec::new(),
        repeat: asked.repeat.unwrap_or(1),
        more: None,
        sets: asked.set.clone(),
        title: title.clone(),
        seed: 1,
        machines: Vec::new(),
        hash: None,
    };
    let (results, summary) = record::record(&what, &kept.file, &directory, command, interrupt.clone(), None)?;
    if summary.interrupted {
        tell!("Stopped by a signal before everything was recorded: nothing is simulated.");
        return Err(Error::failed("stopped before everything was recorded"));
    }
    for (label, reason) in &summary.failed {
        tell!("failed: {}: {}", fathom_output::shown(label), told(reason));
    }
    if let Some(remedy) = super::full::of_recordings(&results) {
        tell!("error: {remedy}");
    }
    if summary.done == 0 {
        return Err(Error::failed("nothing could be recorded"));
    }
    let keep = |out: &PathBuf| record::keep(&kept.file, out, &[&asked.input]).err();
    Ok(Recorded { results, title, not_kept: asked.out.as_ref().and_then(keep) })
}

/// Refuses a trace of which a replay leaves all out.
fn refuse_in_memory(trace: &Path) -> Result<(), Error> {
    let info = fathom_trace::info::info(trace).map_err(Error::usage)?;
    match info.is_in_memory() {
        true => Err(Error::usage(format!(
            "{}: all of its databases are in memory, so that no device has anything to do: there is nothing to simulate",
            shown_path(trace)
        ))),
        false => Ok(()),
    }
}

/// Why a recording failed, as `fathom advise` says it.
fn told(reason: &str) -> &str {
    match FailureKind::of_message(reason) {
        FailureKind::Locked => LOCKED,
        _ => reason,
    }
}

/// Whether a `--set` names file systems, by whatever name of that.
fn sets_the_filesystem(set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default().trim();
    matches!(key, "filesystem" | "stack.filesystem")
}

/// Where stacks are made.
pub fn directory(asked: Option<&Path>) -> Result<PathBuf, Error> {
    let directory = asked.unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err(Error::usage(format!("--dir {}: it is no directory", shown_path(directory))));
    }
    let directory = std::path::absolute(directory).map_err(Error::usage)?;
    super::text_path("--dir", &directory)?;
    Ok(directory)
}

fn check_outputs(asked: &Simulate, inputs: &[&Path]) -> Result<(), Error> {
    let files =
        [("--out", asked.out.as_deref()), ("--html", asked.html.as_deref()), ("--svg", asked.svg.as_deref())];
    let printed = if asked.json { Some("--json") } else { asked.csv.then_some("--csv") };
    super::check_outputs(&files, printed, inputs)?;
    asked.out.as_deref().map_or(Ok(()), super::check_kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a trace with databases in memory alone, which a replay leaves out, it was
    /// said that "no phase was reported".
    #[test]
    fn a_trace_of_databases_in_memory_is_refused_with_why() {
        use fathom_trace::model::{Origin, Start};
        use fathom_trace::{Assembler, Writer};
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, path: &[u8], start: Start| {
            let file = directory.path().join(name);
            let mut assembler = Assembler::new(Writer::create(&file).unwrap(), Origin::default()).unwrap();
            let thread = assembler.thread(1, 1, "test").unwrap();
            let database = assembler.database(path, start, None).unwrap();
            let connection = assembler.open(thread, database, 0).unwrap();
            assembler.close(connection, 1000).unwrap();
            assembler.finish().unwrap();
            file
        };
        let problem = refuse_in_memory(&write("m.trace", b":memory:", Start::Memory)).unwrap_err();
        assert!(problem.message().contains("are in memory"), "{problem:?}");
        assert!(refuse_in_memory(&write("a.trace", b"/a.db", Start::Empty)).is_ok());
    }

    /// What happened: a lock that one connection kept from another was told by the statement of
    /// Fathom's own that met it, while `fathom advise` says what it means.
    #[test]
    fn a_lock_is_told_as_advice_tells_it() {
        let why = "`PRAGMA \"main\".auto_vacuum` on w.db: database is locked (code 5)";
        assert_eq!(told(why), LOCKED);
        assert_eq!(told("no such table: t"), "no such table: t");
    }
}
