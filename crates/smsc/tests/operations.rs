//! Running a centre: its log, another configuration, limits of what waits, files of the archive.
#![allow(clippy::unwrap_used)]

mod http_client;
mod smpp_client;

use http_client::ask;
use smpp_client::{Client, FOREVER, PASSWORD, Server, bind_pdu, config, message};
use smsc::smpp::{Command, Status};
use std::io::Write;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < FOREVER, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A metric.
fn gauge(server: &Server, name: &str) -> u64 {
    let metrics = ask(&server.http, "GET", "/metrics", &[], "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Starts one that says where it listens in JSON, which `Server` does not read.
fn log_of(format: &str, text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let log =
        format!("[log]\nformat = \"{format}\"\nlevel = \"debug\"\n{text}\n[api]\nlisten = \"127.0.0.1:0\"\n");
    std::fs::write(dir.path().join("smsc.toml"), config(&log)).unwrap();
    let said = dir.path().join("log");
    let mut child = Process::new(env!("CARGO_BIN_EXE_smsc"))
        .args(["serve", "--segment-mib", "1", "--config"])
        .arg(dir.path().join("smsc.toml"))
        .arg("--store")
        .arg(dir.path().join("store"))
        .stderr(Stdio::from(std::fs::File::create(&said).unwrap()))
        .spawn()
        .unwrap();
    let read = || std::fs::read_to_string(&said).unwrap();
    let mut text = String::new();
    until("it listens", || {
        text = read();
        // Whole lines, as it may just be writing.
        text.contains("listening") && text.ends_with('\n')
    });
    let line = text.lines().find(|line| line.contains("listening")).unwrap();
    let address = line.split(['"', '=', ' ']).find(|word| word.starts_with("127.0.0.1:")).unwrap().to_owned();
    let mut client = Client::bound(&address, "app", Command::BindTransceiver);
    assert_ne!(client.submit(&message("no number", b"refused", 1)).0, 0);
    assert_eq!(client.submit(&message("491700000001", b"a secret text", 1)).0, 0);
    client.deliver(Status::Ok);
    drop(client);
    // Whoever is refused, with a name that would forge lines.
    let mut stranger = Client::connect(&address);
    stranger.send(Command::BindReceiver as u32, b"x\" event=y\0wrong\0\0\x34\0\0\0");
    stranger.next_of(Command::BindReceiverResp);
    until("the end of the session is logged", || read().contains("session_end"));
    assert!(Process::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    read().lines().map(str::to_owned).collect()
}

#[test]
fn a_log_is_one_event_a_line_without_what_messages_say() {
    let lines = log_of("json", "");
    let events: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    for name in
        ["listening", "api", "connected", "bind", "session_end", "bind_refused", "stopping", "stopped"]
    {
        assert!(!named(name).is_empty(), "{name} in {lines:#?}");
    }
    assert_eq!(
        (&named("bind")[0]["system_id"], &named("bind")[0]["as"]),
        (&"app".into(), &"transceiver".into())
    );
    let refused = named("bind_refused")[0];
    assert_eq!(
        (&refused["system_id"], &refused["status"]),
        (&"x\" event=y".into(), &"ESME_RINVSYSID".into())
    );
    assert_eq!(refused["level"], "warn");
    // What happened: a message that was refused was counted, and nothing told it from the others.
    let end = named("session_end")[0];
    let counts = ["submitted", "accepted", "refused"].map(|name| end[name].as_i64());
    assert_eq!(counts, [Some(2), Some(1), Some(1)], "{end}");
    assert!(events.iter().all(|event| event["time"].as_str().unwrap().ends_with('Z')), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("secret text")), "{lines:#?}");
    let lines = log_of("logfmt", "");
    assert!(lines.iter().all(|line| line.starts_with("time=2") && line.contains(" level=")), "{lines:#?}");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("event=bind_refused") && line.contains(r#"system_id="x\" event=y""#)),
        "{lines:#?}"
    );
    assert_eq!(lines.iter().filter(|line| line.contains(" event=stopped")).count(), 1, "{lines:#?}");
}

/// A log that nobody reads, in a pipe that is full, holds nobody up.
#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("[log]\nlevel = \"debug\"")).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    // 64 KiB are soon full: a connection is two lines.
    for _ in 0..1500 {
        drop(std::net::TcpStream::connect(&server.address).unwrap());
    }
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    assert_eq!(client.submit(&message("491700000001", b"x", 1)).0, 0);
    client.deliver(Status::Ok);
}

/// What can be changed while it runs is changed, also for what is there; what cannot is said, and
/// nothing of it is taken.
#[test]
fn another_configuration_is_taken_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smsc.toml");
    std::fs::write(&file, config("")).unwrap();
    let mut server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "other", Command::BindTransceiver);
    let mut reload = |text: &str| {
        std::fs::write(&file, text).unwrap();
        server.signal("-HUP");
        loop {
            let line = server.line();
            if line.contains("reloaded") {
                return line;
            }
        }
    };
    for (more, words) in [
        ("queue = 7", "`queue` takes a restart"),
        ("connections = 7", "`connections` takes a restart"),
        ("[archive]\nrotate_mib = 7", "`[archive]` takes a restart"),
        ("[api]", "`[api]` takes a restart"),
        ("[timers]\nresponse_s = 99", ":4: 99 is out of range"),
    ] {
        let line = reload(&config(more));
        assert!(line.starts_with("not_reloaded: ") && line.contains(words), "{more}: {line}");
        assert!(line.contains("the old configuration holds"), "{line}");
    }
    // An account that is taken away loses its sessions.
    let without = config("")
        .replace("system_id = \"other\"", "system_id = \"another\"")
        .replace("number = 2", "number = 9");
    assert_eq!(reload(&without), "reloaded\n");
    client.next_of(Command::Unbind);
    let mut client = Client::bound(&server.address, "another", Command::BindTransceiver);
    assert_eq!(client.submit(&message("491700000001", b"x", 0)).0, 0);
}

