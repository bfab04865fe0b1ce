//! Every PDU that is wrong gets the answer that SMPP 3.4 names, with its own sequence number, and
//! the one behind it is answered as if nothing had been.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smpp_client::{Client, Server};
use smsc::smpp::{Command, Status, Tlvs, pdu, tag};
use std::io::Write;

/// Fields of a submit_sm that can be written wrong, one at a time.
struct Fields {
    service_type: Vec<u8>,
    source: Vec<u8>,
    destination: Vec<u8>,
    esm_class: u8,
    priority: u8,
    schedule: Vec<u8>,
    validity: Vec<u8>,
    registered_delivery: u8,
    replace: u8,
    data_coding: u8,
    default_message: u8,
    length: u8,
    body: Vec<u8>,
    tlvs: Vec<u8>,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            service_type: b"\0".to_vec(),
            source: b"\x01\x014900\0".to_vec(),
            destination: b"\x01\x01491700000001\0".to_vec(),
            esm_class: 0,
            priority: 0,
            schedule: b"\0".to_vec(),
            validity: b"\0".to_vec(),
            registered_delivery: 0,
            replace: 0,
            data_coding: 0,
            default_message: 0,
            length: 5,
            body: b"hello".to_vec(),
            tlvs: Vec::new(),
        }
    }
}

impl Fields {
    fn octets(&self) -> Vec<u8> {
        let mut octets = [&self.service_type[..], &self.source, &self.destination].concat();
        octets.extend_from_slice(&[self.esm_class, 0, self.priority]);
        octets.extend_from_slice(&self.schedule);
        octets.extend_from_slice(&self.validity);
        octets.extend_from_slice(&[self.registered_delivery, self.replace, self.data_coding]);
        octets.extend_from_slice(&[self.default_message, self.length]);
        octets.extend_from_slice(&self.body);
        octets.extend_from_slice(&self.tlvs);
        octets
    }
}

