//! Answers to deliveries that the task of their account has not seen yet.

use super::config::DELIVERIES_MAX;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many answers of a session may wait: those to all that it may have been sent, and some that
/// come too late.
const WAITING: usize = DELIVERIES_MAX + 64;

/// Room for a session's answers. A client may send them to nothing at all, and faster than its
/// account's task looks at them, which stands still while the store does: without a bound they
/// would fill the memory.
pub(super) struct Answers(Arc<Semaphore>);

impl Answers {
    pub fn new() -> Answers {
        Answers(Arc::new(Semaphore::new(WAITING)))
    }

    /// Whether one more has to wait.
    pub fn is_full(&self) -> bool {
        self.0.available_permits() == 0
    }

    /// The place of one more, which is free again once that is dropped; none never comes.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A client that sent deliver_sm_resp after deliver_sm_resp to nothing, while the store stood
    /// still, had each of them kept for its account's task, without end.
    #[tokio::test]
    async fn a_client_that_answers_nothing_for_ever_has_to_wait() {
        let (answers, mut waiting) = (Answers::new(), Vec::new());
        while !answers.is_full() {
            waiting.push(answers.place().await.unwrap());
        }
        // All that it may have been sent finds a place.
        assert!(waiting.len() > DELIVERIES_MAX);
        assert!(tokio::time::timeout(Duration::from_millis(20), answers.place()).await.is_err());
        drop(waiting.pop());
        assert!(answers.place().await.is_some());
    }
}
