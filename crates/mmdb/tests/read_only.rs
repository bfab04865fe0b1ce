//! `mmdb stat`, `check`, `dump` and `log` only look.
//!
//! What happened: they made a `LOCK` in whatever directory they were given. Harm: a directory that
//! is no database is littered, one that must not change changes. The mend: files to lock are only
//! those that are there.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, OfflineDatabase, Options, Schema};
use std::path::Path;
use std::process::Command;
use tree::{Place, copy, wait_for_ready_segments};

const LOOKS: [&[&str]; 5] = [&["stat"], &["check"], &["dump"], &["dump", "t"], &["log"]];

/// Runs every command that only looks; their exit codes.
fn look(dir: &Path, more: &[&str]) -> Vec<i32> {
    let run = |words: &&[&str]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_mmdb"));
        c.arg(words[0]).arg(dir).args(&words[1..]).args(more);
        c.output().unwrap().status.code().unwrap()
    };
    LOOKS.iter().map(run).collect()
}

#[test]
fn looking_at_a_database_changes_nothing_whatever_its_state() {
    let p = Place::new("look");
    let (dir, log) = (p.join("db"), p.join("log"));
    let o = Options {
        streams: 2,
        stream_dirs: vec![log.clone(), p.join("log1")],
        segment_bytes: 64 << 10,
        ..Options::default()
    };
    let db = Database::open(&dir, o.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    (0..100i64).for_each(|i| db.run(|tx| tx.insert(&t, &[i.into()])).unwrap());
    db.checkpoint().unwrap();
    (100..200i64).for_each(|i| db.run(|tx| tx.insert(&t, &[i.into()])).unwrap());
    let crashed = p.join("crashed");
    // They are made of those that the checkpoint has released.
    [&log, &p.join("log1")].into_iter().for_each(|log| wait_for_ready_segments(log));
    for (from, to) in [(&dir, ""), (&log, "0"), (&p.join("log1"), "1")] {
        copy(from, &p.join(&format!("crashed{to}")));
    }
    drop(t);
    db.close().unwrap();
    let streams = |names: [&str; 2]| names.map(|n| p.join(n).display().to_string());
    let (of_db, of_crashed) = (streams(["log", "log1"]), streams(["crashed0", "crashed1"]));
    let args = |s: &[String; 2]| ["--stream".to_owned(), s[0].clone(), "--stream".to_owned(), s[1].clone()];
    let both = [(dir.clone(), args(&of_db)), (crashed.clone(), args(&of_crashed))];
    for damage in [false, true] {
        for (dir, args) in &both {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            // As copied by somebody who left the locks out, too.
            for with_lock in [true, false] {
                if !with_lock {
                    std::fs::remove_file(dir.join("LOCK")).unwrap();
                    std::fs::remove_file(Path::new(args[1]).join("LOCK")).unwrap();
                }
                let before = p.picture();
                let codes = look(dir, &args);
                assert_eq!(p.picture(), before, "{}", dir.display());
                assert_eq!(codes[1], i32::from(damage), "{}", dir.display());
            }
            // A wrong word and a forgotten one change nothing either.
            let before = p.picture();
            assert!(look(dir, &[]).iter().all(|&c| c == 1));
            assert_eq!(p.picture(), before);
        }
        // Rot in the middle of the log, of every stream: which one has the frames is the matter of
        // the threads that wrote them.
        for log in of_db.iter().chain(&of_crashed) {
            for entry in std::fs::read_dir(log).unwrap() {
                let path = entry.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                if let Some(at) = bytes.windows(4).position(|w| w == b"MMFR") {
                    let (from, to) = (at, bytes.len().min(at + 12_000));
                    bytes[from..to].fill(0x55);
                    std::fs::write(&path, bytes).unwrap();
                }
            }
        }
        for (dir, args) in &both {
            std::fs::write(dir.join("LOCK"), "").unwrap();
            std::fs::write(Path::new(&args[1]).join("LOCK"), "").unwrap();
        }
    }
}

#[test]
fn looking_where_no_database_is_leaves_no_trace() {
    let p = Place::new("nothing");
    let dir = p.join("precious");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("letter"), "dear").unwrap();
    let before = p.picture();
    assert!(look(&dir, &[]).iter().all(|&c| c == 1));
    assert!(look(&p.join("nowhere"), &[]).iter().all(|&c| c == 1));
    assert!(OfflineDatabase::load(&dir, &Options::default()).is_err());
    assert!(mmdb::salvage(&dir, p.join("new"), &Options::default()).is_err());
    assert_eq!(p.picture(), before);
}

/// What is open elsewhere is still refused.
#[test]
fn looking_at_an_open_database_is_refused() {
    let p = Place::new("open");
    let db = Database::open(p.join("db"), Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    assert!(look(&p.join("db"), &[]).iter().all(|&c| c == 1));
    drop(db);
}
