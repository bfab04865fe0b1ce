//! Passwords that are guessed: what guesses cost the centre, and how many of them there can be.
//!
//! A look at a password takes some milliseconds of a processor and 19 MiB. Two were looked at at a
//! time, in the order in which they came: an application that bound while two thousand others
//! guessed waited for all of them. A request of HTTP whose client had gone gave its turn to the
//! next while its password was still being looked at, so that clients that came and went took a
//! thread and 19 MiB each, without a bound. And nothing counted guesses: a password of SMPP has
//! eight letters, and whoever guessed went on as fast as the processor could.
//!
//! Now threads of their own look, one password of each source at a time, sources that are known
//! first; and after five wrong guesses each waits longer than the one before.
#![allow(clippy::unwrap_used)]

mod http_client;
mod smpp_client;

use http_client::{JSON, ask, basic};
use smpp_client::{Client, PASSWORD, Server, bind_pdu, connect_from, message, metric};
use smsc::serve::{hash_admin_password, hash_token, new_token};
use smsc::smpp::{Command, Status};
use std::io::{Read, Write};
use std::time::Duration;

/// The status with which a bind from an address is answered.
fn bind_from(last: u8, server: &Server, system_id: &str, password: &str) -> u32 {
    let mut client = Client::of(connect_from([127, 0, 0, last], &server.address));
    client.bind(system_id, password, Command::BindTransceiver)
}

