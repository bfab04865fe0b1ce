//! Rows that expire: by every type of column and unit, in bounded parts, beside those who give them
//! more time, by themselves in the background, and after a restart. The crash schedules expire
//! rows, too (`crash/schedule.rs`).
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Options, Schema, Table, TimeUnit, Value};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn schema(kind: ColumnType, unit: TimeUnit) -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("pad", ColumnType::FixedBytes(40))
        .nullable("until", kind)
        .primary_key(&["id"])
        .ordered_index("by_until", &["until"])
        .expire_by("until", unit)
}

fn put(db: &Database, t: &Table, ids: std::ops::Range<i64>, until: impl Fn(i64) -> Value<'static>) {
    db.run(|tx| {
        ids.clone().try_for_each(|id| tx.upsert(t, &[id.into(), (&[7; 40]).into(), until(id)]).map(drop))
    })
    .unwrap();
}

fn count(db: &Database, t: &Table) -> usize {
    db.begin().unwrap().scan(t).unwrap().count()
}

#[test]
fn rows_go_at_their_time_and_not_before() {
    use ColumnType::{Int32, Int64, Time, UInt32, UInt64};
    use TimeUnit::{Microseconds, Milliseconds, Seconds};
    let mut kinds = vec![(Time, Microseconds)];
    for kind in [Int32, Int64, UInt32, UInt64] {
        kinds.extend([Seconds, Milliseconds, Microseconds].map(|unit| (kind, unit)));
    }
    for (kind, unit) in kinds {
        let options = Options { background: false, ..Options::in_memory() };
        let db = Database::open("/db", options.clone()).unwrap();
        let t = db.create_table(schema(kind, unit)).unwrap();
        let of = |n: i64| if kind == Time { Value::Time(n) } else { Value::Int(n) };
        // Ids are times; one row has none, and one the greatest.
        put(&db, &t, 0..20, of);
        put(&db, &t, 100..101, |_| Value::Null);
        let last = match kind {
            Int32 => i32::MAX.into(),
            UInt32 => u32::MAX.into(),
            _ => i64::MAX,
        };
        put(&db, &t, 200..201, |_| of(last));
        let one = match unit {
            Seconds => Duration::from_secs(1),
            Milliseconds => Duration::from_millis(1),
            Microseconds => Duration::from_micros(1),
        };
        let what = format!("{kind:?} {unit:?}");
        assert_eq!(db.expire(UNIX_EPOCH - one).unwrap(), 0, "{what}: before 1970");
        assert_eq!(db.expire(UNIX_EPOCH + 7 * one - Duration::from_nanos(1)).unwrap(), 7, "{what}");
        assert_eq!(db.expire(UNIX_EPOCH + 7 * one).unwrap(), 1, "{what}: the moment itself");
        assert_eq!(db.expire(UNIX_EPOCH + 7 * one).unwrap(), 0, "{what}");
        drop((t, db));
        let db = Database::open("/db", options).unwrap();
        let t = db.table("t").unwrap();
        assert_eq!(*t.schema(), schema(kind, unit), "{what} is kept");
        assert_eq!(count(&db, &t), 14, "{what}");
        assert_eq!(db.expire(UNIX_EPOCH + 1000 * one).unwrap(), 12, "{what}");
        assert_eq!(count(&db, &t), 2, "{what}: none at all, and the greatest");
        db.verify().unwrap();
        assert_eq!(db.stats().expired_rows, 12);
    }
}

/// So many that one transaction cannot take them, and such that a segment cannot.
#[test]
fn many_rows_go_in_parts() {
    for (segment_bytes, scrub) in [(1 << 20, false), (16 << 10, true)] {
        let options = Options { segment_bytes, scrub, background: false, ..Options::in_memory() };
        let db = Database::open("/db", options).unwrap();
        let t = db.create_table(schema(ColumnType::UInt32, TimeUnit::Seconds)).unwrap();
        (0..30).for_each(|part| put(&db, &t, part * 50..(part + 1) * 50, |id| Value::Int(id % 3)));
        let before = db.stats().commits;
        assert_eq!(db.expire(UNIX_EPOCH + Duration::from_secs(1)).unwrap(), 1000);
        let parts = db.stats().commits - before;
        assert!((4..=1000).contains(&parts), "{parts} transactions");
        assert_eq!(count(&db, &t), 500);
        assert_eq!((db.horizon(), db.locks_held()), (db.stats().last_gsn, 0), "durable, and all free");
        db.verify().unwrap();
    }
}

