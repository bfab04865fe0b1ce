//! The thread that keeps segments ready ahead of the writers, and the evidence of the log's
//! progress current.

use super::Log;
use crate::sync;
use std::time::{Duration, Instant};

/// Pauses after failed attempts to get a segment ready.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why no segment could be got ready, and when it may be tried again: the cause may be a full disk,
/// and the attempts must not be what keeps that busy. So none is made but for a commit that needs a
/// segment, or when one has been used up.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) why: String,
    since: Instant,
    pause: Duration,
}

impl Problem {
    /// The problem after `before`, if there was one: its pause is twice as long.
    pub(super) fn after(before: Option<&Problem>, why: String) -> Problem {
        let pause = before.map_or(FIRST_PAUSE, |p| (p.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE));
        Problem { why, since: Instant::now(), pause }
    }

    /// Whether it may be tried again.
    pub(super) fn is_over(&self) -> bool {
        sync::has_passed(self.since, self.pause)
    }

    /// Something has changed: the next attempt need not wait.
    pub(super) fn forget_pause(&mut self) {
        self.pause = Duration::ZERO;
    }
}

impl Log {
    /// Prepares segments until told to stop; the body of the preparer's thread.
    pub(crate) fn run_preparer(&self) {
        while !self.is_stopping() {
            for s in &self.streams {
                s.prepare(self);
            }
            self.register.state_progress(self);
            let mut segment_wanted = self.segment_wanted.0.lock();
            if !*segment_wanted {
                // Wakes by itself too: what was committed is to be stated after a while.
                segment_wanted = self.segment_wanted.1.wait_for(segment_wanted, self.register.look());
            }
            *segment_wanted = false;
        }
    }
}
