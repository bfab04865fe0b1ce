//! `kill -9` of primaries and standbys under load. What waited for a standby is there after every
//! fail-over, and whoever was deposed acknowledges nothing. `MMDB_STANDBY_KILLS` sets how often (5
//! by default).
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/standby.rs"]
mod example;

use mmdb::{Database, Error, Options, Standby};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const THREADS: i64 = 4;

fn options() -> Options {
    Options { streams: 2, segment_bytes: 256 << 10, checkpoint_log_bytes: 512 << 10, ..Options::default() }
}

fn kills() -> u64 {
    std::env::var("MMDB_STANDBY_KILLS").ok().and_then(|v| v.parse().ok()).unwrap_or(5)
}

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("mmdb-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        Place(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// This test program once more, to do a part of `test`.
fn part(test: &str, of: &str, args: [&str; 2]) -> (Child, Receiver<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("MMDB_STANDBY_PART", of)
        .env("MMDB_STANDBY_ARGS", args.join("\n"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (lines, received) = channel();
    std::thread::spawn(move || {
        // The harness may have begun the line.
        for line in out.lines().map_while(Result::ok) {
            let from = ["listening ", "ack "].iter().filter_map(|word| line.find(word)).min();
            if from.is_some_and(|from| lines.send(line[from..].to_owned()).is_err()) {
                return;
            }
        }
    });
    (child, received)
}

fn part_args() -> Option<(String, String, String)> {
    let of = std::env::var("MMDB_STANDBY_PART").ok()?;
    let args = std::env::var("MMDB_STANDBY_ARGS").unwrap();
    let (a, b) = args.split_once('\n').unwrap();
    Some((of, a.to_owned(), b.to_owned()))
}

/// The primary at `dir`, which makes a copy for a standby first.
fn be_primary(dir: &str, seed: &str) {
    let db = Database::open(dir, options()).unwrap();
    example::counters(&db).unwrap();
    db.backup_for_standby(seed).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    example::primary(&db, &listener, THREADS).unwrap();
}

fn counts(db: &Database) -> Vec<i64> {
    let (t, mut tx) = (db.table("counter").unwrap(), db.begin().unwrap());
    let mut count = |id: i64| tx.get(&t, &[id.into()]).unwrap().map_or(0, |row| row.at(1).as_int().unwrap());
    (0..THREADS).map(&mut count).collect()
}

#[test]
fn a_killed_primary_loses_nothing_that_waited_for_a_standby() {
    if let Some((_, dir, seed)) = part_args() {
        return be_primary(&dir, &seed);
    }
    let place = Place::new("standby-kill");
    let dir = |n: u64| place.0.join(n.to_string());
    let path = |n: u64| dir(n).to_string_lossy().into_owned();
    let mut acknowledged = vec![0i64; THREADS as usize];
    let mut all = 0;
    for round in 0..kills() {
        let test = "a_killed_primary_loses_nothing_that_waited_for_a_standby";
        let (mut primary, lines) = part(test, "primary", [&path(round), &path(round + 1)]);
        let first = lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let address = first.strip_prefix("listening ").unwrap().to_owned();
        let standby = Standby::open(dir(round + 1), options()).unwrap();
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| {
                let socket = TcpStream::connect(&address).unwrap();
                example::follow(&standby, "s", socket, |_| false)
            });
            // It counts, and then for a while of every length.
            let mut note = |line: String| {
                let mut words = line.split_whitespace().skip(1).map(|word| word.parse::<i64>().unwrap());
                let (id, n) = (words.next().unwrap() as usize, words.next().unwrap());
                acknowledged[id] = acknowledged[id].max(n);
                all += 1;
            };
            (0..50).for_each(|_| note(lines.recv_timeout(Duration::from_secs(60)).unwrap()));
            let until = Instant::now() + Duration::from_millis(round * 37 % 150);
            while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                note(line);
            }
            primary.kill().unwrap();
            primary.wait().unwrap();
            // What it had said by then counts.
            while let Ok(line) = lines.recv_timeout(Duration::from_secs(60)) {
                note(line);
            }
            assert!(follower.join().unwrap().is_err(), "the connection broke");
        });
        let db = standby.promote(round + 2).unwrap();
        db.verify().unwrap();
        let found = counts(&db);
        let kept = found.iter().zip(&acknowledged).all(|(found, acknowledged)| found >= acknowledged);
        assert!(kept, "round {round}: {found:?} found, {acknowledged:?} acknowledged");
        acknowledged = found;
        // The old one comes back, and does not know. Nothing that waits for a standby is
        // acknowledged there, and the first word of its successor stops it.
        let old = Database::open(dir(round), options()).unwrap();
        let t = old.table("counter").unwrap();
        let ticket =
            old.run_with(mmdb::Durability::Durable, |tx| tx.upsert(&t, &[0.into(), (-1).into()])).unwrap().1;
        let alone = ticket.wait_standbys(1, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(alone, Error::StandbysMissing { standbys: 0, .. }), "{alone}");
        let told = old.acknowledge("s", &db.position().unwrap()).unwrap_err();
        assert!(matches!(told, Error::Deposed { .. }), "{told}");
        assert!(matches!(ticket.wait_standbys(1, Duration::from_secs(60)), Err(Error::Deposed { .. })));
        drop((t, ticket, old));
        assert!(matches!(Database::open(dir(round), options()), Err(Error::Directory { .. })));
        std::fs::remove_dir_all(dir(round)).unwrap();
    }
    println!("{} kills, {all} acknowledged counts, none lost", kills());
}

