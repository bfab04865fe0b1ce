//! The log of an XFS, from its superblock (`struct xfs_dsb`, big-endian; *XFS Algorithms & Data
//! Structures*).

use std::io;

use super::regions::{Regions, Superblocks, unlike};

pub(super) fn regions(device: &Superblocks) -> io::Result<Regions> {
    let superblock = device.read(0, 512)?;
    if superblock.array(0) != *b"XFSB" {
        return Err(unlike("XFS's superblock"));
    }
    let block_bytes = superblock.be32(4);
    let log_start = superblock.be64(48);
    let group_blocks = superblock.be32(84);
    let log_blocks = superblock.be32(96);
    let group_bits = u32::from(superblock.array::<1>(124)[0]);
    if group_bits >= 64 || !block_bytes.is_power_of_two() {
        return Err(unlike("XFS's superblock"));
    }
    // 0: the log is on a device of its own.
    if log_start == 0 {
        return Ok(Regions::default());
    }
    // A block's number is its group's, and its own within the group.
    let group = (log_start >> group_bits).saturating_mul(group_blocks);
    let block = group.saturating_add(log_start & ((1 << group_bits) - 1));
    let start = block.saturating_mul(block_bytes);
    let log = start..start.saturating_add(log_blocks.saturating_mul(block_bytes));
    Ok(Regions { journal: std::iter::once(log).collect(), metadata: Vec::new() })
}
