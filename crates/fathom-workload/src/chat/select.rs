//! The scans, each with cold caches.

use super::error::wrong;
use super::message::COLUMN_NAMES;
use super::table::DATABASE;
use crate::cold::ColdCaches;
use crate::engine::{Connection, Engine, Statement, Value};
use crate::recorder::{Phase, Unit};
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// One of the paper's SELECTs.
struct Select {
    phase: &'static str,
    /// Number of columns where the phase has several.
    x: Option<f64>,
    sql: String,
}

/// All SELECTs, in the order of the paper's figure.
fn selects() -> Vec<Select> {
    let mut all = vec![
        Select { phase: "select-asc", x: None, sql: "SELECT * FROM chat_logs".into() },
        Select { phase: "select-desc", x: None, sql: "SELECT * FROM chat_logs ORDER BY rowid DESC".into() },
    ];
    for columns in 1..=COLUMN_NAMES.len() {
        all.push(Select {
            phase: "select-columns",
            x: Some(columns as f64),
            sql: format!("SELECT {} FROM chat_logs ORDER BY rowid DESC", COLUMN_NAMES[..columns].join(", ")),
        });
    }
    all
}

/// Times every SELECT `queries` times. The progress goes from `done` on by `share`.
pub fn run(
    engine: &dyn Engine,
    rows: u64,
    queries: u64,
    sink: &mut dyn Sink,
    done: f64,
    share: f64,
) -> Result<(), WorkloadError> {
    let selects = selects();
    let steps = selects.len() as f64;
    let mut caches = ColdCaches::default();
    for (step, select) in selects.into_iter().enumerate() {
        let mut phase = Phase::begin(select.phase, select.x, Unit::Query);
        let mut lane = phase.lane(0, queries as usize);
        for _ in 0..queries {
            let (mut connection, statement) =
                phase.excluded(|| open_cold(engine, &select.sql, &mut caches))?;
            let found = lane.time(|| connection.drain(statement, &[]).map(|(rows, _)| rows))?;
            if found != rows {
                return Err(wrong(format!("`{}` gave {found} rows instead of {rows}", select.sql)));
            }
            phase.add_lock_waits(connection.lock_waits());
            phase.excluded(|| connection.close())?;
        }
        phase.end(vec![lane], sink);
        sink.progress(done + share * (step as f64 + 1.0) / steps);
    }
    check_plans(engine, sink)?;
    caches.report("select", "queries", sink);
    sink.verified(format!("select: every query gave {rows} rows"));
    Ok(())
}

/// Empties every cache, then connects and prepares: only the schema has been read again when the
/// clock starts.
fn open_cold(
    engine: &dyn Engine,
    sql: &str,
    caches: &mut ColdCaches,
) -> Result<(Box<dyn Connection>, Statement), WorkloadError> {
    caches.empty(engine)?;
    let mut connection = engine.connect(DATABASE)?;
    let statement = connection.prepare(sql)?;
    Ok((connection, statement))
}

/// Says how SQLite executes the scans; one that does not read the table itself would measure
/// something else than the paper.
fn check_plans(engine: &dyn Engine, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
    let mut connection = engine.connect(DATABASE)?;
    for select in selects() {
        let statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", select.sql))?;
        let mut plan = Vec::new();
        connection.query(statement, &[], &mut |row| {
            if let Some(Value::Text(step)) = row.last() {
                plan.push(step.clone());
            }
        })?;
        // `SCAN chat_logs` since 3.36, `SCAN TABLE chat_logs` before.
        if !matches!(plan.as_slice(), [step] if step == "SCAN chat_logs" || step == "SCAN TABLE chat_logs") {
            sink.warning(format!("`{}` is not a plain scan of the table: {}", select.sql, plan.join("; ")));
        }
    }
    Ok(connection.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selects_are_the_papers() {
        let all = selects();
        assert_eq!(all.len(), 14);
        assert_eq!(all[2].sql, "SELECT _id FROM chat_logs ORDER BY rowid DESC");
        assert!(
            all[13]
                .sql
                .starts_with("SELECT _id, id, type, chat_id, user_id, message, attachment, created_at, ")
        );
        assert!(
            all[13]
                .sql
                .contains("is_temp, v, deleted_at, client_message_id FROM chat_logs ORDER BY rowid DESC")
        );
        assert_eq!(all[13].x, Some(12.0));
    }
}
