//! What changed between two results files.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Analysis, spelled};
use crate::experiment::Metric;
use crate::stats::{Comparison, Interval, unpaired_ratio};
use crate::store::{Results, StoreError};

/// One cell and phase that both files have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The cell's label in B.
    pub label: String,
    /// Number of the cell in A and in B.
    pub cells: (i64, i64),
    /// The phase.
    pub phase: String,
    /// The abscissa, where the phase has one.
    pub x: Option<f64>,
    /// A's median with interval.
    pub a: Interval,
    /// B's.
    pub b: Interval,
    /// How many times as fast B is as A: above 1 is faster, in either metric. The files' runs are not paired.
    pub faster: Comparison,
    /// Whether both promise the same durability.
    pub same_durability: bool,
}

/// What changed between two results files.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// What is compared.
    pub metric: Metric,
    /// Cells and phases that both have.
    pub changes: Vec<Change>,
    /// Labels of cells that only A has.
    pub only_a: Vec<String>,
    /// Labels of cells that only B has.
    pub only_b: Vec<String>,
    /// What differs between the two and is not the cells: kernel, CPU, SQLite, experiment. Each as a sentence.
    pub cautions: Vec<String>,
}

/// As [`changes`], of the rates of two results files.
///
/// # Errors
/// A results file that was damaged after it was opened.
pub fn compare(a: &Results, b: &Results) -> Result<Changes, StoreError> {
    let (analysis_a, analysis_b) = (Analysis::of(a)?, Analysis::of(b)?);
    Ok(changes((a, &analysis_a), (b, &analysis_b), Metric::Rate))
}

/// Compares the cells that two files have in common, by their values on all axes.
#[must_use]
pub fn changes(a: (&Results, &Analysis), b: (&Results, &Analysis), metric: Metric) -> Changes {
    let mut found = Changes { metric, ..Changes::default() };
    let ((results_a, analysis_a), (results_b, analysis_b)) = (a, b);
    for cell_b in &results_b.cells {
        let Some(cell_a) = results_a.cells.iter().find(|it| it.axes == cell_b.axes) else {
            found.only_b.push(cell_b.label.clone());
            continue;
        };
        for measure_b in analysis_b.measures.iter().filter(|it| it.cell == cell_b.id) {
            let Some(measure_a) = analysis_a.get(cell_a.id, &measure_b.phase, measure_b.x) else { continue };
            let rates = |it: &super::Measure| it.runs.iter().map(|run| run.rate).collect::<Vec<f64>>();
            let times = |it: &super::Measure| it.runs.iter().map(|run| run.time_ns).collect::<Vec<f64>>();
            let faster = match metric {
                Metric::Rate => unpaired_ratio(&rates(measure_b), &rates(measure_a)),
                Metric::Time => unpaired_ratio(&times(measure_a), &times(measure_b)),
            };
            let Some(faster) = faster else { continue };
            found.changes.push(Change {
                label: spelled(cell_b, &cell_b.label),
                cells: (cell_a.id, cell_b.id),
                phase: measure_b.phase.clone(),
                x: measure_b.x,
                a: measure_a.interval(metric),
                b: measure_b.interval(metric),
                faster,
                same_durability: cell_a.durability == cell_b.durability,
            });
        }
        if cell_a.spec.workload != cell_b.spec.workload
            || cell_a.spec.engine != cell_b.spec.engine
            || cell_a.spec.stack != cell_b.spec.stack
        {
            found.cautions.push(format!(
                "\"{}\" has the same place on every axis in both, but not the same settings: what changed may be those",
                cell_b.label
            ));
        }
    }
    let in_b = |axes: &BTreeMap<String, String>| results_b.cells.iter().any(|it| &it.axes == axes);
    found.only_a = results_a.cells.iter().filter(|it| !in_b(&it.axes)).map(|it| it.label.clone()).collect();
    if results_a.experiment.name != results_b.experiment.name {
        found.cautions.push(format!(
            "A is the experiment {}, B is {}",
            results_a.experiment.name, results_b.experiment.name
        ));
    }
    for (key, value) in &results_a.environment {
        // What differs in every run says nothing.
        if ["load", "command", "directory"].contains(&key.as_str()) {
            continue;
        }
        match results_b.environment.get(key) {
            Some(other) if other != value => {
                found.cautions.push(format!("{key} differs: {value} in A, {other} in B"));
            }
            _ => {}
        }
    }
    found
}
