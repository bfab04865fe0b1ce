//! Simulated runs: an application on devices, as a table, a figure, a page, CSV and JSON.

mod picture;

use std::fmt::Write;

use fathom_lab::simulate::{Row, Study};
use serde::Serialize;

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

/// What every number is, by whether rows are of their device alone.
const WHAT: [&str; 3] = [
    "simulated: recorded once, replayed on the models in virtual time; model time, with the CPU time of the recording",
    "simulated: recorded once, replayed on the models in virtual time; model time of the device alone, without CPU time",
    "simulated: recorded once, replayed on the models in virtual time; model time, with the CPU time of the recording, but for what \
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
                    p99(row, style.width >= WIDE),
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
        told.chain(self.losing()).chain(luck).chain(without).collect()
    }

    /// What is known of the file systems, beside what settings promise.
    fn losing(&self) -> Vec<String> {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        for (label, filesystem) in &self.study.losing {
            match all.iter_mut().find(|known| known.0 == filesystem.as_str()) {
                Some(known) => known.1.push(label.as_str()),
                None => all.push((filesystem.as_str(), vec![label.as_str()])),
            }
        }
        let told = |(filesystem, labels): (&str, Vec<&str>)| {
            format!(
                "{}: explored power cuts on {filesystem} left databases that cannot be opened, or a file system that cannot be \
                 mounted, whatever these settings promise (docs/power-cut.md).",
                labels.join("; ")
            )
        };
        all.into_iter().map(told).collect()
    }

    /// One line for each cell, phase and device.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "cell,label,durability,phase,x,unit,device,count,runs,draws,rate_per_s,rate_low,rate_high,model_ns,model_low_ns,\
             model_high_ns,cpu_ns,device_ns,other_ns,p50_ns,p99_ns,p99_low_ns,p99_high_ns,p999_ns,flushes,written_bytes,read_bytes,by_the_device\r\n",
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
                or_nothing(row.p99_interval.map(|p99| p99.low)),
                or_nothing(row.p99_interval.map(|p99| p99.high)),
                or_nothing(row.p999_ns),
                row.flushes.to_string(),
                row.written_bytes.to_string(),
                row.read_bytes.to_string(),
                u8::from(row.by_the_device).to_string(),
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
}

/// So many columns of a terminal have room for p99's interval.
const WIDE: usize = 110;

/// p99, with its interval where there is room for that and it has one.
fn p99(row: &Row, has_room: bool) -> String {
    let interval = row.p99_interval.filter(|_| has_room);
    let interval = interval.map_or_else(String::new, |p99| format!(" {}", number::time_interval_of(&p99)));
    row.p99_ns.map_or_else(String::new, |ns| number::time(ns) + &interval)
}

/// The interval of the rate; nothing where one replay has none.
fn interval(row: &Row) -> String {
    if row.rate.n < 2 || row.rate.low == row.rate.high {
        return String::new();
    }
    number::interval(row.rate.low, row.rate.high)
}

#[cfg(test)]
mod tests;
