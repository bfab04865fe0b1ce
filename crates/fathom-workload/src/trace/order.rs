//! Which call must wait for which.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How far each lane has come. Calls are numbered over all lanes in the order in which they returned when they were captured.
pub struct Order {
    /// Number of each lane's first call that is not done.
    next: Vec<AtomicU64>,
    stopped: AtomicBool,
}

/// Looks before a waiting thread gives its processor away.
const SPINS: u32 = 200;

impl Order {
    /// Nothing is done; `calls` of each lane.
    pub fn new(calls: Vec<usize>) -> Order {
        let next = calls.iter().map(|count| AtomicU64::new(if *count == 0 { u64::MAX } else { 0 })).collect();
        Order { next, stopped: AtomicBool::new(false) }
    }

    /// Waits until every call with a number below `number` is done. False where another lane has failed.
    ///
    /// Numbers only point back in the order in which calls returned, so the lane that has come least far never waits: there is no
    /// deadlock.
    pub fn wait_below(&self, lane: usize, number: u64) -> bool {
        let mut spins = 0;
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return false;
            }
            let others = self.next.iter().enumerate().filter(|(other, _)| *other != lane);
            if others.map(|(_, next)| next.load(Ordering::Acquire)).all(|next| next >= number) {
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

    /// The lane's next call has this number; the end is `u64::MAX`.
    pub fn arrive(&self, lane: usize, number: u64) {
        self.next[lane].store(number, Ordering::Release);
    }

    /// A lane has failed: the others stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
