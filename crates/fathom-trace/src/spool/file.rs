//! One spool file: its header and its finished records.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::Raw;
use crate::error::TraceError;

/// The header is one page; the records follow it.
const PAGE: u64 = 4096;

/// Bytes of a record before its words.
const RECORD: usize = 32;

const MAGIC: &[u8; 8] = b"FSPOOL1\n";

/// What a spool's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of finished records.
    pub finished: u64,
    /// The process.
    pub pid: u32,
    /// It ended by itself.
    pub is_clean: bool,
    /// The disk was full, and the rest is missing.
    pub is_cut: bool,
    /// When it was begun, ns on the machine's monotonic clock.
    pub start_ns: u64,
    /// The same on the wall clock, s since 1970.
    pub start_unix_s: u64,
    /// The spool of the process that forked it: pid and its start.
    pub parent: Option<(u32, u64)>,
    /// Connections with smaller numbers are the parent's.
    pub inherited: u32,
    /// SQLite's version.
    pub sqlite: String,
    /// The command line.
    pub program: String,
}

/// A spool that is read. Records that were not finished when their process died are not seen.
pub struct Spool {
    path: PathBuf,
    /// Its header.
    pub header: Header,
    file: Option<BufReader<File>>,
    /// Bytes of records that the file holds, whatever its header says.
    held: u64,
    at: u64,
}

/// The longest text of a record: the longest that SQLite can be built to take.
const TEXT_MAX: u64 = i32::MAX as u64;

/// Opens a file that a capture wrote: one behind a symbolic link is not, and a pipe would be waited
/// for.
pub fn open_regular(path: &Path) -> Result<File, TraceError> {
    let opened = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = opened.map_err(TraceError::io(path))?;
    if file.metadata().map_err(TraceError::io(path))?.is_file() {
        return Ok(file);
    }
    Err(TraceError::refused(path.display(), "is no regular file, so no capture wrote it"))
}

impl Spool {
    /// Reads the header; the file is opened again by the first record, so that any number of spools
    /// can be known at once. None where the process died before its header was whole.
    pub fn open(path: &Path) -> Result<Option<Spool>, TraceError> {
        let mut page = Vec::new();
        let file = open_regular(path)?;
        let held = file.metadata().map_err(TraceError::io(path))?.len().saturating_sub(PAGE);
        file.take(PAGE).read_to_end(&mut page).map_err(TraceError::io(path))?;
        if page.len() < PAGE as usize || &page[..8] != MAGIC {
            return Ok(None);
        }
        let long =
            |at: usize| page[at..at + 8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let short = |at: usize| long(at) as u32;
        let text = |at: usize, length: usize| {
            let bytes = &page[at..at + length];
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            String::from_utf8_lossy(&bytes[..end]).replace('\0', " ")
        };
        let header = Header {
            finished: long(8),
            pid: short(16),
            is_clean: short(20) & 1 != 0,
            is_cut: short(20) & 2 != 0,
            start_ns: long(24),
            start_unix_s: long(32) / 1_000_000_000,
            parent: (short(48) != 0).then(|| (short(48), long(40))),
            inherited: short(52),
            sqlite: text(56, 64),
            program: text(120, 1024),
        };
        Ok(Some(Spool { path: path.to_owned(), header, file: None, held, at: 0 }))
    }

    /// The next record; none at the end.
    pub fn next_record(&mut self) -> Result<Option<Raw>, TraceError> {
        if self.at >= self.header.finished {
            self.file = None;
            return Ok(None);
        }
        if self.file.is_none() {
            let mut file = open_regular(&self.path)?;
            file.seek(SeekFrom::Start(PAGE + self.at)).map_err(TraceError::io(&self.path))?;
            self.file = Some(BufReader::with_capacity(1 << 16, file));
        }
        let mut head = [0; RECORD];
        self.fill(&mut head)?;
        let long = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let mut raw = Raw {
            tag: head[0],
            tid: long(&head[4..8]) as u32,
            connection: long(&head[8..12]) as u32,
            start_ns: long(&head[16..24]),
            end_ns: long(&head[24..32]),
            words: Vec::with_capacity(head[1].into()),
            texts: Vec::with_capacity(head[2].into()),
        };
        for _ in 0..head[1] {
            let mut word = [0; 8];
            self.fill(&mut word)?;
            raw.words.push(long(&word));
        }
        for _ in 0..head[2] {
            let mut length = [0; 8];
            self.fill(&mut length)?;
            let length = long(&length);
            let padded = length.div_ceil(8).saturating_mul(8);
            let end = self.at.saturating_add(padded);
            if length > TEXT_MAX || end > self.header.finished || end > self.held {
                return Err(self.damaged());
            }
            // Read as it comes: a file can be long and hold nothing.
            let mut text = Vec::new();
            let Some(file) = &mut self.file else { return Err(self.damaged()) };
            let got =
                file.by_ref().take(padded).read_to_end(&mut text).map_err(TraceError::io(&self.path))?;
            self.at += got as u64;
            if (got as u64) < padded {
                return Err(self.damaged());
            }
            text.truncate(length as usize);
            raw.texts.push(text);
        }
        Ok(Some(raw))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        let Some(file) = &mut self.file else { return Err(self.damaged()) };
        match file.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(self.damaged()),
            Err(error) => Err(TraceError::Io { path: self.path.clone(), source: error }),
        }
    }

    /// An error about this file.
    pub fn damaged(&self) -> TraceError {
        TraceError::refused(
            self.path.display(),
            format!(
                "damaged at byte {}: it was changed after it was captured, or is not whole; capture again",
                PAGE.saturating_add(self.at)
            ),
        )
    }
}
