//! The random numbers of all that has a seed: workloads, plans, traces that are made up or made
//! anonymous, modelled devices, states after a power cut.
//!
//! The same seed must give the same data in every release, on every processor and for years, since
//! results files name the seed and nothing else. The generators of the `rand` crate do not promise
//! that across its versions, so these use SplitMix64 (Steele, Lea, Flood: *Fast Splittable
//! Pseudorandom Number Generators*, OOPSLA 2014; the constants are those of Vigna's public-domain
//! `splitmix64.c`): 64 bits of state, passes BigCrush, and any number of independent streams can be
//! derived from one seed by name and index.

/// A seeded stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// SplitMix64's increment: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: a bijection of 64-bit numbers that changes half of the bits for
/// each bit of input.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The stream number `index` of those called `name` under this seed. Streams of different names
    /// or indexes have unrelated starting points, so that drawing more in one never shifts another.
    #[must_use]
    pub fn stream(seed: u64, name: &str, index: u64) -> Self {
        // FNV-1a turns the name into a number; `mix` between the steps keeps (seed, name, index)
        // from cancelling out.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random {
            state: mix(mix(mix(seed.wrapping_add(GOLDEN)) ^ hash).wrapping_add(index.wrapping_mul(GOLDEN))),
        }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number from 0 to `bound - 1`, each equally likely; 0 where `bound` is 0.
    ///
    /// Lemire's multiplication with rejection (*Fast Random Integer Generation in an Interval*, ACM
    /// TOMACS 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if (product as u64) >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number from `low` to `high`, both included, each equally likely; `low` where the range is
    /// empty.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        if high <= low {
            return low;
        }
        let width = high.wrapping_sub(low) as u64;
        let step = if width == u64::MAX { self.bits() } else { self.below(width + 1) };
        low.wrapping_add(step as i64)
    }

    /// A number of [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A standard normal deviate (Box and Muller 1958, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// One of the items.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Puts the items in random order, every order equally likely (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// `count` different numbers from 0 to `bound - 1` in random order; all of them where `count`
    /// exceeds `bound`.
    ///
    /// Floyd's sampling (Bentley, Floyd: *A Sample of Brilliance*, CACM 30(9), 1987), then
    /// shuffled.
    pub fn distinct(&mut self, count: u64, bound: u64) -> Vec<u64> {
        let count = count.min(bound);
        let mut seen = std::collections::HashSet::with_capacity(count as usize);
        let mut chosen = Vec::with_capacity(count as usize);
        for candidate in bound - count..bound {
            let drawn = self.below(candidate + 1);
            let kept = if seen.insert(drawn) { drawn } else { candidate };
            seen.insert(kept);
            chosen.push(kept);
        }
        self.shuffle(&mut chosen);
        chosen
    }

    /// Fills the buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let mut words = buffer.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.bits().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.bits().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// A seed for a purpose: different `words` under one `seed` give unrelated generators.
#[must_use]
pub fn derive_seed(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(mix(seed ^ 0x5851_f42d_4c95_7f2d), |state, &word| {
        mix(state.wrapping_add(GOLDEN) ^ mix(word.wrapping_add(GOLDEN)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_published_sequence_of_splitmix64() {
        // First outputs of splitmix64.c for seed 1234567, as listed on Rosetta Code.
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| random.bits()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn below_is_uniform() {
        // Chi-squared of 12 boxes, 120,000 draws: 11 degrees of freedom, 99.99 % quantile 37.4.
        let mut random = Random::new(3);
        let mut boxes = [0_f64; 12];
        for _ in 0..120_000 {
            boxes[random.below(12) as usize] += 1.0;
        }
        let chi: f64 = boxes.iter().map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 37.4, "{chi}: {boxes:?}");
    }

    #[test]
    fn normal_deviates_have_mean_zero_and_variance_one() {
        let mut random = Random::new(7);
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        // Standard errors: 1/sqrt(n) = 0.0022 and sqrt(2/n) = 0.0032; five of them.
        assert!(mean.abs() < 0.012, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.016, "variance {variance}");
    }

    #[test]
    fn a_shuffle_favours_no_place() {
        let mut counts = [[0_u32; 4]; 4];
        let mut random = Random::new(3);
        for _ in 0..40_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                counts[item][place] += 1;
            }
        }
        // Each count is binomial(40000, 1/4): mean 10000, deviation 87; five of them.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(10_000) < 435), "{counts:?}");
    }

    #[test]
    fn streams_differ_by_seed_name_and_index() {
        let first = |seed, name, index| Random::stream(seed, name, index).bits();
        let all = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1), first(0, "", 0)];
        let different: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(first(1, "a", 0), all[0]);
    }

    proptest! {
        #[test]
        fn between_keeps_its_bounds(seed: u64, a: i64, b: i64) {
            let (low, high) = (a.min(b), a.max(b));
            let drawn = Random::new(seed).between(low, high);
            prop_assert!(low <= drawn && drawn <= high);
        }

        #[test]
        fn distinct_numbers_are_distinct_and_in_range(seed: u64, count in 0_u64..300, bound in 0_u64..300) {
            let chosen = Random::new(seed).distinct(count, bound);
            prop_assert_eq!(chosen.len() as u64, count.min(bound));
            let set: std::collections::HashSet<u64> = chosen.iter().copied().collect();
            prop_assert_eq!(set.len(), chosen.len());
            prop_assert!(chosen.iter().all(|&n| n < bound));
        }

        #[test]
        fn shuffled_items_are_the_same_items(seed: u64, mut items in proptest::collection::vec(0_u8..9, 0..50)) {
            let mut sorted = items.clone();
            Random::new(seed).shuffle(&mut items);
            items.sort_unstable();
            sorted.sort_unstable();
            prop_assert_eq!(items, sorted);
        }

        #[test]
        fn unit_is_in_its_interval(seed: u64) {
            let drawn = Random::new(seed).unit();
            prop_assert!((0.0..1.0).contains(&drawn));
        }
    }
}
