//! The two clocks that everything is measured with.
//!
//! Elapsed time comes from the processor's time-stamp counter where the kernel itself keeps time
//! with it (clock source `tsc`, so it is constant and the same on all processors), and from
//! `CLOCK_MONOTONIC` elsewhere. A reading of the counter takes 10 ns instead of 22 ns and touches
//! no memory, which counts after a sync, when the caches are cold.

use std::sync::atomic::{AtomicU64, Ordering};

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result. The call cannot fail for the two clocks used
    // here; if it did, the zero above would stand.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// CPU time of the calling thread, ns. A system call (0.5 to 2 µs), so it is read rarely.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds per 2^32 ticks of the time-stamp counter; 0 where ticks are nanoseconds of
/// `CLOCK_MONOTONIC`.
static NS_PER_2_32_TICKS: AtomicU64 = AtomicU64::new(0);

/// A moment, to be subtracted from a later one.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

impl Moment {
    /// Now.
    #[inline]
    pub fn now() -> Self {
        #[cfg(target_arch = "x86_64")]
        if NS_PER_2_32_TICKS.load(Ordering::Relaxed) != 0 {
            return Self(counter());
        }
        Self(read(libc::CLOCK_MONOTONIC))
    }

    /// Elapsed time from `earlier` to this moment, ns; 0 if it is the later one.
    #[inline]
    pub fn ns_since(self, earlier: Self) -> u64 {
        let ticks = self.0.saturating_sub(earlier.0);
        match NS_PER_2_32_TICKS.load(Ordering::Relaxed) {
            0 => ticks,
            scale => ((u128::from(ticks) * u128::from(scale)) >> 32) as u64,
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it unless a process
    // forbids it to itself.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Chooses the clock for elapsed time, once, before anything is measured; takes 2 ms.
///
/// The counter's rate is measured against `CLOCK_MONOTONIC`. Each end is the tightest of several
/// attempts to read both at once, so the error is a few tens of nanoseconds in 2 ms: below 0.005 %.
pub fn calibrate() {
    #[cfg(target_arch = "x86_64")]
    {
        const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            if std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc") {
                let (begin_ns, begin) = both();
                while read(libc::CLOCK_MONOTONIC) < begin_ns + 2_000_000 {
                    std::hint::spin_loop();
                }
                let (end_ns, end) = both();
                let ticks = u128::from(end.saturating_sub(begin)).max(1);
                let scale = (u128::from(end_ns - begin_ns) << 32) / ticks;
                NS_PER_2_32_TICKS.store(u64::try_from(scale).unwrap_or(0), Ordering::Relaxed);
            }
        });
    }
}

/// `CLOCK_MONOTONIC` (ns) and the counter at the same moment.
#[cfg(target_arch = "x86_64")]
fn both() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..20 {
        let before = counter();
        let ns = read(libc::CLOCK_MONOTONIC);
        let after = counter();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, ns, before + width / 2);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn moments_agree_with_the_monotonic_clock() {
        calibrate();
        // Each reading lies between two of the monotonic clock, however long the thread waits for a
        // processor between them.
        let read = || {
            let before = Instant::now();
            (before, Moment::now(), Instant::now())
        };
        let (before, moment, after) = read();
        std::thread::sleep(Duration::from_millis(300));
        let (later_before, later, later_after) = read();
        let ns = later.ns_since(moment) as f64;
        let [least, most] =
            [later_before - after, later_after - before].map(|distance| distance.as_nanos() as f64);
        assert!((least * 0.999..=most * 1.001).contains(&ns), "{ns} ns, expected {least} to {most} ns");
        assert_eq!(moment.ns_since(Moment::now()), 0);
    }
}
