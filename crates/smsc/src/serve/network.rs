//! The route to mobiles: claims, hands to the simulated network, completes.

use super::account::AccountEvent;
use super::front::{Front, UnderWay};
use super::peer::shard_of_target;
use super::route::Target;
use super::submission::{destination_of, source_of};
use crate::centre::{
    Channel, Completion, CompletionResult, Delivery, Operation, Outcome, PutBack, RetryPolicy, Verdict,
    notification, receipt,
};
use crate::model::{MOBILE_SHARDS, Message, State, StationKey};
use crate::network::{Attempt, Network, NetworkProfile};
use crate::smpp::{Alert, Tlvs, tag};
use crate::store::{Acknowledge, StartedOperation};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Messages in the air at most: claims hold a minute, in which their completions must be stored.
const AIR_MAX: usize = 20_000;
/// Completions under way at most.
const COMPLETIONS_MAX: usize = 8192;
/// The longest time between two looks at the run queue.
const LOOK: Duration = Duration::from_millis(20);

/// A message in the air.
struct Flight {
    delivery: Delivery,
    attempt: Attempt,
}

/// A completion that is on its way to the store, and whose application gets its receipt.
struct Landed {
    started: StartedOperation,
    receipt: Option<StationKey>,
    /// Ends with it.
    _under_way: UnderWay,
}

/// Delivers to mobiles until the server ends.
pub(super) async fn run(front: Arc<Front>, profile: NetworkProfile, retry: RetryPolicy) {
    let (to, landed) = mpsc::channel(COMPLETIONS_MAX);
    let settle = tokio::spawn(settle(Arc::clone(&front), landed));
    let network = Network::new(profile);
    let claim_max = front.store.store().claim_max();
    let mut route = Route {
        front,
        claim_max,
        network,
        retry,
        air: HashMap::new(),
        due: BinaryHeap::new(),
        alerts: BinaryHeap::new(),
        pending: Pending::default(),
        next: 0,
        turn: 0,
        to,
    };
    route.work().await;
    drop(route);
    let _ = settle.await;
}

struct Route {
    front: Arc<Front>,
    /// Messages that one claim takes at most.
    claim_max: usize,
    network: Network,
    retry: RetryPolicy,
    air: HashMap<u64, Flight>,
    /// When each comes down.
    due: BinaryHeap<Reverse<(i64, u64)>>,
    /// When stations are there again.
    alerts: BinaryHeap<Reverse<(i64, StationKey)>>,
    /// Applications that want to hear when a station is there again.
    pending: Pending,
    next: u64,
    turn: u16,
    to: mpsc::Sender<Landed>,
}

