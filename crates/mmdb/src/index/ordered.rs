//! Ordered entries from key to place, in leaves under latches of their own. A key that several rows
//! may have is followed by its row's place, so that entries are distinct.
//!
//! A map, shared by all, leads to the leaf that may hold a key; only splitting a full leaf and
//! removing an empty one change the map. One latch over one tree was measured first: with 96
//! clients on two cores, waiting for it took a quarter to a half of all processor time.

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::memory::{Gauge, block};
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// A leaf is split at this many entries: 2 KiB of short keys.
const LEAF: usize = 64;
/// Entries of a leaf that is built from sorted entries: a few more go in before the first split.
const FILL: usize = LEAF * 3 / 4;

/// A leaf with so few entries left is joined with a neighbour,
const LOW: usize = LEAF / 4;
/// if both together have at most this many: the next few inserts must not split it again.
const JOINED: usize = LEAF * 5 / 8;

type Entry = (KeyBuf, Rid);
/// Entries in order.
type Leaf = RwLock<Vec<Entry>>;
/// Leaves by their lower bound; the first one's is the empty key, so that there is a leaf for every
/// key.
type Leaves = BTreeMap<KeyBuf, Leaf>;

pub(super) struct OrderedIndex {
    /// Keys are distinct by themselves.
    distinct: bool,
    leaves: RwLock<Leaves>,
    len: AtomicUsize,
    gauge: Gauge,
}

/// What a leaf costs the map: its place in a node that has 6 of 11 places taken when keys rise, 7
/// or 8 when they do not.
const IN_MAP: usize = (size_of::<KeyBuf>() + size_of::<Leaf>()) * 8 / 5 + 24;

/// What a leaf of this capacity takes under a lower bound of `lower` bytes.
fn leaf_bytes(capacity: usize, lower: usize) -> i64 {
    entries_bytes(capacity) + IN_MAP as i64 + KeyBuf::heap(lower)
}

fn entries_bytes(capacity: usize) -> i64 {
    block(capacity * size_of::<Entry>()) as i64
}

impl std::fmt::Debug for OrderedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OrderedIndex({} entries)", self.len())
    }
}

fn place(entries: &[Entry], key: &KeyBuf) -> Result<usize, usize> {
    entries.binary_search_by(|e| e.0.cmp(key))
}

/// The leaf that holds `key` if any does, and those behind it, which are looked for only when they
/// are asked for.
fn leaves_from<'a>(leaves: &'a Leaves, key: &'a KeyBuf) -> impl Iterator<Item = &'a Leaf> {
    let behind =
        move || leaves.range::<KeyBuf, _>((Bound::Excluded(key), Bound::Unbounded)).map(|(_, leaf)| leaf);
    leaf_of(leaves, key).into_iter().chain(std::iter::once_with(behind).flatten())
}

fn leaf_of<'a>(leaves: &'a Leaves, key: &KeyBuf) -> Option<&'a Leaf> {
    leaves.range::<KeyBuf, _>(..=key).next_back().map(|(_, leaf)| leaf)
}

/// Of the leaf of `key` and a neighbour, if they are to be joined, the lower bound of the right
/// one.
fn right_of_pair(leaves: &Leaves, key: &KeyBuf) -> Option<KeyBuf> {
    let (lower, leaf) = leaves.range::<KeyBuf, _>(..=key).next_back()?;
    let len = leaf.read().len();
    if len > LOW {
        return None;
    }
    let fits = |other: &Leaf| len + other.read().len() <= JOINED;
    let mut below = leaves.range::<KeyBuf, _>(..lower);
    // An empty one is joined with whatever is there.
    if below.next_back().is_some_and(|(_, left)| len == 0 || fits(left)) {
        return Some(lower.clone());
    }
    let mut above = leaves.range::<KeyBuf, _>((Bound::Excluded(lower), Bound::Unbounded));
    above.next().filter(|(_, right)| fits(right)).map(|(bound, _)| bound.clone())
}

impl OrderedIndex {
    /// Bytes of an index without entries.
    pub(super) const EMPTY: usize = 11 * (size_of::<KeyBuf>() + size_of::<Leaf>()) + 16;

    /// `gauge` has counted an empty index already.
    pub(super) fn new(distinct: bool, gauge: Gauge) -> Self {
        let leaves = BTreeMap::from([(KeyBuf::new(&[]), Leaf::default())]);
        OrderedIndex { distinct, leaves: RwLock::new(leaves), len: AtomicUsize::new(0), gauge }
    }

