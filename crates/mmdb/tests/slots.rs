//! What happened: a transaction that had inserted into a table without locking, and was undone
//! after the table's definition had changed, kept its slots for good, for any change was taken for
//! a fill.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use mmdb::{ColumnType, Database, Locking, Schema};

#[test]
fn an_undone_transaction_gives_its_slots_back_though_the_definition_has_changed() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("a", ColumnType::VarText(60_000));
    let t = db.create_table(schema.primary_key(&["id"]).locking(Locking::None)).unwrap();
    let wide = "w".repeat(60_000);
    let before = db.stats().memory_bytes;
    for round in 0..200 {
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[1.into(), (&*wide).into()]).unwrap();
        let (name, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        db.rename_column(&t, name, to).unwrap();
        tx.abort();
    }
    let grown = db.stats().memory_bytes.saturating_sub(before);
    assert!(grown < 2 << 20, "an empty table has grown by {grown} bytes");
}
