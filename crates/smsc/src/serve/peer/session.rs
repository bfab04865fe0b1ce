//! One session with a peer: connects, binds, submits what is claimed, and takes what comes.

use super::{ACCOUNT_OF_PEER, Peer, shard_of_target};
use crate::centre::{
    Channel, Completion, Delivery, Forward, Operation, Outcome, PutBack, Refusal, Settlement, Verdict,
    notification, receipt,
};
use crate::model::{Message, State, StationKey, shard_of_peer};
use crate::serve::account::AccountEvent;
use crate::serve::front::{Front, UnderWay};
use crate::serve::log::Level;
use crate::serve::looks::Looks;
use crate::serve::stream::{ReadHalf, WriteHalf, hear_out, plain, secured};
use crate::serve::submission::{destination_of, source_of, submission};
use crate::serve::trace::Centre;
use crate::smpp::{
    Alert, Bind, BindKind, Command, Deliver, Framing, HEADER_OCTETS, Header, PeerReceipt, Status, Submit,
    Time, Tlvs, frame, names_old_version, pdu, response_message_id, tag,
};
use crate::store::{Acknowledge, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

/// How long a connection, its TLS and its bind may take, each.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a peer may take nothing of what is sent to it.
const STUCK: Duration = Duration::from_secs(60);
/// The longest time between two looks at the run queue.
const LOOK: Duration = Duration::from_millis(100);
/// Octets that are read at a time.
const CHUNK: usize = 8 << 10;
/// PDUs that may wait for the writer besides the window.
const SPARE: usize = 512;
/// deliver_sm that are being stored at a time; the next is read after one of them is answered.
const TAKING_MAX: usize = 256;
/// Receipts besides these whose message is looked for again. More of them would be a load for the
/// store, which looks for each five times.
const WAITING_MAX: usize = 1024;
/// Octets that short_message has room for.
const SHORT_MAX: usize = 254;
/// The first pause after ESME_RTHROTTLED; it doubles up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A message that a peer refuses for now comes again after so long, and twice as long each time, up
/// to the second, µs.
const AGAIN_US: (i64, i64) = (5_000_000, 600_000_000);
/// When a receipt is looked for again whose message is not known yet: its submit_sm_resp may be
/// under way, as receipts overtake it in other sessions.
const LOOK_AGAIN: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(300),
    Duration::from_millis(800),
    Duration::from_secs(2),
];
/// How long a peer is heard that has been told the last, until it closes its side.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long the end of the server waits for answers.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Why a session has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("{address}: {source}")]
    Connect { address: String, source: std::io::Error },
    #[error("{address}: no TLS: {source}")]
    Tls { address: String, source: std::io::Error },
    #[error("{address}: no answer in {} s", PATIENCE.as_secs())]
    Slow { address: String },
    #[error("the bind of {system_id} is refused: {status}")]
    Bind { system_id: String, status: String },
    #[error("the connection has broken: {0}")]
    Broken(std::io::Error),
    #[error("the peer has ended the session")]
    Ended,
    #[error("the peer is silent")]
    Silent,
    #[error("the peer takes nothing of what is sent to it")]
    Deaf,
    #[error("the peer sends what is no PDU of SMPP")]
    Framing,
    #[error("the session is over")]
    Stopped,
}

fn name_of(status: u32) -> String {
    Status::of(status).map_or_else(|| format!("{status:#010x}"), |status| status.name().into())
}

/// Connects, binds and serves until the session ends.
pub(super) async fn run(front: &Arc<Front>, peer: &Arc<Peer>, kind: BindKind) -> End {
    match open(peer, kind).await {
        Ok(opened) => {
            front.metrics.peer_binds.add(1);
            front.log.at(Level::Info, "peer_bound").text("peer", &peer.config.name);
            serve(front, peer, kind, opened).await
        }
        Err(end) => end,
    }
}

/// What was read behind the answer to the bind is the third; the last, whether the peer gets
/// optional parameters.
type Opened = (ReadHalf, WriteHalf, Vec<u8>, bool);

