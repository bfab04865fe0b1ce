//! The archive: one line of JSON for each message that has its final state, the call detail record.
//!
//! Appending is idempotent: a message that is in the archive and may still be in the store is not
//! appended again. What no sync has vouched for is cut off when the archive is opened: the store
//! still has it ([`format`]).
//!
//! A file that is long or old enough is closed, and another begun ([`Rotation`]).

mod closed;
mod format;
mod reader;
mod record;
mod stretch;

pub use closed::{Rotation, write_csv};
pub use reader::ArchiveReader;
pub use record::ArchivedMessage;

use crate::file_identity::FileIdentity;
use crate::model::Message;
use crate::transaction::StoreError;
use format::Batch;
use reader::lock;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use stretch::Stretches;

/// The archive's file in the directory of the store.
const NAME: &str = "archive.jsonl";
/// The same while it is made.
const NEW_NAME: &str = "archive.jsonl.new";

/// An archive, open for appending.
pub struct Archive {
    directory: PathBuf,
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    /// The name of the store whose messages it has.
    store: Option<String>,
    rotation: Rotation,
    /// The number that the file gets when it is closed.
    number: u32,
    /// Messages in the file, and when the first became final, µs.
    records: u64,
    first_us: Option<i64>,
    /// Where its sealed batches end.
    end: u64,
    /// What follows could not be cut off: nothing may be appended to it.
    torn: bool,
    stretches: Arc<Mutex<Stretches>>,
    /// Numbers that may still be in the store.
    in_store: HashSet<i64>,
    /// Messages in the archive.
    count: u64,
}

/// What goes wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A line is not what it must be.
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
    /// A later version wrote it.
    #[error(
        "{path} is an archive of format {format}, and formats 1 to {known} are known; take the smsc that wrote it"
    )]
    Format {
        /// The file.
        path: String,
        /// Its format.
        format: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It has the messages of another store, whose numbers are others.
    #[error(
        "{path} is of another store ({found}, and this one is {wanted}): messages of both have the same numbers; move it \
         away, or back to its store"
    )]
    OtherStore {
        /// The file.
        path: String,
        /// The store that its first line names.
        found: String,
        /// The store that is open.
        wanted: String,
    },
    /// An append failed, and what it had written could not be cut off.
    #[error("{path}: a batch was written in part and could not be cut off; open the archive again")]
    Torn {
        /// The file.
        path: String,
    },
}

impl Archive {
    /// Opens the archive in `directory`, or makes it. What it then has is synced, and its name in
    /// the directory, too.
    ///
    /// # Errors
    /// The file cannot be used, or is damaged.
    pub fn open(directory: &Path) -> Result<Archive, ArchiveError> {
        Archive::open_with(directory, Rotation::NEVER, None)
    }

