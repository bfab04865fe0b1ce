//! Which directories belong to a database.
//!
//! What happened: a log directory had no identity. Opened once with `stream_dirs` forgotten: no
//! error, no rows; opened again as it should be: still none, because the first opening had dropped
//! the old life's salt. Database B opened with A's log directory: both lost everything, even while
//! A was running. A log directory deleted, or on a disk that was not mounted: no error, no rows.
//! Two streams in one directory: accepted, then unopenable. The mend: every stream directory says
//! whose it is, which stream it holds and which life used it last, and is locked; the manifest says
//! which segments must be there; whatever is missing, foreign, doubled, crossed or forgotten is
//! refused with its path and a reason, before anything is written.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium};
use mmdb::{ColumnType, Database, Durability, Error, Options, Schema, Standby, restore, salvage};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tree::{Place, copy, wait_for_ready_segments};

fn options(dirs: &[PathBuf]) -> Options {
    Options {
        streams: dirs.len().max(1),
        stream_dirs: dirs.to_vec(),
        segment_bytes: 64 << 10,
        ..Options::default()
    }
}

fn schema() -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("v", ColumnType::VarText(400))
        .primary_key(&["id"])
}

fn fill(db: &Database, from: i64, to: i64) {
    let t = db.table("t").or_else(|_| db.create_table(schema())).unwrap();
    (from..to).for_each(|i| db.run(|tx| tx.insert(&t, &[i.into(), "value".into()])).unwrap());
}

fn count(db: &Database) -> usize {
    db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count()
}

/// A closed database at `dir` with its log in `dirs`, and `rows` rows.
fn make(dir: &Path, dirs: &[PathBuf], rows: i64) {
    let db = Database::open(dir, options(dirs)).unwrap();
    fill(&db, 0, rows);
    db.close().unwrap();
}

/// Opening is refused, says where and why, and has touched nothing.
fn refused(place: &Place, dir: &Path, options: Options, words: &[&str]) {
    let before = place.picture();
    let e = Database::open(dir, options).unwrap_err().to_string();
    assert_eq!(place.picture(), before, "{e}");
    for w in words {
        assert!(e.contains(w), "{w:?} is not in: {e}");
    }
}

fn whole(dir: &Path, options: Options, rows: usize) {
    let db = Database::open(dir, options).unwrap();
    assert_eq!(count(&db), rows);
    db.verify().unwrap();
}

#[test]
fn forgotten_stream_dirs_are_refused_and_nothing_is_lost() {
    let p = Place::new("forgotten");
    let (dir, dirs) = (p.join("db"), [p.join("x"), p.join("y")]);
    make(&dir, &dirs, 50);
    refused(&p, &dir, options(&[]), &["log-0", "stream 0", "stream_dirs"]);
    refused(&p, &dir, Options { streams: 2, ..options(&[]) }, &["log-0", "stream 0"]);
    // One of two, as when `streams` and `stream_dirs` are forgotten in part.
    refused(&p, &dir, options(&dirs[..1]), &["log-1", "stream 1"]);
    whole(&dir, options(&dirs), 50);
}

#[test]
fn more_directories_than_streams_are_refused() {
    let p = Place::new("more");
    let (dir, dirs) = (p.join("db"), [p.join("x"), p.join("y"), p.join("z")]);
    make(&dir, &dirs[..2], 50);
    refused(&p, &dir, Options { streams: 2, ..options(&dirs) }, &["3 directories", "z"]);
    // A new database is not made by halves either.
    refused(&p, &p.join("new"), Options { streams: 1, ..options(&dirs) }, &["3 directories"]);
    // Asked for by both, it is a change of the number of streams, and back again; what is given up
    // can be used anew.
    whole(&dir, options(&dirs), 50);
    whole(&dir, Options { streams: 1, ..options(&dirs) }, 50);
    refused(&p, &dir, Options { streams: 1, ..options(&dirs) }, &["3 directories"]);
    whole(&dir, options(&dirs[..1]), 50);
    make(&p.join("other"), &dirs[1..], 5);
    whole(&dir, options(&dirs[..1]), 50);
}

