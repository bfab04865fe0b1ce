//! The centre's own threads: timers and the Flusher.

use super::run::{LoadError, Shared};
use crate::centre::{Archive, Operation, Outcome, flush};
use crate::store::{Acknowledge, Session};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Rows that one transaction of a timer handles.
const BATCH: usize = 256;
/// Messages that one transaction of the Flusher handles.
const FLUSH_BATCH: usize = 1024;
/// How often timers look, when nothing was due.
const TICK: Duration = Duration::from_millis(5);

/// Scheduled Message Timer, Retry, expiry and leases, until all has been sent.
pub(super) fn timers(shared: &Shared<'_>) -> Result<(), LoadError> {
    let mut session = shared.store.session(Acknowledge::Early)?;
    while !shared.housekeeping_ends() {
        let now_us = shared.clock.now_us();
        let mut done = count(&mut *session, Operation::ReleaseScheduled { now_us, max: BATCH })?;
        done += count(&mut *session, Operation::WakeDue { now_us, max: BATCH })?;
        let expired = count(&mut *session, Operation::Expire { now_us, max: BATCH })?;
        shared.figures.expired.fetch_add(expired as u64, Relaxed);
        done += count(&mut *session, Operation::FreeLeases { now_us, until_us: now_us, max: BATCH })?;
        if done + expired == 0 {
            std::thread::sleep(TICK);
        }
    }
    Ok(())
}

fn count(session: &mut dyn Session, operation: Operation) -> Result<usize, LoadError> {
    match session.call(operation)? {
        Outcome::Count(count) => Ok(count),
        _ => Err(LoadError::Unexpected("a timer gives a count")),
    }
}

/// The Flusher, until all has been sent and archived.
pub(super) fn flusher(shared: &Shared<'_>, archive: &mut Archive) -> Result<(), LoadError> {
    let mut session = shared.store.session(Acknowledge::Durable)?;
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
