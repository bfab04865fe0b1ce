//! Defined failure: torn tails, corruption, poison, full disks, memory limits; and that good copies
//! are equal.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium};
use mmdb::{
    ColumnType, Database, Durability, Error, Locking, LogKind, Logging, OfflineDatabase, Options, Schema,
    Table, Value, restore, salvage,
};
use std::path::Path;
use std::sync::Arc;

fn options(m: &CrashMedium) -> Options {
    Options {
        medium: Arc::new(m.clone()),
        background: false,
        segment_bytes: 32 << 10,
        container_bytes: 4096,
        ..Options::in_memory()
    }
}

fn schema(name: &str) -> Schema {
    Schema::new(name)
        .column("id", ColumnType::Int64)
        .column("v", ColumnType::VarText(400))
        .primary_key(&["id"])
}

fn put(db: &Database, t: &Table, id: i64) -> mmdb::Result<u64> {
    let mut tx = db.begin()?;
    tx.upsert(t, &[id.into(), "value".into()])?;
    tx.commit()?.wait()
}

fn rows(db: &Database, table: &str) -> Vec<String> {
    let t = db.table(table).unwrap();
    let mut v: Vec<String> = db.begin().unwrap().scan(&t).unwrap().map(|r| r.unwrap().to_json()).collect();
    v.sort();
    v
}

const SEGMENT: &str = "/db/log-0/segment-0000000001";

#[test]
fn damage_to_acknowledged_data_is_refused_with_file_and_offset_and_can_be_salvaged() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    (0..5).for_each(|i| {
        put(&db, &t, i).unwrap();
    });
    drop((t, db));
    // The third commit's block; later frames state a horizon that covers it.
    m.flip_bit(Path::new(SEGMENT), 4096 * 3 + 40, 3).unwrap();
    match Database::open("/db", options(&m)) {
        Err(Error::Corrupt { file, offset, what }) => {
            assert_eq!((file.as_path(), offset), (Path::new(SEGMENT), 4096 * 3));
            assert!(what.contains("commit 3"), "{what}");
        }
        other => panic!("{other:?}"),
    }
    assert!(OfflineDatabase::load("/db", &options(&m)).is_err());
    let s = salvage("/db", "/new", &options(&m)).unwrap();
    assert_eq!((s.cut, s.rows), (2, 2));
    assert!(s.problems.iter().any(|p| p.contains("offset 12288")), "{:?}", s.problems);
    let db = Database::open("/new", options(&m)).unwrap();
    assert_eq!(rows(&db, "t").len(), 2);
    let t = db.table("t").unwrap();
    put(&db, &t, 9).unwrap();
    db.verify().unwrap();
}

#[test]
fn damage_to_an_image_is_refused_with_file_and_offset() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    db.checkpoint().unwrap();
    drop((t, db));
    m.flip_bit(Path::new("/db/images-a"), 100, 0).unwrap();
    let e = Database::open("/db", options(&m)).unwrap_err();
    assert!(matches!(&e, Error::Corrupt { file, offset: 0, .. } if file.ends_with("images-a")), "{e}");
    let s = salvage("/db", "/new", &options(&m)).unwrap();
    assert!(!s.problems.is_empty());
}

/// Of a database that was not closed: a closed one states its last commit, see `tests/closed.rs`.
/// This test used to close it.
#[test]
fn a_torn_tail_is_dropped_silently() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    (1..4).for_each(|i| {
        put(&db, &t, i).unwrap();
    });
    m.set_faults(Faults { crash_at: Some(m.calls() + 1), ..Faults::default() });
    drop((t, db));
    m.crash(CrashKind::Kill);
    // The last frame: nothing states that it was acknowledged, as after a crash during its flush.
    m.flip_bit(Path::new(SEGMENT), 4096 * 3 + 40, 3).unwrap();
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!(rows(&db, "t").len(), 2);
}

#[test]
fn a_lost_manifest_is_refused() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    drop((t, db));
    m.remove(Path::new("/db/MANIFEST")).unwrap();
    assert!(matches!(Database::open("/db", options(&m)), Err(Error::Corrupt { .. })));
}

/// A process was killed in a backup, and the directory was called corrupt, as if a database was
/// lost.
#[test]
fn images_without_a_manifest_may_be_a_backup_that_was_broken_off() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    db.backup("/copy").unwrap();
    m.remove(Path::new("/copy/MANIFEST")).unwrap();
    let refused = Database::open("/copy", options(&m)).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { what, .. } if what.contains("broken off")), "{refused}");
}

