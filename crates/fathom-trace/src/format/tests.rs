//! Every record comes back; damage and cuts anywhere are told with their place.

use std::path::Path;

use proptest::prelude::*;

use super::{Reader, VERSION, Writer, chunk};
use crate::error::TraceError;
use crate::model::*;

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::of(OK)),
        Just(Outcome::of(ROW)),
        Just(Outcome::of(DONE)),
        (Just(UNFINISHED), "").prop_map(|(code, message)| Outcome { code, message }),
        (1..3000_i32, ".{0,20}").prop_map(|(code, message)| match Outcome::of(code) {
            fine if !fine.is_error() => fine,
            _ => Outcome { code, message },
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        // Not NaN, which equals nothing and which SQLite keeps as NULL.
        any::<f64>().prop_filter("equal to itself", |number| !number.is_nan()).prop_map(Value::Real),
        any::<Vec<u8>>().prop_map(Value::Text),
        any::<Vec<u8>>().prop_map(Value::Blob),
        any::<u64>().prop_map(Value::ZeroBlob),
    ]
}

fn blob() -> impl Strategy<Value = Action> {
    let name = "[a-z]{0,4}";
    let call = prop_oneof![
        (name, name, name, any::<i64>(), any::<bool>(), any::<u64>()).prop_map(
            |(schema, table, column, row, writes, bytes)| BlobCall::Open {
                schema,
                table,
                column,
                row,
                writes,
                bytes
            }
        ),
        any::<(i64, i64)>().prop_map(|(offset, bytes)| BlobCall::Read { offset, bytes }),
        any::<(i64, Vec<u8>)>().prop_map(|(offset, data)| BlobCall::Write { offset, data }),
        any::<(i64, u64)>().prop_map(|(row, bytes)| BlobCall::Reopen { row, bytes }),
        Just(BlobCall::Close),
    ];
    (any::<u32>(), call, any::<bool>(), outcome()).prop_map(|(blob, call, in_transaction, outcome)| {
        Action::Blob(Blob { blob, call, in_transaction, outcome })
    })
}

