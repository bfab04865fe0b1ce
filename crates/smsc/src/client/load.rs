//! The load: Poisson arrivals spread over sessions, and what became of them.

use super::connection::{ClientError, Connection};
use super::step::Step;
use crate::smpp::{Address, Bind, Command, Framing, HEADER_OCTETS, Status, Submit, Time, frame, pdu};
use fathom_random::Random;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, Semaphore, watch};

/// What is sent, and to whom.
#[derive(Clone, Debug)]
pub struct Load {
    /// The centre's address and port.
    pub address: String,
    /// Who.
    pub system_id: String,
    /// Password.
    pub password: String,
    /// Sessions.
    pub sessions: usize,
    /// Messages under way in each.
    pub window: usize,
    /// Same seed, same arrivals and destinations.
    pub seed: u64,
    /// Destinations are this prefix and seven digits.
    pub prefix: String,
    /// Destinations.
    pub destinations: u64,
    /// Octets of a body.
    pub body: usize,
    /// Whether each message asks for a receipt.
    pub receipts: bool,
    /// How long a session whose window is full waits for an answer, or for the centre to read,
    /// until it gives up.
    pub patience: Duration,
    /// A receipt that comes later than so after the end of a step's arrivals is late.
    pub limit: Duration,
}

/// What sessions count together.
struct Counts {
    begin: Instant,
    /// Until when, after the beginning, a receipt is in time.
    in_time: Duration,
    offered: AtomicU64,
    accepted: AtomicU64,
    /// When the last one was accepted, µs after the beginning.
    accepted_us: AtomicU64,
    refused: AtomicU64,
    throttled: AtomicU64,
    receipts: AtomicU64,
    receipts_in_time: AtomicU64,
    /// Not submitted, by sessions that gave up.
    left: AtomicU64,
}

impl Counts {
    /// Of a step that begins now.
    fn new(in_time: Duration) -> Counts {
        let zero = AtomicU64::default;
        Counts {
            begin: Instant::now(),
            in_time,
            offered: zero(),
            accepted: zero(),
            accepted_us: zero(),
            refused: zero(),
            throttled: zero(),
            receipts: zero(),
            receipts_in_time: zero(),
            left: zero(),
        }
    }
}

/// How long what is under way is waited for at the end of a step, where the patience is not less: a
/// busy disk takes seconds for a sync.
const LAST_ANSWERS: Duration = Duration::from_secs(20);
/// How long the centre may take to close the sessions that have said goodbye. Until then they count
/// among those that it lets the account have, and those of the next step could not be bound.
const GOODBYE: Duration = Duration::from_secs(5);

