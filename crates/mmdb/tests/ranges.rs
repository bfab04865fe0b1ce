//! What a range locks: the rows it has read and the interval they were found in, and no more, at
//! each lock granularity. Each defect of these locks is seen to bring an anomaly back.
//!
//! A range used to lock its whole table. Sixteen clients that took the head of a queue refused each
//! other, and whoever read one row kept all writers away.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Error, Locking, Options, Row, Sabotage, Schema, Table, Transaction, Value};

/// The database under test: on one thread, where conflicts are refused instead of waited for, so
/// that every interleaving can be written down.
struct Bench {
    db: Database,
    t: Table,
}

const ALL: [Locking; 3] = [Locking::Record, Locking::Page, Locking::Container];

/// Rows 10, 20, … 50: ordered by `id`, by `n` (twice the id, not unique) and by `u` (three times,
/// unique). Every one is in a container of its own, by its length, so that the coarse granularities
/// do not lock more than rows.
fn open(locking: Locking, sabotage: Sabotage) -> Bench {
    open_with(locking, Options { sabotage, background: false, ..Options::in_memory() })
}

/// For threads: none gives up because another one stands still for long.
fn patient() -> Options {
    Options { lock_timeout: std::time::Duration::from_secs(600), ..Options::in_memory() }
}

fn open_with(locking: Locking, options: Options) -> Bench {
    let db = Database::open("/db", Options { container_bytes: 4096, ..options }).unwrap();
    let s = Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("u", ColumnType::Int64)
        .column("pad", ColumnType::VarBytes(4000))
        .ordered_primary_key(&["id"])
        .ordered_index("by_n", &["n"])
        .unique_ordered_index("by_u", &["u"])
        .locking(locking);
    let t = db.create_table(s).unwrap();
    for id in (10..=50).step_by(10) {
        db.run(|tx| put(tx, &t, id, 2100)).unwrap();
    }
    Bench { db, t }
}

/// Rows of more than 2 KiB have a container for themselves, those above 3 KiB one of another class.
fn put(tx: &mut Transaction<'_>, t: &Table, id: i64, len: usize) -> mmdb::Result<()> {
    tx.upsert(t, &[id.into(), (id * 2).into(), (id * 3).into(), Value::Bytes(&vec![7; len])]).map(drop)
}

fn set(tx: &mut Transaction<'_>, t: &Table, id: i64, column: &str, value: i64) -> mmdb::Result<()> {
    assert!(tx.update(t, &[id.into()], &[(column, value.into())])?, "row {id} is there");
    Ok(())
}

fn refused<T>(r: &mmdb::Result<T>) -> bool {
    matches!(r, Err(Error::Deadlock { .. }))
}

fn ids(rows: Vec<Row>) -> Vec<i64> {
    rows.iter().map(|row| row.at(0).as_int().unwrap()).collect()
}

/// A way to read the rows 20, 30 and 40, and no others of 10 to 50: by an index, forwards or not.
#[derive(Clone, Copy, Debug)]
struct Way {
    index: &'static str,
    factor: i64,
    reverse: bool,
    for_update: bool,
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for (index, factor) in [("primary", 1), ("by_n", 2), ("by_u", 3)] {
        for (reverse, for_update) in [(false, false), (true, false), (false, true)] {
            ways.push(Way { index, factor, reverse, for_update });
        }
    }
    ways
}

impl Way {
    fn read(self, tx: &mut Transaction<'_>, t: &Table, from: i64, to: i64) -> mmdb::Result<Vec<i64>> {
        self.take(tx, t, from, to, usize::MAX)
    }

    /// The first rows of the range, as many as that.
    fn take(
        self,
        tx: &mut Transaction<'_>,
        t: &Table,
        from: i64,
        to: i64,
        n: usize,
    ) -> mmdb::Result<Vec<i64>> {
        let bounds = [Value::Int(from * self.factor)]..[Value::Int(to * self.factor)];
        let cursor = tx.range(t, self.index, bounds)?;
        let cursor = if self.reverse { cursor.rev() } else { cursor };
        let cursor = if self.for_update { cursor.for_update() } else { cursor };
        let mut found = ids(cursor.take(n).collect::<mmdb::Result<Vec<Row>>>()?);
        found.sort_unstable();
        Ok(found)
    }
}

