//! Traces with locks, written record by record, done again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fathom_trace::Writer;
use fathom_trace::model::{
    Action, DONE, Database, Event, Lock, LockChange, OK, Origin, Outcome, Process, Record, Start, Statement,
    Step, Thread,
};
use serde_json::json;

use super::tests::replay;

const BUSY: i32 = 5;

const COMMIT: LockChange = LockChange::WriteEnd { is_commit: true };
const NO_COMMIT: LockChange = LockChange::WriteEnd { is_commit: false };
use LockChange::{Exclusive, Read, ReadEnd, Write};

/// A trace of database 0, which is empty at the start, and of two threads. Each call takes 100 µs,
/// its locks lie within it, and calls follow each other.
struct Script {
    path: PathBuf,
    writer: Writer,
    texts: HashMap<String, u32>,
    at_ns: u64,
}

/// What a step came to: rows, changes, result code.
type Came = (u64, u64, i32);

impl Script {
    fn begin(directory: &Path) -> Script {
        let path = directory.join("a.trace");
        let mut script =
            Script { writer: Writer::create(&path).expect("created"), path, texts: HashMap::new(), at_ns: 0 };
        script.write(Record::Origin(Origin::default()));
        let (program, sqlite) = ("test".to_owned(), "3.0.0".to_owned());
        script.write(Record::Process(Process { id: 0, pid: 1, parent: None, program, sqlite }));
        for id in 0..2 {
            script.write(Record::Thread(Thread { id, process: 0, tid: id + 1 }));
        }
        script.write(Record::Database(Database { id: 0, path: b"/a.db".to_vec(), start: Start::Empty }));
        script
    }

    fn write(&mut self, record: Record) {
        self.writer.write(&record).expect("written");
    }

    /// A call of a thread on a connection, with the locks that it got and let go.
    fn call(&mut self, place: (u32, u32), locks: &[(LockChange, u64)], action: Action) {
        let (thread, connection) = place;
        for (number, (change, commits)) in (1..).zip(locks) {
            let (change, commits, at_ns) = (*change, *commits, self.at_ns + number * 1000);
            self.write(Record::Lock(Lock { thread, connection, database: 0, at_ns, change, commits }));
        }
        let start_ns = self.at_ns;
        self.write(Record::Event(Event { thread, connection, start_ns, duration_ns: 100_000, action }));
        self.at_ns += 110_000;
    }

    fn open(&mut self, place: (u32, u32)) {
        self.open_with(place, 6);
    }

    fn open_with(&mut self, place: (u32, u32), flags: u32) {
        let (vfs, outcome) = (String::new(), Outcome::of(OK));
        self.call(place, &[], Action::Open { database: 0, flags, vfs, outcome });
    }

    fn prepare(&mut self, place: (u32, u32), handle: u32, sql: &str) {
        let next = self.texts.len() as u32;
        let statement = *self.texts.entry(sql.to_owned()).or_insert(next);
        if statement == next {
            self.write(Record::Statement(Statement { id: next, sql: sql.to_owned() }));
        }
        self.call(place, &[], Action::Prepare { handle, statement, outcome: Outcome::of(OK) });
    }

    fn step(
        &mut self,
        place: (u32, u32),
        handle: u32,
        locks: &[(LockChange, u64)],
        came: Came,
        in_transaction: bool,
    ) {
        let (rows, changes, code) = came;
        let outcome = Outcome { code, message: String::new() };
        let step = Step { handle, begins: true, is_counted: true, rows, changes, in_transaction, outcome };
        self.call(place, locks, Action::Step(step));
    }

    fn finalize(&mut self, place: (u32, u32), handle: u32, locks: &[(LockChange, u64)]) {
        self.call(place, locks, Action::Finalize { handle });
    }

    /// Prepared, done and finalised.
    fn run(
        &mut self,
        place: (u32, u32),
        sql: &str,
        locks: &[(LockChange, u64)],
        came: Came,
        in_transaction: bool,
    ) {
        self.prepare(place, 9, sql);
        self.step(place, 9, locks, came, in_transaction);
        self.finalize(place, 9, &[]);
    }

    fn end(self) -> PathBuf {
        self.writer.finish().expect("finished");
        self.path
    }
}

fn writes(commit: u64) -> [(LockChange, u64); 5] {
    [(Read, commit - 1), (Write, 0), (Exclusive, 0), (COMMIT, commit), (ReadEnd, 0)]
}

