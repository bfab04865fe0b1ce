//! One part of a hash index: lines of words that say where rows are, and the keys beside them.
//!
//! A word has 25 bits of a key's hash and the place of its row. Seven of them and a counter are a
//! line of the caches, so a key is looked up with one wait for memory: its word, or that there is
//! none, is in the line that the hash leads to, or in the next ones if that was full when the key
//! came. The keys stand beside the lines, and are read only by who has to be certain: one in 2^25
//! words is that of another key. Who will read the row learns from that whose word it was.
//!
//! The counter says how many keys have gone past the line since it was full. Where it is zero a
//! look-up ends. So what is removed leaves no trace.

use crate::container::{MAX_CONTAINERS, Rid};
use crate::key::{KeyBuf, hash};
use crate::memory::block;
use crate::prefetch;
use std::collections::BTreeSet;

/// Words of a line.
const WORDS: usize = 7;
/// How many of them are in use on average before there are more lines.
const FULL: usize = 6;
/// Bits of a place in a word.
const PLACE: u32 = MAX_CONTAINERS.trailing_zeros() + u16::BITS;
/// Set in every word that is in use.
const USED: u64 = 1 << PLACE;
/// In the place of a place: the key has several. No container has so many slots.
const SEVERAL: u64 = USED - 1;
/// A table of so many keys does not get smaller.
const FEW: usize = 14;

