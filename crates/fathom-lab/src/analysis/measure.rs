//! One cell in one phase: its means, percentiles and shares.

use std::collections::BTreeMap;

use fathom_probe::Split;
use fathom_workload::critical::CriticalPath;
use serde::Serialize;

use crate::experiment::Metric;
use crate::model_time::{Basis, PhaseModel};
use crate::stats::{
    Comparison, Interval, mean_interval, median, median_interval, paired_ratio, trimmed_mean,
};
use crate::store::{Results, RunStatus, StoreError};

/// Which part of the time went where; they add up to 1. Of phases with several threads that were
/// followed it is the critical path's, which the elapsed time consists of; else the sum of all
/// executions'.
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
    /// Waiting for locks that other connections held; known of a critical path only, else within
    /// `other`.
    pub lock: f64,
    /// The rest: open, delete, locks, waiting.
    pub other: f64,
}

impl Shares {
    fn of(split: &Split) -> Shares {
        let parts = [split.cpu_ns, split.read_ns, split.write_ns, split.sync_ns, 0, split.other_ns];
        Shares::of_parts(parts)
    }

    fn of_path(path: &CriticalPath) -> Shares {
        let CriticalPath { cpu_ns, read_ns, write_ns, sync_ns, lock_ns, other_ns } = *path;
        Shares::of_parts([cpu_ns, read_ns, write_ns, sync_ns, lock_ns, other_ns])
    }

    fn of_parts(parts: [u64; 6]) -> Shares {
        // Of the parts' own sum: it is the wall time up to the clocks' resolution, and the shares
        // add up to 1.
        let sum: u64 = parts.iter().sum();
        if sum == 0 {
            return Shares::default();
        }
        let [cpu, read, write, sync, lock, other] = parts.map(|part| part as f64 / sum as f64);
        Shares { cpu, read, write, sync, lock, other }
    }

    /// CPU, device and other time by the model; that of the device is divided as the calls measured
    /// were. What nobody's call waited for is other time, and so are locks.
    fn of_model([cpu, device, other]: [f64; 3], measured: &Shares) -> Shares {
        let sum = cpu + device + other;
        let in_calls = measured.read + measured.write + measured.sync;
        if sum <= 0.0 {
            return *measured;
        }
        if in_calls <= 0.0 {
            return Shares { cpu: cpu / sum, other: (device + other) / sum, ..Shares::default() };
        }
        let part = |of: f64| device / sum * of / in_calls;
        Shares {
            cpu: cpu / sum,
            read: part(measured.read),
            write: part(measured.write),
            sync: part(measured.sync),
            lock: 0.0,
            other: other / sum,
        }
    }
}

/// One run's part of a [`Measure`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfRun {
    /// The run's number in the results file.
    pub run: i64,
    /// Its block: runs of one block are compared with each other.
    pub block: u32,
    /// Executions per second: of model time on a modelled device, of elapsed time elsewhere.
    pub rate: f64,
    /// Mean time of one execution, ns: likewise.
    pub time_ns: f64,
    /// As measured: the same two of elapsed time.
    pub wall: WallOfRun,
    /// What its modelled device did in the phase, where there is one.
    pub model: Option<ModelShare>,
}

/// One run's part as measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WallOfRun {
    /// Executions per second of elapsed time.
    pub rate: f64,
    /// Mean time of one execution, ns.
    pub time_ns: f64,
}

/// What one execution cost by the model of the device; means over the phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelShare {
    /// What the model time rests on.
    pub basis: Basis,
    /// Model time of the phase for each execution, ns: the next three together.
    pub model_ns: f64,
    /// Its own CPU time.
    pub cpu_ns: f64,
    /// Device time by the model that somebody waited for.
    pub device_ns: f64,
    /// Other waiting.
    pub other_ns: f64,
    /// What this machine held it up; not in `model_ns`.
    pub held_ns: f64,
    /// Flushes that came to the devices.
    pub flushes: f64,
    /// Bytes written to the devices.
    pub written_bytes: f64,
    /// Bytes read from the devices.
    pub read_bytes: f64,
    /// Requests that wrote, at the devices.
    #[serde(skip)]
    pub write_requests: f64,
    /// The fastest execution of the run: the one that waited least for what is no part of its work.
    #[serde(skip)]
    pub fastest_ns: f64,
}

