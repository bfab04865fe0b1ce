//! Every order of threads, as far as a seeded scheduler gets: tickets, the durable horizon, the
//! lock table, checkpoints, and crashes in the middle of all that.

#[path = "../tests/crash/clients.rs"]
mod clients;
// The schedules on one thread use more of it.
#[allow(dead_code)]
#[path = "../tests/crash/history.rs"]
mod history;
#[path = "../tests/crash/keeper.rs"]
mod keeper;
#[path = "../tests/crash/older.rs"]
mod older;
#[path = "../tests/crash/rng.rs"]
mod rng;
#[allow(dead_code)]
#[path = "../tests/crash/seeds.rs"]
mod seeds;
#[allow(dead_code)]
#[path = "../tests/crash/table.rs"]
mod table;
#[allow(dead_code)]
#[path = "../tests/crash/wrong.rs"]
mod wrong;

use crate as engine;
use crate::intrusions::two_alike;
use crate::life::Life;
use crate::lock::{Grant, LockManager, Mode, TableLock};
use crate::medium::{CrashMedium, Faults};
use crate::sync::{self, thread, thread::spawn};
use crate::{ColumnType, Database, Durability, Error, Locking, Options, Sabotage, Schema, Table, Value};
use seeds::Seeds;
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
        // Its time is not the scheduler's: the process may stand still in the middle of a schedule.
        lock_timeout: std::time::Duration::from_secs(3600),
        ..Options::in_memory()
    }
}

fn table(db: &Database) -> Table {
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    db.create_table(s.primary_key(&["id"])).unwrap()
}

/// Blocking, polling and awaiting clients on two streams: all are told, nobody too early, and
/// closing ends every thread.
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

/// Who waits for a lazy commit gets it flushed, even if it came while another client was flushing.
/// It used to be left to the timer of lazy commits then, which never fires here.
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

/// Commits on two streams, most of which nobody waits for, and a reader who awaits what it has
/// seen. Who waited was told of his commit with the last one that the same flush took along: if
/// that was behind a lazy commit of the other stream, with the timer of that. And the reader could
/// lie down at a flush that was just over, while the horizon waited for the other stream.
#[test]
fn nobody_waits_for_the_timer_of_anothers_lazy_commit() {
    explore(3, 2000, || {
        let db = Database::open("/db", Options { streams: 2, ..options() }).unwrap();
        let t = table(&db);
        let clients: Vec<_> = (0..5i64)
            .map(|c| {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    if c == 4 {
                        let ticket = db.snapshot().unwrap().ticket();
                        shuttle::future::block_on(ticket).unwrap();
                        return;
                    }
                    let insert = |tx: &mut crate::Transaction<'_>| tx.insert(&t, &[c.into(), 0.into()]);
                    let durability = if c == 0 { Durability::Durable } else { Durability::Lazy };
                    db.run_with(durability, insert).unwrap().1.wait().unwrap();
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
    });
}

/// On one of two streams. Without threads of its own the database takes turns.
fn insert_on(db: &Database, t: &Table, stream: u64, ids: std::ops::Range<i64>) {
    for id in ids {
        if db.0.engine.ages.load(Ordering::SeqCst) % 2 != stream {
            drop(db.begin().unwrap());
        }
        db.run(|tx| tx.insert(t, &[id.into(), 0.into()])).unwrap();
    }
}

/// The bytes of the log were added up one stream after the other. With a checkpoint between two of
/// them, and commits of the second one, more was told than there ever was.
#[test]
fn the_bytes_of_the_log_are_those_of_one_moment() {
    explore(60, 100, || {
        let db = Database::open("/db", Options { streams: 2, background: false, ..options() }).unwrap();
        let t = table(&db);
        insert_on(&db, &t, 0, 0..10);
        let before = db.0.engine.log.bytes();
        let writer = {
            let (db, t) = (db.clone(), t.clone());
            spawn(move || {
                db.checkpoint().unwrap();
                insert_on(&db, &t, 1, 10..18);
                db.0.engine.log.bytes()
            })
        };
        let most = (0..300).map(|_| db.0.engine.log.bytes()).max().unwrap_or(0);
        let after = writer.join().unwrap();
        assert!(most <= before.max(after), "{most} bytes of at most {before} and then {after}");
    });
}

/// A sync fails under waiting clients: each gets its number or learns that it cannot know, nobody
/// waits for ever.
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

/// An update that outgrows its slot takes the row out of the indexes and puts it back. Who looks it
/// up meanwhile must wait, not find nothing: with coarse locks by its key, with any locks by a
/// secondary key. (The writer once locked neither.)
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
            let by_key = db.run(|tx| Ok::<_, Error>(tx.get(&t, &[1.into()])?.is_some())).unwrap();
            let by_index = db.run(|tx| Ok::<_, Error>(tx.get_by(&t, "by_n", &[5.into()])?.len())).unwrap();
            assert_eq!((by_key, by_index), (true, 1), "{locking:?}");
            writer.join().unwrap();
        });
    }
}

