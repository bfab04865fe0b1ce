//! Redis, over a Unix socket: our RESP client, `MULTI` … `EXEC` for each transaction, sent as one
//! piece.
//!
//! Durability: `appendonly yes`, `appendfsync always`: Redis writes and syncs once for each turn of
//! its event loop, and only then answers the clients of that turn: group commit. No snapshots, no
//! rewriting of the log during a run. A message is a string `m<id>`, the queue of a station a
//! sorted set `q<station>` with the rank as score, a state a string `s<station>`: packed values,
//! which is the cheapest form for Redis.

use crate::message::{Digest, Message, Table, queue_key};
use crate::peer::{Client, Peer, Transaction};
use crate::server::{self, Server};
use crate::wire::{Pipe, Protocol, read_whole};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIGURATION: &str = "\
port 0
unixsocket s
appendonly yes
appendfsync always
no-appendfsync-on-rewrite no
auto-aof-rewrite-percentage 0
save \"\"
dir .
maxclients 256
";

/// The server and its data.
pub struct Redis {
    server: Server,
    dir: PathBuf,
    socket: PathBuf,
}

impl Redis {
    /// Starts a server on what is in `dir` and waits until it has loaded it.
    pub fn open(dir: &Path) -> Result<Redis> {
        let socket = dir.join("s");
        let _ = std::fs::remove_file(&socket);
        std::fs::write(dir.join("redis.conf"), CONFIGURATION)?;
        let program =
            server::find("redis-server").context("no redis-server: apt-get install redis-server")?;
        let mut command = Command::new(program);
        command.arg("redis.conf");
        let (server, ()) = Server::start(command, dir, libc::SIGKILL, || {
            let mut stream = server::connect(&socket)?;
            let pong = ask(&mut stream, &mut Vec::new(), &[b"PING"])?;
            ensure!(pong == Reply::Simple("PONG".into()), "Redis is loading: {pong:?}");
            Ok(())
        })?;
        Ok(Redis { server, dir: dir.to_owned(), socket })
    }
}

