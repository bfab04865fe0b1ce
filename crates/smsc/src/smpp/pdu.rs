//! Bodies: what an application sends is read, what a centre sends is written.

use super::reader::Reader;
use super::{Command, HEADER_OCTETS, Status, Time, Tlvs, format_time, parse_time, tag, write_tlv};

/// An address with its type of number and numbering plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Type of number.
    pub ton: u8,
    /// Numbering plan.
    pub npi: u8,
    /// Digits, or letters.
    pub text: String,
}

/// Octets of an address at most, its NUL included; in data_sm more may come, and none is longer.
pub(super) const ADDRESS_MAX: usize = 21;
/// The same in data_sm (SMPP 3.4 §4.7.1).
pub(super) const LONG_ADDRESS_MAX: usize = 65;

/// Types of number of SMPP 3.4 §5.2.5.
fn is_type(ton: u8) -> bool {
    ton <= 6
}

/// Numbering plans of SMPP 3.4 §5.2.6.
fn is_plan(npi: u8) -> bool {
    matches!(npi, 0 | 1 | 3 | 4 | 6 | 8 | 9 | 10 | 14 | 18)
}

impl Address {
    fn read(reader: &mut Reader<'_>, max: usize, wrong: [Status; 3]) -> Result<Address, Status> {
        let (ton, npi) = (reader.octet()?, reader.octet()?);
        let text = reader.ascii(max, wrong[2])?;
        if !is_type(ton) {
            return Err(wrong[0]);
        }
        if !is_plan(npi) {
            return Err(wrong[1]);
        }
        if text.len() >= ADDRESS_MAX {
            return Err(wrong[2]);
        }
        Ok(Address { ton, npi, text })
    }

    /// An address as another centre sends it. A type of number or a plan that is reserved counts as
    /// unknown: who refused it would lose the receipt beside it.
    pub(super) fn of_centre(reader: &mut Reader<'_>, max: usize, wrong: Status) -> Result<Address, Status> {
        let (ton, npi) = (reader.octet()?, reader.octet()?);
        let text = reader.ascii(max, wrong)?;
        if text.len() >= ADDRESS_MAX {
            return Err(wrong);
        }
        let ton = if is_type(ton) { ton } else { 0 };
        let npi = if is_plan(npi) { npi } else { 0 };
        Ok(Address { ton, npi, text })
    }

    pub(super) fn source(reader: &mut Reader<'_>, max: usize) -> Result<Address, Status> {
        Address::read(reader, max, [Status::SourceTon, Status::SourceNpi, Status::SourceAddress])
    }

    pub(super) fn destination(reader: &mut Reader<'_>, max: usize) -> Result<Address, Status> {
        Address::read(
            reader,
            max,
            [Status::DestinationTon, Status::DestinationNpi, Status::DestinationAddress],
        )
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.ton, self.npi]);
        text(out, &self.text);
    }
}

/// Which way messages go in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindKind {
    /// From the application.
    Transmitter,
    /// To it.
    Receiver,
    /// Both.
    Transceiver,
}

impl BindKind {
    /// What an operation binds as; none if it is no bind.
    #[must_use]
    pub fn of(command: Command) -> Option<BindKind> {
        match command {
            Command::BindTransmitter => Some(BindKind::Transmitter),
            Command::BindReceiver => Some(BindKind::Receiver),
            Command::BindTransceiver => Some(BindKind::Transceiver),
            _ => None,
        }
    }

    /// Whether the application may submit.
    #[must_use]
    pub fn submits(self) -> bool {
        self != BindKind::Receiver
    }

    /// Whether it takes deliveries.
    #[must_use]
    pub fn receives(self) -> bool {
        self != BindKind::Transmitter
    }
}

/// bind_transmitter, bind_receiver, bind_transceiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Who.
    pub system_id: String,
    /// Password.
    pub password: String,
    /// Kind of application.
    pub system_type: String,
    /// Version of SMPP, 0x34 for 3.4.
    pub interface_version: u8,
}

