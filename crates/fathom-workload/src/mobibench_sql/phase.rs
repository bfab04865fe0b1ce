//! One phase: connections opened and tables made (untimed), transactions by all threads (timed),
//! connections closed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::content::{Change, Content, write_value};
use super::plan::{Operation, Plan};
use super::sql;
use crate::engine::{Connection, Dialect, Engine, EngineError, Statement, Value};
use crate::recorder::{Lane, Phase, Unit};
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// What the threads of a phase share.
struct Shared<'a> {
    plan: &'a Plan,
    operation: Operation,
    checkpoint: Checkpoint,
    /// All start together.
    start: Barrier,
    /// Threads that have not finished.
    running: AtomicU64,
    /// One has failed: the others need not go on.
    failed: AtomicBool,
}

/// Who checkpoints at the end of the timed window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checkpoint {
    /// Nobody: there is no write-ahead log, or it is switched off.
    Nobody,
    /// Each thread its own databases.
    Each,
    /// The last thread, for all.
    Last,
}

/// One thread's means.
struct Worker<'a> {
    connection: Box<dyn Connection>,
    content: &'a mut Content,
    lane: Lane,
    statements: Statements,
    checkpoints: Vec<Statement>,
    /// Log frames that a checkpoint left behind.
    unfinished: Option<String>,
}

/// How a transaction is given to the engine.
enum Statements {
    /// As one text.
    Texts(sql::Texts),
    /// As statements prepared before.
    Prepared(Prepared),
}

/// A transaction's prepared statements.
struct Prepared {
    begin: Statement,
    commit: Statement,
    /// Per database and table.
    changes: Vec<Statement>,
    tables: usize,
    /// Per change of a transaction its parameters; their memory is used again for the next
    /// transaction.
    bound: Vec<Vec<Value>>,
}

/// Runs one phase on all threads and hands its figures to the sink.
pub(super) fn run(
    plan: &Plan,
    engine: &dyn Engine,
    operation: Operation,
    contents: &mut [Content],
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let checkpoint = checkpoint_by(plan, engine);
    let mut prepared = Vec::new();
    for content in contents {
        prepared.push(open(plan, engine, operation, checkpoint, content)?);
    }
    let mut phase = Phase::begin(operation.name(), None, Unit::Transaction);
    let workers: Vec<Worker<'_>> = prepared
        .into_iter()
        .map(|(connection, content, statements, checkpoints)| {
            let thread = u32::try_from(content.thread()).unwrap_or(u32::MAX);
            let lane = phase.lane(thread, content.transactions as usize);
            Worker { connection, content, lane, statements, checkpoints, unfinished: None }
        })
        .collect();
    let shared = Shared {
        plan,
        operation,
        checkpoint,
        start: Barrier::new(workers.len()),
        running: AtomicU64::new(workers.len() as u64),
        failed: AtomicBool::new(false),
    };
    let finished = run_workers(workers, &shared)?;
    let mut lanes = Vec::new();
    let mut connections = Vec::new();
    let mut warnings = Vec::new();
    for worker in finished {
        phase.add_lock_waits(worker.connection.lock_waits());
        lanes.push(worker.lane);
        connections.push(worker.connection);
        warnings.extend(worker.unfinished);
    }
    phase.end(lanes, sink);
    warnings.into_iter().for_each(|text| sink.warning(text));
    for connection in connections {
        connection.close()?;
    }
    Ok(())
}

fn checkpoint_by(plan: &Plan, engine: &dyn Engine) -> Checkpoint {
    let has_log = match engine.dialect() {
        Dialect::Sqlite => engine.info().settings.get("journal_mode").is_some_and(|mode| mode == "wal"),
        Dialect::Postgresql => true,
    };
    match engine.dialect() {
        _ if !plan.checkpoint || !has_log => Checkpoint::Nobody,
        Dialect::Sqlite if !plan.shared => Checkpoint::Each,
        // A server has one log for all its databases.
        _ => Checkpoint::Last,
    }
}

