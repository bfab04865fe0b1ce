//! Statistics of order: median, percentiles, the papers' trimmed mean.

use super::interval::Interval;

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the two middle ones; none of nothing. NaN is left out.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        // Halves first: the sum of two large values must not overflow.
        _ => Some(sorted[n / 2 - 1] / 2.0 + sorted[n / 2] / 2.0),
    }
}

/// The median with an interval between two of the values: the innermost, as far from either end,
/// that hold the true median in 95 % of cases or more whatever the distribution (David and
/// Nagaraja, Order Statistics, 2003, section 7.1). Of fewer than six values no two do: it is then
/// from the least to the greatest, and its coverage is less. None of fewer than three. NaN is left
/// out.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let n = sorted.len();
    if n < 3 {
        return None;
    }
    // That none, one, two … of the values lie below the true median: in logarithms, for it is less
    // than a double holds of a thousand values.
    let mut chance_ln = -(n as f64) * std::f64::consts::LN_2;
    let (mut outside, mut place) = (2.0 * chance_ln.exp(), 0);
    while 2 * (place + 1) < n {
        chance_ln += ((n - place) as f64 / (place + 1) as f64).ln();
        let more = outside + 2.0 * chance_ln.exp();
        if more > 0.05 {
            break;
        }
        (outside, place) = (more, place + 1);
    }
    let mid = median_of_sorted(&sorted)?;
    Some(Interval { low: sorted[place], mid, high: sorted[n - 1 - place], n, coverage: 1.0 - outside })
}

/// The value below which the share `q` (0 to 1) of the values lies, interpolated linearly between
/// order statistics (Hyndman and Fan 1996, type 7: what R, NumPy and spreadsheets give). None of
/// nothing.
#[must_use]
pub fn percentile(values: &[f64], q: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(values), q)
}

pub(super) fn percentile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The papers' mean (P2, section 3): the highest and the lowest value dropped, the rest averaged.
/// None of fewer than three.
#[must_use]
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    if sorted.len() < 3 {
        return None;
    }
    let kept = &sorted[1..sorted.len() - 1];
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_tables() {
        let of = |n: u32| {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let found = median_interval(&values).unwrap();
            assert_eq!(Some(found.mid), median(&values));
            (found.low, found.high, (found.coverage * 1e5).round() / 1e5)
        };
        assert_eq!((median_interval(&[]), median_interval(&[1.0, 2.0])), (None, None));
        assert_eq!((of(3), of(4), of(5)), ((1.0, 3.0, 0.75), (1.0, 4.0, 0.875), (1.0, 5.0, 0.9375)));
        assert_eq!((of(6), of(9)), ((1.0, 6.0, 0.96875), (2.0, 8.0, 0.96094)));
        assert_eq!(of(20), (6.0, 15.0, 0.95861));
        let (low, high, coverage) = of(3000);
        assert!((1445.0..1455.0).contains(&low) && high == 3001.0 - low && coverage >= 0.95, "{low} {high}");
        let equal = median_interval(&[7.0; 5]).unwrap();
        assert_eq!((equal.low, equal.mid, equal.high, equal.n), (7.0, 7.0, 7.0, 5));
    }

    #[test]
    fn small_cases_are_what_a_hand_gives() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(median(&[f64::NAN, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), Some(2.0));
        assert_eq!(percentile(&[10.0, 20.0], 0.9), Some(19.0));
        assert_eq!(trimmed_mean(&[1.0, 2.0]), None);
        assert_eq!(trimmed_mean(&[100.0, 2.0, 4.0, 0.0]), Some(3.0));
    }

    proptest! {
        #[test]
        fn half_of_the_values_lie_on_each_side_of_the_median(values in prop::collection::vec(-1e12..1e12_f64, 1..60)) {
            let middle = median(&values).unwrap();
            let below = values.iter().filter(|&&value| value <= middle).count();
            let above = values.iter().filter(|&&value| value >= middle).count();
            prop_assert!(2 * below >= values.len() && 2 * above >= values.len());
            // The two ways to halve may differ in the last bit of what they halve, which is many of
            // the middle's where that lies near 0 between two that are far from it.
            let percentile = percentile(&values, 0.5).unwrap();
            let largest = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            prop_assert!((percentile - middle).abs() <= largest * 1e-15, "{percentile} and {middle}");
        }

        #[test]
        fn percentiles_do_not_fall_and_stay_within_the_values(
            values in prop::collection::vec(-1e9..1e9_f64, 1..60), a in 0.0..1.0_f64, b in 0.0..1.0_f64,
        ) {
            let (low, high) = (a.min(b), a.max(b));
            let (low, high) = (percentile(&values, low).unwrap(), percentile(&values, high).unwrap());
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(min <= low && low <= high && high <= max);
        }

        #[test]
        fn one_wild_value_does_not_move_the_trimmed_mean_out_of_the_rest(
            values in prop::collection::vec(1.0..2.0_f64, 3..40), wild in 1e3..1e15_f64,
        ) {
            let mut values = values;
            values.push(wild);
            let mean = trimmed_mean(&values).unwrap();
            prop_assert!((1.0..=2.0).contains(&mean), "{}", mean);
        }
    }
}
