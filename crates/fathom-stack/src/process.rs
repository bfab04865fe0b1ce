//! Processes by number and start time, and what is done about those that stand still.

use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::claim::start_time;

/// How often is looked.
const GLANCE: Duration = Duration::from_millis(100);
/// A process that is stopped (SIGSTOP, a debugger) is not waited for longer than this.
const STOPPED: Duration = Duration::from_secs(10);
/// Nor one that does nothing at all, although it may run, longer than this.
const IDLE: Duration = Duration::from_secs(120);

/// A process; a later one of the same number is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pid: u32,
    /// Clock ticks since boot.
    start: u64,
}

/// What /proc tells of one that has not ended.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    stopped: bool,
    /// CPU time used, clock ticks.
    ticks: u64,
}

impl Process {
    /// The process of this number, if there is one.
    pub fn of(pid: u32) -> Option<Process> {
        Some(Process { pid, start: start_time(&pid.to_string())? })
    }

    /// Its number.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// None once it has ended; one that nobody has waited for yet has ended all the same.
    fn seen(self) -> Option<Seen> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // As in `start_time`; these are fields 3, 14, 15 and 22.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        if number(19)? != self.start || matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        Some(Seen { stopped: matches!(*fields.first()?, "T" | "t"), ticks: number(11)? + number(12)? })
    }

    /// Whether it has ended, waited for at most this long.
    pub fn ended(self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            if self.seen().is_none() {
                return true;
            }
            if begin.elapsed() >= limit {
                return false;
            }
            thread::sleep(GLANCE / 10);
        }
    }

    /// Whether it serves a modelled device, by the words that it was started with.
    pub fn is_server(self) -> bool {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        self.lives()
            && words.split(|byte| *byte == 0).any(|word| word == crate::device::server::WORD.as_bytes())
    }

    /// Whether it has not ended.
    pub fn lives(self) -> bool {
        self.seen().is_some()
    }

    /// Whether it is stopped: by SIGSTOP, or by a debugger.
    pub fn is_stopped(self) -> bool {
        self.seen().is_some_and(|it| it.stopped)
    }

    /// Kills it, whether it is stopped or not.
    pub fn kill(self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        // The descriptor is of one process for good: what is seen after it was opened is seen of that one.
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if self.seen().is_some() {
            // An error means that it has ended meanwhile.
            let _ = pidfd_send_signal(&fd, Signal::KILL);
        }
    }
}

/// Looks after servers while this process waits for what they serve, which may be a wait in the kernel that nothing else ends: a
/// server that is stopped for 10 s, or does nothing at all for 120 s, is killed. Then whatever waits for it gets an error.
#[derive(Debug)]
pub struct Rescue {
    over: Sender<()>,
    thread: Option<JoinHandle<bool>>,
}

impl Rescue {
    pub(crate) fn from(servers: &[Process]) -> Rescue {
        let servers = servers.to_vec();
        let (over, waited) = channel();
        let thread = (!servers.is_empty()).then(|| {
            thread::spawn(move || {
                let mut watched: Vec<Watched> = servers.iter().map(|it| Watched::new(*it)).collect();
                let mut killed = false;
                while waited.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                    for it in &mut watched {
                        if it.stands_still() {
                            it.server.kill();
                            killed = true;
                        }
                    }
                }
                killed
            })
        });
        Rescue { over, thread }
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

impl Drop for Rescue {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is said of a server that had to be killed.
pub const STOOD_STILL: &str = "the modelled device's server stood still and was killed";

/// Since when a server does nothing.
struct Watched {
    server: Process,
    seen: Option<Seen>,
    since: Instant,
}

impl Watched {
    fn new(server: Process) -> Watched {
        Watched { server, seen: server.seen(), since: Instant::now() }
    }

    fn stands_still(&mut self) -> bool {
        let now = self.server.seen();
        if now != self.seen {
            (self.seen, self.since) = (now, Instant::now());
        }
        now.is_some_and(|it| self.since.elapsed() >= if it.stopped { STOPPED } else { IDLE })
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
        let rescue = Rescue::from(&[stood, worked]);
        let begin = Instant::now();
        assert!(stood.ended(STOPPED * 3), "it is killed");
        assert!(begin.elapsed() >= STOPPED / 2, "and not at once: {:?}", begin.elapsed());
        assert!(!worked.ended(Duration::ZERO));
        assert!(rescue.explained::<()>(Err("EIO".into())).unwrap_err().contains("stood still"));
        worked.kill();
        assert!(worked.ended(Duration::from_secs(60)));
        assert!(!Rescue::from(&[stood, worked]).killed(), "what has ended needs no killing");
        let _ = (stopped.wait(), works.wait());
        assert_eq!(Process::of(u32::MAX), None);
    }
}
