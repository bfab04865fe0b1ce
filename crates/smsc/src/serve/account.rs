//! What is delivered to an application: receipts, and messages to its numbers, over all its
//! sessions that receive.
//!
//! One task for each account. It knows which of the account's lanes have something in flight, so it
//! claims from the others by name: an application that is not there costs nobody anything.

use super::front::{Account, Front, UnderWay};
use super::lanes::Lanes;
use super::looks::Looks;
use super::outbind;
use super::session::Out;
use super::submission::{destination_of, receipt_tlvs, source_of};
use crate::centre::{
    Channel, Completion, CompletionResult, Delivery, Operation, Outcome, Verdict, notification, receipt,
};
use crate::model::{ESME_LANES, Message, State, StationKey};
use crate::smpp::{Alert, Deliver, Status, Tlvs, deliver, tag};
use crate::store::Acknowledge;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Events that are handled at most before it is delivered again.
const EVENTS: usize = 1000;
/// How often lanes are looked at, and answers that are overdue.
const TICK: Duration = Duration::from_millis(500);
/// How long an application that refuses a message for now is left alone with it, µs.
const AGAIN_US: i64 = 5_000_000;
/// The most that this grows to, by doubling.
const AGAIN_MAX_US: i64 = 600_000_000;

/// A session that receives.
pub(super) struct Outlet {
    pub session: u64,
    pub out: mpsc::Sender<Out>,
    /// Deliveries under way at most.
    pub window: usize,
    /// Whether it takes optional parameters.
    pub takes_parameters: bool,
    /// Set when the session has ended.
    pub dead: Arc<AtomicBool>,
    /// Deliveries under way.
    pub deliveries: Arc<AtomicUsize>,
    /// How often in a row deliveries were not answered in time, and until when it is left alone.
    pub silent: (u32, Instant),
}

/// The longest time that a session that answers nothing is left alone.
const REST_MAX: Duration = Duration::from_secs(300);

impl Outlet {
    /// How many more deliveries it may have under way now.
    fn room(&self) -> usize {
        let rests = self.silent.0 > 0 && Instant::now() < self.silent.1;
        let takes_none = self.dead.load(Relaxed) || self.out.is_closed() || self.out.capacity() == 0;
        if rests || takes_none {
            return 0;
        }
        self.window.saturating_sub(self.deliveries.load(Relaxed))
    }

    /// It has not answered in time: it gets nothing for as long again, and twice as long each time,
    /// so that who does not read is not sent the same again and again.
    fn rest(&mut self, response: Duration) {
        let wait = response.saturating_mul(1 << self.silent.0.min(10)).min(REST_MAX);
        self.silent = (self.silent.0 + 1, Instant::now() + wait);
    }
}

/// What happens to an account.
pub(super) enum AccountEvent {
    /// A session that receives is there.
    Bound(Outlet),
    /// One has gone.
    Gone(u64),
    /// A deliver_sm was answered.
    Answered { session: u64, sequence: u32, status: u32, place: OwnedSemaphorePermit },
    /// A lane has something.
    Ready(StationKey),
    /// Whether something can be delivered, by the count of what waits.
    Waits(bool),
    /// Any lane may have something.
    Look,
    /// The same, of what happens all the time.
    LookSoon,
    /// What waited for another attempt may be ready, somewhere.
    LookAgain,
    /// A mobile is there again that the application wanted to hear of.
    Alert(Alert),
    /// A completion is stored: its lane is free.
    Completed { station: StationKey, more: bool },
    /// The account is not in the configuration any more.
    Closed,
}

/// A message in flight.
struct Flight {
    delivery: Delivery,
    sent: Instant,
}

struct Deliverer {
    front: Arc<Front>,
    account: Arc<Account>,
    outlets: Vec<Outlet>,
    flights: HashMap<(u64, u32), Flight>,
    lanes: Lanes,
    sequence: u32,
    call: Call,
    /// At answers that are overdue.
    looks: Looks,
}

/// Calls of an application that takes them (outbind).
struct Call {
    /// Something waits that no session takes.
    is_due: bool,
    /// When to call at the earliest, and how long to wait after that.
    next: Instant,
    wait: Duration,
}

/// An application that does not bind is called again after so long, and twice as long each time.
const CALL_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

