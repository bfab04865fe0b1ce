//! PostgreSQL, over a Unix socket: the connection of `postgresql-server`, one prepared call of a
//! function for each transaction (`postgres.sql`), parameters in binary.
//!
//! Durability: `fsync = on`, `synchronous_commit = on`, `full_page_writes = on`: the defaults.
//! PostgreSQL groups the log flushes of sessions that commit at the same time. Asynchronous clients
//! pipeline: every call is followed by its own `Sync`, so every call is its own transaction.
//! `postgres-batched` sends one `Sync` for each group of calls: the group is one transaction, as it
//! is for the engines behind the batching writer. Memory is enough for everything, checkpoints are
//! kept out of the run, the log has large buffers.

use crate::message::{Digest, Message, State};
use crate::peer::{Client, Peer, Transaction};
use crate::server::{self, Server};
use anyhow::{Context, Result, bail, ensure};
use postgresql_server::connection::{Answer, Connection, ConnectionError, Format, Parameter, Row, Socket};
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

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
    /// Starts a server on what is in `dir`, which is created if need be, and waits until it
    /// answers. `batched`: one transaction for each group of calls.
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
        // SIGQUIT is an immediate shutdown: PostgreSQL aborts without a checkpoint and recovers
        // from its log at the next start. Unlike a plain kill it takes the sessions and the shared
        // memory with it.
        let (server, mut connection) = Server::start(command, &data, libc::SIGQUIT, || connect(&socket))?;
        if fresh {
            connection.script(SCHEMA)?;
            connection.until_ready(&mut |_| Ok::<_, ConnectionError>(()))?;
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

/// Connects, and waits until the server is ready for queries.
fn connect(socket: &Path) -> Result<Connection> {
    // A data directory's path may be longer than an address takes: `server` knows the way round.
    let stream = Socket::Unix(server::connect(socket)?);
    Ok(Connection::open(Arc::new(stream), "peers", None, "postgres", "peers")?)
}

/// Runs one query with results in binary; gives each row to `each`.
fn select(connection: &mut Connection, sql: &str, mut each: impl FnMut(&Row) -> Result<()>) -> Result<()> {
    connection.prepare("", sql, &[])?;
    connection.execute("", &[], Format::Binary)?;
    connection.sync();
    connection.until_ready(&mut |answer| match answer {
        Answer::Row(row) => each(&row),
        _ => Ok(()),
    })
}

/// The whole numbers of a row's columns, from 0 on.
fn numbers<const COUNT: usize>(row: &Row) -> Result<[i64; COUNT]> {
    let columns: Vec<_> = row.columns().collect();
    let numbers: Option<Vec<i64>> = columns.into_iter().map(|column| Row::int_in(column?)).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .with_context(|| format!("PostgreSQL: a row that has not {COUNT} numbers"))
}

/// A client: calls, and in each group one synchronisation.
struct Calls {
    connection: Connection,
    batched: bool,
    /// Calls since the last synchronisation.
    open: usize,
    /// Calls in each group whose synchronisation was requested, oldest first.
    groups: VecDeque<usize>,
}

impl Calls {
    fn sync(&mut self) {
        self.connection.sync();
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// Calls that an answer acknowledges.
    fn acknowledged(&mut self, answer: Answer) -> Result<usize> {
        match answer {
            // It comes after the commit of the group, and only then is anything acknowledged.
            Answer::Ready => self.groups.pop_front().context("PostgreSQL: ready, but nothing was requested"),
            Answer::Refused(error) => Err(error.into()),
            _ => Ok(0),
        }
    }
}

impl Client for Calls {
    fn submit(&mut self, transaction: Transaction, m: &Message) -> Result<()> {
        use Parameter::{Bytes, Int2, Int4, Int8};
        match transaction {
            Transaction::Receive => {
                let parameters = [
                    Int8(m.msg_id.cast_signed()),
                    Int4(m.account.cast_signed()),
                    Bytes(&m.source),
                    Int8(m.dst_key.cast_signed()),
                    Int8(m.submit_us),
                    Int8(m.expire_us),
                    Int2(m.rank.into()),
                    Int2(m.coding.into()),
                    Bytes(m.body()),
                ];
                self.connection.execute("r", &parameters, Format::Binary)?;
            }
            Transaction::Deliver => {
                let state = m.state();
                let parameters = [
                    Int8(m.dst_key.cast_signed()),
                    Int2(m.rank.into()),
                    Int8(m.msg_id.cast_signed()),
                    Int2(state.state.into()),
                    Int8(state.ready_us),
                ];
                self.connection.execute("d", &parameters, Format::Binary)?;
            }
        }
        self.open += 1;
        if !self.batched {
            self.sync();
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<usize> {
        if self.open > 0 {
            self.sync();
        }
        let mut settled = 0;
        while settled == 0 {
            let answer = self.connection.answer()?;
            settled += self.acknowledged(answer)?;
        }
        while let Some(answer) = self.connection.answer_here()? {
            settled += self.acknowledged(answer)?;
        }
        Ok(settled)
    }
}

impl Peer for Postgres {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let mut connection = connect(&self.socket)?;
        connection.prepare("r", "SELECT receive($1,$2,$3,$4,$5,$6,$7,$8,$9)", &[])?;
        connection.prepare("d", "SELECT deliver($1,$2,$3,$4,$5)", &[])?;
        connection.sync();
        connection.until_ready(&mut |_| Ok::<_, ConnectionError>(()))?;
        Ok(Box::new(Calls { connection, batched: self.batched, open: 0, groups: VecDeque::new() }))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let mut connection = connect(&self.socket)?;
        select(&mut connection, "SELECT * FROM message", |row| {
            let columns: Vec<_> = row.columns().map(Option::unwrap_or_default).collect();
            let [msg_id, account, source, dst_key, submit, expire, rank, coding, body] = columns[..] else {
                bail!("PostgreSQL: a message of {} columns", columns.len());
            };
            let number = |column| Row::int_in(column).context("PostgreSQL: a column that is no number");
            digest.message(&Message::from_columns(
                number(msg_id)? as u64,
                number(account)? as u32,
                source,
                number(dst_key)? as u64,
                number(submit)?,
                number(expire)?,
                number(rank)? as u8,
                number(coding)? as u8,
                body,
            )?);
            Ok(())
        })?;
        select(&mut connection, "SELECT * FROM to_delivery", |row| {
            let [dst_key, rank, msg_id, expire] = numbers(row)?;
            digest.queue(dst_key as u64, rank as u8, msg_id as u64, expire);
            Ok(())
        })?;
        select(&mut connection, "SELECT * FROM ms_state", |row| {
            let [dst_key, state, ready_us, last_msg] = numbers(row)?;
            let (dst_key, last_msg) = (dst_key as u64, last_msg as u64);
            digest.state(&State { dst_key, state: state as u8, ready_us, last_msg });
            Ok(())
        })
    }

    fn log_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        let sql = "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint";
        select(&mut connect(&self.socket)?, sql, |row| {
            bytes = row.int(0).unwrap_or(0) as u64;
            Ok(())
        })?;
        Ok(bytes)
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.server.end()
    }
}
