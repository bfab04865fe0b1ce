//! One thread of a replay: its calls, when each begins, and whether each does what it did.

use std::time::Duration;

use fathom_trace::model::{Blob, BlobCall, DONE, OK, ROW};
use fathom_trace::sql::Verb;
use hdrhistogram::Histogram;

use super::feed::{Batch, Call, Expected, Feed, Given, Place, Task};
use super::order::Order;
use super::plan::name_of;
use super::wrong;
use crate::changed;
use crate::clock::now_ns;
use crate::engine::calls::{Accessed, Bound, Stepped};
use crate::engine::{Connection, Engine, EngineError, abridged};
use crate::recorder::Lane;
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// When calls begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// At once after the call before.
    AsFast,
    /// When they began as captured, on a clock that runs so many times faster.
    Original {
        /// How many times.
        speed: f64,
    },
}

/// What a lane needs to know.
pub struct Run<'a> {
    pub number: usize,
    pub engine: &'a dyn Engine,
    pub feed: &'a Feed,
    /// None where there is one lane only.
    pub order: Option<&'a Order>,
    /// Functions, collations and modules of the application.
    pub foreign: &'a [String],
    pub timing: Timing,
    pub start_ns: u64,
}

/// What lanes have to say.
#[derive(Default)]
pub struct Report {
    /// Executions whose rows and changes are those that were captured.
    pub checked: u64,
    /// Executions of traces that do not tell rows and changes.
    pub unchecked: u64,
    /// Calls on incremental blobs that came to what was captured.
    pub blobs: u64,
    /// How late calls began, ns, with timing = original.
    pub late_ns: Option<Histogram<u64>>,
    /// Waits for the reading of the trace: number, ns.
    pub starved: (u64, u64),
    /// Waits for locks: number, ns.
    pub lock_waits: Option<(u64, u64)>,
}

impl Report {
    /// Adds another lane's.
    pub fn add(&mut self, other: Report) {
        self.checked += other.checked;
        self.unchecked += other.unchecked;
        self.blobs += other.blobs;
        match (&mut self.late_ns, other.late_ns) {
            // Histograms that grow by themselves can always be added.
            (Some(own), Some(other)) => {
                let _ = own.add(other);
            }
            (own, other) => *own = own.take().or(other),
        }
        self.starved = (self.starved.0 + other.starved.0, self.starved.1 + other.starved.1);
        self.lock_waits = match (self.lock_waits, other.lock_waits) {
            (Some((waits, ns)), Some((more, more_ns))) => Some((waits + more, ns + more_ns)),
            (known, other) => known.or(other),
        };
    }

    /// Tells checks, lateness, and waits for the reading.
    pub fn tell(self, sink: &mut dyn Sink) {
        if self.checked > 0 || self.unchecked == 0 {
            sink.verified(format!(
                "{} executions returned and changed the rows that were captured",
                self.checked
            ));
        }
        if self.unchecked > 0 {
            let words = format!(
                "{} executions ran without error; the trace does not tell their rows",
                self.unchecked
            );
            sink.verified(words);
        }
        if self.blobs > 0 {
            let words = format!("{} calls on incremental blobs came to what was captured", self.blobs);
            sink.verified(words);
        }
        if let Some(late) = self.late_ns.filter(|late| !late.is_empty()) {
            let at = |quantile| late.value_at_quantile(quantile) as f64 / 1e6;
            sink.warning(format!(
                "lateness against the captured times: median {:.3} ms, p99 {:.3} ms, at most {:.3} ms",
                at(0.5),
                at(0.99),
                late.max() as f64 / 1e6
            ));
        }
        if let (waits @ 1.., ns) = self.starved {
            sink.warning(format!(
                "the trace is not read as fast as it is replayed: {waits} waits for it, {:.3} ms in all, are within the measured time",
                ns as f64 / 1e6
            ));
        }
    }
}

/// Three digits, from 1 ns on.
fn lateness() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are within the histogram's 0 to 5")
}

impl Run<'_> {
    /// Makes all calls of a lane.
    pub fn calls(&self, mut record: Lane) -> Result<(Lane, Report), WorkloadError> {
        let late_ns = matches!(self.timing, Timing::Original { .. }).then(lateness);
        let report = Report { late_ns, ..Report::default() };
        let mut state = State { run: self, connections: Vec::new(), report, rows: 0 };
        // Whatever ends this thread early stops the others, which may wait for it.
        let ends = Ends(self);
        state.all(&mut record)?;
        self.arrive(u64::MAX);
        state.close_all()?;
        std::mem::forget(ends);
        Ok((record, state.report))
    }

    fn arrive(&self, number: u64) {
        if let Some(order) = self.order {
            order.arrive(self.number, number);
        }
    }
}

