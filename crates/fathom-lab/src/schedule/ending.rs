//! When a schedule ends before its last block: what is measured is precise enough, or the time that
//! it was given is over.
//!
//! Only whole blocks end a schedule in order, since runs of one block are compared with each other.
//! Looking at the intervals after each block and stopping when they please is optional stopping:
//! the intervals of what is kept are too narrow a little more often than 1 in 20 (test
//! `stopping_when_precise_costs_some_coverage` and docs/method.md give by how much), which is why
//! nothing is stopped before the experiment's own number of runs is made.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::analysis::OfRun;
use crate::experiment::Metric;
use crate::stats::mean_interval;
use crate::store::RunRecord;

/// Why a schedule ended before its last block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EarlyEnd {
    /// Every interval is as narrow as was asked.
    Precise {
        /// The widest one's half width, relative to the value: 0.05 is 5 %.
        widest: f64,
    },
    /// The next block, or run, would have gone beyond the time that was given.
    OutOfTime,
}

/// What ends a schedule early.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ending {
    /// End when every cell's and phase's value is known to within this share of it.
    pub until: Option<f64>,
    /// End when the next block would not be over within this time.
    pub budget: Option<Duration>,
    /// Blocks that are made in any case, as far as the budget allows.
    pub least: u32,
    /// Blocks that are made whatever the budget: what fewer would show is worth less than the time.
    pub firm: u32,
}

impl Ending {
    /// Whether the schedule may end before its last block.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.until.is_some() || self.budget.is_some()
    }
}

/// How often an interval holds the true value where the schedule stopped at ±5 % (5 blocks or more,
/// 50 at most) and runs scatter log-normally with these deviations: simulated.
pub const COVERAGE_WHEN_STOPPED: [(f64, f64); 4] = [(0.02, 0.945), (0.05, 0.941), (0.1, 0.918), (0.2, 0.936)];

/// Cell, phase and abscissa.
type Key = (i64, String, Option<u64>);

/// How well the values are known so far.
#[derive(Clone, Debug, Default)]
pub struct Precision {
    found: BTreeMap<Key, (Metric, Vec<OfRun>)>,
}

impl Precision {
    /// Adds what was known before: the runs that are gone on with.
    pub fn add_analysis(&mut self, analysis: &crate::analysis::Analysis) {
        for measure in &analysis.measures {
            let key = (measure.cell, measure.phase.clone(), measure.x.map(f64::to_bits));
            self.found.insert(key, (measure.main_metric(), measure.runs.clone()));
        }
    }

    /// Adds a good run.
    pub fn add(&mut self, record: &RunRecord) {
        for phase in &record.phases {
            let x = phase.x.map(f64::to_bits);
            let model = record
                .models
                .iter()
                .find(|model| model.phase == phase.phase && model.x.map(f64::to_bits) == x);
            let Some(of_run) = OfRun::of(0, record.row.block, phase, model) else { continue };
            let key = (record.row.cell, phase.phase.clone(), x);
            let (_, runs) =
                self.found.entry(key).or_insert_with(|| (Metric::of_unit(&phase.unit), Vec::new()));
            runs.push(of_run);
        }
    }

    /// Blocks up to the last one that has a good run.
    pub(super) fn blocks(&self) -> u32 {
        let runs = self.found.values().flat_map(|(_, runs)| runs);
        runs.map(|run| run.block.saturating_add(1)).max().unwrap_or(0)
    }

    /// The widest interval's half width, relative to its value; none where one has no interval yet.
    #[must_use]
    pub fn widest(&self) -> Option<f64> {
        let mut widest = None;
        for (metric, runs) in self.found.values() {
            let clock = OfRun::clock_of(runs);
            let values: Vec<f64> = runs.iter().map(|run| run.value(*metric, clock)).collect();
            let interval =
                mean_interval(&values).filter(|interval| interval.coverage > 0.0 && interval.low > 0.0)?;
            // The interval is symmetric in logarithms.
            let half_width = (interval.high / interval.low).sqrt() - 1.0;
            widest = Some(f64::max(half_width, widest.unwrap_or(0.0)));
        }
        widest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_random::Random;
    use support::record;

    mod support {
        use std::collections::BTreeMap;

        use fathom_probe::Split;
        use fathom_stack::StackRecord;
        use fathom_workload::sample::PhaseSummary;

        use crate::machine_state::Conditions;
        use crate::store::{RunRecord, RunRow, RunStatus};

        /// A run of one transaction that took so long.
        pub fn record(block: u32, wall_ns: f64) -> RunRecord {
            let wall_ns = wall_ns as u64;
            let row = RunRow {
                id: 0,
                cell: 1,
                block,
                position: 0,
                seed: 0,
                status: RunStatus::Done,
                message: None,
                started_ms: 0,
                elapsed_ns: wall_ns,
                engine: None,
                parameters: BTreeMap::new(),
                stack: StackRecord::default(),
                floor_ns: None,
                max_rss_bytes: None,
                involuntary_switches: None,
                steal_share: None,
                failure: None,
                load: None,
                devices: Vec::new(),
                conditions: Conditions::default(),
            };
            let phase = PhaseSummary {
                phase: "insert".into(),
                x: None,
                unit: "transaction".into(),
                count: 1,
                wall_ns,
                split: Split { wall_ns, ..Split::default() },
                latency_ns: [wall_ns; 6],
                lock_waits: None,
                lock_wait_ns: None,
                critical_path: None,
            };
            RunRecord {
                row,
                durability: None,
                phases: vec![phase],
                samples: Vec::new(),
                io: Vec::new(),
                verified: Vec::new(),
                warnings: Vec::new(),
                trace: None,
                models: Vec::new(),
                sample_models: Vec::new(),
                recording: None,
            }
        }
    }

    #[test]
    fn the_widest_interval_counts_and_one_run_has_none() {
        let mut precision = Precision::default();
        assert_eq!(precision.widest(), None);
        precision.add(&record(0, 1e6));
        assert_eq!(precision.widest(), None);
        for (block, wall_ns) in [(1, 1.1e6), (2, 0.9e6)] {
            precision.add(&record(block, wall_ns));
        }
        let expected = mean_interval(&[1e-6, 1.0 / 1.1e6, 1.0 / 0.9e6]).unwrap();
        let widest = precision.widest().unwrap();
        assert!((widest - (expected.high / expected.mid - 1.0)).abs() < 1e-9, "{widest} {expected:?}");
    }

    /// 4,000 seeded schedules of at least 5 blocks that stop at ±5 %, at most 50.
    #[test]
    fn stopping_when_precise_costs_some_coverage() {
        const SCHEDULES: u32 = 4_000;
        for (spread, expected) in COVERAGE_WHEN_STOPPED {
            let mut rng = Random::new(7);
            let (mut held, mut blocks) = (0_u32, 0_usize);
            for _ in 0..SCHEDULES {
                let mut values: Vec<f64> = Vec::new();
                let interval = loop {
                    values.push((spread * rng.normal()).exp());
                    let Some(interval) = mean_interval(&values) else { continue };
                    let is_precise = (interval.high / interval.low).sqrt() - 1.0 <= 0.05;
                    if values.len() >= 5 && is_precise || values.len() == 50 {
                        break interval;
                    }
                };
                held += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
                blocks += values.len();
            }
            let share = f64::from(held) / f64::from(SCHEDULES);
            let mean = blocks as f64 / f64::from(SCHEDULES);
            println!("spread {spread}: holds it in {share:.3}, after {mean:.1} blocks");
            assert!((share - expected).abs() < 0.012, "{spread}: {share}");
        }
    }
}
