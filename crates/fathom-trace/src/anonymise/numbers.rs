//! Other numbers for whole numbers, on wish: ids name people as names do.
//!
//! All whole numbers of a trace are in one order, and the numbers that replace them are in the same
//! order, wherever they stand: so ranges, ORDER BY, joins and equality stay. A number keeps its
//! sign, its decimal digits and the bytes that SQLite stores it in, so pages stay. Numbers that
//! something is calculated from (or that SQLite itself gives, as rowids) stay, and so do those
//! below [`LEAST`]: there are too few of them to hide anything. Those that stay divide the others:
//! a number never passes one of them.

use std::collections::{BTreeMap, BTreeSet};

use fathom_random::Random;

/// Numbers nearer to zero than this stay.
pub const LEAST: u64 = 1000;

/// Replacements of numbers, without their signs.
#[derive(Debug, Default)]
pub struct Numbers {
    met: BTreeSet<u64>,
    stay: BTreeSet<u64>,
    becomes: BTreeMap<u64, u64>,
}

impl Numbers {
    /// A number that occurs.
    pub fn add(&mut self, number: i64) {
        self.met.insert(number.unsigned_abs());
    }

    /// A number that stays.
    pub fn keep(&mut self, number: i64) {
        self.stay.insert(number.unsigned_abs());
    }

    /// Draws the replacements of all that were added.
    pub fn draw(&mut self, seed: u64) {
        self.becomes.clear();
        let mut random = Random::new(seed ^ 0x6e75_6d62_6572_7321);
        let mut bounds = fences();
        bounds.extend(self.stay.range(LEAST..).copied());
        let mut from = LEAST;
        for to in bounds.range(LEAST + 1..) {
            // What stays is a bound itself; a fence that does not occur may be drawn.
            let group: Vec<u64> =
                self.met.range(from..*to).copied().filter(|number| !self.stay.contains(number)).collect();
            let first = from + u64::from(self.stay.contains(&from));
            let drawn = choose(first, *to, group.len(), &mut random);
            self.becomes.extend(group.into_iter().zip(drawn));
            from = *to;
        }
    }

    /// The replacement of a number.
    pub fn of(&self, number: i64) -> i64 {
        match self.becomes.get(&number.unsigned_abs()).and_then(|size| i64::try_from(*size).ok()) {
            Some(size) if number < 0 => -size,
            Some(size) => size,
            None => number,
        }
    }

    /// The replacement of a whole number as it is written in decimal; none where it stays, or is
    /// written in another way.
    pub fn of_digits(&self, digits: &str) -> Option<String> {
        let number: i64 = digits.parse().ok()?;
        let replaced = self.of(number);
        (replaced != number && number.to_string() == digits).then(|| replaced.to_string())
    }
}

/// Where a number would get another length: in decimal, in a record (a byte more from 2^7, 2^15 …),
/// as a rowid (seven bits a byte). Numbers below zero have the other end of these ranges, -2^7 and
/// so on, which stay by being fences of both sides.
fn fences() -> BTreeSet<u64> {
    let powers = (1..=18).map(|digits| 10_u64.pow(digits));
    let record = [7, 15, 23, 31, 47].into_iter().flat_map(|bits| [1 << bits, (1 << bits) + 1]);
    let rowid = (1..=8).map(|bytes| 1 << (7 * bytes));
    powers.chain(record).chain(rowid).chain([1 << 63]).collect()
}

/// `count` different numbers from `from` on and below `to`, in their order.
fn choose(from: u64, to: u64, count: usize, random: &mut Random) -> Vec<u64> {
    let all = to - from;
    if count as u64 * 2 < all {
        let mut chosen = BTreeSet::new();
        while chosen.len() < count {
            chosen.insert(from + random.below(all));
        }
        return chosen.into_iter().collect();
    }
    // Nearly all are taken: one after the other, each with the chance that is left (Knuth's
    // algorithm S).
    let mut left = count as u64;
    (from..to)
        .filter(|number| {
            let is_taken = left > 0 && random.below(to - number) < left;
            left -= u64::from(is_taken);
            is_taken
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a number in a record, and as a rowid.
    fn lengths(number: i64) -> (u32, u32, usize) {
        let record = match number {
            -0x80..=0x7f => 1,
            -0x8000..=0x7fff => 2,
            -0x80_0000..=0x7f_ffff => 3,
            -0x8000_0000..=0x7fff_ffff => 4,
            -0x8000_0000_0000..=0x7fff_ffff_ffff => 6,
            _ => 8,
        };
        let rowid = (64 - (number as u64).leading_zeros()).div_ceil(7).clamp(1, 9);
        (record, rowid, number.to_string().len())
    }

    proptest! {
        #[test]
        fn numbers_keep_their_order_and_lengths(
            near in prop::collection::vec(prop_oneof![-300_000_i64..300_000, any::<i64>().prop_map(|number| number >> 1), (0_u32..62).prop_map(|bits| 1 << bits), (0_u32..62).prop_map(|bits| -(1_i64 << bits))], 1..200),
            stay in prop::collection::vec(0_usize..200, 0..20), seed: u64,
        ) {
            let mut numbers = Numbers::default();
            near.iter().for_each(|number| numbers.add(*number));
            let stay: Vec<i64> = stay.into_iter().filter_map(|at| near.get(at).copied()).collect();
            stay.iter().for_each(|number| numbers.keep(*number));
            numbers.draw(seed);
            for number in &stay {
                prop_assert_eq!(numbers.of(*number), *number);
            }
            for a in &near {
                let x = numbers.of(*a);
                prop_assert_eq!(lengths(*a), lengths(x), "{} {}", a, x);
                prop_assert!(a.unsigned_abs() >= LEAST || *a == x);
                for b in &near {
                    prop_assert_eq!(a.cmp(b), x.cmp(&numbers.of(*b)), "{} {}", a, b);
                }
            }
        }
    }

    #[test]
    fn ids_change_and_a_full_range_has_nowhere_to_go() {
        let mut numbers = Numbers::default();
        (0..100).for_each(|id| numbers.add(100_004_523_453 + id * 7919));
        (2000..3000).for_each(|dense| numbers.add(dense));
        numbers.draw(1);
        assert!((0..100).all(|id| numbers.of(100_004_523_453 + id * 7919) != 100_004_523_453 + id * 7919));
        assert_eq!(numbers.of_digits("0100004523453"), None, "a text that no number is written as");
        assert!(numbers.of_digits("100004523453").is_some_and(|digits| digits.len() == 12));
        assert_eq!((numbers.of(999), numbers.of(5)), (999, 5));
    }
}