#[test]
fn a_failed_sync_poisons_until_the_database_is_opened_again() {
    let m = CrashMedium::new(5);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    m.set_faults(Faults { sync_error_at: Some(m.calls() + 1), ..Faults::default() });
    assert!(matches!(put(&db, &t, 2), Err(Error::Indeterminate { gsn: 2, .. })));
    assert!(matches!(put(&db, &t, 3), Err(Error::Poisoned { .. })));
    assert!(matches!(db.checkpoint(), Err(Error::Poisoned { .. })));
    assert!(db.stats().poisoned);
    drop((t, db));
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    let n = rows(&db, "t").len();
    assert!(n == 1 || n == 2);
    put(&db, &db.table("t").unwrap(), 4).unwrap();
}

#[test]
fn a_failed_flush_reaches_waiters_on_other_threads() {
    let m = CrashMedium::new(5);
    let db = Database::open("/db", Options { background: true, ..options(&m) }).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 0).unwrap();
    m.set_faults(Faults { crash_at: Some(m.calls() + 20), ..Faults::default() });
    std::thread::scope(|s| {
        for n in 0..4 {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                for i in 0.. {
                    match put(db, t, n * 1000 + i) {
                        Ok(_) => {}
                        Err(Error::Indeterminate { .. } | Error::Poisoned { .. } | Error::LogFull { .. }) => {
                            return;
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
    });
}

/// A backup that found the disk full kept what it had written: the room that the database itself
/// lacked then, and its place from the next backup.
#[test]
fn a_copy_that_fails_leaves_its_place_empty() {
    let m = CrashMedium::new(11);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    db.backup("/backup").unwrap();
    let copy = |to: &str| match to {
        "/own" => db.backup(to).map(drop),
        "/standby" => db.backup_for_standby(to).map(drop),
        "/restored" => restore("/backup", to, &options(&m)),
        _ => salvage("/backup", to, &options(&m)).map(drop),
    };
    for to in ["/own", "/standby", "/restored", "/saved"] {
        // Each write of it fails, and all behind that.
        let mut failed = 0;
        loop {
            m.set_faults(Faults { write_error_at: Some(m.calls() + failed), ..Faults::default() });
            let done = copy(to);
            m.set_faults(Faults::default());
            if done.is_ok() {
                break;
            }
            for dir in [to.to_owned(), format!("{to}/log-0")] {
                assert!(m.list(Path::new(&dir)).unwrap().is_empty(), "{dir}, call {failed}: {done:?}");
            }
            failed += 1;
            assert!(failed < 1000, "{to}: {done:?}");
        }
        assert!(failed > 1, "{to}: nothing was written");
    }
    for to in ["/own", "/restored", "/saved"] {
        assert_eq!(rows(&Database::open(to, options(&m)).unwrap(), "t").len(), 1, "{to}");
    }
}

#[test]
fn a_full_disk_refuses_new_commits_and_loses_none() {
    let m = CrashMedium::new(7);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 0).unwrap();
    m.set_faults(Faults { capacity: Some(120_000), ..Faults::default() });
    let mut good = 1;
    let refused = loop {
        match put(&db, &t, good) {
            Ok(_) => good += 1,
            Err(e) => break e,
        }
        assert!(good < 1000);
    };
    assert!(matches!(&refused, Error::LogFull { cause, .. } if cause.contains("No space")), "{refused}");
    assert!(!db.stats().poisoned);
    assert_eq!(rows(&db, "t").len() as i64, good);
    // Space comes back: work goes on.
    m.set_faults(Faults::default());
    put(&db, &t, good).unwrap();
    db.checkpoint().unwrap();
    drop((t, db));
    m.crash(CrashKind::Power);
    assert_eq!(rows(&Database::open("/db", options(&m)).unwrap(), "t").len() as i64, good + 1);
}

#[test]
fn the_memory_limit_is_an_error_and_freed_rows_make_room() {
    let db = Database::open("/db", Options { memory_limit: 256 << 10, ..Options::in_memory() }).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    let text = "x".repeat(300);
    let mut n = 0;
    let e = loop {
        let mut tx = db.begin().unwrap();
        match tx.insert(&t, &[n.into(), text.as_str().into()]) {
            Ok(()) => {
                tx.commit().unwrap().wait().unwrap();
            }
            Err(e) => break e,
        }
        n += 1;
        assert!(n < 10_000);
    };
    assert!(matches!(e, Error::MemoryLimit { limit: 262_144, .. }), "{e}");
    // A limit of 262,144 bytes was said to be reached with 171,576 in use, and not why.
    let words = "up to 32768 kept for rows in the places of deleted ones, and no room for the next piece";
    assert!(e.to_string().contains(words), "{e}");
    db.run(|tx| tx.upsert(&t, &[0.into(), text.as_str().into()])).unwrap();
    // Who deleted a row and inserted it again in one transaction was refused, and did not know why:
    // that took a second place.
    let other = "y".repeat(300);
    for id in [0, 1] {
        let again = db.run(|tx| {
            tx.delete(&t, &[0.into()])?;
            tx.insert(&t, &[id.into(), other.as_str().into()])
        });
        match id {
            0 => again.unwrap(),
            _ => assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}"),
        }
        let mut tx = db.begin().unwrap();
        let row = tx.get(&t, &[0.into()]).unwrap().unwrap();
        assert_eq!(row.get("v"), Some(other.as_str().into()));
        // More than once, and deleted in the end.
        for _ in 0..3 {
            assert!(tx.delete(&t, &[0.into()]).unwrap());
            tx.insert(&t, &[0.into(), text.as_str().into()]).unwrap();
            assert!(tx.insert(&t, &[0.into(), text.as_str().into()]).is_err(), "it is there");
        }
        assert!(tx.delete(&t, &[0.into()]).unwrap() && tx.get(&t, &[0.into()]).unwrap().is_none());
    }
    db.verify().unwrap();
    db.run(|tx| tx.delete(&t, &[0.into()])).unwrap();
    db.run(|tx| tx.insert(&t, &[(-1).into(), text.as_str().into()])).unwrap();
}

#[test]
fn errors_name_table_key_and_constraint() {
    let db = Database::in_memory().unwrap();
    let s = schema("t").unique_hash_index("one_v", &["v"]);
    let t = db.create_table(s).unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[1.into(), "a".into()]).unwrap();
    let e = tx.insert(&t, &[1.into(), "b".into()]).unwrap_err();
    assert_eq!(e.to_string(), "table t, constraint primary: key (1) is already present");
    let e = tx.insert(&t, &[2.into(), "a".into()]).unwrap_err();
    assert_eq!(e.to_string(), "table t, constraint one_v: key (\"a\") is already present");
    let e = tx.insert(&t, &["x".into(), "c".into()]).unwrap_err();
    assert_eq!(e.to_string(), "table t, column id: text where Int64 is declared");
    let e = tx.insert(&t, &[3.into(), Value::Null]).unwrap_err();
    assert_eq!(e.to_string(), "table t, column v: NULL is not allowed");
    assert_eq!(
        tx.update(&t, &[1.into()], &[("w", 1.into())]).unwrap_err().to_string(),
        "table t: no column w"
    );
    // The transaction goes on after each of them.
    tx.commit().unwrap().wait().unwrap();
    assert_eq!(db.table("u").unwrap_err().to_string(), "table u: no such table");
    assert!(matches!(Database::open("/mmdb", db_options(&db)), Err(Error::Io { op: "lock", .. })));
}

