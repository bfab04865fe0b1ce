//! What an input is, by its name, its first bytes and its first lines.

use std::io::Read;
use std::path::Path;

use super::{Format, android, expanded, lines, pocketdata};
use crate::error::TraceError;
use crate::file_calls;

/// Lines that are looked at for SQL, and for calls of any kind.
const LINES: usize = 1000;

/// Lines that are looked at for what nothing but one format has: what a phone's log holds begins
/// long before the application does.
const LINES_OF_LOGS: usize = 100_000;

/// Refuses what is no recording of anything, by its first bytes.
fn refuse_other_kinds(path: &Path) -> Result<(), TraceError> {
    const LOOKED_AT: u64 = 4096;
    let file = std::fs::File::open(path).map_err(TraceError::io(path))?;
    let mut head = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut head).map_err(TraceError::io(path))?;
    let problem = if head.starts_with(&crate::format::MAGIC) {
        "is a trace already: see `fathom trace info`"
    } else if head.starts_with(file_calls::MAGIC.as_bytes()) {
        "is a recording of file calls already: it is work of the workload mobibench-file (`calls = …`)"
    } else if head.starts_with(b"SQLite format 3\0") {
        "is a database, and says nothing of what is done with it: give it with --start, beside a log or script"
    } else if head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        "is compressed: unpack it first (gunzip, unzstd)"
    } else if head.contains(&0) {
        "is no text in UTF-8, but some other kind of file"
    } else {
        return Ok(());
    };
    Err(TraceError::refused(path.display(), problem))
}

/// What a file or folder is, by its name and first lines.
pub fn find_out(path: &Path) -> Result<Format, TraceError> {
    let metadata = std::fs::metadata(path).map_err(TraceError::io(path))?;
    if metadata.is_file() {
        refuse_other_kinds(path)?;
    }
    let ends_with = |path: &Path, end: &str| {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
    };
    if metadata.is_dir() {
        let mut names =
            std::fs::read_dir(path).map_err(TraceError::io(path))?.flatten().map(|entry| entry.path());
        return Ok(if names.any(|name| ends_with(&name, "spool")) { Format::Spool } else { Format::Folder });
    }
    if !metadata.is_file() {
        return Err(TraceError::refused(
            path.display(),
            "is no file: what is looked at to find out its format is gone from a pipe; say it with --format, or write it to a file",
        ));
    }
    if ends_with(path, "sql") {
        return Ok(Format::Script);
    }
    let mut lines = lines::Lines::open(path)?;
    let mut beginning = String::new();
    let mut is_first = true;
    // Words of SQL stand in messages of every kind (`update done with 3 results`): a line that
    // nothing else has says more, wherever it stands.
    let mut may_be_expanded = false;
    for number in 0..LINES_OF_LOGS {
        let Some(line) = lines.next_line()? else { break };
        if beginning.len() < 100 {
            beginning.push_str(line);
            if pocketdata::is_workload(&beginning) {
                return Ok(Format::PocketWorkload);
            }
        }
        let is_looked_at = number < LINES && !may_be_expanded;
        let is_file_call = if is_looked_at {
            file_calls::is_mobigen_line(line) || file_calls::is_strace_line(line)
        } else {
            file_calls::is_strace_file_call(line)
        };
        if is_file_call {
            return Ok(Format::FileCalls);
        }
        if is_looked_at && pocketdata::is_log_line(line) {
            return Ok(Format::PocketData);
        }
        if android::is_log_line(line) {
            return Ok(Format::Android);
        }
        if android::is_long_head(line) {
            return Err(TraceError::refused(
                path.display(),
                "is Android's log in the format `long`, which is not read; record it with `adb logcat -v threadtime`",
            ));
        }
        // A comment before the first statement, with nothing before itself.
        if !is_looked_at || line.trim_start().starts_with("--") {
            continue;
        }
        if let Some(at) = expanded::statement_at(line) {
            // With nothing before the statements it is a script without semicolons, and where each
            // ends is decided by compiling.
            if is_first && line[..at].trim().is_empty() {
                return Ok(Format::Script);
            }
            may_be_expanded = true;
        }
        is_first &= line.trim().is_empty();
    }
    if may_be_expanded {
        return Ok(Format::Expanded);
    }
    Err(TraceError::refused(
        path.display(),
        format!(
            "its first {LINES} lines hold neither SQLiteStatements output nor SQL; say what it is with --format android, sql or expanded"
        ),
    ))
}