impl ModelShare {
    fn of(model: &PhaseModel, count: u64) -> ModelShare {
        let each = |value: u64| value as f64 / count as f64;
        ModelShare {
            basis: model.basis,
            model_ns: each(model.model_ns),
            cpu_ns: each(model.cpu_ns),
            device_ns: each(model.device_ns),
            other_ns: each(model.other_ns),
            held_ns: each(model.held_ns()),
            flushes: each(model.operations[2]),
            written_bytes: each(model.bytes[1]),
            read_bytes: each(model.bytes[0]),
            write_requests: each(model.operations[1]),
            fastest_ns: model.latency_ns[0] as f64,
        }
    }
}

/// What the primary numbers of a measure are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Wall time: no device was modelled, or the results do not tell.
    #[default]
    Wall,
    /// Model time ([`crate::model_time`]).
    Model,
}

/// What was not counted.
const NOTHING: Interval = Interval { low: 0.0, mid: 0.0, high: 0.0, n: 0, coverage: 0.0 };

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
    /// What the next two are of.
    pub clock: Clock,
    /// Executions per second: geometric mean over runs with its interval.
    pub rate: Interval,
    /// Mean time of one execution (ns): geometric mean over runs with its interval.
    pub time_ns: Interval,
    /// As measured: the same of wall time.
    pub wall_rate: Interval,
    /// As measured: the same of wall time.
    pub wall_time_ns: Interval,
    /// Latency (ns): minimum, p50, p90, p99, p99.9, maximum; each the median over runs, the
    /// extremes over all runs.
    pub latency_ns: [f64; 6],
    /// The same by the model, where [`Measure::clock`] is that and single executions were told.
    pub model_latency_ns: Option<[f64; 6]>,
    /// p99 of [`Measure::latency_ns`], with the interval of the median over the runs; none of fewer
    /// than three.
    pub p99: Option<Interval>,
    /// The same of [`Measure::model_latency_ns`].
    pub model_p99: Option<Interval>,
    /// The papers' mean, ns: of all executions of all runs the highest and the lowest dropped, the
    /// mean of the rest; none without samples.
    pub trimmed_mean_ns: Option<f64>,
    /// Where the time went, over all runs, as measured; [`Measure::shares_in`] has that of the model.
    pub shares: Shares,
    /// The same as sums over all runs.
    pub split: Split,
    /// Executions over all runs.
    pub count: u64,
    /// Time spent waiting for locks of other connections, ns, over all runs; none where it was not
    /// measured.
    pub lock_wait_ns: Option<u64>,
    /// Such waits, over all runs.
    pub lock_waits: Option<u64>,
    /// The runs, in block order.
    pub runs: Vec<OfRun>,
}

impl Measure {
    /// The mean with interval of a metric: a rate per second, a time in ns, or bytes, which are 0
    /// where no device is modelled.
    #[must_use]
    pub fn interval(&self, metric: Metric) -> Interval {
        match metric {
            Metric::Rate => self.rate,
            Metric::Time => self.time_ns,
            Metric::Bytes => self.written_bytes().unwrap_or(NOTHING),
        }
    }

    /// Bytes that one execution wrote to its modelled devices; none where not every run has one.
    #[must_use]
    pub fn written_bytes(&self) -> Option<Interval> {
        self.model_interval(|model| model.written_bytes)
    }

    /// The metric that tables without a choice show: how many transactions or messages a second,
    /// how long a query.
    #[must_use]
    pub fn main_metric(&self) -> Metric {
        Metric::of_unit(&self.unit)
    }

    /// Latencies as they are shown, and whether they are wall times beside numbers of the model:
    /// where the threads that work are not seen, single executions have no time by the model.
    #[must_use]
    pub fn shown_latency_ns(&self) -> ([f64; 6], bool) {
        let is_wall = self.clock == Clock::Model && self.model_latency_ns.is_none();
        (self.model_latency_ns.unwrap_or(self.latency_ns), is_wall)
    }

