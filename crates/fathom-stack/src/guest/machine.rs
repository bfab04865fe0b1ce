//! A guest that runs: its process on the host, and what is asked of it.

use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fathom_probe::Note;
use serde::{Deserialize, Serialize};

use super::clock::ClockBounds;
use super::error::GuestError;
use super::inherit::inherit;
use super::kernel::Kernel;
use super::owner::tie_to_owner;
use super::protocol::{Answer, Ask, FileNotes, milliseconds};
use crate::attribution::{Cause, Piece};
use crate::blocks::Request;
use crate::ground::process::Process;
use crate::instruments::floor::FloorProbe;
use fathom_ground::command::{CommandError, CommandLine, CommandProblem, Output};
use fathom_ground::lines;
use fathom_ground::program::found_by_name;
use fathom_ground::system::now_ns;

/// How long a guest may take to boot: 0.3 s on an idle machine.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to answer what needs no device.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to write out what is dirty and to sort what was traced.
const TRACED_LIMIT: Duration = Duration::from_secs(300);
/// How long a guest may take beyond what was asked of it.
const GRACE: Duration = Duration::from_secs(10);
/// How long a guest that has unmounted may take to end.
const OFF_LIMIT: Duration = Duration::from_secs(10);
/// How long one that was killed may take to die: all its processes and its memory go with it, and
/// on a busy machine that may take seconds.
const DEATH: Duration = Duration::from_secs(10);
/// How long a guest that has closed its line may take to have ended, which tells how: its memory is
/// given back before that.
const GONE_LIMIT: Duration = Duration::from_secs(20);
/// How near its clock is to be known, ns: with the first answers, if they are as quick as that …
const CLOCK_NEAR_NS: u64 = 100_000;
/// … and else with so many, …
const CLOCK_READINGS: usize = 15;
/// … or with more: on a busy machine most answers wait for a processor. A random request of a card
/// takes as much.
const CLOCK_FAR_NS: u64 = 1_000_000;
/// How long it is asked for until it is.
const CLOCK_LIMIT: Duration = Duration::from_secs(3);
/// How much of the kernel's last words is kept.
const CONSOLE_KEPT: usize = 8192;
/// Largest memory of a guest, MiB; it takes of the host's what it uses.
const LARGEST_MIB: u64 = 4096;
/// Least memory with which the kernel and a worker can do.
const SMALLEST_MIB: u64 = 256;

/// One disk of a guest, as its kernel opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub path: PathBuf,
    /// Of a sector: its smallest request.
    pub sector_bytes: u32,
}

/// What comes out of a program that runs in a guest.
#[derive(Debug)]
pub enum ProgramOutput {
    /// A line, with its end.
    Line(Vec<u8>),
    /// The program has ended; the end of what it wrote to stderr.
    Ended(ExitStatus, String),
    /// Nothing within the time.
    Silence,
}

/// How it stands with a file system that a guest serves to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// It is served: how long the oldest operation has waited, and what the disk has completed so
    /// far.
    Serving { waited: Duration, operations: u64 },
    /// The host's mount is gone.
    Unmounted,
}

/// What was traced in a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestTrace {
    /// Requests in order of their issue, and whose their bytes were. Times are the guest's
    /// CLOCK_MONOTONIC, ns.
    pub requests: Vec<(Request, Vec<Piece>)>,
    /// As in [`crate::blocks::Recording`].
    pub lost_events: u64,
    /// As above.
    pub unfinished: u64,
    /// As above.
    pub span_ns: (u64, u64),
    /// What a reader must know.
    pub remarks: Vec<String>,
}

/// A running guest. Dropping it ends it, as switching off a machine does.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    console: Arc<Mutex<VecDeque<u8>>>,
    release: String,
    cpu: Option<usize>,
    /// Ended by [`Guest::end`].
    ended: bool,
}

