//! What transactions cost each other: a writer beside readers of everything, clients at the head of
//! one queue, and what locks of ranges cost who meets nobody.
//!
//! Method. In each round every row is measured once, one after the other, so that a slow phase of
//! the machine meets all of them; printed are medians over the rounds, and quotients are medians of
//! the quotients within a round, with the least and the greatest. `MMDB_BENCH_ROUNDS` says how many
//! rounds (5), `MMDB_BENCH_DIR` on which disk. Run with `cargo bench -p mmdb --bench isolation [--
//! PART…]`, parts `readers queue inserts`; all by default.
//!
//! `readers` has two controls beside the reader of a snapshot, which never touch the database: a
//! thread that only computes shows what it costs that a processor is taken, one that walks through
//! memory as large as the table shows what sharing caches and memory costs. A snapshot that is open
//! for as long as a scan takes, and that nobody reads, shows what a commit does for one.
//! `MMDB_BENCH_LAZY_MS` says after how many milliseconds the lazy commits are flushed: of two
//! processors, one of which somebody computes on, the flushes get the writer's.
#![allow(clippy::unwrap_used)]

mod support;

use mmdb::{ColumnType, Database, Durability, Options, Schema, Table, Value};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Dir, in_rounds, medians, quotient, rounds};

/// Length of one measurement.
const RUN: Duration = Duration::from_millis(1600);
/// What preparing segments takes after opening.
const SETTLE: Duration = Duration::from_millis(600);

/// Rows of the table that is scanned.
const SCANNED: i64 = 500_000;

/// Who works beside the writer, without a rest.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nobody,
    /// A thread that computes in registers.
    Computing,
    /// A thread that reads memory of the table's size in order.
    Walking,
    /// A snapshot's reads of the whole table.
    Snapshot,
    /// A snapshot that is open, and nobody reads.
    Open,
    /// A transaction's, which locks the table.
    Transaction,
}

/// How long a snapshot is open that nobody reads: about what a scan takes.
const HELD: Duration = Duration::from_millis(250);

const BESIDE: [(&str, Beside); 6] = [
    ("nobody", Beside::Nobody),
    ("computing", Beside::Computing),
    ("walking", Beside::Walking),
    ("snapshot", Beside::Snapshot),
    ("transaction", Beside::Transaction),
    ("open", Beside::Open),
];

/// Works until told to stop; returns how many rows it has read.
fn work(beside: Beside, db: &Database, t: &Table, memory: &[u64], stop: &AtomicBool) -> u64 {
    let mut seen = 0;
    let is_over = || stop.load(Ordering::Relaxed);
    while !is_over() {
        match beside {
            Beside::Nobody => return 0,
            Beside::Computing => {
                black_box((0..10_000u64).fold(1u64, |x, n| x.wrapping_mul(6_364_136_223_846_793_005) ^ n));
            }
            Beside::Walking => {
                let mut sum = 0;
                for part in memory.chunks(1 << 13).take_while(|_| !is_over()) {
                    sum ^= part.iter().step_by(8).fold(0u64, |sum, word| sum ^ word);
                }
                black_box(sum);
            }
            Beside::Snapshot => {
                let snapshot = db.snapshot().unwrap();
                seen += snapshot.scan(t).unwrap().take_while(|_| !is_over()).count();
            }
            Beside::Open => {
                let (_snapshot, since) = (db.snapshot().unwrap(), Instant::now());
                while !is_over() && since.elapsed() < HELD {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Beside::Transaction => {
                let mut tx = db.begin().unwrap();
                // Refused where the writer is older; then the next one may be lucky.
                if let Ok(rows) = tx.scan(t) {
                    seen += rows.take_while(|row| row.is_ok() && !is_over()).count();
                }
            }
        }
    }
    seen as u64
}

/// One writer updates rows, beside somebody: the p50 and p99 of its commits, µs, how often it had
/// to run, for each commit, and how many rows were read beside it a second.
fn writer_beside(db: &Database, t: &Table, memory: &[u64], beside: Beside) -> [f64; 4] {
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut times, mut runs) = (Vec::new(), 0u64);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| seen.store(work(beside, db, t, memory, &stop), Ordering::Relaxed));
        let mut n = 0i64;
        while began.elapsed() < RUN {
            n += 1;
            let id = n * 7919 % SCANNED;
            let start = Instant::now();
            let done = db.run_with(Durability::Lazy, |tx| {
                runs += 1;
                tx.update_at(t, &[id.into()], &[(1, n.into())])
            });
            drop(done.unwrap());
            times.push(start.elapsed().as_nanos() as f64 / 1000.0);
            // A writer that never rests measures who gets the processor.
            std::thread::sleep(Duration::from_micros(200));
        }
        stop.store(true, Ordering::Relaxed);
    });
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let rate = seen.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    [at(0.5), at(0.99), runs as f64 / times.len() as f64, rate]
}

