//! Firefox's log of its storage (`MOZ_LOG=timestamp,mozStorage:5`): each statement with its values
//! filled in, with its connection's address, and for each connection the file that it opens.
//!
//! ```text
//! 2023-08-10 10:00:00.125000 UTC - [Parent 100: Main Thread]: D/mozStorage Opening connection to 'a.sqlite' (7f01)
//! 2023-08-10 10:00:00.126000 UTC - [Parent 100: Main Thread]: D/mozStorage TRACE_STMT on 7f01: 'SELECT 1'
//! ```
//!
//! A statement goes on up to the next line that is one of the log's own. What a trigger does is
//! told as a comment. What came of a statement is not told, so it is compiled alone.

use std::collections::HashMap;
use std::path::Path;

use super::bad::BadOnes;
use super::checker::Checker;
use super::iso;
use super::lines::Lines;
use super::statements::begins_statement;
use super::{ImportReport, Starts};
use crate::assemble::{Assembler, Execution};
use crate::error::TraceError;
use crate::model::Start;

/// Bytes of a line in which what stands before a message ends.
const HEAD_MAX: usize = 200;

/// How long a statement takes, and until the next one, ns, where no times are known.
const NOMINAL_NS: u64 = 1000;

/// What is wrong with a statement of a connection that was open before the log began.
const UNKNOWN: &str = "is of a connection of which the log does not tell the file: let it begin before Firefox \
    opens its databases (MOZ_LOG in the environment, and not about:logging)";

/// What is wrong with a statement without its quote.
const CUT_OFF: &str = "has no quote at its end: it was cut off, or something else wrote into it";

/// A line of the log.
struct Entry<'l> {
    at_ns: Option<u64>,
    /// Process and thread, as they are written.
    place: &'l str,
    message: &'l str,
    is_of_storage: bool,
}

