//! SQLite behaves under the probe as it does without: same results, same files, in every mode.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use fathom_probe::{FileClass, Op, Probe, StatementClock, sqlite_api, thread_io};
use rusqlite::{Connection, OpenFlags};

fn install() -> Probe {
    // SAFETY: the functions of the one bundled library.
    unsafe { Probe::install(sqlite_api!(libsqlite3_sys).unwrap()) }.unwrap()
}

fn open(path: &Path, probed: bool) -> Connection {
    install();
    if probed {
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), Probe::VFS_NAME).unwrap()
    } else {
        Connection::open(path).unwrap()
    }
}

/// Makes tables, indexes, changes, rollbacks, a spill and a VACUUM, all without randomness or time.
fn work(db: &Connection) {
    db.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); CREATE INDEX i ON t(b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO t SELECT i, printf('%050d', i), i * 7919 % 3000 FROM n;
         UPDATE t SET b = b + 10 WHERE id % 3 = 0; DELETE FROM t WHERE id % 7 = 0;
         BEGIN; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; UPDATE t SET a = 'x' WHERE id < 10; COMMIT;
         BEGIN; DELETE FROM t; ROLLBACK; VACUUM;",
    )
    .unwrap();
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn every_mode_leaves_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    for journal in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        for locking in ["normal", "exclusive"] {
            for mmap in [0, 1 << 26] {
                let name = format!("{journal}-{locking}-{mmap}");
                let files = [false, true].map(|probed| {
                    let path = directory.path().join(format!("{name}-{probed}.db"));
                    let db = open(&path, probed);
                    db.execute_batch(&format!(
                        "PRAGMA cache_size=20; PRAGMA locking_mode={locking}; PRAGMA mmap_size={mmap};"
                    ))
                    .unwrap();
                    let mode: String = db
                        .query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| row.get(0))
                        .unwrap();
                    assert_eq!(mode, journal, "{name}");
                    if journal == "off" {
                        // ROLLBACK is undefined without a journal.
                        db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2); VACUUM").unwrap();
                    } else {
                        work(&db);
                    }
                    db.close().unwrap();
                    std::fs::read(&path).unwrap()
                });
                assert!(files[0] == files[1], "{name}: the files differ");
                let rest = |probed: &str| {
                    let mut names: Vec<String> = std::fs::read_dir(directory.path())
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                        .filter_map(|file| {
                            file.strip_prefix(&format!("{name}-{probed}.db")).map(str::to_owned)
                        })
                        .collect();
                    names.sort();
                    names
                };
                assert_eq!(rest("false"), rest("true"), "{name}: other files remain");
            }
        }
    }
}

#[test]
fn a_transaction_over_two_databases_uses_a_super_journal() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory.path().join("a.db"), true);
    let other = directory.path().join("b.db");
    db.execute("ATTACH ?1 AS other", [other.to_str().unwrap()]).unwrap();
    db.execute_batch("CREATE TABLE t(a); CREATE TABLE other.u(a)").unwrap();
    let before = thread_io();
    db.execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (2); COMMIT").unwrap();
    let io = thread_io().since(&before);
    for op in [Op::Open, Op::Write, Op::Sync, Op::Delete] {
        assert!(io.get(FileClass::SuperJournal, op).calls > 0, "{op:?}: {io:?}");
    }
    assert_eq!(io.get(FileClass::RollbackJournal, Op::Open).calls, 2);
    let rows: i64 = db
        .query_row("SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 2);
}

#[test]
fn each_class_of_file_is_counted_as_itself() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory.path().join("a.db"), true);
    db.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA temp_store=FILE; PRAGMA cache_size=10; PRAGMA mmap_size=67108864;
         CREATE TABLE t(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO t SELECT printf('%0200d', i * 7919 % 20000) FROM n;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap();
    let before = thread_io();
    db.execute_batch("CREATE TEMP TABLE s AS SELECT a FROM t ORDER BY a; INSERT INTO t VALUES (1)").unwrap();
    let io = thread_io().since(&before);
    assert!(io.get(FileClass::Temporary, Op::Write).bytes > 1_000_000, "{io:?}");
    assert!(io.get(FileClass::Wal, Op::Write).calls >= 2);
    assert!(io.get(FileClass::Wal, Op::Sync).calls >= 1);
    assert!(io.get(FileClass::WalIndex, Op::Shm).calls >= 2);
    assert!(io.get(FileClass::Database, Op::Fetch).bytes > 1_000_000);
}

#[test]
fn waiting_for_a_lock_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let holder = open(&path, true);
    holder.execute_batch("CREATE TABLE t(a); BEGIN IMMEDIATE").unwrap();
    let waiter = open(&path, true);
    waiter.busy_timeout(std::time::Duration::from_millis(30)).unwrap();
    let before = thread_io();
    let clock = StatementClock::start();
    waiter.execute_batch("INSERT INTO t VALUES (1)").unwrap_err();
    let split = clock.stop();
    let (number, ns) = thread_io().since(&before).lock_waits();
    assert!(number >= 3, "{number}");
    assert!(ns > 20_000_000 && split.other_ns >= ns && split.wall_ns > split.other_ns, "{ns} {split:?}");
}

/// What the helper processes of the next test run: this test binary, told so by the environment.
#[test]
fn helper_process() {
    let Ok(path) = std::env::var("FATHOM_PROBE_TEST_DB") else { return };
    let db = open(Path::new(&path), std::env::var("FATHOM_PROBE_TEST_PROBED").unwrap() == "1");
    // Each of three waits for 400 commits of the others at most, and a busy disk takes its time.
    db.busy_timeout(std::time::Duration::from_secs(600)).unwrap();
    for _ in 0..200 {
        db.execute_batch("BEGIN IMMEDIATE; UPDATE n SET n = n + 1; COMMIT").unwrap();
    }
}

#[test]
fn processes_with_and_without_the_probe_share_a_wal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = open(&path, true);
    db.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=20; CREATE TABLE n(n); INSERT INTO n VALUES (0)",
    )
    .unwrap();
    let children: Vec<_> = ["0", "1", "1"]
        .iter()
        .map(|probed| {
            Command::new(std::env::current_exe().unwrap())
                .args(["helper_process", "--exact"])
                .env("FATHOM_PROBE_TEST_DB", &path)
                .env("FATHOM_PROBE_TEST_PROBED", probed)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let n: i64 = db.query_row("SELECT n FROM n", [], |row| row.get(0)).unwrap();
    assert_eq!(n, 600, "updates were lost");
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn the_table_shows_the_sums_and_an_update_resets_them() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory.path().join("a.db"), true);
    // SAFETY: an open connection of the bundled library.
    unsafe { install().add_table(db.handle().cast()) }.unwrap();
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    let super_journals = "SELECT count(*) FROM fathom_io WHERE class = 'database' AND op = 'truncate'";
    let sum = "SELECT ns >= 0 AND p50_ns <= p99_ns AND calls >= 2 FROM fathom_io WHERE class = 'database' AND op = 'sync'";
    assert!(db.query_row(sum, [], |row| row.get::<_, bool>(0)).unwrap());
    db.execute_batch("UPDATE fathom_io SET calls = 0 WHERE op = 'truncate'").unwrap();
    assert_eq!(db.query_row(super_journals, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let error = db.execute_batch("DELETE FROM fathom_io").unwrap_err().to_string();
    assert!(error.contains("UPDATE fathom_io SET calls = 0"), "{error}");
}
