use super::*;
use proptest::prelude::*;

fn body_of(octets: &[u8]) -> &[u8] {
    let Framing::Pdu(header) = frame(octets) else { panic!("no PDU: {octets:?}") };
    assert_eq!(header.length as usize, octets.len());
    &octets[HEADER_OCTETS..]
}

fn address() -> impl Strategy<Value = Address> {
    let npi = prop::sample::select(vec![0, 1, 3, 4, 6, 8, 9, 10, 14, 18]);
    (0..7u8, npi, "[ -~]{0,20}").prop_map(|(ton, npi, text)| Address { ton, npi, text })
}

proptest! {
    /// Whatever octets come as a body: a field or a status, never a panic.
    #[test]
    fn any_octets_are_read(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Bind::read(&body);
        let _ = Submit::read(&body);
        let _ = Submit::read_data(&body);
        let _ = SubmitMulti::read(&body);
        let _ = Query::read(&body);
        let _ = Cancel::read(&body);
        let _ = Replace::read(&body);
        let _ = Deliver::read(&body);
        let _ = Alert::read(&body);
        let _ = Outbind::read(&body);
        let _ = response_message_id(&body);
        let _ = PeerReceipt::of(&body, &body);
        let _ = frame(&body);
        let _ = parse_time(&body);
    }

    /// A submit_sm with some of its octets changed: as above, nearer to what is right.
    #[test]
    fn changed_octets_are_read(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut body = b"\0\x01\x014900\0\x01\x01491700000001\0\0\0\0\0\0\x01\0\0\0\x05hello\x02\x0c\0\x02\0\x01".to_vec();
        for (place, octet) in changes {
            let place = place.index(body.len());
            body[place] = octet;
        }
        let _ = Submit::read(&body);
        let _ = Submit::read(&body[..cut.index(body.len())]);
    }

    #[test]
    fn a_message_that_is_written_is_read(
        (source, destination) in (address(), address()),
        service_type in "[A-Z]{0,5}",
        registered_delivery in 0..32u8,
        (data_coding, replaces) in (any::<u8>(), any::<bool>()),
        body in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let submit = Submit {
            service_type: service_type.clone(),
            source: source.clone(),
            destination: destination.clone(),
            esm_class: 0x40,
            protocol_id: 7,
            priority: 3,
            schedule: Time::None,
            validity: Time::None,
            registered_delivery,
            replaces,
            data_coding,
            body: body.clone(),
            tlvs: vec![0x14, 0, 0, 1, 9],
            segment: None,
        };
        let mut octets = Vec::new();
        submit.write(&mut octets, 5);
        prop_assert_eq!(Submit::read(body_of(&octets)), Ok(submit));
        let message = Deliver {
            service_type,
            source,
            destination,
            esm_class: 4,
            protocol_id: 1,
            priority: 2,
            registered_delivery: registered_delivery & 0x0c,
            data_coding,
            body,
            tlvs: vec![0x14, 0, 0, 1, 9],
        };
        let mut octets = Vec::new();
        deliver(&mut octets, 5, &message);
        prop_assert_eq!(Deliver::read(body_of(&octets)), Ok(message));
    }
}

/// What happened: a submit_multi that was refused only because its application was to submit less
/// was answered with ESME_RSUBMITFAIL, which clients take for good.
#[test]
fn a_submit_multi_that_may_come_again_is_told_so() {
    use Status::{DestinationAddress, QueueFull, SubmitFailed, Throttled};
    for (msg_id, refused, wanted) in [
        (0, &[Throttled, Throttled][..], Throttled),
        (0, &[QueueFull], QueueFull),
        (0, &[Throttled, DestinationAddress], SubmitFailed),
        (0, &[Throttled, QueueFull], SubmitFailed),
        (0, &[DestinationAddress], SubmitFailed),
        (7, &[Throttled], Status::Ok),
        (7, &[], Status::Ok),
    ] {
        let of = |&status: &Status| (Address { ton: 1, npi: 1, text: "49170".into() }, status as u32);
        let response = MultiResponse { msg_id, refused: refused.iter().map(of).collect() };
        let mut octets = Vec::new();
        response.write(&mut octets, 5);
        let Framing::Pdu(header) = frame(&octets) else { panic!("no PDU: {octets:?}") };
        assert_eq!((header.status, header.sequence), (wanted as u32, 5), "{refused:?}");
        assert_eq!(body_of(&octets)[if msg_id == 0 { 1 } else { 2 }], refused.len() as u8);
    }
}