/// What a client saw of a range, and what it did because of that: ids of rows and their lengths.
struct Turn {
    gsn: u64,
    seen: Vec<(i64, usize)>,
    /// A row that came, went (no length) or changed its length.
    change: (i64, Option<usize>),
}

/// Reads the rows from 10 to 19 by an index, and because of what is there inserts one, deletes one,
/// or makes one outgrow its slot.
fn change_by_range(
    tx: &mut crate::Transaction<'_>,
    t: &Table,
    (client, index): (i64, &str),
) -> crate::Result<Turn> {
    let mut read = || -> crate::Result<Vec<(i64, usize)>> {
        let cursor = tx.range(t, index, [Value::Int(10)]..[Value::Int(20)])?;
        let cursor = if client == 1 { cursor.rev() } else { cursor };
        let entry = |row: crate::RowView<'_>| {
            (row.at(0).as_int().unwrap_or(0), row.at(2).as_bytes().map_or(0, <[u8]>::len))
        };
        let rows = cursor.map(|row| row.map(|row| entry(row.view())));
        let mut rows: Vec<_> = rows.collect::<crate::Result<_>>()?;
        rows.sort_unstable();
        Ok(rows)
    };
    let seen = read()?;
    let again = read()?;
    assert_eq!(seen, again, "the same read gives two answers");
    let row = |id: i64, len: usize| [Value::Int(id), Value::Int(id), Value::Bytes(&[7; 900][..len])];
    let change = match (seen.first(), seen.len()) {
        (Some(&(id, 3)), 2..) => (id, Some(800)),
        (Some(&(id, _)), 2..) => (id, None),
        _ => (13 + client * 2, Some(3)),
    };
    match change {
        (id, Some(len)) => drop(tx.upsert(t, &row(id, len))?),
        (id, None) => assert!(tx.delete(t, &[id.into()])?, "row {id} was seen"),
    }
    Ok(Turn { gsn: 0, seen, change })
}

