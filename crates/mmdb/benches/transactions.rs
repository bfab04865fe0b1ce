//! The engine against a log-only floor, and its own options against each other.
//!
//! Method. The floor appends frames of the same size as the engine's to a buffer and makes them
//! durable by group `fdatasync` on a zero-filled file, with the same kind of hand-over (whoever
//! waits first flushes, one futex wakes a batch) and no tables. Floor and engine run in turn within
//! one round; the median of each over the rounds is printed, and the share is the median of the
//! rounds' quotients, so that a slow phase of the disk hits both. The rows of every other table are
//! measured in turn too. `MMDB_BENCH_ROUNDS` says how many rounds (5), `MMDB_BENCH_DIR` on which
//! disk.
//!
//! Workload: *receive* inserts a 160-byte message and a queue row; *deliver* deletes both and
//! upserts the receiver's state. Clients alternate between the two. Run with `cargo bench -p mmdb
//! --bench transactions [-- PART…]`, parts `floor busy tickets beside reads open recovery kinds
//! streams locking group reference`; all by default.
#![allow(clippy::unwrap_used)]

mod support;

use mmdb::medium::{Medium, MediumFile, MemoryMedium};
use mmdb::{
    ColumnType, Database, Durability, Locking, LogKind, Logging, Options, Schema, Table, Ticket, Value,
};
use rustix::thread::futex;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Dir, interleaved, median, rounds};

/// Length of one measurement.
const RUN: Duration = Duration::from_millis(800);
/// What preparing segments takes after opening.
const SETTLE: Duration = Duration::from_millis(600);

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

/// Each client has a thousand receivers of its own: without locks, two clients must not meet.
fn receiver(id: i64) -> i64 {
    ((id >> 40) << 40) | (id % 1000)
}

fn receive(db: &Database, s: &Schemas, id: i64, durability: Durability) -> Ticket {
    let body = [b'm'; 160];
    let done = db.run_with(durability, |tx| {
        let values = [id.into(), receiver(id).into(), Value::Time(id), Value::Bytes(&body)];
        tx.insert(&s.message, &values)?;
        tx.insert(&s.queue, &[id.into(), Value::Time(id)])
    });
    done.unwrap().1
}

fn deliver(db: &Database, s: &Schemas, id: i64, durability: Durability) -> Ticket {
    let done = db.run_with(durability, |tx| {
        tx.delete(&s.queue, &[id.into()])?;
        tx.delete(&s.message, &[id.into()])?;
        tx.upsert(&s.state, &[receiver(id).into(), Value::Time(id), id.into()])
    });
    done.unwrap().1
}

/// Runs `clients` threads until the time is up; each call of `f` is one transaction. Transactions
/// per second.
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
    std::thread::sleep(SETTLE);
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
    ticketed(&db, &s, clients)
}

