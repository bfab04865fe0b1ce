//! Two `smsc serve` on one Redis Cluster, one of which is killed with kill -9 under load, again and
//! again: applications bind to the other, and to the killed one when it is there again.
//!
//! Promised: what was acknowledged reaches the application that has the number, and its receipt the
//! one that has sent it; what comes from one address comes in order. What may come twice: a
//! deliver_sm of the process that was killed, whose deliver_sm_resp it had not stored, a window of
//! an account (256) for each kill at most. `SMSC_REDIS_KILLS` sets how often (2).
#![allow(clippy::unwrap_used)]

mod redis_nodes;
mod smpp_client;

use fathom_random::Random;
use redis_nodes::Nodes;
use smpp_client::{Client, PASSWORD, Server, bind_pdu, c_string, config, message};
use smsc::smpp::{Command, Deliver, Status};
use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Addresses that are sent from, half of them at each process.
const SOURCES: usize = 4;
/// Messages under way of each.
const UNDER_WAY: u32 = 8;
/// Acknowledged messages that wait for their delivery, at most about: without a bound the thousands
/// that a busy machine acknowledges took minutes to be delivered after the last kill.
const BACKLOG: usize = 400;
/// Deliveries under way of an account at most.
const ACCOUNT_WINDOW: usize = 256;

/// What the applications know.
#[derive(Default)]
struct Ledger {
    /// By the number of submit_sm_resp: source and count.
    acknowledged: HashMap<String, (usize, u32)>,
    /// How often each came.
    delivered: HashMap<(usize, u32), usize>,
    /// The last that came, of each source.
    last: [u32; SOURCES],
    disorder: Vec<String>,
    receipts: HashMap<String, usize>,
}

impl Ledger {
    /// Acknowledged messages that did not come, and receipts that did not.
    fn missing(&self) -> (usize, usize) {
        let messages = self.acknowledged.values().filter(|message| !self.delivered.contains_key(message));
        let receipts = self.acknowledged.keys().filter(|id| !self.receipts.contains_key(*id));
        (messages.count(), receipts.count())
    }

    /// Whether as many wait as may.
    fn is_behind(&self) -> bool {
        self.acknowledged.len().saturating_sub(self.delivered.len()) > BACKLOG
    }

    fn came(&mut self, deliver: &Deliver) {
        let text = String::from_utf8(deliver.body.clone()).unwrap();
        if deliver.esm_class == 4 {
            assert!(text.contains("stat:DELIVRD"), "{text}");
            let id = text.strip_prefix("id:").unwrap().split(' ').next().unwrap();
            *self.receipts.entry(id.to_owned()).or_default() += 1;
            return;
        }
        let source: usize = deliver.source.text.strip_prefix("49").unwrap().parse().unwrap();
        let count: u32 = text.parse().unwrap();
        *self.delivered.entry((source, count)).or_default() += 1;
        // The same again is a second time and no disorder.
        if count < self.last[source] {
            self.disorder.push(format!("{source}: {count} after {}", self.last[source]));
        }
        self.last[source] = count;
    }
}

/// Both processes, where they are there.
struct Site {
    addresses: Mutex<[Option<String>; 2]>,
    ledger: Mutex<Ledger>,
    /// No more is submitted.
    stops: AtomicBool,
    /// Nobody binds any more.
    ends: AtomicBool,
}

impl Site {
    /// A session at the first of these that has one.
    fn bind(&self, system_id: &str, command: Command, order: &[usize]) -> Option<Client> {
        let addresses = self.addresses.lock().unwrap().clone();
        order.iter().find_map(|&at| {
            let stream = TcpStream::connect(addresses[at].as_ref()?).ok()?;
            let mut client = Client::of(stream);
            client.stream.set_read_timeout(Some(Duration::from_secs(180))).unwrap();
            client.stream.write_all(&bind_pdu(system_id, PASSWORD, command)).ok()?;
            let (header, _) = client.next()?;
            (header.status == 0).then_some(client)
        })
    }