impl Route {
    async fn work(&mut self) {
        let stopping = self.front.stopping();
        while !self.front.has_ended() {
            self.land().await;
            let claimed = if *stopping.borrow() { 0 } else { self.claim().await };
            if claimed == self.claim_max {
                // There may be more; others get their turn, too.
                tokio::task::yield_now().await;
                continue;
            }
            let now_us = self.front.clock.now_us();
            let next_us = [self.due.peek().map(|due| due.0.0), self.alerts.peek().map(|due| due.0.0)];
            let wait = next_us.into_iter().flatten().min().map_or(LOOK, |due_us| {
                Duration::from_micros(u64::try_from(due_us - now_us).unwrap_or(0)).min(LOOK)
            });
            if wait.is_zero() {
                continue;
            }
            let front = Arc::clone(&self.front);
            tokio::select! {
                () = front.mobiles.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Claims some messages, if there is room for them.
    async fn claim(&mut self) -> usize {
        if self.air.len() + self.claim_max > AIR_MAX {
            return 0;
        }
        self.turn = (self.turn + 1) % MOBILE_SHARDS;
        let now_us = self.front.clock.now_us();
        let channel = Channel::Mobiles(self.turn);
        let claim = Operation::Claim { channel, spread: 0, max: self.claim_max, now_us };
        match self.front.store.start(claim, Acknowledge::Early).await {
            Ok(Outcome::Claimed(deliveries)) => {
                let (claimed, mut passed_on) = (deliveries.len(), Vec::new());
                for delivery in deliveries {
                    let message = &delivery.message;
                    let target = self.front.target(message.account, &message.dst);
                    if target != Target::Network {
                        // It was scheduled, or routes have changed.
                        passed_on.push((target, self.pass_on(&delivery, target, now_us)));
                        continue;
                    }
                    let attempt = self.network.begin(&delivery, now_us);
                    self.next += 1;
                    self.due.push(Reverse((attempt.done_us, self.next)));
                    self.air.insert(self.next, Flight { delivery, attempt });
                }
                // Together, as each may take a server's round.
                for (target, started) in passed_on {
                    match started.await {
                        Ok(_) => self.front.wake_target(target),
                        Err(error) => self.front.fail(error),
                    }
                }
                claimed
            }
            Ok(_) => {
                self.front.fail("a claim gives messages");
                0
            }
            Err(error) => {
                self.front.fail(error);
                0
            }
        }
    }

    /// Puts a message back for a peer.
    fn pass_on(&self, delivery: &Delivery, target: Target, now_us: i64) -> StartedOperation {
        let back = PutBack {
            station: delivery.station,
            epoch: delivery.epoch,
            msg_id: delivery.message.msg_id,
            shard: shard_of_target(target, delivery.station),
            ready_us: now_us,
        };
        self.front.store.start(Operation::PutBack(back), Acknowledge::Early)
    }

    /// Completes what has come down, and passes on alerts.
    async fn land(&mut self) {
        let now_us = self.front.clock.now_us();
        while self.due.peek().is_some_and(|due| due.0.0 <= now_us) {
            let Some(flight) = self.due.pop().and_then(|due| self.air.remove(&due.0.1)) else { continue };
            self.complete(flight, now_us).await;
        }
        while self.alerts.peek().is_some_and(|due| due.0.0 <= now_us) {
            let Some(Reverse((_, station))) = self.alerts.pop() else { break };
            let alert = Operation::Alert { station, now_us };
            let started = self.front.store.start(alert, Acknowledge::Early);
            if let Err(error) = started.await {
                return self.front.fail(error);
            }
            for (account, alert) in self.pending.take(station) {
                if let Some(account) = self.front.account(account) {
                    account.tell(AccountEvent::Alert(alert));
                }
            }
        }
    }

    async fn complete(&mut self, flight: Flight, now_us: i64) {
        let Flight { delivery, attempt } = flight;
        let Delivery { station, epoch, attempts, message, .. } = delivery;
        let verdict = match attempt.result {
            Ok(()) => Verdict::Final { state: State::Delivered, error: 0 },
            Err(failure) => match self.retry.retry_us(failure, attempts, now_us) {
                None => Verdict::Final { state: State::Undeliverable, error: failure.error() },
                Some(retry_us) => {
                    Verdict::Temporary { error: failure.error(), absent: failure.alerts(), retry_us }
                }
            },
        };
        let metrics = &self.front.metrics;
        let receipt = match verdict {
            Verdict::Final { state, error } => {
                match state {
                    State::Delivered => {
                        metrics.delivered.add(1);
                        let begin_us = message.submit_us.max(message.schedule_us);
                        metrics.delivery.add(u64::try_from(now_us - begin_us).unwrap_or(0));
                    }
                    _ => metrics.undeliverable.add(1),
                }
                receipt(&message, state, error, now_us)
            }
            Verdict::Temporary { .. } => {
                metrics.again.add(1);
                notification(&message, verdict.error(), now_us)
            }
        };
        if matches!(verdict, Verdict::Temporary { absent: true, .. }) {
            self.pending.add(station, &message);
        }
        if let Some(alert_us) = attempt.alert_us {
            self.alerts.push(Reverse((alert_us, station)));
        }
        self.network.end(station);
        let to = receipt.as_ref().map(|receipt| receipt.dst_key);
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        let started = self.front.store.start(Operation::Complete(Box::new(completion)), Acknowledge::Durable);
        let under_way = UnderWay::new(&self.front.under_way);
        // It is received as long as the route lives.
        let _ = self.to.send(Landed { started, receipt: to, _under_way: under_way }).await;
    }
}

/// Delivery pending flags: who is told (alert_notification) when a station is there again.
#[derive(Default)]
struct Pending {
    of_station: HashMap<StationKey, Vec<(u32, Alert)>>,
    count: usize,
}

/// Flags at most; more are not set. They are kept in memory alone, as an alert_notification has no
/// answer and is no promise.
const PENDING_MAX: usize = 10_000;

impl Pending {
    /// Sets a flag, if the message has set_dpf (SMPP 3.4 §5.3.2.29).
    fn add(&mut self, station: StationKey, message: &Message) {
        let wants = Tlvs::new(&message.tlvs).is_ok_and(|tlvs| tlvs.find(tag::SET_DPF) == Some(&[1]));
        if !wants || self.count == PENDING_MAX {
            return;
        }
        let alert =
            Alert { source: destination_of(message), esme: source_of(message), availability: Some(0) };
        let flags = self.of_station.entry(station).or_default();
        let flag = (message.account, alert);
        if !flags.contains(&flag) {
            flags.push(flag);
            self.count += 1;
        }
    }

    /// Takes the flags of a station.
    fn take(&mut self, station: StationKey) -> Vec<(u32, Alert)> {
        let flags = self.of_station.remove(&station).unwrap_or_default();
        self.count -= flags.len();
        flags
    }
}

/// Waits for completions, in their order, and wakes the applications that get receipts.
async fn settle(front: Arc<Front>, mut landed: mpsc::Receiver<Landed>) {
    while let Some(Landed { started, receipt, _under_way }) = landed.recv().await {
        match started.await {
            Ok(Outcome::Completed(CompletionResult::Final(_) | CompletionResult::Again(_))) => {
                if let Some(station) = receipt
                    && let Some(account) = station.account().and_then(|number| front.account(number))
                {
                    account.tell(AccountEvent::Ready(station));
                }
                // The station may have more.
                front.mobiles.notify_one();
            }
            Ok(Outcome::Completed(_)) => {}
            Ok(_) => front.fail("a completion tells what became of it"),
            Err(error) => front.fail(error),
        }
    }
}
