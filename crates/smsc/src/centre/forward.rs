//! What goes through a peer: another centre accepts it under a number of its own, and tells later
//! what became of it.
//!
//! ```text
//! queued ──Claim──▶ in flight ──Forward──▶ Forwarded ──Settle, Overdue──▶ final
//!    ▲                  │
//!    └─────PutBack──────┘
//! ```
//!
//! [`Forward`] is stored before anything else is done about the peer's answer: from then on the
//! message is in no queue, so no restart sends it again, and the peer's receipt finds it.

use super::finish::{close, leave, report};
use super::outcome::Outcome;
use super::receipt::{notification, receipt};
use super::refusal::Refusal;
use super::rows::{drop_parts, message, put_outcome, station};
use super::rules::Rules;
use crate::model::{Forwarded, Message, MessageState, State, Station, StationKey, StationState, Value};
use crate::transaction::{StoreError, Transaction};

/// A peer has accepted a message in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The station.
    pub station: StationKey,
    /// The claim.
    pub epoch: i64,
    /// The message.
    pub msg_id: i64,
    /// The peer.
    pub peer: u32,
    /// Its number of the message, at most [`crate::model::PEER_ID_MAX`] octets.
    pub peer_id: String,
    /// When its receipt is waited for no longer, µs.
    pub due_us: i64,
    /// Now, µs.
    pub now_us: i64,
}

/// A flight that was none: its peer has gone, or has no room, or the message goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// The station.
    pub station: StationKey,
    /// The claim.
    pub epoch: i64,
    /// The message.
    pub msg_id: i64,
    /// The shard in which the station waits from now on.
    pub shard: u16,
    /// When it may be claimed again, µs.
    pub ready_us: i64,
}

/// What a peer tells of a message that it has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The peer.
    pub peer: u32,
    /// Its number of the message.
    pub peer_id: String,
    /// The final state; none for an intermediate notification.
    pub state: Option<MessageState>,
    /// Error; 0 for none.
    pub error: u32,
    /// Now, µs.
    pub now_us: i64,
}

/// The station of a claim, locked, if nobody else has the message by now.
fn in_flight(
    tx: &mut impl Transaction,
    (key, epoch, msg_id): (StationKey, i64, i64),
) -> Result<Option<Station>, StoreError> {
    tx.lock(key)?;
    let station = station(tx, key)?;
    let is_its = station.state == StationState::Busy && station.epoch == epoch && station.current == msg_id;
    Ok(is_its.then_some(station))
}

/// 1, or 0 where the claim is not the station's last.
pub(super) fn forward(tx: &mut impl Transaction, with: &Forward) -> Result<usize, StoreError> {
    let Some(mut station) = in_flight(tx, (with.station, with.epoch, with.msg_id))? else { return Ok(0) };
    let Some(mut message) = message(tx, with.msg_id)? else {
        return Err(StoreError::inconsistent(format!("message {} is in flight and gone", with.msg_id)));
    };
    station.state = StationState::Ready;
    station.ready_us = with.now_us;
    (station.current, station.attempts, station.last_error) = (0, 0, 0);
    station.alerted = false;
    leave(tx, station, &message, with.now_us)?;
    drop_parts(tx, &message)?;
    message.state = State::Forwarded;
    message.attempts += 1;
    // Its parts are the peer's. That there are none tells ever after that it went through one.
    let parts = std::iter::once((Message::PARTS, Value::Int(0)));
    let changes: Vec<_> = message.outcome().into_iter().chain(parts).collect();
    tx.update::<Message>(&[Value::Int(message.msg_id)], &changes)?;
    tx.insert(&Forwarded {
        msg_id: with.msg_id,
        peer: with.peer,
        peer_id: with.peer_id.clone(),
        due_us: with.due_us,
    })?;
    Ok(1)
}

