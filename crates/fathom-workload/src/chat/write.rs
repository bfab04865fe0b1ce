//! UPDATE, INSERT and DELETE of single rows, each a transaction.

use super::error::wrong;
use super::expected::ExpectedTable;
use super::schema::INSERT;
use super::table::{self, DATABASE};
use crate::engine::{Engine, Value};
use crate::recorder::{Phase, Unit};
use crate::sample::Sink;
use crate::workload::WorkloadError;
use fathom_random::Random;

/// `SET col = col + 10` for `chat_id`, then on the same rows for `is_temp`.
pub fn updates(
    engine: &dyn Engine,
    writes: u64,
    seed: u64,
    expected: &mut ExpectedTable,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let (least, most) = bounds(engine)?;
    let mut random = Random::stream(seed, "chat update", 0);
    // With repetition, as random rowids are.
    let keys: Vec<i64> = (0..writes).map(|_| random.between(least, most)).collect();
    let params: Vec<Vec<Value>> = keys.iter().map(|&key| vec![Value::Integer(key)]).collect();
    for column in ["chat_id", "is_temp"] {
        let sql = format!("UPDATE chat_logs SET {column} = {column} + 10 WHERE rowid = $1");
        for &key in &keys {
            if column == "chat_id" { expected.move_chat(key) } else { expected.raise_temp(key) }
        }
        run(engine, &format!("update-{column}"), &sql, &params, expected, sink)?;
    }
    Ok(())
}

/// INSERT of the next messages.
pub fn inserts(
    engine: &dyn Engine,
    writes: u64,
    expected: &mut ExpectedTable,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let params: Vec<Vec<Value>> = (0..writes).map_while(|_| expected.insert()).collect();
    run(engine, "insert", INSERT, &params, expected, sink)
}

/// DELETE of random rows, each another.
pub fn deletes(
    engine: &dyn Engine,
    writes: u64,
    seed: u64,
    expected: &mut ExpectedTable,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let drawn = Random::stream(seed, "chat delete", 0).distinct(writes, expected.inserted());
    let keys: Vec<i64> = drawn.into_iter().map(|key| key as i64 + 1).collect();
    let params: Vec<Vec<Value>> = keys.iter().map(|&key| vec![Value::Integer(key)]).collect();
    keys.into_iter().for_each(|key| expected.delete(key));
    run(engine, "delete", "DELETE FROM chat_logs WHERE rowid = $1", &params, expected, sink)
}

/// Times the statement once for each set of parameters, each time changing one row; then counts the
/// table's rows.
fn run(
    engine: &dyn Engine,
    name: &str,
    sql: &str,
    params: &[Vec<Value>],
    expected: &ExpectedTable,
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let mut connection = engine.connect(DATABASE)?;
    let statement = connection.prepare(sql)?;
    let mut phase = Phase::begin(name, None, Unit::Transaction);
    let mut lane = phase.lane(0, params.len());
    for values in params {
        let changed = lane.time(|| connection.execute(statement, values))?;
        if changed != 1 {
            return Err(wrong(format!("{name} with {values:?} changed {changed} rows instead of 1")));
        }
    }
    phase.add_lock_waits(connection.lock_waits());
    phase.end(vec![lane], sink);
    table::count(&mut *connection, expected.rows())?;
    sink.verified(format!("{name}: {} statements changed one row each", params.len()));
    Ok(connection.close()?)
}

/// Least and greatest rowid.
fn bounds(engine: &dyn Engine) -> Result<(i64, i64), WorkloadError> {
    let mut connection = engine.connect(DATABASE)?;
    let statement = connection.prepare("SELECT min(rowid), max(rowid) FROM chat_logs")?;
    let mut bounds = None;
    connection.query(statement, &[], &mut |row| {
        if let [Value::Integer(least), Value::Integer(most)] = *row {
            bounds = Some((least, most));
        }
    })?;
    connection.close()?;
    bounds.ok_or_else(|| wrong("chat_logs is empty".into()))
}
