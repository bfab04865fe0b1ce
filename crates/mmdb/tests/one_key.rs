//! Keys that very many rows have.
//!
//! What happened: `mmdb check` looked for each row among all rows that have its key, in every index
//! that is not unique, and a unique index that was built did so for each row that came. Of 100,000
//! rows that share a key that was 10,000,000,000 places, of a million it did not end in hours; and
//! when the unique index was refused at last, all these rows were copied while no commit could go
//! on. The mend: whether a place is among those of a key is one look-up, whether a key is doubled
//! is seen from two rows.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, NewIndex, Options, Schema, Value};
use std::time::{Duration, Instant};

#[test]
fn rows_that_share_a_key_are_checked_and_refused_in_no_time() {
    const ROWS: i64 = 100_000;
    let db = Database::open("/db", Options::in_memory()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).nullable("state", ColumnType::Int16);
    let schema = schema.primary_key(&["id"]).hash_index("hash", &["state"]);
    let t = db.create_table(schema.ordered_index("ordered", &["state"])).unwrap();
    for first in (0..ROWS).step_by(1000) {
        db.run(|tx| (first..first + 1000).try_for_each(|id| tx.insert(&t, &[id.into(), Value::Null])))
            .unwrap();
    }
    let began = Instant::now();
    db.verify().unwrap();
    for index in [NewIndex::hash("only", &["state"]), NewIndex::ordered("only", &["state"])] {
        let refused = db.create_index(&t, index.unique()).unwrap_err();
        assert!(matches!(&refused, Error::DuplicateKey { key, .. } if key == "(null)"), "{refused}");
    }
    // Each was minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    db.verify().unwrap();
}
