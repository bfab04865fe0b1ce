//! Which call must wait for which.
//!
//! A call waits for two things. What others' *locks* had let it do when it was captured
//! (`locks.rs`) decides which rows it sees, so it is kept in any case. Calls that had *returned*
//! before it began may have been the reason that it was made at all, so it waits for them, too, but
//! only while its thread holds no lock: in another journal mode they may be waiting for that lock.
//! Where all threads wait, the second kind gives way.
//!
//! A lane that waits is parked, and unparked by the lane that does the last of what it waits for
//! (`watermark.rs`): what it computed meanwhile would count as its application's. It looks around
//! by itself only to find out that all wait.
//!
//! Whether all wait is looked at and not guessed from the time: on a busy machine a thread may get
//! no processor for long after what it waits for is done.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::locks::Tie;
use super::watermark::Watermark;
use crate::critical::Path;
use crate::engine::calls::Pauses;

/// Where lanes get their calls from.
pub trait CallSource: Sync {
    /// Whether the lane has calls to take, or knows that none follow.
    fn has_ready(&self, lane: usize) -> bool;

    /// All lanes wait: the reading goes on, whatever room it has. False where nothing more comes.
    fn read_on(&self) -> bool;
}

/// How far the reading and each lane have come. Calls are numbered over all lanes in the order in
/// which they returned when they were captured.
pub struct Order {
    /// All calls with smaller numbers have been handed to their lanes.
    horizon: Watermark,
    lanes: Vec<Progress>,
    counters: Vec<Counter>,
    stopped: AtomicBool,
    /// Lanes that wait long already, or have ended.
    waiting: Arc<AtomicUsize>,
    /// Of each connection: its pauses for locks.
    pauses: Mutex<Vec<Arc<Pauses>>>,
    /// Raised whenever one of them goes on, and whenever a wait begins.
    steps: Arc<AtomicU64>,
    /// Calls that did not wait for all that had returned before them, because nothing would have
    /// gone on.
    reordered_calls: AtomicU64,
    /// Checkpoints that are being made, and those that were.
    checkpoints: AtomicU64,
    checkpointed: AtomicU64,
    /// One of them has ended.
    checkpoint_ended: (Mutex<()>, Condvar),
    /// A parked lane looks around so often.
    looks: Duration,
}

/// A call, and the checkpoints that are made beside it.
pub struct Checkpoints<'a> {
    order: &'a Order,
    /// It makes one itself.
    is_one: bool,
    /// Those that were made when it began.
    before: u64,
}

impl Checkpoints<'_> {
    /// Whether another call made one meanwhile; waits until it has.
    pub fn has_other(self) -> bool {
        let made = || self.order.checkpointed.load(Ordering::Acquire);
        let being_made = || self.order.checkpoints.load(Ordering::Acquire) > u64::from(self.is_one);
        let is_being_made = being_made();
        let (lock, ended) = &self.order.checkpoint_ended;
        // Under the lock: who ends one, or stops the lanes, takes it before it wakes anybody.
        let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while being_made() && made() == self.before && !self.order.is_stopped() {
            guard = ended.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        is_being_made || made() != self.before
    }
}

impl Drop for Checkpoints<'_> {
    fn drop(&mut self) {
        if self.is_one {
            self.order.checkpointed.fetch_add(1, Ordering::AcqRel);
            self.order.checkpoints.fetch_sub(1, Ordering::AcqRel);
            self.order.wake_for_checkpoint();
        }
    }
}

/// A lane. The line of a processor's cache, so that lanes do not disturb each other.
#[derive(Default)]
#[repr(align(64))]
struct Progress {
    /// All calls of the lane with smaller numbers are done.
    done_below: Watermark,
    /// All calls that were handed to the lane have smaller numbers.
    handed_below: AtomicU64,
    /// What it rests for; none while it works.
    rests: Mutex<Option<IdleReason>>,
    /// What it waits for, where it waits for long.
    says: Mutex<Option<String>>,
    /// What its time consisted of up to its last call.
    path: Mutex<Path>,
}

