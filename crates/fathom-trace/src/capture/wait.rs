//! Starting the program and waiting for all of its processes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::TraceError;

/// How often is looked whether something has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs the program; gives how it ended, and how many of its processes still run because the user
/// did not want to wait for them.
///
/// Its orphans become ours (PR_SET_CHILD_SUBREAPER), so that a daemon's statements are waited for.
/// An interrupt from the terminal reaches the program by itself; here it means to go on until the
/// program has ended, and a second one not to wait for what it left in the background. SIGTERM is
/// passed on.
pub fn run(mut command: Command, say: &mut dyn FnMut(&str)) -> Result<(ExitStatus, usize), TraceError> {
    let failed = |what: &str, error: std::io::Error| TraceError::refused(what, error.to_string());
    // SAFETY: this prctl takes numbers only and changes nothing but who is told of an orphan's end.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    let signals = Arc::new(Signals::default());
    let mut registered = Vec::new();
    for signal in [SIGINT, SIGTERM] {
        let signals = signals.clone();
        // SAFETY: the action is one atomic store, which is allowed in a signal handler.
        let id = unsafe { signal_hook::low_level::register(signal, move || signals.came(signal)) };
        registered.push(id.map_err(|error| failed("signals", error))?);
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(|error| failed(&name, error))?;
    let outcome = wait(child.id() as i32, &signals, say);
    for id in registered {
        signal_hook::low_level::unregister(id);
    }
    outcome.map_err(|error| failed(&name, error))
}

/// What the user asked for meanwhile.
#[derive(Default)]
struct Signals {
    interrupted: AtomicBool,
    terminated: AtomicBool,
}

impl Signals {
    fn came(&self, signal: i32) {
        let which = if signal == SIGTERM { &self.terminated } else { &self.interrupted };
        which.store(true, Ordering::Relaxed);
    }
}

fn wait(main: i32, signals: &Signals, say: &mut dyn FnMut(&str)) -> std::io::Result<(ExitStatus, usize)> {
    let mut status: Option<ExitStatus> = None;
    let mut ended_at = Instant::now();
    let mut has_said = false;
    loop {
        let mut raw = 0;
        // SAFETY: `raw` outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) } {
            0 => {}
            -1 => {
                let error = std::io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    // No process is left.
                    Some(libc::ECHILD) => return status.map(|status| (status, 0)).ok_or(error),
                    _ => return Err(error),
                }
            }
            pid => {
                if pid == main {
                    status = Some(ExitStatus::from_raw(raw));
                    ended_at = Instant::now();
                    signals.interrupted.store(false, Ordering::Relaxed);
                }
                continue;
            }
        }
        if let Some(status) = status {
            if signals.interrupted.load(Ordering::Relaxed) || signals.terminated.load(Ordering::Relaxed) {
                return Ok((status, 1));
            }
            if !has_said && ended_at.elapsed() > Duration::from_secs(1) {
                has_said = true;
                say(
                    "the program has ended; waiting for the processes that it left in the background (Ctrl-C: end the capture here)",
                );
            }
        }
        if status.is_none() && signals.terminated.swap(false, Ordering::Relaxed) {
            // SAFETY: kill takes numbers only, and the process is our own child, which was not
            // waited for yet.
            unsafe { libc::kill(main, SIGTERM) };
        }
        std::thread::sleep(PAUSE);
    }
}
