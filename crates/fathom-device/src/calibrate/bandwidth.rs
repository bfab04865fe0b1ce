//! What each byte of a long operation takes.

use super::sizes::{BLOCK, LARGEST};
use crate::model::MOST_MB_PER_S;

/// The part of an operation of 1 MiB that its bytes take at least: what is shorter is lost in the
/// noise of two medians, whose difference may be nothing or less.
const LEAST: f64 = 0.02;

/// From 4 KiB in sequence to 1 MiB in sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bandwidth {
    /// 1 MB = 10^6 bytes; within what a model may say.
    pub mb_per_s: f64,
    /// Whether 1 MiB took longer than 4 KiB, so that it is more than a guess.
    pub is_seen: bool,
}

impl Bandwidth {
    /// Of the medians of both, ns.
    pub fn of(mib_ns: f64, four_kib_ns: f64) -> Bandwidth {
        let (rest, least) = (mib_ns - four_kib_ns, mib_ns * LEAST);
        let mb_per_s = 1e3 * (LARGEST - BLOCK) as f64 / rest.max(least).max(1.0);
        Bandwidth { mb_per_s: mb_per_s.min(MOST_MB_PER_S), is_seen: rest > least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_what_a_long_operation_takes_beyond_a_short_one() {
        let found = Bandwidth::of(13_156_000.0, 100_000.0);
        assert!((found.mb_per_s - 80.0).abs() < 0.1 && found.is_seen, "{found:?}");
    }

    /// A virtual disk beside other work took less for 1 MiB than for 4 KiB, and the model said
    /// 1044480000 MB/s, which no model may say.
    #[test]
    fn a_long_operation_that_took_no_longer_is_a_guess_that_a_model_may_say() {
        for (mib, four_kib) in [(1e6, 1e6), (1e6, 2e6), (1e6, 0.999e6), (0.0, 0.0), (1.0, 5.0), (3e9, 1e10)] {
            let found = Bandwidth::of(mib, four_kib);
            assert!(!found.is_seen && (0.001..=MOST_MB_PER_S).contains(&found.mb_per_s), "{found:?}");
        }
        assert!((Bandwidth::of(1e6, 2e6).mb_per_s / 52_224.0 - 1.0).abs() < 1e-9);
    }
}