/// Durable transactions a second of clients with many tickets open.
fn ticketed(db: &Database, s: &Schemas, clients: usize) -> f64 {
    let done = AtomicU64::new(0);
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for c in 0..clients {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                let mut open: VecDeque<Ticket> = VecDeque::new();
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    open.push_back(one(db, s, c, n, Durability::Durable));
                    n += 1;
                    while open.front().is_some_and(|t| t.poll().unwrap()) {
                        open.pop_front();
                    }
                    if open.len() > 4096 / clients
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
    appended: AtomicU64,
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

/// Time of a sync of an emulated slow device, and bytes that it takes each second.
const SLOW_SYNC: Duration = Duration::from_millis(1);
const SLOW_RATE: u64 = 40_000_000;

/// Emulated slow devices, in memory: every sync of a log file takes its device for a while.
/// Directories whose name begins with `log-` each lie on a device of their own, or all on one.
#[derive(Debug)]
struct SlowMedium {
    memory: MemoryMedium,
    devices: Vec<Arc<Mutex<()>>>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn MediumFile>,
    device: Arc<Mutex<()>>,
    unsynced: AtomicU64,
}

impl SlowMedium {
    fn new(device_each: bool) -> SlowMedium {
        let devices = (0..if device_each { 8 } else { 1 }).map(|_| Arc::default()).collect();
        SlowMedium { memory: MemoryMedium::new(), devices }
    }

    fn slow(&self, path: &Path, file: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        let dir = path.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
        let stream = dir.and_then(|d| d.strip_prefix("log-")?.parse::<usize>().ok());
        let Some(stream) = stream else { return file };
        let device = self.devices[stream % self.devices.len()].clone();
        Arc::new(SlowFile { file, device, unsynced: AtomicU64::new(0) })
    }
}

impl Medium for SlowMedium {
    fn open(&self, path: &Path) -> std::io::Result<Arc<dyn MediumFile>> {
        Ok(self.slow(path, self.memory.open(path)?))
    }
    fn create(&self, path: &Path) -> std::io::Result<Arc<dyn MediumFile>> {
        Ok(self.slow(path, self.memory.create(path)?))
    }
    fn create_dir(&self, path: &Path) -> std::io::Result<()> {
        self.memory.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.memory.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        self.memory.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        self.memory.list(dir)
    }
    fn lock(&self, path: &Path) -> std::io::Result<Box<dyn Send + Sync>> {
        self.memory.lock(path)
    }
}

impl MediumFile for SlowFile {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.file.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.unsynced.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, data)
    }
    fn sync(&self) -> std::io::Result<()> {
        let _busy = self.device.lock().unwrap();
        let bytes = self.unsynced.swap(0, Ordering::Relaxed);
        std::thread::sleep(SLOW_SYNC + Duration::from_nanos(bytes * 1_000_000_000 / SLOW_RATE));
        self.file.sync()
    }
    /// Preparing ahead is kept out of the comparison.
    fn preallocate(&self, len: u64) -> std::io::Result<()> {
        self.file.preallocate(len)
    }
}

const FLOOR_FILE: u64 = 256 << 20;

impl Floor {
    fn new(dir: &Path) -> Floor {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(dir.join("log"));
        let file = file.unwrap();
        // In pieces of which each sync costs least, as the engine's.
        let zeros = vec![0; 64 << 10];
        (0..FLOOR_FILE >> 16).for_each(|i| file.write_all_at(&zeros, i << 16).unwrap());
        file.sync_all().unwrap();
        let state = FloorState { buf: Vec::new(), at: 0, flushing: false, batch: Arc::default() };
        Floor { file, state: Mutex::new(state), appended: AtomicU64::new(0) }
    }

    fn commit(&self, frame: &[u8]) {
        let mine = {
            let mut st = self.state.lock().unwrap();
            st.buf.extend_from_slice(frame);
            self.appended.fetch_add(1, Ordering::Relaxed);
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

    /// One flush; then the waiters of the next batch are served by the next caller, as long as one
    /// is there.
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
            let before = self.appended.load(Ordering::Relaxed);
            batch.done.store(1, Ordering::SeqCst);
            let woken = batch.waiting.load(Ordering::SeqCst);
            if woken > 0 {
                let _ = futex::wake(&batch.done, futex::Flags::PRIVATE, i32::MAX as u32);
            }
            did = true;
            // As the engine does: those just woken come back before the next flush, as long as some
            // do.
            let mut seen = before;
            while seen - before < u64::from(woken) {
                std::thread::yield_now();
                let now = self.appended.load(Ordering::Relaxed);
                if now == seen {
                    break;
                }
                seen = now;
            }
        }
    }
}

fn floor(clients: usize, frame: usize) -> f64 {
    let dir = Dir::new();
    let floor = Floor::new(&dir.0);
    let data = vec![7u8; frame];
    drive(clients, |_, _| floor.commit(&data))
}

fn part_floor() {
    println!("\nblocking commits, receive and deliver alternating; medians of {} rounds", rounds());
    against_floor(&[1, 16, 96]);
}

/// The same on a machine that is at other work: a loop for each processor.
fn part_busy() {
    let processors = std::thread::available_parallelism().unwrap().get();
    println!("\nblocking commits beside {processors} busy loops; medians of {} rounds", rounds());
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let spin = || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        (0..processors).for_each(|_| drop(s.spawn(spin)));
        against_floor(&[1, 4, 16, 96]);
        stop.store(true, Ordering::Relaxed);
    });
}

