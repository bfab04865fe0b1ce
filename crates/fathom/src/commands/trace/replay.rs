//! `fathom trace replay`: a trace done again, once, outside of any experiment.
//!
//! A process of its own does the work, in a directory that this one makes and removes (see
//! [`super::replay_place`]): so whatever ends the work, a signal as well as a crash in a library
//! that was given by its path, the application's databases do not stay.

use fathom_output::{say, shown, tell};
use std::collections::BTreeMap;

use fathom_lab::remote::Target;
use fathom_trace::model::Loss;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Sink};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::workload::{Context, WorkloadError};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::cli::TraceReplay;
use crate::outcome::{Error, Outcome};

/// SQLite's result code of a full disk, <https://sqlite.org/rescode.html#full>.
const FULL: i32 = 13;

/// What a replay handed out.
#[derive(Default, Serialize)]
struct ReplayOutput {
    phases: Vec<PhaseSummary>,
    io: Vec<IoRow>,
    warnings: Vec<String>,
    verified: Vec<String>,
}

impl Sink for ReplayOutput {
    fn sample(&mut self, _: Sample) {}
    fn phase(&mut self, summary: PhaseSummary) {
        self.phases.push(summary);
    }
    fn io(&mut self, row: IoRow) {
        self.io.push(row);
    }
    fn progress(&mut self, _: f64) {}
    fn warning(&mut self, text: String) {
        self.warnings.push(text);
    }
    fn verified(&mut self, check: String) {
        self.verified.push(check);
    }
}

/// Replays and prints what it took.
pub fn run(asked: &TraceReplay) -> super::super::Result {
    let file = std::path::absolute(&asked.file).map_err(Error::usage)?;
    // Says at once what is wrong with the file, before a directory is made.
    fathom_trace::Reader::open(&file).map_err(Error::of_trace)?;
    let mut params = timing(&asked.timing)?;
    params.insert("file".into(), json!(super::super::text_path("the trace", &file)?));
    let spec = EngineSpec { name: "sqlite".into(), settings: settings(&asked.set)? };
    fathom_workload::engine::check_settings(&spec.name, &spec.settings)
        .map_err(|error| Error::usage(format!("--set {error}")))?;
    let workload =
        fathom_workload::create(&WorkloadSpec { name: "trace".into(), params }).map_err(Error::usage)?;
    if let Some(machine) = asked.on.as_ref().filter(|machine| **machine != Target::Local) {
        return super::replay_place::run_on(machine, asked, &file);
    }
    let Some(directory) = &asked.within else {
        return super::replay_place::run(asked, &file);
    };
    super::replay_place::settle_in();
    fathom_trace::room::keep(directory);
    let engine = fathom_workload::start_engine(&spec, directory).map_err(Error::failed)?;
    let mut kept = ReplayOutput::default();
    // A replay draws nothing by chance.
    let context = Context { directory, engine: Some(&*engine), seed: 1 };
    workload.run(&context, &mut kept).map_err(|error| match error {
        WorkloadError::Parameter { .. } => Error::usage(error),
        WorkloadError::Engine(full) if full.code & 0xff == FULL => Error::failed(format!(
            "{full}: free some space there, or name a directory on a larger disk with --dir (--on MACHINE:/DIR)"
        )),
        other => Error::failed(other),
    })?;
    if asked.json {
        super::super::print_json(&kept)?;
    } else {
        print(&kept);
    }
    // All that is in the trace was done, and that is not what the application did.
    let Some(lost) = kept.warnings.iter().find(|warning| Loss::is_told_by(warning)) else {
        return Ok(Outcome::Good);
    };
    tell!("error: {}", shown(lost));
    Ok(Outcome::Failed)
}

fn print(kept: &ReplayOutput) {
    for phase in &kept.phases {
        let [_, p50, p90, p99, _, max] = phase.latency_ns.map(|ns| ns as f64 / 1e3);
        say!(
            "{} {}s in {:.3} s: {:.0} a second; p50 {p50:.1} µs, p90 {p90:.1} µs, p99 {p99:.1} µs, longest {max:.1} µs",
            phase.count,
            phase.unit,
            phase.wall_ns as f64 / 1e9,
            phase.count as f64 / (phase.wall_ns.max(1) as f64 / 1e9)
        );
        if let Some(path) = &phase.critical_path {
            let share = |ns: u64| ns as f64 * 100.0 / path.total_ns().max(1) as f64;
            say!(
                "critical path of the threads: fsync {:.1} %, read {:.1} %, write {:.1} %, CPU {:.1} %, lock waits {:.1} %, other {:.1} %",
                share(path.sync_ns),
                share(path.read_ns),
                share(path.write_ns),
                share(path.cpu_ns),
                share(path.lock_ns),
                share(path.other_ns)
            );
        }
    }
    for check in &kept.verified {
        say!("checked: {}", shown(check));
    }
    for warning in kept.warnings.iter().filter(|warning| !Loss::is_told_by(warning)) {
        tell!("warning: {}", shown(warning));
    }
}

/// `as-fast`, `original` or `xN` as parameters of the workload.
fn timing(word: &str) -> Result<BTreeMap<String, Json>, Error> {
    let pairs = match word.strip_prefix('x').map(str::parse::<f64>) {
        Some(Ok(speed)) => vec![("timing", json!("original")), ("speed", json!(speed))],
        _ if word == "as-fast" || word == "original" => vec![("timing", json!(word))],
        _ => return Err(Error::usage(format!("--timing {word}: as-fast, original, or xN such as x10"))),
    };
    Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// `KEY=VALUE` words as settings: a number where it is one, else text.
fn settings(words: &[String]) -> Result<BTreeMap<String, Json>, Error> {
    let pair = |word: &String| {
        let (key, value) = word.split_once('=')?;
        let key = key.strip_prefix("engine.").unwrap_or(key);
        let value = serde_json::from_str::<Json>(value)
            .ok()
            .filter(|value| !value.is_string())
            .unwrap_or_else(|| json!(value));
        Some((key.to_owned(), value))
    };
    let mut all = BTreeMap::new();
    for word in words {
        let (key, value) = pair(word).ok_or_else(|| {
            Error::usage(format!("--set {word}: is not key=value, as in --set journal_mode=wal"))
        })?;
        if all.insert(key.clone(), value).is_some() {
            return Err(Error::usage(format!(
                "--set {word}: {key} is set twice; a replay has one value of it"
            )));
        }
    }
    Ok(all)
}
