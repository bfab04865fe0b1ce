//! What the application did, commit by commit, and what the database held after each.

use std::collections::{BTreeSet, HashMap};

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
    /// Statements of each step; a step commits once, at its end. Only the first may commit within.
    pub steps: Vec<String>,
    /// So many of them prepare what the others do: states are those after they were acknowledged.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub prepared: u64,
    /// Whether foreign keys are minded while they are done: what one statement deletes takes more
    /// with it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign_keys: bool,
    /// The steps behind which every connection was closed, and the database is opened anew: as the
    /// last one closes, SQLite copies the write-ahead log into the database.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub closes: BTreeSet<u64>,
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(number: &u64) -> bool {
    *number == 1
}

impl Script {
    /// Of steps of which the first prepares.
    #[must_use]
    pub fn of_steps(steps: Vec<String>) -> Script {
        Script { steps, prepared: 1, foreign_keys: false, closes: BTreeSet::new() }
    }

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
        Script::of_steps(std::iter::once(first).chain((1..=commits).map(commit)).collect())
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
///
/// A content is all that is known of a state, and steps that change nothing leave the same one: it
/// fits every step after which the database held it. So a commit is lost where the content is not
/// what it left, and one that left the rows as they were can be told from none. It is never counted
/// as lost, whether it wrote pages (`VACUUM`, rows that were changed and changed back) or none (a
/// DELETE that finds no row, which SQLite begins and ends as any commit).
#[derive(Clone, Debug)]
pub struct AcknowledgedContents {
    /// The steps after which it holds this, in order; 0: nothing was done yet.
    after: HashMap<u128, Vec<u64>>,
    /// Of the first so many steps (from none to all) how many changed what it holds.
    changed: Vec<u64>,
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
        let minds = database.pragma_update(None, "foreign_keys", script.foreign_keys);
        minds.map_err(CutError::database("foreign_keys"))?;
        let hash = || content_of(&database).map_err(CutError::database("a database in memory"));
        let mut all = vec![hash()?];
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
            all.push(hash()?);
        }
        Ok(AcknowledgedContents::of_contents(&all))
    }

    /// Of contents that are known: what is there before the first step, and after each.
    #[must_use]
    pub(crate) fn of_contents(all: &[u128]) -> AcknowledgedContents {
        let mut after: HashMap<u128, Vec<u64>> = HashMap::new();
        let mut changed = vec![0];
        for (step, content) in (0..).zip(all) {
            after.entry(*content).or_default().push(step);
        }
        for (before, content) in all.iter().zip(all.iter().skip(1)) {
            let so_far = changed.last().copied().unwrap_or_default();
            changed.push(so_far + u64::from(before != content));
        }
        AcknowledgedContents { after, changed, last: all.last().copied().unwrap_or_default() }
    }

    /// Whether a database in which all of the script was done holds what it holds in memory.
    #[must_use]
    pub fn ends_with(&self, content: u128) -> bool {
        self.last == content
    }

    /// Of the first so many steps how many changed the rows; one that is not known counts.
    fn changed_by(&self, steps: u64) -> u64 {
        let known = (self.changed.len() as u64).saturating_sub(1);
        let changed = usize::try_from(steps.min(known)).ok().and_then(|place| self.changed.get(place));
        changed.copied().unwrap_or_default() + steps.saturating_sub(known)
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
        // Of steps that leave the same, the most favourable: behind the last of them the fewest
        // commits are missing.
        match steps.iter().rfind(|&&step| step <= acknowledged + 1) {
            Some(&step) if step >= acknowledged => Verdict::Kept,
            Some(&step) => Verdict::Lost(self.changed_by(acknowledged) - self.changed_by(step)),
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
                Script::of_steps(script.steps[..60].iter().cloned().chain([statements.join("; ")]).collect());
            let content = *contents(&half).last().unwrap();
            assert!(matches!(acknowledged.judge(content, 61), Verdict::Corrupt(_)), "{part}");
        }
    }

    fn script(steps: &[&str]) -> Script {
        Script::of_steps(steps.iter().map(|step| (*step).to_owned()).collect())
    }

    /// What happened: of a trace with two DELETEs that find no row behind its tenth INSERT, "last 3
    /// commits lost (!)" was said of DELETE/FULL, which had lost the INSERT alone, as it may.
    #[test]
    fn a_commit_that_changes_nothing_is_not_counted_as_lost() {
        let script = script(&[
            "CREATE TABLE t(a)",
            "INSERT INTO t VALUES(1)",
            "DELETE FROM t WHERE a > 5",
            "BEGIN; INSERT INTO t VALUES(2); DELETE FROM t WHERE a = 2; COMMIT",
        ]);
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        let all = contents(&script);
        assert_eq!(acknowledged.judge(all[4], 4), Verdict::Kept);
        assert_eq!(acknowledged.judge(all[2], 4), Verdict::Kept, "the same rows");
        for steps in 2..=4 {
            assert_eq!(acknowledged.judge(all[1], steps), Verdict::Lost(1), "the INSERT, and nothing else");
            assert_eq!(acknowledged.judge(all[0], steps), Verdict::Lost(2), "and the table");
        }
        assert_eq!(acknowledged.judge(all[1], 5), Verdict::Lost(2), "a step that is not known");
    }

    /// Commits that are lost between such as change nothing: before, behind and around them.
    #[test]
    fn a_commit_that_is_lost_beside_one_that_changes_nothing_is_found() {
        use crate::cell::breaks;
        use fathom_workload::spec::Durability;
        let (nothing, other) = ("DELETE FROM t WHERE a < 0", "UPDATE t SET b = b");
        let script = script(&[
            "CREATE TABLE t(a, b)",
            nothing,
            "INSERT INTO t VALUES(1, 1)",
            other,
            nothing,
            "INSERT INTO t VALUES(2, 2)",
            nothing,
            other,
            "INSERT INTO t VALUES(3, 3); UPDATE t SET b = 9",
        ]);
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        let all = contents(&script);
        let judge = |content: usize, steps| acknowledged.judge(all[content], steps);
        // Lost behind commits that change nothing, at the end of the run.
        assert_eq!((judge(8, 9), judge(5, 9), judge(1, 9)), lost(1, 2, 3));
        // Lost before such, which were acknowledged after it.
        assert_eq!((judge(5, 8), judge(4, 7), judge(3, 6)), lost(1, 1, 1));
        // Lost between such.
        assert_eq!((judge(2, 8), judge(1, 6), judge(1, 5)), lost(2, 2, 1));
        for verdict in [judge(5, 8), judge(3, 6)] {
            assert!(breaks(Durability::PowerCut, &verdict), "every commit is promised: {verdict}");
            assert!(!breaks(Durability::PowerCutAllButLast, &verdict), "the last one is not: {verdict}");
        }
        for verdict in [judge(5, 9), judge(2, 8), judge(1, 6)] {
            assert!(breaks(Durability::PowerCutAllButLast, &verdict), "two of them: {verdict}");
        }
        // What had not begun, and half of a commit, are as wrong as ever.
        assert!(matches!(judge(6, 4), Verdict::Corrupt(_)) && matches!(judge(9, 7), Verdict::Corrupt(_)));
        assert_eq!(judge(6, 5), Verdict::Kept, "it was under way");
        let half = self::script(&["CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 1), (2, 2), (3, 3)"]);
        let half = contents(&half)[1];
        assert!(matches!(acknowledged.judge(half, 9), Verdict::Corrupt(_)));
    }

    fn lost(first: u64, second: u64, third: u64) -> (Verdict, Verdict, Verdict) {
        (Verdict::Lost(first), Verdict::Lost(second), Verdict::Lost(third))
    }

    /// Rows that come back: a content fits several moments, and the last of them that may be
    /// counts.
    #[test]
    fn rows_that_were_there_before_are_judged_by_the_most_favourable_moment() {
        let script = script(&[
            "CREATE TABLE t(a)",
            "INSERT INTO t VALUES(1)",
            "DELETE FROM t",
            "INSERT INTO t VALUES(2)",
            "INSERT INTO t VALUES(3)",
        ]);
        let acknowledged = AcknowledgedContents::of(&script).unwrap();
        let all = contents(&script);
        assert_eq!(all[1], all[3]);
        assert_eq!(acknowledged.judge(all[1], 1), Verdict::Kept);
        assert_eq!(acknowledged.judge(all[1], 2), Verdict::Kept, "the DELETE was under way");
        assert_eq!(acknowledged.judge(all[1], 3), Verdict::Kept);
        assert_eq!(acknowledged.judge(all[1], 4), Verdict::Lost(1), "and not three");
        assert_eq!(acknowledged.judge(all[2], 4), Verdict::Lost(2), "two of them changed the rows");
    }

    /// PostgreSQL, mmdb and the centre's stores, whose contents are known from elsewhere, are
    /// judged alike.
    #[test]
    fn contents_of_other_engines_are_judged_alike() {
        let acknowledged = AcknowledgedContents::of_contents(&[0, 1, 2, 2, 2, 3, 3]);
        assert_eq!(acknowledged.judge(1, 4), Verdict::Lost(1));
        assert_eq!(acknowledged.judge(2, 6), Verdict::Lost(1));
        assert_eq!(acknowledged.judge(1, 6), Verdict::Lost(2));
        assert_eq!(acknowledged.judge(3, 6), Verdict::Kept);
        assert!(matches!(acknowledged.judge(3, 3), Verdict::Corrupt(_)), "it had not begun");
    }
}
