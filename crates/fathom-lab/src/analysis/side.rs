//! One side of a comparison of two measurements: a results file, or a baseline that was made of
//! one.
//!
//! Both are reduced to the same thing, the runs' values of each cell and phase, so that a baseline
//! in a repository and the results file it was made from compare alike.

use std::collections::BTreeMap;

use fathom_workload::spec::Durability;
use fathom_workload::workload::CONTENT;
use serde::{Deserialize, Serialize};

use super::{Analysis, Clock, Measure, ModelShare};
use crate::cell::Cell;
use crate::stats::significant;
use crate::store::{Results, RunRow};

/// What two measurements are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Model time of the phase for each execution, ns ([`crate::model_time`]).
    Model,
    /// Executions per second: of model time where both have it, else of wall time.
    Rate,
    /// Mean time of one execution, ns: likewise.
    Time,
    /// Flushes that came to the modelled devices for each execution.
    Flushes,
    /// Bytes written to the modelled devices for each execution.
    Bytes,
}

impl Quantity {
    /// All, in the order in which they are shown.
    pub const ALL: [Quantity; 5] =
        [Quantity::Model, Quantity::Rate, Quantity::Time, Quantity::Flushes, Quantity::Bytes];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Model => "model",
            Quantity::Rate => "rate",
            Quantity::Time => "time",
            Quantity::Flushes => "flushes",
            Quantity::Bytes => "bytes",
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Quantity::Model => "model time",
            Quantity::Rate => "rate",
            Quantity::Time => "time of an execution",
            Quantity::Flushes => "count of flushes",
            Quantity::Bytes => "count of written bytes",
        }
    }

    /// Whether it counts what the program asked of the device, which takes no luck: a single run
    /// tells it.
    #[must_use]
    pub fn is_count(self) -> bool {
        matches!(self, Quantity::Flushes | Quantity::Bytes)
    }
}

/// The values of all good runs of a cell in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseValues {
    /// As in the samples.
    pub name: String,
    /// The abscissa, where the phase has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// `transaction`, `query`, `operation` or `message`.
    pub unit: String,
    /// Executions per second of wall time.
    pub wall_rate_per_s: Vec<f64>,
    /// Mean wall time of one execution.
    pub wall_time_ns: Vec<f64>,
    /// Executions per second of model time; empty where there is none, as are those below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_rate_per_s: Vec<f64>,
    /// Mean model time of one execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_time_ns: Vec<f64>,
    /// Model time of the phase for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_ns: Vec<f64>,
    /// Flushes for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flushes: Vec<f64>,
    /// Bytes written to the devices for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written_bytes: Vec<f64>,
}

impl PhaseValues {
    fn of(measure: &Measure) -> PhaseValues {
        let wall =
            |pick: fn(&super::WallOfRun) -> f64| measure.runs.iter().map(|run| pick(&run.wall)).collect();
        let is_model = measure.clock == Clock::Model;
        let model = |pick: fn(&ModelShare) -> f64| -> Vec<f64> {
            measure.runs.iter().filter(|_| is_model).filter_map(|run| run.model.as_ref().map(pick)).collect()
        };
        let primary =
            |pick: fn(&super::OfRun) -> f64| measure.runs.iter().filter(|_| is_model).map(pick).collect();
        PhaseValues {
            name: measure.phase.clone(),
            x: measure.x,
            unit: measure.unit.clone(),
            wall_rate_per_s: wall(|run| run.rate),
            wall_time_ns: wall(|run| run.time_ns),
            model_rate_per_s: primary(|run| run.rate),
            model_time_ns: primary(|run| run.time_ns),
            model_ns: model(|model| model.model_ns),
            flushes: model(|model| model.flushes),
            written_bytes: model(|model| model.written_bytes),
        }
    }

    /// Rounds all to six significant digits, as a baseline has them: a count that is the same in
    /// both must not differ by what the text has no room for.
    pub(super) fn round(&mut self) {
        let all = [
            &mut self.wall_rate_per_s,
            &mut self.wall_time_ns,
            &mut self.model_rate_per_s,
            &mut self.model_time_ns,
            &mut self.model_ns,
            &mut self.flushes,
            &mut self.written_bytes,
        ];
        all.into_iter().flatten().for_each(|value| *value = significant(*value));
    }

