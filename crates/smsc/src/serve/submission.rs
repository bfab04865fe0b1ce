//! From what an application sends to what the centre stores.

use super::front::Front;
use super::log::Level;
use super::route::Target;
use crate::centre::{Refusal, Submission, SubmissionError};
use crate::model::{Message, SHARDS};
use crate::smpp::{Address, Status, Submit, tag};
use crate::text::{Coding, ESM_UDHI, TextError, decode_septets};

/// The longest time that a message may wait, µs: ten years.
const FAR_US: i64 = 315_360_000_000_000;

/// The message of an account, ready to be received.
///
/// # Errors
/// The status to answer with.
pub(super) fn submission(
    front: &Front,
    account: u32,
    submit: Submit,
    now_us: i64,
) -> Result<Submission, Status> {
    // Whoever is told so may try again, which is more than one knows whose message waits.
    if front.silence().is_some() {
        front.metrics.store_silent.add(1);
        return Err(Status::Throttled);
    }
    let schedule_us = submit.schedule.at(now_us).unwrap_or(0);
    if schedule_us > now_us.saturating_add(FAR_US) {
        return Err(Status::ScheduleTime);
    }
    let begin_us = now_us.max(schedule_us);
    let expire_us = match submit.validity.at(now_us) {
        Some(us) => us.min(now_us.saturating_add(FAR_US)),
        None => begin_us.saturating_add(front.validity_us()),
    };
    let line = front.log.at(Level::Debug, "submit").number("account", account.into());
    let line = line.text("from", &submit.source.text).text("to", &submit.destination.text);
    let line = line.number("octets", submit.body.len() as i64);
    drop(if front.log.has_text() {
        line.text("text", &shown_text(submit.data_coding, submit.esm_class, &submit.body))
    } else {
        line
    });
    let digits = submit.destination.text.trim_start_matches('+').to_owned();
    let receiver = front.account_of_number(&digits);
    // What nobody fetches must not fill the memory: who has too much waiting gets no more, be it
    // messages of others or receipts of its own.
    let wants_receipt = submit.registered_delivery & 3 != 0;
    let waits_for = receiver.into_iter().chain(wants_receipt.then_some(account));
    if waits_for.filter_map(|number| front.account(number)).any(|account| account.is_full()) {
        front.metrics.receipts_full.add(1);
        return Err(Status::QueueFull);
    }
    let is_mobile = receiver.is_none();
    let (mut esm_class, mut body) = (submit.esm_class, submit.body);
    // A mobile knows a part by its user data header only. It is the short one, with the low octet
    // of the reference: who cuts at 153 septets or 134 octets leaves no room for another, and all
    // parts of a message need the same. What is the only part needs none.
    if let Some((reference, total, number)) =
        submit.segment.filter(|segment| is_mobile && esm_class & ESM_UDHI == 0 && segment.1 > 1)
    {
        let [_, low] = reference.to_be_bytes();
        body.splice(0..0, [5, 0, 3, low, total, number]);
        esm_class |= ESM_UDHI;
    }
    let message = Message {
        account,
        src_ton: submit.source.ton,
        src_npi: submit.source.npi,
        dst_ton: submit.destination.ton,
        dst_npi: submit.destination.npi,
        service_type: submit.service_type,
        esm_class,
        protocol_id: submit.protocol_id,
        priority: submit.priority,
        registered_delivery: submit.registered_delivery,
        data_coding: submit.data_coding,
        schedule_us: if schedule_us > now_us { schedule_us } else { 0 },
        tlvs: submit.tlvs,
        ..Message::plain(submit.source.text, submit.destination.text, body, now_us, expire_us)
    };
    let submission = match receiver {
        None => Submission::new(message),
        Some(receiver) => Submission::to_account(message, receiver),
    };
    let submission = submission.map_err(|error| refused(&error))?;
    if is_mobile && let Target::Peer(number) = front.target(account, &digits) {
        if !front.centre.may_send_on(&submission.message.tlvs) {
            front.metrics.loops.add(1);
            return Err(Status::DestinationAddress);
        }
        return Ok(submission.through_peer(number));
    }
    Ok(submission)
}

