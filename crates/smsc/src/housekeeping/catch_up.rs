//! After a restart with a clock that is behind the one before: what was to be done at a time that
//! has not come again is done now. Claims and timers only look at what is due, so a mobile that was
//! ready at noon would wait until it is noon once more, be that in days.

use crate::centre::{Channel, Operation, Outcome, PutBack, RunPlace};
use crate::model::{MOBILE_SHARDS, SHARDS_ALL, Station, StationKey, StationState};
use crate::store::{Acknowledge, Session, Store, StoreError};

/// Stations in one transaction.
const BATCH: usize = 256;
/// What is put back is ready this much later at most, µs.
const READY_US: i64 = 30_000_000;
/// A mobile waits this long for another attempt at most, and an application or a peer, µs: longer
/// than the longest usual wait. Who waits longer is tried earlier, which does no harm.
const MOBILE_US: i64 = 86_400_000_000;
const OTHER_US: i64 = 900_000_000;

/// Makes ready what is ready, or waits, later than it can be by a clock that goes on; how many
/// stations. Before anything else uses the store, and after [`super::recover`].
///
/// # Errors
/// The store's.
pub fn catch_up(store: &dyn Store, now_us: i64) -> Result<usize, StoreError> {
    if store.is_shared() {
        // Others serve it, whose clock may be the one that is right.
        return Ok(0);
    }
    let mut session = store.session(Acknowledge::Early)?;
    let mut count = 0;
    for shard in 0..SHARDS_ALL {
        let wait_us = if shard < MOBILE_SHARDS { MOBILE_US } else { OTHER_US };
        let states =
            [(StationState::Ready, READY_US), (StationState::Wait, wait_us), (StationState::Absent, wait_us)];
        for (state, ahead_us) in states {
            let ready_us = now_us.saturating_add(ahead_us);
            let first = Station { shard, state, ready_us, ..Station::idle(StationKey(0)) };
            let mut from = RunPlace::after(&first);
            loop {
                let ahead = stations(&mut *session, from, state)?;
                let Some(last) = ahead.last() else { break };
                from = RunPlace::after(last);
                count += ahead.len();
                make_ready(&mut *session, &ahead, (state, shard), now_us)?;
            }
        }
    }
    Ok(count)
}

/// The next stations of one state.
fn stations(
    session: &mut dyn Session,
    from: RunPlace,
    state: StationState,
) -> Result<Vec<Station>, StoreError> {
    match session.call(Operation::Stations { from, max: BATCH })? {
        Outcome::Stations(found) => {
            Ok(found.into_iter().take_while(|station| station.state == state).collect())
        }
        _ => Err(StoreError::protocol("a walk gives stations")),
    }
}

fn make_ready(
    session: &mut dyn Session,
    stations: &[Station],
    (state, shard): (StationState, u16),
    now_us: i64,
) -> Result<(), StoreError> {
    if state != StationState::Ready {
        for station in stations {
            session.call(Operation::Alert { station: station.dst_key, now_us })?;
        }
        return Ok(());
    }
    // Who is named is claimed whenever it is ready.
    let channel = Channel::Stations(stations.iter().map(|station| station.dst_key).collect());
    let claim = Operation::Claim { channel, spread: 0, max: stations.len(), now_us };
    let Outcome::Claimed(deliveries) = session.call(claim)? else {
        return Err(StoreError::protocol("a claim gives messages"));
    };
    for delivery in deliveries {
        let (station, epoch, msg_id) = (delivery.station, delivery.epoch, delivery.message.msg_id);
        session.call(Operation::PutBack(PutBack { station, epoch, msg_id, shard, ready_us: now_us }))?;
    }
    Ok(())
}
