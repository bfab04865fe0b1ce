//! A table that is dropped gives its memory back to the limit and to the tables that come after it:
//! the process does not grow.
//!
//! Not to the system: an allocator keeps what lies between other pieces. Alone in its process,
//! whose resident memory is the database's.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use mmdb::{ColumnType, Database, Durability, Error, Options, Schema, Value};

/// Memory of this process that no file is behind, bytes. A machine that is short of memory takes
/// pages of the program away, and others to the swap.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let lines = status.lines().filter(|l| l.starts_with("RssAnon:") || l.starts_with("VmSwap:"));
    lines.map(|l| l.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() << 10).sum()
}

#[test]
fn dropping_a_large_table_gives_its_memory_back_and_new_ones_fit() {
    let dir = std::env::temp_dir().join(format!("mmdb-dropped-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let limit = 32 << 20;
    let empty = resident();
    let options =
        Options { memory_limit: limit, segment_bytes: 4 << 20, background: false, ..Options::default() };
    let db = Database::open(&dir, options).unwrap();
    let shape = |name: &str| {
        Schema::new(name)
            .column("id", ColumnType::Int64)
            .column("body", ColumnType::VarBytes(4000))
            .primary_key(&["id"])
            .ordered_index("by_body", &["body"])
    };
    let body = [7; 3000];
    let mut first: Option<i64> = None;
    for round in 0..4 {
        let t = db.create_table(shape(&format!("t{round}"))).unwrap();
        let mut rows = 0;
        let e = loop {
            let put = |tx: &mut mmdb::Transaction<'_>| {
                tx.insert(&t, &[rows.into(), Value::Bytes(&body[..100 + rows as usize % 2900])])
            };
            match db.run_with(Durability::Lazy, put) {
                Ok(_) => rows += 1,
                Err(e) => break e,
            }
            if rows % 100 == 0 {
                db.flush().unwrap();
            }
        };
        assert!(matches!(e, Error::MemoryLimit { .. }), "{e}");
        db.flush().unwrap();
        assert!(rows >= *first.get_or_insert(rows) * 98 / 100, "{rows} of {first:?} in round {round}");
        // Its images are given back with it, by the next two checkpoints.
        db.checkpoint().unwrap();
        let full = (db.stats().memory_bytes, resident() - empty);
        let range = limit as i64 * 7 / 10..limit as i64 * 23 / 20;
        assert!(full.0 > limit * 8 / 10 && range.contains(&full.1), "{full:?} in round {round}");
        db.drop_table(&t).unwrap();
        // The handle is still there, and keeps nothing.
        let left = (db.stats().memory_bytes, resident() - empty);
        assert!(left.0 < full.0 / 10, "{left:?} of {full:?} in round {round}");
        assert!(db.begin().unwrap().get(&t, &[0.into()]).is_err());
        db.checkpoint().unwrap();
    }
    drop(db);
    std::fs::remove_dir_all(dir).unwrap();
}
