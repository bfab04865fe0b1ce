//! One cell in one phase: its medians, percentiles and shares.

use std::collections::BTreeMap;

use fathom_probe::Split;
use serde::Serialize;

use crate::experiment::Metric;
use crate::stats::{Comparison, Interval, median, median_interval, paired_ratio, trimmed_mean};
use crate::store::{Results, RunStatus, StoreError};

/// Which part of the time went where; the five add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Thread CPU time outside the I/O calls.
    pub cpu: f64,
    /// Reads.
    pub read: f64,
    /// Writes.
    pub write: f64,
    /// Syncs.
    pub sync: f64,
    /// The rest: open, delete, locks, waiting.
    pub other: f64,
}

impl Shares {
    fn of(split: &Split) -> Shares {
        let parts = [split.cpu_ns, split.read_ns, split.write_ns, split.sync_ns, split.other_ns];
        // Of the parts' own sum: it is the wall time up to the clocks' resolution, and the shares add up to 1.
        let sum: u64 = parts.iter().sum();
        if sum == 0 {
            return Shares::default();
        }
        let [cpu, read, write, sync, other] = parts.map(|it| it as f64 / sum as f64);
        Shares { cpu, read, write, sync, other }
    }
}

/// One run's part of a [`Measure`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfRun {
    /// The run's number in the results file.
    pub run: i64,
    /// Its block: runs of one block are compared with each other.
    pub block: u32,
    /// Executions per second of elapsed time.
    pub rate: f64,
    /// Mean time of one execution, ns.
    pub time_ns: f64,
}

/// One cell in one phase, at one abscissa, over all its good runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Number of the cell.
    pub cell: i64,
    /// As in the samples.
    pub phase: String,
    /// The abscissa, where the phase has one.
    pub x: Option<f64>,
    /// `transaction`, `query` or `operation`.
    pub unit: String,
    /// Executions per second: median over runs with its interval.
    pub rate: Interval,
    /// Mean time of one execution (ns): median over runs with its interval.
    pub time_ns: Interval,
    /// Latency (ns): minimum, p50, p90, p99, p99.9, maximum; each the median over runs, the extremes over all runs.
    pub latency_ns: [f64; 6],
    /// The papers' mean, ns: of all executions of all runs the highest and the lowest dropped, the mean of the rest; none
    /// without samples.
    pub trimmed_mean_ns: Option<f64>,
    /// Where the time went, over all runs.
    pub shares: Shares,
    /// The same as sums over all runs.
    pub split: Split,
    /// Executions over all runs.
    pub count: u64,
    /// Time spent waiting for locks of other connections, ns, over all runs; none where it was not measured.
    pub lock_wait_ns: Option<u64>,
    /// Such waits, over all runs.
    pub lock_waits: Option<u64>,
    /// The runs, in block order.
    pub runs: Vec<OfRun>,
}

impl Measure {
    /// The median with interval of a metric: a rate per second, or a time in ns.
    #[must_use]
    pub fn interval(&self, metric: Metric) -> Interval {
        match metric {
            Metric::Rate => self.rate,
            Metric::Time => self.time_ns,
        }
    }

    /// The metric that tables without a choice show: how many transactions or messages a second, how long a query.
    #[must_use]
    pub fn main_metric(&self) -> Metric {
        if matches!(self.unit.as_str(), "transaction" | "message") { Metric::Rate } else { Metric::Time }
    }

    /// One part of one execution's mean time, ns: `pick` chooses the part.
    #[must_use]
    pub fn each_ns(&self, pick: impl Fn(&Split) -> u64) -> f64 {
        if self.count == 0 { 0.0 } else { pick(&self.split) as f64 / self.count as f64 }
    }

    /// How many times as fast this is as `baseline`: the blocks that both have, paired. Above 1 is faster, in either
    /// metric. None where they share no block.
    #[must_use]
    pub fn faster_than(&self, baseline: &Measure, metric: Metric) -> Option<Comparison> {
        let pairs: Vec<(f64, f64)> = self
            .runs
            .iter()
            .filter_map(|run| {
                let other = baseline.runs.iter().find(|it| it.block == run.block)?;
                Some(match metric {
                    Metric::Rate => (run.rate, other.rate),
                    Metric::Time => (other.time_ns, run.time_ns),
                })
            })
            .collect();
        paired_ratio(&pairs)
    }
}

/// All measures of a results file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// In the order of cells, then of phases as they ran, then of abscissas.
    pub measures: Vec<Measure>,
}

/// A phase's abscissa as a key (bits order as numbers do for what is not negative).
type Key = (String, Option<u64>);

