//! Whether a run stands still: nothing happens although something is due. That nothing happens is
//! no fault by itself: retries wait for minutes, messages are scheduled, clients of an open loop
//! wait for their next arrival.

use super::plan::LoadError;
use super::state::RunState;
use crate::centre::{Due, Operation, Outcome};
use crate::store::Session;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// How often it is asked what is due, while nothing happens; or more often, if patience is short.
const LOOK: Duration = Duration::from_secs(1);

/// Asks the store what is due next, in a thread of its own: a store that does not answer must not
/// keep the one who watches.
pub(super) struct DuePoller {
    questions: Sender<()>,
    answers: Receiver<Option<Due>>,
    asked: Option<Instant>,
}

impl DuePoller {
    /// One who asks, and the work of his thread, which ends when he is dropped.
    pub fn new<'a>(
        mut session: Box<dyn Session + 'a>,
    ) -> (DuePoller, impl FnOnce() -> Result<(), LoadError> + Send + 'a) {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        let work = move || {
            while let Ok(()) = asked.recv() {
                let Outcome::Due(next) = session.call(Operation::NextDue)? else {
                    return Err(LoadError::Unexpected("what is due next gives a task or none"));
                };
                // Nobody listens where the run has ended meanwhile.
                let _ = answer.send(next);
            }
            Ok(())
        };
        (DuePoller { questions, answers, asked: None }, work)
    }

    fn ask(&mut self) {
        self.asked = Some(Instant::now());
        // Where its thread has ended, that is told by the thread.
        let _ = self.questions.send(());
    }
}

/// Watches over a run.
pub(super) struct Standstill<'a> {
    shared: &'a RunState<'a>,
    /// None where nothing is sent.
    asker: Option<DuePoller>,
    progress: u64,
    /// When something happened, or nothing was due.
    well: Instant,
    looked: Instant,
}

impl<'a> Standstill<'a> {
    pub fn new(shared: &'a RunState<'a>, asker: Option<DuePoller>) -> Standstill<'a> {
        let now = Instant::now();
        Standstill { shared, asker, progress: u64::MAX, well: now, looked: now }
    }

    /// An error if something has been due for longer than the plan's patience, and nothing has
    /// happened.
    pub fn check(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        let patience = self.shared.plan.stuck_timeout;
        let progress = self.shared.figures.progress();
        if progress != self.progress {
            (self.progress, self.well, self.looked) = (progress, now, now);
            return Ok(());
        }
        match self.condition(now) {
            Condition::Well => self.well = now,
            Condition::Due(what, overdue) if now - self.well > patience && overdue > patience => {
                return Err(LoadError::Stuck {
                    seconds: patience.as_secs_f64(),
                    condition: what,
                    left: self.shared.left(),
                });
            }
            Condition::Due(..) | Condition::Unknown => {}
        }
        Ok(())
    }

    /// What is due now. A station whose message has expired is ready anew whenever a sender comes
    /// by, until the sweep does: it is due, but not for long.
    fn condition(&mut self, now: Instant) -> Condition {
        let shared = self.shared;
        if let Some(asker) = &mut self.asker
            && let Some(asked) = asker.asked
        {
            return match asker.answers.try_recv() {
                Ok(next) => {
                    asker.asked = None;
                    due(shared, next)
                }
                Err(TryRecvError::Empty) => {
                    Condition::Due("the store does not answer what is due next".into(), now - asked)
                }
                // It has failed, and tells why.
                Err(TryRecvError::Disconnected) => Condition::Unknown,
            };
        }
        if now - self.looked < LOOK.min(shared.plan.stuck_timeout / 8) {
            return Condition::Unknown;
        }
        self.looked = now;
        let now_us = shared.clock.now_us();
        if let Some(number) = shared.client_at_work(now_us) {
            let what = format!("client {number} has messages to submit or waits for the store's answer");
            return Condition::Due(what, Duration::MAX);
        }
        match &mut self.asker {
            // Whoever has a message in the air may have no room for others that are due.
            Some(asker) if !shared.is_landing(now_us) => {
                asker.ask();
                Condition::Unknown
            }
            _ => Condition::Well,
        }
    }
}

/// How a run stands.
enum Condition {
    /// Nothing is due.
    Well,
    /// What is due, in words, and for how long.
    Due(String, Duration),
    /// Nobody has looked, or there is no answer yet.
    Unknown,
}

/// The condition by what is due next in the store.
fn due(shared: &RunState<'_>, next: Option<Due>) -> Condition {
    let now_us = shared.clock.now_us();
    match next {
        Some(next) if next.due_us <= now_us => {
            let overdue = Duration::from_micros(now_us.abs_diff(next.due_us));
            Condition::Due(next.condition(now_us), overdue)
        }
        None if shared.clients_have_ended() => {
            Condition::Due("nothing in the store will ever be due".into(), Duration::MAX)
        }
        _ => Condition::Well,
    }
}