fn against_floor(clients: &[usize]) {
    println!(
        "{:>8} {:>12} {:>12} {:>8} {:>14} {:>14} {:>12}",
        "clients", "floor tx/s", "mmdb tx/s", "share", "least, most", "log bytes/tx", "batch"
    );
    for &clients in clients {
        let (mut f, mut m, mut q) = (vec![], vec![], vec![]);
        let mut last = (0.0, 0, 0.0);
        for _ in 0..rounds() {
            let a = floor(clients, 192);
            last = blocking(Options::default(), clients, Locking::Record);
            f.push(a);
            m.push(last.0);
            q.push(last.0 / a);
        }
        let ends = q.iter().fold((f64::MAX, 0f64), |(low, high), &x| (low.min(x), high.max(x)));
        println!(
            "{clients:>8} {:>12.0} {:>12.0} {:>8.2} {:>14} {:>14} {:>12.1}",
            median(f),
            median(m),
            median(q),
            format!("{:.2}, {:.2}", ends.0, ends.1),
            last.1,
            last.2
        );
    }
}

fn part_tickets() {
    println!("\nticketed commits, at most 4096 open altogether; medians of {} rounds", rounds());
    let clients = [1, 2, 4, 16, 96];
    let rates = interleaved(&clients, |&n| [tickets(Options::default(), n)]);
    for (clients, [rate]) in clients.iter().zip(rates) {
        println!("{clients:>8} clients {rate:>12.0} durable tx/s");
    }
}

/// Tickets of four clients, alone and while one checkpoint follows the other.
fn part_beside() {
    println!("\nticketed commits of 4 clients beside checkpoints; medians of {} rounds", rounds());
    let figures = interleaved(&[false, true], |&with| {
        let dir = Dir::new();
        let db = Database::open(&dir.0, Options::default()).unwrap();
        let s = create(&db, Locking::Record, Logging::Logged);
        settle(&db, &s);
        // Something to be copied: a million rows that stay.
        for first in (0..1_000_000i64).step_by(1000) {
            let put = |tx: &mut mmdb::Transaction<'_>| {
                (first..first + 1000)
                    .try_for_each(|id| tx.insert(&s.queue, &[(-2 - id).into(), Value::Time(id)]))
            };
            drop(db.run_with(Durability::Lazy, put).unwrap());
        }
        db.flush().unwrap();
        let (stop, checkpoints) = (AtomicBool::new(false), AtomicU64::new(0));
        let rate = std::thread::scope(|scope| {
            scope.spawn(|| {
                while with && !stop.load(Ordering::Relaxed) {
                    db.checkpoint().unwrap();
                    checkpoints.fetch_add(1, Ordering::Relaxed);
                }
            });
            let rate = ticketed(&db, &s, 4);
            stop.store(true, Ordering::Relaxed);
            rate
        });
        [rate, checkpoints.load(Ordering::Relaxed) as f64]
    });
    for (name, [rate, checkpoints]) in ["alone", "beside"].iter().zip(figures) {
        println!("{name:>8} {rate:>12.0} durable tx/s, {checkpoints:.0} checkpoints meanwhile");
    }
}

/// User time of this thread so far, seconds.
fn user_time() -> f64 {
    // SAFETY: numbers, for which zeros are values.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: a place for it.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_utime.tv_sec as f64 + usage.ru_utime.tv_usec as f64 / 1e6
}