#[test]
fn directories_in_another_order_are_refused() {
    let p = Place::new("order");
    let (dir, [x, y]) = (p.join("db"), [p.join("x"), p.join("y")]);
    make(&dir, &[x.clone(), y.clone()], 50);
    refused(&p, &dir, options(&[y.clone(), x.clone()]), &["stream 1", "stream 0", &y.display().to_string()]);
    whole(&dir, options(&[x, y]), 50);
}

#[test]
fn the_log_directory_of_another_database_is_refused_whether_that_is_open_or_not() {
    let p = Place::new("foreign");
    let (a, b, c, log_a, log_b) = (p.join("a"), p.join("b"), p.join("c"), p.join("log-a"), p.join("log-b"));
    let (of_a, of_b) = (options(std::slice::from_ref(&log_a)), options(std::slice::from_ref(&log_b)));
    let db = Database::open(&a, of_a.clone()).unwrap();
    fill(&db, 0, 30);
    let b_open = Database::open(&b, of_b.clone()).unwrap();
    fill(&b_open, 0, 20);
    b_open.close().unwrap();
    for _ in 0..2 {
        let e = Database::open(&b, of_a.clone()).unwrap_err().to_string();
        assert!(e.contains("another database") || e.contains("in use"), "{e}");
        let e = Database::open(&c, of_a.clone()).unwrap_err().to_string();
        assert!(e.contains("log-a"), "{e}");
        assert!(!c.exists(), "nothing is made");
    }
    fill(&db, 30, 40);
    db.close().unwrap();
    refused(&p, &b, of_a.clone(), &["log-a", "another database"]);
    refused(&p, &c, of_a.clone(), &["log-a", "another database"]);
    whole(&a, of_a, 40);
    whole(&b, of_b, 20);
}

/// A database that was only made has no segment that could tell.
#[test]
fn the_log_directory_of_another_database_is_refused_though_nothing_was_ever_written_there() {
    let p = Place::new("young");
    let (a, b, log) = (p.join("a"), p.join("b"), options(&[p.join("log")]));
    drop(Database::open(&a, Options { background: false, ..log.clone() }).unwrap());
    refused(&p, &b, log.clone(), &["another database"]);
    make(&a, &log.stream_dirs, 7);
    whole(&a, log, 7);
}

#[test]
fn a_log_directory_that_is_gone_or_empty_is_refused_after_a_closing_and_after_a_crash() {
    let p = Place::new("gone");
    let logs = |n: &str| p.join(n);
    let (dir, log) = (p.join("db"), logs("log"));
    let db = Database::open(&dir, options(std::slice::from_ref(&log))).unwrap();
    fill(&db, 0, 50);
    copy(&dir, &p.join("crashed"));
    copy(&log, &p.join("crashed-log"));
    db.close().unwrap();
    for (dir, log) in [(dir, log), (p.join("crashed"), logs("crashed-log"))] {
        let (away, o) = (p.join("away"), options(std::slice::from_ref(&log)));
        std::fs::rename(&log, &away).unwrap();
        refused(&p, &dir, o.clone(), &[&log.display().to_string(), "mounted"]);
        assert!(!log.exists());
        std::fs::create_dir(&log).unwrap();
        refused(&p, &dir, o.clone(), &[&log.display().to_string(), "mounted"]);
        std::fs::remove_dir(&log).unwrap();
        std::fs::rename(&away, &log).unwrap();
        whole(&dir, o, 50);
    }
}

#[test]
fn two_streams_in_one_directory_are_refused_however_it_is_named() {
    let p = Place::new("doubled");
    let (dir, x) = (p.join("db"), p.join("x"));
    std::fs::create_dir_all(p.join("sub")).unwrap();
    refused(&p, &dir, options(&[x.clone(), x.clone()]), &["streams 0 and 1"]);
    refused(&p, &dir, options(&[x.clone(), p.join("sub/../x")]), &["streams 0 and 1"]);
    refused(&p, &dir, options(&[dir.join("log-1"), dir.join("./log-1")]), &["streams 0 and 1"]);
    // The default of one is what is given for the other.
    let crossed = Options { streams: 2, ..options(&[dir.join("log-1")]) };
    refused(&p, &dir, crossed, &["streams 0 and 1"]);
    std::fs::create_dir(&x).unwrap();
    std::os::unix::fs::symlink(&x, p.join("link")).unwrap();
    refused(&p, &dir, options(&[x.clone(), p.join("link")]), &["streams 0 and 1"]);
    assert!(!dir.exists());
}

