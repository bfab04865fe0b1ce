//! Who reads the log while it grows, and what standbys have acknowledged: the primary's side.
//!
//! Nothing of this is on the way of a commit. A flush reads one word to see whether anybody waits
//! for frames. Nobody takes another lock while he holds the one here: whoever wakes may hold any.
//! Nor is a waker copied or dropped under it, which is the caller's code too, and may end a wait
//! that is registered here.

use super::frames::Place;
use super::lineage::Lineage;
use super::position::Position;
use crate::error::{Error, Result};
use crate::log::{Log, wake};
use crate::manifest::Epoch;
use crate::sabotage::has_defect;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// Whoever waits looks again after so long, whatever becomes of a wake-up.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct State {
    last_tail: u64,
    /// How far each open tail has given out commits and changes.
    given: BTreeMap<u64, Place>,
    /// The last position that each standby has acknowledged.
    standbys: BTreeMap<String, Position>,
    /// What is stated of the lineage.
    lineage: Option<Arc<Lineage>>,
    /// Of tails that wait for frames, by the tail's number.
    readers: BTreeMap<u64, Waker>,
    /// Of futures that wait for acknowledgements, each by its number.
    commits: BTreeMap<u64, Waker>,
    last_commit: u64,
}

/// Tails and standbys of a log.
pub(crate) struct Tails {
    state: Mutex<State>,
    open: AtomicUsize,
    /// The last change of a definition that is stated.
    last_change: AtomicU64,
    moved: Condvar,
    acknowledged: Condvar,
    /// The lives that may have written segments which are here.
    pub(crate) lives: Vec<Epoch>,
    /// Most bytes of log that are kept for who is behind,
    limit: u64,
    /// and of them where the disk is full.
    floor: u64,
}

impl Tails {
    pub(crate) fn new(lives: Vec<Epoch>, limit: u64, floor: u64) -> Tails {
        Tails {
            state: Mutex::default(),
            open: AtomicUsize::new(0),
            last_change: AtomicU64::new(0),
            moved: Condvar::new(),
            acknowledged: Condvar::new(),
            lives,
            limit,
            floor: floor.min(limit),
        }
    }

    pub(crate) fn open(&self, from: Place) -> u64 {
        let mut state = self.state.lock();
        state.last_tail += 1;
        let number = state.last_tail;
        state.given.insert(number, from);
        self.open.store(state.given.len(), Ordering::SeqCst);
        number
    }

    pub(crate) fn close(&self, number: u64) {
        let mut state = self.state.lock();
        state.given.remove(&number);
        let waker = state.readers.remove(&number);
        self.open.store(state.given.len(), Ordering::SeqCst);
        drop(state);
        drop(waker);
    }

    pub(crate) fn has_given(&self, number: u64, upto: Place) {
        self.state.lock().given.insert(number, upto);
    }

    /// How many tails are open.
    pub(crate) fn count(&self) -> u64 {
        self.open.load(Ordering::Relaxed) as u64
    }

    /// The last commit whose frame nobody asks for any more; `None` if nobody asks for any.
    pub(crate) fn done(&self) -> Option<u64> {
        let state = self.state.lock();
        let standbys = state.standbys.values().map(|position| position.gsn);
        state.given.values().map(|given| given.gsn).chain(standbys).min()
    }

    /// The last change of a definition that nobody asks for any more; `None` if nobody asks for any.
    pub(crate) fn known_changes(&self) -> Option<u64> {
        let state = self.state.lock();
        let standbys = state.standbys.values().map(|position| position.change);
        state.given.values().map(|given| given.change).chain(standbys).min()
    }

    /// Segments of this size that each of so many streams keeps for who is behind; fewer where the
    /// disk `is_full`.
    pub(crate) fn room(&self, segment_bytes: u64, streams: usize, is_full: bool) -> usize {
        let bytes = if is_full { self.floor } else { self.limit };
        let all = (bytes / segment_bytes.max(1)) as usize;
        if all == 0 { 0 } else { (all / streams.max(1)).max(1) }
    }

    /// This is stated of the lineage now. Futures are woken by whoever holds no lock any more.
    pub(crate) fn has_changed(&self, lineage: &Lineage) {
        let mut state = self.state.lock();
        if state.lineage.as_deref() == Some(lineage) {
            return;
        }
        self.last_change.store(lineage.last_change, Ordering::SeqCst);
        state.lineage = Some(Arc::new(lineage.clone()));
        drop(state);
        self.moved.notify_all();
    }

    /// What is stated of the lineage.
    pub(crate) fn lineage(&self) -> Option<Arc<Lineage>> {
        self.state.lock().lineage.clone()
    }

    /// The last change of a definition that is stated.
    pub(crate) fn last_change(&self) -> u64 {
        self.last_change.load(Ordering::SeqCst)
    }

