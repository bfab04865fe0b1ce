//! Traces: read, counted, written again, and made anonymous.

use std::path::Path;

use fathom_fuzz::{Fuzz, Random, Scratch, mutate};
use fathom_trace::anonymise::Wish;
use fathom_trace::model::*;
use fathom_trace::{Reader, Writer};

use crate::trace_file::{Chunk, beginning, chunks, examples, file};

/// Good traces: as bytes, as chunks and as records.
struct Seeds {
    records: Vec<Vec<Record>>,
    chunks: Vec<Vec<Chunk>>,
    files: Vec<Vec<u8>>,
}

fn seeds() -> Seeds {
    let mut records: Vec<Vec<Record>> = examples().iter().map(|path| beginning(path, 60)).collect();
    records.push(everything());
    let chunks: Vec<Vec<Chunk>> = records.iter().map(|bytes| chunks(bytes)).collect();
    let files = chunks.iter().map(|chunks| file(chunks, None)).collect();
    Seeds { records, chunks, files }
}

/// One of each kind of record and action.
pub fn everything() -> Vec<Record> {
    let event =
        |action| Record::Event(Event { thread: 0, connection: 0, start_ns: 10, duration_ns: 5, action });
    let lock = |change, commits| {
        Record::Lock(Lock { thread: 0, connection: 0, database: 0, at_ns: 12, change, commits })
    };
    let script = b"CREATE TABLE t(a, b);\nINSERT INTO t VALUES(1, 'two');\n".to_vec();
    let image = image();
    let database = |id, path: &str, start| Record::Database(Database { id, path: path.into(), start });
    let generator = Start::Generator { profile: "gmail/1".into(), seed: 7, scale_percent: 1 };
    let error = Outcome { code: 5, message: "database is locked".into() };
    let blob =
        |call| event(Action::Blob(Blob { blob: 0, call, in_transaction: false, outcome: Outcome::of(0) }));
    let bind = |index, value| event(Action::Bind { handle: 0, index, value });
    vec![
        Record::Origin(Origin {
            how: "capture".into(),
            what: "app --run".into(),
            unix_s: 1_700_000_000,
            anonymised: false,
        }),
        Record::Process(Process {
            id: 0,
            pid: 4711,
            parent: None,
            program: "app".into(),
            sqlite: "3.45.1".into(),
        }),
        Record::Process(Process {
            id: 1,
            pid: 4712,
            parent: Some(0),
            program: "app".into(),
            sqlite: String::new(),
        }),
        Record::Thread(Thread { id: 0, process: 0, tid: 4711 }),
        database(0, "/home/u/a.db", Start::Image { bytes: image.len() as u64 }),
        Record::Content(Content { database: 0, offset: 0, bytes: image }),
        database(1, "b.db", Start::Script { bytes: script.len() as u64 }),
        Record::Content(Content { database: 1, offset: 0, bytes: script }),
        database(2, ":memory:", Start::Memory),
        database(3, "c.db", Start::Empty),
        database(4, "d.db", generator),
        database(5, "e.db", Start::Unknown { reason: "encrypted".into() }),
        Record::Statement(Statement { id: 0, sql: "INSERT INTO t(a, b) VALUES(?, :b)".into() }),
        Record::Statement(Statement { id: 1, sql: "ATTACH 'b.db' AS other".into() }),
        event(Action::Open { database: 0, flags: 6, vfs: "unix".into(), outcome: Outcome::of(0) }),
        event(Action::Setting { setting: Setting::BusyTimeout, value: 1000 }),
        event(Action::Setting { setting: Setting::WalAutocheckpoint, value: 100 }),
        event(Action::Setting { setting: Setting::DbConfig(1002), value: 1 }),
        event(Action::Prepare { handle: 0, statement: 0, outcome: Outcome::of(0) }),
        bind(1, Value::Integer(-3)),
        bind(2, Value::Text(b"Liv Berg".to_vec())),
        bind(2, Value::Blob(vec![1, 2, 3])),
        bind(1, Value::Real(2.5)),
        bind(1, Value::ZeroBlob(9)),
        bind(1, Value::Null),
        event(Action::Step(Step {
            handle: 0,
            begins: true,
            is_counted: true,
            rows: 0,
            changes: 1,
            in_transaction: true,
            outcome: Outcome::of(101),
        })),
        event(Action::Reset { handle: 0 }),
        event(Action::ClearBindings { handle: 0 }),
        event(Action::Finalize { handle: 0 }),
        event(Action::Prepare { handle: 1, statement: 1, outcome: error.clone() }),
        event(Action::Attach { schema: "other".into(), database: 1 }),
        event(Action::Checkpoint { schema: "main".into(), mode: 0, outcome: error }),
        event(Action::Foreign(Foreign { kind: ForeignKind::Function, name: "f".into() })),
        blob(BlobCall::Open {
            schema: "main".into(),
            table: "t".into(),
            column: "c".into(),
            row: 1,
            writes: true,
            bytes: 9,
        }),
        blob(BlobCall::Write { offset: 1, data: vec![4, 5] }),
        blob(BlobCall::Read { offset: 0, bytes: 9 }),
        blob(BlobCall::Reopen { row: 2, bytes: 0 }),
        blob(BlobCall::Close),
        lock(LockChange::Read, 3),
        lock(LockChange::Write, 0),
        lock(LockChange::Exclusive, 0),
        lock(LockChange::WriteEnd { is_commit: true }, 4),
        lock(LockChange::WriteEnd { is_commit: false }, 0),
        lock(LockChange::ReadEnd, 0),
        event(Action::Close { outcome: Outcome::of(0) }),
        Record::Loss(Loss { process: Some(0), at_ns: 98 }),
        Record::Exit(Exit { process: 0, at_ns: 99, clean: true }),
    ]
}

