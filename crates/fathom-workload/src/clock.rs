//! The clock of a timed execution: the probe's, with the moment at which it started.

use std::sync::OnceLock;

use fathom_probe::{Split, StatementClock};

/// Nanoseconds since the first use of the clock in this process, monotonic, the same for all
/// threads.
#[must_use]
pub fn now_ns() -> u64 {
    // The origin first: at the first use it must not be the later one.
    let origin_ns = origin_ns();
    monotonic_ns() - origin_ns
}

/// What CLOCK_MONOTONIC showed (ns) when [`now_ns`] was 0: what the kernel's traces are compared
/// with.
///
/// One reading is both. With a reading of two clocks, one after the other, the thread could lose
/// its processor in between, and all windows of the run lay up to 4 ms beside the kernel's
/// requests.
#[must_use]
pub fn origin_ns() -> u64 {
    static ORIGIN_NS: OnceLock<u64> = OnceLock::new();
    *ORIGIN_NS.get_or_init(monotonic_ns)
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CPU time of the calling thread, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A running stopwatch of the calling thread.
pub struct Stopwatch {
    start_ns: u64,
    clock: StatementClock,
}

impl Stopwatch {
    /// Starts it.
    #[must_use]
    pub fn start() -> Self {
        Stopwatch { start_ns: now_ns(), clock: StatementClock::start() }
    }

    /// When it was started, on the scale of [`now_ns`].
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Stops it: where the time since the start went. What went through SQLite's VFS is divided by
    /// kind; all other work has wall and CPU time only, and the rest is `other`.
    #[must_use]
    pub fn stop(self) -> Split {
        self.clock.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two clocks that were read at the origin lay apart by as long as a busy machine kept the
    /// thread from running between them.
    #[test]
    fn what_the_clock_shows_is_the_monotonic_clock_from_the_origin_on() {
        for _ in 0..1_000 {
            let before_ns = monotonic_ns();
            let now_ns = origin_ns() + now_ns();
            assert!((before_ns..=monotonic_ns()).contains(&now_ns));
        }
    }
}
