//! What a power cut may take with a setting that syncs its log at checkpoints alone, and how many
//! transactions of a recording write: from the calls on files that its executions made.

use serde::Serialize;

use super::Candidate;
use super::logs::{DatabaseLogs, LogSyncs};
use super::values::LONG_LOG;
use crate::store::{Results, StoreError};

/// Bytes before each page in the log.
const FRAME_HEADER: u64 = 24;

/// SQLite's own length of a log, pages.
const USUAL_LOG: u64 = 1000;

/// Commits that a power cut may take: those since the last sync of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// At the most so many: the longest run of commits without a sync; where nothing makes them
    /// safe in the recording, as many as fill the log.
    pub commits: u64,
    /// Whether that is all that the recording has, and a longer session would lose more of it.
    pub is_all: bool,
    /// Whether it may be more: there are several databases, the executions do not tell whose a
    /// checkpoint is, and it is taken for all.
    pub is_least: bool,
}

/// What the executions of a recorded setting did, counted once, in the first good run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writing {
    /// Executions that wrote to a file, and what made them safe, as if all were of one database.
    syncs: LogSyncs,
    /// Pages that were written into the log.
    log_pages: u64,
    /// Whether it has several databases, each with a log of its own.
    has_several: bool,
    /// Each by itself, where there are several and every execution tells its own.
    logs: Option<DatabaseLogs>,
}

impl Writing {
    /// Of a cell; none where not all executions of its phase were kept.
    ///
    /// # Errors
    /// A file that was damaged after it was opened.
    pub fn of(
        results: &Results,
        cell: i64,
        phase: &str,
        page_size: u32,
    ) -> Result<Option<Writing>, StoreError> {
        let Some(run) = results.good_runs(cell).next().map(|run| run.id) else { return Ok(None) };
        let samples = results.samples(run, phase)?;
        let calls: Vec<(u64, u64)> =
            samples.iter().map(|sample| (sample.split.write_calls, sample.split.sync_calls)).collect();
        let of_phase = results.phases.iter().filter(|of| of.run == run && of.summary.phase == phase);
        let executed = of_phase.map(|of| of.summary.count).sum();
        let of_log = results.io.iter().filter(|io| io.run == run && io.row.phase == phase);
        let bytes: u64 =
            of_log.filter(|io| io.row.class == "wal" && io.row.op == "write").map(|io| io.row.bytes).sum();
        let frame_bytes = u64::from(page_size) + FRAME_HEADER;
        let kept = Writing::of_kept(&calls, executed, bytes / frame_bytes);
        let checks = results.verified.iter().filter(|check| check.run == run);
        let has_several = has_several_databases(checks.map(|check| check.text.as_str()));
        let logs = if has_several { DatabaseLogs::of(&samples, frame_bytes) } else { None };
        Ok(kept.map(|writing| Writing { has_several, logs, ..writing }))
    }

    /// Of so many executions what is known of those that were kept. Of a part of them nothing is:
    /// between two that were kept others have written, and synced.
    fn of_kept(calls: &[(u64, u64)], executed: u64, log_pages: u64) -> Option<Writing> {
        let is_whole = !calls.is_empty() && calls.len() as u64 == executed;
        is_whole.then(|| Writing::of_calls(calls, log_pages))
    }

    /// Of the writes and syncs that each execution called, in their order.
    fn of_calls(calls: &[(u64, u64)], log_pages: u64) -> Writing {
        let mut syncs = LogSyncs::default();
        calls.iter().filter(|calls| calls.0 > 0).for_each(|calls| syncs.take(calls.1));
        Writing { log_pages, syncs, ..Writing::default() }
    }

    /// Executions that wrote to a file.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.syncs.commits
    }

    /// What may be lost of them with settings under which a commit syncs nothing.
    #[must_use]
    pub fn loss(&self, candidate: &Candidate) -> Loss {
        let room = candidate.log().filter(|pages| *pages > 0);
        if let Some(logs) = &self.logs {
            let (commits, is_all) = logs.loss(room);
            return Loss { commits, is_all, is_least: false };
        }
        let is_least = self.has_several;
        if self.syncs.is_made_safe() {
            return Loss { commits: self.syncs.longest, is_all: false, is_least };
        }
        // So many commits fill the log, by the pages that each of them has written.
        let filling = room.filter(|_| self.log_pages > 0);
        let filling = filling.map(|pages| (pages * self.transactions()).div_ceil(self.log_pages));
        Loss { commits: filling.unwrap_or(0).max(self.syncs.longest), is_all: true, is_least }
    }

    /// Whether the length of the log can matter: it was as long as that, or as SQLite's own, once;
    /// of one that is longer than the long one that is tried before it, as long as that.
    #[must_use]
    pub fn is_log_felt(&self, candidate: &Candidate) -> bool {
        let own = candidate.log().filter(|pages| *pages > 0).unwrap_or(USUAL_LOG);
        let shorter = if own > LONG_LOG { LONG_LOG } else { own.min(USUAL_LOG) };
        self.log_pages >= shorter
    }
}

