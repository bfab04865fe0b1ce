//! A table that could not be filled is the table it was: empty, and there.
//!
//! `Fill::finish` that failed, or a `Fill` that was dropped, left a table that nobody could open,
//! drop or create anew until the database was opened again, with the memory of all its rows.

use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{ColumnType, Database, Error, Logging, Options, Schema, Table};
use std::path::Path;
use std::sync::Arc;

fn schema() -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("text", ColumnType::VarText(40))
        .primary_key(&["id"])
        .unique_ordered_index("by_n", &["n"])
        .hash_index("by_text", &["text"])
        .logging(Logging::Volatile)
}

fn fill(db: &Database, t: &Table, rows: impl Iterator<Item = (i64, i64)>) -> mmdb::Result<()> {
    let fill = db.fill(t)?;
    let mut writer = fill.writer();
    for (id, n) in rows {
        writer.put(&[id.into(), n.into(), "a text of more than 22 bytes".into()])?;
    }
    drop(writer);
    fill.finish()
}

/// The table is empty, and everything can be done with it.
fn is_as_new(db: &Database, t: &Table) {
    assert_eq!(db.table("t").unwrap().name(), "t");
    assert_eq!(db.begin().unwrap().scan(t).unwrap().count(), 0);
    assert_eq!((db.stats().tables[0].rows, db.stats().tables[0].containers), (0, 0));
    db.verify().unwrap();
    db.run(|tx| (0..3000i64).try_for_each(|i| tx.insert(t, &[i.into(), i.into(), "".into()]))).unwrap();
    db.verify().unwrap();
    db.checkpoint().unwrap();
    db.run(|tx| (0..3000i64).try_for_each(|i| tx.delete(t, &[i.into()]).map(|_| ()))).unwrap();
}

#[test]
fn a_fill_that_fails_leaves_the_table_empty_and_gives_its_memory_back() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(schema()).unwrap();
    let before = db.stats().memory_bytes;
    let twice = |part: i64, of: i64| (0..20_000).map(move |i| if i == part { of } else { i });
    for (what, ids, ns) in [("id", 19_999, -1), ("n", -1, 0), ("n", -1, 9999)] {
        let ids: Vec<i64> = twice(ids, 3).collect();
        let ns: Vec<i64> = twice(ns, 4).collect();
        let e = fill(&db, &t, ids.into_iter().zip(ns)).unwrap_err();
        assert!(matches!(&e, Error::DuplicateKey { table, .. } if table == "t"), "{what}: {e}");
        assert!(db.stats().memory_bytes < before + (64 << 10), "{} {}", before, db.stats().memory_bytes);
    }
    // A row that does not fit ends the writer's loop, and the fill is dropped.
    let abandoned = db.fill(&t).unwrap();
    abandoned.writer().put(&[1.into(), 1.into(), "".into()]).unwrap();
    assert!(abandoned.writer().put(&["no number".into()]).is_err());
    drop(abandoned);
    is_as_new(&db, &t);
    // It can be filled, and dropped, and its name be given again.
    let emptied = db.fill(&t);
    drop(emptied);
    db.drop_table(&t).unwrap();
    let t = db.create_table(schema()).unwrap();
    fill(&db, &t, (0..1000).map(|i| (i, i))).unwrap();
    assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 1000);
    db.verify().unwrap();
}

#[test]
fn a_fill_beyond_the_memory_limit_is_told_by_a_row_and_leaves_the_table_empty() {
    let db = Database::open("/db", Options { memory_limit: 4 << 20, ..Options::in_memory() }).unwrap();
    let t = db.create_table(schema()).unwrap();
    let e = fill(&db, &t, (0..1_000_000).map(|i| (i, i))).unwrap_err();
    assert!(matches!(e, Error::MemoryLimit { .. }), "{e}");
    is_as_new(&db, &t);
}

/// Wherever the process or the machine ends, the table exists afterwards and is empty: so its
/// schema says.
#[test]
fn a_fill_that_is_cut_off_anywhere_leaves_an_empty_table() {
    let options = |m: &CrashMedium| Options {
        medium: Arc::new(m.clone()),
        background: false,
        segment_bytes: 32 << 10,
        container_bytes: 4096,
        ..Options::in_memory()
    };
    for (call, kind) in (1..25).step_by(3).flat_map(|n| [(n, CrashKind::Power), (n, CrashKind::Kill)]) {
        for whole in [true, false] {
            let m = CrashMedium::new(call);
            let db = Database::open(Path::new("/db"), options(&m)).unwrap();
            let t = db.create_table(schema()).unwrap();
            m.set_faults(Faults { crash_at: Some(m.calls() + call), ..Faults::default() });
            let mut filled = fill(&db, &t, (0..300).map(|i| (if whole { i } else { i % 299 }, i)));
            assert_eq!(filled.is_ok(), whole);
            // Whatever the disk does meanwhile, a fill touches none of it.
            let _ = db.checkpoint();
            if !whole {
                filled = fill(&db, &t, (0..300).map(|i| (i, i)));
            }
            filled.unwrap();
            assert_eq!(db.stats().tables[0].rows, 300);
            let _ = db.checkpoint();
            m.crash(kind);
            drop((t, db));
            let db = Database::open(Path::new("/db"), options(&m)).unwrap();
            let t = db.table("t").unwrap();
            is_as_new(&db, &t);
        }
    }
}
