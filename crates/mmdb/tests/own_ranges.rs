//! Ranges that a large transaction reads among rows of its own.
//!
//! What happened: each cursor took all rows that its transaction had written to the table, made
//! their keys and sorted them. One that wrote 100,000 rows and read a short range after each of
//! them made 5,000,000,000 keys, with all its locks held. The mend: once there are many, they are
//! kept in the order of an index from the first range on that is read in it.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Cursor, Database, Logging, Options, Schema, Table, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn database(logging: Logging) -> (Database, Table) {
    let db = Database::open("/db", Options::in_memory()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let schema = schema.column("text", ColumnType::VarText(300)).ordered_primary_key(&["id"]);
    let t = db.create_table(schema.ordered_index("by_n", &["n"]).logging(logging)).unwrap();
    (db, t)
}

fn row(id: i64, n: i64, text: &str) -> [Value<'_>; 3] {
    [id.into(), n.into(), text.into()]
}

fn ids(cursor: Cursor<'_, '_>) -> Vec<i64> {
    cursor.map(|row| row.unwrap().at(0).as_int().unwrap()).collect()
}

/// Rows that come, change, move to larger slots and go, beside those that were there before.
#[test]
fn a_large_transaction_finds_its_own_rows_in_ranges() {
    let (db, t) = database(Logging::Logged);
    let mut model: BTreeMap<i64, i64> = (0..30).map(|id| (id, id % 7)).collect();
    db.run(|tx| model.iter().try_for_each(|(&id, &n)| tx.insert(&t, &row(id, n, "")))).unwrap();
    let mut dice = 1u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((dice >> 33) % sides) as i64
    };
    let long = "x".repeat(200);
    let texts = ["", "for a larger slot than that of before", long.as_str()];
    let mut tx = db.begin().unwrap();
    for step in 0..600 {
        let (id, n, text) = (roll(60), roll(7), texts[roll(3) as usize]);
        match roll(4) {
            0 => assert_eq!(tx.delete(&t, &[id.into()]).unwrap(), model.remove(&id).is_some()),
            1 => {
                let set = [("n", n.into()), ("text", text.into())];
                let is_there = tx.update(&t, &[id.into()], &set).unwrap();
                assert_eq!(is_there, model.contains_key(&id));
                if let Some(there) = model.get_mut(&id) {
                    *there = n;
                }
            }
            _ => {
                let was_there = tx.upsert(&t, &row(id, n, text)).unwrap();
                assert_eq!(was_there, model.insert(id, n).is_some());
            }
        }
        let (a, b) = (roll(60), roll(60));
        let (from, to) = (a.min(b), a.max(b));
        let shown = ids(tx.range(&t, "primary", [Value::Int(from)]..[Value::Int(to)]).unwrap());
        let want: Vec<i64> = model.keys().copied().filter(|id| (from..to).contains(id)).collect();
        assert_eq!(shown, want, "step {step}");
        let mut shown = ids(tx.range(&t, "by_n", [Value::Int(n)]..=[Value::Int(n + 1)]).unwrap().rev());
        shown.sort_unstable();
        let want = model.iter().filter(|entry| (n..=n + 1).contains(entry.1));
        assert_eq!(shown, want.map(|entry| *entry.0).collect::<Vec<_>>(), "step {step}");
    }
    tx.commit().unwrap().wait().unwrap();
    assert_eq!(ids(db.begin().unwrap().scan(&t).unwrap()), model.into_keys().collect::<Vec<_>>());
    db.verify().unwrap();
}

#[test]
fn many_ranges_of_a_large_transaction_take_no_time() {
    // No frame of a small segment holds so much.
    let (db, t) = database(Logging::Volatile);
    let began = Instant::now();
    let mut tx = db.begin().unwrap();
    for id in 0..50_000 {
        tx.insert(&t, &row(id, id, "")).unwrap();
        assert_eq!(ids(tx.range(&t, "by_n", [Value::Int(id)]..).unwrap()), [id]);
    }
    tx.commit().unwrap().wait().unwrap();
    // It was minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

/// What is changed at a cursor lies ahead of it then, and is not shown again, though it takes the
/// rows of its transaction a few at a time.
#[test]
fn a_row_that_moves_ahead_of_a_cursor_does_not_come_again() {
    let (db, t) = database(Logging::Logged);
    db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&t, &row(2 * id, 2 * id, "")))).unwrap();
    let mut tx = db.begin().unwrap();
    (0..100i64).for_each(|id| tx.insert(&t, &row(2 * id + 1, 2 * id + 1, "")).unwrap());
    for reverse in [false, true] {
        let by = if reverse { -1000 } else { 1000 };
        let cursor = tx.range(&t, "by_n", [Value::Int(i64::MIN)]..).unwrap().for_update();
        let mut cursor = if reverse { cursor.rev() } else { cursor };
        let (mut shown, mut want) = (Vec::new(), (0..200i64).collect::<Vec<_>>());
        while let Some((id, n)) = cursor.next_with(|row| (row.at(0).as_int(), row.at(1).as_int())).unwrap() {
            shown.push(id.unwrap());
            assert!(cursor.update(&[("n", (n.unwrap() + by).into())]).unwrap());
        }
        if reverse {
            want.reverse();
        }
        assert_eq!(shown, want);
    }
    tx.commit().unwrap().wait().unwrap();
    let mut tx = db.begin().unwrap();
    let mut count = 0;
    for row in tx.scan(&t).unwrap() {
        let row = row.unwrap();
        assert_eq!(row.at(0), row.at(1));
        count += 1;
    }
    assert_eq!(count, 200);
    db.verify().unwrap();
}

/// Each cursor copied the keys of all rows of its own, though one row was taken.
#[test]
fn who_takes_the_first_of_many_own_rows_again_and_again_is_done_in_no_time() {
    const ROWS: i64 = 50_000;
    let (db, t) = database(Logging::Volatile);
    let began = Instant::now();
    let mut tx = db.begin().unwrap();
    (0..ROWS).for_each(|id| tx.insert(&t, &row(id, id, "")).unwrap());
    for id in 0..ROWS {
        let mut queue = tx.scan(&t).unwrap().prefetch(1).for_update();
        assert_eq!(queue.next_with(|row| row.at(0).as_int()).unwrap(), Some(Some(id)));
        assert!(queue.delete().unwrap());
    }
    assert_eq!(tx.scan(&t).unwrap().count(), 0);
    tx.commit().unwrap().wait().unwrap();
    // It was minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
