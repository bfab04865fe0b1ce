//! Seeded numbers that are the same on every machine and in every version: a state's number names
//! it.

use fathom_random::Random;

/// A stream of its own for each of the places that `words` names.
pub(crate) fn stream(words: &[u64]) -> Random {
    const BEGIN: u64 = 0x9e37_79b9_7f4a_7c15;
    Random::new(words.iter().fold(BEGIN, |state, word| Random::new(state ^ word).bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_stay_what_recorded_state_numbers_mean() {
        let first = |words: &[u64]| [stream(words).bits(), stream(words).below(1000)];
        assert_eq!(first(&[]), FIRST[0]);
        assert_eq!(first(&[1, 2]), FIRST[1]);
        assert_eq!(first(&[2, 1]), FIRST[2]);
    }

    /// As `fathom cut` of 0.1 drew them.
    const FIRST: [[u64; 2]; 3] =
        [[0x6e789e6aa1b965f4, 431], [0x35d9cd3e3446b06d, 210], [0x53484c4218a4263e, 325]];
}
