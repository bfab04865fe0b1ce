//! PostgreSQL: a private server, started with the store and stopped with it; or one that is there
//! already, by its URL (`url`, `foreign`).
//!
//! Four forms. *Calls*: each of the three transactions of every message is one prepared call of a
//! function, pipelined, a commit for each. *Grouped*: the calls of a client that wait are one
//! transaction with one commit, all locks first and in one order; one that fails takes its group
//! along, which then runs again. *Batched*: the same, and the calls of one sort are one call, which
//! has a statement for each table (`batches.sql`). *Statements*: the centre's own transactions, a
//! round trip for each read and write.
//!
//! Of a private server, `fsync`, `synchronous_commit` and `full_page_writes` are on; sessions that acknowledge early
//! have `synchronous_commit` off. Memory is enough for everything, and checkpoints by size are kept
//! out of short runs.

mod batch;
mod catalog;
mod contents;
mod foreign;
mod part;
mod quote;
mod session;
mod snapshot;
mod statements;
#[cfg(test)]
mod tests;
mod url;
mod wire;

pub use snapshot::PostgresqlSnapshot;
pub use url::PostgresqlUrl;

use super::sql::names;
use super::{Acknowledge, Durability, EachRow, Opening, Row, Session, Store, StoreError, scan_all};
use crate::centre::Rules;
use crate::model::{FIRST_TABLES, Kind, Message, Record, TABLES, Table};
use foreign::ForeignServer;
use postgresql_server::{Server, TAKEN, USER};
use session::{GROUP_MAX, PostgresqlSession};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::{Origin, Wire, Wires};

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
    /// All of them.
    pub const ALL: [PostgresqlForm; 4] =
        [PostgresqlForm::Calls, PostgresqlForm::Grouped, PostgresqlForm::Batched, PostgresqlForm::Statements];

    /// Its word in a URL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PostgresqlForm::Calls => "calls",
            PostgresqlForm::Grouped => "grouped",
            PostgresqlForm::Batched => "batched",
            PostgresqlForm::Statements => "statements",
        }
    }

    /// Whether calls of a client that wait share a commit.
    fn has_groups(self) -> bool {
        matches!(self, PostgresqlForm::Grouped | PostgresqlForm::Batched)
    }
}

/// The server of a store.
enum Place {
    /// The store's own, and where it writes its log.
    Private(Box<Server>, Arc<Origin>),
    /// One that is there already.
    Foreign(Box<ForeignServer>),
}

/// The store.
pub struct PostgresqlStore {
    place: Place,
    wires: Arc<Wires>,
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
        let log = Arc::new(Origin::Log(dir.join("postgresql.log")));
        let wires = Arc::new(Wires::default());
        let of_answers = (Arc::clone(&log), Arc::clone(&wires));
        let answers = move |socket: &Path| {
            Wire::open(socket, USER, &of_answers.0, &of_answers.1)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let server = Server::start(None, dir, None, settings(sessions), answers).map_err(|error| {
            // The last are the server's own words, in the language of LC_ALL=C, about the file that
            // says that it runs.
            let taken = [TAKEN, "\"postmaster.pid\" already exists"];
            if taken.iter().any(|words| error.message.contains(words)) {
                return StoreError::Busy { path: dir.display().to_string() };
            }
            error.into()
        })?;
        let place = Place::Private(Box::new(server), log);
        let store = PostgresqlStore { place, wires, form, rules, again: Arc::default() };
        let mut wire = store.connect()?;
        if opening == Opening::Existing
            && TABLES[..FIRST_TABLES].iter().any(|table| !exists(&mut wire, table))
        {
            return Err(StoreError::foreign(dir));
        }
        let tables: String = TABLES.iter().map(|table| schema(table)).collect();
        let procedures = PROCEDURES.concat();
        let locks = lock_function(0);
        wire.script(&format!("SET client_min_messages = warning; {tables} {locks} {procedures}"))?;
        Ok(store)
    }

    /// Opens the store of a server that is there already, for so many sessions; it is made if there
    /// is none and `opening` says so, in a schema that is not there or empty.
    ///
    /// # Errors
    /// The server cannot be reached or lets nobody in; it is too old, or a power cut would damage
    /// it; the schema is somebody else's; the role lacks a right; another process has the store.
    pub fn at(
        url: &PostgresqlUrl,
        rules: Rules,
        sessions: usize,
        opening: Opening,
    ) -> Result<PostgresqlStore, StoreError> {
        let wires = Arc::new(Wires::default());
        wires.limit_silence(url.timeout());
        let rules = Rules { has_flusher: false, ..rules };
        let place = Place::Foreign(Box::new(ForeignServer::open(url, sessions, opening, &wires)?));
        Ok(PostgresqlStore { place, wires, form: url.form, rules, again: Arc::default() })
    }

