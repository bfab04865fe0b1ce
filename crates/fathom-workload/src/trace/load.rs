//! A trace in memory, as lanes of calls, and its databases put back.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use fathom_trace::model::{
    Action, Database, Event, ForeignKind, Outcome, Record, Setting, Start, Step, UNFINISHED, Value,
};
use fathom_trace::sql::{Verb, pragma};
use fathom_trace::start::{Layout, Restore};
use fathom_trace::{Reader, TraceError};

use crate::engine::Engine;

/// `SQLITE_DBCONFIG_ENABLE_FKEY`.
const ENABLE_FKEY: u32 = 1002;

/// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_INTERRUPT: what another one's timing decides.
const BY_CHANCE: [i32; 3] = [5, 6, 9];

/// A trace, ready to be done again.
pub struct Loaded {
    /// Calls of each thread, in order.
    pub lanes: Vec<Vec<Call>>,
    /// What a user must know.
    pub warnings: Vec<String>,
    /// Functions, collations and modules of the application, for messages.
    pub foreign: Vec<String>,
}

/// A call.
pub struct Call {
    /// Place in the order in which calls returned.
    pub number: u64,
    /// Calls with smaller numbers must be done before.
    pub after: u64,
    /// When it began, ns since the trace's time 0.
    pub start_ns: u64,
    /// The trace's number of the connection.
    pub connection: u32,
    /// What is done.
    pub what: What,
}

/// What is done.
pub enum What {
    /// Opens the database called so.
    Open(String),
    Prepare {
        handle: u32,
        sql: Arc<str>,
        outcome: Outcome,
    },
    Bind {
        handle: u32,
        index: u32,
        value: Value,
    },
    ClearBindings {
        handle: u32,
    },
    Step {
        step: Step,
        sql: Arc<str>,
    },
    Reset {
        handle: u32,
    },
    Finalize {
        handle: u32,
    },
    /// A statement without result: a setting or checkpoint that was made by a call.
    Script(String),
    /// Attaches the database called so.
    Attach {
        name: String,
        schema: String,
    },
    Close,
}

impl What {
    /// Whether it only gives something back.
    fn is_an_end(&self) -> bool {
        matches!(self, What::Close | What::Finalize { .. } | What::Reset { .. } | What::ClearBindings { .. })
    }
}

/// Reads a trace and puts its databases into `directory`.
pub fn load(file: &Path, engine: &dyn Engine, directory: &Path) -> Result<Loaded, TraceError> {
    let mut load = Load {
        engine,
        directory,
        restore: Restore::default(),
        databases: HashMap::new(),
        statements: HashMap::new(),
        connections: HashMap::new(),
        left_out: HashSet::new(),
        calls: Vec::new(),
        skipped: HashMap::new(),
        foreign: Vec::new(),
        attaching: HashMap::new(),
        has_times: false,
    };
    for record in Reader::open(file)? {
        load.record(record?)?;
    }
    load.finish()
}

struct Load<'a> {
    engine: &'a dyn Engine,
    directory: &'a Path,
    restore: Restore,
    databases: HashMap<u32, Database>,
    statements: HashMap<u32, Arc<str>>,
    connections: HashMap<u32, HashMap<u32, Handle>>,
    /// Connections to databases in memory.
    left_out: HashSet<u32>,
    /// All calls with thread and time of return.
    calls: Vec<(u32, u64, Call)>,
    skipped: HashMap<&'static str, u64>,
    foreign: Vec<String>,
    attaching: HashMap<u32, (String, String)>,
    has_times: bool,
}

/// A prepared statement, and whether it is done again.
struct Handle {
    sql: Arc<str>,
    is_skipped: bool,
}

/// Name of the engine's database for a database of the trace.
fn name_of(database: u32) -> String {
    format!("trace-{database}")
}

