//! A run that is told to stop: at whatever moment and however often the same wish comes, it ends in
//! order and says so.
//!
//! A SIGTERM in the middle of `sms-centre` once ended the run without a word and left `-wal` and
//! `-shm` beside the results, and the work of the run. It had come from `timeout`, which sends the
//! signal to its child and at once to its whole group: the second one was taken for a user's who
//! had lost patience, and ended the process on the spot, where it came so late that the first had
//! been handled and so early that nobody could have been impatient. Shells that hand on a hangup
//! and service managers do the same. Signals within a second are one wish now; a second wish still
//! ends the run at once, and says that it did.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use place::{End, Place, Running};

/// Ample on a busy machine, where a run that is told to stop waits for its worker for seconds.
const SOON: Duration = Duration::from_secs(100);

/// Signals that come within a second are one wish: within this, they were surely sent so.
const ONE_WISH: Duration = Duration::from_millis(800);

/// What a sender of signals means by one wish: the signals, and the time between them in ms.
const WISHES: [(&[i32], f64); 7] = [
    (&[libc::SIGTERM], 0.0),
    (&[libc::SIGTERM, libc::SIGTERM], 0.05),
    (&[libc::SIGTERM, libc::SIGTERM], 1.0),
    (&[libc::SIGHUP, libc::SIGTERM], 20.0),
    (&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP], 0.2),
    (&[libc::SIGTERM, libc::SIGINT], 100.0),
    // Whoever read what is printed has gone (`fathom run … | head -1`): it comes with each line, and
    // ended the program as kill -9 does.
    (&[libc::SIGPIPE, libc::SIGPIPE], 1100.0),
];

/// One run after the other of each store, for as long as it is left to itself.
fn experiment() -> String {
    let postgresql =
        fathom_stack::companions().into_iter().find(|companion| companion.name == "postgresql").unwrap();
    let stores = if postgresql.present {
        r#""mmdb", "sqlite", "postgresql""#
    } else {
        println!("SKIP: the same with PostgreSQL: {}; to get it: {}", postgresql.detail, postgresql.remedy);
        r#""mmdb", "sqlite""#
    };
    format!(
        r#"
name = "stopped"
title = "t"
question = "q"
repeats = 200
[workload]
name = "sms"
messages = 400
threads = 2
[stack]
filesystem = "dir"
[matrix]
"workload.store" = [{stores}]
"#
    )
}

/// A place that everybody may enter, for PostgreSQL runs as another user; with stacks of its own.
fn start(place: &Place) -> Running {
    let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(""), anybody).unwrap();
    place.write("mine.toml", &experiment());
    let state = place.path("state").display().to_string();
    place.start_with(&["run", "mine.toml", "--out", "out.db", "--seed", "7"], &[("FATHOM_STATE_DIR", &state)])
}

/// Nothing runs any more, nothing is mounted, and of files there are only results.
#[track_caller]
fn nothing_stays(place: &Place, told: &str) {
    let begin = Instant::now();
    let left = || {
        let stacks = std::fs::read_dir(place.path("state/stacks")).into_iter().flatten().flatten();
        let mut left: Vec<String> = stacks.map(|stack| stack.path().display().to_string()).collect();
        left.extend(place.leftover_work().into_iter().filter(|name| name != "state"));
        left.extend(place.processes());
        left
    };
    while !left().is_empty() {
        assert!(begin.elapsed() < SOON, "{told}: {:?}", left());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that what is kept can be gone on with.
#[track_caller]
fn can_be_gone_on_with(place: &Place) {
    if place.files().contains(&"out.db".to_owned()) {
        place.fathom(&["run", "mine.toml", "--out", "out.db", "--resume", "--plan"]).exits(0);
    }
}

fn beside(place: &Place) -> Vec<String> {
    place.files().into_iter().filter(|file| file.ends_with("-wal") || file.ends_with("-shm")).collect()
}

/// A case: a way to stop a run, so many milliseconds after its start.
fn ends_in_order(number: usize, after_ms: u64) {
    let (signals, gap_ms) = WISHES[number % WISHES.len()];
    let told = format!("case {number}: {signals:?}, {gap_ms} ms apart, after {after_ms} ms");
    let in_time = || {
        let place = Place::new();
        let running = start(&place);
        std::thread::sleep(Duration::from_millis(after_ms));
        let listens = running.listens();
        let begin = Instant::now();
        let mut sent = Duration::ZERO;
        for signal in signals {
            running.signal(*signal);
            sent = begin.elapsed();
            std::thread::sleep(Duration::from_secs_f64(gap_ms / 1e3));
        }
        let end: End = running.end();
        // Where a busy machine had the sender wait between them, they were two wishes.
        let is_one_wish = sent < ONE_WISH || signals.contains(&libc::SIGPIPE);
        is_one_wish.then_some((place, listens, end))
    };
    let Some((place, listens, end)) = (0..5).find_map(|_| in_time()) else {
        println!("SKIP: {told}: the machine was too busy to send them in time");
        return;
    };
    // Before the program listens there is nothing to be ended in order, and the signal ends it as
    // it ends any program.
    let early = end.code.is_none() && !listens;
    // By the signal as well, in order: it was exit code 1, where other commands had 143.
    assert!(end.signal.is_some_and(|signal| signals.contains(&signal)), "{told}: {end}");
    assert!(early || end.stderr.contains("Stopped: "), "a word: {told}: {end}");
    assert!(!end.stderr.contains("panicked") && !end.stderr.contains("failed"), "{told}: {end}");
    assert_eq!(beside(&place), [""; 0], "{told}: {end}");
    nothing_stays(&place, &told);
    can_be_gone_on_with(&place);
}

#[test]
fn signals_that_are_one_wish_end_a_run_in_order_at_any_moment() {
    let times = if std::env::var_os("FATHOM_LONG").is_some() { 300 } else { 18 };
    let mut random = 17_u64;
    let moments: Vec<u64> = (0..times)
        .map(|_| {
            // Marsaglia's xorshift: the same moments in each call of the test.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % 2500
        })
        .collect();
    // Two at a time: most of a case is waiting, for its moment and for its stores to end.
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&after_ms) = moments.get(number) else { return };
            ends_in_order(number, after_ms);
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().expect("each case ends in order");
    });
}

/// The worker cannot be ended in order: it is stopped.
#[test]
fn a_second_wish_ends_a_run_at_once_and_says_so() {
    let place = Place::new();
    let running = start(&place);
    running.stop_child("worker");
    let begin = Instant::now();
    running.signal(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(1500));
    running.signal(libc::SIGTERM);
    let end = running.end();
    // The worker alone is given 5 s.
    if begin.elapsed() < Duration::from_millis(4500) {
        assert_eq!(end.code, Some(128 + libc::SIGTERM), "{end}");
        for word in ["a second signal", "--resume", "-wal"] {
            end.says(word);
        }
    } else {
        println!("SKIP: the machine was too busy to send the second signal in time: {end}");
    }
    nothing_stays(&place, "at once");
    can_be_gone_on_with(&place);
}