async fn open(peer: &Peer, kind: BindKind) -> Result<Opened, End> {
    let config = &peer.config;
    let address = || config.address.clone();
    let slow = |_| End::Slow { address: address() };
    let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(&config.address)).await;
    let stream = connected.map_err(slow)?.map_err(|source| End::Connect { address: address(), source })?;
    let _ = stream.set_nodelay(true);
    let (mut read, mut write) = match &config.tls {
        None => plain(stream),
        Some(tls) => {
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&tls.client));
            let hello = connector.connect(tls.name.clone(), stream);
            let hello = tokio::time::timeout(PATIENCE, hello).await.map_err(slow)?;
            secured(hello.map_err(|source| End::Tls { address: address(), source })?)
        }
    };
    let command = match kind {
        BindKind::Transceiver => Command::BindTransceiver,
        BindKind::Transmitter => Command::BindTransmitter,
        BindKind::Receiver => Command::BindReceiver,
    };
    let bind = Bind {
        system_id: config.system_id.clone(),
        password: config.password.clone(),
        system_type: config.system_type.clone(),
        interface_version: 0x34,
    };
    let mut out = Vec::new();
    bind.write(&mut out, command, 1);
    let mut input = Vec::new();
    let bound = async {
        write.write_all(&out).await.map_err(End::Broken)?;
        loop {
            match frame(&input) {
                Framing::Pdu(header) => {
                    let whole: Vec<u8> = input.drain(..header.length as usize).collect();
                    let is_answer = header.command == command.response() as u32;
                    let is_nack = header.command == Command::GenericNack as u32;
                    if is_answer && header.status == 0 {
                        return Ok(names_old_version(whole.get(HEADER_OCTETS..).unwrap_or_default()));
                    }
                    if is_answer || is_nack {
                        let status = name_of(header.status);
                        return Err(End::Bind { system_id: config.system_id.clone(), status });
                    }
                    // An enquire_link, or an outbind: the bind is the answer.
                }
                Framing::Incomplete(_) => {
                    input.reserve(CHUNK);
                    if read.read_buf(&mut input).await.map_err(End::Broken)? == 0 {
                        return Err(End::Ended);
                    }
                }
                Framing::TooLong(_) | Framing::Lost(_) => return Err(End::Framing),
            }
        }
    };
    let is_old = tokio::time::timeout(PATIENCE, bound).await.map_err(slow)??;
    Ok((read, write, input, config.parameters.unwrap_or(!is_old)))
}

/// A message in flight.
struct Flight {
    delivery: Delivery,
    sent: Instant,
}

/// Answers that are being stored. They keep their place in the window until they are: a submit_sm
/// whose answer is not comes again after a kill -9.
#[derive(Default)]
struct Landings {
    count: AtomicUsize,
    stored: Notify,
}

/// An answer that is being stored.
struct Landing(Arc<Landings>);

impl Landing {
    fn begin(landings: &Arc<Landings>) -> Landing {
        landings.count.fetch_add(1, Relaxed);
        Landing(Arc::clone(landings))
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Relaxed);
        self.0.stored.notify_one();
    }
}

