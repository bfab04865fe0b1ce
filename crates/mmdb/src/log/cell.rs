//! Where those sleep who wait for a batch.

use super::wakers::wake;
use crate::cache_line::CacheLine;
use crate::interruption;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Futex, Mutex};
use std::task::Waker;

/// Cells of a stream. Batches that are this far apart share one; then some of the woken find that
/// they were not meant. Two in unit tests, where that shall happen often.
const CELLS: usize = if cfg!(test) { 2 } else { 64 };

/// A stream's cells, by the number of the batch. They belong to the stream and not to the tickets:
/// a count of references was written by every commit and by every ticket dropped, mostly on
/// different processors, and cost 6 % of a commit.
pub(crate) struct Cells(Box<[CacheLine<Cell>]>);

impl Cells {
    pub(crate) fn new() -> Cells {
        Cells((0..CELLS).map(|_| CacheLine(Cell::new())).collect())
    }

    pub(crate) fn of(&self, batch: u32) -> &Cell {
        &self.0[batch as usize % CELLS]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Cell> {
        self.0.iter().map(|c| &**c)
    }
}

/// A futex word for threads, wakers for futures; one wake per flush serves them all. What they wait
/// for is not kept here: everybody looks for himself, before sleeping and after.
///
/// Why nobody sleeps through: the waker makes the news visible, takes `sleepers`, changes the word
/// and wakes if there were any. The sleeper reads the word, sets `sleepers`, looks for the news,
/// and sleeps only on the word that he read. If he misses the news, he had set `sleepers` before
/// the waker took it, so he is woken or finds the word changed. Taking `sleepers` comes before
/// changing the word, so whoever reads the new word and finds `sleepers` set knows that it is set
/// for the next waker. All of it is sequentially consistent.
pub(crate) struct Cell {
    word: Futex,
    sleepers: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Cell {
    fn new() -> Cell {
        Cell { word: Futex::new(0), sleepers: AtomicBool::new(false), wakers: Mutex::new(Vec::new()) }
    }

    /// Wakes everybody, after the news.
    pub(crate) fn resolve(&self) {
        let mut wakers = Vec::new();
        self.wake_threads(&mut wakers);
        wake(wakers);
    }

    /// Wakes all threads, after the news, and takes the wakers of futures, which are to be woken
    /// next. Returns how many threads slept.
    pub(crate) fn wake_threads(&self, wakers: &mut Vec<Waker>) -> u64 {
        let any = self.sleepers.swap(false, Ordering::SeqCst);
        self.word.bump();
        let woken = if any { self.word.wake_all() } else { 0 };
        wakers.append(&mut self.wakers.lock());
        woken
    }

    /// Whether anybody may wait here. Who comes later looks for the news, which is out by then.
    pub(crate) fn has_waiters(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) || !self.wakers.lock().is_empty()
    }

    /// Sleeps until the next [`Cell::resolve`], or not at all if there is `news`. May return for no
    /// reason.
    pub(crate) fn wait_unless(&self, news: impl FnOnce() -> bool) {
        let word = self.word.load(Ordering::SeqCst);
        // Setting it again would take the line from all others who are about to sleep.
        if !self.sleepers.load(Ordering::SeqCst) {
            self.sleepers.store(true, Ordering::SeqCst);
        }
        if !news() {
            self.word.wait(word, interruption::is_heard().then_some(interruption::LOOK));
        }
    }

    /// Has `w` woken by the next [`Cell::resolve`]. False, and nothing done, if there is `news`.
    pub(crate) fn register_unless(&self, news: impl FnOnce() -> bool, w: &Waker) -> bool {
        // Copied before the lock is taken, and dropped behind it: both are the caller's code.
        let mut mine = Some(w.clone());
        let mut wakers = self.wakers.lock();
        if news() {
            return false;
        }
        if !wakers.iter().any(|x| x.will_wake(w)) {
            wakers.extend(mine.take());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU64;
    use crate::sync::{self, thread};
    use std::sync::Arc;
    use std::task::{Context, Wake};

    /// Waiters for different news at one cell, two wakers: a sleeper who is forgotten is a deadlock
    /// to the scheduler.
    #[test]
    fn nobody_sleeps_through_the_news() {
        for seed in 0..4 {
            sync::explore(seed, 4000, || {
                let shared = Arc::new((Cell::new(), AtomicU64::new(0)));
                let waiters: Vec<_> = (1..=3)
                    .map(|target| {
                        let shared = shared.clone();
                        thread::spawn(move || {
                            let there = || shared.1.load(Ordering::SeqCst) >= target;
                            while !there() {
                                shared.0.wait_unless(there);
                            }
                        })
                    })
                    .collect();
                let wakers: Vec<_> = [2, 1]
                    .map(|news| {
                        let shared = shared.clone();
                        thread::spawn(move || {
                            for _ in 0..news {
                                shared.1.fetch_add(1, Ordering::SeqCst);
                                shared.0.resolve();
                            }
                        })
                    })
                    .into();
                waiters.into_iter().chain(wakers).for_each(|t| t.join().unwrap());
            });
        }
    }

    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker's own defect");
        }
    }

    /// A waker that panicked used to take the flush along, and all who were to be woken behind it.
    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        let count = Arc::new(Count(AtomicU64::new(0)));
        let cell = Cell::new();
        for waker in [count.clone().into(), Arc::new(Panics).into(), Waker::from(count.clone())] {
            assert!(cell.register_unless(|| false, &waker));
        }
        let other = Arc::new(Count(AtomicU64::new(0)));
        assert!(cell.register_unless(|| false, &other.clone().into()));
        cell.resolve();
        assert_eq!((count.0.load(Ordering::SeqCst), other.0.load(Ordering::SeqCst)), (1, 1));
    }

    #[test]
    fn a_waker_is_woken_once_for_each_time_it_registers() {
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = count.clone().into();
        let context = Context::from_waker(&waker);
        let cell = Cell::new();
        assert!(cell.register_unless(|| false, context.waker()));
        assert!(cell.register_unless(|| false, context.waker()));
        assert!(!cell.register_unless(|| true, context.waker()));
        cell.resolve();
        cell.resolve();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
