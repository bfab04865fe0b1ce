//! mmdb in the process: native calls, no SQL.
//!
//! Every table is `Locking::None`; the isolation that the centre asks for is the lock of a station,
//! and that is the record lock of a key in the table `station_lock`, which never has a row (mmdb
//! locks a key whether it exists or not). So a transaction takes one or two locks, whatever it
//! touches, and ordered reads lock nothing. The other granularities lock every row besides, for
//! measuring what that costs.

use super::engine::{Engine, EngineSession};
use super::{
    Acknowledge, Durability, EachOf, EachRow, Opening, Rebuild, Row, RowWriter, Session, Store, StoreError,
    scan_all,
};
use crate::centre::{Operation, Outcome, Rules};
use crate::model::{
    Columns, FIRST_TABLES, IdBlock, Index, Kind, Message, Record, RetryTimer, Station, StationKey, TABLES,
    Table, UnloggedTables, Value,
};
use crate::transaction::Transaction;
use mmdb::{ColumnType, Database, Error, Locking, LogKind, Logging, Schema, Ticket};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

/// Numbers reserved at a time; a restart skips what is left of them.
const ID_BLOCK: i64 = 1 << 20;
/// Reserve again when so few are left: more than transactions can be under way.
const ID_RESERVE: i64 = 1 << 16;
/// Columns of the widest table.
const COLUMNS_MAX: usize = 32;

/// How the store is opened: the axes of the paper's comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmdbOptions {
    /// Log streams.
    pub streams: usize,
    /// Directory of each stream, where it is not the database's.
    pub stream_dirs: Vec<PathBuf>,
    /// Size of a log segment, MiB. Each is filled with zeros before it is used for the first time,
    /// which a slow disk takes seconds for.
    pub segment_mib: u64,
    /// Differences, or whole after-images.
    pub log_kind: LogKind,
    /// Whether one flush serves all commits that wait.
    pub group_commit: bool,
    /// Tables that are left out of the log and made again at the start (selective logging). Decided
    /// when the store is made: one that is there opens with its own choice and with
    /// [`UnloggedTables::NONE`], and with no other.
    pub unlogged: UnloggedTables,
    /// Lock granularity of the tables besides the locks of stations.
    pub locking: Locking,
    /// Log size at which a checkpoint starts by itself, bytes; 0 for never.
    pub checkpoint_log_bytes: u64,
}

impl Default for MmdbOptions {
    fn default() -> Self {
        MmdbOptions {
            streams: 1,
            stream_dirs: Vec::new(),
            segment_mib: 64,
            log_kind: LogKind::Differential,
            group_commit: true,
            unlogged: UnloggedTables::NONE,
            locking: Locking::None,
            checkpoint_log_bytes: 1 << 30,
        }
    }
}

/// The store.
pub struct MmdbStore {
    rules: Rules,
    unlogged: UnloggedTables,
    abandoned: AtomicBool,
    engine: MmdbEngine,
    /// What tells it from other stores.
    identity: i64,
}

struct MmdbEngine {
    db: Database,
    tables: Vec<mmdb::Table>,
    station_lock: mmdb::Table,
    /// The next number, and the first that is not reserved.
    next_id: AtomicI64,
    reserved: AtomicI64,
    reserving: Mutex<()>,
}

impl MmdbStore {
    /// Opens or creates the database in `dir`. What a table logs and locks is decided when it is
    /// created.
    ///
    /// # Errors
    /// The directory cannot be used, or the log is damaged; [`StoreError::Logs`].
    pub fn open(dir: &Path, options: &MmdbOptions, rules: Rules) -> Result<MmdbStore, StoreError> {
        MmdbStore::open_as(dir, options, rules, Opening::OrCreate)
    }

