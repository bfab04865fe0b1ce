//! Query, cancel and replace: what an application may do with a message that it has submitted.

use super::finish::{finish, finish_scheduled};
use super::outcome::Outcome;
use super::receipt::receipt;
use super::refusal::Refusal;
use super::rows::{drop_parts, encode, message, named, primary, queued, scheduled, station};
use super::rules::Rules;
use super::status::Status;
use crate::model::{Message, Queued, Scheduled, State, Station, StationKey, StationState, Value};
use crate::transaction::{StoreError, Transaction};

/// What replace_sm gives a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Whose the message must be.
    pub account: u32,
    /// Which.
    pub msg_id: i64,
    /// The new body.
    pub body: Vec<u8>,
    /// The new end of validity, µs; `None` keeps it.
    pub expire_us: Option<i64>,
    /// The new registered_delivery.
    pub registered_delivery: u8,
    /// How the new body is to be read, if it is not as the old one was: replace_sm does not say it,
    /// a submission that replaces a message does.
    pub form: Option<Form>,
}

/// What a submission says about its body, besides who is to get it and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// esm_class.
    pub esm_class: u8,
    /// protocol_id.
    pub protocol_id: u8,
    /// data_coding.
    pub data_coding: u8,
    /// Optional parameters.
    pub tlvs: Vec<u8>,
}

impl Replacement {
    /// Gives `message` what is new.
    pub(crate) fn give(&self, message: &mut Message) {
        message.body.clone_from(&self.body);
        message.registered_delivery = self.registered_delivery;
        message.expire_us = self.expire_us.unwrap_or(message.expire_us);
        if let Some(form) = &self.form {
            message.esm_class = form.esm_class;
            message.protocol_id = form.protocol_id;
            message.data_coding = form.data_coding;
            message.tlvs.clone_from(&form.tlvs);
        }
    }
}

/// The account's message of this number, with its station locked; not a receipt.
fn own(tx: &mut impl Transaction, account: u32, msg_id: i64) -> Result<Option<Message>, StoreError> {
    let Some(dst_key) = message(tx, msg_id)?.map(|message| message.dst_key) else { return Ok(None) };
    tx.lock(dst_key)?;
    Ok(message(tx, msg_id)?.filter(|message| message.account == account && message.receipt_of == 0))
}

/// As [`own`], with its station, if it can still be changed.
fn changeable(
    tx: &mut impl Transaction,
    account: u32,
    msg_id: i64,
) -> Result<Result<(Message, Station), Refusal>, StoreError> {
    let Some(message) = own(tx, account, msg_id)? else { return Ok(Err(Refusal::NoSuchMessage)) };
    if message.state.is_final() {
        return Ok(Err(Refusal::Final));
    }
    let station = station(tx, message.dst_key)?;
    let in_flight = station.state == StationState::Busy && station.current == msg_id;
    // What a peer has cannot be called back.
    if in_flight || message.state == State::Forwarded {
        return Ok(Err(Refusal::InFlight));
    }
    Ok(Ok((message, station)))
}

pub(super) fn query(tx: &mut impl Transaction, account: u32, msg_id: i64) -> Result<Outcome, StoreError> {
    Ok(match own(tx, account, msg_id)? {
        Some(Message { state, done_us, last_error: error, .. }) => {
            Outcome::Status(Status { state, done_us, error })
        }
        None => Outcome::Refused(Refusal::NoSuchMessage),
    })
}

/// Whether a message is one of the account's from this address, and of this service_type where one
/// is named; receipts are nobody's.
pub(crate) fn is_named(message: &Message, account: u32, (src, service_type): (&str, Option<&str>)) -> bool {
    message.account == account
        && message.src == src
        && message.receipt_of == 0
        && service_type.is_none_or(|wanted| message.service_type == wanted)
}

pub(super) fn find(
    tx: &mut impl Transaction,
    account: u32,
    (src, service_type): (&str, Option<&str>),
    station: StationKey,
    max: usize,
) -> Result<Vec<i64>, StoreError> {
    // What is not final waits for its station or for its time: that is less to look through, and to
    // keep, than an index of all messages. The station's lock keeps both lists still.
    tx.lock(station)?;
    let key = [Value::Int(station.0)];
    let queued = tx.range::<Queued>(primary::<Queued>(), &key, &key, usize::MAX >> 1)?;
    let scheduled = tx.range::<Scheduled>(Scheduled::BY_STATION, &key, &key, usize::MAX >> 1)?;
    let waiting = queued.iter().map(|row| row.msg_id).chain(scheduled.iter().map(|row| row.msg_id));
    let mut waiting: Vec<i64> = waiting.collect();
    waiting.sort_unstable();
    let mut found = Vec::new();
    for msg_id in waiting {
        let message = named(tx, msg_id, "a queue")?;
        if is_named(&message, account, (src, service_type)) {
            found.push(msg_id);
            if found.len() == max {
                break;
            }
        }
    }
    Ok(found)
}

pub(super) fn cancel(
    tx: &mut impl Transaction,
    rules: &Rules,
    account: u32,
    msg_id: i64,
    now_us: i64,
) -> Result<Outcome, StoreError> {
    let (mut message, station) = match changeable(tx, account, msg_id)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let mut receipt = receipt(&message, State::Deleted, message.last_error, now_us);
    let receipt = receipt.as_deref_mut();
    if message.state == State::Scheduled {
        finish_scheduled(tx, rules, &mut message, State::Deleted, receipt, now_us)?;
    } else {
        finish(tx, rules, station, &mut message, State::Deleted, receipt, now_us)?;
    }
    Ok(Outcome::Count(1))
}

pub(super) fn replace(tx: &mut impl Transaction, with: &Replacement) -> Result<Outcome, StoreError> {
    let (mut message, _) = match changeable(tx, with.account, with.msg_id)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let old = message.clone();
    with.give(&mut message);
    // As of a submission.
    if message.expire_us <= message.submit_us.max(message.schedule_us) {
        return Ok(Outcome::Refused(Refusal::Expired));
    }
    let parts = match encode(&message) {
        Ok(parts) => parts,
        Err(error) => return Ok(Outcome::Refused(Refusal::Text(error))),
    };
    drop_parts(tx, &old)?;
    for part in &parts {
        tx.insert(part)?;
    }
    // At most 255.
    message.parts = parts.len() as u8;
    tx.put(&message)?;
    if message.state == State::Scheduled {
        tx.put(&scheduled(&message))?;
    } else {
        tx.delete::<Queued>(&[
            Value::Int(old.dst_key.0),
            Value::Int(old.rank().into()),
            Value::Int(old.msg_id),
        ])?;
        tx.insert(&queued(&message))?;
    }
    Ok(Outcome::Count(1))
}