struct Session {
    front: Arc<Front>,
    peer: Arc<Peer>,
    kind: BindKind,
    /// Whether the peer gets optional parameters.
    takes_parameters: bool,
    out: mpsc::Sender<Vec<u8>>,
    flights: HashMap<u32, Flight>,
    landings: Arc<Landings>,
    sequence: u32,
    /// The peer wants less: nothing is submitted until then.
    paused: Option<Instant>,
    pause: Duration,
    /// Messages that may be submitted now, where there is a rate; and since when they were counted.
    tokens: (f64, Instant),
    taking: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

async fn serve(front: &Arc<Front>, peer: &Arc<Peer>, kind: BindKind, opened: Opened) -> End {
    let (mut read, write, mut input, takes_parameters) = opened;
    // The end of the server waits for the answers to what is in flight.
    let _under_way = UnderWay::new(&front.under_way);
    let (out, outs) = mpsc::channel(peer.config.window + SPARE);
    let writer = tokio::spawn(write_all(write, outs));
    let mut session = Session {
        front: Arc::clone(front),
        peer: Arc::clone(peer),
        kind,
        takes_parameters,
        out,
        flights: HashMap::new(),
        landings: Arc::default(),
        sequence: 1,
        paused: None,
        pause: PAUSE.0,
        tokens: (1.0, Instant::now()),
        taking: Arc::new(Semaphore::new(TAKING_MAX)),
        waiting: Arc::new(Semaphore::new(WAITING_MAX)),
    };
    if kind.submits() {
        peer.enter();
    }
    let end = session.go(&mut read, &mut input).await;
    if kind.submits() {
        peer.leave();
    }
    // Nobody knows whether these have arrived: at once again, to whoever is there.
    for (_, flight) in std::mem::take(&mut session.flights) {
        session.put_back(flight.delivery, front.clock.now_us());
    }
    drop(session);
    // What is being stored may still be answered.
    let _ = tokio::time::timeout(Duration::from_secs(2), writer).await;
    // And arrives. What the peer sends meanwhile it sends again, in the next session.
    let _ = tokio::time::timeout(LAST_WORDS, hear_out(&mut read)).await;
    end
}

/// Writes PDUs until nobody sends any.
async fn write_all(mut stream: WriteHalf, mut outs: mpsc::Receiver<Vec<u8>>) {
    let mut octets = Vec::new();
    while let Some(first) = outs.recv().await {
        octets.extend_from_slice(&first);
        while octets.len() < 64 << 10
            && let Ok(next) = outs.try_recv()
        {
            octets.extend_from_slice(&next);
        }
        match tokio::time::timeout(STUCK, stream.write_all(&octets)).await {
            Ok(Ok(())) => {}
            // The reader sees that the connection has ended.
            _ => break,
        }
        if tokio::time::timeout(STUCK, stream.flush()).await.is_err() {
            break;
        }
        octets.clear();
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.shutdown()).await;
}

impl Session {
    async fn go(&mut self, read: &mut ReadHalf, input: &mut Vec<u8>) -> End {
        let (mut closed, mut stopping) = (self.peer.closed.subscribe(), self.front.stopping());
        let (mut heard, mut enquired, mut stops) = (Instant::now(), false, None::<Instant>);
        let enquire_link = self.peer.config.enquire_link;
        let (mut skip, mut looks) = (0_usize, Looks::new(Instant::now()));
        loop {
            if let Some(end) = self.take(input, &mut skip).await {
                return end;
            }
            // Behind what has come. Where this process stood still, its timers are over before what
            // has come meanwhile is seen.
            if !looks.spares(Instant::now()) {
                self.land_overdue();
            }
            if stops.is_none() && (*closed.borrow() || *stopping.borrow()) {
                stops = Some(Instant::now());
            }
            if let Some(since) = stops
                && (self.flights.is_empty() || since.elapsed() >= LAST_ANSWERS)
            {
                let sequence = self.next_sequence();
                self.send(|out| pdu(out, Command::Unbind as u32, Status::Ok, sequence, |_| ())).await;
                return End::Stopped;
            }
            if stops.is_none()
                && self.kind.submits()
                && let Err(error) = self.claim().await
            {
                self.front.fail(error);
                return End::Stopped;
            }
            let silence = if enquired { enquire_link * 2 } else { enquire_link };
            let wait = silence.saturating_sub(heard.elapsed());
            let wait = if self.kind.submits() || stops.is_some() { wait.min(LOOK) } else { wait };
            input.reserve(CHUNK);
            let (peer, landings) = (Arc::clone(&self.peer), Arc::clone(&self.landings));
            let got = tokio::select! {
                // What the peer has said is heard before it is said to be silent.
                biased;
                got = read.read_buf(input) => Some(got),
                () = tokio::time::sleep(wait) => None,
                () = peer.wake.notified(), if self.has_room() && stops.is_none() => None,
                () = landings.stored.notified(), if !self.has_room() && stops.is_none() => None,
                () = async { _ = closed.wait_for(|closed| *closed).await }, if stops.is_none() => None,
                () = async { _ = stopping.wait_for(|stops| *stops).await }, if stops.is_none() => None,
            };
            match got {
                Some(Ok(0)) => return End::Ended,
                Some(Err(error)) => return End::Broken(error),
                Some(Ok(_)) => (heard, enquired) = (Instant::now(), false),
                None => {}
            }
            if heard.elapsed() >= enquire_link * 2 {
                return End::Silent;
            }
            // It may have much to say all the same.
            if self.out.is_closed() {
                return End::Deaf;
            }
            if heard.elapsed() >= enquire_link && !enquired {
                enquired = true;
                let sequence = self.next_sequence();
                self.send(|out| pdu(out, Command::EnquireLink as u32, Status::Ok, sequence, |_| ())).await;
            }
        }
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = if self.sequence >= 0x7fff_fffe { 1 } else { self.sequence + 1 };
        self.sequence
    }

