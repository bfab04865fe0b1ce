//! A part of a trace: its first transactions, and without the queries that call functions of the
//! application's own, which nothing but the application can answer.
//!
//! What stands before a place of a trace is a trace: databases begin with what they held, and calls
//! stand in the order in which they returned. It can be done again by itself where no transaction
//! is open at its end and no call that comes later had begun: then nothing in it saw what comes
//! later. The first such place behind so many transactions is the end.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::format::{Reader, Totals, Writer};
use crate::info::info;
use crate::model::{Action, Event, ForeignKind, Origin, Record};
use crate::sql::{TokenKind, Verb, tokens};

/// What is taken.
#[derive(Clone, Debug, Default)]
pub struct PartRequest {
    /// The trace.
    pub path: PathBuf,
    /// The part.
    pub out: PathBuf,
    /// At least so many transactions that write; none: all.
    pub transactions: Option<u64>,
    /// Whether queries that call the application's own functions are left out.
    pub skip_own: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartReport {
    /// What the part holds.
    pub totals: Totals,
    /// Transactions that write, where they were counted.
    pub transactions: Option<u64>,
    /// The application's own functions, where queries with them are left out.
    pub functions: Vec<String>,
    /// Executions of queries that are left out.
    pub left_out: u64,
    /// Executions of other statements that call them, which stay: a replay ends there.
    pub kept: u64,
}

/// Writes a part of a trace.
///
/// # Errors
/// A trace that cannot be read to its end, or a part that cannot be written; nothing is written
/// then.
pub fn part(request: &PartRequest) -> Result<PartReport, TraceError> {
    let end = match request.transactions {
        Some(wanted) => Some(end_of(&request.path, wanted)?),
        None => None,
    };
    let functions = if request.skip_own { own_functions(&request.path)? } else { Vec::new() };
    let mut report = PartReport { transactions: end.map(|end| end.transactions), ..PartReport::default() };
    let mut own = Own::new(&functions);
    let mut writer = Writer::create_beside(&request.out, &[request.path.as_path()])?;
    let is_within = |number: u64, record: &Record| match (end, record) {
        (None, _) => true,
        // It may stand at the end of the trace, wherever calls are missing.
        (Some(end), Record::Loss(loss)) => number < end.records || loss.at_ns <= end.return_ns,
        (Some(end), _) => number < end.records,
    };
    for (number, record) in (0..).zip(Reader::open(&request.path)?) {
        match record? {
            record if !is_within(number, &record) || own.leaves_out(&record) => {}
            Record::Origin(origin) => writer.write(&Record::Origin(told(origin, request)))?,
            record => writer.write(&record)?,
        }
    }
    report.totals = writer.finish()?;
    (report.left_out, report.kept) = (own.left_out, own.kept);
    report.functions = functions;
    Ok(report)
}

/// Where a part comes from.
fn told(origin: Origin, request: &PartRequest) -> Origin {
    let mut what = origin.what.clone();
    if let Some(transactions) = request.transactions {
        what.push_str(&format!("; the first {transactions} transactions"));
    }
    if request.skip_own {
        what.push_str("; without queries that call its own functions");
    }
    Origin { what, ..origin }
}

/// Names of the functions that the application brought.
fn own_functions(path: &Path) -> Result<Vec<String>, TraceError> {
    let kind = ForeignKind::Function.name();
    let own = info(path)?.foreign.into_keys();
    Ok(own
        .filter_map(|name| Some(name.split_once(' ').filter(|pair| pair.0 == kind)?.1.to_owned()))
        .collect())
}

/// Where a part ends.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Records before it.
    records: u64,
    /// Transactions in them.
    transactions: u64,
    /// When the last call before it had returned, ns.
    return_ns: u64,
}

/// The end of the first `wanted` transactions; the trace's own where there is none before.
fn end_of(path: &Path, wanted: u64) -> Result<End, TraceError> {
    let mut counts = Transactions::default();
    let (mut records, mut return_ns) = (0, 0);
    let mut found: Option<End> = None;
    for record in Reader::open(path)? {
        let record = record?;
        records += 1;
        counts.record(&record);
        let Record::Event(event) = &record else { continue };
        // It had begun already.
        found = found.filter(|end| event.start_ns >= end.return_ns);
        return_ns = return_ns.max(event.start_ns.saturating_add(event.duration_ns));
        if found.is_none() && counts.count >= wanted && counts.open.is_empty() {
            found = Some(End { records, transactions: counts.count, return_ns });
        }
    }
    Ok(found.unwrap_or(End { records, transactions: counts.count, return_ns }))
}

/// Transactions that write, as a trace is read.
#[derive(Default)]
struct Transactions {
    count: u64,
    /// Connections with an open transaction, and their processes.
    open: HashMap<u32, u32>,
    /// Connections that have written in theirs.
    writing: HashSet<u32>,
    /// Processes of threads.
    processes: HashMap<u32, u32>,
    /// What each statement does that does not only read.
    verbs: HashMap<u32, Verb>,
    /// Prepared statements that write, by connection and handle.
    handles: HashSet<(u32, u32)>,
}

