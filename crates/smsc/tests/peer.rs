//! Peers, as the other centre sees them: it is written out here, PDU by PDU.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smpp_client::{Client, FOREVER, Server, c_string, config, message};
use smsc::smpp::{Address, Alert, Command, Deliver, Status, Submit, deliver, pdu, tag, write_tlv};
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Another centre, one session of it at a time.
struct Other {
    listener: TcpListener,
}

impl Other {
    fn new() -> Other {
        Other { listener: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// Waits for the centre and lets it in.
    fn accept(&self) -> Client {
        self.accept_as(&[2, 0x10, 0, 1, 0x34])
    }

    /// The same, with these optional parameters in the answer.
    fn accept_as(&self, tlvs: &[u8]) -> Client {
        let mut client = Client::of(self.listener.accept().unwrap().0);
        let (header, _) = client.next().unwrap();
        let command = Command::of(header.command).unwrap();
        assert!(matches!(command, Command::BindTransceiver | Command::BindTransmitter));
        let mut out = Vec::new();
        pdu(&mut out, command.response() as u32, Status::Ok, header.sequence, |out| {
            out.extend_from_slice(b"other\0");
            out.extend_from_slice(tlvs);
        });
        client.stream.write_all(&out).unwrap();
        client
    }
}

/// A `[[peer]]` with short times.
fn peer(number: u16, name: &str, address: &str, more: &str) -> String {
    format!(
        "[[peer]]\nnumber = {number}\nname = \"{name}\"\naddress = \"{address}\"\nsystem_id = \"us\"\n\
         password = \"secret\"\nreconnect_s = 0.1\nreconnect_max_s = 0.2\nfailover_s = 0.5\n{more}\n"
    )
}

fn start(more: &str) -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = start_in(dir.path(), more);
    (dir, server)
}

/// `more` goes behind the usual configuration, which ends in tables.
fn start_in(dir: &std::path::Path, more: &str) -> Server {
    std::fs::write(dir.join("smsc.toml"), config("") + more).unwrap();
    Server::start(dir, &["--segment-mib", "1"])
}

/// Answers a submit_sm with a number.
fn accept_submit(other: &mut Client, id: &str) -> Submit {
    let (header, body) = other.next_of(Command::SubmitSm);
    let mut out = Vec::new();
    pdu(&mut out, Command::SubmitSmResp as u32, Status::Ok, header.sequence, |out| {
        out.extend_from_slice(id.as_bytes());
        out.push(0);
    });
    other.stream.write_all(&out).unwrap();
    Submit::read(&body).unwrap()
}

fn refuse_submit(other: &mut Client, status: Status) -> Submit {
    let (header, body) = other.next_of(Command::SubmitSm);
    let mut out = Vec::new();
    pdu(&mut out, Command::SubmitSmResp as u32, status, header.sequence, |_| ());
    other.stream.write_all(&out).unwrap();
    Submit::read(&body).unwrap()
}

/// Sends a deliver_sm; the status that it is answered with.
fn send(other: &mut Client, esm_class: u8, to: &str, body: &[u8]) -> u32 {
    send_with(other, esm_class, to, body, Vec::new())
}

/// The same, with optional parameters.
fn send_with(other: &mut Client, esm_class: u8, to: &str, body: &[u8], tlvs: Vec<u8>) -> u32 {
    let address = |text: &str| Address { ton: 1, npi: 1, text: text.into() };
    let message = Deliver {
        service_type: String::new(),
        source: address("491700000001"),
        destination: address(to),
        esm_class,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        body: body.to_vec(),
        tlvs,
    };
    let mut out = Vec::new();
    deliver(&mut out, 7000, &message);
    other.stream.write_all(&out).unwrap();
    let (header, body) = other.next_of(Command::DeliverSmResp);
    assert_eq!((header.sequence, body), (7000, vec![0]));
    header.status
}

fn receipt_of(client: &mut Client) -> (String, u8) {
    let deliver = client.deliver(Status::Ok);
    (String::from_utf8(deliver.body).unwrap(), deliver.esm_class)
}

/// The peer's number is stored: the receipt of a message finds it although both sides have begun
/// anew since, and the message is not submitted again.
#[test]
fn a_receipt_finds_its_message_after_kill_9_between_answer_and_receipt() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\nprefix = \"49\"\n";
    let (dir, mut server) = start(&more);
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut session = other.accept();
    let asked = Submit { registered_delivery: 0x11, ..message("491700000001", b"hello", 1) };
    let (status, id) = client.submit(&asked);
    assert_eq!(status, 0);
    let submit = accept_submit(&mut session, "0000004F2A");
    assert_eq!(submit.destination.text, "491700000001");
    assert_eq!((submit.body.as_slice(), submit.registered_delivery), (&b"hello"[..], 0x11));
    assert!(submit.validity != smsc::smpp::Time::None);
    // An intermediate notification goes on; a second one does not.
    for _ in 0..2 {
        let text = b"id:4f2a stat:ENROUTE err:027 text:";
        assert_eq!(send(&mut session, 0x20, "4900", text), 0);
    }
    let (text, class) = receipt_of(&mut client);
    assert_eq!(class, 0x20);
    assert!(text.starts_with(&format!("id:{id} ")) && text.contains("stat:ENROUTE err:027"), "{text}");
    // It is on its way, and cannot be called back.
    client.send(Command::QuerySm as u32, &[id.as_bytes(), b"\0\x01\x014900\0"].concat());
    let (_, body) = client.next_of(Command::QuerySmResp);
    assert_eq!(body[body.len() - 2], 1, "ENROUTE");
    let cancel = [&b"\0"[..], id.as_bytes(), b"\0\x01\x014900\0\x01\x01491700000001\0"].concat();
    client.send(Command::CancelSm as u32, &cancel);
    assert_eq!(client.next_of(Command::CancelSmResp).0.status, Status::CancelFailed as u32);
    server.kill();
    let server = start_in(dir.path(), &more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    // A receipt of a message that nobody knows is answered all the same, and bothers nobody.
    assert_eq!(send(&mut session, 4, "4900", b"id:999 stat:DELIVRD err:000"), 0);
    // One that says nothing is not.
    assert_eq!(send(&mut session, 4, "4900", b"hello"), Status::PermanentApplication as u32);
    assert_eq!(send(&mut session, 4, "4900", b"id:4f2a sub:001 dlvrd:000 stat:UNDELIV err:013"), 0);
    let (mut text, mut class) = receipt_of(&mut client);
    if class == 0x20 {
        // That it was taken may not have been stored before the kill: then it comes again.
        (text, class) = receipt_of(&mut client);
    }
    assert_eq!(class, 4);
    assert!(text.starts_with(&format!("id:{id} ")) && text.contains("stat:UNDELIV err:013"), "{text}");
    // Nothing is submitted again, and a second receipt tells nobody.
    assert_eq!(send(&mut session, 4, "4900", b"id:4F2A stat:DELIVRD"), 0);
    for stream in [&session.stream, &client.stream] {
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(std::io::Read::read(&mut &*stream, &mut [0; 1]).is_err());
    }
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_smsc"))
        .arg("check")
        .arg(dir.path().join("store"))
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// The parts of a message that sar_* tell of have a user data header for the mobile: all the same
/// one, with which what fits a part by itself still fits. The only part of a message has none.
#[test]
fn a_part_has_the_header_that_leaves_most_room() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\n";
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let part = |total: u8| {
        let tlvs = vec![2, 0x0c, 0, 2, 0x12, 0x34, 2, 0x0e, 0, 1, total, 2, 0x0f, 0, 1, 1];
        Submit { tlvs, ..message("491700000001", &[b'a'; 153], 0) }
    };
    assert_eq!(client.submit(&part(2)).0, 0);
    let submit = accept_submit(&mut session, "1");
    assert_eq!((submit.esm_class, &submit.body[..6]), (0x40, &[5, 0, 3, 0x34, 2, 1][..]));
    assert_eq!((submit.body.len(), submit.segment), (159, None));
    assert_eq!(send(&mut session, 4, "4900", b"id:1 stat:DELIVRD"), 0);
    assert_eq!(client.submit(&part(1)).0, 0);
    let submit = accept_submit(&mut session, "2");
    assert_eq!((submit.esm_class, submit.body, submit.segment), (0, vec![b'a'; 153], Some((0x1234, 1, 1))));
}

/// Some centres number in hexadecimal here and in decimal there.
#[test]
fn numbers_are_compared_as_the_peer_writes_them() {
    for (ids, answer, receipt) in
        [("hexadecimal-in-answers", "4F2A", "20266"), ("hexadecimal-in-receipts", "20266", "4F2A")]
    {
        let other = Other::new();
        let more = peer(1, "north", &other.address(), &format!("message_id = \"{ids}\""))
            + "[[route]]\nto = \"north\"\n";
        let (_dir, server) = start(&more);
        let mut session = other.accept();
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let (_, id) = client.submit(&message("491700000001", b"x", 1));
        accept_submit(&mut session, answer);
        let text = format!("id:{receipt} stat:DELIVRD err:000");
        assert_eq!(send(&mut session, 4, "4900", text.as_bytes()), 0);
        let (text, _) = receipt_of(&mut client);
        assert!(text.starts_with(&format!("id:{id} ")) && text.contains("stat:DELIVRD"), "{text}");
    }
}

/// The number in the text of a receipt may be written differently from that of the answer, and that
/// of receipted_message_id as there. It was read as that of the text, and the message not found.
#[test]
fn a_number_in_the_parameter_may_be_written_as_in_the_answer() {
    for (ids, answer, parameter, text) in [
        ("hexadecimal-in-answers", "4F2A", "4F2A", "20266"),
        ("hexadecimal-in-answers", "4F2A", "20266", "20266"),
        ("hexadecimal-in-receipts", "20266", "20266", "4F2A"),
        ("hexadecimal-in-receipts", "20266", "4F2A", "4F2A"),
    ] {
        let other = Other::new();
        let more = peer(1, "north", &other.address(), &format!("message_id = \"{ids}\""))
            + "[[route]]\nto = \"north\"\n";
        let (_dir, server) = start(&more);
        let mut session = other.accept();
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let (_, id) = client.submit(&message("491700000001", b"x", 1));
        accept_submit(&mut session, answer);
        let mut tlvs = Vec::new();
        write_tlv(&mut tlvs, tag::RECEIPTED_MESSAGE_ID, format!("{parameter}\0").as_bytes());
        let text = format!("id:{text} stat:DELIVRD err:000");
        assert_eq!(send_with(&mut session, 4, "4900", text.as_bytes(), tlvs), 0);
        let (told, _) = receipt_of(&mut client);
        assert!(told.starts_with(&format!("id:{id} ")) && told.contains("stat:DELIVRD"), "{told}");
    }
}

/// Some centres tell what became of a message in parameters alone, and their esm_class says that it
/// is a message. As one it went to whom the number belongs, and the message ended as UNKNOWN. Where
/// the peer's section does not say so it still is a message: a user of the peer may have sent it.
#[test]
fn a_receipt_may_be_told_by_its_parameters_alone() {
    for says in [true, false] {
        let other = Other::new();
        let more = peer(1, "north", &other.address(), &format!("unmarked_receipts = {says}"))
            + "[[route]]\nto = \"north\"\n";
        let (_dir, server) = start(&more);
        let mut session = other.accept();
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let mut owner = Client::bound(&server.address, "other", Command::BindReceiver);
        let (_, id) = client.submit(&message("491700000001", b"x", 1));
        accept_submit(&mut session, "77");
        let mut tlvs = Vec::new();
        write_tlv(&mut tlvs, tag::RECEIPTED_MESSAGE_ID, b"77\0");
        write_tlv(&mut tlvs, tag::MESSAGE_STATE, &[2]);
        assert_eq!(send_with(&mut session, 0, "1234", b"told", tlvs), 0);
        if says {
            let (told, _) = receipt_of(&mut client);
            assert!(told.starts_with(&format!("id:{id} ")) && told.contains("stat:DELIVRD"), "{told}");
        } else {
            assert_eq!(owner.deliver(Status::Ok).esm_class, 0);
        }
        // One parameter of the two makes no receipt.
        let mut tlvs = Vec::new();
        write_tlv(&mut tlvs, tag::MESSAGE_STATE, &[2]);
        assert_eq!(send_with(&mut session, 0, "1234", b"hi", tlvs), 0);
        assert_eq!(owner.deliver(Status::Ok).body, b"hi");
    }
}

/// A centre of SMPP 3.3 takes no optional parameters. It got them all the same, and the one that
/// each message has that goes through a peer, so it could refuse every message.
#[test]
fn a_peer_of_an_old_version_gets_no_parameters() {
    let of_version = |version: u8| vec![2, 0x10, 0, 1, version];
    for (more, answer, gets) in [
        ("", of_version(0x33), false),
        ("", Vec::new(), true),
        ("parameters = false", of_version(0x34), false),
        ("parameters = true", of_version(0x33), true),
    ] {
        let other = Other::new();
        let more = peer(1, "north", &other.address(), more) + "[[route]]\nto = \"north\"\n";
        let (_dir, server) = start(&more);
        let mut session = other.accept_as(&answer);
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let tlvs = vec![0x14, 0, 0, 1, 9];
        client.submit(&Submit { tlvs, ..message("491700000001", b"x", 0) });
        assert_eq!(!accept_submit(&mut session, "1").tlvs.is_empty(), gets, "{more}");
        // Too long without message_payload.
        client.submit(&message("491700000002", &[b'a'; 255], 1));
        if gets {
            assert_eq!(accept_submit(&mut session, "2").body.len(), 255);
        } else {
            let (text, _) = receipt_of(&mut client);
            assert!(text.contains("stat:REJECTD err:001"), "{text}");
        }
    }
}

/// An answer whose message_id could not be read was taken for a delivery, which nobody had told.
#[test]
fn an_answer_without_a_message_id_is_no_delivery() {
    for id in ["", "0123456789012345678901234567890123456789012345678901234567890123456789"] {
        let other = Other::new();
        let more = peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\n";
        let (_dir, server) = start(&more);
        let mut session = other.accept();
        let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
        let (_, number) = client.submit(&message("491700000001", b"x", 1));
        accept_submit(&mut session, id);
        let (text, _) = receipt_of(&mut client);
        assert!(text.starts_with(&format!("id:{number} ")) && text.contains("stat:UNKNOWN"), "{id}: {text}");
    }
}

/// A receipt may be faster than the answer to its submit_sm.
#[test]
fn a_receipt_that_overtakes_its_answer_is_not_lost() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\n";
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    client.submit(&message("491700000001", b"x", 1));
    let (header, _) = session.next_of(Command::SubmitSm);
    let mut out = Vec::new();
    let address = Address { ton: 1, npi: 1, text: "4900".into() };
    let receipt = Deliver {
        service_type: String::new(),
        source: address.clone(),
        destination: address,
        esm_class: 4,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        body: b"id:5 stat:DELIVRD".to_vec(),
        tlvs: Vec::new(),
    };
    deliver(&mut out, 1, &receipt);
    session.stream.write_all(&out).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    out.clear();
    pdu(&mut out, Command::SubmitSmResp as u32, Status::Ok, header.sequence, |out| out.extend(b"5\0"));
    session.stream.write_all(&out).unwrap();
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
}

