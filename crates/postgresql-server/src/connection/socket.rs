//! The socket of a connection.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server that is silent for so long is asked whether it is there, so often, and so many times:
/// a machine that has lost its power says nothing.
const ALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
/// What was sent and is not acknowledged within this time ends the connection, ms.
const ACKNOWLEDGED_MS: u32 = 60_000;

/// Where a server is.
#[derive(Clone, Copy, Debug)]
pub enum Address<'a> {
    /// The path of its socket.
    Unix(&'a Path),
    /// Name or number of its machine, and its port.
    Tcp(&'a str, u16),
}

/// A stream to a server; shared, so that whoever waits can be freed from outside.
#[derive(Debug)]
pub enum Socket {
    /// On this machine.
    Unix(UnixStream),
    /// Over a network.
    Tcp(TcpStream),
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: Address<'_>) -> io::Result<Socket> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host, port))?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }

    /// Connects to the first of a name's addresses that answers before `deadline`.
    ///
    /// # Errors
    /// There is no such name; nobody listens there; none answers in time.
    pub(super) fn connect_by(name: &str, port: u16, deadline: Instant) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (name, port).to_socket_addrs()? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within connect_timeout"));
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                    let (idle, interval, count) = ALIVE;
                    rustix::net::sockopt::set_tcp_keepidle(&stream, idle)?;
                    rustix::net::sockopt::set_tcp_keepintvl(&stream, interval)?;
                    rustix::net::sockopt::set_tcp_keepcnt(&stream, count)?;
                    rustix::net::sockopt::set_tcp_user_timeout(&stream, ACKNOWLEDGED_MS)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Ends the stream: whoever reads or writes gets an error.
    pub fn shut_down(&self) {
        // One that is closed already needs no end.
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&mut &*stream).read(into),
            Socket::Tcp(stream) => (&mut &*stream).read(into),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}
