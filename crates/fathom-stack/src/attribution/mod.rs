//! Whose a request is: the database's, its journal's, the file system's own.
//!
//! Three sources are asked, in this order, for each block of a request:
//!
//! 1. **The file system's journal**, at the place that its superblock gives (ext3, ext4, XFS; an
//!    external log is a device of its own). Btrfs has no such place: its log tree lies among its
//!    other trees and counts as metadata.
//! 2. **The metadata mark** (`REQ_META`) that ext3, ext4, XFS and Btrfs put on what they write of
//!    themselves, and F2FS on a part of it: checkpoints and the tables of segments and nodes.
//! 3. **The files' extents**, as [`fathom_probe::Note`]s told them while the files were there, and
//!    as they are on the mounted file system at the end ([`files_on`]). They hold for a time: a
//!    journal's blocks may become the database's.
//!
//! What is left on ext2, ext3 and ext4 may still lie in a region that the superblock and the group
//! descriptors give to metadata, and on NTFS in the extents of its own files and directories.
//! Everything else is *unattributed*, and stays so.
//!
//! **When an extent holds.** Extents are seen after what was written there: after a sync. So a
//! request of time T in a block belongs to the file that held the block at T, else to the file that
//! is next seen to hold it, else to the one that held it last.

mod btrfs;
mod cause;
mod ext;
mod files;
mod holders;
mod ntfs;
mod regions;
mod xfs;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use fathom_probe::Note;
use serde::{Deserialize, Serialize};

use crate::blocks::{BlockOp, Request, SECTOR_BYTES};
use btrfs::Chunks;
pub use cause::Cause;
pub use files::{FoundFile, files_on};
use holders::Holders;
pub use regions::Regions;
use regions::{Superblocks, within};

fn unmarked(filesystem: &str) -> String {
    format!("{filesystem} marks nothing as metadata: what lies in no file is unattributed")
}

/// Consecutive bytes of a request with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// What made it.
    pub cause: Cause,
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u64,
}

/// What is known of a device's blocks.
#[derive(Debug, Default)]
pub struct Attribution {
    /// Of device 0: the file system's journal.
    journal: Vec<Range<u64>>,
    /// Of device 0: what the file system keeps for metadata whatever happens.
    metadata: Vec<Range<u64>>,
    holders: Holders,
    /// Bytes within which the cause does not change.
    step: u64,
    /// What a reader must know: what could not be read, what this file system does not tell.
    pub remarks: Vec<String>,
}

impl Attribution {
    /// Gathers what is known after a run: the regions of a file system of this kind on `device`,
    /// what was noted of the files while they were there (`causes`: what the file of each number
    /// counts as), and the files that are in `directory` now.
    #[must_use]
    pub fn gather(
        filesystem: &str,
        device: Option<&Path>,
        directory: &Path,
        notes: &[Note],
        causes: &[Cause],
    ) -> Attribution {
        let mut all = Attribution::of_filesystem(filesystem, device);
        let mut notes = notes.to_vec();
        let mut causes = causes.to_vec();
        match files_on(directory) {
            Ok(found) => {
                for file in found {
                    let number = u32::try_from(causes.len()).unwrap_or(u32::MAX);
                    causes.push(file.cause);
                    notes.extend(file.notes(number));
                }
            }
            Err(error) => all.remarks.push(format!("the files at the end could not be listed: {error}")),
        }
        if filesystem == "btrfs" {
            match Chunks::of(directory) {
                Ok(chunks) => notes = notes.into_iter().flat_map(|note| chunks.translated(note)).collect(),
                Err(error) => {
                    all.remarks.push(format!(
                        "Btrfs's chunk tree could not be read ({error}): its files' addresses mean nothing"
                    ));
                    notes.clear();
                }
            }
        }
        all.holders = Holders::of(&notes, &causes);
        all.step = all.holders.granularity();
        let aligned =
            |range: &Range<u64>| range.start.is_multiple_of(all.step) && range.end.is_multiple_of(all.step);
        if !all.journal.iter().chain(&all.metadata).all(aligned) {
            all.step = SECTOR_BYTES;
        }
        all
    }

