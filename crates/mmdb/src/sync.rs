//! Where the engine takes its locks, atomics, threads and futexes from.
//!
//! Unit tests have `sync/scheduled.rs` in this file's place, whose types hand every step to a
//! scheduler that tries one order of threads after the other. So whatever two threads can meet at
//! must come from here.
//!
//! The locks are for sections of well under a microsecond that many threads pass: they spin for a
//! moment and then sleep, and never yield their processor to whoever else wants the same lock. They
//! are the standard library's. Its locks spin without giving the processor away; those of
//! `parking_lot` call `sched_yield` meanwhile, which with far more threads than processors hands
//! every short wait to a cold thread. A panic of another thread is that thread's matter, as it is
//! with `parking_lot`: nothing here is left half done by one.

use rustix::thread::futex::{self, Timespec};
pub(crate) use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, atomic};
use std::sync::{PoisonError, TryLockError};
pub(crate) use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without locking: nobody else can have it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }

    /// Gives the lock away until notified, for `at_most` that long, and takes it again.
    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A word that threads can sleep on.
#[derive(Debug)]
pub(crate) struct Futex(atomic::AtomicU32);

impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Futex(atomic::AtomicU32::new(value))
    }

    #[inline]
    pub(crate) fn load(&self, order: atomic::Ordering) -> u32 {
        self.0.load(order)
    }

    /// Changes the word.
    #[inline]
    pub(crate) fn bump(&self) {
        self.0.fetch_add(1, atomic::Ordering::SeqCst);
    }

    /// Sleeps until woken if the word is still `value`, or `at_most` so long. May return for no
    /// reason.
    pub(crate) fn wait(&self, value: u32, at_most: Option<Duration>) {
        // No longer than a second: it fits.
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        // Fails if the word has changed or a signal came; the caller looks again in any case.
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, value, at_most.as_ref());
    }

    /// Returns how many slept.
    pub(crate) fn wake_all(&self) -> u64 {
        // Fails only for a bad address, which a live atomic is not.
        futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32).map_or(0, |n| n as u64)
    }
}

/// Whether it is so long since then.
pub(crate) fn has_passed(since: Instant, time: Duration) -> bool {
    since.elapsed() >= time
}

/// Whether what runs has the storage of its thread for itself. Within a schedule of tests many
/// threads share one of the system's.
#[inline]
pub(crate) fn has_own_storage() -> bool {
    true
}

/// The processor that this runs on; by the time it is used it may be another one.
#[inline]
pub(crate) fn processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// Whether it is the thread that this runs on.
pub(crate) fn is_current(t: &thread::Thread) -> bool {
    t.id() == thread::current().id()
}

/// A small number for this thread, for choosing a stream.
pub(crate) fn thread_number() -> usize {
    use atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    MINE.with(|m| *m)
}
