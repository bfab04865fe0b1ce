//! The invariants of the centre, over a whole store and its archive, after any run and any crash.
//!
//! | | |
//! |---|---|
//! | I1 | every message is in exactly one state, and its rows are those of that state: its parts, too, are those of its body |
//! | I2 | at most one message of a station is in flight, and it is in its queue |
//! | I3 | for each station and rank, messages were delivered in the order of acceptance (those that were scheduled or went through a peer apart, and where clocks tell no order) |
//! | I4 | a station with a queue is ready, busy or has a live timer; one without is idle |
//! | I5 | one receipt for each that was asked for, none else |
//! | I6 | every accepted message is in the store or in the archive; where all that were accepted are known, nothing else is |
//! | I7 | all of this holds after a crash, too, and no more was delivered twice than was in flight |
//!
//! A store does not tell all of this. I6 takes the numbers of the messages that were accepted; that
//! no more was delivered twice than was in flight, only who counts deliveries around a crash can
//! say (`tests/kill.rs`). [`Report::not_checked`] says what a check left out.

use crate::centre::{ArchiveError, ArchivedMessage, encode, moved_away, read_archive};
use crate::model::{EncodedPart, Message, State, Station, StationKey, StationState};
use crate::store::{Row, Store, StoreError};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Violations that are described; all are counted.
const DESCRIBED: usize = 20;
/// How far the clocks of several centres on one store may be apart, µs.
const APART_US: i64 = 5_000_000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The first violations, in words that begin with the invariant's name.
    pub violations: Vec<String>,
    /// How many there are.
    pub count: u64,
    /// Messages in the store that wait or are in flight, without receipts.
    pub live: u64,
    /// Messages in the store that are final, without receipts.
    pub finished: u64,
    /// Messages in the archive, without receipts.
    pub archived: u64,
    /// Receipts and intermediate notifications, in the store and in the archive.
    pub receipts: u64,
    /// Stations.
    pub stations: u64,
    /// Accepted messages that were looked for; none if nobody said which were accepted.
    pub accepted: Option<u64>,
    /// Closed files of the archive that were moved away: nothing is missed that may be in them.
    pub moved_away: usize,
    /// Accepted messages that are gone, of a store that keeps final ones for a time only.
    pub forgotten: u64,
}

/// What is known of the messages that were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedMessages<'a> {
    /// Nothing: I6 is not checked.
    Unknown,
    /// Numbers of some of them, as after a kill: who accepted others could not tell it any more.
    AtLeast(&'a [i64]),
    /// Numbers of all that are in the store or its archive: there is no other but receipts.
    Exactly(&'a [i64]),
}

impl<'a> AcceptedMessages<'a> {
    fn numbers(self) -> Option<&'a [i64]> {
        match self {
            AcceptedMessages::Unknown => None,
            AcceptedMessages::AtLeast(numbers) | AcceptedMessages::Exactly(numbers) => Some(numbers),
        }
    }
}

impl Report {
    /// Whether everything holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.count == 0
    }

    /// The invariants that were looked at.
    #[must_use]
    pub fn checked(&self) -> Vec<&'static str> {
        let left_out = self.not_checked();
        let is_in = |name: &&str| left_out.iter().all(|(out, _)| out != name);
        ["I1", "I2", "I3", "I4", "I5", "I6", "I7"].into_iter().filter(is_in).collect()
    }

    /// The others, and why not.
    #[must_use]
    pub fn not_checked(&self) -> Vec<(&'static str, &'static str)> {
        let mut left_out = Vec::new();
        if self.accepted.is_none() {
            left_out.push(("I6", "which messages were accepted was not said"));
        }
        if self.moved_away > 0 {
            let why = "closed files of the archive were moved away, and messages with them";
            left_out.push(("I5", why));
            if self.accepted.is_some() {
                left_out.push(("I6", why));
            }
        } else if self.forgotten > 0 {
            let why = "final messages were there for as long as the store keeps them, and are gone";
            left_out.push(("I6", why));
        }
        let why = "a store does not tell whether there was a crash, nor how often a message was delivered";
        left_out.push(("I7", why));
        left_out
    }

    fn violated(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.violations.len() < DESCRIBED {
            self.violations.push(what());
        }
    }
}

