//! The archive: one line of JSON for each message that has its final state, the call detail record.
//!
//! Appending is idempotent: a message of the last batch, which a crash may have kept in the store, is not appended again. A
//! torn last line is cut off when the archive is opened: its batch was not synced, so the store still has it.

use super::manage::Status;
use crate::model::Message;
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The archive's file in the directory of the store.
const NAME: &str = "archive.jsonl";

/// Records that lie behind each other in the file: where, and what numbers they have. Small enough that looking through all of
/// them is quick; that a stretch has them all in memory would cost what archiving is to spare.
#[derive(Clone, Debug)]
struct Stretch {
    ids: RangeInclusive<i64>,
    octets: Range<u64>,
}

/// Records of a stretch at most.
const STRETCH: usize = 1024;

/// The stretches of an archive, shared by who appends and who reads.
#[derive(Debug, Default)]
struct Stretches {
    all: Vec<Stretch>,
    /// Records in the last one.
    last: usize,
}

impl Stretches {
    fn add(&mut self, id: i64, octets: Range<u64>) {
        match self.all.last_mut() {
            Some(last) if self.last < STRETCH => {
                last.ids = *last.ids.start().min(&id)..=*last.ids.end().max(&id);
                last.octets.end = octets.end;
                self.last += 1;
            }
            _ => {
                self.all.push(Stretch { ids: id..=id, octets });
                self.last = 1;
            }
        }
    }
}

/// Finds records in an archive that others may be appending to. Any number of threads may use it.
pub struct ArchiveReader {
    path: PathBuf,
    file: File,
    stretches: Arc<Mutex<Stretches>>,
}

impl ArchiveReader {
    /// The record of this message.
    ///
    /// # Errors
    /// I/O, a line that is no record.
    pub fn find(&self, msg_id: i64) -> Result<Option<Archived>, ArchiveError> {
        let stretches = lock(&self.stretches);
        let may_have = stretches.all.iter().rev().filter(|it| it.ids.contains(&msg_id));
        let octets: Vec<Range<u64>> = may_have.map(|it| it.octets.clone()).collect();
        drop(stretches);
        let beginning = format!("{{\"msg_id\":{msg_id},");
        for octets in octets {
            // A stretch of this process's making fits its memory.
            let mut lines = vec![0; (octets.end - octets.start) as usize];
            self.file.read_exact_at(&mut lines, octets.start).map_err(StoreError::io(&self.path))?;
            // Every record begins with its number: `Archived` has it first.
            let found =
                lines.split(|&octet| octet == b'\n').find(|line| line.starts_with(beginning.as_bytes()));
            if let Some(line) = found {
                let record = serde_json::from_slice(line);
                return record.map(Some).map_err(|error| ArchiveError::Record {
                    path: self.path.display().to_string(),
                    msg_id,
                    problem: error.to_string(),
                });
            }
        }
        Ok(None)
    }
}

fn lock(stretches: &Mutex<Stretches>) -> MutexGuard<'_, Stretches> {
    stretches.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An archive, open for appending.
pub struct Archive {
    path: PathBuf,
    file: File,
    /// Where its whole lines end.
    end: u64,
    stretches: Arc<Mutex<Stretches>>,
    /// Numbers in the last batch that may still be in the store.
    last: HashSet<i64>,
    /// Messages in the archive.
    count: u64,
}

/// What goes wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A line is no call detail record.
    #[error("{path}, line {line}: {problem}; the archive was changed or is damaged")]
    Line {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The line of a message is no call detail record.
    #[error(
        "{path}: the record of message {msg_id} cannot be read ({problem}); the archive was changed or is damaged"
    )]
    Record {
        /// The file.
        path: String,
        /// The message.
        msg_id: i64,
        /// What is wrong.
        problem: String,
    },
}

/// A call detail record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// The message.
    pub msg_id: i64,
    /// Its final state, by SMPP's number.
    pub state: u8,
    /// Account.
    pub account: u32,
    /// Source address.
    pub src: String,
    /// Destination address.
    pub dst: String,
    /// Its station's key.
    pub station: i64,
    /// 3 − priority.
    pub rank: u8,
    /// When it was accepted, µs.
    pub submit_us: i64,
    /// When it was to be delivered; 0 for at once, µs.
    pub schedule_us: i64,
    /// When it became final, µs.
    pub done_us: i64,
    /// Attempts.
    pub attempts: u32,
    /// Error of the last one.
    pub error: u32,
    /// Parts.
    pub parts: u8,
    /// The message that it was the receipt of; 0 for none.
    pub receipt_of: i64,
    /// registered_delivery.
    pub registered_delivery: u8,
    /// data_coding.
    pub data_coding: u8,
    /// Octets of its body.
    pub octets: usize,
    /// Whether a receipt was due for it.
    pub receipt_due: bool,
}

