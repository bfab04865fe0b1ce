//! What the calls of several threads owe to each other, from the locks that they held when they
//! were captured.
//!
//! SQLite's transactions have one order on each database: its commits are numbered, each
//! transaction reads the state after one of them, and one connection writes at a time. So a replay
//! comes to the same rows if
//!
//! 1. a transaction that saw commit *n* begins to read after commit *n* is done again,
//! 2. and before commit *n + 1* is: with a write-ahead log it must have begun, with a rollback
//!    journal it must have ended, because there nothing is committed while anybody reads,
//! 3. and a transaction begins to write when the one that wrote before has ended.
//!
//! Each database has four counters, of what is done so far: commits, writes ended, reads begun,
//! reads ended. Before a call that is about to take one of these steps its thread waits until a
//! counter is as high as it was then ([`Tie`]); when the call is done, it raises those that it is
//! counted in. All of these point back in the order in which locks were held, so nobody waits in a
//! circle; what a thread waits for is never a lock of SQLite's, which has no order.
//!
//! A call that has begun to read and returns only after others have committed (a long SELECT on a
//! write-ahead log) is told apart: its snapshot is taken by a call before it ([`EarlySnapshot`]), so that
//! the commits need not wait for all of it. So is that of a call which saw a commit to several
//! databases in one of them and not yet in another.
//!
//! The trace is read twice. The first reading finds which of the locks belong to calls that are
//! done again (an attempt that ended with SQLITE_BUSY does not), and counts, for each commit, the
//! reads that must have begun before it. That takes 8 bytes for each commit and a byte for each
//! write; nothing else grows with the trace.

use std::collections::{HashMap, HashSet};

use fathom_trace::model::{Lock, LockChange};

/// What is said of a trace that cannot come to the same again.
pub const NOT_AGAIN: &str = "the trace cannot be done again";

/// A counter and the value that it must have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// Its number.
    pub counter: u32,
    /// The value.
    pub at_least: u64,
}

/// What a call waits for, and which counters it raises when it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    pub needs: Vec<Tie>,
    pub gives: Vec<u32>,
    /// It reads what a call before it has taken the snapshot of, which is to be let go afterwards.
    pub is_held: bool,
    /// It began to read, and had no lock to write at its end.
    pub only_reads: bool,
    /// The databases that it began to read then, but for those whose snapshot is taken before.
    pub looks_at: Vec<u32>,
    /// It wrote, and that has ended.
    pub ended_a_write: bool,
}

/// A snapshot that is to be taken before its call.
#[derive(Clone, Debug)]
pub struct EarlySnapshot {
    pub database: u32,
    pub ties: Ties,
}

/// Counters of a database.
const COUNTERS: u32 = 4;
/// What each of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Transactions that changed the database.
    Commits,
    /// Transactions that could have.
    Writes,
    /// Transactions that began to read.
    Begun,
    /// Those that ended.
    Ended,
}

impl Tie {
    /// What is waited for, in words; `databases` are those of [`LockHistory::databases`], by their names.
    pub fn words(&self, databases: &[String]) -> String {
        let Some(database) = databases.get((self.counter / COUNTERS) as usize) else {
            return "the call before on its connection".into();
        };
        let count = self.at_least;
        match self.counter % COUNTERS {
            0 => format!("commit {count} of {database}"),
            1 => format!("the end of write {count} on {database}"),
            2 => format!("reads of {database} that saw what was before ({count} are to have begun)"),
            _ => format!("reads of {database} that saw what was before ({count} are to have ended)"),
        }
    }
}

/// What the first reading has found.
#[derive(Debug, Default)]
pub struct LockHistory {
    databases: Vec<DatabaseLocks>,
    numbers: HashMap<u32, u32>,
    /// Reads, by the number of their lock, that others' commits overtook before their call
    /// returned.
    overtaken: HashSet<u64>,
    /// Why the trace cannot be done again.
    pub refused: Option<String>,
    /// What the trace tells of locks is no order.
    is_void: bool,
}

/// What is known of one database after the first reading.
#[derive(Debug, Default)]
struct DatabaseLocks {
    /// Its number in the trace.
    number: u32,
    /// Of the commits up to each one, from 0, those that are done again; while reading, whether
    /// this one is.
    commits: Vec<u32>,
    /// The reads that saw at most so many commits; while reading, exactly so many.
    reads: Vec<u32>,
    /// Of each write, whether it is done again.
    writes: Vec<bool>,
}