    /// As [`MmdbStore::open`]; makes tables only if asked to.
    pub(super) fn open_as(
        dir: &Path,
        options: &MmdbOptions,
        rules: Rules,
        opening: Opening,
    ) -> Result<MmdbStore, StoreError> {
        let settings = mmdb::Options {
            streams: options.streams,
            stream_dirs: options.stream_dirs.clone(),
            segment_bytes: options.segment_mib << 20,
            log_kind: options.log_kind,
            group_commit: options.group_commit,
            checkpoint_log_bytes: options.checkpoint_log_bytes,
            ..mmdb::Options::default()
        };
        let db = Database::open(dir, settings).map_err(|error| match error {
            Error::Io { op: "lock", ref source, .. } if source.kind() == ErrorKind::WouldBlock => {
                StoreError::Busy { path: dir.display().to_string() }
            }
            error => error.into(),
        })?;
        if opening == Opening::Existing
            && TABLES[..FIRST_TABLES].iter().any(|table| db.table(table.name).is_err())
        {
            return Err(StoreError::foreign(dir));
        }
        // Before anything is made, which would be made as was asked.
        check_unlogged(dir, &db, options.unlogged)?;
        let tables = TABLES.iter().map(|table| open_table(&db, schema(table, options)));
        let tables: Vec<mmdb::Table> = tables.collect::<Result<_, _>>()?;
        let locks =
            Schema::new("station_lock").column("dst_key", ColumnType::Int64).primary_key(&["dst_key"]);
        let station_lock = open_table(&db, locks.logging(Logging::Volatile))?;
        let unlogged =
            UnloggedTables::of(TABLES.into_iter().filter(|table| is_volatile(&tables[table.number])));
        let (next_id, reserved) = (AtomicI64::new(0), AtomicI64::new(0));
        let engine = MmdbEngine { db, tables, station_lock, next_id, reserved, reserving: Mutex::new(()) };
        engine.reserve(true)?;
        let identity = engine.identity()?;
        Ok(MmdbStore { identity, rules, unlogged, abandoned: AtomicBool::new(false), engine })
    }

    /// Runs an operation. Its ticket tells when it is durable.
    pub(super) fn start(
        &self,
        operation: &mut Operation,
        acknowledge: Acknowledge,
    ) -> Result<(Outcome, Ticket), StoreError> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(StoreError::Abandoned);
        }
        self.engine.run(operation, &self.rules, acknowledge)
    }

    /// What opening the database found and how long it took.
    #[must_use]
    pub fn recovery(&self) -> mmdb::RecoveryReport {
        self.engine.db.recovery()
    }

    /// Counters of the database.
    #[must_use]
    pub fn stats(&self) -> mmdb::Stats {
        self.engine.db.stats()
    }

    fn scan_table<R: Record>(&self, wrap: fn(R) -> Row, each: EachRow<'_>) -> Result<(), StoreError> {
        let mut tx = self.engine.db.begin()?;
        let mut rows = tx.scan(&self.engine.tables[R::TABLE.number])?;
        while let Some(row) = rows.next_with(|row| R::read(&NativeRow(row)))? {
            each(wrap(row?))?;
        }
        Ok(())
    }
}

fn is_volatile(table: &mmdb::Table) -> bool {
    table.schema().logging == Logging::Volatile
}

/// Refuses another choice of tables than that of the tables that are there. No choice is no other.
fn check_unlogged(dir: &Path, db: &Database, asked: UnloggedTables) -> Result<(), StoreError> {
    let with_table = |table: &'static Table| Some((table, db.table(table.name).ok()?));
    let there: Vec<_> = TABLES.into_iter().filter_map(with_table).collect();
    if asked.is_empty() || there.iter().all(|(model, table)| asked.contains(model) == is_volatile(table)) {
        return Ok(());
    }
    let found = UnloggedTables::of(there.iter().filter(|table| is_volatile(&table.1)).map(|table| table.0));
    let found = if found.is_empty() { "nothing".into() } else { found.to_string() };
    Err(StoreError::Logs { path: dir.display().to_string(), found, asked: asked.to_string() })
}

fn open_table(db: &Database, schema: Schema) -> Result<mmdb::Table, StoreError> {
    match db.table(&schema.name) {
        Ok(table) => Ok(table),
        Err(Error::NoSuchTable { .. }) => Ok(db.create_table(schema)?),
        Err(error) => Err(error.into()),
    }
}

/// mmdb's schema of a table of the model.
fn schema(table: &'static Table, options: &MmdbOptions) -> Schema {
    let mut schema = table.columns.iter().fold(Schema::new(table.name), |schema, column| {
        let kind = match column.kind {
            Kind::Int16 => ColumnType::Int16,
            Kind::Int32 => ColumnType::Int32,
            Kind::Int64 => ColumnType::Int64,
            Kind::Time => ColumnType::Time,
            Kind::Text(max) => ColumnType::VarText(max),
            Kind::Bytes(max) => ColumnType::VarBytes(max),
        };
        schema.column(column.name, kind)
    });
    for (number, index) in table.indexes.iter().enumerate() {
        let columns: Vec<&str> = index.columns.iter().map(|&at| table.columns[at].name).collect();
        schema = match (number, index.ordered) {
            (0, false) => schema.primary_key(&columns),
            (0, true) => schema.ordered_primary_key(&columns),
            (_, false) => schema.hash_index(index.name, &columns),
            (_, true) => schema.ordered_index(index.name, &columns),
        };
    }
    let volatile = options.unlogged.contains(table);
    schema.locking(options.locking).logging(if volatile { Logging::Volatile } else { Logging::Logged })
}

