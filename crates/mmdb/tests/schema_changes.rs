//! Schema changes whose manifest cannot be written.
//!
//! What happened: `drop_table` forgot the checksums of the table's images before it stored the
//! manifest. When storing failed, as it does on a full disk, the very moment when people drop
//! tables, the table lived on without them. Harm: the next checkpoint left the table's clean
//! containers out, recycled the log, and the next opening showed the table empty, without an error.
//! The mend: what the database believes is stated becomes what it believes only once it is stored;
//! a container without a checksum is copied again; and a checkpoint that misses one all the same is
//! refused.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{ColumnType, Database, Error, Options, Schema, Table};
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

fn put(db: &Database, t: &Table, id: i64) {
    db.run(|tx| tx.upsert(t, &[id.into(), "value".into()])).unwrap();
}

fn count(db: &Database, table: &str) -> usize {
    let t = db.table(table).unwrap();
    db.begin().unwrap().scan(&t).unwrap().count()
}

/// The disk is full: bytes of a new file find no place, names and bytes that are there already do.
fn fill_disk(m: &CrashMedium) {
    m.set_faults(Faults { capacity: Some(0), ..Faults::default() });
}

#[test]
fn a_table_that_could_not_be_dropped_keeps_its_rows_through_checkpoints_and_restarts() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let t = db.create_table(schema("t")).unwrap();
    let other = db.create_table(schema("other")).unwrap();
    (0..200).for_each(|i| put(&db, &t, i));
    // Both sides hold images of it.
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    fill_disk(&m);
    assert!(matches!(db.drop_table(&t), Err(Error::Io { .. })));
    m.set_faults(Faults::default());
    assert_eq!(count(&db, "t"), 200, "it lives on");
    for i in 0..3 {
        put(&db, &other, i);
        db.checkpoint().unwrap();
    }
    drop((t, other, db));
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!((count(&db, "t"), count(&db, "other")), (200, 3));
    db.verify().unwrap();
    // And it can be dropped once there is space.
    db.drop_table(&db.table("t").unwrap()).unwrap();
    drop(db);
    assert!(Database::open("/db", options(&m)).unwrap().table("t").is_err());
}

#[test]
fn a_table_that_could_not_be_created_does_not_exist_and_costs_no_number() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    fill_disk(&m);
    for _ in 0..3 {
        assert!(matches!(db.create_table(schema("t")), Err(Error::Io { .. })));
        assert!(db.table("t").is_err() && db.tables().is_empty());
    }
    m.set_faults(Faults::default());
    let t = db.create_table(schema("t")).unwrap();
    put(&db, &t, 1);
    drop((t, db));
    assert_eq!(count(&Database::open("/db", options(&m)).unwrap(), "t"), 1);
}

/// Every call of a schema change fails once, in each way a call can fail: afterwards the change is
/// there whole or not at all, whatever the handle said, and no row of another table is missing.
#[test]
fn a_schema_change_that_fails_anywhere_is_made_whole_or_not_at_all() {
    let (mut failed, mut made) = (0, 0);
    for n in 0..120u64 {
        let m = CrashMedium::new(n);
        let db = Database::open("/db", options(&m)).unwrap();
        let (a, b) = (db.create_table(schema("a")).unwrap(), db.create_table(schema("b")).unwrap());
        for i in 0..100 {
            put(&db, &a, i);
            put(&db, &b, i);
        }
        db.checkpoint().unwrap();
        put(&db, &a, 100);
        db.checkpoint().unwrap();
        let at = Some(m.calls() + 1 + n / 8);
        m.set_faults(match n % 4 {
            0 => Faults { write_error_at: at, ..Faults::default() },
            1 => Faults { sync_error_at: at, ..Faults::default() },
            2 => Faults { crash_at: at, ..Faults::default() },
            _ => Faults { capacity: Some(0), ..Faults::default() },
        });
        let (drops, many) = (n % 8 < 4, n % 16 >= 12);
        let done = match (drops, many) {
            (true, _) => db.drop_table(&a),
            (false, false) => db.create_table(schema("c")).map(drop),
            (false, true) => db.create_tables(["c", "d"].map(schema)).map(drop),
        };
        if !m.is_dead() {
            m.set_faults(Faults::default());
        }
        // Goes on if it can.
        let going_on = db.run(|tx| tx.upsert(&b, &[100.into(), "x".into()])).is_ok();
        let checkpoints = (0..2).filter(|_| db.checkpoint().is_ok()).count();
        drop((a, b, db));
        m.crash(CrashKind::Power);
        let db = Database::open("/db", options(&m)).unwrap_or_else(|e| panic!("{n}: {e}"));
        db.verify().unwrap();
        assert!(count(&db, "b") == 100 + usize::from(going_on) || !going_on, "{n}");
        let changed = if drops { db.table("a").is_err() } else { db.table("c").is_ok() };
        assert!(!many || db.table("c").is_ok() == db.table("d").is_ok(), "{n}: both or neither");
        match &done {
            Ok(()) => assert!(changed, "{n}: acknowledged"),
            Err(_) if going_on => assert!(!changed, "{n}: refused, and the database went on without it"),
            // The manifest's fate was unknown: the database stopped there.
            Err(_) => assert_eq!(checkpoints, 0, "{n}"),
        }
        if db.table("a").is_ok() {
            assert_eq!(count(&db, "a"), 101, "{n}");
        }
        failed += u32::from(done.is_err());
        made += u32::from(changed);
    }
    assert!(failed > 30 && made > 10, "{failed} failed, {made} made");
}

