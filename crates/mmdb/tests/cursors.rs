//! Changes at a cursor and of whole ranges while others work: what is locked, and that nothing is
//! lost. What a cursor shows is in `model.rs`.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Options, Sabotage, Schema, Table, Value};

/// For threads: none gives up because another one stands still for long.
fn patient() -> Options {
    Options { lock_timeout: std::time::Duration::from_secs(600), ..Options::in_memory() }
}

/// Ids 0, 10 … 90, each with its tenth.
fn database(locking: Locking, background: bool) -> (Database, Table) {
    let db = Database::open("/db", Options { background, ..patient() }).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let s = s.ordered_primary_key(&["id"]).ordered_index("by_n", &["n"]);
    let t = db.create_table(s.locking(locking)).unwrap();
    db.run(|tx| (0..10i64).try_for_each(|n| tx.insert(&t, &[(10 * n).into(), n.into()]))).unwrap();
    (db, t)
}

fn is_refused<T: std::fmt::Debug>(done: mmdb::Result<T>) -> bool {
    match done {
        Ok(_) => false,
        Err(Error::Deadlock { .. }) => true,
        Err(e) => panic!("{e}"),
    }
}

/// Nobody puts a row into a range that was deleted, by either of its keys, until that is committed;
/// beside it everybody does.
#[test]
fn no_row_comes_into_a_range_that_is_being_deleted() {
    for locking in [Locking::Record, Locking::Page, Locking::Container] {
        for index in ["primary", "by_n"] {
            let (db, t) = database(locking, false);
            // From 30 to 60 in both indexes.
            let scale = if index == "primary" { 10 } else { 1 };
            let bounds = [Value::Int(3 * scale)]..[Value::Int(6 * scale)];
            let mut tx = db.begin().unwrap();
            assert_eq!(tx.delete_range(&t, index, bounds.clone()).unwrap(), 3);
            assert_eq!(tx.delete_range(&t, index, bounds.clone()).unwrap(), 0, "they are gone for itself");
            let inserted = |id: i64, n: i64| db.begin().unwrap().insert(&t, &[id.into(), n.into()]);
            assert!(is_refused(inserted(45, 4)), "{locking:?} {index}: into the range");
            assert!(is_refused(inserted(40, 4)), "{locking:?} {index}: in the place of one that goes");
            assert!(is_refused(db.begin().unwrap().get(&t, &[40.into()])));
            if locking == Locking::Record {
                assert!(!is_refused(inserted(95, 9)), "{index}: beside the range");
                assert!(!is_refused(db.begin().unwrap().delete(&t, &[90.into()])));
            }
            tx.commit().unwrap().wait().unwrap();
            assert!(!is_refused(inserted(45, 4)), "{locking:?} {index}: afterwards");
            assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 7);
            db.verify().unwrap();
            assert_eq!(db.locks_held(), 0);
        }
    }
}

/// With the defect that keys are brought into ranges without a look at who has read them, the
/// insert above goes through: it is the range's lock that refuses it.
#[test]
fn a_range_that_is_deleted_without_its_lock_is_noticed() {
    let options = Options { background: false, sabotage: Sabotage::NoRangeClaims, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
    let t = db.create_table(s).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.delete_range(&t, "primary", [Value::Int(30)]..[Value::Int(60)]).unwrap(), 0);
    assert!(!is_refused(db.begin().unwrap().insert(&t, &[45.into()])));
}

/// A range with no rows is locked as well, and what is aborted was never deleted.
#[test]
fn an_empty_range_is_kept_empty_and_an_abort_brings_all_back() {
    let (db, t) = database(Locking::Record, false);
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.delete_range(&t, "primary", [Value::Int(41)]..[Value::Int(49)]).unwrap(), 0);
    assert!(is_refused(db.begin().unwrap().insert(&t, &[45.into(), 4.into()])));
    assert_eq!(tx.delete_range::<[Value<'_>; 0]>(&t, "by_n", ..).unwrap(), 10);
    assert_eq!(tx.scan(&t).unwrap().count(), 0);
    tx.abort();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 10);
    let mut tx = db.begin().unwrap();
    assert!(matches!(tx.delete_range(&t, "nope", [Value::Int(1)]..), Err(Error::NoSuchIndex { .. })));
}

