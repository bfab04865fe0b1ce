//! Tasks that wait for standbys.
//!
//! What happened: of a lazy commit, one that waited for no standby at all was told at once that it
//! was confirmed, before it was durable, unlike a thread: a program whose number of standbys is an
//! option acknowledged what a crash takes back. And who gave up waiting stayed among those to be
//! woken, with all that his waker holds, until a standby acknowledged something: for good, if none
//! comes. And a task that waited when the database was closed waited for good.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Durability, Error, Options, Schema, Table, Ticket};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::sleep;
use std::time::Duration;

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn open(options: Options) -> (Database, Table) {
    let db = Database::open("/db", options).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    (db, t)
}

fn commit(db: &Database, t: &Table, durability: Durability) -> Ticket {
    db.run_with(durability, |tx| tx.upsert(t, &[1.into()])).unwrap().1
}

#[test]
fn a_lazy_commit_is_confirmed_once_it_is_durable_here_however_few_standbys_are_wanted() {
    for streams in [1, 2] {
        let lazy_interval = Duration::from_secs(3600);
        let (db, t) = open(Options { lazy_interval, streams, ..Options::in_memory() });
        sleep(Duration::from_millis(200)); // The log's threads sleep for an hour now.
        let ticket = commit(&db, &t, Durability::Lazy);
        let gsn = ticket.gsn();
        let counts = Arc::new(Counts(AtomicUsize::new(0)));
        let waker = Waker::from(counts.clone());
        let mut confirmed = pin!(ticket.standbys(0));
        // It is asked for, so it does not take an hour.
        for _ in 0..10_000 {
            match confirmed.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => {
                    assert_eq!(done.unwrap(), gsn);
                    break;
                }
                Poll::Pending => {
                    let woken = counts.0.load(Ordering::SeqCst);
                    while counts.0.load(Ordering::SeqCst) == woken && db.horizon() < gsn {
                        sleep(Duration::from_millis(1));
                    }
                }
            }
        }
        assert!(db.horizon() >= gsn, "{streams} streams: the horizon is {}", db.horizon());
    }
}

#[test]
fn a_confirmation_that_is_given_up_keeps_no_waker() {
    let (db, t) = open(Options::in_memory());
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    let ticket = commit(&db, &t, Durability::Durable);
    ticket.wait().unwrap();
    let mut stays = pin!(ticket.standbys(1));
    assert!(stays.as_mut().poll(&mut context).is_pending());
    {
        let ticket = commit(&db, &t, Durability::Durable);
        ticket.wait().unwrap();
        let mut goes = pin!(ticket.standbys(1));
        assert!(goes.as_mut().poll(&mut context).is_pending());
        // Asked again, and by another task, it is woken once.
        assert!(goes.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(goes.as_mut().poll(&mut context).is_pending());
        assert_eq!(Arc::strong_count(&counts), 4, "this, the waker, and that of each wait");
    }
    assert_eq!(Arc::strong_count(&counts), 3, "somebody else has the task still");
    db.acknowledge("s", &db.position().unwrap()).unwrap();
    assert_eq!(counts.0.load(Ordering::SeqCst), 1);
    assert!(stays.as_mut().poll(&mut context).is_ready());
    assert_eq!(Arc::strong_count(&counts), 2);
}

#[test]
fn a_tail_that_is_closed_keeps_no_waker() {
    let (db, _t) = open(Options::in_memory());
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let waker = Waker::from(counts.clone());
    let mut tail = db.tail(&db.position().unwrap()).unwrap();
    while tail.poll_next(&mut Context::from_waker(&waker)).is_ready() {}
    assert_eq!(Arc::strong_count(&counts), 3);
    drop(tail);
    assert_eq!(Arc::strong_count(&counts), 2);
}

/// A thread that waits is told that standbys are missing when the database is closed. A task was
/// woken by that, looked, and lay down again, though nobody was left to wake it.
#[test]
fn a_confirmation_ends_with_its_database() {
    let (db, t) = open(Options::in_memory());
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let waker = Waker::from(counts.clone());
    let ticket = commit(&db, &t, Durability::Durable);
    let gsn = ticket.wait().unwrap();
    db.acknowledge("s", &db.position().unwrap()).unwrap();
    let mut confirmed = pin!(ticket.standbys(2));
    assert!(confirmed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(t);
    db.close().unwrap();
    assert_eq!(counts.0.load(Ordering::SeqCst), 1, "it is woken");
    let Poll::Ready(told) = confirmed.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("it waits for good");
    };
    let missing = told.unwrap_err();
    assert!(
        matches!(missing, Error::StandbysMissing { gsn: of, standbys: 1, wanted: 2, .. } if of == gsn),
        "{missing}"
    );
}
