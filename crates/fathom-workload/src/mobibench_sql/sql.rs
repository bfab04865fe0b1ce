//! The statements of Mobibench, in an engine's dialect.

use std::fmt::Write;

use super::content::{Change, write_value};
use super::phase::Operation;
use crate::engine::Dialect;

/// The name of a thread's database: `mobibench-0`, and those attached to it `mobibench-0-1` …
pub(super) fn database_name(thread: u64, database: usize) -> String {
    if database == 0 { format!("mobibench-{thread}") } else { format!("mobibench-{thread}-{database}") }
}

/// The name under which a database is attached; empty with dot left out for the first.
pub(super) fn schema(database: usize) -> String {
    format!("db{database}")
}

/// A table's name in a connection.
pub(super) fn table_name(database: usize, table: usize) -> String {
    if database == 0 { format!("tblMyList{table}") } else { format!("{}.tblMyList{table}", schema(database)) }
}

/// Creates a table. SQLite takes `long` as it stands in the original (any name is a type there).
pub(super) fn create_table(dialect: Dialect, database: usize, table: usize) -> String {
    let long = match dialect {
        Dialect::Sqlite => "long",
        Dialect::Postgresql => "bigint",
    };
    let name = table_name(database, table);
    format!(
        "CREATE TABLE IF NOT EXISTS {name} (id INTEGER PRIMARY KEY, Value TEXT not null, creation_date {long})"
    )
}

/// A statement with parameters, in the order of [`super::phase`]'s binding: value before id in an update, as they stand.
pub(super) fn with_parameters(operation: Operation, database: usize, table: usize) -> String {
    let name = table_name(database, table);
    match operation {
        Operation::Insert => format!("INSERT INTO {name}(id,Value) VALUES($1,$2)"),
        Operation::Update => format!("UPDATE {name} SET Value = $1 WHERE id = $2"),
        Operation::Delete => format!("DELETE FROM {name} WHERE id = $1"),
    }
}

/// Writes whole transactions as one text each, as the original does. What never changes is written once.
pub(super) struct Texts {
    operation: Operation,
    value_bytes: usize,
    tables: usize,
    /// Per database and table, a statement's text up to its id or value.
    beginnings: Vec<String>,
    text: String,
}

impl Texts {
    pub fn new(operation: Operation, databases: usize, tables: usize, value_bytes: usize) -> Self {
        let beginning = |at: usize| {
            let name = table_name(at / tables, at % tables);
            match operation {
                Operation::Insert => format!("INSERT INTO {name}(id,Value) VALUES("),
                Operation::Update => format!("UPDATE {name} SET Value = '"),
                Operation::Delete => format!("DELETE FROM {name} WHERE id="),
            }
        };
        let beginnings = (0..databases * tables).map(beginning).collect();
        Texts { operation, value_bytes, tables, beginnings, text: String::new() }
    }

    /// The text of a transaction.
    pub fn of(&mut self, changes: &[Change]) -> &str {
        let text = &mut self.text;
        text.clear();
        text.push_str("BEGIN;");
        for &Change { database, table, id, key } in changes {
            text.push_str(&self.beginnings[database * self.tables + table]);
            // Writing to a String cannot fail.
            match self.operation {
                Operation::Insert => {
                    let _ = write!(text, "{id},'");
                    write_value(key, self.value_bytes, text);
                    text.push_str("');");
                }
                Operation::Update => {
                    write_value(key, self.value_bytes, text);
                    let _ = write!(text, "' WHERE id = {id};");
                }
                Operation::Delete => {
                    let _ = write!(text, "{id};");
                }
            }
        }
        text.push_str("COMMIT;");
        text
    }
}
