//! A PostgreSQL server that stops answering while its connections stay: it was stopped, or what is
//! between lets nothing through. `smsc serve` hung without limit and without a word, and `/health`
//! said that it served.
#![allow(clippy::unwrap_used)]

mod foreign_server;
mod http_client;
mod smpp_client;

use foreign_server::ForeignServer;
use http_client::{JSON, ask, basic};
use smpp_client::{Client, PASSWORD, Server, c_string, config, message, metric};
use smsc::smpp::{Command as Smpp, Status};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Sends a signal to these processes.
fn signal(name: &str, processes: &[String]) {
    assert!(Command::new("kill").arg(name).args(processes).status().unwrap().success());
}

/// Lets a stopped server go on, also where a test fails.
struct Stopped {
    first: [String; 1],
    children: Vec<String>,
}

impl Stopped {
    /// The first process before its children are looked for: it makes none meanwhile, and one that
    /// ends stays, so that a signal finds it.
    fn stop(given: &ForeignServer) -> Stopped {
        let first = given.server.process().unwrap();
        let mut stopped = Stopped { first: [first.to_string()], children: Vec::new() };
        signal("-STOP", &stopped.first);
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap();
            // Its name may have any signs in it.
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        while !is_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        stopped.children = children.split_whitespace().map(str::to_owned).collect();
        signal("-STOP", &stopped.children);
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.children.is_empty() {
            signal("-CONT", &self.children);
        }
        signal("-CONT", &self.first);
    }
}

fn serve(dir: &Path, url: &str) -> Server {
    // A client of a busy machine may take its time to answer: what it has not answered comes twice.
    let timers = "[timers]\nresponse_s = 45\n";
    let api = format!("{timers}[api]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"{url}\"\n");
    std::fs::write(dir.join("smsc.toml"), config(&api)).unwrap();
    Server::start_configured(dir, &[])
}

/// Waits until `GET /health` gives this status; its words.
fn health(server: &Server, status: u16) -> String {
    let begin = Instant::now();
    loop {
        let answer = ask(&server.http, "GET", "/health", &[], "");
        if answer.status == status {
            return answer.body;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Receipts by the number of their message, until there are so many messages.
fn receipts(client: &mut Client, wanted: usize) -> HashMap<String, usize> {
    let mut found = HashMap::new();
    while found.len() < wanted {
        let text = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
        let id = text.strip_prefix("id:").unwrap().split(' ').next().unwrap().to_owned();
        *found.entry(id).or_default() += 1;
    }
    found
}

/// Before the time is over nothing new is taken, and all who ask are told; then the centre ends,
/// and who waited is told that it failed. Started again it has what it acknowledged, once.
#[test]
fn a_server_that_is_stopped_is_told_of_and_given_up() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    // Long enough for all that is asked before it is over, also on a machine that stands still.
    let url = given.checked_url("owner", "timeout=40");
    let server = serve(dir.path(), &url);
    assert_eq!(health(&server, 200), "serving\n");
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransmitter);
    let mut accepted = Vec::new();
    for at in 0..20 {
        let (status, id) = client.submit(&message(&format!("49170{at:07}"), b"before", 1));
        assert_eq!(status, 0);
        accepted.push(id);
    }
    let stopped = Stopped::stop(&given);
    // One that is on its way, and one that comes when it is known.
    let mut waiting = Client::bound(&server.address, "app", Smpp::BindTransmitter);
    let mut under_way = Vec::new();
    message("491701111111", b"under way", 1).write(&mut under_way, 99);
    waiting.stream.write_all(&under_way).unwrap();
    let told = health(&server, 503);
    assert!(told.starts_with("the store has not answered for "), "{told}");
    let (status, _) = client.submit(&message("491702222222", b"x", 1));
    assert_eq!(status, Status::Throttled as u32);
    let authorization = basic("other", PASSWORD);
    let headers = [JSON, ("Authorization", authorization.as_str())];
    let body = "{\"to\":\"491703333333\",\"from\":\"1\",\"text\":\"x\"}";
    let answer = ask(&server.api, "POST", "/v1/messages", &headers, body);
    assert!(answer.status == 503 && answer.body.contains("store_silent"), "{answer:?}");
    assert_eq!(metric(&server.http, "smsc_store_silent_total"), 2);
    let (header, _) = waiting.next_of(Smpp::SubmitSmResp);
    assert_eq!((header.status, header.sequence), (Status::SystemError as u32, 99));
    let (code, said) = server.wait();
    assert_eq!(code, Some(1), "{said}");
    for words in [
        "store_silent: no answer for ",
        "it is given up after 40 s",
        "the server has not answered for 40 s, although it is connected",
        "start again when it answers",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("it answers again"), "{said}");
    drop(stopped);
    // The server ends the connections of the first centre when it looks at them again.
    let server = serve(dir.path(), &url);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransceiver);
    let (status, last) = client.submit(&message("491704444444", b"after", 1));
    assert_eq!(status, 0);
    accepted.push(last.clone());
    let mut found = receipts(&mut client, accepted.len());
    // What was under way may have been done.
    while !found.contains_key(&last) {
        found.extend(receipts(&mut client, 1));
    }
    assert!(accepted.iter().all(|id| found.contains_key(id)), "{found:?}");
    assert!(found.values().all(|&count| count == 1), "{found:?}");
    let check = Command::new(env!("CARGO_BIN_EXE_smsc")).args(["check", &url]).output().unwrap();
    assert!(check.status.success(), "{check:?}");
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
}