/// Appends one command.
fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = |out: &mut Vec<u8>, mark: u8, len: usize| {
        out.push(mark);
        out.extend_from_slice(len.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    length(out, b'*', parts.len());
    for part in parts {
        length(out, b'$', part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// A reply of the protocol's second version.
#[derive(PartialEq, Eq, Debug)]
enum Reply {
    Simple(String),
    Error(String),
    Number(i64),
    Bytes(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

/// Reads one reply from the start of `input`: its length and itself; `None` if it is not all there.
fn parse(input: &[u8]) -> Result<Option<(usize, Reply)>> {
    let Some(end) = input.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let (Some(&mark), text) = (input.first(), String::from_utf8_lossy(input.get(1..end).unwrap_or_default()))
    else {
        bail!("Redis: an empty reply");
    };
    let mut len = end + 2;
    let reply = match mark {
        b'+' => Reply::Simple(text.into_owned()),
        b'-' => Reply::Error(text.into_owned()),
        b':' => Reply::Number(text.parse().context("Redis: a number")?),
        b'$' if text == "-1" => Reply::Bytes(None),
        b'$' => {
            let size: usize = text.parse().context("Redis: a length")?;
            let Some(bytes) = input.get(len..len + size + 2) else { return Ok(None) };
            len += size + 2;
            Reply::Bytes(Some(bytes[..size].to_vec()))
        }
        b'*' => {
            let count: i64 = text.parse().context("Redis: a length")?;
            let mut items = Vec::new();
            for _ in 0..count {
                let Some((item_len, item)) = parse(&input[len..])? else { return Ok(None) };
                len += item_len;
                items.push(item);
            }
            Reply::Array(items)
        }
        other => bail!("Redis: a reply that begins with {other:#x}"),
    };
    Ok(Some((len, reply)))
}

/// Sends one command and reads its reply.
fn ask(stream: &mut UnixStream, buffer: &mut Vec<u8>, parts: &[&[u8]]) -> Result<Reply> {
    let mut out = Vec::new();
    command(&mut out, parts);
    stream.write_all(&out)?;
    read_whole(stream, buffer, parse)
}

fn key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Member of a queue: key and other column of the queue row; the station is in the name, the rank
/// is the score.
fn member(m: &Message) -> [u8; 16] {
    let mut member = [0; 16];
    member[..8].copy_from_slice(&m.msg_id.to_be_bytes());
    member[8..].copy_from_slice(&m.queue_value());
    member
}

const RANKS: [&[u8]; 4] = [b"0", b"1", b"2", b"3"];

/// What the server says to a receive and to a deliver that did all they should.
const RECEIVED: &[u8] = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:1\r\n";
const DELIVERED: &[u8] = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:1\r\n+OK\r\n";

#[derive(Default)]
struct Resp {
    value: Vec<u8>,
    /// What each reply must be; one phase has one kind of transaction.
    wanted: &'static [u8],
}

impl Protocol for Resp {
    fn request(&mut self, transaction: Transaction, m: &Message, out: &mut Vec<u8>) {
        command(out, &[b"MULTI"]);
        match transaction {
            Transaction::Receive => {
                self.value.clear();
                m.message_value(&mut self.value);
                command(out, &[b"SET", &key(b'm', m.msg_id), &self.value]);
                command(out, &[b"ZADD", &key(b'q', m.dst_key), RANKS[usize::from(m.rank % 4)], &member(m)]);
                self.wanted = RECEIVED;
            }
            Transaction::Deliver => {
                command(out, &[b"ZREM", &key(b'q', m.dst_key), &member(m)]);
                command(out, &[b"DEL", &key(b'm', m.msg_id)]);
                command(out, &[b"SET", &key(b's', m.dst_key), &m.state().value()]);
                self.wanted = DELIVERED;
            }
        }
        command(out, &[b"EXEC"]);
    }

    fn reply(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>> {
        let len = self.wanted.len().min(input.len());
        ensure!(
            input[..len] == self.wanted[..len],
            "Redis answered {:?}",
            String::from_utf8_lossy(&input[..input.len().min(200)])
        );
        Ok((len == self.wanted.len()).then_some((len, 1)))
    }
}

impl Peer for Redis {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(Pipe::new(server::connect(&self.socket)?, Resp::default())))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let mut stream = server::connect(&self.socket)?;
        let mut buffer = Vec::new();
        let mut cursor = b"0".to_vec();
        // SCAN may name a key more than once.
        let mut seen = HashSet::new();
        loop {
            let Reply::Array(mut page) =
                ask(&mut stream, &mut buffer, &[b"SCAN", &cursor, b"COUNT", b"1000"])?
            else {
                bail!("Redis: SCAN gives no array");
            };
            let (Some(Reply::Array(mut keys)), Some(Reply::Bytes(Some(next)))) = (page.pop(), page.pop())
            else {
                bail!("Redis: SCAN gives no cursor and keys");
            };
            keys.retain(|key| !matches!(key, Reply::Bytes(Some(name)) if !seen.insert(name.clone())));
            let mut out = Vec::new();
            for key in &keys {
                match key {
                    Reply::Bytes(Some(name)) if name.starts_with(b"q") => {
                        command(&mut out, &[b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"]);
                    }
                    Reply::Bytes(Some(name)) => command(&mut out, &[b"GET", name]),
                    other => bail!("Redis: a key that is {other:?}"),
                }
            }
            stream.write_all(&out)?;
            for key in keys {
                let Reply::Bytes(Some(name)) = key else { bail!("Redis: a key that is no string") };
                let value = read_whole(&mut stream, &mut buffer, parse)?;
                let number = name.get(1..9).context("Redis: a short key")?;
                match (name[0], value) {
                    (b'm', Reply::Bytes(Some(value))) => digest.row(Table::Message, number, &value),
                    (b's', Reply::Bytes(Some(value))) => digest.row(Table::State, number, &value),
                    (b'q', Reply::Array(members)) => queue_rows(digest, number, &members)?,
                    (kind, value) => bail!("Redis: a row of kind {kind} is {value:?}"),
                }
            }
            if next == b"0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    fn log_bytes(&self) -> Result<u64> {
        server::bytes_in(&self.dir.join("appendonlydir"), ".aof")
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.server.end()
    }
}

/// The rows of one queue from its members and scores.
fn queue_rows(digest: &mut Digest, station: &[u8], members: &[Reply]) -> Result<()> {
    for pair in members.chunks(2) {
        let [Reply::Bytes(Some(member)), Reply::Bytes(Some(score))] = pair else {
            bail!("Redis: a queue holds {pair:?}");
        };
        ensure!(member.len() == 16, "Redis: a member of {} bytes", member.len());
        let rank: u8 = String::from_utf8_lossy(score).parse().context("Redis: a score")?;
        let number = |bytes: &[u8]| bytes.iter().fold(0u64, |n, &b| n << 8 | u64::from(b));
        digest.row(Table::Queue, &queue_key(number(station), rank, number(&member[..8])), &member[8..]);
    }
    Ok(())
}
