//! Whose a block is: a page of the database, a directory, the file system's journal and what it
//! holds.
//!
//! Files and directories are asked for their extents on the mounted state. What lies in ext's
//! journal is read as jbd2 writes it (<https://docs.kernel.org/filesystems/ext4/journal.html>,
//! big-endian); other file systems' metadata is known by the magic numbers of its blocks (XFS:
//! `fs/xfs/libxfs/xfs_format.h`; Btrfs:
//! <https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html>).

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

use fathom_stack::attribution::Regions;

use crate::error::CutError;
use crate::fat::{self, Places};
use crate::found_file::FoundFile;
use crate::history::{BLOCK_BYTES, History, Unit};
use crate::image::Image;
use crate::safe::{Safe, Side};
use crate::states::State;

/// First number of every block of jbd2's own, and the kinds of such blocks.
const JBD2: u32 = 0xc03b_3998;
const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const SUPERBLOCKS: [u32; 2] = [3, 4];
const REVOKE: u32 = 5;
/// Features of a journal's superblock that change its tags.
const WIDE: u32 = 0x2;
const CHECKSUM_V3: u32 = 0x10;
/// Units before and behind a block of the journal among which the rest of its transaction is.
const NEAR: usize = 4096;
/// Of what a transaction holds so many are named at most.
const HELD_MAX: usize = 5;

/// What is known of a file system's places, whatever its state.
#[derive(Debug)]
pub struct Owners {
    driver: String,
    regions: Regions,
    /// Of FAT and exFAT: theirs.
    fat: Places,
    page_bytes: u64,
    /// Of ext: bytes of a block, and the features of the journal.
    block_bytes: u64,
    features: u32,
    /// Where an external log's device begins.
    log_begins: Option<u64>,
}

/// What a block of jbd2 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jbd2 {
    Descriptor(u32),
    Commit(u32),
    Revoke(u32),
    Superblock,
}

impl Owners {
    /// Reads the places of the file system that a history ends with. `page_bytes` is the
    /// database's.
    ///
    /// # Errors
    /// There is no memory for the image.
    pub fn of(driver: &str, history: &History, page_bytes: u64) -> Result<Owners, CutError> {
        let failed = || CutError::io("an image in memory");
        let mut image = Image::new(history.places_of(Side::Main)).map_err(failed())?;
        let all = State { epoch: 0, present: Vec::new(), torn: None };
        let safe = Safe::all_before(history.answers);
        image.bring_to(history, safe, &all).map_err(failed())?;
        let file: File = image.file().try_clone().map_err(failed())?;
        let mut block_bytes = 4096;
        let mut features = 0;
        // A file system whose superblock is not as expected has no known places; its blocks are
        // named by what they hold.
        let regions = Regions::of(driver, file.try_clone().map_err(failed())?).unwrap_or_default();
        let is_fat = ["vfat", "msdos", "exfat"].contains(&driver);
        let fat = if is_fat { fat::places(&file) } else { Places::new() };
        if driver.starts_with("ext") {
            let mut word = [0; 4];
            if file.read_exact_at(&mut word, 1024 + 24).is_ok() {
                block_bytes = 1024 << u32::from_le_bytes(word).min(6);
            }
            let journal = regions.journal.iter().find_map(|journal| {
                let mut head = [0; 64];
                file.read_exact_at(&mut head, journal.start).ok()?;
                matches!(jbd2(&head), Some(Jbd2::Superblock)).then(|| be32(&head, 0x28))
            });
            // On a device of its own it begins behind a superblock that is ext's.
            let behind = history.log_begins.map(|begins| begins + block_bytes.max(2048));
            let external = behind.and_then(|at| {
                let block = history.block(at / BLOCK_BYTES, safe, &all)?;
                let head = block.get((at % BLOCK_BYTES) as usize..)?;
                matches!(jbd2(head), Some(Jbd2::Superblock)).then(|| be32(head, 0x28))
            });
            features = journal.or(external).unwrap_or(0);
        }
        let log_begins = history.log_begins;
        Ok(Owners { driver: driver.to_owned(), regions, fat, page_bytes, block_bytes, features, log_begins })
    }

