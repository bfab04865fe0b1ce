//! Volatile indexes, rebuilt at start: hash for points, ordered for ranges.

mod hash;
mod ordered;

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::lock::RangeLocks;
use crate::memory::{Budget, Gauge};
use crate::schema::{IndexDef, IndexKind};
use crate::snapshot::{Ghosts, Open};
use crate::spawner::Spawner;
use hash::HashIndex;
use ordered::OrderedIndex;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// An index of a table: its definition and its entries.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) def: IndexDef,
    /// No two rows have the same key in it: it is declared unique, or it has all columns of the
    /// primary key.
    pub(crate) distinct: bool,
    body: Body,
    /// Entries that it has lost, for snapshots.
    ghosts: Ghosts,
    /// What is read of it in ranges, and what is about to come; none of a hash index.
    pub(crate) ranges: Option<Box<RangeLocks>>,
}

#[derive(Debug)]
enum Body {
    Hash(HashIndex),
    Ordered(OrderedIndex),
}

impl Index {
    /// An index of a table whose primary key has the columns `primary`.
    pub(crate) fn new(def: &IndexDef, primary: &[usize], budget: &Arc<Budget>) -> Index {
        let distinct = def.unique || primary.iter().all(|column| def.columns.contains(column));
        let body = match def.kind {
            IndexKind::Hash => Body::Hash(HashIndex::new(Gauge::new(budget, HashIndex::EMPTY))),
            IndexKind::Ordered => {
                Body::Ordered(OrderedIndex::new(distinct, Gauge::new(budget, OrderedIndex::EMPTY)))
            }
        };
        let ranges = (def.kind == IndexKind::Ordered).then(|| Box::new(RangeLocks::new(budget)));
        Index { def: def.clone(), distinct, body, ghosts: Ghosts::default(), ranges }
    }

    pub(crate) fn insert(&self, key: &[u8], hash: u64, rid: Rid) {
        match &self.body {
            Body::Hash(h) => h.insert(key, hash, rid),
            Body::Ordered(o) => o.insert(key, rid),
        }
    }

    pub(crate) fn remove(&self, key: &[u8], hash: u64, rid: Rid) {
        match &self.body {
            Body::Hash(h) => h.remove(key, hash, rid),
            Body::Ordered(o) => o.remove(key, rid),
        }
    }