impl Guest {
    /// Boots a kernel with `program` (this very program, in another process) as its agent and
    /// `disks`, which are open. `home` is a directory for what the kernel keeps while it runs;
    /// `connection` a FUSE mount of the host's that its agent is to serve.
    ///
    /// # Errors
    /// The kernel cannot be started or does not come up: what it said.
    pub(crate) fn boot(
        kernel: &Kernel,
        program: &Path,
        disks: &[Disk],
        home: &Path,
        connection: Option<&OwnedFd>,
    ) -> Result<Guest, GuestError> {
        let wrong = |problem: String| GuestError { problem, console: String::new() };
        found_by_name(program).map_err(wrong)?;
        let program = quotable(program).map_err(wrong)?;
        let state = quotable(home).map_err(wrong)?;
        let cpu = last_cpu();
        let mut command = Command::new(&kernel.path);
        for (number, disk) in disks.iter().enumerate() {
            command.arg(disk_word(number, &disk.path).map_err(wrong)?);
        }
        if !disks.is_empty() {
            let sectors: Vec<String> = disks.iter().map(|disk| disk.sector_bytes.to_string()).collect();
            command.arg(format!("fathom_sectors={}", sectors.join(",")));
        }
        if let Some(connection) = connection {
            command.arg(format!("fathom_fuse={}", connection.as_raw_fd()));
            inherit(&mut command, connection);
        }
        command
            .arg(format!("mem={}M", memory_mib()))
            .args(KERNEL_WORDS)
            .arg(format!("uml_dir={state}/"))
            .arg(format!("init={program}"))
            .args(["--", "guest-agent"])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        tie_to_owner(&mut command, cpu);
        let mut child = command
            .spawn()
            .map_err(|error| wrong(format!("{} cannot be started: {error}", kernel.path.display())))?;
        let console = Arc::new(Mutex::new(VecDeque::new()));
        let stdin = child.stdin.take();
        let lines = child.stdout.take().map_or_else(|| channel().1, lines::receive);
        if let Some(stderr) = child.stderr.take() {
            let kept = Arc::clone(&console);
            thread::spawn(move || keep_last(stderr, &kept));
        }
        let release = kernel.release.clone();
        let mut guest = Guest { child, stdin, lines, console, release, cpu, ended: false };
        match guest.answer(BOOT_LIMIT) {
            Ok(_) => Ok(guest),
            Err(error) => {
                let problem = format!(
                    "it did not come up ({}). A container may forbid ptrace, which it is made of: there, run outside of it",
                    error.problem
                );
                Err(GuestError { problem, ..error })
            }
        }
    }

    /// Release of its kernel, e.g. `6.12.117-fathom`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The CPU that it is kept on; none where there is only one.
    #[must_use]
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// Its process, for tests that kill it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command in the guest to its end.
    pub(crate) fn command(&mut self, line: &CommandLine, limit: Duration) -> Result<Output, CommandError> {
        let ask = Ask::Command { line: line.clone(), limit_ms: milliseconds(limit) };
        let broken = |problem: String| CommandError {
            command: format!("(in the guest) {}", line.shown()),
            problem: CommandProblem::Wait(std::io::Error::other(problem)),
            stderr: String::new(),
        };
        match self.ask(&ask, limit + GRACE) {
            Ok(Answer::Command(ending)) => ending.result(line),
            Ok(other) => Err(broken(format!("an answer that was not asked for: {other:?}"))),
            Err(error) => Err(broken(error.to_string())),
        }
    }

    /// A small file's text, as the guest sees it.
    pub(crate) fn read(&mut self, path: &Path) -> Result<String, GuestError> {
        match self.ask(&Ask::Read { path: path.into() }, ANSWER_LIMIT)? {
            Answer::Text { text } => Ok(text),
            other => Err(self.unexpected(other)),
        }
    }

    /// Makes a directory.
    pub(crate) fn make_directory(&mut self, path: &Path) -> Result<(), GuestError> {
        self.do_so(&Ask::MakeDirectory { path: path.into() }, ANSWER_LIMIT)
    }

    /// How much more its CLOCK_MONOTONIC shows than this machine's, ns: less, as a guest counts
    /// from its boot. Its clock goes by this machine's, so that the difference stays.
    ///
    /// # Errors
    /// The guest has ended, or does not answer.
    pub fn clock_difference_ns(&mut self) -> Result<i64, GuestError> {
        let mut bounds = ClockBounds::new();
        let begin = Instant::now();
        for readings in 1.. {
            let before = now_ns();
            let answer = self.ask(&Ask::Clock, ANSWER_LIMIT)?;
            let after = now_ns();
            let Answer::Clock { now_ns: there } = answer else { return Err(self.unexpected(answer)) };
            bounds.read(before, there, after);
            let near_ns = if readings < CLOCK_READINGS { CLOCK_NEAR_NS } else { CLOCK_FAR_NS };
            if bounds.width_ns() <= near_ns || begin.elapsed() >= CLOCK_LIMIT {
                break;
            }
        }
        Ok(bounds.middle_ns())
    }

