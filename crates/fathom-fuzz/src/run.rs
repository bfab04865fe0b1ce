//! Runs the cases of a target: numbers, limits, and what to say when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::case::{CASE, NAME, last_words};
use crate::{Random, memory};

/// Different failures of one target that are gathered before it ends.
const FAILURES_MAX: usize = 12;

/// Longest time of one case; generous, because the machine may be busy with something else.
const LONGEST: Duration = Duration::from_secs(120);

/// One test at a time: the memory and the panics are the whole program's.
static ONE: Mutex<()> = Mutex::new(());
/// Panics since the case began, those of other threads included, and what the first one said.
static PANICS: AtomicUsize = AtomicUsize::new(0);
static PANIC: Mutex<String> = Mutex::new(String::new());

/// The turn of a test: while it lasts, no other test of this program does anything.
///
/// Every test begins with it, with [`Fuzz::new`] or, if it is no target, with [`turn`]: what it
/// prepares is memory, too, and would be counted as that of another target's case.
#[must_use = "the turn ends where it is dropped"]
#[derive(Debug)]
pub struct Turn {
    _one: MutexGuard<'static, ()>,
}

/// Waits until all other tests are done or not begun.
pub fn turn() -> Turn {
    Turn { _one: ONE.lock().unwrap_or_else(PoisonError::into_inner) }
}

/// A target's cases: which, and what one may cost. It is the test's [`Turn`] as well.
#[derive(Debug)]
pub struct Fuzz {
    _turn: Turn,
    name: &'static str,
    cases: u64,
    base_bytes: usize,
    bytes_per_byte: usize,
}

fn asked(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.replace('_', "").parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable}={text} is no number"),
    }
}

/// CPU time of the whole program, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is that of a `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn repeat(name: &str, case: u64) -> String {
    format!(
        "FATHOM_FUZZ_FROM={case} FATHOM_FUZZ_CASES=1 cargo test -p fathom-fuzz --test fuzz -- --exact {name}"
    )
}

impl Fuzz {
    /// The target called `name`, which is also the test's name in full, and how many cases `./test`
    /// runs of it. Waits for the turn: the test makes it before anything else.
    #[must_use]
    pub fn new(name: &'static str, cases: u64) -> Fuzz {
        Fuzz { _turn: turn(), name, cases, base_bytes: 4 << 20, bytes_per_byte: 64 }
    }

    /// What memory a case may take: so many bytes, and so many for each byte of its input.
    #[must_use]
    pub fn memory(self, base_bytes: usize, bytes_per_byte: usize) -> Fuzz {
        Fuzz { base_bytes, bytes_per_byte, ..self }
    }

    /// Runs the cases: `make` gives the input of a case and its length in bytes, `judge` what is
    /// wrong with what came of it.
    ///
    /// `FATHOM_FUZZ_CASES` is how many, `FATHOM_FUZZ_FROM` the number of the first (0). A case is
    /// made of its number and the target's name alone.
    ///
    /// # Panics
    /// When a case fails; then the message has the command that repeats it.
    pub fn run<I>(
        &self,
        mut make: impl FnMut(&mut Random) -> (I, usize),
        mut judge: impl FnMut(&I) -> Result<(), String>,
    ) {
        let from = asked("FATHOM_FUZZ_FROM").unwrap_or(0);
        let cases = asked("FATHOM_FUZZ_CASES").unwrap_or(self.cases);
        self.name.clone_into(&mut NAME.lock().unwrap_or_else(PoisonError::into_inner));
        listen_to_panics();
        let watch = Watch::begin();
        let (begin, cpu) = (Instant::now(), cpu_s());
        let mut failures: Vec<(String, String)> = Vec::new();
        let mut failed = 0_u64;
        for case in from..from.saturating_add(cases) {
            CASE.store(case, Relaxed);
            watch.next();
            let (input, length) = make(&mut Random::stream(0, self.name, case));
            PANICS.store(0, Relaxed);
            let (judged, peak) = memory::measured(|| catch_unwind(AssertUnwindSafe(|| judge(&input))));
            let most = self.base_bytes.saturating_add(self.bytes_per_byte.saturating_mul(length));
            let panicked = PANICS.load(Relaxed) > 0;
            let problem = match judged {
                _ if panicked => PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                Err(_) => "panicked without a message".into(),
                Ok(Err(problem)) => problem,
                Ok(Ok(())) if peak > most => {
                    format!("took {peak} bytes of memory; for {length} bytes of input {most} are allowed")
                }
                Ok(Ok(())) => continue,
            };
            failed += 1;
            // Numbers differ from case to case; the defect is one.
            let kind: String = problem.chars().filter(|c| !c.is_ascii_digit()).take(160).collect();
            if failures.iter().all(|(known, _)| *known != kind) {
                failures
                    .push((kind, format!("case {case}: {problem}\n  again: {}", repeat(self.name, case))));
                if failures.len() == FAILURES_MAX {
                    break;
                }
            }
        }
        drop(watch);
        let (took, cpu) = (begin.elapsed().as_secs_f64(), cpu_s() - cpu);
        let rate = cases as f64 / cpu.max(1e-9);
        println!("{}: {cases} cases from {from} in {took:.2} s; {rate:.0} a second of CPU", self.name);
        let told: Vec<String> = failures.into_iter().map(|(_, told)| told).collect();
        assert!(
            told.is_empty(),
            "{}: {failed} cases failed, in {} ways:\n{}",
            self.name,
            told.len(),
            told.join("\n")
        );
    }
}

/// Keeps what a panic says for the report instead of printing it; of the first panic, because
/// others may follow from it.
fn listen_to_panics() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The report of a target's failures is a panic, too.
            if info.location().is_some_and(|at| at.file() == file!()) {
                return before(info);
            }
            if PANICS.fetch_add(1, Relaxed) == 0 {
                *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
            }
        }));
    });
}

/// Ends the program when a case takes too long, for nothing can stop a thread that does not return.
struct Watch {
    begun: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    since: Instant,
}

impl Watch {
    fn begin() -> Watch {
        let watch = Watch { begun: Arc::default(), done: Arc::default(), since: Instant::now() };
        let (begun, done, since) = (Arc::clone(&watch.begun), Arc::clone(&watch.done), watch.since);
        std::thread::spawn(move || {
            while !done.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let begun = Duration::from_millis(begun.load(Relaxed));
                if since.elapsed().saturating_sub(begun) > LONGEST && !done.load(Relaxed) {
                    last_words("does not end");
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn next(&self) {
        self.begun.store(self.since.elapsed().as_millis() as u64, Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
    }
}
