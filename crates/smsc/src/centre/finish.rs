//! How a message becomes final, whatever ends it.

use super::rows::{drop_parts, enqueue, put_outcome, station};
use super::rules::Rules;
use crate::model::{
    Message, MessageState, Queued, RetryTimer, Scheduled, Sent, Station, StationKey, StationState, Value,
};
use crate::transaction::{StoreError, Transaction};

/// Gives `message` its final state, takes it from the queue of `station` (locked, changed by the
/// caller as it likes, not yet stored), and queues `receipt` for its sender. The number of the
/// receipt, or 0.
pub(super) fn finish(
    tx: &mut impl Transaction,
    rules: &Rules,
    station: Station,
    message: &mut Message,
    state: MessageState,
    receipt: Option<&mut Message>,
    now_us: i64,
) -> Result<i64, StoreError> {
    leave(tx, station, message, now_us)?;
    close(tx, rules, message, state, receipt, now_us)
}

/// Takes `message` from the queue of its station, which is stored.
pub(super) fn leave(
    tx: &mut impl Transaction,
    mut station: Station,
    message: &Message,
    now_us: i64,
) -> Result<(), StoreError> {
    let queued =
        [Value::Int(message.dst_key.0), Value::Int(message.rank().into()), Value::Int(message.msg_id)];
    if !tx.delete::<Queued>(&queued)? {
        return Err(StoreError::inconsistent(format!("message {} is in no queue", message.msg_id)));
    }
    station.queue = station.queue.saturating_sub(1);
    if station.queue == 0 {
        if matches!(station.state, StationState::Wait | StationState::Absent) {
            tx.delete::<RetryTimer>(&[Value::Int(station.ready_us), Value::Int(station.dst_key.0)])?;
        }
        station.state = StationState::Idle;
        station.ready_us = now_us;
        station.attempts = 0;
    }
    tx.put(&station)
}

/// As [`finish`], for a scheduled message.
pub(super) fn finish_scheduled(
    tx: &mut impl Transaction,
    rules: &Rules,
    message: &mut Message,
    state: MessageState,
    receipt: Option<&mut Message>,
    now_us: i64,
) -> Result<i64, StoreError> {
    tx.delete::<Scheduled>(&[Value::Int(message.schedule_us), Value::Int(message.msg_id)])?;
    close(tx, rules, message, state, receipt, now_us)
}

/// As [`finish`], for a message that is in no queue any more.
pub(super) fn close(
    tx: &mut impl Transaction,
    rules: &Rules,
    message: &mut Message,
    state: MessageState,
    receipt: Option<&mut Message>,
    now_us: i64,
) -> Result<i64, StoreError> {
    drop_parts(tx, message)?;
    message.state = state;
    message.done_us = now_us;
    put_outcome(tx, message)?;
    if rules.has_flusher {
        tx.put(&sent_row(message))?;
    }
    match receipt {
        Some(receipt) if message.wants_receipt(state) => report(tx, message, receipt, message.msg_id, now_us),
        _ => Ok(0),
    }
}

/// Queues a receipt or a notification for the sender of `message`. Its number.
pub(super) fn report(
    tx: &mut impl Transaction,
    message: &Message,
    report: &mut Message,
    receipt_of: i64,
    now_us: i64,
) -> Result<i64, StoreError> {
    report.dst_key = StationKey::of_account(message.account, message.msg_id);
    tx.lock(report.dst_key)?;
    let station = station(tx, report.dst_key)?;
    report.msg_id = tx.next_id()?;
    report.receipt_of = receipt_of;
    tx.insert(report)?;
    enqueue(tx, station, report, now_us)?;
    Ok(report.msg_id)
}

/// The row in `sent` of a final message.
pub(crate) fn sent_row(message: &Message) -> Sent {
    Sent {
        done_us: message.done_us,
        msg_id: message.msg_id,
        state: message.state,
        error: message.last_error,
        attempts: message.attempts,
        parts: message.parts,
    }
}