    async fn send(&self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut octets = Vec::new();
        fill(&mut octets);
        // A writer that has ended: the reader sees it, too.
        let _ = self.out.send(octets).await;
    }

    async fn answer(&self, command: Command, status: Status, sequence: u32) {
        let has_id = matches!(command, Command::DeliverSm | Command::DataSm);
        self.send(|out| answer(out, command, status, sequence, has_id)).await;
    }

    /// Takes the PDUs that have come whole; why the session ends, if it does.
    async fn take(&mut self, input: &mut Vec<u8>, skip: &mut usize) -> Option<End> {
        let mut taken = 0;
        let end = loop {
            let skipped = (*skip).min(input.len() - taken);
            (taken, *skip) = (taken + skipped, *skip - skipped);
            match frame(&input[taken..]) {
                Framing::Incomplete(_) => break None,
                Framing::Pdu(header) => {
                    let body = taken + HEADER_OCTETS..taken + header.length as usize;
                    taken = body.end;
                    if let Some(end) = self.handle(header, &input[body]).await {
                        break Some(end);
                    }
                }
                Framing::TooLong(header) => {
                    *skip = header.length as usize;
                    self.nack(Status::CommandLength, header.sequence).await;
                }
                Framing::Lost(header) => {
                    self.nack(Status::CommandLength, header.sequence).await;
                    break Some(End::Framing);
                }
            }
        };
        input.drain(..taken);
        end
    }

    async fn nack(&self, status: Status, sequence: u32) {
        self.front.metrics.malformed.add(1);
        self.send(|out| pdu(out, Command::GenericNack as u32, status, sequence, |_| ())).await;
    }

    async fn handle(&mut self, header: Header, body: &[u8]) -> Option<End> {
        let sequence = header.sequence;
        let command = Command::of(header.command);
        match command {
            Some(Command::SubmitSmResp | Command::GenericNack) => self.land(header, body),
            Some(Command::EnquireLink) => self.answer(Command::EnquireLink, Status::Ok, sequence).await,
            Some(Command::Unbind) => {
                self.answer(Command::Unbind, Status::Ok, sequence).await;
                return Some(End::Ended);
            }
            Some(Command::UnbindResp) => return Some(End::Ended),
            Some(command @ (Command::DeliverSm | Command::DataSm)) if self.kind.receives() => {
                let read = match command {
                    Command::DeliverSm => Deliver::read(body),
                    _ => Deliver::read_data(body),
                };
                match read {
                    Ok(deliver) => self.deliver(command, sequence, deliver).await,
                    Err(status) => {
                        self.front.metrics.malformed.add(1);
                        self.answer(command, status, sequence).await;
                    }
                }
            }
            Some(command @ (Command::DeliverSm | Command::DataSm)) => {
                self.answer(command, Status::BindStatus, sequence).await;
            }
            // It has no answer.
            Some(Command::AlertNotification) => self.alert(body),
            Some(command) if command.is_response() => {}
            None if header.command & 0x8000_0000 != 0 => {}
            _ => self.nack(Status::CommandId, sequence).await,
        }
        None
    }

    /// An alert_notification goes on to the application whose address it names.
    fn alert(&self, body: &[u8]) {
        let Ok(alert) = Alert::read(body) else { return self.front.metrics.malformed.add(1) };
        let number = self.front.account_of_number(alert.esme.text.trim_start_matches('+'));
        if let Some(account) = number.and_then(|number| self.front.account(number)) {
            account.tell(AccountEvent::Alert(alert));
        }
    }

    /// Messages that are submitted, and whose answer is not stored.
    fn under_way(&self) -> usize {
        self.flights.len() + self.landings.count.load(Relaxed)
    }

