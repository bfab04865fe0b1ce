//! The picture with which the report opens: every cell a bar, the best first, with its name and its
//! number beside it; grouped and coloured by what a power cut keeps, because speeds of different
//! promises are no race.
//!
//! Bars begin at zero and are never logarithmic: a length is a number here. What replays different
//! traces or runs different workloads stands in panels of its own, each with its own scale.

pub mod html;
pub mod svg;

use fathom_lab::analysis::{Analysis, Clock, Measure};
use fathom_lab::experiment::Metric;
use fathom_lab::naming::{abscissa_name, value_name};
use fathom_lab::store::{CellRow, Results};
use fathom_workload::spec::Durability;

use crate::axis::Axis;
use crate::figure::{abscissas, mean_over_sizes, plural};
use crate::number;
use crate::palette::{Colour, PROMISE_COLOURS, UNKNOWN_PROMISE};
use crate::power_cut;
use crate::words::{are_commits, common_unit};

/// As `--figure` takes it.
pub const ID: &str = "ranking";

/// Bars of one panel that are seen before somebody asks for all.
const SEEN: usize = 12;

/// How far beyond the longest bar its interval may reach, of the bar; a longer one is cut there.
const REACH: f64 = 1.25;

/// How long a bar may be, of the longest of the strongest promise. Who gives up durability is often
/// a hundred times as fast; drawn to the same scale, what the reader chooses among would be no
/// longer than a point. Such a bar is cut, says so by its end, and has its number beside it.
const LONGEST: f64 = 4.0;

/// The ranked bars.
pub struct Ranking {
    /// `Commits per second, more is better`.
    pub title: String,
    /// What the numbers are, and what a bar is.
    pub note: String,
    /// What is shown of a cell.
    pub metric: Metric,
    /// One for each trace or workload.
    pub panels: Vec<Panel>,
}

/// Bars that may be compared by their length.
pub struct Panel {
    /// The trace or workload; empty where there is one.
    pub name: String,
    /// The end of the scale: per second, ns or bytes. Longer bars are cut there.
    pub most: f64,
    /// By promise, the strongest first.
    pub groups: Vec<Group>,
}

/// Bars of one promise, the best first.
pub struct Group {
    /// What a power cut keeps.
    pub keeps: &'static str,
    /// The promise's colour.
    pub colour: Colour,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One cell.
pub struct Bar {
    /// Its number.
    pub cell: i64,
    /// What tells it from the others of the panel.
    pub name: String,
    /// Geometric mean over the runs: per second, ns or bytes.
    pub mid: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Whether it is seen only when all are asked for.
    pub is_folded: bool,
}

impl Ranking {
    /// Of bars that are known: each with the panel and the promise that it is of.
    pub fn of_bars(
        title: String,
        note: String,
        metric: Metric,
        bars: Vec<(String, Option<Durability>, Bar)>,
    ) -> Ranking {
        let mut panels: Vec<Panel> = Vec::new();
        for (panel, durability, bar) in bars {
            panel_of(&mut panels, panel).put(durability, bar);
        }
        panels.iter_mut().for_each(|panel| panel.finish(metric));
        let note = note + open_ends(&panels);
        Ranking { title, note, metric, panels }
    }

