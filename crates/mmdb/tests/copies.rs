//! Copies that are not copies, and locks that are not there any more.
//!
//! What happened: `cp -al DB COPY` (as rsync's `--link-dest` and many snapshot tools do) makes
//! other names of the same files. Segments and images are written in place, so using either
//! destroyed the other, without an error. Whoever removed `LOCK`, as one does with stale locks, let
//! a second process in beside the first one. And a segment that was moved to another disk, with a
//! symbolic link in its place, was "missing"; behind the last manifest it was not even missed. The
//! mend: what is written in place has one name or is refused, with the reason and what to do; the
//! directories themselves are locked as well; a link is called a link. Who only reads may read
//! files with many names.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Error, OfflineDatabase, Options, Schema, restore, salvage};
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::{Place, copy, wait_for_ready_segments};

fn options(dirs: &[PathBuf]) -> Options {
    Options { streams: 2, stream_dirs: dirs.to_vec(), segment_bytes: 64 << 10, ..Options::default() }
}

fn schema() -> Schema {
    Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])
}

fn put(db: &Database, ids: std::ops::Range<i64>) {
    let t = db.table("t").or_else(|_| db.create_table(schema())).unwrap();
    ids.for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap());
}

fn count(db: &Database) -> usize {
    db.begin().unwrap().scan(&db.table("t").unwrap()).unwrap().count()
}

/// A closed database with images of both sides and a log behind them: 150 rows.
fn make(dir: &Path, dirs: &[PathBuf]) {
    let db = Database::open(dir, options(dirs)).unwrap();
    put(&db, 0..100);
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    put(&db, 100..150);
    db.close().unwrap();
}

/// As `cp -al` does.
fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let there = to.join(path.file_name().unwrap());
        if path.is_dir() { link(&path, &there) } else { std::fs::hard_link(&path, &there).unwrap() }
    }
}

/// Opening is refused in these words.
fn refused_open(dir: &Path, options: Options, words: &[&str]) {
    let e = Database::open(dir, options).unwrap_err().to_string();
    words.iter().for_each(|w| assert!(e.contains(w), "{w:?} is not in: {e}"));
}

/// The same, and it has touched nothing. Nobody else may have anything there open.
fn refused(place: &Place, dir: &Path, options: Options, words: &[&str]) {
    let before = place.picture();
    refused_open(dir, options, words);
    assert!(place.picture() == before, "opening {} was refused and changed something", dir.display());
}

const HARD: [&str; 3] = ["hard links", "cp -al", "`cp -a`"];

#[test]
fn copies_of_hard_links_are_refused_until_they_are_copies() {
    let p = Place::new("hard");
    let (dir, twin, real) = (p.join("db"), p.join("twin"), p.join("real"));
    make(&dir, &[]);
    link(&dir, &twin);
    for path in [&dir, &twin] {
        refused(&p, path, options(&[]), &HARD);
        // Reading harms nobody.
        OfflineDatabase::load(path, &options(&[])).unwrap().check().unwrap();
    }
    restore(&twin, p.join("restored"), &options(&[])).unwrap();
    assert_eq!(count(&Database::open(p.join("restored"), options(&[])).unwrap()), 150);
    // What the message advises.
    copy(&twin, &real);
    let db = Database::open(&real, options(&[])).unwrap();
    put(&db, 150..160);
    db.checkpoint().unwrap();
    assert_eq!(count(&db), 160);
    drop(db);
    std::fs::remove_dir_all(&twin).unwrap();
    assert_eq!(count(&Database::open(&dir, options(&[])).unwrap()), 150, "its only name again");
}

/// Each kind of file that is written in place is enough, wherever it lies.
#[test]
fn one_file_with_another_name_is_enough() {
    let p = Place::new("one");
    let (dir, dirs) = (p.join("db"), [p.join("a"), p.join("b")]);
    make(&dir, &dirs);
    let segment = |dir: &Path| {
        let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        names.filter(|n| n.display().to_string().contains("segment-")).max().unwrap()
    };
    let other = p.join("other name");
    for file in [dir.join("images-a"), dir.join("images-b"), segment(&dirs[0]), segment(&dirs[1])] {
        std::fs::hard_link(&file, &other).unwrap();
        refused(&p, &dir, options(&dirs), &[HARD[0], HARD[2], file.to_str().unwrap()]);
        std::fs::remove_file(&other).unwrap();
    }
    // What is replaced whole may have other names: they keep what they had.
    for file in [dir.join("MANIFEST"), dirs[0].join("STREAM")] {
        std::fs::hard_link(&file, &other).unwrap();
        let kept = std::fs::read(&other).unwrap();
        assert_eq!(count(&Database::open(&dir, options(&dirs)).unwrap()), 150);
        assert_eq!(std::fs::read(&other).unwrap(), kept, "{}", file.display());
        std::fs::remove_file(&other).unwrap();
    }
}

