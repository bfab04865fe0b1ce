//! What reached a modelled device: one fixed-size record for each operation, and on wish the data of the writes.
//!
//! The log is a file of its own, outside of the modelled device:
//!
//! ```text
//! head    "FATHDEV1" | u64 0
//! record  u8 operation (0 read, 1 write, 2 flush, 3 discard) | u8 outcome (0 done, 1 error, 2 full, 3 lied)
//!         u8 flags (1 sequential, 2 stalled, 4 data captured) | u8 0 | u32 length, bytes | u64 offset, bytes
//!         u64 arrival, ns | u64 finish asked for by the model, ns | u64 finish given, ns | u64 place of the data in the data file
//! ```
//! Integers are little-endian; times are of the daemon's monotonic clock since it started. A torn last record is left out when reading.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use super::fault::Outcome;
use super::timeline::Operation;

const MAGIC: &[u8; 8] = b"FATHDEV1";
const HEAD: usize = 16;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 48;

/// One operation, from its arrival to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was asked.
    pub operation: Operation,
    /// What became of it.
    pub outcome: Outcome,
    /// It continued a stream.
    pub sequential: bool,
    /// The model paused in it.
    pub stalled: bool,
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u32,
    /// When it came, ns.
    pub arrival_ns: u64,
    /// When the model has it done, ns.
    pub asked_ns: u64,
    /// When it was answered, ns.
    pub given_ns: u64,
    /// Where its data begins in the data file, if that is kept.
    pub data_at: Option<u64>,
}

impl Record {
    /// `read`, `write`, `flush`, `discard`.
    #[must_use]
    pub fn operation_name(&self) -> &'static str {
        match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        }
    }

    /// `done`, `error`, `full`, `lied`.
    #[must_use]
    pub fn outcome_name(&self) -> &'static str {
        match self.outcome {
            Outcome::Done => "done",
            Outcome::Error => "error",
            Outcome::Full => "full",
            Outcome::Lied => "lied",
        }
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let operation = match self.operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 2,
            Operation::Discard => 3,
        };
        let outcome = match self.outcome {
            Outcome::Done => 0,
            Outcome::Error => 1,
            Outcome::Full => 2,
            Outcome::Lied => 3,
        };
        let flags =
            u8::from(self.sequential) | u8::from(self.stalled) << 1 | u8::from(self.data_at.is_some()) << 2;
        let mut record = [0; RECORD_BYTES];
        record[..3].copy_from_slice(&[operation, outcome, flags]);
        record[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        let words = [self.offset, self.arrival_ns, self.asked_ns, self.given_ns, self.data_at.unwrap_or(0)];
        for (place, word) in record[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    fn decode(record: &[u8; RECORD_BYTES]) -> Option<Record> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let operation = match record[0] {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            _ => return None,
        };
        let outcome = match record[1] {
            0 => Outcome::Done,
            1 => Outcome::Error,
            2 => Outcome::Full,
            3 => Outcome::Lied,
            _ => return None,
        };
        Some(Record {
            operation,
            outcome,
            sequential: record[2] & 1 != 0,
            stalled: record[2] & 2 != 0,
            bytes: word(0).checked_shr(32).unwrap_or(0) as u32,
            offset: word(8),
            arrival_ns: word(16),
            asked_ns: word(24),
            given_ns: word(32),
            data_at: (record[2] & 4 != 0).then(|| word(40)),
        })
    }
}

/// A log that is being written.
#[derive(Debug)]
pub struct OperationLog {
    records: BufWriter<File>,
    data: Option<(BufWriter<File>, u64)>,
}

impl OperationLog {
    /// A new log at `path`; with `data`, what is written to the device is kept beside it, in `path.data`.
    ///
    /// # Errors
    /// A file cannot be made.
    pub fn create(path: &Path, data: bool) -> io::Result<OperationLog> {
        let mut records = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        records.write_all(&head)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".data");
        let data = data.then(|| File::create(beside)).transpose()?;
        Ok(OperationLog { records, data: data.map(|file| (BufWriter::with_capacity(1 << 20, file), 0)) })
    }

    /// Keeps the data of a write; its place in the data file, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&mut self, data: &[u8]) -> io::Result<Option<u64>> {
        let Some((file, end)) = &mut self.data else { return Ok(None) };
        file.write_all(data)?;
        let at = *end;
        *end += data.len() as u64;
        Ok(Some(at))
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, record: &Record) -> io::Result<()> {
        self.records.write_all(&record.encode())
    }

    /// Brings everything to the files.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some((file, _)) = &mut self.data {
            file.flush()?;
        }
        self.records.flush()
    }
}

/// Reads a log; a torn last record is left out.
///
/// # Errors
/// The file cannot be read, or is no such log (`InvalidData`, with the offset).
pub fn read_log(path: &Path) -> io::Result<Vec<Record>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let wrong =
        |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let Some(records) = bytes.strip_prefix(MAGIC).and_then(|rest| rest.get(HEAD - MAGIC.len()..)) else {
        return Err(wrong("this is no log of a modelled device (its first 8 bytes are not FATHDEV1)".into()));
    };
    let (whole, _) = records.as_chunks::<RECORD_BYTES>();
    let decode = |(number, record): (usize, &[u8; RECORD_BYTES])| {
        let at = HEAD + number * RECORD_BYTES;
        Record::decode(record).ok_or_else(|| wrong(format!("the record at offset {at} is damaged")))
    };
    whole.iter().enumerate().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let operation = prop_oneof![
            Just(Operation::Read),
            Just(Operation::Write),
            Just(Operation::Flush),
            Just(Operation::Discard)
        ];
        let outcome =
            prop_oneof![Just(Outcome::Done), Just(Outcome::Error), Just(Outcome::Full), Just(Outcome::Lied)];
        (operation, outcome, any::<[bool; 2]>(), any::<(u64, u32)>(), any::<[u64; 3]>(), any::<Option<u64>>())
            .prop_map(|(operation, outcome, [sequential, stalled], (offset, bytes), times, data_at)| Record {
                operation,
                outcome,
                sequential,
                stalled,
                offset,
                bytes,
                arrival_ns: times[0],
                asked_ns: times[1],
                given_ns: times[2],
                data_at,
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_log_comes_back_whatever_is_cut_off_its_end(
            records in proptest::collection::vec(record(), 0..20), cut in 0usize..RECORD_BYTES,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let mut log = OperationLog::create(&path, false).unwrap();
            records.iter().for_each(|record| log.add(record).unwrap());
            log.flush().unwrap();
            prop_assert_eq!(&read_log(&path).unwrap(), &records);
            let len = std::fs::metadata(&path).unwrap().len();
            if len > (HEAD + RECORD_BYTES) as u64 && cut > 0 {
                File::options().write(true).open(&path).unwrap().set_len(len - cut as u64).unwrap();
                prop_assert_eq!(&read_log(&path).unwrap()[..], &records[..records.len() - 1]);
            }
        }
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"something else altogether").unwrap();
        assert!(read_log(&path).unwrap_err().to_string().contains("FATHDEV1"));
        let mut log = OperationLog::create(&path, true).unwrap();
        assert_eq!((log.keep(b"abc").unwrap(), log.keep(b"d").unwrap()), (Some(0), Some(3)));
        log.flush().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([9; RECORD_BYTES]);
        std::fs::write(&path, bytes).unwrap();
        assert!(read_log(&path).unwrap_err().to_string().contains("offset 16"));
        assert_eq!(std::fs::read(dir.path().join("log.data")).unwrap(), b"abcd");
    }
}
