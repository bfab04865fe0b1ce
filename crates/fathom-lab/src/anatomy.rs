//! One execution on one time line: the statement's time, its calls on files, and what reached the
//! device meanwhile, each with its owner: what a commit's fsyncs are for.
//!
//! It takes a run that kept a recording (`[instruments] operations = true`: when its executions,
//! calls and device operations were) and is better where it also has a block trace
//! (`blocks = true`: whose each block is). Both are of CLOCK_MONOTONIC; a trace is kept relative to
//! its begin, and its phases, which both have, tell where that is.
//!
//! A recording knows when a call on a file was made and how long it took, not which it was. A call
//! that the device was flushed in, or written in by somebody who waited, is a sync or a write that
//! waited for the device; the others were served by memory.

use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use serde::Serialize;

use crate::recording::{Execution, Recording};
use crate::store::{BlockRow, Results, StoreError, TraceSource};

/// An execution, taken apart. Times are ns since its begin; what was under way then began below 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Anatomy {
    /// Number of the cell.
    pub cell: i64,
    /// Label of the cell.
    pub label: String,
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
    /// Its calls on files, in order of begin.
    pub calls: Vec<CallSpan>,
    /// What came to the device while it went on, in order of submission.
    pub requests: Vec<RequestSpan>,
    /// Whether the owners of blocks are known.
    pub knows_owners: bool,
}

/// A call on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSpan {
    /// Number of the thread that made it.
    pub thread: u32,
    /// Its begin.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The requests that were submitted while it went on: places in [`Anatomy::requests`].
    pub requests: Vec<usize>,
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
    /// Label of the cell; the first that has a recording.
    pub cell: Option<String>,
    /// The phase; the first that was recorded.
    pub phase: Option<String>,
    /// Number of the execution, from 1; the one of median time.
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
    let place = chosen(&of_window, wanted.execution)?;
    let (execution, window) = (of_window[place], &recording.windows[number]);
    let (from, to) = (execution.start_ns, execution.start_ns.saturating_add(execution.wall_ns));
    let since = |ns: u64| i64::try_from(i128::from(ns) - i128::from(from)).unwrap_or(i64::MAX);
    let owners = owners(results, run, &recording)?;
    let knows_owners = owners.is_some();
    let mut requests = match owners {
        Some(rows) => rows,
        None => of_device(&recording),
    }
    .into_iter()
    .filter(|(_, start, end)| *start < to && *end > from)
    .map(|(request, start, end)| RequestSpan { start_ns: since(start), end_ns: since(end), ..request })
    .collect::<Vec<_>>();
    requests.sort_by_key(|request| (request.start_ns, request.end_ns));
    // Of several lanes only the threads that worked for this one.
    let lane = window.lanes.get(execution.lane as usize);
    let is_own =
        |thread: u32| lane.is_none_or(|lane| lane.marked.is_empty() || lane.marked.contains(&thread));
    let mut calls = Vec::new();
    for (thread, marks) in recording.threads.iter().filter(|(thread, _)| is_own(**thread)) {
        for mark in marks.iter().filter(|mark| mark.call_ns > 0) {
            let begin = mark.at_ns.saturating_sub(mark.call_ns);
            if begin >= to || mark.at_ns <= from {
                continue;
            }
            let (start_ns, end_ns) = (since(begin), since(mark.at_ns));
            let within = |span: &RequestSpan| span.start_ns >= start_ns && span.start_ns < end_ns;
            let of_call =
                requests.iter().enumerate().filter(|(_, request)| within(request)).map(|(at, _)| at);
            calls.push(CallSpan { thread: *thread, start_ns, end_ns, requests: of_call.collect() });
        }
    }
    calls.sort_by_key(|call| (call.start_ns, call.thread));
    let cell = results.runs.iter().find(|other| other.id == run).map_or(0, |run| run.cell);
    let unit = results
        .phases
        .iter()
        .find(|phase| phase.run == run && phase.summary.phase == window.phase)
        .map_or("execution", |phase| phase.summary.unit.as_str());
    Ok(Anatomy {
        cell,
        label: results.cell(cell).map_or_else(String::new, |cell| cell.label.clone()),
        run,
        phase: window.phase.clone(),
        unit: unit.to_owned(),
        execution: place + 1,
        executions: of_window.len(),
        wall_ns: execution.wall_ns,
        calls,
        requests,
        knows_owners,
    })
}

/// The first good run with a recording, of the cell if one is asked for.
fn recorded(results: &Results, cell: Option<&str>) -> Result<(i64, Recording), AnatomyError> {
    let is_asked = |label: &str| cell.is_none_or(|cell| cell.eq_ignore_ascii_case(label));
    if !results.cells.iter().any(|cell| is_asked(&cell.label)) {
        let labels: Vec<&str> = results.cells.iter().map(|cell| cell.label.as_str()).collect();
        let asked = cell.unwrap_or_default();
        return Err(AnatomyError::Absent(format!(
            "no cell is called {asked:?}; there are: {}",
            labels.join(", ")
        )));
    }
    for cell in results.cells.iter().filter(|cell| is_asked(&cell.label)) {
        for run in results.good_runs(cell.id) {
            if let Some(recording) = results.recording(run.id)? {
                return Ok((run.id, recording));
            }
        }
    }
    Err(AnatomyError::Absent(
        "no run has a recording. Make one on a modelled device, with the owners of its blocks:\n  fathom run first-look --quick \
         --repeat 1 --set filesystem=ext4 --set device=sd-sandisk-extreme --set instruments.operations=true --set \
         instruments.blocks=true --out anatomy.db"
            .into(),
    ))
}

/// The place of the execution that is asked for, or of that of median time.
fn chosen(executions: &[Execution], asked: Option<usize>) -> Result<usize, AnatomyError> {
    if let Some(number) = asked {
        return match number.checked_sub(1).filter(|place| *place < executions.len()) {
            Some(place) => Ok(place),
            None => Err(AnatomyError::Absent(format!(
                "there is no execution {number}: the phase has 1 to {}",
                executions.len()
            ))),
        };
    }
    let mut places: Vec<usize> = (0..executions.len()).collect();
    places.sort_by_key(|place| executions[*place].wall_ns);
    places
        .get(executions.len() / 2)
        .copied()
        .ok_or_else(|| AnatomyError::Absent("the phase has no executions".into()))
}

/// A request without times of its own, and its begin and end, CLOCK_MONOTONIC, ns.
type Timed = (RequestSpan, u64, u64);

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
        all.push((span, at(row.submit_ns), at(row.complete_ns.max(row.submit_ns))));
    })?;
    Ok(Some(all))
}

/// What the modelled devices served.
fn of_device(recording: &Recording) -> Vec<Timed> {
    let mut all = Vec::new();
    for (device, served) in (0_u8..).zip(&recording.served) {
        for it in served {
            let op = match it.kind {
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
                offset: it.offset,
                bytes: u64::from(it.bytes),
                start_ns: 0,
                end_ns: 0,
            };
            all.push((span, it.arrival_ns, it.given_ns.max(it.arrival_ns)));
        }
    }
    all
}
