//! One connection to a node: requests go out in one write, replies are read one by one (RESP2).
//!
//! No crate: what decides here is that all requests of a node and the `WAIT` behind them share one
//! connection, since `WAIT` vouches for what its own connection wrote, and that a request may be
//! repeated only with the word that it may have been carried out. The `redis` crate's cluster client
//! spreads a pipeline over connections of its own and repeats by rules of its own, and its tree has
//! a dozen crates; RESP2 is five sorts of line.

use super::url::{RedisClusterUrl, Transport};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long a node may take to be reached.
const CONNECT: Duration = Duration::from_secs(2);
/// How often somebody who waits looks whether the store was given up.
const LOOK: Duration = Duration::from_millis(200);
/// Octets of one reply at most: a whole shard is one.
const REPLY_MAX: usize = 1 << 30;
/// Arrays in one another at most.
const DEPTH: usize = 8;
/// Where distributions keep the CAs that the system trusts.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A number.
    Int(i64),
    /// Octets, or a word.
    Bulk(Vec<u8>),
    /// Nothing.
    Nil,
    /// Several.
    Array(Vec<Reply>),
    /// An error: its first word says which.
    Error(String),
}

impl Reply {
    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            Reply::Bulk(octets) => std::str::from_utf8(octets).ok()?.parse().ok(),
            _ => None,
        }
    }

    pub fn bulk(&self) -> Option<&[u8]> {
        match self {
            Reply::Bulk(octets) => Some(octets),
            _ => None,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Reply::Bulk(octets) => String::from_utf8_lossy(octets).into_owned(),
            Reply::Int(number) => number.to_string(),
            _ => String::new(),
        }
    }

    pub fn array(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }
}

/// Writes a request.
pub(super) fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| bulk(out, word));
}

/// Writes one word of a request.
pub(super) fn bulk(out: &mut Vec<u8>, word: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection.
pub(super) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    at: usize,
}

/// What TLS of all connections of a store has in common; none without it.
pub(super) fn tls_of(url: &RedisClusterUrl) -> Result<Option<Arc<ClientConfig>>, String> {
    let Transport::Tls(file) = &url.transport else { return Ok(None) };
    let path = match file {
        Some(file) => file.clone(),
        None => SYSTEM
            .into_iter()
            .find(|path| std::path::Path::new(path).exists())
            .ok_or("this system has no file of trusted CAs; name one by tlsrootcert=FILE")?
            .into(),
    };
    let mut roots = RootCertStore::empty();
    let found =
        CertificateDer::pem_file_iter(&path).map_err(|error| format!("tlsrootcert {path}: {error}"))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| format!("tlsrootcert {path}: {error}"))?;
        // A CA that is not understood is one that signs nothing here.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(format!("tlsrootcert {path}: there is no certificate in it"));
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

fn other(problem: impl std::fmt::Display) -> io::Error {
    io::Error::other(problem.to_string())
}

/// Waits for the handshake until `deadline` at most. Not as a part of the first write, which ends
/// with an error where the node says nothing for [`LOOK`].
fn shake_hands(
    stream: &mut StreamOwned<ClientConnection, TcpStream>,
    deadline: Instant,
    abandoned: &AtomicBool,
) -> io::Result<()> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    while stream.conn.is_handshaking() {
        if let Err(error) = stream.conn.complete_io(&mut stream.sock)
            && !matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        {
            return Err(error);
        }
        let is_over = abandoned.load(Relaxed) || Instant::now() >= deadline;
        if is_over && stream.conn.is_handshaking() {
            return Err(TimedOut.into());
        }
    }
    Ok(())
}

impl Connection {
    /// A connection without TLS; of the other side, requests are read as replies are.
    #[cfg(test)]
    pub fn of(stream: TcpStream) -> Connection {
        Connection { stream: Stream::Plain(stream), input: Vec::new(), at: 0 }
    }

