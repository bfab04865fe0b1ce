//! What a change of a table's definition costs, and those who work beside it.
//!
//! `cargo test --release -p mmdb --test alterations -- --ignored --nocapture what_changes_cost`. Each
//! line is a median of `MMDB_BENCH_ROUNDS` (5) rounds. The medium is memory: what is measured is the
//! engine's own time.

use mmdb::{Column, ColumnType, Database, Durability, NewIndex, Options, Schema, Table, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: i64 = 300_000;

fn made() -> (Database, Table) {
    let db = Database::open("/db", Options { checkpoint_log_bytes: 0, ..Options::in_memory() }).unwrap();
    let schema = Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("body", ColumnType::VarText(160))
        .column("n", ColumnType::Int64)
        .primary_key(&["id"]);
    let t = db.create_table(schema).unwrap();
    let body = "x".repeat(100);
    for from in (0..ROWS).step_by(1000) {
        let put = |tx: &mut mmdb::Transaction<'_>| -> mmdb::Result<()> {
            (from..from + 1000).try_for_each(|id| tx.insert(&t, &[id.into(), (&*body).into(), id.into()]))
        };
        let ((), _lazy) = db.run_with(Durability::Lazy, put).unwrap();
    }
    db.flush().unwrap();
    (db, t)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Nanoseconds for each read of a row by its key.
fn read_ns(db: &Database, t: &Table, col: usize) -> f64 {
    let mut tx = db.begin().unwrap();
    // The table is locked once; what is measured is reading.
    tx.scan(t).unwrap().next();
    let (began, mut sum) = (Instant::now(), 0);
    for i in 0..ROWS {
        let key = [Value::Int(i * 7919 % ROWS)];
        sum += tx.get_with(t, &key, |row| row.at(col).as_int()).unwrap().unwrap().unwrap_or(0);
    }
    let each = began.elapsed().as_secs_f64() * 1e9 / ROWS as f64;
    assert!(sum >= 0);
    each
}

/// Latencies of a writer's commits, microseconds, in order, while `work` goes on.
fn beside(db: &Database, t: &Table, work: impl FnOnce()) -> Vec<f64> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut all, mut i) = (Vec::new(), 0i64);
            while !stop.load(Ordering::Relaxed) {
                i += 1;
                let began = Instant::now();
                let key = [Value::Int(i * 7919 % ROWS)];
                let set = [("n", Value::Int(ROWS + i))];
                let (_, _lazy) = db.run_with(Durability::Lazy, |tx| tx.update(t, &key, &set)).unwrap();
                all.push(began.elapsed().as_secs_f64() * 1e6);
                std::thread::sleep(Duration::from_micros(100));
            }
            all.sort_by(f64::total_cmp);
            all
        });
        work();
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    })
}

fn at(all: &[f64], share: f64) -> f64 {
    all.get((all.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

pub fn print() {
    let rounds = std::env::var("MMDB_BENCH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let names = [
        "add a column, ms",
        "read a row, before, ns",
        "read a row of an earlier generation, its old column, ns",
        "read a row of an earlier generation, the added column, ns",
        "write all rows anew, ms",
        "log of that, bytes",
        "read a row written anew, ns",
        "build an ordered index, ms",
        "build a unique hash index, ms",
        "a commit alone, p50 us",
        "a commit alone, p99 us",
        "a commit beside a building index, p50 us",
        "a commit beside a building index, p99 us",
        "a commit beside a building index, most us",
    ];
    let mut all = vec![Vec::new(); names.len()];
    for _ in 0..rounds {
        let (db, t) = made();
        let mut values = Vec::new();
        let alone = beside(&db, &t, || std::thread::sleep(Duration::from_millis(500)));
        let before = read_ns(&db, &t, 2);
        let began = Instant::now();
        let column = Column { name: "k".into(), kind: ColumnType::Int64, nullable: false };
        let now = db.add_column(&t, column, 1.into()).unwrap();
        values.push(began.elapsed().as_secs_f64() * 1e3);
        values.push(before);
        values.push(read_ns(&db, &now, 2));
        values.push(read_ns(&db, &now, 3));
        let (began, logged) = (Instant::now(), db.stats().flushed_bytes);
        for from in (0..ROWS).step_by(1000) {
            let rewrite = |tx: &mut mmdb::Transaction<'_>| -> mmdb::Result<()> {
                (from..from + 1000)
                    .try_for_each(|id| tx.update(&now, &[id.into()], &[("k", 1.into())]).map(drop))
            };
            let ((), _lazy) = db.run_with(Durability::Lazy, rewrite).unwrap();
        }
        db.flush().unwrap();
        values.push(began.elapsed().as_secs_f64() * 1e3);
        values.push((db.stats().flushed_bytes - logged) as f64);
        values.push(read_ns(&db, &now, 2));
        let began = Instant::now();
        db.create_index(&now, NewIndex::ordered("by_n", &["n"])).unwrap();
        values.push(began.elapsed().as_secs_f64() * 1e3);
        db.drop_index(&now, "by_n").unwrap();
        let began = Instant::now();
        db.create_index(&now, NewIndex::hash("only_id", &["id"]).unique()).unwrap();
        values.push(began.elapsed().as_secs_f64() * 1e3);
        db.drop_index(&now, "only_id").unwrap();
        let building = beside(&db, &now, || {
            for _ in 0..3 {
                db.create_index(&now, NewIndex::ordered("by_n", &["n"])).unwrap();
                db.drop_index(&now, "by_n").unwrap();
            }
        });
        values.extend([at(&alone, 0.5), at(&alone, 0.99), at(&building, 0.5), at(&building, 0.99)]);
        values.push(building.last().copied().unwrap_or(f64::NAN));
        all.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
    }
    for (name, values) in names.iter().zip(all) {
        println!("{name:60} {:12.1}", median(values));
    }
}
