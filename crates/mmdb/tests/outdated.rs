//! What a crashed database's log lacks although nothing in it says so.
//!
//! What happened: after a crash the last segments of a stream could be missing, or its directory be
//! an older copy of itself from the same life, and the database opened without a word: all that was
//! acknowledged since the last checkpoint, or since the opening, was taken for a torn tail. For the
//! manifest was stored by openings, schema changes, checkpoints and closings only, and knew of no
//! later segment. The mend: a manifest names every segment before it is used, says that it is begun
//! before the first commit in it is acknowledged, and states the horizon whenever it is stored, at
//! the latest some seconds after a commit.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, OfflineDatabase, Options, Schema, salvage};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::{Place, copy};

fn options(log: &Path) -> Options {
    Options { stream_dirs: vec![log.to_path_buf()], segment_bytes: 16 << 10, ..Options::default() }
}

fn put(db: &Database, id: i64) {
    let s = Schema::new("t").column("id", ColumnType::Int64).column("v", ColumnType::VarText(400));
    let t = db.table("t").or_else(|_| db.create_table(s.primary_key(&["id"]))).unwrap();
    db.run(|tx| tx.insert(&t, &[id.into(), "value".into()])).unwrap();
}

/// The segments in a directory, rising.
fn segments(log: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(log).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = names.filter(|p| p.to_string_lossy().contains("segment-")).collect();
    all.sort();
    all
}

/// Those of them that were begun.
fn begun(log: &Path) -> Vec<PathBuf> {
    let used = |path: &PathBuf| std::fs::read(path).unwrap().starts_with(b"MMDBSEG1");
    segments(log).into_iter().filter(used).collect()
}

/// Opening is refused, says where and why, and has touched nothing; looking is refused too.
fn refused(place: &Place, dir: &Path, options: &Options, words: &[&str]) {
    let before = place.picture();
    let e = Database::open(dir, options.clone()).map(|db| db.recovery()).unwrap_err().to_string();
    assert!(OfflineDatabase::load(dir, options).is_err());
    assert_eq!(place.picture(), before, "{e}");
    for w in words {
        assert!(e.contains(w), "{w:?} is not in: {e}");
    }
}

#[test]
fn the_last_segments_of_a_crashed_database_must_be_there() {
    let p = Place::new("last");
    let (dir, log) = (p.join("db"), p.join("log"));
    let db = Database::open(&dir, options(&log)).unwrap();
    (0..30).for_each(|id| put(&db, id));
    let (dir, log) = {
        copy(&dir, &p.join("crashed"));
        copy(&log, &p.join("crashed-log"));
        (p.join("crashed"), p.join("crashed-log"))
    };
    drop(db);
    let used = begun(&log);
    assert!(used.len() > 6);
    for first in (0..used.len()).rev() {
        // All from that one on, those that were only ready too.
        let gone: Vec<_> = segments(&log).into_iter().filter(|s| *s >= used[first]).collect();
        let kept: Vec<_> = gone.iter().map(|s| std::fs::read(s).unwrap()).collect();
        gone.iter().for_each(|s| std::fs::remove_file(s).unwrap());
        let name = used[first].file_name().unwrap().to_str().unwrap();
        refused(&p, &dir, &options(&log), &[log.to_str().unwrap(), name, "missing"]);
        gone.iter().zip(kept).for_each(|(s, bytes)| std::fs::write(s, bytes).unwrap());
    }
    let db = Database::open(&dir, options(&log)).unwrap();
    assert_eq!(db.recovery().cut, 30);
}