/// What is kept of a message.
struct Brief {
    state: State,
    dst_key: StationKey,
    rank: u8,
    parts: u8,
    expire_us: i64,
    schedule_us: i64,
    scheduled: bool,
    submit_us: i64,
    done_us: i64,
    receipt_of: i64,
    wants_receipt: bool,
    /// Sum of the parts that follow from the body, of a message that is not final.
    parts_sum: u64,
    found: Rows,
}

/// Rows of other tables that name a message.
#[derive(Default)]
struct Rows {
    parts: u32,
    parts_sum: u64,
    queued: u32,
    scheduled: u32,
    sent: u32,
    forwarded: u32,
}

/// A number for a part. Sums of them are compared, as parts come in any order: equal sums of
/// different parts would be a chance of 1 in 2^64.
fn sum_of(part: &EncodedPart) -> u64 {
    let mut hasher = DefaultHasher::new();
    let EncodedPart { msg_id, part, alphabet, has_header, user_data_length, octets } = part;
    (msg_id, part, alphabet, has_header, user_data_length, octets).hash(&mut hasher);
    hasher.finish()
}

impl Brief {
    fn of(message: &Message, report: &mut Report) -> Brief {
        let mut parts_sum = 0u64;
        if matches!(message.state, State::Scheduled | State::Enroute) {
            match encode(message) {
                Ok(parts) => parts.iter().for_each(|part| parts_sum = parts_sum.wrapping_add(sum_of(part))),
                Err(error) => {
                    report.violated(|| {
                        format!("I1: the body of message {} cannot be sent: {error}", message.msg_id)
                    });
                }
            }
        }
        Brief {
            parts_sum,
            state: message.state,
            dst_key: message.dst_key,
            rank: message.rank(),
            parts: message.parts,
            expire_us: message.expire_us,
            schedule_us: message.schedule_us,
            scheduled: message.schedule_us > message.submit_us,
            submit_us: message.submit_us,
            done_us: message.done_us,
            receipt_of: message.receipt_of,
            wants_receipt: message.wants_receipt(message.state),
            found: Rows::default(),
        }
    }
}

#[derive(Default)]
struct Tables {
    messages: HashMap<i64, Brief>,
    stations: HashMap<StationKey, Station>,
    /// Rank and message by station.
    queues: HashMap<StationKey, Vec<(u8, i64)>>,
    /// Due time and claim by station.
    timers: HashMap<StationKey, Vec<(i64, i64)>>,
    archived: HashMap<i64, ArchivedMessage>,
    /// Times that are no further apart may be of several clocks, µs.
    apart_us: i64,
    /// Final messages may have been there for long enough, and be gone.
    forgets: bool,
}

/// A message that was delivered, as far as order goes; they sort by station, rank and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeliveredMessage {
    station: i64,
    rank: u8,
    id: i64,
    submit_us: i64,
    done_us: i64,
}

/// Checks a store that nobody is using, and the archive in `directory`. `accepted` are numbers that
/// were acknowledged; empty if they are not known.
///
/// # Errors
/// The store or the archive cannot be read. What they hold is no error but in the report.
pub fn check(store: &dyn Store, directory: &Path, accepted: &[i64]) -> Result<Report, ArchiveError> {
    let known =
        if accepted.is_empty() { AcceptedMessages::Unknown } else { AcceptedMessages::AtLeast(accepted) };
    check_accepted(store, directory, known)
}

