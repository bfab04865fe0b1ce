//! The standard anomalies, at each lock granularity: none may happen. With locking off some do,
//! which shows that the tests can see them.
//!
//! Names: P0–P4, A5A, A5B of Berenson et al. (SIGMOD 1995), G0, G1a–c, OTV of Adya (1999) and
//! Bailis et al. (2014), the read-only anomaly of Fekete et al. (SIGMOD Record 2004).
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Options, Schema, Table, Transaction, Value};

/// On one thread, conflicts are refused instead of waited for, so every interleaving can be written
/// down.
fn open(locking: Locking) -> (Database, Table) {
    let db = Database::open("/db", Options { background: false, ..Options::in_memory() }).unwrap();
    let s = Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("v", ColumnType::Int64)
        .ordered_primary_key(&["id"])
        .hash_index("by_v", &["v"])
        .locking(locking);
    let t = db.create_table(s).unwrap();
    db.run(|tx| {
        tx.insert(&t, &[1.into(), 10.into()])?;
        tx.insert(&t, &[2.into(), 20.into()])
    })
    .unwrap();
    (db, t)
}

fn value(tx: &mut Transaction<'_>, t: &Table, id: i64) -> mmdb::Result<Option<i64>> {
    Ok(tx.get(t, &[id.into()])?.and_then(|r| r.at(1).as_int()))
}

fn set(tx: &mut Transaction<'_>, t: &Table, id: i64, v: i64) -> mmdb::Result<()> {
    tx.update(t, &[id.into()], &[("v", v.into())]).map(|_| ())
}

fn refused<T>(r: mmdb::Result<T>) -> bool {
    matches!(r, Err(Error::Deadlock { .. }))
}

/// For threads: none gives up because another one stands still for long.
fn patient() -> Options {
    Options { lock_timeout: std::time::Duration::from_secs(600), ..Options::in_memory() }
}

const ALL: [Locking; 3] = [Locking::Record, Locking::Page, Locking::Container];

/// G0: two transactions' writes interleave.
fn dirty_write(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 11).unwrap();
    if refused(set(&mut b, &t, 1, 12)) {
        return false;
    }
    set(&mut b, &t, 2, 22).unwrap();
    let _ = b.commit();
    set(&mut a, &t, 2, 21).unwrap();
    let _ = a.commit();
    true
}

/// P1: a value is read while its writer is still at work.
fn dirty_read(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 99).unwrap();
    let seen = value(&mut b, &t, 1);
    matches!(seen, Ok(Some(99)))
}

/// G1a: a value is read that is never committed.
fn aborted_read(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 99).unwrap();
    let seen = value(&mut b, &t, 1);
    a.abort();
    let committed = b.commit().is_ok();
    let after = value(&mut db.begin().unwrap(), &t, 1).unwrap();
    (committed && matches!(seen, Ok(Some(99)))) || after != Some(10)
}

/// G1b: a value is read that its writer overwrites before it commits.
fn intermediate_read(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 98).unwrap();
    let seen = value(&mut b, &t, 1);
    set(&mut a, &t, 1, 99).unwrap();
    a.commit().unwrap().wait().unwrap();
    matches!(seen, Ok(Some(98)))
}

/// G1c: each sees what the other wrote.
fn circular_information_flow(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 11).unwrap();
    // A coarse lock ends it here.
    let Ok(()) = set(&mut b, &t, 2, 22) else { return false };
    let (x, y) = (value(&mut a, &t, 2), value(&mut b, &t, 1));
    matches!((x, y), (Ok(Some(22)), Ok(Some(11)))) && a.commit().is_ok() && b.commit().is_ok()
}

