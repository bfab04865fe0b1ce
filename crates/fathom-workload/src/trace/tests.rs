//! Traces done again: counts checked, settings overridden, order kept, and what is told when it
//! cannot be.

use std::path::{Path, PathBuf};

use fathom_trace::model::{Foreign, ForeignKind, Origin, Outcome, Start, Value};
use fathom_trace::{Assembler, Execution, Writer};
use serde_json::json;

use super::*;
use crate::spec::WorkloadSpec;
use crate::testing::{KeepingSink, map, sqlite};

/// A trace of one connection.
fn trace(directory: &Path, start: Start, make: impl FnOnce(&mut Assembler, u32)) -> PathBuf {
    let path = directory.join("a.trace");
    let mut assembler =
        Assembler::new(Writer::create(&path).expect("created"), Origin::default()).expect("begun");
    let thread = assembler.thread(1, 1, "test").expect("thread");
    let database = assembler.database(b"/a.db", start, None).expect("database");
    let connection = assembler.open(thread, database, 0).expect("opened");
    make(&mut assembler, connection);
    assembler.close(connection, 9_000_000).expect("closed");
    assembler.finish().expect("finished");
    path
}

fn execute(assembler: &mut Assembler, connection: u32, sql: &str, values: &[Value], counts: (u64, u64)) {
    let execution =
        Execution { sql, values, start_ns: 1_000_000, duration_ns: 10, keep: true, counts: Some(counts) };
    assembler.execute(connection, &execution).expect("written");
}

pub(super) fn replay(
    trace: &Path,
    settings: serde_json::Value,
    params: serde_json::Value,
) -> (Result<(), WorkloadError>, KeepingSink, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = sqlite(settings, directory.path());
    let mut params = map(params);
    params.insert("file".into(), json!(trace.to_str().expect("text")));
    let workload = crate::create(&WorkloadSpec { name: "trace".into(), params }).expect("made");
    let mut kept = KeepingSink::default();
    let context = Context { directory: directory.path(), engine: Some(&*engine), seed: 1 };
    let outcome = workload.run(&context, &mut kept);
    (outcome, kept, directory)
}

fn ask(directory: &Path, settings: serde_json::Value, sql: &str) -> String {
    let engine = sqlite(settings, directory);
    let mut connection = engine.connect("trace-0").expect("opens");
    let statement = connection.prepare(sql).expect("prepares");
    let mut answer = String::new();
    connection.query(statement, &[], &mut |row| answer = format!("{:?}", row[0])).expect("answers");
    answer
}

#[test]
fn calls_are_done_again_and_their_counts_are_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        let mut run = |sql, values: &[Value], counts| execute(assembler, connection, sql, values, counts);
        run("PRAGMA journal_mode = WAL", &[], (1, 0));
        run("CREATE TABLE t(a, b)", &[], (0, 0));
        run("BEGIN", &[], (0, 0));
        for number in 0..5 {
            run("INSERT INTO t VALUES (?, ?)", &[Value::Integer(number), Value::Text(b"x".to_vec())], (0, 1));
        }
        run("COMMIT", &[], (0, 0));
        run("SELECT * FROM t WHERE a < ?", &[Value::Integer(3)], (3, 0));
        run("UPDATE t SET b = ?", &[Value::Blob(vec![1, 2])], (0, 5));
    });
    for journal_mode in ["delete", "wal"] {
        let settings = json!({"journal_mode": journal_mode, "page_size": 8192});
        let (outcome, kept, place) = replay(&path, settings.clone(), json!({}));
        outcome.expect("replayed");
        assert!(kept.verified.iter().any(|check| check.starts_with("10 executions")), "{:?}", kept.verified);
        assert!(
            kept.warnings.iter().any(|warning| warning.contains("1 PRAGMAs of what the cell sets")),
            "{:?}",
            kept.warnings
        );
        // CREATE, the transaction, SELECT, UPDATE.
        assert_eq!(kept.outline(), [("replay", None, 4)]);
        assert_eq!(
            ask(place.path(), settings.clone(), "SELECT count(*) || typeof(min(b)) FROM t"),
            "Text(\"5blob\")"
        );
        assert_eq!(ask(place.path(), settings, "PRAGMA page_size"), "Integer(8192)");
    }
}

