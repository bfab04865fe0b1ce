//! One run: so many clients and senders for so long, or for so many messages.

use super::figures::Figures;
use super::{Bodies, Clock, LoadProfile, Pace, housekeeping, receiver, sender};
use crate::centre::{Archive, ArchiveError, RetryPolicy, SubmissionError};
use crate::network::{Network, NetworkProfile};
use crate::store::{Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Which half of the centre works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Clients submit; nothing is sent.
    Receiver,
    /// What is queued is sent; nothing is submitted.
    Sender,
    /// Both.
    Both,
}

/// What a run does.
pub struct Plan {
    /// Which half.
    pub side: Side,
    /// Clients.
    pub receivers: usize,
    /// Senders.
    pub senders: usize,
    /// Messages under way for each client and sender; 1 waits for each.
    pub window: usize,
    /// Messages altogether; 0: as many as the time allows. For a Sender, how many are queued.
    pub messages: u64,
    /// Length, where no number of messages ends it, s. A Sender ends with the time, if one is given, or with the queue.
    pub seconds: f64,
    /// Closed or open loop.
    pub pace: Pace,
    /// What is sent.
    pub load: LoadProfile,
    /// How the network behaves.
    pub network: NetworkProfile,
    /// When to try again.
    pub retry: RetryPolicy,
    /// Whether timers and Flusher run.
    pub housekeeping: bool,
    /// Whether the run goes on until everything queued is final.
    pub drain: bool,
    /// Whether the numbers of accepted messages are kept.
    pub keep_accepted: bool,
    /// Called with each accepted message's number, after its acknowledgement.
    pub on_accepted: Option<Box<dyn Fn(i64) + Send + Sync>>,
    /// Called with a message's number when its station has taken it, before the centre is told.
    pub on_delivered: Option<Box<dyn Fn(i64) + Send + Sync>>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            side: Side::Both,
            receivers: 1,
            senders: 1,
            window: 1,
            messages: 30_000,
            seconds: 0.0,
            pace: Pace::Closed,
            load: LoadProfile::default(),
            network: NetworkProfile::perfect(1),
            retry: RetryPolicy::accelerated(1000),
            housekeeping: true,
            drain: true,
            keep_accepted: false,
            on_accepted: None,
            on_delivered: None,
        }
    }
}

/// What ends a run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A generated message is none.
    #[error(transparent)]
    Submission(#[from] SubmissionError),
    /// A store does not keep to its interface.
    #[error("internal: {0}")]
    Unexpected(&'static str),
    /// A thread panicked.
    #[error("a thread of the load panicked")]
    Panicked,
    /// Nothing moves any more.
    #[error("stuck: no message became final for {seconds} s while {left} wait; see `smsc check`")]
    Stuck {
        /// How long.
        seconds: u64,
        /// How many are left.
        left: u64,
    },
}

/// What the threads of a run share.
pub(super) struct Shared<'a> {
    pub store: &'a dyn Store,
    pub plan: &'a Plan,
    pub network: Network,
    pub bodies: Bodies,
    pub clock: Clock,
    pub figures: &'a Figures,
    start: Barrier,
    /// When the last client or sender was ready, and all began.
    began: OnceLock<Instant>,
    taken: AtomicU64,
    /// Ends the clients.
    stop: AtomicBool,
    receivers_left: AtomicUsize,
    senders_left: AtomicUsize,
    /// A thread has failed: all end.
    failed: AtomicBool,
    accepted: Mutex<Vec<i64>>,
}

impl Shared<'_> {
    pub fn wait_for_start(&self) {
        if self.start.wait().is_leader() {
            let _ = self.began.set(Instant::now());
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Whether one more message may be submitted.
    pub fn take_message(&self) -> bool {
        if self.is_stopped() {
            return false;
        }
        self.plan.messages == 0 || self.taken.fetch_add(1, Ordering::Relaxed) < self.plan.messages
    }

    /// Messages that the senders have to bring to an end.
    fn due(&self) -> u64 {
        match self.plan.side {
            Side::Sender => self.plan.messages,
            _ => self.figures.accepted.load(Ordering::Acquire),
        }
    }

    fn left(&self) -> u64 {
        let expired = self.figures.expired.load(Ordering::Acquire);
        self.due().saturating_sub(self.figures.finished.load(Ordering::Acquire) + expired)
    }

    /// Whether senders take no more.
    pub fn senders_stop(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || (!self.plan.drain && self.is_stopped())
    }

    /// Whether there is nothing more to send. Receipts of what was sent are messages, too: a sender that finds nothing to
    /// claim has sent those that were there.
    pub fn all_sent(&self) -> bool {
        self.senders_stop() || (self.receivers_left.load(Ordering::Acquire) == 0 && self.left() == 0)
    }

    pub fn housekeeping_ends(&self) -> bool {
        let working = self.receivers_left.load(Ordering::Acquire) + self.senders_left.load(Ordering::Acquire);
        working == 0 || self.failed.load(Ordering::Relaxed)
    }

    pub fn keep_accepted(&self, mut ids: Vec<i64>) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).append(&mut ids);
    }
}

