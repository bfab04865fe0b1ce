//! One thread of a replay: its calls, when each begins, and whether each does what it did.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathom_trace::model::{Blob, BlobCall, DONE, OK, ROW};
use fathom_trace::sql::Verb;
use hdrhistogram::Histogram;

use super::feed::{Batch, BoundValue, Call, Feed, Place, SHARED, StepOutcome, Task};
use super::locks::NOT_AGAIN;
use super::order::{Checkpoints, IdleReason, Order, Requirements, WaitResult};
use super::plan::name_of;
use super::wrong;
use crate::changed;
use crate::clock::{Stopwatch, now_ns};
use crate::critical::Path;
use crate::engine::calls::{Argument, BlobResult, StepResult};
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
    /// Connections that several lanes use.
    pub shared: &'a [Slot],
    /// The database of each of those, by its number in calls; none of one with several.
    pub databases: &'a Mutex<HashMap<u32, Option<u32>>>,
    /// Connections that are open already, by their numbers in the trace.
    pub opened: &'a Mutex<HashMap<u32, Box<dyn Connection>>>,
    /// Connections that are opened together with one, with their databases.
    pub with: &'a HashMap<u32, Vec<(u32, u32)>>,
    /// For messages: the databases that are ordered by locks, by their paths.
    pub ordered: &'a [String],
    /// Functions, collations and modules of the application.
    pub foreign: &'a [String],
    /// SQLite's version at capture, where it was another one.
    pub other_version: Option<&'a str>,
    /// Threads shared a cache when it was captured.
    pub shares_cache: bool,
    pub timing: Timing,
    pub start_ns: u64,
}

