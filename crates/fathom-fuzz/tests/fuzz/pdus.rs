//! PDUs of SMPP, as `smsc serve` and its peers' sessions read them from a stream.

use fathom_fuzz::{Fuzz, Random, mutate};
use smsc::smpp::{
    Address, Alert, Bind, Cancel, Command, Deliver, Framing, HEADER_OCTETS, Header, Outbind, PeerReceipt,
    Query, Replace, Status, Submit, SubmitMulti, Time, Tlvs, deliver, frame, pdu, response_message_id,
};

/// Frames of a case; a marker stands behind each.
const FRAMES: u32 = 8;

fn submit() -> Submit {
    let address = |text: &str| Address { ton: 1, npi: 1, text: text.into() };
    Submit {
        service_type: "CMT".into(),
        source: address("4900"),
        destination: address("491700000001"),
        esm_class: 0x40,
        protocol_id: 1,
        priority: 2,
        schedule: Time::None,
        validity: Time::Absolute(1_800_000_000_000_000),
        registered_delivery: 0x11,
        replaces: true,
        data_coding: 8,
        body: b"\x05\0\x03\x07\x02\x01hello".to_vec(),
        tlvs: b"\x02\x0c\0\x02\0\x01\x02\x0e\0\x01\x02\x02\x0f\0\x01\x01\0\x17\0\x04\0\0\0\x3c".to_vec(),
        segment: Some((1, 2, 1)),
    }
}

/// A good PDU of each operation that has a body.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut seed = |fill: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        fill(&mut out);
        seeds.push(out);
    };
    let raw = |command: Command, body: &'static [u8]| {
        move |out: &mut Vec<u8>| {
            pdu(out, command as u32, Status::Ok, 5, |out| out.extend_from_slice(body));
        }
    };
    let bind = Bind {
        system_id: "app".into(),
        password: "secret".into(),
        system_type: "x".into(),
        interface_version: 0x34,
    };
    seed(&|out| bind.write(out, Command::BindTransceiver, 1));
    seed(&|out| submit().write(out, 2));
    let Submit { service_type, source, destination, body, tlvs, .. } = submit();
    let message = Deliver {
        service_type,
        source: source.clone(),
        destination: destination.clone(),
        esm_class: 4,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        body,
        tlvs,
    };
    seed(&|out| deliver(out, 3, &message));
    let receipt = Deliver {
        body: b"id:0012ab sub:001 dlvrd:001 submit date:2611250130 done date:2611250131 stat:DELIVRD err:007 text:x"
            .to_vec(),
        tlvs: b"\0\x1e\0\x0512ab\0\x04\x27\0\x01\x02\x04\x23\0\x03\x03\0\x07".to_vec(),
        ..message
    };
    seed(&|out| deliver(out, 4, &receipt));
    seed(&|out| {
        Alert { source: source.clone(), esme: destination.clone(), availability: Some(0) }.write(out, 5)
    });
    seed(&|out| Outbind { system_id: "smsc".into(), password: "x".into() }.write(out, 6));
    seed(&raw(Command::DataSm, b"\0\x01\x014900\0\x01\x01491700000003\0\0\0\0\x04\x24\0\x02hi"));
    seed(&raw(
        Command::SubmitMulti,
        b"\0\x01\x014900\0\x02\x01\x01\x01491700000002\0\x02list\0\0\0\0\0\0\0\0\0\0\x02hi",
    ));
    seed(&raw(Command::QuerySm, b"12\0\x01\x014900\0"));
    seed(&raw(Command::CancelSm, b"\x0012\0\x01\x014900\0\x01\x01491\0"));
    seed(&raw(Command::ReplaceSm, b"12\0\x01\x014900\0\x00000002610000000R\0\0\0\x02hi"));
    seed(&raw(Command::SubmitSmResp, b"0012ab\0"));
    seeds
}

