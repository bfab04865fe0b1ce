//! Measured times in order: their quantiles, as a model writes them.

/// The percentiles that go into the model.
const PERCENTILES: [f64; 9] = [5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];
/// The quantiles that are to be known well, and within how much of themselves: half the width of
/// their 95 % interval.
const KNOWN: [f64; 3] = [0.5, 0.75, 0.9];
const WELL: f64 = 0.07;

/// Times in rising order, ns.
#[derive(Clone, Debug)]
pub(super) struct SortedTimes(pub Vec<u64>);

impl SortedTimes {
    pub fn of(mut times: Vec<u64>) -> SortedTimes {
        times.sort_unstable();
        SortedTimes(times)
    }

    pub fn at(&self, percentile: f64) -> f64 {
        let rank = (percentile / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1).min(self.0.len().saturating_sub(1))).copied().unwrap_or(0) as f64
    }

    pub fn median(&self) -> f64 {
        self.at(50.0)
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / (self.0.len() as f64).max(1.0)
    }

    /// Whether the median and the upper quantiles are known well: a device whose times differ by
    /// powers of ten takes more operations than one that always takes the same. The interval of a
    /// quantile is that of its rank (binomial).
    pub fn is_known_well(&self) -> bool {
        let n = self.0.len() as f64;
        !self.0.is_empty()
            && KNOWN.iter().all(|share| {
                let off = 1.96 * (share * (1.0 - share) / n).sqrt();
                let [low, middle, high] =
                    [share - off, *share, share + off].map(|share| self.at(share.clamp(0.0, 1.0) * 100.0));
                high - low <= 2.0 * WELL * middle
            })
    }

    /// As a model writes it.
    pub fn written(&self) -> String {
        let mut points = Vec::new();
        for percentile in PERCENTILES {
            // A percentile that rests on less than two operations is the largest.
            let enough = self.0.len() as f64 * (1.0 - percentile / 100.0) >= 1.0 || percentile == 100.0;
            if enough {
                points.push(format!("[{percentile}, {}]", us(self.at(percentile))));
            }
        }
        format!("[{}]", points.join(", "))
    }
}

/// As a model writes it: µs.
pub(super) fn us(ns: f64) -> String {
    let text = format!("{:.1}", ns.max(0.0) / 1e3);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The middle one.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_that_rest_on_too_little_are_left_out() {
        let times = SortedTimes::of((1..=100).map(|number| number * 1000).collect());
        assert_eq!(
            times.written(),
            "[[5, 5], [25, 25], [50, 50], [75, 75], [90, 90], [95, 95], [99, 99], [100, 100]]"
        );
        assert_eq!(SortedTimes::of(vec![1500]).written(), "[[100, 1.5]]");
    }

    #[test]
    fn a_wide_distribution_takes_more_operations_than_a_narrow_one() {
        let spread = |count: u64, powers: f64| {
            let time = |number: u64| (1e5 * 10f64.powf(powers * number as f64 / count as f64)) as u64;
            SortedTimes::of((0..count).map(time).collect())
        };
        assert!(spread(200, 0.1).is_known_well());
        assert!(!spread(200, 2.0).is_known_well());
        assert!(spread(20_000, 2.0).is_known_well());
        assert!(!SortedTimes::of(Vec::new()).is_known_well(), "nothing is known of what was not measured");
    }
}