fn db_options(_: &Database) -> Options {
    let options = Options::in_memory();
    // The same directory on the same medium is locked while it is open.
    let held = Database::open("/mmdb", options.clone()).unwrap();
    std::mem::forget(held);
    options
}

#[test]
fn what_comes_back_is_what_the_schema_says() {
    let m = CrashMedium::new(3);
    let db = Database::open("/db", options(&m)).unwrap();
    for (name, logging) in [("l", Logging::Logged), ("c", Logging::Checkpointed), ("v", Logging::Volatile)] {
        let t = db.create_table(schema(name).logging(logging)).unwrap();
        put(&db, &t, 1).unwrap();
    }
    db.checkpoint().unwrap();
    for name in ["l", "c", "v"] {
        put(&db, &db.table(name).unwrap(), 2).unwrap();
    }
    drop(db);
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!(["l", "c", "v"].map(|n| rows(&db, n).len()), [2, 1, 0]);
}

#[test]
fn lazy_commits_do_not_wait_and_become_durable_by_themselves() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(schema("t")).unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[1.into(), "a".into()]).unwrap();
    let ticket = tx.commit_with(Durability::Lazy).unwrap();
    assert!(ticket.poll().unwrap());
    let began = std::time::Instant::now();
    while db.horizon() < ticket.gsn() {
        assert!(began.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
}

#[test]
fn a_ticket_can_be_awaited() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    for streams in [1, 3] {
        let db = Database::open("/db", Options { streams, ..Options::in_memory() }).unwrap();
        let t = db.create_table(schema("t")).unwrap();
        for i in 0..100 {
            let mut tx = db.begin().unwrap();
            tx.insert(&t, &[i.into(), "a".into()]).unwrap();
            let ticket = tx.commit().unwrap();
            let gsn = ticket.gsn();
            let mut ticket = pin!(ticket);
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            let mut cx = Context::from_waker(&waker);
            let got = loop {
                match ticket.as_mut().poll(&mut cx) {
                    Poll::Ready(r) => break r.unwrap(),
                    Poll::Pending => std::thread::park(),
                }
            };
            assert!(got == gsn && db.horizon() >= gsn);
        }
    }
}

