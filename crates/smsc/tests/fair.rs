//! Turns between applications, and patience with those that do not answer.
//!
//! Submissions were handled as tasks of sessions came to run, and one submit_multi was 254 messages
//! at a stroke, of which the window counted one. Three sessions of one application that sent
//! nothing else had 47,000 messages accepted between two of another's, each of which took a second.
//! Now turns of 16 messages go round the applications, and the window counts all of them.
//!
//! A deliver_sm that was not answered in `response_s` went out again at once, to the same session,
//! for as long as that lasted: whoever did not answer, or did not read, was sent the same window
//! again and again, each time with two transactions for each message. Now such a session is left
//! alone for as long again, twice as long each time.
//!
//! A session that ended in its turn kept that until its last answer was written, or had not been
//! taken for a minute: whoever sent a message and unbind in one piece, and read nothing, held
//! everybody up.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smpp_client::{Client, Server, config, message, metric};
use smsc::smpp::{Address, Command, Status, Submit, pdu};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A submit_multi to as many destinations as there may be.
fn multi(sequence: u32) -> Vec<u8> {
    let mut octets = Vec::new();
    pdu(&mut octets, Command::SubmitMulti as u32, Status::Ok, sequence, |out| {
        out.extend_from_slice(b"\0\x01\x014900\0\xfe");
        for number in 0..254 {
            out.extend_from_slice(format!("\x01\x01\x014917{sequence:04}{number:03}\0").as_bytes());
        }
        out.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\x01x");
    });
    octets
}

/// Three sessions of one application send submit_multi as fast as they can, whatever is answered.
/// Between two messages of another some hundreds of theirs are accepted, and not tens of thousands.
#[test]
fn messages_by_the_hundred_leave_others_their_turn() {
    const MESSAGES: usize = 10;
    let (_dir, server) = Server::new("queue = 1000000");
    let mut other = Client::bound(&server.address, "other", Command::BindTransmitter);
    let ends = AtomicBool::new(false);
    let octets: Vec<u8> = (1..=200).flat_map(multi).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let client = Client::bound(&server.address, "app", Command::BindTransmitter);
            let (mut reads, ends, octets) = (client.stream.try_clone().unwrap(), &ends, &octets);
            scope.spawn(move || {
                let mut answers = [0; 1 << 16];
                while !ends.load(Relaxed) && reads.read(&mut answers).is_ok_and(|read| read > 0) {}
            });
            scope.spawn(move || {
                let mut writes = client.stream;
                while !ends.load(Relaxed) && writes.write_all(octets).is_ok() {}
                let _ = writes.shutdown(std::net::Shutdown::Both);
            });
        }
        let accepted = || metric(&server.http, "smsc_accepted_total");
        while accepted() < 5000 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut before = accepted();
        let mut each: Vec<u64> = (0..MESSAGES)
            .map(|number| {
                assert_eq!(other.submit(&message(&format!("4916{number}"), b"x", 0)).0, 0);
                let now = accepted();
                now - std::mem::replace(&mut before, now)
            })
            .collect();
        ends.store(true, Relaxed);
        each.sort_unstable();
        println!("{each:?} between two");
        // This test may have stood still between some of them.
        let between = each[MESSAGES / 2];
        assert!(between < 5000, "{between} between two");
    });
}

/// An application whose connection is full of what it does not read sends a message and unbind in
/// one piece. There is one turn, as there is one processor; another application gets it.
#[test]
fn a_session_that_ends_gives_its_turn_back() {
    let dir = tempfile::tempdir().unwrap();
    let text = config("").replace("numbers = [\"1234\"]", "numbers = [\"1234\"]\nwindow = 256");
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let one = "taskset -cp $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') $$ > /dev/null";
    let server = Server::start_with(dir.path(), &["--segment-mib", "1"], one);
    let mut app = Client::bound(&server.address, "app", Command::BindTransmitter);
    let mut deaf = Client::bound(&server.address, "other", Command::BindTransceiver);
    for number in 0..600 {
        // From one address comes one at a time.
        let source = Address { ton: 1, npi: 1, text: format!("49170{number:07}") };
        let long = Submit { source, ..message("1234", &[b'x'; 39_000], 0) };
        assert_eq!(app.submit(&long).0, 0);
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut octets = Vec::new();
    message("491700000001", b"x", 0).write(&mut octets, 7);
    pdu(&mut octets, Command::Unbind as u32, Status::Ok, 8, |_| ());
    deaf.stream.write_all(&octets).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    // The turn that was kept came free after a minute.
    app.stream.set_read_timeout(Some(Duration::from_secs(45))).unwrap();
    assert_eq!(app.submit(&message("491700000002", b"x", 0)).0, 0);
}

/// A receiver that never answers: it is not sent the same all the time, and one that answers gets
/// everything.
#[test]
fn who_does_not_answer_is_left_alone() {
    let (_dir, server) = Server::new("[timers]\nresponse_s = 0.5");
    let mut silent = Client::bound(&server.address, "other", Command::BindReceiver);
    let mut sender = Client::bound(&server.address, "app", Command::BindTransceiver);
    for _ in 0..10 {
        let body = sender.submit(&message("1234", b"x", 0));
        assert_eq!(body.0, 0);
    }
    let begin = Instant::now();
    let first = silent.next_of(Command::DeliverSm).1;
    std::thread::sleep(Duration::from_secs(7));
    // One address has one message under way at a time: after 0.5, 1.5, 3 and 5.5 s it was not
    // answered. Sent again at once, it was not a dozen times, and two more in each second that this
    // takes longer.
    let unanswered = metric(&server.http, "smsc_deliver_sm_unanswered_total");
    let most = 5 + begin.elapsed().as_secs().saturating_sub(7) / 2;
    assert!((1..=most).contains(&unanswered), "{unanswered}, {most} at most");
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(other.next_of(Command::DeliverSm).1, first);
    drop(silent);
    drop(other);
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    for _ in 0..10 {
        assert_eq!(other.deliver(Status::Ok).body, b"x");
    }
}
