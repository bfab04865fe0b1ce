//! `trace`: what an application did, done again (`fathom trace`).
//!
//! Before the timed window every database of the trace is put back to what it held at the start, with the cell's page size, and all
//! calls are read into memory. Then every call is made again: opened, prepared, bound, stepped and reset as captured.
//!
//! **Threads.** Each captured thread with the connections that it used is a thread here; threads that shared a connection are one.
//! **Order.** A call waits for every call that had returned before it began when it was captured, and a statement that writes
//! also for the one that wrote before it; calls that overlapped may overlap. Logs and scripts tell no times: their streams run freely.
//! **Timing.** As fast as possible, as captured, or as captured with the gaps and starts divided by `speed`. Where a call begins later than it should,
//! the lateness is measured and told.
//! **Settings.** PRAGMAs and calls that set what the cell sets (journal mode, page size, synchronous …) are left out; others are done.
//! **Checked.** Rows returned and changed by each call, and errors, must be those that were captured.
//! **Left out.** Databases in memory; calls that failed because of another one's lock (the application's own retry follows) or within which
//! their process was killed. How many is told.

mod lane;
mod load;
mod made;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::engine::{Dialect, Engine};
use crate::params::{Kind, Parameter, Params, Preset};
use crate::recorder::{Phase, Unit};
use crate::registry::WorkloadKind;
use crate::sample::Sink;
use crate::workload::{Context, Workload, WorkloadError};

use lane::{Report, Timing};
use load::Loaded;
use order::Order;

/// The workload as it is known by name.
pub static KIND: WorkloadKind = WorkloadKind {
    name: "trace",
    summary: "an application's SQLite calls, captured (fathom trace capture, import) or made up by a profile, done again",
    parameters: PARAMETERS,
    needs_engine: true,
    abscissa: "",
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
];

/// The workload, its parameters checked.
struct Trace {
    params: Params,
}

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    made::check(&params)?;
    Ok(Box::new(Trace { params }))
}

fn refused(parameter: &str, problem: String) -> WorkloadError {
    WorkloadError::Parameter {
        workload: KIND.name.into(),
        parameter: parameter.into(),
        problem,
        suggestion: None,
    }
}

/// A check that did not pass.
fn wrong(problem: String) -> WorkloadError {
    WorkloadError::Verification(format!("trace: {problem}"))
}

impl Workload for Trace {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let engine = match context.engine {
            Some(engine) if engine.dialect() == Dialect::Sqlite => engine,
            _ => return Err(refused("engine", "must be sqlite: a trace holds SQLite's calls".into())),
        };
        let source = made::Source::of(&self.params, context.seed)?;
        source.tell(sink)?;
        let loaded = load::load(source.path(), engine, context.directory)
            .map_err(|error| refused("file", error.to_string()))?;
        for warning in &loaded.warnings {
            sink.warning(warning.clone());
        }
        sink.progress(0.3);
        let report = self.replay(engine, &loaded, sink)?;
        report.tell(sink);
        sink.progress(1.0);
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        self.params.all().clone()
    }
}

impl Trace {
    /// The timed part.
    fn replay(
        &self,
        engine: &dyn Engine,
        loaded: &Loaded,
        sink: &mut dyn Sink,
    ) -> Result<Report, WorkloadError> {
        let timing = match self.params.text("timing") {
            "original" => Timing::Original { speed: self.params.number("speed") },
            _ => Timing::AsFast,
        };
        let order = Order::new(loaded.lanes.iter().map(Vec::len).collect());
        let mut phase = Phase::begin("replay", None, Unit::Transaction);
        let mut lanes: Vec<_> =
            (0..).zip(&loaded.lanes).map(|(number, calls)| phase.lane(number, calls.len())).collect();
        let start_ns = crate::clock::now_ns();
        let run = |number| lane::Run { number, engine, loaded, order: &order, timing, start_ns };
        let ended: Vec<_> = if loaded.lanes.len() == 1 {
            // On the worker's own thread.
            lanes.drain(..).map(|record| run(0).calls(&loaded.lanes[0], record)).collect()
        } else {
            std::thread::scope(|scope| {
                let run = &run;
                let start =
                    |(number, record)| scope.spawn(move || run(number).calls(&loaded.lanes[number], record));
                let started: Vec<_> = lanes.drain(..).enumerate().map(start).collect();
                let panicked = || wrong("a replaying thread has panicked".into());
                started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))).collect()
            })
        };
        let mut report = Report::default();
        let mut records = Vec::new();
        let mut failed = None;
        for one in ended {
            match one {
                Ok((record, own)) => {
                    report.add(own);
                    records.push(record);
                }
                // The lane that failed first stops the others, which then say no more than that.
                Err(error) if failed.is_none() || !matches!(error, WorkloadError::Verification(_)) => {
                    failed = Some(error)
                }
                Err(_) => {}
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        phase.add_lock_waits(report.lock_waits);
        phase.end(records, sink);
        Ok(report)
    }
}
