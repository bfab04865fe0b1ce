//! The engine against a log-only floor, and its own options against each other.
//!
//! Method. The floor appends frames of the same size as the engine's to a buffer and makes them durable by group
//! `fdatasync` on a zero-filled file, with the same kind of hand-over (whoever waits first flushes, one futex wakes a
//! batch) and no tables. Floor and engine run in turn within one round, three rounds; the median of each is printed, and
//! the share is the median of the rounds' quotients, so that a slow phase of the disk hits both.
//!
//! Workload: *receive* inserts a 160-byte message and a queue row; *deliver* deletes both and upserts the receiver's
//! state. Clients alternate between the two. Run with `cargo bench -p mmdb --bench transactions [-- PART…]`, parts
//! `floor tickets recovery kinds streams locking group reference`; all by default.
#![allow(clippy::unwrap_used)]

use mmdb::{
    ColumnType, Database, Durability, Locking, LogKind, Logging, Options, Schema, Table, Ticket, Value,
};
use rustix::thread::futex;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_millis(1200);

struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static N: AtomicU64 = AtomicU64::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let base = std::env::var_os("MMDB_BENCH_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let dir = base.join(format!("mmdb-bench-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Schemas {
    message: Table,
    queue: Table,
    state: Table,
}

fn create(db: &Database, locking: Locking, logging: Logging) -> Schemas {
    let set = |s: Schema| db.create_table(s.locking(locking).logging(logging)).unwrap();
    Schemas {
        message: set(Schema::new("message")
            .column("id", ColumnType::Int64)
            .column("receiver", ColumnType::Int64)
            .column("at", ColumnType::Time)
            .column("body", ColumnType::VarBytes(200))
            .primary_key(&["id"])),
        queue: set(Schema::new("queue")
            .column("id", ColumnType::Int64)
            .column("due", ColumnType::Time)
            .primary_key(&["id"])),
        state: set(Schema::new("state")
            .column("receiver", ColumnType::Int64)
            .column("at", ColumnType::Time)
            .column("delivered", ColumnType::Int64)
            .primary_key(&["receiver"])),
    }
}

fn receive(db: &Database, s: &Schemas, id: i64, durability: Durability) -> Ticket {
    let body = [b'm'; 160];
    let done = db.run_with(durability, |tx| {
        let values = [id.into(), (id % 1000).into(), Value::Time(id), Value::Bytes(&body)];
        tx.insert(&s.message, &values)?;
        tx.insert(&s.queue, &[id.into(), Value::Time(id)])
    });
    done.unwrap().1
}

fn deliver(db: &Database, s: &Schemas, id: i64, durability: Durability) -> Ticket {
    let done = db.run_with(durability, |tx| {
        tx.delete(&s.queue, &[id.into()])?;
        tx.delete(&s.message, &[id.into()])?;
        tx.upsert(&s.state, &[(id % 1000).into(), Value::Time(id), id.into()])
    });
    done.unwrap().1
}

/// Runs `clients` threads until the time is up; each call of `f` is one transaction. Transactions per second.
fn drive(clients: usize, f: impl Fn(usize, i64) + Sync) -> f64 {
    let stop = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|s| {
        for c in 0..clients {
            let (f, stop, total) = (&f, &stop, &total);
            s.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    f(c, n);
                    n += 1;
                }
                total.fetch_add(n as u64, Ordering::Relaxed);
            });
        }
        std::thread::sleep(RUN);
        stop.store(true, Ordering::Relaxed);
    });
    total.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// A client's ids: receive one, deliver it, receive the next.
fn id_of(client: usize, n: i64) -> i64 {
    (client as i64) << 40 | (n / 2)
}

fn one(db: &Database, s: &Schemas, c: usize, n: i64, d: Durability) -> Ticket {
    if n % 2 == 0 { receive(db, s, id_of(c, n), d) } else { deliver(db, s, id_of(c, n), d) }
}

/// Waits until the segments are zero-filled, as the floor's file is before its clock starts.
fn settle(db: &Database, s: &Schemas) {
    receive(db, s, -1, Durability::Durable).wait().unwrap();
    std::thread::sleep(Duration::from_millis(700));
}