/// Receipts of messages that nobody waits for are looked for again for three seconds. 256 of them
/// took all places, and what came behind them waited for so long.
#[test]
fn receipts_of_no_message_do_not_keep_those_behind_them() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\n";
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    client.submit(&message("491700000001", b"x", 1));
    accept_submit(&mut session, "5");
    let address = Address { ton: 1, npi: 1, text: "4900".into() };
    let receipt = |id: u32| Deliver {
        service_type: String::new(),
        source: address.clone(),
        destination: address.clone(),
        esm_class: 4,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        body: format!("id:{id} stat:DELIVRD").into_bytes(),
        tlvs: Vec::new(),
    };
    let mut out = Vec::new();
    for id in 1000..1600 {
        deliver(&mut out, id, &receipt(id));
    }
    deliver(&mut out, 5, &receipt(5));
    session.stream.write_all(&out).unwrap();
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
    // That of the message is answered before the first of the others. The answers to all come.
    let first = session.next_of(Command::DeliverSmResp).0.sequence;
    assert_eq!(first, 5);
    for _ in 1000..1600 {
        assert_eq!(session.next_of(Command::DeliverSmResp).0.status, 0);
    }
}

/// What a peer sent while its session was ended stayed unread, so that the system reset the
/// connection: it lost answers that were on their way, and brought what was stored again.
#[test]
fn a_session_with_a_peer_ends_without_a_reset() {
    let other = Other::new();
    let (_dir, server) = start(&peer(1, "north", &other.address(), ""));
    let mut session = other.accept();
    server.signal("-TERM");
    session.next_of(Command::Unbind);
    let mut octets = Vec::new();
    for sequence in 1..100 {
        pdu(&mut octets, Command::EnquireLink as u32, Status::Ok, sequence, |_| ());
    }
    session.stream.write_all(&octets).unwrap();
    session.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(smpp_client::read(&mut session.stream, &mut [0; 16]).unwrap(), 0);
    assert!(session.stream.take_error().unwrap().is_none());
    assert_eq!(server.wait().0, Some(0));
}

