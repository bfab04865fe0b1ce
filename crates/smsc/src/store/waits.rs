//! How long a store lets those wait that wait for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Since when one thread waits for its session.
pub(super) struct Wait {
    begin: Instant,
    /// ms after `begin`, and one; 0 while it does not wait.
    since_ms: AtomicU64,
    /// When it began or ended to wait last, in the same ms.
    moved_ms: AtomicU64,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait::new()
    }
}

impl Wait {
    pub fn new() -> Wait {
        Wait { begin: Instant::now(), since_ms: AtomicU64::new(0), moved_ms: AtomicU64::new(0) }
    }

    fn now_ms(&self) -> u64 {
        // Half a billion years fit.
        self.begin.elapsed().as_millis() as u64 + 1
    }

    /// The thread waits from now on.
    pub fn begins(&self) {
        let now_ms = self.now_ms();
        self.moved_ms.store(now_ms, Relaxed);
        self.since_ms.store(now_ms, Relaxed);
    }

    /// It has what it waited for.
    pub fn ends(&self) {
        self.moved_ms.store(self.now_ms(), Relaxed);
        self.since_ms.store(0, Relaxed);
    }

    /// How long it has waited; nothing where it does not.
    pub fn elapsed(&self) -> Duration {
        match self.since_ms.load(Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis(self.now_ms().saturating_sub(since)),
        }
    }

    /// How long it has neither begun nor ended to wait.
    pub fn unmoved(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.moved_ms.load(Relaxed)))
    }
}

/// Operations that run in the caller, and are acknowledged by themselves: counted, so that who
/// looks again and again sees whether anything moves.
pub(super) struct Flow {
    started: AtomicU64,
    ended: AtomicU64,
    /// What had ended when it was looked at last, and when that changed last.
    seen: Mutex<(u64, Instant)>,
}

impl Flow {
    pub fn new() -> Arc<Flow> {
        let seen = Mutex::new((0, Instant::now()));
        Arc::new(Flow { started: AtomicU64::new(0), ended: AtomicU64::new(0), seen })
    }

    /// Counts an operation until what is given is dropped.
    pub fn start(self: &Arc<Flow>) -> FlowingOperation {
        self.started.fetch_add(1, Relaxed);
        FlowingOperation(Arc::clone(self))
    }

    /// How long nothing has ended although something is under way, as far as those who look have
    /// seen it.
    pub fn stands(&self) -> Duration {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.ended.load(Relaxed);
        if ended != seen.0 || self.started.load(Relaxed) <= ended {
            *seen = (ended, Instant::now());
        }
        seen.1.elapsed()
    }
}

/// An operation that is under way.
pub(super) struct FlowingOperation(Arc<Flow>);

impl Drop for FlowingOperation {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_wait_lasts_from_its_beginning_to_its_end() {
        let wait = Wait::new();
        assert_eq!(wait.elapsed(), Duration::ZERO);
        wait.begins();
        std::thread::sleep(SHORT);
        assert!(wait.elapsed() >= SHORT - Duration::from_millis(1));
        assert!(wait.unmoved() >= SHORT - Duration::from_millis(1));
        let before = Instant::now();
        wait.ends();
        assert_eq!(wait.elapsed(), Duration::ZERO);
        // However long this thread stands still just now.
        let (unmoved, most) = (wait.unmoved(), before.elapsed() + Duration::from_millis(1));
        assert!(unmoved <= most, "{unmoved:?} {most:?}");
        std::thread::sleep(SHORT);
        assert!(wait.unmoved() >= SHORT - Duration::from_millis(1), "it does not wait, and does not move");
    }

    #[test]
    fn what_does_not_move_is_seen() {
        let flow = Flow::new();
        // However long this thread stands still just now.
        let moves = || {
            let before = Instant::now();
            let stands = flow.stands();
            stands <= before.elapsed()
        };
        std::thread::sleep(SHORT);
        assert!(moves(), "nothing is under way");
        let [first, second] = [flow.start(), flow.start()];
        std::thread::sleep(SHORT);
        assert!(flow.stands() >= SHORT);
        drop(first);
        assert!(moves(), "one of them has ended");
        std::thread::sleep(SHORT);
        assert!(flow.stands() >= SHORT);
        drop(second);
        assert!(moves());
    }
}