    /// As [`crate::floor_probe`], in the guest.
    pub(crate) fn floor(&mut self, directory: &Path, writes: u32) -> Result<FloorProbe, GuestError> {
        // A slow card takes 20 ms for one; ten times that is no device.
        let limit = ANSWER_LIMIT + Duration::from_millis(200) * writes;
        match self.ask(&Ask::Floor { directory: directory.into(), writes }, limit)? {
            Answer::Floor(floor) => Ok(floor),
            other => Err(self.unexpected(other)),
        }
    }

    /// Traces the blocks of its disks from now on.
    pub(crate) fn trace(&mut self, disks: usize) -> Result<(), GuestError> {
        let devices = ["/dev/ubda", "/dev/ubdb"].into_iter().take(disks).map(PathBuf::from).collect();
        self.do_so(&Ask::Trace { devices, tag: "fathom".into() }, ANSWER_LIMIT)
    }

    /// Ends the trace; `home` is where what is known of the files is handed over.
    pub(crate) fn traced(
        &mut self,
        filesystem: &str,
        directory: &Path,
        home: &Path,
        notes: &[Note],
        causes: &[Cause],
    ) -> Result<GuestTrace, GuestError> {
        let known = home.join("known.json");
        let text = serde_json::to_vec(&FileNotes { notes: notes.to_vec(), causes: causes.to_vec() });
        let written = text.map_err(std::io::Error::from).and_then(|text| fs::write(&known, text));
        written.map_err(|error| self.error(format!("{}: {error}", known.display())))?;
        let (filesystem, directory) = (filesystem.to_owned(), directory.to_path_buf());
        let ask = Ask::Traced { filesystem, device: "/dev/ubda".into(), directory, known };
        let mut answer = self.ask(&ask, TRACED_LIMIT)?;
        let mut trace = GuestTrace::default();
        loop {
            match answer {
                Answer::Requests { requests } => trace.requests.extend(requests),
                Answer::Traced { lost_events, unfinished, span_ns, remarks } => {
                    return Ok(GuestTrace { lost_events, unfinished, span_ns, remarks, ..trace });
                }
                other => return Err(self.unexpected(other)),
            }
            answer = self.answer(ANSWER_LIMIT)?;
        }
    }

    /// Starts a program of the host's in the guest, with this input; [`Guest::hear`] tells what it
    /// writes and its end.
    ///
    /// # Errors
    /// The guest has ended.
    pub fn run(
        &mut self,
        program: &Path,
        words: &[std::ffi::OsString],
        input: String,
    ) -> Result<(), GuestError> {
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        self.tell(&Ask::Run { line: CommandLine::new(program, words), directory, input })
    }

    /// The next of the program that [`Guest::run`] started, waited for at most this long.
    ///
    /// # Errors
    /// The guest has ended, or the program could not be started.
    pub fn hear(&mut self, wait: Duration) -> Result<ProgramOutput, GuestError> {
        match self.lines.recv_timeout(wait) {
            Ok(mut line) if line.first() == Some(&lines::RAW) => {
                line.remove(0);
                Ok(ProgramOutput::Line(line))
            }
            Ok(line) => match self.understood(&line)? {
                Answer::Ended { status, complaints } => {
                    Ok(ProgramOutput::Ended(ExitStatus::from_raw(status), complaints))
                }
                other => Err(self.unexpected(other)),
            },
            Err(RecvTimeoutError::Timeout) => Ok(ProgramOutput::Silence),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// Serves the file system to the host, on the connection that it was booted with;
    /// [`Guest::beat`] tells how it goes. `root_is` are the user and group of the host that own
    /// what is root's in the guest.
    pub(crate) fn serve(&mut self, case_folds: bool, root_is: (u32, u32)) -> Result<(), GuestError> {
        self.do_so(&Ask::Serve { point: super::layout::POINT.into(), case_folds, root_is }, ANSWER_LIMIT)
    }

    /// How it stands with what is served to the host, waited for at most this long.
    pub(crate) fn beat(&mut self, limit: Duration) -> Result<Beat, GuestError> {
        match self.answer(limit)? {
            Answer::Serving { waited_ms, operations } => {
                Ok(Beat::Serving { waited: Duration::from_millis(waited_ms), operations })
            }
            Answer::Unmounted => Ok(Beat::Unmounted),
            other => Err(self.unexpected(other)),
        }
    }

    /// Unmounts what is mounted at `point` and turns the guest off; one that does not follow is
    /// ended.
    ///
    /// # Errors
    /// It did not unmount, so that what was on its disk may not be whole. It is ended all the same.
    pub(crate) fn off(mut self, point: &Path, limit: Duration) -> Result<(), GuestError> {
        if self.ended {
            return Ok(());
        }
        let result = self.do_so(&Ask::Off { point: point.into() }, limit);
        if result.is_ok() {
            let begin = Instant::now();
            while begin.elapsed() < OFF_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(2));
            }
        }
        result
    }

