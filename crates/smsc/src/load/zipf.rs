//! A Zipf distribution that a seed decides, on every platform the same.

use fathom_random::Random;

/// Numbers from 1 to `count`, of which `k` comes with a probability in proportion to `k^-exponent`.
///
/// Rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996. A draw takes constant time, whatever
/// `count` is.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    count: f64,
    exponent: f64,
    /// Integral of the density at 1.5, less 1, and at `count` + 0.5: a draw is uniform between
    /// both.
    ends: (f64, f64),
    /// How far below its number a point may lie to be taken without a look at the density.
    sure: f64,
}

impl Zipf {
    /// Of `count` (at least 1) numbers; `exponent` is above 0.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        let count = count.max(1) as f64;
        let mut zipf = Zipf { count, exponent, ends: (0.0, 0.0), sure: 0.0 };
        zipf.ends = (zipf.integral(1.5) - 1.0, zipf.integral(count + 0.5));
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next number.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let (first, last) = self.ends;
            let area = last + random.unit() * (first - last);
            let point = self.inverse(area);
            let number = (point + 0.5).floor().clamp(1.0, self.count);
            if number - point <= self.sure || area >= self.integral(number + 0.5) - self.density(number) {
                return number as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// (x^(1 − exponent) − 1) / (1 − exponent), also where the exponent is 1.
    fn integral(&self, x: f64) -> f64 {
        let power = (1.0 - self.exponent) * x.ln();
        let slope = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        slope * x.ln()
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = ((1.0 - self.exponent) * area).max(-1.0);
        let slope = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (slope * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared of ten boxes, 50,000 draws: 9 degrees of freedom, 99.99 % quantile 33.7.
    #[test]
    fn numbers_come_as_often_as_their_power_says() {
        for exponent in [0.5, 0.8, 0.99, 1.0, 1.5, 3.0] {
            let (zipf, mut random) = (Zipf::new(10, exponent), Random::new(7));
            let mut boxes = [0.0_f64; 10];
            for _ in 0..50_000 {
                boxes[zipf.draw(&mut random) as usize - 1] += 1.0;
            }
            let weight = |number: f64| number.powf(-exponent);
            let total: f64 = (1..=10).map(|number| weight(f64::from(number))).sum();
            let chi: f64 = (1..).zip(boxes).fold(0.0, |chi, (number, seen)| {
                let expected = 50_000.0 * weight(f64::from(number)) / total;
                chi + (seen - expected).powi(2) / expected
            });
            assert!(chi < 33.7, "{exponent}: {chi}, {boxes:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_numbers_for_years() {
        let (zipf, mut random) = (Zipf::new(1_000_000, 0.99), Random::new(1));
        let first: Vec<u64> = (0..6).map(|_| zipf.draw(&mut random)).collect();
        assert_eq!(first, [368, 26, 1, 2136, 2139, 20]);
        assert_eq!(Zipf::new(1, 0.8).draw(&mut random), 1);
    }
}
