//! How much memory the database holds, and how much it may.
//!
//! What is counted: containers, free slots, the entries of every index with the room that its
//! tables keep, locks, the log's buffers, and the private changes of transactions above [`SMALL`].
//! What is counted is what the allocator was asked for, rounded as it rounds. Nothing is counted by
//! the row: a structure reports when it takes or gives back a piece, and entries that have a piece
//! of their own (keys above 22 bytes) are summed up before they reach the counter that all
//! processors share.
//!
//! The limit is checked where an operation of a transaction first needs more, for a commit can no
//! longer fail. So what the operations running at that moment take can go beyond it: a few hundred
//! bytes for each row, [`SMALL`] for each transaction. Deletes, commits, checkpoints and recovery
//! are never refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// A transaction's private changes are counted above this, and in steps of it, bytes.
pub(crate) const SMALL: u64 = 64 << 10;
/// Small changes are passed on once they add up to this, bytes.
const STEP: i64 = 4096;

/// What an allocation of `bytes` costs: a word of the allocator's, and rounding to 16, as in glibc
/// on 64 bits.
pub(crate) fn block(bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { (bytes as u64 + 8).next_multiple_of(16).max(32) }
}

/// Bytes in use, of all parts of a database but its containers, which [`crate::table::Space`]
/// counts.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicI64);

impl Budget {
    pub(crate) fn add(&self, bytes: i64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        // Parts pass on what they give back and what they take in any order.
        self.0.load(Relaxed).max(0) as u64
    }
}

/// Bytes in use by one part. Whoever adds holds the latch of what changed, or does not mind the
/// order.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    bytes: AtomicI64,
    /// Of them, not passed on yet.
    unsent: AtomicI64,
    budget: Arc<Budget>,
}

impl Gauge {
    /// A gauge that has `bytes` from the start. They are passed on at once: of thousands of small
    /// tables each would else keep less than a step for itself.
    pub(crate) fn new(budget: &Arc<Budget>, bytes: usize) -> Gauge {
        let bytes = bytes as i64;
        budget.add(bytes);
        Gauge { bytes: AtomicI64::new(bytes), unsent: AtomicI64::new(0), budget: budget.clone() }
    }

    #[inline]
    pub(crate) fn add(&self, bytes: i64) {
        if bytes == 0 {
            return;
        }
        self.bytes.fetch_add(bytes, Relaxed);
        if (self.unsent.fetch_add(bytes, Relaxed) + bytes).abs() >= STEP {
            self.budget.add(self.unsent.swap(0, Relaxed));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).max(0) as u64
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        // What it counted is freed with it.
        self.budget.add(*self.unsent.get_mut() - *self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gauges_pass_on_lags_by_less_than_a_step() {
        let budget = Arc::new(Budget::default());
        let gauges = [Gauge::new(&budget, 10_000), Gauge::new(&budget, 0)];
        for n in 0..10_000 {
            gauges[n % 2].add(if n % 3 == 0 { -40 } else { 64 });
            let exact: u64 = gauges.iter().map(Gauge::bytes).sum();
            assert!(exact.abs_diff(budget.used()) < 2 * STEP as u64);
        }
        drop(gauges);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn blocks_are_as_glibc_makes_them() {
        assert_eq!([0, 1, 24, 25, 40, 41, 65536].map(block), [0, 32, 32, 48, 48, 64, 65552]);
    }
}
