//! Tables that come and go.
//!
//! What happened: about 20 KB of every dropped table, the frames of its indexes and of its free
//! slots, stayed counted, and in memory, until the database was closed: an application that makes a
//! table for each job filled its memory limit with tables it did not have. The mend: a dropped
//! table is freed with its last handle.

use mmdb::{ColumnType, Database, Error, IndexKind, Locking, Logging, Options, Schema, Table};

fn schema(name: &str) -> Schema {
    Schema::new(name)
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .primary_key(&["id"])
        .ordered_index("by_n", &["n"])
        .unique_hash_index("one_n", &["n"])
}

#[test]
fn ten_thousand_tables_that_came_and_went_leave_nothing() {
    let db = Database::open("/db", Options { memory_limit: 16 << 20, ..Options::in_memory() }).unwrap();
    let stays = db.create_table(schema("stays")).unwrap();
    let mut before = None;
    for n in 0..10_000i64 {
        let s = schema("comes").locking([Locking::Record, Locking::None][n as usize % 2]);
        let t = db.create_table(s.logging([Logging::Logged, Logging::Volatile][n as usize / 2 % 2])).unwrap();
        if n % 10 == 0 {
            db.run(|tx| (0..20i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into()]))).unwrap();
            db.run(|tx| tx.upsert(&stays, &[(n % 100).into(), n.into()])).unwrap();
        }
        if n % 1000 == 0 {
            db.checkpoint().unwrap();
        }
        db.drop_table(&t).unwrap();
        drop(t);
        if n == 2000 {
            before = Some(db.stats().memory_bytes);
        }
    }
    let (before, after) = (before.unwrap(), db.stats().memory_bytes);
    assert!(after < before + (128 << 10), "{after} after {before}");
    assert_eq!((db.tables().len(), db.locks_held()), (1, 0));
    db.verify().unwrap();
}

/// The handle keeps what it needs to say that the table is gone, and no more; a transaction that is
/// under way, nothing at all.
///
/// Of many tables, because the log's buffers are counted, too: one to three, depending on whether a
/// flush is under way when the next commit comes.
#[test]
fn dropped_tables_go_with_their_last_handles() {
    const TABLES: u64 = 50;
    let db = Database::in_memory().unwrap();
    let other = db.create_table(schema("other")).unwrap();
    db.run(|tx| tx.insert(&other, &[0.into(), 0.into()])).unwrap();
    let before = db.stats().memory_bytes;
    let make = |n| db.create_table(schema(&format!("t{n}")).locking(Locking::None)).unwrap();
    let tables: Vec<Table> = (0..TABLES).map(make).collect();
    let frames = db.stats().memory_bytes - before;
    assert!((2_000..10_000).contains(&(frames / TABLES)), "{frames}");
    let mut tx = db.begin().unwrap();
    tables.iter().for_each(|t| tx.insert(t, &[1.into(), 1.into()]).unwrap());
    let mut reads = db.begin().unwrap();
    assert!(tables.iter().all(|t| reads.get(t, &[1.into()]).unwrap().is_none()));
    reads.insert(&other, &[1.into(), 1.into()]).unwrap();
    tables.iter().for_each(|t| db.drop_table(t).unwrap());
    let gone = |e: Result<(), Error>| assert!(matches!(e, Err(Error::NoSuchTable { .. })), "{e:?}");
    gone(reads.get(&tables[0], &[1.into()]).map(|_| ()));
    gone(db.drop_table(&tables[0]));
    assert!(db.stats().memory_bytes > before + frames / 2, "the handles are there still");
    drop(tables);
    gone(tx.commit().map(|_| ()));
    reads.commit().unwrap().wait().unwrap();
    // The other table's second row and the log's buffers take a little, the tables that went
    // nothing.
    let left = db.stats().memory_bytes;
    assert!(left < before + frames / 2, "{left}, {before} without them, who took {frames}");
}

/// Names and numbers: a table of the same name is another one, whatever handles and transactions
/// remember.
#[test]
fn a_table_of_the_same_name_is_another_one() {
    let db = Database::in_memory().unwrap();
    let make = || db.create_table(schema("t").locking(Locking::None)).unwrap();
    let count = |t: &Table| db.begin().unwrap().scan(t).map(Iterator::count);
    let old = make();
    let mut tx = db.begin().unwrap();
    tx.insert(&old, &[1.into(), 1.into()]).unwrap();
    db.drop_table(&old).unwrap();
    let new = make();
    assert!(matches!(tx.commit(), Err(Error::NoSuchTable { .. })));
    assert!(matches!(count(&old), Err(Error::NoSuchTable { .. })));
    assert_eq!(count(&new).unwrap(), 0);
    // A transaction finds tables that are younger than it is, and one may use both.
    let mut tx = db.begin().unwrap();
    let third = db.create_table(schema("third")).unwrap();
    tx.insert(&third, &[1.into(), 1.into()]).unwrap();
    tx.insert(&new, &[1.into(), 1.into()]).unwrap();
    tx.commit().unwrap().wait().unwrap();
    assert_eq!((count(&new).unwrap(), count(&third).unwrap()), (1, 1));
    assert_eq!(third.schema().indexes[1].kind, IndexKind::Ordered);
    db.verify().unwrap();
}