#[test]
fn a_copy_of_hard_links_of_an_open_database_is_refused() {
    let p = Place::new("twin");
    let (dir, twin) = (p.join("db"), p.join("twin"));
    make(&dir, &[]);
    let db = Database::open(&dir, options(&[])).unwrap();
    link(&dir, &twin);
    // Its LOCK is the other one's, too.
    refused_open(&twin, options(&[]), &HARD);
    std::fs::remove_file(twin.join("LOCK")).unwrap();
    refused_open(&twin, options(&[]), &HARD);
    drop(db);
}

#[test]
fn a_lock_file_that_is_removed_lets_nobody_in() {
    let p = Place::new("unlocked");
    let (dir, dirs) = (p.join("db"), [p.join("a"), p.join("b")]);
    make(&dir, &dirs);
    let db = Database::open(&dir, options(&dirs)).unwrap();
    let all = [&dir, &dirs[0], &dirs[1]];
    all.iter().for_each(|d| std::fs::remove_file(d.join("LOCK")).unwrap());
    refused_open(&dir, options(&dirs), &["in use"]);
    // By another database's name for one of its directories, too.
    let e =
        Database::open(p.join("other"), options(&[p.join("c"), dirs[1].clone()])).unwrap_err().to_string();
    assert!(e.contains("in use"), "{e}");
    // And to another process.
    let check = || {
        let mut c = Command::new(env!("CARGO_BIN_EXE_mmdb"));
        c.arg("check").arg(&dir);
        for d in &dirs {
            c.arg("--stream").arg(d);
        }
        c.output().unwrap()
    };
    let said = check();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("in use"), "{said:?}");
    put(&db, 150..160);
    db.close().unwrap();
    assert_eq!(check().status.code(), Some(0), "it was closed");
    let db = Database::open(&dir, options(&dirs)).unwrap();
    assert_eq!(count(&db), 160);
    all.iter().for_each(|d| assert!(d.join("LOCK").exists(), "made again"));
}

#[test]
fn a_segment_that_is_a_link_is_called_a_link() {
    let p = Place::new("soft");
    let (dir, dirs, crashed) = (p.join("db"), [p.join("a"), p.join("b")], p.join("crashed"));
    make(&dir, &dirs);
    // Behind what the manifest names: a power cut after one more segment was begun.
    let db = Database::open(&dir, options(&dirs)).unwrap();
    let mut made = 0;
    while made < 3 {
        put(&db, 1000 + made * 1000..1000 + made * 1000 + 400);
        made += 1;
    }
    let later = [p.join("crashed-a"), p.join("crashed-b")];
    // They are made of those of the life before.
    dirs.iter().for_each(|log| wait_for_ready_segments(log));
    copy(&dir, &crashed);
    dirs.iter().zip(&later).for_each(|(from, to)| copy(from, to));
    drop(db);
    for (dir, dirs) in [(&dir, &dirs), (&crashed, &later)] {
        let names = std::fs::read_dir(&dirs[0]).unwrap().map(|e| e.unwrap().path());
        let mut segments: Vec<PathBuf> =
            names.filter(|n| n.display().to_string().contains("segment-")).collect();
        segments.sort();
        for file in [segments.first().unwrap(), segments.last().unwrap()] {
            let away = p.join("away");
            std::fs::rename(file, &away).unwrap();
            std::os::unix::fs::symlink(&away, file).unwrap();
            let words = ["symbolic link", "stream_dirs", file.to_str().unwrap()];
            refused(&p, dir, options(dirs), &words);
            assert!(matches!(Database::open(dir, options(dirs)), Err(Error::File { .. })));
            let e = OfflineDatabase::load(dir, &options(dirs)).unwrap_err().to_string();
            assert!(e.contains("symbolic link"), "{e}");
            // It leads to whole data: salvage reads it, and says so.
            let new = p.join("saved");
            let saved = salvage(dir, &new, &options(dirs)).unwrap();
            assert!(saved.problems.iter().any(|p| p.contains("symbolic link")), "{saved:?}");
            assert!(saved.rows >= 150 + 1200, "{saved:?}");
            std::fs::remove_dir_all(&new).unwrap();
            // Leading nowhere it is a link still.
            std::fs::rename(&away, p.join("gone")).unwrap();
            refused(&p, dir, options(dirs), &words);
            std::fs::rename(p.join("gone"), &away).unwrap();
            std::fs::remove_file(file).unwrap();
            // A directory in its place is no file.
            std::fs::create_dir(file).unwrap();
            if segments.first() == Some(file) {
                refused(&p, dir, options(dirs), &["is no file"]);
            }
            std::fs::remove_dir(file).unwrap();
            std::fs::rename(&away, file).unwrap();
        }
        assert_eq!(count(&Database::open(dir, options(dirs)).unwrap()), 150 + 1200);
    }
}
