//! Memory that operations past the page cache take.

use fathom_random::Random;

/// Operations begin and end at multiples of this, bytes.
const BLOCK: usize = 4096;

/// Memory for operations, aligned and where possible in large pages, so that 1 MiB is one request.
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// Room for so many bytes, filled with what cannot be compressed.
    pub fn new(bytes: usize, random: &mut Random) -> AlignedBuffer {
        const LARGE_PAGE: usize = 2 << 20;
        let align = if bytes > BLOCK { LARGE_PAGE } else { BLOCK };
        let mut memory = vec![0; bytes.next_multiple_of(align) + align];
        let start = memory.as_ptr().align_offset(align).min(align);
        if align == LARGE_PAGE {
            // SAFETY: the range lies within the vector; the advice changes how it is backed, not
            // what it holds. Where the kernel has no large pages requests are smaller, no more.
            unsafe { libc::madvise(memory.as_mut_ptr().add(start).cast(), LARGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        // Zeros might be compressed away.
        memory[start..]
            .chunks_mut(8)
            .for_each(|eight| eight.copy_from_slice(&random.bits().to_le_bytes()[..eight.len()]));
        AlignedBuffer { memory, start }
    }

    /// The first of it.
    pub fn of(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + bytes]
    }
}
