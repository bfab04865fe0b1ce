//! Whoever waits for a lock is told when it takes too long, and `run` aborts where the application
//! says so.
//!
//! An idle transaction that held a lock made another one's `run` execute its closure 2,041 times in
//! two seconds, without end and without a word; an older one waited for it in silence for good.
//! `run` knew errors of its own type only: an application returned its own inside `Ok`, and
//! `Ok(Err(e))` committed. And whoever mapped `Error::Deadlock` into a type of his own lost that
//! the transaction was to run again.

use mmdb::{ColumnType, Database, Error, Locking, Options, Schema, Table, Transaction};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn open(options: Options) -> (Database, Table) {
    let db = Database::open("/db", options).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(schema.primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into(), 0.into()])).unwrap();
    (db, t)
}

/// For threads: none gives up because another one stands still for long.
fn patient() -> Options {
    Options { lock_timeout: Duration::from_secs(600), ..Options::in_memory() }
}

fn add<'db>(tx: &mut Transaction<'db>, t: &Table) -> mmdb::Result<()> {
    let n = tx.get(t, &[1.into()])?.and_then(|row| row.at(1).as_int()).unwrap_or(0);
    tx.update(t, &[1.into()], &[("n", (n + 1).into())]).map(|_| ())
}

fn number(db: &Database, t: &Table) -> i64 {
    db.begin().unwrap().get(t, &[1.into()]).unwrap().unwrap().at(1).as_int().unwrap()
}

#[test]
fn an_idle_holder_makes_nobody_spin_and_the_time_out_names_what_was_waited_for() {
    let lock_timeout = Duration::from_millis(300);
    let (db, t) = open(Options { lock_timeout, ..Options::in_memory() });
    let mut idle = db.begin().unwrap();
    add(&mut idle, &t).unwrap();
    let runs = AtomicU32::new(0);
    let began = Instant::now();
    let refused: mmdb::Result<()> = db.run(|tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        add(tx, &t)
    });
    let (waited, runs) = (began.elapsed(), runs.into_inner());
    let e = refused.unwrap_err();
    assert!(matches!(&e, Error::LockTimeout { table, .. } if table == "t") && !e.is_retryable(), "{e}");
    let text = e.to_string();
    assert!(text.contains("table t, key") && text.contains("Options::lock_timeout"), "{text}");
    assert!(waited >= lock_timeout, "{waited:?}");
    assert!(runs <= 2, "{runs} runs");
    // The other order: who is older waits in line, and not for good either.
    idle.abort();
    let mut older = db.begin().unwrap();
    let mut younger = db.begin().unwrap();
    add(&mut younger, &t).unwrap();
    let e = add(&mut older, &t).unwrap_err();
    assert!(matches!(&e, Error::LockTimeout { .. }), "{e}");
    drop((older, younger));
    db.run(|tx| add(tx, &t)).unwrap();
    assert_eq!((number(&db, &t), db.locks_held()), (1, 0));
}

#[test]
fn a_scan_that_waits_for_an_idle_writer_is_told_too() {
    let lock_timeout = Duration::from_millis(200);
    let (db, t) = open(Options { lock_timeout, ..Options::in_memory() });
    let mut idle = db.begin().unwrap();
    add(&mut idle, &t).unwrap();
    let runs = AtomicU32::new(0);
    let scanned = db.run(|tx| {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Error>(tx.scan(&t)?.count())
    });
    assert!(matches!(scanned, Err(Error::LockTimeout { .. })), "{scanned:?}");
    assert!(runs.into_inner() <= 3);
    idle.commit().unwrap().wait().unwrap();
    assert_eq!(db.run(|tx| Ok::<_, Error>(tx.scan(&t)?.count())).unwrap(), 1);
}

