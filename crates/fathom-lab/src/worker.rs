//! The worker: a fresh process that executes one cell once.
//!
//! It takes an [`WorkerRequest`] as JSON on stdin and writes [`Event`]s, one JSON object a line, on stdout.
//! All findings stay in memory until the work is done and verified: while something is timed,
//! nothing is written but a progress line, at most four a second, and only when the workload
//! reports between two executions. What else this process or a library prints on stdout goes to
//! stderr, so that it cannot be taken for an event.
//!
//! The memory reported is the peak resident set of the whole process (`getrusage`): engine,
//! workload, and the samples kept (about 150 bytes each). A server engine's own processes are not
//! in it.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fathom_probe::Op;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Sink, WarningKind, Window};
use fathom_workload::spec::Durability;
use fathom_workload::workload::Context;

use crate::event::{Event, FileCall, PROTOCOL, WorkerRequest};
use crate::failure::FailureKind;

/// Smallest time between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// Why a run failed.
struct Failure {
    kind: FailureKind,
    message: String,
}

impl Failure {
    fn of<E: std::fmt::Display>(error: E) -> Failure
    where
        FailureKind: for<'a> From<&'a E>,
    {
        Failure { kind: FailureKind::from(&error), message: error.to_string() }
    }
}

impl From<String> for Failure {
    /// Neither the workload's nor the engine's.
    fn from(message: String) -> Failure {
        Failure { kind: FailureKind::Machine, message }
    }
}

