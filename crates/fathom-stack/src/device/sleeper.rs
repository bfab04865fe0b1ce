//! Answers given at their times.
//!
//! One thread holds all answers that are due later, sleeps until shortly before the earliest and spins for the rest: a sleep ends
//! tens of µs late, a spin does not. An answer that becomes due earlier than those before it wakes the thread.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The last of a wait is spun, ns: longer than a wake-up takes on a quiet machine.
const SPIN_NS: u64 = 60_000;

/// What is done when it is time; told when that was.
type Answer = Box<dyn FnOnce(Instant) + Send>;

struct Due {
    at: Instant,
    number: u64,
    answer: Answer,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// By time, then by arrival.
    fn cmp(&self, other: &Due) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<Due>>,
    number: u64,
    ending: bool,
}

/// The thread that gives the answers. Dropped, it gives all that are left at once and ends.
pub(super) struct Sleeper {
    shared: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> std::io::Result<Sleeper> {
        let shared = Arc::new((Mutex::new(Waiting::default()), Condvar::new()));
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("device-answers".into())
            .spawn(move || answer_all(&of_thread))?;
        Ok(Sleeper { shared, thread: Some(thread) })
    }

    /// Has `answer` called at `at`.
    pub fn at(&self, at: Instant, answer: impl FnOnce(Instant) + Send + 'static) {
        let mut waiting = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = waiting.number;
        waiting.number += 1;
        let first = waiting.heap.peek().is_none_or(|Reverse(due)| at < due.at);
        waiting.heap.push(Reverse(Due { at, number, answer: Box::new(answer) }));
        drop(waiting);
        if first {
            self.shared.1.notify_one();
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).ending = true;
        self.shared.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of an answer has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

fn answer_all(shared: &(Mutex<Waiting>, Condvar)) {
    // Without slack a timed wait ends at its time, not up to 50 µs later. Elsewhere than on Linux waits end as they do.
    // SAFETY: PR_SET_TIMERSLACK takes one integer and concerns this thread only.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong)
    };
    let (mutex, changed) = shared;
    let mut waiting = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        let Some(Reverse(first)) = waiting.heap.peek() else {
            if waiting.ending {
                return;
            }
            waiting = changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let left = first.at.saturating_duration_since(now);
        if left.is_zero() || waiting.ending {
            if let Some(Reverse(due)) = waiting.heap.pop() {
                drop(waiting);
                (due.answer)(now);
                waiting = mutex.lock().unwrap_or_else(PoisonError::into_inner);
            }
        } else if left > Duration::from_nanos(SPIN_NS) {
            let sleep = left - Duration::from_nanos(SPIN_NS);
            waiting = changed.wait_timeout(waiting, sleep).unwrap_or_else(PoisonError::into_inner).0;
        } else {
            // Others may bring an earlier answer meanwhile.
            drop(waiting);
            std::hint::spin_loop();
            waiting = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn answers_come_in_order_of_their_times_and_not_before() {
        let sleeper = Sleeper::start().unwrap();
        let (sender, receiver) = channel();
        let begin = Instant::now();
        for ms in [9u64, 3, 6, 3, 0] {
            let sender = sender.clone();
            let at = begin + Duration::from_millis(ms);
            sleeper.at(at, move |now| sender.send((ms, now >= at)).unwrap());
        }
        drop(sender);
        let got: Vec<_> = receiver.iter().collect();
        // The one due at once may be given before the others come; then all are in order.
        assert_eq!(got.iter().map(|g| g.0).filter(|&ms| ms > 0).collect::<Vec<_>>(), [3, 3, 6, 9]);
        assert!(got.iter().all(|g| g.1), "{got:?}");
    }

    #[test]
    fn what_is_left_at_the_end_is_answered_at_once() {
        let sleeper = Sleeper::start().unwrap();
        let (sender, receiver) = channel();
        sleeper.at(Instant::now() + Duration::from_secs(3600), move |_| sender.send(()).unwrap());
        drop(sleeper);
        receiver.recv().unwrap();
    }
}