fn blocking(options: Options, clients: usize, locking: Locking) -> (f64, u64, f64) {
    let dir = Dir::new();
    let db = Database::open(&dir.0, options).unwrap();
    let s = create(&db, locking, Logging::Logged);
    settle(&db, &s);
    let rate = drive(clients, |c, n| {
        one(&db, &s, c, n, Durability::Durable).wait().unwrap();
    });
    let stats = db.stats();
    (rate, stats.flushed_bytes / stats.frames.max(1), stats.frames as f64 / stats.flushes.max(1) as f64)
}

fn tickets(options: Options, clients: usize) -> f64 {
    let dir = Dir::new();
    let db = Database::open(&dir.0, options).unwrap();
    let s = create(&db, Locking::Record, Logging::Logged);
    settle(&db, &s);
    let done = AtomicU64::new(0);
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for c in 0..clients {
            let (db, s, stop, done) = (&db, &s, &stop, &done);
            scope.spawn(move || {
                let mut open: VecDeque<Ticket> = VecDeque::new();
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    open.push_back(one(db, s, c, n, Durability::Durable));
                    n += 1;
                    while open.front().is_some_and(|t| t.poll().unwrap()) {
                        open.pop_front();
                    }
                    if open.len() > 4096
                        && let Some(t) = open.pop_front()
                    {
                        t.wait().unwrap();
                    }
                }
                // Only what is durable counts.
                for t in &open {
                    t.wait().unwrap();
                }
                done.fetch_add(n as u64, Ordering::Relaxed);
            });
        }
        std::thread::sleep(RUN);
        stop.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// The floor: buffer, group fdatasync, one futex per batch, nothing else.
struct Floor {
    file: File,
    state: Mutex<FloorState>,
}

struct FloorState {
    buf: Vec<u8>,
    at: u64,
    flushing: bool,
    batch: Arc<Batch>,
}

#[derive(Default)]
struct Batch {
    done: AtomicU32,
    waiting: AtomicU32,
}

const FLOOR_FILE: u64 = 256 << 20;

impl Floor {
    fn new(dir: &Path) -> Floor {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(dir.join("log"));
        let file = file.unwrap();
        let zeros = vec![0; 1 << 20];
        (0..FLOOR_FILE >> 20).for_each(|i| file.write_all_at(&zeros, i << 20).unwrap());
        file.sync_all().unwrap();
        let state = FloorState { buf: Vec::new(), at: 0, flushing: false, batch: Arc::default() };
        Floor { file, state: Mutex::new(state) }
    }

    fn commit(&self, frame: &[u8]) {
        let mine = {
            let mut st = self.state.lock().unwrap();
            st.buf.extend_from_slice(frame);
            st.batch.clone()
        };
        while mine.done.load(Ordering::SeqCst) == 0 {
            if !self.flush() {
                mine.waiting.fetch_add(1, Ordering::SeqCst);
                if mine.done.load(Ordering::SeqCst) == 0 {
                    let _ = futex::wait(&mine.done, futex::Flags::PRIVATE, 0, None);
                }
            }
        }
    }

    /// One flush; then the waiters of the next batch are served by the next caller, as long as one is there.
    fn flush(&self) -> bool {
        let mut did = false;
        loop {
            let (mut data, at, batch) = {
                let mut st = self.state.lock().unwrap();
                if st.flushing || st.buf.is_empty() {
                    return did;
                }
                st.flushing = true;
                let data = std::mem::take(&mut st.buf);
                (data, st.at, std::mem::take(&mut st.batch))
            };
            data.resize(data.len().next_multiple_of(4096), 0);
            let at = if at + data.len() as u64 > FLOOR_FILE { 0 } else { at };
            self.file.write_all_at(&data, at).unwrap();
            rustix::fs::fdatasync(&self.file).unwrap();
            {
                let mut st = self.state.lock().unwrap();
                st.at = at + data.len() as u64;
                st.flushing = false;
            }
            batch.done.store(1, Ordering::SeqCst);
            if batch.waiting.load(Ordering::SeqCst) > 0 {
                let _ = futex::wake(&batch.done, futex::Flags::PRIVATE, i32::MAX as u32);
            }
            did = true;
        }
    }
}

