//! Android's log with the tag SQLiteStatements (`adb shell setprop log.tag.SQLiteStatements
//! VERBOSE`).
//!
//! `SQLiteConnection` logs each statement when it begins, its values filled in, as `LABEL: "SQL"`,
//! where the label is the path of the database; with the tag SQLiteTime also `LABEL: "SQL" took
//! 0.123 ms` when it has ended (frameworks/base, `android_database_SQLiteConnection.cpp`). The log
//! cuts a message into its lines, and drops what is longer than an entry (4 KiB).
//!
//! Which of an application's pooled connections a statement ran on is not logged. All statements of
//! a process on one database are taken for one connection, which is how they run unless write-ahead
//! logging is on, when only readers have others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::bad::BadOnes;
use super::chatty;
use super::checker::Checker;
use super::lines::Lines;
use super::script::is_open;
use super::studio;
use super::{ImportReport, Starts};
use crate::assemble::{Assembler, Execution};
use crate::error::TraceError;
use crate::sql::tokens;

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
struct LogLine<'a> {
    /// ns since the year's start; none where the log has no times.
    at_ns: Option<u64>,
    pid: u32,
    tid: u32,
    /// Tag SQLiteTime instead of SQLiteStatements.
    is_time: bool,
    message: &'a str,
    /// Byte at which the message's further lines begin, where they have no head of their own.
    column: Option<usize>,
}

/// Whether a line of a log is one that counts here.
pub fn is_log_line(line: &str) -> bool {
    parse(line).is_some()
}

/// Whether a line is the head of an entry of `adb logcat -v long`, whose message stands below it:
/// `[ 06-14 07:35:25.940  2056: 2138 V/SQLiteStatements ]`.
pub fn is_long_head(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with("[ ")
        && line.strip_suffix(']').is_some_and(|head| {
            let head = head.trim_end();
            ["/SQLiteStatements", "/SQLiteTime"].iter().any(|tag| head.ends_with(tag))
        })
}

/// A message that goes on in the next line.
struct Open {
    label: String,
    sql: String,
    at_ns: u64,
    tid: u32,
    /// Line of the log.
    line: u64,
}

/// Connections by process and label, with the statement whose duration is not known yet.
struct Log<'a> {
    assembler: &'a mut Assembler,
    starts: &'a mut Starts,
    path: &'a Path,
    bad: &'a mut BadOnes,
    checker: Checker,
    /// The database of each connection.
    database_of: HashMap<u32, u32>,
    connections: HashMap<(u32, String), u32>,
    databases: HashMap<String, u32>,
    /// The last statement of each connection, until its time or the next one comes.
    last: HashMap<u32, (String, u64)>,
    statements: u64,
    last_ns: u64,
}

/// Reads the log at `path`.
pub fn import(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    let mut log = Log {
        assembler,
        starts,
        path,
        bad,
        checker: Checker::new(steps_max),
        database_of: HashMap::new(),
        connections: HashMap::new(),
        databases: HashMap::new(),
        last: HashMap::new(),
        statements: 0,
        last_ns: 0,
    };
    let mut lines = Lines::open(path)?;
    let mut open: HashMap<(u32, bool), Open> = HashMap::new();
    let (mut cut, mut dropped, mut zero_ns, mut has_times) = (0_u64, 0_u64, None, false);
    let mut number = 0;
    // Whose message the next line may go on with, where it has no head.
    let mut headless: Option<(u32, u32, bool, usize)> = None;
    while let Some(read) = lines.next_line()? {
        number += 1;
        let further = || {
            let (pid, tid, is_time, column) =
                headless.filter(|(pid, _, is_time, _)| open.contains_key(&(*pid, *is_time)))?;
            let message = studio::further(read, column)?;
            Some(LogLine { at_ns: None, pid, tid, is_time, message, column: Some(column) })
        };
        let Some(line) = parse(read).or_else(further) else {
            dropped += chatty::dropped(read);
            headless = None;
            continue;
        };
        headless = line.column.map(|column| (line.pid, line.tid, line.is_time, column));
        if let Some(at_ns) = line.at_ns {
            has_times = true;
            let zero = *zero_ns.get_or_insert(at_ns);
            log.last_ns = log.last_ns.max(at_ns.saturating_sub(zero));
        }
        let key = (line.pid, line.is_time);
        if let Some(started) = open.get_mut(&key) {
            match label_of(line.message) {
                // A new message where the old one's end should be: the log has dropped that end.
                // What only looks like a label (`Accept: "…`) is a line of the statement.
                Some((label, _)) if label.starts_with(['/', ':']) || log.databases.contains_key(label) => {
                    open.remove(&key);
                    cut += 1;
                }
                _ => {
                    started.sql.push('\n');
                    started.sql.push_str(line.message);
                }
            }
        }
        if let Entry::Vacant(place) = open.entry(key) {
            let Some((label, sql)) = label_of(line.message) else { continue };
            let (label, sql) = (label.to_owned(), sql.to_owned());
            place.insert(Open { label, sql, at_ns: log.last_ns, tid: line.tid, line: number });
        }
        let ended = open.get(&key).and_then(|message| end_of(&message.sql, line.is_time));
        if let (Some((length, duration_ns)), Some(mut message)) =
            (ended, ended.and_then(|_| open.remove(&key)))
        {
            message.sql.truncate(length);
            if line.is_time {
                log.took(line.pid, &message, duration_ns)?;
            } else {
                log.begun(line.pid, message)?;
            }
        }
    }
    cut += open.len() as u64;
    log.finish()?;
    let mut imported = ImportReport { statements: log.statements, ..ImportReport::default() };
    if cut > 0 {
        imported
            .warnings
            .push(format!("{cut} statements were cut off by the log (longer than 4 KiB) and are left out"));
    }
    if dropped > 0 {
        imported.warnings.push(format!(
            "the log has dropped {dropped} lines (chatty), and statements may be among them: empty its list with `adb logcat -P ''` and enlarge its buffer with `adb logcat -G 16M` before you record"
        ));
    }
    if !has_times {
        imported.warnings.push(
            "the log has no times, so all statements are at time 0; use `adb logcat -v threadtime`".into(),
        );
    }
    Ok(imported)
}