/// Clients whose changes depend on ranges: in the order of their commits, each must have seen what
/// all before it have made, and nothing else.
fn change_by_ranges(seed: u64, schedules: usize, locking: Locking, sabotage: Sabotage) {
    explore(seed, schedules, move || {
        let db = Database::open("/db", Options { sabotage, ..options() }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let s = s.column("pad", ColumnType::VarBytes(900)).ordered_primary_key(&["id"]);
        let t = db.create_table(s.ordered_index("by_n", &["n"]).locking(locking)).unwrap();
        let at_first = [(11i64, 3usize), (25, 3)];
        db.run(|tx| {
            let row = |id: i64| [Value::Int(id), Value::Int(id), Value::Bytes(&[7; 3])];
            at_first.iter().try_for_each(|(id, _)| tx.insert(&t, &row(*id)))
        })
        .unwrap();
        let clients: Vec<_> = (0..3i64)
            .map(|client| {
                let (db, t) = (db.clone(), t.clone());
                let index = if client == 2 { "by_n" } else { "primary" };
                spawn(move || {
                    let turn = |_| {
                        let act = |tx: &mut crate::Transaction<'_>| change_by_range(tx, &t, (client, index));
                        let (turn, ticket) = db.run_with(Durability::Lazy, act).unwrap();
                        Turn { gsn: ticket.gsn(), ..turn }
                    };
                    (0..2).map(turn).collect::<Vec<Turn>>()
                })
            })
            .collect();
        let mut turns: Vec<Turn> = clients.into_iter().flat_map(|c| c.join().unwrap()).collect();
        turns.sort_by_key(|turn| turn.gsn);
        let mut rows: std::collections::BTreeMap<i64, usize> = at_first.into();
        for turn in turns {
            let there: Vec<_> = rows.range(10..20).map(|(id, len)| (*id, *len)).collect();
            assert_eq!(turn.seen, there, "commit {} with {locking:?}", turn.gsn);
            match turn.change {
                (id, Some(len)) => drop(rows.insert(id, len)),
                (id, None) => drop(rows.remove(&id)),
            }
        }
        assert_eq!(db.locks_held(), 0);
        db.verify().unwrap();
    });
}

/// Ranges show what no other transaction changes until theirs ends: no phantom, in whatever order
/// the threads go. A range once locked its whole table.
#[test]
fn ranges_are_serializable() {
    for (seed, locking) in [Locking::Record, Locking::Page, Locking::Container].into_iter().enumerate() {
        change_by_ranges(40 + seed as u64, 600, locking, Sabotage::None);
    }
}

/// The schedules notice each part of the locks of ranges that is left out.
#[test]
fn ranges_without_a_part_of_their_locks_are_noticed() {
    let parts = [
        Sabotage::NoRangeClaims,
        Sabotage::RangeEndsAtRow,
        Sabotage::RangeOfOneKey,
        Sabotage::NoRangeRowLocks,
    ];
    for (seed, defect) in parts.into_iter().enumerate() {
        let run = || change_by_ranges(50 + seed as u64, 4000, Locking::Record, defect);
        assert!(std::panic::catch_unwind(run).is_err(), "{defect:?} is not noticed");
    }
}

/// A row outgrows its slot, then another one is deleted and inserted again by one transaction, and
/// a third one comes to the slot that the first has left, while reads without locks look for the
/// first two, which an index takes for each other: alone, many at once, and in snapshots.
fn read_what_moves(seed: u64, schedules: usize, locking: Locking, defect: Sabotage) {
    let [a, b] = two_alike();
    explore(seed, schedules, move || {
        let db = Database::open("/db", Options { sabotage: defect, ..options() }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarBytes(900));
        let t = db.create_table(s.primary_key(&["id"]).locking(locking)).unwrap();
        let row = |id: i64, len: usize| [Value::Int(id), Value::Bytes(&[7; 900][..len])];
        db.run(|tx| [a, b].into_iter().try_for_each(|id| tx.insert(&t, &row(id, 3)))).unwrap();
        let writer = {
            let (db, t) = (db.clone(), t.clone());
            spawn(move || {
                drop(db.run_with(Durability::Lazy, |tx| tx.upsert(&t, &row(a, 800))).unwrap());
                let again = |tx: &mut crate::Transaction<'_>| {
                    tx.delete(&t, &[b.into()])?;
                    tx.insert(&t, &row(b, 4))
                };
                drop(db.run_with(Durability::Lazy, again).unwrap());
                drop(db.run_with(Durability::Lazy, |tx| tx.insert(&t, &row(-1, 5))).unwrap());
            })
        };
        let mut last = [3, 3];
        for turn in 0..3 {
            let mut lengths = [0, 0];
            let mut see = |n: usize, row: Option<crate::RowView<'_>>| {
                lengths[n] = row.map_or(0, |row| {
                    assert_eq!(row.at(0).as_int(), Some([a, b][n]), "the row of another key");
                    row.at(1).as_bytes().map_or(0, <[u8]>::len)
                });
            };
            let keys = [[Value::Int(a)], [Value::Int(b)]];
            match turn {
                0 => db.get_many_with(&t, keys, see).unwrap(),
                1 => db.snapshot().unwrap().get_many_with(&t, keys, see).unwrap(),
                _ => {
                    (0..2).for_each(|n| see(n, db.get(&t, &keys[n]).unwrap().as_ref().map(crate::Row::view)))
                }
            }
            assert!(lengths.iter().all(|length| [3, 4, 800].contains(length)), "{turn}: {lengths:?}");
            // Longer from commit to commit.
            assert!(lengths[0] >= last[0] && lengths[1] >= last[1], "{turn}: {lengths:?} after {last:?}");
            last = lengths;
        }
        writer.join().unwrap();
    });
}

