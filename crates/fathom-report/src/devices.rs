//! Modelled devices in the report: whether they kept their models' times, and the time by the model
//! beside the measured one.

use fathom_lab::analysis::{DeviceRole, DeviceStudy};
use maud::{Markup, html};

use crate::document::Document;
use crate::number;
use crate::page::{cell_name, column, label, number_cell, scrolled};
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

const SELF_TEST_NOTE: &str =
    "Before a run the device is asked for requests of known times; here is the run that was furthest off.";

/// The section of the page, or nothing where no device was modelled.
pub fn section(document: &Document<'_>) -> Markup {
    html! {
        @if !document.devices.is_empty() {
            section aria-labelledby="h-devices" {
                h2 id="h-devices" { "Modelled devices: time by the model" }
                p.note { (NOTE) }
                (scrolled("Modelled devices", &html! {
                    table.sortable.close id="devices" {
                        thead {
                            tr {
                                (column("cell", false))
                                (column("device", false))
                                @for name in HEADS { (column(name, true)) }
                            }
                        }
                        tbody { @for study in &document.devices { (row(document, study)) } }
                    }
                }))
                (self_tests(document))
            }
        }
    }
}

/// What the self-tests asked for and were given, behind a fold: who keeps its times is not doubted.
fn self_tests(document: &Document<'_>) -> Markup {
    let tested: Vec<(&DeviceStudy, String)> = document
        .devices
        .iter()
        .map(|study| (study, self_test(study)))
        .filter(|pair| !pair.1.is_empty())
        .collect();
    html! {
        @if !tested.is_empty() {
            details.more {
                summary { "Self-tests of the devices" }
                p.note { (SELF_TEST_NOTE) }
                (scrolled("Self-tests of the devices", &html! {
                    table.sortable.close id="self-tests" {
                        thead {
                            tr {
                                (column("cell", false))
                                (column("off by", true))
                                (column("asked, and given to read, write, flush", false))
                            }
                        }
                        tbody {
                            @for (study, text) in &tested {
                                tr data-cell=(study.cell) {
                                    th scope="row" { (cell_name(document.results, study.cell)) (part(study)) }
                                    (self_test_error(study))
                                    td.words { (label(text)) }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}

fn self_test_error(study: &DeviceStudy) -> Markup {
    let error = study.self_test_error();
    number_cell(error, &error.map_or_else(|| "not made".into(), number::percent))
}

fn row(document: &Document<'_>, study: &DeviceStudy) -> Markup {
    let count = |value: f64| number_cell(Some(value), &number::plain(value));
    let time = |of: fn(&fathom_lab::analysis::DeviceRun) -> u64| {
        let ns = study.median(|run| of(run) as f64);
        number_cell(Some(ns), &number::time(ns))
    };
    let late = study.median(|run| run.late_share);
    let numbers = [
        count(study.runs.len() as f64),
        count(study.marked() as f64),
        count(study.median(|run| run.used.operations.iter().sum::<u64>() as f64)),
        time(|run| run.used.late_p50_ns),
        time(|run| run.used.late_p99_ns),
        number_cell(Some(late), &number::percent(late)),
        time(|run| run.used.measured_ns),
        time(|run| run.used.model_ns),
        time(|run| run.elapsed_ns),
        time(|run| run.elapsed_model_ns),
        self_test_error(study),
    ];
    html! {
        tr data-cell=(study.cell) {
            th scope="row" {
                (cell_name(document.results, study.cell)) (part(study))
                @if study.marked() > 0 { (mark()) }
            }
            td.words { (label(&study.device)) }
            @for number in &numbers { (number) }
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
