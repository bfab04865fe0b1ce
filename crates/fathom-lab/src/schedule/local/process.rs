//! One worker process: started, listened to, and ended.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::Interrupt;
use crate::event::{Event, WorkerRequest};
use crate::schedule::WorkError;

/// Longest line a worker may write; what may have more of anything is told in several events.
const LONGEST_LINE: u64 = 1 << 20;
/// What is kept of the worker's stderr, for the message of a failed run.
const STDERR_KEPT: usize = 4096;
/// How often the flag and the clock are looked at.
pub(super) const GLANCE: Duration = Duration::from_millis(50);
/// How long a worker may take to end after it was asked to (SIGTERM).
const GRACE: Duration = Duration::from_secs(5);
/// How long one that was killed may take to die. What waits in the kernel for a device that does
/// not answer never does.
const DEATH: Duration = Duration::from_secs(2);

/// What the reader of stdout says.
enum ProgramOutput {
    Event(Box<Event>),
    Nonsense(String),
    End,
}

/// Runs a worker to its end. Where it does not die, `free` takes from it what it waits for in the
/// kernel, and says whether there was anything.
pub(super) fn run(
    mut command: Command,
    order: &WorkerRequest,
    limit: Duration,
    interrupt: &Interrupt,
    free: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), WorkError> {
    let failed = |message: String| Err(WorkError::Failed(message));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: Ctrl-C reaches the lab, and the lab decides when the worker ends.
    command.process_group(0);
    let deadline = Instant::now() + limit;
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            return failed(format!("the worker {program} cannot be started: {error}"));
        }
    };
    let mut worker = Worker { child, ended: false };
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (worker.child.stdin.take(), worker.child.stdout.take(), worker.child.stderr.take())
    else {
        return failed("the worker has no pipes".into());
    };
    let text = match serde_json::to_vec(order) {
        Ok(text) => text,
        Err(error) => return failed(format!("the order cannot be written: {error}")),
    };
    // A worker that ends before it has read its order is judged by how it ended, not by the broken
    // pipe.
    let _ = fathom_ground::pipe::write_all(&mut stdin, &text);
    drop(stdin);
    let (complain, complaints) = channel();
    std::thread::spawn(move || complain.send(last_words(stderr)));
    let (sender, heard) = channel();
    std::thread::spawn(move || listen(stdout, &sender));

    let listened = attend(&mut worker, &heard, deadline, limit, interrupt, on_event);
    if listened.is_err() {
        worker.ask_to_end();
    }
    let until = if listened.is_ok() { deadline.max(Instant::now() + GRACE) } else { Instant::now() };
    let mut status = worker.wait(Instant::now());
    while status.is_none() && Instant::now() < until && !interrupt.is_raised() {
        status = worker.wait(Instant::now() + GLANCE);
    }
    if !status.is_some_and(|status| status.success()) {
        worker.end_what_it_started();
    }
    if status.is_none()
        && let Some(why) = worker.die(free)
    {
        return match listened {
            Err(WorkError::Interrupted) => Err(WorkError::Interrupted),
            Err(WorkError::Failed(message)) => failed(format!("{message}; {why}")),
            Ok(()) => failed(format!("the worker closed its output and did not end; {why}")),
        };
    }
    listened?;
    // Also one that the same signal has ended (`killall fathom`): the user wants to stop, and no
    // run has failed.
    if !status.is_some_and(|status| status.success()) && interrupt.is_raised() {
        return Err(WorkError::Interrupted);
    }
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            let complaints = complaints.recv_timeout(ECHO).unwrap_or_default();
            failed(with_complaints(how_it_ended(status), &complaints))
        }
        None => failed("the worker closed its output and did not end; it was killed".into()),
    }
}

/// How long the output may stay open after the worker has ended: what it started may hold it. The
/// thread that reads it may get no processor for seconds on a busy machine, and what it has not
/// read would be missing: that the worker was done, or why it failed.
const ECHO: Duration = Duration::from_secs(10);

