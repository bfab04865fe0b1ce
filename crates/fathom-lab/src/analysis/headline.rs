//! The experiment's comparisons in words.

use serde::Serialize;

use super::{Analysis, Clock, Measure, durability_words};
use crate::experiment::{AxisFilter, Headline, Metric};
use crate::naming::{abscissa_name, transacts, value_in_sentence};
use crate::stats::Comparison;
use crate::store::{CellRow, Results};

/// One comparison, in numbers and in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Number of the cell that is compared.
    pub cell: i64,
    /// Number of the cell it is compared with (the same one where two phases are compared).
    pub baseline: i64,
    /// The phase that is compared.
    pub phase: String,
    /// The phase it is compared with.
    pub baseline_phase: String,
    /// The abscissa, where the phase has one.
    pub x: Option<f64>,
    /// How many times as fast, or of bytes as few, paired by block; above 1 is faster.
    pub faster: Comparison,
    /// What it is compared in.
    pub clock: Clock,
    /// The same of wall time, where `clock` is another.
    pub wall_faster: Option<Comparison>,
    /// The baseline's share of time in fsync, 0 to 1.
    pub baseline_sync_share: f64,
    /// "WAL commits 2.1x [1.9, 2.3] faster than DELETE on ext4; 91 % of DELETE's time is fsync."
    pub sentence: String,
    /// "WAL may lose the last commits at a power cut, never the database; DELETE keeps every commit
    /// at a power cut.": where the two cells do not promise the same durability.
    pub promises: Option<String>,
}

/// Puts every headline of the experiment into findings, in the order of the file. Cells that were
/// skipped or have no good run give none.
#[must_use]
pub fn headlines(results: &Results, analysis: &Analysis, headlines: &[Headline]) -> Vec<Finding> {
    headlines.iter().flat_map(|headline| of_one(results, analysis, headline)).collect()
}

fn of_one(results: &Results, analysis: &Analysis, headline: &Headline) -> Vec<Finding> {
    let is_there = |cell: &&CellRow| cell.skipped.is_none();
    let fits = |cell: &&CellRow| is_there(cell) && matches(cell, &headline.filter);
    let has = |cell: &CellRow, phase| at(analysis, cell, phase, headline.x).next().is_some();
    let mut findings = Vec::new();
    match (&headline.axis, &headline.against_phase) {
        (_, Some(other)) => {
            let both = |cell: &&CellRow| has(cell, &headline.phase) && has(cell, other);
            // Those, too, that the headline leaves out: of what it speaks is said.
            let all: Vec<&CellRow> = results.cells.iter().filter(is_there).filter(both).collect();
            for cell in results.cells.iter().filter(fits).filter(both) {
                let each = headline.each.as_deref();
                let place = place(cell, &all, each, None);
                for measure in at(analysis, cell, &headline.phase, headline.x) {
                    let Some(base) = analysis.get(cell.id, other, measure.x) else { continue };
                    findings.extend(finding(cell, cell, measure, base, headline.metric, &place, None));
                }
            }
        }
        (Some(axis), None) => {
            let baselines: Vec<&CellRow> = results
                .cells
                .iter()
                .filter(fits)
                .filter(|cell| cell.axes.get(axis) == headline.baseline.as_ref())
                .collect();
            let is_measured = |cell: &&CellRow| has(cell, &headline.phase);
            let all: Vec<&CellRow> = results.cells.iter().filter(is_there).filter(is_measured).collect();
            for base_cell in baselines {
                let others = results.cells.iter().filter(fits).filter(|cell| {
                    let value = cell.axes.get(axis);
                    value != headline.baseline.as_ref()
                        && (headline.against.is_empty()
                            || value.is_some_and(|value| headline.against.contains(value)))
                        // Alike on every other axis.
                        && cell.axes.iter().all(|(key, other)| key == axis || base_cell.axes.get(key) == Some(other))
                });
                for cell in others {
                    let each = headline.each.as_deref();
                    let place = place(cell, &all, each, Some(axis));
                    for measure in at(analysis, cell, &headline.phase, headline.x) {
                        let Some(base) = analysis.get(base_cell.id, &headline.phase, measure.x) else {
                            continue;
                        };
                        findings.extend(finding(
                            cell,
                            base_cell,
                            measure,
                            base,
                            headline.metric,
                            &place,
                            Some(axis),
                        ));
                    }
                }
            }
        }
        (None, None) => {}
    }
    findings
}

