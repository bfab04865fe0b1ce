//! Signals that wait while something is done.

/// Does `work` while these signals to this thread wait; they come after it. `work` is given their
/// set, for `sigtimedwait` and the like.
pub fn keeping_back<T>(signals: &[i32], work: impl FnOnce(&libc::sigset_t) -> T) -> T {
    // SAFETY: sets of signals are plain data, filled by sigemptyset before they are read; the
    // pointers are to locals.
    unsafe {
        let mut ours = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut ours);
        for &signal in signals {
            libc::sigaddset(&raw mut ours, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ours, &raw mut before);
        let done = work(&ours);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        done
    }
}
