//! One session with a centre.

use crate::smpp::{Bind, Command, Framing, HEADER_OCTETS, Header, Status, frame, pdu};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A session that could not be opened, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection.
    #[error("{address}: {source}")]
    Connect {
        /// Where to.
        address: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The centre refuses the bind.
    #[error("the centre refuses the bind of {system_id}: {status}")]
    Bind {
        /// Whose.
        system_id: String,
        /// Its status, by name if it has one.
        status: String,
    },
    /// The connection broke.
    #[error("the connection to the centre broke: {0}")]
    Io(#[from] std::io::Error),
    /// The centre does not speak SMPP.
    #[error("the centre sent something that is no PDU of SMPP")]
    Framing,
}

/// How long a bind is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A bound session.
pub struct Connection {
    /// Its stream.
    pub stream: TcpStream,
    /// What has been read and not looked at.
    pub input: Vec<u8>,
}

impl Connection {
    /// Connects and binds.
    ///
    /// # Errors
    /// [`ClientError`]
    pub async fn bind(address: &str, command: Command, bind: &Bind) -> Result<Connection, ClientError> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| ClientError::Connect { address: address.into(), source })?;
        stream.set_nodelay(true)?;
        let mut connection = Connection { stream, input: Vec::new() };
        let mut out = Vec::new();
        bind.write(&mut out, command, 1);
        connection.stream.write_all(&out).await?;
        let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        let answer = tokio::time::timeout(PATIENCE, connection.next()).await.map_err(|_| late())??;
        if answer.0.status != 0 {
            let number = answer.0.status;
            let status =
                Status::of(number).map_or_else(|| format!("{number:#010x}"), |status| status.name().into());
            return Err(ClientError::Bind { system_id: bind.system_id.clone(), status });
        }
        Ok(connection)
    }

    /// The next PDU: its header and its body.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<(Header, Vec<u8>), ClientError> {
        loop {
            match frame(&self.input) {
                Framing::Pdu(header) => {
                    let end = header.length as usize;
                    let body = self.input[HEADER_OCTETS..end].to_vec();
                    self.input.drain(..end);
                    return Ok((header, body));
                }
                Framing::Incomplete(_) => {}
                Framing::TooLong(_) | Framing::Lost(_) => return Err(ClientError::Framing),
            }
            self.input.reserve(8 << 10);
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn unbind(&mut self, sequence: u32) -> Result<(), ClientError> {
        let mut out = Vec::new();
        pdu(&mut out, Command::Unbind as u32, Status::Ok, sequence, |_| ());
        Ok(self.stream.write_all(&out).await?)
    }
}
