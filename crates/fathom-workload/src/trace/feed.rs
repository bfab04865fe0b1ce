//! The second reading of a trace, ahead of the lanes, so that a trace need not fit in memory.
//!
//! What is read and not done yet takes as much memory as parameter `ahead` allows (some 60 bytes a
//! call; a single call may be larger), and at most [`BATCH_BYTES`] more. The timed window begins
//! when so much is there, or all of it; so a trace that is smaller is read before it, and reading
//! it costs nothing. Of a longer one, the reading goes on within the window whenever less than half
//! is left: by a thread of its own, on a processor that the lanes may not use, where there is one.
//! A lane reads its calls out of batches that are used again, so it allocates nothing; where it had
//! to wait for the reading, that is told.
//!
//! The thread is started only where it is needed: in a process that never had a second one, the C
//! library takes its locks and makes its system calls with less ado, and an application with a
//! single thread had that, too.
//!
//! There is no deadlock: the reading waits only while calls are handed out and not done, and where
//! all lanes wait for calls that are not read yet it reads on beyond its room (see `order.rs`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use fathom_trace::model::{Blob, BlobCall, Record, Step, Value};
use fathom_trace::{Reader, TraceError};

use super::changes::Changes;
use super::locks::Tie;
use super::order::{CallSource, Order};
use super::plan::{Home, Plan};
use super::translate::{CallKind, PlacedCall, Translator};
use crate::changed;
use crate::engine::Engine;

/// Bytes of all lanes' calls that are handed over together.
pub const BATCH_BYTES: usize = 256 << 10;

/// A piece of a batch's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    at: u32,
    length: u32,
}

/// Calls of a lane, one after the other, and the bytes that they speak of.
#[derive(Debug, Default)]
pub struct Batch {
    /// The calls.
    pub calls: Vec<Call>,
    /// Of each call, what few replays ask.
    pub places: Vec<Place>,
    needs: Vec<Tie>,
    gives: Vec<u32>,
    bytes: Vec<u8>,
    blobs: Vec<Blob>,
    /// Of the blobs' names and bytes.
    blob_bytes: usize,
    /// Bytes that the calls change (see [`crate::changed`]).
    pub changed_bytes: u64,
}

/// A call: half a line of the processor's cache, because all of them are read within the measured
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What is done.
    pub task: Task,
    /// The place of its connection in the lane, or with [`SHARED`] among those that several lanes
    /// use.
    pub connection: u32,
}

/// Set in [`Call::connection`] where several lanes use the connection.
pub const SHARED: u32 = 1 << 31;

const _: () = assert!(size_of::<Call>() <= 32);

/// Where a call stands in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Place in the order in which calls returned.
    pub number: u64,
    /// Calls with smaller numbers had returned before it began.
    pub after: u64,
    needs: Span,
    gives: Span,
    /// The trace's number of the thread.
    pub thread: u32,
    /// A checkpoint, which waits for no lock.
    pub is_checkpoint: bool,
    /// When it began, ns since the trace's time 0.
    pub start_ns: u64,
    /// SQLite's message, where it failed.
    pub message: Span,
}

/// As [`CallKind`], with texts and values in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    Open {
        database: u32,
        /// The trace's number of it.
        connection: u32,
    },
    Prepare {
        handle: u32,
        sql: Span,
        code: i32,
    },
    Bind {
        handle: u32,
        index: Index,
        value: BoundValue,
    },
    ClearBindings {
        handle: u32,
    },
    Step {
        handle: u32,
        begins: bool,
        is_counted: bool,
        in_transaction: bool,
        expected: StepOutcome,
    },
    Hold {
        schema: Span,
    },
    Release,
    Rollback,
    Refuse {
        handle: u32,
    },
    Reset {
        handle: u32,
    },
    Finalize {
        handle: u32,
    },
    Script {
        sql: Span,
    },
    Meaning {
        option: u32,
        is_on: bool,
    },
    Checkpoint {
        sql: Span,
    },
    Attach {
        database: u32,
        schema: Span,
    },
    /// The batch's call on a blob with this number.
    Blob {
        at: u32,
    },
    Close,
}

/// Number of a parameter, in three bytes, which a [`Call`] has room for. SQLite has 32,766
/// parameters at most as it is published, and 250,000 as Debian and others build it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index([u8; 3]);

impl Index {
    /// One that is larger than all that there are becomes the largest, which no statement has.
    pub fn new(index: u32) -> Index {
        let [_, high, middle, low] = index.min(0xff_ffff).to_be_bytes();
        Index([high, middle, low])
    }

