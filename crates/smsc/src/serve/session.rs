//! One connection: a task that reads PDUs, and one that writes answers and deliveries.

use super::account::{AccountEvent, Outlet};
use super::answers::Answers;
use super::front::{Account, Front, UnderWay};
use super::places::UnboundConnection;
use super::sessions::{Entry, Place};
use super::source::Source;
use super::stream::{ReadHalf, WriteHalf, hear_out};
use super::submission::{refusal_status, submission, target_of};
use super::turns::{SLICE, Turn};
use crate::centre::{Form, Operation, Outcome, Refusal, Replacement, Status as MessageStatus, Submission};
use crate::model::StationKey;
use crate::smpp::{
    Address, Bind, BindKind, Cancel, Command, Destination, Framing, Header, MultiResponse, Query, Replace,
    Status, Submit, SubmitMulti, Time, bind_response, format_time, frame, message_response, pdu,
    query_response,
};
use crate::store::{Acknowledge, StartedOperation};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Octets that are read at a time.
const CHUNK: usize = 8 << 10;
/// Octets of answers that are written at a time.
const WRITE: usize = 64 << 10;
/// What may wait for the writer besides windows.
const SPARE: usize = 64;
/// Messages that a cancel_sm without a number takes back at a time.
const CANCELS: usize = 64;
/// How long a client that does not read is waited for when its session ends.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(2);
/// The same where somebody else waits for its place, which is not for long ([`super::places`]).
const DRIVEN_OUT: std::time::Duration = std::time::Duration::from_millis(20);

/// How long a client is heard that has been told the last, until it closes its side.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(1);
/// How long the end of the server waits for the answers to what a session was sent.
const LAST_ANSWERS: std::time::Duration = std::time::Duration::from_secs(3);
/// How long a client may take nothing of what is sent to it.
const STUCK: std::time::Duration = std::time::Duration::from_secs(60);

/// What the writer sends next.
pub(super) enum Out {
    /// These octets: whole PDUs.
    Octets(Vec<u8>),
    /// The answer to a message, once it is durable.
    Accepted {
        command: Command,
        sequence: u32,
        started: StartedOperation,
        since: Instant,
        under_way: UnderWay,
    },
    /// The answer to a submit_multi, once all of its messages are.
    Multi {
        sequence: u32,
        messages: Vec<(Address, Result<OneOfMany, Status>)>,
        since: Instant,
        under_way: UnderWay,
    },
    /// Nothing more.
    End,
}

/// A message of a submit_multi.
pub(super) enum OneOfMany {
    /// It is being stored.
    Started(StartedOperation),
    /// The one that has this number is what it is now.
    Replaced(i64),
}

/// The place that a connection has.
pub(super) enum Seat {
    /// Among those that are not bound.
    Unbound(UnboundConnection),
    /// Among those that are, or have been called.
    Bound(#[expect(dead_code, reason = "its end gives the place back")] OwnedSemaphorePermit),
}

/// Serves a connection until it ends.
pub(super) async fn run(
    front: Arc<Front>,
    peer: Option<SocketAddr>,
    (mut read, write): (ReadHalf, WriteHalf),
    seat: Seat,
) {
    front.metrics.connections.add(1);
    let (out, outs) = mpsc::channel(SPARE + super::config::DELIVERIES_MAX);
    let window = Arc::new(AtomicUsize::new(0));
    let (number, deliveries) = (front.next_session(), Arc::default());
    let place = Place::new((&front.sessions, &front.log), number, peer, (&window, &deliveries));
    let entry = Arc::clone(&place.entry);
    let writer = tokio::spawn(write_all(Arc::clone(&front), write, outs, Arc::clone(&entry)));
    let driven_out = match &seat {
        Seat::Unbound(stranger) => Arc::clone(&stranger.driven_out),
        Seat::Bound(_) => Arc::default(),
    };
    let mut session = Session {
        front: Arc::clone(&front),
        number,
        source: peer.map_or_else(Source::unknown, |peer| Source::of(peer.ip())),
        place,
        seat,
        out,
        window,
        bound: None,
        enquiry: 0,
        dead: Arc::new(AtomicBool::new(false)),
        deliveries,
        answers: Answers::new(),
        turn: Mutex::default(),
        left: AtomicU32::new(0),
    };
    let out = session.out.clone();
    let mut farewell = FAREWELL;
    tokio::select! {
        () = session.read(&mut read) => {}
        // The client has taken nothing for too long: what it says is of no use.
        () = out.closed() => {}
        // An operator ends it.
        () = entry.kick.notified() => session.unbind().await,
        // Somebody else wants its place.
        () = driven_out.notified() => {
            front.metrics.driven_out.add(1);
            farewell = DRIVEN_OUT;
        }
    }
    session.dead.store(true, Relaxed);
    // The writer may take a minute for a client that does not read; others submit meanwhile.
    session.give_turn();
    let was_bound = session.bound.is_some();
    if let Some(bound) = session.bound.take() {
        if bound.kind.receives() {
            bound.account.tell(AccountEvent::Gone(session.number));
        }
        bound.account.leave();
    }
    let abort = writer.abort_handle();
    // The writer ends after all that is before this, or with the connection.
    let ended = async {
        let _ = session.out.send(Out::End).await;
        let _ = writer.await;
    };
    if was_bound {
        ended.await;
    } else {
        // Who is not bound is not waited for, least of all while others want its place.
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep(farewell) => {}
            () = driven_out.notified() => {}
        }
        abort.abort();
    }
    // It is gone from the list, and keeps its seat until the client has closed its side, too.
    let Session { place, seat, .. } = session;
    drop(place);
    if was_bound {
        let _ = tokio::time::timeout(LAST_WORDS, hear_out(&mut read)).await;
    }
    front.metrics.connections_ended.add(1);
    drop(seat);
}

