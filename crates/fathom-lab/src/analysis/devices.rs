//! How well the modelled devices kept their models' times, run by run.

use fathom_device::DeviceUse;
use serde::Serialize;

use crate::stats::median;
use crate::store::Results;

/// What a modelled device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRole {
    /// The file system.
    FileSystem,
    /// The file system's external log.
    ExternalLog,
}

impl DeviceRole {
    /// What its number in the run's list says.
    const ALL: [DeviceRole; 2] = [DeviceRole::FileSystem, DeviceRole::ExternalLog];
}

/// One good run on a modelled device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRun {
    /// The run's number in the results file.
    pub run: i64,
    /// Its block.
    pub block: u32,
    /// What it did there, and how late the answers were.
    #[serde(flatten)]
    pub used: DeviceUse,
    /// Share of late answers.
    pub late_share: f64,
    /// Whether the model's times were kept; a run that did not keep them is marked.
    pub kept: bool,
    /// The whole worker as measured, ns.
    pub elapsed_ns: u64,
    /// The same with the models' times, of all devices of the stack, ns.
    pub elapsed_model_ns: u64,
}

/// The good runs of a cell on its modelled device; medians are over them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceStudy {
    /// Number of the cell.
    pub cell: i64,
    /// What the device carries.
    pub carries: DeviceRole,
    /// The stack's devices, as it says.
    pub device: String,
    /// The runs in block order, one at least.
    pub runs: Vec<DeviceRun>,
}

impl DeviceStudy {
    /// Runs whose times are the machine's as well as the model's.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.runs.iter().filter(|run| !run.kept).count()
    }

    /// Median over the runs of one of their numbers.
    #[must_use]
    pub fn median(&self, of: impl Fn(&DeviceRun) -> f64) -> f64 {
        median(&self.runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// The largest error of the self-tests; none where none was made.
    #[must_use]
    pub fn self_test_error(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.used.self_test_error()).reduce(f64::max)
    }
}

/// One for each device of each cell with good runs on modelled ones, in the order of the plan.
#[must_use]
pub fn device_studies(results: &Results) -> Vec<DeviceStudy> {
    let study = |cell: i64, number: usize| {
        let runs: Vec<_> =
            results.good_runs(cell).filter_map(|run| Some((run, run.devices.get(number)?.clone()))).collect();
        let device = runs.first()?.0.stack.device.clone();
        let runs = runs.into_iter().map(|(run, used)| DeviceRun {
            run: run.id,
            block: run.block,
            late_share: used.late_share(),
            kept: used.is_on_time(),
            elapsed_ns: run.elapsed_ns,
            // What waits for one device waits for no other meanwhile: a sync writes the log and
            // then the rest.
            elapsed_model_ns: run.devices.iter().fold(run.elapsed_ns, |ns, device| device.by_model_ns(ns)),
            used,
        });
        Some(DeviceStudy { cell, carries: DeviceRole::ALL[number], device, runs: runs.collect() })
    };
    let of_cell = |cell: i64| (0..DeviceRole::ALL.len()).filter_map(move |number| study(cell, number));
    results.cells.iter().flat_map(|cell| of_cell(cell.id)).collect()
}
