//! The whole centre under load, on every store: the invariants hold afterwards, nothing is stuck,
//! no station has two messages in flight.
#![allow(clippy::unwrap_used)]

use mmdb::{Locking, LogKind};
use smsc::centre::{Archive, RetryPolicy, Rules};
use smsc::check::check;
use smsc::housekeeping::recover;
use smsc::load::{Clock, Figures, LoadProfile, Plan, Side, run};
use smsc::model::UnloggedTables;
use smsc::network::{NetworkProfile, Times};
use smsc::store::{MmdbOptions, MmdbStore, SqliteStore, Store, StoreKind};
use std::path::Path;

/// Everything that can happen, at a thousandth of its time, among few stations.
fn lively(threads: usize, window: usize, messages: u64) -> Plan {
    Plan {
        side: Side::Both,
        receivers: threads,
        senders: threads,
        window,
        messages,
        load: LoadProfile {
            stations: 500,
            zipf: 0.9,
            receipt_percent: 50,
            scheduled_permille: 50,
            accounts: 5,
            ..LoadProfile::default()
        },
        network: NetworkProfile {
            absent: 1500,
            busy: 500,
            memory_full: 300,
            unknown: 200,
            latency: Times::usual(300_000),
            absence_us: 20_000_000,
            time_factor: 1000,
            ..NetworkProfile::default()
        },
        retry: RetryPolicy::accelerated(10_000),
        keep_accepted: true,
        ..Plan::default()
    }
}

/// How many stations an alert made ready.
fn put_through(store: &dyn Store, dir: &Path, plan: &Plan) -> u64 {
    recover(store, Clock::default().now_us()).unwrap();
    let figures = Figures::default();
    let mut archive = Archive::open(dir).unwrap();
    let ran = run(store, plan, &figures, Some(&mut archive), &mut |_| true).unwrap();
    let counted = figures.snapshot();
    assert_eq!(ran.doubled, 0, "a station had two messages in flight");
    assert_eq!(counted.fenced, 0, "{counted:?}");
    assert_eq!(counted.accepted, plan.messages);
    assert_eq!(counted.finished + counted.expired, plan.messages, "{counted:?}");
    assert!(counted.attempts > counted.finished, "some attempts fail: {counted:?}");
    assert!(counted.receipts > 0, "{counted:?}");
    let report = check(store, dir, &ran.accepted).unwrap();
    assert!(report.holds(), "{report:#?}");
    counted.alerts
}

/// A store that can be opened again.
type Open<'a> = &'a dyn Fn(&Path) -> Box<dyn Store>;

/// Puts messages through one store, for each number of threads, window and messages in turn, and
/// looks again after a restart.
fn works(open: Open<'_>, runs: &[(usize, usize, u64)]) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let put = |&(threads, window, messages): &(usize, usize, u64)| {
        put_through(&*store, dir.path(), &lively(threads, window, messages))
    };
    let mut alerts: u64 = runs.iter().map(put).sum();
    if alerts == 0 {
        // Where the store is slow, the retry that is due a little later than the alert often comes
        // first: one that is due after seconds does not.
        let retry = RetryPolicy { absent_us: vec![5_000_000], ..RetryPolicy::accelerated(10_000) };
        alerts = put_through(&*store, dir.path(), &Plan { retry, ..lively(2, 1, 100) });
    }
    assert!(alerts > 0, "no alert ever made a station ready");
    drop(store);
    let store = open(dir.path());
    recover(&*store, Clock::default().now_us()).unwrap();
    let report = check(&*store, dir.path(), &[]).unwrap();
    assert!(report.holds(), "{report:#?}");
}

fn mmdb(options: MmdbOptions) -> impl Fn(&Path) -> Box<dyn Store> {
    // Filling segments of the usual size with zeros would take longer than the runs.
    let options = MmdbOptions { segment_mib: 1, ..options };
    move |dir| Box::new(MmdbStore::open(dir, &options, Rules::default()).unwrap())
}

fn sqlite(grouped: bool) -> impl Fn(&Path) -> Box<dyn Store> {
    let rules = Rules { has_flusher: false, ..Rules::default() };
    move |dir| Box::new(SqliteStore::open(dir, grouped, rules).unwrap())
}

#[test]
fn mmdb_holds_with_1_4_16_and_96_threads() {
    let open = mmdb(MmdbOptions::default());
    works(&open, &[(1, 1, 1000), (4, 1, 2000), (16, 1, 2000), (96, 1, 3000)]);
}

#[test]
fn mmdb_holds_with_every_kind_of_logging_and_pipelined_clients() {
    let selective = MmdbOptions { unlogged: UnloggedTables::ALL, ..MmdbOptions::default() };
    works(&mmdb(selective.clone()), &[(16, 32, 2000)]);
    let other = MmdbOptions { streams: 2, log_kind: LogKind::AfterImage, group_commit: false, ..selective };
    works(&mmdb(other), &[(4, 8, 1000)]);
}

#[test]
fn mmdb_holds_with_every_granularity_of_locks() {
    for locking in [Locking::Record, Locking::Page, Locking::Container] {
        works(&mmdb(MmdbOptions { locking, ..MmdbOptions::default() }), &[(4, 8, 500)]);
    }
}

#[test]
fn sqlite_holds_with_1_4_16_and_96_threads() {
    let open = sqlite(true);
    works(&open, &[(1, 1, 200), (4, 1, 500), (16, 8, 1000), (96, 1, 1000)]);
}

#[test]
fn naive_sqlite_holds_with_1_4_16_and_96_threads() {
    let open = sqlite(false);
    works(&open, &[(1, 1, 100), (4, 1, 100), (16, 1, 100), (96, 1, 150)]);
}

/// PostgreSQL as installed; the test is skipped, and says so, where it is not.
fn postgresql(kind: StoreKind) -> Option<impl Fn(&Path) -> Box<dyn Store>> {
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(move |dir: &Path| kind.open(dir, &MmdbOptions::default(), kind.rules()).unwrap())
}

#[test]
fn postgresql_holds_with_1_4_16_and_96_threads() {
    let Some(open) = postgresql(StoreKind::Postgresql) else { return };
    works(&open, &[(1, 1, 100), (4, 8, 300), (16, 1, 300), (96, 1, 400)]);
}

#[test]
fn grouped_postgresql_holds_with_1_4_16_and_96_threads() {
    let Some(open) = postgresql(StoreKind::PostgresqlGrouped) else { return };
    works(&open, &[(1, 8, 100), (4, 32, 300), (16, 4, 200), (96, 2, 200)]);
}

#[test]
fn postgresql_statement_by_statement_holds_with_1_4_16_and_96_threads() {
    let Some(open) = postgresql(StoreKind::PostgresqlStatements) else { return };
    works(&open, &[(1, 1, 100), (4, 1, 100), (16, 1, 100), (96, 1, 150)]);
}
