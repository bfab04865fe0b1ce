//! Random steps of a centre, on one store or on several at once.
#![allow(clippy::unwrap_used, dead_code)]

use proptest::prelude::*;
use smsc::centre::{
    Channel, Completion, Delivery, Form, Operation, Outcome, Place, Replacement, Submission, Verdict, receipt,
};
use smsc::model::{Account, Message, SHARDS, State, StationKey};
use smsc::store::{Acknowledge, Store};
use std::collections::BTreeSet;

/// One step. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub enum Step {
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

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
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

pub const ACCOUNT: u32 = 3;
pub const SECOND_US: i64 = 1_000_000;

fn address(station: u8) -> String {
    format!("49170000{station:04}")
}

/// What the steps remember: the same for all stores.
pub struct Run<'a> {
    pub stores: Vec<&'a dyn Store>,
    pub now_us: i64,
    pub accepted: Vec<i64>,
    pub flights: Vec<Delivery>,
    /// Completed before: completing again must be fenced off.
    pub landed: Vec<Delivery>,
    pub next: u32,
    /// Who submits.
    pub account: u32,
    /// Why messages were not accepted.
    pub refused: BTreeSet<String>,
}

impl<'a> Run<'a> {
    /// Nothing has happened yet.
    pub fn new(stores: Vec<&'a dyn Store>) -> Run<'a> {
        Run {
            stores,
            now_us: 1_800_000_000 * SECOND_US,
            accepted: Vec::new(),
            flights: Vec::new(),
            landed: Vec::new(),
            next: 0,
            account: ACCOUNT,
            refused: BTreeSet::new(),
        }
    }
}

impl Run<'_> {
    /// The one outcome that all stores give.
    pub fn all(&self, operation: &Operation) -> Outcome {
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

    pub fn step(&mut self, step: &Step) {
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
                let Outcome::Claimed(flights) =
                    self.all(&Operation::Claim { channel: Channel::All(shard), spread: 0, max, now_us })
                else {
                    panic!("a claim gives messages")
                };
                for flight in flights {
                    let station = flight.station;
                    assert!(
                        self.flights.iter().all(|flight| flight.station != station),
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
                for service_type in [None, Some(String::new()), Some("CMT".into())] {
                    let src = "4900".into();
                    self.all(&Operation::Find { account: ACCOUNT, src, service_type, station, max: 10 });
                }
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
                    form: (letters % 3 == 0).then(|| Form {
                        esm_class: 0,
                        protocol_id: 0x41,
                        data_coding: if letters % 2 == 0 { 8 } else { 4 },
                        tlvs: vec![2, 4, 0, 2, 0, letters as u8],
                    }),
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

    fn message(&self, which: usize) -> i64 {
        if self.accepted.is_empty() { 1 } else { self.accepted[which % self.accepted.len()] }
    }
}