    /// p99 of [`Measure::shown_latency_ns`] with its interval.
    #[must_use]
    pub fn shown_p99(&self) -> Option<Interval> {
        if self.model_latency_ns.is_some() { self.model_p99 } else { self.p99 }
    }

    /// One part of one execution's mean time, ns: `pick` chooses the part.
    #[must_use]
    pub fn each_ns(&self, pick: impl Fn(&Split) -> u64) -> f64 {
        if self.count == 0 { 0.0 } else { pick(&self.split) as f64 / self.count as f64 }
    }

    /// How many times as fast this is as `baseline`: the blocks that both have, paired. Above 1 is
    /// faster, and of bytes that it writes less. In model time where both have it, else in wall
    /// time. None where they share no block, and of bytes where these were not counted.
    #[must_use]
    pub fn faster_than(&self, baseline: &Measure, metric: Metric) -> Option<Comparison> {
        self.faster_by(baseline, metric, self.common_clock(baseline))
    }

    /// As [`Measure::faster_than`], in a clock that both have.
    #[must_use]
    pub fn faster_by(&self, baseline: &Measure, metric: Metric, clock: Clock) -> Option<Comparison> {
        let pairs: Vec<(f64, f64)> = self
            .runs
            .iter()
            .filter_map(|run| {
                let other = baseline.runs.iter().find(|other| other.block == run.block)?;
                let (own, other) = (run.value(metric, clock), other.value(metric, clock));
                Some(match metric {
                    Metric::Rate => (own, other),
                    Metric::Time | Metric::Bytes => (other, own),
                })
            })
            .collect();
        paired_ratio(&pairs)
    }

    /// What two measures can be compared in: model time is compared with model time only.
    #[must_use]
    pub fn common_clock(&self, other: &Measure) -> Clock {
        if self.clock == other.clock { self.clock } else { Clock::Wall }
    }

    /// As [`Measure::interval`], of a clock that it has.
    #[must_use]
    pub fn interval_of(&self, metric: Metric, clock: Clock) -> Interval {
        match (metric, clock) {
            (Metric::Rate, Clock::Wall) => self.wall_rate,
            (Metric::Time, Clock::Wall) => self.wall_time_ns,
            (Metric::Bytes, _) | (_, Clock::Model) => self.interval(metric),
        }
    }

    /// Where the time of a clock went that it has: by the model, the device's time is divided as
    /// the calls measured were.
    #[must_use]
    pub fn shares_in(&self, clock: Clock) -> Shares {
        let models: Vec<ModelShare> = self.runs.iter().filter_map(|run| run.model).collect();
        if clock == Clock::Wall || models.is_empty() {
            return self.shares;
        }
        let mean = |of: fn(&ModelShare) -> f64| models.iter().map(of).sum::<f64>() / models.len() as f64;
        let (mut cpu, device) = (mean(|model| model.cpu_ns), mean(|model| model.device_ns));
        let mut other = mean(|model| model.other_ns);
        if models.iter().any(|model| model.basis == Basis::Device) {
            // All that is not the device's is one number there.
            let Shares { cpu: ran, lock, other: waited, .. } = self.shares;
            let rest = cpu + other;
            cpu = if ran + lock + waited > 0.0 { rest * ran / (ran + lock + waited) } else { 0.0 };
            other = rest - cpu;
        }
        Shares::of_model([cpu, device, other], &self.shares)
    }

    /// The mean over the runs of what one execution cost by the model, with its interval; none
    /// without one.
    #[must_use]
    pub fn model_interval(&self, pick: impl Fn(&ModelShare) -> f64) -> Option<Interval> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| run.model.as_ref().map(&pick)).collect();
        mean_interval(&values?)
    }
}

impl OfRun {
    /// A run's part of a phase; none where nothing was executed.
    pub(crate) fn of(
        run: i64,
        block: u32,
        phase: &fathom_workload::sample::PhaseSummary,
        model: Option<&PhaseModel>,
    ) -> Option<OfRun> {
        if phase.count == 0 || phase.wall_ns == 0 {
            return None;
        }
        let wall = WallOfRun {
            rate: phase.count as f64 * 1e9 / phase.wall_ns as f64,
            time_ns: phase.split.wall_ns as f64 / phase.count as f64,
        };
        let model = model.filter(|model| model.model_ns > 0);
        Some(OfRun {
            run,
            block,
            rate: model.map_or(wall.rate, |model| phase.count as f64 * 1e9 / model.model_ns as f64),
            time_ns: model.map_or(wall.time_ns, |model| model.each_ns),
            wall,
            model: model.map(|model| ModelShare::of(model, phase.count)),
        })
    }