impl DatabaseLocks {
    fn at(row: &[u32], place: u64) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(row.len().wrapping_sub(1));
        row.get(place).copied().unwrap_or(0).into()
    }

    fn raise(row: &mut Vec<u32>, place: u64) {
        // `Locks::add` has refused what is out of proportion.
        let place = place as usize;
        if row.len() <= place {
            row.resize(place + 1, 0);
        }
        row[place] = row[place].saturating_add(1);
    }
}

impl LockHistory {
    /// Of a trace whose locks tell no order.
    pub fn void() -> LockHistory {
        LockHistory { is_void: true, ..LockHistory::default() }
    }

    /// Whether the trace tells locks at all.
    pub fn has_locks(&self) -> bool {
        !self.databases.is_empty()
    }

    /// Counters of all databases.
    pub fn counters(&self) -> u32 {
        self.databases.len() as u32 * COUNTERS
    }

    /// The numbers of the databases, in the order of their counters.
    pub fn databases(&self) -> Vec<u32> {
        self.databases.iter().map(|known| known.number).collect()
    }

    fn place(&mut self, database: u32) -> usize {
        let next = self.databases.len() as u32;
        let place = *self.numbers.entry(database).or_insert(next);
        if place == next {
            self.databases.push(DatabaseLocks { number: database, ..DatabaseLocks::default() });
        }
        place as usize
    }

    /// At the end of the first reading: numbers become sums.
    fn sum_up(&mut self) {
        for known in &mut self.databases {
            let most = known.commits.len().max(known.reads.len());
            for row in [&mut known.commits, &mut known.reads] {
                row.resize(most, 0);
                let mut sum = 0_u32;
                for count in row {
                    sum = sum.saturating_add(*count);
                    *count = sum;
                }
            }
        }
    }
}

/// A lock that was got or let go within a call that has not returned yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    lock: Lock,
    /// Place of its database.
    place: usize,
    /// Number over all locks.
    number: u64,
    /// Of a write: its number among the database's; in the second reading, among those that are
    /// done again.
    write: u64,
    /// Its snapshot was taken by a call before.
    is_held: bool,
    /// Its call is not done again, but the lock was kept beyond it.
    is_left: bool,
}

/// Of a database in a reading.
#[derive(Clone, Copy, Debug, Default)]
struct Now {
    /// Commits that stand before here.
    commits: u64,
    writes: u64,
    writes_again: u64,
    /// Reads whose end was given to a call.
    ended: u64,
}

/// A transaction that has begun on a connection and database.
#[derive(Clone, Copy, Debug)]
struct Open {
    thread: u32,
    /// A call that is done again has begun it.
    is_again: bool,
    writes_again: bool,
}

/// Locks as they stand in the trace; the same for both readings.
#[derive(Debug)]
pub struct Locks {
    past: LockHistory,
    is_first: bool,
    /// Whether the cell has a write-ahead log, where reads do not stop commits.
    has_log: bool,
    now: Vec<Now>,
    count: u64,
    pending: HashMap<u32, Vec<Pending>>,
    open: HashMap<(u32, usize), Open>,
    /// Transactions that a thread, or a connection, has open between its calls.
    held: HashMap<u32, u32>,
    held_on: HashMap<u32, u32>,
}

/// What the locks of one call come to on one database.
#[derive(Default)]
struct Summary {
    read: Option<Pending>,
    /// The lock that ended the read within the call.
    read_end: Option<u64>,
    /// A transaction that was open before has ended.
    outer_ended: bool,
    writes: Vec<(Pending, Option<(bool, u64)>)>,
    /// A write of a call before has ended.
    outer_write: Option<(bool, u64)>,
    excludes: bool,
}

/// A commit's number cannot be so far ahead of the commits that were met.
const AHEAD_MAX: u64 = 1 << 16;

impl Locks {
    /// Before the first reading.
    pub fn first() -> Locks {
        Locks::new(LockHistory::default(), true, false)
    }

    /// Before the second one, in a cell with a write-ahead log or without.
    pub fn second(past: LockHistory, has_log: bool) -> Locks {
        Locks::new(past, false, has_log)
    }

    fn new(past: LockHistory, is_first: bool, has_log: bool) -> Locks {
        Locks {
            now: vec![Now::default(); past.databases.len()],
            past,
            is_first,
            has_log,
            count: 0,
            pending: HashMap::new(),
            open: HashMap::new(),
            held: HashMap::new(),
            held_on: HashMap::new(),
        }
    }

    /// After the first reading.
    pub fn into_past(mut self) -> LockHistory {
        if self.is_first {
            self.past.sum_up();
        }
        self.past
    }

