//! PostgreSQL's wire protocol, version 3.0, as far as Fathom needs it: <https://www.postgresql.org/docs/current/protocol.html>.
//!
//! Why not a client library: the usual Rust clients bring an asynchronous runtime of some fifty crates and run the socket
//! on it; what is measured here is one blocking conversation on the calling thread, whose CPU time the thread's clock must
//! see. Simple queries, prepared statements and text results are six message types each way.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::engine::Value;

/// What the server refuses.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// The server's message, with its SQLSTATE.
    #[error("{message} (SQLSTATE {sqlstate}){}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Refused {
        /// Five characters that name the kind of error.
        sqlstate: String,
        /// In the server's words.
        message: String,
        /// What the server advises.
        hint: Option<String>,
    },
    /// The conversation broke.
    #[error("the connection to the server broke: {0}")]
    Broken(#[from] io::Error),
    /// The server said something that the protocol does not allow here.
    #[error("the server sent an unexpected message: {0}")]
    Unexpected(String),
}

/// A statement that the server has prepared.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    /// Number of parameters.
    pub parameters: usize,
    /// Type OIDs of the result's columns.
    pub columns: Vec<u32>,
}

/// One conversation with the server.
pub(super) struct Wire {
    stream: BufReader<UnixStream>,
    /// The messages to send next.
    out: Vec<u8>,
    /// The body of the message received last.
    body: Vec<u8>,
}

/// A message of more than this is a broken conversation, not a row (bytes).
const BODY_MAX: usize = 1 << 30;

impl Wire {
    /// Opens a conversation with the server on `socket`, as `user` with `database`.
    pub fn open(socket: &Path, user: &str, database: &str) -> Result<Self, WireError> {
        let stream = BufReader::with_capacity(64 * 1024, UnixStream::connect(socket)?);
        let mut wire = Wire { stream, out: Vec::new(), body: Vec::new() };
        let mut startup = 196_608_i32.to_be_bytes().to_vec(); // protocol 3.0
        for text in ["user", user, "database", database, "application_name", "fathom", ""] {
            startup.extend_from_slice(text.as_bytes());
            startup.push(0);
        }
        wire.out.extend_from_slice(&length(startup.len() + 4).to_be_bytes());
        wire.out.extend_from_slice(&startup);
        wire.flush()?;
        match wire.receive()? {
            b'R' if wire.body.starts_with(&[0; 4]) => {}
            b'R' => return Err(WireError::Unexpected("it asks for a password".into())),
            kind => return Err(wire.unexpected(kind)),
        }
        wire.until_ready(|_, _| ())?;
        Ok(wire)
    }

    /// Runs a script of statements, with `on_row` for each row's columns.
    pub fn script(&mut self, sql: &str, mut on_row: impl FnMut(Columns<'_>)) -> Result<(), WireError> {
        self.message(b'Q', |body| text(body, sql));
        self.flush()?;
        self.until_ready(|kind, body| {
            if kind == b'D' {
                on_row(Columns::new(body));
            }
        })
    }

    /// Has the server prepare a statement under `name`.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<Description, WireError> {
        self.message(b'P', |body| {
            text(body, name);
            text(body, sql);
            body.extend_from_slice(&0_i16.to_be_bytes()); // the server finds the parameters' types
        });
        self.message(b'D', |body| {
            body.push(b'S');
            text(body, name);
        });
        self.message(b'S', |_| ());
        self.flush()?;
        let mut description = Description::default();
        self.until_ready(|kind, body| match kind {
            b't' => description.parameters = usize::from(u16_at(body, 0)),
            b'T' => description.columns = column_types(body),
            _ => {}
        })?;
        Ok(description)
    }

    /// Executes a prepared statement with `on_row` for each row's columns. Gives the number of rows it returned, and the
    /// number it changed.
    pub fn execute(
        &mut self,
        name: &str,
        params: &[Value],
        mut on_row: impl FnMut(Columns<'_>),
    ) -> Result<(u64, u64), WireError> {
        self.message(b'B', |body| {
            text(body, ""); // the portal without name
            text(body, name);
            count(body, params.len());
            for param in params {
                let binary = matches!(param, Value::Blob(_));
                body.extend_from_slice(&i16::from(binary).to_be_bytes());
            }
            count(body, params.len());
            params.iter().for_each(|param| value(body, param));
            body.extend_from_slice(&0_i16.to_be_bytes()); // results as text
        });
        self.message(b'E', |body| {
            text(body, "");
            body.extend_from_slice(&0_i32.to_be_bytes()); // all rows
        });
        self.message(b'S', |_| ());
        self.flush()?;
        let (mut rows, mut changed) = (0, 0);
        self.until_ready(|kind, body| match kind {
            b'D' => {
                rows += 1;
                on_row(Columns::new(body));
            }
            b'C' => changed = changed_rows(body),
            _ => {}
        })?;
        Ok((rows, changed))
    }

    /// Says goodbye.
    pub fn close(mut self) -> Result<(), WireError> {
        self.message(b'X', |_| ());
        Ok(self.flush()?)
    }

    /// Adds a message to those to send.
    fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.out.push(kind);
        let begin = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        fill(&mut self.out);
        let bytes = length(self.out.len() - begin);
        self.out[begin..begin + 4].copy_from_slice(&bytes.to_be_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.get_mut().write_all(&self.out);
        self.out.clear();
        sent
    }

    /// Receives one message into `body` and gives its kind.
    fn receive(&mut self) -> Result<u8, WireError> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let bytes = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(bytes) = bytes.checked_sub(4).filter(|&bytes| bytes <= BODY_MAX) else {
            return Err(WireError::Unexpected(format!("{} of {bytes} bytes", char::from(head[0]))));
        };
        self.body.resize(bytes, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(head[0])
    }

    /// Receives messages until the server is ready for the next query. An error is given after that, so that the
    /// conversation can go on; at the conversation's start it is final.
    fn until_ready(&mut self, mut on_message: impl FnMut(u8, &[u8])) -> Result<(), WireError> {
        let mut refused = None;
        loop {
            match self.receive() {
                Ok(b'Z') => return refused.map_or(Ok(()), Err),
                Ok(b'E') => refused = Some(error(&self.body)),
                Ok(b'G' | b'H' | b'W') => {
                    return Err(WireError::Unexpected("COPY is not supported".into()));
                }
                Ok(kind) => on_message(kind, &self.body),
                // A FATAL error ends the conversation: it says more than that the socket closed.
                Err(broken) => return Err(refused.unwrap_or(broken)),
            }
        }
    }

    fn unexpected(&self, kind: u8) -> WireError {
        match kind {
            b'E' => error(&self.body),
            kind => WireError::Unexpected(format!("{:?}", char::from(kind))),
        }
    }
}

/// The columns of a row in text form; NULL is `None`.
pub(super) struct Columns<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Columns<'a> {
    fn new(body: &'a [u8]) -> Self {
        Columns { rest: body.get(2..).unwrap_or_default(), left: u16_at(body, 0) }
    }
}

