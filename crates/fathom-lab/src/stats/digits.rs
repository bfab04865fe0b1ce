//! Numbers as they are written down.

/// A number to six significant digits, written by no more than these: a quotient of large numbers
/// has 17. 0 for one that is not finite.
#[must_use]
pub fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    // What was a number is one when it is read back.
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a third of all times of 10 s and more stood in a baseline as
    /// 14434499999.999998, of whose digits the last ones differ by chance.
    #[test]
    fn a_number_of_a_baseline_has_six_digits() {
        for (value, text) in [
            (14_434_526_491.273_724, "14434500000"),
            (23_814_521_920.780_884, "23814500000"),
            (1_234_567.8, "1234570"),
            (281.44449, "281.444"),
            (0.012_345_678, "0.0123457"),
            (-2.0, "-2"),
            (0.0, "0"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(significant(value).to_string(), text, "{value}");
        }
    }
}