    /// Whether the trace tells locks; known after the first reading.
    pub fn has_locks(&self) -> bool {
        self.past.has_locks()
    }

    /// Whether what it tells of them is no order.
    pub fn is_void(&self) -> bool {
        self.past.is_void
    }

    /// Whether a thread, or somebody on this connection, holds a lock between two calls.
    pub fn holds(&self, thread: u32, connection: u32) -> bool {
        let any = |held: &HashMap<u32, u32>, key| held.get(&key).is_some_and(|count| *count > 0);
        any(&self.held, thread) || any(&self.held_on, connection)
    }

    /// A lock. Gives the snapshot that is to be taken here, before the call itself.
    pub fn add(&mut self, lock: Lock) -> Option<EarlySnapshot> {
        let place = self.past.place(lock.database);
        if self.now.len() <= place {
            self.now.resize(place + 1, Now::default());
        }
        let number = self.count;
        self.count += 1;
        let now = &mut self.now[place];
        if lock.commits > now.commits.saturating_add(AHEAD_MAX) {
            self.refuse(lock.database, "a lock tells of commits that the trace does not have");
            return None;
        }
        let mut pending = Pending { lock, place, number, write: 0, is_held: false, is_left: false };
        match lock.change {
            LockChange::Write => {
                pending.write = if self.is_first { now.writes } else { now.writes_again };
                let known = &mut self.past.databases[place];
                if self.is_first {
                    known.writes.push(false);
                } else if known.writes.get(now.writes as usize).copied().unwrap_or(false) {
                    now.writes_again += 1;
                }
                now.writes += 1;
            }
            LockChange::WriteEnd { is_commit: true } => {
                if lock.commits > now.commits + 1 {
                    self.refuse(
                        lock.database,
                        "somebody changed it who was not captured (another program, or a process that was killed within its commit), so what was read afterwards cannot be read again",
                    );
                }
                let now = &mut self.now[place];
                now.commits = now.commits.max(lock.commits);
            }
            LockChange::Read if !self.is_first && self.has_log && self.past.overtaken.contains(&number) => {
                pending.is_held = true;
            }
            _ => {}
        }
        self.pending.entry(lock.connection).or_default().push(pending);
        pending.is_held.then(|| {
            let mut ties = Ties::default();
            self.read_ties(&pending, &mut ties);
            EarlySnapshot { database: lock.database, ties }
        })
    }

    fn refuse(&mut self, database: u32, why: &str) {
        self.past.refused.get_or_insert_with(|| format!("{}: database {database}: {why}", NOT_AGAIN));
    }