type Change = fn(&mut Transaction<'_>, &Table) -> mmdb::Result<()>;

/// Changes of what a reader of 15 to 45 has read.
const WITHIN: [(&str, Change); 8] = [
    ("an insert between rows", |tx, t| put(tx, t, 25, 10)),
    ("an insert before the first row", |tx, t| put(tx, t, 16, 10)),
    ("an insert behind the last row", |tx, t| put(tx, t, 44, 10)),
    ("a delete", |tx, t| tx.delete(t, &[30.into()]).map(drop)),
    ("a delete of the last row", |tx, t| tx.delete(t, &[40.into()]).map(drop)),
    ("a change of another column", |tx, t| {
        tx.update(t, &[30.into()], &[("pad", Value::Bytes(&[1]))]).map(drop)
    }),
    ("a row that outgrows its slot", |tx, t| put(tx, t, 30, 3500)),
    ("a delete and an insert of the same key", |tx, t| {
        tx.delete(t, &[20.into()])?;
        put(tx, t, 20, 10)
    }),
];

/// Changes of what it has not.
const OUTSIDE: [(&str, Change); 6] = [
    ("an insert below", |tx, t| put(tx, t, 5, 10)),
    ("an insert just below", |tx, t| put(tx, t, 14, 10)),
    ("an insert at the bound", |tx, t| put(tx, t, 45, 10)),
    ("an insert at the end of the index", |tx, t| put(tx, t, 99, 10)),
    ("a delete below", |tx, t| tx.delete(t, &[10.into()]).map(drop)),
    ("a delete at the end of the index", |tx, t| tx.delete(t, &[50.into()]).map(drop)),
];

/// Whether a change by another transaction can come between two reads of a range, or two of which
/// each reads what the other changes can both commit.
fn comes_between(bench: &Bench, way: Way, change: Change) -> bool {
    let Bench { db, t } = bench;
    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
    let first = way.read(&mut a, t, 15, 45).unwrap();
    assert_eq!(first, [20, 30, 40]);
    match change(&mut b, t) {
        Err(e) => {
            assert!(matches!(e, Error::Deadlock { .. }), "{e}");
            return false;
        }
        Ok(()) => drop(b.commit().unwrap()),
    }
    // What it reads again may be another row of the same key: that it could be changed is enough.
    true
}

#[test]
fn what_a_range_has_read_nobody_changes() {
    for locking in ALL {
        for way in ways() {
            for (what, change) in WITHIN {
                let bench = open(locking, Sabotage::None);
                assert!(!comes_between(&bench, way, change), "{what}, {way:?}, {locking:?}");
                assert_eq!(bench.db.locks_held(), 0);
                bench.db.verify().unwrap();
            }
        }
    }
}

#[test]
fn what_a_range_has_not_read_others_change() {
    for locking in ALL {
        for way in ways() {
            for (what, change) in OUTSIDE {
                let Bench { db, t } = open(locking, Sabotage::None);
                let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 30, 40]);
                change(&mut b, &t).unwrap_or_else(|e| panic!("{what}, {way:?}, {locking:?}: {e}"));
                drop(b.commit().unwrap());
                assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 30, 40], "{what}");
                drop(a.commit().unwrap());
                assert_eq!(db.locks_held(), 0);
            }
        }
    }
}

/// The other way round: who comes second is the reader.
#[test]
fn what_is_about_to_change_no_range_reads() {
    for locking in ALL {
        for way in ways() {
            for (what, change) in WITHIN {
                let Bench { db, t } = open(locking, Sabotage::None);
                let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                change(&mut b, &t).unwrap();
                let read = way.read(&mut a, &t, 15, 45);
                assert!(refused(&read), "{what}, {way:?}, {locking:?}: {read:?}");
                assert!(refused(&a.commit()), "who was refused does not commit");
                drop(b.commit().unwrap());
                assert_eq!(db.locks_held(), 0);
            }
            for (what, change) in OUTSIDE {
                let Bench { db, t } = open(locking, Sabotage::None);
                let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                change(&mut b, &t).unwrap();
                let read = way.read(&mut a, &t, 15, 45);
                let seen = read.unwrap_or_else(|e| panic!("{what}, {way:?}, {locking:?}: {e}"));
                assert_eq!(seen, [20, 30, 40]);
            }
        }
    }
}

