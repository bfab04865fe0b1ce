//! Senders: claim, hand to the network, complete.

use super::figures::{histogram, is_to_hand_over};
use super::flights::Flights;
use super::plan::LoadError;
use super::state::RunState;
use crate::centre::{Channel, Completion, CompletionResult, Delivery, Operation, Outcome, Verdict, receipt};
use crate::model::{SHARDS, State, StationKey};
use crate::network::Attempt;
use crate::store::{Acknowledge, Session};
use hdrhistogram::Histogram;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a sender without work sleeps, at first and at most.
const IDLE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));
/// From where on an attempt is one that a whole run may be waiting for, µs.
const LONG_US: i64 = 100_000;

/// A message in the air, by the time at which its attempt ends.
struct Flight {
    claim_us: i64,
    done_us: i64,
    delivery: Delivery,
    attempt: Attempt,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.done_us == other.done_us
    }
}

impl Eq for Flight {}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    /// The earliest is the greatest: the top of the heap.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.done_us.cmp(&self.done_us)
    }
}

/// What a pending operation was.
enum Pending {
    /// Times of submission, claim and landing; whether delivered; whether a receipt.
    Completion {
        submit_us: i64,
        claim_us: i64,
        /// When its attempt ended.
        landed_us: i64,
        delivered: bool,
        is_receipt: bool,
        /// Whether it had been tried before.
        tried: bool,
    },
    Alert,
}

/// One sender's loop, until all has been sent (or, without an end, until it is stopped).
pub(super) fn run(shared: &RunState<'_>, number: usize, window: usize) -> Result<(), LoadError> {
    let mut sender = Sender {
        shared,
        number,
        claim_max: shared.store.claim_max(),
        claims: shared.session(Acknowledge::Early, || format!("sender {number}"))?,
        completions: shared.session(shared.plan.acknowledge, || format!("sender {number}"))?,
        air: BinaryHeap::new(),
        alerts: BinaryHeap::new(),
        pending: VecDeque::new(),
        outcomes: Vec::new(),
        flights: Flights::new(
            window,
            shared.plan.senders,
            shared.plan.lease_us,
            shared.plan.network.longest_attempt_us(),
        ),
        latency: histogram(),
        flight: histogram(),
        told_us: 0,
        turn: number,
    };
    if !shared.wait_for_start() {
        return Ok(());
    }
    let done = sender.work();
    if let Some(flights) = sender.flights.held() {
        shared.holds_flights(flights);
    }
    shared.figures.deliver.take(&mut sender.latency);
    shared.figures.send.take(&mut sender.flight);
    done
}

struct Sender<'a> {
    shared: &'a RunState<'a>,
    number: usize,
    /// Messages that one claim takes at most.
    claim_max: usize,
    claims: Box<dyn Session + 'a>,
    completions: Box<dyn Session + 'a>,
    air: BinaryHeap<Flight>,
    alerts: BinaryHeap<Reverse<(i64, StationKey)>>,
    pending: VecDeque<Pending>,
    outcomes: Vec<Outcome>,
    flights: Flights,
    latency: Histogram<u64>,
    flight: Histogram<u64>,
    /// When both were told last, µs.
    told_us: i64,
    turn: usize,
}