/// A submit_sm with a change, and what it is answered with.
fn submits() -> Vec<(&'static str, Vec<u8>, Status)> {
    let mut cases = Vec::new();
    let mut case = |name, status, change: &dyn Fn(&mut Fields)| {
        let mut fields = Fields::default();
        change(&mut fields);
        cases.push((name, fields.octets(), status));
    };
    let long = |octets: usize| [&b"\x01\x01"[..], &vec![b'1'; octets], b"\0"].concat();
    case("nothing wrong", Status::Ok, &|_| ());
    case("service_type of 6 letters", Status::ServiceType, &|f| f.service_type = b"ABCDEF\0".to_vec());
    case("service_type of 5 letters", Status::Ok, &|f| f.service_type = b"ABCDE\0".to_vec());
    case("service_type with a control character", Status::ServiceType, &|f| {
        f.service_type = b"A\x07\0".to_vec()
    });
    case("source ton 7", Status::SourceTon, &|f| f.source[0] = 7);
    case("source ton 255", Status::SourceTon, &|f| f.source[0] = 255);
    case("source npi 2", Status::SourceNpi, &|f| f.source[1] = 2);
    case("source npi 19", Status::SourceNpi, &|f| f.source[1] = 19);
    case("source of 20 digits", Status::Ok, &|f| f.source = long(20));
    case("source of 21 digits", Status::SourceAddress, &|f| f.source = long(21));
    case("source of 200 digits", Status::SourceAddress, &|f| f.source = long(200));
    case("source beyond ASCII", Status::SourceAddress, &|f| f.source = b"\x05\0\xff\xfe\0".to_vec());
    case("source of letters", Status::Ok, &|f| f.source = b"\x05\0Bank\0".to_vec());
    case("source left out", Status::Ok, &|f| f.source = b"\0\0\0".to_vec());
    case("destination ton 7", Status::DestinationTon, &|f| f.destination[0] = 7);
    case("destination npi 5", Status::DestinationNpi, &|f| f.destination[1] = 5);
    case("destination left out", Status::DestinationAddress, &|f| f.destination = b"\x01\x01\0".to_vec());
    case("destination of letters", Status::DestinationAddress, &|f| f.destination = b"\x05\0Bank\0".to_vec());
    case("destination of 18 digits", Status::DestinationAddress, &|f| f.destination = long(18));
    case("destination of 17 digits", Status::Ok, &|f| f.destination = long(17));
    case("destination of 21 digits", Status::DestinationAddress, &|f| f.destination = long(21));
    case("destination with a sign in it", Status::DestinationAddress, &|f| {
        f.destination = b"\x01\x0149-1\0".to_vec()
    });
    case("esm_class transaction mode", Status::EsmClass, &|f| f.esm_class = 2);
    case("esm_class of a receipt", Status::EsmClass, &|f| f.esm_class = 4);
    case("esm_class reserved", Status::EsmClass, &|f| f.esm_class = 0x3c);
    case("a header that is not there", Status::EsmClass, &|f| {
        (f.esm_class, f.body, f.length) = (0x40, Vec::new(), 0);
    });
    case("a header longer than the body", Status::EsmClass, &|f| f.esm_class = 0x40);
    case("priority 4", Status::PriorityFlag, &|f| f.priority = 4);
    case("priority 3", Status::Ok, &|f| f.priority = 3);
    case("schedule that is no time", Status::ScheduleTime, &|f| f.schedule = b"tomorrow\0".to_vec());
    case("schedule in a 13th month", Status::ScheduleTime, &|f| f.schedule = b"301301000000000+\0".to_vec());
    case("schedule without its end", Status::ScheduleTime, &|f| f.schedule = vec![b'0'; 17]);
    case("schedule in ninety years", Status::ScheduleTime, &|f| f.schedule = b"990101000000000+\0".to_vec());
    case("schedule in a minute", Status::Ok, &|f| f.schedule = b"000000000100000R\0".to_vec());
    case("validity that is no time", Status::Validity, &|f| f.validity = b"1\0".to_vec());
    case("validity in the past", Status::Validity, &|f| f.validity = b"200101000000000+\0".to_vec());
    case("validity of nothing", Status::Validity, &|f| f.validity = b"000000000000000R\0".to_vec());
    case("validity before the schedule", Status::Validity, &|f| {
        f.schedule = b"000000010000000R\0".to_vec();
        f.validity = b"000000000100000R\0".to_vec();
    });
    case("validity without its end", Status::Validity, &|f| f.validity = vec![b'0'; 17]);
    case("registered_delivery reserved", Status::RegisteredDelivery, &|f| f.registered_delivery = 0x20);
    case("registered_delivery 255", Status::RegisteredDelivery, &|f| f.registered_delivery = 255);
    case("replace_if_present 2", Status::ReplaceFlag, &|f| f.replace = 2);
    case("a message that the centre keeps", Status::DefaultMessage, &|f| f.default_message = 1);
    case("sm_length 255", Status::MessageLength, &|f| (f.length, f.body) = (255, vec![b'a'; 255]));
    case("sm_length 254", Status::Ok, &|f| (f.length, f.body) = (254, vec![b'a'; 254]));
    case("sm_length beyond the body", Status::MessageLength, &|f| f.length = 6);
    case("sm_length before its end", Status::OptionalStream, &|f| f.length = 2);
    case("no body", Status::Ok, &|f| (f.length, f.body) = (0, Vec::new()));
    case("UCS2 of an odd length", Status::MessageLength, &|f| f.data_coding = 8);
    case("a data coding that nobody knows", Status::SubmitFailed, &|f| f.data_coding = 0x0e);
    case("a septet of eight bits", Status::SubmitFailed, &|f| f.body = b"h\xffllo".to_vec());
    case("an optional parameter without a length", Status::OptionalStream, &|f| f.tlvs = vec![4, 0x24]);
    case("an optional parameter that is cut off", Status::OptionalStream, &|f| {
        f.tlvs = vec![4, 0x24, 0, 9, 1]
    });
    case("an optional parameter nobody knows", Status::Ok, &|f| f.tlvs = vec![0x14, 0x99, 0, 2, 1, 2]);
    case("a body in two places", Status::OptionalNotAllowed, &|f| f.tlvs = b"\x04\x24\0\x02hi".to_vec());
    case("a body in message_payload", Status::Ok, &|f| {
        (f.length, f.body, f.tlvs) = (0, Vec::new(), b"\x04\x24\0\x02hi".to_vec());
    });
    case("time to live of three octets", Status::ParameterLength, &|f| f.tlvs = vec![0, 0x17, 0, 3, 0, 0, 9]);
    case("time to live of nothing", Status::Validity, &|f| f.tlvs = vec![0, 0x17, 0, 4, 0, 0, 0, 0]);
    // It was refused, ESME_RMISSINGOPTPARAM; the specification has it ignored.
    case("a part without a total", Status::Ok, &|f| f.tlvs = vec![2, 0x0c, 0, 2, 0, 1]);
    case("a part beyond the last", Status::OptionalValue, &|f| {
        f.tlvs = vec![2, 0x0c, 0, 2, 0, 1, 2, 0x0e, 0, 1, 2, 2, 0x0f, 0, 1, 3];
    });
    case("a part of one octet too many", Status::ParameterLength, &|f| {
        f.tlvs = vec![2, 0x0c, 0, 2, 0, 1, 2, 0x0e, 0, 2, 0, 2, 2, 0x0f, 0, 1, 1];
    });
    case("a part", Status::Ok, &|f| f.tlvs = vec![2, 0x0c, 0, 2, 0, 1, 2, 0x0e, 0, 1, 2, 2, 0x0f, 0, 1, 1]);
    // Jasmin cuts like this. The header had a reference of 16 bits, and left no room for the last
    // septet or octet: ESME_RINVMSGLEN for all parts of a long message but its last.
    let part = |total: u8| vec![2, 0x0c, 0, 2, 0, 1, 2, 0x0e, 0, 1, total, 2, 0x0f, 0, 1, 1];
    case("a part of 153 septets", Status::Ok, &|f| {
        (f.length, f.body, f.tlvs) = (153, vec![b'a'; 153], part(2));
    });
    case("a part of 67 letters of UCS2", Status::Ok, &|f| {
        (f.data_coding, f.length, f.body, f.tlvs) = (8, 134, [0, b'a'].repeat(67), part(2));
    });
    case("a part of 154 septets", Status::MessageLength, &|f| {
        (f.length, f.body, f.tlvs) = (154, vec![b'a'; 154], part(2));
    });
    case("the only part, of 160 septets", Status::Ok, &|f| {
        (f.length, f.body, f.tlvs) = (160, vec![b'a'; 160], part(1));
    });
    // As php-smpp sends it if nobody tells it not to; it was refused.
    case("a NUL behind the text", Status::Ok, &|f| f.tlvs = vec![0]);
    case("a NUL between the text and a parameter", Status::Ok, &|f| {
        f.tlvs = vec![0, 2, 0x04, 0, 2, 0, 7];
    });
    // Each form of registered_delivery: receipts, acknowledgements, intermediate notifications.
    case("receipt whatever becomes of it", Status::Ok, &|f| f.registered_delivery = 1);
    case("receipt of a failure", Status::Ok, &|f| f.registered_delivery = 2);
    case("receipt of a success, which is reserved", Status::Ok, &|f| f.registered_delivery = 3);
    case("acknowledgement of the application", Status::Ok, &|f| f.registered_delivery = 0x04);
    case("acknowledgement of its user", Status::Ok, &|f| f.registered_delivery = 0x08);
    case("intermediate notification", Status::Ok, &|f| f.registered_delivery = 0x10);
    case("all of these", Status::Ok, &|f| f.registered_delivery = 0x1f);
    case("registered_delivery 0x40", Status::RegisteredDelivery, &|f| f.registered_delivery = 0x40);
    case("registered_delivery 0x80", Status::RegisteredDelivery, &|f| f.registered_delivery = 0x80);
    // Every field at its last value, and behind it.
    case("source ton 6", Status::Ok, &|f| f.source[0] = 6);
    case("source npi 18", Status::Ok, &|f| f.source[1] = 18);
    case("source npi 255", Status::SourceNpi, &|f| f.source[1] = 255);
    case("destination ton 6", Status::Ok, &|f| f.destination[0] = 6);
    case("destination ton 255", Status::DestinationTon, &|f| f.destination[0] = 255);
    case("destination npi 18", Status::Ok, &|f| f.destination[1] = 18);
    case("destination npi 255", Status::DestinationNpi, &|f| f.destination[1] = 255);
    case("service_type of nothing but signs", Status::Ok, &|f| f.service_type = b"~ ~ ~\0".to_vec());
    case("service_type without its end", Status::ServiceType, &|f| f.service_type = b"ABCDEFG".to_vec());
    case("source of a DEL", Status::SourceAddress, &|f| f.source = b"\x05\0a\x7f\0".to_vec());
    case("esm_class datagram mode", Status::Ok, &|f| f.esm_class = 1);
    case("esm_class store and forward", Status::Ok, &|f| f.esm_class = 3);
    case("esm_class of an acknowledgement", Status::Ok, &|f| f.esm_class = 0x08);
    case("esm_class of a user's acknowledgement", Status::Ok, &|f| f.esm_class = 0x10);
    case("esm_class of an aborted conversation", Status::EsmClass, &|f| f.esm_class = 0x18);
    case("esm_class of a notification", Status::EsmClass, &|f| f.esm_class = 0x20);
    case("esm_class with a reply path", Status::Ok, &|f| f.esm_class = 0x80);
    case("priority 255", Status::PriorityFlag, &|f| f.priority = 255);
    case("replace_if_present 255", Status::ReplaceFlag, &|f| f.replace = 255);
    case("default message 255", Status::DefaultMessage, &|f| f.default_message = 255);
    case("validity at its last quarter of an hour", Status::Ok, &|f| {
        f.validity = b"350101000000048+\0".to_vec();
    });
    case("validity beyond it", Status::Validity, &|f| f.validity = b"350101000000049+\0".to_vec());
    case("validity in a 32nd of January", Status::Validity, &|f| f.validity = b"350132000000000+\0".to_vec());
    case("validity at 24:00", Status::Validity, &|f| f.validity = b"350101240000000+\0".to_vec());
    case("a relative time with tenths", Status::Validity, &|f| f.validity = b"000000010000100R\0".to_vec());
    case("a time without a direction", Status::Validity, &|f| f.validity = b"350101000000000\0".to_vec());
    case("a parameter of no octets", Status::Ok, &|f| f.tlvs = vec![0x14, 0x99, 0, 0]);
    case("a parameter one octet short", Status::OptionalStream, &|f| f.tlvs = vec![0x14, 0x99, 0, 2, 1]);
    case("a parameter of 65,535 octets that is not there", Status::OptionalStream, &|f| {
        f.tlvs = vec![0x14, 0x99, 0xff, 0xff];
    });
    case("parameters of 4,096 octets", Status::Ok, &|f| {
        f.tlvs = [&[0x14, 0x99, 0x0f, 0xfc][..], &[0; 4092]].concat();
    });
    case("parameters of 4,097 octets", Status::ParameterLength, &|f| {
        f.tlvs = [&[0x14, 0x99, 0x0f, 0xfd][..], &[0; 4093]].concat();
    });
    case("set_dpf", Status::Ok, &|f| f.tlvs = vec![4, 0x21, 0, 1, 1]);
    let whole = Fields::default().octets();
    for (name, octets) in
        [("nothing at all", 0), ("an end in an address", 5), ("an end before sm_length", 24)]
    {
        cases.push((name, whole[..octets].to_vec(), Status::CommandLength));
    }
    cases
}

