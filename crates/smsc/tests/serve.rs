//! `smsc serve`, as applications see it.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use fathom_random::Random;
use smpp_client::{Client, FOREVER, Server, c_string, config, message, metric, word};
use smsc::smpp::{Command, Status, Submit, Time, Tlvs, pdu, tag};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command as Process;
use std::time::{Duration, Instant};

const DELIVERED: u8 = 2;

#[test]
fn a_message_is_delivered_and_its_receipt_tells() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let (status, id) = client.submit(&message("491700000001", b"hello, world", 1));
    assert_eq!(status, 0);
    let receipt = client.deliver(Status::Ok);
    let text = String::from_utf8(receipt.body.clone()).unwrap();
    assert!(text.starts_with(&format!("id:{id} sub:001 dlvrd:001 submit date:")), "{text}");
    assert!(text.ends_with(" stat:DELIVRD err:000 text:hello, world"), "{text}");
    assert_eq!((receipt.esm_class, receipt.source.text.as_str()), (4, "491700000001"));
    assert_eq!(receipt.destination.text, "4900");
    let tlvs = Tlvs::new(&receipt.tlvs).unwrap();
    assert_eq!(c_string(tlvs.find(tag::RECEIPTED_MESSAGE_ID).unwrap()), id);
    assert_eq!(tlvs.find(tag::MESSAGE_STATE), Some(&[DELIVERED][..]));
    assert_eq!(tlvs.find(tag::NETWORK_ERROR_CODE), Some(&[3, 0, 0][..]));
    // query_sm tells the same, from the store or from the archive.
    for _ in 0..2 {
        client.send(Command::QuerySm as u32, &[id.as_bytes(), b"\0\x01\x014900\0"].concat());
        let (header, body) = client.next_of(Command::QuerySmResp);
        assert_eq!((header.status, c_string(&body)), (0, id.clone()));
        assert_eq!(body[body.len() - 2..], [DELIVERED, 0]);
        std::thread::sleep(Duration::from_millis(150));
    }
    // Another application has no such message.
    let mut other = Client::bound(&server.address, "other", Command::BindTransmitter);
    other.send(Command::QuerySm as u32, &[id.as_bytes(), b"\0\x01\x014900\0"].concat());
    assert_eq!(other.next_of(Command::QuerySmResp).0.status, Status::QueryFailed as u32);
    // Only failures: it is delivered, and nothing comes.
    assert_eq!(client.submit(&message("491700000001", b"quiet", 2)).0, 0);
    let begin = Instant::now();
    while metric(&server.http, "smsc_delivered_total") < 2 {
        assert!(begin.elapsed() < FOREVER, "it is not delivered");
        std::thread::sleep(Duration::from_millis(20));
    }
    client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(client.stream.read(&mut [0; 1]).is_err());
    let metrics = http(&server.http, "GET /metrics HTTP/1.1\r\n\r\n");
    for line in ["smsc_accepted_total 2", "smsc_delivered_total 2", "smsc_sessions{system_id=\"app\"} 1"] {
        assert!(metrics.lines().any(|other| other == line), "{line} in {metrics}");
    }
    assert!(http(&server.http, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(http(&server.http, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = request.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", 1);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A message to a number of an application is a deliver_sm for it. One that it refuses for now or
/// does not answer comes again; one that it refuses for good does not.
#[test]
fn a_message_to_an_applications_number_is_delivered_to_it() {
    let (_dir, server) = Server::new("[timers]\nresponse_s = 10");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let tlvs = vec![0x14, 0x99, 0, 2, 7, 7];
    let submit = Submit { tlvs: tlvs.clone(), data_coding: 8, ..message("1234", "Ж".as_bytes(), 1) };
    let (status, id) = client.submit(&submit);
    assert_eq!(status, 0);
    // Nobody is there: it waits. Then somebody is who does not answer, and goes.
    let mut deaf = Client::bound(&server.address, "other", Command::BindReceiver);
    let (_, first) = deaf.next_of(Command::DeliverSm);
    drop(deaf);
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    let (header, second) = other.next().unwrap();
    assert_eq!(header.command, Command::DeliverSm as u32);
    assert_eq!(first, second);
    // It is silent for longer than response_s, and gets it once more.
    let (header, third) = other.next().unwrap();
    assert_eq!((header.command, &third), (Command::DeliverSm as u32, &first));
    other.answer(Command::DeliverSmResp, Status::Ok, header.sequence);
    let delivered = smsc::smpp::Deliver::read(&third).unwrap();
    assert_eq!((delivered.data_coding, delivered.body.as_slice()), (8, "Ж".as_bytes()));
    assert_eq!((delivered.tlvs, delivered.esm_class), (tlvs, 0));
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.contains(&format!("id:{id} ")) && receipt.contains("stat:DELIVRD"), "{receipt}");
    // Refused for good.
    let (_, id) = client.submit(&message("1234", b"no", 1));
    let (header, _) = other.next_of(Command::DeliverSm);
    other.answer(Command::DeliverSmResp, Status::PermanentApplication, header.sequence);
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.contains(&format!("id:{id} ")) && receipt.contains("stat:UNDELIV err:101"), "{receipt}");
}

/// Who asks to hear of a first attempt in vain was told where a mobile did not take the message,
/// and not where an application did not.
#[test]
fn an_application_that_takes_nothing_for_now_is_told_of() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut other = Client::bound(&server.address, "other", Command::BindTransceiver);
    let (status, id) = client.submit(&message("1234", b"not now", 0x11));
    assert_eq!(status, 0);
    let (header, _) = other.next_of(Command::DeliverSm);
    other.answer(Command::DeliverSmResp, Status::TemporaryApplication, header.sequence);
    let told = client.deliver(Status::Ok);
    let text = String::from_utf8(told.body).unwrap();
    assert!(text.starts_with(&format!("id:{id} ")) && text.contains("stat:ENROUTE err:100"), "{text}");
    assert_eq!((told.esm_class, told.source.text.as_str()), (0x20, "1234"));
    // After 5 s it comes again.
    assert_eq!(other.deliver(Status::Ok).body, b"not now");
    let receipt = client.deliver(Status::Ok);
    assert!(String::from_utf8(receipt.body).unwrap().contains("stat:DELIVRD"));
    assert_eq!(receipt.esm_class, 4);
}

/// A body of any length goes through, in message_payload where it is long.
#[test]
fn a_long_message_comes_through() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut other = Client::bound(&server.address, "other", Command::BindTransceiver);
    for octets in [0, 254, 255, 20_000] {
        let body = vec![b'x'; octets];
        assert_eq!(client.submit(&Submit { data_coding: 4, ..message("1234", &body, 0) }).0, 0);
        assert_eq!(other.deliver(Status::Ok).body, body);
    }
    let too_long = Submit { data_coding: 4, ..message("1234", &vec![b'x'; 50_000], 0) };
    assert_eq!(client.submit(&too_long).0, Status::MessageLength as u32);
}

