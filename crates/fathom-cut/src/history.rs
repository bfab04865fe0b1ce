//! What was written to a device, in which order it was answered, and what a flush made sure of: all
//! that a power cut's states are made from. No clock is asked (see `fathom_device`'s operation
//! log).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use fathom_device::{End, Log, Operation, Outcome, data_of, read_log};

use crate::error::CutError;

/// Bytes of a block: what a state has whole, or not, or torn.
pub const BLOCK_BYTES: u64 = 4096;
/// The same, for arrays.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// What reaches the medium or not as one: a block of a write, or a whole discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Offset on the device, bytes.
    pub offset: u64,
    /// Length, bytes: at most a block's for a write.
    pub bytes: u64,
    /// Its operation's place in the order of answers.
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
    /// How many operations had been answered when it came: those are safe once it is answered.
    pub came: u64,
}

/// A number that the application told the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What was told.
    pub number: u64,
    /// How many operations had been answered then.
    pub came: u64,
}

/// All of a device's writes, flushes and marks.
#[derive(Debug)]
pub struct History {
    /// Size of the device.
    pub bytes: u64,
    /// Operations that were answered.
    pub answers: u64,
    /// In order of answers; blocks of one write in order of their places.
    pub units: Vec<Unit>,
    /// In order of answers.
    pub flushes: Vec<Flush>,
    /// In order.
    pub marks: Vec<Mark>,
    data: Vec<u8>,
    /// Of each block that anything was written to the units that lie in it, in order of answers. As
    /// large as the log: the size of the device is only said.
    of_block: HashMap<u64, Vec<u32>>,
    /// Blocks that something else than zeros was written to, in order: mkfs zeroes many that stay
    /// so.
    with_content: Vec<u64>,
}

/// Which units are there beyond those that are safe.
pub trait Present {
    /// Which of a unit's eight sectors of 512 bytes (of a whole block) are there, as bits; `0xff`:
    /// all.
    fn sectors(&self, unit: u32) -> u8;
}

impl History {
    /// Reads an operation log and the data beside it.
    ///
    /// # Errors
    /// It cannot be read, lacks operations or data, or is of a version that does not tell the
    /// order.
    pub fn read(log: &Path, device_bytes: u64) -> Result<History, CutError> {
        let wrong = |problem: String| CutError::Log { path: log.to_path_buf(), problem };
        let read = read_log(log).map_err(|error| wrong(error.to_string()))?;
        if read.end != End::Complete {
            return Err(wrong(read.end.to_string()));
        }
        let data = fs::read(data_of(log)).map_err(|error| wrong(format!("its data: {error}")))?;
        History::new(&read, data, device_bytes).map_err(wrong)
    }

    /// Makes a history of a log and its data.
    ///
    /// # Errors
    /// In words: what is missing, and of which operation.
    pub fn new(log: &Log, data: Vec<u8>, device_bytes: u64) -> Result<History, String> {
        let mut history = History {
            bytes: device_bytes,
            answers: log.records.len() as u64,
            units: Vec::new(),
            flushes: Vec::new(),
            marks: log.marks.iter().map(|mark| Mark { number: mark.number, came: mark.after }).collect(),
            data,
            of_block: HashMap::new(),
            with_content: Vec::new(),
        };
        for (answer, record) in (0..).zip(&log.records) {
            let of = || format!("operation {answer} ({} at {})", record.operation_name(), record.offset);
            let Some(came) = record.after else {
                return Err(format!(
                    "{}: the log is of an earlier version, which does not tell the order of flushes and answers",
                    of()
                ));
            };
            if record.outcome != Outcome::Done {
                continue;
            }
            match record.operation {
                Operation::Read => {}
                Operation::Flush => history.flushes.push(Flush { answer, came }),
                Operation::Write => {
                    let Some(at) = record.data_at else {
                        return Err(format!("{}: its data is not in the log", of()));
                    };
                    let end = at.checked_add(u64::from(record.bytes));
                    if end.is_none_or(|end| end > history.data.len() as u64) {
                        return Err(format!("{}: its data lies beyond the end of the data", of()));
                    }
                    let mut done = 0;
                    while done < u64::from(record.bytes) {
                        let offset = record.offset + done;
                        let bytes = (BLOCK_BYTES - offset % BLOCK_BYTES).min(u64::from(record.bytes) - done);
                        // Zeros take no memory in an image, and mkfs writes many.
                        let content = &history.data[(at + done) as usize..(at + done + bytes) as usize];
                        let data_at = content.iter().any(|&byte| byte != 0).then_some(at + done);
                        history.add(Unit { offset, bytes, answer, came, data_at })?;
                        done += bytes;
                    }
                }
                Operation::Discard => {
                    let bytes = u64::from(record.bytes);
                    history.add(Unit { offset: record.offset, bytes, answer, came, data_at: None })?;
                }
            }
        }
        let contents = history.units.iter().filter(|unit| unit.data_at.is_some());
        let mut with_content: Vec<u64> = contents.flat_map(Unit::blocks).collect();
        with_content.sort_unstable();
        with_content.dedup();
        history.with_content = with_content;
        Ok(history)
    }

    fn add(&mut self, unit: Unit) -> Result<(), String> {
        if unit.offset.checked_add(unit.bytes).is_none_or(|end| end > self.bytes) {
            return Err(format!("operation {} lies beyond the device's {} bytes", unit.answer, self.bytes));
        }
        let number = u32::try_from(self.units.len()).map_err(|_| "there are too many blocks".to_owned())?;
        for block in unit.blocks() {
            self.of_block.entry(block).or_default().push(number);
        }
        self.units.push(unit);
        Ok(())
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

    /// What a block holds when the first `safe` answers are on the medium and, of what came after,
    /// what is `present`. None: zeros.
    #[must_use]
    pub fn block(&self, block: u64, safe: u64, present: &impl Present) -> Option<Cow<'_, [u8]>> {
        let units = self.of_block.get(&block)?;
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
        let base = base.and_then(|number| self.content_of(&self.units[number as usize]));
        if above.is_empty() {
            return base.map(Cow::Borrowed);
        }
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
        Some(Cow::Owned(content))
    }
}