/// Other operations: command, body, the answer's command and status.
fn others() -> Vec<(&'static str, u32, Vec<u8>, Command, Status)> {
    use Command::*;
    let nack = |name, command: u32, status| (name, command, Vec::new(), GenericNack, status);
    let multi = |count: u8, destinations: &[u8]| {
        let rest = b"\0\0\0\0\0\0\0\0\0\x02hi";
        [&b"\0\x01\x014900\0"[..], &[count], destinations, rest].concat()
    };
    let one = b"\x01\x01\x01491700000002\0";
    let data = |destination: &[u8], tlvs: &[u8]| {
        [&b"\0\x01\x014900\0\x01\x01"[..], destination, b"\0\0\0\0", tlvs].concat()
    };
    let query = |id: &str| [id.as_bytes(), b"\0\x01\x014900\0"].concat();
    let long = "1".repeat(65);
    vec![
        nack("a command that nobody knows", 0x22, Status::CommandId),
        nack("command 0", 0, Status::CommandId),
        nack("a command of SMPP 5.0", 0x111, Status::CommandId),
        nack("outbind", Outbind as u32, Status::CommandId),
        nack("deliver_sm from an application", DeliverSm as u32, Status::CommandId),
        nack("alert_notification from an application", AlertNotification as u32, Status::CommandId),
        (
            "a second bind",
            BindTransceiver as u32,
            b"app\0secret\0\0\x34\0\0\0".to_vec(),
            BindTransceiverResp,
            Status::AlreadyBound,
        ),
        (
            "submit_multi to nobody",
            SubmitMulti as u32,
            multi(0, b""),
            SubmitMultiResp,
            Status::NumberOfDestinations,
        ),
        (
            "submit_multi to 255",
            SubmitMulti as u32,
            multi(255, one),
            SubmitMultiResp,
            Status::NumberOfDestinations,
        ),
        (
            "submit_multi to fewer than it says",
            SubmitMulti as u32,
            multi(2, one),
            SubmitMultiResp,
            Status::DestinationFlag,
        ),
        (
            "submit_multi with a flag 3",
            SubmitMulti as u32,
            multi(1, b"\x03x\0"),
            SubmitMultiResp,
            Status::DestinationFlag,
        ),
        (
            "submit_multi to a list",
            SubmitMulti as u32,
            multi(1, b"\x02list\0"),
            SubmitMultiResp,
            Status::DistributionList,
        ),
        (
            "submit_multi to a long list",
            SubmitMulti as u32,
            multi(1, &[&b"\x02"[..], &[b'x'; 30], b"\0"].concat()),
            SubmitMultiResp,
            Status::DistributionList,
        ),
        ("submit_multi", SubmitMulti as u32, multi(1, one), SubmitMultiResp, Status::Ok),
        (
            "submit_multi whose only address is none",
            SubmitMulti as u32,
            multi(1, b"\x01\x05\0Bank\0"),
            SubmitMultiResp,
            Status::SubmitFailed,
        ),
        (
            "data_sm without a body",
            DataSm as u32,
            data(b"491700000003", b""),
            DataSmResp,
            Status::OptionalMissing,
        ),
        (
            "data_sm to 64 digits",
            DataSm as u32,
            data(&long.as_bytes()[1..], b"\x04\x24\0\x02hi"),
            DataSmResp,
            Status::DestinationAddress,
        ),
        (
            "data_sm to 65 digits",
            DataSm as u32,
            data(long.as_bytes(), b"\x04\x24\0\x02hi"),
            DataSmResp,
            Status::DestinationAddress,
        ),
        (
            "data_sm with a registered_delivery that is reserved",
            DataSm as u32,
            [&b"\0\x01\x014900\0\x01\x01491700000003\0\0\x20\0"[..], b"\x04\x24\0\x02hi"].concat(),
            DataSmResp,
            Status::RegisteredDelivery,
        ),
        (
            "data_sm with an esm_class of a receipt",
            DataSm as u32,
            [&b"\0\x01\x014900\0\x01\x01491700000003\0\x04\0\0"[..], b"\x04\x24\0\x02hi"].concat(),
            DataSmResp,
            Status::EsmClass,
        ),
        (
            "data_sm that is cut off",
            DataSm as u32,
            b"\0\x01\x014900".to_vec(),
            DataSmResp,
            Status::CommandLength,
        ),
        ("data_sm", DataSm as u32, data(b"491700000003", b"\x04\x24\0\x02hi"), DataSmResp, Status::Ok),
        ("query_sm of no number", QuerySm as u32, query("abc"), QuerySmResp, Status::MessageId),
        ("query_sm of nothing", QuerySm as u32, query(""), QuerySmResp, Status::MessageId),
        ("query_sm of 65 digits", QuerySm as u32, query(&long), QuerySmResp, Status::MessageId),
        ("query_sm of +1", QuerySm as u32, query("+1"), QuerySmResp, Status::MessageId),
        (
            "query_sm of a message that is not there",
            QuerySm as u32,
            query("999999999"),
            QuerySmResp,
            Status::QueryFailed,
        ),
        ("query_sm that is cut off", QuerySm as u32, b"1".to_vec(), QuerySmResp, Status::CommandLength),
        (
            "cancel_sm of a message that is not there",
            CancelSm as u32,
            b"\x0099999999\0\x01\x014900\0\x01\x01491\0".to_vec(),
            CancelSmResp,
            Status::CancelFailed,
        ),
        (
            "cancel_sm of no number",
            CancelSm as u32,
            b"\0x\0\x01\x014900\0\x01\x01491\0".to_vec(),
            CancelSmResp,
            Status::MessageId,
        ),
        ("cancel_sm that is cut off", CancelSm as u32, b"\0".to_vec(), CancelSmResp, Status::CommandLength),
        (
            "replace_sm of a message that is not there",
            ReplaceSm as u32,
            b"99999999\0\x01\x014900\0\0\0\0\0\x02hi".to_vec(),
            ReplaceSmResp,
            Status::ReplaceFailed,
        ),
        (
            "replace_sm with a time of no kind",
            ReplaceSm as u32,
            b"99999999\0\x01\x014900\0\0x\0\0\0\x02hi".to_vec(),
            ReplaceSmResp,
            Status::Validity,
        ),
        // It was taken, and the message expired instead of being delivered.
        (
            "replace_sm whose validity is over",
            ReplaceSm as u32,
            [&b"99999999\0\x01\x014900\0\0"[..], b"000000000000000R\0", b"\0\0\x02hi"].concat(),
            ReplaceSmResp,
            Status::Validity,
        ),
        (
            "replace_sm that is cut off",
            ReplaceSm as u32,
            b"99999999\0\x01".to_vec(),
            ReplaceSmResp,
            Status::CommandLength,
        ),
        ("enquire_link with a body", EnquireLink as u32, b"body".to_vec(), EnquireLinkResp, Status::Ok),
    ]
}

