//! A connection that pipelines: requests collect in a buffer, replies are counted off in order.
//!
//! Small clients of our own for three protocols: nothing of a client library's costs is charged to
//! a server.

use crate::message::Message;
use crate::peer::{Client, Transaction};
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// What is particular to a protocol.
pub trait Protocol: Send {
    /// Appends the request for one transaction.
    fn request(&mut self, transaction: Transaction, message: &Message, out: &mut Vec<u8>);

    /// Called before requests are sent off: closes a group, where the protocol has such.
    fn close_group(&mut self, _out: &mut Vec<u8>) {}

    /// Takes the next whole reply from the start of `input`: its length and how many transactions
    /// it acknowledges. `None` if it is not all there yet; an error if the server refused.
    fn reply(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>>;
}

/// One connection.
pub struct Pipe<P> {
    stream: UnixStream,
    protocol: P,
    out: Vec<u8>,
    /// `out[..sent]` is on its way.
    sent: usize,
    input: Vec<u8>,
    /// `input[taken..filled]` has not been looked at.
    taken: usize,
    filled: usize,
}

impl<P: Protocol> Pipe<P> {
    /// A pipe over a connection on which the greeting is over.
    pub fn new(stream: UnixStream, protocol: P) -> Self {
        Pipe { stream, protocol, out: Vec::new(), sent: 0, input: vec![0; 256 << 10], taken: 0, filled: 0 }
    }

    /// Sends what the socket takes at once. A server that has stopped reading until we read is then
    /// waiting for us, and what it has sent is here to be read.
    fn send_some(&mut self) -> Result<()> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            // SAFETY: the slice is live for the call, and its length is passed with it.
            let sent = unsafe {
                libc::send(
                    self.stream.as_raw_fd(),
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => self.sent += sent,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    match error.kind() {
                        ErrorKind::WouldBlock => return Ok(()),
                        ErrorKind::Interrupted => {}
                        _ => return Err(error).context("sending requests"),
                    }
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes the replies that are here.
    fn take_replies(&mut self) -> Result<usize> {
        let mut settled = 0;
        while let Some((len, count)) = self.protocol.reply(&self.input[self.taken..self.filled])? {
            self.taken += len;
            settled += count;
        }
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
        }
        Ok(settled)
    }
}

impl<P: Protocol> Client for Pipe<P> {
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()> {
        self.protocol.request(transaction, message, &mut self.out);
        Ok(())
    }

    fn settle(&mut self) -> Result<usize> {
        if !self.out.is_empty() {
            self.protocol.close_group(&mut self.out);
        }
        loop {
            self.send_some()?;
            let settled = self.take_replies()?;
            if settled > 0 {
                return Ok(settled);
            }
            if self.filled == self.input.len() {
                self.input.copy_within(self.taken..self.filled, 0);
                self.filled -= self.taken;
                self.taken = 0;
                if self.filled == self.input.len() {
                    bail!("a reply of more than {} bytes", self.input.len());
                }
            }
            match self.stream.read(&mut self.input[self.filled..]).context("reading replies")? {
                0 => bail!("the server closed the connection"),
                read => self.filled += read,
            }
        }
    }
}

/// Reads until `buffer` holds a whole reply as `complete` judges, and returns it: for the plain
/// calls of set-up and scan.
pub fn read_whole<T>(
    stream: &mut UnixStream,
    buffer: &mut Vec<u8>,
    complete: impl Fn(&[u8]) -> Result<Option<(usize, T)>>,
) -> Result<T> {
    let mut chunk = vec![0; 64 << 10];
    loop {
        if let Some((len, value)) = complete(buffer)? {
            buffer.drain(..len);
            return Ok(value);
        }
        match stream.read(&mut chunk).context("reading a reply")? {
            0 => bail!("the server closed the connection"),
            read => buffer.extend_from_slice(&chunk[..read]),
        }
    }
}