/// What happened: SQLCipher answers `PRAGMA key` with a row since its fourth version, and SQLite,
/// which has no such PRAGMA, with none: no trace of such an application was replayed.
#[test]
fn pragmas_of_encryption_are_left_out_where_the_cell_has_none() {
    let place = tempfile::tempdir().expect("a directory");
    let path = trace(place.path(), Start::Empty, |assembler, connection| {
        for sql in ["PRAGMA key = '(left out)'", "PRAGMA cipher_version", "PRAGMA main.kdf_iter = 4000"] {
            execute(assembler, connection, sql, &[], (1, 0));
        }
        execute(assembler, connection, "CREATE TABLE t(a)", &[], (0, 0));
    });
    let (outcome, kept, _directory) = replay(&path, json!({}), json!({}));
    outcome.expect("replayed");
    let told = |warning: &String| warning.contains("left out: 3 PRAGMAs of encryption");
    assert!(kept.warnings.iter().any(told), "{:?}", kept.warnings);
}

/// What happened: a PRAGMA whose answer was read to its end, which takes two calls, was counted as
/// two that were left out.
#[test]
fn a_pragma_of_several_calls_is_left_out_once() {
    use fathom_trace::model::{Action, DONE, Step};
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        execute(assembler, connection, "PRAGMA journal_mode = WAL", &[], (1, 0));
        let (in_transaction, outcome) = (false, Outcome::of(DONE));
        let step =
            Step { handle: 0, begins: false, is_counted: true, rows: 0, changes: 0, in_transaction, outcome };
        assembler.event(connection, 1_000_020, 10, Action::Step(step)).expect("written");
        execute(assembler, connection, "CREATE TABLE t(a)", &[], (0, 0));
    });
    let (outcome, kept, _place) = replay(&path, json!({"journal_mode": "delete"}), json!({}));
    outcome.expect("replayed");
    let is_told = |words: &str| kept.warnings.iter().any(|warning| warning.contains(words));
    assert!(is_told("left out: 1 PRAGMAs of what the cell sets"), "{:?}", kept.warnings);
}

/// What happened: a statement whose first row was enough, as one for a single value is stepped, was
/// one execution with whatever its thread did next: fewer executions, and longer ones.
#[test]
fn a_statement_that_is_reset_at_a_row_ends_there() {
    use fathom_trace::model::ROW;
    let directory = tempfile::tempdir().expect("a directory");
    for (keep, in_transaction, executions) in [(true, false, 7), (false, false, 7), (true, true, 5)] {
        let path = trace(directory.path(), Start::Empty, |assembler, connection| {
            let mut run = |sql, counts| execute(assembler, connection, sql, &[], counts);
            run("CREATE TABLE t(a)", (0, 0));
            run("INSERT INTO t VALUES (1), (2)", (0, 2));
            if in_transaction {
                run("BEGIN", (0, 0));
            }
            for number in 0..4 {
                let values = &[Value::Integer(number)];
                let start_ns = 1_000_000;
                let (sql, counts) = ("SELECT a FROM t WHERE a > ? - 10", Some((1, 0)));
                let looked = Execution { sql, values, start_ns, duration_ns: 10, keep, counts };
                let outcome = Outcome::of(ROW);
                assembler.execute_as(connection, &looked, in_transaction, outcome).expect("written");
            }
            let mut run = |sql, counts| execute(assembler, connection, sql, &[], counts);
            if in_transaction {
                run("COMMIT", (0, 0));
                run("DELETE FROM t WHERE a = 7", (0, 0));
            }
            run("UPDATE t SET a = 3", (0, 2));
        });
        let (outcome, kept, _place) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
        outcome.expect("replayed");
        assert_eq!(kept.outline(), [("replay", None, executions)], "{keep} {in_transaction}");
    }
}

