//! Errors that operations return only when something happens in the middle of them: each is one of
//! those that `docs/errors.md` has for the operation, which every call here is held against.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashMedium, Faults, Medium};
use mmdb::{
    ColumnType, Database, Durability, Error, Locking, Options, Schema, Table, TimeUnit, Value, read_log,
    restore, salvage,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

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
        .column("tag", ColumnType::Int64)
        .column("v", ColumnType::VarText(400))
        .primary_key(&["id"])
        .unique_hash_index("tag", &["tag"])
}

fn put(db: &Database, t: &Table, id: i64, tag: i64, length: usize) {
    let v = "x".repeat(length);
    db.run(|tx| tx.upsert(t, &[id.into(), tag.into(), v.as_str().into()]).map(drop)).unwrap();
}

fn ids(db: &Database) -> Vec<i64> {
    let t = db.table("t").unwrap();
    let mut tx = db.begin().unwrap();
    let mut ids: Vec<i64> = tx.scan(&t).unwrap().map(|row| row.unwrap().at(0).as_int().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// The next sync fails.
fn fail(m: &CrashMedium) {
    m.set_faults(Faults { sync_error_at: Some(m.calls() + 1), ..Faults::default() });
}

#[test]
fn whoever_waits_for_a_flush_that_fails_does_not_know() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let due = schema("due").column("until", ColumnType::Time).ordered_index("by_until", &["until"]);
    let t = db.create_table(due.expire_by("until", TimeUnit::Microseconds)).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into(), 1.into(), "".into(), Value::Time(5)])).unwrap();
    fail(&m);
    let e = db.expire(UNIX_EPOCH + Duration::from_secs(1)).unwrap_err();
    assert!(matches!(e, Error::Indeterminate { gsn: 2, .. }), "{e}");
    let e = db.expire(UNIX_EPOCH + Duration::from_secs(1)).unwrap_err();
    assert!(matches!(e, Error::Poisoned { .. }), "{e}");

    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    // Without threads a commit prepares its segment.
    put(&db, &t, 9, 9, 1);
    fail(&m);
    let e = db.run(|tx| tx.insert(&t, &[1.into(), 1.into(), "".into()])).unwrap_err();
    assert!(matches!(e, Error::Indeterminate { gsn: 2, .. }), "{e}");
    let e = db.run(|tx| tx.insert(&t, &[2.into(), 2.into(), "".into()])).unwrap_err();
    assert!(matches!(e, Error::Poisoned { .. }), "{e}");
}

/// Without locks a table may go between an operation and the commit.
#[test]
fn a_run_is_told_that_its_table_went() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(schema("t").locking(Locking::None)).unwrap();
    let mut runs = 0;
    let done = db.run_with(Durability::Durable, |tx| {
        runs += 1;
        tx.insert(&t, &[1.into(), 1.into(), "".into()])?;
        db.drop_table(&t)
    });
    let e = done.unwrap_err();
    assert!(matches!(&e, Error::NoSuchTable { table } if table == "t"), "{e}");
    assert_eq!(runs, 1, "another run would find it as gone");
}

/// A checkpoint and a new table found the damage and called the database corrupt, which it was not,
/// and the next ones again: now it is the directory that is not as it was left, and nothing is
/// acknowledged any more.
#[test]
fn a_manifest_that_somebody_writes_to_is_noticed_while_the_database_is_open() {
    for what in ["checkpoint", "table"] {
        let m = CrashMedium::new(1);
        let db = Database::open("/db", options(&m)).unwrap();
        let t = db.create_table(schema("t")).unwrap();
        put(&db, &t, 1, 1, 10);
        m.flip_bit(Path::new("/db/MANIFEST"), 40, 3).unwrap();
        let e = match what {
            "checkpoint" => db.checkpoint().map(drop).unwrap_err(),
            _ => db.create_table(schema("u")).map(drop).unwrap_err(),
        };
        let Error::Directory { dir, reason } = &e else { panic!("{what}: {e}") };
        assert_eq!(dir, Path::new("/db"));
        assert!(reason.contains("written to"), "{reason}");
        let e = db.begin().map(drop).unwrap_err();
        assert!(matches!(e, Error::Poisoned { .. }), "{e}");
    }
}

/// A row moves while the images are taken, a unique key goes to another row, and the log that says
/// so is lost: both are in two images. A salvage gave up there, like the opening before it; and
/// later it said where the row was that it left out, and not which one it was or what was in it.
#[test]
fn what_two_images_have_is_saved_once() {
    let m = CrashMedium::new(1);
    let options = Options { segment_bytes: 256 << 10, ..options(&m) };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    // In the first container, which is copied first.
    let small = |id: i64| [Value::Int(id), Value::Int(id), Value::Text("x")];
    db.run(|tx| tx.insert(&t, &small(1)).and_then(|()| tx.insert(&t, &small(3)))).unwrap();
    // In containers of a larger class, one at least for each stripe.
    (10..18).for_each(|id| put(&db, &t, id, id, 300));
    let mut images = db.checkpoint_stepwise().unwrap();
    assert!(images.step().unwrap());
    put(&db, &t, 1, 1, 300);
    db.run(|tx| {
        tx.update(&t, &[3.into()], &[("tag", 30.into())])?;
        tx.update(&t, &[10.into()], &[("tag", 3.into())])
    })
    .unwrap();
    while images.step().unwrap() {}
    images.finish().unwrap();
    drop((t, db));
    // Commit 10 of 11: each has a block of its own, behind the header.
    m.flip_bit(Path::new("/db/log-0/segment-0000000001"), 10 * 4096 + 40, 0).unwrap();
    let e = Database::open("/db", options.clone()).unwrap_err();
    assert!(matches!(e, Error::Corrupt { .. }), "{e}");

    let saved = salvage("/db", "/saved", &options).unwrap();
    let doubles: Vec<&String> = saved.problems.iter().filter(|p| p.contains("two rows share")).collect();
    let [primary, tag] = doubles[..] else { panic!("{:?}", saved.problems) };
    let words = "table t: two rows share key (1) of index primary; row (1) in container";
    assert!(
        primary.starts_with(words) && primary.contains(r#"is left out: {"id":1,"tag":1,"v":"#),
        "{primary}"
    );
    let words = "table t: two rows share key (3) of index tag; row (3) in container";
    assert!(tag.starts_with(words) && tag.contains(" is kept, row (10) in container"), "{tag}");
    assert!(tag.contains(r#"is left out: {"id":10,"tag":3,"v":"xxx"#), "{tag}");
    let db = Database::open("/saved", options).unwrap();
    db.verify().unwrap();
    assert_eq!(ids(&db), [1, 3, 11, 12, 13, 14, 15, 16, 17]);
}

#[test]
fn places_that_cannot_be_are_refused_by_whoever_reads_a_log() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1, 1, 3);
    drop((t, db));
    let many = Options { stream_dirs: vec!["/a".into(), "/b".into()], ..options(&m) };
    for e in [
        read_log("/db", &many, |_| ()).map(drop).unwrap_err(),
        salvage("/db", "/saved", &many).map(drop).unwrap_err(),
        restore("/db", "/copy", &many).unwrap_err(),
        Database::open("/db", many.clone()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(&e, Error::Directory { dir, .. } if dir == Path::new("/b")), "{e}");
    }
    assert!(m.list("/saved".as_ref()).unwrap().is_empty() && m.list("/copy".as_ref()).unwrap().is_empty());
}