#[test]
fn what_is_wrong_is_answered_and_the_next_is_not_lost() {
    let (_dir, server) = Server::new("");
    // Receipts, which some cases ask for, would come between the answers.
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    let submits = submits();
    let of_submits = submits
        .into_iter()
        .map(|(name, body, status)| (name, Command::SubmitSm as u32, body, Command::SubmitSmResp, status));
    let cases: Vec<_> = of_submits.chain(others()).collect();
    println!("{} cases", cases.len());
    assert!(cases.len() >= 130, "{}", cases.len());
    // The sender's sequence numbers need not rise, nor be what the specification allows.
    for (at, (name, command, body, answer, status)) in (1_u32..).zip(&cases) {
        let (first, second) = (at.wrapping_mul(0x9e37_79b9), at);
        let mut octets = Vec::new();
        pdu(&mut octets, *command, Status::Ok, first, |out| out.extend_from_slice(body));
        pdu(&mut octets, Command::EnquireLink as u32, Status::Ok, second, |_| ());
        client.stream.write_all(&octets).unwrap();
        let (header, _) = client.next().unwrap_or_else(|| panic!("{name}: the connection has ended"));
        let name_of = |number| Status::of(number).map_or("?", Status::name);
        assert_eq!(
            (header.command, name_of(header.status), header.sequence),
            (*answer as u32, status.name(), first),
            "{name}"
        );
        let (header, _) = client.next().unwrap_or_else(|| panic!("{name}: the connection has ended"));
        assert_eq!((header.command, header.sequence), (Command::EnquireLinkResp as u32, second), "{name}");
    }
}

