//! PostgreSQL's protocol, version 3, as far as the store needs it: prepared statements with everything in binary, pipelined.
//! <https://www.postgresql.org/docs/current/protocol.html>
//!
//! No client library: what is compared is the server, and the usual libraries bring a runtime of their own between.

use crate::model::{Columns, Value};
use crate::store::StoreError;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Type numbers (`pg_type.dat`).
pub(super) mod oid {
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const TEXT: u32 = 25;
    pub const BYTEA_ARRAY: u32 = 1001;
    pub const INT8_ARRAY: u32 = 1016;
}

/// A message of the server of more than this is a broken conversation.
const MESSAGE_MAX: usize = 1 << 28;

/// A parameter in binary.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parameter<'a> {
    Value(Value<'a>),
    /// `bytea[]`
    Array(&'a [Vec<u8>]),
    /// `bigint[]`
    Ints(&'a [i64]),
}

/// What the server says next.
#[derive(Debug)]
pub(super) enum Answer {
    /// One row: where its columns lie in the row's octets.
    Row(Row),
    /// The statement is done.
    Done,
    /// The server refused; it says nothing more until the next synchronisation.
    Refused { sqlstate: String, message: String },
    /// Synchronised.
    Ready,
}

/// A row, copied out of the conversation.
#[derive(Debug)]
pub(super) struct Row {
    octets: Vec<u8>,
    columns: Vec<(usize, usize)>,
    /// Column that the model's first column is.
    first: usize,
}

impl Row {
    /// The same, seen from column `first` on.
    pub fn seen_from(mut self, first: usize) -> Row {
        self.first = first;
        self
    }

    fn column(&self, at: usize) -> Result<&[u8], StoreError> {
        let column = self.columns.get(self.first + at).and_then(|&(from, to)| self.octets.get(from..to));
        column.ok_or_else(|| StoreError::row(at, "value"))
    }

    /// The elements of a `bytea[]` (none for NULL), of which `write` makes something.
    pub fn array<T>(&self, at: usize, mut each: impl FnMut(&[u8]) -> T) -> Result<Vec<T>, StoreError> {
        let wrong = || StoreError::row(at, "array");
        let column = self.column(at)?;
        let word = |from: usize| Some(i32::from_be_bytes(column.get(from..from + 4)?.try_into().ok()?));
        // Dimensions, flags, type; then length and lower bound of the one dimension.
        if column.is_empty() || word(0) == Some(0) {
            return Ok(Vec::new());
        }
        let count = word(12).ok_or_else(wrong)?;
        let mut from = 20;
        let mut elements = Vec::new();
        for _ in 0..count {
            let length = word(from).and_then(|it| usize::try_from(it).ok()).ok_or_else(wrong)?;
            elements.push(each(column.get(from + 4..from + 4 + length).ok_or_else(wrong)?));
            from += 4 + length;
        }
        Ok(elements)
    }
}

impl Columns for Row {
    fn int(&self, at: usize) -> Result<i64, StoreError> {
        let column = self.column(at)?;
        match *column {
            [a, b] => Ok(i16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => Ok(i32::from_be_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Ok(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
            _ => Err(StoreError::row(at, "number")),
        }
    }

    fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        self.column(at)
    }
}

/// The conversations of a store, which can all be ended from outside.
#[derive(Default)]
pub(super) struct Wires {
    open: Mutex<Vec<Weak<UnixStream>>>,
    /// Written while `open` is locked.
    abandoned: AtomicBool,
}

impl Wires {
    /// Ends all conversations: whoever reads or writes gets an error. There are no new ones.
    pub fn abandon(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.abandoned.store(true, Ordering::Relaxed);
        for stream in open.drain(..).filter_map(|it| it.upgrade()) {
            // One that is closed already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn go_on(&self) -> Result<(), StoreError> {
        if self.abandoned.load(Ordering::Relaxed) { Err(StoreError::Abandoned) } else { Ok(()) }
    }

    fn add(&self, stream: &Arc<UnixStream>) -> Result<(), StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.go_on()?;
        open.retain(|it| it.strong_count() > 0);
        open.push(Arc::downgrade(stream));
        Ok(())
    }
}

/// A conversation.
pub(super) struct Wire {
    stream: Arc<UnixStream>,
    /// Those that it is one of.
    wires: Arc<Wires>,
    out: Vec<u8>,
    /// `out[..sent]` is on its way.
    sent: usize,
    input: Vec<u8>,
    /// `input[..taken]` has been looked at.
    taken: usize,
    /// The server's log, which knows more than a broken connection.
    log: PathBuf,
}

fn broken(error: std::io::Error) -> StoreError {
    StoreError::Postgresql { sqlstate: "08006".into(), message: format!("the connection broke: {error}") }
}

/// How long one wait for the socket may take where nothing is to be done meanwhile; then it is waited for again.
const LONG: Duration = Duration::from_secs(3600);
/// Octets at the end of the server's log that are looked through for its reason.
const LOG_TAIL: u64 = 16 << 10;

/// The last line of the server's log that tells why it gave up, or the last at all; none if it cannot be read.
fn reason(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL))).ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let lines = || tail.lines().rev().filter(|it| !it.trim().is_empty());
    // Other sessions tell that they are ended because one was; what comes first in this order is the cause.
    let of = |word: &'static str| lines().find(move |it| it.contains(word));
    Some(of("PANIC:").or_else(|| of("FATAL:")).or_else(|| lines().next())?.trim().to_owned())
}

impl Wire {
    /// Opens a conversation with the server on `socket`, as one of `wires`.
    /// Its log is for errors.
    pub fn open(socket: &Path, user: &str, log: &Path, wires: &Arc<Wires>) -> Result<Wire, StoreError> {
        let stream = Arc::new(UnixStream::connect(socket).map_err(broken)?);
        // From here on it may have to wait.
        wires.add(&stream)?;
        let (wires, log) = (Arc::clone(wires), log.to_owned());
        let mut wire = Wire { stream, wires, out: Vec::new(), sent: 0, input: Vec::new(), taken: 0, log };
        let mut start = 196_608_i32.to_be_bytes().to_vec(); // protocol 3.0
        for word in ["user", user, "database", "postgres", "application_name", "smsc", ""] {
            start.extend_from_slice(word.as_bytes());
            start.push(0);
        }
        wire.out.extend_from_slice(&length(start.len() + 4));
        wire.out.extend_from_slice(&start);
        wire.until_ready(&mut |_| Ok(()))?;
        Ok(wire)
    }

    /// Fails if the store has been given up.
    pub fn go_on(&self) -> Result<(), StoreError> {
        self.wires.go_on()
    }

    /// A connection that was lost, with the server's reason.
    fn broke(&self, error: std::io::Error) -> StoreError {
        if let Err(abandoned) = self.go_on() {
            return abandoned;
        }
        let said = reason(&self.log);
        let said = said.map_or(String::new(), |it| format!("; {} says: {it}", self.log.display()));
        broken(std::io::Error::new(error.kind(), format!("{error}{said}")))
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.out.push(kind);
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        body(&mut self.out);
        let octets = length(self.out.len() - at);
        self.out[at..at + 4].copy_from_slice(&octets);
    }

    /// Runs statements without parameters, and throws their rows away.
    pub fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.message(b'Q', |out| text(out, sql));
        self.until_ready(&mut |_| Ok(()))
    }

    /// Has the server prepare `sql`, with parameters of these types, under `name`; its answer comes with the next.
    pub fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) {
        self.message(b'P', |out| {
            text(out, name);
            text(out, sql);
            // A statement has at most a few dozen parameters.
            out.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
        });
    }

    /// Asks for the execution of a prepared statement.
    pub fn execute(&mut self, name: &str, parameters: &[Parameter<'_>]) {
        self.message(b'B', |out| {
            out.push(0); // the portal without a name
            text(out, name);
            out.extend_from_slice(&[0, 1, 0, 1]); // all parameters in binary
            out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
            parameters.iter().for_each(|it| parameter(out, *it));
            out.extend_from_slice(&[0, 1, 0, 1]); // all results in binary
        });
        self.message(b'E', |out| out.extend_from_slice(&[0; 5])); // that portal, all rows
    }

    /// Asks for a synchronisation: what was executed since the last one commits.
    pub fn sync(&mut self) {
        self.message(b'S', |_| ());
    }

    /// Sends what the socket takes at once. A server that waits for us to read gets its way by [`Wire::answer`].
    fn send_some(&mut self) -> Result<(), StoreError> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: the slice is live for the call, and its length is passed with it.
            let sent =
                unsafe { libc::send(self.stream.as_raw_fd(), rest.as_ptr().cast(), rest.len(), flags) };
            match usize::try_from(sent) {
                Ok(sent) => self.sent += sent,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    match error.kind() {
                        ErrorKind::WouldBlock => return Ok(()),
                        ErrorKind::Interrupted => {}
                        _ => return Err(self.broke(error)),
                    }
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// The first whole message that was received: its kind and where its body lies.
    fn received(&self) -> Result<Option<(u8, usize, usize)>, StoreError> {
        let rest = &self.input[self.taken..];
        let Some((&kind, octets)) =
            rest.split_first().and_then(|(kind, rest)| Some((kind, rest.first_chunk::<4>()?)))
        else {
            return Ok(None);
        };
        let octets = u32::from_be_bytes(*octets) as usize;
        if !(4..=MESSAGE_MAX).contains(&octets) {
            return Err(StoreError::protocol(format!("PostgreSQL sent a message of {octets} octets")));
        }
        let end = self.taken + 1 + octets;
        Ok((end <= self.input.len()).then_some((kind, self.taken + 5, end)))
    }

    /// The next answer that is here already; `None` if none is whole.
    pub fn answer_here(&mut self) -> Result<Option<Answer>, StoreError> {
        while let Some((kind, from, to)) = self.received()? {
            self.taken = to;
            let body = &self.input[from..to];
            let answer = match kind {
                b'D' => Answer::Row(row(body)?),
                b'C' | b'I' => Answer::Done,
                b'E' => {
                    let field = |kind: u8| {
                        let mut fields = body.split(|&octet| octet == 0);
                        let field = fields.find(|it| it.first() == Some(&kind)).and_then(|it| it.get(1..));
                        String::from_utf8_lossy(field.unwrap_or_default()).into_owned()
                    };
                    Answer::Refused { sqlstate: field(b'C'), message: field(b'M') }
                }
                b'Z' => Answer::Ready,
                _ => continue,
            };
            return Ok(Some(answer));
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        Ok(None)
    }

    /// The next answer; waits for it.
    pub fn answer(&mut self) -> Result<Answer, StoreError> {
        loop {
            if let Some(answer) = self.answer_here()? {
                return Ok(answer);
            }
            self.send_some()?;
            // In the middle of a group the server keeps its answers and reads on: to read only would be to wait for each other.
            if self.sent < self.out.len() && self.ready(LONG)? & libc::POLLIN == 0 {
                continue;
            }
            self.read_some()?;
        }
    }

    /// The next answer; waits for it until `deadline` at most. What can be sent is sent in any case.
    pub fn answer_until(&mut self, deadline: Instant) -> Result<Option<Answer>, StoreError> {
        loop {
            if let Some(answer) = self.answer_here()? {
                return Ok(Some(answer));
            }
            self.send_some()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ready(left)? & libc::POLLIN != 0 {
                self.read_some()?;
            } else if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Waits until the socket has something to be read, or takes what is left to be sent: poll(2)'s word for which of both it is,
    /// 0 after `at_most`.
    fn ready(&self, at_most: Duration) -> Result<libc::c_short, StoreError> {
        let unsent = if self.sent < self.out.len() { libc::POLLOUT } else { 0 };
        let mut socket =
            libc::pollfd { fd: self.stream.as_raw_fd(), events: libc::POLLIN | unsent, revents: 0 };
        // A deadline is a year away at most; nanoseconds of a second fit.
        let at_most = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: one structure is given and its number is 1; both pointers live for the call.
        let ready = unsafe { libc::ppoll(&mut socket, 1, &at_most, std::ptr::null()) };
        if ready < 0 {
            let error = std::io::Error::last_os_error();
            return if error.kind() == ErrorKind::Interrupted { Ok(0) } else { Err(self.broke(error)) };
        }
        // A conversation that has ended is told by reading.
        let ended = libc::POLLHUP | libc::POLLERR;
        Ok(if socket.revents & ended != 0 { socket.revents | libc::POLLIN } else { socket.revents })
    }

    /// Reads what is there; waits if there is nothing.
    fn read_some(&mut self) -> Result<(), StoreError> {
        let filled = self.input.len();
        self.input.resize(filled + (64 << 10), 0);
        let read = match (&*self.stream).read(&mut self.input[filled..]) {
            Ok(0) => Err(std::io::Error::from(ErrorKind::UnexpectedEof)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            other => other,
        };
        self.input.truncate(filled + read.as_ref().copied().unwrap_or(0));
        read.map(drop).map_err(|error| self.broke(error))
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
                Ok(Answer::Refused { sqlstate, message }) => {
                    done = Err(StoreError::Postgresql { sqlstate, message });
                }
                Ok(_) => {}
                // A server that goes says why before.
                Err(error) => return done.and(Err(error)),
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.out.clear();
        self.sent = 0;
        self.message(b'X', |_| ());
        // Only politeness: a server that takes nothing is not waited for.
        let _ = self.send_some();
    }
}

fn length(octets: usize) -> [u8; 4] {
    // The server refuses what is longer than 1 GiB.
    u32::try_from(octets).unwrap_or(u32::MAX).to_be_bytes()
}

/// A text without NUL: all are the store's own or checked addresses.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|&octet| octet != 0));
    out.push(0);
}

fn parameter(out: &mut Vec<u8>, parameter: Parameter<'_>) {
    match parameter {
        Parameter::Value(Value::Int(number)) => {
            out.extend_from_slice(&length(8));
            out.extend_from_slice(&number.to_be_bytes());
        }
        Parameter::Value(Value::Text(text)) => {
            out.extend_from_slice(&length(text.len()));
            out.extend_from_slice(text.as_bytes());
        }
        Parameter::Value(Value::Bytes(octets)) => {
            out.extend_from_slice(&length(octets.len()));
            out.extend_from_slice(octets);
        }
        Parameter::Array(elements) => {
            array(out, oid::BYTEA, elements.len(), elements.iter().map(|it| it.len()).sum());
            for element in elements {
                out.extend_from_slice(&length(element.len()));
                out.extend_from_slice(element);
            }
        }
        Parameter::Ints(numbers) => {
            array(out, oid::INT8, numbers.len(), 8 * numbers.len());
            for number in numbers {
                out.extend_from_slice(&length(8));
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
    }
}

/// The head of an array of so many elements that have so many octets together, without their lengths.
fn array(out: &mut Vec<u8>, of: u32, count: usize, octets: usize) {
    out.extend_from_slice(&length(20 + 4 * count + octets));
    // One dimension, no NULL, type; length, lower bound.
    out.extend_from_slice(&length(1));
    out.extend_from_slice(&length(0));
    out.extend_from_slice(&of.to_be_bytes());
    out.extend_from_slice(&length(count));
    out.extend_from_slice(&length(1));
}

/// A DataRow: number of columns, and each with its length; −1 for NULL, which the model does not have and reads as empty.
fn row(body: &[u8]) -> Result<Row, StoreError> {
    let wrong = || StoreError::protocol("PostgreSQL sent a row that is cut off");
    let count = u16::from_be_bytes(*body.first_chunk::<2>().ok_or_else(wrong)?);
    let mut columns = Vec::with_capacity(count.into());
    let mut from = 2;
    for _ in 0..count {
        let octets = body.get(from..from + 4).and_then(|it| it.try_into().ok()).ok_or_else(wrong)?;
        let octets = usize::try_from(i32::from_be_bytes(octets)).unwrap_or(0);
        from += 4;
        if from + octets > body.len() {
            return Err(wrong());
        }
        columns.push((from, from + octets));
        from += octets;
    }
    Ok(Row { octets: body.to_vec(), columns, first: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
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
                Wire::open(&socket, "somebody", &log, &Arc::default()).err().unwrap().to_string()
            });
            assert!(error.contains("the connection broke: ") && error.contains(wanted), "{error}");
            error
        };
        assert!(!said("").contains("says"));
        let full = "12:00 [7] PANIC:  could not write to file: No space left on device";
        std::fs::write(&log, format!("12:00 [7] LOG:  ready\n{full}\n12:01 [8] WARNING:  terminating\n"))
            .unwrap();
        said(&format!("; {} says: {full} (SQLSTATE 08006)", log.display()));
    }

    /// Whoever has something else to do at a time must not wait for a server longer than that, and gets what it says later.
    #[test]
    fn an_answer_is_waited_for_until_a_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, log) = (dir.path().join("socket"), dir.path().join("postgresql.log"));
        let listener = UnixListener::bind(&socket).unwrap();
        let (go_on, goes_on) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut server = listener.accept().unwrap().0;
                server.write_all(b"Z\0\0\0\x05I").unwrap();
                // Half an answer, which is none yet.
                server.write_all(b"C\0\0\0").unwrap();
                goes_on.recv().unwrap();
                server.write_all(b"\x04Z\0\0\0\x05I").unwrap();
                let _ = goes_on.recv();
            });
            let mut wire = Wire::open(&socket, "somebody", &log, &Arc::default()).unwrap();
            for ms in [0, 0, 20] {
                let deadline = Instant::now() + Duration::from_millis(ms);
                assert!(wire.answer_until(deadline).unwrap().is_none());
                assert!(Instant::now() >= deadline);
            }
            go_on.send(()).unwrap();
            let far = Instant::now() + Duration::from_secs(600);
            assert!(matches!(wire.answer_until(far).unwrap(), Some(Answer::Done)));
            assert!(matches!(wire.answer_until(far).unwrap(), Some(Answer::Ready)));
            drop(go_on);
        });
    }
}
