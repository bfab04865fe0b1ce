//! What a power cut leaves, in the report: what was measured stands where otherwise the promise of
//! the documentation does, and where the two disagree, that is the headline.

pub mod page;

use fathom_cut::{Class, Outcome, Verdict, allowed};
use fathom_lab::advise::{kept_on, losing_filesystem};
use fathom_lab::store::{CellRow, CutFinding, Results};
use serde_json::{Value, json};

use crate::cuts::unsynced;
use crate::number;
use crate::words::{but, distinct, durability_text, joined};

/// The worst, in the words of tables: `kept`, `last 7 commits lost`, `corrupt`.
pub fn worst(outcome: &Outcome) -> String {
    match &outcome.tally.worst {
        None => "nothing tried".into(),
        Some((_, verdict @ (Verdict::Kept | Verdict::Lost(_)))) => verdict.to_string(),
        Some((_, verdict)) => verdict.class().name().to_owned(),
    }
}

/// What became of the states that were judged: `kept in all 4 states`, `kept in 324 of 36,967
/// states`, `kept in 354 chosen states` where more than those have a number, or how many of which
/// were not.
pub fn judged(outcome: &Outcome) -> String {
    let tally = &outcome.tally;
    let states = number::plain(tally.states as f64);
    let is_all = outcome.judged_all();
    let are_chosen = tally.states >= outcome.states_possible as u64;
    let possible = number::plain(outcome.states_possible as f64);
    let bad: Vec<String> = tally
        .classes
        .iter()
        .filter(|(class, _)| **class != Class::Kept)
        .map(|(class, count)| format!("{} {}", number::plain(*count as f64), class.name()))
        .collect();
    let not_kept = number::plain(tally.not_kept() as f64);
    match (bad.is_empty(), is_all) {
        (true, true) => format!("{} in all {states} states", worst(outcome)),
        (true, false) if are_chosen => format!("{} in {states} chosen states", worst(outcome)),
        (true, false) => format!("{} in {states} of {possible} states", worst(outcome)),
        (false, true) => format!("not kept in {not_kept} of {states}: {}", bad.join(", ")),
        (false, false) if are_chosen => {
            format!("not kept in {not_kept} of {states} chosen: {}", bad.join(", "))
        }
        (false, false) => format!("not kept in {not_kept} of {states} (of {possible}): {}", bad.join(", ")),
    }
}

/// `measured: kept (250)`; none where nothing was measured.
pub fn measured(results: &Results, cell: i64) -> Option<String> {
    let outcome = &results.cut(cell)?.outcome;
    if outcome.tally.states == 0 {
        return None;
    }
    let broken = if outcome.breaks_promise { " (!)" } else { "" };
    Some(format!("measured: {}{broken} ({})", worst(outcome), outcome.tally.states))
}

/// Stands behind a promise that is known not to be kept on the cell's file system.
const MARK: &str = " (?)";

/// The file system on which a cell's promise is known not to be kept, where no measurement stands
/// in its place.
fn doubted<'a>(results: &'a Results, cell: &'a CellRow) -> Option<&'a str> {
    losing_filesystem(results, cell).filter(|_| measured(results, cell.id).is_none())
}

/// What stands behind a cell's promise: ` (?)` where it is known not to be kept, else nothing.
pub fn mark(results: &Results, cell: &CellRow) -> &'static str {
    if doubted(results, cell).is_some() { MARK } else { "" }
}

/// What is known where a promise is marked, for each of the file systems.
pub fn known_losses(results: &Results) -> Vec<String> {
    let doubted = results.cells.iter().filter_map(|cell| doubted(results, cell));
    let told = |name: &String| {
        format!(
            "(?): on {name} explored power cuts left databases that cannot be opened, or a file system that cannot be mounted, with \
             every journal mode{}, whatever the settings promise (docs/power-cut.md).",
            but(kept_on(name).unwrap_or_default())
        )
    };
    distinct(doubted.map(str::to_owned)).iter().map(told).collect()
}

/// What a power cut keeps of a cell: measured, or by documentation.
pub fn kept(results: &Results, cell: Option<&CellRow>) -> String {
    let found = cell.and_then(|cell| measured(results, cell.id));
    let promise = || {
        let mark = cell.map_or("", |cell| mark(results, cell));
        durability_text(cell.and_then(|cell| cell.durability)).to_owned() + mark
    };
    found.unwrap_or_else(promise)
}

/// The cells whose promise a power cut broke, each in a sentence.
pub fn headlines(results: &Results) -> Vec<String> {
    let broken = results.cells.iter().filter_map(|cell| {
        let found = results.cut(cell.id).filter(|finding| finding.outcome.breaks_promise)?;
        let tally = &found.outcome.tally;
        let (state, _) = tally.worst.as_ref()?;
        Some(format!(
            "{}: a power cut takes more than its settings promise ({}): {} of {} states on {} break it, the worst: {} (state {state}).",
            cell.title,
            durability_text(Some(found.promise)),
            number::plain(tally.worse_than(allowed(found.promise)) as f64),
            number::plain(tally.states as f64),
            found.filesystem,
            worst(&found.outcome),
        ))
    });
    broken.collect()
}

