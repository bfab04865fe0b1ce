//! What a power cut leaves, in the report: what was measured stands where otherwise the promise of
//! the documentation does, and where the two disagree, that is the headline.

use fathom_cut::{Class, Outcome, Verdict};
use fathom_lab::store::{CellRow, CutFinding, Results};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::document::{Document, distinct, joined, promise};
use crate::html::cell_name;
use crate::number;
use crate::page::{colours, column, scrolled, swatch};
use crate::palette::{Colour, PROMISE_COLOURS};
use crate::style::{Style, tame};

/// A class's colour in the strip: the greens of what is kept, warm colours for what is lost or
/// broken.
fn colour(class: Class) -> &'static Colour {
    match class {
        Class::Kept => &PROMISE_COLOURS[1],
        Class::LostLast | Class::LostSeveral => &PROMISE_COLOURS[2],
        Class::NeedsRepair | Class::Corrupt => &PROMISE_COLOURS[3],
        Class::CannotBeOpened | Class::CannotBeMounted => &PROMISE_COLOURS[4],
    }
}

/// The worst, in the words of tables: `kept`, `last 7 commits lost`, `corrupt`.
fn worst(outcome: &Outcome) -> String {
    match &outcome.tally.worst {
        None => "nothing tried".into(),
        Some((_, verdict @ (Verdict::Kept | Verdict::Lost(_)))) => verdict.to_string(),
        Some((_, verdict)) => verdict.class().name().to_owned(),
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

/// What a power cut keeps of a cell: measured, or by documentation.
pub fn kept(results: &Results, cell: Option<&CellRow>) -> String {
    let found = cell.and_then(|cell| measured(results, cell.id));
    found.unwrap_or_else(|| promise(cell.and_then(|cell| cell.durability)).to_owned())
}

/// The cells whose promise a power cut broke, each in a sentence.
pub fn headlines(results: &Results) -> Vec<String> {
    let broken = results.cells.iter().filter_map(|cell| {
        let found = results.cut(cell.id).filter(|finding| finding.outcome.breaks_promise)?;
        let tally = &found.outcome.tally;
        let (state, _) = tally.worst.as_ref()?;
        Some(format!(
            "{}: a power cut takes more than its settings promise ({}): {} in {} of {} states on {}, first in state {state}.",
            cell.title,
            promise(Some(found.promise)),
            worst(&found.outcome),
            number::plain(tally.not_kept() as f64),
            number::plain(tally.states as f64),
            found.filesystem,
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
        let sampled =
            found.iter().any(|finding| finding.outcome.tally.states < finding.outcome.states_possible as u64);
        notes.push(format!(
            "At a power cut, measured: the worst of so many states in which a device that {} could have been left, on {}, each mounted \
             and recovered by SQLite.{}",
            joined(&devices),
            joined(&filesystems),
            if sampled { " Not all states were judged: what shows nothing lost has lost nothing in those that were." } else { "" }
        ));
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

/// What stands below the terminal's tables.
pub fn terminal(document: &Document<'_>, style: &Style) -> String {
    let mut out = String::new();
    for note in notes(document.results) {
        out += &style.paragraph("  ", &tame(&note));
    }
    out
}

/// The section of the page; nothing where no power cut was tried.
pub fn section(document: &Document<'_>) -> Markup {
    let results = document.results;
    let found: Vec<(&CellRow, &CutFinding)> =
        results.cells.iter().filter_map(|cell| Some((cell, results.cut(cell.id)?))).collect();
    let classes: Vec<Class> = Class::ALL
        .into_iter()
        .filter(|class| found.iter().any(|(_, finding)| finding.outcome.tally.classes.contains_key(class)))
        .collect();
    html! {
        @if !results.cuts.is_empty() {
            section aria-labelledby="h-power-cut" {
                h2 id="h-power-cut" { "What a power cut leaves" }
                @for note in notes(results) { p.note { (note) } }
                @if !found.is_empty() {
                    (scrolled("Power cuts", &table(document, &found)))
                    ul.legend {
                        @for class in classes { li { (swatch(colour(class))) (class.name()) } }
                    }
                    @for (cell, finding) in &found { (explanation(document, cell, finding)) }
                }
            }
        }
    }
}

fn table(document: &Document<'_>, found: &[(&CellRow, &CutFinding)]) -> Markup {
    html! {
        table.sortable id="power-cuts" {
            thead {
                tr {
                    @for name in ["cell", "promised", "measured worst"] { (column(name, false)) }
                    @for name in ["states", "not kept"] { (column(name, true)) }
                    (column("along the run", false))
                }
            }
            tbody {
                @for (cell, finding) in found {
                    @let tally = &finding.outcome.tally;
                    tr data-cell=(cell.id) {
                        th scope="row" { (cell_name(document, cell.id)) }
                        td { (promise(Some(finding.promise))) }
                        td {
                            (worst(&finding.outcome))
                            @if finding.outcome.breaks_promise { " " b { "(!)" } }
                        }
                        td.n data-v=(tally.states) { (number::plain(tally.states as f64)) }
                        td.n data-v=(tally.not_kept()) { (number::plain(tally.not_kept() as f64)) }
                        td { (strip(&finding.outcome)) }
                    }
                }
            }
        }
    }
}

/// The fewest blocks whose absence makes the worst of a cell, behind a fold.
fn explanation(document: &Document<'_>, cell: &CellRow, finding: &CutFinding) -> Markup {
    let state = finding.outcome.tally.worst.as_ref().map_or(0, |worst| worst.0);
    html! {
        @if let Some(why) = &finding.outcome.explanation {
            details.more open[finding.outcome.breaks_promise] {
                summary { (cell_name(document, cell.id)) ", state " (state) ": " (why.verdict) }
                ul { @for line in &why.lines { li { (line) } } }
            }
        }
    }
}

/// Height and width of a strip, in its own units.
const STRIP: (usize, usize) = (18, 240);

/// The run from its begin to its end: of each part a bar of its states' classes, the worst on top.
fn strip(outcome: &Outcome) -> Markup {
    let along = &outcome.tally.along;
    let width = STRIP.1 as f64 / along.len().max(1) as f64;
    let mut bars = Vec::new();
    for (number, part) in along.iter().enumerate() {
        let all: u64 = part.values().sum();
        let mut bottom = STRIP.0 as f64;
        for (class, states) in part {
            let height = STRIP.0 as f64 * *states as f64 / all.max(1) as f64;
            // One lost state of a hundred must be seen.
            let height = if *class == Class::Kept { height } else { height.max(2.0) };
            let top = (bottom - height).max(0.0);
            bars.push((number as f64 * width, top, bottom - top, colour(*class)));
            bottom = top;
        }
    }
    let classes = outcome.tally.classes.iter();
    let told: Vec<String> = classes.map(|(class, states)| format!("{} {states}", class.name())).collect();
    html! {
        @if !along.is_empty() {
            svg.cut-strip viewBox={ "0 0 " (STRIP.1) " " (STRIP.0) } width=(STRIP.1) height=(STRIP.0)
                role="img" aria-label=(told.join(", ")) {
                @for (x, y, height, colour) in bars {
                    rect.cut x=(format!("{x:.2}")) y=(format!("{y:.1}")) width=(format!("{:.2}", width + 0.05))
                        height=(format!("{height:.1}")) style=(colours(colour)) {}
                }
            }
        }
    }
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
