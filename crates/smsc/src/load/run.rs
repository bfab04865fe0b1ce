//! One run: so many clients and senders for so long, or for so many messages.

use super::figures::Figures;
use super::standstill::{DuePoller, Standstill};
use super::start::Start;
use super::{Bodies, Clock, LoadProfile, Pace, housekeeping, receiver, sender};
use crate::centre::{Archive, ArchiveError, RetryPolicy, Rules, SubmissionError};
use crate::network::{Network, NetworkProfile};
use crate::store::{Acknowledge, Durability, Session, Store, StoreError};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Who is told that a run stands still.
pub type OnStuck = Arc<dyn Fn(&LoadError) + Send + Sync>;

/// Who is told of accepted messages, by several threads.
pub type OnAccepted = Arc<dyn Fn(&[i64]) + Send + Sync>;

/// What a run does.
pub struct Plan {
    /// Which half.
    pub side: Side,
    /// Clients.
    pub receivers: usize,
    /// Senders.
    pub senders: usize,
    /// Messages under way for each client and sender at most; 1 waits for each. A sender keeps
    /// fewer in flight where the store is so slow that their claims could end before their
    /// completions are there.
    pub window: usize,
    /// Messages altogether; 0: as many as the time allows. For a Sender, how many are queued.
    pub messages: u64,
    /// Length, where no number of messages ends it, s. A Sender ends with the time, if one is
    /// given, or with the queue.
    pub seconds: f64,
    /// Closed or open loop.
    pub pace: Pace,
    /// What is sent.
    pub load: LoadProfile,
    /// How the network behaves.
    pub network: NetworkProfile,
    /// When to try again.
    pub retry: RetryPolicy,
    /// How long a claim holds: [`Rules::lease_us`] of the store.
    pub lease_us: i64,
    /// Whether clients and senders wait for commits to be durable. Without, what flushes cost is
    /// left out.
    pub acknowledge: Acknowledge,
    /// Whether timers and Flusher run.
    pub housekeeping: bool,
    /// Whether the run goes on until everything queued is final.
    pub drain: bool,
    /// How long something may be due while nothing happens, before the run ends as stuck.
    pub patience: Duration,
    /// Called with [`LoadError::Stuck`] when the run is found to stand still, before the store is
    /// given up and the threads are waited for: that takes for ever where a disk does not answer.
    pub on_stuck: Option<OnStuck>,
    /// Whether the numbers of accepted messages are kept.
    pub keep_accepted: bool,
    /// Called with numbers of accepted messages, after their acknowledgement.
    pub on_accepted: Option<OnAccepted>,
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
            lease_us: Rules::default().lease_us,
            acknowledge: Acknowledge::Durable,
            housekeeping: true,
            drain: true,
            patience: Duration::from_secs(60),
            on_stuck: None,
            keep_accepted: false,
            on_accepted: None,
            on_delivered: None,
        }
    }
}

impl Plan {
    /// Clients of a run.
    fn clients(&self) -> usize {
        if self.side == Side::Sender { 0 } else { self.receivers }
    }

    /// Senders of a run.
    fn sending(&self) -> usize {
        if self.side == Side::Receiver { 0 } else { self.senders }
    }

    /// What of acknowledged messages survives: less than the store promises, if nobody waits for
    /// it.
    #[must_use]
    pub fn durability(&self, store: &dyn Store) -> Durability {
        match self.acknowledge {
            Acknowledge::Durable => store.durability(),
            Acknowledge::Early => Durability::PowerCutPrefix,
        }
    }

    /// Sessions that a run opens at most: one for each client, two for each sender, one each for
    /// the timers, the Flusher, and to ask what is due.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.clients() + 2 * self.sending() + 3
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
    /// A session could not be opened.
    #[error("{who} cannot open a session: {source}")]
    Session {
        /// Whose it was to be.
        who: String,
        /// Why not.
        source: StoreError,
    },
    /// Something is due, and nothing happens.
    #[error(
        "stuck: nothing was attempted or accepted for {seconds} s, although {condition}; {left} messages are left; see `smsc check`"
    )]
    Stuck {
        /// How long.
        seconds: f64,
        /// What is due, in words.
        condition: String,
        /// How many are left.
        left: u64,
    },
}

