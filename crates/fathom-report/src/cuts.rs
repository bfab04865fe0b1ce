//! What power cuts left: promise beside what was measured, for each cell, and why the worst is as
//! it is.

use std::fmt::Write;
use std::path::Path;

use fathom_cut::{Class, Keeps, Outcome, RecordedRun};
use fathom_lab::naming::title_of_words;
use fathom_stack::StackRecord;
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use crate::style::{Align, Style, Table, tame};
use crate::words::{distinct, durability_text};

/// One cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cut {
    /// Its number, by which a state of it is named.
    pub number: usize,
    /// Its settings, as they were asked for.
    pub label: String,
    /// What was recorded.
    #[serde(flatten)]
    pub recorded: RecordedRun,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The same in words.
    pub worst_said: String,
    /// States judged in a second.
    pub states_per_s: f64,
}

/// All cells of a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cuts {
    /// In order of their numbers.
    pub cells: Vec<Cut>,
    /// What could not be tried, and why.
    pub without: Vec<(String, String)>,
}

impl Cut {
    /// Of a judged run.
    #[must_use]
    pub fn new(number: usize, label: String, recorded: RecordedRun, outcome: Outcome) -> Cut {
        let worst = outcome.tally.worst.as_ref();
        let worst_said = worst.map_or_else(|| "nothing was tried".to_owned(), |pair| pair.1.to_string());
        let states_per_s = outcome.tally.states as f64 / (outcome.wall_ns as f64 / 1e9).max(1e-9);
        // The statements are the recording's affair.
        let recorded = RecordedRun { script: None, ..recorded };
        Cut { number, label, recorded, outcome, worst_said, states_per_s }
    }

    /// The worst, short.
    fn worst(&self) -> String {
        match &self.outcome.tally.worst {
            None => "nothing tried".into(),
            Some((_, verdict @ (fathom_cut::Verdict::Kept | fathom_cut::Verdict::Lost(_)))) => {
                verdict.to_string()
            }
            Some((_, verdict)) => verdict.class().name().to_owned(),
        }
    }

    /// Its label as the tables of runs write it.
    #[must_use]
    pub fn title(&self) -> String {
        title_of_words(&self.label)
    }

    /// The file system of its label, and the settings.
    fn parts(&self) -> (&str, &str) {
        self.label.split_once(' ').unwrap_or((&self.label, ""))
    }

    /// How often it was that bad or worse than kept.
    fn share(&self) -> String {
        match self.outcome.tally.not_kept() {
            0 => String::new(),
            states => format!("{states}"),
        }
    }
}

/// The worst of a cell's runs, and of how many states.
fn found(runs: &[&Cut]) -> String {
    let rank = |cut: &&&Cut| cut.outcome.tally.worst.as_ref().map(|worst| worst.1.clone());
    let Some(worst) = runs.iter().max_by_key(rank) else { return String::new() };
    let sum = |of: fn(&Cut) -> u64| runs.iter().map(|cut| of(cut)).sum::<u64>();
    let states = sum(|cut| cut.outcome.tally.states);
    let all = match runs {
        [run] if run.outcome.judged_all() => "all ",
        _ => "",
    };
    // Of all runs: damaged where the worst is, else without a commit.
    let is_damaged =
        worst.outcome.tally.worst.as_ref().is_some_and(|worst| worst.1.class() > Class::LostSeveral);
    let least = if is_damaged { Class::LostSeveral } else { Class::Kept };
    let lost = match runs.iter().map(|cut| cut.outcome.tally.worse_than(least)).sum::<u64>() {
        0 => String::new(),
        lost => format!("{} of ", grouped(lost)),
    };
    let broken = if runs.iter().any(|cut| cut.outcome.breaks_promise) { " (!)" } else { "" };
    format!("{}{broken} ({lost}{all}{})", worst.worst(), grouped(states))
}

