//! What is done in a destructor while a thread unwinds, for a reason of the caller's.
//!
//! What happened: a commit or flush went well, but the guard that looks whether a panic left it
//! asked whether the thread panicked at all: the database was poisoned for everybody. And one that
//! was closed this way left no manifest that says so.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Options, Schema, Table};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Notes that its session has ended, however that was.
struct Session(Database, Table);

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.run(|tx| tx.upsert(&self.1, &[1.into()]));
    }
}

fn open(options: &Options) -> (Database, Table) {
    let db = Database::open("/db", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table_if_missing(schema).unwrap();
    (db, t)
}

fn fails_with(session: Session) {
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let _session = session;
        panic!("a request of the application failed");
    }));
    assert!(failed.is_err());
}

#[test]
fn a_commit_while_the_caller_unwinds_poisons_nothing() {
    let (db, t) = open(&Options::in_memory());
    fails_with(Session(db.clone(), t.clone()));
    assert!(!db.stats().poisoned, "nothing was wrong with the commit");
    db.run(|tx| tx.insert(&t, &[2.into()])).unwrap();
    assert_eq!(db.snapshot().unwrap().scan(&t).unwrap().count(), 2);
}

#[test]
fn a_closing_while_the_caller_unwinds_is_one() {
    let options = Options::in_memory();
    let (db, t) = open(&options);
    fails_with(Session(db, t));
    let (db, t) = open(&options);
    assert!(db.recovery().is_closed);
    assert_eq!(db.snapshot().unwrap().scan(&t).unwrap().count(), 1);
}