    fn has_room(&self) -> bool {
        self.under_way() < self.peer.config.window && self.paused.is_none()
    }

    /// How many messages may be submitted now.
    fn room(&mut self) -> usize {
        let now = Instant::now();
        if self.paused.is_some_and(|until| now < until) {
            return 0;
        }
        self.paused = None;
        let most = self.front.store.store().named_claim_max();
        let room = self.peer.config.window.saturating_sub(self.under_way()).min(most);
        let rate = f64::from(self.peer.config.rate);
        if rate == 0.0 {
            return room;
        }
        let (tokens, since) = self.tokens;
        // A tenth of a second's messages at a time, at least one.
        let most = (rate / 10.0).max(1.0);
        self.tokens = ((tokens + rate * (now - since).as_secs_f64()).min(most), now);
        room.min(self.tokens.0 as usize)
    }

    /// Claims and submits as much as there is room for.
    async fn claim(&mut self) -> Result<(), StoreError> {
        loop {
            let room = self.room();
            if room == 0 {
                return Ok(());
            }
            let number = self.peer.config.number;
            let now_us = self.front.clock.now_us();
            let claim = Operation::Claim { channel: Channel::Peer(number), spread: 0, max: room, now_us };
            let Outcome::Claimed(deliveries) = self.front.store.start(claim, Acknowledge::Early).await?
            else {
                return Err(StoreError::protocol("a claim gives messages"));
            };
            let count = deliveries.len();
            for delivery in deliveries {
                let message = &delivery.message;
                if self.front.goes_through(number, message.account, &message.dst) {
                    self.submit(delivery).await;
                } else {
                    // Routes have changed since it was queued.
                    let target = self.front.target(message.account, &message.dst);
                    let shard = shard_of_target(target, delivery.station);
                    self.put_in(delivery, shard, now_us);
                    self.front.wake_target(target);
                }
            }
            if count < room {
                return Ok(());
            }
        }
    }

    async fn submit(&mut self, delivery: Delivery) {
        if !self.takes_parameters && delivery.message.body.len() > SHORT_MAX {
            // It has no other place than message_payload.
            self.front.metrics.undeliverable.add(1);
            return self.end(delivery, State::Rejected, Status::MessageLength as u32);
        }
        let sequence = self.next_sequence();
        let mut submit = message_for_peer(&delivery.message, self.peer.config.receipts, self.front.centre);
        if !self.takes_parameters {
            submit.tlvs.clear();
        }
        if self.peer.config.rate > 0 {
            self.tokens.0 -= 1.0;
        }
        self.front.metrics.peer_submits.add(1);
        self.flights.insert(sequence, Flight { delivery, sent: Instant::now() });
        self.send(|out| submit.write(out, sequence)).await;
    }

    /// Flights whose answer is overdue end as refused for now: the peer may have them, and each
    /// further attempt may double them, so they come later each time.
    fn land_overdue(&mut self) {
        let response = self.peer.config.response;
        let is_overdue = |flight: &Flight| flight.sent.elapsed() >= response;
        let overdue: Vec<u32> =
            self.flights.iter().filter(|flight| is_overdue(flight.1)).map(|flight| *flight.0).collect();
        for sequence in overdue {
            self.front.metrics.unanswered.add(1);
            if let Some(flight) = self.flights.remove(&sequence) {
                self.refused_for_now(flight.delivery, 0);
            }
        }
    }

    /// The answer to a submit_sm.
    fn land(&mut self, header: Header, body: &[u8]) {
        let Some(Flight { delivery, .. }) = self.flights.remove(&header.sequence) else { return };
        let now_us = self.front.clock.now_us();
        let status = Status::of(header.status);
        if header.command == Command::SubmitSmResp as u32 && status == Some(Status::Ok) {
            self.pause = (self.pause / 2).max(PAUSE.0);
            return self.accepted(delivery, body, now_us);
        }
        match status {
            Some(Status::Throttled) => {
                let pause_us = i64::try_from(self.pause.as_micros()).unwrap_or(i64::MAX);
                if self.paused.is_none() {
                    self.front.metrics.peer_throttled.add(1);
                    self.paused = Some(Instant::now() + self.pause);
                    self.pause = (self.pause * 2).min(PAUSE.1);
                }
                self.put_back(delivery, now_us.saturating_add(pause_us));
            }
            Some(
                Status::QueueFull
                | Status::SystemError
                | Status::TemporaryApplication
                | Status::BindStatus
                | Status::SubmitFailed,
            ) => self.refused_for_now(delivery, header.status),
            _ => {
                self.front.metrics.undeliverable.add(1);
                self.end(delivery, State::Rejected, header.status);
            }
        }
    }