    /// Bytes of all entries and of the room for more.
    pub(super) fn memory(&self) -> u64 {
        self.gauge.bytes()
    }

    /// Bytes that adding this key would take now.
    pub(super) fn need(&self, key: &[u8]) -> u64 {
        let len = if self.distinct { key.len() } else { key.len() + size_of::<Rid>() };
        let leaves = self.leaves.read();
        let Some(leaf) = leaf_of(&leaves, &KeyBuf::new(key)) else { return 0 };
        let entries = leaf.read();
        let (full, capacity) = (entries.len(), entries.capacity());
        let grows =
            if full < capacity { 0 } else { entries_bytes((capacity * 2).max(4)) - entries_bytes(capacity) };
        let splits = if full + 1 < LEAF { 0 } else { leaf_bytes(LEAF / 2, len) };
        (grows + splits + KeyBuf::heap(len)) as u64
    }

    /// Forgets all entries and gives their memory back.
    pub(super) fn clear(&self) {
        *self.leaves.write() = BTreeMap::from([(KeyBuf::new(&[]), Leaf::default())]);
        self.len.store(0, Ordering::Relaxed);
        self.gauge.add(Self::EMPTY as i64 - self.gauge.bytes() as i64);
    }

    /// A key as it is stored.
    pub(super) fn stored(&self, key: &[u8], rid: Rid) -> KeyBuf {
        if self.distinct {
            return KeyBuf::new(key);
        }
        let mut k = Vec::with_capacity(key.len() + 8);
        k.extend_from_slice(key);
        k.extend_from_slice(&rid.0.to_be_bytes());
        KeyBuf::new(&k)
    }

    pub(super) fn insert(&self, key: &[u8], rid: Rid) {
        let k = self.stored(key, rid);
        let full = {
            let leaves = self.leaves.read();
            let Some(leaf) = leaf_of(&leaves, &k) else { return };
            let mut entries = leaf.write();
            match place(&entries, &k) {
                Ok(i) => entries[i].1 = rid,
                Err(i) => {
                    let before = entries.capacity();
                    entries.insert(i, (k.clone(), rid));
                    self.len.fetch_add(1, Ordering::Relaxed);
                    let mut taken = KeyBuf::heap(k.as_slice().len());
                    if entries.capacity() != before {
                        taken += entries_bytes(entries.capacity()) - entries_bytes(before);
                    }
                    self.gauge.add(taken);
                }
            }
            entries.len() >= LEAF
        };
        if full {
            self.split(&k);
        }
    }

    /// Splits the leaf of `key`, unless somebody else has.
    fn split(&self, key: &KeyBuf) {
        let mut leaves = self.leaves.write();
        let mut behind = leaves.range_mut::<KeyBuf, _>(..=key);
        let Some(entries) = behind.next_back().map(|(_, leaf)| leaf.get_mut()) else { return };
        if entries.len() < LEAF {
            return;
        }
        // Keys that only rise leave the leaves behind them full, not half empty.
        let rising = entries.last().is_some_and(|last| last.0 == *key);
        let right = entries.split_off(if rising { LEAF * 7 / 8 } else { LEAF / 2 });
        if let Some((lower, _)) = right.first() {
            self.gauge.add(leaf_bytes(right.capacity(), lower.as_slice().len()));
            leaves.insert(lower.clone(), Leaf::new(right));
        }
    }

    pub(super) fn remove(&self, key: &[u8], rid: Rid) {
        let k = self.stored(key, rid);
        let left = {
            let leaves = self.leaves.read();
            let Some(leaf) = leaf_of(&leaves, &k) else { return };
            let mut entries = leaf.write();
            let Ok(i) = place(&entries, &k) else { return };
            if entries[i].1 != rid {
                return;
            }
            entries.remove(i);
            self.len.fetch_sub(1, Ordering::Relaxed);
            self.gauge.add(-KeyBuf::heap(k.as_slice().len()));
            entries.len()
        };
        // Not at every removal, for looking costs more than removing.
        if left <= LOW && left.is_multiple_of(4) {
            self.join(&k);
        }
    }