impl Transactions {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Thread(thread) => drop(self.processes.insert(thread.id, thread.process)),
            Record::Statement(statement) => {
                let verb = Verb::of(&statement.sql);
                if verb.changes_rows() || verb == Verb::Schema {
                    self.verbs.insert(statement.id, verb);
                }
            }
            // What a process that has ended left open is rolled back.
            Record::Exit(exit) => self.open.retain(|_, process| *process != exit.process),
            Record::Event(event) => self.event(event),
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        let connection = event.connection;
        match &event.action {
            Action::Prepare { handle, statement, .. } => {
                if self.verbs.contains_key(statement) {
                    self.handles.insert((connection, *handle));
                } else {
                    self.handles.remove(&(connection, *handle));
                }
            }
            Action::Finalize { handle } => drop(self.handles.remove(&(connection, *handle))),
            Action::Step(step) => {
                if step.begins && self.handles.contains(&(connection, step.handle)) {
                    self.writing.insert(connection);
                }
                self.ends(event, step.in_transaction);
            }
            Action::Blob(blob) => self.ends(event, blob.in_transaction),
            Action::Close { outcome } if !outcome.is_error() => {
                self.ends(event, false);
                self.handles.retain(|handle| handle.0 != connection);
            }
            _ => {}
        }
    }

    /// What a call says of its connection's transaction.
    fn ends(&mut self, event: &Event, is_open: bool) {
        if is_open {
            let process = self.processes.get(&event.thread).copied().unwrap_or_default();
            self.open.insert(event.connection, process);
        } else {
            self.open.remove(&event.connection);
            self.count += u64::from(self.writing.remove(&event.connection));
        }
    }
}

/// Statements that call the application's own functions.
struct Own<'a> {
    functions: &'a [String],
    /// Those that only read, and the others.
    queries: HashSet<u32>,
    others: HashSet<u32>,
    /// Prepared ones, by connection and handle.
    prepared: HashSet<(u32, u32)>,
    prepared_others: HashSet<(u32, u32)>,
    left_out: u64,
    kept: u64,
}