/// Why the settings of a cell promise nothing at a power cut, where that is the mount's doing.
fn without_flushes(recorded: &RecordedRun) -> Option<String> {
    // What it has answered it has no need to flush.
    if recorded.behaviour.keeps == Keeps::Answered {
        return None;
    }
    let filesystem = &recorded.filesystem;
    let (driver, mount) = (filesystem.driver.clone(), filesystem.options.clone());
    let why = StackRecord { filesystem: driver, mount, ..StackRecord::default() }.volatile()?;
    Some(format!("Nothing is promised of {}: {}.", tame(&filesystem.driver), tame(&why)))
}

/// What is not tried, and can be worse than what was found, where any of the settings promise
/// nothing at a power cut: a run sends little but what it syncs, so that without syncs no state has
/// a part of a commit.
pub(crate) fn unsynced(mut promises: impl Iterator<Item = Durability>) -> Option<&'static str> {
    promises.any(|promise| promise <= Durability::ProcessCrash).then_some(
        "Where settings promise nothing at a power cut, worse is possible than what was measured: what the \
         kernel sends of its own accord (another program syncs, time passes, memory runs short) is not \
         tried, and can leave a part of a commit, and so a damaged database (fathom cut --write-back tries \
         it).",
    )
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl Cuts {
    /// Whether a cell lost what its settings promise.
    #[must_use]
    pub fn breaks_promise(&self) -> bool {
        self.cells.iter().any(|cell| cell.outcome.breaks_promise)
    }

    /// A table of promise and measurement, and below it why. `recordings`: where they are kept.
    #[must_use]
    pub fn terminal(&self, style: &Style, recordings: Option<&Path>) -> String {
        let mut table = Table::default();
        for (head, align) in [
            ("", Align::Right),
            ("cell", Align::Left),
            ("promised at a power cut", Align::Left),
            ("measured worst", Align::Left),
            ("states", Align::Right),
            ("of", Align::Right),
            ("not kept", Align::Right),
            ("per s", Align::Right),
        ] {
            table.column(head, align);
        }
        for cell in &self.cells {
            table.row(vec![
                cell.number.to_string(),
                tame(&cell.title()),
                durability_text(Some(cell.recorded.promise)).to_owned(),
                cell.worst() + if cell.outcome.breaks_promise { " (!)" } else { "" },
                cell.outcome.tally.states.to_string(),
                cell.outcome.states_possible.to_string(),
                cell.share(),
                format!("{:.0}", cell.states_per_s),
            ]);
        }
        let mut out = format!("\n  {}\n{}\n", style.bold("What a power cut leaves"), table.text(style));
        for cell in &self.cells {
            let (Some((number, verdict)), Some(why)) = (&cell.outcome.tally.worst, &cell.outcome.explanation)
            else {
                continue;
            };
            let head = format!("{}/{number}, {}: {verdict}", cell.number, cell.title());
            let _ = writeln!(out, "  {}", style.bold(&tame(&head)));
            for line in &why.lines {
                out += &style.paragraph("    ", &tame(line));
            }
        }
        for (label, reason) in &self.without {
            let title = title_of_words(label);
            // What mount(8) says has several lines.
            let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
            out += &style.paragraph("  ", &tame(&format!("{title}: not tried: {reason}.")));
        }
        for note in self.notes(recordings) {
            out += &style.paragraph("  ", &note);
        }
        out
    }

    /// A table in Markdown: settings by file systems, each cell with its worst state and how many
    /// were judged; runs of the same cell count together.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut filesystems: Vec<&str> = Vec::new();
        let mut rows: Vec<(&str, Vec<&Cut>)> = Vec::new();
        for cell in &self.cells {
            let (filesystem, settings) = cell.parts();
            if !filesystems.contains(&filesystem) {
                filesystems.push(filesystem);
            }
            match rows.iter_mut().find(|row| row.0 == settings) {
                Some((_, cells)) => cells.push(cell),
                None => rows.push((settings, vec![cell])),
            }
        }
        let mut out = format!("| settings | promise | {} |\n", filesystems.join(" | "));
        out += &"|---".repeat(filesystems.len() + 2);
        out += "|\n";
        for (settings, cells) in rows {
            let promised =
                cells.first().map(|cell| durability_text(Some(cell.recorded.promise))).unwrap_or_default();
            let _ = write!(out, "| {} | {promised} |", tame(&title_of_words(settings)));
            for filesystem in &filesystems {
                let runs: Vec<&Cut> =
                    cells.iter().copied().filter(|cell| cell.parts().0 == *filesystem).collect();
                let _ = write!(out, " {} |", found(&runs));
            }
            out.push('\n');
        }
        out
    }

    /// What must be known to read the table.
    fn notes(&self, recordings: Option<&Path>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.breaks_promise() {
            notes.push("(!): worse than what the settings promise.".to_owned());
        }
        let without_flushes = self.cells.iter().filter_map(|cell| without_flushes(&cell.recorded));
        notes.extend(distinct(without_flushes));
        if self.cells.iter().any(|cell| !cell.outcome.judged_all()) {
            notes.push(
                "Not all states were judged: a cell that shows nothing lost has lost nothing in those that were.".into(),
            );
        }
        let (beside, alone): (Vec<&Cut>, Vec<&Cut>) =
            self.cells.iter().partition(|cell| cell.recorded.write_back);
        notes.extend(unsynced(alone.iter().map(|cell| cell.recorded.promise)).map(str::to_owned));
        if !beside.is_empty() {
            notes.push(
                "Beside write-back by the kernel: the file system was synced beside the run, at moments that no commit waits for.".into(),
            );
        }
        let keeps = self.cells.first().map(|cell| cell.recorded.behaviour.keeps);
        notes.extend(keeps.map(|keeps| match keeps {
            Keeps::Flushed => "The device keeps what it had answered before a flush that was done; of the rest any part.",
            Keeps::Lies => "The device lies: none of its flushes keeps anything.",
            Keeps::Answered => "The device keeps all that it had answered (power-loss protection).",
        }
        .to_owned()));
        let named = self.cells.iter().find_map(|cell| {
            let worst = cell.outcome.tally.worst.as_ref().filter(|pair| pair.1.class() != Class::Kept)?;
            Some(format!("{}/{}", cell.number, worst.0))
        });
        // A number names a state of one recording: another run's operations are others.
        notes.extend(named.map(|name| match recordings {
            Some(directory) => {
                format!("One state again: --replay {} --state {name}.", tame(&directory.display().to_string()))
            }
            None => format!(
                "The runs were not kept, and {name} names another state of another run: with --record DIR, --replay DIR judges one again."
            ),
        }));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of DELETE/OFF "last 101 commits lost", in "all 144" of its states, was all
    /// that was said. Beside another program that synced meanwhile, its database was damaged in 36
    /// of 151.
    #[test]
    fn settings_without_syncs_are_said_to_lose_more_than_was_measured() {
        let said = |promises: &[Durability]| unsynced(promises.iter().copied());
        let note = said(&[Durability::PowerCut, Durability::ProcessCrash]).unwrap();
        assert!(note.contains("worse is possible") && note.contains("a damaged database"), "{note}");
        assert!(said(&[Durability::None]).is_some());
        assert_eq!(said(&[Durability::PowerCutPrefix, Durability::PowerCutAllButLast]), None);
        assert_eq!(said(&[]), None);
    }

    /// What happened: between the lines of what mount(8) had said stood question marks: "mnt? it
    /// said: mount: …".
    #[test]
    fn a_reason_of_several_lines_is_one_paragraph_without_marks() {
        let reason = "failed: mount /dev/loop3 mnt\n  it said: bad option\n          see dmesg\u{1b}[2J";
        let without = vec![("ext4 wal/full".to_owned(), reason.to_owned())];
        let shown = Cuts { without, ..Cuts::default() }.terminal(&Style::PLAIN, None);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = "not tried: failed: mount /dev/loop3 mnt it said: bad option see dmesg?[2J.";
        assert!(shown.contains(said), "{shown}");
    }
}