impl Log<'_> {
    fn connection(&mut self, pid: u32, tid: u32, label: &str, at_ns: u64) -> Result<u32, TraceError> {
        let thread = self.assembler.thread(pid, tid, "Android application")?;
        if let Some(connection) = self.connections.get(&(pid, label.to_owned())) {
            self.assembler.use_thread(*connection, thread);
            return Ok(*connection);
        }
        let database = match self.databases.get(label) {
            Some(database) => *database,
            None => {
                let (database, start) = self.starts.database_and_file(label, self.assembler)?;
                self.checker.database(database, start)?;
                self.databases.insert(label.to_owned(), database);
                database
            }
        };
        let connection = self.assembler.open(thread, database, at_ns)?;
        self.connections.insert((pid, label.to_owned()), connection);
        self.database_of.insert(connection, database);
        Ok(connection)
    }

    fn begun(&mut self, pid: u32, message: Open) -> Result<(), TraceError> {
        // What a trigger does is logged as a comment, and done by its statement. An application's
        // own statement may begin with a comment, too.
        if tokens(&message.sql).all(|token| token.is_blank()) {
            return Ok(());
        }
        let connection = self.connection(pid, message.tid, &message.label, message.at_ns)?;
        self.write(connection, 0)?;
        let database = self.database_of.get(&connection).copied().unwrap_or_default();
        let sql = message.sql.trim_end_matches(';');
        if !self.checker.is_good(database, sql, self.path, message.line, self.bad) {
            return Ok(());
        }
        self.statements += 1;
        self.last.insert(connection, (message.sql, message.at_ns));
        Ok(())
    }

    fn took(&mut self, pid: u32, message: &Open, duration_ns: u64) -> Result<(), TraceError> {
        match self.connections.get(&(pid, message.label.clone())) {
            Some(connection) => self.write(*connection, duration_ns),
            None => Ok(()),
        }
    }

    /// Writes the connection's last statement, when its duration is known, or will not be.
    fn write(&mut self, connection: u32, duration_ns: u64) -> Result<(), TraceError> {
        let Some((sql, start_ns)) = self.last.remove(&connection) else { return Ok(()) };
        let sql = sql.trim_end_matches(';');
        super::attach::map(sql, connection, start_ns, self.assembler, self.starts)?;
        self.assembler.execute(
            connection,
            &Execution { sql, values: &[], start_ns, duration_ns, keep: false, counts: None },
        )
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let mut connections: Vec<u32> = self.connections.values().copied().collect();
        connections.sort_unstable();
        for connection in connections {
            self.write(connection, 0)?;
            self.assembler.close(connection, self.last_ns)?;
        }
        Ok(())
    }
}

/// `LABEL: "SQL…` taken apart; none for a line in the middle of a message. A label is a path, or
/// `:memory:`.
fn label_of(message: &str) -> Option<(&str, &str)> {
    let (label, sql) = message.split_once(": \"")?;
    (label.starts_with(['/', ':']) || !label.contains(' ')).then_some((label, sql))
}

/// Length of the SQL and its duration (ns), where the message is whole.
fn end_of(sql: &str, is_time: bool) -> Option<(usize, u64)> {
    if !is_time {
        let sql = sql.strip_suffix('"')?;
        // Not where a name in quotes, or a line of a text, ends with the line.
        return (!is_open(sql)).then_some((sql.len(), 0));
    }
    let (before, after) = sql.rsplit_once("\" took ")?;
    let ms: f64 = after.strip_suffix(" ms")?.trim().parse().ok()?;
    Some((before.len(), (ms * 1e6) as u64))
}

