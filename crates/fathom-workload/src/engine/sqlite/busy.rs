//! Waiting for a lock that another connection holds, counted and timed.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::calls::Pauses;

/// The pauses between two attempts (ms), as in SQLite's own busy timeout
/// (`sqliteDefaultBusyCallback` in `main.c`), so that an application that uses
/// `sqlite3_busy_timeout` waits just so; the last one repeats.
const PAUSES_MS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// What one connection waited.
#[derive(Debug)]
pub(super) struct BusyWaits {
    /// Longest wait for one lock.
    timeout: Duration,
    /// Nothing is waited for at present.
    pub is_off: bool,
    /// Who looks on at the pauses.
    pub pauses: Option<Arc<Pauses>>,
    /// When the present wait began.
    since: Instant,
    /// Time in the waits before the present one, ns.
    before_ns: u64,
    /// Waits so far.
    pub waits: u64,
    /// Time in them from the first refused attempt to the last, ns.
    pub wait_ns: u64,
}

impl BusyWaits {
    pub fn new(timeout: Duration) -> Box<Self> {
        Box::new(BusyWaits {
            timeout,
            is_off: false,
            pauses: None,
            since: Instant::now(),
            before_ns: 0,
            waits: 0,
            wait_ns: 0,
        })
    }

    /// Called before attempt number `attempt + 1` for the same lock: pauses, or says that it has
    /// been long enough.
    fn pause(&mut self, attempt: usize) -> bool {
        if self.is_off {
            return false;
        }
        let now = Instant::now();
        if attempt == 0 {
            self.since = now;
            self.before_ns = self.wait_ns;
        }
        let Some(left) = self.timeout.checked_sub(now - self.since).filter(|left| !left.is_zero()) else {
            // The last refused attempt may have come long after the last pause.
            if attempt > 0 {
                self.count(now);
            }
            return false;
        };
        let pause = Duration::from_millis(PAUSES_MS[attempt.min(PAUSES_MS.len() - 1)]).min(left);
        if let Some(pauses) = &self.pauses {
            pauses.begin(attempt == 0);
        }
        std::thread::sleep(pause);
        if let Some(pauses) = &self.pauses {
            pauses.end();
        }
        self.waits += u64::from(attempt == 0);
        self.count(Instant::now());
        true
    }

    /// Counts the present wait up to this moment.
    fn count(&mut self, until: Instant) {
        let present = until.saturating_duration_since(self.since).as_nanos();
        self.wait_ns = self.before_ns.saturating_add(u64::try_from(present).unwrap_or(u64::MAX));
    }
}

/// The handler given to `sqlite3_busy_handler`.
///
/// # Safety
/// `waits` must point to a live [`BusyWaits`] that nothing else uses during the call.
pub(super) unsafe extern "C" fn on_busy(waits: *mut c_void, attempt: c_int) -> c_int {
    // SAFETY: by the caller's promise: the connection owns it, and SQLite calls the handler only
    // from within a call on that connection, which has the connection for itself.
    let waits = unsafe { &mut *waits.cast::<BusyWaits>() };
    c_int::from(waits.pause(usize::try_from(attempt).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_timeout_and_no_longer() {
        let mut waits = BusyWaits::new(Duration::from_millis(40));
        let begin = Instant::now();
        let attempts = (0..).take_while(|&attempt| waits.pause(attempt)).count();
        let elapsed = begin.elapsed();
        assert!(elapsed >= Duration::from_millis(40), "{elapsed:?}");
        // At most: each pause may last longer than it should.
        assert!((1..=7).contains(&attempts), "{attempts}");
        assert_eq!(waits.waits, 1, "several attempts for one lock are one wait");
        assert!(waits.wait_ns >= 40_000_000 && u128::from(waits.wait_ns) <= elapsed.as_nanos());
        assert!(waits.pause(0), "a new lock has the whole timeout again");
        assert_eq!(waits.waits, 2);
    }

    /// What happened: of a thread that got no processor between its last pause and its last attempt
    /// 133 of 150 ms were counted.
    #[test]
    fn the_last_refused_attempt_counts_whenever_it_comes() {
        let mut waits = BusyWaits::new(Duration::from_millis(40));
        assert!(waits.pause(0));
        std::thread::sleep(Duration::from_millis(60));
        assert!(!waits.pause(1));
        assert!(waits.wait_ns >= 60_000_000, "{}", waits.wait_ns);
    }

    #[test]
    fn a_timeout_of_nothing_never_waits() {
        let mut waits = BusyWaits::new(Duration::ZERO);
        assert!(!waits.pause(0));
        assert_eq!((waits.waits, waits.wait_ns), (0, 0));
    }
}
