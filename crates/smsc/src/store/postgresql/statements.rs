//! The centre's transactions, statement by statement.

use super::wire::{Parameter, Row, Wire, oid, parameter};
use crate::centre::{Operation, Outcome, Rules};
use crate::model::{Columns, Index, Kind, Record, StationKey, Table, Value};
use crate::store::sql::{range_sql, update_sql, upsert};
use crate::transaction::{StoreError, Transaction};
use std::collections::HashMap;

/// Statements that the server has prepared for this conversation, by their text.
#[derive(Default)]
pub(super) struct PreparedStatements(HashMap<String, String>);

/// Runs an operation as a transaction; again if the server says that it would have deadlocked.
pub(super) fn run(
    wire: &mut Wire,
    prepared: &mut PreparedStatements,
    operation: &mut Operation,
    rules: &Rules,
) -> Result<Outcome, StoreError> {
    loop {
        let mut tx = StatementTransaction { wire, prepared };
        tx.execute("BEGIN", &[], &[], &mut |_| Ok(()))?;
        let done = operation.apply(&mut tx, rules).and_then(|outcome| {
            tx.execute("COMMIT", &[], &[], &mut |_| Ok(()))?;
            Ok(outcome)
        });
        match done {
            Ok(outcome) => return Ok(outcome),
            Err(error) => {
                tx.execute("ROLLBACK", &[], &[], &mut |_| Ok(()))?;
                if !retryable(&error) {
                    return Err(error);
                }
            }
        }
    }
}

/// Deadlock or serialization failure.
pub(super) fn retryable(error: &StoreError) -> bool {
    matches!(error, StoreError::Postgresql { sqlstate, .. } if sqlstate == "40P01" || sqlstate == "40001")
}

struct StatementTransaction<'a> {
    wire: &'a mut Wire,
    prepared: &'a mut PreparedStatements,
}

impl StatementTransaction<'_> {
    fn execute(
        &mut self,
        sql: &str,
        types: &[u32],
        values: &[Value<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let parameters: Vec<Parameter<'_>> = values.iter().map(|value| parameter(*value)).collect();
        if let Some(name) = self.prepared.0.get(sql) {
            self.wire.execute(name, &parameters)?;
        } else {
            let name = format!("s{}", self.prepared.0.len());
            self.wire.prepare(&name, sql, types)?;
            self.wire.execute(&name, &parameters)?;
            self.prepared.0.insert(sql.to_owned(), name);
        }
        self.wire.sync();
        self.wire.until_ready(each)
    }

    /// Runs a statement with values of a table's columns.
    fn on_columns(
        &mut self,
        sql: &str,
        table: &Table,
        columns: impl Iterator<Item = usize>,
        values: &[Value<'_>],
        each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let types: Vec<u32> = columns
            .map(|at| match table.columns[at].kind {
                Kind::Text(_) => oid::TEXT,
                Kind::Bytes(_) => oid::BYTEA,
                _ => oid::INT8,
            })
            .collect();
        self.execute(sql, &types, values, each)
    }

    fn write<R: Record>(&mut self, sql: &str, row: &R) -> Result<(), StoreError> {
        let columns = 0..R::TABLE.columns.len();
        row.with_values(|values| self.on_columns(sql, R::TABLE, columns, values, &mut |_| Ok(())))
    }
}

fn places(count: usize) -> String {
    (1..=count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", ")
}

fn by_key(table: &Table) -> String {
    let key = table.indexes[0].columns.iter().zip(1..);
    key.map(|(&at, place)| format!("{} = ${place}", table.columns[at].name)).collect::<Vec<_>>().join(" AND ")
}

impl Transaction for StatementTransaction<'_> {
    fn lock(&mut self, station: StationKey) -> Result<(), StoreError> {
        let key = [Value::Int(station.0)];
        self.execute(
            "SELECT 1 FROM pg_advisory_xact_lock(smsc_lock($1))",
            &[oid::INT8],
            &key,
            &mut |_| Ok(()),
        )
    }

    fn try_lock(&mut self, station: StationKey) -> Result<bool, StoreError> {
        let key = [Value::Int(station.0)];
        let mut locked = false;
        self.execute(
            "SELECT pg_try_advisory_xact_lock(smsc_lock($1))::int",
            &[oid::INT8],
            &key,
            &mut |row| {
                locked = row.int(0)? != 0;
                Ok(())
            },
        )?;
        Ok(locked)
    }

    fn next_id(&mut self) -> Result<i64, StoreError> {
        let mut id = 0;
        self.execute("SELECT nextval('msg_id_seq')", &[], &[], &mut |row| {
            id = row.int(0)?;
            Ok(())
        })?;
        Ok(id)
    }

    fn get<R: Record>(&mut self, key: &[Value<'_>]) -> Result<Option<R>, StoreError> {
        let sql = format!("SELECT * FROM {} WHERE {}", R::TABLE.name, by_key(R::TABLE));
        let mut found = None;
        let columns = R::TABLE.indexes[0].columns.iter().copied();
        self.on_columns(&sql, R::TABLE, columns, key, &mut |row| {
            found = Some(R::read(&row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn range<R: Record>(
        &mut self,
        index: &'static Index,
        from: &[Value<'_>],
        to: &[Value<'_>],
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        let sql = range_sql(R::TABLE, index, (from.len(), to.len()), |at| format!("${}", at + 1));
        let values: Vec<Value<'_>> =
            from.iter().chain(to).copied().chain([Value::Int(limit as i64)]).collect();
        let kind = |value: &Value<'_>| match value {
            Value::Int(_) => oid::INT8,
            Value::Text(_) => oid::TEXT,
            Value::Bytes(_) => oid::BYTEA,
        };
        let types: Vec<u32> = values.iter().map(kind).collect();
        let mut found = Vec::new();
        self.execute(&sql, &types, &values, &mut |row| {
            found.push(R::read(&row)?);
            Ok(())
        })?;
        Ok(found)
    }

    fn insert<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let sql = format!("INSERT INTO {} VALUES ({})", R::TABLE.name, places(R::TABLE.columns.len()));
        self.write(&sql, row)
    }

    fn put<R: Record>(&mut self, row: &R) -> Result<(), StoreError> {
        let sql = upsert(R::TABLE, &places(R::TABLE.columns.len()));
        self.write(&sql, row)
    }

    fn update<R: Record>(
        &mut self,
        key: &[Value<'_>],
        set: &[(usize, Value<'_>)],
    ) -> Result<bool, StoreError> {
        let mut sql = update_sql(R::TABLE, set.iter().map(|change| change.0), |at| format!("${}", at + 1));
        sql.push_str(" RETURNING 1");
        let columns = set.iter().map(|change| change.0).chain(R::TABLE.indexes[0].columns.iter().copied());
        let values: Vec<Value<'_>> = set.iter().map(|change| change.1).chain(key.iter().copied()).collect();
        let mut there = false;
        self.on_columns(&sql, R::TABLE, columns, &values, &mut |_| {
            there = true;
            Ok(())
        })?;
        Ok(there)
    }

    fn delete<R: Record>(&mut self, key: &[Value<'_>]) -> Result<bool, StoreError> {
        let sql = format!("DELETE FROM {} WHERE {} RETURNING 1", R::TABLE.name, by_key(R::TABLE));
        let mut there = false;
        let columns = R::TABLE.indexes[0].columns.iter().copied();
        self.on_columns(&sql, R::TABLE, columns, key, &mut |_| {
            there = true;
            Ok(())
        })?;
        Ok(there)
    }
}
