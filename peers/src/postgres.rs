//! PostgreSQL, over a Unix socket: our client of its protocol (version 3), one prepared call of a function for each
//! transaction (`postgres.sql`), parameters in binary.
//!
//! Durability: `fsync = on`, `synchronous_commit = on`, `full_page_writes = on`: the defaults. PostgreSQL groups the log
//! flushes of sessions that commit at the same time. Asynchronous clients pipeline: every call is followed by its own
//! `Sync`, so every call is its own transaction. `postgres-batched` sends one `Sync` for each group of calls: the group is
//! one transaction, as it is for the engines behind the batching writer.
//! Memory is enough for everything, checkpoints are kept out of the run, the log has large buffers.

use crate::message::{Digest, Message, State};
use crate::peer::{Client, Peer, Transaction};
use crate::server::{self, Server};
use crate::wire::{Pipe, Protocol, read_whole};
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCHEMA: &str = include_str!("postgres.sql");

const CONFIGURATION: &str = "
listen_addresses = ''
unix_socket_directories = '.'
max_connections = 130
shared_buffers = 1GB
huge_pages = off
fsync = on
synchronous_commit = on
full_page_writes = on
wal_buffers = 64MB
max_wal_size = 16GB
min_wal_size = 1GB
checkpoint_timeout = 1h
jit = off
";

/// The server and its data.
pub struct Postgres {
    server: Server,
    socket: PathBuf,
    batched: bool,
}

impl Postgres {
    /// Starts a server on what is in `dir`, which is created if need be, and waits until it answers. `batched`: one
    /// transaction for each group of calls.
    pub fn open(dir: &Path, batched: bool) -> Result<Postgres> {
        let data = dir.join("data");
        let fresh = !data.join("PG_VERSION").exists();
        if fresh {
            create(dir, &data)?;
        }
        let socket = data.join(".s.PGSQL.5432");
        let mut command =
            Command::new(server::find("postgres").context("no postgres: apt-get install postgresql")?);
        command.arg("-D").arg(".");
        server::as_unprivileged(&mut command, &data)?;
        // SIGQUIT is an immediate shutdown: PostgreSQL aborts without a checkpoint and recovers from its log at the next
        // start. Unlike a plain kill it takes the sessions and the shared memory with it.
        let (server, mut stream) = Server::start(command, &data, libc::SIGQUIT, || greet(&socket))?;
        if fresh {
            query(&mut stream, SCHEMA)?;
        }
        Ok(Postgres { server, socket, batched })
    }
}

