//! A sharded hash table from key to places.

use super::probe::{BATCH, Probe};
use crate::container::Rid;
use crate::key::{KeyBuf, hash};
use crate::memory::{Gauge, block};
use crate::spawner::Spawner;
use crate::sync::{RwLock, RwLockReadGuard};
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

impl Rids {
    fn first(&self) -> Option<Rid> {
        match self {
            Rids::One(rid) => Some(*rid),
            Rids::Many(set) => set.first().copied(),
        }
    }
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

/// The shard of a hash. The table itself uses the low and the top bits; the shard comes from 16 in
/// the middle.
///
/// Shards are not equally large: the largest gets twice the keys of the smallest, and between them
/// sizes rise evenly. Equal ones would all double at nearly the same number of keys, so that a
/// database close below its limit could need a third more memory for its next few rows; these
/// double one after the other.
#[inline]
fn shard_of(h: u64) -> usize {
    // 128 times the logarithm to base 2 of 1 + x, for the fraction x in 16 bits, by the parabola
    // through its ends.
    const BEND: u64 = 44;
    let x = (h >> 40) & 0xffff;
    let shard = (x * SHARDS as u64 + ((x * (0x1_0000 - x)) >> 16) * BEND) >> 16;
    shard as usize % SHARDS
}

fn rehash(e: &Entry) -> u64 {
    hash(e.key.as_slice())
}

/// What a set of so many places takes. A tree's node holds 5 to 11 of them, 6 if they came in
/// rising order.
fn set_bytes(places: usize) -> i64 {
    const HEAD: u64 = 32;
    let node = block(11 * size_of::<Rid>() + 16);
    let inner = block(11 * size_of::<Rid>() + 16 + 12 * size_of::<usize>());
    let leaves = if places <= 11 { 1 } else { (places as u64).div_ceil(6) };
    (HEAD + leaves * node + leaves / 7 * inner) as i64
}

/// Entries that the table's memory holds when none of it is taken by the traces of removed ones.
fn places(table: &HashTable<Entry>) -> usize {
    match table.num_buckets() {
        few @ 0..8 => few.saturating_sub(1),
        many => many / 8 * 7,
    }
}

/// Whether a full table is so by what was removed: then it is filled anew, and need not double.
fn is_littered(table: &HashTable<Entry>) -> bool {
    table.len() * 16 < places(table) * 15
}

/// Bytes that the table will have more once one entry is added.
fn growth(table: &HashTable<Entry>) -> u64 {
    if table.len() < table.capacity() || is_littered(table) {
        return 0;
    }
    block(table.allocation_size()).max(256)
}

/// Makes room for one entry; the bytes that this took.
fn make_room(table: &mut HashTable<Entry>) -> i64 {
    if table.len() < table.capacity() {
        return 0;
    }
    let before = block(table.allocation_size());
    if is_littered(table) {
        let mut clean = HashTable::with_capacity(places(table));
        for entry in table.drain() {
            clean.insert_unique(rehash(&entry), entry, rehash);
        }
        *table = clean;
    } else {
        table.reserve(1, rehash);
    }
    block(table.allocation_size()) as i64 - before as i64
}

/// Halves a table that is less than three eighths full; the bytes that this took, which is none or
/// less. What is left fills three quarters of the smaller table: it takes a quarter more or half
/// less to make it change again. Waiting for less to be left would let chance double more and more
/// shards while the number of keys stays.
fn shrink(table: &mut HashTable<Entry>) -> i64 {
    const SMALLEST: usize = 14;
    let (len, places) = (table.len(), places(table));
    if places <= SMALLEST || len * 8 >= places * 3 {
        return 0;
    }
    let before = block(table.allocation_size());
    table.shrink_to(places / 2, rehash);
    block(table.allocation_size()) as i64 - before as i64
}

/// Adds an entry; the bytes that this took.
fn add(table: &mut HashTable<Entry>, key: &[u8], h: u64, rid: Rid) -> i64 {
    if let Some(e) = table.find_mut(h, |e| e.key.is(key)) {
        match &mut e.rids {
            // While an index is built, a row may come twice.
            Rids::One(first) if *first == rid => 0,
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

    #[inline]
    fn shard(&self, h: u64) -> &RwLock<HashTable<Entry>> {
        &self.shards[shard_of(h)]
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
                let taken = shrink(&mut t) - KeyBuf::heap(key.len());
                self.gauge.add(taken);
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
        t.find(h, |e| e.key.is(key))?.rids.first()
    }

    /// Looks up to [`BATCH`] keys among `keys` up together: one step of all before the next one of
    /// any, so that a processor has the loads of many under way. The latches are taken first, for
    /// nothing passes an atomic access that has not come to its end. Who holds some does not wait
    /// for another: what a writer has is looked up afterwards.
    pub(super) fn find_many(&self, keys: &[u8], probes: &mut [Probe]) {
        let mut shards: [Option<RwLockReadGuard<'_, HashTable<Entry>>>; BATCH] = [const { None }; BATCH];
        let (mut numbers, mut latched) = ([0; BATCH], 0);
        // Where among them each key's shard is; behind their end if it is not.
        let mut places = [BATCH; BATCH];
        for (place, probe) in places.iter_mut().zip(&*probes) {
            let number = shard_of(probe.hash);
            if let Some(held) = numbers[..latched].iter().position(|&n| n == number) {
                *place = held;
            } else if let Some(shard) = self.shards[number].try_read() {
                (shards[latched], numbers[latched], *place) = (Some(shard), number, latched);
                latched += 1;
            }
        }
        // The first entry whose hash may be this one, unread: it is nearly always the right one.
        let mut likely = [None; BATCH];
        for ((bucket, place), probe) in likely.iter_mut().zip(places).zip(&*probes) {
            let shard = shards.get(place).and_then(Option::as_ref);
            *bucket = shard.and_then(|t| t.find_bucket_index(probe.hash, |_| true));
        }
        for ((bucket, place), probe) in likely.into_iter().zip(places).zip(&mut *probes) {
            let (Some(Some(t)), Some(bucket)) = (shards.get(place), bucket) else { continue };
            let key = &keys[probe.key.clone()];
            let entry = t.get_bucket(bucket).filter(|e| e.key.is(key));
            let entry = entry.or_else(|| t.find(probe.hash, |e| e.key.is(key)));
            probe.rid = entry.and_then(|e| e.rids.first());
        }
        drop(shards);
        for (probe, _) in probes.iter_mut().zip(places).filter(|(_, place)| *place == BATCH) {
            probe.rid = self.find(&keys[probe.key.clone()], probe.hash);
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

    /// Each thread takes every `threads`-th shard: it sorts its entries by shard, so that each
    /// shard is sized once and filled while it is in the cache.
    pub(super) fn build(
        &self,
        entries: &[Vec<(KeyBuf, Rid)>],
        unique: bool,
        threads: usize,
        spawner: &Spawner,
    ) -> Result<(), Rid> {
        let threads = threads.clamp(1, SHARDS);
        let expect = entries.iter().map(Vec::len).sum::<usize>() * 5 / 4 / SHARDS + 4;
        let fill = |part: usize| {
            let mut mine: Vec<Vec<(u64, &KeyBuf, Rid)>> =
                (0..SHARDS.div_ceil(threads)).map(|_| Vec::with_capacity(expect)).collect();
            for (key, rid) in entries.iter().flatten() {
                let h = hash(key.as_slice());
                let shard = shard_of(h);
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
                let mut second = None;
                for (h, key, rid) in list {
                    if !unique {
                        taken += add(&mut t, key.as_slice(), h, rid);
                    } else if t.find(h, |e| e.key == *key).is_some() {
                        second = Some(rid);
                        break;
                    } else {
                        taken += KeyBuf::heap(key.as_slice().len());
                        t.insert_unique(h, Entry { key: key.clone(), rids: Rids::One(rid) }, rehash);
                    }
                }
                self.gauge.add(taken);
                if let Some(rid) = second {
                    return Err(rid);
                }
            }
            Ok(())
        };
        spawner.share(threads, fill).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    fn insert(index: &HashIndex, n: u64) {
        index.insert(&key(n), hash(&key(n)), Rid(n));
    }

    fn remove(index: &HashIndex, n: u64) {
        index.remove(&key(n), hash(&key(n)), Rid(n));
    }

    #[test]
    fn every_hash_has_a_shard_and_every_shard_its_hashes() {
        let mut counts = [0; SHARDS];
        for x in 0..0x1_0000u64 {
            counts[shard_of(x << 40 | 0xff_ffff)] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 300 && *most < 900 && most / least <= 2, "{counts:?}");
    }

    /// Shards that doubled together made steps of a factor of two in what an index takes.
    #[test]
    fn memory_grows_with_the_keys_and_goes_with_them() {
        let index = HashIndex::new(Gauge::default());
        const KEYS: u64 = 100_000;
        let mut before = 0;
        for n in 0..KEYS {
            insert(&index, n);
            if n >= KEYS / 10 && n.is_multiple_of(KEYS / 100) {
                let per_key = index.memory() as f64 / (n + 1) as f64;
                assert!((45.0..95.0).contains(&per_key), "{per_key} at {n}");
            }
            before = index.memory();
        }
        // As many as before, but others: what was removed leaves traces, which must not make the
        // tables double.
        for n in 0..KEYS * 3 {
            remove(&index, n);
            insert(&index, n + KEYS);
        }
        assert_eq!(index.len() as u64, KEYS);
        assert!(index.memory() < before * 23 / 20, "{} after {before}", index.memory());
        for n in KEYS * 3..KEYS * 4 - 100 {
            remove(&index, n);
        }
        assert!(index.memory() < before / 20, "{} after {before}", index.memory());
        for n in KEYS * 4 - 100..KEYS * 4 {
            assert_eq!(index.find(&key(n), hash(&key(n))), Some(Rid(n)));
        }
    }
}
