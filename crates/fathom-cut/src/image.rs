//! A device's content in memory, brought from one state to the next by writing only what differs.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};

use crate::history::{BLOCK, BLOCK_BYTES, History, Version};
use crate::safe::Safe;
use crate::states::State;

/// A block of zeros: one comparison of memory is faster than a look at each byte.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A file in memory that a loop device lies on. It has no name, and goes with this process.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    map: NonNull<u8>,
    bytes: usize,
    /// Where it begins among the history's blocks.
    first: u64,
    /// Of each block that may hold something, in order, what it held when the image was brought to
    /// the last state.
    versions: Vec<(u64, Version)>,
    /// What was safe then, and the units in flight that were there.
    safe: Option<Safe>,
    units: Vec<u32>,
    /// What stat(2) counts when only those blocks have memory.
    known_blocks: Option<u64>,
}

// SAFETY: the mapping belongs to this value alone; the kernel's own accesses through the loop
// device are those of another device's medium, and happen while nothing here reads or writes (the
// file system is not mounted then).
unsafe impl Send for Image {}

impl Image {
    /// An image of zeros, of the device that has these bytes of a history's.
    pub fn new(places: Range<u64>) -> std::io::Result<Image> {
        let first = places.start / BLOCK_BYTES;
        let bytes = places.end - places.start;
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
        Ok(Image {
            file,
            map,
            bytes,
            first,
            versions: Vec::new(),
            safe: None,
            units: Vec::new(),
            known_blocks: None,
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// A block of the history's, to be looked at or changed. One without memory gets some by this.
    fn block(&mut self, block: u64) -> &mut [u8] {
        let at = (block - self.first) as usize * BLOCK;
        let length = BLOCK.min(self.bytes - at);
        // SAFETY: within the mapping, which lives as long as `self`, borrowed for as long as the
        // slice.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_ptr().add(at), length) }
    }

    /// Brings the image to a state, whatever it held before; gives the number of blocks that were
    /// written.
    ///
    /// A file system that was mounted wrote to it wherever it liked, so that every block that may
    /// hold something is compared with what it is to hold. What that is is only asked for where the
    /// last state had something else.
    pub fn bring_to(&mut self, history: &History, safe: Safe, state: &State) -> std::io::Result<u64> {
        let mut versions = std::mem::take(&mut self.versions);
        self.choose(&mut versions, history, safe, state);
        let mut written = 0;
        for (block, version) in &versions {
            let wanted = match version {
                Version::Zeros => &ZEROS[..],
                Version::Unit(unit) => history
                    .units
                    .get(*unit as usize)
                    .map_or(&ZEROS[..], |unit| history.content_of(unit).unwrap_or(&ZEROS)),
                Version::Made(content) => content,
            };
            let there = self.block(*block);
            let wanted = &wanted[..there.len()];
            if *there != *wanted {
                there.copy_from_slice(wanted);
                written += 1;
            }
        }
        self.versions = versions;
        self.units = state.units().collect();
        self.safe = Some(safe);
        // All of them have memory now; whatever else has some was written by the file system.
        let known = *self.known_blocks.get_or_insert(0);
        let has = self.has_memory()?;
        if has != known {
            written += self.empty_others()?;
            self.known_blocks = Some(self.has_memory()?);
        }
        Ok(written)
    }

    /// Finds what each block is to hold in a state.
    fn choose(&self, versions: &mut Vec<(u64, Version)>, history: &History, safe: Safe, state: &State) {
        let ends = self.first + (self.bytes as u64).div_ceil(BLOCK_BYTES);
        let of_unit = |number: &u32| history.units.get(*number as usize);
        let changed = self.safe.and_then(|last| {
            let units: Vec<u32> = self.units.iter().copied().chain(state.units()).collect();
            let mut blocks = Vec::new();
            let either = history.newly_safe(last, safe).chain(history.newly_safe(safe, last));
            for unit in either.chain(units.iter().filter_map(of_unit)) {
                // Beyond that it takes longer than to look at all.
                if blocks.len() > versions.len() {
                    return None;
                }
                blocks.extend(history.with_content(unit.blocks()).iter().copied());
            }
            blocks.sort_unstable();
            blocks.dedup();
            Some(blocks)
        });
        match changed {
            Some(blocks) => {
                for block in blocks {
                    if let Ok(place) = versions.binary_search_by_key(&block, |version| version.0) {
                        versions[place].1 = history.version(block, safe, state);
                    }
                }
            }
            None => {
                let all = history.with_content(self.first..ends).iter();
                versions.clear();
                versions.extend(all.map(|&block| (block, history.version(block, safe, state))));
            }
        }
    }

    /// Blocks that have memory, or more: what stat(2) counts.
    fn has_memory(&self) -> std::io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.blocks())
    }

    /// Takes the memory of blocks that no state has anything in; gives their number.
    fn empty_others(&mut self) -> std::io::Result<u64> {
        let mut emptied = 0;
        let mut at = 0;
        while let Some((begin, end)) = self.data_from(at)? {
            for block in begin..end {
                let known = self.versions.binary_search_by_key(&(self.first + block), |version| version.0);
                if known.is_err() {
                    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    rustix::fs::fallocate(&self.file, flags, block * BLOCK_BYTES, BLOCK_BYTES)?;
                    emptied += 1;
                }
            }
            at = end * BLOCK_BYTES;
        }
        Ok(emptied)
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