/// One session: what is under way in it.
struct Session {
    /// When each was to be submitted, by sequence number.
    under_way: Mutex<HashMap<u32, Instant>>,
    window: Semaphore,
    latency: Mutex<Histogram<u64>>,
    /// Answers to what the centre asks, to be written.
    answers: Mutex<Vec<u8>>,
    answer: Notify,
    /// It has said goodbye, or is about to: nothing counts any more.
    leaves: AtomicBool,
    broke: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Submits at `rate` for `length`. Where a session broke, the step has what was done until then.
///
/// # Errors
/// A session cannot be bound.
pub async fn run(load: &Load, rate: f64, length: Duration) -> Result<Step, ClientError> {
    let (_never, stops) = watch::channel(false);
    run_until(load, rate, length, stops).await
}

/// As [`run`], or until `stops` says so: the step is as long as it got then.
///
/// # Errors
/// As [`run`].
pub async fn run_until(
    load: &Load,
    rate: f64,
    length: Duration,
    stops: watch::Receiver<bool>,
) -> Result<Step, ClientError> {
    let bind = Bind {
        system_id: load.system_id.clone(),
        password: load.password.clone(),
        system_type: String::new(),
        interface_version: 0x34,
    };
    let mut connections = Vec::with_capacity(load.sessions);
    for _ in 0..load.sessions {
        connections.push(Connection::bind(&load.address, Command::BindTransceiver, &bind).await?);
    }
    let counts = Arc::new(Counts::new(length + load.limit));
    let begin = counts.begin;
    let mut tasks = Vec::with_capacity(load.sessions);
    let mut sessions = Vec::with_capacity(load.sessions);
    for (number, connection) in connections.into_iter().enumerate() {
        let session = Arc::new(Session {
            under_way: Mutex::default(),
            window: Semaphore::new(load.window),
            latency: Mutex::new(crate::load::histogram()),
            answers: Mutex::default(),
            answer: Notify::new(),
            leaves: AtomicBool::new(false),
            broke: Mutex::default(),
        });
        sessions.push(Arc::clone(&session));
        let (read, write) = connection.stream.into_split();
        let reader =
            tokio::spawn(read_all(Arc::clone(&session), Arc::clone(&counts), read, connection.input));
        let rate = rate / load.sessions as f64;
        let when = (begin, length, stops.clone());
        let writer = submit_all(load.clone(), session, Arc::clone(&counts), write, number, rate, when);
        tasks.push((reader, tokio::spawn(writer)));
    }
    let mut readers = Vec::with_capacity(load.sessions);
    for (reader, writer) in tasks {
        // A task that panicked is a session that broke.
        let _ = writer.await;
        readers.push(reader);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let until = tokio::time::Instant::now() + GOODBYE;
    for mut reader in readers {
        if tokio::time::timeout_at(until, &mut reader).await.is_err() {
            reader.abort();
        }
    }
    let mut latency = crate::load::histogram();
    let mut unanswered = counts.left.load(Relaxed);
    let mut broke = None;
    for session in &sessions {
        broke = broke.or_else(|| lock(&session.broke).take());
        // Both have the same bounds, so adding cannot fail.
        let _ = latency.add(&*lock(&session.latency));
        unanswered += lock(&session.under_way).len() as u64;
    }
    let ms = |quantile| latency.value_at_quantile(quantile) as f64 / 1000.0;
    let accepted = counts.accepted.load(Relaxed);
    // Neither the wait for receipts nor a part of the arrivals that had none, but for those that a
    // lost connection kept from coming.
    let arrivals = length.min(Duration::from_secs_f64(seconds));
    let accepting = Duration::from_micros(counts.accepted_us.load(Relaxed)).max(arrivals);
    Ok(Step {
        rate,
        offered: counts.offered.load(Relaxed),
        accepted,
        refused: counts.refused.load(Relaxed),
        throttled: counts.throttled.load(Relaxed),
        unanswered,
        receipts: counts.receipts.load(Relaxed),
        receipts_in_time: counts.receipts_in_time.load(Relaxed),
        receipts_due: if load.receipts { accepted } else { 0 },
        seconds,
        accepted_per_s: accepted as f64 / accepting.as_secs_f64(),
        latency_ms: [ms(0.5), ms(0.99), ms(0.999), ms(1.0)],
        broke,
    })
}

/// Submits the messages of one session, then waits for the answers.
async fn submit_all(
    load: Load,
    session: Arc<Session>,
    counts: Arc<Counts>,
    mut write: OwnedWriteHalf,
    number: usize,
    rate: f64,
    (begin, length, mut stops): (Instant, Duration, watch::Receiver<bool>),
) {
    let mut random = Random::stream(load.seed, "smsc load", number as u64);
    let (mut due_s, mut sequence) = (0.0_f64, 1_u32);
    // Since when there has been no room in the window.
    let mut full = None;
    let mut out = Vec::new();
    let submit = Submit {
        service_type: String::new(),
        source: Address { ton: 1, npi: 1, text: format!("49{:05}", 10_000 + number) },
        destination: Address { ton: 1, npi: 1, text: String::new() },
        esm_class: 0,
        protocol_id: 0,
        priority: 0,
        schedule: Time::None,
        validity: Time::None,
        registered_delivery: load.receipts.into(),
        replaces: false,
        data_coding: 0,
        body: (0..load.body).map(|_| b'a' + random.below(26) as u8).collect(),
        tlvs: Vec::new(),
        segment: None,
    };
    due_s -= (1.0 - random.unit()).ln() / rate;
    while due_s < length.as_secs_f64() && lock(&session.broke).is_none() && !*stops.borrow() {
        let due = begin + Duration::from_secs_f64(due_s);
        out.append(&mut lock(&session.answers));
        if due > Instant::now() {
            if !out.is_empty() && !put(&session, &mut write, &out, load.patience).await {
                break;
            }
            out.clear();
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = session.answer.notified() => continue,
                Ok(()) = stops.changed() => continue,
            }
        }
        // Without room in the window the message is late, which its latency tells.
        let permit = match session.window.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                if !out.is_empty() && !put(&session, &mut write, &out, load.patience).await {
                    break;
                }
                out.clear();
                let until = *full.get_or_insert_with(Instant::now) + load.patience;
                tokio::select! {
                    permit = session.window.acquire() => match permit {
                        Ok(permit) => permit,
                        Err(_) => break,
                    },
                    () = session.answer.notified() => continue,
                    Ok(()) = stops.changed() => continue,
                    () = tokio::time::sleep_until(until.into()) => break,
                }
            }
        };
        full = None;
        permit.forget();
        sequence = after(sequence);
        lock(&session.under_way).insert(sequence, due);
        let text = format!("{}{:07}", load.prefix, random.below(load.destinations));
        let destination = Address { text, ..submit.destination.clone() };
        Submit { destination, ..submit.clone() }.write(&mut out, sequence);
        counts.offered.fetch_add(1, Relaxed);
        if out.len() > 32 << 10 {
            if !put(&session, &mut write, &out, load.patience).await {
                break;
            }
            out.clear();
        }
        due_s -= (1.0 - random.unit()).ln() / rate;
    }
    // What was to come, if it was given up: offered, and not answered. What nobody wants any more
    // is not.
    let is_wanted = !*stops.borrow();
    let left = ((length.as_secs_f64() - due_s) * rate).ceil().max(0.0) as u64;
    let left = if is_wanted { left } else { 0 };
    counts.offered.fetch_add(left, Relaxed);
    counts.left.fetch_add(left, Relaxed);
    let (end, last) = (Instant::now(), LAST_ANSWERS.min(load.patience));
    loop {
        let wants_receipts = load.receipts && !*stops.borrow();
        let receipts_wait = wants_receipts && counts.receipts.load(Acquire) < counts.accepted.load(Relaxed);
        let waits = !lock(&session.under_way).is_empty() || receipts_wait;
        // After the count, as an answer is there before its receipt is counted: what has no answer
        // when its session ends is sent again, in another one, and would be counted twice.
        out.append(&mut lock(&session.answers));
        if !out.is_empty() && !put(&session, &mut write, &out, load.patience).await {
            break;
        }
        out.clear();
        if !waits || end.elapsed() > last || lock(&session.broke).is_some() {
            break;
        }
        let _ = tokio::time::timeout(Duration::from_millis(20), session.answer.notified()).await;
    }
    session.leaves.store(true, Relaxed);
    pdu(&mut out, Command::Unbind as u32, Status::Ok, after(sequence), |_| ());
    // The centre may have gone already.
    let _ = put(&session, &mut write, &out, last).await;
}

