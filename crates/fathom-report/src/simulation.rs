//! Simulated runs: an application on devices, as a table, a figure, a page, CSV and JSON.

use std::fmt::Write;

use fathom_lab::simulate::{Row, Study};
use serde::Serialize;

use crate::html::escape;
use crate::number;
use crate::style::{Align, Style, Table, tame};

/// What was simulated, ready to be shown.
#[derive(Debug, Serialize)]
pub struct Simulation {
    /// The application's name, or the experiment's title.
    pub title: String,
    /// The numbers.
    #[serde(flatten)]
    pub study: Study,
}

/// Where the widest of several values is so many times the smallest, an axis is logarithmic.
const LOGARITHMIC: f64 = 20.0;

/// What every number is.
const WHAT: &str = "simulated: recorded once, replayed on the models in virtual time; model time, with the CPU time of this machine";

impl Simulation {
    /// Names of cells and phases that have rows, in their order.
    fn groups(&self) -> Vec<(&str, &str, Option<f64>)> {
        let mut groups = Vec::new();
        for row in &self.study.rows {
            let group = (row.label.as_str(), row.phase.as_str(), row.x);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// The rows of one group, the fastest first.
    fn ranked(&self, group: (&str, &str, Option<f64>)) -> Vec<&Row> {
        let is_of = |row: &&Row| (row.label.as_str(), row.phase.as_str(), row.x) == group;
        let mut rows: Vec<&Row> = self.study.rows.iter().filter(is_of).collect();
        rows.sort_by(|a, b| b.rate.mid.total_cmp(&a.rate.mid));
        rows
    }

    fn heading(&self) -> String {
        let mut devices: Vec<&str> = self.study.rows.iter().map(|row| row.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        match devices.as_slice() {
            [one] => format!("{} on {one}", self.title),
            all => format!("{} on {} devices", self.title, all.len()),
        }
    }

    /// The name of a group beside the others.
    fn name(&self, (label, phase, x): (&str, &str, Option<f64>)) -> String {
        let x = x.map_or_else(String::new, |x| format!(", {}", number::plain(x)));
        let phases = self.study.rows.iter().any(|row| row.phase != phase);
        if phases { format!("{label}: {phase}{x}") } else { format!("{label}{x}") }
    }

    /// A table for each cell and phase, the fastest device first.
    #[must_use]
    pub fn terminal(&self, style: &Style) -> String {
        let mut out = format!("\n  {}\n{}", style.bold(&tame(&self.heading())), style.paragraph("  ", WHAT));
        for group in self.groups() {
            let rows = self.ranked(group);
            let unit = rows.first().map_or("execution", |row| row.unit.as_str());
            let mut table = Table::default();
            table.column("device", Align::Left);
            for head in ["per s", "[95 %]", "model time", "device", "CPU", "p99", "flushes", "written"] {
                table.column(head, Align::Right);
            }
            for row in rows {
                table.row(vec![
                    tame(&row.device),
                    number::plain(row.rate.mid),
                    interval(row),
                    number::time(row.model_ns.mid),
                    number::percent(row.device_ns / row.model_ns.mid.max(1e-9)),
                    number::percent(row.cpu_ns / row.model_ns.mid.max(1e-9)),
                    row.p99_ns.map_or_else(String::new, number::time),
                    format!("{:.2}", row.flushes),
                    number::bytes(row.written_bytes),
                ]);
            }
            let head = format!("{}, of one {unit}", self.name(group));
            let _ = write!(out, "\n  {}\n{}", style.bold(&tame(&head)), table.text(style));
        }
        out.push('\n');
        for note in self.notes() {
            out += &style.paragraph("  ", &tame(&note));
        }
        out
    }

    /// What must be known, each note once with the cells that it is of.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
        let all = self.study.notes.iter().flat_map(|(label, all)| all.iter().map(move |it| (label, it)));
        for (label, note) in all {
            match notes.iter_mut().find(|it| it.0 == *note) {
                Some(known) => known.1.push(label),
                None => notes.push((note.clone(), vec![label])),
            }
        }
        let told = notes.into_iter().map(|(note, labels)| format!("{}: {note}.", labels.join("; ")));
        let without = self.study.without.iter().map(|(label, why)| format!("{label}: not simulated: {why}."));
        told.chain(without).collect()
    }

    /// One line for each cell, phase and device.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "cell,label,durability,phase,x,unit,device,count,runs,draws,rate_per_s,rate_low,rate_high,model_ns,model_low_ns,\
             model_high_ns,cpu_ns,device_ns,other_ns,p50_ns,p99_ns,flushes,written_bytes,read_bytes\r\n",
        );
        for row in &self.study.rows {
            let durability = row.durability.and_then(|it| serde_json::to_value(it).ok());
            let durability = durability.as_ref().and_then(|it| it.as_str()).unwrap_or_default();
            let or_nothing = |it: Option<f64>| it.map_or_else(String::new, |it| format!("{it}"));
            let fields = [
                row.cell.to_string(),
                row.label.clone(),
                durability.to_owned(),
                row.phase.clone(),
                or_nothing(row.x),
                row.unit.clone(),
                row.device.clone(),
                row.count.to_string(),
                row.runs.to_string(),
                row.draws.to_string(),
                row.rate.mid.to_string(),
                row.rate.low.to_string(),
                row.rate.high.to_string(),
                row.model_ns.mid.to_string(),
                row.model_ns.low.to_string(),
                row.model_ns.high.to_string(),
                row.cpu_ns.to_string(),
                row.device_ns.to_string(),
                row.other_ns.to_string(),
                or_nothing(row.p50_ns),
                or_nothing(row.p99_ns),
                row.flushes.to_string(),
                row.written_bytes.to_string(),
                row.read_bytes.to_string(),
            ];
            let mut line = Vec::new();
            // Writing to memory cannot fail.
            let _ = crate::export::line(&fields, &mut line);
            out += &String::from_utf8_lossy(&line);
        }
        out
    }

