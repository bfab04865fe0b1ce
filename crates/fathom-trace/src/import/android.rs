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
use super::died::died;
use super::lines::Lines;
use super::logcat::{Clock, LogLine, TIME, tagged};
use super::same_file::known_as;
use super::script::is_open;
use super::sqlite_log::Failure;
use super::studio;
use super::{ImportReport, Starts, abridged_list};
use crate::assemble::{Assembler, Execution};
use crate::error::TraceError;
use crate::model::Outcome;
use crate::sql::tokens;

/// Whether a line of a log is one that counts here.
pub fn is_log_line(line: &str) -> bool {
    parse(line).is_some()
}

fn parse(line: &str) -> Option<LogLine<'_>> {
    tagged(line, "SQLiteStatements").or_else(|| tagged(line, TIME))
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

/// What Android writes for a word with an `@` in the path of a database.
const ADDRESS: &str = "XX@YY";

/// A message that goes on in the next line.
struct Open {
    label: String,
    sql: String,
    at_ns: u64,
    tid: u32,
    /// Line of the log.
    line: u64,
}

/// The last statement of a connection.
struct Last {
    sql: String,
    at_ns: u64,
    failure: Option<Failure>,
    /// It has begun in vain, and is begun once more.
    is_begun_again: bool,
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
    /// By the names under which their files are known.
    databases: HashMap<String, u32>,
    /// The last statement of each connection, until its time or the next one comes.
    last: HashMap<u32, Last>,
    /// The connection of the last statement of each thread, by process and thread.
    running: HashMap<(u32, u32), u32>,
    statements: u64,
    /// Messages of those that failed in the application, and how often each came; and of those
    /// whose failure a replay cannot come to.
    failed: HashMap<String, u64>,
    left_out: HashMap<String, u64>,
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
        running: HashMap::new(),
        statements: 0,
        failed: HashMap::new(),
        left_out: HashMap::new(),
        last_ns: 0,
    };
    let mut lines = Lines::open(path)?;
    let mut open: HashMap<(u32, bool), Open> = HashMap::new();
    let (mut cut, mut dropped, mut clock, mut has_times) = (0_u64, 0_u64, Clock::default(), false);
    let mut number = 0;
    let (mut any_statement, mut any_time) = (false, false);
    // Whose message the next line may go on with, where it has no head.
    let mut headless: Option<(u32, u32, bool, usize)> = None;
    while let Some(read) = lines.next_line()? {
        number += 1;
        let further = || {
            let (pid, tid, is_time, column) =
                headless.filter(|(pid, _, is_time, _)| open.contains_key(&(*pid, *is_time)))?;
            let message = studio::further(read, column)?;
            Some(LogLine { at: None, pid, tid, is_time, message, column: Some(column) })
        };
        let Some(line) = parse(read).or_else(further) else {
            match (Failure::of(read), died(read)) {
                (Some(failure), _) => log.failed(failure),
                (None, Some(pid)) => log.close_all_of(pid)?,
                (None, None) => dropped += chatty::dropped(read),
            }
            headless = None;
            continue;
        };
        (any_statement, any_time) = (any_statement || !line.is_time, any_time || line.is_time);
        headless = line.column.map(|column| (line.pid, line.tid, line.is_time, column));
        if let Some(at) = line.at {
            has_times = true;
            log.last_ns = log.last_ns.max(clock.since_first(at));
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
    if any_time && !any_statement {
        return Err(TraceError::refused(
            path.display(),
            "tells how long statements took (SQLiteTime), and not with which values: `adb shell setprop \
             log.tag.SQLiteStatements VERBOSE` beside it, restart the application, and record again",
        ));
    }
    cut += open.len() as u64;
    log.finish()?;
    let mut imported = ImportReport { statements: log.statements, ..ImportReport::default() };
    if cut > 0 {
        imported
            .warnings
            .push(format!("{cut} statements were cut off by the log (longer than 4 KiB) and are left out"));
    }
    log.warn(&mut imported);
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
        let name = known_as(label);
        let database = match self.databases.get(&*name) {
            Some(database) => *database,
            None => {
                let (database, start) = self.starts.database_and_file(label, self.assembler)?;
                self.checker.database(database, start)?;
                self.databases.insert(name.into_owned(), database);
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
        self.running.insert((pid, message.tid), connection);
        // What has begun in vain is this one, and is told once more.
        let is_again =
            self.last.get(&connection).is_some_and(|last| last.is_begun_again && last.sql == message.sql);
        if is_again {
            self.last.remove(&connection);
            self.statements -= 1;
        }
        self.write(connection, 0)?;
        let database = self.database_of.get(&connection).copied().unwrap_or_default();
        let sql = message.sql.trim_end_matches(';');
        if !self.checker.is_good(database, sql, self.path, message.line, self.bad) {
            return Ok(());
        }
        self.statements += 1;
        let Open { sql, at_ns, .. } = message;
        self.last.insert(connection, Last { sql, at_ns, failure: None, is_begun_again: false });
        Ok(())
    }

    /// SQLite says that a thread's statement has failed.
    fn failed(&mut self, failure: Failure) {
        let connection = self.running.get(&(failure.pid, failure.tid));
        let Some(last) = connection.and_then(|connection| self.last.get_mut(connection)) else { return };
        if failure.is_begun_again() {
            last.is_begun_again = true;
        } else {
            last.failure = Some(failure);
        }
    }

    fn took(&mut self, pid: u32, message: &Open, duration_ns: u64) -> Result<(), TraceError> {
        match self.connections.get(&(pid, message.label.clone())) {
            Some(connection) => self.write(*connection, duration_ns),
            None => Ok(()),
        }
    }

    /// Writes the connection's last statement, when its duration is known, or will not be.
    fn write(&mut self, connection: u32, duration_ns: u64) -> Result<(), TraceError> {
        let Some(last) = self.last.remove(&connection) else { return Ok(()) };
        let sql = last.sql.trim_end_matches(';');
        let start_ns = last.at_ns;
        let execution = Execution { sql, values: &[], start_ns, duration_ns, keep: false, counts: None };
        let Some(failure) = last.failure else {
            super::attach::map(sql, connection, start_ns, self.assembler, self.starts)?;
            return self.assembler.execute(connection, &execution);
        };
        let is_done_again = failure.is_the_statements();
        let Outcome { code, message } = failure.outcome;
        let told = if message.is_empty() { format!("result {code}") } else { message.clone() };
        if !is_done_again {
            *self.left_out.entry(told).or_default() += 1;
            self.statements -= 1;
            return Ok(());
        }
        *self.failed.entry(told).or_default() += 1;
        self.assembler.execute_failed(connection, &execution, Outcome { code, message })
    }

    /// Says what a user must know of statements that failed, and of names.
    fn warn(&self, imported: &mut ImportReport) {
        let told = |counted: &HashMap<String, u64>| {
            let all: Vec<(String, u64)> =
                counted.iter().map(|(words, count)| (words.clone(), *count)).collect();
            (all.iter().map(|(_, count)| count).sum::<u64>(), abridged_list(&all))
        };
        if let (count @ 1.., messages) = told(&self.failed) {
            imported.warnings.push(format!(
                "{count} statements failed in the application, as its log tells (SQLiteLog), and are expected to fail alike when they are replayed: {messages}"
            ));
        }
        if let (count @ 1.., messages) = told(&self.left_out) {
            imported.warnings.push(format!(
                "{count} statements failed in the application for what a replay has not, and are left out: {messages}"
            ));
        }
        if let Some(label) = self.databases.keys().filter(|label| label.contains(ADDRESS)).min() {
            imported.warnings.push(format!(
                "Android's log has no addresses (`{ADDRESS}` in {label}): databases whose names differ in these alone are taken for one"
            ));
        }
    }

    /// A process has ended, and what it had open was closed.
    fn close_all_of(&mut self, process: u32) -> Result<(), TraceError> {
        let (gone, left) =
            std::mem::take(&mut self.connections).into_iter().partition(|((pid, _), _)| *pid == process);
        self.connections = left;
        self.close(gone)
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let all = std::mem::take(&mut self.connections);
        self.close(all)
    }

    fn close(&mut self, connections: HashMap<(u32, String), u32>) -> Result<(), TraceError> {
        let mut connections: Vec<u32> = connections.into_values().collect();
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
