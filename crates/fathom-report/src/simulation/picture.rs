//! What was simulated as ranked bars, and as a page in the report's style.

use fathom_lab::experiment::Metric;
use fathom_lab::simulate::Row;
use fathom_workload::spec::Durability;
use maud::{Markup, html};

use super::{Group, Simulation, interval};
use crate::figure::plural;
use crate::number;
use crate::page::{Page, column, label, number_cell, scrolled, sorting};
use crate::ranking::{self, Bar, Ranking, keeps};
use crate::style::tame;
use crate::words::{distinct, durability_text, joined};

/// Devices that a sentence names before it only counts them.
const NAMED: usize = 4;

/// Fewer recordings prove nothing.
const PROVING: usize = 3;

/// Settings whose rates are so near each other, as a part of the faster one's, are named together.
const NEAR: f64 = 0.95;

const NOTE: &str = "Best first within what a power cut keeps; the line on a bar is the 95 % interval, and where two overlap, their \
    order is not proven.";

/// Of numbers, after the setting, the device and what is kept.
const HEADS: [&str; 11] = [
    "per second",
    "model time",
    "device",
    "CPU",
    "other",
    "p50",
    "p99",
    "p99.9",
    "flushes",
    "written",
    "read",
];

/// The settings that are fastest on a device, and whether they are [`NEAR`] each other.
type Fastest = (Vec<String>, bool);

impl Simulation {
    /// Ranked bars with direct labels, as a file.
    #[must_use]
    pub fn svg(&self) -> String {
        let title = format!("{}: {}", self.heading(), self.quantity());
        ranking::svg::draw(&self.ranking(tame(&title)))
    }

    /// The page: answer and picture first, then everything as a table, and what must be known. It
    /// asks the network for nothing, and its script only sorts.
    #[must_use]
    pub fn html(&self) -> String {
        let title = tame(&self.heading());
        let page = Page {
            title: &title,
            version: env!("CARGO_PKG_VERSION"),
            header: html! {
                p.brand { strong { "Fathom" } " simulation" }
                h1 { (title) }
                p.question { "What was " (self.what()) "." }
            },
            main: html! {
                section.opening {
                    div.answer id="answer" role="region" aria-labelledby="h-answer" {
                        h2 id="h-answer" { "The answer" }
                        @for finding in self.findings() { p.finding { (tame(&finding)) } }
                    }
                    (ranking::html::figure(&self.ranking(format!("{}, more is better", self.quantity()))))
                }
                (self.table())
                (self.known())
            },
            credits: html! {},
            scripts: sorting(),
        };
        page.html()
    }

    /// What is measured: `Transactions per second of model time, simulated`.
    fn quantity(&self) -> String {
        let mut units = self.study.rows.iter().map(|row| row.unit.as_str());
        let first = units.next().unwrap_or("execution");
        let unit = plural(if units.all(|unit| unit == first) { first } else { "execution" });
        let mut letters = unit.chars();
        let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{capital}{} per second of model time, simulated", letters.as_str())
    }

    /// What a power cut leaves of a row's commits: what its settings promise, but on a file system
    /// that is known to lose databases with them.
    fn kept(&self, row: &Row) -> Option<Durability> {
        let is_losing = self.study.losing.iter().any(|(label, _)| *label == row.title);
        row.durability.map(|own| if is_losing { own.min(Durability::ProcessCrash) } else { own })
    }

    fn has_settings(&self) -> bool {
        self.study.rows.iter().any(|row| row.title != self.study.rows[0].title)
    }

    fn has_phases(&self) -> bool {
        let first = |row: &Row| (row.phase.clone(), row.x);
        self.study.rows.iter().any(|row| first(row) != first(&self.study.rows[0]))
    }

    /// Whether some rows have CPU time and some are of their device alone: no race between these.
    fn is_mixed(&self) -> bool {
        self.study.rows.iter().any(|row| row.by_the_device != self.study.rows[0].by_the_device)
    }

