//! One execution on one time line: the statement's time, its calls on files, and what reached the
//! device meanwhile, each with its owner: what a commit's fsyncs are for.
//!
//! It takes a run that kept a recording (`[instruments] operations = true`: when its executions,
//! calls and device operations were) and is better where it also has a block trace
//! (`blocks = true`: whose each block is). Both are of CLOCK_MONOTONIC; a trace is kept relative to
//! its begin, and its phases, which both have, tell where that is.
//!
//! A recording knows each call on a file that took 15 µs or more: which it was, on what kind of
//! file, when and for how long; and each statement, without the values in it. Of calls on files
//! that are not SQLite's, and in recordings of before, it does not know which they were.

use fathom_device::RequestTimes;
use fathom_probe::{CallKind, Marks};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_workload::sample::{Sample, Window};
use serde::Serialize;

use crate::model_time::models_of_run;
use crate::naming::titles_without;
use crate::recording::{Execution, Recording};
use crate::store::{BlockRow, Results, StoreError, TraceSource};

/// An execution, taken apart. Times are ns since its begin; what was under way then began below 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Anatomy {
    /// Number of the cell.
    pub cell: i64,
    /// Label of the cell.
    pub label: String,
    /// The same as people read it.
    pub title: String,
    /// Number of the run.
    pub run: i64,
    /// The phase.
    pub phase: String,
    /// `transaction`, `query` …
    pub unit: String,
    /// Number of the execution within its phase, from 1, in order of begin.
    pub execution: usize,
    /// Executions of the phase.
    pub executions: usize,
    /// How long it took.
    pub wall_ns: u64,
    /// The same by the model of its device ([`crate::model_time`]); none without one.
    pub model_ns: Option<u64>,
    /// The statements that its threads executed, in order of begin; none where the engine did not
    /// tell of them.
    pub statements: Vec<StatementSpan>,
    /// Its calls on files, in order of begin.
    pub calls: Vec<CallSpan>,
    /// What came to the device while it went on, in order of submission.
    pub requests: Vec<RequestSpan>,
    /// Whether the owners of blocks are known.
    pub knows_owners: bool,
    /// Whether the threads that worked for it were seen, so that it made no other calls that may
    /// have waited.
    pub knows_calls: bool,
}

/// A statement, or some of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatementSpan {
    /// Number of the thread that executed it.
    pub thread: u32,
    /// Its text, without the values in it.
    pub text: String,
    /// Its begin.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// How long it took by the model, as [`Anatomy::model_ns`].
    pub model_ns: Option<u64>,
}

/// A call on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSpan {
    /// Number of the thread that made it.
    pub thread: u32,
    /// What it was, `sync`, `write` …, and the kind of file, `wal` …; none where that is not known.
    pub kind: Option<CallName>,
    /// Its begin.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// How long it took by the model, as [`Anatomy::model_ns`].
    pub model_ns: Option<u64>,
    /// The requests that it waited for: places in [`Anatomy::requests`]. By the rule of simulation
    /// these are what was submitted and answered while it went on, and in no call, of whatever
    /// thread, that began later.
    pub requests: Vec<usize>,
}

/// Names of a call and of the kind of file that it was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallName {
    /// As [`Op::name`](fathom_probe::Op::name).
    pub op: &'static str,
    /// As [`FileClass::name`](fathom_probe::FileClass::name).
    pub file: &'static str,
}

impl From<CallKind> for CallName {
    fn from(kind: CallKind) -> CallName {
        CallName { op: kind.op.name(), file: kind.class.name() }
    }
}

/// A request to the device, or the piece of one that has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestSpan {
    /// 0 the file system's device, 1 its external log.
    pub device: u8,
    /// What was asked.
    pub op: BlockOp,
    /// Whose the blocks are; none without a block trace.
    pub owner: Option<Cause>,
    /// Where on the device, bytes.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// When it was made.
    pub start_ns: i64,
    /// When it was complete.
    pub end_ns: i64,
}

/// Why there is no anatomy of a run.
#[derive(Debug, thiserror::Error)]
pub enum AnatomyError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] StoreError),
    /// What was asked for is not there.
    #[error("{0}")]
    Absent(String),
}