/// How a run went, besides its [`Figures`].
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// From the start to the end of the last client and sender, s.
    pub seconds: f64,
    /// Times that a station had two messages in flight: must be 0.
    pub doubled: u64,
    /// The numbers of accepted messages, if they were kept.
    pub accepted: Vec<i64>,
}

/// How long nothing may become final.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a plan; `watch` is called about four times a second, and ends the clients by giving false.
///
/// # Errors
/// [`LoadError`]; the first thread's that failed.
pub fn run(
    store: &dyn Store,
    plan: &Plan,
    figures: &Figures,
    archive: Option<&mut Archive>,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Ran, LoadError> {
    let receivers = if plan.side == Side::Sender { 0 } else { plan.receivers };
    let senders = if plan.side == Side::Receiver { 0 } else { plan.senders };
    let shared = Shared {
        store,
        plan,
        network: Network::new(plan.network.clone()),
        bodies: Bodies::new(&plan.load),
        clock: Clock::default(),
        figures,
        start: Barrier::new(receivers + senders + 1),
        began: OnceLock::new(),
        taken: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        receivers_left: AtomicUsize::new(receivers),
        senders_left: AtomicUsize::new(senders),
        failed: AtomicBool::new(false),
        accepted: Mutex::default(),
    };
    let shared = &shared;
    let ends = |left: &AtomicUsize, result: Result<(), LoadError>| {
        left.fetch_sub(1, Ordering::AcqRel);
        if result.is_err() {
            shared.failed.store(true, Ordering::Release);
        }
        (result, Instant::now())
    };
    let (seconds, result) = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 0..receivers {
            workers.push(scope.spawn(move || {
                let result = receiver::run(shared, number, &plan.load, plan.window);
                ends(&shared.receivers_left, result)
            }));
        }
        for number in 0..senders {
            workers.push(
                scope.spawn(move || ends(&shared.senders_left, sender::run(shared, number, plan.window))),
            );
        }
        let mut background = Vec::new();
        if plan.housekeeping && plan.side != Side::Receiver {
            background.push(scope.spawn(|| housekeeping::timers(shared)));
            if let (true, Some(archive)) = (store.has_flusher(), archive) {
                background.push(scope.spawn(|| housekeeping::flusher(shared, archive)));
            }
        }
        shared.wait_for_start();
        let begin = *shared.began.wait();
        let mut last = (begin, 0, u64::MAX);
        let mut result = Ok(());
        while !shared.housekeeping_ends() {
            std::thread::sleep(Duration::from_millis(2));
            let elapsed = begin.elapsed().as_secs_f64();
            if (elapsed * 4.0) as u64 != last.1 {
                last.1 = (elapsed * 4.0) as u64;
                if !watch(elapsed) {
                    shared.stop.store(true, Ordering::Release);
                }
            }
            let timed = plan.messages == 0 || plan.seconds > 0.0;
            if timed && (plan.pace == Pace::Closed || !plan.drain) && elapsed >= plan.seconds {
                shared.stop.store(true, Ordering::Release);
            }
            let progress =
                figures.attempts.load(Ordering::Relaxed) + figures.accepted.load(Ordering::Relaxed);
            if progress != last.2 {
                last = (Instant::now(), last.1, progress);
            } else if last.0.elapsed() > PATIENCE {
                shared.failed.store(true, Ordering::Release);
                result = Err(LoadError::Stuck { seconds: PATIENCE.as_secs(), left: shared.left() });
            }
        }
        let mut end = begin;
        for worker in workers {
            match worker.join() {
                Ok((done, at)) => {
                    end = end.max(at);
                    result = result.and(done);
                }
                Err(_) => result = Err(LoadError::Panicked),
            }
        }
        for thread in background {
            result = result.and(thread.join().unwrap_or(Err(LoadError::Panicked)));
        }
        ((end - begin).as_secs_f64(), result)
    });
    result?;
    let accepted = std::mem::take(&mut *shared.accepted.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Ran { seconds, doubled: shared.network.doubled(), accepted })
}
