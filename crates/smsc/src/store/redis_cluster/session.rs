//! A session: operations become calls of functions. Those of every message wait until the session
//! is settled, and then go to all nodes at once; the others go alone.

use super::cluster::{Call, Course, Links};
use super::connection::Reply;
use super::rows::{self, be, key, number_of, station_of};
use super::shared::Shared;
use crate::centre::{
    Channel, CompletionResult, Delivery, Due, Operation, Outcome, Place, Refusal, Replacement, RunPlace,
    Settlement, Status, Submission, Task, Verdict, encode, is_named, notification, receipt,
};
use crate::model::{
    Account, MOBILE_SHARDS, Message, PASSWORD_HASH_MAX, SHARDS, SHARDS_ALL, State, Station, StationKey,
    StationState, shard_of, shard_of_peer,
};
use crate::store::{Session, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Shards that one claim looks at where it knows of none that has something.
const PEEK: usize = 32;
/// Shards that it looks at besides those that it knows of.
const PEEK_BESIDES: usize = 4;
/// Tries of one claim to fill itself.
const ROUNDS: usize = 4;
/// The greatest number in a column of 4 octets.
const NUMBER_MAX: u64 = i32::MAX as u64;

/// What a call that waits was.
enum Pending {
    /// Its shard, and that of the run queue.
    Receive(u16, u16),
    /// Its shard, that of the station and of the receipt in the run queue.
    Complete(u16, u64),
    Count(u16),
}

/// A session.
pub(super) struct RedisClusterSession {
    shared: Arc<Shared>,
    links: Links,
    calls: Vec<Call>,
    pending: Vec<Pending>,
    /// Calls that were sent and have not all been carried out when a deadline was over.
    under_way: Option<(Vec<Call>, Vec<Pending>, Course)>,
    ready: VecDeque<Outcome>,
}

fn protocol(what: &str) -> StoreError {
    StoreError::protocol(format!("a function of the cluster gave no {what}"))
}

fn whole(reply: &Reply) -> Result<i64, StoreError> {
    reply.int().ok_or_else(|| protocol("number"))
}

/// A message with its number, its octets and its view, as functions give them; none if empty.
struct Found {
    message: Message,
    raw: Vec<u8>,
    view: Vec<u8>,
}

impl Found {
    fn read(reply: &Reply) -> Result<Option<Found>, StoreError> {
        let [id, raw, view] = reply.array() else { return Ok(None) };
        let octets = |reply: &Reply| reply.bulk().map(<[u8]>::to_vec).ok_or_else(|| protocol("octets"));
        let (raw, view) = (octets(raw)?, octets(view)?);
        let message = rows::message(number_of(&octets(id)?)?, &raw, &view)?;
        Ok(Some(Found { message, raw, view }))
    }

    fn all(reply: &Reply) -> Result<Vec<Found>, StoreError> {
        let found = reply.array().iter().map(|item| Found::read(item)?.ok_or_else(|| protocol("message")));
        found.collect()
    }
}

/// What a guarded change came to.
enum Guarded {
    Done,
    Changed,
    InFlight,
}

impl RedisClusterSession {
    pub fn new(shared: &Arc<Shared>) -> RedisClusterSession {
        RedisClusterSession {
            shared: Arc::clone(shared),
            links: Links::new(&shared.cluster),
            calls: Vec::new(),
            pending: Vec::new(),
            under_way: None,
            ready: VecDeque::new(),
        }
    }

    fn shards(&self) -> u16 {
        self.shared.cluster.shards
    }

    fn of_message(&self, msg_id: i64) -> u16 {
        msg_id.rem_euclid(i64::from(self.shards())) as u16
    }

    /// The arguments of a receipt: none, or where it goes and what it is.
    fn with_receipt(&self, call: Call, receipt: Option<(&Message, i64)>, of: &Message) -> Call {
        let Some((receipt, receipt_of)) = receipt else {
            return (0..6).fold(call, |call, _| call.arg(b""));
        };
        let mut receipt = receipt.clone();
        receipt.dst_key = StationKey::of_account(of.account, of.msg_id);
        receipt.receipt_of = receipt_of;
        let shard = call.shard;
        call.arg(&key(receipt.dst_key))
            .number(shard_of(receipt.dst_key).into())
            .arg(&rows::written(&receipt, &self.shared.token()))
            .arg(&be(receipt.expire_us))
            .number(self.shards().into())
            .number(shard.into())
    }

    /// Sends what waits; the outcomes are ready then.
    fn flush(&mut self) -> Result<(), StoreError> {
        self.flush_until(None)
    }

    /// Sends what waits; the outcomes are ready then, or under way where `until` was over before.
    fn flush_until(&mut self, until: Option<Instant>) -> Result<(), StoreError> {
        loop {
            let (calls, pending, mut course) = match self.under_way.take() {
                Some(under_way) => under_way,
                None if self.calls.is_empty() => return Ok(()),
                None => {
                    let course = Course::new(self.calls.len());
                    (std::mem::take(&mut self.calls), std::mem::take(&mut self.pending), course)
                }
            };
            while !self.links.go_on(&calls, &mut course, until)? {
                if until.is_some_and(|until| Instant::now() >= until) {
                    self.under_way = Some((calls, pending, course));
                    return Ok(());
                }
            }
            self.digest(&course.replies(), pending)?;
        }
    }

    /// Makes outcomes of replies.
    fn digest(&mut self, replies: &[Reply], pending: Vec<Pending>) -> Result<(), StoreError> {
        for (reply, pending) in replies.iter().zip(pending) {
            let outcome = match pending {
                Pending::Receive(shard, run) => match whole(reply)? {
                    0 => Outcome::Refused(Refusal::QueueFull),
                    id => {
                        self.shared.saw(shard, id);
                        self.shared.hint(shard, 1 << run);
                        Outcome::Received(id)
                    }
                },
                Pending::Complete(shard, runs) => {
                    let [what, value, _] = reply.array() else { return Err(protocol("result")) };
                    self.shared.hint(shard, runs);
                    Outcome::Completed(match whole(what)? {
                        0 => CompletionResult::Final(whole(value)?),
                        1 => CompletionResult::Again(whole(value)?),
                        _ => CompletionResult::Fenced,
                    })
                }
                Pending::Count(shard) => {
                    self.shared.hint(shard, u64::MAX);
                    Outcome::Count(usize::try_from(whole(reply)?).unwrap_or(0))
                }
            };
            self.ready.push_back(outcome);
        }
        Ok(())
    }

    fn receive_call(&self, submission: &Submission) -> Call {
        let Submission { message, shard: run, .. } = submission;
        let shard = self.shared.shard(message.dst_key);
        let scheduled = message.state == State::Scheduled;
        let schedule = be(message.schedule_us);
        let mut call = Call::write("receive", shard)
            .arg(&key(message.dst_key))
            .number(self.shared.rules.queue_max.into())
            .arg(&rows::written(message, &self.shared.token()))
            .arg(&[message.rank()])
            .arg(&be(message.expire_us))
            .arg(if scheduled { &schedule } else { b"" })
            .number((*run).into())
            .number(message.submit_us)
            .number(self.shards().into())
            .number(shard.into())
            .number(shard_of(message.dst_key).into());
        call.from = self.shared.seen(shard).to_string();
        call
    }

    /// With the limits of accounts, whose rows are in other shards: the queue has room, the account
    /// may, the message is stored. Between these others may come.
    fn receive_of_account(&mut self, submission: &Submission) -> Result<Outcome, StoreError> {
        let message = &submission.message;
        let room = Call::read("queued", self.shared.shard(message.dst_key)).arg(&key(message.dst_key));
        if whole(&self.links.one(room)?)? >= i64::from(self.shared.rules.queue_max) {
            return Ok(Outcome::Refused(Refusal::QueueFull));
        }
        let charge = Call::write("charge", self.of_account(message.account))
            .arg(&message.account.to_be_bytes())
            .number(message.submit_us);
        match whole(&self.links.one(charge)?)? {
            -1 => return Ok(Outcome::Refused(Refusal::NoSuchAccount)),
            -2 => return Ok(Outcome::Refused(Refusal::QuotaExceeded)),
            -3 => return Ok(Outcome::Refused(Refusal::Throttled)),
            _ => {}
        }
        self.calls.push(self.receive_call(submission));
        self.pending.push(Pending::Receive(self.shared.shard(message.dst_key), submission.shard));
        self.flush()?;
        self.ready.pop_back().ok_or_else(|| protocol("outcome"))
    }

    fn of_account(&self, account: u32) -> u16 {
        (account % u32::from(self.shards())) as u16
    }

    /// Shards of the run queue that a channel goes through in a shard of the store, in order. With
    /// 64 shards and more, all mobiles of one have the same.
    fn runs(&self, channel: &Channel, shard: u16) -> Vec<u16> {
        let of_mobiles = |first: u16, round: u16| match self.shards() {
            1 => (0..round).map(|step| (first + step) % round).collect(),
            shards => vec![shard / (shards / MOBILE_SHARDS)],
        };
        match *channel {
            Channel::All(first) if self.shards() == 1 => of_mobiles(first, SHARDS),
            Channel::All(_) => of_mobiles(0, 1).into_iter().chain(MOBILE_SHARDS..SHARDS).collect(),
            Channel::Mobiles(first) => of_mobiles(first, MOBILE_SHARDS),
            Channel::Peer(number) => vec![shard_of_peer(number)],
            Channel::Stations(_) => Vec::new(),
        }
    }

    fn deliveries(&self, reply: &Reply, out: &mut Vec<Delivery>) -> Result<usize, StoreError> {
        for item in reply.array() {
            let [k, epoch, attempts, id, raw, view] = item.array() else { return Err(protocol("delivery")) };
            let octets = |reply| Reply::bulk(reply).ok_or_else(|| protocol("octets"));
            let message = rows::message(number_of(octets(id)?)?, octets(raw)?, octets(view)?)?;
            // Parts follow from the message: they are not kept.
            let parts = match message.parts {
                0 => Vec::new(),
                _ => encode(&message).map_err(|error| {
                    StoreError::inconsistent(format!("message {} cannot be encoded: {error}", message.msg_id))
                })?,
            };
            out.push(Delivery {
                station: station_of(octets(k)?)?,
                epoch: whole(epoch)?,
                attempts: u32::try_from(whole(attempts)?).unwrap_or(u32::MAX),
                message: Box::new(message),
                parts,
            });
        }
        Ok(reply.array().len())
    }

    fn claim_call(&self, name: &'static str, shard: u16, max: usize, now_us: i64) -> Call {
        Call::write(name, shard)
            .number(now_us)
            .number(self.shared.rules.lease_us)
            .number(max as i64)
            .number(self.shared.claim())
    }

    fn claim(
        &mut self,
        channel: &Channel,
        spread: usize,
        max: usize,
        now_us: i64,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut out = Vec::new();
        if let Channel::Stations(stations) = channel {
            let mut rest = stations.as_slice();
            while out.len() < max && !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(max - out.len()));
                rest = later;
                let mut shards: Vec<u16> = now.iter().map(|&station| self.shared.shard(station)).collect();
                shards.sort_unstable();
                shards.dedup();
                let calls: Vec<Call> = shards
                    .iter()
                    .map(|&shard| {
                        let own = now.iter().filter(|&&station| self.shared.shard(station) == shard);
                        let call = self.claim_call("claim_named", shard, max, now_us);
                        own.fold(call, |call, &station| call.arg(&key(station)))
                    })
                    .collect();
                for reply in &self.links.run(&calls)? {
                    self.deliveries(reply, &mut out)?;
                }
            }
            return Ok(out);
        }
        let mask =
            |session: &Self, shard| session.runs(channel, shard).iter().fold(0, |mask, run| mask | 1 << run);
        for _ in 0..ROUNDS {
            // Those that probably have something, and a few that may have.
            let count = usize::from(self.shards());
            let begin = self.shared.turn.fetch_add(1, Relaxed) % count;
            let around = (0..count).map(|step| ((begin + step) % count) as u16);
            let hinted: Vec<u16> = around
                .filter(|&shard| self.shared.is_hinted(shard, mask(self, shard)))
                .take(max - out.len())
                .collect();
            let peeks = if hinted.is_empty() { PEEK } else { PEEK_BESIDES }.min(count);
            let begin = self.shared.peeked.fetch_add(peeks, Relaxed) % count;
            let peeked: Vec<u16> = (0..peeks)
                .map(|step| ((begin + step) % count) as u16)
                .filter(|shard| !hinted.contains(shard))
                .collect();
            let each = (max - out.len()).checked_div(hinted.len()).unwrap_or(0);
            let mut calls = Vec::with_capacity(hinted.len() + peeked.len());
            for (at, &shard) in hinted.iter().enumerate() {
                // What comes from now on hints again.
                self.shared.unhint(shard, mask(self, shard));
                let more = usize::from(at < (max - out.len()) % hinted.len());
                let call = self.claim_call("claim", shard, each + more, now_us).number(spread as i64);
                calls.push(self.runs(channel, shard).iter().fold(call, |call, &run| call.number(run.into())));
            }
            for &shard in &peeked {
                let call = Call::read("peek", shard).number(now_us);
                calls.push(self.runs(channel, shard).iter().fold(call, |call, &run| call.number(run.into())));
            }
            let replies = self.links.run(&calls)?;
            let before = out.len();
            for (at, (reply, call)) in replies.iter().zip(&calls).enumerate() {
                let shard = call.shard;
                if at < hinted.len() {
                    let most = each + usize::from(at < (max - before) % hinted.len());
                    if self.deliveries(reply, &mut out)? == most {
                        self.shared.hint(shard, mask(self, shard));
                    }
                } else if whole(reply)? == 1 {
                    self.shared.hint(shard, mask(self, shard));
                }
            }
            let has_more = (0..self.shards()).any(|shard| self.shared.is_hinted(shard, mask(self, shard)));
            if out.len() == max || !has_more {
                break;
            }
        }
        Ok(out)
    }

    /// The next of all shards, a part of them at a time.
    fn some_shards(&self, parts: u16, turn: &std::sync::atomic::AtomicUsize) -> Vec<u16> {
        let share = (self.shards() / parts).max(1);
        let begin = turn.fetch_add(share.into(), Relaxed);
        (0..share).map(|step| ((begin + usize::from(step)) % usize::from(self.shards())) as u16).collect()
    }

    /// The sum of what a function gives in these shards, each of which may do its part of `max`.
    fn sum(
        &mut self,
        shards: &[u16],
        max: usize,
        call: impl Fn(u16, usize) -> Call,
    ) -> Result<usize, StoreError> {
        let each = max.div_ceil(shards.len()).max(1);
        let calls: Vec<Call> = shards.iter().map(|&shard| call(shard, each)).collect();
        let mut sum = 0;
        for (reply, call) in self.links.run(&calls)?.iter().zip(&calls) {
            let count = usize::try_from(whole(reply)?).unwrap_or(0);
            if count > 0 {
                self.shared.hint(call.shard, u64::MAX);
            }
            sum += count;
        }
        Ok(sum)
    }

    fn all_shards(&self) -> Vec<u16> {
        (0..self.shards()).collect()
    }

    fn find(&mut self, msg_id: i64) -> Result<Option<Found>, StoreError> {
        Found::read(&self.links.one(Call::read("show", self.of_message(msg_id)).arg(&be(msg_id)))?)
    }

    /// The account's own message, no receipt.
    fn own(&mut self, account: u32, msg_id: i64) -> Result<Option<Found>, StoreError> {
        let is_own = |found: &Found| found.message.account == account && found.message.receipt_of == 0;
        Ok(self.find(msg_id)?.filter(is_own))
    }

    fn guarded(&mut self, call: Call) -> Result<Guarded, StoreError> {
        let shard = call.shard;
        let reply = self.links.one(call)?;
        self.shared.hint(shard, u64::MAX);
        Ok(match whole(&reply)? {
            1 => Guarded::Done,
            2 => Guarded::InFlight,
            _ => Guarded::Changed,
        })
    }

    /// Gives a message that waits its final state.
    fn finish(&mut self, found: &Found, state: State, now_us: i64) -> Result<Guarded, StoreError> {
        let message = &found.message;
        let receipt = receipt(message, state, message.last_error, now_us);
        let schedule = be(message.schedule_us);
        let call = Call::write("finish", self.of_message(message.msg_id))
            .arg(&key(message.dst_key))
            .arg(&be(message.msg_id))
            .arg(&found.view)
            .number(state as i64)
            .number(now_us)
            .arg(&[message.rank()])
            .arg(&be(message.expire_us))
            .arg(if message.state == State::Scheduled { &schedule } else { b"" })
            .number(shard_of(message.dst_key).into());
        let call =
            self.with_receipt(call, receipt.as_deref().map(|receipt| (receipt, message.msg_id)), message);
        self.guarded(call)
    }

    fn cancel(&mut self, account: u32, msg_id: i64, now_us: i64) -> Result<Outcome, StoreError> {
        loop {
            let Some(found) = self.own(account, msg_id)? else {
                return Ok(Outcome::Refused(Refusal::NoSuchMessage));
            };
            if let Some(refusal) = unchangeable(&found.message) {
                return Ok(Outcome::Refused(refusal));
            }
            match self.finish(&found, State::Deleted, now_us)? {
                Guarded::Done => return Ok(Outcome::Count(1)),
                Guarded::InFlight => return Ok(Outcome::Refused(Refusal::InFlight)),
                Guarded::Changed => {}
            }
        }
    }

    fn replace(&mut self, with: &Replacement) -> Result<Outcome, StoreError> {
        loop {
            let Some(found) = self.own(with.account, with.msg_id)? else {
                return Ok(Outcome::Refused(Refusal::NoSuchMessage));
            };
            if let Some(refusal) = unchangeable(&found.message) {
                return Ok(Outcome::Refused(refusal));
            }
            let mut message = found.message.clone();
            with.give(&mut message);
            let refusal = if message.expire_us <= message.submit_us.max(message.schedule_us) {
                Some(Refusal::Expired)
            } else {
                match encode(&message) {
                    // At most 255.
                    Ok(parts) => {
                        message.parts = parts.len() as u8;
                        None
                    }
                    Err(error) => Some(Refusal::Text(error)),
                }
            };
            let schedule = be(message.schedule_us);
            let call = Call::write("replace", self.of_message(message.msg_id))
                .arg(&key(message.dst_key))
                .arg(&be(message.msg_id))
                .arg(&found.view)
                .arg(&found.raw)
                .arg(&rows::written(&message, &self.shared.token()))
                .arg(&be(found.message.expire_us))
                .arg(&be(message.expire_us))
                .arg(&[message.rank()])
                .arg(if message.state == State::Scheduled { &schedule } else { b"" })
                .number(shard_of(message.dst_key).into());
            if let Some(refusal) = refusal {
                // One in flight is refused for that, whatever the new text is.
                let busy = self.is_in_flight(&found.message)?;
                return Ok(Outcome::Refused(if busy { Refusal::InFlight } else { refusal }));
            }
            match self.guarded(call)? {
                Guarded::Done => return Ok(Outcome::Count(1)),
                Guarded::InFlight => return Ok(Outcome::Refused(Refusal::InFlight)),
                Guarded::Changed => {}
            }
        }
    }

    fn is_in_flight(&mut self, message: &Message) -> Result<bool, StoreError> {
        let call = Call::read("station", self.shared.shard(message.dst_key)).arg(&key(message.dst_key));
        let reply = self.links.one(call)?;
        let Some(raw) = reply.bulk() else { return Ok(false) };
        let station = rows::station(message.dst_key, raw)?;
        Ok(station.state == StationState::Busy && station.current == message.msg_id)
    }

    fn expire(&mut self, now_us: i64, max: usize) -> Result<Outcome, StoreError> {
        let shards = self.some_shards(4, &self.shared.swept);
        let each = max.div_ceil(shards.len()).max(1) as i64;
        let calls: Vec<Call> =
            shards.iter().map(|&shard| Call::read("expired", shard).number(now_us).number(each)).collect();
        let mut due = Vec::new();
        for reply in &self.links.run(&calls)? {
            due.extend(Found::all(reply)?);
        }
        due.sort_by_key(|found| (found.message.dst_key, found.message.rank(), found.message.msg_id));
        let (mut count, mut tried) = (0, 0);
        for found in &due {
            if let Guarded::Done = self.finish(found, State::Expired, now_us)? {
                count += 1;
                tried += usize::from(found.message.attempts > 0);
            }
        }
        Ok(Outcome::Swept { count, tried, next: None })
    }

    /// Stores what a peer told of a message; whether it was still so.
    fn settle_one(
        &mut self,
        found: &Found,
        (end, error): (Option<State>, u32),
        told: Option<&Message>,
        now_us: i64,
    ) -> Result<Guarded, StoreError> {
        let message = &found.message;
        let call = Call::write("settle", self.of_message(message.msg_id))
            .arg(&be(message.msg_id))
            .arg(&found.view)
            .number(end.is_some().into())
            .number(end.map_or(0, |state| state as i64))
            .number(error.into())
            .number(now_us);
        let receipt_of = if end.is_some() { message.msg_id } else { -message.msg_id };
        let call = self.with_receipt(call, told.map(|told| (told, receipt_of)), message);
        self.guarded(call)
    }

    fn settle_by_peer(&mut self, with: &Settlement) -> Result<Outcome, StoreError> {
        loop {
            // Which shard has it, nobody knows.
            let calls: Vec<Call> = (0..self.shards())
                .map(|shard| {
                    Call::read("by_peer", shard).arg(&with.peer.to_be_bytes()).arg(with.peer_id.as_bytes())
                })
                .collect();
            let mut newest: Option<Found> = None;
            for reply in &self.links.run(&calls)? {
                if let Some(found) = Found::read(reply)?
                    && newest.as_ref().is_none_or(|newest| newest.message.msg_id < found.message.msg_id)
                {
                    newest = Some(found);
                }
            }
            let Some(found) = newest else { return Ok(Outcome::Refused(Refusal::NoSuchMessage)) };
            let message = &found.message;
            let lane = StationKey::of_account(message.account, message.msg_id);
            let told = match with.state {
                Some(state) => receipt(message, state, with.error, with.now_us),
                None => {
                    // Only the first: the attempt that the peer was is counted as one.
                    let first = Message { attempts: message.attempts.saturating_sub(1), ..message.clone() };
                    match notification(&first, with.error, with.now_us) {
                        None => return Ok(Outcome::Settled(None)),
                        told => told,
                    }
                }
            };
            let end = (with.state, with.error);
            if let Guarded::Done = self.settle_one(&found, end, told.as_deref(), with.now_us)? {
                return Ok(Outcome::Settled(told.map(|_| lane)));
            }
        }
    }

    fn overdue(&mut self, now_us: i64, max: usize) -> Result<usize, StoreError> {
        let calls: Vec<Call> = (0..self.shards())
            .map(|shard| Call::read("overdue", shard).number(now_us).number(max as i64))
            .collect();
        let mut count = 0;
        for reply in &self.links.run(&calls)? {
            for found in Found::all(reply)?.iter().take(max.saturating_sub(count)) {
                let error = found.message.last_error;
                let told = receipt(&found.message, State::Unknown, error, now_us);
                let end = (Some(State::Unknown), error);
                count += usize::from(matches!(
                    self.settle_one(found, end, told.as_deref(), now_us)?,
                    Guarded::Done
                ));
            }
        }
        Ok(count)
    }

    fn next_due(&mut self) -> Result<Option<Due>, StoreError> {
        let calls: Vec<Call> = (0..self.shards()).map(|shard| Call::read("next_due", shard)).collect();
        // As the lists are looked at: shard by shard of the run queue, ready before busy, then
        // timers, then schedules; the first of the earliest counts.
        let mut found = Vec::new();
        for reply in &self.links.run(&calls)? {
            for item in reply.array() {
                let [kind, run, time, which] = item.array() else { return Err(protocol("task")) };
                let (time, which) = (time.bulk().unwrap_or_default(), which.bulk().unwrap_or_default());
                let order = match kind.bulk() {
                    Some(b"r") => (whole(run)?, 0),
                    Some(b"b") => (whole(run)?, 1),
                    Some(b"w") => (SHARDS_ALL.into(), 0),
                    _ => (SHARDS_ALL.into(), 1),
                };
                found.push((number_of(time)?, order, which.to_vec()));
            }
        }
        let Some((due_us, order, which)) = found.into_iter().min() else { return Ok(None) };
        let last = i64::from(SHARDS_ALL);
        let task = match order {
            (run, 1) if run == last => Task::Release(number_of(&which)?),
            (run, _) if run == last => Task::Retry(station_of(&which)?),
            (_, 0) => Task::Claim(station_of(&which)?),
            _ => Task::Complete(station_of(&which)?),
        };
        Ok(Some(Due { due_us, task }))
    }

    fn stations(&mut self, from: RunPlace, max: usize) -> Result<Vec<Station>, StoreError> {
        let (run, state, ready_us, key) = from.parts();
        let own = self.shards() / MOBILE_SHARDS;
        let shards: Vec<u16> = match run {
            // Those of mobiles are in a few shards.
            run if run < MOBILE_SHARDS && own > 0 => (run * own..(run + 1) * own).collect(),
            _ => self.all_shards(),
        };
        // A place within a list is not asked for: what comes before it is left out here.
        let most = 100_000;
        let calls: Vec<Call> = shards
            .iter()
            .map(|&shard| Call::read("stations", shard).number(run.into()).number(most))
            .collect();
        let mut found = Vec::new();
        for reply in &self.links.run(&calls)? {
            for item in reply.array() {
                let [k, raw] = item.array() else { return Err(protocol("station")) };
                let station = station_of(k.bulk().unwrap_or_default())?;
                let station = rows::station(station, raw.bulk().unwrap_or_default())?;
                if (station.state as i64, station.ready_us, station.dst_key.0) >= (state, ready_us, key) {
                    found.push(station);
                }
            }
        }
        found.sort_by_key(|station| (station.state as i64, station.ready_us, station.dst_key));
        found.truncate(max);
        Ok(found)
    }

    fn waiting(&mut self, station: StationKey, max: usize) -> Result<Vec<Message>, StoreError> {
        let most = i64::try_from(max).unwrap_or(i64::MAX).min(1 << 31);
        let call = Call::read("waiting", self.shared.shard(station)).arg(&key(station)).number(most);
        Ok(Found::all(&self.links.one(call)?)?.into_iter().map(|found| found.message).collect())
    }

    fn put_account(&mut self, account: &Account) -> Result<Outcome, StoreError> {
        let fields = [
            ("binds_max", account.binds_max.into(), NUMBER_MAX),
            ("window_max", account.window_max.into(), NUMBER_MAX),
            ("rate_max", account.rate_max.into(), NUMBER_MAX),
            ("octets of password_hash", account.password_hash.len() as u64, PASSWORD_HASH_MAX),
            // Numbers of the functions are exact up to there.
            ("quota", account.quota.max(0).unsigned_abs(), 1 << 53),
        ];
        if let Some(&(field, value, max)) = fields.iter().find(|field| field.1 > field.2) {
            return Ok(Outcome::Refused(Refusal::TooGreat { field, value, max }));
        }
        let call = Call::write("put_account", self.of_account(account.account))
            .arg(&account.account.to_be_bytes())
            .arg(&rows::account_row(account))
            .arg(&account.password_hash);
        self.links.one(call)?;
        Ok(Outcome::Count(1))
    }

    /// What is done alone.
    fn alone(&mut self, operation: Operation) -> Result<Outcome, StoreError> {
        let sum = |count| Outcome::Count(count);
        match operation {
            Operation::Receive(submission) => self.receive_of_account(&submission),
            Operation::Claim { channel, spread, max, now_us } => {
                self.claim(&channel, spread, max, now_us).map(Outcome::Claimed)
            }
            Operation::Settle(settlement) => self.settle_by_peer(&settlement),
            Operation::Overdue { now_us, max } => self.overdue(now_us, max).map(sum),
            Operation::ReleaseScheduled { now_us, max } => {
                let shards = self.some_shards(16, &self.shared.released);
                let call = |shard, most| Call::write("release", shard).number(now_us).number(most as i64);
                self.sum(&shards, max, call).map(sum)
            }
            Operation::WakeDue { now_us, max } => {
                let shards = self.some_shards(16, &self.shared.woken);
                let call = |shard, most| Call::write("wake", shard).number(now_us).number(most as i64);
                self.sum(&shards, max, call).map(sum)
            }
            Operation::FreeLeases { now_us, until_us, max } => {
                let until = if until_us == i64::MAX { String::new() } else { until_us.to_string() };
                let call = |shard, most: usize| {
                    let call = Call::write("free", shard).number(now_us).arg(until.as_bytes());
                    call.number(most as i64).arg(b"")
                };
                let shards = self.all_shards();
                self.sum(&shards, max, call).map(sum)
            }
            Operation::Expire { now_us, max, from: Place { .. } } => self.expire(now_us, max),
            Operation::Query { account, msg_id } => Ok(match self.own(account, msg_id)? {
                Some(Found { message: Message { state, done_us, last_error: error, .. }, .. }) => {
                    Outcome::Status(Status { state, done_us, error })
                }
                None => Outcome::Refused(Refusal::NoSuchMessage),
            }),
            Operation::Find { account, src, service_type, station, max } => {
                let named = (src.as_str(), service_type.as_deref());
                let mut found: Vec<i64> = self
                    .waiting(station, usize::MAX)?
                    .into_iter()
                    .filter(|message| is_named(message, account, named))
                    .map(|message| message.msg_id)
                    .collect();
                found.sort_unstable();
                found.truncate(max);
                Ok(Outcome::Found(found))
            }
            Operation::Cancel { account, msg_id, now_us } => self.cancel(account, msg_id, now_us),
            Operation::Replace(replacement) => self.replace(&replacement),
            Operation::PutAccount(account) => self.put_account(&account),
            Operation::Account(number) => {
                let call = Call::read("account", self.of_account(number)).arg(&number.to_be_bytes());
                let reply = self.links.one(call)?;
                Ok(Outcome::Account(reply.bulk().map(|raw| rows::account(number, raw)).transpose()?))
            }
            // Final messages stay where they are until they are too old.
            Operation::NextSent { .. } => Ok(Outcome::Sent(Vec::new())),
            Operation::DropSent(keys) => Ok(Outcome::Count(keys.len())),
            Operation::NextDue => self.next_due().map(Outcome::Due),
            Operation::Stations { from, max } => self.stations(from, max).map(Outcome::Stations),
            Operation::Show(msg_id) => {
                Ok(Outcome::Message(self.find(msg_id)?.map(|found| Box::new(found.message))))
            }
            Operation::Waiting { station, max } => self.waiting(station, max).map(Outcome::Waiting),
            Operation::Complete(_)
            | Operation::Forward(_)
            | Operation::PutBack(_)
            | Operation::Alert { .. } => Err(StoreError::protocol("it goes with others")),
        }
    }

    /// A call that goes with others, if the operation is one.
    fn together(&self, operation: &Operation) -> Option<(Call, Pending)> {
        match operation {
            Operation::Receive(submission) if !self.shared.rules.accounts => {
                let shard = self.shared.shard(submission.message.dst_key);
                Some((self.receive_call(submission), Pending::Receive(shard, submission.shard)))
            }
            Operation::Complete(completion) => {
                let (message, station) = (&completion.message, completion.station);
                let shard = self.shared.shard(station);
                let call = Call::write("complete", shard)
                    .arg(&key(station))
                    .number(completion.epoch)
                    .arg(&be(message.msg_id));
                let mut told = completion.receipt.as_deref();
                let mut receipt_of = message.msg_id;
                let call = match completion.verdict {
                    Verdict::Final { state, error } => {
                        told = told.filter(|_| message.wants_receipt(state));
                        call.number(1)
                            .number(state as i64)
                            .number(error.into())
                            .number(completion.now_us)
                            .number(0)
                    }
                    Verdict::Temporary { error, absent, retry_us } => {
                        told = told.filter(|_| message.wants_notification());
                        receipt_of = -message.msg_id;
                        let due_us = retry_us.min(message.expire_us).max(completion.now_us);
                        let call = call.number(0).number(absent.into()).number(error.into());
                        call.number(completion.now_us).number(due_us)
                    }
                };
                let call =
                    call.number(message.attempts.into()).arg(&be(message.expire_us)).arg(&[message.rank()]);
                let call = self.with_receipt(call, told.map(|told| (told, receipt_of)), message);
                let lane = StationKey::of_account(message.account, message.msg_id);
                let runs = 1 << shard_of(station) | u64::from(told.is_some()) << shard_of(lane);
                Some((call, Pending::Complete(shard, runs)))
            }
            Operation::Forward(with) => {
                let shard = self.shared.shard(with.station);
                let call = Call::write("forward", shard)
                    .arg(&key(with.station))
                    .number(with.epoch)
                    .arg(&be(with.msg_id))
                    .number(with.now_us)
                    .arg(&with.peer.to_be_bytes())
                    .arg(with.peer_id.as_bytes())
                    .arg(&be(with.due_us));
                Some((call, Pending::Count(shard)))
            }
            Operation::PutBack(with) => {
                let shard = self.shared.shard(with.station);
                let call = Call::write("put_back", shard)
                    .arg(&key(with.station))
                    .number(with.epoch)
                    .arg(&be(with.msg_id))
                    .number(with.shard.into())
                    .number(with.ready_us);
                Some((call, Pending::Count(shard)))
            }
            Operation::Alert { station, now_us } => {
                let shard = self.shared.shard(*station);
                let call = Call::write("alert", shard).arg(&key(*station)).number(*now_us);
                Some((call, Pending::Count(shard)))
            }
            _ => None,
        }
    }
}