fn lane_of(station: StationKey) -> u32 {
    // The lane is the remainder of −key − 1.
    ((-station.0 - 1).rem_euclid(i64::from(ESME_LANES))) as u32
}

/// Delivers until the server or the account ends.
pub(super) async fn run(
    front: Arc<Front>,
    account: Arc<Account>,
    mut events: mpsc::UnboundedReceiver<AccountEvent>,
) {
    // What was queued before the server began may wait for it. Where others have the store, too,
    // nobody counts that for it.
    let is_due = front.store.store().is_shared();
    let mut deliverer = Deliverer {
        front,
        account,
        outlets: Vec::new(),
        flights: HashMap::new(),
        lanes: Lanes::new(Instant::now()),
        sequence: 0,
        call: Call { is_due, next: Instant::now(), wait: CALL_AGAIN.0 },
        looks: Looks::new(Instant::now()),
    };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stopping = deliverer.front.stopping();
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(AccountEvent::Closed) | None => return deliverer.close(),
                Some(event) => deliverer.handle(event),
            },
            _ = tick.tick() => deliverer.tick(),
        }
        // Not without end: more may come as fast as they are handled.
        for _ in 0..EVENTS {
            match events.try_recv() {
                Ok(AccountEvent::Closed) => return deliverer.close(),
                Ok(event) => deliverer.handle(event),
                Err(_) => break,
            }
        }
        if !*stopping.borrow_and_update() {
            deliverer.deliver().await;
        }
    }
}

impl Deliverer {
    fn handle(&mut self, event: AccountEvent) {
        match event {
            AccountEvent::Bound(outlet) => {
                self.outlets.push(outlet);
                self.call = Call { is_due: false, next: Instant::now(), wait: CALL_AGAIN.0 };
                self.lanes.look(Instant::now());
            }
            AccountEvent::Gone(session) => {
                self.outlets.retain(|outlet| outlet.session != session);
                let gone: Vec<(u64, u32)> =
                    self.flights.keys().filter(|key| key.0 == session).copied().collect();
                self.call.is_due |= !gone.is_empty();
                for key in gone {
                    // Nobody knows whether it arrived: at once again, to whoever is there.
                    self.land(key, Landing::Lost);
                }
            }
            AccountEvent::Answered { session, sequence, status, place } => {
                drop(place);
                if let Some(outlet) = self.outlets.iter_mut().find(|outlet| outlet.session == session) {
                    outlet.silent.0 = 0;
                }
                self.land((session, sequence), Landing::Answered(status));
            }
            AccountEvent::Alert(alert) => self.alert(&alert),
            AccountEvent::Ready(station) => {
                self.call.is_due |= self.outlets.is_empty();
                self.lanes.ready(lane_of(station), Instant::now());
            }
            // What came back from a session before that has ended, too. What came since the count
            // is in the next one.
            AccountEvent::Waits(waits) => self.call.is_due = waits && self.outlets.is_empty(),
            AccountEvent::Look => self.lanes.look(Instant::now()),
            AccountEvent::LookSoon => self.lanes.look_soon(Instant::now()),
            AccountEvent::LookAgain => self.lanes.look_again(Instant::now()),
            AccountEvent::Completed { station, more } => self.lanes.completed(lane_of(station), more),
            AccountEvent::Closed => {}
        }
    }

    /// What is in flight waits for whoever has this account next: its sessions are ended, and it
    /// would be in flight until its claim is over.
    fn close(&mut self) {
        let all: Vec<(u64, u32)> = self.flights.keys().copied().collect();
        all.into_iter().for_each(|key| self.land(key, Landing::Lost));
    }

    fn tick(&mut self) {
        let response = self.front.timers().response;
        let stood = self.looks.spares(Instant::now());
        let overdue: Vec<(u64, u32)> = self
            .flights
            .iter()
            .filter(|flight| !stood && flight.1.sent.elapsed() >= response)
            .map(|flight| *flight.0)
            .collect();
        let silent: BTreeSet<u64> = overdue.iter().map(|key| key.0).collect();
        for outlet in self.outlets.iter_mut().filter(|outlet| silent.contains(&outlet.session)) {
            outlet.rest(response);
        }
        for key in overdue {
            self.front.metrics.unanswered.add(1);
            self.land(key, Landing::Lost);
        }
        self.outlets.retain(|outlet| !outlet.dead.load(Relaxed));
        let window = self.account.window_and_rate().0;
        self.outlets.iter_mut().for_each(|outlet| outlet.window = window);
        if !self.outlets.is_empty() {
            // What another process has put there nobody tells.
            match self.front.store.store().is_shared() {
                true => self.lanes.look(Instant::now()),
                false => self.lanes.look_again(Instant::now()),
            }
        } else if self.call.is_due && self.call.next <= Instant::now() {
            self.call();
        }
    }

