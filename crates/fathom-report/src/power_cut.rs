//! What a power cut leaves, in the report: what was measured stands where otherwise the promise of the documentation does, and where
//! the two disagree, that is the headline.

use std::io::{self, Write};

use fathom_cut::{Class, Outcome, Verdict};
use fathom_lab::analysis::spelled;
use fathom_lab::store::{CellRow, CutFinding, Results};
use serde_json::{Value, json};

use crate::document::{Document, distinct, joined, promise};
use crate::html::{cell_name, escape};
use crate::number;
use crate::palette::{Colour, PROMISE_COLOURS};
use crate::style::{Style, tame};

/// A class's colour in the strip: the greens of what is kept, warm colours for what is lost or broken.
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
        let found = results.cut(cell.id).filter(|cut| cut.outcome.breaks_promise)?;
        let tally = &found.outcome.tally;
        let (state, _) = tally.worst.as_ref()?;
        Some(format!(
            "{}: a power cut takes more than its settings promise ({}): {} in {} of {} states on {}, first in state {state}.",
            spelled(cell, &cell.label),
            promise(Some(found.promise)),
            worst(&found.outcome),
            number::plain(tally.not_kept() as f64),
            number::plain(tally.states as f64),
            found.filesystem,
        ))
    });
    broken.collect()
}

/// What must be known to read the measured words: on what, and how many of all states; and why some cells have none.
fn notes(results: &Results) -> Vec<String> {
    let found: Vec<&CutFinding> = results.cells.iter().filter_map(|cell| results.cut(cell.id)).collect();
    let mut notes = Vec::new();
    if !found.is_empty() {
        let filesystems = distinct(found.iter().map(|cut| cut.filesystem.clone()));
        let devices = distinct(found.iter().map(|cut| cut.device.clone()));
        let sampled = found.iter().any(|cut| cut.outcome.tally.states < cut.outcome.states_possible as u64);
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
pub fn section(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let results = document.results;
    if results.cuts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-power-cut\"><h2 id=\"h-power-cut\">What a power cut leaves</h2>"
    )?;
    for note in notes(results) {
        writeln!(out, "<p class=\"note\">{}</p>", escape(&note))?;
    }
    let found: Vec<(&CellRow, &CutFinding)> =
        results.cells.iter().filter_map(|cell| Some((cell, results.cut(cell.id)?))).collect();
    if found.is_empty() {
        return writeln!(out, "</section>");
    }
    writeln!(
        out,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Power cuts\"><table id=\"power-cuts\" class=\"sortable\"><thead><tr>"
    )?;
    for (head, class) in [
        ("cell", ""),
        ("promised", ""),
        ("measured worst", ""),
        ("states", " class=\"n\""),
        ("not kept", " class=\"n\""),
        ("along the run", ""),
    ] {
        write!(out, "<th scope=\"col\"{class}>{head}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for (cell, finding) in &found {
        let tally = &finding.outcome.tally;
        let broken = if finding.outcome.breaks_promise { " <b>(!)</b>" } else { "" };
        writeln!(
            out,
            "<tr data-cell=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td>{}{broken}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            cell.id,
            cell_name(cell),
            promise(Some(finding.promise)),
            escape(&worst(&finding.outcome)),
            number::plain(tally.states as f64),
            number::plain(tally.not_kept() as f64),
            strip(&finding.outcome),
        )?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let classes: Vec<Class> = Class::ALL
        .into_iter()
        .filter(|class| found.iter().any(|(_, cut)| cut.outcome.tally.classes.contains_key(class)))
        .collect();
    write!(out, "<ul class=\"legend\">")?;
    for class in classes {
        write!(out, "<li>{}{}</li>", crate::html::swatch(colour(class)), class.name())?;
    }
    writeln!(out, "</ul>")?;
    for (cell, finding) in found {
        let Some(why) = &finding.outcome.explanation else { continue };
        let state = finding.outcome.tally.worst.as_ref().map_or(0, |worst| worst.0);
        writeln!(
            out,
            "<details class=\"more\"{}><summary>{}, state {state}: {}</summary><ul>",
            if finding.outcome.breaks_promise { " open" } else { "" },
            cell_name(cell),
            escape(&why.verdict.to_string())
        )?;
        for line in &why.lines {
            writeln!(out, "<li>{}</li>", escape(line))?;
        }
        writeln!(out, "</ul></details>")?;
    }
    writeln!(out, "</section>")
}

/// Height and width of a strip, in its own units.
const STRIP: (usize, usize) = (18, 240);

/// The run from its begin to its end: of each part a bar of its states' classes, the worst on top.
fn strip(outcome: &Outcome) -> String {
    let along = &outcome.tally.along;
    if along.is_empty() {
        return String::new();
    }
    let width = STRIP.1 as f64 / along.len() as f64;
    let mut bars = String::new();
    for (number, part) in along.iter().enumerate() {
        let all: u64 = part.values().sum();
        let mut bottom = STRIP.0 as f64;
        for (class, states) in part {
            let height = STRIP.0 as f64 * *states as f64 / all.max(1) as f64;
            // One lost state of a hundred must be seen.
            let height = if *class == Class::Kept { height } else { height.max(2.0) };
            let top = (bottom - height).max(0.0);
            let colour = colour(*class);
            bars += &format!(
                "<rect class=\"cut\" x=\"{:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{:.1}\" style=\"--c:{};--d:{}\"/>",
                number as f64 * width,
                width + 0.05,
                bottom - top,
                colour.light,
                colour.dark
            );
            bottom = top;
        }
    }
    let said: Vec<String> =
        outcome.tally.classes.iter().map(|(class, states)| format!("{} {states}", class.name())).collect();
    format!(
        "<svg class=\"cut-strip\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{}\">{bars}</svg>",
        STRIP.1,
        STRIP.0,
        STRIP.1,
        STRIP.0,
        said.join(", ")
    )
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