/// `initdb`, with our configuration.
fn create(dir: &Path, data: &Path) -> Result<()> {
    std::fs::create_dir_all(data)?;
    let mut command = Command::new(server::find("initdb").context("no initdb: apt-get install postgresql")?);
    command.args([
        "--username=peers",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        "-D",
        ".",
    ]);
    command.current_dir(data).stdin(Stdio::null()).stdout(Stdio::null());
    server::as_unprivileged(&mut command, data)?;
    server::die_with_parent(&mut command, libc::SIGKILL);
    let output = command.output().context("initdb")?;
    ensure!(
        output.status.success(),
        "initdb in {}: {}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let mut file = std::fs::File::options().append(true).open(data.join("postgresql.conf"))?;
    file.write_all(CONFIGURATION.as_bytes())?;
    Ok(())
}

/// Appends a message of type `kind`; `body` writes what follows the length.
fn send(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

/// The first message in `input`: its whole length, its type, its content.
fn first_message(input: &[u8]) -> Option<(usize, u8, &[u8])> {
    let (&kind, rest) = input.split_first()?;
    let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    Some((1 + len, kind, rest.get(4..len)?))
}

/// The text of an ErrorResponse.
fn refused(content: &[u8]) -> anyhow::Error {
    let fields: Vec<_> = content.split(|&b| b == 0).filter(|f| f.first() == Some(&b'M')).collect();
    anyhow::anyhow!("PostgreSQL: {}", String::from_utf8_lossy(fields.first().copied().unwrap_or(content)))
}

/// Connects, and waits until the server is ready for queries.
fn greet(socket: &Path) -> Result<UnixStream> {
    let mut stream = server::connect(socket)?;
    let start = b"\0\x03\0\0user\0peers\0database\0postgres\0\0";
    let mut out = ((start.len() + 4) as u32).to_be_bytes().to_vec();
    out.extend_from_slice(start);
    stream.write_all(&out)?;
    until_ready(&mut stream, &mut Vec::new(), |_, _| Ok(()))?;
    Ok(stream)
}

/// Reads messages up to ReadyForQuery; gives each to `each`.
fn until_ready(
    stream: &mut UnixStream,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(u8, &[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let (kind, content) = read_whole(stream, buffer, |input| {
            Ok(first_message(input).map(|(len, kind, content)| (len, (kind, content.to_vec()))))
        })?;
        match kind {
            b'Z' => return Ok(()),
            b'E' => return Err(refused(&content)),
            _ => each(kind, &content)?,
        }
    }
}

/// Runs statements that return nothing.
fn query(stream: &mut UnixStream, sql: &str) -> Result<()> {
    let mut out = Vec::new();
    send(&mut out, b'Q', |out| {
        out.extend_from_slice(sql.as_bytes());
        out.push(0);
    });
    stream.write_all(&out)?;
    until_ready(stream, &mut Vec::new(), |_, _| Ok(()))
}

/// Runs one query with results in binary; gives the columns of each row to `row`.
fn select(stream: &mut UnixStream, sql: &str, mut row: impl FnMut(&[&[u8]]) -> Result<()>) -> Result<()> {
    let mut out = Vec::new();
    parse(&mut out, b"\0", sql);
    // Unnamed portal and statement, no parameters, all results binary.
    send(&mut out, b'B', |out| out.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0\x01"));
    send(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
    send(&mut out, b'S', |_| {});
    stream.write_all(&out)?;
    until_ready(stream, &mut Vec::new(), |kind, content| {
        if kind != b'D' {
            return Ok(());
        }
        let mut columns: Vec<&[u8]> = Vec::new();
        let mut rest = content.get(2..).context("PostgreSQL: a short row")?;
        while let Some((len, more)) = rest.split_first_chunk() {
            let (column, more) = more
                .split_at_checked(u32::from_be_bytes(*len) as usize)
                .context("PostgreSQL: a short column")?;
            columns.push(column);
            rest = more;
        }
        row(&columns)
    })
}

/// Appends the preparation of `sql` under `name`, which ends with NUL.
fn parse(out: &mut Vec<u8>, name: &[u8], sql: &str) {
    send(out, b'P', |out| {
        out.extend_from_slice(name);
        out.extend_from_slice(sql.as_bytes());
        out.extend_from_slice(&[0, 0, 0]);
    });
}

struct Version3 {
    batched: bool,
    /// Calls since the last Sync.
    open: usize,
    /// Calls in each group whose Sync was sent, oldest first.
    groups: VecDeque<usize>,
}

impl Version3 {
    fn sync(&mut self, out: &mut Vec<u8>) {
        send(out, b'S', |_| {});
        self.groups.push_back(std::mem::take(&mut self.open));
    }
}

/// Appends one parameter.
fn parameter(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends Bind and Execute of a prepared call, whose name ends with NUL; `parameters` writes their count and them.
fn call(out: &mut Vec<u8>, name: &[u8], parameters: impl FnOnce(&mut Vec<u8>)) {
    send(out, b'B', |out| {
        // Unnamed portal; all parameters binary.
        out.push(0);
        out.extend_from_slice(name);
        out.extend_from_slice(&[0, 1, 0, 1]);
        parameters(out);
        out.extend_from_slice(&[0, 1, 0, 1]);
    });
    send(out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
}

impl Protocol for Version3 {
    fn request(&mut self, transaction: Transaction, m: &Message, out: &mut Vec<u8>) {
        let small = |n: u8| i16::from(n).to_be_bytes();
        match transaction {
            Transaction::Receive => call(out, b"r\0", |out| {
                out.extend_from_slice(&[0, 9]);
                parameter(out, &m.msg_id.to_be_bytes());
                parameter(out, &m.account.to_be_bytes());
                parameter(out, &m.source);
                parameter(out, &m.dst_key.to_be_bytes());
                parameter(out, &m.submit_us.to_be_bytes());
                parameter(out, &m.expire_us.to_be_bytes());
                parameter(out, &small(m.rank));
                parameter(out, &small(m.coding));
                parameter(out, m.body());
            }),
            Transaction::Deliver => call(out, b"d\0", |out| {
                let state = m.state();
                out.extend_from_slice(&[0, 5]);
                parameter(out, &m.dst_key.to_be_bytes());
                parameter(out, &small(m.rank));
                parameter(out, &m.msg_id.to_be_bytes());
                parameter(out, &small(state.state));
                parameter(out, &state.ready_us.to_be_bytes());
            }),
        }
        self.open += 1;
        if !self.batched {
            self.sync(out);
        }
    }

    fn close_group(&mut self, out: &mut Vec<u8>) {
        if self.open > 0 {
            self.sync(out);
        }
    }

    fn reply(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>> {
        let mut at = 0;
        while let Some((len, kind, content)) = first_message(&input[at..]) {
            at += len;
            match kind {
                // ReadyForQuery comes after the commit of the group, and only then is anything acknowledged.
                b'Z' => {
                    let group =
                        self.groups.pop_front().context("PostgreSQL: ready, but nothing was asked")?;
                    return Ok(Some((at, group)));
                }
                b'E' => return Err(refused(content)),
                _ => {}
            }
        }
        Ok((at > 0).then_some((at, 0)))
    }
}

/// A column as an integer.
fn number(column: &[u8]) -> i64 {
    // Two's complement: begin with the sign.
    let sign = if column.first().is_some_and(|&b| b & 0x80 != 0) { -1 } else { 0 };
    column.iter().fold(sign, |n, &b| n << 8 | i64::from(b))
}

impl Peer for Postgres {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let mut stream = greet(&self.socket)?;
        let mut out = Vec::new();
        parse(&mut out, b"r\0", "SELECT receive($1,$2,$3,$4,$5,$6,$7,$8,$9)");
        parse(&mut out, b"d\0", "SELECT deliver($1,$2,$3,$4,$5)");
        send(&mut out, b'S', |_| {});
        stream.write_all(&out)?;
        until_ready(&mut stream, &mut Vec::new(), |_, _| Ok(()))?;
        let protocol = Version3 { batched: self.batched, open: 0, groups: VecDeque::new() };
        Ok(Box::new(Pipe::new(stream, protocol)))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let mut stream = greet(&self.socket)?;
        select(&mut stream, "SELECT * FROM message", |row| {
            let [msg_id, account, source, dst_key, submit, expire, rank, coding, body] = row else {
                bail!("PostgreSQL: a message of {} columns", row.len());
            };
            digest.message(&Message::from_columns(
                number(msg_id) as u64,
                number(account) as u32,
                source,
                number(dst_key) as u64,
                number(submit),
                number(expire),
                number(rank) as u8,
                number(coding) as u8,
                body,
            )?);
            Ok(())
        })?;
        select(&mut stream, "SELECT * FROM to_delivery", |row| {
            let [dst_key, rank, msg_id, expire] = row else { bail!("PostgreSQL: a queue row") };
            digest.queue(number(dst_key) as u64, number(rank) as u8, number(msg_id) as u64, number(expire));
            Ok(())
        })?;
        select(&mut stream, "SELECT * FROM ms_state", |row| {
            let [dst_key, state, ready, last] = row else { bail!("PostgreSQL: a state") };
            digest.state(&State {
                dst_key: number(dst_key) as u64,
                state: number(state) as u8,
                ready_us: number(ready),
                last_msg: number(last) as u64,
            });
            Ok(())
        })
    }

    fn log_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        select(
            &mut greet(&self.socket)?,
            "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint",
            |row| {
                bytes = row.first().map_or(0, |column| number(column)) as u64;
                Ok(())
            },
        )?;
        Ok(bytes)
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.server.end()
    }
}
