//! What reached a modelled device: one fixed-size record for each operation, and on wish the data
//! of the writes.
//!
//! The log is a file of its own, outside of the modelled device:
//!
//! ```text
//! head    "FATHDEV2" | u8 how it stands (0 open, 1 complete, 2 operations lost, 3 data lost) | u8 0, 3 times | u32 error number
//! record  u8 operation (0 read, 1 write, 2 flush, 3 discard) | u8 outcome (0 done, 1 error, 2 full, 3 lied)
//!         u8 flags (1 sequential, 2 stalled, 4 data captured) | u8 0 | u32 length, bytes | u64 offset, bytes
//!         u64 arrival, ns | u64 finish asked for by the model, ns | u64 finish given, ns | u64 place of the data in the data file
//!         u64 operations that had been answered when it came
//! mark    u8 4 | u8 0, 7 times | u64 number | u64 arrival, ns | u64 0, 3 times | u64 operations that had been answered
//! others  u8 5 | u8 0, 7 times | u64 operations that another device answered here, in the common order | u64 0, 5 times
//! ```
//! Records stand in order of their answers, and a mark (what a program wrote to the file `mark`
//! beside the device: "commit 17 was acknowledged") stands where it came among them. Times do not
//! tell that order: an answer is begun before its time. The device's thread counts instead, so that
//! a log says which answers had been given when a flush came, whatever any clock showed. Logs whose
//! head says "FATHDEV1" have records of 48 bytes, without that number, and no marks; they are read
//! as well. Two devices of one file system (its external log's is the other) count their answers
//! together: every such number is one of both, and what the other one answered in between stands as
//! *others*.
//!
//! Integers are little-endian; times are of the daemon's monotonic clock since it started. A torn
//! last record is left out when reading, and one of a log that says that it is complete is told.
//!
//! A log that cannot be written (a full disk) ends there; of data that cannot be written no more is
//! kept, while the records go on. Either is written into the head, whose place was taken at the
//! beginning, and so is that everything is in the files. A log that is open belongs to a device
//! that is up, or to a server that was killed. What is in the files is always a beginning of all
//! that was to be written: a record that names a place beyond the data file's end has lost its
//! data, and is read as one without.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::fault::Outcome;
use super::timeline::Operation;

const MAGIC: &[u8; 8] = b"FATHDEV2";
/// What earlier versions wrote, and the bytes of a record of theirs.
const FIRST_MAGIC: &[u8; 8] = b"FATHDEV1";
const FIRST_RECORD_BYTES: usize = 48;
const HEAD: usize = 16;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 56;
/// What stands in a record's first byte where it is a mark, and where it counts another device's.
const MARK: u8 = 4;
const OTHERS: u8 = 5;

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
    /// How many operations had been answered when it came ([`Log::places`]); none in a log of an
    /// earlier version.
    pub after: Option<u64>,
}

/// What a program told its device, in the device's own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The number that was written.
    pub number: u64,
    /// When it came, ns.
    pub at_ns: u64,
    /// How many operations had been answered then ([`Log::places`]).
    pub after: u64,
}