    /// Whose a unit is, in words; `files` are those of a state in which it was in flight.
    #[must_use]
    pub fn name(&self, history: &History, unit: &Unit, files: &[FoundFile]) -> String {
        let at = unit.offset;
        if self.is_journal(at) {
            let what = match self.driver.as_str() {
                "xfs" => "a record of the log".to_owned(),
                _ => self.in_journal(history, unit, files),
            };
            let whose = if self.is_external(at) { "external log" } else { "file-system journal" };
            return format!("{whose}: {what}");
        }
        if let Some(owner) = self.of_file(at, files) {
            return owner;
        }
        let content = history.content_of(unit).unwrap_or_default();
        let known = match self.driver.as_str() {
            "btrfs" => btrfs(at, content),
            "xfs" => xfs(content),
            _ if !self.fat.is_empty() => {
                let place = self.fat.iter().find(|place| place.0.contains(&at));
                place.map(|place| format!("{} (block at {at})", place.1))
            }
            _ if at == 0 && self.driver.starts_with("ext") => Some("the superblock".into()),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let whose = if self.regions.is_metadata(at) {
                "file-system metadata (a descriptor, bitmap or inode table)"
            } else {
                "of no file that is there"
            };
            format!("block at {at}: {whose}")
        })
    }

    /// Whether a place lies on the device of an external log.
    fn is_external(&self, at: u64) -> bool {
        self.log_begins.is_some_and(|begins| at >= begins)
    }

    fn is_journal(&self, at: u64) -> bool {
        self.is_external(at) || self.regions.is_journal(at)
    }

    /// The file or directory that holds a place of the device.
    fn of_file(&self, at: u64, files: &[FoundFile]) -> Option<String> {
        if self.driver == "btrfs" {
            // Its extents are places of an address space of its own.
            return None;
        }
        files.iter().find_map(|file| {
            let (offset, physical, _) = *file
                .extents
                .iter()
                .find(|(_, physical, bytes)| (*physical..physical + bytes).contains(&at))?;
            let within = offset + (at - physical);
            let name = &file.name;
            Some(if file.is_directory {
                let name = if name.is_empty() { "/" } else { name };
                format!("the directory {name}, a block of its entries")
            } else if name.ends_with("-journal") || name.ends_with("-wal") {
                match within {
                    0 => format!("{name}: its header and what follows it"),
                    _ => format!("{name}: at {within}"),
                }
            } else {
                format!("{name}: page {}", within / self.page_bytes.max(1) + 1)
            })
        })
    }

    /// What a block of ext's journal is.
    fn in_journal(&self, history: &History, unit: &Unit, files: &[FoundFile]) -> String {
        let content = history.content_of(unit).unwrap_or_default();
        let chunks = content.chunks(self.block_bytes.min(4096) as usize);
        let heads: Vec<Jbd2> = chunks.filter_map(jbd2).collect();
        // Of several small blocks the one that decides most.
        let head = heads.iter().find(|head| matches!(head, Jbd2::Commit(_))).or(heads.first());
        match head {
            Some(Jbd2::Superblock) => "its superblock".into(),
            Some(Jbd2::Revoke(number)) => format!("a revocation of transaction {number}"),
            Some(Jbd2::Commit(number)) => format!(
                "the commit record of transaction {number}, which holds {}",
                self.held(history, unit, *number, files)
            ),
            Some(Jbd2::Descriptor(number)) => format!(
                "the descriptor of transaction {number}, which holds {}",
                self.held(history, unit, *number, files)
            ),
            None => match self.copied(history, unit) {
                Some((number, block)) => {
                    format!("transaction {number}'s copy of {}", self.block_named(block, files))
                }
                None => "a block of a transaction".into(),
            },
        }
    }

    /// Units near one, all of the journal.
    fn near<'a>(&'a self, history: &'a History, unit: &Unit) -> impl Iterator<Item = &'a Unit> {
        let place = history.units.partition_point(|partition_point| partition_point.answer < unit.answer);
        let range = place.saturating_sub(NEAR)..(place + NEAR).min(history.units.len());
        history.units[range].iter().filter(|range| self.is_journal(range.offset))
    }

    /// What a transaction holds, in words.
    fn held(&self, history: &History, unit: &Unit, number: u32, files: &[FoundFile]) -> String {
        let mut blocks = BTreeSet::new();
        for near in self.near(history, unit) {
            let content = history.content_of(near).unwrap_or_default();
            for chunk in content.chunks(self.block_bytes.min(4096) as usize) {
                if jbd2(chunk) == Some(Jbd2::Descriptor(number)) {
                    blocks.extend(self.tags(chunk));
                }
            }
        }
        let mut names: Vec<String> = Vec::new();
        for block in blocks {
            let name = self.block_named(block, files);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // Directories tell most.
        names.sort_by_key(|name| !name.starts_with("the directory"));
        let more = names.len().saturating_sub(HELD_MAX);
        names.truncate(HELD_MAX);
        match (names.is_empty(), more) {
            (true, _) => "nothing that is known".into(),
            (_, 0) => names.join(", "),
            _ => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// The transaction, and the file system's block, that a block of the journal is the copy of.
    fn copied(&self, history: &History, unit: &Unit) -> Option<(u32, u64)> {
        self.near(history, unit).find_map(|near| {
            let content = history.content_of(near)?;
            let Some(Jbd2::Descriptor(number)) = jbd2(content) else { return None };
            let place = unit.offset.checked_sub(near.offset)? / self.block_bytes;
            let tags = self.tags(content);
            let tag = tags.get(usize::try_from(place.checked_sub(1)?).ok()?)?;
            (near.answer.abs_diff(unit.answer) < NEAR as u64).then_some((number, *tag))
        })
    }

    fn block_named(&self, block: u64, files: &[FoundFile]) -> String {
        let at = block * self.block_bytes;
        if let Some(owner) = self.of_file(at, files) {
            return owner;
        }
        match () {
            () if at < self.block_bytes.max(2048) => "the superblock".into(),
            () if self.regions.is_metadata(at) => "bitmaps or inodes".into(),
            () => format!("block {block}"),
        }
    }

    /// The file system's blocks that a descriptor names, in order.
    fn tags(&self, descriptor: &[u8]) -> Vec<u64> {
        const SAME_UUID: u32 = 2;
        const LAST: u32 = 8;
        let v3 = self.features & CHECKSUM_V3 != 0;
        let wide = self.features & WIDE != 0;
        let bytes = match (v3, wide) {
            (true, _) => 16,
            (false, true) => 12,
            (false, false) => 8,
        };
        let mut found = Vec::new();
        let mut at = 12;
        while at + bytes <= descriptor.len() {
            let low = u64::from(be32(descriptor, at));
            let flags = if v3 { be32(descriptor, at + 4) } else { be32(descriptor, at + 4) & 0xffff };
            let high = if wide { u64::from(be32(descriptor, at + 8)) } else { 0 };
            found.push(high << 32 | low);
            if flags & LAST != 0 {
                break;
            }
            at += bytes + if flags & SAME_UUID == 0 { 16 } else { 0 };
        }
        found
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    u32::from_be_bytes(word.copied().unwrap_or_default())
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    u64::from_le_bytes(word.copied().unwrap_or_default())
}

fn jbd2(block: &[u8]) -> Option<Jbd2> {
    if be32(block, 0) != JBD2 {
        return None;
    }
    let number = be32(block, 8);
    match be32(block, 4) {
        DESCRIPTOR => Some(Jbd2::Descriptor(number)),
        COMMIT => Some(Jbd2::Commit(number)),
        REVOKE => Some(Jbd2::Revoke(number)),
        kind if SUPERBLOCKS.contains(&kind) => Some(Jbd2::Superblock),
        _ => None,
    }
}

/// What a block of Btrfs is, by its head.
fn btrfs(at: u64, content: &[u8]) -> Option<String> {
    if content.get(0x40..0x48) == Some(b"_BHRfS_M") {
        return Some("a superblock of Btrfs".into());
    }
    // A tree's block names its own place (in the file system's address space) and its tree.
    let tree = match le64(content, 88) {
        1 => "root tree",
        2 => "extent tree",
        3 => "chunk tree",
        4 => "device tree",
        5 => "tree of files and directories",
        7 => "checksum tree",
        10 => "free-space tree",
        0xffff_ffff_ffff_fffa => "log tree (what fsync writes)",
        _ => return None,
    };
    (le64(content, 48) > 0).then(|| format!("block at {at}: of Btrfs's {tree}"))
}

/// What a block of XFS is, by its magic number.
fn xfs(content: &[u8]) -> Option<String> {
    let what = match content.get(..4)? {
        b"XFSB" => "the superblock",
        b"XAGF" | b"XAGI" | b"XAFL" => "headers of an allocation group",
        b"AB3B" | b"AB3C" | b"R3FC" | b"FIB3" | b"IAB3" => "a tree of free space or inodes",
        b"XDB3" | b"XDD3" | b"XDF3" => "a directory's entries",
        [b'I', b'N', _, _] => "inodes (a short directory's entries are in its inode)",
        _ => return None,
    };
    Some(format!("XFS metadata: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(features: u32) -> Owners {
        Owners {
            driver: "ext4".into(),
            regions: Regions::default(),
            fat: Places::new(),
            page_bytes: 4096,
            block_bytes: 4096,
            features,
            log_begins: None,
        }
    }

    /// A descriptor of jbd2: blocks with their flags.
    fn descriptor(features: u32, blocks: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [JBD2, DESCRIPTOR, 9] {
            bytes.extend(word.to_be_bytes());
        }
        for (number, block) in blocks.iter().enumerate() {
            let flags: u32 = if number > 0 { 2 } else { 0 } | if number + 1 == blocks.len() { 8 } else { 0 };
            bytes.extend((*block as u32).to_be_bytes());
            bytes.extend(flags.to_be_bytes());
            if features & WIDE != 0 {
                bytes.extend(((block >> 32) as u32).to_be_bytes());
            } else if features & CHECKSUM_V3 != 0 {
                bytes.extend([0; 4]);
            }
            if features & CHECKSUM_V3 != 0 {
                bytes.extend([7; 4]);
            }
            if number == 0 {
                bytes.extend([0xaa; 16]);
            }
        }
        bytes.resize(4096, 0);
        bytes
    }

    #[test]
    fn tags_of_every_form_are_read() {
        for features in [0, WIDE, CHECKSUM_V3, WIDE | CHECKSUM_V3] {
            let blocks = [3, 777, 5];
            assert_eq!(owners(features).tags(&descriptor(features, &blocks)), blocks, "{features:x}");
        }
        let far = [1 << 33 | 5];
        assert_eq!(owners(WIDE).tags(&descriptor(WIDE, &far)), far);
        // Damaged ones end.
        assert!(owners(0).tags(&[0xff; 4096]).len() < 600);
        assert!(owners(WIDE).tags(&[]).is_empty());
    }

    #[test]
    fn a_place_is_the_files_that_holds_it() {
        let file = |name: &str, is_directory, extents: Vec<(u64, u64, u64)>| FoundFile {
            name: name.into(),
            bytes: 0,
            content: 0,
            begins: true,
            is_directory,
            extents,
        };
        let files = [
            file("work", true, vec![(0, 0x40000, 4096)]),
            file("work/cut.db", false, vec![(0, 0x50000, 8192), (8192, 0x90000, 4096)]),
            file("work/cut.db-journal", false, vec![(0, 0x60000, 8192)]),
        ];
        let of = |at| owners(0).of_file(at, &files);
        assert_eq!(of(0x51000).unwrap(), "work/cut.db: page 2");
        assert_eq!(of(0x90000).unwrap(), "work/cut.db: page 3");
        assert!(of(0x60000).unwrap().contains("cut.db-journal: its header"));
        assert!(of(0x40000).unwrap().contains("directory work"));
        assert_eq!(of(0x70000), None);
    }
}