/// A cursor for update keeps others from the rows that it has shown, one without only from changing
/// them.
#[test]
fn rows_at_a_cursor_are_locked_as_it_says() {
    let (db, t) = database(Locking::Record, false);
    for for_update in [false, true] {
        let mut tx = db.begin().unwrap();
        let cursor = tx.scan(&t).unwrap();
        let mut cursor = if for_update { cursor.for_update() } else { cursor };
        cursor.next().unwrap().unwrap();
        assert_eq!(is_refused(db.begin().unwrap().get(&t, &[0.into()])), for_update);
        assert!(is_refused(db.begin().unwrap().delete(&t, &[0.into()])));
        assert!(!is_refused(db.begin().unwrap().delete(&t, &[90.into()])), "it has not come there");
        assert!(cursor.update(&[("n", 100.into())]).unwrap());
        assert!(is_refused(db.begin().unwrap().get(&t, &[0.into()])));
    }
    assert_eq!(db.locks_held(), 0);
}

/// Threads that change every row at a cursor, forwards and backwards, by both indexes and without
/// order: no change is lost, and each commits.
#[test]
fn sweeps_of_many_threads_lose_nothing() {
    const SWEEPS: i64 = 20;
    let (db, t) = database(Locking::Record, true);
    std::thread::scope(|s| {
        for thread in 0..4 {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                for _ in 0..SWEEPS {
                    let swept = db.run(|tx| {
                        let all = tx.range(
                            t,
                            if thread % 2 == 0 { "primary" } else { "by_n" },
                            [Value::Int(-1)]..,
                        )?;
                        let all = if thread < 2 { all.for_update() } else { all };
                        let mut all = if thread == 3 { all.rev() } else { all };
                        let mut count = 0;
                        while let Some(n) = all.next_with(|row| row.at(1).as_int().unwrap())? {
                            all.update(&[("n", (n + 10).into())])?;
                            count += 1;
                        }
                        Ok::<_, Error>(count)
                    });
                    assert_eq!(swept.unwrap(), 10);
                }
            });
        }
    });
    let mut tx = db.begin().unwrap();
    let rows = tx.range(&t, "by_n", [Value::Int(0)]..).unwrap().map(Result::unwrap);
    let got: Vec<(i64, i64)> = rows.map(|r| (r.at(0).as_int().unwrap(), r.at(1).as_int().unwrap())).collect();
    let want: Vec<(i64, i64)> = (0..10).map(|n| (10 * n, n + 4 * SWEEPS * 10)).collect();
    assert_eq!(got, want);
    drop(tx);
    db.verify().unwrap();
}

