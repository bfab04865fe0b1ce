//! The SQL of a workload or of an application's trace, transaction by transaction.
//!
//! The workload runs once on SQLite as it is built in, in a directory that goes again; SQLite tells
//! of each statement with its values (`sqlite3_trace_v2`, `sqlite3_expanded_sql`). Reads and
//! PRAGMAs are left out: a power cut has nothing to do with them, and what PRAGMAs set is the
//! cell's affair. Transactions of several connections stand in the order in which they ended, which
//! is the order in which SQLite made them. Whether the SQL alone does what the workload did is
//! checked: it must leave the same rows, but for the last digits of reals: their texts have 15.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fathom_trace::confine::ConfinedConnection;
use fathom_workload::clock::{now_ns, origin_ns};
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Sink, Window};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::start_engine;
use fathom_workload::workload::Context;
use rusqlite::{Connection, OpenFlags, ffi};
use serde_json::Value as Json;

use crate::acknowledged::{Script, confined};
use crate::content::{content_but_reals, content_of};
use crate::error::CutError;

/// Bytes of statements that are taken at most: beyond, the run is too long to be repeated for each
/// state.
const BYTES_MAX: usize = 256 << 20;

/// Commits of what a workload prepares that are steps of their own: the last ones, which a power
/// cut just behind them may take.
const PREPARED_STEPS: usize = 64;

/// How often a workload that is being captured is asked whether it is to stop.
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// So long nothing is done before a script is done once more: SQLite's clock goes by the ms.
const CLOCK_MOVES: Duration = Duration::from_millis(5);

/// One transaction, or one statement outside of any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transaction {
    /// When it ended, CLOCK_MONOTONIC, ns.
    end_ns: u64,
    statements: Vec<String>,
    /// Whether every connection was closed behind it.
    is_closed_behind: bool,
}

impl Transaction {
    /// That ends now.
    fn ending(statements: Vec<String>) -> Transaction {
        Transaction { end_ns: origin_ns() + now_ns(), statements, is_closed_behind: false }
    }
}

/// What is being captured in this process.
struct Capture {
    /// Databases below it are meant.
    directory: PathBuf,
    done: Vec<Transaction>,
    /// By the connection's address: what its open transaction has done.
    open: HashMap<usize, Vec<String>>,
    /// Connections that are open, by their addresses.
    connected: HashSet<usize>,
    bytes: usize,
    problem: Option<String>,
}

static CAPTURE: Mutex<Option<Capture>> = Mutex::new(None);
/// Whether what is being captured is to end: the next statement is interrupted.
static STOP: AtomicBool = AtomicBool::new(false);
/// SQLite has one list of such functions in a process, so only one capture goes on at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Has SQLite call [`on_open`] for each new connection, until it is dropped.
struct Listening;

impl Listening {
    fn begin(directory: &Path) -> Listening {
        *CAPTURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Capture {
            directory: directory.to_owned(),
            done: Vec::new(),
            open: HashMap::new(),
            connected: HashSet::new(),
            bytes: 0,
            problem: None,
        });
        // SAFETY: SQLite calls an entry point with the three arguments that `on_open` takes, and
        // gives it this type in its interface.
        unsafe { ffi::sqlite3_auto_extension(Some(ENTRY)) };
        Listening
    }

    fn end(self) -> Option<Capture> {
        CAPTURE.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: as in `begin`; what was not registered is not found.
        unsafe { ffi::sqlite3_cancel_auto_extension(Some(ENTRY)) };
    }
}

/// An entry point of an extension, by the type that SQLite calls it with.
type Entry =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

const ENTRY: Entry = on_open;

