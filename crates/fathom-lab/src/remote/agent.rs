//! `fathom agent`: does on this machine what Fathom on another one asks over standard input and
//! output.
//!
//! It ends when its input does, or when nothing has come for [`SILENCE`]: the run is stopped, the
//! stack is taken down, and every process that came of it is ended. Whoever started it need not be
//! there any more.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::ends::both_ends;
use fathom_ground::lines::{self, RAW};
use fathom_ground::processes;

use super::wire::{Answer, BEAT, Question, VERSION};
use crate::event::{Event, WorkerRequest};
use crate::plan::{Machine, PlannedCell};
use crate::schedule::{Interrupt, Local, MountedStack, Observations, StackFailure, WorkError, World};
use crate::store::TraceRecord;

/// After so long without a word the other side is gone, although nobody has said so.
pub const SILENCE: Duration = Duration::from_secs(90);
/// How long the agent of a connection that was lost may take to end; the other side waits a minute
/// for this one's first word.
const LAST_LIMIT: Duration = Duration::from_secs(30);
/// How long the orderly end may take before what is left is killed.
pub(super) const END_LIMIT: Duration = Duration::from_secs(60);
/// How long what is left after the orderly end may take to end by itself: a server of PostgreSQL
/// whose worker is gone removes its shared memory before, once its own processes have ended, which
/// it waits five seconds for.
const LEFT_LIMIT: Duration = Duration::from_secs(8);
/// How often is looked.
const GLANCE: Duration = Duration::from_millis(100);
/// Rows of a trace, or operations of a device, in one answer.
const IN_ONE: usize = 2000;
/// Octets of a model's text in one answer. JSON makes six times as many of them at most, which fit
/// into [`lines::LONGEST_LINE`].
const IN_A_PART: usize = 128 << 10;
/// How long a replay that was told to end may take before it is killed.
const REPLAY_GRACE: Duration = Duration::from_secs(10);
/// What is kept of what a replay says on stderr, octets.
const COMPLAINTS_KEPT: usize = 64 << 10;

/// Names the directory of the list of stacks.
const STATE: &str = "FATHOM_STATE_DIR";

/// What the reader of the input and the rest share.
#[derive(Debug, Default)]
struct Line {
    /// The input has ended.
    is_over: AtomicBool,
    /// [`Question::Stop`] came.
    is_stopped: AtomicBool,
    /// When the last word came, ms since the begin.
    heard_ms: AtomicU64,
}