impl Sender<'_> {
    fn work(&mut self) -> Result<(), LoadError> {
        let mut idle = IDLE.0;
        loop {
            if self.shared.has_failed() {
                return Ok(());
            }
            let window = self.flights.allowed();
            let room = window.saturating_sub(self.air.len() + self.pending.len());
            // Claims are worth their cost in bulk, once there is room for half a window.
            let claimed = if room > 0 && room * 2 >= window && !self.shared.senders_stop() {
                self.claim(room)?
            } else {
                0
            };
            self.land()?;
            if !self.pending.is_empty() {
                self.settle()?;
                idle = IDLE.0;
            } else if claimed == 0 {
                if self.shared.all_sent() && (self.air.is_empty() || self.shared.is_interrupted()) {
                    return Ok(());
                }
                std::thread::sleep(idle);
                idle = (idle * 2).min(IDLE.1);
            }
        }
    }

    /// Claims as many as there is room for, or as there are.
    fn claim(&mut self, room: usize) -> Result<usize, LoadError> {
        let mut claimed = 0;
        while claimed < room {
            let max = (room - claimed).min(self.claim_max);
            let found = self.claim_some(max)?;
            claimed += found;
            // What its station has taken already is completed while its rows are still in the
            // processor's cache.
            self.land()?;
            if found < max {
                break;
            }
        }
        Ok(claimed)
    }

    fn claim_some(&mut self, max: usize) -> Result<usize, LoadError> {
        let now_us = self.shared.clock.now_us();
        self.turn = self.turn.wrapping_add(1);
        let shard = (self.turn % usize::from(SHARDS)) as u16;
        let claim = Operation::Claim { channel: Channel::All(shard), spread: self.number, max, now_us };
        let Outcome::Claimed(deliveries) = self.claims.call(claim)? else {
            return Err(LoadError::Unexpected("a claim gives messages"));
        };
        let claimed = deliveries.len();
        let tried = deliveries.iter().filter(|delivery| delivery.message.attempts > 0).count();
        if tried > 0 {
            self.shared.waits(-(tried as i64));
        }
        for delivery in deliveries {
            let attempt = self.shared.network.begin(&delivery, now_us);
            if attempt.done_us > now_us + LONG_US {
                self.shared.note_landing(attempt.done_us);
            }
            self.air.push(Flight { claim_us: now_us, done_us: attempt.done_us, delivery, attempt });
        }
        Ok(claimed)
    }

    /// Completes what has come down, and passes on alerts.
    fn land(&mut self) -> Result<(), LoadError> {
        let now_us = self.shared.clock.now_us();
        while self.air.peek().is_some_and(|flight| flight.done_us <= now_us) {
            let Some(flight) = self.air.pop() else { break };
            self.complete(flight, now_us)?;
        }
        while self.alerts.peek().is_some_and(|alert| alert.0.0 <= now_us) {
            let Some(Reverse((_, station))) = self.alerts.pop() else { break };
            self.completions.submit(Operation::Alert { station, now_us })?;
            self.pending.push_back(Pending::Alert);
        }
        Ok(())
    }

    fn complete(&mut self, flight: Flight, now_us: i64) -> Result<(), LoadError> {
        let Flight { claim_us, done_us, delivery, attempt } = flight;
        let Delivery { station, epoch, attempts, message, .. } = delivery;
        let retry = &self.shared.plan.retry;
        let verdict = match attempt.result {
            Ok(()) => Verdict::Final { state: State::Delivered, error: 0 },
            Err(failure) => match retry.retry_us(failure, attempts, now_us) {
                None => Verdict::Final { state: State::Undeliverable, error: failure.error() },
                Some(retry_us) => {
                    Verdict::Temporary { error: failure.error(), absent: failure.alerts(), retry_us }
                }
            },
        };
        let receipt = match verdict {
            Verdict::Final { state, error } => receipt(&message, state, error, now_us),
            Verdict::Temporary { .. } => None,
        };
        if let Some(alert_us) = attempt.alert_us {
            self.alerts.push(Reverse((alert_us, station)));
        }
        self.shared.network.end(station);
        if let (Ok(()), Some(report)) = (attempt.result, &self.shared.plan.on_delivered) {
            report(message.msg_id);
        }
        self.pending.push_back(Pending::Completion {
            submit_us: message.submit_us,
            claim_us,
            landed_us: done_us,
            delivered: attempt.result.is_ok(),
            is_receipt: message.receipt_of != 0,
            tried: message.attempts > 0,
        });
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        self.completions.submit(Operation::Complete(Box::new(completion)))?;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), LoadError> {
        self.completions.settle(&mut self.outcomes)?;
        let now_us = self.shared.clock.now_us();
        let figures = &self.shared.figures;
        let (mut finished, mut delivered, mut receipts, mut attempts, mut waiting) = (0, 0, 0, 0, 0);
        for outcome in self.outcomes.drain(..) {
            match (self.pending.pop_front(), outcome) {
                (
                    Some(Pending::Completion {
                        submit_us,
                        claim_us,
                        landed_us,
                        delivered: was,
                        is_receipt,
                        tried,
                    }),
                    Outcome::Completed(completion),
                ) => {
                    attempts += u64::from(!is_receipt);
                    self.flights.ended(claim_us, landed_us, now_us);
                    self.flight.saturating_record((now_us - claim_us).max(1) as u64);
                    match completion {
                        CompletionResult::Final(_) if is_receipt => receipts += 1,
                        CompletionResult::Final(_) => {
                            finished += 1;
                            if was {
                                delivered += 1;
                                self.latency.saturating_record((now_us - submit_us).max(1) as u64);
                            }
                        }
                        CompletionResult::Again(_) => waiting += 1,
                        CompletionResult::Fenced => {
                            // It was claimed again, and counted as such again.
                            waiting += i64::from(tried);
                            figures.fenced.fetch_add(1, Relaxed);
                        }
                    }
                }
                (Some(Pending::Alert), Outcome::Count(count)) => {
                    figures.alerts.fetch_add(count as u64, Relaxed);
                }
                _ => return Err(LoadError::Unexpected("outcomes come in the order of their operations")),
            }
        }
        figures.finished.fetch_add(finished, Relaxed);
        figures.delivered.fetch_add(delivered, Relaxed);
        figures.receipts.fetch_add(receipts, Relaxed);
        figures.attempts.fetch_add(attempts, Relaxed);
        if waiting > 0 {
            self.shared.waits(waiting);
        }
        if is_to_hand_over(&self.flight, &mut self.told_us, now_us) {
            figures.deliver.take(&mut self.latency);
            figures.send.take(&mut self.flight);
        }
        Ok(())
    }
}
