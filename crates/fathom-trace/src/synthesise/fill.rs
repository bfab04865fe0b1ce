//! Databases at the start: their schema and rows, made by their profile.

use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;

use super::expression::{Counters, Scope, Source};
use super::profile::{Database, Profile, scaled};
use crate::error::TraceError;
use crate::model::Value;
use fathom_random::Random;

/// Wall clock at a trace's time 0, ms since 1970: a day of 2014, when the papers' phones were in
/// use.
pub(super) const BASE_MS: i64 = 1_400_000_000_000;

/// The numbers of all rows at the start.
pub(super) fn counters(profile: &Profile, scale_percent: u32) -> Counters {
    let mut counters = Counters::default();
    for fill in profile.databases.iter().flat_map(|database| &database.fill) {
        if let Some(name) = &fill.counter {
            let rows = if fill.fixed { i64::from(fill.rows) } else { scaled(fill.rows, scale_percent) };
            counters.set(name, rows);
        }
    }
    counters
}

/// What is wrong with a profile: a mistake in this crate, told like any other error.
pub(super) fn mistake(profile: &Profile, place: &str, problem: impl std::fmt::Display) -> TraceError {
    TraceError::refused(format!("profile {}, {place}", profile.name), problem.to_string())
}

/// Makes one of the profile's databases: the same rows for the same seed and scale.
pub(super) fn fill(
    profile: &Profile,
    database: &Database,
    seed: u64,
    scale_percent: u32,
    connection: &Connection,
) -> Result<(), TraceError> {
    let wrong = |problem: &dyn std::fmt::Display| mistake(profile, &database.name, problem);
    connection.execute_batch(&database.schema).map_err(|error| wrong(&error))?;
    let mut counters = counters(profile, scale_percent);
    for (number, fill) in (0..).zip(&database.fill) {
        let mut random = Random::stream(seed, &database.name, number);
        let rows = if fill.fixed { i64::from(fill.rows) } else { scaled(fill.rows, scale_percent) };
        connection.execute_batch("BEGIN").map_err(|error| wrong(&error))?;
        let mut insert = connection.prepare(&fill.sql).map_err(|error| wrong(&error))?;
        let names = parameters(&insert);
        for row in 1..=rows {
            let mut source = Source {
                random: &mut random,
                counters: &mut counters,
                values: &profile.values,
                seed,
                now_ms: BASE_MS,
                row,
            };
            let scope = Scope::new(&fill.values, None);
            for (index, name) in (1..).zip(&names) {
                let value = scope.value(name, &mut source).map_err(|problem| wrong(&problem))?;
                insert.raw_bind_parameter(index, BoundValue(&value)).map_err(|error| wrong(&error))?;
            }
            insert.raw_execute().map_err(|error| wrong(&error))?;
        }
        drop(insert);
        connection.execute_batch("COMMIT").map_err(|error| wrong(&error))?;
    }
    Ok(())
}

/// The names of a statement's parameters, without their colons, in order.
pub(super) fn parameters(statement: &rusqlite::Statement<'_>) -> Vec<String> {
    (1..=statement.parameter_count())
        .map(|index| statement.parameter_name(index).unwrap_or(":").trim_start_matches(':').to_owned())
        .collect()
}

/// A value as rusqlite takes it.
pub(super) struct BoundValue<'a>(pub &'a Value);

impl rusqlite::ToSql for BoundValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        use rusqlite::types::{Value as Owned, ValueRef};
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Owned(Owned::Null),
            Value::Integer(number) => ToSqlOutput::Owned(Owned::Integer(*number)),
            Value::Real(number) => ToSqlOutput::Owned(Owned::Real(*number)),
            Value::Text(bytes) => ToSqlOutput::Borrowed(ValueRef::Text(bytes)),
            Value::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Value::ZeroBlob(bytes) => ToSqlOutput::Owned(Owned::Blob(vec![0; *bytes as usize])),
        })
    }
}