/// What must be known to read the measured words: on what, and how many of all states; and why some
/// cells have none.
fn notes(results: &Results) -> Vec<String> {
    let found: Vec<&CutFinding> = results.cells.iter().filter_map(|cell| results.cut(cell.id)).collect();
    let mut notes = Vec::new();
    if !found.is_empty() {
        let filesystems = distinct(found.iter().map(|finding| finding.filesystem.clone()));
        let devices = distinct(found.iter().map(|finding| finding.device.clone()));
        let sampled = found.iter().any(|finding| !finding.outcome.judged_all());
        notes.push(format!(
            "At a power cut, measured: the worst of so many states in which a device that {} could have been left, on {}, each mounted \
             and recovered by SQLite.{}",
            joined(&devices),
            joined(&filesystems),
            if sampled { " Not all states were judged: what shows nothing lost has lost nothing in those that were." } else { "" }
        ));
        notes.extend(unsynced(found.iter().map(|finding| finding.promise)).map(str::to_owned));
    }
    let reasons = distinct(results.cuts.iter().filter_map(|cut| cut.finding.as_ref().err().cloned()));
    let without = results.cuts.iter().filter(|cut| cut.finding.is_err()).count();
    if without > 0 {
        notes.push(format!(
            "What a power cut keeps is documented, not measured, {}: {}.",
            if found.is_empty() {
                "here".to_owned()
            } else {
                format!("for {without} {}", if without == 1 { "cell" } else { "cells" })
            },
            reasons.join("; ")
        ));
    }
    notes
}

/// The CSV's columns; empty where nothing was measured.
pub const COLUMNS: [&str; 4] =
    ["power_cut_worst", "power_cut_states", "power_cut_not_kept", "power_cut_breaks_promise"];

/// What stands in them.
pub fn fields(results: &Results, cell: i64) -> [String; 4] {
    let Some(found) = results.cut(cell) else { return Default::default() };
    let tally = &found.outcome.tally;
    let class = tally.worst.as_ref().and_then(|worst| serde_json::to_value(worst.1.class()).ok());
    [
        class.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
        tally.states.to_string(),
        tally.not_kept().to_string(),
        u8::from(found.outcome.breaks_promise).to_string(),
    ]
}

/// For the JSON: what was found, or why nothing could be tried; null where nobody asked.
pub fn json(results: &Results, cell: i64) -> Value {
    match results.cuts.iter().find(|cut| cut.cell == cell).map(|cut| &cut.finding) {
        None => Value::Null,
        Some(Ok(found)) => json!(found),
        Some(Err(problem)) => json!({ "problem": problem }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of 324 states that were judged of 36,967 it was said "kept in all 324
    /// states".
    #[test]
    fn what_was_judged_is_not_taken_for_all_that_there_is() {
        let of_some = |verdicts: &[Verdict], states_possible, states_are_all| {
            let mut tally = fathom_cut::Tally::default();
            for (number, verdict) in verdicts.iter().enumerate() {
                tally.add(number, verdict.clone());
            }
            judged(&Outcome {
                acknowledged: 1,
                moments: 1,
                in_flight_max: 1,
                exhaustive: 1,
                states_possible,
                states_are_all,
                tally,
                mounted: 1,
                wall_ns: 1,
                explanation: None,
                breaks_promise: false,
                interrupted: false,
            })
        };
        let of = |verdicts: &[Verdict], possible| of_some(verdicts, possible, Some(true));
        let (kept, lost) = (Verdict::Kept, Verdict::Lost(1));
        // What happened: of 128 blocks in flight 354 states have numbers, and "all 354" was said.
        for chosen in [None, Some(false)] {
            let told = |verdicts: &[Verdict]| of_some(verdicts, 2, chosen);
            assert_eq!(told(&[kept.clone(), kept.clone()]), "kept in 2 chosen states");
            assert_eq!(told(&[kept.clone(), lost.clone()]), "not kept in 1 of 2 chosen: 1 last commit lost");
        }
        assert_eq!(of(&[kept.clone(), kept.clone()], 2), "kept in all 2 states");
        assert_eq!(of(&[kept.clone(), kept.clone()], 36_967), "kept in 2 of 36,967 states");
        assert_eq!(of(&[kept.clone(), lost.clone()], 2), "not kept in 1 of 2: 1 last commit lost");
        assert_eq!(of(&[kept, lost], 9), "not kept in 1 of 2 (of 9): 1 last commit lost");
    }
}
