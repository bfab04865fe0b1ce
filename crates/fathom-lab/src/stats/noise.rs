//! How noisy a set of runs was.

use super::order::median;

/// Standard deviation (n - 1) over mean: 0.03 is 3 %. None of fewer than two values or a mean of
/// zero.
#[must_use]
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    if n < 2 || mean == 0.0 || !mean.is_finite() {
        return None;
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    Some(variance.sqrt() / mean.abs())
}

/// (largest - smallest) over the median: how far the floor probe moved between blocks. None of
/// fewer than two values or a median of zero.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (values.len() >= 2 && middle != 0.0).then(|| (max - min) / middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(coefficient_of_variation(&[1.0]), None);
        // Mean 10, deviations -1, 0, 1: variance 2 / 2 = 1.
        assert_eq!(coefficient_of_variation(&[9.0, 10.0, 11.0]), Some(0.1));
        assert_eq!(spread(&[80.0, 100.0, 130.0]), Some(0.5));
        assert_eq!(spread(&[80.0]), None);
    }
}
