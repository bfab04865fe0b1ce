//! What one thread's rows must hold, and what its next transaction does to them.

use super::plan::{Operation, Plan};
use fathom_random::Random;

/// A value's number: its text is made from it (see [`write_value`]). 0 = the row is not there.
pub(super) type Key = u64;

const ABSENT: Key = 0;

/// The rows of one thread: all rows of its own databases, or its share of the shared ones.
pub(super) struct Content {
    thread: u64,
    /// Ids are `slot × stride + offset`: with shared databases thread t has every id that leaves t
    /// when divided by the number of threads, so that what a row must hold at the end never depends
    /// on which thread came last.
    stride: u64,
    offset: u64,
    /// Transactions of this thread in each phase.
    pub transactions: u64,
    /// Rows of this thread in each table before update and delete.
    pub rows: u64,
    tables: usize,
    /// Per table (all tables of database 0, then of database 1 …) and slot, the key of the value
    /// there.
    keys: Vec<Vec<Key>>,
    random: Random,
    /// Slots per database in the order in which this phase visits them, where that is drawn
    /// beforehand.
    order: Vec<Vec<u64>>,
}

/// One statement of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The database's number.
    pub database: usize,
    /// The table's number in it.
    pub table: usize,
    /// The row.
    pub id: i64,
    /// The new value (not of a delete).
    pub key: Key,
}

/// The share of `whole` that thread number `thread` of `threads` has.
fn share(whole: u64, thread: u64, threads: u64) -> u64 {
    whole / threads + u64::from(thread < whole % threads)
}

impl Content {
    pub fn new(plan: &Plan, seed: u64, thread: u64) -> Self {
        let rows = share(plan.rows, thread, plan.threads);
        let tables = plan.tables as usize;
        Content {
            thread,
            stride: if plan.shared { plan.threads } else { 1 },
            offset: if plan.shared { thread } else { 0 },
            transactions: share(plan.transactions, thread, plan.threads),
            rows,
            tables,
            keys: vec![vec![ABSENT; rows as usize]; tables * plan.databases as usize],
            random: Random::stream(seed, "mobibench-sql", thread),
            order: Vec::new(),
        }
    }

    pub fn thread(&self) -> u64 {
        self.thread
    }

    fn databases(&self) -> usize {
        self.keys.len() / self.tables
    }

    fn id(&self, slot: usize) -> i64 {
        i64::try_from(slot as u64 * self.stride + self.offset).unwrap_or(i64::MAX)
    }

    fn new_key(&mut self) -> Key {
        self.random.bits().max(1)
    }

    /// Draws what a phase needs to have drawn beforehand.
    pub fn prepare(&mut self, operation: Operation, random_insert: bool) {
        let bound = match operation {
            Operation::Insert if random_insert => self.transactions,
            Operation::Delete => self.rows,
            _ => {
                self.order.clear();
                return;
            }
        };
        let databases = self.databases();
        self.order = (0..databases).map(|_| self.random.distinct(self.transactions, bound)).collect();
    }

    /// The changes of transaction number `transaction` of a phase, into `changes`. What they leave
    /// is remembered, so the transaction must then be executed.
    pub fn change(&mut self, operation: Operation, transaction: u64, changes: &mut Vec<Change>) {
        changes.clear();
        for database in 0..self.databases() {
            for table in 0..self.tables {
                let slot = match (operation, self.order.get(database)) {
                    (Operation::Update, _) => self.random.below(self.rows),
                    (_, Some(order)) => order[transaction as usize],
                    (_, None) => transaction,
                } as usize;
                let key = if operation == Operation::Delete { ABSENT } else { self.new_key() };
                self.keys[database * self.tables + table][slot] = key;
                changes.push(Change { database, table, id: self.id(slot), key });
            }
        }
    }

    /// The inserts that fill every table up to its rows, and remembers them.
    pub fn fill(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for slot in 0..self.rows as usize {
            for at in 0..self.keys.len() {
                if self.keys[at][slot] == ABSENT {
                    let key = self.new_key();
                    self.keys[at][slot] = key;
                    let (database, table) = (at / self.tables, at % self.tables);
                    changes.push(Change { database, table, id: self.id(slot), key });
                }
            }
        }
        changes
    }

    /// The rows that a table must have: id and key, in order of id.
    pub fn expected(&self, database: usize, table: usize) -> impl Iterator<Item = (i64, Key)> + '_ {
        let keys = &self.keys[database * self.tables + table];
        keys.iter().enumerate().filter(|&(_, &key)| key != ABSENT).map(|(slot, &key)| (self.id(slot), key))
    }
}

/// Appends the text that belongs to `key`: `bytes` random letters, digits, `-` and `_` (six random
/// bits each), which need no quoting in SQL.
pub(super) fn write_value(key: Key, bytes: usize, text: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const PER_DRAW: usize = 10; // 64 bits give ten times six
    let mut random = Random::new(key);
    let mut left = bytes;
    while left > 0 {
        let mut bits = random.bits();
        for _ in 0..left.min(PER_DRAW) {
            text.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
        left -= left.min(PER_DRAW);
    }
}
