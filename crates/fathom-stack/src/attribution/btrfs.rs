//! From Btrfs's own address space, in which FIEMAP answers, to the device: the chunk tree
//! (<https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html>), read with
//! `BTRFS_IOC_TREE_SEARCH`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use fathom_probe::Note;

use super::regions::Bytes;

/// `_IOWR(0x94, 17, struct btrfs_ioctl_search_args)`.
const TREE_SEARCH: libc::Ioctl = 0xd000_9411_u32 as libc::Ioctl;
const CHUNK_TREE: u64 = 3;
const FIRST_CHUNK_TREE_OBJECT: u64 = 256;
const CHUNK_ITEM: u32 = 228;
/// Chunk items asked for in all; an image has a few.
const CHUNKS_MAX: usize = 10_000;

#[repr(C)]
struct SearchArguments {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: u32,
    unused_more: [u64; 4],
    buffer: [u8; 4096 - 104],
}

/// A chunk: where its bytes are, once for each copy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk {
    logical: u64,
    length: u64,
    copies: Vec<u64>,
}

/// The chunks of a file system on one device, in order.
#[derive(Debug, Default)]
pub(super) struct Chunks(Vec<Chunk>);

impl Chunks {
    /// Reads them of a mounted file system.
    pub fn of(path: &Path) -> io::Result<Chunks> {
        let directory = File::open(path)?;
        let mut found = Chunks::default();
        let mut from = 0;
        while found.0.len() < CHUNKS_MAX {
            let mut search = SearchArguments {
                tree: CHUNK_TREE,
                min_object: FIRST_CHUNK_TREE_OBJECT,
                max_object: FIRST_CHUNK_TREE_OBJECT,
                min_offset: from,
                max_offset: u64::MAX,
                min_transaction: 0,
                max_transaction: u64::MAX,
                min_type: CHUNK_ITEM,
                max_type: CHUNK_ITEM,
                items: u32::MAX,
                unused: 0,
                unused_more: [0; 4],
                buffer: [0; 4096 - 104],
            };
            // SAFETY: `search` has the layout of struct btrfs_ioctl_search_args and outlives the
            // call.
            if unsafe { libc::ioctl(directory.as_raw_fd(), TREE_SEARCH, &raw mut search) } != 0 {
                return Err(io::Error::last_os_error());
            }
            if search.items == 0 {
                break;
            }
            from = found.add(&Bytes(search.buffer.to_vec()), search.items).saturating_add(1);
        }
        found.0.sort_by_key(|chunk| chunk.logical);
        Ok(found)
    }

    /// Adds the items of an answer; gives the last one's offset.
    fn add(&mut self, answer: &Bytes, items: u32) -> u64 {
        let (mut at, mut last) = (0, u64::MAX - 1);
        for _ in 0..items {
            // Headers are in the machine's byte order, items little-endian.
            let logical = u64::from_ne_bytes(answer.array(at + 16));
            let kind = u32::from_ne_bytes(answer.array(at + 24));
            let length = u32::from_ne_bytes(answer.array(at + 28)) as usize;
            let item = at + 32;
            if kind == CHUNK_ITEM {
                let stripes = answer.le16(item + 44) as usize;
                self.0.push(Chunk {
                    logical,
                    length: u64::from_le_bytes(answer.array(item)),
                    copies: (0..stripes.min(8))
                        .map(|stripe| u64::from_le_bytes(answer.array(item + 48 + 32 * stripe + 8)))
                        .collect(),
                });
            }
            last = logical;
            at = item + length;
        }
        last
    }

    /// The note with the device's addresses: one for each copy and each chunk that it touches.
    pub fn translated(&self, note: Note) -> Vec<Note> {
        let (start, length) = match note {
            Note::Mapped { physical, length, .. } | Note::Freed { physical, length, .. } => {
                (physical, length)
            }
        };
        let mut all = Vec::new();
        for chunk in &self.0 {
            let (begin, end) = (start.max(chunk.logical), (start + length).min(chunk.logical + chunk.length));
            if begin >= end {
                continue;
            }
            for copy in &chunk.copies {
                let (there, bytes) = (copy + (begin - chunk.logical), end - begin);
                all.push(match note {
                    Note::Mapped { at_ns, file, .. } => {
                        Note::Mapped { at_ns, file, physical: there, length: bytes }
                    }
                    Note::Freed { at_ns, file, .. } => {
                        Note::Freed { at_ns, file, physical: there, length: bytes }
                    }
                });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<SearchArguments>(), 4096);
        assert_eq!(std::mem::offset_of!(SearchArguments, buffer), 104);
    }

    #[test]
    fn an_extent_over_two_chunks_is_at_two_places() {
        let chunk = |logical, copies: &[u64]| Chunk { logical, length: 1000, copies: copies.to_vec() };
        let chunks = Chunks(vec![chunk(0, &[5000]), chunk(1000, &[20_000, 40_000])]);
        let note = Note::Mapped { at_ns: 1, file: 2, physical: 900, length: 300 };
        let at = |physical, length| Note::Mapped { at_ns: 1, file: 2, physical, length };
        assert_eq!(chunks.translated(note), [at(5900, 100), at(20_000, 200), at(40_000, 200)]);
    }
}