#[test]
fn who_waits_goes_on_as_soon_as_the_holder_has_gone() {
    let (db, t) = open(patient());
    let runs = AtomicU32::new(0);
    std::thread::scope(|s| {
        let mut holder = db.begin().unwrap();
        add(&mut holder, &t).unwrap();
        let waiter = s.spawn(|| {
            db.run(|tx| {
                runs.fetch_add(1, Ordering::Relaxed);
                add(tx, &t)
            })
        });
        std::thread::sleep(Duration::from_millis(300));
        holder.commit().unwrap().wait().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert_eq!(number(&db, &t), 2);
    assert!(runs.into_inner() <= 3, "it looked, and did not run, while the holder was there");
}

#[test]
fn runs_are_bounded() {
    // Without background threads nobody waits, so only the bound ends it.
    for locking in [Locking::Record, Locking::Page] {
        let options = Options { background: false, max_runs: 17, ..Options::in_memory() };
        let db = Database::open("/db", options).unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let t = db.create_table(schema.primary_key(&["id"]).locking(locking)).unwrap();
        let mut idle = db.begin().unwrap();
        idle.insert(&t, &[1.into(), 1.into()]).unwrap();
        let mut runs = 0;
        let e = db
            .run(|tx| {
                runs += 1;
                tx.insert(&t, &[1.into(), 2.into()])
            })
            .unwrap_err();
        assert!(matches!(e, Error::LockTimeout { runs: 17, .. }), "{e}");
        assert_eq!(runs, 17);
    }
}

#[derive(Debug, PartialEq)]
enum Own {
    NoMoney(i64),
    /// Holds no more than a text: what kind of error it was is lost.
    Database(String),
}

impl From<Error> for Own {
    fn from(e: Error) -> Own {
        Own::Database(e.to_string())
    }
}

#[test]
fn an_error_of_the_application_aborts_and_comes_back_as_it_is() {
    let (db, t) = open(Options::in_memory());
    let before = db.stats();
    let done: Result<(), Own> = db.run(|tx| {
        add(tx, &t)?;
        tx.insert(&t, &[2.into(), 0.into()])?;
        Err(Own::NoMoney(7))
    });
    assert_eq!(done, Err(Own::NoMoney(7)));
    assert_eq!((number(&db, &t), db.stats().tables[0].rows), (0, 1));
    let after = db.stats();
    assert_eq!((after.last_gsn, after.locks), (before.last_gsn, 0), "nothing was logged, nothing is held");
    // An error of the database goes through the caller's conversion.
    let done: Result<(), Own> = db.run(|tx| Ok(tx.insert(&t, &[1.into(), 0.into()])?));
    assert!(matches!(done, Err(Own::Database(text)) if text.contains("already present")));
}

#[test]
fn a_transaction_that_had_to_give_way_runs_again_whatever_its_error_was_made_into() {
    let (db, t) = open(patient());
    for swallowed in [false, true] {
        let runs = AtomicU32::new(0);
        std::thread::scope(|s| {
            let mut holder = db.begin().unwrap();
            add(&mut holder, &t).unwrap();
            let waiter = s.spawn(|| {
                db.run(|tx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    match add(tx, &t) {
                        // Half a transaction must not commit because somebody looked away.
                        Err(_) if swallowed => Ok(()),
                        other => other.map_err(|_| Own::NoMoney(0)),
                    }
                })
            });
            while runs.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            holder.commit().unwrap().wait().unwrap();
            waiter.join().unwrap().unwrap();
        });
    }
    assert_eq!(number(&db, &t), 4, "both of both rounds");
}

#[test]
fn a_transaction_that_had_to_give_way_can_only_end() {
    let (db, t) = open(Options { background: false, ..Options::in_memory() });
    let mut holder = db.begin().unwrap();
    add(&mut holder, &t).unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&t, &[5.into(), 5.into()]).unwrap();
    assert!(matches!(add(&mut tx, &t), Err(Error::Deadlock { .. })));
    assert!(matches!(tx.insert(&t, &[6.into(), 6.into()]), Err(Error::Deadlock { .. })));
    assert!(matches!(tx.commit(), Err(Error::Deadlock { .. })));
    holder.abort();
    assert_eq!((db.stats().tables[0].rows, db.locks_held()), (1, 0));
}

/// `drop_table` took wait-die's first word for the last: with one transaction open on the table,
/// older than the drop, it failed with `Deadlock` at once, and under load it nearly always did. It
/// waits for its turn like everybody, and no longer than they.
#[test]
fn dropping_a_table_in_use_waits_for_its_turn_and_not_for_ever() {
    let (db, t) = open(patient());
    let mut older = db.begin().unwrap();
    add(&mut older, &t).unwrap();
    std::thread::scope(|s| {
        let waits = s.spawn(|| db.drop_table(&t));
        while db.stats().lock_deaths == 0 && !waits.is_finished() {
            std::thread::yield_now();
        }
        assert!(db.table(t.name()).is_ok(), "nobody drops what is in use");
        older.commit().unwrap().wait().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(db.table(t.name()).is_err());
    assert_eq!(db.locks_held(), 0);

    // Under load: clients that never stop using it, each for a moment.
    let (db, t) = open(patient());
    let told = std::thread::scope(|s| {
        let client = || {
            loop {
                if let Err(e) = db.run(|tx| add(tx, &t)) {
                    return e;
                }
            }
        };
        let clients: Vec<_> = (0..4).map(|_| s.spawn(client)).collect();
        while db.stats().commits < 10 {
            std::thread::yield_now();
        }
        let dropped = db.drop_table(&t);
        if dropped.is_err() {
            // Or the clients would go on for good.
            std::process::abort();
        }
        clients.into_iter().map(|c| c.join().unwrap()).collect::<Vec<_>>()
    });
    told.iter().for_each(|e| assert!(matches!(e, Error::NoSuchTable { .. }), "{e}"));
    assert_eq!(db.locks_held(), 0);

    // A transaction that somebody forgot.
    let (db, t) = open(Options { lock_timeout: Duration::from_millis(50), ..Options::in_memory() });
    let mut forgotten = db.begin().unwrap();
    add(&mut forgotten, &t).unwrap();
    let e = db.drop_table(&t).unwrap_err();
    assert!(matches!(e, Error::LockTimeout { .. }) && e.to_string().contains("lock_timeout"), "{e}");
    forgotten.commit().unwrap().wait().unwrap();
    assert_eq!(number(&db, &t), 1, "the table is as it was");
    db.drop_table(&t).unwrap();
    // On one thread nobody goes out of the way by being waited for.
    let (db, t) = open(Options { background: false, ..Options::in_memory() });
    let mut other = db.begin().unwrap();
    add(&mut other, &t).unwrap();
    assert!(matches!(db.drop_table(&t), Err(Error::Deadlock { .. })));
}
