//! The case that runs, and the last words of a program that cannot unwind.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The target that runs.
pub(crate) static NAME: Mutex<String> = Mutex::new(String::new());
/// Its case.
pub(crate) static CASE: AtomicU64 = AtomicU64::new(0);

/// Says which case it was, without memory, before the program ends.
pub(crate) fn last_words(what: &str) {
    let mut text = [0_u8; 512];
    let mut rest = &mut text[..];
    let name = NAME.try_lock();
    let name = name.as_ref().map_or("", |name| name.as_str());
    let case = CASE.load(Relaxed);
    // What does not fit is cut off.
    let _ = writeln!(
        rest,
        "\nfuzz: case {case} of {name} {what}; again: FATHOM_FUZZ_FROM={case} FATHOM_FUZZ_CASES=1 cargo test -p fathom-fuzz --test fuzz -- --exact {name}"
    );
    let left = rest.len();
    let length = text.len() - left;
    // SAFETY: the buffer is `length` bytes long. Not through `std`, which may want memory, or a
    // lock that is held.
    unsafe { libc::write(2, text.as_ptr().cast(), length) };
}
