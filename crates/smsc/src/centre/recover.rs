//! After a restart: no claim is alive, and rows that a store does not log are made again.

use super::finish::sent_row;
use super::operation::{Operation, Outcome};
use super::receive::{encode, queued, scheduled, station};
use super::retry::Failure;
use crate::model::{
    EncodedPart, Queued, Record, RetryTimer, SHARDS, Scheduled, Sent, State, Station, StationKey,
    StationState, Unlogged, Value, shard_of,
};
use crate::store::{Acknowledge, Rebuild, Row, Session, Store, StoreError, Transaction};
use std::collections::HashMap;

/// Stations freed in one transaction.
const FREE_BATCH: usize = 1000;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Messages that rows were made again from.
    pub rebuilt: usize,
    /// Stations whose claim died with the process: their message will be delivered again.
    pub freed: usize,
}

/// Recovers the centre on a store that was just opened; before anything else uses it.
///
/// # Errors
/// The store's.
pub fn recover(store: &dyn Store, now_us: i64) -> Result<Recovered, StoreError> {
    let mut recovered = Recovered::default();
    if let Some(tables) = store.rebuild()? {
        recovered.rebuilt = rebuild(tables, store.has_flusher())?;
    }
    let mut session = store.session(Acknowledge::Early)?;
    while let n @ 1.. = count(&mut *session, now_us)? {
        recovered.freed += n;
    }
    Ok(recovered)
}

fn count(session: &mut dyn Session, now_us: i64) -> Result<usize, StoreError> {
    match session.call(Operation::FreeLeases { now_us, until_us: i64::MAX, max: FREE_BATCH })? {
        Outcome::Count(count) => Ok(count),
        _ => Err(StoreError::protocol("FreeLeases gives a count")),
    }
}

/// What a queued message tells of its station. Sorted, they are in the order of stations, each one's oldest message first.
type Sign = (StationKey, i64, u32, u32);
/// Retry timers by station, which has one at most.
type Timers = HashMap<StationKey, RetryTimer>;

/// Makes the rows of the lost tables. As many threads as there are processors read what is there, each its part, and make what
/// follows from one row; what follows from all messages of a station is gathered, and made by one of them for each station.
fn rebuild(tables: Box<dyn Rebuild + '_>, has_flusher: bool) -> Result<usize, StoreError> {
    let parts = std::thread::available_parallelism().map_or(2, usize::from);
    let panicked = |_| StoreError::protocol("a thread of recovery panicked");
    let rebuilt = std::thread::scope(|scope| {
        let tables = &*tables;
        let read = |part| {
            scope.spawn(move || {
                let mut gathered = Gathered::new(parts);
                gathered.messages(tables, part, has_flusher)?;
                gathered.timers(tables, part)?;
                Ok::<Gathered, StoreError>(gathered)
            })
        };
        let readers: Vec<_> = (0..parts).map(read).collect();
        let mut all = Gathered::new(parts);
        for reader in readers {
            all.add(reader.join().map_err(panicked)??);
        }
        let of_each = all.signs.into_iter().zip(all.timers);
        let make = |(signs, timers)| scope.spawn(move || rows_of_stations(tables, signs, &timers));
        let makers: Vec<_> = of_each.map(make).collect();
        makers.into_iter().try_for_each(|maker| maker.join().map_err(panicked)?)?;
        Ok::<usize, StoreError>(all.messages)
    })?;
    tables.finish()?;
    Ok(rebuilt)
}

/// What one part of the rows tells of stations, which the rows of another part tell of, too: in lists by station.
struct Gathered {
    messages: usize,
    signs: Vec<Vec<Sign>>,
    timers: Vec<Timers>,
}

impl Gathered {
    fn new(lists: usize) -> Gathered {
        Gathered { messages: 0, signs: vec![Vec::new(); lists], timers: vec![Timers::new(); lists] }
    }

    fn add(&mut self, mut other: Gathered) {
        self.messages += other.messages;
        self.signs.iter_mut().zip(&mut other.signs).for_each(|(all, found)| all.append(found));
        self.timers.iter_mut().zip(other.timers).for_each(|(all, found)| all.extend(found));
    }

    /// The list of a station.
    fn list(&self, station: StationKey) -> usize {
        usize::from(shard_of(station)) % self.signs.len()
    }

