//! The lock table: named locks, sharded, with wait-die.
//!
//! A request waits only if the requester is older (smaller age) than every conflicting holder *and* every conflicting
//! waiter; otherwise it dies. So every wait is of an older transaction for a younger one, queues are in order of
//! arrival, and no cycle can form. The same rule lets nobody barge past an older waiter, so nobody starves who keeps
//! his age when he runs again.

use super::Mode;
use crate::cache_line::CacheLine;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::thread::{self, Thread};
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::sync::Arc;

const SHARDS: usize = 128;

/// The request was refused: the transaction must give up its locks and run again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// What an accepted request changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The owner holds this lock for the first time and must release it.
    New,
    /// The owner held it already.
    Already,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    age: u64,
    mode: Mode,
}

struct Waiter {
    age: u64,
    mode: Mode,
    signal: Arc<Signal>,
}

struct Signal {
    granted: AtomicBool,
    thread: Thread,
}

struct Lock {
    name: u64,
    /// The usual lock has one holder; more spill into `others`.
    holder: Option<Holder>,
    others: Vec<Holder>,
    waiters: VecDeque<Waiter>,
}

impl Lock {
    fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holder.iter().chain(&self.others)
    }

    fn set(&mut self, age: u64, mode: Mode) -> Held {
        for h in self.holder.iter_mut().chain(&mut self.others) {
            if h.age == age {
                h.mode = mode;
                return Held::Already;
            }
        }
        if self.holder.is_none() {
            self.holder = Some(Holder { age, mode });
        } else {
            self.others.push(Holder { age, mode });
        }
        Held::New
    }

    fn clear(&mut self, age: u64) {
        if self.holder.is_some_and(|h| h.age == age) {
            self.holder = self.others.pop();
        } else {
            self.others.retain(|h| h.age != age);
        }
    }

    fn fits(&self, age: u64, mode: Mode) -> bool {
        self.holders().all(|h| h.age == age || h.mode.compatible(mode))
    }

    /// Grants in order of arrival; nobody is granted who conflicts with one still waiting before him.
    fn grant(&mut self) {
        let mut i = 0;
        while i < self.waiters.len() {
            let (age, mode) = (self.waiters[i].age, self.waiters[i].mode);
            let free = self.fits(age, mode) && self.waiters.iter().take(i).all(|w| w.mode.compatible(mode));
            if free && let Some(w) = self.waiters.remove(i) {
                self.set(age, mode);
                w.signal.granted.store(true, Ordering::Release);
                w.signal.thread.unpark();
            } else {
                i += 1;
            }
        }
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.waiters.is_empty()
    }
}

/// All locks of a database.
pub(crate) struct LockManager {
    shards: Box<[CacheLine<Mutex<HashTable<Lock>>>]>,
    /// With false every conflict is refused at once: for deterministic tests on one thread.
    may_wait: bool,
    pub(crate) waits: AtomicU64,
    pub(crate) deaths: AtomicU64,
}

impl LockManager {
    pub(crate) fn new(may_wait: bool) -> Self {
        LockManager {
            shards: (0..SHARDS).map(|_| CacheLine(Mutex::new(HashTable::new()))).collect(),
            may_wait,
            waits: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
        }
    }

    #[inline]
    fn shard(&self, name: u64) -> &Mutex<HashTable<Lock>> {
        &self.shards[(name >> 48) as usize % SHARDS]
    }

    /// Takes `name` in `mode`, waiting as wait-die allows.
    pub(crate) fn acquire(&self, name: u64, mode: Mode, age: u64) -> Result<Held, Refused> {
        self.take(name, mode, age, false)
    }

    /// Takes `name` exclusively and waits whoever holds it. Deadlock-free only if all callers take names in rising
    /// order, hold them for a moment, and take no other locks meanwhile.
    pub(crate) fn acquire_in_order(&self, name: u64, age: u64) -> Result<Held, Refused> {
        self.take(name, Mode::Exclusive, age, true)
    }