impl Mark {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[0] = MARK;
        for (at, word) in [(8, self.number), (16, self.at_ns), (48, self.after)] {
            record[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    fn decode(record: &[u8]) -> Mark {
        Mark { number: word_at(record, 8), at_ns: word_at(record, 16), after: word_at(record, 48) }
    }
}

/// The number at a place of a record; 0 beyond its end.
fn word_at(record: &[u8], at: usize) -> u64 {
    let bytes = record.get(at..).and_then(|rest| rest.first_chunk()).copied();
    u64::from_le_bytes(bytes.unwrap_or_default())
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
        let (data_at, after) = (self.data_at.unwrap_or(0), self.after.unwrap_or(u64::MAX));
        let words = [self.offset, self.arrival_ns, self.asked_ns, self.given_ns, data_at, after];
        for (place, word) in record[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        record
    }

    /// A record of this version or of the first; none where it is damaged.
    fn decode(record: &[u8]) -> Option<Record> {
        let word = |at: usize| word_at(record, at);
        let after = (record.len() == RECORD_BYTES).then(|| word(48)).filter(|&after| after < u64::MAX);
        let operation = match record.first()? {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Flush,
            3 => Operation::Discard,
            _ => return None,
        };
        let outcome = match record.get(1)? {
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
            after,
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
    /// Answers that the log tells of, another device's too.
    answers: u64,
    end: End,
}

impl OperationLog {
    /// A new log at `path`; with `data`, what is written to the device is kept beside it, in
    /// `path.data`.
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
        Ok(OperationLog { file, records: Some(records), data, answers: 0, end: End::Open })
    }

    /// Keeps the data of a write; its place in the data file, if there is one and it can be
    /// written.
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

    /// Adds the record of an answer that has this place among all, unless the log has ended.
    pub fn add(&mut self, record: &Record, place: u64) {
        self.skip_to(place);
        self.answers += 1;
        self.write(&record.encode());
    }

    /// Adds a mark, unless the log has ended.
    pub fn mark(&mut self, mark: &Mark) {
        self.skip_to(mark.after);
        self.write(&mark.encode());
    }

    /// Counts what another device answered before this place.
    fn skip_to(&mut self, place: u64) {
        let others = place.saturating_sub(self.answers);
        if others > 0 {
            let mut record = [0; RECORD_BYTES];
            record[0] = OTHERS;
            record[8..16].copy_from_slice(&others.to_le_bytes());
            self.answers = place;
            self.write(&record);
        }
    }

    fn write(&mut self, record: &[u8; RECORD_BYTES]) {
        let Some(records) = &mut self.records else { return };
        if let Err(error) = records.write_all(record) {
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
#[must_use]
pub fn data_of(path: &Path) -> PathBuf {
    beside(path, ".data")
}

/// Where the device of the external log logs its operations, while that of the file system does so
/// at `path`.
#[must_use]
pub fn external_of(path: &Path) -> PathBuf {
    beside(path, ".log")
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(end);
    beside.into()
}

/// Whether a file is a log, or one that was made and never begun.
pub fn is_log(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path);
    let mut head = Vec::new();
    let read = |file: File| -> io::Result<bool> {
        let regular = file.metadata()?.is_file();
        Ok(regular && file.take(MAGIC.len() as u64).read_to_end(&mut head).is_ok())
    };
    let is_file = opened.and_then(read).unwrap_or(false);
    is_file && (head.is_empty() || head == MAGIC || head == FIRST_MAGIC)
}

/// What is in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its operations in order of their answers.
    pub records: Vec<Record>,
    /// Of each operation its place among all answers: in order, and without a gap where no other
    /// device's were counted with them.
    pub places: Vec<u64>,
    /// What programs told the device, in the order in which it came.
    pub marks: Vec<Mark>,
    /// Whether that is all.
    pub end: End,
}

/// Reads a log; a torn last record is left out, and so are places of data that is not in the data
/// file.
///
/// # Errors
/// The file cannot be read, or is no such log (`InvalidData`, with the offset).
pub fn read_log(path: &Path) -> io::Result<Log> {
    let mut file = File::open(path)?;
    let (end, record_bytes) = head_of(path, &mut file)?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let kept = std::fs::metadata(data_of(path)).map_or(u64::MAX, |data| data.len());
    let mut log = Log { records: Vec::new(), places: Vec::new(), marks: Vec::new(), end };
    let mut answered: u64 = 0;
    let mut bytes = vec![0; record_bytes];
    for number in 0.. {
        match file.read_exact(&mut bytes) {
            // What is left of the last record, if anything is, was being written.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        let record = &bytes[..];
        let damaged = || {
            let at = HEAD + number * record_bytes;
            wrong(path, &format!("the record at offset {at} is damaged"))
        };
        // No operation has no bytes, time and place. A hole is read as zeros, and may be larger
        // than the memory, whatever the file takes on the disk.
        if record.iter().all(|&byte| byte == 0) {
            return Err(damaged());
        }
        if record_bytes == RECORD_BYTES && record.first() == Some(&OTHERS) {
            let others = Some(word_at(record, 8)).filter(|&others| others > 0);
            answered = others.and_then(|others| answered.checked_add(others)).ok_or_else(damaged)?;
            continue;
        }
        if record_bytes == RECORD_BYTES && record.first() == Some(&MARK) {
            let mark = Mark::decode(record);
            // What counts stands in the file twice, as its place and as a number.
            log.marks.push(Some(mark).filter(|mark| mark.after == answered).ok_or_else(damaged)?);
            continue;
        }
        let mut record = Record::decode(record)
            .filter(|record| record.after.is_none_or(|after| after <= answered))
            .ok_or_else(damaged)?;
        let data_ends = |at: u64| at.saturating_add(u64::from(record.bytes));
        record.data_at = record.data_at.filter(|&at| data_ends(at) <= kept);
        log.records.push(record);
        log.places.push(answered);
        answered = answered.checked_add(1).ok_or_else(damaged)?;
    }
    // A log that was closed is whole, but a copy of it may not be.
    let is_closed = matches!(log.end, End::Complete | End::DataLost(_));
    let length = file.get_ref().metadata()?.len();
    if is_closed && !length.saturating_sub(HEAD as u64).is_multiple_of(record_bytes as u64) {
        log.end = End::OperationsLost("its last record is cut off".into());
    }
    Ok(log)
}

/// How a log stands, by its head alone.
///
/// # Errors
/// As [`read_log`].
pub fn log_end(path: &Path) -> io::Result<End> {
    Ok(head_of(path, &mut File::open(path)?)?.0)
}

/// How a log stands, and the bytes of each of its records.
fn head_of(path: &Path, file: &mut File) -> io::Result<(End, usize)> {
    let mut head = [0; HEAD];
    let read = file.read_exact(&mut head);
    let version = |(magic, bytes): (&[u8; 8], usize)| {
        let state = head.strip_prefix(magic)?;
        Some((<[u8; 8]>::try_from(state).ok()?, bytes))
    };
    let versions = [(MAGIC, RECORD_BYTES), (FIRST_MAGIC, FIRST_RECORD_BYTES)];
    let (Ok(()), Some((state, bytes))) = (read, versions.into_iter().find_map(version)) else {
        return Err(wrong(path, "this is no log of a modelled device (its first 8 bytes are not FATHDEV2)"));
    };
    let end = End::decode(state)
        .ok_or_else(|| wrong(path, "the head is damaged: it says neither open nor how it ended"))?;
    Ok((end, bytes))
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
                after: Some(0),
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
            (0..).zip(&records).for_each(|(place, record)| log.add(record, place));
            prop_assert_eq!(read_log(&path).unwrap().end, End::Open);
            log.close();
            prop_assert_eq!(read_log(&path).unwrap(), Log { records: records.clone(), places: (0..records.len() as u64).collect(), marks: Vec::new(), end: End::Complete });
            let len = std::fs::metadata(&path).unwrap().len();
            if len > (HEAD + RECORD_BYTES) as u64 && cut > 0 {
                File::options().write(true).open(&path).unwrap().set_len(len - cut as u64).unwrap();
                let left = read_log(&path).unwrap();
                prop_assert_eq!(&left.records[..], &records[..records.len() - 1]);
                // What happened: it was told as complete, and so was its copy on a full disk.
                prop_assert!(matches!(left.end, End::OperationsLost(_)), "{:?}", left.end);
            }
        }
    }

    /// What happened: a log with a hole of 4 GiB, which takes nothing on the disk, took 9 GB of
    /// memory, and its zeros, such as a machine's crash leaves, were told as reads of no bytes.
    #[test]
    fn zeros_are_no_operations() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OperationLog::create(&path, false).unwrap();
        log.add(&Record { after: Some(0), ..WRITE }, 0);
        log.close();
        assert_eq!(read_log(&path).unwrap().records.len(), 1);
        File::options().write(true).open(&path).unwrap().set_len(1 << 32).unwrap();
        let error = read_log(&path).unwrap_err();
        let says = format!("the record at offset {} is damaged", HEAD + RECORD_BYTES);
        assert!(error.kind() == io::ErrorKind::InvalidData && error.to_string().contains(&says), "{error}");
    }

    /// Marks stand in the order in which they came among the answers, and neither they nor the
    /// number that tells that order may be at odds with their place in the file: a power cut's
    /// states are made from them.
    #[test]
    fn marks_keep_their_places_among_the_answers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OperationLog::create(&path, false).unwrap();
        let mark = |number, after| Mark { number, at_ns: 7, after };
        let record = |offset, after| Record { offset, after: Some(after), ..WRITE };
        log.mark(&mark(0, 0));
        log.add(&record(1, 0), 0);
        log.add(&record(2, 0), 1);
        log.mark(&mark(u64::MAX, 2));
        log.add(&record(3, 2), 2);
        log.close();
        let read = read_log(&path).unwrap();
        assert_eq!(read.marks, [mark(0, 0), mark(u64::MAX, 2)]);
        assert_eq!(read.records, [record(1, 0), record(2, 0), record(3, 2)]);
        for (at, byte) in [(HEAD + 48, 1), (HEAD + RECORD_BYTES + 48, 9)] {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[at] = byte;
            let other = dir.path().join(format!("damaged-{at}"));
            std::fs::write(&other, bytes).unwrap();
            assert!(read_log(&other).unwrap_err().to_string().contains("is damaged"), "{at}");
        }
    }

    /// A file system and its external log lie on two devices, whose answers are counted together: a
    /// power cut's states are made from the order on both.
    #[test]
    fn what_another_device_answered_in_between_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = OperationLog::create(&path, false).unwrap();
        let mark = |number, after| Mark { number, at_ns: 7, after };
        let record = |offset, after| Record { offset, after: Some(after), ..WRITE };
        log.add(&record(1, 1), 2);
        log.mark(&mark(1, 3));
        log.add(&record(2, 5), 7);
        log.mark(&mark(2, 9));
        log.add(&record(3, 9), 9);
        log.close();
        let read = read_log(&path).unwrap();
        assert_eq!((read.places, read.marks), (vec![2, 7, 9], vec![mark(1, 3), mark(2, 9)]));
        assert_eq!(read.records, [record(1, 1), record(2, 5), record(3, 9)]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEAD + 8] = 0;
        std::fs::write(&path, bytes).unwrap();
        assert!(read_log(&path).unwrap_err().to_string().contains("is damaged"));
    }

