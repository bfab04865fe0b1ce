//! `trace`: what an application did, done again (`fathom trace`).
//!
//! Before the timed window every database of the trace is put back to what it held at the start,
//! with the cell's page size, and is on the device. Then every call is made again: opened,
//! prepared, bound, stepped and reset as captured.
//!
//! **Memory.** The trace is read twice: before the window to know its threads, and again ahead of
//! them, as much as `feed.rs` allows; so a trace may be longer than memory. Samples are kept of so
//! many executions (see `SAMPLES_MAX`), counts and latencies are of all.
//!
//! **Threads.** Each captured thread is a thread here; a connection that several use is used by one
//! after the other, as it was.
//! **Order.** Captured traces tell which locks each call held: what a transaction saw and in which
//! order they ended is kept (`locks.rs`). A call whose thread holds no lock also waits for every
//! call that had returned before it began when it was captured; calls that overlapped may overlap.
//! Where a trace tells no locks, a statement that writes waits for the one that wrote before it.
//! Logs and scripts tell no times: their streams run freely.
//! **Time.** What several threads' time consisted of is told of their critical path
//! (`crate::critical`).
//! **Timing.** As fast as possible, as captured, or as captured with the gaps and starts divided by
//! `speed`. Where a call begins later than it should, the lateness is measured and told.
//! **Settings.** PRAGMAs and calls that set what the cell sets (journal mode, page size,
//! synchronous …) are left out; others are done.
//! **Checked.** Rows returned and changed by each call, and errors, must be those that were
//! captured. After the window each database must be sound (`integrity_check`), and a hash of its
//! content is told, which the `sqlite3` shell computes, too.
//! **Left out.** Databases in memory; calls that failed because of another one's lock (the
//! application's own retry follows) or within which their process was killed. How many is told.

mod changes;
mod feed;
mod lane;
#[cfg(test)]
mod lock_tests;
mod locks;
mod made;
mod order;
mod plan;
#[cfg(test)]
mod tests;
mod translate;
mod watermark;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fathom_trace::content;

use crate::engine::{Dialect, Engine};
use crate::params::{Kind, Parameter, Params, Preset};
use crate::recorder::{self, Phase, Unit};
use crate::sample::Sink;
use crate::workload::{Context, IdleParameters, Workload, WorkloadError, WorkloadKind};

use feed::Feed;
use lane::{Report, Timing};
use order::Order;
use plan::Plan;

/// Executions of a run that become samples, over all threads.
const SAMPLES_MAX: usize = 1 << 18;

pub use fathom_trace::content::sha3_of_file;
pub use fathom_trace::synthesise::NOTE as MADE_UP;

/// The workload as it is known by name.
pub static KIND: WorkloadKind = WorkloadKind {
    name: "trace",
    summary: "an application's SQLite calls, captured (fathom trace capture, import) or made up by a profile, done again",
    parameters: PARAMETERS,
    needs_engine: true,
    needs: |_| None,
    abscissa: "",
    // A trace's threads take turns, in the order in which its calls returned.
    one_thread: |_| true,
    samples: |_| SAMPLES_MAX as u64,
    idle: idle_with_timing,
    create,
};

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "file",
        kind: Kind::Text,
        default: Preset::Unset,
        unit: "path",
        description: "The trace; or give a profile.",
    },
    Parameter {
        name: "profile",
        kind: Kind::TextOf(&fathom_trace::synthesise::NAMES),
        default: Preset::Unset,
        unit: "",
        description: "Instead of a file: the trace is made up before each run, with the run's seed (fathom list profiles).",
    },
    Parameter {
        name: "scale",
        kind: Kind::Integer { min: 1, max: 10_000 },
        default: Preset::Unset,
        unit: "%",
        description: "Of a profile: rows at the start and activities, percent; 100 without it.",
    },
    Parameter {
        name: "timing",
        kind: Kind::TextOf(&["as-fast", "original"]),
        default: Preset::Text("as-fast"),
        unit: "",
        description: "Whether calls follow each other at once or at their captured times.",
    },
    Parameter {
        name: "speed",
        kind: Kind::Number { min: 0.001, max: 1000.0 },
        default: Preset::Number(1.0),
        unit: "",
        description: "With timing = original: how many times faster than captured the clock runs.",
    },
    Parameter {
        name: "ahead",
        kind: Kind::Integer { min: 1, max: 1 << 20 },
        default: Preset::Integer(64),
        unit: "MiB",
        description: "How much of the trace is read ahead of what is done: a trace that needs less is in memory before the timed window.",
    },
];