    /// The peer has the message.
    fn accepted(&self, delivery: Delivery, body: &[u8], now_us: i64) {
        self.front.metrics.forwarded.add(1);
        let config = &self.peer.config;
        let id = response_message_id(body).unwrap_or_default();
        if !config.receipts {
            // Nothing more will be heard of it.
            return self.end(delivery, State::Delivered, 0);
        }
        if id.is_empty() {
            // No receipt could ever be told to be this message's, and nobody said that it arrived.
            let line = self.front.log.at(Level::Warn, "peer_answer_without_id");
            line.text("peer", &config.name).number("message", delivery.message.msg_id);
            return self.end(delivery, State::Unknown, 0);
        }
        let Delivery { station, epoch, message, .. } = delivery;
        let wait_us = i64::try_from(config.receipt_wait.as_micros()).unwrap_or(i64::MAX);
        let forward = Forward {
            station,
            epoch,
            msg_id: message.msg_id,
            peer: config.number.into(),
            peer_id: config.message_ids.comparable(&id, false),
            due_us: message.expire_us.max(now_us).saturating_add(wait_us),
            now_us,
        };
        self.start(Operation::Forward(Box::new(forward)), None);
    }

    fn refused_for_now(&self, delivery: Delivery, error: u32) {
        self.front.metrics.again.add(1);
        let now_us = self.front.clock.now_us();
        let wait_us = AGAIN_US.0.saturating_mul(1 << delivery.attempts.min(16)).min(AGAIN_US.1);
        let verdict = Verdict::Temporary { error, absent: false, retry_us: now_us.saturating_add(wait_us) };
        let receipt = notification(&delivery.message, error, now_us);
        self.complete(delivery, verdict, receipt);
    }

    fn end(&self, delivery: Delivery, state: State, error: u32) {
        let receipt = receipt(&delivery.message, state, error, self.front.clock.now_us());
        self.complete(delivery, Verdict::Final { state, error }, receipt);
    }

    fn complete(&self, delivery: Delivery, verdict: Verdict, receipt: Option<Box<Message>>) {
        let Delivery { station, epoch, message, .. } = delivery;
        let now_us = self.front.clock.now_us();
        let lane = receipt.as_ref().map(|receipt| receipt.dst_key);
        let completion = Completion { station, epoch, message, verdict, receipt, now_us };
        self.start(Operation::Complete(Box::new(completion)), lane);
    }

    fn put_back(&self, delivery: Delivery, ready_us: i64) {
        self.put_in(delivery, shard_of_peer(self.peer.config.number), ready_us);
    }

    fn put_in(&self, delivery: Delivery, shard: u16, ready_us: i64) {
        let Delivery { station, epoch, message, .. } = delivery;
        let back = PutBack { station, epoch, msg_id: message.msg_id, shard, ready_us };
        self.start(Operation::PutBack(back), None);
    }

    /// Starts an operation in its turn, and wakes whoever waits for it once it is stored.
    fn start(&self, operation: Operation, lane: Option<StationKey>) {
        let started = self.front.store.start(operation, Acknowledge::Durable);
        let (under_way, landing) = (UnderWay::new(&self.front.under_way), Landing::begin(&self.landings));
        let (front, peer) = (Arc::clone(&self.front), Arc::clone(&self.peer));
        tokio::spawn(async move {
            if let Err(error) = started.await {
                return front.fail(error);
            }
            drop(landing);
            wake_lane(&front, lane);
            // The mobile may have more.
            peer.wake.notify_one();
            drop(under_way);
        });
    }

