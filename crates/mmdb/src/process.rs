//! Which process this is, for those who ask at every wait.
//!
//! The system's answer costs a call into the kernel, which was 2 to 3 % of a commit. It is kept in
//! a page that the kernel wipes in a forked process, which so learns that it has to ask.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A page that is zero in a process that was forked after it was written to. `None` where the kernel
/// cannot do that, which all since 4.14 can.
fn page() -> Option<&'static AtomicU32> {
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        if cfg!(miri) {
            return None;
        }
        const SIZE: usize = 4096;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel has room; nobody else knows of it.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), SIZE, access, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: that mapping. If it fails, the page stays mapped, and is never used.
        unsafe { madvise(page, SIZE, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: it begins a page of zeros, so it is aligned and a value; it is mapped as long as
        // the process lives, and used through this only.
        Some(unsafe { &*page.cast::<AtomicU32>() })
    })
}

/// The number of this process.
#[inline]
pub(crate) fn number() -> u32 {
    let Some(page) = page() else { return std::process::id() };
    match page.load(Ordering::Relaxed) {
        0 => {
            let number = std::process::id();
            page.store(number, Ordering::Relaxed);
            number
        }
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_has_its_own_number() {
        assert_eq!(number(), std::process::id());
        assert!(cfg!(miri) || page().is_some(), "the kernel knows how to wipe a page");
        if cfg!(miri) {
            return;
        }
        // SAFETY: the child asks for two numbers and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = number() == std::process::id() && number() == std::process::id();
            // SAFETY: ends this process without touching what it shares with the other.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "it took the other's number for its own");
        assert_eq!(number(), std::process::id(), "and this one kept its own");
    }
}
