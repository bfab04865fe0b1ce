//! What reached a modelled device: one fixed-size record for each operation, and on wish the data of the writes.
//!
//! The log is a file of its own, outside of the modelled device:
//!
//! ```text
//! head    "FATHDEV1" | u8 how it stands (0 open, 1 complete, 2 operations lost, 3 data lost) | u8 0, 3 times | u32 error number
//! record  u8 operation (0 read, 1 write, 2 flush, 3 discard) | u8 outcome (0 done, 1 error, 2 full, 3 lied)
//!         u8 flags (1 sequential, 2 stalled, 4 data captured) | u8 0 | u32 length, bytes | u64 offset, bytes
//!         u64 arrival, ns | u64 finish asked for by the model, ns | u64 finish given, ns | u64 place of the data in the data file
//! ```
//! Integers are little-endian; times are of the daemon's monotonic clock since it started. A torn last record is left out when reading.
//!
//! A log that cannot be written (a full disk) ends there; of data that cannot be written no more is kept, while the records go on. Either
//! is written into the head, whose place was taken at the beginning, and so is that everything is in the files. A log that is open
//! belongs to a device that is up, or to a server that was killed. What is in the files is always a beginning of all that was to be
//! written: a record that names a place beyond the data file's end has lost its data, and is read as one without.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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

/// How a log stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was not closed: the device is up, or its server was killed.
    Open,
    /// Everything is in it.
    Complete,
    /// Operations are missing from its end, with the operating system's error.
    OperationsLost(String),
    /// The data of writes is missing from some point on.
    DataLost(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Open => f.write_str(
                "it was not closed: its device is still up, or its server was killed, and the last operations are missing",
            ),
            End::Complete => f.write_str("it is complete"),
            End::OperationsLost(error) => write!(f, "operations are missing from its end: {error}"),
            End::DataLost(error) => {
                write!(f, "the data of writes is missing from some point on: {error}")
            }
        }
    }
}

impl End {
    fn encode(&self, error: Option<i32>) -> [u8; 8] {
        let state = match self {
            End::Open => 0,
            End::Complete => 1,
            End::OperationsLost(_) => 2,
            End::DataLost(_) => 3,
        };
        let [a, b, c, d] = error.unwrap_or(0).to_le_bytes();
        [state, 0, 0, 0, a, b, c, d]
    }

    fn decode([state, _, _, _, a, b, c, d]: [u8; 8]) -> Option<End> {
        let error = || match i32::from_le_bytes([a, b, c, d]) {
            0 => "it could not be written".to_owned(),
            number => io::Error::from_raw_os_error(number).to_string(),
        };
        Some(match state {
            0 => End::Open,
            1 => End::Complete,
            2 => End::OperationsLost(error()),
            3 => End::DataLost(error()),
            _ => return None,
        })
    }
}

/// A log that is being written.
#[derive(Debug)]
pub struct OperationLog {
    /// For the head.
    file: File,
    /// None once it cannot be written, or is closed.
    records: Option<BufWriter<File>>,
    /// And its length; none where it is not wanted, as above.
    data: Option<(BufWriter<File>, u64)>,
    end: End,
}

impl OperationLog {
    /// A new log at `path`; with `data`, what is written to the device is kept beside it, in `path.data`.
    ///
    /// # Errors
    /// A file is there already or cannot be made, or takes nothing.
    pub fn create(path: &Path, data: bool) -> io::Result<OperationLog> {
        // Data is the application's own, and sizes and places tell of it, too.
        let new =
            |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = new(path)?;
        let data = data.then(|| new(&data_of(path))).transpose()?;
        OperationLog::begin(file, data)
    }

    fn begin(mut file: File, data: Option<File>) -> io::Result<OperationLog> {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        // Now, so that there is a place in which to tell that there is no place.
        file.write_all(&head)?;
        let records = BufWriter::with_capacity(1 << 18, file.try_clone()?);
        let data = data.map(|file| (BufWriter::with_capacity(1 << 20, file), 0));
        Ok(OperationLog { file, records: Some(records), data, end: End::Open })
    }

    /// Keeps the data of a write; its place in the data file, if there is one and it can be written.
    pub fn keep(&mut self, data: &[u8]) -> Option<u64> {
        let (file, end) = self.data.as_mut()?;
        if let Err(error) = file.write_all(data) {
            // Part of it may be in the file, so that no place is known any more.
            self.lose_data(&error);
            return None;
        }
        let at = *end;
        *end += data.len() as u64;
        Some(at)
    }

    /// Adds a record, unless the log has ended.
    pub fn add(&mut self, record: &Record) {
        let Some(records) = &mut self.records else { return };
        if let Err(error) = records.write_all(&record.encode()) {
            self.lose_records(&error);
        }
    }

