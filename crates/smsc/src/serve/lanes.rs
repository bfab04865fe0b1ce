//! The lanes of an account: which have something in flight, and which may have something queued.
//!
//! To look at a lane is to claim it, which takes a store that is a server two round trips. So all
//! of them are looked at seldom, and otherwise those of which something is known: a message was put
//! there, or waits there for another attempt. Looking at all of them twice in a second, as was done
//! before, took a server that is a millisecond away a thousand round trips for each application
//! that was bound and had nothing, and all other claims waited behind.

use crate::model::ESME_LANES;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// How long a lane is looked at again and again that is said to have something: it may not be
/// stored yet when that is said, or just be locked.
const LIKELY: Duration = Duration::from_secs(5);
/// How often all are looked at, whatever is known.
const ALL: Duration = Duration::from_secs(60);
/// Looks at all that nobody waits for are so many times as far apart as one of them takes.
const APART: u32 = 20;

pub(super) struct Lanes {
    /// Those that have nothing in flight and may have something queued, by number.
    waiting: BTreeSet<u32>,
    /// Those that have something in flight, or a completion under way.
    busy: BTreeSet<u32>,
    /// Those that are to be looked at again where a claim gives nothing, and until when; none until
    /// something comes, as it waits for another attempt.
    likely: HashMap<u32, Option<Instant>>,
    /// When all were looked at last.
    looked: Instant,
    /// How long that takes, by the last claim.
    cost: Duration,
    /// Whether all are to be looked at again as soon as that is not too often.
    is_soon: bool,
    /// Where the next claim begins.
    turn: u32,
}

impl Lanes {
    /// All may have something.
    pub fn new(now: Instant) -> Lanes {
        let (busy, likely) = (BTreeSet::new(), HashMap::new());
        let (cost, is_soon) = (Duration::ZERO, false);
        Lanes { waiting: (0..ESME_LANES).collect(), busy, likely, looked: now, cost, is_soon, turn: 0 }
    }

    /// Whether any may have something.
    pub fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Some that may have something, to be claimed; round all of them, so that the last gets its
    /// turn as the first does.
    pub fn take(&mut self, most: usize) -> Vec<u32> {
        let after = self.waiting.range(self.turn..).chain(self.waiting.range(..self.turn));
        let lanes: Vec<u32> = after.take(most).copied().collect();
        self.turn = lanes.last().map_or(0, |lane| (lane + 1) % ESME_LANES);
        lanes.iter().for_each(|lane| _ = self.waiting.remove(lane));
        lanes
    }

    /// One has something, or will have as soon as it is stored.
    pub fn ready(&mut self, lane: u32, now: Instant) {
        // The completion of what it has in flight looks again.
        if !self.busy.contains(&lane) {
            self.waiting.insert(lane);
            self.likely.insert(lane, Some(now + LIKELY));
        }
    }

    /// A message of one is in flight.
    pub fn sent(&mut self, lane: u32) {
        self.busy.insert(lane);
        self.likely.remove(&lane);
    }

    /// A flight has ended, durably; `more`: the next may go. Else it waits for another attempt.
    pub fn completed(&mut self, lane: u32, more: bool) {
        self.busy.remove(&lane);
        if more {
            self.waiting.insert(lane);
        } else {
            self.likely.insert(lane, None);
        }
    }

    /// All without anything in flight may have something.
    pub fn look(&mut self, now: Instant) {
        self.waiting = (0..ESME_LANES).filter(|lane| !self.busy.contains(lane)).collect();
        (self.looked, self.is_soon) = (now, false);
    }

    /// A claim of so many has taken so long, whatever it waited for.
    pub fn took(&mut self, lanes: usize, time: Duration) {
        // At most 256.
        self.cost = time / lanes.max(1) as u32 * ESME_LANES;
    }

    /// Any may have something, as often as other things happen: all are looked at now, or once that
    /// takes no more than a small part of the time.
    pub fn look_soon(&mut self, now: Instant) {
        self.is_soon = true;
        if now.saturating_duration_since(self.looked) >= self.least() {
            self.look(now);
        }
    }

    /// How far apart looks at all are.
    fn least(&self) -> Duration {
        if self.is_soon { ALL.min(self.cost * APART) } else { ALL }
    }

    /// Those may have something that are likely to, and now and then all.
    pub fn look_again(&mut self, now: Instant) {
        if now.saturating_duration_since(self.looked) >= self.least() {
            return self.look(now);
        }
        self.likely.retain(|_, until| until.is_none_or(|until| now < until));
        self.waiting.extend(self.likely.keys().filter(|lane| !self.busy.contains(*lane)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_nothing_is_not_looked_at_all_the_time() {
        let now = Instant::now();
        let mut lanes = Lanes::new(now);
        assert_eq!(lanes.take(300).len(), 256);
        lanes.look_again(now);
        assert!(!lanes.is_any_waiting(), "nothing is known of any");
        // What is said to have something is looked at until it gives it, for a while.
        lanes.ready(7, now);
        assert_eq!(lanes.take(9), [7]);
        lanes.look_again(now + LIKELY / 2);
        assert_eq!(lanes.take(9), [7]);
        lanes.look_again(now + LIKELY);
        assert!(!lanes.is_any_waiting());
        // One in flight is left alone; one that is to be tried again is looked at until it comes.
        lanes.ready(8, now);
        assert_eq!(lanes.take(9), [8]);
        lanes.sent(8);
        lanes.ready(8, now);
        lanes.look_again(now);
        assert!(!lanes.is_any_waiting());
        lanes.completed(8, false);
        for since in [LIKELY * 2, LIKELY * 3] {
            lanes.look_again(now + since);
            assert_eq!(lanes.take(9), [8]);
        }
        lanes.sent(8);
        lanes.completed(8, true);
        assert_eq!(lanes.take(9), [8]);
        lanes.look_again(now + LIKELY * 4);
        assert!(!lanes.is_any_waiting());
        // And all now and then, but for what is in flight.
        lanes.sent(9);
        lanes.look_again(now + ALL);
        assert_eq!(lanes.take(300).len(), 255);
    }

    /// Scheduled messages to mobiles, one after the other, had all lanes of all applications looked
    /// at each time, however long the store took for that.
    #[test]
    fn what_happens_all_the_time_has_all_looked_at_now_and_then() {
        let begin = Instant::now();
        for (us, looked) in [(1, 200), (200, 10), (2000, 1)] {
            let (mut lanes, mut looks) = (Lanes::new(begin), 0);
            for tick in 1..=200 {
                lanes.look_soon(begin + Duration::from_millis(50) * tick);
                looks += u32::from(lanes.is_any_waiting());
                while lanes.is_any_waiting() {
                    let some = lanes.take(32).len();
                    lanes.took(some, Duration::from_micros(us) * some as u32);
                }
            }
            assert_eq!(looks, looked, "{us} µs for each lane, in ten seconds");
            lanes.look_again(begin + Duration::from_secs(30));
            assert_eq!(lanes.is_any_waiting(), looked < 200, "what was put off comes");
        }
    }

    #[test]
    fn claims_go_round_all_lanes() {
        let mut lanes = Lanes::new(Instant::now());
        assert_eq!((lanes.take(2), lanes.take(2)), (vec![0, 1], vec![2, 3]));
        lanes.completed(0, true);
        assert_eq!(lanes.take(252).last(), Some(&255));
        assert_eq!(lanes.take(9), [0]);
    }
}
