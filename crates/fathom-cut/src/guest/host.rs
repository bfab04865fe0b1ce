//! A guest whose disks are images in memory, from outside.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fathom_stack::guest::{KERNEL_WORDS, Kernel, quotable, tie_to_owner};

use super::{Answer, COMMAND, Request};
use crate::error::CutError;
use crate::scratch::Scratch;

/// How long a guest may take to boot, and to answer: a driver may find nothing to do with a disk
/// for a while.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How long one whose line is closed may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);
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

/// What its kernel is told: of the disks, by descriptors of this process', with the bytes of their
/// sectors, and where it finds its directory and its first program.
fn words(disks: &[(i32, u32)], home: &Path, program: &Path) -> Result<Vec<String>, CutError> {
    let (home, program) = (quotable(home).map_err(broken)?, quotable(program).map_err(broken)?);
    let own = std::process::id();
    let named = |(number, disk): (usize, &(i32, u32))| format!("ubd{number}dct=/proc/{own}/fd/{}", disk.0);
    let mut words: Vec<String> = disks.iter().enumerate().map(named).collect();
    let sectors: Vec<String> = disks.iter().map(|disk| disk.1.to_string()).collect();
    words.push(format!("fathom_sectors={}", sectors.join(",")));
    words.push(format!("mem={MEMORY_MIB}M"));
    words.extend(KERNEL_WORDS.map(str::to_owned));
    words.push(format!("uml_dir={home}/"));
    words.push(format!("init={program}"));
    words.extend(["--", COMMAND].map(str::to_owned));
    Ok(words)
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
        fathom_ground::program::found_by_name(&program).map_err(broken)?;
        let home = Scratch::new("cut-guest")?;
        let files: Vec<(i32, u32)> = disks.iter().map(|(disk, bytes)| (disk.as_raw_fd(), *bytes)).collect();
        let mut command = Command::new(&kernel.path);
        command
            .args(words(&files, home.path(), &program)?)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        // It ends with the thread that boots it: this process' own, or where another guest has
        // ended one that judges; whoever looks at more after that thread has a new one booted.
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
        // Its end must not pass for that of whoever reads what this process prints.
        fathom_ground::pipe::write_all(&mut self.stdin, text.as_bytes())
            .map_err(|error| broken(error.to_string()))?;
        match self.answer(ANSWER_LIMIT)? {
            Answer::Broken(problem) => Err(broken(problem)),
            answer => Ok(answer),
        }
    }

    /// Whether it has ended, or does so within a moment.
    pub fn has_ended(&mut self) -> bool {
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begin.elapsed() >= END_LIMIT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
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
        // Of one that has been waited for the number may be another's.
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Some(group), Ok(None)) = (group, self.child.try_wait()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // It was killed in the line before, or has ended.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: where `fathom` lies below a directory whose name has a blank, the guest's
    /// kernel was told the part before it, did not find its first program, and was waited for.
    #[test]
    fn a_path_with_a_blank_is_one_word_of_the_kernels() {
        let all = words(&[(3, 512), (7, 4096)], Path::new("/tmp/x"), Path::new("/home/my tools/fathom"));
        let all = all.unwrap();
        assert_eq!(all[1], format!("ubd1dct=/proc/{}/fd/7", std::process::id()));
        assert_eq!(all[2], "fathom_sectors=512,4096");
        for word in ["uml_dir=/tmp/x/", "init=\"/home/my tools/fathom\""] {
            assert!(all.iter().any(|given| given == word), "{word}: {all:?}");
        }
        assert_eq!(all[all.len() - 2..], ["--", COMMAND]);
        let error = words(&[], Path::new("/tmp/a\"b"), Path::new("/fathom")).unwrap_err().to_string();
        assert!(error.contains("use a plainer path"), "{error}");
    }
}
