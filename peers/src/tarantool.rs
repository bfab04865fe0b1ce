//! Tarantool, over a Unix socket: our IPROTO client, one stored procedure call for each transaction
//! (`tarantool.lua`).
//!
//! Durability: `wal_mode = fsync`. Asynchronous clients pipeline calls on their connection;
//! Tarantool runs each in a fiber of its own and writes what waits as one batch.

use crate::message::{Digest, Message, State};
use crate::peer::{Client, Peer, Transaction};
use crate::server::{self, Server};
use crate::wire::{Pipe, Protocol, read_whole};
use anyhow::{Context, Result, bail, ensure};
use rmp::decode::{read_array_len, read_int, read_map_len, read_str_len};
use rmp::encode::{write_array_len, write_map_len, write_pfix, write_sint, write_str_len, write_uint};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = include_str!("tarantool.lua");

// Keys and codes of the protocol, as its documentation names them.
const IPROTO_REQUEST_TYPE: u8 = 0x00;
const IPROTO_SYNC: u8 = 0x01;
const IPROTO_CALL: u8 = 0x0a;
const IPROTO_TUPLE: u8 = 0x21;
const IPROTO_FUNCTION_NAME: u8 = 0x22;
const IPROTO_DATA: u8 = 0x30;

/// The server and its data.
pub struct Tarantool {
    server: Server,
    dir: PathBuf,
    socket: PathBuf,
}

impl Tarantool {
    /// Starts a server on what is in `dir` and waits until it answers.
    pub fn open(dir: &Path) -> Result<Tarantool> {
        let socket = dir.join("s");
        let _ = std::fs::remove_file(&socket);
        std::fs::write(dir.join("tarantool.lua"), SCRIPT)?;
        let program = server::find("tarantool").context("no tarantool: apt-get install tarantool")?;
        let mut command = Command::new(program);
        command.arg("tarantool.lua").env("PEERS_SOCKET", "unix/:./s");
        // The socket is there before the procedures are: ask for rows until that works.
        let (server, ()) = Server::start(command, dir, libc::SIGKILL, || {
            let mut stream = greet(&socket)?;
            call_rows(&mut stream, &mut Vec::new(), "ms_state", &[u64::MAX], |_| Ok(Vec::new())).map(|_| ())
        })?;
        Ok(Tarantool { server, dir: dir.to_owned(), socket })
    }
}

/// Connects and reads the greeting.
fn greet(socket: &Path) -> Result<UnixStream> {
    let mut stream = server::connect(socket)?;
    let mut greeting = [0; 128];
    stream.read_exact(&mut greeting).context("Tarantool's greeting")?;
    ensure!(greeting.starts_with(b"Tarantool"), "this is not Tarantool's greeting");
    Ok(stream)
}

/// Writing into a vector cannot fail; what cannot happen is left to a panic with its reason.
fn sure<T, E: std::fmt::Debug>(written: Result<T, E>) -> T {
    written.expect("writing to memory does not fail")
}

/// Appends a CALL; `arguments` writes the array of arguments.
fn call(out: &mut Vec<u8>, sync: u64, function: &str, arguments: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0xce, 0, 0, 0, 0]);
    sure(write_map_len(out, 2));
    sure(write_pfix(out, IPROTO_REQUEST_TYPE));
    sure(write_pfix(out, IPROTO_CALL));
    sure(write_pfix(out, IPROTO_SYNC));
    sure(write_uint(out, sync));
    sure(write_map_len(out, 2));
    sure(write_pfix(out, IPROTO_FUNCTION_NAME));
    string(out, function.as_bytes());
    sure(write_pfix(out, IPROTO_TUPLE));
    arguments(out);
    let len = (out.len() - at - 5) as u32;
    out[at + 1..at + 5].copy_from_slice(&len.to_be_bytes());
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    sure(write_str_len(out, bytes.len() as u32));
    out.extend_from_slice(bytes);
}

/// The length of the packet at the start of `input` with its prefix, if all of it is there.
fn packet_len(input: &[u8]) -> Result<Option<usize>> {
    let mut rest = input;
    if input.len() < 5 {
        return Ok(None);
    }
    let len: u32 = read_int(&mut rest).context("IPROTO length")?;
    let whole = input.len() - rest.len() + len as usize;
    Ok((input.len() >= whole).then_some(whole))
}

/// Reads the header of a packet: its status must be 0. Leaves `packet` at the body.
fn header(packet: &mut &[u8]) -> Result<()> {
    let _len: u32 = read_int(packet)?;
    let mut status = 0;
    for _ in 0..read_map_len(packet)? {
        let key: u8 = read_int(packet)?;
        let value: u64 = read_int(packet)?;
        if key == IPROTO_REQUEST_TYPE {
            status = value;
        }
    }
    if status != 0 {
        bail!("Tarantool refused ({status:#x}): {}", String::from_utf8_lossy(packet));
    }
    Ok(())
}

struct Iproto {
    sync: u64,
}

