//! SQLite, bundled and linked in: `journal_mode = WAL`, `synchronous = FULL`; `NORMAL` for a commit
//! of nothing but operations that are acknowledged early, which the next `FULL` one syncs with its
//! own.
//!
//! Two forms. *Naive*: every operation is a transaction and a commit of its own, behind a lock, as
//! a program without further thought would do it. *Grouped*: one writer thread takes whatever
//! operations are waiting as one SQLite transaction, each inside a savepoint, so that one that
//! fails takes nothing along; all are acknowledged by the one commit.
//!
//! There is one writer, so a station needs no lock.

use super::engine::{Engine, EngineSession};
use super::sql::{names, range_sql, update_sql, upsert};
use super::{Acknowledge, Durability, EachRow, Opening, Row, Session, Store, StoreError, scan_all};
use crate::centre::{Operation, Outcome, Rules};
use crate::file_identity::FileIdentity;
use crate::model::{Columns, FIRST_TABLES, IdBlock, Index, Kind, Record, StationKey, TABLES, Table, Value};
use crate::transaction::Transaction;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Numbers reserved at a time.
const ID_BLOCK: i64 = 1 << 16;
/// Statements that stay prepared: all of them.
const STATEMENTS: usize = 128;
/// Operations in one transaction of the grouped form at most.
const GROUP_MAX: usize = 4096;

/// The store.
pub struct SqliteStore {
    rules: Rules,
    database: Arc<Database>,
    writer: Option<Writer>,
    abandoned: AtomicBool,
}

impl SqliteStore {
    /// Opens or creates the database in `dir`. `grouped`: one commit for all operations that wait.
    ///
    /// # Errors
    /// The file cannot be used or is no database.
    pub fn open(dir: &Path, grouped: bool, rules: Rules) -> Result<SqliteStore, StoreError> {
        std::fs::create_dir_all(dir).map_err(StoreError::io(dir))?;
        SqliteStore::open_as(dir, grouped, rules, Opening::OrCreate)
    }