/// Runs the worker: order from stdin, events to stdout. Gives 0 for a good run and 1 for a failed
/// one.
#[must_use]
pub fn main() -> ExitCode {
    // The worker must not outlive the lab: nobody would read its events or end it.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // What an application had in its databases is for nobody else to read, whatever the user's own
    // umask says.
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let mut events = match take_stdout() {
        Ok(file) => file,
        Err(error) => {
            eprintln!("worker: stdout: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut text = String::new();
    let order = match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => serde_json::from_str::<WorkerRequest>(&text).map_err(|error| match protocol_of(&text) {
            // One of another version may have other keys.
            Some(asked) if asked != u64::from(PROTOCOL) => of_another_protocol(asked),
            _ => format!(
                "the order on stdin is not one: {error}. `fathom run` gives it; see `fathom run --help`"
            ),
        }),
        Err(error) => Err(format!("stdin: {error}")),
    };
    let outcome = order.map_err(Failure::from).and_then(|order| execute(&order, &mut events));
    let last = match outcome {
        Ok(last) => last,
        Err(Failure { kind, message }) => Event::Failed { message, kind },
    };
    let good = matches!(last, Event::Done { .. });
    let written = write_event(&mut events, &last);
    if good && written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The version of an order, whatever else that has.
fn protocol_of(text: &str) -> Option<u64> {
    serde_json::from_str::<serde_json::Value>(text).ok()?.get("protocol")?.as_u64()
}

fn of_another_protocol(asked: u64) -> String {
    format!(
        "the worker speaks protocol {PROTOCOL}, it was asked in protocol {asked}: use the same Fathom on both sides"
    )
}

/// Keeps stdout for events: what else is printed goes to stderr.
fn take_stdout() -> std::io::Result<std::fs::File> {
    // Closed in what an engine starts (a server), so that the lab sees the end of the events when
    // this process ends.
    let events: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(events.into())
}

fn write_event(to: &mut impl Write, event: &Event) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(event).map_err(std::io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Executes an order; everything but the last event is written to `events`.
fn execute<W: Write>(order: &WorkerRequest, events: &mut W) -> Result<Event, Failure> {
    if order.protocol != PROTOCOL {
        return Err(of_another_protocol(order.protocol.into()).into());
    }
    pin(&order.cpus)?;
    if let Some(what) = order.watch {
        fathom_probe::watch(what);
        fathom_workload::changed::count_changes();
    }
    if order.marks {
        fathom_probe::keep_marks(MARKS_MAX);
        if order.cell.instruments.operations {
            fathom_probe::keep_statements(STATEMENTS_MAX);
        }
    }
    let mut memory = Memory { kept: Vec::new(), events, last_progress: Instant::now(), broken: None };
    // A panic is a bug in a workload or engine; the run fails, and the lab goes on with the next.
    let worked = catch_unwind(AssertUnwindSafe(|| work(order, &mut memory)));
    let Memory { kept, events, broken, .. } = memory;
    let started = match worked {
        Ok(result) => result?,
        Err(panic) => return Err(format!("the worker panicked: {}", words_of(&*panic)).into()),
    };
    if let Some(error) = broken {
        return Err(format!("progress could not be written: {error}").into());
    }
    // Whoever reads this on another machine believes no more.
    debug_assert!(
        kept.iter().filter(|event| matches!(event, Event::Sample(_))).count() as u64
            <= fathom_workload::most_samples(&order.cell.workload)
    );
    let mut watched = order.watch.map(|_| watched_events()).unwrap_or_default();
    if order.marks {
        watched.extend(marks_events());
        watched.extend(statements_events());
    }
    let mut buffered = std::io::BufWriter::with_capacity(1 << 16, events);
    let write = |buffered: &mut std::io::BufWriter<_>| {
        write_event(buffered, &started)?;
        kept.iter().chain(&watched).try_for_each(|event| write_event(buffered, event))?;
        buffered.flush()
    };
    write(&mut buffered).map_err(|error| format!("the findings could not be written: {error}"))?;
    let (max_rss_bytes, involuntary_switches) = usage();
    Ok(Event::Done { max_rss_bytes, involuntary_switches })
}

/// Notes, calls or intervals in one event: a line of it stays far below the longest that is read.
const WATCHED_IN_ONE: usize = 2000;

/// Octets of statements' texts in one event, as many as the longest that the probe keeps has. JSON
/// makes six times as many of them at most, which fit into a line.
const TEXTS_IN_ONE: usize = fathom_probe::TEXT_OCTETS_MAX;

/// Marks that are kept at most: 96 MB of them.
const MARKS_MAX: usize = 2_000_000;

/// Statements that are kept at most: 48 MB of them.
const STATEMENTS_MAX: usize = 2_000_000;

/// The marks, as events.
fn marks_events() -> Vec<Event> {
    let fathom_probe::Marks { marks, lost, knows_queue } = fathom_probe::take_marks();
    let some = |marks: &[fathom_probe::Mark]| Event::Marks { marks: marks.to_vec(), lost, knows_queue };
    marks.chunks(WATCHED_IN_ONE).map(some).collect()
}

/// The statements, as events; none where none were kept.
fn statements_events() -> Vec<Event> {
    let (fathom_probe::Statements { texts, executions }, is_left_out) = fathom_probe::take_statements();
    let left_out = is_left_out.then(|| Event::Warning {
        text: "recording: the run had more statements, or more different or longer ones, than are kept: executions may be without theirs".into(),
        kind: WarningKind::Other,
    });
    let texts = some_texts(texts).into_iter();
    let texts = texts.map(|texts| Event::Statements { texts, executions: Vec::new() });
    let executions = executions
        .chunks(WATCHED_IN_ONE)
        .map(|some| Event::Statements { texts: Vec::new(), executions: some.to_vec() });
    texts.chain(executions).chain(left_out).collect()
}

/// Texts in parts of at most so many, and of [`TEXTS_IN_ONE`] where they are several.
fn some_texts(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = Vec::new();
    let mut octets = 0_usize;
    for text in texts {
        octets += text.len();
        match parts.last_mut() {
            Some(part) if octets <= TEXTS_IN_ONE && part.len() < WATCHED_IN_ONE => part.push(text),
            _ => {
                octets = text.len();
                parts.push(vec![text]);
            }
        }
    }
    parts
}

/// What the probe watched, as events.
fn watched_events() -> Vec<Event> {
    let watched = fathom_probe::take_watched();
    let causes = watched.files.iter().map(|file| Cause::of_class(file.class)).collect();
    let mut events = vec![Event::Files { causes }];
    for notes in watched.notes.chunks(WATCHED_IN_ONE) {
        events.push(Event::Notes { notes: notes.to_vec() });
    }
    for calls in watched.calls.chunks(WATCHED_IN_ONE) {
        events.push(Event::Calls { calls: calls.iter().map(file_call).collect() });
    }
    for problem in watched.problems {
        events.push(Event::Warning {
            text: format!(
                "block trace: the file system does not tell where its files lie ({problem}); what they wrote is \
                 unattributed"
            ),
            kind: WarningKind::Other,
        });
    }
    events
}

fn file_call(call: &fathom_probe::Call) -> FileCall {
    let op = match call.op {
        Op::Read => BlockOp::Read,
        Op::Write => BlockOp::Write,
        Op::Sync => BlockOp::Flush,
        Op::Truncate | Op::Delete => BlockOp::Discard,
        _ => BlockOp::Other,
    };
    let fathom_probe::Call { file, offset, bytes, begin_ns, end_ns, .. } = *call;
    FileCall { file, op, offset, bytes, begin_ns, end_ns }
}

/// Starts the engine, runs the workload, stops the engine; gives the event that opens the findings.
fn work<W: Write>(order: &WorkerRequest, memory: &mut Memory<'_, W>) -> Result<Event, Failure> {
    let cell = &order.cell;
    let workload = fathom_workload::create(&cell.workload).map_err(Failure::of)?;
    // Others have files on that disk, too, and a trace may fill it. An image is the stack's alone.
    if cell.stack.place.is_directory() {
        fathom_workload::room::keep(&order.directory);
    }
    let engine = cell
        .engine
        .as_ref()
        .map(|spec| fathom_workload::start_engine(spec, &order.directory))
        .transpose()
        .map_err(Failure::of)?;
    let context = Context { directory: &order.directory, engine: engine.as_deref(), seed: order.seed };
    workload.run(&context, memory).map_err(Failure::of)?;
    Ok(Event::Started {
        engine: engine.as_ref().map(|engine| engine.info()),
        // With neither an engine nor a store of its own nothing is committed, so nothing is
        // promised.
        durability: engine
            .as_ref()
            .map(|engine| engine.durability())
            .or_else(|| workload.durability())
            .unwrap_or(Durability::None),
        parameters: workload.parameters(),
    })
}

/// What a panic said.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => (*words).to_owned(),
        (_, Some(words)) => words.clone(),
        _ => "without words".to_owned(),
    }
}

/// Lets this thread, and those it starts, run on `cpus` only; empty = wherever the kernel likes.
fn pin(cpus: &[usize]) -> Result<(), String> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(format!("there is no CPU {cpu}"));
        }
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| format!("the worker cannot be pinned to the CPUs {cpus:?}: {error}"))
}