/// A process that stood still for longer than response_s took what the peer had answered meanwhile
/// for not answered, and submitted it again.
#[test]
fn what_a_peer_answered_while_the_centre_stood_still_is_not_submitted_again() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "response_s = 4") + "[[route]]\nto = \"north\"\n";
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    client.submit(&message("491700000001", b"once", 1));
    let (header, _) = session.next_of(Command::SubmitSm);
    server.signal("-STOP");
    let mut out = Vec::new();
    pdu(&mut out, Command::SubmitSmResp as u32, Status::Ok, header.sequence, |out| out.extend(b"5\0"));
    session.stream.write_all(&out).unwrap();
    std::thread::sleep(Duration::from_millis(4500));
    server.signal("-CONT");
    assert_eq!(send(&mut session, 4, "4900", b"id:5 stat:DELIVRD"), 0);
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
    assert_eq!(smpp_client::metric(&server.http, "smsc_peer_submits_total"), 1);
}

/// What a peer refuses: for good, for now, and because it wants less.
#[test]
fn a_peers_refusals_are_heeded() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "window = 1") + "[[route]]\nto = \"north\"\n";
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    client.submit(&message("491700000001", b"no", 1));
    refuse_submit(&mut session, Status::DestinationAddress);
    let (text, _) = receipt_of(&mut client);
    assert!(text.contains("stat:REJECTD err:011"), "{text}");
    // Throttled: the same message comes again, later each time, and no other one before.
    client.submit(&message("491700000001", b"slow", 1));
    let begin = Instant::now();
    for _ in 0..3 {
        assert_eq!(refuse_submit(&mut session, Status::Throttled).body, b"slow");
    }
    // A tenth of a second, then twice as long. Both together: beside other work this test may look
    // at the clock only after a part of a pause is over.
    assert!(begin.elapsed() >= Duration::from_millis(280), "{:?}", begin.elapsed());
    accept_submit(&mut session, "8");
    assert_eq!(send(&mut session, 4, "4900", b"id:8 stat:DELIVRD"), 0);
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
    // A full queue: that mobile waits, others do not.
    client.submit(&message("491700000001", b"full", 0));
    refuse_submit(&mut session, Status::QueueFull);
    client.submit(&message("491700000002", b"next", 0));
    assert_eq!(accept_submit(&mut session, "9").body, b"next");
    // A session that ends takes nothing with it: what it had comes again.
    client.submit(&message("491700000003", b"again", 0));
    session.next_of(Command::SubmitSm);
    drop(session);
    let mut session = other.accept();
    assert_eq!(accept_submit(&mut session, "10").body, b"again");
    // An end in order, and questions.
    let sequence = session.send(Command::EnquireLink as u32, b"");
    assert_eq!(session.next_of(Command::EnquireLinkResp).0.sequence, sequence);
    session.send(Command::Unbind as u32, b"");
    session.next_of(Command::UnbindResp);
    drop(session);
    let mut session = other.accept();
    // Nobody answers: the centre asks, and then begins anew.
    server.signal("-TERM");
    session.next_of(Command::Unbind);
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn messages_of_a_peer_reach_the_application_that_has_the_number() {
    let other = Other::new();
    let more = peer(1, "north", &other.address(), "");
    let (_dir, server) = start(&more);
    let mut session = other.accept();
    let mut client = Client::bound(&server.address, "other", Command::BindReceiver);
    assert_eq!(send(&mut session, 0, "1234", b"hello"), 0);
    let came = client.deliver(Status::Ok);
    assert_eq!((came.body.as_slice(), came.source.text.as_str()), (&b"hello"[..], "491700000001"));
    assert_eq!(send(&mut session, 0, "999", b"hello"), Status::RejectedByApplication as u32);
    // The acknowledgement of a mobile's user goes through as it came.
    assert_eq!(send(&mut session, 0x08, "1234", b"read"), 0);
    assert_eq!(client.deliver(Status::Ok).esm_class, 0x08);
    // data_sm does the same.
    let body = b"\0\x01\x01491700000001\0\x01\x011234\0\0\0\0\x04\x24\0\x02hi";
    session.send(Command::DataSm as u32, body);
    assert_eq!(session.next_of(Command::DataSmResp).0.status, 0);
    assert_eq!(client.deliver(Status::Ok).body, b"hi");
    // An alert_notification has no answer, and goes on.
    let address = |text: &str| Address { ton: 1, npi: 1, text: text.into() };
    let alert = Alert { source: address("491700000001"), esme: address("1234"), availability: Some(0) };
    let mut out = Vec::new();
    alert.write(&mut out, 5);
    session.stream.write_all(&out).unwrap();
    let (_, body) = client.next_of(Command::AlertNotification);
    assert_eq!(Alert::read(&body), Ok(alert));
    // What is wrong is told, and the next is not lost.
    for (command, body, answer, status) in [
        (Command::DeliverSm, &b""[..], Command::DeliverSmResp, Status::CommandLength),
        (Command::DeliverSm, b"\0\x01\x01\x07\0", Command::DeliverSmResp, Status::SourceAddress),
        (Command::DataSm, b"\0\x01\x01\x07\0", Command::DataSmResp, Status::SourceAddress),
        (Command::SubmitSm, b"", Command::GenericNack, Status::CommandId),
        (Command::BindTransceiver, b"", Command::GenericNack, Status::CommandId),
    ] {
        session.send(command as u32, body);
        assert_eq!(session.next_of(answer).0.status, status as u32);
        session.send(Command::EnquireLink as u32, b"");
        session.next_of(Command::EnquireLinkResp);
    }
}