/// What happened: a statement that the application's full disk refused, or its commit hook, was
/// expected to fail alike, and the replay ended there.
#[test]
fn what_the_applications_machine_refused_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        let run = |assembler: &mut Assembler, sql, counts| execute(assembler, connection, sql, &[], counts);
        let refused = |assembler: &mut Assembler, sql, code| {
            let (start_ns, duration_ns, counts) = (1_000_000, 10, Some((0, 0)));
            let execution = Execution { sql, values: &[], start_ns, duration_ns, keep: false, counts };
            assembler.execute_as(connection, &execution, false, Outcome::of(code)).expect("written");
        };
        run(assembler, "CREATE TABLE t(a)", (0, 0));
        // Each has rolled its transaction back.
        run(assembler, "BEGIN", (0, 0));
        run(assembler, "INSERT INTO t VALUES (1)", (0, 1));
        refused(assembler, "INSERT INTO t VALUES (2)", 13);
        run(assembler, "BEGIN", (0, 0));
        run(assembler, "INSERT INTO t VALUES (3)", (0, 1));
        refused(assembler, "COMMIT", 531);
        run(assembler, "INSERT INTO t VALUES (4)", (0, 1));
        refused(assembler, "INSERT INTO t VALUES (5)", 778);
        run(assembler, "SELECT a FROM t", (1, 0));
    });
    let (outcome, kept, _place) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
    outcome.expect("replayed");
    for words in
        ["left out: 2 calls that failed for want of room", "left out: 1 calls that the application's own"]
    {
        assert!(kept.warnings.iter().any(|warning| warning.starts_with(words)), "{:?}", kept.warnings);
    }
}

/// What happened: that an application had turned its triggers off by `sqlite3_db_config` was
/// recorded and not done again. The replay's triggers changed rows that the application's had not,
/// which no count of a statement tells, and nothing was said.
#[test]
fn what_statements_mean_is_set_as_the_application_did() {
    use fathom_trace::model::{Action, Setting};
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        let run = |assembler: &mut Assembler, sql, counts| execute(assembler, connection, sql, &[], counts);
        let set = |assembler: &mut Assembler, option, value| {
            let action = Action::Setting { setting: Setting::DbConfig(option), value };
            assembler.event(connection, 0, 0, action).expect("written");
        };
        run(assembler, "CREATE TABLE t(a)", (0, 0));
        run(assembler, "CREATE TABLE log(a)", (0, 0));
        run(assembler, "CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END", (0, 0));
        run(assembler, "INSERT INTO t VALUES (1)", (0, 1));
        set(assembler, 1003, 0);
        run(assembler, "INSERT INTO t VALUES (1)", (0, 1));
        set(assembler, 1003, 1);
        // Not done again, and told.
        set(assembler, 1009, 1);
        set(assembler, 1009, 0);
    });
    let settings = json!({"journal_mode": "memory"});
    let (outcome, kept, place) = replay(&path, settings.clone(), json!({}));
    outcome.expect("replayed");
    let told = |warning: &String| warning.starts_with("left out: 1 calls of sqlite3_db_config");
    assert!(kept.warnings.iter().any(told), "{:?}", kept.warnings);
    let counts = "SELECT (SELECT count(*) FROM t) * 10 + (SELECT count(*) FROM log)";
    assert_eq!(ask(place.path(), settings, counts), "Integer(21)");
}

