//! Batches of PostgreSQL: many operations in one call do what they do one after the other on mmdb.
//!
//! `model.rs` submits one operation at a time, so that every batch there has one operation. Here
//! they come by the dozen, and meet: several messages for one station, also beyond what its queue
//! takes; several of one account, also beyond its quota and its rate; flights that are ended twice,
//! or by a claim that is over; receipts for one lane; a lane whose flight ends as a receipt for it
//! comes.
#![allow(clippy::unwrap_used)]

mod foreign_server;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use smsc::centre::{
    Channel, Completion, Delivery, Operation, Outcome, Place, Refusal, Rules, Submission, Verdict, receipt,
};
use smsc::check::check;
use smsc::model::{Account, Message, MessageState, SHARDS};
use smsc::store::{Acknowledge, MmdbOptions, Opening, PostgresqlStore, PostgresqlUrl, Row, Store, StoreKind};
use std::cell::RefCell;
use std::collections::BTreeSet;

const SECOND_US: i64 = 1_000_000;
/// Messages that may wait for one station: few, so that queues are full at times.
const QUEUE_MAX: u32 = 9;

/// One message to submit. Numbers choose among what there is.
#[derive(Clone, Debug)]
struct Submit {
    station: u8,
    account: u32,
    priority: u8,
    registered: u8,
    letters: u16,
    scheduled: bool,
}

/// One flight to end: which, how, and with which mistake.
#[derive(Clone, Debug)]
struct End {
    which: usize,
    fate: u8,
    mistake: u8,
}

#[derive(Clone, Debug)]
struct Round {
    submits: Vec<Submit>,
    ends: Vec<End>,
    claims: Vec<(u16, usize)>,
    seconds: u8,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let submit = (0..5u8, 0..4u32, 0..4u8, 0..4u8, 0..400u16, prop::bool::weighted(0.15)).prop_map(
        |(station, account, priority, registered, letters, scheduled)| Submit {
            station,
            account,
            priority,
            registered,
            letters,
            scheduled,
        },
    );
    let end =
        (any::<usize>(), 0..10u8, 0..12u8).prop_map(|(which, fate, mistake)| End { which, fate, mistake });
    let round = (
        prop::collection::vec(submit, 0..30),
        prop::collection::vec(end, 0..12),
        prop::collection::vec((0..SHARDS, 1..9usize), 0..3),
        0..9u8,
    )
        .prop_map(|(submits, ends, claims, seconds)| Round { submits, ends, claims, seconds });
    prop::collection::vec(round, 1..12)
}

/// Accounts: without limits, with a quota, with a rate; the last does not exist.
fn accounts() -> [Account; 3] {
    let limited = |account, quota, rate_max| Account { quota, rate_max, ..Account::unlimited(account) };
    [limited(0, 0, 0), limited(1, 8, 0), limited(2, 0, 3)]
}

/// What the rounds remember.
struct Course {
    now_us: i64,
    accepted: Vec<i64>,
    flights: Vec<Delivery>,
    refused: BTreeSet<String>,
    fenced: usize,
    ended: usize,
}

/// All rows but those that stores keep for themselves, in one order.
fn rows(store: &dyn Store) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    let each = &mut |row| {
        if !matches!(row, Row::IdBlock(_) | Row::Sent(_)) {
            assert!(rows.insert(format!("{row:?}")), "a row twice: {row:?}");
        }
        Ok(())
    };
    store.scan(each).unwrap();
    rows
}

/// The outcomes of all, submitted before any is settled.
fn together(store: &dyn Store, operations: &[Operation]) -> Vec<Outcome> {
    let mut session = store.session(Acknowledge::Durable).unwrap();
    operations.iter().for_each(|operation| session.submit(operation.clone()).unwrap());
    let mut outcomes = Vec::new();
    while outcomes.len() < operations.len() {
        session.settle(&mut outcomes).unwrap();
    }
    outcomes
}

/// The outcomes of each alone.
fn one_by_one(store: &dyn Store, operations: &[Operation]) -> Vec<Outcome> {
    let mut session = store.session(Acknowledge::Durable).unwrap();
    operations.iter().map(|operation| session.call(operation.clone()).unwrap()).collect()
}

fn same(stores: [&dyn Store; 2], operations: &[Operation]) -> Vec<Outcome> {
    let (alone, batched) = (one_by_one(stores[0], operations), together(stores[1], operations));
    for (at, (alone, batched)) in alone.iter().zip(&batched).enumerate() {
        assert_eq!(alone, batched, "{at} of {}: {:?}", operations.len(), operations[at]);
    }
    alone
}

fn submission(submit: &Submit, now_us: i64) -> Operation {
    let message = Message {
        account: submit.account,
        priority: submit.priority,
        registered_delivery: submit.registered,
        schedule_us: if submit.scheduled { now_us + 4 * SECOND_US } else { 0 },
        tlvs: vec![submit.letters as u8; usize::from(submit.station)],
        ..Message::plain(
            "4900".into(),
            format!("4917000{}", submit.station),
            vec![b'a' + submit.station; submit.letters.into()],
            now_us,
            now_us + 60 * SECOND_US,
        )
    };
    // Station 4 is an application, so that flights of lanes and receipts for lanes meet.
    let submission = match submit.station {
        4 => Submission::to_account(message, 0),
        _ => Submission::new(message),
    };
    Operation::Receive(Box::new(submission.unwrap()))
}