    /// The settings of each device; where there is one setting, the devices.
    fn ranking(&self, title: String) -> Ranking {
        let (has_settings, has_phases, is_mixed) = (self.has_settings(), self.has_phases(), self.is_mixed());
        let has_units = self.study.rows.iter().any(|row| row.unit != self.study.rows[0].unit);
        let bar = |row: &Row| {
            let (panel, name) = if has_settings {
                (row.device.as_str(), self.name_of(row))
            } else {
                ("", row.device.as_str())
            };
            let mut panel: Vec<String> = Vec::from_iter((!panel.is_empty()).then(|| tame(panel)));
            if has_phases {
                panel.push(tame(&row.phase));
                panel.extend(row.x.map(number::plain));
            }
            panel.extend(has_units.then(|| tame(&plural(&row.unit))));
            panel.extend((is_mixed && row.by_the_device).then(|| "by the device alone".to_owned()));
            let is_alone = row.rate.n < 2;
            let bar = Bar {
                cell: row.cell,
                name: tame(name),
                mid: row.rate.mid,
                low: if is_alone { row.rate.mid } else { row.rate.low },
                high: if is_alone { row.rate.mid } else { row.rate.high },
                is_folded: false,
            };
            (panel.join(", "), self.kept(row), bar)
        };
        let bars = self.study.rows.iter().map(bar).collect();
        Ranking::of_bars(title, NOTE.to_owned(), Metric::Rate, bars)
    }

    /// The fastest of what keeps most on each device, by the means, with what comes near it or
    /// whose interval meets that of the fastest, so that their order is not proven; of one setting,
    /// from the slowest device to the fastest. Of several phases the first. What has no CPU time is
    /// not compared with what has some.
    fn findings(&self) -> Vec<String> {
        let is_mixed = self.is_mixed();
        let is_compared = |row: &&Row| !(is_mixed && row.by_the_device);
        let Some(first) = self.study.rows.iter().find(is_compared) else { return Vec::new() };
        // Operations on files are no race for transactions.
        let of_phase = |row: &&Row| {
            (&row.phase, row.x, &row.unit) == (&first.phase, first.x, &first.unit) && is_compared(row)
        };
        let rows: Vec<&Row> = self.study.rows.iter().filter(of_phase).collect();
        let unit = format!("{} per second of model time", plural(&first.unit));
        let phase = if self.has_phases() { format!(" ({})", first.phase) } else { String::new() };
        if !self.has_settings() {
            return vec![format!("{}{phase}: {} {unit}.", first.title, span(&rows))];
        }
        let most = rows.iter().map(|row| self.kept(row)).max().flatten();
        let kept: Vec<&Row> = rows.into_iter().filter(|row| self.kept(row) == most).collect();
        let kept_runs = kept.iter().map(|row| row.runs).min().unwrap_or(0);
        let devices = distinct(kept.iter().map(|row| row.device.clone()));
        let mut sentences: Vec<(Fastest, Vec<&Row>)> = Vec::new();
        for device in &devices {
            let own = || kept.iter().filter(|row| row.device == *device).copied();
            let Some(best) = own().max_by(|a, b| a.rate.mid.total_cmp(&b.rate.mid)) else { continue };
            let is_near = |row: &&Row| row.rate.mid >= best.rate.mid * NEAR;
            let first: Vec<&Row> =
                own().filter(|row| is_near(row) || row.rate.high >= best.rate.low).collect();
            let names: Vec<String> = first.iter().map(|row| self.name_of(row).to_owned()).collect();
            let names = (names, first.iter().all(is_near));
            match sentences.iter_mut().find(|known| known.0 == names) {
                Some(known) => known.1.extend(first),
                None => sentences.push((names, first)),
            }
        }
        let told = sentences.into_iter().enumerate().map(|(place, ((names, are_near), rows))| {
            let promise = if place == 0 { format!("{}: ", keeps(most).0) } else { String::new() };
            let are = match (names.len(), are_near) {
                (1, _) => "is fastest",
                (_, true) => "are fastest, within 5 % of each other,",
                (_, false) => "are fastest, and their order is not proven,",
            };
            let on = places(&rows, devices.len());
            format!("{promise}{} {are} on {on}{phase}: {} {unit}.", joined(&names), span(&rows))
        });
        let others = self.study.rows.iter().filter(|row| !is_compared(row));
        let others = distinct(others.map(|row| self.name_of(row).to_owned()));
        let not_compared = (!others.is_empty()).then(|| {
            format!(
                "Not compared with these, for it is replayed by the device alone, without CPU time: {}.",
                joined(&others)
            )
        });
        // Of so few recordings the order rests on their means alone.
        let is_bare = kept_runs < PROVING;
        let bare = is_bare.then(|| {
            "Which is fastest is told by the means of fewer than three recordings, and not proven: --repeat 3 and more tell."
                .to_owned()
        });
        told.chain(bare).chain(not_compared).collect()
    }

