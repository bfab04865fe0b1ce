//! A cell: one combination of workload, engine and stack.

use std::collections::BTreeMap;

use fathom_stack::StackSpec;
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use serde::{Deserialize, Serialize};

/// Keys of `[instruments]`.
pub(crate) const INSTRUMENT_KEYS: [&str; 5] =
    ["blocks", "operations", "power_cut", "power_cut_states", "power_cut_seconds"];

/// Instruments that a cell switches on; none of them unless an experiment says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instruments {
    /// The block trace: every request to the stack's device with its cause; where that cannot be
    /// had (no root, a directory), the pattern of reads and writes within the files.
    pub blocks: bool,
    /// The recording: what a modelled device served and the threads did, to be replayed on other
    /// models (`fathom simulate`).
    #[serde(skip_serializing_if = "is_off")]
    pub operations: bool,
    /// Power cuts: once for each cell, beside its runs, what it does is recorded on a modelled
    /// device, and states in which a power cut could have left it are judged (`fathom_cut`).
    #[serde(skip_serializing_if = "is_off")]
    pub power_cut: bool,
    /// So many states at most; none: [`STATES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cut_states: Option<u64>,
    /// So many seconds at most for each cell; none: [`SECONDS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cut_seconds: Option<u64>,
}

/// States of a power cut that are judged of a cell where nothing else is said.
pub const STATES: u64 = 2000;
/// Seconds that this takes at most where nothing else is said.
pub const SECONDS: u64 = 30;

fn is_off(value: &bool) -> bool {
    !value
}

impl Instruments {
    /// Whether nothing is switched on.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Instruments::default()
    }
}

/// One combination of workload × engine × stack, complete: what the worker takes on stdin (with a
/// seed and a directory).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload and its parameters.
    pub workload: WorkloadSpec,
    /// The engine and its settings; none for workloads on plain files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineSpec>,
    /// The storage stack.
    pub stack: StackSpec,
    /// What is watched beside the measurement.
    #[serde(default, skip_serializing_if = "Instruments::is_none")]
    pub instruments: Instruments,
    /// The machine that it runs on, as `--on` names it; empty = this one, where nothing else was
    /// asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// The axes of the experiment's matrix and this cell's value on each, e.g.
    /// `engine.journal_mode` → `wal`; this is what tables and figures group by.
    pub axes: BTreeMap<String, String>,
}
