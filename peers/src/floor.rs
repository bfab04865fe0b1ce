//! The floor: a log and nothing else.
//!
//! What any store that makes a transaction durable by writing it must do at least: bring its bytes
//! to the disk and wait. Frames with the same bytes as the transaction (keys and values of the rows
//! written, keys of the rows deleted), greedy group commit (as soon as the device is free, all that
//! has arrived is the next flush; a client that finds the device idle flushes itself, and while
//! more arrives a thread goes on with it), a file filled with zeros beforehand, so that a sync
//! changes no metadata, every flush padded to 4 KiB and followed by `fdatasync`. No tables, no
//! locks, no indexes.
//!
//! Frame: 0xF1, length u24 LE (of what follows the checksum), CRC32C u32 LE, kind u8, rows. A zero
//! byte instead of 0xF1 means: go on at the next multiple of 4 KiB; at such a multiple, it is the
//! end.

use crate::futex;
use crate::message::{Digest, Message, Table};
use crate::peer::{Client, Peer, Transaction};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const PAGE: usize = 4096;
const MAGIC: u8 = 0xf1;

#[derive(Default)]
struct Flush {
    /// 0 = under way, 1 = durable, 2 = failed.
    outcome: AtomicU32,
}

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    flush: Arc<Flush>,
    /// Somebody writes, or is called to.
    busy: bool,
    /// The thread is called to write.
    called: bool,
    /// Length of the log.
    offset: u64,
}

struct Shared {
    file: File,
    pending: Mutex<Pending>,
    arrived: Condvar,
    written: AtomicU64,
}

/// The log, open.
pub struct Floor {
    shared: Arc<Shared>,
}

impl Floor {
    /// Opens the log in `dir`; a new one is filled with `room` bytes of zeros first.
    pub fn open(dir: &Path, room: u64) -> Result<Floor> {
        let path = dir.join("floor.log");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        if file.metadata()?.len() == 0 {
            // In pieces of which each sync costs least, as mmdb's.
            let zeros = vec![0; 64 << 10];
            for piece in 0..room >> 16 {
                file.write_all_at(&zeros, piece << 16)?;
            }
            file.sync_all()?;
        }
        let shared = Arc::new(Shared {
            file,
            pending: Mutex::default(),
            arrived: Condvar::new(),
            written: AtomicU64::new(0),
        });
        let of_writer = Arc::clone(&shared);
        // The thread ends with the process: a log that is dropped would have nobody to tell.
        std::thread::spawn(move || flush_for_ever(&of_writer));
        Ok(Floor { shared })
    }
}

/// The thread: called when more has arrived than its own client will write.
fn flush_for_ever(shared: &Shared) {
    let mut bytes = Vec::new();
    let mut pending = shared.lock();
    loop {
        while !pending.called {
            pending = shared.arrived.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        while !pending.bytes.is_empty() {
            pending = shared.flush(pending, &mut bytes);
        }
        (pending.busy, pending.called) = (false, false);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs what is pending and wakes those who wait for it. The caller has set `busy`.
    fn flush<'a>(
        &'a self,
        mut pending: MutexGuard<'a, Pending>,
        bytes: &mut Vec<u8>,
    ) -> MutexGuard<'a, Pending> {
        bytes.clear();
        std::mem::swap(bytes, &mut pending.bytes);
        let flush = std::mem::take(&mut pending.flush);
        let offset = pending.offset;
        drop(pending);
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let done = self.file.write_all_at(bytes, offset).and_then(|()| self.file.sync_data());
        let end = offset + bytes.len() as u64;
        self.written.store(end, Ordering::Relaxed);
        flush.outcome.store(if done.is_ok() { 1 } else { 2 }, Ordering::Release);
        futex::wake_all(&flush.outcome);
        let mut pending = self.lock();
        pending.offset = end;
        pending
    }

    /// Calls the thread; the caller has set `busy`, or keeps it set.
    fn call(&self, mut pending: MutexGuard<'_, Pending>) {
        (pending.busy, pending.called) = (true, true);
        drop(pending);
        self.arrived.notify_one();
    }
}