/// The whole of `fathom agent`. `after`: the agent of a connection that was lost, which is to end
/// first.
#[must_use]
pub fn main(directory: &Path, after: Option<u32>) -> ExitCode {
    // SAFETY: called before there are other threads; SIG_IGN is a valid disposition. Programs that
    // are started get the default back.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    keep_state_here();
    // What a worker started and left behind becomes a child of this process, and ends with it.
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    let mut out = Shared::new(BufWriter::with_capacity(1 << 16, std::io::stdout()));
    let interrupt = Interrupt::new();
    let world = interrupt
        .on_signals_unsaid()
        .map_err(|error| format!("signal handlers: {error}"))
        .and_then(|()| after.map_or(Ok(()), |process| end_agent(process, LAST_LIMIT)))
        .and_then(|()| prepared(directory, &interrupt));
    let (world, directory) = match world {
        Ok(found) => found,
        Err(problem) => {
            let _ = say(&mut out, &Answer::Refused { problem });
            return ExitCode::FAILURE;
        }
    };
    let line = Arc::new(Line::default());
    let (sender, asks) = channel();
    let (reading, raised) = (Arc::clone(&line), interrupt.clone());
    thread::spawn(move || read(&reading, &raised, &sender));
    let mut living = out.clone();
    let mut agent =
        Agent { world, out, line, interrupt, directory, watched: Observations::default(), is_watched: false };
    let greeted = agent.greet();
    // After the greeting, which is the first that it says.
    thread::spawn(move || {
        while say(&mut living, &Answer::Beat).is_ok() {
            thread::sleep(BEAT);
        }
    });
    let served = greeted.and_then(|()| agent.serve(&asks));
    let down = agent.world.down();
    end_descendants();
    match served.and(down) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Where nobody reads it, nobody is told.
            let _ = writeln!(std::io::stderr(), "fathom agent: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Where this user's home takes no list of stacks, that is kept beside Fathom's files, in which the
/// agent was started: `FATHOM_REMOTE_CACHE` may have named them for that very reason.
fn keep_state_here() {
    if std::env::var_os(STATE).is_some() || fathom_stack::is_state_writable() {
        return;
    }
    if let Ok(here) = std::env::current_dir() {
        // SAFETY: called before there are other threads.
        unsafe { std::env::set_var(STATE, here.join("state")) };
    }
}

/// The machine, ready to be asked, and its directory.
fn prepared(directory: &Path, interrupt: &Interrupt) -> Result<(Local, PathBuf), String> {
    let shown = directory.display();
    let kind = std::fs::metadata(directory)
        .map_err(|error| format!("{shown}: {error}; it must be a directory on the disk under test"))?;
    if !kind.is_dir() {
        return Err(format!("{shown}: not a directory"));
    }
    let directory = std::path::absolute(directory).map_err(|error| format!("{shown}: {error}"))?;
    fathom_stack::trusted_state().map_err(|error| error.to_string())?;
    let world = Local::new(directory.clone(), interrupt.clone())
        .map_err(|error| format!("this program's own path: {error}"))?;
    Ok((world, directory))
}

/// Reads what is asked until nothing comes any more.
fn read(line: &Arc<Line>, interrupt: &Interrupt, asks: &Sender<Result<Question, String>>) {
    let begin = Instant::now();
    let elapsed_ms = move || u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (watching, raised) = (Arc::clone(line), interrupt.clone());
    thread::spawn(move || {
        let mut over: Option<Instant> = None;
        loop {
            thread::sleep(GLANCE);
            let silence_ms = elapsed_ms().saturating_sub(watching.heard_ms.load(Ordering::SeqCst));
            if u128::from(silence_ms) > SILENCE.as_millis() {
                watching.is_over.store(true, Ordering::SeqCst);
            }
            if watching.is_over.load(Ordering::SeqCst) {
                raised.raise();
                if over.get_or_insert_with(Instant::now).elapsed() > END_LIMIT {
                    // What hangs now hangs in the kernel, or waits for it. The stack's guard takes
                    // down what it can.
                    end_descendants();
                    std::process::exit(1);
                }
            }
        }
    });
    for text in lines::receive(std::io::stdin()) {
        line.heard_ms.store(elapsed_ms(), Ordering::SeqCst);
        let ask = match serde_json::from_slice(&text) {
            Ok(Question::Beat) => continue,
            Ok(Question::Stop) => {
                line.is_stopped.store(true, Ordering::SeqCst);
                interrupt.raise();
                continue;
            }
            Ok(ask) => Ok(ask),
            Err(error) => Err(format!("not understood: {error}")),
        };
        if asks.send(ask).is_err() {
            break;
        }
    }
    line.is_over.store(true, Ordering::SeqCst);
    interrupt.raise();
}

/// An output that two threads have: what is written at once is not broken into.
struct Shared<W>(Arc<Mutex<W>>);

impl<W> Shared<W> {
    fn new(out: W) -> Shared<W> {
        Shared(Arc::new(Mutex::new(out)))
    }
}

impl<W> Clone for Shared<W> {
    fn clone(&self) -> Shared<W> {
        Shared(Arc::clone(&self.0))
    }
}

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(text).map(|()| text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Writes what a worker said, marked as that, at once.
fn passed_on(out: &mut impl Write, event: &Event) -> std::io::Result<()> {
    let mut text = vec![RAW];
    serde_json::to_writer(&mut text, event)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// The answer where a stack lacked space; the problem where it failed for something else.
fn of_stack(StackFailure { problem, is_full_disk }: StackFailure) -> Result<Answer, String> {
    if is_full_disk { Ok(Answer::NoRoom { problem }) } else { Err(problem) }
}

fn say(out: &mut impl Write, answer: &Answer) -> Result<(), String> {
    lines::send(out, answer).and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}

/// A text in parts of [`IN_A_PART`] at most.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(IN_A_PART);
        // The beginning of a text is a boundary of its letters, so that it ends.
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, more) = rest.split_at(end);
        rest = more;
        (!part.is_empty()).then_some(part)
    })
}