type Opened<'a> = (Box<dyn Connection>, &'a mut Content, Statements, Vec<Statement>);

/// Opens a thread's connection, makes and fills its tables, and prepares what is to be prepared:
/// all untimed.
fn open<'a>(
    plan: &Plan,
    engine: &dyn Engine,
    operation: Operation,
    checkpoint: Checkpoint,
    content: &'a mut Content,
) -> Result<Opened<'a>, WorkloadError> {
    let group = if plan.shared { 0 } else { content.thread() };
    let databases = plan.databases as usize;
    let tables = plan.tables as usize;
    let mut connection = engine.connect(&sql::database_name(group, 0))?;
    for database in 1..databases {
        connection.attach(&sql::database_name(group, database), &sql::schema(database))?;
    }
    let mut create = String::from("BEGIN;");
    for (database, table) in pairs(databases, tables) {
        create.push_str(&sql::create_table(engine.dialect(), plan.autoincrement, database, table));
        create.push(';');
    }
    connection.execute_script(&(create + "COMMIT;"))?;
    if operation != Operation::Insert {
        let missing = content.fill();
        fill(plan, connection.as_mut(), &missing)?;
    }
    content.prepare(operation, plan.random_insert);
    // As in the original, each table is read once before the clock starts.
    for (database, table) in pairs(databases, tables) {
        let count =
            connection.prepare(&format!("SELECT count(*) FROM {}", sql::table_name(database, table)))?;
        connection.drain(count, &[])?;
    }
    let statements = if plan.prepared {
        Statements::Prepared(prepare(plan, connection.as_mut(), operation)?)
    } else {
        Statements::Texts(sql::Texts::new(operation, databases, tables, plan.value_bytes))
    };
    let checkpoints = match (checkpoint, engine.dialect()) {
        (Checkpoint::Nobody, _) => Vec::new(),
        (_, Dialect::Postgresql) => vec![connection.prepare("CHECKPOINT")?],
        (_, Dialect::Sqlite) => {
            let mut all = vec![connection.prepare("PRAGMA main.wal_checkpoint(PASSIVE)")?];
            for database in 1..databases {
                let schema = sql::schema(database);
                all.push(connection.prepare(&format!("PRAGMA {schema}.wal_checkpoint(PASSIVE)"))?);
            }
            all
        }
    };
    Ok((connection, content, statements, checkpoints))
}

fn pairs(databases: usize, tables: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..databases).flat_map(move |database| (0..tables).map(move |table| (database, table)))
}

/// Inserts rows, a thousand to a transaction.
fn fill(plan: &Plan, connection: &mut dyn Connection, missing: &[Change]) -> Result<(), EngineError> {
    for part in missing.chunks(1000) {
        connection.execute_script("BEGIN")?;
        for change in part {
            let insert = connection.prepare(&sql::with_parameters(
                Operation::Insert,
                change.database,
                change.table,
            ))?;
            let mut text = String::with_capacity(plan.value_bytes);
            write_value(change.key, plan.value_bytes, &mut text);
            connection.execute(insert, &[Value::Integer(change.id), Value::Text(text)])?;
        }
        connection.execute_script("COMMIT")?;
    }
    Ok(())
}

fn prepare(
    plan: &Plan,
    connection: &mut dyn Connection,
    operation: Operation,
) -> Result<Prepared, EngineError> {
    let tables = plan.tables as usize;
    let changes: Vec<_> = pairs(plan.databases as usize, tables)
        .map(|(database, table)| connection.prepare(&sql::with_parameters(operation, database, table)))
        .collect::<Result<_, _>>()?;
    let parameters = match operation {
        Operation::Insert => vec![Value::Null, Value::Text(String::new())],
        Operation::Update => vec![Value::Text(String::new()), Value::Null],
        Operation::Delete => vec![Value::Null],
    };
    let bound = vec![parameters; changes.len()];
    let (begin, commit) = (connection.prepare("BEGIN")?, connection.prepare("COMMIT")?);
    Ok(Prepared { begin, commit, changes, tables, bound })
}