    /// A call has returned that began at `start_ns`: what it waits for and gives. `is_again`: it is
    /// done again.
    pub fn call(&mut self, connection: u32, start_ns: u64, is_again: bool) -> Ties {
        let mut ties = Ties::default();
        if !self.pending.is_empty()
            && let Some(list) = self.pending.remove(&connection)
        {
            // What was locked before the call belongs to one that was not recorded.
            let (mut own, others): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|pending| pending.is_left || pending.lock.at_ns >= start_ns);
            if !others.is_empty() {
                let mut left = self.locks(connection, &others, false, &mut ties);
                (ties.only_reads, ties.looks_at, ties.ended_a_write) = Default::default();
                left.extend(own);
                own = left;
            }
            let left = self.locks(connection, &own, is_again, &mut ties);
            if !left.is_empty() {
                self.pending.insert(connection, left);
            }
        }
        ties
    }

    /// A connection is closed, or its process has ended: so have its transactions.
    pub fn close(&mut self, connection: u32) -> Ties {
        let mut ties = Ties::default();
        self.pending.remove(&connection);
        let mut open: Vec<_> = self.open.keys().copied().filter(|(of, _)| *of == connection).collect();
        open.sort_unstable();
        for key in open {
            let Some(pending) = self.open.remove(&key) else { continue };
            self.let_go(pending.thread, connection);
            if pending.writes_again {
                ties.gives.push(counter(key.1, Counts::Writes));
            }
            if pending.is_again {
                self.now[key.1].ended += 1;
                ties.gives.push(counter(key.1, Counts::Ended));
            }
        }
        ties
    }

    /// A checkpoint that waited for readers found none of those that had ended before.
    pub fn checkpoint(&self, ties: &mut Ties) {
        for (place, now) in self.now.iter().enumerate() {
            if now.ended > 0 {
                ties.needs.push(Tie { counter: counter(place, Counts::Ended), at_least: now.ended });
            }
        }
    }

    fn let_go(&mut self, thread: u32, connection: u32) {
        for (held, key) in [(&mut self.held, thread), (&mut self.held_on, connection)] {
            if let Some(count) = held.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    held.remove(&key);
                }
            }
        }
    }

    /// The locks of a call; gives those that are kept beyond one that is not done again.
    fn locks(&mut self, connection: u32, list: &[Pending], is_again: bool, ties: &mut Ties) -> Vec<Pending> {
        let mut places: Vec<usize> = list.iter().map(|pending| pending.place).collect();
        places.sort_unstable();
        places.dedup();
        let of_place = |place| list.iter().filter(move |pending| pending.place == place);
        let mut summaries: Vec<(usize, Summary)> =
            places.into_iter().map(|place| (place, Summary::of(of_place(place)))).collect();
        if is_again {
            let written = summaries.iter().filter(|(_, summary)| !summary.writes.is_empty());
            let counts = written.filter_map(|(_, summary)| Some(summary.read?.number)).min();
            summaries.retain(|(_, summary)| !summary.is_attempt(counts));
            if self.is_first && summaries.len() > 1 {
                self.between(&summaries);
            }
        }
        let (mut left, mut writes) = (Vec::new(), false);
        for (place, summary) in summaries {
            writes |= !summary.writes.is_empty();
            ties.ended_a_write |= summary.writes.iter().any(|(_, end)| end.is_some());
            if let Some(read) = &summary.read {
                ties.only_reads = true;
                if !read.is_held {
                    ties.looks_at.push(read.lock.database);
                }
            }
            if is_again {
                self.again(connection, place, &summary, ties);
            } else {
                self.not_again(connection, place, &summary, of_place(place), &mut left);
            }
        }
        ties.only_reads &= !writes;
        left.sort_unstable_by_key(|pending| pending.number);
        left
    }

    /// A commit to several databases is done to one after the other where they have write-ahead
    /// logs. A call that saw it done to one and not to another one has its snapshot of the latter
    /// taken before: the commit is one call, which waits for that.
    fn between(&mut self, summaries: &[(usize, Summary)]) {
        let only_read = summaries.iter().filter(|(_, summary)| summary.writes.is_empty());
        let reads: Vec<Pending> =
            only_read.filter_map(|(_, summary)| summary.read.filter(|read| !read.is_left)).collect();
        let (ahead, others): (Vec<&Pending>, Vec<&Pending>) =
            reads.iter().partition(|read| read.lock.commits > self.now[read.place].commits);
        if !ahead.is_empty() {
            self.past.overtaken.extend(others.iter().map(|read| read.number));
        }
    }

    /// A call that is not done again: what it got and gave back is forgotten.
    fn not_again<'a>(
        &mut self,
        connection: u32,
        place: usize,
        summary: &Summary,
        list: impl Iterator<Item = &'a Pending>,
        left: &mut Vec<Pending>,
    ) {
        let kept_read = summary.read.filter(|_| summary.read_end.is_none()).map(|lock| lock.number);
        let kept_write = summary.writes.last().filter(|(_, end)| end.is_none()).map(|(lock, _)| lock.number);
        let is_open = self.open.get(&(connection, place)).is_some_and(|open| open.is_again);
        let (mut depth_read, mut depth_write) = (0, 0);
        for pending in list {
            let is_left = match pending.lock.change {
                LockChange::Read => {
                    depth_read = 1;
                    Some(pending.number) == kept_read
                }
                LockChange::Write => {
                    depth_write = 1;
                    Some(pending.number) == kept_write
                }
                LockChange::Exclusive => kept_write.is_some_and(|write| pending.number > write),
                LockChange::ReadEnd => std::mem::take(&mut depth_read) == 0 && is_open,
                LockChange::WriteEnd { .. } => std::mem::take(&mut depth_write) == 0 && is_open,
            };
            if is_left {
                left.push(Pending { is_left: true, ..*pending });
            }
        }
    }

    /// A call that is done again.
    fn again(&mut self, connection: u32, place: usize, summary: &Summary, ties: &mut Ties) {
        let key = (connection, place);
        let was_open = self.open.get(&key).copied();
        let was_again = was_open.is_some_and(|open| open.is_again);
        // The first reading notes, the second one ties.
        if self.is_first {
            let commits = self.now[place].commits;
            let known = &mut self.past.databases[place];
            if let Some(read) = &summary.read {
                DatabaseLocks::raise(&mut known.reads, read.lock.commits);
                // Nobody commits while another one writes.
                let is_only_read = summary.writes.is_empty() && summary.outer_write.is_none();
                if is_only_read && commits > read.lock.commits && !read.is_left {
                    self.past.overtaken.insert(read.number);
                }
            }
            for (write, _) in &summary.writes {
                if let Some(bit) = known.writes.get_mut(write.write as usize) {
                    *bit = true;
                }
            }
            for commit in summary.commits() {
                DatabaseLocks::raise(&mut known.commits, commit);
            }
        } else {
            self.tie(place, summary, was_open, ties);
        }
        self.now[place].ended += summary.reads_ended(was_again) as u64;
        // What is open now.
        let is_reading = match &summary.read {
            Some(_) => summary.read_end.is_none(),
            None => was_open.is_some() && !summary.outer_ended,
        };
        let writes_again = match summary.writes.last() {
            Some((_, end)) => end.is_none(),
            None => was_open.is_some_and(|open| open.writes_again) && summary.outer_write.is_none(),
        };
        if let Some(pending) = self.open.remove(&key) {
            self.let_go(pending.thread, connection);
        }
        if is_reading {
            let (thread, is_again) = match (&summary.read, was_open) {
                (Some(read), _) => (read.lock.thread, true),
                (None, Some(open)) => (open.thread, open.is_again),
                (None, None) => return,
            };
            *self.held.entry(thread).or_default() += 1;
            *self.held_on.entry(connection).or_default() += 1;
            self.open.insert(key, Open { thread, is_again, writes_again });
        }
    }

    fn read_ties(&self, read: &Pending, ties: &mut Ties) {
        let known = &self.past.databases[read.place];
        let at_least = DatabaseLocks::at(&known.commits, read.lock.commits);
        if at_least > 0 {
            ties.needs.push(Tie { counter: counter(read.place, Counts::Commits), at_least });
        }
        ties.gives.push(counter(read.place, Counts::Begun));
    }

    fn tie(&self, place: usize, summary: &Summary, was_open: Option<Open>, ties: &mut Ties) {
        let known = &self.past.databases[place];
        let was_again = was_open.is_some_and(|open| open.is_again);
        let mut begins_here = 0;
        if let Some(read) = &summary.read {
            if read.is_held {
                ties.is_held = true;
            } else {
                begins_here = 1;
                // What it read of its own commits it does not wait for.
                let seen = summary.commits().map(|commit| commit - 1).fold(read.lock.commits, u64::min);
                let lock = Lock { commits: seen, ..read.lock };
                self.read_ties(&Pending { lock, ..*read }, ties);
            }
        }
        // Of several writes (PRAGMA optimize) the later ones wait for nobody but the first.
        if let Some(at_least) =
            summary.writes.first().map(|(write, _)| write.write).filter(|write| *write > 0)
        {
            ties.needs.push(Tie { counter: counter(place, Counts::Writes), at_least });
        }
        let ended = summary.writes.iter().filter(|(_, end)| end.is_some());
        ties.gives.extend(ended.map(|_| counter(place, Counts::Writes)));
        if summary.outer_write.is_some() && was_open.is_some_and(|open| open.writes_again) {
            ties.gives.push(counter(place, Counts::Writes));
        }
        // Those that read before a commit.
        let own_reads = u64::from(was_again) + u64::from(summary.read.is_some());
        let first_commit = summary.commits().min();
        if self.has_log {
            if let Some(commit) = first_commit {
                let begun = DatabaseLocks::at(&known.reads, commit - 1).saturating_sub(begins_here);
                ties.needs.push(Tie { counter: counter(place, Counts::Begun), at_least: begun });
            }
        } else if first_commit.is_some() || summary.excludes {
            let before = first_commit.map_or(self.now[place].commits, |commit| commit - 1);
            let ended = DatabaseLocks::at(&known.reads, before).saturating_sub(own_reads);
            ties.needs.push(Tie { counter: counter(place, Counts::Ended), at_least: ended });
        }
        for _ in summary.commits() {
            ties.gives.push(counter(place, Counts::Commits));
        }
        let ended = summary.reads_ended(was_again);
        ties.gives.extend(std::iter::repeat_n(counter(place, Counts::Ended), ended));
    }
}

