//! Simulated runs: an application on devices, as a table, a figure, a page, CSV and JSON.

use std::fmt::Write;

use fathom_lab::simulate::{Row, Study};
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::canvas::{Canvas, INK, MUTED, WIDTH, document};
use crate::number;
use crate::page;
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

/// What every number is, by whether rows are of their device alone.
const WHAT: [&str; 3] = [
    "simulated: recorded once, replayed on the models in virtual time; model time, with the CPU time of this machine",
    "simulated: recorded once, replayed on the models in virtual time; model time of the device alone, without CPU time",
    "simulated: recorded once, replayed on the models in virtual time; model time, with the CPU time of this machine, but for what \
     is said to be replayed by its device alone",
];

/// A cell, a phase and an abscissa, whose devices are compared.
type Group<'a> = (&'a str, &'a str, Option<f64>);

impl Simulation {
    /// Names of cells and phases that have rows, in their order.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups = Vec::new();
        for row in &self.study.rows {
            let group = (row.title.as_str(), row.phase.as_str(), row.x);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// The rows of one group, the fastest first.
    fn ranked(&self, group: Group<'_>) -> Vec<&Row> {
        let is_of = |row: &&Row| (row.title.as_str(), row.phase.as_str(), row.x) == group;
        let mut rows: Vec<&Row> = self.study.rows.iter().filter(is_of).collect();
        rows.sort_by(|a, b| b.rate.mid.total_cmp(&a.rate.mid));
        rows
    }

    fn what(&self) -> &'static str {
        let alone = self.study.rows.iter().filter(|row| row.by_the_device).count();
        match alone {
            0 => WHAT[0],
            all if all == self.study.rows.len() => WHAT[1],
            _ => WHAT[2],
        }
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
    fn name(&self, (title, phase, x): Group<'_>) -> String {
        let x = x.map_or_else(String::new, |x| format!(", {}", number::plain(x)));
        let phases = self.study.rows.iter().any(|row| row.phase != phase);
        if phases { format!("{title}: {phase}{x}") } else { format!("{title}{x}") }
    }

    /// A table for each cell and phase, the fastest device first.
    #[must_use]
    pub fn terminal(&self, style: &Style) -> String {
        let mut out =
            format!("\n  {}\n{}", style.bold(&tame(&self.heading())), style.paragraph("  ", self.what()));
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
        let all = self.study.notes.iter().flat_map(|(label, all)| all.iter().map(move |note| (label, note)));
        for (label, note) in all {
            match notes.iter_mut().find(|other| other.0 == *note) {
                Some(known) => known.1.push(label),
                None => notes.push((note.clone(), vec![label])),
            }
        }
        let told = notes.into_iter().map(|(note, labels)| format!("{}: {note}.", labels.join("; ")));
        let is_luck = self.study.rows.iter().any(|row| row.runs == 1 && row.draws > 1);
        let luck = is_luck.then(|| {
            "Of one recorded run an interval holds the luck of the device's times, and not how far another recording would \
             differ: --repeat 3 and more record that."
                .to_owned()
        });
        let without = self.study.without.iter().map(|(label, why)| format!("{label}: not simulated: {why}."));
        told.chain(luck).chain(without).collect()
    }

    /// One line for each cell, phase and device.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "cell,label,durability,phase,x,unit,device,count,runs,draws,rate_per_s,rate_low,rate_high,model_ns,model_low_ns,\
             model_high_ns,cpu_ns,device_ns,other_ns,p50_ns,p99_ns,p999_ns,flushes,written_bytes,read_bytes\r\n",
        );
        for row in &self.study.rows {
            let durability = row.durability.and_then(|durability| serde_json::to_value(durability).ok());
            let durability =
                durability.as_ref().and_then(|durability| durability.as_str()).unwrap_or_default();
            let or_nothing = |other: Option<f64>| other.map_or_else(String::new, |value| format!("{value}"));
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
                or_nothing(row.p999_ns),
                row.flushes.to_string(),
                row.written_bytes.to_string(),
                row.read_bytes.to_string(),
            ];
            let mut line = Vec::new();
            // Writing to memory cannot fail.
            let _ = crate::csv::line(&fields, &mut line);
            out += &String::from_utf8_lossy(&line);
        }
        out
    }

    /// Everything, as a value to be written as JSON.
    #[must_use]
    pub fn json(&self) -> impl Serialize {
        serde_json::json!({ "what": self.what(), "simulation": self })
    }

    /// Ranked bars with direct labels, a panel for each cell and phase, all on one axis.
    #[must_use]
    pub fn svg(&self) -> String {
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
        let (mut body, mut bars, mut y) = (Canvas::default(), Canvas::default(), 22.0);
        let heading = tame(&self.heading());
        body.text(0.0, y, &heading, "start", INK, 16, true);
        y += 18.0;
        let axis = if is_log { "logarithmic bars" } else { "bars from zero" };
        let unit = self.study.rows.first().map_or("execution", |row| row.unit.as_str());
        let about = format!("{unit}s per second of model time, {axis}; simulated");
        body.text(0.0, y, &tame(&about), "start", MUTED, 11, false);
        for group in self.groups() {
            y += 30.0;
            body.text(0.0, y, &tame(&self.name(group)), "start", INK, 12, true);
            y += 8.0;
            for row in self.ranked(group) {
                let length = (share(row.rate.mid) * (WIDTH - LEFT - RIGHT)).max(1.0);
                bars.area(LEFT, y + 4.0, length, 14.0, "#0b5a9c");
                body.text(LEFT - 8.0, y + 15.0, &tame(&row.device), "end", INK, 12, false);
                let label =
                    format!("{} /s · {}", number::plain(row.rate.mid), number::time(row.model_ns.mid));
                body.text(LEFT + length + 6.0, y + 15.0, &label, "start", INK, 11, false);
                y += STEP;
            }
        }
        bars.put_all(&body);
        document(&heading, &about, y + 14.0, &bars)
    }

    /// One page with the figure, the table and the notes.
    #[must_use]
    pub fn html(&self) -> String {
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
        let title = tame(&self.heading());
        page::finished(html! {
            (page::DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    (page::generator(env!("CARGO_PKG_VERSION")))
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (title) }
                    p { (self.what()) ". Times, flushes and bytes are of one execution." }
                    (PreEscaped(self.svg()))
                    div.wide {
                        table {
                            tr { @for head in heads { th { (head) } } }
                            @for group in self.groups() {
                                @for row in self.ranked(group) { (self.row(group, row)) }
                            }
                        }
                    }
                    ul { @for note in &self.notes() { li { (tame(note)) } } }
                }
            }
        })
    }

    fn row(&self, group: Group<'_>, row: &Row) -> Markup {
        let fields = [
            tame(&self.name(group)),
            tame(&row.device),
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
        html! { tr { @for field in &fields { td { (field) } } } }
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