/// Too much waits for an application: what a peer brings for it is refused for now. It was refused
/// for good, ESME_RX_P_APPN, so that the peer gave up a message that would have been taken later.
#[test]
fn a_message_that_finds_no_room_may_come_again() {
    let other = Other::new();
    let dir = tempfile::tempdir().unwrap();
    let text = config("").replace("numbers = [\"1234\"]", "numbers = [\"1234\"]\nreceipts = 2");
    std::fs::write(dir.path().join("smsc.toml"), text + &peer(1, "north", &other.address(), "")).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut session = other.accept();
    // It is counted once a second.
    let (begin, mut taken) = (Instant::now(), 0);
    let status = loop {
        match send(&mut session, 0, "1234", b"x") {
            0 => taken += 1,
            status => break status,
        }
        assert!(begin.elapsed() < FOREVER, "{taken} were taken");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status, Status::TemporaryApplication as u32);
    let mut client = Client::bound(&server.address, "other", Command::BindReceiver);
    (0..taken).for_each(|_| assert_eq!(client.deliver(Status::Ok).body, b"x"));
    let begin = Instant::now();
    while send(&mut session, 0, "1234", b"again") != 0 {
        assert!(begin.elapsed() < FOREVER, "there is room again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.deliver(Status::Ok).body, b"again");
}

/// The cheapest peer that is there takes the message; one that is away for long loses what waits
/// for it to the next, and the simulated network is a route like any other.
#[test]
fn a_peer_that_is_away_is_gone_round() {
    let (cheap, dear) = (Other::new(), Other::new());
    let more = peer(1, "cheap", &cheap.address(), "")
        + &peer(2, "dear", &dear.address(), "")
        + "[[route]]\nto = \"cheap\"\nprefix = \"49\"\ncost = 1\n\
           [[route]]\nto = \"dear\"\nprefix = \"49\"\ncost = 2\n\
           [[route]]\nto = \"dear\"\nprefix = \"49\"\naccount = \"other\"\n\
           [[route]]\nto = \"network\"\nprefix = \"4930\"\n";
    let (_dir, server) = start(&more);
    let mut first = cheap.accept();
    let mut second = dear.accept();
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut another = Client::bound(&server.address, "other", Command::BindTransmitter);
    client.submit(&message("491700000001", b"cheap", 0));
    assert_eq!(accept_submit(&mut first, "1").body, b"cheap");
    another.submit(&message("491700000001", b"dear", 0));
    assert_eq!(accept_submit(&mut second, "1").body, b"dear");
    client.submit(&message("493000000001", b"mobile", 1));
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
    // It goes with a message in flight, and comes back to no connection.
    client.submit(&message("491700000002", b"one", 0));
    first.next_of(Command::SubmitSm);
    let closed = cheap.listener;
    drop((first, closed));
    client.submit(&message("491700000003", b"two", 0));
    let mut came = [accept_submit(&mut second, "2").body, accept_submit(&mut second, "3").body];
    came.sort();
    assert_eq!(came, [b"one".to_vec(), b"two".to_vec()]);
    client.submit(&message("491700000004", b"three", 0));
    assert_eq!(accept_submit(&mut second, "4").body, b"three");
}

/// A message that had its time, or was queued before there were routes, finds its way all the same;
/// and one whose peer is configured no more.
#[test]
fn routes_that_change_take_along_what_waits() {
    let other = Other::new();
    let (dir, mut server) = start("");
    let file = dir.path().join("smsc.toml");
    let with = config("") + &peer(1, "north", &other.address(), "") + "[[route]]\nto = \"north\"\n";
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    std::fs::write(&file, &with).unwrap();
    server.signal("-HUP");
    server.line_with("reloaded");
    let session = other.accept();
    let closed = other.listener;
    drop((session, closed));
    std::thread::sleep(Duration::from_millis(700));
    client.submit(&message("491700000001", b"waits", 1));
    std::fs::write(&file, config("")).unwrap();
    server.signal("-HUP");
    assert!(receipt_of(&mut client).0.contains("stat:DELIVRD"));
}

/// An application that takes calls is called when a receipt waits for it, and binds on that
/// connection.
#[test]
fn an_application_is_called_with_outbind() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = application.local_addr().unwrap();
    let text = config("").replacen(
        "sessions = 3",
        &format!("sessions = 3\noutbind = \"{address}\"\noutbind_password = \"letmein\""),
        1,
    );
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    client.submit(&message("491700000001", b"x", 1));
    let mut called = Client::of(application.accept().unwrap().0);
    let (header, body) = called.next().unwrap();
    assert_eq!(header.command, Command::Outbind as u32);
    let outbind = smsc::smpp::Outbind::read(&body).unwrap();
    assert_eq!((outbind.system_id.as_str(), outbind.password.as_str()), ("smsc", "letmein"));
    assert_eq!(called.bind("app", smpp_client::PASSWORD, Command::BindReceiver), 0);
    assert!(receipt_of(&mut called).0.contains("stat:DELIVRD"));
}

/// Who takes calls was called at each start of the centre, and again and again until it had bound,
/// although nothing waited for it.
#[test]
fn an_application_that_nothing_waits_for_is_not_called() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    application.set_nonblocking(true).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = application.local_addr().unwrap();
    let text = config("").replacen("sessions = 3", &format!("sessions = 3\noutbind = \"{address}\""), 1);
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    // The call of the start came before any password had been looked at.
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    client.submit(&message("491700000001", b"x", 0));
    assert!(application.accept().is_err(), "nothing waits");
}

