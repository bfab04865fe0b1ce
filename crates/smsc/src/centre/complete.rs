//! Sender, second half: what became of a message in flight.

use super::finish::finish;
use super::operation::Rules;
use super::receive::{named, station};
use crate::model::{Message, MessageState, RetryTimer, StationKey, StationState};
use crate::store::{StoreError, Transaction};

/// The end of a flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The station.
    pub station: StationKey,
    /// The claim.
    pub epoch: i64,
    /// The message.
    pub msg_id: i64,
    /// What became of it.
    pub verdict: Verdict,
    /// The receipt that a final state brings its sender ([`super::receipt`]), if it wants one.
    pub receipt: Option<Box<Message>>,
    /// Now, µs.
    pub now_us: i64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered, or refused for good.
    Final {
        /// The final state.
        state: MessageState,
        /// Error; 0 for none.
        error: u32,
    },
    /// To be tried again; the message stays at the head of its queue, so order is kept.
    Temporary {
        /// Error.
        error: u32,
        /// Whether an alert will tell when the station is there again.
        absent: bool,
        /// When to try again, if the message is valid for so long, µs.
        retry_us: i64,
    },
}

/// What a completion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The message has its final state; the number of its receipt, or 0.
    Final(i64),
    /// It will be tried again at this time, µs.
    Again(i64),
    /// Nothing: the claim was not the station's last, or has been given up (its lease ended, a restart).
    Fenced,
}

pub(super) fn complete(
    tx: &mut impl Transaction,
    rules: &Rules,
    completion: &mut Completion,
) -> Result<Completed, StoreError> {
    let &mut Completion { station: key, epoch, msg_id, verdict, now_us, .. } = completion;
    tx.lock(key)?;
    let mut station = station(tx, key)?;
    if station.state != StationState::Busy || station.epoch != epoch || station.current != msg_id {
        return Ok(Completed::Fenced);
    }
    let mut message = named(tx, msg_id, "a station in flight")?;
    message.attempts += 1;
    station.current = 0;
    match verdict {
        Verdict::Final { state, error } => {
            message.last_error = error;
            station.attempts = 0;
            station.last_error = error;
            station.state = StationState::Ready;
            station.ready_us = now_us;
            let receipt = completion.receipt.as_deref_mut();
            finish(tx, rules, station, &mut message, state, receipt, now_us).map(Completed::Final)
        }
        Verdict::Temporary { error, absent, retry_us } => {
            message.last_error = error;
            station.attempts += 1;
            station.last_error = error;
            let due_us = if station.alerted { now_us } else { retry_us.min(message.expire_us).max(now_us) };
            if station.alerted {
                // It came back while we tried: waiting for another alert would be waiting for nothing.
                station.state = StationState::Ready;
                station.alerted = false;
            } else {
                station.state = if absent { StationState::Absent } else { StationState::Wait };
                tx.put(&RetryTimer { due_us, dst_key: key, epoch })?;
            }
            station.ready_us = due_us;
            tx.put(&message)?;
            tx.put(&station)?;
            Ok(Completed::Again(due_us))
        }
    }
}
