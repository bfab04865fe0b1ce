//! Programs of several threads: captured, replayed, and compared with what the program itself has
//! made.
//!
//! `tests/threads/app.c` asks SQLite for things at random, from a seed; what it writes depends on
//! what it reads. A replay checks the rows of every execution, and here the content hash of every
//! database must be that of the program's own. Before the order of locks was captured, 8 of 12
//! programs with 8 threads in WAL mode failed to replay, and 3 of 5 with 2 threads in DELETE mode:
//! a call was taken to have read what there was when it returned, and readers kept their locks
//! while they waited for calls that waited for these locks.
//!
//! `FATHOM_THREAD_PROGRAMS=100 cargo test -p fathom --test trace_threads` runs so many programs in
//! each journal mode; `./test --long` does. `FATHOM_THREAD_SEED` is the first seed (1). A failing
//! program leaves its trace, which the message names.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_trace::content::content_hash;
use place::Place;

/// What a trace that cannot be done again says first.
const NOT_AGAIN: &str = "the trace cannot be done again";

/// Number from the environment.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// The program, built with the system's shared SQLite, and that library; none, with the reason
/// printed, where there is no such library.
///
/// Replays take the same library: what a statement reads that is open while its own connection
/// changes the table depends on SQLite's version (1 program in 60 shows it).
fn program(place: &Place) -> Option<(PathBuf, PathBuf)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads/app.c");
    let libraries = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let library =
        libraries.iter().map(|library| Path::new(library).join("libsqlite3.so.0")).find(|join| join.exists());
    let Some(library) = library else {
        println!("skipped: no shared libsqlite3; apt-get install libsqlite3-0");
        return None;
    };
    let path = place.path("app");
    let built =
        Command::new("cc").args(["-O1", "-o"]).arg(&path).arg(source).arg(&library).arg("-lpthread").output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some((path, library))
}

/// How one program's replay went.
#[derive(Debug, PartialEq)]
enum Again {
    Same,
    /// It says why it cannot be.
    Named(String),
    Wrong(String),
}

fn capture(place: &Place, app: &Path, seed: u64, threads: u64, mode: &str, steps: u64) {
    for file in place.files() {
        if ["a.db", "b.db", "a.trace"].iter().any(|name| file.starts_with(name)) {
            std::fs::remove_file(place.path(&file)).unwrap();
        }
    }
    let (seed, threads, steps) = (seed.to_string(), threads.to_string(), steps.to_string());
    let app = app.to_str().unwrap();
    let words = ["trace", "capture", "--out", "a.trace", "--", app, &seed, &threads, mode, &steps];
    place.fathom(&words).exits(0);
}

fn replay(place: &Place, library: &Path, mode: &str) -> Again {
    let (mode, library) = (format!("journal_mode={mode}"), format!("library={}", library.display()));
    let mut words = vec!["trace", "replay", "a.trace", "--dir", "."];
    for setting in [&mode, &library, "synchronous=off"] {
        words.extend(["--set", setting]);
    }
    let end = place.fathom(&words);
    if end.code != Some(0) {
        let is_named = end.stderr.contains(NOT_AGAIN);
        return if is_named { Again::Named(end.stderr) } else { Again::Wrong(end.stderr) };
    }
    for file in place.files().iter().filter(|file| file.ends_with(".db")) {
        let hash = content_hash(&place.path(file)).unwrap();
        if !end.stdout.lines().any(|line| line.contains(file.as_str()) && line.contains(&hash)) {
            return Again::Wrong(format!("{file} is {hash} of the program itself: {end}"));
        }
    }
    Again::Same
}

/// Captures `count` programs with a journal mode and replays each in `again`.
fn all(count: u64, steps: u64, mode: &str, again: &str) {
    let place = Place::new();
    let Some((app, library)) = program(&place) else { return };
    let first = asked("FATHOM_THREAD_SEED").unwrap_or(1);
    let (mut same, mut named, mut wrong) = (0, Vec::new(), Vec::new());
    for seed in first..first + count {
        // 2 to 16, every number of them.
        let threads = 2 + seed * 7 % 15;
        // A busy machine has a program meet more locks: of few programs each has three chances.
        let mut found = Again::Same;
        let chances = if count < 20 { 3 } else { 1 };
        for _ in 0..chances {
            capture(&place, &app, seed, threads, mode, steps);
            found = replay(&place, &library, again);
            if !matches!(found, Again::Named(_)) {
                break;
            }
        }
        match found {
            Again::Same => same += 1,
            other => {
                let kept = std::env::temp_dir().join(format!("fathom-threads-{mode}-{again}-{seed}.trace"));
                std::fs::copy(place.path("a.trace"), &kept).unwrap();
                let told = format!("seed {seed}, {threads} threads, {}: {other:?}", kept.display());
                if matches!(other, Again::Named(_)) { named.push(told) } else { wrong.push(told) }
            }
        }
    }
    println!(
        "{mode} as {again}: {same} of {count} the same, {} with the named reason: {named:#?}",
        named.len()
    );
    assert!(wrong.is_empty(), "{mode} as {again}: {wrong:#?}");
    // Chance decides which locks a program meets.
    let is_rare = named.len() as u64 <= (count / 20).max(1);
    assert!(mode != again || is_rare, "the named reason must be rare: {named:#?}");
}

fn in_mode(mode: &str) {
    match asked("FATHOM_THREAD_PROGRAMS") {
        Some(count) => all(count, 60, mode, mode),
        None => all(3, 25, mode, mode),
    }
}

#[test]
fn programs_in_delete_mode_come_to_the_same() {
    in_mode("delete");
}

#[test]
fn programs_in_truncate_mode_come_to_the_same() {
    in_mode("truncate");
}

#[test]
fn programs_in_persist_mode_come_to_the_same() {
    in_mode("persist");
}

#[test]
fn programs_in_memory_mode_come_to_the_same() {
    in_mode("memory");
}

#[test]
fn programs_without_a_journal_come_to_the_same() {
    in_mode("off");
}

#[test]
fn programs_with_a_write_ahead_log_come_to_the_same() {
    in_mode("wal");
}

/// With a log in place of the journal nothing waits that did not wait before.
#[test]
fn what_was_captured_with_a_journal_comes_to_the_same_with_a_log() {
    all(asked("FATHOM_THREAD_PROGRAMS").map_or(2, |count| count / 4), 25, "delete", "wal");
}
