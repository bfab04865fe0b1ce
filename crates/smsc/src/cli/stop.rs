//! Ctrl-C and its like: the first ends a bench or a check in order, a second wish at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Signals that come within this time after the first are the same wish: `timeout` sends SIGTERM to
/// its child and at once to its whole group, and a shell that ends hands on the hangup that the
/// terminal has sent already.
pub const SAME_WISH: Duration = Duration::from_secs(1);

/// How long the end at once may take for tidying up: a disk that does not answer any more must not
/// keep it.
const TIDY: Duration = Duration::from_secs(1);

/// Whether a bench or a check is to end, and what it has made.
#[derive(Default)]
pub struct Stop {
    asked: AtomicBool,
    made: Mutex<Made>,
}

/// Directories that are there for a row only.
#[derive(Default)]
struct Made {
    directories: Vec<PathBuf>,
    /// Whether a server writes into them, which ends a little later than this process.
    server: bool,
}

impl Stop {
    /// Listens to signals from now on.
    ///
    /// # Errors
    /// The system has no room for it.
    pub fn listen() -> std::io::Result<Arc<Stop>> {
        let stop = Arc::new(Stop::default());
        let mut caught = vec![SIGINT, SIGTERM];
        // Who starts a program with nohup does not want it to end with the terminal.
        if !is_ignored(SIGHUP) {
            caught.push(SIGHUP);
        }
        let mut signals = Signals::new(caught)?;
        let of_thread = Arc::clone(&stop);
        std::thread::Builder::new().name("smsc-signals".into()).spawn(move || {
            let mut first = None;
            for signal in signals.forever() {
                of_thread.asked.store(true, Relaxed);
                if first.get_or_insert_with(Instant::now).elapsed() >= SAME_WISH {
                    of_thread.end_at_once(signal);
                }
            }
        })?;
        Ok(stop)
    }

    /// Whether the bench is to end.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// These directories are there now, and are deleted in an orderly end; nothing else is.
    pub fn made(&self, directories: Vec<PathBuf>, server: bool) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Made { directories, server };
    }

    /// Nobody is waited for: who asks for the second time has seen the first way fail.
    fn end_at_once(&self, signal: i32) -> ! {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Made { directories, server } = std::mem::take(&mut *made);
        let (done, left) = mpsc::channel();
        let tidied = directories.clone();
        let tidy = move || {
            let stays = |dir: &PathBuf| server || (std::fs::remove_dir_all(dir).is_err() && dir.exists());
            // Nobody listens where it took too long.
            let _ = done.send(tidied.into_iter().filter(stays).collect());
        };
        let started = std::thread::Builder::new().spawn(tidy);
        let left = started.ok().and_then(|_| left.recv_timeout(TIDY).ok()).unwrap_or(directories);
        for directory in left {
            let server = if server { ", PostgreSQL is ending there" } else { "" };
            tell!("left behind{server}: {}", directory.display());
        }
        // What a shell gives for a program that a signal has ended. Nothing else is run: it might
        // wait for what does not answer. A server is ended by the kernel, with the thread that
        // keeps it.
        signal_hook::low_level::exit(128 + signal)
    }
}

/// Whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call changes nothing and fills the structure in before it gives 0.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