/// OTV: a reader sees a transaction's first write and, behind another's, no longer its second.
fn observed_transaction_vanishes(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b, mut c) = (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 11).and_then(|()| set(&mut a, &t, 2, 19)).unwrap();
    if set(&mut b, &t, 1, 12).is_err() {
        return false;
    }
    a.commit().unwrap().wait().unwrap();
    let first = value(&mut c, &t, 1);
    let _ = set(&mut b, &t, 2, 18).and_then(|()| b.commit());
    let second = value(&mut c, &t, 2);
    matches!((first, second), (Ok(Some(11)), Ok(Some(18))))
}

/// P4: both read, both write what they computed.
fn lost_update(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let x = value(&mut a, &t, 1).unwrap().unwrap();
    let Ok(Some(y)) = value(&mut b, &t, 1) else { return false };
    let a_wrote = set(&mut a, &t, 1, x + 1).is_ok();
    let b_wrote = set(&mut b, &t, 1, y + 1).is_ok();
    if a_wrote {
        a.commit().unwrap().wait().unwrap();
    } else {
        a.abort();
    }
    b_wrote && b.commit().is_ok() && a_wrote
}

/// P4C: an update is lost between a cursor's read and its holder's write.
fn lost_update_under_a_cursor(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let row = a.scan(&t).unwrap().next().unwrap().unwrap();
    if set(&mut b, &t, 1, 50).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    set(&mut a, &t, 1, row.at(1).as_int().unwrap() + 1).is_ok() && a.commit().is_ok()
}

/// P2: the same read gives two answers.
fn fuzzy_read(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let first = value(&mut a, &t, 1).unwrap();
    if set(&mut b, &t, 1, 77).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    value(&mut a, &t, 1).unwrap() != first
}

/// A5A: one transaction sees two rows of different times.
fn read_skew(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let x = value(&mut a, &t, 1).unwrap().unwrap();
    if set(&mut b, &t, 1, 0).and_then(|()| set(&mut b, &t, 2, 30)).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    let y = value(&mut a, &t, 2).unwrap().unwrap();
    x + y != 30
}

/// A5B: each reads what the other writes.
fn write_skew(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    value(&mut a, &t, 2).unwrap();
    if value(&mut b, &t, 1).is_err() {
        return false;
    }
    let one = set(&mut a, &t, 1, 0).and_then(|()| a.commit());
    let two = set(&mut b, &t, 2, 0).and_then(|()| b.commit());
    one.is_ok() && two.is_ok()
}

/// A5B on predicates: each counts, then adds what the other should have counted.
fn write_skew_on_a_range(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let count = |tx: &mut Transaction<'_>| {
        tx.range(&t, "primary", [Value::Int(0)]..[Value::Int(9)]).map(Iterator::count)
    };
    if count(&mut a).is_err() || count(&mut b).is_err() {
        return false;
    }
    let one = a.insert(&t, &[5.into(), 50.into()]).and_then(|()| a.commit());
    let two = b.insert(&t, &[6.into(), 60.into()]).and_then(|()| b.commit());
    one.is_ok() && two.is_ok()
}

/// Fekete et al.: two writers have a serial order until a reader sees one of them.
fn read_only_anomaly(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut withdrawal, mut deposit) = (db.begin().unwrap(), db.begin().unwrap());
    let x = value(&mut withdrawal, &t, 1).unwrap().unwrap();
    let y = value(&mut withdrawal, &t, 2).unwrap().unwrap();
    if set(&mut deposit, &t, 2, y + 20).is_err() {
        return false;
    }
    deposit.commit().unwrap().wait().unwrap();
    let mut report = db.begin().unwrap();
    let seen = (value(&mut report, &t, 1).unwrap(), value(&mut report, &t, 2).unwrap());
    report.commit().unwrap().wait().unwrap();
    let wrote = set(&mut withdrawal, &t, 1, x - 11).is_ok() && withdrawal.commit().is_ok();
    wrote && seen == (Some(x), Some(y + 20))
}

/// P3: a range grows between two reads of it.
fn phantom_in_a_range(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let n = a.range(&t, "primary", [Value::Int(0)]..[Value::Int(9)]).unwrap().count();
    if b.insert(&t, &[5.into(), 50.into()]).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    a.range(&t, "primary", [Value::Int(0)]..[Value::Int(9)]).unwrap().count() != n
}

