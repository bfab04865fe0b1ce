//! PostgreSQL: a private server, started with the store and stopped with it.
//!
//! Four forms. *Calls*: each of the three transactions of every message is one prepared call of a
//! function, pipelined, a commit for each. *Grouped*: the calls of a client that wait are one
//! transaction with one commit, all locks first and in one order; one that fails takes its group
//! along, which then runs again. *Batched*: the same, and the calls of one sort are one call, which
//! has a statement for each table (`batches.sql`). *Statements*: the centre's own transactions, a
//! round trip for each read and write.
//!
//! `fsync`, `synchronous_commit` and `full_page_writes` are on; sessions that acknowledge early
//! have `synchronous_commit` off. Memory is enough for everything, and checkpoints by size are kept
//! out of short runs.

mod batch;
mod part;
mod session;
mod statements;
#[cfg(test)]
mod tests;
mod wire;

use super::sql::names;
use super::{Acknowledge, Durability, EachRow, Opening, Row, Session, Store, StoreError, scan_all};
use crate::centre::Rules;
use crate::model::{FIRST_TABLES, Kind, Message, Record, TABLES, Table};
use postgresql_server::{Server, USER};
use session::PostgresqlSession;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Wire, Wires};

const PROCEDURES: [&str; 2] = [include_str!("procedures.sql"), include_str!("batches.sql")];

/// Sessions that the server is made for at most. Each is a process of the server with some
/// megabytes of its own.
pub(super) const SESSIONS_MAX: usize = 1500;
/// Connections besides the sessions: to read tables and counters, and those that the server keeps
/// for its superuser.
const SPARE: usize = 16;
/// Locks that all sessions together can hold: every call of a group holds its station's lock until
/// the group commits.
const LOCKS: usize = 600 * 1024;

/// The server's settings for so many sessions.
fn settings(sessions: usize) -> Vec<String> {
    let connections = sessions + SPARE;
    let sized = [
        format!("max_connections={connections}"),
        format!("max_locks_per_transaction={}", LOCKS.div_ceil(connections)),
    ];
    SETTINGS.iter().map(|&setting| setting.to_owned()).chain(sized).collect()
}

const SETTINGS: [&str; 8] = [
    "shared_buffers=1GB",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "wal_buffers=64MB",
    "max_wal_size=16GB",
    "jit=off",
    // Groups take their locks in one order; who meets a timer or a sweep, which do not, is not to
    // wait a second to find out.
    "deadlock_timeout=20ms",
];

/// How operations become statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresqlForm {
    /// One call each, one commit each.
    Calls,
    /// One call each, one commit for those that wait.
    Grouped,
    /// One call for those of one sort that wait, one commit for all.
    Batched,
    /// Statement by statement.
    Statements,
}

impl PostgresqlForm {
    /// Whether calls of a client that wait share a commit.
    fn has_groups(self) -> bool {
        matches!(self, PostgresqlForm::Grouped | PostgresqlForm::Batched)
    }
}

/// The store.
pub struct PostgresqlStore {
    server: Server,
    wires: Arc<Wires>,
    log: PathBuf,
    form: PostgresqlForm,
    rules: Rules,
    again: Arc<AtomicU64>,
}

