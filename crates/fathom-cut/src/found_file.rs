//! The files of a mounted state, as they are before anything opens them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::content::Hasher;

/// A file of a state as it was found, before SQLite opened anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its name below the file system's root.
    pub name: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// A hash of what it holds.
    pub content: u128,
    /// Whether its first byte is not zero (a journal whose header was zeroed is none any more).
    pub begins: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Where it lies: offset in the file, offset on the device, bytes.
    pub extents: Vec<(u64, u64, u64)>,
}

/// Longest file that is read as a whole, bytes. A recording may be somebody else's, and a file of
/// its image as long as it likes without a block on the device.
const LARGEST: u64 = 1 << 30;

/// Reads a file to its end; gives its length.
///
/// # Errors
/// It cannot be read, or is too long.
pub(crate) fn read_whole(file: &mut File, bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    let length = file.metadata()?.len();
    if length > LARGEST {
        return Err(std::io::Error::other(format!("a file of {length} bytes is not read")));
    }
    file.read_to_end(bytes)
}

/// All files and directories below a directory, in order of their names.
pub(crate) fn files_below(root: &Path) -> std::io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let extents = |file: &File| {
            let extents = fathom_probe::extents(file, 0, u64::MAX).unwrap_or_default();
            extents.into_iter().map(|extent| (extent.offset, extent.physical, extent.length)).collect()
        };
        let held = File::open(&directory)?;
        found.push(FoundFile {
            name: name(&directory),
            bytes: 0,
            content: 0,
            begins: true,
            is_directory: true,
            extents: extents(&held),
        });
        for entry in std::fs::read_dir(&directory)? {
            let (path, kind) = {
                let entry = entry?;
                (entry.path(), entry.file_type()?)
            };
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let mut file = File::open(&path)?;
                let mut bytes = Vec::new();
                read_whole(&mut file, &mut bytes)?;
                let mut hasher = Hasher::new();
                hasher.add(&bytes);
                found.push(FoundFile {
                    name: name(&path),
                    bytes: bytes.len() as u64,
                    content: hasher.end(),
                    begins: bytes.first().is_some_and(|&byte| byte != 0),
                    is_directory: false,
                    extents: extents(&file),
                });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
