//! PostgreSQL: a private server in the run's directory, spoken to over its socket.
//!
//! What a statement costs is split as far as the client can see: wall time and the client's CPU
//! time; the rest is `other`, the server's work and its I/O together. The server waits for locks
//! itself, so no lock waits are counted here.

mod server;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use postgresql_server::connection::{ConnectionError, Row};
use server::Server;
pub use server::find_programs as postgresql_programs;
use wire::{Description, Wire, failed};

use super::settings::{EngineKind, SettingError};
use super::{Connection, Dialect, Engine, EngineError, EngineInfo, Statement, Value, abridged};
use crate::params::Params;
use crate::spec::Durability;

/// PostgreSQL as it is known by name.
pub(super) static KIND: EngineKind = EngineKind {
    name: "postgresql",
    title: "PostgreSQL",
    summary: "PostgreSQL: a private server in the run's directory, on a socket, stopped after the run",
    settings: settings::SETTINGS,
    dialect: Dialect::Postgresql,
    is_embedded: false,
    needs: |given| (!given.contains_key("bin_directory")).then_some("postgresql"),
    capitals: &[],
    files: |settings| match settings.optional_text("bin_directory") {
        Some(path) if !Path::new(path).join("initdb").is_file() => Err(SettingError {
            key: "bin_directory".into(),
            problem: format!("there is no initdb in {path}"),
            suggestion: None,
        }),
        _ => Ok(()),
    },
    remarks: |_, _| Vec::new(),
    start: |settings, directory| Ok(Box::new(PostgresqlEngine::start(settings, directory)?)),
};

/// A private PostgreSQL server with its settings. Dropping it stops the server.
pub(super) struct PostgresqlEngine {
    server: Mutex<Server>,
    settings: Params,
    directory: PathBuf,
    info: EngineInfo,
}

impl PostgresqlEngine {
    /// Makes a cluster in `directory`, starts its server and reads the settings back.
    ///
    /// # Errors
    /// PostgreSQL is not installed, the directory cannot hold a cluster, the server refuses a
    /// setting or reads it back as something else.
    pub fn start(settings: Params, directory: &Path) -> Result<Self, EngineError> {
        let checksums = settings.is_set("data_checksums").then(|| settings.boolean("data_checksums"));
        let options = settings::server_options(&settings);
        let server = Server::start(settings.optional_text("bin_directory"), directory, checksums, options)?;
        let mut wire = server.connect("postgres")?;
        let subject = format!("the server in {}", server.data().display());
        let told = |error: ConnectionError| failed(subject.clone(), &error);
        let mut facts = Vec::new();
        wire.script("SHOW server_version; SELECT version()", |row| facts.extend(texts(row))).map_err(told)?;
        let mut answers = BTreeMap::new();
        wire.script("SELECT name, setting, current_setting(name) FROM pg_settings", |row| {
            if let [name, raw, shown] = &texts(row)[..] {
                answers.insert(name.clone(), settings::Answer { raw: raw.clone(), shown: shown.clone() });
            }
        })
        .map_err(told)?;
        wire.close().map_err(told)?;
        let version = facts.first().map(|version| version.split(' ').next().unwrap_or(version).to_owned());
        let info = EngineInfo {
            name: KIND.name.into(),
            version: version.unwrap_or_default(),
            build: facts.into_iter().skip(1).collect(),
            settings: settings::verify(&settings, &answers)?,
        };
        Ok(PostgresqlEngine { server: Mutex::new(server), settings, directory: directory.to_owned(), info })
    }
}

/// A row's columns as texts; NULL is empty.
fn texts(row: &Row) -> Vec<String> {
    let text = |column: Option<&[u8]>| String::from_utf8_lossy(column.unwrap_or_default()).into_owned();
    row.columns().map(text).collect()
}

impl Engine for PostgresqlEngine {
    fn connect(&self, name: &str) -> Result<Box<dyn Connection>, EngineError> {
        if name.is_empty() || name.contains(['"', '\'', '\0', '/']) {
            let message = "must be a plain name".into();
            return Err(EngineError { subject: format!("database name {name:?}"), message, code: 0 });
        }
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wire = server.connect("postgres")?;
        let subject = format!("database {name} of the server in {}", server.data().display());
        let told = |error: ConnectionError| failed(subject.clone(), &error);
        let mut exists = false;
        wire.script(&format!("SELECT 1 FROM pg_database WHERE datname = '{name}'"), |_| exists = true)
            .map_err(told)?;
        if !exists {
            wire.script(&format!("CREATE DATABASE \"{name}\""), |_| ()).map_err(told)?;
        }
        wire.close().map_err(told)?;
        Ok(Box::new(PostgresqlConnection {
            wire: server.connect(name)?,
            database: name.to_owned(),
            statements: Vec::new(),
            by_sql: HashMap::new(),
            row: Vec::new(),
        }))
    }

