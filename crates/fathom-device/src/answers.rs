//! How many operations were answered: of one device, or of several together.
//!
//! A file system with its log on a device of its own has two, each served by a process, and what a
//! power cut leaves of them is told by the order of answers on both. No clock tells it. Both count
//! in the same memory instead: an operation's place is taken before its answer is given, and the
//! number of answers is read after an operation has come. So whatever was asked for because of an
//! answer, of whichever device, comes after it.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of the file that several share: one page at least is mapped.
const BYTES: usize = 4096;

/// A counter of answers.
#[derive(Debug)]
pub(super) struct Answers {
    count: NonNull<AtomicU64>,
}

// SAFETY: what is pointed to is an atomic number in a mapping that lives as long as this value.
unsafe impl Send for Answers {}
// SAFETY: as above.
unsafe impl Sync for Answers {}

impl Answers {
    /// Of one device alone; or of all that are given the same file, which is made as long as it has
    /// to be.
    ///
    /// # Errors
    /// There is no memory, or the file cannot be mapped.
    pub fn new(shared: Option<&File>) -> io::Result<Answers> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let begin = std::ptr::null_mut();
        // SAFETY: a new mapping at a place of the kernel's choice; a shared file is no shorter than
        // it, and only grows here.
        let mapped = unsafe {
            match shared {
                None => rustix::mm::mmap_anonymous(begin, BYTES, protection, MapFlags::PRIVATE)?,
                Some(file) => {
                    if file.metadata()?.len() < BYTES as u64 {
                        file.set_len(BYTES as u64)?;
                    }
                    rustix::mm::mmap(begin, BYTES, protection, MapFlags::SHARED, file, 0)?
                }
            }
        };
        let count = NonNull::new(mapped.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Answers { count })
    }

    fn count(&self) -> &AtomicU64 {
        // SAFETY: the mapping is of at least a page, begins at a page's boundary, was zero at
        // first, and lives as long as this value.
        unsafe { self.count.as_ref() }
    }

    /// How many were answered until now.
    pub fn so_far(&self) -> u64 {
        self.count().load(Ordering::SeqCst)
    }

    /// The place of an answer that is given next.
    pub fn next(&self) -> u64 {
        self.count().fetch_add(1, Ordering::SeqCst)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, to which no reference is left.
        unsafe {
            let _ = rustix::mm::munmap(self.count.as_ptr().cast(), BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_share_a_file_count_together() {
        let file = tempfile::tempfile().unwrap();
        let [one, other] = [0, 1].map(|_| Answers::new(Some(&file)).unwrap());
        assert_eq!((one.next(), other.next(), one.next()), (0, 1, 2));
        assert_eq!((one.so_far(), other.so_far()), (3, 3));
        let alone = Answers::new(None).unwrap();
        assert_eq!((alone.next(), alone.so_far(), one.so_far()), (0, 1, 3));
    }
}
