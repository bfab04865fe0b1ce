//! Connections of strangers: however many there are, whoever is known gets in, and the store has
//! its descriptors.
//!
//! Sixty connections that said nothing were enough to keep every application out where
//! `connections` was 40, for as long as `session_init_s`, and again after that. Where the system
//! gave fewer descriptors than the configuration wanted, connections took the last of them: no
//! client got in, and the next log segment would have ended the centre. One address could have all
//! 512 connections of the HTTP API. Now whoever is not known has places of their own, of which one
//! source has half at most; and the oldest of the source that has most goes for the next.
#![allow(clippy::unwrap_used)]

mod http_client;
mod smpp_client;

use http_client::{ask, basic};
use smpp_client::{Client, FOREVER, PASSWORD, Server, bind_pdu, config, message, metric, read};
use smsc::smpp::{Command, Status};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// So many connections; those that the other side has closed at once count, too.
fn crowd(address: &str, count: usize, octets: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        // One that was driven out may be closed by now.
        let _ = stream.write_all(octets);
        stream
    };
    (0..count).map(connect).collect()
}

/// A connection from an address of this machine that has room for few answers.
fn connect_with_little_room(source: [u8; 4], address: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind((source, 0).into()).unwrap();
        socket.connect(address.parse().unwrap()).await
    });
    let stream = connected.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Whether the other side has closed a connection, or does while nothing is sent.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut octets = [0; 4096];
    loop {
        match read(stream, &mut octets) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn is_served(client: &mut Client) -> bool {
    client.submit(&message("491700000001", b"x", 1)).0 == 0 && client.deliver(Status::Ok).esm_class == 4
}

/// A client that is bound although there is a crowd. On a slow machine not the first, but one of
/// these: each drives out one of the crowd, which has a quarter of a second to go.
fn bound_in_a_crowd(server: &Server, system_id: &str, command: Command) -> Option<Client> {
    (0..6).find_map(|_| {
        let mut client = Client::connect(&server.address);
        let is_sent = client.stream.write_all(&bind_pdu(system_id, PASSWORD, command)).is_ok();
        let is_bound = is_sent && client.next().is_some_and(|(header, _)| header.status == Status::Ok as u32);
        is_bound.then_some(client)
    })
}

/// Silent connections, and some that send requests and never read: the one that is bound goes on,
/// another gets in, and no more are kept than there are places.
#[test]
fn strangers_take_no_place_of_an_applications() {
    // Nobody goes by himself, however long it takes.
    let (_dir, server) = Server::new("connections = 3\nunbound = 20\n[timers]\nsession_init_s = 3600");
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    let silent = crowd(&server.address, 60, b"");
    let enquiries = [0, 0, 0, 16, 0, 0, 0, 0x15, 0, 0, 0, 0, 0, 0, 0, 1].repeat(500);
    let deaf = crowd(&server.address, 60, &enquiries);
    let mut second = bound_in_a_crowd(&server, "other", Command::BindTransceiver).unwrap();
    assert!(is_served(&mut good) && is_served(&mut second));
    let open = metric(&server.http, "smsc_connections");
    assert!(open <= 2 + 20, "{open}");
    // One address has half of the places at most, and two of the crowd are gone for good.
    let mut kept: Vec<TcpStream> = silent.into_iter().chain(deaf).collect();
    let begin = Instant::now();
    while kept.len() > 10 && begin.elapsed() < FOREVER {
        kept.retain_mut(|stream| !is_closed(stream));
    }
    assert!(kept.len() <= 10, "{}", kept.len());
    assert!(metric(&server.http, "smsc_connections_driven_out_total") >= 100);
    // Places of those that are bound have their own limit.
    let _third = Client::bound(&server.address, "other", Command::BindTransmitter);
    let refused = Client::connect(&server.address).bind("other", PASSWORD, Command::BindTransmitter);
    assert_eq!(refused, Status::BindFailed as u32);
}

/// What happened: a stranger that took none of its answers kept its place for two seconds after it
/// was driven out, and whoever it was driven out for waits a quarter of one: where such had all
/// places, nobody got in.
#[test]
fn who_is_driven_out_goes_at_once_though_it_reads_nothing() {
    let (_dir, server) = Server::new("unbound = 4\n[timers]\nsession_init_s = 60");
    let enquiries = [0, 0, 0, 16, 0, 0, 0, 0x15, 0, 0, 0, 0, 0, 0, 0, 1].repeat(20_000);
    let deaf = |last: u8| {
        let mut stream = connect_with_little_room([127, 3, 0, last], &server.address);
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        // Until neither side's buffers take more.
        while stream.write_all(&enquiries).is_ok() {}
        stream
    };
    let _deaf: Vec<TcpStream> = (1..=4).map(deaf).collect();
    assert!(bound_in_a_crowd(&server, "app", Command::BindTransmitter).is_some());
}

/// A crowd at the HTTP API: a request of an application is answered, and its connection, which is
/// kept open, outlives the crowd.
#[test]
fn a_crowd_at_the_api_keeps_nobody_out() {
    let (_dir, server) = Server::new("[api]\nlisten = \"127.0.0.1:0\"\n");
    let authorization = basic("app", PASSWORD);
    let mut known = TcpStream::connect(&server.api).unwrap();
    known.set_read_timeout(Some(FOREVER)).unwrap();
    let request = format!("GET /v1/messages/1 HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n");
    let mut answered = || {
        known.write_all(request.as_bytes()).unwrap();
        let mut octets = [0; 4096];
        let read = read(&mut known, &mut octets).unwrap();
        String::from_utf8_lossy(&octets[..read]).starts_with("HTTP/1.1 404")
    };
    assert!(answered());
    let mut many = Vec::new();
    for _ in 0..6 {
        many.extend(crowd(&server.api, 100, b"GET / HT"));
        // It may be silent for ten seconds, however long all of them take.
        assert!(answered());
    }
    let answer = ask(&server.api, "GET", "/v1/messages/1", &[("Authorization", &authorization)], "");
    assert_eq!(answer.status, 404);
    let closed = many.iter_mut().take(300).filter_map(|stream| is_closed(stream).then_some(())).count();
    // Some may need longer than a fifth of a second on a slow machine; were nobody driven out, the
    // first fifty would stay for the ten seconds that a request may take.
    assert!(closed >= 280, "{closed}: one address has half of the places");
}

/// Fewer descriptors than the configuration wants: connections get what the store leaves, which is
/// said. Messages fill log segments meanwhile.
#[test]
fn the_store_has_its_descriptors_however_many_connect() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let mut server = Server::start_with(dir.path(), &["--segment-mib", "1"], "ulimit -n 200");
    assert!(server.said.contains("few_descriptors: "), "{}", server.said);
    let mut good = Client::bound(&server.address, "app", Command::BindTransceiver);
    let _crowd = crowd(&server.address, 300, b"");
    let body = vec![b'x'; 20_000];
    for _ in 0..150 {
        let long = smsc::smpp::Submit { data_coding: 4, ..message("1234", &body, 0) };
        assert_eq!(good.submit(&long).0, 0);
    }
    let _second = bound_in_a_crowd(&server, "other", Command::BindTransmitter).unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    assert!(open < 190, "{open}");
    server.kill();
}
