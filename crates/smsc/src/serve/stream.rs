//! A connection as a session sees it: two halves, with or without TLS.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// What is read from.
pub(super) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
/// What is written to.
pub(super) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// The halves of a connection without TLS.
pub(super) fn plain(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (Box::new(read), Box::new(write))
}

/// The halves of a connection with TLS.
pub(super) fn secured(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> (ReadHalf, WriteHalf) {
    let (read, write) = tokio::io::split(stream);
    (Box::new(read), Box::new(write))
}
