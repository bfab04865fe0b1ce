//! What it costs to answer late at all: the way of a request to the device and of its answer back
//! to the program.
//!
//! It is measured when the device starts, by operations that are asked to take a known time, and
//! each answer is begun that much earlier. It differs by kind of operation; by how long the program
//! has slept, for a processor that has rested longer wakes up more slowly; and by what is carried,
//! for a write's data is copied before the device sees the request and a read's after it gave the
//! answer.

/// The data of an operation without further bytes.
pub(super) const LEAST: usize = 4096;

/// The overhead of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Overhead {
    /// For an operation of 4 KiB, by how long it was asked to take, ns; in rising order.
    by_delay: Vec<(u64, f64)>,
    /// For each byte beyond, ns.
    per_byte_ns: f64,
}

impl Overhead {
    /// How much earlier than `took_ns` the answer to an operation of so many bytes is begun, ns.
    pub fn early_ns(&self, took_ns: u64, bytes: u64) -> u64 {
        let more = self.per_byte_ns * bytes.saturating_sub(LEAST as u64) as f64;
        (self.of_delay(took_ns) + more).max(0.0) as u64
    }

    /// Between two delays in a straight line; beyond the outer ones as at them.
    fn of_delay(&self, took_ns: u64) -> f64 {
        let next = self.by_delay.partition_point(|entry| entry.0 < took_ns);
        match (next.checked_sub(1).and_then(|before| self.by_delay.get(before)), self.by_delay.get(next)) {
            (Some(low), Some(high)) => {
                let share = (took_ns - low.0) as f64 / (high.0 - low.0) as f64;
                low.1 + (high.1 - low.1) * share
            }
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 0.0,
        }
    }

    /// An operation of 4 KiB that was to take `asked_ns` took `given_ns` with the overhead that is
    /// known so far.
    pub fn correct(&mut self, asked_ns: u64, given_ns: u64) {
        let off = given_ns as f64 - asked_ns as f64;
        match self.by_delay.binary_search_by_key(&asked_ns, |entry| entry.0) {
            Ok(at) => self.by_delay[at].1 = (self.by_delay[at].1 + off).max(0.0),
            Err(at) => {
                let known = self.of_delay(asked_ns);
                self.by_delay.insert(at, (asked_ns, (known + off).max(0.0)));
            }
        }
    }

    /// One of so many bytes did.
    pub fn correct_bytes(&mut self, bytes: usize, asked_ns: u64, given_ns: u64) {
        let more = bytes.saturating_sub(LEAST);
        if more > 0 {
            self.per_byte_ns += (given_ns as f64 - asked_ns as f64) / more as f64;
            self.per_byte_ns = self.per_byte_ns.max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_what_answers_are_begun_earlier() {
        let mut overhead = Overhead::default();
        assert_eq!(overhead.early_ns(1_000_000, 1 << 20), 0, "nothing is known yet");
        overhead.correct(200_000, 230_000);
        assert_eq!(overhead.early_ns(5_000_000, 0), 30_000);
        // With 30 µs it was 20 µs late still.
        overhead.correct(1_000_000, 1_020_000);
        assert_eq!(
            [200_000, 600_000, 1_000_000, 9_000_000].map(|ns| overhead.early_ns(ns, 0)),
            [30_000, 40_000, 50_000, 50_000]
        );
        overhead.correct(1_000_000, 990_000);
        assert_eq!(overhead.early_ns(1_000_000, 512), 40_000);
        overhead.correct_bytes(1 << 20, 1_000_000, 1_104_448);
        assert_eq!(overhead.early_ns(1_000_000, 1 << 20), 40_000 + 104_448);
        assert_eq!(overhead.early_ns(1_000_000, LEAST as u64), 40_000);
        // An answer that came too early by more than the overhead is not given before it was asked
        // for.
        overhead.correct(200_000, 100_000);
        assert_eq!(overhead.early_ns(100_000, 0), 0);
    }
}
