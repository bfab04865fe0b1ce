//! The store's connections: all of them can be ended from outside, and one that broke tells why.

use crate::model::{Columns, Value};
use crate::store::StoreError;
use crate::store::waits::Wait;
use postgresql_server::DISK_FULL;
use postgresql_server::connection::settings::{Place, Settings};
use postgresql_server::connection::{self, Address, Connection, ConnectionError, Format, Socket};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(super) use connection::{Parameter, oid};

/// The parameter with this value.
pub(super) fn parameter(value: Value<'_>) -> Parameter<'_> {
    match value {
        Value::Int(number) => Parameter::Int8(number),
        Value::Text(text) => Parameter::Text(text),
        Value::Bytes(octets) => Parameter::Bytes(octets),
    }
}

/// What the server says next.
#[derive(Debug)]
pub(super) enum Answer {
    /// One row.
    Row(Row),
    /// The statement is done.
    Done,
    /// The server refused; it says nothing more until the next synchronisation.
    Refused(StoreError),
    /// Synchronised.
    Ready,
}

/// A row, and where its columns lie.
#[derive(Debug)]
pub(super) struct Row {
    row: connection::Row,
    places: Vec<Option<Range<usize>>>,
    /// Column that the model's first column is.
    first: usize,
}

impl Row {
    fn new(row: connection::Row) -> Result<Row, StoreError> {
        let places = row.places().map_err(|error| StoreError::protocol(error.to_string()))?;
        Ok(Row { row, places, first: 0 })
    }

    /// The same, seen from column `first` on.
    pub fn seen_from(mut self, first: usize) -> Row {
        self.first = first;
        self
    }

    /// A column; of NULL, which the model does not have, nothing.
    fn column(&self, at: usize) -> Result<&[u8], StoreError> {
        let place = self.places.get(self.first + at).cloned();
        let column = place.and_then(|place| self.row.octets().get(place.unwrap_or(0..0)));
        column.ok_or_else(|| StoreError::row(at, "value"))
    }

    /// The elements of a `bytea[]` (none for NULL).
    pub fn octets_array(&self, at: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let column = self.column(at)?;
        if column.is_empty() {
            return Ok(Vec::new());
        }
        connection::bytes_array(column).ok_or_else(|| StoreError::row(at, "array"))
    }
}

impl Columns for Row {
    fn int(&self, at: usize) -> Result<i64, StoreError> {
        connection::Row::int_in(self.column(at)?).ok_or_else(|| StoreError::row(at, "number"))
    }

    fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        self.column(at)
    }
}

/// The connections of a store, which can all be ended from outside.
#[derive(Default)]
pub(super) struct Wires {
    open: Mutex<Vec<Weak<Socket>>>,
    /// Written while `open` is locked.
    abandoned: AtomicBool,
    /// How long the server may be silent on connections that are opened, ms; 0 for any time.
    silence_ms: AtomicU64,
    /// Moves with each answer of the server.
    heard: Wait,
}

impl Wires {
    /// Ends all connections: whoever reads or writes gets an error. There are no new ones.
    pub fn abandon(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.abandoned.store(true, Ordering::Relaxed);
        open.drain(..).filter_map(|socket| socket.upgrade()).for_each(|socket| socket.shut_down());
    }

