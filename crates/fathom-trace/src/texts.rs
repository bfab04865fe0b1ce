//! Statements by their texts, each written to a trace once.

use std::collections::HashMap;

use crate::error::TraceError;
use crate::format::Writer;
use crate::model::{Record, Statement};
use crate::sql::without_key;

/// Statement texts that are remembered. A program that writes its values into its SQL has no end of
/// texts; when there are this many they are forgotten and each is written once more.
const TEXTS_MAX: usize = 1 << 18;

/// The numbers of the texts that a trace holds.
#[derive(Default)]
pub(crate) struct Texts {
    known: HashMap<String, u32>,
    next: u32,
}

impl Texts {
    /// The number of a text, which is written to the trace if it is not remembered, without the key
    /// of an encrypted database.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn number(&mut self, sql: &str, writer: &mut Writer) -> Result<u32, TraceError> {
        if let Some(id) = self.known.get(sql) {
            return Ok(*id);
        }
        if self.known.len() >= TEXTS_MAX {
            self.known.clear();
        }
        let id = self.next;
        self.next += 1;
        self.known.insert(sql.to_owned(), id);
        let sql = without_key(sql).unwrap_or_else(|| sql.to_owned());
        writer.write(&Record::Statement(Statement { id, sql }))?;
        Ok(id)
    }
}