impl<'a> Own<'a> {
    fn new(functions: &'a [String]) -> Own<'a> {
        Own {
            functions,
            queries: HashSet::new(),
            others: HashSet::new(),
            prepared: HashSet::new(),
            prepared_others: HashSet::new(),
            left_out: 0,
            kept: 0,
        }
    }

    /// Whether a record is of a query that is left out. What others write with such a function is
    /// not known without it, and what comes after may need it, so they stay.
    fn leaves_out(&mut self, record: &Record) -> bool {
        let event = match record {
            Record::Statement(statement) if self.is_called(&statement.sql) => {
                let is_query = Verb::of(&statement.sql) == Verb::Select;
                let of_kind = if is_query { &mut self.queries } else { &mut self.others };
                of_kind.insert(statement.id);
                return false;
            }
            Record::Event(event) => event,
            _ => return false,
        };
        let place = |handle: &u32| (event.connection, *handle);
        match &event.action {
            Action::Prepare { handle, statement, .. } => {
                self.prepared_others.remove(&place(handle));
                self.prepared.remove(&place(handle));
                if self.others.contains(statement) {
                    self.prepared_others.insert(place(handle));
                }
                self.queries.contains(statement) && self.prepared.insert(place(handle))
            }
            Action::Step(step) => {
                let is_query = self.prepared.contains(&place(&step.handle));
                let is_other = self.prepared_others.contains(&place(&step.handle));
                self.left_out += u64::from(is_query && step.begins);
                self.kept += u64::from(is_other && step.begins);
                is_query
            }
            Action::Bind { handle, .. } | Action::ClearBindings { handle } | Action::Reset { handle } => {
                self.prepared.contains(&place(handle))
            }
            Action::Finalize { handle } => {
                self.prepared_others.remove(&place(handle));
                self.prepared.remove(&place(handle))
            }
            _ => false,
        }
    }

    /// Whether a statement calls one of them: `md(a)`, `a REGEXP b`, and `a LIKE b` where the
    /// application has a `like` of its own.
    fn is_called(&self, sql: &str) -> bool {
        if self.functions.is_empty() {
            return false;
        }
        let words: Vec<_> = tokens(sql).filter(|token| !token.is_blank()).collect();
        let is_own = |word: &str| self.functions.iter().any(|own| own.eq_ignore_ascii_case(word));
        (0..words.len()).any(|at| {
            let word = &words[at];
            let is_name = matches!(word.kind, TokenKind::Word | TokenKind::Quoted);
            let is_operator = ["regexp", "match", "like", "glob"].iter().any(|operator| word.is(operator));
            let is_called = is_operator || words.get(at + 1).is_some_and(|next| next.text == "(");
            is_name && is_called && is_own(word.text.trim_matches(['"', '`', '[', ']']))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::{Assembler, Execution};
    use crate::model::{Foreign, Start};

    /// Two connections; `calls` are connection, statement, whether a transaction is open after it,
    /// and when it began and how long it took.
    fn trace(path: &Path, calls: &[(usize, &str, bool, (u64, u64))]) {
        let mut assembler = Assembler::new(Writer::create(path).unwrap(), Origin::default()).unwrap();
        let database = assembler.database(b"/a.db", Start::Empty, None).unwrap();
        let connections: Vec<u32> = (0..2)
            .map(|number| {
                let thread = assembler.thread(1, number, "test").unwrap();
                assembler.open(thread, database, 0).unwrap()
            })
            .collect();
        let foreign = Foreign { kind: ForeignKind::Function, name: "md".into() };
        assembler.event(connections[0], 0, 0, Action::Foreign(foreign)).unwrap();
        for (connection, sql, is_open, (start_ns, duration_ns)) in calls.iter().copied() {
            let execution =
                Execution { sql, values: &[], start_ns, duration_ns, keep: false, counts: Some((0, 0)) };
            let outcome = crate::model::Outcome::of(crate::model::DONE);
            assembler.execute_as(connections[connection], &execution, is_open, outcome).unwrap();
        }
        for connection in connections {
            assembler.close(connection, 100_000).unwrap();
        }
        assembler.finish().unwrap();
    }

    fn statements(path: &Path) -> Vec<String> {
        let mut texts = HashMap::new();
        let mut all = Vec::new();
        for record in Reader::open(path).unwrap() {
            match record.unwrap() {
                Record::Statement(statement) => drop(texts.insert(statement.id, statement.sql)),
                Record::Event(Event { action: Action::Prepare { statement, .. }, .. }) => {
                    all.push(texts[&statement].clone());
                }
                _ => {}
            }
        }
        all
    }

    /// What happened: the trace of 10,000 commits was searched in full by `fathom advise`, and
    /// nothing made it shorter.
    #[test]
    fn the_first_transactions_of_a_trace_end_where_nothing_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let (path, out) = (directory.path().join("a.trace"), directory.path().join("b.trace"));
        trace(
            &path,
            &[
                (0, "CREATE TABLE t(a)", false, (1000, 10)),
                (0, "BEGIN", true, (1020, 10)),
                (0, "INSERT INTO t VALUES (1)", true, (1040, 10)),
                (1, "SELECT a FROM t", false, (1060, 10)),
                // The other connection's next call began before this one returned.
                (0, "COMMIT", false, (1080, 10)),
                (1, "SELECT 2", false, (1085, 10)),
                (1, "INSERT INTO t VALUES (2)", false, (1100, 10)),
            ],
        );
        let of = |wanted: u64| {
            let transactions = Some(wanted);
            let request = PartRequest { path: path.clone(), out: out.clone(), transactions, skip_own: false };
            let report = part(&request).unwrap();
            (report.transactions, statements(&out).len(), report.totals.events)
        };
        let (count, texts, _) = of(1);
        assert_eq!((count, texts), (Some(1), 1));
        let (count, texts, _) = of(2);
        assert_eq!((count, texts), (Some(2), 6), "with what began before the COMMIT returned");
        let whole = of(3);
        assert_eq!((whole.0, whole.1, of(99).1), (Some(3), 7, 7));
    }

    /// What happened: of an application with a `like` of its own, as ICU brings one, queries with
    /// LIKE stayed, and the replay found other rows.
    #[test]
    fn operators_call_functions_of_the_application_too() {
        let functions = ["md".to_owned(), "like".to_owned(), "glob".to_owned()];
        let is_called = |functions: &[String], sql: &str| Own::new(functions).is_called(sql);
        for sql in ["SELECT a FROM t WHERE a NOT LIKE 'x%'", "SELECT a GLOB 'x*' FROM t"] {
            assert!(is_called(&functions, sql) && !is_called(&functions[..1], sql), "{sql}");
        }
        assert!(!is_called(&functions, "SELECT \"like\", 'a LIKE b' FROM t"));
    }

    /// What happened: of an application with a function of its own nothing could be replayed, and
    /// no command left its queries out.
    #[test]
    fn queries_with_functions_of_the_application_are_left_out_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let (path, out) = (directory.path().join("a.trace"), directory.path().join("b.trace"));
        trace(
            &path,
            &[
                (0, "CREATE TABLE t(a)", false, (1000, 10)),
                (0, "SELECT md (a) FROM t", false, (1020, 10)),
                (0, "SELECT md, 'md(a)' FROM t", false, (1040, 10)),
                (1, "SELECT \"MD\"(a) FROM t", false, (1060, 10)),
                (1, "INSERT INTO t VALUES (md('x'))", false, (1080, 10)),
            ],
        );
        let request = PartRequest { path, out: out.clone(), transactions: None, skip_own: true };
        let report = part(&request).unwrap();
        assert_eq!((report.left_out, report.kept, report.functions), (2, 1, vec!["md".to_owned()]));
        let expected = ["CREATE TABLE t(a)", "SELECT md, 'md(a)' FROM t", "INSERT INTO t VALUES (md('x'))"];
        assert_eq!(statements(&out), expected);
    }
}