impl Archived {
    /// The record of a message.
    #[must_use]
    pub fn of(message: &Message) -> Archived {
        Archived {
            msg_id: message.msg_id,
            state: message.state as u8,
            account: message.account,
            src: message.src.clone(),
            dst: message.dst.clone(),
            station: message.dst_key.0,
            rank: message.rank(),
            submit_us: message.submit_us,
            schedule_us: message.schedule_us,
            done_us: message.done_us,
            attempts: message.attempts,
            error: message.last_error,
            parts: message.parts,
            receipt_of: message.receipt_of,
            registered_delivery: message.registered_delivery,
            data_coding: message.data_coding,
            octets: message.body.len(),
            receipt_due: message.wants_receipt(message.state),
        }
    }

    /// Whether it was delivered.
    #[must_use]
    pub fn delivered(&self) -> bool {
        self.state == crate::model::State::Delivered as u8
    }

    /// What a query tells of it; none if its state is unknown.
    pub(super) fn status(&self) -> Option<Status> {
        let state = crate::model::MessageState::of(self.state.into())?;
        Some(Status { state, done_us: self.done_us, error: self.error })
    }

    /// Whether it had to wait for its time.
    #[must_use]
    pub fn scheduled(&self) -> bool {
        self.schedule_us > self.submit_us
    }
}

impl Archive {
    /// Opens the archive in `directory`, or makes it.
    ///
    /// # Errors
    /// The file cannot be used, or a line in it is no record.
    pub fn open(directory: &Path) -> Result<Archive, ArchiveError> {
        let path = directory.join(NAME);
        let io = || StoreError::io(&path);
        let mut file = File::options().read(true).append(true).create(true).open(&path).map_err(io())?;
        let mut ids = Vec::new();
        let mut stretches = Stretches::default();
        let whole = read(&path, &mut |record, octets| {
            ids.push(record.msg_id);
            stretches.add(record.msg_id, octets);
        })?;
        if whole < file.metadata().map_err(io())?.len() {
            file.set_len(whole).map_err(io())?;
            file.sync_all().map_err(io())?;
        }
        file.seek(SeekFrom::End(0)).map_err(io())?;
        let count = ids.len() as u64;
        let stretches = Arc::new(Mutex::new(stretches));
        Ok(Archive { path, file, end: whole, stretches, last: ids.into_iter().collect(), count })
    }

    /// A reader of what is archived, now and later.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn reader(&self) -> Result<ArchiveReader, ArchiveError> {
        let file = File::open(&self.path).map_err(StoreError::io(&self.path))?;
        Ok(ArchiveReader { path: self.path.clone(), file, stretches: Arc::clone(&self.stretches) })
    }

    /// Messages in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends those that are not in it, and syncs.
    ///
    /// # Errors
    /// I/O; then nothing is acknowledged.
    pub fn append(&mut self, messages: &[Message]) -> Result<(), ArchiveError> {
        let mut lines = Vec::new();
        let mut fresh = Vec::with_capacity(messages.len());
        for message in messages.iter().filter(|it| !self.last.contains(&it.msg_id)) {
            let begin = self.end + lines.len() as u64;
            let written = serde_json::to_writer(&mut lines, &Archived::of(message));
            written.map_err(|error| StoreError::io(&self.path)(error.into()))?;
            lines.push(b'\n');
            fresh.push((message.msg_id, begin..self.end + lines.len() as u64));
        }
        self.file.write_all(&lines).map_err(StoreError::io(&self.path))?;
        self.file.sync_data().map_err(StoreError::io(&self.path))?;
        self.count += fresh.len() as u64;
        self.end += lines.len() as u64;
        let mut stretches = lock(&self.stretches);
        fresh.into_iter().for_each(|(id, octets)| stretches.add(id, octets));
        drop(stretches);
        self.last = messages.iter().map(|message| message.msg_id).collect();
        Ok(())
    }
}

/// Reads the archive in `directory`, if there is one.
///
/// # Errors
/// I/O, a line that is no record.
pub fn read_archive(directory: &Path, each: &mut dyn FnMut(Archived)) -> Result<(), ArchiveError> {
    let path = directory.join(NAME);
    if path.exists() { read(&path, &mut |record, _| each(record)).map(drop) } else { Ok(()) }
}

/// Gives every record and its place to `each`; the length of the whole lines. Only the last line may be torn.
fn read(path: &Path, each: &mut dyn FnMut(Archived, Range<u64>)) -> Result<u64, ArchiveError> {
    let file = File::open(path).map_err(StoreError::io(path))?;
    let mut lines = BufReader::with_capacity(1 << 16, file);
    let mut whole = 0;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let length = lines.read_until(b'\n', &mut line).map_err(StoreError::io(path))?;
        if length == 0 || line.last() != Some(&b'\n') {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(record) => each(record, whole..whole + length as u64),
            // A crash may leave a last batch of which some blocks were written and others not: then no whole line follows.
            Err(_) if lines.fill_buf().map_err(StoreError::io(path))?.is_empty() => break,
            Err(error) => {
                let problem = format!("no call detail record: {error}");
                return Err(ArchiveError::Line { path: path.display().to_string(), line: number, problem });
            }
        }
        whole += length as u64;
    }
    Ok(whole)
}