/// P3 the other way: a range shrinks between two reads of it.
fn phantom_by_a_delete(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let n = a.range(&t, "primary", [Value::Int(0)]..[Value::Int(9)]).unwrap().count();
    if b.delete(&t, &[2.into()]).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    a.range(&t, "primary", [Value::Int(0)]..[Value::Int(9)]).unwrap().count() != n
}

/// P3 by a scan of all rows, which a table with a hashed key reads by place.
fn phantom_in_a_scan(locking: Locking) -> bool {
    let (db, _) = open(locking);
    let s = Schema::new("hashed").column("id", ColumnType::Int64).primary_key(&["id"]).locking(locking);
    let t = db.create_table(s).unwrap();
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let n = a.scan(&t).unwrap().count();
    if b.insert(&t, &[5.into()]).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    a.scan(&t).unwrap().count() != n
}

/// P3 by a point: a key that was absent appears.
fn phantom_key(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(value(&mut a, &t, 5).unwrap(), None);
    if b.insert(&t, &[5.into(), 50.into()]).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    value(&mut a, &t, 5).unwrap().is_some()
}

/// P3 by a secondary index: a row enters the key that was read.
fn phantom_in_an_index(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let n = a.get_by(&t, "by_v", &[10.into()]).unwrap().len();
    if set(&mut b, &t, 2, 10).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    a.get_by(&t, "by_v", &[10.into()]).unwrap().len() != n
}

/// P3 by a secondary index, the other way: a row leaves the key that was read.
fn phantom_out_of_an_index(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let n = a.get_by(&t, "by_v", &[10.into()]).unwrap().len();
    if set(&mut b, &t, 1, 77).is_err() {
        return false;
    }
    b.commit().unwrap().wait().unwrap();
    a.get_by(&t, "by_v", &[10.into()]).unwrap().len() != n
}

/// Two transactions insert the same key, and neither sees the other.
fn double_insert(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    a.insert(&t, &[5.into(), 0.into()]).unwrap();
    let second = b.insert(&t, &[5.into(), 1.into()]);
    a.commit().unwrap().wait().unwrap();
    second.is_ok() && b.commit().is_ok()
}

/// A deleted row's key is reused while its deletion is not committed.
fn insert_over_uncommitted_delete(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    a.delete(&t, &[1.into()]).unwrap();
    !refused(b.insert(&t, &[1.into(), 0.into()])) && locking != Locking::None
}

fn committed(db: &Database, t: &Table, id: i64) -> Option<i64> {
    db.get_with(t, &[id.into()], |row| row.at(1).as_int()).unwrap().flatten()
}