    /// Brings everything to the files and says so in the head.
    pub fn close(&mut self) {
        // First the data: then a record that is in the file has it.
        if let Some(Err(error)) = self.data.as_mut().map(|(file, _)| file.flush()) {
            self.lose_data(&error);
        }
        if let Some(Err(error)) = self.records.as_mut().map(Write::flush) {
            self.lose_records(&error);
        }
        if self.end == End::Open {
            self.ended(End::Complete, None);
        }
        (self.data, self.records) = (None, None);
    }

    /// How it stands.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Why it lacks something, if it does.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        matches!(self.end, End::OperationsLost(_) | End::DataLost(_)).then(|| self.end.to_string())
    }

    fn lose_data(&mut self, error: &io::Error) {
        // Without another try: what is in the file stays a beginning.
        let _ = self.data.take().map(|(file, _)| file.into_parts());
        if self.end == End::Open {
            self.ended(End::DataLost(error.to_string()), error.raw_os_error());
        }
    }

    fn lose_records(&mut self, error: &io::Error) {
        let _ = self.records.take().map(BufWriter::into_parts);
        let _ = self.data.take().map(|(file, _)| file.into_parts());
        self.ended(End::OperationsLost(error.to_string()), error.raw_os_error());
    }

    fn ended(&mut self, end: End, error: Option<i32>) {
        // A head that cannot be written stays that of an open log, which nobody takes for complete.
        let _ = self.file.write_all_at(&end.encode(error), MAGIC.len() as u64);
        self.end = end;
    }
}

/// Where the data of a log is kept.
pub(crate) fn data_of(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".data");
    beside.into()
}

/// Whether a file is a log, or one that was made and never begun.
pub(crate) fn is_log(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path);
    let mut head = Vec::new();
    let read = |file: File| -> io::Result<bool> {
        let regular = file.metadata()?.is_file();
        Ok(regular && file.take(MAGIC.len() as u64).read_to_end(&mut head).is_ok())
    };
    opened.and_then(read).unwrap_or(false) && (head.is_empty() || head == MAGIC)
}

/// What is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its operations in order of their answers.
    pub records: Vec<Record>,
    /// Whether that is all.
    pub end: End,
}

/// Reads a log; a torn last record is left out, and so are places of data that is not in the data file.
///
/// # Errors
/// The file cannot be read, or is no such log (`InvalidData`, with the offset).
pub fn read_log(path: &Path) -> io::Result<Log> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?;
    let end = head_of(path, &mut file)?;
    file.read_to_end(&mut bytes)?;
    let (whole, _) = bytes.as_chunks::<RECORD_BYTES>();
    let kept = std::fs::metadata(data_of(path)).map_or(u64::MAX, |data| data.len());
    let decode = |(number, record): (usize, &[u8; RECORD_BYTES])| {
        let at = HEAD + number * RECORD_BYTES;
        let mut record = Record::decode(record)
            .ok_or_else(|| wrong(path, &format!("the record at offset {at} is damaged")))?;
        let data_ends = |at: u64| at.saturating_add(u64::from(record.bytes));
        record.data_at = record.data_at.filter(|&at| data_ends(at) <= kept);
        Ok(record)
    };
    let records = whole.iter().enumerate().map(decode).collect::<io::Result<_>>()?;
    Ok(Log { records, end })
}

/// How a log stands, by its head alone.
///
/// # Errors
/// As [`read_log`].
pub fn log_end(path: &Path) -> io::Result<End> {
    head_of(path, &mut File::open(path)?)
}