#[test]
fn reads_without_locks_never_miss_a_row_that_moves() {
    for (seed, locking) in [Locking::Record, Locking::Container, Locking::None].into_iter().enumerate() {
        read_what_moves(70 + seed as u64, 1000, locking, Sabotage::None);
    }
}

/// The schedules notice that moves are not announced.
#[test]
fn moves_that_are_not_announced_are_noticed() {
    let run = || read_what_moves(75, 4000, Locking::Record, Sabotage::AnnouncesNoMoves);
    assert!(std::panic::catch_unwind(run).is_err());
}

/// A table gets another column, or is dropped, while rows of it are read and written: a read gets a
/// whole row in columns that its handle knows, or is told that the table is gone.
/// A transaction that meets a change of the definition, at whatever step, is run again: it is not
/// told that there is no such table. Once in 50,000 schedules it was, where it looked between the
/// new state and the note of what had led there; or at one change's state and the next one's note.
#[test]
fn who_meets_a_change_of_the_definition_is_run_again() {
    explore(90, 2000, || {
        let life = Arc::new(Life::default());
        let then = life.now().unwrap();
        let changer = {
            let life = life.clone();
            spawn(move || assert!(life.redefine() && life.reshape() && life.redefine()))
        };
        for _ in 0..3 {
            let now = life.now().unwrap();
            assert!(now == then || life.was_redefined(then, now), "{then:?}, {now:?}");
        }
        changer.join().unwrap();
        assert!(life.begin_fill() && life.end_fill());
        assert!(!life.was_redefined(then, life.now().unwrap()), "a fill is no change of the definition");
    });
    explore(91, 600, || {
        let db = Database::open("/db", options()).unwrap();
        let t = table(&db);
        let changer = {
            let (db, t) = (db.clone(), t.clone());
            spawn(move || {
                db.create_index(&t, crate::NewIndex::hash("by_n", &["n"])).unwrap();
                db.drop_index(&t, "by_n").unwrap();
            })
        };
        for id in 1..=2i64 {
            let write = |tx: &mut crate::Transaction<'_>| {
                tx.upsert(&t, &[id.into(), 5.into()])?;
                tx.upsert(&t, &[(id + 2).into(), 6.into()])
            };
            drop(db.run_with(Durability::Lazy, write).unwrap());
        }
        changer.join().unwrap();
    });
}

#[test]
fn reads_without_locks_bear_changes_of_the_table() {
    for drops in [false, true] {
        explore(76 + u64::from(drops), 600, move || {
            let db = Database::open("/db", options()).unwrap();
            let t = table(&db);
            db.run(|tx| (1..=2i64).try_for_each(|id| tx.insert(&t, &[id.into(), 5.into()]))).unwrap();
            let changer = {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    if drops {
                        return db.drop_table(&t).unwrap();
                    }
                    let more = crate::Column { name: "m".into(), kind: ColumnType::Int64, nullable: false };
                    let t = db.add_column(&t, more, 9.into()).unwrap();
                    let change =
                        |tx: &mut crate::Transaction<'_>| tx.update(&t, &[2.into()], &[("m", 8.into())]);
                    drop(db.run_with(Durability::Lazy, change).unwrap());
                })
            };
            let is_whole = |row: crate::RowView<'_>| {
                assert_eq!(row.at(1), 5.into());
                let more = row.at(2);
                assert!(more.is_null() || more == 9.into() || more == 8.into(), "{more:?}");
            };
            for id in 1..=2i64 {
                match db.get_with(&t, &[id.into()], is_whole) {
                    Ok(found) => assert!(found.is_some(), "{id}"),
                    Err(e) => assert!(drops && matches!(e, Error::NoSuchTable { .. }), "{e}"),
                }
            }
            let keys = [[Value::Int(1)], [Value::Int(2)]];
            match db.get_many_with(&t, keys, |_, row| is_whole(row.unwrap())) {
                Ok(()) => {}
                Err(e) => assert!(drops && matches!(e, Error::NoSuchTable { .. }), "{e}"),
            }
            changer.join().unwrap();
        });
    }
}

