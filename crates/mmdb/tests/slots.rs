//! What happened: a transaction that had inserted into a table without locking, and was undone
//! after the table's definition had changed, kept its slots for good, for any change was taken for
//! a fill. After that was mended, a change of the columns still was.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use mmdb::{Column, ColumnType, Database, Locking, Schema, Table};

/// A table grows by nothing if one transaction after another is undone behind a change of it.
fn undone_beside(change: impl Fn(&Database, &Table, usize) -> Table) {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("a", ColumnType::VarText(60_000));
    let mut t = db.create_table(schema.primary_key(&["id"]).locking(Locking::None)).unwrap();
    let wide = "w".repeat(60_000);
    let before = db.stats().memory_bytes;
    for round in 0..200 {
        let mut row = vec![1.into(), (&*wide).into()];
        row.resize(t.schema().columns.len(), 0.into());
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &row).unwrap();
        t = change(&db, &t, round);
        tx.abort();
    }
    let grown = db.stats().memory_bytes.saturating_sub(before);
    assert!(grown < 2 << 20, "an empty table has grown by {grown} bytes");
}

#[test]
fn an_undone_transaction_gives_its_slots_back_though_a_column_has_another_name() {
    undone_beside(|db, t, round| {
        let (name, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        db.rename_column(t, name, to).unwrap();
        t.clone()
    });
}

#[test]
fn an_undone_transaction_gives_its_slots_back_though_columns_come_and_go() {
    undone_beside(|db, t, round| {
        let tries = Column { name: "tries".into(), kind: ColumnType::Int16, nullable: false };
        if round % 2 == 0 { db.add_column(t, tries, 0.into()) } else { db.drop_column(t, "tries") }.unwrap()
    });
}
