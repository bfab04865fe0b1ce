//! Checks of the work, outside the timed window.

use fathom_ground::fnv::{EMPTY, fnv1a};

use super::content::{Content, write_value};
use super::plan::Plan;
use super::sql;
use crate::engine::{Dialect, Engine, Value};
use crate::sample::Sink;
use crate::workload::WorkloadError;

/// Compares every row of every table with what it must hold. Says how many rows there are and a
/// checksum of them, which is the same for every engine and setting under the same seed and
/// parameters.
pub(super) fn contents(
    plan: &Plan,
    engine: &dyn Engine,
    phase: &str,
    contents: &[Content],
    sink: &mut dyn Sink,
) -> Result<(), WorkloadError> {
    let mut rows_checked = 0;
    let mut checksum = Checksum::default();
    for group in 0..plan.groups() {
        for database in 0..plan.databases as usize {
            let name = sql::database_name(group, database);
            let mut connection = engine.connect(&name)?;
            for table in 0..plan.tables as usize {
                let owners = contents.iter().filter(|content| plan.shared || content.thread() == group);
                let mut expected: Vec<_> = owners.flat_map(|owner| owner.expected(database, table)).collect();
                expected.sort_unstable();
                let table_name = sql::table_name(0, table);
                let select =
                    connection.prepare(&format!("SELECT id, Value FROM {table_name} ORDER BY id"))?;
                let mut expected = expected.into_iter();
                let mut text = String::new();
                let mut wrong = None;
                let rows = connection.query(select, &[], &mut |row| {
                    let found = match row {
                        [Value::Integer(id), Value::Text(value)] => Some((*id, value)),
                        _ => None,
                    };
                    let must = expected.next();
                    text.clear();
                    if let Some((_, key)) = must {
                        write_value(key, plan.value_bytes, &mut text);
                    }
                    checksum.add(text.as_bytes());
                    if wrong.is_none() && found != must.map(|(id, _)| (id, &text)) {
                        wrong = Some(match must {
                            Some((id, _)) => format!("row {id} should be there with `{text}`, found {row:?}"),
                            None => format!("found a row that should not be there: {row:?}"),
                        });
                    }
                })?;
                rows_checked += rows;
                let wrong = wrong.or_else(|| expected.next().map(|(id, _)| format!("row {id} is missing")));
                if let Some(wrong) = wrong {
                    let place = format!("after {phase}, {table_name} of database {name}");
                    return Err(WorkloadError::Verification(format!("{place}: {wrong}")));
                }
            }
            connection.close()?;
        }
    }
    sink.verified(format!("{phase}: all {rows_checked} rows as they must be, checksum {:016x}", checksum.0));
    Ok(())
}

/// Has SQLite check the structure of every database; PostgreSQL has no such statement of its own.
pub(super) fn integrity(plan: &Plan, engine: &dyn Engine, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
    if engine.dialect() != Dialect::Sqlite {
        return Ok(());
    }
    for group in 0..plan.groups() {
        for database in 0..plan.databases as usize {
            let name = sql::database_name(group, database);
            let mut connection = engine.connect(&name)?;
            let check = connection.prepare("PRAGMA integrity_check")?;
            let mut answers = Vec::new();
            connection.query(check, &[], &mut |row| answers.push(row[0].clone()))?;
            if answers != [Value::Text("ok".into())] {
                return Err(WorkloadError::Verification(format!("integrity_check of {name}: {answers:?}")));
            }
            connection.close()?;
        }
    }
    sink.verified("integrity_check ok".into());
    Ok(())
}

/// FNV-1a over 64 bits: enough to tell two runs apart, and the same everywhere.
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(EMPTY)
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = fnv1a(fnv1a(self.0, bytes), &[0xff]);
    }
}
