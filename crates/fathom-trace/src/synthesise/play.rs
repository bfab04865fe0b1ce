//! The threads of a profile at work on a clock of their own, each statement executed to know what
//! comes of it.
//!
//! Threads take turns on a database: an activity's transaction holds it until it ends. On different
//! databases they overlap. So whatever order a replay chooses among calls that overlapped, every
//! call returns the same rows.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use rusqlite::Connection;

use super::expression::{Counters, Scope, Source};
use super::fill::{BASE_MS, BoundValue, counters, fill, mistake, parameters};
use super::profile::{Item, Profile, Thread, scaled};
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::format::{Totals, Writer};
use crate::model::*;
use crate::sql::Verb;
use fathom_random::Random;

/// Durations are nominal, and only there to make an order: nothing is measured here. A call within
/// the page cache …
const CALL_NS: u64 = 20_000;
/// … each row that it returns or changes …
const ROW_NS: u64 = 1_000;
/// … and a commit, on a phone's flash memory.
const COMMIT_NS: u64 = 3_000_000;

/// Makes the trace.
pub(super) fn play(
    profile: &Profile,
    seed: u64,
    scale_percent: u32,
    writer: Writer,
) -> Result<Totals, TraceError> {
    let origin = Origin {
        how: "synthesise".into(),
        what: format!("{}, seed {seed}, scale {scale_percent} %", profile.identity()),
        unix_s: BASE_MS as u64 / 1000,
        anonymised: false,
    };
    let mut assembler = Assembler::new(writer, origin)?;
    let mut stores = Vec::new();
    for (number, database) in (0..).zip(&profile.databases) {
        let start = Start::Generator { profile: profile.identity(), seed, scale_percent };
        let id = assembler.database(database.path.as_bytes(), start, None)?;
        debug_assert_eq!(id, number);
        // On disk only as far as the memory for its pages does not suffice, and gone with the
        // connection.
        let connection = Connection::open("").map_err(|error| mistake(profile, &database.name, error))?;
        connection
            .execute_batch(
                "PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA cache_size = -65536",
            )
            .map_err(|error| mistake(profile, &database.name, error))?;
        connection.set_prepared_statement_cache_capacity(256);
        fill(profile, database, seed, scale_percent, &connection)?;
        stores.push(Store { connection, free_ns: 0, owner: None, names: HashMap::new() });
    }
    let mut play = Play {
        profile,
        seed,
        counters: counters(profile, scale_percent),
        stores,
        players: Vec::new(),
        assembler,
        waiting: BinaryHeap::new(),
        written: 0,
    };
    for (number, thread) in (0..).zip(&profile.threads) {
        play.begin(thread, number, scale_percent)?;
    }
    play.run()?;
    play.end()
}

/// A database while the trace is made.
struct Store<'p> {
    connection: Connection,
    /// When the last call on it returns.
    free_ns: u64,
    /// The thread whose transaction is open.
    owner: Option<usize>,
    /// Parameters of its statements.
    names: HashMap<&'p str, Vec<String>>,
}

/// A thread while the trace is made.
struct Player<'p> {
    thread: &'p Thread,
    random: Random,
    /// By database, the trace's number of its connection.
    connections: HashMap<usize, u32>,
    /// Prepared statements, by connection and text.
    handles: HashMap<(u32, &'p str), u32>,
    /// How often each activity with a count is still to be done.
    counted: VecDeque<(usize, i64)>,
    /// Activities that are still to be drawn.
    drawn: i64,
    ready_ns: u64,
    queue: VecDeque<Planned<'p>>,
}