/// A refused data_sm says why beside its status: SMPP 3.4 §4.7.2.
#[test]
fn a_refused_data_sm_says_why() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    client.send(Command::DataSm as u32, b"\0\x01\x014900\0\x01\x01Bank\0\0\0\0\x04\x24\0\x02hi");
    let (header, body) = client.next().unwrap();
    assert_eq!(
        (header.command, header.status),
        (Command::DataSmResp as u32, Status::DestinationAddress as u32)
    );
    assert_eq!(body[0], 0, "no message_id");
    let tlvs = Tlvs::new(&body[1..]).unwrap();
    assert_eq!(tlvs.find(tag::DELIVERY_FAILURE), Some(&[1][..]));
    assert_eq!(tlvs.find(tag::ADDITIONAL_STATUS), Some(&b"ESME_RINVDSTADR\0"[..]));
}

/// Fields of a bind at their last length, and one octet beyond.
#[test]
fn binds_have_limits() {
    let (_dir, server) = Server::new("");
    let fields = |system_id: usize, password: usize, system_type: usize, range: usize| {
        let text = |letters: usize| [&vec![b'a'; letters][..], b"\0"].concat();
        [&text(system_id)[..], &text(password), &text(system_type), &[0x34, 0, 0], &text(range)].concat()
    };
    for (body, status) in [
        (fields(15, 8, 12, 40), Status::SystemId),
        (fields(16, 8, 12, 40), Status::SystemId),
        (fields(15, 9, 12, 40), Status::Password),
        (fields(15, 8, 13, 40), Status::SystemType),
        (fields(15, 8, 12, 41), Status::BindFailed),
        (b"app\0secret\0\0\x34".to_vec(), Status::CommandLength),
        (b"app\0secret\0\0\x34\0\0\0\x01".to_vec(), Status::OptionalStream),
        (b"app\0secret\0\0\x34\0\0\0".to_vec(), Status::Ok),
        (b"app\0secret\0\0\x50\0\0\0".to_vec(), Status::Ok),
        (b"app\0secret\0\0\0\0\0\0".to_vec(), Status::Ok),
        (b"app\0secret\0\0\xff\xff\xff\0".to_vec(), Status::Ok),
    ] {
        let mut client = Client::connect(&server.address);
        client.send(Command::BindTransmitter as u32, &body);
        let (header, _) = client.next().unwrap();
        let name_of = |number| Status::of(number).map_or("?", Status::name);
        assert_eq!(name_of(header.status), status.name(), "{body:?}");
        if status == Status::Ok {
            client.send(Command::Unbind as u32, b"");
            while client.next().is_some() {}
        }
    }
}

