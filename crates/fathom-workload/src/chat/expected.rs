//! What the table must hold: the generator's rows, and what was done to them.

use std::collections::{HashMap, HashSet};

use super::message::{COLUMNS, Message, Messages};
use crate::engine::Value;

/// The table as it must be.
pub struct ExpectedTable {
    /// The stream from its start.
    start: Messages,
    /// The stream after the last inserted row.
    rest: Messages,
    /// Rows ever inserted; their keys are 1 to this.
    inserted: u64,
    /// How often `chat_id` grew by 10, by key.
    chat_ids: HashMap<i64, i64>,
    /// How often `is_temp` grew by 10, by key.
    is_temps: HashMap<i64, i64>,
    deleted: HashSet<i64>,
}

impl ExpectedTable {
    /// An empty table, to be filled from this stream.
    pub fn new(messages: Messages) -> Self {
        ExpectedTable {
            start: messages.clone(),
            rest: messages,
            inserted: 0,
            chat_ids: HashMap::new(),
            is_temps: HashMap::new(),
            deleted: HashSet::new(),
        }
    }

    /// The next row to insert: all columns but the key, which the database gives.
    pub fn insert(&mut self) -> Option<Vec<Value>> {
        let message = self.rest.next()?;
        self.inserted += 1;
        Some(message.values().into_iter().skip(1).collect())
    }

    /// `chat_id` of this row grew by 10.
    pub fn move_chat(&mut self, key: i64) {
        *self.chat_ids.entry(key).or_default() += 1;
    }

    /// `is_temp` of this row grew by 10.
    pub fn raise_temp(&mut self, key: i64) {
        *self.is_temps.entry(key).or_default() += 1;
    }

    /// This row was deleted.
    pub fn delete(&mut self, key: i64) {
        self.deleted.insert(key);
    }

    /// Number of rows ever inserted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.inserted - self.deleted.len() as u64
    }

    /// All rows in the order of their keys.
    pub fn all(&self) -> impl Iterator<Item = [Value; COLUMNS]> {
        self.start
            .clone()
            .take(self.inserted as usize)
            .filter(|message| !self.deleted.contains(&message.key))
            .map(|message| self.changed(message).values())
    }

    fn changed(&self, mut message: Message) -> Message {
        message.chat_id += 10 * self.chat_ids.get(&message.key).copied().unwrap_or(0);
        message.is_temp += 10 * self.is_temps.get(&message.key).copied().unwrap_or(0);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_show_in_the_rows() {
        let mut expected = ExpectedTable::new(Messages::new(1, 5, 1.0));
        let first = expected.insert().expect("endless");
        expected.insert().expect("endless");
        expected.insert().expect("endless");
        assert_eq!(expected.all().next().expect("a row")[1..], first);
        expected.move_chat(1);
        expected.move_chat(1);
        expected.raise_temp(3);
        expected.delete(2);
        let rows: Vec<_> = expected.all().collect();
        assert_eq!((rows.len(), expected.rows(), expected.inserted()), (2, 2, 3));
        let number = |value: &Value| match value {
            Value::Integer(number) => *number,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(&rows[0][3]) - number(&first[2]), 20);
        assert_eq!((number(&rows[1][0]), number(&rows[1][8])), (3, 10));
    }
}