/// An application's session.
struct Bound {
    account: Arc<Account>,
    kind: BindKind,
}

struct Session {
    front: Arc<Front>,
    number: u64,
    /// Where it comes from.
    source: Source,
    /// Among all connections.
    place: Place,
    /// What it takes up.
    seat: Seat,
    out: mpsc::Sender<Out>,
    /// Submissions that have no answer yet.
    window: Arc<AtomicUsize>,
    bound: Option<Bound>,
    /// Sequence number of the last enquire_link.
    enquiry: u32,
    /// Whether it has ended.
    dead: Arc<AtomicBool>,
    /// Deliveries without an answer.
    deliveries: Arc<AtomicUsize>,
    /// Room for the answers to them.
    answers: Answers,
    /// The turn to submit that it has, and how many messages that is still good for.
    turn: Mutex<Option<Turn>>,
    left: AtomicU32,
}

/// Whether a session goes on.
#[derive(PartialEq, Eq)]
enum Next {
    On,
    End,
}

impl Session {
    /// Reads until the connection ends, or is to end.
    async fn read(&mut self, stream: &mut ReadHalf) {
        let mut input: Vec<u8> = Vec::new();
        let mut skip = 0_usize;
        let (mut stopping, mut stops) = (self.front.stopping(), None);
        let mut reloads = self.front.reloads();
        let (begin, mut heard, mut enquired) = (Instant::now(), Instant::now(), false);
        loop {
            let timers = self.front.timers();
            let wait = match &self.bound {
                None => timers.session_init.saturating_sub(begin.elapsed()),
                Some(_) if enquired => timers.inactivity.saturating_sub(heard.elapsed()),
                Some(_) => timers.enquire_link.min(timers.inactivity).saturating_sub(heard.elapsed()),
            };
            input.reserve(CHUNK);
            let read = tokio::select! {
                read = stream.read_buf(&mut input) => read,
                () = tokio::time::sleep(wait) => {
                    if self.bound.is_none() {
                        return;
                    }
                    if heard.elapsed() < timers.inactivity {
                        enquired = true;
                        self.enquiry = self.enquiry.wrapping_add(1).max(1);
                        let (command, sequence) = (Command::EnquireLink as u32, self.enquiry | 0x4000_0000);
                        let asked = self.send(|out| pdu(out, command, Status::Ok, sequence, |_| ())).await;
                        if asked == Next::End {
                            return;
                        }
                        continue;
                    }
                    // Where this process stood still, what has come meanwhile is heard first.
                    let here = stream.read_buf(&mut input);
                    match tokio::time::timeout(std::time::Duration::from_millis(50), here).await {
                        Ok(read) => read,
                        Err(_) => return,
                    }
                }
                // Whoever is silent may have less time now.
                _ = reloads.changed() => continue,
                () = async { _ = stopping.wait_for(|stops| *stops).await } => {
                    // What it has been sent may still be answered.
                    let since = *stops.get_or_insert_with(Instant::now);
                    let waits = self.deliveries.load(Relaxed) > 0 && since.elapsed() < LAST_ANSWERS;
                    if waits {
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                        continue;
                    }
                    return self.unbind().await;
                }
            };
            match read {
                Ok(0) | Err(_) => return,
                Ok(_) => (heard, enquired) = (Instant::now(), false),
            }
            let mut taken = 0;
            loop {
                let skipped = skip.min(input.len() - taken);
                (taken, skip) = (taken + skipped, skip - skipped);
                match frame(&input[taken..]) {
                    Framing::Incomplete(_) => break,
                    Framing::Pdu(header) => {
                        let body = taken + crate::smpp::HEADER_OCTETS..taken + header.length as usize;
                        taken = body.end;
                        if self.handle(header, &input[body]).await == Next::End {
                            return;
                        }
                    }
                    Framing::TooLong(header) => {
                        skip = header.length as usize;
                        if self.nack(Status::CommandLength, header.sequence).await == Next::End {
                            return;
                        }
                    }
                    // The next PDU cannot be found.
                    Framing::Lost(header) => {
                        self.nack(Status::CommandLength, header.sequence).await;
                        return;
                    }
                }
            }
            self.give_turn();
            input.drain(..taken);
            if input.is_empty() && input.capacity() > 4 * CHUNK {
                input = Vec::new();
            }
        }
    }

