//! report.html: one file, no server, no network.
//!
//! The page works without its script (text, tables, environment); the script adds charts, filters and downloads. A content
//! security policy forbids every request, so that "works offline" is enforced by the browser and not only intended. All
//! text of the results goes through [`escape`] or, inside the JSON block, [`json_block`].

use std::io::{self, Write};

use fathom_lab::analysis::{Clock, Measure, abscissa_name, spelled};
use fathom_lab::experiment::{FigureKind as Kind, Metric};
use fathom_lab::store::CellRow;
use serde_json::json;

use crate::axis::Axis;
use crate::blocks;
use crate::caution::Caution;
use crate::devices;
use crate::document::{Document, more_comparisons, promise};
use crate::figure::{Figure, Mark, parts_ns, value_text};
use crate::number;
use crate::palette::{FSYNC, PART_COLOURS, PARTS, VALUE_COLOURS};
use crate::ranking;

pub const CSS: &str = include_str!("page/page.css");
const JS: &str = include_str!("page/page.js");
/// Sorts the tables of any page.
pub const SORT_JS: &str = include_str!("page/sort.js");
const BLOCKS_JS: &str = include_str!("page/blocks.js");
const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));

/// Reasons to doubt the answer that stand beside it; more are behind a fold.
const REASONS: usize = 2;

/// Text as HTML: markup characters become entities, and control characters that could reorder what is around them
/// (bidirectional overrides) are isolated by the page's `<bdi>` where labels meet numbers.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A label from the results: escaped, and its direction kept to itself.
pub fn label(text: &str) -> String {
    format!("<bdi>{}</bdi>", escape(text))
}

/// A cell's label as people read it.
pub fn cell_name(cell: &CellRow) -> String {
    label(&spelled(cell, &cell.label))
}

/// JSON that can stand inside a `<script>` element: no `<`, so no end tag and no comment.
fn json_block(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// What every page begins with, up to its header: no page asks the network for anything, which the
/// browser enforces.
pub fn page_head(title: &str, version: &str) -> String {
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<meta name="color-scheme" content="light dark">
{mark}{version}">
<link rel="icon" href="data:,">
<title>{title} · Fathom</title>
<style>{CSS}</style>
</head>
<body>
<a class="skip" href="#answer">To the answer</a>
"##,
        mark = crate::HTML_MARK,
        version = escape(version),
        title = escape(title),
    )
}

/// What a sortable table's cell is sorted by.
pub fn sort_key(value: f64) -> String {
    format!(" data-v=\"{value}\"")
}

/// Writes the page.
pub fn write(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let experiment = &document.results.experiment;
    out.write_all(page_head(&document.title, &experiment.fathom_version).as_bytes())?;
    write!(
        out,
        r##"<header class="page">
<p class="brand"><strong>Fathom</strong> <span>{name}</span> <span>{when}</span></p>
<h1>{title}</h1>
"##,
        title = escape(&document.title),
        name = label(&experiment.name),
        when = number::moment(experiment.started_ms),
    )?;
    // The experiment's own title may speak of its workload where a trace ran instead.
    if let Some(question) = &document.question {
        writeln!(out, "<p class=\"question\">{}</p>", escape(question))?;
    } else if document.title != experiment.title {
        writeln!(out, "<p class=\"question\">{}</p>", escape(&experiment.title))?;
    }
    writeln!(out, "</header>\n<main>")?;
    answer(document, out)?;
    writeln!(
        out,
        "<noscript><p class=\"no-script\">Without JavaScript the tables below hold every value; charts and filters need it.</p></noscript>"
    )?;
    filters(document, out)?;
    if !document.figures.is_empty() {
        writeln!(out, "<section aria-labelledby=\"h-figures\"><h2 id=\"h-figures\">Figures</h2>")?;
        for (index, figure) in document.figures.iter().enumerate() {
            figure_card(document, figure, index, out)?;
        }
        writeln!(out, "</section>")?;
    }
    blocks::section(document, out)?;
    devices::section(document, out)?;
    out.write_all(crate::commits::section(document.results).as_bytes())?;
    careful(document, out)?;
    cells(document, out)?;
    environment(document, out)?;
    writeln!(
        out,
        "</main>\n<footer class=\"page\"><p>Made by Fathom {}. Charts by Apache ECharts {} (Apache License 2.0, notice in this \
         file). This file asks the network for nothing.</p></footer>",
        escape(&experiment.fathom_version),
        env!("FATHOM_ECHARTS_VERSION"),
    )?;
    writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", json_block(&model(document)))?;
    writeln!(out, "<script>{ECHARTS}</script>")?;
    writeln!(out, "<script>{JS}</script>\n<script>{SORT_JS}</script>")?;
    if !document.pictures.is_empty() {
        let data = json_block(&blocks::data(document));
        writeln!(
            out,
            "<script type=\"application/json\" id=\"blocks\">{data}</script>\n<script>{BLOCKS_JS}</script>"
        )?;
    }
    writeln!(out, "</body>\n</html>")
}