    /// Ends it at once, as switching off a machine does.
    pub fn end(&mut self) {
        // Its helpers are in its group, and end with it in any case.
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Some(group), Ok(None)) = (group, self.child.try_wait()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        // One that waits for a disk that does not answer dies when that is gone, not before.
        let begin = Instant::now();
        while begin.elapsed() < DEATH && !self.has_ended() {
            thread::sleep(Duration::from_millis(2));
        }
        self.ended = true;
    }

    /// Whether its process is gone, or nobody knows of it.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether it was ended and lives on: it waits for a disk that does not answer.
    pub fn hangs(&mut self) -> bool {
        self.ended && !self.has_ended()
    }

    fn tell(&mut self, ask: &Ask) -> Result<(), GuestError> {
        let written = self.stdin.as_mut().map(|stdin| lines::send(stdin, ask));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.gone()),
        }
    }

    fn ask(&mut self, ask: &Ask, limit: Duration) -> Result<Answer, GuestError> {
        self.tell(ask)?;
        self.answer(limit)
    }

    /// Asks for something of which there is nothing to tell.
    fn do_so(&mut self, ask: &Ask, limit: Duration) -> Result<(), GuestError> {
        match self.ask(ask, limit)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, GuestError> {
        let line = match self.lines.recv_timeout(limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.error(format!("it has not answered for {} s", limit.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
        };
        match self.understood(&line)? {
            Answer::Refused { problem } => Err(self.error(problem)),
            answer => Ok(answer),
        }
    }

    fn understood(&self, line: &[u8]) -> Result<Answer, GuestError> {
        serde_json::from_slice(line)
            .map_err(|error| self.error(format!("it says {:?}: {error}", String::from_utf8_lossy(line))))
    }

    fn unexpected(&self, answer: Answer) -> GuestError {
        match answer {
            Answer::Refused { problem } => self.error(problem),
            other => self.error(format!("an answer that was not asked for: {other:?}")),
        }
    }

    /// The guest has ended: how.
    fn gone(&mut self) -> GuestError {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if begin.elapsed() < GONE_LIMIT => {
                    thread::sleep(Duration::from_millis(5));
                }
                Ok(status) => break status,
                Err(_) => break None,
            }
        };
        let how = match status.map(|status| (status.signal(), status.code())) {
            Some((Some(9), _)) => "it was killed (signal 9)".to_owned(),
            Some((Some(signal), _)) => format!("it was ended by signal {signal}"),
            Some((None, Some(code))) => format!("it has ended with exit code {code}"),
            _ => "it has closed its line".to_owned(),
        };
        self.error(how)
    }

    fn error(&self, problem: String) -> GuestError {
        let kept = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        GuestError { problem, console: String::from_utf8_lossy(&bytes).trim().to_owned() }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends what is left of a guest whose state is kept in `home` and whose owner is gone: one that was
/// not told of its owner's death, and its own processes that were not told of its. The first that
/// its kernel makes stops itself, to see what this machine allows; of a guest that was killed in
/// that moment it stayed for good.
pub(crate) fn end(home: &Path) {
    // Of a place that cannot be named there is none.
    let Ok(home) = quotable(home) else { return };
    let ours = format!("uml_dir={home}/");
    // One that is killed may have made another since it was looked for.
    for _ in 0..8 {
        let left = Process::all_with(&ours);
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|process| process.kill());
        for process in left {
            process.ended(DEATH);
        }
    }
}

/// What each guest's kernel is told: its root is this machine's, which it only reads; it says on
/// its standard error what a console shows, and what its first program reads and writes is its
/// standard input and output.
pub const KERNEL_WORDS: [&str; 12] = [
    "root=/dev/root",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    "con=null",
    "con0=fd:2",
    "console=tty0",
    "quiet",
    "ssl=null",
    "ssl0=fd:0,fd:1",
    "panic=-1",
    "umid=guest",
];

/// A disk as the kernel is told of it. Its driver takes a comma or a colon for the end of a name.
///
/// d: whatever it holds, it is no copy-on-write file; c: no lock, the owner of the image keeps
/// others away; t: no discards, which would punch holes into the image.
fn disk_word(number: usize, path: &Path) -> Result<String, String> {
    let shown = quotable(path)?;
    match shown.contains([',', ':']) {
        true => Err(format!(
            "{} cannot be named as a disk of the guest's, for it has a comma or a colon: set FATHOM_STATE_DIR to a plainer path",
            path.display()
        )),
        false => Ok(format!("ubd{number}dct={shown}")),
    }
}

/// A path as a kernel's command line takes it.
///
/// # Errors
/// In words: it cannot be named there.
pub fn quotable(path: &Path) -> Result<String, String> {
    let text = path.to_string_lossy();
    if text.contains(|c: char| c == '"' || c.is_control()) || path.to_str().is_none() {
        return Err(format!(
            "{} cannot be named on a kernel's command line: use a plainer path",
            path.display()
        ));
    }
    Ok(if text.contains(' ') { format!("\"{text}\"") } else { text.into_owned() })
}

/// Reads to the end and keeps the last of it.
fn keep_last(mut from: impl Read, kept: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0_u8; 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(buffer.get(..n).unwrap_or_default());
        let excess = kept.len().saturating_sub(CONSOLE_KEPT);
        kept.drain(..excess);
    }
}

