//! What wakers do, which are the application's code and run on the thread that has flushed.
//!
//! What happened: a waker that did the next transaction and waited for it, as an executor does that
//! polls at once, waited for the very thread that it ran on; that thread flushed nothing more, and
//! every commit of the database waited for good. And a waker that dropped the last handle, as the
//! last reference to a task of an executor that has ended does, made the thread join itself: a
//! panic, and a database that was not closed. The mend: a log's thread that runs wakers leaves the
//! flushing to others, and does not wait for its own end. The same held for the thread that expires
//! rows: it waits for what it has deleted, so it flushes, too.
#![allow(clippy::unwrap_used)]

mod slow;
mod tree;

use mmdb::medium::{Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Durability, NewIndex, Options, Schema, Table, Ticket, TimeUnit, Value};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::sleep;
use std::time::Duration;
use tree::Place;

/// For a test that fails: whoever waits longer waits for good.
const LONG: Duration = Duration::from_secs(60);

fn open(dir: &Path, streams: usize) -> (Database, Table) {
    let db = Database::open(dir, Options { streams, segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table_if_missing(schema).unwrap();
    (db, t)
}

/// Commits, and polls the ticket until it waits. The other stream's threads may be faster; then
/// there is another commit.
fn waiting(db: &Database, t: &Table, waker: &Waker) -> Ticket {
    for id in 0..100_000i64 {
        let mut tx = db.begin().unwrap();
        tx.insert(t, &[id.into()]).unwrap();
        let mut ticket = tx.commit().unwrap();
        if Pin::new(&mut ticket).poll(&mut Context::from_waker(waker)).is_pending() {
            return ticket;
        }
    }
    panic!("no commit was waited for");
}

/// Does a transaction when it is woken, and waits for it.
struct GoesOn {
    db: Database,
    t: Table,
    done: Mutex<Sender<bool>>,
}

impl Wake for GoesOn {
    fn wake(self: Arc<Self>) {
        let done = self.db.run(|tx| tx.insert(&self.t, &[(-1).into()]));
        let flushed = self.db.flush();
        let _ = self.done.lock().unwrap().send(done.is_ok() && flushed.is_ok());
    }
}

#[test]
fn a_waker_may_do_the_next_transaction_and_wait_for_it() {
    for streams in [1, 2] {
        let p = Place::new("wakers");
        let (db, t) = open(&p.join("db"), streams);
        let (done, told) = channel();
        let waker = Waker::from(Arc::new(GoesOn { db: db.clone(), t: t.clone(), done: Mutex::new(done) }));
        let ticket = waiting(&db, &t, &waker);
        assert_eq!(told.recv_timeout(LONG), Ok(true), "{streams} streams");
        assert!(ticket.wait().is_ok());
        // The thread goes on afterwards.
        let mut later = waiting_free(&db, &t);
        assert!(matches!(later.recv_timeout(LONG), Ok(true)), "{streams} streams");
        later = waiting_free(&db, &t);
        assert!(matches!(later.recv_timeout(LONG), Ok(true)), "{streams} streams");
    }
}

/// Another thread's commit, which is awaited.
fn waiting_free(db: &Database, t: &Table) -> Receiver<bool> {
    let (done, told) = channel();
    let (db, t) = (db.clone(), t.clone());
    std::thread::spawn(move || {
        let _ = done.send(db.run(|tx| tx.upsert(&t, &[(-2).into()])).is_ok());
    });
    told
}

/// A task that nobody but its waker has any more.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// Tells that it was dropped.
struct Told(Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_waker_may_drop_the_last_handle() {
    let p = Place::new("wakers-last");
    let dir = p.join("db");
    for streams in [1, 2] {
        let (db, t) = open(&dir.join(streams.to_string()), streams);
        let (gone, told) = channel();
        let task = Arc::new(Task { future: Mutex::new(None) });
        let waker = Waker::from(task.clone());
        let mut ticket = waiting(&db, &t, &waker);
        drop(t);
        let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let _told = Told(gone);
            let _db = db;
            let _ = (&mut ticket).await;
        });
        if future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(()) {
            // The commit was durable meanwhile.
            continue;
        }
        *task.future.lock().unwrap() = Some(future);
        drop((waker, task));
        assert_eq!(told.recv_timeout(LONG), Ok(()), "{streams} streams");
        // `Told` goes last, when the database is closed.
        let (db, _) = open(&dir.join(streams.to_string()), streams);
        assert!(db.recovery().is_closed, "{streams} streams");
    }
}

/// A database whose rows expire, whose syncs wait while the gate is shut, and whose log's thread
/// sleeps, so that another thread is the one that flushes.
fn gated(options: Options) -> (Options, slow::Gate, Database, Table) {
    let gate = slow::Gate::default();
    let medium = Arc::new(slow::Slow(MemoryMedium::new(), gate.clone()));
    let options = Options { medium, lazy_interval: Duration::from_secs(3600), ..options };
    let db = Database::open("/db", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("end", ColumnType::Time);
    let schema = schema.primary_key(&["id"]).ordered_index("by_end", &["end"]);
    let t = db.create_table(schema.expire_by("end", TimeUnit::Microseconds)).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into(), Value::Time(i64::MAX)])).unwrap();
    sleep(Duration::from_millis(300)); // Until the log's thread sleeps.
    gate.set(true);
    (options, gate, db, t)
}