    /// The cells' values in the phase; none where it was not measured. Of the bytes that were
    /// written where those are `asked` for and every cell has them, else of what tables show.
    pub fn of(
        results: &Results,
        axes: &[Axis],
        analysis: &Analysis,
        phase: &str,
        asked: Option<Metric>,
    ) -> Option<Ranking> {
        let measured = |cell: &CellRow| analysis.curve(cell.id, phase).collect::<Vec<&Measure>>();
        let first = analysis.measures.iter().find(|measure| measure.phase == phase)?;
        let has_bytes = |measure: &Measure| measure.written_bytes().is_some_and(|written| written.mid > 0.0);
        let mut of_phase = analysis.measures.iter().filter(|measure| measure.phase == phase);
        let metric = match asked {
            Some(Metric::Bytes) if of_phase.all(has_bytes) => Metric::Bytes,
            _ => first.main_metric(),
        };
        // Among what was measured: a value all of whose cells were skipped tells nothing from
        // anything.
        let has_values = |axis: &Axis| {
            let values = results.cells.iter().filter(|cell| !measured(cell).is_empty());
            let mut values: Vec<_> = values.map(|cell| cell.axes.get(&axis.key)).collect();
            values.sort_unstable();
            values.dedup();
            values.len() > 1
        };
        let varying: Vec<&Axis> = axes.iter().filter(|axis| has_values(axis)).collect();
        let (apart, within): (Vec<&Axis>, Vec<&Axis>) =
            varying.into_iter().partition(|axis| axis.key == "trace" || axis.key.starts_with("workload."));
        let mut panels: Vec<Panel> = Vec::new();
        let (mut clocks, mut counted) = (Vec::new(), None);
        for cell in &results.cells {
            let curve = measured(cell);
            let is_wall = curve.iter().any(|curve| curve.clock == Clock::Wall);
            let clock = if is_wall { Clock::Wall } else { Clock::Model };
            let Some(value) = mean_over_sizes(&curve, metric, clock).filter(|size| size.mid > 0.0) else {
                continue;
            };
            if curve.len() > 1 {
                counted = Some(abscissa_name(cell));
            }
            // Bytes are of no clock.
            if metric != Metric::Bytes && !clocks.contains(&clock) {
                clocks.push(clock);
            }
            let bar = Bar {
                cell: cell.id,
                name: words(cell, &within, " ") + power_cut::mark(results, cell),
                mid: value.mid,
                low: value.low,
                high: value.high,
                is_folded: false,
            };
            let name = if apart.is_empty() { String::new() } else { words(cell, &apart, ", ") };
            panel_of(&mut panels, name).put(cell.durability, bar);
        }
        if panels.is_empty() {
            return None;
        }
        panels.iter_mut().for_each(|panel| panel.finish(metric));
        let of_phase = analysis.measures.iter().filter(|measure| measure.phase == phase);
        let unit = match (metric, common_unit(of_phase.map(|measure| measure.unit.as_str()))) {
            (Metric::Rate, "transaction") if are_commits(results, analysis, phase) => {
                "Commits per second".to_owned()
            }
            (Metric::Rate, unit) => format!("{} per second", capital(&plural(unit))),
            (Metric::Time, unit) => format!("Time of one {unit}"),
            (Metric::Bytes, unit) => format!("Bytes that one {unit} writes to the device"),
        };
        let direction = if metric == Metric::Rate { "more is better" } else { "less is better" };
        let clock = match clocks.as_slice() {
            [Clock::Model] => ", in model time",
            [_, _] => ", in model time where a device was modelled",
            _ => "",
        };
        let known = power_cut::known_losses(results).into_iter().map(|known| format!(" {known}"));
        let sizes =
            counted.map_or_else(String::new, |counted| format!(", mean over all {}", abscissas(counted)));
        Some(Ranking {
            title: format!("{unit} ({phase}{sizes}), {direction}"),
            note: format!(
                "Best first within what a power cut keeps{clock}; the line on a bar is the 95 % interval.{}{}",
                open_ends(&panels),
                known.collect::<String>()
            ),
            metric,
            panels,
        })
    }
}

/// What must be said of bars that are cut.
fn open_ends(panels: &[Panel]) -> &'static str {
    if panels.iter().any(Panel::has_cut) { " Bars with an open end are longer than the scale." } else { "" }
}

fn panel_of(panels: &mut Vec<Panel>, name: String) -> &mut Panel {
    let index = panels.iter().position(|panel| panel.name == name).unwrap_or_else(|| {
        panels.push(Panel { name, most: 0.0, groups: Vec::new() });
        panels.len() - 1
    });
    &mut panels[index]
}

impl Panel {
    fn put(&mut self, durability: Option<Durability>, bar: Bar) {
        let (keeps, colour) = keeps(durability);
        match self.groups.iter_mut().find(|group| group.keeps == keeps) {
            Some(group) => group.bars.push(bar),
            None => self.groups.push(Group { keeps, colour, bars: vec![bar] }),
        }
    }