    /// More is durable: wakes the threads that wait for it, and gives the futures to be woken.
    #[inline]
    pub(crate) fn wake_threads(&self, wakers: &mut Vec<Waker>) {
        if self.open.load(Ordering::SeqCst) > 0 {
            self.wake_readers(wakers);
        }
    }

    #[cold]
    fn wake_readers(&self, wakers: &mut Vec<Waker>) {
        let readers = std::mem::take(&mut self.state.lock().readers);
        wakers.extend(readers.into_values());
        self.moved.notify_all();
    }

    /// There is more to be read, or there will be nothing.
    pub(crate) fn wake(&self) {
        let mut wakers = Vec::new();
        self.wake_threads(&mut wakers);
        wake(wakers);
    }

    /// The log has ended or was poisoned.
    pub(crate) fn wake_all(&self) {
        let commits = std::mem::take(&mut self.state.lock().commits);
        let mut wakers = commits.into_values().collect();
        self.wake_readers(&mut wakers);
        self.acknowledged.notify_all();
        wake(wakers);
    }

    /// Sleeps until woken, unless it is so already.
    pub(crate) fn sleep_unless(&self, is_so: impl Fn() -> bool, at_most: Duration) {
        let state = self.state.lock();
        if !is_so() {
            drop(self.moved.wait_for(state, at_most.min(LOOK)));
        }
    }

    /// Has the future of tail `number` woken, unless it is so already: then false.
    pub(crate) fn register_unless(&self, number: u64, is_so: impl Fn() -> bool, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.state.lock();
        if is_so() {
            drop(state);
            return false;
        }
        let before = state.readers.insert(number, waker);
        drop(state);
        drop(before);
        true
    }

    pub(crate) fn acknowledge(&self, standby: &str, position: Position) {
        let mut state = self.state.lock();
        match state.standbys.get_mut(standby) {
            // Acknowledgements may overtake each other on their way.
            Some(there) if there.gsn > position.gsn => {}
            Some(there) => *there = position,
            None => drop(state.standbys.insert(standby.to_owned(), position)),
        }
        let commits = std::mem::take(&mut state.commits);
        drop(state);
        self.acknowledged.notify_all();
        wake(commits.into_values());
    }

    pub(crate) fn forget(&self, standby: &str) -> bool {
        self.state.lock().standbys.remove(standby).is_some()
    }

    /// Standbys with the last commit that each has acknowledged.
    pub(crate) fn standbys(&self) -> Vec<(String, u64)> {
        let state = self.state.lock();
        state.standbys.iter().map(|(name, position)| (name.clone(), position.gsn)).collect()
    }

    /// How many standbys have commit `gsn`.
    fn count_in(state: &State, gsn: u64) -> usize {
        state.standbys.values().filter(|position| position.gsn >= gsn).count()
    }

    /// The error of who has waited since `began`.
    pub(crate) fn missing(&self, gsn: u64, wanted: usize, began: Instant) -> Error {
        let standbys = Self::count_in(&self.state.lock(), gsn);
        Error::StandbysMissing { gsn, standbys, wanted, wait: began.elapsed() }
    }

    /// Waits until `wanted` standbys have commit `gsn`.
    pub(crate) fn wait(&self, log: &Log, gsn: u64, wanted: usize, at_most: Duration) -> Result<()> {
        let began = Instant::now();
        let mut state = self.state.lock();
        loop {
            let behind = has_defect!(log.defect, CountsBehind);
            let standbys = Self::count_in(&state, if behind { 0 } else { gsn });
            if standbys >= wanted {
                return Ok(());
            }
            if log.is_poisoned() {
                drop(state);
                return log.check();
            }
            let left = at_most.saturating_sub(began.elapsed());
            if left.is_zero() || log.is_stopping() {
                return Err(Error::StandbysMissing { gsn, standbys, wanted, wait: began.elapsed() });
            }
            state = self.acknowledged.wait_for(state, left.min(LOOK));
        }
    }

    /// Has future `number`, which gets a number here if it has none, woken at the next
    /// acknowledgement, unless `wanted` standbys have commit `gsn`: then false.
    pub(crate) fn register_commit(
        &self,
        number: &mut Option<u64>,
        gsn: u64,
        wanted: usize,
        waker: &Waker,
    ) -> bool {
        let waker = waker.clone();
        let mut state = self.state.lock();
        let is_so = Self::count_in(&state, gsn) >= wanted;
        let before = if is_so {
            number.and_then(|number| state.commits.remove(&number))
        } else {
            let number = *number.get_or_insert_with(|| {
                state.last_commit += 1;
                state.last_commit
            });
            state.commits.insert(number, waker)
        };
        drop(state);
        drop(before);
        !is_so
    }

    /// Nobody waits for that future any more.
    pub(crate) fn forget_commit(&self, number: u64) {
        let waker = self.state.lock().commits.remove(&number);
        drop(waker);
    }
}