/// Three hundred sources guess at once, each once, so that none is slowed for itself. An
/// application that nobody has seen yet is let in among the first, since its source is known, while
/// a hundred or more still wait; and messages go on.
#[test]
fn a_flood_of_guesses_holds_up_no_application() {
    let (_dir, server) = Server::new("[api]\nlisten = \"127.0.0.1:0\"\n");
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    let guess = bind_pdu("app", "guess", Command::BindTransceiver);
    let refused = || metric(&server.http, "smsc_binds_refused_total");
    let flood = |net: u8| -> Vec<_> {
        (0..300_u16)
            .map(|number| {
                let [high, low] = number.to_be_bytes();
                let mut stream = connect_from([127, net, high, low], &server.address);
                stream.write_all(&guess).unwrap();
                stream
            })
            .collect()
    };
    // Where this test stands still while it binds, all of a flood is looked at meanwhile, and where
    // it does so before it binds nobody is before it; not each time.
    let (mut floods, mut before, mut is_among_the_first) = (Vec::new(), Vec::new(), false);
    for (net, system_id) in [(1, "other"), (11, "limited"), (21, "narrow")] {
        floods.extend(flood(net));
        // Whoever goes at once costs no more than one that stays.
        for number in 0..300_u16 {
            let [high, low] = number.to_be_bytes();
            let mut stream = connect_from([127, net + 1, high, low], &server.api);
            let authorization = basic("app", "guess");
            let head =
                format!("GET /v1/messages/1 HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
        }
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().count();
        let processors = std::thread::available_parallelism().unwrap().get();
        assert!(threads < processors * 2 + 16, "{threads} threads");
        let since = refused();
        drop(Client::bound(&server.address, system_id, Command::BindTransceiver));
        let (until, guesses) = (refused(), floods.len() as u64);
        before.push((until - since, guesses.saturating_sub(until)));
        is_among_the_first = until - since < 150 && until + 100 <= guesses;
        if is_among_the_first {
            break;
        }
    }
    assert!(is_among_the_first, "{before:?} were looked at before, and after");
    for _ in 0..20 {
        assert_eq!(good.submit(&message("491700000001", b"x", 1)).0, 0);
        assert_eq!(good.deliver(Status::Ok).esm_class, 4);
    }
    // Each of the flood is answered in the end.
    let mut header = [0; 16];
    floods.last_mut().unwrap().read_exact(&mut header).unwrap();
    assert_eq!(header[8..12], (Status::Password as u32).to_be_bytes());
}

/// Hundreds of sessions of one application at once, whose password is looked at once.
#[test]
fn clients_that_come_back_by_the_hundred_are_let_in() {
    let (_dir, server) = Server::new("unbound = 400");
    let bind = bind_pdu("other", PASSWORD, Command::BindTransmitter);
    let mut storm: Vec<_> = (0..150)
        .map(|_| {
            let mut client = Client::connect(&server.address);
            client.stream.write_all(&bind).unwrap();
            client
        })
        .collect();
    let statuses: Vec<u32> = storm.iter_mut().map(|client| client.next().unwrap().0.status).collect();
    // Ten sessions are the account's limit; the others are told that, and not that they guess.
    let count = |wanted: Status| statuses.iter().filter(|status| **status == wanted as u32).count();
    assert_eq!((count(Status::Ok), count(Status::BindFailed)), (10, 140), "{statuses:?}");
}

/// Six guesses at an account from one address: the sixth is not looked at, and neither is the right
/// password there. Its owner elsewhere gets in, by SMPP and HTTP.
#[test]
fn guesses_wait_and_lock_nobody_out_elsewhere() {
    let (_dir, server) = Server::new("[api]\nlisten = \"127.0.0.1:0\"\n");
    for _ in 0..5 {
        assert_eq!(bind_from(2, &server, "app", "wrong"), Status::Password as u32);
    }
    // Each wait is twice as long as the one before, so that one of the next comes too soon, however
    // slow the machine.
    let mut guesses = (0..12).map(|_| bind_from(2, &server, "app", "wrong"));
    assert!(guesses.any(|status| status == Status::Throttled as u32));
    assert_eq!(bind_from(1, &server, "app", PASSWORD), Status::Ok as u32);
    let authorization = basic("app", PASSWORD);
    let headers = [("Authorization", authorization.as_str())];
    assert_eq!(ask(&server.api, "GET", "/v1/messages/1", &headers, "").status, 404);
    // Another account from that address is not held up before twenty guesses ...
    assert_eq!(bind_from(2, &server, "other", PASSWORD), Status::Ok as u32);
    for _ in 0..30 {
        let status = bind_from(2, &server, "nobody", PASSWORD);
        assert!([Status::SystemId, Status::Throttled].map(|status| status as u32).contains(&status));
    }
    // ... and one that was right there goes on behind them; one that was not is told to wait. The
    // last guess that was looked at has just begun the longest wait, 16 s.
    while bind_from(2, &server, "nobody", PASSWORD) != Status::SystemId as u32 {
        // Asked without a pause, both sides took all processors for as long.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(bind_from(2, &server, "other", PASSWORD), Status::Ok as u32);
    assert_eq!(bind_from(2, &server, "limited", PASSWORD), Status::Throttled as u32);
    assert!(metric(&server.http, "smsc_guesses_braked_total") > 0);
}

/// The same at the HTTP API and at the admin page: 429 with Retry-After, and tokens go on.
#[test]
fn guesses_over_http_wait_as_well() {
    let token = new_token().unwrap();
    let (_dir, server) = Server::new(&format!(
        "[api]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\npassword = \"{}\"\ntoken = \"{}\"\n",
        hash_admin_password("a long one").unwrap(),
        hash_token(&token)
    ));
    let wrong = basic("app", "wrong");
    let guess = || ask(&server.api, "GET", "/v1/messages/1", &[("Authorization", &wrong)], "");
    let answers: Vec<_> = (0..5).map(|_| guess()).collect();
    assert!(answers.iter().all(|answer| answer.status == 401), "{answers:?}");
    // The wait after the fifth guess is a second, which its answer has taken; the next ones are
    // twice as long each time.
    let braked = (0..8).map(|_| guess()).find(|answer| answer.status != 401).unwrap();
    assert_eq!(braked.status, 429, "{braked:?}");
    assert!(braked.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1, "{braked:?}");
    assert_eq!(braked.code(), "too_many_attempts");
    let sign_in = |password: &str| {
        let body = format!("{{\"password\":\"{password}\"}}");
        ask(&server.admin, "POST", "/api/sign-in", &[JSON, ("X-Smsc", "1")], &body).status
    };
    let statuses: Vec<u16> = (0..5).map(|_| sign_in("wrong")).collect();
    assert!(statuses.iter().all(|status| *status == 401), "{statuses:?}");
    assert!((0..8).any(|_| sign_in("wrong") == 429));
    let authorization = format!("Bearer {token}");
    assert_eq!(ask(&server.admin, "GET", "/api/state", &[("Authorization", &authorization)], "").status, 200);
}
