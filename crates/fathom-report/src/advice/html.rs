//! The advice as one page, in the report's style.

use fathom_lab::advise::{DeviceAdvice, Trial};
use fathom_lab::experiment::Metric;
use fathom_lab::stats::Interval;
use maud::{Markup, html};

use super::facts::{loss_short, rate_interval, stands};
use super::{Advice, gain_in_table, place};
use crate::number;
use crate::page::{Page, column, label, number_cell, scrolled, sorting};
use crate::ranking::{self, Bar, Ranking};
use crate::style::tame;
use crate::words::durability_text;

impl Advice {
    /// The page: answer and picture first, then a line for each device, then everything that was
    /// tried. It asks the network for nothing, and its script only sorts.
    #[must_use]
    pub fn html(&self) -> String {
        let title = tame(&self.heading());
        let page = Page {
            title: &title,
            version: env!("CARGO_PKG_VERSION"),
            header: html! {
                p.brand { strong { "Fathom" } " advice" }
                h1 { (title) }
                p.question { (tame(&self.asked())) }
            },
            main: html! {
                section.opening {
                    (self.answer())
                    (self.picture())
                }
                (self.devices_table())
                (list("Live, beside what was simulated", &self.live_told()))
                (list("At a power cut, measured", &self.cuts_told()))
                (list("What it costs the device", &self.lifetime()))
                (list("What it rests on", &self.rests_on()))
                (list("Besides", &self.hints))
                (list("To be known", &self.known()))
                (self.everything())
                h2 { "Again" }
                pre.command { (tame(&self.command)) }
            },
            credits: html! {},
            scripts: sorting(),
        };
        page.html()
    }

    fn answer(&self) -> Markup {
        html! {
            div.answer id="answer" role="region" aria-labelledby="h-answer" {
                h2 id="h-answer" { "The answer" }
                @for finding in self.findings() { p.finding { (tame(&finding)) } }
                @if let Some(partial) = &self.partial { p.assumed { (tame(partial)) } }
                @if let Some(lines) = self.to_paste_for_all() {
                    @let lines: Vec<String> = lines.iter().map(|line| tame(line)).collect();
                    p.promise { "For all of them:" }
                    pre.command { (lines.join("\n")) }
                }
                @for (on, lines) in self.to_paste() {
                    @let lines: Vec<String> = lines.iter().map(|line| tame(line)).collect();
                    p.promise { "For " (tame(&on)) ":" }
                    pre.command { (lines.join("\n")) }
                }
                @for promise in self.promises() { p.promise { (tame(&promise)) } }
                @for waits in self.waits() { p.promise { (tame(&waits)) } }
                @for missing in &self.missing { p.assumed { (tame(missing)) } }
            }
        }
    }

    /// A panel for each device, of everything that was tried there.
    fn picture(&self) -> Markup {
        let rate = |ns: f64| 1e9 / ns.max(1e-3);
        let mut bars = Vec::new();
        for device in &self.devices {
            let panel = if self.devices.len() == 1 { String::new() } else { place(device).to_owned() };
            for (number, tried) in device.tried.iter().enumerate() {
                let now = if device.baseline == Some(number) { " (now)" } else { "" };
                let advised = if device.best == Some(number) { " ◀" } else { "" };
                let bar = Bar {
                    cell: number as i64,
                    name: format!("{}{now}{advised}", self.name(tried)),
                    mid: rate(tried.ns()),
                    low: rate(tried.time_ns.high),
                    high: rate(tried.time_ns.low),
                    is_folded: false,
                };
                bars.push((panel.clone(), tried.kept(), bar));
            }
        }
        let is_modelled = self.devices.iter().any(|device| device.device.is_some());
        let clock = if is_modelled { "simulated, in model time" } else { "as measured on this disk" };
        let note = format!(
            "Best first within what a power cut keeps, {clock}; the line on a bar is the 95 % interval; ◀ is advised."
        );
        let title = "Transactions per second, more is better".to_owned();
        ranking::html::figure(&Ranking::of_bars(title, note, Metric::Rate, bars))
    }

