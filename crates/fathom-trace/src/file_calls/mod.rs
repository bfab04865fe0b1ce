//! Traces of file calls: what programs wrote, read and synced, without what the bytes were.
//! Recorded by `strace`, or by Mobibench's `mobigen` out of it (Jeong et al.: *Framework for
//! Analyzing Android I/O Stack Behavior*, Future Internet 5, 2013, with recordings of Facebook and
//! Twitter).
//!
//! The file is text, one call a line, so that it can be read, cut and compared with ordinary tools:
//!
//! ```text
//! fathom-file-calls 1
//! file 0 4096 /data/data/app/databases/fb.db
//! 5 18777676 write 0 643072 4096
//! 5 18778530 fsync 0
//! ```
//!
//! `file NUMBER BYTES NAME`: a file, its bytes at the start (as many as are read before they are
//! written), and its name, which is for people. Then `THREAD µs CALL FILE …` with `write` or `read`
//! (offset, bytes), `fsync`, `fdatasync`, `syncdir` (of the directory that has this name),
//! `truncate` (bytes), `open`, `close`, `stat`, `unlink`.
//! Calls stand in the order of their times.

mod descriptors;
mod head;
mod mobigen;
mod recording;
mod strace;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;

use crate::error::TraceError;

pub use mobigen::is_line as is_mobigen_line;
pub use strace::is_file_call as is_strace_file_call;
pub use strace::is_line as is_strace_line;

/// The first line.
pub const MAGIC: &str = "fathom-file-calls 1";

/// What is said of a file that is none.
const NO_RECORDING: &str =
    "is no recording of file calls; `fathom trace import` makes one of what mobigen or strace wrote";

/// The most that files may hold at the start, all together, bytes: a replay has to write it first.
const START_MAX: u64 = 16 << 30;

/// Longest line, bytes: what has no line breaks, a device or the hole of a file, is not read to its
/// end into memory.
const LONGEST: u64 = 16 << 20;

/// A call, without its thread and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Writes so many bytes at an offset.
    Write {
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Reads so many bytes at an offset.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
    /// `fsync` or `fdatasync` of a directory, which keeps what is made and deleted in it.
    SyncDirectory,
    /// `ftruncate` to a length in bytes.
    Truncate {
        /// The length.
        bytes: u64,
    },
    /// `open`.
    Open,
    /// `close`.
    Close,
    /// `stat`, `fstat`, `access`.
    Stat,
    /// `unlink`.
    Unlink,
}

/// A recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// Number of its thread.
    pub thread: u32,
    /// When it was made, µs since the first.
    pub at_us: u64,
    /// Number of its file.
    pub file: u32,
    /// What it was.
    pub call: Call,
}

/// A file of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalledFile {
    /// Its name, for people.
    pub name: String,
    /// What it holds at the start, bytes.
    pub start_bytes: u64,
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCalls {
    /// Files by number.
    pub files: Vec<CalledFile>,
    /// Calls in order.
    pub calls: Vec<RecordedCall>,
}

/// What came of an import.
#[derive(Debug, Default)]
pub struct ImportedCalls {
    /// The recording.
    pub recording: FileCalls,
    /// What a user must know.
    pub warnings: Vec<String>,
}

/// Reads line `number` of `file`, with its end, into `line`; false at the end.
fn next_line(
    file: &mut impl BufRead,
    path: &Path,
    number: u64,
    line: &mut Vec<u8>,
) -> Result<bool, TraceError> {
    line.clear();
    let read = file.by_ref().take(LONGEST + 1).read_until(b'\n', line).map_err(TraceError::io(path))?;
    if read as u64 > LONGEST {
        let problem = format!("has more than {} MiB, and so is no file call", LONGEST >> 20);
        return Err(TraceError::line(path, number, problem));
    }
    Ok(read > 0)
}

/// Reads a recording of `mobigen` or `strace`, whichever its lines are.
///
/// # Errors
/// A file that cannot be read or holds no calls; one whose files would be too large.
pub fn import(path: &Path) -> Result<ImportedCalls, TraceError> {
    let mut file = BufReader::new(std::fs::File::open(path).map_err(TraceError::io(path))?);
    let mut recorder = recording::Recorder::default();
    let mut strace = strace::Strace::default();
    let (mut line, mut number, mut left_out) = (Vec::new(), 1, 0_u64);
    while next_line(&mut file, path, number, &mut line)? {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !text.is_empty() && !mobigen::line(text, &mut recorder) && !strace.line(text, &mut recorder) {
            left_out += 1;
        }
        number += 1;
    }
    let mut imported = recorder.finish();
    if imported.recording.calls.is_empty() {
        return Err(TraceError::refused(path.display(), "holds no file call of mobigen or strace"));
    }
    let start_bytes = imported.recording.start_bytes();
    if start_bytes > START_MAX {
        return Err(TraceError::refused(
            path.display(),
            format!(
                "its files held {start_bytes} bytes at the start, more than the {START_MAX} that are put back"
            ),
        ));
    }
    if left_out > 0 {
        imported.warnings.push(format!("{left_out} lines are no file calls and are left out"));
    }
    Ok(imported)
}

