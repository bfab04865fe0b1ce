//! Files of the archive that are closed: `archive-000001.jsonl` and so on. Nothing is ever appended
//! to them, so each has an index beside it, from which a restart knows where to look without
//! reading the file, and, where it is asked for, the same records as CSV for whoever bills.
//!
//! A closed file may be moved away: its messages are then not found any more, and no other gets its
//! number. What is beside it is made again where it is missing.

use super::format::FIRST;
use super::stretch::{Stretch, Stretches};
use super::{ArchiveError, ArchivedMessage, format};
use crate::transaction::StoreError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When the archive's file is closed and another begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// At this length; 0 for never.
    pub octets: u64,
    /// So long after its first message became final; none for never.
    pub age: Option<Duration>,
    /// Whether closed files are there as CSV, too.
    pub csv: bool,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation { octets: 1 << 30, age: None, csv: false }
    }
}

impl Rotation {
    /// One file for ever.
    pub const NEVER: Rotation = Rotation { octets: 0, age: None, csv: false };
}

/// How the name of a closed file ends, and what is beside it.
const FILE: &str = "jsonl";
const BESIDE: [&str; 2] = ["index", "csv"];

/// Where the closed file of a number is.
pub(super) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("archive-{number:06}.jsonl"))
}

/// Numbers of the closed files that are there, rising.
pub(super) fn numbers(directory: &Path) -> Result<Vec<u32>, StoreError> {
    let named = named(directory)?.into_iter();
    let mut numbers: Vec<u32> = named.filter(|(_, end)| end == FILE).map(|(number, _)| number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// What is named like a closed file, or like what is beside one: the number, and how it ends.
fn named(directory: &Path) -> Result<Vec<(u32, String)>, StoreError> {
    let io = || StoreError::io(directory);
    let mut named = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io())? {
        let name = entry.map_err(io())?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix("archive-"));
        let Some((digits, end)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        if digits.len() >= 6
            && (end == FILE || BESIDE.contains(&end))
            && let Ok(number) = digits.parse()
        {
            named.push((number, end.to_owned()));
        }
    }
    Ok(named)
}

/// The number that the file at `open` gets when it is closed: none that another one has had. The
/// number of a file that was moved away does not come again: the next of that name, moved to the
/// same place, would overwrite it there.
pub(super) fn next(directory: &Path, open: &Path) -> Result<u32, StoreError> {
    let own = if open.is_file() { format::number_of(open)? } else { None };
    // Also of what was beside a file, and was left there. But an index with the open file's own
    // number is that of a rotation that a crash cut short, before the file had its new name.
    let left = named(directory)?.into_iter().filter(|(number, end)| end == FILE || Some(*number) != own);
    let behind = left.map(|(number, _)| number.saturating_add(1)).max();
    Ok(own.unwrap_or(FIRST).max(behind.unwrap_or(FIRST)))
}

/// Reads a closed file; all of it must count.
pub(super) fn read(
    path: &Path,
    each: &mut dyn FnMut(ArchivedMessage, std::ops::Range<u64>),
) -> Result<(), ArchiveError> {
    let length = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
    let whole = format::read(path, each)?;
    if whole.end == length {
        return Ok(());
    }
    let problem = format!("octets {} to {length} of a closed file are no sealed batch", whole.end);
    Err(ArchiveError::Line { path: path.display().to_string(), line: 0, problem })
}

/// The first line of an index.
#[derive(Deserialize, Serialize)]
struct Head {
    index: u32,
    octets: u64,
    records: u64,
}

/// A stretch of an index.
#[derive(Deserialize, Serialize)]
struct Line {
    ids: (i64, i64),
    octets: (u64, u64),
}

const INDEX_FORMAT: u32 = 1;

/// The stretches and the number of records of a closed file: from its index, or from itself; then
/// the index is made.
pub(super) fn stretches(directory: &Path, number: u32) -> Result<(Vec<Stretch>, u64), ArchiveError> {
    let path = path(directory, number);
    let length = std::fs::metadata(&path).map_err(StoreError::io(&path))?.len();
    if let Some(found) = read_index(&path.with_extension("index"), number, length) {
        return Ok(found);
    }
    let (mut found, mut records) = (Stretches::default(), 0);
    read(&path, &mut |record, octets| {
        records += 1;
        found.add(record.msg_id, number, octets);
    })?;
    let all = found.into_all();
    write_index(&path, length, &all, records)?;
    Ok((all, records))
}

/// None if the index is not there, or not that of the file: it is made again then.
fn read_index(path: &Path, number: u32, length: u64) -> Option<(Vec<Stretch>, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let head: Head = serde_json::from_str(lines.next()?).ok()?;
    if head.index != INDEX_FORMAT || head.octets != length {
        return None;
    }
    let stretch = |line| {
        let Line { ids, octets } = serde_json::from_str(line).ok()?;
        // Whatever is in the index, no more is read than the file has.
        let fits = ids.0 <= ids.1 && octets.0 <= octets.1 && octets.1 <= length;
        fits.then_some(Stretch { ids: ids.0..=ids.1, file: number, octets: octets.0..octets.1 })
    };
    Some((lines.map(stretch).collect::<Option<_>>()?, head.records))
}

pub(super) fn write_index(
    path: &Path,
    octets: u64,
    stretches: &[Stretch],
    records: u64,
) -> Result<(), StoreError> {
    write_beside(&path.with_extension("index"), &mut |out| {
        serde_json::to_writer(&mut *out, &Head { index: INDEX_FORMAT, octets, records })?;
        for Stretch { ids, octets, .. } in stretches {
            let line = Line { ids: (*ids.start(), *ids.end()), octets: (octets.start, octets.end) };
            out.write_all(b"\n")?;
            serde_json::to_writer(&mut *out, &line)?;
        }
        out.write_all(b"\n")
    })
}

/// Writes a file that has its name once it is whole.
fn write_beside(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = || {
        let mut out = BufWriter::new(File::create(&new)?);
        fill(&mut out)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&new, path)
    };
    let mut written = written;
    written().map_err(StoreError::io(&new))
}