fn floor(clients: usize, frame: usize) -> f64 {
    let dir = Dir::new();
    let floor = Floor::new(&dir.0);
    let data = vec![7u8; frame];
    drive(clients, |_, _| floor.commit(&data))
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn part_floor() {
    println!("\nblocking commits, receive and deliver alternating");
    println!(
        "{:>8} {:>12} {:>12} {:>8} {:>14} {:>12}",
        "clients", "floor tx/s", "mmdb tx/s", "share", "log bytes/tx", "batch"
    );
    for clients in [1, 16, 96] {
        let (mut f, mut m, mut q) = (vec![], vec![], vec![]);
        let mut last = (0.0, 0, 0.0);
        for _ in 0..3 {
            let a = floor(clients, 192);
            last = blocking(Options::default(), clients, Locking::Record);
            f.push(a);
            m.push(last.0);
            q.push(last.0 / a);
        }
        println!(
            "{clients:>8} {:>12.0} {:>12.0} {:>8.2} {:>14} {:>12.1}",
            median(f),
            median(m),
            median(q),
            last.1,
            last.2
        );
    }
}

fn part_tickets() {
    println!("\nticketed commits, at most 4096 open per client");
    for clients in [1, 2, 4, 16] {
        let rate = median((0..3).map(|_| tickets(Options::default(), clients)).collect());
        println!("{clients:>8} clients {rate:>12.0} durable tx/s");
    }
}

fn part_recovery() {
    println!("\nrecovery");
    for kind in [LogKind::Differential, LogKind::AfterImage] {
        let dir = Dir::new();
        let options = Options { checkpoint_log_bytes: 0, log_kind: kind, ..Options::default() };
        let db = Database::open(&dir.0, options.clone()).unwrap();
        let t = db.create_table(
            Schema::new("t")
                .column("id", ColumnType::Int64)
                .column("a", ColumnType::Int64)
                .column("b", ColumnType::FixedBytes(64))
                .primary_key(&["id"]),
        );
        let t = t.unwrap();
        let next = AtomicI64::new(0);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= 100_000 {
                            return;
                        }
                        // Ten inserts of new rows, then forty changes of one column.
                        let rows = n * 10 % 500_000;
                        drop(db.run_with(Durability::Lazy, |tx| {
                            for i in 0..10 {
                                let id = Value::Int(rows + i);
                                if n < 50_000 {
                                    tx.upsert(&t, &[id, n.into(), Value::Bytes(&[7; 64])])?;
                                }
                            }
                            for i in 0..40 {
                                let id = Value::Int((rows + i * 13) % (rows + 10));
                                tx.update(&t, &[id], &[("a", (n + i).into())])?;
                            }
                            Ok(())
                        }));
                    }
                });
            }
        });
        db.close().unwrap();
        let began = Instant::now();
        let db = Database::open(&dir.0, options).unwrap();
        let whole = began.elapsed().as_secs_f64();
        let r = db.recovery();
        println!(
            "{kind:?}: {} records, {:.0} MB of log, replay {:.2} s = {:.1} M records/s and {:.2} GB/s; {} rows indexed in {:.2} s; open {whole:.2} s",
            r.records,
            r.log_bytes as f64 / 1e6,
            r.replay_time.as_secs_f64(),
            r.records as f64 / r.replay_time.as_secs_f64() / 1e6,
            r.log_bytes as f64 / r.replay_time.as_secs_f64() / 1e9,
            db.stats().tables[0].rows,
            r.index_time.as_secs_f64(),
        );
    }
}

