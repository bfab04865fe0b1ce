//! A table that is checkpointed but not logged comes back as of one moment.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashKind, CrashMedium};
use mmdb::{ColumnType, Database, Logging, Options, Schema, Table, Value};
use std::sync::Arc;

fn options(disk: &CrashMedium) -> Options {
    Options {
        medium: Arc::new(disk.clone()),
        background: false,
        segment_bytes: 32 << 10,
        container_bytes: 4096,
        ..Options::in_memory()
    }
}

fn table(db: &Database) -> Table {
    let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarText(400));
    let s = s.column("tag", ColumnType::Int64).primary_key(&["id"]).unique_hash_index("by_tag", &["tag"]);
    db.create_table(s.logging(Logging::Checkpointed)).unwrap()
}

fn put(db: &Database, t: &Table, id: i64, len: usize, tag: i64) {
    let text = "x".repeat(len);
    db.run(|tx| tx.upsert(t, &[id.into(), Value::Text(&text), tag.into()])).unwrap();
}

fn rows(db: &Database) -> Vec<(i64, usize, i64)> {
    let mut tx = db.begin().unwrap();
    let all = tx.scan(&db.table("t").unwrap()).unwrap();
    let mut rows: Vec<_> = all
        .map(|r| {
            r.map(|r| {
                (r.at(0).as_int().unwrap(), r.at(1).as_text().unwrap().len(), r.at(2).as_int().unwrap())
            })
        })
        .collect::<mmdb::Result<_>>()
        .unwrap();
    rows.sort();
    rows
}

/// A checkpoint copies a table container by container while its rows go on changing, and no log
/// repairs the copies of a table that is not logged. A row that outgrew its slot moved from a
/// container that was not copied yet to one that was, and was in neither image: lost without a
/// word, although it had been there all the time. One that moved the other way was in both, and so
/// was a unique key that two rows exchanged: "two rows share a key", and the whole database could
/// not be opened any more. The crash schedules found the first within 3,000 seeds. Now the images
/// are of the moment when the checkpoint began: whoever changes a container before it is copied
/// keeps a copy.
#[test]
fn a_checkpointed_table_comes_back_as_it_was_when_the_checkpoint_began() {
    for steps in 0..4 {
        for backup in [false, true] {
            let disk = CrashMedium::new(1);
            let db = Database::open("/db", options(&disk)).unwrap();
            let t = table(&db);
            // Containers of two classes, with a row in each.
            put(&db, &t, 1, 3, 1);
            put(&db, &t, 2, 300, 2);
            let before = [(1, 3, 1), (2, 300, 2)];
            let mut c = db.checkpoint_stepwise().unwrap();
            for _ in 0..steps {
                c.step().unwrap();
            }
            // Both rows change their containers, and their tags.
            put(&db, &t, 1, 300, 9);
            put(&db, &t, 2, 3, 1);
            put(&db, &t, 1, 300, 2);
            let after = [(1, 300, 2), (2, 3, 1)];
            c.finish().unwrap();
            if backup {
                db.backup("/copy").unwrap();
                let copy = Database::open("/copy", options(&disk)).unwrap();
                assert_eq!(rows(&copy), after, "{steps} steps");
            }
            drop((t, db));
            disk.crash(CrashKind::Power);
            let db = Database::open("/db", options(&disk)).unwrap();
            assert_eq!(rows(&db), before, "{steps} steps");
            db.verify().unwrap();
            // What was changed under the checkpoint is copied by the next ones.
            let t = db.table("t").unwrap();
            put(&db, &t, 3, 3, 3);
            db.checkpoint().unwrap();
            db.checkpoint().unwrap();
            drop((t, db));
            let db = Database::open("/db", options(&disk)).unwrap();
            assert_eq!(rows(&db), [(1, 3, 1), (2, 300, 2), (3, 3, 3)], "{steps} steps");
        }
    }
}

/// The next checkpoint of the same side must copy what changed under the last one, which took the
/// copy from before.
#[test]
fn a_change_under_a_checkpoint_is_in_the_next_ones() {
    let disk = CrashMedium::new(1);
    let db = Database::open("/db", options(&disk)).unwrap();
    let t = table(&db);
    put(&db, &t, 1, 3, 1);
    for side in 0..4i64 {
        let c = db.checkpoint_stepwise().unwrap();
        put(&db, &t, 1, 5, 10 + side);
        c.finish().unwrap();
    }
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    drop((t, db));
    disk.crash(CrashKind::Power);
    assert_eq!(rows(&Database::open("/db", options(&disk)).unwrap()), [(1, 5, 13)]);
}
