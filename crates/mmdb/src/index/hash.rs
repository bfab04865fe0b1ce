//! A sharded hash table from key to places.

use super::probe::Probe;
use super::shard::Shard;
#[cfg(test)]
use super::shard::sign;
use crate::container::Rid;
use crate::key::{KeyBuf, hash};
use crate::memory::Gauge;
use crate::prefetch;
use crate::spawner::Spawner;
use crate::sync::RwLock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Shards; a resize moves only one of them.
const SHARDS: usize = 128;

/// A shard under its latch.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Latched {
    shard: RwLock<Shard>,
    /// Where its lines are, and in the last bits, which are zero there, the logarithm of their
    /// number: for nothing but to fetch them ahead of use.
    lines: AtomicUsize,
}

impl Latched {
    /// Changes the shard; the bytes that this took.
    #[inline]
    fn change(&self, f: impl FnOnce(&mut Shard) -> i64) -> i64 {
        let mut shard = self.shard.write();
        let taken = f(&mut shard);
        let lines = shard.lines();
        // None at all is one of any number: an index without keys has no line to fetch.
        let now = lines.as_ptr().addr() | lines.len().checked_ilog2().unwrap_or(0) as usize;
        if self.lines.load(Relaxed) != now {
            self.lines.store(now, Relaxed);
        }
        taken
    }

    /// Begins to bring what a look-up of this hash reads first into the caches. Whatever becomes of
    /// the lines meanwhile: it is no access.
    #[inline]
    fn prefetch(&self, h: u64) {
        let lines = self.lines.load(Relaxed);
        let last = (1 << (lines % LINE)) - 1;
        prefetch::line(lines / LINE * LINE + (h as usize & last) * LINE);
    }
}

pub(super) struct HashIndex {
    /// Made with the table's first container, or for the first key: an empty table needs none.
    shards: OnceLock<Box<[Latched]>>,
    gauge: Gauge,
}

impl std::fmt::Debug for HashIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HashIndex({} keys)", self.len())
    }
}

/// The shard of a hash, from 16 bits in the middle; it uses the others for itself.
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

/// What two hashes have in common whose words cannot be told apart, while a shard has one line.
#[cfg(test)]
pub(crate) fn alike(h: u64) -> (usize, u64) {
    (shard_of(h), sign(h))
}

impl HashIndex {
    /// Bytes of the shards without entries.
    const FRAME: u64 = (SHARDS * size_of::<Latched>()) as u64;

    /// `gauge` has counted nothing yet.
    pub(super) fn new(gauge: Gauge) -> Self {
        HashIndex { shards: OnceLock::new(), gauge }
    }

    /// The shards, which are made if there are none.
    fn shards(&self) -> &[Latched] {
        self.shards.get_or_init(|| {
            self.gauge.add(Self::FRAME as i64);
            (0..SHARDS).map(|_| Latched::default()).collect()
        })
    }

    /// The shards that there are: all or none.
    fn made(&self) -> &[Latched] {
        self.shards.get().map(|shards| &**shards).unwrap_or_default()
    }

    /// Makes room for entries. Who does it has asked for [`HashIndex::frame_bytes`].
    pub(super) fn begin(&self) {
        self.shards();
    }

    /// Bytes that the first entry would take beside its own.
    pub(super) fn frame_bytes(&self) -> u64 {
        if self.made().is_empty() { Self::FRAME } else { 0 }
    }

    /// Bytes of all entries and of the room for more.
    pub(super) fn memory(&self) -> u64 {
        self.gauge.bytes()
    }

    /// Bytes that adding this key would take now.
    pub(super) fn need(&self, key: &[u8], h: u64) -> u64 {
        match self.shard(h) {
            Some(latched) => latched.shard.read().need(key, h),
            None => Self::FRAME + Shard::default().need(key, h),
        }
    }

    /// Forgets all entries and gives their memory back.
    pub(super) fn clear(&self) {
        for shard in self.made() {
            shard.change(|shard| {
                *shard = Shard::default();
                0
            });
        }
        self.gauge.add((Self::FRAME - self.frame_bytes()) as i64 - self.gauge.bytes() as i64);
    }

    /// The shard of a hash; none has no entries.
    #[inline]
    fn shard(&self, h: u64) -> Option<&Latched> {
        self.shards.get()?.get(shard_of(h))
    }

