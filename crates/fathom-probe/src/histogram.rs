//! Durations in logarithmic buckets, written by one thread and read by any.
//!
//! Each power of two is cut into 64 equal buckets, so the middle of a bucket is within 1/128 (0.8
//! %) of every value in it. Values below 64 ns are exact; values above 2^41 ns (36 minutes) fall
//! into the last bucket.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
const MAX_SHIFT: u32 = 34;
const BUCKETS: usize = SUB * MAX_SHIFT as usize + 2 * SUB;

fn bucket(ns: u64) -> usize {
    let magnitude = 63 - (ns | 1).leading_zeros();
    let shift = magnitude.saturating_sub(SUB_BITS);
    if shift > MAX_SHIFT {
        return BUCKETS - 1;
    }
    // In range: shift <= 34 and ns >> shift < 128.
    SUB * shift as usize + (ns >> shift) as usize
}

fn middle(bucket: usize) -> u64 {
    let shift = (bucket / SUB).saturating_sub(1);
    let low = ((bucket - SUB * shift) as u64) << shift;
    low + ((1 << shift) >> 1)
}

/// The buckets that one thread fills. Only that thread writes; a reader sees each bucket whole.
pub struct Histogram([AtomicU64; BUCKETS]);

impl Histogram {
    /// An empty histogram on the heap, or none when memory is short.
    pub fn boxed() -> Option<Box<Self>> {
        let layout = std::alloc::Layout::new::<Self>();
        // SAFETY: the layout is not of size zero; all-zero bytes are a valid array of atomics; the
        // box takes over memory that the global allocator gave for exactly this layout.
        unsafe {
            let memory = std::alloc::alloc_zeroed(layout).cast::<Self>();
            if memory.is_null() { None } else { Some(Box::from_raw(memory)) }
        }
    }

    /// Counts one duration. Plain load and store: there is one writer.
    #[inline]
    pub fn count(&self, ns: u64) {
        if let Some(cell) = self.0.get(bucket(ns)) {
            cell.store(cell.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Adds what has been counted so far to `sums`.
    pub fn add_to(&self, sums: &mut Counts) {
        sums.0.resize(BUCKETS, 0);
        for (sum, cell) in sums.0.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(cell.load(Relaxed));
        }
    }
}

/// Bucket counts at rest: summed over threads, or kept to be subtracted. Empty means that nothing
/// was counted.
#[derive(Clone, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// Takes the other's counts away.
    pub fn subtract(&mut self, less: &Counts) {
        for (sum, count) in self.0.iter_mut().zip(&less.0) {
            *sum = sum.saturating_sub(*count);
        }
    }

    /// The duration (ns) that the share `quantile` (0 to 1) of all counted ones does not exceed;
    /// none if there are none.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let total: u64 = self.0.iter().sum();
        let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (index, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(index));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_middle_is_within_one_percent(ns in 0u64..1 << 41) {
            let error = middle(bucket(ns)).abs_diff(ns);
            prop_assert!(error * 128 <= ns, "{ns} became {}", middle(bucket(ns)));
        }

        #[test]
        fn buckets_keep_the_order(a: u64, b: u64) {
            prop_assert!((a <= b) <= (bucket(a) <= bucket(b)));
            prop_assert!(bucket(a) < BUCKETS);
        }
    }

    #[test]
    fn quantiles_of_known_durations() {
        let histogram = Histogram::boxed().unwrap();
        for ns in 1..=1000 {
            histogram.count(ns * 1000);
        }
        let mut counts = Counts::default();
        assert_eq!(counts.quantile_ns(0.5), None);
        histogram.add_to(&mut counts);
        let near = |counts: &Counts, quantile: f64, ns: f64| {
            let found = counts.quantile_ns(quantile).unwrap() as f64;
            assert!((found / ns - 1.0).abs() < 0.01, "{quantile}: {found} is not about {ns}");
        };
        near(&counts, 0.5, 500e3);
        near(&counts, 0.99, 990e3);
        near(&counts, 1.0, 1000e3);
        let before = counts.clone();
        histogram.add_to(&mut counts);
        near(&counts, 0.5, 500e3);
        counts.subtract(&before);
        counts.subtract(&before);
        assert_eq!(counts.quantile_ns(0.5), None);
    }
}