fn part_readers() {
    println!(
        "\none writer beside whoever reads {SCANNED} rows again and again; medians of {} rounds",
        rounds()
    );
    println!(
        "{:>12} {:>9} {:>9} {:>22} {:>22} {:>16} {:>12}",
        "beside", "p50 µs", "p99 µs", "p99 of that alone", "p99 of walking", "runs per commit", "rows read/s"
    );
    let dir = Dir::new();
    let usual = Options::default();
    let given = std::env::var("MMDB_BENCH_LAZY_MS").ok().and_then(|ms| ms.parse().ok());
    let lazy_interval = given.map_or(usual.lazy_interval, Duration::from_millis);
    let db = Database::open(&dir.0, Options { lazy_interval, ..usual }).unwrap();
    let t = db
        .create_table(
            Schema::new("t")
                .column("id", ColumnType::Int64)
                .column("n", ColumnType::Int64)
                .column("body", ColumnType::VarBytes(100))
                .ordered_primary_key(&["id"]),
        )
        .unwrap();
    for first in (0..SCANNED).step_by(1000) {
        let put = |tx: &mut mmdb::Transaction<'_>| {
            (first..first + 1000)
                .try_for_each(|id| tx.insert(&t, &[id.into(), 0.into(), Value::Bytes(&[1; 100])]))
        };
        drop(db.run_with(Durability::Lazy, put).unwrap());
    }
    db.flush().unwrap();
    // Slots of 160 bytes and index entries.
    let memory = vec![1u64; SCANNED as usize * 200 / 8];
    let all = in_rounds(&BESIDE, |(_, beside)| writer_beside(&db, &t, &memory, *beside));
    for (i, ((name, _), [p50, p99, runs, rate])) in BESIDE.iter().zip(medians(&all)).enumerate() {
        let of = |base: usize| {
            let [median, least, most] = quotient(&all[i], &all[base], 1);
            format!("{median:.2} [{least:.2}, {most:.2}]")
        };
        println!("{name:>12} {p50:>9.1} {p99:>9.1} {:>22} {:>22} {runs:>16.3} {rate:>12.0}", of(0), of(2));
    }
}

/// How the head of the queue is read.
#[derive(Clone, Copy)]
enum Head {
    /// The whole table is locked, as every range did once.
    Table,
    Range,
    /// The row is locked as for the change that follows.
    ForUpdate,
    /// The first row that nobody else has locked.
    SkipLocked,
}

/// One table with one queue or more, and who takes from them.
#[derive(Clone, Copy)]
struct Queue {
    clients: usize,
    durability: Durability,
    /// Each client has a queue of its own in the table; else all take from one.
    own: bool,
    /// What a client waits for between reading the head and deleting it: an answer from elsewhere.
    pause: Duration,
}

/// Takes and deletes the row with the smallest key of a queue. Whether there was one, and runs.
fn take_head(db: &Database, t: &Table, lane: i64, head: Head, queue: Queue) -> (bool, u64) {
    let mut runs = 0;
    let (taken, ticket) = db
        .run_with(queue.durability, |tx| {
            runs += 1;
            let cursor = tx.range(t, "primary", [Value::Int(lane)]..=[Value::Int(lane)])?.prefetch(1);
            let mut cursor = match head {
                Head::Table | Head::Range => cursor,
                Head::ForUpdate => cursor.for_update(),
                Head::SkipLocked => cursor.for_update().skip_locked(),
            };
            let Some(id) = cursor.next_with(|row| row.at(1).as_int())?.flatten() else { return Ok(false) };
            if !queue.pause.is_zero() {
                std::thread::sleep(queue.pause);
            }
            tx.delete(t, &[lane.into(), id.into()])
        })
        .unwrap();
    ticket.wait().unwrap();
    (taken, runs)
}