#[test]
fn a_waker_on_the_thread_that_expires_rows_may_drop_the_last_handle() {
    let expire_interval = Duration::from_millis(20);
    let (options, gate, db, t) = gated(Options { expire_interval, ..Options::in_memory() });
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[2.into(), Value::Time(i64::MAX)]).unwrap();
    let mut ticket = tx.commit().unwrap();
    let due = db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[3.into(), Value::Time(0)])).unwrap();
    drop((t, due));
    // The thread that expires rows has done so, and flushes both. Were the database closed before
    // that, the row would stay.
    while !gate.has_waiter() || db.stats().expired_rows == 0 {
        sleep(Duration::from_millis(1));
    }
    let task = Arc::new(Task { future: Mutex::new(None) });
    let waker = Waker::from(task.clone());
    let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let _db = db;
        let _ = (&mut ticket).await;
    });
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *task.future.lock().unwrap() = Some(future);
    drop((waker, task));
    gate.set(false);
    // The directory is free once the thread has ended.
    let open = |_| {
        sleep(Duration::from_millis(10));
        Database::open("/db", options.clone()).ok()
    };
    let db = (0..12_000).find_map(open).expect("it is closed");
    assert!(db.recovery().is_closed, "the last handle closes it");
    assert_eq!(db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count(), 2);
}

/// Creates a table when it is woken.
struct Creates(Database, Mutex<Sender<bool>>);

impl Wake for Creates {
    fn wake(self: Arc<Self>) {
        let done = self.0.create_table(Schema::new("u").column("id", ColumnType::Int64).primary_key(&["id"]));
        let _ = self.1.lock().unwrap().send(done.is_ok());
    }
}

/// A checkpoint woke tasks while it held the lock that a change of a definition takes, and the
/// closing of a database: a waker that did either waited for itself.
#[test]
fn a_waker_on_a_thread_that_takes_a_checkpoint_may_create_a_table() {
    let (_, gate, db, t) = gated(Options::in_memory());
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[2.into(), Value::Time(i64::MAX)]).unwrap();
    let mut ticket = tx.commit().unwrap();
    let checkpoint = {
        let db = db.clone();
        std::thread::spawn(move || db.checkpoint())
    };
    while !gate.has_waiter() {
        sleep(Duration::from_millis(1));
    }
    let (done, told) = channel();
    let waker = Waker::from(Arc::new(Creates(db, Mutex::new(done))));
    assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    gate.set(false);
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    checkpoint.join().unwrap().unwrap();
}

/// Calls back when it is woken.
struct CallsBack(Box<dyn Fn() -> bool + Send + Sync>, Mutex<Sender<bool>>);

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        let _ = self.1.lock().unwrap().send(self.0());
    }
}

fn calls_back(back: impl Fn() -> bool + Send + Sync + 'static) -> (Waker, Receiver<bool>) {
    let (done, told) = channel();
    (Waker::from(Arc::new(CallsBack(Box::new(back), Mutex::new(done)))), told)
}

fn numbers(name: &str) -> Schema {
    Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"])
}

/// A commit becomes durable by what `work` does with another table, on a thread of its own; the
/// task that awaits it does `back` then.
fn a_task_calls_back(work: fn(&Database, &Table), back: fn(&Database) -> bool) {
    let (_, gate, db, t) = gated(Options::in_memory());
    let u = db.create_table(numbers("u")).unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[2.into(), Value::Time(i64::MAX)]).unwrap();
    let mut ticket = tx.commit().unwrap();
    let worker = {
        let db = db.clone();
        std::thread::spawn(move || work(&db, &u))
    };
    while !gate.has_waiter() {
        sleep(Duration::from_millis(1));
    }
    let (waker, told) = calls_back(move || back(&db));
    assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    gate.set(false);
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    worker.join().unwrap();
}

/// A drop makes what was committed durable while it holds the locks that every change of a
/// definition takes, and woke tasks there: one that created a table waited for itself.
#[test]
fn a_waker_on_a_thread_that_drops_a_table_may_create_one() {
    a_task_calls_back(|db, u| db.drop_table(u).unwrap(), |db| db.create_table(numbers("v")).is_ok());
}

/// So did one that changed a table while a unique index was built.
#[test]
fn a_waker_on_a_thread_that_builds_a_unique_index_may_change_a_table() {
    let build =
        |db: &Database, u: &Table| db.create_index(u, NewIndex::hash("only", &["id"]).unique()).unwrap();
    a_task_calls_back(build, |db| db.rename_table(&db.table("t").unwrap(), "w").is_ok());
}

/// A tail is told of a changed definition. Its task was woken while the manifest's lock was held.
#[test]
fn a_waker_of_a_tail_may_create_a_table_when_another_is_renamed() {
    let db = Database::open("/db", Options::in_memory()).unwrap();
    let t = db.create_table(numbers("t")).unwrap();
    let mut tail = db.tail(&db.position().unwrap()).unwrap();
    let again = db.clone();
    let (waker, told) = calls_back(move || again.create_table(numbers("v")).is_ok());
    while tail.poll_next(&mut Context::from_waker(&waker)).is_ready() {}
    let worker = std::thread::spawn(move || db.rename_table(&t, "w"));
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    worker.join().unwrap().unwrap();
}

/// A manifest that somebody took away poisons, and wakes all who wait. That was done while the
/// manifest was locked: a waker that asked how far the database is waited for itself.
#[test]
fn a_waker_that_hears_of_a_failure_may_ask_for_the_position() {
    let medium = MemoryMedium::new();
    let db =
        Database::open("/db", Options { medium: Arc::new(medium.clone()), ..Options::in_memory() }).unwrap();
    let mut tail = db.tail(&db.position().unwrap()).unwrap();
    let again = db.clone();
    let (waker, told) = calls_back(move || again.stats().poisoned && again.position().is_ok());
    while tail.poll_next(&mut Context::from_waker(&waker)).is_ready() {}
    medium.remove("/db/MANIFEST".as_ref()).unwrap();
    let worker = std::thread::spawn(move || db.create_table(numbers("v")).is_err());
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    assert!(worker.join().unwrap(), "what is not stated is not done");
}
