//! Operations that are under way in the agent, and how long the oldest has been.
//!
//! A look at the clock is a system call in a guest, so operations are told apart by beats of the
//! agent's, which somebody else counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    beat: AtomicU64,
    /// The beat at which each began, by its number: the first is the oldest.
    operations: Mutex<(u64, BTreeMap<u64, u64>)>,
}

/// An operation; it is over when this is dropped.
#[derive(Debug)]
pub(super) struct Operation<'a> {
    of: &'a UnderWay,
    number: u64,
}

impl UnderWay {
    /// An operation begins.
    pub fn begin(&self) -> Operation<'_> {
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, all) = &mut *operations;
        *next += 1;
        all.insert(*next, self.beat.load(Ordering::Relaxed));
        Operation { of: self, number: *next }
    }

    /// A beat is over: for how many the oldest operation has been under way.
    pub fn beat(&self) -> u64 {
        let now = self.beat.fetch_add(1, Ordering::Relaxed) + 1;
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        operations.1.first_key_value().map_or(0, |(_, began)| now.saturating_sub(*began))
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.of.operations.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_operation_counts_until_it_is_over() {
        let all = UnderWay::default();
        assert_eq!(all.beat(), 0);
        let first = all.begin();
        assert_eq!(all.beat(), 1);
        let second = all.begin();
        assert_eq!(all.beat(), 2, "the first has lasted for two beats");
        drop(first);
        assert_eq!(all.beat(), 2, "and the second for two by now");
        drop(second);
        assert_eq!(all.beat(), 0);
    }
}
