//! Which statements a trace prepares more than once, so that a reader can forget the texts of the
//! others: a program that writes its values into its SQL has no end of texts.

use std::collections::HashMap;
use std::path::Path;

use crate::error::TraceError;
use crate::format::Reader;
use crate::model::{Action, Event, Record};

/// Two bits for each statement: never prepared, once, more often.
#[derive(Debug, Default)]
pub struct PreparationCounts {
    bits: Vec<u64>,
    /// Words of numbers that are far beyond the count of preparations: the numbers are the file's,
    /// and one of 2^32 must not cost a gibibyte.
    far: HashMap<usize, u64>,
    added: usize,
}

/// Words that a preparation may add: statements are numbered as they come, and not all of them need
/// be prepared.
const NEAR: usize = 4;

impl PreparationCounts {
    /// Reads a trace to its end, or to where it is damaged.
    ///
    /// # Errors
    /// A file that is no trace, or of another version.
    pub fn read(path: &Path) -> Result<PreparationCounts, TraceError> {
        let mut prepared = PreparationCounts::default();
        for record in Reader::open(path)?.map_while(Result::ok) {
            if let Record::Event(Event { action: Action::Prepare { statement, .. }, .. }) = record {
                prepared.add(statement);
            }
        }
        Ok(prepared)
    }

    /// Counts a preparation.
    pub fn add(&mut self, statement: u32) {
        let (word, shift) = (statement as usize / 32, statement % 32 * 2);
        self.added += 1;
        let is_near = word < self.bits.len() || word <= self.added.saturating_mul(NEAR);
        // A word that was far stays so, though others beyond it came near meanwhile.
        let bits = if is_near && !self.far.contains_key(&word) {
            if self.bits.len() <= word {
                self.bits.resize(word + 1, 0);
            }
            &mut self.bits[word]
        } else {
            self.far.entry(word).or_default()
        };
        // 00, 01, 11.
        *bits |= (*bits >> shift & 1) << (shift + 1) | 1 << shift;
    }

    /// Whether a statement is prepared at all.
    #[must_use]
    pub fn has(&self, statement: u32) -> bool {
        self.at(statement) != 0
    }

    /// Whether a statement is prepared more than once.
    #[must_use]
    pub fn is_repeated(&self, statement: u32) -> bool {
        self.at(statement) == 3
    }

    fn at(&self, statement: u32) -> u64 {
        let (word, shift) = (statement as usize / 32, statement % 32 * 2);
        let far = self.far.get(&word).copied().unwrap_or(0);
        (self.bits.get(word).copied().unwrap_or(0) | far) >> shift & 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of 181 bytes with the statement number 4294967295 took a gibibyte, because the
    /// numbers were places in one row of bits.
    #[test]
    fn numbers_of_any_size_are_counted_in_memory_that_grows_with_the_preparations() {
        let numbers: Vec<u32> = (0..4000_u32)
            .map(|at| if at % 3 == 0 { at / 2 } else { at.wrapping_mul(0x9e37_79b9) | 1 })
            .collect();
        let (mut prepared, mut counts) = (PreparationCounts::default(), HashMap::<u32, u32>::new());
        for number in numbers.iter().chain(&numbers[..2000]).chain(&[u32::MAX, u32::MAX, 900, 130_000, 900]) {
            prepared.add(*number);
            *counts.entry(*number).or_default() += 1;
        }
        for (number, count) in &counts {
            assert_eq!(
                (prepared.has(*number), prepared.is_repeated(*number)),
                (true, *count > 1),
                "{number}"
            );
        }
        assert!(!prepared.has(u32::MAX - 1) && !prepared.has(7_000_000));
        assert!(prepared.bits.len() <= prepared.added * NEAR + 1 && prepared.far.len() <= prepared.added);
    }

    #[test]
    fn preparations_are_counted_as_none_one_or_more() {
        let mut prepared = PreparationCounts::default();
        for statement in [0, 31, 32, 31, 1000, 1000, 1000] {
            prepared.add(statement);
        }
        let repeated: Vec<u32> = (0..2000).filter(|number| prepared.is_repeated(*number)).collect();
        let known: Vec<u32> = (0..2000).filter(|number| prepared.has(*number)).collect();
        assert_eq!((repeated, known), (vec![31, 1000], vec![0, 31, 32, 1000]));
    }
}
