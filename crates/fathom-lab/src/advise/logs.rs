//! What a power cut may take of several databases: each has a log of its own, which its own
//! checkpoints make safe and no other's.

use std::collections::BTreeMap;

use fathom_probe::Split;
use fathom_workload::sample::Sample;

/// The logs of the databases that executions wrote to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DatabaseLogs {
    logs: Vec<DatabaseLog>,
    /// Commits that lay in all logs together without a sync, at the most.
    at_once: u64,
    /// Bytes of a page in a log, with its header.
    frame_bytes: u64,
}

/// The log of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DatabaseLog {
    syncs: LogSyncs,
    /// Bytes written, where there was no checkpoint: into the log alone.
    bytes: u64,
}

/// What syncs make safe of the commits in one log, which sync nothing themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LogSyncs {
    /// Commits.
    pub commits: u64,
    /// Those since the last sync.
    unsynced: u64,
    /// The longest run of those.
    pub longest: u64,
    has_checkpoint: bool,
    /// How often it began again though no commit had checkpointed it: the last connection to its
    /// database had been closed, which does that, or somebody had asked for it.
    closings: u64,
}

/// From so many closings on they are how the application works, and no set-up of its database.
const MANY_CLOSINGS: u64 = 9;

impl LogSyncs {
    /// Takes the next commit, which made so many calls of sync.
    pub fn take(&mut self, sync_calls: u64) {
        // As of one database. The header of a log that begins again is synced before its first
        // commit is there: what lay in the old one was safe already, and this commit is not. A
        // checkpoint syncs the log, and then the database.
        let is_begun_anew = sync_calls == 1;
        self.closings += u64::from(is_begun_anew && self.unsynced > 0);
        self.commits += 1;
        self.unsynced = match sync_calls {
            0 => self.unsynced + 1,
            _ => u64::from(is_begun_anew),
        };
        self.longest = self.longest.max(self.unsynced);
        self.has_checkpoint |= sync_calls > 1;
    }

    /// Whether a longer session would lose no more than the longest run: checkpoints end them, or
    /// the database is closed again and again, and not by short processes before one long session.
    pub fn is_made_safe(&self) -> bool {
        self.has_checkpoint || (self.closings >= MANY_CLOSINGS && self.longest * 2 <= self.commits)
    }
}

impl DatabaseLogs {
    /// Of executions in their order; none where one that wrote does not tell its only database.
    pub fn of(samples: &[Sample], frame_bytes: u64) -> Option<DatabaseLogs> {
        let mut logs: BTreeMap<u32, DatabaseLog> = BTreeMap::new();
        let (mut together, mut at_once) = (0_u64, 0_u64);
        for sample in samples.iter().filter(|sample| sample.split.write_calls > 0) {
            let log = logs.entry(sample.database?).or_default();
            let before = log.syncs.unsynced;
            log.take(&sample.split);
            together = (together + log.syncs.unsynced).saturating_sub(before);
            at_once = at_once.max(together);
        }
        Some(DatabaseLogs { logs: logs.into_values().collect(), at_once, frame_bytes })
    }

    /// How many commits may be lost of all of them, with room for so many pages in each log before
    /// it is checkpointed, and whether those are all that there were.
    pub fn loss(&self, room: Option<u64>) -> (u64, bool) {
        let is_all = !self.logs.iter().any(|log| log.syncs.is_made_safe());
        let commits = match self.logs.iter().all(|log| log.syncs.is_made_safe()) {
            true => self.at_once,
            // What is never made safe fills its log in a longer session, whatever the others do.
            false => self.logs.iter().map(|log| log.most(room, self.frame_bytes)).sum(),
        };
        (commits.max(self.at_once), is_all)
    }
}

impl DatabaseLog {
    fn take(&mut self, split: &Split) {
        self.syncs.take(split.sync_calls);
        self.bytes += split.write_bytes;
    }

    /// The longest run without a sync; where nothing makes it safe, as many commits as fill the
    /// log.
    fn most(&self, room: Option<u64>, frame_bytes: u64) -> u64 {
        let pages = self.bytes / frame_bytes.max(1);
        let room = room.filter(|_| !self.syncs.is_made_safe() && pages > 0);
        let filling = room.map_or(0, |room| (room * self.syncs.commits).div_ceil(pages.max(1)));
        filling.max(self.syncs.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executions of databases a and b: commits, the sync of a new log's header, checkpoints. Each
    /// commit has two pages.
    fn samples(words: &str) -> Vec<Sample> {
        let of = |(seq, word): (u64, char)| {
            let syncs = match word.to_ascii_lowercase() {
                'w' => 0,
                'h' => 1,
                _ => 2,
            };
            let (write_calls, write_bytes) = (4, 2 * 4120);
            Sample {
                phase: "replay".into(),
                x: None,
                seq,
                thread: 0,
                rows: 1,
                split: Split { write_calls, write_bytes, sync_calls: syncs, ..Split::default() },
                database: Some(u32::from(word.is_ascii_uppercase())),
                start_ns: 0,
            }
        };
        (0..).zip(words.chars()).map(of).collect()
    }

    fn loss(words: &str, room: u64) -> (u64, bool) {
        DatabaseLogs::of(&samples(words), 4120).unwrap().loss(Some(room))
    }

    /// What happened: a checkpoint of one database was taken for all, so that of another one, which
    /// nothing had ever synced, ten commits might be lost and not 400.
    #[test]
    fn each_database_is_made_safe_by_its_own_checkpoints() {
        // Capitals are the other database.
        let never = loss(&("hH".to_owned() + &"wwwwwwwwwcW".repeat(40)), 10);
        assert_eq!(never, (10 + 41, false));
        // In a longer session its log is filled.
        assert_eq!(loss("hHwWcWwc", 1000), (2 + 500, false));
        // Both have checkpoints: what lay in both at one moment, and not the longest of each.
        let both = loss("hwwwcHWWCwwWc", 1000);
        assert_eq!(both, (4, false));
        assert_eq!(loss("hHwW", 1), (4, true));
    }

    /// What happened: of a program that opens and closes its database at each commit a power cut
    /// was told to take 953 commits, as many as fill the log, for no checkpoint was seen: the one
    /// that closing makes belongs to no transaction.
    #[test]
    fn a_database_that_is_closed_again_and_again_loses_what_it_commits_between() {
        assert_eq!(loss(&"hw".repeat(100), 1000), (2, false));
        assert_eq!(loss(&("hw".repeat(100) + &"HWW".repeat(100)), 1000), (2 + 3, false));
        // Ten sessions are nine closings; of nine it may be a set-up, and the next one longer.
        assert_eq!(loss(&"hw".repeat(10), 1000).0, 2);
        assert_eq!(loss(&"hw".repeat(9), 1000), (500, true));
        // As are many, where the one that followed was most of it.
        assert_eq!(loss(&("hw".repeat(20) + &"w".repeat(100)), 1000), (500, true));
        // A log that begins again after its checkpoint was not closed.
        assert_eq!(loss(&"hwc".repeat(20), 1000), (2, false));
        // One is closed again and again, and the other never.
        assert_eq!(loss(&("HW".to_owned() + &"hw".repeat(20)), 1000), (2 + 500, false));
    }

    #[test]
    fn one_execution_that_does_not_tell_its_database_leaves_all_unknown() {
        let mut all = samples("hHwW");
        all[2].database = None;
        assert_eq!(DatabaseLogs::of(&all, 4120), None);
        // One that only reads is of no log.
        all[2].split.write_calls = 0;
        assert!(DatabaseLogs::of(&all, 4120).is_some());
    }
}
