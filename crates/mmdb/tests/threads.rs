//! Opening where a thread is refused.
//!
//! What happened: with a limit on threads (RLIMIT_NPROC, TasksMax) near, opening panicked where
//! recovery wanted more of them, and where one of the background threads was refused it returned an
//! error and left the others running: they kept the log and the locks, so that the database could
//! not be opened again in this process. Harm: a service that starts on a crowded machine dies, or
//! can never recover by trying again. The mend: recovery goes on with the threads it gets; a
//! background thread that is missing is an error, after which the others have ended and the
//! database is closed, whole.
//!
//! Alone in its process, whose threads it counts.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use mmdb::{ColumnType, Database, Error, Logging, OfflineDatabase, Options, Schema, Spawner};
use std::time::Duration;

/// Threads of this process. One that was joined may be shown for a moment more.
fn threads(most: usize) -> usize {
    let now = || std::fs::read_dir("/proc/self/task").unwrap().count();
    for _ in 0..30_000 {
        if now() <= most {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    now()
}

fn schema(name: &str) -> Schema {
    Schema::new(name)
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .primary_key(&["id"])
        .ordered_index("by_n", &["n"])
        .hash_index("same_n", &["n"])
}

fn options() -> Options {
    Options {
        streams: 3,
        segment_bytes: 256 << 10,
        container_bytes: 4096,
        recovery_threads: 4,
        ..Options::in_memory()
    }
}

fn count(db: &Database) -> usize {
    db.verify().unwrap();
    let t = db.table("t").unwrap();
    assert!((0..600i64).all(|id| db.begin().unwrap().get(&t, &[id.into()]).unwrap().is_some()));
    db.begin().unwrap().scan(&t).unwrap().count()
}

#[test]
fn an_opening_makes_do_with_fewer_threads_or_says_so_and_leaves_none_behind() {
    let o = options();
    let before = threads(1000);
    let db = Database::open("/db", o.clone()).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    // Images of many containers, and a log on every stream behind them.
    db.run(|tx| (0..300i64).try_for_each(|id| tx.insert(&t, &[id.into(), (id % 9).into()]))).unwrap();
    db.checkpoint().unwrap();
    std::thread::scope(|s| {
        for part in 0..6i64 {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                (0..50).for_each(|i| {
                    db.run(|tx| tx.insert(t, &[(300 + part * 50 + i).into(), i.into()])).unwrap();
                })
            });
        }
    });
    drop((t, db));
    assert_eq!(threads(before), before);

    // With all threads: how many are asked for.
    let all = Spawner::failing(usize::MAX..);
    let db = Database::open("/db", Options { spawner: all.clone(), ..o.clone() }).unwrap();
    assert_eq!(count(&db), 600);
    drop(db);
    let background = 3 + 2;
    assert!(all.requests() > background + 8, "recovery shares its work: {}", all.requests());

    let (mut opened, mut refused) = (0, 0);
    let mut rows = 600;
    for (n, only) in (1..=all.requests() + 1).flat_map(|n| [(n, true), (n, false)]) {
        let spawner = if only { Spawner::failing(n..=n) } else { Spawner::failing(n..) };
        match Database::open("/db", Options { spawner: spawner.clone(), ..o.clone() }) {
            Ok(db) => {
                opened += 1;
                assert!(only || n > all.requests(), "without background threads nothing would be flushed");
                assert_eq!(count(&db), rows, "thread {n}");
                let t = db.table("t").unwrap();
                db.run(|tx| tx.insert(&t, &[(rows as i64).into(), 1.into()])).unwrap();
                rows += 1;
            }
            Err(e) => {
                refused += 1;
                let text = e.to_string();
                assert!(matches!(e, Error::Io { .. }) && text.contains("TasksMax"), "{text}");
                // It was closed in order: nothing can be missing unnoticed.
                let left = OfflineDatabase::load("/db", &o).unwrap();
                assert!(left.report().is_closed && left.report().cut > 0, "thread {n}");
            }
        }
        assert_eq!(threads(before), before, "thread {n} {only}");
        // In the same process, with all threads.
        let db = Database::open("/db", o.clone()).unwrap();
        assert_eq!(count(&db), rows, "thread {n}");
    }
    assert!(opened > 4 && refused > background, "{opened} {refused}");

    // A fill builds its indexes as a start does, and needs no other thread.
    let all = Spawner::failing(usize::MAX..);
    drop(Database::open("/as many", Options { spawner: all.clone(), ..o.clone() }).unwrap());
    let spawner = Spawner::failing(all.requests() + 1..);
    let db = Database::open("/fill", Options { spawner: spawner.clone(), ..o }).unwrap();
    let t = db.create_table(schema("t").logging(Logging::Volatile)).unwrap();
    let fill = db.fill(&t).unwrap();
    let mut writer = fill.writer();
    (0..600i64).for_each(|id| writer.put(&[id.into(), (id % 9).into()]).unwrap());
    drop(writer);
    fill.finish().unwrap();
    assert!(spawner.requests() > all.requests(), "it asked");
    assert_eq!(count(&db), 600);
    drop((t, db));
    assert_eq!(threads(before), before);
}