/// The measures of a phase: at the abscissa asked for, or at all.
fn at<'a>(
    analysis: &'a Analysis,
    cell: &CellRow,
    phase: &'a str,
    x: Option<f64>,
) -> impl Iterator<Item = &'a Measure> {
    analysis.curve(cell.id, phase).filter(move |curve| x.is_none() || curve.x == x)
}

/// Whether a cell has one of the listed values on each named axis.
pub(super) fn matches(cell: &CellRow, filter: &AxisFilter) -> bool {
    filter.iter().all(|(axis, values)| cell.axes.get(axis).is_some_and(|value| values.contains(value)))
}

/// ` on ext4 with WAL`: the cell's value on the axis for each of whose values there is a sentence,
/// and what else tells it from the others that are spoken of, or nothing.
fn place(cell: &CellRow, cells: &[&CellRow], each: Option<&str>, compared: Option<&str>) -> String {
    let others = distinction(cell, cells, &[each, compared]);
    let Some((axis, value)) = each.and_then(|axis| Some((axis, value_in_sentence(cell, axis)?))) else {
        return if others.is_empty() { others } else { format!(" with {others}") };
    };
    // One works on a file system and on an engine, and with a setting.
    let is_setting = axis.starts_with("engine.") && axis != "engine.name";
    match (is_setting, others.as_str()) {
        (true, "") => format!(" with {value}"),
        (true, others) => format!(" with {value}, {others}"),
        (false, "") => format!(" on {value}"),
        (false, others) => format!(" on {value} with {others}"),
    }
}

/// `WAL`: what else tells this cell from the others that are spoken of, or nothing.
fn distinction(cell: &CellRow, cells: &[&CellRow], told: &[Option<&str>]) -> String {
    let differs = |axis: &str, value: &String| cells.iter().any(|other| other.axes.get(axis) != Some(value));
    let values: Vec<String> = cell
        .axes
        .iter()
        .filter(|(axis, value)| !told.contains(&Some(axis.as_str())) && differs(axis, value))
        .filter_map(|(axis, _)| value_in_sentence(cell, axis))
        .collect();
    values.join(", ")
}

fn finding(
    cell: &CellRow,
    base_cell: &CellRow,
    measure: &Measure,
    base: &Measure,
    metric: Metric,
    place: &str,
    axis: Option<&str>,
) -> Option<Finding> {
    // Where no device counted bytes, the speed is told.
    let is_of_bytes = metric == Metric::Bytes && measure.faster_than(base, metric).is_some();
    let metric = if metric == Metric::Bytes && !is_of_bytes { measure.main_metric() } else { metric };
    let faster = measure.faster_than(base, metric)?;
    let clock = measure.common_clock(base);
    let has_wall = clock == Clock::Model && !is_of_bytes;
    let wall_faster = if has_wall { measure.faster_by(base, metric, Clock::Wall) } else { None };
    let mut finding = Finding {
        cell: cell.id,
        baseline: base_cell.id,
        phase: measure.phase.clone(),
        baseline_phase: base.phase.clone(),
        x: measure.x,
        faster,
        clock,
        wall_faster,
        baseline_sync_share: base.shares_in(clock).sync,
        sentence: String::new(),
        promises: None,
    };
    let is_one_of_two = measure.clock != base.clock;
    let value =
        |cell: &CellRow, axis: &str| value_in_sentence(cell, axis).unwrap_or_else(|| cell.title.clone());
    // Two cells in one phase: "WAL", "DELETE"; two phases in one cell: "update-point",
    // "delete-point".
    let (subject, object) = match axis {
        Some(axis) => (value(cell, axis), value(base_cell, axis)),
        None => (finding.phase.clone(), finding.baseline_phase.clone()),
    };
    let work = if axis.is_some() { finding.phase.as_str() } else { "" };
    // Tables show rates, which hold what ends a phase (a checkpoint), too: no sentence beside one
    // says another thing without a word.
    let by_rate = (metric != measure.main_metric() && measure.unit == base.unit && !is_of_bytes)
        .then(|| measure.faster_than(base, measure.main_metric()))
        .flatten()
        .filter(|rate| (rate.ratio / faster.ratio).ln().abs() > RATE_APART);
    let mut text = if is_of_bytes {
        of_bytes(&finding, (&subject, &object, work), cell, place)
    } else {
        sentence(&finding, (&subject, &object, work), cell, measure, place, is_one_of_two)
    };
    if let Some(rate) = by_rate {
        let rate = if faster.proven && faster.ratio < 1.0 { rate.inverse() } else { rate };
        text.push_str(&format!("; by the rate of the phase {}", told_beside(&rate)));
    }
    if finding.baseline_sync_share >= 0.005 && !is_of_bytes {
        let share = (finding.baseline_sync_share * 100.0).round();
        text.push_str(&format!("; {share} % of {object}'s time is fsync"));
    }
    text.push('.');
    finding.sentence = text;
    finding.promises = (cell.durability != base_cell.durability)
        .then(|| {
            let (promised, base_promised) =
                (durability_words(cell.durability?), durability_words(base_cell.durability?));
            Some(format!("{subject} {promised}; {object} {base_promised}."))
        })
        .flatten();
    Some(finding)
}