impl MmdbEngine {
    /// Makes sure that numbers are reserved, durably, before any is given. `fresh` begins a new
    /// block in any case.
    fn reserve(&self, fresh: bool) -> Result<(), StoreError> {
        let enough = || {
            let left = self.reserved.load(Ordering::Acquire) - self.next_id.load(Ordering::Relaxed);
            !fresh && left > ID_RESERVE
        };
        if enough() {
            return Ok(());
        }
        let _one = self.reserving.lock().unwrap_or_else(PoisonError::into_inner);
        if enough() {
            return Ok(());
        }
        let table = &self.tables[IdBlock::TABLE.number];
        let next = self.db.run(|tx| {
            let next = tx.get(table, &[0.into()])?.and_then(|row| row.at(1).as_int()).unwrap_or(1);
            tx.upsert(table, &[0.into(), (next + ID_BLOCK).into()])?;
            Ok::<_, StoreError>(next)
        })?;
        if fresh {
            self.next_id.store(next, Ordering::Relaxed);
        }
        self.reserved.store(next + ID_BLOCK, Ordering::Release);
        Ok(())
    }
}

/// The row of `id_block` that has the store's identity: no node has this number.
const IDENTITY_NODE: i32 = 1;

impl MmdbEngine {
    /// A number that tells the store from others, made with it, and kept as a row, so that a copy
    /// or a backup that is restored is the same store.
    fn identity(&self) -> Result<i64, StoreError> {
        let table = &self.tables[IdBlock::TABLE.number];
        self.db.run(|tx| {
            if let Some(found) = tx.get(table, &[IDENTITY_NODE.into()])?.and_then(|row| row.at(1).as_int()) {
                return Ok(found);
            }
            let mut octets = [0; 8];
            getrandom::fill(&mut octets).map_err(|error| StoreError::protocol(error.to_string()))?;
            let made = i64::from_le_bytes(octets) & i64::MAX;
            tx.upsert(table, &[IDENTITY_NODE.into(), made.into()])?;
            Ok::<_, StoreError>(made)
        })
    }
}

impl Engine for MmdbEngine {
    type Ticket = Ticket;

    fn run(
        &self,
        operation: &mut Operation,
        rules: &Rules,
        acknowledge: Acknowledge,
    ) -> Result<(Outcome, Ticket), StoreError> {
        let durability = match acknowledge {
            Acknowledge::Durable => mmdb::Durability::Durable,
            // Starts no flush of its own, for which the completion that follows would have to wait.
            Acknowledge::Early => mmdb::Durability::Lazy,
        };
        self.reserve(false)?;
        // A failure of the operation aborts the transaction and comes back as it is.
        self.db.run_with(durability, |tx| operation.apply(&mut MmdbTransaction { engine: self, tx }, rules))
    }

    fn wait(&self, tickets: &VecDeque<Ticket>) -> Result<usize, StoreError> {
        if let Some(oldest) = tickets.front() {
            oldest.wait()?;
        }
        Ok(self.durable(tickets))
    }

    fn wait_until(&self, tickets: &mut VecDeque<Ticket>, deadline: Instant) -> Result<usize, StoreError> {
        if let Some(oldest) = tickets.front_mut()
            && !durable_by(oldest, deadline)?
        {
            return Ok(0);
        }
        Ok(self.durable(tickets))
    }
}

impl MmdbEngine {
    /// How many of the first are durable.
    fn durable(&self, tickets: &VecDeque<Ticket>) -> usize {
        let horizon = self.db.horizon();
        tickets.iter().take_while(|ticket| ticket.gsn() <= horizon).count()
    }
}

/// Wakes a thread that waits for a ticket.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a ticket until `deadline`; whether it is durable. The database's own thread flushes:
/// one who has something else to do soon must not be in the middle of a sync then.
fn durable_by(ticket: &mut Ticket, deadline: Instant) -> Result<bool, StoreError> {
    // One for each thread: who waits in vain leaves it behind, and is not noted twice.
    thread_local!(static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current()))));
    WAKER.with(|waker| {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(ticket.poll()?);
            }
            if let Poll::Ready(done) = Future::poll(Pin::new(&mut *ticket), &mut Context::from_waker(waker)) {
                return Ok(done.map(|_| true)?);
            }
            std::thread::park_timeout(left);
        }
    })
}

