//! Timers and alerts: what makes messages and stations ready, and what ends messages that nobody waits for any more.

use super::finish::finish;
use super::operation::Rules;
use super::receipt::receipt;
use super::receive::{enqueue, message, named, primary, station};
use crate::model::{Queued, RetryTimer, Scheduled, State, Station, StationKey, StationState, Value};
use crate::store::{StoreError, Transaction};

/// Notifier: the station is there again. 1 if it made a difference.
pub(super) fn alert(tx: &mut impl Transaction, key: StationKey, now_us: i64) -> Result<usize, StoreError> {
    tx.lock(key)?;
    let Some(mut station) = tx.get::<Station>(&[Value::Int(key.0)])? else { return Ok(0) };
    match station.state {
        StationState::Idle | StationState::Ready => return Ok(0),
        // Remembered: the attempt under way may end with "absent" although the station is there by now.
        StationState::Busy => station.alerted = true,
        StationState::Wait | StationState::Absent => {
            tx.delete::<RetryTimer>(&[Value::Int(station.ready_us), Value::Int(key.0)])?;
            station.state = StationState::Ready;
            station.ready_us = now_us;
        }
    }
    tx.put(&station)?;
    Ok(1)
}

/// Retry: timers that are due make their stations ready.
pub(super) fn wake_due(tx: &mut impl Transaction, now_us: i64, max: usize) -> Result<usize, StoreError> {
    let due =
        tx.range::<RetryTimer>(primary::<RetryTimer>(), &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    for timer in &due {
        tx.lock(timer.dst_key)?;
        if !tx.delete::<RetryTimer>(&[Value::Int(timer.due_us), Value::Int(timer.dst_key.0)])? {
            continue;
        }
        let mut station = station(tx, timer.dst_key)?;
        let waits = matches!(station.state, StationState::Wait | StationState::Absent);
        if waits && station.epoch == timer.epoch {
            station.state = StationState::Ready;
            station.ready_us = now_us;
            tx.put(&station)?;
        }
    }
    Ok(due.len())
}

/// Scheduled Message Timer: messages whose time has come.
pub(super) fn release_scheduled(
    tx: &mut impl Transaction,
    now_us: i64,
    max: usize,
) -> Result<usize, StoreError> {
    let due =
        tx.range::<Scheduled>(primary::<Scheduled>(), &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    for row in &due {
        let Some(dst_key) = message(tx, row.msg_id)?.map(|message| message.dst_key) else { continue };
        tx.lock(dst_key)?;
        // Whoever cancelled, replaced or released it before had the same lock.
        if !tx.delete::<Scheduled>(&[Value::Int(row.due_us), Value::Int(row.msg_id)])? {
            continue;
        }
        let mut message = named(tx, row.msg_id, "a schedule")?;
        message.state = State::Enroute;
        tx.put(&message)?;
        let station = station(tx, dst_key)?;
        enqueue(tx, station, &message, now_us)?;
    }
    Ok(due.len())
}

/// Messages whose validity has ended; not those in flight, which end when they come back, nor scheduled ones, whose validity
/// lasts beyond their time.
pub(super) fn expire(
    tx: &mut impl Transaction,
    rules: &Rules,
    now_us: i64,
    max: usize,
) -> Result<usize, StoreError> {
    let due = tx.range::<Queued>(Queued::BY_EXPIRY, &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    let mut expired = 0;
    for Queued { msg_id, dst_key, .. } in due {
        tx.lock(dst_key)?;
        let Some(mut message) = message(tx, msg_id)? else { continue };
        if message.state.is_final() || message.expire_us > now_us {
            continue;
        }
        let station = station(tx, dst_key)?;
        if station.state == StationState::Busy && station.current == msg_id {
            continue;
        }
        let mut receipt = receipt(&message, State::Expired, message.last_error, now_us);
        finish(tx, rules, station, &mut message, State::Expired, receipt.as_deref_mut(), now_us)?;
        expired += 1;
    }
    Ok(expired)
}
