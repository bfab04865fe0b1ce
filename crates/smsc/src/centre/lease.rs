//! Claims that nobody completes any more.

use super::rows::station;
use crate::model::{SHARDS_ALL, Station, StationState, Value};
use crate::transaction::{StoreError, Transaction};

pub(super) fn free_leases(
    tx: &mut impl Transaction,
    now_us: i64,
    until_us: i64,
    max: usize,
) -> Result<usize, StoreError> {
    let mut freed = 0;
    for shard in 0..SHARDS_ALL {
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