#[derive(Default)]
#[repr(align(64))]
struct Counter {
    value: Watermark,
    /// The lane that raised it last.
    by: AtomicU32,
}

/// Looks before a waiting thread is parked: some take turns so quickly that parking costs more.
const SPINS: u32 = 20;
/// The last look where giving the processor away took longer: on a machine that is at other work
/// each takes a turn of some milliseconds of that.
const TURN: Duration = Duration::from_micros(500);

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'a> {
    /// Every call of another lane with a smaller number is done.
    pub after: u64,
    /// Counters have reached these values.
    pub needs: &'a [Tie],
}

/// Why a lane does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// Its next call waits for other calls and for counters.
    Wants(u64, Vec<Tie>),
    /// Its next calls are not read.
    Reading,
    /// It has none.
    Ended,
}

/// Since when all have been waiting.
struct AllWait {
    since: Instant,
    /// The steps at that time.
    steps: u64,
    /// Each connection's pauses at that time.
    pauses: Vec<u64>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// The call may begin at once.
    Free,
    /// It may begin after a wait, which this lane's call has ended; none where the reading did, or
    /// nothing.
    Released(Option<usize>),
    /// Another lane has failed.
    Stopped,
    /// No lane can go on.
    Stuck,
}

/// A wait of a lane that is parked.
struct Long {
    lane: usize,
    begin: Instant,
    all: Option<AllWait>,
}

/// What a call waits for at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HoldsUp {
    Counter(u32),
    Lane(usize),
    /// What is not read yet may stand before it.
    #[default]
    Reading,
}

impl HoldsUp {
    /// Who has ended it.
    fn lane(self, order: &Order) -> Option<usize> {
        match self {
            HoldsUp::Counter(counter) => {
                Some(order.counters[counter as usize].by.load(Ordering::Relaxed) as usize)
            }
            HoldsUp::Lane(lane) => Some(lane),
            HoldsUp::Reading => None,
        }
    }
}

/// All lanes wait for so long before calls stop waiting for those that had returned before them.
const GIVES_WAY: Duration = Duration::from_millis(20);
/// A parked lane looks around so often whether all wait: one that waits for a lock of SQLite's
/// tells nobody.
const LOOKS: Duration = Duration::from_millis(5);
/// A wait that lasts so long is described, for a message.
const LONG: Duration = Duration::from_millis(300);
/// All lanes wait for so long before the replay is given up.
const STUCK: Duration = Duration::from_millis(1500);

impl Order {
    /// Nothing is done. Counters are numbered from 0.
    pub fn new(lanes: usize, counters: usize) -> Order {
        let lanes = (0..lanes).map(|_| Progress::default()).collect();
        Order {
            horizon: Watermark::default(),
            lanes,
            counters: (0..counters).map(|_| Counter::default()).collect(),
            stopped: AtomicBool::new(false),
            waiting: Arc::default(),
            pauses: Mutex::default(),
            steps: Arc::default(),
            reordered_calls: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            checkpointed: AtomicU64::new(0),
            checkpoint_ended: Default::default(),
            looks: LOOKS,
        }
    }

    /// Waits until what a call needs is done; `describe` says what the call is and waits for, where
    /// the wait is long.
    ///
    /// Needs only point back in the order in which locks were held, and numbers in the order of
    /// returns, so as long as SQLite gives its locks as it did, somebody goes on. In another
    /// journal mode it may not: then nobody does, and that is found out.
    pub fn wait(
        &self,
        lane: usize,
        wanted: Requirements<'_>,
        feed: &dyn CallSource,
        describe: impl FnOnce() -> String,
    ) -> WaitResult {
        let mut spins = 0;
        let mut last: Option<HoldsUp> = None;
        while spins < SPINS {
            if self.is_stopped() {
                return WaitResult::Stopped;
            }
            match self.holds_up(lane, wanted) {
                None if spins == 0 => return WaitResult::Free,
                None => return WaitResult::Released(last.unwrap_or_default().lane(self)),
                holds_up => last = holds_up,
            }
            spins += 1;
            let began = Instant::now();
            std::thread::yield_now();
            if began.elapsed() > TURN {
                break;
            }
        }
        let long = Long { lane, begin: Instant::now(), all: None };
        self.wait_long(long, wanted, feed, last, describe)
    }

