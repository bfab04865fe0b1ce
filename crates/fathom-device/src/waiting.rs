//! How long a thread was ready to run while others had the processor, as the scheduler counts it.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The waiting of one thread of this process, which any thread may ask for, also after it has
/// ended.
#[derive(Debug, Default)]
pub(super) struct ThreadWait {
    /// 0 until the thread has said that it is the one.
    thread: AtomicI32,
    /// What was found last.
    found_ns: AtomicU64,
}

impl ThreadWait {
    /// Counts the calling thread's.
    pub fn is_mine(&self) {
        self.thread.store(rustix::thread::gettid().as_raw_pid(), Ordering::Relaxed);
    }

    /// So far, ns; 0 on a kernel that does not count it (`CONFIG_SCHED_INFO`).
    pub fn so_far_ns(&self) -> u64 {
        let thread = self.thread.load(Ordering::Relaxed);
        // "time on a processor, time waiting for one, times run":
        // Documentation/scheduler/sched-stats.rst.
        let told = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
        let ns = told.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        self.found_ns.fetch_max(ns, Ordering::Relaxed).max(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    /// Two threads on one processor: one of them waits whenever the other runs.
    #[test]
    fn a_thread_waits_while_another_has_its_processor() {
        if !std::path::Path::new("/proc/self/schedstat").exists() {
            println!("SKIP: this kernel does not count waiting (CONFIG_SCHED_INFO)");
            return;
        }
        let here = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| here.is_set(cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(first);
        let (waiting, end) = (ThreadWait::default(), AtomicBool::new(false));
        assert_eq!(waiting.so_far_ns(), 0, "nobody's");
        std::thread::scope(|scope| {
            for mine in [true, false] {
                let (waiting, end) = (&waiting, &end);
                scope.spawn(move || {
                    rustix::thread::sched_setaffinity(None, &one).unwrap();
                    if mine {
                        waiting.is_mine();
                    }
                    while !end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    waiting.so_far_ns();
                });
            }
            let begin = Instant::now();
            while waiting.so_far_ns() < 20_000_000 && begin.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            end.store(true, Ordering::Relaxed);
        });
        assert!(waiting.so_far_ns() >= 20_000_000, "{waiting:?}, kept after its end");
    }
}
