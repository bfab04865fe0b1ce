//! Fixed places of a file system, and the bytes that tell them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub(super) fn within(ranges: &[Range<u64>], at: u64) -> bool {
    let after = ranges.partition_point(|range| range.start <= at);
    after.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|range| range.contains(&at))
}

/// Fixed places of a file system, bytes from the device's start, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// Its journal.
    pub journal: Vec<Range<u64>>,
    /// What it keeps for metadata whatever happens: superblocks, descriptors, bitmaps, inode
    /// tables.
    pub metadata: Vec<Range<u64>>,
}

impl Regions {
    /// Whether a place lies in the journal.
    #[must_use]
    pub fn is_journal(&self, at: u64) -> bool {
        within(&self.journal, at)
    }

    /// Whether a place is kept for metadata.
    #[must_use]
    pub fn is_metadata(&self, at: u64) -> bool {
        within(&self.metadata, at)
    }
}

/// A device, read where its file system keeps what it is.
pub(super) struct Superblocks(pub File);

/// Bytes that are read at once at most: the group descriptors of the largest ext.
const READ_MAX: usize = 256 << 20;

impl Superblocks {
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        if length > READ_MAX {
            return Err(unlike("what a superblock says"));
        }
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(Bytes(bytes))
    }
}

/// Bytes of which numbers are read; 0 beyond the end.
pub(super) struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
    }
    pub fn le16(&self, at: usize) -> u64 {
        u16::from_le_bytes(self.array(at)).into()
    }
    pub fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
    pub fn le32(&self, at: usize) -> u64 {
        u32::from_le_bytes(self.array(at)).into()
    }
    pub fn be32(&self, at: usize) -> u64 {
        u32::from_be_bytes(self.array(at)).into()
    }
    pub fn be64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }
}

pub(super) fn unlike(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not as expected"))
}

/// Sorts ranges and joins those that touch.
pub(super) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}