/// What is asked for; what is left open is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Label of the cell, or words of it; the first that has a recording.
    pub cell: Option<String>,
    /// The phase; the first that was recorded.
    pub phase: Option<String>,
    /// Number of the execution, from 1; the one of median time (by the model, where there is one),
    /// of those that the device was flushed in if there are any.
    pub execution: Option<usize>,
}

/// Takes one execution apart.
///
/// # Errors
/// Results that cannot be read; no run of the cell has a recording; no such cell, phase or
/// execution.
pub fn anatomy(results: &Results, wanted: &Selection) -> Result<Anatomy, AnatomyError> {
    let (run, recording) = recorded(results, wanted.cell.as_deref())?;
    let is_wanted = |phase: &str| wanted.phase.as_deref().is_none_or(|other| other == phase);
    let number_of = |recording: &Recording| {
        let has = |at: usize| recording.executions.iter().any(|execution| execution.window as usize == at);
        (0..recording.windows.len()).find(|at| is_wanted(&recording.windows[*at].phase) && has(*at))
    };
    let Some(number) = number_of(&recording) else {
        let mut phases: Vec<&str> = recording.windows.iter().map(|window| window.phase.as_str()).collect();
        phases.dedup();
        let asked = wanted.phase.as_deref().unwrap_or("any phase");
        let there = phases.join(", ");
        return Err(AnatomyError::Absent(format!(
            "no execution of {asked} was recorded; the run has: {there}"
        )));
    };
    let of_window: Vec<Execution> = recording
        .executions
        .iter()
        .filter(|execution| execution.window as usize == number)
        .copied()
        .collect();
    let model = WindowModel::of(&recording, number);
    let times = |spans: &[Execution]| match &model {
        Some(model) => model.times(spans),
        None => vec![None; spans.len()],
    };
    // Which one is of median time is asked of all of them.
    let by_model = if wanted.execution.is_none() { times(&of_window) } else { Vec::new() };
    let place = chosen(&of_window, wanted.execution, &recording, &by_model)?;
    let (execution, window) = (of_window[place], &recording.windows[number]);
    let (from, to) = (execution.start_ns, execution.start_ns.saturating_add(execution.wall_ns));
    let since = |ns: u64| i64::try_from(i128::from(ns) - i128::from(from)).unwrap_or(i64::MAX);
    let owners = owners(results, run, &recording)?;
    let knows_owners = owners.is_some();
    let mut timed: Vec<Timed> = match owners {
        Some(rows) => rows,
        None => of_device(&recording),
    };
    timed.retain(|request| request.start_ns < to && request.end_ns > from);
    timed.sort_by_key(|request| (request.start_ns, request.end_ns));
    let requests: Vec<RequestSpan> = timed
        .iter()
        .map(|timed| RequestSpan {
            start_ns: since(timed.start_ns),
            end_ns: since(timed.end_ns),
            ..timed.request
        })
        .collect();
    let answered_ns: Vec<i64> = timed.iter().map(|timed| since(timed.answered_ns)).collect();
    // Of several lanes only the threads that worked for this one.
    let lane = window.lanes.iter().find(|lane| lane.thread == execution.lane);
    let is_own =
        |thread: u32| lane.is_none_or(|lane| lane.marked.is_empty() || lane.marked.contains(&thread));
    let mut calls = Vec::new();
    for (thread, marks) in &recording.threads {
        for mark in marks.iter().filter(|mark| mark.call_ns > 0) {
            let begin = mark.at_ns.saturating_sub(mark.call_ns);
            if begin >= to || mark.at_ns <= from {
                continue;
            }
            let (start_ns, end_ns) = (since(begin), since(mark.at_ns));
            let kind = mark.call.map(CallName::from);
            let requests = Vec::new();
            calls.push(CallSpan { thread: *thread, kind, start_ns, end_ns, model_ns: None, requests });
        }
    }
    give_requests(&mut calls, &requests, &answered_ns);
    calls.retain(|call| is_own(call.thread));
    calls.sort_by_key(|call| (call.start_ns, call.thread));
    let told = &recording.statements;
    let statements = told.executions.iter().filter_map(|statement| {
        let end_ns = statement.start_ns.saturating_add(statement.wall_ns);
        if !is_own(statement.thread) || statement.start_ns >= to || end_ns <= from {
            return None;
        }
        let text = told.texts.get(statement.text as usize)?.clone();
        let start_ns = since(statement.start_ns);
        Some(StatementSpan {
            thread: statement.thread,
            text,
            start_ns,
            end_ns: since(end_ns),
            model_ns: None,
        })
    });
    let mut statements: Vec<StatementSpan> = statements.collect();
    statements.sort_by_key(|statement| (statement.start_ns, statement.thread));
    // Each as if it were an execution: what counts of it by the same rules.
    let of_calls = calls.iter().map(|call| (call.start_ns, call.end_ns));
    let of_statements = statements.iter().map(|statement| (statement.start_ns, statement.end_ns));
    let span = |(start_ns, end_ns): (i64, i64)| Execution {
        start_ns: from.saturating_add_signed(start_ns),
        wall_ns: end_ns.abs_diff(start_ns),
        ..execution
    };
    let parts = of_calls.chain(of_statements).map(span);
    // With all executions, for beside them is told what this one was kept waiting.
    let spans: Vec<Execution> =
        std::iter::once(execution).chain(parts).chain(of_window.iter().copied()).collect();
    let mut of_spans = times(&spans).into_iter();
    let model_ns = of_spans.next().flatten();
    let places = calls
        .iter_mut()
        .map(|call| &mut call.model_ns)
        .chain(statements.iter_mut().map(|statement| &mut statement.model_ns));
    for (place, model_ns) in places.zip(of_spans) {
        *place = model_ns;
    }
    let is_seen = |thread: &u32| recording.threads.contains_key(thread);
    let knows_calls = lane.is_some_and(|lane| !lane.marked.is_empty() && lane.marked.iter().all(is_seen));
    let cell = results.runs.iter().find(|other| other.id == run).map_or(0, |run| run.cell);
    let unit = results
        .phases
        .iter()
        .find(|phase| phase.run == run && phase.summary.phase == window.phase)
        .map_or("execution", |phase| phase.summary.unit.as_str());
    Ok(Anatomy {
        cell,
        label: results.cell(cell).map_or_else(String::new, |cell| cell.label.clone()),
        title: results.cell(cell).map_or_else(String::new, |cell| cell.title.clone()),
        run,
        phase: window.phase.clone(),
        unit: unit.to_owned(),
        execution: place + 1,
        executions: of_window.len(),
        wall_ns: execution.wall_ns,
        model_ns,
        statements,
        calls,
        requests,
        knows_owners,
        knows_calls,
    })
}

