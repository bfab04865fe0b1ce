//! Bytes that a replay's statements change, from the trace itself: counting takes nothing of the
//! measured time.
//!
//! What counts is said in [`crate::changed`]: the values of an INSERT, UPDATE or DELETE that
//! changed rows, bound or literal in its text, once for each execution. That it changes the
//! captured number of rows again is what a replay checks. Where a trace does not tell changes (a
//! log, a script), every such execution that succeeded counts.

use std::collections::HashMap;

use fathom_trace::model::{Blob, BlobCall, DONE, Value};
use fathom_trace::sql::Verb;

use super::translate::{CallKind, PlacedCall};
use crate::changed::{integer_bytes, literal_bytes};

/// The statements that are prepared and change rows, by connection and handle.
#[derive(Default)]
pub struct Changes(HashMap<u32, HashMap<u32, Values>>);

/// What a statement's execution would write.
#[derive(Default)]
struct Values {
    literal_bytes: u64,
    /// Of each parameter, from 1.
    bound_bytes: Vec<u64>,
}

impl Changes {
    /// Takes note of a call, and gives the bytes that it changes.
    pub fn of(&mut self, made: &PlacedCall) -> u64 {
        let connection = self.0.entry(made.connection).or_default();
        match &made.kind {
            CallKind::Prepare { handle, sql, outcome } => {
                connection.remove(handle);
                if !outcome.is_error() && Verb::of(sql).changes_rows() {
                    let literal_bytes = literal_bytes(sql);
                    connection.insert(*handle, Values { literal_bytes, ..Values::default() });
                }
            }
            CallKind::Bind { handle, index, value } => {
                if let Some(values) = connection.get_mut(handle) {
                    let place = (*index as usize).saturating_sub(1);
                    // SQLite has at most 32,766 parameters (SQLITE_MAX_VARIABLE_NUMBER); what lies
                    // beyond fails in the replay.
                    if place < 1 << 15 {
                        if values.bound_bytes.len() <= place {
                            values.bound_bytes.resize(place + 1, 0);
                        }
                        values.bound_bytes[place] = bytes_of(value);
                    }
                }
            }
            CallKind::ClearBindings { handle } => {
                if let Some(values) = connection.get_mut(handle) {
                    values.bound_bytes.clear();
                }
            }
            CallKind::Step { step, .. } => {
                let changed = step.outcome.code == DONE && (!step.is_counted || step.changes > 0);
                if changed && let Some(values) = connection.get(&step.handle) {
                    return values.literal_bytes + values.bound_bytes.iter().sum::<u64>();
                }
            }
            CallKind::Finalize { handle } => drop(connection.remove(handle)),
            CallKind::Blob(Blob { call: BlobCall::Write { data, .. }, outcome, .. })
                if !outcome.is_error() =>
            {
                return data.len() as u64;
            }
            CallKind::Blob(_) => {}
            CallKind::Close => drop(self.0.remove(&made.connection)),
            CallKind::Open(_)
            | CallKind::Reset { .. }
            | CallKind::Script(_)
            | CallKind::Meaning { .. }
            | CallKind::Checkpoint(_)
            | CallKind::Attach { .. }
            | CallKind::Hold { .. }
            | CallKind::Release
            | CallKind::Rollback
            | CallKind::Refuse { .. } => {}
        }
        0
    }
}

fn bytes_of(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::Integer(number) => integer_bytes(*number),
        Value::Real(_) => 8,
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len() as u64,
        // SQLite takes no more, so a step that has more of them fails.
        Value::ZeroBlob(bytes) => (*bytes).min(i32::MAX as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::super::locks::Ties;
    use super::*;
    use fathom_trace::model::{Outcome, Step};

    fn step(handle: u32, is_counted: bool, changes: u64, code: i32) -> CallKind {
        let outcome = Outcome::of(code);
        let step =
            Step { handle, begins: true, is_counted, rows: 0, changes, in_transaction: false, outcome };
        CallKind::Step { step, is_checkpoint: false }
    }

    #[test]
    fn each_execution_that_changed_rows_counts_its_literals_and_what_is_bound_then() {
        let mut changes = Changes::default();
        let mut of = |connection, kind| {
            let ties = Ties::default();
            changes.of(&PlacedCall { number: 0, after: 0, ties, start_ns: 0, thread: 0, connection, kind })
        };
        let prepare =
            |handle, sql: &str| CallKind::Prepare { handle, sql: sql.into(), outcome: Outcome::of(0) };
        let bind = |index, value| CallKind::Bind { handle: 3, index, value };
        of(0, prepare(3, "INSERT INTO t VALUES (?, ?, 'four', 300)"));
        of(0, prepare(4, "SELECT 'not counted'"));
        of(1, prepare(3, "DELETE FROM t WHERE a = 70000"));
        of(0, bind(1, Value::Integer(128)));
        of(0, bind(2, Value::Text(b"twelve chars".to_vec())));
        assert_eq!(of(0, step(3, true, 1, DONE)), 4 + 2 + 2 + 12);
        of(0, CallKind::Reset { handle: 3 });
        of(0, bind(1, Value::Null));
        assert_eq!(of(0, step(3, true, 1, DONE)), 4 + 2 + 12, "the text is bound still");
        assert_eq!(of(0, step(3, true, 0, DONE)), 0, "it changed nothing");
        assert_eq!(of(0, step(3, true, 0, 19)), 0, "it failed");
        assert_eq!(of(0, step(3, false, 0, DONE)), 4 + 2 + 12, "a log does not tell changes");
        of(0, CallKind::ClearBindings { handle: 3 });
        of(0, bind(2, Value::ZeroBlob(1000)));
        assert_eq!(of(0, step(3, true, 1, DONE)), 4 + 2 + 1000);
        assert_eq!(of(0, step(4, true, 0, DONE)), 0);
        assert_eq!(of(1, step(3, true, 5, DONE)), 3, "another connection's statement with the same number");
        of(0, CallKind::Finalize { handle: 3 });
        assert_eq!(of(0, step(3, true, 1, DONE)), 0);
        of(1, CallKind::Close);
        assert!(!changes.0.contains_key(&1));
    }
}