impl Bind {
    /// Whether who binds takes optional parameters: those of versions before 3.4 do not, and must
    /// not be sent any (SMPP 3.4 §3.4, §5.2.4).
    #[must_use]
    pub fn takes_parameters(&self) -> bool {
        self.interface_version >= 0x34
    }

    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Bind, Status> {
        let mut reader = Reader(body);
        let bind = Bind {
            system_id: reader.ascii(16, Status::SystemId)?,
            password: reader.ascii(9, Status::Password)?,
            system_type: reader.ascii(13, Status::SystemType)?,
            interface_version: reader.octet()?,
        };
        reader.octets(2)?;
        reader.text(41, Status::BindFailed)?;
        Tlvs::new(reader.0)?;
        Ok(bind)
    }
}

/// A message that an application submits: submit_sm, data_sm, and of submit_multi all but its
/// destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// service_type.
    pub service_type: String,
    /// Source.
    pub source: Address,
    /// Destination.
    pub destination: Address,
    /// esm_class.
    pub esm_class: u8,
    /// protocol_id.
    pub protocol_id: u8,
    /// priority_flag, 0 to 3.
    pub priority: u8,
    /// When it is to be delivered.
    pub schedule: Time,
    /// How long it is valid.
    pub validity: Time,
    /// registered_delivery.
    pub registered_delivery: u8,
    /// Whether it replaces a message that waits.
    pub replaces: bool,
    /// data_coding.
    pub data_coding: u8,
    /// The body: short_message or message_payload.
    pub body: Vec<u8>,
    /// The other optional parameters, as they came.
    pub tlvs: Vec<u8>,
    /// sar_msg_ref_num, sar_total_segments, sar_segment_seqnum, where all three are there.
    pub segment: Option<(u16, u8, u8)>,
}

/// Message modes and types that a message may be submitted with (SMPP 3.4 §5.2.12).
fn check_esm_class(esm_class: u8) -> Result<u8, Status> {
    // Transaction mode answers after the delivery, which a store-and-forward centre does not.
    let is_mode = esm_class & 3 != 2;
    let is_type = matches!(esm_class & 0x3c, 0 | 0x08 | 0x10);
    if is_mode && is_type { Ok(esm_class) } else { Err(Status::EsmClass) }
}

fn check_registered(registered_delivery: u8) -> Result<u8, Status> {
    if registered_delivery & 0xe0 == 0 { Ok(registered_delivery) } else { Err(Status::RegisteredDelivery) }
}

fn time(reader: &mut Reader<'_>, wrong: Status) -> Result<Time, Status> {
    parse_time(reader.text(17, wrong)?).ok_or(wrong)
}

/// short_message with its length.
fn short_message<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Status> {
    let length = reader.octet()?;
    if length == 255 {
        return Err(Status::MessageLength);
    }
    // A body that ends within the message: its length is wrong, not that of the PDU, whose frame is
    // whole.
    reader.octets(length.into()).map_err(|_| Status::MessageLength)
}

