//! The wish to stop: Ctrl-C and its like, or a caller's.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use fathom_ground::signals::keeping_back;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

/// Signals that come within this time after the first are the same wish: `timeout` sends SIGTERM to
/// its child and at once to its whole group, a shell that ends hands on the hangup that the
/// terminal has sent already, and a service manager sends more than one. Who is impatient takes
/// longer.
const SAME_WISH_MS: u64 = 1000;

/// What is said at the first signal, so that nobody takes the seconds that may follow for deafness.
const STOPPING: &[u8] =
    b"Stopping: what is under way is ended, and what was made for it is taken down, which may take some \
seconds; a second Ctrl-C ends it at once\n";

/// What is said when everything ends at once. A handler may not allocate, so texts are whole.
const AT_ONCE: &[u8] = b"fathom: a second signal: ended at once, without waiting for what is under way. What was mounted or made \
is now being removed by its guard (`fathom stack list` shows what is left).";

/// What is said besides where finished runs stay and `--resume` goes on with them.
const RUNS_ARE_KEPT: &[u8] =
    b" Finished runs are kept: where a results file has -wal and -shm beside it, they belong to it, and \
`--resume` or `fathom report` takes them in.";

/// The first signal that has raised a flag of this process; 0 before that.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

/// The signal by which this process was asked to stop; none where it was not.
#[must_use]
pub fn stopped_by() -> Option<i32> {
    Some(STOPPED_BY.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Set when the user wants to stop: the lab ends the run that is going on, cleans up and keeps the
/// finished ones.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    raised: Arc<AtomicBool>,
    /// When the first signal came, ms of CLOCK_MONOTONIC and at least 1; 0 before that.
    first_ms: AtomicU64,
    /// The first signal; 0 before that.
    signal: AtomicI32,
    /// Whether the first signal is answered with a word.
    says: AtomicBool,
    /// Whether that word is for a terminal, on whose line something may stand.
    is_terminal: AtomicBool,
    /// Whether finished runs stay, and the command can go on with them.
    keeps_runs: AtomicBool,
}

impl Interrupt {
    /// A flag that nobody has raised.
    #[must_use]
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Says that this is of a command whose finished runs stay, and which has `--resume`: a second
    /// signal is answered with that, too.
    pub fn keeps_runs(&self) {
        self.0.keeps_runs.store(true, Ordering::SeqCst);
    }

    /// Raises it.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
    }

    /// Whether it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// What is set when it is raised, for whoever knows nothing of signals.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.raised)
    }

    /// The first signal that raised it; none where no signal has.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Raises it on SIGINT (Ctrl-C), SIGTERM and SIGHUP, and on SIGPIPE: nobody reads any more what
    /// is printed; and says so on stderr at once, for what is under way takes its time to end. A
    /// second signal, a second later or more, ends the process at once with 128 + its number, and
    /// says so: the stack's guard cleans up then. A SIGPIPE is never a second one: whatever is
    /// printed later brings it again. Call it before there are other threads: a signal that comes
    /// meanwhile is kept back in this one only.
    ///
    /// # Errors
    /// The system refuses to install the handlers.
    pub fn on_signals(&self) -> std::io::Result<()> {
        self.0.is_terminal.store(std::io::stderr().is_terminal(), Ordering::SeqCst);
        self.0.says.store(true, Ordering::SeqCst);
        self.on_signals_unsaid()
    }

    /// As [`Interrupt::on_signals`], of a process that works for another one, which says it, or
    /// that ends at once.
    ///
    /// # Errors
    /// As [`Interrupt::on_signals`].
    pub fn on_signals_unsaid(&self) -> std::io::Result<()> {
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGPIPE];
        // One that came between the system's handler and what it is to do would be lost: it would
        // neither end the process nor be noticed.
        keeping_back(&signals, |_| {
            for signal in signals {
                // Under nohup a hangup is to be ignored, and stays so.
                if signal == SIGHUP && is_ignored(signal) {
                    continue;
                }
                let wish = Arc::clone(&self.0);
                // SAFETY: what the handler does is async-signal-safe: atomics, clock_gettime, write
                // and _exit. It does not panic, and the reference to the flag is never the last
                // one, for the registration keeps its own.
                unsafe { signal_hook::low_level::register(signal, move || wish.signalled(signal))? };
            }
            Ok(())
        })
    }
}