    /// Logs of before there were marks: records of 48 bytes, which do not tell the order.
    #[test]
    fn a_log_of_the_first_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut bytes = FIRST_MAGIC.to_vec();
        bytes.extend(End::Complete.encode(None));
        for offset in 0..3 {
            bytes.extend(&Record { offset, ..WRITE }.encode()[..FIRST_RECORD_BYTES]);
        }
        std::fs::write(&path, bytes).unwrap();
        let read = read_log(&path).unwrap();
        let record = |offset| Record { offset, after: None, ..WRITE };
        assert_eq!((read.end, read.records), (End::Complete, vec![record(0), record(1), record(2)]));
        assert!(read.marks.is_empty() && is_log(&path));
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
        assert!(read_log(&path).unwrap_err().to_string().contains("FATHDEV2"));
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
        after: Some(0),
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

    /// After a failure part of the data was in the file and its end was not known, so that later
    /// records named places of other bytes.
    #[test]
    fn data_that_cannot_be_written_ends_the_capture_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        // Every write to it fails as on a full disk.
        std::os::unix::fs::symlink("/dev/full", data_of(&path)).unwrap();
        let mut log = with_data_there(&path);
        let at = log.keep(&[1; 4096]);
        assert_eq!(at, Some(0), "it waits in memory");
        log.add(&Record { data_at: at, ..WRITE }, 0);
        assert_eq!(log.problem(), None);
        let large = vec![2; 2 << 20];
        assert_eq!((log.keep(&large), log.keep(&[3; 4096])), (None, None));
        log.add(&WRITE, 1);
        assert!(log.problem().unwrap().contains("data of writes is missing"), "{:?}", log.problem());
        log.close();
        let read = read_log(&path).unwrap();
        let full = io::Error::from_raw_os_error(libc::ENOSPC).to_string();
        assert_eq!(
            read,
            Log { records: vec![WRITE; 2], places: vec![0, 1], marks: Vec::new(), end: End::DataLost(full) },
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
        log.add(&Record { data_at: at, ..WRITE }, 0);
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
            let umount = || std::process::Command::new("umount").arg(self.0.path()).status();
            let begin = std::time::Instant::now();
            // A child of a test beside this one may have a copy of what was open there.
            while !umount().is_ok_and(|status| status.success()) && begin.elapsed().as_secs() < 60 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn a_log_on_a_full_disk_says_so_in_its_head_and_holds_a_beginning() {
        let Some(disk) = fathom_ground::system::is_root().then(Small::new).flatten() else {
            println!("skipped: a disk that is full is mounted, which needs root");
            return;
        };
        let path = disk.0.path().join("log");
        let mut log = OperationLog::create(&path, false).unwrap();
        let records: Vec<Record> = (0..20_000).map(|offset| Record { offset, ..WRITE }).collect();
        (0..).zip(&records).for_each(|(place, record)| log.add(record, place));
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