impl Player<'_> {
    /// Place of the next activity: those with a count in the order of the file, then one by the
    /// shares; none at the end.
    fn choose(&mut self) -> Option<usize> {
        if let Some((place, left)) = self.counted.front_mut() {
            let place = *place;
            *left -= 1;
            if *left <= 0 {
                self.counted.pop_front();
            }
            return Some(place);
        }
        self.drawn = self.drawn.checked_sub(1).filter(|left| *left >= 0)?;
        let shares = self.thread.all.iter().map(|thread| u64::from(thread.share));
        let mut drawn = self.random.below(shares.clone().sum());
        for (place, share) in shares.enumerate() {
            if drawn < share {
                return Some(place);
            }
            drawn -= share;
        }
        None
    }

    /// Time until its next activity.
    fn think_ns(&mut self) -> u64 {
        let thread = self.thread;
        let is_rest = thread.rest_every > 0 && self.random.below(thread.rest_every) == 0;
        let mean_ms = if is_rest { thread.rest_ms } else { thread.think_ms };
        exponential(&mut self.random, mean_ms * 1_000_000)
    }
}

/// A statement to come.
struct Planned<'p> {
    database: usize,
    sql: &'p str,
    values: Vec<Value>,
    /// Time after it.
    pause_ns: u64,
}

/// An event whose turn to be written comes when no earlier one can follow.
struct Waiting {
    end_ns: u64,
    number: u64,
    connection: u32,
    start_ns: u64,
    action: Action,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        (self.end_ns, self.number).cmp(&(other.end_ns, other.number))
    }
}

struct Play<'p> {
    profile: &'p Profile,
    seed: u64,
    counters: Counters,
    stores: Vec<Store<'p>>,
    players: Vec<Player<'p>>,
    assembler: Assembler,
    waiting: BinaryHeap<Reverse<Waiting>>,
    written: u64,
}

impl<'p> Play<'p> {
    /// A thread with its connections, all at time 0.
    fn begin(&mut self, thread: &'p Thread, number: u32, scale_percent: u32) -> Result<(), TraceError> {
        const PID: u32 = 1000;
        let program = format!("{} (synthesised)", self.profile.name);
        let id = self.assembler.thread(PID, PID + number, &program)?;
        let mut connections = HashMap::new();
        for activity in &thread.all {
            let database = self.place(&activity.on);
            if let Entry::Vacant(vacant) = connections.entry(database) {
                vacant.insert(self.assembler.open(id, database as u32, 0)?);
            }
        }
        let counted = (0..).zip(&thread.all).filter(|(_, statement)| statement.count > 0);
        self.players.push(Player {
            thread,
            random: Random::stream(self.seed, "thread", u64::from(number)),
            connections,
            handles: HashMap::new(),
            counted: counted
                .map(|(place, statement)| (place, scaled(statement.count, scale_percent)))
                .collect(),
            drawn: if thread.activities == 0 { 0 } else { scaled(thread.activities, scale_percent) },
            ready_ns: 0,
            queue: VecDeque::new(),
        });
        Ok(())
    }

    /// Place of a database; reading the profile has checked that it is there.
    fn place(&self, name: &str) -> usize {
        self.profile.databases.iter().position(|database| database.name == name).unwrap_or(0)
    }

    fn run(&mut self) -> Result<(), TraceError> {
        for number in 0..self.players.len() {
            self.plan(number)?;
        }
        // The call that can begin first is next; its thread then knows its own next one.
        while let Some((start_ns, number)) = self.next() {
            self.write_until(start_ns)?;
            self.execute(number, start_ns)?;
            if self.players[number].queue.is_empty() {
                self.plan(number)?;
            }
        }
        self.write_until(u64::MAX)
    }

    fn next(&self) -> Option<(u64, usize)> {
        let start = |(number, player): (usize, &Player<'_>)| {
            let planned = player.queue.front()?;
            let store = &self.stores[planned.database];
            let is_free = store.owner.is_none_or(|owner| owner == number);
            is_free.then_some((player.ready_ns.max(store.free_ns), number))
        };
        self.players.iter().enumerate().filter_map(start).min()
    }

    /// Draws a thread's next activity with all of its values, until one has statements: of an
    /// activity all groups may be drawn with 0 times.
    fn plan(&mut self, number: usize) -> Result<(), TraceError> {
        while self.players[number].queue.is_empty() {
            let Some(place) = self.players[number].choose() else { return Ok(()) };
            let activity = &self.players[number].thread.all[place];
            let database = self.place(&activity.on);
            let scope = Scope::new(&activity.values, None);
            self.statements(number, database, &activity.statements, &scope)
                .map_err(|problem| mistake(self.profile, &format!("\"{}\"", activity.name), problem))?;
            let player = &mut self.players[number];
            let think_ns = player.think_ns();
            match player.queue.back_mut() {
                Some(last) => last.pause_ns = think_ns,
                None => player.ready_ns += think_ns,
            }
        }
        Ok(())
    }

