//! The first reading of a trace, before the timed window: its databases are put back, and it
//! becomes known which threads replay it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

use fathom_trace::model::{Loss, Record, Start};
use fathom_trace::reuse::PreparationCounts;
use fathom_trace::sql::Verb;
use fathom_trace::start::{Layout, Restore};
use fathom_trace::untold::UntoldValues;
use fathom_trace::{Reader, TraceError};

use super::locks::{LockHistory, NOT_AGAIN};
use super::translate::{CallKind, PlacedCall, Reading, Stuck, Translator};
use crate::engine::{Engine, abridged};

/// What the second reading and the threads need.
pub struct Plan {
    /// The trace.
    pub file: PathBuf,
    /// Calls of each lane.
    pub lanes: Vec<u64>,
    /// Where each connection that is used lives.
    pub homes: HashMap<u32, Home>,
    /// The lane of each thread.
    pub lane_of_thread: HashMap<u32, u32>,
    /// Connections that several lanes use.
    pub shared: u32,
    /// Counters of the databases' order (see `locks.rs`), and the databases' paths.
    pub counters: u32,
    pub ordered: Vec<String>,
    /// Whether the trace tells when its calls began.
    pub has_times: bool,
    /// SQLite's version at capture, where it was another one than the engine's.
    pub other_version: Option<String>,
    /// Whether threads share a cache.
    pub shares_cache: bool,
    /// Connections that are opened before the timed window, with their databases.
    pub before: Vec<(u32, u32)>,
    /// Connections that are opened together with one.
    pub with: HashMap<u32, Vec<(u32, u32)>>,
    /// What the second reading needs of the first.
    pub reading: Reading,
    /// What a user must know.
    pub warnings: Vec<String>,
    /// Functions, collations and modules of the application, for messages.
    pub foreign: Vec<String>,
    /// Databases with files, by number, and the path that the application gave.
    pub databases: Vec<(u32, String)>,
}

/// Where a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Only this lane uses it.
    Lane(u32),
    /// Several use it, one after the other; its number among such.
    Shared(u32),
}

/// Threads that a replay starts at most. An application that had more over time, and not at once,
/// is replayed with fewer: see [`Threads::lanes`].
const LANES_MAX: usize = 1024;

/// Connections to a database that are opened at the same time at most: each takes a few of the
/// process's files.
const OPENED_MAX: usize = 256;

/// Name of the engine's database for a database of the trace.
pub fn name_of(database: u32) -> String {
    format!("trace-{database}")
}

