//! Modelled devices in the report: whether they kept their models' times, and the time by the model
//! beside the measured one.

use fathom_lab::analysis::{DeviceRole, DeviceStudy};
use maud::{Markup, html};

use crate::document::Document;
use crate::number;
use crate::page::{cell_name, column, label, scrolled};
use crate::style::{Align, Style, Table, tame};

/// Stands behind a rate whose runs did not keep the model's times.
pub fn mark() -> Markup {
    html! {
        " " abbr title="the machine was too busy to keep the device model's times in some of these runs" { "!" }
    }
}

const NOTE: &str = "How late the device's answers came after the time of its model: median and 99th percentile, and the share that came \
    later by more than 5 % of the request's time and 20 µs. Device time is how long the device had something to do, run time the whole run \
    with its preparation; both as measured and with the model's times. A run is marked where more than 10 % of the answers were late or \
    the device took more than 5 % longer than its model. Medians over the runs.";

/// Asked and given of the worst self-test: `200 µs: 203, 201, 199 µs`.
fn self_test(study: &DeviceStudy) -> String {
    let worst = study.runs.iter().max_by(|a, b| {
        let error = |run: &&fathom_lab::analysis::DeviceRun| run.used.self_test_error().unwrap_or(0.0);
        error(a).total_cmp(&error(b))
    });
    let tried = worst.map(|run| run.used.self_test.as_slice()).unwrap_or_default();
    let step = |tried: &fathom_device::SelfTestStep| {
        let given: Vec<String> = tried.given_ns.iter().map(|&ns| number::time(ns as f64)).collect();
        format!("{}: {}", number::time(tried.asked_ns as f64), given.join(", "))
    };
    tried.iter().map(step).collect::<Vec<_>>().join("; ")
}

/// Follows the cell's name where the device is not the file system's.
fn part(study: &DeviceStudy) -> &'static str {
    match study.carries {
        DeviceRole::FileSystem => "",
        DeviceRole::ExternalLog => ", log device",
    }
}

const HEADS: [&str; 11] = [
    "runs",
    "marked",
    "requests",
    "late p50",
    "late p99",
    "late",
    "device time",
    "by the model",
    "run time",
    "by the model",
    "self-test off by",
];

/// The section of the page, or nothing where no device was modelled.
pub fn section(document: &Document<'_>) -> Markup {
    html! {
        @if !document.devices.is_empty() {
            section aria-labelledby="h-devices" {
                h2 id="h-devices" { "Modelled devices: time by the model" }
                p.note { (NOTE) }
                (scrolled("Modelled devices", &html! {
                    table id="devices" {
                        thead {
                            tr {
                                (column("cell", false))
                                (column("device", false))
                                @for name in HEADS { (column(name, true)) }
                                (column("self-test: asked, and given to read, write, flush", false))
                            }
                        }
                        tbody { @for study in &document.devices { (row(document, study)) } }
                    }
                }))
            }
        }
    }
}

fn row(document: &Document<'_>, study: &DeviceStudy) -> Markup {
    let time =
        |of: fn(&fathom_lab::analysis::DeviceRun) -> u64| number::time(study.median(|run| of(run) as f64));
    let numbers = [
        study.runs.len().to_string(),
        study.marked().to_string(),
        number::plain(study.median(|run| run.used.operations.iter().sum::<u64>() as f64)),
        time(|run| run.used.late_p50_ns),
        time(|run| run.used.late_p99_ns),
        number::percent(study.median(|run| run.late_share)),
        time(|run| run.used.measured_ns),
        time(|run| run.used.model_ns),
        time(|run| run.elapsed_ns),
        time(|run| run.elapsed_model_ns),
        study.self_test_error().map_or_else(|| "not made".into(), number::percent),
    ];
    html! {
        tr data-cell=(study.cell) {
            th scope="row" {
                (cell_name(document.results, study.cell)) (part(study))
                @if study.marked() > 0 { (mark()) }
            }
            td { (label(&study.device)) }
            @for number in &numbers { td.n { (number) } }
            td { (label(&self_test(study))) }
        }
    }
}

/// The table of the terminal, only where a cell is marked: who keeps the model's times needs no
/// second one.
pub fn terminal(document: &Document<'_>, style: &Style) -> String {
    let marked: Vec<&DeviceStudy> = document.devices.iter().filter(|study| study.marked() > 0).collect();
    if marked.is_empty() {
        return String::new();
    }
    let mut table = Table::default();
    table.column("cell", Align::Left);
    for heading in ["marked", "late", "device time", "by model", "run time", "by model"] {
        table.column(heading, Align::Right);
    }
    for study in marked {
        let time = |of: fn(&fathom_lab::analysis::DeviceRun) -> u64| {
            number::time(study.median(|run| of(run) as f64))
        };
        let cell = document.results.cell(study.cell);
        table.row(vec![
            cell.map_or_else(String::new, |cell| tame(&cell.title)) + part(study),
            format!("{} of {}", study.marked(), study.runs.len()),
            number::percent(study.median(|run| run.late_share)),
            time(|run| run.used.measured_ns),
            time(|run| run.used.model_ns),
            time(|run| run.elapsed_ns),
            time(|run| run.elapsed_model_ns),
        ]);
    }
    let heading = "! Runs in which this machine was too busy to keep the device model's times";
    style.paragraph("  ", &style.bold(heading)) + &table.text(style) + "\n"
}