/// A small database: a table with an index, a long row, free pages.
pub fn image() -> Vec<u8> {
    let scratch = Scratch::new().expect("a scratch directory");
    let path = scratch.path().join("image.db");
    let db = rusqlite::Connection::open(&path).expect("a database");
    db.execute_batch(
        "PRAGMA page_size = 512; PRAGMA auto_vacuum = 0;
         CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c);
         CREATE INDEX t_b ON t(b);
         CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
         CREATE VIEW v AS SELECT b FROM t WHERE b LIKE 'L%';
         INSERT INTO t VALUES(1, 'Liv Berg', 2.5), (2, 'Ole', x'0102'), (3, NULL, 9), (4, printf('%.1200c', 'x'), 'y');
         INSERT INTO w VALUES('one', 'eins'), ('two', 'zwei');
         CREATE TABLE gone(x); INSERT INTO gone VALUES(printf('%.900c', 'z')); DROP TABLE gone;",
    )
    .expect("a small database");
    drop(db);
    std::fs::read(path).expect("the database")
}

fn id(random: &mut Random) -> u32 {
    if random.below(2) == 0 { random.below(6) as u32 } else { mutate::number(random) as u32 }
}

fn words(random: &mut Random, text: &str) -> String {
    const SQL: &[&str] = &[
        "SELECT",
        "INSERT",
        "ATTACH",
        "VACUUM",
        "BEGIN",
        "COMMIT",
        "PRAGMA",
        "WITH",
        "t",
        "?1",
        "x'00'",
        "journal_mode",
        "'../x'",
    ];
    mutate::text(random, text, 2, SQL, &[])
}

