//! A watchdog over servers: one that stands still while somebody waits for it is killed.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::process::{Process, ProcessState};

/// How often is looked.
const GLANCE: Duration = Duration::from_millis(100);
/// A process that is stopped (SIGSTOP, a debugger) is not waited for longer than this.
const STOPPED: Duration = Duration::from_secs(10);
/// Nor one that does nothing at all, although it may run, longer than this.
const IDLE: Duration = Duration::from_secs(120);

/// Looks after servers while this process waits for what they serve, which may be a wait in the
/// kernel that nothing else ends: a server that is stopped for 10 s, or does nothing at all for 120
/// s, is killed. Then whatever waits for it gets an error.
#[derive(Debug)]
pub struct Watchdog {
    over: Sender<()>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    pub(crate) fn over(servers: &[Process]) -> Watchdog {
        let servers = servers.to_vec();
        let (over, waited) = channel();
        let thread = (!servers.is_empty()).then(|| {
            thread::spawn(move || {
                let mut watched: Vec<Watched> = servers.iter().map(|server| Watched::new(*server)).collect();
                let mut killed = false;
                while waited.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                    for server in &mut watched {
                        if server.stands_still() {
                            server.process.kill();
                            killed = true;
                        }
                    }
                }
                killed
            })
        });
        Watchdog { over, thread }
    }

    /// Ends it; whether a server had to be killed.
    #[must_use]
    pub fn killed(mut self) -> bool {
        self.end()
    }

    /// Ends it; an error that came of a server that had to be killed says so.
    ///
    /// # Errors
    /// What went wrong.
    pub fn explained<T>(self, result: Result<T, String>) -> Result<T, String> {
        let killed = self.killed();
        result.map_err(|error| if killed { format!("{STOOD_STILL}: {error}") } else { error })
    }

    fn end(&mut self) -> bool {
        let _ = self.over.send(());
        self.thread.take().is_some_and(|thread| thread.join().unwrap_or(false))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is said of a server that had to be killed.
pub const STOOD_STILL: &str = "the modelled device's server stood still and was killed";

/// Since when a server does nothing.
struct Watched {
    process: Process,
    seen: Option<ProcessState>,
    since: Instant,
}

impl Watched {
    fn new(process: Process) -> Watched {
        Watched { process, seen: process.state(), since: Instant::now() }
    }

    fn stands_still(&mut self) -> bool {
        let now = self.process.state();
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        now.is_some_and(|seen| self.since.elapsed() >= if seen.stopped { STOPPED } else { IDLE })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_is_stopped_is_killed_while_somebody_waits_and_one_that_works_is_not() {
        let start = |script: &str| Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (mut stopped, mut works) = (start("kill -STOP $$"), start("while :; do sleep 0.01; done"));
        let [stood, worked] = [&stopped, &works].map(|child| Process::of(child.id()).unwrap());
        let begin = Instant::now();
        let watchdog = Watchdog::over(&[stood, worked]);
        // Sooner than one that does nothing at all would be.
        assert!(stood.ended(STOPPED * 9), "it is killed");
        assert!(begin.elapsed() >= STOPPED / 2, "and not at once: {:?}", begin.elapsed());
        assert!(!worked.ended(Duration::ZERO));
        assert!(watchdog.explained::<()>(Err("EIO".into())).unwrap_err().contains("stood still"));
        worked.kill();
        assert!(worked.ended(Duration::from_secs(60)));
        assert!(!Watchdog::over(&[stood, worked]).killed(), "what has ended needs no killing");
        let _ = (stopped.wait(), works.wait());
        assert_eq!(Process::of(u32::MAX), None);
    }
}
