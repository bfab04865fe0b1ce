//! Processors that do not fall asleep while a device works.
//!
//! An idle processor halts, and takes a few to a hundred µs to wake up again: longer in deep states
//! and on a virtual machine, whose host gives it away meanwhile, and differently from one time to
//! the next. No constant makes up for that. The kernel has an interface for programs that cannot
//! bear it: whoever holds a request in /dev/cpu_dma_latency has idle processors stay in states from
//! which they wake up within so many µs; with 0 they wait without halting. Time spent so is idle
//! time as before, to everybody who looks at the use of the processors; it costs power, so the
//! request is held only while operations come.
//!
//! It needs root. Without it the device works as it does, and its answers are later by what the
//! wake-ups take.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

const REQUESTS: &str = "/dev/cpu_dma_latency";
/// So long after the last operation the processors may sleep again.
const AFTER: Duration = Duration::from_millis(200);
/// Bearable latencies as the interface takes them, µs: none, and any.
const NONE: i32 = 0;
const ANY: i32 = 2_000_000_000;

/// The request of one device.
pub(super) struct Awake {
    file: Option<File>,
    /// Until when it is held; none: it is not.
    until: Option<Instant>,
}

impl Awake {
    /// Holds nothing yet.
    pub fn new() -> Awake {
        Awake { file: OpenOptions::new().write(true).open(REQUESTS).ok(), until: None }
    }

    /// An operation has come or was answered.
    pub fn used(&mut self, now: Instant) {
        if self.until.is_none() {
            self.bear(NONE);
        }
        self.until = Some(now + AFTER);
    }

    /// There is nothing to do at `now`. How long this is to be asked again, if at all.
    pub fn rest(&mut self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        if left.is_zero() {
            self.bear(ANY);
            self.until = None;
            return None;
        }
        Some(left)
    }

    fn bear(&mut self, latency_us: i32) {
        if let Some(file) = &mut self.file {
            // Refused: as without.
            let _ = file.write_all(&latency_us.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_while_operations_come_and_not_much_longer() {
        let (mut file, start) = (tempfile::tempfile().unwrap(), Instant::now());
        let mut awake = Awake { file: Some(file.try_clone().unwrap()), until: None };
        assert_eq!(awake.rest(start), None, "nothing has come");
        awake.used(start);
        awake.used(start + AFTER / 2);
        assert_eq!(awake.rest(start + AFTER), Some(AFTER / 2));
        assert_eq!(awake.rest(start + AFTER * 2), None);
        assert_eq!(awake.rest(start + AFTER * 3), None);
        let mut written = Vec::new();
        std::io::Seek::rewind(&mut file).unwrap();
        std::io::Read::read_to_end(&mut file, &mut written).unwrap();
        assert_eq!(written, [NONE.to_ne_bytes(), ANY.to_ne_bytes()].concat());
    }
}