/// What the script works on.
fn model(document: &Document<'_>) -> serde_json::Value {
    let colour = |c: &crate::palette::Colour| json!({ "light": c.light, "dark": c.dark });
    json!({
        "name": document.results.experiment.name,
        "axes": document.axes.iter().map(|a| json!({ "key": a.key, "label": a.label, "values": a.values })).collect::<Vec<_>>(),
        "cells": document.results.cells.iter().filter(|c| c.skipped.is_none())
            .map(|c| json!({ "id": c.id, "label": c.label, "axes": c.axes })).collect::<Vec<_>>(),
        "parts": PARTS.iter().zip(&PART_COLOURS)
            .map(|(name, c)| json!({ "name": name, "light": c.light, "dark": c.dark })).collect::<Vec<_>>(),
        "colours": VALUE_COLOURS.iter().map(colour).collect::<Vec<_>>(),
        "figures": document.figures,
    })
}

fn answer(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section class=\"opening\"><div class=\"answer\" id=\"answer\" role=\"region\" aria-labelledby=\"h-answer\"><h2 id=\"h-answer\">The answer</h2>"
    )?;
    let (answer, rest) = document.findings.split_at(document.findings.len().min(3));
    for finding in answer {
        writeln!(out, "<p class=\"finding\">{}</p>", escape(finding))?;
    }
    if answer.is_empty() {
        writeln!(
            out,
            "<p class=\"finding\">No comparison could be made from these runs. The figures show what was measured.</p>"
        )?;
    }
    for promise in &document.promises {
        writeln!(out, "<p class=\"promise\">{}</p>", escape(promise))?;
    }
    if !rest.is_empty() {
        writeln!(out, "<details class=\"rest\"><summary>{}</summary><ul>", more_comparisons(rest.len()))?;
        for finding in rest {
            writeln!(out, "<li>{}</li>", escape(finding))?;
        }
        writeln!(out, "</ul></details>")?;
    }
    for assumed in &document.assumed {
        writeln!(out, "<p class=\"assumed\">{}</p>", escape(assumed))?;
    }
    writeln!(out, "</div>")?;
    if let Some(ranking) = &document.ranking {
        ranking::html::write(ranking, out)?;
    }
    basis(document, out)?;
    writeln!(out, "</section>")
}

/// Whether the answer stands, and what it rests on.
fn basis(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<div class=\"basis\">")?;
    let grave: Vec<&Caution> = document.cautions.iter().filter(|it| it.decides()).collect();
    if !grave.is_empty() || !document.findings.is_empty() {
        let is_doubted = if grave.is_empty() { "" } else { " doubted" };
        writeln!(out, "<div class=\"verdict{is_doubted}\"><p>{}</p>", escape(&document.verdict))?;
        let (first, more) = grave.split_at(grave.len().min(REASONS));
        caution_list(first.iter().copied(), out)?;
        if !more.is_empty() {
            writeln!(out, "<details class=\"rest\"><summary>{} more</summary>", more.len())?;
            caution_list(more.iter().copied(), out)?;
            writeln!(out, "</details>")?;
        }
        writeln!(out, "</div>")?;
    }
    writeln!(out, "<p class=\"rests\">{}</p></div>", escape(&document.rests_on))
}

fn filters(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let axes: Vec<&Axis> = document.axes.iter().filter(|axis| axis.values.len() > 1).collect();
    if axes.is_empty() {
        return Ok(());
    }
    writeln!(out, "<nav class=\"filters\" aria-label=\"Filter all figures and tables\">")?;
    for axis in axes {
        write!(out, "<fieldset><legend>{}</legend>", label(&axis.label))?;
        for (value, shown) in axis.values.iter().zip(&axis.shown) {
            write!(out, "{}", chip(&axis.key, value, &label(shown)))?;
        }
        writeln!(out, "</fieldset>")?;
    }
    writeln!(
        out,
        "<p class=\"status\"><span id=\"status\" role=\"status\"></span>\
         <button type=\"button\" class=\"tool\" id=\"reset\" data-tool=\"reset\" hidden>Show all</button></p></nav>"
    )
}

