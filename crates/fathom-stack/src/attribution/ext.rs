//! The journal and the fixed metadata of ext2, ext3 and ext4, from the superblock and the group
//! descriptors (<https://docs.kernel.org/filesystems/ext4/globals.html>, little-endian).

use std::cell::Cell;
use std::io;
use std::ops::Range;

use super::regions::{Bytes, Regions, Superblocks, joined, unlike};

const SUPERBLOCK: u64 = 1024;
const MAGIC: u64 = 0xef53;
const EXTENT_MAGIC: u64 = 0xf30a;
/// `EXT3_FEATURE_COMPAT_HAS_JOURNAL`, `EXT4_FEATURE_INCOMPAT_64BIT`.
const HAS_JOURNAL: u64 = 0x4;
const WIDE: u64 = 0x80;
/// Groups and blocks beyond which a superblock is not believed.
const GROUPS_MAX: u64 = 1 << 22;
/// Bytes of a group's descriptor at most (`EXT4_MAX_DESC_SIZE`).
const DESCRIPTOR_MAX: u64 = 1024;
/// Deepest tree of extents or of indirect blocks.
const DEEPEST: u64 = 5;
/// What a journal's map may take: 1 for each piece of the journal, of which e2fsprogs makes
/// 10,240,000 at most, and [`READ_TAKES`] for each block of the map. Of an image that somebody else
/// has made all may lead to one another.
const MAP_TAKES: u64 = 1 << 24;
const READ_TAKES: u64 = 64;

pub(super) fn regions(device: &Superblocks) -> io::Result<Regions> {
    let superblock = device.read(SUPERBLOCK, 1024)?;
    if superblock.le16(56) != MAGIC || superblock.le32(24) > 6 {
        return Err(unlike("ext's superblock"));
    }
    let block_bytes = 1024 << superblock.le32(24);
    let device = Device { device, block_bytes, room: Cell::new(MAP_TAKES) };
    let journal = if superblock.le32(0x5c) & HAS_JOURNAL == 0 || superblock.le32(0xe0) == 0 {
        Vec::new()
    } else {
        // A copy of the journal inode's block map (`s_jnl_blocks`, made by mke2fs for e2fsck).
        device.blocks_of(&Bytes(superblock.array::<60>(0x10c).to_vec()))?
    };
    Ok(Regions { journal: joined(journal), metadata: joined(device.metadata(&superblock)?) })
}

struct Device<'a> {
    device: &'a Superblocks,
    block_bytes: u64,
    /// What is left of [`MAP_TAKES`].
    room: Cell<u64>,
}

