//! After a restart: no claim is alive, and rows that a store does not log are made again.

use super::rebuild::rebuild;
use crate::centre::{Operation, Outcome};
use crate::store::{Acknowledge, Session, Store, StoreError};

/// Stations freed in one transaction.
const FREE_BATCH: usize = 1000;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Rows that were made again.
    pub rebuilt: usize,
    /// Stations whose claim died with the process: their message will be delivered again.
    pub freed: usize,
}

/// Recovers the centre on a store that was just opened; before anything else uses it.
///
/// # Errors
/// The store's.
pub fn recover(store: &dyn Store, now_us: i64) -> Result<RecoveryReport, StoreError> {
    let mut recovered = RecoveryReport::default();
    if let Some(tables) = store.rebuild()? {
        recovered.rebuilt = rebuild(tables, store.has_flusher())?;
    }
    let mut session = store.session(Acknowledge::Early)?;
    // What another process has in flight is its own: only what is overdue is given back.
    let until_us = if store.is_shared() { now_us } else { i64::MAX };
    while let n @ 1.. = count(&mut *session, now_us, until_us)? {
        recovered.freed += n;
    }
    Ok(recovered)
}

fn count(session: &mut dyn Session, now_us: i64, until_us: i64) -> Result<usize, StoreError> {
    match session.call(Operation::FreeLeases { now_us, until_us, max: FREE_BATCH })? {
        Outcome::Count(count) => Ok(count),
        _ => Err(StoreError::protocol("FreeLeases gives a count")),
    }
}