#[test]
fn other_counts_and_new_errors_fail_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    for (sql, counts, words) in [
        ("INSERT INTO t VALUES (1), (2)", (0, 1), "returned 0 rows and changed 2; captured were 0 and 1"),
        ("SELECT 1", (2, 0), "returned 1 rows and changed 0; captured were 2 and 0"),
        ("SELECT * FROM missing", (0, 0), "no such table: missing"),
        (
            "SELECT own(1)",
            (1, 0),
            "the application brought its own function own, which a replay does not have",
        ),
        ("SELECT 1 ORDER BY 1 COLLATE LOCALIZED", (1, 0), "no such collation sequence: LOCALIZED"),
        ("INSERT INTO t(a) VALUES ('a' + x'00' , 1)", (0, 1), "2 values for 1 columns"),
        ("CREATE TABLE t(a)", (0, 0), "already exists"),
    ] {
        let path = trace(directory.path(), Start::Empty, |assembler, connection| {
            let foreign = Foreign { kind: ForeignKind::Function, name: "own".into() };
            assembler
                .event(connection, 0, 0, fathom_trace::model::Action::Foreign(foreign))
                .expect("written");
            execute(assembler, connection, "CREATE TABLE t(a)", &[], (0, 0));
            execute(assembler, connection, sql, &[], counts);
        });
        let (outcome, ..) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
        let error = outcome.expect_err(sql).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[test]
fn what_is_not_known_cannot_be_replayed() {
    let directory = tempfile::tempdir().expect("a directory");
    let reason = "SQLite said 26 (file is not a database): it is encrypted, or no database".to_owned();
    let path = trace(directory.path(), Start::Unknown { reason }, |_, _| {});
    let (outcome, ..) = replay(&path, json!({}), json!({}));
    let error = outcome.expect_err("unknown").to_string();
    assert!(error.contains("/a.db") && error.contains("it is encrypted"), "{error}");
    std::fs::write(&path, b"no trace").expect("written");
    let params = map(json!({ "file": path.to_str().expect("text") }));
    let refused = crate::create(&WorkloadSpec { name: "trace".into(), params }).err();
    assert!(refused.expect("no trace").to_string().contains("not a Fathom trace"));
}

#[test]
fn captured_times_are_kept_and_lateness_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        for number in 0..5_u64 {
            let sql = format!("SELECT {number}");
            let start_ns = number * 20_000_000;
            let execution = Execution {
                sql: &sql,
                values: &[],
                start_ns,
                duration_ns: 10,
                keep: false,
                counts: Some((1, 0)),
            };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    for (speed, least_ms) in [(1.0, 80), (4.0, 20)] {
        let begin = std::time::Instant::now();
        let (outcome, kept, _) =
            replay(&path, json!({"journal_mode": "memory"}), json!({"timing": "original", "speed": speed}));
        outcome.expect("replayed");
        assert!(begin.elapsed().as_millis() >= least_ms, "the pauses are kept");
        assert!(kept.warnings.iter().any(|warning| warning.starts_with("lateness")), "{:?}", kept.warnings);
        assert_eq!(kept.outline(), [("replay", None, 5)]);
    }
}

/// The second call was captured 1 ms after the first, which now takes far longer.
#[test]
fn a_call_that_cannot_begin_when_it_is_due_is_told_to_be_late() {
    let directory = tempfile::tempdir().expect("a directory");
    let long = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200000) SELECT max(x) FROM c";
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        for (sql, start_ns) in [(long, 0), ("SELECT 1", 1_000_000)] {
            let (counts, duration_ns) = (Some((1, 0)), 10);
            let execution = Execution { sql, values: &[], start_ns, duration_ns, keep: false, counts };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let (outcome, kept, _) = replay(&path, json!({}), json!({"timing": "original"}));
    outcome.expect("replayed");
    let told = kept.warnings.iter().find_map(|warning| warning.split_once("at most ")).expect("told").1;
    let most_ms: f64 = told.trim_end_matches(" ms").parse().expect("a number");
    let first_ms = kept.samples[0].split.wall_ns as f64 / 1e6;
    assert!(first_ms > 3.0 && most_ms > first_ms - 1.5, "{first_ms} ms, then {most_ms} ms late");
}

/// Two connections that took turns: each reads what the other one had written.
#[test]
fn threads_keep_the_order_in_which_their_calls_depended_on_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let mut assembler =
        Assembler::new(Writer::create(&path).expect("created"), Origin::default()).expect("begun");
    let database = assembler.database(b"/a.db", Start::Empty, None).expect("database");
    let connections: Vec<u32> = (0..3)
        .map(|number| {
            let thread = assembler.thread(1, number, "test").expect("thread");
            assembler.open(thread, database, 0).expect("opened")
        })
        .collect();
    let mut at = 1000;
    let mut run = |connection: usize, sql: &str, counts| {
        let execution =
            Execution { sql, values: &[], start_ns: at, duration_ns: 10, keep: false, counts: Some(counts) };
        at += 20;
        assembler.execute(connections[connection], &execution).expect("written");
    };
    run(0, "CREATE TABLE t(a)", (0, 0));
    for round in 0..60_u64 {
        run(round as usize % 3, "INSERT INTO t VALUES (1)", (0, 1));
        run((round as usize + 1) % 3, "SELECT * FROM t", (round + 1, 0));
    }
    for connection in connections {
        assembler.close(connection, at).expect("closed");
    }
    assembler.finish().expect("finished");
    for _ in 0..3 {
        let (outcome, kept, place) =
            replay(&path, json!({"journal_mode": "wal", "synchronous": "off"}), json!({}));
        outcome.expect("replayed");
        assert_eq!(
            kept.samples.iter().map(|sample| sample.thread).collect::<std::collections::HashSet<_>>().len(),
            3
        );
        assert_eq!(
            ask(place.path(), json!({"journal_mode": "wal"}), "SELECT count(*) FROM t"),
            "Integer(60)"
        );
    }
}

