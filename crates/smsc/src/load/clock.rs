//! The time that operations are given: of day, and never going back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that began at the time of day and goes on monotonically, also while the machine is
/// suspended: an `Instant` stands still then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin_us: i64,
    /// How long the machine had been up.
    up_us: i64,
}

impl Default for Clock {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // 292,000 years fit.
        Clock { begin_us: since.as_micros() as i64, up_us: up_us() }
    }
}

impl Clock {
    /// Now, µs since 1970.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.at_us(up_us())
    }

    fn at_us(&self, up_us: i64) -> i64 {
        self.begin_us + (up_us - self.up_us)
    }
}

/// How long the machine has been up, suspended or not, µs.
fn up_us() -> i64 {
    // Linux has had the first since 2.6.39.
    let clocks = [libc::CLOCK_BOOTTIME, libc::CLOCK_MONOTONIC];
    clocks.into_iter().find_map(time_us).unwrap_or_default()
}

/// What a clock shows, µs: clock_gettime(2).
fn time_us(clock: libc::clockid_t) -> Option<i64> {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to a structure that the call fills in, and does before it gives 0.
    let time = unsafe {
        if libc::clock_gettime(clock, time.as_mut_ptr()) != 0 {
            return None;
        }
        time.assume_init()
    };
    // 292,000 years fit.
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the clock of a centre whose machine was suspended for an hour was an hour
    /// late. What was scheduled came so late; and of two centres on one Redis Cluster the other
    /// took each claim of this one for one that was over, and delivered its messages once more.
    #[test]
    fn time_goes_on_while_the_machine_is_suspended() {
        let up = std::fs::read_to_string("/proc/uptime").unwrap();
        let up_s: f64 = up.split(' ').next().unwrap().parse().unwrap();
        // The same as the system's own, which counts that time; it shows hundredths.
        assert!(up_us() as f64 / 1e6 >= up_s - 0.02, "{up_s}");
        let clock = Clock { begin_us: 1_000_000, up_us: 7 };
        assert_eq!(clock.at_us(3_600_000_007), 3_601_000_000);
        let before = Clock::default();
        assert!(before.now_us() >= before.begin_us);
    }
}