fn chip(axis: &str, value: &str, inner: &str) -> String {
    format!(
        "<button type=\"button\" class=\"chip\" aria-pressed=\"false\" data-axis=\"{}\" data-value=\"{}\">{inner}</button>",
        escape(axis),
        escape(value)
    )
}

pub fn swatch(colour: &crate::palette::Colour) -> String {
    format!("<span class=\"swatch\" style=\"--c:{};--d:{}\"></span>", colour.light, colour.dark)
}

fn figure_card(
    document: &Document<'_>,
    figure: &Figure,
    index: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<figure class=\"figure\" id=\"figure-{index}\"><figcaption><h3>{}<span class=\"id\">{}</span></h3><p>{}</p></figcaption>",
        label(&figure.title),
        label(&figure.id),
        escape(&figure.see)
    )?;
    write!(out, "<ul class=\"legend\">")?;
    if figure.kind == Kind::Split {
        for (name, colour) in PARTS.iter().zip(&PART_COLOURS) {
            write!(out, "<li>{}{name}</li>", swatch(colour))?;
        }
    } else {
        for series in figure.series.iter().enumerate().filter(|(i, _)| is_drawn(figure, *i)).map(|(_, s)| s) {
            let inner = format!("{}{}", swatch(&VALUE_COLOURS[series.colour]), label(&series.name));
            match (&figure.by, &series.value) {
                (Some(axis), Some(value)) => write!(out, "<li>{}</li>", chip(axis, value, &inner))?,
                _ => write!(out, "<li>{inner}</li>")?,
            }
        }
    }
    writeln!(out, "</ul>")?;
    writeln!(
        out,
        "<div class=\"chart\" id=\"chart-{index}\" role=\"img\" aria-label=\"{}\"></div>",
        escape(&figure.description)
    )?;
    let zoom = if figure.kind == Kind::Series {
        " Ctrl and the wheel zooms all panels, a double click shows all."
    } else {
        ""
    };
    if !figure.note.is_empty() || !zoom.is_empty() {
        writeln!(out, "<p class=\"note\">{}{zoom}</p>", escape(&figure.note))?;
    }
    write!(out, "<div class=\"tools\">")?;
    let toggle = |tool: &str, text: &str, on: bool| {
        format!(
            "<button type=\"button\" class=\"tool\" data-tool=\"{tool}\" data-figure=\"{index}\" aria-pressed=\"{on}\">{text}</button>"
        )
    };
    if figure.kind == Kind::Split {
        write!(out, "{}", toggle("share", "As shares", false))?;
    } else if figure.kind != Kind::Ecdf {
        write!(out, "{}", toggle("log", "Logarithmic axis", figure.log_y))?;
    }
    for (tool, text) in [("svg", "Download SVG"), ("csv", "Download CSV")] {
        write!(
            out,
            "<button type=\"button\" class=\"tool\" data-tool=\"{tool}\" data-figure=\"{index}\">{text}</button>"
        )?;
    }
    writeln!(out, "<details><summary>Show data</summary>")?;
    data_table(document, figure, out)?;
    writeln!(out, "</details></div></figure>")
}

/// Whether a figure has anything of this series.
fn is_drawn(figure: &Figure, series: usize) -> bool {
    figure.marks.iter().any(|m| m.series == series) || figure.lines.iter().any(|l| l.series == series)
}

