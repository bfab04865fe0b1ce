//! The standard anomalies, at each lock granularity: none may happen. With locking off some do, which shows that the
//! tests can see them.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Options, Schema, Table, Transaction, Value};

/// On one thread, conflicts are refused instead of waited for, so every interleaving can be written down.
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

/// G1a, G1b: a value that is never committed, or not the last, is read.
fn dirty_read(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    set(&mut a, &t, 1, 99).unwrap();
    let seen = value(&mut b, &t, 1);
    matches!(seen, Ok(Some(99)))
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

/// A deleted row's key is reused while its deletion is not committed.
fn insert_over_uncommitted_delete(locking: Locking) -> bool {
    let (db, t) = open(locking);
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    a.delete(&t, &[1.into()]).unwrap();
    !refused(b.insert(&t, &[1.into(), 0.into()])) && locking != Locking::None
}

macro_rules! anomaly {
    ($($name:ident: $f:ident;)*) => { $(
        #[test]
        fn $name() {
            for locking in ALL {
                assert!(!$f(locking), "{locking:?}");
            }
        }
    )* };
}

anomaly! {
    no_dirty_write: dirty_write;
    no_dirty_read: dirty_read;
    no_lost_update: lost_update;
    no_fuzzy_read: fuzzy_read;
    no_read_skew: read_skew;
    no_write_skew: write_skew;
    no_phantom_in_a_range: phantom_in_a_range;
    no_phantom_key: phantom_key;
    no_phantom_in_an_index: phantom_in_an_index;
    no_insert_over_an_uncommitted_delete: insert_over_uncommitted_delete;
}

#[test]
fn without_locking_the_anomalies_are_there_but_nothing_uncommitted_is_read() {
    for f in [lost_update, fuzzy_read, read_skew, write_skew, phantom_in_a_range, phantom_key] {
        assert!(f(Locking::None));
    }
    assert!(!dirty_read(Locking::None));
}

/// Real threads: transfers keep the sum, and every balance is explained, at every granularity.
#[test]
fn concurrent_transfers_keep_the_sum() {
    for locking in ALL {
        let db = Database::in_memory().unwrap();
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
                                    Ok(rows?.iter().map(|r| r.at(1).as_int().unwrap()).sum::<i64>())
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
    let options = Options::in_memory();
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
