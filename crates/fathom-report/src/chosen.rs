//! Sentences about the axes that the user set: `--set filesystem=ext4,f2fs` asks how these compare,
//! whatever the experiment's file asks.
//!
//! Each value is compared with the first one, cell by cell: alike on every other axis and in the
//! same block. One sentence holds all of these comparisons of two values, so that who asked about
//! file systems reads of file systems first, for each journal mode.

use fathom_lab::analysis::{Analysis, Clock, Finding, headlines, times};
use fathom_lab::experiment::{AxisFilter, Experiment, Headline, Metric};
use fathom_lab::naming::{abscissa_name, transacts, value_in_sentence};
use fathom_lab::store::{CellRow, Results};

use crate::number;
use crate::words::{distinct, joined};

/// Comparisons of one kind that a sentence names before it only counts.
const NAMED: usize = 8;

/// An axis whose values the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenAxis {
    /// As in an experiment file: `stack.filesystem`.
    pub key: String,
    /// Its values in the order in which they were given, two at least.
    pub values: Vec<String>,
}

/// The axes on which cells differ. Traces are not compared with each other: they ask for different
/// things.
fn varying(results: &Results) -> Vec<ChosenAxis> {
    let mut all: Vec<ChosenAxis> = Vec::new();
    for cell in &results.cells {
        for (key, value) in cell.axes.iter().filter(|(key, _)| is_compared(key)) {
            match all.iter_mut().find(|axis| axis.key == *key) {
                Some(axis) if axis.values.contains(value) => {}
                Some(axis) => axis.values.push(value.clone()),
                None => all.push(ChosenAxis { key: key.clone(), values: vec![value.clone()] }),
            }
        }
    }
    all.retain(|axis| axis.values.len() > 1);
    all
}

/// The axes that get a sentence each: those that the user chose, and of a file that compares
/// nothing itself all of them.
pub fn told(results: &Results, experiment: &Experiment) -> Vec<ChosenAxis> {
    if experiment.headlines.is_empty() { varying(results) } else { axes(results, experiment) }
}

/// The axes that the file has not, or has with other values.
///
/// Of the variants some are only made on wish, so those count as chosen where the command says so.
pub fn axes(results: &Results, experiment: &Experiment) -> Vec<ChosenAxis> {
    let mut chosen = varying(results);
    chosen.retain(|axis| {
        let of_file = experiment.axes.iter().find(|other| other.name == axis.key);
        let values: Vec<&str> = of_file.map(|axis| axis.values().collect()).unwrap_or_default();
        let is_as_in_file = axis.values.len() == values.len();
        let is_all_of_file = axis.values.iter().all(|value| values.contains(&value.as_str()));
        let is_wished = match axis.key.as_str() {
            "variants" => is_all_of_file && results.experiment.command.contains("variants="),
            _ => true,
        };
        is_wished && !(is_as_in_file && is_all_of_file)
    });
    chosen
}

fn is_compared(key: &str) -> bool {
    key != "trace" && !key.starts_with("workload.")
}

/// What the phase says of the axis: a sentence for each value but the first; none of two cells that
/// the experiment itself compares in it (`told`), which says more of them.
pub fn sentences(
    results: &Results,
    analysis: &Analysis,
    axis: &ChosenAxis,
    phase: &str,
    told: &[Finding],
) -> Vec<String> {
    let metric =
        analysis.measures.iter().find(|measure| measure.phase == phase).map(|measure| measure.main_metric());
    let (Some(metric), Some(baseline)) = (metric, axis.values.first()) else { return Vec::new() };
    let headline = Headline {
        phase: phase.into(),
        against_phase: None,
        x: None,
        metric,
        axis: Some(axis.key.clone()),
        baseline: Some(baseline.clone()),
        against: Vec::new(),
        each: None,
        filter: AxisFilter::default(),
    };
    let mut all = headlines(results, analysis, &[headline]);
    // Of a curve its end: what many rows cost is asked more often than what one does.
    let most = all.iter().filter_map(|finding| finding.x).reduce(f64::max);
    all.retain(|finding| finding.x == most);
    let value_of = |finding: &Finding| results.cell(finding.cell).and_then(|cell| cell.axes.get(&axis.key));
    axis.values[1..]
        .iter()
        .filter_map(|value| {
            let of_value: Vec<&Finding> =
                all.iter().filter(|finding| value_of(finding) == Some(value)).collect();
            if matches!(of_value.as_slice(), [only] if told.iter().any(|told| is_of_same_cells(told, only))) {
                return None;
            }
            let told = sentence(results, analysis, axis, &of_value, metric)?;
            Some(told + &promises(results, axis, &of_value))
        })
        .collect()
}

