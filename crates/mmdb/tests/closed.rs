//! The tail of a closed database.
//!
//! What happened: a frame counts if its checksums hold, and the last one of a log has none behind
//! it to say that it was acknowledged. So one flipped bit in the last frame of a database that had
//! been *closed* was taken for a torn tail. Harm: 999 of 1,000 rows, no error, and `mmdb check`
//! said ok. The mend: closing writes into the manifest up to which commit everything is durable.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::medium::{Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Error, OfflineDatabase, Options, Schema};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn options(m: &MemoryMedium, streams: usize) -> Options {
    Options {
        medium: Arc::new(m.clone()),
        streams,
        segment_bytes: 16384,
        container_bytes: 4096,
        background: false,
        recovery_threads: 1,
        ..Options::in_memory()
    }
}

fn schema() -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("v", ColumnType::VarText(400))
        .primary_key(&["id"])
}

fn fill(db: &Database, rows: i64) {
    let t = db.create_table(schema()).unwrap();
    (0..rows).for_each(|i| db.run(|tx| tx.insert(&t, &[i.into(), "value".into()])).unwrap());
}

fn files(m: &MemoryMedium, streams: usize) -> Files {
    let mut all = Files::new();
    let dirs = (0..streams).map(|i| format!("/db/log-{i}")).chain(["/db".to_owned()]);
    for dir in dirs {
        for name in m.list(Path::new(&dir)).unwrap() {
            let path = Path::new(&dir).join(name);
            let file = m.open(&path).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            all.insert(path, bytes);
        }
    }
    all
}

/// How many rows an opening shows, or why it refuses.
fn open(files: &Files, streams: usize) -> Result<usize, Error> {
    let m = MemoryMedium::new();
    for (path, bytes) in files {
        m.create(path).unwrap().write_at(0, bytes).unwrap();
    }
    let o = options(&m, streams);
    let checked = OfflineDatabase::load("/db", &o).map(|s| s.tables()[0].1 as usize);
    let opened =
        Database::open("/db", o).map(|db| db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count());
    assert_eq!(checked.as_ref().ok(), opened.as_ref().ok(), "`mmdb check` says what opening says");
    opened
}

/// The files of a database that was closed, by its handle's end or by `close`, and the last frame
/// of each stream.
fn sample(streams: usize, explicit: bool) -> (Files, Vec<(PathBuf, usize)>) {
    let m = MemoryMedium::new();
    let db = Database::open("/db", options(&m, streams)).unwrap();
    fill(&db, 20);
    if explicit {
        db.close().unwrap()
    } else {
        drop(db)
    }
    let all = files(&m, streams);
    let frames =
        all.iter().filter_map(|(path, b)| Some((path.clone(), b.windows(4).rposition(|w| w == b"MMFR")?)));
    let last = frames.map(|(path, at)| (path.parent().unwrap().to_owned(), (path, at)));
    let last: BTreeMap<_, _> = last.collect();
    (all, last.into_values().collect())
}

#[test]
fn every_flipped_byte_in_the_last_frame_of_a_closed_database_is_refused() {
    for (streams, explicit) in [(1, true), (1, false), (2, true)] {
        let (whole, last) = sample(streams, explicit);
        assert_eq!((open(&whole, streams).unwrap(), last.len()), (20, streams));
        for (path, at) in last {
            let len = u32::from_le_bytes(whole[&path][at + 4..at + 8].try_into().unwrap()) as usize;
            for byte in at..at + 32 + len {
                for flip in [1, 0x80, 0xff] {
                    let mut files = whole.clone();
                    files.get_mut(&path).unwrap()[byte] ^= flip;
                    match open(&files, streams) {
                        Err(Error::Corrupt { file, .. }) => {
                            assert!(whole.contains_key(&file), "{}", file.display())
                        }
                        other => panic!("byte {byte} of {}: {other:?}", path.display()),
                    }
                }
            }
        }
    }
}

