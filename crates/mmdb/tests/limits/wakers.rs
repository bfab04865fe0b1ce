//! What a caller's waker does is the caller's matter.
//!
//! A ticket that is awaited wakes its task from the thread that flushed: the stream's own thread,
//! or any client that waits. Wakers were called there without a guard and under the cell's lock.
//! One that panicked ended the stream's thread: every later lazy commit stayed in memory, and the
//! wakers behind it slept for good. Now each is called on its own, outside of the lock, and a panic
//! ends there.

use mmdb::{ColumnType, Database, Durability, Options, Schema, Table, Ticket};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("the application's waker has a defect");
    }
}

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn open(lazy_interval: Duration) -> (Database, Table) {
    let db = Database::open("/db", Options { lazy_interval, ..Options::in_memory() }).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table(schema).unwrap();
    (db, t)
}

fn ticket(db: &Database, t: &Table, id: i64) -> Ticket {
    db.run_with(Durability::Durable, |tx| tx.insert(t, &[id.into()])).unwrap().1
}

/// Polls once; true if it is to be woken later.
fn pends(ticket: &mut Ticket, waker: &Waker) -> bool {
    matches!(Pin::new(ticket).poll(&mut Context::from_waker(waker)), Poll::Pending)
}

fn within_a_minute(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_waker_that_panics_ends_neither_the_flusher_nor_the_other_waiters() {
    let (db, t) = open(Duration::from_millis(1));
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let (bad, good) = (Waker::from(panics.clone()), Waker::from(counts.clone()));
    let (mut id, mut woken) = (0, 0);
    // Each round has one of each kind in line; which thread flushes is up to the machine.
    for _ in 0..200 {
        let (mut first, mut second) = (ticket(&db, &t, id), ticket(&db, &t, id + 1));
        id += 2;
        let waits = (pends(&mut first, &bad), pends(&mut second, &good));
        within_a_minute("both are flushed", || first.poll().unwrap() && second.poll().unwrap());
        if waits.1 {
            woken += 1;
            within_a_minute("the second is woken", || counts.0.load(Ordering::SeqCst) >= woken);
        }
    }
    within_a_minute("some waker panicked", || panics.0.load(Ordering::SeqCst) > 0);
    // Nobody waits for a lazy commit: only the stream's own thread makes it durable.
    let lazy = db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[id.into()])).unwrap().1;
    within_a_minute("the stream's thread lives", || db.horizon() >= lazy.gsn());
    assert!(!db.stats().poisoned);
}
