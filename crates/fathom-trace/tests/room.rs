//! What SQL of others leaves free of a disk. A program of its own: what is kept free is the whole
//! process's.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::PathBuf;

use fathom_trace::confine::ConfinedConnection;
use fathom_trace::room;

/// Where SQLite may put temporary files (`unixTempFileDir` in its `os_unix.c`).
fn temporary() -> Vec<PathBuf> {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    named.chain(["/var/tmp", "/usr/tmp", "/tmp"].map(PathBuf::from)).collect()
}

/// What happened: a script of 200 bytes (a recursive query that inserts, `zeroblob` in a loop, a
/// sorter's temporary file) filled the disk of TMPDIR until nothing on the machine could write
/// there.
#[test]
fn sql_of_others_leaves_room_on_the_disk() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.db");
    let confined = ConfinedConnection::open(&path).unwrap();
    confined
        .execute_batch(
            "PRAGMA temp_store = FILE; PRAGMA cache_size = 10; CREATE TABLE t(a); \
             INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 20000) SELECT x FROM c",
        )
        .unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let in_wal = place.path().join("w.db");
    let made = rusqlite::Connection::open(&in_wal).unwrap();
    made.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    made.close().unwrap();
    assert_eq!(room::take_refusal(), None, "there is room");

    // As if the disk were full but for what is to stay free.
    room::keep_bytes(place.path(), u64::MAX);
    for sql in [
        "INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT zeroblob(100000) FROM c",
        "INSERT INTO t VALUES (zeroblob(100000000))",
        "UPDATE t SET a = zeroblob(10000)",
        "VACUUM",
    ] {
        let refused = confined.execute_batch(sql).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{sql}: {refused}");
        let told = room::take_refusal().unwrap();
        assert!(told.contains("SQL of others leaves the last"), "{told}");
        assert!(confined.is_autocommit(), "{sql} was rolled back");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), before, "{sql}");
    }
    // What happened: who only read a database in WAL mode had "disk I/O error", for SQLite could
    // not give its index (-shm) a length.
    let confined_wal = ConfinedConnection::open(&in_wal).unwrap();
    let rows: i64 = confined_wal.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
    let refused = confined_wal.execute_batch("INSERT INTO t VALUES (zeroblob(1000000))").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{refused}");
    assert!(room::take_refusal().is_some());
    drop(confined_wal);
    let temporary = temporary();
    temporary.iter().for_each(|directory| room::keep_bytes(directory, u64::MAX));
    let sorted = "CREATE TEMP TABLE s AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000) \
                  SELECT randomblob(1000) AS r FROM c ORDER BY r";
    let refused = confined.execute_batch(sorted).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{refused}");
    let rows: i64 = confined.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 20_000, "what was there is there");

    room::keep_bytes(place.path(), 0);
    temporary.iter().for_each(|directory| room::keep_bytes(directory, 0));
    confined.execute_batch("INSERT INTO t VALUES (zeroblob(1000000))").unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() > before, "there is room again");
}
