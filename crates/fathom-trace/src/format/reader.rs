//! Reading a trace, record by record.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::chunk::{self, Header, Kind, Storage, in_record};
use super::record::{Clock, take};
use super::writer::Totals;
use super::{HEADER_BYTES, MAGIC, VERSION, VERSION_MIN};
use crate::error::TraceError;
use crate::model::{Content, Record};
use crate::wire::Take;

/// Frames may look back this far (log2 of bytes): four times as far as the writer's level lets
/// them.
const WINDOW_LOG_MAX: u32 = 23;

/// Reads a trace. Memory: one chunk. After an error it gives nothing more.
pub struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// Bytes read from the file.
    offset: u64,
    /// Where the chunk in `raw` begins in the file.
    chunk_offset: u64,
    /// The records of the present chunk, decompressed.
    raw: Vec<u8>,
    /// How much of them was taken.
    at: usize,
    /// Bytes of records in all chunks so far.
    records: u64,
    clock: Clock,
    seen: Totals,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Ended,
    Failed,
}

impl Reader {
    /// Opens a trace and checks its header.
    ///
    /// # Errors
    /// No such file, no trace, a newer version, a damaged header.
    pub fn open(path: &Path) -> Result<Reader, TraceError> {
        let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(TraceError::io(path))?);
        let mut header = [0; HEADER_BYTES];
        let got = fill(&mut file, &mut header).map_err(TraceError::io(path))?;
        if header[..MAGIC.len().min(got)] != MAGIC[..MAGIC.len().min(got)] || got < MAGIC.len() {
            if got >= MAGIC.len() && crate::file_calls::MAGIC.as_bytes().starts_with(&header[..got]) {
                let problem =
                    "is a recording of file calls: it is work of the workload mobibench-file (`calls = …`)";
                return Err(TraceError::refused(path.display(), problem));
            }
            return Err(TraceError::NotATrace { path: path.to_owned() });
        }
        if got < HEADER_BYTES {
            let problem = "the file's header is not whole".into();
            return Err(TraceError::Torn { path: path.to_owned(), offset: 0, problem });
        }
        if crc32c::crc32c(&header[..12])
            != u32::from_le_bytes([header[12], header[13], header[14], header[15]])
        {
            let problem = "the file's header does not match its checksum".into();
            return Err(TraceError::Corrupt { path: path.to_owned(), offset: 0, problem });
        }
        let found = u16::from_le_bytes([header[8], header[9]]);
        if !(VERSION_MIN..=VERSION).contains(&found) {
            return Err(TraceError::Version { path: path.to_owned(), found, known: VERSION });
        }
        Ok(Reader {
            path: path.to_owned(),
            file,
            offset: HEADER_BYTES as u64,
            chunk_offset: 0,
            raw: Vec::new(),
            at: 0,
            records: 0,
            clock: Clock::default(),
            seen: Totals::default(),
            state: State::Reading,
        })
    }

    /// The next record; none at the end.
    ///
    /// # Errors
    /// [`TraceError::Torn`] where the file ends too early and [`TraceError::Corrupt`] at the first
    /// damaged chunk, after all records before it have been given.
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if self.at < self.raw.len() {
                let mut from = Take::new(&self.raw[self.at..]);
                return match take(&mut from, &mut self.clock) {
                    Ok(record) => {
                        self.at += from.position();
                        self.seen.count(&record);
                        Ok(Some(record))
                    }
                    Err(error) => {
                        let problem = in_record(self.at, error);
                        Err(self.corrupt(problem))
                    }
                };
            }
            if self.state != State::Reading {
                return Ok(None);
            }
            if let Some(content) = self.next_chunk()? {
                return Ok(Some(Record::Content(content)));
            }
        }
    }

    /// What has been read so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.seen
    }

    /// Bytes of the file read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads one chunk: records into `raw`, content as what it gives.
    fn next_chunk(&mut self) -> Result<Option<Content>, TraceError> {
        self.chunk_offset = self.offset;
        let mut header = [0; chunk::HEADER_BYTES];
        let got = self.fill(&mut header)?;
        if got == 0 {
            return Err(self.torn("there is no end mark"));
        }
        if got < header.len() {
            return Err(self.torn("the last chunk's header is not whole"));
        }
        let header = Header::decode(&header).map_err(|problem| self.corrupt(problem))?;
        if header.kind == Kind::Records {
            self.records = self.records.saturating_add(header.raw_bytes.into());
            if !chunk::is_in_proportion(self.records, self.offset.saturating_add(header.stored_bytes.into()))
            {
                let problem = format!(
                    "{} bytes of records up to here are out of proportion to the file: {} MiB and {} for each of its bytes are the most",
                    self.records,
                    chunk::RECORDS_FREE >> 20,
                    chunk::RECORDS_RATIO
                );
                return Err(self.corrupt(problem));
            }
        }
        let stored = self.stored(&header)?;
        if crc32c::crc32c(&stored) != header.checksum {
            return Err(self.corrupt("the chunk does not match its checksum".into()));
        }
        let raw = match header.storage {
            Storage::Plain => stored,
            Storage::Zstd => self.decompress(&stored, &header)?,
        };
        if raw.len() != header.raw_bytes as usize {
            return Err(self.corrupt("the chunk is not as long as its header says".into()));
        }
        match header.kind {
            Kind::Records => {
                let mut from = Take::new(&raw);
                self.clock.end_ns = from.u64().map_err(|error| self.corrupt(in_record(0, error)))?;
                self.at = from.position();
                self.raw = raw;
                Ok(None)
            }
            Kind::Content => {
                let mut from = Take::new(&raw);
                let content = from.u32().and_then(|database| {
                    Ok(Content { database, offset: from.u64()?, bytes: from.rest().to_vec() })
                });
                content.map(Some).map_err(|error| self.corrupt(in_record(0, error)))
            }
            Kind::End => {
                let totals = Totals::decode(&raw).map_err(|error| self.corrupt(in_record(0, error)))?;
                if totals != self.seen {
                    let problem = format!("its end speaks of {totals:?}, and it holds {:?}", self.seen);
                    return Err(self.corrupt(problem));
                }
                if self.fill(&mut [0])? > 0 {
                    return Err(self.corrupt("something follows the end mark".into()));
                }
                (self.raw, self.at, self.state) = (Vec::new(), 0, State::Ended);
                Ok(None)
            }
        }
    }

    /// The bytes of a chunk. They are read as they come, so that a wrong length cannot cost memory.
    fn stored(&mut self, header: &Header) -> Result<Vec<u8>, TraceError> {
        let mut stored = Vec::new();
        let wanted = u64::from(header.stored_bytes);
        let got =
            self.file.by_ref().take(wanted).read_to_end(&mut stored).map_err(TraceError::io(&self.path))?;
        self.offset += got as u64;
        if (got as u64) < wanted {
            return Err(self.torn("the last chunk is not whole"));
        }
        Ok(stored)
    }

    fn decompress(&mut self, stored: &[u8], header: &Header) -> Result<Vec<u8>, TraceError> {
        let mut raw = Vec::new();
        // A frame says itself how much memory its decoding takes.
        let decoder = zstd::stream::read::Decoder::with_buffer(stored)
            .and_then(|mut decoder| decoder.window_log_max(WINDOW_LOG_MAX).map(|()| decoder));
        let read =
            decoder.and_then(|decoder| decoder.take(u64::from(header.raw_bytes) + 1).read_to_end(&mut raw));
        match read {
            Ok(_) => Ok(raw),
            Err(error) => Err(self.corrupt(format!("the chunk cannot be decompressed: {error}"))),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let got = fill(&mut self.file, bytes).map_err(TraceError::io(&self.path))?;
        self.offset += got as u64;
        Ok(got)
    }

    fn torn(&mut self, problem: &str) -> TraceError {
        self.fail();
        TraceError::Torn { path: self.path.clone(), offset: self.chunk_offset, problem: problem.into() }
    }

    fn corrupt(&mut self, problem: String) -> TraceError {
        self.fail();
        TraceError::Corrupt { path: self.path.clone(), offset: self.chunk_offset, problem }
    }

    fn fail(&mut self) {
        (self.raw, self.at, self.state) = (Vec::new(), 0, State::Failed);
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record().transpose()
    }
}

/// Reads until `bytes` is full or the file ends; gives how much.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match from.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