/// What happened: a NUL behind the text, which sm_length does not count, was taken for the start of
/// an optional parameter. All that php-smpp submits as it comes was refused,
/// ESME_RINVOPTPARSTREAM, and so was what centres brought that do the same.
#[test]
fn a_text_may_have_a_nul_behind_it() {
    let read = |rest: &[u8]| {
        let before = &b"\0\x01\x0149170\0\x01\x014900\0\x04\0\0\0\0\0\0\0\0"[..];
        Deliver::read(&[before, rest].concat()).map(|message| (message.body, message.tlvs.len()))
    };
    assert_eq!(read(b"\x02hi"), Ok((b"hi".to_vec(), 0)));
    assert_eq!(read(b"\x02hi\0"), Ok((b"hi".to_vec(), 0)));
    assert_eq!(read(b"\x02hi\0\x02\x04\0\x02\0\x07"), Ok((b"hi".to_vec(), 6)));
    assert_eq!(read(b"\0\0\x04\x24\0\x02hi"), Ok((b"hi".to_vec(), 0)));
    // A parameter whose tag begins with a NUL is one.
    assert_eq!(read(b"\x02hi\0\x05\0\x01\x07"), Ok((b"hi".to_vec(), 5)));
    assert_eq!(read(b"\x02hi\0\0"), Err(Status::OptionalStream));
    assert_eq!(read(b"\x02hi\x04"), Err(Status::OptionalStream));
}

/// What happened: SMPP 5.0 has message_payload in replace_sm. A text that came in it was left out,
/// and the message became an empty one, ESME_ROK.
#[test]
fn a_new_text_may_be_a_payload() {
    let before = &b"7\0\x01\x014900\0\0\0\x01\0"[..];
    let read = |rest: &[u8]| Replace::read(&[before, rest].concat()).map(|replace| replace.body);
    assert_eq!(read(b"\x02hi"), Ok(b"hi".to_vec()));
    assert_eq!(read(b"\0\x04\x24\0\x02hi"), Ok(b"hi".to_vec()));
    assert_eq!(read(b"\x02hi\x04\x24\0\x02ho"), Err(Status::OptionalNotAllowed));
    assert_eq!(read(b"\x02hi\x04\x24\0\x02h"), Err(Status::OptionalStream));
}

/// A deliver_sm with a type of number or a plan that is reserved was refused, and the receipt that
/// it was, with it: its message ended as UNKNOWN.
#[test]
fn what_a_centre_sends_may_have_addresses_of_reserved_kinds() {
    let tail = b"\x04\0\0\0\0\0\0\0\0\x01x";
    let body = [&b"\0\x09\x01abc\0\x01\x6312\0"[..], tail].concat();
    let read = Deliver::read(&body).unwrap();
    assert_eq!(read.source, Address { ton: 0, npi: 1, text: "abc".into() });
    assert_eq!(read.destination, Address { ton: 1, npi: 0, text: "12".into() });
    assert_eq!((read.esm_class, read.body.as_slice()), (4, &b"x"[..]));
    let read = Deliver::read_data(b"\0\xff\xff1\0\x07\x022\0\x04\0\0").unwrap();
    assert_eq!((read.source.ton, read.source.npi, read.destination.ton, read.destination.npi), (0, 0, 0, 0));
    let alert = Alert::read(b"\x09\x011\0\x01\x632\0").unwrap();
    assert_eq!((alert.source.ton, alert.esme.ton, alert.esme.npi), (0, 1, 0));
    // What an application submits is as strict as ever.
    assert_eq!(Submit::read(&body), Err(Status::SourceTon));
}