    /// What tells a setting from the others: without the name of the trace, which is the title.
    fn name_of<'a>(&self, row: &'a Row) -> &'a str {
        let rest = row.title.strip_prefix(&self.title).and_then(|rest| rest.strip_prefix(' '));
        rest.filter(|rest| !rest.trim().is_empty()).unwrap_or(&row.title)
    }

    fn table(&self) -> Markup {
        html! {
            section aria-labelledby="h-values" {
                h2 id="h-values" { "Every value" }
                p.note { "Times, flushes and bytes are of one execution; device, CPU and other are parts of model time." }
                (scrolled("Every value", &html! {
                    table.sortable.close id="simulated" {
                        thead {
                            tr {
                                @for name in ["what", "on", "keeps"] { (column(name, false)) }
                                @for name in HEADS { (column(name, true)) }
                            }
                        }
                        tbody {
                            @for group in self.groups() {
                                @for row in self.ranked(group) { (self.row(group, row)) }
                            }
                        }
                    }
                }))
            }
        }
    }

    fn row(&self, group: Group<'_>, row: &Row) -> Markup {
        let time = |ns: f64| number_cell(Some(ns), &number::time(ns));
        let or_nothing = |ns: Option<f64>| number_cell(ns, &ns.map_or_else(String::new, number::time));
        let bytes = |bytes: f64| number_cell(Some(bytes), &number::bytes(bytes));
        html! {
            tr {
                th scope="row" { (label(&tame(&self.name(group)))) }
                td { (label(&tame(&row.device))) }
                td.words { (durability_text(self.kept(row))) }
                td.n data-v=(row.rate.mid) {
                    (number::plain(row.rate.mid)) " " span.iv { (interval(row)) }
                }
                @for ns in [row.model_ns.mid, row.device_ns, row.cpu_ns, row.other_ns] { (time(ns)) }
                (or_nothing(row.p50_ns))
                td.n data-v=[row.p99_ns] {
                    (row.p99_ns.map_or_else(String::new, number::time))
                    @if let Some(p99) = row.p99_interval {
                        span.iv.wraps { (number::time_interval_of(&p99)) }
                    }
                }
                (or_nothing(row.p999_ns))
                (number_cell(Some(row.flushes), &format!("{:.2}", row.flushes)))
                (bytes(row.written_bytes))
                (bytes(row.read_bytes))
            }
        }
    }

    fn known(&self) -> Markup {
        let notes = self.notes();
        html! {
            @if !notes.is_empty() {
                h2 { "To be known" }
                ul { @for note in &notes { li { (tame(note)) } } }
            }
        }
    }
}

/// `sd-slow and nvme`, `7 devices`, `all 12 devices`.
fn places(rows: &[&Row], all: usize) -> String {
    let names = distinct(rows.iter().map(|row| row.device.clone()));
    match names.len() {
        1..=NAMED => joined(&names),
        some if some == all => format!("all {all} devices"),
        some => format!("{some} devices"),
    }
}

/// `50 (sd-slow) to 2,000 (nvme)`.
fn span(rows: &[&Row]) -> String {
    let by_rate = |a: &&&Row, b: &&&Row| a.rate.mid.total_cmp(&b.rate.mid);
    match (rows.iter().min_by(by_rate), rows.iter().max_by(by_rate)) {
        (Some(low), Some(high)) if low.device != high.device => format!(
            "{} ({}) to {} ({})",
            number::plain(low.rate.mid),
            low.device,
            number::plain(high.rate.mid),
            high.device
        ),
        (Some(low), Some(high)) if low.rate.mid < high.rate.mid => {
            format!("{} to {}", number::plain(low.rate.mid), number::plain(high.rate.mid))
        }
        (Some(one), _) => number::plain(one.rate.mid),
        _ => String::new(),
    }
}