/// The columns of the CSV.
const COLUMNS: &str = "msg_id,state,account,src,dst,submit,schedule,done,attempts,error,parts,receipt_of,\
                       registered_delivery,data_coding,octets";

/// Makes the CSV of each closed file that has none. How many.
///
/// # Errors
/// I/O, a damaged file.
pub fn write_csv(directory: &Path) -> Result<usize, ArchiveError> {
    let mut made = 0;
    for number in numbers(directory)? {
        let path = path(directory, number);
        let csv = path.with_extension("csv");
        if csv.try_exists().map_err(StoreError::io(&csv))? {
            continue;
        }
        let mut damage = None;
        write_beside(&csv, &mut |out| {
            writeln!(out, "{COLUMNS}")?;
            let mut failed = None;
            let done = read(&path, &mut |record, _| {
                if failed.is_none() {
                    failed = writeln!(out, "{}", line(&record)).err();
                }
            });
            match (failed, done) {
                (Some(error), _) => Err(error),
                (None, Err(error)) => {
                    let said = std::io::Error::other(error.to_string());
                    damage = Some(error);
                    Err(said)
                }
                (None, Ok(())) => Ok(()),
            }
        })
        .map_err(|error| damage.take().unwrap_or(error.into()))?;
        made += 1;
    }
    Ok(made)
}

fn line(record: &ArchivedMessage) -> String {
    let state = crate::model::MessageState::of(record.state.into());
    let state = state.map_or("UNKNOWN", crate::model::MessageState::receipt_word);
    let time = |us: i64| if us == 0 { String::new() } else { crate::centre::rfc3339(us) };
    let fields = [
        record.msg_id.to_string(),
        state.to_owned(),
        record.account.to_string(),
        field(&record.src),
        field(&record.dst),
        time(record.submit_us),
        time(record.schedule_us),
        time(record.done_us),
        record.attempts.to_string(),
        record.error.to_string(),
        record.parts.to_string(),
        record.receipt_of.to_string(),
        record.registered_delivery.to_string(),
        record.data_coding.to_string(),
        record.octets.to_string(),
    ];
    fields.join(",")
}

/// A field of RFC 4180.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
