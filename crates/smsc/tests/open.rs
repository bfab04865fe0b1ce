//! Open loops on every store: a session is asked for what has ended without being waited for.
#![allow(clippy::unwrap_used)]

use smsc::bench::measure;
use smsc::centre::{Operation, Outcome};
use smsc::housekeeping::recover;
use smsc::load::{Bodies, Clock, LoadProfile, Messages, Pace, Plan, Side};
use smsc::store::{Acknowledge, MmdbOptions, StoreKind};
use std::time::{Duration, Instant};

fn options() -> MmdbOptions {
    // Filling segments of the usual size with zeros would take longer than the runs.
    MmdbOptions { segment_mib: 1, ..MmdbOptions::default() }
}

/// The stores that this machine has.
fn kinds() -> impl Iterator<Item = StoreKind> {
    let server = postgresql_server::find_programs(None).inspect_err(|error| eprintln!("skipped: {error}"));
    StoreKind::ALL.into_iter().filter(move |kind| server.is_ok() || !kind.has_server())
}

/// Outcomes come in the order of submission, each once, whether they are waited for, asked for, or
/// both in turn.
#[test]
fn what_is_asked_for_comes_as_what_is_waited_for() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path(), &options(), kind.rules()).unwrap();
        let now_us = Clock::default().now_us();
        recover(&*store, now_us).unwrap();
        let profile = LoadProfile { stations: 1, ..LoadProfile::default() };
        let bodies = Bodies::new(&profile);
        let mut messages = Messages::new(&profile, &bodies, 0);
        for acknowledge in [Acknowledge::Durable, Acknowledge::Early] {
            let mut session = store.session(acknowledge).unwrap();
            let mut outcomes = Vec::new();
            for number in 0..60 {
                let submission = messages.next(now_us).unwrap();
                session.submit(Operation::Receive(Box::new(submission))).unwrap();
                if number < 40 {
                    // Over, or so short that it is over in the middle of some answers.
                    let deadline = Instant::now() + Duration::from_micros(number % 4 * 50);
                    session.settle_until(&mut outcomes, deadline).unwrap();
                } else if number == 45 && outcomes.len() < 46 {
                    session.settle(&mut outcomes).unwrap();
                }
            }
            let far = Instant::now() + Duration::from_secs(3600);
            while outcomes.len() < 60 {
                let before = outcomes.len();
                session.settle_until(&mut outcomes, far).unwrap();
                assert!(outcomes.len() > before, "{}: came back with nothing", kind.name());
            }
            let number = |outcome: &Outcome| match outcome {
                Outcome::Received(msg_id) => *msg_id,
                other => panic!("{}: {other:?}", kind.name()),
            };
            let numbers: Vec<i64> = outcomes.iter().map(number).collect();
            assert!(
                numbers.len() == 60 && numbers.is_sorted_by(|a, b| a < b),
                "{}: {numbers:?}",
                kind.name()
            );
            // Other operations than those of messages go on in between.
            let due = session.call(Operation::NextDue).unwrap();
            assert!(matches!(due, Outcome::Due(Some(_))), "{}: {due:?}", kind.name());
        }
    }
}

#[test]
fn every_store_takes_an_open_loop_with_a_burst() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan {
            side: Side::Receiver,
            receivers: 3,
            window: 32,
            messages: 0,
            seconds: 1.0,
            pace: Pace::Open { rate: 150.0, burst: 4.0 },
            keep_accepted: true,
            ..Plan::default()
        };
        let measured = measure(dir.path(), kind, &options(), &plan, true, &mut |_| true).unwrap();
        let counted = measured.figures;
        // 195 are due; six standard deviations.
        assert!((111..=279).contains(&counted.offered()), "{}: {counted:?}", kind.name());
        assert_eq!(counted.accepted + counted.not_submitted, counted.offered(), "{}", kind.name());
        assert_eq!((measured.violations, measured.checked.contains(&"I6")), (Some(0), true));
        let (late_ms, accept_ms) = (measured.late_ms.unwrap(), measured.accept_ms.unwrap());
        // They were zeros, which is the time of something.
        assert_eq!((measured.send_ms, measured.deliver_ms), (None, None));
        // How late a message is submitted is part of how long it takes.
        assert!(late_ms[5] > 0.0 && late_ms[5] <= accept_ms[5], "{late_ms:?} {accept_ms:?}");
    }
}