/// Reads a trace and puts its databases into `directory`.
pub fn plan(file: &Path, engine: &dyn Engine, directory: &Path) -> Result<Plan, TraceError> {
    let mut translator = Translator::new(engine, Reading::First(PreparationCounts::default()));
    let mut restore = Restore::default();
    let mut databases = Vec::new();
    let mut lost = 0;
    let mut threads = Threads::default();
    let mut openings = Openings::default();
    let mut versions = Vec::new();
    let mut untold = UntoldValues::default();
    for record in Reader::open(file)? {
        match record? {
            Record::Database(database) => {
                let path = directory.join(format!("{}.db", name_of(database.id)));
                restore.database(&database, &path)?;
                translator.database(&database);
                if database.start != Start::Memory {
                    databases.push((database.id, String::from_utf8_lossy(&database.path).into_owned()));
                }
            }
            Record::Content(content) => restore.content(&content)?,
            Record::Statement(statement) => {
                untold.statement(&statement);
                translator.statement(statement);
            }
            Record::Process(process) => {
                translator.process(&process);
                if !process.sqlite.is_empty() && !versions.contains(&process.sqlite) {
                    versions.push(process.sqlite);
                }
            }
            Record::Thread(thread) => translator.thread(&thread),
            Record::Lock(lock) => drop(translator.lock(lock)),
            Record::Exit(exit) => translator.exit(&exit),
            Record::Origin(origin) => untold.origin(&origin),
            Record::Event(event) => {
                untold.event(&event);
                if let Some(made) = translator.event(event) {
                    openings.add(&made);
                    threads.add(&made);
                }
            }
            Record::Loss(_) => lost += 1,
        }
        while let Some(made) = translator.more() {
            openings.add(&made);
            threads.add(&made);
        }
    }
    if (!translator.has_locks() || translator.shares_cache)
        && let Some(problem) = unresolved(file, &translator.stuck)?
    {
        translator.refused.get_or_insert(problem);
    }
    if let Some(problem) = translator.refused.take() {
        return Err(TraceError::Refused { what: file.display().to_string(), problem });
    }
    let page_bytes = engine.info().settings.get("page_size").and_then(|bytes| bytes.parse().ok());
    restore.finish(Layout { page_bytes })?;
    let mut warnings: Vec<String> =
        translator.skipped.iter().map(|(why, count)| format!("left out: {count} {why}")).collect();
    warnings.sort();
    if lost > 0 {
        warnings.insert(0, Loss::sentence(lost));
    }
    warnings.extend(untold.sentence());
    let count = threads.calls.len();
    let has_times = translator.has_times;
    let lane_of_thread = threads.lanes(has_times);
    let mut lanes = vec![0; lane_of_thread.values().max().map_or(0, |lane| *lane as usize + 1)];
    for (thread, (_, _, calls)) in &threads.calls {
        lanes[lane_of_thread[thread] as usize] += calls;
    }
    if lanes.len() > LANES_MAX {
        let problem = format!(
            "{} threads used connections of their own at the same time, and a replay starts {LANES_MAX} at most",
            lanes.len()
        );
        return Err(TraceError::Refused { what: file.display().to_string(), problem });
    }
    if lanes.len() < count {
        warnings.push(format!(
            "{count} threads are replayed as {}: one that had ended before another began goes on as that one",
            lanes.len()
        ));
    }
    let shares_cache = translator.shares_cache && lanes.len() > 1;
    if shares_cache {
        warnings.push(
            "its threads share a cache (SQLITE_OPEN_SHAREDCACHE), and are replayed without one, in the order in which their calls returned: the locks of the file do not tell theirs".into(),
        );
    }
    let (homes, shared) = threads.homes(&lane_of_thread);
    let foreign = std::mem::take(&mut translator.foreign);
    let reading = translator.into_second();
    let past = reading.past();
    if lanes.len() > 1
        && let Some(problem) = past.and_then(|past| past.refused.clone())
    {
        return Err(TraceError::Refused { what: file.display().to_string(), problem });
    }
    let counters = past.map_or(0, LockHistory::counters);
    let path_of = |number: u32| {
        let known = databases.iter().find(|(id, _)| *id == number);
        known.map_or_else(|| name_of(number), |(_, path)| path.clone())
    };
    let ordered = past.map_or_else(Vec::new, |past| past.databases().into_iter().map(path_of).collect());
    let Openings { before, with, .. } = if lanes.len() > 1 { openings } else { Openings::default() };
    let file = file.to_owned();
    Ok(Plan {
        file,
        lanes,
        homes,
        lane_of_thread,
        shared,
        counters,
        ordered,
        has_times,
        other_version: versions.into_iter().find(|version| *version != engine.info().version),
        shares_cache,
        before,
        with,
        reading,
        warnings,
        foreign,
        databases,
    })
}

/// Why a trace without locks cannot be done again in which a statement that writes was refused a
/// lock and stayed active over others that changed something.
fn unresolved(file: &Path, stuck: &[Stuck]) -> Result<Option<String>, TraceError> {
    if stuck.is_empty() {
        return Ok(None);
    }
    for record in Reader::open(file)? {
        if let Record::Statement(statement) = record?
            && Verb::of(&statement.sql) != Verb::Select
            && let Some(refused) = stuck.iter().find(|stuck| stuck.statement == statement.id)
        {
            return Ok(Some(format!(
                "{NOT_AGAIN}: `{}` of thread {} was refused a lock and not reset before call {} of the same connection; until it was, SQLite left open what others of its statements changed, and the lock that refused it is not there again",
                abridged(&statement.sql),
                refused.thread,
                refused.number
            )));
        }
    }
    Ok(None)
}

/// Connections by the time at which they can be opened: together with the first one of those that
/// kept their database open without a gap. Opening asks for locks, and whoever opens may hold
/// others; the first one of all finds none. Of the gaps nothing changes: closing the last
/// connection does what only that does (a checkpoint, removing the log).
#[derive(Default)]
struct Openings {
    /// Before the window: of each database, those until it was closed for the first time.
    before: Vec<(u32, u32)>,
    /// Later ones, by the first of them.
    with: HashMap<u32, Vec<(u32, u32)>>,
    databases: HashMap<u32, Opened>,
    /// Of each connection that is open, what it has open.
    databases_of: HashMap<u32, Vec<u32>>,
}

/// A database that is open, or was.
#[derive(Default)]
struct Opened {
    open: u64,
    /// Connections since it was closed, or at all.
    count: usize,
    /// The first of them, where it had been closed before.
    first: Option<u32>,
    was_closed: bool,
}

