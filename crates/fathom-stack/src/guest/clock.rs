//! How much more a guest's clock shows than this machine's.

/// Between what the difference lies, by readings of the guest's clock between two of this
/// machine's.
///
/// An answer was read after it was asked for and before it came, so each reading gives a bound on
/// either side, and the best of both may be of different readings: of one that was asked for
/// without waiting, and of one that came without.
#[derive(Debug)]
pub(super) struct ClockBounds {
    least_ns: i64,
    most_ns: i64,
}

impl ClockBounds {
    /// Nothing was read yet.
    pub fn new() -> ClockBounds {
        ClockBounds { least_ns: i64::MIN, most_ns: i64::MAX }
    }

    /// The guest's clock showed `there_ns`, between these two of this machine's, ns.
    pub fn read(&mut self, before_ns: u64, there_ns: u64, after_ns: u64) {
        let from = |here_ns: u64| there_ns.cast_signed().wrapping_sub(here_ns.cast_signed());
        self.least_ns = self.least_ns.max(from(after_ns));
        self.most_ns = self.most_ns.min(from(before_ns));
    }

    /// How far the bounds are apart: the middle is wrong by half of it at most.
    pub fn width_ns(&self) -> u64 {
        self.most_ns.saturating_sub(self.least_ns).max(0).cast_unsigned()
    }

    /// What lies between them.
    pub fn middle_ns(&self) -> i64 {
        self.least_ns / 2 + self.most_ns / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: on a busy machine each answer waits somewhere on its way. Half of the
    /// shortest way was milliseconds, by which a phase lay beside what the device had served: one
    /// that was a single execution lost a fourth of its time at the device, or a flush.
    #[test]
    fn readings_that_waited_on_different_ways_are_exact_together() {
        // The guest shows 500 less. This one is read at 1010, and its answer waits; the way of the
        // other is the shorter one, and it was waited for at the beginning.
        let mut bounds = ClockBounds::new();
        bounds.read(1000, 510, 9000);
        assert_eq!(bounds.width_ns(), 8000);
        bounds.read(20_000, 27_500, 28_010);
        assert_eq!((bounds.middle_ns(), bounds.width_ns()), (-500, 20));
        // What is read in passing says nothing more, and takes nothing back.
        bounds.read(50_000, 55_000, 90_000);
        assert_eq!((bounds.middle_ns(), bounds.width_ns()), (-500, 20));
    }
}