    /// Joins the leaf of `key` with a neighbour, if both are nearly empty: else a few entries that
    /// stay behind, one in each leaf, would keep the memory of all that were removed.
    fn join(&self, key: &KeyBuf) {
        // Whether there is anything to do is seen without keeping others out.
        let Some(lower) = right_of_pair(&self.leaves.read(), key) else { return };
        let mut leaves = self.leaves.write();
        // Somebody else may have come first.
        let Some(again) = right_of_pair(&leaves, key) else { return };
        if again != lower {
            return;
        }
        let Some(mut right) = leaves.remove(&lower) else { return };
        let right = right.get_mut();
        let mut taken = -leaf_bytes(right.capacity(), lower.as_slice().len());
        if let Some((_, left)) = leaves.range_mut::<KeyBuf, _>(..&lower).next_back() {
            let left = left.get_mut();
            let before = left.capacity();
            if left.len() + right.len() > before {
                left.reserve_exact(LEAF - left.len());
            }
            left.append(right);
            taken += entries_bytes(left.capacity()) - entries_bytes(before);
        }
        self.gauge.add(taken);
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Rid> {
        let leaves = self.leaves.read();
        if self.distinct {
            let k = KeyBuf::new(key);
            let entries = leaf_of(&leaves, &k)?.read();
            return place(&entries, &k).ok().map(|i| entries[i].1);
        }
        let mut found = None;
        visit(&leaves, &KeyBuf::new(key), |k, rid| {
            found = is_key(k.as_slice(), key).then_some(rid);
            false
        });
        found
    }

    pub(super) fn find_all(&self, key: &[u8], out: &mut Vec<Rid>) {
        if self.distinct {
            out.extend(self.find(key));
            return;
        }
        visit(&self.leaves.read(), &KeyBuf::new(key), |k, rid| {
            let hit = is_key(k.as_slice(), key);
            if hit {
                out.push(rid);
            }
            hit
        });
    }

    pub(super) fn leads_to(&self, key: &[u8], rid: Rid) -> bool {
        let k = self.stored(key, rid);
        let leaves = self.leaves.read();
        let Some(leaf) = leaf_of(&leaves, &k) else { return false };
        let entries = leaf.read();
        place(&entries, &k).is_ok_and(|i| entries[i].1 == rid)
    }

    pub(super) fn has_several(&self, key: &[u8]) -> bool {
        let mut found = 0;
        if !self.distinct {
            visit(&self.leaves.read(), &KeyBuf::new(key), |k, _| {
                let hit = is_key(k.as_slice(), key);
                found += u32::from(hit);
                hit && found < 2
            });
        }
        found > 1
    }

    pub(super) fn scan(
        &self,
        from: &Bound<KeyBuf>,
        to: &Bound<KeyBuf>,
        limit: usize,
        reverse: bool,
        found: &mut VecDeque<Entry>,
    ) {
        let above = |k: &KeyBuf| match from {
            Bound::Included(a) => k >= a,
            Bound::Excluded(a) => k > a,
            Bound::Unbounded => true,
        };
        let below = |k: &KeyBuf| match to {
            Bound::Included(b) => k <= b,
            Bound::Excluded(b) => k < b,
            Bound::Unbounded => true,
        };
        let full = found.len() + limit;
        if limit == 0 {
            return;
        }
        let leaves = self.leaves.read();
        if reverse {
            let last = match to {
                Bound::Included(b) | Bound::Excluded(b) => Bound::Included(b),
                Bound::Unbounded => Bound::Unbounded,
            };
            for (_, leaf) in leaves.range::<KeyBuf, _>((Bound::Unbounded, last)).rev() {
                for (k, rid) in leaf.read().iter().rev().filter(|(k, _)| below(k)) {
                    if !above(k) || found.len() == full {
                        return;
                    }
                    found.push_back((k.clone(), *rid));
                }
            }
            return;
        }
        let first = KeyBuf::new(&[]);
        let start = match from {
            Bound::Included(a) | Bound::Excluded(a) => a,
            Bound::Unbounded => &first,
        };
        visit(&leaves, start, |k, rid| {
            if !below(k) {
                return false;
            }
            if above(k) {
                found.push_back((k.clone(), rid));
            }
            found.len() < full
        });
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// An error is a row whose key another one has, of a `unique` index or of one whose entries are
    /// keys alone.
    pub(super) fn build(&self, mut entries: Vec<Entry>, unique: bool) -> Result<(), Rid> {
        if !self.distinct {
            for (k, r) in &mut entries {
                *k = self.stored(k.as_slice(), *r);
            }
        }
        entries.sort_unstable();
        let key = |entry: &Entry| {
            let stored = entry.0.as_slice();
            let place = if self.distinct { 0 } else { size_of::<Rid>() };
            stored.len().saturating_sub(place)
        };
        let is_same = |two: &[Entry]| {
            let [one, other] = two else { return false };
            one.0.as_slice().get(..key(one)) == other.0.as_slice().get(..key(other))
        };
        let is_looked_for = unique || self.distinct;
        let second = entries.windows(2).find(|two| is_looked_for && is_same(two)).map(|two| two[1].1);
        let mut leaves: Leaves = BTreeMap::new();
        let mut taken = 0;
        for part in entries.chunks(FILL) {
            let lower = if leaves.is_empty() { KeyBuf::new(&[]) } else { part[0].0.clone() };
            taken += leaf_bytes(part.len(), lower.as_slice().len());
            taken += part.iter().map(|(k, _)| KeyBuf::heap(k.as_slice().len())).sum::<i64>();
            leaves.insert(lower, Leaf::new(part.to_vec()));
        }
        self.gauge.add(taken);
        leaves.entry(KeyBuf::new(&[])).or_default();
        self.len.store(entries.len(), Ordering::Relaxed);
        *self.leaves.write() = leaves;
        second.map_or(Ok(()), Err)
    }
}

/// Calls `f` with the entries from `key` on, in order, until it returns false.
fn visit(leaves: &Leaves, key: &KeyBuf, mut f: impl FnMut(&KeyBuf, Rid) -> bool) {
    for leaf in leaves_from(leaves, key) {
        let entries = leaf.read();
        let start = place(&entries, key).unwrap_or_else(|i| i);
        for (k, rid) in &entries[start..] {
            if !f(k, *rid) {
                return;
            }
        }
    }
}

/// True if the stored key `k` is `key` followed by a place. Encoded keys are prefix-free, so length
/// decides nothing else.
fn is_key(k: &[u8], key: &[u8]) -> bool {
    k.len() == key.len() + 8 && k.starts_with(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Model = BTreeMap<Vec<u8>, Rid>;

    fn ordered(entries: &VecDeque<Entry>) -> Vec<(Vec<u8>, Rid)> {
        entries.iter().map(|(k, r)| (k.as_slice().to_vec(), *r)).collect()
    }

    fn scan(
        index: &OrderedIndex,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
        reverse: bool,
    ) -> VecDeque<Entry> {
        let mut found = VecDeque::new();
        index.scan(&from.map(KeyBuf::new), &to.map(KeyBuf::new), limit, reverse, &mut found);
        found
    }

    fn key(n: u16) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    proptest! {
        /// Enough inserts to split leaves many times, enough removals to empty some; bounds may be
        /// inverted.
        #[test]
        fn it_answers_as_one_sorted_map_does(
            built in proptest::collection::btree_set(0u16..2000, 0..600),
            steps in proptest::collection::vec((any::<bool>(), 0u16..2000, 0u16..80), 0..60),
            scans in proptest::collection::vec((0u16..2000, 0u16..2000, 0usize..400, any::<bool>(), 0u8..9), 8),
        ) {
            let index = OrderedIndex::new(true, Gauge::default());
            let mut model = Model::new();
            model.extend(built.iter().map(|&n| (key(n), Rid(u64::from(n)))));
            prop_assert_eq!(index.build(model.iter().map(|(k, r)| (KeyBuf::new(k), *r)).collect(), false), Ok(()));
            for (add, first, count) in steps {
                for n in (first..first + count).map(|n| n % 2000) {
                    let rid = Rid(u64::from(n));
                    if add {
                        index.insert(&key(n), rid);
                        model.insert(key(n), rid);
                    } else {
                        index.remove(&key(n), rid);
                        model.remove(&key(n));
                    }
                }
            }
            prop_assert_eq!(index.len(), model.len());
            for n in 0..2000 {
                prop_assert_eq!(index.find(&key(n)), model.get(&key(n)).copied());
                let there = index.leads_to(&key(n), Rid(n.into()));
                prop_assert_eq!(there, model.contains_key(&key(n)));
            }
            for (a, b, limit, reverse, bounds) in scans {
                let (a, b) = (key(a), key(b));
                let bound = |how: u8, k| match how % 3 {
                    0 => Bound::Included(k),
                    1 => Bound::Excluded(k),
                    _ => Bound::Unbounded,
                };
                let (from, to) = (bound(bounds, &a[..]), bound(bounds / 3, &b[..]));
                let inside = |k: &Vec<u8>| {
                    (match from { Bound::Included(a) => &k[..] >= a, Bound::Excluded(a) => &k[..] > a, _ => true })
                        && (match to { Bound::Included(b) => &k[..] <= b, Bound::Excluded(b) => &k[..] < b, _ => true })
                };
                let mut want: Vec<_> = model.iter().filter(|(k, _)| inside(k)).map(|(k, r)| (k.clone(), *r)).collect();
                if reverse {
                    want.reverse();
                }
                want.truncate(limit);
                prop_assert_eq!(ordered(&scan(&index, from, to, limit, reverse)), want);
            }
        }

        #[test]
        fn all_places_of_a_key_are_found_across_leaves(counts in proptest::collection::vec(0u64..400, 1..6)) {
            let index = OrderedIndex::new(false, Gauge::default());
            for (n, &count) in counts.iter().enumerate() {
                (0..count).for_each(|r| index.insert(&key(n as u16), Rid(r)));
            }
            for (n, &count) in counts.iter().enumerate() {
                let mut rids = Vec::new();
                index.find_all(&key(n as u16), &mut rids);
                prop_assert_eq!(rids, (0..count).map(Rid).collect::<Vec<_>>());
                prop_assert_eq!(index.find(&key(n as u16)), (count > 0).then_some(Rid(0)));
                prop_assert_eq!(index.has_several(&key(n as u16)), count > 1);
                prop_assert!((0..400).all(|r| index.leads_to(&key(n as u16), Rid(r)) == (r < count)));
            }
        }
    }

    #[test]
    fn leaves_that_are_emptied_go_away() {
        let index = OrderedIndex::new(true, Gauge::default());
        for n in 0..10_000u16 {
            index.insert(&key(n), Rid(0));
        }
        assert!(index.leaves.read().len() < 10_000 / LEAF * 4 / 3, "rising keys fill their leaves");
        for n in 0..10_000u16 {
            index.remove(&key(n), Rid(0));
        }
        assert_eq!((index.len(), index.leaves.read().len()), (0, 1));
    }

    /// The leaves of all removed entries stayed as long as one in each was left.
    #[test]
    fn leaves_that_are_nearly_empty_are_joined() {
        let index = OrderedIndex::new(true, Gauge::default());
        (0..20_000u16).for_each(|n| index.insert(&key(n), Rid(n.into())));
        let before = index.memory();
        (0..20_000u16).filter(|n| n % 50 != 7).for_each(|n| index.remove(&key(n), Rid(n.into())));
        assert!(index.leaves.read().len() < 400 / LOW, "{} leaves", index.leaves.read().len());
        assert!(index.memory() < before / 8, "{} of {before}", index.memory());
        let (all, reverse) = (Bound::Unbounded, |r| scan(&index, Bound::Unbounded, Bound::Unbounded, 999, r));
        assert_eq!(scan(&index, all, all, 999, false).len(), 400);
        assert!(reverse(true).iter().rev().eq(reverse(false).iter()));
        assert!((0..20_000u16).all(|n| index.find(&key(n)).is_some() == (n % 50 == 7)));
    }

    #[test]
    fn threads_that_split_and_empty_leaves_lose_nothing() {
        let index = OrderedIndex::new(true, Gauge::default());
        std::thread::scope(|s| {
            for t in 0..4u16 {
                let index = &index;
                s.spawn(move || {
                    for round in 0..5 {
                        let mine = || (0..4000u16).map(|n| key(n * 4 + t));
                        mine().for_each(|k| index.insert(&k, Rid(t.into())));
                        mine().for_each(|k| assert_eq!(index.find(&k), Some(Rid(t.into()))));
                        if round < 4 {
                            mine().for_each(|k| index.remove(&k, Rid(t.into())));
                        }
                    }
                });
            }
        });
        assert_eq!(index.len(), 16_000);
        assert_eq!(scan(&index, Bound::Unbounded, Bound::Unbounded, 100_000, false).len(), 16_000);
    }
}
