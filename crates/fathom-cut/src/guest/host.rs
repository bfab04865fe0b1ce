//! A guest whose disks are images in memory, from outside.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use fathom_stack::guest::{Kernel, tie_to_owner};

use super::{Answer, COMMAND, Request};
use crate::error::CutError;
use crate::scratch::Scratch;

/// How long a guest may take to boot, and to answer: a driver may find nothing to do with a disk
/// for a while.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// Memory of a guest, MiB.
const MEMORY_MIB: u64 = 256;

/// A guest that runs. Dropped, it is ended, as switching off a machine does.
#[derive(Debug)]
pub(crate) struct Guest {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// What its kernel keeps while it runs.
    _home: Scratch,
}

/// A CPU for the next guest, one after the other of those that this process may use; none where
/// that is one alone.
fn next_cpu() -> Option<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    (all.len() > 1).then(|| all[NEXT.fetch_add(1, Ordering::Relaxed) % all.len()])
}

fn broken(problem: impl Into<String>) -> CutError {
    CutError::Usage(format!("guest kernel: {}", problem.into()))
}

impl Guest {
    /// Boots one with these disks, each with the bytes of its sectors.
    ///
    /// # Errors
    /// There is no guest kernel, or it does not come up.
    pub fn boot(disks: &[(&File, u32)]) -> Result<Guest, CutError> {
        let kernel =
            Kernel::cached().ok_or_else(|| broken("there is none: fathom stack kernel builds it"))?;
        let program =
            fathom_ground::program::own_program().map_err(CutError::io("this program's own path"))?;
        let home = Scratch::new("cut-guest")?;
        let mut command = Command::new(&kernel.path);
        for (number, (disk, _)) in disks.iter().enumerate() {
            command.arg(format!("ubd{number}dct=/proc/{}/fd/{}", std::process::id(), disk.as_raw_fd()));
        }
        let sectors: Vec<String> = disks.iter().map(|disk| disk.1.to_string()).collect();
        command
            .arg(format!("fathom_sectors={}", sectors.join(",")))
            .arg(format!("mem={MEMORY_MIB}M"))
            .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["con=null", "con0=fd:2", "console=tty0"])
            .args(["quiet", "ssl=null", "ssl0=fd:0,fd:1", "panic=-1", "umid=guest"])
            .arg(format!("uml_dir={}/", home.path().display()))
            .arg(format!("init={}", program.display()))
            .args(["--", COMMAND])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        // The thread that boots it is this process' own, and lives as long.
        tie_to_owner(&mut command, next_cpu());
        let mut child = command.spawn().map_err(CutError::io(kernel.path.display().to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("it has no line"));
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::with_capacity(1 << 16, stdout).lines();
            lines
                .map_while(io::Result::ok)
                .take_while(|line| sender.send(line.clone()).is_ok())
                .for_each(drop);
        });
        let mut guest = Guest { child, stdin, lines, _home: home };
        match guest.answer(BOOT_LIMIT)? {
            Answer::Ready => Ok(guest),
            other => Err(broken(format!("it begins with {other:?}"))),
        }
    }

    /// Has it look at its disks, whose content is another one since the last time.
    ///
    /// # Errors
    /// It does not answer.
    pub fn look(&mut self, request: &Request) -> Result<Answer, CutError> {
        let mut text = serde_json::to_string(request).map_err(|error| broken(error.to_string()))?;
        text.push('\n');
        self.stdin.write_all(text.as_bytes()).map_err(|error| broken(error.to_string()))?;
        match self.answer(ANSWER_LIMIT)? {
            Answer::Broken(problem) => Err(broken(problem)),
            answer => Ok(answer),
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, CutError> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => {
                serde_json::from_str(&line).map_err(|error| broken(format!("it says {line:?}: {error}")))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(broken(format!("it has not answered for {} s", limit.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(broken("it has ended (its driver may have panicked)")),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // It was killed in the line before.
        let _ = self.child.wait();
    }
}