#[test]
fn a_log_directory_that_is_the_database_or_one_of_its_files_is_refused() {
    let p = Place::new("same");
    let dir = p.join("db");
    refused(&p, &dir, options(std::slice::from_ref(&dir)), &["directory of the database itself"]);
    for name in ["MANIFEST", "images-a", "LOCK"] {
        refused(&p, &dir, options(&[dir.join(name)]), &[name]);
    }
    // Inside, under another name, is where logs are by default.
    make(&dir, &[dir.join("log")], 5);
    whole(&dir, options(&[dir.join("log")]), 5);
}

#[test]
fn a_second_opening_is_refused_under_every_name_of_the_directory() {
    let p = Place::new("twice");
    let (dir, log) = (p.join("db"), p.join("log"));
    let o = options(std::slice::from_ref(&log));
    let db = Database::open(&dir, o.clone()).unwrap();
    std::os::unix::fs::symlink(&dir, p.join("link")).unwrap();
    for name in [dir.clone(), p.join("link"), p.join("link/../db")] {
        let e = Database::open(name, o.clone()).unwrap_err();
        assert!(
            matches!(&e, Error::Io { op: "lock", source, .. } if source.kind() == std::io::ErrorKind::WouldBlock),
            "{e}"
        );
    }
    // A copy of the base directory has a lock of its own; the log's keeps it out.
    copy(&dir, &p.join("copy"));
    let e = Database::open(p.join("copy"), o.clone()).unwrap_err();
    assert!(matches!(&e, Error::Io { op: "lock", file, .. } if file.starts_with(&log)), "{e}");
    fill(&db, 0, 5);
    db.close().unwrap();
    whole(&dir, o, 5);
}

/// The base directory is copied and its log is not: whichever opens first goes on, the other one is
/// told, and nothing is lost.
#[test]
fn a_copy_of_the_base_directory_does_not_take_the_log_from_the_original() {
    for lives in 1..4 {
        let p = Place::new("base");
        let (dir, old, log) = (p.join("db"), p.join("old"), p.join("log"));
        let o = options(std::slice::from_ref(&log));
        make(&dir, std::slice::from_ref(&log), 10);
        copy(&dir, &old);
        for life in 0..lives {
            let db = Database::open(&dir, o.clone()).unwrap();
            fill(&db, 10 + life, 11 + life);
            db.close().unwrap();
        }
        refused(&p, &old, o.clone(), &["log", "later", "older copy"]);
        whole(&dir, o, 10 + lives as usize);
    }
    // The copy opens first: it goes on as if the directory had been moved, and the original is the
    // one that is told.
    let p = Place::new("base");
    let (dir, old, log) = (p.join("db"), p.join("old"), p.join("log"));
    let o = options(std::slice::from_ref(&log));
    make(&dir, std::slice::from_ref(&log), 10);
    copy(&dir, &old);
    let db = Database::open(&old, o.clone()).unwrap();
    fill(&db, 10, 13);
    db.close().unwrap();
    refused(&p, &dir, o.clone(), &["log", "later", "older copy"]);
    whole(&old, o, 13);
}

/// All directories are copied: two databases from then on, of one identity. Their logs are told
/// apart by their lives.
#[test]
fn copies_of_everything_go_on_separately_and_cannot_be_crossed() {
    let p = Place::new("copies");
    let (of_a, of_b) = (options(&[p.join("log-a")]), options(&[p.join("log-b")]));
    make(&p.join("a"), &of_a.stream_dirs, 10);
    copy(&p.join("a"), &p.join("b"));
    copy(&p.join("log-a"), &p.join("log-b"));
    for (dir, o, rows) in [("a", &of_a, 12), ("b", &of_b, 15)] {
        let db = Database::open(p.join(dir), o.clone()).unwrap();
        fill(&db, 10, rows);
        db.close().unwrap();
    }
    refused(&p, &p.join("a"), of_b.clone(), &["log-b", "another one"]);
    refused(&p, &p.join("b"), of_a.clone(), &["log-a", "another one"]);
    whole(&p.join("a"), of_a, 12);
    whole(&p.join("b"), of_b, 15);
}