struct MmdbTransaction<'e, 'db> {
    engine: &'e MmdbEngine,
    tx: &'e mut mmdb::Transaction<'db>,
}

/// mmdb's values of a row (`columns` empty) or of a key, without an allocation.
fn with_native<T>(
    table: &'static Table,
    columns: &[usize],
    values: &[Value<'_>],
    to: impl FnOnce(&[mmdb::Value<'_>]) -> T,
) -> T {
    let mut native = [mmdb::Value::Null; COLUMNS_MAX];
    for (at, value) in values.iter().enumerate() {
        let column = columns.get(at).copied().unwrap_or(at);
        native[at] = native_value(table, column, *value);
    }
    to(&native[..values.len()])
}

fn native_value<'v>(table: &'static Table, column: usize, value: Value<'v>) -> mmdb::Value<'v> {
    match (value, table.columns[column].kind) {
        (Value::Int(number), Kind::Time) => mmdb::Value::Time(number),
        (Value::Int(number), _) => mmdb::Value::Int(number),
        (Value::Text(text), _) => mmdb::Value::Text(text),
        (Value::Bytes(bytes), _) => mmdb::Value::Bytes(bytes),
    }
}

struct NativeRow<'a>(mmdb::RowView<'a>);

impl Columns for NativeRow<'_> {
    fn int(&self, at: usize) -> Result<i64, StoreError> {
        self.0.at(at).as_int().ok_or_else(|| StoreError::row(at, "number"))
    }

    fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        self.0.at(at).as_bytes().ok_or_else(|| StoreError::row(at, "octets"))
    }
}

impl Transaction for MmdbTransaction<'_, '_> {
    fn lock(&mut self, station: StationKey) -> Result<(), StoreError> {
        self.tx.lock_key(&self.engine.station_lock, &[station.0.into()])?;
        Ok(())
    }

    fn try_lock(&mut self, station: StationKey) -> Result<bool, StoreError> {
        Ok(self.tx.try_lock_key(&self.engine.station_lock, &[station.0.into()])?)
    }