    fn info(&self) -> EngineInfo {
        self.info.clone()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgresql
    }

    fn durability(&self) -> Durability {
        settings::durability(&self.settings)
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    /// Restarts the server; connections must be closed before.
    fn forget_caches(&self) -> Result<(), EngineError> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.stop();
        server.run()
    }
}

/// One connection to one database of the server.
struct PostgresqlConnection {
    wire: Wire,
    database: String,
    statements: Vec<Prepared>,
    by_sql: HashMap<String, usize>,
    /// One row's values, reused.
    row: Vec<Value>,
}

struct Prepared {
    /// Under which the server knows it.
    name: String,
    sql: String,
    description: Description,
}

impl PostgresqlConnection {
    fn subject(&self, sql: &str) -> String {
        format!("`{}` on database {}", abridged(sql), self.database)
    }

    /// What was asked wrongly here.
    fn refuse(&self, sql: &str, message: String) -> EngineError {
        EngineError { subject: self.subject(sql), message, code: 0 }
    }

    fn run(
        &mut self,
        statement: Statement,
        params: &[Value],
        on_row: impl FnMut(&Row),
    ) -> Result<(u64, u64), EngineError> {
        let Some(prepared) = self.statements.get(statement.0) else {
            return Err(self.refuse(&format!("statement {}", statement.0), "was not prepared here".into()));
        };
        let wanted = prepared.description.parameters;
        if wanted != params.len() {
            let message = format!("takes {wanted} parameters, was given {}", params.len());
            return Err(self.refuse(&prepared.sql, message));
        }
        let result = self.wire.execute(&prepared.name, params, on_row);
        result.map_err(|error| failed(self.subject(&self.statements[statement.0].sql), &error))
    }
}

impl Connection for PostgresqlConnection {
    fn execute_script(&mut self, sql: &str) -> Result<(), EngineError> {
        self.wire.script(sql, |_| ()).map_err(|error| failed(self.subject(sql), &error))
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement, EngineError> {
        if let Some(&known) = self.by_sql.get(sql) {
            return Ok(Statement(known));
        }
        let name = format!("s{}", self.statements.len());
        let description = self.wire.prepare(&name, sql).map_err(|error| failed(self.subject(sql), &error))?;
        self.statements.push(Prepared { name, sql: sql.to_owned(), description });
        self.by_sql.insert(sql.to_owned(), self.statements.len() - 1);
        Ok(Statement(self.statements.len() - 1))
    }

    fn execute(&mut self, statement: Statement, params: &[Value]) -> Result<u64, EngineError> {
        Ok(self.run(statement, params, |_| ())?.1)
    }

    fn query(
        &mut self,
        statement: Statement,
        params: &[Value],
        on_row: &mut dyn FnMut(&[Value]),
    ) -> Result<u64, EngineError> {
        let mut row = std::mem::take(&mut self.row);
        let types =
            self.statements.get(statement.0).map(|p| p.description.columns.clone()).unwrap_or_default();
        let result = self.run(statement, params, |received| {
            row.clear();
            row.extend(received.columns().zip(&types).map(|(column, &oid)| value(column, oid)));
            on_row(&row);
        });
        self.row = row;
        Ok(result?.0)
    }

    /// The bytes are those of the columns' text form, as received.
    fn drain(&mut self, statement: Statement, params: &[Value]) -> Result<(u64, u64), EngineError> {
        let mut bytes = 0;
        let (rows, _) = self.run(statement, params, |row| {
            bytes += row.columns().flatten().map(|column| column.len() as u64).sum::<u64>();
        })?;
        Ok((rows, bytes))
    }

    /// The server waits itself and tells only of waits beyond `deadlock_timeout`, in its log: not
    /// measured.
    fn lock_waits(&self) -> Option<(u64, u64)> {
        None
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        let database = self.database.clone();
        self.wire.close().map_err(|error| failed(format!("closing database {database}"), &error))
    }
}

/// A column's value by the OID of its type (`pg_type.dat`): whole numbers and booleans,
/// floating-point and exact decimal numbers, bytes, and all else as text.
fn value(column: Option<&[u8]>, oid: u32) -> Value {
    let Some(bytes) = column else { return Value::Null };
    let text = String::from_utf8_lossy(bytes);
    let known = match oid {
        16 => Some(Value::Integer(i64::from(bytes == b"t"))),
        20 | 21 | 23 | 26 => text.parse().ok().map(Value::Integer),
        700 | 701 | 1700 => text.parse().ok().map(Value::Real),
        17 => bytes.strip_prefix(b"\\x").and_then(from_hex).map(Value::Blob),
        _ => None,
    };
    known.unwrap_or_else(|| Value::Text(text.into_owned()))
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