/// Two threads share a connection. One is refused the lock to write; before it resets its statement
/// the other one inserts a row. SQLite commits nothing while a statement that writes is active, and
/// undoes what others did when one is reset that was refused. A replay that leaves refused calls
/// out commits the row: such traces could not be replayed.
#[test]
fn what_changed_under_a_refused_statement_is_undone_when_that_is_reset() {
    let refused_last = [(Read, 1), (Write, 0), (NO_COMMIT, 0), (ReadEnd, 0)];
    for (refused, locks, rows) in [
        ("INSERT INTO t VALUES (1)", &refused_last[..0], 0),
        ("BEGIN IMMEDIATE", &[(Read, 1), (ReadEnd, 0)][..], 0),
        // It had two of three locks.
        ("BEGIN EXCLUSIVE", &refused_last[..], 0),
        // It had written, and was refused the commit: that has ended it.
        ("INSERT INTO t VALUES (1)", &refused_last[..], 1),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut script = Script::begin(directory.path());
        let (own, other) = ((0, 0), (1, 0));
        script.open(own);
        script.run(own, "CREATE TABLE t(a)", &writes(1), (0, 0, DONE), false);
        script.prepare(own, 0, refused);
        script.step(own, 0, locks, (0, 0, BUSY), false);
        script.prepare(other, 1, "INSERT INTO t VALUES (2)");
        if rows == 0 {
            script.step(other, 1, &[(Read, 1), (Write, 0)], (0, 1, DONE), false);
            script.finalize(own, 0, &[(NO_COMMIT, 0), (ReadEnd, 0)]);
        } else {
            script.step(other, 1, &writes(2), (0, 1, DONE), false);
            script.finalize(own, 0, &[]);
        }
        script.finalize(other, 1, &[]);
        script.run(own, "SELECT * FROM t", &[(Read, rows + 1), (ReadEnd, 0)], (rows, 0, DONE), false);
        let path = script.end();
        for journal_mode in ["delete", "wal"] {
            let (outcome, ..) = replay(&path, json!({"journal_mode": journal_mode}), json!({}));
            outcome.unwrap_or_else(|error| panic!("{refused} {locks:?} {journal_mode}: {error}"));
        }
    }
}

/// `CREATE INDEX IF NOT EXISTS` that found the index there asked for no lock to write. In the
/// replay its connection knew the schema from before the index, so it asked for one, which another
/// thread held that waited for it.
#[test]
fn what_had_nothing_to_create_asks_for_no_lock_though_its_connection_knew_an_older_schema() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut script = Script::begin(directory.path());
    let (writer, other) = ((0, 0), (1, 1));
    script.open(writer);
    script.open(other);
    let read = |commits| [(Read, commits), (ReadEnd, 0)];
    script.run(writer, "CREATE TABLE t(a)", &writes(1), (0, 0, DONE), false);
    script.run(other, "SELECT * FROM t", &read(1), (0, 0, DONE), false);
    script.run(writer, "CREATE INDEX i ON t(a)", &writes(2), (0, 0, DONE), false);
    script.run(writer, "BEGIN IMMEDIATE", &[(Read, 2), (Write, 0)], (0, 0, DONE), true);
    script.run(other, "CREATE INDEX IF NOT EXISTS i ON t(a)", &read(2), (0, 0, DONE), false);
    script.run(writer, "INSERT INTO t VALUES (1)", &[], (0, 1, DONE), true);
    let ends = [(Exclusive, 0), (COMMIT, 3), (ReadEnd, 0)];
    script.run(writer, "COMMIT", &ends, (0, 0, DONE), false);
    let path = script.end();
    for journal_mode in ["delete", "wal"] {
        let settings = json!({"journal_mode": journal_mode, "busy_timeout": 100});
        let (outcome, ..) = replay(&path, settings, json!({}));
        outcome.unwrap_or_else(|error| panic!("{journal_mode}: {error}"));
    }
}

/// Rows that differ can be the version's: of a statement that is open while its own connection
/// changes the table SQLite promises nothing, and 3.40 and 3.51 differ.
#[test]
fn where_rows_differ_another_version_at_capture_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut script = Script::begin(directory.path());
    script.open((0, 0));
    script.run((0, 0), "SELECT 1", &[], (2, 0, DONE), false);
    let (outcome, ..) = replay(&script.end(), json!({}), json!({}));
    let error = outcome.expect_err("differs").to_string();
    assert!(error.contains("captured with SQLite 3.0.0") && error.contains("`library`"), "{error}");
}

/// Connections that share a cache take no locks of the file among each other: what the trace tells
/// of them is the first one's, and says nothing of the others' order. SQLite's own `threadtest3`
/// has such threads: what they read differed, without a word of why.
#[test]
fn locks_of_a_shared_cache_are_no_order_and_where_rows_differ_that_is_told() {
    let shared = 6 | 0x2_0000;
    let trace = |rows| {
        let directory = tempfile::tempdir().expect("a directory");
        let mut script = Script::begin(directory.path());
        let (own, other) = ((0, 0), (1, 1));
        script.open_with(own, 6);
        script.open_with(other, shared);
        script.run(own, "CREATE TABLE t(a)", &writes(1), (0, 0, DONE), false);
        // As of a commit that comes later: whoever believes it waits for ever.
        script.run(other, "SELECT * FROM t", &[(Read, 2), (ReadEnd, 0)], (rows, 0, DONE), false);
        script.run(other, "SELECT 1", &[], (1, 0, DONE), false);
        script.run(own, "INSERT INTO t VALUES (1)", &writes(2), (0, 1, DONE), false);
        let path = script.end();
        replay(&path, json!({}), json!({"timing": "original"})).0.map_err(|error| error.to_string())
    };
    trace(0).expect("the same");
    let error = trace(1).expect_err("differs");
    assert!(error.contains("cannot be done again: its threads share a cache"), "{error}");
}
