//! Zipf's law: the item of rank r is drawn with probability proportional to 1 / r^s.
//!
//! A few chats are busy and most are quiet; message counts of chats, as of most human
//! communication, follow this law with an exponent near 1.

use fathom_random::Random;

/// Draws ranks 0 … n−1 by Zipf's law.
///
/// The table of cumulative weights is searched by bisection: O(n) memory, O(log n) a draw, exact up
/// to rounding.
#[derive(Clone, Debug)]
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law for `items` (at least 1 is assumed) ranks with this exponent; 0 makes all equally
    /// likely.
    #[must_use]
    pub fn new(items: usize, exponent: f64) -> Self {
        let mut total = 0.0;
        let cumulative = (1..=items.max(1))
            .map(|rank| {
                total += (rank as f64).powf(-exponent);
                total
            })
            .collect();
        Zipf { cumulative }
    }

    /// A rank, 0 the likeliest.
    pub fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulative[self.cumulative.len() - 1];
        let point = random.unit() * total;
        self.cumulative.partition_point(|&sum| sum <= point).min(self.cumulative.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Relative frequencies of 200,000 draws.
    fn frequencies(items: usize, exponent: f64) -> Vec<f64> {
        let (zipf, mut random) = (Zipf::new(items, exponent), Random::new(11));
        let mut counts = vec![0_u32; items];
        for _ in 0..200_000 {
            counts[zipf.draw(&mut random)] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / 200_000.0).collect()
    }

    #[test]
    fn frequencies_follow_the_law() {
        let harmonic: f64 = (1..=50).map(|rank| 1.0 / f64::from(rank)).sum();
        for (rank, frequency) in frequencies(50, 1.0).into_iter().enumerate() {
            let expected = 1.0 / (rank as f64 + 1.0) / harmonic;
            // Five standard deviations of a binomial share.
            let slack = 5.0 * (expected * (1.0 - expected) / 200_000.0).sqrt();
            assert!((frequency - expected).abs() < slack, "rank {rank}: {frequency} against {expected}");
        }
    }

    #[test]
    fn exponent_zero_is_uniform() {
        for frequency in frequencies(20, 0.0) {
            assert!((frequency - 0.05).abs() < 0.003, "{frequency}");
        }
    }

    proptest! {
        #[test]
        fn ranks_stay_in_range(seed: u64, items in 1_usize..200, exponent in 0.0_f64..4.0) {
            let (zipf, mut random) = (Zipf::new(items, exponent), Random::new(seed));
            prop_assert!((0..100).all(|_| zipf.draw(&mut random) < items));
        }
    }
}