    /// The number.
    pub fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub enum BoundValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(Span),
    Blob(Span),
    ZeroBlob(u64),
}

/// What came of steps.
#[derive(Clone, Copy, Debug)]
pub struct StepOutcome {
    pub rows: u64,
    /// As `sqlite3_changes` gives it, so it fits; more than that (a damaged trace) is never
    /// reached.
    pub changes: u32,
    pub code: i32,
}

impl Batch {
    /// A piece of its bytes.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.at as usize..][..span.length as usize]
    }

    /// A piece that was put in as text.
    pub fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    /// What a call waits for.
    pub fn needs(&self, place: &Place) -> &[Tie] {
        &self.needs[place.needs.at as usize..][..place.needs.length as usize]
    }

    /// The counters that it raises.
    pub fn gives(&self, place: &Place) -> &[u32] {
        &self.gives[place.gives.at as usize..][..place.gives.length as usize]
    }

    fn weight(&self) -> usize {
        self.calls.len() * (size_of::<Call>() + size_of::<Place>())
            + self.needs.len() * size_of::<Tie>()
            + self.gives.len() * size_of::<u32>()
            + self.bytes.len()
            + self.blobs.len() * size_of::<Blob>()
            + self.blob_bytes
    }

    /// Memory that it holds, full or empty.
    fn capacity(&self) -> usize {
        self.calls.capacity() * size_of::<Call>()
            + self.places.capacity() * size_of::<Place>()
            + self.needs.capacity() * size_of::<Tie>()
            + self.gives.capacity() * size_of::<u32>()
            + self.bytes.capacity()
            + self.blobs.capacity() * size_of::<Blob>()
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.places.clear();
        self.needs.clear();
        self.gives.clear();
        self.bytes.clear();
        self.blobs.clear();
        self.blob_bytes = 0;
        self.changed_bytes = 0;
    }

    /// A call on a blob.
    pub fn blob(&self, at: u32) -> &Blob {
        &self.blobs[at as usize]
    }

    fn put_blob(&mut self, blob: &Blob) -> u32 {
        self.blob_bytes += match &blob.call {
            BlobCall::Open { schema, table, column, .. } => schema.len() + table.len() + column.len(),
            BlobCall::Write { data, .. } => data.len(),
            _ => 0,
        };
        self.blobs.push(blob.clone());
        self.blobs.len() as u32 - 1
    }

    fn put(&mut self, bytes: &[u8]) -> Span {
        // A chunk of a trace holds less than 2 GiB, and a batch at most one such value and little
        // else.
        let span = Span { at: self.bytes.len() as u32, length: bytes.len() as u32 };
        self.bytes.extend_from_slice(bytes);
        span
    }

    fn add(&mut self, made: &PlacedCall, connection: u32) {
        let mut message = Span { at: 0, length: 0 };
        let task = match &made.kind {
            CallKind::Open(database) => Task::Open { database: *database, connection: made.connection },
            CallKind::Prepare { handle, sql, outcome } => {
                Task::Prepare { handle: *handle, sql: self.put(sql.as_bytes()), code: outcome.code }
            }
            CallKind::Bind { handle, index, value } => {
                let value = match value {
                    Value::Null => BoundValue::Null,
                    Value::Integer(value) => BoundValue::Integer(*value),
                    Value::Real(value) => BoundValue::Real(*value),
                    Value::Text(bytes) => BoundValue::Text(self.put(bytes)),
                    Value::Blob(bytes) => BoundValue::Blob(self.put(bytes)),
                    Value::ZeroBlob(length) => BoundValue::ZeroBlob(*length),
                };
                Task::Bind { handle: *handle, index: Index::new(*index), value }
            }
            CallKind::ClearBindings { handle } => Task::ClearBindings { handle: *handle },
            CallKind::Step { step, .. } => {
                let Step { handle, begins, is_counted, rows, changes, in_transaction, outcome } = step;
                message = self.put(outcome.message.as_bytes());
                let (begins, is_counted, in_transaction) = (*begins, *is_counted, *in_transaction);
                let changes = u32::try_from(*changes).unwrap_or(u32::MAX);
                let expected = StepOutcome { rows: *rows, changes, code: outcome.code };
                Task::Step { handle: *handle, begins, is_counted, in_transaction, expected }
            }
            CallKind::Hold { schema } => Task::Hold { schema: self.put(schema.as_bytes()) },
            CallKind::Release => Task::Release,
            CallKind::Rollback => Task::Rollback,
            CallKind::Refuse { handle } => Task::Refuse { handle: *handle },
            CallKind::Reset { handle } => Task::Reset { handle: *handle },
            CallKind::Finalize { handle } => Task::Finalize { handle: *handle },
            CallKind::Checkpoint(sql) => Task::Checkpoint { sql: self.put(sql.as_bytes()) },
            CallKind::Meaning { option, is_on } => Task::Meaning { option: *option, is_on: *is_on },
            CallKind::Script(sql) => Task::Script { sql: self.put(sql.as_bytes()) },
            CallKind::Attach { database, schema } => {
                Task::Attach { database: *database, schema: self.put(schema.as_bytes()) }
            }
            CallKind::Blob(blob) => {
                message = self.put(blob.outcome.message.as_bytes());
                Task::Blob { at: self.put_blob(blob) }
            }
            CallKind::Close => Task::Close,
        };
        let span = |at: usize, length: usize| Span { at: at as u32, length: length as u32 };
        let needs = span(self.needs.len(), made.ties.needs.len());
        let gives = span(self.gives.len(), made.ties.gives.len());
        self.needs.extend_from_slice(&made.ties.needs);
        self.gives.extend_from_slice(&made.ties.gives);
        let PlacedCall { number, after, start_ns, thread, .. } = *made;
        self.calls.push(Call { task, connection });
        let is_checkpoint = matches!(made.kind, CallKind::Step { is_checkpoint: true, .. });
        self.places.push(Place { number, after, needs, gives, thread, is_checkpoint, start_ns, message });
    }
}