/// At the memory limit nothing comes in any more, and expiry, which only deletes, goes on: it makes
/// room.
#[test]
fn expiry_makes_room_at_the_memory_limit() {
    let options = Options { memory_limit: 4 << 20, background: false, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(schema(ColumnType::Int64, TimeUnit::Milliseconds)).unwrap();
    let mut rows = 0;
    let full = loop {
        // Every other row is due.
        let until = |id: i64| if id % 2 == 0 { 1 } else { i64::MAX };
        let done = db.run(|tx| {
            (rows..rows + 50)
                .try_for_each(|id| tx.insert(&t, &[id.into(), (&[7; 40]).into(), until(id).into()]))
        });
        match done {
            Ok(()) => rows += 50,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, Error::MemoryLimit { .. }), "{full}");
    assert_eq!(db.expire(SystemTime::now()).unwrap() as i64, rows / 2);
    assert_eq!(count(&db, &t) as i64, rows / 2);
    // Not to the last one: what new keys make of the indexes is chance.
    let more = (rows..rows + rows / 4).step_by(50);
    more.for_each(|first| put(&db, &t, first..first + 50, |_| Value::Int(i64::MAX)));
    db.verify().unwrap();
}

/// Who gives a row more time before it goes keeps it.
#[test]
fn a_row_that_got_more_time_stays() {
    // Nobody gives up because another thread stands still for long.
    let lock_timeout = Duration::from_secs(600);
    let db = Database::open("/db", Options { lock_timeout, ..Options::in_memory() }).unwrap();
    let t = db.create_table(schema(ColumnType::Int64, TimeUnit::Milliseconds)).unwrap();
    put(&db, &t, 0..400, |_| Value::Int(1));
    let kept: usize = std::thread::scope(|s| {
        let savers: Vec<_> = (0..3i64)
            .map(|thread| {
                let (db, t) = (&db, &t);
                s.spawn(move || {
                    let mine = (0..400).rev().filter(|id| id % 3 == thread);
                    let save =
                        |id: i64| db.run(|tx| tx.update(t, &[id.into()], &[("until", i64::MAX.into())]));
                    mine.filter(|&id| save(id).unwrap()).count()
                })
            })
            .collect();
        let expired = s.spawn(|| db.expire(SystemTime::now()).unwrap());
        let kept = savers.into_iter().map(|saver| saver.join().unwrap()).sum();
        assert_eq!(expired.join().unwrap() as usize + kept, 400, "each row went or was kept");
        kept
    });
    assert_eq!(count(&db, &t), kept);
    db.verify().unwrap();
}

/// A row that somebody had locked, and forgot, kept the rows of all later tables for good: the
/// error of the first table ended every expiry.
#[test]
fn a_table_whose_rows_cannot_go_keeps_none_of_another() {
    let lock_timeout = Duration::from_millis(20);
    let db = Database::open("/db", Options { lock_timeout, ..Options::in_memory() }).unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let mut s = schema(ColumnType::Int64, TimeUnit::Milliseconds);
        s.name = name.into();
        let t = db.create_table(s).unwrap();
        put(&db, &t, 0..10, |_| Value::Int(1));
        t
    });
    let mut idle = db.begin().unwrap();
    assert!(idle.get(&a, &[5.into()]).unwrap().is_some());
    let refused = db.expire(SystemTime::now()).unwrap_err();
    assert!(matches!(&refused, Error::LockTimeout { table, .. } if table == "a"), "{refused}");
    assert_eq!((count(&db, &a), count(&db, &b)), (10, 0));
    drop(idle);
    assert_eq!(db.expire(SystemTime::now()).unwrap(), 10);
    db.verify().unwrap();
}

