use super::*;
use crate::centre::{Operation, Outcome, Submission};
use crate::model::Message;
use std::sync::mpsc;
use std::time::Duration;

fn receive(station: usize, body: &[u8]) -> Operation {
    let (submit_us, expire_us) = (1_800_000_000_000_000, 1_800_000_100_000_000);
    let dst = format!("49170{station:07}");
    let submission = Submission::new(Message {
        data_coding: 4,
        ..Message::plain("4900".into(), dst, body.to_vec(), submit_us, expire_us)
    });
    Operation::Receive(Box::new(submission.unwrap()))
}

/// A store of each form that has groups, unless PostgreSQL is not installed.
fn grouped(with: impl Fn(&PostgresqlStore)) {
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("skipped: {error}");
        return;
    }
    for form in [PostgresqlForm::Grouped, PostgresqlForm::Batched] {
        let dir = tempfile::tempdir().unwrap();
        with(&PostgresqlStore::open(dir.path(), form, Rules::default(), 4, Opening::OrCreate).unwrap());
    }
}

/// Submits all, and gives the numbers in the order of submission.
fn numbers(store: &PostgresqlStore, operations: impl Iterator<Item = Operation>) -> Vec<i64> {
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let mut under_way = 0;
    for operation in operations {
        session.submit(operation).unwrap();
        under_way += 1;
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < under_way {
        session.settle(&mut outcomes).unwrap();
    }
    let number = |outcome: &Outcome| match outcome {
        Outcome::Received(number) => *number,
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(number).collect()
}

/// In the middle of a group the server keeps its answers and waits for the rest, while the client
/// waited for an answer: a group of more octets than the socket takes, and the client hung for
/// ever.
#[test]
fn a_group_may_be_longer_than_a_socket_takes() {
    grouped(|store| {
        std::thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            scope.spawn(move || {
                let received = numbers(store, (0..256).map(|station| receive(station, &[7; 5000]))).len();
                done.send(received).unwrap();
            });
            // Far more than it takes; then the store is given up, so that the test ends.
            let received = is_done.recv_timeout(Duration::from_secs(120));
            store.abandon();
            assert_eq!(received, Ok(256));
        });
    });
}

/// Groups took the locks of their stations as their calls came. Two that met in opposite order were
/// a deadlock, found after a second, and the one that was rolled back ran call by call.
#[test]
fn groups_that_meet_in_opposite_order_are_no_deadlock() {
    grouped(|store| {
        std::thread::scope(|scope| {
            for client in 0..2 {
                scope.spawn(move || {
                    for _ in 0..40 {
                        let station = |number| if client == 0 { number } else { 199 - number };
                        numbers(store, (0..200).map(|number| receive(station(number), b"hello")));
                    }
                });
            }
        });
        assert_eq!(store.ran_again(), Some(0));
    });
}

/// A group that was rolled back ran again after later groups of its client, so that two messages
/// for one station could get numbers in the wrong order.
#[test]
fn what_is_rolled_back_runs_again_before_what_was_submitted_later() {
    grouped(|store| {
        // Fails once: nothing takes back what a sequence has given.
        let trouble = "CREATE SEQUENCE trouble;
            CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
              IF nextval('trouble') = 300 THEN RAISE EXCEPTION 'as a deadlock' USING ERRCODE = '40P01'; END IF;
              RETURN NEW;
            END $$;
            CREATE TRIGGER trouble BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION trouble();";
        store.connect().unwrap().script(trouble).unwrap();
        let numbers = numbers(store, (0..1000).map(|number| receive(number % 2, b"hello")));
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // The first group has committed, the second and all that were sent by then ran again.
        let again = store.ran_again().unwrap();
        assert!((256..=744).contains(&again), "{again}");
    });
}