/// Between the reading and the lanes.
pub struct Feed {
    queues: Vec<Queue>,
    store: Mutex<Store>,
    /// The reading waits here for room.
    has_room: Condvar,
    ahead_bytes: usize,
}

#[derive(Default)]
struct Queue {
    ready: Mutex<Ready>,
    arrived: Condvar,
}

#[derive(Default)]
struct Ready {
    batches: VecDeque<Batch>,
    is_closed: bool,
}

#[derive(Default)]
struct Store {
    /// Weight of what is read and not done.
    ahead: usize,
    /// The largest it was.
    most_ahead: usize,
    /// Empty batches to be used again, and the memory that they hold.
    spare: Vec<Batch>,
    spare_bytes: usize,
    is_closed: bool,
    /// All lanes wait for what is not read yet.
    reads_on: bool,
}

/// Moves the calling thread to processors that its process does not keep to. Where there are none
/// and the process keeps to a single one, it goes behind the lanes instead: it then reads while
/// they wait for the device. That it cannot is no error: it is a courtesy to the lanes.
pub fn step_aside() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(own) = sched_getaffinity(None) else { return };
    let mut others = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&cpu| !own.is_set(cpu)).for_each(|cpu| others.set(cpu));
    // Those that do not exist are left out by the kernel, and none at all is refused.
    if sched_setaffinity(None, &others).is_err() && own.count() == 1 {
        // Of a thread, not of the process, on Linux (setpriority(2), "C library/kernel
        // differences").
        let _ = rustix::process::setpriority_process(None, 19);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can leave them half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    /// For so many lanes.
    pub fn new(lanes: usize, ahead_bytes: usize) -> Feed {
        let queues = (0..lanes).map(|_| Queue::default()).collect();
        Feed { queues, store: Mutex::default(), has_room: Condvar::new(), ahead_bytes }
    }

    /// The lane's next calls; none at the end, or where something has failed.
    pub fn take(&self, lane: usize) -> Option<Batch> {
        let queue = &self.queues[lane];
        let mut ready = lock(&queue.ready);
        loop {
            if let Some(batch) = ready.batches.pop_front() {
                return Some(batch);
            }
            if ready.is_closed {
                return None;
            }
            ready = queue.arrived.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the lane's next calls are not there although the reading has all the room it wants.
    pub fn is_behind(&self, lane: usize) -> bool {
        let ready = lock(&self.queues[lane].ready);
        let is_empty = ready.batches.is_empty() && !ready.is_closed;
        drop(ready);
        is_empty && lock(&self.store).ahead < self.ahead_bytes / 4
    }

    /// A batch whose calls are done.
    pub fn give_back(&self, mut batch: Batch) {
        let weight = batch.weight();
        let mut store = lock(&self.store);
        store.ahead -= weight;
        if store.is_closed {
            // Nothing more is read, so memory is given back after the measured time.
            store.spare.push(batch);
            return;
        }
        batch.clear();
        // One that once held much more than a lane's share, such as a large blob, goes.
        let capacity = batch.capacity();
        let is_kept = capacity <= 4 * BATCH_BYTES / self.queues.len()
            && store.spare_bytes + capacity <= self.ahead_bytes / 2;
        if is_kept {
            store.spare_bytes += capacity;
            store.spare.push(batch);
        }
        let has_room = store.ahead <= self.ahead_bytes / 2;
        drop(store);
        if has_room {
            self.has_room.notify_all();
        }
    }

    fn is_full(&self) -> bool {
        lock(&self.store).ahead >= self.ahead_bytes
    }

    /// Where as much is read as may be, waits until half of it is done. False where something has
    /// failed.
    fn wait_for_room(&self) -> bool {
        let mut store = lock(&self.store);
        if store.ahead >= self.ahead_bytes {
            while store.ahead > self.ahead_bytes / 2 && !store.is_closed && !store.reads_on {
                store = self.has_room.wait(store).unwrap_or_else(PoisonError::into_inner);
            }
            store.reads_on = false;
        }
        !store.is_closed
    }

    /// Nothing more comes: at the end, and where something has failed.
    pub fn close(&self) {
        for queue in &self.queues {
            lock(&queue.ready).is_closed = true;
            queue.arrived.notify_all();
        }
        lock(&self.store).is_closed = true;
        self.has_room.notify_all();
    }

    /// The most that was read and not done at one time, bytes.
    pub fn most_ahead(&self) -> usize {
        lock(&self.store).most_ahead
    }

    /// Begins the second reading.
    ///
    /// # Errors
    /// A file that can no longer be opened.
    pub fn begin<'a>(
        &'a self,
        plan: Plan,
        engine: &'a dyn Engine,
        order: &'a Order,
    ) -> Result<Fill<'a>, TraceError> {
        let lanes = self.queues.len();
        let mut fill = Fill {
            feed: self,
            order,
            reader: None,
            translator: Translator::new(engine, plan.reading),
            changes: changed::is_counting().then(Changes::default),
            homes: plan.homes,
            lane_of_thread: plan.lane_of_thread,
            orders: plan.lanes.len() > 1,
            counters: plan.counters,
            shared: HashMap::new(),
            places: (0..lanes).map(|_| Places::default()).collect(),
            pending: (0..lanes).map(|_| Batch::default()).collect(),
            pending_bytes: 0,
            is_whole: false,
        };
        fill.reader = Some(Reader::open(&plan.file)?);
        Ok(fill)
    }
}