struct Agent<W> {
    world: Local,
    out: W,
    line: Arc<Line>,
    interrupt: Interrupt,
    directory: PathBuf,
    /// What the worker under way told for the block trace.
    watched: Observations,
    /// Whether a trace is under way.
    is_watched: bool,
}

impl<W: Write> Agent<W> {
    fn greet(&mut self) -> Result<(), String> {
        let fathom = crate::version::version();
        let process = std::process::id();
        say(&mut self.out, &Answer::Hello { version: VERSION, fathom, process })
    }

    /// Answers until the input ends or a signal comes.
    fn serve(&mut self, asks: &Receiver<Result<Question, String>>) -> Result<(), String> {
        loop {
            let is_signalled = self.interrupt.is_raised() && !self.line.is_stopped.load(Ordering::SeqCst);
            if is_signalled || self.line.is_over.load(Ordering::SeqCst) {
                return Ok(());
            }
            let answer = match asks.recv_timeout(GLANCE) {
                Ok(Ok(ask)) => self.answer(ask).unwrap_or_else(|problem| Answer::Refused { problem }),
                Ok(Err(problem)) => Answer::Refused { problem },
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            say(&mut self.out, &answer)?;
        }
    }

    fn answer(&mut self, ask: Question) -> Result<Answer, String> {
        Ok(match ask {
            Question::Beat | Question::Stop => Answer::Done,
            Question::Doctor => {
                let capabilities = fathom_stack::doctor();
                let packages = fathom_stack::packages(&capabilities);
                Answer::Capabilities { capabilities, packages }
            }
            Question::Capabilities { needs } => {
                Answer::Capabilities { capabilities: Machine::capabilities_here(needs), packages: None }
            }
            Question::Environment => Answer::Environment { values: self.world.environment()? },
            Question::Sweep => {
                let swept = fathom_stack::sweep();
                Answer::Swept { removed: swept.removed, failed: swept.failed }
            }
            Question::Size { path } => Answer::Size { bytes: own_size(&path) },
            Question::Up { spec, label } => match self.world.up(&spec, &label) {
                Ok(mounted) => self.mounted(mounted)?,
                Err(failure) => of_stack(failure)?,
            },
            Question::Floor => match self.world.floor_ns() {
                Ok(ns) => Answer::Floor { ns },
                Err(failure) => of_stack(failure)?,
            },
            Question::Cpus { cell } => {
                let planned =
                    PlannedCell { id: 0, label: String::new(), cell: (*cell).clone(), skipped: None };
                Answer::Cpus { cpus: self.world.cpus(&planned) }
            }
            Question::Work { order, limit_ms } => self.work(&order, Duration::from_millis(limit_ms)),
            Question::Trace => {
                (self.watched, self.is_watched) = (Observations::default(), true);
                Answer::Watch { watch: self.world.trace()? }
            }
            Question::Traced => self.traced()?,
            Question::Devices => Answer::Devices { statistics: self.world.devices()? },
            Question::KeepServed => Answer::Kept { is_kept: self.world.keep_served()? },
            Question::RequestTimes => {
                let all = self.world.served()?;
                for (device, served) in all.iter().enumerate() {
                    for some in served.chunks(IN_ONE) {
                        let operations = Answer::Operations { device, served: some.to_vec() };
                        say(&mut self.out, &operations)?;
                    }
                }
                Answer::RequestTimes { devices: all.len() }
            }
            Question::Down => {
                self.is_watched = false;
                self.world.down()?;
                Answer::Done
            }
            Question::MachineLoad => Answer::MachineLoad(self.world.machine_load()),
            Question::State => Answer::State(self.world.state()),
            Question::Condition => {
                let (state, remarks) = self.world.condition();
                Answer::Condition { state, remarks }
            }
            Question::Replay { words } => self.replay(&words)?,
        })
    }

    /// Tells of a stack that is up; the texts of its models go first, in parts.
    fn mounted(&mut self, mounted: MountedStack) -> Result<Answer, String> {
        let MountedStack { directory, mut record } = mounted;
        let models = std::mem::take(&mut record.models);
        for (device, model) in models.iter().enumerate() {
            for part in parts(model) {
                say(&mut self.out, &Answer::Model { device, text: part.to_owned() })?;
            }
        }
        Ok(Answer::Up { directory, record: Box::new(record) })
    }

    fn work(&mut self, order: &WorkerRequest, limit: Duration) -> Answer {
        let Agent { world, out, watched, is_watched, .. } = self;
        let mut broken = None;
        let worked = world.work(order, limit, &mut |event| {
            let is_progress = matches!(event, Event::Progress { .. });
            let written = passed_on(out, &event);
            let written = written.and_then(|()| if is_progress { out.flush() } else { Ok(()) });
            if let Err(error) = written {
                broken.get_or_insert(error);
            }
            if *is_watched {
                watched.take(event);
            }
        });
        let (failed, is_interrupted) = match worked {
            Ok(()) => (broken.map(|error| error.to_string()), false),
            Err(WorkError::Interrupted) => (None, true),
            Err(WorkError::Failed(message)) => (Some(message), false),
        };
        Answer::Worked { failed, is_interrupted }
    }

    fn traced(&mut self) -> Result<Answer, String> {
        self.is_watched = false;
        let Some(trace) = self.world.traced(std::mem::take(&mut self.watched))? else {
            return Ok(Answer::Traced { trace: None });
        };
        for some in trace.rows.chunks(IN_ONE) {
            say(&mut self.out, &Answer::Blocks { rows: some.to_vec() })?;
        }
        Ok(Answer::Traced { trace: Some(Box::new(head_of(trace))) })
    }

    fn replay(&mut self, words: &[String]) -> Result<Answer, String> {
        let program = fathom_ground::program::own_program().map_err(|error| error.to_string())?;
        // Another client may have pushed the same file in the place of the one that runs.
        let mut command = Command::new(fathom_ground::program::executable(&program));
        command.args(["trace", "replay", "--dir"]).arg(&self.directory).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("the replay cannot be started: {error}"))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("a program without pipes".into());
        };
        // To its end: a replay whose complaints nobody reads any more would end by the next one.
        let complains = thread::spawn(move || both_ends(stderr, COMPLAINTS_KEPT));
        let (interrupt, pid) = (self.interrupt.clone(), child.id());
        let (over, ended) = channel::<()>();
        let stopper = thread::spawn(move || {
            let mut told: Option<Instant> = None;
            while ended.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) {
                match told {
                    None if interrupt.is_raised() => {
                        // It removes what it made, as at Ctrl-C.
                        signal(pid, rustix::process::Signal::TERM);
                        told = Some(Instant::now());
                    }
                    Some(since) if since.elapsed() > REPLAY_GRACE => {
                        // Its guard does that then.
                        kill_group(pid);
                        return;
                    }
                    _ => {}
                }
            }
        });
        let mut written = BufReader::new(stdout);
        let mut text = vec![RAW];
        loop {
            text.truncate(1);
            // With its mark and its end no longer than a line that is read whole.
            match written.by_ref().take(lines::LONGEST_LINE - 2).read_until(b'\n', &mut text) {
                Ok(1..) => {
                    if text.last() != Some(&b'\n') {
                        text.push(b'\n');
                    }
                    self.out.write_all(&text).map_err(|error| error.to_string())?;
                }
                _ => break,
            }
        }
        let status = child.wait().map_err(|error| format!("the replay cannot be waited for: {error}"))?;
        drop(over);
        let _ = stopper.join();
        let said = complains.join().unwrap_or_default();
        Ok(Answer::Replayed { code: status.code(), said })
    }
}

