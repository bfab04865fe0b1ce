//! Which schedules are run, and how one is run again.
//!
//! | variable | meaning |
//! |---|---|
//! | `MMDB_CRASH_FROM` | the seed to begin with; 1 if it is not set |
//! | `MMDB_CRASH_SCHEDULES` | how many schedules, of the fastest mode; the others take a stated part of it |
//! | `MMDB_CRASH_SEED` | run the schedule of this seed and no other, with its steps printed |

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds of one test.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub from: u64,
    pub count: u64,
    /// One schedule is run again: it prints what it does.
    pub trace: bool,
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value:?}")))
}

impl Seeds {
    /// One schedule out of `part` that `MMDB_CRASH_SCHEDULES` asks for, or of the 5,000 that are
    /// run without it.
    pub fn of_environment(part: u64) -> Seeds {
        let from = number("MMDB_CRASH_FROM").unwrap_or(1);
        match number("MMDB_CRASH_SEED") {
            Some(seed) => Seeds { from: seed, count: 1, trace: true },
            None => Seeds {
                from,
                count: number("MMDB_CRASH_SCHEDULES").unwrap_or(5000).div_ceil(part),
                trace: false,
            },
        }
    }

    /// Those in which a defect must be noticed: at most `most`, wherever the environment begins.
    pub fn to_notice(most: u64) -> Seeds {
        let all = Seeds::of_environment(1);
        Seeds { count: all.count.min(if all.trace { 1 } else { most }), ..all }
    }

    /// Runs the schedules on `threads` threads, until one has failed if that is `enough`; the seeds
    /// that failed, and how.
    pub fn run(
        self,
        threads: usize,
        enough: bool,
        schedule: impl Fn(u64) -> Result<(), String> + Sync + std::panic::RefUnwindSafe,
    ) -> Vec<(u64, String)> {
        let next = AtomicU64::new(self.from);
        let failures = Mutex::new(Vec::new());
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed - self.from >= self.count || (enough && !failures.lock().unwrap().is_empty()) {
                    return;
                }
                let failure = match std::panic::catch_unwind(|| schedule(seed)) {
                    Ok(Ok(())) => continue,
                    Ok(Err(e)) => e,
                    Err(_) => "panicked".to_owned(),
                };
                failures.lock().unwrap().push((seed, failure));
            }
        };
        std::thread::scope(|s| {
            (1..threads).for_each(|_| drop(s.spawn(work)));
            work();
        });
        let mut failures = failures.into_inner().unwrap();
        failures.sort();
        failures
    }

    /// Runs the schedules; every one must pass. `target` and `test` are what repeats one that does
    /// not.
    pub fn none_fails(
        self,
        (target, test): (&str, &str),
        threads: usize,
        schedule: impl Fn(u64) -> Result<(), String> + Sync + std::panic::RefUnwindSafe,
    ) {
        let failures = self.run(threads, false, schedule);
        for (seed, e) in failures.iter().take(10) {
            eprintln!("seed {seed}: {e}\n{}", repeat(*seed, target, test));
        }
        assert!(failures.is_empty(), "{} of {} schedules failed", failures.len(), self.count);
    }

    /// Runs schedules of an engine with a defect until one notices it, and says which; one must.
    pub fn one_notices(
        self,
        (target, test): (&str, &str),
        threads: usize,
        schedule: impl Fn(u64) -> Result<(), String> + Sync + std::panic::RefUnwindSafe,
    ) {
        let failures = self.run(threads, true, schedule);
        let Some((seed, e)) = failures.first() else {
            panic!("{} schedules from seed {} did not notice the defect of {test}", self.count, self.from)
        };
        eprintln!("{test}: seed {seed}: {e}\n{}", repeat(*seed, target, test));
    }
}

/// The command that runs one schedule again.
fn repeat(seed: u64, target: &str, test: &str) -> String {
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    format!(
        "  again: MMDB_CRASH_SEED={seed} cargo test{release} -p mmdb {target} {test} -- --exact --nocapture"
    )
}
