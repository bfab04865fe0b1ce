//! Ending a wait from outside: for programs that have to hear of signals while a call waits.
//!
//! Only the process's first thread is asked for: that is where such programs, interpreters among
//! them, look for signals, and no other one may meet an interpreter that is coming to its end.

use crate::error::{Error, Result};
use crate::process;
use std::sync::OnceLock;
use std::time::Duration;

/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// Has `check` asked again and again while a call on the process's first thread waits for a lock,
/// for a flush, for room in the log, or to run a transaction again: where it says yes, the call
/// ends with [`Error::Interrupted`]. For the whole process, and once: a second function is not
/// taken.
///
/// A [`crate::Ticket`] can be waited for again; a transaction can only end, as after a lock that
/// was refused. [`crate::Database::run`] has committed when it waits for the flush: it ends with
/// [`Error::Indeterminate`] there, so that nobody runs it again for that. Checkpoints, backups and
/// what waits for one are not ended.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// static SIGNAL: AtomicBool = AtomicBool::new(false);            // set by a signal's handler
/// mmdb::set_wait_check(|| SIGNAL.swap(false, Ordering::Relaxed));
/// ```
pub fn set_wait_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// Whether waits of this thread have to be looked after.
pub(crate) fn is_heard() -> bool {
    CHECK.get().is_some()
        && rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() == process::number()
}

/// Whether the wait of this thread, for which [`is_heard`] said yes, is to end.
pub(crate) fn has_come() -> bool {
    CHECK.get().is_some_and(|check| check())
}

/// Ends what waits for `cause`, if it is to end.
pub(crate) fn require_none(cause: &'static str) -> Result<()> {
    if is_heard() && has_come() { Err(Error::Interrupted { cause }) } else { Ok(()) }
}