/// A window of a recording, by the model of its device.
struct WindowModel<'a> {
    window: &'a Window,
    marks: Marks,
    served: &'a [Vec<RequestTimes>],
}

impl WindowModel<'_> {
    /// None where nothing was modelled.
    fn of(recording: &Recording, number: usize) -> Option<WindowModel<'_>> {
        let window = recording.windows.get(number).filter(|_| !recording.served.is_empty())?;
        let marks = recording.threads.values().flatten().copied().collect();
        let marks = Marks { marks, lost: 0, knows_queue: true };
        Some(WindowModel { window, marks, served: &recording.served })
    }

    /// Model time of each of these spans of the window's lanes.
    fn times(&self, spans: &[Execution]) -> Vec<Option<u64>> {
        let samples: Vec<Sample> =
            (0..).zip(spans).map(|(seq, span)| span.sample(self.window, seq)).collect();
        models_of_run(std::slice::from_ref(self.window), &samples, Some(&self.marks), self.served).1
    }
}

/// The first good run with a recording, of the cell if one is asked for.
fn recorded(results: &Results, cell: Option<&str>) -> Result<(i64, Recording), AnatomyError> {
    let without = titles_without(results, "stack.device");
    let shown: Vec<[&str; 2]> =
        results.cells.iter().zip(&without).map(|(cell, without)| [cell.label.as_str(), without]).collect();
    let places = called(&shown, cell);
    if places.is_empty() {
        let labels: Vec<&str> = results.cells.iter().map(|cell| cell.label.as_str()).collect();
        let asked = cell.unwrap_or_default();
        return Err(AnatomyError::Absent(format!(
            "no cell is called {asked:?}; there are: {}",
            labels.join(", ")
        )));
    }
    for place in &places {
        if let Some(found) = recorded_of(results, results.cells[*place].id)? {
            return Ok(found);
        }
    }
    let mut others = Vec::new();
    for (place, other) in results.cells.iter().enumerate() {
        if !places.contains(&place) && recorded_of(results, other.id)?.is_some() {
            others.push(other.label.as_str());
        }
    }
    if !others.is_empty() {
        return Err(AnatomyError::Absent(format!(
            "no run of {:?} has a recording; there are recordings of: {}",
            cell.unwrap_or_default(),
            others.join(", ")
        )));
    }
    Err(AnatomyError::Absent(
        "no run has a recording. Make one on a modelled device, with the owners of its blocks:\n  fathom run first-look --quick \
         --repeat 1 --set filesystem=ext4 --set device=sd-sandisk-extreme --set instruments.operations=true --set \
         instruments.blocks=true --out anatomy.db"
            .into(),
    ))
}

