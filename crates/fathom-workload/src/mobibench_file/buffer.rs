//! Memory for records, at addresses that suit `O_DIRECT`.

/// `O_DIRECT` wants buffers aligned to the device's logical block, which is at most a page
/// everywhere.
const ALIGNMENT: usize = 4096;

/// A block of memory whose first byte is at a multiple of 4,096.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    /// Zeroed memory, written once so that its pages exist before anything is timed.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        // A byte other than zero keeps the allocator from handing out untouched zero pages.
        let mut memory = vec![1; bytes + ALIGNMENT];
        memory.fill(0);
        // The vector is never grown, so its memory stays where it is.
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Buffer { memory, start, bytes }
    }

    /// The memory.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    /// The memory, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_of_the_asked_size() {
        for bytes in [1, 512, 4096, 1 << 20] {
            let mut buffer = Buffer::new(bytes);
            assert_eq!(buffer.bytes().len(), bytes);
            assert_eq!(buffer.bytes_mut().as_ptr() as usize % ALIGNMENT, 0);
        }
    }
}