fn data_table(document: &Document<'_>, figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"Data of {}\"><table>",
        escape(&figure.title)
    )?;
    let name = |cell: i64| document.results.cell(cell).map_or_else(String::new, cell_name);
    if matches!(figure.kind, Kind::Series | Kind::Ecdf) {
        let run = if figure.kind == Kind::Ecdf { "runs" } else { "run" };
        writeln!(
            out,
            "<thead><tr><th scope=\"col\">cell</th><th scope=\"col\" class=\"n\">{run}</th><th scope=\"col\" class=\"n\">executions</th><th scope=\"col\" class=\"n\">median</th><th scope=\"col\" class=\"n\">p99</th><th scope=\"col\" class=\"n\">maximum</th></tr></thead><tbody>"
        )?;
        for line in &figure.lines {
            write!(
                out,
                "<tr data-cell=\"{}\"><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>",
                line.cell,
                name(line.cell),
                line.run,
                number::plain(line.total as f64)
            )?;
            for ns in line.percentiles {
                write!(out, "<td class=\"n\">{}</td>", number::time(ns))?;
            }
            writeln!(out, "</tr>")?;
        }
    } else {
        let has_x = figure.marks.iter().any(|m| m.x.is_some());
        write!(out, "<thead><tr><th scope=\"col\">cell</th><th scope=\"col\">phase</th>")?;
        if has_x {
            write!(out, "<th scope=\"col\" class=\"n\">{}</th>", escape(&figure.abscissa))?;
        }
        write!(
            out,
            "<th scope=\"col\" class=\"n\">{}</th><th scope=\"col\" class=\"n\">95 % interval</th><th scope=\"col\" class=\"n\">runs</th>",
            escape(&figure.quantity)
        )?;
        if figure.kind == Kind::Split {
            for part in PARTS {
                write!(out, "<th scope=\"col\" class=\"n\">{part}</th>")?;
            }
        }
        writeln!(out, "</tr></thead><tbody>")?;
        for mark in &figure.marks {
            mark_row(figure, mark, &name(mark.cell), has_x, out)?;
        }
    }
    writeln!(out, "</tbody></table></div>")
}

fn mark_row(figure: &Figure, mark: &Mark, name: &str, has_x: bool, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "<tr data-cell=\"{}\"><th scope=\"row\">{name}</th><td>{}</td>",
        mark.cell,
        label(&figure.groups[mark.group])
    )?;
    if has_x {
        write!(out, "<td class=\"n\">{}</td>", mark.x.map_or_else(String::new, number::plain))?;
    }
    let interval = match figure.metric {
        Metric::Rate => number::interval(mark.low, mark.high),
        Metric::Time => number::time_interval(mark.mid, mark.low, mark.high),
    };
    write!(
        out,
        "<td class=\"n\">{}</td><td class=\"n\">{interval}</td><td class=\"n\">{}</td>",
        value_text(figure.metric, mark.mid),
        mark.runs
    )?;
    if let Some(parts) = mark.parts {
        for ns in parts {
            write!(out, "<td class=\"n\">{}</td>", number::time(ns))?;
        }
    }
    writeln!(out, "</tr>")
}

/// What does not change the answer, behind a fold; what does stands beside the answer already.
fn careful(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (grave, rest): (Vec<&Caution>, Vec<&Caution>) = document.cautions.iter().partition(|it| it.decides());
    writeln!(
        out,
        "<section class=\"careful\" aria-labelledby=\"h-careful\"><h2 id=\"h-careful\">What to be careful about</h2>"
    )?;
    writeln!(
        out,
        "<p class=\"calm\">{} {}</p>",
        escape(document.verdict.trim_end_matches(':')),
        if grave.is_empty() { "" } else { "(<a href=\"#answer\">beside the answer</a>)." }
    )?;
    if rest.is_empty() {
        writeln!(out, "<p class=\"calm\">Nothing else was noticed.</p>")?;
    } else {
        let things = if rest.len() == 1 { "thing" } else { "things" };
        writeln!(
            out,
            "<details class=\"rest\"><summary>{} {things} to know that do not change it</summary>",
            rest.len()
        )?;
        caution_list(rest.into_iter(), out)?;
        writeln!(out, "</details>")?;
    }
    writeln!(out, "</section>")
}

fn caution_list<'a>(cautions: impl Iterator<Item = &'a Caution>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<ul>")?;
    for caution in cautions {
        let about = if caution.about.is_empty() {
            String::new()
        } else {
            format!("<b>{}</b> ", label(&caution.about))
        };
        writeln!(out, "<li>{about}{}</li>", escape(&caution.text))?;
    }
    writeln!(out, "</ul>")
}