    /// All lists by their names in a baseline, each with whether a run may have a zero: what none
    /// of its executions flushed or wrote, and model time of one that only computes within a tick.
    pub(super) fn lists(&self) -> [(&'static str, &[f64], bool); 7] {
        [
            ("wall_rate_per_s", &self.wall_rate_per_s, false),
            ("wall_time_ns", &self.wall_time_ns, false),
            ("model_rate_per_s", &self.model_rate_per_s, true),
            ("model_time_ns", &self.model_time_ns, true),
            ("model_ns", &self.model_ns, true),
            ("flushes", &self.flushes, true),
            ("written_bytes", &self.written_bytes, true),
        ]
    }

    /// Whether it has model time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        if self.model_ns.is_empty() { Clock::Wall } else { Clock::Model }
    }

    /// The runs' values of a quantity, of a clock that it has; empty where it has none.
    #[must_use]
    pub fn values(&self, quantity: Quantity, clock: Clock) -> &[f64] {
        match (quantity, clock) {
            (Quantity::Model, _) => &self.model_ns,
            (Quantity::Flushes, _) => &self.flushes,
            (Quantity::Bytes, _) => &self.written_bytes,
            (Quantity::Rate, Clock::Model) => &self.model_rate_per_s,
            (Quantity::Time, Clock::Model) => &self.model_time_ns,
            (Quantity::Rate, Clock::Wall) => &self.wall_rate_per_s,
            (Quantity::Time, Clock::Wall) => &self.wall_time_ns,
        }
    }
}

/// A cell with its phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellValues {
    /// The cell's label.
    pub label: String,
    /// The same as people read it; not in a baseline.
    #[serde(skip)]
    pub title: String,
    /// What its settings promise; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Hash of the whole cell: whether two of the same place on every axis have the same settings.
    pub settings: String,
    /// Hash of the trace, or of the recording of file calls, that its runs did again; none where
    /// there is none, or they are of a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<String>,
    /// Its value on each axis of the experiment.
    pub axes: BTreeMap<String, String>,
    /// The phases in which it has good runs.
    pub phase: Vec<PhaseValues>,
}

impl CellValues {
    /// Whether a user who writes this means it: its label or its title, in whichever case.
    pub(super) fn is_called(&self, name: &str) -> bool {
        [&self.label, &self.title].iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The experiment's name.
    pub experiment: String,
    /// When it was measured, ms since 1970 UTC.
    pub started_ms: i64,
    /// Kernel, CPU, SQLite …
    pub environment: BTreeMap<String, String>,
    /// The cells that have good runs.
    pub cells: Vec<CellValues>,
    /// Labels of cells that were to run and have no good run.
    pub empty: Vec<String>,
}

impl Side {
    /// Of a results file.
    #[must_use]
    pub fn of(results: &Results, analysis: &Analysis) -> Side {
        let (mut cells, mut empty) = (Vec::new(), Vec::new());
        for cell in &results.cells {
            let own = analysis.measures.iter().filter(|measure| measure.cell == cell.id);
            let mut phase: Vec<PhaseValues> = own.map(PhaseValues::of).collect();
            phase.iter_mut().for_each(PhaseValues::round);
            if phase.is_empty() {
                empty.push(cell.label.clone());
                continue;
            }
            cells.push(CellValues {
                label: cell.label.clone(),
                title: cell.title.clone(),
                durability: cell.durability,
                settings: hash_of(&cell.spec),
                replayed: results.good_runs(cell.id).find_map(content_of),
                axes: cell.axes.clone(),
                phase,
            });
        }
        Side {
            experiment: results.experiment.name.clone(),
            started_ms: results.experiment.started_ms,
            environment: results.environment.clone(),
            cells,
            empty,
        }
    }
}

/// The hash of the file that a run did again.
fn content_of(run: &RunRow) -> Option<String> {
    let mut told = run.parameters.iter().filter(|(name, _)| name.ends_with(CONTENT));
    told.find_map(|(_, hash)| hash.as_str().map(str::to_owned))
}

/// FNV-1a (64 bits) of the cell's JSON, hexadecimal. Its maps are sorted, so the same cell has the
/// same text.
fn hash_of(cell: &Cell) -> String {
    let text = serde_json::to_string(cell).unwrap_or_default();
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step))
}
