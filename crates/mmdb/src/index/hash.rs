//! A sharded hash table from key to places.

use crate::container::Rid;
use crate::key::{KeyBuf, hash};
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
}

impl std::fmt::Debug for HashIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HashIndex({} keys)", self.len())
    }
}

fn rehash(e: &Entry) -> u64 {
    hash(e.key.as_slice())
}

fn add(table: &mut HashTable<Entry>, key: &[u8], h: u64, rid: Rid) {
    if let Some(e) = table.find_mut(h, |e| e.key.is(key)) {
        match &mut e.rids {
            Rids::One(first) => e.rids = Rids::Many(Box::new([*first, rid].into())),
            Rids::Many(set) => {
                set.insert(rid);
            }
        }
    } else {
        table.insert_unique(h, Entry { key: KeyBuf::new(key), rids: Rids::One(rid) }, rehash);
    }
}

impl HashIndex {
    pub(super) fn new() -> Self {
        HashIndex { shards: (0..SHARDS).map(|_| RwLock::new(HashTable::new())).collect() }
    }

    // The table itself uses the low and the top bits of the hash; the shard comes from the middle.
    #[inline]
    fn shard(&self, h: u64) -> &RwLock<HashTable<Entry>> {
        &self.shards[(h >> 40) as usize % SHARDS]
    }

    pub(super) fn insert(&self, key: &[u8], h: u64, rid: Rid) {
        add(&mut self.shard(h).write(), key, h, rid);
    }

    pub(super) fn remove(&self, key: &[u8], h: u64, rid: Rid) {
        let mut t = self.shard(h).write();
        let Ok(mut entry) = t.find_entry(h, |e| e.key.is(key)) else { return };
        match &mut entry.get_mut().rids {
            Rids::One(r) if *r == rid => {
                entry.remove();
            }
            Rids::One(_) => {}
            Rids::Many(set) => {
                set.remove(&rid);
                if set.len() == 1
                    && let Some(&last) = set.first()
                {
                    entry.get_mut().rids = Rids::One(last);
                }
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
                t.reserve(list.len(), rehash);
                for (h, key, rid) in list {
                    if !unique {
                        add(&mut t, key.as_slice(), h, rid);
                    } else if t.find(h, |e| e.key == *key).is_some() {
                        return false;
                    } else {
                        t.insert_unique(h, Entry { key: key.clone(), rids: Rids::One(rid) }, rehash);
                    }
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
