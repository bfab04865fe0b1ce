//! Commits of several streams become durable in the order of their numbers, but do not wait for
//! each other's timers.
//!
//! What happened: who waited for a commit was told of it with the last one that the same flush took
//! along. If that one was behind a lazy commit of another stream, nobody asked for that: the
//! commit was durable, and who waited was told when the timer of lazy commits came. The mend: a
//! flush that leaves somebody waiting asks the other streams for what is before its last commit.
#![allow(clippy::unwrap_used)]

mod slow;

use mmdb::medium::MemoryMedium;
use mmdb::{ColumnType, Database, Durability, Options, Schema, Table, Ticket};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// For a test that fails: whoever waits longer waits for the timer, which is an hour.
const LONG: Duration = Duration::from_secs(60);

struct Tells(Mutex<Sender<()>>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

fn commit(db: &Database, t: &Table, id: i64, durability: Durability) -> Ticket {
    db.run_with(durability, |tx| tx.upsert(t, &[id.into()])).unwrap().1
}

/// Whether this thread's commits go to the first stream. Nobody else commits meanwhile.
fn is_on_first(db: &Database, t: &Table) -> bool {
    let gsn = commit(db, t, 0, Durability::Lazy).gsn();
    db.flush_stream(0).unwrap();
    sleep(Duration::from_millis(100)); // Its own thread may be the one that flushes.
    let is_durable = db.horizon() >= gsn;
    db.flush().unwrap();
    is_durable
}

#[test]
fn a_commit_does_not_wait_for_the_timer_of_a_lazy_one_behind_it() {
    let gate = slow::Gate::default();
    let medium = Arc::new(slow::Slow(MemoryMedium::new(), gate.clone()));
    let lazy_interval = Duration::from_secs(3600);
    let options = Options { medium, streams: 2, lazy_interval, ..Options::in_memory() };
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    sleep(Duration::from_millis(300)); // Until segments are ready, and the log's threads sleep.
    let mine = is_on_first(&db, &t);
    // A thread whose commits go to the other stream.
    let (go, told) = loop {
        let ((go, come), (tell, told)) = (channel::<()>(), channel());
        let (db, t) = (db.clone(), t.clone());
        spawn(move || {
            let _ = tell.send(is_on_first(&db, &t) != mine);
            if come.recv().is_ok() {
                drop(commit(&db, &t, 2, Durability::Lazy));
                let _ = tell.send(true);
            }
        });
        if told.recv_timeout(LONG).unwrap() {
            break (go, told);
        }
    };
    gate.set(true);
    let mut ticket = commit(&db, &t, 1, Durability::Durable);
    go.send(()).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    drop(commit(&db, &t, 3, Durability::Lazy));
    let (woken, hear) = channel();
    let waker = Waker::from(Arc::new(Tells(Mutex::new(woken))));
    assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    while !gate.has_waiter() {
        sleep(Duration::from_millis(1)); // Until the flush that has all of this stream's is under way.
    }
    gate.set(false);
    hear.recv_timeout(LONG).expect("the flush that has it has ended");
    assert!(ticket.poll().unwrap());
}
