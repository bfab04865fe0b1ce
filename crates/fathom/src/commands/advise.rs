//! `fathom advise TRACE|PROFILE|RESULTS`: which settings an application should use.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_device::{Model, RECORDER};
use fathom_lab::advise::{self, Candidate, DeviceAdvice, Effort, Finalists, Trial};
use fathom_lab::analysis::{Analysis, CautionKind};
use fathom_lab::experiment::TraceChoice;
use fathom_lab::failure::FailureKind;
use fathom_lab::remote::{Remote, Target, file_hash};
use fathom_lab::schedule::{Interrupt, Summary};
use fathom_lab::simulate::MEET;
use fathom_lab::store::Results;
use fathom_output::{shown, shown_path, tell};
use fathom_report::{Advice, HTML_MARK};
use fathom_stack::{Availability, Capability};
use fathom_workload::spec::Durability;

use super::filesystems::filesystems;
use super::record::{self, MoreRuns, Purpose, RecordingFile, RecordingRequest};
use super::simulate;
use crate::cli::Advise;
use crate::outcome::{Error, Outcome};
use crate::repeat::Invocation;

mod application;
mod cut;
mod live;
mod origin;

use application::Application;
use live::Live;
use origin::Origin;

/// The phase of a trace's replay.
const PHASE: &str = "replay";

/// Recordings that are made at the same time.
const PARTS: usize = 2;

/// Answers.
pub fn run(asked: &Advise, parsed: &Invocation) -> super::Result {
    let interrupt = Interrupt::new();
    let answered = answer(asked, parsed, &interrupt);
    if let Some(signal) = interrupt.signal() {
        match &answered {
            // The answer is there, and what was stopped stands in it.
            Ok(_) => {}
            Err(Stopped::WithAnswer(error)) => tell!("error: {}", error.message()),
            // All that was begun is gone with it.
            Err(Stopped::Without(_)) => {
                tell!("Stopped by a signal: what was begun is removed, and there is no advice.");
            }
        }
        // What was printed is to be there before that.
        if let Err(error) = fathom_output::end() {
            tell!("error: standard output: {error}");
        }
        crate::ending::as_the_signal(signal);
    }
    answered.map_err(|stopped| match stopped {
        Stopped::WithAnswer(error) | Stopped::Without(error) => error,
    })
}

/// Why the command failed, and whether the answer was printed all the same.
enum Stopped {
    WithAnswer(Error),
    Without(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Without(error)
    }
}

/// An answer, with what failed besides.
struct Answer {
    advice: Advice,
    /// What results name, and the command may have read.
    named: Vec<PathBuf>,
    problems: Vec<Error>,
}

fn answer(asked: &Advise, parsed: &Invocation, interrupt: &Interrupt) -> Result<Outcome, Stopped> {
    let command = parsed.again(&["json"], &[]);
    let devices = simulate::devices(&asked.device)?;
    if asked.live && asked.device.is_empty() {
        return Err(Stopped::Without(Error::usage(
            "--live runs on each device for as long as that takes: name the devices with --device",
        )));
    }
    let now = application::now(&asked.now)?;
    check_outputs(asked, &[&asked.input])?;
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))?;
    let question = Question { asked, now: &now, command: &command, devices: &devices, interrupt };
    let answer =
        if simulate::is_results(&asked.input) { of_results(&question)? } else { of_trace(&question)? };
    let Answer { advice, named, mut problems } = answer;
    if let Some((file, is_named)) = report_file(asked, &advice.title) {
        let inputs = super::all_inputs(&[&asked.input], &named);
        let checked =
            if is_named { Ok(()) } else { super::check_unnamed("--html", &file, &inputs, HTML_MARK) };
        match checked.and_then(|()| super::write_text("--html", &file, &inputs, &advice.html())) {
            Ok(()) => tell!("Report: {}", shown_path(&file)),
            // The answer is printed all the same.
            Err(error) => problems.push(error),
        }
    }
    if asked.json {
        super::print_json(&advice.json())?;
    } else {
        fathom_output::raw(&advice.terminal(&super::style()));
    }
    if let Some(problem) = super::first_of(problems) {
        return Err(Stopped::WithAnswer(problem));
    }
    // Who named a device has no answer for it.
    let is_whole = advice.missing.is_empty() || (asked.device.is_empty() && asked.fs.is_empty());
    let problem = advice.cut_problem();
    if let Some(problem) = &problem {
        tell!("error: {}", shown(problem));
    }
    Ok(if is_whole && problem.is_none() { Outcome::Good } else { Outcome::Failed })
}