/// A row of a table without locking that somebody wrote with another column, since a transaction
/// looked at the table's definition, was an error of the closure: `run` gave it to the caller.
#[test]
fn runs_without_locks_bear_changes_of_the_table() {
    explore(78, 1500, || {
        let db = Database::open("/db", options()).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        // So that its slot has room for another one: a row that moves may be missed here.
        let s = s.column("o", ColumnType::Int64).primary_key(&["id"]).locking(Locking::None);
        let t = db.create_table(s).unwrap();
        db.run(|tx| tx.insert(&t, &[1.into(), 5.into(), 6.into()])).unwrap();
        let changer = {
            let (db, t) = (db.clone(), t.clone());
            spawn(move || {
                let more = crate::Column { name: "m".into(), kind: ColumnType::Int64, nullable: false };
                let t = db.add_column(&t, more, 9.into()).unwrap();
                let change = |tx: &mut crate::Transaction<'_>| tx.update(&t, &[1.into()], &[("m", 8.into())]);
                drop(db.run_with(Durability::Lazy, change).unwrap());
            })
        };
        let n = db.run(|tx| tx.get_with(&t, &[1.into()], |row| row.at(1).as_int())).unwrap();
        assert_eq!(n, Some(Some(5)));
        let all = db.run(|tx| {
            let mut cursor = tx.scan(&t)?;
            cursor.next_with(|row| row.at(1).as_int())
        });
        assert_eq!(all.unwrap(), Some(Some(5)));
        changer.join().unwrap();
    });
}

/// Two rows exchange a unique key in one transaction, which gives it to one before it takes it from
/// the other, while a snapshot reads: it finds each key once, by point and by range, whatever it
/// meets half done. Ghosts that were kept one by one, each before its own entry changed, were found
/// wanting: a reader in between found neither the entry nor its ghost.
#[test]
fn a_snapshot_finds_unique_keys_that_are_being_exchanged() {
    for (seed, ordered) in [true, false].into_iter().enumerate() {
        explore(60 + seed as u64, 1500, move || {
            let db = Database::open("/db", options()).unwrap();
            let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
            let s = s.primary_key(&["id"]);
            let s = if ordered {
                s.unique_ordered_index("by_n", &["n"])
            } else {
                s.unique_hash_index("by_n", &["n"])
            };
            let t = db.create_table(s).unwrap();
            db.run(|tx| (1..=2i64).try_for_each(|id| tx.insert(&t, &[id.into(), id.into()]))).unwrap();
            let writer = {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    for (one, other) in [(2i64, 1i64), (1, 2)] {
                        let exchange = |tx: &mut crate::Transaction<'_>| {
                            tx.update(&t, &[1.into()], &[("n", (-1).into())])?;
                            tx.update(&t, &[2.into()], &[("n", other.into())])?;
                            tx.update(&t, &[1.into()], &[("n", one.into())]).map(drop)
                        };
                        drop(db.run_with(Durability::Lazy, exchange).unwrap());
                    }
                })
            };
            for _ in 0..2 {
                let snapshot = db.snapshot().unwrap();
                let by_key = |n: i64| {
                    let rows = snapshot.get_by(&t, "by_n", &[n.into()]).unwrap();
                    assert_eq!(rows.len(), 1, "key {n}");
                    rows[0].at(0).as_int().unwrap()
                };
                let (first, second) = (by_key(1), by_key(2));
                assert_ne!(first, second, "two keys of one row");
                assert_eq!((by_key(1), by_key(2)), (first, second));
                if ordered {
                    let range = snapshot.range(&t, "by_n", [Value::Int(0)]..[Value::Int(9)]).unwrap();
                    let ids: Vec<_> = range.map(|row| row.unwrap().at(0).as_int().unwrap()).collect();
                    assert_eq!(ids, [first, second]);
                }
            }
            writer.join().unwrap();
        });
    }
}