/// Why a message cannot be cancelled or replaced, whatever its station does.
fn unchangeable(message: &Message) -> Option<Refusal> {
    match message.state {
        state if state.is_final() => Some(Refusal::Final),
        // What a peer has cannot be called back.
        State::Forwarded => Some(Refusal::InFlight),
        _ => None,
    }
}

impl Session for RedisClusterSession {
    fn submit(&mut self, operation: Operation) -> Result<(), StoreError> {
        if self.shared.cluster.abandoned.load(Relaxed) {
            return Err(StoreError::Abandoned);
        }
        if let Some((call, pending)) = self.together(&operation) {
            self.calls.push(call);
            self.pending.push(pending);
            return Ok(());
        }
        self.flush()?;
        let outcome = self.alone(operation)?;
        self.ready.push_back(outcome);
        Ok(())
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        if self.shared.cluster.abandoned.load(Relaxed) {
            return Err(StoreError::Abandoned);
        }
        self.flush()?;
        outcomes.extend(self.ready.drain(..));
        Ok(())
    }

    /// At least one round to the nodes, however short the deadline ([`Links::go_on`]). What a
    /// failover delays is under way afterwards, and goes on with the next call.
    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        if self.shared.cluster.abandoned.load(Relaxed) {
            return Err(StoreError::Abandoned);
        }
        self.flush_until(Some(deadline))?;
        outcomes.extend(self.ready.drain(..));
        Ok(())
    }
}