/// # Safety
/// Called by SQLite with a connection that has just been opened.
unsafe extern "C" fn on_open(
    db: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the connection is open; the name lives as long as it, or is null.
    let path = unsafe {
        let name = ffi::sqlite3_db_filename(db, c"main".as_ptr());
        if name.is_null() {
            return ffi::SQLITE_OK;
        }
        PathBuf::from(CStr::from_ptr(name).to_string_lossy().into_owned())
    };
    let mut capture = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(capture) = capture.as_mut().filter(|capture| path.starts_with(&capture.directory)) {
        capture.connected.insert(db as usize);
        // SAFETY: the function lives as long as the program, and takes what SQLite gives for these
        // events.
        unsafe {
            let events = ffi::SQLITE_TRACE_STMT | ffi::SQLITE_TRACE_PROFILE | ffi::SQLITE_TRACE_CLOSE;
            ffi::sqlite3_trace_v2(db, events, Some(on_trace), std::ptr::null_mut());
        }
    }
    ffi::SQLITE_OK
}

/// # Safety
/// Called by SQLite: a statement that begins with its text, one that has ended, or a connection
/// that closes.
unsafe extern "C" fn on_trace(event: c_uint, _: *mut c_void, about: *mut c_void, more: *mut c_void) -> c_int {
    let mut capture = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(capture) = capture.as_mut() else { return 0 };
    if event == ffi::SQLITE_TRACE_PROFILE {
        // SAFETY: of this event SQLite gives the statement, which lives during the call.
        let (db, is_outside) = unsafe {
            let db = ffi::sqlite3_db_handle(about.cast());
            (db, ffi::sqlite3_get_autocommit(db) != 0)
        };
        if is_outside {
            capture.released(db as usize);
        }
        return 0;
    }
    if event != ffi::SQLITE_TRACE_STMT {
        capture.closes(about as usize);
        return 0;
    }
    let statement: *mut ffi::sqlite3_stmt = about.cast();
    // SAFETY: of this event SQLite gives the statement and its text, which ends in NUL; both live
    // during the call. The expanded text is this function's to free.
    unsafe {
        let text: *const c_char = more.cast();
        let own = ffi::sqlite3_sql(statement);
        // What a trigger does is done again by its statement. It is told by a comment, which is not
        // the statement's own text; that may begin with one as well.
        if text.is_null()
            || own.is_null()
            || (CStr::from_ptr(text).to_bytes().starts_with(b"--")
                && CStr::from_ptr(text) != CStr::from_ptr(own))
        {
            return 0;
        }
        let db = ffi::sqlite3_db_handle(statement);
        // What cannot be cut need not be done to its end.
        if STOP.load(Ordering::Relaxed) || capture.problem.is_some() {
            ffi::sqlite3_interrupt(db);
        }
        let is_read = ffi::sqlite3_stmt_readonly(statement) != 0;
        let is_outside = ffi::sqlite3_get_autocommit(db) != 0;
        let expanded = ffi::sqlite3_expanded_sql(statement);
        if expanded.is_null() {
            capture
                .problem
                .get_or_insert_with(|| "a statement with its values is too long for SQLite".into());
            return 0;
        }
        let sql = CStr::from_ptr(expanded).to_string_lossy().into_owned();
        ffi::sqlite3_free(expanded.cast());
        capture.take(db as usize, sql, is_read, is_outside);
    }
    0
}

/// What a statement does to its connection's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Begins,
    Ends,
    Within,
    Nothing,
}

/// A statement without what stands before its first word.
fn bare(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        rest = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n').map_or("", |parts| parts.1),
            (_, Some(comment)) => comment.split_once("*/").map_or("", |parts| parts.1),
            _ => return rest,
        };
    }
}

