//! The guest kernel on disk: where it is cached.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a kernel is configured for, beside the least that boots.
pub(super) const CONFIGURATION: &str = include_str!("kernel/guest.config");
/// What goes into the disk driver: `ubd_kern.c`.
pub(super) const DRIVER: &str = include_str!("kernel/ubd_kern.c");
/// What goes into its other half, which is the host's: `ubd_user.c`.
pub(super) const TRANSFER: &str = include_str!("kernel/ubd_user.c");
/// A driver of its own: the host's FUSE connection in the guest.
pub(super) const CONNECTION: &str = include_str!("kernel/fathom_fuse.c");

/// File systems that a kernel of [`CONFIGURATION`] has, as `/proc/filesystems` names them.
pub(crate) const FILE_SYSTEMS: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "msdos", "exfat", "ntfs3", "f2fs", "nilfs2", "jfs",
    "udf", "minix",
];

/// A guest kernel that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The program that it is.
    #[serde(skip)]
    pub path: PathBuf,
    /// As `uname -r` says inside it.
    pub release: String,
    /// File systems it has.
    pub filesystems: Vec<String>,
    /// Name of the file that its source came from.
    pub source: String,
    /// SHA-256 of that file.
    pub source_sha256: String,
    /// The compiler.
    pub compiler: String,
}

impl Kernel {
    /// The cached kernel of this user that fits this version of Fathom, if it was built.
    #[must_use]
    pub fn cached() -> Option<Kernel> {
        Kernel::read(&directory()?)
    }

    pub(super) fn read(directory: &Path) -> Option<Kernel> {
        let kernel: Kernel = serde_json::from_slice(&fs::read(directory.join("kernel.json")).ok()?).ok()?;
        let path = directory.join("linux");
        path.is_file().then_some(Kernel { path, ..kernel })
    }

    /// Removes the cached kernel of this user, and what builds have left; the directory that is gone, if there was one.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn remove() -> io::Result<Option<PathBuf>> {
        let Some(path) = cache().map(|it| it.join("guest-kernel")).filter(|it| it.exists()) else {
            return Ok(None);
        };
        fs::remove_dir_all(&path).map(|()| Some(path))
    }

    /// `guest kernel 6.12.117-fathom (user-mode Linux)`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("guest kernel {} (user-mode Linux)", self.release)
    }
}

/// Where Fathom keeps what can be made again: `$FATHOM_CACHE_DIR`, else `$XDG_CACHE_HOME/fathom`, else `~/.cache/fathom`.
pub(super) fn cache() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    variable("FATHOM_CACHE_DIR")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("fathom")))
        .or_else(|| Some(variable("HOME")?.join(".cache/fathom")))
}

/// Where the kernel of this recipe is: another configuration or another change to the driver is another kernel.
pub(super) fn directory() -> Option<PathBuf> {
    Some(cache()?.join("guest-kernel").join(recipe()))
}

/// A name for everything that goes into a kernel beside its source: FNV-1a of it.
pub(super) fn recipe() -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in [CONFIGURATION, DRIVER, TRANSFER, CONNECTION].iter().flat_map(|text| text.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_system_of_the_list_is_configured() {
        for name in FILE_SYSTEMS {
            let option = format!("CONFIG_{}_FS=y\n", name.to_uppercase());
            assert!(CONFIGURATION.contains(&option), "{option}");
        }
    }
}
