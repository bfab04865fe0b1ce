//! What an operator looks at: stations that have something queued, one message, one queue. Nothing
//! is changed, and no account stands in the way.

use super::rows::{message, named, primary};
use crate::model::{Message, Queued, Scheduled, Station, StationKey, StationState, Value};
use crate::transaction::{StoreError, Transaction};

/// Where a walk through the run queue goes on: a place in the order of one of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPlace {
    shard: u16,
    state: i64,
    ready_us: i64,
    key: i64,
}

impl RunPlace {
    /// Before all stations of a shard that have something queued.
    #[must_use]
    pub fn begin(shard: u16) -> RunPlace {
        RunPlace { shard, state: StationState::Ready as i64, ready_us: i64::MIN, key: i64::MIN }
    }

    /// Shard, state, time, key.
    pub(crate) fn parts(self) -> (u16, i64, i64, i64) {
        (self.shard, self.state, self.ready_us, self.key)
    }

    /// Behind a station.
    #[must_use]
    pub fn after(station: &Station) -> RunPlace {
        RunPlace {
            shard: station.shard,
            state: station.state as i64,
            ready_us: station.ready_us,
            // No station has the greatest key.
            key: station.dst_key.0.saturating_add(1),
        }
    }
}

/// Stations of a shard that are not idle, from a place on. Read without locks: each row is right by
/// itself, and all together are of no one moment.
pub(super) fn stations(
    tx: &mut impl Transaction,
    from: RunPlace,
    max: usize,
) -> Result<Vec<Station>, StoreError> {
    let RunPlace { shard, state, ready_us, key } = from;
    let shard = Value::Int(shard.into());
    let first = [shard, Value::Int(state), Value::Int(ready_us), Value::Int(key)];
    tx.range::<Station>(Station::RUN_QUEUE, &first, &[shard, Value::Int(StationState::Absent as i64)], max)
}

/// A message, whosever it is.
pub(super) fn show(tx: &mut impl Transaction, msg_id: i64) -> Result<Option<Box<Message>>, StoreError> {
    Ok(message(tx, msg_id)?.map(Box::new))
}

/// What waits for a station: its queue in the order of delivery, then what is scheduled for it.
pub(super) fn waiting(
    tx: &mut impl Transaction,
    station: StationKey,
    max: usize,
) -> Result<Vec<Message>, StoreError> {
    // The lock keeps both lists still.
    tx.lock(station)?;
    let key = [Value::Int(station.0)];
    let queued = tx.range::<Queued>(primary::<Queued>(), &key, &key, max)?;
    let scheduled =
        tx.range::<Scheduled>(Scheduled::BY_STATION, &key, &key, max.saturating_sub(queued.len()))?;
    let numbers = queued.iter().map(|row| row.msg_id).chain(scheduled.iter().map(|row| row.msg_id));
    numbers.map(|msg_id| named(tx, msg_id, "a queue")).collect()
}