    /// Tells the other side that the session ends.
    async fn unbind(&self) {
        let sequence = 0x7fff_fffe;
        self.send(|out| pdu(out, Command::Unbind as u32, Status::Ok, sequence, |_| ())).await;
    }

    async fn send(&self, fill: impl FnOnce(&mut Vec<u8>)) -> Next {
        let mut octets = Vec::new();
        fill(&mut octets);
        self.put(Out::Octets(octets)).await
    }

    async fn put(&self, out: Out) -> Next {
        let out = match self.out.try_send(out) {
            Ok(()) => return Next::On,
            Err(TrySendError::Closed(_)) => return Next::End,
            Err(TrySendError::Full(out)) => out,
        };
        // Others submit while the client does not take its answers.
        self.give_turn();
        if self.out.send(out).await.is_ok() { Next::On } else { Next::End }
    }

    /// Waits until it is the account's turn to submit one more message.
    async fn take_turn(&self) {
        let left = self.left.load(Relaxed);
        if left > 0 {
            return self.left.store(left - 1, Relaxed);
        }
        self.give_turn();
        let turn = self.front.turns.take(self.account()).await;
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        self.left.store(SLICE - 1, Relaxed);
    }

    /// Others may submit: nothing more is to be submitted, or something is waited for.
    fn give_turn(&self) {
        self.left.store(0, Relaxed);
        // One that is dropped wakes the next.
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turn);
    }

    async fn nack(&self, status: Status, sequence: u32) -> Next {
        self.front.metrics.malformed.add(1);
        self.send(|out| pdu(out, Command::GenericNack as u32, status, sequence, |_| ())).await
    }

    /// An answer without a body.
    async fn answer(&self, to: Command, status: Status, sequence: u32) -> Next {
        self.send(|out| pdu(out, to.response() as u32, status, sequence, |_| ())).await
    }

    /// Handles a PDU.
    async fn handle(&mut self, header: Header, body: &[u8]) -> Next {
        let sequence = header.sequence;
        let Some(command) = Command::of(header.command) else {
            // A response to something that was never sent is not answered.
            return if header.command & 0x8000_0000 != 0 {
                Next::On
            } else {
                self.nack(Status::CommandId, sequence).await
            };
        };
        if let Some(kind) = BindKind::of(command) {
            return self.bind(command, kind, sequence, body).await;
        }
        match command {
            Command::EnquireLink => return self.answer(command, Status::Ok, sequence).await,
            Command::Unbind if self.bound.is_none() => {
                return self.answer(command, Status::BindStatus, sequence).await;
            }
            Command::Unbind => {
                self.answer(command, Status::Ok, sequence).await;
                return Next::End;
            }
            Command::UnbindResp => return Next::End,
            // Not from an application to a centre.
            Command::DeliverSm | Command::AlertNotification | Command::Outbind => {
                return self.nack(Status::CommandId, sequence).await;
            }
            _ => {}
        }
        if command.is_response() {
            self.answered(command, header).await;
            return Next::On;
        }
        let Some(bound) = &self.bound else {
            return self.answer(command, Status::BindStatus, sequence).await;
        };
        if !bound.kind.submits() {
            return self.answer(command, Status::BindStatus, sequence).await;
        }
        self.take_turn().await;
        match command {
            Command::SubmitSm => self.submit(command, sequence, Submit::read(body)).await,
            Command::DataSm => self.submit(command, sequence, Submit::read_data(body)).await,
            Command::SubmitMulti => self.submit_multi(sequence, SubmitMulti::read(body)).await,
            Command::QuerySm => self.query(sequence, Query::read(body)).await,
            Command::CancelSm => self.cancel(sequence, Cancel::read(body)).await,
            Command::ReplaceSm => self.replace(sequence, Replace::read(body)).await,
            _ => self.nack(Status::CommandId, sequence).await,
        }
    }

    /// An answer to something that the centre has sent.
    async fn answered(&self, command: Command, header: Header) {
        let Some(bound) = &self.bound else { return };
        let is_answer =
            matches!(command, Command::DeliverSmResp | Command::DataSmResp | Command::GenericNack);
        if is_answer && bound.kind.receives() {
            // Who could not read a message has not taken it, whatever the status says.
            let is_nack = command == Command::GenericNack && header.status == Status::Ok as u32;
            if self.answers.is_full() {
                // Others submit while its account's task catches up.
                self.give_turn();
            }
            let Some(place) = self.answers.place().await else { return };
            bound.account.tell(AccountEvent::Answered {
                session: self.number,
                sequence: header.sequence,
                status: if is_nack { Status::Unknown as u32 } else { header.status },
                place,
            });
        }
    }

    async fn bind(&mut self, command: Command, kind: BindKind, sequence: u32, body: &[u8]) -> Next {
        let name = self.front.config().system_id.clone();
        if self.bound.is_some() {
            return self.answer(command, Status::AlreadyBound, sequence).await;
        }
        let (mut system_id, mut takes_parameters) = (String::new(), true);
        let account = match Bind::read(body) {
            Ok(bind) => {
                system_id.clone_from(&bind.system_id);
                takes_parameters = bind.takes_parameters();
                self.front.bind(&bind, self.source).await
            }
            Err(status) => {
                self.front.metrics.malformed.add(1);
                Err(status)
            }
        };
        let name = (name.as_str(), takes_parameters);
        let account = match account {
            Ok(account) => account,
            Err(status) => {
                self.front.metrics.binds_refused.add(1);
                self.place.refuse(&system_id, status.name());
                self.send(|out| bind_response(out, command, status, sequence, name)).await;
                // Whoever was refused may try again on another connection.
                return Next::End;
            }
        };
        if !self.take_seat() {
            account.leave();
            self.front.metrics.binds_refused.add(1);
            self.place.refuse(&system_id, Status::BindFailed.name());
            self.send(|out| bind_response(out, command, Status::BindFailed, sequence, name)).await;
            return Next::End;
        }
        self.front.metrics.binds.add(1);
        self.place.bind(&account, kind);
        // While its password was looked at, another configuration may have taken the account away:
        // whoever looked for its sessions then did not see this one.
        if self.front.account(account.number).is_none() {
            self.place.entry.kick.notify_one();
        }
        // From here on the end of the session gives the account's place back.
        self.bound = Some(Bound { account: Arc::clone(&account), kind });
        // The answer comes before the first delivery.
        let sent = self.send(|out| bind_response(out, command, Status::Ok, sequence, name)).await;
        if kind.receives() {
            let outlet = Outlet {
                session: self.number,
                out: self.out.clone(),
                window: account.window_and_rate().0,
                takes_parameters,
                dead: Arc::clone(&self.dead),
                deliveries: Arc::clone(&self.deliveries),
                silent: (0, Instant::now()),
            };
            account.tell(AccountEvent::Bound(outlet));
        }
        sent
    }

    /// Goes over from the strangers to those that are bound; false if all places there are taken.
    fn take_seat(&mut self) -> bool {
        if let Seat::Unbound(stranger) = &self.seat {
            let Some(permit) = self.front.place() else { return false };
            if !stranger.leave() {
                return false;
            }
            self.seat = Seat::Bound(permit);
        }
        true
    }

    /// Whether one more message may be under way; else how it is refused.
    fn admit_window(&self) -> Result<(), Status> {
        let Some(bound) = &self.bound else { return Err(Status::BindStatus) };
        if self.window.load(Relaxed) < bound.account.window_and_rate().0 {
            return Ok(());
        }
        self.front.metrics.throttled.add(1);
        Err(Status::Throttled)
    }

    /// Whether one more message may be submitted in this second; else how it is refused.
    fn admit_rate(&self, now_us: i64) -> Result<(), Status> {
        let Some(bound) = &self.bound else { return Err(Status::BindStatus) };
        if bound.account.may_submit(bound.account.window_and_rate().1, now_us) {
            return Ok(());
        }
        self.front.metrics.throttled.add(1);
        Err(Status::Throttled)
    }

    fn account(&self) -> u32 {
        self.bound.as_ref().map_or(0, |bound| bound.account.number)
    }

    async fn refuse(&self, command: Command, status: Status, sequence: u32) -> Next {
        self.front.metrics.refused.add(1);
        self.place.entry.submitted.add(1);
        self.place.entry.refused.add(1);
        self.send(|out| message_response(out, command, sequence, Err(status))).await
    }

    async fn submit(&mut self, command: Command, sequence: u32, submit: Result<Submit, Status>) -> Next {
        let (since, now_us) = (Instant::now(), self.front.clock.now_us());
        let submit = match submit {
            Ok(submit) => submit,
            Err(status) => {
                self.front.metrics.malformed.add(1);
                return self.refuse(command, status, sequence).await;
            }
        };
        if let Err(status) = self.admit_window().and_then(|()| self.admit_rate(now_us)) {
            return self.refuse(command, status, sequence).await;
        }
        let (replaces, validity) = (submit.replaces, submit.validity);
        match submission(&self.front, self.account(), submit, now_us) {
            Err(status) => self.refuse(command, status, sequence).await,
            Ok(submission) => {
                if replaces && let Some(done) = self.replace_if_present(&submission, validity).await {
                    return match done {
                        Ok(msg_id) => {
                            self.place.entry.submitted.add(1);
                            self.place.entry.accepted.add(1);
                            self.send(|out| message_response(out, command, sequence, Ok(msg_id))).await
                        }
                        Err(status) => self.refuse(command, status, sequence).await,
                    };
                }
                let under_way = UnderWay::new(&self.front.under_way);
                self.window.fetch_add(1, Relaxed);
                self.place.entry.submitted.add(1);
                let (to, target) = (submission.message.dst_key, target_of(&submission));
                let started =
                    self.front.store.start(Operation::Receive(Box::new(submission)), Acknowledge::Durable);
                // Before this waits for a client that reads nothing, or is ended there.
                self.front.wake(to, target);
                self.put(Out::Accepted { command, sequence, started, since, under_way }).await
            }
        }
    }

    /// Runs an operation, durably; a store that fails ends the server.
    async fn run(&self, operation: Operation) -> Result<Outcome, Status> {
        let _one = UnderWay::new(&self.front.under_way);
        let started = self.front.store.start(operation, Acknowledge::Durable);
        self.give_turn();
        started.await.map_err(|error| {
            self.front.fail(error);
            Status::SystemError
        })
    }

    /// replace_if_present: the newest message of this service between the two addresses becomes
    /// what this one is, in its place and at its time; its number. None if there is none, or if it
    /// is an application that gets it: messages to all of its numbers wait together.
    async fn replace_if_present(
        &self,
        submission: &Submission,
        validity: Time,
    ) -> Option<Result<i64, Status>> {
        let message = &submission.message;
        if message.dst_key.account().is_some() {
            return None;
        }
        let service_type = Some(message.service_type.clone());
        let msg_id = match self.find(&message.src, service_type, message.dst_key).await {
            Ok(found) => *found.last()?,
            Err(status) => return Some(Err(status)),
        };
        let replacement = Replacement {
            account: self.account(),
            msg_id,
            body: message.body.clone(),
            expire_us: (validity != Time::None).then_some(message.expire_us),
            registered_delivery: message.registered_delivery,
            form: Some(Form {
                esm_class: message.esm_class,
                protocol_id: message.protocol_id,
                data_coding: message.data_coding,
                tlvs: message.tlvs.clone(),
            }),
        };
        match self.run(Operation::Replace(Box::new(replacement))).await {
            Ok(Outcome::Count(_)) => Some(Ok(msg_id)),
            // It was on its way just then, so this one is a message of its own.
            Ok(Outcome::Refused(Refusal::InFlight | Refusal::Final | Refusal::NoSuchMessage)) => None,
            Ok(Outcome::Refused(refusal)) => Some(Err(refusal_status(&refusal, Status::SubmitFailed))),
            Ok(_) => Some(Err(Status::SystemError)),
            Err(status) => Some(Err(status)),
        }
    }

    /// The account's messages between two addresses that can still be changed: of one service_type,
    /// or of all.
    async fn find(
        &self,
        source: &str,
        service_type: Option<String>,
        station: StationKey,
    ) -> Result<Vec<i64>, Status> {
        let (account, src) = (self.account(), source.to_owned());
        match self.run(Operation::Find { account, src, service_type, station, max: usize::MAX }).await? {
            Outcome::Found(found) => Ok(found),
            _ => Err(Status::SystemError),
        }
    }

    async fn submit_multi(&mut self, sequence: u32, multi: Result<SubmitMulti, Status>) -> Next {
        let command = Command::SubmitMulti;
        let (since, now_us) = (Instant::now(), self.front.clock.now_us());
        let multi = match multi {
            Ok(multi) => multi,
            Err(status) => {
                self.front.metrics.malformed.add(1);
                return self.refuse(command, status, sequence).await;
            }
        };
        if multi.destinations.iter().any(|destination| matches!(destination, Destination::List(_))) {
            return self.refuse(command, Status::DistributionList, sequence).await;
        }
        let under_way = UnderWay::new(&self.front.under_way);
        let (replaces, validity) = (multi.submit.replaces, multi.submit.validity);
        let mut messages = Vec::with_capacity(multi.destinations.len());
        // It is let in where one message is; all of it counts until it is answered.
        let fits = self.admit_window();
        for destination in multi.destinations {
            let Destination::Address(address) = destination else { continue };
            self.take_turn().await;
            let ready = fits.and_then(|()| self.admit_rate(now_us)).and_then(|()| {
                let submit = Submit { destination: address.clone(), ..multi.submit.clone() };
                submission(&self.front, self.account(), submit, now_us)
            });
            let one = match ready {
                Ok(submission) => self.begin_one(submission, (replaces, validity)).await,
                Err(status) => Err(status),
            };
            self.place.entry.submitted.add(1);
            messages.push((address, one));
        }
        self.window.fetch_add(messages.len(), Relaxed);
        self.put(Out::Multi { sequence, messages, since, under_way }).await
    }

    /// Begins with a message of a submit_multi, or gives what it is to the one that it replaces.
    async fn begin_one(
        &self,
        submission: Submission,
        (replaces, validity): (bool, Time),
    ) -> Result<OneOfMany, Status> {
        if replaces && let Some(done) = self.replace_if_present(&submission, validity).await {
            return done.map(OneOfMany::Replaced);
        }
        let (to, target) = (submission.message.dst_key, target_of(&submission));
        let started = self.front.store.start(Operation::Receive(Box::new(submission)), Acknowledge::Durable);
        self.front.wake(to, target);
        Ok(OneOfMany::Started(started))
    }

    async fn query(&self, sequence: u32, query: Result<Query, Status>) -> Next {
        let command = Command::QuerySm;
        let status = match query {
            Ok(query) => self.status(&query).await.map(|status| (query, status)),
            Err(status) => Err(status),
        };
        match status {
            Err(status) => self.answer(command, status, sequence).await,
            Ok((query, MessageStatus { state, done_us, error })) => {
                let date = format_time(done_us);
                // What does not fit the field is told in the receipt.
                let error = u8::try_from(error).unwrap_or(u8::MAX);
                self.send(|out| query_response(out, sequence, query.msg_id, &date, state.number(), error))
                    .await
            }
        }
    }

    /// The state of a message, in the store or in the archive.
    async fn status(&self, query: &Query) -> Result<MessageStatus, Status> {
        let account = self.account();
        match self.run(Operation::Query { account, msg_id: query.msg_id }).await? {
            Outcome::Status(status) => Ok(status),
            Outcome::Refused(Refusal::NoSuchMessage) => {
                let archive = self.front.archive.as_ref().ok_or(Status::QueryFailed)?;
                // The file is read in this thread, whose other tasks go elsewhere meanwhile.
                let found = tokio::task::block_in_place(|| {
                    archive.find(query.msg_id).map_err(|_| Status::SystemError)
                })?;
                let own = found.filter(|record| record.account == account && record.receipt_of == 0);
                own.and_then(|record| record.status()).ok_or(Status::QueryFailed)
            }
            _ => Err(Status::QueryFailed),
        }
    }

    async fn cancel(&self, sequence: u32, cancel: Result<Cancel, Status>) -> Next {
        let command = Command::CancelSm;
        let status = match cancel {
            Ok(cancel) => self.cancel_all(&cancel).await.err().unwrap_or(Status::Ok),
            Err(status) => status,
        };
        self.answer(command, status, sequence).await
    }

    /// The messages that a cancel_sm without a number is about.
    async fn named(&self, cancel: &Cancel) -> Result<Vec<i64>, Status> {
        let (source, destination) = (&cancel.source.text, &cancel.destination.text);
        let service_type = Some(cancel.service_type.clone()).filter(|named| !named.is_empty());
        let digits = destination.trim_start_matches('+');
        let Some(receiver) = self.front.account_of_number(digits) else {
            let station = StationKey::of_address(destination).map_err(|_| Status::DestinationAddress)?;
            return self.find(source, service_type, station).await;
        };
        // What an application gets from one address waits in one lane, for all of its numbers, or
        // in the one that it had before an upgrade.
        let mut found = Vec::new();
        for lane in StationKey::all_of_source(receiver, source) {
            found.extend(self.find(source, service_type.clone(), lane).await?);
        }
        let mut named = Vec::new();
        for some in found.chunks(CANCELS) {
            let _some = UnderWay::new(&self.front.under_way);
            let show = |&msg_id: &i64| self.front.store.start(Operation::Show(msg_id), Acknowledge::Early);
            let started: Vec<StartedOperation> = some.iter().map(show).collect();
            for (one, &msg_id) in started.into_iter().zip(some) {
                match one.await {
                    Ok(Outcome::Message(Some(message))) if message.dst.trim_start_matches('+') == digits => {
                        named.push(msg_id);
                    }
                    // To another of its numbers, or delivered just then.
                    Ok(_) => {}
                    Err(error) => {
                        self.front.fail(error);
                        return Err(Status::SystemError);
                    }
                }
            }
        }
        Ok(named)
    }

    async fn cancel_all(&self, cancel: &Cancel) -> Result<(), Status> {
        let messages = match cancel.msg_id {
            Some(msg_id) => vec![msg_id],
            None => self.named(cancel).await?,
        };
        let (account, now_us) = (self.account(), self.front.clock.now_us());
        let mut cancelled = 0;
        // Together, as each is durable only after a while.
        for some in messages.chunks(CANCELS) {
            let _some = UnderWay::new(&self.front.under_way);
            let start = |&msg_id: &i64| {
                let cancel = Operation::Cancel { account, msg_id, now_us };
                self.front.store.start(cancel, Acknowledge::Durable)
            };
            let started: Vec<StartedOperation> = some.iter().map(start).collect();
            self.give_turn();
            for (one, &msg_id) in started.into_iter().zip(some) {
                match one.await {
                    Ok(Outcome::Count(_)) => {
                        cancelled += 1;
                        self.front.wake_for_receipt(account, msg_id);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.front.fail(error);
                        return Err(Status::SystemError);
                    }
                }
            }
        }
        if cancelled > 0 { Ok(()) } else { Err(Status::CancelFailed) }
    }

    async fn replace(&self, sequence: u32, replace: Result<Replace, Status>) -> Next {
        let command = Command::ReplaceSm;
        let status = match replace {
            Ok(replace) => self.replace_one(replace).await.err().unwrap_or(Status::Ok),
            Err(status) => status,
        };
        self.answer(command, status, sequence).await
    }

    async fn replace_one(&self, replace: Replace) -> Result<(), Status> {
        // The time of delivery is part of the schedule's key; whoever wants another cancels and
        // submits.
        if replace.schedule != Time::None {
            return Err(Status::ReplaceFailed);
        }
        let now_us = self.front.clock.now_us();
        let expire_us = replace.validity.at(now_us);
        // As of a submission: what may not be delivered any more expires as soon as it is replaced.
        if expire_us.is_some_and(|us| us <= now_us) {
            return Err(Status::Validity);
        }
        let replacement = Replacement {
            account: self.account(),
            msg_id: replace.msg_id,
            body: replace.body,
            expire_us,
            registered_delivery: replace.registered_delivery,
            form: None,
        };
        match self.run(Operation::Replace(Box::new(replacement))).await? {
            Outcome::Count(_) => Ok(()),
            Outcome::Refused(refusal) => Err(refusal_status(&refusal, Status::ReplaceFailed)),
            _ => Err(Status::SystemError),
        }
    }
}

