//! What is asked of a stack.

use std::path::PathBuf;

use fathom_device::{data_of, external_of};
use fathom_ground::command::{CommandLine, file_name};
use serde::{Deserialize, Serialize};

use super::place::Place;

/// Size of an image, MiB, where none is given.
pub(super) const DEFAULT_SIZE_MIB: u64 = 2048;

/// A storage stack as written in an experiment file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StackSpec {
    /// A directory where `directory` is, which needs no root, or an image with a file system.
    #[serde(rename = "filesystem")]
    pub place: Place,
    /// Extra words for mkfs, e.g. `["-O", "^has_journal"]`.
    pub mkfs: Vec<String>,
    /// Mount options, e.g. `data=journal,noatime`; none = the file system's defaults.
    #[serde(with = "empty_text")]
    pub mount: Option<String>,
    /// Size of the image in MiB.
    pub size_mib: u64,
    /// An external log device of this size in MiB (XFS logdev, ext4 journal device), or none.
    pub log_mib: Option<u64>,
    /// Where the image, or the working directory, is put; none = the run's `--dir`.
    #[serde(with = "empty_path")]
    pub directory: Option<PathBuf>,
    /// An image to begin with, instead of a file system that is made: the stack's own is a copy of
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// A new file that the file system lies in, and that stays when a named stack is taken down or
    /// its processes are killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<PathBuf>,
    /// The modelled device that the file system lies on: name of a preset, or a model's file; none
    /// = the disk of `directory` itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The modelled device that the external log of `log_mib` lies on, where the file system lies
    /// on one; none = another one like that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_device: Option<String>,
    /// What fails on the modelled device, e.g. `write-error@1000`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// A new file in which every operation on the file system's modelled device is logged, and in
    /// FILE.log every one on that of its external log, if it has one; complete once the stack is
    /// down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<PathBuf>,
    /// Whether the data of the writes is kept beside such a file, in FILE.data and FILE.log.data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub capture: bool,
    /// Seed of the modelled device's times.
    #[serde(skip_serializing_if = "is_zero")]
    pub device_seed: u64,
    /// Mounts in a guest kernel even where this machine could mount it. Without it, a guest is
    /// taken where this machine cannot.
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

    /// How the file system was made, for the record: the commands without their programs'
    /// directories, or the image that it is a copy of.
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

/// Absence, as stored in entries and results: an empty text.
mod empty_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text.as_deref().unwrap_or_default())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// As [`empty_text`], of a path.
mod empty_path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().unwrap_or(Path::new("")).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        let path = PathBuf::deserialize(deserializer)?;
        Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
    }
}

fn is_zero(seed: &u64) -> bool {
    *seed == 0
}

impl Default for StackSpec {
    fn default() -> Self {
        StackSpec {
            place: Place::Directory,
            mkfs: Vec::new(),
            mount: None,
            size_mib: DEFAULT_SIZE_MIB,
            log_mib: None,
            directory: None,
            image: None,
            keep: None,
            device: None,
            log_device: None,
            faults: Vec::new(),
            operations: None,
            capture: false,
            device_seed: 0,
            guest: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries and results of before name absence by an empty text, and a directory `dir`.
    #[test]
    fn a_specification_is_stored_as_ever() {
        let text = serde_json::to_string(&StackSpec::default()).unwrap();
        assert_eq!(
            text,
            r#"{"filesystem":"dir","mkfs":[],"mount":"","size_mib":2048,"log_mib":null,"directory":""}"#
        );
        assert_eq!(serde_json::from_str::<StackSpec>(&text).unwrap(), StackSpec::default());
        let whole = StackSpec {
            place: "ext4".into(),
            mount: Some("noatime".into()),
            directory: Some("/tmp".into()),
            device: Some("sd-slow".into()),
            ..StackSpec::default()
        };
        let text = serde_json::to_string(&whole).unwrap();
        let parts = [r#""filesystem":"ext4""#, r#""mount":"noatime""#, r#""device":"sd-slow""#];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(serde_json::from_str::<StackSpec>(&text).unwrap(), whole);
    }
}