    fn next_id(&mut self) -> Result<i64, StoreError> {
        Ok(self.engine.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn get<R: Record>(&mut self, key: &[Value<'_>]) -> Result<Option<R>, StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        let row = with_native(R::TABLE, R::TABLE.indexes[0].columns, key, |key| {
            self.tx.get_with(table, key, |row| R::read(&NativeRow(row)))
        });
        row?.transpose()
    }

    fn range<R: Record>(
        &mut self,
        index: &'static Index,
        from: &[Value<'_>],
        to: &[Value<'_>],
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        if !index.ordered {
            // A hash index finds whole keys only; nothing asks it for more.
            let rows =
                with_native(R::TABLE, index.columns, from, |key| self.tx.get_by(table, index.name, key))?;
            return rows.iter().take(limit).map(|row| R::read(&NativeRow(row.view()))).collect();
        }
        with_native(R::TABLE, index.columns, from, |from| {
            with_native(R::TABLE, index.columns, to, |to| {
                let mut rows = self.tx.range(table, index.name, from..=to)?.prefetch(limit);
                let mut found = Vec::new();
                while found.len() < limit
                    && let Some(row) = rows.next_with(|row| R::read(&NativeRow(row)))?
                {
                    found.push(row?);
                }
                Ok(found)
            })
        })
    }

    fn insert<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        row.with_values(|values| with_native(R::TABLE, &[], values, |values| self.tx.insert(table, values)))?;
        Ok(())
    }

    fn put<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        row.with_values(|values| with_native(R::TABLE, &[], values, |values| self.tx.upsert(table, values)))?;
        Ok(())
    }

    fn update<R: Record>(
        &mut self,
        key: &[Value<'_>],
        set: &[(usize, Value<'_>)],
    ) -> Result<bool, StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        let mut native = [(0, mmdb::Value::Null); COLUMNS_MAX];
        for (native, (column, value)) in native.iter_mut().zip(set) {
            *native = (*column, native_value(R::TABLE, *column, *value));
        }
        Ok(with_native(R::TABLE, R::TABLE.indexes[0].columns, key, |key| {
            self.tx.update_at(table, key, &native[..set.len()])
        })?)
    }

    fn delete<R: Record>(&mut self, key: &[Value<'_>]) -> Result<bool, StoreError> {
        let table = &self.engine.tables[R::TABLE.number];
        Ok(with_native(R::TABLE, R::TABLE.indexes[0].columns, key, |key| self.tx.delete(table, key))?)
    }
}

/// The tables that are not logged, by number, while they are filled.
struct MmdbRebuild<'a> {
    store: &'a MmdbStore,
    fills: Vec<Option<mmdb::Fill>>,
}

fn put_native<R: Record>(writers: &mut [Option<mmdb::FillWriter<'_>>], row: &R) -> Result<(), StoreError> {
    let Some(writer) = &mut writers[R::TABLE.number] else {
        return Err(StoreError::protocol(format!("rows of {} are not made again", R::TABLE.name)));
    };
    row.with_values(|values| with_native(R::TABLE, &[], values, |values| writer.put(values)))?;
    Ok(())
}

impl MmdbRebuild<'_> {
    fn rows<R: Record>(&self, (part, parts): (usize, usize), each: EachOf<'_, R>) -> Result<(), StoreError> {
        let mut tx = self.store.engine.db.begin()?;
        let mut rows = tx.scan_part(&self.store.engine.tables[R::TABLE.number], part, parts)?;
        while let Some(row) = rows.next_with(|row| R::read(&NativeRow(row)))? {
            each(row?)?;
        }
        Ok(())
    }
}

impl Rebuild for MmdbRebuild<'_> {
    fn lost(&self) -> UnloggedTables {
        self.store.unlogged
    }

    fn messages(&self, part: (usize, usize), each: EachOf<'_, Message>) -> Result<(), StoreError> {
        self.rows(part, each)
    }

    fn stations(&self, part: (usize, usize), each: EachOf<'_, Station>) -> Result<(), StoreError> {
        self.rows(part, each)
    }

    fn timers(&self, part: (usize, usize), each: EachOf<'_, RetryTimer>) -> Result<(), StoreError> {
        self.rows(part, each)
    }

    fn writer(&self) -> RowWriter<'_> {
        let mut writers: Vec<_> =
            self.fills.iter().map(|fill| fill.as_ref().map(mmdb::Fill::writer)).collect();
        Box::new(move |row| match &row {
            Row::Message(row) => put_native(&mut writers, row),
            Row::EncodedPart(row) => put_native(&mut writers, row),
            Row::Queued(row) => put_native(&mut writers, row),
            Row::Scheduled(row) => put_native(&mut writers, row),
            Row::Station(row) => put_native(&mut writers, row),
            Row::RetryTimer(row) => put_native(&mut writers, row),
            Row::Sent(row) => put_native(&mut writers, row),
            Row::IdBlock(row) => put_native(&mut writers, row),
            Row::Account(row) => put_native(&mut writers, row),
            Row::Forwarded(row) => put_native(&mut writers, row),
        })
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        // Sorting the entries of an ordered index keeps one processor busy, so tables are finished
        // side by side.
        std::thread::scope(|scope| {
            let finish = |fill: mmdb::Fill| scope.spawn(move || fill.finish());
            let finishing: Vec<_> = self.fills.into_iter().flatten().map(finish).collect();
            finishing.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| StoreError::protocol("a thread of recovery panicked"))??;
                Ok(())
            })
        })
    }
}

impl Store for MmdbStore {
    fn name(&self) -> &str {
        "mmdb"
    }

    fn durability(&self) -> Durability {
        Durability::PowerCut
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{:016x}", self.identity))
    }

    fn has_flusher(&self) -> bool {
        true
    }

    fn rebuild(&self) -> Result<Option<Box<dyn Rebuild + '_>>, StoreError> {
        if self.unlogged.is_empty() {
            return Ok(None);
        }
        let fill = |table: &&'static Table| -> Result<_, StoreError> {
            let lost = self.unlogged.contains(table);
            Ok(lost.then(|| self.engine.db.fill(&self.engine.tables[table.number])).transpose()?)
        };
        let fills = TABLES.iter().map(fill).collect::<Result<_, StoreError>>()?;
        Ok(Some(Box::new(MmdbRebuild { store: self, fills })))
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(Box::new(EngineSession::new(&self.engine, &self.rules, &self.abandoned, acknowledge)?))
    }

    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        scan_all!(self.scan_table, each)
    }

    fn log_bytes(&self) -> Option<u64> {
        Some(self.engine.db.stats().flushed_bytes)
    }

    fn flushes(&self) -> Option<(u64, u64)> {
        let stats = self.engine.db.stats();
        Some((stats.flushes, stats.flush_ns))
    }

    fn ran_again(&self) -> Option<u64> {
        Some(self.engine.db.stats().lock_deaths)
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.engine.db.stats().tables.iter().map(|table| table.bytes).sum())
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        self.engine.db.checkpoint()?;
        Ok(())
    }
}
