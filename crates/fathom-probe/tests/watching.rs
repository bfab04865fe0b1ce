//! Files that are watched: their extents are noted while they are there, their calls are kept, and
//! no lock is lost.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use fathom_probe::{FileClass, Note, Op, Probe, Watch, sqlite_api, take_watched, watch};
use rusqlite::{Connection, OpenFlags};

/// What is watched is the process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn open(path: &Path) -> Connection {
    // SAFETY: the functions of the one bundled library.
    unsafe { Probe::install(sqlite_api!(libsqlite3_sys).unwrap()) }.unwrap();
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), Probe::VFS_NAME).unwrap()
}

/// On a disk: a file in memory has no extents.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_journal_is_mapped_while_it_is_there_and_given_back_when_it_goes() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (mode, class, gone) in [
        ("delete", FileClass::RollbackJournal, true),
        ("truncate", FileClass::RollbackJournal, true),
        ("persist", FileClass::RollbackJournal, false),
        ("wal", FileClass::Wal, false),
    ] {
        let directory = directory();
        watch(Watch::Extents);
        let db = open(&directory.path().join("a.db"));
        db.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch(
            "PRAGMA synchronous = full; CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(9000));",
        )
        .unwrap();
        let watched = take_watched();
        if !watched.problems.is_empty() {
            println!("skipped: {:?}", watched.problems);
            return;
        }
        assert!(watched.calls.is_empty());
        let number_of = |class| watched.files.iter().position(|file| file.class == class).unwrap() as u32;
        let bytes = |number: u32| {
            watched.notes.iter().fold((0_u64, 0_u64), |(mapped, freed), note| match *note {
                Note::Mapped { file, length, .. } if file == number => (mapped + length, freed),
                Note::Freed { file, length, .. } if file == number => (mapped, freed + length),
                _ => (mapped, freed),
            })
        };
        let (mapped, freed) = bytes(number_of(class));
        assert!(mapped >= 4096, "{mode}: {watched:?}");
        assert_eq!(freed > 0, gone, "{mode}: {watched:?}");
        let (mapped, _) = bytes(number_of(FileClass::Database));
        // With a WAL all but the first page are in the log until a checkpoint.
        let pages = if mode == "wal" { 1 } else { 3 };
        assert!(mapped >= pages * 4096, "{mode}: the database's pages and the blob: {watched:?}");
    }
}

#[test]
fn every_call_is_kept_with_its_place() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let directory = directory();
    watch(Watch::Calls);
    let db = open(&directory.path().join("a.db"));
    db.execute_batch("PRAGMA page_size = 8192; CREATE TABLE t(a); INSERT INTO t VALUES (1);").unwrap();
    let watched = take_watched();
    assert!(watched.notes.is_empty());
    let writes: Vec<_> = watched
        .calls
        .iter()
        .filter(|call| call.op == Op::Write && watched.files[call.file as usize].class == FileClass::Database)
        .collect();
    assert!(
        !writes.is_empty() && writes.iter().all(|call| call.bytes == 8192 && call.offset % 8192 == 0),
        "{writes:?}"
    );
    assert!(watched.calls.iter().any(|call| call.op == Op::Sync));
    assert!(watched.calls.iter().all(|call| 0 < call.begin_ns && call.begin_ns <= call.end_ns));
    // Nothing is watched any more.
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert!(take_watched().calls.is_empty());
}

/// Closing any descriptor of a file drops the process's POSIX locks on it; the watch must not.
#[test]
fn locks_outlive_what_the_watch_opens() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if Command::new("sqlite3").arg("-version").output().is_err() {
        println!("skipped: no sqlite3 shell to be the other process (sudo apt-get install sqlite3)");
        return;
    }
    let directory = directory();
    let path = directory.path().join("a.db");
    watch(Watch::Extents);
    let first = open(&path);
    first.execute_batch("CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1);").unwrap();
    let second = open(&path);
    second.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    drop(second);
    let _ = take_watched();
    let other = Command::new("sqlite3").arg(&path).arg("BEGIN IMMEDIATE;").output().unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("locked"), "the other process got the lock: {said}");
    first.execute_batch("COMMIT").unwrap();
}