/// Changes one record so that its bytes stay a record.
fn twist(random: &mut Random, record: &mut Record) {
    match record {
        Record::Origin(origin) => origin.what = words(random, &origin.what),
        Record::Process(process) => {
            process.id = id(random);
            process.parent = Some(id(random));
        }
        Record::Thread(thread) => {
            (thread.id, thread.process, thread.tid) = (id(random), id(random), id(random))
        }
        Record::Database(database) => match random.below(3) {
            0 => database.id = id(random),
            1 => database.path = words(random, &String::from_utf8_lossy(&database.path)).into_bytes(),
            _ => {
                database.start = match random.below(6) {
                    0 => Start::Empty,
                    1 => Start::Memory,
                    2 => Start::Image { bytes: mutate::number(random) },
                    3 => Start::Script { bytes: mutate::number(random) },
                    4 => {
                        let profile = words(random, "gmail/1");
                        Start::Generator { profile, seed: random.bits(), scale_percent: id(random) }
                    }
                    _ => Start::Unknown { reason: words(random, "not asked for") },
                }
            }
        },
        Record::Content(content) => match random.below(3) {
            0 => content.database = id(random),
            1 => content.offset = mutate::number(random),
            _ => mutate::bytes(random, &mut content.bytes, 3, &[]),
        },
        Record::Statement(statement) => match random.below(2) {
            0 => statement.id = id(random),
            _ => statement.sql = words(random, &statement.sql),
        },
        Record::Loss(loss) => (loss.process, loss.at_ns) = (Some(id(random)), mutate::number(random)),
        Record::Lock(lock) => match random.below(3) {
            0 => (lock.thread, lock.connection) = (id(random), id(random)),
            1 => lock.database = id(random),
            _ => (lock.at_ns, lock.commits) = (mutate::number(random), mutate::number(random)),
        },
        Record::Exit(exit) => (exit.process, exit.at_ns) = (id(random), mutate::number(random)),
        Record::Event(event) => {
            match random.below(6) {
                0 => event.thread = id(random),
                1 => event.connection = id(random),
                2 => event.start_ns = mutate::number(random),
                3 => event.duration_ns = mutate::number(random),
                _ => {}
            }
            match &mut event.action {
                Action::Open { database, flags, outcome, .. } => {
                    (*database, *flags) = (id(random), id(random));
                    outcome.code = id(random) as i32;
                }
                Action::Prepare { handle, statement, .. } => (*handle, *statement) = (id(random), id(random)),
                Action::Bind { handle, index, value } => match random.below(3) {
                    0 => *handle = id(random),
                    1 => *index = id(random),
                    _ => {
                        *value = match random.below(3) {
                            0 => Value::ZeroBlob(mutate::number(random)),
                            1 => Value::Real(f64::from_bits(random.bits())),
                            _ => Value::Text(random.bits().to_le_bytes().to_vec()),
                        }
                    }
                },
                Action::Step(step) => {
                    step.handle = id(random);
                    (step.rows, step.changes) = (mutate::number(random), mutate::number(random));
                    step.outcome.code = *random.pick(&[0, 100, 101, -1, 5, i32::MIN, i32::MAX]);
                }
                Action::ClearBindings { handle } | Action::Reset { handle } | Action::Finalize { handle } => {
                    *handle = id(random);
                }
                Action::Setting { value, .. } => *value = mutate::number(random) as i64,
                Action::Checkpoint { mode, .. } => *mode = id(random),
                Action::Attach { database, .. } => *database = id(random),
                Action::Foreign(event) => event.name = words(random, &event.name),
                Action::Blob(event) => match (&mut event.call, random.below(3)) {
                    (_, 0) => event.blob = id(random),
                    (BlobCall::Open { table, row, writes, bytes, .. }, _) => {
                        *table = words(random, table);
                        (*row, *bytes) = (mutate::number(random) as i64, mutate::number(random));
                        *writes = random.below(2) == 0;
                    }
                    (BlobCall::Read { offset, bytes }, _) => {
                        (*offset, *bytes) = (mutate::number(random) as i64, mutate::number(random) as i64);
                    }
                    (BlobCall::Write { offset, .. }, _) => *offset = mutate::number(random) as i64,
                    (BlobCall::Reopen { row, .. }, _) => *row = mutate::number(random) as i64,
                    (BlobCall::Close, _) => event.outcome.code = id(random) as i32,
                },
                Action::Close { outcome } => outcome.code = id(random) as i32,
            }
        }
    }
}

impl Seeds {
    /// A trace that is wrong somewhere: its bytes, its chunks' content under right checksums, or
    /// its records.
    fn make(&self, random: &mut Random) -> (Vec<u8>, usize) {
        let which = random.below(self.files.len() as u64) as usize;
        let times = 1 + random.below(4);
        let made = match random.below(8) {
            0 => {
                let mut bytes = self.files[which].clone();
                mutate::bytes(random, &mut bytes, times, &self.files);
                bytes
            }
            1..=3 => {
                let mut chunks = self.chunks[which].clone();
                for _ in 0..times {
                    let at = random.below(chunks.len() as u64) as usize;
                    match random.below(12) {
                        0 => drop(chunks.remove(at)),
                        1 => chunks.push(chunks[at].clone()),
                        2 => chunks.swap(0, at),
                        _ => {
                            let others: Vec<Vec<u8>> =
                                self.chunks[which].iter().map(|chunk| chunk.1.clone()).collect();
                            mutate::bytes(random, &mut chunks[at].1, 1, &others);
                        }
                    }
                    if chunks.is_empty() {
                        break;
                    }
                }
                file(&chunks, Some(random))
            }
            _ => file(&chunks(&self.records(random, which, times)), (random.below(4) == 0).then_some(random)),
        };
        let length = made.len();
        (made, length)
    }