/// Only the names of files move: the whole database, its log, or both.
#[test]
fn directories_may_be_moved() {
    let p = Place::new("moved");
    let (dir, dirs) = (p.join("db"), [p.join("x"), p.join("y")]);
    make(&dir, &dirs, 10);
    std::fs::rename(&dirs[1], p.join("elsewhere")).unwrap();
    refused(&p, &dir, options(&dirs), &["stream 1"]);
    let moved = [dirs[0].clone(), p.join("elsewhere")];
    whole(&dir, options(&moved), 10);
    std::fs::rename(&dir, p.join("other")).unwrap();
    whole(&p.join("other"), options(&moved), 10);
}

#[test]
fn a_segment_that_the_manifest_names_must_be_there_and_so_must_those_between() {
    let p = Place::new("segments");
    let (dir, crashed) = (p.join("db"), p.join("crashed"));
    let o = Options { segment_bytes: 16 << 10, ..options(&[]) };
    let db = Database::open(&dir, o.clone()).unwrap();
    fill(&db, 0, 20);
    // Or two could be made behind the manifest's copy.
    wait_for_ready_segments(&dir.join("log-0"));
    copy(&dir, &crashed);
    db.close().unwrap();
    let names = |dir: &Path| {
        let mut all: Vec<_> =
            std::fs::read_dir(dir.join("log-0")).unwrap().map(|e| e.unwrap().path()).collect();
        all.retain(|p| p.to_str().unwrap().contains("segment-"));
        all.sort();
        all
    };
    for dir in [dir, crashed] {
        let segments = names(&dir);
        assert!(segments.len() > 6);
        for (i, path) in segments.iter().enumerate() {
            if i + 1 == segments.len() {
                // The last one was only prepared, maybe after the manifest: its absence is not
                // seen, and costs nothing.
                continue;
            }
            let bytes = std::fs::read(path).unwrap();
            std::fs::remove_file(path).unwrap();
            refused(&p, &dir, o.clone(), &[path.file_name().unwrap().to_str().unwrap(), "missing"]);
            std::fs::write(path, bytes).unwrap();
        }
        whole(&dir, o.clone(), 20);
    }
}

/// What happened: a crash can take the names of the LOCK files with it and damage the log. The
/// opening refused, as it must, but had made the LOCK files anew before it knew.
#[test]
fn a_refused_opening_does_not_even_make_the_lock_files_that_a_crash_has_taken() {
    let p = Place::new("locks-gone");
    let dir = p.join("db");
    make(&dir, &[], 50);
    let locks = [dir.join("LOCK"), dir.join("log-0/LOCK")];
    locks.iter().for_each(|lock| std::fs::remove_file(lock).unwrap());
    let segment = std::fs::read_dir(dir.join("log-0"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("segment-")))
        .max_by_key(|path| std::fs::read(path).unwrap().iter().rposition(|&b| b != 0))
        .unwrap();
    let good = std::fs::read(&segment).unwrap();
    let mut bad = good.clone();
    let last = good.iter().rposition(|&b| b != 0).unwrap();
    bad[last] ^= 1;
    std::fs::write(&segment, bad).unwrap();
    refused(&p, &dir, options(&[]), &["were acknowledged"]);
    assert!(!locks.iter().any(|lock| lock.exists()));
    std::fs::write(&segment, good).unwrap();
    whole(&dir, options(&[]), 50);
    assert!(locks.iter().all(|lock| lock.exists()));
}

