//! The lock of a table, which costs nothing while nobody wants the table whole.
//!
//! A transaction that locks rows should announce that at the table first (granular locking), so
//! that one who wants the whole table need not look at rows. These announcements were half of all
//! locks taken, and only who wants a whole table ever reads them. So they are made for him when he
//! comes:
//!
//! 1. He counts himself in `whole`. From then on everybody who takes a lock of a row sees that,
//!    inside the critical section in which he takes it, and announces himself at the gate by
//!    himself.
//! 2. He looks through the lock table and announces, at the gate, those who hold rows: whoever took
//!    his lock before the look sees `whole` when he gives it back, and takes himself off the gate
//!    too.
//! 3. Now the gate knows everybody, and he asks there.
//!
//! As long as `whole` stays above zero no further look is needed. When it is zero the gate may hold
//! transactions that ended without looking at it; the next one who wants the table whole begins
//! with an empty gate.

use super::queue::Queue;
use crate::cache_line::CacheLine;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};

/// The lock of one table.
pub(crate) struct TableLock {
    pub(super) table: u32,
    /// Transactions that hold or want the table whole. Read with every lock of a row, so it has a
    /// cache line for itself.
    whole: CacheLine<AtomicU32>,
    /// One look through the lock table at a time, and nobody is granted the table meanwhile.
    pub(super) look: Mutex<()>,
    pub(super) gate: Mutex<Gate>,
}

/// Who holds the table, whole or in part, and who waits.
pub(super) struct Gate {
    pub(super) queue: Queue,
    /// Everybody who holds rows is announced.
    pub(super) complete: bool,
}

impl std::fmt::Debug for TableLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableLock({} want table {} whole)", self.wanted(), self.table)
    }
}

impl TableLock {
    pub(crate) fn new(table: u32) -> TableLock {
        TableLock {
            table,
            whole: CacheLine(AtomicU32::new(0)),
            look: Mutex::new(()),
            gate: Mutex::new(Gate { queue: Queue::default(), complete: false }),
        }
    }

    #[inline]
    pub(super) fn wanted(&self) -> u32 {
        self.whole.load(Ordering::Acquire)
    }

    /// Counts one in who wants the table whole.
    pub(super) fn come(&self) {
        let mut gate = self.gate.lock();
        if self.whole.fetch_add(1, Ordering::SeqCst) == 0 {
            gate.queue.forget_holders();
            gate.complete = false;
        }
    }

    /// Counts one out; he is off the gate already.
    pub(super) fn go(&self, gate: &mut Gate) {
        let before = self.whole.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "who leaves a table has come to it");
        let left = before - 1;
        assert!(left > 0 || !gate.queue.has_waiters(), "nobody waits for a table that nobody has");
    }

    /// Who holds the table or waits for it, whole or in part, as far as somebody wanted to know.
    pub(crate) fn len(&self) -> usize {
        let gate = self.gate.lock();
        if self.wanted() == 0 { 0 } else { gate.queue.len() }
    }
}
