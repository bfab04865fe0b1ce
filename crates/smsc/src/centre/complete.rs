//! Sender, second half: what became of a message in flight.

use super::finish::{finish, report};
use super::rows::{put_outcome, station};
use super::rules::Rules;
use crate::model::{Message, MessageState, RetryTimer, Station, StationKey, StationState};
use crate::transaction::{StoreError, Transaction};

/// The end of a flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The station.
    pub station: StationKey,
    /// The claim.
    pub epoch: i64,
    /// The message, as the claim gave it. Nobody changes a message in flight, so it need not be
    /// read again.
    pub message: Box<Message>,
    /// What became of it.
    pub verdict: Verdict,
    /// The receipt that a final state brings its sender ([`super::receipt`]), if it wants one; of a
    /// temporary outcome, the intermediate notification ([`super::notification`]).
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

impl Verdict {
    /// Its error; 0 for none.
    #[must_use]
    pub fn error(&self) -> u32 {
        match *self {
            Verdict::Final { error, .. } | Verdict::Temporary { error, .. } => error,
        }
    }
}

/// What a completion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionResult {
    /// The message has its final state; the number of its receipt, or 0.
    Final(i64),
    /// It will be tried again at this time, µs.
    Again(i64),
    /// Nothing: the claim was not the station's last, or has been given up (its lease ended).
    /// Claims do not outlive the store that gave them: once it is opened again, their numbers may
    /// be given again.
    Fenced,
}

pub(super) fn complete(
    tx: &mut impl Transaction,
    rules: &Rules,
    completion: &mut Completion,
) -> Result<CompletionResult, StoreError> {
    let Completion { station: key, epoch, message: claimed, verdict, receipt, now_us } = completion;
    let (key, epoch, now_us) = (*key, *epoch, *now_us);
    tx.lock(key)?;
    let mut station = station(tx, key)?;
    if station.state != StationState::Busy || station.epoch != epoch || station.current != claimed.msg_id {
        return Ok(CompletionResult::Fenced);
    }
    // The transaction may have to run again: what the claim gave is put back.
    let before = (claimed.state, claimed.attempts, claimed.last_error, claimed.done_us);
    claimed.attempts += 1;
    station.current = 0;
    let done = match *verdict {
        Verdict::Final { state, error } => {
            claimed.last_error = error;
            station.attempts = 0;
            station.last_error = error;
            station.state = StationState::Ready;
            station.ready_us = now_us;
            finish(tx, rules, station, claimed, state, receipt.as_deref_mut(), now_us)
                .map(CompletionResult::Final)
        }
        Verdict::Temporary { error, absent, retry_us } => {
            claimed.last_error = error;
            let due_us = if station.alerted { now_us } else { retry_us.min(claimed.expire_us).max(now_us) };
            let done = again(tx, station, claimed, absent, due_us);
            match (done, receipt.as_deref_mut()) {
                (Ok(again), Some(notification)) if claimed.wants_notification() => {
                    report(tx, claimed, notification, -claimed.msg_id, now_us).map(|_| again)
                }
                (done, _) => done,
            }
        }
    };
    (claimed.state, claimed.attempts, claimed.last_error, claimed.done_us) = before;
    done
}

/// The message stays at the head of its queue; its station waits, unless an alert came during the
/// attempt.
fn again(
    tx: &mut impl Transaction,
    mut station: Station,
    message: &Message,
    absent: bool,
    due_us: i64,
) -> Result<CompletionResult, StoreError> {
    station.attempts += 1;
    station.last_error = message.last_error;
    station.ready_us = due_us;
    if station.alerted {
        // It came back while we tried: waiting for another alert would be waiting for nothing.
        station.state = StationState::Ready;
        station.alerted = false;
    } else {
        station.state = if absent { StationState::Absent } else { StationState::Wait };
        tx.put(&RetryTimer { due_us, dst_key: station.dst_key, epoch: station.epoch })?;
    }
    put_outcome(tx, message)?;
    tx.put(&station)?;
    Ok(CompletionResult::Again(due_us))
}