impl Wish {
    /// What a signal does, in its handler.
    fn signalled(&self, signal: i32) {
        let now_ms = now_ms();
        let first = self.first_ms.compare_exchange(0, now_ms, Ordering::SeqCst, Ordering::SeqCst);
        // Before the flag, so that whoever sees that finds the signal.
        let _ = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        let _ = STOPPED_BY.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        self.raised.store(true, Ordering::SeqCst);
        fathom_output::stop_waiting();
        if first.is_ok() && self.says.load(Ordering::SeqCst) {
            // A terminal shows `^C`, and may have a bar in the same line.
            let begin: &[u8] = if self.is_terminal.load(Ordering::SeqCst) { b"\n" } else { b"" };
            write_unlocked(begin);
            write_unlocked(STOPPING);
        }
        if signal == SIGPIPE {
            return;
        }
        if first.is_err_and(|first_ms| now_ms.saturating_sub(first_ms) >= SAME_WISH_MS) {
            for text in self.last_words() {
                write_unlocked(text);
            }
            signal_hook::low_level::exit(128 + signal)
        }
    }

    /// What is said at the second signal. For a handler: nothing is allocated.
    fn last_words(&self) -> [&'static [u8]; 3] {
        let kept: &[u8] = if self.keeps_runs.load(Ordering::SeqCst) { RUNS_ARE_KEPT } else { b"" };
        [AT_ONCE, kept, b"\n"]
    }
}

/// Writes to stderr as a handler may. That nobody reads it is no reason to stay.
fn write_unlocked(text: &[u8]) {
    // SAFETY: the bytes are valid for their length.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// CLOCK_MONOTONIC, ms, and at least 1. It can be read in a handler.
fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is a valid local; this clock is always there, and if it were not, 0
    // would be left.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // Neither is negative; a processor of 32 bits has them in 32.
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// Whether this process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: with a null new action sigaction only writes the current one, into a structure that
    // is valid and writable; all-zero bytes are a valid sigaction.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut current) == 0
            && current.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It ended the process, or was lost, if it came a moment before.
    #[test]
    fn a_signal_that_comes_while_handlers_are_set_is_heard() {
        let heard = Arc::new(AtomicBool::new(false));
        keeping_back(&[libc::SIGUSR1], |_| {
            // SAFETY: raise takes no pointers.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
            signal_hook::flag::register(libc::SIGUSR1, Arc::clone(&heard)).unwrap();
            assert!(!heard.load(Ordering::SeqCst));
        });
        assert!(heard.load(Ordering::SeqCst));
    }

    #[test]
    fn what_was_given_the_flag_learns_of_the_wish() {
        let interrupt = Interrupt::new();
        let flag = interrupt.flag();
        assert!(!flag.load(Ordering::SeqCst));
        interrupt.raise();
        assert!(flag.load(Ordering::SeqCst));
    }

    /// What happened: `advise`, `simulate`, `cut` and others were told that finished runs are kept,
    /// which theirs are not, and of `--resume`, which they do not have.
    #[test]
    fn only_a_command_that_can_go_on_is_told_how() {
        let said = |interrupt: &Interrupt| String::from_utf8(interrupt.0.last_words().concat()).unwrap();
        let interrupt = Interrupt::new();
        let told = said(&interrupt);
        assert!(told.contains("a second signal") && told.ends_with("left).\n"), "{told}");
        assert!(!told.contains("--resume") && !told.contains("kept"), "{told}");
        interrupt.clone().keeps_runs();
        let told = said(&interrupt);
        assert!(told.contains("--resume") && told.contains("-wal") && told.ends_with("in.\n"), "{told}");
    }

    #[test]
    fn a_signal_raises_the_flag_and_its_echo_does_no_more() {
        let interrupt = Interrupt::new();
        assert!(!interrupt.is_raised());
        for signal in [SIGTERM, SIGTERM, SIGHUP, SIGINT] {
            interrupt.0.signalled(signal);
            assert!(interrupt.is_raised());
            assert_eq!(interrupt.signal(), Some(SIGTERM), "the first one");
            assert_eq!(stopped_by(), Some(SIGTERM), "of the whole process");
        }
    }
}
