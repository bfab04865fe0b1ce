//! The table in the engine: made, filled, asked.

use super::error::wrong;
use super::expected::{ExpectedTable, Totals};
use super::record::FIELDS;
use crate::engine::{Connection, Dialect, Engine, Value};
use crate::workload::WorkloadError;

/// Name of the database.
pub const DATABASE: &str = "update";

/// INSERT of one record.
pub const INSERT: &str = "INSERT INTO records VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// The UPDATE of one record by key.
pub const UPDATE_POINT: &str = "UPDATE records SET salary = salary + 1 WHERE id = $1";

/// The UPDATE of a range of keys.
pub const UPDATE_RANGE: &str = "UPDATE records SET salary = salary + 1 WHERE id BETWEEN $1 AND $2";

/// The DELETE of one record by key.
pub const DELETE_POINT: &str = "DELETE FROM records WHERE id = $1";

/// The DELETE of a range of keys.
pub const DELETE_RANGE: &str = "DELETE FROM records WHERE id BETWEEN $1 AND $2";

/// Records of one loading INSERT. SQLite runs in this process, so one is best; a server costs a
/// round trip each.
fn load_batch(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Sqlite => 1,
        Dialect::Postgresql => 250,
    }
}

/// Makes the table called `name`. The key is an `INTEGER PRIMARY KEY` in SQLite, which makes it the
/// row's own number.
fn definition(name: &str, dialect: Dialect) -> String {
    let key = match dialect {
        Dialect::Sqlite => "INTEGER",
        Dialect::Postgresql => "BIGINT",
    };
    format!(
        "CREATE TABLE {name} (
            id {key} PRIMARY KEY,
            name VARCHAR(20) NOT NULL,
            department VARCHAR(10) NOT NULL,
            account VARCHAR(12) NOT NULL,
            phone VARCHAR(14) NOT NULL,
            hired BIGINT NOT NULL,
            salary DOUBLE PRECISION NOT NULL,
            bonus BIGINT NOT NULL
        )"
    )
}

/// Makes the table called `name` and inserts the first `rows` records, in one transaction.
pub fn load(
    connection: &mut dyn Connection,
    name: &str,
    dialect: Dialect,
    rows: i64,
    expected: &mut ExpectedTable,
) -> Result<(), WorkloadError> {
    connection.execute_script("BEGIN")?;
    connection.execute_script(&definition(name, dialect))?;
    let batch = load_batch(dialect);
    let mut left = rows as usize;
    let mut prepared = None;
    while left > 0 {
        let count = left.min(batch);
        let statement = match prepared {
            Some((statement, size)) if size == count => statement,
            _ => {
                let statement = connection.prepare(&insert_of(name, count))?;
                prepared = Some((statement, count));
                statement
            }
        };
        let values: Vec<Value> = (0..count).flat_map(|_| expected.append()).collect();
        let inserted = connection.execute(statement, &values)?;
        if inserted != count as u64 {
            return Err(wrong(format!("loading inserted {inserted} records instead of {count}")));
        }
        left -= count;
    }
    connection.execute_script("COMMIT")?;
    Ok(())
}

/// INSERT of `count` records.
fn insert_of(name: &str, count: usize) -> String {
    let rows: Vec<String> = (0..count)
        .map(|row| {
            let params: Vec<String> =
                (1..=FIELDS).map(|field| format!("${}", row * FIELDS + field)).collect();
            format!("({})", params.join(", "))
        })
        .collect();
    format!("INSERT INTO {name} VALUES {}", rows.join(", "))
}

/// Checks number of rows and sums against what must be there.
pub fn check_totals(connection: &mut dyn Connection, must: Totals) -> Result<(), WorkloadError> {
    let statement = connection.prepare(
        "SELECT count(*), CAST(coalesce(sum(id), 0) AS BIGINT), CAST(coalesce(sum(bonus), 0) AS BIGINT),
                CAST(coalesce(sum(salary), 0) AS DOUBLE PRECISION) FROM records",
    )?;
    let mut found = None;
    connection.query(statement, &[], &mut |row| {
        if let [Value::Integer(rows), Value::Integer(ids), Value::Integer(bonuses), Value::Real(salaries)] =
            *row
        {
            found = Some(Totals { rows, ids, bonuses, salaries });
        }
    })?;
    if found == Some(must) {
        Ok(())
    } else {
        Err(wrong(format!("the table holds {found:?} instead of {must:?}")))
    }
}

/// Checks every field of every row from `first` on.
pub fn check_rows(
    connection: &mut dyn Connection,
    expected: &ExpectedTable,
    first: i64,
) -> Result<(), WorkloadError> {
    let statement = connection.prepare("SELECT * FROM records WHERE id >= $1 ORDER BY id")?;
    let mut position = first as usize - 1;
    let mut problem = None;
    connection.query(statement, &[Value::Integer(first)], &mut |row| {
        if problem.is_none() {
            let must = expected.row(position);
            if must.as_ref().is_none_or(|must| must != row) {
                problem = Some(format!("row {} is {row:?} instead of {must:?}", position + 1));
            }
        }
        position += 1;
    })?;
    if let Some(problem) = problem {
        return Err(wrong(problem));
    }
    if position as i64 != expected.len() {
        let (is, must) = (position as i64 - first + 1, expected.len() - first + 1);
        return Err(wrong(format!("there are {is} rows from id {first} on instead of {must}")));
    }
    Ok(())
}

/// Runs SQLite's `integrity_check`; gives whether the engine has one.
pub fn check_integrity(engine: &dyn Engine, connection: &mut dyn Connection) -> Result<bool, WorkloadError> {
    if engine.dialect() != Dialect::Sqlite {
        return Ok(false);
    }
    let statement = connection.prepare("PRAGMA integrity_check")?;
    let mut report = Vec::new();
    connection.query(statement, &[], &mut |row| report.extend_from_slice(row))?;
    if report == [Value::Text("ok".into())] {
        Ok(true)
    } else {
        Err(wrong(format!("integrity_check: {report:?}")))
    }
}