    /// As [`SqliteStore::open`]; makes file and tables only if asked to.
    pub(super) fn open_as(
        dir: &Path,
        grouped: bool,
        rules: Rules,
        opening: Opening,
    ) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_file(dir, grouped, rules, opening, None).map_err(|error| match error {
            StoreError::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                StoreError::Busy { path: dir.display().to_string() }
            }
            error => error,
        })
    }

    /// Opens a store that is there through another VFS of SQLite's: one that is on a file system
    /// which SQLite's own does not reach.
    ///
    /// # Errors
    /// As [`SqliteStore::open`]; [`StoreError::NoStore`].
    pub fn open_by(dir: &Path, grouped: bool, rules: Rules, vfs: &CStr) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_file(dir, grouped, rules, Opening::Existing, Some(vfs))
    }

    fn open_file(
        dir: &Path,
        grouped: bool,
        rules: Rules,
        opening: Opening,
        vfs: Option<&CStr>,
    ) -> Result<SqliteStore, StoreError> {
        let path = dir.join("smsc.db");
        let connection = match opening {
            Opening::OrCreate => Connection::open(&path)?,
            Opening::Existing => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = match vfs {
                    Some(vfs) => Connection::open_with_flags_and_vfs(&path, flags, vfs)?,
                    None => Connection::open_with_flags(&path, flags)?,
                };
                for table in &TABLES[..FIRST_TABLES] {
                    if !connection.table_exists(None, table.name)? {
                        return Err(StoreError::foreign(dir));
                    }
                }
                connection
            }
        };
        // Nobody else uses the file, so the index of the log stays in the heap.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(StoreError::protocol(format!("SQLite's journal mode is {mode}, not wal")));
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Everything stays cached (1 GiB), and the log is written back at 16 MiB instead of 4.
        // Never (1 GiB) was not faster: a log that grows costs more than one that is written over.
        connection.pragma_update(None, "cache_size", -(1 << 20))?;
        connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        for table in TABLES {
            connection.execute_batch(&schema(table))?;
        }
        let mut engine = SqliteEngine {
            connection,
            statements: statements(),
            next_id: 0,
            reserved: 0,
            synchronous: Acknowledge::Durable,
            files: Vec::new(),
        };
        engine.begin_ids()?;
        if vfs.is_none() {
            let files = [path, dir.join("smsc.db-wal")];
            let files = files.iter().filter(|path| path.exists());
            engine.files = files.map(|path| FileIdentity::of(path)).collect::<Result<_, _>>()?;
        }
        let database = Arc::new(Database::of(engine));
        let writer = grouped.then(|| Writer::start(&database, rules)).transpose()?;
        Ok(SqliteStore { rules, database, writer, abandoned: AtomicBool::new(false) })
    }

    fn scan_table<R: Record>(&self, wrap: fn(R) -> Row, each: EachRow<'_>) -> Result<(), StoreError> {
        let engine = lock(&self.database.engine);
        let sql = format!("SELECT {} FROM {}", names(R::TABLE, 0..R::TABLE.columns.len()), R::TABLE.name);
        let mut statement = engine.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(wrap(R::read(&SqlRow(row))?))?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn schema(table: &Table) -> String {
    let kind = |kind| match kind {
        Kind::Int16 | Kind::Int32 | Kind::Int64 | Kind::Time => "INTEGER",
        Kind::Text(_) => "TEXT",
        Kind::Bytes(_) => "BLOB",
    };
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {} NOT NULL", column.name, kind(column.kind)))
        .collect();
    let key = names(table, table.indexes[0].columns.iter().copied());
    // A single integer as key is the row's own number; small rows with longer keys live in the
    // key's tree.
    let rowid = if table.indexes[0].columns.len() > 1 { " WITHOUT ROWID" } else { "" };
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}({}, PRIMARY KEY({key})) STRICT{}{rowid};",
        table.name,
        columns.join(", "),
        if rowid.is_empty() { "" } else { "," },
    );
    for index in &table.indexes[1..] {
        let columns = names(table, index.columns.iter().copied());
        sql.push_str(&format!("CREATE INDEX IF NOT EXISTS {} ON {}({columns});", index.name, table.name));
    }
    sql
}

/// The statements of a table.
struct Statements {
    get: String,
    insert: String,
    put: String,
    delete: String,
}

fn statements() -> Vec<Statements> {
    let of = |table: &&'static Table| {
        let all = names(table, 0..table.columns.len());
        let places = vec!["?"; table.columns.len()].join(", ");
        let keys: Vec<String> =
            table.indexes[0].columns.iter().map(|&at| format!("{} = ?", table.columns[at].name)).collect();
        let (name, key) = (table.name, keys.join(" AND "));
        Statements {
            get: format!("SELECT {all} FROM {name} WHERE {key}"),
            insert: format!("INSERT INTO {name} VALUES ({places})"),
            put: upsert(table, &places),
            delete: format!("DELETE FROM {name} WHERE {key}"),
        }
    };
    TABLES.iter().map(of).collect()
}

struct SqlRow<'a>(&'a rusqlite::Row<'a>);

impl Columns for SqlRow<'_> {
    fn int(&self, at: usize) -> Result<i64, StoreError> {
        self.0.get_ref(at)?.as_i64().map_err(|_| StoreError::row(at, "number"))
    }

    fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        match self.0.get_ref(at)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
            _ => Err(StoreError::row(at, "octets")),
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

struct SqliteEngine {
    connection: Connection,
    statements: Vec<Statements>,
    /// The next number, and the first that is not reserved.
    next_id: i64,
    reserved: i64,
    /// What `synchronous` is set to.
    synchronous: Acknowledge,
    /// Its files; none of one that is not SQLite's own.
    files: Vec<FileIdentity>,
}

