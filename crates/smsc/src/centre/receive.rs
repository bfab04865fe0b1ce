//! Receiver: a message and its parts are stored and queued, or scheduled.

use super::account::charge;
use super::manage::Refusal;
use super::operation::{Outcome, Rules};
use crate::model::{
    AddressError, EncodedPart, Message, Queued, Record, Scheduled, State, Station, StationKey, StationState,
    Value, shard_of, shard_of_peer,
};
use crate::text::{BODY_OCTETS_MAX, Part, Reference, TextError, segment};
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

/// The parts of a message for a mobile. The reference follows from the time of submission, so that
/// parts made again after a restart are the same.
pub(crate) fn encode(message: &Message) -> Result<Vec<EncodedPart>, TextError> {
    if message.dst_key.account().is_some() {
        return Ok(Vec::new());
    }
    let reference = Reference::Eight((message.submit_us ^ message.submit_us >> 8) as u8);
    let parts = segment(&message.body, message.data_coding, message.esm_class, reference)?;
    let encoded = |(part, it): (u8, Part)| EncodedPart {
        msg_id: message.msg_id,
        part,
        alphabet: it.alphabet,
        has_header: it.has_header,
        user_data_length: it.user_data_length,
        octets: it.octets,
    };
    Ok((1..=u8::MAX).zip(parts).map(encoded).collect())
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

/// The row of a station, or that of a station without a queue.
pub(super) fn station(tx: &mut impl Transaction, key: StationKey) -> Result<Station, StoreError> {
    Ok(tx.get::<Station>(&[Value::Int(key.0)])?.unwrap_or_else(|| Station::idle(key)))
}

/// The row in `scheduled_msg` of a message that waits for its time.
pub(crate) fn scheduled(message: &Message) -> Scheduled {
    Scheduled { due_us: message.schedule_us, msg_id: message.msg_id, dst_key: message.dst_key }
}

/// The row in `to_delivery` of a message that waits for its station.
pub(crate) fn queued(message: &Message) -> Queued {
    Queued {
        dst_key: message.dst_key,
        rank: message.rank(),
        msg_id: message.msg_id,
        expire_us: message.expire_us,
    }
}

/// Puts a message into the queue of its station, which is locked.
pub(super) fn enqueue(
    tx: &mut impl Transaction,
    mut station: Station,
    message: &Message,
    now_us: i64,
) -> Result<(), StoreError> {
    tx.insert(&queued(message))?;
    if station.state == StationState::Idle {
        station.state = StationState::Ready;
        station.ready_us = now_us;
    }
    station.queue += 1;
    tx.put(&station)
}

/// The message of this number.
pub(super) fn message(tx: &mut impl Transaction, msg_id: i64) -> Result<Option<Message>, StoreError> {
    tx.get::<Message>(&[Value::Int(msg_id)])
}

/// The message of this number, which a row of another table names.
pub(super) fn named(tx: &mut impl Transaction, msg_id: i64, by: &str) -> Result<Message, StoreError> {
    message(tx, msg_id)?
        .ok_or_else(|| StoreError::inconsistent(format!("{by} names message {msg_id}, which does not exist")))
}

/// Stores what an attempt or an end has changed of a message.
pub(super) fn put_outcome(tx: &mut impl Transaction, message: &Message) -> Result<(), StoreError> {
    if tx.update::<Message>(&[Value::Int(message.msg_id)], &message.outcome())? {
        Ok(())
    } else {
        Err(StoreError::inconsistent(format!("message {} does not exist any more", message.msg_id)))
    }
}

/// Keys of the parts of a message.
pub(super) fn part_keys(message: &Message) -> impl Iterator<Item = [Value<'static>; 2]> + use<> {
    let msg_id = message.msg_id;
    (1..=message.parts).map(move |part| [Value::Int(msg_id), Value::Int(part.into())])
}

/// Deletes the parts of a message.
pub(super) fn drop_parts(tx: &mut impl Transaction, message: &Message) -> Result<(), StoreError> {
    for key in part_keys(message) {
        tx.delete::<EncodedPart>(&key)?;
    }
    Ok(())
}

/// The primary key of a queue, timer or `sent`.
pub(super) fn primary<R: Record>() -> &'static crate::model::Index {
    &R::TABLE.indexes[0]
}