/// An account is taken away while the password of one that binds is looked at: its session ends as
/// all others do. It stayed, as it was bound after those were looked for.
#[test]
fn who_binds_while_its_account_is_taken_away_does_not_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smsc.toml");
    std::fs::write(&file, config("")).unwrap();
    let mut server = Server::start(dir.path(), &["--segment-mib", "1"]);
    // One password of an address is looked at at a time, so these hold it up; each is a wrong one.
    let names = ["app", "other", "limited", "narrow"];
    let wrong: Vec<Client> = (0..16)
        .map(|at| {
            let mut client = Client::connect(&server.address);
            client.stream.write_all(&bind_pdu(names[at % 4], "wrong", Command::BindReceiver)).unwrap();
            client
        })
        .collect();
    let mut client = Client::connect(&server.address);
    client.stream.write_all(&bind_pdu("other", PASSWORD, Command::BindReceiver)).unwrap();
    let without = config("").replace("system_id = \"other\"", "system_id = \"another\"");
    std::fs::write(&file, without.replace("number = 2", "number = 9")).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    // It is refused, or bound and unbound at once.
    while let Some((header, _)) = client.next() {
        assert!([Command::BindReceiverResp as u32, Command::Unbind as u32].contains(&header.command));
    }
    drop(wrong);
}

/// Another rate holds for sessions that are bound. They kept what they had been bound with.
#[test]
fn another_rate_holds_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smsc.toml");
    std::fs::write(&file, config("")).unwrap();
    let mut server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    for (limit, is_throttled) in [("", false), ("\nrate = 1", true), ("", false)] {
        std::fs::write(&file, config("").replace("sessions = 3", &format!("sessions = 3{limit}"))).unwrap();
        server.signal("-HUP");
        server.line_with("reloaded");
        // At once: a disk that takes a second for each would keep to the rate.
        let mut octets = Vec::new();
        (1..=9).for_each(|number| message("491700000001", b"x", 0).write(&mut octets, 100 + number));
        client.stream.write_all(&octets).unwrap();
        let statuses: Vec<u32> = (0..9).map(|_| client.next_of(Command::SubmitSmResp).0.status).collect();
        assert_eq!(statuses.contains(&(Status::Throttled as u32)), is_throttled, "{limit}: {statuses:?}");
    }
}

