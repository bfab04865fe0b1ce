//! What is done, and how often.

use std::time::Duration;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Insert,
    Update,
    Delete,
}

impl Operation {
    pub const ALL: [Operation; 3] = [Operation::Insert, Operation::Update, Operation::Delete];
    pub const NAMES: &[&str] = &["insert", "update", "delete"];

    /// The phase's name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The parameters, as numbers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub transactions: u64,
    pub rows: u64,
    pub tables: u64,
    pub databases: u64,
    pub threads: u64,
    pub shared: bool,
    pub value_bytes: usize,
    pub random_insert: bool,
    pub autoincrement: bool,
    pub prepared: bool,
    pub interval: Duration,
    pub checkpoint: bool,
}

impl Plan {
    /// How many groups of databases there are: one shared by all threads, or one for each.
    pub fn groups(&self) -> u64 {
        if self.shared { 1 } else { self.threads }
    }
}