impl Analysis {
    /// Computes the measures of all cells from their good runs.
    ///
    /// # Errors
    /// A results file that was damaged after it was opened.
    pub fn of(results: &Results) -> Result<Analysis, StoreError> {
        let mut measures = Vec::new();
        let mut phases_of_run: BTreeMap<i64, Vec<&crate::store::PhaseOfRun>> = BTreeMap::new();
        for phase in &results.phases {
            phases_of_run.entry(phase.run).or_default().push(phase);
        }
        for cell in &results.cells {
            let mut order: Vec<Key> = Vec::new();
            let mut found: BTreeMap<Key, Gathered> = BTreeMap::new();
            let good = results.runs.iter().filter(|run| run.cell == cell.id && run.status == RunStatus::Done);
            for run in good {
                let mut walls = walls_of_run(results, run.id, phases_of_run.get(&run.id))?;
                for phase in phases_of_run.get(&run.id).into_iter().flatten() {
                    let key = (phase.summary.phase.clone(), phase.summary.x.map(f64::to_bits));
                    if !found.contains_key(&key) {
                        order.push(key.clone());
                    }
                    let gathered = found.entry(key.clone()).or_default();
                    gathered.add(run.id, run.block, &phase.summary, walls.remove(&key).unwrap_or_default());
                }
            }
            for key in order {
                measures.extend(found.remove(&key).and_then(|it| it.measure(cell.id, key)));
            }
        }
        Ok(Analysis { measures })
    }

    /// The measure of a cell in a phase, without abscissa or at the one given.
    #[must_use]
    pub fn get(&self, cell: i64, phase: &str, x: Option<f64>) -> Option<&Measure> {
        self.measures.iter().find(|it| it.cell == cell && it.phase == phase && it.x == x)
    }

    /// The measures of a cell in a phase, at all abscissas.
    pub fn curve<'a>(&'a self, cell: i64, phase: &'a str) -> impl Iterator<Item = &'a Measure> {
        self.measures.iter().filter(move |it| it.cell == cell && it.phase == phase)
    }
}

/// The wall time (ns) of each execution of a run, by phase and abscissa.
fn walls_of_run(
    results: &Results,
    run: i64,
    phases: Option<&Vec<&crate::store::PhaseOfRun>>,
) -> Result<BTreeMap<Key, Vec<f64>>, StoreError> {
    let mut names: Vec<&str> =
        phases.into_iter().flatten().map(|phase| phase.summary.phase.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut walls: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    for name in names {
        for sample in results.samples(run, name)? {
            let key = (name.to_owned(), sample.x.map(f64::to_bits));
            walls.entry(key).or_default().push(sample.split.wall_ns as f64);
        }
    }
    Ok(walls)
}

/// What the runs of one cell brought for one phase.
#[derive(Debug, Default)]
struct Gathered {
    unit: String,
    runs: Vec<OfRun>,
    latencies: Vec<[u64; 6]>,
    walls: Vec<f64>,
    split: Split,
    count: u64,
    /// Of each run: number and ns.
    lock_waits: Vec<Option<(u64, u64)>>,
}

impl Gathered {
    fn add(&mut self, run: i64, block: u32, phase: &fathom_workload::sample::PhaseSummary, walls: Vec<f64>) {
        self.unit.clone_from(&phase.unit);
        if phase.count > 0 && phase.wall_ns > 0 {
            self.runs.push(OfRun {
                run,
                block,
                rate: phase.count as f64 * 1e9 / phase.wall_ns as f64,
                time_ns: phase.split.wall_ns as f64 / phase.count as f64,
            });
        }
        self.latencies.push(phase.latency_ns);
        self.walls.extend(walls);
        self.split.add(&phase.split);
        self.count += phase.count;
        self.lock_waits.push(phase.lock_waits.zip(phase.lock_wait_ns));
    }

    fn measure(mut self, cell: i64, (phase, x): Key) -> Option<Measure> {
        self.runs.sort_by_key(|run| run.block);
        let column = |place: usize| self.latencies.iter().map(move |it| it[place] as f64);
        let middle = |place: usize| median(&column(place).collect::<Vec<f64>>()).unwrap_or(0.0);
        let latency_ns = [
            column(0).fold(f64::INFINITY, f64::min),
            middle(1),
            middle(2),
            middle(3),
            middle(4),
            column(5).fold(0.0, f64::max),
        ];
        let over_runs =
            |pick: fn(&OfRun) -> f64| median_interval(&self.runs.iter().map(pick).collect::<Vec<f64>>());
        Some(Measure {
            cell,
            phase,
            x: x.map(f64::from_bits),
            rate: over_runs(|run| run.rate)?,
            time_ns: over_runs(|run| run.time_ns)?,
            latency_ns,
            trimmed_mean_ns: trimmed_mean(&self.walls),
            shares: Shares::of(&self.split),
            unit: self.unit,
            split: self.split,
            count: self.count,
            lock_wait_ns: self.lock_waits.iter().map(|it| it.map(|(_, ns)| ns)).sum(),
            lock_waits: self.lock_waits.iter().map(|it| it.map(|(waits, _)| waits)).sum(),
            runs: self.runs,
        })
    }
}