    /// Everything, as a value to be written as JSON.
    #[must_use]
    pub fn json(&self) -> impl Serialize {
        serde_json::json!({ "what": WHAT, "simulation": self })
    }

    /// Ranked bars with direct labels, a panel for each cell and phase, all on one axis.
    #[must_use]
    pub fn svg(&self) -> String {
        const WIDTH: f64 = 720.0;
        const LEFT: f64 = 170.0;
        const RIGHT: f64 = 150.0;
        const STEP: f64 = 22.0;
        let rates: Vec<f64> = self.study.rows.iter().map(|row| row.rate.mid).collect();
        let high = rates.iter().copied().fold(0.0, f64::max).max(1e-9);
        let low = rates.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9);
        let is_log = high / low > LOGARITHMIC;
        // On a logarithmic axis the shortest bar has a length of its own.
        let foot = low / 2.0;
        let share = |rate: f64| if is_log { (rate / foot).ln() / (high / foot).ln() } else { rate / high };
        let (mut body, mut y) = (String::new(), 22.0);
        let mut text = |x: f64, y: f64, anchor: &str, size: u32, fill: &str, weight: u32, words: &str| {
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\" \
                 font-weight=\"{weight}\">{}</text>",
                escape(&tame(words))
            );
        };
        let (ink, muted) = ("#1b1f24", "#59616b");
        text(0.0, y, "start", 16, ink, 600, &self.heading());
        y += 18.0;
        let axis = if is_log { "logarithmic bars" } else { "bars from zero" };
        let unit = self.study.rows.first().map_or("execution", |row| row.unit.as_str());
        text(
            0.0,
            y,
            "start",
            11,
            muted,
            400,
            &format!("{unit}s per second of model time, {axis}; simulated"),
        );
        let mut bars = String::new();
        for group in self.groups() {
            y += 30.0;
            text(0.0, y, "start", 12, ink, 600, &self.name(group));
            y += 8.0;
            for row in self.ranked(group) {
                let length = (share(row.rate.mid) * (WIDTH - LEFT - RIGHT)).max(1.0);
                let _ = writeln!(
                    bars,
                    "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"14\" fill=\"#0b5a9c\"/>",
                    y + 4.0
                );
                text(LEFT - 8.0, y + 15.0, "end", 12, ink, 400, &row.device);
                let label =
                    format!("{} /s · {}", number::plain(row.rate.mid), number::time(row.model_ns.mid));
                text(LEFT + length + 6.0, y + 15.0, "start", 11, ink, 400, &label);
                y += STEP;
            }
        }
        y += 14.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" width=\"{WIDTH}\" height=\"{y:.0}\" \
             role=\"img\" {}\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{bars}{body}</svg>\n",
            crate::SVG_MARK,
            escape(&tame(&self.heading())),
        )
    }

    /// One page with the figure, the table and the notes.
    #[must_use]
    pub fn html(&self) -> String {
        let mut rows = String::new();
        for group in self.groups() {
            for row in self.ranked(group) {
                let fields = [
                    escape(&tame(&self.name(group))),
                    escape(&tame(&row.device)),
                    number::plain(row.rate.mid),
                    interval(row),
                    number::time(row.model_ns.mid),
                    number::time(row.device_ns),
                    number::time(row.cpu_ns),
                    number::time(row.other_ns),
                    row.p50_ns.map_or_else(String::new, number::time),
                    row.p99_ns.map_or_else(String::new, number::time),
                    format!("{:.2}", row.flushes),
                    number::bytes(row.written_bytes),
                    number::bytes(row.read_bytes),
                ];
                let _ = writeln!(rows, "<tr><td>{}</td></tr>", fields.join("</td><td>"));
            }
        }
        let heads = [
            "what",
            "device",
            "per s",
            "[95 %]",
            "model time",
            "device",
            "CPU",
            "other",
            "p50",
            "p99",
            "flushes",
            "written",
            "read",
        ];
        let notes: Vec<String> =
            self.notes().iter().map(|note| format!("<li>{}</li>", escape(&tame(note)))).collect();
        let title = escape(&tame(&self.heading()));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{}{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             </head>\n<body>\n<h1>{title}</h1>\n<p>{}. Times, flushes and bytes are of one execution.</p>\n{}\n\
             <div class=\"wide\"><table>\n<tr><th>{}</th></tr>\n{rows}</table></div>\n<ul>{}</ul>\n</body>\n</html>\n",
            crate::HTML_MARK,
            env!("CARGO_PKG_VERSION"),
            escape(WHAT),
            self.svg(),
            heads.join("</th><th>"),
            notes.concat(),
        )
    }
}

const STYLE: &str = "body{font:15px/1.5 Helvetica Neue,Helvetica,Arial,Liberation Sans,DejaVu Sans,sans-serif;max-width:1100px;\
margin:2em auto;padding:0 1em;color:#1b1f24;background:#fff}svg{max-width:100%;height:auto}.wide{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}td,th{padding:.25em .7em;text-align:right;\
border-bottom:1px solid #dcdfe3;white-space:nowrap}td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}\
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e9ed}td,th{border-color:#343a42}}";

/// The interval of the rate; nothing where one replay has none.
fn interval(row: &Row) -> String {
    if row.rate.n < 2 || row.rate.low == row.rate.high {
        return String::new();
    }
    number::interval(row.rate.low, row.rate.high)
}

#[cfg(test)]
mod tests;