/// What an application had refused for now, or not answered in time, when its session ended waited
/// until something else came, as nobody called: it was not in flight any more then. Who had not
/// answered was sent it once more before the session's end, at some moments, and then it was.
#[test]
fn an_application_is_called_again_for_what_it_refused_for_now() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = application.local_addr().unwrap();
    let text = config("").replacen("sessions = 3", &format!("sessions = 3\noutbind = \"{address}\""), 1);
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    client.submit(&message("491700000001", b"x", 1));
    let mut called = Client::of(application.accept().unwrap().0);
    assert_eq!(called.next().unwrap().0.command, Command::Outbind as u32);
    assert_eq!(called.bind("app", smpp_client::PASSWORD, Command::BindReceiver), 0);
    called.deliver(Status::TemporaryApplication);
    drop(called);
    application.set_nonblocking(true).unwrap();
    let begin = Instant::now();
    let stream = loop {
        if let Ok((stream, _)) = application.accept() {
            break stream;
        }
        assert!(begin.elapsed() < FOREVER, "nobody calls");
        std::thread::sleep(Duration::from_millis(50));
    };
    stream.set_nonblocking(false).unwrap();
    let mut called = Client::of(stream);
    assert_eq!(called.next().unwrap().0.command, Command::Outbind as u32);
    assert_eq!(called.bind("app", smpp_client::PASSWORD, Command::BindReceiver), 0);
    assert!(receipt_of(&mut called).0.contains("stat:DELIVRD"));
}

