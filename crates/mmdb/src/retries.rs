//! What happens between two runs of one transaction.
//!
//! Wait-die makes the younger transaction give up its locks. Running it again at once finds the
//! same lock held: an idle transaction made another one's closure run 2,041 times in two seconds.
//! So it waits, holding nothing, until nobody older is in the way of what it was refused, and only
//! then runs again. It looks with growing pauses instead of lining up: most locks are held for
//! microseconds, and a line would have to be looked at by everybody who gives a lock back.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::interruption;
use crate::sync::thread;
use crate::tx::Refusal;
use std::time::{Duration, Instant};

/// Looks that only give the processor away: whoever is in the way holds its locks for microseconds,
/// unless it was preempted.
const YIELDS: u32 = 8;
/// Longest pause between two looks.
const LONGEST: Duration = Duration::from_millis(1);

/// The runs of one transaction so far.
#[derive(Default)]
pub(crate) struct Retries {
    runs: u32,
    /// When it was first refused.
    began: Option<Instant>,
}

impl Retries {
    /// Waits until running again makes sense. What running again cannot cure comes back as an
    /// error.
    pub(crate) fn after(&mut self, refusal: Refusal, db: &Engine) -> Result<()> {
        self.runs += 1;
        if !refusal.error.is_retryable() {
            return Err(self.named(refusal.error));
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        if self.runs >= db.options.max_runs.max(1) {
            return Err(self.given_up(refusal.error, began));
        }
        // Where nobody waits there is one thread: nobody goes out of the way by being waited for.
        if !db.options.background {
            return Ok(());
        }
        let since = Instant::now();
        let mut looks = 0;
        // The first pause is taken in any case. More of them follow many runs: then there is a
        // crowd.
        pause(self.runs);
        while refusal.stands(db) {
            db.log.check()?;
            interruption::require_none("another transaction to end")?;
            if since.elapsed() >= db.options.lock_timeout {
                return Err(self.given_up(refusal.error, began));
            }
            looks += 1;
            pause(looks);
        }
        Ok(())
    }

    /// The time-out of a lock knows nothing of the runs before.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::LockTimeout { table, key, wait, .. } => {
                let wait = self.began.map_or(wait, |began| began.elapsed());
                Error::LockTimeout { table, key, wait, runs: self.runs }
            }
            other => other,
        }
    }

    fn given_up(&self, error: Error, began: Instant) -> Error {
        match error {
            Error::Deadlock { table, key } | Error::Conflict { table, key } => {
                Error::LockTimeout { table, key, wait: began.elapsed(), runs: self.runs }
            }
            other => other,
        }
    }
}

fn pause(turn: u32) {
    if turn <= YIELDS {
        thread::yield_now();
    } else {
        thread::sleep((Duration::from_micros(5) * turn.min(1000)).min(LONGEST));
    }
}
