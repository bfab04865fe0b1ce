//! Who holds one lock and who waits for it.
//!
//! A request waits only if the requester is older (smaller age) than every conflicting holder *and*
//! every conflicting waiter; otherwise it dies. So every wait is of an older transaction for a
//! younger one, queues are in order of arrival, and no cycle can form. The same rule lets nobody
//! barge past an older waiter, so nobody starves who keeps his age when he runs again.

use super::Mode;
use crate::interruption;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockFailure {
    /// By wait-die: the transaction must give up its locks and run again.
    Died,
    /// Whoever holds it did not give it back in time.
    TimedOut,
    /// The wait was ended from outside.
    Interrupted,
}

/// What an accepted request changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// The owner holds this lock for the first time and must release it.
    New,
    /// The owner held it already.
    Already,
}

/// What comes of a request.
pub(super) enum Answer {
    Granted(Grant),
    LockFailure,
    /// Sleep until this is granted, without any latch.
    Wait(Arc<Signal>, Grant),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) age: u64,
    pub(super) mode: Mode,
}

struct Waiter {
    age: u64,
    mode: Mode,
    signal: Arc<Signal>,
}

pub(super) struct Signal {
    granted: AtomicBool,
    thread: Thread,
}

impl Signal {
    /// Sleeps until this is granted; an error if `at_most` passes before, or the wait is ended from
    /// outside.
    pub(super) fn wait(&self, at_most: Duration) -> Result<(), LockFailure> {
        let began = Instant::now();
        let longest = if interruption::is_heard() { interruption::LOOK } else { Duration::MAX };
        loop {
            if self.is_granted() {
                return Ok(());
            }
            match at_most.checked_sub(began.elapsed()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left.min(longest)),
                _ => return Err(LockFailure::TimedOut),
            }
            if longest != Duration::MAX && interruption::has_come() {
                return Err(LockFailure::Interrupted);
            }
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire)
    }
}

/// How requests are answered that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConflictPolicy {
    /// Every conflict is refused at once: for deterministic tests on one thread.
    Never,
    WaitDie,
    /// Whoever holds it is waited for: deadlock-free only where all take their locks in one order.
    Always,
}

/// Holders and waiters of one lock.
#[derive(Default)]
pub(super) struct Queue {
    /// The usual lock has one holder; more spill into `others`.
    holder: Option<Holder>,
    others: Vec<Holder>,
    waiters: VecDeque<Waiter>,
}

impl Queue {
    pub(super) fn held_by(age: u64, mode: Mode) -> Queue {
        Queue { holder: Some(Holder { age, mode }), ..Queue::default() }
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holder.iter().chain(&self.others)
    }

    /// Holders and waiters.
    pub(super) fn len(&self) -> usize {
        self.holders().count() + self.waiters.len()
    }

    pub(super) fn is_free(&self) -> bool {
        self.holder.is_none() && self.waiters.is_empty()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    pub(super) fn forget_holders(&mut self) {
        self.holder = None;
        self.others.clear();
    }

    /// Makes `age` a holder of at least `mode`, whether that fits or not.
    pub(super) fn set(&mut self, age: u64, mode: Mode) -> Grant {
        for h in self.holder.iter_mut().chain(&mut self.others) {
            if h.age == age {
                h.mode = h.mode.join(mode);
                return Grant::Already;
            }
        }
        if self.holder.is_none() {
            self.holder = Some(Holder { age, mode });
        } else {
            self.others.push(Holder { age, mode });
        }
        Grant::New
    }

    fn fits(&self, age: u64, mode: Mode) -> bool {
        self.holders().all(|h| h.age == age || h.mode.compatible(mode))
    }

    /// Answers a request; `waits` and `deaths` are counted by the caller.
    pub(super) fn ask(&mut self, age: u64, mode: Mode, policy: ConflictPolicy) -> Answer {
        let have = self.holders().find(|h| h.age == age).map(|h| h.mode);
        let mode = have.map_or(mode, |m| m.join(mode));
        if have == Some(mode) {
            return Answer::Granted(Grant::Already);
        }
        let waits = self.waiters.iter().any(|w| !w.mode.compatible(mode));
        if !waits && self.fits(age, mode) {
            return Answer::Granted(self.set(age, mode));
        }
        let holders = self.holders().filter(|h| h.age != age && !h.mode.compatible(mode)).map(|h| h.age);
        let queued = self.waiters.iter().filter(|w| !w.mode.compatible(mode)).map(|w| w.age);
        let oldest = holders.chain(queued).all(|other| age < other);
        if policy == ConflictPolicy::Never || (!oldest && policy == ConflictPolicy::WaitDie) {
            return Answer::LockFailure;
        }
        assert!(
            oldest || policy == ConflictPolicy::Always,
            "only the oldest waits, so nobody waits in a circle"
        );
        let signal = Arc::new(Signal { granted: AtomicBool::new(false), thread: thread::current() });
        self.waiters.push_back(Waiter { age, mode, signal: signal.clone() });
        Answer::Wait(signal, if have.is_some() { Grant::Already } else { Grant::New })
    }

    /// Whether a request would be refused now: somebody older is in the way.
    pub(super) fn refuses(&self, age: u64, mode: Mode) -> bool {
        let have = self.holders().find(|h| h.age == age).map(|h| h.mode);
        let mode = have.map_or(mode, |m| m.join(mode));
        let holders = self.holders().map(|h| (h.age, h.mode));
        let mut others = holders.chain(self.waiters.iter().map(|w| (w.age, w.mode)));
        have != Some(mode) && others.any(|(other, m)| other < age && !m.compatible(mode))
    }

    /// Takes a request back that was not granted in time, and lets those go on whom it held up.
    pub(super) fn withdraw(&mut self, signal: &Arc<Signal>) {
        self.waiters.retain(|w| !Arc::ptr_eq(&w.signal, signal));
        self.grant();
    }

    /// Takes `age` off and lets those go on whom it held up. Whether it was among the holders.
    pub(super) fn clear(&mut self, age: u64) -> bool {
        let mut held = true;
        if self.holder.is_some_and(|h| h.age == age) {
            self.holder = self.others.pop();
        } else {
            let before = self.others.len();
            self.others.retain(|h| h.age != age);
            held = self.others.len() < before;
        }
        if !self.waiters.is_empty() {
            self.grant();
        }
        held
    }

    /// Whether `age` holds this in `mode` or a stronger one.
    pub(super) fn holds(&self, age: u64, mode: Mode) -> bool {
        self.holders().any(|h| h.age == age && h.mode.join(mode) == h.mode)
    }

    /// Grants in order of arrival; nobody is granted who conflicts with one still waiting before
    /// him.
    fn grant(&mut self) {
        let mut i = 0;
        while i < self.waiters.len() {
            let (age, mode) = (self.waiters[i].age, self.waiters[i].mode);
            let free = self.fits(age, mode) && self.waiters.iter().take(i).all(|w| w.mode.compatible(mode));
            if free && let Some(w) = self.waiters.remove(i) {
                self.set(age, mode);
                assert!(!w.signal.is_granted(), "a request is granted once");
                w.signal.granted.store(true, Ordering::Release);
                w.signal.thread.unpark();
            } else {
                i += 1;
            }
        }
    }
}
