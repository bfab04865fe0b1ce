//! Wall time is CPU + read + write + sync + other, each measured by itself, within 1 %.
//!
//! In [`Split`](fathom_probe::Split) `other` takes what is left, so the sum closes by construction.
//! What is tested here is what it is made from:
//!
//! - The wall time, the time in calls and the CPU time outside of them come from different clocks
//!   and counters. With the CPU time of every call measured, what they leave must be explained by
//!   the time for which the thread waited for a processor, as the kernel counts it
//!   (`/proc/thread-self/schedstat`, second number). A part counted twice or left out breaks the
//!   balance.
//! - The CPU time inside calls is usually estimated from a sample. Measuring every call beside it
//!   must give about the same. About, because the budget buys few samples of a time that is very
//!   uneven; that the estimate has no bias is shown on made-up calls, in `cpu.rs`.
//! - The CPU time of durable inserts must be about that of the same inserts without any sync.
//!
//! Every figure is a median or a sum over many rounds, so that a busy machine disturbs little. Each
//! database is filled right before in one large transaction, whose syncs must not confuse the
//! estimate for the small ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use fathom_probe::{CpuCheck, Probe, Split, StatementClock, check_cpu_in_calls, sqlite_api};
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

/// Tests of this file run one after the other: beside each other they would measure each other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn waited_for_cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// What the parts may leave, or count twice, as a share of the wall time.
const CLOSES: f64 = 0.01;
/// By what the estimated CPU time in all calls may differ from the measured one, as a share of the
/// latter.
const ESTIMATE: f64 = 0.33;

/// Makes `ROUNDS` rounds and judges all made so far; where they are found wrong, further ones, up
/// to five times as many: what noise did once goes, what the code does wrong stays.
fn until_good<T>(mut round: impl FnMut() -> T, judge: impl Fn(&mut Vec<T>) -> Result<(), String>) {
    let mut rounds = Vec::new();
    loop {
        rounds.extend((0..ROUNDS).map(|_| round()));
        match judge(&mut rounds) {
            Ok(()) => return,
            Err(found) if rounds.len() >= 5 * ROUNDS => panic!("{found}"),
            Err(_) => {}
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One round, every call measured: ns.
struct Round {
    wall_ns: f64,
    /// What the measured parts leave of the wall time; less than nothing where something counts
    /// twice.
    left_ns: f64,
    /// The kernel's count of waiting for a processor. Some of it lies in the calls, so it is an
    /// upper bound for `left_ns`.
    waited_ns: f64,
    check: CpuCheck,
}

impl Round {
    fn waited_share(&self) -> f64 {
        self.waited_ns / self.wall_ns
    }
}

fn measured_round(database: &Database, sql: &str, repeat: u32) -> Round {
    let waited = waited_for_cpu_ns();
    let (account, check) = check_cpu_in_calls(|| {
        let clock = StatementClock::start();
        database.run(sql, repeat);
        clock.stop_account(true)
    });
    let waited_ns = waited_for_cpu_ns() - waited;
    let split = account.split;
    assert_eq!(split.wall_ns, split.cpu_ns + split.read_ns + split.write_ns + split.sync_ns + split.other_ns);
    assert!(split.cpu_ns > 0, "{split:?}");
    assert!(check.measured_ns > 0.0, "{check:?}");
    // The account was made with the estimate; the balance is to be of measured parts only.
    let left_ns = account.unexplained_ns().unwrap() - check.estimated_ns + check.measured_ns;
    Round { wall_ns: split.wall_ns as f64, left_ns, waited_ns, check }
}

fn closes(name: &str, sql: &str, setup: &str, repeat: u32) {
    let database = filled(setup);
    until_good(
        || measured_round(&database, sql, repeat),
        |rounds| {
            // The bound is sharp only where hardly anything waited, so the third of the rounds that
            // waited least decides.
            rounds.sort_by(|one, other| one.waited_share().total_cmp(&other.waited_share()));
            let share = median(rounds[..rounds.len() / 3].iter().map(|round| {
                let left = if round.left_ns > 0.0 {
                    (round.left_ns - round.waited_ns).max(0.0)
                } else {
                    round.left_ns
                };
                left / round.wall_ns
            }));
            // So it does here: calls of a thread that was put aside meanwhile find caches cold.
            let quiet = &rounds[..rounds.len() / 3];
            let sum = |part: fn(&Round) -> f64| quiet.iter().map(part).sum::<f64>();
            let wrong = sum(|round| round.check.estimated_ns) / sum(|round| round.check.measured_ns) - 1.0;
            let waited = rounds[rounds.len() / 3].waited_share();
            let text = format!(
                "{name}: {:.2} % of the wall time missing or counted twice (the quietest third waited up to {:.2} % for a processor), CPU time in calls misjudged by {:.1} %",
                share * 100.0,
                waited * 100.0,
                wrong * 100.0
            );
            println!("{text}");
            if share.abs() <= CLOSES && wrong.abs() <= ESTIMATE { Ok(()) } else { Err(text) }
        },
    );
}

/// Asserts that an insert computes with syncs what it computes without: what the kernel computes
/// for a sync must not count as the statement's, and must not be taken out of it twice. A statement
/// that follows a sleep finds its caches cold, so it needs several times as long; but were the
/// syncs' CPU time counted with it, it would exceed that of inserts without syncs by all of the
/// syncs' CPU time and by this.
fn cpu_is_that_without_syncs(name: &str, setup: &str) {
    let durable = filled(setup);
    let without = filled(&format!("{setup}; PRAGMA synchronous=OFF"));
    let clocked = |database: &Database| {
        let clock = StatementClock::start();
        database.run(INSERT, 100);
        clock.stop()
    };
    until_good(
        || {
            let waited = waited_for_cpu_ns();
            let (with, without): (Split, Split) = (clocked(&durable), clocked(&without));
            assert!(with.sync_calls >= 100 && without.sync_calls == 0);
            let measured = measured_round(&durable, INSERT, 100);
            let waited_ns = waited_for_cpu_ns() - waited;
            let wall_ns = (with.wall_ns + without.wall_ns) as f64 + measured.wall_ns;
            let (with, without) = (with.cpu_ns as f64, without.cpu_ns as f64);
            (waited_ns / wall_ns, with / without, (with - without) / measured.check.measured_ns)
        },
        |rounds| {
            // Where others had the processor during a sync, a statement finds its caches colder
            // still: here, too, the third of the rounds that waited least decides.
            rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
            let quiet = &rounds[..rounds.len() / 3];
            let ratio = median(quiet.iter().map(|round| round.1));
            let excess = median(quiet.iter().map(|round| round.2));
            let text = format!(
                "{name}: {ratio:.2} times the CPU time without syncs; the excess is {excess:.2} of the CPU time in calls"
            );
            println!("{text}");
            if ratio >= 0.8 && excess <= 0.9 { Ok(()) } else { Err(text) }
        },
    );
}

#[test]
fn durable_inserts_in_wal_close() {
    let _alone = alone();
    closes("wal", INSERT, WAL, 300);
}

#[test]
fn durable_inserts_with_a_rollback_journal_close() {
    let _alone = alone();
    closes("delete", INSERT, DELETE, 100);
}

#[test]
fn durable_inserts_compute_what_others_do() {
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