fn sentence(
    finding: &Finding,
    (subject, object, work): (&str, &str, &str),
    cell: &CellRow,
    measure: &Measure,
    place: &str,
    is_one_of_two: bool,
) -> String {
    let x = finding.x.map(|x| format!(" ({} {})", thousands(x), abscissa_name(cell))).unwrap_or_default();
    let Comparison { ratio, proven, .. } = finding.faster;
    let mut text = if !proven {
        let of = if work.is_empty() { String::new() } else { format!(" in {work}{x}") };
        let interval = if finding.faster.high.is_finite() {
            format!(" ~ {}", times(&finding.faster))
        } else {
            format!(" ~ {}, too few runs for an interval", figure(ratio))
        };
        format!("{subject} and {object} show no proven difference{of}{place}:{interval}")
    } else {
        let (shown, word) =
            if ratio >= 1.0 { (finding.faster, "faster") } else { (finding.faster.inverse(), "slower") };
        let by = format!("{} {word}", times(&shown));
        match (work, measure.unit.as_str()) {
            ("", _) => format!("{subject} is {by} than {object}{x}{place}"),
            (work, "message") => {
                format!("{subject} handles messages {by} than {object}{place}: {work}{x}")
            }
            (work, "transaction") => {
                format!("{subject} {} {by} than {object}{place} ({work}{x})", transacts(cell))
            }
            (work, _) => format!("{subject} does {work}{x} {by} than {object}{place}"),
        }
    };
    // Wall time stands beside model time, marked, and says the same way how many times as much.
    if let Some(wall) = finding.wall_faster {
        let wall = if proven && ratio < 1.0 { wall.inverse() } else { wall };
        text.push_str(&format!(", in model time ({} in wall time)", told_beside(&wall)));
    } else if is_one_of_two {
        text.push_str(", in wall time: only one of them has model time");
    }
    text
}

/// As [`sentence`], of bytes: `WAL writes 0.52x [0.45, 0.60] of the bytes that DELETE writes`.
fn of_bytes(
    finding: &Finding,
    (subject, object, work): (&str, &str, &str),
    cell: &CellRow,
    place: &str,
) -> String {
    let x = finding.x.map(|x| format!(" ({} {})", thousands(x), abscissa_name(cell))).unwrap_or_default();
    let work = if work.is_empty() { x } else { format!(" ({work}{x})") };
    let written = finding.faster.inverse();
    if finding.faster.proven {
        return format!(
            "{subject} writes {} of the bytes that {object} writes{place}{work}",
            times(&written)
        );
    }
    let told = if written.high.is_finite() {
        times(&written)
    } else {
        format!("{}, too few runs for an interval", figure(written.ratio))
    };
    format!(
        "{subject} and {object} show no proven difference of the bytes that they write{place}{work}: ~ {told}"
    )
}

/// What another number says beside the one that is told: wall time, the rate.
fn told_beside(other: &Comparison) -> String {
    if other.proven {
        times(other)
    } else if other.high.is_finite() {
        format!("~ {}", times(other))
    } else {
        figure(other.ratio)
    }
}

/// A rate that differs from the time of one execution by more than this factor's logarithm is told.
const RATE_APART: f64 = 0.05;

/// Decimal places that an interval has at most.
const MOST_PLACES: usize = 6;

/// A ratio with two significant digits where it is small: `2.1x`, `1.04x`, `11x`.
#[must_use]
pub fn figure(ratio: f64) -> String {
    format!("{}x", digits(ratio))
}