/// Polls an operation without waiting.
fn poll_now(started: &mut StartedOperation) -> Option<Result<Outcome, crate::store::StoreError>> {
    match Pin::new(started).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Writes what the session and its account send, in order, until told to end.
async fn write_all(
    front: Arc<Front>,
    mut stream: WriteHalf,
    mut outs: mpsc::Receiver<Out>,
    entry: Arc<Entry>,
) {
    let mut octets: Vec<u8> = Vec::new();
    let mut is_open = true;
    let mut ends = false;
    while !ends {
        let Some(first) = outs.recv().await else { break };
        let mut next = Some(first);
        while let Some(out) = next {
            match out {
                Out::Octets(pdus) => octets.extend_from_slice(&pdus),
                Out::Accepted { command, sequence, mut started, since, under_way } => {
                    let done = match poll_now(&mut started) {
                        Some(done) => done,
                        None => {
                            // What is written meanwhile need not wait for this commit.
                            is_open &= flush(&mut stream, &mut octets, is_open).await;
                            started.await
                        }
                    };
                    let accepted = accepted(&front, &entry, done);
                    message_response(&mut octets, command, sequence, accepted);
                    front.metrics.submit.add(since.elapsed().as_micros() as u64);
                    entry.window.fetch_sub(1, Relaxed);
                    drop(under_way);
                }
                Out::Multi { sequence, messages, since, under_way } => {
                    let count = messages.len();
                    let mut response = MultiResponse::default();
                    for (address, started) in messages {
                        let done = match started {
                            Ok(OneOfMany::Started(started)) => accepted(&front, &entry, started.await),
                            Ok(OneOfMany::Replaced(msg_id)) => {
                                entry.accepted.add(1);
                                Ok(msg_id)
                            }
                            Err(status) => {
                                front.metrics.refused.add(1);
                                entry.refused.add(1);
                                Err(status)
                            }
                        };
                        match done {
                            Ok(msg_id) if response.msg_id == 0 => response.msg_id = msg_id,
                            Ok(_) => {}
                            Err(status) => response.refused.push((address, status as u32)),
                        }
                    }
                    response.write(&mut octets, sequence);
                    front.metrics.submit.add(since.elapsed().as_micros() as u64);
                    entry.window.fetch_sub(count, Relaxed);
                    drop(under_way);
                }
                Out::End => ends = true,
            }
            if octets.len() >= WRITE {
                break;
            }
            next = outs.try_recv().ok();
        }
        is_open &= flush(&mut stream, &mut octets, is_open).await;
        if !is_open && !ends {
            // Nobody reads any more, and the session ends. What was submitted is stored all the
            // same.
            outs.close();
        }
    }
    let _ = tokio::time::timeout(FAREWELL, stream.shutdown()).await;
}

/// TLS has what it was given on its way only once it is flushed.
async fn write_whole(stream: &mut WriteHalf, octets: &[u8]) -> std::io::Result<()> {
    stream.write_all(octets).await?;
    stream.flush().await
}

/// Writes what has collected; whether the other side still takes it.
async fn flush(stream: &mut WriteHalf, octets: &mut Vec<u8>, is_open: bool) -> bool {
    let written = !is_open
        || octets.is_empty()
        || matches!(tokio::time::timeout(STUCK, write_whole(stream, octets)).await, Ok(Ok(())));
    octets.clear();
    if octets.capacity() > 2 * WRITE {
        *octets = Vec::new();
    }
    written && is_open
}

/// What a submission's outcome answers.
fn accepted(
    front: &Front,
    entry: &Entry,
    done: Result<Outcome, crate::store::StoreError>,
) -> Result<i64, Status> {
    let accepted = match done {
        Ok(Outcome::Received(msg_id)) => Ok(msg_id),
        Ok(Outcome::Refused(refusal)) => Err(refusal_status(&refusal, Status::SubmitFailed)),
        Ok(_) => Err(Status::SystemError),
        Err(error) => {
            front.fail(error);
            Err(Status::SystemError)
        }
    };
    let counters = match accepted {
        Ok(_) => [&front.metrics.accepted, &entry.accepted],
        Err(_) => [&front.metrics.refused, &entry.refused],
    };
    counters.iter().for_each(|counter| counter.add(1));
    accepted
}
