//! A fill that meets transactions and drops which were there before it.
//!
//! What happened: a fill took the table away, but not the places that open transactions held in it.
//! A commit that had looked at the table just before ran into the fill and was acknowledged for a
//! row that was nowhere. A fill that was given up discarded the containers, and an abort put a slot
//! of them back among the free ones: the next insert that was acknowledged went nowhere, the next
//! fill panicked. And "being filled" and "dropped" were one flag, which the end of a fill took
//! back: a table dropped meanwhile was there again, and dropping it once more took the name from
//! its successor. Harm: acknowledged rows were not there. The mend: a table has lives. A fill
//! begins another; a commit asks inside the gate whether the table is in the life in which the
//! transaction found it, and slots of an earlier life are never given back. Live, being filled and
//! dropped are states that are changed by compare-and-swap.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Logging, NewIndex, Options, Schema, Table};
use std::sync::Barrier;
use std::time::{Duration, Instant};

fn schema(locking: Locking) -> Schema {
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    schema.logging(Logging::Volatile).locking(locking)
}

fn is_there(db: &Database, t: &Table, id: i64) -> bool {
    db.begin().unwrap().get(t, &[id.into()]).unwrap().is_some()
}

const LOCKINGS: [Locking; 4] = [Locking::Record, Locking::Page, Locking::Container, Locking::None];

fn no_such<T>(done: mmdb::Result<T>) {
    assert!(matches!(done.map(|_| ()), Err(Error::NoSuchTable { .. })));
}

#[test]
fn who_wrote_before_a_fill_that_was_given_up_is_refused_and_not_acknowledged() {
    for locking in LOCKINGS {
        let db = Database::in_memory().unwrap();
        let t = db.create_table(schema(locking)).unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[1.into()]).unwrap();
        drop(db.fill(&t).unwrap());
        no_such(tx.commit());
        assert!(!is_there(&db, &t, 1));
        db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
        assert!(is_there(&db, &t, 1));
        db.verify().unwrap();
    }
}

/// A fill that was refused because there are rows began another life of the table all the same:
/// transactions that used it got `NoSuchTable`, the slots that they had taken were lost, and open
/// snapshots could not read it any more.
#[test]
fn nobody_notices_a_fill_that_is_refused() {
    for locking in LOCKINGS {
        let db = Database::in_memory().unwrap();
        let t = db.create_table(schema(locking)).unwrap();
        db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
        let snapshot = db.snapshot().unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[2.into()]).unwrap();
        assert!(matches!(db.fill(&t), Err(Error::Operation { .. })));
        assert!(tx.get(&t, &[1.into()]).unwrap().is_some());
        tx.insert(&t, &[3.into()]).unwrap();
        tx.commit().unwrap().wait().unwrap();
        assert!(is_there(&db, &t, 2) && is_there(&db, &t, 3));
        assert_eq!(snapshot.scan(&t).unwrap().count(), 1);
        drop(snapshot);
        db.verify().unwrap();
    }
    // It says why.
    let db = Database::in_memory().unwrap();
    for (logging, why) in [(Logging::Logged, "logged"), (Logging::Checkpointed, "checkpoints")] {
        let mut named = schema(Locking::Record).logging(logging);
        named.name = why.into();
        let refused = db.fill(&db.create_table(named).unwrap()).unwrap_err().to_string();
        assert!(refused.contains(why) && !refused.contains("has rows"), "{refused}");
    }
}

#[test]
fn what_was_taken_before_a_fill_is_not_given_back_after_it() {
    for locking in LOCKINGS {
        let db = Database::in_memory().unwrap();
        let t = db.create_table(schema(locking)).unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[1.into()]).unwrap();
        drop(db.fill(&t).unwrap());
        tx.abort();
        let mut tx = db.begin().unwrap();
        tx.insert(&t, &[2.into()]).unwrap();
        let fill = db.fill(&t).unwrap();
        tx.abort();
        fill.writer().put(&[5.into()]).unwrap();
        fill.finish().unwrap();
        db.run(|tx| tx.insert(&t, &[7.into()])).unwrap();
        assert!(is_there(&db, &t, 5) && is_there(&db, &t, 7));
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 2);
        db.verify().unwrap();
    }
}

/// Its locks say nothing of the rows that came.
#[test]
fn who_used_a_table_before_a_fill_neither_goes_on_with_it_nor_commits() {
    for locking in LOCKINGS {
        let db = Database::in_memory().unwrap();
        let t = db.create_table(schema(locking)).unwrap();
        let (mut reads, mut writes) = (db.begin().unwrap(), db.begin().unwrap());
        assert!(reads.get(&t, &[1.into()]).unwrap().is_none());
        writes.insert(&t, &[2.into()]).unwrap();
        let fill = db.fill(&t).unwrap();
        fill.writer().put(&[1.into()]).unwrap();
        fill.finish().unwrap();
        no_such(reads.get(&t, &[1.into()]));
        no_such(reads.insert(&t, &[3.into()]));
        no_such(writes.commit());
        drop(reads);
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 1);
        db.verify().unwrap();
    }
}