/// Hands on events until the worker's output ends.
fn attend(
    worker: &mut Worker,
    heard: &Receiver<ProgramOutput>,
    deadline: Instant,
    limit: Duration,
    interrupt: &Interrupt,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), WorkError> {
    let mut ended: Option<Instant> = None;
    loop {
        if interrupt.is_raised() {
            return Err(WorkError::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(too_long(limit));
        }
        match heard.recv_timeout(GLANCE) {
            Ok(ProgramOutput::Event(event)) => on_event(*event),
            Ok(ProgramOutput::Nonsense(text)) => {
                return Err(WorkError::Failed(format!("the worker wrote what is no event: {text}")));
            }
            Ok(ProgramOutput::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = worker.wait(Instant::now()) {
                    if ended.is_none() && !status.success() {
                        worker.end_what_it_started();
                    }
                    let since = *ended.get_or_insert_with(Instant::now);
                    if since.elapsed() > ECHO {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// A worker waited for a device whose server did not answer.
pub(super) const DEVICE_STOOD_STILL: &str = "the worker waited for the modelled device and could not even be killed, so the device's server, which stood still, was killed";

/// A run that was ended because its time was over.
pub(super) fn too_long(limit: Duration) -> WorkError {
    WorkError::Failed(format!(
        "the run took longer than its time limit of {} s and was ended; give more with `timeout_s` in the experiment \
         file, or less work",
        limit.as_secs()
    ))
}

fn listen(stdout: impl Read, sender: &Sender<ProgramOutput>) {
    let mut reader = BufReader::with_capacity(1 << 16, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let heard = match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => ProgramOutput::End,
            Ok(_) => match serde_json::from_slice(&line) {
                Ok(event) => ProgramOutput::Event(Box::new(event)),
                Err(_) => ProgramOutput::Nonsense(excerpt(&line)),
            },
            Err(error) => ProgramOutput::Nonsense(format!("(its output cannot be read: {error})")),
        };
        let last = !matches!(heard, ProgramOutput::Event(_));
        if sender.send(heard).is_err() || last {
            return;
        }
    }
}

/// The beginning of a line, as text that can be shown.
pub(super) fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let short: String = text.trim_end().chars().take(80).collect();
    format!("{short:?}{}", if text.trim_end().chars().count() > 80 { " …" } else { "" })
}

/// The end of what was written to stderr.
fn last_words(mut stderr: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0_u8; 1024];
    while let Ok(n) = stderr.read(&mut buffer) {
        if n == 0 {
            break;
        }
        kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
        let excess = kept.len().saturating_sub(STDERR_KEPT);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

pub(super) fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => {
            "the worker was killed (signal 9): by hand, or by the kernel because memory ran out (`dmesg` shows that)".into()
        }
        (Some(11), _) => "the worker crashed (signal 11, segmentation fault)".into(),
        // SQLite maps the index of its log.
        (Some(libc::SIGBUS), _) => format!(
            "the worker was ended by signal {} (SIGBUS): what it had mapped of a file into memory could not be read or written",
            libc::SIGBUS
        ),
        (Some(signal), _) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("the worker was ended by signal {signal} ({name})"),
            None => format!("the worker was ended by signal {signal}"),
        },
        (None, Some(code)) => format!("the worker ended with exit code {code}"),
        (None, None) => "the worker ended".into(),
    }
}

pub(super) fn with_complaints(message: String, complaints: &str) -> String {
    if complaints.is_empty() { message } else { format!("{message}; it said: {complaints}") }
}

/// A worker that is ended when nobody waits for it any more.
struct Worker {
    child: Child,
    ended: bool,
}

impl Worker {
    /// Asks it to end, and waits a while for that.
    fn ask_to_end(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        let _ = self.wait(Instant::now() + GRACE);
    }

    /// Makes it end; what it took where that was more than to kill it.
    fn die(&mut self, free: &dyn Fn() -> bool) -> Option<String> {
        self.signal(rustix::process::Signal::KILL);
        let begin = Instant::now();
        // What waits for nothing in the kernel dies when it gets a processor, for which it may have
        // to wait on a busy machine.
        while self.wait(Instant::now() + DEATH).is_none() {
            if self.waits_in_kernel() || begin.elapsed() > DEATH * 10 {
                return Some(self.freed(free));
            }
        }
        None
    }

    /// What it took to make one end that waits in the kernel.
    fn freed(&mut self, free: &dyn Fn() -> bool) -> String {
        let freed = free();
        let dead = freed && self.wait(Instant::now() + GRACE).is_some();
        match (freed, dead) {
            (true, true) => DEVICE_STOOD_STILL.to_owned(),
            (true, false) => format!("{DEVICE_STOOD_STILL}, and {}", self.left_behind()),
            (false, _) => self.left_behind(),
        }
    }

    /// Whether one of its threads waits in the kernel for what no signal ends.
    fn waits_in_kernel(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        threads.into_iter().flatten().flatten().any(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // Its name in parentheses may hold anything; the state follows it.
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
        })
    }

    fn left_behind(&self) -> String {
        format!(
            "the worker (process {}) hangs in the kernel, does not die and was left behind",
            self.child.id()
        )
    }

    fn signal(&self, signal: rustix::process::Signal) {
        // The group, so that what the worker started ends with it. An error means that it has ended
        // already.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
            && !self.ended
        {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Ends what is left of the worker's process group.
    fn end_what_it_started(&self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // An error means that nothing is left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// Waits for its end, at most until `deadline`.
    fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        let mut pause = Duration::from_millis(1);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = true;
                    return Some(status);
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(GLANCE);
                }
                _ => return None,
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(rustix::process::Signal::KILL);
            // Not for ever: one that hangs in the kernel is left behind.
            let _ = self.wait(Instant::now() + DEATH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_that_ended_a_worker_is_named() {
        for (signal, words) in [(libc::SIGBUS, "SIGBUS): what it had mapped"), (libc::SIGABRT, "(SIGABRT)")] {
            let told = how_it_ended(ExitStatus::from_raw(signal));
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(how_it_ended(ExitStatus::from_raw(63)), "the worker was ended by signal 63");
    }

    /// What happened: a worker that was killed and got no processor for two seconds "hangs in the
    /// kernel", and was left behind; its device's server was killed, which had done nothing.
    #[test]
    fn what_waits_for_nothing_in_the_kernel_is_known_and_dies() {
        let child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut worker = Worker { child, ended: false };
        assert_eq!(worker.die(&|| false), None);
        assert!(!worker.waits_in_kernel(), "it is gone");
    }
}
