//! Which call must wait for which.
//!
//! A call waits for two things. What others' *locks* had let it do when it was captured
//! (`locks.rs`) decides which rows it sees, so it is kept in any case. Calls that had *returned*
//! before it began may have been the reason that it was made at all, so it waits for them, too, but
//! only while its thread holds no lock: in another journal mode they may be waiting for that lock.
//! Where all threads wait, the second kind gives way.
//!
//! Whether all wait is looked at and not guessed from the time: on a busy machine a thread may get
//! no processor for long after what it waits for is done.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::feed::Feed;
use super::locks::Tie;
use crate::critical::Path;
use crate::engine::calls::Pauses;

/// How far the reading and each lane have come. Calls are numbered over all lanes in the order in
/// which they returned when they were captured.
pub struct Order {
    /// All calls with smaller numbers have been handed to their lanes.
    horizon: AtomicU64,
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
    gave_way: AtomicU64,
    /// Checkpoints that are being made, and those that were.
    checkpoints: AtomicU64,
    checkpointed: AtomicU64,
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
    pub fn met_one(self) -> bool {
        let made = || self.order.checkpointed.load(Ordering::Acquire);
        let being_made = || self.order.checkpoints.load(Ordering::Acquire) > u64::from(self.is_one);
        let is_being_made = being_made();
        while being_made() && made() == self.before && !self.order.is_stopped() {
            std::thread::yield_now();
        }
        is_being_made || made() != self.before
    }
}