fn counter(place: usize, counts: Counts) -> u32 {
    place as u32 * COUNTERS + counts as u32
}

impl Summary {
    /// Of several attempts within a call (another one held the lock, the schema had changed) the
    /// last one counts.
    fn of<'a>(list: impl Iterator<Item = &'a Pending>) -> Summary {
        let mut summary = Summary::default();
        let mut is_reading = false;
        for pending in list {
            match pending.lock.change {
                LockChange::Read => {
                    summary.read = Some(*pending);
                    (is_reading, summary.read_end) = (true, None);
                    summary.drop_attempts();
                }
                LockChange::ReadEnd if std::mem::take(&mut is_reading) => {
                    summary.read_end = Some(pending.number)
                }
                LockChange::ReadEnd => summary.outer_ended = true,
                LockChange::Write => {
                    summary.drop_attempts();
                    summary.writes.push((*pending, None));
                }
                LockChange::Exclusive => summary.excludes = true,
                LockChange::WriteEnd { is_commit } => {
                    let end = Some((is_commit, pending.lock.commits));
                    match summary.writes.last_mut().filter(|(_, end)| end.is_none()) {
                        Some(write) => write.1 = end,
                        None => summary.outer_write = end,
                    }
                }
            }
        }
        summary
    }

    /// Whether the call read here only in an attempt, which had ended when the one that counts
    /// began to read what it writes, with the lock `counts`: it was compiled again meanwhile, and
    /// did not look here any more.
    fn is_attempt(&self, counts: Option<u64>) -> bool {
        let is_only_read = self.writes.is_empty() && self.outer_write.is_none() && !self.outer_ended;
        is_only_read && self.read_end.is_some_and(|end| counts.is_some_and(|counts| end < counts))
    }

    /// The call begins anew: a write that ended without a commit was an attempt.
    fn drop_attempts(&mut self) {
        self.writes.retain(|(_, end)| !matches!(end, Some((false, _))));
        self.excludes &= self.writes.iter().any(|(_, end)| end.is_none());
    }

    /// How many reads have ended: that of a call before, which is done again, where there is
    /// another one now (there is one at a time), and its own.
    fn reads_ended(&self, was_again: bool) -> usize {
        let outer = was_again && (self.outer_ended || self.read.is_some());
        usize::from(outer) + usize::from(self.read_end.is_some())
    }

    /// The numbers of its commits.
    fn commits(&self) -> impl Iterator<Item = u64> {
        let own = self.writes.iter().filter_map(|(_, end)| *end);
        own.chain(self.outer_write)
            .filter(|(is_commit, number)| *is_commit && *number > 0)
            .map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: LockChange = LockChange::WriteEnd { is_commit: true };
    const NO_COMMIT: LockChange = LockChange::WriteEnd { is_commit: false };

    /// What stands in a trace: a lock of a connection with the commits that it tells, or its call,
    /// with its start and whether it is done again. Times are places.
    #[derive(Clone, Copy)]
    enum Entry {
        Got(u32, LockChange, u64),
        Call(u32, u64, bool),
    }
    use Entry::{Call, Got};
    use LockChange::{Exclusive, Read, ReadEnd, Write};

    /// The ties of each call in the second reading, snapshots among them, in the trace's order.
    fn ties(entries: &[Entry], has_log: bool) -> Vec<Ties> {
        let mut told = Vec::new();
        let mut read = |mut locks: Locks| {
            told.clear();
            for (at_ns, entry) in (0..).zip(entries) {
                match *entry {
                    Got(connection, change, commits) => {
                        let thread = connection;
                        let lock = Lock { thread, connection, database: 7, at_ns, change, commits };
                        told.extend(locks.add(lock).map(|held| held.ties));
                    }
                    Call(connection, start_ns, is_again) => {
                        let ties = locks.call(connection, start_ns, is_again);
                        told.extend(is_again.then_some(ties));
                    }
                }
            }
            locks.into_past()
        };
        let past = read(Locks::first());
        assert_eq!(past.databases(), [7]);
        read(Locks::second(past, has_log));
        told
    }

    fn need(counts: Counts, at_least: u64) -> Tie {
        Tie { counter: counts as u32, at_least }
    }

    fn gives(counts: &[Counts]) -> Vec<u32> {
        counts.iter().map(|count| *count as u32).collect()
    }

    /// A reader of a log that returns after the commit that it does not see: that was taken to
    /// have read what there was when it returned.
    #[test]
    fn a_reader_that_is_overtaken_has_its_snapshot_taken_before() {
        let entries = [
            Got(1, Read, 0),
            Got(2, Read, 0),
            Got(2, Write, 0),
            Got(2, COMMIT, 1),
            Got(2, ReadEnd, 0),
            Call(2, 1, true),
            Got(1, ReadEnd, 0),
            Call(1, 0, true),
        ];
        let [snapshot, writer, reader] = &ties(&entries, true)[..] else { panic!("three") };
        assert_eq!((&snapshot.needs[..], &snapshot.gives), (&[][..], &gives(&[Counts::Begun])));
        // Its own read begins with it.
        assert_eq!(writer.needs, [need(Counts::Begun, 1)]);
        let done = [Counts::Begun, Counts::Writes, Counts::Commits, Counts::Ended];
        assert_eq!(writer.gives, gives(&done));
        assert!(reader.is_held && reader.needs.is_empty());
        assert_eq!(reader.gives, gives(&[Counts::Ended]));
        // With a rollback journal the commit waits for the reader's end, so nothing is held.
        let [writer, reader] = &ties(&entries, false)[..] else { panic!("two") };
        assert_eq!(writer.needs, [need(Counts::Ended, 1)]);
        assert_eq!(reader.gives, gives(&[Counts::Begun, Counts::Ended]));
    }

    #[test]
    fn who_writes_waits_for_who_wrote_before_and_a_reader_for_the_commit_that_it_saw() {
        let writes = |connection, commit, start| {
            let done = [Got(connection, Exclusive, 0), Got(connection, COMMIT, commit)];
            let begun = [Got(connection, Read, commit - 1), Got(connection, Write, 0)];
            [&begun[..], &done[..], &[Got(connection, ReadEnd, 0), Call(connection, start, true)]].concat()
        };
        let read = [Got(3, Read, 2), Got(3, ReadEnd, 0), Call(3, 12, true)];
        let entries = [writes(1, 1, 0), writes(2, 2, 6), read.to_vec()].concat();
        let told = ties(&entries, false);
        let second = [need(Counts::Commits, 1), need(Counts::Writes, 1), need(Counts::Ended, 1)];
        assert_eq!(told[1].needs, second);
        assert_eq!(told[2].needs, [need(Counts::Commits, 2)]);
    }

    /// The second one asked for the lock, gave up its read, and tried again after the other had
    /// committed; an attempt that was refused for good is not done again at all.
    #[test]
    fn of_several_attempts_the_last_one_counts_and_refused_calls_do_not() {
        let entries = [
            Got(1, Read, 0),
            Got(1, Write, 0),
            Got(2, Read, 0),
            Got(2, Write, 0),
            Got(2, NO_COMMIT, 0),
            Got(2, ReadEnd, 0),
            Got(3, Read, 0),
            Got(3, ReadEnd, 0),
            Call(3, 6, false),
            Got(1, COMMIT, 1),
            Got(1, ReadEnd, 0),
            Call(1, 0, true),
            Got(2, Read, 1),
            Got(2, ReadEnd, 0),
            Call(2, 2, true),
        ];
        let [writer, other] = &ties(&entries, true)[..] else { panic!("two") };
        assert_eq!(writer.needs, [need(Counts::Begun, 0)], "nobody else had begun in earnest");
        assert_eq!(other.needs, [need(Counts::Commits, 1)]);
        assert_eq!(other.gives, gives(&[Counts::Begun, Counts::Ended]));
    }

    /// With write-ahead logs a commit to databases 0 and 1 is done to one after the other. A reader
    /// saw it in 0 and not in 1: it waits for the commit, which waits for its snapshot of 1.
    #[test]
    fn a_reader_between_the_two_halves_of_a_commit_has_one_snapshot_taken_before() {
        let read = |locks: &mut Locks| {
            let held = [(0, 1), (1, 0)].map(|(database, commits)| {
                let lock = Lock { thread: 1, connection: 1, database, at_ns: 1, change: Read, commits };
                locks.add(lock).map(|held| held.database)
            });
            (held, locks.call(1, 0, true))
        };
        let commit = |locks: &mut Locks| {
            for change in [Read, Write, COMMIT, ReadEnd] {
                for database in 0..2 {
                    let commits = u64::from(change == COMMIT);
                    locks.add(Lock { thread: 0, connection: 0, database, at_ns: 2, change, commits });
                }
            }
            locks.call(0, 0, true)
        };
        let mut locks = Locks::first();
        read(&mut locks);
        commit(&mut locks);
        let past = locks.into_past();
        let mut locks = Locks::second(past, true);
        let (held, ties) = read(&mut locks);
        assert_eq!(held, [None, Some(1)]);
        assert!(ties.is_held);
        assert_eq!(ties.needs, [Tie { counter: counter(0, Counts::Commits), at_least: 1 }]);
        let begun = Tie { counter: counter(1, Counts::Begun), at_least: 1 };
        assert!(commit(&mut locks).needs.contains(&begun));
    }

    /// `PRAGMA optimize` commits each table's statistics by itself. It waited for its own first
    /// commit: a package manager's trace could not be replayed.
    #[test]
    fn a_call_with_several_commits_does_not_wait_for_its_own() {
        let entries = [
            Got(1, Read, 0),
            Got(1, Write, 0),
            Got(1, COMMIT, 1),
            Got(1, Write, 0),
            Got(1, COMMIT, 2),
            Got(1, ReadEnd, 0),
            Got(1, Read, 2),
            Got(1, ReadEnd, 0),
            Call(1, 0, true),
            Got(2, Read, 2),
            Got(2, ReadEnd, 0),
            Call(2, 9, true),
        ];
        for has_log in [false, true] {
            let [own, other] = &ties(&entries, has_log)[..] else { panic!("two") };
            assert!(own.needs.iter().all(|need| need.at_least == 0), "{:?}", own.needs);
            assert_eq!(own.gives.iter().filter(|give| **give == Counts::Commits as u32).count(), 2);
            assert_eq!(other.needs, [need(Counts::Commits, 2)]);
        }
    }

    /// Of several databases each schema decides what a statement has to do.
    #[test]
    fn a_call_that_only_reads_tells_all_databases_that_it_read() {
        let tell = |changes: &[(u32, LockChange)]| {
            let mut locks = Locks::first();
            for (database, change) in changes {
                let (database, change) = (*database, *change);
                locks.add(Lock { thread: 0, connection: 0, database, at_ns: 1, change, commits: 0 });
            }
            let Ties { only_reads, looks_at, .. } = locks.call(0, 0, true);
            (only_reads, looks_at)
        };
        let reads = [(0, Read), (1, Read), (0, ReadEnd), (1, ReadEnd)];
        assert_eq!(tell(&reads), (true, vec![0, 1]));
        assert!(!tell(&[(0, Read), (1, Read), (1, Write)]).0);
        assert!(!tell(&[]).0);
    }

    /// `DROP INDEX IF EXISTS` found no index in two databases; before it could say so, another
    /// thread made one, and it was compiled again to drop that. Its first look at the other
    /// database was taken for a read of its own, overtaken by a commit there, and the snapshot
    /// taken for it kept the index from being dropped ("database table is locked").
    #[test]
    fn what_an_attempt_looked_at_is_no_read_of_a_call_that_writes_elsewhere() {
        let entries: &[(u32, u32, LockChange, u64)] = &[
            (0, 0, Read, 0),
            (0, 1, Read, 0),
            (0, 0, ReadEnd, 0),
            (0, 1, ReadEnd, 0),
            (1, 1, Read, 0),
            (1, 1, Write, 0),
            (1, 1, COMMIT, 1),
            (1, 1, ReadEnd, 0),
            (0, 0, Read, 0),
            (0, 0, Write, 0),
            (0, 0, COMMIT, 1),
            (0, 0, ReadEnd, 0),
        ];
        let read = |mut locks: Locks| {
            let mut held = Vec::new();
            for (at_ns, (connection, database, change, commits)) in (0..).zip(entries) {
                let (connection, database, change, commits) = (*connection, *database, *change, *commits);
                let lock = Lock { thread: connection, connection, database, at_ns, change, commits };
                held.extend(locks.add(lock).map(|held| held.database));
            }
            let other = locks.call(1, 4, true);
            let ties = locks.call(0, 0, true);
            (held, other, ties, locks.into_past())
        };
        let past = read(Locks::first()).3;
        let (held, other, ties, _) = read(Locks::second(past, true));
        assert_eq!(held, [0; 0]);
        assert!(!ties.is_held && !ties.only_reads);
        // The commit that came between waits for nobody, nor is it waited for.
        let begun = Tie { counter: counter(1, Counts::Begun), at_least: 0 };
        assert_eq!(other.needs, [begun]);
        assert!(ties.needs.iter().all(|need| need.counter < counter(1, Counts::Commits)), "{:?}", ties.needs);
    }

    #[test]
    fn a_missing_commit_is_somebody_elses() {
        let mut locks = Locks::first();
        let lock =
            |change, commits| Lock { thread: 0, connection: 0, database: 0, at_ns: 0, change, commits };
        locks.add(lock(COMMIT, 1));
        locks.add(lock(COMMIT, 3));
        let why = locks.into_past().refused.expect("refused");
        assert!(why.contains("was not captured"), "{why}");
    }
}