impl Submit {
    /// Reads the body of a submit_sm.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Submit, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let source = Address::source(&mut reader, ADDRESS_MAX)?;
        let destination = Address::destination(&mut reader, ADDRESS_MAX)?;
        Submit::rest(&mut reader, service_type, source, destination)
    }

    /// What follows the destinations.
    fn rest(
        reader: &mut Reader<'_>,
        service_type: String,
        source: Address,
        destination: Address,
    ) -> Result<Submit, Status> {
        let esm_class = check_esm_class(reader.octet()?)?;
        let protocol_id = reader.octet()?;
        let priority = reader.octet()?;
        if priority > 3 {
            return Err(Status::PriorityFlag);
        }
        let schedule = time(reader, Status::ScheduleTime)?;
        let validity = time(reader, Status::Validity)?;
        let registered_delivery = check_registered(reader.octet()?)?;
        let replaces = match reader.octet()? {
            0 => false,
            1 => true,
            _ => return Err(Status::ReplaceFlag),
        };
        let data_coding = reader.octet()?;
        // There are no messages that the centre keeps ready.
        if reader.octet()? != 0 {
            return Err(Status::DefaultMessage);
        }
        let short = short_message(reader)?;
        let tlvs = Tlvs::behind_text(reader.0)?;
        let body = match tlvs.find(tag::MESSAGE_PAYLOAD) {
            Some(_) if !short.is_empty() => return Err(Status::OptionalNotAllowed),
            Some(payload) => payload,
            None => short,
        };
        Ok(Submit {
            service_type,
            source,
            destination,
            esm_class,
            protocol_id,
            priority,
            schedule,
            validity: live(tlvs, validity)?,
            registered_delivery,
            replaces,
            data_coding,
            body: body.to_vec(),
            tlvs: tlvs.without(tag::MESSAGE_PAYLOAD),
            segment: segment(tlvs)?,
        })
    }

    /// Reads the body of a data_sm.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read_data(body: &[u8]) -> Result<Submit, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let source = Address::source(&mut reader, LONG_ADDRESS_MAX)?;
        let destination = Address::destination(&mut reader, LONG_ADDRESS_MAX)?;
        let esm_class = check_esm_class(reader.octet()?)?;
        let registered_delivery = check_registered(reader.octet()?)?;
        let data_coding = reader.octet()?;
        let tlvs = Tlvs::new(reader.0)?;
        Ok(Submit {
            service_type,
            source,
            destination,
            esm_class,
            protocol_id: 0,
            priority: 0,
            schedule: Time::None,
            validity: live(tlvs, Time::None)?,
            registered_delivery,
            replaces: false,
            data_coding,
            body: tlvs.find(tag::MESSAGE_PAYLOAD).ok_or(Status::OptionalMissing)?.to_vec(),
            tlvs: tlvs.without(tag::MESSAGE_PAYLOAD),
            segment: segment(tlvs)?,
        })
    }
}

/// qos_time_to_live goes before validity_period.
fn live(tlvs: Tlvs<'_>, validity: Time) -> Result<Time, Status> {
    let seconds = tlvs.number(tag::QOS_TIME_TO_LIVE, 4)?;
    Ok(seconds.map_or(validity, |seconds| Time::Relative(i64::from(seconds) * 1_000_000)))
}

/// The part of a concatenated message that a message is. One of the three parameters without the
/// others is to be ignored (SMPP 3.4 §5.3.2.22 to §5.3.2.24).
fn segment(tlvs: Tlvs<'_>) -> Result<Option<(u16, u8, u8)>, Status> {
    let reference = tlvs.number(tag::SAR_REFERENCE, 2)?;
    let (total, number) = (tlvs.number(tag::SAR_TOTAL, 1)?, tlvs.number(tag::SAR_NUMBER, 1)?);
    match (reference, total, number) {
        (Some(reference), Some(total), Some(number)) if number >= 1 && number <= total => {
            // They came in two octets, one and one.
            Ok(Some((reference as u16, total as u8, number as u8)))
        }
        (Some(_), Some(_), Some(_)) => Err(Status::OptionalValue),
        _ => Ok(None),
    }
}

/// A destination of submit_multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address.
    Address(Address),
    /// A distribution list, of which this centre has none.
    List(String),
}

/// submit_multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitMulti {
    /// Where to, 1 to 254.
    pub destinations: Vec<Destination>,
    /// All else; its destination is empty.
    pub submit: Submit,
}

impl SubmitMulti {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<SubmitMulti, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let source = Address::source(&mut reader, ADDRESS_MAX)?;
        let count = reader.octet()?;
        if !(1..=254).contains(&count) {
            return Err(Status::NumberOfDestinations);
        }
        let mut destinations = Vec::with_capacity(count.into());
        for _ in 0..count {
            destinations.push(match reader.octet()? {
                1 => Destination::Address(Address::destination(&mut reader, ADDRESS_MAX)?),
                2 => Destination::List(reader.ascii(21, Status::DistributionList)?),
                _ => return Err(Status::DestinationFlag),
            });
        }
        let submit = Submit::rest(&mut reader, service_type, source, Address::default())?;
        Ok(SubmitMulti { destinations, submit })
    }
}

