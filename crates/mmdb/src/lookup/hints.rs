//! Where rows were found by their primary keys, for whoever reads them again.
//!
//! A read asks the index where its row is: a group of the hash table and an entry, two waits for
//! memory in a table that is larger than the caches, or a walk down a tree. Here one word says
//! where the row of a key was when it was last read: a part of the key's hash, and the place. So
//! most reads wait for one line, which holds eight of these words, and then for their row.
//!
//! Nothing of it is believed. Rows go, and others come to their places, without a look at this;
//! whoever follows a word looks under the latch of the container whether the row that is there has
//! the key, and asks the index if not. So words are read and written in any order, by anybody,
//! without a lock; and a table that nobody reads so has none.

use crate::cache_line::CacheLine;
use crate::container::{MAX_CONTAINERS, Rid};
use crate::large_pages;
use crate::memory::{Budget, Gauge, block};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed};
use std::sync::{Arc, OnceLock};

/// Words of a cache line.
const LINE: usize = 8;
/// Bits of a place in a word; the rest are those of the hash.
const PLACE: u32 = MAX_CONTAINERS.trailing_zeros() + u16::BITS;
/// Tables of fewer rows are in the caches whatever way they are read. Those of tests are to have
/// words.
const FEW_ROWS: u64 = if cfg!(debug_assertions) { 2 } else { 1000 };
/// Powers of two that the number of lines can be: a table has no more than 2^33 rows.
const SIZES: usize = 32;
/// So often a read has to ask an index before it is looked whether there are enough words.
const PATIENCE: u64 = if cfg!(debug_assertions) { 2 } else { 1000 };

/// The words of one table.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Of `LINE << n` words at position `n`. A table that has grown gets more, and those before stay
    /// with it, for somebody may be reading them: no more than a third of what it has.
    words: [OnceLock<Words>; SIZES],
    /// One more than the position of those in use; 0 while there are none.
    current: AtomicUsize,
    /// Reads that had to ask the index.
    asked: CacheLine<AtomicU64>,
    is_growing: AtomicBool,
    gauge: Gauge,
}

#[derive(Debug)]
struct Words {
    words: Box<[AtomicU64]>,
    /// The first one that begins a cache line.
    start: usize,
}

impl Words {
    /// `None` without memory.
    fn new(lines: usize) -> Option<Words> {
        let words = zeroed((lines + 1) * LINE)?;
        let start = words.as_ptr().addr().wrapping_neg() / size_of::<AtomicU64>() % LINE;
        Some(Words { words, start })
    }

    /// The words that a key of this hash may be in.
    #[inline]
    fn line(&self, hash: u64) -> &[AtomicU64] {
        let lines = self.words.len() / LINE - 1;
        let at = self.start + (hash as usize & (lines - 1)) * LINE;
        &self.words[at..at + LINE]
    }
}

/// Words of zero, which take memory as they are written to, on large pages if there are many: they
/// are read in no order, each on a page of its own.
fn zeroed(words: usize) -> Option<Box<[AtomicU64]>> {
    let layout = Layout::array::<AtomicU64>(words).ok()?;
    assert!(layout.size() > 0, "there is a line at least");
    // SAFETY: it has a size.
    let first = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    if first.is_null() {
        return None;
    }
    large_pages::advise(first.cast(), layout.size());
    // SAFETY: so many words were allocated as a box does, and zero is a value of an atomic number.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, words)) })
}

/// Lines for so many rows: 2.7 to 5.3 for each, so that seldom more than eight want to be in one.
fn lines_for(rows: u64) -> usize {
    (rows as usize / 16 * 3).next_power_of_two()
}

impl Hints {
    pub(crate) fn new(budget: &Arc<Budget>) -> Hints {
        Hints {
            words: [const { OnceLock::new() }; SIZES],
            current: AtomicUsize::new(0),
            asked: CacheLine::default(),
            is_growing: AtomicBool::new(false),
            gauge: Gauge::new(budget, 0),
        }
    }

    #[inline]
    fn words(&self) -> Option<&Words> {
        self.words.get(self.current.load(Ordering::Acquire).wrapping_sub(1))?.get()
    }