/// The first good run of a cell with a recording.
fn recorded_of(results: &Results, cell: i64) -> Result<Option<(i64, Recording)>, AnatomyError> {
    for run in results.good_runs(cell) {
        if let Some(recording) = results.recording(run.id)? {
            return Ok(Some((run.id, recording)));
        }
    }
    Ok(None)
}

/// Places of the cells that are called so, each by its two labels; where none is, of those whose
/// label has all these words. All where nothing is asked.
fn called(labels: &[[&str; 2]], asked: Option<&str>) -> Vec<usize> {
    let Some(asked) = asked else { return (0..labels.len()).collect() };
    let of = |is_called: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..labels.len()).filter(|place| labels[*place].iter().any(|label| is_called(label))).collect()
    };
    let exact = of(&|label| label.eq_ignore_ascii_case(asked));
    if !exact.is_empty() || asked.trim().is_empty() {
        return exact;
    }
    let has = |label: &str, word: &str| label.split(' ').any(|other| other.eq_ignore_ascii_case(word));
    of(&|label| asked.split_whitespace().all(|word| has(label, word)))
}

/// The place of the execution that is asked for, or of that of median time: of those that the
/// device was flushed in, for in many applications most executions only read.
fn chosen(
    executions: &[Execution],
    asked: Option<usize>,
    recording: &Recording,
    by_model: &[Option<u64>],
) -> Result<usize, AnatomyError> {
    if let Some(number) = asked {
        return match number.checked_sub(1).filter(|place| *place < executions.len()) {
            Some(place) => Ok(place),
            None => Err(AnatomyError::Absent(format!(
                "there is no execution {number}: the phase has 1 to {}",
                executions.len()
            ))),
        };
    }
    let served = recording.served.iter().flatten();
    let mut flushes: Vec<u64> =
        served.filter(|request| request.kind == FLUSH).map(|request| request.arrival_ns).collect();
    flushes.sort_unstable();
    let is_flushed = |execution: &Execution| {
        let next = flushes.partition_point(|at| *at < execution.start_ns);
        flushes.get(next).is_some_and(|at| *at < execution.start_ns.saturating_add(execution.wall_ns))
    };
    let mut places: Vec<usize> = (0..executions.len()).collect();
    if executions.iter().any(is_flushed) {
        places.retain(|place| is_flushed(&executions[*place]));
    }
    let is_told = by_model.len() == executions.len() && by_model.iter().all(Option::is_some);
    places.sort_by_key(|place| match by_model.get(*place) {
        Some(Some(model_ns)) if is_told => *model_ns,
        _ => executions[*place].wall_ns,
    });
    places
        .get(places.len() / 2)
        .copied()
        .ok_or_else(|| AnatomyError::Absent("the phase has no executions".into()))
}

/// Of [`fathom_device::RequestTimes::kind`].
const FLUSH: u8 = 2;

