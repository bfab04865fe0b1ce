//! Commits of a database, numbered over all processes: from what a spool tells of locks to
//! [`Lock::commits`](crate::model::Lock).
//!
//! With a rollback journal nothing is committed while anybody reads, so a reader sees what was
//! committed when it got its lock. A reader of a write-ahead log sees what the wal-index counted
//! then, and a commit is seen before the lock that tells it is let go; so a reader's number can be
//! one that is recorded only after it. The wal-index counts from 0 again when it is made anew,
//! which happens when nobody has the database open. A count that jumps has commits of somebody who
//! was not captured.

/// One database's.
#[derive(Debug, Default)]
pub struct Commits {
    /// Commits so far, with those that were not captured.
    count: u64,
    /// The present wal-index: commits when its counter was 0, and the counter at the last commit or
    /// when it was seen first.
    log: Option<(u64, u32)>,
}

impl Commits {
    /// What a reader sees that got its lock now.
    pub fn commits_for(&mut self, log: Option<u32>) -> u64 {
        match log {
            None => self.count,
            Some(counter) => self.base(counter).wrapping_add(counter.into()),
        }
    }

    /// The number of a commit that is done now.
    pub fn committed(&mut self, log: Option<u32>) -> u64 {
        let number = match log {
            None => {
                // A log that comes later is another one.
                self.log = None;
                self.count + 1
            }
            Some(counter) => {
                // The state before it, of which every writer is a reader.
                let base = self.base(counter.wrapping_sub(1));
                self.log = Some((base, counter));
                base.wrapping_add(counter.into())
            }
        };
        self.count = self.count.max(number);
        number
    }

    /// Commits when the counter was 0.
    fn base(&mut self, counter: u32) -> u64 {
        match self.log {
            Some((base, last)) if counter >= last => base,
            // Another wal-index: what it counts is what is there now.
            _ => {
                let base = self.count.wrapping_sub(counter.into());
                self.log = Some((base, counter));
                base
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Commits;

    #[test]
    fn a_rollback_journals_readers_see_what_is_committed() {
        let mut commits = Commits::default();
        assert_eq!(
            (commits.commits_for(None), commits.committed(None), commits.commits_for(None)),
            (0, 1, 1)
        );
    }

    /// The reader's lock was recorded before the writer let its own go.
    #[test]
    fn a_logs_reader_can_see_a_commit_that_is_recorded_after_it() {
        let mut commits = Commits::default();
        assert_eq!(commits.commits_for(Some(40)), 0, "the log was there before");
        assert_eq!(commits.committed(Some(41)), 1);
        assert_eq!(commits.commits_for(Some(42)), 2);
        assert_eq!(commits.committed(Some(42)), 2);
        assert_eq!((commits.commits_for(Some(42)), commits.committed(Some(43))), (2, 3));
    }

    #[test]
    fn a_new_log_goes_on_counting_and_so_does_a_rollback_journal_after_it() {
        let mut commits = Commits::default();
        (1..=5).for_each(|counter| assert_eq!(commits.committed(Some(counter)), u64::from(counter)));
        assert_eq!(
            (commits.commits_for(Some(0)), commits.committed(Some(1)), commits.commits_for(Some(1))),
            (5, 6, 6)
        );
        assert_eq!((commits.committed(None), commits.commits_for(None)), (7, 7));
        assert_eq!((commits.commits_for(Some(0)), commits.committed(Some(1))), (7, 8));
    }

    #[test]
    fn commits_of_a_program_that_is_not_captured_leave_a_gap() {
        let mut commits = Commits::default();
        assert_eq!(
            (commits.committed(Some(1)), commits.commits_for(Some(3)), commits.committed(Some(4))),
            (1, 3, 4)
        );
    }
}