/// Snapshots that are closed at once, beside a writer, leave nothing that was kept for them. Who
/// closed one pruned by the list of those that were open when it began, and put back what another
/// needed: that one was closed in the meantime by somebody who found nothing to prune.
#[test]
fn snapshots_that_are_closed_at_once_leave_nothing() {
    explore(80, 4000, || {
        let db = Database::open("/db", options()).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let t = db.create_table(s.primary_key(&["id"]).hash_index("by_n", &["n"])).unwrap();
        drop(db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[1.into(), 1.into()])).unwrap());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    let snapshot = db.snapshot().unwrap();
                    assert!(snapshot.get(&t, &[1.into()]).unwrap().is_some());
                })
            })
            .collect();
        for n in 2..4i64 {
            let update = |tx: &mut crate::Transaction<'_>| tx.update(&t, &[1.into()], &[("n", n.into())]);
            drop(db.run_with(Durability::Lazy, update).unwrap());
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let stats = db.stats();
        assert_eq!((stats.snapshots, stats.snapshot_bytes), (0, 0), "kept for nobody");
    });
}

/// Whoever waits for a table that is dropped meanwhile, for rows of it or all of it, learns that it
/// is gone: nobody is left in line for good.
#[test]
fn nobody_waits_for_a_dropped_table() {
    let (done, gone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (done.clone(), gone.clone());
    explore(7, 2000, move || {
        let db = Database::open("/db", options()).unwrap();
        let t = table(&db);
        db.run(|tx| (0..2i64).try_for_each(|id| tx.insert(&t, &[id.into(), 0.into()]))).unwrap();
        let client = |c: i64| {
            let (db, t, done, gone) = (db.clone(), t.clone(), done.clone(), gone.clone());
            spawn(move || {
                let ended = match c {
                    0 => db.drop_table(&t),
                    1 => db.run(|tx| tx.scan(&t).map(|_| ())),
                    2 => db.run(|tx| {
                        tx.scan(&t).map(|_| ())?;
                        tx.update(&t, &[0.into()], &[("n", 1.into())]).map(|_| ())
                    }),
                    _ => db.run(|tx| {
                        tx.update(&t, &[0.into()], &[("n", 2.into())])?;
                        tx.update(&t, &[1.into()], &[("n", 2.into())]).map(|_| ())
                    }),
                };
                match ended {
                    Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                    Err(Error::NoSuchTable { .. }) if c > 0 => drop(gone.fetch_add(1, Ordering::Relaxed)),
                    Err(e) => panic!("client {c}: {e}"),
                }
            })
        };
        let clients: Vec<_> = (0..4).map(client).collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        assert_eq!((db.tables().len(), db.locks_held()), (0, 0));
    });
    let (done, gone) = (counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed));
    assert!(done > 2500 && gone > 500, "{done} done, {gone} met no table");
}

/// Upserts of one row without locks never report a duplicate: whoever was second runs again and
/// replaces. They once failed with `DuplicateKey`, of the primary key, which an upsert cannot
/// violate, or of a unique one that the row itself had.
#[test]
fn upserts_of_one_row_without_locks_meet_no_duplicate() {
    explore(6, 3000, || {
        let db = Database::open("/db", options()).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("u", ColumnType::Int64);
        let s =
            s.column("v", ColumnType::VarBytes(900)).unique_hash_index("by_u", &["u"]).locking(Locking::None);
        let t = db.create_table(s.primary_key(&["id"])).unwrap();
        // The lengths make the row move.
        let clients: Vec<_> = [10, 300, 800]
            .into_iter()
            .map(|len| {
                let (db, t) = (db.clone(), t.clone());
                spawn(move || {
                    let row = [Value::Int(1), Value::Int(7), Value::Bytes(&[7; 900][..len])];
                    db.run(|tx| tx.upsert(&t, &row)).map(|_| ()).unwrap();
                })
            })
            .collect();
        clients.into_iter().for_each(|c| c.join().unwrap());
        db.verify().unwrap();
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count(), 1);
    });
}

