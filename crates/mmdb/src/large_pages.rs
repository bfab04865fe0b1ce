//! Memory on large pages.
//!
//! What is read in no order costs a walk through the page tables for each access, where it lies on
//! more pages than a processor remembers: with pages of 4 KiB that is some ten MiB.

/// Bytes of a large page.
const LARGE: usize = 2 << 20;

/// Asks for large pages under a piece of memory, as far as it covers whole ones. Before it is
/// touched: what has a small page keeps it. Nothing follows if there are none.
pub(crate) fn advise(start: *mut u8, bytes: usize) {
    let skip = start.addr().wrapping_neg() % LARGE;
    let whole = bytes.saturating_sub(skip) / LARGE * LARGE;
    if whole == 0 || cfg!(miri) {
        return;
    }
    // SAFETY: within the piece, which is the caller's; it stays as it is, whatever it lies on.
    let advised = unsafe {
        rustix::mm::madvise(start.wrapping_add(skip).cast(), whole, rustix::mm::Advice::LinuxHugepage)
    };
    // A kernel may have been built without.
    let _ = advised;
}
