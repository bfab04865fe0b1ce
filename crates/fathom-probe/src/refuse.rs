//! Locks that are refused on purpose.
//!
//! A statement that is refused a lock stays active until it is reset, and as long as one that
//! writes is active SQLite commits nothing of its connection by itself. A replay that is to come to
//! the same must have such a statement, too, at a time when nobody holds that lock. So the calling
//! thread can have SQLite believe that somebody does.

use std::cell::Cell;
use std::ffi::c_int;

thread_local! {
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

/// The only lock of the wal-index that is refused: the writer's. SQLite takes a refused reader's
/// lock for a race with a writer, and tries again for seconds.
const LOG_WRITE: c_int = 0;
const SHM_UNLOCK: c_int = 1;
const SHM_EXCLUSIVE: c_int = 8;

/// While this lives every lock that the calling thread asks for through the probe's VFS is refused
/// with `SQLITE_BUSY`, as if another connection held it; of a write-ahead log the writer's.
#[derive(Debug)]
pub struct RefusesLocks {
    was: bool,
    /// It belongs to its thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl RefusesLocks {
    /// From now on.
    #[must_use]
    pub fn begin() -> RefusesLocks {
        RefusesLocks { was: REFUSES.replace(true), _thread: std::marker::PhantomData }
    }
}

impl Drop for RefusesLocks {
    fn drop(&mut self) {
        REFUSES.set(self.was);
    }
}

pub(crate) fn is_refused() -> bool {
    REFUSES.get()
}

pub(crate) fn is_log_refused(offset: c_int, flags: c_int) -> bool {
    REFUSES.get() && offset == LOG_WRITE && flags & SHM_EXCLUSIVE != 0 && flags & SHM_UNLOCK == 0
}