/// More rows than a segment's frame can hold: the first part can be committed, and the rest
/// follows.
#[test]
fn a_range_that_is_too_much_for_one_transaction_goes_in_parts() {
    let options = Options { segment_bytes: 16 << 10, background: false, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("pad", ColumnType::FixedBytes(8));
    let t = db.create_table(s.ordered_primary_key(&["id"])).unwrap();
    for part in 0..40i64 {
        let ids = part * 100..(part + 1) * 100;
        db.run(|tx| ids.clone().try_for_each(|id| tx.insert(&t, &[id.into(), b"12345678".into()]))).unwrap();
    }
    let mut parts = 0;
    loop {
        let mut tx = db.begin().unwrap();
        let done = tx.delete_range::<[Value<'_>; 0]>(&t, "primary", ..);
        parts += 1;
        tx.commit().unwrap().wait().unwrap();
        match done {
            Ok(_) => break,
            Err(Error::TransactionTooLarge { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert!(parts > 1, "it fitted into one");
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 0);
    db.verify().unwrap();
}

/// The first row of a cursor for update that skips locked ones, by its id.
fn first_free(tx: &mut mmdb::Transaction<'_>, t: &Table, index: &str) -> mmdb::Result<Option<i64>> {
    let mut cursor = tx.range::<[Value<'_>; 0]>(t, index, ..)?.for_update().skip_locked();
    Ok(cursor.next_with(|row| row.at(0).as_int())?.flatten())
}

/// Each of several transactions gets a row of its own, none is refused, and what is given back is
/// the next one's; with locks of pages and containers nothing is free beside the first.
#[test]
fn clients_that_skip_locked_rows_take_one_each() {
    for index in ["primary", "by_n"] {
        let (db, t) = database(Locking::Record, false);
        let mut clients: Vec<_> = (0..10).map(|_| db.begin().unwrap()).collect();
        let ids = clients.iter_mut().map(|tx| first_free(tx, &t, index).unwrap());
        assert_eq!(ids.collect::<Vec<_>>(), (0..10).map(|n| Some(10 * n)).collect::<Vec<_>>(), "{index}");
        assert_eq!(first_free(&mut db.begin().unwrap(), &t, index).unwrap(), None, "{index}: none is free");
        clients.remove(3).abort();
        let mut next = db.begin().unwrap();
        assert_eq!(first_free(&mut next, &t, index).unwrap(), Some(30), "{index}: given back");
        next.delete(&t, &[30.into()]).unwrap();
        next.commit().unwrap().wait().unwrap();
        // What comes into the range is nobody's obstacle, and is seen by who looks next.
        db.run(|tx| tx.insert(&t, &[35.into(), 3.into()])).unwrap();
        assert_eq!(first_free(&mut db.begin().unwrap(), &t, index).unwrap(), Some(35));
        drop(clients);
        assert_eq!(db.locks_held(), 0, "{index}");
    }
    for locking in [Locking::Page, Locking::Container] {
        let (db, t) = database(locking, false);
        let (mut one, mut other) = (db.begin().unwrap(), db.begin().unwrap());
        assert_eq!(first_free(&mut one, &t, "primary").unwrap(), Some(0));
        assert_eq!(first_free(&mut other, &t, "primary").unwrap(), None, "{locking:?}: all on one page");
        drop((one, other));
        assert_eq!(db.locks_held(), 0);
    }
}

/// Who has the table whole is no locked row: a queue must not look empty because somebody reads it.
#[test]
fn a_table_that_is_locked_whole_is_not_skipped() {
    let (db, t) = database(Locking::Record, false);
    let mut reader = db.begin().unwrap();
    assert_eq!(reader.scan_part(&t, 0, 1).unwrap().count(), 10);
    let mut client = db.begin().unwrap();
    assert!(is_refused(first_free(&mut client, &t, "primary")), "it would have to wait");
    assert!(client.commit().is_err(), "and is not whole");
    drop(reader);
    assert_eq!(first_free(&mut db.begin().unwrap(), &t, "primary").unwrap(), Some(0));
    assert_eq!(db.locks_held(), 0);
}

/// Own rows come as ever, what was deleted does not, and rows that one has locked oneself are not
/// skipped. More rows than locks of ranges are allowed lock no table.
#[test]
fn own_rows_are_not_skipped_and_the_table_is_never_locked() {
    let options = Options { background: false, range_locks: 0, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
    let t = db.create_table(s).unwrap();
    db.run(|tx| (0..300i64).try_for_each(|id| tx.insert(&t, &[(2 * id).into()]))).unwrap();
    let mut tx = db.begin().unwrap();
    tx.delete(&t, &[0.into()]).unwrap();
    tx.insert(&t, &[1.into()]).unwrap();
    let other = db.begin().unwrap();
    let ids = |tx: &mut mmdb::Transaction<'_>| -> Vec<i64> {
        let cursor = tx.scan(&t).unwrap().for_update().skip_locked();
        cursor.map(|row| row.unwrap().at(0).as_int().unwrap()).collect()
    };
    let all: Vec<i64> = std::iter::once(1).chain((1..300).map(|id| 2 * id)).collect();
    assert_eq!(ids(&mut tx), all);
    assert_eq!(ids(&mut tx), all, "again");
    assert!(!is_refused(db.begin().unwrap().insert(&t, &[601.into()])), "the table is free");
    assert_eq!(ids(&mut db.begin().unwrap()), []);
    drop((tx, other));
    assert_eq!(db.locks_held(), 0);
}

/// Threads at the head of one queue: each row is taken once, all are, nothing that came meanwhile
/// is forgotten, and no transaction has to run again.
#[test]
fn threads_at_the_head_of_a_queue_take_each_row_once() {
    const ROWS: i64 = 2_000;
    let db = Database::open("/db", patient()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
    let t = db.create_table(s).unwrap();
    let (taken, runs) = (std::sync::Mutex::new(Vec::new()), std::sync::atomic::AtomicI64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..ROWS).for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap()));
        for _ in 0..8 {
            scope.spawn(|| {
                while taken.lock().unwrap().len() < ROWS as usize {
                    let id = db.run(|tx| {
                        runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let id = first_free(tx, &t, "primary")?;
                        id.map_or(Ok(false), |id| tx.delete(&t, &[id.into()]))?;
                        Ok::<_, Error>(id)
                    });
                    match id.unwrap() {
                        Some(id) => taken.lock().unwrap().push(id),
                        None => {
                            runs.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                            std::thread::yield_now();
                        }
                    }
                }
            });
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort_unstable();
    assert_eq!(taken, (0..ROWS).collect::<Vec<_>>());
    assert_eq!(runs.into_inner(), ROWS, "each ran once");
    assert_eq!(db.locks_held(), 0);
    db.verify().unwrap();
}