#[test]
fn files_that_are_not_ours_are_never_taken_over() {
    let p = Place::new("precious");
    let (dir, log) = (p.join("db"), p.join("log"));
    let o = options(std::slice::from_ref(&log));
    std::fs::create_dir_all(&log).unwrap();
    for name in ["STREAM", "segment-0000000001"] {
        std::fs::write(log.join(name), "my own").unwrap();
        refused(&p, &dir, o.clone(), &[name]);
        std::fs::remove_file(log.join(name)).unwrap();
    }
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["MANIFEST", "images-a", "images-b"] {
        std::fs::write(dir.join(name), "my own").unwrap();
        refused(&p, &dir, o.clone(), &[name]);
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    std::fs::write(p.join("file"), "my own").unwrap();
    refused(&p, &dir, options(&[p.join("file")]), &["file"]);
    // Other files in the way of nothing stay as they are.
    std::fs::write(log.join("notes"), "my own").unwrap();
    make(&dir, std::slice::from_ref(&log), 3);
    assert_eq!(std::fs::read_to_string(log.join("notes")).unwrap(), "my own");
}

/// A database was made among the log of another one, and a log beside the manifest of another one:
/// whoever removed the other one's directory removed both.
#[test]
fn a_database_and_the_log_of_another_one_share_no_directory() {
    let p = Place::new("shared");
    let (dir, log, other) = (p.join("db"), p.join("log"), p.join("other"));
    let o = options(std::slice::from_ref(&log));
    make(&dir, std::slice::from_ref(&log), 5);
    refused(&p, &log, options(&[]), &["log", "STREAM", "another directory"]);
    let beside = options(std::slice::from_ref(&dir));
    refused(&p, &other, beside, &["MANIFEST", "stream 0", "empty directory"]);
    make(&other, &[], 3);
    refused(&p, &other, options(&[other.join("log-0"), dir.clone()]), &["MANIFEST", "stream 1"]);
    whole(&dir, o, 5);
    whole(&other, options(&[]), 3);
}

/// The directory is taken away and another database is made in its place while the old handle still
/// lives: neither its closing nor its threads may write over the new one.
#[test]
fn a_handle_on_a_directory_that_was_replaced_does_not_overwrite_the_new_one() {
    let p = Place::new("replaced");
    let (dir, o) = (p.join("db"), options(&[]));
    let old = Database::open(&dir, o.clone()).unwrap();
    fill(&old, 0, 5);
    wait_for_ready_segments(&dir.join("log-0"));
    std::fs::rename(&dir, p.join("away")).unwrap();
    make(&dir, &[], 9);
    let before = std::fs::read(dir.join("MANIFEST")).unwrap();
    let schema = Schema::new("u").column("id", ColumnType::Int64).primary_key(&["id"]);
    let refused = old.create_table(schema).map(drop);
    // Or the preparer of segments has met the gap before.
    let is_refused = matches!(refused, Err(Error::Directory { .. } | Error::Poisoned { .. }));
    assert!(is_refused, "{refused:?}");
    assert!(old.checkpoint().is_err() && old.stats().poisoned);
    drop(old);
    assert_eq!(std::fs::read(dir.join("MANIFEST")).unwrap(), before);
    whole(&dir, o.clone(), 9);
    whole(&p.join("away"), o, 5);
}

/// Commits were acknowledged for ten seconds, or without end where MANIFEST was left, into files
/// that had no name any more, and were lost with the process.
#[test]
fn nothing_is_acknowledged_once_the_log_has_been_deleted() {
    let everything = |dir: &Path| std::fs::remove_dir_all(dir).unwrap();
    let log = |dir: &Path| std::fs::remove_dir_all(dir.join("log-0")).unwrap();
    let segments = |dir: &Path| {
        for entry in std::fs::read_dir(dir.join("log-0")).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().contains("segment-") {
                std::fs::remove_file(path).unwrap();
            }
        }
    };
    let deletions: [&dyn Fn(&Path); 3] = [&everything, &log, &segments];
    for (delete, background) in deletions.into_iter().flat_map(|delete| [(delete, true), (delete, false)]) {
        let p = Place::new("deleted");
        let dir = p.join("db");
        let db = Database::open(&dir, Options { background, ..options(&[]) }).unwrap();
        fill(&db, 0, 5);
        if background {
            // A file that is made while its directory is deleted keeps that, and a manifest that is
            // being stored meanwhile fails in words of its own.
            wait_for_ready_segments(&dir.join("log-0"));
        }
        delete(&dir);
        let t = db.table("t").unwrap();
        let put = |id: i64| {
            db.begin()
                .and_then(|mut tx| tx.upsert(&t, &[id.into(), "value".into()]).and_then(|_| tx.commit()))
        };
        let waited = put(6).and_then(|ticket| ticket.wait());
        // Or a thread of the database has met the gap before: the one that makes segments, where
        // it states them.
        let (Err(Error::Indeterminate { cause, .. }) | Err(Error::Poisoned { cause })) = &waited else {
            panic!("{waited:?}");
        };
        let words = ["was deleted", "replaced or emptied", "MANIFEST: No such file or directory"];
        assert!(words.iter().any(|words| cause.contains(words)), "{cause}");
        assert!(matches!(put(7).map(drop), Err(Error::Poisoned { .. })));
    }
}