#[test]
fn rates_windows_and_queues_have_limits() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("queue = 3")).unwrap();
    std::fs::write(dir.path().join("network.toml"), "[prefixes]\n49171 = \"absent\"\n").unwrap();
    let network = dir.path().join("network.toml").display().to_string();
    let server = Server::start(dir.path(), &["--segment-mib", "1", "--network", &network]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let statuses: Vec<u32> = (0..4).map(|_| client.submit(&message("4917100000", b"x", 0)).0).collect();
    assert_eq!(statuses, [0, 0, 0, Status::QueueFull as u32]);
    // Five in a second, of twelve that come at once; a new second may begin between them.
    let at_once = |system_id: &str, count: u32| {
        let mut client = Client::bound(&server.address, system_id, Command::BindTransmitter);
        let mut octets = Vec::new();
        (1..=count).for_each(|sequence| message("491720000", b"x", 0).write(&mut octets, 100 + sequence));
        client.stream.write_all(&octets).unwrap();
        let answers = (0..count).map(|_| client.next_of(Command::SubmitSmResp).0);
        answers.map(|header| (header.sequence, header.status)).collect::<HashMap<u32, u32>>()
    };
    let throttled = |answers: &HashMap<u32, u32>| {
        answers.values().filter(|status| **status == Status::Throttled as u32).count()
    };
    let answers = at_once("limited", 12);
    assert!(answers.len() == 12 && (2..=7).contains(&throttled(&answers)), "{answers:?}");
    // One at a time: of many that come at once most are refused, and all are answered.
    let answers = at_once("narrow", 90);
    assert!(answers.len() == 90 && answers[&101] == 0 && throttled(&answers) > 0, "{answers:?}");
}

/// The same on the other engines: their sessions are driven by threads.
#[test]
fn a_store_of_sqlite_or_postgresql_serves_too() {
    for engine in ["sqlite", "postgresql"] {
        if engine == "postgresql" && postgresql_server::find_programs(None).is_err() {
            println!("SKIP: PostgreSQL is not installed (apt-get install postgresql)");
            continue;
        }
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), readable).unwrap();
        std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
        let server = Server::start(dir.path(), &["--engine", engine]);
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let mut ids = HashSet::new();
        for at in 0..5 {
            ids.insert(client.submit(&message(&format!("49170{at:07}"), b"x", 1)).1);
        }
        let mut told = HashSet::new();
        while told.len() < 5 {
            told.insert(receipt_id(&client.deliver(Status::Ok).body));
        }
        assert_eq!(told, ids, "{engine}");
        server.signal("-TERM");
        assert_eq!(server.wait().0, Some(0), "{engine}");
    }
}