/// Reads rows of `message` by their keys, one thread, in each way that there is. The sum of what was
/// read, so that nothing is left out.
fn read_in_a_way(db: &Database, t: &Table, way: &str, keys: impl Iterator<Item = i64>) -> i64 {
    let number = |row: mmdb::RowView<'_>| row.at(1).as_int().unwrap_or(0);
    let mut keys = keys.map(|id| [Value::Int(id)]).peekable();
    let mut sum = 0;
    match way {
        "transaction.get_with, 1 each" => keys.for_each(|key| {
            sum += db.begin().unwrap().get_with(t, &key, number).unwrap().unwrap_or(0);
        }),
        "transaction.get_with, 100 each" => {
            while keys.peek().is_some() {
                let mut tx = db.begin().unwrap();
                for key in keys.by_ref().take(100) {
                    sum += tx.get_with(t, &key, number).unwrap().unwrap_or(0);
                }
            }
        }
        "transaction.get_many_with, 100 each" => {
            while keys.peek().is_some() {
                let some = keys.by_ref().take(100);
                let add = |_, row: Option<mmdb::RowView<'_>>| sum += row.map_or(0, number);
                db.begin().unwrap().get_many_with(t, some, add).unwrap();
            }
        }
        "snapshot.get_with" => {
            let snapshot = db.snapshot().unwrap();
            keys.for_each(|key| sum += snapshot.get_with(t, &key, number).unwrap().unwrap_or(0));
        }
        "snapshot.get_many_with" => {
            db.snapshot().unwrap().get_many_with(t, keys, |_, row| sum += row.map_or(0, number)).unwrap();
        }
        "db.get_with" => keys.for_each(|key| sum += db.get_with(t, &key, number).unwrap().unwrap_or(0)),
        _ => db.get_many_with(t, keys, |_, row| sum += row.map_or(0, number)).unwrap(),
    }
    sum
}

/// Reads of rows by their keys, one thread, for each second of its user time: from a table that the
/// caches hold and from larger ones.
fn part_reads() {
    const READS: i64 = 1_000_000;
    const WAYS: [&str; 7] = [
        "transaction.get_with, 1 each",
        "transaction.get_with, 100 each",
        "transaction.get_many_with, 100 each",
        "snapshot.get_with",
        "snapshot.get_many_with",
        "db.get_with",
        "db.get_many_with",
    ];
    println!("\npoint reads for each second of one processor; medians of {} rounds", rounds());
    print!("{:>40}", "rows of 178 bytes");
    let sizes = [10_000, 100_000, 1_000_000i64];
    sizes.iter().for_each(|rows| print!(" {rows:>10}"));
    println!();
    let figures = sizes.map(|rows| {
        let db = Database::in_memory().unwrap();
        let t = create(&db, Locking::Record, Logging::Volatile).message;
        let body = [b'm'; 160];
        for first in (0..rows).step_by(1000) {
            let put = |tx: &mut mmdb::Transaction<'_>| {
                (first..first + 1000).try_for_each(|id| {
                    tx.insert(&t, &[id.into(), receiver(id).into(), Value::Time(id), Value::Bytes(&body)])
                })
            };
            drop(db.run_with(Durability::Lazy, put).unwrap());
        }
        interleaved(&WAYS, |way| {
            // Each row as often, in an order that no cache foresees.
            let keys = (0..READS).map(|n| n * 7_919_003 % rows);
            let began = user_time();
            std::hint::black_box(read_in_a_way(&db, &t, way, keys));
            [READS as f64 / (user_time() - began)]
        })
    });
    for (n, way) in WAYS.iter().enumerate() {
        print!("{way:>40}");
        figures.iter().for_each(|size| print!(" {:>10.0}", size[n][0]));
        println!();
    }
}