/// Gives each request to the call that waited for it: of those in which it was submitted and
/// answered, at `answered_ns`, the one that began last. What was answered after a call has ended is
/// nothing that it waited for, and what came within another thread's call is that one's.
fn give_requests(calls: &mut [CallSpan], requests: &[RequestSpan], answered_ns: &[i64]) {
    for (place, (request, answered_ns)) in requests.iter().zip(answered_ns).enumerate() {
        let has_waited = |call: &&mut CallSpan| {
            call.start_ns <= request.start_ns && request.start_ns < call.end_ns && *answered_ns <= call.end_ns
        };
        if let Some(call) = calls.iter_mut().filter(has_waited).max_by_key(|call| call.start_ns) {
            call.requests.push(place);
        }
    }
}

/// A request with its times, CLOCK_MONOTONIC, ns.
struct Timed {
    /// Without times of its own.
    request: RequestSpan,
    start_ns: u64,
    end_ns: u64,
    /// When who waited for it could go on, at the earliest.
    answered_ns: u64,
}

/// What the block trace of the run has, moved to the recording's clock; none without one.
fn owners(results: &Results, run: i64, recording: &Recording) -> Result<Option<Vec<Timed>>, StoreError> {
    let Some(trace) = results.trace(run).filter(|trace| trace.source == TraceSource::Device) else {
        return Ok(None);
    };
    let (Some(own), Some(told)) = (recording.windows.first(), trace.windows.first()) else {
        return Ok(None);
    };
    let Some(began_ns) = own.start_ns.checked_sub(told.start_ns) else { return Ok(None) };
    let mut all = Vec::new();
    results.blocks(run, |row: BlockRow| {
        let span = RequestSpan {
            device: row.device,
            op: row.op,
            owner: Some(row.cause),
            offset: row.offset,
            bytes: row.bytes,
            start_ns: 0,
            end_ns: 0,
        };
        let at = |ns: u64| began_ns.saturating_add(ns);
        let (start_ns, end_ns) = (at(row.submit_ns), at(row.complete_ns.max(row.submit_ns)));
        all.push(Timed { request: span, start_ns, end_ns, answered_ns: end_ns });
    })?;
    Ok(Some(all))
}

