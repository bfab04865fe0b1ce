//! A setting on a device, and what it took there.

use std::collections::BTreeMap;

use fathom_device::Model;
use fathom_workload::spec::Durability;
use serde::Serialize;

use super::{Candidate, Loss, Writing, is_losing};
use crate::analysis::Analysis;
use crate::simulate::{EACH_FILE, Question, Row, StudyError, study};
use crate::stats::{Interval, mean_interval};
use crate::store::{CellRow, Results, StoreError};

/// A setting that was tried. Times are of one transaction.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The settings.
    pub candidate: Candidate,
    /// The file system; `dir` where it is a directory.
    pub filesystem: String,
    /// The cell's label in the results.
    pub label: String,
    /// What the settings promise, as the engine says.
    pub durability: Option<Durability>,
    /// Block and time of each run, ns: a geometric mean over draws where the device draws its
    /// times.
    pub runs: Vec<(u32, f64)>,
    /// Time with its 95 % interval, ns.
    pub time_ns: Interval,
    /// CPU time in that, ns.
    pub cpu_ns: f64,
    /// Transactions of one run.
    pub count: u64,
    /// 99th percentile, ns, where single transactions were told: over the runs, as the time, with
    /// its 95 % interval.
    pub p99_ns: Option<Interval>,
    /// Flushes; on this disk calls of fsync.
    pub flushes: f64,
    /// Bytes written to the device; on this disk by SQLite.
    pub written_bytes: f64,
    /// Transactions of one run that write; none where single ones were not kept.
    pub writing: Option<u64>,
    /// What a power cut may take, where it may take the last commits.
    pub loss: Option<Loss>,
    /// Whether the log of this trace is ever so long that the length that is set for it matters;
    /// none where none is set, or nobody knows.
    pub is_log_felt: Option<bool>,
    /// Whether a power cut may leave a transaction over several files in some of them with it,
    /// where that must not be. JSON has what it promises, and for how many files.
    #[serde(skip)]
    pub is_apart: bool,
}

impl Trial {
    /// What a power cut leaves: what the settings promise, but on a file system with which they are
    /// known not to keep that, and but for a transaction over several files, of which WAL keeps
    /// each part by itself.
    #[must_use]
    pub fn kept(&self) -> Option<Durability> {
        let most = match is_losing(&self.filesystem, &self.candidate.journal_mode) {
            true => Durability::ProcessCrash,
            false if self.is_apart => Durability::PowerCutPrefix,
            false => return self.durability,
        };
        self.durability.map(|own| own.min(most))
    }

    /// The same of an application whose transactions over several files must be kept whole.
    #[must_use]
    pub fn of_whole_transactions(self) -> Trial {
        Trial { is_apart: self.candidate.journal_mode == "wal", ..self }
    }

    /// Whether that is as strong as what must be kept; a promise that is not known is none.
    #[must_use]
    pub fn keeps(&self, must: Durability) -> bool {
        self.kept().is_some_and(|own| own >= must)
    }

    /// Time of one transaction, ns.
    #[must_use]
    pub fn ns(&self) -> f64 {
        self.time_ns.mid
    }

    /// Whether it differs from another one that was tried in nothing but a length of the log that
    /// this trace's log never comes to: the two are the same, and this one asks more, or came
    /// later.
    #[must_use]
    pub fn is_idle(&self, tried: &[Trial]) -> bool {
        const LOG: &str = "wal_autocheckpoint";
        let plain = |trial: &Trial| {
            let mut plain = trial.candidate.clone();
            plain.more.remove(LOG);
            plain
        };
        let is_other = |other: &&Trial| {
            other.filesystem == self.filesystem
                && other.candidate != self.candidate
                && plain(other) == plain(self)
        };
        let own = tried.iter().position(|other| other.label == self.label).unwrap_or(tried.len());
        let is_before = |(place, other): (usize, &Trial)| {
            let has_no_log = !other.candidate.more.contains_key(LOG);
            has_no_log || (other.is_log_felt == Some(false) && place < own)
        };
        self.is_log_felt == Some(false)
            && tried.iter().enumerate().filter(|(_, other)| is_other(other)).any(is_before)
    }