    /// A deliver_sm or data_sm: a receipt, or a message to an application. Answered once it is
    /// stored.
    async fn deliver(&mut self, command: Command, sequence: u32, deliver: Deliver) {
        let Ok(mut place) = Arc::clone(&self.taking).acquire_owned().await else { return };
        let out = self.out.clone();
        let under_way = UnderWay::new(&self.front.under_way);
        // Messages from one address keep their order: a message is handed to the store here.
        let kind = match deliver.esm_class & 0x3c {
            0 if self.peer.config.unmarked_receipts && PeerReceipt::is_told_by(&deliver.tlvs) => 0x04,
            kind => kind,
        };
        let taken: std::pin::Pin<Box<dyn Future<Output = (Status, OwnedSemaphorePermit)> + Send>> = match kind
        {
            0x04 | 0x20 => {
                self.front.metrics.peer_receipts.add(1);
                let (front, peer) = (Arc::clone(&self.front), Arc::clone(&self.peer));
                let waiting = Arc::clone(&self.waiting);
                Box::pin(async move {
                    let status = settle(&front, &peer, deliver, kind == 0x20, (&mut place, &waiting)).await;
                    (status, place)
                })
            }
            _ => {
                let message = self.take_message(deliver);
                Box::pin(async move { (message.await, place) })
            }
        };
        tokio::spawn(async move {
            let (status, place) = taken.await;
            let mut octets = Vec::new();
            answer(&mut octets, command, status, sequence, true);
            // The session may have ended: then the peer sends it again.
            let _ = out.send(octets).await;
            drop((place, under_way));
        });
    }

