//! The section of the page on power cuts, and what the terminal says of them.

use fathom_cut::{Class, Outcome};
use fathom_lab::store::{CellRow, CutFinding};
use maud::{Markup, html};

use super::{known_losses, notes, worst};
use crate::document::Document;
use crate::number;
use crate::page::{cell_name, colours, column, scrolled, swatch};
use crate::palette::{Colour, PROMISE_COLOURS};
use crate::style::{Style, tame};
use crate::words::durability_text;

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

/// What stands below the terminal's tables.
pub fn terminal(document: &Document<'_>, style: &Style) -> String {
    let mut out = String::new();
    for note in notes(document.results).into_iter().chain(known_losses(document.results)) {
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
                        th scope="row" { (cell_name(document.results, cell.id)) }
                        td { (durability_text(Some(finding.promise))) }
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
                summary { (cell_name(document.results, cell.id)) ", state " (state) ": " (why.verdict) }
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