/// As [`check`], where more or less is known of what was accepted.
///
/// # Errors
/// As [`check`].
pub fn check_accepted(
    store: &dyn Store,
    directory: &Path,
    accepted: AcceptedMessages<'_>,
) -> Result<Report, ArchiveError> {
    let report = check_while(store, directory, accepted, &mut || true)?;
    Ok(report.unwrap_or_else(|| unreachable!("nobody has ended it")))
}

/// Rows that are read before it is asked again whether to go on.
const ROWS: u64 = 1024;

/// As [`check_accepted`], which may take a while: asks `goes_on` again and again, and gives nothing
/// once that is false.
///
/// # Errors
/// As [`check`].
pub fn check_while(
    store: &dyn Store,
    directory: &Path,
    accepted: AcceptedMessages<'_>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Report>, ArchiveError> {
    let count = accepted.numbers().map(|numbers| numbers.len() as u64);
    let mut report = Report { accepted: count, ..Report::default() };
    let apart_us = if store.is_shared() { APART_US } else { 0 };
    let mut tables = Tables { apart_us, forgets: store.may_have_forgotten(), ..Tables::default() };
    report.moved_away = moved_away(directory)?;
    read_archive(directory, &mut |record| {
        let msg_id = record.msg_id;
        if tables.archived.insert(msg_id, record).is_some() {
            report.violated(|| format!("I1: message {msg_id} is in the archive twice"));
        }
    })?;
    let (mut rows, mut ended) = (0_u64, false);
    let scanned = store.scan(&mut |row| {
        rows += 1;
        if rows % ROWS == 0 && !goes_on() {
            ended = true;
            return Err(StoreError::protocol("the check was ended"));
        }
        tables.add(row, &mut report);
        Ok(())
    });
    if ended {
        return Ok(None);
    }
    scanned?;
    let (receipts, archived): (Vec<_>, Vec<_>) =
        tables.archived.values().partition(|record| record.receipt_of != 0);
    report.archived = archived.len() as u64;
    report.receipts =
        receipts.iter().filter(|record| !tables.messages.contains_key(&record.msg_id)).count() as u64;
    report.stations = tables.stations.len() as u64;
    tables.messages(store.has_flusher(), &mut report);
    for part in [Tables::stations, Tables::order, Tables::receipts] {
        if !goes_on() {
            return Ok(None);
        }
        part(&tables, &mut report);
    }
    tables.accepted(accepted, &mut report);
    Ok(Some(report))
}

/// Whether a message went through a peer: receipts, which tell when it was delivered, come from
/// there in any order.
fn went_through_peer(station: i64, parts: u8) -> bool {
    station >= 0 && parts == 0
}

impl Tables {
    fn add(&mut self, row: Row, report: &mut Report) {
        // Tables come in the order of the model: messages first.
        if let Row::Message(message) = &row {
            let brief = Brief::of(message, report);
            self.messages.insert(message.msg_id, brief);
            return;
        }
        let mut found = |msg_id: i64, table: &str, note: &mut dyn FnMut(&mut Brief) -> bool| match self
            .messages
            .get_mut(&msg_id)
            .map(note)
        {
            Some(true) => {}
            Some(false) => {
                report.violated(|| format!("I1: a row of {table} contradicts message {msg_id}"));
            }
            None => {
                report.violated(|| format!("I1: {table} names message {msg_id}, which does not exist"));
            }
        };
        match row {
            Row::EncodedPart(part) => {
                found(part.msg_id, "encoded_msg", &mut |brief| {
                    brief.found.parts += 1;
                    brief.found.parts_sum = brief.found.parts_sum.wrapping_add(sum_of(&part));
                    true
                });
            }
            Row::Queued(row) => {
                found(row.msg_id, "to_delivery", &mut |brief| {
                    brief.found.queued += 1;
                    (brief.dst_key, brief.rank, brief.expire_us) == (row.dst_key, row.rank, row.expire_us)
                });
                self.queues.entry(row.dst_key).or_default().push((row.rank, row.msg_id));
            }
            Row::Scheduled(row) => found(row.msg_id, "scheduled_msg", &mut |brief| {
                brief.found.scheduled += 1;
                brief.schedule_us == row.due_us
            }),
            Row::Station(station) => {
                self.stations.insert(station.dst_key, station);
            }
            Row::RetryTimer(row) => {
                self.timers.entry(row.dst_key).or_default().push((row.due_us, row.epoch));
            }
            Row::Sent(row) => found(row.msg_id, "sent", &mut |brief| {
                brief.found.sent += 1;
                (brief.state, brief.done_us) == (row.state, row.done_us)
            }),
            Row::Forwarded(row) => found(row.msg_id, "forwarded", &mut |brief| {
                brief.found.forwarded += 1;
                brief.state == State::Forwarded
            }),
            Row::Message(_) | Row::IdBlock(_) | Row::Account(_) => {}
        }
    }

