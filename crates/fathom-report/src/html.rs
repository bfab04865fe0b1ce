//! report.html.
//!
//! The page works without its script (text, tables, environment); the script adds charts, filters
//! and downloads.

use std::io::{self, Write};

use fathom_lab::experiment::{FigureKind as Kind, Metric};
use maud::{Markup, html};
use serde_json::json;

use crate::axis::Axis;
use crate::blocks;
use crate::caution::Caution;
use crate::cells;
use crate::checks;
use crate::commits;
use crate::conditions;
use crate::devices;
use crate::document::{ANSWERS, Document};
use crate::figure::{Figure, Mark, value_text};
use crate::legend;
use crate::number;
use crate::page::{Page, cell_name, chip, column, folded, json_block, label, script, sorting};
use crate::palette::{DASHES, PART_COLOURS, PARTS, VALUE_COLOURS};
use crate::power_cut;
use crate::ranking;
use crate::style::tame;
use crate::words::more_comparisons;

const JS: &str = include_str!("page/page.js");
const BLOCKS_JS: &str = include_str!("page/blocks.js");
const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));

/// Reasons to doubt the answer that stand beside it; more are behind a fold.
const REASONS: usize = 2;

/// Writes the page.
pub fn write(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let page = Page {
        title: &document.title,
        version: &document.results.experiment.fathom_version,
        header: header(document),
        main: main(document),
        credits: html! {
            "Charts by Apache ECharts " (env!("FATHOM_ECHARTS_VERSION"))
            " (Apache License 2.0, notice in this file). "
        },
        scripts: html! {
            (json_block("data", &model(document)))
            (script(ECHARTS))
            (script(JS))
            (sorting())
            @if !document.pictures.is_empty() {
                (json_block("blocks", &blocks::data(document)))
                (script(BLOCKS_JS))
            }
        },
    };
    out.write_all(page.html().as_bytes())
}

fn header(document: &Document<'_>) -> Markup {
    let experiment = &document.results.experiment;
    html! {
        p.brand {
            strong { "Fathom" } " "
            span { (label(&experiment.name)) } " "
            span { (number::moment(experiment.started_ms)) }
        }
        h1 { (document.title) }
        // The experiment's own title may speak of its workload where a trace ran instead.
        @if let Some(question) = &document.question {
            p.question { (question) }
        } @else if document.title != experiment.title {
            p.question { (experiment.title) }
        }
    }
}

fn main(document: &Document<'_>) -> Markup {
    html! {
        (answer(document))
        noscript {
            p.no-script { "Without JavaScript the tables below hold every value; charts and filters need it." }
        }
        (filters(document))
        @if !document.figures.is_empty() {
            section aria-labelledby="h-figures" {
                h2 id="h-figures" { "Figures" }
                @for (index, figure) in document.figures.iter().enumerate() {
                    (figure_card(document, figure, index))
                }
            }
        }
        (blocks::section(document))
        (power_cut::page::section(document))
        (devices::section(document))
        (commits::section(document.results))
        (careful(document))
        (cells::section(document))
        (environment(document))
    }
}

/// What the script works on.
fn model(document: &Document<'_>) -> serde_json::Value {
    let colour = |c: &crate::palette::Colour| json!({ "light": c.light, "dark": c.dark });
    json!({
        "name": document.results.experiment.name,
        "axes": document.axes.iter()
            .map(|a| json!({ "key": a.key, "label": a.label, "values": a.values })).collect::<Vec<_>>(),
        "cells": document.results.cells.iter().filter(|c| c.skipped.is_none())
            .map(|c| json!({ "id": c.id, "label": c.label, "axes": c.axes })).collect::<Vec<_>>(),
        "parts": PARTS.iter().zip(&PART_COLOURS)
            .map(|(name, c)| json!({ "name": name, "light": c.light, "dark": c.dark })).collect::<Vec<_>>(),
        "dashes": DASHES,
        "colours": VALUE_COLOURS.iter().map(colour).collect::<Vec<_>>(),
        "figures": document.figures,
    })
}

