//! What the centre's operations do, by what they must do: on every store, as equal outcomes of
//! stores that share code show nothing of what the code does wrong (`model.rs` compares).
#![allow(clippy::unwrap_used)]

mod common;
mod foreign_server;

use common::{ACCOUNT, NOW_US, SECOND_US, address, message, receive};
use smsc::centre::{
    Channel, Completion, CompletionResult, Delivery, Form, Forward, Operation, Outcome, PutBack, Refusal,
    Replacement, Settlement, Status, Submission, SubmissionError, Verdict, receipt,
};
use smsc::check::{AcceptedMessages, check_accepted};
use smsc::model::{Account, Message, State, StationKey, shard_of, shard_of_peer};
use smsc::store::{
    Acknowledge, MmdbOptions, Opening, PostgresqlForm, PostgresqlStore, PostgresqlUrl, Row, Session, Store,
    StoreKind,
};
use smsc::text::{BODY_OCTETS_MAX, Part, TextError};
use std::path::Path;

/// A client of one store, and what it has submitted.
struct Client<'a> {
    session: Box<dyn Session + 'a>,
    accepted: Vec<i64>,
}

impl Client<'_> {
    fn call(&mut self, operation: Operation) -> Outcome {
        self.session.call(operation).unwrap()
    }

    fn receive(&mut self, message: Message) -> i64 {
        let msg_id = receive(&mut *self.session, message);
        self.accepted.push(msg_id);
        msg_id
    }

    /// All that can be claimed of a station now.
    fn claim(&mut self, station: StationKey, now_us: i64) -> Option<Delivery> {
        let claim = Operation::Claim { channel: Channel::All(shard_of(station)), spread: 0, max: 16, now_us };
        let Outcome::Claimed(mut deliveries) = self.call(claim) else { panic!("a claim gives messages") };
        assert!(
            deliveries.len() < 2 && deliveries.iter().all(|delivery| delivery.station == station),
            "{deliveries:?}"
        );
        deliveries.pop()
    }

    fn claim_of(&mut self, number: usize, now_us: i64) -> Option<Delivery> {
        self.claim(station(number), now_us)
    }

    fn complete(&mut self, delivery: Delivery, verdict: Verdict, now_us: i64) -> CompletionResult {
        let Delivery { station, epoch, message, .. } = delivery;
        let receipt = match verdict {
            Verdict::Final { state, error } => receipt(&message, state, error, now_us),
            Verdict::Temporary { .. } => None,
        };
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        match self.call(Operation::Complete(Box::new(completion))) {
            Outcome::Completed(completed) => completed,
            other => panic!("{other:?}"),
        }
    }

    fn deliver(&mut self, delivery: Delivery, now_us: i64) -> i64 {
        match self.complete(delivery, Verdict::Final { state: State::Delivered, error: 0 }, now_us) {
            CompletionResult::Final(receipt) => receipt,
            other => panic!("{other:?}"),
        }
    }

    fn alert(&mut self, number: usize, now_us: i64) -> Outcome {
        self.call(Operation::Alert { station: station(number), now_us })
    }

    fn status(&mut self, account: u32, msg_id: i64) -> Result<Status, Refusal> {
        match self.call(Operation::Query { account, msg_id }) {
            Outcome::Status(status) => Ok(status),
            Outcome::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn find(&mut self, src: &str, number: usize, max: usize) -> Vec<i64> {
        let (src, station) = (src.into(), station(number));
        match self.call(Operation::Find { account: ACCOUNT, src, service_type: None, station, max }) {
            Outcome::Found(ids) => ids,
            other => panic!("{other:?}"),
        }
    }

    fn cancel(&mut self, account: u32, msg_id: i64) -> Outcome {
        self.call(Operation::Cancel { account, msg_id, now_us: NOW_US + 7 })
    }

    fn replace(&mut self, msg_id: i64, body: &[u8], expire_us: Option<i64>) -> Outcome {
        self.replace_as(ACCOUNT, msg_id, body, expire_us, 0)
    }

    fn replace_as(
        &mut self,
        account: u32,
        msg_id: i64,
        body: &[u8],
        expire_us: Option<i64>,
        registered_delivery: u8,
    ) -> Outcome {
        let body = body.to_vec();
        self.call(Operation::Replace(Box::new(Replacement {
            account,
            msg_id,
            body,
            expire_us,
            registered_delivery,
            form: None,
        })))
    }
}

fn station(number: usize) -> StationKey {
    StationKey::of_address(&address(number)).unwrap()
}

/// What a station sees of a delivery.
fn text(delivery: &Delivery) -> String {
    let part = |part: &smsc::model::EncodedPart| Part {
        alphabet: part.alphabet,
        has_header: part.has_header,
        user_data_length: part.user_data_length,
        octets: part.octets.clone(),
    };
    delivery.parts.iter().map(|delivered| part(delivered).text().unwrap()).collect()
}

const ABSENT: u32 = 27;

fn absent(retry_us: i64) -> Verdict {
    Verdict::Temporary { error: ABSENT, absent: true, retry_us }
}

/// Without it a station that comes back during an attempt waits for its retry timer, although
/// nobody alerts again.
fn an_alert_during_an_attempt_is_remembered_for_that_attempt(client: &mut Client<'_>) {
    assert_eq!(client.alert(1, NOW_US), Outcome::Count(0), "nobody knows the station");
    let msg_id = client.receive(message(1, b"hello"));
    assert_eq!(client.alert(1, NOW_US), Outcome::Count(0), "it is ready");
    let delivery = client.claim_of(1, NOW_US).unwrap();
    assert_eq!(client.alert(1, NOW_US + 1), Outcome::Count(1));
    let (now_us, retry_us) = (NOW_US + 2, NOW_US + 300 * SECOND_US);
    assert_eq!(client.complete(delivery, absent(retry_us), now_us), CompletionResult::Again(now_us));
    let delivery = client.claim_of(1, now_us).expect("ready at once");
    assert_eq!((delivery.message.msg_id, delivery.attempts, delivery.message.attempts), (msg_id, 1, 1));
    // That alert is used up.
    assert_eq!(client.complete(delivery, absent(retry_us), now_us), CompletionResult::Again(retry_us));
    assert!(client.claim_of(1, retry_us).is_none(), "waits");
    assert_eq!(client.alert(1, now_us + 1), Outcome::Count(1));
    let delivery = client.claim_of(1, now_us + 1).expect("the alert has made it ready");
    assert_eq!(delivery.attempts, 2);
    assert_eq!(
        client.call(Operation::WakeDue { now_us: retry_us, max: 9 }),
        Outcome::Count(0),
        "no timer is left"
    );
    assert_eq!(client.deliver(delivery, now_us + 2), 0, "no receipt was asked for");
    assert_eq!(client.alert(1, now_us + 3), Outcome::Count(0), "nothing waits");
}

fn a_retry_is_at_its_time_or_at_the_end_of_the_validity(client: &mut Client<'_>) {
    let expire_us = NOW_US + 60 * SECOND_US;
    let msg_id = client.receive(Message { expire_us, ..message(2, b"hello") });
    let delivery = client.claim_of(2, NOW_US).unwrap();
    let retry_us = NOW_US + 10 * SECOND_US;
    let busy = Verdict::Temporary { error: 31, absent: false, retry_us };
    assert_eq!(client.complete(delivery, busy, NOW_US + 1), CompletionResult::Again(retry_us));
    let status = Status { state: State::Enroute, done_us: 0, error: 31 };
    assert_eq!(client.status(ACCOUNT, msg_id), Ok(status));
    for (now_us, count) in [(retry_us - 1, 0), (retry_us, 1), (retry_us, 0)] {
        assert_eq!(client.call(Operation::WakeDue { now_us, max: 9 }), Outcome::Count(count));
    }
    let delivery = client.claim_of(2, retry_us).unwrap();
    let again = client.complete(delivery, absent(NOW_US + 300 * SECOND_US), retry_us + 1);
    assert_eq!(again, CompletionResult::Again(expire_us), "later it is of no use");
    assert_eq!(client.call(Operation::WakeDue { now_us: expire_us - 1, max: 9 }), Outcome::Count(0));
    assert_eq!(client.alert(2, expire_us - 1), Outcome::Count(1));
    // An attempt that ends after the validity.
    let delivery = client.claim_of(2, expire_us - 1).unwrap();
    let again = client.complete(delivery, absent(NOW_US + 300 * SECOND_US), expire_us + 5);
    assert_eq!(again, CompletionResult::Again(expire_us + 5));
    let expire = Operation::Expire { from: smsc::centre::Place::BEGIN, now_us: expire_us + 5, max: 9 };
    assert_eq!(client.call(expire), Outcome::Swept { count: 1, tried: 1, next: None });
    let status = Status { state: State::Expired, done_us: expire_us + 5, error: ABSENT };
    assert_eq!(client.status(ACCOUNT, msg_id), Ok(status));
}

fn a_station_gets_one_message_at_a_time_by_priority_and_number(client: &mut Client<'_>) {
    let low = [b"one", b"two"].map(|body| client.receive(message(3, body)));
    let urgent = client.receive(Message { priority: 2, ..message(3, b"urgent") });
    for msg_id in [urgent, low[0], low[1]] {
        let delivery = client.claim_of(3, NOW_US).unwrap();
        assert_eq!(delivery.message.msg_id, msg_id);
        assert!(client.claim_of(3, NOW_US).is_none(), "one is in flight");
        let late = delivery.clone();
        client.deliver(delivery, NOW_US);
        let verdict = Verdict::Final { state: State::Delivered, error: 0 };
        assert_eq!(client.complete(late, verdict, NOW_US), CompletionResult::Fenced);
    }
    assert!(client.claim_of(3, NOW_US).is_none());
}

fn a_query_tells_the_state_to_its_account(client: &mut Client<'_>) {
    let msg_id = client.receive(message(4, b"hello"));
    let enroute = Status { state: State::Enroute, done_us: 0, error: 0 };
    assert_eq!(client.status(ACCOUNT, msg_id), Ok(enroute));
    assert_eq!(client.status(ACCOUNT + 1, msg_id), Err(Refusal::NoSuchMessage));
    assert_eq!(client.status(ACCOUNT, i64::MAX), Err(Refusal::NoSuchMessage));
    let delivery = client.claim_of(4, NOW_US).unwrap();
    assert_eq!(client.status(ACCOUNT, msg_id), Ok(enroute));
    let refused = Verdict::Final { state: State::Undeliverable, error: 1 };
    assert_eq!(client.complete(delivery, refused, NOW_US + 9), CompletionResult::Final(0));
    let status = Status { state: State::Undeliverable, done_us: NOW_US + 9, error: 1 };
    assert_eq!(client.status(ACCOUNT, msg_id), Ok(status));
    let due_us = NOW_US + 5 * SECOND_US;
    let scheduled = client.receive(Message { schedule_us: due_us, ..message(4, b"later") });
    let status = Status { state: State::Scheduled, done_us: 0, error: 0 };
    assert_eq!(client.status(ACCOUNT, scheduled), Ok(status));
    assert!(client.claim_of(4, due_us).is_none(), "scheduled");
    for (now_us, count) in [(due_us - 1, 0), (due_us, 1)] {
        assert_eq!(client.call(Operation::ReleaseScheduled { now_us, max: 9 }), Outcome::Count(count));
    }
    assert_eq!(client.status(ACCOUNT, scheduled), Ok(enroute));
    let delivery = client.claim_of(4, due_us).unwrap();
    client.deliver(delivery, due_us);
    let status = Status { state: State::Delivered, done_us: due_us, error: 0 };
    assert_eq!(client.status(ACCOUNT, scheduled), Ok(status));
}

fn find_gives_what_is_not_final_between_two_addresses(client: &mut Client<'_>) {
    let first = client.receive(message(5, b"first"));
    let other_src = client.receive(Message { src: "4911".into(), ..message(5, b"other source") });
    let others = client.receive(Message { account: ACCOUNT + 1, ..message(5, b"another account's") });
    let due_us = NOW_US + 5 * SECOND_US;
    let scheduled = client.receive(Message { schedule_us: due_us, ..message(5, b"later") });
    let urgent = client.receive(Message { priority: 3, ..message(5, b"urgent") });
    let elsewhere = client.receive(message(6, b"another station's"));
    assert_eq!(client.find("4900", 5, 9), [first, scheduled, urgent]);
    assert_eq!(client.find("4900", 5, 2), [first, scheduled]);
    assert_eq!(client.find("4911", 5, 9), [other_src]);
    assert_eq!(client.find("4900", 6, 9), [elsewhere]);
    assert!(client.find("4999", 5, 9).is_empty());
    assert_eq!(client.cancel(ACCOUNT, first), Outcome::Count(1));
    assert_eq!(client.find("4900", 5, 9), [scheduled, urgent]);
    for (account, msg_id) in [
        (ACCOUNT, other_src),
        (ACCOUNT + 1, others),
        (ACCOUNT, scheduled),
        (ACCOUNT, urgent),
        (ACCOUNT, elsewhere),
    ] {
        assert_eq!(client.cancel(account, msg_id), Outcome::Count(1));
    }
    assert!(client.find("4900", 5, 9).is_empty());
    // Of one service: cancel_sm with a service_type took back those of all others, too, and
    // replace_if_present overwrote them.
    let of_service = client.receive(Message { service_type: "CMT".into(), ..message(5, b"of a service") });
    for (service_type, found) in [("CMT", vec![of_service]), ("", vec![]), ("CM", vec![])] {
        let (src, service_type, station) = ("4900".into(), Some(service_type.into()), station(5));
        let find = Operation::Find { account: ACCOUNT, src, service_type, station, max: 9 };
        assert_eq!(client.call(find), Outcome::Found(found));
    }
    assert_eq!(client.cancel(ACCOUNT, of_service), Outcome::Count(1));
}

fn cancel_takes_a_message_back_that_is_not_in_flight(client: &mut Client<'_>) {
    let first = client.receive(Message { registered_delivery: 1, ..message(7, b"first") });
    let second = client.receive(message(7, b"second"));
    assert_eq!(client.cancel(ACCOUNT + 1, first), Outcome::Refused(Refusal::NoSuchMessage));
    assert_eq!(client.cancel(ACCOUNT, i64::MAX), Outcome::Refused(Refusal::NoSuchMessage));
    let delivery = client.claim_of(7, NOW_US).unwrap();
    assert_eq!(client.cancel(ACCOUNT, first), Outcome::Refused(Refusal::InFlight));
    assert_eq!(
        client.complete(delivery, absent(NOW_US + SECOND_US), NOW_US),
        CompletionResult::Again(NOW_US + SECOND_US)
    );
    assert_eq!(client.cancel(ACCOUNT, first), Outcome::Count(1), "it waits");
    let status = Status { state: State::Deleted, done_us: NOW_US + 7, error: ABSENT };
    assert_eq!(client.status(ACCOUNT, first), Ok(status));
    assert_eq!(client.cancel(ACCOUNT, first), Outcome::Refused(Refusal::Final));
    // Its sender is told.
    let application = StationKey::of_account(ACCOUNT, first);
    let told = client.claim(application, NOW_US + 7).unwrap();
    assert_eq!((told.message.receipt_of, told.message.esm_class, told.parts.len()), (first, 4, 0));
    let wanted = format!(
        "id:{first} sub:001 dlvrd:000 submit date:2701150800 done date:2701150800 stat:DELETED err:027 text:first"
    );
    assert_eq!(String::from_utf8(told.message.body.clone()).unwrap(), wanted);
    let number = told.message.msg_id;
    assert_eq!(client.status(ACCOUNT, number), Err(Refusal::NoSuchMessage), "a receipt is nobody's message");
    assert_eq!(client.cancel(ACCOUNT, number), Outcome::Refused(Refusal::NoSuchMessage));
    let (account, src) = (told.message.account, told.message.src.clone());
    let (service_type, station) = (None, application);
    let found = client.call(Operation::Find { account, src, service_type, station, max: 9 });
    assert_eq!(found, Outcome::Found(Vec::new()), "nor is it found");
    assert_eq!(client.deliver(told, NOW_US + 8), 0, "of a receipt there is no receipt");
    // The other one is next, once the station's time has come.
    assert_eq!(client.call(Operation::WakeDue { now_us: NOW_US + SECOND_US, max: 9 }), Outcome::Count(1));
    let delivery = client.claim_of(7, NOW_US + SECOND_US).unwrap();
    assert_eq!(delivery.message.msg_id, second);
    client.deliver(delivery, NOW_US + SECOND_US);
    assert_eq!(client.cancel(ACCOUNT, second), Outcome::Refused(Refusal::Final));
    let due_us = NOW_US + 5 * SECOND_US;
    let scheduled = client.receive(Message { schedule_us: due_us, ..message(7, b"later") });
    assert_eq!(client.cancel(ACCOUNT, scheduled), Outcome::Count(1));
    assert_eq!(client.call(Operation::ReleaseScheduled { now_us: due_us, max: 9 }), Outcome::Count(0));
    // The last one of a station that waits: nothing wakes it any more.
    let last = client.receive(message(7, b"last"));
    let delivery = client.claim_of(7, NOW_US + SECOND_US).unwrap();
    client.complete(delivery, absent(NOW_US + 2 * SECOND_US), NOW_US + SECOND_US);
    assert_eq!(client.cancel(ACCOUNT, last), Outcome::Count(1));
    assert_eq!(client.call(Operation::WakeDue { now_us: i64::MAX, max: 9 }), Outcome::Count(0));
}

fn replace_gives_a_message_another_body(client: &mut Client<'_>) {
    let long = vec![b'a'; 200];
    let msg_id = client.receive(Message { registered_delivery: 0, ..message(8, &long) });
    assert_eq!(
        client.replace_as(ACCOUNT + 1, msg_id, b"x", None, 0),
        Outcome::Refused(Refusal::NoSuchMessage)
    );
    let odd = TextError::Septet { at: 1, octet: 0x80 };
    assert_eq!(client.replace(msg_id, b"x\x80", None), Outcome::Refused(Refusal::Text(odd)));
    assert_eq!(client.replace(msg_id, b"x", Some(NOW_US)), Outcome::Refused(Refusal::Expired));
    // Nothing of that has changed it.
    let delivery = client.claim_of(8, NOW_US).unwrap();
    assert_eq!((&delivery.message.body, text(&delivery)), (&long, "a".repeat(200)));
    assert_eq!(client.replace(msg_id, b"x", None), Outcome::Refused(Refusal::InFlight));
    client.complete(delivery, absent(NOW_US + SECOND_US), NOW_US);
    let expire_us = NOW_US + 30 * SECOND_US;
    assert_eq!(client.replace_as(ACCOUNT, msg_id, b"short", Some(expire_us), 1), Outcome::Count(1));
    assert_eq!(client.alert(8, NOW_US + 1), Outcome::Count(1));
    let delivery = client.claim_of(8, expire_us - 1).unwrap();
    let Message { body, parts, expire_us: until_us, registered_delivery, attempts, .. } = &*delivery.message;
    assert_eq!(
        (&body[..], *parts, *until_us, *registered_delivery, *attempts),
        (&b"short"[..], 1, expire_us, 1, 1)
    );
    assert_eq!((text(&delivery), delivery.parts.len()), ("short".into(), 1));
    assert_ne!(client.deliver(delivery, NOW_US + 2), 0, "a receipt, as asked for since");
    let told = client.claim(StationKey::of_account(ACCOUNT, msg_id), NOW_US + 2).unwrap();
    assert!(told.message.body.ends_with(b"stat:DELIVRD err:000 text:short"), "{told:?}");
    client.deliver(told, NOW_US + 3);
    assert_eq!(client.replace(msg_id, b"x", None), Outcome::Refused(Refusal::Final));
    // A longer one, before its time.
    let due_us = NOW_US + 5 * SECOND_US;
    let scheduled = client.receive(Message { schedule_us: due_us, ..message(8, b"later") });
    for early in [0, NOW_US, due_us] {
        let refused = client.replace(scheduled, b"x", Some(early));
        assert_eq!(refused, Outcome::Refused(Refusal::Expired), "it would be released and expire");
    }
    assert_eq!(client.replace(scheduled, &long, Some(due_us + 1)), Outcome::Count(1));
    assert_eq!(client.call(Operation::ReleaseScheduled { now_us: due_us, max: 9 }), Outcome::Count(1));
    let delivery = client.claim_of(8, due_us).unwrap();
    assert_eq!(
        (delivery.message.expire_us, text(&delivery), delivery.parts.len()),
        (due_us + 1, "a".repeat(200), 2)
    );
    client.deliver(delivery, due_us);
    // A body that says how it is to be read: it was read as the old one, so that UCS2 was shown as
    // letters of the default alphabet.
    let msg_id = client.receive(message(8, b"old"));
    let form = Form { esm_class: 0, protocol_id: 0x41, data_coding: 8, tlvs: vec![2, 4, 0, 2, 0, 7] };
    let body: Vec<u8> = "жук".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let (account, registered_delivery, new) = (ACCOUNT, 0, Some(form.clone()));
    let with = Replacement { account, msg_id, body, expire_us: None, registered_delivery, form: new };
    assert_eq!(client.call(Operation::Replace(Box::new(with))), Outcome::Count(1));
    let delivery = client.claim_of(8, due_us).unwrap();
    assert_eq!(text(&delivery), "жук");
    let Message { esm_class, protocol_id, data_coding, tlvs, .. } = &*delivery.message;
    assert_eq!((*esm_class, *protocol_id, *data_coding, tlvs), (0, 0x41, 8, &form.tlvs));
    client.deliver(delivery, due_us);
}

/// What passed [`Submission::new`] ended the session of a store whose columns were shorter, and of
/// no other.
fn what_is_accepted_can_be_stored(client: &mut Client<'_>) {
    let longest = vec![b'a'; BODY_OCTETS_MAX];
    let submit_us = NOW_US;
    let full = |body| Message {
        src: "1".repeat(21),
        service_type: "abcdef".into(),
        tlvs: vec![1; 4096],
        submit_us,
        ..message(9, body)
    };
    let first = client.receive(full(&longest));
    let second = client.receive(full(b"short"));
    assert_eq!(client.replace(second, &longest, None), Outcome::Count(1));
    let too_long = vec![b'a'; BODY_OCTETS_MAX + 1];
    let refused = Submission::new(full(&too_long)).unwrap_err();
    assert_eq!(refused.to_string(), "the body has 39016 octets; at most 39015 are allowed");
    assert!(matches!(refused, SubmissionError::TooLong { .. }));
    let refused = Outcome::Refused(Refusal::Text(TextError::TooManyParts(256)));
    assert_eq!(client.replace(second, &too_long, None), refused);
    for msg_id in [first, second] {
        let delivery = client.claim_of(9, NOW_US).unwrap();
        assert_eq!((delivery.message.msg_id, delivery.parts.len()), (msg_id, 255));
        assert_eq!(delivery.message.body, longest);
        client.deliver(delivery, NOW_US);
    }
    let most = i32::MAX as u32;
    let limits = Account {
        binds_max: most,
        window_max: most,
        rate_max: most,
        quota: i64::MAX,
        ..Account::unlimited(3)
    };
    let account = Account { password_hash: vec![1; 128], ..limits };
    assert_eq!(client.call(Operation::PutAccount(Box::new(account.clone()))), Outcome::Count(1));
    for (wrong, said) in [
        (
            Account { rate_max: most + 1, ..account.clone() },
            "rate_max of the account: 2147483648; at most 2147483647",
        ),
        (
            Account { binds_max: u32::MAX, ..account.clone() },
            "binds_max of the account: 4294967295; at most 2147483647",
        ),
        (
            Account { window_max: most + 1, ..account.clone() },
            "window_max of the account: 2147483648; at most 2147483647",
        ),
        (
            Account { password_hash: vec![1; 129], ..account.clone() },
            "octets of password_hash of the account: 129; at most 128",
        ),
    ] {
        match client.call(Operation::PutAccount(Box::new(wrong))) {
            Outcome::Refused(refusal) => assert_eq!(refusal.to_string(), said),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(client.call(Operation::Account(3)), Outcome::Account(Some(account)));
}

fn does_what_it_must(kind: StoreKind) {
    if kind.name().starts_with("postgresql")
        && let Err(error) = postgresql_server::find_programs(None)
    {
        eprintln!("skipped: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    let store = kind.open_with(dir.path(), &options, kind.rules(), 4, Opening::OrCreate).unwrap();
    goes_through_all(&*store, dir.path());
}

fn goes_through_all(store: &dyn Store, archive: &Path) {
    let session = store.session(Acknowledge::Durable).unwrap();
    let mut client = Client { session, accepted: Vec::new() };
    for scenario in [
        an_alert_during_an_attempt_is_remembered_for_that_attempt,
        a_retry_is_at_its_time_or_at_the_end_of_the_validity,
        a_station_gets_one_message_at_a_time_by_priority_and_number,
        a_query_tells_the_state_to_its_account,
        find_gives_what_is_not_final_between_two_addresses,
        cancel_takes_a_message_back_that_is_not_in_flight,
        replace_gives_a_message_another_body,
        what_is_accepted_can_be_stored,
        what_goes_through_a_peer_is_settled_by_its_number,
    ] {
        scenario(&mut client);
        left_clean(store);
    }
    let report = check_accepted(store, archive, AcceptedMessages::Exactly(&client.accepted)).unwrap();
    assert!(report.holds() && report.live == 0, "{report:#?}");
}

/// A message that a peer has accepted waits in no queue, and its receipt finds it by the peer's
/// number; what was no flight is as it was before.
fn what_goes_through_a_peer_is_settled_by_its_number(client: &mut Client<'_>) {
    let submit = |client: &mut Client<'_>, number: usize| {
        let message = Message { registered_delivery: 0x11, ..message(number, b"x") };
        let submission = Submission::new(message).unwrap().through_peer(3);
        match client.call(Operation::Receive(Box::new(submission))) {
            Outcome::Received(msg_id) => {
                client.accepted.push(msg_id);
                msg_id
            }
            other => panic!("{other:?}"),
        }
    };
    let claim = |client: &mut Client<'_>, peer: u16, now_us: i64| {
        let claim = Operation::Claim { channel: Channel::Peer(peer), spread: 0, max: 5, now_us };
        match client.call(claim) {
            Outcome::Claimed(deliveries) => deliveries,
            other => panic!("{other:?}"),
        }
    };
    let forward = |client: &mut Client<'_>, delivery: &Delivery, peer_id: &str, stale: i64| {
        client.call(Operation::Forward(Box::new(Forward {
            station: delivery.station,
            epoch: delivery.epoch - stale,
            msg_id: delivery.message.msg_id,
            peer: 3,
            peer_id: peer_id.into(),
            due_us: NOW_US + 100 * SECOND_US,
            now_us: NOW_US,
        })))
    };
    let settle = |client: &mut Client<'_>, peer: u32, peer_id: &str, state: Option<State>| {
        let settlement = Settlement { peer, peer_id: peer_id.into(), state, error: 9, now_us: NOW_US };
        client.call(Operation::Settle(Box::new(settlement)))
    };
    let unknown = Outcome::Refused(Refusal::NoSuchMessage);
    let id = submit(client, 90);
    assert_eq!(client.claim_of(90, NOW_US), None, "mobiles are not asked");
    assert_eq!(claim(client, 2, NOW_US), []);
    let delivery = claim(client, 3, NOW_US).pop().unwrap();
    let back = PutBack {
        station: delivery.station,
        epoch: delivery.epoch,
        msg_id: id,
        shard: shard_of_peer(2),
        ready_us: NOW_US + 5,
    };
    assert_eq!(client.call(Operation::PutBack(back)), Outcome::Count(1));
    assert_eq!(client.call(Operation::PutBack(back)), Outcome::Count(0), "once");
    assert_eq!((claim(client, 3, NOW_US + 9), claim(client, 2, NOW_US)), (vec![], vec![]));
    let delivery = claim(client, 2, NOW_US + 5).pop().unwrap();
    assert_eq!((delivery.attempts, delivery.message.attempts), (0, 0), "as if it had not been");
    assert_eq!(forward(client, &delivery, "7f", 1), Outcome::Count(0), "an old claim");
    assert_eq!(forward(client, &delivery, "7f", 0), Outcome::Count(1));
    assert_eq!(client.status(ACCOUNT, id).unwrap().state, State::Forwarded);
    assert_eq!(client.cancel(ACCOUNT, id), Outcome::Refused(Refusal::InFlight));
    assert_eq!(claim(client, 2, NOW_US + SECOND_US), []);
    for (peer, peer_id) in [(3, "7"), (3, "7f0"), (2, "7f")] {
        assert_eq!(settle(client, peer, peer_id, Some(State::Delivered)), unknown, "{peer} {peer_id}");
    }
    // An intermediate notification, once.
    let lane = StationKey::of_account(ACCOUNT, id);
    assert_eq!(settle(client, 3, "7f", None), Outcome::Settled(Some(lane)));
    assert_eq!(settle(client, 3, "7f", None), Outcome::Settled(None));
    let notification = client.claim(lane, NOW_US).unwrap();
    assert_eq!((notification.message.receipt_of, notification.message.esm_class), (-id, 0x20));
    client.deliver(notification, NOW_US);
    assert_eq!(client.claim(lane, NOW_US), None);
    assert_eq!(settle(client, 3, "7f", Some(State::Undeliverable)), Outcome::Settled(Some(lane)));
    assert_eq!(settle(client, 3, "7f", Some(State::Delivered)), unknown, "it has its state");
    assert_eq!(client.status(ACCOUNT, id).unwrap().state, State::Undeliverable);
    let receipt = client.claim(lane, NOW_US).unwrap();
    let text = String::from_utf8(receipt.message.body.clone()).unwrap();
    assert!(receipt.message.receipt_of == id && text.contains("stat:UNDELIV err:009"), "{text}");
    client.deliver(receipt, NOW_US);
    // Two under one number: the later first. What never comes is unknown.
    let (first, second) = (submit(client, 91), submit(client, 92));
    for delivery in claim(client, 3, NOW_US) {
        assert_eq!(forward(client, &delivery, "", 0), Outcome::Count(1));
    }
    assert!(matches!(settle(client, 3, "", Some(State::Rejected)), Outcome::Settled(_)));
    assert_eq!(client.status(ACCOUNT, second).unwrap().state, State::Rejected);
    let receipt = client.claim(StationKey::of_account(ACCOUNT, second), NOW_US).unwrap();
    client.deliver(receipt, NOW_US);
    assert_eq!(client.status(ACCOUNT, first).unwrap().state, State::Forwarded);
    let overdue = |client: &mut Client<'_>, now_us| client.call(Operation::Overdue { now_us, max: 5 });
    assert_eq!(overdue(client, NOW_US + 99 * SECOND_US), Outcome::Count(0));
    assert_eq!(overdue(client, NOW_US + 100 * SECOND_US), Outcome::Count(1));
    assert_eq!(client.status(ACCOUNT, first).unwrap().state, State::Unknown);
    let later_us = NOW_US + 200 * SECOND_US;
    let receipt = client.claim(StationKey::of_account(ACCOUNT, first), later_us).unwrap();
    client.deliver(receipt, later_us);
}

/// Every message is final and has left its rows.
fn left_clean(store: &dyn Store) {
    store
        .scan(&mut |row| {
            let clean = match &row {
                Row::Message(message) => message.state.is_final(),
                Row::Station(station) => station.queue == 0,
                row => matches!(row, Row::Sent(_) | Row::IdBlock(_) | Row::Account(_)),
            };
            assert!(clean, "{}: {row:?} is left", store.name());
            Ok(())
        })
        .unwrap();
}

#[test]
fn mmdb_does_what_it_must() {
    does_what_it_must(StoreKind::Mmdb);
}

#[test]
fn sqlite_does_what_it_must() {
    does_what_it_must(StoreKind::Sqlite);
    does_what_it_must(StoreKind::SqliteNaive);
}

#[test]
fn postgresql_does_what_it_must() {
    does_what_it_must(StoreKind::Postgresql);
    does_what_it_must(StoreKind::PostgresqlGrouped);
    does_what_it_must(StoreKind::PostgresqlBatched);
}

#[test]
fn postgresql_does_what_it_must_statement_by_statement() {
    does_what_it_must(StoreKind::PostgresqlStatements);
}

/// In a schema of a server that is there already, with each form.
#[test]
fn a_store_by_url_does_what_it_must() {
    let Some(given) = foreign_server::ForeignServer::start(&[]) else { return };
    let nothing = tempfile::tempdir().unwrap();
    for form in PostgresqlForm::ALL {
        let parameters = format!("form={}&schema={}", form.word(), form.word());
        let url = PostgresqlUrl::parse(&given.checked_url("owner", &parameters)).unwrap();
        let store = PostgresqlStore::at(&url, url.kind().rules(), 4, Opening::OrCreate).unwrap();
        goes_through_all(&store, nothing.path());
    }
}