/// What frames wrong: a length that is too great is skipped, one that cannot be is the end.
#[test]
fn a_length_that_is_wrong_is_told() {
    let (_dir, server) = Server::new("");
    let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
    let mut octets = Vec::new();
    pdu(&mut octets, Command::SubmitSm as u32, Status::Ok, 77, |out| out.resize(200 << 10, 0));
    pdu(&mut octets, Command::EnquireLink as u32, Status::Ok, 78, |_| ());
    client.stream.write_all(&octets).unwrap();
    for (command, status, sequence) in
        [(Command::GenericNack, Status::CommandLength, 77), (Command::EnquireLinkResp, Status::Ok, 78)]
    {
        let header = client.next().unwrap().0;
        assert_eq!(
            (header.command, header.status, header.sequence),
            (command as u32, status as u32, sequence)
        );
    }
    for length in [0_u32, 15, 0x7fff_ffff, u32::MAX] {
        let mut client = Client::connect(&server.address);
        let words = [length, Command::EnquireLink as u32, 0, 5].map(u32::to_be_bytes).concat();
        client.stream.write_all(&words).unwrap();
        let header = client.next().unwrap().0;
        let told = (header.command, header.status, header.sequence);
        assert_eq!(told, (Command::GenericNack as u32, Status::CommandLength as u32, 5), "{length}");
        assert!(client.next().is_none(), "{length}");
    }
    // Octet by octet it is the same PDU.
    let mut slow = Client::connect(&server.address);
    let mut octets = Vec::new();
    pdu(&mut octets, Command::EnquireLink as u32, Status::Ok, 9, |_| ());
    for octet in octets {
        slow.stream.write_all(&[octet]).unwrap();
    }
    assert_eq!(slow.next().unwrap().0.sequence, 9);
}