/// What is asked, by whom, and of which devices.
#[derive(Clone, Copy)]
struct Question<'a> {
    asked: &'a Advise,
    /// What the application has now, where the user says it.
    now: &'a [(String, String)],
    command: &'a str,
    devices: &'a [Model],
    interrupt: &'a Interrupt,
}

/// Where the page goes, and whether that is its whole name: in a directory it has the trace's.
fn report_file(asked: &Advise, title: &str) -> Option<(PathBuf, bool)> {
    let given = asked.html.as_ref()?;
    if given.is_dir() {
        return Some((given.join(format!("{title}-advice.html")), false));
    }
    Some((given.clone(), true))
}

fn check_outputs(asked: &Advise, inputs: &[&Path]) -> Result<(), Error> {
    // In a directory the report's name is known when the trace's is.
    let html = asked.html.as_deref().filter(|file| !file.is_dir());
    let files = [("--out", asked.out.as_deref()), ("--html", html)];
    super::check_outputs(&files, asked.json.then_some("--json"), inputs)?;
    asked.out.as_deref().map_or(Ok(()), super::check_kept)
}

/// As [`check_outputs`], of the name that the report has in a directory.
fn check_report_in_directory(asked: &Advise, title: &str) -> Result<(), Error> {
    let Some((file, false)) = report_file(asked, title) else { return Ok(()) };
    super::check_unnamed("--html", &file, &[&asked.input], HTML_MARK)?;
    match &asked.out {
        Some(out) if fathom_output::is_same_file(out, &file) => {
            Err(Error::usage(format!("--out and --html: both would write {}", shown_path(&file))))
        }
        _ => Ok(()),
    }
}

/// From runs that were recorded before. Those of `fathom advise` hold the settings that led for what
/// was asked then: for what is asked now others may lead, which are recorded where that can be, and
/// else are named.
fn of_results(question: &Question<'_>) -> Result<Answer, Error> {
    let Question { asked, devices, interrupt, .. } = *question;
    let of_traces = [
        ("--fs", !asked.fs.is_empty()),
        ("--dir", asked.dir.is_some()),
        ("--on", asked.on.is_some()),
        ("--out", asked.out.is_some()),
        ("--repeat", asked.repeat.is_some()),
        ("--live", asked.live),
        ("--cut", asked.cut),
    ];
    if let Some((option, _)) = of_traces.iter().find(|pair| pair.1) {
        return Err(Error::usage(format!(
            "{option} is for traces, which are recorded first: {} holds runs that were made",
            shown_path(&asked.input)
        )));
    }
    let results = super::load(&asked.input)?;
    let named = super::named_inputs(&results);
    check_outputs(asked, &super::all_inputs(&[&asked.input], &named))?;
    let analysis = Analysis::of(&results).map_err(Error::failed)?;
    let phase = the_phase(asked, &results, &analysis)?;
    let origin = Origin::of(&results);
    let (mut baseline, mut source) = recorded_baseline(&results, origin.as_ref())?;
    for (key, value) in question.now {
        baseline.set(key, value);
        source = "as --now says".to_owned();
    }
    let must = must(asked, promise_of(&results, &baseline));
    let why_not = match &origin {
        Some(origin) if origin.answers(&results, must, &baseline, devices) => None,
        Some(origin) => match origin.trace() {
            Ok(trace) => {
                tell!(
                    "{}: was recorded for {}, and holds what led there: what is missing is recorded now, from {}",
                    shown_path(&asked.input),
                    origin.words(&results),
                    shown_path(trace)
                );
                let asked = origin.again(asked, trace);
                let now = application::now(&asked.now)?;
                let answer = of_trace(&Question { asked: &asked, now: &now, ..*question })?;
                return Ok(Answer { named, ..answer });
            }
            Err(why) => Some(Some(why)),
        },
        None => Some(None),
    };
    if recorded(&results).all(|known| known.0 != baseline) {
        return Err(Error::usage(format!(
            "--now: {} has no recording of {}; give the trace itself",
            shown_path(&asked.input),
            baseline.name()
        )));
    }
    let (devices_tried, mut notes) = advise::trials(&results, devices, &phase, None).map_err(study_error)?;
    let partial = why_not.map(|why| {
        let origin = origin.as_ref().zip(why);
        not_compared(asked, (&results, &devices_tried), origin, &baseline, must)
    });
    let advised = judged(&results, devices, devices_tried, &phase, &baseline, must, interrupt)?;
    notes.extend(Failure::of(&results).iter().map(Failure::told));
    notes.extend(doubts(&results, &analysis, &advised));
    let advice = Advice {
        title: results.experiment.title.clone(),
        must,
        hints: application::of_settings(&baseline, &advised),
        baseline,
        baseline_source: source,
        pace_s: None,
        devices: advised,
        notes,
        missing: Vec::new(),
        partial,
        live: Vec::new(),
        cuts: Vec::new(),
        command: question.command.to_owned(),
    };
    Ok(Answer { advice, named, problems: Vec::new() })
}

