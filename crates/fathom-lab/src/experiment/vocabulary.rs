//! The names an experiment file may use: what workloads and engines accept, and which file systems
//! are known.

use fathom_stack::Machine;
use fathom_workload::engine::{EngineKind, engines};
use fathom_workload::registry::workloads;
use fathom_workload::workload::WorkloadKind;

/// The names an experiment may use. Tests have one of their own.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Workloads with their parameters.
    pub workloads: Vec<&'static WorkloadKind>,
    /// Engines with their settings.
    pub engines: Vec<&'static EngineKind>,
    /// Which file systems may be named. Whether this machine can make them is the plan's question,
    /// not the file's.
    pub machine: Machine,
}

impl Vocabulary {
    /// What this Fathom has.
    #[must_use]
    pub fn here() -> Vocabulary {
        Vocabulary { workloads: workloads().to_vec(), engines: engines().to_vec(), machine: Machine::here() }
    }

    pub(super) fn workload(&self, name: &str) -> Option<&'static WorkloadKind> {
        self.workloads.iter().find(|kind| kind.name == name).copied()
    }

    pub(super) fn engine(&self, name: &str) -> Option<&'static EngineKind> {
        self.engines.iter().find(|kind| kind.name == name).copied()
    }
}
