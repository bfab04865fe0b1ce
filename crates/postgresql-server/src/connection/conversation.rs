//! What is said on a connection: requests are written down, and sent by whoever waits for an
//! answer.

use super::error::ConnectionError;
use super::parameter::{Format, Parameter, bind, refused_value};
use super::row::Row;
use super::socket::Socket;
use super::tls::Tls;
use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use rustix::event::PollFlags;
use rustix::net::SendFlags;
use rustix::net::sockopt::Timeout;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A message of the server of more octets than this is a broken connection.
const MESSAGE_MAX: i32 = 1 << 28;
/// The same, before the server has let anybody in.
const GREETING_MAX: i32 = 1 << 16;
/// Octets that are read at a time.
const CHUNK: usize = 64 << 10;
/// Longer than any wait.
const LONG: Duration = Duration::from_secs(31_536_000);

/// What the server says next.
#[derive(Debug)]
pub enum Answer {
    /// A row of the statement that is being executed.
    Row(Row),
    /// The statement is done; the number of rows that it inserted, updated or deleted.
    Done(u64),
    /// Types of the parameters of a described statement, by their numbers in `pg_type`.
    Parameters(Vec<u32>),
    /// Types of the columns of a described statement's rows, or of those that a script gives.
    Columns(Vec<u32>),
    /// The server refused; it says nothing more until the next synchronisation.
    Refused(ConnectionError),
    /// Synchronised: what came before has committed or was rolled back.
    Ready,
}

/// A connection.
pub struct Connection {
    socket: Arc<Socket>,
    /// What stands between socket and messages, if anything.
    tls: Option<Box<Tls>>,
    /// What has not been sent.
    out: BytesMut,
    /// What has not been looked at.
    input: BytesMut,
    chunk: Box<[u8]>,
    /// Octets of a message at most.
    message_max: i32,
    /// Until when a message is waited for.
    deadline: Option<Instant>,
    /// How long a server that owes an answer may say nothing.
    silence: Option<Duration>,
    /// Number of the server's process, as it has told at the beginning.
    process: Option<i32>,
    /// The host that it is with, of those of a URL.
    pub(super) host: Option<String>,
}

impl Connection {
    /// A connection on which nothing has been said.
    pub(super) fn on(socket: Arc<Socket>) -> Connection {
        let chunk = vec![0; CHUNK].into_boxed_slice();
        let (out, input) = (BytesMut::new(), BytesMut::new());
        Connection {
            socket,
            tls: None,
            out,
            input,
            chunk,
            message_max: GREETING_MAX,
            deadline: None,
            silence: None,
            process: None,
            host: None,
        }
    }

    /// Until when the greeting may last; none once it is over.
    pub(super) fn limit(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
        self.message_max = if deadline.is_some() { GREETING_MAX } else { MESSAGE_MAX };
    }

    /// From now on whoever waits for an answer gives up once the server has said nothing for so
    /// long ([`ConnectionError::Silent`]); not one that has a deadline of its own
    /// ([`Connection::answer_until`]). Afterwards the connection is of no use.
    ///
    /// The socket keeps the time, so that an answer that comes costs no call more.
    ///
    /// # Errors
    /// The socket takes no limit.
    pub fn limit_silence(&mut self, at_most: Duration) -> Result<(), ConnectionError> {
        let limit = Some(at_most);
        rustix::net::sockopt::set_socket_timeout(&*self.socket, Timeout::Recv, limit)
            .map_err(|error| ConnectionError::Broken(error.into()))?;
        self.silence = limit;
        Ok(())
    }

    /// The number of the server's process, as it has told; a pooler in between tells another.
    #[must_use]
    pub fn process(&self) -> Option<i32> {
        self.process
    }

