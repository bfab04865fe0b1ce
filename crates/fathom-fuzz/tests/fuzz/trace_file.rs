//! Traces as bytes, written by `docs/format.md` of fathom-trace alone: a second implementation,
//! with right checksums for any content.

use std::path::PathBuf;

use fathom_fuzz::Random;
use fathom_trace::Reader;
use fathom_trace::model::*;
use fathom_trace::wire::Put;

/// A chunk: kind (1 records, 2 content, 3 end) and its bytes before compression.
pub type Chunk = (u8, Vec<u8>);

/// The header of every trace.
fn header() -> Vec<u8> {
    let mut out = b"\x89FTRACE\n\x01\0\0\0".to_vec();
    let checksum = crc32c::crc32c(&out);
    out.extend(checksum.to_le_bytes());
    out
}

/// A file of these chunks, every checksum right. `odd` may lie about lengths and kinds, and
/// compresses some.
pub fn file(chunks: &[Chunk], odd: Option<&mut Random>) -> Vec<u8> {
    let mut out = header();
    let mut odd = odd;
    for (kind, raw) in chunks {
        let mut head = [0_u8; 24];
        head[..4].copy_from_slice(b"CHNK");
        head[4] = *kind;
        let mut stored = raw.clone();
        let mut length = raw.len() as u32;
        if let Some(random) = odd.as_deref_mut() {
            if random.below(8) == 0
                && let Ok(smaller) = zstd::bulk::compress(raw, 1)
            {
                (head[5], stored) = (1, smaller);
            }
            if random.below(40) == 0 {
                length = fathom_fuzz::mutate::number(random) as u32;
            }
            if random.below(80) == 0 {
                // What expands: many zeros in few bytes.
                let zeros = vec![0; 1 << random.below(22)];
                if let Ok(bomb) = zstd::bulk::compress(&zeros, 1) {
                    (head[5], stored) = (1, bomb);
                    length = zeros.len() as u32;
                }
            }
            if random.below(200) == 0 {
                head[4] = random.below(5) as u8;
            }
        }
        head[8..12].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        head[12..16].copy_from_slice(&length.to_le_bytes());
        head[16..20].copy_from_slice(&crc32c::crc32c(&stored).to_le_bytes());
        let own = crc32c::crc32c(&head[..20]);
        head[20..].copy_from_slice(&own.to_le_bytes());
        out.extend(head);
        out.extend(stored);
    }
    out
}

/// The records as chunks, content between them, and an end that is right about them.
pub fn chunks(records: &[Record]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut pending: Vec<u8> = Vec::new();
    let mut clock = 0_u64;
    let (mut count, mut events, mut end_ns) = (0_u64, 0_u64, 0_u64);
    for record in records {
        if let Record::Content(content) = record {
            if !pending.is_empty() {
                chunks.push((1, std::mem::take(&mut pending)));
            }
            let mut out = Vec::new();
            out.put_u64(content.database.into());
            out.put_u64(content.offset);
            out.extend(&content.bytes);
            chunks.push((2, out));
            continue;
        }
        if pending.is_empty() {
            pending.put_u64(clock);
        }
        count += 1;
        if let Record::Event(event) = record {
            events += 1;
            end_ns = end_ns.max(event.start_ns.saturating_add(event.duration_ns));
        }
        put(&mut pending, &mut clock, record);
    }
    if !pending.is_empty() {
        chunks.push((1, pending));
    }
    let mut end = Vec::new();
    end.put_u64(count);
    end.put_u64(events);
    end.put_u64(end_ns);
    chunks.push((3, end));
    chunks
}