#[test]
fn what_waits_can_be_replaced_and_cancelled() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let later = |client: &mut Client, body: &[u8]| {
        let mut octets = Vec::new();
        message("491700000009", body, 1).write(&mut octets, 0x70);
        // schedule_delivery_time, in a day: behind 16 octets of header and the fields before it.
        let at = octets.len() - (body.len() + 1 + 6);
        octets.splice(at..at + 1, b"000001000000000R\0".iter().copied());
        let length = (octets.len() as u32).to_be_bytes();
        octets[..4].copy_from_slice(&length);
        client.stream.write_all(&octets).unwrap();
        let (header, body) = client.next_of(Command::SubmitSmResp);
        assert_eq!(header.status, 0);
        c_string(&body)
    };
    let id = later(&mut client, b"first");
    let replace = [id.as_bytes(), b"\0\x01\x014900\0\0\0\x01\0\x06second"].concat();
    client.send(Command::ReplaceSm as u32, &replace);
    assert_eq!(client.next_of(Command::ReplaceSmResp).0.status, 0);
    client.send(
        Command::CancelSm as u32,
        &[&b"\0"[..], id.as_bytes(), b"\0\x01\x014900\0\x01\x01491700000009\0"].concat(),
    );
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0);
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.contains("stat:DELETED") && receipt.ends_with("text:second"), "{receipt}");
    // Without a number: all between the two addresses.
    let two = [later(&mut client, b"a"), later(&mut client, b"b")];
    client.send(Command::CancelSm as u32, b"\0\0\x01\x014900\0\x01\x01491700000009\0");
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0);
    let receipts: HashSet<String> = (0..2)
        .map(|_| {
            String::from_utf8(client.deliver(Status::Ok).body).unwrap().split(' ').next().unwrap().to_owned()
        })
        .collect();
    assert_eq!(receipts, two.iter().map(|id| format!("id:{id}")).collect());
    // replace_if_present: the message that waits gets the new body and keeps its number.
    let id = later(&mut client, b"old");
    let present = Submit { replaces: true, ..message("491700000009", b"new", 1) };
    assert_eq!(client.submit(&present), (0, id.clone()));
    let absent = Submit { replaces: true, ..message("491700000010", b"new", 0) };
    let (status, other) = client.submit(&absent);
    assert!(status == 0 && other != id);
}

/// Who binds with a version before 3.4 gets no optional parameters, as SMPP 3.4 has it. It got
/// them in the answer and in each receipt, behind what it takes for the end of the PDU.
#[test]
fn who_knows_no_optional_parameters_gets_none() {
    let (_dir, server) = Server::new("");
    let mut old = Client::connect(&server.address);
    old.send(Command::BindReceiver as u32, b"app\0secret\0\0\x33\0\0\0");
    let (header, body) = old.next_of(Command::BindReceiverResp);
    assert_eq!((header.status, &body[..]), (0, &b"smsc\0"[..]));
    let mut sender = Client::bound(&server.address, "app", Command::BindTransmitter);
    let (_, id) = sender.submit(&message("491700000001", b"x", 1));
    let receipt = old.deliver(Status::Ok);
    assert!(receipt.tlvs.is_empty(), "{:?}", receipt.tlvs);
    assert!(receipt.body.starts_with(format!("id:{id} ").as_bytes()), "{receipt:?}");
}

/// A generic_nack says that a message could not be read. One with command_status 0 counted as its
/// delivery.
#[test]
fn a_nack_is_no_delivery() {
    let (_dir, server) = Server::new("");
    let mut sender = Client::bound(&server.address, "app", Command::BindTransmitter);
    assert_eq!(sender.submit(&message("1234", b"again", 0)).0, 0);
    let mut client = Client::bound(&server.address, "other", Command::BindReceiver);
    let (header, _) = client.next_of(Command::DeliverSm);
    client.answer(Command::GenericNack, Status::Ok, header.sequence);
    // After 5 s.
    assert_eq!(client.deliver(Status::Ok).body, b"again");
}

/// replace_if_present and cancel_sm without a number are about messages of one service. They were
/// about all between the two addresses: a message of another service was overwritten, or taken
/// back. And a body of another data_coding was read as that of the message that it replaced.
#[test]
fn messages_of_other_services_are_left_alone() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tomorrow = Time::Absolute(since.as_micros() as i64 + 86_400_000_000);
    let mut ids = Vec::new();
    for (service_type, body) in [("CMT", b"of cmt"), ("WAP", b"of wap")] {
        let later = Submit {
            service_type: service_type.into(),
            schedule: tomorrow,
            ..message("491700000009", body, 1)
        };
        let (status, id) = client.submit(&later);
        assert_eq!(status, 0);
        ids.push(id);
    }
    let ucs2: Vec<u8> = "жук".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let present = Submit { replaces: true, ..message("491700000009", &ucs2, 1) };
    let of_cmt = Submit { service_type: "CMT".into(), data_coding: 8, ..present.clone() };
    assert_eq!(client.submit(&of_cmt), (0, ids[0].clone()), "and not WAP's, which is newer");
    let of_none = Submit { body: b"own".to_vec(), registered_delivery: 0, ..present };
    let (status, id) = client.submit(&of_none);
    assert!(status == 0 && !ids.contains(&id), "{id}");
    for (service_type, at, words) in [("CMT", 0, " text:"), ("WAP", 1, " text:of wap")] {
        let all = [service_type.as_bytes(), b"\0\0\x01\x014900\0\x01\x01491700000009\0"].concat();
        client.send(Command::CancelSm as u32, &all);
        assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0, "{service_type}");
        let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
        assert!(receipt.starts_with(&format!("id:{} ", ids[at])), "{receipt}");
        assert!(receipt.contains("stat:DELETED") && receipt.ends_with(words), "{receipt}");
        client.send(Command::CancelSm as u32, &all);
        assert_eq!(client.next_of(Command::CancelSmResp).0.status, Status::CancelFailed as u32);
    }
}

