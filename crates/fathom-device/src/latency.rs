//! How long an operation takes: one number, or a distribution given by some of its quantiles.

use serde::Deserialize;

/// A distribution of times, by quantiles. Between two of them a time is as likely near the one as
/// near the other on a logarithmic scale: published tails (248 µs, 12 ms, 27 ms, 249 ms) span three
/// powers of ten, and a straight line from the 50th to the 90th percentile would put half of the
/// operations between them at more than 6 ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Share of operations (0…1) and time, ns; both rising. One point is a constant.
    points: Vec<(f64, f64)>,
}

/// As it is written: a number of µs, or a table of percentiles.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "a time is a number of µs, as 250, or percentiles with µs, as [[50, 248], [90, 12300], [100, 249000]]"
)]
pub(super) enum Written {
    Constant(f64),
    Quantiles(Vec<(f64, f64)>),
}

/// A number in a message: 1e300 has 300 digits, and so has 1e-300.
pub(super) fn shown(number: f64) -> String {
    let is_short = number == 0.0 || (1e-6..1e12).contains(&number.abs());
    if is_short { number.to_string() } else { format!("{number:e}") }
}

/// Longest time that a model may ask for, µs: an hour is a slip of the unit.
const LONGEST_US: f64 = 3.6e9;

impl Latency {
    /// Always the same time.
    #[must_use]
    pub fn constant_us(us: f64) -> Latency {
        Latency { points: vec![(1.0, us * 1e3)] }
    }

    /// Checks what was written: percentiles 0…100 and times in µs.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub(super) fn read(written: &Written) -> Result<Latency, String> {
        let time = |us: f64| match us {
            us if us.is_nan() || us < 0.0 => Err(format!("{} µs is no time", shown(us))),
            us if us > LONGEST_US => Err(format!("{} µs is more than an hour: are these µs?", shown(us))),
            us => Ok(us * 1e3),
        };
        let list = match written {
            Written::Constant(us) => return Ok(Latency { points: vec![(1.0, time(*us)?)] }),
            Written::Quantiles(list) => list,
        };
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(list.len());
        for &(percentile, us) in list {
            if !(0.0..=100.0).contains(&percentile) {
                return Err(format!("percentile {} is not between 0 and 100", shown(percentile)));
            }
            let point = (percentile / 100.0, time(us)?);
            if let Some(last) = points.last()
                && (point.0 <= last.0 || point.1 < last.1)
            {
                return Err(format!(
                    "percentile {percentile} with {us} µs does not rise above the one before: give [percentile, µs] in rising order"
                ));
            }
            points.push(point);
        }
        match points.last() {
            Some(&(1.0, _)) => Ok(Latency { points }),
            Some(_) => {
                Err("the last percentile must be 100: what is the longest time that is to be expected?"
                    .into())
            }
            None => Err("no percentiles are given".into()),
        }
    }

    /// The time at `share` of all operations, ns: 0.5 is the median.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        let above = self.points.iter().position(|point| share <= point.0).unwrap_or(self.points.len() - 1);
        let (high_share, high) = self.points[above];
        let Some(&(low_share, low)) = above.checked_sub(1).and_then(|below| self.points.get(below)) else {
            // Below the first quantile nothing is known but that it is not more.
            return high;
        };
        let along = ((share - low_share) / (high_share - low_share)).clamp(0.0, 1.0);
        if low <= 0.0 { along * high } else { low * (high / low).powf(along) }
    }

    /// Whether it is always the same time.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.points.windows(2).all(|pair| pair[0].1 == pair[1].1)
    }

    /// The same distribution, every time multiplied.
    #[must_use]
    pub fn times(&self, factor: f64) -> Latency {
        Latency { points: self.points.iter().map(|(share, ns)| (*share, ns * factor)).collect() }
    }

    /// Mean time, ns, of the distribution that [`Latency::quantile_ns`] describes.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let first = self.points[0];
        let mut mean = first.0 * first.1;
        for pair in self.points.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            // The mean of low·(high/low)^x for x in 0…1 is (high − low) / ln(high/low).
            let piece = if low <= 0.0 {
                high / 2.0
            } else if high / low < 1.0 + 1e-9 {
                low
            } else {
                (high - low) / (high / low).ln()
            };
            mean += (to - from) * piece;
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(list: &[(f64, f64)]) -> Result<Latency, String> {
        Latency::read(&Written::Quantiles(list.to_vec()))
    }

    #[test]
    fn quantiles_that_were_given_come_back() {
        let ufs = [(50.0, 248.0), (90.0, 12_300.0), (99.0, 27_500.0), (100.0, 249_000.0)];
        let latency = read(&ufs).unwrap();
        for (percentile, us) in ufs {
            assert!((latency.quantile_ns(percentile / 100.0) / 1e3 - us).abs() < 1e-6 * us);
        }
        assert_eq!(latency.quantile_ns(0.1), 248e3);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for (list, word) in [
            (&[][..], "no percentiles"),
            (&[(50.0, 10.0)], "must be 100"),
            (&[(50.0, 10.0), (40.0, 20.0), (100.0, 30.0)], "rise"),
            (&[(50.0, 10.0), (100.0, 9.0)], "rise"),
            (&[(101.0, 10.0)], "between 0 and 100"),
            (&[(100.0, -1.0)], "no time"),
            (&[(100.0, f64::NAN)], "no time"),
            (&[(100.0, 1e12)], "hour"),
            (&[(100.0, 1e300)], "1e300 µs"),
            (&[(1e300, 1.0)], "percentile 1e300"),
        ] {
            let error = read(list).unwrap_err();
            assert!(error.contains(word), "{list:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn times_rise_with_their_share_and_the_mean_is_theirs(
            steps in proptest::collection::vec((1.0f64..20.0, 0.0f64..500.0), 1..6),
        ) {
            let total: f64 = steps.iter().map(|s| s.0).sum();
            let (mut at, mut us, mut list) = (0.0, 1.0, Vec::new());
            for (step, more) in &steps {
                at += step / total * 100.0;
                us += more;
                list.push((at.min(100.0), us));
            }
            list.last_mut().unwrap().0 = 100.0;
            let latency = read(&list).unwrap();
            let draws: Vec<f64> = (0..20_000).map(|i| latency.quantile_ns((f64::from(i) + 0.5) / 20_000.0)).collect();
            prop_assert!(draws.windows(2).all(|two| two[0] <= two[1] * (1.0 + 1e-12)));
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            prop_assert!((mean / latency.mean_ns() - 1.0).abs() < 0.01, "{mean} against {}", latency.mean_ns());
        }
    }
}
