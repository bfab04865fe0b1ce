//! Random operations on every store at once: all give the same outcomes and end with the same rows, and the invariants hold.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use smsc::centre::{
    Completion, Delivery, Operation, Outcome, Place, Refusal, Replacement, Rules, Submission, Verdict,
    receipt,
};
use smsc::check::check;
use smsc::model::{Account, Message, SHARDS, State, StationKey};
use smsc::store::{Acknowledge, MmdbOptions, Row, Store, StoreKind};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// One step. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Receive { station: u8, priority: u8, registered: u8, letters: u16, scheduled: bool, valid: u8 },
    Claim { shard: u16, max: usize },
    Complete { which: usize, fate: u8, again: bool },
    Alert { station: u8 },
    Timers,
    Pass { seconds: u8 },
    Query { which: usize },
    Find { station: u8 },
    Cancel { which: usize },
    Replace { which: usize, letters: u16 },
    Limit { quota: u8, rate: u8 },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6u8, 0..4u8, 0..4u8, 0..400u16, prop::bool::weighted(0.15), 1..60u8).prop_map(
            |(station, priority, registered, letters, scheduled, valid)| Step::Receive {
                station, priority, registered, letters, scheduled, valid
            }
        ),
        4 => (0..SHARDS, 1..4usize).prop_map(|(shard, max)| Step::Claim { shard, max }),
        5 => (any::<usize>(), 0..10u8, prop::bool::weighted(0.1))
            .prop_map(|(which, fate, again)| Step::Complete { which, fate, again }),
        1 => (0..6u8).prop_map(|station| Step::Alert { station }),
        2 => Just(Step::Timers),
        2 => (0..20u8).prop_map(|seconds| Step::Pass { seconds }),
        1 => any::<usize>().prop_map(|which| Step::Query { which }),
        1 => (0..6u8).prop_map(|station| Step::Find { station }),
        1 => any::<usize>().prop_map(|which| Step::Cancel { which }),
        1 => (any::<usize>(), 0..400u16).prop_map(|(which, letters)| Step::Replace { which, letters }),
        1 => (prop_oneof![3 => Just(0), 1 => any::<u8>()], prop_oneof![3 => Just(0), 1 => 1..9u8])
            .prop_map(|(quota, rate)| Step::Limit { quota, rate }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

const ACCOUNT: u32 = 3;
const SECOND_US: i64 = 1_000_000;

fn address(station: u8) -> String {
    format!("49170000{station:04}")
}

/// What the steps remember: the same for all stores.
struct Run<'a> {
    stores: Vec<&'a dyn Store>,
    now_us: i64,
    accepted: Vec<i64>,
    flights: Vec<Delivery>,
    /// Completed before: completing again must be fenced off.
    landed: Vec<Delivery>,
    next: u32,
    /// Who submits.
    account: u32,
    /// Why messages were not accepted.
    refused: BTreeSet<String>,
}