impl Device<'_> {
    fn range(&self, block: u64, count: u64) -> Range<u64> {
        let at = |block: u64| block.saturating_mul(self.block_bytes);
        at(block)..at(block.saturating_add(count))
    }

    fn take(&self, part: u64) -> io::Result<()> {
        let left = self.room.get().checked_sub(part).ok_or_else(|| unlike("the map of the journal"))?;
        self.room.set(left);
        Ok(())
    }

    fn block(&self, number: u64) -> io::Result<Bytes> {
        self.take(READ_TAKES)?;
        self.device.read(number.saturating_mul(self.block_bytes), self.block_bytes as usize)
    }

    /// The blocks of an inode, from the 60 bytes of its map: an extent tree, or direct and indirect
    /// blocks.
    fn blocks_of(&self, map: &Bytes) -> io::Result<Vec<Range<u64>>> {
        let mut found = Vec::new();
        if map.le16(0) == EXTENT_MAGIC {
            self.extents(map, DEEPEST, &mut found)?;
        } else {
            for number in 0..15 {
                let block = map.le32(4 * number);
                if block != 0 {
                    self.indirect(block, (number as u64).saturating_sub(11), &mut found)?;
                }
            }
        }
        Ok(found)
    }

    fn extents(&self, node: &Bytes, deeper: u64, found: &mut Vec<Range<u64>>) -> io::Result<()> {
        let (entries, depth) = (node.le16(2) as usize, node.le16(6));
        if node.le16(0) != EXTENT_MAGIC || depth > deeper || entries > node.0.len() / 12 {
            return Err(unlike("the journal's extent tree"));
        }
        for entry in (1..=entries).map(|number| number * 12) {
            if depth == 0 {
                let start = node.le16(entry + 6) << 32 | node.le32(entry + 8);
                // Above 32768: allocated, and not yet written.
                let length = node.le16(entry + 4);
                self.take(1)?;
                found.push(self.range(start, if length > 32768 { length - 32768 } else { length }));
            } else {
                let child = node.le16(entry + 8) << 32 | node.le32(entry + 4);
                let Some(deeper) = deeper.checked_sub(1) else {
                    return Err(unlike("the journal's extent tree"));
                };
                self.extents(&self.block(child)?, deeper, found)?;
            }
        }
        Ok(())
    }

    fn indirect(&self, block: u64, levels: u64, found: &mut Vec<Range<u64>>) -> io::Result<()> {
        if levels == 0 {
            self.take(1)?;
            found.push(self.range(block, 1));
            return Ok(());
        }
        let node = self.block(block)?;
        for number in 0..self.block_bytes as usize / 4 {
            let child = node.le32(4 * number);
            if child != 0 {
                self.indirect(child, levels - 1, found)?;
            }
        }
        Ok(())
    }

    /// Superblock and group descriptors, bitmaps and inode tables.
    fn metadata(&self, superblock: &Bytes) -> io::Result<Vec<Range<u64>>> {
        let wide = superblock.le32(0x60) & WIDE != 0;
        let blocks = superblock.le32(4) | if wide { superblock.le32(0x150) << 32 } else { 0 };
        let first = superblock.le32(20);
        let (per_group, inodes_per_group) = (superblock.le32(32), superblock.le32(40));
        let inode_bytes = if superblock.le32(76) == 0 { 128 } else { superblock.le16(88) };
        let descriptor_bytes = if wide { superblock.le16(0xfe).max(64) } else { 32 };
        let groups = blocks.saturating_sub(first).div_ceil(per_group.max(1));
        if per_group == 0 || groups > GROUPS_MAX || descriptor_bytes > DESCRIPTOR_MAX {
            return Err(unlike("ext's superblock"));
        }
        let reserved = superblock.le16(206);
        let descriptor_blocks = (groups * descriptor_bytes).div_ceil(self.block_bytes);
        let table_blocks = (inodes_per_group * inode_bytes).div_ceil(self.block_bytes);
        let descriptors =
            self.device.read((first + 1) * self.block_bytes, (groups * descriptor_bytes) as usize)?;
        let mut found = vec![self.range(0, first + 1 + descriptor_blocks + reserved)];
        for group in 0..groups {
            let at = (group * descriptor_bytes) as usize;
            let pointer = |low: usize| {
                let high = if wide { descriptors.le32(at + low + 32) << 32 } else { 0 };
                descriptors.le32(at + low) | high
            };
            found.push(self.range(pointer(0), 1));
            found.push(self.range(pointer(4), 1));
            found.push(self.range(pointer(8), table_blocks));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// What happened: the map of an image's journal was followed wherever it led. One block that is
    /// full of its own number is a tree of four trillion: whoever replayed somebody's power cut, or
    /// traced a run that begins with somebody's image, ran out of memory.
    #[test]
    fn a_map_that_leads_to_itself_is_left() {
        // As many numbers of block 1 as block 1 has room for; the map's last one leads there.
        let pointers = [1u8, 0, 0, 0].repeat(16_384);
        let map_of_pointers = [vec![0; 56], vec![1, 0, 0, 0]].concat();
        // A node with as many extents as there is room for, and a map with four of it.
        let mut node = vec![0; 65_536];
        node[..8].copy_from_slice(&[0x0a, 0xf3, 0x54, 0x15, 0, 0, 0, 0]);
        for entry in (1..=0x1554).map(|number| number * 12) {
            node[entry + 4] = 1;
        }
        let mut map_of_nodes = node[..60].to_vec();
        map_of_nodes[2..8].copy_from_slice(&[4, 0, 0, 0, 1, 0]);
        for (block, map) in [(pointers, map_of_pointers), (node, map_of_nodes)] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[0; 65_536]).unwrap();
            file.write_all(&block).unwrap();
            let superblocks = Superblocks(file);
            let with = |room| Device { device: &superblocks, block_bytes: 65_536, room: Cell::new(room) };
            let error = with(10_000).blocks_of(&Bytes(map)).unwrap_err().to_string();
            assert!(error.contains("the map of the journal"), "{error}");
        }
    }
}