/// How long it takes to open ten million rows, from the images of a checkpoint.
fn part_open() {
    const ROWS: i64 = 10_000_000;
    let dir = Dir::new();
    let db = Database::open(&dir.0, Options::default()).unwrap();
    let t = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(t.primary_key(&["id"])).unwrap();
    let mut id = 0;
    while id < ROWS {
        let put = |tx: &mut mmdb::Transaction<'_>| {
            (id..id + 1000).try_for_each(|id| tx.insert(&t, &[id.into(), (id % 1000).into()]))
        };
        drop(db.run_with(Durability::Lazy, put).unwrap());
        id += 1000;
    }
    db.checkpoint().unwrap();
    drop(t);
    db.close().unwrap();
    for _ in 0..rounds() {
        let began = Instant::now();
        let db = Database::open(&dir.0, Options::default()).unwrap();
        let (whole, r) = (began.elapsed().as_secs_f64(), db.recovery());
        let parts = [r.image_time, r.replay_time, r.index_time].map(|time| time.as_secs_f64());
        println!("{ROWS} rows open in {whole:.2} s: images, log and indexes took {parts:.2?} s");
        db.close().unwrap();
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
                            Ok::<_, mmdb::Error>(())
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
        "\ndifferential against after-image logging, 96 blocking clients; medians of {} rounds",
        rounds()
    );
    println!("{:>24} {:>14} {:>10} {:>16}", "workload", "kind", "tx/s", "log bytes/tx");
    let kinds = [LogKind::Differential, LogKind::AfterImage];
    let updates = interleaved(&kinds, |&kind| {
        let dir = Dir::new();
        let db = Database::open(&dir.0, Options { log_kind: kind, ..Options::default() }).unwrap();
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let t = db.create_table(s.column("body", ColumnType::VarBytes(300)).primary_key(&["id"])).unwrap();
        for id in 0..96i64 {
            db.run(|tx| tx.insert(&t, &[id.into(), 0.into(), Value::Bytes(&[9; 280])])).unwrap();
        }
        std::thread::sleep(SETTLE);
        let before = db.stats();
        let rate = drive(96, |c, n| {
            db.run(|tx| tx.update(&t, &[(c as i64).into()], &[("n", n.into())])).unwrap();
        });
        let (a, b) = (before, db.stats());
        [rate, (b.log_bytes - a.log_bytes) as f64 / (b.frames - a.frames) as f64]
    });
    let both = interleaved(&kinds, |&kind| {
        let o = Options { log_kind: kind, ..Options::default() };
        let (rate, bytes, _) = blocking(o, 96, Locking::Record);
        [rate, bytes as f64]
    });
    for (workload, figures) in [("one column of 300 bytes", updates), ("receive and deliver", both)] {
        for (kind, [rate, bytes]) in kinds.iter().zip(figures) {
            println!("{workload:>24} {:>14} {rate:>10.0} {bytes:>16.0}", format!("{kind:?}"));
        }
    }
}

/// The devices that the streams of a row lie on.
#[derive(Clone, Copy, Debug)]
enum Disks {
    /// The real disk, all streams on it.
    Real,
    /// One emulated slow device for all streams.
    OneSlow,
    /// An emulated slow device for each stream.
    SlowEach,
}

fn part_streams() {
    println!("\nstreams, receive and deliver; medians of {} rounds", rounds());
    println!("slow: in memory, {SLOW_SYNC:?} a sync and {} MB/s", SLOW_RATE / 1_000_000);
    println!("{:>10} {:>8} {:>22} {:>22}", "devices", "streams", "96 blocking, tx/s", "4 ticketed, tx/s");
    let disks = [Disks::Real, Disks::OneSlow, Disks::SlowEach];
    let rows: Vec<(Disks, usize)> = disks.iter().flat_map(|&d| [1, 2, 4].map(|n| (d, n))).collect();
    let figures = interleaved(&rows, |&(disks, streams)| {
        let options = || {
            let o = Options { streams, ..Options::default() };
            match disks {
                Disks::Real => o,
                Disks::OneSlow => Options { medium: Arc::new(SlowMedium::new(false)), ..o },
                Disks::SlowEach => Options { medium: Arc::new(SlowMedium::new(true)), ..o },
            }
        };
        [blocking(options(), 96, Locking::Record).0, tickets(options(), 4)]
    });
    for ((disks, streams), [blocking, tickets]) in rows.iter().zip(figures) {
        println!("{:>10} {streams:>8} {blocking:>22.0} {tickets:>22.0}", format!("{disks:?}"));
    }
}

