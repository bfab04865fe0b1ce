//! Who reads by an index while it is dropped.
//!
//! What happened: the dropped index was emptied under an open cursor of a snapshot, which came to
//! its end with a few rows of a hundred, and without an error; so did a cursor of a transaction
//! over a table without locking, and a cursor on a standby whose primary dropped the index. Now
//! whoever reads by an index asks afterwards whether it is there still.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Options, Result, Row, Schema, Standby, Table, Value};

fn sample(options: &Options, locking: Locking) -> (Database, Table) {
    let db = Database::open("/db", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let schema = schema.primary_key(&["id"]).ordered_index("by_n", &["n"]).locking(locking);
    let t = db.create_table(schema).unwrap();
    db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into()]))).unwrap();
    (db, t)
}

fn is_dropped<T: std::fmt::Debug>(done: Result<T>) {
    assert!(matches!(&done, Err(Error::NoSuchIndex { index, .. }) if index == "by_n"), "{done:?}");
}

#[test]
fn a_cursor_of_a_snapshot_says_that_its_index_was_dropped() {
    let (db, t) = sample(&Options::in_memory(), Locking::Record);
    let snapshot = db.snapshot().unwrap();
    let mut cursor = snapshot.range(&t, "by_n", [Value::Int(0)]..).unwrap();
    let mut by_key = snapshot.scan(&t).unwrap();
    assert!(cursor.next().unwrap().is_ok() && by_key.next().unwrap().is_ok());
    db.drop_index(&t, "by_n").unwrap();
    // What was read together with the first row may come; then it says so, however often it is
    // asked.
    let e = cursor.find_map(|row: Result<Row>| row.err()).expect("rows are missing");
    is_dropped::<()>(Err(e));
    is_dropped(cursor.next_with(|_| ()));
    is_dropped(snapshot.get_by(&t, "by_n", &[1.into()]));
    // Others are not disturbed, though the table has another definition.
    assert_eq!(by_key.map(Result::unwrap).count(), 99);
}

#[test]
fn a_cursor_of_a_snapshot_of_a_standby_says_so_too() {
    let options = Options::in_memory();
    let (db, t) = sample(&options, Locking::Record);
    db.backup_for_standby("/standby").unwrap();
    let standby = Standby::open("/standby", options).unwrap();
    let (snapshot, there) = (standby.snapshot().unwrap(), standby.table("t").unwrap());
    let mut cursor = snapshot.range(&there, "by_n", [Value::Int(0)]..).unwrap().rev();
    assert!(cursor.next().unwrap().is_ok());
    db.drop_index(&t, "by_n").unwrap();
    let mut tail = db.tail(&standby.position()).unwrap();
    while let Some(frames) = tail.try_next().unwrap() {
        standby.apply(&frames).unwrap();
    }
    is_dropped::<()>(Err(cursor.find_map(|row: Result<Row>| row.err()).expect("rows are missing")));
}

#[test]
fn a_cursor_without_locks_is_to_run_again() {
    let (db, t) = sample(&Options::in_memory(), Locking::None);
    let mut runs = 0;
    let done: Result<usize> = db.run(|tx| {
        runs += 1;
        let mut cursor = tx.range(&t, "by_n", [Value::Int(0)]..)?;
        cursor.next().transpose()?;
        if runs == 1 {
            db.drop_index(&t, "by_n")?;
        }
        Ok(cursor.collect::<Result<Vec<Row>>>()?.len())
    });
    is_dropped(done);
    assert_eq!(runs, 2);
}