fn answer(document: &Document<'_>) -> Markup {
    let (answer, rest) = document.findings.split_at(document.findings.len().min(ANSWERS));
    html! {
        section.opening {
            div.answer id="answer" role="region" aria-labelledby="h-answer" {
                h2 id="h-answer" { "The answer" }
                @for finding in answer { p.finding { (finding) } }
                @if answer.is_empty() {
                    p.finding { "No comparison could be made from these runs. The figures show what was measured." }
                }
                @for promise in &document.promises { p.promise { (promise) } }
                @if !rest.is_empty() {
                    (folded(&more_comparisons(rest.len()), &html! {
                        ul { @for finding in rest { li { (finding) } } }
                    }))
                }
                @for assumed in &document.assumed { p.assumed { (assumed) } }
            }
            @if let Some(ranking) = &document.ranking { (ranking::html::figure(ranking)) }
            (basis(document))
        }
    }
}

/// Whether the answer stands, and what it rests on.
fn basis(document: &Document<'_>) -> Markup {
    let grave: Vec<&Caution> = document.cautions.iter().filter(|caution| caution.decides()).collect();
    let (first, more) = grave.split_at(grave.len().min(REASONS));
    html! {
        div.basis {
            @if !grave.is_empty() || !document.findings.is_empty() {
                div.verdict.doubted[!grave.is_empty()] {
                    p { (document.verdict) }
                    (caution_list(first))
                    @if !more.is_empty() {
                        (folded(&format!("{} more", more.len()), &caution_list(more)))
                    }
                }
            }
            p.rests { (document.rests_on) }
        }
    }
}

fn filters(document: &Document<'_>) -> Markup {
    let axes: Vec<&Axis> = document.axes.iter().filter(|axis| axis.values.len() > 1).collect();
    html! {
        @if !axes.is_empty() {
            nav.filters aria-label="Filter all figures and tables" {
                @for axis in axes {
                    fieldset {
                        legend { (label(&axis.label)) }
                        @for (value, shown) in axis.values.iter().zip(&axis.shown) {
                            (chip(&axis.key, value, &label(shown)))
                        }
                    }
                }
                p.status {
                    span id="status" role="status" {}
                    button.tool type="button" id="reset" data-tool="reset" hidden { "Show all" }
                }
            }
        }
    }
}

fn figure_card(document: &Document<'_>, figure: &Figure, index: usize) -> Markup {
    let zoom = match figure.kind {
        Kind::Series => " Ctrl and the wheel zooms all panels, a double click shows all.",
        _ => "",
    };
    let toggle = |tool: &str, text: &str, on: bool| {
        html! {
            button.tool type="button" data-tool=(tool) data-figure=(index) aria-pressed=(on) { (text) }
        }
    };
    html! {
        figure.figure id={ "figure-" (index) } {
            figcaption {
                h3 { (label(&figure.title)) span.id { (label(&figure.id)) } }
                p { (figure.see) }
            }
            (legend::of(figure))
            div.chart id={ "chart-" (index) } role="img" aria-label=(figure.description) {}
            @if !figure.note.is_empty() || !zoom.is_empty() {
                p.note { (figure.note) @if !zoom.is_empty() { span.of-a-wheel { (zoom) } } }
            }
            div.tools {
                @match figure.kind {
                    Kind::Split => { (toggle("share", "As shares", false)) }
                    Kind::Ecdf => {}
                    _ => { (toggle("log", "Logarithmic axis", figure.log_y)) }
                }
                @for (tool, text) in [("svg", "Download SVG"), ("csv", "Download CSV")] {
                    button.tool type="button" data-tool=(tool) data-figure=(index) { (text) }
                }
                details { summary { "Show data" } (data_table(document, figure)) }
            }
        }
    }
}

fn data_table(document: &Document<'_>, figure: &Figure) -> Markup {
    let is_of_lines = matches!(figure.kind, Kind::Series | Kind::Ecdf);
    html! {
        div.scroll.tall role="region" tabindex="0" aria-label={ "Data of " (figure.title) } {
            table {
                @if is_of_lines { (lines_table(document, figure)) } @else { (marks_table(document, figure)) }
            }
        }
    }
}

fn lines_table(document: &Document<'_>, figure: &Figure) -> Markup {
    let run = if figure.kind == Kind::Ecdf { "runs" } else { "run" };
    html! {
        thead {
            tr {
                (column("cell", false))
                @for name in [run, "executions", "median", "p99", "maximum"] { (column(name, true)) }
            }
        }
        tbody {
            @for line in &figure.lines {
                tr data-cell=(line.cell) {
                    th scope="row" { (cell_name(document.results, line.cell)) }
                    td.n { (line.run) }
                    td.n { (number::plain(line.total as f64)) }
                    @for ns in line.percentiles { td.n { (number::time(ns)) } }
                }
            }
        }
    }
}