/// What happened: of an application with two connections and `locking_mode=exclusive` it was said
/// that there is no such table: the thread that makes it waited for the lock, and the other one,
/// which failed first, was told alone.
#[test]
fn what_comes_of_a_lock_that_is_kept_is_told_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = sqlite(json!({"locking_mode": "exclusive"}), directory.path());
    let engine_error = |code, message: &str| {
        WorkloadError::Engine(crate::engine::EngineError {
            subject: "`SELECT a FROM t`".into(),
            message: message.into(),
            code,
        })
    };
    let told = lane::with_lock(engine_error(1, "no such table: t"), &*engine).to_string();
    assert!(told.contains("no such table: t") && told.contains("another one cannot use it"), "{told}");
    let told = lane::with_lock(wrong("1 rows; captured were 3".into()), &*engine).to_string();
    assert!(told.contains("locking_mode=exclusive"), "{told}");
    let locked = engine_error(5, "database is locked");
    assert!(lane::is_locked(&locked) && !lane::is_locked(&engine_error(1, "no such table: t")));
    let told = lane::with_lock(locked, &*engine).to_string();
    assert!(!told.contains("locking_mode"), "{told}");
    let normal = tempfile::tempdir().expect("a directory");
    let engine = sqlite(json!({}), normal.path());
    let told = lane::with_lock(engine_error(1, "no such table: t"), &*engine).to_string();
    assert!(!told.contains("locking_mode"), "{told}");
}

/// What happened: a statement of a log that fails, as it may have in the application, was said to
/// have been captured with another result, of which a log tells nothing.
#[test]
fn a_failure_of_which_the_trace_tells_nothing_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        for sql in ["CREATE TABLE t(a PRIMARY KEY)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)"] {
            let execution =
                Execution { sql, values: &[], start_ns: 0, duration_ns: 0, keep: false, counts: None };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let (outcome, ..) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
    let error = outcome.expect_err("it fails").to_string();
    assert!(error.contains("UNIQUE constraint failed: t.a"), "{error}");
    assert!(error.contains("does not tell what came of it") && !error.contains("captured"), "{error}");
}

/// What happened: a write that failed because the application had opened the database read-only was
/// done by the replay, whose connections may write, and so the replay failed.
#[test]
fn a_write_to_what_was_read_only_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = trace(directory.path(), Start::Empty, |assembler, connection| {
        execute(assembler, connection, "CREATE TABLE t(a)", &[], (0, 0));
        let sql = "INSERT INTO t VALUES (1)";
        let execution =
            Execution { sql, values: &[], start_ns: 0, duration_ns: 0, keep: false, counts: Some((0, 0)) };
        let outcome = Outcome { code: 8, message: "attempt to write a readonly database".into() };
        assembler.execute_as(connection, &execution, false, outcome).expect("written");
        execute(assembler, connection, "SELECT a FROM t", &[], (0, 0));
    });
    let (outcome, kept, _place) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
    outcome.expect("replayed");
    assert!(kept.warnings.iter().any(|warning| warning.contains("left out: 1 executions that would")));
}

#[test]
fn a_failure_that_was_captured_must_come_again() {
    use fathom_trace::model::{Action, Step};
    let directory = tempfile::tempdir().expect("a directory");
    for (again, words) in [
        ("INSERT INTO t VALUES (1)", None),
        ("SELECT a FROM t", Some("result 101, captured was 1555 (UNIQUE constraint failed: t.a)")),
    ] {
        let path = trace(directory.path(), Start::Empty, |assembler, connection| {
            execute(assembler, connection, "CREATE TABLE t(a PRIMARY KEY)", &[], (0, 0));
            let counts = if words.is_none() { (0, 1) } else { (0, 0) };
            execute(assembler, connection, again, &[], counts);
            // The same statement, which is still prepared, once more.
            let outcome = Outcome { code: 1555, message: "UNIQUE constraint failed: t.a".into() };
            let step = Step {
                handle: 1,
                begins: true,
                is_counted: true,
                rows: 0,
                changes: 0,
                in_transaction: false,
                outcome,
            };
            assembler.event(connection, 2_000_000, 1, Action::Step(step)).expect("written");
        });
        let (outcome, ..) = replay(&path, json!({"journal_mode": "memory"}), json!({}));
        match words {
            None => outcome.expect("the failure came again"),
            Some(words) => {
                let error = outcome.expect_err("no failure").to_string();
                assert!(error.contains(words), "{error}");
            }
        }
    }
}