    /// Tells the ledger of what has come, and answers it.
    fn take(&self, client: &mut Client, sequence: u32, body: &[u8]) {
        self.ledger.lock().unwrap().came(&Deliver::read(body).unwrap());
        let mut out = Vec::new();
        smsc::smpp::pdu(&mut out, Command::DeliverSmResp as u32, Status::Ok, sequence, |out| out.push(0));
        // Where the process has gone the next read tells.
        let _ = client.stream.write_all(&out);
    }

    /// An application with a number, at one of both.
    fn receive(&self, at: usize) {
        while !self.ends.load(Relaxed) {
            let Some(mut client) = self.bind("other", Command::BindReceiver, &[at]) else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            while let Some((header, body)) = client.next() {
                if header.command == Command::DeliverSm as u32 {
                    self.take(&mut client, header.sequence, &body);
                }
            }
        }
    }

    /// An application that submits from one address; what was not answered it does not submit
    /// again.
    fn submit(&self, source: usize) {
        let mut count = 0;
        while !self.ends.load(Relaxed) {
            let order = [source % 2, 1 - source % 2];
            let Some(mut client) = self.bind("app", Command::BindTransceiver, &order) else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            let mut next = |client: &mut Client| {
                count += 1;
                let mut submit = message("1234", count.to_string().as_bytes(), 1);
                submit.source.text = format!("49{source}");
                let mut out = Vec::new();
                submit.write(&mut out, count);
                let _ = client.stream.write_all(&out);
            };
            if !self.stops.load(Relaxed) {
                (1..UNDER_WAY).for_each(|_| next(&mut client));
            }
            while let Some((header, body)) = client.next() {
                if header.command == Command::SubmitSmResp as u32 {
                    if header.status == 0 {
                        let message = (source, header.sequence);
                        let before =
                            self.ledger.lock().unwrap().acknowledged.insert(c_string(&body), message);
                        assert_eq!(before, None, "a number twice");
                    }
                    if !self.stops.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                        while self.ledger.lock().unwrap().is_behind() && !self.stops.load(Relaxed) {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        next(&mut client);
                    }
                } else if header.command == Command::DeliverSm as u32 {
                    self.take(&mut client, header.sequence, &body);
                }
            }
        }
    }
}

