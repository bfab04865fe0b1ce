//! One run: so many clients and senders for so long, or for so many messages.

use super::figures::Figures;
use super::plan::{LoadError, Pace, Plan, Side};
use super::standstill::{DuePoller, Standstill};
use super::start::Start;
use super::state::{End, RunState};
use super::{Bodies, Clock, housekeeping, receiver, sender};
use crate::centre::Archive;
use crate::network::Network;
use crate::store::{Acknowledge, Store};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a run went, besides its [`Figures`].
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// From the start to the end of the last client and sender, and of an open loop its length at
    /// least, s.
    pub seconds: f64,
    /// Times that a station had two messages in flight: must be 0.
    pub doubled: u64,
    /// How many messages a sender kept in flight in the end, where that was fewer than its window,
    /// because the store was slow.
    pub held: Option<usize>,
    /// The numbers of accepted messages, if they were kept.
    pub accepted: Vec<i64>,
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
        overdue: Mutex::default(),
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
            workers.push(scope.spawn(move || {
                let ended = End::of(shared, Some(&shared.receivers_left), work);
                shared.count_overdue();
                ended
            }));
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
        let seconds = (end - begin).as_secs_f64();
        // An open loop lasts as long as its arrivals may come, although the last of them came
        // earlier.
        let seconds =
            if matches!(plan.pace, Pace::Open { .. }) { seconds.max(plan.seconds) } else { seconds };
        (seconds, result)
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
