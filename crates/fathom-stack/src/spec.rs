//! What a cell asks of its storage stack, and what it was given.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::command::{CommandLine, file_name};
use crate::device::{data_of, external_of};

/// A storage stack as written in an experiment file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StackSpec {
    /// `dir` (where `directory` is, no root), or a file system: `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`, `ntfs` (ntfs-3g),
    /// `vfat`, `exfat`, `f2fs`, `ntfs3` … whatever this machine can make and mount.
    pub filesystem: String,
    /// Extra words for mkfs, e.g. `["-O", "^has_journal"]`.
    pub mkfs: Vec<String>,
    /// Mount options, e.g. `data=journal,noatime`; empty = the file system's defaults.
    pub mount: String,
    /// Size of the image in MiB.
    pub size_mib: u64,
    /// An external log device of this size in MiB (XFS logdev, ext4 journal device), or none.
    pub log_mib: Option<u64>,
    /// Where the image (or, for `dir`, the working directory) is put; empty = the run's `--dir`.
    pub directory: PathBuf,
    /// An image to begin with, instead of a file system that is made: the stack's own is a copy of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// A new file that the file system lies in, and that stays when a named stack is taken down or its processes are killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<PathBuf>,
    /// The modelled device that the file system lies on: name of a preset, or a model's file; empty = the disk of
    /// `directory` itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// The modelled device that the external log of `log_mib` lies on, where the file system lies on one; empty = another one like
    /// that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log_device: String,
    /// What fails on the modelled device, e.g. `write-error@1000`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// A new file in which every operation on the file system's modelled device is logged, and in FILE.log every one on that of its
    /// external log, if it has one; complete once the stack is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<PathBuf>,
    /// Whether the data of the writes is kept beside such a file, in FILE.data and FILE.log.data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub capture: bool,
    /// Seed of the modelled device's times.
    #[serde(skip_serializing_if = "is_zero")]
    pub device_seed: u64,
    /// Mounts in a guest kernel even where this machine could mount it. Without it, a guest is taken where this machine
    /// cannot.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guest: bool,
}

impl StackSpec {
    /// The files of the log of operations.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let external = self.operations.as_deref().filter(|_| self.log_mib.is_some()).map(external_of);
        let logs = self.operations.iter().cloned().chain(external);
        logs.flat_map(|log| {
            let data = self.capture.then(|| data_of(&log));
            [Some(log), data].into_iter().flatten()
        })
        .collect()
    }

    /// How the file system was made, for the record: the commands without their programs' directories, or the image that it is a
    /// copy of.
    pub(crate) fn made(&self, commands: &[CommandLine]) -> String {
        if let Some(path) = &self.image {
            return format!("copy of {}", file_name(path));
        }
        let short = |line: &CommandLine| {
            CommandLine { program: file_name(&line.program).into(), ..line.clone() }.shown()
        };
        commands.iter().map(short).collect::<Vec<_>>().join(" && ")
    }
}

fn is_zero(seed: &u64) -> bool {
    *seed == 0
}

impl Default for StackSpec {
    fn default() -> Self {
        StackSpec {
            filesystem: "dir".into(),
            mkfs: Vec::new(),
            mount: String::new(),
            size_mib: 2048,
            log_mib: None,
            directory: PathBuf::new(),
            image: None,
            keep: None,
            device: String::new(),
            log_device: String::new(),
            faults: Vec::new(),
            operations: None,
            capture: false,
            device_seed: 0,
            guest: false,
        }
    }
}

/// What was really made: goes into the results with every run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackRecord {
    /// File system type as the kernel names it in mountinfo.
    pub filesystem: String,
    /// The mkfs command line, empty for `dir`.
    pub mkfs: String,
    /// Version line of the mkfs tool or driver.
    pub mkfs_version: String,
    /// Mount options as mountinfo shows them.
    pub mount: String,
    /// Backing: `loop (direct I/O) on ext4`, or the device of the directory.
    pub device: String,
    /// Text of the modelled device's model, and of the external log's: a file of the user's may have changed since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The guest kernel that it was mounted in; empty = this machine's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guest: String,
    /// Things a reader must know: `loop without direct I/O: cached twice`, `tmpfs: no device` …
    pub warnings: Vec<String>,
}

/// Whether this machine can do something, and if not, the command that brings it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// `root`, `loop`, `ext4`, `block-trace`, `drop-caches`, `postgresql`, `browser` …
    pub name: String,
    /// Whether it works here, found by trying where that is cheap.
    pub present: bool,
    /// Version or place when present; the reason when absent.
    pub detail: String,
    /// The exact command that brings it; empty when present or when nothing can.
    pub remedy: String,
}
