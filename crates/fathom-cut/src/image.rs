//! A device's content in memory, brought from one state to the next by writing only what differs.

use std::fs::File;
use std::io::Write;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};

use crate::history::{BLOCK, BLOCK_BYTES, History};
use crate::states::State;

/// A block of zeros: one comparison of memory is faster than a look at each byte.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A file in memory that a loop device lies on. It has no name, and goes with this process.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    map: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel's own accesses through the loop
// device are those of another device's medium, and happen while nothing here reads or writes (the
// file system is not mounted then).
unsafe impl Send for Image {}

impl Image {
    /// An image of zeros.
    pub fn new(bytes: u64) -> std::io::Result<Image> {
        // The name shows whose it is in the list of loop devices.
        let name = format!("fathom-cut-{}", std::process::id());
        let file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        let bytes = usize::try_from(bytes).map_err(std::io::Error::other)?;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that keeps its length
        // as long as this value lives.
        let map = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let map = NonNull::new(map.cast()).ok_or_else(|| std::io::Error::other("mapped at 0"))?;
        Ok(Image { file, map, bytes })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// A block, to be changed. One that was never written gets memory by this.
    fn block(&mut self, block: u64) -> &mut [u8] {
        let at = block as usize * BLOCK;
        let length = BLOCK.min(self.bytes - at);
        // SAFETY: within the mapping, which lives as long as `self`, borrowed for as long as the
        // slice.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_ptr().add(at), length) }
    }

    /// Brings the image to a state, whatever it held before; gives the number of blocks that were
    /// written.
    pub fn bring_to(&mut self, history: &History, safe: u64, state: &State) -> std::io::Result<u64> {
        let mut written = 0;
        // Whatever has memory may differ: a file system that was mounted wrote to it.
        let mut checked = 0;
        let mut at = 0;
        while let Some((begin, end)) = self.data_from(at)? {
            for &block in history.with_content(checked..begin) {
                written += self.set_unless_hole(history, block, safe, state);
            }
            for block in begin..end {
                written += self.set(history, block, safe, state);
            }
            (checked, at) = (end, end * BLOCK_BYTES);
        }
        for &block in history.with_content(checked..history.blocks()) {
            written += self.set_unless_hole(history, block, safe, state);
        }
        Ok(written)
    }

    /// Blocks that have memory, from the one at `at` on.
    fn data_from(&self, at: u64) -> std::io::Result<Option<(u64, u64)>> {
        if at >= self.bytes as u64 {
            return Ok(None);
        }
        let begin = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(begin))?;
        Ok(Some((begin / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES))))
    }

    fn set(&mut self, history: &History, block: u64, safe: u64, state: &State) -> u64 {
        let wanted = history.block(block, safe, state);
        let there = self.block(block);
        match wanted.as_deref() {
            Some(wanted) if *there != wanted[..there.len()] => there.copy_from_slice(&wanted[..there.len()]),
            None if *there != ZEROS[..there.len()] => there.fill(0),
            _ => return 0,
        }
        1
    }

    /// The same for a block without memory, which is not to have any where it stays zero.
    fn set_unless_hole(&mut self, history: &History, block: u64, safe: u64, state: &State) -> u64 {
        match history.block(block, safe, state) {
            Some(_) => self.set(history, block, safe, state),
            None => 0,
        }
    }

    /// Writes it whole, zeros too.
    pub fn copy_to(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut content = vec![0; BLOCK];
        for place in (0..self.bytes as u64).step_by(BLOCK) {
            let length = BLOCK.min((self.bytes as u64 - place) as usize);
            self.read(place, &mut content[..length])?;
            out.write_all(&content[..length])?;
        }
        Ok(())
    }

    /// Bytes of it.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, to which no reference is left.
        unsafe {
            let _ = rustix::mm::munmap(self.map.as_ptr().cast(), self.bytes);
        }
    }
}