    /// Takes all messages away from the store of a server that is there already, and the store
    /// itself if it was made when it was opened. Of a private server, nothing.
    ///
    /// # Errors
    /// The role may not; something of others depends on it.
    pub fn clear(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Private(..) => Ok(()),
            Place::Foreign(given) => given.clear(&self.wires),
        }
    }

    /// Whether there is a row in any table.
    ///
    /// # Errors
    /// The server's.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        let tables: Vec<String> =
            TABLES.iter().map(|table| format!("EXISTS (SELECT FROM {})", table.name)).collect();
        Ok(self.connect()?.one(&format!("SELECT {}", tables.join(" OR ")))? == "f")
    }

    fn connect(&self) -> Result<Wire, StoreError> {
        match &self.place {
            Place::Private(server, log) => {
                server.with_socket(|socket| Wire::open(socket, USER, log, &self.wires))?
            }
            Place::Foreign(given) => given.connect(&self.wires),
        }
    }

    fn scan_table<R: Record>(&self, wrap: fn(R) -> Row, each: EachRow<'_>) -> Result<(), StoreError> {
        let mut wire = self.connect()?;
        wire.prepare("", &format!("SELECT * FROM {}", R::TABLE.name), &[])?;
        wire.execute("", &[])?;
        wire.sync();
        wire.until_ready(&mut |row| each(wrap(R::read(&row)?)))
    }
}

/// The function that makes the key of an advisory lock of a station's: in a database of others
/// those of two stores, and of whoever else locks numbers, are to be different ones.
fn lock_function(salt: i64) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION smsc_lock(p_key bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT p_key # {salt}::bigint';"
    )
}

/// Whether a table can be read.
fn exists(wire: &mut Wire, table: &Table) -> bool {
    wire.script(&format!("SELECT FROM {} LIMIT 0", table.name)).is_ok()
}

/// The type of a column.
fn column_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Int16 => "smallint",
        Kind::Int32 => "integer",
        Kind::Int64 | Kind::Time => "bigint",
        // In the order of its octets, as everywhere else, whatever the database's language is.
        Kind::Text(_) => "text COLLATE \"C\"",
        Kind::Bytes(_) => "bytea",
    }
}

fn schema(table: &Table) -> String {
    let names = |columns: &[usize]| names(table, columns.iter().copied());
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("{} {} NOT NULL", column.name, column_type(column.kind)))
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
        match &self.place {
            Place::Private(..) => Durability::PowerCut,
            Place::Foreign(given) => given.durability,
        }
    }

    fn remarks(&self) -> Vec<String> {
        match &self.place {
            Place::Private(..) => Vec::new(),
            Place::Foreign(given) => given.remarks.clone(),
        }
    }

    fn identity(&self) -> Option<String> {
        match &self.place {
            Place::Private(..) => None,
            Place::Foreign(given) => Some(given.identity.clone()),
        }
    }

    fn has_flusher(&self) -> bool {
        false
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        let mut wire = self.connect()?;
        if acknowledge == Acknowledge::Early {
            wire.script("SET synchronous_commit = off")?;
        }
        let group_max = match &self.place {
            Place::Private(..) => GROUP_MAX,
            Place::Foreign(given) => given.group_max,
        };
        let again = Arc::clone(&self.again);
        Ok(Box::new(PostgresqlSession::new(wire, self.form, self.rules, group_max, again)?))
    }

    fn claim_max(&self) -> usize {
        128
    }

    fn ran_again(&self) -> Option<u64> {
        Some(self.again.load(Ordering::Relaxed))
    }

    fn limit_silence(&self, at_most: Duration) {
        self.wires.limit_silence(at_most);
    }

    fn unheard(&self) -> Option<Duration> {
        Some(self.wires.unheard())
    }

    fn abandon(&self) {
        // A server of others goes on: it rolls back what its clients had under way, as they have
        // gone.
        if let Place::Private(server, _) = &self.place {
            server.abandon();
        }
        self.wires.abandon();
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        scan_all!(self.scan_table, each)
    }

    fn log_bytes(&self) -> Option<u64> {
        // The log of a server that is there already is not of this store alone.
        if matches!(self.place, Place::Foreign(_)) {
            return None;
        }
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
        match &self.place {
            Place::Private(server, _) => server.process(),
            Place::Foreign(_) => None,
        }
    }

    fn checkpoint(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Private(..) => self.connect()?.script("CHECKPOINT"),
            // That is its administrator's.
            Place::Foreign(_) => Ok(()),
        }
    }
}