/// What waits for an application's number was not found by a cancel_sm without a number: it was
/// looked for where messages to a mobile of this number would wait.
#[test]
fn messages_to_an_applications_number_are_taken_back_without_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let text = config("").replace("numbers = [\"1234\"]", "numbers = [\"1234\", \"1235\"]");
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    for (to, body) in [("1234", b"goes"), ("1235", b"stay"), ("1234", b"too.")] {
        assert_eq!(client.submit(&message(to, body, 0)).0, 0);
    }
    let all = b"\0\0\x01\x014900\0\x01\x011234\0";
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0);
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, Status::CancelFailed as u32);
    // That to the other number of the application, in the same lane, is left alone.
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(other.deliver(Status::Ok).body, b"stay");
    other.send(Command::EnquireLink as u32, b"");
    assert_eq!(other.next().unwrap().0.command, Command::EnquireLinkResp as u32, "and nothing else");
}

/// A cancel_sm without a number takes back all, not the first thousand, and not one after the
/// other, each durable before the next: of ten thousand that took half a minute, in which the
/// session answered nothing and the centre did not end.
#[test]
fn all_of_many_messages_are_taken_back_together() {
    const COUNT: usize = 150;
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tomorrow = Time::Absolute(since.as_micros() as i64 + 86_400_000_000);
    let mut ids = HashSet::new();
    for _ in 0..COUNT {
        let later = Submit { schedule: tomorrow, ..message("491700000009", b"later", 1) };
        let (status, id) = client.submit(&later);
        assert!(status == 0 && ids.insert(id));
    }
    let all = b"\0\0\x01\x014900\0\x01\x01491700000009\0";
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0);
    for _ in 0..COUNT {
        let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
        let id = receipt.strip_prefix("id:").and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(ids.remove(id) && receipt.contains("stat:DELETED"), "{receipt}");
    }
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, Status::CancelFailed as u32);
}

/// submit_multi has replace_if_present_flag as submit_sm has it. It was refused,
/// ESME_RINVREPFLAG, and with it the example of jSMPP.
#[test]
fn submit_multi_replaces_where_there_is_something() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tomorrow = Time::Absolute(since.as_micros() as i64 + 86_400_000_000);
    let waits = Submit { schedule: tomorrow, ..message("491700000031", b"old", 1) };
    let (status, id) = client.submit(&waits);
    assert_eq!(status, 0);
    let addresses = b"\x01\x01\x01491700000031\0\x01\x01\x01491700000032\0";
    let body = [&b"\0\x01\x014900\0\x02"[..], addresses, b"\0\0\0\0\0\x01\x01\0\0\x03new"].concat();
    client.send(Command::SubmitMulti as u32, &body);
    let (header, answer) = client.next_of(Command::SubmitMultiResp);
    assert_eq!((header.status, answer), (0, [id.as_bytes(), b"\0\0"].concat()));
    // The other address had none that waited: it gets a message of its own.
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.contains("stat:DELIVRD") && receipt.ends_with("text:new"), "{receipt}");
    let all = b"\0\0\x01\x014900\0\x01\x01491700000031\0";
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, 0);
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.ends_with("text:new"), "{receipt}");
    client.send(Command::CancelSm as u32, all);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, Status::CancelFailed as u32);
}

#[test]
fn submit_multi_tells_which_addresses_were_refused() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let addresses = b"\x01\x01\x01491700000021\0\x01\x05\0Bank\0\x01\x01\x01491700000022\0";
    let body = [&b"\0\x01\x014900\0\x03"[..], addresses, b"\0\0\0\0\0\x01\0\0\0\x02hi"].concat();
    let sequence = client.send(Command::SubmitMulti as u32, &body);
    let (header, answer) = client.next_of(Command::SubmitMultiResp);
    assert_eq!((header.sequence, header.status), (sequence, 0));
    let id = c_string(&answer);
    let refused = &answer[id.len() + 1..];
    assert_eq!(refused[..8], *b"\x01\x05\0Bank\0");
    assert_eq!(word(&refused[8..]), Status::DestinationAddress as u32);
    // Both others are messages of their own.
    let receipts: HashSet<String> = (0..2).map(|_| client.deliver(Status::Ok).source.text).collect();
    assert_eq!(receipts, ["491700000021", "491700000022"].map(String::from).into());
}

