//! What an imported trace does otherwise than its application did, because a log told the
//! statements and not their values.

use std::collections::HashMap;

use crate::model::{Action, Event, Origin, Statement, Step};
use crate::sql::{TokenKind, Verb, tokens};

/// Counts what an imported trace executes with parameters that were given no value, which are NULL
/// then. (What a captured application leaves unbound is its own NULL.)
#[derive(Debug, Default)]
pub struct UntoldValues {
    is_imported: bool,
    /// Statements with parameters, and whether they change rows.
    statements: HashMap<u32, bool>,
    /// Those of them that are prepared and have no value, by connection and handle.
    unbound: HashMap<(u32, u32), bool>,
    executions: u64,
    /// Executions that should change rows, and fail or change none.
    without_change: u64,
}

impl UntoldValues {
    /// Where the trace comes from.
    pub fn origin(&mut self, origin: &Origin) {
        self.is_imported = origin.how == "import";
    }

    /// A statement of the trace.
    pub fn statement(&mut self, statement: &Statement) {
        let sql = statement.sql.as_str();
        if self.is_imported
            && sql.contains(['?', ':', '@', '$'])
            && tokens(sql).any(|token| token.kind == TokenKind::Parameter)
        {
            self.statements.insert(statement.id, Verb::of(sql).changes_rows());
        }
    }

    /// A call of the trace.
    pub fn event(&mut self, event: &Event) {
        if self.statements.is_empty() {
            return;
        }
        match &event.action {
            Action::Prepare { handle, statement, .. } => {
                let place = (event.connection, *handle);
                match self.statements.get(statement) {
                    Some(changes_rows) => self.unbound.insert(place, *changes_rows),
                    None => self.unbound.remove(&place),
                };
            }
            Action::Bind { handle, .. } | Action::Finalize { handle } => {
                self.unbound.remove(&(event.connection, *handle));
            }
            Action::Step(step) => self.step(event.connection, step),
            _ => {}
        }
    }

    fn step(&mut self, connection: u32, step: &Step) {
        let Some(changes_rows) = self.unbound.get(&(connection, step.handle)) else { return };
        let is_without_change = step.outcome.is_error() || (step.is_counted && step.changes == 0);
        self.executions += u64::from(step.begins);
        self.without_change += u64::from(step.begins && *changes_rows && is_without_change);
    }

    /// What must be known of it; none where the trace has all values.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let none = match self.without_change {
            0 => String::new(),
            count => format!("; {count} that should change rows fail or change none"),
        };
        (self.executions > 0).then(|| {
            format!(
                "the log that was imported does not tell the values of {} executions: their parameters are NULL{none}. \
                 What is written and found is not what the application writes and finds: capture it, or import a log \
                 that has the values filled in",
                self.executions
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;

    fn told(how: &str, sql: &str, is_bound: bool, changes: u64) -> Option<String> {
        let mut values = UntoldValues::default();
        values.origin(&Origin { how: how.into(), ..Origin::default() });
        values.statement(&Statement { id: 3, sql: sql.into() });
        let (handle, outcome) = (1, Outcome::of(crate::model::OK));
        let mut actions = vec![Action::Prepare { handle, statement: 3, outcome: outcome.clone() }];
        if is_bound {
            actions.push(Action::Bind { handle, index: 1, value: crate::model::Value::Null });
        }
        actions.push(Action::Step(Step {
            handle,
            begins: true,
            is_counted: true,
            rows: 0,
            changes,
            in_transaction: false,
            outcome,
        }));
        for action in actions {
            values.event(&Event { thread: 0, connection: 0, start_ns: 0, duration_ns: 0, action });
        }
        values.sentence()
    }

    /// What happened: a log of Hibernate's has no values, all of its inserts failed for want of
    /// them, and advice on the trace did not say a word of it.
    #[test]
    fn values_that_a_log_does_not_tell_are_missed() {
        let update = "UPDATE t SET a = ? WHERE b = :b";
        let sentence = told("import", update, false, 0).expect("told");
        assert!(
            sentence.contains("of 1 executions") && sentence.contains("1 that should change"),
            "{sentence}"
        );
        let sentence = told("import", update, false, 1).expect("told");
        assert!(!sentence.contains("should change"), "{sentence}");
        let sentence = told("import", "SELECT a FROM t WHERE b = ?", false, 0).expect("told");
        assert!(!sentence.contains("should change"), "{sentence}");
        assert_eq!(told("import", update, true, 0), None);
        assert_eq!(told("import", "UPDATE t SET a = '?' WHERE b = ':b'", false, 0), None);
        assert_eq!(told("capture", update, false, 0), None);
    }
}