/// set_dpf: when a mobile that was away is there again, the application hears of it; and whoever
/// asks for intermediate notifications gets one of the first attempt in vain.
#[test]
fn an_application_hears_of_a_mobile_that_was_away() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let network = dir.path().join("network.toml");
    let text = "[prefixes]\n49171 = \"absent\"\n[absence]\nmean_s = 1\n[retry]\nabsent_s = [1, 1]\n";
    std::fs::write(&network, text).unwrap();
    let options = ["--segment-mib", "1", "--network", &network.display().to_string()];
    let server = Server::start(dir.path(), &options);
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let asked = Submit { tlvs: vec![4, 0x21, 0, 1, 1], ..message("4917100000", b"x", 0x11) };
    let (_, id) = client.submit(&asked);
    let (text, class) = receipt_of(&mut client);
    assert_eq!(class, 0x20, "{text}");
    assert!(text.starts_with(&format!("id:{id} ")) && text.contains("stat:ENROUTE"), "{text}");
    let (_, body) = client.next_of(Command::AlertNotification);
    let alert = Alert::read(&body).unwrap();
    assert_eq!((alert.source.text.as_str(), alert.esme.text.as_str()), ("4917100000", "4900"));
    assert_eq!(alert.availability, Some(0));
    let _ = c_string;
}
