//! `fathom simulate RESULTS|TRACE`: recorded runs on any modelled devices, in virtual time.

use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_device::{Kind, Model, RECORDER, presets};
use fathom_lab::schedule::Interrupt;
use fathom_lab::simulate::{ByTheDevice, Question, StudyError, study};
use fathom_lab::store::Results;
use fathom_output::{shown_path, tell};
use fathom_report::Simulation;

use super::record::{self, Purpose, RecordingFile, RecordingRequest};
use crate::cli::Simulate;
use crate::outcome::{Error, Outcome};
use crate::repeat::Invocation;

/// Records the trace, if it is one, and replays the recordings on the devices.
pub fn run(asked: &Simulate, parsed: &Invocation) -> super::Result {
    let devices = devices(&asked.device)?;
    check_outputs(asked)?;
    let (results, title, _kept) = if is_results(&asked.input) {
        refuse_of_traces(asked)?;
        super::tidy_up_on_signals()?;
        let results = super::load(&asked.input)?;
        let title = fathom_report::subject(&results);
        (results, title, None)
    } else {
        let command = parsed.again(&["json", "csv"], &[]);
        let interrupt = Interrupt::new();
        let done = recorded(asked, &command, &interrupt);
        // All that was begun is gone with it.
        if let (Err(_), Some(signal)) = (&done, interrupt.signal()) {
            crate::ending::as_the_signal(signal);
        }
        let (results, title, kept) = done?;
        (results, title, Some(kept))
    };
    let (phase, cell) = (asked.phase.clone(), asked.cell.clone());
    let by_the_device = if asked.device_alone { ByTheDevice::All } else { ByTheDevice::Unseen };
    let question = Question { devices, phase, cell, runs: None, by_the_device };
    let study = study(&results, &question).map_err(|error| match error {
        StudyError::NoRecording(_) | StudyError::NoSuch { .. } => Error::usage(error),
        StudyError::Nothing(..) | StudyError::Store(_) => Error::failed(error),
    })?;
    let shown = Simulation { title, study };
    let inputs = [&*asked.input];
    if let Some(file) = &asked.html {
        super::write_text("--html", file, &inputs, &shown.html())?;
        tell!("Report: {}", shown_path(file));
    }
    if let Some(file) = &asked.svg {
        super::write_text("--svg", file, &inputs, &shown.svg())?;
        tell!("Figure: {}", shown_path(file));
    }
    if asked.json {
        super::print_json(&shown.json())?;
    } else if asked.csv {
        fathom_output::raw(&shown.csv());
    } else {
        fathom_output::raw(&shown.terminal(&super::style()));
    }
    Ok(Outcome::Good)
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

/// Records the trace with the settings that were asked for.
fn recorded(
    asked: &Simulate,
    command: &str,
    interrupt: &Interrupt,
) -> Result<(Results, String, RecordingFile), Error> {
    let word = super::text_path("TRACE", &asked.input)?;
    let trace = super::run::trace_of("", word)?;
    record::check_machine("fathom simulate TRACE")?;
    let directory = directory(asked.dir.as_deref())?;
    if let Some(out) = &asked.out {
        super::check_output("--out", out, &[&asked.input])?;
        if out.exists() {
            let problem = "is there already: name another file";
            return Err(Error::usage(format!("--out {}: {problem}", shown_path(out))));
        }
    }
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))?;
    let kept = RecordingFile::new(asked.out.as_deref(), &std::env::temp_dir())?;
    let title = trace.label.clone();
    let what = RecordingRequest {
        purpose: Purpose::Recording,
        trace,
        filesystems: if asked.fs.is_empty() { vec!["ext4".into()] } else { asked.fs.clone() },
        devices: vec![RECORDER.into()],
        variants: Vec::new(),
        repeat: asked.repeat.unwrap_or(1),
        more: None,
        sets: asked.set.clone(),
        title: title.clone(),
        seed: 1,
        machines: Vec::new(),
    };
    let (results, summary) = record::record(&what, &kept.file, &directory, command, interrupt.clone(), None)?;
    if summary.interrupted {
        tell!("Stopped by a signal before everything was recorded: nothing is simulated.");
        return Err(Error::failed("stopped before everything was recorded"));
    }
    for (label, reason) in &summary.failed {
        tell!("failed: {}: {reason}", fathom_output::shown(label));
    }
    if summary.done == 0 {
        return Err(Error::failed("nothing could be recorded"));
    }
    if kept.is_asked_for() {
        tell!("Recorded: {}", shown_path(&kept.file));
    }
    Ok((results, title, kept))
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

fn check_outputs(asked: &Simulate) -> Result<(), Error> {
    let inputs = [&*asked.input];
    let mut to_stdout = Vec::from_iter(asked.json.then_some("--json").or(asked.csv.then_some("--csv")));
    for (option, file) in [("--html", &asked.html), ("--svg", &asked.svg)] {
        let Some(file) = file else { continue };
        super::check_output(option, file, &inputs)?;
        if fathom_output::is_standard_output(file) {
            to_stdout.push(option);
        }
    }
    if to_stdout.len() > 1 {
        return Err(Error::usage(format!(
            "{}: both would go to standard output; name a file for one",
            to_stdout.join(" and ")
        )));
    }
    if asked.html.is_some() && asked.html == asked.svg {
        return Err(Error::usage("--html and --svg name the same file"));
    }
    Ok(())
}