impl Peer for Floor {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(FloorClient {
            shared: &self.shared,
            flushes: VecDeque::new(),
            frame: Vec::new(),
            written: Vec::new(),
        }))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let file = &self.shared.file;
        let mut log = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut log, 0)?;
        let mut tables: [HashMap<Vec<u8>, Vec<u8>>; 3] = Default::default();
        let mut at = 0;
        while at < log.len() {
            if log[at] != MAGIC {
                if at.is_multiple_of(PAGE) {
                    break;
                }
                at = at.next_multiple_of(PAGE);
                continue;
            }
            let head = log.get(at..at + 8).context("floor: the last head is cut")?;
            let len = u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize;
            let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            let Some(frame) = log.get(at + 8..at + 8 + len) else { bail!("floor: frame at {at} is cut") };
            ensure!(crc32c::crc32c(frame) == crc, "floor: frame at {at} is damaged");
            replay(frame, &mut tables).with_context(|| format!("floor: frame at {at}"))?;
            at += 8 + len;
        }
        for (table, rows) in crate::message::TABLES.into_iter().zip(&tables) {
            for (key, value) in rows {
                digest.row(table, key, value);
            }
        }
        Ok(())
    }

    fn log_bytes(&self) -> Result<u64> {
        Ok(self.shared.written.load(Ordering::Relaxed))
    }
}

/// Applies one frame to tables in memory, as a check of what the log holds.
fn replay(frame: &[u8], tables: &mut [HashMap<Vec<u8>, Vec<u8>>; 3]) -> Result<()> {
    let (&kind, rows) = frame.split_first().context("empty")?;
    if kind == 0 {
        ensure!(rows.len() >= 33, "short");
        let (message, queue) = rows.split_at(rows.len() - 25);
        tables[Table::Message as usize].insert(message[..8].to_vec(), message[8..].to_vec());
        tables[Table::Queue as usize].insert(queue[..17].to_vec(), queue[17..].to_vec());
    } else {
        ensure!(rows.len() == 50, "length");
        ensure!(tables[Table::Queue as usize].remove(&rows[..17]).is_some(), "no such queue row");
        ensure!(tables[Table::Message as usize].remove(&rows[17..25]).is_some(), "no such message");
        tables[Table::State as usize].insert(rows[25..33].to_vec(), rows[33..].to_vec());
    }
    Ok(())
}

struct FloorClient<'a> {
    shared: &'a Shared,
    /// Flushes under way and how many frames of this client each holds, oldest first.
    flushes: VecDeque<(Arc<Flush>, usize)>,
    frame: Vec<u8>,
    /// Spare room for what this client writes itself.
    written: Vec<u8>,
}

impl Client for FloorClient<'_> {
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()> {
        let frame = &mut self.frame;
        frame.clear();
        frame.resize(8, 0);
        match transaction {
            Transaction::Receive => {
                frame.push(0);
                frame.extend_from_slice(&message.message_key());
                message.message_value(frame);
                frame.extend_from_slice(&message.queue_key());
                frame.extend_from_slice(&message.queue_value());
            }
            Transaction::Deliver => {
                let state = message.state();
                frame.push(1);
                frame.extend_from_slice(&message.queue_key());
                frame.extend_from_slice(&message.message_key());
                frame.extend_from_slice(&state.key());
                frame.extend_from_slice(&state.value());
            }
        }
        let len = (frame.len() - 8) as u32;
        let crc = crc32c::crc32c(&frame[8..]);
        frame[..4].copy_from_slice(&(u32::from(MAGIC) | len << 8).to_le_bytes());
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        let mut pending = self.shared.lock();
        pending.bytes.extend_from_slice(frame);
        // A client with more under way is asynchronous: it has better things to do than to write.
        let alone = self.flushes.is_empty();
        match self.flushes.back_mut() {
            Some((flush, count)) if Arc::ptr_eq(flush, &pending.flush) => *count += 1,
            _ => self.flushes.push_back((Arc::clone(&pending.flush), 1)),
        }
        if !alone && !pending.busy {
            self.shared.call(pending);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<usize> {
        let mut pending = self.shared.lock();
        if !pending.busy && !pending.bytes.is_empty() {
            pending.busy = true;
            pending = self.shared.flush(pending, &mut self.written);
            if pending.bytes.is_empty() {
                pending.busy = false;
                drop(pending);
            } else {
                self.shared.call(pending);
            }
        } else {
            drop(pending);
        }
        let mut settled = 0;
        while let Some((flush, count)) = self.flushes.front() {
            let mut outcome = flush.outcome.load(Ordering::Acquire);
            while outcome == 0 && settled == 0 {
                futex::wait(&flush.outcome, 0);
                outcome = flush.outcome.load(Ordering::Acquire);
            }
            match outcome {
                0 => break,
                1 => settled += count,
                _ => bail!("floor: writing or syncing the log failed"),
            }
            self.flushes.pop_front();
        }
        Ok(settled)
    }
}
