//! Key-range locks of one ordered index: the intervals that transactions have read, and the keys
//! that others are about to bring.
//!
//! An interval locks the keys that lie in it, whether there are any or not; that keeps phantoms
//! out. Next-key locking (ARIES/KVL, Mohan 1990) names the gap between two keys by the upper one.
//! That needs a key to be in the index as soon as it is inserted. Here it comes with the commit:
//! until then several transactions wait to insert into one gap, and whoever commits first would
//! have to hand the locks of all the others on to both halves. With `n` clients that append, each
//! commit would hand on `n` locks. So intervals have bounds of their own, and what is not in the
//! index yet is in a list beside it. The end of the index needs no key that stands for it, an
//! interval next to another key's place is nobody's obstacle, and a delete changes no interval: it
//! has to wait for the lock of the row.
//!
//! Nobody waits here. Whoever is listed holds a named lock of the lock table, which others ask for
//! that he is in the way of; so wait-die rules these conflicts as all others:
//!
//! - Before a reader lists an interval, it holds the lock of its number, shared. Who brings a key
//!   into the interval asks for that one with the intent to write.
//! - Before a writer lists a key, it holds the lock of that key, to write. Who reads an interval
//!   with the key in it asks for that one, shared.
//!
//! Each lists first and then looks for the other, under the same latch or in the order of one word,
//! so that of two who meet at least one sees the other. A reader looks into the index only after
//! that: what comes from then on waits for it.

use crate::cache_line::CacheLine;
use crate::key::KeyBuf;
use crate::memory::{Budget, Gauge};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// Lists of keys: writers seldom meet at one, readers look through all.
const SHARDS: usize = 8;
/// What a listed key costs beside its own bytes: its part of a tree's node with 6 places of 11
/// taken.
const CLAIM: i64 = 64;
/// Listed keys are counted in pieces of so many; each list's first piece is not.
const PIECE: usize = 64;

/// Bounds of an interval.
pub(crate) type Bounds = (Bound<KeyBuf>, Bound<KeyBuf>);

/// Bounds of an ordered set of keys that have a number each.
type PairBounds<N> = (Bound<(KeyBuf, N)>, Bound<(KeyBuf, N)>);

/// The interval that a transaction has read.
#[derive(Debug)]
struct Interval {
    /// Its reader's number.
    reader: u64,
    bounds: Bounds,
}

/// Keys that are about to come, each with the age of the transaction that brings it.
#[derive(Debug)]
struct Claims {
    keys: BTreeSet<(KeyBuf, u64)>,
    /// As many keys are counted as memory, or are for free.
    counted: usize,
}

/// The key-range locks of an index.
pub(crate) struct RangeLocks {
    /// Intervals listed. Writers read it with every key.
    count: CacheLine<AtomicUsize>,
    intervals: Mutex<Vec<Interval>>,
    claims: [CacheLine<Mutex<Claims>>; SHARDS],
    /// Readers so far.
    readers: AtomicU64,
    gauge: Gauge,
}

impl std::fmt::Debug for RangeLocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RangeLocks({} listed)", self.len())
    }
}

/// Whether `a` begins no later than `b`, both lower bounds.
fn begins_before(a: &Bound<KeyBuf>, b: &Bound<KeyBuf>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => true,
        (_, Bound::Unbounded) => false,
        (Bound::Excluded(a), Bound::Included(b)) => a < b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a <= b,
    }
}

