//! How long a plan will take, from runs of the same cells that were made here before.

use std::collections::HashMap;
use std::time::Duration;

use crate::plan::{Plan, PlannedRun};
use crate::stats::median;
use crate::store::{Results, RunStatus};

/// What earlier runs say of the time for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// For all runs that are to be made.
    pub time: Duration,
    /// Cells of the plan that were measured before with the same settings; the others are taken to
    /// be like these.
    pub known: usize,
    /// Cells of the plan that can run here.
    pub cells: usize,
}

/// The time for `turns` of `plan`, as runs of `earlier` took: the mean of each cell's, and what
/// lies between two runs (image, mkfs, mount, floor probe). None where no cell was measured before
/// with the same settings.
#[must_use]
pub fn estimate(plan: &Plan, turns: &[PlannedRun], earlier: &Results) -> Option<Estimate> {
    let mut runs: Vec<_> = earlier.runs.iter().filter(|run| run.status == RunStatus::Done).collect();
    runs.sort_by_key(|run| run.started_ms);
    // The median: results that were gone on with days later have one gap of days.
    let between: Vec<f64> = runs
        .windows(2)
        .map(|pair| {
            let apart = (pair[1].started_ms - pair[0].started_ms).max(0) as f64 * 1e6;
            (apart - pair[0].elapsed_ns as f64).max(0.0)
        })
        .collect();
    let between = median(&between).unwrap_or(0.0);
    let mut known: HashMap<i64, f64> = HashMap::new();
    for cell in plan.cells.iter().filter(|cell| cell.skipped.is_none()) {
        let Some(row) = earlier.cells.iter().find(|other| other.spec == cell.cell) else { continue };
        let of_cell: Vec<f64> =
            runs.iter().filter(|run| run.cell == row.id).map(|run| run.elapsed_ns as f64).collect();
        if !of_cell.is_empty() {
            known.insert(cell.id, of_cell.iter().sum::<f64>() / of_cell.len() as f64);
        }
    }
    if known.is_empty() {
        return None;
    }
    let all = known.values().sum::<f64>() / known.len() as f64;
    let ns: f64 = turns.iter().map(|turn| known.get(&turn.cell).copied().unwrap_or(all) + between).sum();
    let cells = plan.cells.iter().filter(|cell| cell.skipped.is_none()).count();
    Some(Estimate { time: Duration::from_nanos(ns as u64), known: known.len(), cells })
}