/// Rows taken from the heads of queues a second, runs for each of them, and the p99 of one, µs.
fn queue(queue: Queue, head: Head) -> [f64; 3] {
    const ROWS: i64 = 400_000;
    let dir = Dir::new();
    let range_locks = if let Head::Table = head { 0 } else { Options::default().range_locks };
    let db = Database::open(&dir.0, Options { range_locks, ..Options::default() }).unwrap();
    let s = Schema::new("q").column("lane", ColumnType::Int64).column("id", ColumnType::Int64);
    let t = db.create_table(s.ordered_primary_key(&["lane", "id"])).unwrap();
    let lanes = if queue.own { queue.clients as i64 } else { 1 };
    for first in (0..ROWS).step_by(1000) {
        let put = |tx: &mut mmdb::Transaction<'_>| {
            (first..first + 1000).try_for_each(|n| tx.insert(&t, &[(n % lanes).into(), n.into()]))
        };
        drop(db.run_with(Durability::Lazy, put).unwrap());
    }
    db.flush().unwrap();
    std::thread::sleep(SETTLE);
    let (stop, runs, taken) = (AtomicBool::new(false), AtomicU64::new(0), AtomicI64::new(0));
    let began = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let (db, t, stop, runs, taken) = (&db, &t, &stop, &runs, &taken);
        let client = |lane: i64| {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                let (is_taken, tries) = take_head(db, t, lane, head, queue);
                if !is_taken {
                    break;
                }
                taken.fetch_add(1, Ordering::Relaxed);
                runs.fetch_add(tries, Ordering::Relaxed);
                times.push(start.elapsed().as_nanos() as f64 / 1000.0);
            }
            times
        };
        let clients = 0..queue.clients as i64;
        let clients: Vec<_> = clients.map(|n| scope.spawn(move || client(n % lanes))).collect();
        // Until the time is up, or the queue is empty.
        while began.elapsed() < RUN && taken.load(Ordering::Relaxed) < ROWS {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    // Every row was taken once.
    let left = db.snapshot().unwrap().scan(&t).unwrap().count();
    assert_eq!(left + times.len(), ROWS as usize);
    times.sort_by(f64::total_cmp);
    let p99 = times[(times.len() - 1) * 99 / 100];
    [rate, runs.load(Ordering::Relaxed) as f64 / times.len() as f64, p99]
}

fn part_queue() {
    println!("\nthe head of a queue, taken and deleted; medians of {} rounds", rounds());
    println!(
        "{:>8} {:>8} {:>7} {:>9} {:>12} {:>10} {:>22} {:>13} {:>10}",
        "clients",
        "commits",
        "queues",
        "pause µs",
        "locked",
        "taken/s",
        "of the table",
        "runs per row",
        "p99 µs"
    );
    let heads = [
        ("table", Head::Table),
        ("range", Head::Range),
        ("for update", Head::ForUpdate),
        ("skip locked", Head::SkipLocked),
    ];
    let pause = Duration::from_micros(100);
    let rows = [
        Queue { clients: 1, durability: Durability::Lazy, own: false, pause: Duration::ZERO },
        Queue { clients: 16, durability: Durability::Lazy, own: false, pause: Duration::ZERO },
        Queue { clients: 16, durability: Durability::Durable, own: false, pause: Duration::ZERO },
        Queue { clients: 16, durability: Durability::Lazy, own: true, pause: Duration::ZERO },
        Queue { clients: 16, durability: Durability::Lazy, own: false, pause },
        Queue { clients: 16, durability: Durability::Lazy, own: true, pause },
    ];
    for row in rows {
        let all = in_rounds(&heads, |(_, head)| queue(row, *head));
        for (i, ((name, _), [rate, runs, p99])) in heads.iter().zip(medians(&all)).enumerate() {
            let [median, least, most] = quotient(&all[i], &all[0], 0);
            let of = format!("{median:.2} [{least:.2}, {most:.2}]");
            let (commits, pause) = (format!("{:?}", row.durability), row.pause.as_micros());
            let queues = if row.own { row.clients } else { 1 };
            println!(
                "{:>8} {commits:>8} {queues:>7} {pause:>9} {name:>12} {rate:>10.0} {of:>22} {runs:>13.2} {p99:>10.1}",
                row.clients
            );
        }
    }
}

/// Rows inserted a second by one client, ten a transaction, into a table with an ordered index, and
/// nobody beside it.
fn inserts(durability: Durability) -> [f64; 1] {
    let dir = Dir::new();
    let db = Database::open(&dir.0, Options::default()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(s.ordered_primary_key(&["id"]).ordered_index("by_n", &["n"])).unwrap();
    std::thread::sleep(SETTLE);
    let (began, mut n) = (Instant::now(), 0i64);
    while began.elapsed() < RUN {
        let put = |tx: &mut mmdb::Transaction<'_>| {
            (n..n + 10).try_for_each(|id| tx.insert(&t, &[id.into(), (id * 7919 % 100_000).into()]))
        };
        drop(db.run_with(durability, put).unwrap());
        n += 10;
    }
    [n as f64 / began.elapsed().as_secs_f64()]
}

fn part_inserts() {
    println!("\ninserts with two ordered indexes, nobody beside; medians of {} rounds", rounds());
    let all = in_rounds(&[Durability::Lazy], |&durability| inserts(durability));
    println!("{:>12.0} rows/s", medians(&all)[0][0]);
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let all: [(&str, fn()); 3] =
        [("readers", part_readers), ("queue", part_queue), ("inserts", part_inserts)];
    for (name, part) in all {
        if parts.is_empty() || parts.iter().any(|p| p == name) {
            part();
        }
    }
}