/// The size of a file of this user's, in a directory of this user's: what was pushed is loaded, if
/// it is a library, and another user's would be that user's program.
fn own_size(path: &Path) -> Option<u64> {
    let user = rustix::process::geteuid().as_raw();
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let directory = std::fs::metadata(path.parent()?).ok()?;
    (file.uid() == user && directory.uid() == user).then_some(file.len())
}

/// A trace without its rows, which are told before it, and without what results keep nothing of: a
/// phase of many executions has more intervals that count for nothing than fit into a line.
fn head_of(mut trace: TraceRecord) -> TraceRecord {
    trace.rows = Vec::new();
    for window in &mut trace.windows {
        (window.lanes, window.excluded) = (Vec::new(), Vec::new());
    }
    trace
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // An error means that it has ended.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills a process that leads a group of its own, with all of the group.
fn kill_group(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // An error means that nothing is left of it.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Ends the agent of a connection that was lost, with all that it has, and waits for that. A
/// network that is gone is noticed late: its worker would be at work beside the next one.
fn end_agent(process: u32, limit: Duration) -> Result<(), String> {
    let begin = Instant::now();
    if is_agent(process) {
        signal(process, rustix::process::Signal::TERM);
    }
    while is_agent(process) {
        if begin.elapsed() > limit {
            return Err(format!(
                "the agent of the connection that was lost (process {process}) has not ended within {} s, and what it does \
                 would disturb the next run",
                limit.as_secs()
            ));
        }
        thread::sleep(GLANCE);
    }
    Ok(())
}

/// Whether a process is another agent of this program's: its number may be somebody else's by now.
/// Another client may have pushed the same file in the place of the one that it runs.
fn is_agent(process: u32) -> bool {
    let program = |of: &str| std::fs::read_link(format!("/proc/{of}/exe")).ok();
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    process != std::process::id()
        && words.split(|octet| *octet == 0).nth(1) == Some(&b"agent"[..])
        && program("self")
            .zip(program(&process.to_string()))
            .is_some_and(|(own, other)| fathom_ground::program::is_same_name(&own, &other))
}

/// Kills every process that came of this one and does not end by itself, but for guards, which undo
/// what is left and end then.
fn end_descendants() {
    // Those that this process has taken over are waited for, or they would stay as zombies that are
    // found again.
    let reap = || while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {};
    if ends_by_itself(std::process::id(), &reap, LEFT_LIMIT) {
        return;
    }
    // What is killed may have just started another; a few rounds find it.
    for _ in 0..50 {
        let left = descendants(std::process::id());
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|pid| signal(*pid, rustix::process::Signal::KILL));
        reap();
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether all that came of a process ends within this time; `reap` waits for what has.
fn ends_by_itself(of: u32, reap: &dyn Fn(), limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        reap();
        if descendants(of).is_empty() {
            return true;
        }
        if begin.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process is the guard of a stack, by the words that it was started with.
fn is_guard(pid: u32) -> bool {
    processes::was_started_with(pid, fathom_stack::guard::WORD)
}

/// The processes that came of one, as /proc tells it, without guards and what they start.
fn descendants(of: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> =
        processes::pids().filter_map(|pid| Some((pid, processes::parent(pid)?))).collect();
    let mut found = HashSet::from([of]);
    let mut ordered = Vec::new();
    loop {
        let more: Vec<u32> = pairs
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid) && !is_guard(*pid))
            .map(|pair| pair.0)
            .collect();
        if more.is_empty() {
            return ordered;
        }
        found.extend(&more);
        ordered.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_a_descendant_and_this_process_is_none() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = descendants(std::process::id());
        assert!(found.contains(&child.id()) && !found.contains(&std::process::id()), "{found:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What happened: a server of PostgreSQL that was ending, because its worker had ended, was
    /// killed in the midst of that, and left its shared memory on the machine for ever.
    #[test]
    fn what_ends_by_itself_is_left_the_time_for_it() {
        let place = tempfile::tempdir().unwrap();
        let done = place.path().join("done");
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(&place).stdin(Stdio::piped()).spawn().unwrap()
        };
        let mut child = start("(sleep 0.5; : > done) & wait; read line");
        while descendants(child.id()).is_empty() && !done.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(ends_by_itself(child.id(), &|| (), Duration::from_secs(60)) && done.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = start("sleep 60 & wait");
        while descendants(child.id()).is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!ends_by_itself(child.id(), &|| (), Duration::from_millis(50)));
        descendants(child.id()).iter().for_each(|pid| signal(*pid, rustix::process::Signal::KILL));
        child.wait().unwrap();
    }

    /// What happened: the answer held the texts of the models, of up to 1 MiB each, and a line has
    /// 1 MiB at most: the other side took its two halves for nonsense, and each run failed.
    #[test]
    fn the_models_of_a_stack_are_told_in_lines_that_are_read_whole() {
        // JSON makes two octets of a quotation mark, and a letter may lie across a part's end.
        let model = format!("# {}\n", "\"é".repeat(300_000));
        let mut agent = Agent {
            world: Local::new(PathBuf::new(), Interrupt::new()).unwrap(),
            out: Vec::new(),
            line: Arc::default(),
            interrupt: Interrupt::new(),
            directory: PathBuf::new(),
            watched: Observations::default(),
            is_watched: false,
        };
        let record = fathom_stack::StackRecord {
            models: vec![model.clone(), "log".into()],
            ..fathom_stack::StackRecord::default()
        };
        let answer = agent.mounted(MountedStack { directory: "/x".into(), record }).unwrap();
        say(&mut agent.out, &answer).unwrap();
        let mut told = [String::new(), String::new()];
        for line in agent.out.split_inclusive(|octet| *octet == b'\n') {
            assert!((line.len() as u64) < lines::LONGEST_LINE, "{}", line.len());
            match serde_json::from_slice(line).unwrap() {
                Answer::Model { device, text } => told[device].push_str(&text),
                Answer::Up { record, .. } => assert!(record.models.is_empty()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told, [model, "log".to_owned()]);
        assert_eq!(parts("").count(), 0);
    }

    /// What happened: phases that go cold before each of their executions have two intervals for
    /// each that count for nothing, and from some 14,000 executions on the end of a block trace was
    /// longer than a line.
    #[test]
    fn the_end_of_a_trace_of_many_executions_fits_into_a_line() {
        let at = 1_000_000_000_000_000;
        let window = fathom_workload::sample::Window {
            phase: "select-asc".into(),
            x: None,
            start_ns: at,
            end_ns: at + 9,
            count: 20_000,
            changed_bytes: 0,
            lanes: Vec::new(),
            excluded: vec![(at, at + 1); 40_000],
        };
        let trace = TraceRecord {
            source: crate::store::TraceSource::Device,
            span_ns: 9,
            lost_events: 0,
            unfinished: 0,
            remarks: Vec::new(),
            windows: vec![window],
            rows: Vec::new(),
        };
        assert!(serde_json::to_vec(&trace).unwrap().len() as u64 > lines::LONGEST_LINE);
        let told = head_of(trace);
        assert_eq!((told.windows[0].count, told.windows[0].end_ns), (20_000, at + 9));
        assert!(serde_json::to_vec(&told).unwrap().len() < 1000);
    }

    /// What happened: a library that another user had laid there, by the right name and of the
    /// right size, was loaded: of the program alone it was asked whose it is.
    #[test]
    fn what_another_user_has_laid_there_is_not_there() {
        let place = tempfile::tempdir().unwrap();
        let library = place.path().join("libsqlite3.so");
        std::fs::write(&library, "abc").unwrap();
        assert_eq!(own_size(&library), Some(3));
        assert_eq!((own_size(place.path()), own_size(&place.path().join("absent"))), (None, None));
        if std::os::unix::fs::chown(&library, Some(65534), None).is_err() {
            println!("SKIP: giving a file away needs root");
            return;
        }
        assert_eq!(own_size(&library), None);
        std::os::unix::fs::chown(&library, Some(0), None).unwrap();
        std::os::unix::fs::chown(place.path(), Some(65534), None).unwrap();
        assert_eq!(own_size(&library), None);
    }

    /// After a reboot, say, the number is another program's.
    #[test]
    fn a_process_that_is_no_agent_of_this_program_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("agent"), "read line").unwrap();
        let mut child =
            Command::new("sh").arg("agent").current_dir(&place).stdin(Stdio::piped()).spawn().unwrap();
        for process in [child.id(), std::process::id(), u32::MAX] {
            assert!(!is_agent(process));
            end_agent(process, Duration::from_secs(60)).unwrap();
        }
        assert!(child.try_wait().unwrap().is_none(), "it still runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