impl CallSource for Feed {
    fn has_ready(&self, lane: usize) -> bool {
        let ready = lock(&self.queues[lane].ready);
        !ready.batches.is_empty() || ready.is_closed
    }

    fn read_on(&self) -> bool {
        let mut store = lock(&self.store);
        if store.is_closed {
            return false;
        }
        store.reads_on = true;
        drop(store);
        self.has_room.notify_all();
        true
    }
}

/// The reading. Whatever ends it, the lanes that wait for it go on; before its end they stop.
pub struct Fill<'a> {
    feed: &'a Feed,
    order: &'a Order,
    reader: Option<Reader>,
    translator: Translator<'a>,
    /// Where bytes that are changed are counted.
    changes: Option<Changes>,
    homes: HashMap<u32, Home>,
    lane_of_thread: HashMap<u32, u32>,
    /// Whether there are lanes that wait for each other.
    orders: bool,
    /// Counters of databases; those of shared connections follow.
    counters: u32,
    /// Of each connection that several lanes use: calls so far, and the lane of the last one.
    shared: HashMap<u32, (u64, u32)>,
    places: Vec<Places>,
    /// What is not handed over yet, of each lane.
    pending: Vec<Batch>,
    pending_bytes: usize,
    is_whole: bool,
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.order.stop();
        }
        self.feed.close();
    }
}

/// The places of a lane's connections.
#[derive(Default)]
struct Places {
    of: HashMap<u32, u32>,
    free: Vec<u32>,
    count: u32,
}

impl Places {
    fn of(&mut self, connection: u32, is_closed: bool) -> u32 {
        let place = *self.of.entry(connection).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.count += 1;
                self.count - 1
            })
        });
        if is_closed {
            self.of.remove(&connection);
            self.free.push(place);
        }
        place
    }
}