    /// The key of an entry as [`Index::scan`] gives it.
    pub(crate) fn key_of<'k>(&self, entry: &'k KeyBuf) -> &'k [u8] {
        let whole = entry.as_slice();
        match &self.body {
            Body::Ordered(_) if !self.distinct => &whole[..whole.len() - size_of::<Rid>()],
            _ => whole,
        }
    }

    fn entry(&self, key: &[u8], rid: Rid) -> KeyBuf {
        match &self.body {
            Body::Ordered(ordered) => ordered.stored(key, rid),
            Body::Hash(_) => KeyBuf::new(key),
        }
    }

    /// Before an entry is removed: keeps its ghost for the snapshots up to `newest`. Returns the
    /// bytes that it takes.
    pub(crate) fn keep_ghost(&self, key: &[u8], rid: Rid, newest: u64) -> i64 {
        self.ghosts.keep(self.entry(key, rid), rid, newest)
    }

    /// Appends the places that entries of this key led to which a snapshot may need.
    pub(crate) fn find_ghosts(&self, key: &[u8], found: &mut Vec<Rid>) {
        match &self.body {
            // The place is a part of what is stored.
            Body::Ordered(_) if !self.distinct => {
                let mut entries = Vec::new();
                let from = Bound::Included(self.entry(key, Rid(0)));
                let to = Bound::Included(self.entry(key, Rid(u64::MAX)));
                let mut from = from;
                while let Some(last) = self.ghosts.within(&from, &to, false, &mut entries) {
                    from = Bound::Excluded(last);
                }
                found.extend(entries.into_iter().map(|(_, rid)| rid));
            }
            _ => self.ghosts.of(key, found),
        }
    }

    /// Appends entries within the bounds that a snapshot may need; see [`Ghosts::within`].
    pub(crate) fn ghosts_within(
        &self,
        from: &Bound<KeyBuf>,
        to: &Bound<KeyBuf>,
        reverse: bool,
        found: &mut Vec<(KeyBuf, Rid)>,
    ) -> Option<KeyBuf> {
        self.ghosts.within(from, to, reverse, found)
    }

    /// Forgets the ghosts that no open snapshot needs. Returns the bytes that this gives back.
    pub(crate) fn prune_ghosts(&self, open: &Open) -> i64 {
        self.ghosts.prune(open)
    }

    /// Forgets all ghosts. Returns the bytes that this gives back.
    pub(crate) fn clear_ghosts(&self) -> i64 {
        self.ghosts.clear()
    }

    /// Some row with this key.
    pub(crate) fn find(&self, key: &[u8], hash: u64) -> Option<Rid> {
        match &self.body {
            Body::Hash(h) => h.find(key, hash),
            Body::Ordered(o) => o.find(key),
        }
    }

    /// All rows with this key, in order of place.
    pub(crate) fn find_all(&self, key: &[u8], hash: u64, out: &mut Vec<Rid>) {
        match &self.body {
            Body::Hash(h) => h.find_all(key, hash, out),
            Body::Ordered(o) => o.find_all(key, out),
        }
    }

    /// Appends up to `limit` entries in order within the bounds to `found`; none from a hash index.
    pub(crate) fn scan(
        &self,
        from: &Bound<KeyBuf>,
        to: &Bound<KeyBuf>,
        limit: usize,
        reverse: bool,
        found: &mut VecDeque<(KeyBuf, Rid)>,
    ) {
        if let Body::Ordered(o) = &self.body {
            o.scan(from, to, limit, reverse, found);
        }
    }

    /// Entries present.
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            Body::Hash(h) => h.len(),
            Body::Ordered(o) => o.len(),
        }
    }

    /// Fills an empty index from unsorted entries on several threads. An error is a row with a
    /// unique key that another one has.
    pub(crate) fn build(
        &self,
        entries: Vec<Vec<(KeyBuf, Rid)>>,
        threads: usize,
        spawner: &Spawner,
    ) -> Result<(), Rid> {
        match &self.body {
            Body::Hash(h) => h.build(&entries, self.distinct, threads, spawner),
            Body::Ordered(o) => o.build(entries.into_iter().flatten().collect()),
        }
    }

    /// Bytes of the entries and of the room for more, and of the key-range locks.
    pub(crate) fn memory(&self) -> u64 {
        let entries = match &self.body {
            Body::Hash(h) => h.memory(),
            Body::Ordered(o) => o.memory(),
        };
        entries + self.ranges.as_ref().map_or(0, |ranges| ranges.memory())
    }

    /// Key-range locks: intervals that are read, and keys that are about to come.
    pub(crate) fn ranges_listed(&self) -> usize {
        self.ranges.as_ref().map_or(0, |ranges| ranges.len())
    }

    /// Bytes that adding this key would take now; nearly always none.
    pub(crate) fn need(&self, key: &[u8], hash: u64) -> u64 {
        match &self.body {
            Body::Hash(h) => h.need(key, hash),
            Body::Ordered(o) => o.need(key),
        }
    }

    /// What an entry may take at most, while the index is built as well as later.
    pub(crate) fn entry_bytes(&self) -> u64 {
        match &self.body {
            Body::Hash(_) => 96,
            Body::Ordered(_) => 72,
        }
    }

    /// Forgets all entries and gives their memory back.
    pub(crate) fn clear(&self) {
        match &self.body {
            Body::Hash(h) => h.clear(),
            Body::Ordered(o) => o.clear(),
        }
    }
}
