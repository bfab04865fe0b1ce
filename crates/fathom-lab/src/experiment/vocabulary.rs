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
    /// File systems, `dir` first. Whether this machine can make them is the plan's question, not the file's.
    pub filesystems: Vec<String>,
}

/// File systems that Fathom knows by name. A kernel may have more: they come from the machine.
const FILESYSTEMS: [&str; 16] = [
    "dir", "ext2", "ext3", "ext4", "xfs", "btrfs", "ntfs", "vfat", "exfat", "f2fs", "ntfs3", "nilfs2", "jfs",
    "bcachefs", "udf", "minix",
];

impl Vocabulary {
    /// What this Fathom has, with the file systems in `more` known too (those that this machine offers).
    #[must_use]
    pub fn here<'a>(more: impl IntoIterator<Item = &'a str>) -> Vocabulary {
        let mut filesystems: Vec<String> = FILESYSTEMS.map(str::to_owned).to_vec();
        for name in more {
            if !filesystems.iter().any(|known| known == name) {
                filesystems.push(name.to_owned());
            }
        }
        Vocabulary { workloads: workloads().to_vec(), engines: engines().to_vec(), filesystems }
    }

    pub(super) fn workload(&self, name: &str) -> Option<&'static WorkloadKind> {
        self.workloads.iter().find(|kind| kind.name == name).copied()
    }

    pub(super) fn engine(&self, name: &str) -> Option<&'static EngineKind> {
        self.engines.iter().find(|kind| kind.name == name).copied()
    }
}
