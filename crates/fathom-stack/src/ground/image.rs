//! Image files: the space that a loop-mounted file system lives in.
//!
//! An image loses its name as soon as it exists. The loop device keeps it alive, and whoever frees
//! that, frees the space, even after a kill -9: there is no file to forget. The kernel still shows
//! the name it had (`… (deleted)` in `losetup`), which carries the label, process id and start time
//! of the owner.
//!
//! An image is allocated in full *and written in full*. A hole, or an extent that was only reserved
//! with `fallocate`, costs the host file system a journal transaction on its first write, which
//! would appear as a slow sync of the file system under test; see the README for what it costs.
//! mkfs may undo this where it zeroes areas with write-zeroes requests, so the last step before
//! mounting is [`Image::settle`].

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, IFlags, SeekFrom};

/// Bytes of one write of zeros.
const CHUNK_BYTES: usize = 4 << 20;
/// Alignment that direct I/O may ask for, bytes.
const ALIGNMENT: usize = 4096;

/// An image without a name.
#[derive(Debug)]
pub struct Image {
    /// Open for reading and writing.
    pub file: File,
    /// Its size.
    pub bytes: u64,
}

impl Image {
    /// Makes an image of `bytes` in `directory` and takes its name away. With `allocate`, its space
    /// is reserved.
    ///
    /// # Errors
    /// The directory cannot be written or has no room.
    pub fn create(directory: &Path, name: &str, bytes: u64, allocate: bool) -> io::Result<Image> {
        let path = directory.join(name);
        let file = Image::begin(&path)?;
        fs::remove_file(&path)?;
        Image::lay_out(file, bytes, allocate)
    }

    /// Makes a new file that an image is to be, whose name stays.
    ///
    /// # Errors
    /// It exists already, or its directory cannot be written.
    pub fn begin(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode_0600().open(path)
    }

    /// Gives an empty file its size. With `allocate`, its space is reserved.
    ///
    /// # Errors
    /// There is no room.
    pub fn lay_out(file: File, bytes: u64, allocate: bool) -> io::Result<Image> {
        if is_btrfs(&file) {
            // Otherwise every block written would be copied elsewhere by the host. Only possible
            // while empty; on failure the host's costs are part of the result, which the record's
            // `device` shows.
            let flags = rustix::fs::ioctl_getflags(&file).unwrap_or(IFlags::empty());
            let _ = rustix::fs::ioctl_setflags(&file, flags | IFlags::NOCOW);
        }
        file.set_len(bytes)?;
        if allocate {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // A host file system without fallocate: settling writes every block.
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Image { file, bytes })
    }

    /// Takes over what another file holds; the rest stays.
    ///
    /// # Errors
    /// It cannot be read, or there is no room.
    pub fn fill(&mut self, mut from: &File) -> io::Result<()> {
        rustix::fs::seek(from, SeekFrom::Start(0))?;
        io::copy(&mut from, &mut self.file)?;
        Ok(())
    }

    /// Writes zeros wherever the image has a hole or reserved but unwritten space, and syncs it.
    /// Such space reads as zeros already, so the content stays the same. Returns how many bytes
    /// were written.
    ///
    /// # Errors
    /// No space, or the write fails.
    pub fn settle(&self) -> io::Result<u64> {
        let zeros = AlignedZeros::new();
        // Past the page cache where possible: 2 GiB of zeros would push everything else out of it.
        let through = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(through).ok();
        let mut written = 0;
        let mut at = 0;
        while at < self.bytes {
            // On file systems that do not know holes, SEEK_HOLE gives the end of the file: nothing
            // to do, nothing known.
            let hole = match rustix::fs::seek(&self.file, SeekFrom::Hole(at)) {
                Ok(hole) if hole < self.bytes => hole,
                Ok(_) | Err(rustix::io::Errno::NXIO) => break,
                Err(e) => return Err(e.into()),
            };
            let end = match rustix::fs::seek(&self.file, SeekFrom::Data(hole)) {
                Ok(data) => data.min(self.bytes),
                Err(rustix::io::Errno::NXIO) => self.bytes,
                Err(e) => return Err(e.into()),
            };
            let mut position = hole;
            while position < end {
                let count = (end - position).min(CHUNK_BYTES as u64) as usize;
                let aligned = position.is_multiple_of(ALIGNMENT as u64) && count.is_multiple_of(ALIGNMENT);
                match &direct {
                    Some(direct)
                        if aligned && direct.write_all_at(&zeros.bytes()[..count], position).is_ok() => {}
                    _ => self.file.write_all_at(&zeros.bytes()[..count], position)?,
                }
                position += count as u64;
            }
            written += end - hole;
            at = end;
        }
        self.file.sync_all()?;
        Ok(written)
    }
}

/// Zeros at an address that direct I/O accepts.
struct AlignedZeros {
    buffer: Vec<u8>,
    start: usize,
}

impl AlignedZeros {
    fn new() -> AlignedZeros {
        let buffer = vec![0u8; CHUNK_BYTES + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        AlignedZeros { buffer, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.start + CHUNK_BYTES]
    }
}

/// Makes a directory to work in, where there is none: what an application keeps there is this
/// user's alone.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

trait Private {
    fn mode_0600(&mut self) -> &mut Self;
}

impl Private for OpenOptions {
    /// Readable by its owner only: the image will hold what the run writes.
    fn mode_0600(&mut self) -> &mut Self {
        self.mode(0o600)
    }
}

fn is_btrfs(file: &File) -> bool {
    /// BTRFS_SUPER_MAGIC of <linux/magic.h>.
    const BTRFS_MAGIC: i64 = 0x9123_683E;
    // The field's type differs between architectures.
    #[allow(clippy::unnecessary_cast)]
    rustix::fs::fstatfs(file).is_ok_and(|s| s.f_type as i64 == BTRFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes(image: &Image) -> bool {
        rustix::fs::seek(&image.file, SeekFrom::Hole(0)).unwrap() < image.bytes
    }

    #[test]
    fn settling_fills_what_was_reserved_and_keeps_what_was_written() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let image = Image::create(dir.path(), "x.img", (9 << 20) + 512, true).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "an image has no name");
        image.file.write_all_at(b"superblock", 5 << 20).unwrap();
        image.file.sync_all().unwrap();
        let hole_seen = holes(&image);
        let written = image.settle().unwrap();
        assert_eq!(hole_seen, written > 0);
        assert!(!holes(&image), "every block is written");
        let mut all = vec![1u8; image.bytes as usize];
        image.file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all[5 << 20..(5 << 20) + 10], b"superblock");
        assert_eq!(all.iter().filter(|b| **b != 0).count(), 10);
        assert_eq!(image.settle().unwrap(), 0, "nothing is left to do");
    }

    #[test]
    fn an_image_that_does_not_fit_is_an_error_and_leaves_nothing() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(Image::create(dir.path(), "huge.img", 1 << 50, true).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