/// Each table wrote a manifest, which repeats all others: 4,010 tables took 41 seconds.
#[test]
fn many_tables_are_created_by_one_manifest_or_not_at_all() {
    let m = CrashMedium::new(3);
    let db = Database::open("/db", options(&m)).unwrap();
    db.create_table(schema("t")).unwrap();
    let all = |names: std::ops::Range<u32>| names.map(|n| schema(&format!("t{n}")));
    let before = m.calls();
    let tables = db.create_tables(all(0..500)).unwrap();
    assert!(m.calls() - before < 20, "{} calls", m.calls() - before);
    assert_eq!((tables[499].name(), tables.len(), db.tables().len()), ("t499", 500, 501));
    put(&db, &tables[499], 1);
    // One that is there, one that comes twice, and one that is none.
    let wrong = [schema("t"), schema("t500"), Schema::new("u")];
    for wrong in wrong {
        let refused = db.create_tables(all(500..600).chain([wrong]));
        assert!(matches!(refused, Err(Error::TableExists { .. } | Error::Schema { .. })), "{refused:?}");
    }
    assert_eq!(db.create_tables([]).unwrap().len(), 0);
    // A standby is told of so many changes.
    db.backup_for_standby("/standby").unwrap();
    let refused = db.create_tables(all(500..757)).unwrap_err();
    assert!(matches!(&refused, Error::Operation { reason, .. } if reason.contains("256")), "{refused}");
    db.create_tables(all(500..756)).unwrap();
    drop((tables, db));
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!((db.tables().len(), count(&db, "t499")), (757, 1));
}

/// Each of them wrote a manifest, too.
#[test]
fn many_tables_are_dropped_by_one_manifest_or_not_at_all() {
    let m = CrashMedium::new(4);
    let db = Database::open("/db", options(&m)).unwrap();
    let all = |names: std::ops::Range<u32>| names.map(|n| schema(&format!("t{n}")));
    let tables = db.create_tables(all(0..500)).unwrap();
    put(&db, &tables[7], 1);
    put(&db, &tables[499], 1);
    db.checkpoint().unwrap();
    // One that is another database's, and one that is gone.
    let other = Database::in_memory().unwrap().create_table(schema("t1")).unwrap();
    let gone = db.create_table(schema("gone")).unwrap();
    db.drop_table(&gone).unwrap();
    for wrong in [&other, &gone] {
        let refused = db.drop_tables(tables[..499].iter().chain([wrong])).unwrap_err();
        assert!(matches!(refused, Error::NoSuchTable { .. }), "{refused}");
    }
    // The disk is full.
    fill_disk(&m);
    assert!(matches!(db.drop_tables(&tables[..499]), Err(Error::Io { .. })));
    m.set_faults(Faults::default());
    assert_eq!((db.tables().len(), count(&db, "t7")), (500, 1), "none of them");
    put(&db, &tables[7], 2);
    // A standby is told of so many changes.
    db.backup_for_standby("/standby").unwrap();
    let refused = db.drop_tables(&tables[..257]).unwrap_err();
    assert!(matches!(&refused, Error::Operation { reason, .. } if reason.contains("256")), "{refused}");
    let before = m.calls();
    // One of them is given twice.
    db.drop_tables(tables[..255].iter().chain([&tables[7], &tables[8]])).unwrap();
    assert!(m.calls() - before < 20, "{} calls", m.calls() - before);
    db.drop_tables([]).unwrap();
    assert!(db.begin().unwrap().get(&tables[7], &[1.into()]).is_err());
    for _ in 0..2 {
        db.checkpoint().unwrap();
    }
    drop((tables, db));
    m.crash(CrashKind::Power);
    let db = Database::open("/db", options(&m)).unwrap();
    assert_eq!((db.tables().len(), count(&db, "t499")), (245, 1));
    db.verify().unwrap();
}

/// Both pass the first look, one waits for the other's lock and is told then: dropped twice, the
/// images' places would be given back twice, and two containers of later tables would share one.
#[test]
fn a_table_that_two_threads_drop_at_once_is_dropped_once() {
    for round in 0..20 {
        let m = CrashMedium::new(round);
        let db = Database::open("/db", Options { background: true, ..options(&m) }).unwrap();
        let t = db.create_table(schema("t")).unwrap();
        (0..100).for_each(|i| put(&db, &t, i));
        let dropped: usize = std::thread::scope(|s| {
            let both: Vec<_> = (0..2).map(|_| s.spawn(|| db.drop_table(&t))).collect();
            both.into_iter().map(|h| usize::from(h.join().unwrap().is_ok())).sum()
        });
        assert_eq!(dropped, 1, "round {round}");
        let (a, b) = (db.create_table(schema("a")).unwrap(), db.create_table(schema("b")).unwrap());
        for i in 0..200 {
            put(&db, &a, i);
            put(&db, &b, -i);
        }
        db.checkpoint().unwrap();
        drop((t, a, b, db));
        let db = Database::open("/db", options(&m)).unwrap();
        db.verify().unwrap();
        assert_eq!((count(&db, "a"), count(&db, "b")), (200, 200), "round {round}");
    }
}