    /// Appends statements to a thread's queue.
    fn statements(
        &mut self,
        number: usize,
        database: usize,
        items: &'p [Item],
        scope: &Scope<'_>,
    ) -> Result<(), String> {
        for item in items {
            match item {
                Item::Group(group) => {
                    let times = match scope.draw(&group.times, &mut self.source(number))? {
                        Value::Integer(times) => times,
                        _ => return Err("`times` is no number".into()),
                    };
                    for _ in 0..times {
                        let inner = Scope::new(&group.values, Some(scope));
                        self.statements(number, database, &group.statements, &inner)?;
                    }
                }
                Item::Statement(sql) => {
                    let names = self.names(database, sql).map_err(|error| format!("`{sql}`: {error}"))?;
                    let mut values = Vec::with_capacity(names.len());
                    for name in &names {
                        values.push(scope.value(name, &mut self.source(number))?);
                    }
                    let player = &mut self.players[number];
                    let pause_ns = exponential(&mut player.random, player.thread.pause_us * 1000);
                    player.queue.push_back(Planned { database, sql, values, pause_ns });
                }
            }
        }
        Ok(())
    }

    fn source(&mut self, number: usize) -> Source<'_> {
        let player = &mut self.players[number];
        Source {
            random: &mut player.random,
            counters: &mut self.counters,
            values: &self.profile.values,
            seed: self.seed,
            now_ms: BASE_MS + (player.ready_ns / 1_000_000) as i64,
            row: 0,
        }
    }

    fn names(&mut self, database: usize, sql: &'p str) -> rusqlite::Result<Vec<String>> {
        let store = &mut self.stores[database];
        if let Some(names) = store.names.get(sql) {
            return Ok(names.clone());
        }
        let names = parameters(&*store.connection.prepare_cached(sql)?);
        store.names.insert(sql, names.clone());
        Ok(names)
    }

    /// Executes a thread's next statement and notes the calls that an application makes for it.
    fn execute(&mut self, number: usize, start_ns: u64) -> Result<(), TraceError> {
        let Some(planned) = self.players[number].queue.pop_front() else { return Ok(()) };
        let Planned { database, sql, values, pause_ns } = planned;
        let store = &mut self.stores[database];
        let was_open = store.owner.is_some();
        let (rows, changes) = ask(&store.connection, sql, &values)
            .map_err(|error| mistake(self.profile, &format!("`{sql}`"), error))?;
        let in_transaction = !store.connection.is_autocommit();
        store.owner = in_transaction.then_some(number);
        let commits = match Verb::of(sql) {
            Verb::Commit => was_open,
            verb => verb.changes_rows() && !in_transaction,
        };
        let duration_ns = CALL_NS + (rows + changes) * ROW_NS + if commits { COMMIT_NS } else { 0 };
        let end_ns = start_ns + duration_ns;
        store.free_ns = end_ns;
        let statement = self.assembler.statement(sql)?;
        let player = &mut self.players[number];
        player.ready_ns = end_ns + pause_ns;
        let connection = player.connections[&database];
        let next = player.handles.len() as u32;
        let mut is_new = false;
        let handle = *player.handles.entry((connection, sql)).or_insert_with(|| {
            is_new = true;
            next
        });
        let mut note = |start_ns, end_ns, action| {
            self.waiting.push(Reverse(Waiting {
                end_ns,
                number: self.written,
                connection,
                start_ns,
                action,
            }));
            self.written += 1;
        };
        if is_new {
            let outcome = Outcome::of(OK);
            note(start_ns, start_ns, Action::Prepare { handle, statement, outcome });
        }
        for (index, value) in (1..).zip(values) {
            note(start_ns, start_ns, Action::Bind { handle, index, value });
        }
        let outcome = Outcome::of(DONE);
        let step = Step { handle, begins: true, is_counted: true, rows, changes, in_transaction, outcome };
        note(start_ns, end_ns, Action::Step(step));
        note(end_ns, end_ns, Action::Reset { handle });
        Ok(())
    }

    /// Writes the events that returned before `start_ns`: none that comes later can return before
    /// them.
    fn write_until(&mut self, start_ns: u64) -> Result<(), TraceError> {
        while let Some(Reverse(next)) = self.waiting.peek() {
            if next.end_ns > start_ns {
                break;
            }
            if let Some(Reverse(event)) = self.waiting.pop() {
                let duration_ns = event.end_ns - event.start_ns;
                self.assembler.event(event.connection, event.start_ns, duration_ns, event.action)?;
            }
        }
        Ok(())
    }

    /// Closes all connections.
    fn end(mut self) -> Result<Totals, TraceError> {
        let end_ns = self.stores.iter().map(|store| store.free_ns).max().unwrap_or(0);
        for player in std::mem::take(&mut self.players) {
            let mut handles: Vec<(u32, u32)> =
                player.handles.iter().map(|((connection, _), handle)| (*connection, *handle)).collect();
            handles.sort_unstable();
            for (connection, handle) in handles {
                self.assembler.event(connection, end_ns, 0, Action::Finalize { handle })?;
            }
            let mut connections: Vec<u32> = player.connections.into_values().collect();
            connections.sort_unstable();
            for connection in connections {
                self.assembler.close(connection, end_ns)?;
            }
        }
        self.assembler.finish()
    }
}

