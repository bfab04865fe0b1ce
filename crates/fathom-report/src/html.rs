//! report.html.
//!
//! The page works without its script (text, tables, environment); the script adds charts, filters
//! and downloads.

use std::io::{self, Write};

use fathom_lab::analysis::{Clock, Measure};
use fathom_lab::experiment::{FigureKind as Kind, Metric};
use fathom_lab::naming::abscissa_name;
use maud::{Markup, html};
use serde_json::json;

use crate::axis::Axis;
use crate::blocks;
use crate::caution::Caution;
use crate::commits;
use crate::devices;
use crate::document::Document;
use crate::figure::{Figure, Mark, shown_parts_ns, value_text};
use crate::number;
use crate::page::{
    Page, cell_name, colours, column, folded, json_block, label, script, scrolled, sorting, swatch,
};
use crate::palette::{FSYNC, PART_COLOURS, PARTS, VALUE_COLOURS};
use crate::power_cut;
use crate::ranking;
use crate::words::more_comparisons;

const JS: &str = include_str!("page/page.js");
const BLOCKS_JS: &str = include_str!("page/blocks.js");
const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));

/// Reasons to doubt the answer that stand beside it; more are behind a fold.
const REASONS: usize = 2;

/// Findings that are the answer; more are behind a fold.
const FINDINGS: usize = 3;

/// Checks that are named.
const CHECKS: usize = 8;

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
        (cells(document))
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
        "colours": VALUE_COLOURS.iter().map(colour).collect::<Vec<_>>(),
        "figures": document.figures,
    })
}

