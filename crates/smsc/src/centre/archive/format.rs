//! The archive's file: a line that says so, then batches. A batch is lines of records and a line
//! that seals it: how many records, how many octets, and their CRC-32C.
//!
//! ```text
//! {"archive":2,"store":"5e0b6c1f9d3a7742","number":7}
//! {"msg_id":17,"state":2,…}
//! {"msg_id":19,"state":5,…}
//! {"sealed":2,"octets":611,"crc32c":"9f0c2d11"}
//! ```
//!
//! A batch is synced before the next one is written, so only the last can be torn, and it may be
//! torn in any way: a file system writes blocks in any order, and a power cut may leave zeros in
//! the middle of it and whole lines behind them. So a batch without a seal that is right was never
//! acknowledged where no sealed batch follows; where one follows, the file was damaged later.
//!
//! Format 1 had neither line. A file that begins with a record is one of it, up to its first seal:
//! every line must be a record, but the last may be torn.

use super::{ArchiveError, ArchivedMessage};
use crate::transaction::StoreError;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The format that is written.
const FORMAT: u32 = 2;
/// Numbers of closed files begin here; what has none is the file that is appended to.
pub(super) const FIRST: u32 = 1;
/// How the lines begin that are no records.
const HEADER_BEGINS: &[u8] = b"{\"archive\":";
const SEAL_BEGINS: &[u8] = b"{\"sealed\":";

/// The first line of a file.
#[derive(Deserialize)]
struct Header {
    archive: u32,
    /// The store whose messages it has, where it was told.
    store: Option<String>,
    /// The number that it gets when it is closed, unless that is the first.
    number: Option<u32>,
}

/// The first line of a new file, of a store if that has a name, with the number that it gets when
/// it is closed.
pub(super) fn header(store: Option<&str>, number: u32) -> String {
    let store = store.map(|store| format!(",\"store\":\"{store}\"")).unwrap_or_default();
    let number = if number > FIRST { format!(",\"number\":{number}") } else { String::new() };
    format!("{{\"archive\":{FORMAT}{store}{number}}}\n")
}

/// Octets of a first line at most.
const HEADER_MAX: u64 = 4096;

/// The store whose messages a file has, where its first line says so.
pub(super) fn store_of(path: &Path) -> Result<Option<String>, StoreError> {
    Ok(header_of(path)?.and_then(|header| header.store))
}

/// The number that a file gets when it is closed, where its first line says so.
pub(super) fn number_of(path: &Path) -> Result<Option<u32>, StoreError> {
    Ok(header_of(path)?.and_then(|header| header.number))
}

/// The first line of a file; what is wrong with it is told by whoever reads the file.
fn header_of(path: &Path) -> Result<Option<Header>, StoreError> {
    let mut line = Vec::new();
    let file = File::open(path).map_err(StoreError::io(path))?;
    BufReader::new(file.take(HEADER_MAX)).read_until(b'\n', &mut line).map_err(StoreError::io(path))?;
    Ok(serde_json::from_slice(&line).ok())
}

/// What is known of a batch, or of a file of format 1, while its lines are read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    records: u64,
    octets: u64,
    crc: u32,
}

/// The last line of a batch.
#[derive(Deserialize)]
struct Seal {
    sealed: u64,
    octets: u64,
    crc32c: String,
}

impl Batch {
    /// Counts a record, or several; `lines` with their ends.
    pub fn add(&mut self, records: u64, lines: &[u8]) {
        self.records += records;
        self.octets += lines.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, lines);
    }

    /// The line that seals it.
    pub fn seal(&self) -> String {
        let Batch { records, octets, crc } = self;
        format!("{{\"sealed\":{records},\"octets\":{octets},\"crc32c\":\"{crc:08x}\"}}\n")
    }

    fn is_sealed_by(&self, seal: &Seal) -> bool {
        (self.records, self.octets) == (seal.sealed, seal.octets)
            && format!("{:08x}", self.crc) == seal.crc32c
    }
}

/// What of a file counts.
#[derive(Debug)]
pub(super) struct ValidPart {
    /// Where it ends.
    pub end: u64,
    /// What no seal vouches for: the records of a file of format 1.
    pub unsealed: Batch,
}