impl Openings {
    fn add(&mut self, made: &PlacedCall) {
        match made.kind {
            CallKind::Open(database) => {
                let known = self.databases.entry(database).or_default();
                if known.open == 0 {
                    known.count = 0;
                    known.first = known.was_closed.then_some(made.connection);
                }
                known.open += 1;
                known.count += 1;
                self.databases_of.insert(made.connection, vec![database]);
                if known.count > OPENED_MAX {
                    return;
                }
                match known.first {
                    None => self.before.push((made.connection, database)),
                    Some(first) if first == made.connection => {}
                    Some(first) => self.with.entry(first).or_default().push((made.connection, database)),
                }
            }
            CallKind::Attach { database, .. } => {
                self.databases.entry(database).or_default().open += 1;
                self.databases_of.entry(made.connection).or_default().push(database);
            }
            CallKind::Close => {
                for database in self.databases_of.remove(&made.connection).unwrap_or_default() {
                    let Some(known) = self.databases.get_mut(&database) else { continue };
                    known.open = known.open.saturating_sub(1);
                    known.was_closed |= known.open == 0;
                }
            }
            _ => {}
        }
    }
}

/// Threads and the connections that they use.
#[derive(Default)]
struct Threads {
    /// Of each thread, its first and last call, and how many.
    calls: HashMap<u32, (u64, u64, u64)>,
    /// In order of their first calls.
    order: Vec<u32>,
    /// Of each connection, its threads.
    users: HashMap<u32, Vec<u32>>,
}

impl Threads {
    fn add(&mut self, made: &PlacedCall) {
        let order = &mut self.order;
        let calls = self.calls.entry(made.thread).or_insert_with(|| {
            order.push(made.thread);
            (made.number, made.number, 0)
        });
        calls.1 = made.number;
        calls.2 += 1;
        let users = self.users.entry(made.connection).or_default();
        if !users.contains(&made.thread) {
            users.push(made.thread);
        }
    }

    /// The lane of each thread: one each. Where that would be too many and the trace tells times, a
    /// thread that had ended before another began shares its lane.
    fn lanes(&self, has_times: bool) -> HashMap<u32, u32> {
        if self.order.len() <= LANES_MAX || !has_times {
            return (0..).zip(&self.order).map(|(lane, thread)| (*thread, lane)).collect();
        }
        // The lanes that there are, by the end of what they do.
        let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut lanes = 0;
        let mut lane_of = HashMap::new();
        for thread in &self.order {
            let (first, last, _) = self.calls[thread];
            let lane = match ends.peek() {
                Some(Reverse((end, lane))) if *end < first => {
                    let lane = *lane;
                    ends.pop();
                    lane
                }
                _ => {
                    lanes += 1;
                    lanes - 1
                }
            };
            lane_of.insert(*thread, lane);
            ends.push(Reverse((last, lane)));
        }
        lane_of
    }

    /// Where each connection lives, and how many several lanes use.
    fn homes(self, lane_of: &HashMap<u32, u32>) -> (HashMap<u32, Home>, u32) {
        let mut users: Vec<(u32, Vec<u32>)> = self.users.into_iter().collect();
        users.sort_unstable();
        let mut shared = 0;
        let mut homes = HashMap::with_capacity(users.len());
        for (connection, threads) in users {
            let lane = lane_of[&threads[0]];
            let is_shared = threads.iter().any(|thread| lane_of[thread] != lane);
            homes.insert(connection, if is_shared { Home::Shared(shared) } else { Home::Lane(lane) });
            shared += u32::from(is_shared);
        }
        (homes, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::locks::Ties;

    fn made(connection: u32, kind: CallKind) -> PlacedCall {
        PlacedCall { number: 0, after: 0, ties: Ties::default(), start_ns: 0, thread: 0, connection, kind }
    }

    /// A database that is attached elsewhere is open: whoever opens it within the window can find
    /// it locked by one that waits for just that. (It was taken for closed.)
    #[test]
    fn what_is_attached_is_not_closed_by_the_last_connection_to_it() {
        let all = |is_attached: bool| {
            let mut openings = Openings::default();
            openings.add(&made(0, CallKind::Open(0)));
            openings.add(&made(1, CallKind::Open(1)));
            if is_attached {
                openings.add(&made(0, CallKind::Attach { database: 1, schema: "other".into() }));
            }
            openings.add(&made(1, CallKind::Close));
            openings.add(&made(2, CallKind::Open(1)));
            openings.before
        };
        assert_eq!(all(true), [(0, 0), (1, 1), (2, 1)]);
        assert_eq!(all(false), [(0, 0), (1, 1)], "the last one that closes it makes a checkpoint");
    }
}
