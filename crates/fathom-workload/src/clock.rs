//! The clock of a timed execution: the probe's, with the moment at which it started.

use std::sync::OnceLock;
use std::time::Instant;

use fathom_probe::{Split, StatementClock};

/// Nanoseconds since the first use of the clock in this process, monotonic, the same for all threads.
#[must_use]
pub fn now_ns() -> u64 {
    let elapsed = origin().0.elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// What CLOCK_MONOTONIC showed (ns) when [`now_ns`] was 0: what the kernel's traces are compared with.
#[must_use]
pub fn origin_ns() -> u64 {
    origin().1
}

fn origin() -> &'static (Instant, u64) {
    static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
    ORIGIN.get_or_init(|| {
        let instant = Instant::now();
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let ns = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
            + u64::try_from(time.tv_nsec).unwrap_or(0);
        (instant, ns)
    })
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

    /// Stops it: where the time since the start went. What went through SQLite's VFS is divided by kind; all other work has
    /// wall and CPU time only, and the rest is `other`.
    #[must_use]
    pub fn stop(self) -> Split {
        self.clock.stop()
    }
}
