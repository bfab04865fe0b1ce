//! What a database costs that nobody uses.
//!
//! What happened: with `lazy_interval` zero every stream's flusher asked for work without a pause,
//! and kept a processor busy for as long as the database was open. The mend: it looks every
//! millisecond at most.
//!
//! Alone in its process, whose threads it measures: by the processor time they have had, which no
//! busy machine makes more.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use mmdb::{ColumnType, Database, Durability, Options, Schema};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Processor time of each flusher so far. Those of a database that was closed may be listed for a
/// moment more, and end between two lines.
fn flushers() -> BTreeMap<PathBuf, Duration> {
    let mut spent = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
        if read("comm").starts_with("mmdb-log")
            && let Some(time) = read("schedstat").split_whitespace().next()
        {
            let time = Duration::from_nanos(time.parse().unwrap());
            spent.insert(task, time);
        }
    }
    spent
}

/// What those that are there before and afterwards have had in half a second, and how much time
/// that was.
fn spent() -> (Duration, Duration) {
    let (began, before) = (Instant::now(), flushers());
    std::thread::sleep(Duration::from_millis(500));
    let after = flushers();
    let had: Vec<_> = after.iter().filter_map(|(task, time)| Some(*time - *before.get(task)?)).collect();
    assert!(had.len() >= 2, "{before:?} {after:?}");
    (had.iter().sum(), began.elapsed())
}

#[test]
fn an_idle_database_does_not_spin_however_short_its_interval() {
    for lazy_interval in [Duration::ZERO, Duration::from_nanos(1)] {
        let o = Options { lazy_interval, streams: 2, ..Options::in_memory() };
        let db = Database::open("/db", o).unwrap();
        let t =
            db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
        // It is still a promise that lazy commits get durable by themselves.
        let ticket = db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[1.into()])).unwrap().1;
        while db.horizon() < ticket.gsn() {
            std::thread::yield_now();
        }
        // The best of several: what a busy machine's caches cost is spent, too.
        let mut all = Vec::new();
        let is_idle = (0..20).any(|_| {
            let (spent, passed) = spent();
            all.push((spent, passed));
            spent * 5 < passed
        });
        assert!(is_idle, "{all:?}");
    }
}