impl Fill<'_> {
    /// Reads as much as may be read ahead; gives itself back where that is not all.
    ///
    /// # Errors
    /// A file that can no longer be read as it was.
    pub fn ahead(mut self) -> Result<Option<Self>, TraceError> {
        while !self.is_whole && !self.feed.is_full() {
            self.batch()?;
        }
        Ok(if self.is_whole { None } else { Some(self) })
    }

    /// Reads the rest, as there is room for it, or until something has failed.
    ///
    /// # Errors
    /// As [`Fill::ahead`].
    pub fn rest(mut self) -> Result<(), TraceError> {
        while !self.is_whole && self.feed.wait_for_room() && !self.order.is_stopped() {
            self.batch()?;
        }
        Ok(())
    }

    /// Reads what is handed over together, and hands it over.
    fn batch(&mut self) -> Result<(), TraceError> {
        while self.pending_bytes < BATCH_BYTES && !self.is_whole {
            match self.reader.as_mut().and_then(Iterator::next).transpose()? {
                Some(Record::Database(database)) => self.translator.database(&database),
                Some(Record::Statement(statement)) => self.translator.statement(statement),
                Some(Record::Thread(thread)) => self.translator.thread(&thread),
                Some(Record::Process(process)) => self.translator.process(&process),
                Some(Record::Lock(lock)) if self.orders => {
                    if let Some(made) = self.translator.lock(lock) {
                        self.add(made);
                    }
                }
                Some(Record::Exit(exit)) => self.translator.exit(&exit),
                Some(Record::Event(event)) => {
                    if let Some(made) = self.translator.event(event) {
                        self.add(made);
                    }
                }
                Some(_) => {}
                None => self.is_whole = true,
            }
            while let Some(made) = self.translator.more() {
                self.add(made);
            }
        }
        self.hand_over();
        Ok(())
    }

    fn add(&mut self, mut made: PlacedCall) {
        // The first reading has met every connection and thread.
        let (lane, place) = match self.homes.get(&made.connection) {
            Some(&Home::Lane(lane)) => {
                let is_closed = matches!(made.kind, CallKind::Close);
                (lane, self.places[lane as usize].of(made.connection, is_closed))
            }
            Some(&Home::Shared(number)) => {
                let Some(&lane) = self.lane_of_thread.get(&made.thread) else { return };
                // One call after the other, as in SQLite itself.
                let (calls, last) = self.shared.entry(number).or_insert((0, lane));
                let counter = self.counters + number;
                if *last != lane {
                    made.ties.needs.push(Tie { counter, at_least: *calls });
                }
                made.ties.gives.push(counter);
                (*calls, *last) = (*calls + 1, lane);
                (lane, number | SHARED)
            }
            None => return,
        };
        let (made, lane) = (&made, lane as usize);
        let batch = &mut self.pending[lane];
        let before = batch.weight();
        batch.add(made, place);
        if let Some(changes) = &mut self.changes {
            batch.changed_bytes += changes.of(made);
        }
        self.pending_bytes += batch.weight() - before;
    }

    fn hand_over(&mut self) {
        let mut store = lock(&self.feed.store);
        store.ahead += self.pending_bytes;
        store.most_ahead = store.most_ahead.max(store.ahead);
        let mut fresh: Vec<Batch> = Vec::new();
        for _ in self.pending.iter().filter(|batch| !batch.calls.is_empty()) {
            let batch = store.spare.pop().unwrap_or_default();
            store.spare_bytes -= batch.capacity();
            fresh.push(batch);
        }
        drop(store);
        self.pending_bytes = 0;
        for (lane, pending) in self.pending.iter_mut().enumerate() {
            let Some(last) = pending.places.last() else { continue };
            self.order.hand(lane, last.number + 1);
            let batch = std::mem::replace(pending, fresh.pop().unwrap_or_default());
            let queue = &self.feed.queues[lane];
            lock(&queue.ready).batches.push_back(batch);
            queue.arrived.notify_one();
        }
        self.order.handed_all_below(self.translator.calls());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: parameters beyond number 65,535 were all bound to that one, so that of a
    /// large INSERT, which the library of Debian takes, the rows were as many, and NULL.
    #[test]
    fn a_parameter_keeps_its_number() {
        for number in [1, 255, 256, 32_766, 65_536, 70_000, 250_000, 0xff_ffff] {
            assert_eq!(Index::new(number).get(), number);
        }
        assert_eq!(Index::new(u32::MAX).get(), 0xff_ffff);
    }
}
