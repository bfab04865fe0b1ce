//! What the application did, commit by commit, and what the database held after each.

use std::collections::HashMap;

use fathom_random::Random;
use fathom_trace::confine::ConfinedConnection;
use rusqlite::Connection;
use rusqlite::fallible_iterator::FallibleIterator;
use serde::{Deserialize, Serialize};

use crate::content::content_of;
use crate::error::CutError;
use crate::random::stream;
use crate::verdict::Verdict;

/// Rows that every commit's updates choose among.
pub(crate) const ACCOUNTS: u64 = 40;
/// Of which each changes so many.
pub(crate) const CHANGED: u64 = 4;

/// The SQL of a run: its first step makes the tables, and each commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Statements of each step; a step commits once, at its end.
    pub steps: Vec<String>,
}

impl Script {
    /// The built-in work: each commit adds a row of some hundred bytes, changes four of forty
    /// others that lie on several pages, and from the thirtieth on removes one, so that a commit of
    /// which a page is missing does not look like any other.
    #[must_use]
    pub fn built_in(commits: u64, seed: u64) -> Script {
        let rows: Vec<String> = (0..ACCOUNTS)
            .map(|account| {
                let name = text(&mut stream(&[seed, account]), 300);
                // One row a statement: several came with SQLite 3.7.11.
                format!("INSERT INTO account VALUES ({account}, 0, '{name}')")
            })
            .collect();
        let first = format!(
            "BEGIN; CREATE TABLE account(id INTEGER PRIMARY KEY, changed INTEGER, name TEXT); \
             CREATE TABLE entry(id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX by_body ON entry(body); \
             {}; COMMIT",
            rows.join("; ")
        );
        let commit = |number: u64| {
            let random = &mut stream(&[seed, number, 7]);
            let bytes = 40 + random.below(600);
            let body = text(random, bytes);
            let accounts: Vec<String> = (0..CHANGED).map(|_| random.below(ACCOUNTS).to_string()).collect();
            let removed = number.checked_sub(30).map(|old| format!("DELETE FROM entry WHERE id = {old}; "));
            format!(
                "BEGIN; INSERT INTO entry VALUES({number}, '{body}'); \
                 UPDATE account SET changed = {number} WHERE id IN ({}); {}COMMIT",
                accounts.join(", "),
                removed.unwrap_or_default()
            )
        };
        Script { steps: std::iter::once(first).chain((1..=commits).map(commit)).collect() }
    }
}

