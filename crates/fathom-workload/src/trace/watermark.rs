//! A number that only grows, and the threads that are parked until it is large enough.
//!
//! Whoever raises it looks at one more number, which says whether anybody waits for that: as long
//! as nobody does, raising takes no lock and makes no system call.
//!
//! **No wake-up is lost.** Who waits *first* says for what, *then* looks at the number once more,
//! and only then parks. Who raises it *first* raises, *then* looks whether anybody waits. Between
//! the two steps of each stands a full barrier, so at least one of them sees what the other has
//! done: the one who waits the number, or the one who raises the waiting. An `unpark` that comes
//! before the `park` lets it return at once.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Nobody waits.
const NONE: u64 = u64::MAX;

/// The line of a processor's cache, so that numbers do not disturb each other.
#[repr(align(64))]
pub struct Watermark {
    value: AtomicU64,
    /// The smallest value that anybody waits for.
    wanted: AtomicU64,
    waiters: Mutex<Vec<Waiter>>,
}

struct Waiter {
    thread: Thread,
    least: u64,
}

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark { value: AtomicU64::new(0), wanted: AtomicU64::new(NONE), waiters: Mutex::default() }
    }
}

impl Watermark {
    /// How far it is.
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Raises it. Gives the threads that waited for no more than that: they are no longer among
    /// those who wait, and are to be unparked.
    #[must_use]
    pub fn raise_to(&self, value: u64) -> Vec<Thread> {
        self.value.store(value, Ordering::Release);
        self.released()
    }

    /// Raises it by one, as [`Watermark::raise_to`]; several threads may do so at once.
    #[must_use]
    pub fn raise(&self) -> Vec<Thread> {
        self.value.fetch_add(1, Ordering::AcqRel);
        self.released()
    }

    fn released(&self) -> Vec<Thread> {
        fence(Ordering::SeqCst);
        if self.wanted.load(Ordering::Relaxed) > self.value() {
            return Vec::new();
        }
        self.take_out(|waiter| waiter.least <= self.value())
    }

    /// Notes that the calling thread waits until the number is `least`. It looks at the number
    /// again before it parks.
    pub fn add_waiter(&self, least: u64) {
        let mut waiters = self.waiters();
        waiters.push(Waiter { thread: std::thread::current(), least });
        self.note_wanted(&waiters);
        drop(waiters);
        fence(Ordering::SeqCst);
    }

    /// The calling thread waits no longer. Whether nobody has taken it out before.
    pub fn remove_waiter(&self) -> bool {
        let own = std::thread::current().id();
        !self.take_out(|waiter| waiter.thread.id() == own).is_empty()
    }

    /// Everybody who waits, whatever for, as [`Watermark::raise_to`].
    #[must_use]
    pub fn remove_all(&self) -> Vec<Thread> {
        self.take_out(|_| true)
    }

    fn take_out(&self, is_meant: impl Fn(&Waiter) -> bool) -> Vec<Thread> {
        let mut waiters = self.waiters();
        let taken: Vec<Thread> =
            waiters.extract_if(.., |waiter| is_meant(waiter)).map(|waiter| waiter.thread).collect();
        self.note_wanted(&waiters);
        taken
    }

    fn note_wanted(&self, waiters: &[Waiter]) {
        let least = waiters.iter().map(|waiter| waiter.least).min().unwrap_or(NONE);
        self.wanted.store(least, Ordering::Relaxed);
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        // Nothing that is done under the lock can leave it half done.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_are_released_whose_value_is_reached() {
        let mark = Watermark::default();
        assert!(mark.raise().is_empty());
        mark.add_waiter(3);
        assert!(mark.raise().is_empty(), "2 is too little");
        assert_eq!(mark.raise_to(5).len(), 1);
        assert!(!mark.remove_waiter(), "it was taken out");
        mark.add_waiter(7);
        assert!(mark.remove_waiter());
        assert!(mark.raise_to(9).is_empty());
        mark.add_waiter(u64::MAX);
        assert_eq!(mark.remove_all().len(), 1);
    }
}