impl SqliteEngine {
    /// Goes on behind the numbers that an earlier run had reserved.
    fn begin_ids(&mut self) -> Result<(), StoreError> {
        let block = SqliteTransaction { engine: self }.get::<IdBlock>(&[Value::Int(0)])?;
        self.next_id = block.map_or(1, |block| block.next);
        self.reserved = self.next_id;
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Runs an operation inside the open transaction.
    fn apply(&mut self, operation: &mut Operation, rules: &Rules) -> Result<Outcome, StoreError> {
        operation.apply(&mut SqliteTransaction { engine: self }, rules)
    }

    /// Makes commits sync the log, or leave that to the next one that does.
    fn acknowledge(&mut self, acknowledge: Acknowledge) -> Result<(), StoreError> {
        if self.synchronous != acknowledge {
            let level = match acknowledge {
                Acknowledge::Durable => "FULL",
                Acknowledge::Early => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.synchronous = acknowledge;
        }
        Ok(())
    }

    /// Runs `work` as a transaction.
    fn transact<T>(
        &mut self,
        acknowledge: Acknowledge,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.acknowledge(acknowledge)?;
        self.execute("BEGIN IMMEDIATE")?;
        let ids = (self.next_id, self.reserved);
        let done = work(self).and_then(|value| self.execute("COMMIT").map(|()| value));
        if done.is_ok() && acknowledge == Acknowledge::Durable {
            // SQLite commits to a file that was deleted as to any other.
            self.files.iter().try_for_each(FileIdentity::require)?;
        }
        if done.is_err() {
            (self.next_id, self.reserved) = ids;
            // SQLite may have rolled back by itself (a full disk); then there is nothing to roll
            // back.
            let _ = self.execute("ROLLBACK");
        }
        done
    }
}

struct SqliteTransaction<'a> {
    engine: &'a mut SqliteEngine,
}

impl Transaction for SqliteTransaction<'_> {
    fn lock(&mut self, _: StationKey) -> Result<(), StoreError> {
        Ok(())
    }

    fn try_lock(&mut self, _: StationKey) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn next_id(&mut self) -> Result<i64, StoreError> {
        let id = self.engine.next_id;
        if id == self.engine.reserved {
            self.put(&IdBlock { node: 0, next: id + ID_BLOCK })?;
            self.engine.reserved = id + ID_BLOCK;
        }
        self.engine.next_id += 1;
        Ok(id)
    }

    fn get<R: Record>(&mut self, key: &[Value<'_>]) -> Result<Option<R>, StoreError> {
        let mut statement =
            self.engine.connection.prepare_cached(&self.engine.statements[R::TABLE.number].get)?;
        let mut rows = statement.query(params_from_iter(key))?;
        rows.next()?.map(|row| R::read(&SqlRow(row))).transpose()
    }

    fn range<R: Record>(
        &mut self,
        index: &'static Index,
        from: &[Value<'_>],
        to: &[Value<'_>],
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        let sql = range_sql(R::TABLE, index, (from.len(), to.len()), |_| "?".into());
        let mut statement = self.engine.connection.prepare_cached(&sql)?;
        // Limits fit 63 bits.
        let limit = [Value::Int(limit as i64)];
        let mut rows = statement.query(params_from_iter(from.iter().chain(to).chain(&limit)))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(R::read(&SqlRow(row))?);
        }
        Ok(found)
    }

    fn insert<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let sql = &self.engine.statements[R::TABLE.number].insert;
        let mut statement = self.engine.connection.prepare_cached(sql)?;
        row.with_values(|values| statement.execute(params_from_iter(values)))?;
        Ok(())
    }

    fn put<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let sql = &self.engine.statements[R::TABLE.number].put;
        let mut statement = self.engine.connection.prepare_cached(sql)?;
        row.with_values(|values| statement.execute(params_from_iter(values)))?;
        Ok(())
    }