    /// Makes what follows from each message of one part.
    fn messages(&mut self, tables: &dyn Rebuild, part: usize, has_flusher: bool) -> Result<(), StoreError> {
        let lost = tables.lost();
        let follow =
            Unlogged::of([EncodedPart::TABLE, Queued::TABLE, Scheduled::TABLE, Station::TABLE, Sent::TABLE]);
        if lost.tables().all(|table| !follow.contains(table)) {
            return Ok(());
        }
        let mut put = tables.writer();
        tables.messages((part, self.signs.len()), &mut |message| {
            self.messages += 1;
            match message.state {
                State::Scheduled if lost.contains(Scheduled::TABLE) => {
                    put(Row::Scheduled(scheduled(&message)))?;
                }
                State::Enroute => {
                    if lost.contains(Queued::TABLE) {
                        put(Row::Queued(queued(&message)))?;
                    }
                    if lost.contains(Station::TABLE) {
                        let key = message.dst_key;
                        let list = self.list(key);
                        self.signs[list].push((key, message.submit_us, message.attempts, message.last_error));
                    }
                }
                state if state.is_final() && has_flusher && lost.contains(Sent::TABLE) => {
                    put(Row::Sent(sent_row(&message)))?;
                }
                _ => {}
            }
            if !message.state.is_final() && lost.contains(EncodedPart::TABLE) {
                let parts = encode(&message).map_err(|error| {
                    StoreError::inconsistent(format!("message {} cannot be encoded: {error}", message.msg_id))
                })?;
                parts.into_iter().try_for_each(|part| put(Row::EncodedPart(part)))?;
            }
            Ok(())
        })
    }

    /// Makes timers from stations that wait, or gathers timers for stations, whichever of both are lost. Where both are, nothing
    /// tells any more which stations waited for what.
    fn timers(&mut self, tables: &dyn Rebuild, part: usize) -> Result<(), StoreError> {
        let parts = self.signs.len();
        let lost = tables.lost();
        match (lost.contains(Station::TABLE), lost.contains(RetryTimer::TABLE)) {
            (false, true) => {
                let mut put = tables.writer();
                tables.stations((part, parts), &mut |station| match station.state {
                    StationState::Wait | StationState::Absent => {
                        let Station { dst_key, ready_us: due_us, epoch, .. } = station;
                        put(Row::RetryTimer(RetryTimer { due_us, dst_key, epoch }))
                    }
                    _ => Ok(()),
                })
            }
            (true, false) => tables.timers((part, parts), &mut |timer| {
                let list = self.list(timer.dst_key);
                self.timers[list].insert(timer.dst_key, timer);
                Ok(())
            }),
            _ => Ok(()),
        }
    }
}

/// Makes the stations of which there are signs: waiting, if they have a timer; else ready since their oldest message was
/// submitted.
fn rows_of_stations(tables: &dyn Rebuild, mut signs: Vec<Sign>, timers: &Timers) -> Result<(), StoreError> {
    signs.sort_unstable();
    let mut put = tables.writer();
    for of_one in signs.chunk_by(|a, b| a.0 == b.0) {
        let mut station = Station::idle(of_one[0].0);
        station.state = StationState::Ready;
        station.ready_us = of_one[0].1;
        for &(_, _, attempts, last_error) in of_one {
            station.queue += 1;
            station.attempts = station.attempts.max(attempts);
            station.last_error = station.last_error.max(last_error);
        }
        if let Some(timer) = timers.get(&station.dst_key) {
            let absent = Failure::of(station.last_error).is_some_and(Failure::alerts);
            station.state = if absent { StationState::Absent } else { StationState::Wait };
            (station.ready_us, station.epoch) = (timer.due_us, timer.epoch);
        }
        put(Row::Station(station))?;
    }
    Ok(())
}

pub(super) fn free_leases(
    tx: &mut impl Transaction,
    now_us: i64,
    until_us: i64,
    max: usize,
) -> Result<usize, StoreError> {
    let mut freed = 0;
    for shard in 0..SHARDS {
        let shard = Value::Int(shard.into());
        let busy = Value::Int(StationState::Busy as i64);
        let until = Value::Int(until_us);
        for found in
            tx.range::<Station>(Station::RUN_QUEUE, &[shard, busy], &[shard, busy, until], max - freed)?
        {
            tx.lock(found.dst_key)?;
            let mut station = station(tx, found.dst_key)?;
            if station.state == StationState::Busy && station.ready_us <= until_us {
                station.state = StationState::Ready;
                station.ready_us = now_us;
                station.current = 0;
                station.alerted = false;
                tx.put(&station)?;
                freed += 1;
            }
        }
    }
    Ok(freed)
}