/// A range without a row locks what it has found empty; one without an end, the end of the index.
#[test]
fn empty_ranges_and_the_ends_of_an_index_are_locked() {
    for locking in ALL {
        for (index, factor) in [("primary", 1i64), ("by_n", 2), ("by_u", 3)] {
            let cases: [(Option<i64>, Option<i64>, i64, i64); 4] = [
                (Some(21), Some(29), 25, 31),
                (Some(51), None, 99, 49),
                (None, Some(10), 1, 12),
                (Some(60), None, 60, 59),
            ];
            for (from, to, inside, outside) in cases {
                let Bench { db, t } = open(locking, Sabotage::None);
                let mut a = db.begin().unwrap();
                let (from, to) =
                    (from.map(|n| [Value::Int(n * factor)]), to.map(|n| [Value::Int(n * factor)]));
                use std::ops::Bound;
                let bounds = (
                    from.as_ref().map_or(Bound::Unbounded, Bound::Included),
                    to.as_ref().map_or(Bound::Unbounded, Bound::Excluded),
                );
                let bounds = (bounds.0.cloned(), bounds.1.cloned());
                assert_eq!(a.range(&t, index, bounds).unwrap().count(), 0);
                let mut b = db.begin().unwrap();
                put(&mut b, &t, outside, 10).unwrap();
                let into = put(&mut b, &t, inside, 10);
                assert!(refused(&into), "{inside} by {index}, {locking:?}: {into:?}");
            }
        }
        // The whole of an index, and then nobody adds to either end.
        let Bench { db, t } = open(locking, Sabotage::None);
        let mut a = db.begin().unwrap();
        assert_eq!(a.scan(&t).unwrap().count(), 5);
        for id in [1, 35, 99] {
            assert!(refused(&put(&mut db.begin().unwrap(), &t, id, 10)), "{id}, {locking:?}");
        }
    }
}

/// Who reads the head of a queue is in nobody's way behind it: producers go on, and so does whoever
/// reads from the other end.
#[test]
fn the_head_alone_is_locked_by_whoever_reads_the_head() {
    for locking in ALL {
        for way in ways() {
            let Bench { db, t } = open(locking, Sabotage::None);
            let mut a = db.begin().unwrap();
            let head = if way.reverse { 50 } else { 10 };
            assert_eq!(way.take(&mut a, &t, 0, 60, 1).unwrap(), [head], "{way:?}");
            for id in [15, 45, if way.reverse { 5 } else { 99 }] {
                db.run(|tx| put(tx, &t, id, 10))
                    .unwrap_or_else(|e| panic!("{id}, {way:?}, {locking:?}: {e}"));
            }
            db.run(|tx| tx.delete(&t, &[30.into()])).unwrap();
            let before_head = if way.reverse { 55 } else { 5 };
            assert!(refused(&put(&mut db.begin().unwrap(), &t, before_head, 10)), "{way:?}");
            assert!(refused(&db.begin().unwrap().delete(&t, &[head.into()])), "{way:?}");
            assert!(a.delete(&t, &[head.into()]).unwrap());
            drop(a.commit().unwrap());
            assert_eq!(db.locks_held(), 0);
            db.verify().unwrap();
        }
    }
}

/// Two insert into one gap and neither waits; then one commits and splits it. With locks of gaps by
/// the key above, the other's would now be of the wrong half: a reader up to the new key would not
/// meet it, and see a phantom.
#[test]
fn a_gap_that_is_split_by_a_commit_still_keeps_readers_from_who_inserts_there() {
    for locking in ALL {
        for way in ways() {
            let Bench { db, t } = open(locking, Sabotage::None);
            let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
            put(&mut first, &t, 24, 2100).unwrap();
            put(&mut second, &t, 27, 2100).unwrap();
            drop(second.commit().unwrap());
            let mut reader = db.begin().unwrap();
            let read = way.read(&mut reader, &t, 21, 28);
            assert!(refused(&read), "{way:?}, {locking:?}: {read:?}");
            drop(reader);
            drop(first.commit().unwrap());
            assert_eq!(way.read(&mut db.begin().unwrap(), &t, 21, 28).unwrap(), [24, 27]);
        }
    }
}

/// A row that is in the range by its new key only, or was by its old one.
#[test]
fn rows_that_are_moved_into_a_range_or_out_of_it_by_an_update_wait() {
    for locking in ALL {
        for (index, column, factor) in [("by_n", "n", 2i64), ("by_u", "u", 3)] {
            for reverse in [false, true] {
                let way = Way { index, factor, reverse, for_update: false };
                for (id, to) in [(50, 33), (30, 77)] {
                    let Bench { db, t } = open(locking, Sabotage::None);
                    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                    assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 30, 40]);
                    let moved = set(&mut b, &t, id, column, to * factor);
                    assert!(refused(&moved), "{id} to {to}, {way:?}, {locking:?}: {moved:?}");
                    drop((a, b));
                    let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                    set(&mut b, &t, id, column, to * factor).unwrap();
                    let read = way.read(&mut a, &t, 15, 45);
                    assert!(refused(&read), "{id} to {to}, {way:?}, {locking:?}: {read:?}");
                }
                // Past the range, it is in nobody's way.
                let Bench { db, t } = open(locking, Sabotage::None);
                let (mut a, mut b) = (db.begin().unwrap(), db.begin().unwrap());
                assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 30, 40]);
                set(&mut b, &t, 50, column, 46 * factor).unwrap();
                set(&mut b, &t, 10, column, 14 * factor).unwrap();
            }
        }
    }
}

