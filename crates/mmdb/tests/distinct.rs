//! An index that has all columns of the primary key needs no places behind its keys; it must answer
//! like any other.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Locking, Schema, Transaction, Value};

/// Keys of the rows from `(n)` to `(n)` in the index by n and id, and of those in the index by n
/// alone.
fn by_both(tx: &mut Transaction<'_>, t: &mmdb::Table, n: i64) -> [Vec<i64>; 2] {
    ["by_n_and_id", "by_n"].map(|index| {
        let rows = tx.range(t, index, [Value::Int(n)]..=[Value::Int(n)]).unwrap();
        rows.map(|row| row.unwrap().at(0).as_int().unwrap()).collect()
    })
}

#[test]
fn rows_that_come_change_move_and_go_are_in_it_once() {
    for locking in [Locking::Record, Locking::None] {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t")
            .column("id", ColumnType::Int64)
            .column("n", ColumnType::Int64)
            .column("text", ColumnType::VarText(4000))
            .primary_key(&["id"])
            .ordered_index("by_n_and_id", &["n", "id"])
            .ordered_index("by_n", &["n"]);
        let t = db.create_table(schema.locking(locking)).unwrap();
        let long = "x".repeat(3000);
        db.run(|tx| (0..200i64).try_for_each(|id| tx.insert(&t, &[id.into(), (id % 2).into(), "".into()])))
            .unwrap();
        let odd: Vec<i64> = (0..200).filter(|id| id % 2 == 1).collect();
        assert_eq!(by_both(&mut db.begin().unwrap(), &t, 1), [odd.clone(), odd]);

        let mut tx = db.begin().unwrap();
        // Its row no longer fits into its slot: gone from there, and here again under the same
        // keys.
        assert!(tx.update(&t, &[1.into()], &[("text", long.as_str().into())]).unwrap());
        // Another key in the index; and gone and back in one transaction.
        assert!(tx.update(&t, &[3.into()], &[("n", 7.into())]).unwrap());
        assert!(tx.delete(&t, &[5.into()]).unwrap());
        tx.insert(&t, &[5.into(), 7.into(), long.as_str().into()]).unwrap();
        assert!(tx.delete(&t, &[7.into()]).unwrap());
        let moved = vec![3, 5];
        let left: Vec<i64> = (0..200).filter(|id| id % 2 == 1 && ![3, 5, 7].contains(id)).collect();
        let before = [by_both(&mut tx, &t, 7), by_both(&mut tx, &t, 1)];
        for answer in before.iter().flatten() {
            let mut sorted = answer.clone();
            sorted.sort_unstable();
            assert!(sorted == moved || sorted == left, "its own changes: {sorted:?}");
        }
        tx.commit().unwrap().wait().unwrap();

        let mut tx = db.begin().unwrap();
        for (n, want) in [(7, moved), (1, left)] {
            let [with_key, mut plain] = by_both(&mut tx, &t, n);
            // Equal keys of the plain index are in the order of their places.
            plain.sort_unstable();
            assert_eq!((&with_key, &plain), (&want, &want), "{locking:?}");
        }
        drop(tx);
        db.verify().unwrap();
    }
}