impl FileCalls {
    /// Writes it to the file at `path`, which only then has its name, and is none of `inputs`.
    ///
    /// # Errors
    /// A full disk; a path where an input is, or something that is no file.
    pub fn write(&self, path: &Path, inputs: &[&Path]) -> Result<(), TraceError> {
        let mut out = std::io::BufWriter::new(crate::output::create(path, inputs)?);
        let mut text = format!("{MAGIC}\n");
        for (number, file) in self.files.iter().enumerate() {
            let name: String =
                file.name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
            let _ = writeln!(text, "file {number} {} {name}", file.start_bytes);
        }
        for made in &self.calls {
            let RecordedCall { thread, at_us, file, call } = made;
            let _ = match call {
                Call::Write { offset, bytes } => {
                    writeln!(text, "{thread} {at_us} write {file} {offset} {bytes}")
                }
                Call::Read { offset, bytes } => {
                    writeln!(text, "{thread} {at_us} read {file} {offset} {bytes}")
                }
                Call::Truncate { bytes } => writeln!(text, "{thread} {at_us} truncate {file} {bytes}"),
                Call::Fsync => writeln!(text, "{thread} {at_us} fsync {file}"),
                Call::Fdatasync => writeln!(text, "{thread} {at_us} fdatasync {file}"),
                Call::SyncDirectory => writeln!(text, "{thread} {at_us} syncdir {file}"),
                Call::Open => writeln!(text, "{thread} {at_us} open {file}"),
                Call::Close => writeln!(text, "{thread} {at_us} close {file}"),
                Call::Stat => writeln!(text, "{thread} {at_us} stat {file}"),
                Call::Unlink => writeln!(text, "{thread} {at_us} unlink {file}"),
            };
            if text.len() > 1 << 16 {
                out.write_all(text.as_bytes()).map_err(TraceError::io(path))?;
                text.clear();
            }
        }
        out.write_all(text.as_bytes()).map_err(TraceError::io(path))?;
        let out = out.into_inner().map_err(|error| TraceError::io(path)(error.into_error()))?;
        Ok(out.finish()?)
    }

    /// What its files hold at the start, all together.
    fn start_bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.start_bytes))
    }

    /// Looks whether the file at `path` is a recording, by its first line.
    ///
    /// # Errors
    /// One that cannot be read, that is no file, or none of these.
    pub fn check(path: &Path) -> Result<(), TraceError> {
        let about = std::fs::metadata(path).map_err(TraceError::io(path))?;
        if !about.is_file() {
            return Err(TraceError::refused(path.display(), "is no file"));
        }
        let mut first = Vec::new();
        let file = std::fs::File::open(path).map_err(TraceError::io(path))?;
        file.take(MAGIC.len() as u64 + 2).read_to_end(&mut first).map_err(TraceError::io(path))?;
        let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.trim_ascii_end() != MAGIC.as_bytes() {
            return Err(TraceError::line(path, 1, NO_RECORDING));
        }
        Ok(())
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// A file that is none, with the line that is wrong.
    pub fn read(path: &Path) -> Result<FileCalls, TraceError> {
        let mut file = BufReader::new(std::fs::File::open(path).map_err(TraceError::io(path))?);
        let mut read = FileCalls::default();
        let (mut bytes, mut number) = (Vec::new(), 1);
        while next_line(&mut file, path, number, &mut bytes)? {
            let wrong = |problem: &str| TraceError::line(path, number, problem);
            let text = std::str::from_utf8(&bytes).map_err(|_| wrong("is no text"))?;
            let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
            if number == 1 && line != MAGIC {
                return Err(wrong(NO_RECORDING));
            }
            if number > 1 {
                read.line(line).ok_or_else(|| wrong("is no file and no call of one"))?;
            }
            number += 1;
        }
        if read.start_bytes() > START_MAX {
            return Err(TraceError::refused(
                path.display(),
                "its files hold more at the start than is put back",
            ));
        }
        Ok(read)
    }

    /// Takes a line; none where it is wrong.
    fn line(&mut self, line: &str) -> Option<()> {
        if let Some(file) = line.strip_prefix("file ") {
            let mut words = file.splitn(3, ' ');
            let number: usize = words.next()?.parse().ok()?;
            let start_bytes = words.next()?.parse().ok()?;
            let name = words.next().unwrap_or_default().to_owned();
            self.files.push(CalledFile { name, start_bytes });
            return (number + 1 == self.files.len()).then_some(());
        }
        let mut words = line.split(' ');
        let (thread, at_us) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (name, file) = (words.next()?, words.next()?.parse::<u32>().ok()?);
        let mut number = || words.next()?.parse::<u64>().ok();
        let call = match name {
            "write" => Call::Write { offset: number()?, bytes: number()? },
            "read" => Call::Read { offset: number()?, bytes: number()? },
            "truncate" => Call::Truncate { bytes: number()? },
            "fsync" => Call::Fsync,
            "fdatasync" => Call::Fdatasync,
            "syncdir" => Call::SyncDirectory,
            "open" => Call::Open,
            "close" => Call::Close,
            "stat" => Call::Stat,
            "unlink" => Call::Unlink,
            _ => return None,
        };
        let end = match call {
            Call::Write { offset, bytes } | Call::Read { offset, bytes } => offset.checked_add(bytes)?,
            Call::Truncate { bytes } => bytes,
            _ => 0,
        };
        if (file as usize) >= self.files.len() || end > i64::MAX as u64 || words.next().is_some() {
            return None;
        }
        self.calls.push(RecordedCall { thread, at_us, file, call });
        Some(())
    }
}