fn part_kinds() {
    println!(
        "\ndifferential against after-image logging, 96 blocking clients; updates of one column of a 300-byte row"
    );
    for kind in [LogKind::Differential, LogKind::AfterImage] {
        let dir = Dir::new();
        let db = Database::open(&dir.0, Options { log_kind: kind, ..Options::default() }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let t = db.create_table(s.column("body", ColumnType::VarBytes(300)).primary_key(&["id"])).unwrap();
        for id in 0..96i64 {
            db.run(|tx| tx.insert(&t, &[id.into(), 0.into(), Value::Bytes(&[9; 280])])).unwrap();
        }
        let before = db.stats();
        let rate = drive(96, |c, n| {
            db.run(|tx| tx.update(&t, &[(c as i64).into()], &[("n", n.into())])).unwrap();
        });
        let (a, b) = (before, db.stats());
        let bytes = (b.log_bytes - a.log_bytes) as f64 / (b.frames - a.frames) as f64;
        println!("{kind:?}: {rate:>10.0} tx/s, {bytes:.0} log bytes per transaction with padding");
    }
    for kind in [LogKind::Differential, LogKind::AfterImage] {
        let (rate, bytes, _) =
            blocking(Options { log_kind: kind, ..Options::default() }, 96, Locking::Record);
        println!("{kind:?}, receive and deliver: {rate:>10.0} tx/s, {bytes} log bytes per transaction");
    }
}

fn part_streams() {
    println!("\nstreams on one device, receive and deliver");
    for streams in [1, 2, 4] {
        let o = || Options { streams, ..Options::default() };
        let b = blocking(o(), 96, Locking::Record);
        println!(
            "{streams} streams: 96 blocking clients {:>10.0} tx/s, 4 ticketed {:>10.0} tx/s",
            b.0,
            tickets(o(), 4)
        );
    }
}

fn part_locking() {
    println!("\nlock granularities under contention: 16 clients, updates of 64 hot rows, blocking");
    for locking in [Locking::Record, Locking::Page, Locking::Container, Locking::None] {
        let dir = Dir::new();
        let db = Database::open(&dir.0, Options::default()).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let t = db.create_table(s.primary_key(&["id"]).locking(locking)).unwrap();
        (0..64i64).for_each(|id| db.run(|tx| tx.insert(&t, &[id.into(), 0.into()])).unwrap());
        let rate = drive(16, |c, n| {
            db.run(|tx| {
                tx.update(&t, &[((c as i64 * 31 + n * 7) % 64).into()], &[("n", n.into())])?;
                tx.update(&t, &[((c as i64 * 17 + n * 5) % 64).into()], &[("n", n.into())])
            })
            .unwrap();
        });
        let st = db.stats();
        let name = format!("{locking:?}");
        println!("{name:>10}: {rate:>10.0} tx/s, {} waits, {} deaths", st.lock_waits, st.lock_deaths);
    }
}

fn part_group() {
    println!("\ngroup commit, receive and deliver, 16 blocking clients");
    for group_commit in [false, true] {
        let o = Options { group_commit, ..Options::default() };
        let b = blocking(o, 16, Locking::Record);
        println!("{}: {:>10.0} tx/s, batch {:.1}", if group_commit { "on " } else { "off" }, b.0, b.2);
    }
}

fn part_reference() {
    println!("\nwhat transactions cost: 2 clients, receive and deliver, no waiting for the disk");
    for (name, options, locking, logging) in [
        ("locks and log (lazy)", Options::default(), Locking::Record, Logging::Logged),
        ("locks, no log", Options::default(), Locking::Record, Logging::Volatile),
        (
            "neither (reference)",
            Options { reference: true, ..Options::default() },
            Locking::None,
            Logging::Volatile,
        ),
    ] {
        let dir = Dir::new();
        let db = Database::open(&dir.0, options).unwrap();
        let s = create(&db, locking, logging);
        let rate = drive(2, |c, n| drop(one(&db, &s, c, n, Durability::Lazy)));
        println!("{name:>24}: {rate:>10.0} tx/s");
    }
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let all: [(&str, fn()); 8] = [
        ("floor", part_floor),
        ("tickets", part_tickets),
        ("recovery", part_recovery),
        ("kinds", part_kinds),
        ("streams", part_streams),
        ("locking", part_locking),
        ("group", part_group),
        ("reference", part_reference),
    ];
    for (name, part) in all {
        if parts.is_empty() || parts.iter().any(|p| p == name) {
            part();
        }
    }
}
