//! What is wrong with one key of a stack.

use std::fmt;

/// What is wrong with one key of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field of [`StackSpec`](super::StackSpec).
    pub field: &'static str,
    /// Which of the field's items, where it is a list; from 0.
    pub item: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// What would be right; may be empty.
    pub hint: String,
}

impl Problem {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Problem { field, item: None, problem: problem.into(), hint: hint.into() }
    }
}

impl fmt::Display for Problem {
    /// Problem and hint in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, ": {}", self.hint) }
    }
}
