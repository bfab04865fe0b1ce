//! A list that only grows and is read without a lock.

use crate::memory::block;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places of items; none of what is not filled.
type Bucket<T> = Box<[OnceLock<Box<T>>]>;

/// Buckets of doubling size: an item never moves, so a reference to it stays good while the list
/// lives. Each item is a piece of memory of its own, so the places are close together: where there
/// are many items, finding one costs less when the caches hold all places.
#[derive(Debug)]
pub(crate) struct AppendList<T> {
    buckets: [OnceLock<Bucket<T>>; 29],
    len: AtomicU32,
    items: AtomicU32,
}

/// The first bucket has this many places, a power of two.
const FIRST: u32 = 8;

fn place(i: u32) -> (usize, usize) {
    let n = u64::from(i) + u64::from(FIRST);
    let bucket = 63 - n.leading_zeros() - FIRST.trailing_zeros();
    (bucket as usize, (n - (u64::from(FIRST) << bucket)) as usize)
}

impl<T> AppendList<T> {
    pub(crate) fn new() -> Self {
        AppendList {
            buckets: [const { OnceLock::new() }; 29],
            len: AtomicU32::new(0),
            items: AtomicU32::new(0),
        }
    }

    /// One past the highest number present.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn get(&self, i: u32) -> Option<&T> {
        let (b, k) = place(i);
        self.buckets.get(b)?.get()?.get(k)?.get().map(|item| &**item)
    }

    /// Puts an item at number `i`. False, and nothing changes, if the number is used or out of
    /// range.
    pub(crate) fn put(&self, i: u32, item: T) -> bool {
        let (b, k) = place(i);
        let Some(bucket) = self.buckets.get(b) else { return false };
        let bucket = bucket.get_or_init(|| (0..FIRST << b).map(|_| OnceLock::new()).collect());
        let done = bucket[k].set(Box::new(item)).is_ok();
        self.items.fetch_add(u32::from(done), Ordering::Relaxed);
        self.len.fetch_max(i.saturating_add(1), Ordering::AcqRel);
        done
    }

    /// Bytes of the items, and of the places, used or not.
    pub(crate) fn memory(&self) -> u64 {
        let made = self.buckets.iter().filter_map(OnceLock::get);
        let places = made.map(|bucket| block(size_of_val(&**bucket))).sum::<u64>();
        places + u64::from(self.items.load(Ordering::Relaxed)) * block(size_of::<T>())
    }

    /// The items present, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.len()).filter_map(|i| self.get(i).map(|c| (i, c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_unique() {
        let mut want = (0, 0);
        for i in 0..100_000 {
            assert_eq!(place(i), want);
            want.1 += 1;
            if want.1 == (FIRST as usize) << want.0 {
                want = (want.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX).0 < 30);
    }

    #[test]
    fn an_item_is_put_once() {
        let l = AppendList::new();
        assert!(l.put(3, "a"));
        assert!(!l.put(3, "b"));
        assert_eq!((l.get(3), l.get(2), l.len()), (Some(&"a"), None, 4));
        let one = l.memory();
        assert!(l.put(0, "c"));
        assert_eq!(l.memory(), one + block(size_of::<&str>()));
    }
}