/// The one phase of results, which are of one application.
fn the_phase(asked: &Advise, results: &Results, analysis: &Analysis) -> Result<String, Error> {
    let phases = analysis.phases();
    let [phase] = phases.as_slice() else {
        return Err(Error::usage(format!(
            "{}: it holds {} phases ({}): advice is for one application's transactions. Give its trace, or results of one",
            shown_path(&asked.input),
            phases.len(),
            phases.join(", ")
        )));
    };
    let mut cells = results.cells.iter().filter(|cell| cell.skipped.is_none());
    let first = cells.next();
    if cells.any(|cell| first.is_some_and(|first| first.spec.workload != cell.spec.workload)) {
        return Err(Error::usage(format!(
            "{}: it holds several workloads: advice is for one application",
            shown_path(&asked.input)
        )));
    }
    Ok(phase.clone())
}

/// The settings that results hold, with what they promise.
fn recorded(results: &Results) -> impl Iterator<Item = (Candidate, Option<Durability>)> {
    let cells = results.cells.iter().filter(|cell| cell.skipped.is_none());
    cells.filter_map(|cell| Some((Candidate::of(cell.spec.engine.as_ref()?)?, cell.durability)))
}

/// What settings promise, as their runs have said.
fn promise_of(results: &Results, baseline: &Candidate) -> Option<Durability> {
    recorded(results).find(|known| known.0 == *baseline)?.1
}

/// What the application has, as far as recordings tell, and where that is known from.
fn recorded_baseline(results: &Results, origin: Option<&Origin>) -> Result<(Candidate, String), Error> {
    let default = Candidate::default();
    match (origin, recorded(results).next()) {
        (_, None) => Err(Error::failed("no cell of these results is SQLite's")),
        (Some(origin), _) => Ok((origin.baseline.clone(), "as it was when it was recorded".to_owned())),
        _ if recorded(results).any(|known| known.0 == default) => {
            Ok((default, "SQLite's default".to_owned()))
        }
        (None, Some((first, _))) => Ok((first, "the first of the results".to_owned())),
    }
}

/// Settings that are named in a sentence; more are counted.
const NAMED: usize = 6;

/// What was compared, and what was not, where settings are missing and cannot be recorded; `origin`
/// with the reason for that.
fn not_compared(
    asked: &Advise,
    (results, tried): (&Results, &[Vec<Trial>]),
    origin: Option<(&Origin, String)>,
    baseline: &Candidate,
    must: Durability,
) -> String {
    let held = distinct(tried.iter().flatten().map(|trial| trial.candidate.name()));
    let mut others = advise::first(baseline);
    others.extend(advise::second(tried, must, advise::AppUse::default()));
    others.extend(advise::third(tried, must));
    let missing = distinct(others.iter().map(Candidate::name).filter(|name| !held.contains(name)));
    let list = |names: &[String]| {
        let more = names.len().saturating_sub(NAMED);
        let shown = names[..names.len() - more].join("; ");
        if more == 0 { shown } else { format!("{shown}; and {more} more") }
    };
    let file = shown_path(&asked.input);
    let mut text = format!(
        "Compared are only the {} settings that {file} holds ({}), so the fastest of these is named, and not the best that there is",
        held.len(),
        list(&held)
    );
    if let Some((origin, _)) = &origin {
        text += &format!(". They are those that led for {}", origin.words(results));
    }
    if !missing.is_empty() {
        text += &format!(". Not compared, for they were not recorded: {}", list(&missing));
    }
    text += &match origin {
        Some((origin, why)) => {
            format!(". To compare all: `{}` as root ({why}).", origin.command(asked, word_of(must)))
        }
        None => ". To compare all, give `fathom advise` the trace itself.".to_owned(),
    };
    text
}