/// A line of `logcat` in the formats brief, tag, time and threadtime (with year, microseconds, uid,
/// epoch or monotonic, where asked for), or of Android Studio.
fn parse(line: &str) -> Option<LogLine<'_>> {
    let line = line.trim_end_matches(['\r', '\n']);
    let (at, tag) =
        ["SQLiteStatements", "SQLiteTime"].iter().find_map(|tag| Some((line.find(tag)?, *tag)))?;
    let (before, after) = (&line[..at], &line[at + tag.len()..]);
    if !before.ends_with(['/', ' ']) {
        return None;
    }
    let is_time = tag == "SQLiteTime";
    let words: Vec<&str> = before.split_whitespace().collect();
    let at_ns = words
        .windows(2)
        .find_map(|pair| time_of(pair[0], pair[1]))
        .or_else(|| words.first().and_then(|word| seconds_of(word)));
    // Behind the date and the time.
    let ids = words.get(2).and_then(|word| studio::ids(word));
    if let Some((pid, tid)) = ids
        && let Some(message) = studio::message(after)
    {
        let column = Some(line.len() - message.len());
        return Some(LogLine { at_ns, pid, tid, is_time, message, column });
    }
    // The first colon ends the tag, which `(pid)` and spaces may follow.
    let colon = after.find(':')?;
    let pid_behind = after[..colon].trim().trim_start_matches('(').trim_end_matches(')').trim();
    let message = after[colon + 1..].strip_prefix(' ').unwrap_or(&after[colon + 1..]);
    let numbers: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (pid, tid) = match (pid_behind.parse(), ids, &numbers[..]) {
        (Ok(pid), ..) => (pid, pid),
        (_, Some(ids), _) => ids,
        // With a uid it comes first.
        (_, _, [.., pid, tid]) => (*pid, *tid),
        _ => (0, 0),
    };
    Some(LogLine { at_ns, pid, tid, is_time, message, column: ids.map(|_| studio::INDENT) })
}

/// `MM-DD` or `YYYY-MM-DD`, and `HH:MM:SS.fraction`, as ns since the year's start.
fn time_of(date: &str, time: &str) -> Option<u64> {
    const DAYS_BEFORE: [u64; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
    let mut date = date.rsplit('-').map(str::parse::<u64>);
    let (day, month) = (date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.')?;
    let mut clock = clock.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let days = DAYS_BEFORE.get(usize::try_from(month.checked_sub(1)?).ok()?)? + day.checked_sub(1)?;
    if day > 31 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + fraction_of(fraction)?)
}

/// `SECONDS.fraction`, as the formats epoch and monotonic have it, as ns.
fn seconds_of(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_of(fraction)?)
}

/// The digits behind the point of a number of seconds, as ns.
fn fraction_of(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse::<u64>().ok()? * 10_u64.pow(9 - digits.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_formats_are_read() {
        let message = "/data/a.db: \"BEGIN EXCLUSIVE;\"";
        for (line, pid, tid, has_time) in [
            (format!("11-21 16:26:38.123  1234  1240 V SQLiteStatements: {message}\r\n"), 1234, 1240, true),
            (
                format!("2026-11-21 16:26:38.123456 10031  1234  1240 V SQLiteStatements: {message}"),
                1234,
                1240,
                true,
            ),
            (format!("11-21 16:26:38.123 V/SQLiteStatements( 1234): {message}"), 1234, 1234, true),
            (format!("V/SQLiteStatements(1234): {message}"), 1234, 1234, false),
            (
                format!("2020-03-19 20:45:58.981 788-883/com.example.app V/SQLiteStatements: {message}"),
                788,
                883,
                true,
            ),
            (
                format!(
                    "2022-12-29 04:00:18.823   788-883   SQLiteStatements        com.example.app      V  {message}"
                ),
                788,
                883,
                true,
            ),
            (format!("V/SQLiteStatements: {message}"), 0, 0, false),
            (format!("  1574325998.123  1234  1240 V SQLiteStatements: {message}"), 1234, 1240, true),
        ] {
            let read = parse(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (read.pid, read.tid, read.at_ns.is_some(), read.message),
                (pid, tid, has_time, message),
                "{line}"
            );
        }
        assert_eq!(parse("11-21 16:26:38.123  1234  1240 I ActivityManager: start"), None);
        assert_eq!(time_of("01-02", "00:00:01.5"), Some(86_401_500_000_000));
        assert_eq!(time_of("13-02", "00:00:01.5"), None);
        assert_eq!(seconds_of("1574325998.123"), Some(1_574_325_998_123_000_000));
        for no_time in ["1234", "1.+5", "99999999999999.5"] {
            assert_eq!(seconds_of(no_time), None, "{no_time}");
        }
        assert_eq!(time_of("00-00", "00:00:01.5"), None);
    }
}
