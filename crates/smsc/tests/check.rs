//! Each invariant can be seen to be violated: a store that was damaged in one way, and what the
//! check says of it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{ACCOUNT, NOW_US, SECOND_US, message, receive};
use smsc::centre::{Archive, Channel, Completion, Operation, Outcome, Rules, Verdict, receipt};
use smsc::check::{AcceptedMessages, Report, check, check_accepted};
use smsc::model::{Message, SHARDS, State};
use smsc::store::{
    Acknowledge, Durability, EachRow, MmdbOptions, MmdbStore, Session, SqliteStore, Store, StoreError,
};
use std::path::Path;

fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir, true, Rules { has_flusher: false, ..Rules::default() }).unwrap()
}

/// What is in [`made`].
struct Ids {
    /// Delivered to one station, in this order.
    delivered: [i64; 2],
    /// Delivered, with receipts that are queued.
    told: [i64; 2],
    /// In flight, and the next for the same station, which has two parts.
    flying: i64,
    next: i64,
    /// Its station was absent.
    waiting: i64,
    scheduled: i64,
}

impl Ids {
    fn all(&self) -> Vec<i64> {
        let Ids { delivered: [a, b], told: [c, d], flying, next, waiting, scheduled } = *self;
        vec![a, b, c, d, flying, next, waiting, scheduled]
    }
}

/// Claims what is ready, so many messages, and ends their flight so, if at all.
fn send(session: &mut dyn Session, count: usize, verdict: Option<Verdict>, now_us: i64) {
    let claim = Operation::Claim { channel: Channel::All(0), spread: 0, max: usize::from(SHARDS), now_us };
    let Outcome::Claimed(deliveries) = session.call(claim).unwrap() else { panic!("messages") };
    assert_eq!(deliveries.len(), count);
    for delivery in deliveries {
        let Some(verdict) = verdict else { return };
        let message = delivery.message;
        let receipt = receipt(&message, State::Delivered, 0, now_us);
        let (station, epoch) = (delivery.station, delivery.epoch);
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        session.call(Operation::Complete(Box::new(completion))).unwrap();
    }
}

/// A store with something of everything.
fn made(dir: &Path) -> Ids {
    let store = open(dir);
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let session = &mut *session;
    let good = Some(Verdict::Final { state: State::Delivered, error: 0 });
    let mut delivered = |step: i64, message: Message| {
        let id = receive(session, message);
        send(session, 1, good, NOW_US + step);
        id
    };
    let first = [delivered(1, message(1, b"one")), delivered(2, message(1, b"two"))];
    let absent = Verdict::Temporary { error: 27, absent: true, retry_us: NOW_US + 90 * SECOND_US };
    let waiting = receive(session, message(3, b"waiting"));
    send(session, 1, Some(absent), NOW_US + 3);
    let flying = receive(session, message(2, b"flying"));
    send(session, 1, None, NOW_US + 3);
    let next = receive(session, message(2, &[b'x'; 200]));
    let scheduled =
        receive(session, Message { schedule_us: NOW_US + 99 * SECOND_US, ..message(5, b"later") });
    // The last, as their receipts are ready then.
    let told = [4, 5]
        .map(|station| receive(session, Message { registered_delivery: 1, ..message(station, b"told") }));
    send(session, 2, good, NOW_US + 4);
    Ids { delivered: first, told, flying, next, waiting, scheduled }
}

/// What the check says of a store in which `sql` was done.
fn after(sql: impl Fn(&Ids) -> String) -> (Ids, Report) {
    let dir = tempfile::tempdir().unwrap();
    let ids = made(dir.path());
    let database = rusqlite::Connection::open(dir.path().join("smsc.db")).unwrap();
    let sql = sql(&ids);
    database.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    drop(database);
    let report = check(&open(dir.path()), dir.path(), &[]).unwrap();
    (ids, report)
}

/// The one violation is this.
fn tells(sql: impl Fn(&Ids) -> String, said: impl Fn(&Ids) -> String) {
    let (ids, report) = after(&sql);
    let (sql, said) = (sql(&ids), said(&ids));
    assert!(report.count == 1 && report.violations[0].contains(&said), "{sql}\nwanted: {said}\n{report:#?}");
}

