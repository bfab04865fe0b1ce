//! Which process this is, for those who ask at every wait.
//!
//! The system's answer costs a call into the kernel, which was 2 to 3 % of a commit. It is kept in
//! a page that the kernel wipes in a forked process, which so learns that it has to ask. An
//! emulator of another processor (qemu-user) says that it does, and does not; so `fork` of the C
//! library wipes it, too. What forks by a system call of its own, and is emulated, is not told.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page that [`forget`] wipes.
static WIPED: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// In a process that was just forked.
extern "C" fn forget() {
    // SAFETY: null, or the page, which is mapped as long as the process lives.
    if let Some(number) = unsafe { WIPED.load(Ordering::Acquire).as_ref() } {
        number.store(0, Ordering::Relaxed);
    }
}

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
        // SAFETY: a function that lives as long as the program, and that does what a process may do
        // that was just forked off others' threads: it stores a number. If it cannot be registered,
        // there was no memory for it, and the kernel's wiping is left.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        WIPED.store(page.cast(), Ordering::Release);
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
