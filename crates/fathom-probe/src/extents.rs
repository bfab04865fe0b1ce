//! Where a file's bytes lie on its device: the file system's own extent map, read through
//! `FS_IOC_FIEMAP` (<https://docs.kernel.org/filesystems/fiemap.html>), or block by block through
//! `FIBMAP` where a file system knows only that (ntfs-3g, FAT); that needs root.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// Extents asked for in one call.
const EXTENTS: usize = 64;

/// `FIBMAP` and `FIGETBSZ` of `<linux/fs.h>`.
const FIBMAP: libc::Ioctl = 1;
const FIGETBSZ: libc::Ioctl = 2;

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 0x1;
/// Extents without a place of their own on the device: unknown, not allocated yet, in the inode, or
/// packed with others.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x200 | 0x400;

/// Consecutive bytes of a file that lie consecutively on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Offset on the device, bytes. Btrfs gives addresses of its own address space here.
    pub physical: u64,
    /// Length, bytes.
    pub length: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

const EMPTY: FiemapExtent =
    FiemapExtent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };

/// The extents that overlap `length` bytes from `offset` of an open file (`u64::MAX` = to its end),
/// in order. What has no place on the device yet is left out: nothing is written by asking.
///
/// # Errors
/// The file system has no extent map to show (FUSE, tmpfs), or reading it fails.
pub fn extents(file: impl AsFd, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
    let end = offset.saturating_add(length);
    let mut found = Vec::new();
    let mut at = offset;
    while at < end {
        let mut map = Fiemap {
            start: at,
            length: end - at,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [EMPTY; EXTENTS],
        };
        // SAFETY: `map` has the layout of struct fiemap with room for `extent_count` extents, and
        // outlives the call.
        if unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOTTY) => {
                    // Where this does not work either, the first error says more.
                    blocks(file.as_fd(), offset, end).map_err(|_| error)
                }
                _ => Err(error),
            };
        }
        let mapped = map.extents.get(..map.mapped_extents as usize).unwrap_or(&map.extents);
        for extent in mapped.iter().filter(|extent| extent.flags & NO_PLACE == 0 && extent.length > 0) {
            found.push(Extent { offset: extent.logical, physical: extent.physical, length: extent.length });
        }
        match mapped.last() {
            Some(last) if last.flags & LAST == 0 && last.logical.saturating_add(last.length) > at => {
                at = last.logical.saturating_add(last.length);
            }
            _ => break,
        }
    }
    Ok(found)
}

/// As [`extents`], one block at a time.
fn blocks(file: BorrowedFd<'_>, offset: u64, end: u64) -> io::Result<Vec<Extent>> {
    let descriptor = file.as_raw_fd();
    let mut size: c_int = 0;
    // SAFETY: the request writes one int, which is there.
    if unsafe { libc::ioctl(descriptor, FIGETBSZ, &raw mut size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let size = u64::try_from(size).ok().filter(|bytes| *bytes > 0).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: all-zero bytes are a valid stat, which is there to be written.
    let (status, result) = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let result = libc::fstat(descriptor, &raw mut status);
        (status, result)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let end = end.min(u64::try_from(status.st_size).unwrap_or(0));
    let mut found: Vec<Extent> = Vec::new();
    for number in offset / size..end.div_ceil(size) {
        let Ok(mut block) = c_int::try_from(number) else { break };
        // SAFETY: the request reads and writes one int, which is there.
        if unsafe { libc::ioctl(descriptor, FIBMAP, &raw mut block) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The block's number has 32 bits; 0 is a hole.
        let physical = u64::from(block.cast_unsigned()) * size;
        if physical == 0 {
            continue;
        }
        match found.last_mut() {
            Some(last)
                if last.offset + last.length == number * size && last.physical + last.length == physical =>
            {
                last.length += size;
            }
            _ => found.push(Extent { offset: number * size, physical, length: size }),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn layouts_are_the_kernels() {
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(std::mem::offset_of!(Fiemap, extents), 32);
    }

    #[test]
    fn a_synced_file_has_every_byte_in_an_extent() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = std::fs::File::create(dir.path().join("file")).unwrap();
        // A hole of 1 MiB between two pieces.
        file.write_all_at(&[1; 8192], 0).unwrap();
        file.write_all_at(&[2; 8192], 1 << 20).unwrap();
        file.sync_all().unwrap();
        let found = match extents(&file, 0, u64::MAX) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                println!("skipped: this file system has no extent map ({e})");
                return;
            }
            other => other.unwrap(),
        };
        let covers =
            |byte: u64| found.iter().any(|place| (place.offset..place.offset + place.length).contains(&byte));
        assert!(covers(0) && covers(8191) && covers(1 << 20) && !covers(512 << 10), "{found:?}");
        let part = extents(&file, 1 << 20, 4096).unwrap();
        assert!(part.iter().all(|place| place.offset >= 8192), "{part:?}");
    }
}
