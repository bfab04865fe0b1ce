//! The start of a run: its threads wait until all are ready and begin at once, or none begins
//! because one has failed.
//!
//! A `Barrier` would wait for ever for a thread that failed before it came there.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Where the threads of a run wait.
pub(super) struct Start {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Threads that are not ready yet.
    missing: usize,
    began: Option<Instant>,
    called_off: bool,
}

impl Start {
    /// A start of so many threads.
    pub fn new(threads: usize) -> Start {
        let state = State { missing: threads, began: None, called_off: false };
        Start { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the others. When all began; `None` if the start was called off.
    pub fn wait(&self) -> Option<Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 && !state.called_off {
            state.began = Some(Instant::now());
            self.changed.notify_all();
        }
        while state.began.is_none() && !state.called_off {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.began
    }

    /// When all began, if they did.
    pub fn began(&self) -> Option<Instant> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).began
    }

    /// Nobody begins, unless all have begun already.
    pub fn call_off(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).called_off = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_at_once_or_none() {
        for failing in [false, true] {
            let start = Start::new(3);
            let began = std::thread::scope(|scope| {
                let waiting = [scope.spawn(|| start.wait()), scope.spawn(|| start.wait())];
                let own = if failing {
                    start.call_off();
                    None
                } else {
                    start.wait()
                };
                let [one, two] = waiting.map(|thread| thread.join().unwrap());
                [own, one, two]
            });
            assert!(
                began.iter().all(|moment| moment.is_some() != failing && *moment == began[0]),
                "{began:?}"
            );
        }
        // Who fails later does not undo the start.
        let start = Start::new(1);
        assert!(start.wait().is_some());
        start.call_off();
        assert!(start.wait().is_some());
    }
}
