//! The names an experiment file may use: what workloads and engines accept, and which file systems are known.

use fathom_workload::engine::{EngineKind, engines};
use fathom_workload::registry::{WorkloadKind, workloads};

/// The names an experiment may use. Tests have one of their own.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Workloads with their parameters.
    pub workloads: Vec<&'static WorkloadKind>,
    /// Engines with their settings.
    pub engines: Vec<&'static EngineKind>,
    /// File systems and the smallest image of each, MiB. Whether this machine can make them is the plan's question, not the
    /// file's.
    pub filesystems: Vec<(String, u64)>,
    /// Modelled devices that come with Fathom; a path of a model is taken as well.
    pub devices: Vec<String>,
}

impl Vocabulary {
    /// What this Fathom has.
    #[must_use]
    pub fn here() -> Vocabulary {
        let filesystems =
            fathom_stack::available_filesystems().into_iter().map(|it| (it.filesystem, it.min_mib)).collect();
        let devices = fathom_stack::device::presets().iter().map(|model| model.name.clone()).collect();
        Vocabulary { workloads: workloads().to_vec(), engines: engines().to_vec(), filesystems, devices }
    }

    pub(super) fn workload(&self, name: &str) -> Option<&'static WorkloadKind> {
        self.workloads.iter().find(|kind| kind.name == name).copied()
    }

    pub(super) fn engine(&self, name: &str) -> Option<&'static EngineKind> {
        self.engines.iter().find(|kind| kind.name == name).copied()
    }
}