impl Run<'_> {
    /// The one outcome that all stores give.
    fn all(&self, operation: &Operation) -> Outcome {
        let outcomes = self.stores.iter().map(|store| {
            let outcome = store.session(Acknowledge::Durable).unwrap().call(operation.clone()).unwrap();
            (store.name(), outcome)
        });
        let outcomes: Vec<_> = outcomes.collect();
        for (name, outcome) in &outcomes[1..] {
            assert_eq!(outcome, &outcomes[0].1, "{name} and {} disagree on {operation:?}", outcomes[0].0);
        }
        outcomes.into_iter().next().unwrap().1
    }

    fn step(&mut self, step: &Step) {
        // Two steps never happen at once, so every store sees the same times.
        self.now_us += 10;
        let now_us = self.now_us;
        match *step {
            Step::Receive { station, priority, registered, letters, scheduled, valid } => {
                self.next += 1;
                let body = vec![b'a' + station; letters.into()];
                let expire_us = now_us + (i64::from(valid) + 5) * SECOND_US;
                let submission = Submission::new(Message {
                    account: self.account,
                    priority,
                    registered_delivery: registered,
                    schedule_us: if scheduled { now_us + 5 * SECOND_US } else { 0 },
                    tlvs: vec![letters as u8; usize::from(station)],
                    ..Message::plain("4900".into(), address(station), body, now_us, expire_us)
                });
                match self.all(&Operation::Receive(Box::new(submission.unwrap()))) {
                    Outcome::Received(id) => self.accepted.push(id),
                    Outcome::Refused(refusal) => {
                        self.refused.insert(refusal.to_string());
                    }
                    other => panic!("{other:?}"),
                }
            }
            Step::Claim { shard, max } => {
                let Outcome::Claimed(flights) = self.all(&Operation::Claim { shard, spread: 0, max, now_us })
                else {
                    panic!("a claim gives messages")
                };
                for flight in flights {
                    let station = flight.station;
                    assert!(
                        self.flights.iter().all(|it| it.station != station),
                        "two in flight for {station}"
                    );
                    self.flights.push(flight);
                }
            }
            Step::Complete { which, fate, again } => {
                let from = if again { &mut self.landed } else { &mut self.flights };
                if from.is_empty() {
                    return;
                }
                let at = which % from.len();
                let flight = from.swap_remove(at);
                let verdict = match fate {
                    0..4 => Verdict::Final { state: State::Delivered, error: 0 },
                    4 => Verdict::Final { state: State::Undeliverable, error: 1 },
                    5..8 => Verdict::Temporary { error: 27, absent: true, retry_us: now_us + 8 * SECOND_US },
                    _ => Verdict::Temporary { error: 31, absent: false, retry_us: now_us + 2 * SECOND_US },
                };
                let receipt = match verdict {
                    Verdict::Final { state, error } => receipt(&flight.message, state, error, now_us),
                    Verdict::Temporary { .. } => None,
                };
                let (station, epoch, message) = (flight.station, flight.epoch, flight.message.clone());
                self.all(&Operation::Complete(Box::new(Completion {
                    station,
                    epoch,
                    message,
                    verdict,
                    receipt,
                    now_us,
                })));
                self.landed.push(flight);
            }
            Step::Alert { station } => {
                let station = StationKey::of_address(&address(station)).unwrap();
                self.all(&Operation::Alert { station, now_us });
            }
            Step::Timers => {
                self.all(&Operation::ReleaseScheduled { now_us, max: 100 });
                self.all(&Operation::WakeDue { now_us, max: 100 });
                self.all(&Operation::Expire { from: Place::BEGIN, now_us, max: 100 });
            }
            Step::Pass { seconds } => {
                self.all(&Operation::NextDue);
                self.now_us += i64::from(seconds) * SECOND_US;
            }
            Step::Query { which } => {
                let msg_id = self.message(which);
                self.all(&Operation::Query { account: ACCOUNT, msg_id });
                self.all(&Operation::Query { account: ACCOUNT + 1, msg_id });
            }
            Step::Find { station } => {
                let station = StationKey::of_address(&address(station)).unwrap();
                self.all(&Operation::Find { account: ACCOUNT, src: "4900".into(), station, max: 10 });
            }
            Step::Cancel { which } => {
                self.all(&Operation::Cancel { account: ACCOUNT, msg_id: self.message(which), now_us });
            }
            Step::Replace { which, letters } => {
                self.all(&Operation::Replace(Box::new(Replacement {
                    account: ACCOUNT,
                    msg_id: self.message(which),
                    body: vec![b'z'; letters.into()],
                    // Some of them before what is scheduled is due.
                    expire_us: (letters % 2 == 0).then_some(now_us + i64::from(letters % 20) * SECOND_US),
                    registered_delivery: 1,
                })));
            }
            Step::Limit { quota, rate } => {
                let limits =
                    Account { quota: quota.into(), rate_max: rate.into(), ..Account::unlimited(ACCOUNT) };
                self.all(&Operation::PutAccount(Box::new(limits)));
                self.all(&Operation::Account(ACCOUNT));
            }
            Step::Restart => {
                self.all(&Operation::FreeLeases { now_us, until_us: i64::MAX, max: 1000 });
                self.landed.append(&mut self.flights);
            }
        }
    }

    /// Submits one message as this account with these limits, if any; the account's row then.
    fn submit_as(&mut self, account: u32, limits: Option<(i64, u32)>) -> Option<Account> {
        if let Some((quota, rate_max)) = limits {
            let limits = Account { quota, rate_max, ..Account::unlimited(account) };
            self.all(&Operation::PutAccount(Box::new(limits)));
        }
        self.account = account;
        let (station, priority, registered, letters) = (9, 0, 0, 10);
        self.step(&Step::Receive { station, priority, registered, letters, scheduled: false, valid: 60 });
        self.account = ACCOUNT;
        match self.all(&Operation::Account(account)) {
            Outcome::Account(row) => row,
            other => panic!("{other:?}"),
        }
    }

    /// Each limit of an account holds, counts what is accepted and nothing else, and ends with its second or when it is raised.
    fn refuses(&mut self) {
        self.refused.clear();
        let submitted = |row: Option<Account>| row.map(|it| it.submitted);
        let begin = self.accepted.len();
        assert_eq!(submitted(self.submit_as(90, None)), None);
        for expected in [1, 2, 2] {
            assert_eq!(submitted(self.submit_as(91, Some((2, 0)))), Some(expected));
        }
        assert_eq!(submitted(self.submit_as(91, Some((3, 0)))), Some(3));
        // The next second begins.
        self.now_us += SECOND_US - self.now_us % SECOND_US;
        for expected in [1, 1] {
            assert_eq!(submitted(self.submit_as(92, Some((0, 1)))), Some(expected));
        }
        self.now_us += SECOND_US;
        assert_eq!(submitted(self.submit_as(92, None)), Some(2));
        assert_eq!(self.accepted.len() - begin, 5);
    }

    fn message(&self, which: usize) -> i64 {
        if self.accepted.is_empty() { 1 } else { self.accepted[which % self.accepted.len()] }
    }
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

/// A message of an account is refused for the same reasons and counted alike, also in PostgreSQL's function.
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
    let stores: Vec<Box<dyn Store>> = kinds.iter().zip(&dirs).map(open).collect();
    let run = RefCell::new(Run {
        stores: stores.iter().map(|it| &**it).collect(),
        now_us: 1_800_000_000 * SECOND_US,
        accepted: Vec::new(),
        flights: Vec::new(),
        landed: Vec::new(),
        next: 0,
        account: ACCOUNT,
        refused: BTreeSet::new(),
    });
    // What comes before the first limit is accepted.
    let unlimited = Box::new(Account::unlimited(ACCOUNT));
    run.borrow().all(&Operation::PutAccount(unlimited));
    let cases = std::env::var("SMSC_MODEL_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(6);
    // A case cannot be shrunk without the cases before it.
    let config = Config { cases, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let do_cases = || {
        let outcome = TestRunner::new(config.clone()).run(&steps(), |steps| {
            let mut run = run.borrow_mut();
            steps.iter().for_each(|step| run.step(step));
            run.step(&Step::Restart);
            let expected = rows(&*stores[0]);
            for (store, dir) in stores.iter().zip(&dirs) {
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
        // Whatever the steps were: an account that does not exist, one that has used up its quota, one that is in a hurry.
        run.refuses();
    }
    std::mem::take(&mut run.refused)
}
