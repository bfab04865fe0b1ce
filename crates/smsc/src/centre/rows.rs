//! Rows that several transactions read and write.

use crate::model::{
    EncodedPart, Message, Queued, Record, Scheduled, Station, StationKey, StationState, Value,
};
use crate::text::{Part, Reference, TextError, segment};
use crate::transaction::{StoreError, Transaction};

/// The parts of a message for a mobile. The reference follows from the time of submission, so that
/// parts made again after a restart are the same.
pub(crate) fn encode(message: &Message) -> Result<Vec<EncodedPart>, TextError> {
    if message.dst_key.account().is_some() {
        return Ok(Vec::new());
    }
    let reference = Reference::Eight((message.submit_us ^ message.submit_us >> 8) as u8);
    let parts = segment(&message.body, message.data_coding, message.esm_class, reference)?;
    let encoded = |(number, part): (u8, Part)| EncodedPart {
        msg_id: message.msg_id,
        part: number,
        alphabet: part.alphabet,
        has_header: part.has_header,
        user_data_length: part.user_data_length,
        octets: part.octets,
    };
    Ok((1..=u8::MAX).zip(parts).map(encoded).collect())
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
