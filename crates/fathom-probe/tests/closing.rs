//! Wall time is CPU + read + write + sync + other, each measured by itself, within 1 %.
//!
//! In [`Split`](fathom_probe::Split) `other` takes what is left, so the sum closes by construction. What is tested here is
//! what it is made from:
//!
//! - The wall time, the time in calls and the CPU time outside of them come from different clocks and counters. What they
//!   leave must be explained by the time for which the thread waited for a processor, as the kernel counts it
//!   (`/proc/thread-self/schedstat`, second number). A part counted twice or left out breaks the balance.
//! - The CPU time inside calls is estimated from a sample; measuring every call must give the same.
//! - The CPU time of durable inserts must be about that of the same inserts without any sync.
//!
//! Every figure is the median over several rounds, as a share of the wall time, so that a busy machine disturbs little. Each
//! database is filled right before in one large transaction, whose syncs must not confuse the estimate for the small ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use fathom_probe::{Probe, Split, StatementClock, check_cpu_in_calls, sqlite_api};
use rusqlite::{Connection, OpenFlags};

const INSERT: &str = "INSERT INTO t(a, b) VALUES ('some text of no importance', 1)";
const SCAN: &str = "SELECT sum(b), max(a), sum(length(a)) FROM t";
const WAL: &str = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL";
const DELETE: &str = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL";
const ROUNDS: usize = 21;

struct Database {
    db: Connection,
    _directory: tempfile::TempDir,
}

fn filled(setup: &str) -> Database {
    // SAFETY: the functions of the one bundled library.
    unsafe { Probe::install(sqlite_api!(libsqlite3_sys).unwrap()) }.unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("a.db");
    let db = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), Probe::VFS_NAME).unwrap();
    db.execute_batch(&format!(
        "{setup}; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO t SELECT i, printf('%0100d', i), i * 7919 % 20000 FROM n;"
    ))
    .unwrap();
    Database { db, _directory: directory }
}

impl Database {
    fn run(&self, sql: &str, repeat: u32) {
        let mut statement = self.db.prepare_cached(sql).unwrap();
        for _ in 0..repeat {
            let mut rows = statement.query([]).unwrap();
            while rows.next().unwrap().is_some() {}
        }
    }
}

/// Whether the tests on durable inserts run. What the kernel computes for a sync varies so much on a shared machine that
/// about one run in five is out of bounds there; `./test --long` sets FATHOM_LONG, on a quiet one.
fn quiet_machine() -> bool {
    let quiet = std::env::var_os("FATHOM_LONG").is_some();
    if !quiet {
        println!(
            "SKIP: durable inserts need a quiet machine: FATHOM_LONG=1 cargo test -p fathom-probe --test closing"
        );
    }
    quiet
}

/// Tests of this file run one after the other: beside each other they would measure each other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn waited_for_cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// The median over the rounds. Where it is out of bounds, further rounds are made and counted with the first ones, up to five
/// times as many: what noise did once goes, what the code does wrong stays.
fn median_within(name: &str, bounds: std::ops::RangeInclusive<f64>, round: &mut dyn FnMut() -> f64) -> f64 {
    let mut shares: Vec<f64> = Vec::new();
    loop {
        shares.extend((0..ROUNDS).map(|_| round()));
        shares.sort_unstable_by(f64::total_cmp);
        let median = shares[shares.len() / 2];
        if bounds.contains(&median) || shares.len() >= 5 * ROUNDS {
            println!("{name}: {shares:.4?}");
            return median;
        }
    }
}