    fn wait_long(
        &self,
        mut long: Long,
        wanted: Requirements<'_>,
        feed: &dyn CallSource,
        mut last: Option<HoldsUp>,
        describe: impl FnOnce() -> String,
    ) -> WaitResult {
        let mut describe = Some(describe);
        let waited = loop {
            if self.is_stopped() {
                break WaitResult::Stopped;
            }
            let Some(holds_up) = self.holds_up(long.lane, wanted) else {
                break WaitResult::Released(last.unwrap_or_default().lane(self));
            };
            last = Some(holds_up);
            let (mark, least) = self.mark(holds_up, wanted);
            self.fall_asleep(long.lane, IdleReason::Wants(wanted.after, wanted.needs.to_vec()));
            mark.add_waiter(least);
            let end = loop {
                // Whoever raises it after this look unparks this thread.
                if self.is_stopped() || mark.value() >= least {
                    break None;
                }
                let is_met = !matches!(holds_up, HoldsUp::Counter(_));
                match self.all_wait(&mut long, is_met, feed) {
                    Ok(wait) => std::thread::park_timeout(wait),
                    Err(end) => break Some(end),
                }
                if long.begin.elapsed() > LONG
                    && let Some(describe) = describe.take()
                {
                    *self.says(long.lane) = Some(describe());
                }
            };
            if mark.remove_waiter() {
                self.count_awake();
            }
            self.rest(long.lane, None);
            if let Some(end) = end {
                break end;
            }
        };
        if waited != WaitResult::Stuck {
            *self.says(long.lane) = None;
        }
        waited
    }

    /// How long a parked lane may sleep before it looks again; or how its wait ends where all wait:
    /// one for what had returned (`is_met`: its locks are there) gives way, any other is stuck.
    fn all_wait(&self, long: &mut Long, is_met: bool, feed: &dyn CallSource) -> Result<Duration, WaitResult> {
        let steps = self.steps.load(Ordering::Acquire);
        let all_wait = self.waiting.load(Ordering::Acquire) >= self.lanes.len();
        // One that pauses for a lock and tries again in between has not gone on.
        long.all = long.all.take().filter(|all| all.steps == steps);
        if all_wait && long.all.is_none() {
            long.all = Some(AllWait { since: Instant::now(), steps, pauses: self.pauses_now() });
        }
        let Some(all) = &long.all else { return Ok(self.looks) };
        let all_for = all.since.elapsed();
        if all_for <= GIVES_WAY {
            return Ok(GIVES_WAY.saturating_sub(all_for) + Duration::from_micros(1));
        }
        if all_wait && !feed.read_on() && self.none_can(all, feed) {
            if is_met {
                self.reordered_calls.fetch_add(1, Ordering::Relaxed);
                return Err(WaitResult::Released(None));
            }
            if all_for > STUCK && self.none_gives_way() {
                return Err(WaitResult::Stuck);
            }
        }
        Ok(self.looks)
    }

