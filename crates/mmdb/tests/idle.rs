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
use std::time::{Duration, Instant};

/// Processor time of the flushers so far.
fn spent() -> Duration {
    let mut spent = Duration::ZERO;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if std::fs::read_to_string(task.join("comm")).unwrap().starts_with("mmdb-log") {
            let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
            spent += Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap());
        }
    }
    spent
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
        let (began, before) = (Instant::now(), spent());
        std::thread::sleep(Duration::from_millis(500));
        let (passed, spent) = (began.elapsed(), spent() - before);
        assert!(spent * 5 < passed, "{spent:?} of {passed:?}");
    }
}