/// Reads outside of transactions are *read committed*: what is not committed is never seen (P1,
/// G1a, G1b), and each of several has its own moment, which shows as P2, A5A and OTV. They wait for
/// nobody and refuse nobody.
#[test]
fn reads_outside_of_transactions_see_what_is_committed_each_in_its_moment() {
    for locking in ALL {
        let (db, t) = open(locking);
        let mut writer = db.begin().unwrap();
        set(&mut writer, &t, 1, 98).unwrap();
        assert_eq!(committed(&db, &t, 1), Some(10), "no dirty read");
        set(&mut writer, &t, 1, 99).unwrap();
        writer.abort();
        assert_eq!(committed(&db, &t, 1), Some(10), "no aborted read");
        let mut writer = db.begin().unwrap();
        set(&mut writer, &t, 1, 11).and_then(|()| set(&mut writer, &t, 1, 12)).unwrap();
        set(&mut writer, &t, 2, 22).unwrap();
        let x = committed(&db, &t, 1);
        drop(writer.commit().unwrap());
        assert_eq!((x, committed(&db, &t, 1)), (Some(10), Some(12)), "a fuzzy read, not an intermediate one");
        assert_eq!((x, committed(&db, &t, 2)), (Some(10), Some(22)), "read skew");
        // Of many keys too: each has its moment. What was read is in nobody's way.
        let many = |id: i64| [Value::Int(id)];
        let mut seen = Vec::new();
        db.get_many_with(&t, (0..40i64).map(|n| many(1 + n / 39)), |n, row| {
            if n == 0 {
                let mut writer = db.begin().unwrap();
                set(&mut writer, &t, 1, 0).and_then(|()| set(&mut writer, &t, 2, 34)).unwrap();
                drop(writer.commit().unwrap());
            }
            seen.push(row.and_then(|row| row.at(1).as_int()).unwrap());
        })
        .unwrap();
        assert_eq!((seen[0], seen[39]), (12, 34), "read skew");
        // A snapshot has one moment for all of them.
        let snapshot = db.snapshot().unwrap();
        let mut sum = 0;
        let keys = (0..40i64).map(|n| many(1 + n % 2));
        snapshot
            .get_many_with(&t, keys, |n, row| {
                if n == 0 {
                    let mut writer = db.begin().unwrap();
                    set(&mut writer, &t, 1, 1).and_then(|()| set(&mut writer, &t, 2, 33)).unwrap();
                    drop(writer.commit().unwrap());
                }
                sum += row.and_then(|row| row.at(1).as_int()).unwrap();
            })
            .unwrap();
        assert_eq!(sum, 20 * 34, "no read skew in a snapshot");
    }
}

macro_rules! anomalies {
    ($($name:ident: $f:ident;)*) => {
        anomalies! { @at record Record $($name: $f;)* }
        anomalies! { @at page Page $($name: $f;)* }
        anomalies! { @at container Container $($name: $f;)* }
    };
    (@at $module:ident $locking:ident $($name:ident: $f:ident;)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                assert!(!super::$f(super::Locking::$locking));
            })*
        }
    };
}

anomalies! {
    no_dirty_write: dirty_write;
    no_dirty_read: dirty_read;
    no_aborted_read: aborted_read;
    no_intermediate_read: intermediate_read;
    no_circular_information_flow: circular_information_flow;
    no_observed_transaction_vanishes: observed_transaction_vanishes;
    no_lost_update: lost_update;
    no_lost_update_under_a_cursor: lost_update_under_a_cursor;
    no_fuzzy_read: fuzzy_read;
    no_read_skew: read_skew;
    no_write_skew: write_skew;
    no_write_skew_on_a_range: write_skew_on_a_range;
    no_read_only_anomaly: read_only_anomaly;
    no_phantom_in_a_range: phantom_in_a_range;
    no_phantom_by_a_delete: phantom_by_a_delete;
    no_phantom_in_a_scan: phantom_in_a_scan;
    no_phantom_key: phantom_key;
    no_phantom_in_an_index: phantom_in_an_index;
    no_phantom_out_of_an_index: phantom_out_of_an_index;
    no_insert_over_an_uncommitted_delete: insert_over_uncommitted_delete;
    no_double_insert: double_insert;
}

#[test]
fn without_locking_the_anomalies_are_there_but_nothing_uncommitted_is_read() {
    let possible = [
        lost_update,
        lost_update_under_a_cursor,
        fuzzy_read,
        read_skew,
        write_skew,
        write_skew_on_a_range,
        read_only_anomaly,
        phantom_in_a_range,
        phantom_by_a_delete,
        phantom_in_a_scan,
        phantom_key,
        phantom_in_an_index,
        phantom_out_of_an_index,
        dirty_write,
    ];
    for (i, f) in possible.into_iter().enumerate() {
        assert!(f(Locking::None), "number {i}");
    }
    let impossible = [dirty_read, aborted_read, intermediate_read, circular_information_flow, double_insert];
    for (i, f) in impossible.into_iter().enumerate() {
        assert!(!f(Locking::None), "number {i}");
    }
}

