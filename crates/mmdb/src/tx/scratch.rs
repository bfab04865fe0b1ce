//! Buffers that a thread's transactions use again and again.

use super::range_read::{Claim, RangeRead};
use super::write_set::{Write, WriteSet};
use crate::lent::{Reused, Spare};
use crate::life::Span;
use crate::lock::Mode;
use crate::memory::SMALL;
use std::cell::Cell;
use std::thread::LocalKey;

/// What a transaction writes to while it goes on.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) locks: Vec<u64>,
    pub(super) intents: Vec<(u32, Mode)>,
    pub(super) reads: Vec<RangeRead>,
    pub(super) claims: Vec<Claim>,
    /// The tables in use, and the life each was in at first.
    pub(super) spans: Vec<(u32, Span)>,
    pub(super) writes: WriteSet,
    /// The rows of the writes, and what was read.
    pub(super) arena: Vec<u8>,
    /// When it is so long it is looked what of it is left.
    crowded: usize,
    pub(super) key: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) old: Vec<u8>,
    pub(super) names: Vec<u64>,
}

impl Scratch {
    /// Bytes of the buffers that grow with the transaction.
    pub(super) fn bytes(&self) -> u64 {
        let locks = self.locks.capacity() * size_of::<u64>() + self.claims.capacity() * size_of::<Claim>();
        (self.arena.capacity() + self.body.capacity() + locks) as u64 + self.writes.bytes()
    }

    /// Whether the arena may hold much that no write has any more.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.arena.len() >= self.crowded.max(SMALL as usize)
    }

    /// Leaves in the arena what the writes have, if that is no more than half of it. Nobody may
    /// know a place in it but they.
    #[cold]
    pub(super) fn compact(&mut self) {
        let left = self.writes.row_bytes();
        if left <= self.arena.len() / 2 {
            let mut arena = Vec::with_capacity(left);
            self.writes.move_rows(&self.arena, &mut arena);
            self.arena = arena;
        }
        // The next look goes through all writes, those without a row too: it must be worth that.
        self.crowded = 2 * self.arena.len() + self.writes.len() * size_of::<Write>();
    }

    /// Whether nothing is left of the transaction before.
    #[inline]
    pub(super) fn is_clean(&self) -> bool {
        self.locks.is_empty() && self.intents.is_empty() && self.spans.is_empty() && self.writes.len() == 0
    }

    /// Does something with the writes, which is shown their rows.
    #[inline]
    pub(super) fn with_rows<T>(&mut self, f: impl FnOnce(&mut WriteSet, &[u8]) -> T) -> T {
        f(&mut self.writes, &self.arena)
    }
}

thread_local!(static SPARE: Spare<Scratch> = const { Cell::new(None) });

impl Reused for Scratch {
    fn spare() -> &'static LocalKey<Spare<Scratch>> {
        &SPARE
    }

    fn clean(&mut self) -> bool {
        assert!(
            (self.locks.is_empty()
                && self.intents.is_empty()
                && self.claims.is_empty()
                && self.reads.is_empty())
                || std::thread::panicking(),
            "a transaction that ends has given its locks back"
        );
        self.arena.clear();
        self.crowded = 0;
        self.intents.clear();
        self.reads.clear();
        self.claims.clear();
        self.spans.clear();
        self.writes.clear();
        // One large transaction must not keep its memory for good.
        self.bytes() <= 4 * SMALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Rid;
    use crate::tx::write_set::Change;
    use crate::{ColumnType, Database, Schema};

    /// A transaction that had deleted a million rows, and then changed one again and again, looked
    /// through all its writes whenever that one had brought 64 KiB.
    #[test]
    fn what_is_left_is_looked_for_the_less_the_more_writes_there_are() {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
        let t = db.create_table(schema).unwrap();
        let mut s = Scratch::default();
        for n in 0..100_000 {
            let (rid, change, after) = (Rid::new(n, 0), Change::Delete, 0..0);
            let (table, class, hash, fresh, replaces) = (t.0.id, 0, 0, false, true);
            s.writes.push(&t.0, Write { table, rid, class, change, hash, after, fresh, replaces }, &[]);
        }
        s.arena.resize(SMALL as usize, 0);
        assert!(s.is_crowded());
        s.compact();
        assert!(s.arena.is_empty());
        s.arena.resize(16 * SMALL as usize, 0);
        assert!(!s.is_crowded());
        s.arena.resize(100_000 * size_of::<Write>(), 0);
        assert!(s.is_crowded());
    }
}