/// query_sm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The message's number.
    pub msg_id: i64,
    /// Its source.
    pub source: Address,
}

/// The number that a message_id stands for; none for one that no message can have.
fn message_id(text: &str) -> Option<i64> {
    text.parse().ok().filter(|&id| id > 0 && text.bytes().all(|digit| digit.is_ascii_digit()))
}

impl Query {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Query, Status> {
        let mut reader = Reader(body);
        let text = reader.ascii(65, Status::MessageId)?;
        let source = Address::source(&mut reader, ADDRESS_MAX)?;
        Ok(Query { msg_id: message_id(&text).ok_or(Status::MessageId)?, source })
    }
}

/// cancel_sm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Without a number: those of this service_type alone, or of all if it is empty.
    pub service_type: String,
    /// The message's number; none for all between two addresses.
    pub msg_id: Option<i64>,
    /// Source.
    pub source: Address,
    /// Destination.
    pub destination: Address,
}

impl Cancel {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Cancel, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let text = reader.ascii(65, Status::MessageId)?;
        let source = Address::source(&mut reader, ADDRESS_MAX)?;
        let destination = Address::destination(&mut reader, ADDRESS_MAX)?;
        let msg_id = match text.as_str() {
            "" => None,
            text => Some(message_id(text).ok_or(Status::MessageId)?),
        };
        Ok(Cancel { service_type, msg_id, source, destination })
    }
}

/// replace_sm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// The message's number.
    pub msg_id: i64,
    /// Its source.
    pub source: Address,
    /// When it is to be delivered, which cannot be changed.
    pub schedule: Time,
    /// The new end of validity.
    pub validity: Time,
    /// registered_delivery.
    pub registered_delivery: u8,
    /// The new body.
    pub body: Vec<u8>,
}

impl Replace {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Replace, Status> {
        let mut reader = Reader(body);
        let text = reader.ascii(65, Status::MessageId)?;
        let source = Address::source(&mut reader, ADDRESS_MAX)?;
        let schedule = time(&mut reader, Status::ScheduleTime)?;
        let validity = time(&mut reader, Status::Validity)?;
        let registered_delivery = check_registered(reader.octet()?)?;
        if reader.octet()? != 0 {
            return Err(Status::DefaultMessage);
        }
        let short = short_message(&mut reader)?;
        // SMPP 3.4 has no optional parameters here, and 5.0 has this one, for a long text.
        let body = match Tlvs::behind_text(reader.0)?.find(tag::MESSAGE_PAYLOAD) {
            Some(_) if !short.is_empty() => return Err(Status::OptionalNotAllowed),
            Some(payload) => payload,
            None => short,
        };
        let msg_id = message_id(&text).ok_or(Status::MessageId)?;
        let body = body.to_vec();
        Ok(Replace { msg_id, source, schedule, validity, registered_delivery, body })
    }
}

/// Appends a PDU; `body` writes what follows the header.
pub fn pdu(out: &mut Vec<u8>, command: u32, status: Status, sequence: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    for word in [command, status as u32, sequence] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    body(out);
    debug_assert!(out.len() - begin >= HEADER_OCTETS, "a header is written first");
    // Bodies are those of messages, far below 4 GiB.
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

/// A C-Octet String of text without NUL.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|&octet| octet != 0));
    out.push(0);
}

/// Appends a bind's answer: where it is `Ok` with the centre's name, and its version of SMPP for
/// whoever takes optional parameters.
pub fn bind_response(
    out: &mut Vec<u8>,
    to: Command,
    status: Status,
    sequence: u32,
    (system_id, takes_parameters): (&str, bool),
) {
    pdu(out, to.response() as u32, status, sequence, |out| {
        if status == Status::Ok {
            text(out, system_id);
            if takes_parameters {
                write_tlv(out, tag::SC_INTERFACE_VERSION, &[0x34]);
            }
        }
    });
}

