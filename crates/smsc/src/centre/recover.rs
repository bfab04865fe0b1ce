//! After a restart: no claim is alive, and rows that a store does not log are made again.

use super::finish::sent_row;
use super::operation::{Operation, Outcome, Rules};
use super::receive::{encode, enqueue, scheduled, station};
use crate::model::{Message, SHARDS, State, Station, StationState, Value};
use crate::store::{Acknowledge, Row, Session, Store, StoreError, Transaction};

/// Messages that are handed to a worker at a time.
const REBUILD_BATCH: usize = 256;
/// Messages whose rows are made again in one transaction: few, because a store's own bookkeeping of a transaction grows with
/// what it changes.
const REBUILD_TOGETHER: usize = 4;
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
    let mut session = store.session(Acknowledge::Early)?;
    if store.must_rebuild() {
        recovered.rebuilt = rebuild_all(store)?;
    } else {
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

/// One thread reads messages, as many as there are processors make their rows.
fn rebuild_all(store: &dyn Store) -> Result<usize, StoreError> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let mut rebuilt = 0;
    std::thread::scope(|scope| {
        let mut workers = Vec::with_capacity(threads);
        let mut channels = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (send, receive) = std::sync::mpsc::sync_channel::<Vec<Message>>(8);
            channels.push(send);
            workers.push(scope.spawn(move || {
                let mut session = store.session(Acknowledge::Early)?;
                for mut batch in receive {
                    while !batch.is_empty() {
                        let some = batch.split_off(batch.len().saturating_sub(REBUILD_TOGETHER));
                        session.call(Operation::Rebuild(some))?;
                    }
                }
                Ok::<(), StoreError>(())
            }));
        }
        let mut batches: Vec<Vec<Message>> = vec![Vec::with_capacity(REBUILD_BATCH); threads];
        // A worker that has ended has an error, which its join gives.
        let read = store.scan(&mut |row| {
            if let Row::Message(message) = row {
                rebuilt += 1;
                // A station's messages go to one worker, so that workers do not wait for each other's locks.
                let worker = message.dst_key.0.unsigned_abs() as usize % threads;
                batches[worker].push(message);
                if batches[worker].len() == REBUILD_BATCH {
                    let _ = channels[worker].send(std::mem::take(&mut batches[worker]));
                }
            }
            Ok(())
        });
        for (channel, batch) in channels.into_iter().zip(batches) {
            let _ = channel.send(batch);
        }
        for worker in workers {
            worker.join().map_err(|_| StoreError::protocol("a thread of recovery panicked"))??;
        }
        read
    })?;
    Ok(rebuilt)
}

/// Makes the rows of other tables that follow from these messages. Twice gives the same.
pub(super) fn rebuild(
    tx: &mut impl Transaction,
    rules: &Rules,
    messages: &[Message],
) -> Result<usize, StoreError> {
    for message in messages {
        match message.state {
            State::Scheduled => {
                tx.put(&scheduled(message))?;
            }
            State::Enroute => {
                tx.lock(message.dst_key)?;
                let mut station = station(tx, message.dst_key)?;
                station.attempts = station.attempts.max(message.attempts);
                station.last_error = station.last_error.max(message.last_error);
                enqueue(tx, station, message, message.submit_us)?;
            }
            _ if rules.has_flusher => tx.put(&sent_row(message))?,
            _ => {}
        }
        if !message.state.is_final() {
            let parts = encode(message).map_err(|error| {
                StoreError::inconsistent(format!("message {} cannot be encoded: {error}", message.msg_id))
            })?;
            for part in &parts {
                tx.put(part)?;
            }
        }
    }
    Ok(messages.len())
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
