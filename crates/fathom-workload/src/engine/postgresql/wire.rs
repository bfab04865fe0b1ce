//! A connection as the engine uses it: one statement at a time, results as text, which is what most
//! clients of applications do.

use std::path::Path;
use std::sync::Arc;

use postgresql_server::connection::{
    Address, Answer, Connection, ConnectionError, Format, Parameter, Row, Socket,
};
use postgresql_server::{DISK_FULL as SQLSTATE_FULL, is_want_state};

use crate::engine::{DISK_FULL, EngineError, MACHINE, Value};

/// A statement that the server has prepared.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    /// Number of parameters.
    pub parameters: usize,
    /// Type OIDs of the result's columns.
    pub columns: Vec<u32>,
}

/// One connection to the server.
pub(super) struct Wire(Connection);

impl Wire {
    /// Opens a connection with the server on `socket`, as `user` with `database`.
    pub fn open(socket: &Path, user: &str, database: &str) -> Result<Self, ConnectionError> {
        let socket = Arc::new(Socket::connect(Address::Unix(socket))?);
        Ok(Wire(Connection::open(socket, user, None, database, "fathom")?))
    }

    /// Runs a script of statements, with `on_row` for each row.
    pub fn script(&mut self, sql: &str, mut on_row: impl FnMut(&Row)) -> Result<(), ConnectionError> {
        self.0.script(sql)?;
        self.0.until_ready(&mut |answer| {
            if let Answer::Row(row) = answer {
                on_row(&row);
            }
            Ok(())
        })
    }

    /// Has the server prepare a statement under `name`; it finds the parameters' types.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<Description, ConnectionError> {
        self.0.prepare(name, sql, &[])?;
        self.0.describe(name)?;
        self.0.sync();
        let mut description = Description::default();
        self.0.until_ready(&mut |answer| {
            match answer {
                Answer::Parameters(types) => description.parameters = types.len(),
                Answer::Columns(types) => description.columns = types,
                _ => {}
            }
            Ok::<_, ConnectionError>(())
        })?;
        Ok(description)
    }

    /// Executes a prepared statement with `on_row` for each row. Gives the number of rows it
    /// returned, and the number it changed.
    pub fn execute(
        &mut self,
        name: &str,
        params: &[Value],
        mut on_row: impl FnMut(&Row),
    ) -> Result<(u64, u64), ConnectionError> {
        let texts: Vec<Option<String>> = params.iter().map(number_text).collect();
        let parameters: Vec<Parameter<'_>> = params.iter().zip(&texts).map(parameter).collect();
        self.0.execute(name, &parameters, Format::Text)?;
        self.0.sync();
        let (mut rows, mut changed) = (0, 0);
        self.0.until_ready(&mut |answer| {
            match answer {
                Answer::Row(row) => {
                    rows += 1;
                    on_row(&row);
                }
                Answer::Done(count) => changed = count,
                _ => {}
            }
            Ok::<_, ConnectionError>(())
        })?;
        Ok((rows, changed))
    }

    /// Says goodbye.
    pub fn close(self) -> Result<(), ConnectionError> {
        self.0.close()
    }
}

/// What the server refused, or a connection that broke.
pub(super) fn failed(subject: String, error: &ConnectionError) -> EngineError {
    let code = match error {
        ConnectionError::Refused { sqlstate, .. } if sqlstate == SQLSTATE_FULL => DISK_FULL,
        ConnectionError::Refused { sqlstate, .. } if is_want_state(sqlstate) => MACHINE,
        ConnectionError::Silent(_) => MACHINE,
        _ => 0,
    };
    EngineError { subject, message: error.to_string(), code }
}

/// A number as PostgreSQL reads it.
fn number_text(value: &Value) -> Option<String> {
    match value {
        Value::Integer(value) => Some(value.to_string()),
        Value::Real(value) if value.is_infinite() => {
            Some(if *value < 0.0 { "-Infinity" } else { "Infinity" }.into())
        }
        Value::Real(value) => Some(value.to_string()),
        Value::Null | Value::Text(_) | Value::Blob(_) => None,
    }
}

/// A value, or a number's text.
fn parameter<'a>((value, text): (&'a Value, &'a Option<String>)) -> Parameter<'a> {
    match (value, text) {
        (_, Some(number)) => Parameter::Text(number),
        (Value::Text(text), _) => Parameter::Text(text),
        (Value::Blob(octets), _) => Parameter::Bytes(octets),
        _ => Parameter::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sent_as_the_server_reads_them() {
        for (value, text) in [
            (Value::Integer(-5), Some("-5")),
            (Value::Real(f64::INFINITY), Some("Infinity")),
            (Value::Real(f64::NEG_INFINITY), Some("-Infinity")),
            (Value::Real(f64::NAN), Some("NaN")),
            (Value::Real(0.1), Some("0.1")),
            (Value::Null, None),
            (Value::Text("5".into()), None),
        ] {
            assert_eq!(number_text(&value).as_deref(), text, "{value:?}");
        }
    }
}