/// An application that does not come for its receipts may not fill the memory: its messages that
/// ask for more are refused, others are not, and so are messages to its numbers; once it has
/// fetched what waits, all goes on.
#[test]
fn what_nobody_fetches_has_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let text = config("").replace("numbers = [\"1234\"]", "numbers = [\"1234\"]\nreceipts = 20");
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "other", Command::BindTransmitter);
    for number in 0..20 {
        assert_eq!(client.submit(&message(&format!("4917000{number:03}"), b"x", 1)).0, 0);
    }
    let full = Status::QueueFull as u32;
    until("it is counted", || gauge(&server, "smsc_queue_messages{account=\"other\"}") >= 20);
    assert_eq!(client.submit(&message("4917000999", b"x", 1)).0, full);
    assert_eq!(client.submit(&message("4917000999", b"x", 0)).0, 0, "without a receipt");
    let mut app = Client::bound(&server.address, "app", Command::BindTransmitter);
    assert_eq!(app.submit(&message("1234", b"x", 0)).0, full, "to its number");
    assert_eq!(app.submit(&message("4917000999", b"x", 1)).0, 0, "another's own");
    assert_eq!(gauge(&server, "smsc_receipts_full_total"), 2);
    let mut receiver = Client::bound(&server.address, "other", Command::BindReceiver);
    for _ in 0..20 {
        receiver.deliver(Status::Ok);
    }
    until("there is room", || client.submit(&message("4917000999", b"x", 1)).0 == 0);
}

/// Files of the archive are closed by length; what is in them is found, after a restart, too, with
/// and without their index; all are there as CSV; and `smsc check` finds nothing wrong.
#[test]
fn the_archive_is_in_files_of_their_length() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("[archive]\nrotate_mib = 1\nformat = \"csv\""))
        .unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    // 8,000 records of 300 octets are more than two files.
    let mut sequence = 1000;
    for _ in 0..160 {
        let mut octets = Vec::new();
        for _ in 0..50 {
            sequence += 1;
            message(&format!("49170{sequence:05}"), b"x", 0).write(&mut octets, sequence);
        }
        client.stream.write_all(&octets).unwrap();
        (0..50).for_each(|_| assert_eq!(client.next_of(Command::SubmitSmResp).0.status, 0));
    }
    let store = dir.path().join("store");
    let names = |end: &str| {
        let all =
            std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> =
            all.filter(|name| name.starts_with("archive-") && name.ends_with(end)).collect();
        all.sort();
        all
    };
    until("files are closed", || names(".csv").len() >= 2);
    let closed = names(".jsonl");
    assert_eq!(closed[..2], ["archive-000001.jsonl", "archive-000002.jsonl"]);
    for name in &closed[..2] {
        let octets = std::fs::metadata(store.join(name)).unwrap().len();
        assert!((1 << 20..3 << 20).contains(&octets), "{name}: {octets}");
    }
    let query = |client: &mut Client, id: u32| {
        client.send(Command::QuerySm as u32, &[format!("{id}\0").as_bytes(), b"\x01\x014900\0"].concat());
        client.next_of(Command::QuerySmResp).0.status
    };
    let find_all = |client: &mut Client| {
        for id in [1, 2, 1000, 3500, 5000, 7999, 8000] {
            assert_eq!(query(client, id), 0, "{id}");
        }
        assert_ne!(query(client, 8001), 0);
    };
    find_all(&mut client);
    drop(client);
    until("all is archived", || gauge(&server, "smsc_archived_total") == 8000);
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let csv: Vec<String> = names(".csv")
        .iter()
        .flat_map(|name| {
            let text = std::fs::read_to_string(store.join(name)).unwrap();
            assert!(text.starts_with("msg_id,state,account,src,dst,submit,"), "{text}");
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(csv.iter().any(|line| line.starts_with("1,DELIVRD,1,4900,4917001001,20")), "{}", csv[0]);
    let check = Process::new(env!("CARGO_BIN_EXE_smsc")).arg("check").arg(&store).output().unwrap();
    assert!(check.status.success(), "{check:?}");
    assert!(String::from_utf8_lossy(&check.stdout).contains("8000 archived"), "{check:?}");
    for damage in [false, true] {
        for name in names(".index") {
            let path = store.join(name);
            if damage { std::fs::write(path, "{}\n").unwrap() } else { std::fs::remove_file(path).unwrap() }
        }
        let server = Server::start(dir.path(), &["--segment-mib", "1"]);
        find_all(&mut Client::bound(&server.address, "app", Command::BindTransmitter));
        assert_eq!(names(".index").len(), names(".jsonl").len(), "they are made again");
        server.signal("-TERM");
        assert_eq!(server.wait().0, Some(0));
    }
    // A closed file that was moved away takes its messages along, nothing else.
    std::fs::remove_file(store.join("archive-000001.jsonl")).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    assert_ne!(query(&mut client, 1), 0);
    assert_eq!(query(&mut client, 8000), 0);
}