/// What the two do not promise alike, each once, and with what, where it is not so with all: no
/// sentence compares two promises without a word.
fn promises(results: &Results, axis: &ChosenAxis, findings: &[&Finding]) -> String {
    let all = distinct(findings.iter().filter_map(|finding| finding.promises.clone()));
    let told = all.iter().map(|words| {
        let of: Vec<_> = findings.iter().filter(|finding| finding.promises.as_ref() == Some(words)).collect();
        let cells = of.iter().filter_map(|finding| results.cell(finding.cell));
        let places = distinct(cells.map(|cell| others(results, axis, cell)));
        if of.len() == findings.len() || places.is_empty() {
            format!(" Not the same promise: {words}")
        } else {
            format!(" Not the same promise with {}: {words}", some_of(places))
        }
    });
    told.collect()
}

/// The first of them, and how many more there are.
fn some_of(mut all: Vec<String>) -> String {
    if all.len() > NAMED {
        let more = all.len() - NAMED;
        all.truncate(NAMED);
        all.push(format!("{more} more"));
    }
    joined(&all)
}

/// Whether two findings compare the same two cells in the same phase, whichever is the baseline.
fn is_of_same_cells(a: &Finding, b: &Finding) -> bool {
    let cells = |finding: &Finding| [finding.cell.min(finding.baseline), finding.cell.max(finding.baseline)];
    cells(a) == cells(b) && a.phase == b.phase && a.baseline_phase == b.baseline_phase && a.x == b.x
}

/// `f2fs commits 1.3x [1.2, 1.4] faster than ext4 (insert).`, or with several cells of each value
/// `f2fs against ext4 (insert): faster with DELETE/FULL 1.3x [1.2, 1.4]; no proven difference with
/// WAL/FULL.`
fn sentence(
    results: &Results,
    analysis: &Analysis,
    axis: &ChosenAxis,
    findings: &[&Finding],
    metric: Metric,
) -> Option<String> {
    let first = findings.first()?;
    let cell = results.cell(first.cell)?;
    let named = |cell: &CellRow| value_in_sentence(cell, &axis.key).unwrap_or_default();
    let (subject, object) = (named(cell), named(results.cell(first.baseline)?));
    let mut what = vec![first.phase.clone()];
    what.extend(first.x.map(|x| format!("{} {}", number::plain(x), abscissa_name(cell))));
    what.extend(
        findings.iter().all(|finding| finding.clock == Clock::Model).then(|| "model time".to_owned()),
    );
    let what = what.join(", ");
    if let [only] = findings {
        let unit = analysis
            .measures
            .iter()
            .find(|measure| measure.cell == only.cell && measure.phase == only.phase)
            .map(|measure| measure.unit.as_str());
        let verb = match (metric, unit) {
            (Metric::Rate, Some("transaction")) => transacts(cell),
            (Metric::Rate, Some("message")) => "handles messages",
            _ => "is",
        };
        return Some(match only.faster.proven {
            true if only.faster.ratio >= 1.0 => {
                format!("{subject} {verb} {} faster than {object} ({what}).", times(&only.faster))
            }
            true => {
                format!("{subject} {verb} {} slower than {object} ({what}).", times(&only.faster.inverse()))
            }
            false => format!(
                "{subject} and {object} show no proven difference ({what}): ~ {}.",
                times(&only.faster)
            ),
        });
    }
    let told = |pick: &dyn Fn(&Finding) -> bool, number: &dyn Fn(&Finding) -> String| {
        let all: Vec<String> = findings
            .iter()
            .filter(|finding| pick(finding))
            .filter_map(|finding| {
                Some(format!("{}{}", others(results, axis, results.cell(finding.cell)?), number(finding)))
            })
            .collect();
        (!all.is_empty()).then(|| some_of(all))
    };
    let is_faster = |finding: &Finding| finding.faster.proven && finding.faster.ratio >= 1.0;
    let is_slower = |finding: &Finding| finding.faster.proven && finding.faster.ratio < 1.0;
    let parts: Vec<String> = [
        told(&is_faster, &|finding| format!(" {}", times(&finding.faster)))
            .map(|value| format!("faster with {value}")),
        told(&is_slower, &|finding| format!(" {}", times(&finding.faster.inverse())))
            .map(|names| format!("slower with {names}")),
        told(&|finding| !finding.faster.proven, &|_| String::new())
            .map(|value| format!("no proven difference with {value}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(format!("{subject} against {object} ({what}): {}.", parts.join("; ")))
}

/// What tells the cell from those of the same value: `WAL/FULL`.
fn others(results: &Results, axis: &ChosenAxis, cell: &CellRow) -> String {
    let varies =
        |key: &str, value: &String| results.cells.iter().any(|cell| cell.axes.get(key) != Some(value));
    let words: Vec<String> = cell
        .axes
        .iter()
        .filter(|(key, value)| **key != axis.key && varies(key, value))
        .filter_map(|(axis, _)| value_in_sentence(cell, axis))
        .collect();
    words.join(" ")
}