pub(crate) fn text(random: &mut Random, bytes: u64) -> String {
    (0..bytes).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// Steps of SQLite's virtual machine that a statement may take when it is done again in memory.
const STEPS_MAX: u64 = 1_000_000_000;

/// A database in memory, whose statements reach nothing else: those of a recording or a trace are
/// other people's.
pub(crate) fn confined() -> rusqlite::Result<ConfinedConnection> {
    Ok(ConfinedConnection::over(Connection::open_in_memory()?).limit_steps(STEPS_MAX))
}

/// Does the statements of a step.
pub(crate) fn execute(database: &ConfinedConnection, step: &str) -> rusqlite::Result<()> {
    let mut statements = rusqlite::Batch::new(database, step);
    loop {
        database.begin_statement();
        let Some(mut statement) = statements.next()? else { return Ok(()) };
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
    }
}

/// What the database holds after each step, found by doing them in memory.
#[derive(Clone, Debug)]
pub struct AcknowledgedContents {
    /// The steps after which it holds this, in order; 0: nothing was done yet.
    after: HashMap<u128, Vec<u64>>,
    /// What it holds at the end.
    last: u128,
}

impl AcknowledgedContents {
    /// Does the steps in memory.
    ///
    /// # Errors
    /// SQLite's, of a step that it does not take.
    pub fn of(script: &Script) -> Result<AcknowledgedContents, CutError> {
        let database = confined().map_err(CutError::database("a database in memory"))?;
        let mut after: HashMap<u128, Vec<u64>> = HashMap::new();
        let hash = || content_of(&database).map_err(CutError::database("a database in memory"));
        let mut last = hash()?;
        after.entry(last).or_default().push(0);
        for (number, step) in (1..).zip(&script.steps) {
            execute(&database, step).map_err(|error| CutError::Database {
                what: format!("step {number}"),
                problem: match (database.take_refusal(), database.steps_exceeded()) {
                    (Some(refusal), _) => refusal,
                    (None, Some(most)) => {
                        format!("a statement is not done after {most} steps of SQLite's virtual machine")
                    }
                    (None, None) => error.to_string(),
                },
            })?;
            last = hash()?;
            after.entry(last).or_default().push(number);
        }
        Ok(AcknowledgedContents { after, last })
    }

    /// Of contents that are known: what is there before the first step, and after each.
    #[must_use]
    pub(crate) fn of_contents(all: &[u128]) -> AcknowledgedContents {
        let mut after: HashMap<u128, Vec<u64>> = HashMap::new();
        for (step, content) in (0..).zip(all) {
            after.entry(*content).or_default().push(step);
        }
        AcknowledgedContents { after, last: all.last().copied().unwrap_or_default() }
    }

    /// Whether a database in which all of the script was done holds what it holds in memory.
    #[must_use]
    pub fn ends_with(&self, content: u128) -> bool {
        self.last == content
    }

    /// Judges a content by the number of steps that had been acknowledged. One step more may have
    /// been under way; none that came after it can have left anything.
    #[must_use]
    pub fn judge(&self, content: u128, acknowledged: u64) -> Verdict {
        let Some(steps) = self.after.get(&content) else {
            return Verdict::Corrupt(
                "integrity_check finds nothing, and the rows are those of no commit: some of one and not all"
                    .into(),
            );
        };
        // Of steps that leave the same, the most favourable.
        match steps.iter().rfind(|&&step| step <= acknowledged + 1) {
            Some(&step) if step >= acknowledged => Verdict::Kept,
            Some(&step) => Verdict::Lost(acknowledged - step),
            None => Verdict::Corrupt(format!(
                "the rows are those of commit {}, which had not begun when commit {acknowledged} was the last one acknowledged",
                steps[0]
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(script: &Script) -> Vec<u128> {
        let database = Connection::open_in_memory().unwrap();
        let mut all = vec![content_of(&database).unwrap()];
        for step in &script.steps {
            database.execute_batch(step).unwrap();
            all.push(content_of(&database).unwrap());
        }
        all
    }

    #[test]
    fn every_commit_is_told_from_every_other_and_from_half_of_one() {
        let script = Script::built_in(60, 1);
        let all = contents(&script);
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        for (step, &content) in (0..).zip(&all) {
            assert_eq!(acknowledged.judge(content, step), Verdict::Kept);
            assert_eq!(acknowledged.judge(content, step + 1), Verdict::Lost(1));
            assert_eq!(acknowledged.judge(content, step + 9), Verdict::Lost(9));
            if step > 0 {
                assert_eq!(acknowledged.judge(content, step - 1), Verdict::Kept, "it was under way");
            }
            if step > 1 {
                assert!(matches!(acknowledged.judge(content, step - 2), Verdict::Corrupt(_)), "invented");
            }
        }
        // A statement of the last commit that is missing.
        let last = script.steps.last().unwrap();
        for part in ["INSERT INTO entry", "UPDATE account", "DELETE FROM entry"] {
            let statements: Vec<&str> = last.split("; ").filter(|value| !value.starts_with(part)).collect();
            let half =
                Script { steps: script.steps[..60].iter().cloned().chain([statements.join("; ")]).collect() };
            let content = *contents(&half).last().unwrap();
            assert!(matches!(acknowledged.judge(content, 61), Verdict::Corrupt(_)), "{part}");
        }
    }

    #[test]
    fn a_step_that_changes_nothing_is_not_missed() {
        let script = Script {
            steps: ["CREATE TABLE t(a)", "INSERT INTO t VALUES(1)", "DELETE FROM t WHERE a > 5"]
                .map(String::from)
                .to_vec(),
        };
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        let all = contents(&script);
        assert_eq!(acknowledged.judge(all[2], 3), Verdict::Kept);
        assert_eq!(acknowledged.judge(all[1], 3), Verdict::Lost(2));
    }
}
