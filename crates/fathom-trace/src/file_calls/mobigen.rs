//! Lines of `mobigen`: `THREAD µs CALL ARGUMENTS RESULT`. `open` of a file that is written has only
//! the beginning of its path, without quotes: as Mobibench does, each is taken for a file of its
//! own.

use super::recording::{RawCall, Recorder};

/// Whether a line is one.
#[must_use]
pub fn is_line(line: &str) -> bool {
    line_of(line).is_some()
}

/// Takes a line; false where it is none.
pub fn line(line: &str, recorder: &mut Recorder) -> bool {
    match line_of(line) {
        Some((thread, at_us, recorded)) => {
            if let Some(recorded) = recorded {
                recorder.add(at_us, thread, recorded);
            }
            true
        }
        None => false,
    }
}

/// Thread, time, and the call, where it succeeded and says something.
fn line_of(line: &str) -> Option<(u32, u64, Option<RawCall>)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (thread, at_us) = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
    let number = |at: usize| words.get(at)?.parse::<i64>().ok();
    let result = words.last()?.parse::<i64>().ok()?;
    let path = |at: usize| Some(words.get(at)?.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    let done = result >= 0;
    let bytes = u64::try_from(result).ok().filter(|bytes| *bytes > 0);
    let recorded = match *words.get(2)? {
        "open" => {
            let flags = words.get(words.len().checked_sub(2)?)?;
            if words.len() < 6 {
                return None;
            }
            Some(RawCall::Open {
                path: path(3),
                descriptor: result,
                appends: flags.contains("O_APPEND"),
                truncates: false,
                closes_at_exec: false,
            })
            .filter(|_| done)
        }
        "close" => Some(RawCall::Close { descriptor: number(3)? }),
        "write" => match bytes {
            Some(bytes) => Some(RawCall::Write { descriptor: number(3)?, at: None, bytes }),
            None => None,
        },
        "read" => match bytes {
            Some(bytes) => Some(RawCall::Read { descriptor: number(3)?, at: None, bytes }),
            None => None,
        },
        "pwrite" | "pwrite64" => match bytes {
            Some(bytes) => {
                Some(RawCall::Write { descriptor: number(3)?, at: Some(offset(number(4)?)?), bytes })
            }
            None => None,
        },
        "pread" | "pread64" => match bytes {
            Some(bytes) => {
                Some(RawCall::Read { descriptor: number(3)?, at: Some(offset(number(4)?)?), bytes })
            }
            None => None,
        },
        "fsync" => Some(RawCall::Sync { descriptor: number(3)?, is_data: false }).filter(|_| done),
        "fdatasync" => Some(RawCall::Sync { descriptor: number(3)?, is_data: true }).filter(|_| done),
        "fstat" | "fstat64" => Some(RawCall::Stat { descriptor: number(3)? }).filter(|_| done),
        "access" | "stat" | "stat64" | "lstat" | "lstat64" => path(3).map(|path| RawCall::StatPath { path }),
        "unlink" => path(3).map(|path| RawCall::Unlink { path }).filter(|_| done),
        _ => return None,
    };
    Some((thread, at_us, recorded))
}

fn offset(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}