impl PostgresqlStore {
    /// Starts a server for so many sessions on the cluster in `dir`, which is made if there is
    /// none, as tables are, if `opening` says so.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn open(
        dir: &Path,
        form: PostgresqlForm,
        rules: Rules,
        sessions: usize,
        opening: Opening,
    ) -> Result<PostgresqlStore, StoreError> {
        let log = dir.join("postgresql.log");
        let wires = Arc::new(Wires::default());
        let of_answers = (log.clone(), Arc::clone(&wires));
        let answers = move |socket: &Path| {
            Wire::open(socket, USER, &of_answers.0, &of_answers.1)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let server = Server::start(None, dir, false, settings(sessions), answers).map_err(|error| {
            // The server's own words, in the language of LC_ALL=C, about the file that says that it
            // runs.
            if error.message.contains("\"postmaster.pid\" already exists") {
                return StoreError::Busy { path: dir.display().to_string() };
            }
            error.into()
        })?;
        let store = PostgresqlStore { server, wires, log, form, rules, again: Arc::default() };
        let mut wire = store.connect()?;
        if opening == Opening::Existing
            && TABLES[..FIRST_TABLES].iter().any(|table| !exists(&mut wire, table))
        {
            return Err(StoreError::foreign(dir));
        }
        let tables: String = TABLES.iter().map(|table| schema(table)).collect();
        wire.script(&format!("SET client_min_messages = warning; {tables} {}", PROCEDURES.concat()))?;
        Ok(store)
    }

    fn connect(&self) -> Result<Wire, StoreError> {
        self.server.with_socket(|socket| Wire::open(socket, USER, &self.log, &self.wires))?
    }

    fn scan_table<R: Record>(&self, wrap: fn(R) -> Row, each: EachRow<'_>) -> Result<(), StoreError> {
        let mut wire = self.connect()?;
        wire.prepare("", &format!("SELECT * FROM {}", R::TABLE.name), &[])?;
        wire.execute("", &[])?;
        wire.sync();
        wire.until_ready(&mut |row| each(wrap(R::read(&row)?)))
    }
}

/// Whether a table can be read.
fn exists(wire: &mut Wire, table: &Table) -> bool {
    wire.script(&format!("SELECT FROM {} LIMIT 0", table.name)).is_ok()
}

fn schema(table: &Table) -> String {
    let kind = |kind| match kind {
        Kind::Int16 => "smallint",
        Kind::Int32 => "integer",
        Kind::Int64 | Kind::Time => "bigint",
        Kind::Text(_) => "text",
        Kind::Bytes(_) => "bytea",
    };
    let names = |columns: &[usize]| names(table, columns.iter().copied());
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {} NOT NULL", column.name, kind(column.kind)))
        .collect();
    let key = names(table.indexes[0].columns);
    // A message is changed once, when it has become final, and then no index of it is: where its
    // page has room for the new row, they are not written again (HOT).
    let room = if table.number == Message::TABLE.number { " WITH (fillfactor = 85)" } else { "" };
    let mut sql = format!(
        "CREATE TABLE IF NOT EXISTS {}({}, PRIMARY KEY({key})){room};",
        table.name,
        columns.join(", ")
    );
    for index in &table.indexes[1..] {
        let columns = names(index.columns);
        sql.push_str(&format!("CREATE INDEX IF NOT EXISTS {} ON {}({columns});", index.name, table.name));
    }
    sql
}

impl Store for PostgresqlStore {
    fn name(&self) -> &str {
        match self.form {
            PostgresqlForm::Calls => "postgresql",
            PostgresqlForm::Grouped => "postgresql-grouped",
            PostgresqlForm::Batched => "postgresql-batched",
            PostgresqlForm::Statements => "postgresql-statements",
        }
    }

    fn durability(&self) -> Durability {
        Durability::PowerCut
    }

    fn has_flusher(&self) -> bool {
        false
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        let mut wire = self.connect()?;
        if acknowledge == Acknowledge::Early {
            wire.script("SET synchronous_commit = off")?;
        }
        Ok(Box::new(PostgresqlSession::new(wire, self.form, self.rules, Arc::clone(&self.again))?))
    }

    fn claim_max(&self) -> usize {
        128
    }

    fn ran_again(&self) -> Option<u64> {
        Some(self.again.load(Ordering::Relaxed))
    }

    fn abandon(&self) {
        self.server.abandon();
        self.wires.abandon();
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        scan_all!(self.scan_table, each)
    }

    fn log_bytes(&self) -> Option<u64> {
        let mut wire = self.connect().ok()?;
        let mut bytes = None;
        wire.prepare("", "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint", &[]).ok()?;
        wire.execute("", &[]).ok()?;
        wire.sync();
        let read = wire.until_ready(&mut |row| {
            bytes = crate::model::Columns::int(&row, 0).ok().and_then(|bytes| u64::try_from(bytes).ok());
            Ok(())
        });
        read.ok().and(bytes)
    }

    fn server_process(&self) -> Option<u32> {
        self.server.process()
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        self.connect()?.script("CHECKPOINT")
    }
}