impl<'a> Iterator for Columns<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (bytes, rest) = self.rest.split_first_chunk::<4>()?;
        let bytes = i32::from_be_bytes(*bytes);
        let Ok(bytes) = usize::try_from(bytes) else {
            self.rest = rest;
            return Some(None); // -1: NULL
        };
        let (column, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(Some(column))
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX) // the server refuses what is longer than 1 GiB
}

fn text(body: &mut Vec<u8>, text: &str) {
    // A NUL would end the text early and shift what follows; the server refuses the word that stands for it.
    body.extend(text.bytes().map(|byte| if byte == 0 { b'?' } else { byte }));
    body.push(0);
}

fn count(body: &mut Vec<u8>, count: usize) {
    body.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

/// A parameter's length and value: text, or the bytes themselves for a blob.
fn value(body: &mut Vec<u8>, value: &Value) {
    let begin = body.len();
    body.extend_from_slice(&[0; 4]);
    match value {
        Value::Null => {
            body[begin..].copy_from_slice(&(-1_i32).to_be_bytes());
            return;
        }
        // Writing to a vector cannot fail.
        Value::Integer(value) => drop(write!(body, "{value}")),
        Value::Real(value) if value.is_infinite() => {
            drop(write!(body, "{}Infinity", if *value < 0.0 { "-" } else { "" }));
        }
        Value::Real(value) => drop(write!(body, "{value}")),
        Value::Text(value) => body.extend_from_slice(value.as_bytes()),
        Value::Blob(value) => body.extend_from_slice(value),
    }
    let bytes = length(body.len() - begin - 4);
    body[begin..begin + 4].copy_from_slice(&bytes.to_be_bytes());
}

fn u16_at(body: &[u8], at: usize) -> u16 {
    body.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// The type OIDs in a RowDescription: per column a name, 4 + 2 bytes of origin, the type, 2 + 4 + 2 bytes more.
fn column_types(body: &[u8]) -> Vec<u32> {
    let mut rest = body.get(2..).unwrap_or_default();
    let mut types = Vec::new();
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let Some(field) = rest.get(end + 1..end + 19) else { break };
        types.push(u32::from_be_bytes([field[6], field[7], field[8], field[9]]));
        rest = &rest[end + 19..];
    }
    types
}

/// The number in `INSERT 0 5`, `UPDATE 5`, `DELETE 5`; 0 for other commands.
fn changed_rows(body: &[u8]) -> u64 {
    let tag = String::from_utf8_lossy(body);
    let mut words = tag.trim_end_matches('\0').split(' ');
    match words.next() {
        Some("INSERT" | "UPDATE" | "DELETE" | "MERGE") => {
            words.next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

fn error(body: &[u8]) -> WireError {
    let (mut sqlstate, mut message, mut hint) = (String::new(), String::new(), None);
    for field in body.split(|&byte| byte == 0) {
        let Some((kind, words)) = field.split_first() else { continue };
        let words = String::from_utf8_lossy(words).into_owned();
        match kind {
            b'C' => sqlstate = words,
            b'M' => message = words,
            b'D' => hint = Some(words),
            b'H' => hint = Some(hint.map_or(words.clone(), |detail| format!("{detail}; {words}"))),
            _ => {}
        }
    }
    WireError::Refused { sqlstate, message, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn command_tags_tell_the_rows_that_changed() {
        assert_eq!(changed_rows(b"INSERT 0 5\0"), 5);
        assert_eq!(changed_rows(b"UPDATE 12\0"), 12);
        assert_eq!(changed_rows(b"SELECT 9\0"), 0);
        assert_eq!(changed_rows(b"BEGIN\0"), 0);
    }

    #[test]
    fn an_error_has_its_state_message_detail_and_hint() {
        let error = error(b"SERROR\0C23505\0Mduplicate key\0DKey (id)=(1) exists.\0HUse another.\0\0");
        let expected = "duplicate key (SQLSTATE 23505); Key (id)=(1) exists.; Use another.";
        assert_eq!(error.to_string(), expected);
    }

    proptest! {
        /// Whatever bytes come, reading them ends and stays within them.
        #[test]
        fn no_message_makes_the_readers_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let columns = Columns::new(&body);
            let bytes: usize = columns.flatten().map(<[u8]>::len).sum();
            prop_assert!(bytes <= body.len());
            prop_assert!(column_types(&body).len() <= body.len());
            let _ = (changed_rows(&body), error(&body).to_string());
        }
    }
}