#[test]
fn a_last_segment_that_is_cut_short_emptied_or_gone_is_refused() {
    let (whole, last) = sample(1, true);
    let (path, at) = &last[0];
    for len in [0, 28, 4096, at - 1, *at, at + 31] {
        let mut files = whole.clone();
        files.get_mut(path).unwrap().truncate(len);
        assert!(matches!(open(&files, 1), Err(Error::Corrupt { .. })), "cut to {len} bytes");
    }
    let mut files = whole.clone();
    files.get_mut(path).unwrap().fill(0);
    assert!(matches!(open(&files, 1), Err(Error::Corrupt { .. })), "zeros");
    let mut files = whole.clone();
    files.remove(path);
    match open(&files, 1) {
        Err(Error::Corrupt { file, .. }) => assert_eq!(&file, path),
        other => panic!("{other:?}"),
    }
}

/// A database that crashed has no such evidence for its last flush, and needs none: nothing of it
/// may have been acknowledged.
#[test]
fn the_torn_tail_of_a_database_that_was_not_closed_is_dropped() {
    let m = MemoryMedium::new();
    let db = Database::open("/db", options(&m, 1)).unwrap();
    fill(&db, 20);
    let mut crashed = files(&m, 1);
    drop(db);
    assert_eq!(open(&crashed, 1).unwrap(), 20);
    let (path, at) = crashed
        .iter()
        .filter_map(|(p, b)| Some((p.clone(), b.windows(4).rposition(|w| w == b"MMFR")?)))
        .next_back()
        .unwrap();
    crashed.get_mut(&path).unwrap()[at + 40] ^= 1;
    assert_eq!(open(&crashed, 1).unwrap(), 19);
}

/// A closed database is opened, used and closed again, with and without checkpoints: the evidence
/// is always that of the last closing.
#[test]
fn closing_again_and_again_keeps_the_evidence_current() {
    let m = MemoryMedium::new();
    for life in 0..6i64 {
        let db = Database::open("/db", options(&m, 1)).unwrap();
        let t = db.table("t").or_else(|_| db.create_table(schema())).unwrap();
        assert_eq!(db.begin().unwrap().scan(&t).unwrap().count() as i64, life * 10);
        (0..10).for_each(|i| db.run(|tx| tx.insert(&t, &[(life * 10 + i).into(), "v".into()])).unwrap());
        if life % 2 == 1 {
            db.checkpoint().unwrap();
        }
        if life % 3 == 0 {
            // Nothing but this opening and closing happens in the life.
            drop((t, db));
            Database::open("/db", options(&m, 1)).unwrap().close().unwrap();
        } else {
            drop(t);
            db.close().unwrap();
        }
        let report = OfflineDatabase::load("/db", &options(&m, 1)).unwrap().report();
        assert_eq!((report.cut, report.manifest_horizon), (life as u64 * 10 + 10, life as u64 * 10 + 10));
    }
}

/// The first closing handle does not close the database for the others.
#[test]
fn a_database_with_another_handle_stays_open_and_is_closed_by_the_last() {
    let m = MemoryMedium::new();
    let db = Database::open("/db", options(&m, 1)).unwrap();
    fill(&db, 3);
    let other = db.clone();
    db.close().unwrap();
    let t = other.table("t").unwrap();
    other.run(|tx| tx.insert(&t, &[9.into(), "v".into()])).unwrap();
    drop((t, other));
    assert_eq!(OfflineDatabase::load("/db", &options(&m, 1)).unwrap().report().manifest_horizon, 4);
}

#[test]
fn the_tool_refuses_a_closed_database_with_a_flipped_bit_and_tells_a_tail_without_evidence() {
    let place = tree::Place::new("closed");
    let (dir, crashed) = (place.join("db"), place.join("crashed"));
    let db = Database::open(&dir, Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    fill(&db, 1000);
    tree::copy(&dir, &crashed);
    db.close().unwrap();
    let check = |dir: &Path| {
        let out = Command::new(env!("CARGO_BIN_EXE_mmdb")).arg("check").arg(dir).output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    assert_eq!(check(&dir), (Some(0), "ok: 1000 rows in 1 tables, last commit 1000\n".into(), String::new()));
    let (code, out, _) = check(&crashed);
    assert!(code == Some(0) && out.contains("was not closed"), "{out}");
    let log = dir.join("log-0");
    let mut names: Vec<_> = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let frame =
        |p: &PathBuf| Some((p.clone(), std::fs::read(p).ok()?.windows(4).rposition(|w| w == b"MMFR")?));
    let (path, at) = names.iter().filter_map(frame).next_back().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at + 40] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (code, _, why) = check(&dir);
    assert!(code == Some(1) && why.contains("commit 1000 is missing"), "{why}");
}