#[test]
fn an_undamaged_store_holds() {
    let (_, report) = after(|_| String::new());
    assert!(report.holds(), "{report:#?}");
    // The two that were told of have receipts, which are no messages of anybody.
    assert_eq!((report.live, report.finished, report.receipts), (4, 4, 2));
}

#[test]
fn rows_that_are_not_those_of_a_messages_state_are_told() {
    tells(
        |ids| {
            format!(
                "DELETE FROM to_delivery WHERE msg_id = {}; UPDATE ms_state SET queue = 1 WHERE current_msg = {}",
                ids.next, ids.flying
            )
        },
        |ids| format!("I1: message {} is Enroute and has 0 rows in to_delivery", ids.next),
    );
    tells(
        |ids| format!("DELETE FROM scheduled_msg WHERE msg_id = {}", ids.scheduled),
        |ids| format!("I1: message {} is Scheduled", ids.scheduled),
    );
    tells(
        |ids| format!("UPDATE scheduled_msg SET due_us = 1 WHERE msg_id = {}", ids.scheduled),
        |ids| format!("I1: a row of scheduled_msg contradicts message {}", ids.scheduled),
    );
    tells(
        |_| {
            "INSERT INTO encoded_msg SELECT 999999, part, alphabet, has_header, user_data_length, octets FROM encoded_msg LIMIT 1".into()
        },
        |_| "I1: encoded_msg names message 999999, which does not exist".into(),
    );
}

/// Parts were counted and never looked at: a replacement that left the old ones would not have been
/// noticed.
#[test]
fn parts_that_are_not_those_of_the_body_are_told() {
    let others = |ids: &Ids| format!("I1: the 2 parts of message {} are not those of its body", ids.next);
    for change in [
        "octets = x'0500030002010000' WHERE part = 1 AND",
        "user_data_length = user_data_length - 1 WHERE part = 2 AND",
        "alphabet = 1 WHERE part = 2 AND",
        "has_header = 0 WHERE part = 1 AND",
        "part = 3 WHERE part = 2 AND",
    ] {
        tells(|ids| format!("UPDATE encoded_msg SET {change} msg_id = {}", ids.next), others);
    }
    tells(
        |ids| format!("UPDATE message SET body = x'61' WHERE msg_id = {}", ids.waiting),
        |ids| format!("I1: the 1 parts of message {} are not those of its body", ids.waiting),
    );
    tells(
        |ids| format!("DELETE FROM encoded_msg WHERE part = 2 AND msg_id = {}", ids.next),
        |_| "1 of 2 parts".into(),
    );
    tells(
        |ids| {
            format!(
                "UPDATE message SET body = x'80' WHERE msg_id = {}; DELETE FROM encoded_msg WHERE msg_id = {0}; UPDATE message SET parts = 0 WHERE msg_id = {0}",
                ids.waiting
            )
        },
        |ids| format!("I1: the body of message {} cannot be sent: octet 0", ids.waiting),
    );
}

#[test]
fn a_flight_that_cannot_be_is_told() {
    // Nothing in flight although busy; a message of another station; one in flight although not
    // busy.
    tells(
        |_| "UPDATE ms_state SET current_msg = 0 WHERE state = 2".into(),
        |_| "I2: Station { dst_key: 491700000002".into(),
    );
    tells(
        |ids| format!("UPDATE ms_state SET current_msg = {} WHERE state = 2", ids.waiting),
        |_| "I2: Station { dst_key: 491700000002".into(),
    );
    tells(
        |ids| {
            format!(
                "UPDATE ms_state SET current_msg = {0} WHERE dst_key = (SELECT dst_key FROM message WHERE msg_id = {0})",
                ids.waiting
            )
        },
        |_| "I2: Station { dst_key: 491700000003".into(),
    );
}