fn completion(flight: &Delivery, end: &End, now_us: i64) -> Operation {
    let verdict = match end.fate {
        0..4 => Verdict::Final { state: MessageState::Delivered, error: 0 },
        4 => Verdict::Final { state: MessageState::Undeliverable, error: 1 },
        5..8 => Verdict::Temporary { error: 27, absent: true, retry_us: now_us + 8 * SECOND_US },
        _ => Verdict::Temporary { error: 31, absent: false, retry_us: now_us + 2 * SECOND_US },
    };
    let receipt = match verdict {
        Verdict::Final { state, error } => receipt(&flight.message, state, error, now_us),
        Verdict::Temporary { .. } => None,
    };
    Operation::Complete(Box::new(Completion {
        station: flight.station,
        epoch: flight.epoch - i64::from(end.mistake == 1),
        message: flight.message.clone(),
        verdict,
        receipt,
        now_us,
    }))
}

fn go(course: &mut Course, stores: [&dyn Store; 2], round: &Round) {
    course.now_us += i64::from(round.seconds) * SECOND_US;
    let mut operations = Vec::new();
    for submit in &round.submits {
        course.now_us += 10;
        operations.push(submission(submit, course.now_us));
    }
    for end in &round.ends {
        if course.flights.is_empty() {
            break;
        }
        course.now_us += 10;
        let at = end.which % course.flights.len();
        operations.push(completion(&course.flights[at], end, course.now_us));
        // With the second mistake it is ended a second time.
        if end.mistake == 2 {
            let again = End { fate: end.fate.wrapping_add(5) % 10, ..end.clone() };
            operations.push(completion(&course.flights[at], &again, course.now_us));
        }
        if end.mistake != 1 {
            course.flights.swap_remove(at);
        }
    }
    for &(shard, max) in &round.claims {
        operations.push(Operation::Claim {
            channel: Channel::All(shard),
            spread: 0,
            max,
            now_us: course.now_us,
        });
    }
    for outcome in same(stores, &operations) {
        match outcome {
            Outcome::Received(id) => course.accepted.push(id),
            Outcome::Refused(refusal) => drop(course.refused.insert(refusal.to_string())),
            Outcome::Claimed(flights) => course.flights.extend(flights),
            Outcome::Completed(smsc::centre::CompletionResult::Fenced) => course.fenced += 1,
            Outcome::Completed(_) => course.ended += 1,
            other => panic!("{other:?}"),
        }
    }
    let now_us = course.now_us;
    let timers = [
        Operation::ReleaseScheduled { now_us, max: 100 },
        Operation::WakeDue { now_us, max: 100 },
        Operation::Expire { from: Place::BEGIN, now_us, max: 100 },
    ];
    same(stores, &timers);
}

/// Batches on a private server, or on one that is there already.
fn same_in_batches(with_accounts: bool, by_url: bool) {
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("SKIP: {error}");
        return;
    }
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    let open = |kind: StoreKind, at: usize| {
        let rules = Rules { accounts: with_accounts, queue_max: QUEUE_MAX, ..kind.rules() };
        kind.open(dirs[at].path(), &options, rules).unwrap()
    };
    // It ends after the store.
    let given = if by_url { foreign_server::ForeignServer::start(&[]) } else { None };
    let batched = match &given {
        None => open(StoreKind::PostgresqlBatched, 1),
        Some(given) => {
            let url = PostgresqlUrl::parse(&given.checked_url("owner", "form=batched")).unwrap();
            let rules = Rules { accounts: with_accounts, queue_max: QUEUE_MAX, ..url.kind().rules() };
            Box::new(PostgresqlStore::at(&url, rules, 8, Opening::OrCreate).unwrap())
        }
    };
    let stores = [open(StoreKind::Mmdb, 0), batched];
    let pair = || [&*stores[0], &*stores[1]];
    let course = RefCell::new(Course {
        now_us: 1_800_000_000 * SECOND_US,
        accepted: Vec::new(),
        flights: Vec::new(),
        refused: BTreeSet::new(),
        fenced: 0,
        ended: 0,
    });
    let cases = std::env::var("SMSC_MODEL_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(6);
    let config = Config { cases, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let do_cases = || {
        let ran = TestRunner::new(config.clone()).run(&rounds(), |rounds| {
            let mut course = course.borrow_mut();
            // The quota begins again, so that it ends in every case.
            for account in accounts() {
                let submitted =
                    match one_by_one(&*stores[0], &[Operation::Account(account.account)]).remove(0) {
                        Outcome::Account(Some(account)) => account.submitted,
                        _ => 0,
                    };
                let quota = if account.quota == 0 { 0 } else { account.quota + submitted };
                same(pair(), &[Operation::PutAccount(Box::new(Account { quota, ..account }))]);
            }
            rounds.iter().for_each(|round| go(&mut course, pair(), round));
            assert_eq!(rows(&*stores[1]), rows(&*stores[0]), "other rows");
            let report = check(&*stores[1], dirs[1].path(), &course.accepted).unwrap();
            assert!(report.holds(), "{report:#?}");
            Ok(())
        });
        ran.unwrap();
        let course = course.borrow();
        let mut wanted = vec![Refusal::QueueFull];
        if with_accounts {
            wanted.extend([Refusal::NoSuchAccount, Refusal::QuotaExceeded, Refusal::Throttled]);
        }
        let refused = wanted.iter().all(|refusal| course.refused.contains(&refusal.to_string()));
        refused && course.fenced > 5 && course.ended > 30
    };
    // Chance may make short cases: then there are more of them.
    assert!((0..20).any(|_| do_cases()), "too little happened: {:?}", course.borrow().refused);
}

#[test]
fn batches_do_what_single_operations_do() {
    same_in_batches(false, false);
}

#[test]
fn batches_do_what_single_operations_do_with_accounts() {
    same_in_batches(true, false);
}

/// With fewer locks to a group, as its table of locks is others', too.
#[test]
fn batches_by_url_do_what_single_operations_do() {
    same_in_batches(true, true);
}