/// One transaction of [`locks_exclude_and_never_deadlock`].
#[derive(Clone, Copy)]
struct Claim {
    /// Rows to lock, in this order.
    rows: [u64; 2],
    mode: Mode,
    /// Take the whole table in this mode, before the rows (`true`) or after them.
    whole: Option<(Mode, bool)>,
}

/// The locks of a table of two rows, and who is inside: readers in the lower half, writers in the
/// upper.
struct Arena {
    locks: LockManager,
    table: TableLock,
    rows: [AtomicU64; 2],
    ages: AtomicU64,
}

impl Arena {
    /// Goes in at `row` and sees whether somebody is there who must not be; `mine` is what this
    /// transaction has there already.
    fn enter(&self, row: usize, mode: Mode, mine: &mut [u64; 2]) {
        let one = if mode == Mode::Exclusive { 1 << 32 } else { 1 };
        let others = self.rows[row].fetch_add(one, Ordering::Relaxed) - mine[row];
        mine[row] += one;
        let alone = if mode == Mode::Exclusive { others == 0 } else { others >> 32 == 0 };
        assert!(alone, "{mode:?} beside {others:x}");
    }

    /// Runs a transaction as `Transaction` does; false if wait-die refused it a lock.
    fn run(&self, claim: Claim, age: u64) -> bool {
        let mut mine = [0; 2];
        let mut names = Vec::new();
        let mut has_whole = false;
        let mut take_whole = |mine: &mut [u64; 2], mode| {
            has_whole = self.locks.acquire_whole(&self.table, mode, age, false).is_ok();
            if has_whole {
                (0..2).for_each(|row| self.enter(row, mode, mine));
            }
            has_whole
        };
        let take_rows = |mine: &mut [u64; 2], names: &mut Vec<u64>| {
            claim.rows.iter().all(|&row| match self.locks.acquire(&self.table, row, claim.mode, age) {
                Ok(held) => {
                    if held == Grant::New {
                        names.push(row);
                        self.enter(row as usize, claim.mode, mine);
                    }
                    true
                }
                Err(_) => false,
            })
        };
        let done = match claim.whole {
            None => take_rows(&mut mine, &mut names),
            Some((mode, true)) => take_whole(&mut mine, mode) && take_rows(&mut mine, &mut names),
            Some((mode, false)) => take_rows(&mut mine, &mut names) && take_whole(&mut mine, mode),
        };
        thread::yield_now();
        for (row, mine) in mine.into_iter().enumerate() {
            self.rows[row].fetch_sub(mine, Ordering::Relaxed);
        }
        names.into_iter().for_each(|name| self.locks.release(name, age));
        self.locks.leave(&self.table, has_whole, age);
        done
    }
}