fn digits(ratio: f64) -> String {
    if ratio > 0.0 && ratio < 0.01 {
        // 0.00 would claim what no ratio can be.
        let places = (1.0 - ratio.log10().floor()).clamp(2.0, 9.0) as usize;
        format!("{ratio:.places$}")
    } else if ratio < 1.2 {
        format!("{ratio:.2}")
    } else if ratio < 10.0 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.0}")
    }
}

/// How many decimal places both ends of an interval have: those of the ratio, as long as they say
/// anything of them. What is proven has as many as show it: "faster 1.2x [1.0, 1.5]" would say that
/// it may be the same.
fn places(comparison: &Comparison) -> usize {
    let usual = if comparison.ratio < 1.2 { 2 } else { usize::from(comparison.ratio < 10.0) };
    let looks_like_one = |end: f64, places: usize| (end - 1.0).abs() < 0.5 * 0.1_f64.powi(places as i32);
    let hides = |places: usize| {
        comparison.proven
            && [comparison.low, comparison.high].into_iter().any(|end| looks_like_one(end, places))
    };
    (usual..MOST_PLACES).find(|&places| !hides(places)).unwrap_or(MOST_PLACES)
}

fn brackets(comparison: &Comparison, places: usize) -> String {
    let end = |value: f64| match value {
        v if !v.is_finite() => "unbounded".to_owned(),
        v if v >= 100.0 => thousands(v),
        // 0.0 would claim what no ratio can be.
        v if v > 0.0 && v < 0.1 => format!("{v:.0$}", (-v.log10()).ceil().clamp(1.0, 9.0) as usize),
        v if v > 0.0 && v < 1.0 && places == 0 => format!("{v:.2}"),
        v => format!("{v:.places$}"),
    };
    format!("[{}, {}]", end(comparison.low), end(comparison.high))
}

/// A comparison as sentences tell it: `4.2x [4.0, 4.3]`; without the interval where too few runs
/// give one.
#[must_use]
pub fn times(comparison: &Comparison) -> String {
    if comparison.high.is_infinite() && comparison.low <= 0.0 {
        return format!("{} (too few runs for an interval)", figure(comparison.ratio));
    }
    let places = places(comparison);
    // As many as its interval, where that has more than usual.
    let ratio = match comparison.ratio {
        ratio if ratio < 10.0 && places > 2 => format!("{ratio:.places$}x"),
        ratio if (1.2..10.0).contains(&ratio) && places > 1 => format!("{ratio:.places$}x"),
        ratio => figure(ratio),
    };
    format!("{ratio} {}", brackets(comparison, places))
}

fn thousands(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_as_many_digits_as_say_something() {
        let told = |ratio, low, high| times(&Comparison { ratio, low, high, proven: true, n: 5 });
        assert_eq!(told(4.21, 4.02, 4.34), "4.2x [4.0, 4.3]");
        assert_eq!(told(1.041, 1.02, 1.3), "1.04x [1.02, 1.30]");
        assert_eq!(told(1.6, 0.0041, 656.9), "1.6x [0.004, 657]");
        assert_eq!(told(11.2, 0.24, f64::INFINITY), "11x [0.24, unbounded]");
        // It was "0.50x [0.00, unbounded]", as if that had been measured.
        assert_eq!(told(0.5, 0.0, f64::INFINITY), "0.50x (too few runs for an interval)");
        // And of two runs of each, 230 times as slow, "0.00x".
        assert_eq!(told(0.0043, 0.0, f64::INFINITY), "0.0043x (too few runs for an interval)");
        assert_eq!(told(0.001, 0.0009, 0.002), "0.0010x [0.0009, 0.002]");
        // They were "1.2x [1.0, 1.5] faster" and "1.00x [1.00, 1.01] slower".
        assert_eq!(told(1.226, 1.0088, 1.4899), "1.23x [1.01, 1.49]");
        assert_eq!(told(1.0043, 1.0012, 1.0074), "1.004x [1.001, 1.007]");
        assert_eq!(told(12.3, 1.3, 44.0), "12x [1.3, 44.0]");
        let unproven = Comparison { ratio: 1.226, low: 0.996, high: 1.49, proven: false, n: 5 };
        assert_eq!(times(&unproven), "1.2x [1.0, 1.5]");
        assert_eq!([0.0, 0.01, 0.094].map(figure), ["0.00x", "0.01x", "0.09x"]);
    }
}