/// Asserts that the independently measured parts make up the wall time.
fn parts_close(database: &Database, name: &str, sql: &str, repeat: u32) {
    let share = median_within(&format!("{name}, missing"), -0.01..=0.01, &mut || {
        let waited = waited_for_cpu_ns();
        let clock = StatementClock::start();
        database.run(sql, repeat);
        let account = clock.stop_account(true);
        let waited = waited_for_cpu_ns() - waited;
        let split = account.split;
        assert_eq!(
            split.wall_ns,
            split.cpu_ns + split.read_ns + split.write_ns + split.sync_ns + split.other_ns
        );
        assert!(split.cpu_ns > 0, "{split:?}");
        // Waiting for a processor after a sync is part of that sync, so the kernel's number is an upper bound.
        let left = account.unexplained_ns().unwrap();
        let unexplained = if left > 0.0 { (left - waited).max(0.0) } else { left };
        unexplained / split.wall_ns as f64
    });
    assert!(
        share.abs() <= 0.01,
        "{name}: {:.2} % of the wall time is missing or counted twice",
        share * 100.0
    );
}

/// Asserts that the CPU time in calls is estimated as it is measured.
fn estimate_holds(database: &Database, name: &str, sql: &str, repeat: u32) {
    let share = median_within(&format!("{name}, misjudged"), -0.02..=0.02, &mut || {
        let (split, check) = check_cpu_in_calls(|| {
            let clock = StatementClock::start();
            database.run(sql, repeat);
            clock.stop()
        });
        assert!(check.measured_ns > 0.0, "{check:?}");
        (check.estimated_ns - check.measured_ns) / split.wall_ns as f64
    });
    assert!(
        share.abs() <= 0.02,
        "{name}: the CPU time in calls is misjudged by {:.2} % of the wall time",
        share * 100.0
    );
}

fn closes(name: &str, sql: &str, setup: &str, repeat: u32) {
    let database = filled(setup);
    parts_close(&database, name, sql, repeat);
    estimate_holds(&database, name, sql, repeat);
}

/// Asserts that an insert computes with syncs what it computes without: what the kernel computes for a sync must not count as
/// the statement's, and must not be taken out of it twice. A statement that follows a sleep finds its caches cold, so it
/// needs several times as long, but that is little beside the sync.
fn cpu_is_that_without_syncs(name: &str, setup: &str) {
    let durable = filled(setup);
    let without = filled(&format!("{setup}; PRAGMA synchronous=OFF"));
    let clocked = |database: &Database| {
        let clock = StatementClock::start();
        database.run(INSERT, 100);
        clock.stop()
    };
    let excess = median_within(&format!("{name}, more CPU with syncs"), f64::NEG_INFINITY..=0.1, &mut || {
        let (with, without): (Split, Split) = (clocked(&durable), clocked(&without));
        (with.cpu_ns as f64 - without.cpu_ns as f64) / with.wall_ns as f64
    });
    let ratio =
        median_within(&format!("{name}, CPU with syncs to CPU without"), 0.8..=f64::INFINITY, &mut || {
            let (with, without): (Split, Split) = (clocked(&durable), clocked(&without));
            assert!(with.sync_calls >= 100 && without.sync_calls == 0);
            with.cpu_ns as f64 / without.cpu_ns as f64
        });
    assert!(
        ratio >= 0.8 && excess <= 0.1,
        "{name}: {ratio} times the CPU time, {excess} of the wall time more"
    );
}

#[test]
fn durable_inserts_in_wal_close() {
    if !quiet_machine() {
        return;
    }
    let _alone = alone();
    closes("wal", INSERT, WAL, 300);
}

#[test]
fn durable_inserts_with_a_rollback_journal_close() {
    if !quiet_machine() {
        return;
    }
    let _alone = alone();
    closes("delete", INSERT, DELETE, 100);
}

#[test]
fn durable_inserts_compute_what_others_do() {
    if !quiet_machine() {
        return;
    }
    let _alone = alone();
    cpu_is_that_without_syncs("wal", WAL);
    cpu_is_that_without_syncs("delete", DELETE);
}

#[test]
fn a_scan_from_memory_closes() {
    let _alone = alone();
    closes("cached", SCAN, "PRAGMA cache_size=-64000", 3);
}

#[test]
fn a_scan_with_a_read_for_each_page_closes() {
    let _alone = alone();
    closes("reading", SCAN, "PRAGMA cache_size=10", 3);
}