fn part_locking() {
    println!("\nlock granularities: 16 clients, two updates among N rows; medians of {} rounds", rounds());
    println!(
        "{:>10} {:>8} {:>14} {:>10} {:>10} {:>14} {:>10} {:>10}",
        "locking", "rows", "blocking tx/s", "waits", "deaths", "lazy tx/s", "waits", "deaths"
    );
    let kinds = [Locking::Record, Locking::Page, Locking::Container, Locking::None];
    let rows: Vec<(Locking, i64)> = kinds.iter().flat_map(|&k| [64, 10_000].map(|n| (k, n))).collect();
    let figures = interleaved(&rows, |&(locking, n)| {
        let [a, b] = [Durability::Durable, Durability::Lazy].map(|d| contended(locking, n, d));
        [a[0], a[1], a[2], b[0], b[1], b[2]]
    });
    for ((locking, n), [a, b, c, d, e, f]) in rows.iter().zip(figures) {
        let name = format!("{locking:?}");
        println!("{name:>10} {n:>8} {a:>14.0} {b:>10.0} {c:>10.0} {d:>14.0} {e:>10.0} {f:>10.0}");
    }
}

/// Rate, waits and deaths of 16 clients that update two of `rows` rows in each transaction.
fn contended(locking: Locking, rows: i64, durability: Durability) -> [f64; 3] {
    let dir = Dir::new();
    let db = Database::open(&dir.0, Options::default()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(s.primary_key(&["id"]).locking(locking)).unwrap();
    db.run(|tx| (0..rows).try_for_each(|id| tx.insert(&t, &[id.into(), 0.into()]))).unwrap();
    std::thread::sleep(SETTLE);
    let rate = drive(16, |c, n| {
        let done = db.run_with(durability, |tx| {
            tx.update(&t, &[((c as i64 * 31 + n * 7) % rows).into()], &[("n", n.into())])?;
            tx.update(&t, &[((c as i64 * 17 + n * 5) % rows).into()], &[("n", n.into())])
        });
        done.unwrap().1.wait().unwrap();
    });
    let st = db.stats();
    [rate, st.lock_waits as f64, st.lock_deaths as f64]
}

fn part_group() {
    println!("\ngroup commit, receive and deliver; medians of {} rounds", rounds());
    println!("{:>8} {:>8} {:>10} {:>18}", "clients", "group", "tx/s", "frames per flush");
    let rows = [1, 16, 96].map(|n| [(n, false), (n, true)]).concat();
    let figures = interleaved(&rows, |&(clients, group_commit)| {
        let b = blocking(Options { group_commit, ..Options::default() }, clients, Locking::Record);
        [b.0, b.2]
    });
    for ((clients, on), [rate, batch]) in rows.iter().zip(figures) {
        println!("{clients:>8} {:>8} {rate:>10.0} {batch:>18.1}", if *on { "on" } else { "off" });
    }
}

fn part_reference() {
    println!(
        "\nwhat transactions cost: receive and deliver, no waiting for the disk; medians of {}",
        rounds()
    );
    println!("{:>24} {:>16} {:>16}", "mode", "1 client, tx/s", "2 clients, tx/s");
    let reference = || Options { reference: true, ..Options::default() };
    type Row = (&'static str, fn() -> Options, Locking, Logging);
    let rows: [Row; 4] = [
        ("locks and log (lazy)", Options::default, Locking::Record, Logging::Logged),
        ("log (lazy), no locks", Options::default, Locking::None, Logging::Logged),
        ("locks, no log", Options::default, Locking::Record, Logging::Volatile),
        ("neither (reference)", reference, Locking::None, Logging::Volatile),
    ];
    let figures = interleaved(&rows, |(_, options, locking, logging)| {
        [1, 2].map(|clients| {
            let dir = Dir::new();
            let db = Database::open(&dir.0, options()).unwrap();
            let s = create(&db, *locking, *logging);
            std::thread::sleep(SETTLE);
            drive(clients, |c, n| drop(one(&db, &s, c, n, Durability::Lazy)))
        })
    });
    for ((name, ..), [one, two]) in rows.iter().zip(figures) {
        println!("{name:>24} {one:>16.0} {two:>16.0}");
    }
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let all: [(&str, fn()); 12] = [
        ("floor", part_floor),
        ("busy", part_busy),
        ("tickets", part_tickets),
        ("beside", part_beside),
        ("reads", part_reads),
        ("open", part_open),
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
