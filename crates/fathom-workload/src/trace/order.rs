//! Which call must wait for which.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How far the reading and each lane have come. Calls are numbered over all lanes in the order in which they returned when they were
/// captured.
pub struct Order {
    /// All calls with smaller numbers have been handed to their lanes.
    horizon: AtomicU64,
    lanes: Vec<Progress>,
    stopped: AtomicBool,
}

/// A lane. The line of a processor's cache, so that lanes do not disturb each other.
#[derive(Default)]
#[repr(align(64))]
struct Progress {
    /// All calls of the lane with smaller numbers are done.
    done_below: AtomicU64,
    /// All calls that were handed to the lane have smaller numbers.
    handed_below: AtomicU64,
}

/// Looks before a waiting thread gives its processor away.
const SPINS: u32 = 200;

impl Order {
    /// Nothing is done.
    pub fn new(lanes: usize) -> Order {
        let lanes = (0..lanes).map(|_| Progress::default()).collect();
        Order { horizon: AtomicU64::new(0), lanes, stopped: AtomicBool::new(false) }
    }

    /// Waits until every call with a number below `number` is done. False where another lane has failed.
    ///
    /// Numbers only point back in the order in which calls returned, so the call with the smallest number that is not done never waits:
    /// there is no deadlock.
    pub fn wait_below(&self, lane: usize, number: u64) -> bool {
        let mut spins = 0;
        loop {
            if self.is_stopped() {
                return false;
            }
            if self.is_done_below(lane, number) {
                return true;
            }
            spins += 1;
            if spins > SPINS {
                std::thread::sleep(Duration::from_micros(20));
            } else {
                std::thread::yield_now();
            }
        }
    }

    fn is_done_below(&self, lane: usize, number: u64) -> bool {
        // A lane that has done all that was handed to it has nothing left below the horizon.
        self.horizon.load(Ordering::Acquire) >= number
            && self.lanes.iter().enumerate().filter(|(other, _)| *other != lane).all(|(_, other)| {
                let done_below = other.done_below.load(Ordering::Acquire);
                done_below >= number || done_below >= other.handed_below.load(Ordering::Acquire)
            })
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

    #[test]
    fn a_call_waits_for_what_is_handed_and_not_done_and_for_what_is_not_read_yet() {
        let order = Order::new(2);
        assert!(!order.is_done_below(0, 5), "what was not read may belong to the other lane");
        order.hand(1, 4);
        order.handed_all_below(6);
        assert!(!order.is_done_below(0, 5), "calls up to 3 are not done");
        order.arrive(1, 3);
        assert!(!order.is_done_below(0, 5));
        assert!(order.is_done_below(0, 3));
        order.arrive(1, 4);
        assert!(order.is_done_below(0, 5), "the other lane has nothing between");
        order.hand(1, 9);
        order.handed_all_below(10);
        assert!(
            !order.is_done_below(0, 5),
            "4 may be there now: it looks before the lane says what comes next"
        );
        order.arrive(1, 8);
        assert!(order.is_done_below(0, 5));
        order.stop();
        assert!(!order.wait_below(0, 5));
    }
}