/// Follows until it is killed.
fn be_standby(dir: &str, address: &str) {
    let standby = Standby::open(dir, options()).unwrap();
    println!("listening {}", standby.position().gsn());
    let socket = TcpStream::connect(address).unwrap();
    // The primary may end first.
    let _ = example::follow(&standby, "s", socket, |_| false);
}

#[test]
fn a_killed_standby_goes_on_where_it_stood() {
    if let Some((_, dir, address)) = part_args() {
        return be_standby(&dir, &address);
    }
    let place = Place::new("standby-killed");
    let (dir, standby_dir) = (place.0.join("primary"), place.0.join("standby"));
    let db = Database::open(dir, options()).unwrap();
    let t = example::counters(&db).unwrap();
    db.backup_for_standby(&standby_dir).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, stop) = (listener.local_addr().unwrap().to_string(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| example::serve(&db, &listener, &stop).unwrap());
        let mut counters: Vec<_> = (0..THREADS)
            .map(|id| {
                let (db, t, stop) = (&db, &t, &stop);
                scope.spawn(move || {
                    // Each counts at least once, however late it begins.
                    loop {
                        let n = example::count(db, t, id).unwrap();
                        if stop.load(Ordering::Acquire) {
                            return n;
                        }
                    }
                })
            })
            .collect();
        let mut last = Vec::new();
        let acknowledged = || db.stats().standbys.first().map_or(0, |(_, gsn)| *gsn);
        for round in 0..=kills() {
            let before = acknowledged();
            let args = [standby_dir.to_str().unwrap(), &address];
            let (mut standby, lines) = part("a_killed_standby_goes_on_where_it_stood", "standby", args);
            let first = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            let at: u64 = first.strip_prefix("listening ").unwrap().parse().unwrap();
            assert!(at >= before, "round {round}: it stands at {at}, and had acknowledged {before}");
            let began = Instant::now();
            while acknowledged() < at + 50 {
                assert!(began.elapsed() < Duration::from_secs(60), "round {round}: it does not go on");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(round * 23 % 60));
            if round == kills() {
                stop.store(true, Ordering::Release);
                // The last counts wait for it.
                last = counters.drain(..).map(|counter| counter.join().unwrap()).collect();
            }
            standby.kill().unwrap();
            standby.wait().unwrap();
        }
        assert_eq!(counts(&db), last);
    });
    let standby = Standby::open(&standby_dir, options()).unwrap();
    standby.verify().unwrap();
    let db = standby.promote(2).unwrap();
    assert!(counts(&db).iter().all(|&n| n > 0));
}

#[test]
fn the_example_of_a_fail_over_finds_all_that_was_counted() {
    if part_args().is_some() {
        return;
    }
    let place = Place::new("standby-example");
    let told = example::run(Path::new(&place.0)).unwrap();
    assert!(told.starts_with("counted to 100, found 100 after the fail-over\ndeposed: "), "{told}");
}