/// A connection that several lanes use, one after the other.
pub type Slot = Mutex<Option<Box<dyn Connection>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A lane that panics stops the others.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Calls that did not wait for all that had returned before them.
    pub reordered_calls: u64,
    /// The path to the end of the lane that ended last, where there are several.
    pub path: Option<Path>,
    /// Several streams have no order among each other.
    pub is_unordered: bool,
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
        self.path = match (self.path, other.path) {
            (Some(own), Some(other)) if own.at_ns >= other.at_ns => Some(own),
            (own, other) => other.or(own),
        };
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
        if let Some((waits @ 1.., ns)) = self.lock_waits {
            let why = if self.is_unordered {
                "the trace does not tell in which order its threads took turns, so these waits are the replay's and not the application's"
            } else {
                "locks that were free when it was captured, or not asked for"
            };
            sink.warning(format!(
                "{waits} waits for locks, {:.3} ms in all, are within the measured time: {why}",
                ns as f64 / 1e6
            ));
        }
        if self.reordered_calls > 0 {
            sink.warning(format!(
                "{} calls began before others that had returned before them: with this cell's locks those were waiting for them",
                self.reordered_calls
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
        let path = Path::begin(self.start_ns);
        let (connections, databases) = (Vec::new(), HashMap::new());
        let mut state = State { run: self, connections, databases, report, rows: 0, path, lock_ns: 0 };
        // Whatever ends this thread early stops the others, which may wait for it.
        let ends = Ends(self);
        state.all(&mut record)?;
        if let Some(order) = self.order {
            order.tell_path(self.number, state.path);
            state.report.path = Some(state.path);
        }
        self.arrive(u64::MAX);
        state.close_all()?;
        std::mem::forget(ends);
        if let Some(order) = self.order {
            order.fall_asleep(self.number, IdleReason::Ended);
        }
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
    /// The database of each connection that is this lane's alone; none of one with several.
    databases: HashMap<u32, Option<u32>>,
    report: Report,
    /// Rows returned and changed by the present execution.
    rows: u64,
    /// Of several lanes: what the time until the last call consisted of.
    path: Path,
    /// Waits for locks within the present call.
    lock_ns: u64,
}

/// What an execution turned out to be.
#[derive(Clone, Copy, Default)]
struct Unit {
    has_step: bool,
    opens: bool,
    /// Connection and handle of the statement whose step was the last one and gave a row outside of
    /// a transaction: it ends where it is reset.
    at_row: Option<(u32, u32)>,
    has_worked: bool,
    /// The database that all its calls were on; none where there were several, or it is not known.
    database: Option<u32>,
}

impl Unit {
    /// A call works on this database, or on one that is not known.
    fn works_on(&mut self, database: Option<u32>) {
        let is_same = !self.has_worked || self.database == database;
        self.database = database.filter(|_| is_same);
        self.has_worked = true;
    }
}

impl State<'_> {
    /// Calls up to the end of a transaction, or of a statement outside of one, are one execution of
    /// the phase. With captured times each call is, so that no pause counts.
    fn all(&mut self, record: &mut Lane) -> Result<(), WorkloadError> {
        let mut calls = Calls { batch: Batch::default(), at: 0, run: self.run, starved: (0, 0) };
        while calls.has_next() {
            self.pause(&calls)?;
            let watch = record.start();
            let unit = self.unit(&mut calls)?;
            match unit {
                Unit { has_step: true, database, .. } => record.end_on(watch, self.rows, database),
                // Setting up the cell's settings is no work of the application.
                Unit { opens: true, .. } => {}
                _ => record.end_auxiliary(watch),
            }
        }
        self.report.starved = calls.starved;
        match self.run.order {
            Some(order) if order.is_stopped() => Err(stopped()),
            _ => Ok(()),
        }
    }

    /// Before an execution, and in none's time: waits for those that it depends on and, with
    /// captured times, until it is due, and notes how late it is.
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
            // The histogram grows by itself (`saturating_record` would not let it), so this fails
            // only without memory; then the value goes to its end.
            if late_ns.record(late).is_err() {
                late_ns.saturating_record(late);
            }
        }
        Ok(())
    }

    /// Says how far the lane has come, and waits for what the next call depends on.
    fn wait(&mut self, calls: &Calls<'_>) -> Result<(), WorkloadError> {
        let Some(order) = self.run.order else { return Ok(()) };
        let (place, lane) = (calls.place(), self.run.number);
        order.tell_path(lane, self.path);
        order.arrive(lane, place.number);
        let wanted = Requirements { after: place.after.min(place.number), needs: calls.batch.needs(place) };
        if wanted.after == 0 && wanted.needs.is_empty() {
            return if order.is_stopped() { Err(stopped()) } else { Ok(()) };
        }
        let run = self.run;
        match order.wait(lane, wanted, run.feed, || self.describe(calls)) {
            WaitResult::Free => Ok(()),
            WaitResult::Released(by) => {
                if let Some(by) = by {
                    self.path.waited(order.path_of(by), now_ns());
                }
                Ok(())
            }
            WaitResult::Stopped => Err(stopped()),
            WaitResult::Stuck => {
                let waits = order.waits(lane).join("; ");
                let engine = self.run.engine.info().settings.remove("journal_mode").unwrap_or_default();
                Err(wrong(format!(
                    "{NOT_AGAIN} with journal_mode={engine}: its threads wait for each other. {waits}"
                )))
            }
        }
    }

    /// The next call and what it waits for, for a message.
    fn describe(&mut self, calls: &Calls<'_>) -> String {
        let (place, call) = (calls.place(), &calls.batch.calls[calls.at]);
        let what = match &call.task {
            Task::Open { .. } => "open".into(),
            Task::Close => "close".into(),
            Task::Attach { .. } => "ATTACH".into(),
            Task::Prepare { sql, .. } => format!("prepare `{}`", abridged(calls.batch.text(*sql))),
            Task::Script { sql } | Task::Checkpoint { sql } => {
                format!("`{}`", abridged(calls.batch.text(*sql)))
            }
            Task::Refuse { handle } => {
                format!("refused `{}`", abridged(&self.sql(call.connection, *handle)))
            }
            Task::Bind { handle, .. } | Task::ClearBindings { handle } => {
                format!("bind `{}`", abridged(&self.sql(call.connection, *handle)))
            }
            Task::Step { handle, .. } => format!("`{}`", abridged(&self.sql(call.connection, *handle))),
            Task::Reset { handle } | Task::Finalize { handle } => {
                format!("reset `{}`", abridged(&self.sql(call.connection, *handle)))
            }
            Task::Blob { .. } => "a call on an incremental blob".into(),
            Task::Hold { schema } => format!("snapshot of {}", calls.batch.text(*schema)),
            Task::Release => "end of a snapshot".into(),
            Task::Meaning { option, .. } => format!("sqlite3_db_config {option}"),
            Task::Rollback => "ROLLBACK of an interrupted statement".into(),
        };
        let needs = calls.batch.needs(place);
        let mut waits: Vec<String> = needs.iter().map(|tie| tie.words(self.run.ordered)).collect();
        if waits.is_empty() {
            waits.push("calls that had returned before it began".into());
        }
        format!("{} ({what}) waits for {}", told(place), waits.join(", "))
    }

    /// The only database of a connection, where that is known.
    fn database_of(&self, connection: u32) -> Option<u32> {
        let own = match connection & SHARED {
            0 => self.databases.get(&connection).copied(),
            _ => lock(self.run.databases).get(&connection).copied(),
        };
        own.flatten()
    }

    fn set_database(&mut self, connection: u32, database: Option<u32>) {
        match connection & SHARED {
            0 => self.databases.insert(connection, database),
            _ => lock(self.run.databases).insert(connection, database),
        };
    }

    fn sql(&mut self, connection: u32, handle: u32) -> String {
        let sql = |connection: &mut Option<Box<dyn Connection>>| {
            connection
                .as_mut()
                .and_then(|connection| connection.calls())
                .map_or(String::new(), |calls| calls.sql(handle))
        };
        if connection & SHARED == 0 {
            self.connections.get_mut(connection as usize).map_or(String::new(), sql)
        } else {
            // Another lane may be using it.
            let slot = &self.run.shared[(connection & !SHARED) as usize];
            slot.try_lock().map_or(String::new(), |mut slot| sql(&mut slot))
        }
    }

    /// The calls of an execution; there is at least one.
    fn unit(&mut self, calls: &mut Calls<'_>) -> Result<Unit, WorkloadError> {
        self.rows = 0;
        let mut unit = Unit::default();
        loop {
            let call = &calls.batch.calls[calls.at];
            let watch = self.run.order.map(|_| Stopwatch::start());
            if let Err(error) = self.call(call, &calls.batch, calls.at) {
                let error = if self.run.shares_cache { in_a_shared_cache(error) } else { error };
                return Err(in_call(error, calls.place()));
            }
            if let (Some(order), Some(watch)) = (self.run.order, watch) {
                let lane = self.run.number;
                let start_ns = watch.start_ns();
                self.path.work(start_ns, &watch.stop(), std::mem::take(&mut self.lock_ns));
                let gives = calls.batch.gives(calls.place());
                if !gives.is_empty() {
                    order.tell_path(lane, self.path);
                    gives.iter().for_each(|counter| order.raise(lane, *counter));
                }
            }
            // What else there is writes nothing.
            if matches!(
                call.task,
                Task::Step { .. }
                    | Task::Blob { .. }
                    | Task::Script { .. }
                    | Task::Checkpoint { .. }
                    | Task::Rollback
                    | Task::Attach { .. }
                    | Task::Close
            ) {
                unit.works_on(self.database_of(call.connection));
            }
            let ends = match &call.task {
                Task::Step { handle, in_transaction, expected, .. } => {
                    unit.has_step = true;
                    let is_at_row = expected.code == ROW && !in_transaction;
                    unit.at_row = is_at_row.then_some((call.connection, *handle));
                    expected.code != ROW && !in_transaction
                }
                Task::Reset { handle } | Task::Finalize { handle } => {
                    unit.at_row == Some((call.connection, *handle))
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
        if call.connection & SHARED != 0 {
            let mut slot = lock(&self.run.shared[(call.connection & !SHARED) as usize]);
            return self.timed(&mut slot, call, batch, at);
        }
        let place = call.connection as usize;
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        let mut connection = self.connections[place].take();
        let done = self.timed(&mut connection, call, batch, at);
        self.connections[place] = connection;
        done
    }

    /// One call on its connection, with its waits for locks.
    fn timed(
        &mut self,
        slot: &mut Option<Box<dyn Connection>>,
        call: &Call,
        batch: &Batch,
        at: usize,
    ) -> Result<(), WorkloadError> {
        if self.run.order.is_none() {
            return self.on(slot, call, batch, at);
        }
        let waited = |slot: &Option<Box<dyn Connection>>| {
            slot.as_ref().and_then(|slot| slot.lock_waits()).map_or(0, |(_, ns)| ns)
        };
        let before = waited(slot);
        let done = self.on(slot, call, batch, at);
        self.lock_ns = waited(slot).saturating_sub(before);
        done
    }

    /// One call on its connection.
    fn on(
        &mut self,
        slot: &mut Option<Box<dyn Connection>>,
        call: &Call,
        batch: &Batch,
        at: usize,
    ) -> Result<(), WorkloadError> {
        match &call.task {
            Task::Open { database, connection } => {
                self.set_database(call.connection, Some(*database));
                let opened = lock(self.run.opened).remove(connection);
                *slot = Some(match opened {
                    Some(opened) => opened,
                    None => open(self.run.engine, *database)?,
                });
                if let (Some(order), Some(calls)) =
                    (self.run.order, slot.as_mut().and_then(|slot| slot.calls()))
                {
                    calls.tell_pauses(order.pauses());
                }
                for (other, database) in self.run.with.get(connection).into_iter().flatten() {
                    let opened = open(self.run.engine, *database)?;
                    lock(self.run.opened).insert(*other, opened);
                }
                return Ok(());
            }
            Task::Close => {
                return match slot.take() {
                    Some(connection) => self.close(connection),
                    None => Ok(()),
                };
            }
            _ => {}
        }
        let Some(connection) = slot.as_mut() else {
            return Err(wrong(
                "a connection is used before it is opened; the trace's beginning is missing".into(),
            ));
        };
        match &call.task {
            Task::Script { sql } => return Ok(connection.execute_script(batch.text(*sql))?),
            Task::Checkpoint { sql } => return self.checkpoint(connection.as_mut(), batch.text(*sql)),
            Task::Attach { database, schema } => {
                // What it changes from now on may be in either.
                self.set_database(call.connection, None);
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
                    BoundValue::Null => Argument::Null,
                    BoundValue::Integer(value) => Argument::Integer(value),
                    BoundValue::Real(value) => Argument::Real(value),
                    BoundValue::Text(span) => Argument::Text(batch.bytes(span)),
                    BoundValue::Blob(span) => Argument::Blob(batch.bytes(span)),
                    BoundValue::ZeroBlob(length) => Argument::ZeroBlob(length),
                };
                Ok(calls.bind(*handle, index.get(), value)?)
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
            Task::Hold { schema } => Ok(calls.hold(batch.text(*schema))?),
            Task::Release => {
                calls.release();
                Ok(())
            }
            Task::Rollback => Ok(calls.roll_back()?),
            Task::Meaning { option, is_on } => {
                calls.set_meaning(*option, *is_on);
                Ok(())
            }
            Task::Refuse { handle } => match calls.step_refused(*handle).code {
                code if code & 0xff == BUSY => Ok(()),
                code => Err(wrong(format!(
                    "{NOT_AGAIN} in this cell: `{}` was refused a lock and not reset before other calls of its connection; until it was, SQLite left open what they changed, and here nothing refuses it (result {code})",
                    abridged(&calls.sql(*handle))
                ))),
            },
            Task::Step { handle, begins, is_counted, expected, .. } => {
                // Only where threads could wait for each other.
                let is_impatient = batch.places[at].is_checkpoint && self.run.order.is_some();
                if is_impatient {
                    calls.wait_for_locks(false);
                }
                let mut stepped;
                loop {
                    let checkpoints = self.run.order.map(|order| order.checkpoints(is_impatient));
                    stepped = calls.step(*handle, expected.rows, expected.code != ROW);
                    let is_refused = stepped.code & 0xff == BUSY && stepped.rows == 0;
                    // A checkpoint is no part of the order, and some hold the lock to write for a
                    // moment.
                    if !is_refused || is_impatient || !checkpoints.is_some_and(Checkpoints::has_other) {
                        break;
                    }
                }
                if is_impatient {
                    calls.wait_for_locks(true);
                }
                self.rows = self.rows.saturating_add(stepped.rows).saturating_add(stepped.changes);
                let is_same_code = stepped.code & 0xff == expected.code & 0xff;
                let is_same_count =
                    stepped.rows == expected.rows && stepped.changes == u64::from(expected.changes);
                if !is_same_code || (*is_counted && !is_same_count) {
                    let sql = calls.sql(*handle);
                    let is_error = !matches!(stepped.code, OK | ROW | DONE);
                    let message = if is_error { calls.message() } else { String::new() };
                    let captured = batch.text(batch.places[at].message);
                    self.differs(expected, *is_counted, captured, &sql, stepped, &message)?;
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
            Task::Open { .. }
            | Task::Close
            | Task::Script { .. }
            | Task::Checkpoint { .. }
            | Task::Attach { .. } => Ok(()),
        }
    }

    /// A checkpoint by a call. What it waited for when it was captured is done; what holds it up
    /// now did not then, or did so, too.
    fn checkpoint(&self, connection: &mut dyn Connection, sql: &str) -> Result<(), WorkloadError> {
        let is_impatient = self.run.order.is_some();
        let set = |connection: &mut dyn Connection, waits| {
            if is_impatient && let Some(calls) = connection.calls() {
                calls.wait_for_locks(waits);
            }
        };
        set(connection, false);
        let checkpoints = self.run.order.map(|order| order.checkpoints(true));
        let done = connection.execute_script(sql);
        drop(checkpoints);
        set(connection, true);
        match done {
            Err(error) if matches!(error.code & 0xff, BUSY | LOCKED) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Steps that did not do what they did when they were captured: an error, unless it is no
    /// difference.
    #[cold]
    fn differs(
        &self,
        expected: &StepOutcome,
        is_counted: bool,
        captured: &str,
        sql: &str,
        stepped: StepResult,
        message: &str,
    ) -> Result<(), WorkloadError> {
        if stepped.code & 0xff != expected.code & 0xff {
            let told = |code: i32, words: &str| {
                if words.is_empty() { code.to_string() } else { format!("{code} ({words})") }
            };
            let mut message = message.to_owned();
            if stepped.code & 0xff == BUSY
                && let Some(order) = self.run.order
            {
                // Who holds the lock is waiting for its turn.
                let waits = order.waits(self.run.number).join("; ");
                message = format!("{message}; {NOT_AGAIN} in this cell: meanwhile {waits}");
            }
            if stepped.code & 0xff == FULL
                && let Some(told) = fathom_trace::room::take_refusal()
            {
                message = format!("{message}; {told}");
            }
            let message = message.as_str();
            let captured = if is_counted || expected.code != DONE {
                format!("captured was {}", told(expected.code, captured))
            } else {
                UNTOLD.to_owned()
            };
            let error = EngineError {
                subject: format!("`{}`", abridged(sql)),
                message: format!("result {}, {captured}", told(stepped.code, message)),
                code: stepped.code,
            };
            return Err(self.explain(error).into());
        }
        // What a PRAGMA answers depends on the cell.
        if Verb::of(sql) == Verb::Pragma {
            return Ok(());
        }
        let version = self.run.other_version.map_or(String::new(), |version| {
            format!(
                "; it was captured with SQLite {version}, and rows may depend on the version and its build (tables that ANALYZE makes, what a statement reads that is open while its own connection changes the table): try setting `library`"
            )
        });
        Err(wrong(format!(
            "`{}` returned {} rows and changed {}; captured were {} and {}{version}",
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
        let filled = self.run.foreign.iter().find(|name| name.contains("sqlite3_backup_init"));
        if error.message.contains("no such table")
            && let Some(filled) = filled
        {
            error.message.push_str(&format!(
                "; the application filled a database without SQL ({filled}), and what it held is not in the trace: capture the application once more, now that the database is there"
            ));
        } else if let Some(missing) = missing {
            error.message.push_str(&format!(
                "; the application brought its own {missing}, which a replay does not have{EXTENSION}"
            ));
        } else if ["no such function", "no such collation", "no such module"]
            .iter()
            .any(|words| error.message.contains(words))
        {
            error.message.push_str(&format!(
                "; the application brought its own, or an extension, which a replay does not have{EXTENSION}"
            ));
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
fn blob_differs(blob: &Blob, done: BlobResult, message: &str) -> WorkloadError {
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
    EngineError { subject: what, message, code: done.code }.into()
}

/// SQLITE_BUSY.
const BUSY: i32 = 5;
/// SQLITE_LOCKED.
const LOCKED: i32 = 6;
/// SQLITE_FULL.
const FULL: i32 = 13;

/// What is said of an error where the trace has no result.
const UNTOLD: &str = "and the trace does not tell what came of it, as a log shows no failures: leave the statement out of the log, or import it with the database as it was (--start)";

/// What brings what an application brought itself.
const EXTENSION: &str = "; `--set extension=FILE` loads an extension that has it, and `fathom trace part --skip-own` \
                         leaves queries with own functions out";

/// Opens a database of the trace.
pub fn open(engine: &dyn Engine, database: u32) -> Result<Box<dyn Connection>, EngineError> {
    let mut connection = engine.connect(&name_of(database))?;
    // A trace is other people's data.
    connection.confine()?;
    Ok(connection)
}

/// Which call it is, for a message.
fn told(place: &Place) -> String {
    let (number, thread, at_s) = (place.number, place.thread, place.start_ns as f64 / 1e9);
    format!("call {number} of the replay, thread {thread}, at {at_s:.6} s of the trace")
}

/// Says why the order of threads is not known that shared a cache.
#[cold]
fn in_a_shared_cache(error: WorkloadError) -> WorkloadError {
    let why = format!(
        "{NOT_AGAIN}: its threads share a cache (SQLITE_OPEN_SHAREDCACHE), within which no locks of the file tell who read and wrote first"
    );
    match error {
        WorkloadError::Engine(mut error) => {
            error.message = format!("{}; {why}", error.message);
            WorkloadError::Engine(error)
        }
        WorkloadError::Verification(words) => WorkloadError::Verification(format!("{words}; {why}")),
        other => other,
    }
}

/// Says in which call something went wrong.
#[cold]
fn in_call(error: WorkloadError, place: &Place) -> WorkloadError {
    let place = told(place);
    match error {
        WorkloadError::Engine(EngineError { subject: what, message, code }) => {
            WorkloadError::Engine(EngineError { subject: format!("{what} ({place})"), message, code })
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

/// Whether it is a lock that another connection holds.
pub fn is_locked(error: &WorkloadError) -> bool {
    matches!(error, WorkloadError::Engine(error) if matches!(error.code & 0xff, BUSY | LOCKED))
}

/// An error of a replay by several threads, with what it comes of where one of their connections
/// keeps the database to itself: another one waits for it, so that what it makes or writes is not
/// there.
pub fn with_lock(mut error: WorkloadError, engine: &dyn Engine) -> WorkloadError {
    let mode = engine.info().settings.get("locking_mode").cloned().unwrap_or_default();
    if mode.eq_ignore_ascii_case("exclusive") && !is_locked(&error) {
        match &mut error {
            WorkloadError::Engine(error) => error.message.push_str(KEEPS_OUT),
            WorkloadError::Verification(words) => words.push_str(KEEPS_OUT),
            _ => {}
        }
    }
    error
}

/// What comes of `locking_mode=exclusive`.
const KEEPS_OUT: &str = "; with locking_mode=exclusive, while one of its connections has the \
                         database, another one cannot use it";

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
        // Others may wait for the reading, too, which then goes on whatever is read already.
        if let Some(order) = self.run.order {
            order.fall_asleep(self.run.number, IdleReason::Reading);
        }
        let next = self.run.feed.take(self.run.number);
        if let Some(order) = self.run.order {
            order.wake_up(self.run.number);
        }
        if is_behind && next.is_some() {
            self.starved = (self.starved.0 + 1, self.starved.1 + now_ns() - before_ns);
        }
        self.batch = next.unwrap_or_default();
        !self.batch.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn an_execution_has_a_database_where_all_its_calls_are_on_that() {
        let of = |databases: &[Option<u32>]| {
            let mut unit = Unit::default();
            databases.iter().for_each(|database| unit.works_on(*database));
            unit.database
        };
        assert_eq!((of(&[]), of(&[Some(3)]), of(&[Some(3), Some(3)])), (None, Some(3), Some(3)));
        for several in
            [&[Some(3), Some(4)][..], &[Some(3), None], &[None, Some(3)], &[Some(3), Some(4), Some(4)]]
        {
            assert_eq!(of(several), None, "{several:?}");
        }
    }
}
