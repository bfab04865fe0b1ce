//! What a workload may ask of a database engine.

use std::path::Path;

use super::calls;
use super::error::EngineError;
use crate::spec::Durability;

/// A value bound to a statement or read from a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A prepared statement of one connection (an index into its list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement(pub usize);

/// The SQL dialect where engines differ (types, auto-increment). Parameters are `$1`, `$2` … in
/// order of first use on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgresql,
}

/// Name, version and build of an engine as it really runs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EngineInfo {
    /// As [`EngineKind::name`](super::EngineKind::name) has it.
    pub name: String,
    /// E.g. `3.54.1`.
    pub version: String,
    /// Source id and compile options, or the server's build line.
    pub build: Vec<String>,
    /// Settings as read back from the engine after they were set.
    pub settings: std::collections::BTreeMap<String, String>,
}

/// One database engine with its settings, working in one directory. Dropping it stops what it
/// started.
pub trait Engine: Send + Sync {
    /// Opens (creates) the database called `name` in the engine's directory with the cell's
    /// settings, each read back.
    ///
    /// # Errors
    /// A setting that did not take, a file that cannot be opened, a server that does not answer.
    fn connect(&self, name: &str) -> Result<Box<dyn Connection>, EngineError>;
    /// What runs, and the settings as read back by the first `connect`.
    fn info(&self) -> EngineInfo;
    /// Dialect of the SQL this engine takes.
    fn dialect(&self) -> Dialect;
    /// What the settings promise.
    fn durability(&self) -> Durability;
    /// The directory in which the engine's files live (evicted or dropped from the page cache for
    /// cold runs).
    fn directory(&self) -> &Path;
    /// Whether the cell (or Fathom's default) says what this setting is.
    fn sets(&self, setting: &str) -> bool {
        let _ = setting;
        false
    }
    /// Makes the engine forget what it caches itself (a server is restarted; SQLite caches per
    /// connection: nothing to do).
    ///
    /// # Errors
    /// A server that cannot be restarted.
    fn forget_caches(&self) -> Result<(), EngineError>;
}

/// One connection. Statements run on the calling thread, so that the probe's thread-local clocks
/// see them.
pub trait Connection: Send {
    /// Runs one or more statements without parameters, discarding rows.
    ///
    /// # Errors
    /// The statement that failed, with the engine's message.
    fn execute_script(&mut self, sql: &str) -> Result<(), EngineError>;
    /// Prepares one statement.
    ///
    /// # Errors
    /// A syntax error, a missing table.
    fn prepare(&mut self, sql: &str) -> Result<Statement, EngineError>;
    /// Executes a prepared statement to its end and gives the number of rows it changed.
    ///
    /// # Errors
    /// The statement with the engine's message; constraint, busy, full, I/O.
    fn execute(&mut self, statement: Statement, params: &[Value]) -> Result<u64, EngineError>;
    /// Executes a prepared query, hands each row's values to `on_row`, and gives the number of
    /// rows.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    fn query(
        &mut self,
        statement: Statement,
        params: &[Value],
        on_row: &mut dyn FnMut(&[Value]),
    ) -> Result<u64, EngineError>;
    /// Executes a prepared query and reads every column of every row without building values; gives
    /// (rows, bytes). This is what a timed SELECT uses.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    fn drain(&mut self, statement: Statement, params: &[Value]) -> Result<(u64, u64), EngineError>;
    /// Attaches the database called `name` (created if it is not there) as `schema`, with the
    /// cell's settings, each read back; a transaction then commits in all of them or in none.
    ///
    /// # Errors
    /// An engine that knows one database per connection; else as [`Engine::connect`].
    fn attach(&mut self, name: &str, schema: &str) -> Result<(), EngineError> {
        Err(EngineError {
            subject: format!("attaching {name} as {schema}"),
            message: "this engine has one database per connection".into(),
            code: 0,
        })
    }
    /// From now on the connection runs SQL that is not the user's own: whatever it says, no file
    /// but those of the engine's directory is opened, written or loaded (see
    /// [`fathom_trace::confine`]). There is no way back.
    ///
    /// # Errors
    /// An engine that cannot promise it.
    fn confine(&mut self) -> Result<(), EngineError> {
        Err(EngineError {
            subject: "confining a connection".into(),
            message: "this engine cannot keep other people's SQL to its directory".into(),
            code: 0,
        })
    }
    /// The connection call by call, for a replay; none where the engine is not SQLite.
    fn calls(&mut self) -> Option<&mut dyn calls::Calls> {
        None
    }
    /// Waits for locks since the connection was opened: (number, ns); none where the engine does
    /// not tell the client.
    fn lock_waits(&self) -> Option<(u64, u64)>;
    /// Closes the connection, statements first.
    ///
    /// # Errors
    /// What the engine says when it cannot close.
    fn close(self: Box<Self>) -> Result<(), EngineError>;
}

/// A statement's beginning, on one line, for an error message.
pub(crate) fn abridged(sql: &str) -> String {
    const LETTERS_MAX: usize = 160;
    let mut short: String = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = short.char_indices().nth(LETTERS_MAX) {
        short.truncate(end);
        short.push('…');
    }
    short
}