    /// Whether no lane can go on: what each waits for is not done, and each that pauses for a lock
    /// was refused it again since nobody else did anything.
    fn none_can(&self, all: &AllWait, feed: &dyn CallSource) -> bool {
        let mut working = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            let rests = lane.rests.lock().unwrap_or_else(PoisonError::into_inner);
            let can = match &*rests {
                Some(IdleReason::Wants(after, needs)) => {
                    self.holds_up(number, Requirements { after: *after, needs }).is_none()
                }
                Some(IdleReason::Reading) => feed.has_ready(number),
                Some(IdleReason::Ended) => false,
                None => {
                    working += 1;
                    false
                }
            };
            if can {
                return false;
            }
        }
        let now = self.pauses_now();
        let was = |at: usize| all.pauses.get(at).copied().unwrap_or_default();
        let is_refused = |(at, now): &(usize, &u64)| *now % 2 == 1 && **now > was(*at) + 1;
        let refused = now.iter().enumerate().filter(is_refused).count();
        refused >= working && self.steps.load(Ordering::Acquire) == all.steps
    }

    /// Whether none of those that wait will give way, and each has said what it waits for. One that
    /// gets no processor for long does both once it has one.
    fn none_gives_way(&self) -> bool {
        self.lanes.iter().enumerate().all(|(number, lane)| {
            let rests = lane.rests.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(IdleReason::Wants(after, needs)) = rests else { return true };
            let holds_up = self.holds_up(number, Requirements { after, needs: &needs });
            matches!(holds_up, Some(HoldsUp::Counter(_))) && self.says(number).is_some()
        })
    }

    fn pauses_now(&self) -> Vec<u64> {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.iter().map(|pauses| pauses.number()).collect()
    }

    /// The number that must be raised before what holds a call up no longer does, and to what.
    fn mark(&self, holds_up: HoldsUp, wanted: Requirements<'_>) -> (&Watermark, u64) {
        match holds_up {
            HoldsUp::Counter(counter) => {
                let of_counter = |need: &&Tie| need.counter == counter;
                let least = wanted.needs.iter().filter(of_counter).map(|need| need.at_least).max();
                (&self.counters[counter as usize].value, least.unwrap_or(0))
            }
            HoldsUp::Lane(lane) => {
                let lane = &self.lanes[lane];
                // When it has done what it was handed; what comes to that is handed later.
                let handed_below = lane.handed_below.load(Ordering::Acquire);
                (&lane.done_below, wanted.after.min(handed_below))
            }
            HoldsUp::Reading => (&self.horizon, wanted.after),
        }
    }

    /// Lanes that were parked go on.
    fn unpark(&self, threads: Vec<Thread>) {
        for thread in threads {
            // For it: as long as it has no processor it would seem to wait.
            self.count_awake();
            thread.unpark();
        }
    }

    fn wake_for_checkpoint(&self) {
        let (lock, ended) = &self.checkpoint_ended;
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        ended.notify_all();
    }

    fn says(&self, lane: usize) -> std::sync::MutexGuard<'_, Option<String>> {
        // A text is set whole or not at all.
        self.lanes[lane].says.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lanes that wait for long wait for, this one first.
    pub fn waits(&self, lane: usize) -> Vec<String> {
        let others = (0..self.lanes.len()).filter(|other| *other != lane);
        std::iter::once(lane).chain(others).filter_map(|lane| self.says(lane).clone()).collect()
    }

    /// The lane waits for long, or has ended.
    pub fn fall_asleep(&self, lane: usize, rests: IdleReason) {
        self.rest(lane, Some(rests));
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// It goes on.
    pub fn wake_up(&self, lane: usize) {
        self.count_awake();
        self.rest(lane, None);
    }

    fn count_awake(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    fn rest(&self, lane: usize, rests: Option<IdleReason>) {
        *self.lanes[lane].rests.lock().unwrap_or_else(PoisonError::into_inner) = rests;
    }

    /// For a connection that tells its pauses for locks.
    pub fn pauses(&self) -> Arc<Pauses> {
        let pauses = Arc::new(Pauses::new(Arc::clone(&self.waiting), Arc::clone(&self.steps)));
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&pauses));
        pauses
    }

    /// Calls that began before others that had returned before them.
    pub fn reordered_calls(&self) -> u64 {
        self.reordered_calls.load(Ordering::Relaxed)
    }

    /// Something that a call has to wait for still: a counter before all else.
    fn holds_up(&self, lane: usize, wanted: Requirements<'_>) -> Option<HoldsUp> {
        let value = |counter: u32| self.counters[counter as usize].value.value();
        let unmet = wanted.needs.iter().find(|need| value(need.counter) < need.at_least);
        match unmet {
            Some(need) => Some(HoldsUp::Counter(need.counter)),
            None => self.not_done_below(lane, wanted.after),
        }
    }

    fn not_done_below(&self, lane: usize, number: u64) -> Option<HoldsUp> {
        if number == 0 {
            return None;
        }
        if self.horizon.value() < number {
            return Some(HoldsUp::Reading);
        }
        // A lane that has done all that was handed to it has nothing left below the horizon.
        let is_behind = |other: &Progress| {
            let done_below = other.done_below.value();
            done_below < number && done_below < other.handed_below.load(Ordering::Acquire)
        };
        let mut others = self.lanes.iter().enumerate().filter(|(other, _)| *other != lane);
        others.find(|(_, other)| is_behind(other)).map(|(other, _)| HoldsUp::Lane(other))
    }

    /// A lane's call is done that counts here.
    pub fn raise(&self, lane: usize, counter: u32) {
        let counter = &self.counters[counter as usize];
        counter.by.store(lane as u32, Ordering::Relaxed);
        self.unpark(counter.value.raise());
    }

    /// What a lane's time consisted of, before it lets others go on.
    pub fn tell_path(&self, lane: usize, path: Path) {
        *self.lanes[lane].path.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }

    /// The same of any lane.
    pub fn path_of(&self, lane: usize) -> Path {
        *self.lanes[lane].path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins, which makes a checkpoint or not.
    pub fn checkpoints(&self, is_one: bool) -> Checkpoints<'_> {
        self.checkpoints.fetch_add(u64::from(is_one), Ordering::AcqRel);
        Checkpoints { order: self, is_one, before: self.checkpointed.load(Ordering::Acquire) }
    }

    /// All calls of the lane below this number are done.
    pub fn arrive(&self, lane: usize, number: u64) {
        self.unpark(self.lanes[lane].done_below.raise_to(number));
    }

    /// Calls up to and excluding `number` were handed to the lane.
    pub fn hand(&self, lane: usize, number: u64) {
        self.lanes[lane].handed_below.store(number, Ordering::Release);
    }

    /// All calls below `number` were handed to their lanes.
    pub fn handed_all_below(&self, number: u64) {
        self.unpark(self.horizon.raise_to(number));
    }

    /// A lane or the reading has failed: the others stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let of_lanes = self.lanes.iter().map(|lane| &lane.done_below);
        let of_counters = self.counters.iter().map(|counter| &counter.value);
        for mark in of_lanes.chain(of_counters).chain([&self.horizon]) {
            self.unpark(mark.remove_all());
        }
        self.wake_for_checkpoint();
    }

    /// Whether one has.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use fathom_random::Random;

    use super::super::feed::Feed;
    use super::*;

    fn after(number: u64) -> Requirements<'static> {
        Requirements { after: number, needs: &[] }
    }

    #[test]
    fn a_call_waits_for_what_is_handed_and_not_done_and_for_what_is_not_read_yet() {
        let order = Order::new(2, 0);
        assert!(order.not_done_below(0, 5).is_some(), "what was not read may belong to the other lane");
        order.hand(1, 4);
        order.handed_all_below(6);
        assert!(order.not_done_below(0, 5).is_some(), "calls up to 3 are not done");
        order.arrive(1, 3);
        assert_eq!(order.not_done_below(0, 5), Some(HoldsUp::Lane(1)));
        assert!(order.not_done_below(0, 3).is_none());
        order.arrive(1, 4);
        assert!(order.not_done_below(0, 5).is_none(), "the other lane has nothing between");
        order.hand(1, 9);
        order.handed_all_below(10);
        assert!(
            order.not_done_below(0, 5).is_some(),
            "4 may be there now: it looks before the lane says what comes next"
        );
        order.arrive(1, 8);
        assert!(order.not_done_below(0, 5).is_none());
        order.stop();
        let feed = Feed::new(2, 1 << 20);
        assert_eq!(order.wait(0, after(5), &feed, String::new), WaitResult::Stopped);
    }

    /// A call beside which no checkpoint was made was refused its lock for another reason.
    #[test]
    fn a_call_knows_of_the_checkpoints_that_others_made_meanwhile() {
        let order = Order::new(2, 0);
        assert!(!order.checkpoints(false).has_other());
        let (call, checkpoint) = (order.checkpoints(false), order.checkpoints(true));
        drop(checkpoint);
        assert!(call.has_other());
        assert!(!order.checkpoints(false).has_other());
        let (checkpoint, other) = (order.checkpoints(true), order.checkpoints(true));
        drop(other);
        assert!(checkpoint.has_other());
    }

    /// An order with one counter, and all that its two lanes have to do handed out.
    fn two_lanes() -> (Order, Feed) {
        let feed = Feed::new(2, 1 << 20);
        feed.close();
        let order = Order::new(2, 1);
        order.hand(0, 9);
        order.hand(1, 9);
        order.handed_all_below(9);
        (order, feed)
    }

    /// Two lanes that wait for each other: one only for what had returned, which gives way; and
    /// where both wait for locks, both say so.
    #[test]
    fn where_all_wait_what_had_returned_gives_way_and_locks_do_not() {
        let (order, feed) = two_lanes();
        let needs = [Tie { counter: 0, at_least: 1 }];
        let wanted = Requirements { after: 0, needs: &needs };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| order.wait(1, wanted, &feed, String::new));
            assert_eq!(order.wait(0, after(5), &feed, String::new), WaitResult::Released(None));
            assert_eq!(order.reordered_calls(), 1);
            order.raise(0, 0);
            assert_eq!(other.join().expect("no panic"), WaitResult::Released(Some(0)));
        });
        let needs = [Tie { counter: 0, at_least: 2 }];
        let wanted = Requirements { after: 0, needs: &needs };
        // Whoever finds it out first says so and stops the other one.
        let wait = |lane, name: &'static str| {
            let waited = order.wait(lane, wanted, &feed, || name.into());
            let waits = (waited == WaitResult::Stuck).then(|| order.waits(lane));
            order.stop();
            waits
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| wait(1, "the other"));
            let own = wait(0, "this");
            let mut told = own.or(other.join().expect("no panic")).expect("one was stuck");
            told.sort_unstable();
            assert_eq!(told, ["the other", "this"]);
        });
    }

    /// What happened: a lane that waited only for what had returned got no processor for 1.5 s, in
    /// which it would have given way. Another one, which waited for a lock, took the replay for
    /// stuck and gave it up.
    #[test]
    fn a_lane_that_would_give_way_and_gets_no_processor_is_waited_for() {
        let (order, feed) = two_lanes();
        let needs = [Tie { counter: 0, at_least: 1 }];
        let wanted = Requirements { after: 0, needs: &needs };
        std::thread::scope(|scope| {
            // Lane 0 waits for calls of lane 1 alone, and sleeps on.
            order.fall_asleep(0, IdleReason::Wants(5, Vec::new()));
            let other = scope.spawn(|| order.wait(1, wanted, &feed, String::new));
            until_rests(&order, 1);
            std::thread::sleep(STUCK + STUCK / 4);
            order.wake_up(0);
            order.raise(0, 0);
            assert_eq!(other.join().expect("no panic"), WaitResult::Released(Some(0)));
        });
    }

    /// What happened: a lane that waited looked every 20 µs whether it was its turn, and what that
    /// computed counted as its application's, so that live runs of several threads had up to 10 %
    /// more CPU time than their recordings. Here it waits for 5,000 calls of another one, half a
    /// second: by looking that takes a tenth of it (1/20 where the limit lies). On a busy machine
    /// the calls take longer, in which it looks around more often: so its part of the time counts,
    /// and the best of several.
    #[test]
    fn a_lane_that_waits_computes_next_to_nothing() {
        let share = || {
            let feed = Feed::new(2, 1 << 20);
            let order = Order::new(2, 0);
            order.hand(1, 5000);
            order.handed_all_below(5000);
            let begin = Instant::now();
            let waited_ns = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let before_ns = crate::clock::thread_cpu_ns();
                    let waited = order.wait(0, after(5000), &feed, String::new);
                    assert_eq!(waited, WaitResult::Released(Some(1)));
                    crate::clock::thread_cpu_ns() - before_ns
                });
                // One that begins when all is done waits for nothing.
                until_rests(&order, 0);
                for number in 1..=5000 {
                    std::thread::sleep(Duration::from_micros(100));
                    order.arrive(1, number);
                }
                waiting.join().expect("no panic")
            });
            let elapsed = begin.elapsed();
            println!("{waited_ns} ns of CPU time in {elapsed:?}");
            waited_ns as f64 / elapsed.as_nanos() as f64
        };
        assert!((0..3).any(|_| share() < 0.02), "it computes while it waits");
    }

    /// A call of a random order: its lane, what it waits for, and what it raises.
    struct Drawn {
        lane: usize,
        after: u64,
        needs: Vec<Tie>,
        gives: Option<u32>,
    }

    /// An order in which calls could have been made one after the other, by their numbers.
    fn drawn(random: &mut Random, lanes: usize, counters: usize, calls: u64) -> Vec<Drawn> {
        let mut values = vec![0; counters];
        let mut call = |number: u64| {
            let after = if random.below(3) == 0 { number - random.below(number.min(4) + 1) } else { 0 };
            let mut needs = Vec::new();
            for _ in 0..random.below(3) {
                let counter = random.below(counters as u64) as usize;
                needs.push(Tie { counter: counter as u32, at_least: values[counter] });
            }
            let gives = (random.below(2) == 0).then(|| random.below(counters as u64) as u32);
            gives.iter().for_each(|counter| values[*counter as usize] += 1);
            Drawn { lane: random.below(lanes as u64) as usize, after, needs, gives }
        };
        (0..calls).map(&mut call).collect()
    }

    /// A lane: what it is handed, it does in the order that it waits for. Gives how often it met a
    /// call that had to be done before.
    fn lane(
        number: usize,
        order: &Order,
        feed: &Feed,
        handed: &Receiver<Vec<u64>>,
        (all, done): (&[Drawn], &[AtomicBool]),
    ) -> usize {
        let mut early = 0;
        loop {
            order.fall_asleep(number, IdleReason::Reading);
            let batch = handed.recv();
            order.wake_up(number);
            let Ok(batch) = batch else { break };
            for call in &batch {
                let drawn = &all[*call as usize];
                order.arrive(number, *call);
                let wanted = Requirements { after: drawn.after, needs: &drawn.needs };
                let waited = order.wait(number, wanted, feed, String::new);
                assert!(matches!(waited, WaitResult::Free | WaitResult::Released(_)), "{waited:?}");
                let before = &done[..drawn.after as usize];
                early += before.iter().filter(|done| !done.load(Ordering::Acquire)).count();
                done[*call as usize].store(true, Ordering::Release);
                drawn.gives.iter().for_each(|counter| order.raise(number, *counter));
            }
            batch.last().iter().for_each(|last| order.arrive(number, **last + 1));
        }
        order.arrive(number, u64::MAX);
        order.fall_asleep(number, IdleReason::Ended);
        early
    }

    /// Lanes that are parked are unparked by what they wait for, and by nothing else here: they
    /// look around by themselves every hour. Whoever missed it would wait for ever.
    #[test]
    fn a_random_order_of_many_lanes_always_ends() {
        const CALLS: u64 = 2000;
        for seed in 0..30 {
            let random = &mut Random::new(seed);
            let (lanes, counters) = (2 + random.below(23) as usize, 1 + random.below(6) as usize);
            let all = Arc::new(drawn(random, lanes, counters, CALLS));
            let order = Arc::new(Order { looks: Duration::from_hours(1), ..Order::new(lanes, counters) });
            let (says, ended) = channel();
            let mut hands = Vec::new();
            let done: Arc<Vec<AtomicBool>> = Arc::new((0..CALLS).map(|_| AtomicBool::new(false)).collect());
            let feed = Arc::new(Feed::new(lanes, 1 << 20));
            for number in 0..lanes {
                let (hand, handed) = channel();
                hands.push(hand);
                let (all, order, done) = (Arc::clone(&all), Arc::clone(&order), Arc::clone(&done));
                let (says, feed) = (says.clone(), Arc::clone(&feed));
                std::thread::spawn(move || says.send(lane(number, &order, &feed, &handed, (&all, &done))));
            }
            for from in (0..CALLS).step_by(97) {
                let to = (from + 97).min(CALLS);
                for (number, hand) in hands.iter().enumerate() {
                    let own: Vec<u64> =
                        (from..to).filter(|call| all[*call as usize].lane == number).collect();
                    let Some(last) = own.last() else { continue };
                    order.hand(number, last + 1);
                    hand.send(own).expect("the lane lives");
                }
                order.handed_all_below(to);
            }
            drop(hands);
            let early: usize = (0..lanes)
                .map(|_| ended.recv_timeout(Duration::from_mins(2)).expect("a lane waits for ever"))
                .sum();
            // One that gave way, because no lane had a processor for long, was allowed to.
            assert!(early == 0 || order.reordered_calls() > 0, "seed {seed}: {early} calls came too early");
        }
    }

    /// Waits until a lane waits, which on a busy machine may be long after it was started.
    fn until_rests(order: &Order, lane: usize) {
        while order.lanes[lane].rests.lock().expect("no panic").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What happened: on a busy machine a thread got no processor for 20 ms after what it waited
    /// for was done. Another one took all to be waiting for each other and began before its turn,
    /// so that replays of one imported application left different contents.
    #[test]
    fn a_lane_that_could_go_on_and_gets_no_processor_is_waited_for() {
        let feed = Feed::new(2, 1 << 20);
        feed.close();
        let order = Order::new(2, 0);
        order.hand(0, 9);
        order.hand(1, 9);
        order.handed_all_below(9);
        order.arrive(0, 5);
        std::thread::scope(|scope| {
            // Lane 1 waits for call 4 of lane 0, which is done, and sleeps on.
            order.fall_asleep(1, IdleReason::Wants(5, Vec::new()));
            let own = scope.spawn(|| order.wait(0, after(5), &feed, String::new));
            until_rests(&order, 0);
            std::thread::sleep(GIVES_WAY * 5);
            assert!(!own.is_finished());
            order.wake_up(1);
            order.arrive(1, 5);
            assert_eq!(own.join().expect("no panic"), WaitResult::Released(Some(1)));
        });
        assert_eq!(order.reordered_calls(), 0);
    }

    /// The same of a lane that pauses for a lock: it may be free already.
    #[test]
    fn a_lane_that_pauses_for_a_lock_tries_once_more_before_another_gives_way() {
        let feed = Feed::new(2, 1 << 20);
        feed.close();
        let order = Order::new(2, 0);
        order.hand(0, 9);
        order.hand(1, 9);
        order.handed_all_below(9);
        let pauses = order.pauses();
        std::thread::scope(|scope| {
            pauses.begin(true);
            let own = scope.spawn(|| order.wait(0, after(5), &feed, String::new));
            until_rests(&order, 0);
            std::thread::sleep(GIVES_WAY * 5);
            assert!(!own.is_finished());
            // As SQLite does: again and again. Of a single time nothing would follow if it came
            // before the other lane had looked around, as it did once on a busy machine, for ever.
            while !own.is_finished() {
                pauses.end();
                pauses.begin(false);
                std::thread::sleep(GIVES_WAY);
            }
            assert_eq!(own.join().expect("no panic"), WaitResult::Released(None));
        });
        assert_eq!(order.reordered_calls(), 1);
    }
}