struct Ends<'a>(&'a Run<'a>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if let Some(order) = self.0.order {
            order.stop();
        }
        self.0.feed.close();
    }
}

struct State<'a> {
    run: &'a Run<'a>,
    connections: Vec<Option<Box<dyn Connection>>>,
    report: Report,
    /// Rows returned and changed by the present execution.
    rows: u64,
}

/// What an execution turned out to be.
#[derive(Clone, Copy, Default)]
struct Unit {
    has_step: bool,
    opens: bool,
}

impl State<'_> {
    /// Calls up to the end of a transaction, or of a statement outside of one, are one execution of the phase. With captured times
    /// each call is, so that no pause counts.
    fn all(&mut self, record: &mut Lane) -> Result<(), WorkloadError> {
        let mut calls = Calls { batch: Batch::default(), at: 0, run: self.run, starved: (0, 0) };
        while calls.has_next() {
            self.pause(&calls)?;
            let watch = record.start();
            let unit = self.unit(&mut calls)?;
            match unit {
                Unit { has_step: true, .. } => record.end(watch, self.rows),
                // Setting up the cell's settings is no work of the application.
                Unit { opens: true, .. } => {}
                _ => record.end_besides(watch),
            }
        }
        self.report.starved = calls.starved;
        match self.run.order {
            Some(order) if order.is_stopped() => Err(stopped()),
            _ => Ok(()),
        }
    }

    /// Before an execution, and in none's time: waits for those that it depends on and, with captured times, until it is due, and notes
    /// how late it is.
    fn pause(&mut self, calls: &Calls<'_>) -> Result<(), WorkloadError> {
        self.wait(calls)?;
        let Timing::Original { speed } = self.run.timing else { return Ok(()) };
        let due_ns = self.run.start_ns.saturating_add((calls.place().start_ns as f64 / speed) as u64);
        let now = now_ns();
        if due_ns > now {
            std::thread::sleep(Duration::from_nanos(due_ns - now));
        }
        if let Some(late_ns) = &mut self.report.late_ns {
            let late = now_ns().saturating_sub(due_ns);
            // The histogram grows by itself (`saturating_record` would not let it), so this fails only without memory; then the value
            // goes to its end.
            if late_ns.record(late).is_err() {
                late_ns.saturating_record(late);
            }
        }
        Ok(())
    }

    /// Says how far the lane has come, and waits for what the next call depends on.
    fn wait(&self, calls: &Calls<'_>) -> Result<(), WorkloadError> {
        let Some(order) = self.run.order else { return Ok(()) };
        let place = calls.place();
        order.arrive(self.run.number, place.number);
        let is_free = place.after == 0 || order.wait_below(self.run.number, place.after.min(place.number));
        if is_free { Ok(()) } else { Err(stopped()) }
    }

    /// The calls of an execution; there is at least one.
    fn unit(&mut self, calls: &mut Calls<'_>) -> Result<Unit, WorkloadError> {
        self.rows = 0;
        let mut unit = Unit::default();
        loop {
            let call = &calls.batch.calls[calls.at];
            if let Err(error) = self.call(call, &calls.batch, calls.at) {
                return Err(in_call(error, calls.place()));
            }
            let ends = match &call.task {
                Task::Step { in_transaction, expected, .. } => {
                    unit.has_step = true;
                    expected.code != ROW && !in_transaction
                }
                Task::Blob { at } => {
                    unit.has_step = true;
                    let Blob { call, in_transaction, outcome, .. } = calls.batch.blob(*at);
                    let is_last = match call {
                        BlobCall::Open { .. } => outcome.is_error(),
                        call => *call == BlobCall::Close,
                    };
                    is_last && !in_transaction
                }
                Task::Open { .. } => {
                    unit.opens = true;
                    true
                }
                Task::Close => true,
                _ => false,
            };
            calls.at += 1;
            if ends || self.run.timing != Timing::AsFast || !calls.has_next() {
                return Ok(unit);
            }
            self.wait(calls)?;
        }
    }

    /// One call.
    fn call(&mut self, call: &Call, batch: &Batch, at: usize) -> Result<(), WorkloadError> {
        let place = call.connection as usize;
        match &call.task {
            Task::Open { database } => {
                if self.connections.len() <= place {
                    self.connections.resize_with(place + 1, || None);
                }
                let mut connection = self.run.engine.connect(&name_of(*database))?;
                // A trace is other people's data.
                connection.confine()?;
                self.connections[place] = Some(connection);
                return Ok(());
            }
            Task::Close => {
                return match self.connections.get_mut(place).and_then(Option::take) {
                    Some(connection) => self.close(connection),
                    None => Ok(()),
                };
            }
            _ => {}
        }
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
            return Err(wrong(
                "a connection is used before it is opened; the trace's beginning is missing".into(),
            ));
        };
        match &call.task {
            Task::Script { sql } => return Ok(connection.execute_script(batch.text(*sql))?),
            Task::Attach { database, schema } => {
                return Ok(connection.attach(&name_of(*database), batch.text(*schema))?);
            }
            _ => {}
        }
        let Some(calls) = connection.calls() else {
            return Err(wrong("the engine takes no single calls".into()));
        };
        match &call.task {
            Task::Prepare { handle, sql, code } => {
                let sql = batch.text(*sql);
                let was_error = *code != OK;
                match calls.prepare_as(*handle, sql) {
                    Ok(()) if was_error => Err(wrong(format!(
                        "`{}` failed when it was captured ({code}), and does not now",
                        abridged(sql)
                    ))),
                    Err(error) if !was_error => Err(self.explain(error).into()),
                    _ => Ok(()),
                }
            }
            Task::Bind { handle, index, value } => {
                let value = match *value {
                    Given::Null => Bound::Null,
                    Given::Integer(value) => Bound::Integer(value),
                    Given::Real(value) => Bound::Real(value),
                    Given::Text(span) => Bound::Text(batch.bytes(span)),
                    Given::Blob(span) => Bound::Blob(batch.bytes(span)),
                    Given::ZeroBlob(length) => Bound::ZeroBlob(length),
                };
                Ok(calls.bind(*handle, u32::from(*index), value)?)
            }
            Task::ClearBindings { handle } => {
                calls.clear_bindings(*handle);
                Ok(())
            }
            Task::Reset { handle } => {
                calls.reset(*handle);
                Ok(())
            }
            Task::Finalize { handle } => {
                calls.finalize(*handle);
                Ok(())
            }
            Task::Step { handle, begins, is_counted, expected, .. } => {
                let stepped = calls.step(*handle, expected.rows, expected.code != ROW);
                self.rows = self.rows.saturating_add(stepped.rows).saturating_add(stepped.changes);
                let is_same_code = stepped.code & 0xff == expected.code & 0xff;
                let is_same_count =
                    stepped.rows == expected.rows && stepped.changes == u64::from(expected.changes);
                if !is_same_code || (*is_counted && !is_same_count) {
                    let sql = calls.sql(*handle);
                    let is_error = !matches!(stepped.code, OK | ROW | DONE);
                    let message = if is_error { calls.message() } else { String::new() };
                    self.differs(expected, batch.text(batch.places[at].message), &sql, stepped, &message)?;
                }
                let begun = u64::from(*begins);
                if *is_counted {
                    self.report.checked += begun;
                } else {
                    self.report.unchecked += begun;
                }
                Ok(())
            }
            Task::Blob { at: number } => {
                let blob = batch.blob(*number);
                let done = calls.blob(blob.blob, &blob.call)?;
                let opened = match blob.call {
                    BlobCall::Open { bytes, .. } | BlobCall::Reopen { bytes, .. } => Some(bytes),
                    _ => None,
                };
                let is_same_code = done.code & 0xff == blob.outcome.code & 0xff;
                if !is_same_code || (done.code == OK && opened.is_some_and(|bytes| bytes != done.bytes)) {
                    let message = if done.code == OK { String::new() } else { calls.message() };
                    return Err(blob_differs(blob, done, &message));
                }
                self.report.blobs += 1;
                Ok(())
            }
            Task::Open { .. } | Task::Close | Task::Script { .. } | Task::Attach { .. } => Ok(()),
        }
    }

    /// Steps that did not do what they did when they were captured: an error, unless it is no difference.
    #[cold]
    fn differs(
        &self,
        expected: &Expected,
        captured: &str,
        sql: &str,
        stepped: Stepped,
        message: &str,
    ) -> Result<(), WorkloadError> {
        if stepped.code & 0xff != expected.code & 0xff {
            let told = |code: i32, words: &str| {
                if words.is_empty() { code.to_string() } else { format!("{code} ({words})") }
            };
            let error = EngineError {
                what: format!("`{}`", abridged(sql)),
                message: format!(
                    "result {}, captured was {}",
                    told(stepped.code, message),
                    told(expected.code, captured)
                ),
                code: stepped.code,
            };
            return Err(self.explain(error).into());
        }
        // What a PRAGMA answers depends on the cell.
        if Verb::of(sql) == Verb::Pragma {
            return Ok(());
        }
        Err(wrong(format!(
            "`{}` returned {} rows and changed {}; captured were {} and {}",
            abridged(sql),
            stepped.rows,
            stepped.changes,
            expected.rows,
            expected.changes
        )))
    }

    /// An error, and what the application had that a replay has not.
    fn explain(&self, mut error: EngineError) -> EngineError {
        let missing = self.run.foreign.iter().find(|name| {
            let bare = name.split_once(' ').map_or("", |(_, bare)| bare);
            !bare.is_empty() && error.message.to_lowercase().contains(&bare.to_lowercase())
        });
        if let Some(missing) = missing {
            error.message.push_str(&format!(
                "; the application brought its own {missing}, which a replay does not have"
            ));
        } else if ["no such function", "no such collation", "no such module"]
            .iter()
            .any(|words| error.message.contains(words))
        {
            error
                .message
                .push_str("; the application brought its own, or an extension, which a replay does not have");
        }
        error
    }

    fn close(&mut self, connection: Box<dyn Connection>) -> Result<(), WorkloadError> {
        let waits = Report { lock_waits: connection.lock_waits(), ..Report::default() };
        self.report.add(waits);
        Ok(connection.close()?)
    }

    /// Connections that the trace leaves open.
    fn close_all(&mut self) -> Result<(), WorkloadError> {
        let left: Vec<_> = self.connections.drain(..).flatten().collect();
        left.into_iter().try_for_each(|connection| self.close(connection))
    }
}