/// Each name once, where it comes first.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// Words of what must be kept, as `--must` has them.
fn word_of(must: Durability) -> &'static str {
    match must {
        Durability::PowerCut => "keep=all",
        Durability::PowerCutAllButLast => "keep=all-but-last",
        _ => "keep=prefix",
    }
}

/// What the report says of the same runs, but for what is told elsewhere: settings that break the
/// application, and promises that differ. Of recordings, what their own times on the device that
/// they are made on would be worth is left out, for those are not shown: how the simulated times of
/// the runs scatter is said instead.
fn doubts(results: &Results, analysis: &Analysis, advised: &[DeviceAdvice]) -> Vec<String> {
    let is_simulated = advised.iter().any(|device| device.device.is_some());
    let is_told = |kind: CautionKind| match kind {
        CautionKind::FailedRuns | CautionKind::MixedDurability | CautionKind::SkippedCells => false,
        CautionKind::LateDevice | CautionKind::NoisyRuns | CautionKind::SelfTest => !is_simulated,
        _ => true,
    };
    let cautions = fathom_lab::analysis::cautions(results, analysis);
    let told = cautions.into_iter().filter(|caution| is_told(caution.kind)).map(|caution| caution.text);
    told.chain(advise::scatter(advised).filter(|_| is_simulated)).collect()
}

/// From a trace: recorded in rounds where devices can be modelled, and measured on this disk
/// where not.
fn of_trace(question: &Question<'_>) -> Result<Answer, Error> {
    let Question { asked, command, devices, interrupt, .. } = *question;
    let begun = Instant::now();
    let word = super::text_path("TRACE", &asked.input)?;
    let mut trace = super::run::trace_of("", word)?;
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
    if let Some(warning) = &application.warning {
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
    };
    let baseline = &application.baseline;
    let must_of = |own| must(asked, own);
    let (must, last) = advise::search(baseline, application.use_of(), &must_of, &mut rounds)?;
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
        let ended = stopped(interrupt).and_then(|()| rounds.cuts(&advised, &mut cuts));
        notes.extend(besides("the exploration of power cuts", ended, interrupt, &mut problems));
    }
    if is_modelled {
        let machine = match &rounds.there {
            Some(_) => asked.on.as_ref().map_or_else(String::new, Target::to_string),
            None => "this machine".to_owned(),
        };
        notes.insert(0, format!("Times are simulated from recordings on {machine}: CPU time is {machine}'s"));
    }
    notes.splice(0..0, application.warning.clone());
    notes.extend(application.notes.iter().cloned());
    notes.extend(rounds.broken.iter().map(Failure::told));
    notes.extend(doubts(&results, &Analysis::of(&results).map_err(Error::failed)?, &advised));
    let advice = Advice {
        title,
        must,
        baseline: baseline.clone(),
        baseline_source: application.baseline_source.clone(),
        pace_s: application.pace_s(),
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

/// What was tried, by device, and what must be known of the numbers.
type Tried = (Vec<Vec<Trial>>, Vec<String>);

/// A setting of which a recording failed.
#[derive(Clone, Debug)]
struct Failure {
    name: String,
    kind: FailureKind,
    /// As the run says it.
    why: String,
}

impl Failure {
    /// The first of each setting whose runs failed.
    fn of(results: &Results) -> Vec<Failure> {
        let mut all: Vec<Failure> = Vec::new();
        for run in results.failed_runs() {
            let Some(cell) = results.cell(run.cell) else { continue };
            let candidate = cell.spec.engine.as_ref().and_then(Candidate::of);
            let name = candidate.map_or_else(|| cell.label.clone(), |candidate| candidate.name());
            if !all.iter().any(|known| known.name == name) {
                let why = run.message.clone().unwrap_or_else(|| "no message".into());
                all.push(Failure { name, kind: run.failure.unwrap_or_default(), why });
            }
        }
        all
    }

    /// Why, as far as it concerns who reads it: which of Fathom's own statements found out first
    /// that the database is locked does not.
    fn reason(&self) -> String {
        match self.kind {
            FailureKind::Locked => {
                "while one of its connections has the database, another one cannot use it \
                                    (database is locked)"
                    .to_owned()
            }
            // The image that it is recorded on has a size of its own.
            _ => super::full::without_size(&self.why).to_owned(),
        }
    }

    /// What it says of the settings: that they break the application where its replay found that
    /// out, and nothing where the machine did not do its part.
    fn told(&self) -> String {
        let (name, why) = (&self.name, self.reason());
        match self.kind.is_of_settings() {
            true => format!("{name} breaks the application: {why}"),
            false => format!(
                "a recording of {name} failed and is left out, which says nothing of these settings: {why}"
            ),
        }
    }
}

/// Recordings, round by round.
struct Rounds<'a> {
    asked: &'a Advise,
    command: &'a str,
    what: RecordingRequest,
    kept: RecordingFile,
    directory: PathBuf,
    /// Another machine that it is recorded on.
    there: Option<Remote>,
    interrupt: &'a Interrupt,
    devices: &'a [Model],
    is_modelled: bool,
    /// Recordings that are made at the same time.
    parts: usize,
    /// Settings with which the application fails, and why.
    broken: Vec<Failure>,
    /// When all of it began.
    begun: Instant,
    /// What the rounds so far have taken.
    effort: Effort,
}