fn put(out: &mut Vec<u8>, clock: &mut u64, record: &Record) {
    let text = |out: &mut Vec<u8>, text: &str| out.put_bytes(text.as_bytes());
    match record {
        Record::Origin(origin) => {
            out.push(1);
            text(out, &origin.how);
            text(out, &origin.what);
            out.put_u64(origin.unix_s);
            out.push(u8::from(origin.anonymised));
        }
        Record::Process(process) => {
            out.push(2);
            out.put_u64(process.id.into());
            out.put_u64(process.pid.into());
            out.put_u64(process.parent.map_or(0, |parent| u64::from(parent) + 1));
            text(out, &process.program);
            text(out, &process.sqlite);
        }
        Record::Thread(thread) => {
            out.push(3);
            out.put_u64(thread.id.into());
            out.put_u64(thread.process.into());
            out.put_u64(thread.tid.into());
        }
        Record::Database(database) => {
            out.push(4);
            out.put_u64(database.id.into());
            out.put_bytes(&database.path);
            match &database.start {
                Start::Empty => out.push(0),
                Start::Memory => out.push(1),
                Start::Image { bytes } => {
                    out.push(2);
                    out.put_u64(*bytes);
                }
                Start::Script { bytes } => {
                    out.push(3);
                    out.put_u64(*bytes);
                }
                Start::Generator { profile, seed, scale_percent } => {
                    out.push(4);
                    text(out, profile);
                    out.put_u64(*seed);
                    out.put_u64((*scale_percent).into());
                }
                Start::Unknown { reason } => {
                    out.push(5);
                    text(out, reason);
                }
            }
        }
        Record::Content(_) => {}
        Record::Statement(statement) => {
            out.push(5);
            out.put_u64(statement.id.into());
            text(out, &statement.sql);
        }
        Record::Exit(exit) => {
            out.push(6);
            out.put_u64(exit.process.into());
            out.put_u64(exit.at_ns);
            out.push(u8::from(exit.clean));
        }
        Record::Loss(loss) => {
            out.push(7);
            out.put_u64(loss.process.map_or(0, |process| u64::from(process) + 1));
            out.put_u64(loss.at_ns);
        }
        Record::Event(record) => event(out, clock, record),
        Record::Lock(lock) => {
            out.push(7);
            out.put_u64(lock.thread.into());
            out.put_u64(lock.connection.into());
            out.put_u64(lock.database.into());
            out.put_i64(lock.at_ns.wrapping_sub(*clock) as i64);
            let number = match lock.change {
                LockChange::Read => 0,
                LockChange::Write => 1,
                LockChange::Exclusive => 2,
                LockChange::WriteEnd { is_commit } => 3 + u8::from(is_commit),
                LockChange::ReadEnd => 5,
            };
            out.push(number);
            if number == 0 || number == 4 {
                out.put_u64(lock.commits);
            }
        }
    }
}

fn outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    out.put_i64(outcome.code.into());
    if outcome.is_error() {
        out.put_bytes(outcome.message.as_bytes());
    }
}

