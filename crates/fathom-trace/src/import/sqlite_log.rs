//! What SQLite itself writes into Android's log, with the tag SQLiteLog, where a statement fails:
//!
//! ```text
//! (1555) abort at 31 in [INSERT INTO t VALUES (?)]: UNIQUE constraint failed: t.a
//! (5) statement aborts at 2: [BEGIN EXCLUSIVE;] database is locked
//! ```
//!
//! From version 3.49 on the statement stands behind: `abort at 31: MESSAGE; [SQL]`. The rest of its
//! lines tell of what failed before it began, or of no failure (an index that it made for itself).

use super::logcat::tagged;
use crate::model::Outcome;

/// `SQLITE_SCHEMA`.
const SCHEMA: i32 = 17;

/// A statement that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub pid: u32,
    pub tid: u32,
    pub outcome: Outcome,
}

impl Failure {
    /// The failure that a line of the log tells, if it does.
    pub fn of(line: &str) -> Option<Failure> {
        let line = tagged(line, "SQLiteLog")?;
        let (code, words) = line.message.strip_prefix('(')?.split_once(") ")?;
        let is_one = words.starts_with("abort at ") || words.starts_with("statement aborts at ");
        let code = code.parse::<i32>().ok().filter(|code| is_one && *code > 0)?;
        Some(Failure { pid: line.pid, tid: line.tid, outcome: Outcome { code, message: message_of(words) } })
    }

    /// Whether SQLite compiles the statement again, because another connection has changed the
    /// schema, and begins it once more. Versions before 3.39 then tell of it once more, too.
    pub fn is_begun_again(&self) -> bool {
        self.outcome.code & 0xff == SCHEMA
    }

    /// Whether a replay comes to the same, or leaves it out by itself: errors of SQL, what another
    /// connection refused, what was read-only, limits, constraints, types.
    pub fn is_the_statements(&self) -> bool {
        matches!(self.outcome.code & 0xff, 1 | 4 | 5 | 6 | 8 | 9 | 18 | 19 | 20)
    }
}

/// The message without the statement. The line may end within that.
fn message_of(words: &str) -> String {
    let message = if words.ends_with(']') {
        words.split_once(": ").and_then(|(_, rest)| rest.split_once("; [")).map(|(message, _)| message)
    } else {
        words.rsplit_once("]: ").or_else(|| words.rsplit_once("] ")).map(|(_, message)| message)
    };
    message.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_other_lines() {
        let head = "03-23 09:34:49.709  6105  6124 E SQLiteLog";
        let studio = "03-23 09:34:49.709    6105-6124/com.app E/SQLiteLog\u{fe55}";
        for (line, code, message) in [
            (
                format!("{head}: (1555) abort at 31 in [INSERT INTO t]: UNIQUE failed: t.a"),
                1555,
                "UNIQUE failed: t.a",
            ),
            (
                format!("{head}: (5) statement aborts at 2: [BEGIN;] database is locked"),
                5,
                "database is locked",
            ),
            (
                format!("{head}: (19) abort at 9: NOT NULL failed: t.a; [UPDATE t SET a = [b]]"),
                19,
                "NOT NULL failed: t.a",
            ),
            (format!("{head}: (2067) abort at 9 in [INSERT INTO t"), 2067, ""),
            (format!("{studio} (13) statement aborts at 12: [INSERT INTO t VALUES (?)]"), 13, ""),
        ] {
            let failure = Failure::of(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((failure.pid, failure.tid), (6105, 6124), "{line}");
            assert_eq!((failure.outcome.code, failure.outcome.message.as_str()), (code, message), "{line}");
        }
        for line in [
            "W SQLiteLog: (284) automatic index on t(a)",
            "E SQLiteLog: (1) no such table: t in \"SELECT * FROM t\"",
            "I SQLiteLog: (283) recovered 8 frames from WAL file /data/a.db-wal",
            "E SQLiteDatabase: (1555) abort at 31 in [INSERT]: no",
        ] {
            assert_eq!(Failure::of(&format!("03-23 09:34:49.709  6105  6124 {line}")), None, "{line}");
        }
    }
}