#[test]
fn an_older_copy_of_the_log_from_the_same_life_is_refused() {
    let p = Place::new("older");
    let (dir, log) = (p.join("db"), p.join("log"));
    let db = Database::open(&dir, options(&log)).unwrap();
    // A copy at every commit, and the moment when the next segment was begun, which was ready
    // before.
    let mut copies = Vec::new();
    for id in 0..12 {
        put(&db, id);
        // The next segment is got ready by another thread, which may be late.
        let began = Instant::now();
        while segments(&log).len() == begun(&log).len() {
            assert!(began.elapsed() < Duration::from_secs(60), "no segment is ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        let older = p.join(&format!("older-{id}"));
        copy(&log, &older);
        copies.push((begun(&older).len(), older));
    }
    copy(&dir, &p.join("crashed"));
    copy(&log, &p.join("crashed-log"));
    drop(db);
    let (dir, log, away) = (p.join("crashed"), p.join("crashed-log"), p.join("away"));
    let all = begun(&log).len();
    let was_ready = |older: &Path| segments(older).len() > begun(older).len();
    assert!(all > 3 && copies.iter().any(|(n, older)| *n + 1 == all && was_ready(older)), "{all} {copies:?}");
    std::fs::rename(&log, &away).unwrap();
    for (_, older) in copies.iter().filter(|(n, _)| *n < all) {
        copy(older, &log);
        refused(&p, &dir, &options(&log), &[log.to_str().unwrap(), "segment-"]);
        std::fs::remove_dir_all(&log).unwrap();
    }
    // What is there can be saved, and what is not is named.
    copy(&copies[0].1, &log);
    let saved = salvage(&dir, p.join("saved"), &options(&log)).unwrap();
    assert!(saved.cut < 12 && saved.problems.iter().any(|s| s.contains("segment-")), "{saved:?}");
    assert!(!mmdb::read_log(&dir, &options(&log), |_| {}).unwrap().is_empty());
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::rename(&away, &log).unwrap();
    assert_eq!(Database::open(&dir, options(&log)).unwrap().recovery().cut, 12);
}

/// Within one segment there is no name that could be missing: the horizon tells.
#[test]
fn an_acknowledged_commit_is_stated_by_itself_after_a_while() {
    let p = Place::new("stated");
    let (dir, log) = (p.join("db"), p.join("log"));
    let o = Options {
        segment_bytes: 1 << 20,
        manifest_interval: Duration::from_millis(50),
        checkpoint_log_bytes: 0,
        ..options(&log)
    };
    let db = Database::open(&dir, o.clone()).unwrap();
    put(&db, 0);
    let began = Instant::now();
    while segments(&log).len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "two segments are ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    copy(&log, &p.join("older"));
    (1..9).for_each(|id| put(&db, id));
    let stated = || {
        // The database is in use: what is looked at is a copy.
        std::fs::remove_dir_all(p.join("look")).ok();
        copy(&dir, &p.join("look"));
        copy(&log, &p.join("look-log"));
        let stated = OfflineDatabase::load(p.join("look"), &options(&p.join("look-log")))
            .map(|s| s.report().manifest_horizon);
        stated.unwrap_or(0)
    };
    let began = Instant::now();
    while stated() < 9 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} is stated", stated());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Then nothing more is stored.
    let changed = || std::fs::metadata(dir.join("MANIFEST")).unwrap().modified().unwrap();
    let then = changed();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(changed(), then);
    copy(&dir, &p.join("crashed"));
    drop(db);
    refused(&p, &p.join("crashed"), &options(&p.join("older")), &["older", "commit 2 is missing"]);
}

/// Stores of the oldest format, which has no word about begun segments, none about generations of
/// columns, none about expiry and none about standbys, open as they did.
#[test]
fn a_manifest_of_the_format_before_is_read_and_replaced() {
    let p = Place::new("before");
    let (dir, log) = (p.join("db"), p.join("log"));
    let db = Database::open(&dir, options(&log)).unwrap();
    (0..9).for_each(|id| put(&db, id));
    db.close().unwrap();
    let path = dir.join("MANIFEST");
    let bytes = std::fs::read(&path).unwrap();
    let with_crc = |mut b: Vec<u8>| {
        let crc = crc32c::crc32c(&b).to_le_bytes();
        b.extend_from_slice(&crc);
        b
    };
    // Where `begun` of the only stream stands: whatever is left out there must read as a whole
    // manifest.
    let body = &bytes[..bytes.len() - 4];
    // What is said of standbys begins with the identity that the manifest begins with, and is last.
    let identity = &body[12..28];
    let lineage = body.windows(identity.len()).rposition(|bytes| bytes == identity).unwrap();
    assert!(lineage > 12);
    let body = &body[..lineage];
    let last = begun(&log).len() as u64;
    let at = (58..body.len() - 8)
        .rev()
        .find(|&i| body[i..i + 8] == last.to_le_bytes() && body[i - 8] as u64 > last);
    let at = at.unwrap();
    // The generation of the only table's columns, two zeros, and that none of them says when rows
    // expire, are right before the stream.
    assert_eq!(body[at - 11..at - 8], [0, 0, 0]);
    let mut old = [&body[..at - 11], &body[at - 8..at], &body[at + 8..]].concat();
    old[8..12].copy_from_slice(&2u32.to_le_bytes());
    std::fs::write(&path, with_crc(old)).unwrap();
    let db = Database::open(&dir, options(&log)).unwrap();
    assert_eq!(db.recovery().cut, 9);
    db.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[8], 6);
}