    /// A message for the application that has its destination.
    fn take_message(&self, deliver: Deliver) -> std::pin::Pin<Box<dyn Future<Output = Status> + Send>> {
        let front = Arc::clone(&self.front);
        let digits = deliver.destination.text.trim_start_matches('+');
        let Some(receiver) = front.account_of_number(digits) else {
            front.metrics.refused.add(1);
            // The status with which a receiver refuses a message for good (SMPP 3.4 §5.1.3).
            return Box::pin(std::future::ready(Status::RejectedByApplication));
        };
        if *front.stopping().borrow() {
            return Box::pin(std::future::ready(Status::TemporaryApplication));
        }
        let submit = Submit {
            service_type: deliver.service_type,
            source: deliver.source,
            destination: deliver.destination,
            esm_class: deliver.esm_class,
            protocol_id: deliver.protocol_id,
            priority: deliver.priority.min(3),
            schedule: Time::None,
            validity: Time::None,
            // Receipts are not for centres; the bits of acknowledgements go on to the application.
            registered_delivery: deliver.registered_delivery & 0x0c,
            replaces: false,
            data_coding: deliver.data_coding,
            body: deliver.body,
            tlvs: deliver.tlvs,
            segment: None,
        };
        let account = ACCOUNT_OF_PEER | u32::from(self.peer.config.number);
        let submission = match submission(&front, account, submit, front.clock.now_us()) {
            Ok(submission) => submission,
            // The store is silent, or too much waits for the application: later it is taken.
            Err(Status::Throttled | Status::QueueFull) => {
                front.metrics.refused.add(1);
                return Box::pin(std::future::ready(Status::TemporaryApplication));
            }
            Err(_) => return Box::pin(std::future::ready(Status::PermanentApplication)),
        };
        let lane = submission.message.dst_key;
        let started = front.store.start(Operation::Receive(Box::new(submission)), Acknowledge::Durable);
        Box::pin(async move {
            match started.await {
                Ok(Outcome::Received(_)) => {
                    front.metrics.from_peers.add(1);
                    if let Some(account) = front.account(receiver) {
                        account.tell(AccountEvent::Ready(lane));
                    }
                    Status::Ok
                }
                Ok(Outcome::Refused(Refusal::QueueFull | Refusal::Throttled)) => Status::TemporaryApplication,
                Ok(_) => Status::PermanentApplication,
                Err(error) => {
                    front.fail(error);
                    Status::TemporaryApplication
                }
            }
        })
    }
}

fn wake_lane(front: &Front, lane: Option<StationKey>) {
    if let Some(lane) = lane
        && let Some(account) = lane.account().and_then(|number| front.account(number))
    {
        account.tell(AccountEvent::Ready(lane));
    }
}

/// What a receipt or an intermediate notification tells becomes the state of its message. One whose
/// message is not known gives its place to others while it is looked for again, and takes one among
/// those that wait, as long as there are any: else receipts of nobody's messages, which a centre
/// sends by the thousand after it has lost its own state, kept those behind them for three seconds.
async fn settle(
    front: &Front,
    peer: &Peer,
    deliver: Deliver,
    is_notification: bool,
    (place, waiting): (&mut OwnedSemaphorePermit, &Arc<Semaphore>),
) -> Status {
    let Some(told) = PeerReceipt::of(&deliver.body, &deliver.tlvs) else {
        front.metrics.malformed.add(1);
        return Status::PermanentApplication;
    };
    // Some write a number differently in the text alone. That of the parameter, which counts, is as
    // in their answer.
    let ids = peer.config.message_ids;
    let as_answered = ids.comparable(&told.message_id, false);
    let written = PeerReceipt::id_in_text(&deliver.body);
    let is_as_answered = written.is_some_and(|id| ids.comparable(&id, true) == as_answered);
    let settlement = Settlement {
        peer: peer.config.number.into(),
        peer_id: if is_as_answered { as_answered } else { ids.comparable(&told.message_id, true) },
        state: told.state.filter(|_| !is_notification),
        error: told.error,
        now_us: front.clock.now_us(),
    };
    // It may be long, and many may wait.
    drop(deliver);
    let mut waits = false;
    for wait in LOOK_AGAIN.into_iter().map(Some).chain([None]) {
        let settle = Operation::Settle(Box::new(settlement.clone()));
        match front.store.start(settle, Acknowledge::Durable).await {
            Ok(Outcome::Settled(lane)) => {
                wake_lane(front, lane);
                return Status::Ok;
            }
            Ok(_) => {}
            Err(error) => {
                front.fail(error);
                return Status::TemporaryApplication;
            }
        }
        if *front.stopping().borrow() {
            return Status::TemporaryApplication;
        }
        if !waits && let Ok(other) = Arc::clone(waiting).try_acquire_owned() {
            (*place, waits) = (other, true);
        }
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
    }
    // Of a message that has its final state, or whose submit_sm_resp was lost and that was
    // submitted again under another number: nobody waits for it, and it need not come again.
    front.metrics.peer_receipts_unmatched.add(1);
    Status::Ok
}

/// Appends an answer; that to deliver_sm and data_sm has an empty message_id.
fn answer(out: &mut Vec<u8>, command: Command, status: Status, sequence: u32, has_id: bool) {
    pdu(out, command.response() as u32, status, sequence, |out| {
        if has_id {
            out.push(0);
        }
    });
}

/// A message as submit_sm takes it to a peer.
fn message_for_peer(message: &Message, receipts: bool, centre: Centre) -> Submit {
    let has_header = message.esm_class & crate::text::ESM_UDHI != 0;
    let mut tlvs = Vec::new();
    if let Ok(all) = Tlvs::new(&message.tlvs) {
        for (tag, value) in all.iter() {
            // The end of validity is written out, and a part has its place in its header.
            let is_double = [tag::QOS_TIME_TO_LIVE, tag::CENTRES_PASSED].contains(&tag)
                || has_header && [tag::SAR_REFERENCE, tag::SAR_TOTAL, tag::SAR_NUMBER].contains(&tag);
            if !is_double {
                crate::smpp::write_tlv(&mut tlvs, tag, value);
            }
        }
    }
    centre.sign(&message.tlvs, &mut tlvs);
    Submit {
        service_type: message.service_type.clone(),
        source: source_of(message),
        destination: destination_of(message),
        esm_class: message.esm_class,
        protocol_id: message.protocol_id,
        priority: message.priority,
        schedule: Time::None,
        validity: Time::Absolute(message.expire_us),
        // Its state is wanted whatever the application asks for.
        registered_delivery: u8::from(receipts) | message.registered_delivery & 0x1c,
        replaces: false,
        data_coding: message.data_coding,
        body: message.body.clone(),
        tlvs,
        segment: None,
    }
}