/// Lines of a file, with numbers and places.
struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    /// The line, its end included.
    line: Vec<u8>,
    /// From 1.
    number: usize,
    octets: Range<u64>,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Lines<'a>, StoreError> {
        let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(StoreError::io(path))?);
        Ok(Lines { path, file, line: Vec::new(), number: 0, octets: 0..0 })
    }

    /// Whether there is a next line, with its end.
    fn go_on(&mut self) -> Result<bool, StoreError> {
        self.line.clear();
        let length = self.file.read_until(b'\n', &mut self.line).map_err(StoreError::io(self.path))?;
        self.number += 1;
        self.octets = self.octets.end..self.octets.end + length as u64;
        Ok(self.line.last() == Some(&b'\n'))
    }

    fn is_last(&mut self) -> Result<bool, StoreError> {
        Ok(self.file.fill_buf().map_err(StoreError::io(self.path))?.is_empty())
    }

    /// Whether this line seals what is before it, or one behind it does.
    fn find_sealed(&mut self) -> Result<bool, StoreError> {
        loop {
            if self.line.starts_with(SEAL_BEGINS)
                && let Ok(seal) = serde_json::from_slice::<Seal>(&self.line)
                && (1..=self.octets.start).contains(&seal.octets)
            {
                let mut lines = vec![0; usize::try_from(seal.octets).unwrap_or(0)];
                let begin = self.octets.start - seal.octets;
                self.file.get_ref().read_exact_at(&mut lines, begin).map_err(StoreError::io(self.path))?;
                let mut batch = Batch::default();
                batch.add(seal.sealed, &lines);
                if batch.is_sealed_by(&seal) {
                    return Ok(true);
                }
            }
            if !self.go_on()? {
                return Ok(false);
            }
        }
    }

    fn error(&self, line: usize, problem: String) -> ArchiveError {
        ArchiveError::Line { path: self.path.display().to_string(), line, problem }
    }
}

/// Gives every record that counts, and its place, to `each`.
pub(super) fn read(
    path: &Path,
    each: &mut dyn FnMut(ArchivedMessage, Range<u64>),
) -> Result<ValidPart, ArchiveError> {
    let mut lines = Lines::open(path)?;
    let mut more = lines.go_on()?;
    let mut whole = ValidPart { end: 0, unsealed: Batch::default() };
    // Whether what is not sealed does not count.
    let mut sealed = more && lines.line.starts_with(HEADER_BEGINS);
    if sealed {
        match serde_json::from_slice(&lines.line) {
            Ok(Header { archive: FORMAT, .. }) => {}
            Ok(Header { archive: format, .. }) => {
                return Err(ArchiveError::Format { path: path.display().to_string(), format, known: FORMAT });
            }
            Err(error) => return Err(lines.error(1, format!("no archive begins like this: {error}"))),
        }
        whole.end = lines.octets.end;
        more = lines.go_on()?;
    }
    let mut batch = Batch::default();
    let mut first = lines.number;
    let mut records: Vec<(ArchivedMessage, Range<u64>)> = Vec::new();
    while more {
        let problem = if lines.line.starts_with(SEAL_BEGINS) {
            match serde_json::from_slice(&lines.line) {
                Ok(seal) if batch.is_sealed_by(&seal) => {
                    records.drain(..).for_each(|(record, octets)| each(record, octets));
                    whole.end = lines.octets.end;
                    (sealed, batch, first) = (true, Batch::default(), lines.number + 1);
                    None
                }
                Ok(_) => Some(format!("this seal is not that of lines {first} to {}", lines.number - 1)),
                Err(error) => Some(format!("no seal of a batch: {error}")),
            }
        } else {
            match serde_json::from_slice(&lines.line) {
                Ok(record) => {
                    batch.add(1, &lines.line);
                    if sealed {
                        records.push((record, lines.octets.clone()));
                    } else {
                        each(record, lines.octets.clone());
                        whole.end = lines.octets.end;
                    }
                    None
                }
                Err(error) => Some(format!("no call detail record: {error}")),
            }
        };
        if let Some(problem) = problem {
            let at = lines.number;
            let torn = if sealed { !lines.find_sealed()? } else { lines.is_last()? };
            if torn {
                break;
            }
            return Err(lines.error(at, problem));
        }
        more = lines.go_on()?;
    }
    if !sealed {
        whole.unsealed = batch;
    }
    Ok(whole)
}