#[test]
fn a_hot_copy_opened_elsewhere_is_equal_and_whole() {
    for streams in [1, 3] {
        let m = CrashMedium::new(9);
        let o = Options { streams, background: true, ..options(&m) };
        let db = Database::open("/db", o.clone()).unwrap();
        let t = db.create_table(schema("t")).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let durable = std::thread::scope(|s| {
            for n in 0..3i64 {
                let (db, t, stop) = (&db, &t, &stop);
                s.spawn(move || {
                    let mut i = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        // Two rows per transaction: a torn copy would show an odd number.
                        db.run(|tx| {
                            tx.upsert(t, &[(n * 1000 + i % 50).into(), "a".into()])?;
                            tx.upsert(t, &[(n * 1000 + 500 + i % 50).into(), "a".into()])
                        })
                        .unwrap();
                        i += 1;
                    }
                });
            }
            while db.horizon() < 200 {
                std::thread::yield_now();
            }
            let durable = db.horizon();
            db.backup("/hot").unwrap();
            db.checkpoint().unwrap();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            durable
        });
        db.backup("/cold").unwrap();
        restore("/hot", "/hot2", &o).unwrap();
        let hot = Database::open("/hot2", o.clone()).unwrap();
        assert!(hot.recovery().cut >= durable);
        assert_eq!(rows(&hot, "t").len() % 2, 0);
        hot.verify().unwrap();
        let cold = Database::open("/cold", o.clone()).unwrap();
        cold.verify().unwrap();
        assert_eq!(rows(&cold, "t"), rows(&db, "t"));
        put(&cold, &cold.table("t").unwrap(), 9999).unwrap();
        assert!(matches!(db.backup("/cold"), Err(Error::Directory { .. })), "a copy never overwrites");
    }
}

#[test]
fn streams_and_log_kind_may_change_between_openings() {
    let m = CrashMedium::new(9);
    let mut id = 0;
    for (streams, kind) in [
        (1, LogKind::Differential),
        (3, LogKind::Differential),
        (3, LogKind::AfterImage),
        (2, LogKind::Differential),
        (1, LogKind::AfterImage),
        (2, LogKind::Differential),
    ] {
        let o = Options { streams, log_kind: kind, ..options(&m) };
        let db = Database::open("/db", o).unwrap();
        let t = db.table("t").or_else(|_| db.create_table(schema("t"))).unwrap();
        assert_eq!(rows(&db, "t").len(), id as usize / 2);
        for _ in 0..20 {
            put(&db, &t, id).unwrap();
            id += 1;
        }
        for i in id - 20..id - 10 {
            db.run(|tx| tx.delete(&t, &[i.into()])).unwrap();
        }
        db.verify().unwrap();
    }
}

#[test]
fn checkpoints_recycle_the_log_and_copy_only_what_changed() {
    let m = CrashMedium::new(9);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    for i in 0..300 {
        put(&db, &t, i).unwrap();
        if i % 30 == 29 {
            db.checkpoint().unwrap();
        }
    }
    assert!(m.list(Path::new("/db/log-0")).unwrap().len() <= 8);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    put(&db, &t, 0).unwrap();
    let c = db.checkpoint().unwrap();
    assert_eq!(c.containers, 1);
    assert!(db.stats().segments_recycled > 30);
    drop((t, db));
    assert_eq!(rows(&Database::open("/db", options(&m)).unwrap(), "t").len(), 300);
}

