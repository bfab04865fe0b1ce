//! A process that was forked with an open database and dropped its copy of it gave the lock back,
//! which belonged to both: a third process could open the database, and what the first one then
//! acknowledged was gone. One that went on committing was told that its commits were durable, and
//! wrote them into the other process's segments, over its frames.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Error, Options, Result, Schema, Table};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::Place;

fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

fn schema(name: &str) -> Schema {
    Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"])
}

/// Whether no other thread of this process works or waits for a disk: one that prepares a segment
/// does so with locks held, which nobody gives back in a process that is forked meanwhile.
fn others_sleep() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return true };
    let is_awake = |path: PathBuf| {
        // One that has ended holds nothing. A name may have any signs in it.
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('S'))
    };
    // This thread is.
    threads.filter(|thread| thread.as_ref().is_ok_and(|thread| is_awake(thread.path()))).count() <= 1
}

/// Runs `f` in a process that is forked from this one, which has other threads, too. How it ended:
/// 0 if `f` was true. A thread may have woken in the moment of the fork, and hold a lock: the
/// process that waits for it is killed, and there is another one.
fn forked(f: impl Fn() -> bool) -> i32 {
    let mut ended = 0;
    for _ in 0..3 {
        let began = Instant::now();
        while !others_sleep() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        ended = forked_once(&f);
        if ended != libc::SIGKILL {
            break;
        }
    }
    ended
}

fn forked_once(f: impl Fn() -> bool) -> i32 {
    // SAFETY: the child runs `f` and leaves at once. It may take locks that another thread holds at
    // this moment: then it is killed below.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        // SAFETY: ends this process without touching what it shares with the other.
        unsafe { libc::_exit(i32::from(!done.unwrap_or(false))) };
    }
    let began = Instant::now();
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if began.elapsed() > Duration::from_secs(60) {
            // SAFETY: the child was not waited for yet, so the number is its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    status
}

/// A database with one row, whose threads come to rest.
fn opened(name: &str) -> (Place, PathBuf, Database, Table) {
    let place = Place::new(name);
    let dir = place.join("db");
    let db = Database::open(&dir, options()).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    insert(&db, &t, 1).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    (place, dir, db, t)
}

fn insert(db: &Database, t: &Table, id: i64) -> Result<()> {
    db.run(|tx| tx.insert(t, &[id.into()]))
}

/// What is there at the next opening, after the copy in memory was lost as a kill loses it.
fn rows(dir: &Path) -> Vec<i64> {
    let db = Database::open(dir, options()).unwrap();
    let t = db.table("t").unwrap();
    let mut rows: Vec<i64> =
        db.begin().unwrap().scan(&t).unwrap().map(|row| row.unwrap().at(0).as_int().unwrap()).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn a_forked_process_that_drops_its_copy_leaves_lock_and_files_alone() {
    let (_place, dir, db, t) = opened("drop");
    let ended = forked(|| {
        // SAFETY: these are the child's copies, the only handles there, and it leaves without using
        // them again.
        drop(unsafe { (std::ptr::read(&raw const t), std::ptr::read(&raw const db)) });
        true
    });
    assert_eq!(ended, 0, "the child dropped its copy without a panic and without waiting for anybody");
    let refused = Database::open(&dir, options()).unwrap_err();
    assert!(matches!(&refused, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::WouldBlock));
    insert(&db, &t, 2).unwrap();
    drop((t, db));
    assert_eq!(rows(&dir), [1, 2]);
}

#[test]
fn a_forked_process_reads_and_makes_nothing_durable() {
    let (_place, dir, db, t) = opened("commit");
    let ended = forked(|| {
        let reads = || {
            let mut tx = db.begin().unwrap();
            tx.get(&t, &[1.into()]).unwrap().is_some() && tx.get(&t, &[50.into()]).unwrap().is_none()
        };
        let is_told = |refused: Result<()>| {
            let own = std::process::id();
            let Err(e) = refused else { return false };
            matches!(e, Error::Forked { process } if process != own) && e.to_string().contains("forked")
        };
        let read = reads();
        let all = [
            is_told(insert(&db, &t, 50)),
            is_told(db.run_with(mmdb::Durability::Lazy, |tx| tx.insert(&t, &[50.into()])).map(drop)),
            is_told(db.checkpoint().map(drop)),
            is_told(db.create_table(schema("u")).map(drop)),
            is_told(db.drop_table(&t).map(drop)),
            is_told(insert(&db, &t, 51)),
        ];
        read && all.iter().all(|refused| *refused) && reads() && db.run(|tx| tx.get(&t, &[1.into()])).is_ok()
    });
    assert_eq!(ended, 0, "the child read, learnt of each change that nothing was written, and read on");
    (2..9).for_each(|id| insert(&db, &t, id).unwrap());
    db.checkpoint().unwrap();
    insert(&db, &t, 9).unwrap();
    drop((t, db));
    assert_eq!(rows(&dir), (1..10).collect::<Vec<_>>());
}

/// Who polls or awaits waits for a thread that a forked process does not have. A commit of that
/// process itself had a number there, and an outcome that nobody knew: it is refused. Of one from
/// before the fork only the other process learns.
#[test]
fn a_forked_process_that_polls_or_waits_does_not_wait_for_good() {
    let place = Place::new("poll");
    let dir = place.join("db");
    let options = Options { lazy_interval: Duration::from_secs(3600), ..options() };
    let db = Database::open(&dir, options).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    insert(&db, &t, 1).unwrap();
    let lazy = db.run_with(mmdb::Durability::Lazy, |tx| tx.insert(&t, &[2.into()])).unwrap().1;
    std::thread::sleep(Duration::from_millis(100));
    let is_unknown = |e: Error| matches!(&e, Error::Indeterminate { cause, .. } if cause.contains("forked"));
    let ended = forked(|| {
        let waited = lazy.wait_durable().is_err_and(is_unknown);
        let mut tx = db.begin().unwrap();
        let read = tx.get(&t, &[2.into()]).unwrap().is_some();
        let polled = tx.commit().unwrap().poll().is_err_and(is_unknown);
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[50.into()]).unwrap();
        let refused = matches!(tx.commit(), Err(Error::Forked { .. }));
        waited && read && polled && refused
    });
    assert_eq!(ended, 0);
    lazy.wait_durable().unwrap();
    drop((t, db));
    assert_eq!(rows(&dir), [1, 2]);
}
