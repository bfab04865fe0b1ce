//! Which statements a trace prepares more than once, so that a reader can forget the texts of the others: a program that writes its values
//! into its SQL has no end of texts.

use std::path::Path;

use crate::error::TraceError;
use crate::format::Reader;
use crate::model::{Action, Event, Record};

/// Two bits for each statement: never prepared, once, more often.
#[derive(Debug, Default)]
pub struct Prepared {
    bits: Vec<u64>,
}

impl Prepared {
    /// Reads a trace to its end, or to where it is damaged.
    ///
    /// # Errors
    /// A file that is no trace, or of another version.
    pub fn read(path: &Path) -> Result<Prepared, TraceError> {
        let mut prepared = Prepared::default();
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
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        // 00, 01, 11.
        self.bits[word] |= (self.bits[word] >> shift & 1) << (shift + 1) | 1 << shift;
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
        self.bits.get(statement as usize / 32).map_or(0, |word| word >> (statement % 32 * 2) & 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparations_are_counted_as_none_one_or_more() {
        let mut prepared = Prepared::default();
        for statement in [0, 31, 32, 31, 1000, 1000, 1000] {
            prepared.add(statement);
        }
        let repeated: Vec<u32> = (0..2000).filter(|it| prepared.is_repeated(*it)).collect();
        let known: Vec<u32> = (0..2000).filter(|it| prepared.has(*it)).collect();
        assert_eq!((repeated, known), (vec![31, 1000], vec![0, 31, 32, 1000]));
    }
}
