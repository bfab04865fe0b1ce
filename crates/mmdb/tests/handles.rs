//! A handle that is not of this opening of this database is good for nothing here.
//!
//! What happened: `drop_table` never asked whose handle it was given. One of another database, or
//! of an earlier opening of the same one, dropped the table that has the same number here, durably,
//! and emptied the memory of the other. Harm: rows that were acknowledged were gone in both. The
//! mend: `drop_table` asks what transactions and fills asked all the time, whether the handle's
//! table is the very table that this database has under its number, before it does anything else.
#![allow(clippy::unwrap_used)]

use mmdb::medium::CrashMedium;
use mmdb::{ColumnType, Database, Error, Logging, Options, Result, Schema, Table, Transaction};
use std::sync::Arc;

fn options(m: &CrashMedium) -> Options {
    Options {
        medium: Arc::new(m.clone()),
        background: false,
        segment_bytes: 32 << 10,
        ..Options::in_memory()
    }
}

fn schema(logging: Logging) -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .ordered_primary_key(&["id"])
        .hash_index("by_n", &["n"])
        .logging(logging)
}

fn with_rows(db: &Database, logging: Logging) -> Table {
    let t = db.create_table(schema(logging)).unwrap();
    db.run(|tx| (0..100i64).try_for_each(|i| tx.insert(&t, &[i.into(), i.into()]))).unwrap();
    t
}

fn count(db: &Database) -> usize {
    db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count()
}

/// Every public function that takes a handle refuses this one.
fn is_refused_everywhere(db: &Database, t: &Table) {
    type Call = (&'static str, fn(&mut Transaction<'_>, &Table) -> Result<()>);
    let calls: [Call; 14] = [
        ("lock_key", |tx, t| tx.lock_key(t, &[1.into()])),
        ("try_lock_key", |tx, t| tx.try_lock_key(t, &[1.into()]).map(|_| ())),
        ("get", |tx, t| tx.get(t, &[1.into()]).map(|_| ())),
        ("get_with", |tx, t| tx.get_with(t, &[1.into()], |_| ()).map(|_| ())),
        ("get_by", |tx, t| tx.get_by(t, "by_n", &[1.into()]).map(|_| ())),
        ("range", |tx, t| tx.range::<[mmdb::Value<'_>; 1]>(t, "primary", ..).map(|_| ())),
        ("scan", |tx, t| tx.scan(t).map(|_| ())),
        ("scan_part", |tx, t| tx.scan_part(t, 0, 2).map(|_| ())),
        ("insert", |tx, t| tx.insert(t, &[1000.into(), 1.into()])),
        ("update", |tx, t| tx.update(t, &[1.into()], &[("n", 2.into())]).map(|_| ())),
        ("update_at", |tx, t| tx.update_at(t, &[1.into()], &[(1, 2.into())]).map(|_| ())),
        ("upsert", |tx, t| tx.upsert(t, &[1.into(), 2.into()]).map(|_| ())),
        ("delete", |tx, t| tx.delete(t, &[1.into()]).map(|_| ())),
        ("delete of none", |tx, t| tx.delete(t, &[5000.into()]).map(|_| ())),
    ];
    for (what, call) in calls {
        let mut tx = db.begin().unwrap();
        let e = call(&mut tx, t).unwrap_err();
        assert!(matches!(e, Error::NoSuchTable { .. }), "{what}: {e}");
        tx.commit().unwrap().wait().unwrap();
    }
    assert!(matches!(db.fill(t), Err(Error::NoSuchTable { .. })), "fill");
    let e = db.drop_table(t).expect_err("drop_table");
    assert!(matches!(e, Error::NoSuchTable { .. }), "drop_table: {e}");
}

#[test]
fn a_handle_of_another_database_does_nothing_here_and_nothing_there() {
    for logging in [Logging::Logged, Logging::Volatile] {
        let (here, there) = (CrashMedium::new(1), CrashMedium::new(2));
        let a = Database::open("/db", options(&here)).unwrap();
        let b = Database::open("/db", options(&there)).unwrap();
        let (mine, foreign) = (with_rows(&a, logging), with_rows(&b, logging));
        is_refused_everywhere(&a, &foreign);
        is_refused_everywhere(&b, &mine);
        for db in [&a, &b] {
            assert_eq!(count(db), 100);
            db.checkpoint().unwrap();
            db.verify().unwrap();
        }
        drop((a, b, mine, foreign));
        let kept = if logging == Logging::Logged { 100 } else { 0 };
        for m in [&here, &there] {
            assert_eq!(count(&Database::open("/db", options(m)).unwrap()), kept);
        }
    }
}

#[test]
fn a_handle_of_an_earlier_opening_does_nothing() {
    let m = CrashMedium::new(1);
    let db = Database::open("/db", options(&m)).unwrap();
    let stale = with_rows(&db, Logging::Logged);
    drop(db);
    let db = Database::open("/db", options(&m)).unwrap();
    is_refused_everywhere(&db, &stale);
    assert_eq!(count(&db), 100);
    db.checkpoint().unwrap();
    drop(db);
    assert_eq!(count(&Database::open("/db", options(&m)).unwrap()), 100);
}

#[test]
fn a_handle_of_a_table_whose_name_was_given_again_does_nothing() {
    let db = Database::in_memory().unwrap();
    let old = with_rows(&db, Logging::Logged);
    db.drop_table(&old).unwrap();
    with_rows(&db, Logging::Logged);
    is_refused_everywhere(&db, &old);
    assert_eq!(count(&db), 100);
}

/// A handle of a number that this database has not given yet.
#[test]
fn a_handle_of_a_number_that_no_table_has_is_refused() {
    let (a, b) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    is_refused_everywhere(&a, &with_rows(&b, Logging::Logged));
}
