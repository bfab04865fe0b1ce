//! The time that operations are given: of day, and never going back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that began at the time of day and goes on monotonically.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Instant,
    begin_us: i64,
}

impl Default for Clock {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // 292,000 years fit.
        Clock { begin: Instant::now(), begin_us: since.as_micros() as i64 }
    }
}

impl Clock {
    /// Now, µs since 1970.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.begin_us + self.begin.elapsed().as_micros() as i64
    }
}
