//! A modelled device, apart from the thread that serves it: what it does with operations, and what
//! it has done so far.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::answers::Answers;
use super::fault::{Faults, Outcome};
use super::oplog::{Mark, OperationLog, Record};
use super::overhead::Overhead;
use super::request_times::RequestTimes;
use super::statistics::{Statistics, Tally, index};
use super::timeline::{Operation, Timeline};
use super::waiting::ThreadWait;

/// Name of the file.
pub const FILE: &str = "disk";
/// Name of the file beside it that holds what the device has done so far, as JSON: whoever may look
/// at the mount reads it at any time.
pub const STATISTICS: &str = "statistics";
/// Name of the file beside it that takes marks for the operation log: a decimal number in each
/// write, e.g. that of a commit that was just acknowledged.
pub const MARK: &str = "mark";
/// Most bytes of an operation.
pub(super) const LARGEST: usize = 1 << 20;

pub(super) struct State {
    timeline: Timeline,
    faults: Faults,
    pub log: Option<OperationLog>,
    pub tally: Tally,
    /// Operations as they were served, while they are kept.
    served: Option<Vec<RequestTimes>>,
}

/// Operations that are kept at most: 48 bytes each.
pub const SERVED_MAX: usize = 1 << 21;

/// A device, apart from the thread that serves it.
pub(super) struct Device {
    /// What it holds.
    pub image: File,
    /// Its length.
    pub bytes: u64,
    began: Instant,
    /// What CLOCK_MONOTONIC showed then, ns.
    began_ns: u64,
    /// The serving thread's, for a processor.
    pub waiting: ThreadWait,
    state: Mutex<State>,
    /// Operations that were answered, of this device or of those that share the count.
    answers: Answers,
    /// What it costs to answer late at all: reads, writes, flushes.
    overhead: Mutex<[Overhead; 3]>,
    /// Not 0: every operation takes this long, whatever the model says, and is not logged.
    pub trial_ns: AtomicU64,
    /// Whether operations are answered at once: nobody wants their times any more.
    hurries: AtomicBool,
    /// What can be read once it hurries, for who sleeps until an answer is due; none where the
    /// system gives none: then that one sleeps on.
    spur: Option<OwnedFd>,
}

/// When an operation is to be answered, and how.
pub(super) struct Verdict {
    /// What becomes of it.
    pub outcome: Outcome,
    /// When its answer is begun.
    pub at: Instant,
    /// What is written down of it once it is answered; none of trials.
    pub record: Option<Record>,
    /// How much earlier than it is asked for, ns.
    pub early_ns: u64,
}

impl Device {
    /// A device whose content is `image`; `log` is where its operations are written down.
    pub fn new(
        image: File,
        bytes: u64,
        timeline: Timeline,
        faults: Faults,
        log: Option<OperationLog>,
        answers: Answers,
    ) -> Device {
        let (began, began_ns) = fathom_ground::system::moment();
        Device {
            image,
            bytes,
            began,
            began_ns,
            waiting: ThreadWait::default(),
            state: Mutex::new(State { timeline, faults, log, tally: Tally::default(), served: None }),
            answers,
            overhead: Mutex::default(),
            trial_ns: AtomicU64::new(0),
            hurries: AtomicBool::new(false),
            spur: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
        }
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        let now_ns = self.since(Instant::now());
        let waited_ns = self.waiting.so_far_ns();
        let state = self.state();
        let log_problem = state.log.as_ref().and_then(OperationLog::problem);
        Statistics { log_problem, waited_ns, ..state.tally.statistics(now_ns) }
    }

    /// Whether operations are answered at once.
    pub fn hurries(&self) -> bool {
        self.hurries.load(Ordering::SeqCst)
    }

    /// What can be read once it hurries.
    pub fn spur(&self) -> Option<&OwnedFd> {
        self.spur.as_ref()
    }

    /// Decides what becomes of an operation and when it is answered. `work` does it on the image,
    /// if it is to be done.
    pub fn operate(
        &self,
        operation: Operation,
        offset: u64,
        bytes: u64,
        data: Option<&[u8]>,
        work: impl FnOnce() -> io::Result<()>,
    ) -> Verdict {
        let arrival = Instant::now();
        let trial_ns = self.trial_ns.load(Ordering::Relaxed);
        if trial_ns > 0 {
            let outcome = if work().is_ok() { Outcome::Done } else { Outcome::Error };
            let (at, early_ns) = self.begun_earlier(operation, arrival, trial_ns, bytes);
            return Verdict { outcome, at, record: None, early_ns };
        }
        let mut outcome = self.state().faults.next(operation, bytes);
        if outcome == Outcome::Done && work().is_err() {
            outcome = Outcome::Error;
        }
        let mut state = self.state();
        let state = &mut *state;
        let arrival_ns = self.since(arrival);
        // A lie takes no time; an error takes what the operation would have taken.
        let takes_time = outcome != Outcome::Lied && !self.hurries();
        let service = takes_time.then(|| state.timeline.submit(arrival_ns, operation, offset, bytes));
        let asked_ns = service.map_or(arrival_ns, |service| service.finish_ns);
        let data_at = match (&mut state.log, data, outcome) {
            (Some(log), Some(data), Outcome::Done) => log.keep(data),
            _ => None,
        };
        let sequential = service.is_some_and(|service| service.sequential);
        state.tally.arrived(operation, bytes, arrival_ns, asked_ns, sequential);
        let record = Record {
            operation,
            outcome,
            sequential,
            stalled: service.is_some_and(|service| service.stalled),
            offset,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            arrival_ns,
            asked_ns,
            given_ns: 0,
            data_at,
            after: Some(self.answers.so_far()),
        };
        let (at, early_ns) = self.begun_earlier(operation, arrival, asked_ns - arrival_ns, bytes);
        Verdict { outcome, at, record: Some(record), early_ns }
    }