/// The workload, its parameters checked.
struct Trace {
    params: Params,
}

/// The speed of a clock that nobody looks at.
fn idle_with_timing(params: &Params) -> Option<IdleParameters> {
    let why = "is of timing = \"original\", and the timing is another";
    (params.text("timing") != "original").then_some(IdleParameters { parameters: &["speed"], why })
}

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    made::check(&params)?;
    Ok(Box::new(Trace { params }))
}

fn refused(parameter: &str, problem: String) -> WorkloadError {
    WorkloadError::refused(KIND.name, parameter, problem)
}

/// A check that did not pass.
fn wrong(problem: String) -> WorkloadError {
    WorkloadError::wrong(KIND.name, &problem)
}

impl Workload for Trace {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let engine = match context.engine {
            Some(engine) if engine.dialect() == Dialect::Sqlite => engine,
            _ => return Err(refused("engine", "must be sqlite: a trace holds SQLite's calls".into())),
        };
        let source = made::Source::of(&self.params, context.seed)?;
        source.tell(sink)?;
        let mut plan = plan::plan(source.path(), engine, context.directory)
            .map_err(|error| refused("file", error.to_string()))?;
        for warning in std::mem::take(&mut plan.warnings) {
            sink.warning(warning);
        }
        sink.progress(0.3);
        let databases = std::mem::take(&mut plan.databases);
        let ahead_bytes = usize::try_from(self.params.count("ahead") << 20).unwrap_or(usize::MAX);
        settle(context.directory)?;
        let report = self.replay(engine, plan, ahead_bytes, sink)?.0;
        report.tell(sink);
        for (number, name) in databases {
            let file = context.directory.join(format!("{}.db", plan::name_of(number)));
            look_at(&file, &name, sink)?;
        }
        sink.progress(1.0);
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let mut all = self.params.all().clone();
        // So that runs of another trace by the same path can be told from these.
        if let Some(file) = self.params.optional_text("file") {
            crate::workload::tell_content("file", Path::new(file), &mut all);
        }
        all
    }
}

/// Brings what was put there to the device: else the first commit that waits for it would write the
/// databases as they were at the start, and the trace, too.
fn settle(directory: &Path) -> Result<(), WorkloadError> {
    let synced = std::fs::File::open(directory).and_then(|open| Ok(rustix::fs::syncfs(open)?));
    synced.map_err(|source| WorkloadError::Io { path: directory.display().to_string(), source })
}

/// Whether a database is sound, and what it holds.
fn look_at(file: &Path, name: &str, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
    // SQLite makes the file when something is written.
    if std::fs::metadata(file).is_ok_and(|file| file.len() == 0) || !file.exists() {
        sink.verified(format!("{name} is empty"));
        return Ok(());
    }
    match content::integrity(file) {
        Ok(answer) if answer == "ok" => sink.verified(format!("{name}: integrity_check ok")),
        Ok(answer) => return Err(wrong(format!("{name}: integrity_check says {answer}"))),
        Err(error) => sink.warning(format!("{name} could not be checked: {error}")),
    }
    match content::content_hash(file) {
        Ok(hash) => sink.verified(format!("{name} holds {hash} (.sha3sum --sha3-256)")),
        Err(error) => sink.warning(format!("{name}: no hash of what it holds: {error}")),
    }
    Ok(())
}