/// The bits of a hash that a word has, where it has them. The shard has been chosen by 16 bits from
/// the 40th on, and the line is by the last ones.
#[inline]
pub(super) fn sign(h: u64) -> u64 {
    (h >> 15) << (PLACE + 1) | USED
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Line {
    words: [u64; WORDS],
    /// Keys whose line is this one, or one before it, and that are behind it.
    passed: u64,
}

impl Line {
    /// A bit for each word that has these bits of a hash. Without a branch for each, which would be
    /// foreseen wrongly once for each key.
    #[inline]
    fn of(&self, h: u64) -> u32 {
        let sign = sign(h);
        let is = |(n, word): (usize, &u64)| u32::from((word ^ sign) >> PLACE == 0) << n;
        self.words.iter().enumerate().map(is).fold(0, |all, bit| all | bit)
    }

    fn free(&self) -> Option<usize> {
        self.words.iter().position(|&word| word == 0)
    }
}

/// The key of a word; many rows of a non-unique index may have it.
#[derive(Debug)]
enum Owner {
    One(KeyBuf),
    Several(Box<Several>),
}

#[derive(Debug)]
struct Several {
    key: KeyBuf,
    rids: BTreeSet<Rid>,
}

impl Owner {
    const NOBODY: Owner = Owner::One(KeyBuf::EMPTY);

    fn key(&self) -> &KeyBuf {
        match self {
            Owner::One(key) => key,
            Owner::Several(all) => &all.key,
        }
    }
}

/// What a set of so many places takes, and its key. A tree's node holds 5 to 11 of them, 6 if they
/// came in rising order.
fn set_bytes(places: usize) -> i64 {
    let head = block(size_of::<Several>());
    let node = block(11 * size_of::<Rid>() + 16);
    let inner = block(11 * size_of::<Rid>() + 16 + 12 * size_of::<usize>());
    let leaves = if places <= 11 { 1 } else { (places as u64).div_ceil(6) };
    (head + leaves * node + leaves / 7 * inner) as i64
}

/// What so many lines and their keys take.
fn bytes_of(lines: usize) -> u64 {
    block(lines * size_of::<Line>()) + block(lines * WORDS * size_of::<Owner>())
}

/// How many keys so many lines hold.
fn capacity(lines: usize) -> usize {
    if lines == 1 { WORDS } else { lines * FULL }
}

/// Keys and where their rows are.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// None, or a power of two.
    lines: Box<[Line]>,
    /// Of each word.
    owners: Box<[Owner]>,
    keys: usize,
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The line that a look-up of this hash begins with; nothing if there are none.
    #[inline]
    fn home(&self, h: u64) -> Option<usize> {
        Some(h as usize & self.lines.len().checked_sub(1)?)
    }

    /// The line behind line `at`, if a look-up that began at `home` has to go on there.
    #[inline]
    fn next(&self, at: usize, home: usize) -> Option<usize> {
        if self.lines[at].passed == 0 {
            return None;
        }
        let next = (at + 1) & (self.lines.len() - 1);
        (next != home).then_some(next)
    }

    /// Where the word of this key is.
    #[inline]
    fn word_of(&self, key: &[u8], h: u64) -> Option<usize> {
        let home = self.home(h)?;
        let mut at = home;
        loop {
            let mut words = self.lines[at].of(h);
            while words != 0 {
                let place = at * WORDS + words.trailing_zeros() as usize;
                if self.owners[place].key().is(key) {
                    return Some(place);
                }
                words &= words - 1;
            }
            at = self.next(at, home)?;
        }
    }

    /// The word at a place.
    fn word(&self, place: usize) -> u64 {
        self.lines[place / WORDS].words[place % WORDS]
    }

    fn set_word(&mut self, place: usize, word: u64) {
        self.lines[place / WORDS].words[place % WORDS] = word;
    }

    fn first_of(&self, place: usize) -> Option<Rid> {
        match &self.owners[place] {
            Owner::One(_) => Some(Rid(self.word(place) & SEVERAL)),
            Owner::Several(all) => all.rids.first().copied(),
        }
    }

    /// Some row with this key.
    pub(super) fn find(&self, key: &[u8], h: u64) -> Option<Rid> {
        self.first_of(self.word_of(key, h)?)
    }

    /// Where a row is that may have a key of this hash; nowhere is certain. Another key's row is
    /// very unlikely.
    #[inline]
    pub(super) fn likely(&self, h: u64) -> Option<Rid> {
        let home = self.home(h)?;
        let mut at = home;
        loop {
            let line = &self.lines[at];
            let words = line.of(h);
            if words != 0 {
                let n = words.trailing_zeros() as usize;
                let place = line.words[n] & SEVERAL;
                return if place == SEVERAL { self.first_of(at * WORDS + n) } else { Some(Rid(place)) };
            }
            at = self.next(at, home)?;
        }
    }

    /// Begins to bring the key of the first word of this hash into the caches.
    #[inline]
    pub(super) fn prefetch_key(&self, h: u64) {
        let Some(at) = self.home(h) else { return };
        let words = self.lines[at].of(h);
        // The few that are behind their line are fetched when they are looked for.
        if words != 0 {
            prefetch::value(&self.owners[at * WORDS + words.trailing_zeros() as usize]);
        }
    }

    /// All rows with this key, in order of place.
    pub(super) fn find_all(&self, key: &[u8], h: u64, out: &mut Vec<Rid>) {
        let Some(place) = self.word_of(key, h) else { return };
        match &self.owners[place] {
            Owner::One(_) => out.extend(self.first_of(place)),
            Owner::Several(all) => out.extend(&all.rids),
        }
    }

    /// Whether the row at this place has this key.
    pub(super) fn leads_to(&self, key: &[u8], h: u64, rid: Rid) -> bool {
        let Some(place) = self.word_of(key, h) else { return false };
        match &self.owners[place] {
            Owner::One(_) => self.first_of(place) == Some(rid),
            Owner::Several(all) => all.rids.contains(&rid),
        }
    }

    /// Whether more than one row has this key.
    pub(super) fn has_several(&self, key: &[u8], h: u64) -> bool {
        let owner = self.word_of(key, h).map(|place| &self.owners[place]);
        matches!(owner, Some(Owner::Several(all)) if all.rids.len() > 1)
    }

    /// Bytes that adding this key would take now.
    pub(super) fn need(&self, key: &[u8], h: u64) -> u64 {
        match self.word_of(key, h).map(|place| &self.owners[place]) {
            None if self.keys < capacity(self.lines.len()) => KeyBuf::heap(key.len()) as u64,
            None => self.doubled() - bytes_of(self.lines.len()) + KeyBuf::heap(key.len()) as u64,
            Some(Owner::One(_)) => set_bytes(2) as u64,
            Some(Owner::Several(all)) => (set_bytes(all.rids.len() + 1) - set_bytes(all.rids.len())) as u64,
        }
    }

    /// Bytes once it has grown.
    fn doubled(&self) -> u64 {
        bytes_of((self.lines.len() * 2).max(1))
    }

    /// Gives it so many lines; the bytes that this took.
    fn resize(&mut self, lines: usize) -> i64 {
        assert!(lines.is_power_of_two() && self.keys <= capacity(lines), "{lines} lines hold the keys");
        let before = bytes_of(self.lines.len());
        let places = lines * WORDS;
        let old = std::mem::replace(&mut self.lines, vec![Line::default(); lines].into());
        let owners = std::iter::repeat_with(|| Owner::NOBODY).take(places).collect();
        let owners = std::mem::replace(&mut self.owners, owners);
        let words = old.iter().flat_map(|line| line.words);
        for (word, owner) in words.zip(owners).filter(|(word, _)| *word != 0) {
            let h = hash(owner.key().as_slice());
            self.put(h, word & SEVERAL, owner);
        }
        bytes_of(lines) as i64 - before as i64
    }

    /// Enters a key that is not there. There is room.
    fn put(&mut self, h: u64, place: u64, owner: Owner) {
        let last = self.lines.len() - 1;
        let mut at = h as usize & last;
        let n = loop {
            match self.lines[at].free() {
                Some(n) => break n,
                None => self.lines[at].passed += 1,
            }
            at = (at + 1) & last;
        };
        self.lines[at].words[n] = sign(h) | place;
        // Nobody's is to be forgotten and not dropped: to see that there is nothing to drop would
        // take reading it, a wait for memory.
        std::mem::forget(std::mem::replace(&mut self.owners[at * WORDS + n], owner));
    }

    /// Makes room for as many keys; the bytes that this took.
    pub(super) fn reserve(&mut self, keys: usize) -> i64 {
        let all = self.keys + keys;
        if all <= capacity(self.lines.len()) {
            return 0;
        }
        let lines = if all <= capacity(1) { 1 } else { all.div_ceil(FULL).next_power_of_two() };
        self.resize(lines)
    }

    /// Adds an entry; the bytes that this took.
    pub(super) fn add(&mut self, key: &[u8], h: u64, rid: Rid) -> i64 {
        let Some(place) = self.word_of(key, h) else { return self.add_new(KeyBuf::new(key), h, rid) };
        let before = self.first_of(place);
        match &mut self.owners[place] {
            // While an index is built, a row may come twice.
            Owner::One(_) if before == Some(rid) => 0,
            Owner::One(key) => {
                let key = std::mem::replace(key, KeyBuf::EMPTY);
                let rids = before.into_iter().chain([rid]).collect();
                self.owners[place] = Owner::Several(Box::new(Several { key, rids }));
                self.set_word(place, sign(h) | SEVERAL);
                set_bytes(2)
            }
            Owner::Several(all) => {
                let before = set_bytes(all.rids.len());
                all.rids.insert(rid);
                set_bytes(all.rids.len()) - before
            }
        }
    }

    /// Adds an entry of a key that is not there; the bytes that this took.
    pub(super) fn add_new(&mut self, key: KeyBuf, h: u64, rid: Rid) -> i64 {
        debug_assert!(rid.0 < SEVERAL, "{rid:?} is a place");
        let taken = self.reserve(1) + KeyBuf::heap(key.as_slice().len());
        self.put(h, rid.0, Owner::One(key));
        self.keys += 1;
        taken
    }

    /// Removes an entry, if it is there; the bytes that this took, which is none or less.
    pub(super) fn remove(&mut self, key: &[u8], h: u64, rid: Rid) -> i64 {
        let Some(place) = self.word_of(key, h) else { return 0 };
        let only = self.first_of(place);
        match &mut self.owners[place] {
            Owner::One(_) if only != Some(rid) => 0,
            Owner::One(_) => {
                self.take(place, h);
                self.shrink() - KeyBuf::heap(key.len())
            }
            Owner::Several(all) => {
                let before = set_bytes(all.rids.len());
                all.rids.remove(&rid);
                let left = all.rids.len();
                if left > 1 {
                    return set_bytes(left) - before;
                }
                let last = all.rids.first().copied();
                let key = std::mem::replace(&mut all.key, KeyBuf::EMPTY);
                self.owners[place] = Owner::One(key);
                self.set_word(place, sign(h) | last.map_or(0, |rid| rid.0));
                -before
            }
        }
    }

    /// Takes a word and its key out.
    fn take(&mut self, place: usize, h: u64) {
        let last = self.lines.len() - 1;
        let mut at = h as usize & last;
        while at != place / WORDS {
            self.lines[at].passed -= 1;
            at = (at + 1) & last;
        }
        self.set_word(place, 0);
        self.owners[place] = Owner::NOBODY;
        self.keys -= 1;
    }

    /// Halves a table that is less than three eighths full; the bytes that this took, which is none
    /// or less. What is left fills three quarters of the smaller table: it takes a quarter more or
    /// half less to make it change again. Waiting for less to be left would let chance double more
    /// and more shards while the number of keys stays.
    fn shrink(&mut self) -> i64 {
        let places = capacity(self.lines.len());
        if places <= FEW || self.keys * 8 >= places * 3 { 0 } else { self.resize(self.lines.len() / 2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Keys of two lengths, among them some that are alike, whichever line they are in.
    fn keys() -> Vec<Vec<u8>> {
        let mut seen = BTreeMap::new();
        let all = (60..12_000u64).map(|n| n.to_be_bytes().to_vec());
        let alike = |h: u64| (h >> 24) & 0xff_ffff;
        let pairs = all.filter_map(|key| seen.insert(alike(hash(&key)), key.clone()).map(|k| [k, key]));
        let long = (0..20u8).map(|n| vec![n; 30]);
        let others = (0..60u64).map(|n| n.to_be_bytes().to_vec());
        pairs.take(4).flatten().chain(others).chain(long).collect()
    }

    fn check(shard: &Shard, model: &BTreeMap<usize, BTreeSet<u64>>, keys: &[Vec<u8>], taken: i64) {
        assert_eq!(shard.len(), model.len());
        let sets =
            model.values().filter(|rids| rids.len() > 1).map(|rids| set_bytes(rids.len())).sum::<i64>();
        let heaps = model.keys().map(|&n| KeyBuf::heap(keys[n].len())).sum::<i64>();
        assert_eq!(taken, bytes_of(shard.lines.len()) as i64 + sets + heaps, "bytes that were counted");
        for (n, key) in keys.iter().enumerate() {
            let h = hash(key);
            let mut found = Vec::new();
            shard.find_all(key, h, &mut found);
            let want: Vec<Rid> = model.get(&n).into_iter().flatten().map(|rid| Rid(*rid)).collect();
            assert_eq!((&found, shard.find(key, h)), (&want, want.first().copied()), "{key:?}");
            let leads: Vec<Rid> = (0..4).map(Rid).filter(|rid| shard.leads_to(key, h, *rid)).collect();
            assert_eq!((leads, shard.has_several(key, h)), (want.clone(), want.len() > 1), "{key:?}");
            // Nowhere is certain.
            assert!(want.is_empty() || shard.likely(h).is_some(), "{key:?}");
        }
        if model.is_empty() {
            assert!(shard.lines.iter().all(|line| line.passed == 0), "what was removed leaves no trace");
        }
    }

    proptest! {
        #[test]
        fn it_has_what_a_map_of_sets_has(
            changes in proptest::collection::vec((any::<bool>(), 0usize..88, 0u64..4), 0..600),
        ) {
            let keys = keys();
            let (mut shard, mut model, mut taken) = (Shard::default(), BTreeMap::new(), 0);
            for (n, (comes, key, rid)) in changes.into_iter().enumerate() {
                let (bytes, h) = (&keys[key % keys.len()], hash(&keys[key % keys.len()]));
                let rids: &mut BTreeSet<u64> = model.entry(key % keys.len()).or_default();
                if comes {
                    let need = shard.need(bytes, h) as i64;
                    let new = rids.insert(rid);
                    let took = shard.add(bytes, h, Rid(rid));
                    prop_assert!(took <= need, "{took} of {need}");
                    prop_assert!(new || took == 0);
                    taken += took;
                } else {
                    rids.remove(&rid);
                    taken += shard.remove(bytes, h, Rid(rid));
                }
                model.retain(|_, rids| !rids.is_empty());
                if n % 20 == 0 {
                    check(&shard, &model, &keys, taken);
                }
            }
            for (key, rids) in std::mem::take(&mut model) {
                rids.iter().for_each(|rid| taken += shard.remove(&keys[key], hash(&keys[key]), Rid(*rid)));
            }
            check(&shard, &model, &keys, taken);
        }
    }

    /// Two keys whose words are the same: only the keys themselves tell them apart.
    #[test]
    fn keys_with_the_same_word_are_two() {
        let mut seen = BTreeMap::new();
        let all = (0..).map(|n: u64| n.to_be_bytes());
        let mut pairs = all.filter_map(|key| seen.insert(sign(hash(&key)), key).map(|first| [first, key]));
        let [a, b] = pairs.next().unwrap();
        let mut shard = Shard::default();
        shard.add(&a, hash(&a), Rid(1));
        assert_eq!((shard.likely(hash(&b)), shard.find(&b, hash(&b))), (Some(Rid(1)), None));
        shard.add(&b, hash(&b), Rid(2));
        let found = |shard: &Shard| [&a, &b].map(|key| shard.find(key, hash(key)));
        assert_eq!(found(&shard), [Some(Rid(1)), Some(Rid(2))]);
        shard.remove(&a, hash(&a), Rid(1));
        assert_eq!(found(&shard), [None, Some(Rid(2))]);
        assert_eq!(shard.likely(hash(&a)), Some(Rid(2)));
    }

    /// Keys that want to be in a full line go on to the next ones, and are found there.
    #[test]
    fn full_lines_are_passed_and_forget_who_passed_them() {
        let mut shard = Shard::default();
        shard.reserve(40);
        let lines = shard.lines.len() as u64;
        // All of them begin at the last line.
        let home = |key: &[u8; 8]| hash(key) % lines == lines - 1;
        let keys: Vec<_> = (0..).map(|n: u64| n.to_be_bytes()).filter(home).take(30).collect();
        for (n, key) in keys.iter().enumerate() {
            shard.add(key, hash(key), Rid(n as u64));
        }
        assert_eq!(shard.lines.last().map(|line| line.passed), Some(30 - WORDS as u64));
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(shard.find(key, hash(key)), Some(Rid(n as u64)));
        }
        for (n, key) in keys.iter().enumerate().take(29) {
            shard.remove(key, hash(key), Rid(n as u64));
            let left = keys.iter().enumerate().skip(n + 1);
            left.for_each(|(n, key)| assert_eq!(shard.find(key, hash(key)), Some(Rid(n as u64))));
        }
    }

    #[test]
    fn a_key_is_as_large_as_it_was_without_a_set() {
        assert_eq!((size_of::<Owner>(), size_of::<Line>()), (24, 64));
    }
}