/// Operations that state or flush something returned an error of the directory, though the page of
/// errors did not have it for them.
#[test]
fn who_states_or_flushes_in_a_directory_that_is_gone_hears_of_the_directory() {
    let p = Place::new("gone");
    let open = |name: &str| {
        let db = Database::open(p.join(name), Options { background: false, ..options(&[]) }).unwrap();
        fill(&db, 0, 5);
        db
    };
    let told = |done: mmdb::Result<()>| assert!(matches!(done, Err(Error::Directory { .. })), "{done:?}");
    let db = open("flushed");
    let t = db.table("t").unwrap();
    db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[9.into(), "lazy".into()])).unwrap().1.wait().unwrap();
    std::fs::remove_dir_all(p.join("flushed")).unwrap();
    told(db.flush());
    let db = open("deposed");
    for name in ["fenced", "promoted"] {
        db.backup_for_standby(p.join(name)).unwrap();
        let standby = Standby::open(p.join(name), Options { background: false, ..options(&[]) }).unwrap();
        std::fs::remove_dir_all(p.join(name)).unwrap();
        told(if name == "fenced" { standby.fence(2).map(drop) } else { standby.promote(2).map(drop) });
    }
    std::fs::remove_dir_all(p.join("deposed")).unwrap();
    told(db.depose(2));
}

/// What is written goes along, until a manifest is due and is not found.
#[test]
fn a_log_that_is_moved_while_it_is_open_has_what_was_acknowledged() {
    let p = Place::new("moved");
    let (dir, o) = (p.join("db"), options(&[]));
    let db = Database::open(&dir, o.clone()).unwrap();
    fill(&db, 0, 5);
    std::fs::rename(&dir, p.join("away")).unwrap();
    let t = db.table("t").unwrap();
    let put = |id: i64| db.run(|tx| tx.insert(&t, &[id.into(), "value".into()]));
    let acknowledged = 5 + (5..9).take_while(|&id| put(id).is_ok()).count();
    drop(db);
    let found = count(&Database::open(p.join("away"), o).unwrap());
    assert!(found >= acknowledged, "{found} of {acknowledged}");
}

#[test]
fn a_manifest_of_another_format_is_refused_by_its_number() {
    let p = Place::new("format");
    let dir = p.join("db");
    make(&dir, &[], 3);
    let path = dir.join("MANIFEST");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    let n = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..n]).to_le_bytes();
    bytes[n..].copy_from_slice(&crc);
    std::fs::write(&path, bytes).unwrap();
    refused(&p, &dir, options(&[]), &["MANIFEST", "format 1", "format 2", "dump"]);
}