fn cells(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<section aria-labelledby=\"h-cells\"><h2 id=\"h-cells\">Every cell</h2>\
         <p class=\"note\">Geometric means over the runs with their 95 % intervals. Percentiles are of single executions, median over the runs. \
         {}The bar is the time of one execution as measured: {}.</p>",
        if has_model(document) { MODEL_NOTE } else { "" },
        PARTS
            .iter()
            .zip(&PART_COLOURS)
            .map(|(n, c)| format!("{} {n}", swatch(c)))
            .collect::<Vec<_>>()
            .join(", ")
    )?;
    writeln!(
        out,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Every cell\"><table id=\"cells\" class=\"sortable\"><thead><tr><th scope=\"col\">cell</th><th scope=\"col\">phase</th>"
    )?;
    let has_x = document.analysis.measures.iter().any(|s| s.x.is_some());
    // A column of zeros says nothing; one that was not measured is never left out.
    let waited = document.analysis.measures.iter().any(|s| s.lock_waits != Some(0));
    if has_x {
        let of = |m: &Measure| m.x.and_then(|_| document.results.cell(m.cell)).map(abscissa_name);
        let name = document.analysis.measures.iter().find_map(of).unwrap_or("size");
        write!(out, "<th scope=\"col\" class=\"n\">{name}</th>")?;
    }
    let has_model = has_model(document);
    let rates: &[&str] = if has_model { &["per second, model time", "wall time"] } else { &["per second"] };
    for heading in rates.iter().chain(&["p50", "p90", "p99", "p99.9", "max"]) {
        write!(out, "<th scope=\"col\" class=\"n\">{heading}</th>")?;
    }
    writeln!(
        out,
        "<th scope=\"col\">where the time goes</th><th scope=\"col\" class=\"n\">fsync</th><th scope=\"col\" class=\"n\">syncs</th><th scope=\"col\" class=\"n\">written</th>{}<th scope=\"col\">kept at</th></tr></thead><tbody>",
        if waited { "<th scope=\"col\" class=\"n\">lock waits</th>" } else { "" }
    )?;
    for summary in &document.analysis.measures {
        cell_row(document, summary, has_x, waited, out)?;
    }
    writeln!(out, "</tbody></table></div>")?;
    writeln!(
        out,
        "<details class=\"more\"><summary>Settings of every cell, as read back from the engine</summary><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Settings\"><table><thead><tr><th scope=\"col\">cell</th><th scope=\"col\">runs</th><th scope=\"col\">engine</th><th scope=\"col\">settings</th><th scope=\"col\">workload</th><th scope=\"col\">file system</th><th scope=\"col\">mount</th><th scope=\"col\">device</th></tr></thead><tbody>"
    )?;
    for cell in &document.results.cells {
        let Some(run) = document.results.good_runs(cell.id).next() else { continue };
        let runs = document.results.good_runs(cell.id).count();
        let words = |pairs: Vec<String>| escape(&pairs.join(", "));
        let engine = run.engine.as_ref().map_or_else(String::new, |e| format!("{} {}", e.name, e.version));
        let settings = run
            .engine
            .as_ref()
            .map_or_else(Vec::new, |e| e.settings.iter().map(|(k, v)| format!("{k}={v}")).collect());
        let parameters = run
            .parameters
            .iter()
            .map(|(k, v)| format!("{k}={}", v.as_str().map_or_else(|| v.to_string(), str::to_string)))
            .collect();
        writeln!(
            out,
            "<tr data-cell=\"{}\"><th scope=\"row\">{}</th><td class=\"n\">{runs}</td><td>{}</td><td>{}</td><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            cell.id,
            cell_name(cell),
            escape(&engine),
            words(settings),
            label(&cell.spec.workload.name),
            words(parameters),
            label(&run.stack.filesystem),
            label(&run.stack.mount),
            label(&match run.stack.guest.as_str() {
                "" => run.stack.device.clone(),
                guest => format!("{}, in a guest: {guest}", run.stack.device),
            })
        )?;
    }
    writeln!(out, "</tbody></table></div></details></section>")
}

/// Whether any number of the page is model time.
fn has_model(document: &Document<'_>) -> bool {
    document.analysis.measures.iter().any(|measure| measure.clock == Clock::Model)
}

const MODEL_NOTE: &str = "Where a device was modelled, rates and percentiles are of model time: the run's own CPU and other time and the device's \
    time by its model, without what this machine held the run up (waiting for a processor, answers that came late). ";

