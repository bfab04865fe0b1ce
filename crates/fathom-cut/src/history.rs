//! What was written to a device, in which order it was answered, and what a flush made sure of: all
//! that a power cut's states are made from. No clock is asked (see `fathom_device`'s operation
//! log). A file system whose log is on a device of its own has two devices, whose answers are
//! counted together; their blocks are those of one, the log's behind the file system's.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};

use fathom_device::{End, Log, Operation, Outcome, Record, data_of, external_of, read_log};

use crate::content::Hasher;
use crate::error::CutError;
use crate::safe::{Safe, Side};

/// Bytes of a block: what a state has whole, or not, or torn.
pub const BLOCK_BYTES: u64 = 4096;
/// The same, for arrays.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// Places of units in blocks that are kept at most, 4 bytes each. A log of few bytes may have many
/// discards that all take all that was written.
const PLACES_MAX: usize = 1 << 28;

/// Octets of a file that are read whatever lies on the disk of it.
const SPARSE_BYTES: u64 = 256 << 20;

/// How many times as long as what lies on the disk of it a longer file may be: data has zeros,
/// which a copy may leave out.
const SPARSE_TIMES: u64 = 1024;

/// Whether a file is no hole for its larger part. A hole takes nothing on the disk, nothing in an
/// archive that was sent, and as much memory as its length says.
fn has_what_it_says(file: &fs::File, bytes: u64) -> io::Result<bool> {
    use rustix::fs::{SeekFrom, seek};
    let (mut at, mut kept) = (0, SPARSE_BYTES / SPARSE_TIMES);
    while kept.saturating_mul(SPARSE_TIMES) < bytes {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(rustix::io::Errno::NXIO) => return Ok(false),
            // A file system that does not tell.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(begin))?;
        kept = kept.saturating_add(at.saturating_sub(begin));
    }
    Ok(true)
}

/// The content of a file that was passed on.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    if !has_what_it_says(&file, bytes)? {
        let problem = format!(
            "it says that it has {} MiB, and next to nothing of them lies on the disk: it is damaged, or no recording; \
             copy it once more from where it came",
            bytes >> 20
        );
        return Err(io::Error::new(ErrorKind::InvalidData, problem));
    }
    let mut content = Vec::new();
    let length = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    content.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
    file.rewind()?;
    file.take(bytes).read_to_end(&mut content)?;
    Ok(content)
}

/// What reaches the medium or not as one: a block of a write, or a whole discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes: at most a block's for a write.
    pub bytes: u64,
    /// Its operation's place in the order of all answers.
    pub answer: u64,
    /// How many operations had been answered when its operation came.
    pub came: u64,
    /// Where its content begins in the data; none: zeros (a discard's, or written ones).
    data_at: Option<u64>,
}

impl Unit {
    /// The blocks that it lies in.
    pub fn blocks(&self) -> std::ops::Range<u64> {
        self.offset / BLOCK_BYTES..(self.offset + self.bytes).div_ceil(BLOCK_BYTES)
    }
}

/// A flush that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Its place in the order of answers.
    pub answer: u64,
    /// How many operations had been answered when it came: those of its device are safe once it is
    /// answered.
    pub came: u64,
    /// Its device.
    pub side: Side,
}

/// A number that the application told the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What was told.
    pub number: u64,
    /// How many operations had been answered then.
    pub came: u64,
}

/// What a device logged.
#[derive(Debug)]
pub struct DeviceLog {
    /// Its operations.
    pub log: Log,
    /// Data of its writes.
    pub data: Vec<u8>,
    /// Its size, bytes.
    pub bytes: u64,
}

/// All of a device's writes, flushes and marks; or those of a file system's device and of its
/// external log's.
#[derive(Debug)]
pub struct History {
    /// Size of the device, or of both.
    pub bytes: u64,
    /// Where the external log's device begins; none without one.
    pub log_begins: Option<u64>,
    /// Operations that were answered.
    pub answers: u64,
    /// In order of answers; blocks of one write in order of their places.
    pub units: Vec<Unit>,
    /// In order of answers.
    pub flushes: Vec<Flush>,
    /// In order.
    pub marks: Vec<Mark>,
    data: Vec<u8>,
    /// Of each block that something else than zeros was written to the units that lie in it, in
    /// order of answers. As large as the log and its data: the size of the device is only said, and
    /// so is that of a discard.
    of_block: HashMap<u64, Vec<u32>>,
    /// Blocks that something else than zeros was written to, in order: mkfs zeroes many that stay
    /// so.
    with_content: Vec<u64>,
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Nothing but zeros.
    Zeros,
    /// What a unit carries, as a whole.
    Unit(u32),
    /// Parts of several.
    Made(Vec<u8>),
}