fn action() -> impl Strategy<Value = Action> {
    let handle = any::<u32>();
    prop_oneof![
        blob(),
        (any::<u32>(), any::<u32>(), "[a-z]{0,4}", outcome())
            .prop_map(|(database, flags, vfs, outcome)| { Action::Open { database, flags, vfs, outcome } }),
        (handle, any::<u32>(), outcome()).prop_map(|(handle, statement, outcome)| Action::Prepare {
            handle,
            statement,
            outcome
        }),
        (handle, any::<u32>(), value()).prop_map(|(handle, index, value)| Action::Bind {
            handle,
            index,
            value
        }),
        handle.prop_map(|handle| Action::ClearBindings { handle }),
        (handle, any::<(bool, bool, bool)>(), any::<u64>(), any::<u64>(), outcome()).prop_map(
            |(handle, (begins, is_counted, in_transaction), rows, changes, outcome)| {
                Action::Step(Step { handle, begins, is_counted, rows, changes, in_transaction, outcome })
            }
        ),
        handle.prop_map(|handle| Action::Reset { handle }),
        handle.prop_map(|handle| Action::Finalize { handle }),
        outcome().prop_map(|outcome| Action::Close { outcome }),
        (any::<Option<Option<u32>>>(), any::<i64>()).prop_map(|(setting, value)| Action::Setting {
            setting: match setting {
                None => Setting::BusyTimeout,
                Some(None) => Setting::WalAutocheckpoint,
                Some(Some(number)) => Setting::DbConfig(number),
            },
            value
        }),
        ("[a-z]{0,4}", any::<u32>(), outcome()).prop_map(|(schema, mode, outcome)| Action::Checkpoint {
            schema,
            mode,
            outcome
        }),
        ("[a-z]{0,4}", any::<u32>()).prop_map(|(schema, database)| Action::Attach { schema, database }),
        (0..6_u8, ".{0,9}").prop_map(|(kind, name)| {
            use ForeignKind::*;
            let kinds = [Function, Collation, Module, Extension, Encryption, Call];
            Action::Foreign(Foreign { kind: kinds[kind as usize], name })
        }),
    ]
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        Just(Start::Empty),
        Just(Start::Memory),
        any::<u64>().prop_map(|bytes| Start::Image { bytes }),
        any::<u64>().prop_map(|bytes| Start::Script { bytes }),
        ("[a-z]{1,9}", any::<u64>(), any::<u32>())
            .prop_map(|(profile, seed, scale_percent)| Start::Generator { profile, seed, scale_percent }),
        ".{0,9}".prop_map(|reason| Start::Unknown { reason }),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let id = any::<u32>();
    prop_oneof![
        1 => (".{0,9}", ".{0,9}", any::<u64>(), any::<bool>()).prop_map(|(how, what, unix_s, anonymised)| {
            Record::Origin(Origin { how, what, unix_s, anonymised })
        }),
        1 => (id, id, any::<Option<u32>>(), ".{0,9}", ".{0,9}").prop_map(|(id, pid, parent, program, sqlite)| {
            Record::Process(Process { id, pid, parent, program, sqlite })
        }),
        1 => (id, id, id).prop_map(|(id, process, tid)| Record::Thread(Thread { id, process, tid })),
        1 => (id, any::<Vec<u8>>(), start()).prop_map(|(id, path, start)| Record::Database(Database { id, path, start })),
        1 => (id, prop::collection::vec(any::<u8>(), 1..99), 0..u64::MAX / 2)
            .prop_map(|(database, bytes, offset)| Record::Content(Content { database, offset, bytes })),
        2 => (id, ".{0,40}").prop_map(|(id, sql)| Record::Statement(Statement { id, sql })),
        1 => (id, any::<u64>(), any::<bool>()).prop_map(|(process, at_ns, clean)| Record::Exit(Exit { process, at_ns, clean })),
        1 => (proptest::option::of(id), any::<u64>()).prop_map(|(process, at_ns)| Record::Loss(Loss { process, at_ns })),
        2 => (id, id, id, any::<u64>(), lock_change(), any::<u64>()).prop_map(|(thread, connection, database, at_ns, change, commits)| {
            let has_commits = matches!(change, LockChange::Read | LockChange::WriteEnd { is_commit: true });
            let commits = if has_commits { commits } else { 0 };
            Record::Lock(Lock { thread, connection, database, at_ns, change, commits })
        }),
        9 => (id, id, 0..u64::MAX / 2, 0..u64::MAX / 2, action()).prop_map(|(thread, connection, start_ns, duration_ns, action)| {
            Record::Event(Event { thread, connection, start_ns, duration_ns, action })
        }),
    ]
}

fn lock_change() -> impl Strategy<Value = LockChange> {
    use LockChange::*;
    prop_oneof![
        Just(Read),
        Just(Write),
        Just(Exclusive),
        any::<bool>().prop_map(|is_commit| WriteEnd { is_commit }),
        Just(ReadEnd),
    ]
}

fn write(path: &Path, records: &[Record]) {
    // What cannot be read may be a capture, and is never replaced.
    let _ = std::fs::remove_file(path);
    let mut writer = Writer::create(path).expect("created");
    for record in records {
        writer.write(record).expect("written");
    }
    writer.finish().expect("finished");
}

/// What is readable, and the error that ends it.
fn read(path: &Path) -> (Vec<Record>, Option<TraceError>) {
    let mut records = Vec::new();
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => return (records, Some(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(reader.next_record().expect("nothing after an error").is_none());
                return (records, Some(error));
            }
        }
    }
}

