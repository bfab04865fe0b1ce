//! The socket of a connection.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

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