    /// When an answer is begun that is to be there after `took_ns`, and how much earlier that is.
    fn begun_earlier(
        &self,
        operation: Operation,
        arrival: Instant,
        took_ns: u64,
        bytes: u64,
    ) -> (Instant, u64) {
        // A discard takes no time, so nothing of it can be begun earlier.
        let overhead = self.overhead();
        let early_ns = overhead.get(index(operation)).map_or(0, |overhead| overhead.early_ns(took_ns, bytes));
        let early_ns = early_ns.min(took_ns);
        (arrival + Duration::from_nanos(took_ns - early_ns), early_ns)
    }

    pub fn overhead(&self) -> std::sync::MutexGuard<'_, [Overhead; 3]> {
        self.overhead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place that an answer has among all; to be asked for before it is given, so that whoever
    /// goes on because of it comes after it.
    pub fn place_of_answer(&self, record: Option<&Record>) -> u64 {
        record.map_or(0, |_| self.answers.next())
    }

    /// Writes down that an operation was answered at `now` and has this place, begun `early_ns`
    /// earlier than it was asked for.
    pub fn answered(&self, record: Option<Record>, place: u64, early_ns: u64, now: Instant) {
        let Some(mut record) = record else { return };
        // One that was due at once is as late as the machinery is slow, which is no lateness.
        record.given_ns = self.since(now) + early_ns;
        let mut state = self.state();
        let failed = !matches!(record.outcome, Outcome::Done | Outcome::Lied);
        let Record { operation, arrival_ns, asked_ns, given_ns, .. } = record;
        state.tally.answered(operation, failed, arrival_ns, asked_ns, given_ns);
        if let Some(served) = state.served.as_mut().filter(|served| served.len() < SERVED_MAX) {
            served.push(RequestTimes {
                kind: index(operation) as u8,
                bytes: record.bytes,
                arrival_ns: self.began_ns + arrival_ns,
                asked_ns: self.began_ns + asked_ns,
                given_ns: self.began_ns + given_ns,
                early_ns,
                offset: record.offset,
            });
        }
        if let Some(log) = &mut state.log {
            log.add(&record, place);
        }
    }

    /// Writes a mark down, after all that was answered until now; `false` where there is no log.
    pub fn mark(&self, number: u64) -> bool {
        let at_ns = self.since(Instant::now());
        let mut state = self.state();
        let after = self.answers.so_far();
        state.log.as_mut().map(|log| log.mark(&Mark { number, at_ns, after })).is_some()
    }
}

/// A view of a device that stays while the device is waited for.
#[derive(Clone)]
pub struct DeviceView(pub(super) Arc<Device>);

impl std::fmt::Debug for DeviceView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceView({} bytes)", self.0.bytes)
    }
}

impl DeviceView {
    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    /// Has each operation kept from now on, for [`DeviceView::served`].
    pub fn keep_served(&self) {
        self.0.state().served = Some(Vec::new());
    }

    /// At most so many of the operations that were kept, from the one numbered `first` on, in order
    /// of their answers.
    #[must_use]
    pub fn served(&self, first: usize, most: usize) -> Vec<RequestTimes> {
        let state = self.0.state();
        let rest = state.served.as_ref().and_then(|served| served.get(first..)).unwrap_or_default();
        rest[..rest.len().min(most)].to_vec()
    }

    /// Answers everything at once from now on, what is waiting included: for a device whose times
    /// nobody wants any more, and that is only to be taken away.
    pub fn hurry(&self) {
        self.0.hurries.store(true, Ordering::SeqCst);
        if let Some(spur) = &self.0.spur {
            // An error would be that it was given four billion times.
            let _ = rustix::io::write(spur, &1u64.to_ne_bytes());
        }
    }

    /// Has nothing fail until [`DeviceView::begin_faults`].
    pub fn hold_faults(&self) {
        self.0.state().faults.hold();
    }

    /// Has what is to fail be counted from now on.
    pub fn begin_faults(&self) {
        self.0.state().faults.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::preset;
    use super::*;

    /// What happened: Ctrl-C of a live run on a slow card waited for mkfs, the floor and the
    /// unmount at the card's own pace, of which nobody would ever look at a number.
    #[test]
    fn a_device_that_hurries_takes_no_time_and_counts_all_the_same() {
        let image = tempfile::tempfile().unwrap();
        let timeline = Timeline::new(preset("sd-slow").unwrap().clone(), 1);
        let answers = Answers::new(None).unwrap();
        let device = Device::new(image, 1 << 20, timeline, Faults::new(Vec::new()), None, answers);
        let view = DeviceView(Arc::new(device));
        let flush = || view.0.operate(Operation::Flush, 0, 0, None, || Ok(()));
        let takes_us = |verdict: &Verdict| {
            verdict.record.as_ref().map_or(0, |record| (record.asked_ns - record.arrival_ns) / 1000)
        };
        assert_eq!(takes_us(&flush()), 4000);
        view.hurry();
        let verdict = flush();
        assert_eq!((takes_us(&verdict), verdict.early_ns), (0, 0));
        assert!(verdict.at <= Instant::now());
        assert_eq!(view.statistics().operations[2], 2, "and it is counted");
    }
}