fn sample() -> Vec<Record> {
    let event = |number: u64, action| {
        Record::Event(Event { thread: 0, connection: 0, start_ns: number * 1000, duration_ns: 10, action })
    };
    let mut records = vec![
        Record::Origin(Origin { how: "capture".into(), what: "a test".into(), unix_s: 1, anonymised: false }),
        Record::Database(Database {
            id: 0,
            path: b"/a.db".to_vec(),
            start: Start::Image { bytes: 3_000_000 },
        }),
        Record::Content(Content { database: 0, offset: 0, bytes: vec![7; 3_000_000] }),
        Record::Statement(Statement { id: 0, sql: "INSERT INTO t VALUES (?)".into() }),
    ];
    for number in 0..60_000_u64 {
        let value = Value::Integer(i64::try_from(number.wrapping_mul(0x9e37_79b9)).expect("small"));
        records.push(event(number, Action::Bind { handle: 0, index: 1, value }));
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn records_come_back_as_they_were_written(records in prop::collection::vec(record(), 0..60)) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.trace");
        write(&path, &records);
        let (again, error) = read(&path);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(again, records);
    }

    /// Whatever is done to the bytes, there is no panic, and what is given was written.
    #[test]
    fn damage_anywhere_is_an_error_and_what_stands_before_it_is_readable(
        records in prop::collection::vec(record(), 1..40),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        cut: bool,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.trace");
        write(&path, &records);
        let mut bytes = std::fs::read(&path).expect("readable");
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        std::fs::write(&path, &bytes).expect("written");
        let (again, error) = read(&path);
        prop_assert!(error.is_some(), "byte {at}");
        prop_assert!(again.len() <= records.len() && again[..] == records[..again.len()]);
    }
}

#[test]
fn a_large_trace_is_several_chunks_and_a_cut_loses_only_the_last() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let mut records = sample();
    write(&path, &records);
    let (again, error) = read(&path);
    assert!(error.is_none(), "{error:?}");
    // Content comes back in pieces of a chunk.
    let pieces: usize = again
        .iter()
        .filter_map(|record| match record {
            Record::Content(content) => Some(content.bytes.len()),
            _ => None,
        })
        .sum();
    assert_eq!(pieces, 3_000_000);
    let without_content = |records: Vec<Record>| -> Vec<Record> {
        records.into_iter().filter(|record| !matches!(record, Record::Content(_))).collect()
    };
    records = without_content(records);
    assert!(without_content(again) == records);

    let bytes = std::fs::read(&path).expect("readable");
    std::fs::write(&path, &bytes[..bytes.len() * 9 / 10]).expect("written");
    let (again, error) = read(&path);
    let again = without_content(again);
    assert!(again.len() > 20_000 && again.len() < records.len(), "{}", again.len());
    assert!(again[..] == records[..again.len()]);
    let error = error.expect("torn");
    let TraceError::Torn { offset, .. } = &error else { panic!("{error}") };
    assert!(*offset > 10_000 && *offset < bytes.len() as u64 * 9 / 10, "{offset}");
    assert!(error.to_string().contains(&format!("torn at byte {offset}")), "{error}");

    // Without its last chunk only the end mark is missing, and all records are there.
    std::fs::write(&path, &bytes[..bytes.len() - 24 - 12]).expect("written");
    let (_, error) = read(&path);
    assert!(error.expect("torn").to_string().contains("torn at byte"));
}

#[test]
fn damage_is_told_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    write(&path, &sample());
    let bytes = std::fs::read(&path).expect("readable");
    for (at, words) in [
        (5, "not a Fathom trace"),
        (13, "corrupt at byte 0: the file's header"),
        (16, "corrupt at byte 16: no chunk begins here"),
        (24, "corrupt at byte 16: the chunk's header does not match its checksum"),
        (41, "corrupt at byte 16: the chunk does not match its checksum"),
    ] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).expect("written");
        let error = read(&path).1.expect("an error").to_string();
        assert!(error.contains(words), "byte {at}: {error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    std::fs::write(&path, &longer).expect("written");
    assert!(read(&path).1.expect("an error").to_string().contains("something follows the end mark"));
}