/// Rows in any order and whole tables, by transactions of any age: never two who exclude each
/// other, never a deadlock, nothing left behind.
#[test]
fn locks_exclude_and_never_deadlock() {
    use Mode::{Exclusive, Shared};
    let rows = |rows, mode| Claim { rows, mode, whole: None };
    let whole = |mode, first| Claim { rows: [1, 0], mode, whole: Some((mode, first)) };
    let mixes = [
        [rows([0, 1], Exclusive), rows([1, 0], Exclusive), rows([0, 0], Shared)],
        [rows([0, 1], Exclusive), whole(Shared, true), rows([1, 1], Shared)],
        [rows([0, 1], Exclusive), whole(Shared, true), whole(Exclusive, false)],
        [rows([0, 1], Shared), whole(Exclusive, true), whole(Shared, false)],
        [whole(Shared, true), whole(Exclusive, true), whole(Shared, false)],
    ];
    for (seed, mix) in mixes.into_iter().enumerate() {
        explore(30 + seed as u64, 2000, move || {
            let arena = Arc::new(Arena {
                locks: LockManager::new(true, std::time::Duration::from_secs(600)),
                table: TableLock::new(0),
                rows: [const { AtomicU64::new(0) }; 2],
                ages: AtomicU64::new(1),
            });
            let clients = mix.map(|claim| {
                let arena = arena.clone();
                spawn(move || {
                    for mode in [claim.mode, Shared] {
                        let age = arena.ages.fetch_add(1, Ordering::Relaxed);
                        while !arena.run(Claim { mode, ..claim }, age) {
                            thread::yield_now();
                        }
                    }
                })
            });
            clients.into_iter().for_each(|c| c.join().unwrap());
            assert_eq!((arena.locks.len(), arena.table.len()), (0, 0));
        });
    }
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

const TARGET: &str = "--lib";

/// As a result: a schedule that fails panics, and so does its scheduler.
fn outcome(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let panic = match std::panic::catch_unwind(|| crash(seed, sabotage)) {
        Ok(()) => return Ok(()),
        Err(e) => e,
    };
    let what = panic.downcast_ref::<String>().cloned();
    Err(what.unwrap_or_else(|| "panicked".to_owned()))
}

#[test]
fn what_scheduled_clients_were_told_survives_every_crash() {
    let name = "interleavings::what_scheduled_clients_were_told_survives_every_crash";
    Seeds::of_environment(5).none_fails((TARGET, name), 1, |seed| outcome(seed, Sabotage::None));
}

fn is_caught(test: &str, sabotage: Sabotage) {
    let name = format!("interleavings::{test}");
    Seeds::to_notice(5000).one_notices((TARGET, &name), 1, |seed| outcome(seed, sabotage));
}

#[test]
fn scheduled_clients_notice_a_checkpoint_published_before_it_is_durable() {
    is_caught(
        "scheduled_clients_notice_a_checkpoint_published_before_it_is_durable",
        Sabotage::NoPublishRule,
    );
}

#[test]
fn scheduled_clients_notice_recovery_without_the_version_filter() {
    is_caught("scheduled_clients_notice_recovery_without_the_version_filter", Sabotage::NoVersionFilter);
}

#[test]
fn scheduled_clients_notice_recovery_without_the_gap_free_cut() {
    is_caught("scheduled_clients_notice_recovery_without_the_gap_free_cut", Sabotage::NoGapFreeCut);
}

#[test]
fn scheduled_clients_notice_an_acknowledgement_before_the_sync() {
    is_caught("scheduled_clients_notice_an_acknowledgement_before_the_sync", Sabotage::NoSync);
}

#[test]
fn scheduled_clients_notice_a_backup_without_its_oldest_segment() {
    is_caught("scheduled_clients_notice_a_backup_without_its_oldest_segment", Sabotage::BackupLacksLog);
}

#[test]
fn scheduled_clients_notice_a_backup_that_does_not_wait_for_the_log() {
    is_caught(
        "scheduled_clients_notice_a_backup_that_does_not_wait_for_the_log",
        Sabotage::BackupWithoutFlush,
    );
}

#[test]
fn scheduled_clients_notice_a_flush_that_syncs_only_its_last_segment() {
    is_caught("scheduled_clients_notice_a_flush_that_syncs_only_its_last_segment", Sabotage::LastSegmentOnly);
}

#[test]
fn scheduled_clients_notice_segments_that_are_used_before_a_manifest_names_them() {
    is_caught(
        "scheduled_clients_notice_segments_that_are_used_before_a_manifest_names_them",
        Sabotage::UsesBeforeManifest,
    );
}

#[test]
fn scheduled_clients_notice_a_segment_that_is_begun_without_a_manifest_that_says_so() {
    is_caught(
        "scheduled_clients_notice_a_segment_that_is_begun_without_a_manifest_that_says_so",
        Sabotage::BeginsWithoutManifest,
    );
}
