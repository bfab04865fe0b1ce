//! Processes by number and start time.

use std::fs;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::processes;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// How often the end of a process is looked for.
const GLANCE: Duration = Duration::from_millis(10);

/// A process; a later one of the same number is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: u32,
    /// Clock ticks since boot.
    start: u64,
}

/// What /proc tells of one that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessState {
    pub stopped: bool,
    /// CPU time used, ns; clock ticks where the kernel keeps no better account.
    pub ran: u64,
}

impl Process {
    /// The process of this number, if there is one.
    pub fn of(pid: u32) -> Option<Process> {
        Some(Process { pid, start: start_time(&pid.to_string())? })
    }

    /// Those that live and were started with this word.
    pub fn all_with(word: &str) -> Vec<Process> {
        processes::pids().filter_map(Process::of).filter(|process| process.runs(word)).collect()
    }

    /// Its number.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// None once it has ended; one that nobody has waited for yet has ended all the same.
    pub fn state(self) -> Option<ProcessState> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // As in `start_time`; these are fields 3, 14, 15 and 22.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        if number(19)? != self.start || matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let ticks = number(11)? + number(12)?;
        Some(ProcessState {
            stopped: matches!(*fields.first()?, "T" | "t"),
            ran: self.ran_ns().unwrap_or(ticks),
        })
    }

    /// CPU time of its threads, ns. A server that makes an operation a second uses less than a
    /// clock tick in two minutes.
    fn ran_ns(self) -> Option<u64> {
        let of_thread = |thread: fs::DirEntry| {
            let told = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            told.split_whitespace().next()?.parse::<u64>().ok()
        };
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        threads.flatten().filter_map(of_thread).reduce(u64::wrapping_add)
    }

    /// Whether it has ended, waited for at most this long.
    pub fn ended(self, limit: Duration) -> bool {
        let begin = Instant::now();
        loop {
            if self.state().is_none() {
                return true;
            }
            if begin.elapsed() >= limit {
                return false;
            }
            thread::sleep(GLANCE);
        }
    }

    /// Whether it lives and was started with this word, such as `device-server`.
    pub fn runs(self, word: &str) -> bool {
        let was_started_so = processes::was_started_with(self.pid, word);
        // If it lives still, the words were its own.
        was_started_so && self.lives()
    }

    /// Whether it has not ended.
    pub fn lives(self) -> bool {
        self.state().is_some()
    }

    /// Whether it is stopped: by SIGSTOP, or by a debugger.
    pub fn is_stopped(self) -> bool {
        self.state().is_some_and(|seen| seen.stopped)
    }

    /// Kills it, whether it is stopped or not.
    pub fn kill(self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        // The descriptor is of one process for good: what is seen after it was opened is seen of
        // that one.
        self.kill_by(pid, pidfd_open(pid, PidfdFlags::empty()));
    }

    /// By its descriptor; by its number where the kernel has none of processes (Linux before 5.3),
    /// or a sandbox allows none.
    fn kill_by(self, pid: Pid, opened: Result<OwnedFd, Errno>) {
        if matches!(opened, Err(Errno::SRCH)) || self.state().is_none() {
            return;
        }
        // An error means that it has ended meanwhile.
        let _ = match opened {
            Ok(fd) => pidfd_send_signal(&fd, Signal::KILL),
            Err(_) => kill_process(pid, Signal::KILL),
        };
    }
}

/// Start time of a process in clock ticks since boot (field 22 of `/proc/PID/stat`), which with its
/// id names it for good.
pub fn start_time(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name (field 2) is in parentheses and may hold anything; field 3 follows the last
    // one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// What happened: a device that was slow enough used no clock tick in two minutes, was taken
    /// for one that stands still, and was killed while `stack down` waited for it.
    #[test]
    fn a_process_that_did_little_did_something() {
        if !std::path::Path::new("/proc/self/schedstat").exists() {
            println!("skipped: this kernel tells CPU time in clock ticks alone");
            return;
        }
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut answer = || {
            to.write_all(b"x").unwrap();
            from.read_exact(&mut [0]).unwrap();
        };
        answer();
        let process = Process::of(child.id()).unwrap();
        let before = process.state().unwrap();
        answer();
        let begin = Instant::now();
        while process.state().unwrap() == before {
            assert!(begin.elapsed() < Duration::from_secs(60), "{before:?}");
            thread::sleep(GLANCE);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What happened: a kernel before 5.3, as boards and phones have it, has no descriptors of
    /// processes: a device's server that stood still was said to be killed and was not, and whoever
    /// waited for it waited for ever.
    #[test]
    fn a_process_is_killed_where_the_kernel_has_no_descriptor_of_it() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        // Another one that had its number before.
        Process { start: process.start + 1, ..process }.kill_by(pid, Err(Errno::NOSYS));
        process.kill_by(pid, Err(Errno::SRCH));
        assert!(process.lives());
        process.kill_by(pid, Err(Errno::NOSYS));
        assert!(process.ended(Duration::from_secs(60)));
        child.wait().unwrap();
    }
}
