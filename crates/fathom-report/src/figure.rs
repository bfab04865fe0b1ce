//! The figure model: what a figure shows, independent of what draws it. The page's charts, the
//! static SVG, the tables under the figures and the CSV are made from this one value.

use fathom_lab::analysis::{Clock, Measure, OfRun, Shares};
use fathom_lab::experiment::{FigureKind as Kind, Metric};
use fathom_lab::stats::{Interval, mean_interval, significant};
use serde::Serialize;

use crate::number;

/// A figure, ready to be drawn.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// `P4-T3`; unique in a report.
    pub id: String,
    /// What is drawn.
    pub kind: Kind,
    /// One line.
    pub title: String,
    /// What to see in it, one sentence.
    pub see: String,
    /// Rate or time.
    pub metric: Metric,
    /// Label of the axis of values: `transactions per second`, `time of one query`.
    pub quantity: String,
    /// Label of the abscissa, where it is a number.
    pub abscissa: String,
    /// Key of the axis that tells series apart, where one does.
    pub by: Option<String>,
    /// One panel per entry.
    pub panels: Vec<Panel>,
    /// The bars or lines of each panel.
    pub series: Vec<Series>,
    /// The groups of bars (phases); rows of a split are group × series.
    pub groups: Vec<String>,
    /// Values, one per mark.
    pub marks: Vec<Mark>,
    /// Single executions, one line per cell.
    pub lines: Vec<Line>,
    /// Whether the axis of values is logarithmic unless the reader says otherwise.
    pub log_y: bool,
    /// Whether the abscissa is logarithmic.
    pub log_x: bool,
    /// Something to know about the drawing (thinned series), else empty.
    pub note: String,
    /// The figure in words, for those who do not see it.
    pub description: String,
}

impl Figure {
    /// Whether it has anything of this series.
    pub fn draws(&self, series: usize) -> bool {
        self.marks.iter().any(|m| m.series == series) || self.lines.iter().any(|l| l.series == series)
    }

    /// Whether series are lines in it, and not bars.
    pub fn has_lines(&self) -> bool {
        matches!(self.kind, Kind::Range | Kind::Series | Kind::Ecdf)
    }
}

/// One panel.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Heading, empty when there is only one.
    pub title: String,
}

/// One series: a name, and what it is drawn with. Where two axes tell series apart, the colour is
/// of the one and pattern and dash are of the other.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// `WAL`, or `WAL · NORMAL` where another axis varies too.
    pub name: String,
    /// Its value on the axis `by`, for the filter.
    pub value: Option<String>,
    /// Index into [`crate::palette::VALUE_COLOURS`].
    pub colour: usize,
    /// How its bars are filled, see [`crate::palette::PATTERNS`].
    pub pattern: usize,
    /// Index into [`crate::palette::DASHES`], for its lines.
    pub dash: usize,
}

/// One value with its interval.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The cell it came from.
    pub cell: i64,
    /// Index of the panel.
    pub panel: usize,
    /// Index of the series.
    pub series: usize,
    /// Index of the group.
    pub group: usize,
    /// The abscissa.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Geometric mean over the runs: per second, or ns.
    #[serde(serialize_with = "four_digits")]
    pub mid: f64,
    /// Lower end of the 95 % interval.
    #[serde(serialize_with = "four_digits")]
    pub low: f64,
    /// Upper end of the 95 % interval.
    #[serde(serialize_with = "four_digits")]
    pub high: f64,
    /// Runs.
    pub runs: usize,
    /// Parts of one execution, ns; only in a split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<[f64; 5]>,
}

/// Single executions: of one run of a cell in the order in which they were made, or in an ECDF of
/// all its runs by their time.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The cell.
    pub cell: i64,
    /// Index of the panel.
    pub panel: usize,
    /// Index of the series.
    pub series: usize,
    /// Number of the run within its cell, from 1; in an ECDF the number of runs.
    pub run: u32,
    /// Executions; more than `points` where the line is thinned.
    pub total: usize,
    /// p50, p99 and maximum of all executions, ns.
    pub percentiles: [f64; 3],
    /// (execution, ns); in an ECDF (ns, executions in 10,000 that took at most so long).
    #[serde(serialize_with = "rounded")]
    pub points: Vec<(f64, f64)>,
}

/// A report carries many numbers of which nobody reads the sixth digit.
fn four_digits<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(significant(*value))
}

fn rounded<S: serde::Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|(x, y)| [*x as i64, *y as i64]))
}

/// Where a cell stands: its group, series and facet; none where it is not shown.
pub type PlaceOfCell<'a> = &'a dyn Fn(i64) -> Option<(i64, usize, Option<usize>)>;

