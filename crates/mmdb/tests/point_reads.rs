//! Reads of rows by their keys outside of transactions, and of many keys at once.
#![allow(clippy::unwrap_used)]

use mmdb::{
    Column, ColumnType, Database, Durability, Error, Locking, Logging, Options, Schema, Table, Value,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn numbers(db: &Database, name: &str, locking: Locking) -> Table {
    let schema = Schema::new(name).column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    db.create_table(schema.primary_key(&["id"]).locking(locking)).unwrap()
}

fn number(db: &Database, t: &Table, id: i64) -> Option<i64> {
    db.get_with(t, &[id.into()], |row| row.at(1).as_int().unwrap()).unwrap()
}

const ALL: [Locking; 4] = [Locking::Record, Locking::Page, Locking::Container, Locking::None];

#[test]
fn a_read_sees_the_last_commit_and_waits_for_nobody() {
    for locking in ALL {
        let db = Database::in_memory().unwrap();
        let t = numbers(&db, "t", locking);
        assert_eq!(number(&db, &t, 1), None);
        db.run(|tx| tx.insert(&t, &[1.into(), 10.into()])).unwrap();
        assert_eq!(number(&db, &t, 1), Some(10));
        // What this thread has not committed is not seen, and its locks are in nobody's way.
        let mut tx = db.begin().unwrap();
        tx.update(&t, &[1.into()], &[("n", 11.into())]).unwrap();
        tx.insert(&t, &[2.into(), 20.into()]).unwrap();
        let (db2, t2) = (db.clone(), t.clone());
        let seen = std::thread::spawn(move || (number(&db2, &t2, 1), number(&db2, &t2, 2))).join().unwrap();
        assert_eq!(seen, (Some(10), None));
        assert_eq!((number(&db, &t, 1), number(&db, &t, 2)), (Some(10), None));
        drop(tx.commit_with(Durability::Lazy).unwrap());
        assert_eq!((number(&db, &t, 1), number(&db, &t, 2)), (Some(11), Some(20)));
        db.run(|tx| tx.delete(&t, &[1.into()])).unwrap();
        assert_eq!(number(&db, &t, 1), None);
        assert!(db.get(&t, &[2.into()]).unwrap().is_some());
        assert_eq!(db.locks_held(), 0);
    }
}

/// Every number of keys around the size of a batch, with missing ones and some twice.
#[test]
fn many_keys_are_read_as_each_alone() {
    for ordered in [false, true] {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t")
            .column("name", ColumnType::VarText(80))
            .column("part", ColumnType::Int16)
            .column("body", ColumnType::VarBytes(3000));
        let columns = ["name", "part"];
        let schema =
            if ordered { schema.ordered_primary_key(&columns) } else { schema.primary_key(&columns) };
        let t = db.create_table(schema).unwrap();
        // Keys of more than 22 bytes, and rows of several size classes.
        let name = |n: i64| format!("{n:0>width$}", width = n as usize % 70 + 1);
        let body = vec![7u8; 3000];
        db.run(|tx| {
            (0..300i64).try_for_each(|n| {
                let length = n as usize * 37 % 3000;
                tx.insert(&t, &[name(n).as_str().into(), (n % 5).into(), body[..length].into()])
            })
        })
        .unwrap();
        let snapshot = db.snapshot().unwrap();
        for count in [0, 1, 2, 15, 16, 17, 31, 32, 33, 300] {
            let names: Vec<String> = (0..count).map(|n| name(n * 7 % 350)).collect();
            let keys: Vec<[Value<'_>; 2]> = (0..count)
                .zip(&names)
                .map(|(n, name)| [name.as_str().into(), (n * 7 % 350 % 5).into()])
                .collect();
            let mut tx = db.begin().unwrap();
            let alone: Vec<_> = keys.iter().map(|key| tx.get(&t, key).unwrap()).collect();
            assert_eq!(db.get_many(&t, &keys).unwrap(), alone);
            assert_eq!(tx.get_many(&t, &keys).unwrap(), alone);
            assert_eq!(snapshot.get_many(&t, &keys).unwrap(), alone);
            assert_eq!(keys.iter().map(|key| db.get(&t, key).unwrap()).collect::<Vec<_>>(), alone);
            let (mut next, mut lent) = (0, Vec::new());
            db.get_many_with(&t, &keys, |n, row| {
                assert_eq!(n, next, "in the order of the keys");
                next += 1;
                lent.push(row.map(|row| row.to_row()));
            })
            .unwrap();
            assert_eq!(lent, alone);
        }
        let missing = db.get_many(&t, (0..300).map(|_| ["none".into(), Value::Int(1)])).unwrap();
        assert!(missing.iter().all(Option::is_none));
    }
}

/// A transaction sees its own changes, and a snapshot those of its moment.
#[test]
fn many_keys_are_read_as_who_reads_them_sees_them() {
    let db = Database::in_memory().unwrap();
    let t = numbers(&db, "t", Locking::Record);
    db.run(|tx| (0..20i64).try_for_each(|id| tx.insert(&t, &[id.into(), 0.into()]))).unwrap();
    let snapshot = db.snapshot().unwrap();
    db.run(|tx| {
        tx.delete(&t, &[3.into()])?;
        tx.update(&t, &[4.into()], &[("n", 1.into())])
    })
    .unwrap();
    let mut tx = db.begin().unwrap();
    tx.delete(&t, &[5.into()]).unwrap();
    tx.update(&t, &[6.into()], &[("n", 2.into())]).unwrap();
    tx.insert(&t, &[30.into(), 3.into()]).unwrap();
    let keys = [3i64, 4, 5, 6, 30].map(|id| [Value::Int(id)]);
    let n = |rows: Vec<Option<mmdb::Row>>| {
        rows.iter().map(|row| row.as_ref().map(|row| row.at(1).as_int().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(n(snapshot.get_many(&t, keys).unwrap()), [Some(0), Some(0), Some(0), Some(0), None]);
    assert_eq!(n(db.get_many(&t, keys).unwrap()), [None, Some(1), Some(0), Some(0), None]);
    assert_eq!(n(tx.get_many(&t, keys).unwrap()), [None, Some(1), None, Some(2), Some(3)]);
    // And it locks what it reads.
    let db = Database::open("/db", Options { background: false, ..Options::in_memory() }).unwrap();
    let t = numbers(&db, "t", Locking::Record);
    db.run(|tx| tx.insert(&t, &[1.into(), 0.into()])).unwrap();
    let (mut reader, mut writer) = (db.begin().unwrap(), db.begin().unwrap());
    reader.get_many(&t, [[Value::Int(1)], [Value::Int(2)]]).unwrap();
    assert!(matches!(writer.insert(&t, &[2.into(), 0.into()]), Err(Error::Deadlock { .. })));
}

/// A read inside of what a read was given, on the same thread's buffers.
#[test]
fn what_is_lent_may_read_and_write() {
    let db = Database::in_memory().unwrap();
    let t = numbers(&db, "t", Locking::Record);
    db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&t, &[id.into(), (id + 1).into()]))).unwrap();
    let mut sum = 0;
    db.get_many_with(&t, (0..99i64).map(|id| [Value::Int(id)]), |_, row| {
        let next = row.unwrap().at(1).as_int().unwrap();
        let after = db.get_with(&t, &[next.into()], |row| row.at(1).as_int().unwrap()).unwrap().unwrap();
        assert_eq!(after, next + 1);
        // The row that is lent, and its container.
        db.run(|tx| tx.update(&t, &[(next - 1).into()], &[("n", next.into())])).unwrap();
        assert_eq!(row.unwrap().at(1), next.into(), "what was lent stays");
        sum += after;
    })
    .unwrap();
    assert_eq!(sum, (2..=100).sum::<i64>());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let db = Database::in_memory().unwrap();
    let t = numbers(&db, "t", Locking::Record);
    db.run(|tx| (0..40i64).try_for_each(|id| tx.insert(&t, &[id.into(), 0.into()]))).unwrap();
    assert!(matches!(db.get(&t, &["1".into()]), Err(Error::Value { .. })));
    assert!(matches!(db.get(&t, &[]), Err(Error::Operation { .. })));
    assert!(matches!(db.get(&t, &[1.into(), 2.into()]), Err(Error::Operation { .. })));
    // The rows of earlier batches were given by then, those of the key's own batch not.
    let mut given = 0;
    let keys = (0..40i64).map(|id| [if id == 20 { Value::Null } else { Value::Int(id) }]);
    let refused = db.get_many_with(&t, keys.clone(), |_, _| given += 1);
    assert!(matches!(refused, Err(Error::Value { .. })) && given == 16, "{given}");
    let snapshot = db.snapshot().unwrap();
    assert!(matches!(snapshot.get_many(&t, keys.clone()), Err(Error::Value { .. })));
    assert!(matches!(db.begin().unwrap().get_many(&t, keys), Err(Error::Value { .. })));
    drop(snapshot);
    // Another database's, and one that is gone.
    let other = Database::in_memory().unwrap();
    assert!(matches!(other.get(&t, &[1.into()]), Err(Error::NoSuchTable { .. })));
    assert!(matches!(other.get_many(&t, [[Value::Int(1)]]), Err(Error::NoSuchTable { .. })));
    db.drop_table(&t).unwrap();
    assert!(matches!(db.get(&t, &[1.into()]), Err(Error::NoSuchTable { .. })));
    assert!(matches!(db.get_many(&t, [[Value::Int(1)]]), Err(Error::NoSuchTable { .. })));
    // No key is asked for, so nothing is read, and nothing refused.
    assert_eq!(db.get_many(&t, [[Value::Int(1)]; 0]).unwrap(), []);
}

#[test]
fn a_handle_of_before_reads_in_the_columns_of_today() {
    let db = Database::in_memory().unwrap();
    let old = numbers(&db, "t", Locking::Record);
    db.run(|tx| (0..20i64).try_for_each(|id| tx.insert(&old, &[id.into(), 1.into()]))).unwrap();
    let more = Column { name: "more".into(), kind: ColumnType::Int64, nullable: false };
    let new = db.add_column(&old, more, 7.into()).unwrap();
    db.run(|tx| tx.insert(&new, &[20.into(), 2.into(), 9.into()])).unwrap();
    for t in [&old, &new] {
        let rows = db.get_many(t, (0..21i64).map(|id| [Value::Int(id)])).unwrap();
        let more: Vec<_> = rows.iter().map(|row| row.as_ref().unwrap().at(2).as_int().unwrap()).collect();
        assert_eq!((more[0], more[19], more[20]), (7, 7, 9));
        assert_eq!(db.get(t, &[20.into()]).unwrap().unwrap().at(2), 9.into());
    }
    let last = db.drop_column(&new, "n").unwrap();
    assert!(matches!(db.get(&old, &[1.into()]), Err(Error::TableChanged { .. })));
    assert!(matches!(db.get_many(&old, [[Value::Int(1)]]), Err(Error::TableChanged { .. })));
    assert_eq!(db.get(&last, &[1.into()]).unwrap().unwrap().at(1), 7.into());
}

#[test]
fn a_table_that_is_being_filled_is_not_there() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(schema.primary_key(&["id"]).logging(Logging::Volatile)).unwrap();
    let fill = db.fill(&t).unwrap();
    fill.writer().put(&[1.into(), 5.into()]).unwrap();
    assert!(matches!(db.get(&t, &[1.into()]), Err(Error::NoSuchTable { .. })));
    fill.finish().unwrap();
    assert_eq!(number(&db, &t, 1), Some(5));
}

#[test]
fn a_poisoned_database_is_not_read() {
    let disk = mmdb::medium::CrashMedium::new(1);
    let options = Options { medium: std::sync::Arc::new(disk.clone()), ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let t = numbers(&db, "t", Locking::Record);
    db.run(|tx| tx.insert(&t, &[1.into(), 1.into()])).unwrap();
    // Again and again: the sync that fails may be that of a segment which is being got ready, and
    // that poisons nothing.
    let began = std::time::Instant::now();
    while !db.stats().poisoned && began.elapsed().as_secs() < 60 {
        let fails = mmdb::medium::Faults { sync_error_at: Some(disk.calls() + 1), ..Default::default() };
        disk.set_faults(fails);
        let _ = db.run(|tx| tx.upsert(&t, &[1.into(), 2.into()]));
    }
    assert!(matches!(db.get(&t, &[1.into()]), Err(Error::Poisoned { .. })));
    assert!(matches!(db.get_many(&t, [[Value::Int(1)]]), Err(Error::Poisoned { .. })));
}

/// Rows that outgrow their slots and shrink, and that are deleted and inserted again by one
/// transaction, beside checkpoints: each is found at every moment, whole, and never older than it
/// was seen before.
#[test]
fn rows_that_move_are_found_whole_and_never_go_back() {
    const KEYS: i64 = 40;
    for locking in ALL {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t")
            .column("id", ColumnType::Int64)
            .column("n", ColumnType::Int64)
            .column("again", ColumnType::Int64);
        let schema = schema.column("body", ColumnType::VarBytes(2000)).primary_key(&["id"]).locking(locking);
        let t = db.create_table(schema).unwrap();
        let body = vec![1u8; 2000];
        let row = |id: i64, n: i64| {
            [id.into(), n.into(), n.into(), body[..((n * 631 + id * 97) % 2000) as usize].into()]
        };
        db.run(|tx| (0..KEYS).try_for_each(|id| tx.insert(&t, &row(id, 0)))).unwrap();
        let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for many in [false, true] {
                let (db, t, stop, reads) = (&db, &t, &stop, &reads);
                scope.spawn(move || {
                    let mut last = vec![0; KEYS as usize];
                    let mut check = |id: usize, row: Option<mmdb::RowView<'_>>| {
                        let row = row.unwrap_or_else(|| panic!("{locking:?}: {id} is missed"));
                        let (n, length) = (row.at(1).as_int().unwrap(), row.at(3).as_bytes().unwrap().len());
                        assert_eq!(row.at(0), (id as i64).into());
                        assert_eq!(row.at(2), n.into(), "a row is of one commit");
                        assert_eq!(length as i64, (n * 631 + id as i64 * 97) % 2000);
                        assert!(n >= last[id], "{id}: {n} after {}", last[id]);
                        last[id] = n;
                    };
                    while !stop.load(Ordering::Relaxed) {
                        if many {
                            let keys = (0..KEYS).map(|id| [Value::Int(id)]);
                            db.get_many_with(t, keys, &mut check).unwrap();
                        } else {
                            for id in 0..KEYS {
                                let row = db.get(t, &[id.into()]).unwrap();
                                check(id as usize, row.as_ref().map(|row| row.view()));
                            }
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for n in 1..=300 {
                for id in 0..KEYS {
                    let change = |tx: &mut mmdb::Transaction<'_>| {
                        if n % 3 == 0 {
                            tx.delete(&t, &[id.into()])?;
                            return tx.insert(&t, &row(id, n));
                        }
                        tx.upsert(&t, &row(id, n)).map(drop)
                    };
                    drop(db.run_with(Durability::Lazy, change).unwrap());
                }
                if n % 50 == 0 {
                    db.checkpoint().unwrap();
                }
            }
            while reads.load(Ordering::Relaxed) < 4 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        db.verify().unwrap();
    }
}