/// Backups and restored copies are databases of their own, and go on beside the original; their
/// logs cannot be crossed.
#[test]
fn a_backup_and_what_is_restored_from_it_have_identities_of_their_own() {
    let p = Place::new("backup");
    let (dir, dirs) = (p.join("db"), [p.join("x"), p.join("y")]);
    let db = Database::open(&dir, options(&dirs)).unwrap();
    fill(&db, 0, 10);
    db.backup(p.join("backup")).unwrap();
    fill(&db, 10, 20);
    let inside = Options { streams: 2, ..options(&[]) };
    restore(p.join("backup"), p.join("restored"), &inside).unwrap();
    whole(&p.join("backup"), inside.clone(), 10);
    let copy = Database::open(p.join("restored"), inside.clone()).unwrap();
    fill(&copy, 100, 105);
    copy.close().unwrap();
    db.close().unwrap();
    refused(&p, &p.join("backup"), options(&dirs), &["another database"]);
    refused(
        &p,
        &p.join("restored"),
        options(&[p.join("backup/log-0"), p.join("backup/log-1")]),
        &["another database"],
    );
    whole(&dir, options(&dirs), 20);
    whole(&p.join("restored"), inside.clone(), 15);
    // A database whose log lies elsewhere is not copied without it, and a directory in use is not
    // copied into.
    let before = p.picture();
    let e = restore(&dir, p.join("lost"), &inside).unwrap_err().to_string();
    assert!(e.contains("stream 0"), "{e}");
    let e = restore(p.join("restored"), p.join("new"), &options(&dirs)).unwrap_err().to_string();
    assert!(e.contains("must be empty"), "{e}");
    assert_eq!(p.picture(), before);
}

/// What happened: a backup to `images-b` in the database's own directory was made, and that
/// database could not be opened afterwards; with `MANIFEST.tmp` the next commit was
/// `Indeterminate`.
#[test]
fn no_copy_takes_the_name_of_a_file_of_a_database() {
    let p = Place::new("reserved");
    let (dir, log) = (p.join("db"), p.join("log"));
    let given = options(std::slice::from_ref(&log));
    make(&dir, std::slice::from_ref(&log), 5);
    let db = Database::open(&dir, given.clone()).unwrap();
    for name in ["images-a", "images-b", "images-b.tmp", "MANIFEST.tmp", "LOCK.tmp"] {
        let e = db.backup(dir.join(name)).unwrap_err().to_string();
        assert!(e.contains(name) && e.contains("choose another place"), "{e}");
    }
    for name in ["STREAM.tmp", "segment-0000000077", "../db/images-b"] {
        assert!(db.backup(log.join(name)).is_err(), "{name}");
        assert!(Database::open(log.join(name), Options::default()).is_err(), "{name}");
    }
    // Elsewhere they are names like any other.
    db.backup(p.join("images-b")).unwrap();
    db.backup(dir.join("copy")).unwrap();
    fill(&db, 5, 7);
    drop(db);
    whole(&dir, given, 7);
    whole(&p.join("images-b"), Options::default(), 5);
}

#[test]
fn what_salvage_saves_is_a_database_of_its_own_and_missing_directories_are_named() {
    let p = Place::new("salvage");
    let (dir, dirs) = (p.join("db"), [p.join("x"), p.join("y")]);
    let db = Database::open(&dir, options(&dirs)).unwrap();
    fill(&db, 0, 10);
    db.checkpoint().unwrap();
    fill(&db, 10, 20);
    db.close().unwrap();
    std::fs::remove_dir_all(&dirs[1]).unwrap();
    let before = p.picture();
    let saved = salvage(&dir, p.join("saved"), &options(&dirs)).unwrap();
    assert!(
        saved.rows >= 10 && saved.problems.iter().any(|problem| problem.contains("stream 1")),
        "{saved:?}"
    );
    let mut after = p.picture();
    after.retain(|path, _| before.contains_key(path) && *path != p.join(""));
    assert!(after.iter().all(|(path, content)| before[path] == *content), "the damaged one is not touched");
    refused(&p, &p.join("saved"), options(&dirs[..1]), &["another database"]);
    for _ in 0..2 {
        whole(&p.join("saved"), Options { streams: 3, ..options(&[]) }, saved.rows as usize);
    }
}