    /// The host that it is with, of those of the URL by which it was made.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Whether TLS is spoken.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the server's certificate was checked.
    pub(super) fn is_checked(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.checked)
    }

    /// What a password's proof can be bound to.
    pub(super) fn end_point(&self) -> Option<Vec<u8>> {
        self.tls.as_ref()?.end_point()
    }

    /// The next octet, and none of those behind it.
    pub(super) fn one_octet(&mut self) -> Result<u8, ConnectionError> {
        loop {
            self.send_some()?;
            if !self.wait()?.contains(PollFlags::IN) {
                continue;
            }
            let mut octet = [0];
            match self.socket.read(&mut octet) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.map(|_| octet[0]).map_err(Into::into),
            }
        }
    }

    /// Shakes hands; from then on all goes through it.
    pub(super) fn secure(&mut self, tls: Tls) -> Result<(), ConnectionError> {
        self.tls = Some(Box::new(tls));
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.send_some()?;
            if self.wait()?.contains(PollFlags::IN) {
                // Who hangs up in the middle speaks no TLS that we do.
                self.read_some()
                    .map_err(|error| match error {
                        ConnectionError::Broken(error) => ConnectionError::Tls(format!("handshake: {error}")),
                        error => error,
                    })
                    .inspect_err(|_| drop(self.send_some()))?;
            }
        }
        Ok(())
    }

    /// Waits as [`Connection::poll`] does, within what the greeting may last, or a server may be
    /// silent.
    fn wait(&self) -> Result<PollFlags, ConnectionError> {
        let begin = Instant::now();
        let left = match (self.deadline, self.silence) {
            (Some(deadline), _) => deadline.saturating_duration_since(begin),
            (None, silence) => silence.unwrap_or(LONG),
        };
        if left.is_zero() {
            return Err(too_late());
        }
        let ready = self.poll(left)?;
        match self.silence {
            Some(silence) if ready.is_empty() && self.deadline.is_none() && begin.elapsed() >= silence => {
                Err(ConnectionError::Silent(silence))
            }
            _ => Ok(ready),
        }
    }

    /// Whether something waits to be sent.
    fn has_unsent(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Writes a request down, whole or not at all.
    pub(super) fn write(
        &mut self,
        fill: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), ConnectionError> {
        let before = self.out.len();
        fill(&mut self.out).map_err(|error| {
            self.out.truncate(before);
            ConnectionError::Request(error.to_string())
        })
    }

    /// Requests the execution of statements without parameters. Their rows come as text, and
    /// [`Answer::Ready`] after the last.
    ///
    /// # Errors
    /// The text has a NUL.
    pub fn script(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.write(|out| frontend::query(sql, out))
    }

    /// Requests that `sql` be prepared under `name`, with parameters of these types; the server
    /// finds the others' types. A success is told by nothing, a failure by [`Answer::Refused`].
    ///
    /// # Errors
    /// A text has a NUL.
    pub fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) -> Result<(), ConnectionError> {
        self.write(|out| frontend::parse(name, sql, types.iter().copied(), out))
    }

    /// Requests [`Answer::Parameters`] and, if it gives rows, [`Answer::Columns`] of a statement.
    ///
    /// # Errors
    /// The name has a NUL.
    pub fn describe(&mut self, name: &str) -> Result<(), ConnectionError> {
        self.write(|out| frontend::describe(b'S', name, out))
    }

    /// Requests the execution of a prepared statement: its [`Answer::Row`]s, then
    /// [`Answer::Done`].
    ///
    /// # Errors
    /// The name has a NUL; a parameter is longer than the protocol allows.
    pub fn execute(
        &mut self,
        name: &str,
        parameters: &[Parameter<'_>],
        rows: Format,
    ) -> Result<(), ConnectionError> {
        let before = self.out.len();
        let bound = bind(name, parameters, rows, &mut self.out)
            .and_then(|()| frontend::execute("", 0, &mut self.out).map_err(refused_value));
        bound.inspect_err(|_| self.out.truncate(before))
    }

    /// Requests a synchronisation: what was executed since the last one commits.
    pub fn sync(&mut self) {
        frontend::sync(&mut self.out);
    }

    /// Says goodbye, and waits until it is on its way.
    ///
    /// # Errors
    /// The connection broke.
    pub fn close(mut self) -> Result<(), ConnectionError> {
        frontend::terminate(&mut self.out);
        while self.has_unsent() {
            self.send_some()?;
            if self.has_unsent() {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Sends what the socket takes at once. A server that waits for us to read gets its way by
    /// [`Connection::answer`].
    fn send_some(&mut self) -> Result<(), ConnectionError> {
        loop {
            let octets = match &mut self.tls {
                None => &mut self.out,
                Some(tls) => tls.encrypt(&mut self.out)?,
            };
            if octets.is_empty() {
                return Ok(());
            }
            match rustix::net::send(&*self.socket, octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => octets.advance(sent),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(ConnectionError::Broken(error.into())),
            }
        }
    }

    /// The next message that is here already, if one is whole.
    fn message_here(&mut self) -> Result<Option<Message>, ConnectionError> {
        let header = Header::parse(&self.input)?;
        if let Some(header) = header
            && header.len() > self.message_max
        {
            let told = format!("{} of {} octets", char::from(header.tag()), header.len());
            return Err(ConnectionError::Unexpected(told));
        }
        let message = Message::parse(&mut self.input)?;
        if let Some(Message::BackendKeyData(body)) = &message {
            self.process = Some(body.process_id());
        }
        Ok(message)
    }

    /// The next message; waits for it.
    pub(super) fn message(&mut self) -> Result<Message, ConnectionError> {
        // One that never ends with its greeting is not waited for, either.
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(too_late());
        }
        loop {
            if let Some(message) = self.message_here()? {
                return Ok(message);
            }
            self.send_some()?;
            // In the middle of a group the server keeps its answers and reads on: to read only
            // would be to wait for each other.
            if (self.has_unsent() || self.deadline.is_some()) && !self.wait()?.contains(PollFlags::IN) {
                continue;
            }
            self.read_some()?;
        }
    }

    /// The next answer that is here already; `None` if none is whole.
    ///
    /// # Errors
    /// The connection broke.
    pub fn answer_here(&mut self) -> Result<Option<Answer>, ConnectionError> {
        while let Some(message) = self.message_here()? {
            if let Some(answer) = answer_of(message)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The next answer; sends what was requested, and waits.
    ///
    /// # Errors
    /// The connection broke.
    pub fn answer(&mut self) -> Result<Answer, ConnectionError> {
        loop {
            let message = self.message()?;
            if let Some(answer) = answer_of(message)? {
                return Ok(answer);
            }
        }
    }

    /// The next answer; waits for it until `deadline` at most. What can be sent is sent in any
    /// case.
    ///
    /// # Errors
    /// The connection broke.
    pub fn answer_until(&mut self, deadline: Instant) -> Result<Option<Answer>, ConnectionError> {
        loop {
            if let Some(answer) = self.answer_here()? {
                return Ok(Some(answer));
            }
            self.send_some()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.poll(left)?.contains(PollFlags::IN) {
                self.read_some()?;
            } else if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Waits, for so long at most, until the socket has something to be read, or takes what is left
    /// to be sent: which of both it is.
    fn poll(&self, at_most: Duration) -> Result<PollFlags, ConnectionError> {
        let unsent = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        let mut sockets = [rustix::event::PollFd::new(&*self.socket, PollFlags::IN | unsent)];
        let at_most = rustix::event::Timespec::try_from(at_most.min(LONG)).ok();
        match rustix::event::poll(&mut sockets, at_most.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(PollFlags::empty()),
            ready => ready.map_err(|error| ConnectionError::Broken(error.into()))?,
        };
        let ready = sockets[0].revents();
        // A connection that has ended is told by reading.
        let ended = ready.intersects(PollFlags::HUP | PollFlags::ERR);
        Ok(if ended { ready | PollFlags::IN } else { ready })
    }

    /// Reads what is there; waits if there is nothing.
    fn read_some(&mut self) -> Result<(), ConnectionError> {
        let read = match self.socket.read(&mut self.chunk) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => 0,
            // The socket's own limit.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(self.silence.map_or_else(|| error.into(), ConnectionError::Silent));
            }
            read => read?,
        };
        match &mut self.tls {
            None => self.input.extend_from_slice(&self.chunk[..read]),
            Some(tls) => tls.decrypt(&self.chunk[..read], &mut self.input)?,
        }
        Ok(())
    }

    /// Reads until the server is ready; every other answer goes to `each`, until it fails. The
    /// first refusal or failure is given after that, so that the connection can go on.
    ///
    /// # Errors
    /// The server's refusal; what `each` returns; the connection broke.
    pub fn until_ready<E: From<ConnectionError>>(
        &mut self,
        each: &mut dyn FnMut(Answer) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = Ok(());
        loop {
            match self.answer() {
                Ok(Answer::Ready) => return done,
                Ok(Answer::Refused(error)) => done = done.and(Err(error.into())),
                Ok(answer) if done.is_ok() => done = each(answer),
                Ok(_) => {}
                // A server that goes says why before.
                Err(error) => return done.and(Err(error.into())),
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.out.clear();
        frontend::terminate(&mut self.out);
        // Only politeness: a server that takes nothing is not waited for.
        let _ = self.send_some();
    }
}

fn too_late() -> ConnectionError {
    let late = "no answer within connect_timeout";
    ConnectionError::NotConnected(io::Error::new(ErrorKind::TimedOut, late))
}

/// What a message tells whoever waits for an answer; `None` for what is of no interest.
fn answer_of(message: Message) -> Result<Option<Answer>, ConnectionError> {
    Ok(Some(match message {
        Message::DataRow(body) => Answer::Row(Row::new(body)),
        Message::CommandComplete(body) => Answer::Done(changed_rows(body.tag()?)),
        Message::EmptyQueryResponse => Answer::Done(0),
        Message::ErrorResponse(body) => Answer::Refused(refusal(&body)),
        Message::ReadyForQuery(_) => Answer::Ready,
        Message::ParameterDescription(body) => Answer::Parameters(body.parameters().collect()?),
        Message::RowDescription(body) => {
            Answer::Columns(body.fields().map(|field| Ok(field.type_oid())).collect()?)
        }
        Message::CopyInResponse(_) | Message::CopyOutResponse(_) => {
            return Err(ConnectionError::Unexpected("COPY is not supported".into()));
        }
        _ => return Ok(None),
    }))
}

/// The number in `INSERT 0 5`, `UPDATE 5`, `DELETE 5`; 0 for other commands.
fn changed_rows(tag: &str) -> u64 {
    let mut words = tag.split(' ');
    match words.next() {
        Some("INSERT" | "UPDATE" | "DELETE" | "MERGE") => {
            words.next_back().and_then(|word| word.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// The error that the server describes.
pub(super) fn refusal(body: &ErrorResponseBody) -> ConnectionError {
    let (mut sqlstate, mut message, mut hint) = (String::new(), String::new(), None);
    let mut fields = body.fields();
    // A field that cannot be read ends the list: what came before it still tells more than nothing.
    while let Ok(Some(field)) = fields.next() {
        let words = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => sqlstate = words,
            b'M' => message = words,
            b'D' => hint = Some(words),
            b'H' => hint = Some(hint.map_or(words.clone(), |detail| format!("{detail}; {words}"))),
            _ => {}
        }
    }
    ConnectionError::Refused { sqlstate, message, hint }
}

#[cfg(test)]
mod tests;
