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

/// Writes a whole transaction as one text, as the original does.
pub(super) fn write_transaction(
    operation: Operation,
    changes: &[Change],
    value_bytes: usize,
    text: &mut String,
) {
    text.clear();
    text.push_str("BEGIN;");
    for change in changes {
        let Change { database, table, id, key } = *change;
        // Writing to a String cannot fail.
        let name = |text: &mut String| {
            let _ = if database == 0 {
                write!(text, "tblMyList{table}")
            } else {
                write!(text, "db{database}.tblMyList{table}")
            };
        };
        match operation {
            Operation::Insert => {
                text.push_str("INSERT INTO ");
                name(text);
                let _ = write!(text, "(id,Value) VALUES({id},'");
                write_value(key, value_bytes, text);
                text.push_str("');");
            }
            Operation::Update => {
                text.push_str("UPDATE ");
                name(text);
                text.push_str(" SET Value = '");
                write_value(key, value_bytes, text);
                let _ = write!(text, "' WHERE id = {id};");
            }
            Operation::Delete => {
                text.push_str("DELETE FROM ");
                name(text);
                let _ = write!(text, " WHERE id={id};");
            }
        }
    }
    text.push_str("COMMIT;");
}