/// Real threads: transfers keep the sum, and every balance is explained, at every granularity.
#[test]
fn concurrent_transfers_keep_the_sum() {
    for locking in ALL {
        let db = Database::open("/db", patient()).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::Int64);
        let t = db.create_table(s.primary_key(&["id"]).locking(locking)).unwrap();
        db.run(|tx| (0..10).try_for_each(|i| tx.insert(&t, &[i.into(), 100.into()]))).unwrap();
        std::thread::scope(|s| {
            for n in 0..4i64 {
                let (db, t) = (&db, &t);
                s.spawn(move || {
                    for i in 0..200 {
                        let (from, to) = ((i * 7 + n) % 10, (i * 3 + n * 5) % 10);
                        db.run(|tx| {
                            let x = value(tx, t, from)?.unwrap();
                            set(tx, t, from, x - 1)?;
                            let y = value(tx, t, to)?.unwrap();
                            set(tx, t, to, y + 1)
                        })
                        .unwrap();
                        if i % 20 == 0 {
                            let sum = db
                                .run(|tx| {
                                    let rows: mmdb::Result<Vec<_>> = tx.scan(t)?.collect();
                                    Ok::<_, Error>(
                                        rows?.iter().map(|r| r.at(1).as_int().unwrap()).sum::<i64>(),
                                    )
                                })
                                .unwrap();
                            assert_eq!(sum, 1000);
                        }
                    }
                });
            }
        });
        assert_eq!(db.locks_held(), 0);
        db.verify().unwrap();
    }
}

/// Without locking, operations and commits stay whole: the structure survives any contention.
#[test]
fn without_locking_the_structure_stays_sound() {
    let options = patient();
    let db = Database::open("/db", options.clone()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarText(200));
    let t =
        db.create_table(s.primary_key(&["id"]).ordered_index("by_v", &["v"]).locking(Locking::None)).unwrap();
    std::thread::scope(|s| {
        for n in 0..4usize {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                for i in 0..500usize {
                    let id = Value::Int(((i * 7 + n) % 8) as i64);
                    let text = "x".repeat(i * n % 150);
                    let done = db.run(|tx| match (i + n) % 3 {
                        0 => tx.upsert(t, &[id, text.as_str().into()]).map(|_| ()),
                        1 => tx.update(t, &[id], &[("v", text.as_str().into())]).map(|_| ()),
                        _ => tx.delete(t, &[id]).map(|_| ()),
                    });
                    assert!(matches!(done, Ok(()) | Err(Error::DuplicateKey { .. })), "{done:?}");
                }
            });
        }
    });
    db.verify().unwrap();
    let rows = |db: &Database| {
        let t = db.table("t").unwrap();
        let mut v: Vec<String> =
            db.begin().unwrap().scan(&t).unwrap().map(|r| r.unwrap().to_json()).collect();
        v.sort();
        v
    };
    let before = rows(&db);
    drop((t, db));
    assert_eq!(rows(&Database::open("/db", options).unwrap()), before);
}

/// Two transactions that change one row without locks: the second finds at its commit that the row
/// has gone, also if another row has taken its place since.
#[test]
fn without_locking_a_commit_notices_that_its_row_has_gone() {
    type Step = fn(&mut Transaction<'_>, &Table) -> bool;
    let changes: [Step; 3] = [
        |tx, t| tx.delete(t, &[1.into()]).unwrap(),
        |tx, t| tx.update(t, &[1.into()], &[("v", 7.into())]).unwrap(),
        |tx, t| tx.upsert(t, &[1.into(), 7.into()]).unwrap(),
    ];
    for change in changes {
        for refill in [false, true] {
            let db = Database::in_memory().unwrap();
            let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::Int64);
            let t = db.create_table(s.primary_key(&["id"]).locking(Locking::None)).unwrap();
            db.run(|tx| tx.insert(&t, &[1.into(), 1.into()])).unwrap();
            let mut late = db.begin().unwrap();
            assert!(change(&mut late, &t), "the row is there");
            db.run(|tx| tx.delete(&t, &[1.into()])).unwrap();
            if refill {
                // Free slots are taken last in, first out: one of these gets the row's.
                db.run(|tx| (2..600i64).try_for_each(|id| tx.insert(&t, &[id.into(), 2.into()]))).unwrap();
            }
            assert!(matches!(late.commit(), Err(Error::Conflict { .. })), "refilled: {refill}");
            assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), if refill { 598 } else { 0 });
            db.verify().unwrap();
        }
    }
}