impl Trace {
    /// The timed part; gives how many bytes of the trace were in memory at most, too.
    fn replay(
        &self,
        engine: &dyn Engine,
        mut plan: Plan,
        ahead_bytes: usize,
        sink: &mut dyn Sink,
    ) -> Result<(Report, usize), WorkloadError> {
        let timing = match self.params.text("timing") {
            "original" => Timing::Original { speed: self.params.number("speed") },
            _ => Timing::AsFast,
        };
        let lanes = plan.lanes.clone();
        let foreign = plan.foreign.clone();
        let file = plan.file.clone();
        let shared: Vec<lane::Slot> = (0..plan.shared).map(|_| lane::Slot::default()).collect();
        let ordered = std::mem::take(&mut plan.ordered);
        let other_version = plan.other_version.take();
        let shares_cache = plan.shares_cache;
        let is_unordered = lanes.len() > 1 && !plan.has_times;
        // What opening takes of locks and of time is the replay's.
        let mut opened = HashMap::new();
        for (connection, database) in std::mem::take(&mut plan.before) {
            opened.insert(connection, lane::open(engine, database)?);
        }
        let opened = std::sync::Mutex::new(opened);
        let databases = std::sync::Mutex::new(HashMap::new());
        let with = std::mem::take(&mut plan.with);
        let counters = plan.counters as usize + shared.len();
        let (order, feed) = (Order::new(lanes.len(), counters), Feed::new(lanes.len(), ahead_bytes));
        let not_as_before = |error: fathom_trace::TraceError| {
            refused("file", format!("{error}; it has changed while it was replayed"))
        };
        let fill = feed.begin(plan, engine, &order).map_err(not_as_before)?;
        let more = fill.ahead().map_err(not_as_before)?;
        let (ended, phase) = std::thread::scope(|scope| {
            let reading = more.map(|fill| {
                std::thread::Builder::new().name("reading".into()).spawn_scoped(scope, || {
                    feed::step_aside();
                    fill.rest()
                })
            });
            let reading = reading
                .transpose()
                .map_err(|source| WorkloadError::Io { path: "a thread".into(), source })?;
            // With captured times each call is timed by itself, so that no pause counts; that is no
            // commit.
            let unit = if timing == Timing::AsFast { Unit::Transaction } else { Unit::Call };
            let phase = Phase::begin("replay", None, unit);
            let mut records: Vec<_> = (0..)
                .zip(&lanes)
                .map(|(number, calls)| {
                    let capacity = usize::try_from(*calls).unwrap_or(usize::MAX);
                    phase.lane_of_any_length(number, capacity, SAMPLES_MAX / lanes.len())
                })
                .collect();
            let run = lane::Run {
                number: 0,
                engine,
                feed: &feed,
                order: (lanes.len() > 1).then_some(&order),
                shared: &shared,
                databases: &databases,
                opened: &opened,
                with: &with,
                ordered: &ordered,
                foreign: &foreign,
                other_version: other_version.as_deref(),
                shares_cache,
                timing,
                start_ns: crate::clock::now_ns(),
            };
            let mut ended: Vec<Result<_, WorkloadError>> = if lanes.len() == 1 {
                // On the worker's own thread.
                records.drain(..).map(|record| run.calls(record)).collect()
            } else {
                let start = |(number, record)| {
                    let run = lane::Run { number, ..run };
                    let started = std::thread::Builder::new().spawn_scoped(scope, move || run.calls(record));
                    if started.is_err() {
                        // The system has no more: those that were started wait for nobody.
                        order.stop();
                        feed.close();
                    }
                    started.map_err(|source| WorkloadError::Io { path: "a thread".into(), source })
                };
                let started: Vec<_> = records.drain(..).enumerate().map(start).collect();
                let panicked = || wrong("a replaying thread has panicked".into());
                let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                    thread.join().unwrap_or_else(|_| Err(panicked()))
                };
                started.into_iter().map(|thread| thread.and_then(end)).collect()
            };
            match reading.map(std::thread::ScopedJoinHandle::join) {
                None | Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => ended.insert(0, Err(not_as_before(error))),
                Some(Err(_)) => {
                    ended.insert(0, Err(wrong(format!("reading {} has panicked", file.display()))));
                }
            }
            Ok::<_, WorkloadError>((ended, phase))
        })?;
        let mut phase = phase;
        let mut report = Report::default();
        let mut records = Vec::new();
        let mut failed = None;
        for result in ended {
            match result {
                Ok((record, own)) => {
                    report.add(own);
                    records.push(record);
                }
                // The lane that failed first stops the others, which then say no more than that.
                // What one reads while another one waits for a lock comes of that.
                Err(error)
                    if failed.as_ref().is_none_or(|known| {
                        lane::is_stopped(known) || (lane::is_locked(&error) && !lane::is_locked(known))
                    }) =>
                {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        if let Some(error) = failed {
            return Err(if lanes.len() > 1 { lane::with_lock(error, engine) } else { error });
        }
        if let Some(one_of) = records.iter().map(recorder::Lane::one_of).max().filter(|one_of| *one_of > 1) {
            sink.warning(format!(
                "samples are kept of one in up to {one_of} executions; counts, times and latencies are of all"
            ));
        }
        for slot in shared {
            // Left open by the trace.
            let slot = slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(connection) = slot {
                report.add(Report { lock_waits: connection.lock_waits(), ..Report::default() });
                connection.close()?;
            }
        }
        report.reordered_calls = order.reordered_calls();
        report.is_unordered = is_unordered;
        phase.add_lock_waits(report.lock_waits);
        if let Some(path) = report.path {
            phase.set_critical_path(path.parts);
        }
        phase.end(records, sink);
        Ok((report, feed.most_ahead()))
    }
}