    /// A number of one transaction (flushes, bytes) of one that writes: those that read do none of
    /// it.
    #[must_use]
    pub fn of_writing(&self, of_each: f64) -> f64 {
        let writing = self.writing.filter(|writing| *writing > 0).unwrap_or(self.count);
        of_each * self.count as f64 / writing.max(1) as f64
    }

    /// Takes over what the executions did.
    fn with(self, writing: Option<&Writing>) -> Trial {
        let is_of_log = self.candidate.more.contains_key("wal_autocheckpoint");
        let is_prefix = self.durability == Some(Durability::PowerCutPrefix);
        Trial {
            writing: writing.map(Writing::transactions),
            loss: writing.filter(|_| is_prefix).map(|writing| writing.loss(&self.candidate)),
            is_log_felt: writing.filter(|_| is_of_log).map(|writing| writing.is_log_felt(&self.candidate)),
            ..self
        }
    }

    fn of_row(row: &Row, cell: &CellRow) -> Option<Trial> {
        Some(Trial {
            candidate: Candidate::of(cell.spec.engine.as_ref()?)?,
            writing: None,
            loss: None,
            is_log_felt: None,
            is_apart: false,
            filesystem: cell.spec.stack.place.name().to_owned(),
            label: cell.label.clone(),
            durability: row.durability,
            runs: row.of_runs.clone(),
            time_ns: time_of_runs(&row.of_runs, row.model_ns),
            cpu_ns: row.cpu_ns,
            count: row.count,
            p99_ns: p99_of_runs(row.each_run.iter().map(|run| run.p99_ns)),
            flushes: row.flushes,
            written_bytes: row.written_bytes,
        })
    }
}

/// The recorded cells on each of the devices, in the order of the devices, and what must be known
/// of the numbers; with `runs`, of the first so many runs of each cell.
///
/// # Errors
/// As [`study`].
pub fn trials(
    results: &Results,
    devices: &[Model],
    phase: &str,
    runs: Option<usize>,
) -> Result<(Vec<Vec<Trial>>, Vec<String>), StudyError> {
    let name = Some(phase.to_owned());
    let question = Question { devices: devices.to_vec(), phase: name, runs, ..Question::default() };
    let study = study(results, &question)?;
    let writing = writing(results, phase)?;
    let of_device = |model: &Model| {
        let rows = study.rows.iter().filter(|row| row.device == model.name);
        let of_row = |row: &Row| {
            let trial = Trial::of_row(row, results.cell(row.cell)?)?;
            Some(trial.with(writing.get(&row.cell)))
        };
        rows.filter_map(of_row).collect()
    };
    let mut notes: Vec<String> = Vec::new();
    // Advice says that of the application, of which it knows more.
    let of_cells = study.notes.into_iter().flat_map(|note| note.1).filter(|note| note != EACH_FILE);
    for note in of_cells {
        // The same with another number is said once.
        let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit() || c == '.', "");
        if !notes.iter().any(|known| plain(known) == plain(&note)) {
            notes.push(note);
        }
    }
    notes.extend(
        study.without.into_iter().map(|(label, why)| format!("{label} could not be simulated: {why}")),
    );
    Ok((devices.iter().map(of_device).collect(), notes))
}

/// The time over runs. A simulation gives a single run the interval of its draws, which is the luck
/// of the device alone: how far another recording would differ is not in it.
fn time_of_runs(runs: &[(u32, f64)], simulated: Interval) -> Interval {
    let of_runs: Vec<f64> = runs.iter().map(|run| run.1).collect();
    mean_interval(&of_runs).unwrap_or(simulated)
}

