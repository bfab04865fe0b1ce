//! The median of a cell's runs with its bootstrap interval.

use serde::{Deserialize, Serialize};

use super::order::{median_of_sorted, percentile_of_sorted};
use crate::rng::SplitMix64;

/// A median with its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper end.
    pub high: f64,
    /// Number of values.
    pub n: usize,
    /// How often an interval made like this, of as many values, holds the true median; 0.95 is aimed at, and few values
    /// cannot reach it. See [`coverage_of_median`].
    pub coverage: f64,
}

/// Bootstrap resamples. The ends move by less than one order statistic's weight beyond that.
const RESAMPLES: usize = 4000;

/// Seed of the resampling: the same values give the same interval always.
const SEED: u64 = 0xB007_57A9;

/// The median with its 95 % interval by the percentile bootstrap (Efron 1979): resample the values with replacement
/// 4000 times (seeded), take each resample's median, and cut 2.5 % off each side. NaN is left out; none of nothing.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|it| !it.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = median_of_sorted(&sorted)?;
    let mut rng = SplitMix64::new(SEED);
    // Resampling places in the sorted values and sorting those is the same as sorting the values, and cheaper.
    let mut places = vec![0_usize; n];
    let median_at = |lower: usize, upper: usize| {
        if n % 2 == 1 { sorted[upper] } else { sorted[lower] / 2.0 + sorted[upper] / 2.0 }
    };
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES / 2 {
        places.iter_mut().for_each(|place| *place = rng.below(n));
        places.sort_unstable();
        let (lower, upper) = (places[(n - 1) / 2], places[n / 2]);
        medians.push(median_at(lower, upper));
        // The mirrored resample is as likely, and makes the two ends equally deep (antithetic resampling, Hall 1989).
        medians.push(median_at(n - 1 - upper, n - 1 - lower));
    }
    medians.sort_by(f64::total_cmp);
    let low = percentile_of_sorted(&medians, 0.025)?;
    let high = percentile_of_sorted(&medians, 0.975)?;
    Some(Interval { low, median, high, n, coverage: coverage_of_median(n) })
}

/// How often [`median_interval`] of `n` normal values holds the true median: simulated with 20,000 seeded samples for
/// each n (test `coverage_is_what_simulation_gives`), to ± 0.005. It is below 0.95 for small n, and jumps, because
/// the ends can only be order statistics: n = 3 and 5 give [min, max], n = 7 the second and the sixth.
#[must_use]
pub fn coverage_of_median(n: usize) -> f64 {
    const TABLE: [f64; 21] = [
        0.0, 0.0, 0.500, 0.750, 0.875, 0.938, 0.938, 0.875, 0.930, 0.960, 0.886, 0.935, 0.934, 0.910, 0.913,
        0.884, 0.925, 0.953, 0.905, 0.934, 0.936,
    ];
    TABLE.get(n).copied().unwrap_or(0.93)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn coverage_is_what_simulation_gives() {
        let samples: u32 = 20_000;
        let mut wrong = Vec::new();
        for n in 2..=20 {
            let mut rng = SplitMix64::new(n as u64);
            // The ends are the same functions of the order statistics whatever the values: find them once.
            let ranks: Vec<f64> = (0..n).map(|it| it as f64).collect();
            let by_rank = median_interval(&ranks).unwrap();
            let at = |sorted: &[f64], rank: f64| {
                let below = rank.floor() as usize;
                sorted[below] + (sorted[(below + 1).min(n - 1)] - sorted[below]) * (rank - below as f64)
            };
            let mut held = 0_u32;
            for _ in 0..samples {
                let mut values: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
                values.sort_by(f64::total_cmp);
                held += u32::from(at(&values, by_rank.low) <= 0.0 && 0.0 <= at(&values, by_rank.high));
            }
            let share = f64::from(held) / f64::from(samples);
            println!(
                "n = {n:2}: ends at ranks {:.2} and {:.2}, holds the median in {share:.3}",
                by_rank.low, by_rank.high
            );
            if (share - coverage_of_median(n)).abs() > 0.008 {
                wrong.push((n, share, coverage_of_median(n)));
            }
        }
        assert!(wrong.is_empty(), "(n, simulated, table): {wrong:?}");
    }

    #[test]
    fn five_runs_give_smallest_and_largest() {
        let found = median_interval(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((found.low, found.median, found.high, found.n), (1.0, 3.0, 5.0, 5));
    }

    proptest! {
        #[test]
        fn the_interval_holds_its_median_and_stays_within_the_values(
            values in prop::collection::vec(-1e6..1e6_f64, 1..30),
        ) {
            let found = median_interval(&values).unwrap();
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(min <= found.low && found.low <= found.median);
            prop_assert!(found.median <= found.high && found.high <= max);
            prop_assert_eq!(found, median_interval(&values).unwrap());
        }
    }
}