fn answer(document: &Document<'_>) -> Markup {
    let (answer, rest) = document.findings.split_at(document.findings.len().min(FINDINGS));
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

fn chip(axis: &str, value: &str, inside: &Markup) -> Markup {
    html! {
        button.chip type="button" aria-pressed="false" data-axis=(axis) data-value=(value) { (inside) }
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
            (legend(figure))
            div.chart id={ "chart-" (index) } role="img" aria-label=(figure.description) {}
            @if !figure.note.is_empty() || !zoom.is_empty() {
                p.note { (figure.note) (zoom) }
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

fn legend(figure: &Figure) -> Markup {
    let drawn = figure.series.iter().enumerate().filter(|(index, _)| is_drawn(figure, *index));
    html! {
        ul.legend {
            @if figure.kind == Kind::Split {
                @for (name, colour) in PARTS.iter().zip(&PART_COLOURS) {
                    li { (swatch(colour)) (name) }
                }
            } @else {
                @for (_, series) in drawn {
                    @let inside = html! { (swatch(&VALUE_COLOURS[series.colour])) (label(&series.name)) };
                    li {
                        @if let (Some(axis), Some(value)) = (&figure.by, &series.value) {
                            (chip(axis, value, &inside))
                        } @else {
                            (inside)
                        }
                    }
                }
            }
        }
    }
}

/// Whether a figure has anything of this series.
fn is_drawn(figure: &Figure, series: usize) -> bool {
    figure.marks.iter().any(|m| m.series == series) || figure.lines.iter().any(|l| l.series == series)
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

/// Whether any number of the page is model time.
fn has_model(document: &Document<'_>) -> bool {
    document.analysis.measures.iter().any(|measure| measure.clock == Clock::Model)
}

const CELLS_NOTE: &str = "Geometric means over the runs with their 95 % intervals. Percentiles are of single \
    executions, median over the runs. ";

const MODEL_NOTE: &str = "Where a device was modelled, rates and percentiles are of model time: the run's own CPU and \
    other time and the device's time by its model, without what this machine held the run up (waiting for a \
    processor, answers that came late). ";

fn cells(document: &Document<'_>) -> Markup {
    html! {
        section aria-labelledby="h-cells" {
            h2 id="h-cells" { "Every cell" }
            p.note {
                (CELLS_NOTE)
                @if has_model(document) { (MODEL_NOTE) }
                "The bar is the time of one execution as measured: "
                @for (place, (name, colour)) in PARTS.iter().zip(&PART_COLOURS).enumerate() {
                    @if place > 0 { ", " }
                    (swatch(colour)) " " (name)
                }
                "."
            }
            (scrolled("Every cell", &measures_table(document)))
            details.more {
                summary { "Settings of every cell, as read back from the engine" }
                (scrolled("Settings", &settings_table(document)))
            }
        }
    }
}

fn measures_table(document: &Document<'_>) -> Markup {
    let measures = &document.analysis.measures;
    let has_x = measures.iter().any(|measure| measure.x.is_some());
    // A column of zeros says nothing; one that was not measured is never left out.
    let has_waits = measures.iter().any(|measure| measure.lock_waits != Some(0));
    let abscissa = measures
        .iter()
        .filter(|measure| measure.x.is_some())
        .find_map(|measure| document.results.cell(measure.cell))
        .map_or("size", abscissa_name);
    let rates: &[&str] =
        if has_model(document) { &["per second, model time", "wall time"] } else { &["per second"] };
    html! {
        table.sortable id="cells" {
            thead {
                tr {
                    (column("cell", false))
                    (column("phase", false))
                    @if has_x { (column(abscissa, true)) }
                    @for name in rates.iter().chain(&["p50", "p90", "p99", "p99.9", "max"]) {
                        (column(name, true))
                    }
                    (column("where the time goes", false))
                    @for name in ["fsync", "syncs", "written"] { (column(name, true)) }
                    @if has_waits { (column("lock waits", true)) }
                    (column("kept at", false))
                }
            }
            tbody {
                @for measure in measures { (measure_row(document, measure, has_x, has_waits)) }
            }
        }
    }
}

fn measure_row(document: &Document<'_>, measure: &Measure, has_x: bool, has_waits: bool) -> Markup {
    let is_late = document.is_late(measure.cell);
    let (rate, wall_rate) = (&measure.rate, &measure.wall_rate);
    let parts = shown_parts_ns(measure, measure.clock);
    let total: f64 = parts.iter().sum();
    let share = |ns: f64| if total > 0.0 { ns / total } else { 0.0 };
    let fsync = share(parts[FSYNC]);
    let syncs = measure.each_ns(|split| split.sync_calls);
    let written = measure.each_ns(|split| split.write_bytes);
    let waits = match measure.lock_waits.zip(measure.lock_wait_ns) {
        None => "not measured".to_owned(),
        Some((0, _)) => "0".to_owned(),
        Some((waits, ns)) => {
            format!("{} of {}", number::plain(waits as f64), number::time(ns as f64 / waits as f64))
        }
    };
    html! {
        tr data-cell=(measure.cell) {
            th scope="row" { (cell_name(document.results, measure.cell)) }
            td { (label(&measure.phase)) }
            @if has_x { td.n data-v=[measure.x] { @if let Some(x) = measure.x { (number::plain(x)) } } }
            td.n data-v=(rate.mid) {
                (number::plain(rate.mid))
                @if is_late && measure.clock == Clock::Wall { (devices::mark()) }
                span.iv { (number::interval_of(rate)) }
            }
            @if has_model(document) {
                td.n data-v=(wall_rate.mid) {
                    (number::plain(wall_rate.mid))
                    @if is_late { (devices::mark()) }
                    span.iv { (number::interval_of(wall_rate)) }
                }
            }
            @for ns in &measure.model_latency_ns.unwrap_or(measure.latency_ns)[1..] {
                td.n data-v=(ns) { (number::time(*ns)) }
            }
            td data-v=(total) {
                span.split aria-hidden="true" {
                    @for (ns, colour) in parts.iter().zip(&PART_COLOURS) {
                        i style={ (format!("width:{:.1}%;", share(*ns) * 100.0)) (colours(colour)) } {}
                    }
                }
            }
            td.n data-v=(fsync) { (number::percent(fsync)) }
            td.n data-v=(syncs) { (number::plain((syncs * 100.0).round() / 100.0)) }
            td.n data-v=(written) { (number::bytes(written.round())) }
            @if has_waits { td.n { (waits) } }
            td { (power_cut::kept(document.results, document.results.cell(measure.cell))) }
        }
    }
}

fn settings_table(document: &Document<'_>) -> Markup {
    let heads = ["engine", "settings", "workload", "file system", "mount", "device"];
    html! {
        table {
            thead {
                tr {
                    (column("cell", false))
                    (column("runs", true))
                    @for name in heads { (column(name, false)) }
                }
            }
            tbody {
                @for cell in &document.results.cells {
                    @if let Some(run) = document.results.good_runs(cell.id).next() {
                        @let device = match run.stack.guest.as_str() {
                            "" => run.stack.device.clone(),
                            guest => format!("{}, in a guest: {guest}", run.stack.device),
                        };
                        tr data-cell=(cell.id) {
                            th scope="row" { (label(&cell.title)) }
                            td.n { (document.results.good_runs(cell.id).count()) }
                            td { @if let Some(engine) = &run.engine { (engine.name) " " (engine.version) } }
                            td { (pairs(run.engine.iter().flat_map(|engine| &engine.settings))) }
                            td {
                                (label(&cell.spec.workload.name)) " "
                                (pairs(run.parameters.iter().map(|(key, value)| {
                                    (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                                })))
                            }
                            td { (label(&run.stack.filesystem)) }
                            td { (label(&run.stack.mount)) }
                            td { (label(&device)) }
                        }
                    }
                }
            }
        }
    }
}

/// `journal_mode=wal, page_size=4096`.
fn pairs<K: std::fmt::Display, V: std::fmt::Display>(pairs: impl Iterator<Item = (K, V)>) -> String {
    pairs.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
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
    let mut checks: Vec<&str> = results.verified.iter().map(|check| check.text.as_str()).collect();
    checks.sort_unstable();
    checks.dedup();
    if !checks.is_empty() {
        let (named, more) = checks.split_at(checks.len().min(CHECKS));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        facts.push(("verified in every run".into(), format!("{}{more}", named.join(", "))));
    }
    html! {
        section aria-labelledby="h-environment" {
            h2 id="h-environment" { "Environment, and how to repeat it" }
            pre.command id="command" { (experiment.command) }
            button.tool.copy type="button" data-tool="copy" { "Copy" }
            dl.facts {
                @for (key, value) in &facts { dt { (label(key)) } dd { (label(value)) } }
            }
            details.more { summary { "The experiment file" } pre.command { (experiment.source) } }
        }
    }
}