/// A transaction reads what it has written itself, in its place, and is not in its own way.
#[test]
fn a_transaction_reads_its_own_changes_and_goes_on_changing_what_it_has_read() {
    for locking in ALL {
        for way in ways() {
            let Bench { db, t } = open(locking, Sabotage::None);
            let mut a = db.begin().unwrap();
            put(&mut a, &t, 25, 10).unwrap();
            a.delete(&t, &[30.into()]).unwrap();
            assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 25, 40], "{way:?}");
            put(&mut a, &t, 35, 10).unwrap();
            put(&mut a, &t, 30, 10).unwrap();
            put(&mut a, &t, 20, 3500).unwrap();
            a.delete(&t, &[40.into()]).unwrap();
            assert_eq!(way.read(&mut a, &t, 15, 45).unwrap(), [20, 25, 30, 35], "{way:?}");
            drop(a.commit().unwrap());
            assert_eq!(way.read(&mut db.begin().unwrap(), &t, 15, 45).unwrap(), [20, 25, 30, 35]);
            assert_eq!(db.locks_held(), 0);
            db.verify().unwrap();
        }
    }
}

/// What is read once more costs no further lock; who ends gives all of them back, committed or not.
#[test]
fn ranges_that_are_read_again_take_no_further_locks() {
    for locking in ALL {
        let Bench { db, t } = open(locking, Sabotage::None);
        let way = Way { index: "primary", factor: 1, reverse: false, for_update: false };
        let mut a = db.begin().unwrap();
        way.read(&mut a, &t, 0, 60).unwrap();
        let once = db.locks_held();
        for from in 0..40 {
            way.read(&mut a, &t, from, 60).unwrap();
            way.read(&mut a, &t, 0, 60 - from).unwrap();
        }
        assert_eq!(db.locks_held(), once, "{locking:?}");
        drop(a);
        assert_eq!(db.locks_held(), 0);
    }
}

/// Beyond `range_locks` the table is locked whole, and the number of locks stays bounded.
#[test]
fn a_range_of_many_rows_takes_the_table_and_few_locks() {
    for range_locks in [0, 1, 10, 100] {
        let options = Options { range_locks, background: false, ..Options::in_memory() };
        let db = Database::open("/db", options).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
        let t = db.create_table(s).unwrap();
        db.run(|tx| (0..1000i64).try_for_each(|id| tx.insert(&t, &[(id * 2).into()]))).unwrap();
        let mut a = db.begin().unwrap();
        let mut cursor = a.scan(&t).unwrap();
        for n in 0..1000 {
            assert_eq!(cursor.next().unwrap().unwrap().at(0), Value::Int(n * 2));
            let held = db.locks_held();
            // One each for the reader's number, its interval and the table besides.
            assert!(held <= range_locks + 3, "{held} locks after {n} rows");
        }
        assert!(cursor.next().is_none());
        // Outside of what would be locked by range as well.
        for id in [-5i64, 1, 5000] {
            assert!(refused(&db.begin().unwrap().insert(&t, &[id.into()])), "{id}, {range_locks}");
        }
        drop(a);
        assert_eq!(db.locks_held(), 0);
        // Many short ranges are bounded alike.
        let mut a = db.begin().unwrap();
        for id in 0..500i64 {
            let one = [Value::Int(id * 4)]..=[Value::Int(id * 4)];
            assert_eq!(a.range(&t, "primary", one).unwrap().count(), 1);
            assert!(db.locks_held() <= range_locks + 6, "{} locks", db.locks_held());
        }
        drop(a);
        // Few rows of many: only who has read many keeps others away.
        let mut a = db.begin().unwrap();
        assert_eq!(a.range(&t, "primary", [Value::Int(0)]..[Value::Int(4)]).unwrap().count(), 2);
        let elsewhere = db.begin().unwrap().insert(&t, &[5001.into()]);
        assert_eq!(elsewhere.is_ok(), range_locks >= 10, "{range_locks}");
    }
}

