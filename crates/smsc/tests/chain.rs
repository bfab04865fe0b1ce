//! Two centres, one of which is the other's peer, as processes: kill -9 of either under load.
//!
//! Promised: each message that the first centre has acknowledged reaches the second one, and its
//! receipt the application. What may come twice: a submit_sm whose submit_sm_resp the first centre
//! had not stored when either was killed (at most its window for each kill), and a deliver_sm
//! without a stored deliver_sm_resp.
#![allow(clippy::unwrap_used)]

mod free_ports;
mod smpp_client;

use fathom_random::Random;
use free_ports::free_ports;
use smpp_client::{Client, Server, c_string, config, message};
use smsc::centre::read_archive;
use smsc::smpp::{Command, Deliver, Status, pdu};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Messages under way between both.
const WINDOW: usize = 20;

/// Nobody is taken for silent because a busy machine lets him stand still: what is not answered in
/// time comes twice, and who did not answer is left alone for as long again, twice as long each
/// time. It is the longest that may be asked for.
const TIMERS: &str = "[timers]\nresponse_s = 45";

fn start(dir: &Path) -> Server {
    Server::start(dir, &["--segment-mib", "1"])
}

/// The two directories, configured.
fn pair() -> (tempfile::TempDir, tempfile::TempDir) {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A port of its own, so that the centre can come back at the same one.
    let [port] = free_ports();
    let listen = format!("listen = \"127.0.0.1:{port}\"");
    let of_second = config(TIMERS).replacen("listen = \"127.0.0.1:0\"", &listen, 1);
    std::fs::write(second.path().join("smsc.toml"), of_second).unwrap();
    let address = listen.split('"').nth(1).unwrap();
    let of_first = config(TIMERS)
        + &format!(
            "[[peer]]\nnumber = 1\nname = \"second\"\naddress = \"{address}\"\nsystem_id = \"app\"\n\
             password = \"secret\"\nreconnect_s = 0.1\nreconnect_max_s = 0.3\nwindow = {WINDOW}\n\
             response_s = 45\nbinds = [\"transceiver\", \"transmitter\"]\n[[route]]\nto = \"second\"\n"
        );
    std::fs::write(first.path().join("smsc.toml"), of_first).unwrap();
    (first, second)
}

/// Ends both in order.
fn end(servers: [Server; 2]) {
    for server in servers {
        server.signal("-TERM");
        assert_eq!(server.wait().0, Some(0));
    }
}

/// How often each message came to the centre in `dir`, by its source.
fn arrived(dir: &Path) -> HashMap<String, usize> {
    let mut arrived: HashMap<String, usize> = HashMap::new();
    let mut count = |record: smsc::centre::ArchivedMessage| {
        if record.receipt_of == 0 {
            *arrived.entry(record.src).or_default() += 1;
        }
    };
    read_archive(&dir.join("store"), &mut count).unwrap();
    arrived
}

/// What the application knows.
#[derive(Default)]
struct Ledger {
    /// Numbers that were acknowledged, and the source of each.
    acknowledged: HashMap<String, String>,
    /// How often each number's receipt came.
    receipts: HashMap<String, usize>,
    submitted: u32,
}

impl Ledger {
    fn receipt(&mut self, body: &[u8]) {
        let deliver = Deliver::read(body).unwrap();
        let text = String::from_utf8(deliver.body).unwrap();
        assert!(text.contains("stat:DELIVRD"), "{text}");
        let id = text.strip_prefix("id:").unwrap().split(' ').next().unwrap().to_owned();
        *self.receipts.entry(id).or_default() += 1;
    }

    fn missing(&self) -> usize {
        self.acknowledged.keys().filter(|id| !self.receipts.contains_key(*id)).count()
    }

    /// Keeps `under_way` messages under way for as long as `goes_on` and the connection last.
    fn load(&mut self, client: &mut Client, under_way: usize, goes_on: &dyn Fn() -> bool) {
        let mut sent = HashMap::new();
        // Accepting is faster than a chain delivers to 60 mobiles: what is behind must be caught
        // up.
        let most = self.submitted + 1500;
        let submit = |ledger: &mut Ledger, client: &mut Client, sent: &mut HashMap<u32, String>| {
            ledger.submitted += 1;
            let source = format!("49{:09}", ledger.submitted);
            let sequence = 10_000 + ledger.submitted;
            let mut submit = message(&format!("49170{:07}", ledger.submitted % 60), b"hello", 1);
            submit.source.text.clone_from(&source);
            let mut out = Vec::new();
            submit.write(&mut out, sequence);
            sent.insert(sequence, source);
            client.stream.write_all(&out).is_ok()
        };
        let mut is_open = (0..under_way).all(|_| submit(self, client, &mut sent));
        while let Some((header, body)) = client.next() {
            if header.command == Command::SubmitSmResp as u32 {
                let source = sent.remove(&header.sequence).unwrap();
                if header.status == 0 {
                    self.acknowledged.insert(c_string(&body), source);
                }
                is_open = is_open && goes_on() && self.submitted < most && submit(self, client, &mut sent);
            } else if header.command == Command::DeliverSm as u32 {
                self.receipt(&body);
                let mut out = Vec::new();
                pdu(&mut out, Command::DeliverSmResp as u32, Status::Ok, header.sequence, |out| out.push(0));
                is_open = client.stream.write_all(&out).is_ok() && is_open;
            }
            if sent.is_empty() && !(goes_on() && self.submitted < most) {
                return;
            }
        }
    }
}