#[test]
fn rows_go_by_themselves() {
    let options = Options { expire_interval: Duration::from_millis(5), ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(schema(ColumnType::Time, TimeUnit::Microseconds)).unwrap();
    put(&db, &t, 0..300, |id| if id < 200 { Value::Time(id) } else { Value::Time(i64::MAX) });
    let patience = Instant::now() + Duration::from_secs(60);
    while db.stats().expired_rows < 200 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    // By a snapshot: a transaction may have to give way to one that looks for more rows.
    assert_eq!((db.stats().expired_rows, db.snapshot().unwrap().scan(&t).unwrap().count()), (200, 100));
    assert_eq!(db.stats().expiry_error, None);
    drop(t);
    db.close().unwrap();
}

#[test]
fn what_cannot_expire_is_refused() {
    let db = Database::in_memory().unwrap();
    let refused = |s: Schema| db.create_table(s).unwrap_err().to_string();
    let base = || Schema::new("t").column("id", ColumnType::Int64).nullable("until", ColumnType::Time);
    let keyed = || base().primary_key(&["id"]);
    let us = TimeUnit::Microseconds;
    assert_eq!(
        refused(keyed().expire_by("until", us)),
        "table t: rows expire by column until, but no ordered index begins with it"
    );
    assert_eq!(
        refused(
            keyed().hash_index("h", &["until"]).ordered_index("o", &["id", "until"]).expire_by("until", us)
        ),
        "table t: rows expire by column until, but no ordered index begins with it"
    );
    assert_eq!(
        refused(keyed().ordered_index("o", &["until"]).expire_by("until", TimeUnit::Seconds)),
        "table t: rows expire by column until, which counts Microseconds and not Seconds"
    );
    assert_eq!(refused(keyed().expire_by("nope", us)), "table t: no column nope");
    let float = Schema::new("t").column("x", ColumnType::Float64).ordered_primary_key(&["x"]);
    assert_eq!(
        refused(float.expire_by("x", us)),
        "table t: rows expire by column x, which is Float64; it can be Time, or an integer of 4 or 8 bytes"
    );

    let s = Schema::new("t").column("gone", ColumnType::Bool).column("id", ColumnType::Int64);
    let s = s.column("until", ColumnType::Int64).primary_key(&["id"]).ordered_index("o", &["until"]);
    let t = db.create_table(s.clone().expire_by("until", TimeUnit::Seconds)).unwrap();
    let e = db.create_table_if_missing(s).unwrap_err().to_string();
    assert_eq!(e, "table t is there, and differs: rows expire by until in Seconds and not never");
    let e = db.drop_column(&t, "until").unwrap_err();
    assert!(matches!(e, Error::Operation { .. }), "{e}");
    let e = db.drop_index(&t, "o").unwrap_err().to_string();
    let want = "table t: cannot drop an index: rows expire by column until, but no ordered index begins with it any more";
    assert_eq!(e, want);
    // A column before it goes, and it gets another name: it is the same column.
    let t = db.drop_column(&t, "gone").unwrap();
    db.rename_column(&t, "until", "end").unwrap();
    db.create_index(&t, mmdb::NewIndex::ordered("another", &["end", "id"])).unwrap();
    db.drop_index(&t, "o").unwrap();
    db.run(|tx| (0..9i64).try_for_each(|id| tx.insert(&t, &[id.into(), (10 - id).into()]))).unwrap();
    assert_eq!(db.expire(UNIX_EPOCH + Duration::from_secs(3)).unwrap(), 2);
    assert_eq!(count(&db, &t), 7);
}

/// `expire` went round for good where the table of blobs that go with the rows had lost a column:
/// it took `TableChanged` for that of the rows' table, which another look finds anew.
#[test]
fn expiry_ends_though_the_blobs_of_the_rows_cannot_be_deleted() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::UInt64).column("end", ColumnType::Time);
    let schema = schema.primary_key(&["id"]).ordered_index("by_end", &["end"]);
    let t = db.create_table(schema.expire_by("end", TimeUnit::Microseconds)).unwrap();
    let blobs = db.blobs("b").unwrap();
    blobs.belong_to(&t).unwrap();
    db.run(|tx| tx.insert(&t, &[Value::UInt(1), Value::Time(0)])).unwrap();
    db.drop_column(blobs.table(), "length").unwrap();
    let (done, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(db.expire(SystemTime::now())));
    let done = told.recv_timeout(Duration::from_secs(60)).expect("it ends");
    assert!(matches!(&done, Err(Error::TableChanged { table }) if table == "b"), "{done:?}");
}

/// Blobs of another database, or of an earlier opening, were attached to a table: no row of it
/// could be deleted any more, and `expire` went round for good, for it took `NoSuchTable` for that
/// of the rows' table.
#[test]
fn blobs_of_another_database_are_attached_to_no_table() {
    let options = Options::in_memory();
    let earlier = Database::open("/db", options.clone()).unwrap().blobs("b").unwrap();
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(schema(ColumnType::Time, TimeUnit::Microseconds)).unwrap();
    let other = Database::in_memory().unwrap().blobs("b").unwrap();
    let gone = db.blobs("gone").unwrap();
    db.drop_table(gone.table()).unwrap();
    for blobs in [&earlier, &other, &gone] {
        assert!(matches!(blobs.belong_to(&t), Err(Error::NoSuchTable { .. })));
    }
    put(&db, &t, 0..5, |_| Value::Time(0));
    let (done, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(db.expire(SystemTime::now())));
    assert_eq!(told.recv_timeout(Duration::from_secs(60)).expect("it ends").unwrap(), 5);
}
