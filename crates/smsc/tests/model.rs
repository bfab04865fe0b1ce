//! Random operations on every store at once: all give the same outcomes and end with the same rows,
//! and the invariants hold.
#![allow(clippy::unwrap_used)]

mod foreign_server;
mod redis_nodes;
mod steps;

use proptest::test_runner::{Config, TestRunner};
use smsc::centre::{Operation, Outcome, Refusal, Rules};
use smsc::check::check;
use smsc::model::Account;
use smsc::store::{
    MmdbOptions, Opening, PostgresqlStore, PostgresqlUrl, RedisClusterStore, Row, Store, StoreKind,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use steps::{ACCOUNT, Run, SECOND_US, Step, steps};

/// Submits one message as this account with these limits, if any; the account's row then.
fn submit_as(run: &mut Run<'_>, account: u32, limits: Option<(i64, u32)>) -> Option<Account> {
    if let Some((quota, rate_max)) = limits {
        let limits = Account { quota, rate_max, ..Account::unlimited(account) };
        run.all(&Operation::PutAccount(Box::new(limits)));
    }
    run.account = account;
    let (station, priority, registered, letters) = (9, 0, 0, 10);
    run.step(&Step::Receive { station, priority, registered, letters, scheduled: false, valid: 60 });
    run.account = ACCOUNT;
    match run.all(&Operation::Account(account)) {
        Outcome::Account(row) => row,
        other => panic!("{other:?}"),
    }
}

/// Each limit of an account holds, counts what is accepted and nothing else, and ends with its
/// second or when it is raised.
fn refuses(run: &mut Run<'_>) {
    run.refused.clear();
    let submitted = |row: Option<Account>| row.map(|account| account.submitted);
    let begin = run.accepted.len();
    assert_eq!(submitted(submit_as(run, 90, None)), None);
    for expected in [1, 2, 2] {
        assert_eq!(submitted(submit_as(run, 91, Some((2, 0)))), Some(expected));
    }
    assert_eq!(submitted(submit_as(run, 91, Some((3, 0)))), Some(3));
    // The next second begins.
    run.now_us += SECOND_US - run.now_us % SECOND_US;
    for expected in [1, 1] {
        assert_eq!(submitted(submit_as(run, 92, Some((0, 1)))), Some(expected));
    }
    run.now_us += SECOND_US;
    assert_eq!(submitted(submit_as(run, 92, None)), Some(2));
    assert_eq!(run.accepted.len() - begin, 5);
}

/// All rows but those that stores keep for themselves, in one order.
fn rows(store: &dyn Store) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    store
        .scan(&mut |row| {
            if !matches!(row, Row::IdBlock(_) | Row::Sent(_)) {
                assert!(rows.insert(format!("{row:?}")), "a row twice: {row:?}");
            }
            Ok(())
        })
        .unwrap();
    rows
}

#[test]
fn every_store_does_the_same() {
    same_on_all_stores(false);
}

/// A message of an account is refused for the same reasons and counted alike, also in PostgreSQL's
/// function.
#[test]
fn every_store_does_the_same_with_accounts() {
    let refused = same_on_all_stores(true);
    for refusal in [Refusal::NoSuchAccount, Refusal::Throttled, Refusal::QuotaExceeded] {
        assert!(refused.contains(&refusal.to_string()), "never refused because {refusal}: {refused:?}");
    }
}

/// Why messages were refused.
fn same_on_all_stores(accounts: bool) -> BTreeSet<String> {
    let mut kinds = StoreKind::ALL.to_vec();
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("without PostgreSQL: {error}");
        kinds.retain(|kind| !kind.name().starts_with("postgresql"));
    }
    // The stores live through all cases, so that later ones meet what earlier ones have left.
    let dirs: Vec<_> = kinds.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    let open = |(kind, dir): (&StoreKind, &tempfile::TempDir)| {
        kind.open(dir.path(), &options, Rules { accounts, ..kind.rules() }).unwrap()
    };
    let mut stores: Vec<Box<dyn Store>> = kinds.iter().zip(&dirs).map(open).collect();
    // The same on a server that is there already, with a schema for each form that differs most.
    let given = foreign_server::ForeignServer::start(&[]);
    for form in ["calls", "batched"] {
        let Some(given) = &given else { break };
        let url =
            PostgresqlUrl::parse(&given.checked_url("owner", &format!("form={form}&schema={form}"))).unwrap();
        let rules = Rules { accounts, ..url.kind().rules() };
        stores.push(Box::new(PostgresqlStore::at(&url, rules, 4, Opening::OrCreate).unwrap()));
    }
    // One shard numbers messages as the others do; that a message, its station and its receipt are
    // always in one, whatever their number, is redis_cluster.rs.
    let nodes = redis_nodes::Nodes::start();
    if let Some(nodes) = &nodes {
        let url = nodes.url("shards=1");
        let rules = Rules { accounts, ..StoreKind::RedisCluster.rules() };
        stores.push(Box::new(RedisClusterStore::at(&url, rules, Opening::OrCreate).unwrap()));
    }
    let nothing = tempfile::tempdir().unwrap();
    let run = RefCell::new(Run::new(stores.iter().map(|store| &**store).collect()));
    // What comes before the first limit is accepted.
    let unlimited = Box::new(Account::unlimited(ACCOUNT));
    run.borrow().all(&Operation::PutAccount(unlimited));
    let cases = std::env::var("SMSC_MODEL_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(6);
    // A case cannot be shrunk without the cases before it.
    let config = Config { cases, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let do_cases = || {
        let outcome = TestRunner::new(config.clone()).run(&steps(), |steps| {
            let mut run = run.borrow_mut();
            steps.iter().for_each(|step| run.step(step));
            run.step(&Step::Restart);
            let expected = rows(&*stores[0]);
            for (at, store) in stores.iter().enumerate() {
                let dir = dirs.get(at).unwrap_or(&nothing);
                let name = store.name();
                assert_eq!(rows(&**store), expected, "{name} holds other rows than {}", stores[0].name());
                let report = check(&**store, dir.path(), &run.accepted).unwrap();
                assert!(report.holds(), "{name}: {report:#?}");
            }
            Ok(())
        });
        outcome.unwrap();
        let run = run.borrow();
        run.accepted.len() > 20 && run.landed.len() > 20
    };
    // Chance may make short cases: then there are more of them.
    assert!((0..20).any(|_| do_cases()), "too little happened");
    let mut run = run.borrow_mut();
    if accounts {
        // Whatever the steps were: an account that does not exist, one that has used up its quota,
        // one that is in a hurry.
        refuses(&mut run);
    }
    std::mem::take(&mut run.refused)
}
