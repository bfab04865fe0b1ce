//! Advice from a trace, which is recorded in rounds.

use std::path::Path;
use std::time::Instant;

use fathom_device::RECORDER;
use fathom_lab::advise::{self, DeviceAdvice, Effort};
use fathom_lab::analysis::Analysis;
use fathom_lab::experiment::TraceChoice;
use fathom_lab::remote::{Target, file_hash};
use fathom_lab::schedule::Interrupt;
use fathom_lab::simulate::MEET;
use fathom_output::{shown_path, tell};
use fathom_report::Advice;

use super::super::filesystems::filesystems;
use super::super::record::{self, Purpose, RecordingFile, RecordingRequest};
use super::super::simulate;
use super::super::trace_choice::trace_of;
use super::application::Application;
use super::durability::{NO_WAL_NOW, is_whole, must};
use super::error::stopped;
use super::failure::Failure;
use super::judgement::{doubts, judged};
use super::live::Live;
use super::machine::{abilities, elsewhere};
use super::outputs::check_report_in_directory;
use super::question::{Answer, Question};
use super::rounds::{PHASE, Rounds};
use crate::cli::Advise;
use crate::commands;
use crate::outcome::Error;

/// Why WAL is not among what was tried.
const WITHOUT_WAL: &str = "a connection has several files, and with WAL a power cut may leave a transaction over \
                           them in some and not in the others: WAL was not tried; --each-file allows it";

/// Recordings that are made at the same time.
const PARTS: usize = 2;

/// From a trace: recorded in rounds where devices can be modelled, and measured on this disk
/// where not.
pub(super) fn of_trace(question: &Question<'_>) -> Result<Answer, Error> {
    let Question { asked, command, devices, interrupt, .. } = *question;
    let begun = Instant::now();
    let word = commands::text_path("TRACE", &asked.input)?;
    let mut trace = trace_of("", word)?;
    let directory = simulate::directory(asked.dir.as_deref())?;
    let mut there = elsewhere(asked, interrupt)?;
    let (available, why_not) = match &mut there {
        Some(there) => abilities(there)?,
        None => (fathom_stack::available_filesystems(), record::why_not_here()),
    };
    let filesystems = filesystems(&asked.fs, &available, why_not.is_none())?;
    if let (Some(why), Some(option)) = (&why_not, measured_besides(asked)) {
        return Err(Error::failed(format!("{option} takes a modelled device. {why}")));
    }
    fathom_stack::trusted_state().map_err(Error::failed)?;
    let is_modelled = why_not.is_none();
    // Wall times of this disk would be those of two at once.
    let parts = match is_modelled {
        true if there.is_none() => record::images_that_fit(&directory, PARTS)?,
        true => PARTS,
        false => 1,
    };
    let title = trace.label.clone();
    check_report_in_directory(asked, &title)?;
    let kept = RecordingFile::new(&std::env::temp_dir())?;
    let hash = match trace.parameter {
        "file" => Some(
            file_hash(&asked.input)
                .map_err(|error| Error::failed(format!("{}: {error}", shown_path(&asked.input))))?,
        ),
        _ => None,
    };
    if trace.parameter == "profile" {
        trace = made_up(&trace, &kept)?;
    }
    let application = Application::of(Path::new(&trace.value), question.now)?;
    for warning in &application.warnings {
        tell!("warning: {warning}");
    }
    let disk = match &asked.on {
        Some(machine) if there.is_some() => format!("the disk of {machine}"),
        _ => format!("this disk ({})", shown_path(&directory)),
    };
    let mut missing = Vec::from_iter(why_not);
    if !is_modelled {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        let names =
            if asked.device.is_empty() { format!("{} devices", names.len()) } else { names.join(", ") };
        missing.push(format!(
            "{names}: below is what holds on {disk}, in wall time. Where a device can be modelled, \
             `fathom advise … --out RECORDED.db` keeps recordings, and `fathom advise RECORDED.db` answers from them here"
        ));
    }
    let what = RecordingRequest {
        purpose: Purpose::Recording,
        trace,
        filesystems: if is_modelled { filesystems } else { vec!["dir".into()] },
        devices: if is_modelled { vec![RECORDER.into()] } else { Vec::new() },
        variants: Vec::new(),
        repeat: 1,
        more: None,
        sets: Vec::new(),
        title: title.clone(),
        seed: 1,
        machines: there.iter().flat_map(|_| &asked.on).map(Target::to_string).collect(),
        hash,
    };
    let mut rounds = Rounds {
        asked,
        command,
        what,
        kept,
        directory,
        there,
        interrupt,
        devices,
        is_modelled,
        parts,
        broken: Vec::new(),
        begun,
        effort: Effort::default(),
        is_whole: is_whole(asked, application.over_files()),
    };
    let baseline = &application.baseline;
    let must_of = |own| must(asked, own);
    let mut app = application.use_of();
    app.over_files &= !asked.each_file;
    let (must, last) = advise::search(baseline, app, &must_of, &mut rounds)?;
    let (results, (devices_tried, mut notes)) = rounds.finals(last)?;
    if application.takes_turns() {
        notes.retain(|note| !note.contains(MEET));
    }
    let advised = if is_modelled {
        judged(&results, devices, devices_tried, PHASE, baseline, must, interrupt)?
    } else {
        let here = devices_tried.into_iter().flatten().collect();
        vec![DeviceAdvice::of(None, disk, here, baseline, must)]
    };
    // The answer is there. From here on nothing that fails or is stopped takes it away.
    let mut problems = Vec::new();
    if let Some(out) = &asked.out {
        problems.extend(record::keep(&rounds.last_file(), out, &[&asked.input]).err());
    }
    let mut live = Live::default();
    if asked.live {
        let ended = rounds.live(devices, &advised, must, &mut live);
        notes.extend(besides("the live runs", ended, interrupt, &mut problems));
    }
    notes.extend(live.notes);
    let mut cuts = Vec::new();
    if asked.cut {
        let ended = stopped(interrupt).and_then(|()| rounds.cuts(&advised, must, &mut cuts));
        notes.extend(besides("the exploration of power cuts", ended, interrupt, &mut problems));
    }
    if is_modelled {
        let machine = match &rounds.there {
            Some(_) => asked.on.as_ref().map_or_else(String::new, Target::to_string),
            None => "this machine".to_owned(),
        };
        notes.insert(0, format!("Times are simulated from recordings on {machine}: CPU time is {machine}'s"));
    }
    notes.splice(0..0, application.warnings.iter().cloned());
    notes.extend(application.notes.iter().cloned());
    if app.over_files && baseline.journal_mode != "wal" {
        notes.push(WITHOUT_WAL.into());
    } else if rounds.is_whole {
        notes.push(NO_WAL_NOW.into());
    }
    notes.extend(rounds.broken.iter().map(Failure::told));
    let doubted = doubts(&results, &Analysis::of(&results).map_err(Error::failed)?, &advised);
    // Each run says what was said before all.
    let is_new = |doubt: &String| !application.warnings.contains(doubt);
    notes.extend(doubted.into_iter().filter(is_new));
    let advice = Advice {
        title,
        must,
        over_files: application.over_files(),
        baseline: baseline.clone(),
        baseline_source: application.baseline_source.clone(),
        pace_s: application.pace_s(&advised),
        hints: application.hints(&advised),
        devices: advised,
        notes,
        missing,
        partial: None,
        live: live.devices,
        cuts,
        command: command.to_owned(),
    };
    Ok(Answer { advice, named: Vec::new(), problems })
}

