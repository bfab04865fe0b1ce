//! A sharded hash table from key to places.

use crate::container::Rid;
use crate::key::{KeyBuf, hash};
use crate::memory::{Gauge, block};
use crate::sync::RwLock;
use hashbrown::HashTable;
use std::collections::BTreeSet;

/// Shards; a resize moves only one of them.
const SHARDS: usize = 128;

#[derive(Debug)]
enum Rids {
    One(Rid),
    // Boxed to keep the usual entry small.
    #[allow(clippy::box_collection)]
    Many(Box<BTreeSet<Rid>>),
}

struct Entry {
    key: KeyBuf,
    rids: Rids,
}

pub(super) struct HashIndex {
    shards: Box<[RwLock<HashTable<Entry>>]>,
    gauge: Gauge,
}

impl std::fmt::Debug for HashIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HashIndex({} keys)", self.len())
    }
}

fn rehash(e: &Entry) -> u64 {
    hash(e.key.as_slice())
}

/// What a set of so many places takes. A tree's node holds 5 to 11 of them, 6 if they came in rising order.
fn set_bytes(places: usize) -> i64 {
    const HEAD: u64 = 32;
    let node = block(11 * size_of::<Rid>() + 16);
    let inner = block(11 * size_of::<Rid>() + 16 + 12 * size_of::<usize>());
    let leaves = if places <= 11 { 1 } else { (places as u64).div_ceil(6) };
    (HEAD + leaves * node + leaves / 7 * inner) as i64
}

/// Bytes that the table will have more once one entry is added.
fn growth(table: &HashTable<Entry>) -> u64 {
    if table.len() < table.capacity() { 0 } else { block(table.allocation_size()).max(256) }
}

/// Makes room for one entry; the bytes that this took.
fn make_room(table: &mut HashTable<Entry>) -> i64 {
    if table.len() < table.capacity() {
        return 0;
    }
    let before = block(table.allocation_size());
    table.reserve(1, rehash);
    block(table.allocation_size()) as i64 - before as i64
}

/// Adds an entry; the bytes that this took.
fn add(table: &mut HashTable<Entry>, key: &[u8], h: u64, rid: Rid) -> i64 {
    if let Some(e) = table.find_mut(h, |e| e.key.is(key)) {
        match &mut e.rids {
            Rids::One(first) => {
                e.rids = Rids::Many(Box::new([*first, rid].into()));
                set_bytes(2)
            }
            Rids::Many(set) => {
                let before = set_bytes(set.len());
                set.insert(rid);
                set_bytes(set.len()) - before
            }
        }
    } else {
        let grown = make_room(table);
        table.insert_unique(h, Entry { key: KeyBuf::new(key), rids: Rids::One(rid) }, rehash);
        grown + KeyBuf::heap(key.len())
    }
}

impl HashIndex {
    /// Bytes of an index without entries.
    pub(super) const EMPTY: usize = SHARDS * size_of::<RwLock<HashTable<Entry>>>();

    /// `gauge` has counted an empty index already.
    pub(super) fn new(gauge: Gauge) -> Self {
        HashIndex { shards: (0..SHARDS).map(|_| RwLock::new(HashTable::new())).collect(), gauge }
    }

    /// Bytes of all entries and of the room for more.
    pub(super) fn memory(&self) -> u64 {
        self.gauge.bytes()
    }

    /// Bytes that adding this key would take now.
    pub(super) fn need(&self, key: &[u8], h: u64) -> u64 {
        let t = self.shard(h).read();
        match t.find(h, |e| e.key.is(key)).map(|e| &e.rids) {
            None => growth(&t) + KeyBuf::heap(key.len()) as u64,
            Some(Rids::One(_)) => set_bytes(2) as u64,
            Some(Rids::Many(set)) => (set_bytes(set.len() + 1) - set_bytes(set.len())) as u64,
        }
    }