    /// Calls the application, if it takes calls.
    fn call(&mut self) {
        let Some(config) = self.account.config().outbind else { return };
        self.call.next = Instant::now() + self.call.wait;
        self.call.wait = (self.call.wait * 2).min(CALL_AGAIN.1);
        tokio::spawn(outbind::call(Arc::clone(&self.front), Arc::clone(&self.account), config));
    }

    /// Sends an alert_notification, which has no answer, to one of the sessions; nobody keeps it
    /// for later.
    fn alert(&mut self, alert: &Alert) {
        self.sequence = if self.sequence >= 0x3fff_ffff { 1 } else { self.sequence + 1 };
        let mut octets = Vec::new();
        alert.write(&mut octets, self.sequence);
        // Versions that know no optional parameters do not know alerts either.
        let outlet = self.outlets.iter().find(|outlet| outlet.takes_parameters && !outlet.dead.load(Relaxed));
        if outlet.is_some_and(|outlet| outlet.out.try_send(Out::Octets(octets)).is_ok()) {
            self.front.metrics.alerts.add(1);
        }
    }

    /// The session with the most room, if any has room.
    fn outlet(&self) -> Option<&Outlet> {
        self.outlets.iter().filter(|outlet| outlet.room() > 0).max_by_key(|outlet| outlet.room())
    }

    /// Claims and sends as much as there is room for.
    async fn deliver(&mut self) {
        while self.outlet().is_some() && self.lanes.is_any_waiting() {
            let room: usize = self.outlets.iter().map(Outlet::room).sum();
            let most = room.min(self.front.store.store().named_claim_max());
            let lanes = self.lanes.take(most);
            let (count, begin) = (lanes.len(), Instant::now());
            let stations =
                lanes.into_iter().map(|lane| StationKey::lane(self.account.number, lane)).collect();
            let now_us = self.front.clock.now_us();
            let claim =
                Operation::Claim { channel: Channel::Stations(stations), spread: 0, max: most, now_us };
            match self.front.store.start(claim, Acknowledge::Early).await {
                Ok(Outcome::Claimed(deliveries)) => {
                    self.lanes.took(count, begin.elapsed());
                    for delivery in deliveries {
                        self.send(delivery);
                    }
                }
                Ok(_) => self.front.fail("a claim gives messages"),
                Err(error) => return self.front.fail(error),
            }
        }
    }

    /// Sends a message to a session.
    fn send(&mut self, delivery: Delivery) {
        self.lanes.sent(lane_of(delivery.station));
        self.sequence = if self.sequence >= 0x3fff_ffff { 1 } else { self.sequence + 1 };
        let sequence = self.sequence;
        let sent = self.outlet().and_then(|outlet| {
            let (mut octets, mut message) = (Vec::new(), message_for_application(&delivery.message));
            if !outlet.takes_parameters {
                message.tlvs.clear();
            }
            deliver(&mut octets, sequence, &message);
            outlet.out.try_send(Out::Octets(octets)).ok()?;
            outlet.deliveries.fetch_add(1, Relaxed);
            Some(outlet.session)
        });
        match sent {
            Some(session) => {
                let flight = Flight { delivery, sent: Instant::now() };
                self.flights.insert((session, sequence), flight);
            }
            None => self.complete(delivery, Landing::Lost),
        }
    }

    /// A flight has ended.
    fn land(&mut self, key: (u64, u32), landing: Landing) {
        // An answer that comes late, or twice, or to nothing.
        let Some(flight) = self.flights.remove(&key) else { return };
        if let Some(outlet) = self.outlets.iter().find(|outlet| outlet.session == key.0) {
            outlet.deliveries.fetch_sub(1, Relaxed);
        }
        self.complete(flight.delivery, landing);
    }