#[test]
fn a_newer_version_is_named_and_other_files_are_no_traces() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    write(&path, &[]);
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes[8..10].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&checksum);
    std::fs::write(&path, &bytes).expect("written");
    let error = read(&path).1.expect("an error").to_string();
    assert!(error.contains("format version 3, and this program reads version 2"), "{error}");
    for other in [&b""[..], b"SQLite format 3\0", b"\x89FTR"] {
        std::fs::write(&path, other).expect("written");
        assert!(matches!(read(&path).1, Some(TraceError::NotATrace { .. })));
    }
    std::fs::write(&path, &bytes[..10]).expect("written");
    assert!(matches!(read(&path).1, Some(TraceError::Torn { offset: 0, .. })));
}

#[test]
fn an_unfinished_trace_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let mut writer = Writer::create(&path).expect("created");
    writer.write(&Record::Statement(Statement { id: 0, sql: "SELECT 1".into() })).expect("written");
    drop(writer);
    assert_eq!(std::fs::read_dir(directory.path()).expect("readable").count(), 0);
}

/// A trace file whose one chunk is this one, with right checksums.
fn with_chunk(path: &Path, kind: chunk::Kind, stored: &[u8], raw_bytes: u32) {
    write(path, &[]);
    let mut bytes = std::fs::read(path).expect("readable")[..super::HEADER_BYTES].to_vec();
    let header = chunk::Header {
        kind,
        storage: chunk::Storage::Zstd,
        stored_bytes: stored.len() as u32,
        raw_bytes,
        checksum: crc32c::crc32c(stored),
    };
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(stored);
    std::fs::write(path, bytes).expect("written");
}

/// A trace of 33 KB whose one value was a gibibyte of zeros took 2.1 GB in `info`.
#[test]
fn a_chunk_out_of_proportion_to_its_file_is_refused_with_its_place_before_it_is_decompressed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let stored = zstd::bulk::compress(&vec![0; 100 << 20], 3).expect("compressed");
    assert!(stored.len() < 20_000, "{}", stored.len());
    // Whatever it says of its length.
    for raw_bytes in [100 << 20, 1 << 30] {
        with_chunk(&path, chunk::Kind::Records, &stored, raw_bytes);
        let error = read(&path).1.expect("an error").to_string();
        assert!(error.contains("corrupt at byte 16") && error.contains("out of proportion"), "{error}");
    }
    with_chunk(&path, chunk::Kind::Content, &stored, 100 << 20);
    let error = read(&path).1.expect("an error").to_string();
    assert!(error.contains("corrupt at byte 16") && error.contains("1048596 is the most"), "{error}");
    with_chunk(&path, chunk::Kind::End, &stored, 100 << 20);
    assert!(read(&path).1.expect("an error").to_string().contains("30 is the most"));
    // One that says less than it holds is not decompressed further than that.
    with_chunk(&path, chunk::Kind::Records, &stored, 1000);
    assert!(read(&path).1.expect("an error").to_string().contains("not as long as its header says"));
}

#[test]
fn what_is_written_can_be_read_however_well_it_compresses() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let bind = |value| {
        let action = Action::Bind { handle: 0, index: 1, value };
        Record::Event(Event { thread: 0, connection: 0, start_ns: 0, duration_ns: 0, action })
    };
    // One large value, and the same small one again and again.
    let mut records = vec![bind(Value::Blob(vec![0; 70 << 20]))];
    records.extend((0..300).map(|_| bind(Value::Text(vec![b'x'; 256 << 10]))));
    write(&path, &records);
    let (again, error) = read(&path);
    assert!(error.is_none(), "{error:?}");
    assert!(again == records);
    let length = std::fs::metadata(&path).expect("there").len();
    assert!(length < 72 << 20, "only what must be is stored as it is: {length}");
}