    /// I1: the rows of a message are those of its state.
    fn messages(&self, has_flusher: bool, report: &mut Report) {
        for (id, brief) in &self.messages {
            let Rows { parts, parts_sum, queued, scheduled, sent, forwarded } = &brief.found;
            let live = !brief.state.is_final();
            let is_forwarded = brief.state == State::Forwarded;
            let expected_parts = if live { u32::from(brief.parts) } else { 0 };
            let expected = (
                u32::from(brief.state == State::Enroute),
                u32::from(brief.state == State::Scheduled),
                u32::from(!live && has_flusher),
                u32::from(is_forwarded),
            );
            if (*queued, *scheduled, *sent, *forwarded) != expected || *parts != expected_parts {
                report.violated(|| {
                    format!(
                        "I1: message {id} is {:?} and has {queued} rows in to_delivery, {scheduled} in scheduled_msg, \
                         {sent} in sent, {forwarded} in forwarded, {parts} of {} parts",
                        brief.state, brief.parts
                    )
                });
            } else if *parts_sum != brief.parts_sum {
                report
                    .violated(|| format!("I1: the {parts} parts of message {id} are not those of its body"));
            }
            if live && self.archived.contains_key(id) {
                report.violated(|| format!("I1: message {id} is archived and still {:?}", brief.state));
            }
            match (brief.receipt_of, live) {
                (0, true) => report.live += 1,
                (0, false) => report.finished += 1,
                _ => report.receipts += 1,
            }
        }
    }

    /// I2 and I4.
    fn stations(&self, report: &mut Report) {
        let empty = Vec::new();
        for (key, queue) in &self.queues {
            if !self.stations.contains_key(key) {
                report.violated(|| {
                    format!("I4: {} messages wait for station {key}, which has no row", queue.len())
                });
            }
        }
        for (key, timers) in &self.timers {
            let station = self.stations.get(key);
            let waits =
                |station: &Station| matches!(station.state, StationState::Wait | StationState::Absent);
            let live = station
                .is_some_and(|station| waits(station) && timers[..] == [(station.ready_us, station.epoch)]);
            if !live {
                report.violated(|| {
                    format!("I4: the timers {timers:?} of station {key} are not those of {station:?}")
                });
            }
        }
        for (key, station) in &self.stations {
            let queue = self.queues.get(key).unwrap_or(&empty);
            let in_flight = queue.iter().any(|row| row.1 == station.current);
            let busy = station.state == StationState::Busy;
            if busy != (station.current != 0) || (busy && !in_flight) {
                report.violated(|| format!("I2: {station:?} with the queue {queue:?}"));
            }
            let awake = match station.state {
                StationState::Idle => queue.is_empty(),
                StationState::Ready | StationState::Busy => !queue.is_empty(),
                StationState::Wait | StationState::Absent => {
                    !queue.is_empty() && self.timers.contains_key(key)
                }
            };
            if !awake || station.queue as usize != queue.len() {
                report.violated(|| format!("I4: {station:?} has {} messages queued", queue.len()));
            }
        }
    }