/// Peak resident set (bytes) and involuntary context switches of this process.
fn usage() -> (u64, u64) {
    // SAFETY: getrusage fills the structure it is given, which is valid and writable; all-zero
    // bytes are a valid rusage.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    // Linux gives ru_maxrss in KiB (getrusage(2)).
    (count(usage.ru_maxrss) * 1024, count(usage.ru_nivcsw))
}

/// The sink of a worker: keeps everything, and says only how far it is.
struct Memory<'a, W: Write> {
    kept: Vec<Event>,
    events: &'a mut W,
    last_progress: Instant,
    broken: Option<std::io::Error>,
}

impl<W: Write> Sink for Memory<'_, W> {
    fn sample(&mut self, sample: Sample) {
        self.kept.push(Event::Sample(sample));
    }

    fn phase(&mut self, summary: PhaseSummary) {
        self.kept.push(Event::Phase(summary));
    }

    fn window(&mut self, mut window: Window) {
        let excluded = std::mem::take(&mut window.excluded);
        self.kept.push(Event::Window(window));
        for intervals in excluded.chunks(WATCHED_IN_ONE) {
            self.kept.push(Event::Excluded { intervals: intervals.to_vec() });
        }
    }

    fn io(&mut self, row: IoRow) {
        self.kept.push(Event::Io(row));
    }

    fn progress(&mut self, done: f64) {
        if self.last_progress.elapsed() >= PROGRESS_INTERVAL {
            self.last_progress = Instant::now();
            if let Err(error) = write_event(self.events, &Event::Progress { done: done.clamp(0.0, 1.0) }) {
                self.broken.get_or_insert(error);
            }
        }
    }

    fn warning(&mut self, text: String) {
        self.warning_of(WarningKind::Other, text);
    }

    fn warning_of(&mut self, kind: WarningKind, text: String) {
        self.kept.push(Event::Warning { text, kind });
    }

    fn verified(&mut self, check: String) {
        self.kept.push(Event::Verified { check });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Observations;

    /// What the schedule has of events that it has read, each from a line that is not too long.
    fn read_back(events: &[Event]) -> Observations {
        let mut read = Observations::default();
        for event in events {
            let mut line: Vec<u8> = Vec::new();
            write_event(&mut line, event).unwrap();
            assert!((line.len() as u64) < fathom_ground::lines::LONGEST_LINE, "{}", line.len());
            let heard: Event = serde_json::from_slice(&line).unwrap();
            assert_eq!(read.take(heard), None);
        }
        read
    }

    /// What happened: 500 texts went into one event, which was longer than a line where an
    /// application writes its values into them.
    #[test]
    fn long_texts_of_statements_are_told_in_lines_that_are_read() {
        let text = |number: usize| format!("{number}{}", "\u{1}".repeat(if number < 400 { 2000 } else { 0 }));
        let mut texts: Vec<String> = (0..5000).map(text).collect();
        texts.push("x".repeat(TEXTS_IN_ONE));
        let parts = some_texts(texts.clone()).into_iter();
        let events: Vec<Event> =
            parts.map(|texts| Event::Statements { texts, executions: Vec::new() }).collect();
        assert_eq!(read_back(&events).statements.texts, texts);
        assert!(some_texts(Vec::new()).is_empty());
    }

    /// What happened: a phase that goes cold before each of its executions has two intervals for
    /// each that count for nothing. From some 14,000 executions on its window was longer than a
    /// line, was read as nonsense, and the run failed.
    #[test]
    fn a_window_of_many_executions_is_told_in_lines_that_are_read() {
        let at = 1_000_000_000_000_000;
        let window = |phase: &str, intervals: usize| Window {
            phase: phase.into(),
            x: None,
            start_ns: at,
            end_ns: at + 9,
            count: 20_000,
            changed_bytes: 0,
            lanes: Vec::new(),
            excluded: (0..).map(|n| (at + n, at + n + 1)).take(intervals).collect(),
        };
        let windows = [window("cold", 40_000), window("warm", 0), window("few", 3)];
        assert!(serde_json::to_vec(&windows[0]).unwrap().len() as u64 > fathom_ground::lines::LONGEST_LINE);
        let mut events: Vec<u8> = Vec::new();
        let mut memory =
            Memory { kept: Vec::new(), events: &mut events, last_progress: Instant::now(), broken: None };
        windows.iter().for_each(|window| memory.window(window.clone()));
        assert_eq!(read_back(&memory.kept).windows, windows);
    }
}
