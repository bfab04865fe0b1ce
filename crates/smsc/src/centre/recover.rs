//! After a restart: no claim is alive, and rows that a store does not log are made again.

use super::finish::sent_row;
use super::operation::{Operation, Outcome};
use super::receive::{encode, queued, scheduled, station};
use crate::model::{SHARDS, State, Station, StationKey, StationState, Value, shard_of};
use crate::store::{Acknowledge, Rebuild, Row, RowWriter, Session, Store, StoreError, Transaction};

/// Stations freed in one transaction.
const FREE_BATCH: usize = 1000;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Messages whose derivable rows were made again.
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
    } else {
        let mut session = store.session(Acknowledge::Early)?;
        while let n @ 1.. = count(&mut *session, now_us)? {
            recovered.freed += n;
        }
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

/// Makes the rows that follow from messages. As many threads as there are processors read messages, each its part, and make what
/// follows from one message; what follows from all messages of a station is gathered, and made by one of them for each station.
fn rebuild(tables: Box<dyn Rebuild + '_>, has_flusher: bool) -> Result<usize, StoreError> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let panicked = |_| StoreError::protocol("a thread of recovery panicked");
    let rebuilt = std::thread::scope(|scope| {
        let tables = &*tables;
        let read = |part| scope.spawn(move || rows_of_messages(tables, part, threads, has_flusher));
        let readers: Vec<_> = (0..threads).map(read).collect();
        let mut rebuilt = 0;
        let mut signs: Vec<Vec<Sign>> = vec![Vec::new(); threads];
        for reader in readers {
            let (count, found) = reader.join().map_err(panicked)??;
            rebuilt += count;
            signs.iter_mut().zip(found).for_each(|(all, mut found)| all.append(&mut found));
        }
        let make = |signs| scope.spawn(move || rows_of_stations(signs, &mut tables.writer()));
        let makers: Vec<_> = signs.into_iter().map(make).collect();
        makers.into_iter().try_for_each(|maker| maker.join().map_err(panicked)?)?;
        Ok::<usize, StoreError>(rebuilt)
    })?;
    tables.finish()?;
    Ok(rebuilt)
}

/// Makes what follows from each message of one part, and gathers signs of stations, in as many lists as there are parts. How
/// many messages.
fn rows_of_messages(
    tables: &dyn Rebuild,
    part: usize,
    parts: usize,
    has_flusher: bool,
) -> Result<(usize, Vec<Vec<Sign>>), StoreError> {
    let mut put = tables.writer();
    let mut signs: Vec<Vec<Sign>> = vec![Vec::new(); parts];
    let mut count = 0;
    tables.messages(part, parts, &mut |message| {
        count += 1;
        match message.state {
            State::Scheduled => put(Row::Scheduled(scheduled(&message)))?,
            State::Enroute => {
                put(Row::Queued(queued(&message)))?;
                let key = message.dst_key;
                let sign = (key, message.submit_us, message.attempts, message.last_error);
                signs[usize::from(shard_of(key)) % parts].push(sign);
            }
            _ if has_flusher => put(Row::Sent(sent_row(&message)))?,
            _ => {}
        }
        if !message.state.is_final() {
            let parts = encode(&message).map_err(|error| {
                StoreError::inconsistent(format!("message {} cannot be encoded: {error}", message.msg_id))
            })?;
            parts.into_iter().try_for_each(|part| put(Row::EncodedPart(part)))?;
        }
        Ok(())
    })?;
    Ok((count, signs))
}

/// Makes the stations of which there are signs: ready since their oldest message was submitted.
fn rows_of_stations(mut signs: Vec<Sign>, put: &mut RowWriter<'_>) -> Result<(), StoreError> {
    signs.sort_unstable();
    for of_one in signs.chunk_by(|a, b| a.0 == b.0) {
        let mut station = Station::idle(of_one[0].0);
        station.state = StationState::Ready;
        station.ready_us = of_one[0].1;
        for &(_, _, attempts, last_error) in of_one {
            station.queue += 1;
            station.attempts = station.attempts.max(attempts);
            station.last_error = station.last_error.max(last_error);
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
