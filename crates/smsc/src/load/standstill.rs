//! Whether a run stands still: nothing happens although something is due. That nothing happens is no fault by itself: retries
//! wait for minutes, messages are scheduled, clients of an open loop wait for their next arrival.

use super::run::{LoadError, Shared};
use crate::centre::{Operation, Outcome};
use crate::store::Session;
use std::time::{Duration, Instant};

/// How often it is asked what is due, while nothing happens; or more often, if patience is short.
const LOOK: Duration = Duration::from_secs(1);

/// Watches over a run.
pub(super) struct Standstill<'a> {
    shared: &'a Shared<'a>,
    /// To ask what is due; none where nothing is sent.
    session: Option<Box<dyn Session + 'a>>,
    progress: u64,
    /// When something happened, or nothing was due.
    well: Instant,
    looked: Instant,
}

impl<'a> Standstill<'a> {
    pub fn new(shared: &'a Shared<'a>, session: Option<Box<dyn Session + 'a>>) -> Standstill<'a> {
        let now = Instant::now();
        Standstill { shared, session, progress: u64::MAX, well: now, looked: now }
    }

    /// An error if something has been due for longer than the plan's patience, and nothing has happened.
    pub fn check(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        let patience = self.shared.plan.patience;
        let progress = self.shared.figures.progress();
        if progress != self.progress {
            (self.progress, self.well, self.looked) = (progress, now, now);
        } else if now - self.looked >= LOOK.min(patience / 8) {
            self.looked = now;
            match self.condition()? {
                None => self.well = now,
                Some((condition, overdue)) if now - self.well > patience && overdue > patience => {
                    return Err(LoadError::Stuck {
                        seconds: patience.as_secs_f64(),
                        condition,
                        left: self.shared.left(),
                    });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// What is due now, in words, and for how long. A station whose message has expired is ready anew whenever a sender comes
    /// by, until the sweep does: it is due, but not for long.
    fn condition(&mut self) -> Result<Option<(String, Duration)>, LoadError> {
        let shared = self.shared;
        let now_us = shared.clock.now_us();
        if let Some(number) = shared.client_at_work(now_us) {
            let what = format!("client {number} has messages to submit or waits for the store's answer");
            return Ok(Some((what, Duration::MAX)));
        }
        // Whoever has a message in the air may have no room for others that are due.
        let Some(session) = self.session.as_mut().filter(|_| !shared.in_the_air(now_us)) else {
            return Ok(None);
        };
        let Outcome::Due(next) = session.call(Operation::NextDue)? else {
            return Err(LoadError::Unexpected("what is due next gives a task or none"));
        };
        Ok(match next {
            Some(next) if next.due_us <= now_us => {
                let overdue = Duration::from_micros(now_us.abs_diff(next.due_us));
                Some((next.condition(now_us), overdue))
            }
            None if shared.clients_have_ended() => {
                Some(("nothing in the store will ever be due".into(), Duration::MAX))
            }
            _ => None,
        })
    }
}
