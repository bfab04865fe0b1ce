//! What was really made of a stack, and whether it keeps anything at a power cut.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fathom_device::{Kind, Model};
use serde::{Deserialize, Serialize};

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
    /// Text of the modelled device's model, and of the external log's: a file of the user's may
    /// have changed since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// How the image that it is a copy of was ([`image_state`]); empty without one. It may have
    /// been written to since.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// What tells the disk that it lay on, and the image that it is a copy of, from others of the
    /// same path: texts by their names, of what the system tells. Under a modelled device the disk
    /// is of no importance, and left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ran_on: BTreeMap<String, String>,
    /// The guest kernel that it was mounted in; empty = this machine's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub guest: String,
    /// Things a reader must know: `loop without direct I/O: cached twice`, `tmpfs: no device` …
    pub warnings: Vec<String>,
}

/// How large an image is and when it was last written, so that it is known when it is another one;
/// empty where the system does not tell.
#[must_use]
pub fn image_state(path: &Path) -> String {
    let told = |file: std::fs::Metadata| {
        format!("{} bytes, written at {}.{:09} s", file.len(), file.mtime(), file.mtime_nsec())
    };
    std::fs::metadata(path).map(told).unwrap_or_default()
}

/// File systems that lie in memory.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

/// Mount options, as mountinfo shows them, that keep flushes from the device: barriers off
/// (ext4(5), btrfs(5), nilfs2, hfsplus), F2FS's `fsync_mode=nobarrier`, overlayfs's `volatile`.
const WITHOUT_FLUSHES: [&str; 5] =
    ["nobarrier", "barrier=0", "fsync_mode=nobarrier", "volatile", "fsync=volatile"];

impl StackRecord {
    /// Whether each of its modelled devices has power-loss protection: what such a one has answered
    /// stays, flushed or not.
    fn is_protected(&self) -> bool {
        let is_protected =
            |text: &String| Model::parse("model", text).is_ok_and(|model| model.kind == Kind::Protected);
        !self.models.is_empty() && self.models.iter().all(is_protected)
    }

    /// Why nothing that was synced is certain to survive a power cut on this stack; none where
    /// syncs reach a device.
    #[must_use]
    pub fn volatile(&self) -> Option<String> {
        if IN_MEMORY.contains(&self.filesystem.as_str()) {
            return Some(format!(
                "{} lies in memory: a power cut takes all of it, synced or not",
                self.filesystem
            ));
        }
        let mut options = self.mount.split(',').map(str::trim);
        let option = options.find(|option| WITHOUT_FLUSHES.contains(option) && !self.is_protected())?;
        Some(format!(
            "mounted with {option}: syncs do not flush the device's cache, so a power cut can lose or corrupt what was synced"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_was_written_to_is_in_another_state() {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("card.img");
        assert_eq!(image_state(&image), "");
        std::fs::write(&image, "x").unwrap();
        let begin = image_state(&image);
        assert!(begin.starts_with("1 bytes, written at "), "{begin}");
        assert_eq!(image_state(&image), begin);
        std::fs::write(&image, "xy").unwrap();
        assert_ne!(image_state(&image), begin);
    }

    #[test]
    fn stacks_whose_syncs_reach_no_device_are_told() {
        let volatile = |filesystem: &str, mount: &str| {
            let record =
                StackRecord { filesystem: filesystem.into(), mount: mount.into(), ..StackRecord::default() };
            record.volatile()
        };
        assert_eq!(volatile("ext4", "rw,relatime"), None);
        assert_eq!(volatile("ext4", "rw,barrier=1"), None);
        assert_eq!(volatile("f2fs", "rw,fsync_mode=posix,barrier"), None);
        for (filesystem, mount) in [
            ("ext4", "rw,relatime,nobarrier"),
            ("ext3", "rw,barrier=0"),
            ("btrfs", "rw,nobarrier,space_cache=v2"),
            ("f2fs", "rw,fsync_mode=nobarrier"),
            ("tmpfs", "rw"),
        ] {
            assert!(volatile(filesystem, mount).is_some(), "{filesystem} {mount}");
        }
    }

    /// What happened: of ext4 without barriers on a device with power-loss protection, for which
    /// they are switched off, it was said that a power cut can lose or corrupt what was synced.
    #[test]
    fn a_protected_device_has_nothing_to_flush() {
        let volatile = |models: &[&str]| {
            let text = |name: &&str| fathom_device::text_of(name).unwrap().to_owned();
            let (filesystem, mount) = ("ext4".into(), "rw,nobarrier".into());
            let models = models.iter().map(text).collect();
            StackRecord { filesystem, mount, models, ..StackRecord::default() }.volatile()
        };
        assert_eq!((volatile(&["nvme-protected"]), volatile(&["nvme-protected"; 2])), (None, None));
        assert!(volatile(&["nvme"]).is_some() && volatile(&["nvme-protected", "sd-slow"]).is_some());
    }
}
