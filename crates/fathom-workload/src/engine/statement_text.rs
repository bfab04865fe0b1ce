//! What is kept of a statement's text, where statements are kept.

use fathom_probe::statement_number;
use fathom_trace::sql::shape;

/// Letters of it, at most.
const LETTERS: usize = 160;

/// The number of a statement's text without its values, which are the application's users'; none
/// where no statements are kept.
pub(crate) fn number_of(sql: &str) -> Option<u32> {
    statement_number(|| shape(sql, LETTERS))
}