#[test]
fn another_order_than_that_of_acceptance_is_told() {
    let said = |ids: &Ids| {
        let [first, second] = ids.delivered;
        format!("I3: station 491700000001 got message {second} before message {first}")
    };
    tells(
        |ids| format!("UPDATE message SET done_us = {} WHERE msg_id = {}", NOW_US + 3, ids.delivered[0]),
        said,
    );
    // What waited for its time, or has another priority, may come later.
    for excused in ["schedule_us = submit_us + 1", "priority = 1"] {
        let (_, report) = after(|ids| {
            format!(
                "UPDATE message SET {excused}, done_us = {} WHERE msg_id = {}",
                NOW_US + 3,
                ids.delivered[0]
            )
        });
        assert!(report.holds(), "{report:#?}");
    }
}

/// A centre whose clock was a day ahead, and is right since its next start, delivers in order all
/// the same: its times do not rise, which was told as another order.
#[test]
fn a_clock_that_was_set_back_is_no_other_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let good = Some(Verdict::Final { state: State::Delivered, error: 0 });
    for now_us in [NOW_US + 86_400 * SECOND_US, NOW_US] {
        let expire_us = now_us + 3600 * SECOND_US;
        receive(&mut *session, Message { submit_us: now_us, expire_us, ..message(1, b"x") });
        send(&mut *session, 1, good, now_us);
    }
    drop(session);
    let report = check(&store, dir.path(), &[]).unwrap();
    assert!(report.holds() && report.finished == 2, "{report:#?}");
}

#[test]
fn a_queue_that_nobody_looks_after_is_told() {
    tells(
        |_| "UPDATE ms_state SET state = 0 WHERE state = 4; DELETE FROM retry_timer".into(),
        |_| "I4: Station { dst_key: 491700000003".into(),
    );
    tells(|_| "DELETE FROM retry_timer".into(), |_| "I4: Station { dst_key: 491700000003".into());
    tells(|_| "UPDATE retry_timer SET epoch = 9".into(), |_| "I4: the timers [".into());
    tells(|_| "UPDATE ms_state SET queue = 9 WHERE state = 2".into(), |_| "has 2 messages queued".into());
    tells(
        |_| "DELETE FROM ms_state WHERE state = 2".into(),
        |_| "I4: 2 messages wait for station 491700000002, which has no row".into(),
    );
}

#[test]
fn receipts_too_many_and_too_few_are_told() {
    tells(
        |ids| format!("UPDATE message SET registered_delivery = 1 WHERE msg_id = {}", ids.delivered[0]),
        |ids| format!("I5: message {} has 0 receipts, 1 due", ids.delivered[0]),
    );
    tells(
        |ids| format!("UPDATE message SET registered_delivery = 0 WHERE msg_id = {}", ids.told[0]),
        |ids| format!("I5: message {} has 1 receipts, 0 due", ids.told[0]),
    );
    // Failure only, and it was delivered.
    tells(
        |ids| format!("UPDATE message SET registered_delivery = 2 WHERE msg_id = {}", ids.told[0]),
        |ids| format!("I5: message {} has 1 receipts, 0 due", ids.told[0]),
    );
    let (ids, report) = after(|ids| {
        format!("UPDATE message SET receipt_of = {} WHERE receipt_of = {}", ids.told[0], ids.told[1])
    });
    let [first, second] = ids.told;
    let mut found = report.violations;
    found.sort_unstable();
    let mut wanted = [
        format!("I5: message {first} has 2 receipts, 1 due"),
        format!("I5: message {second} has 0 receipts, 1 due"),
    ];
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let (ids, report) =
        after(|ids| format!("UPDATE message SET receipt_of = 999999 WHERE receipt_of = {}", ids.told[0]));
    let mut found = report.violations;
    found.sort_unstable();
    assert_eq!(found[0], format!("I5: message {} has 0 receipts, 1 due", ids.told[0]));
    assert!(found[1].ends_with("are receipts of message 999999, which does not exist"), "{found:?}");
}