impl Load<'_> {
    fn record(&mut self, record: Record) -> Result<(), TraceError> {
        match record {
            Record::Database(database) => {
                let path = self.directory.join(format!("{}.db", name_of(database.id)));
                self.restore.database(&database, &path)?;
                self.databases.insert(database.id, database);
            }
            Record::Content(content) => self.restore.content(&content)?,
            Record::Statement(statement) => drop(self.statements.insert(statement.id, statement.sql.into())),
            Record::Event(event) => self.event(event),
            _ => {}
        }
        Ok(())
    }

    fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    fn event(&mut self, event: Event) {
        let Event { thread, connection, start_ns, duration_ns, action } = event;
        self.has_times |= duration_ns > 0;
        if self.left_out.contains(&connection) {
            if matches!(&action, Action::Step(step) if step.begins) {
                self.skip("executions on databases in memory");
            }
            return;
        }
        let Some(what) = self.what(connection, action) else { return };
        let number = self.calls.len() as u64;
        let call = Call { number, after: 0, start_ns, connection, what };
        self.calls.push((thread, start_ns.saturating_add(duration_ns), call));
    }

    /// What is to be done for a call; none where nothing is.
    fn what(&mut self, connection: u32, action: Action) -> Option<What> {
        match action {
            Action::Open { database, outcome, .. } => {
                let is_memory = self.databases.get(&database).is_none_or(|it| it.start == Start::Memory);
                if is_memory || outcome.is_error() {
                    self.left_out.insert(connection);
                    return None;
                }
                self.connections.insert(connection, HashMap::new());
                Some(What::Open(name_of(database)))
            }
            Action::Prepare { handle, statement, outcome } => {
                let sql = self.statements.get(&statement)?.clone();
                let by_chance = BY_CHANCE.contains(&(outcome.code & 0xff)) && outcome.is_error();
                let is_skipped = self.is_the_cells(&sql) || by_chance;
                let entry = Handle { sql: sql.clone(), is_skipped };
                self.connections.get_mut(&connection)?.insert(handle, entry);
                (!is_skipped).then_some(What::Prepare { handle, sql, outcome })
            }
            Action::Attach { schema, database } => {
                self.attaching.insert(connection, (schema, name_of(database)));
                None
            }
            Action::Step(step) => {
                let handle = self.connections.get(&connection)?.get(&step.handle)?;
                let (sql, is_skipped) = (handle.sql.clone(), handle.is_skipped);
                if is_skipped {
                    self.skip("PRAGMAs of what the cell sets");
                    return None;
                }
                if let Some((schema, name)) = self.attaching.remove(&connection) {
                    return Some(What::Attach { name, schema });
                }
                if step.outcome.code == UNFINISHED {
                    self.skip("executions within which their process was killed");
                    return None;
                }
                if step.outcome.is_error() && BY_CHANCE.contains(&(step.outcome.code & 0xff)) {
                    self.skip("executions that another connection's lock or an interrupt refused");
                    return None;
                }
                Some(What::Step { step, sql })
            }
            Action::Bind { handle, index, value } => {
                self.is_done(connection, handle).then_some(What::Bind { handle, index, value })
            }
            Action::ClearBindings { handle } => {
                self.is_done(connection, handle).then_some(What::ClearBindings { handle })
            }
            Action::Reset { handle } => self.is_done(connection, handle).then_some(What::Reset { handle }),
            Action::Finalize { handle } => {
                let done = self.is_done(connection, handle);
                self.connections.get_mut(&connection)?.remove(&handle);
                done.then_some(What::Finalize { handle })
            }
            Action::Close { outcome } => {
                if outcome.is_error() {
                    return None;
                }
                self.connections.remove(&connection);
                Some(What::Close)
            }
            Action::Setting { setting, value } => {
                let (name, value) = match setting {
                    Setting::BusyTimeout => return None, // always the cell's
                    Setting::WalAutocheckpoint => ("wal_autocheckpoint", value),
                    Setting::DbConfig(ENABLE_FKEY) => ("foreign_keys", value),
                    Setting::DbConfig(_) => return None,
                };
                (!self.engine.sets(name)).then(|| What::Script(format!("PRAGMA {name} = {value}")))
            }
            Action::Checkpoint { schema, mode, .. } => {
                const MODES: [&str; 4] = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"];
                let mode = MODES.get(mode as usize).unwrap_or(&"PASSIVE");
                let schema = if schema.is_empty() {
                    String::new()
                } else {
                    format!("\"{}\".", schema.replace('"', "\"\""))
                };
                Some(What::Script(format!("PRAGMA {schema}wal_checkpoint({mode})")))
            }
            Action::Foreign(foreign) => {
                if foreign.kind == ForeignKind::Call {
                    self.skip("calls that change data without SQL (see fathom trace info)");
                }
                let name = format!("{} {}", foreign.kind.name(), foreign.name);
                if !self.foreign.contains(&name) {
                    self.foreign.push(name);
                }
                None
            }
        }
    }

    fn is_done(&self, connection: u32, handle: u32) -> bool {
        self.connections
            .get(&connection)
            .and_then(|it| it.get(&handle))
            .is_some_and(|handle| !handle.is_skipped)
    }

    /// Whether a statement sets what the cell sets.
    fn is_the_cells(&self, sql: &str) -> bool {
        pragma(sql).is_some_and(|(name, value)| {
            value.is_some() && (name == "busy_timeout" || self.engine.sets(&name))
        })
    }

    fn finish(mut self) -> Result<Loaded, TraceError> {
        let page_bytes = self.engine.info().settings.get("page_size").and_then(|bytes| bytes.parse().ok());
        std::mem::take(&mut self.restore).finish(Layout { page_bytes })?;
        let mut warnings: Vec<String> =
            self.skipped.iter().map(|(why, count)| format!("left out: {count} {why}")).collect();
        warnings.sort();
        let lanes = self.lanes(&mut warnings);
        Ok(Loaded { lanes, warnings, foreign: self.foreign })
    }

    /// Threads that share no connection, each with its calls and what they wait for.
    fn lanes(&mut self, warnings: &mut Vec<String>) -> Vec<Vec<Call>> {
        let mut threads: HashMap<u32, usize> = HashMap::new(); // of each thread, its group
        let mut connections: HashMap<u32, usize> = HashMap::new();
        let mut groups: Vec<usize> = Vec::new(); // of each group, the one that it became part of
        fn root(groups: &[usize], mut group: usize) -> usize {
            while groups[group] != group {
                group = groups[group];
            }
            group
        }
        for (thread, _, call) in &self.calls {
            // A program that collects its garbage closes connections on whatever thread does that.
            if connections.contains_key(&call.connection) && call.what.is_an_end() {
                continue;
            }
            let of_thread = *threads.entry(*thread).or_insert_with(|| {
                groups.push(groups.len());
                groups.len() - 1
            });
            let of_connection = *connections.entry(call.connection).or_insert(of_thread);
            let (a, b) = (root(&groups, of_thread), root(&groups, of_connection));
            groups[a.max(b)] = a.min(b);
        }
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut lanes: Vec<Vec<Call>> = Vec::new();
        self.wait_for();
        for (_, _, call) in self.calls.drain(..) {
            let group = root(&groups, connections[&call.connection]);
            let lane = *numbers.entry(group).or_insert_with(|| {
                lanes.push(Vec::new());
                lanes.len() - 1
            });
            lanes[lane].push(call);
        }
        if lanes.len() < threads.len() {
            warnings.push(format!(
                "{} threads are replayed as {}: those that used a connection in turns are one",
                threads.len(),
                lanes.len()
            ));
        }
        lanes
    }

    /// Fills in what each call waits for.
    fn wait_for(&mut self) {
        if !self.has_times {
            return;
        }
        // Returns are in order but for those of rows that were counted later, so the largest so far is taken.
        let mut returned: Vec<u64> = Vec::with_capacity(self.calls.len());
        let mut last_write = 0;
        for (_, return_ns, call) in &mut self.calls {
            call.after = returned.partition_point(|at| *at <= call.start_ns) as u64;
            if let What::Step { step, sql } = &call.what
                && (Verb::of(sql) != Verb::Select || step.in_transaction)
            {
                call.after = call.after.max(last_write);
                last_write = call.number + 1;
            }
            returned.push((*return_ns).max(returned.last().copied().unwrap_or(0)));
        }
    }
}
