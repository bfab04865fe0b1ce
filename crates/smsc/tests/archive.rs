//! Messages that the Flusher has moved are found in the archive, while it goes on, after a restart, and by nobody else's account.
#![allow(clippy::unwrap_used)]

use smsc::centre::{Archive, Operation, Outcome, Refusal, Rules, flush, recover, status};
use smsc::load::{Clock, Figures, LoadProfile, Plan, Side, run};
use smsc::model::State;
use smsc::network::NetworkProfile;
use smsc::store::{Acknowledge, MmdbOptions, MmdbStore, Row, Store};
use std::path::Path;

const ACCOUNTS: u32 = 3;

fn open(dir: &Path) -> MmdbStore {
    MmdbStore::open(dir, &MmdbOptions { segment_mib: 1, ..MmdbOptions::default() }, Rules::default()).unwrap()
}

/// The owner of each message: whose query finds it.
fn check_all(store: &dyn Store, archive: &Archive, accepted: &[i64]) -> Vec<State> {
    let reader = archive.reader().unwrap();
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let mut states = Vec::new();
    for &id in accepted {
        let mut found = Vec::new();
        for account in 0..ACCOUNTS {
            match status(&mut *session, Some(&reader), account, id).unwrap() {
                Ok(it) => found.push(it),
                Err(refusal) => assert_eq!(refusal, Refusal::NoSuchMessage),
            }
        }
        assert_eq!(found.len(), 1, "message {id} belongs to one account");
        assert!(found[0].done_us > 0, "{found:?}");
        states.push(found[0].state);
    }
    states
}

#[test]
fn a_message_that_was_archived_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    recover(&store, Clock::default().now_us()).unwrap();
    let mut archive = Archive::open(dir.path()).unwrap();
    let plan = Plan {
        side: Side::Both,
        receivers: 2,
        senders: 2,
        window: 16,
        // More than one stretch of the archive.
        messages: 3000,
        load: LoadProfile {
            stations: 700,
            accounts: ACCOUNTS,
            receipt_percent: 20,
            ..LoadProfile::default()
        },
        network: NetworkProfile { unknown: 1000, ..NetworkProfile::perfect(1) },
        keep_accepted: true,
        ..Plan::default()
    };
    let ran = run(&store, &plan, &Figures::default(), Some(&mut archive), &mut |_| true).unwrap();
    // What the Flusher has left.
    let mut session = store.session(Acknowledge::Durable).unwrap();
    while flush(&mut *session, &mut archive, 100).unwrap() > 0 {}
    let mut left = 0;
    store
        .scan(&mut |row| {
            left += usize::from(matches!(row, Row::Message(_)));
            Ok(())
        })
        .unwrap();
    assert_eq!(left, 0, "every message is archived");
    let query = Operation::Query { account: 0, msg_id: ran.accepted[0] };
    assert_eq!(
        session.call(query).unwrap(),
        Outcome::Refused(Refusal::NoSuchMessage),
        "the store has it no more"
    );
    let states = check_all(&store, &archive, &ran.accepted);
    assert!(states.contains(&State::Delivered) && states.contains(&State::Undeliverable));
    let reader = archive.reader().unwrap();
    assert_eq!(status(&mut *session, Some(&reader), 0, i64::MAX).unwrap(), Err(Refusal::NoSuchMessage));
    let of_receipt = |id: &i64| reader.find(*id).unwrap().is_some_and(|it| it.receipt_of != 0);
    let receipt = (1..10_000).find(of_receipt).unwrap();
    for account in 0..ACCOUNTS {
        let status = status(&mut *session, Some(&reader), account, receipt).unwrap();
        assert_eq!(status, Err(Refusal::NoSuchMessage), "a receipt is nobody's message");
    }
    drop(session);
    drop(store);
    let store = open(dir.path());
    assert_eq!(
        check_all(&store, &Archive::open(dir.path()).unwrap(), &ran.accepted),
        states,
        "after a restart"
    );
}