/// Whether `a` ends no earlier than `b`, both upper bounds.
fn ends_behind(a: &Bound<KeyBuf>, b: &Bound<KeyBuf>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => true,
        (_, Bound::Unbounded) => false,
        (Bound::Excluded(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
    }
}

fn holds(outer: &Bounds, inner: &Bounds) -> bool {
    begins_before(&outer.0, &inner.0) && ends_behind(&outer.1, &inner.1)
}

/// Whether the key lies within the bounds.
pub(crate) fn within(key: &KeyBuf, (lower, upper): &Bounds) -> bool {
    let above = match lower {
        Bound::Unbounded => true,
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
    };
    above
        && match upper {
            Bound::Unbounded => true,
            Bound::Included(bound) => key <= bound,
            Bound::Excluded(bound) => key < bound,
        }
}

/// The bounds of an ordered set of keys, each with a number from `least` to `most`; none where they
/// exclude each other, which is no range to the set.
pub(crate) fn pairs_within<N: Copy + Ord>(
    (lower, upper): &Bounds,
    least: N,
    most: N,
) -> Option<PairBounds<N>> {
    let from = match lower {
        Bound::Included(key) => Bound::Included((key.clone(), least)),
        Bound::Excluded(key) => Bound::Excluded((key.clone(), most)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let to = match upper {
        Bound::Included(key) => Bound::Included((key.clone(), most)),
        Bound::Excluded(key) => Bound::Excluded((key.clone(), least)),
        Bound::Unbounded => Bound::Unbounded,
    };
    if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) = (&from, &to)
        && a >= b
    {
        return None;
    }
    Some((from, to))
}

impl RangeLocks {
    pub(crate) fn new(budget: &Arc<Budget>) -> RangeLocks {
        let claims = || CacheLine(Mutex::new(Claims { keys: BTreeSet::new(), counted: PIECE }));
        RangeLocks {
            count: CacheLine(AtomicUsize::new(0)),
            intervals: Mutex::default(),
            claims: std::array::from_fn(|_| claims()),
            readers: AtomicU64::new(0),
            gauge: Gauge::new(budget, size_of::<RangeLocks>()),
        }
    }

    /// Bytes of the lists.
    pub(crate) fn memory(&self) -> u64 {
        self.gauge.bytes()
    }

    /// A number that no other reader of this index has or had.
    pub(crate) fn reader(&self) -> u64 {
        self.readers.fetch_add(1, Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> &Mutex<Claims> {
        &self.claims[(hash >> 40) as usize % SHARDS]
    }

    /// Lists a key that the transaction `age` is about to bring; it holds the lock of the key.
    /// Appends the numbers of the readers, but for `mine`, in whose intervals it lies. False if it
    /// was listed already: then whoever came since has seen it.
    pub(crate) fn claim(
        &self,
        key: &KeyBuf,
        hash: u64,
        age: u64,
        mine: Option<u64>,
        found: &mut Vec<u64>,
    ) -> bool {
        let mut claims = self.shard(hash).lock();
        if !claims.keys.insert((key.clone(), age)) {
            return false;
        }
        let mut taken = KeyBuf::heap(key.as_slice().len());
        if claims.keys.len() > claims.counted {
            claims.counted += PIECE;
            taken += PIECE as i64 * CLAIM;
        }
        self.gauge.add(taken);
        drop(claims);
        // A reader that is not counted yet has not looked into the list, and will see the key.
        if self.count.load(Ordering::SeqCst) > 0 {
            let intervals = self.intervals.lock();
            let others = intervals.iter().filter(|i| Some(i.reader) != mine && within(key, &i.bounds));
            found.extend(others.map(|interval| interval.reader));
        }
        true
    }

    /// Takes a key off the list, before its lock is given back.
    pub(crate) fn unclaim(&self, key: KeyBuf, hash: u64, age: u64) {
        let mut claims = self.shard(hash).lock();
        let mut given = KeyBuf::heap(key.as_slice().len());
        let listed = claims.keys.remove(&(key, age));
        assert!(listed, "a key that is taken off the list of transaction {age} is in it");
        if claims.counted > PIECE && claims.keys.len() + 2 * PIECE <= claims.counted {
            claims.counted -= PIECE;
            given += PIECE as i64 * CLAIM;
        }
        self.gauge.add(-given);
    }

    /// Lists what a reader has read of the index and is about to read: `whole`, of which `fresh` is
    /// new. It holds the lock of its number. Appends the keys within `fresh` that others than the
    /// transaction `age` are about to bring. Returns whether that made one interval more.
    pub(crate) fn cover(
        &self,
        reader: u64,
        age: u64,
        whole: &Bounds,
        fresh: &Bounds,
        found: &mut Vec<KeyBuf>,
    ) -> bool {
        let mut intervals = self.intervals.lock();
        let mut mine = intervals.iter_mut().filter(|interval| interval.reader == reader);
        if mine.any(|interval| holds(&interval.bounds, whole)) {
            return false;
        }
        let mut mine = intervals.iter_mut().filter(|interval| interval.reader == reader);
        let grows = mine.find(|interval| holds(whole, &interval.bounds));
        let is_new = grows.is_none();
        match grows {
            Some(interval) => interval.bounds = whole.clone(),
            None => {
                intervals.push(Interval { reader, bounds: whole.clone() });
                self.count.store(intervals.len(), Ordering::SeqCst);
            }
        }
        drop(intervals);
        for claims in &self.claims {
            claims.lock().within(fresh, age, found);
        }
        is_new
    }

    /// Takes all intervals of a reader off the list, before the lock of its number is given back.
    pub(crate) fn uncover(&self, reader: u64) {
        let mut intervals = self.intervals.lock();
        intervals.retain(|interval| interval.reader != reader);
        self.count.store(intervals.len(), Ordering::SeqCst);
    }

    /// Keys and intervals listed now.
    pub(crate) fn len(&self) -> usize {
        self.intervals.lock().len() + self.claims.iter().map(|claims| claims.lock().keys.len()).sum::<usize>()
    }
}

impl Claims {
    /// Appends the keys within the bounds that others than the transaction `age` bring.
    fn within(&self, bounds: &Bounds, age: u64, found: &mut Vec<KeyBuf>) {
        if self.keys.is_empty() {
            return;
        }
        let Some(pairs) = pairs_within(bounds, 0, u64::MAX) else { return };
        let others = self.keys.range(pairs).filter(|(_, other)| *other != age);
        found.extend(others.map(|(key, _)| key.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> KeyBuf {
        KeyBuf::new(&[n])
    }

    fn bound(how: u8, n: u8) -> Bound<KeyBuf> {
        match how % 3 {
            0 => Bound::Included(key(n)),
            1 => Bound::Excluded(key(n)),
            _ => Bound::Unbounded,
        }
    }

    proptest! {
        /// Keys and intervals come and go; each sees exactly those of others that it meets.
        #[test]
        fn whoever_comes_second_sees_whom_it_meets(
            steps in proptest::collection::vec((0u8..4, 0u64..3, 0u8..20, 0u8..20, 0u8..9), 1..60),
        ) {
            let locks = RangeLocks::new(&Arc::default());
            let before = locks.memory();
            let mut keys: BTreeSet<(u8, u64)> = BTreeSet::new();
            let mut intervals: Vec<(u64, Bounds)> = Vec::new();
            for (step, who, a, b, how) in steps {
                match step {
                    0 => {
                        let mut found = Vec::new();
                        let is_new = locks.claim(&key(a), u64::from(a) << 40, who, Some(who), &mut found);
                        prop_assert_eq!(is_new, keys.insert((a, who)));
                        let meets = |i: &&(u64, Bounds)| i.0 != who && within(&key(a), &i.1);
                        let mut want: Vec<u64> = intervals.iter().filter(meets).map(|i| i.0).collect();
                        want.sort_unstable();
                        want.dedup();
                        found.sort_unstable();
                        found.dedup();
                        if is_new {
                            prop_assert_eq!(found, want);
                        }
                    }
                    1 => {
                        let bounds = (bound(how, a), bound(how / 3, b));
                        let mut found = Vec::new();
                        let is_covered = intervals.iter().any(|i| i.0 == who && holds(&i.1, &bounds));
                        locks.cover(who, who, &bounds, &bounds, &mut found);
                        let meets = |k: &&(u8, u64)| k.1 != who && within(&key(k.0), &bounds);
                        let want: BTreeSet<u8> = keys.iter().filter(meets).map(|k| k.0).collect();
                        let found: BTreeSet<u8> = found.iter().map(|k| k.as_slice()[0]).collect();
                        if !is_covered {
                            prop_assert_eq!(found, want);
                        }
                        intervals.push((who, bounds));
                    }
                    2 => {
                        locks.uncover(who);
                        intervals.retain(|i| i.0 != who);
                    }
                    _ => {
                        let mine: Vec<_> = keys.iter().filter(|k| k.1 == who).copied().collect();
                        for (k, who) in mine {
                            locks.unclaim(key(k), u64::from(k) << 40, who);
                            keys.remove(&(k, who));
                        }
                    }
                }
            }
            for (k, who) in keys {
                locks.unclaim(key(k), u64::from(k) << 40, who);
            }
            (0..3).for_each(|who| locks.uncover(who));
            prop_assert_eq!((locks.len(), locks.memory()), (0, before));
        }
    }

    /// Bounds that hold each other are found to, whatever lies within the inner lies within the
    /// outer.
    #[test]
    fn what_holds_an_interval_holds_its_keys() {
        let all: Vec<Bounds> = (0..9u8)
            .flat_map(|how| {
                (0..5u8).flat_map(move |a| (0..5u8).map(move |b| (bound(how, a), bound(how / 3, b))))
            })
            .collect();
        let mut pairs = 0;
        for outer in &all {
            for inner in all.iter().filter(|inner| holds(outer, inner)) {
                pairs += 1;
                assert!((0..6).map(key).all(|k| !within(&k, inner) || within(&k, outer)));
            }
        }
        assert!(pairs > 1000, "{pairs}");
    }

    /// A large transaction is counted as memory, and gives it back.
    #[test]
    fn many_keys_count_as_memory_until_they_go() {
        let locks = RangeLocks::new(&Arc::default());
        let before = locks.memory();
        let keys = || (0..10_000u32).map(|n| (KeyBuf::new(&n.to_be_bytes()), u64::from(n) << 40));
        keys().for_each(|(key, hash)| assert!(locks.claim(&key, hash, 1, None, &mut Vec::new())));
        let taken = locks.memory() - before;
        assert!((500_000..700_000).contains(&taken), "{taken}");
        keys().for_each(|(key, hash)| locks.unclaim(key, hash, 1));
        assert_eq!((locks.len(), locks.memory()), (0, before));
    }
}
