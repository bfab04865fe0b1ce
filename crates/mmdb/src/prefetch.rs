//! Bringing memory into the caches before it is needed.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to fetch what this is, up to a few lines.
#[inline(always)]
pub(crate) fn value<T>(value: &T) {
    bytes(std::ptr::from_ref(value).addr(), size_of::<T>());
}

/// Begins to fetch so many bytes from an address on. Of many the rest comes in order, which a
/// processor foresees.
#[inline(always)]
pub(crate) fn bytes(from: usize, bytes: usize) {
    const LINES: usize = 8;
    (from / LINE * LINE..from + bytes).step_by(LINE).take(LINES).for_each(line);
}

/// Begins to fetch the line at an address, and waits for nothing. It is no access: whatever is
/// there, if anything is, may be changed or given back at the same time.
#[inline(always)]
pub(crate) fn line(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, for which every address is good: it reads and writes nothing, and faults
    // nowhere.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}