    /// The clock of the runs of a cell: one for all, that of the model where all have it.
    pub(crate) fn clock_of(runs: &[OfRun]) -> Clock {
        let is_by_model = !runs.is_empty() && runs.iter().all(|run| run.model.is_some());
        if is_by_model { Clock::Model } else { Clock::Wall }
    }

    /// A metric of a clock.
    #[must_use]
    pub fn value(&self, metric: Metric, clock: Clock) -> f64 {
        match (metric, clock) {
            (Metric::Rate, Clock::Model) => self.rate,
            (Metric::Time, Clock::Model) => self.time_ns,
            (Metric::Rate, Clock::Wall) => self.wall.rate,
            (Metric::Time, Clock::Wall) => self.wall.time_ns,
            (Metric::Bytes, _) => self.model.map_or(0.0, |model| model.written_bytes),
        }
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
                    let model = results.models.iter().find(|model| {
                        model.run == run.id
                            && model.model.phase == key.0
                            && model.model.x.map(f64::to_bits) == key.1
                    });
                    let walls = walls.remove(&key).unwrap_or_default();
                    gathered.add(run.id, run.block, &phase.summary, model.map(|model| &model.model), walls);
                }
            }
            for key in order {
                measures.extend(found.remove(&key).and_then(|values| values.measure(cell.id, key)));
            }
        }
        Ok(Analysis { measures })
    }

    /// The phases that were measured, in the order of the first cell that has each.
    #[must_use]
    pub fn phases(&self) -> Vec<String> {
        let mut phases: Vec<String> = Vec::new();
        for measure in &self.measures {
            if !phases.contains(&measure.phase) {
                phases.push(measure.phase.clone());
            }
        }
        phases
    }

    /// The measure of a cell in a phase, without abscissa or at the one given.
    #[must_use]
    pub fn get(&self, cell: i64, phase: &str, x: Option<f64>) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.cell == cell && measure.phase == phase && measure.x == x)
    }

    /// The measures of a cell in a phase, at all abscissas.
    pub fn curve<'a>(&'a self, cell: i64, phase: &'a str) -> impl Iterator<Item = &'a Measure> {
        self.measures.iter().filter(move |measure| measure.cell == cell && measure.phase == phase)
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

/// The latencies of a cell: each the median over its runs, the extremes over all.
fn over_runs_of(latencies: &[[u64; 6]]) -> [f64; 6] {
    let column = |place: usize| latencies.iter().map(move |latency| latency[place] as f64);
    let middle = |place: usize| median(&column(place).collect::<Vec<f64>>()).unwrap_or(0.0);
    let least = column(0).fold(f64::INFINITY, f64::min);
    [least, middle(1), middle(2), middle(3), middle(4), column(5).fold(0.0, f64::max)]
}

/// The 99th percentile of these, with its interval.
fn p99_of(latencies: &[[u64; 6]]) -> Option<Interval> {
    median_interval(&latencies.iter().map(|latency| latency[3] as f64).collect::<Vec<f64>>())
}

/// What the runs of one cell brought for one phase.
#[derive(Debug, Default)]
struct Gathered {
    unit: String,
    runs: Vec<OfRun>,
    latencies: Vec<[u64; 6]>,
    model_latencies: Vec<[u64; 6]>,
    walls: Vec<f64>,
    split: Split,
    /// Of all runs; none as soon as one has none.
    path: Option<CriticalPath>,
    count: u64,
    /// Of each run: number and ns.
    lock_waits: Vec<Option<(u64, u64)>>,
}

impl Gathered {
    fn add(
        &mut self,
        run: i64,
        block: u32,
        phase: &fathom_workload::sample::PhaseSummary,
        model: Option<&PhaseModel>,
        walls: Vec<f64>,
    ) {
        self.unit.clone_from(&phase.unit);
        if let Some(of_run) = OfRun::of(run, block, phase, model) {
            let model = model.filter(|model| model.model_ns > 0);
            self.model_latencies
                .extend(model.filter(|model| model.basis == Basis::Threads).map(|model| model.latency_ns));
            self.runs.push(of_run);
            // Those of a run that executed nothing are zeros, which are no times.
            self.latencies.push(phase.latency_ns);
        }
        self.walls.extend(walls);
        self.path = match (self.path, phase.critical_path) {
            (Some(mut sum), Some(path)) => {
                sum.add(&path);
                Some(sum)
            }
            // The first run.
            (None, path) if self.lock_waits.is_empty() => path,
            _ => None,
        };
        self.split.add(&phase.split);
        self.count += phase.count;
        self.lock_waits.push(phase.lock_waits.zip(phase.lock_wait_ns));
    }

    fn measure(mut self, cell: i64, (phase, x): Key) -> Option<Measure> {
        self.runs.sort_by_key(|run| run.block);
        // One clock for all runs of a cell.
        let is_by_model = OfRun::clock_of(&self.runs) == Clock::Model;
        if !is_by_model {
            for run in &mut self.runs {
                (run.rate, run.time_ns) = (run.wall.rate, run.wall.time_ns);
            }
        }
        let model_latency_ns = (is_by_model && self.model_latencies.len() == self.runs.len())
            .then(|| over_runs_of(&self.model_latencies));
        let latency_ns = over_runs_of(&self.latencies);
        let p99 = p99_of(&self.latencies);
        let model_p99 = model_latency_ns.and_then(|_| p99_of(&self.model_latencies));
        let over_runs =
            |pick: fn(&OfRun) -> f64| mean_interval(&self.runs.iter().map(pick).collect::<Vec<f64>>());
        Some(Measure {
            cell,
            phase,
            x: x.map(f64::from_bits),
            clock: if is_by_model { Clock::Model } else { Clock::Wall },
            rate: over_runs(|run| run.rate)?,
            time_ns: over_runs(|run| run.time_ns)?,
            wall_rate: over_runs(|run| run.wall.rate)?,
            wall_time_ns: over_runs(|run| run.wall.time_ns)?,
            latency_ns,
            model_latency_ns,
            p99,
            model_p99,
            trimmed_mean_ns: trimmed_mean(&self.walls),
            shares: self.path.as_ref().map_or_else(|| Shares::of(&self.split), Shares::of_path),
            unit: self.unit,
            split: self.split,
            count: self.count,
            lock_wait_ns: self.lock_waits.iter().map(|waits| waits.map(|(_, ns)| ns)).sum(),
            lock_waits: self.lock_waits.iter().map(|other| other.map(|(waits, _)| waits)).sum(),
            runs: self.runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(shares: Shares, basis: Basis, [cpu_ns, device_ns, other_ns]: [f64; 3]) -> Measure {
        let interval = mean_interval(&[1.0]).unwrap();
        let model = ModelShare {
            basis,
            model_ns: cpu_ns + device_ns + other_ns,
            cpu_ns,
            device_ns,
            other_ns,
            held_ns: 0.0,
            flushes: 0.0,
            written_bytes: 0.0,
            read_bytes: 0.0,
            write_requests: 0.0,
            fastest_ns: 0.0,
        };
        let wall = WallOfRun::default();
        Measure {
            cell: 1,
            phase: "update".into(),
            x: None,
            unit: "transaction".into(),
            clock: Clock::Model,
            rate: interval,
            time_ns: interval,
            wall_rate: interval,
            wall_time_ns: interval,
            latency_ns: [0.0; 6],
            model_latency_ns: None,
            p99: None,
            model_p99: None,
            trimmed_mean_ns: None,
            shares,
            split: Split::default(),
            count: 1,
            lock_wait_ns: None,
            lock_waits: None,
            runs: vec![OfRun { run: 1, block: 0, rate: 1.0, time_ns: 1.0, wall, model: Some(model) }],
        }
    }

    fn in_hundredths(shares: &Shares) -> [f64; 6] {
        let Shares { cpu, read, write, sync, lock, other } = *shares;
        [cpu, read, write, sync, lock, other].map(|share| (share * 100.0).round())
    }

    /// What happened: on a busy machine a split said 60 % other where the model had 2 %; and the
    /// tables said of the same cell what was measured, while the figure said what the model has.
    #[test]
    fn the_device_of_a_model_is_divided_as_the_calls_were() {
        let measured = Shares { cpu: 0.1, read: 0.1, write: 0.0, sync: 0.3, lock: 0.2, other: 0.3 };
        let of = |parts| measure(measured, Basis::Threads, parts);
        let parts = of([10.0, 80.0, 10.0]);
        assert_eq!(in_hundredths(&parts.shares_in(Clock::Model)), [10.0, 20.0, 0.0, 60.0, 0.0, 10.0]);
        assert_eq!(parts.shares_in(Clock::Wall), measured);
        assert_eq!(of([0.0; 3]).shares_in(Clock::Model), measured);
        // Calls that nobody saw are no reads.
        let unseen = Shares { cpu: 0.5, other: 0.5, ..Shares::default() };
        let parts = measure(unseen, Basis::Threads, [10.0, 80.0, 10.0]);
        assert_eq!(in_hundredths(&parts.shares_in(Clock::Model)), [10.0, 0.0, 0.0, 0.0, 0.0, 90.0]);
    }

    /// What happened: percentiles of a server stood below "in model time" and were wall times,
    /// which a busy machine makes many times as long.
    #[test]
    fn latencies_that_the_model_does_not_tell_are_told_as_measured() {
        let mut of_server = measure(Shares::default(), Basis::Device, [50.0, 50.0, 0.0]);
        of_server.latency_ns = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(of_server.shown_latency_ns(), (of_server.latency_ns, true));
        of_server.clock = Clock::Wall;
        assert_eq!(of_server.shown_latency_ns(), (of_server.latency_ns, false), "all of it is wall time");
        let seen = Measure { clock: Clock::Model, model_latency_ns: Some([0.5; 6]), ..of_server };
        assert_eq!(seen.shown_latency_ns(), ([0.5; 6], false));
    }

    /// What happened: a run that executed nothing in a phase had zeros among the latencies of those
    /// that did, so that the least was 0 and the percentiles were too low.
    #[test]
    fn a_run_without_executions_has_no_latencies() {
        let of_runs = |counts: &[u64]| {
            let mut gathered = Gathered::default();
            for (run, count) in (1..).zip(counts) {
                let phase = fathom_workload::sample::PhaseSummary {
                    phase: "send".into(),
                    x: None,
                    unit: "message".into(),
                    count: *count,
                    wall_ns: 1000,
                    latency_ns: [if *count > 0 { 5 } else { 0 }; 6],
                    split: Split { wall_ns: 1000, ..Split::default() },
                    lock_wait_ns: None,
                    lock_waits: None,
                    critical_path: None,
                };
                gathered.add(run, 0, &phase, None, Vec::new());
            }
            gathered.measure(1, ("send".into(), None))
        };
        let measure = of_runs(&[0, 10, 0]).unwrap();
        assert_eq!((measure.latency_ns, measure.count, measure.runs.len()), ([5.0; 6], 10, 1));
        assert_eq!(of_runs(&[0, 0]), None);
        // p99 had no interval, however many runs told it.
        assert_eq!(of_runs(&[10, 0, 10]).unwrap().shown_p99(), None);
        let told = of_runs(&[10, 0, 10, 10]).unwrap().shown_p99().unwrap();
        assert_eq!((told.low, told.mid, told.high, told.n), (5.0, 5.0, 5.0, 3));
    }

    /// By the device alone, "CPU" is all that is not the device's.
    #[test]
    fn what_a_server_does_is_not_all_cpu_time() {
        let measured = Shares { cpu: 0.1, sync: 0.5, other: 0.4, ..Shares::default() };
        let parts = measure(measured, Basis::Device, [50.0, 50.0, 0.0]);
        assert_eq!(in_hundredths(&parts.shares_in(Clock::Model)), [10.0, 0.0, 0.0, 50.0, 0.0, 40.0]);
    }
}