/// One that answers in time is gone on with, and nothing is lost or refused for good.
#[test]
fn a_server_that_answers_again_is_gone_on_with() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut server = serve(dir.path(), &given.checked_url("owner", "timeout=60"));
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransceiver);
    let stopped = Stopped::stop(&given);
    let mut under_way = Vec::new();
    message("491701111111", b"under way", 1).write(&mut under_way, 99);
    client.stream.write_all(&under_way).unwrap();
    health(&server, 503);
    drop(stopped);
    let (header, body) = client.next_of(Smpp::SubmitSmResp);
    assert_eq!((header.status, header.sequence), (0, 99));
    server.line_with("store_answers");
    health(&server, 200);
    let found = receipts(&mut client, 1);
    assert_eq!(found.get(&c_string(&body)), Some(&1), "{found:?}");
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
}

/// SIGTERM had no effect: all threads waited for the server.
#[test]
fn a_centre_ends_although_its_server_does_not_answer() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let url = given.checked_url("owner", "timeout=3600");
    let server = serve(dir.path(), &url);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransmitter);
    let stopped = Stopped::stop(&given);
    let mut under_way = Vec::new();
    message("491701111111", b"under way", 1).write(&mut under_way, 99);
    client.stream.write_all(&under_way).unwrap();
    server.signal("-TERM");
    let (code, said) = server.wait();
    // By itself, and not by the limit of 45 s, which has words of its own.
    assert!(code == Some(1) && said.contains("given up"), "{code:?}: {said}");
    assert!(!said.contains("ended_at_once"), "{said}");
    // Nor does one that cannot begin, as its server does not answer, keep anybody waiting.
    let mut child = Command::new(env!("CARGO_BIN_EXE_smsc"))
        .args(["serve", "--config"])
        .arg(dir.path().join("smsc.toml"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says what it waits for.
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.find_map(|line| line.ok().filter(|line| line.contains("store_opens"))).unwrap();
    assert!(line.contains("its server is waited for, since "), "{line}");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    // By itself: the limit of 45 s ends one that waits for its connection with 1.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stopped);
}

/// What happened: a message came as SIGTERM did and was not read, so that nobody waited for the
/// store but the thread of timers, whose waiting counted for nothing: the end took 45 s.
#[test]
fn a_centre_without_work_notices_that_its_server_does_not_answer_and_ends() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &given.checked_url("owner", "timeout=3600"));
    assert_eq!(health(&server, 200), "serving\n");
    let stopped = Stopped::stop(&given);
    let told = health(&server, 503);
    assert!(told.starts_with("the store has not answered for "), "{told}");
    drop(stopped);
    assert_eq!(health(&server, 200), "serving\n");
    let stopped = Stopped::stop(&given);
    health(&server, 503);
    server.signal("-TERM");
    let (code, said) = server.wait();
    // By itself, and not by the limit of 45 s, which has words of its own.
    assert!(code == Some(1) && said.contains("given up"), "{code:?}: {said}");
    assert!(!said.contains("ended_at_once"), "{said}");
    drop(stopped);
}

/// A wire to a server that can be cut without a word: what is sent is taken, and goes nowhere.
fn wire(to: u16) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    let carry = move |mut from: TcpStream, mut to: TcpStream, cut: Arc<AtomicBool>| {
        let mut octets = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut octets) {
            if !cut.load(Relaxed) && to.write_all(&octets[..count]).is_err() {
                return;
            }
        }
        if !cut.load(Relaxed) {
            let _ = to.shutdown(std::net::Shutdown::Both);
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (here, there) = (stream.unwrap(), TcpStream::connect(("127.0.0.1", to)).unwrap());
            let (from, back) = (here.try_clone().unwrap(), there.try_clone().unwrap());
            let (first, second) = (Arc::clone(&cut), Arc::clone(&cut));
            std::thread::spawn(move || carry(from, there, first));
            std::thread::spawn(move || carry(back, here, second));
        }
    });
    (port, is_cut)
}

/// A machine that has gone behind a network that says nothing of it; over TLS, and with one thread
/// of several that alone has something under way.
#[test]
fn a_network_that_swallows_everything_is_noticed() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (port, cut) = wire(given.port);
    let url =
        given.checked_url("owner", "timeout=20").replace(&format!(":{}/", given.port), &format!(":{port}/"));
    let server = serve(dir.path(), &url);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransmitter);
    assert_eq!(client.submit(&message("491701111111", b"x", 0)).0, 0);
    cut.store(true, Relaxed);
    let (code, said) = server.wait();
    // Whoever just then makes a connection notices it sooner.
    let noticed = ["has not answered for 20 s", "no answer within connect_timeout"];
    assert!(code == Some(1) && noticed.iter().any(|words| said.contains(words)), "{code:?}: {said}");
}