/// Which change comes through with which defect: each mutant must bring an anomaly back, by every
/// way of reading that it concerns.
#[test]
fn each_defect_of_range_locks_brings_an_anomaly_back() {
    let cases: [(Sabotage, &[usize]); 4] = [
        (Sabotage::NoRangeClaims, &[0, 1, 2]),
        (Sabotage::RangeEndsAtRow, &[]),
        (Sabotage::RangeOfOneKey, &[0]),
        (Sabotage::NoRangeRowLocks, &[3, 4, 5]),
    ];
    for locking in ALL {
        for (sabotage, caught) in cases {
            for way in ways() {
                for &n in caught {
                    let (what, change) = WITHIN[n];
                    let bench = open(locking, sabotage);
                    assert!(comes_between(&bench, way, change), "{what}, {way:?}, {locking:?}, {sabotage:?}");
                }
                if sabotage == Sabotage::RangeEndsAtRow {
                    // Behind the last row that was read.
                    let (what, change) = WITHIN[if way.reverse { 1 } else { 2 }];
                    let bench = open(locking, sabotage);
                    assert!(comes_between(&bench, way, change), "{what}, {way:?}, {locking:?}, {sabotage:?}");
                }
            }
        }
    }
}

/// Threads count the rows of a range and add one if there are too few: together they would add too
/// many if one did not see what another adds. At the end of the index, at its beginning, between.
#[test]
fn threads_that_add_what_a_range_lacks_never_add_too_much() {
    for locking in ALL {
        let Bench { db, t } = open_with(locking, patient());
        for round in 0..30i64 {
            let (from, to) = [(1000, 2000), (-2000, -1000), (31, 39)][round as usize % 3];
            std::thread::scope(|scope| {
                for n in 0..4i64 {
                    let (db, t) = (&db, &t);
                    scope.spawn(move || {
                        for turn in 0..6 {
                            db.run(|tx| {
                                let bounds = [Value::Int(from)]..[Value::Int(to)];
                                let rows =
                                    tx.range(t, "primary", bounds)?.collect::<mmdb::Result<Vec<Row>>>()?;
                                let own = from + 1 + n * 2 + turn % 2;
                                if rows.len() >= 2 {
                                    let first = rows[0].at(0);
                                    tx.delete(t, &[first]).map(drop)
                                } else if ids(rows).contains(&own) {
                                    Ok(())
                                } else {
                                    put(tx, t, own, 10)
                                }
                            })
                            .unwrap();
                            let bounds = [Value::Int(from)]..[Value::Int(to)];
                            let count = db.snapshot().unwrap().range(t, "primary", bounds).unwrap().count();
                            assert!(count <= 2, "{count} rows, {locking:?}");
                        }
                    });
                }
            });
            db.verify().unwrap();
        }
        assert_eq!(db.locks_held(), 0);
    }
}

/// Sixteen clients empty a queue: every row is taken once, in order for each of them.
#[test]
fn the_head_of_a_queue_is_taken_once() {
    for (locking, for_update) in ALL.into_iter().flat_map(|l| [(l, false), (l, true)]) {
        let db = Database::open("/db", patient()).unwrap();
        let s = Schema::new("q").column("id", ColumnType::Int64).ordered_primary_key(&["id"]);
        let t = db.create_table(s.locking(locking)).unwrap();
        const ROWS: i64 = 600;
        db.run(|tx| (0..ROWS).try_for_each(|id| tx.insert(&t, &[id.into()]))).unwrap();
        let taken: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        let mut taken = Vec::new();
                        loop {
                            let done = db.run_with(mmdb::Durability::Lazy, |tx| {
                                let cursor = tx.scan(&t)?.prefetch(1);
                                let mut cursor = if for_update { cursor.for_update() } else { cursor };
                                let Some(row) = cursor.next().transpose()? else { return Ok(None) };
                                let id = row.at(0).as_int().unwrap();
                                assert!(tx.delete(&t, &[id.into()])?);
                                Ok::<_, Error>(Some(id))
                            });
                            match done.unwrap().0 {
                                Some(id) => taken.push(id),
                                None => return taken,
                            }
                        }
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(taken.iter().all(|ids| ids.is_sorted()));
        let mut all: Vec<i64> = taken.into_iter().flatten().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..ROWS), "{locking:?}");
        assert_eq!(db.locks_held(), 0);
    }
}
