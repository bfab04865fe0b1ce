//! What is done to the file, and in which order.

use fathom_random::Random;

/// A pass over the file, one of Mobibench's access modes (`-a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Rewrites the existing file from its start to its end (`-a 0`).
    Write,
    /// Rewrites the existing file's records in random order (`-a 1`).
    RandomWrite,
    /// Reads the file from its start to its end (`-a 2`).
    Read,
    /// Reads the file's records in random order (`-a 3`).
    RandomRead,
    /// Removes the file and writes it anew, growing, from its start to its end (`-a 4`).
    Append,
}

impl Access {
    /// The accesses' names, in Mobibench's order.
    pub const NAMES: &'static [&'static str] = &["write", "random-write", "read", "random-read", "append"];

    /// The access of this name, which is one of [`Access::NAMES`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "write" => Access::Write,
            "random-write" => Access::RandomWrite,
            "read" => Access::Read,
            "random-read" => Access::RandomRead,
            "append" => Access::Append,
            _ => return None,
        })
    }

    /// Its name, which is its phase's.
    #[must_use]
    pub fn name(self) -> &'static str {
        Access::NAMES[self as usize]
    }

    /// Whether it changes the file.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Access::Read | Access::RandomRead)
    }

    /// The numbers of the records in the order in which they are visited, as many as the file has.
    ///
    /// Random order visits each once; with an overlap (`-v`), that share of the visits goes to
    /// records that are visited anyway, and as many others are left out.
    #[must_use]
    pub fn order(self, records: u64, overlap_percent: u64, random: &mut Random) -> Vec<u64> {
        let mut order: Vec<u64> = (0..records).collect();
        if matches!(self, Access::RandomWrite | Access::RandomRead) {
            random.shuffle(&mut order);
            let repeated = (records * overlap_percent / 100) as usize;
            let different = order.len() - repeated;
            for place in different..order.len() {
                order[place] = order[random.below(different as u64) as usize];
            }
            random.shuffle(&mut order);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_accesses_are_one_to_one() {
        for &name in Access::NAMES {
            assert_eq!(Access::from_name(name).map(Access::name), Some(name));
        }
        assert_eq!(Access::from_name("rewrite"), None);
    }

    #[test]
    fn sequential_orders_are_sequential() {
        for access in [Access::Write, Access::Read, Access::Append] {
            assert_eq!(access.order(5, 50, &mut Random::new(1)), [0, 1, 2, 3, 4]);
        }
    }

    proptest! {
        #[test]
        fn random_order_visits_each_record_once(seed: u64, records in 1_u64..500) {
            let mut order = Access::RandomWrite.order(records, 0, &mut Random::new(seed));
            prop_assert!(records < 20 || order.windows(2).any(|pair| pair[0] > pair[1]));
            order.sort_unstable();
            prop_assert_eq!(order, (0..records).collect::<Vec<_>>());
        }

        #[test]
        fn overlap_repeats_its_share(seed: u64, records in 1_u64..500, percent in 0_u64..=99) {
            let order = Access::RandomRead.order(records, percent, &mut Random::new(seed));
            let different: HashSet<u64> = order.iter().copied().collect();
            prop_assert_eq!(order.len() as u64, records);
            prop_assert_eq!(different.len() as u64, records - records * percent / 100);
        }
    }
}
