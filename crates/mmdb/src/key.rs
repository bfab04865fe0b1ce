//! Encoded keys, up to 22 bytes without an allocation.

use crate::memory::block;
use foldhash::fast::FixedState;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};

const INLINE: usize = 22;

/// An encoded key as an index keeps it.
#[derive(Debug, Clone)]
pub(crate) enum KeyBuf {
    Inline(u8, [u8; INLINE]),
    Heap(Box<[u8]>),
}

impl KeyBuf {
    /// The key of no bytes.
    pub(crate) const EMPTY: KeyBuf = KeyBuf::Inline(0, [0; INLINE]);

    pub(crate) fn new(b: &[u8]) -> KeyBuf {
        if b.len() <= INLINE {
            let mut a = [0; INLINE];
            a[..b.len()].copy_from_slice(b);
            KeyBuf::Inline(b.len() as u8, a)
        } else {
            KeyBuf::Heap(b.into())
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            KeyBuf::Inline(n, a) => &a[..usize::from(*n).min(INLINE)],
            KeyBuf::Heap(b) => b,
        }
    }

    /// Bytes that a key of `len` bytes takes beside the entry that holds it.
    pub(crate) fn heap(len: usize) -> i64 {
        if len <= INLINE { 0 } else { block(len) as i64 }
    }

    /// Whether it is the key of these bytes. Keys are short, and their lengths differ seldom within
    /// an index: comparing words spares the call that comparing slices is.
    #[inline]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        match self {
            KeyBuf::Inline(n, a) => usize::from(*n) == key.len() && words_equal(a, key),
            KeyBuf::Heap(b) => **b == *key,
        }
    }

    /// The least key above every key that begins with this one; `None` if there is none.
    pub(crate) fn successor(mut self) -> Option<KeyBuf> {
        let last = self.as_slice().iter().rposition(|&b| b != 0xff)?;
        match &mut self {
            KeyBuf::Inline(n, a) => {
                a[last] += 1;
                a[last + 1..].fill(0);
                *n = last as u8 + 1;
            }
            KeyBuf::Heap(b) => {
                b[last] += 1;
                return Some(KeyBuf::new(&b[..=last]));
            }
        }
        Some(self)
    }
}

/// Whether the inline key that begins `a` is `key`, which has its length.
#[inline]
fn words_equal(a: &[u8; INLINE], key: &[u8]) -> bool {
    let (words, rest) = key.as_chunks::<8>();
    let (mine, mine_rest) = a[..key.len()].as_chunks::<8>();
    let mut pairs = words.iter().zip(mine).map(|(x, y)| (u64::from_ne_bytes(*x), u64::from_ne_bytes(*y)));
    pairs.all(|(x, y)| x == y) && rest.iter().zip(mine_rest).all(|(x, y)| x == y)
}

impl PartialEq for KeyBuf {
    fn eq(&self, o: &KeyBuf) -> bool {
        self.as_slice() == o.as_slice()
    }
}

impl Eq for KeyBuf {}

impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, o: &KeyBuf) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for KeyBuf {
    /// The order of the slices. Two short keys are compared as numbers, without a call: searching
    /// an ordered index is little else.
    #[inline]
    fn cmp(&self, o: &KeyBuf) -> Ordering {
        match (self, o) {
            // Zeros fill up a shorter key; where that makes two equal, the shorter one is a prefix
            // of the other.
            (KeyBuf::Inline(n, a), KeyBuf::Inline(m, b)) => words(a).cmp(&words(b)).then_with(|| n.cmp(m)),
            _ => self.as_slice().cmp(o.as_slice()),
        }
    }
}

/// An inline key as big-endian numbers; the last one repeats two bytes of the second, which changes
/// no order.
#[inline]
fn words(a: &[u8; INLINE]) -> [u64; 3] {
    [0, 8, INLINE - 8].map(|at| match a[at..at + 8].try_into() {
        Ok(word) => u64::from_be_bytes(word),
        Err(_) => 0,
    })
}

/// Lets maps of keys be searched with plain slices; the orders agree.
impl std::borrow::Borrow<[u8]> for KeyBuf {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

/// The hash of an encoded key; shards, hash tables and lock names all use this one.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    // A fixed seed: keys come from the program that embeds us, and the same hash makes runs
    // repeatable.
    let mut h = FixedState::with_seed(0x6d6d_6462).build_hasher();
    h.write(key);
    h.finish()
}

/// Mixes two numbers into a lock name.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let m = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    (m as u64) ^ ((m >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_ordered_as_their_bytes(
            a in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..30),
            b in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..30),
            shared in 0usize..30,
        ) {
            let mut b = b;
            let n = shared.min(a.len()).min(b.len());
            b[..n].copy_from_slice(&a[..n]);
            prop_assert_eq!(KeyBuf::new(&a).cmp(&KeyBuf::new(&b)), a.cmp(&b));
            prop_assert_eq!(KeyBuf::new(&a).is(&b), a == b);
            // What lies between a key and its successor begins with the key.
            let above = KeyBuf::new(&a).successor().is_none_or(|above| KeyBuf::new(&b) < above);
            prop_assert_eq!(b.starts_with(&a), b >= a && above);
        }
    }
}