    fn of_filesystem(filesystem: &str, device: Option<&Path>) -> Attribution {
        let mut all = Attribution::default();
        let Some(device) = device else { return all };
        let read = |read: &dyn Fn(&Superblocks) -> io::Result<Regions>| {
            File::open(device).and_then(|file| read(&Superblocks(file)))
        };
        let regions = match filesystem {
            "ext2" | "ext3" | "ext4" => read(&ext::regions),
            "xfs" => read(&xfs::regions),
            // A driver behind FUSE names itself `fuseblk`, whatever it reads.
            "ntfs" | "fuseblk" => {
                let regions = read(&ntfs::regions);
                if regions.is_err() && filesystem == "fuseblk" {
                    all.remarks.push(unmarked("this file system behind FUSE"));
                    return all;
                }
                all.remarks.push(
                    "NTFS-3G marks nothing: its file table, log, bitmap and directories are known by their places at the end, and what a small file \
                     holds lies in the table"
                        .into(),
                );
                regions
            }
            "btrfs" => {
                all.remarks.push(
                    "Btrfs keeps its log tree among its other trees: its journal counts as metadata".into(),
                );
                return all;
            }
            "f2fs" => {
                all.remarks.push(
                    "F2FS marks its checkpoints and its tables of segments and nodes as metadata, and not the nodes themselves: \
                     these and directories are unattributed"
                        .into(),
                );
                return all;
            }
            other => {
                all.remarks.push(unmarked(other));
                return all;
            }
        };
        match regions {
            Ok(regions) => (all.journal, all.metadata) = (regions.journal, regions.metadata),
            Err(error) => all.remarks.push(format!(
                "the superblock of {} could not be read ({error}): the file system's journal is not told from its metadata",
                device.display()
            )),
        }
        if filesystem == "ext2" {
            all.remarks.push(
                "ext2 does not mark its metadata: bitmaps and inode tables are known by their place, directories and \
                 indirect blocks are unattributed"
                    .into(),
            );
        }
        all
    }

    /// The pieces of a request, in order; one of no bytes for a flush.
    #[must_use]
    pub fn pieces(&self, request: &Request) -> Vec<Piece> {
        let (begin, bytes) = (request.sector * SECTOR_BYTES, request.bytes());
        let whole = |cause| vec![Piece { cause, offset: begin, bytes }];
        if request.op == BlockOp::Flush {
            return whole(Cause::Flush);
        }
        if request.device != 0 {
            return whole(Cause::FileSystemJournal);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let step = self.step.max(SECTOR_BYTES);
        let mut at = begin;
        while at < begin + bytes {
            let next = ((at / step + 1) * step).min(begin + bytes);
            let cause = self.cause_at(request, at);
            match pieces.last_mut() {
                Some(last) if last.cause == cause => last.bytes += next - at,
                _ => pieces.push(Piece { cause, offset: at, bytes: next - at }),
            }
            at = next;
        }
        pieces
    }

    fn cause_at(&self, request: &Request, at: u64) -> Cause {
        if within(&self.journal, at) {
            return Cause::FileSystemJournal;
        }
        if request.meta {
            return Cause::Metadata;
        }
        match self.holders.at(at, request.submit_ns) {
            Some(cause) => cause,
            None if within(&self.metadata, at) => Cause::Metadata,
            None => Cause::Unattributed,
        }
    }
}

impl Regions {
    /// Reads them from a device or an image; none of a file system that does not tell (Btrfs, FAT,
    /// F2FS).
    ///
    /// # Errors
    /// It cannot be read, or what is there is no such file system.
    pub fn of(filesystem: &str, device: File) -> io::Result<Regions> {
        let device = Superblocks(device);
        match filesystem {
            "ext2" | "ext3" | "ext4" => ext::regions(&device),
            "xfs" => xfs::regions(&device),
            "ntfs" | "ntfs3" => ntfs::regions(&device),
            _ => Ok(Regions::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(meta: bool) -> Request {
        Request {
            device: 0,
            op: BlockOp::Write,
            fua: false,
            sync: true,
            meta,
            ahead: false,
            submit_ns: 1,
            issue_ns: 1,
            complete_ns: 2,
            sector: 8,
            sectors: 8,
            error: 0,
        }
    }

    /// What happened: of a run on F2FS it was said that it marks nothing as metadata, beside a
    /// column with the bytes that it had marked: its checkpoints.
    #[test]
    fn what_f2fs_marks_is_metadata_and_the_remark_says_so() {
        let on = |name: &str| Attribution::of_filesystem(name, Some(Path::new("/dev/null")));
        let all = on("f2fs");
        let cause = |meta| all.pieces(&write(meta)).first().map(|piece| piece.cause);
        assert_eq!((cause(true), cause(false)), (Some(Cause::Metadata), Some(Cause::Unattributed)));
        assert!(all.remarks.iter().any(|said| said.starts_with("F2FS marks its checkpoints")));
        assert!(!all.remarks.iter().any(|said| said.contains("marks nothing")), "{:?}", all.remarks);
        assert!(on("vfat").remarks.iter().any(|said| said.contains("vfat marks nothing")));
    }
}