/// A call on a blob that did not do what it did when it was captured.
#[cold]
fn blob_differs(blob: &Blob, done: Accessed, message: &str) -> WorkloadError {
    let what = match &blob.call {
        BlobCall::Open { table, column, row, .. } => {
            format!("opening the blob {table}.{column} of row {row}")
        }
        BlobCall::Read { offset, bytes } => format!("reading {bytes} bytes of a blob from byte {offset}"),
        BlobCall::Write { offset, data } => {
            format!("writing {} bytes of a blob from byte {offset}", data.len())
        }
        BlobCall::Reopen { row, .. } => format!("reopening a blob for row {row}"),
        BlobCall::Close => "closing a blob".into(),
    };
    let told = |code: i32, words: &str| {
        if words.is_empty() { code.to_string() } else { format!("{code} ({words})") }
    };
    if done.code & 0xff == blob.outcome.code & 0xff {
        return wrong(format!(
            "{what}: its length is {} bytes, and was another one when it was captured",
            done.bytes
        ));
    }
    let captured = told(blob.outcome.code, &blob.outcome.message);
    let message = format!("result {}, captured was {captured}", told(done.code, message));
    EngineError { what, message, code: done.code }.into()
}

/// Says in which call something went wrong.
#[cold]
fn in_call(error: WorkloadError, place: &Place) -> WorkloadError {
    let place =
        format!("call {} of the replay, at {:.6} s of the trace", place.number, place.start_ns as f64 / 1e9);
    match error {
        WorkloadError::Engine(EngineError { what, message, code }) => {
            WorkloadError::Engine(EngineError { what: format!("{what} ({place})"), message, code })
        }
        WorkloadError::Verification(words) => WorkloadError::Verification(format!("{words} ({place})")),
        other => other,
    }
}