    /// Where the row with a key of this hash may be.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<Rid> {
        let mut found = 0;
        // Without a branch for each word, which would be foreseen wrongly once for each key.
        for word in self.words()?.line(hash) {
            let word = word.load(Ordering::Relaxed);
            if (word ^ hash) >> PLACE == 0 && word != 0 {
                found = word;
            }
        }
        (found != 0).then_some(Rid(found & ((1 << PLACE) - 1)))
    }

    /// The index has said that a row with a key of this hash is there, and it was.
    pub(crate) fn note(&self, hash: u64, rid: Rid) {
        let Some(words) = self.words() else { return };
        debug_assert!(rid.0 >> PLACE == 0, "{rid:?} is no place");
        let word = hash >> PLACE << PLACE | rid.0;
        let line = words.line(hash);
        let is_free = |there: u64| there == 0 || (there ^ hash) >> PLACE == 0;
        // If all are taken, one has to go.
        let place = line.iter().find(|there| is_free(there.load(Ordering::Relaxed)));
        let place = place.unwrap_or(&line[(hash >> PLACE) as usize % LINE]);
        place.store(word, Ordering::Relaxed);
    }

    /// A read had to ask the index: whether it should now be looked if there are enough words.
    #[inline]
    pub(crate) fn has_asked(&self) -> bool {
        // Who counts at the same time may be left out.
        let asked = self.asked.load(Ordering::Relaxed) + 1;
        self.asked.store(asked, Ordering::Relaxed);
        asked.is_multiple_of(PATIENCE)
    }

    /// Gets more words if there are few for a table of so many rows, unless it `lacks` the memory.
    #[cold]
    pub(crate) fn grow(&self, rows: u64, lacks: impl FnOnce(u64) -> bool) {
        let lines = lines_for(rows);
        let have = self.words().map_or(0, |words| words.words.len() / LINE - 1);
        let bytes = block((lines + 1) * LINE * size_of::<u64>());
        if rows < FEW_ROWS || lines < 4 * have.max(1) || lacks(bytes) {
            return;
        }
        if self.is_growing.swap(true, Ordering::Acquire) {
            return;
        }
        let at = lines.trailing_zeros() as usize % SIZES;
        if let Some(words) = Words::new(lines)
            && self.words[at].set(words).is_ok()
        {
            self.gauge.add(bytes as i64);
            self.current.store(at + 1, Ordering::Release);
        }
        self.is_growing.store(false, Ordering::Release);
    }

    /// Bytes of all words.
    pub(crate) fn memory(&self) -> u64 {
        self.gauge.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash;

    fn of(n: u64) -> (u64, Rid) {
        (hash(&n.to_be_bytes()), Rid::new((n / 300) as u32, (n % 300) as u16))
    }

    #[test]
    fn most_rows_are_found_again_and_none_elsewhere() {
        let hints = Hints::new(&Arc::default());
        const ROWS: u64 = 20_000;
        hints.note(of(1).0, of(1).1);
        assert_eq!((hints.find(of(1).0), hints.memory()), (None, 0), "there are no words yet");
        hints.grow(ROWS, |_| true);
        assert_eq!(hints.memory(), 0, "there was no memory");
        hints.grow(ROWS, |_| false);
        (0..ROWS).map(of).for_each(|(hash, rid)| hints.note(hash, rid));
        let found = (0..ROWS).map(of).filter(|(hash, rid)| hints.find(*hash) == Some(*rid)).count();
        assert!(found as u64 > ROWS * 95 / 100, "{found}");
        let wrong = (ROWS..2 * ROWS).map(of).filter_map(|(hash, _)| hints.find(hash)).count();
        assert!(wrong < 3, "{wrong} keys that were never noted");
        let moved = Rid::new(7, 7);
        hints.note(of(5).0, moved);
        assert_eq!(hints.find(of(5).0), Some(moved), "the last place counts");
    }

    #[test]
    fn words_are_for_four_times_the_rows_or_more_when_they_come() {
        let hints = Hints::new(&Arc::default());
        let mut before = 0;
        for rows in (0..200_000).step_by(500) {
            hints.grow(rows, |_| false);
            let now = hints.memory();
            assert!(now == before || (now >= 4 * before && rows >= FEW_ROWS), "{before}, {now} for {rows}");
            assert!(rows < FEW_ROWS || (4..60).contains(&(now / rows)), "{now} bytes for {rows} rows");
            before = now;
        }
        assert!(before > 0);
        hints.grow(10, |_| false);
        assert_eq!(hints.memory(), before, "they stay");
    }

    #[test]
    fn it_is_looked_now_and_then_for_whether_there_are_enough() {
        let hints = Hints::new(&Arc::default());
        assert_eq!((0..10 * PATIENCE).filter(|_| hints.has_asked()).count(), 10);
    }
}
