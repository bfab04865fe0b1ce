//! Writing a trace, record by record.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fathom_output::Output;
use zstd::bulk::Compressor;

use super::chunk::{CONTENT_BYTES, HEADER_BYTES, Header, Kind, RAW_MAX, Storage, is_in_proportion};
use super::record::{Clock, put};
use super::{MAGIC, VERSION};
use crate::error::TraceError;
use crate::model::{Content, Record};
use crate::wire::{Put, Take, WireError};

/// A chunk of records is written when it has reached this size, bytes before compression. What a
/// torn file loses is less than one chunk; four times as much compresses a few percent better and
/// half as much a few percent worse.
const RECORDS_BYTES: usize = 256 << 10;

/// Level of Zstandard: its default, which writes faster than SQLite can be asked.
const LEVEL: i32 = 3;

/// What a trace holds in all, as its end says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records, content excluded.
    pub records: u64,
    /// Of these, events.
    pub events: u64,
    /// Time at which the last event returned, ns since time 0.
    pub end_ns: u64,
}

impl Totals {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.records);
        out.put_u64(self.events);
        out.put_u64(self.end_ns);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Totals, WireError> {
        let mut from = Take::new(bytes);
        Ok(Totals { records: from.u64()?, events: from.u64()?, end_ns: from.u64()? })
    }

    pub(super) fn count(&mut self, record: &Record) {
        if matches!(record, Record::Content(_)) {
            return;
        }
        self.records += 1;
        if let Record::Event(event) = record {
            self.events += 1;
            self.end_ns = self.end_ns.max(event.start_ns.saturating_add(event.duration_ns));
        }
    }
}

/// Writes a trace. The file has its name only when [`Writer::finish`] has ended it; dropped before,
/// it leaves nothing.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<Output>,
    compressor: Compressor<'static>,
    /// Records of the chunk that is being filled; empty when none is.
    pending: Vec<u8>,
    clock: Clock,
    totals: Totals,
    /// Bytes of the file so far, and of the records in it.
    written: u64,
    records: u64,
}

impl Writer {
    /// Begins a trace that will be the file at `path`, replacing what is there by the rules of
    /// [`fathom_output`]. Until it is finished it is a hidden file beside it. Only the user may
    /// read it: a trace holds what the application's users wrote.
    ///
    /// # Errors
    /// A directory that does not exist or cannot be written; a place that must not be written to,
    /// such as a database or a capture.
    pub fn create(path: &Path) -> Result<Writer, TraceError> {
        Writer::create_beside(path, &[])
    }

    /// As [`Writer::create`], of a trace that is made of `inputs`: files, and directories with all
    /// files in them. None of them is replaced, whatever name it goes by.
    ///
    /// # Errors
    /// As [`Writer::create`]; the trace would replace an input.
    pub fn create_beside(path: &Path, inputs: &[&Path]) -> Result<Writer, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let file = crate::output::create(path, inputs)?;
        let mut header = Vec::with_capacity(super::HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&[0; 2]);
        let checksum = crc32c::crc32c(&header);
        header.extend_from_slice(&checksum.to_le_bytes());
        let mut file = BufWriter::with_capacity(1 << 20, file);
        file.write_all(&header).map_err(io)?;
        Ok(Writer {
            path: path.to_owned(),
            file,
            compressor: Compressor::new(LEVEL).map_err(io)?,
            pending: Vec::with_capacity(RECORDS_BYTES + 4096),
            clock: Clock::default(),
            totals: Totals::default(),
            written: super::HEADER_BYTES as u64,
            records: 0,
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A full disk and the like; a value of more than 2 GiB.
    pub fn write(&mut self, record: &Record) -> Result<(), TraceError> {
        self.totals.count(record);
        if let Record::Content(content) = record {
            return self.content(content);
        }
        if self.pending.is_empty() {
            self.pending.put_u64(self.clock.end_ns);
        }
        put(&mut self.pending, &mut self.clock, record);
        if self.pending.len() >= RECORDS_BYTES { self.flush_records() } else { Ok(()) }
    }

    /// Content follows the definition of its database, so what is pending goes first.
    fn content(&mut self, content: &Content) -> Result<(), TraceError> {
        self.flush_records()?;
        for (number, piece) in content.bytes.chunks(CONTENT_BYTES).enumerate() {
            let mut raw = Vec::with_capacity(piece.len() + 16);
            raw.put_u64(content.database.into());
            raw.put_u64(content.offset.saturating_add((number * CONTENT_BYTES) as u64));
            raw.extend_from_slice(piece);
            self.chunk(Kind::Content, &raw)?;
        }
        Ok(())
    }

    fn flush_records(&mut self) -> Result<(), TraceError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut raw = std::mem::take(&mut self.pending);
        let done = self.chunk(Kind::Records, &raw);
        raw.clear();
        self.pending = raw;
        done
    }

    fn chunk(&mut self, kind: Kind, raw: &[u8]) -> Result<(), TraceError> {
        let io = |source| TraceError::Io { path: self.path.clone(), source };
        let raw_bytes = u32::try_from(raw.len()).ok().filter(|bytes| *bytes <= RAW_MAX);
        let raw_bytes = raw_bytes.ok_or_else(|| {
            TraceError::refused(
                self.path.display(),
                "a value of more than 2 GiB, which SQLite would not take",
            )
        })?;
        let compressed = self.compressor.compress(raw).map_err(io)?;
        let before = self.written + HEADER_BYTES as u64;
        self.records += if kind == Kind::Records { u64::from(raw_bytes) } else { 0 };
        let is_readable = is_in_proportion(self.records, before + compressed.len() as u64);
        let (storage, stored) = if compressed.len() < raw.len() && is_readable {
            (Storage::Zstd, &compressed[..])
        } else {
            (Storage::Plain, raw)
        };
        self.written = before + stored.len() as u64;
        // Not longer than `raw`, which was checked.
        let stored_bytes = stored.len() as u32;
        let header = Header { kind, storage, stored_bytes, raw_bytes, checksum: crc32c::crc32c(stored) };
        self.file.write_all(&header.encode()).and_then(|()| self.file.write_all(stored)).map_err(io)
    }

    /// Ends the trace and gives the file its name.
    ///
    /// # Errors
    /// A full disk and the like.
    pub fn finish(mut self) -> Result<Totals, TraceError> {
        self.flush_records()?;
        let totals = self.totals;
        self.chunk(Kind::End, &totals.encode())?;
        let path = self.path;
        let io = |source| TraceError::Io { path: path.clone(), source };
        let file = self.file.into_inner().map_err(|error| io(error.into_error()))?;
        // Another capture may have ended while this one was written.
        crate::output::spare_captures(&path)?;
        file.finish()?;
        Ok(totals)
    }
}