/// Appends the answer to submit_sm and data_sm. A refused submit_sm has no body (SMPP 3.4 §4.4.2);
/// a refused data_sm has an empty message_id, and parameters that say why (§4.7.2).
pub fn message_response(out: &mut Vec<u8>, to: Command, sequence: u32, accepted: Result<i64, Status>) {
    match accepted {
        Ok(msg_id) => {
            pdu(out, to.response() as u32, Status::Ok, sequence, |out| text(out, &msg_id.to_string()))
        }
        Err(status) if to == Command::DataSm => {
            pdu(out, to.response() as u32, status, sequence, |out| {
                out.push(0);
                if let Some(reason) = delivery_failure(status) {
                    write_tlv(out, tag::DELIVERY_FAILURE, &[reason]);
                }
                write_tlv(out, tag::ADDITIONAL_STATUS, &[status.name().as_bytes(), b"\0"].concat());
            });
        }
        Err(status) => pdu(out, to.response() as u32, status, sequence, |_| ()),
    }
}

/// delivery_failure_reason of a status (SMPP 3.4 §5.3.2.33): 1 for an address that is none, 3 for
/// what may be different later.
fn delivery_failure(status: Status) -> Option<u8> {
    match status {
        Status::DestinationAddress | Status::DestinationTon | Status::DestinationNpi => Some(1),
        Status::QueueFull | Status::Throttled | Status::SystemError => Some(3),
        _ => None,
    }
}

/// The answer to submit_multi.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiResponse {
    /// Number of the first message that was accepted; 0 for none.
    pub msg_id: i64,
    /// Addresses for which none was, and why.
    pub refused: Vec<(Address, u32)>,
}

impl MultiResponse {
    /// What is told of the whole. Where none was accepted, and for now only, it says so as the
    /// answer to a submit_sm does: who looks no further tries again.
    fn status(&self) -> Status {
        if self.msg_id != 0 {
            return Status::Ok;
        }
        let is_all = |status: &Status| {
            !self.refused.is_empty() && self.refused.iter().all(|refused| refused.1 == *status as u32)
        };
        [Status::Throttled, Status::QueueFull].into_iter().find(is_all).unwrap_or(Status::SubmitFailed)
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>, sequence: u32) {
        pdu(out, Command::SubmitMultiResp as u32, self.status(), sequence, |out| {
            text(out, &if self.msg_id == 0 { String::new() } else { self.msg_id.to_string() });
            // Of 254 destinations.
            out.push(self.refused.len() as u8);
            for (address, status) in &self.refused {
                address.write(out);
                out.extend_from_slice(&status.to_be_bytes());
            }
        });
    }
}

/// Appends the answer to query_sm.
pub fn query_response(out: &mut Vec<u8>, sequence: u32, msg_id: i64, final_date: &str, state: u8, error: u8) {
    pdu(out, Command::QuerySmResp as u32, Status::Ok, sequence, |out| {
        text(out, &msg_id.to_string());
        text(out, final_date);
        out.extend_from_slice(&[state, error]);
    });
}

/// A message for an application: deliver_sm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deliver {
    /// service_type.
    pub service_type: String,
    /// Source.
    pub source: Address,
    /// Destination.
    pub destination: Address,
    /// esm_class.
    pub esm_class: u8,
    /// protocol_id.
    pub protocol_id: u8,
    /// priority_flag.
    pub priority: u8,
    /// registered_delivery: which acknowledgements of the application its sender asks for.
    pub registered_delivery: u8,
    /// data_coding.
    pub data_coding: u8,
    /// The body; one of more than 254 octets goes into message_payload.
    pub body: Vec<u8>,
    /// Optional parameters, as they are to be sent.
    pub tlvs: Vec<u8>,
}

