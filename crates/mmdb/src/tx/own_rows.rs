//! The rows of a transaction that a cursor merges in.

use crate::key::KeyBuf;
use crate::lock::Bounds;
use std::collections::{HashSet, VecDeque};
use std::ops::{Bound, Range};

/// So many are taken from the write set at a time: who looks at the first row only must not copy
/// the keys of all.
const BATCH: usize = 64;

/// A row that the transaction has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnRow {
    /// Its entry in the index that the cursor goes through.
    pub(super) key: KeyBuf,
    /// Its number in the write set.
    pub(super) at: usize,
    /// Its place in the arena.
    pub(super) row: Range<usize>,
}

/// Those that were there when the cursor was made, as far as it has not shown them. What is changed
/// meanwhile is changed at the cursor, where it stands: a row that it has shown.
#[derive(Debug)]
pub(super) struct OwnRows {
    /// The next ones, in the order in which they are shown.
    next: VecDeque<OwnRow>,
    /// Where the others are: the index, and its part that they are in.
    rest: Option<(usize, Bounds)>,
    /// The number of the next write when the cursor was made.
    begun: usize,
    /// Those that were changed at the cursor: they may lie ahead now.
    changed: HashSet<usize>,
}

impl OwnRows {
    /// These, in order.
    pub(super) fn these(rows: Vec<OwnRow>) -> OwnRows {
        OwnRows { next: rows.into(), rest: None, begun: usize::MAX, changed: HashSet::new() }
    }

    /// Those of an index within bounds, of which the write set keeps the order; there are `begun`
    /// writes.
    pub(super) fn within(ix: usize, bounds: Bounds, begun: usize) -> OwnRows {
        OwnRows { next: VecDeque::new(), rest: Some((ix, bounds)), begun, changed: HashSet::new() }
    }

    /// Shows them the other way round, before the first is taken.
    pub(super) fn turn(&mut self) {
        self.next.make_contiguous().reverse();
    }

    /// Looks for the next one, in reverse order if that is how they are shown. `part` gives the
    /// first so many of an index within bounds, or the last ones in reverse order.
    pub(super) fn look(
        &mut self,
        part: impl Fn(usize, &Bounds, usize, bool) -> Vec<OwnRow>,
        reverse: bool,
    ) -> Option<&OwnRow> {
        while self.next.is_empty()
            && let Some((ix, bounds)) = &mut self.rest
        {
            let part = part(*ix, bounds, BATCH, reverse);
            let last = part.last().filter(|_| part.len() == BATCH).map(|own| own.key.clone());
            let (begun, changed) = (self.begun, &self.changed);
            self.next.extend(part.into_iter().filter(|own| own.at < begun && !changed.contains(&own.at)));
            match last {
                Some(last) => *(if reverse { &mut bounds.1 } else { &mut bounds.0 }) = Bound::Excluded(last),
                None => self.rest = None,
            }
        }
        self.next.front()
    }

    /// Takes the one that was found.
    pub(super) fn take(&mut self) -> Option<OwnRow> {
        self.next.pop_front()
    }

    /// The row that was taken last is changed.
    pub(super) fn note_change(&mut self, at: usize) {
        if self.rest.is_some() {
            self.changed.insert(at);
        }
    }
}