/// Rows returned and changed.
fn ask(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<(u64, u64)> {
    let mut statement = connection.prepare_cached(sql)?;
    for (index, value) in (1..).zip(values) {
        statement.raw_bind_parameter(index, BoundValue(value))?;
    }
    let mut returned = statement.raw_query();
    let mut rows = 0;
    while returned.next()?.is_some() {
        rows += 1;
    }
    drop(returned);
    let changes = if Verb::of(sql).changes_rows() { connection.changes() } else { 0 };
    Ok((rows, changes))
}

/// A time with an exponential distribution around its mean, at most sixteen times as long. Whole
/// numbers only, so that every machine draws the same.
fn exponential(random: &mut Random, mean_ns: u64) -> u64 {
    // -ln u = ln 2 · (-log2 u), with u = bits / 2^64.
    let minus_log2 = (64 << 32) - log2(random.bits().max(1));
    let factor = (u128::from(minus_log2) * LN2) >> 32; // 32 bits behind the point
    let factor = factor.min(16 << 32);
    ((u128::from(mean_ns) * factor) >> 32) as u64
}

/// ln 2 with 32 bits behind the point.
const LN2: u128 = 2_977_044_472;

/// log2 of a number of at least 1, with 32 bits behind the point: a bit for each squaring of the
/// mantissa.
fn log2(number: u64) -> u64 {
    let whole = 63 - u64::from(number.leading_zeros());
    let mut mantissa = u128::from(number) << (63 - whole); // 1 ≤ m < 2, 63 bits behind the point
    let mut fraction = 0;
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 63;
        fraction <<= 1;
        if mantissa >> 64 > 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    (whole << 32) | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exponential() {
        assert_eq!(log2(1 << 40), 40 << 32);
        let third = (log2(3) as f64 / 4_294_967_296.0 - 3_f64.log2()).abs();
        assert!(third < 1e-9, "{third}");
        let mut random = Random::new(1);
        let times: Vec<f64> =
            (0..100_000).map(|_| exponential(&mut random, 1_000_000) as f64 / 1e6).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let below =
            times.iter().filter(|time| **time < std::f64::consts::LN_2).count() as f64 / times.len() as f64;
        assert!((mean - 1.0).abs() < 0.02 && (below - 0.5).abs() < 0.01, "{mean} {below}");
        assert!(times.iter().all(|time| *time <= 16.0));
    }
}
