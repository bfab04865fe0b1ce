//! Messages whose validity has ended: all of them are found, wherever they wait, and they keep
//! nobody else from being delivered.
#![allow(clippy::unwrap_used)]

mod common;

use common::stores;
use smsc::centre::{Channel, Operation, Outcome, Place, Submission};
use smsc::check::check;
use smsc::model::{Message, StationKey};
use smsc::store::{Acknowledge, Session};

const NOW_US: i64 = 1_800_000_000_000_000;
/// When what is valid for short expires, and when the rest does.
const SHORT_US: i64 = NOW_US + 1_000_000;
const LONG_US: i64 = NOW_US + 1_000_000_000;

fn message(station: usize, submit_us: i64, expire_us: i64) -> Operation {
    let dst = format!("49170{station:07}");
    let plain = Message::plain("4900".into(), dst, b"hello".to_vec(), submit_us, expire_us);
    let submission = Submission::new(plain);
    Operation::Receive(Box::new(submission.unwrap()))
}

fn receive(session: &mut dyn Session, operations: impl Iterator<Item = Operation>) {
    let mut outcomes = Vec::new();
    let mut under_way = 0;
    for operation in operations {
        session.submit(operation).unwrap();
        under_way += 1;
    }
    while outcomes.len() < under_way {
        session.settle(&mut outcomes).unwrap();
    }
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Received(_))));
}

/// More than one stretch of a sweep, with limits that end it in the middle of one, two messages for
/// every third station.
#[test]
fn sweeps_end_what_has_expired_and_nothing_else() {
    stores(&|store, dir| {
        let mut session = store.session(Acknowledge::Durable).unwrap();
        let all = (0..5000usize).flat_map(|station| {
            let expire_us = if station % 7 == 0 { SHORT_US } else { LONG_US };
            let second = (station % 3 == 0).then(|| message(station, NOW_US, SHORT_US));
            [Some(message(station, NOW_US, expire_us)), second].into_iter().flatten()
        });
        receive(&mut *session, all);
        let expected = (0..5000).filter(|number| number % 7 == 0).count()
            + (0..5000).filter(|number| number % 3 == 0).count();
        let mut sweep = |now_us| {
            let (mut place, mut ended, mut stretches) = (Place::BEGIN, 0, 0);
            loop {
                let operation = Operation::Expire { from: place, now_us, max: 300 };
                let Outcome::Swept { count, next, .. } = session.call(operation).unwrap() else { panic!() };
                (ended, stretches) = (ended + count, stretches + 1);
                match next {
                    Some(next) => place = next,
                    None => return (ended, stretches),
                }
            }
        };
        assert_eq!(sweep(SHORT_US - 1), (0, 2), "{}", store.name());
        let (ended, stretches) = sweep(SHORT_US);
        assert_eq!(ended, expected, "{}", store.name());
        assert!(stretches > expected / 300, "{}", store.name());
        assert_eq!(sweep(SHORT_US).0, 0, "{}", store.name());
        let report = check(store, dir, &[]).unwrap();
        assert!(report.holds(), "{}: {report:#?}", store.name());
        assert_eq!((report.finished as usize, report.live as usize), (expected, 6667 - expected));
    });
}

/// Hundreds of stations whose first message has expired stand before one whose message has not.
#[test]
fn what_has_expired_is_not_delivered_and_hides_nothing() {
    stores(&|store, _| {
        let mut session = store.session(Acknowledge::Durable).unwrap();
        receive(&mut *session, (0..500).map(|station| message(station, NOW_US, SHORT_US)));
        receive(&mut *session, std::iter::once(message(999_999, NOW_US + 1, LONG_US)));
        let wanted = StationKey::of_address("491700999999").unwrap();
        let found = (0..100).find_map(|turn| {
            let claim =
                Operation::Claim { channel: Channel::All(0), spread: 0, max: 1, now_us: SHORT_US + turn };
            match session.call(claim).unwrap() {
                Outcome::Claimed(deliveries) => deliveries.into_iter().next(),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(found.map(|delivery| delivery.station), Some(wanted), "{}", store.name());
    });
}
