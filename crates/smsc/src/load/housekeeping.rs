//! The centre's own threads: timers and the Flusher.

use super::plan::LoadError;
use super::state::RunState;
use crate::centre::{Archive, Operation, Outcome, Place};
use crate::housekeeping::flush;
use crate::store::{Acknowledge, Session};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Rows that one transaction of a timer handles.
const BATCH: usize = 256;
/// Messages that one transaction of the Flusher handles.
const FLUSH_BATCH: usize = 1024;
/// How often the queues are swept for what has expired, a stretch at a time, µs: 16,000 messages in
/// a second, hardly a hundredth of a processor.
const SWEEP_US: i64 = 250_000;
/// How often leases are looked at, µs: they last a minute, and in PostgreSQL a look is eighteen
/// round trips.
const LEASES_US: i64 = 1_000_000;
/// How often timers look, when nothing was due.
const TICK: Duration = Duration::from_millis(5);

/// Scheduled Message Timer, Retry, expiry and leases, until all has been sent.
pub(super) fn timers(shared: &RunState<'_>) -> Result<(), LoadError> {
    let mut session = shared.session(Acknowledge::Early, || "who watches the timers".into())?;
    let mut sweep = (Place::BEGIN, i64::MIN);
    let mut leases_us = i64::MIN;
    while !shared.housekeeping_ends() {
        let now_us = shared.clock.now_us();
        let mut done = count(&mut *session, Operation::ReleaseScheduled { now_us, max: BATCH })?;
        done += count(&mut *session, Operation::WakeDue { now_us, max: BATCH })?;
        let expired = if now_us >= sweep.1 { expire(shared, &mut *session, &mut sweep, now_us)? } else { 0 };
        if now_us >= leases_us {
            let freed = count(&mut *session, Operation::FreeLeases { now_us, until_us: now_us, max: BATCH })?;
            // More than one transaction's worth is gone on with at once.
            leases_us = if freed == 0 { now_us + LEASES_US } else { now_us };
            done += freed;
        }
        if done + expired == 0 {
            std::thread::sleep(TICK);
        }
    }
    Ok(())
}

/// One stretch of the sweep for what has expired; the next is due at once where there was
/// something.
fn expire(
    shared: &RunState<'_>,
    session: &mut dyn Session,
    (place, due_us): &mut (Place, i64),
    now_us: i64,
) -> Result<usize, LoadError> {
    let Outcome::Swept { count, tried, next } =
        session.call(Operation::Expire { from: *place, now_us, max: BATCH })?
    else {
        return Err(LoadError::Unexpected("a sweep tells where it ended"));
    };
    shared.waits(-(tried as i64));
    shared.figures.expired.fetch_add(count as u64, Relaxed);
    *place = next.unwrap_or(Place::BEGIN);
    *due_us = if count > 0 { now_us } else { now_us + SWEEP_US };
    Ok(count)
}

fn count(session: &mut dyn Session, operation: Operation) -> Result<usize, LoadError> {
    match session.call(operation)? {
        Outcome::Count(count) => Ok(count),
        _ => Err(LoadError::Unexpected("a timer gives a count")),
    }
}

/// The Flusher, until all has been sent and archived.
pub(super) fn flusher(shared: &RunState<'_>, archive: &mut Archive) -> Result<(), LoadError> {
    let mut session = shared.session(Acknowledge::Durable, || "the Flusher".into())?;
    loop {
        let last = shared.housekeeping_ends();
        let flushed = flush(&mut *session, archive, FLUSH_BATCH)?;
        shared.figures.archived.fetch_add(flushed as u64, Relaxed);
        if flushed == 0 {
            if last {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
    }
}
