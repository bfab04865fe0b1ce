//! Sleeping on a word and waking all its sleepers with one call (Linux `futex(2)`).

use std::sync::atomic::AtomicU32;

/// Sleeps until woken, if `word` still holds `value`. May return early; the caller looks again.
pub fn wait(word: &AtomicU32, value: u32) {
    // SAFETY: the address is that of a live, aligned 32-bit word for the whole call; no timeout is
    // passed.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// Wakes every thread that sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: as above; waking does not touch the memory.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
    }
}