/// A commit of many rows, so that there is time between its look at the table and the gate. The
/// fill comes at every part of it.
#[test]
fn a_commit_that_meets_a_fill_is_refused_or_its_rows_are_there() {
    const ROUNDS: u32 = 24;
    let mut took = Duration::ZERO;
    for round in 0..ROUNDS {
        let db = Database::open("/db", Options { segment_bytes: 16 << 20, ..Options::in_memory() }).unwrap();
        let t = db.create_table(schema(Locking::Record)).unwrap();
        let pad = Schema::new("pad").column("id", ColumnType::Int64).column("text", ColumnType::VarText(500));
        let pad = db.create_table(pad.primary_key(&["id"])).unwrap();
        let both = Barrier::new(2);
        let (committed, filled) = std::thread::scope(|scope| {
            let commits = scope.spawn(|| {
                let mut tx = db.begin().unwrap();
                tx.insert(&t, &[1.into()]).unwrap();
                let text = "p".repeat(400);
                (0..10_000i64).for_each(|i| tx.insert(&pad, &[i.into(), text.as_str().into()]).unwrap());
                both.wait();
                let begun = Instant::now();
                (tx.commit().map(|_| ()), begun.elapsed())
            });
            both.wait();
            std::thread::sleep(took * round / ROUNDS);
            let fill = (round > 0).then(|| db.fill(&t));
            let (committed, elapsed) = commits.join().unwrap();
            took = if round == 0 { elapsed } else { took };
            let filled = fill.map(|fill| {
                let fill = fill?;
                fill.writer().put(&[2.into()])?;
                fill.finish()
            });
            (committed, filled.is_some_and(|filled| filled.is_ok()))
        });
        assert_eq!(committed.is_ok(), is_there(&db, &t, 1), "{committed:?} {filled:?}");
        assert_eq!(filled, is_there(&db, &t, 2), "{committed:?} {filled:?}");
        db.verify().unwrap();
    }
}

/// The drop waits for a checkpoint; the fill comes while it waits.
#[test]
fn a_table_that_is_filled_while_a_drop_waits_is_not_dropped_and_one_that_was_dropped_does_not_come_back() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(schema(Locking::Record)).unwrap();
    let checkpoint = db.checkpoint_stepwise().unwrap();
    let (dropped, filled) = std::thread::scope(|scope| {
        let drops = scope.spawn(|| db.drop_table(&t));
        std::thread::sleep(Duration::from_millis(200));
        let fill = db.fill(&t);
        drop(checkpoint);
        let dropped = drops.join().unwrap();
        (dropped, fill.map(drop))
    });
    // One of the two, whichever was first.
    assert!(dropped.is_ok() != filled.is_ok(), "{dropped:?} {filled:?}");
    if filled.is_ok() {
        no_such(dropped);
        db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
        assert!(is_there(&db, &db.table("t").unwrap(), 1));
        db.drop_table(&t).unwrap();
    }
    no_such(db.fill(&t));
    no_such(db.table("t"));
    // The name is free, and what the old handle does, does not touch its new owner.
    let new = db.create_table(schema(Locking::Record)).unwrap();
    no_such(db.drop_table(&t));
    no_such(db.run(|tx| tx.insert(&t, &[1.into()])));
    db.run(|tx| tx.insert(&new, &[1.into()])).unwrap();
    assert_eq!(db.tables().len(), 1);
    assert!(is_there(&db, &db.table("t").unwrap(), 1));
    db.verify().unwrap();
}

/// What happened: an index that was made later let a fill give two rows one key.
#[test]
fn a_fill_is_refused_for_doubled_keys_of_an_index_that_was_made_later() {
    for index in [NewIndex::hash("k", &["k"]), NewIndex::ordered("k", &["k"])] {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).column("k", ColumnType::Int64);
        let t = db.create_table(schema.primary_key(&["id"]).logging(Logging::Volatile)).unwrap();
        db.create_index(&t, index.unique()).unwrap();
        let fill = db.fill(&t).unwrap();
        let mut writer = fill.writer();
        writer.put(&[1.into(), 7.into()]).unwrap();
        writer.put(&[2.into(), 7.into()]).unwrap();
        drop(writer);
        let done = fill.finish();
        assert!(matches!(done, Err(Error::DuplicateKey { .. })), "{done:?}: two rows share a unique key");
    }
}

/// The name is taken, and the table not there: which errors that makes was not said.
#[test]
fn a_table_that_is_being_filled_is_neither_missing_nor_there() {
    let db = Database::in_memory().unwrap();
    let t = db.create_table(schema(Locking::Record)).unwrap();
    let fill = db.fill(&t).unwrap();
    no_such(db.create_table_if_missing(schema(Locking::Record)));
    assert!(matches!(db.create_table(schema(Locking::Record)), Err(Error::TableExists { .. })));
    drop(fill);
    db.create_table_if_missing(schema(Locking::Record)).unwrap();
    db.drop_table(&t).unwrap();
    db.create_table_if_missing(schema(Locking::Record)).unwrap();
}