/// What happened: a segment that was to be used again was forgotten where it could not be seen
/// whose directory this is, as in a program that can open no more files. It took its place on the
/// disk until the next opening, and another one was made.
#[test]
fn a_segment_that_could_not_be_made_ready_is_used_later() {
    let m = CrashMedium::new(3);
    let db = Database::open("/db", Options { segment_bytes: 16 << 10, ..options(&m) }).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    let (dir, mark) = (Path::new("/db/log-0"), Path::new("/db/log-0/STREAM"));
    let mut most = 0;
    // Three commits fill a segment.
    for id in 0..90 {
        if id % 3 == 0 && id > 30 {
            m.flip_bit(mark, 10, 0).unwrap();
            assert!(matches!(put(&db, &t, id), Err(Error::LogFull { .. })), "{id}");
            m.flip_bit(mark, 10, 0).unwrap();
        }
        put(&db, &t, id).unwrap();
        if id % 9 == 8 {
            db.checkpoint().unwrap();
        }
        most = most.max(m.list(dir).unwrap().len());
    }
    assert!(most <= 10, "{most} files");
}

#[test]
fn a_dropped_table_is_gone_for_good_and_its_name_is_free() {
    let m = CrashMedium::new(9);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1).unwrap();
    db.checkpoint().unwrap();
    put(&db, &t, 2).unwrap();
    db.drop_table(&t).unwrap();
    assert!(matches!(put(&db, &t, 3), Err(Error::NoSuchTable { .. })));
    let t2 = db.create_table(schema("t").locking(Locking::Page)).unwrap();
    put(&db, &t2, 7).unwrap();
    drop((t, t2, db));
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!(rows(&db, "t"), [r#"{"id":7,"v":"value"}"#]);
    db.checkpoint().unwrap();
}

#[test]
fn the_reference_mode_has_the_same_answers_and_no_files() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", Options { reference: true, ..options(&m) }).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    (0..50).for_each(|i| {
        put(&db, &t, i).unwrap();
    });
    db.run(|tx| tx.delete(&t, &[7.into()])).unwrap();
    assert_eq!(rows(&db, "t").len(), 49);
    db.verify().unwrap();
    assert_eq!((db.stats().frames, db.locks_held(), m.calls()), (0, 0, 0));
}

#[test]
fn a_checkpoint_never_writes_the_side_that_the_manifest_names() {
    let m = CrashMedium::new(9);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    let image = |side: &str| {
        let file = m.open(&Path::new("/db").join(side)).unwrap();
        let mut b = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut b).unwrap();
        b
    };
    put(&db, &t, 0).unwrap();
    db.checkpoint().unwrap();
    for turn in 1..5 {
        let named = image(["images-b", "images-a"][turn % 2]);
        put(&db, &t, turn as i64).unwrap();
        let mut step = db.checkpoint_stepwise().unwrap();
        while step.step().unwrap() {}
        assert_eq!(image(["images-b", "images-a"][turn % 2]), named, "turn {turn}");
        assert_ne!(image(["images-a", "images-b"][turn % 2]), named, "the other side has the new row");
        step.finish().unwrap();
    }
}

#[test]
fn a_checkpoint_cut_off_anywhere_loses_nothing() {
    let mut cut_off = 0;
    for n in 1..40 {
        let m = CrashMedium::new(n);
        let db = Database::open("/db", options(&m)).unwrap();
        let t = db.create_table(schema("t")).unwrap();
        for i in 0..4 {
            put(&db, &t, i).unwrap();
            db.checkpoint().unwrap();
        }
        put(&db, &t, 4).unwrap();
        m.set_faults(Faults { crash_at: Some(m.calls() + n), ..Faults::default() });
        if db.checkpoint().is_err() {
            cut_off += 1;
            // Nothing more may be written over a side whose fate is unknown.
            assert!(db.checkpoint().is_err());
        }
        m.crash(CrashKind::Power);
        drop((t, db));
        let db = Database::open("/db", options(&m)).unwrap();
        assert_eq!(rows(&db, "t").len(), 5, "cut off at call {n}");
        db.verify().unwrap();
    }
    assert!(cut_off > 5, "{cut_off}");
}