    /// Sorts, finds the scale, and folds what a first look need not show: of each promise in turn
    /// its next best stays.
    fn finish(&mut self, metric: Metric) {
        self.groups
            .sort_by_key(|group| ORDER.iter().position(|durability| keeps(*durability).0 == group.keeps));
        for group in &mut self.groups {
            group.bars.sort_by(|a, b| match metric {
                Metric::Rate => b.mid.total_cmp(&a.mid),
                Metric::Time | Metric::Bytes => a.mid.total_cmp(&b.mid),
            });
        }
        let longest = |groups: &[Group]| {
            groups.iter().flat_map(|group| &group.bars).map(|bar| bar.mid).fold(0.0, f64::max)
        };
        let scale = longest(&self.groups).min(longest(self.groups.get(..1).unwrap_or_default()) * LONGEST);
        let drawn = self.groups.iter().flat_map(|group| &group.bars).filter(|bar| bar.mid <= scale);
        let reaching = drawn.map(|bar| bar.high).filter(|high| high.is_finite()).fold(scale, f64::max);
        self.most = reaching.min(scale * REACH);
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            places.extend((0..group.bars.len()).map(|rank| (rank, number)));
        }
        places.sort_unstable();
        for (rank, number) in places.into_iter().skip(SEEN) {
            self.groups[number].bars[rank].is_folded = true;
        }
    }

    /// How long a value is drawn, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        if self.most > 0.0 { (value / self.most).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether the bar is longer than the scale.
    fn is_cut(&self, bar: &Bar) -> bool {
        bar.mid > self.most
    }

    fn has_cut(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.bars).any(|bar| self.is_cut(bar))
    }

    /// How many bars there are, and how many of them are folded.
    fn counts(&self) -> (usize, usize) {
        let all = || self.groups.iter().flat_map(|group| &group.bars);
        (all().count(), all().filter(|bar| bar.is_folded).count())
    }
}

/// What tells a cell from the others, on these axes.
fn words(cell: &CellRow, axes: &[&Axis], between: &str) -> String {
    let values: Vec<String> = axes
        .iter()
        .filter_map(|axis| {
            let value = cell.axes.get(&axis.key)?;
            // A number alone does not say of what.
            let is_number = value.parse::<f64>().is_ok();
            if is_number { Some(format!("{} {value}", axis.label)) } else { value_name(cell, &axis.key) }
        })
        .collect();
    if values.is_empty() { cell.title.clone() } else { values.join(between) }
}

const ORDER: [Option<Durability>; 7] = [
    Some(Durability::OneNode),
    Some(Durability::PowerCut),
    Some(Durability::PowerCutAllButLast),
    Some(Durability::PowerCutPrefix),
    Some(Durability::ProcessCrash),
    Some(Durability::None),
    None,
];

/// What a power cut keeps, as a heading, and its colour.
pub fn keeps(durability: Option<Durability>) -> (&'static str, Colour) {
    match durability {
        Some(Durability::OneNode) => {
            ("The loss of a node, or a power cut of all, keeps every commit", PROMISE_COLOURS[0])
        }
        Some(Durability::PowerCut) => ("A power cut keeps every commit", PROMISE_COLOURS[0]),
        Some(Durability::PowerCutAllButLast) => {
            ("A power cut keeps every commit but at most the last", PROMISE_COLOURS[1])
        }
        Some(Durability::PowerCutPrefix) => {
            ("A power cut may take the last commits, never the database", PROMISE_COLOURS[2])
        }
        Some(Durability::ProcessCrash) => {
            ("A power cut may take the database, a crash of the process takes nothing", PROMISE_COLOURS[3])
        }
        Some(Durability::None) => ("Any crash may take the database", PROMISE_COLOURS[4]),
        None => ("What a power cut keeps is not known", UNKNOWN_PROMISE),
    }
}

/// A value with its unit, short.
fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Rate => number::plain(value),
        Metric::Time => number::time(value),
        Metric::Bytes => number::bytes(value),
    }
}

/// Nothing where a single run has none.
fn interval(metric: Metric, bar: &Bar) -> String {
    match metric {
        _ if bar.low == bar.high => String::new(),
        Metric::Rate => number::interval(bar.low, bar.high),
        Metric::Time => number::time_interval(bar.mid, bar.low, bar.high),
        Metric::Bytes => number::bytes_interval(bar.low, bar.high),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}