/// What the modelled devices served.
fn of_device(recording: &Recording) -> Vec<Timed> {
    let mut all = Vec::new();
    for (device, served) in (0_u8..).zip(&recording.served) {
        for request in served {
            let op = match request.kind {
                0 => BlockOp::Read,
                1 => BlockOp::Write,
                2 => BlockOp::Flush,
                3 => BlockOp::Discard,
                _ => BlockOp::Other,
            };
            let span = RequestSpan {
                device,
                op,
                owner: None,
                offset: request.offset,
                bytes: u64::from(request.bytes),
                start_ns: 0,
                end_ns: 0,
            };
            let start_ns = request.arrival_ns;
            let end_ns = request.given_ns.max(start_ns);
            all.push(Timed { request: span, start_ns, end_ns, answered_ns: request.begun_ns() });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flush that the model answers after so long, and the device after so long.
    fn flush(at_ns: u64, model_ns: u64, answered_ns: u64) -> RequestTimes {
        RequestTimes {
            kind: FLUSH,
            bytes: 0,
            arrival_ns: at_ns,
            asked_ns: at_ns + model_ns,
            given_ns: at_ns + answered_ns,
            early_ns: 0,
            offset: 0,
        }
    }

    /// What happened: the report calls a cell `gmail WAL/FULL`, its results call it
    /// `gmail wal/full sd-slow`, and only the latter was taken.
    #[test]
    fn a_cell_is_called_by_its_label_or_by_words_of_it() {
        let labels = [["gmail wal/full sd-slow", "gmail wal/full"], ["gmail delete/full sd-slow", "x"]];
        let places = |asked| called(&labels, Some(asked));
        assert_eq!(places("Gmail WAL/FULL"), [0]);
        assert_eq!(places("gmail wal/full sd-slow"), [0]);
        assert_eq!(places("DELETE/FULL"), [1]);
        assert_eq!(places("sd-slow gmail"), [0, 1]);
        assert_eq!(places("wal"), [0_usize; 0]);
        assert_eq!(places(" "), [0_usize; 0]);
        assert_eq!(called(&labels, None), [0, 1]);
    }

    /// What happened: a call that memory served was said to have waited for the device, because
    /// another thread's sync was under way, or write-back began meanwhile.
    #[test]
    fn a_call_waited_for_what_was_answered_in_it_and_in_no_later_one() {
        let call = |thread: u32, start_ns: i64, end_ns: i64| CallSpan {
            thread,
            kind: None,
            start_ns,
            end_ns,
            model_ns: None,
            requests: Vec::new(),
        };
        let request = |start_ns: i64, end_ns: i64| RequestSpan {
            device: 0,
            op: BlockOp::Write,
            owner: None,
            offset: 0,
            bytes: 4096,
            start_ns,
            end_ns,
        };
        // A long sync, a read of memory beside it in another thread, and that one's own sync.
        let mut calls = [call(0, 0, 1000), call(1, 100, 150), call(1, 400, 900)];
        let requests =
            [request(10, 90), request(110, 200), request(500, 800), request(850, 950), request(990, 1200)];
        let answered: Vec<i64> = requests.iter().map(|request| request.end_ns).collect();
        give_requests(&mut calls, &requests, &answered);
        assert_eq!(calls.map(|call| call.requests), [vec![0, 1, 3], vec![], vec![2]]);
    }

    /// What is asked for by its number is modelled without the others: by itself it takes as long.
    #[test]
    fn an_execution_takes_as_long_by_itself_as_among_others() {
        let execution = |number: u64| Execution {
            window: 0,
            lane: 0,
            start_ns: 1000 + number * 1000,
            wall_ns: 500 + number * 100,
        };
        // Each is answered 100 ns later than the model has it.
        let flush = |at_ns: u64| flush(at_ns, 200, 300);
        let executions: Vec<Execution> = (0..3).map(execution).collect();
        let window = Window {
            phase: "insert".into(),
            x: None,
            start_ns: 1000,
            end_ns: 4000,
            count: 3,
            changed_bytes: 0,
            lanes: Vec::new(),
            excluded: Vec::new(),
        };
        let served = vec![executions.iter().map(|execution| flush(execution.start_ns + 50)).collect()];
        let recording = Recording {
            windows: vec![window],
            executions: executions.clone(),
            served,
            ..Recording::default()
        };
        let model = WindowModel::of(&recording, 0).unwrap();
        let all = model.times(&executions);
        assert_eq!(all, [Some(400), Some(500), Some(600)]);
        for (execution, model_ns) in executions.iter().zip(all) {
            assert_eq!(model.times(&[*execution]), [model_ns]);
        }
        assert!(WindowModel::of(&Recording { served: Vec::new(), ..recording.clone() }, 0).is_none());
        assert!(WindowModel::of(&recording, 1).is_none());
    }

    /// What happened: "what one commit waits for" showed a read, of an application that reads twice
    /// as often as it writes: the execution of median time was one.
    #[test]
    fn the_median_is_that_of_executions_that_flushed_the_device() {
        let execution = |number: u64| Execution {
            window: 0,
            lane: 0,
            start_ns: number * 1000,
            // The commits, 6 to 8, take longest.
            wall_ns: 10 + number * 100,
        };
        let flush = |at_ns: u64| flush(at_ns, 5, 5);
        let executions: Vec<Execution> = (0..9).map(execution).collect();
        let served = vec![vec![flush(6001), flush(7001), flush(8001), flush(8999)]];
        let recording =
            Recording { windows: Vec::new(), executions: executions.clone(), served, ..Recording::default() };
        assert_eq!(chosen(&executions, None, &recording, &[]).ok(), Some(7));
        // By the model another one took longest.
        let by_model = [1, 1, 1, 1, 1, 1, 9, 8, 7].map(Some);
        assert_eq!(chosen(&executions, None, &recording, &by_model).ok(), Some(7));
        let by_model = [1, 1, 1, 1, 1, 1, 8, 9, 7].map(Some);
        assert_eq!(chosen(&executions, None, &recording, &by_model).ok(), Some(6));
        assert_eq!(chosen(&executions, Some(3), &recording, &[]).ok(), Some(2));
        let quiet = Recording { served: vec![Vec::new()], ..recording };
        assert_eq!(chosen(&executions, None, &quiet, &[]).ok(), Some(4));
        assert!(chosen(&executions, Some(0), &quiet, &[]).is_err());
    }
}
