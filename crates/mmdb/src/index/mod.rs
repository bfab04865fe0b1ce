//! Volatile indexes, rebuilt at start: hash for points, ordered for ranges.

mod doubts;
mod hash;
mod ordered;
mod probe;
mod shard;

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::lock::RangeLocks;
use crate::memory::{Budget, Gauge};
use crate::schema::{IndexDef, IndexKind};
use crate::snapshot::{Ghosts, Open};
use crate::spawner::Spawner;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use doubts::Doubts;
use hash::HashIndex;
#[cfg(test)]
pub(crate) use hash::alike;
use ordered::OrderedIndex;
pub(crate) use probe::{BATCH, Probe};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// An index of a table: its definition and its entries. Definitions of one index share them.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) def: IndexDef,
    /// No two rows have the same key in it: it is declared unique, or it has all columns of the
    /// primary key.
    pub(crate) distinct: bool,
    entries: Arc<Entries>,
}

/// What an index has, whatever the positions of its columns.
#[derive(Debug)]
pub(crate) struct Entries {
    body: Body,
    /// Entries that it has lost, for snapshots.
    ghosts: Ghosts,
    /// What is read of it in ranges, and what is about to come; none of a hash index.
    pub(crate) ranges: Option<Box<RangeLocks>>,
    /// The newest snapshot when commits began to maintain it: that one and those before it cannot
    /// use it.
    born: AtomicU64,
    unfinished: AtomicBool,
    /// For a unique one that is built while others change rows.
    doubts: Option<Doubts>,
}