    /// Connections that are opened from now on give a server up that is silent for longer than so.
    pub fn limit_silence(&self, at_most: Duration) {
        self.silence_ms.store(u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long the server has said nothing on any of them.
    pub fn unheard(&self) -> Duration {
        self.heard.unmoved()
    }

    fn limit(&self, connection: &mut Connection) -> Result<(), ConnectionError> {
        match self.silence_ms.load(Ordering::Relaxed) {
            0 => Ok(()),
            ms => connection.limit_silence(Duration::from_millis(ms)),
        }
    }

    fn go_on(&self) -> Result<(), StoreError> {
        if self.abandoned.load(Ordering::Relaxed) { Err(StoreError::Abandoned) } else { Ok(()) }
    }

    fn add(&self, socket: &Arc<Socket>) -> Result<(), StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.go_on()?;
        open.retain(|socket| socket.strong_count() > 0);
        open.push(Arc::downgrade(socket));
        Ok(())
    }
}

/// A connection of the store.
pub(super) struct Wire {
    connection: Connection,
    /// Those that it is one of.
    wires: Arc<Wires>,
    origin: Arc<Origin>,
    /// A socket of this machine.
    local: bool,
}

/// Who tells more of a connection that broke.
pub(super) enum Origin {
    /// The log of a private server.
    Log(PathBuf),
    /// Nobody; the server itself, as messages name it.
    Server(String),
}

/// Octets at the end of the server's log that are looked through for its reason.
const LOG_TAIL: u64 = 16 << 10;

/// The last line of the server's log that tells why it gave up, or the last at all; none if it
/// cannot be read.
fn reason(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let lines = || tail.lines().rev().filter(|line| !line.trim().is_empty());
    // Other sessions tell that they are ended because one was; what comes first in this order is
    // the cause.
    let of = |word: &'static str| lines().find(move |line| line.contains(word));
    Some(of("PANIC:").or_else(|| of("FATAL:")).or_else(|| lines().next())?.trim().to_owned())
}

/// Whether a line of the log, which has the SQLSTATE before what kind of line it is
/// ([`postgresql_server`]), tells of a full disk.
fn is_of_a_full_disk(line: &str) -> bool {
    let before = ["PANIC:", "FATAL:"].iter().find_map(|kind| line.split_once(*kind));
    before.is_some_and(|(before, _)| before.split_whitespace().next_back() == Some(DISK_FULL))
}

/// What helps where a server has gone.
const GONE: &str = "what was under way may have been done or not; start again when the server is there, and what is in \
                    the store is gone on with";

/// An error of a connection, as the store tells it.
fn failed(error: ConnectionError, wires: &Wires, origin: &Origin) -> StoreError {
    match (error, origin) {
        (ConnectionError::Refused { sqlstate, message, .. }, Origin::Log(_)) => {
            StoreError::Postgresql { sqlstate, message }
        }
        (ConnectionError::Refused { sqlstate, message, hint }, Origin::Server(server)) => {
            let advice = match sqlstate.as_str() {
                // Shut down by its administrator, by a crash; starting; too many clients.
                "57P01" | "57P02" | "57P03" => format!("; {GONE}"),
                // A limit that somebody has set ended a statement: those of the session are lifted
                // by its first statement, which has to be done before.
                "57014" | "55P03" => {
                    "; a limit of the role, the database or the server ends its statements: ALTER ROLE … SET \
                     statement_timeout = 0, and lock_timeout likewise"
                        .into()
                }
                "53300" => {
                    "; it has too few connections (max_connections, or the role's CONNECTION LIMIT)".into()
                }
                _ => hint.map(|hint| format!("; {hint}")).unwrap_or_default(),
            };
            StoreError::Postgresql { sqlstate, message: format!("{server}: {message}{advice}") }
        }
        (ConnectionError::Broken(error), origin) => {
            if let Err(abandoned) = wires.go_on() {
                return abandoned;
            }
            let mut sqlstate = "08006";
            let message = match origin {
                Origin::Log(log) => {
                    let words = reason(log);
                    if words.as_deref().is_some_and(is_of_a_full_disk) {
                        sqlstate = DISK_FULL;
                    }
                    let words = words.map(|words| format!("; {} says: {words}", log.display()));
                    format!("the connection broke: {error}{}", words.unwrap_or_default())
                }
                Origin::Server(server) => format!("{server}: the connection broke: {error}; {GONE}"),
            };
            StoreError::Postgresql { sqlstate: sqlstate.into(), message }
        }
        (ConnectionError::Silent(silence), origin) => {
            if let Err(abandoned) = wires.go_on() {
                return abandoned;
            }
            let place = match origin {
                Origin::Log(log) => log.parent().unwrap_or(log).display().to_string(),
                Origin::Server(server) => server.clone(),
            };
            StoreError::Silent { place, seconds: silence.as_secs_f32() }
        }
        (ConnectionError::GivenUp, _) => StoreError::Abandoned,
        (error, Origin::Log(_)) => StoreError::protocol(format!("PostgreSQL: {error}")),
        (error, Origin::Server(server)) => {
            StoreError::Refused { place: server.clone(), problem: error.to_string() }
        }
    }
}

impl Wire {
    /// Opens a connection with the private server on `socket`, as one of `wires`.
    pub fn open(
        socket: &Path,
        user: &str,
        origin: &Arc<Origin>,
        wires: &Arc<Wires>,
    ) -> Result<Wire, StoreError> {
        let failed = |error| failed(error, wires, origin);
        let socket = Socket::connect(Address::Unix(socket));
        let socket = Arc::new(socket.map_err(|error| failed(error.into()))?);
        // From here on it may have to wait.
        wires.add(&socket)?;
        let mut connection = Connection::open(socket, user, None, "postgres", "smsc").map_err(failed)?;
        wires.limit(&mut connection).map_err(failed)?;
        Ok(Wire { connection, wires: Arc::clone(wires), origin: Arc::clone(origin), local: true })
    }

