//! The advice as one page, in the report's style.

use std::fmt::Write;

use fathom_lab::analysis::times;
use fathom_lab::experiment::Metric;

use super::{Advice, place};
use crate::document::promise;
use crate::html::{self, escape, label};
use crate::number;
use crate::ranking::{self, Bar, Ranking};
use crate::style::tame;

impl Advice {
    /// The page: answer and picture first, then a line for each device, then everything that was
    /// tried. It needs no script and asks the network for nothing.
    #[must_use]
    pub fn html(&self) -> String {
        let title = tame(&self.heading());
        let mut out = html::page_head(&title, env!("CARGO_PKG_VERSION"));
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<header class=\"page\"><p class=\"brand\"><strong>Fathom</strong> advice</p>\n\
             <h1>{}</h1>\n<p class=\"question\">{}</p></header>\n<main>\n<section class=\"opening\">\n",
            escape(&title),
            text(&self.asked()),
        );
        self.answer(&mut out);
        self.picture(&mut out);
        out += "</section>\n";
        self.devices_table(&mut out);
        list(&mut out, "What it costs the device", &self.lifetime());
        list(&mut out, "What it rests on", &self.rests_on());
        list(&mut out, "Besides", &self.hints);
        list(&mut out, "To be known", &self.notes);
        self.everything(&mut out);
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<h2>Again</h2><pre class=\"command\">{}</pre>\n</main>\n<footer class=\"page\"><p>Made by Fathom {}. This file asks \
             the network for nothing.</p></footer>\n</body>\n</html>\n",
            text(&self.command),
            env!("CARGO_PKG_VERSION")
        );
        out
    }

    fn answer(&self, out: &mut String) {
        *out += "<div class=\"answer\" id=\"answer\" role=\"region\" aria-labelledby=\"h-answer\"><h2 id=\"h-answer\">The answer</h2>\n";
        for finding in self.findings() {
            let _ = writeln!(out, "<p class=\"finding\">{}</p>", text(&finding));
        }
        for (on, lines) in self.to_paste() {
            let lines: Vec<String> = lines.iter().map(|line| text(line)).collect();
            let _ = writeln!(
                out,
                "<p class=\"promise\">For {}:</p><pre class=\"command\">{}</pre>",
                text(&on),
                lines.join("\n")
            );
        }
        for promise in self.promises() {
            let _ = writeln!(out, "<p class=\"promise\">{}</p>", text(&promise));
        }
        for missing in &self.missing {
            let _ = writeln!(out, "<p class=\"assumed\">{}</p>", text(missing));
        }
        *out += "</div>\n";
    }

    /// A panel for each device, of everything that was tried there.
    fn picture(&self, out: &mut String) {
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
                bars.push((panel.clone(), tried.durability, bar));
            }
        }
        let is_modelled = self.devices.iter().any(|it| it.device.is_some());
        let clock = if is_modelled { "simulated, in model time" } else { "as measured on this disk" };
        let note = format!(
            "Best first within what a power cut keeps, {clock}; the line on a bar is the 95 % interval; ◀ is advised."
        );
        let title = "Transactions per second, more is better".to_owned();
        let ranking = Ranking::of_bars(title, note, Metric::Rate, bars);
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        let _ = ranking::html::write(&ranking, &mut bytes);
        *out += &String::from_utf8_lossy(&bytes);
    }

    fn devices_table(&self, out: &mut String) {
        *out += "<h2>By device</h2>\n<div class=\"scroll\"><table><thead><tr><th>device</th><th>use</th><th class=\"n\">a second</th>\
                 <th class=\"n\">times now [95 %]</th><th class=\"n\">p99</th><th class=\"n\">flushes</th><th class=\"n\">written</th>\
                 <th>keeps</th><th>stands</th></tr></thead><tbody>\n";
        for device in &self.devices {
            let title = text(&device.title);
            let Some(named) = device.named() else {
                let _ = writeln!(
                    out,
                    "<tr><th scope=\"row\" title=\"{title}\">{}</th><td colspan=\"8\">nothing that was tried keeps it</td></tr>",
                    label(&tame(place(device)))
                );
                continue;
            };
            let falls: Vec<&str> =
                device.sways.iter().filter(|it| !it.stands).map(|it| it.what.as_str()).collect();
            let stands = match falls.as_slice() {
                _ if device.sways.is_empty() => "not asked".to_owned(),
                [] => "yes".to_owned(),
                all => format!("not with {}", all.join(", ")),
            };
            let gain = device.gain.filter(|_| device.best != device.baseline);
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\" title=\"{title}\">{}</th><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{:.2}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                label(&tame(place(device))),
                label(&tame(&self.name(named))),
                number::plain(1e9 / named.ns()),
                gain.map_or_else(|| "as it is".into(), |gain| times(&gain)),
                named.p99_ns.map_or_else(String::new, number::time),
                named.flushes,
                number::bytes(named.written_bytes),
                promise(named.durability),
                text(&stands),
            );
        }
        *out += "</tbody></table></div>\n";
    }

    /// Every setting on every device, behind a fold.
    fn everything(&self, out: &mut String) {
        *out += "<details class=\"more\"><summary>Everything that was tried in the last round</summary><div class=\"scroll\"><table>\
                 <thead><tr><th>device</th><th>setting</th><th class=\"n\">a second</th><th class=\"n\">one transaction</th>\
                 <th class=\"n\">runs</th><th class=\"n\">CPU</th><th class=\"n\">p99</th><th class=\"n\">flushes</th>\
                 <th class=\"n\">written</th><th>keeps</th></tr></thead><tbody>\n";
        for device in &self.devices {
            for tried in &device.tried {
                let _ = writeln!(
                    out,
                    "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{} <span class=\"iv\">{}</span></td><td class=\"n\">{}</td>\
                     <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                    label(&tame(place(device))),
                    label(&tame(&self.name(tried))),
                    number::plain(1e9 / tried.ns()),
                    number::time(tried.ns()),
                    number::time_interval(tried.ns(), tried.time_ns.low, tried.time_ns.high),
                    tried.runs.len(),
                    number::percent(tried.cpu_ns / tried.ns().max(1e-3)),
                    tried.p99_ns.map_or_else(String::new, number::time),
                    tried.flushes,
                    number::bytes(tried.written_bytes),
                    promise(tried.durability),
                );
            }
        }
        *out += "</tbody></table></div></details>\n";
    }
}

fn list(out: &mut String, head: &str, all: &[String]) {
    if all.is_empty() {
        return;
    }
    let items: Vec<String> = all.iter().map(|it| format!("<li>{}</li>", text(it))).collect();
    let _ = writeln!(out, "<h2>{head}</h2>\n<ul>{}</ul>", items.concat());
}

fn text(text: &str) -> String {
    escape(&tame(text))
}