fn head_of(path: &Path, file: &mut File) -> io::Result<End> {
    let mut head = [0; HEAD];
    let read = file.read_exact(&mut head);
    let state = head.strip_prefix(MAGIC).and_then(|state| <[u8; 8]>::try_from(state).ok());
    let (Ok(()), Some(state)) = (read, state) else {
        return Err(wrong(path, "this is no log of a modelled device (its first 8 bytes are not FATHDEV1)"));
    };
    End::decode(state)
        .ok_or_else(|| wrong(path, "the head is damaged: it says neither open nor how it ended"))
}

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
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
            records.iter().for_each(|record| log.add(record));
            prop_assert_eq!(read_log(&path).unwrap().end, End::Open);
            log.close();
            prop_assert_eq!(read_log(&path).unwrap(), Log { records: records.clone(), end: End::Complete });
            let len = std::fs::metadata(&path).unwrap().len();
            if len > (HEAD + RECORD_BYTES) as u64 && cut > 0 {
                File::options().write(true).open(&path).unwrap().set_len(len - cut as u64).unwrap();
                prop_assert_eq!(&read_log(&path).unwrap().records[..], &records[..records.len() - 1]);
            }
        }
    }

    /// A log whose file of data is there already, and may be a device.
    fn with_data_there(path: &Path) -> OperationLog {
        let data = File::options().write(true).open(data_of(path)).unwrap();
        OperationLog::begin(File::create_new(path).unwrap(), Some(data)).unwrap()
    }

    /// What happened: `stack up --operations F --capture` left the content of the file system in
    /// F.data, which everybody could read. The mend: both files are the user's alone, whatever
    /// umask says.
    #[test]
    fn nobody_else_may_read_what_was_written() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        OperationLog::create(&path, true).unwrap();
        for file in [&path, &data_of(&path)] {
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600, "{file:?}");
        }
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"something else altogether").unwrap();
        assert!(read_log(&path).unwrap_err().to_string().contains("FATHDEV1"));
        std::fs::remove_file(&path).unwrap();
        let mut log = OperationLog::create(&path, true).unwrap();
        assert_eq!((log.keep(b"abc"), log.keep(b"d")), (Some(0), Some(3)));
        log.close();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([9; RECORD_BYTES]);
        std::fs::write(&path, bytes).unwrap();
        assert!(read_log(&path).unwrap_err().to_string().contains("offset 16"));
        assert_eq!(std::fs::read(dir.path().join("log.data")).unwrap(), b"abcd");
    }

    const WRITE: Record = Record {
        operation: Operation::Write,
        outcome: Outcome::Done,
        sequential: false,
        stalled: false,
        offset: 0,
        bytes: 4096,
        arrival_ns: 1,
        asked_ns: 2,
        given_ns: 3,
        data_at: None,
    };

    /// After a failure part of the data was in the file and its end was not known, so that later records named places of other bytes.
    #[test]
    fn data_that_cannot_be_written_ends_the_capture_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        // Every write to it fails as on a full disk.
        std::os::unix::fs::symlink("/dev/full", data_of(&path)).unwrap();
        let mut log = with_data_there(&path);
        let at = log.keep(&[1; 4096]);
        assert_eq!(at, Some(0), "it waits in memory");
        log.add(&Record { data_at: at, ..WRITE });
        assert_eq!(log.problem(), None);
        let large = vec![2; 2 << 20];
        assert_eq!((log.keep(&large), log.keep(&[3; 4096])), (None, None));
        log.add(&WRITE);
        assert!(log.problem().unwrap().contains("data of writes is missing"), "{:?}", log.problem());
        log.close();
        let read = read_log(&path).unwrap();
        let full = io::Error::from_raw_os_error(libc::ENOSPC).to_string();
        assert_eq!(
            read,
            Log { records: vec![WRITE; 2], end: End::DataLost(full) },
            "no place that is not there"
        );
        assert_eq!(log_end(&path).unwrap(), read.end);
    }

    #[test]
    fn data_that_is_missing_at_the_last_moment_is_told_and_the_records_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::os::unix::fs::symlink("/dev/full", data_of(&path)).unwrap();
        let mut log = with_data_there(&path);
        let at = log.keep(&[1; 4096]);
        log.add(&Record { data_at: at, ..WRITE });
        log.close();
        let read = read_log(&path).unwrap();
        assert!(matches!(read.end, End::DataLost(_)), "{:?}", read.end);
        assert_eq!(read.records, [WRITE]);
    }

    /// A small disk of its own, in memory.
    struct Small(tempfile::TempDir);

    impl Small {
        fn new() -> Option<Small> {
            let dir = tempfile::tempdir().unwrap();
            let made = std::process::Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=64k", "none"])
                .arg(dir.path())
                .status();
            made.is_ok_and(|status| status.success()).then_some(Small(dir))
        }
    }

    impl Drop for Small {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    #[test]
    fn a_log_on_a_full_disk_says_so_in_its_head_and_holds_a_beginning() {
        let Some(disk) = crate::is_root().then(Small::new).flatten() else {
            println!("skipped: a disk that is full is mounted, which needs root");
            return;
        };
        let path = disk.0.path().join("log");
        let mut log = OperationLog::create(&path, false).unwrap();
        let records: Vec<Record> = (0..20_000).map(|offset| Record { offset, ..WRITE }).collect();
        records.iter().for_each(|record| log.add(record));
        assert!(log.problem().unwrap().contains("No space left"), "{:?}", log.problem());
        log.close();
        let read = read_log(&path).unwrap();
        assert!(
            matches!(&read.end, End::OperationsLost(error) if error.contains("No space left")),
            "{:?}",
            read.end
        );
        let whole = ((64 << 10) - HEAD) / RECORD_BYTES;
        assert!((whole - 100..=whole).contains(&read.records.len()), "{}", read.records.len());
        assert_eq!(read.records[..], records[..read.records.len()]);
    }
}
