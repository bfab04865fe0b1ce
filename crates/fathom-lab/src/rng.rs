//! The lab's random numbers: order of runs, seeds of runs, resampling, simulated devices.
//!
//! A generator of our own, so that a seed means the same order on every machine and in every release: a plan that is
//! resumed next year must be the plan that was begun.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), with the constants of
/// Vigna's reference code. 64 bits of state, passes BigCrush, good enough for orders and resampling.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator; every seed is a good one.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Uniform in 0 ≤ x < 1, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in 0..`bound`, by multiplication (Lemire 2019, without the rejection step: the bias is below
    /// `bound` / 2^64). Gives 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A standard normal deviate (Box and Muller 1958, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts `items` into random order (Fisher and Yates, Knuth's algorithm P).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A seed for a purpose: different `words` under one `seed` give unrelated generators.
#[must_use]
pub fn derive_seed(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix(seed ^ 0x5851_F42D_4C95_7F2D), |state, &word| {
        mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ mix(word.wrapping_add(0x9E37_79B9_7F4A_7C15)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_reference_codes() {
        // First outputs of Vigna's splitmix64.c for the state 1234567.
        let mut rng = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn normal_deviates_have_mean_zero_and_variance_one() {
        let mut rng = SplitMix64::new(7);
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        // Standard errors: 1/sqrt(n) = 0.0022 and sqrt(2/n) = 0.0032; five of them.
        assert!(mean.abs() < 0.012, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.016, "variance {variance}");
    }

    #[test]
    fn a_shuffle_favours_no_place() {
        let mut counts = [[0_u32; 4]; 4];
        let mut rng = SplitMix64::new(3);
        for _ in 0..40_000 {
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                counts[item][place] += 1;
            }
        }
        // Each count is binomial(40000, 1/4): mean 10000, deviation 87; five of them.
        assert!(counts.iter().flatten().all(|&it| it.abs_diff(10_000) < 435), "{counts:?}");
    }
}
