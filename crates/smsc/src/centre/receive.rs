//! Receiver: a message and its parts are stored and queued, or scheduled.

use super::account::charge;
use super::outcome::Outcome;
use super::refusal::Refusal;
use super::rows::{encode, enqueue, scheduled, station};
use super::rules::Rules;
use crate::model::{
    AddressError, EncodedPart, Message, State, StationKey, StationState, shard_of, shard_of_peer,
};
use crate::text::{BODY_OCTETS_MAX, TextError};
use crate::transaction::{StoreError, Transaction};

/// A message that was checked and encoded, ready to be received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The message; its number is given when it is received.
    pub message: Message,
    /// Its parts.
    pub parts: Vec<EncodedPart>,
    /// The shard of the run queue in which its station waits.
    pub shard: u16,
}

/// A message that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionError {
    /// Its destination is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Its body cannot be sent.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A field is longer than SMPP allows.
    #[error("{field} has {octets} octets; at most {max} are allowed")]
    TooLong {
        /// Its name.
        field: &'static str,
        /// Its length.
        octets: usize,
        /// The longest.
        max: usize,
    },
    /// The message is over before it begins.
    #[error("the validity of the message ends before it is to be delivered")]
    Expired,
}

impl Submission {
    /// Checks `message`, finds its station and encodes its parts. Sets `dst_key`, `state` and
    /// `parts`.
    ///
    /// # Errors
    /// [`SubmissionError`]
    pub fn new(mut message: Message) -> Result<Submission, SubmissionError> {
        message.dst_key = StationKey::of_address(&message.dst)?;
        Submission::checked(message)
    }

    /// As [`Submission::new`], for a message to an application: it is queued for a lane of
    /// `account`, the same for all that come from one address.
    ///
    /// # Errors
    /// [`SubmissionError`]
    pub fn to_account(mut message: Message, account: u32) -> Result<Submission, SubmissionError> {
        message.dst_key = StationKey::of_source(account, &message.src);
        Submission::checked(message)
    }

    fn checked(mut message: Message) -> Result<Submission, SubmissionError> {
        let fields = [
            ("source_addr", message.src.len(), 21),
            ("service_type", message.service_type.len(), 6),
            ("optional parameters", message.tlvs.len(), 4096),
            ("the body", message.body.len(), BODY_OCTETS_MAX),
        ];
        if let Some(&(field, octets, max)) = fields.iter().find(|field| field.1 > field.2) {
            return Err(SubmissionError::TooLong { field, octets, max });
        }
        let begin_us = message.submit_us.max(message.schedule_us);
        if message.expire_us <= begin_us {
            return Err(SubmissionError::Expired);
        }
        let scheduled = message.schedule_us > message.submit_us;
        message.state = if scheduled { State::Scheduled } else { State::Enroute };
        let parts = encode(&message)?;
        // At most 255 (`TextError::TooManyParts`).
        message.parts = parts.len() as u8;
        let shard = shard_of(message.dst_key);
        Ok(Submission { message, parts, shard })
    }

    /// As it is, through a peer.
    #[must_use]
    pub fn through_peer(self, number: u16) -> Submission {
        Submission { shard: shard_of_peer(number), ..self }
    }
}

pub(super) fn receive(
    tx: &mut impl Transaction,
    rules: &Rules,
    submission: &mut Submission,
) -> Result<Outcome, StoreError> {
    let Submission { message, parts, shard } = submission;
    tx.lock(message.dst_key)?;
    let mut station = station(tx, message.dst_key)?;
    if station.queue >= rules.queue_max {
        return Ok(Outcome::Refused(Refusal::QueueFull));
    }
    if let Some(refusal) = charge(tx, rules, message.account, message.submit_us)? {
        return Ok(Outcome::Refused(refusal));
    }
    message.msg_id = tx.next_id()?;
    tx.insert(message)?;
    for part in parts {
        part.msg_id = message.msg_id;
        tx.insert(part)?;
    }
    if message.state == State::Scheduled {
        tx.insert(&scheduled(message))?;
    } else {
        // What is queued before it has chosen already.
        if station.state == StationState::Idle {
            station.shard = *shard;
        }
        enqueue(tx, station, message, message.submit_us)?;
    }
    Ok(Outcome::Received(message.msg_id))
}