/// The number of the PDU after this one: SMPP has those up to 0x7fffffff (SMPP 3.4 §5.1.4), which a
/// long run comes to the end of.
fn after(sequence: u32) -> u32 {
    if sequence < 0x7fff_ffff { sequence + 1 } else { 1 }
}

/// Whether the centre takes what is written to it, and in time. Where the connection has gone, that
/// may be seen here before it is by whoever reads.
async fn put(session: &Session, write: &mut OwnedWriteHalf, out: &[u8], patience: Duration) -> bool {
    match tokio::time::timeout(patience, write.write_all(out)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            if !session.leaves.load(Relaxed) {
                lock(&session.broke).get_or_insert_with(|| error.to_string());
            }
            false
        }
        Err(_) => false,
    }
}

/// Reads what the centre sends to one session.
async fn read_all(session: Arc<Session>, counts: Arc<Counts>, mut read: OwnedReadHalf, mut input: Vec<u8>) {
    let broke = loop {
        let mut taken = 0;
        let lost = loop {
            match frame(&input[taken..]) {
                Framing::Pdu(header) => {
                    taken += (header.length as usize).max(HEADER_OCTETS);
                    // What comes now is not answered, and sent again in another session.
                    if session.leaves.load(Relaxed) {
                        continue;
                    }
                    match Command::of(header.command) {
                        Some(Command::SubmitSmResp) => {
                            answered(&session, &counts, header.sequence, header.status)
                        }
                        Some(command @ (Command::DeliverSm | Command::EnquireLink)) => {
                            let response = command.response() as u32;
                            pdu(&mut lock(&session.answers), response, Status::Ok, header.sequence, |out| {
                                if command == Command::DeliverSm {
                                    out.push(0);
                                }
                            });
                            if command == Command::DeliverSm {
                                if counts.begin.elapsed() <= counts.in_time {
                                    counts.receipts_in_time.fetch_add(1, Relaxed);
                                }
                                counts.receipts.fetch_add(1, Release);
                            }
                            session.answer.notify_one();
                        }
                        _ => {}
                    }
                }
                Framing::Incomplete(_) => break false,
                Framing::TooLong(_) | Framing::Lost(_) => break true,
            }
        };
        input.drain(..taken);
        if lost {
            break "the centre sent something that is no PDU".to_owned();
        }
        input.reserve(16 << 10);
        match read.read_buf(&mut input).await {
            Ok(0) => break "the centre closed the connection".to_owned(),
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    if session.leaves.load(Relaxed) {
        return;
    }
    *lock(&session.broke) = Some(broke);
    session.window.close();
    session.answer.notify_one();
}

fn answered(session: &Session, counts: &Counts, sequence: u32, status: u32) {
    let Some(due) = lock(&session.under_way).remove(&sequence) else { return };
    session.window.add_permits(1);
    match Status::of(status) {
        Some(Status::Ok) => {
            counts.accepted.fetch_add(1, Relaxed);
            counts.accepted_us.fetch_max(counts.begin.elapsed().as_micros() as u64, Relaxed);
            let us = due.elapsed().as_micros().max(1) as u64;
            lock(&session.latency).saturating_record(us);
        }
        status => {
            counts.refused.fetch_add(1, Relaxed);
            if matches!(status, Some(Status::Throttled | Status::QueueFull)) {
                counts.throttled.fetch_add(1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;
