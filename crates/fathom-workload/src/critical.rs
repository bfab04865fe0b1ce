//! Where the time of a phase with several threads went: the parts of its critical path.
//!
//! Summed over threads, parts exceed the elapsed time, and shares of such a sum say little: of two
//! threads that commit in turns one is always in fsync and the other always waiting, which makes
//! "50 % fsync" of a phase that does nothing else. The *critical path* is the chain of work that
//! the elapsed time consists of: walked back from the end of the phase, it is what the thread that
//! ended last did; where that thread had waited for another one's call, it goes on with what that
//! other one did before; and so on to the beginning. Its parts add up to the elapsed time. (C.-Q.
//! Yang, B. P. Miller, "Critical path analysis for the execution of parallel and distributed
//! programs", ICDCS 1988.)
//!
//! It is found going forward: each thread carries the parts of the path that leads to where it is.
//! Work adds its own parts. A thread that has waited takes over the parts of the one whose call it
//! waited for last, and the time from that call's end until it goes on itself counts as `other`. So
//! at any moment each thread's parts add up to the time since the beginning.

use fathom_probe::Split;
use serde::{Deserialize, Serialize};

/// Parts of a critical path, ns; they add up to the phase's elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriticalPath {
    /// CPU time outside of I/O calls.
    pub cpu_ns: u64,
    /// In reads.
    pub read_ns: u64,
    /// In writes.
    pub write_ns: u64,
    /// In syncs.
    pub sync_ns: u64,
    /// Waiting for locks that other connections held.
    pub lock_ns: u64,
    /// The rest: other calls, pauses, between the end of a call and the beginning of one that
    /// waited for it.
    pub other_ns: u64,
}

impl CriticalPath {
    /// The sum.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.cpu_ns + self.read_ns + self.write_ns + self.sync_ns + self.lock_ns + self.other_ns
    }

    /// Adds another phase's or run's.
    pub fn add(&mut self, more: &CriticalPath) {
        self.cpu_ns += more.cpu_ns;
        self.read_ns += more.read_ns;
        self.write_ns += more.write_ns;
        self.sync_ns += more.sync_ns;
        self.lock_ns += more.lock_ns;
        self.other_ns += more.other_ns;
    }

    /// The same with another sum, where less lies between the first and the last execution than was
    /// followed.
    #[must_use]
    pub fn of_elapsed(mut self, wall_ns: u64) -> CriticalPath {
        let total = self.total_ns();
        self.other_ns =
            (self.other_ns + wall_ns.saturating_sub(total)).saturating_sub(total.saturating_sub(wall_ns));
        self
    }
}

/// A thread's path: what it consists of up to `at_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The parts.
    pub parts: CriticalPath,
    /// Up to here (ns).
    pub at_ns: u64,
}

impl Path {
    /// At the beginning of a phase.
    #[must_use]
    pub fn begin(at_ns: u64) -> Path {
        Path { parts: CriticalPath::default(), at_ns }
    }

    /// The thread did something from `start_ns` on, of which `lock_ns` were waits for locks.
    /// Nothing was done since the last time.
    pub fn work(&mut self, start_ns: u64, split: &Split, lock_ns: u64) {
        self.pass(start_ns);
        let lock_ns = lock_ns.min(split.other_ns);
        self.parts.cpu_ns += split.cpu_ns;
        self.parts.read_ns += split.read_ns;
        self.parts.write_ns += split.write_ns;
        self.parts.sync_ns += split.sync_ns;
        self.parts.lock_ns += lock_ns;
        self.parts.other_ns += split.other_ns - lock_ns;
        let known = split.cpu_ns + split.read_ns + split.write_ns + split.sync_ns + split.other_ns;
        self.at_ns += known;
    }

    /// Nothing was done until now.
    pub fn pass(&mut self, now_ns: u64) {
        self.parts.other_ns += now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// The thread has waited until now for what another one had done when its path was this.
    pub fn waited(&mut self, other: Path, now_ns: u64) {
        *self = other;
        self.pass(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sync(ms: u64) -> Split {
        Split { wall_ns: ms * MS, sync_ns: ms * MS, ..Split::default() }
    }

    fn cpu(ms: u64) -> Split {
        Split { wall_ns: ms * MS, cpu_ns: ms * MS, ..Split::default() }
    }

    /// Two threads that commit in turns: 10 ms each, of which 9 are fsync. Over both threads it was
    /// 45 %.
    #[test]
    fn of_threads_that_take_turns_all_work_is_on_the_path() {
        let mut paths = [Path::begin(0), Path::begin(0)];
        for turn in 0..20_u64 {
            let (own, other) = (turn as usize % 2, (turn as usize + 1) % 2);
            let begin = turn * 10 * MS;
            if turn > 0 {
                let released = paths[other];
                paths[own].waited(released, begin);
            }
            paths[own].work(begin, &cpu(1), 0);
            paths[own].work(begin + MS, &sync(9), 0);
        }
        let last = paths[1];
        assert_eq!(last.at_ns, 200 * MS);
        assert_eq!(
            last.parts,
            CriticalPath { cpu_ns: 20 * MS, sync_ns: 180 * MS, ..CriticalPath::default() }
        );
    }

    /// One thread syncs for 10 ms, another one computes for 8 meanwhile and then waits for it; the
    /// path is the sync.
    #[test]
    fn what_goes_on_beside_the_path_is_not_on_it() {
        let (mut first, mut second) = (Path::begin(0), Path::begin(0));
        first.work(0, &sync(10), 0);
        second.work(0, &cpu(8), 0);
        second.waited(first, 10 * MS + 5);
        second.work(10 * MS + 5, &cpu(2), 0);
        assert_eq!(
            second.parts,
            CriticalPath { cpu_ns: 2 * MS, sync_ns: 10 * MS, other_ns: 5, ..CriticalPath::default() }
        );
        assert_eq!(second.parts.total_ns(), second.at_ns);
    }

    #[test]
    fn waits_for_locks_and_pauses_are_told_apart_and_the_parts_add_up() {
        let mut path = Path::begin(100);
        let split = Split { wall_ns: 50, cpu_ns: 10, other_ns: 40, ..Split::default() };
        path.work(130, &split, 25);
        path.pass(200);
        assert_eq!((path.parts.lock_ns, path.parts.other_ns, path.parts.cpu_ns), (25, 30 + 15 + 20, 10));
        assert_eq!(path.parts.total_ns(), 100);
        assert_eq!(path.parts.of_elapsed(90).total_ns(), 90);
        assert_eq!(path.parts.of_elapsed(110).total_ns(), 110);
    }
}
