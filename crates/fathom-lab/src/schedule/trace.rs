//! From what was traced and watched to the rows of a results file.

use fathom_probe::{Marks, Note, Statements};
use fathom_stack::Stack;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::{Recording, Request};
use fathom_stack::guest::GuestTrace;
use fathom_workload::sample::Window;

use crate::event::{Event, FileCall};
use crate::store::{BlockRow, TraceRecord, TraceSource};

/// What a worker told beside its measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// When its phases were.
    pub windows: Vec<Window>,
    /// What the file of each number counts as.
    pub causes: Vec<Cause>,
    /// Where files lay.
    pub notes: Vec<Note>,
    /// Calls on files.
    pub calls: Vec<FileCall>,
    /// Marks of its threads; none where it made none.
    pub marks: Option<Marks>,
    /// The statements that it executed, where it told of them.
    pub statements: Statements,
}

impl Observations {
    /// Keeps what belongs here; gives back any other event.
    pub(crate) fn take(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Window(window) => self.windows.push(window),
            Event::Excluded { intervals } => {
                if let Some(window) = self.windows.last_mut() {
                    window.excluded.extend(intervals);
                }
            }
            Event::Files { causes } => self.causes = causes,
            Event::Notes { notes } => self.notes.extend(notes),
            Event::Calls { calls } => self.calls.extend(calls),
            Event::Marks { marks, lost, knows_queue } => {
                let all = self.marks.get_or_insert_default();
                all.marks.extend(marks);
                (all.lost, all.knows_queue) = (lost, knows_queue);
            }
            Event::Statements { texts, executions } => {
                self.statements.texts.extend(texts);
                self.statements.executions.extend(executions);
            }
            other => return Some(other),
        }
        None
    }

    /// The window that a moment lies in.
    fn window_at(&self, at_ns: u64) -> Option<u32> {
        // Phases follow one another; the last that began is the one.
        let number =
            self.windows.iter().rposition(|window| window.start_ns <= at_ns && at_ns <= window.end_ns)?;
        u32::try_from(number).ok()
    }

    /// The rows of a device's trace. Call while the stack is up and its worker has ended.
    pub(super) fn of_device(self, stack: &Stack, recording: Recording) -> TraceRecord {
        let attribution = stack.attribution(&self.notes, &self.causes);
        let Recording { requests, lost_events, unfinished, span_ns } = recording;
        let pieces = |request: Request| {
            let pieces = attribution.pieces(&request);
            (request, pieces)
        };
        let requests = requests.into_iter().map(pieces).collect();
        let remarks = attribution.remarks.clone();
        self.of_guest(GuestTrace { requests, lost_events, unfinished, span_ns, remarks })
    }

    /// The rows of a trace whose pieces have their causes.
    pub(super) fn of_guest(self, trace: GuestTrace) -> TraceRecord {
        let (started_ns, ended_ns) = trace.span_ns;
        let since = |ns: u64| ns.saturating_sub(started_ns);
        let mut rows = Vec::with_capacity(trace.requests.len());
        for (number, (request, pieces)) in (0..).zip(&trace.requests) {
            let window = self.window_at(request.submit_ns);
            for (piece, part) in (0..).zip(pieces) {
                rows.push(BlockRow {
                    request: number,
                    piece,
                    device: request.device,
                    op: request.op,
                    cause: part.cause,
                    window,
                    submit_ns: since(request.submit_ns),
                    issue_ns: since(request.issue_ns),
                    complete_ns: since(request.complete_ns),
                    offset: part.offset,
                    bytes: part.bytes,
                    fua: request.fua,
                    sync: request.sync,
                    meta: request.meta,
                });
            }
        }
        TraceRecord {
            source: TraceSource::Device,
            span_ns: since(ended_ns),
            lost_events: trace.lost_events,
            unfinished: trace.unfinished,
            remarks: trace.remarks,
            windows: self.relative_windows(started_ns),
            rows,
        }
    }

    /// The rows of the pattern within files, where no device can be traced for this `reason`.
    pub(super) fn of_files(self, started_ns: u64, ended_ns: u64, reason: String) -> TraceRecord {
        let since = |ns: u64| ns.saturating_sub(started_ns);
        let rows = (0..)
            .zip(&self.calls)
            .map(|(number, call)| BlockRow {
                request: number,
                piece: 0,
                device: 0,
                op: call.op,
                cause: self.causes.get(call.file as usize).copied().unwrap_or(Cause::OtherFile),
                window: self.window_at(call.begin_ns),
                submit_ns: since(call.begin_ns),
                issue_ns: since(call.begin_ns),
                complete_ns: since(call.end_ns),
                offset: call.offset,
                bytes: call.bytes,
                fua: false,
                sync: false,
                meta: false,
            })
            .collect();
        TraceRecord {
            source: TraceSource::Files,
            span_ns: since(ended_ns),
            lost_events: 0,
            unfinished: 0,
            remarks: vec![reason],
            windows: self.relative_windows(started_ns),
            rows,
        }
    }

    fn relative_windows(&self, started_ns: u64) -> Vec<Window> {
        let since = |ns: u64| ns.saturating_sub(started_ns);
        let relative = |window: &Window| Window {
            start_ns: since(window.start_ns),
            end_ns: since(window.end_ns),
            lanes: Vec::new(),
            excluded: Vec::new(),
            ..window.clone()
        };
        self.windows.iter().map(relative).collect()
    }
}
