//! A cell: one combination of workload, engine and stack.

use std::collections::BTreeMap;

use fathom_stack::StackSpec;
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use serde::{Deserialize, Serialize};

/// One combination of workload × engine × stack, complete: what the worker takes on stdin (with a seed and a directory).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload and its parameters.
    pub workload: WorkloadSpec,
    /// The engine and its settings; none for workloads on plain files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineSpec>,
    /// The storage stack.
    pub stack: StackSpec,
    /// The axes of the experiment's matrix and this cell's value on each, e.g. `engine.journal_mode` → `wal`; this is
    /// what tables and figures group by.
    pub axes: BTreeMap<String, String>,
}