fn marks_table(document: &Document<'_>, figure: &Figure) -> Markup {
    let has_x = figure.marks.iter().any(|mark| mark.x.is_some());
    html! {
        thead {
            tr {
                (column("cell", false))
                (column("phase", false))
                @if has_x { (column(&figure.abscissa, true)) }
                @for name in [figure.quantity.as_str(), "95 % interval", "runs"] { (column(name, true)) }
                @if figure.kind == Kind::Split { @for part in PARTS { (column(part, true)) } }
            }
        }
        tbody { @for mark in &figure.marks { (mark_row(document, figure, mark, has_x)) } }
    }
}

fn mark_row(document: &Document<'_>, figure: &Figure, mark: &Mark, has_x: bool) -> Markup {
    let interval = match figure.metric {
        _ if mark.runs < 2 => number::ONE_RUN.to_owned(),
        Metric::Rate => number::interval(mark.low, mark.high),
        Metric::Time => number::time_interval(mark.mid, mark.low, mark.high),
        Metric::Bytes => number::bytes_interval(mark.low, mark.high),
    };
    html! {
        tr data-cell=(mark.cell) {
            th scope="row" { (cell_name(document.results, mark.cell)) }
            td { (label(&figure.groups[mark.group])) }
            @if has_x { td.n { @if let Some(x) = mark.x { (number::plain(x)) } } }
            td.n { (value_text(figure.metric, mark.mid)) }
            td.n { (interval) }
            td.n { (mark.runs) }
            @for ns in mark.parts.iter().flatten() { td.n { (number::time(*ns)) } }
        }
    }
}

/// What does not change the answer, behind a fold; what does stands beside the answer already.
fn careful(document: &Document<'_>) -> Markup {
    let (grave, rest): (Vec<&Caution>, Vec<&Caution>) =
        document.cautions.iter().partition(|caution| caution.decides());
    let things = if rest.len() == 1 { "thing" } else { "things" };
    html! {
        section.careful aria-labelledby="h-careful" {
            h2 id="h-careful" { "What to be careful about" }
            p.calm {
                (document.verdict.trim_end_matches(':')) " "
                @if !grave.is_empty() { "(" a href="#answer" { "beside the answer" } ")." }
            }
            @if rest.is_empty() {
                p.calm { "Nothing else was noticed." }
            } @else {
                (folded(&format!("{} {things} to know that do not change it", rest.len()), &caution_list(&rest)))
            }
        }
    }
}

fn caution_list(cautions: &[&Caution]) -> Markup {
    html! {
        ul {
            @for caution in cautions {
                li {
                    @if !caution.about.is_empty() { b { (label(&caution.about)) } " " }
                    (caution.text)
                }
            }
        }
    }
}

fn environment(document: &Document<'_>) -> Markup {
    let results = document.results;
    let experiment = &results.experiment;
    let mut facts = vec![
        ("experiment".to_owned(), format!("{} ({})", experiment.name, experiment.source_name)),
        ("seed".into(), experiment.seed.to_string()),
        ("repeats".into(), experiment.repeats.to_string()),
        ("started".into(), number::moment(experiment.started_ms)),
    ];
    facts.extend(experiment.finished_ms.map(|moment| ("finished".into(), number::moment(moment))));
    facts.push(("Fathom".into(), experiment.fathom_version.clone()));
    facts.extend(results.environment.iter().map(|(key, value)| (key.replace('_', " "), value.clone())));
    facts.extend(checks::told(results).map(|checks| ("verified in every run".to_owned(), checks)));
    html! {
        section aria-labelledby="h-environment" {
            h2 id="h-environment" { "Environment, and how to repeat it" }
            // It is copied into a shell: a line break in it would be an Enter.
            pre.command id="command" { (tame(&experiment.command)) }
            button.tool.copy type="button" data-tool="copy" { "Copy" }
            dl.facts {
                @for (key, value) in &facts { dt { (label(key)) } dd { (label(value)) } }
            }
            (conditions::table(results))
            details.more { summary { "The experiment file" } pre.command { (experiment.source) } }
        }
    }
}
