//! Room on a disk that is full, for what an opening has to write.
//!
//! An opening writes a manifest and a mark for each stream, each beside the one whose place it
//! takes. On a full disk that failed, with the system's words for it, and nobody knew what to free.
//! Now the images that the manifest does not name make room, which the next checkpoint would write
//! over; and where that is not enough, the error says how much is.

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest};
use crate::medium::Medium;
use std::path::Path;

/// What a file takes on the disk, and its entry in a directory: blocks of this size.
const BLOCK: u64 = 4096;

pub(super) struct Room<'a> {
    medium: &'a dyn Medium,
    /// The database's directory.
    path: &'a Path,
    /// The manifest that is there, durably.
    manifest: &'a Manifest,
    /// Whether the superfluous images were removed.
    is_made: bool,
}

impl<'a> Room<'a> {
    /// Nothing is written before the manifest that is there is sure to stay.
    pub(super) fn new(medium: &'a dyn Medium, path: &'a Path, manifest: &'a Manifest) -> Room<'a> {
        Room { medium, path, manifest, is_made: false }
    }

    /// Does what needs `bytes` in directory `dir`, once more after room was made.
    pub(super) fn with(
        &mut self,
        dir: &Path,
        bytes: u64,
        mut write: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let mut done = write();
        if done.as_ref().is_err_and(Error::is_full_disk) && !self.is_made {
            self.is_made = true;
            self.make();
            done = write();
        }
        Room::named(done, dir, bytes)
    }

    /// Says of a full disk that directory `dir` needs `bytes`.
    pub(super) fn named<T>(done: Result<T>, dir: &Path, bytes: u64) -> Result<T> {
        let is_full = done.as_ref().is_err_and(Error::is_full_disk);
        done.map_err(|e| match e {
            Error::Io { source, .. } if is_full => Error::DiskFull {
                dir: dir.to_path_buf(),
                bytes: bytes.next_multiple_of(BLOCK) + BLOCK,
                source,
            },
            other => other,
        })
    }

    /// Removes the images of the sides that the manifest does not name. What cannot be removed is
    /// not: then there is no room.
    fn make(&self) {
        let named = self.manifest.checkpoint.as_ref().map(|c| c.side);
        for side in (0..2).filter(|&side| Some(side) != named) {
            let _ = self.medium.remove(&self.path.join(manifest::image_name(side)));
        }
    }
}
