//! Clients that are slow, silent, too many, or not clients at all: whoever behaves is served
//! meanwhile, and nothing is held for longer than its timer.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smpp_client::{Client, PASSWORD, Server, message};
use smsc::smpp::{Command, Status, pdu};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Whether a message is accepted and receipted; a client waits for two minutes for either.
fn is_served(client: &mut Client) -> bool {
    let (status, _) = client.submit(&message("491700000001", b"x", 1));
    status == 0 && client.deliver(Status::Ok).esm_class == 4
}

#[test]
fn who_says_nothing_or_little_is_let_go() {
    // The good ones answer no enquire_link, and may be slow beside other work, also to bind.
    let (_dir, server) =
        Server::new("[timers]\nsession_init_s = 8\nenquire_link_s = 0.5\ninactivity_s = 300");
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    let connect = || {
        let stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let mut out = Vec::new();
    pdu(&mut out, Command::BindTransceiver as u32, Status::Ok, 1, |out| {
        out.extend(b"app\0secret\0\0\x34\0\0\0")
    });
    // Silent; half of a header; half of a bind; a header whose body never comes; requests of
    // another protocol.
    let beginnings: [&[u8]; 7] = [
        b"",
        &out[..9],
        &out[..20],
        b"\0\x01\0\0\0\0\0\x04\0\0\0\0\0\0\0\x01",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
    ];
    let mut bad: Vec<TcpStream> = Vec::new();
    for octets in beginnings {
        for _ in 0..10 {
            let mut stream = connect();
            let _ = stream.write_all(octets);
            bad.push(stream);
        }
    }
    // An octet at a time, and never whole.
    let mut drip = connect();
    let dripping = std::thread::spawn(move || {
        for octet in [0_u8, 0, 0, 200].into_iter().chain(std::iter::repeat_n(1, 195)) {
            if drip.write_all(&[octet]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut rest = Vec::new();
        drip.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        drip.read_to_end(&mut rest).is_ok() || rest.is_empty()
    });
    assert!(is_served(&mut good));
    for mut stream in bad {
        let ended = stream.read_to_end(&mut Vec::new());
        let is_held =
            ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_held, "it is still there after a minute");
    }
    assert!(dripping.join().unwrap());
    // Another one gets in.
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    assert!(is_served(&mut good));
}

/// A flood of binds, right and wrong: each is answered, and who is in is served. After some wrong
/// ones the next are not looked at.
#[test]
fn a_flood_of_binds_is_answered() {
    let (_dir, server) = Server::new("connections = 60");
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    // Known at this address: guesses at others do not hold it up.
    drop(Client::bound(&server.address, "other", Command::BindTransmitter));
    let address = server.address.clone();
    let bind = move |at: usize| {
        let Ok(stream) = TcpStream::connect(&address) else { return None };
        let mut client = Client::of(stream);
        let (name, password) = [("app", "wrong"), ("nobody", PASSWORD), ("other", PASSWORD)][at % 3];
        let mut out = Vec::new();
        pdu(&mut out, Command::BindTransmitter as u32, Status::Ok, 9, |out| {
            for text in [name, password, ""] {
                out.extend_from_slice(text.as_bytes());
                out.push(0);
            }
            out.extend_from_slice(&[0x34, 0, 0, 0]);
        });
        client.stream.write_all(&out).ok()?;
        // Beyond the limit of connections there is no answer but the end.
        client.next().map(|(header, _)| (at % 3, header.status))
    };
    let floods: Vec<_> = (0..8)
        .map(|thread| {
            let bind = bind.clone();
            std::thread::spawn(move || (0..12).filter_map(|at| bind(thread * 12 + at)).collect::<Vec<_>>())
        })
        .collect();
    assert!(is_served(&mut good));
    let answers: Vec<(usize, u32)> = floods.into_iter().flat_map(|flood| flood.join().unwrap()).collect();
    assert!(answers.len() > 40, "{}", answers.len());
    for (which, status) in &answers {
        let right = match which {
            0 => [Status::Password, Status::Throttled].map(|status| status as u32).contains(status),
            1 => [Status::SystemId, Status::Throttled].map(|status| status as u32).contains(status),
            _ => *status == 0 || *status == Status::BindFailed as u32,
        };
        assert!(right, "{which} {status:#x}");
    }
    assert!(is_served(&mut good));
}

/// A client that takes nothing of what is sent to it: others get theirs.
#[test]
fn who_does_not_read_stops_nobody() {
    let (_dir, server) = Server::new("");
    let mut deaf = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut out = Vec::new();
    for sequence in 1..=60_000 {
        pdu(&mut out, Command::EnquireLink as u32, Status::Ok, sequence, |_| ());
    }
    deaf.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    // Until neither side's buffers take more.
    for _ in 0..20 {
        if deaf.stream.write_all(&out).is_err() {
            break;
        }
    }
    let mut good = Client::bound(&server.address, "limited", Command::BindTransceiver);
    assert!(is_served(&mut good));
    drop(deaf);
    assert!(is_served(&mut good));
}

/// Whatever octets come behind a bind: an answer or the end, and others are served.
#[test]
fn noise_ends_one_session_at_most() {
    let (_dir, server) = Server::new("");
    let mut good = Client::bound(&server.address, "limited", Command::BindTransceiver);
    let mut random = fathom_random::Random::new(5);
    for _ in 0..40 {
        let mut client = Client::bound(&server.address, "other", Command::BindTransceiver);
        let mut octets: Vec<u8> = (0..2000).map(|_| random.bits() as u8).collect();
        // Every second one begins with a length that can be one.
        if random.below(2) == 0 {
            octets[..4].copy_from_slice(&(16 + random.below(1500) as u32).to_be_bytes());
        }
        let _ = client.stream.write_all(&octets);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        while client.next().is_some() {}
    }
    assert!(is_served(&mut good));
}