impl Protocol for Iproto {
    fn request(&mut self, transaction: Transaction, m: &Message, out: &mut Vec<u8>) {
        self.sync += 1;
        match transaction {
            Transaction::Receive => call(out, self.sync, "receive", |out| {
                sure(write_array_len(out, 9));
                sure(write_uint(out, m.msg_id));
                sure(write_uint(out, u64::from(m.account)));
                string(out, &m.source);
                sure(write_uint(out, m.dst_key));
                sure(write_sint(out, m.submit_us));
                sure(write_sint(out, m.expire_us));
                sure(write_uint(out, u64::from(m.rank)));
                sure(write_uint(out, u64::from(m.coding)));
                string(out, m.body());
            }),
            Transaction::Deliver => call(out, self.sync, "deliver", |out| {
                let state = m.state();
                sure(write_array_len(out, 5));
                sure(write_uint(out, m.dst_key));
                sure(write_uint(out, u64::from(m.rank)));
                sure(write_uint(out, m.msg_id));
                sure(write_uint(out, u64::from(state.state)));
                sure(write_sint(out, state.ready_us));
            }),
        }
    }

    fn reply(&mut self, input: &[u8]) -> Result<Option<(usize, usize)>> {
        let Some(len) = packet_len(input)? else { return Ok(None) };
        header(&mut &input[..len])?;
        Ok(Some((len, 1)))
    }
}

/// Calls `rows(space, after)` and gives each row to `row`, which returns its key; returns the last
/// key, `None` at the end.
fn call_rows(
    stream: &mut UnixStream,
    buffer: &mut Vec<u8>,
    space: &str,
    after: &[u64],
    mut row: impl FnMut(&mut &[u8]) -> Result<Vec<u64>>,
) -> Result<Option<Vec<u64>>> {
    let mut request = Vec::new();
    call(&mut request, 0, "rows", |out| {
        sure(write_array_len(out, 2));
        string(out, space.as_bytes());
        sure(write_array_len(out, after.len() as u32));
        for &part in after {
            sure(write_uint(out, part));
        }
    });
    stream.write_all(&request)?;
    let packet =
        read_whole(stream, buffer, |input| Ok(packet_len(input)?.map(|len| (len, input[..len].to_vec()))))?;
    let mut packet = &packet[..];
    header(&mut packet)?;
    ensure!(read_map_len(&mut packet)? == 1, "a body with one entry");
    ensure!(read_int::<u8, _>(&mut packet)? == IPROTO_DATA, "a body with data");
    // CALL wraps what the function returned, one table of tuples, in an array.
    ensure!(read_array_len(&mut packet)? == 1, "one value returned");
    let mut last = None;
    for _ in 0..read_array_len(&mut packet)? {
        last = Some(row(&mut packet)?);
    }
    Ok(last)
}

impl Peer for Tarantool {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(Pipe::new(greet(&self.socket)?, Iproto { sync: 0 })))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let mut stream = greet(&self.socket)?;
        let mut buffer = Vec::new();
        let mut scan = |space: &str, row: &mut dyn FnMut(&mut &[u8]) -> Result<Vec<u64>>| {
            let mut after = Vec::new();
            while let Some(last) = call_rows(&mut stream, &mut buffer, space, &after, &mut *row)? {
                after = last;
            }
            Ok::<_, anyhow::Error>(())
        };
        scan("message", &mut |at| {
            ensure!(read_array_len(at)? == 9, "a message has nine columns");
            let (msg_id, account) = (read_int(at)?, read_int(at)?);
            let source = text(at)?;
            let (dst_key, submit_us, expire_us) = (read_int(at)?, read_int(at)?, read_int(at)?);
            let (rank, coding) = (read_int(at)?, read_int(at)?);
            let body = text(at)?;
            digest.message(&Message::from_columns(
                msg_id, account, source, dst_key, submit_us, expire_us, rank, coding, body,
            )?);
            Ok(vec![msg_id])
        })?;
        scan("to_delivery", &mut |at| {
            ensure!(read_array_len(at)? == 4, "a queue row has four columns");
            let (dst_key, rank, msg_id, expire_us) =
                (read_int(at)?, read_int(at)?, read_int(at)?, read_int(at)?);
            digest.queue(dst_key, rank, msg_id, expire_us);
            Ok(vec![dst_key, u64::from(rank), msg_id])
        })?;
        scan("ms_state", &mut |at| {
            ensure!(read_array_len(at)? == 4, "a state has four columns");
            let state = State {
                dst_key: read_int(at)?,
                state: read_int(at)?,
                ready_us: read_int(at)?,
                last_msg: read_int(at)?,
            };
            digest.state(&state);
            Ok(vec![state.dst_key])
        })
    }

    fn log_bytes(&self) -> Result<u64> {
        server::bytes_in(&self.dir, ".xlog")
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.pid())
    }

    fn kill(self: Box<Self>) -> Result<()> {
        self.server.end()
    }
}

/// Reads a string.
fn text<'a>(at: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = read_str_len(at)? as usize;
    let (text, rest) = at.split_at_checked(len).context("a string is cut")?;
    *at = rest;
    Ok(text)
}
