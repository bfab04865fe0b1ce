//! The table in the engine: made, filled, checked.

use super::error::wrong;
use super::expected::ExpectedTable;
use super::schema::{INSERT, SCHEMA};
use crate::engine::{Connection, Engine, Value};
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// Name of the database.
pub const DATABASE: &str = "chat";

/// Makes the table with its indexes and inserts the first `rows` messages, in one transaction. No
/// connection is open afterwards.
pub fn load(engine: &dyn Engine, rows: u64, expected: &mut ExpectedTable) -> Result<(), WorkloadError> {
    let mut connection = engine.connect(DATABASE)?;
    connection.execute_script("BEGIN")?;
    connection.execute_script(SCHEMA)?;
    let statement = connection.prepare(INSERT)?;
    for _ in 0..rows {
        let Some(values) = expected.insert() else { break };
        connection.execute(statement, &values)?;
    }
    connection.execute_script("COMMIT")?;
    count(&mut *connection, expected.rows())?;
    Ok(connection.close()?)
}

/// Checks the number of rows.
pub fn count(connection: &mut dyn Connection, must: u64) -> Result<(), WorkloadError> {
    let statement = connection.prepare("SELECT count(*) FROM chat_logs")?;
    let mut rows = Value::Null;
    connection.query(statement, &[], &mut |row| {
        if let [count] = row {
            rows = count.clone();
        }
    })?;
    if rows == Value::Integer(must as i64) {
        Ok(())
    } else {
        Err(wrong(format!("chat_logs has {rows:?} rows instead of {must}")))
    }
}

/// Checks every column of every row, and the file.
pub fn check(
    engine: &dyn Engine,
    expected: &ExpectedTable,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let mut connection = engine.connect(DATABASE)?;
    let statement = connection.prepare("SELECT * FROM chat_logs ORDER BY _id")?;
    let mut must = expected.all();
    let mut problem = None;
    connection.query(statement, &[], &mut |row| {
        if problem.is_none() {
            let wanted = must.next();
            if wanted.as_ref().is_none_or(|wanted| wanted != row) {
                problem = Some(format!("a row is {row:?} instead of {wanted:?}"));
            }
        }
    })?;
    if problem.is_none()
        && let Some(missing) = must.next()
    {
        problem = Some(format!("the row {missing:?} is missing"));
    }
    if let Some(problem) = problem {
        return Err(wrong(problem));
    }
    sink.verified(format!("all {} rows right, every column", expected.rows()));
    let statement = connection.prepare("PRAGMA integrity_check")?;
    let mut report = Vec::new();
    connection.query(statement, &[], &mut |row| report.extend_from_slice(row))?;
    if report != [Value::Text("ok".into())] {
        return Err(wrong(format!("integrity_check: {report:?}")));
    }
    sink.verified("integrity_check ok".into());
    Ok(connection.close()?)
}