/// The words of a statement.
fn words(sql: &str) -> impl Iterator<Item = &str> {
    bare(sql).split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Its first word.
fn word(sql: &str) -> &str {
    words(sql).next().unwrap_or_default()
}

fn part(sql: &str, is_read: bool) -> Part {
    match word(sql).to_ascii_uppercase().as_str() {
        "PRAGMA" | "EXPLAIN" => Part::Nothing,
        "BEGIN" => Part::Begins,
        "COMMIT" | "END" => Part::Ends,
        "ROLLBACK" => {
            let is_partial = words(sql).any(|word| word.eq_ignore_ascii_case("to"));
            if is_partial { Part::Within } else { Part::Ends }
        }
        "SAVEPOINT" | "RELEASE" => Part::Within,
        // It writes another file, and none of the database's rows.
        "VACUUM" if words(sql).any(|word| word.eq_ignore_ascii_case("into")) => Part::Nothing,
        _ if is_read => Part::Nothing,
        _ => Part::Within,
    }
}

impl Capture {
    fn take(&mut self, connection: usize, sql: String, is_read: bool, is_outside: bool) {
        let part = part(&sql, is_read);
        if part == Part::Nothing || self.problem.is_some() {
            return;
        }
        if ["attach", "detach"].iter().any(|verb| word(&sql).eq_ignore_ascii_case(verb)) {
            self.problem = Some("it attaches databases, and a power cut is tried on one".into());
        }
        self.bytes += sql.len();
        if self.bytes > BYTES_MAX {
            self.problem = Some(format!("its statements are longer than {} MiB", BYTES_MAX >> 20));
        }
        let begins = part == Part::Begins || (is_outside && word(&sql).eq_ignore_ascii_case("savepoint"));
        if is_outside && !begins {
            // Statements of a transaction that an error has undone stay undone.
            self.open.remove(&connection);
            let statements = vec![sql];
            self.done.push(Transaction::ending(statements));
            return;
        }
        let open = self.open.entry(connection).or_default();
        if is_outside {
            open.clear();
        }
        open.push(sql);
        if part == Part::Ends {
            let statements = self.open.remove(&connection).unwrap_or_default();
            self.done.push(Transaction::ending(statements));
        }
    }
}

impl Capture {
    /// A connection closes. Behind the last one nothing is open any more: SQLite copies the
    /// write-ahead log into the database then.
    fn closes(&mut self, connection: usize) {
        self.open.remove(&connection);
        let is_last = self.connected.remove(&connection) && self.connected.is_empty();
        if let Some(done) = self.done.last_mut().filter(|_| is_last) {
            done.is_closed_behind = true;
        }
    }

    /// A statement of the connection has ended, and no transaction is open: a RELEASE was of the
    /// outermost savepoint, and has committed.
    fn released(&mut self, connection: usize) {
        let is_release = |sql: &String| word(sql).eq_ignore_ascii_case("release");
        let last = self.open.get(&connection).and_then(|statements| statements.last());
        if last.is_some_and(is_release) {
            let statements = self.open.remove(&connection).unwrap_or_default();
            self.done.push(Transaction::ending(statements));
        }
    }
}

/// Keeps when the phases were, and nothing else.
#[derive(Default)]
struct Windows(Vec<Window>);

impl Sink for Windows {
    fn sample(&mut self, _: Sample) {}
    fn phase(&mut self, _: PhaseSummary) {}
    fn window(&mut self, window: Window) {
        self.0.push(window);
    }
    fn io(&mut self, _: IoRow) {}
    fn progress(&mut self, _: f64) {}
    fn warning(&mut self, _: String) {}
    fn verified(&mut self, _: String) {}
}

impl Script {
    /// Of a workload, or of a trace (the workload `trace`): its first steps are what the workload
    /// prepares, and each further one is one of the first `commits` commits of what it measures.
    /// `settings` are the engine's; those that decide what SQLite does with a statement
    /// (`foreign_keys`, `page_size` …) count.
    ///
    /// # Errors
    /// A workload that fails, that works with another engine or several databases, or whose SQL
    /// alone does not do the same; or `stop` said so before it was done.
    pub fn of_workload(
        workload: &WorkloadSpec,
        settings: &std::collections::BTreeMap<String, Json>,
        seed: u64,
        commits: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Script, CutError> {
        let asked = |problem: String| CutError::Usage(format!("workload {}: {problem}", workload.name));
        let made = fathom_workload::create(workload).map_err(|error| CutError::Usage(error.to_string()))?;
        let directory = tempfile::Builder::new()
            .prefix("fathom-cut-")
            .tempdir()
            .map_err(CutError::io("make a directory for what a workload does"))?;
        let mut settings = settings.clone();
        settings.remove("library");
        settings.insert("synchronous".into(), Json::from("off"));
        let engine = EngineSpec { name: "sqlite".into(), settings: settings.clone() };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // A link in the path would hide that a database lies below it.
        let place =
            directory.path().canonicalize().map_err(CutError::io("find the directory of a workload"))?;
        let engine = start_engine(&engine, &place).map_err(|error| asked(error.to_string()))?;
        let listening = Listening::begin(&place);
        let mut windows = Windows::default();
        let context = Context { directory: &place, engine: Some(&*engine), seed };
        let done = AtomicBool::new(false);
        STOP.store(false, Ordering::Relaxed);
        let worked = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    STOP.fetch_or(stop(), Ordering::Relaxed);
                    std::thread::sleep(ASKED_EVERY);
                }
            });
            let worked = made.run(&context, &mut windows);
            done.store(true, Ordering::Relaxed);
            worked
        });
        let stopped = STOP.swap(false, Ordering::Relaxed);
        let captured = listening.end();
        drop(turn);
        if stopped {
            return Err(asked(
                "it was stopped before it was done: all of it runs once before anything is cut; give it more time, or less to do".into(),
            ));
        }
        let captured = captured.ok_or_else(|| asked("its statements were not captured".into()))?;
        if let Some(problem) = captured.problem {
            return Err(asked(problem));
        }
        worked.map_err(|error| asked(error.to_string()))?;
        drop(engine);
        let left = left_in(&place).map_err(&asked)?;
        let begins_ns = windows.0.iter().map(|window| window.start_ns).min();
        let prepared = match begins_ns {
            Some(begins_ns) => captured.done.partition_point(|transaction| transaction.end_ns < begins_ns),
            None => 0,
        };
        let keys = settings.get("foreign_keys").and_then(Json::as_bool).unwrap_or(false);
        let (script, content) = steps(&captured.done, prepared, keys).map_err(&asked)?;
        let again = || {
            std::thread::sleep(CLOCK_MOVES);
            steps(&captured.done, prepared, keys).map(|done| done.1).map_err(&asked)
        };
        if !left.is_left_by(content, again)? {
            return Err(asked(
                "its SQL done again leaves other rows (it asks for the time, for random numbers, or writes without SQL, or what it does \
                 hangs on more than 15 digits of a number), so that what each commit left is not known"
                    .into(),
            ));
        }
        let prepared = usize::try_from(script.prepared).unwrap_or(usize::MAX);
        if script.steps.len() <= prepared {
            return Err(asked("it commits nothing after what it prepares".into()));
        }
        let mut script = script;
        script.steps.truncate(commits.saturating_add(prepared));
        Ok(script)
    }
}

