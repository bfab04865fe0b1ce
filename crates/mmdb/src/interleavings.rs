//! Every order of threads, as far as a seeded scheduler gets: tickets, the durable horizon, the lock table, checkpoints,
//! and crashes in the middle of all that.

#[path = "../tests/crash/clients.rs"]
mod clients;
// The schedules on one thread use more of it.
#[allow(dead_code)]
#[path = "../tests/crash/history.rs"]
mod history;
#[path = "../tests/crash/rng.rs"]
mod rng;
#[path = "../tests/crash/table.rs"]
mod table;

use crate as engine;
use crate::lock::{Held, LockManager, Mode, Refused};
use crate::medium::{CrashMedium, Faults};
use crate::sync::{self, thread, thread::spawn};
use crate::{ColumnType, Database, Durability, Error, Locking, Options, Sabotage, Schema, Table, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Half of the schedules with each scheduler.
fn explore(seed: u64, schedules: usize, f: impl Fn() + Send + Sync + 'static) {
    let f = Arc::new(f);
    for part in 0..2 {
        let f = f.clone();
        sync::explore(2 * seed + part, schedules / 2, move || f());
    }
}

fn options() -> Options {
    Options {
        segment_bytes: 16384,
        container_bytes: 4096,
        recovery_threads: 1,
        checkpoint_log_bytes: 0,
        ..Options::in_memory()
    }
}

fn table(db: &Database) -> Table {
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    db.create_table(s.primary_key(&["id"])).unwrap()
}

/// Blocking, polling and awaiting clients on two streams: all are told, nobody too early, and closing ends every thread.
#[test]
fn every_ticket_resolves_and_not_before_its_commit_is_durable() {
    explore(1, 300, || {
        let db = Database::open("/db", Options { streams: 2, ..options() }).unwrap();
        let t = table(&db);
        let clients: Vec<_> = (0..3i64)
            .map(|c| {
                let (db, t) = (db.clone(), t.clone());
                thread::spawn(move || {
                    for i in 0..2 {
                        let insert =
                            |tx: &mut crate::Transaction<'_>| tx.insert(&t, &[(c * 10 + i).into(), 0.into()]);
                        let durability = if c == 2 { Durability::Lazy } else { Durability::Durable };
                        let ticket = db.run_with(durability, insert).unwrap().1;
                        let gsn = match (c, i) {
                            (0, _) => ticket.wait().unwrap(),
                            (1, 0) => shuttle::future::block_on(ticket).unwrap(),
                            (1, _) => {
                                while !ticket.poll().unwrap() {
                                    thread::yield_now();
                                }
                                ticket.gsn()
                            }
                            _ => ticket.wait_durable().unwrap(),
                        };
                        assert!(db.horizon() >= gsn, "{gsn} is acknowledged at horizon {}", db.horizon());
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        assert_eq!(db.horizon(), 6);
        drop((t, db));
    });
}

/// A future that asks just as its batch gets durable is answered at once or woken.
#[test]
fn an_awaited_ticket_is_answered() {
    explore(4, 2000, || {
        let db = Database::open("/db", options()).unwrap();
        let t = table(&db);
        let clients: Vec<_> = (0..2i64)
            .map(|c| {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    let insert = |tx: &mut crate::Transaction<'_>| tx.insert(&t, &[c.into(), 0.into()]);
                    let ticket = db.run_with(Durability::Durable, insert).unwrap().1;
                    shuttle::future::block_on(ticket).unwrap();
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
    });
}

/// Who waits for a lazy commit gets it flushed, even if it came while another client was flushing. It used to be left to the
/// timer of lazy commits then, which never fires here.
#[test]
fn a_lazy_commit_that_is_waited_for_is_flushed() {
    explore(5, 2000, || {
        let db = Database::open("/db", options()).unwrap();
        let t = table(&db);
        let clients: Vec<_> = [Durability::Durable, Durability::Lazy, Durability::Lazy]
            .into_iter()
            .zip(0i64..)
            .map(|(durability, c)| {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    let insert = |tx: &mut crate::Transaction<'_>| tx.insert(&t, &[c.into(), 0.into()]);
                    let ticket = db.run_with(durability, insert).unwrap().1;
                    assert!(ticket.wait_durable().unwrap() <= db.horizon());
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
    });
}

/// A sync fails under waiting clients: each gets its number or learns that it cannot know, nobody waits for ever.
#[test]
fn a_failed_sync_reaches_every_waiter() {
    let (told, turn) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counted = told.clone();
    explore(2, 300, move || {
        let disk = CrashMedium::new(1);
        let db = Database::open("/db", Options { medium: Arc::new(disk.clone()), streams: 2, ..options() })
            .unwrap();
        let t = table(&db);
        disk.set_faults(Faults {
            sync_error_at: Some(disk.calls() + 1 + turn.fetch_add(1, Ordering::Relaxed) % 20),
            ..Faults::default()
        });
        let clients: Vec<_> = (0..3i64)
            .map(|c| {
                let (db, t, told) = (db.clone(), t.clone(), told.clone());
                spawn(move || {
                    for i in 0..3 {
                        match db.run(|tx| tx.insert(&t, &[(c * 10 + i).into(), 0.into()])) {
                            Ok(()) => {}
                            Err(Error::Indeterminate { .. }) => drop(told.fetch_add(1, Ordering::Relaxed)),
                            Err(Error::Poisoned { .. } | Error::LogFull { .. }) => {}
                            Err(e) => panic!("{e}"),
                        }
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
    });
    let told = counted.load(Ordering::Relaxed);
    assert!(told > 20, "{told} waiters were told");
}

/// An update that outgrows its slot takes the row out of the indexes and puts it back. Who looks it up meanwhile must wait,
/// not find nothing: with coarse locks by its key, with any locks by a secondary key. (The writer once locked neither.)
#[test]
fn a_row_that_moves_is_never_missed() {
    for (seed, locking) in [Locking::Record, Locking::Page, Locking::Container].into_iter().enumerate() {
        explore(seed as u64, 500, move || {
            let db = Database::open("/db", options()).unwrap();
            let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarBytes(900));
            let s = s.column("n", ColumnType::Int64).hash_index("by_n", &["n"]).locking(locking);
            let t = db.create_table(s.primary_key(&["id"])).unwrap();
            let row = |len: usize| [Value::Int(1), Value::Bytes(&[7; 900][..len]), Value::Int(5)];
            db.run(|tx| tx.insert(&t, &row(3))).unwrap();
            let writer = {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || db.run(|tx| tx.upsert(&t, &row(800))).map(|_| ()).unwrap())
            };
            let by_key = db.run(|tx| Ok(tx.get(&t, &[1.into()])?.is_some())).unwrap();
            let by_index = db.run(|tx| Ok(tx.get_by(&t, "by_n", &[5.into()])?.len())).unwrap();
            assert_eq!((by_key, by_index), (true, 1), "{locking:?}");
            writer.join().unwrap();
        });
    }
}

/// Two locks in any order by transactions of any age: never two exclusive holders, never a deadlock, nothing left behind.
#[test]
fn locks_exclude_and_never_deadlock() {
    explore(3, 2000, || {
        let m = Arc::new(LockManager::new(true));
        let inside = Arc::new([const { AtomicU64::new(0) }; 2]);
        let ages = Arc::new(AtomicU64::new(1));
        let clients: Vec<_> = [[0, 1], [1, 0], [0, 0]]
            .into_iter()
            .map(|names| {
                let (m, inside, ages) = (m.clone(), inside.clone(), ages.clone());
                spawn(move || {
                    for mode in [Mode::Exclusive, Mode::Shared] {
                        let age = ages.fetch_add(1, Ordering::Relaxed);
                        while !both(&m, &inside, names, mode, age) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        assert_eq!(m.len(), 0);
    });
}

/// Takes both locks and gives them back; false if wait-die refused one. The count has the writers in the upper half.
fn both(m: &LockManager, inside: &[AtomicU64; 2], names: [u64; 2], mode: Mode, age: u64) -> bool {
    let one = if mode == Mode::Exclusive { 1 << 32 } else { 1 };
    let mut held = Vec::new();
    let whole = names.iter().all(|&n| match m.acquire(n, mode, age) {
        Ok(Held::Already) => true,
        Ok(Held::New) => {
            held.push(n);
            let others = inside[n as usize].fetch_add(one, Ordering::Relaxed);
            let alone = if mode == Mode::Exclusive { others == 0 } else { others >> 32 == 0 };
            assert!(alone, "{mode:?} beside {others:x}");
            true
        }
        Err(Refused) => false,
    });
    for n in held {
        thread::yield_now();
        inside[n as usize].fetch_sub(one, Ordering::Relaxed);
        m.release(n, age);
    }
    whole
}

/// Concurrent clients and checkpoints on a disk that dies under them; see `tests/crash/clients.rs`.
fn crash(seed: u64, sabotage: Sabotage) {
    sync::explore(seed, 1, move || {
        let disk = CrashMedium::new(seed ^ 0xabcd);
        let base = Options { sabotage, ..options() };
        let plan = clients::Plan::new(seed, 3, 4, &disk, base);
        if let Err(e) = clients::run(&plan, &disk) {
            panic!("seed {seed}: {e}");
        }
    });
}

fn schedules() -> u64 {
    let all = std::env::var("MMDB_CRASH_SCHEDULES").ok().and_then(|v| v.parse().ok()).unwrap_or(5000);
    all / 5
}

#[test]
fn what_scheduled_clients_were_told_survives_every_crash() {
    for seed in 1..=schedules() {
        let done = std::panic::catch_unwind(|| crash(seed, Sabotage::None));
        assert!(done.is_ok(), "seed {seed}");
    }
}

fn is_caught(sabotage: Sabotage) {
    let caught = (1..=5000).find(|&seed| std::panic::catch_unwind(|| crash(seed, sabotage)).is_err());
    eprintln!("{sabotage:?}: seed {:?}", caught.expect("5000 schedules did not notice"));
}

#[test]
fn scheduled_clients_notice_a_checkpoint_published_before_it_is_durable() {
    is_caught(Sabotage::NoPublishRule);
}

#[test]
fn scheduled_clients_notice_recovery_without_the_version_filter() {
    is_caught(Sabotage::NoVersionFilter);
}

#[test]
fn scheduled_clients_notice_recovery_without_the_gap_free_cut() {
    is_caught(Sabotage::NoGapFreeCut);
}

#[test]
fn scheduled_clients_notice_an_acknowledgement_before_the_sync() {
    is_caught(Sabotage::NoSync);
}