/// 1, or 0 where the claim is not the station's last.
pub(super) fn put_back(tx: &mut impl Transaction, with: &PutBack) -> Result<usize, StoreError> {
    let Some(mut station) = in_flight(tx, (with.station, with.epoch, with.msg_id))? else { return Ok(0) };
    station.state = StationState::Ready;
    (station.shard, station.ready_us) = (with.shard, with.ready_us);
    station.current = 0;
    station.alerted = false;
    tx.put(&station)?;
    Ok(1)
}

/// The newest message that the peer has under this number, with its station locked.
fn find(tx: &mut impl Transaction, with: &Settlement) -> Result<Option<(Forwarded, Message)>, StoreError> {
    let key = [Value::Int(with.peer.into()), Value::Text(&with.peer_id)];
    let found = tx.range::<Forwarded>(Forwarded::BY_PEER_ID, &key, &key, usize::MAX >> 1)?;
    let Some(newest) = found.into_iter().max_by_key(|row| row.msg_id) else { return Ok(None) };
    locked(tx, newest.msg_id)
}

/// A forwarded message with its station locked; none if it has been settled meanwhile.
fn locked(tx: &mut impl Transaction, msg_id: i64) -> Result<Option<(Forwarded, Message)>, StoreError> {
    let Some(Message { dst_key, .. }) = message(tx, msg_id)? else { return Ok(None) };
    tx.lock(dst_key)?;
    let Some(row) = tx.get::<Forwarded>(&[Value::Int(msg_id)])? else { return Ok(None) };
    let found = message(tx, msg_id)?.filter(|message| message.state == State::Forwarded);
    found.map(|message| Some((row, message))).ok_or_else(|| {
        StoreError::inconsistent(format!("message {msg_id} is in `forwarded` and was not forwarded"))
    })
}

pub(super) fn settle(
    tx: &mut impl Transaction,
    rules: &Rules,
    with: &Settlement,
) -> Result<Outcome, StoreError> {
    let Some((_, mut message)) = find(tx, with)? else {
        return Ok(Outcome::Refused(Refusal::NoSuchMessage));
    };
    let lane = StationKey::of_account(message.account, message.msg_id);
    let Some(state) = with.state else {
        // Only the first: the attempt that the peer was is counted as one.
        let first = Message { attempts: message.attempts.saturating_sub(1), ..message.clone() };
        let Some(mut notification) = notification(&first, with.error, with.now_us) else {
            return Ok(Outcome::Settled(None));
        };
        message.attempts += 1;
        message.last_error = with.error;
        put_outcome(tx, &message)?;
        report(tx, &message, &mut notification, -message.msg_id, with.now_us)?;
        return Ok(Outcome::Settled(Some(lane)));
    };
    let number = end(tx, rules, &mut message, (state, with.error), with.now_us)?;
    Ok(Outcome::Settled((number != 0).then_some(lane)))
}

/// Gives a forwarded message its final state. The number of its receipt, or 0.
fn end(
    tx: &mut impl Transaction,
    rules: &Rules,
    message: &mut Message,
    (state, error): (MessageState, u32),
    now_us: i64,
) -> Result<i64, StoreError> {
    message.last_error = error;
    tx.delete::<Forwarded>(&[Value::Int(message.msg_id)])?;
    let mut receipt = receipt(message, state, error, now_us);
    close(tx, rules, message, state, receipt.as_deref_mut(), now_us)
}

/// Messages whose receipt never came become [`MessageState::Unknown`].
pub(super) fn overdue(
    tx: &mut impl Transaction,
    rules: &Rules,
    now_us: i64,
    max: usize,
) -> Result<usize, StoreError> {
    let due =
        tx.range::<Forwarded>(Forwarded::BY_DUE, &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    let mut count = 0;
    for row in due {
        let Some((_, mut message)) = locked(tx, row.msg_id)? else { continue };
        let error = message.last_error;
        end(tx, rules, &mut message, (State::Unknown, error), now_us)?;
        count += 1;
    }
    Ok(count)
}