/// What the threads of a run share.
pub(super) struct RunState<'a> {
    pub store: &'a dyn Store,
    pub plan: &'a Plan,
    pub network: Network,
    pub bodies: Bodies,
    pub clock: Clock,
    pub figures: &'a Figures,
    start: Start,
    taken: AtomicU64,
    /// Ends the clients.
    stop: AtomicBool,
    /// Ends the senders, too, whatever is queued.
    interrupted: AtomicBool,
    receivers_left: AtomicUsize,
    senders_left: AtomicUsize,
    /// A thread has failed: all end.
    failed: AtomicBool,
    accepted: Mutex<Vec<i64>>,
    /// When each client submits its next message, µs; 0 while it is at work.
    next_submission_us: Vec<AtomicI64>,
    /// Until when a message is in the air, if that takes long, µs.
    lands_us: AtomicI64,
    /// Messages that were tried in vain and wait to be tried again. A claim may be counted before
    /// the failure that it follows.
    waiting: AtomicI64,
    /// The fewest messages that a sender was held to, because the store was slow.
    held: AtomicUsize,
}

impl<'a> RunState<'a> {
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
    fn fail(&self) {
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
    pub fn lands(&self, at_us: i64) {
        self.lands_us.fetch_max(at_us, Ordering::Relaxed);
    }

    pub fn in_the_air(&self, now_us: i64) -> bool {
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
    fn due(&self) -> u64 {
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

/// How a run went, besides its [`Figures`].
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// From the start to the end of the last client and sender, s.
    pub seconds: f64,
    /// Times that a station had two messages in flight: must be 0.
    pub doubled: u64,
    /// How many messages a sender kept in flight in the end, where that was fewer than its window,
    /// because the store was slow.
    pub held: Option<usize>,
    /// The numbers of accepted messages, if they were kept.
    pub accepted: Vec<i64>,
}

/// The end of a thread, however it ends: all others end, too, unless it went well.
struct End<'a> {
    shared: &'a RunState<'a>,
    left: Option<&'a AtomicUsize>,
    well: bool,
}

impl<'a> End<'a> {
    /// Does a thread's work; its result, and when it ended.
    fn of(
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

/// What a run's watcher sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Since the start, s.
    pub elapsed_s: f64,
    /// Messages that are queued or in flight, receipts not counted.
    pub left: u64,
    /// How many of them wait to be tried again, because their station was absent or busy.
    pub waiting: u64,
}

/// Runs a plan; `watch` is called about four times a second, and ends the run by giving false: what
/// is queued stays queued.
///
/// # Errors
/// [`LoadError`]; the first thread's that failed.
pub fn run(
    store: &dyn Store,
    plan: &Plan,
    figures: &Figures,
    archive: Option<&mut Archive>,
    watch: &mut dyn FnMut(Moment) -> bool,
) -> Result<Ran, LoadError> {
    let (receivers, senders) = (plan.clients(), plan.sending());
    let shared = RunState {
        store,
        plan,
        network: Network::new(plan.network.clone()),
        bodies: Bodies::new(&plan.load),
        clock: Clock::default(),
        figures,
        start: Start::new(receivers + senders + 1),
        taken: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        interrupted: AtomicBool::new(false),
        receivers_left: AtomicUsize::new(receivers),
        senders_left: AtomicUsize::new(senders),
        failed: AtomicBool::new(false),
        accepted: Mutex::default(),
        next_submission_us: (0..receivers).map(|_| AtomicI64::new(0)).collect(),
        lands_us: AtomicI64::new(0),
        waiting: AtomicI64::new(0),
        held: AtomicUsize::new(usize::MAX),
    };
    let shared = &shared;
    let (seconds, result) = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 0..receivers {
            let work = move || receiver::run(shared, number, &plan.load, plan.window);
            workers.push(scope.spawn(move || End::of(shared, Some(&shared.receivers_left), work)));
        }
        for number in 0..senders {
            let work = move || sender::run(shared, number, plan.window);
            workers.push(scope.spawn(move || End::of(shared, Some(&shared.senders_left), work)));
        }
        let mut background = Vec::new();
        if plan.housekeeping && plan.side != Side::Receiver {
            background.push(scope.spawn(|| End::of(shared, None, || housekeeping::timers(shared))));
            if let (true, Some(archive)) = (store.has_flusher(), archive) {
                background
                    .push(scope.spawn(|| End::of(shared, None, || housekeeping::flusher(shared, archive))));
            }
        }
        let (mut result, _) = End::of(shared, None, || {
            let mut asker = None;
            if plan.sending() > 0 {
                let session = shared.session(Acknowledge::Early, || "who asks what is due".into())?;
                let (who, work) = DuePoller::new(session);
                background.push(scope.spawn(move || End::of(shared, None, work)));
                asker = Some(who);
            }
            watch_over(shared, asker, watch)
        });
        if let Err(error @ LoadError::Stuck { .. }) = &result {
            if let Some(tell) = &plan.on_stuck {
                tell(error);
            }
            // Whoever waits for an answer that does not come ends by this.
            store.abandon();
        }
        // Where all began, if they did; otherwise nothing was measured.
        let begin = shared.start.began().unwrap_or_else(Instant::now);
        let mut end = begin;
        for worker in workers {
            match worker.join() {
                Ok((done, at)) => {
                    end = end.max(at);
                    result = result.and(done);
                }
                Err(_) => result = result.and(Err(LoadError::Panicked)),
            }
        }
        for thread in background {
            let done = thread.join().map_or(Err(LoadError::Panicked), |(done, _)| done);
            result = result.and(done);
        }
        ((end - begin).as_secs_f64(), result)
    });
    result?;
    let accepted = std::mem::take(&mut *shared.accepted.lock().unwrap_or_else(PoisonError::into_inner));
    let held = shared.held.load(Ordering::Relaxed);
    let held = (held < usize::MAX).then_some(held);
    Ok(Ran { seconds, doubled: shared.network.doubled(), held, accepted })
}

/// The main thread's part of a run: starts it, ends its clients in time, and sees whether it stands
/// still.
fn watch_over(
    shared: &RunState<'_>,
    asker: Option<DuePoller>,
    watch: &mut dyn FnMut(Moment) -> bool,
) -> Result<(), LoadError> {
    let plan = shared.plan;
    let Some(begin) = shared.start.wait() else { return Ok(()) };
    let mut standstill = Standstill::new(shared, asker);
    let mut watched = 0;
    while !shared.housekeeping_ends() {
        std::thread::sleep(Duration::from_millis(2));
        let elapsed_s = begin.elapsed().as_secs_f64();
        if (elapsed_s * 4.0) as u64 != watched {
            watched = (elapsed_s * 4.0) as u64;
            // In this order: who stops waiting is told before who ends.
            let left = shared.left();
            let waiting = u64::try_from(shared.waiting.load(Ordering::Acquire)).unwrap_or(0).min(left);
            if !watch(Moment { elapsed_s, left, waiting }) {
                shared.interrupted.store(true, Ordering::Release);
                shared.stop.store(true, Ordering::Release);
            }
        }
        let timed = plan.messages == 0 || plan.seconds > 0.0;
        if timed && (plan.pace == Pace::Closed || !plan.drain) && elapsed_s >= plan.seconds {
            shared.stop.store(true, Ordering::Release);
        }
        standstill.check()?;
    }
    Ok(())
}
