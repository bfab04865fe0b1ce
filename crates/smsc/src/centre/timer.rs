//! Timers and alerts: what makes messages and stations ready, and what ends messages that nobody
//! waits for any more.

use super::finish::finish;
use super::outcome::Outcome;
use super::place::Place;
use super::receipt::receipt;
use super::rows::{enqueue, message, named, primary, put_outcome, station};
use super::rules::Rules;
use crate::model::{Queued, RetryTimer, Scheduled, State, Station, StationKey, StationState, Value};
use crate::transaction::{StoreError, Transaction};
use std::cmp::Reverse;

/// Notifier: the station is there again. 1 if it made a difference.
pub(super) fn alert(tx: &mut impl Transaction, key: StationKey, now_us: i64) -> Result<usize, StoreError> {
    tx.lock(key)?;
    let Some(mut station) = tx.get::<Station>(&[Value::Int(key.0)])? else { return Ok(0) };
    match station.state {
        StationState::Idle | StationState::Ready => return Ok(0),
        // Remembered: the attempt under way may end with "absent" although the station is there by
        // now.
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
    let mut due =
        tx.range::<RetryTimer>(primary::<RetryTimer>(), &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    // Whoever locks several stations begins with the greatest, so that two of them do not wait for
    // each other.
    due.sort_by_key(|timer| Reverse(timer.dst_key));
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
    let mut due =
        tx.range::<Scheduled>(primary::<Scheduled>(), &[Value::Int(i64::MIN)], &[Value::Int(now_us)], max)?;
    // In one order, as above.
    due.sort_by_key(|row| Reverse(row.dst_key));
    for row in &due {
        let dst_key = row.dst_key;
        tx.lock(dst_key)?;
        // Whoever cancelled, replaced or released it before had the same lock.
        if !tx.delete::<Scheduled>(&[Value::Int(row.due_us), Value::Int(row.msg_id)])? {
            continue;
        }
        let mut message = named(tx, row.msg_id, "a schedule")?;
        message.state = State::Enroute;
        put_outcome(tx, &message)?;
        let station = station(tx, dst_key)?;
        enqueue(tx, station, &message, now_us)?;
    }
    Ok(due.len())
}

/// Rows of the queues that a sweep reads in one transaction.
const SWEEP_ROWS: usize = 4096;

/// Messages whose validity has ended, among the queues from `from` on; at most `max` are ended:
/// [`Outcome::Swept`]. Not those in flight, which end when they come back, nor scheduled ones,
/// whose validity lasts beyond their time.
///
/// Queues are read through for them, a stretch at a time: an index by expiry would cost every
/// message two changes of an ordered index, and hardly one ever expires.
pub(super) fn expire(
    tx: &mut impl Transaction,
    rules: &Rules,
    from: Place,
    now_us: i64,
    max: usize,
) -> Result<Outcome, StoreError> {
    let first = [Value::Int(from.station), Value::Int(from.rank), Value::Int(from.msg_id)];
    let rows = tx.range::<Queued>(primary::<Queued>(), &first, &[Value::Int(i64::MAX)], SWEEP_ROWS)?;
    let end = rows.len() < SWEEP_ROWS;
    let after =
        |row: &Queued| Place { station: row.dst_key.0, rank: row.rank.into(), msg_id: row.msg_id + 1 };
    let last = rows.last().map(after);
    let (mut count, mut tried) = (0, 0);
    for row in rows.into_iter().filter(|row| row.expire_us <= now_us) {
        if count == max {
            let next = Some(Place { msg_id: row.msg_id, ..after(&row) });
            return Ok(Outcome::Swept { count, tried, next });
        }
        let Queued { msg_id, dst_key, .. } = row;
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
        count += 1;
        tried += usize::from(message.attempts > 0);
    }
    Ok(Outcome::Swept { count, tried, next: last.filter(|_| !end) })
}