/// What a database holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    exact: u128,
    /// Whatever its reals are.
    but_reals: u128,
}

impl Content {
    fn of(database: &Connection) -> rusqlite::Result<Content> {
        Ok(Content { exact: content_of(database)?, but_reals: content_but_reals(database)? })
    }

    /// Whether a script does what left this. SQLite writes values into a text with 15 digits, so
    /// reals may be others in the last ones, and what is summed up of them: then the script must
    /// leave the same `again`, or its reals are those of a clock or of chance.
    fn is_left_by(
        self,
        script: Content,
        again: impl FnOnce() -> Result<Content, CutError>,
    ) -> Result<bool, CutError> {
        if script.exact == self.exact {
            return Ok(true);
        }
        Ok(script.but_reals == self.but_reals && again()? == script)
    }
}

/// What the one database that a workload has left holds.
fn left_in(directory: &Path) -> Result<Content, String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).map_err(|error| error.to_string())?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let mut head = [0; 16];
            let read = std::fs::File::open(&path)
                .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
            if read.is_ok() && head == *b"SQLite format 3\0" {
                found.push(path);
            }
        }
    }
    let [database] = &found[..] else {
        return Err(format!(
            "it leaves {} databases of SQLite, and a power cut is tried on one",
            found.len()
        ));
    };
    let opened = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
    opened.and_then(|database| Content::of(&database)).map_err(|error| error.to_string())
}