/// The last CPU that this process may use, if it may use several: the first ones serve more
/// interrupts.
fn last_cpu() -> Option<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let usable: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    (usable.len() > 1).then(|| usable.last().copied()).flatten()
}

/// Half of what the machine can spare, within limits, MiB.
fn memory_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    (kib.unwrap_or(1 << 20) / 2 / 1024).clamp(SMALLEST_MIB, LARGEST_MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_kernels_command_line() {
        assert_eq!(quotable(Path::new("/a/b")).unwrap(), "/a/b");
        assert_eq!(quotable(Path::new("/a b/c")).unwrap(), "\"/a b/c\"");
        assert!(quotable(Path::new("/a\"b")).unwrap_err().contains("plainer path"));
    }

    /// What happened: a modelled device is a file below the state directory. Where that has a blank
    /// in its name the guest's kernel was told the part before it, and its first program the rest;
    /// a comma or a colon was taken for the end of the name, and there was no disk.
    #[test]
    fn a_disk_is_named_as_its_driver_takes_it() {
        let word = |path: &str| disk_word(1, Path::new(path));
        assert_eq!(word("/proc/7/fd/9").unwrap(), "ubd1dct=/proc/7/fd/9");
        assert_eq!(word("/my state/x.device/disk").unwrap(), "ubd1dct=\"/my state/x.device/disk\"");
        for path in ["/a,b/disk", "/a:b/disk"] {
            assert!(word(path).unwrap_err().contains("set FATHOM_STATE_DIR"), "{path}");
        }
        assert!(word("/a\nb/disk").unwrap_err().contains("plainer path"));
    }

    /// What happened: a guest was killed in the moment in which its kernel had made a process that
    /// stops itself, to see what this machine allows. It stayed, stopped, for good.
    #[test]
    fn what_a_killed_guest_had_made_ends_with_it() {
        let home = tempfile::tempdir().unwrap();
        let started = |word: String| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "kill -STOP $$; exec sleep 600", "sh", &word]).spawn().unwrap()
        };
        let mut left = started(format!("uml_dir={}/", home.path().display()));
        let mut of_another = started(format!("uml_dir={}/other/", home.path().display()));
        end(home.path());
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(of_another.try_wait().unwrap(), None);
        of_another.kill().unwrap();
        of_another.wait().unwrap();
    }

    #[test]
    fn memory_stays_within_its_limits() {
        assert!((SMALLEST_MIB..=LARGEST_MIB).contains(&memory_mib()));
    }
}