    /// As [`Archive::open`], with files that are closed in time; of the store of this name, if it
    /// has one: a file that names another is refused, one that names none is taken.
    ///
    /// # Errors
    /// As of [`Archive::open`]; [`ArchiveError::OtherStore`].
    pub fn open_with(
        directory: &Path,
        rotation: Rotation,
        store: Option<String>,
    ) -> Result<Archive, ArchiveError> {
        let path = directory.join(NAME);
        let io = || StoreError::io(&path);
        let mut in_store = HashSet::new();
        let mut count = 0;
        let mut stretches = Stretches::default();
        let closed = closed::numbers(directory)?;
        if let Some(wanted) = &store {
            let files = closed.iter().map(|&number| closed::path(directory, number));
            for file in files.chain(path.is_file().then(|| path.clone())) {
                if let Some(found) = format::store_of(&file)?.filter(|found| found != wanted) {
                    let (path, wanted) = (file.display().to_string(), wanted.clone());
                    return Err(ArchiveError::OtherStore { path, found, wanted });
                }
            }
        }
        for &number in &closed {
            let (of_file, records) = closed::stretches(directory, number)?;
            stretches.add_closed(of_file);
            count += records;
        }
        let number = closed::next(directory, &path)?;
        stretches.open = number;
        let (mut records, mut first_us) = (0, None);
        let (mut end, mut unsealed) = (0, Batch::default());
        if path.try_exists().map_err(io())? {
            let whole = format::read(&path, &mut |record, octets| {
                records += 1;
                first_us.get_or_insert(record.done_us);
                in_store.insert(record.msg_id);
                stretches.add(record.msg_id, number, octets);
            })?;
            (end, unsealed) = (whole.end, whole.unsealed);
        }
        count += records;
        // What was archived last may still be in the store, and is in the last file that has
        // anything.
        if let (0, Some(&last)) = (records, closed.last()) {
            closed::read(&closed::path(directory, last), &mut |record, _| {
                _ = in_store.insert(record.msg_id)
            })?;
        }
        if end == 0 {
            refuse_foreign(&path)?;
            end = make(directory, &path, store.as_deref(), number)?;
        }
        let mut file = File::options().read(true).append(true).open(&path).map_err(io())?;
        if end < file.metadata().map_err(io())?.len() {
            file.set_len(end).map_err(io())?;
        }
        if unsealed != Batch::default() {
            // Now nobody need wonder any more what of a file of format 1 counts.
            let seal = unsealed.seal();
            file.write_all(seal.as_bytes()).map_err(io())?;
            end += seal.len() as u64;
        }
        // What a process wrote that was killed before it synced counts from now on.
        file.sync_all().map_err(io())?;
        sync_directory(directory)?;
        let identity = FileIdentity::of(&path)?;
        let stretches = Arc::new(Mutex::new(stretches));
        Ok(Archive {
            directory: directory.to_owned(),
            path,
            file,
            identity,
            store,
            rotation,
            number,
            records,
            first_us,
            end,
            torn: false,
            stretches,
            in_store,
            count,
        })
    }

    /// Closes the file if it is long or old enough, and begins another; whether it did. What it has
    /// is synced, so a crash in between leaves the one or the other.
    ///
    /// # Errors
    /// I/O.
    pub fn rotate(&mut self, now_us: i64) -> Result<bool, ArchiveError> {
        let is_long = self.rotation.octets > 0 && self.end >= self.rotation.octets;
        let is_old = match (self.rotation.age, self.first_us) {
            (Some(age), Some(first_us)) => i128::from(now_us - first_us) >= age.as_micros() as i128,
            _ => false,
        };
        if self.records == 0 || self.torn || !(is_long || is_old) {
            return Ok(false);
        }
        let closed = closed::path(&self.directory, self.number);
        closed::write_index(&closed, self.end, &lock(&self.stretches).of(self.number), self.records)?;
        {
            let mut stretches = lock(&self.stretches);
            std::fs::rename(&self.path, &closed).map_err(StoreError::io(&closed))?;
            self.number += 1;
            stretches.open = self.number;
        }
        self.end = make(&self.directory, &self.path, self.store.as_deref(), self.number)?;
        self.file =
            File::options().read(true).append(true).open(&self.path).map_err(StoreError::io(&self.path))?;
        self.identity = FileIdentity::of(&self.path)?;
        sync_directory(&self.directory)?;
        (self.records, self.first_us) = (0, None);
        Ok(true)
    }

    /// Whether closed files are to be there as CSV, too.
    #[must_use]
    pub fn has_csv(&self) -> bool {
        self.rotation.csv
    }

    /// The directory that it is in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A reader of what is archived, now and later.
    ///
    /// # Errors
    /// None now: a file is opened when it is read.
    pub fn reader(&self) -> Result<ArchiveReader, ArchiveError> {
        let (directory, path) = (self.directory.clone(), self.path.clone());
        Ok(ArchiveReader { directory, path, stretches: Arc::clone(&self.stretches) })
    }