impl<'l> Entry<'l> {
    fn of(line: &'l str) -> Option<Entry<'l>> {
        let end = line.find("]: ").filter(|end| *end <= HEAD_MAX)?;
        let (head, words) = (&line[..end], &line[end + 3..]);
        let (module, message) = words.split_once(' ')?;
        let (level, module) = module.split_once('/')?;
        if !matches!(level, "E" | "W" | "I" | "D" | "V") {
            return None;
        }
        let (before, place) = head.split_once('[')?;
        let at_ns = iso::ns_of(before.trim_end().trim_end_matches('-'));
        Some(Entry { at_ns, place, message, is_of_storage: module == "mozStorage" })
    }

    /// Number of the process: `Parent 100: Main Thread`; 0 where there is none.
    fn process(&self) -> u32 {
        self.place.split([' ', ':', ',']).find_map(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The address of a connection, and the beginning of its statement.
    fn statement(&self) -> Option<(&'l str, &'l str)> {
        self.message.strip_prefix("TRACE_STMT on ")?.split_once(": '").filter(|_| self.is_of_storage)
    }

    /// The file that a connection opens, and its address.
    fn opened(&self) -> Option<(&'l str, &'l str)> {
        let words = self.message.trim_end().strip_prefix("Opening connection to '")?;
        let (file, address) = words.strip_suffix(')')?.rsplit_once("' (")?;
        self.is_of_storage.then_some((file, address))
    }
}

/// A statement that is read.
struct Statement {
    line: u64,
    text: String,
    at_ns: Option<u64>,
    thread: u32,
    /// Process and address.
    connection: (u32, String),
}

/// What the lines become.
struct Log<'a> {
    path: &'a Path,
    assembler: &'a mut Assembler,
    starts: &'a mut Starts,
    bad: &'a mut BadOnes,
    checker: Checker,
    databases: HashMap<String, u32>,
    /// The trace's connection and database.
    connections: HashMap<(u32, String), (u32, u32)>,
    threads: HashMap<String, u32>,
    zero_ns: Option<u64>,
    last_ns: u64,
    statements: u64,
    without_time: u64,
}

/// Whether a line is one with a statement.
pub fn is_statement(line: &str) -> bool {
    line.contains("TRACE_STMT on ") && Entry::of(line).is_some_and(|entry| entry.statement().is_some())
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
        path,
        assembler,
        starts,
        bad,
        checker: Checker::new(steps_max),
        databases: HashMap::new(),
        connections: HashMap::new(),
        threads: HashMap::new(),
        zero_ns: None,
        last_ns: 0,
        statements: 0,
        without_time: 0,
    };
    let mut lines = Lines::open(path)?;
    let (mut number, mut skipped) = (0, 0_u64);
    let mut open: Option<Statement> = None;
    while let Some(line) = lines.next_line()? {
        number += 1;
        let Some(entry) = Entry::of(line) else {
            match &mut open {
                Some(open) => open.text.push_str(line),
                None => skipped += u64::from(!line.trim().is_empty()),
            }
            continue;
        };
        if let Some(statement) = open.take() {
            log.add(&statement)?;
        }
        let process = entry.process();
        if let Some((address, text)) = entry.statement() {
            let thread = log.thread(process, entry.place)?;
            let connection = (process, address.to_owned());
            open = Some(Statement {
                line: number,
                text: text.to_owned(),
                at_ns: entry.at_ns,
                thread,
                connection,
            });
        } else if let Some((file, address)) = entry.opened() {
            let thread = log.thread(process, entry.place)?;
            log.take_time(entry.at_ns);
            log.open(file, (process, address.to_owned()), thread)?;
        }
    }
    if let Some(statement) = open {
        log.add(&statement)?;
    }
    let mut all: Vec<u32> = log.connections.values().map(|(connection, _)| *connection).collect();
    all.sort_unstable();
    for connection in all {
        log.assembler.close(connection, log.last_ns)?;
    }
    let mut imported = ImportReport { statements: log.statements, ..ImportReport::default() };
    imported.warnings.push(
        "this is Firefox's log, which tells of a database the name of its file alone: those of one name are taken for one. Which statements \
         failed is not in it"
            .into(),
    );
    if log.without_time > 0 {
        imported.warnings.push(format!(
            "{} statements have no time (MOZ_LOG=timestamp,mozStorage:5 writes them): they follow the one before at once",
            log.without_time
        ));
    }
    if skipped > 0 {
        imported.warnings.push(format!("{skipped} lines are none of Firefox's log and are left out"));
    }
    Ok(imported)
}

impl Log<'_> {
    fn thread(&mut self, process: u32, place: &str) -> Result<u32, TraceError> {
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let number = *self.threads.entry(place.to_owned()).or_insert(next);
        self.assembler.thread(process, number, "Firefox")
    }

    fn take_time(&mut self, at_ns: Option<u64>) {
        if let Some(at_ns) = at_ns {
            let zero = *self.zero_ns.get_or_insert(at_ns);
            self.last_ns = at_ns.saturating_sub(zero).max(self.last_ns);
        }
    }

    /// A connection that is opened, instead of one that had its address before.
    fn open(&mut self, file: &str, key: (u32, String), thread: u32) -> Result<(), TraceError> {
        let known = self.databases.get(file).copied();
        let database = match known {
            Some(known) => known,
            None if file.starts_with(":memory") => {
                let database = self.assembler.database(b":memory:", Start::Memory, None)?;
                self.checker.database(database, None)?;
                database
            }
            None => {
                let (database, start) = self.starts.database_and_file(file, self.assembler)?;
                self.checker.database(database, start)?;
                self.databases.insert(file.to_owned(), database);
                database
            }
        };
        let connection = self.assembler.open(thread, database, self.last_ns)?;
        match self.connections.insert(key, (connection, database)) {
            Some((before, _)) => self.assembler.close(before, self.last_ns),
            None => Ok(()),
        }
    }