fn event(out: &mut Vec<u8>, clock: &mut u64, event: &Event) {
    let number = match &event.action {
        Action::Open { .. } => 0,
        Action::Prepare { .. } => 1,
        Action::Bind { .. } => 2,
        Action::ClearBindings { .. } => 3,
        Action::Step(_) => 4,
        Action::Reset { .. } => 5,
        Action::Finalize { .. } => 6,
        Action::Close { .. } => 7,
        Action::Setting { .. } => 8,
        Action::Checkpoint { .. } => 9,
        Action::Attach { .. } => 10,
        Action::Foreign(_) => 11,
        Action::Blob(_) => 16,
    };
    out.push(32 + number);
    out.put_u64(event.thread.into());
    out.put_u64(event.connection.into());
    let end = event.start_ns.wrapping_add(event.duration_ns);
    out.put_i64(end.wrapping_sub(*clock) as i64);
    out.put_u64(event.duration_ns);
    *clock = end;
    match &event.action {
        Action::Open { database, flags, vfs, outcome: came } => {
            out.put_u64((*database).into());
            out.put_u64((*flags).into());
            out.put_bytes(vfs.as_bytes());
            outcome(out, came);
        }
        Action::Prepare { handle, statement, outcome: came } => {
            out.put_u64((*handle).into());
            out.put_u64((*statement).into());
            outcome(out, came);
        }
        Action::Bind { handle, index, value } => {
            out.put_u64((*handle).into());
            out.put_u64((*index).into());
            match value {
                Value::Null => out.push(0),
                Value::Integer(integer) => {
                    out.push(1);
                    out.put_i64(*integer);
                }
                Value::Real(real) => {
                    out.push(2);
                    out.put_f64(*real);
                }
                Value::Text(text) => {
                    out.push(3);
                    out.put_bytes(text);
                }
                Value::Blob(blob) => {
                    out.push(4);
                    out.put_bytes(blob);
                }
                Value::ZeroBlob(bytes) => {
                    out.push(5);
                    out.put_u64(*bytes);
                }
            }
        }
        Action::ClearBindings { handle } | Action::Reset { handle } | Action::Finalize { handle } => {
            out.put_u64((*handle).into());
        }
        Action::Step(step) => {
            out.put_u64(step.handle.into());
            out.push(
                u8::from(step.begins) | u8::from(step.in_transaction) << 1 | u8::from(step.is_counted) << 2,
            );
            out.put_u64(step.rows);
            out.put_u64(step.changes);
            outcome(out, &step.outcome);
        }
        Action::Close { outcome: came } => outcome(out, came),
        Action::Setting { setting, value } => {
            match setting {
                Setting::BusyTimeout => out.push(0),
                Setting::WalAutocheckpoint => out.push(1),
                Setting::DbConfig(number) => {
                    out.push(2);
                    out.put_u64((*number).into());
                }
            }
            out.put_i64(*value);
        }
        Action::Checkpoint { schema, mode, outcome: came } => {
            out.put_bytes(schema.as_bytes());
            out.put_u64((*mode).into());
            outcome(out, came);
        }
        Action::Attach { schema, database } => {
            out.put_bytes(schema.as_bytes());
            out.put_u64((*database).into());
        }
        Action::Foreign(call) => {
            let kinds = [
                ForeignKind::Function,
                ForeignKind::Collation,
                ForeignKind::Module,
                ForeignKind::Extension,
                ForeignKind::Encryption,
                ForeignKind::Call,
            ];
            let number = kinds.iter().position(|kind| *kind == call.kind).unwrap_or(0);
            out.push(number as u8);
            out.put_bytes(call.name.as_bytes());
        }
        Action::Blob(blob) => {
            out.put_u64(blob.blob.into());
            match &blob.call {
                BlobCall::Open { schema, table, column, row, writes, bytes } => {
                    out.push(0);
                    out.put_bytes(schema.as_bytes());
                    out.put_bytes(table.as_bytes());
                    out.put_bytes(column.as_bytes());
                    out.put_i64(*row);
                    out.push(u8::from(*writes));
                    out.put_u64(*bytes);
                }
                BlobCall::Read { offset, bytes } => {
                    out.push(1);
                    out.put_i64(*offset);
                    out.put_i64(*bytes);
                }
                BlobCall::Write { offset, data } => {
                    out.push(2);
                    out.put_i64(*offset);
                    out.put_bytes(data);
                }
                BlobCall::Reopen { row, bytes } => {
                    out.push(3);
                    out.put_i64(*row);
                    out.put_u64(*bytes);
                }
                BlobCall::Close => out.push(4),
            }
            out.push(u8::from(blob.in_transaction));
            outcome(out, &blob.outcome);
        }
    }
}

/// The example traces.
pub fn examples() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("the example traces")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "trace"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 4, "{paths:?}");
    paths
}

/// The beginning of a trace: all definitions up to the event number `events`, and content where it
/// is short.
pub fn beginning(path: &std::path::Path, events: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut seen = 0;
    let mut large: Vec<u32> = Vec::new();
    for record in Reader::open(path).expect("an example trace") {
        let mut record = record.expect("a whole example trace");
        match &mut record {
            Record::Event(_) if seen == events => break,
            Record::Event(_) => seen += 1,
            Record::Database(database) => {
                if matches!(database.start, Start::Image { bytes } | Start::Script { bytes } if bytes > 16_384)
                {
                    large.push(database.id);
                    database.start = Start::Empty;
                }
            }
            Record::Content(content) if large.contains(&content.database) => continue,
            _ => {}
        }
        records.push(record);
    }
    records
}

/// Written by the document alone, the example traces read as they are.
#[test]
fn the_documented_bytes_are_those_that_are_read() {
    let _turn = fathom_fuzz::turn();
    let scratch = fathom_fuzz::Scratch::new().expect("a scratch directory");
    for path in examples() {
        let records: Vec<Record> =
            Reader::open(&path).expect("a trace").collect::<Result<_, _>>().expect("a whole trace");
        let copy = scratch.path().join("copy.trace");
        std::fs::write(&copy, file(&chunks(&records), None)).expect("a copy");
        let again: Result<Vec<Record>, _> = Reader::open(&copy).expect("a trace").collect();
        assert!(again.is_ok_and(|again| again == records), "{}", path.display());
    }
}
