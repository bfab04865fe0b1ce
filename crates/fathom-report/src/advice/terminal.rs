//! The advice for a terminal.

use std::fmt::Write;

use super::facts::{loss_short, rate_interval, stands};
use super::{Advice, gain_in_table, place};
use crate::number;
use crate::style::{Align, Style, Table, tame};

impl Advice {
    /// The answer, what to paste, a line for each device, and what it rests on.
    #[must_use]
    pub fn terminal(&self, style: &Style) -> String {
        let mut out = format!("\n  {}\n", style.bold(&tame(&self.heading())));
        out += &style.paragraph("  ", &tame(&self.asked()));
        out.push('\n');
        for finding in self.findings() {
            out += &style.paragraph("  ", &style.bold(&tame(&finding)));
        }
        if let Some(partial) = &self.partial {
            out += &style.paragraph("  ", &tame(partial));
        }
        // Where one setting is good for all of them, it is what most will paste: the others stand
        // below.
        let for_all = self.to_paste_for_all();
        let pasted = |out: &mut String, on: &str, lines: &[String]| {
            let _ = write!(out, "\n  {}\n", style.dim(&format!("Paste, for {}:", tame(on))));
            for line in lines {
                let _ = writeln!(out, "    {}", tame(line));
            }
        };
        match &for_all {
            Some(lines) => pasted(&mut out, "all of them", lines),
            None => self.to_paste().iter().for_each(|(on, lines)| pasted(&mut out, on, lines)),
        }
        out.push('\n');
        for text in self.promises() {
            out += &style.paragraph("  ", &tame(&text));
        }
        let whole = self.table(true);
        let table = if whole.width() > style.width { self.table(false) } else { whole };
        let _ = write!(out, "\n{}", table.text(style));
        out += &style.paragraph("  ", &style.dim(&self.columns()));
        for text in self.waits() {
            out += &style.paragraph("  ", &tame(&text));
        }
        if for_all.is_some() {
            for (on, lines) in self.to_paste() {
                pasted(&mut out, &format!("{on} alone"), &lines);
            }
        }
        out.push('\n');
        for (head, all) in [
            ("Live, beside what was simulated", self.live_told()),
            ("At a power cut, measured", self.cuts_told()),
            ("What it costs the device", self.lifetime()),
            ("What it rests on", self.rests_on()),
            ("Besides", self.hints.clone()),
            ("To be known", self.known()),
            ("Not answered", self.missing.clone()),
        ] {
            if all.is_empty() {
                continue;
            }
            let _ = writeln!(out, "  {}", style.bold(head));
            for text in all {
                out += &style.paragraph("    ", &tame(&text));
            }
        }
        out
    }

    /// With the intervals of the rates where there is room for them: those of the gains, which rest
    /// on the rates, and of p99 are always there.
    fn table(&self, has_intervals: bool) -> Table {
        let mut table = Table::default();
        table.column("device", Align::Left);
        table.column("use", Align::Left);
        table.column("per second", Align::Right);
        if has_intervals {
            table.column("[95 %]", Align::Left);
        }
        table.column("times now [95 %]", Align::Right);
        table.column("p99", Align::Right);
        table.column("[95 %]", Align::Left);
        table.column("flushes", Align::Right);
        table.column("written", Align::Right);
        table.column("keeps", Align::Left);
        let has_losses = self.has_losses();
        if has_losses {
            table.column("may lose", Align::Left);
        }
        table.column("stands", Align::Left);
        for device in &self.devices {
            let Some(named) = device.best_trial() else {
                table.row(vec![tame(place(device)), "nothing keeps it".into()]);
                continue;
            };
            let mut cells =
                vec![tame(place(device)), tame(&self.name(named)), number::plain(1e9 / named.ns())];
            cells.extend(has_intervals.then(|| rate_interval(named)));
            cells.extend([
                gain_in_table(device),
                named.p99_ns.map_or_else(String::new, |p99| number::time(p99.mid)),
                named.p99_ns.map_or_else(String::new, |p99| number::time_interval_of(&p99)),
                format!("{:.2}", named.of_writing(named.flushes)),
                number::bytes(named.of_writing(named.written_bytes)),
                self.keeps_told(named),
            ]);
            cells.extend(has_losses.then(|| loss_short(named)));
            cells.push(tame(&stands(device)));
            table.row(cells);
        }
        table
    }
}