fn replay_made(
    params: serde_json::Value,
    seed: u64,
    settings: serde_json::Value,
) -> (Result<(), WorkloadError>, KeepingSink) {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = sqlite(settings, directory.path());
    let workload = crate::create(&WorkloadSpec { name: "trace".into(), params: map(params) }).expect("made");
    let mut kept = KeepingSink::default();
    let context = Context { directory: directory.path(), engine: Some(&*engine), seed };
    (workload.run(&context, &mut kept), kept)
}

#[test]
fn every_profile_is_replayed_without_a_mismatch() {
    for name in fathom_trace::synthesise::NAMES {
        for (journal_mode, page_size, seed) in
            [("delete", 4096, 1), ("wal", 1024, 2), ("memory", 8192, u64::MAX)]
        {
            let settings =
                json!({"journal_mode": journal_mode, "page_size": page_size, "synchronous": "off"});
            let (outcome, kept) = replay_made(json!({"profile": name, "scale": 12}), seed, settings);
            outcome.unwrap_or_else(|error| panic!("{name} {journal_mode}: {error}"));
            assert!(
                kept.verified[0].contains("executions returned and changed the rows"),
                "{:?}",
                kept.verified
            );
            assert!(
                kept.warnings
                    .iter()
                    .any(|warning| warning.contains(&format!("{name}/"))
                        && warning.contains("never published")),
                "{:?}",
                kept.warnings
            );
            assert!(!kept.warnings.iter().any(|warning| warning.contains("left out")), "{:?}", kept.warnings);
        }
    }
}

#[test]
fn a_made_up_trace_can_be_a_file_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let profile = fathom_trace::synthesise::profile("kakaotalk").expect("known");
    fathom_trace::synthesise::synthesise(profile, 5, 5, &path).expect("made");
    let (outcome, kept, _place) = replay(&path, json!({"journal_mode": "wal"}), json!({}));
    outcome.expect("replayed");
    assert!(
        kept.warnings.iter().any(|warning| warning.starts_with("the trace kakaotalk/1 is made up")),
        "{:?}",
        kept.warnings
    );
}

/// What happened: a run said of its trace only the path, by which another may lie later, and then
/// its length, which another may have as well.
#[test]
fn a_run_says_which_trace_it_was() {
    let place = tempfile::tempdir().expect("a directory");
    let path = trace(place.path(), Start::Empty, |_, _| ());
    let bytes = std::fs::metadata(&path).expect("there").len();
    let params = map(json!({"file": path.to_str().expect("text")}));
    let workload = crate::create(&WorkloadSpec { name: "trace".into(), params }).expect("made");
    assert_eq!(workload.parameters()["file_bytes"], json!(bytes));
    let hash = || workload.parameters()["file_sha3_256"].clone();
    let first = hash();
    assert_eq!(first.as_str().map(str::len), Some(64));
    // Another one of the same length, at the same place.
    let mut other = std::fs::read(&path).expect("there");
    *other.last_mut().expect("not empty") ^= 1;
    std::fs::write(&path, other).expect("written");
    assert_eq!(workload.parameters()["file_bytes"], json!(bytes));
    assert_ne!(hash(), first);
    let params = map(json!({"profile": "gmail"}));
    let workload = crate::create(&WorkloadSpec { name: "trace".into(), params }).expect("made");
    let told = workload.parameters();
    assert!(!told.contains_key("file_bytes") && !told.contains_key("file_sha3_256"), "{told:?}");
}