    fn records(&self, random: &mut Random, which: usize, times: u64) -> Vec<Record> {
        let mut records = self.records[which].clone();
        for _ in 0..times {
            let at = random.below(records.len().max(1) as u64) as usize;
            match random.below(10) {
                0 if records.len() > 1 => drop(records.remove(at)),
                1 if !records.is_empty() => {
                    records.insert(at, records[random.below(records.len() as u64) as usize].clone())
                }
                2 if !records.is_empty() => {
                    let other = random.below(records.len() as u64) as usize;
                    records.swap(at, other);
                }
                _ => records.get_mut(at).into_iter().for_each(|record| twist(random, record)),
            }
        }
        records
    }
}

fn written_again(records: &[Record], path: &Path) -> Result<(), String> {
    let mut writer = Writer::create(path).map_err(|error| error.to_string())?;
    for record in records {
        writer.write(record).map_err(|error| format!("what was read cannot be written: {error}"))?;
    }
    writer.finish().map_err(|error| error.to_string())?;
    let again: Result<Vec<Record>, _> = Reader::open(path).map_err(|error| error.to_string())?.collect();
    let again = again.map_err(|error| format!("what was written cannot be read: {error}"))?;
    // By their texts: a NaN is not equal to itself.
    match again.iter().zip(records).find(|(a, b)| format!("{a:?}") != format!("{b:?}")) {
        Some((a, b)) => Err(format!("written again, {b:?} is {a:?}")),
        None if again.len() != records.len() => Err("records were lost".into()),
        None => Ok(()),
    }
}

/// Reading, and what `fathom trace info` counts. A trace that reads to its end comes back when it
/// is written again.
#[test]
fn traces_are_read_or_refused() {
    let target = Fuzz::new("traces::traces_are_read_or_refused", 10_000).memory(12 << 20, 64);
    let seeds = seeds();
    let scratch = Scratch::new().expect("a scratch directory");
    let (path, copy) = (scratch.path().join("a.trace"), scratch.path().join("b.trace"));
    let mut whole = 0_u64;
    target.run(
        |random| seeds.make(random),
        |bytes| {
            std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
            // What was made of the last one may be called a capture, which is never replaced.
            let _ = std::fs::remove_file(&copy);
            let mut records = Vec::new();
            let mut ended = false;
            if let Ok(mut reader) = Reader::open(&path) {
                loop {
                    match reader.next_record() {
                        Ok(Some(record)) => records.push(record),
                        Ok(None) => {
                            ended = true;
                            break;
                        }
                        Err(error) => {
                            if error.to_string().is_empty() {
                                return Err("an error without words".into());
                            }
                            break;
                        }
                    }
                }
            }
            if let Ok(info) = fathom_trace::info::info(&path)
                && info.torn.is_none() != ended
            {
                return Err(format!("`info` says {:?}, reading said {ended}", info.torn));
            }
            whole += u64::from(ended);
            if ended && whole % 64 == 1 {
                written_again(&records, &copy)?;
            }
            Ok(())
        },
    );
}

/// Making a trace anonymous reads the pages of its databases itself, before SQLite sees them: the
/// databases are damaged, the trace is whole.
#[test]
fn images_of_traces_are_made_anonymous_or_refused() {
    let target =
        Fuzz::new("traces::images_of_traces_are_made_anonymous_or_refused", 400).memory(48 << 20, 64);
    let good = image();
    let scratch = Scratch::new().expect("a scratch directory");
    let (path, out) = (scratch.path().join("a.trace"), scratch.path().join("b.trace"));
    target.run(
        |random| {
            let mut image = good.clone();
            let times = 1 + random.below(4);
            mutate::bytes(random, &mut image, times, std::slice::from_ref(&good));
            let mut records = everything();
            records.retain(|record| !matches!(record, Record::Database(Database { id: 4 | 5, .. })));
            for record in &mut records {
                match record {
                    Record::Database(database) if database.id == 0 => {
                        database.start = Start::Image { bytes: image.len() as u64 }
                    }
                    Record::Content(content) if content.database == 0 => content.bytes.clone_from(&image),
                    _ => {}
                }
            }
            let made = file(&chunks(&records), None);
            let length = made.len();
            (made, length)
        },
        |bytes| {
            std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
            let _ = std::fs::remove_file(&out);
            if fathom_trace::anonymise::anonymise(&path, &out, &Wish::default()).is_ok() {
                let read: Result<Vec<Record>, _> =
                    Reader::open(&out).map_err(|error| error.to_string())?.collect();
                read.map_err(|error| format!("what was made anonymous cannot be read: {error}"))?;
            }
            scratch.outside_is_untouched(&[])
        },
    );
}