    fn update<R: Record>(
        &mut self,
        key: &[Value<'_>],
        set: &[(usize, Value<'_>)],
    ) -> Result<bool, StoreError> {
        let sql = update_sql(R::TABLE, set.iter().map(|change| change.0), |_| "?".into());
        let values = set.iter().map(|change| &change.1).chain(key);
        Ok(self.engine.connection.prepare_cached(&sql)?.execute(params_from_iter(values))? > 0)
    }

    fn delete<R: Record>(&mut self, key: &[Value<'_>]) -> Result<bool, StoreError> {
        let sql = &self.engine.statements[R::TABLE.number].delete;
        Ok(self.engine.connection.prepare_cached(sql)?.execute(params_from_iter(key))? > 0)
    }
}

/// The engine, and whose turn it is to write in the naive form: who waits for its turn can be told
/// that none will come, which a mutex cannot.
struct Database {
    engine: Mutex<SqliteEngine>,
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    taken: bool,
    abandoned: bool,
}

/// A turn; it ends when this is dropped, by a panic, too.
struct MyTurn<'a>(&'a Database);

impl Drop for MyTurn<'_> {
    fn drop(&mut self) {
        lock(&self.0.turn).taken = false;
        self.0.changed.notify_one();
    }
}

impl Database {
    fn of(engine: SqliteEngine) -> Database {
        Database { engine: Mutex::new(engine), turn: Mutex::default(), changed: Condvar::new() }
    }

    fn turn(&self) -> Result<MyTurn<'_>, StoreError> {
        let mut turn = lock(&self.turn);
        while turn.taken && !turn.abandoned {
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        if turn.abandoned {
            return Err(StoreError::Abandoned);
        }
        turn.taken = true;
        Ok(MyTurn(self))
    }

    fn abandon(&self) {
        lock(&self.turn).abandoned = true;
        self.changed.notify_all();
    }
}

impl Engine for Database {
    /// Committed is durable, unless it was acknowledged early.
    type Ticket = ();

    fn run(
        &self,
        operation: &mut Operation,
        rules: &Rules,
        acknowledge: Acknowledge,
    ) -> Result<(Outcome, ()), StoreError> {
        let _turn = self.turn()?;
        let outcome = lock(&self.engine).transact(acknowledge, |engine| engine.apply(operation, rules))?;
        Ok((outcome, ()))
    }

    fn wait(&self, tickets: &VecDeque<()>) -> Result<usize, StoreError> {
        Ok(tickets.len())
    }

    fn wait_until(&self, tickets: &mut VecDeque<()>, _: Instant) -> Result<usize, StoreError> {
        Ok(tickets.len())
    }
}

/// Where a client of the grouped form finds its outcomes.
#[derive(Default)]
struct Inbox {
    outcomes: Mutex<Outcomes>,
    arrived: Condvar,
}

/// An operation that waits for the writer.
struct Submitted {
    operation: Operation,
    acknowledge: Acknowledge,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Outcomes {
    here: VecDeque<Result<Outcome, StoreError>>,
    /// Nothing will come any more.
    end: Option<End>,
}

/// Why nobody writes any more.
#[derive(Clone, Copy)]
enum End {
    Abandoned,
    /// A panic of the writer: it leaves its loop only when the store is dropped, and then has no
    /// clients.
    Writer,
}

impl End {
    fn error(self) -> StoreError {
        match self {
            End::Abandoned => StoreError::Abandoned,
            End::Writer => StoreError::WriterEnded,
        }
    }
}

#[derive(Default)]
struct Waiting {
    operations: Vec<Submitted>,
    closing: bool,
    /// Of all clients, so that all can be told the end.
    inboxes: Vec<Weak<Inbox>>,
    end: Option<End>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Queue {
    /// A new client's inbox.
    fn inbox(&self) -> Result<Arc<Inbox>, StoreError> {
        let mut waiting = lock(&self.waiting);
        if let Some(end) = waiting.end {
            return Err(end.error());
        }
        let inbox = Arc::<Inbox>::default();
        waiting.inboxes.retain(|inbox| inbox.strong_count() > 0);
        waiting.inboxes.push(Arc::downgrade(&inbox));
        Ok(inbox)
    }

    /// Fails what waits, of all clients, and all that comes later. The first reason stays.
    fn end(&self, why: End) {
        let inboxes = {
            let mut waiting = lock(&self.waiting);
            waiting.end.get_or_insert(why);
            waiting.operations.clear();
            waiting.closing = true;
            std::mem::take(&mut waiting.inboxes)
        };
        self.arrived.notify_one();
        for inbox in inboxes.iter().filter_map(Weak::upgrade) {
            lock(&inbox.outcomes).end.get_or_insert(why);
            inbox.arrived.notify_one();
        }
    }
}

/// How long the drop of a store that was given up waits for its writer, which may be inside a sync
/// that never ends.
const ABANDONED_WAIT: Duration = Duration::from_millis(200);

/// The thread of the grouped form.
struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(database: &Arc<Database>, rules: Rules) -> Result<Writer, StoreError> {
        let queue = Arc::new(Queue::default());
        let (of_thread, database) = (Arc::clone(&queue), Arc::clone(database));
        let builder = std::thread::Builder::new().name("smsc-sqlite".into());
        let thread = builder.spawn(move || {
            // However the thread ends, nobody waits for it any more.
            let _end = EndOfWriter(&of_thread);
            write(&of_thread, &database, &rules);
        });
        let thread = thread.map_err(StoreError::io(Path::new("a thread")))?;
        Ok(Writer { queue, thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let abandoned = {
            let mut waiting = lock(&self.queue.waiting);
            waiting.closing = true;
            waiting.end.is_some()
        };
        self.queue.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            let begin = Instant::now();
            while abandoned && !thread.is_finished() {
                if begin.elapsed() > ABANDONED_WAIT {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // A writer that panicked has nobody to tell here; its clients have got errors.
            let _ = thread.join();
        }
    }
}

struct EndOfWriter<'a>(&'a Queue);

impl Drop for EndOfWriter<'_> {
    fn drop(&mut self) {
        self.0.end(End::Writer);
    }
}

fn write(queue: &Queue, database: &Database, rules: &Rules) {
    let mut operations = Vec::new();
    loop {
        let mut waiting = lock(&queue.waiting);
        while waiting.operations.is_empty() {
            if waiting.closing {
                return;
            }
            waiting = queue.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let count = waiting.operations.len().min(GROUP_MAX);
        operations.extend(waiting.operations.drain(..count));
        drop(waiting);
        let mut engine = lock(&database.engine);
        let is_durable = operations.iter().any(|operation| operation.acknowledge == Acknowledge::Durable);
        let acknowledge = if is_durable { Acknowledge::Durable } else { Acknowledge::Early };
        let outcomes = engine.transact(acknowledge, |engine| group(engine, &mut operations, rules));
        drop(engine);
        match outcomes {
            Ok(outcomes) => hand_out(operations.drain(..).map(|operation| operation.inbox).zip(outcomes)),
            Err(error) => {
                let failed = |submitted: Submitted| (submitted.inbox, Err(error.of_group()));
                hand_out(operations.drain(..).map(failed));
            }
        }
    }
}

/// Runs operations in one transaction; one that fails leaves nothing behind.
fn group(
    engine: &mut SqliteEngine,
    operations: &mut [Submitted],
    rules: &Rules,
) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
    let mut outcomes = Vec::with_capacity(operations.len());
    for Submitted { operation, .. } in operations {
        engine.execute("SAVEPOINT operation")?;
        let ids = (engine.next_id, engine.reserved);
        let outcome = engine.apply(operation, rules);
        if let Err(error) = outcome {
            (engine.next_id, engine.reserved) = ids;
            // A full disk, for one, has rolled back all of the transaction, the savepoint with it:
            // that is the error to tell.
            if engine.connection.is_autocommit() {
                return Err(error);
            }
            engine.execute("ROLLBACK TO operation")?;
            outcomes.push(Err(error));
        } else {
            outcomes.push(outcome);
        }
        engine.execute("RELEASE operation")?;
    }
    Ok(outcomes)
}

/// Gives every client its outcomes, and wakes it once for those that come in a row.
fn hand_out(outcomes: impl Iterator<Item = (Arc<Inbox>, Result<Outcome, StoreError>)>) {
    let mut last: Option<Arc<Inbox>> = None;
    for (inbox, outcome) in outcomes {
        lock(&inbox.outcomes).here.push_back(outcome);
        match &last {
            Some(before) if Arc::ptr_eq(before, &inbox) => {}
            Some(before) => {
                before.arrived.notify_one();
                last = Some(inbox);
            }
            None => last = Some(inbox),
        }
    }
    if let Some(inbox) = last {
        inbox.arrived.notify_one();
    }
}

struct GroupedSession<'a> {
    queue: &'a Queue,
    acknowledge: Acknowledge,
    inbox: Arc<Inbox>,
}

impl Session for GroupedSession<'_> {
    fn submit(&mut self, operation: Operation) -> Result<(), StoreError> {
        let mut waiting = lock(&self.queue.waiting);
        if let Some(end) = waiting.end {
            return Err(end.error());
        }
        let (acknowledge, inbox) = (self.acknowledge, Arc::clone(&self.inbox));
        waiting.operations.push(Submitted { operation, acknowledge, inbox });
        let first = waiting.operations.len() == 1;
        drop(waiting);
        if first {
            self.queue.arrived.notify_one();
        }
        Ok(())
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        let mut inbox = lock(&self.inbox.outcomes);
        while inbox.here.is_empty() {
            if let Some(end) = inbox.end {
                return Err(end.error());
            }
            inbox = self.inbox.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        for outcome in inbox.here.drain(..) {
            outcomes.push(outcome?);
        }
        Ok(())
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        let inbox = lock(&self.inbox.outcomes);
        let left = deadline.saturating_duration_since(Instant::now());
        let nothing = |inbox: &mut Outcomes| inbox.here.is_empty() && inbox.end.is_none();
        let waited = self.inbox.arrived.wait_timeout_while(inbox, left, nothing);
        let mut inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let (true, Some(end)) = (inbox.here.is_empty(), inbox.end) {
            return Err(end.error());
        }
        for outcome in inbox.here.drain(..) {
            outcomes.push(outcome?);
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn name(&self) -> &str {
        if self.writer.is_some() { "sqlite" } else { "sqlite-naive" }
    }

    fn durability(&self) -> Durability {
        Durability::PowerCut
    }

    fn claim_max(&self) -> usize {
        128
    }

    fn has_flusher(&self) -> bool {
        false
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        Ok(match &self.writer {
            Some(writer) => {
                let (queue, inbox) = (&*writer.queue, writer.queue.inbox()?);
                Box::new(GroupedSession { queue, acknowledge, inbox })
            }
            None => {
                let (database, abandoned) = (&*self.database, &self.abandoned);
                Box::new(EngineSession::new(database, &self.rules, abandoned, acknowledge)?)
            }
        })
    }

    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.database.abandon();
        if let Some(writer) = &self.writer {
            writer.queue.end(End::Abandoned);
        }
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        scan_all!(self.scan_table, each)
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        let engine = lock(&self.database.engine);
        engine.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Account;

    /// A claim need not be synced: only what is acknowledged early in company of nothing else is
    /// left to the next commit.
    #[test]
    fn only_what_is_acknowledged_early_is_not_synced_at_once() {
        for grouped in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(dir.path(), grouped, Rules::default()).unwrap();
            for (acknowledge, level) in
                [(Acknowledge::Early, 1), (Acknowledge::Durable, 2), (Acknowledge::Early, 1)]
            {
                let mut session = store.session(acknowledge).unwrap();
                session.call(Operation::PutAccount(Box::new(Account::unlimited(1)))).unwrap();
                let engine = lock(&store.database.engine);
                let set: i64 =
                    engine.connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
                assert_eq!(set, level, "grouped: {grouped}, {acknowledge:?}");
            }
        }
    }

    /// The clients of a commit that failed were told of something internal.
    #[test]
    fn a_full_disk_is_told_in_the_words_of_sqlite() {
        for grouped in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(dir.path(), grouped, Rules::default()).unwrap();
            let full = "PRAGMA max_page_count = 1";
            lock(&store.database.engine).connection.query_row(full, [], |_| Ok(())).unwrap();
            let mut session = store.session(Acknowledge::Durable).unwrap();
            let mut put =
                |account| session.call(Operation::PutAccount(Box::new(Account::unlimited(account))));
            let error = (0..10_000).find_map(|number| put(number).err()).unwrap().to_string();
            assert_eq!(error, "SQLite: database or disk is full");
        }
    }

    fn put(account: u32) -> Operation {
        Operation::PutAccount(Box::new(Account::unlimited(account)))
    }

    /// Who waited for a store that did not answer waited for ever.
    #[test]
    fn a_store_that_is_given_up_fails_who_waits_and_who_comes() {
        for grouped in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(dir.path(), grouped, Rules::default()).unwrap();
            store.session(Acknowledge::Durable).unwrap().call(put(1)).unwrap();
            // As a sync that does not come back holds them.
            let turn = (!grouped).then(|| store.database.turn().unwrap());
            let engine = lock(&store.database.engine);
            std::thread::scope(|scope| {
                let call = || store.session(Acknowledge::Durable)?.call(put(2));
                let waiting = scope.spawn(call);
                let idle = &mut store.session(Acknowledge::Durable).unwrap();
                // Not even a call that comes just now is forgotten; usually it waits already.
                std::thread::sleep(Duration::from_millis(50));
                store.abandon();
                assert!(matches!(waiting.join().unwrap(), Err(StoreError::Abandoned)), "{grouped}");
                assert!(matches!(idle.call(put(3)), Err(StoreError::Abandoned)), "{grouped}");
                assert!(matches!(call(), Err(StoreError::Abandoned)), "{grouped}");
            });
            drop((engine, turn));
            drop(store);
            // What was acknowledged is there.
            let store = SqliteStore::open(dir.path(), grouped, Rules::default()).unwrap();
            let found = store.session(Acknowledge::Durable).unwrap().call(Operation::Account(1)).unwrap();
            assert_eq!(found, Outcome::Account(Some(Account::unlimited(1))));
        }
    }

    /// A drop that waited for a writer inside a sync that never ends would be as stuck as its
    /// clients were.
    #[test]
    fn dropping_a_store_that_is_given_up_does_not_wait_for_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path(), true, Rules::default()).unwrap();
        let database = Arc::clone(&store.database);
        let _engine = lock(&database.engine);
        store.session(Acknowledge::Durable).unwrap().submit(put(1)).unwrap();
        store.abandon();
        drop(store);
    }

    /// Nobody told the clients of a writer that had panicked.
    #[test]
    fn a_panic_of_the_writer_fails_all_clients() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path(), true, Rules::default()).unwrap();
        let mut idle = store.session(Acknowledge::Durable).unwrap();
        lock(&store.database.engine).statements.clear();
        let error = store.session(Acknowledge::Durable).unwrap().call(put(1)).unwrap_err();
        assert!(matches!(error, StoreError::WriterEnded), "{error}");
        assert!(matches!(idle.call(put(2)), Err(StoreError::WriterEnded)));
        assert!(matches!(store.session(Acknowledge::Durable).err(), Some(StoreError::WriterEnded)));
    }
}
