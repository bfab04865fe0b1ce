//! What a transaction holds of rows that it does not bring.
//!
//! What happened: a row that was refused, because its key was there, stayed in the transaction's
//! memory until its end. One that brought many rows of which most were there already, and went on
//! after each refusal, took memory for all of them: without a limit it never stopped growing, with
//! one it was refused with `MemoryLimit` though it had changed nothing. And a delete kept a copy of
//! each row in a table with a second index, of which it needed the keys only. The mend: what is
//! refused is forgotten at once, and so is what was read for its keys.
//!
//! And a transaction that changed some rows again and again held all that these rows had ever been:
//! one that kept counters up grew without bound. Now that is forgotten once it is half of what is
//! held.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Logging, Options, Schema, Table, Value};

const BODY: usize = 10_000;
const ROWS: i64 = 2000;

fn table(db: &Database) -> Table {
    let schema = Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("body", ColumnType::VarBytes(BODY as u16))
        .primary_key(&["id"])
        .unique_hash_index("by_n", &["n"])
        .logging(Logging::Volatile);
    db.create_table(schema).unwrap()
}

#[test]
fn rows_that_were_refused_take_no_memory() {
    let db = Database::open("/db", Options { memory_limit: 16 << 20, ..Options::in_memory() }).unwrap();
    let (t, body) = (table(&db), vec![7; BODY]);
    db.run(|tx| (0..2i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into(), Value::Bytes(&body)])))
        .unwrap();
    let mut tx = db.begin().unwrap();
    for id in 0..ROWS {
        // The primary key is there, or the second one of another row.
        let row = [(id % 3).into(), 1.into(), Value::Bytes(&body)];
        let refused = match id % 3 {
            0 => tx.insert(&t, &row),
            1 => tx.update(&t, &[0.into()], &[("n", 1.into()), ("body", row[2])]).map(drop),
            _ => tx.upsert(&t, &row).map(drop),
        };
        assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{id}: {refused:?}");
    }
    tx.insert(&t, &[3.into(), 3.into(), Value::Bytes(&body)]).unwrap();
    tx.commit().unwrap().wait().unwrap();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 3);
    db.verify().unwrap();
}

#[test]
fn a_delete_of_all_rows_holds_none_of_them() {
    let db = Database::open("/db", Options::in_memory()).unwrap();
    let (t, body) = (table(&db), vec![7; BODY]);
    db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&t, &[id.into(), id.into(), Value::Bytes(&body)])))
        .unwrap();
    let before = db.stats().memory_bytes;
    let mut tx = db.begin().unwrap();
    (0..ROWS).for_each(|id| assert!(tx.delete(&t, &[id.into()]).unwrap()));
    let more = db.stats().memory_bytes.saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes");
    tx.commit().unwrap().wait().unwrap();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 0);
    db.verify().unwrap();
}

#[test]
fn rows_that_are_changed_again_and_again_are_held_once() {
    const FEW: i64 = 20;
    let db = Database::open("/db", Options { memory_limit: 16 << 20, ..Options::in_memory() }).unwrap();
    let t = table(&db);
    let body = |n: i64| vec![n as u8; BODY];
    let before = db.stats().memory_bytes;
    let mut tx = db.begin().unwrap();
    for id in 0..FEW {
        tx.insert(&t, &[id.into(), id.into(), Value::Bytes(&body(id))]).unwrap();
    }
    for n in FEW..ROWS + FEW {
        let (id, body) = (n % FEW, body(n));
        let row = [id.into(), n.into(), Value::Bytes(&body)];
        let was_there = match n % 3 {
            0 => tx.upsert(&t, &row),
            _ => tx.update(&t, &[id.into()], &[("n", row[1]), ("body", row[2])]),
        };
        assert!(was_there.unwrap(), "{n}");
    }
    let more = db.stats().memory_bytes.saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes");
    for id in 0..FEW {
        let n = ROWS + id;
        let seen = tx.get_with(&t, &[id.into()], |row| {
            assert_eq!(row.at(1), n.into());
            row.at(2).as_bytes() == Some(&body(n)[..])
        });
        assert_eq!(seen.unwrap(), Some(true), "{id}");
        assert_eq!(tx.get_by(&t, "by_n", &[n.into()]).unwrap().len(), 1);
        assert!(tx.get_by(&t, "by_n", &[id.into()]).unwrap().is_empty());
    }
    tx.commit().unwrap().wait().unwrap();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), FEW as usize);
    db.verify().unwrap();
}
