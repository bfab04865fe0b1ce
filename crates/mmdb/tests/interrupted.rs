//! Ending the wait of a `run` that has committed, from outside.
//!
//! What happened: `run`, and in C `mmdb_commit` and `mmdb_run` without a ticket, returned
//! `Interrupted` there, which says of a transaction that nothing of it was done: a caller that
//! tried again did it twice. Only the process's first thread is asked, so this is a program without
//! the harness of tests, which has others.
#![allow(clippy::unwrap_used)]

mod slow;

use mmdb::medium::MemoryMedium;
use mmdb::{ColumnType, Database, Error, Options, Schema};
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::Duration;

fn main() {
    // Who asks which tests there are is told of none.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let gate = slow::Gate::default();
    let medium = Arc::new(slow::Slow(MemoryMedium::new(), gate.clone()));
    let db = Database::open("/db", Options { medium, ..Options::in_memory() }).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table(schema).unwrap();
    db.run(|tx| tx.insert(&t, &[0.into()])).unwrap();
    mmdb::set_wait_check(|| true);

    gate.set(true);
    let other = {
        let (db, t) = (db.clone(), t.clone());
        spawn(move || db.run(|tx| tx.insert(&t, &[1.into()])))
    };
    while !gate.has_waiter() {
        sleep(Duration::from_millis(1));
    }
    // Its flush comes behind the other one's, so it waits.
    let done = db.run(|tx| tx.insert(&t, &[2.into()]));
    let Err(Error::Indeterminate { cause, .. }) = &done else { panic!("{done:?}") };
    assert!(cause.contains("it is done"), "{cause}");
    // A ticket says what it is: it can be waited for again.
    let ticket = db.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[3.into()])).unwrap().1;
    assert!(matches!(ticket.wait(), Err(Error::Interrupted { .. })));
    gate.set(false);
    other.join().unwrap().unwrap();
    while !ticket.poll().unwrap() {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(db.snapshot().unwrap().scan(&t).unwrap().count(), 4, "each once");
    // As the harness says it, for whoever counts.
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
