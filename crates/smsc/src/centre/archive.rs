//! The archive: one line of JSON for each message that has its final state, the call detail record.
//!
//! Appending is idempotent: a message of the last batch, which a crash may have kept in the store, is not appended again. A
//! torn last line is cut off when the archive is opened: its batch was not synced, so the store still has it.

use crate::model::Message;
use crate::store::StoreError;
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The archive's file in the directory of the store.
const NAME: &str = "archive.jsonl";

/// An archive, open for appending.
pub struct Archive {
    path: PathBuf,
    file: File,
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
}

/// A call detail record, as far as `smsc check` needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The message.
    pub msg_id: i64,
    /// The message that it was the receipt of; 0 for none.
    pub receipt_of: i64,
    /// Its station.
    pub dst_key: i64,
    /// Its rank.
    pub rank: u8,
    /// Whether a receipt was due for it.
    pub wants_receipt: bool,
    /// Whether it was delivered.
    pub delivered: bool,
    /// Whether it was scheduled.
    pub scheduled: bool,
    /// When it became final, µs.
    pub done_us: i64,
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
        let whole = read(&path, &mut |record| ids.push(record.msg_id))?;
        if whole < file.metadata().map_err(io())?.len() {
            file.set_len(whole).map_err(io())?;
            file.sync_all().map_err(io())?;
        }
        file.seek(SeekFrom::End(0)).map_err(io())?;
        let count = ids.len() as u64;
        Ok(Archive { path, file, last: ids.into_iter().collect(), count })
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
        let mut lines = String::new();
        let fresh: Vec<&Message> = messages.iter().filter(|it| !self.last.contains(&it.msg_id)).collect();
        for message in &fresh {
            lines.push_str(&record(message).to_string());
            lines.push('\n');
        }
        self.file.write_all(lines.as_bytes()).map_err(StoreError::io(&self.path))?;
        self.file.sync_data().map_err(StoreError::io(&self.path))?;
        self.count += fresh.len() as u64;
        self.last = messages.iter().map(|message| message.msg_id).collect();
        Ok(())
    }
}

fn record(message: &Message) -> Json {
    json!({
        "msg_id": message.msg_id, "state": message.state as u8, "account": message.account,
        "src": message.src, "dst": message.dst, "station": message.dst_key.0, "rank": message.rank(),
        "submit_us": message.submit_us, "schedule_us": message.schedule_us, "done_us": message.done_us,
        "attempts": message.attempts, "error": message.last_error, "parts": message.parts,
        "receipt_of": message.receipt_of, "registered_delivery": message.registered_delivery,
        "data_coding": message.data_coding, "octets": message.body.len(),
        "receipt_due": message.wants_receipt(message.state),
    })
}

/// Reads the archive in `directory`, if there is one.
///
/// # Errors
/// I/O, a line that is no record.
pub fn read_archive(directory: &Path, each: &mut dyn FnMut(Archived)) -> Result<(), ArchiveError> {
    let path = directory.join(NAME);
    if path.exists() { read(&path, each).map(drop) } else { Ok(()) }
}

/// Gives every record to `each`; the length of the whole lines. Only the last line may be torn.
fn read(path: &Path, each: &mut dyn FnMut(Archived)) -> Result<u64, ArchiveError> {
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
        match archived(&line) {
            Some(record) => each(record),
            // A crash may leave a last batch of which some blocks were written and others not: then no whole line follows.
            None if lines.fill_buf().map_err(StoreError::io(path))?.is_empty() => break,
            None => {
                let problem = "no call detail record".into();
                return Err(ArchiveError::Line { path: path.display().to_string(), line: number, problem });
            }
        }
        whole += length as u64;
    }
    Ok(whole)
}

fn archived(line: &[u8]) -> Option<Archived> {
    let record: Json = serde_json::from_slice(line).ok()?;
    let number = |name: &str| record.get(name)?.as_i64();
    Some(Archived {
        msg_id: number("msg_id")?,
        receipt_of: number("receipt_of")?,
        dst_key: number("station")?,
        rank: u8::try_from(number("rank")?).ok()?,
        wants_receipt: record.get("receipt_due")?.as_bool()?,
        delivered: number("state")? == crate::model::State::Delivered as i64,
        scheduled: number("schedule_us")? > number("submit_us")?,
        done_us: number("done_us")?,
    })
}