/// Creating is cut off at every call, by a kill or a power cut: it can be done again, with as many
/// streams or with others, and once it is done it stays done.
#[test]
fn a_creation_that_was_cut_off_anywhere_is_done_again() {
    let (mut cut_off, mut done) = (0, 0);
    for n in 0..240u64 {
        let m = CrashMedium::new(n);
        let o = |streams| Options {
            medium: Arc::new(m.clone()),
            background: false,
            segment_bytes: 32 << 10,
            streams,
            ..Options::in_memory()
        };
        for again in 0..1 + n % 3 {
            m.set_faults(Faults { crash_at: Some(m.calls() + 1 + n / 6 + again), ..Faults::default() });
            match Database::open("/db", o(2)) {
                Ok(db) => drop(db),
                Err(e) => {
                    cut_off += 1;
                    assert!(m.is_dead(), "{n}: {e}");
                }
            }
            m.crash(if n % 2 == 0 { CrashKind::Kill } else { CrashKind::Power });
        }
        let db =
            Database::open("/db", o(if n % 5 == 0 { 3 } else { 2 })).unwrap_or_else(|e| panic!("{n}: {e}"));
        fill(&db, 0, 3);
        done += 1;
        drop(db);
        m.crash(CrashKind::Power);
        let db = Database::open("/db", o(2)).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert_eq!(count(&db), 3);
    }
    assert!(cut_off > 60 && done == 240, "{cut_off}");
}

/// Any later opening, cut off at any call any number of times, with streams coming and going, is
/// done again.
#[test]
fn an_opening_that_was_cut_off_again_and_again_is_done_again() {
    let mut cut_off = 0;
    for n in 0..300u64 {
        let m = CrashMedium::new(n);
        let o = |streams| Options {
            medium: Arc::new(m.clone()),
            background: false,
            segment_bytes: 32 << 10,
            container_bytes: 4096,
            streams,
            ..Options::in_memory()
        };
        let db = Database::open("/db", o(2)).unwrap();
        fill(&db, 0, 10);
        drop(db);
        let streams = |turn: u64| if n % 2 == 0 { 2 } else { 1 + (n + turn) as usize % 3 };
        for turn in 0..4 {
            m.set_faults(Faults { crash_at: Some(m.calls() + 1 + (n + turn * 7) % 50), ..Faults::default() });
            cut_off += u32::from(Database::open("/db", o(streams(turn))).is_err());
            m.crash(if (n + turn) % 3 == 0 { CrashKind::Kill } else { CrashKind::Power });
        }
        let db = Database::open("/db", o(streams(9))).unwrap_or_else(|e| panic!("{n}: {e}"));
        assert_eq!(count(&db), 10, "{n}");
        db.verify().unwrap();
        fill(&db, 10, 12);
        drop(db);
        assert_eq!(count(&Database::open("/db", o(2)).unwrap_or_else(|e| panic!("{n}: {e}"))), 12);
    }
    assert!(cut_off > 500, "{cut_off}");
}

#[test]
fn a_stream_directory_that_was_exchanged_for_an_older_copy_of_itself_is_refused() {
    let p = Place::new("older");
    let (dir, log) = (p.join("db"), p.join("log"));
    let o = options(std::slice::from_ref(&log));
    make(&dir, std::slice::from_ref(&log), 10);
    copy(&log, &p.join("before"));
    for life in 0..3 {
        let db = Database::open(&dir, o.clone()).unwrap();
        fill(&db, 10 + life, 11 + life);
        db.close().unwrap();
    }
    refused(&p, &dir, options(&[p.join("before")]), &["before"]);
    whole(&dir, o.clone(), 13);
    // The copy is of the very life before, and the database crashed: no manifest states the commits
    // that the copy lacks.
    let (younger, crashed) = (p.join("younger"), p.join("crashed"));
    copy(&log, &younger);
    let db = Database::open(&dir, o.clone()).unwrap();
    fill(&db, 13, 20);
    copy(&dir, &crashed);
    copy(&log, &p.join("crashed-log"));
    drop(db);
    refused(&p, &crashed, options(&[younger]), &["younger", "older copy"]);
    whole(&crashed, options(&[p.join("crashed-log")]), 20);
}

/// Where the crash medium keeps names, nothing but the files of the design appears.
#[test]
fn a_database_has_the_files_that_the_design_names() {
    let m = CrashMedium::new(1);
    let o = Options { medium: Arc::new(m.clone()), background: false, ..Options::in_memory() };
    let db = Database::open("/db", o).unwrap();
    fill(&db, 0, 1);
    db.checkpoint().unwrap();
    drop(db);
    assert_eq!(m.list(Path::new("/db")).unwrap(), ["MANIFEST", "images-a"]);
    assert_eq!(m.list(Path::new("/db/log-0")).unwrap(), ["STREAM", "segment-0000000001"]);
}
