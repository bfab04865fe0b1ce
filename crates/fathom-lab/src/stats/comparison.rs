//! Ratios with intervals.

use serde::{Deserialize, Serialize};

use super::student::t_quantile_975;

/// How many times as large one thing is as another, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The ratio.
    pub ratio: f64,
    /// Lower end of the 95 % interval; 0 where there are too few runs for one.
    pub low: f64,
    /// Upper end; infinite where there are too few runs for one.
    pub high: f64,
    /// Whether the interval leaves out 1.0. A table shows `~` where it does not.
    pub proven: bool,
    /// Blocks compared (paired), or runs of the smaller side (unpaired).
    pub n: usize,
}

impl Comparison {
    /// The same comparison seen from the other side: 1 / ratio.
    #[must_use]
    pub fn inverse(&self) -> Comparison {
        Comparison { ratio: 1.0 / self.ratio, low: 1.0 / self.high, high: 1.0 / self.low, ..*self }
    }

    fn of_logs(mean: f64, half_width: f64, n: usize) -> Comparison {
        let (low, high) = ((mean - half_width).exp(), (mean + half_width).exp());
        Comparison { ratio: mean.exp(), low, high, proven: low > 1.0 || high < 1.0, n }
    }
}

/// Mean and variance (n - 1) of the logarithms. Of equal ones it is that value and nothing, to the
/// last bit: what a sum rounds away depends on how many there are.
fn moments(logs: &[f64]) -> (f64, f64) {
    if logs.iter().all(|log| *log == logs[0]) {
        return (logs[0], 0.0);
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    (mean, logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0))
}

/// How many times as large the first of each pair is as the second: geometric mean of the pairs'
/// ratios with Student's t interval on their logarithms. See the module's page for why.
///
/// Pairs with a value that is not positive and finite are left out. Fewer than three pairs prove
/// nothing (interval 0 to infinity); none at all give none.
#[must_use]
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    let logs: Vec<f64> =
        pairs.iter().filter(|(a, b)| usable(*a) && usable(*b)).map(|(a, b)| a.ln() - b.ln()).collect();
    match logs.len() {
        0 => None,
        n @ 1..=2 => Some(Comparison::of_logs(logs.iter().sum::<f64>() / n as f64, f64::INFINITY, n)),
        n => {
            let (mean, variance) = moments(&logs);
            let half_width = t_quantile_975(n as f64 - 1.0) * (variance / n as f64).sqrt();
            Some(Comparison::of_logs(mean, half_width, n))
        }
    }
}

/// How many times as large the `a` are as the `b`, runs of which nothing pairs: ratio of geometric
/// means with Welch's interval on the logarithms (Welch, Biometrika 34, 1947; degrees of freedom by
/// Satterthwaite's formula).
///
/// Values that are not positive and finite are left out; fewer than three on a side prove nothing;
/// none give none.
#[must_use]
pub fn unpaired_ratio(a: &[f64], b: &[f64]) -> Option<Comparison> {
    let logs = |values: &[f64]| -> Vec<f64> {
        values.iter().filter(|value| value.is_finite() && **value > 0.0).map(|value| value.ln()).collect()
    };
    let (a, b) = (logs(a), logs(b));
    let n = a.len().min(b.len());
    if n == 0 {
        return None;
    }
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    if n < 3 {
        return Some(Comparison::of_logs(mean(&a) - mean(&b), f64::INFINITY, n));
    }
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(&a), moments(&b));
    let (share_a, share_b) = (variance_a / a.len() as f64, variance_b / b.len() as f64);
    let variance = share_a + share_b;
    let half_width = if variance == 0.0 {
        0.0
    } else {
        let freedom = variance.powi(2)
            / (share_a.powi(2) / (a.len() as f64 - 1.0) + share_b.powi(2) / (b.len() as f64 - 1.0));
        t_quantile_975(freedom) * variance.sqrt()
    };
    Some(Comparison::of_logs(mean_a - mean_b, half_width, n))
}