/// Which way a submission goes.
pub(super) fn target_of(submission: &Submission) -> Target {
    match submission.shard.checked_sub(SHARDS) {
        Some(peer) => Target::Peer(peer + 1),
        None => Target::Network,
    }
}

/// Where a stored message comes from, as SMPP has it.
pub(super) fn source_of(message: &Message) -> Address {
    Address { ton: message.src_ton, npi: message.src_npi, text: message.src.clone() }
}

/// Where a stored message goes, as SMPP has it.
pub(super) fn destination_of(message: &Message) -> Address {
    Address { ton: message.dst_ton, npi: message.dst_npi, text: message.dst.clone() }
}

/// The status that tells what is wrong with a message.
fn refused(error: &SubmissionError) -> Status {
    match error {
        SubmissionError::Address(_) => Status::DestinationAddress,
        SubmissionError::Expired => Status::Validity,
        SubmissionError::TooLong { field: "source_addr", .. } => Status::SourceAddress,
        SubmissionError::TooLong { field: "service_type", .. } => Status::ServiceType,
        SubmissionError::TooLong { field: "optional parameters", .. } => Status::ParameterLength,
        SubmissionError::TooLong { .. } => Status::MessageLength,
        SubmissionError::Text(error) => text_status(error),
    }
}

fn text_status(error: &TextError) -> Status {
    match error {
        TextError::Header(_) => Status::EsmClass,
        TextError::OddUcs2(_) | TextError::TooManyParts(_) | TextError::HeaderTooLong(_) => {
            Status::MessageLength
        }
        _ => Status::SubmitFailed,
    }
}

/// The status of what the store refuses; `otherwise` for what has none of its own.
pub(super) fn refusal_status(refusal: &Refusal, otherwise: Status) -> Status {
    match refusal {
        Refusal::QueueFull => Status::QueueFull,
        Refusal::Throttled => Status::Throttled,
        Refusal::NoSuchAccount => Status::SystemId,
        Refusal::QuotaExceeded => Status::SubmitFailed,
        Refusal::Expired => Status::Validity,
        Refusal::Text(error) => text_status(error),
        Refusal::NoSuchMessage | Refusal::InFlight | Refusal::Final | Refusal::TooGreat { .. } => otherwise,
    }
}

/// The optional parameters of a receipt: its message, its state, its error (SMPP 3.4 §5.3.2).
pub(super) fn receipt_tlvs(receipt: &Message, out: &mut Vec<u8>) {
    use crate::smpp::write_tlv;
    let mut id = receipt.receipt_of.unsigned_abs().to_string().into_bytes();
    id.push(0);
    write_tlv(out, tag::RECEIPTED_MESSAGE_ID, &id);
    // The centre has written the receipt, so its words are where it puts them.
    let text = String::from_utf8_lossy(&receipt.body);
    let word = |name: &str| Some(text.split_once(name)?.1.split(' ').next().unwrap_or_default().to_owned());
    let state = match word(" stat:").as_deref() {
        Some("DELIVRD") => 2,
        Some("EXPIRED") => 3,
        Some("DELETED") => 4,
        Some("UNDELIV") => 5,
        Some("ENROUTE") => 1,
        Some("REJECTD") => 8,
        _ => 7,
    };
    write_tlv(out, tag::MESSAGE_STATE, &[state]);
    let error: u16 = word(" err:").and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let [high, low] = error.to_be_bytes();
    // 3: GSM, whose errors these are.
    write_tlv(out, tag::NETWORK_ERROR_CODE, &[3, high, low]);
}

/// What a body says, as far as it is text; else its octets. For whoever may see it.
pub(super) fn shown_text(data_coding: u8, esm_class: u8, body: &[u8]) -> String {
    let header =
        if esm_class & ESM_UDHI != 0 { body.first().map_or(0, |&length| usize::from(length) + 1) } else { 0 };
    let body = body.get(header..).unwrap_or_default();
    match Coding::of_data_coding(data_coding) {
        Some(Coding::Gsm7) => decode_septets(body),
        Some(Coding::Ascii | Coding::Latin1) => body.iter().map(|&octet| char::from(octet)).collect(),
        Some(Coding::Ucs2) => {
            let units: Vec<u16> =
                body.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        _ => body.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(" "),
    }
}