    /// Messages in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends those that are not in it as one batch, and syncs.
    ///
    /// # Errors
    /// I/O; then none of them is in it.
    pub fn append(&mut self, messages: &[Message]) -> Result<(), ArchiveError> {
        if self.torn {
            return Err(ArchiveError::Torn { path: self.path.display().to_string() });
        }
        let mut lines = Vec::new();
        let mut fresh = Vec::with_capacity(messages.len());
        for message in messages.iter().filter(|message| !self.in_store.contains(&message.msg_id)) {
            let begin = self.end + lines.len() as u64;
            let written = serde_json::to_writer(&mut lines, &ArchivedMessage::of(message));
            written.map_err(|error| StoreError::io(&self.path)(error.into()))?;
            lines.push(b'\n');
            fresh.push((message.msg_id, begin..self.end + lines.len() as u64));
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.add(fresh.len() as u64, &lines);
        lines.extend_from_slice(batch.seal().as_bytes());
        if let Err(error) = self.file.write_all(&lines).and_then(|()| self.file.sync_data()) {
            // A full disk takes part of a batch: another one behind half a line would be lost with
            // it.
            self.torn = self.file.set_len(self.end).is_err();
            return Err(StoreError::io(&self.path)(error).into());
        }
        // One that was deleted takes records as ever, and they would leave the store for it.
        self.identity.require()?;
        self.count += fresh.len() as u64;
        self.records += fresh.len() as u64;
        self.first_us = self.first_us.or_else(|| messages.first().map(|message| message.done_us));
        self.end += lines.len() as u64;
        let mut stretches = lock(&self.stretches);
        for (id, octets) in fresh {
            stretches.add(id, self.number, octets);
            self.in_store.insert(id);
        }
        Ok(())
    }

    /// The store has acknowledged that these have left it; `all` if it then had no other final
    /// message when they were read. Until then they are kept in mind: that the store failed, or
    /// that the process ended before it answered, does not tell whether they have left.
    pub(crate) fn left_store(&mut self, messages: &[Message], all: bool) {
        if all {
            self.in_store = HashSet::new();
        } else {
            messages.iter().for_each(|message| _ = self.in_store.remove(&message.msg_id));
        }
    }
}

/// Makes an empty archive, which gets this number when it is closed; its length. It has its name
/// once it is whole.
fn make(directory: &Path, path: &Path, store: Option<&str>, number: u32) -> Result<u64, StoreError> {
    let new = directory.join(NEW_NAME);
    let header = format::header(store, number);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(header.as_bytes())?;
        file.sync_all()
    });
    written.map_err(StoreError::io(&new))?;
    std::fs::rename(&new, path).map_err(StoreError::io(path))?;
    Ok(header.len() as u64)
}

/// A file of which nothing counts is made anew, if it can be the beginning of an archive: a record
/// or header that a kill cut short, or space that a crash left empty. Anything else, and a link, is
/// somebody's.
fn refuse_foreign(path: &Path) -> Result<(), ArchiveError> {
    let kind = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(StoreError::io(path))?,
    };
    let mut begin = Vec::new();
    if kind.is_file() {
        let mut file = File::open(path).map_err(StoreError::io(path))?.take(2);
        file.read_to_end(&mut begin).map_err(StoreError::io(path))?;
    }
    if kind.is_file() && (begin.iter().all(|&octet| octet == 0) || b"{\"".starts_with(&begin)) {
        return Ok(());
    }
    let problem = "no archive begins like this, and what is there is not replaced: move it away".into();
    Err(ArchiveError::Line { path: path.display().to_string(), line: 1, problem })
}

/// A file's name is durable when its directory is, not when the file is.
fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(StoreError::io(directory))
}

/// How many closed files of the archive in `directory` were moved away.
pub(crate) fn moved_away(directory: &Path) -> Result<usize, StoreError> {
    if !directory.is_dir() {
        return Ok(0);
    }
    let made = closed::next(directory, &directory.join(NAME))?.saturating_sub(format::FIRST) as usize;
    Ok(made.saturating_sub(closed::numbers(directory)?.len()))
}

/// Reads the archive in `directory`, if there is one.
///
/// # Errors
/// I/O, a damaged file.
pub fn read_archive(directory: &Path, each: &mut dyn FnMut(ArchivedMessage)) -> Result<(), ArchiveError> {
    let path = directory.join(NAME);
    if directory.is_dir() {
        for number in closed::numbers(directory)? {
            closed::read(&closed::path(directory, number), &mut |record, _| each(record))?;
        }
    }
    if path.exists() { format::read(&path, &mut |record, _| each(record)).map(drop) } else { Ok(()) }
}
