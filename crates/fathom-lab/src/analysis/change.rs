//! What changed between two measurements, and whether a gate lets it through.

use serde::Serialize;

use super::apart::apart;
use super::baseline::is_fleeting;
use super::places::Places;
use super::side::{CellValues, PhaseValues, Quantity, Side};
use super::{Analysis, Clock};
use crate::stats::{
    Comparison, Difference, Interval, mean_interval, range_ratio, unpaired_difference, unpaired_ratio,
};
use crate::store::{Results, StoreError};

/// What is to be compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// In what; empty: model time, flushes and bytes where both have model time, else a rate or a
    /// time by what is counted.
    pub quantities: Vec<Quantity>,
    /// Of one phase only.
    pub phase: Option<String>,
    /// Of the cell with this label or title only.
    pub cell: Option<String>,
}

/// One quantity of one cell and phase that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The cell's label in B.
    pub label: String,
    /// The same as people read it.
    pub title: String,
    /// The phase.
    pub phase: String,
    /// The abscissa, where the phase has one.
    pub x: Option<f64>,
    /// What is counted.
    pub unit: String,
    /// What is compared.
    pub quantity: Quantity,
    /// What it is of.
    pub clock: Clock,
    /// A's geometric mean over its runs, with its interval.
    pub a: Interval,
    /// B's.
    pub b: Interval,
    /// How many times as good B is as A: above 1 is faster, or less. The quotient of the two means;
    /// the sides' runs are not paired.
    pub faster: Comparison,
    /// How much more B has, of counts that are zero in some runs: those have no quotient. The
    /// values are then arithmetic means, and `faster` is their quotient without an interval (from 0
    /// to infinity), *proven* where the difference is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Whether both promise the same durability.
    pub same_durability: bool,
    /// Whether B promises less than A.
    pub promises_less: bool,
    /// Whether A's promise is known and B's is not, so that it may be less.
    pub promise_unknown: bool,
}

/// What changed between two measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Cells, phases and quantities that both have.
    pub changes: Vec<Change>,
    /// Titles of cells that only A has results of.
    pub only_a: Vec<String>,
    /// Titles of cells that only B has results of.
    pub only_b: Vec<String>,
    /// What B has of a cell and phase in common cannot be compared in what was asked for, or is not
    /// all that it was to have, since runs failed: in words.
    pub lacking: Vec<String>,
    /// What differs between the two and is not the cells: kernel, CPU, SQLite, experiment. Each as
    /// a sentence.
    pub cautions: Vec<String>,
}

/// What a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Proven not to be slower than allowed.
    Fine,
    /// Neither is proven.
    Unknown,
    /// Proven to be slower, and by more than allowed as far as is known.
    Slower,
}

impl Change {
    /// How many times as much B takes as A: above 1 is slower, or more.
    #[must_use]
    pub fn slower(&self) -> Comparison {
        self.faster.inverse()
    }

    /// Whether B is slower by more than `allowed` (0.1 is 10 %). *Slower*: the interval of the
    /// quotient leaves out 1, and the quotient is beyond what is allowed. *Fine*: the whole
    /// interval is within what is allowed. *Unknown*: anything else, and what promises less or may
    /// do so, for whose speed nothing is allowed. Of a difference it is the same: *slower* where
    /// its interval leaves out 0 and B is beyond what is allowed, *fine* where the interval of what
    /// B has beyond that does not come above 0.
    #[must_use]
    pub fn judged(&self, allowed: f64) -> Judgement {
        // What a decimal fraction cannot express must not decide.
        let limit = 1.0 + allowed + 1e-9;
        let slower = self.slower();
        if self.promises_less || self.promise_unknown {
            Judgement::Unknown
        } else if let Some(difference) = &self.difference {
            let [_, most] = difference.beyond(limit);
            match difference.low > 0.0 && self.b.mid > limit * self.a.mid {
                true => Judgement::Slower,
                false if most <= 0.0 => Judgement::Fine,
                false => Judgement::Unknown,
            }
        } else if slower.low > 1.0 && slower.ratio > limit {
            Judgement::Slower
        } else if slower.high <= limit {
            Judgement::Fine
        } else {
            Judgement::Unknown
        }
    }

    /// Whether it is proven that B is beyond what is allowed, and not only that it is slower: the
    /// whole interval is.
    #[must_use]
    pub fn is_beyond(&self, allowed: f64) -> bool {
        let limit = 1.0 + allowed;
        match &self.difference {
            Some(difference) => difference.beyond(limit)[0] > 0.0,
            None => self.slower().low > limit,
        }
    }
}

impl Changes {
    /// The whole: slower if anything is, else unknown if anything is, if anything of A is missing
    /// in B, or nothing was compared.
    #[must_use]
    pub fn judged(&self, allowed: f64) -> Judgement {
        let worst = self.changes.iter().map(|change| change.judged(allowed)).max();
        let is_whole = self.only_a.is_empty() && self.lacking.is_empty();
        match worst {
            Some(Judgement::Fine) if is_whole => Judgement::Fine,
            Some(Judgement::Slower) => Judgement::Slower,
            _ => Judgement::Unknown,
        }
    }
}

/// As [`changes`], of all that two results files have in common.
///
/// # Errors
/// A results file that was damaged after it was opened.
pub fn compare(a: &Results, b: &Results) -> Result<Changes, StoreError> {
    let side = |results| Ok::<_, StoreError>(Side::of(results, &Analysis::of(results)?));
    Ok(changes(&side(a)?, &side(b)?, &Question::default()).unwrap_or_default())
}