    /// Opens a connection with a server that is there already, as one of `wires`.
    pub fn dial(settings: &Settings, origin: &Arc<Origin>, wires: &Arc<Wires>) -> Result<Wire, StoreError> {
        let parameters = [("application_name", "smsc"), ("client_encoding", "UTF8")];
        let mut add = |socket: &Arc<Socket>| wires.add(socket).map_err(|_| ConnectionError::GivenUp);
        let connection = settings.connect(&parameters, &mut add);
        let mut connection = connection.map_err(|error| failed(error, wires, origin))?;
        wires.limit(&mut connection).map_err(|error| failed(error, wires, origin))?;
        let local = settings.hosts.iter().all(|host| matches!(host.place, Place::Socket(_)));
        // Of several hosts it is one, and what is wrong is wrong there.
        let origin = match (&**origin, connection.host()) {
            (Origin::Server(server), Some(host)) if settings.hosts.len() > 1 => {
                Arc::new(Origin::Server(format!("{server} at {host}")))
            }
            _ => Arc::clone(origin),
        };
        Ok(Wire { connection, wires: Arc::clone(wires), origin, local })
    }

    /// The error that its server, or what is on it, will not do.
    pub fn refused(&self, problem: impl Into<String>) -> StoreError {
        let place = match &*self.origin {
            Origin::Log(log) => log.parent().unwrap_or(log).display().to_string(),
            Origin::Server(server) => server.clone(),
        };
        StoreError::Refused { place, problem: problem.into() }
    }

    /// The number of the server's process, as it told at the beginning.
    pub fn process(&self) -> Option<i32> {
        self.connection.process()
    }

    /// Whether TLS is spoken.
    pub fn is_encrypted(&self) -> bool {
        self.connection.is_encrypted()
    }