#[test]
fn what_does_not_go_together_is_refused_before_any_run() {
    for (params, words) in [
        (json!({}), "which trace?"),
        (json!({"file": "a", "profile": "gmail"}), "give one of the two"),
        (json!({"file": "a", "scale": 10}), "a file has the size that it has"),
        (json!({"profile": "gmial"}), "did you mean"),
        (json!({"profile": "gmail", "scale": 0}), "from 1 to 10000"),
    ] {
        let made = crate::create(&WorkloadSpec { name: "trace".into(), params: map(params) });
        let error = made.map(|_| ()).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Values written into the statements, as in a log or script: no text occurs twice, and none may be
/// kept.
#[test]
fn a_trace_longer_than_what_is_read_ahead_takes_no_more_memory_than_that() {
    const AHEAD_BYTES: usize = 64 << 10;
    let directory = tempfile::tempdir().expect("a directory");
    for connections in [1_u32, 3] {
        let path = directory.path().join("a.trace");
        let mut assembler =
            Assembler::new(Writer::create(&path).expect("created"), Origin::default()).expect("begun");
        let database = assembler.database(b"/a.db", Start::Empty, None).expect("database");
        let opened: Vec<u32> = (0..connections)
            .map(|number| {
                let thread = assembler.thread(1, number, "test").expect("thread");
                assembler.open(thread, database, 0).expect("opened")
            })
            .collect();
        let (mut at, mut bytes) = (1000, 0);
        for number in 0..20_000_u64 {
            let sql = match number {
                0 => "CREATE TABLE t(a)".to_owned(),
                _ => format!("INSERT INTO t VALUES ({number}) -- {}", "x".repeat(50)),
            };
            bytes += sql.len();
            // One connection alone for long, so that the others' next calls are far away.
            let connection = opened[if number < 10_000 { 0 } else { number as usize % opened.len() }];
            let counts = Some((0, u64::from(number > 0)));
            let (values, start_ns) = (&[], at);
            let execution = Execution { sql: &sql, values, start_ns, duration_ns: 10, keep: false, counts };
            assembler.execute(connection, &execution).expect("written");
            at += 20;
        }
        for connection in opened {
            assembler.close(connection, at).expect("closed");
        }
        assembler.finish().expect("finished");

        let place = tempfile::tempdir().expect("a directory");
        let engine = sqlite(json!({"journal_mode": "memory", "synchronous": "off"}), place.path());
        let plan = plan::plan(&path, &*engine, place.path()).expect("read");
        assert_eq!(plan.lanes.len(), connections as usize);
        let params = map(json!({"file": "a"}));
        let params = Params::read(PARAMETERS, &params).expect("known");
        let mut kept = KeepingSink::default();
        let (report, most_ahead) =
            Trace { params }.replay(&*engine, plan, AHEAD_BYTES, &mut kept).expect("replayed");
        assert_eq!(report.checked, 20_000);
        assert_eq!(ask(place.path(), json!({}), "SELECT count(*) FROM t"), "Integer(19999)");
        // What is handed over together comes on top.
        let limit = AHEAD_BYTES + feed::BATCH_BYTES + 4096;
        assert!(
            bytes > 2 * limit && most_ahead > AHEAD_BYTES && most_ahead < limit,
            "{most_ahead} of {bytes}"
        );
    }
}

#[test]
fn texts_are_forgotten_after_their_last_preparation() {
    use fathom_trace::model::{Action, Event, Statement};
    use fathom_trace::reuse::PreparationCounts;
    use translate::{Reading, Translator};
    let directory = tempfile::tempdir().expect("a directory");
    let engine = sqlite(json!({}), directory.path());
    let mut reading = Reading::First(PreparationCounts::default());
    for round in 0..2 {
        let mut translator = Translator::new(&*engine, reading);
        let event = |action| Event { thread: 0, connection: 0, start_ns: 0, duration_ns: 0, action };
        let outcome = Outcome::of(0);
        translator.event(event(Action::Open { database: 0, flags: 0, vfs: String::new(), outcome }));
        let mut prepared = 0;
        for id in 0..1000 {
            translator.statement(Statement { id, sql: format!("SELECT {id}") });
            // The very first is prepared again and again, and its handle is never given back.
            for (handle, statement) in [(0, 0), (id + 1, id)] {
                let outcome = Outcome::of(0);
                let made = translator.event(event(Action::Prepare { handle, statement, outcome }));
                prepared += u32::from(made.is_some());
            }
            translator.event(event(Action::Finalize { handle: id + 1 }));
        }
        assert_eq!(prepared, 2000);
        assert!(translator.texts() <= 1, "{} in round {round}", translator.texts());
        reading = translator.into_second();
    }
}
