//! After a restart: no claim is alive, and rows that a store does not log are made again.

use super::operation::{Operation, Outcome};
use super::rebuild::rebuild;
use super::receive::station;
use crate::model::{SHARDS, Station, StationState, Value};
use crate::store::{Acknowledge, Session, Store, StoreError, Transaction};

/// Stations freed in one transaction.
const FREE_BATCH: usize = 1000;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Rows that were made again.
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
