//! Every cell as a table: what was measured, and with which settings.

use fathom_lab::analysis::{Clock, Measure};
use fathom_lab::naming::abscissa_name;
use maud::{Markup, html};

use crate::devices;
use crate::document::Document;
use crate::figure::shown_parts_ns;
use crate::number;
use crate::page::{cell_name, colours, column, label, scrolled, swatch};
use crate::palette::{FSYNC, PART_COLOURS, PARTS};
use crate::power_cut;

/// Whether any number of the page is model time.
fn has_model(document: &Document<'_>) -> bool {
    document.analysis.measures.iter().any(|measure| measure.clock == Clock::Model)
}

/// Whether any p99 of the page has an interval.
fn has_p99(document: &Document<'_>) -> bool {
    document.analysis.measures.iter().any(|measure| measure.shown_p99().is_some())
}

const CELLS_NOTE: &str = "Geometric means over the runs with their 95 % intervals. Percentiles are of single \
    executions, median over the runs. ";

const P99_NOTE: &str = "Below p99 stands the interval of that median, where there are three runs or more: 95 % of six and more; \
    of fewer it is from the lowest run to the highest, which holds the true median in 75 % of cases of three runs, 88 % of four \
    and 94 % of five. ";

/// Place of p99 among the latencies of a measure.
const P99: usize = 3;

const MODEL_NOTE: &str = "Where a device was modelled, rates and percentiles are of model time: the run's own CPU and \
    other time and the device's time by its model, without what this machine held the run up (waiting for a \
    processor, answers that came late). Percentiles marked \"wall\" are as measured: they are of \
    threads that are not seen. ";

/// The section of the page.
pub fn section(document: &Document<'_>) -> Markup {
    html! {
        section aria-labelledby="h-cells" {
            h2 id="h-cells" { "Every cell" }
            p.note {
                (CELLS_NOTE)
                @if has_p99(document) { (P99_NOTE) }
                @if has_model(document) { (MODEL_NOTE) }
                "The bar is the time of one execution"
                @if has_model(document) { ", by the model where there is one" }
                ": "
                @for (place, (name, colour)) in PARTS.iter().zip(&PART_COLOURS).enumerate() {
                    @if place > 0 { ", " }
                    (swatch(colour)) " " (name)
                }
                "."
            }
            (scrolled("Every cell", &measures_table(document)))
            @for known in power_cut::known_losses(document.results) { p.note { (known) } }
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
    // Heads take two lines, and intervals stand below their numbers: all columns are seen at once
    // on a screen of 1400 pixels. Beside a column of sizes those of rates are broken where there is
    // no room.
    html! {
        table.sortable.close id="cells" {
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
    let (latency_ns, is_wall) = measure.shown_latency_ns();
    let waits = match measure.lock_waits.zip(measure.lock_wait_ns) {
        None => html! { span.iv.wraps { "not measured" } },
        Some((0, _)) => html! { "0" },
        Some((waits, ns)) => html! {
            (number::plain(waits as f64)) " "
            span.iv { "of " (number::time(ns as f64 / waits as f64)) }
        },
    };
    html! {
        tr data-cell=(measure.cell) {
            th scope="row" { (cell_name(document.results, measure.cell)) }
            td { (label(&measure.phase)) }
            @if has_x { td.n data-v=[measure.x] { @if let Some(x) = measure.x { (number::plain(x)) } } }
            td.n data-v=(rate.mid) {
                (number::plain(rate.mid))
                @if is_late && measure.clock == Clock::Wall { (devices::mark()) }
                span.iv.wraps[has_x] { (number::interval_of(rate)) }
            }
            @if has_model(document) {
                td.n data-v=(wall_rate.mid) {
                    (number::plain(wall_rate.mid))
                    @if is_late { (devices::mark()) }
                    span.iv.wraps[has_x] { (number::interval_of(wall_rate)) }
                }
            }
            @for (place, ns) in latency_ns.iter().enumerate().skip(1) {
                td.n data-v=(ns) {
                    (number::time(*ns))
                    @if is_wall { span.iv { "wall" } }
                    @if let Some(p99) = measure.shown_p99().filter(|_| place == P99) {
                        span.iv.wraps { (number::time_interval_of(&p99)) }
                    }
                }
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
            @if has_waits { td.n data-v=[measure.lock_wait_ns] { (waits) } }
            td.words { (power_cut::kept(document.results, document.results.cell(measure.cell))) }
        }
    }
}

fn settings_table(document: &Document<'_>) -> Markup {
    let heads = ["engine", "settings", "workload", "file system", "mount", "device"];
    html! {
        table.sortable.close {
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
                            td.words { (pairs(run.engine.iter().flat_map(|engine| &engine.settings))) }
                            td.words {
                                (label(&cell.spec.workload.name)) " "
                                (pairs(run.parameters.iter().map(|(key, value)| {
                                    (key, value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                                })))
                            }
                            td { (label(&run.stack.filesystem)) }
                            td.words { (label(&run.stack.mount)) }
                            td.words { (label(&device)) }
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
