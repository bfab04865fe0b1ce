//! The guest kernel on disk: where it is cached.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fathom_ground::fnv::{EMPTY, fnv1a};
use fathom_ground::system::base_directory;
use serde::{Deserialize, Serialize};

use super::build_error::SOURCE_SHA256;
use super::patch;
use super::sha256::sha256;

/// What a kernel is configured for, beside the least that boots.
pub(super) const CONFIGURATION: &str = include_str!("kernel/guest.config");

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
    /// The cached kernel of this user that fits this version of Fathom, if it was built; else the
    /// one that a release brought.
    #[must_use]
    pub fn cached() -> Option<Kernel> {
        // Looked at once: it has to be read whole.
        static RELEASED: OnceLock<Option<Kernel>> = OnceLock::new();
        let built = directory().and_then(|directory| Kernel::read(&directory));
        built.or_else(|| RELEASED.get_or_init(Kernel::released).clone())
    }

    /// The kernel of a release: `lib/fathom/guest-kernel/RECIPE` beside the program's `bin`.
    fn released() -> Option<Kernel> {
        let program = fathom_ground::program::own_program().ok()?;
        let place = program.parent()?.parent()?.join("lib/fathom/guest-kernel").join(recipe());
        Kernel::verified(&place).unwrap_or_else(|problem| {
            // It is as if it were not there, and whoever looks for it must know why.
            eprintln!("warning: {problem}");
            None
        })
    }

    /// The kernel in a directory, if its content is what `linux.sha256` beside it says.
    fn verified(place: &Path) -> Result<Option<Kernel>, String> {
        let Some(kernel) = Kernel::read(place) else { return Ok(None) };
        let wrong = |problem: String| format!("{}: the guest kernel is not used: {problem}", place.display());
        let sum = fs::read_to_string(place.join("linux.sha256"))
            .map_err(|error| wrong(format!("linux.sha256: {error}")))?;
        let expected = sum.split_whitespace().next().unwrap_or_default().to_owned();
        let found = sha256(&kernel.path).map_err(|error| wrong(error.to_string()))?;
        match found == expected {
            true => Ok(Some(kernel)),
            false => {
                Err(wrong("its SHA-256 is another than linux.sha256 says; unpack the release again".into()))
            }
        }
    }

    pub(super) fn read(directory: &Path) -> Option<Kernel> {
        let kernel: Kernel = serde_json::from_slice(&fs::read(directory.join("kernel.json")).ok()?).ok()?;
        let path = directory.join("linux");
        path.is_file().then_some(Kernel { path, ..kernel })
    }

    /// Removes the cached kernel of this user, and what builds have left; the directory that is
    /// gone, if there was one.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn remove() -> io::Result<Option<PathBuf>> {
        let Some(path) =
            cache().map(|directory| directory.join("guest-kernel")).filter(|directory| directory.exists())
        else {
            return Ok(None);
        };
        fs::remove_dir_all(&path).map(|()| Some(path))
    }

    /// The name of everything that goes into the kernel of this version of Fathom: the directory in
    /// which it is kept. Another recipe is another kernel, for which nobody looks.
    #[must_use]
    pub fn recipe() -> String {
        recipe()
    }

    /// `guest kernel 6.12.117-fathom (user-mode Linux)`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("guest kernel {} (user-mode Linux)", self.release)
    }
}

/// Where Fathom keeps what can be made again: `$FATHOM_CACHE_DIR`, else `$XDG_CACHE_HOME/fathom`,
/// else `~/.cache/fathom`.
pub(super) fn cache() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("FATHOM_CACHE_DIR")
        .or_else(|| Some(base_directory(std::env::var_os("XDG_CACHE_HOME"))?.join("fathom")))
        .or_else(|| Some(base_directory(std::env::var_os("HOME"))?.join(".cache/fathom")))
}

/// Where the kernel of this recipe is: another configuration or another change to the source is
/// another kernel.
pub(super) fn directory() -> Option<PathBuf> {
    Some(cache()?.join("guest-kernel").join(recipe()))
}

/// A name for everything that goes into a kernel, its pinned source and what is changed in it:
/// FNV-1a of it.
pub(super) fn recipe() -> String {
    let texts = [SOURCE_SHA256, CONFIGURATION].map(str::to_owned).into_iter().chain(patch::texts());
    let hash = texts.fold(EMPTY, |hash, text| fnv1a(hash, text.as_bytes()));
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

    /// A kernel that comes with a release is unpacked by somebody, and half an archive boots into
    /// nothing.
    #[test]
    fn a_released_kernel_that_was_changed_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let kernel = Kernel {
            path: PathBuf::new(),
            release: "6.12-fathom".into(),
            filesystems: vec!["ext4".into()],
            source: "linux".into(),
            source_sha256: SOURCE_SHA256.into(),
            compiler: "gcc".into(),
        };
        assert_eq!(Kernel::verified(place.path()), Ok(None), "nothing is there");
        fs::write(place.path().join("kernel.json"), serde_json::to_string(&kernel).unwrap()).unwrap();
        fs::write(place.path().join("linux"), "abc").unwrap();
        assert!(Kernel::verified(place.path()).unwrap_err().contains("linux.sha256"));
        // FIPS 180-2, appendix B.1.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  linux\n";
        fs::write(place.path().join("linux.sha256"), sum).unwrap();
        let found = Kernel::verified(place.path()).unwrap().unwrap();
        assert_eq!(found, Kernel { path: place.path().join("linux"), ..kernel });
        fs::write(place.path().join("linux"), "abd").unwrap();
        assert!(Kernel::verified(place.path()).unwrap_err().contains("is not used"));
    }
}