    /// I6.
    fn accepted(&self, accepted: AcceptedMessages<'_>, report: &mut Report) {
        for id in accepted.numbers().unwrap_or_default() {
            let is_there = self.messages.contains_key(id) || self.archived.contains_key(id);
            if is_there || report.moved_away > 0 {
                continue;
            }
            if self.forgets {
                report.forgotten += 1;
            } else {
                report.violated(|| format!("I6: message {id} was accepted and is gone"));
            }
        }
        if let AcceptedMessages::Exactly(numbers) = accepted {
            let numbers: HashSet<&i64> = numbers.iter().collect();
            let live = self
                .messages
                .iter()
                .filter(|message| message.1.receipt_of == 0)
                .map(|message| (message.0, "the store"));
            let archived = self.archived.iter().filter(|record| record.1.receipt_of == 0);
            let found = live.chain(archived.map(|record| (record.0, "the archive")));
            for (id, place) in found.filter(|entry| !numbers.contains(entry.0)) {
                report.violated(|| format!("I6: message {id} is in {place} and was never accepted"));
            }
        }
    }

    /// I3. The later one of two messages that was accepted at an earlier time was so after a clock
    /// had been set back: when they were delivered tells nothing then.
    fn order(&self, report: &mut Report) {
        let mut delivered: Vec<DeliveredMessage> = Vec::new();
        for (&id, message) in &self.messages {
            if message.state == State::Delivered
                && !message.scheduled
                && !went_through_peer(message.dst_key.0, message.parts)
            {
                let &Brief { rank, submit_us, done_us, .. } = message;
                delivered.push(DeliveredMessage { station: message.dst_key.0, rank, id, submit_us, done_us });
            }
        }
        for (&id, record) in &self.archived {
            let by_peer = went_through_peer(record.station, record.parts);
            if record.delivered() && !record.scheduled() && !by_peer && !self.messages.contains_key(&id) {
                let &ArchivedMessage { station, rank, submit_us, done_us, .. } = record;
                delivered.push(DeliveredMessage { station, rank, id, submit_us, done_us });
            }
        }
        delivered.sort_unstable();
        for pair in delivered.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let is_late = before.done_us.saturating_sub(after.done_us) > self.apart_us;
            let is_of_one = (before.station, before.rank) == (after.station, after.rank);
            if is_of_one && is_late && before.submit_us <= after.submit_us {
                report.violated(|| {
                    let station = StationKey(before.station);
                    format!("I3: station {station} got message {} before message {}", after.id, before.id)
                });
            }
        }
    }

    /// I5.
    fn receipts(&self, report: &mut Report) {
        let mut receipts: HashMap<i64, HashSet<i64>> = HashMap::new();
        for (&id, message) in self.messages.iter().filter(|message| message.1.receipt_of > 0) {
            receipts.entry(message.receipt_of).or_default().insert(id);
        }
        for (&id, record) in self.archived.iter().filter(|record| record.1.receipt_of > 0) {
            receipts.entry(record.receipt_of).or_default().insert(id);
        }
        let live = self
            .messages
            .iter()
            .map(|(&id, message)| (id, message.wants_receipt && message.state.is_final()));
        let archived = self.archived.iter().map(|(&id, record)| (id, record.receipt_due));
        let due: HashMap<i64, bool> = archived.chain(live).collect();
        for (id, due) in due {
            let found = receipts.remove(&id).map_or(0, |them| them.len());
            let may_be_away = found == 0 && report.moved_away > 0;
            if found != usize::from(due) && !may_be_away {
                report.violated(|| format!("I5: message {id} has {found} receipts, {} due", u8::from(due)));
            }
        }
        if report.moved_away > 0 {
            return;
        }
        for (id, them) in receipts {
            report.violated(|| format!("I5: {them:?} are receipts of message {id}, which does not exist"));
        }
    }
}