/// Reads a body as whoever gets it does; what was read is written and read again.
fn read(header: Header, body: &[u8]) -> Result<(), String> {
    let Some(command) = Command::of(header.command) else { return Ok(()) };
    match command {
        Command::BindReceiver | Command::BindTransmitter | Command::BindTransceiver => {
            if let Ok(bind) = Bind::read(body) {
                let mut out = Vec::new();
                bind.write(&mut out, command, 1);
                if Bind::read(&out[HEADER_OCTETS..]).as_ref() != Ok(&bind) {
                    return Err(format!("another bind: {bind:?}"));
                }
            }
        }
        Command::SubmitSm => {
            if let Ok(submit) = Submit::read(body) {
                let mut out = Vec::new();
                submit.write(&mut out, 1);
                let is_relative = |time| matches!(time, Time::Relative(_));
                // A relative time is written by whoever knows when it counts from.
                let again = Submit::read(&out[HEADER_OCTETS..]);
                let plain = !is_relative(submit.schedule) && !is_relative(submit.validity);
                let is_same = again.as_ref().is_ok_and(|again| {
                    (&again.source, &again.destination, &again.body, &again.tlvs)
                        == (&submit.source, &submit.destination, &submit.body, &submit.tlvs)
                });
                if plain && !is_same {
                    return Err(format!("another message: {submit:?}, {again:?}"));
                }
            }
        }
        Command::DataSm => {
            let _ = Submit::read_data(body);
            let _ = Deliver::read_data(body);
        }
        Command::DeliverSm => {
            if let Ok(message) = Deliver::read(body) {
                let mut out = Vec::new();
                deliver(&mut out, 1, &message);
                let again = Deliver::read(&out[HEADER_OCTETS..]);
                if again.as_ref() != Ok(&message) {
                    return Err(format!("another message: {message:?}, {again:?}"));
                }
                if let Some(receipt) = PeerReceipt::of(&message.body, &message.tlvs)
                    && (receipt.message_id.is_empty() || receipt.message_id.len() > 192)
                {
                    return Err(format!("{receipt:?}"));
                }
                let _ = Tlvs::new(&message.tlvs).map(|tlvs| tlvs.iter().count());
            }
        }
        Command::SubmitMulti => {
            if let Ok(multi) = SubmitMulti::read(body)
                && !(1..=254).contains(&multi.destinations.len())
            {
                return Err(format!("{} destinations", multi.destinations.len()));
            }
        }
        Command::QuerySm => drop(Query::read(body)),
        Command::CancelSm => drop(Cancel::read(body)),
        Command::ReplaceSm => drop(Replace::read(body)),
        Command::AlertNotification => drop(Alert::read(body)),
        Command::Outbind => drop(Outbind::read(body)),
        Command::SubmitSmResp => drop(response_message_id(body)),
        _ => {}
    }
    Ok(())
}

/// A stream of frames whose bodies are damaged and whose lengths are right, a marker behind each.
fn stream(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for number in 0..FRAMES {
        let mut octets = random.pick(seeds).clone();
        let times = random.below(4);
        let mut body = octets.split_off(HEADER_OCTETS);
        mutate::bytes(random, &mut body, times, seeds);
        octets.extend_from_slice(&body);
        if random.below(8) == 0 {
            // Another operation, or none.
            octets[4..8].copy_from_slice(&(mutate::number(random) as u32).to_be_bytes());
        } else if random.below(8) == 0 {
            let other = random.pick(seeds)[4..8].to_vec();
            octets[4..8].copy_from_slice(&other);
        }
        let length = (octets.len() as u32).to_be_bytes();
        octets[..4].copy_from_slice(&length);
        stream.extend_from_slice(&octets);
        pdu(&mut stream, Command::EnquireLink as u32, Status::Ok, 0x5000_0000 + number, |_| ());
    }
    stream
}

/// Every frame is a field or a status, never a panic; whatever is in it, its neighbour is found.
#[test]
fn frames_are_read_and_their_neighbours_found() {
    let fuzz = Fuzz::new("pdus::frames_are_read_and_their_neighbours_found", 10_000).memory(1 << 20, 200);
    let seeds = seeds();
    fuzz.run(
        |random| {
            let stream = stream(random, &seeds);
            let length = stream.len();
            (stream, length)
        },
        |stream| {
            let (mut at, mut markers) = (0, 0);
            loop {
                match frame(&stream[at..]) {
                    Framing::Pdu(header) => {
                        let end = at + header.length as usize;
                        let is_marker = header.command == Command::EnquireLink as u32
                            && header.sequence == 0x5000_0000 + markers;
                        markers += u32::from(is_marker);
                        read(header, &stream[at + HEADER_OCTETS..end])?;
                        at = end;
                    }
                    Framing::Incomplete(_) if at == stream.len() => break,
                    other => return Err(format!("{other:?} at {at} of {}", stream.len())),
                }
            }
            if markers == FRAMES { Ok(()) } else { Err(format!("{markers} of {FRAMES} neighbours")) }
        },
    );
}

/// Whatever octets come, whole or in pieces, they are cut in one way, and never read beyond.
#[test]
fn any_octets_are_cut_in_one_way() {
    let fuzz = Fuzz::new("pdus::any_octets_are_cut_in_one_way", 10_000).memory(1 << 20, 200);
    let seeds = seeds();
    fuzz.run(
        |random| {
            let mut octets = stream(random, &seeds);
            let times = 1 + random.below(6);
            mutate::bytes(random, &mut octets, times, &seeds);
            let length = octets.len();
            (octets, length)
        },
        |octets| {
            let mut at = 0;
            while at < octets.len() {
                match frame(&octets[at..]) {
                    Framing::Pdu(header) => {
                        let end = at + header.length as usize;
                        // What is not there yet is waited for.
                        match frame(&octets[at..end - 1]) {
                            Framing::Incomplete(_) => {}
                            other => return Err(format!("{other:?} of a PDU that is cut off")),
                        }
                        read(header, &octets[at + HEADER_OCTETS..end])?;
                        at = end;
                    }
                    Framing::Incomplete(_) | Framing::TooLong(_) | Framing::Lost(_) => break,
                }
            }
            Ok(())
        },
    );
}
