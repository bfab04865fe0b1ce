//! The value of a cell: the geometric mean of its runs with Student's t interval.

use serde::{Deserialize, Serialize};

use super::student::t_quantile_975;

/// A geometric mean, or a median, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The geometric mean, or the median.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
    /// Number of values.
    pub n: usize,
    /// How often an interval made like this, of as many values, holds the true value where runs
    /// scatter log-normally: 0.95 of two values or more, 0 of one, which has no interval. See
    /// [`COVERAGE_WHEN_DISTURBED`] for other scatter, and
    /// [`median_interval`](super::median_interval) for medians.
    pub coverage: f64,
}

/// How often the interval holds the true geometric mean where one run in ten is hit by something
/// (by half of a normal deviate of its logarithm, up): of 3, 5, 7, 10 and 20 runs, simulated with
/// 20,000 seeded samples each (test `coverage_is_what_simulation_gives`). Rare large disturbances
/// that are not among the few runs cannot be in their interval either.
pub const COVERAGE_WHEN_DISTURBED: [(usize, f64); 5] =
    [(3, 0.902), (5, 0.826), (7, 0.775), (10, 0.747), (20, 0.787)];

/// The geometric mean with its 95 % interval: Student's t on the logarithms (n - 1 degrees of
/// freedom). NaN is left out; none of nothing. Values that are not all positive have no logarithms:
/// then it is the arithmetic mean, from the smallest to the largest.
///
/// It is the estimator of the comparisons ([`paired_ratio`](super::paired_ratio),
/// [`unpaired_ratio`](super::unpaired_ratio)): the quotient of two cells' values is the ratio that
/// a sentence gives for them, wherever both have the same blocks.
#[must_use]
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let n = values.len();
    if n == 0 {
        return None;
    }
    let coverage = if n < 2 { 0.0 } else { 0.95 };
    if values.iter().any(|value| *value <= 0.0 || value.is_infinite()) {
        let mid = values.iter().sum::<f64>() / n as f64;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        return Some(Interval { low, mid, high, n, coverage: 0.0 });
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n as f64;
    let half_width = if n < 2 {
        0.0
    } else {
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0);
        t_quantile_975(n as f64 - 1.0) * (variance / n as f64).sqrt()
    };
    // The mean of equal values is that value, to the last bit.
    let all_equal = values.iter().all(|value| *value == values[0]);
    let mid = if all_equal { values[0] } else { mean.exp() };
    let (low, high) =
        if all_equal { (mid, mid) } else { ((mean - half_width).exp(), (mean + half_width).exp()) };
    Some(Interval { low, mid, high, n, coverage })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::paired_ratio;
    use fathom_random::Random;

    /// How often the interval holds the truth, of 20,000 seeded samples.
    fn held(n: usize, mut run: impl FnMut(&mut Random) -> f64, truth: f64) -> f64 {
        const SAMPLES: u32 = 20_000;
        let mut rng = Random::new(n as u64);
        let mut held = 0_u32;
        for _ in 0..SAMPLES {
            let values: Vec<f64> = (0..n).map(|_| run(&mut rng)).collect();
            let found = mean_interval(&values).unwrap();
            held += u32::from(found.low <= truth && truth <= found.high);
        }
        f64::from(held) / f64::from(SAMPLES)
    }

    #[test]
    fn coverage_is_what_simulation_gives() {
        for n in [2, 3, 4, 5, 7, 10, 20] {
            let share = held(n, |rng| (0.05 * rng.normal()).exp(), 1.0);
            println!("n = {n:2}, log-normal: holds it in {share:.3}");
            assert!((share - mean_interval(&vec![1.0; n]).unwrap().coverage).abs() < 0.008, "{n}: {share}");
        }
        // The mean of |normal| is sqrt(2 / pi); it hits one in ten, halved.
        let truth = (0.1 * 0.5 * (2.0 / std::f64::consts::PI).sqrt()).exp();
        let mut wrong = Vec::new();
        for (n, expected) in COVERAGE_WHEN_DISTURBED {
            let disturbed = |rng: &mut Random| {
                let hit = if rng.unit() < 0.1 { 0.5 * rng.normal().abs() } else { 0.0 };
                (0.05 * rng.normal() + hit).exp()
            };
            let share = held(n, disturbed, truth);
            println!("n = {n:2}, one in ten disturbed: holds it in {share:.3}");
            if (share - expected).abs() > 0.008 {
                wrong.push((n, share, expected));
            }
        }
        assert!(wrong.is_empty(), "(n, simulated, table): {wrong:?}");
    }

    #[test]
    fn an_interval_by_hand() {
        // Logs 0, ln 2, 2 ln 2: mean ln 2, variance (ln 2)², half width 4.302653 · ln 2 / sqrt 3.
        let found = mean_interval(&[4.0, 1.0, 2.0]).unwrap();
        let half_width = 4.302_653 * 2.0_f64.ln() / 3.0_f64.sqrt();
        assert!(
            (found.mid - 2.0).abs() < 1e-12 && (found.high - 2.0 * half_width.exp()).abs() < 1e-4,
            "{found:?}"
        );
        let one = mean_interval(&[3.0]).unwrap();
        assert_eq!((one.low, one.mid, one.high, one.coverage), (3.0, 3.0, 3.0, 0.0));
        let none = mean_interval(&[0.0, 1.0]).unwrap();
        assert_eq!((none.low, none.mid, none.high, none.coverage), (0.0, 0.5, 1.0, 0.0));
        assert_eq!(mean_interval(&[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_quotient_of_two_values_is_their_ratio(
            pairs in prop::collection::vec((0.1..10.0_f64, 0.1..10.0_f64), 1..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let (of_a, of_b) = (mean_interval(&a).unwrap(), mean_interval(&b).unwrap());
            let ratio = paired_ratio(&pairs).unwrap().ratio;
            prop_assert!((of_a.mid / of_b.mid / ratio - 1.0).abs() < 1e-9);
            prop_assert!(of_a.low <= of_a.mid * (1.0 + 1e-12) && of_a.mid <= of_a.high * (1.0 + 1e-12));
        }
    }
}