    /// Forgets all entries and gives their memory back.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            *shard.write() = HashTable::new();
        }
        self.gauge.add(Self::EMPTY as i64 - self.gauge.bytes() as i64);
    }

    // The table itself uses the low and the top bits of the hash; the shard comes from the middle.
    #[inline]
    fn shard(&self, h: u64) -> &RwLock<HashTable<Entry>> {
        &self.shards[(h >> 40) as usize % SHARDS]
    }

    pub(super) fn insert(&self, key: &[u8], h: u64, rid: Rid) {
        let taken = add(&mut self.shard(h).write(), key, h, rid);
        self.gauge.add(taken);
    }

    pub(super) fn remove(&self, key: &[u8], h: u64, rid: Rid) {
        let mut t = self.shard(h).write();
        let Ok(mut entry) = t.find_entry(h, |e| e.key.is(key)) else { return };
        match &mut entry.get_mut().rids {
            Rids::One(r) if *r == rid => {
                entry.remove();
                self.gauge.add(-KeyBuf::heap(key.len()));
            }
            Rids::One(_) => {}
            Rids::Many(set) => {
                let before = set_bytes(set.len());
                set.remove(&rid);
                let mut after = set_bytes(set.len());
                if set.len() == 1
                    && let Some(&last) = set.first()
                {
                    entry.get_mut().rids = Rids::One(last);
                    after = 0;
                }
                self.gauge.add(after - before);
            }
        }
    }

    pub(super) fn find(&self, key: &[u8], h: u64) -> Option<Rid> {
        let t = self.shard(h).read();
        match &t.find(h, |e| e.key.is(key))?.rids {
            Rids::One(r) => Some(*r),
            Rids::Many(set) => set.first().copied(),
        }
    }

    pub(super) fn find_all(&self, key: &[u8], h: u64, out: &mut Vec<Rid>) {
        let t = self.shard(h).read();
        match t.find(h, |e| e.key.is(key)).map(|e| &e.rids) {
            Some(Rids::One(r)) => out.push(*r),
            Some(Rids::Many(set)) => out.extend(set.iter().copied()),
            None => {}
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().len()).sum()
    }

    /// Each thread takes every `threads`-th shard: it sorts its entries by shard, so that each shard is sized once and
    /// filled while it is in the cache.
    pub(super) fn build(&self, entries: &[Vec<(KeyBuf, Rid)>], unique: bool, threads: usize) -> bool {
        let threads = threads.clamp(1, SHARDS);
        let expect = entries.iter().map(Vec::len).sum::<usize>() * 5 / 4 / SHARDS + 4;
        let fill = |part: usize| {
            let mut mine: Vec<Vec<(u64, &KeyBuf, Rid)>> =
                (0..SHARDS.div_ceil(threads)).map(|_| Vec::with_capacity(expect)).collect();
            for (key, rid) in entries.iter().flatten() {
                let h = hash(key.as_slice());
                let shard = (h >> 40) as usize % SHARDS;
                if shard % threads == part {
                    mine[shard / threads].push((h, key, *rid));
                }
            }
            for (i, list) in mine.into_iter().enumerate() {
                let Some(shard) = self.shards.get(i * threads + part) else { continue };
                let mut t = shard.write();
                let before = block(t.allocation_size());
                t.reserve(list.len(), rehash);
                let mut taken = block(t.allocation_size()) as i64 - before as i64;
                let mut whole = true;
                for (h, key, rid) in list {
                    if !unique {
                        taken += add(&mut t, key.as_slice(), h, rid);
                    } else if t.find(h, |e| e.key == *key).is_some() {
                        whole = false;
                        break;
                    } else {
                        taken += KeyBuf::heap(key.as_slice().len());
                        t.insert_unique(h, Entry { key: key.clone(), rids: Rids::One(rid) }, rehash);
                    }
                }
                self.gauge.add(taken);
                if !whole {
                    return false;
                }
            }
            true
        };
        std::thread::scope(|s| {
            let fill = &fill;
            let others: Vec<_> = (1..threads).map(|p| s.spawn(move || fill(p))).collect();
            let first = fill(0);
            others.into_iter().all(|t| t.join().unwrap_or(false)) && first
        })
    }
}
