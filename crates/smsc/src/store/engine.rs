//! The session that runs the centre's operations as transactions of an engine.

use super::{Acknowledge, Session, StoreError};
use crate::centre::{Operation, Outcome, Rules};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An engine that runs an operation as one transaction on the caller's thread.
pub(super) trait Engine: Send + Sync {
    /// What tells when a commit is durable.
    type Ticket: Send;

    /// Runs and commits. The ticket tells when that is durable; a commit that is acknowledged early
    /// need not become so before the next one that is not.
    fn run(
        &self,
        operation: &mut Operation,
        rules: &Rules,
        acknowledge: Acknowledge,
    ) -> Result<(Outcome, Self::Ticket), StoreError>;

    /// Waits for the first of `tickets` and tells how many are durable.
    fn wait(&self, tickets: &VecDeque<Self::Ticket>) -> Result<usize, StoreError>;

    /// The same, until `deadline` at most: none may be durable then. Has them made durable in any
    /// case.
    fn wait_until(
        &self,
        tickets: &mut VecDeque<Self::Ticket>,
        deadline: Instant,
    ) -> Result<usize, StoreError>;
}

/// How often somebody who waits looks whether the store was given up.
const LOOK: Duration = Duration::from_millis(500);

/// The session of an [`Engine`].
pub(super) struct EngineSession<'a, E: Engine> {
    engine: &'a E,
    rules: &'a Rules,
    /// Set by [`super::Store::abandon`].
    abandoned: &'a AtomicBool,
    acknowledge: Acknowledge,
    outcomes: VecDeque<Outcome>,
    tickets: VecDeque<E::Ticket>,
}

impl<'a, E: Engine> EngineSession<'a, E> {
    pub fn new(
        engine: &'a E,
        rules: &'a Rules,
        abandoned: &'a AtomicBool,
        acknowledge: Acknowledge,
    ) -> Result<Self, StoreError> {
        let (outcomes, tickets) = (VecDeque::new(), VecDeque::new());
        let session = EngineSession { engine, rules, abandoned, acknowledge, outcomes, tickets };
        session.goes_on().map(|()| session)
    }

    fn goes_on(&self) -> Result<(), StoreError> {
        if self.abandoned.load(Ordering::Relaxed) { Err(StoreError::Abandoned) } else { Ok(()) }
    }

    /// Whether outcomes wait for their tickets.
    fn is_durable(&self) -> bool {
        self.acknowledge == Acknowledge::Durable
    }

    /// Hands out so many outcomes.
    fn hand_out(&mut self, settled: usize, outcomes: &mut Vec<Outcome>) {
        if self.is_durable() {
            self.tickets.drain(..settled);
        }
        outcomes.extend(self.outcomes.drain(..settled));
    }
}

impl<E: Engine> Session for EngineSession<'_, E> {
    fn submit(&mut self, mut operation: Operation) -> Result<(), StoreError> {
        self.goes_on()?;
        let (outcome, ticket) = self.engine.run(&mut operation, self.rules, self.acknowledge)?;
        self.outcomes.push_back(outcome);
        if self.is_durable() {
            self.tickets.push_back(ticket);
        }
        Ok(())
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        self.goes_on()?;
        let settled = if self.is_durable() { self.engine.wait(&self.tickets)? } else { self.outcomes.len() };
        self.hand_out(settled, outcomes);
        Ok(())
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        loop {
            self.goes_on()?;
            let step = deadline.min(Instant::now() + LOOK);
            let settled = match self.is_durable() {
                true => self.engine.wait_until(&mut self.tickets, step)?,
                false => self.outcomes.len(),
            };
            self.hand_out(settled, outcomes);
            if settled > 0 || Instant::now() >= deadline {
                return Ok(());
            }
        }
    }
}