/// What a lane says that another one's failure has stopped.
const STOPPED: &str = "stopped, because another thread has failed";

fn stopped() -> WorkloadError {
    wrong(STOPPED.into())
}

/// Whether that is all that an error says.
pub fn is_stopped(error: &WorkloadError) -> bool {
    matches!(error, WorkloadError::Verification(words) if words.contains(STOPPED))
}

/// The calls of a lane as they come from the reading.
struct Calls<'a> {
    batch: Batch,
    at: usize,
    run: &'a Run<'a>,
    /// Waits for the reading: number, ns.
    starved: (u64, u64),
}

impl Calls<'_> {
    /// Whether there is a next call: not at the end, nor where something has failed.
    fn has_next(&mut self) -> bool {
        self.at < self.batch.calls.len() || self.next_batch()
    }

    /// Where the next call, which is there, stands in the trace.
    fn place(&self) -> &Place {
        &self.batch.places[self.at]
    }

    #[cold]
    fn next_batch(&mut self) -> bool {
        let done = std::mem::take(&mut self.batch);
        self.at = 0;
        if let Some(last) = done.places.last() {
            self.run.arrive(last.number + 1);
            changed::add_bytes(done.changed_bytes);
            self.run.feed.give_back(done);
        }
        let (is_behind, before_ns) = (self.run.feed.is_behind(self.run.number), now_ns());
        let next = self.run.feed.take(self.run.number);
        if is_behind && next.is_some() {
            self.starved = (self.starved.0 + 1, self.starved.1 + now_ns() - before_ns);
        }
        self.batch = next.unwrap_or_default();
        !self.batch.calls.is_empty()
    }
}