/// Does all again in memory: gives the steps (each transaction that commits is one; of the first
/// `prepared` transactions more than [`PREPARED_STEPS`] are one, the first) and what is left at the
/// end.
fn steps(all: &[Transaction], prepared: usize, foreign_keys: bool) -> Result<(Script, Content), String> {
    let commits = AtomicU64::new(0);
    let database = confined().map_err(|error| error.to_string())?;
    database.pragma_update(None, "foreign_keys", foreign_keys).map_err(|error| error.to_string())?;
    // SAFETY: the connection is open, and is dropped before what is counted with: it was made
    // later.
    unsafe {
        let counted: *const AtomicU64 = &raw const commits;
        ffi::sqlite3_commit_hook(database.handle(), Some(on_commit), counted.cast_mut().cast());
    }
    let mut steps: Vec<Vec<&str>> = Vec::new();
    let (mut prepared_steps, mut closes) = (0, BTreeSet::new());
    // Of transactions that committed nothing: they stand before the next one.
    let mut waiting: Vec<&str> = Vec::new();
    for (number, transaction) in all.iter().enumerate() {
        let before = commits.load(Ordering::Relaxed);
        for sql in &transaction.statements {
            // One that SQLite refuses (a constraint) is undone by itself, so that leaving it out is
            // the same.
            if run(&database, sql) {
                waiting.push(sql);
            }
        }
        if !database.is_autocommit() {
            run(&database, "ROLLBACK");
            waiting.push("ROLLBACK");
        }
        if commits.load(Ordering::Relaxed) > before {
            steps.push(std::mem::take(&mut waiting));
            if number < prepared {
                prepared_steps = steps.len();
            }
        }
        if transaction.is_closed_behind {
            closes.insert(steps.len());
        }
    }
    let joined = prepared_steps.saturating_sub(PREPARED_STEPS);
    if joined > 0 {
        let first = steps.drain(..=joined).flatten().collect();
        steps.insert(0, first);
    }
    let closes = closes.into_iter().filter(|&steps| steps > joined).map(|steps| (steps - joined) as u64);
    // Where nothing is prepared, the first commit makes the tables.
    let prepared = prepared_steps.clamp(1, PREPARED_STEPS) as u64;
    let content = Content::of(&database).map_err(|error| error.to_string())?;
    // A statement may end in a comment to its line's end.
    let steps =
        steps.into_iter().map(|statements| statements.iter().map(|sql| format!("{sql}\n;\n")).collect());
    Ok((Script { steps: steps.collect(), prepared, foreign_keys, closes: closes.collect() }, content))
}

/// # Safety
/// Called by SQLite with the counter that was given to it.
unsafe extern "C" fn on_commit(counted: *mut c_void) -> c_int {
    // SAFETY: as above; the counter outlives the connection.
    unsafe { (*counted.cast::<AtomicU64>()).fetch_add(1, Ordering::Relaxed) };
    0
}