/// Binds that are refused, and what a session may do that is not bound, or bound the other way.
#[test]
fn who_is_not_let_in_is_told_why() {
    let (_dir, server) = Server::new("");
    let bind = |system_id: &str, password: &str| {
        Client::connect(&server.address).bind(system_id, password, Command::BindTransceiver)
    };
    assert_eq!(bind("nobody", "secret"), Status::SystemId as u32);
    assert_eq!(bind("app", "wrong"), Status::Password as u32);
    assert_eq!(bind("app", ""), Status::Password as u32);
    assert_eq!(bind("app", "secrets12"), Status::Password as u32, "nine letters");
    assert_eq!(bind("a system_id of 17", "secret"), Status::SystemId as u32);
    let mut out = Client::connect(&server.address);
    for command in [Command::SubmitSm, Command::QuerySm, Command::DataSm, Command::Unbind] {
        out.send(command as u32, b"");
        let header = out.next().unwrap().0;
        assert_eq!((header.command, header.status), (command.response() as u32, Status::BindStatus as u32));
    }
    let mut receiver = Client::bound(&server.address, "app", Command::BindReceiver);
    receiver.send(Command::SubmitSm as u32, b"");
    assert_eq!(receiver.next().unwrap().0.status, Status::BindStatus as u32);
    let _second = Client::bound(&server.address, "app", Command::BindTransmitter);
    let mut third = Client::bound(&server.address, "app", Command::BindTransceiver);
    assert_eq!(bind("app", "secret"), Status::BindFailed as u32, "sessions = 3");
    third.send(Command::Unbind as u32, b"");
    assert_eq!(third.next().unwrap().0.command, Command::UnbindResp as u32);
    assert!(third.next().is_none());
    // Its place is free again, once it has gone.
    let again = (0..1500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        bind("app", "secret") == Status::Ok as u32
    });
    assert!(again);
}