    /// Connects to a node and says who we are.
    pub fn open(
        (host, port): (&str, u16),
        url: &RedisClusterUrl,
        tls: Option<&Arc<ClientConfig>>,
        abandoned: &AtomicBool,
    ) -> io::Result<Connection> {
        let mut failed = other("the name has no address");
        let mut stream = None;
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(error) => failed = error,
            }
        }
        let stream = stream.ok_or(failed)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(other)?;
                let session = ClientConnection::new(Arc::clone(config), name).map_err(other)?;
                let mut stream = StreamOwned::new(session, stream);
                shake_hands(&mut stream, Instant::now() + CONNECT * 2, abandoned)?;
                Stream::Tls(Box::new(stream))
            }
        };
        let mut connection = Connection { stream, input: Vec::new(), at: 0 };
        if let Some(password) = &url.password {
            let mut out = Vec::new();
            match &url.user {
                Some(user) => request(&mut out, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
                None => request(&mut out, &[b"AUTH", password.as_bytes()]),
            }
            connection.send(&out)?;
            if let Reply::Error(error) = connection.reply(Instant::now() + CONNECT * 2, abandoned)? {
                return Err(other(error));
            }
        }
        Ok(connection)
    }

    /// Writes requests.
    pub fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(octets),
            Stream::Tls(stream) => stream.write_all(octets).and_then(|()| stream.flush()),
        }
    }

    /// The next reply, until `deadline` at most.
    pub fn reply(&mut self, deadline: Instant, abandoned: &AtomicBool) -> io::Result<Reply> {
        self.limited(deadline, abandoned, REPLY_MAX)
    }

    /// One request and its reply.
    pub fn ask(&mut self, words: &[&[u8]], deadline: Instant, abandoned: &AtomicBool) -> io::Result<Reply> {
        let mut out = Vec::new();
        request(&mut out, words);
        self.send(&out)?;
        self.reply(deadline, abandoned)
    }

    /// The next reply, of so many octets at most.
    fn limited(&mut self, deadline: Instant, abandoned: &AtomicBool, most: usize) -> io::Result<Reply> {
        let mut left = most;
        self.nested(deadline, abandoned, (DEPTH, &mut left))
    }

    /// A reply, or one in another: arrays in it at most, and octets that are left of the whole.
    fn nested(
        &mut self,
        deadline: Instant,
        abandoned: &AtomicBool,
        (depth, left): (usize, &mut usize),
    ) -> io::Result<Reply> {
        let line = self.line(deadline, abandoned)?;
        let too_long = || other("a reply is too long");
        *left = left.checked_sub(line.len() + 2).ok_or_else(too_long)?;
        let (sort, rest) = line.split_first().ok_or_else(|| other("a reply is empty"))?;
        let number = || {
            let text = std::str::from_utf8(rest).ok();
            text.and_then(|text| text.parse::<i64>().ok()).ok_or_else(|| other("a reply is no number"))
        };
        match sort {
            b'+' => Ok(Reply::Bulk(rest.to_vec())),
            b'-' => Ok(Reply::Error(String::from_utf8_lossy(rest).into_owned())),
            b':' => Ok(Reply::Int(number()?)),
            b'$' => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(length) if length.saturating_add(2) <= *left => {
                    *left -= length + 2;
                    self.fill(length + 2, deadline, abandoned)?;
                    let octets = self.input[self.at..self.at + length].to_vec();
                    self.at += length + 2;
                    Ok(Reply::Bulk(octets))
                }
                Ok(_) => Err(too_long()),
            },
            b'*' => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(count) if depth > 0 && count <= *left => {
                    let mut items = Vec::with_capacity(count.min(1024));
                    for _ in 0..count {
                        items.push(self.nested(deadline, abandoned, (depth - 1, &mut *left))?);
                    }
                    Ok(Reply::Array(items))
                }
                Ok(_) => Err(too_long()),
            },
            _ => Err(other("this is no Redis: its reply is none of RESP")),
        }
    }

    /// A line without its end.
    fn line(&mut self, deadline: Instant, abandoned: &AtomicBool) -> io::Result<Vec<u8>> {
        let mut seen = 0;
        loop {
            let unread = &self.input[self.at..];
            if let Some(end) = unread[seen..].windows(2).position(|pair| pair == b"\r\n") {
                let line = unread[..seen + end].to_vec();
                self.at += seen + end + 2;
                return Ok(line);
            }
            if unread.len() > 1 << 16 {
                return Err(other("a line of a reply is too long"));
            }
            seen = unread.len().saturating_sub(1);
            let wanted = unread.len() + 1;
            self.fill(wanted, deadline, abandoned)?;
        }
    }

    /// Reads until so many octets are there.
    fn fill(&mut self, wanted: usize, deadline: Instant, abandoned: &AtomicBool) -> io::Result<()> {
        if self.at > 0 && self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        } else if self.at > 1 << 20 {
            self.input.drain(..self.at);
            self.at = 0;
        }
        let mut octets = [0; 1 << 16];
        while self.input.len() - self.at < wanted {
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read(&mut octets),
                Stream::Tls(stream) => stream.read(&mut octets),
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.input.extend_from_slice(&octets[..count]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if abandoned.load(Relaxed) || Instant::now() >= deadline {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What happened: the limit was of each word of a reply, and the whole had none: a list of
    /// words filled the memory, one after the other.
    #[test]
    fn the_whole_of_a_reply_is_limited() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
        let mut node = listener.accept().unwrap().0;
        let mut connection = Connection::of(stream);
        let abandoned = AtomicBool::new(false);
        // 4 octets, twice 10, and 4.
        let list = b"*3\r\n$4\r\nabcd\r\n$4\r\nabcd\r\n:1\r\n";
        let mut read = |most: usize| {
            node.write_all(list).unwrap();
            connection.limited(Instant::now() + CONNECT * 10, &abandoned, most)
        };
        let word = Reply::Bulk(b"abcd".to_vec());
        let whole = Reply::Array(vec![word.clone(), word, Reply::Int(1)]);
        assert_eq!(read(list.len()).unwrap(), whole);
        assert_eq!(read(list.len()).unwrap(), whole, "each reply has its own");
        let error = read(list.len() - 1).unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    }

    /// What happened: a node whose part of the handshake took longer than 200 ms, as one far away
    /// or beside other work, was given up each time: "Resource temporarily unavailable".
    #[test]
    fn a_handshake_that_takes_long_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = RedisClusterUrl::parse("redis-cluster://localhost:1/").unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let abandoned = AtomicBool::new(false);
        let config = Arc::new(config);
        let error = || {
            std::thread::scope(|scope| {
                let node = scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let count = stream.read(&mut [0; 1 << 14]).unwrap();
                    std::thread::sleep(LOOK * 3);
                    count
                });
                let opened = Connection::open(("127.0.0.1", port), &url, Some(&config), &abandoned);
                assert!(node.join().unwrap() > 0);
                opened.err().unwrap()
            })
        };
        // It has ended the connection; until then it was waited for. One that stands still for the
        // seconds that a connection may take has not, but not each time.
        let is_early =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let early: Vec<io::Error> = (0..3).map_while(|_| Some(error()).filter(is_early)).collect();
        assert!(early.len() < 3, "{early:?}");
    }
}
