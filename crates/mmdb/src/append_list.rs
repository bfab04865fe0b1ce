//! A list that only grows and is read without a lock.

use crate::memory::block;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places of items; none of what is not filled.
type Places<T> = Box<[OnceLock<Box<T>>]>;

/// Pages of places; none of what nothing was put into.
type Pages<T> = Box<[OnceLock<Places<T>>]>;

/// Buckets of doubling size: an item never moves, so a reference to it stays good while the list
/// lives. Each item is a piece of memory of its own, so the places are close together: where there
/// are many items, finding one costs less when the caches hold all places.
///
/// A large bucket is made page by page: of a forged store one item may have any number, and the
/// places of all before it, in each of a thousand tables, would be all memory.
#[derive(Debug)]
pub(crate) struct AppendList<T> {
    buckets: [OnceLock<Places<T>>; PAGED],
    /// The buckets behind these.
    large: [OnceLock<Pages<T>>; 29 - PAGED],
    len: AtomicU32,
    items: AtomicU32,
}

/// The first bucket has this many places, a power of two.
const FIRST: u32 = 8;

/// The first bucket of pages, of which it has one.
const PAGED: usize = 10;

/// Places of a page.
const PAGE: usize = (FIRST as usize) << PAGED;

fn place(i: u32) -> (usize, usize) {
    let n = u64::from(i) + u64::from(FIRST);
    let bucket = 63 - n.leading_zeros() - FIRST.trailing_zeros();
    (bucket as usize, (n - (u64::from(FIRST) << bucket)) as usize)
}

/// The number of a bucket's first place.
fn first_of(bucket: usize) -> u32 {
    (FIRST << bucket) - FIRST
}

fn places<T>(n: usize) -> Places<T> {
    (0..n).map(|_| OnceLock::new()).collect()
}

impl<T> AppendList<T> {
    pub(crate) fn new() -> Self {
        AppendList {
            buckets: [const { OnceLock::new() }; PAGED],
            large: [const { OnceLock::new() }; 29 - PAGED],
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
        let (places, k) = match self.buckets.get(b) {
            Some(bucket) => (bucket.get()?, k),
            None => (self.large.get(b - PAGED)?.get()?.get(k / PAGE)?.get()?, k % PAGE),
        };
        places.get(k)?.get().map(|item| &**item)
    }

    /// Puts an item at number `i`. False, and nothing changes, if the number is used or out of
    /// range.
    pub(crate) fn put(&self, i: u32, item: T) -> bool {
        let (b, k) = place(i);
        let (places, k) = match self.buckets.get(b) {
            Some(bucket) => (bucket.get_or_init(|| places((FIRST as usize) << b)), k),
            None => {
                let Some(bucket) = self.large.get(b - PAGED) else { return false };
                let pages = 1 << (b - PAGED);
                let bucket = bucket.get_or_init(|| (0..pages).map(|_| OnceLock::new()).collect());
                (bucket[k / PAGE].get_or_init(|| places(PAGE)), k % PAGE)
            }
        };
        let done = places[k].set(Box::new(item)).is_ok();
        self.items.fetch_add(u32::from(done), Ordering::Relaxed);
        self.len.fetch_max(i.saturating_add(1), Ordering::AcqRel);
        done
    }

    /// Bytes of the items, and of the places, used or not.
    pub(crate) fn memory(&self) -> u64 {
        let pages = self.large.iter().filter_map(OnceLock::get);
        let pages = pages.map(|pages| block(size_of_val(&**pages))).sum::<u64>();
        let places = self.made().map(|(_, places)| block(size_of_val(places))).sum::<u64>();
        pages + places + u64::from(self.items.load(Ordering::Relaxed)) * block(size_of::<T>())
    }

    /// The places that were made, each with the number of its first.
    fn made(&self) -> impl Iterator<Item = (u32, &[OnceLock<Box<T>>])> {
        let small = self.buckets.iter().enumerate();
        let small = small.filter_map(|(b, places)| places.get().map(|places| (first_of(b), &**places)));
        let large = self.large.iter().enumerate().filter_map(|(b, pages)| Some((b + PAGED, pages.get()?)));
        let pages = large.flat_map(|(b, pages)| {
            let first = move |page: usize| first_of(b) + (page * PAGE) as u32;
            let pages = pages.iter().enumerate();
            pages.filter_map(move |(page, places)| places.get().map(|places| (first(page), &**places)))
        });
        small.chain(pages)
    }

    /// The items present, with their numbers, which rise.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let len = self.len();
        let all = self.made().flat_map(|(first, places)| {
            let items = places.iter().enumerate();
            items.filter_map(move |(k, item)| item.get().map(|item| (first + k as u32, &**item)))
        });
        all.take_while(move |(number, _)| *number < len)
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

    #[test]
    fn a_number_costs_no_places_of_those_before_it() {
        let l = AppendList::new();
        let numbers = [0, 7, 8, 8183, 8184, 16_375, 16_376, 24_567, 24_568, (1 << 22) - 1];
        for n in numbers {
            assert!(l.put(n, n) && !l.put(n, 1), "{n}");
            assert_eq!(l.get(n), Some(&n));
        }
        assert_eq!(l.iter().map(|(n, item)| (n, *item)).collect::<Vec<_>>(), numbers.map(|n| (n, n)));
        assert!(l.get(9).is_none() && l.get(1 << 21).is_none() && l.get(u32::MAX).is_none());
        assert_eq!(l.len(), 1 << 22);
        assert!(l.memory() < 1 << 20, "{} bytes", l.memory());
    }
}
