//! Modelled devices in the report: whether they kept their models' times, and the time by the model beside the measured one.

use std::io::{self, Write};

use fathom_lab::analysis::{Carries, DeviceStudy, spelled};

use crate::document::Document;
use crate::html::{cell_name, label};
use crate::number;
use crate::style::{Align, Style, Table, tame};

/// Stands behind a rate whose runs did not keep the model's times.
pub const MARK: &str = " <abbr title=\"the machine was too busy to keep the device model's times in some of these runs\">!</abbr>";

const NOTE: &str = "How late the device's answers came after the time of its model: median and 99th percentile, and the share that came \
    later by more than 5 % of the request's time and 20 µs. Device time is how long the device had something to do, run time the whole run \
    with its preparation; both as measured and with the model's times. A run is marked where more than 10 % of the answers were late or \
    the device took more than 5 % longer than its model. Medians over the runs.";

/// Asked and given of the worst self-test: `200 µs: 203, 201, 199 µs`.
fn self_test(study: &DeviceStudy) -> String {
    let worst = study.runs.iter().max_by(|a, b| {
        let error = |it: &&fathom_lab::analysis::DeviceRun| it.used.self_test_error().unwrap_or(0.0);
        error(a).total_cmp(&error(b))
    });
    let tried = worst.map(|run| run.used.self_test.as_slice()).unwrap_or_default();
    let step = |it: &fathom_device::Tried| {
        let given: Vec<String> = it.given_ns.iter().map(|&ns| number::time(ns as f64)).collect();
        format!("{}: {}", number::time(it.asked_ns as f64), given.join(", "))
    };
    tried.iter().map(step).collect::<Vec<_>>().join("; ")
}

/// Follows the cell's name where the device is not the file system's.
fn part(study: &DeviceStudy) -> &'static str {
    match study.carries {
        Carries::FileSystem => "",
        Carries::ExternalLog => ", log device",
    }
}

/// The section of the page, or nothing where no device was modelled.
pub fn section(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    if document.devices.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section aria-labelledby=\"h-devices\"><h2 id=\"h-devices\">Modelled devices: time by the model</h2><p class=\"note\">{NOTE}</p>\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Modelled devices\"><table id=\"devices\"><thead><tr>\
         <th scope=\"col\">cell</th><th scope=\"col\">device</th>"
    )?;
    for heading in [
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
    ] {
        write!(out, "<th scope=\"col\" class=\"n\">{heading}</th>")?;
    }
    writeln!(
        out,
        "<th scope=\"col\">self-test: asked, and given to read, write, flush</th></tr></thead><tbody>"
    )?;
    for study in &document.devices {
        let time = |of: fn(&fathom_lab::analysis::DeviceRun) -> u64| {
            number::time(study.median(|run| of(run) as f64))
        };
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
        write!(
            out,
            "<tr data-cell=\"{}\"><th scope=\"row\">{}{}{}</th><td>{}</td>",
            study.cell,
            document.results.cell(study.cell).map_or_else(String::new, cell_name),
            part(study),
            if study.marked() > 0 { MARK } else { "" },
            label(&study.device),
        )?;
        for number in numbers {
            write!(out, "<td class=\"n\">{number}</td>")?;
        }
        writeln!(out, "<td>{}</td></tr>", label(&self_test(study)))?;
    }
    writeln!(out, "</tbody></table></div></section>")
}

/// The table of the terminal, only where a cell is marked: who keeps the model's times needs no second one.
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
            cell.map_or_else(String::new, |cell| tame(&spelled(cell, &cell.label))) + part(study),
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