/// Two transactions that add one key without locks: the second is refused at its commit.
#[test]
fn without_locking_a_commit_notices_that_its_key_is_taken() {
    let db = Database::in_memory().unwrap();
    let s =
        Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table(s.unique_hash_index("by_v", &["v"]).locking(Locking::None)).unwrap();
    for (id, v) in [(1i64, 2i64), (2, 1)] {
        let mut late = db.begin().unwrap();
        late.insert(&t, &[id.into(), v.into()]).unwrap();
        db.run(|tx| tx.insert(&t, &[1.into(), 1.into()])).unwrap();
        assert!(matches!(late.commit(), Err(Error::DuplicateKey { .. })), "{id}, {v}");
        db.run(|tx| tx.delete(&t, &[1.into()])).unwrap();
    }
}

/// An upsert of a key that another transaction inserted meanwhile failed with `DuplicateKey`, which
/// an upsert never means and nobody runs again. It is a conflict, after which it replaces the row.
/// An insert does mean its key to be new.
#[test]
fn without_locks_an_upsert_that_comes_second_is_a_conflict_and_an_insert_a_duplicate() {
    for unique in [false, true] {
        let db = Database::open("/db", Options { background: false, ..Options::in_memory() }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarBytes(900));
        let s = s.column("u", ColumnType::Int64).primary_key(&["id"]).locking(Locking::None);
        let t = db.create_table(if unique { s.unique_hash_index("by_u", &["u"]) } else { s }).unwrap();
        let row = |id: i64, len: usize| [id.into(), Value::Bytes(&[7; 900][..len]), id.into()];
        // Of a new row, of one that the first has changed since so that it outgrew its slot, and of
        // one that is gone again.
        for id in 1..4i64 {
            if id > 1 {
                db.run(|tx| tx.insert(&t, &row(id, 10))).unwrap();
            }
            let mut second = db.begin().unwrap();
            second.upsert(&t, &row(id, 700)).unwrap();
            match id {
                3 => db.run(|tx| tx.delete(&t, &[id.into()])).map(|_| ()).unwrap(),
                _ => db.run(|tx| tx.upsert(&t, &row(id, 300))).map(|_| ()).unwrap(),
            }
            let e = second.commit().unwrap_err();
            assert!(matches!(e, Error::Conflict { .. }) && e.is_retryable(), "{id}: {e}");
            let mut runs = 0;
            let replaced = db.run(|tx| {
                runs += 1;
                let there = tx.upsert(&t, &row(id, 700))?;
                if runs == 1 {
                    db.run(|tx| tx.upsert(&t, &row(id, 20)))?;
                }
                Ok::<_, Error>(there)
            });
            // In place or moved: the row that is there now is the second one's.
            assert!(runs <= 2 && replaced.is_ok(), "{id}: {replaced:?} in {runs} runs");
        }
        // Grown after it was inserted, it is an insert still.
        let mut second = db.begin().unwrap();
        second.insert(&t, &row(9, 10)).unwrap();
        second.upsert(&t, &row(9, 700)).unwrap();
        db.run(|tx| tx.insert(&t, &row(9, 10))).unwrap();
        let e = second.commit().unwrap_err();
        assert!(matches!(&e, Error::DuplicateKey { constraint, .. } if constraint == "primary"), "{e}");
        db.verify().unwrap();
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 4);
    }
}