impl advise::Recorder for Rounds<'_> {
    type Error = Error;

    fn record(&mut self, round: u32, candidates: Vec<Candidate>) -> Result<Vec<Vec<Trial>>, Error> {
        let beside = |part: usize| self.kept.file.with_file_name(format!("round-{round}-{part}.db"));
        let files: Vec<PathBuf> = (0..self.parts).map(beside).collect();
        let recording = Instant::now();
        let all = self.make(round, candidates, (1, None), &files)?;
        let simulating = Instant::now();
        // Side by side: one after the other takes that much longer at most.
        self.effort.recorded += (simulating - recording) * all.len() as u32;
        self.effort.runs += all.iter().map(|(_, summary)| summary.done as u32).sum::<u32>();
        let mut tried: Vec<Vec<Trial>> = Vec::new();
        for (results, summary) in &all {
            if summary.done == 0 {
                continue;
            }
            let (of_part, _) = self.tried(results)?;
            if tried.is_empty() {
                tried = of_part;
            } else {
                tried.iter_mut().zip(of_part).for_each(|(all, more)| all.extend(more));
            }
        }
        self.effort.simulated += simulating.elapsed();
        // Where the first of them could not be made at all, nobody waits for the others.
        if round == 1 && tried.iter().all(Vec::is_empty) {
            let why = self.broken.first().map_or_else(|| "no run was made".into(), Failure::reason);
            return Err(Error::failed(format!("nothing could be recorded: {}", shown(&why))));
        }
        if tried.is_empty() {
            tried = vec![Vec::new(); if self.is_modelled { self.devices.len() } else { 1 }];
        }
        self.stopped()?;
        Ok(tried)
    }
}

