//! A centre that is started with a clock that is behind the one before: what waits is delivered all
//! the same. It waited until the time came again at which it had been accepted, or was to be tried
//! again: a clock that was three days ahead, and was put right, kept all messages for three days.
#![allow(clippy::unwrap_used)]

mod common;

use common::{ACCOUNT, NOW_US, SECOND_US, message, receive, stores};
use smsc::centre::{Channel, Completion, Delivery, Operation, Outcome, Submission, Verdict};
use smsc::check::check;
use smsc::housekeeping::{catch_up, recover};
use smsc::model::StationKey;
use smsc::store::{Acknowledge, Session};

const DAY_US: i64 = 86_400 * SECOND_US;

fn claim(session: &mut dyn Session, channel: Channel, now_us: i64) -> Vec<Delivery> {
    match session.call(Operation::Claim { channel, spread: 0, max: 600, now_us }).unwrap() {
        Outcome::Claimed(deliveries) => deliveries,
        other => panic!("{other:?}"),
    }
}

/// It is tried again in ten minutes.
fn try_again(session: &mut dyn Session, delivery: Delivery, absent: bool) {
    let Delivery { station, epoch, message, .. } = delivery;
    let verdict = Verdict::Temporary { error: 27, absent, retry_us: NOW_US + 600 * SECOND_US };
    let completion = Completion { station, epoch, message, verdict, receipt: None, now_us: NOW_US };
    let completed = session.call(Operation::Complete(Box::new(completion))).unwrap();
    assert!(matches!(completed, Outcome::Completed(_)), "{completed:?}");
}

#[test]
fn what_waits_is_delivered_by_a_clock_that_is_behind() {
    stores(&|store, dir| {
        let mut session = store.session(Acknowledge::Durable).unwrap();
        // Three mobiles that wait for another attempt, and many that are ready.
        (0..3).for_each(|station| _ = receive(&mut *session, message(station, b"waits")));
        for (at, delivery) in claim(&mut *session, Channel::Mobiles(0), NOW_US).into_iter().enumerate() {
            try_again(&mut *session, delivery, at == 0);
        }
        (3..600).for_each(|station| _ = receive(&mut *session, message(station, b"ready")));
        // An application that has refused one for now.
        let lane = StationKey::of_source(ACCOUNT, "4900");
        let submission = Submission::to_account(message(600, b"waits"), ACCOUNT).unwrap();
        session.call(Operation::Receive(Box::new(submission))).unwrap();
        for delivery in claim(&mut *session, Channel::Stations(vec![lane]), NOW_US) {
            try_again(&mut *session, delivery, false);
        }
        drop(session);
        let back_us = NOW_US - 3 * DAY_US;
        recover(store, back_us).unwrap();
        assert_eq!(catch_up(store, back_us).unwrap(), 601, "{}", store.name());
        assert_eq!(catch_up(store, back_us).unwrap(), 0, "{}", store.name());
        let report = check(store, dir, &[]).unwrap();
        assert!(report.holds(), "{}: {report:#?}", store.name());
        let mut session = store.session(Acknowledge::Durable).unwrap();
        assert_eq!(claim(&mut *session, Channel::Mobiles(0), back_us).len(), 600, "{}", store.name());
        let of_lane = claim(&mut *session, Channel::Stations(vec![lane]), back_us);
        assert_eq!(of_lane.len(), 1, "{}", store.name());
    });
}

/// A clock that goes on: nobody is tried earlier than was meant.
#[test]
fn what_waits_for_its_time_goes_on_waiting() {
    stores(&|store, _| {
        let mut session = store.session(Acknowledge::Durable).unwrap();
        receive(&mut *session, message(0, b"waits"));
        for delivery in claim(&mut *session, Channel::Mobiles(0), NOW_US) {
            try_again(&mut *session, delivery, true);
        }
        drop(session);
        assert_eq!(catch_up(store, NOW_US + SECOND_US).unwrap(), 0, "{}", store.name());
    });
}
