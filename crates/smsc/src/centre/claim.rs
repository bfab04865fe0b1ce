//! Sender, first half: a ready station becomes busy with the first message of its queue.

use super::rows::{named, part_keys, primary};
use super::rules::Rules;
use crate::model::{
    EncodedPart, MOBILE_SHARDS, Message, Queued, SHARDS, Station, StationKey, StationState, Value,
    shard_of_peer,
};
use crate::transaction::{StoreError, Transaction};

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where it goes.
    pub station: StationKey,
    /// Number of the claim: [`super::Completion::epoch`].
    pub epoch: i64,
    /// Temporary failures of the station since its last message went.
    pub attempts: u32,
    /// The message.
    pub message: Box<Message>,
    /// Its parts, for a mobile.
    pub parts: Vec<EncodedPart>,
}

/// Ready stations that are looked at besides those wanted: others may be taking the first ones just
/// now.
const SPARE: usize = 6;

/// Whose messages a claim puts in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Everybody's, mobiles and applications, beginning with this shard.
    All(u16),
    /// Those of mobiles, beginning with this shard.
    Mobiles(u16),
    /// Those that go through a peer, by its number.
    Peer(u16),
    /// Those of these stations, in this order: of an account, the lanes that have nothing in
    /// flight.
    Stations(Vec<StationKey>),
}

impl Channel {
    /// The first shard of the run queue that it goes through, and how many from 0 on it goes round;
    /// none for a peer, whose shard is apart, and for stations by name.
    #[must_use]
    pub fn shards(&self) -> (u16, u16) {
        match *self {
            Channel::All(first) => (first, SHARDS),
            Channel::Mobiles(first) => (first, MOBILE_SHARDS),
            Channel::Peer(_) | Channel::Stations(_) => (0, 0),
        }
    }
}

pub(super) fn claim(
    tx: &mut impl Transaction,
    rules: &Rules,
    (channel, spread): (&Channel, usize),
    max: usize,
    now_us: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let mut deliveries = Vec::new();
    if let Channel::Stations(stations) = channel {
        for &station in stations.iter() {
            deliveries.extend(take(tx, rules, station, now_us)?);
            if deliveries.len() == max {
                break;
            }
        }
        return Ok(deliveries);
    }
    let (first, round) = channel.shards();
    let shards = (0..round).map(|step| (first + step) % round);
    let of_peer = if let Channel::Peer(number) = *channel { Some(shard_of_peer(number)) } else { None };
    for shard in shards.chain(of_peer) {
        let shard = Value::Int(shard.into());
        let ready = Value::Int(StationState::Ready as i64);
        let limit = (max - deliveries.len()) + SPARE;
        // Read without a lock: a hint. The station's lock and a second look decide.
        let mut candidates = tx.range::<Station>(
            Station::RUN_QUEUE,
            &[shard, ready],
            &[shard, ready, Value::Int(now_us)],
            limit,
        )?;
        let middle = spread % candidates.len().max(1);
        candidates.rotate_left(middle);
        for candidate in candidates {
            if let Some(delivery) = take(tx, rules, candidate.dst_key, now_us)? {
                deliveries.push(delivery);
                if deliveries.len() == max {
                    return Ok(deliveries);
                }
            }
        }
    }
    Ok(deliveries)
}

/// Compare and set: ready to busy. Whoever has the station's lock is busy with it: waiting, or
/// giving up what was claimed so far and trying again, would cost more than going on to the next.
fn take(
    tx: &mut impl Transaction,
    rules: &Rules,
    key: StationKey,
    now_us: i64,
) -> Result<Option<Delivery>, StoreError> {
    if !tx.try_lock(key)? {
        return Ok(None);
    }
    let Some(mut station) = tx.get::<Station>(&[Value::Int(key.0)])? else { return Ok(None) };
    if station.state != StationState::Ready {
        return Ok(None);
    }
    let key_value = [Value::Int(key.0)];
    let Some(head) = tx.range::<Queued>(primary::<Queued>(), &key_value, &key_value, 1)?.pop() else {
        return Err(StoreError::inconsistent(format!("station {key} is ready, and its queue is empty")));
    };
    // What has expired is ended by `Operation::Expire`, not delivered. Until that comes by, the
    // station goes to the end of the run queue, so that many of them do not hide those behind.
    if head.expire_us <= now_us {
        if station.ready_us < now_us {
            station.ready_us = now_us;
            tx.put(&station)?;
        }
        return Ok(None);
    }
    let message = named(tx, head.msg_id, "the queue")?;
    let mut parts = Vec::with_capacity(message.parts.into());
    for part in part_keys(&message) {
        parts.push(tx.get::<EncodedPart>(&part)?.ok_or_else(|| {
            StoreError::inconsistent(format!(
                "message {} lacks one of its {} parts",
                message.msg_id, message.parts
            ))
        })?);
    }
    station.state = StationState::Busy;
    station.epoch += 1;
    station.current = message.msg_id;
    station.ready_us = now_us + rules.lease_us;
    station.alerted = false;
    tx.put(&station)?;
    Ok(Some(Delivery {
        station: key,
        epoch: station.epoch,
        attempts: station.attempts,
        message: Box::new(message),
        parts,
    }))
}