impl Rounds<'_> {
    /// Where the last round's recordings lie.
    fn last_file(&self) -> PathBuf {
        self.kept.file.with_file_name("last.db")
    }

    /// The last round, in one file, which `--out` keeps.
    fn finals(&mut self, finalists: Finalists) -> Result<(Results, Tried), Error> {
        let Finalists { all: mut candidates, mut needed, leaders } = finalists;
        if self.asked.live {
            // What is run live stands beside what the last round has simulated of it.
            let (first, rest) = candidates.split_at(needed.min(candidates.len()));
            let mut all = first.to_vec();
            all.extend(leaders);
            let mut seen = Vec::new();
            all.retain(|candidate| {
                let is_new = !seen.contains(candidate);
                seen.push(candidate.clone());
                is_new
            });
            needed = all.len();
            all.extend(rest.iter().filter(|candidate| !seen.contains(candidate)).cloned());
            candidates = all;
        }
        if self.asked.repeat.is_none() {
            let filesystems = self.what.filesystems.len().max(1);
            candidates.truncate((self.effort.settings(self.left()) / filesystems).max(needed));
        }
        let repeats = self.repeats(candidates.len() * self.what.filesystems.len());
        let mut all = self.make(advise::ROUNDS, candidates, repeats, &[self.last_file()])?;
        let made = all.pop().filter(|made| made.1.done > 0);
        let (results, _) = made.ok_or_else(|| {
            let why = self.broken.last().map_or_else(|| "no run was made".into(), Failure::reason);
            Error::failed(format!("nothing could be recorded: {}", shown(&why)))
        })?;
        let tried = self.tried(&results)?;
        self.stopped()?;
        Ok((results, tried))
    }

    /// Runs of each of so many settings of the last round: as many as asked, else as many as there
    /// is time for. What is estimated may be wrong, so the time itself ends it, too.
    fn repeats(&self, settings: usize) -> (u32, Option<MoreRuns>) {
        if let Some(repeat) = self.asked.repeat {
            return (repeat, None);
        }
        let left = self.left();
        let most = self.effort.repeats(settings, left);
        let least = *advise::REPEATS.start();
        let budget = self.effort.recording(settings, left);
        (least, (most > least).then_some(MoreRuns { most, until: advise::PRECISE, budget }))
    }

    /// Until the answer is to be there.
    fn left(&self) -> Duration {
        advise::ANSWER_WITHIN.saturating_sub(self.begun.elapsed())
    }

    /// Makes the runs of a round, and notes which settings break the application.
    fn make(
        &mut self,
        round: u32,
        candidates: Vec<Candidate>,
        (repeat, more): (u32, Option<MoreRuns>),
        files: &[PathBuf],
    ) -> Result<Vec<(Results, Summary)>, Error> {
        let mut what = self.what.clone();
        (what.repeat, what.more) = (repeat, more);
        what.variants = candidates.iter().map(|candidate| (candidate.key(), candidate.settings())).collect();
        let cells = candidates.len() * what.filesystems.len();
        let runs = match more {
            Some(more) => format!("up to {} runs", cells * more.most as usize),
            None => format!("{} runs", cells * repeat as usize),
        };
        tell!(
            "{}: round {round} of {}, {runs} on {}",
            shown(&what.title),
            advise::ROUNDS,
            what.filesystems.join(", ")
        );
        let place =
            record::Place { directory: &self.directory, command: self.command, interrupt: self.interrupt };
        let all = record::record_side_by_side(&what, files, &place, self.there.as_mut())?;
        if all.iter().any(|part| part.1.interrupted) {
            return Err(Error::failed("stopped before everything was recorded"));
        }
        for failure in all.iter().flat_map(|part| Failure::of(&part.0)) {
            if !self.broken.iter().any(|known| known.name == failure.name) {
                self.broken.push(failure);
            }
        }
        Ok(all)
    }

    /// What the settings take, by device.
    fn tried(&self, results: &Results) -> Result<Tried, Error> {
        if self.is_modelled {
            return advise::trials(results, self.devices, PHASE, None).map_err(study_error);
        }
        let analysis = Analysis::of(results).map_err(Error::failed)?;
        let here = advise::trials_here(results, &analysis, PHASE).map_err(Error::failed)?;
        Ok((vec![here], Vec::new()))
    }

    fn stopped(&self) -> Result<(), Error> {
        stopped(self.interrupt)
    }
}

fn stopped(interrupt: &Interrupt) -> Result<(), Error> {
    if interrupt.is_raised() { Err(Error::failed("stopped by a signal")) } else { Ok(()) }
}

/// The advice for each device, with what it rests on.
fn judged(
    results: &Results,
    devices: &[Model],
    tried: Vec<Vec<Trial>>,
    phase: &str,
    baseline: &Candidate,
    must: Durability,
    interrupt: &Interrupt,
) -> Result<Vec<DeviceAdvice>, Error> {
    stopped(interrupt)?;
    let of_device = |(model, tried): (&Model, Vec<Trial>)| {
        let mut advised =
            DeviceAdvice::of(Some(model.name.clone()), model.title.clone(), tried, baseline, must);
        advised.assumptions.clone_from(&model.assumptions);
        advised
    };
    let mut all: Vec<DeviceAdvice> = devices.iter().zip(tried).map(of_device).collect();
    let sways = advise::sways(results, devices, phase, &all, must).map_err(study_error)?;
    all.iter_mut().zip(sways).for_each(|(device, sways)| device.sways = sways);
    stopped(interrupt)?;
    Ok(all)
}

/// What must be kept: as asked, else what the application's own settings promise, and a sound
/// database at the least.
fn must(asked: &Advise, own: Option<Durability>) -> Durability {
    let own = own.unwrap_or(Durability::PowerCutAllButLast).max(Durability::PowerCutPrefix);
    asked.must.unwrap_or(own)
}

