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
        let answer =
            tokio::time::timeout(PATIENCE, connection.answer(command)).await.map_err(|_| late())??;
        if answer.status != 0 {
            let number = answer.status;
            let status =
                Status::of(number).map_or_else(|| format!("{number:#010x}"), |status| status.name().into());
            return Err(ClientError::Bind { system_id: bind.system_id.clone(), status });
        }
        Ok(connection)
    }

    /// The answer to a bind. What else a centre sends before, as an enquire_link or an outbind, is
    /// none.
    async fn answer(&mut self, to: Command) -> Result<Header, ClientError> {
        let answers = [to.response() as u32, Command::GenericNack as u32];
        loop {
            let (header, _) = self.next().await?;
            if answers.contains(&header.command) {
                return Ok(header);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// An enquire_link that came before the answer was taken for it, and a bind that was refused
    /// for one that was not.
    #[tokio::test]
    async fn a_question_is_no_answer_to_a_bind() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut out = Vec::new();
            pdu(&mut out, Command::EnquireLink as u32, Status::Ok, 9, |_| ());
            pdu(&mut out, Command::BindTransceiverResp as u32, Status::Password, 1, |_| ());
            stream.write_all(&out).await.unwrap();
            // Until the client has gone.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let bind = Bind {
            system_id: "app".into(),
            password: "secret".into(),
            system_type: String::new(),
            interface_version: 0x34,
        };
        let refused = Connection::bind(&address, Command::BindTransceiver, &bind).await.err().unwrap();
        assert_eq!(refused.to_string(), "the centre refuses the bind of app: ESME_RINVPASWD");
    }
}