impl Deliver {
    /// Reads a body, as an application does.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Deliver, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let source = Address::of_centre(&mut reader, ADDRESS_MAX, Status::SourceAddress)?;
        let destination = Address::of_centre(&mut reader, ADDRESS_MAX, Status::DestinationAddress)?;
        let [esm_class, protocol_id, priority] = [reader.octet()?, reader.octet()?, reader.octet()?];
        reader.text(17, Status::ScheduleTime)?;
        reader.text(17, Status::Validity)?;
        let registered_delivery = reader.octet()?;
        reader.octet()?;
        let data_coding = reader.octet()?;
        reader.octet()?;
        let short = short_message(&mut reader)?;
        let tlvs = Tlvs::behind_text(reader.0)?;
        Ok(Deliver {
            service_type,
            source,
            destination,
            esm_class,
            protocol_id,
            priority,
            registered_delivery,
            data_coding,
            body: tlvs.find(tag::MESSAGE_PAYLOAD).unwrap_or(short).to_vec(),
            tlvs: tlvs.without(tag::MESSAGE_PAYLOAD),
        })
    }
}

impl Deliver {
    /// Reads the body of a data_sm, as an application does.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read_data(body: &[u8]) -> Result<Deliver, Status> {
        let mut reader = Reader(body);
        let service_type = reader.ascii(6, Status::ServiceType)?;
        let source = Address::of_centre(&mut reader, LONG_ADDRESS_MAX, Status::SourceAddress)?;
        let destination = Address::of_centre(&mut reader, LONG_ADDRESS_MAX, Status::DestinationAddress)?;
        let [esm_class, registered_delivery, data_coding] =
            [reader.octet()?, reader.octet()?, reader.octet()?];
        let tlvs = Tlvs::new(reader.0)?;
        Ok(Deliver {
            service_type,
            source,
            destination,
            esm_class,
            protocol_id: 0,
            priority: 0,
            registered_delivery,
            data_coding,
            // A receipt may be in its parameters alone.
            body: tlvs.find(tag::MESSAGE_PAYLOAD).unwrap_or_default().to_vec(),
            tlvs: tlvs.without(tag::MESSAGE_PAYLOAD),
        })
    }
}

/// Appends sm_length and short_message; a body that is too long for these goes into
/// message_payload.
fn write_body(out: &mut Vec<u8>, body: &[u8]) {
    let is_short = body.len() <= 254;
    let short = if is_short { body } else { &[] };
    // At most 254.
    out.push(short.len() as u8);
    out.extend_from_slice(short);
    if !is_short {
        write_tlv(out, tag::MESSAGE_PAYLOAD, body);
    }
}

/// Appends a deliver_sm.
pub fn deliver(out: &mut Vec<u8>, sequence: u32, message: &Deliver) {
    pdu(out, Command::DeliverSm as u32, Status::Ok, sequence, |out| {
        text(out, &message.service_type);
        message.source.write(out);
        message.destination.write(out);
        out.extend_from_slice(&[message.esm_class, message.protocol_id, message.priority, 0, 0]);
        out.extend_from_slice(&[message.registered_delivery, 0, message.data_coding, 0]);
        write_body(out, &message.body);
        out.extend_from_slice(&message.tlvs);
    });
}

/// A time as a C-Octet String.
fn write_time(out: &mut Vec<u8>, time: Time) {
    // A relative time is written by whoever knows when it counts from.
    text(out, &if let Time::Absolute(us) = time { format_time(us) } else { String::new() });
}

impl Submit {
    /// Appends a submit_sm, as an application does.
    pub fn write(&self, out: &mut Vec<u8>, sequence: u32) {
        pdu(out, Command::SubmitSm as u32, Status::Ok, sequence, |out| {
            text(out, &self.service_type);
            self.source.write(out);
            self.destination.write(out);
            out.extend_from_slice(&[self.esm_class, self.protocol_id, self.priority]);
            write_time(out, self.schedule);
            write_time(out, self.validity);
            out.extend_from_slice(&[self.registered_delivery, self.replaces.into(), self.data_coding, 0]);
            write_body(out, &self.body);
            out.extend_from_slice(&self.tlvs);
        });
    }
}

impl Bind {
    /// Appends a bind of a kind, as an application does.
    pub fn write(&self, out: &mut Vec<u8>, command: Command, sequence: u32) {
        pdu(out, command as u32, Status::Ok, sequence, |out| {
            text(out, &self.system_id);
            text(out, &self.password);
            text(out, &self.system_type);
            out.extend_from_slice(&[self.interface_version, 0, 0, 0]);
        });
    }
}