/// Index of the panel of a facet, a phase and a series.
pub type PanelOf<'a> = &'a dyn Fn(Option<usize>, usize, usize) -> usize;

/// The parts of one execution's mean time in the order of [`crate::palette::PARTS`], ns.
pub fn parts_ns(measure: &Measure) -> [f64; 5] {
    [
        measure.each_ns(|s| s.cpu_ns),
        measure.each_ns(|s| s.read_ns),
        measure.each_ns(|s| s.write_ns),
        measure.each_ns(|s| s.sync_ns),
        measure.each_ns(|s| s.other_ns),
    ]
}

/// The parts as they are shown, in a clock that the measure has: divided by [`Measure::shares_in`],
/// which of several threads are those of the critical path. The sum of the threads' times would say
/// that half of the time is a sync for which one thread waits while the other computes.
pub fn shown_parts_ns(measure: &Measure, clock: Clock) -> [f64; 5] {
    // Of one thread an execution's part of the phase, for that is what the shares are of: a commit
    // that never waits, and a checkpoint after all of them. Of several an execution takes longer
    // than its part.
    let whole = |run: &OfRun| match run.model.filter(|_| clock == Clock::Model) {
        Some(model) => model.model_ns.max(run.time_ns),
        None => run.wall.time_ns,
    };
    let whole: Vec<f64> = measure.runs.iter().map(whole).collect();
    // By the estimator of the tables, so that a bar is as long as the number beside it says.
    let total = mean_interval(&whole).map_or(0.0, |mean| mean.mid);
    divided(total, &measure.shares_in(clock))
}

fn divided(total: f64, shares: &Shares) -> [f64; 5] {
    [shares.cpu, shares.read, shares.write, shares.sync, shares.lock + shares.other]
        .map(|share| share * total)
}

/// One measure's interval; of several (the sizes of a range), that of each run's mean, in which
/// each size counts once, as in P1's last figure.
pub fn mean_over_sizes(curve: &[&Measure], metric: Metric, clock: Clock) -> Option<Interval> {
    if let [one] = curve {
        return Some(one.interval_of(metric, clock));
    }
    let runs: Vec<f64> = curve
        .first()?
        .runs
        .iter()
        .filter_map(|first| {
            let own: Vec<f64> = curve
                .iter()
                .filter_map(|m| m.runs.iter().find(|run| run.run == first.run))
                .map(|run| run.value(metric, clock))
                .collect();
            (own.len() == curve.len()).then(|| own.iter().sum::<f64>() / own.len() as f64)
        })
        .collect();
    mean_interval(&runs)
}

/// What a mean over a curve is over, by what its abscissa counts: `sizes`, `numbers of threads`.
pub fn abscissas(counted: &str) -> String {
    if counted == "size" { plural(counted) } else { format!("numbers of {counted}") }
}

pub fn plural(unit: &str) -> String {
    unit.strip_suffix('y').map_or_else(|| format!("{unit}s"), |stem| format!("{stem}ies"))
}

/// A value with its unit.
pub fn value_text(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Rate => format!("{} per second", number::plain(value)),
        Metric::Time => number::time(value),
        Metric::Bytes => number::bytes(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What happened: a mean over numbers of threads was called one over all sizes.
    #[test]
    fn a_mean_over_a_curve_says_over_what() {
        assert_eq!([abscissas("threads"), abscissas("size")], ["numbers of threads", "sizes"]);
    }

    // What happened: a time of 14 s was 14434499999.999998 ns in CSV and JSON, by a division.
    #[test]
    fn six_digits_are_six_where_numbers_are_large_too() {
        for (value, text) in
            [(14_434_526_491.273_724, "14434500000"), (281.444_49, "281.444"), (f64::INFINITY, "0")]
        {
            assert_eq!(significant(value).to_string(), text, "{value}");
        }
    }

    // What happened: a trace of two threads had the sentence "94 % of the time is fsync" above a
    // bar with 47 %: the bar added up the threads' times, and one of them only waited.
    #[test]
    fn a_bar_is_divided_as_the_shares_say() {
        let shares = Shares { cpu: 0.02, read: 0.0, write: 0.01, sync: 0.94, lock: 0.02, other: 0.01 };
        let [cpu, read, write, sync, other] = divided(200.0, &shares);
        assert_eq!((cpu, read, write, sync), (4.0, 0.0, 2.0, 188.0));
        assert!((other - 6.0).abs() < 1e-9, "locks belong to the rest: {other}");
    }
}
