//! Turns: who submits next, where several want to at a time.
//!
//! A submission runs in the task that has read it. One account with many connections, each full of
//! submissions, would have the processors nearly all the time; so a task takes a turn for its
//! account, and turns go round the accounts, within each in the order in which they were asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Messages that one turn is good for.
pub(super) const SLICE: u32 = 16;

#[derive(Default)]
struct State {
    /// Turns that may still be taken.
    free: usize,
    /// Accounts that wait, each once.
    accounts: VecDeque<u32>,
    waiting: HashMap<u32, VecDeque<oneshot::Sender<Turn>>>,
}

impl State {
    /// Whoever is next and has not gone.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some(account) = self.accounts.pop_front() {
            let Some(waiting) = self.waiting.get_mut(&account) else { continue };
            let next = std::iter::from_fn(|| waiting.pop_front()).find(|next| !next.is_closed());
            if waiting.is_empty() {
                self.waiting.remove(&account);
            } else {
                self.accounts.push_back(account);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

/// The turns of a server.
pub(super) struct Turns(Mutex<State>);

impl Turns {
    /// So many at a time.
    pub fn new(at_a_time: usize) -> Arc<Turns> {
        Arc::new(Turns(Mutex::new(State { free: at_a_time, ..State::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an account's turn.
    pub async fn take(self: &Arc<Self>, account: u32) -> Turn {
        loop {
            let turn = {
                let mut state = self.lock();
                if state.free > 0 {
                    state.free -= 1;
                    return Turn(Arc::clone(self));
                }
                let (to, turn) = oneshot::channel();
                let state = &mut *state;
                let waiting = state.waiting.entry(account).or_insert_with(|| {
                    state.accounts.push_back(account);
                    VecDeque::new()
                });
                waiting.push_back(to);
                turn
            };
            // One that is passed on is never dropped before.
            if let Ok(turn) = turn.await {
                return turn;
            }
        }
    }
}

/// A turn, until it is dropped.
pub(super) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.lock();
            let next = state.next();
            if next.is_none() {
                state.free += 1;
            }
            next
        };
        if let Some(next) = next {
            // Whoever has gone just now drops it, which passes it on.
            let _ = next.send(Turn(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Account 1 asks ten times before account 2 asks once: 2 is next but one.
    #[tokio::test]
    async fn turns_go_round_the_accounts() {
        let turns = Turns::new(1);
        let first = turns.take(1).await;
        let taken = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for account in [1, 1, 1, 1, 2, 3, 2] {
            let (turns, taken) = (Arc::clone(&turns), Arc::clone(&taken));
            tasks.push(tokio::spawn(async move {
                let _turn = turns.take(account).await;
                taken.lock().unwrap().push(account);
            }));
            tokio::task::yield_now().await;
        }
        // Who has gone does not take its turn.
        tasks[1].abort();
        tokio::task::yield_now().await;
        drop(first);
        for task in tasks {
            let _ = task.await;
        }
        assert_eq!(*taken.lock().unwrap(), [1, 2, 3, 1, 2, 1]);
        assert_eq!(turns.lock().free, 1);
    }
}