/// How many times as large the `a` are as the `b`, of counts: the quotient of the arithmetic means,
/// from the smallest to the largest that any two runs make. None of nothing; 1 where both are zero.
#[must_use]
pub fn range_ratio(a: &[f64], b: &[f64]) -> Option<Comparison> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let quotient = |a: f64, b: f64| if a == b { 1.0 } else { a / b };
    let (ratio, low, high) =
        (quotient(mean(a), mean(b)), quotient(least(a), most(b)), quotient(most(a), least(b)));
    Some(Comparison { ratio, low, high, proven: low > 1.0 || high < 1.0, n: a.len().min(b.len()) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::order::median;
    use super::*;
    use fathom_random::Random;

    #[test]
    fn an_interval_by_hand() {
        // Logs of the ratios: 0, ln 2, 2 ln 2; mean ln 2, variance (ln 2)²; half width 4.302653 ·
        // ln 2 / sqrt 3.
        let found = paired_ratio(&[(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)]).unwrap();
        let half_width = 4.302_653 * 2.0_f64.ln() / 3.0_f64.sqrt();
        assert!((found.ratio - 2.0).abs() < 1e-12);
        assert!((found.high - 2.0 * half_width.exp()).abs() < 1e-4);
        assert!(!found.proven);
    }

    #[test]
    fn too_little_proves_nothing() {
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(paired_ratio(&[(0.0, 1.0), (f64::NAN, 2.0)]), None);
        let two = paired_ratio(&[(4.0, 1.0), (4.0, 1.0)]).unwrap();
        assert_eq!((two.ratio.round(), two.low, two.high, two.proven), (4.0, 0.0, f64::INFINITY, false));
        assert_eq!(unpaired_ratio(&[1.0], &[]), None);
        assert!(!unpaired_ratio(&[9.0, 9.0], &[1.0, 1.0]).unwrap().proven);
    }

    /// What happened: 8192 bytes in each of ten runs were "1.00x more" than 8192 in each of three,
    /// proven, for the sums of their logarithms had been rounded differently.
    #[test]
    fn the_same_count_is_the_same_in_however_many_runs() {
        for value in [4096.0, 8192.0, 12_288.0, 29_737.04, 2.1] {
            for (many, few) in [(10, 3), (3, 10), (7, 5)] {
                let found = unpaired_ratio(&vec![value; many], &vec![value; few]).unwrap();
                assert_eq!((found.ratio, found.low, found.high, found.proven), (1.0, 1.0, 1.0, false));
            }
        }
    }

    /// Runs of one cell in a drifting, noisy lab: log-normal, and one run in ten hit by something.
    fn run(rng: &mut Random, outliers: bool) -> f64 {
        let hit = if outliers && rng.unit() < 0.1 { 0.5 * rng.normal().abs() } else { 0.0 };
        (0.05 * rng.normal() + hit).exp()
    }

    /// The interval's error rates over 4000 seeded experiments for each case. Prints the table that
    /// the documentation quotes; fails if equal cells look different in clearly more than 5 %
    /// (0.05 + 3 standard errors = 0.0603).
    #[test]
    fn simulate_coverage() {
        const EXPERIMENTS: u32 = 4000;
        println!(
            "false alarms (nominal 5 %)      paired  unpaired  | found, true 10 % difference: paired  unpaired"
        );
        for outliers in [false, true] {
            for n in [3, 5, 7, 10, 20] {
                let mut alarms = [0_u32; 2];
                let mut found = [0_u32; 2];
                let mut rng = Random::new(n as u64 + 100 * u64::from(outliers));
                for _ in 0..EXPERIMENTS {
                    let a: Vec<f64> = (0..n).map(|_| run(&mut rng, outliers)).collect();
                    let b: Vec<f64> = (0..n).map(|_| run(&mut rng, outliers)).collect();
                    let faster: Vec<f64> = b.iter().map(|value| value * 1.1).collect();
                    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
                    alarms[0] += u32::from(paired_ratio(&pairs).unwrap().proven);
                    alarms[1] += u32::from(unpaired_ratio(&a, &b).unwrap().proven);
                    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(faster.iter().copied()).collect();
                    found[0] += u32::from(paired_ratio(&pairs).unwrap().proven);
                    found[1] += u32::from(unpaired_ratio(&a, &faster).unwrap().proven);
                }
                let share = |count: u32| f64::from(count) / f64::from(EXPERIMENTS);
                println!(
                    "n = {n:2} {:22} {:6.3} {:9.3}  | {:36.3} {:9.3}",
                    if outliers { "10 % of runs disturbed" } else { "log-normal" },
                    share(alarms[0]),
                    share(alarms[1]),
                    share(found[0]),
                    share(found[1]),
                );
                assert!(share(alarms[0]) <= 0.0603, "paired n={n}: {}", share(alarms[0]));
                assert!(share(alarms[1]) <= 0.0603, "unpaired n={n}: {}", share(alarms[1]));
            }
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_ratio_and_turns_round(
            pairs in prop::collection::vec((0.1..10.0_f64, 0.1..10.0_f64), 3..20),
        ) {
            let there = paired_ratio(&pairs).unwrap();
            prop_assert!(there.low <= there.ratio && there.ratio <= there.high);
            let swapped: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let back = paired_ratio(&swapped).unwrap();
            let turned = back.inverse();
            prop_assert!((turned.ratio / there.ratio - 1.0).abs() < 1e-9);
            prop_assert!((turned.low / there.low - 1.0).abs() < 1e-6);
            prop_assert_eq!(there.proven, back.proven);
            // The geometric mean lies among the blocks' ratios.
            let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
            let min = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let max = ratios.iter().copied().fold(0.0, f64::max);
            prop_assert!(there.ratio >= min * 0.999_999 && there.ratio <= max * 1.000_001);
            prop_assert!(median(&ratios).is_some());
        }

        #[test]
        fn units_do_not_matter(
            pairs in prop::collection::vec((0.1..10.0_f64, 0.1..10.0_f64), 3..20), scale in 1e-9..1e9_f64,
        ) {
            let scaled: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a * scale, b * scale)).collect();
            let (one, other) = (paired_ratio(&pairs).unwrap(), paired_ratio(&scaled).unwrap());
            prop_assert!((one.ratio / other.ratio - 1.0).abs() < 1e-9);
            prop_assert!((one.low / other.low - 1.0).abs() < 1e-6);
        }
    }
}