/// Runs the workers: one on this thread, several each on its own.
fn run_workers<'a>(
    mut workers: Vec<Worker<'a>>,
    shared: &Shared<'_>,
) -> Result<Vec<Worker<'a>>, WorkloadError> {
    if let [worker] = &mut workers[..] {
        worker.run(shared)?;
        return Ok(workers);
    }
    let results: Vec<Result<(), WorkloadError>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || worker.run(shared))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(workers)
}

impl Worker<'_> {
    fn run(&mut self, shared: &Shared<'_>) -> Result<(), WorkloadError> {
        shared.start.wait();
        let result = self.transactions(shared);
        if result.is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        let last = shared.running.fetch_sub(1, Ordering::AcqRel) == 1;
        result?;
        if shared.checkpoint == Checkpoint::Each || (shared.checkpoint == Checkpoint::Last && last) {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn transactions(&mut self, shared: &Shared<'_>) -> Result<(), WorkloadError> {
        let plan = shared.plan;
        let mut changes = Vec::new();
        for transaction in 0..self.content.transactions {
            if shared.failed.load(Ordering::Relaxed) {
                break;
            }
            self.content.change(shared.operation, transaction, &mut changes);
            let connection = self.connection.as_mut();
            match &mut self.statements {
                Statements::Texts(texts) => {
                    let (text, rows) = (texts.of(&changes), changes.len() as u64);
                    self.lane.time(|| connection.execute_script(text).map(|()| rows))?;
                }
                Statements::Prepared(prepared) => {
                    prepared.bind(&changes, plan.value_bytes);
                    self.lane.time(|| prepared.run(connection, &changes))?;
                }
            }
            if !plan.interval.is_zero() {
                std::thread::sleep(plan.interval);
            }
        }
        Ok(())
    }

    /// Checkpoints in the timed window, as part of the phase but of no transaction.
    fn checkpoint(&mut self) -> Result<(), WorkloadError> {
        for &statement in &self.checkpoints {
            let mut answer = Vec::new();
            self.lane
                .time_auxiliary(|| self.connection.query(statement, &[], &mut |row| answer = row.to_vec()))?;
            // SQLite answers: 1 if it could not begin, frames in the log, frames in the database. A
            // server answers nothing.
            if let [Value::Integer(busy), Value::Integer(log), Value::Integer(moved)] = answer[..]
                && (busy != 0 || moved < log)
            {
                let text = format!("the checkpoint moved {moved} of {log} frames of the write-ahead log");
                self.unfinished = Some(text);
            }
        }
        Ok(())
    }
}

impl Prepared {
    /// Fills in the parameters of a transaction.
    fn bind(&mut self, changes: &[Change], value_bytes: usize) {
        for (change, params) in changes.iter().zip(&mut self.bound) {
            for param in params {
                match param {
                    Value::Text(text) => {
                        text.clear();
                        write_value(change.key, value_bytes, text);
                    }
                    id => *id = Value::Integer(change.id),
                }
            }
        }
    }

    /// Runs a transaction; each statement must change one row.
    fn run(&self, connection: &mut dyn Connection, changes: &[Change]) -> Result<u64, WorkloadError> {
        connection.execute(self.begin, &[])?;
        for (change, params) in changes.iter().zip(&self.bound) {
            let statement = self.changes[change.database * self.tables + change.table];
            let rows = connection.execute(statement, params)?;
            if rows != 1 {
                let table = sql::table_name(change.database, change.table);
                return Err(WorkloadError::Verification(format!(
                    "a statement on {table} for id {} changed {rows} rows instead of one",
                    change.id
                )));
            }
        }
        connection.execute(self.commit, &[])?;
        Ok(changes.len() as u64)
    }
}
