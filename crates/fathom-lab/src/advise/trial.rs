//! A setting on a device, and what it took there.

use fathom_device::Model;
use fathom_workload::spec::Durability;
use serde::Serialize;

use super::Candidate;
use crate::analysis::Analysis;
use crate::simulate::{Question, Row, StudyError, study};
use crate::stats::Interval;
use crate::store::{CellRow, Results};

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
    /// 99th percentile, ns, where single transactions were told.
    pub p99_ns: Option<f64>,
    /// Flushes; on this disk calls of fsync.
    pub flushes: f64,
    /// Bytes written to the device; on this disk by SQLite.
    pub written_bytes: f64,
}

impl Trial {
    /// Time of one transaction, ns.
    #[must_use]
    pub fn ns(&self) -> f64 {
        self.time_ns.mid
    }

    fn of_row(row: &Row, cell: &CellRow) -> Option<Trial> {
        Some(Trial {
            candidate: Candidate::of(cell.spec.engine.as_ref()?)?,
            filesystem: cell.spec.stack.place.name().to_owned(),
            label: cell.label.clone(),
            durability: row.durability,
            runs: row.of_runs.clone(),
            time_ns: row.model_ns,
            cpu_ns: row.cpu_ns,
            count: row.count,
            p99_ns: row.p99_ns,
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
    let phase = Some(phase.to_owned());
    let question = Question { devices: devices.to_vec(), phase, runs, ..Question::default() };
    let study = study(results, &question)?;
    let of_device = |model: &Model| {
        let rows = study.rows.iter().filter(|row| row.device == model.name);
        rows.filter_map(|row| Trial::of_row(row, results.cell(row.cell)?)).collect()
    };
    let mut notes: Vec<String> = Vec::new();
    for note in study.notes.into_iter().flat_map(|note| note.1) {
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

/// The cells as they were measured where they ran, in wall time.
#[must_use]
pub fn trials_here(results: &Results, analysis: &Analysis, phase: &str) -> Vec<Trial> {
    let of_cell = |cell: &CellRow| {
        let measure = analysis.get(cell.id, phase, None)?;
        Some(Trial {
            candidate: Candidate::of(cell.spec.engine.as_ref()?)?,
            filesystem: cell.spec.stack.place.name().to_owned(),
            label: cell.label.clone(),
            durability: cell.durability,
            runs: measure.runs.iter().map(|run| (run.block, run.wall.time_ns)).collect(),
            time_ns: measure.wall_time_ns,
            cpu_ns: measure.each_ns(|split| split.cpu_ns),
            count: measure.count,
            p99_ns: Some(measure.latency_ns[3]),
            flushes: measure.each_ns(|split| split.sync_calls),
            written_bytes: measure.each_ns(|split| split.write_bytes),
        })
    };
    results.cells.iter().filter_map(of_cell).collect()
}