fn cell_row(
    document: &Document<'_>,
    s: &Measure,
    has_x: bool,
    waited: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cell = document.results.cell(s.cell);
    write!(
        out,
        "<tr data-cell=\"{}\"><th scope=\"row\">{}</th><td>{}</td>",
        s.cell,
        cell.map_or_else(String::new, cell_name),
        label(&s.phase)
    )?;
    if has_x {
        let key = s.x.map_or_else(String::new, sort_key);
        write!(out, "<td class=\"n\"{key}>{}</td>", s.x.map_or_else(String::new, number::plain))?;
    }
    write!(
        out,
        "<td class=\"n\"{}>{}{}<span class=\"iv\">{}</span></td>",
        sort_key(s.rate.mid),
        number::plain(s.rate.mid),
        if document.is_late(s.cell) && s.clock == Clock::Wall { devices::MARK } else { "" },
        number::interval(s.rate.low, s.rate.high)
    )?;
    if has_model(document) {
        write!(
            out,
            "<td class=\"n\"{}>{}{}<span class=\"iv\">{}</span></td>",
            sort_key(s.wall_rate.mid),
            number::plain(s.wall_rate.mid),
            if document.is_late(s.cell) { devices::MARK } else { "" },
            number::interval(s.wall_rate.low, s.wall_rate.high)
        )?;
    }
    for ns in &s.model_latency_ns.unwrap_or(s.latency_ns)[1..] {
        write!(out, "<td class=\"n\"{}>{}</td>", sort_key(*ns), number::time(*ns))?;
    }
    let parts = parts_ns(s);
    let total: f64 = parts.iter().sum();
    let fsync = if total > 0.0 { parts[FSYNC] / total } else { 0.0 };
    write!(out, "<td{}><span class=\"split\" aria-hidden=\"true\">", sort_key(total))?;
    for (ns, colour) in parts.iter().zip(&PART_COLOURS) {
        let share = if total > 0.0 { ns / total * 100.0 } else { 0.0 };
        write!(out, "<i style=\"width:{share:.1}%;--c:{};--d:{}\"></i>", colour.light, colour.dark)?;
    }
    let (syncs, written) = (s.each_ns(|split| split.sync_calls), s.each_ns(|split| split.write_bytes));
    writeln!(
        out,
        "</span></td><td class=\"n\"{}>{}</td><td class=\"n\"{}>{}</td><td class=\"n\"{}>{}</td>",
        sort_key(fsync),
        number::percent(fsync),
        sort_key(syncs),
        number::plain((syncs * 100.0).round() / 100.0),
        sort_key(written),
        number::bytes(written.round()),
    )?;
    if waited {
        let waits = match s.lock_waits.zip(s.lock_wait_ns) {
            None => "not measured".to_owned(),
            Some((0, _)) => "0".to_owned(),
            Some((waits, ns)) => {
                format!("{} of {}", number::plain(waits as f64), number::time(ns as f64 / waits as f64))
            }
        };
        write!(out, "<td class=\"n\">{waits}</td>")?;
    }
    writeln!(out, "<td>{}</td></tr>", promise(cell.and_then(|c| c.durability)))
}

fn environment(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let results = document.results;
    writeln!(
        out,
        "<section aria-labelledby=\"h-environment\"><h2 id=\"h-environment\">Environment, and how to repeat it</h2>"
    )?;
    writeln!(
        out,
        "<pre class=\"command\" id=\"command\">{}</pre><button type=\"button\" class=\"tool copy\" data-tool=\"copy\">Copy</button>",
        escape(&results.experiment.command)
    )?;
    writeln!(out, "<dl class=\"facts\">")?;
    let fact = |out: &mut dyn Write, key: &str, value: &str| {
        writeln!(out, "<dt>{}</dt><dd>{}</dd>", label(key), label(value))
    };
    fact(out, "experiment", &format!("{} ({})", results.experiment.name, results.experiment.source_name))?;
    fact(out, "seed", &results.experiment.seed.to_string())?;
    fact(out, "repeats", &results.experiment.repeats.to_string())?;
    fact(out, "started", &number::moment(results.experiment.started_ms))?;
    if let Some(finished) = results.experiment.finished_ms {
        fact(out, "finished", &number::moment(finished))?;
    }
    fact(out, "Fathom", &results.experiment.fathom_version)?;
    for (key, value) in &results.environment {
        fact(out, &key.replace('_', " "), value)?;
    }
    let mut checks: Vec<&str> = results.verified.iter().map(|v| v.text.as_str()).collect();
    checks.sort_unstable();
    checks.dedup();
    if !checks.is_empty() {
        let more = if checks.len() > 8 { format!(" and {} more", checks.len() - 8) } else { String::new() };
        fact(out, "verified in every run", &format!("{}{more}", checks[..checks.len().min(8)].join(", ")))?;
    }
    writeln!(out, "</dl>")?;
    writeln!(
        out,
        "<details class=\"more\"><summary>The experiment file</summary><pre class=\"command\">{}</pre></details></section>",
        escape(&results.experiment.source)
    )
}