/// The other machine that is asked for, with its agent.
fn elsewhere(asked: &Advise, interrupt: &Interrupt) -> Result<Option<Remote>, Error> {
    let Some(machine) = asked.on.as_ref().filter(|machine| **machine != Target::Local) else {
        return Ok(None);
    };
    let mut remote = Remote::connect(machine, interrupt.clone()).map_err(Error::failed)?;
    super::tell_notes(&remote.notes());
    Ok(Some(remote))
}

/// The file systems of another machine, and why it cannot model a device.
fn abilities(remote: &mut Remote) -> Result<(Vec<Availability>, Option<String>), Error> {
    let (capabilities, _) = remote.doctor().map_err(Error::failed)?;
    let root = capabilities.iter().find(|capability| capability.name == "root" && !capability.present);
    let why_not = root.map(|root| format!("Recording for other devices needs root there: {}", root.detail));
    let machine = fathom_stack::Machine::here();
    let of = |capability: Capability| {
        let filesystem = machine.filesystem(&capability.name)?;
        Some(Availability {
            in_guest: capability.detail.contains(" in a guest ("),
            filesystem: capability.name,
            present: capability.present,
            detail: capability.detail,
            remedy: capability.remedy,
            min_mib: filesystem.min_mib,
        })
    };
    Ok((capabilities.into_iter().filter_map(of).collect(), why_not))
}

/// The trace of a profile, made once, so that every run replays the same.
fn made_up(trace: &TraceChoice, kept: &RecordingFile) -> Result<TraceChoice, Error> {
    let profile = fathom_trace::synthesise::profile(&trace.value).map_err(Error::usage)?;
    let file = kept.file.with_file_name(format!("{}.trace", trace.label));
    fathom_trace::synthesise::synthesise(profile, 1, 100, &file).map_err(|error| match &error {
        fathom_trace::TraceError::Io { source, .. } if super::is_full(source) => record::temporary_is_full(),
        _ => Error::failed(error),
    })?;
    let value = super::text_path("TMPDIR", &file)?.to_owned();
    Ok(TraceChoice { label: trace.label.clone(), parameter: "file", value })
}

fn study_error(error: fathom_lab::simulate::StudyError) -> Error {
    use fathom_lab::simulate::StudyError;
    match error {
        StudyError::NoRecording(_) | StudyError::NoSuch { .. } => Error::usage(error),
        StudyError::Nothing(..) | StudyError::Store(_) => Error::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, why: &str) -> Failure {
        Failure { name: "WAL/FULL".into(), kind, why: why.into() }
    }

    #[test]
    fn why_settings_break_an_application_is_said_without_what_found_it_out() {
        let why =
            "engine sqlite: PRAGMA \"main\".auto_vacuum: database is locked: /run/fathom/stacks/x/mnt/w.db";
        let told = failure(FailureKind::Locked, why).reason();
        assert!(!told.contains("/run/") && !told.contains("auto_vacuum"), "{told}");
        assert_eq!(failure(FailureKind::Differs, "rows differ").reason(), "rows differ");
    }

    /// What happened: on a busy machine the device's server did not answer for 30 s, and "WAL/FULL
    /// breaks the application" was said of that.
    #[test]
    fn a_machine_that_fails_is_no_setting_that_breaks_the_application() {
        for (kind, why) in [
            (
                FailureKind::Machine,
                "/run/fathom/stacks/x/x.device: fathom device-server has not answered for 30s",
            ),
            (FailureKind::Storage, "engine sqlite: COMMIT: database or disk is full"),
            // By its kind, whatever words it begins with.
            (FailureKind::Machine, "engine sqlite: `INSERT INTO \"database is locked\"`: out of memory"),
        ] {
            let told = failure(kind, why).told();
            assert!(told.starts_with("a recording of WAL/FULL failed") && !told.contains("breaks"), "{told}");
        }
        for (kind, why) in [
            (FailureKind::Differs, "verification failed: rows differ"),
            (FailureKind::Engine, "`INSERT` on w.db: no such table: t"),
            (FailureKind::Locked, "result 5"),
        ] {
            let told = failure(kind, why).told();
            assert!(told.starts_with("WAL/FULL breaks the application: "), "{told}");
        }
    }
}