    /// Stores what became of a message.
    fn complete(&self, delivery: Delivery, landing: Landing) {
        let Delivery { station, epoch, attempts, message, .. } = delivery;
        let now_us = self.front.clock.now_us();
        let metrics = &self.front.metrics;
        let verdict = landing.verdict(attempts, now_us);
        let receipt = match verdict {
            Verdict::Final { state, error } => {
                match state {
                    State::Delivered => metrics.deliver_sm.add(1),
                    _ => metrics.undeliverable.add(1),
                }
                // A receipt has none itself.
                receipt(&message, state, error, now_us).filter(|_| message.receipt_of == 0)
            }
            Verdict::Temporary { .. } => {
                metrics.again.add(1);
                notification(&message, verdict.error(), now_us)
            }
        };
        let lane_of_receipt = receipt.as_ref().map(|receipt| receipt.dst_key);
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        let started = self.front.store.start(Operation::Complete(Box::new(completion)), Acknowledge::Durable);
        let under_way = UnderWay::new(&self.account.under_way);
        let (front, account) = (Arc::clone(&self.front), Arc::clone(&self.account));
        tokio::spawn(async move {
            let more = match started.await {
                Ok(Outcome::Completed(CompletionResult::Final(_))) => true,
                Ok(Outcome::Completed(CompletionResult::Again(_) | CompletionResult::Fenced)) => false,
                Ok(_) => return front.fail("a completion tells what became of it"),
                Err(error) => return front.fail(error),
            };
            account.tell(AccountEvent::Completed { station, more });
            if let Some(receiver) = lane_of_receipt
                && let Some(account) = receiver.account().and_then(|number| front.account(number))
            {
                account.tell(AccountEvent::Ready(receiver));
            }
            drop(under_way);
        });
    }
}

/// How a flight ends.
enum Landing {
    /// With this command_status.
    Answered(u32),
    /// Without an answer.
    Lost,
}

impl Landing {
    fn verdict(&self, attempts: u32, now_us: i64) -> Verdict {
        match *self {
            Landing::Lost => Verdict::Temporary { error: 0, absent: false, retry_us: now_us },
            Landing::Answered(status) => match Status::of(status) {
                Some(Status::Ok) => Verdict::Final { state: State::Delivered, error: 0 },
                Some(Status::PermanentApplication | Status::RejectedByApplication) => {
                    Verdict::Final { state: State::Undeliverable, error: status }
                }
                _ => {
                    let wait_us = AGAIN_US.saturating_mul(1 << attempts.min(16)).min(AGAIN_MAX_US);
                    Verdict::Temporary { error: status, absent: false, retry_us: now_us + wait_us }
                }
            },
        }
    }
}

/// A message as deliver_sm brings it.
fn message_for_application(message: &Message) -> Deliver {
    let mut tlvs = Vec::new();
    if message.receipt_of != 0 {
        receipt_tlvs(message, &mut tlvs);
    } else if let Ok(whole) = Tlvs::new(&message.tlvs) {
        // Which centres it has passed is theirs to know.
        tlvs = whole.without(tag::CENTRES_PASSED);
    }
    Deliver {
        service_type: message.service_type.clone(),
        source: source_of(message),
        destination: destination_of(message),
        esm_class: message.esm_class,
        protocol_id: message.protocol_id,
        priority: message.priority,
        // Acknowledgements of the application that the sender asks for.
        registered_delivery: message.registered_delivery & 0x0c,
        data_coding: message.data_coding,
        body: message.body.clone(),
        tlvs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session whose client reads nothing any more has no writer. It had the most room of all, so
    /// it was given each message, which came back at once, and the other sessions got none.
    #[test]
    fn a_session_without_a_writer_has_no_room() {
        let (out, outs) = mpsc::channel(4);
        let outlet = Outlet {
            session: 1,
            out,
            window: 3,
            takes_parameters: true,
            dead: Arc::default(),
            deliveries: Arc::default(),
            silent: (0, Instant::now()),
        };
        assert_eq!(outlet.room(), 3);
        outlet.deliveries.store(2, Relaxed);
        assert_eq!(outlet.room(), 1);
        drop(outs);
        assert_eq!(outlet.room(), 0);
    }
}