/// What the answer says of what was asked besides it and did not come to its end. A signal is no
/// problem: by it the command ends.
fn besides(
    what: &str,
    ended: Result<(), Error>,
    interrupt: &Interrupt,
    problems: &mut Vec<Error>,
) -> Option<String> {
    let error = ended.err()?;
    if interrupt.is_raised() {
        tell!("Stopped by a signal: {what}. The answer without what is missing of that:");
        return Some(format!("{what}: stopped by a signal before the end; the rest is complete"));
    }
    let note = format!("{what}: failed before the end: {}", error.message());
    problems.push(error);
    Some(note)
}

/// What is to be measured besides, where that was asked for.
fn measured_besides(asked: &Advise) -> Option<&'static str> {
    [("--live", asked.live), ("--cut", asked.cut)].into_iter().find(|pair| pair.1).map(|pair| pair.0)
}

/// The trace of a profile, made once, so that every run replays the same.
fn made_up(trace: &TraceChoice, kept: &RecordingFile) -> Result<TraceChoice, Error> {
    let profile = fathom_trace::synthesise::profile(&trace.value).map_err(Error::usage)?;
    let file = kept.file.with_file_name(format!("{}.trace", trace.label));
    fathom_trace::synthesise::synthesise(profile, 1, 100, &file).map_err(|error| match &error {
        fathom_trace::TraceError::Io { source, .. } if fathom_ground::system::is_full_disk(source) => {
            record::temporary_is_full()
        }
        _ => Error::failed(error),
    })?;
    let value = commands::text_path("TMPDIR", &file)?.to_owned();
    Ok(TraceChoice { label: trace.label.clone(), parameter: "file", value })
}