/// What came behind an unbind was left unread, so the system reset the connection: of 320 KB of
/// answers that were on their way to a client that had not read them yet, it got 100.
#[test]
fn what_comes_behind_an_unbind_does_not_cost_the_answers_before_it() {
    const COUNT: u32 = 20_000;
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let mut octets = Vec::new();
    let enquire = |octets: &mut Vec<u8>, sequence: u32| {
        pdu(octets, Command::EnquireLink as u32, Status::Ok, sequence, |_| ());
    };
    (1..=COUNT).for_each(|sequence| enquire(&mut octets, sequence));
    pdu(&mut octets, Command::Unbind as u32, Status::Ok, COUNT + 1, |_| ());
    // More than is read at a time.
    (1..2000).for_each(|sequence| enquire(&mut octets, sequence));
    client.stream.write_all(&octets).unwrap();
    // Until the session has ended.
    std::thread::sleep(Duration::from_millis(500));
    for sequence in 1..=COUNT {
        assert_eq!(client.next_of(Command::EnquireLinkResp).0.sequence, sequence);
    }
    client.next_of(Command::UnbindResp);
    assert!(client.next().is_none());
}

/// A process that stood still for longer than response_s, as a container that is paused, took what
/// it had sent for not answered before it had read the answers: all of it came twice.
#[test]
fn what_was_answered_while_the_centre_stood_still_does_not_come_again() {
    let (_dir, server) = Server::new("[timers]\nresponse_s = 4");
    let mut clients: Vec<Client> =
        (0..3).map(|_| Client::bound(&server.address, "app", Command::BindTransceiver)).collect();
    // In one piece, so that the first receipt is not overdue before the last message is there.
    let mut octets = Vec::new();
    for number in 0..20 {
        message(&format!("4917000000{number:02}"), b"x", 1).write(&mut octets, 1000 + number);
    }
    clients[0].stream.write_all(&octets).unwrap();
    // Receipts go to all three sessions in turn; these get nothing else.
    for client in &clients[1..] {
        client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    let begin = Instant::now();
    while !clients[1..].iter().any(|client| client.stream.peek(&mut [0]).is_ok_and(|octets| octets > 0)) {
        assert!(begin.elapsed() < FOREVER, "no receipt comes");
    }
    // Some more, long before that one is overdue.
    std::thread::sleep(Duration::from_millis(300));
    server.signal("-STOP");
    let mut came = Vec::new();
    let mut look = |came: &mut Vec<String>| {
        for client in &mut clients {
            client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            came.extend(client.delivered_so_far());
        }
    };
    look(&mut came);
    assert!(!came.is_empty());
    std::thread::sleep(Duration::from_millis(4500));
    server.signal("-CONT");
    // What had not been sent yet comes now, however long that takes, and nothing that has come.
    let begin = Instant::now();
    while came.iter().collect::<HashSet<_>>().len() < 20 {
        assert!(begin.elapsed() < FOREVER, "{came:?}");
        look(&mut came);
    }
    std::thread::sleep(Duration::from_millis(1500));
    look(&mut came);
    assert_eq!(came.len(), 20, "{came:?}");
}

/// What was in flight to an application that was taken out of the configuration stayed so for a
/// minute: put in again, the application waited for so long.
#[test]
fn an_account_that_comes_back_gets_soon_what_was_in_flight() {
    let (dir, mut server) = Server::new("");
    let file = dir.path().join("smsc.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let mut app = Client::bound(&server.address, "app", Command::BindTransmitter);
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(app.submit(&message("1234", b"x", 0)).0, 0);
    other.next_of(Command::DeliverSm);
    let begin = before.find("[[account]]\nnumber = 2").unwrap();
    let end = begin + 1 + before[begin + 1..].find("[[account]]").unwrap();
    std::fs::write(&file, format!("{}{}", &before[..begin], &before[end..])).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    other.next_of(Command::Unbind);
    // Until it has been stored.
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(&file, &before).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    let begin = Instant::now();
    let mut other = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(other.deliver(Status::Ok).body, b"x");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// A process that stood still for longer than inactivity_s ended sessions that had not been silent,
/// before it had read what they had said.
#[test]
fn what_was_said_while_the_centre_stood_still_is_no_silence() {
    let (_dir, server) = Server::new("[timers]\ninactivity_s = 4");
    let mut clients: Vec<Client> =
        (0..8).map(|_| Client::bound(&server.address, "other", Command::BindTransmitter)).collect();
    server.signal("-STOP");
    let sent: Vec<u32> =
        clients.iter_mut().map(|client| client.send(Command::EnquireLink as u32, b"")).collect();
    std::thread::sleep(Duration::from_millis(4500));
    server.signal("-CONT");
    for (client, sequence) in clients.iter_mut().zip(sent) {
        assert_eq!(client.next_of(Command::EnquireLinkResp).0.sequence, sequence);
    }
}

#[test]
fn silence_ends_a_session_after_a_question() {
    // Who answers has these times, too, and may be slow beside other work.
    let (_dir, server) = Server::new("[timers]\nsession_init_s = 8\nenquire_link_s = 0.3\ninactivity_s = 20");
    let begin = Instant::now();
    let mut unbound = Client::connect(&server.address);
    let unbound = std::thread::spawn(move || (unbound.next().is_none(), begin.elapsed()));
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    for _ in 0..5 {
        let (header, _) = client.next_of(Command::EnquireLink);
        let mut out = Vec::new();
        pdu(&mut out, Command::EnquireLinkResp as u32, Status::Ok, header.sequence, |_| ());
        client.stream.write_all(&out).unwrap();
    }
    // Unanswered.
    assert_eq!(client.next().unwrap().0.command, Command::EnquireLink as u32);
    assert!(client.next().is_none());
    let (ended, after) = unbound.join().unwrap();
    assert!(ended && after >= Duration::from_secs(7), "{ended} after {after:?}");
}

/// What happened: a session that was silent waited for as long as it had been told before, an hour
/// here, whatever timers SIGHUP had brought since.
#[test]
fn other_timers_hold_for_who_is_silent_already() {
    let (dir, mut server) = Server::new("[timers]\nenquire_link_s = 3600\ninactivity_s = 7200");
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let file = dir.path().join("smsc.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("enquire_link_s = 3600", "enquire_link_s = 0.1", 1)).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    assert_eq!(client.next().unwrap().0.command, Command::EnquireLink as u32);
}

/// What happened: who read "stopped" in the log and opened the store then was told that another
/// process has it open, for the centre had said so before it let go of it.
#[test]
fn who_reads_that_it_has_stopped_can_open_the_store() {
    for _ in 0..20 {
        let (dir, mut server) = Server::new("");
        server.signal("-TERM");
        server.line_with("stopped");
        let lock = std::fs::File::open(dir.path().join("store/LOCK")).unwrap();
        assert!(lock.try_lock().is_ok(), "its process has it locked still");
    }
}

#[test]
fn a_stop_loses_nothing_and_the_store_is_gone_on_with() {
    let (dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let ids: HashSet<String> =
        (0..50).map(|at| client.submit(&message(&format!("49170{at:07}"), b"x", 1)).1).collect();
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert_eq!((code, said.contains("stopped")), (Some(0), true), "{said}");
    assert_eq!(client.next_of(Command::Unbind).0.command, Command::Unbind as u32);
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::bound(&server.address, "app", Command::BindReceiver);
    let told: HashSet<String> = (0..50).map(|_| receipt_id(&client.deliver(Status::Ok).body)).collect();
    assert_eq!(told, ids);
}

/// What happened: `timeout` sends SIGTERM to its child and at once to its whole group. The second
/// of both ended a centre at once, so that what was on its way to applications came to them twice.
#[test]
fn two_signals_at_once_are_one_wish() {
    // Where the machine stands still for a second between both they are two: not each time.
    let tries: Vec<_> = (0..5).map_while(|_| end_of_two_signals().err()).collect();
    assert!(tries.len() < 5, "{tries:?}");
}

/// How a centre ends that gets both, if that is not in order.
fn end_of_two_signals() -> Result<(), (Option<i32>, String)> {
    let (_dir, server) = Server::new("");
    let mut sender = Client::bound(&server.address, "app", Command::BindTransmitter);
    let mut receiver = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(sender.submit(&message("1234", b"x", 0)).0, 0);
    // The end waits for the answer, for three seconds.
    let (header, _) = receiver.next_of(Command::DeliverSm);
    let twice = "kill -TERM $0; sleep 0.1; kill -TERM $0";
    Process::new("sh").args(["-c", twice, &server.pid().to_string()]).status().unwrap();
    receiver.answer(Command::DeliverSmResp, Status::Ok, header.sequence);
    let (code, said) = server.wait();
    if code == Some(0) && !said.contains("ended_at_once") { Ok(()) } else { Err((code, said)) }
}

fn receipt_id(body: &[u8]) -> String {
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.strip_prefix("id:").unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_configuration_is_read_again() {
    let (dir, mut server) = Server::new("");
    let file = dir.path().join("smsc.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before.replace("\"other\"", "\"renamed\"")).unwrap();
    server.signal("-HUP");
    assert_eq!(server.line_with("reloaded"), "reloaded\n");
    let bind = |name: &str| Client::connect(&server.address).bind(name, "secret", Command::BindReceiver);
    assert_eq!((bind("renamed"), bind("other")), (0, Status::SystemId as u32));
    std::fs::write(&file, before.replace("number = 2", "number = 1")).unwrap();
    server.signal("-HUP");
    let line = server.line_with("reloaded");
    assert!(line.contains("smsc.toml:") && line.contains("belongs to another account"), "{line}");
    std::fs::write(&file, format!("queue = 7\n{before}")).unwrap();
    server.signal("-HUP");
    let line = server.line_with("reloaded");
    assert!(line.contains("`queue` takes a restart"), "{line}");
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smsc.toml");
    let serve = |arguments: &[&str]| {
        let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
        let output = command.arg("serve").args(arguments).current_dir(dir.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = serve(&["--config", "smsc.toml"]);
    assert!(code == Some(2) && said.contains("smsc.toml: No such file"), "{said}");
    std::fs::write(&file, config("")).unwrap();
    let (code, said) = serve(&["--config", "smsc.toml"]);
    assert!(code == Some(2) && said.contains("--store DIR"), "{said}");
    let (code, said) = serve(&["--config", "smsc.toml", "--check"]);
    assert!(code == Some(0) && said.contains("4 accounts, no mistake"), "{said}");
    // Words that were meant for a server: a directory of that name was made, with the password.
    for word in ["postgresql:/app:hidden@x/y", "postgres:y", "host=x password=hidden", "dbname=y"] {
        let (code, said) = serve(&["--config", "smsc.toml", "--store", word]);
        assert!(code == Some(2) && said.contains("postgresql://USER@HOST/DATABASE"), "{said}");
        assert!(!said.contains("hidden"), "{said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing but the configuration");
    std::fs::write(&file, config("listen_at = 5")).unwrap();
    let (code, said) = serve(&["--config", "smsc.toml", "--store", "s"]);
    assert!(code == Some(2) && said.contains("smsc.toml:3: unknown field `listen_at`"), "{said}");
    assert!(!dir.path().join("s").exists());
    let mut password = Process::new(env!("CARGO_BIN_EXE_smsc"));
    let mut child = password
        .arg("password")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let hash = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(smsc::serve::is_password(hash.trim(), "secret"));
}

/// A directory with other things in it became a store, among letters and photographs, and `/etc` and
/// `/var/lib` still did, where "postgresql" is one name of many; where a file
/// system was not mounted, an empty store was begun on the disk below its mount point, and what was
/// in the other one seemed to be gone.
#[test]
fn a_store_is_made_only_where_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    std::fs::create_dir_all(dir.path().join("home/photos")).unwrap();
    for name in ["postgresql", "passwd", "LOCK", "log-0"] {
        std::fs::create_dir_all(dir.path().join("lib").join(name)).unwrap();
    }
    std::fs::create_dir_all(dir.path().join("old/log-2024-01")).unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    for (store, words) in [
        ("home", "\"photos\" is in it, and no store"),
        ("lib", "\"passwd\" is in it, and no store"),
        ("old", "\"log-2024-01\" is in it, and no store"),
        ("mount/messages", "mount is not there: make it, or mount what it is on"),
        ("file", "--store file: Not a directory"),
    ] {
        let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
        command.args(["serve", "--config", "smsc.toml", "--store", store]).current_dir(dir.path());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(words), "{store}: {said}");
    }
    for (store, count) in [("home", 1), ("lib", 4), ("old", 1)] {
        assert_eq!(std::fs::read_dir(dir.path().join(store)).unwrap().count(), count, "{store}");
    }
    assert!(!dir.path().join("mount").exists());
    // An empty one is taken, also where it is a file system of its own.
    std::fs::create_dir_all(dir.path().join("store/lost+found")).unwrap();
    drop(Server::start(dir.path(), &["--segment-mib", "1"]));
}

/// `--check` says which addresses are taken; it is no mistake, as the centre may serve there
/// already.
#[test]
fn a_check_says_which_addresses_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    std::fs::write(dir.path().join("smsc.toml"), config("").replacen("127.0.0.1:0", &address, 1)).unwrap();
    let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
    let output = command.args(["serve", "--check", "--config", "smsc.toml"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("listen {address}: Address already in use")), "{said}");
    assert!(!said.contains("http 127.0.0.1:0"), "{said}");
}

#[test]
fn words_that_are_empty_or_cut_short_are_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    for (words, told) in [
        (&["serve", "--config", "smsc.toml", "--store", ""][..], "--store: it is empty"),
        (&["load", "--to", "127.0.0.1", "--system-id", "app"], "--to 127.0.0.1: give HOST:PORT"),
        (&["load", "--to", "centre:port", "--system-id", "app"], "--to centre:port: give HOST:PORT"),
    ] {
        let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
        let output = command.args(words).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(told), "{words:?}: {said}");
    }
}

#[test]
fn load_is_answered_and_receipted() {
    let (_dir, server) = Server::new("");
    let load = |password: &str, more: &[&str]| {
        let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
        command.args(["load", "--to", &server.address, "--system-id", "app", "--sessions", "2"]).args(more);
        let output = command.env("SMSC_PASSWORD", password).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let (code, said) =
        load("secret", &["--rate", "200", "--seconds", "1", "--receipts", "--json", "--limit-ms", "120000"]);
    assert_eq!(code, Some(0), "{said}");
    let step: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert!(step["offered"].as_u64().unwrap() > 100, "{said}");
    assert_eq!(step["accepted"], step["offered"], "{said}");
    assert_eq!(step["receipts"], step["offered"], "{said}");
    let (code, said) = load("wrong", &[]);
    assert!(code == Some(1) && said.contains("ESME_RINVPASWD"), "{said}");
    let (code, said) = load("secret", &["--rate", "0"]);
    assert!(code == Some(2) && said.contains("--rate 0"), "{said}");
    // Steps of a tenth of a second that were answered within ten were kept up with, each: the knee
    // was found at 1,638,123 a second, of which 30,525 were accepted.
    let (code, said) = load("secret", &["--ramp", "--seconds", "0.1", "--limit-ms", "10000"]);
    assert!(code == Some(2) && said.contains("--limit-ms 10000: with --ramp"), "{said}");
    // A ramp that had no more steps said that the one after the last was not kept up with.
    let few = ["--ramp", "--rate", "0.000000001", "--seconds", "0.01", "--limit-ms", "9"];
    let (code, said) = load("secret", &few);
    assert!(code == Some(0) && said.contains("the knee is beyond it"), "{said}");
    assert!(!said.contains("not kept up with"), "{said}");
}

/// What happened: Ctrl-C took what an hour of load had found with it; and more sessions than a
/// process may have descriptors were bound up to the limit, and told as "Too many open files".
#[test]
fn a_load_that_is_stopped_tells_what_it_did_and_too_many_sessions_are_refused() {
    let (_dir, server) = Server::new("");
    let words = ["load", "--to", &server.address, "--system-id", "app", "--sessions", "2", "--json"];
    let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
    command.args(words).args(["--rate", "50", "--seconds", "3600"]).env("SMSC_PASSWORD", "secret");
    let load = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let load = load.unwrap();
    let begin = Instant::now();
    while metric(&server.http, "smsc_accepted_total") == 0 {
        assert!(begin.elapsed() < FOREVER, "nothing is accepted");
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the child has not been waited for, so the number is still its own.
    unsafe { libc::kill(load.id() as i32, libc::SIGINT) };
    let output = load.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let step: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert!(output.status.code() == Some(1) && step["accepted"].as_u64().unwrap() > 0, "{said}");
    assert_eq!(step["accepted"], step["offered"], "{said}");

    let few = format!("ulimit -n 64; exec {} {} --sessions 100", env!("CARGO_BIN_EXE_smsc"), words.join(" "));
    let few = few.replace("--sessions 2 ", "");
    let output = Process::new("sh").args(["-c", &few]).env("SMSC_PASSWORD", "secret").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("ulimit -n"), "{said}");
}

/// The knee of an account with a window of 50 was 3,903 a second, and of one with room 13,474, on
/// the same centre: it was a limit of the account, and nothing said so.
#[test]
fn a_load_that_an_accounts_limit_ends_says_so() {
    let (_dir, server) = Server::new("");
    let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
    command.args(["load", "--to", &server.address, "--system-id", "limited", "--sessions", "1"]);
    command.args(["--rate", "100", "--seconds", "1", "--limit-ms", "60000"]);
    let output = command.env("SMSC_PASSWORD", "secret").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("limits: "), "{said}");
    assert!(said.contains("refused with ESME_RTHROTTLED"), "{said}");
}

/// kill -9 of the server at random moments under load: every message that was acknowledged gets its
/// receipt, and what a stopped server holds is whole. `SMSC_KILLS` sets how often.
#[test]
fn a_kill_loses_no_message_that_was_acknowledged() {
    let kills: usize = std::env::var("SMSC_KILLS").ok().map_or(20, |words| words.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let mut random = Random::new(kills as u64);
    let (mut acknowledged, mut told) = (HashSet::new(), HashMap::<String, usize>::new());
    let mut in_flight = 0;
    for kill in 0..kills {
        let mut server = Server::start(dir.path(), &["--segment-mib", "1"]);
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let end = Instant::now() + Duration::from_millis(random.below(250));
        let mut sequence = 1000;
        let mut octets = Vec::new();
        let mut submit = |client: &mut Client, random: &mut Random| {
            sequence += 1;
            octets.clear();
            let to = format!("49170{:07}", random.below(50));
            message(&to, format!("{kill} {sequence}").as_bytes(), 1).write(&mut octets, sequence);
            client.stream.write_all(&octets).is_ok()
        };
        let mut is_open = (0..50).all(|_| submit(&mut client, &mut random));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            server.kill();
        });
        // What was sent before the kill still comes.
        while let Some((header, body)) = client.next() {
            if header.command == Command::SubmitSmResp as u32 {
                assert_eq!(header.status, 0);
                acknowledged.insert(c_string(&body));
                is_open = is_open && submit(&mut client, &mut random);
            } else if header.command == Command::DeliverSm as u32 {
                let receipt = smsc::smpp::Deliver::read(&body).unwrap();
                *told.entry(receipt_id(&receipt.body)).or_default() += 1;
                let mut out = Vec::new();
                pdu(&mut out, Command::DeliverSmResp as u32, Status::Ok, header.sequence, |out| out.push(0));
                is_open = client.stream.write_all(&out).is_ok() && is_open;
            }
        }
        killer.join().unwrap();
        // The window of deliveries, whose answers a kill may have taken.
        in_flight += 100;
    }
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let begin = Instant::now();
    while acknowledged.iter().any(|id| !told.contains_key(id)) {
        // A thousand may be left, each with a sync of its own on a busy disk.
        assert!(begin.elapsed() < 5 * FOREVER, "receipts are missing");
        let receipt = client.deliver(Status::Ok);
        *told.entry(receipt_id(&receipt.body)).or_default() += 1;
    }
    assert!(!acknowledged.is_empty());
    let twice: usize = told.values().map(|count| count - 1).sum();
    assert!(twice <= in_flight, "{twice} of {} came again", told.len());
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let check =
        Process::new(env!("CARGO_BIN_EXE_smsc")).arg("check").arg(dir.path().join("store")).output().unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success() && said.contains("ok, these hold: I1, I2, I3, I4, I5"), "{said}");
}