impl Drop for Checkpoints<'_> {
    fn drop(&mut self) {
        if self.is_one {
            self.order.checkpointed.fetch_add(1, Ordering::AcqRel);
            self.order.checkpoints.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A lane. The line of a processor's cache, so that lanes do not disturb each other.
#[derive(Default)]
#[repr(align(64))]
struct Progress {
    /// All calls of the lane with smaller numbers are done.
    done_below: AtomicU64,
    /// All calls that were handed to the lane have smaller numbers.
    handed_below: AtomicU64,
    /// What it rests for; none while it works.
    rests: Mutex<Option<Rest>>,
    /// What it waits for, where it waits for long.
    says: Mutex<Option<String>>,
    /// What its time consisted of up to its last call.
    path: Mutex<Path>,
}

#[derive(Default)]
#[repr(align(64))]
struct Counter {
    value: AtomicU64,
    /// The lane that raised it last.
    by: AtomicU32,
}

/// Looks before a waiting thread gives its processor away.
const SPINS: u32 = 200;

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
pub enum Rest {
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
pub enum Waited {
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
/// A wait that lasts so long is described, for a message.
const LONG: Duration = Duration::from_millis(300);
/// All lanes wait for so long before the replay is given up.
const STUCK: Duration = Duration::from_millis(1500);

impl Order {
    /// Nothing is done. Counters are numbered from 0.
    pub fn new(lanes: usize, counters: usize) -> Order {
        let lanes = (0..lanes).map(|_| Progress::default()).collect();
        Order {
            horizon: AtomicU64::new(0),
            lanes,
            counters: (0..counters).map(|_| Counter::default()).collect(),
            stopped: AtomicBool::new(false),
            waiting: Arc::default(),
            pauses: Mutex::default(),
            steps: Arc::default(),
            gave_way: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            checkpointed: AtomicU64::new(0),
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
        feed: &Feed,
        describe: impl FnOnce() -> String,
    ) -> Waited {
        let mut spins = 0;
        let mut last: Option<HoldsUp> = None;
        while spins < SPINS {
            if self.is_stopped() {
                return Waited::Stopped;
            }
            match self.holds_up(lane, wanted) {
                None if spins == 0 => return Waited::Free,
                None => return Waited::Released(last.unwrap_or_default().lane(self)),
                holds_up => last = holds_up,
            }
            spins += 1;
            std::thread::yield_now();
        }
        self.fall_asleep(lane, Rest::Wants(wanted.after, wanted.needs.to_vec()));
        let waited = self.wait_long(lane, wanted, feed, last, describe);
        self.wake_up(lane);
        waited
    }

    fn wait_long(
        &self,
        lane: usize,
        wanted: Requirements<'_>,
        feed: &Feed,
        mut last: Option<HoldsUp>,
        describe: impl FnOnce() -> String,
    ) -> Waited {
        let mut describe = Some(describe);
        let begin = Instant::now();
        let mut all: Option<AllWait> = None;
        let waited = loop {
            if self.is_stopped() {
                break Waited::Stopped;
            }
            let holds_up = self.holds_up(lane, wanted);
            if holds_up.is_none() {
                break Waited::Released(last.unwrap_or_default().lane(self));
            }
            last = holds_up;
            let is_met = !matches!(holds_up, Some(HoldsUp::Counter(_)));
            let steps = self.steps.load(Ordering::Acquire);
            let all_wait = self.waiting.load(Ordering::Acquire) >= self.lanes.len();
            all = all.filter(|all| all.steps == steps);
            if all_wait && all.is_none() {
                all = Some(AllWait { since: Instant::now(), steps, pauses: self.pauses_now() });
            }
            let all_for = all.as_ref().map_or(Duration::ZERO, |all| all.since.elapsed());
            let is_long = all_wait && all_for > GIVES_WAY && !feed.read_on();
            if is_long && all.as_ref().is_some_and(|all| self.none_can(all, feed)) {
                if is_met {
                    self.gave_way.fetch_add(1, Ordering::Relaxed);
                    break Waited::Released(None);
                }
                if all_for > STUCK {
                    break Waited::Stuck;
                }
            }
            if begin.elapsed() > LONG
                && let Some(describe) = describe.take()
            {
                *self.says(lane) = Some(describe());
            }
            std::thread::sleep(Duration::from_micros(20));
        };
        if waited != Waited::Stuck {
            *self.says(lane) = None;
        }
        waited
    }

    /// Whether no lane can go on: what each waits for is not done, and each that pauses for a lock
    /// was refused it again since nobody else did anything.
    fn none_can(&self, all: &AllWait, feed: &Feed) -> bool {
        let mut working = 0;
        for (number, lane) in self.lanes.iter().enumerate() {
            let rests = lane.rests.lock().unwrap_or_else(PoisonError::into_inner);
            let can = match &*rests {
                Some(Rest::Wants(after, needs)) => {
                    self.holds_up(number, Requirements { after: *after, needs }).is_none()
                }
                Some(Rest::Reading) => feed.has_ready(number),
                Some(Rest::Ended) => false,
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

    fn pauses_now(&self) -> Vec<u64> {
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.iter().map(|pauses| pauses.number()).collect()
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
    pub fn fall_asleep(&self, lane: usize, rests: Rest) {
        self.rest(lane, Some(rests));
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// It goes on.
    pub fn wake_up(&self, lane: usize) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.rest(lane, None);
    }

    fn rest(&self, lane: usize, rests: Option<Rest>) {
        *self.lanes[lane].rests.lock().unwrap_or_else(PoisonError::into_inner) = rests;
    }

    /// For a connection that tells its pauses for locks.
    pub fn pauses(&self) -> Arc<Pauses> {
        let pauses = Arc::new(Pauses::new(Arc::clone(&self.waiting), Arc::clone(&self.steps)));
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&pauses));
        pauses
    }

    /// Calls that began before others that had returned before them.
    pub fn gave_way(&self) -> u64 {
        self.gave_way.load(Ordering::Relaxed)
    }

    /// Something that a call has to wait for still: a counter before all else.
    fn holds_up(&self, lane: usize, wanted: Requirements<'_>) -> Option<HoldsUp> {
        let value = |counter: u32| self.counters[counter as usize].value.load(Ordering::Acquire);
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
        if self.horizon.load(Ordering::Acquire) < number {
            return Some(HoldsUp::Reading);
        }
        // A lane that has done all that was handed to it has nothing left below the horizon.
        let is_behind = |other: &Progress| {
            let done_below = other.done_below.load(Ordering::Acquire);
            done_below < number && done_below < other.handed_below.load(Ordering::Acquire)
        };
        let mut others = self.lanes.iter().enumerate().filter(|(other, _)| *other != lane);
        others.find(|(_, other)| is_behind(other)).map(|(other, _)| HoldsUp::Lane(other))
    }

    /// A lane's call is done that counts here.
    pub fn raise(&self, lane: usize, counter: u32) {
        let counter = &self.counters[counter as usize];
        counter.by.store(lane as u32, Ordering::Relaxed);
        counter.value.fetch_add(1, Ordering::AcqRel);
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
        self.lanes[lane].done_below.store(number, Ordering::Release);
    }

    /// Calls up to and excluding `number` were handed to the lane.
    pub fn hand(&self, lane: usize, number: u64) {
        self.lanes[lane].handed_below.store(number, Ordering::Release);
    }

    /// All calls below `number` were handed to their lanes.
    pub fn handed_all_below(&self, number: u64) {
        self.horizon.store(number, Ordering::Release);
    }

    /// A lane or the reading has failed: the others stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether one has.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(order.wait(0, after(5), &feed, String::new), Waited::Stopped);
    }

    /// A call beside which no checkpoint was made was refused its lock for another reason.
    #[test]
    fn a_call_knows_of_the_checkpoints_that_others_made_meanwhile() {
        let order = Order::new(2, 0);
        assert!(!order.checkpoints(false).met_one());
        let (call, checkpoint) = (order.checkpoints(false), order.checkpoints(true));
        drop(checkpoint);
        assert!(call.met_one());
        assert!(!order.checkpoints(false).met_one());
        let (checkpoint, other) = (order.checkpoints(true), order.checkpoints(true));
        drop(other);
        assert!(checkpoint.met_one());
    }

    /// Two lanes that wait for each other: one only for what had returned, which gives way; and
    /// where both wait for locks, both say so.
    #[test]
    fn where_all_wait_what_had_returned_gives_way_and_locks_do_not() {
        let feed = Feed::new(2, 1 << 20);
        feed.close();
        let order = Order::new(2, 1);
        order.hand(0, 9);
        order.hand(1, 9);
        order.handed_all_below(9);
        let needs = [Tie { counter: 0, at_least: 1 }];
        let wanted = Requirements { after: 0, needs: &needs };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| order.wait(1, wanted, &feed, String::new));
            assert_eq!(order.wait(0, after(5), &feed, String::new), Waited::Released(None));
            assert_eq!(order.gave_way(), 1);
            order.raise(0, 0);
            assert_eq!(other.join().expect("no panic"), Waited::Released(Some(0)));
        });
        let needs = [Tie { counter: 0, at_least: 2 }];
        let wanted = Requirements { after: 0, needs: &needs };
        // Whoever finds it out first says so and stops the other one.
        let wait = |lane, name: &'static str| {
            let waited = order.wait(lane, wanted, &feed, || name.into());
            let waits = (waited == Waited::Stuck).then(|| order.waits(lane));
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
            order.fall_asleep(1, Rest::Wants(5, Vec::new()));
            let own = scope.spawn(|| order.wait(0, after(5), &feed, String::new));
            std::thread::sleep(GIVES_WAY * 5);
            assert!(!own.is_finished());
            order.wake_up(1);
            order.arrive(1, 5);
            assert_eq!(own.join().expect("no panic"), Waited::Released(Some(1)));
        });
        assert_eq!(order.gave_way(), 0);
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
            std::thread::sleep(GIVES_WAY * 5);
            assert!(!own.is_finished());
            pauses.end();
            pauses.begin(false);
            assert_eq!(own.join().expect("no panic"), Waited::Released(None));
        });
        assert_eq!(order.gave_way(), 1);
    }
}