#[test]
fn what_was_accepted_is_there_and_where_all_is_known_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let all = made(dir.path()).all();
    let store = open(dir.path());
    let checked = |accepted| check_accepted(&store, dir.path(), accepted).unwrap();
    for accepted in [
        AcceptedMessages::Exactly(&all),
        AcceptedMessages::AtLeast(&all[1..]),
        AcceptedMessages::AtLeast(&[]),
    ] {
        let report = checked(accepted);
        assert!(report.holds() && report.checked().contains(&"I6"), "{report:#?}");
    }
    assert!(!checked(AcceptedMessages::Unknown).checked().contains(&"I6"));
    let report = checked(AcceptedMessages::Exactly(&all[1..]));
    assert_eq!(report.violations, [format!("I6: message {} is in the store and was never accepted", all[0])]);
    let more = [&all[..], &[999_999]].concat();
    for accepted in [AcceptedMessages::Exactly(&more), AcceptedMessages::AtLeast(&more)] {
        assert_eq!(checked(accepted).violations, ["I6: message 999999 was accepted and is gone"]);
    }
}

/// A store that keeps final messages for a time only.
struct Forgetful(SqliteStore);

impl Store for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn has_flusher(&self) -> bool {
        self.0.has_flusher()
    }

    fn may_have_forgotten(&self) -> bool {
        true
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        self.0.session(acknowledge)
    }

    fn abandon(&self) {
        self.0.abandon();
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        self.0.scan(each)
    }
}

/// A Redis Cluster takes final messages away after `keep` seconds: a check told them as lost, and a
/// row of the bench that took longer than that failed.
#[test]
fn what_a_store_keeps_for_a_time_is_not_missed_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let all = made(dir.path()).all();
    let store = Forgetful(open(dir.path()));
    let checked = |numbers: &[i64]| {
        let report = check_accepted(&store, dir.path(), AcceptedMessages::Exactly(numbers)).unwrap();
        assert!(report.holds(), "{report:#?}");
        (report.forgotten, report.checked().contains(&"I6"))
    };
    assert_eq!(checked(&all), (0, true));
    assert_eq!(checked(&[&all[..], &[999_999]].concat()), (1, false));
}

/// Order, receipts and numbers of what the Flusher has moved.
#[test]
fn what_is_archived_is_checked_too() {
    let final_at =
        |msg_id, step| Message { msg_id, state: State::Delivered, done_us: NOW_US + step, ..archived() };
    let of = |messages: &[&[Message]], accepted| {
        let dir = tempfile::tempdir().unwrap();
        let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
        let store = MmdbStore::open(dir.path(), &options, Rules::default()).unwrap();
        // Each knows nothing of what the others append.
        let mut archives: Vec<Archive> =
            messages.iter().map(|_| Archive::open(dir.path()).unwrap()).collect();
        for (archive, messages) in archives.iter_mut().zip(messages) {
            archive.append(messages).unwrap();
        }
        check_accepted(&store, dir.path(), accepted).unwrap().violations
    };
    let [first, second] = [final_at(1, 5), final_at(2, 6)];
    assert_eq!(of(&[&[first.clone(), second.clone()]], AcceptedMessages::Exactly(&[1, 2])), [""; 0]);
    assert_eq!(
        of(&[std::slice::from_ref(&first), std::slice::from_ref(&first)], AcceptedMessages::Unknown),
        ["I1: message 1 is in the archive twice"]
    );
    let said = of(&[&[first.clone(), final_at(2, 4)]], AcceptedMessages::Unknown);
    assert_eq!(said, ["I3: station 491700000001 got message 2 before message 1"]);
    let told = Message { registered_delivery: 1, ..second.clone() };
    assert_eq!(
        of(&[std::slice::from_ref(&told)], AcceptedMessages::Unknown),
        ["I5: message 2 has 0 receipts, 1 due"]
    );
    let receipt = Message { receipt_of: 2, ..final_at(3, 7) };
    assert_eq!(of(&[&[told, receipt.clone()]], AcceptedMessages::Exactly(&[2])), [""; 0]);
    assert_eq!(
        of(&[&[second.clone(), receipt]], AcceptedMessages::Unknown),
        ["I5: message 2 has 1 receipts, 0 due"]
    );
    assert_eq!(
        of(&[&[second]], AcceptedMessages::Exactly(&[])),
        ["I6: message 2 is in the archive and was never accepted"]
    );
}

fn archived() -> Message {
    let key = smsc::model::StationKey::of_address(&common::address(1)).unwrap();
    Message { dst_key: key, account: ACCOUNT, parts: 1, ..message(1, b"hello") }
}