    fn add(&mut self, statement: &Statement) -> Result<(), TraceError> {
        let Statement { line, text, at_ns, thread, connection } = statement;
        let Some(sql) = text.trim_end_matches('\n').strip_suffix('\'') else {
            self.bad.add(self.path, *line, text, CUT_OFF);
            return Ok(());
        };
        if sql.starts_with("--") && !begins_statement(sql) {
            return Ok(());
        }
        let sql = sql.trim().trim_end_matches(';').trim_end();
        if sql.is_empty() {
            return Ok(());
        }
        let Some((connection, database)) = self.connections.get(connection).copied() else {
            self.bad.add(self.path, *line, sql, UNKNOWN);
            return Ok(());
        };
        self.take_time(*at_ns);
        if at_ns.is_none() {
            self.without_time += 1;
            self.last_ns += 2 * NOMINAL_NS;
        }
        if !self.checker.is_good(database, sql, self.path, *line, self.bad) {
            return Ok(());
        }
        super::attach::map(sql, connection, self.last_ns, self.assembler, self.starts)?;
        self.assembler.use_thread(connection, *thread);
        let duration_ns = if at_ns.is_none() { NOMINAL_NS } else { 0 };
        let execution =
            Execution { sql, values: &[], start_ns: self.last_ns, duration_ns, keep: false, counts: None };
        self.assembler.execute(connection, &execution)?;
        self.statements += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Place, executed};

    const HEAD: &str = "UTC - [Parent 100: Main Thread]: D/mozStorage ";

    /// What happened: Firefox's log was refused, though it has all values, connections and times.
    #[test]
    fn firefoxs_log_is_read_with_its_connections_and_times() {
        let place = Place::new();
        let log = format!(
            "2023-08-10 10:00:00.125000 {HEAD}Opening connection to 'places.sqlite' (7f01a0)\n\
             2023-08-10 10:00:00.126000 {HEAD}Opening connection to 'cookies.sqlite' (7f02b0)\n\
             2023-08-10 10:00:00.127000 {HEAD}Initialized statement 'BEGIN' (0x7f)\n\
             2023-08-10 10:00:00.225000 {HEAD}TRACE_STMT on 7f01a0: 'CREATE TABLE t(a)'\n\
             2023-08-10 10:00:00.325000 {HEAD}TRACE_STMT on 7f01a0: 'BEGIN IMMEDIATE'\n\
             2023-08-10 10:00:00.325100 UTC - [Parent 100: mozStorage #1]: D/mozStorage TRACE_STMT on 7f02b0: \
             '/* quiet */ SELECT 'x'\n\n'\n\
             2023-08-10 10:00:00.425000 {HEAD}TRACE_STMT on 7f01a0: 'INSERT INTO t VALUES ('it''\nnew')'\n\
             2023-08-10 10:00:00.425000 {HEAD}TRACE_STMT on 7f01a0: '-- UPDATE counts SET n = n + 1'\n\
             2023-08-10 10:00:00.426000 {HEAD}TRACE_TIME on 7f01a0: 1ms\n\
             2023-08-10 10:00:01.125000 {HEAD}TRACE_STMT on 7f01a0: 'COMMIT'\n"
        );
        let (imported, records) = place.import(&place.write("moz.log", &log)).expect("imported");
        let expected = [
            (0, "CREATE TABLE t(a)", 100),
            (0, "BEGIN IMMEDIATE", 200),
            (1, "/* quiet */ SELECT 'x'", 200),
            (0, "INSERT INTO t VALUES ('it''\nnew')", 300),
            (0, "COMMIT", 1000),
        ];
        let seen: Vec<_> = executed(&records)
            .into_iter()
            .map(|(connection, sql, at_ms, _)| (connection, sql, at_ms))
            .collect();
        assert_eq!(seen, expected.map(|(connection, sql, at_ms)| (connection, sql.to_owned(), at_ms)));
        assert_eq!((imported.connections, imported.warnings.len()), (2, 1), "{:?}", imported.warnings);
        // A connection that was open before, and a statement that was cut off.
        let log = format!(
            "[Parent 100: Main Thread]: D/mozStorage TRACE_STMT on 7f01a0: 'SELECT 1'\n\
             2023-08-10 10:00:00.225000 {HEAD}TRACE_STMT on 7f01a0: 'SELECT 2\n"
        );
        let error = place.import(&place.write("moz.log", &log)).expect_err("unknown").to_string();
        assert!(error.contains("moz.log:1: is of a connection"), "{error}");
        assert!(error.contains("moz.log:2: has no quote"), "{error}");
    }
}
