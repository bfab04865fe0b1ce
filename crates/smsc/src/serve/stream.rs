//! A connection as a session sees it: two halves, with or without TLS.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
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

/// Reads what the other side still sends until it closes. A connection that is closed with octets
/// unread is reset, and what the other side has not got by then of its answers is lost.
pub(super) async fn hear_out(read: &mut ReadHalf) {
    let mut octets = Vec::with_capacity(8 << 10);
    while matches!(read.read_buf(&mut octets).await, Ok(1..)) {
        octets.clear();
    }
}