/// Whether the replay of a cell's runs left several databases that hold something. Whether a
/// connection had more than one of them at a time, nobody can tell from that.
#[must_use]
pub fn has_several_files(results: &Results, cell: i64) -> bool {
    results.good_runs(cell).next().is_some_and(|run| {
        let checks = results.verified.iter().filter(|check| check.run == run.id);
        has_several_databases(checks.map(|check| check.text.as_str()))
    })
}

/// Whether the checks after a replay are of several databases that hold something: each is looked
/// at by itself.
fn has_several_databases<'a>(checks: impl Iterator<Item = &'a str>) -> bool {
    checks.filter(|check| check.ends_with(": integrity_check ok")).count() > 1
}

impl Candidate {
    /// At how many pages its log is checkpointed; none where that is no number.
    #[must_use]
    pub(super) fn log(&self) -> Option<u64> {
        self.more.get("wal_autocheckpoint").map_or(Some(USUAL_LOG), |pages| pages.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads, writes without a sync, the sync of a new log's header, and checkpoints.
    fn calls(words: &str) -> Vec<(u64, u64)> {
        let of = |word| match word {
            'r' => (0, 0),
            'w' => (2, 0),
            'h' => (3, 1),
            _ => (9, 2),
        };
        words.chars().map(of).collect()
    }

    /// What happened: `wal_autocheckpoint 4000` was named for a 2 % gain with WAL/NORMAL, and nobody
    /// was told that a power cut may take all commits of the session then, in place of two thirds.
    #[test]
    fn commits_since_the_last_sync_of_the_log_may_be_lost() {
        let normal = Candidate::new("wal", "normal");
        let all = Writing::of_calls(&calls("hwrwwchwwwwcrhw"), 12);
        let expected = Loss { commits: 5, is_all: false, is_least: false };
        assert_eq!((all.transactions(), all.loss(&normal)), (13, expected));
        // No checkpoint: ten commits, each of two pages, and the log has room for a thousand.
        let none = Writing::of_calls(&calls("hwwwwwrrwwww"), 20);
        assert_eq!(none.loss(&normal), Loss { commits: 500, is_all: true, is_least: false });
        assert_eq!(none.loss(&normal.with("wal_autocheckpoint", "4000")).commits, 2000);
        assert_eq!(none.loss(&normal.with("wal_autocheckpoint", "0")).commits, 10);
        // Closed again and again.
        let closed = Writing::of_calls(&calls(&"hrwr".repeat(50)), 200);
        assert_eq!(closed.loss(&normal), Loss { commits: 2, is_all: false, is_least: false });
    }

    /// What happened: one of two databases was checkpointed after each ten commits, so "up to 10
    /// commits" was told of both, and the other one, which nothing had ever synced, lost 400.
    #[test]
    fn of_several_databases_it_may_be_more() {
        let of = |checks: &[&str]| has_several_databases(checks.iter().copied());
        assert!(of(&["a.db: integrity_check ok", "a.db holds 1 (.sha3sum)", "b.db: integrity_check ok"]));
        assert!(!of(&["a.db: integrity_check ok", "b.db is empty", "9 executions returned …"]));
        let normal = Candidate::new("wal", "normal");
        let several = Writing { has_several: true, ..Writing::of_calls(&calls("hwwwwcww"), 12) };
        assert_eq!(several.loss(&normal), Loss { commits: 5, is_all: false, is_least: true });
        let none = Writing { has_several: true, ..Writing::of_calls(&calls("ww"), 4) };
        assert!(none.loss(&normal).is_least && none.loss(&normal).is_all);
    }

    /// What happened: of a long trace every second, fourth … execution is kept, and those were
    /// counted as if they were all: commits that may be lost by half, and flushes of one that
    /// writes twice.
    #[test]
    fn a_part_of_the_executions_tells_nothing_of_a_run_of_them() {
        let kept = calls("hwwcww");
        assert_eq!(Writing::of_kept(&kept, 6, 12).map(|all| all.transactions()), Some(6));
        assert_eq!(Writing::of_kept(&kept, 12, 12), None);
        assert_eq!(Writing::of_kept(&[], 0, 0), None);
    }

    #[test]
    fn the_length_of_a_log_is_felt_where_it_is_reached() {
        let log = |pages: &str| Candidate::new("wal", "full").with("wal_autocheckpoint", pages);
        let short = Writing::of_calls(&calls("cc"), 50);
        assert!(!short.is_log_felt(&log("4000")) && !short.is_log_felt(&log("100")));
        let long = Writing::of_calls(&calls("cc"), 400);
        assert!(long.is_log_felt(&log("100")) && !long.is_log_felt(&log("4000")));
        // One that 4000 pages are enough for has no use of more.
        let longer = Writing::of_calls(&calls("cc"), 3000);
        assert!(longer.is_log_felt(&log("4000")) && !longer.is_log_felt(&log("10000")));
        assert!(Writing::of_calls(&calls("cc"), 4000).is_log_felt(&log("10000")));
    }
}