/// The 99th percentile over runs, of each of which it must be told.
fn p99_of_runs(of_runs: impl Iterator<Item = Option<f64>>) -> Option<Interval> {
    let of_runs: Option<Vec<f64>> = of_runs.collect();
    mean_interval(&of_runs?)
}

/// The 99th percentile of each good run of a cell, as measured, ns; none of one that executed
/// nothing.
fn p99_here<'a>(results: &'a Results, cell: i64, phase: &'a str) -> impl Iterator<Item = f64> + 'a {
    let of_run = move |run: i64| {
        let mut phases = results.phases.iter().map(move |of| (of.run, &of.summary));
        phases.find(|(of, summary)| *of == run && summary.phase == phase && summary.count > 0)
    };
    let of_runs = results.good_runs(cell).filter_map(move |run| of_run(run.id));
    of_runs.map(|(_, summary)| summary.latency_ns[3] as f64)
}

/// What the executions of each recorded cell did, by its number.
fn writing(results: &Results, phase: &str) -> Result<BTreeMap<i64, Writing>, StoreError> {
    let mut all = BTreeMap::new();
    for cell in &results.cells {
        let candidate = cell.spec.engine.as_ref().and_then(Candidate::of);
        let Some(candidate) = candidate else { continue };
        if let Some(writing) = Writing::of(results, cell.id, phase, candidate.page_size)? {
            all.insert(cell.id, writing);
        }
    }
    Ok(all)
}

/// The cells as they were measured where they ran, in wall time.
///
/// # Errors
/// A file that was damaged after it was opened.
pub fn trials_here(results: &Results, analysis: &Analysis, phase: &str) -> Result<Vec<Trial>, StoreError> {
    let writing = writing(results, phase)?;
    let of_cell = |cell: &CellRow| {
        let measure = analysis.get(cell.id, phase, None)?;
        let trial = Trial {
            writing: None,
            loss: None,
            is_log_felt: None,
            is_apart: false,
            candidate: Candidate::of(cell.spec.engine.as_ref()?)?,
            filesystem: cell.spec.stack.place.name().to_owned(),
            label: cell.label.clone(),
            durability: cell.durability,
            runs: measure.runs.iter().map(|run| (run.block, run.wall.time_ns)).collect(),
            time_ns: measure.wall_time_ns,
            cpu_ns: measure.each_ns(|split| split.cpu_ns),
            // The measure's are of all runs, which do the same work.
            count: measure.count / (measure.runs.len() as u64).max(1),
            p99_ns: p99_of_runs(p99_here(results, cell.id, phase).map(Some)),
            flushes: measure.each_ns(|split| split.sync_calls),
            written_bytes: measure.each_ns(|split| split.write_bytes),
        };
        Some(trial.with(writing.get(&cell.id)))
    };
    Ok(results.cells.iter().filter_map(of_cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: with `--repeat 1` transactions per second had an interval that said 95 %, of
    /// forty draws of one recording, beside a gain that had none.
    #[test]
    fn one_run_has_no_interval_however_often_it_was_drawn() {
        let draws = mean_interval(&[1.9e6, 2.0e6, 2.1e6]).unwrap();
        let one = time_of_runs(&[(0, 2.0e6)], draws);
        assert_eq!((one.mid, one.n, one.coverage), (2.0e6, 1, 0.0));
        let two = time_of_runs(&[(0, 2.0e6), (1, 2.2e6)], draws);
        assert_eq!(two, mean_interval(&[2.0e6, 2.2e6]).unwrap());
        assert_eq!(time_of_runs(&[], draws), draws);
    }

    #[test]
    fn p99_is_told_where_every_run_tells_it() {
        let told = p99_of_runs([Some(2.0e6), Some(8.0e6)].into_iter()).unwrap();
        assert!((told.mid - 4.0e6).abs() < 1.0 && told.n == 2, "{told:?}");
        assert_eq!(p99_of_runs([Some(2.0e6), None].into_iter()), None);
        assert_eq!(p99_of_runs(std::iter::empty()), None);
    }
}