/// `SMSC_KILLS` sets how often.
#[test]
fn kill_9_of_either_centre_loses_nothing() {
    let kills: u64 = std::env::var("SMSC_KILLS").ok().map_or(8, |words| words.parse().unwrap());
    let (first_dir, second_dir) = pair();
    let mut random = Random::new(kills);
    let mut ledger = Ledger::default();
    let (mut first, mut second) = (start(first_dir.path()), start(second_dir.path()));
    for kill in 0..kills {
        let mut client = Client::bound(&first.address, "app", Command::BindTransceiver);
        let moment = Duration::from_millis(20 + random.below(600));
        if kill % 2 == 0 {
            let killer = std::thread::spawn(move || {
                std::thread::sleep(moment);
                first.kill();
            });
            ledger.load(&mut client, 50, &|| true);
            killer.join().unwrap();
            first = start(first_dir.path());
        } else {
            let begin = Instant::now();
            let dir = second_dir.path().to_owned();
            let killer = std::thread::spawn(move || {
                std::thread::sleep(moment);
                second.kill();
                std::thread::sleep(Duration::from_millis(100));
                start(&dir)
            });
            ledger.load(&mut client, 50, &|| begin.elapsed() < moment * 2);
            second = killer.join().unwrap();
        }
    }
    let mut client = Client::bound(&first.address, "app", Command::BindTransceiver);
    let begin = Instant::now();
    while ledger.missing() > 0 {
        // More kills leave more behind; that nothing comes for two minutes ends the test, too.
        let most = Duration::from_secs(90 + 20 * kills);
        assert!(begin.elapsed() < most, "{} receipts are missing", ledger.missing());
        let (header, body) = client.next_of(Command::DeliverSm);
        client.answer(Command::DeliverSmResp, Status::Ok, header.sequence);
        ledger.receipt(&body);
    }
    drop(client);
    end([first, second]);
    for dir in [&first_dir, &second_dir] {
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_smsc"));
        let output = check.arg("check").arg(dir.path().join("store")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let arrived = arrived(second_dir.path());
    let sources: HashSet<&String> = ledger.acknowledged.values().collect();
    let lost = sources.iter().filter(|source| !arrived.contains_key(**source)).count();
    let twice: usize = arrived.values().map(|count| count - 1).sum();
    let again: usize = ledger.receipts.values().map(|count| count - 1).sum();
    println!(
        "{kills} kills: {} acknowledged, {lost} lost, {twice} submitted twice, {again} receipts twice",
        sources.len()
    );
    assert_eq!(lost, 0);
    // Two sessions with a window each.
    assert!(twice <= 2 * WINDOW * kills as usize, "{twice}");
    assert!(sources.len() > 100);
}

/// Without a kill nothing comes twice, and messages the other way reach the application.
#[test]
fn a_chain_delivers_each_message_once() {
    let (first_dir, second_dir) = pair();
    let (first, second) = (start(first_dir.path()), start(second_dir.path()));
    let mut ledger = Ledger::default();
    let mut client = Client::bound(&first.address, "app", Command::BindTransceiver);
    let begin = Instant::now();
    ledger.load(&mut client, 50, &|| begin.elapsed() < Duration::from_secs(1));
    while ledger.missing() > 0 {
        let (header, body) = client.next_of(Command::DeliverSm);
        client.answer(Command::DeliverSmResp, Status::Ok, header.sequence);
        ledger.receipt(&body);
    }
    drop(client);
    end([first, second]);
    let arrived = arrived(second_dir.path());
    assert_eq!(arrived.len(), ledger.acknowledged.len());
    assert!(arrived.values().all(|count| *count == 1));
    assert!(ledger.receipts.values().all(|count| *count == 1));
}

/// The two centres of `docs/examples`, as they are shipped but for their ports: a message of each
/// side goes through both, and its receipt comes back.
#[test]
fn the_shipped_examples_pass_messages_both_ways() {
    let (dirs, ports) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], free_ports::<2>());
    let start = |at: usize, name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name);
        let mut text = std::fs::read_to_string(path).unwrap();
        for (shipped, port) in [("2775", ports[0]), ("2776", ports[1])] {
            text = text.replace(&format!("127.0.0.1:{shipped}"), &format!("127.0.0.1:{port}"));
        }
        for shipped in ["9275", "9277", "9285", "9287"] {
            text = text.replace(&format!("127.0.0.1:{shipped}"), "127.0.0.1:0");
        }
        // What waits for the server reads its log as people do.
        let text = text.replace("format = \"logfmt\"", "format = \"text\"");
        std::fs::write(dirs[at].path().join("smsc.toml"), text).unwrap();
        self::start(dirs[at].path())
    };
    let servers = [start(0, "centre-east.toml"), start(1, "centre-west.toml")];
    for (server, system_id, from, to) in
        [(&servers[0], "app", "4901", "4477009"), (&servers[1], "shop", "4402", "491701")]
    {
        let mut client = Client::bound(&server.address, system_id, Command::BindTransceiver);
        let submit = |number: usize| {
            let mut submit = message(&format!("{to}{number:05}"), b"hello", 1);
            from.clone_into(&mut submit.source.text);
            submit
        };
        let accepted: HashSet<String> = (0..20)
            .map(|number| {
                let (status, id) = client.submit(&submit(number));
                assert_eq!(status, 0);
                id
            })
            .collect();
        let receipts = (0..20).map(|_| String::from_utf8(client.deliver(Status::Ok).body).unwrap());
        let receipted = receipts.map(|text| {
            assert!(text.contains("stat:DELIVRD"), "{text}");
            text.strip_prefix("id:").unwrap().split(' ').next().unwrap().to_owned()
        });
        assert_eq!(receipted.collect::<HashSet<_>>(), accepted);
    }
    end(servers);
    for (dir, from) in [(&dirs[1], "4901"), (&dirs[0], "4402")] {
        assert_eq!(arrived(dir.path()).get(from), Some(&20));
    }
}