    fn take(&self, name: u64, mode: Mode, age: u64, ordered: bool) -> Result<Held, Refused> {
        let signal = {
            let mut shard = self.shard(name).lock();
            let Some(lock) = shard.find_mut(name, |l| l.name == name) else {
                let holder = Some(Holder { age, mode });
                let lock = Lock { name, holder, others: Vec::new(), waiters: VecDeque::new() };
                shard.insert_unique(name, lock, |l| l.name);
                return Ok(Held::New);
            };
            let mode = match lock.holders().find(|h| h.age == age) {
                Some(h) if h.mode.join(mode) == h.mode => return Ok(Held::Already),
                Some(h) => h.mode.join(mode),
                None => mode,
            };
            let waits = lock.waiters.iter().any(|w| !w.mode.compatible(mode));
            if !waits && lock.fits(age, mode) {
                return Ok(lock.set(age, mode));
            }
            let holders = lock.holders().filter(|h| h.age != age && !h.mode.compatible(mode)).map(|h| h.age);
            let queued = lock.waiters.iter().filter(|w| !w.mode.compatible(mode)).map(|w| w.age);
            let oldest = holders.chain(queued).all(|other| age < other);
            if !self.may_wait || (!oldest && !ordered) {
                self.deaths.fetch_add(1, Ordering::Relaxed);
                return Err(Refused);
            }
            self.waits.fetch_add(1, Ordering::Relaxed);
            let signal = Arc::new(Signal { granted: AtomicBool::new(false), thread: thread::current() });
            lock.waiters.push_back(Waiter { age, mode, signal: signal.clone() });
            let already = lock.holders().any(|h| h.age == age);
            (signal, if already { Held::Already } else { Held::New })
        };
        while !signal.0.granted.load(Ordering::Acquire) {
            thread::park();
        }
        Ok(signal.1)
    }

    /// Gives `name` back and wakes who can go on.
    pub(crate) fn release(&self, name: u64, age: u64) {
        let mut shard = self.shard(name).lock();
        let Ok(mut entry) = shard.find_entry(name, |l| l.name == name) else { return };
        let lock = entry.get_mut();
        lock.clear(age);
        if !lock.waiters.is_empty() {
            lock.grant();
        }
        if lock.is_free() {
            entry.remove();
        }
    }

    /// Locks held or waited for now.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn the_younger_dies_and_the_older_waits() {
        let m = Arc::new(LockManager::new(true));
        assert_eq!(m.acquire(1, Mode::Exclusive, 10), Ok(Held::New));
        assert_eq!(m.acquire(1, Mode::Shared, 11), Err(Refused));
        let m2 = m.clone();
        let t = std::thread::spawn(move || m2.acquire(1, Mode::Exclusive, 5));
        while m.waits.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // 7 is older than the holder, yet younger than the waiter.
        assert_eq!(m.acquire(1, Mode::Exclusive, 7), Err(Refused));
        m.release(1, 10);
        assert_eq!(t.join().unwrap(), Ok(Held::New));
        m.release(1, 5);
        assert_eq!(m.len(), 0);
    }

    #[test]
    fn modes_join_and_exclude_as_the_matrix_says() {
        use Mode::*;
        assert_eq!(Shared.join(IntentExclusive), SharedIntent);
        assert!(IntentExclusive.compatible(IntentExclusive));
        assert!(!IntentExclusive.compatible(Shared));
        let m = LockManager::new(false);
        assert_eq!(m.acquire(9, Shared, 1), Ok(Held::New));
        assert_eq!(m.acquire(9, Shared, 2), Ok(Held::New));
        assert_eq!(m.acquire(9, Exclusive, 1), Err(Refused));
        m.release(9, 2);
        assert_eq!(m.acquire(9, Exclusive, 1), Ok(Held::Already));
        assert_eq!(m.acquire(9, IntentShared, 2), Err(Refused));
    }

    /// Threads take random pairs of locks in random order; a deadlock would hang the test, a broken lock lose a count.
    #[test]
    fn random_orders_neither_deadlock_nor_overlap() {
        let m = Arc::new(LockManager::new(true));
        let inside: Arc<Vec<AtomicU32>> = Arc::new((0..4).map(|_| AtomicU32::new(0)).collect());
        let ages = Arc::new(AtomicU64::new(1));
        let done: u64 = (0..6u64)
            .map(|t| {
                let (m, inside, ages) = (m.clone(), inside.clone(), ages.clone());
                std::thread::spawn(move || {
                    let mut x = t + 1;
                    let mut done = 0;
                    while done < 2000 {
                        let age = ages.fetch_add(1, Ordering::Relaxed);
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let pair = [(x >> 33) % 4, (x >> 40) % 4];
                        loop {
                            let mut held = Vec::new();
                            let whole = pair.iter().all(|&n| match m.acquire(n, Mode::Exclusive, age) {
                                Ok(Held::New) => {
                                    held.push(n);
                                    assert_eq!(inside[n as usize].fetch_add(1, Ordering::SeqCst), 0);
                                    true
                                }
                                Ok(Held::Already) => true,
                                Err(Refused) => false,
                            });
                            if whole {
                                std::thread::yield_now();
                            }
                            for n in held {
                                inside[n as usize].fetch_sub(1, Ordering::SeqCst);
                                m.release(n, age);
                            }
                            if whole {
                                break;
                            }
                            std::thread::yield_now();
                        }
                        done += 1;
                    }
                    done
                })
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|t| t.join().unwrap())
            .sum();
        assert_eq!(done, 12_000);
        assert_eq!(m.len(), 0);
    }
}