/// Compares the cells that two sides have in common, by their values on all axes.
///
/// # Errors
/// In words: the question names a cell or a phase that neither has.
pub fn changes(a: &Side, b: &Side, question: &Question) -> Result<Changes, String> {
    check(a, b, question)?;
    // A count that is the same in both must not differ by what a baseline has no room for.
    let rounded = (a.is_rounded != b.is_rounded).then(|| [a.rounded(), b.rounded()]);
    let [a, b] = rounded.as_ref().map_or([a, b], |[a, b]| [a, b]);
    let mut found = Changes::default();
    let (in_a, in_b) = (Places::of(&a.cells), Places::of(&b.cells));
    let is_named = |cell: &CellValues| question.cell.as_ref().is_none_or(|name| cell.is_called(name));
    // The same cell may be written in another way in the other file.
    let is_asked = |&cell: &&CellValues| {
        is_named(cell) || [&in_a, &in_b].iter().any(|side| side.find(cell).is_some_and(is_named))
    };
    for cell_b in b.cells.iter().filter(is_asked) {
        let Some(cell_a) = in_a.find(cell_b) else {
            found.only_b.push(cell_b.title.clone());
            continue;
        };
        of_cell(cell_a, cell_b, question, &mut found);
        if !cell_a.has_settings_of(cell_b) {
            found.cautions.push(format!(
                "\"{}\" has the same place on every axis in both, but not the same settings: what changed may be those",
                cell_b.title
            ));
        }
    }
    for difference in
        [another_trace as fn(&CellValues, &CellValues) -> Option<String>, another_model, elsewhere]
    {
        // What is the same of several cells, as that they lay on another disk, is said once.
        let mut told: Vec<(String, &str, usize)> = Vec::new();
        for cell_b in b.cells.iter().filter(is_asked) {
            let words = in_a.find(cell_b).and_then(|cell_a| difference(cell_a, cell_b));
            let Some(words) = words else { continue };
            match told.iter_mut().find(|(known, ..)| *known == words) {
                Some((_, _, others)) => *others += 1,
                None => told.push((words, &cell_b.title, 0)),
            }
        }
        found.cautions.extend(told.into_iter().map(|(words, first, others)| match others {
            0 => format!("\"{first}\" {words}"),
            1 => format!("\"{first}\" (and 1 other cell) {words}"),
            _ => format!("\"{first}\" (and {others} other cells) {words}"),
        }));
    }
    let failing = |side: &Side, which: &str| -> Vec<String> {
        let told = side.cells.iter().filter(is_asked).filter(|cell| cell.failed > 0).map(|cell| {
            let runs = if cell.failed == 1 { "a run" } else { "runs" };
            format!(
                "\"{}\": {runs} failed in {which} ({}), and the others alone are compared",
                cell.title, cell.failed
            )
        });
        told.collect()
    };
    found.cautions.extend(failing(a, "A"));
    // What a run that failed would have taken nobody knows, so no gate can say that B is fine.
    found.lacking.extend(failing(b, "B"));
    found.only_a = a
        .cells
        .iter()
        .filter(is_asked)
        .filter(|cell| in_b.find(cell).is_none())
        .map(|cell| cell.title.clone())
        .collect();
    let why = apart(a, b);
    for (one, other, which, several) in [(a, b, "A", "B"), (b, a, "B", "A")] {
        if why.is_none() && other.has_several_machines() && !one.has_several_machines() {
            let machine = one.machine();
            let told =
                format!("{which} is of one machine ({machine}), so of {several} that one alone is compared");
            found.cautions.push(told);
        }
    }
    found.cautions.extend(why.map(|why| format!("A and B have no cell in common: {why}")));
    if a.experiment != b.experiment {
        found.cautions.push(format!("A is the experiment {}, B is {}", a.experiment, b.experiment));
    }
    let (of_a, of_b) = (a.environment_beside(b), b.environment_beside(a));
    for (key, value) in &of_a {
        // What differs in every run says nothing.
        if is_fleeting(key) {
            continue;
        }
        match of_b.get(key) {
            Some(other) if other != value => {
                found.cautions.push(format!("{key} differs: {value} in A, {other} in B"));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// That a cell replays another trace in B.
fn another_trace(a: &CellValues, b: &CellValues) -> Option<String> {
    let (of_a, of_b) = a.replayed.as_ref().zip(b.replayed.as_ref())?;
    (of_a != of_b).then(|| "is another trace in B than in A: what changed is the work, too".into())
}

/// That a cell's device has another model in B.
fn another_model(a: &CellValues, b: &CellValues) -> Option<String> {
    let (of_a, of_b) = a.models.as_ref().zip(b.models.as_ref())?;
    (of_a != of_b)
        .then(|| "has another model of its device in B than in A: what changed is the device, too".into())
}

/// That a cell's runs lay on another disk, file system or image in B, by all that both tell.
fn elsewhere(a: &CellValues, b: &CellValues) -> Option<String> {
    let differs = |(name, of_a): (&String, &String)| {
        let of_b = b.ran_on.get(name).filter(|of_b| *of_b != of_a)?;
        Some(format!("{name}: {of_a} in A, {of_b} in B"))
    };
    let all: Vec<String> = a.ran_on.iter().filter_map(differs).collect();
    (!all.is_empty()).then(|| {
        format!("ran on something else in B than in A ({}): what changed is that, too", all.join("; "))
    })
}

fn check(a: &Side, b: &Side, question: &Question) -> Result<(), String> {
    let cells = || a.cells.iter().chain(&b.cells);
    let distinct = |words: &mut dyn Iterator<Item = &String>| {
        let mut all: Vec<&str> = Vec::new();
        words.for_each(|word| {
            if !all.contains(&word.as_str()) {
                all.push(word);
            }
        });
        all.join(", ")
    };
    if let Some(label) = question.cell.as_ref().filter(|name| !cells().any(|cell| cell.is_called(name))) {
        let known = distinct(&mut cells().map(|cell| &cell.title));
        return Err(format!("no cell is called {label:?}; there are: {known}"));
    }
    let mut phases = cells().flat_map(|cell| &cell.phase).map(|phase| &phase.name);
    if let Some(name) = &question.phase
        && !phases.any(|phase| phase == name)
    {
        let known = distinct(&mut cells().flat_map(|cell| &cell.phase).map(|phase| &phase.name));
        return Err(format!("no phase is called {name:?}; there are: {known}"));
    }
    Ok(())
}

fn of_cell(cell_a: &CellValues, cell_b: &CellValues, question: &Question, found: &mut Changes) {
    let is_asked = |phase: &&PhaseValues| question.phase.as_ref().is_none_or(|name| *name == phase.name);
    for phase_a in cell_a.phase.iter().filter(is_asked) {
        let place = || {
            let x = phase_a.x.map_or_else(String::new, |x| format!(" at {x}"));
            format!("{}, {}{x}", cell_b.title, phase_a.name)
        };
        let phase_b = cell_b.phase.iter().find(|phase| phase.name == phase_a.name && phase.x == phase_a.x);
        let Some(phase_b) = phase_b else {
            found.lacking.push(format!("{}: B has not measured it", place()));
            continue;
        };
        if phase_a.unit != phase_b.unit {
            let (of_a, of_b) = (&phase_a.unit, &phase_b.unit);
            found.lacking.push(format!(
                "{}: A counts every {of_a} and B every {of_b}, and one of these is not the other",
                place()
            ));
            continue;
        }
        let clock = if phase_a.clock() == phase_b.clock() { phase_a.clock() } else { Clock::Wall };
        if clock != phase_a.clock() || clock != phase_b.clock() {
            let which = if phase_a.clock() == Clock::Model { "A" } else { "B" };
            found
                .cautions
                .push(format!("{}: only {which} has model time, so wall times are compared", place()));
        }
        let by_unit = if matches!(phase_a.unit.as_str(), "transaction" | "message") {
            Quantity::Rate
        } else {
            Quantity::Time
        };
        let quantities = match (question.quantities.as_slice(), clock) {
            ([], Clock::Model) => vec![Quantity::Model, Quantity::Flushes, Quantity::Bytes],
            ([], Clock::Wall) => vec![by_unit],
            (asked, _) => asked.to_vec(),
        };
        for quantity in quantities {
            let (of_a, of_b) = (phase_a.values(quantity, clock), phase_b.values(quantity, clock));
            let (Some(mut mean_a), Some(mut mean_b)) = (mean_interval(of_a), mean_interval(of_b)) else {
                let which = if of_a.is_empty() { "A" } else { "B" };
                found.lacking.push(format!(
                    "{}: {which} has no {}, which takes a modelled device and a results file of format 7 or later",
                    place(),
                    quantity.words()
                ));
                continue;
            };
            let is_few = of_a.len().min(of_b.len()) < 3;
            let has_zeros = of_a.iter().chain(of_b).any(|value| *value <= 0.0);
            let is_steady = [of_a, of_b].iter().all(|values| values.iter().all(|value| *value == values[0]));
            let has_quotient = !has_zeros || is_steady || !quantity.is_count();
            let difference = if has_quotient { None } else { unpaired_difference(of_a, of_b) };
            let faster = match (quantity, &difference) {
                (Quantity::Rate, _) => unpaired_ratio(of_b, of_a),
                (_, Some(difference)) => {
                    [mean_a, mean_b] = difference.sides();
                    let means = range_ratio(&[mean_a.mid], &[mean_b.mid]);
                    let (n, proven) = (of_a.len().min(of_b.len()), difference.is_proven());
                    means.map(|means| Comparison { low: 0.0, high: f64::INFINITY, proven, n, ..means })
                }
                _ if quantity.is_count() && is_few => few_counts(quantity, [phase_a, phase_b]),
                _ if quantity.is_count() && has_zeros => range_ratio(of_a, of_b),
                _ => unpaired_ratio(of_a, of_b),
            };
            // What has zeros and is no count is compared without them, which says nothing of them.
            let is_whole = quantity.is_count() || !has_zeros;
            let Some(faster) = faster.filter(|_| is_whole) else {
                let how_often = if faster.is_none() { "every run" } else { "some runs" };
                let of_what = quantity.words();
                found.lacking.push(format!("{}: the {of_what} is 0 in {how_often} of A or B", place()));
                continue;
            };
            found.changes.push(Change {
                label: cell_b.label.clone(),
                title: cell_b.title.clone(),
                phase: phase_b.name.clone(),
                x: phase_b.x,
                unit: phase_b.unit.clone(),
                quantity,
                clock,
                a: mean_a,
                b: mean_b,
                faster,
                difference,
                same_durability: cell_a.durability == cell_b.durability,
                promises_less: cell_b.durability.is_some() && cell_b.durability < cell_a.durability,
                promise_unknown: cell_b.durability.is_none() && cell_a.durability.is_some(),
            });
        }
    }
}

/// How many times as much the first side has as the second, of counts of one run or two. Where
/// every execution flushes, a count takes no luck: one run of each side tells it. Where fewer do, a
/// checkpoint that comes a moment later, or a commit by the file system's timer, is a large part of
/// it, and so few runs do not show how large: such a count of flushes is taken to be anything up to
/// one in each execution, and bytes that are written beside it prove nothing. Where both have none
/// at all, there is nothing that could be more.
fn few_counts(quantity: Quantity, sides: [&PhaseValues; 2]) -> Option<Comparison> {
    let is_seldom = |flushes: &f64| *flushes < 1.0;
    let [of_a, of_b] = sides.map(|side| side.values(quantity, Clock::Model));
    let found = range_ratio(of_a, of_b)?;
    let has_any = of_a.iter().chain(of_b).any(|count| *count > 0.0);
    if !has_any || !sides.iter().any(|side| side.flushes.iter().any(is_seldom)) {
        return Some(found);
    }
    let widened = |values: &[f64]| -> Vec<f64> {
        values.iter().flat_map(|count| if is_seldom(count) { [0.0, 1.0] } else { [*count; 2] }).collect()
    };
    let (low, high) = match quantity {
        Quantity::Flushes => {
            let range = range_ratio(&widened(of_a), &widened(of_b))?;
            (range.low, range.high)
        }
        _ => (0.0, f64::INFINITY),
    };
    Some(Comparison { low, high, proven: low > 1.0 || high < 1.0, ..found })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn side(values: &[(&str, [f64; 5])], flushes: f64) -> Side {
        let cell = |(label, of_runs): &(&str, [f64; 5])| CellValues {
            label: (*label).into(),
            title: (*label).into(),
            durability: Some(fathom_workload::spec::Durability::PowerCut),
            settings: "0".into(),
            whole: String::new(),
            elsewhere: String::new(),
            replayed: None,
            models: None,
            ran_on: BTreeMap::new(),
            on: String::new(),
            axes: BTreeMap::from([("variants".to_owned(), (*label).to_owned())]),
            failed: 0,
            phase: vec![PhaseValues {
                name: "update".into(),
                x: None,
                unit: "transaction".into(),
                wall_rate_per_s: of_runs.iter().map(|value| 0.5e9 / value).collect(),
                wall_time_ns: of_runs.iter().map(|value| value * 2.0).collect(),
                model_rate_per_s: of_runs.iter().map(|rate| 1e9 / rate).collect(),
                model_time_ns: of_runs.to_vec(),
                model_ns: of_runs.to_vec(),
                flushes: vec![flushes; 5],
                written_bytes: vec![8192.0; 5],
            }],
        };
        Side {
            experiment: "e".into(),
            started_ms: 0,
            environment: BTreeMap::from([
                ("cpu".to_owned(), "one".to_owned()),
                ("load".to_owned(), "1".to_owned()),
            ]),
            cells: values.iter().map(cell).collect(),
            empty: Vec::new(),
            is_rounded: false,
        }
    }

    const STEADY: [f64; 5] = [1000.0, 1001.0, 999.0, 1002.0, 998.0];

    fn times(by: f64) -> [f64; 5] {
        STEADY.map(|steady| steady * by)
    }

    fn judged(a: &Side, b: &Side, allowed: f64) -> Judgement {
        changes(a, b, &Question::default()).unwrap().judged(allowed)
    }

    #[test]
    fn a_gate_tells_slower_from_fine_and_from_not_known() {
        let a = side(&[("wal", STEADY)], 2.0);
        assert_eq!(judged(&a, &a, 0.0), Judgement::Unknown, "times are never proven to be exactly the same");
        assert_eq!(judged(&a, &a, 0.01), Judgement::Fine);
        assert_eq!(judged(&a, &side(&[("wal", times(1.12))], 2.0), 0.1), Judgement::Slower);
        assert_eq!(judged(&a, &side(&[("wal", times(1.05))], 2.0), 0.1), Judgement::Fine);
        assert_eq!(
            judged(&a, &side(&[("wal", times(1.0999))], 2.0), 0.1),
            Judgement::Unknown,
            "at the limit"
        );
        let wild = side(&[("wal", [700.0, 1500.0, 900.0, 1300.0, 1000.0])], 2.0);
        assert_eq!(judged(&a, &wild, 0.1), Judgement::Unknown, "too noisy to say");
        // 5 % more flushes, in times that are all within what is allowed.
        assert_eq!(judged(&a, &side(&[("wal", STEADY)], 2.1), 0.04), Judgement::Slower);
        assert_eq!(judged(&a, &side(&[("wal", STEADY)], 2.1), 0.05), Judgement::Fine);
        // Faster is no fault.
        assert_eq!(judged(&a, &side(&[("wal", times(0.3))], 1.0), 0.1), Judgement::Fine);
    }

    /// What happened: 1.15x [1.02, 1.30] was "more than the 10 % allowed", which nothing had
    /// proven: only that it is slower.
    #[test]
    fn slower_is_not_yet_proven_to_be_beyond_what_is_allowed() {
        let a = side(&[("wal", [1000.0, 1040.0, 960.0, 1020.0, 980.0])], 2.0);
        let b = |by: f64| side(&[("wal", [1000.0, 1100.0, 900.0, 1050.0, 950.0].map(|ns| ns * by))], 2.0);
        let model = Question { quantities: vec![Quantity::Model], ..Question::default() };
        let of = |by: f64| changes(&a, &b(by), &model).unwrap().changes.remove(0);
        let (little, much) = (of(1.13), of(1.5));
        assert_eq!((little.judged(0.1), little.is_beyond(0.1)), (Judgement::Slower, false), "{little:?}");
        assert_eq!((much.judged(0.1), much.is_beyond(0.1)), (Judgement::Slower, true), "{much:?}");
    }

    #[test]
    fn what_is_missing_or_promises_less_does_not_pass() {
        let (both, one) = (side(&[("wal", STEADY), ("delete", STEADY)], 2.0), side(&[("wal", STEADY)], 2.0));
        let found = changes(&both, &one, &Question::default()).unwrap();
        assert_eq!((found.only_a.join(","), found.judged(0.1)), ("delete".into(), Judgement::Unknown));
        assert_eq!(changes(&one, &both, &Question::default()).unwrap().judged(0.1), Judgement::Fine);
        let only_wal = Question { cell: Some("wal".into()), ..Question::default() };
        assert_eq!(changes(&both, &one, &only_wal).unwrap().judged(0.1), Judgement::Fine);
        let mut less = one.clone();
        less.cells[0].durability = Some(fathom_workload::spec::Durability::PowerCutPrefix);
        assert_eq!(judged(&one, &less, 0.1), Judgement::Unknown);
        assert_eq!(judged(&less, &one, 0.1), Judgement::Fine, "promising more is no fault");
        let mut wall = one.clone();
        let phase = &mut wall.cells[0].phase[0];
        (phase.model_ns, phase.flushes, phase.written_bytes) = Default::default();
        let model = Question { quantities: vec![Quantity::Model], ..Question::default() };
        let found = changes(&one, &wall, &model).unwrap();
        assert!(
            found.lacking[0].contains("B has no model") && found.judged(9.0) == Judgement::Unknown,
            "{found:?}"
        );
        // What happened: sizes that B lacks were several times the same sentence.
        let mut sizes = one.clone();
        let mut larger = sizes.cells[0].phase[0].clone();
        (sizes.cells[0].phase[0].x, larger.x) = (Some(1.0), Some(512.0));
        sizes.cells[0].phase.push(larger);
        let found = changes(&sizes, &one, &Question::default()).unwrap();
        assert_eq!(
            found.lacking,
            ["wal, update at 1: B has not measured it", "wal, update at 512: B has not measured it"]
        );
        for (cell, phase, names) in [(Some("wla"), None, "wal"), (None, Some("insert"), "update")] {
            let question = Question {
                cell: cell.map(str::to_owned),
                phase: phase.map(str::to_owned),
                ..Question::default()
            };
            assert!(changes(&one, &one, &question).unwrap_err().ends_with(names));
        }
    }

    /// What happened: B, of whose promise nothing was known, was said to promise less.
    #[test]
    fn a_promise_that_is_not_known_is_not_less() {
        let known = side(&[("wal", STEADY)], 2.0);
        let mut unknown = known.clone();
        unknown.cells[0].durability = None;
        let of = |a: &Side, b: &Side| changes(a, b, &Question::default()).unwrap().changes.remove(0);
        let lost = of(&known, &unknown);
        assert_eq!((lost.promises_less, lost.promise_unknown), (false, true));
        assert_eq!(lost.judged(0.1), Judgement::Unknown, "it may be less");
        for same in [of(&unknown, &unknown), of(&unknown, &known), of(&known, &known)] {
            assert_eq!((same.promises_less, same.promise_unknown), (false, false));
            assert_eq!(same.judged(0.1), Judgement::Fine);
        }
    }

    /// The table showed medians and the sentence compared geometric means: with these runs they
    /// pointed in opposite directions.
    #[test]
    fn the_quotient_is_that_of_the_values_shown() {
        let a = side(&[("wal", [100.0, 100.0, 100.0, 400.0, 400.0])], 2.0);
        let b = side(&[("wal", [110.0, 110.0, 110.0, 110.0, 110.0])], 2.0);
        for quantity in [Quantity::Model, Quantity::Time, Quantity::Rate] {
            let question = Question { quantities: vec![quantity], ..Question::default() };
            let found = changes(&a, &b, &question).unwrap().changes.remove(0);
            let shown = if quantity == Quantity::Rate {
                found.b.mid / found.a.mid
            } else {
                found.a.mid / found.b.mid
            };
            assert!((found.faster.ratio / shown - 1.0).abs() < 1e-12 && shown > 1.0, "{found:?}");
        }
    }

    #[test]
    fn a_count_of_one_run_is_known_and_none_is_a_number_too() {
        let one = |flushes: f64| {
            let mut side = side(&[("wal", STEADY)], flushes);
            let phase = &mut side.cells[0].phase[0];
            phase.flushes.truncate(1);
            side
        };
        let flushes = Question { quantities: vec![Quantity::Flushes], ..Question::default() };
        let judged = |a, b| changes(&one(a), &one(b), &flushes).unwrap().judged(0.04);
        assert_eq!(judged(2.0, 2.0), Judgement::Fine);
        assert_eq!(judged(2.0, 2.1), Judgement::Slower);
        assert_eq!(judged(0.0, 0.0), Judgement::Fine);
        assert_eq!(judged(0.0, 2.0), Judgement::Slower);
        assert_eq!(judged(1.0, 0.0), Judgement::Fine);
    }

    /// What happened: one run with 3 flushes in 100 commits beside one with 4, which a checkpoint's
    /// place or the file system's timer makes, was proven to be slower.
    #[test]
    fn a_count_of_one_run_proves_nothing_where_few_executions_flush() {
        let of = |flushes: &[f64], bytes: f64| {
            let mut side = side(&[("wal", STEADY)], 0.0);
            let phase = &mut side.cells[0].phase[0];
            (phase.flushes, phase.written_bytes) = (flushes.to_vec(), vec![bytes; flushes.len()]);
            side
        };
        let judged = |quantity, a: &Side, b: &Side| {
            let asked = Question { quantities: vec![quantity], ..Question::default() };
            let found = changes(a, b, &asked).unwrap().changes.remove(0);
            (found.judged(0.1), found.faster.proven)
        };
        let (three, four) = (of(&[0.03], 4096.0), of(&[0.04], 8192.0));
        let unknown = (Judgement::Unknown, false);
        for quantity in [Quantity::Flushes, Quantity::Bytes] {
            for (a, b) in [(&three, &four), (&four, &three), (&three, &three)] {
                assert_eq!(judged(quantity, a, b), unknown, "{quantity:?} {a:?} {b:?}");
            }
            let two = [of(&[0.03; 2], 4096.0), of(&[0.04; 2], 8192.0)];
            assert_eq!(judged(quantity, &two[0], &two[1]), unknown, "{quantity:?} of two runs");
            let many = [of(&[0.03; 3], 4096.0), of(&[0.04; 3], 8192.0)];
            assert_eq!(judged(quantity, &many[0], &many[1]), (Judgement::Slower, true), "{quantity:?}");
        }
        // Neither a timer nor a checkpoint makes several flushes of each execution.
        let (all, more) = (of(&[2.0], 4096.0), of(&[2.5], 8192.0));
        assert_eq!(judged(Quantity::Flushes, &four, &all), (Judgement::Slower, true));
        assert_eq!(judged(Quantity::Flushes, &all, &four), (Judgement::Fine, true));
        assert_eq!(judged(Quantity::Flushes, &of(&[1.0], 1.0), &of(&[0.99], 1.0)), (Judgement::Fine, false));
        for quantity in [Quantity::Flushes, Quantity::Bytes] {
            assert_eq!(judged(quantity, &all, &more), (Judgement::Slower, true), "{quantity:?}");
        }
    }

    /// What happened: where some runs flushed and others did not, the quotient went from 0 to
    /// infinity, so that the gate ended with 2 however many runs there were, and asked for more.
    #[test]
    fn counts_of_which_some_are_zero_are_told_by_their_difference() {
        let of = |runs: &[f64]| {
            let mut side = side(&[("wal", STEADY)], 0.0);
            side.cells[0].phase[0].flushes = runs.to_vec();
            side
        };
        let flushes = Question { quantities: vec![Quantity::Flushes], ..Question::default() };
        let told = |a: &[f64], b: &[f64]| changes(&of(a), &of(b), &flushes).unwrap();
        let few = [0.0, 0.01, 0.0, 0.02, 0.01, 0.0, 0.01, 0.02, 0.0, 0.01];
        let many = few.map(|count| count + 0.05);
        assert_eq!(told(&few, &many).judged(0.1), Judgement::Slower);
        assert_eq!(told(&many, &few).judged(0.1), Judgement::Fine);
        assert_eq!(told(&few, &few).judged(4.0), Judgement::Fine);
        assert_eq!(told(&few, &few).judged(0.0), Judgement::Unknown, "they scatter");
        let one = told(&few, &many).changes.remove(0);
        let difference = one.difference.unwrap();
        assert!((difference.mid - 0.05).abs() < 1e-9 && one.faster.proven, "{one:?}");
        assert!((one.b.mid - one.a.mid - difference.mid).abs() < 1e-12 && one.a.coverage == 0.95);
        // One flush by luck, where A has none, proves nothing; one in each run does.
        assert_eq!(told(&[0.0; 5], &[0.0, 0.0, 0.0, 0.0, 0.01]).judged(0.1), Judgement::Unknown);
        assert_eq!(told(&[0.0; 5], &[0.01; 5]).judged(0.1), Judgement::Slower);
        assert_eq!(told(&[0.0; 5], &[0.0; 5]).judged(0.0), Judgement::Fine);
        assert_eq!(told(&[0.01; 5], &[0.0; 5]).judged(0.0), Judgement::Fine);
    }

    /// What happened: a trace that was replayed at its own pace, which counts calls, was several
    /// times as fast as one that was replayed as fast as possible, which counts transactions.
    #[test]
    fn what_counts_another_thing_is_not_compared() {
        let (a, mut b) = (side(&[("wal", STEADY)], 2.0), side(&[("wal", STEADY)], 2.0));
        b.cells[0].phase[0].unit = "call".into();
        let found = changes(&a, &b, &Question::default()).unwrap();
        assert_eq!((found.changes.len(), found.judged(9.0)), (0, Judgement::Unknown));
        let told =
            "wal, update: A counts every transaction and B every call, and one of these is not the other";
        assert_eq!(found.lacking, [told]);
    }

    /// What happened: of what has no quotient the gate said nothing, and let the rest pass.
    #[test]
    fn what_has_no_quotient_does_not_pass() {
        let (a, mut b) = (side(&[("wal", STEADY)], 2.0), side(&[("wal", STEADY)], 2.0));
        b.cells[0].phase[0].model_ns = vec![0.0; 5];
        let found = changes(&a, &b, &Question::default()).unwrap();
        assert_eq!(found.lacking, ["wal, update: the model time is 0 in every run of A or B"]);
        assert_eq!((found.changes.len(), found.judged(9.0)), (2, Judgement::Unknown));
        // Where some had none, those were left out of the quotient without a word.
        b.cells[0].phase[0].model_ns = vec![0.0, 0.0, 1000.0, 1001.0, 999.0];
        let found = changes(&a, &b, &Question::default()).unwrap();
        assert_eq!(found.lacking, ["wal, update: the model time is 0 in some runs of A or B"]);
    }

    /// What happened: of `--set page_size=4KiB,8KiB` and `--set page_size=4096,8192` no cell was in
    /// both.
    #[test]
    fn values_of_an_axis_are_the_same_however_they_are_written() {
        let of = |size: &str, mode: &str| {
            let mut side = side(&[("wal", STEADY), ("delete", STEADY)], 2.0);
            for (cell, size) in side.cells.iter_mut().zip([size, "1024"]) {
                cell.axes = BTreeMap::from([
                    ("engine.page_size".to_owned(), size.to_owned()),
                    ("engine.journal_mode".to_owned(), mode.to_owned()),
                ]);
            }
            side
        };
        let found = changes(&of("4KiB", "wal"), &of("4096", "WAL"), &Question::default()).unwrap();
        assert_eq!((found.changes.len(), found.only_a.len(), found.only_b.len()), (6, 0, 0), "{found:?}");
        // And a gate on one cell, named as one of the files has it, had nothing to compare.
        let (mut a, mut b) = (of("4KiB", "wal"), of("4096", "wal"));
        (a.cells[0].label, b.cells[0].label) = ("wal 4KiB".into(), "wal 4096".into());
        for name in ["wal 4KiB", "wal 4096"] {
            let question = Question { cell: Some(name.into()), ..Question::default() };
            let found = changes(&a, &b, &question).unwrap();
            assert_eq!((found.changes.len(), found.judged(0.1)), (3, Judgement::Fine), "{name}");
        }
        let found = changes(&of("4KiB", "wal"), &of("8192", "wal"), &Question::default()).unwrap();
        assert_eq!((found.changes.len(), found.only_a.len(), found.only_b.len()), (3, 1, 1), "{found:?}");
    }

    /// What happened: of results of two machines and of one of them alone no cell was in both, and
    /// "compare results of the same experiment" was the only word about it.
    #[test]
    fn a_file_of_one_machine_is_compared_with_that_machine_of_a_file_of_several() {
        let on = |machines: &[(&str, f64)]| {
            let mut whole = side(&[], 2.0);
            for (machine, by) in machines {
                let mut cell = side(&[("wal", times(*by))], 2.0).cells.remove(0);
                (cell.label, cell.title) = (format!("wal {machine}"), format!("WAL {machine}"));
                cell.axes.insert("on".into(), (*machine).into());
                whole.cells.push(cell);
            }
            whole.environment =
                machines.iter().map(|(on, _)| (format!("cpu ({on})"), (*on).into())).collect();
            whole
        };
        let both = on(&[("local", 1.0), ("ssh:board", 3.0)]);
        let mut alone = side(&[("wal", times(3.0))], 2.0);
        alone.cells[0].on = "ssh:board".into();
        let model = Question { quantities: vec![Quantity::Model], ..Question::default() };
        let found = changes(&both, &alone, &model).unwrap();
        assert_eq!(found.changes.len(), 1);
        assert_eq!(found.changes[0].faster.ratio, 1.0, "as fast as the board, and not as the other");
        assert_eq!((found.only_a, found.only_b), (vec!["WAL local".to_owned()], vec![]));
        assert_eq!(
            found.cautions,
            [
                "B is of one machine (ssh:board), so of A that one alone is compared",
                "cpu (ssh:board) differs: ssh:board in A, one in B"
            ]
        );
        // The other way around, and with the name that either has for it.
        for name in ["wal", "WAL ssh:board"] {
            let asked = Question { cell: Some(name.into()), ..model.clone() };
            let found = changes(&alone, &both, &asked).unwrap();
            assert_eq!((found.changes.len(), found.judged(0.1)), (1, Judgement::Fine), "{name}");
        }
        // A baseline knows its machine, and says nothing of this one.
        let text = alone.to_baseline().unwrap();
        assert!(text.contains("on = \"ssh:board\""), "{text}");
        assert!(!side(&[("wal", STEADY)], 2.0).to_baseline().unwrap().contains("\non = "));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.toml");
        std::fs::write(&path, text).unwrap();
        let found = changes(&Side::of_baseline(&path).unwrap(), &both, &model).unwrap();
        assert_eq!((found.changes.len(), found.only_b), (1, vec!["WAL local".to_owned()]));
        // Of another machine there is nothing, and that is said.
        alone.cells[0].on = "ssh:other".into();
        let found = changes(&both, &alone, &model).unwrap();
        assert!(found.changes.is_empty());
        let why =
            "A and B have no cell in common: A was measured on local and ssh:board, and B on ssh:other.";
        assert!(found.cautions[0].starts_with(why), "{:?}", found.cautions);
    }

    /// What happened: two of three runs of B failed, the third was as fast as A, and neither the
    /// table nor the page said anything. Later it was told, and the gate passed all the same.
    #[test]
    fn what_failed_in_part_is_told_and_does_not_pass() {
        let (a, mut b) = (side(&[("wal", STEADY)], 2.0), side(&[("wal", STEADY)], 2.0));
        b.cells[0].failed = 2;
        let counts = || Question { quantities: vec![Quantity::Flushes], ..Question::default() };
        let expected = ["\"wal\": runs failed in B (2), and the others alone are compared"];
        for question in [counts(), Question { cell: Some("WAL".into()), ..counts() }] {
            let found = changes(&a, &b, &question).unwrap();
            let of_the_rest = found.changes[0].judged(0.1);
            assert_eq!((of_the_rest, found.judged(0.1)), (Judgement::Fine, Judgement::Unknown));
            assert_eq!(found.lacking, expected);
        }
        // What is proven to be slower stays so, and runs that the baseline lacks are only told.
        b.cells[0].phase[0].flushes = vec![3.0];
        assert_eq!(changes(&a, &b, &counts()).unwrap().judged(0.1), Judgement::Slower);
        let found = changes(&b, &a, &counts()).unwrap();
        assert_eq!((found.judged(0.1), found.lacking.len()), (Judgement::Fine, 0));
        assert_eq!(found.cautions, ["\"wal\": runs failed in A (2), and the others alone are compared"]);
        // Those of a cell that nobody asked about are not.
        b.cells.extend(side(&[("delete", STEADY)], 2.0).cells);
        let other = Question { cell: Some("delete".into()), ..counts() };
        let found = changes(&b, &b, &other).unwrap();
        assert_eq!((found.judged(0.1), found.cautions, found.lacking), (Judgement::Fine, vec![], vec![]));
    }

    /// A baseline of an earlier version has the hash of all of the cell.
    #[test]
    fn other_settings_at_the_same_place_are_told_once_they_are_others() {
        let of = |settings: &str, whole: &str| {
            let mut side = side(&[("wal", STEADY)], 2.0);
            (side.cells[0].settings, side.cells[0].whole) = (settings.into(), whole.into());
            side
        };
        let told = |a: &Side, b: &Side| changes(a, b, &Question::default()).unwrap().cautions.len();
        let now = of("1", "2");
        let same =
            [of("1", "3"), of("2", ""), of("4", "2")].map(|other| told(&now, &other) + told(&other, &now));
        assert_eq!(same, [0, 0, 0]);
        assert_eq!((told(&now, &of("4", "5")), told(&now, &of("4", ""))), (1, 1));
    }

    /// What happened: a trace was known by its path alone, so that results of two traces that had
    /// lain at the same place one after the other were compared without a word.
    #[test]
    fn another_trace_is_told() {
        let of = |hash: Option<&str>| {
            let mut side = side(&[("wal", STEADY)], 2.0);
            side.cells[0].replayed = hash.map(str::to_owned);
            side
        };
        let told = |a, b| changes(&of(a), &of(b), &Question::default()).unwrap().cautions;
        assert_eq!(
            told(Some("1f"), Some("2c")),
            ["\"wal\" is another trace in B than in A: what changed is the work, too"]
        );
        for (a, b) in [(Some("1f"), Some("1f")), (None, Some("1f")), (Some("1f"), None), (None, None)] {
            assert_eq!(told(a, b), Vec::<String>::new(), "{a:?} {b:?}");
        }
        let text = of(Some("1f")).to_baseline().unwrap();
        assert!(text.contains("replayed = \"1f\""), "{text}");
        assert!(!of(None).to_baseline().unwrap().contains("replayed"), "as it was");
    }

    /// What happened: a model's file was changed between two results, flushes from 1 to 9 ms, and B
    /// was 4.5 times slower without a word of it.
    #[test]
    fn another_model_of_the_device_is_told() {
        let of = |hash: Option<&str>| {
            let mut side = side(&[("wal", STEADY)], 2.0);
            side.cells[0].models = hash.map(str::to_owned);
            side
        };
        let told = |a, b| changes(&of(a), &of(b), &Question::default()).unwrap().cautions;
        assert_eq!(
            told(Some("1f"), Some("2c")),
            ["\"wal\" has another model of its device in B than in A: what changed is the device, too"]
        );
        for (a, b) in [(Some("1f"), Some("1f")), (None, Some("1f")), (Some("1f"), None), (None, None)] {
            assert_eq!(told(a, b), Vec::<String>::new(), "{a:?} {b:?}");
        }
        let text = of(Some("1f")).to_baseline().unwrap();
        assert!(text.contains("models = \"1f\""), "{text}");
        assert!(!of(None).to_baseline().unwrap().contains("models"), "as it was");
    }

    /// What happened: of an image that another one had replaced under the same path, larger and
    /// with other features, "1.5x faster" was said, and nothing else.
    #[test]
    fn another_disk_or_image_under_the_same_path_is_told_once() {
        let of = |told: &[(&str, &str)]| {
            let mut side = side(&[("wal", STEADY), ("delete", STEADY)], 2.0);
            for cell in &mut side.cells {
                cell.ran_on = told.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
            }
            side
        };
        let told = |a: &[(&str, &str)], b: &[(&str, &str)]| {
            changes(&of(a), &of(b), &Question::default()).unwrap().cautions
        };
        let (small, large) = (("image size", "8 bytes"), ("image size", "16 bytes"));
        assert_eq!(
            told(&[small, ("image UUID", "1")], &[large, ("image UUID", "2")]),
            ["\"wal\" (and 1 other cell) ran on something else in B than in A (image UUID: 1 in A, 2 in B; \
                 image size: 8 bytes in A, 16 bytes in B): what changed is that, too"]
        );
        assert_eq!(told(&[small], &[small]), Vec::<String>::new());
        assert_eq!(told(&[], &[small]), Vec::<String>::new(), "A is of an earlier version");
        assert_eq!(told(&[small], &[("disk size", "9")]), Vec::<String>::new());
        let text = of(&[small]).to_baseline().unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("b.toml");
        std::fs::write(&path, &text).unwrap();
        let read = Side::of_baseline(&path).unwrap();
        assert_eq!(changes(&read, &of(&[large]), &Question::default()).unwrap().cautions.len(), 1, "{text}");
        assert!(!of(&[]).to_baseline().unwrap().contains("ran_on"), "as it was");
    }

    /// Two results of one board differed in its temperature, and in nothing that is worth a word.
    #[test]
    fn what_is_of_a_moment_is_no_difference_of_machines() {
        let at = |degrees: &str, cpu: &str| {
            let mut side = side(&[("wal", STEADY)], 2.0);
            for key in ["temperature", "temperature_at_end", "battery (ssh:board)"] {
                side.environment.insert(key.into(), degrees.into());
            }
            side.environment.insert("cpu".into(), cpu.into());
            side
        };
        let cautions = |a: &Side, b: &Side| changes(a, b, &Question::default()).unwrap().cautions;
        assert_eq!(cautions(&at("41", "one"), &at("57", "one")), Vec::<String>::new());
        assert_eq!(cautions(&at("41", "one"), &at("41", "two")).len(), 1);
        let text = at("41", "one").to_baseline().unwrap();
        assert!(!text.contains("temperature") && !text.contains("battery"), "{text}");
    }

    /// What happened: `report` had [102,265, 139,548] of runs of which `compare` had [102,264,
    /// 139,549], for it had rounded every run to the six digits of a baseline first.
    #[test]
    fn results_are_compared_with_all_their_digits() {
        let runs = [102_264.74, 139_548.46, 118_231.47, 121_900.51, 109_870.49];
        let a = side(&[("wal", runs)], 2.0);
        let model = Question { quantities: vec![Quantity::Model], ..Question::default() };
        let found = changes(&a, &a, &model).unwrap();
        assert_eq!(found.changes[0].a, mean_interval(&runs).unwrap(), "as a report has it");
        // Beside a baseline both have its digits.
        let beside = changes(&a.rounded(), &a, &model).unwrap();
        assert_eq!(beside.changes[0].a, beside.changes[0].b);
        assert_ne!(beside.changes[0].a, found.changes[0].a);
    }

    #[test]
    fn a_baseline_compares_as_the_results_it_was_made_of() {
        let side = side(&[("wal", times(1.0 / 3.0)), ("delete \"full\"", STEADY)], 2.0);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.toml");
        let text = side.to_baseline().unwrap();
        std::fs::write(&path, &text).unwrap();
        assert!(super::super::is_baseline(&path), "{text}");
        let read = Side::of_baseline(&path).unwrap();
        assert!(!read.environment.contains_key("load"), "{text}");
        let found = changes(&read, &side, &Question::default()).unwrap();
        assert_eq!((found.changes.len(), found.judged(0.01), found.cautions.len()), (6, Judgement::Fine, 0));
        assert_eq!(read.to_baseline().unwrap(), text, "written again it is the same text");
        // 29,737.04 bytes in the results and 29,737 in the text were told as a proven difference.
        let mut counted = side.clone();
        counted.cells.iter_mut().for_each(|cell| cell.phase[0].written_bytes = vec![29_737.04; 5]);
        std::fs::write(&path, counted.to_baseline().unwrap()).unwrap();
        let bytes = Question { quantities: vec![Quantity::Bytes], ..Question::default() };
        let found = changes(&Side::of_baseline(&path).unwrap(), &counted, &bytes).unwrap();
        assert!(
            found.changes.iter().all(|change| !change.faster.proven && change.faster.ratio == 1.0),
            "{found:?}"
        );
        std::fs::write(&path, &text).unwrap();
        for (from, to, words) in [
            ("version = 1", "version = 2", "version 2; this Fathom reads version 1"),
            // "Invalid value: expected u32" and "no baseline of Fathom's" were said of a later one.
            ("version = 1", "version = 99999999999", "version 99999999999; this Fathom reads version 1"),
            ("version = 1", "version = 0", "its version is 0"),
            (
                concat!("fathom = \"", env!("CARGO_PKG_VERSION"), "\""),
                "fathom = \"99.0.0\"\nlater = 1",
                "It was made by Fathom 99.0.0",
            ),
            ("fathom-baseline", "other", "its format is \"other\""),
            ("flushes =", "flashes =", "unknown field `flashes`"),
            ("flushes = [2.0, ", "flushes = [", "flushes has not one number for each run"),
            ("[2.0, ", "[x", "TOML parse error at line"),
            ("model_ns = [333.333, ", "model_ns = [-1.0, ", "model_ns holds -1"),
            ("wall_rate_per_s = [1500000.0, ", "wall_rate_per_s = [nan, ", "holds NaN, which nothing"),
            ("wall_time_ns = [666.667, ", "wall_time_ns = [0.0, ", "the cell \"wal\", phase \"update\""),
        ] {
            assert!(text.contains(from), "{text}");
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = Side::of_baseline(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    /// What happened: each comparison on a machine that tells its temperature warned that it is
    /// another, and a baseline had it, so that a diff of two of them always showed something.
    #[test]
    fn what_differs_in_every_run_is_neither_kept_nor_told() {
        let with = |temperature: &str, throttled: &str| {
            let mut side = side(&[("wal", STEADY)], 2.0);
            for (key, value) in [("temperature (ssh:board)", temperature), ("throttled", throttled)] {
                side.environment.insert(key.into(), value.into());
            }
            side
        };
        let (a, b) = (with("45.2 °C (cpu)", "0x0"), with("47.1 °C (cpu)", "0x50005"));
        assert!(!a.to_baseline().unwrap().contains("temperature"));
        let found = changes(&a, &b, &Question::default()).unwrap();
        assert_eq!(found.cautions, ["throttled differs: 0x0 in A, 0x50005 in B"]);
    }

    /// What happened: a baseline lies in a repository, and a merge or an editor had been at it. It
    /// was called "not a results file", and negative numbers and cells that were there twice were
    /// left out without a word.
    #[test]
    fn what_a_merge_or_an_editor_leaves_of_a_baseline_is_said_of_a_baseline() {
        let text = side(&[("wal", STEADY)], 2.0).to_baseline().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.toml");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            assert!(super::super::is_baseline(&path));
            Side::of_baseline(&path).map_err(|error| error.to_string())
        };
        let cells = read(text.as_bytes()).unwrap().cells;
        for whole in [format!("\u{feff}{text}"), text.replace('\n', "\r\n")] {
            assert_eq!(read(whole.as_bytes()).unwrap().cells, cells);
        }
        let conflict = format!("{text}<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> mine\n");
        let line = text.lines().count() + 1;
        let twice = side(&[("wal", STEADY), ("wal", STEADY)], 2.0).to_baseline().unwrap();
        for (bytes, words) in [
            (conflict.as_bytes(), format!("line {line} is a mark of a merge")),
            (format!("<<<<<<< HEAD\n{text}").as_bytes(), "line 1 is a mark of a merge".into()),
            (twice.as_bytes(), "the cell \"wal\" is there twice".into()),
            (b"".as_slice(), "it is empty".into()),
            (b"\xff\xfe#".as_slice(), "no text in UTF-8".into()),
            (b"[package]\nname = \"x\"\n".as_slice(), "no baseline of Fathom's".into()),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(&words), "{error}");
        }
        std::fs::write(&path, b"SQLite format 3\0").unwrap();
        assert!(!super::super::is_baseline(&path), "results, whatever their name");
        assert!(!super::super::is_baseline(directory.path()), "a directory");
    }
}
