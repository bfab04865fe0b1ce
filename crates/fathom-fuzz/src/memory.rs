//! An allocator that counts, so that a case that asks for memory out of proportion fails although
//! the machine has enough.
//!
//! What is asked for counts, touched or not: zeroed pages that nobody touches cost nothing here,
//! and the whole machine elsewhere. Memory of C libraries is not seen (SQLite is asked for its own
//! count by the targets that use it).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The counting allocator. A test binary makes it its own:
/// `#[global_allocator] static COUNTING: Counting = Counting;`
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// At once or in all, no case may have more: beyond it the program is ended with the case's number,
/// because an allocator may not unwind.
pub const MOST: usize = 3 << 30;

fn grown(bytes: usize) -> bool {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
    if live > MOST {
        LIVE.fetch_sub(bytes, Relaxed);
        crate::case::last_words("asks for more memory than any case may have");
        return false;
    }
    true
}

// SAFETY: everything is passed on to the system's allocator; null is what an allocator without
// memory returns.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grown(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grown(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            if !grown(size - layout.size()) {
                return std::ptr::null_mut();
            }
        } else {
            LIVE.fetch_sub(layout.size() - size, Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What `work` gives, and by how many bytes the program's memory was larger at its worst than
/// before. Only one at a time means anything.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    (done, PEAK.load(Relaxed).saturating_sub(before))
}