/// Which units are there beyond those that are safe.
pub trait Present {
    /// Which of a unit's eight sectors of 512 bytes (of a whole block) are there, as bits; `0xff`:
    /// all.
    fn sectors(&self, unit: u32) -> u8;
}

impl History {
    /// Reads an operation log and the data beside it, and those of the external log's device where
    /// that has so many bytes.
    ///
    /// # Errors
    /// They cannot be read, lack operations or data, are of a version that does not tell the order,
    /// or do not belong together.
    pub fn read(log: &Path, device_bytes: u64, log_bytes: Option<u64>) -> Result<History, CutError> {
        let external = log_bytes.map(|bytes| (external_of(log), bytes));
        let files = std::iter::once((log.to_path_buf(), device_bytes)).chain(external);
        let read = |(path, bytes): (PathBuf, u64)| {
            let wrong = |problem: String| CutError::Log { path: path.clone(), problem };
            // The opening of a FIFO waits for a writer, and no signal ends that.
            for file in [path.clone(), data_of(&path)] {
                if fs::metadata(&file).is_ok_and(|found| !found.is_file()) {
                    return Err(CutError::Usage(format!("{}: it is no file", file.display())));
                }
            }
            // What is wrong with a log is said with its name.
            let log = read_log(&path).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => CutError::Usage(error.to_string()),
                _ => wrong(error.to_string()),
            })?;
            if log.end != End::Complete {
                return Err(wrong(log.end.to_string()));
            }
            let data = bytes_of(&data_of(&path)).map_err(|error| wrong(format!("its data: {error}")))?;
            Ok(DeviceLog { log, data, bytes })
        };
        let mut devices = files.map(read).collect::<Result<Vec<_>, _>>()?.into_iter();
        let wrong = |problem| CutError::Log { path: log.to_path_buf(), problem };
        match (devices.next(), devices.next()) {
            (Some(main), log) => History::new(main, log).map_err(wrong),
            (None, _) => Err(wrong("it was not read".into())),
        }
    }

    /// Makes a history of what a device logged, and of what the external log's device did.
    ///
    /// # Errors
    /// In words: what is missing, and of which operation.
    pub fn new(main: DeviceLog, log: Option<DeviceLog>) -> Result<History, String> {
        if log.is_some() && !main.bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(format!("{} bytes of a device are no whole blocks", main.bytes));
        }
        let log_bytes = log.as_ref().map_or(0, |log| log.bytes);
        let bytes = main.bytes.checked_add(log_bytes).ok_or("the devices are too large")?;
        let mut history = History {
            bytes,
            log_begins: log.is_some().then_some(main.bytes),
            answers: 0,
            units: Vec::new(),
            flushes: Vec::new(),
            marks: main.log.marks.iter().map(|mark| Mark { number: mark.number, came: mark.after }).collect(),
            data: main.data,
            of_block: HashMap::new(),
            with_content: Vec::new(),
        };
        let mut all: Vec<(u64, Side, Record)> = Vec::new();
        let in_order = |log: &Log, side| {
            log.places
                .iter()
                .zip(&log.records)
                .map(|(place, record)| (*place, side, *record))
                .collect::<Vec<_>>()
        };
        all.extend(in_order(&main.log, Side::Main));
        let kept = history.data.len() as u64;
        if let Some(DeviceLog { log, data, .. }) = log {
            all.extend(in_order(&log, Side::Log));
            history.data.extend(data);
            all.sort_by_key(|record| record.0);
        }
        // Each write keeps data of its own; a log whose writes share it says more than it has.
        let written = all.iter().map(|(_, _, record)| match (record.operation, record.data_at) {
            (Operation::Write, Some(_)) => u64::from(record.bytes),
            _ => 0,
        });
        if written.sum::<u64>() > history.data.len() as u64 {
            return Err("its writes are longer than their data".into());
        }
        // One that is missing would be taken for one that never came.
        for (expected, (answer, side, record)) in (0..).zip(&all) {
            if *answer != expected {
                return Err(format!("answer {expected} is in none of the logs: they do not belong together"));
            }
            let behind = if *side == Side::Log { kept } else { 0 };
            history.take(*answer, *side, record, behind)?;
        }
        history.answers = all.len() as u64;
        let contents = history.units.iter().filter(|unit| unit.data_at.is_some());
        let mut with_content: Vec<u64> = contents.flat_map(Unit::blocks).collect();
        with_content.sort_unstable();
        with_content.dedup();
        history.with_content = with_content;
        history.of_block = history.units_by_block()?;
        Ok(history)
    }

    /// Takes an operation; its data lies so many bytes behind where its log says.
    fn take(&mut self, answer: u64, side: Side, record: &Record, behind: u64) -> Result<(), String> {
        let of = || format!("operation {answer} ({} at {})", record.operation_name(), record.offset);
        let Some(came) = record.after else {
            return Err(format!(
                "{}: the log is of an earlier version, which does not tell the order of flushes and answers",
                of()
            ));
        };
        if record.outcome != Outcome::Done {
            return Ok(());
        }
        let device = self.places_of(side);
        let begins = device.start.checked_add(record.offset);
        let ends = begins.and_then(|begins| begins.checked_add(u64::from(record.bytes)));
        let (Some(begins), Some(_)) = (begins, ends.filter(|&ends| ends <= device.end)) else {
            return Err(format!("{} lies beyond the device's {} bytes", of(), device.end - device.start));
        };
        match record.operation {
            Operation::Read => {}
            Operation::Flush => self.flushes.push(Flush { answer, came, side }),
            Operation::Write => {
                let Some(at) = record.data_at else {
                    return Err(format!("{}: its data is not in the log", of()));
                };
                let at = at.checked_add(behind);
                let end = at.and_then(|at| at.checked_add(u64::from(record.bytes)));
                let (Some(at), Some(_)) = (at, end.filter(|&end| end <= self.data.len() as u64)) else {
                    return Err(format!("{}: its data lies beyond the end of the data", of()));
                };
                let mut done = 0;
                while done < u64::from(record.bytes) {
                    let offset = begins + done;
                    let bytes = (BLOCK_BYTES - offset % BLOCK_BYTES).min(u64::from(record.bytes) - done);
                    // Zeros take no memory in an image, and mkfs writes many.
                    let content = &self.data[(at + done) as usize..(at + done + bytes) as usize];
                    let data_at = content.iter().any(|&byte| byte != 0).then_some(at + done);
                    self.units.push(Unit { offset, bytes, answer, came, data_at });
                    done += bytes;
                }
            }
            Operation::Discard => {
                let bytes = u64::from(record.bytes);
                self.units.push(Unit { offset: begins, bytes, answer, came, data_at: None });
            }
        }
        Ok(())
    }

    /// Where a device's bytes lie among all.
    #[must_use]
    pub fn places_of(&self, side: Side) -> Range<u64> {
        let log_begins = self.log_begins.unwrap_or(self.bytes);
        match side {
            Side::Main => 0..log_begins,
            Side::Log => log_begins..self.bytes,
        }
    }

    /// The device that a byte lies on.
    #[must_use]
    pub fn side_of(&self, offset: u64) -> Side {
        match self.log_begins {
            Some(log_begins) if offset >= log_begins => Side::Log,
            _ => Side::Main,
        }
    }

    /// Whether a unit is on the medium for certain.
    #[must_use]
    pub fn is_safe(&self, unit: &Unit, safe: Safe) -> bool {
        unit.answer < safe.of(self.side_of(unit.offset))
    }

    /// What is safe once a flush was done. Of a single device it is all that was answered before.
    pub(crate) fn after(&self, safe: Safe, flush: &Flush) -> Safe {
        match self.log_begins {
            None => Safe::all_before(flush.came.max(safe.of(Side::Main))),
            Some(_) => safe.with(flush.side, flush.came),
        }
    }

    /// Units that are safe at one moment and were not at an earlier one.
    pub(crate) fn newly_safe(&self, before: Safe, safe: Safe) -> impl Iterator<Item = &Unit> {
        let place = |answer: u64| self.units.partition_point(|unit| unit.answer < answer);
        let between = place(before.least())..place(safe.most());
        let units = self.units.get(between).unwrap_or_default();
        units.iter().filter(move |unit| self.is_safe(unit, safe) && !self.is_safe(unit, before))
    }

    /// Of each block with content the units that lie in it.
    fn units_by_block(&self) -> Result<HashMap<u64, Vec<u32>>, String> {
        let mut of_block: HashMap<u64, Vec<u32>> = HashMap::new();
        let mut room = PLACES_MAX;
        for (number, unit) in self.units.iter().enumerate() {
            let number = u32::try_from(number).map_err(|_| "there are too many blocks".to_owned())?;
            let blocks = self.with_content(unit.blocks());
            room = room.checked_sub(blocks.len()).ok_or("its discards take too many blocks each")?;
            for block in blocks {
                of_block.entry(*block).or_default().push(number);
            }
        }
        Ok(of_block)
    }

    /// A checksum of all operations that count, with their data, in hexadecimal digits.
    #[must_use]
    pub fn checksum(&self) -> String {
        let mut hasher = Hasher::new();
        hasher.add(&self.data);
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        hasher.add(&words(&[self.bytes, self.log_begins.unwrap_or(u64::MAX), self.answers]));
        for unit in &self.units {
            let Unit { offset, bytes, answer, came, data_at } = *unit;
            hasher.add(&words(&[offset, bytes, answer, came, data_at.unwrap_or(u64::MAX)]));
        }
        for flush in &self.flushes {
            hasher.add(&words(&[flush.answer, flush.came, flush.side as u64]));
        }
        for mark in &self.marks {
            hasher.add(&words(&[mark.number, mark.came]));
        }
        format!("{:032x}", hasher.end())
    }

    /// The same of the data alone, as recordings of before say it.
    #[must_use]
    pub fn checksum_of_data(&self) -> String {
        let mut hasher = Hasher::new();
        hasher.add(&self.data);
        format!("{:032x}", hasher.end())
    }

    /// Blocks of the device.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(BLOCK_BYTES)
    }

    /// Of some blocks those that may hold something else than zeros in some state.
    pub(crate) fn with_content(&self, blocks: Range<u64>) -> &[u64] {
        let place =
            |block: u64| self.with_content.partition_point(|&partition_point| partition_point < block);
        &self.with_content[place(blocks.start)..place(blocks.end)]
    }

    /// What a unit carries; none for zeros.
    #[must_use]
    pub fn content_of(&self, unit: &Unit) -> Option<&[u8]> {
        let at = usize::try_from(unit.data_at?).ok()?;
        self.data.get(at..at + unit.bytes as usize)
    }

    /// What a block holds when all that is `safe` is on the medium and, of what came after, what is
    /// `present`. None: zeros.
    #[must_use]
    pub fn block(&self, block: u64, safe: Safe, present: &impl Present) -> Option<Cow<'_, [u8]>> {
        match self.version(block, safe, present) {
            Version::Zeros => None,
            Version::Unit(unit) => self.content_of(self.units.get(unit as usize)?).map(Cow::Borrowed),
            Version::Made(content) => Some(Cow::Owned(content)),
        }
    }

    /// The same, without a copy of what a unit carries.
    pub(crate) fn version(&self, block: u64, safe: Safe, present: &impl Present) -> Version {
        let Some(units) = self.of_block.get(&block) else { return Version::Zeros };
        let safe = safe.of(self.side_of(block * BLOCK_BYTES));
        let first_unsafe =
            units.partition_point(|&partition_point| self.units[partition_point as usize].answer < safe);
        // The last that is there as a whole hides all before it.
        let whole = |sectors: u8, unit: &Unit| {
            sectors == 0xff
                && unit.offset <= block * BLOCK_BYTES
                && unit.offset + unit.bytes >= (block + 1) * BLOCK_BYTES
        };
        let mut above: Vec<(u32, u8)> = Vec::new();
        let mut base = None;
        for (at, &number) in units.iter().enumerate().rev() {
            let sectors = if at < first_unsafe { 0xff } else { present.sectors(number) };
            if sectors == 0 {
                continue;
            }
            if whole(sectors, &self.units[number as usize]) {
                base = Some(number);
                break;
            }
            above.push((number, sectors));
        }
        let carried = |number: &u32| self.content_of(&self.units[*number as usize]);
        if above.is_empty() {
            return base.filter(|number| carried(number).is_some()).map_or(Version::Zeros, Version::Unit);
        }
        let base = base.as_ref().and_then(carried);
        let mut content = base.map_or_else(|| vec![0; BLOCK], <[u8]>::to_vec);
        for (number, sectors) in above.into_iter().rev() {
            let unit = &self.units[number as usize];
            let begin = unit.offset.max(block * BLOCK_BYTES);
            let end = (unit.offset + unit.bytes).min((block + 1) * BLOCK_BYTES);
            let from = self.content_of(unit);
            for at in begin..end {
                let within = (at - block * BLOCK_BYTES) as usize;
                if sectors >> (within / 512) & 1 == 1 {
                    content[within] = from.map_or(0, |bytes| bytes[(at - unit.offset) as usize]);
                }
            }
        }
        Version::Made(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: an `operations.data` of some terabytes, all of it a hole that takes nothing
    /// on the disk, was read into memory.
    #[test]
    fn a_hole_is_not_read_into_memory() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("operations.data");
        let file = fs::File::create(&path).expect("made");
        file.set_len(8 << 40).expect("longer");
        let refused = bytes_of(&path).expect_err("it is a hole").to_string();
        assert!(refused.contains("8388608 MiB") && refused.contains("copy it once more"), "{refused}");
        file.set_len(1 << 20).expect("shorter");
        assert_eq!(bytes_of(&path).expect("read"), vec![0; 1 << 20], "zeros are content as well");
    }
}