#[test]
fn kill_9_of_a_serving_process_loses_doubles_and_disorders_nothing() {
    let Some(nodes) = Nodes::start() else { return };
    let url = nodes.url("shards=64&keep=0").written().to_owned();
    let kills: u64 = std::env::var("SMSC_REDIS_KILLS").ok().map_or(2, |words| words.parse().unwrap());
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        let text = config("").replace("sessions = 3", "sessions = 20");
        std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    }
    let start = |at: usize| Server::start_at(dirs[at].path(), &url, &[]);
    let mut servers = [start(0), start(1)];
    let site = Site {
        addresses: Mutex::new(servers.each_ref().map(|server| Some(server.address.clone()))),
        ledger: Mutex::default(),
        stops: AtomicBool::new(false),
        ends: AtomicBool::new(false),
    };
    let mut random = Random::stream(kills, "kills", 0);
    std::thread::scope(|scope| {
        let site = &site;
        (0..2).for_each(|at| drop(scope.spawn(move || site.receive(at))));
        (0..SOURCES).for_each(|source| drop(scope.spawn(move || site.submit(source))));
        for kill in 0..kills {
            let before = site.ledger.lock().unwrap().receipts.len();
            let begin = Instant::now();
            while site.ledger.lock().unwrap().receipts.len() < before + 40 {
                assert!(begin.elapsed() < Duration::from_secs(120), "nothing is delivered");
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(random.below(500)));
            let at = (kill % 2) as usize;
            servers[at].kill();
            site.addresses.lock().unwrap()[at] = None;
            std::thread::sleep(Duration::from_millis(random.below(3000)));
            servers[at] = start(at);
            site.addresses.lock().unwrap()[at] = Some(servers[at].address.clone());
        }
        site.stops.store(true, Relaxed);
        // However long it takes beside other work, something comes now and then.
        let (mut since, mut before) = (Instant::now(), (0, 0));
        loop {
            let missing = site.ledger.lock().unwrap().missing();
            if missing == (0, 0) {
                break;
            }
            if missing != before {
                (since, before) = (Instant::now(), missing);
            }
            if since.elapsed() > Duration::from_secs(120) {
                // The others end with the processes.
                site.ends.store(true, Relaxed);
                servers.iter_mut().for_each(Server::kill);
                panic!("(messages, receipts) that did not come, none in the last two minutes: {missing:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        site.ends.store(true, Relaxed);
        for server in servers {
            server.signal("-TERM");
            assert_eq!(server.wait().0, Some(0));
        }
    });
    let check =
        std::process::Command::new(env!("CARGO_BIN_EXE_smsc")).args(["check", &url]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    let ledger = site.ledger.into_inner().unwrap();
    let twice = |counts: &mut dyn Iterator<Item = &usize>| counts.map(|count| count - 1).sum::<usize>();
    let (messages, receipts) = (twice(&mut ledger.delivered.values()), twice(&mut ledger.receipts.values()));
    println!(
        "{kills} kills: {} acknowledged, all came in order; twice: {messages} messages, {receipts} receipts",
        ledger.acknowledged.len()
    );
    assert_eq!(ledger.disorder, Vec::<String>::new());
    let most = ACCOUNT_WINDOW * kills as usize;
    assert!(messages <= most && receipts <= most, "{messages} {receipts}");
}

/// A centre that was told to end gave up a cluster that had been silent for three seconds, as it is
/// when it makes a replica its master, and ended with code 1: what was under way had no answer.
#[test]
fn a_centre_that_ends_waits_for_a_cluster_that_comes_back() {
    let Some(nodes) = Nodes::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let mut server = Server::start_at(dir.path(), nodes.url("shards=64").written(), &[]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    assert_eq!(client.submit(&message("491701234567", b"hello", 0)).0, 0);
    let replicas = (0..nodes.cluster.count()).filter(|&at| !nodes.cluster.is_master(at));
    let replicas: Vec<u32> = replicas.filter_map(|at| nodes.cluster.process(at)).collect();
    let signal = |name: &str| {
        for id in &replicas {
            let sent = std::process::Command::new("kill").args([name, &id.to_string()]).status();
            assert!(sent.unwrap().success());
        }
    };
    // Nothing is acknowledged by one node alone.
    signal("-STOP");
    let mut out = Vec::new();
    message("491701234567", b"later", 0).write(&mut out, 77);
    client.stream.write_all(&out).unwrap();
    server.line_with("store_silent");
    server.signal("-TERM");
    std::thread::sleep(Duration::from_secs(4));
    signal("-CONT");
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{said}");
    let (header, _) = client.next_of(Command::SubmitSmResp);
    assert_eq!((header.sequence, header.status), (77, 0));
}

/// A centre whose cluster says nothing any more waits for two minutes, as for a failover; told to
/// end, it took 45 s.
#[test]
fn a_centre_whose_cluster_has_gone_ends_when_it_is_told_to() {
    let Some(mut nodes) = Nodes::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let mut server = Server::start_at(dir.path(), nodes.url("shards=64").written(), &[]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    assert_eq!(client.submit(&message("491701234567", b"hello", 0)).0, 0);
    (0..nodes.cluster.count()).for_each(|at| nodes.cluster.kill(at));
    let mut out = Vec::new();
    message("491701234567", b"nobody knows", 0).write(&mut out, 77);
    client.stream.write_all(&out).unwrap();
    server.line_with("store_silent");
    server.signal("-TERM");
    let (code, said) = server.wait();
    // By itself, and not by the limit of 45 s, which has words of its own.
    assert!(code == Some(1) && !said.contains("ended_at_once"), "{code:?}: {said}");
    // What was not stored for sure was not acknowledged.
    while let Some((header, _)) = client.next() {
        assert!(header.command != Command::SubmitSmResp as u32 || header.status != 0);
    }
}
