//! How much more of something there is: for counts that have no quotient, because some are zero.

use serde::Serialize;

use super::Interval;
use super::student::t_quantile_975;

/// The arithmetic mean of the counts of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    mid: f64,
    /// Of the mean: the variance (n - 1) of the counts over their number.
    variance: f64,
    n: usize,
}

impl Mean {
    fn of(counts: &[f64]) -> Option<Mean> {
        if counts.len() < 3 || counts.iter().any(|count| !count.is_finite()) {
            return None;
        }
        let n = counts.len() as f64;
        let mid = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|count| (count - mid).powi(2)).sum::<f64>() / (n - 1.0) / n;
        Some(Mean { mid, variance, n: counts.len() })
    }

    fn freedom(&self) -> f64 {
        self.n as f64 - 1.0
    }

    /// With Student's t interval; no count is below zero.
    fn interval(&self) -> Interval {
        let half_width = t_quantile_975(self.freedom()) * self.variance.sqrt();
        let low = (self.mid - half_width).max(0.0);
        Interval { low, mid: self.mid, high: self.mid + half_width, n: self.n, coverage: 0.95 }
    }
}

/// How much more the counts of B are than those of A, with its 95 % interval: the difference of the
/// arithmetic means with Welch's interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Lower end.
    pub low: f64,
    /// The difference; below zero where B has less.
    pub mid: f64,
    /// Upper end.
    pub high: f64,
    #[serde(skip)]
    of: [Mean; 2],
}

impl Difference {
    /// Whether the interval leaves out 0.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// The values of A and B.
    #[must_use]
    pub fn sides(&self) -> [Interval; 2] {
        self.of.map(|mean| mean.interval())
    }

    /// The 95 % interval of how much more B has than so many times what A has.
    #[must_use]
    pub fn beyond(&self, times: f64) -> [f64; 2] {
        let [low, _, high] = contrast(&self.of, times);
        [low, high]
    }
}

/// Low end, value and high end of B less so many times A: Welch's interval, as
/// [`unpaired_ratio`](super::unpaired_ratio) has it on logarithms.
fn contrast([a, b]: &[Mean; 2], times: f64) -> [f64; 3] {
    let mid = b.mid - times * a.mid;
    let (of_a, of_b) = (times.powi(2) * a.variance, b.variance);
    let variance = of_a + of_b;
    if variance == 0.0 {
        return [mid; 3];
    }
    let freedom = variance.powi(2) / (of_a.powi(2) / a.freedom() + of_b.powi(2) / b.freedom());
    let half_width = t_quantile_975(freedom) * variance.sqrt();
    [mid - half_width, mid, mid + half_width]
}

/// How much more the counts of `b` are than those of `a`, runs of which nothing pairs. None of
/// fewer than three on a side.
#[must_use]
pub fn unpaired_difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    let of = [Mean::of(a)?, Mean::of(b)?];
    let [low, mid, high] = contrast(&of, 1.0);
    Some(Difference { low, mid, high, of })
}

#[cfg(test)]
mod tests {
    use fathom_random::Random;

    use super::*;

    #[test]
    fn an_interval_by_hand() {
        // Means 1 and 3, variances 1 and 1 of three counts each: sqrt(2 / 3) with 4 degrees of
        // freedom.
        let found = unpaired_difference(&[0.0, 1.0, 2.0], &[2.0, 3.0, 4.0]).unwrap();
        let half_width = 2.776_445 * (2.0_f64 / 3.0).sqrt();
        assert!((found.mid - 2.0).abs() < 1e-12 && (found.low - (2.0 - half_width)).abs() < 1e-4);
        assert!(!found.is_proven(), "{found:?}");
        let [a, b] = found.sides();
        assert_eq!((a.low, a.mid, b.mid, b.n, b.coverage), (0.0, 1.0, 3.0, 3, 0.95));
        // Three times A is as much as B.
        let [low, high] = found.beyond(3.0);
        assert!((low + high).abs() < 1e-9 && high > 0.0, "{low} {high}");
        assert_eq!(unpaired_difference(&[0.0, 1.0], &[2.0, 3.0, 4.0]), None);
        let sure = unpaired_difference(&[0.0; 3], &[0.5; 3]).unwrap();
        assert_eq!((sure.low, sure.mid, sure.high, sure.is_proven()), (0.5, 0.5, 0.5, true));
    }

    /// Of runs that flush or do not, by chance, hardly more than one in twenty pairs of equal
    /// things looks different, and of few runs fewer: counts are coarse.
    #[test]
    fn what_is_the_same_seldom_looks_different() {
        const PAIRS: u32 = 4000;
        for share in [0.1, 0.3, 0.5, 0.8] {
            for n in [3, 5, 10, 20] {
                let mut rng = Random::new(n as u64);
                let mut counts = || (0..n).map(|_| f64::from(u8::from(rng.unit() < share))).collect();
                let mut alarms = 0_u32;
                for _ in 0..PAIRS {
                    let (a, b): (Vec<f64>, Vec<f64>) = (counts(), counts());
                    alarms += u32::from(unpaired_difference(&a, &b).is_some_and(|found| found.is_proven()));
                }
                let found = f64::from(alarms) / f64::from(PAIRS);
                println!("{share} of {n:2} runs with a flush: {found:.3} look different");
                assert!(found <= 0.07, "{share} of {n}: {found}");
            }
        }
    }
}