    fn devices_table(&self) -> Markup {
        let mut heads = vec![
            ("device", false),
            ("use", false),
            ("per second", true),
            ("times now [95 %]", true),
            ("p99 [95 %]", true),
            ("flushes", true),
            ("written", true),
            ("keeps", false),
        ];
        heads.extend(self.has_losses().then_some(("may lose", false)));
        heads.push(("stands", false));
        html! {
            h2 { "By device" }
            (scrolled("By device", &html! {
                table.sortable.close id="devices" {
                    (head(&heads))
                    tbody { @for device in &self.devices { (self.device_row(device)) } }
                }
            }))
            p.note { (tame(&self.columns())) }
        }
    }

    fn device_row(&self, device: &DeviceAdvice) -> Markup {
        let is_kept = device.best == device.baseline;
        let ratio = if is_kept { Some(1.0) } else { device.gain.map(|gain| gain.ratio) };
        html! {
            tr {
                th scope="row" title=(tame(&device.title)) { (label(&tame(place(device)))) }
                @if let Some(named) = device.best_trial() {
                    @let flushes = named.of_writing(named.flushes);
                    @let written = named.of_writing(named.written_bytes);
                    td { (label(&tame(&self.name(named)))) }
                    td.n data-v=(1e9 / named.ns()) {
                        (number::plain(1e9 / named.ns())) " "
                        span.iv { (rate_interval(named)) }
                    }
                    (number_cell(ratio, &gain_in_table(device)))
                    (time_cell(named.p99_ns.as_ref()))
                    (number_cell(Some(flushes), &format!("{flushes:.2}")))
                    (number_cell(Some(written), &number::bytes(written)))
                    td.words { (self.keeps_told(named)) }
                    @if self.has_losses() { td.words { (loss_short(named)) } }
                    td.words { (tame(&stands(device))) }
                } @else {
                    td colspan=(if self.has_losses() { "9" } else { "8" }) { "nothing that was tried keeps it" }
                }
            }
        }
    }

    /// Every setting on every device, behind a fold.
    fn everything(&self) -> Markup {
        const HEADS: [(&str, bool); 11] = [
            ("device", false),
            ("setting", false),
            ("per second", true),
            ("one transaction", true),
            ("runs", true),
            ("CPU", true),
            ("p99 [95 %]", true),
            ("flushes", true),
            ("written", true),
            ("keeps", false),
            ("may lose", false),
        ];
        html! {
            details.more {
                summary { "Everything that was tried in the last round" }
                (scrolled("Everything that was tried", &html! {
                    table.sortable.close id="tried" {
                        (head(&HEADS))
                        tbody {
                            @for device in &self.devices {
                                @for tried in &device.tried { (self.tried_row(device, tried)) }
                            }
                        }
                    }
                }))
            }
        }
    }

    fn tried_row(&self, device: &DeviceAdvice, tried: &Trial) -> Markup {
        let cpu = tried.cpu_ns / tried.ns().max(1e-3);
        let (flushes, written) = (tried.of_writing(tried.flushes), tried.of_writing(tried.written_bytes));
        // Of a file system that breaks it the promise is not what is kept.
        let kept = match tried.is_apart {
            true => self.keeps_told(tried),
            false => durability_text(tried.kept()).to_owned(),
        };
        html! {
            tr {
                td { (label(&tame(place(device)))) }
                td { (label(&tame(&self.name(tried)))) }
                (number_cell(Some(1e9 / tried.ns()), &number::plain(1e9 / tried.ns())))
                (time_cell(Some(&tried.time_ns)))
                td.n { (tried.runs.len()) }
                (number_cell(Some(cpu), &number::percent(cpu)))
                (time_cell(tried.p99_ns.as_ref()))
                (number_cell(Some(flushes), &format!("{flushes:.2}")))
                (number_cell(Some(written), &number::bytes(written)))
                td.words { (kept) }
                td.words { (loss_short(tried)) }
            }
        }
    }
}

fn head(columns: &[(&str, bool)]) -> Markup {
    html! { thead { tr { @for (name, is_number) in columns { (column(name, *is_number)) } } } }
}

/// A time with its interval; empty where it is not known.
fn time_cell(time: Option<&Interval>) -> Markup {
    html! {
        @if let Some(time) = time {
            td.n data-v=(time.mid) {
                (number::time(time.mid)) " "
                span.iv { (number::time_interval_of(time)) }
            }
        } @else {
            td.n {}
        }
    }
}

fn list(title: &str, all: &[String]) -> Markup {
    html! {
        @if !all.is_empty() {
            h2 { (title) }
            ul { @for text in all { li { (tame(text)) } } }
        }
    }
}
