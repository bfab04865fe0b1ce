//! What the threads of a run share.

use super::Clock;
use super::figures::Figures;
use super::plan::{LoadError, Plan, Side};
use super::profile::Bodies;
use super::start::Start;
use crate::network::Network;
use crate::store::{Acknowledge, Session, Store};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Counts the messages of an open loop that were due, and that nobody submitted.
pub(super) type Overdue = Box<dyn FnOnce() -> u64 + Send>;

/// What the threads of a run share.
pub(super) struct RunState<'a> {
    pub store: &'a dyn Store,
    pub plan: &'a Plan,
    pub network: Network,
    pub bodies: Bodies,
    pub clock: Clock,
    pub figures: &'a Figures,
    pub start: Start,
    pub taken: AtomicU64,
    /// Ends the clients.
    pub stop: AtomicBool,
    /// Ends the senders, too, whatever is queued.
    pub interrupted: AtomicBool,
    pub receivers_left: AtomicUsize,
    pub senders_left: AtomicUsize,
    /// A thread has failed: all end.
    pub failed: AtomicBool,
    pub accepted: Mutex<Vec<i64>>,
    /// What clients have left to be counted.
    pub overdue: Mutex<Vec<Overdue>>,
    /// When each client submits its next message, µs; 0 while it is at work.
    pub next_submission_us: Vec<AtomicI64>,
    /// Until when a message is in the air, if that takes long, µs.
    pub lands_us: AtomicI64,
    /// Messages that were tried in vain and wait to be tried again. A claim may be counted before
    /// the failure that it follows.
    pub waiting: AtomicI64,
    /// The fewest messages that a sender was held to, because the store was slow.
    pub held: AtomicUsize,
}

impl<'a> RunState<'a> {
    /// Counts what clients have left: once their end was taken, as it takes seconds where much was
    /// due.
    pub fn count_overdue(&self) {
        let next = || self.overdue.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(count) = next() {
            self.figures.not_submitted.fetch_add(count(), Ordering::Relaxed);
        }
    }

    /// Leaves something to be counted.
    pub fn count_later(&self, overdue: Overdue) {
        self.overdue.lock().unwrap_or_else(PoisonError::into_inner).push(overdue);
    }

    /// Waits until all threads are ready. False if one of them failed before that.
    pub fn wait_for_start(&self) -> bool {
        self.start.wait().is_some()
    }

    /// A session of the store; `who` is for the message if there is none.
    pub fn session(
        &self,
        acknowledge: Acknowledge,
        who: impl FnOnce() -> String,
    ) -> Result<Box<dyn Session + 'a>, LoadError> {
        self.store.session(acknowledge).map_err(|source| LoadError::Session { who: who(), source })
    }

    /// Ends all threads, wherever they are.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.start.call_off();
    }

    /// Whether a thread has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether not even what is in the air is waited for.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.has_failed()
    }

    /// Tells when a client goes on; 0 while it is at work, `i64::MAX` when it has ended.
    pub fn submits_next(&self, client: usize, at_us: i64) {
        self.next_submission_us[client].store(at_us, Ordering::Relaxed);
    }

    /// A client that has something to do.
    pub fn client_at_work(&self, now_us: i64) -> Option<usize> {
        self.next_submission_us.iter().position(|next_us| next_us.load(Ordering::Relaxed) <= now_us)
    }

    pub fn clients_have_ended(&self) -> bool {
        self.receivers_left.load(Ordering::Acquire) == 0
    }

    /// Tells that a message is in the air for long.
    pub fn note_landing(&self, at_us: i64) {
        self.lands_us.fetch_max(at_us, Ordering::Relaxed);
    }

    pub fn is_landing(&self, now_us: i64) -> bool {
        self.lands_us.load(Ordering::Relaxed) > now_us
    }

    /// Tells that so many messages more, or fewer, wait to be tried again.
    pub fn waits(&self, more: i64) {
        self.waiting.fetch_add(more, Ordering::AcqRel);
    }

    /// Tells that the store was too slow for more messages in flight of one sender.
    pub fn holds_flights(&self, at_most: usize) {
        self.held.fetch_min(at_most, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.has_failed()
    }

    /// Whether one more message may be submitted.
    pub fn take_message(&self) -> bool {
        if self.is_stopped() {
            return false;
        }
        self.plan.messages == 0 || self.taken.fetch_add(1, Ordering::Relaxed) < self.plan.messages
    }

    /// Messages that the senders have to bring to an end.
    pub fn due(&self) -> u64 {
        match self.plan.side {
            Side::Sender => self.plan.messages,
            _ => self.figures.accepted.load(Ordering::Acquire),
        }
    }

    pub fn left(&self) -> u64 {
        let expired = self.figures.expired.load(Ordering::Acquire);
        self.due().saturating_sub(self.figures.finished.load(Ordering::Acquire) + expired)
    }

    /// Whether senders take no more.
    pub fn senders_stop(&self) -> bool {
        self.is_interrupted() || (!self.plan.drain && self.is_stopped())
    }

    /// Whether there is nothing more to send. Receipts of what was sent are messages, too: a sender
    /// that finds nothing to claim has sent those that were there.
    pub fn all_sent(&self) -> bool {
        self.senders_stop() || (self.clients_have_ended() && self.left() == 0)
    }

    pub fn housekeeping_ends(&self) -> bool {
        let working = self.receivers_left.load(Ordering::Acquire) + self.senders_left.load(Ordering::Acquire);
        working == 0 || self.has_failed()
    }

    pub fn keep_accepted(&self, mut ids: Vec<i64>) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).append(&mut ids);
    }
}

/// The end of a thread, however it ends: all others end, too, unless it went well.
pub(super) struct End<'a> {
    shared: &'a RunState<'a>,
    left: Option<&'a AtomicUsize>,
    well: bool,
}

impl<'a> End<'a> {
    /// Does a thread's work; its result, and when it ended.
    pub fn of(
        shared: &'a RunState<'a>,
        left: Option<&'a AtomicUsize>,
        work: impl FnOnce() -> Result<(), LoadError>,
    ) -> (Result<(), LoadError>, Instant) {
        let mut end = End { shared, left, well: false };
        let result = work();
        end.well = result.is_ok();
        drop(end);
        (result, Instant::now())
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !self.well {
            self.shared.fail();
        }
        if let Some(left) = self.left {
            left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