impl std::ops::Deref for Index {
    type Target = Entries;
    fn deref(&self) -> &Entries {
        &self.entries
    }
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
            IndexKind::Hash => Body::Hash(HashIndex::new(Gauge::new(budget, 0))),
            IndexKind::Ordered => {
                Body::Ordered(OrderedIndex::new(distinct, Gauge::new(budget, OrderedIndex::EMPTY)))
            }
        };
        Index::with(def, distinct, body, None, budget)
    }

    fn with(
        def: &IndexDef,
        distinct: bool,
        body: Body,
        doubts: Option<Doubts>,
        budget: &Arc<Budget>,
    ) -> Index {
        let ranges = (def.kind == IndexKind::Ordered).then(|| Box::new(RangeLocks::new(budget)));
        let (ghosts, born, unfinished) = (Ghosts::default(), AtomicU64::new(0), AtomicBool::new(false));
        let entries = Entries { body, ghosts, ranges, born, unfinished, doubts };
        Index { def: def.clone(), distinct, entries: Arc::new(entries) }
    }

    /// Whether both have the same entries.
    pub(crate) fn is_same(&self, other: &Index) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries)
    }

    /// The same index with other positions of its columns.
    pub(crate) fn renumbered(&self, def: &IndexDef) -> Index {
        Index { def: def.clone(), distinct: self.distinct, entries: self.entries.clone() }
    }

    /// An empty index that is filled while commits change rows, and it with them. For a moment it
    /// may have a key twice even if it is unique, so its entries have their places.
    pub(crate) fn unfinished(def: &IndexDef, budget: &Arc<Budget>) -> Index {
        let body = match def.kind {
            IndexKind::Hash => Body::Hash(HashIndex::new(Gauge::new(budget, 0))),
            IndexKind::Ordered => {
                Body::Ordered(OrderedIndex::new(false, Gauge::new(budget, OrderedIndex::EMPTY)))
            }
        };
        let index = Index::with(def, false, body, def.unique.then(Doubts::default), budget);
        index.unfinished.store(true, Ordering::Release);
        index
    }

    /// The newest snapshot that cannot use it; 0 if all can.
    pub(crate) fn born(&self) -> u64 {
        self.born.load(Ordering::Acquire)
    }

    /// Commits maintain it from now on, while snapshot `newest` is open.
    pub(crate) fn set_born(&self, newest: u64) {
        self.born.store(newest, Ordering::Release);
    }

    /// Whether it is being built.
    #[inline]
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Acquire)
    }

    /// It has all rows.
    pub(crate) fn finish(&self) {
        self.unfinished.store(false, Ordering::Release);
    }

    /// Keys that came twice while it was built; none of an index that is as at an opening.
    pub(crate) fn doubts(&self) -> Option<&Doubts> {
        self.doubts.as_ref()
    }

    pub(crate) fn insert(&self, key: &[u8], hash: u64, rid: Rid) {
        match &self.body {
            Body::Hash(h) => h.insert(key, hash, rid),
            Body::Ordered(o) => o.insert(key, rid),
        }
        if let Some(doubts) = &self.doubts
            && self.is_unfinished()
        {
            // After it came: of two that come at once, the later one sees both.
            if self.has_several(key, hash) {
                doubts.note(key);
            }
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

    /// Forgets one ghost if no open snapshot needs it. Returns the bytes that this gives back.
    pub(crate) fn prune_ghost(&self, key: &[u8], rid: Rid, open: &Open) -> i64 {
        self.ghosts.prune_one(self.entry(key, rid), rid, open)
    }

    /// Whether there are ghosts.
    pub(crate) fn has_ghosts(&self) -> bool {
        !self.ghosts.is_empty()
    }

    /// Forgets the ghosts that no open snapshot needs; see [`Ghosts::prune`]. Returns the bytes that
    /// this gives back.
    pub(crate) fn prune_ghosts(&self, open: &Open, since: u64) -> i64 {
        self.ghosts.prune(open, since)
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

    /// Begins to bring what a look-up reads first into the caches.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Body::Hash(h) = &self.body {
            h.prefetch(hash);
        }
    }

    /// Where a row is that may have this key: less to read than for [`Index::find`]. That there is
    /// none is certain; that the row has the key, who reads it has to see.
    #[inline]
    pub(crate) fn likely(&self, key: &[u8], hash: u64) -> Option<Rid> {
        match &self.body {
            Body::Hash(h) => h.likely(hash),
            Body::Ordered(o) => o.find(key),
        }
    }

    /// As [`Index::likely`], of each of these, whose keys are among `keys`. Those of a hash index
    /// are looked up together; if they are to be looked up `again` by [`Index::find`], it has what
    /// it needs in the caches.
    pub(crate) fn likely_many(&self, keys: &[u8], probes: &mut [Probe], again: bool) {
        match &self.body {
            Body::Hash(h) => h.likely_many(probes, again),
            Body::Ordered(o) => probes.iter_mut().for_each(|p| p.rid = o.find(&keys[p.key.clone()])),
        }
    }

    /// All rows with this key, in order of place.
    pub(crate) fn find_all(&self, key: &[u8], hash: u64, out: &mut Vec<Rid>) {
        match &self.body {
            Body::Hash(h) => h.find_all(key, hash, out),
            Body::Ordered(o) => o.find_all(key, out),
        }
    }

    /// Whether an entry of this key leads to this place: one look-up, however many rows have the
    /// key.
    pub(crate) fn leads_to(&self, key: &[u8], hash: u64, rid: Rid) -> bool {
        match &self.body {
            Body::Hash(h) => h.leads_to(key, hash, rid),
            Body::Ordered(o) => o.leads_to(key, rid),
        }
    }

    /// Whether more than one row has this key: the same.
    fn has_several(&self, key: &[u8], hash: u64) -> bool {
        match &self.body {
            Body::Hash(h) => h.has_several(key, hash),
            Body::Ordered(o) => o.has_several(key),
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
            // One that was built beside commits has entries with their places, and is unique all
            // the same.
            Body::Hash(h) => h.build(&entries, self.distinct || self.def.unique, threads, spawner),
            Body::Ordered(o) => o.build(entries.into_iter().flatten().collect(), self.def.unique),
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

    /// Bytes that the first entry takes beside its own; none of one that has begun.
    pub(crate) fn frame_bytes(&self) -> u64 {
        match &self.body {
            Body::Hash(h) => h.frame_bytes(),
            Body::Ordered(_) => 0,
        }
    }

    /// Makes what the first entry needs beside itself.
    pub(crate) fn begin(&self) {
        if let Body::Hash(h) = &self.body {
            h.begin();
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