    /// Whether it goes through a socket of this machine.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// The rows of statements without parameters, as texts; "" for NULL.
    pub fn texts(&mut self, sql: &str) -> Result<Vec<Vec<String>>, StoreError> {
        self.connection.script(sql).map_err(|error| self.failed(error))?;
        let mut rows = Vec::new();
        self.until_ready(&mut |row| {
            let texts = (0..row.places.len()).map(|at| row.text(at)).collect::<Result<_, _>>()?;
            rows.push(texts);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first column of the first row, as a text; "" if there is none.
    pub fn one(&mut self, sql: &str) -> Result<String, StoreError> {
        Ok(self.texts(sql)?.into_iter().flatten().next().unwrap_or_default())
    }

    /// Fails if the store has been given up.
    pub fn go_on(&self) -> Result<(), StoreError> {
        self.wires.go_on()
    }

    fn failed(&self, error: ConnectionError) -> StoreError {
        failed(error, &self.wires, &self.origin)
    }

    /// Runs statements without parameters, and throws their rows away.
    pub fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.connection.script(sql).map_err(|error| self.failed(error))?;
        self.until_ready(&mut |_| Ok(()))
    }

    /// Has the server prepare `sql`, with parameters of these types, under `name`; its answer comes
    /// with the next.
    pub fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) -> Result<(), StoreError> {
        self.connection.prepare(name, sql, types).map_err(|error| self.failed(error))
    }

    /// Requests the execution of a prepared statement.
    pub fn execute(&mut self, name: &str, parameters: &[Parameter<'_>]) -> Result<(), StoreError> {
        let requested = self.connection.execute(name, parameters, Format::Binary);
        requested.map_err(|error| self.failed(error))
    }

    /// Requests a synchronisation: what was executed since the last one commits.
    pub fn sync(&mut self) {
        self.connection.sync();
    }

    /// What an answer of the connection tells the store, if anything.
    fn answer_of(&self, answer: connection::Answer) -> Result<Option<Answer>, StoreError> {
        self.wires.heard.ends();
        Ok(Some(match answer {
            connection::Answer::Row(row) => Answer::Row(Row::new(row)?),
            connection::Answer::Done(_) => Answer::Done,
            connection::Answer::Refused(error) => Answer::Refused(self.failed(error)),
            connection::Answer::Ready => Answer::Ready,
            connection::Answer::Parameters(_) | connection::Answer::Columns(_) => return Ok(None),
        }))
    }

    /// The next answer that is here already; `None` if none is whole.
    pub fn answer_here(&mut self) -> Result<Option<Answer>, StoreError> {
        while let Some(answer) = self.connection.answer_here().map_err(|error| self.failed(error))? {
            if let Some(answer) = self.answer_of(answer)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The next answer; waits for it.
    pub fn answer(&mut self) -> Result<Answer, StoreError> {
        loop {
            let answer = self.connection.answer().map_err(|error| self.failed(error))?;
            if let Some(answer) = self.answer_of(answer)? {
                return Ok(answer);
            }
        }
    }

    /// The next answer; waits for it until `deadline` at most. What can be sent is sent in any
    /// case.
    pub fn answer_until(&mut self, deadline: Instant) -> Result<Option<Answer>, StoreError> {
        loop {
            let answer = self.connection.answer_until(deadline).map_err(|error| self.failed(error))?;
            let Some(answer) = answer else { return Ok(None) };
            if let Some(answer) = self.answer_of(answer)? {
                return Ok(Some(answer));
            }
        }
    }

    /// Reads until the server is ready; every row goes to `each`. A refusal is given after that.
    pub fn until_ready(
        &mut self,
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut done = Ok(());
        loop {
            match self.answer() {
                Ok(Answer::Ready) => return done,
                Ok(Answer::Row(row)) if done.is_ok() => done = each(row),
                Ok(Answer::Refused(error)) => done = Err(error),
                Ok(_) => {}
                // A server that goes says why before.
                Err(error) => return done.and(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// On a full disk all that was said was "unexpected end of file".
    #[test]
    fn a_server_that_ends_is_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, log) = (dir.path().join("socket"), dir.path().join("postgresql.log"));
        let listener = UnixListener::bind(&socket).unwrap();
        let said = |wanted: &str| {
            let error = std::thread::scope(|scope| {
                scope.spawn(|| drop(listener.accept().unwrap()));
                let origin = Arc::new(Origin::Log(log.clone()));
                Wire::open(&socket, "somebody", &origin, &Arc::default()).err().unwrap().to_string()
            });
            assert!(error.contains("the connection broke: ") && error.contains(wanted), "{error}");
            error
        };
        assert!(!said("").contains("says"));
        let full = "12:00 [7] PANIC:  could not write to file: No space left on device";
        std::fs::write(&log, format!("12:00 [7] LOG:  ready\n{full}\n12:01 [8] WARNING:  terminating\n"))
            .unwrap();
        said(&format!("; {} says: {full} (SQLSTATE 08006)", log.display()));
        // The words of a line tell nothing: its SQLSTATE does.
        let full = "12:00 [7] 53100 PANIC:  could not write to file: No space left on device";
        std::fs::write(&log, format!("12:00 [7] 00000 LOG:  ready\n{full}\n")).unwrap();
        said(&format!("; {} says: {full} (SQLSTATE 53100)", log.display()));
        assert!(!is_of_a_full_disk("12:00 [7] XX000 PANIC:  no page 53100 PANIC:"));
    }
}
