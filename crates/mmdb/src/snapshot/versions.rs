//! Rows of one container as they were before their last changes, while a snapshot needs them.

use crate::memory::block;
use std::collections::BTreeMap;

/// What a version costs beside its row, bytes: its place in a node of the map, of which slots that
/// rise fill a half.
const ENTRY: u64 = 80;

fn bytes(row: Option<&[u8]>) -> i64 {
    (ENTRY + row.map_or(0, |row| block(row.len()))) as i64
}

/// The snapshots that are open, as far as whoever prunes knows.
#[derive(Debug)]
pub(crate) struct Open {
    /// Their numbers, rising.
    pub(crate) numbers: Vec<u64>,
    /// The last number that was given when this was looked up: later ones may be open too.
    pub(crate) last: u64,
}

impl Open {
    /// Whether a version is needed that the snapshots above `after` up to `upto` see.
    fn needs(&self, after: u64, upto: u64) -> bool {
        let at = self.numbers.partition_point(|&number| number <= after);
        upto > self.last || self.numbers.get(at).is_some_and(|&number| number <= upto)
    }
}

/// The versions of a container's slots. Used under the container's latch, or to prune.
///
/// All are in one map: the first version of a slot, which a commit pays for under the latch, takes
/// nothing from the allocator but the row. A list for each slot took a block more, and all of it
/// beside the rows twice what was counted.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// Rows as they were, `None` where there was none, by the slot and the last snapshot that sees
    /// them. The first one that does is the one behind the slot's version before.
    rows: BTreeMap<(u16, u64), Option<Box<[u8]>>>,
    /// The last snapshot for which a row was kept.
    newest: u64,
    /// The container is in the list of those that have versions.
    pub(super) listed: bool,
}

impl Versions {
    /// Before the slot changes: keeps its row for the snapshots up to `newest`, unless that was
    /// done by an earlier change. Returns the bytes that it takes.
    pub(super) fn keep(&mut self, slot: u16, newest: u64, row: Option<&[u8]>) -> i64 {
        if self.at(slot, newest).is_some() {
            return 0;
        }
        self.rows.insert((slot, newest), row.map(Into::into));
        self.newest = self.newest.max(newest);
        bytes(row)
    }

    /// What a snapshot sees in the slot: a row, none, or (`None`) what the slot holds now.
    pub(super) fn at(&self, slot: u16, snapshot: u64) -> Option<Option<&[u8]>> {
        if self.rows.is_empty() {
            return None;
        }
        let mut from = self.rows.range((slot, snapshot)..=(slot, u64::MAX));
        from.next().map(|(_, row)| row.as_deref())
    }

    /// Slots in which a snapshot sees something else than they hold now: a row, or none.
    pub(super) fn shown_to(&self, snapshot: u64) -> impl Iterator<Item = (u16, Option<&[u8]>)> {
        let mut before = None;
        let later = self.rows.iter().filter(move |((_, upto), _)| *upto >= snapshot);
        let first = later.filter(move |((slot, _), _)| before.replace(*slot) != Some(*slot));
        first.map(|((slot, _), row)| (*slot, row.as_deref()))
    }

    /// The last snapshot for which a row was kept.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Forgets what no open snapshot sees. Returns the bytes that this gives back.
    pub(super) fn prune(&mut self, open: &Open) -> i64 {
        let (mut given, mut before) = (0, (0, 0));
        self.rows.retain(|&(slot, upto), row| {
            let after = if before.0 == slot { before.1 } else { 0 };
            before = (slot, upto);
            let needed = open.needs(after, upto);
            if !needed {
                given += bytes(row.as_deref());
            }
            needed
        });
        given
    }

    /// Forgets all of them. Returns the bytes that this gives back.
    pub(crate) fn clear(&mut self) -> i64 {
        let given = self.rows.values().map(|row| bytes(row.as_deref())).sum();
        self.rows.clear();
        given
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// One slot against a list of all its states: snapshots come and go, changes come between.
        #[test]
        fn every_snapshot_sees_the_row_of_its_moment(steps in proptest::collection::vec(0u8..6, 1..80)) {
            let mut versions = Versions::default();
            let (mut row, mut last, mut bytes) = (Some(vec![0u8]), 0, 0);
            let mut open: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        last += 1;
                        open.insert(last, row.clone());
                    }
                    1 => drop(open.pop_first()),
                    2 => drop(open.pop_last()),
                    3 => {
                        let numbers = open.keys().copied().collect();
                        bytes -= versions.prune(&Open { numbers, last });
                    }
                    _ => {
                        if let Some((&newest, _)) = open.last_key_value() {
                            bytes += versions.keep(7, newest, row.as_deref());
                        }
                        row = (step == 4).then(|| vec![n as u8; n]);
                    }
                }
                for (number, want) in &open {
                    let seen = versions.at(7, *number).unwrap_or(row.as_deref());
                    prop_assert_eq!(seen, want.as_deref());
                }
            }
            bytes -= versions.prune(&Open { numbers: Vec::new(), last });
            prop_assert!(versions.is_empty());
            prop_assert_eq!(bytes, 0);
        }
    }

    #[test]
    fn what_a_later_snapshot_needs_is_not_pruned_by_who_has_not_heard_of_it() {
        let mut versions = Versions::default();
        versions.keep(1, 2, Some(b"two"));
        let before = Open { numbers: Vec::new(), last: 1 };
        assert_eq!(versions.prune(&before), 0);
        assert_eq!(versions.at(1, 2), Some(Some(&b"two"[..])));
    }
}