    pub(super) fn insert(&self, key: &[u8], h: u64, rid: Rid) {
        self.gauge.add(self.shards()[shard_of(h)].change(|shard| shard.add(key, h, rid)));
    }

    pub(super) fn remove(&self, key: &[u8], h: u64, rid: Rid) {
        if let Some(latched) = self.shard(h) {
            self.gauge.add(latched.change(|shard| shard.remove(key, h, rid)));
        }
    }

    pub(super) fn find(&self, key: &[u8], h: u64) -> Option<Rid> {
        self.shard(h)?.shard.read().find(key, h)
    }

    /// Begins to bring what a look-up of this hash reads first into the caches.
    #[inline]
    pub(super) fn prefetch(&self, h: u64) {
        if let Some(latched) = self.shard(h) {
            latched.prefetch(h);
        }
    }

    /// Where a row is that may have a key of this hash; nowhere is certain.
    #[inline]
    pub(super) fn likely(&self, h: u64) -> Option<Rid> {
        self.shard(h)?.shard.read().likely(h)
    }

    /// As [`HashIndex::likely`], of each of these: one step of all before the next one of any, so
    /// that a processor has the loads of many under way. With `keys` what [`HashIndex::find`] reads
    /// of them is fetched as well.
    pub(super) fn likely_many(&self, probes: &mut [Probe], keys: bool) {
        for probe in &*probes {
            self.prefetch(probe.hash);
        }
        for probe in probes {
            let Some(latched) = self.shard(probe.hash) else {
                probe.rid = None;
                continue;
            };
            let shard = latched.shard.read();
            probe.rid = shard.likely(probe.hash);
            if keys {
                shard.prefetch_key(probe.hash);
            }
        }
    }

    pub(super) fn find_all(&self, key: &[u8], h: u64, out: &mut Vec<Rid>) {
        if let Some(latched) = self.shard(h) {
            latched.shard.read().find_all(key, h, out);
        }
    }

    pub(super) fn leads_to(&self, key: &[u8], h: u64, rid: Rid) -> bool {
        self.shard(h).is_some_and(|latched| latched.shard.read().leads_to(key, h, rid))
    }

    pub(super) fn has_several(&self, key: &[u8], h: u64) -> bool {
        self.shard(h).is_some_and(|latched| latched.shard.read().has_several(key, h))
    }

    pub(super) fn len(&self) -> usize {
        self.made().iter().map(|s| s.shard.read().len()).sum()
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
        if entries.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let (threads, shards) = (threads.clamp(1, SHARDS), self.shards());
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
                let Some(shard) = shards.get(i * threads + part) else { continue };
                let mut second = None;
                let fill = |shard: &mut Shard| {
                    let mut taken = shard.reserve(list.len());
                    for (h, key, rid) in list {
                        if !unique {
                            taken += shard.add(key.as_slice(), h, rid);
                        } else if shard.find(key.as_slice(), h).is_some() {
                            second = Some(rid);
                            break;
                        } else {
                            taken += shard.add_new(key.clone(), h, rid);
                        }
                    }
                    taken
                };
                self.gauge.add(shard.change(fill));
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

    /// An index of an empty table had all its shards: 8 KiB.
    #[test]
    fn an_index_without_keys_takes_nothing_and_has_nothing() {
        let index = HashIndex::new(Gauge::default());
        let (first, h) = (key(1), hash(&key(1)));
        remove(&index, 1);
        let mut found = Vec::new();
        index.find_all(&first, h, &mut found);
        assert_eq!((index.find(&first, h), index.likely(h), found.len(), index.len()), (None, None, 0, 0));
        assert!(!index.leads_to(&first, h, Rid(1)) && !index.has_several(&first, h));
        let mut probes = [Probe { hash: h, rid: Some(Rid(7)), ..Probe::default() }];
        index.likely_many(&mut probes, true);
        assert_eq!(probes[0].rid, None);
        assert_eq!(index.build(&[Vec::new()], true, 2, &Spawner::default()), Ok(()));
        index.clear();
        assert_eq!(index.memory(), 0);
        let need = index.need(&first, h);
        insert(&index, 1);
        assert_eq!((index.memory(), index.find(&first, h)), (need, Some(Rid(1))));
        index.clear();
        assert_eq!((index.memory(), index.len()), (HashIndex::FRAME, 0));
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
                let per_key = (index.memory() - HashIndex::FRAME) as f64 / (n + 1) as f64;
                assert!((38.0..82.0).contains(&per_key), "{per_key} at {n}");
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
