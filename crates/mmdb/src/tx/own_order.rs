//! Rows that a large transaction has written, in the order of an index.

use crate::key::KeyBuf;
use crate::lock::{Bounds, pairs_within};
use std::collections::BTreeSet;

/// What an entry costs: its part of a tree's node with 6 places of 11 taken.
const ENTRY: usize = 64;

/// Entries of one index for what a transaction has written, each with its number in the write set.
/// Whoever reads many ranges must not look through all that was written for each of them.
#[derive(Debug)]
pub(super) struct OwnOrder {
    pub(super) table: u32,
    pub(super) ix: usize,
    entries: BTreeSet<(KeyBuf, usize)>,
    /// Bytes of keys that have no room in their entries.
    heap: i64,
}

impl OwnOrder {
    pub(super) fn new(table: u32, ix: usize) -> OwnOrder {
        OwnOrder { table, ix, entries: BTreeSet::new(), heap: 0 }
    }

    pub(super) fn add(&mut self, key: KeyBuf, at: usize) {
        let heap = KeyBuf::heap(key.as_slice().len());
        if self.entries.insert((key, at)) {
            self.heap += heap;
        }
    }

    pub(super) fn remove(&mut self, key: KeyBuf, at: usize) {
        let heap = KeyBuf::heap(key.as_slice().len());
        if self.entries.remove(&(key, at)) {
            self.heap -= heap;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * ENTRY + self.heap.max(0) as usize
    }

    /// The first `most` of those within bounds, in order, or the last ones in reverse order.
    pub(super) fn within(&self, bounds: &Bounds, most: usize, reverse: bool) -> Vec<(KeyBuf, usize)> {
        let Some(pairs) = pairs_within(bounds, 0, usize::MAX) else { return Vec::new() };
        let found = self.entries.range(pairs);
        if reverse { found.rev().take(most).cloned().collect() } else { found.take(most).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::within;
    use proptest::prelude::*;
    use std::ops::Bound;

    fn bound() -> impl Strategy<Value = Bound<u8>> {
        prop_oneof![
            Just(Bound::Unbounded),
            (0u8..9).prop_map(Bound::Included),
            (0u8..9).prop_map(Bound::Excluded),
        ]
    }

    proptest! {
        #[test]
        fn what_is_within_bounds_is_found_in_order(
            steps in proptest::collection::vec((any::<bool>(), 0u8..9, 0usize..3), 0..60),
            ranges in proptest::collection::vec((bound(), bound(), 0usize..9), 1..20),
        ) {
            // Short keys and long ones.
            let key = |n: u8| KeyBuf::new(&vec![n; if n.is_multiple_of(2) { 8 } else { 40 }]);
            let (mut order, mut model) = (OwnOrder::new(0, 0), BTreeSet::new());
            for (comes, n, at) in steps {
                if comes {
                    order.add(key(n), at);
                    model.insert((key(n), at));
                } else {
                    order.remove(key(n), at);
                    model.remove(&(key(n), at));
                }
            }
            let heap: i64 = model.iter().map(|(key, _)| KeyBuf::heap(key.as_slice().len())).sum();
            prop_assert_eq!(order.heap, heap);
            for (lower, upper, most) in ranges {
                let bounds = (lower.map(key), upper.map(key));
                let want: Vec<_> = model.iter().filter(|(key, _)| within(key, &bounds)).cloned().collect();
                prop_assert_eq!(order.within(&bounds, most, false), want[..most.min(want.len())].to_vec());
                let last = want.iter().rev().take(most).cloned().collect::<Vec<_>>();
                prop_assert_eq!(order.within(&bounds, most, true), last);
            }
        }
    }
}