/// Whether SQLite takes a statement.
fn run(database: &ConfinedConnection, sql: &str) -> bool {
    database.begin_statement();
    let done = database.prepare(sql).and_then(|mut statement| {
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
        Ok(())
    });
    done.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acknowledged::AcknowledgedContents;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn map(json: serde_json::Value) -> BTreeMap<String, Json> {
        json.as_object().unwrap().clone().into_iter().collect()
    }

    #[test]
    fn a_workload_becomes_the_commits_of_what_it_measures() {
        let spec = WorkloadSpec {
            name: "mobibench-sql".into(),
            params: map(json!({"tables": 1, "transactions": 30, "phases": ["insert", "update"]})),
        };
        let script = Script::of_workload(&spec, &BTreeMap::new(), 1, 45, &|| false).unwrap();
        assert_eq!(script.steps.len(), 46);
        assert!(script.steps[0].contains("CREATE TABLE"), "{}", script.steps[0]);
        assert!(
            script.steps[1].contains("INSERT") && script.steps[1].contains("COMMIT"),
            "{}",
            script.steps[1]
        );
        assert!(script.steps[31].contains("UPDATE"), "{}", script.steps[31]);
        AcknowledgedContents::of(&script).unwrap();
    }

    #[test]
    fn traces_are_captured_as_workloads_are() {
        let spec =
            WorkloadSpec { name: "trace".into(), params: map(json!({"profile": "gmail", "scale": 5})) };
        let script = Script::of_workload(&spec, &BTreeMap::new(), 3, 15, &|| false);
        match script {
            Ok(script) => {
                assert!(script.prepared > 1, "it makes its tables one after the other");
                assert_eq!(script.steps.len() as u64, script.prepared + 15);
                AcknowledgedContents::of(&script).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Two transactions of two connections: the one that ended first stands first; what fails, is
    /// rolled back or only reads is no step.
    #[test]
    fn transactions_stand_in_the_order_in_which_they_ended() {
        let mut capture = Capture {
            directory: PathBuf::new(),
            done: Vec::new(),
            open: HashMap::new(),
            connected: HashSet::new(),
            bytes: 0,
            problem: None,
        };
        let mut take = |connection, sql: &str, is_outside| {
            capture.take(connection, sql.into(), sql.starts_with("SELECT"), is_outside)
        };
        take(1, "CREATE TABLE t(a UNIQUE)", true);
        take(1, "BEGIN", true);
        take(2, "BEGIN IMMEDIATE", true);
        take(2, "INSERT INTO t VALUES(1)", false);
        take(1, "SELECT * FROM t", false);
        take(2, "COMMIT", false);
        take(1, "INSERT INTO t VALUES(2)", false);
        take(1, "INSERT INTO t VALUES(1)", false);
        take(1, "END", false);
        take(1, "PRAGMA user_version", true);
        take(2, "BEGIN", true);
        take(2, "INSERT INTO t VALUES(3)", false);
        take(2, "ROLLBACK", false);
        take(2, "/* begin */ VACUUM main -- all\n INTO '/etc/passwd'", true);
        take(2, "INSERT INTO t VALUES(4) -- the last", true);
        let (script, _) = steps(&capture.done, 1, false).unwrap();
        assert_eq!(script.prepared, 1);
        let lines: Vec<String> = script.steps.iter().map(|step| step.replace("\n;\n", "; ")).collect();
        assert_eq!(
            lines,
            [
                "CREATE TABLE t(a UNIQUE); ",
                "BEGIN IMMEDIATE; INSERT INTO t VALUES(1); COMMIT; ",
                "BEGIN; INSERT INTO t VALUES(2); END; ",
                "BEGIN; INSERT INTO t VALUES(3); ROLLBACK; INSERT INTO t VALUES(4) -- the last; ",
            ]
        );
    }

    /// What happened: what an outermost savepoint had committed was taken for undone, so that the
    /// SQL "left other rows", and a trace of an application that begins so could not be tried.
    #[test]
    fn the_release_of_an_outermost_savepoint_commits() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let listening = Listening::begin(&place);
        let database = Connection::open(place.join("t.db")).unwrap();
        let sql = "CREATE TABLE t(a); SAVEPOINT s; INSERT INTO t VALUES(1); SAVEPOINT inner; \
                   INSERT INTO t VALUES(2); RELEASE inner; RELEASE s; INSERT INTO t VALUES(3)";
        database.execute_batch(sql).unwrap();
        drop(database);
        let captured = listening.end().unwrap();
        let all: Vec<usize> = captured.done.iter().map(|done| done.statements.len()).collect();
        assert_eq!((all, captured.problem), (vec![1, 6, 1], None));
        let (script, _) = steps(&captured.done, 1, false).unwrap();
        assert!(script.steps.len() == 3 && script.steps[1].contains("VALUES(2)"), "{:?}", script.steps);
    }

    /// What happened: the sqlite3 shell, called anew for each commit, checkpoints the log each time
    /// that it ends. All of its commits were done on one connection, which stayed open, and
    /// "last 21 commits lost" was said of WAL/NORMAL.
    #[test]
    fn where_all_that_was_open_closed_the_script_closes() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let listening = Listening::begin(&place);
        let open = || Connection::open(place.join("t.db")).unwrap();
        open().execute_batch("CREATE TABLE t(a)").unwrap();
        let (first, second) = (open(), open());
        first.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        drop(first);
        second.execute_batch("INSERT INTO t VALUES(2)").unwrap();
        drop(second);
        // Reads only, and closes behind what was done before it.
        open().execute_batch("SELECT * FROM t").unwrap();
        open().execute_batch("INSERT INTO t VALUES(3); BEGIN; ROLLBACK").unwrap();
        let captured = listening.end().unwrap();
        let (script, _) = steps(&captured.done, 1, false).unwrap();
        assert_eq!((script.steps.len(), script.closes), (4, BTreeSet::from([1, 3, 4])));
        // Of what is prepared and done as one step none within it.
        let mut all = transactions((0..200).map(|table| format!("CREATE TABLE t{table}(a)")));
        for place in [10, 135, 136, 137, 199] {
            all[place].is_closed_behind = true;
        }
        let (script, _) = steps(&all, 200, false).unwrap();
        assert!(script.steps[0].contains("t136(a)") && !script.steps[0].contains("t137(a)"));
        assert_eq!(script.closes, BTreeSet::from([1, 2, 64]));
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
    }

    /// What happened: a statement of the application's that begins with a comment, as sqlc writes
    /// them, was taken for one of a trigger's, and was missing.
    #[test]
    fn a_comment_before_a_statement_makes_it_none_of_a_triggers() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let listening = Listening::begin(&place);
        let database = Connection::open(place.join("t.db")).unwrap();
        for sql in [
            "CREATE TABLE t(a)",
            "CREATE TABLE log(a)",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES(new.a); END",
            "-- name: AddOne\nINSERT INTO t VALUES(1)",
        ] {
            database.execute_batch(sql).unwrap();
        }
        drop(database);
        let done = listening.end().unwrap().done;
        let all: Vec<&[String]> = done.iter().map(|done| done.statements.as_slice()).collect();
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(all[3], ["-- name: AddOne\nINSERT INTO t VALUES(1)"]);
    }

    /// What happened: with `foreign_keys=true` the contents after each step were those of a
    /// database that minds no foreign keys. What a deleted row took with it was still there, so
    /// that the run "left other rows", or, where they were deleted later on, states between were
    /// "corrupt (!)".
    #[test]
    fn what_foreign_keys_take_is_gone_from_what_a_step_leaves() {
        let all = [
            "CREATE TABLE a(id INTEGER PRIMARY KEY)",
            "CREATE TABLE b(a REFERENCES a ON DELETE CASCADE)",
            "INSERT INTO a VALUES(1)",
            "INSERT INTO b VALUES(1)",
            "DELETE FROM a",
            "INSERT INTO a VALUES(2)",
            "DELETE FROM b",
        ];
        let all = transactions(all.into_iter().map(str::to_owned));
        for minds in [true, false] {
            let (script, content) = steps(&all, 2, minds).unwrap();
            assert_eq!(script.foreign_keys, minds);
            let acknowledged = AcknowledgedContents::of(&script).unwrap();
            assert!(acknowledged.ends_with(content.exact));
            let database = Connection::open_in_memory().unwrap();
            database.pragma_update(None, "foreign_keys", minds).unwrap();
            for (step, sql) in (1..).zip(&script.steps) {
                database.execute_batch(sql).unwrap();
                let judged = acknowledged.judge(content_of(&database).unwrap(), step);
                assert_eq!(judged, crate::verdict::Verdict::Kept, "{minds}, step {step}");
            }
            let text = serde_json::to_string(&script).unwrap();
            assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
        }
    }

    /// What happened: of an application that binds a real of more than 15 digits (a temperature, a
    /// place on earth) no power cut was tried: its SQL "asks for the time, for random numbers, or
    /// writes without SQL", for `sqlite3_expanded_sql` had rounded it.
    #[test]
    fn the_last_digits_of_reals_are_no_other_rows() {
        let of = |exact: u128, but_reals: u128| Content { exact, but_reals };
        let never = || -> Result<Content, CutError> { panic!("it was the same at once") };
        assert!(of(1, 2).is_left_by(of(1, 2), never).unwrap());
        assert!(of(1, 2).is_left_by(of(4, 2), || Ok(of(4, 2))).unwrap(), "rounded");
        assert!(!of(1, 2).is_left_by(of(4, 2), || Ok(of(5, 2))).unwrap(), "a clock");
        assert!(!of(1, 2).is_left_by(of(4, 3), || Ok(of(4, 3))).unwrap(), "other rows");
        let left = |value: &str| {
            let rows = ["CREATE TABLE t(a)".to_owned(), format!("INSERT INTO t VALUES({value})")];
            let (_, content) = steps(&transactions(rows.into_iter()), 1, false).unwrap();
            content
        };
        let (third, rounded) = (left("0.33333333333333331"), left("0.333333333333333"));
        assert!(third != rounded && third.is_left_by(rounded, || Ok(rounded)).unwrap());
    }

    fn transactions(sql: impl Iterator<Item = String>) -> Vec<Transaction> {
        let of = |sql| Transaction { end_ns: 0, statements: vec![sql], is_closed_behind: false };
        sql.map(of).collect()
    }

    /// What happened: tables and indexes were made one after the other, all as one step; a power
    /// cut just behind it took the last of them, as DELETE/FULL may, and rows of no commit were
    /// found: "corrupt (!)".
    #[test]
    fn the_last_commits_of_what_is_prepared_are_steps_of_their_own() {
        use crate::verdict::Verdict;
        let tables = (0..3).map(|table| format!("CREATE TABLE t{table}(a)"));
        let rows = (0..2).map(|row| format!("INSERT INTO t0 VALUES({row})"));
        let all = transactions(tables.chain(rows));
        let (script, _) = steps(&all, 3, false).unwrap();
        assert_eq!((script.steps.len(), script.prepared), (5, 3));
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(&script.steps[..2].concat()).unwrap();
        assert_eq!(acknowledged.judge(content_of(&database).unwrap(), 3), Verdict::Lost(1));
        // Of many the first are one step, which is made safe before the others.
        let many = (0..200).map(|table| format!("CREATE TABLE t{table}(a)"));
        let all = transactions(many.chain(["INSERT INTO t0 VALUES(1)".to_owned()]));
        let (script, _) = steps(&all, 200, false).unwrap();
        assert_eq!((script.steps.len(), script.prepared), (PREPARED_STEPS + 1, PREPARED_STEPS as u64));
        assert!(script.steps[0].contains("t136(a)") && !script.steps[0].contains("t137(a)"));
        assert!(script.steps[PREPARED_STEPS - 1].contains("t199(a)"));
        // A recording of before says nothing of it, and neither does one that prepares once.
        let plain = Script::of_steps(vec!["CREATE TABLE t(a)".into()]);
        let text = serde_json::to_string(&plain).unwrap();
        assert!(!text.contains("prepared"), "{text}");
        assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), plain);
    }
}
