//! From a trace's events to the calls of a replay: which are made, on which connection and
//! statement, and what they wait for.
//!
//! The trace is read twice, and both readings go through here, so that both number the calls alike.
//! What is remembered grows with what is open at one time (connections, prepared statements, texts
//! that will be prepared again), never with the length of the trace.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use fathom_trace::confine::{MEANING, PRAGMAS};
use fathom_trace::model::{
    Action, Blob, BlobCall, Database, Event, Exit, Foreign, ForeignKind, Lock, Outcome, Process, Setting,
    Start, Statement, Step, Thread, UNFINISHED, Value,
};
use fathom_trace::reuse::PreparationCounts;
use fathom_trace::sql::{Attach, Target, Verb, detached, is_key_pragma, pragma, tokens};

use super::locks::{LockHistory, Locks, Ties};
use crate::engine::Engine;

/// `SQLITE_OPEN_SHAREDCACHE`.
const SHARED_CACHE: u32 = 0x2_0000;
/// `SQLITE_DBCONFIG_ENABLE_FKEY`.
const ENABLE_FKEY: u32 = 1002;
/// `SQLITE_DBCONFIG_RESET_DATABASE`, after which VACUUM empties a database, and
/// `SQLITE_DBCONFIG_WRITABLE_SCHEMA`.
const RESETS: [u32; 2] = [1009, 1011];

/// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_INTERRUPT: what another one's timing decides. So does
/// SQLITE_ABORT itself (ABORT_ROLLBACK does not): without a journal a commit that was refused
/// leaves a page cache that nobody may use.
fn is_by_chance(code: i32) -> bool {
    matches!(code & 0xff, 5 | 6 | 9) || code == 4
}

/// SQLITE_READONLY.
const READ_ONLY: i32 = 8;

/// `SQLITE_CONSTRAINT_COMMITHOOK`: the application's own hook has rolled the transaction back.
const COMMIT_HOOK: i32 = 531;

/// Calls whose times of return are remembered. A call that began before all of them had returned
/// waits for those that are forgotten too: more than it must, and never for one that returned after
/// it.
const RETURNS_MAX: usize = 1 << 16;

/// A call as it stands in the trace.
#[derive(Debug)]
pub struct PlacedCall {
    /// Place in the order in which calls returned.
    pub number: u64,
    /// Calls with smaller numbers had returned before it began.
    pub after: u64,
    /// What it waits for and gives, by the locks that were captured.
    pub ties: Ties,
    /// When it began, ns since the trace's time 0.
    pub start_ns: u64,
    /// The trace's number of the thread. A call that only gives something back is of the thread
    /// that used the connection before: a program that collects its garbage closes connections on
    /// whatever thread does that.
    pub thread: u32,
    /// The trace's number of the connection.
    pub connection: u32,
    /// What is done.
    pub kind: CallKind,
}

/// What is done. Handles number the statements that are prepared on a connection at the same time.
#[derive(Debug)]
pub enum CallKind {
    /// Opens the database with this number.
    Open(u32),
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
        /// A checkpoint: it does what can be done without waiting, because what it waited for is
        /// done.
        is_checkpoint: bool,
    },
    /// Takes a snapshot of the database with this schema name.
    Hold {
        schema: String,
    },
    /// Lets it go.
    Release,
    /// What an interrupted statement did to its transaction.
    Rollback,
    /// A step that is refused a lock, after which the statement stays active.
    Refuse {
        handle: u32,
    },
    Reset {
        handle: u32,
    },
    Finalize {
        handle: u32,
    },
    /// A statement without result: a setting that was made by a call.
    Script(String),
    /// Turns what statements mean on or off (`sqlite3_db_config`).
    Meaning {
        option: u32,
        is_on: bool,
    },
    /// A checkpoint that was made by a call: as much of it as the others' locks allow.
    Checkpoint(String),
    /// Attaches the database with this number.
    Attach {
        database: u32,
        schema: String,
    },
    /// A call on an incremental blob, numbered as in the trace.
    Blob(Blob),
    Close,
}

impl CallKind {
    /// Whether it only gives something back.
    pub fn is_an_end(&self) -> bool {
        matches!(
            self,
            CallKind::Close
                | CallKind::Finalize { .. }
                | CallKind::Reset { .. }
                | CallKind::ClearBindings { .. }
                | CallKind::Blob(Blob { call: BlobCall::Close, .. })
        )
    }
}

/// A statement that got SQLITE_BUSY and was not reset is still active. If it is one that writes,
/// SQLite commits nothing of other statements of its connection by itself until it is reset, and
/// then rolls back what they changed. So it is refused again ([`CallKind::Refuse`]). Where a trace
/// tells no locks, it is not known whether it was refused when it began or when it had ended, after
/// which it is active no longer.
#[derive(Clone, Copy, Debug)]
pub struct Stuck {
    /// The statement that was refused.
    pub statement: u32,
    /// The thread that made it, and the call of another statement before which it was not reset.
    pub thread: u32,
    pub number: u64,
}

/// A statement that was refused and is not reset.
#[derive(Clone, Copy, Debug)]
struct Refused {
    handle: u32,
    statement: u32,
    /// The number of its step.
    step: u64,
}

/// Such statements that are kept for a message.
const STUCK_MAX: usize = 100;

/// Whether texts that are prepared once are known already.
pub enum Reading {
    /// The first: counts preparations, and keeps no texts.
    First(PreparationCounts),
    /// The second: forgets a text after its only preparation, and knows whether the trace tells
    /// times and locks, and which steps (by their numbers) are refused again.
    Second { prepared: PreparationCounts, has_times: bool, past: Box<LockHistory>, refused: HashSet<u64> },
}

impl Reading {
    /// What the first one has found of locks.
    pub fn past(&self) -> Option<&LockHistory> {
        match self {
            Reading::First(_) => None,
            Reading::Second { past, .. } => Some(past),
        }
    }
}

/// The state of a reading.
pub struct Translator<'a> {
    engine: &'a dyn Engine,
    reading: Reading,
    /// Databases in memory.
    in_memory: HashSet<u32>,
    /// Texts that will be prepared (again).
    statements: HashMap<u32, Text>,
    /// Statements that set what the cell sets.
    the_cells: HashSet<u32>,
    /// PRAGMAs of encryption, where the cell has none.
    encryption: HashSet<u32>,
    /// Statements that bring a tokenizer of the application, by the address of its code (`SELECT
    /// fts3_tokenizer(name, address)`).
    tokenizers: HashSet<u32>,
    /// Statements that attach a file. They are not prepared: the replay attaches its own.
    attaches: HashSet<u32>,
    /// Statements that detach a database, with its schema's name.
    detaches: HashMap<u32, String>,
    /// Statements that make a checkpoint.
    checkpoints: HashSet<u32>,
    /// Statements that begin a transaction.
    begins: HashSet<u32>,
    connections: HashMap<u32, Connection>,
    /// Connections to databases in memory, as long as they are open.
    left_out: HashSet<u32>,
    attaching: HashMap<u32, (String, u32)>,
    /// Process of each thread.
    processes: HashMap<u32, u32>,
    /// Of each process that runs and was forked, the other one; and how many of its children run.
    parents: HashMap<u32, u32>,
    children: HashMap<u32, u32>,
    locks: Locks,
    /// Made with the present record, after what it gave.
    more: VecDeque<PlacedCall>,
    calls: u64,
    /// Steps so far, done again or not.
    steps: u64,
    /// Those of statements that were refused a lock and not reset before another one's of their
    /// connection.
    refused_steps: HashSet<u64>,
    order: Returns,
    /// What is not done again, and how often.
    pub skipped: HashMap<&'static str, u64>,
    /// Functions, collations and modules of the application, for messages.
    pub foreign: Vec<String>,
    /// Whether a statement limits the pages of a database, so that one is full in a replay, too.
    limits_pages: bool,
    /// Whether the trace tells times.
    pub has_times: bool,
    /// What of the trace cannot be done again at all.
    pub refused: Option<String>,
    /// Whether connections share a cache. Among each other these take no locks of the file, so its
    /// locks tell no order.
    pub shares_cache: bool,
    /// Statements that were refused a lock and stayed so, where another one of their connection
    /// changed something meanwhile (see [`Stuck`]).
    pub stuck: Vec<Stuck>,
}

#[derive(Clone)]
struct Text {
    sql: Arc<str>,
    verb: Verb,
}

impl Text {
    fn writes(&self) -> bool {
        self.verb != Verb::Select
    }
}

/// Whether SQLite commits nothing by itself while such a statement is active, which was refused the
/// lock to write.
fn is_a_writer(verb: Verb) -> bool {
    matches!(verb, Verb::Insert | Verb::Update | Verb::Delete | Verb::Begin | Verb::Schema)
}

/// Whether a statement creates or drops something.
fn changes_schema(sql: &str) -> bool {
    let mut words = tokens(sql).filter(|token| !token.is_blank());
    words.next().is_some_and(|first| first.is("create") || first.is("drop"))
}

#[derive(Default)]
struct Connection {
    /// The thread that used it last.
    thread: u32,
    in_transaction: bool,
    /// Handles that were refused a lock and are not reset.
    refused: Vec<Refused>,
    /// Schema names of the databases: main and what is attached.
    schemas: Vec<(u32, String)>,
    /// By the trace's number.
    handles: HashMap<u32, Handle>,
    /// Numbers that are free again, below `numbers`.
    free: Vec<u32>,
    numbers: u32,
    /// Blobs that are open, and whether they may be written.
    blobs: HashMap<u32, bool>,
}

/// A prepared statement: its number in the replay, none where it is not done again.
struct Handle {
    number: Option<u32>,
    writes: bool,
    /// See [`is_a_writer`].
    is_a_writer: bool,
    attaches: bool,
    brings_tokenizer: bool,
    is_checkpoint: bool,
    statement: u32,
    /// Its text, where it changes the schema.
    schema_sql: Option<Arc<str>>,
}

impl Connection {
    fn add(&mut self, handle: u32, is_skipped: bool, text: &Text) -> Option<u32> {
        // A number that the trace uses again without finalising it (an error came between) stays
        // the same here.
        let known = self.handles.get(&handle).and_then(|handle| handle.number);
        let number = (!is_skipped).then(|| {
            known.or_else(|| self.free.pop()).unwrap_or_else(|| {
                self.numbers += 1;
                self.numbers - 1
            })
        });
        if is_skipped && let Some(known) = known {
            self.free.push(known);
        }
        let entry = Handle {
            number,
            writes: text.writes(),
            is_a_writer: is_a_writer(text.verb),
            attaches: false,
            brings_tokenizer: false,
            is_checkpoint: false,
            statement: 0,
            schema_sql: None,
        };
        self.handles.insert(handle, entry);
        number
    }

    fn number(&self, handle: u32) -> Option<u32> {
        self.handles.get(&handle)?.number
    }
}

impl<'a> Translator<'a> {
    /// Before the first record.
    pub fn new(engine: &'a dyn Engine, mut reading: Reading) -> Translator<'a> {
        let locks = match &mut reading {
            Reading::First(_) => Locks::first(),
            Reading::Second { past, .. } => {
                let journal_mode = engine.info().settings.remove("journal_mode");
                Locks::second(std::mem::take(&mut **past), journal_mode.as_deref() == Some("wal"))
            }
        };
        Translator {
            engine,
            reading,
            in_memory: HashSet::new(),
            statements: HashMap::new(),
            the_cells: HashSet::new(),
            encryption: HashSet::new(),
            tokenizers: HashSet::new(),
            attaches: HashSet::new(),
            detaches: HashMap::new(),
            checkpoints: HashSet::new(),
            begins: HashSet::new(),
            refused: None,
            shares_cache: false,
            stuck: Vec::new(),
            connections: HashMap::new(),
            left_out: HashSet::new(),
            attaching: HashMap::new(),
            processes: HashMap::new(),
            parents: HashMap::new(),
            children: HashMap::new(),
            locks,
            more: VecDeque::new(),
            calls: 0,
            steps: 0,
            refused_steps: HashSet::new(),
            order: Returns::default(),
            skipped: HashMap::new(),
            foreign: Vec::new(),
            limits_pages: false,
            has_times: false,
        }
    }

    /// What the second reading needs of the first.
    pub fn into_second(self) -> Reading {
        let has_times = self.has_times;
        let void = self.shares_cache.then(LockHistory::void);
        let past = Box::new(void.unwrap_or_else(|| self.locks.into_past()));
        let refused = self.refused_steps;
        match self.reading {
            Reading::First(prepared) | Reading::Second { prepared, .. } => {
                Reading::Second { prepared, has_times, past, refused }
            }
        }
    }

    /// What came with the present record beside what it gave.
    pub fn more(&mut self) -> Option<PlacedCall> {
        self.more.pop_front()
    }

    /// A thread.
    pub fn thread(&mut self, thread: &Thread) {
        self.processes.insert(thread.id, thread.process);
    }

    /// A process, forked by another one or not.
    pub fn process(&mut self, process: &Process) {
        if let Some(parent) = process.parent {
            self.parents.insert(process.id, parent);
            *self.children.entry(parent).or_default() += 1;
        }
    }

    /// A lock: the snapshot that a call takes which others overtook, if it is one.
    pub fn lock(&mut self, lock: Lock) -> Option<PlacedCall> {
        if self.left_out.contains(&lock.connection) || self.locks.is_void() {
            return None;
        }
        let held = self.locks.add(lock)?;
        let schemas = &self.connections.get(&lock.connection)?.schemas;
        let schema = schemas.iter().find(|(database, _)| *database == held.database)?.1.clone();
        let kind = CallKind::Hold { schema };
        Some(self.make(lock.thread, lock.connection, lock.at_ns, lock.at_ns, false, kind, held.ties))
    }

    /// A process has ended: the system has closed what it left open.
    pub fn exit(&mut self, exit: &Exit) {
        if let Some(parent) = self.parents.remove(&exit.process)
            && let Some(children) = self.children.get_mut(&parent)
        {
            *children -= 1;
        }
        // A child may use them still.
        if self.children.remove(&exit.process).is_some_and(|children| children > 0) {
            return;
        }
        let mut open: Vec<(u32, u32)> = self
            .connections
            .iter()
            .filter(|(_, state)| self.processes.get(&state.thread) == Some(&exit.process))
            .map(|(connection, state)| (*connection, state.thread))
            .collect();
        open.sort_unstable();
        for (connection, thread) in open {
            self.connections.remove(&connection);
            let ties = self.locks.close(connection);
            let made = self.make(thread, connection, exit.at_ns, exit.at_ns, false, CallKind::Close, ties);
            self.more.push_back(made);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a call")]
    fn make(
        &mut self,
        thread: u32,
        connection: u32,
        start_ns: u64,
        return_ns: u64,
        writes: bool,
        kind: CallKind,
        ties: Ties,
    ) -> PlacedCall {
        let number = self.calls;
        self.calls += 1;
        let has_locks = self.locks.has_locks();
        let mut after = match self.reading {
            Reading::Second { has_times: true, .. } => {
                self.order.add(number, start_ns, return_ns, writes && !has_locks)
            }
            _ => 0,
        };
        // Whoever holds a lock waits for what locks tell, and for no other's time.
        if has_locks && (matches!(kind, CallKind::Hold { .. } | CallKind::Release) || kind.is_an_end()) {
            after = 0;
        }
        PlacedCall { number, after, ties, start_ns, thread, connection, kind }
    }

    /// Whether the trace tells locks; known after the first reading.
    pub fn has_locks(&self) -> bool {
        self.locks.has_locks()
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Texts that are remembered.
    #[cfg(test)]
    pub fn texts(&self) -> usize {
        self.statements.len()
    }

    /// A database.
    pub fn database(&mut self, database: &Database) {
        if database.start == Start::Memory {
            self.in_memory.insert(database.id);
        }
    }

    /// A statement's text.
    pub fn statement(&mut self, statement: Statement) {
        let Statement { id, sql } = statement;
        // Foreign keys decide what a statement does, so they are the application's.
        let is_the_cells = pragma(&sql).is_some_and(|(name, value)| {
            let is_left =
                name == "busy_timeout" || self.engine.sets(&name) || PRAGMAS.contains(&name.as_str());
            value.is_some() && name != "foreign_keys" && is_left
        });
        self.limits_pages |=
            pragma(&sql).is_some_and(|(name, value)| name == "max_page_count" && value.is_some());
        if pragma(&sql).is_some_and(|(name, _)| name == "wal_checkpoint") {
            self.checkpoints.insert(id);
        }
        if Attach::of(&sql).is_some_and(|attach| attach.target != Target::Memory) {
            self.attaches.insert(id);
        }
        if let Some(schema) = detached(&sql) {
            self.detaches.insert(id, schema);
        }
        // They return rows, and a library that does not encrypt knows none of them.
        let is_of_encryption = pragma(&sql).is_some_and(|(name, _)| {
            is_key_pragma(&sql) || name.starts_with("cipher_") || name.ends_with("kdf_iter")
        });
        if is_of_encryption && !self.engine.sets("key") {
            self.encryption.insert(id);
        }
        if is_the_cells {
            self.the_cells.insert(id);
        }
        if brings_tokenizer(&sql) {
            self.tokenizers.insert(id);
        }
        let verb = Verb::of(&sql);
        if verb == Verb::Begin {
            self.begins.insert(id);
        }
        if let Reading::Second { prepared, .. } = &self.reading
            && prepared.has(id)
        {
            self.statements.insert(id, Text { verb, sql: sql.into() });
        }
    }

    fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Why a call failed that does not in a replay: the application's machine had no room or memory
    /// or a broken device, or code of its own refused it. None where a replay comes to the same.
    fn refused_there(&self, outcome: &Outcome) -> Option<&'static str> {
        match outcome.code & 0xff {
            _ if !outcome.is_error() => None,
            // SQLITE_AUTH.
            23 => Some("calls that the application's own authorizer or commit hook refused"),
            _ if outcome.code == COMMIT_HOOK => {
                Some("calls that the application's own authorizer or commit hook refused")
            }
            // SQLITE_FULL.
            13 if self.limits_pages => None,
            // And SQLITE_NOMEM, IOERR, CANTOPEN, PROTOCOL.
            7 | 10 | 13 | 14 | 15 => {
                Some("calls that failed for want of room, memory or files, or at the device")
            }
            _ => None,
        }
    }

    /// The call that an event becomes, if any.
    pub fn event(&mut self, event: Event) -> Option<PlacedCall> {
        let Event { thread, connection, start_ns, duration_ns, action } = event;
        self.has_times |= duration_ns > 0;
        if self.left_out.contains(&connection) {
            match &action {
                Action::Step(step) if step.begins => self.skip("executions on databases in memory"),
                Action::Close { outcome } if !outcome.is_error() => drop(self.left_out.remove(&connection)),
                Action::Prepare { statement, .. } => drop(self.text(*statement)),
                _ => {}
            }
            return None;
        }
        let writes = match &action {
            Action::Step(step) => step.in_transaction || self.writes(connection, step.handle),
            Action::Blob(blob) => blob.in_transaction || self.writes_blob(connection, blob),
            _ => false,
        };
        let closes = matches!(&action, Action::Close { outcome } if !outcome.is_error());
        let may_lock = matches!(
            &action,
            Action::Prepare { .. }
                | Action::Step(_)
                | Action::Reset { .. }
                | Action::Finalize { .. }
                | Action::Checkpoint { .. }
        );
        let user = self.connections.get(&connection).map(|connection| connection.thread);
        let kind = self.kind(connection, action);
        let is_an_end = kind.as_ref().is_some_and(CallKind::is_an_end);
        let is_checkpoint =
            matches!(&kind, Some(CallKind::Step { is_checkpoint: true, .. } | CallKind::Checkpoint(_)));
        let thread = user.filter(|_| is_an_end).unwrap_or(thread);
        if let Some(state) = self.connections.get_mut(&connection) {
            state.thread = thread;
        }
        // What a call waits for is found before its locks are the thread's.
        let held_before = self.locks.holds(thread, connection);
        let mut ties = match (closes, may_lock) {
            (true, _) => self.locks.close(connection),
            // A checkpoint takes locks and changes nothing that is read; of several databases it
            // takes them one after the other, while others go on between. So it has no place in
            // their order.
            (_, true) => {
                let is_again =
                    kind.is_some() && !is_checkpoint && !matches!(kind, Some(CallKind::Refuse { .. }));
                self.locks.call(connection, start_ns, is_again)
            }
            _ => Ties::default(),
        };
        if ties.ended_a_write
            && let Some(state) = self.connections.get_mut(&connection)
        {
            // It was refused when it wanted to commit: that has ended state. BEGIN EXCLUSIVE was
            // refused its last lock.
            let begins = &self.begins;
            state.refused.retain(|refusal| refusal.step != self.steps || begins.contains(&refusal.statement));
        }
        let kind = kind?;
        if is_checkpoint {
            self.locks.checkpoint(&mut ties);
        }
        let mut before = self.compiled_again(thread, connection, start_ns, &kind, &mut ties);
        let is_held = ties.is_held;
        let return_ns = start_ns.saturating_add(duration_ns);
        let mut made = self.make(thread, connection, start_ns, return_ns, writes, kind, ties);
        if held_before {
            made.after = 0;
        }
        if let Some(first) = before.first_mut() {
            // It waits for all.
            first.after = std::mem::take(&mut made.after);
            before.push(made);
            made = before.remove(0);
            self.more.extend(before);
        }
        if is_held {
            let release = CallKind::Release;
            let made = self.make(thread, connection, return_ns, return_ns, false, release, Ties::default());
            self.more.push_back(made);
        }
        Some(made)
    }

    /// A statement that changes the schema and had nothing to do (`CREATE … IF NOT EXISTS`).
    /// Compiled when the connection knew an older schema, it asks for the lock to write, which
    /// another one may hold now; so the schema is looked at when what it saw is there, and it is
    /// compiled again.
    fn compiled_again(
        &mut self,
        thread: u32,
        connection: u32,
        start_ns: u64,
        kind: &CallKind,
        ties: &mut Ties,
    ) -> Vec<PlacedCall> {
        let CallKind::Step { step, .. } = kind else { return Vec::new() };
        let known = self.connections.get(&connection).filter(|_| ties.only_reads && step.begins);
        let Some(known) = known else { return Vec::new() };
        let mut ours = known.handles.values().filter(|handle| handle.number == Some(step.handle));
        let Some(sql) = ours.find_map(|sql| sql.schema_sql.clone()) else { return Vec::new() };
        let schema = |looked: &u32| known.schemas.iter().find(|(database, _)| database == looked);
        let schemas = ties.looks_at.iter().filter_map(schema);
        let mut all: Vec<CallKind> =
            schemas.map(|(_, name)| CallKind::Hold { schema: name.clone() }).collect();
        if !all.is_empty() && !ties.is_held {
            all.push(CallKind::Release);
        }
        all.push(CallKind::Prepare { handle: step.handle, sql, outcome: Outcome::of(0) });
        let mut needs = std::mem::take(&mut ties.needs);
        let mut made = |kind| {
            let ties = Ties { needs: std::mem::take(&mut needs), ..Ties::default() };
            self.make(thread, connection, start_ns, start_ns, false, kind, ties)
        };
        all.into_iter().map(&mut made).collect()
    }

    fn writes(&self, connection: u32, handle: u32) -> bool {
        let handle = self.connections.get(&connection).and_then(|connection| connection.handles.get(&handle));
        handle.is_none_or(|handle| handle.writes)
    }

    /// Whether a blob is open for writing: its connection then holds a transaction.
    fn writes_blob(&self, connection: u32, blob: &Blob) -> bool {
        match blob.call {
            BlobCall::Open { writes, .. } => writes,
            _ => self
                .connections
                .get(&connection)
                .is_some_and(|attach| attach.blobs.get(&blob.blob) == Some(&true)),
        }
    }

    /// A text that is being prepared; one that will not be again is forgotten.
    fn text(&mut self, statement: u32) -> Option<Text> {
        match &mut self.reading {
            Reading::First(prepared) => {
                prepared.add(statement);
                Some(Text { sql: Arc::default(), verb: Verb::Select })
            }
            Reading::Second { prepared, .. } if prepared.is_repeated(statement) => {
                self.statements.get(&statement).cloned()
            }
            Reading::Second { .. } => self.statements.remove(&statement),
        }
    }

    /// What is to be done for an action; none where nothing is.
    fn kind(&mut self, connection: u32, action: Action) -> Option<CallKind> {
        match action {
            Action::Open { database, flags, outcome, .. } => {
                if self.in_memory.contains(&database) || outcome.is_error() {
                    self.left_out.insert(connection);
                    return None;
                }
                self.shares_cache |= flags & SHARED_CACHE != 0;
                let schemas = vec![(database, "main".to_owned())];
                self.connections.insert(connection, Connection { schemas, ..Connection::default() });
                Some(CallKind::Open(database))
            }
            Action::Prepare { handle, statement, outcome } => {
                let text = self.text(statement)?;
                let is_the_cells =
                    self.the_cells.contains(&statement) || self.encryption.contains(&statement);
                let refused = self.refused_there(&outcome);
                refused.into_iter().for_each(|why| self.skip(why));
                let by_chance = refused.is_some() || (outcome.is_error() && is_by_chance(outcome.code));
                let attaches = self.attaches.contains(&statement);
                let brings_tokenizer = self.tokenizers.contains(&statement);
                let is_skipped = is_the_cells || by_chance || attaches || brings_tokenizer;
                let is_checkpoint = self.checkpoints.contains(&statement);
                let entry = self.connections.get_mut(&connection)?;
                let number = entry.add(handle, is_skipped, &text);
                if let Some(handle) = entry.handles.get_mut(&handle) {
                    (handle.attaches, handle.brings_tokenizer) = (attaches, brings_tokenizer);
                    handle.is_checkpoint = is_checkpoint;
                    handle.statement = statement;
                    handle.schema_sql = changes_schema(&text.sql).then(|| Arc::clone(&text.sql));
                }
                let number = number?;
                Some(CallKind::Prepare { handle: number, sql: text.sql, outcome })
            }
            Action::Attach { schema, database } => {
                self.attaching.insert(connection, (schema, database));
                None
            }
            Action::Step(step) => self.step(connection, step),
            Action::Bind { handle, index, value } => {
                let handle = self.number(connection, handle)?;
                Some(CallKind::Bind { handle, index, value })
            }
            Action::ClearBindings { handle } => {
                self.number(connection, handle).map(|handle| CallKind::ClearBindings { handle })
            }
            Action::Reset { handle } => {
                self.connections.get_mut(&connection)?.refused.retain(|refused| refused.handle != handle);
                self.number(connection, handle).map(|handle| CallKind::Reset { handle })
            }
            Action::Finalize { handle } => {
                let entry = self.connections.get_mut(&connection)?;
                entry.refused.retain(|refused| refused.handle != handle);
                let number = entry.handles.remove(&handle)?.number?;
                entry.free.push(number);
                Some(CallKind::Finalize { handle: number })
            }
            Action::Close { outcome } => {
                if outcome.is_error() {
                    return None;
                }
                self.connections.remove(&connection);
                Some(CallKind::Close)
            }
            Action::Setting { setting, value } => {
                let (name, value) = match setting {
                    Setting::BusyTimeout => return None, // always the cell's
                    Setting::WalAutocheckpoint => ("wal_autocheckpoint", value),
                    Setting::DbConfig(ENABLE_FKEY) => ("foreign_keys", value),
                    Setting::DbConfig(option) if MEANING.contains(&option) => {
                        return Some(CallKind::Meaning { option, is_on: value != 0 });
                    }
                    Setting::DbConfig(option) => {
                        if RESETS.contains(&option) && value != 0 {
                            self.skip("calls of sqlite3_db_config that reset a database or its schema");
                        }
                        return None;
                    }
                };
                (name == "foreign_keys" || !self.engine.sets(name))
                    .then(|| CallKind::Script(format!("PRAGMA {name} = {value}")))
            }
            Action::Checkpoint { schema, mode, outcome } => {
                // SQLITE_BUSY: it did what it could. Else it did nothing.
                if outcome.is_error() && outcome.code & 0xff != 5 {
                    return None;
                }
                const MODES: [&str; 4] = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"];
                let mode = MODES.get(mode as usize).unwrap_or(&"PASSIVE");
                let schema = if schema.is_empty() {
                    String::new()
                } else {
                    format!("\"{}\".", schema.replace('"', "\"\""))
                };
                Some(CallKind::Checkpoint(format!("PRAGMA {schema}wal_checkpoint({mode})")))
            }
            Action::Blob(blob) => self.blob(connection, blob),
            Action::Foreign(Foreign { kind, name }) => {
                if kind == ForeignKind::Call {
                    self.skip("calls that change data without SQL (see fathom trace info)");
                }
                let name = format!("{} {name}", kind.name());
                if !self.foreign.contains(&name) {
                    self.foreign.push(name);
                }
                None
            }
        }
    }

    fn step(&mut self, connection: u32, step: Step) -> Option<CallKind> {
        let entry = self.connections.get_mut(&connection)?;
        let was_in_transaction = std::mem::replace(&mut entry.in_transaction, step.in_transaction);
        entry.refused.retain(|refused| refused.handle != step.handle);
        self.steps += 1;
        if matches!(self.reading, Reading::First(_)) {
            self.refused_steps.extend(entry.refused.iter().map(|refused| refused.step));
        }
        if step.changes > 0 && !step.in_transaction {
            let (thread, number) = (entry.thread, self.calls);
            let room = STUCK_MAX.saturating_sub(self.stuck.len());
            let refused = entry.refused.iter().take(room);
            self.stuck.extend(refused.map(|refused| Stuck { statement: refused.statement, thread, number }));
        }
        let known = entry.handles.get(&step.handle)?;
        let (handle, attaches, brings_tokenizer) = (known.number, known.attaches, known.brings_tokenizer);
        let is_checkpoint = known.is_checkpoint;
        let is_a_writer = known.is_a_writer;
        let is_of_encryption = self.encryption.contains(&known.statement);
        // Its database may be attached again under another name, by which it is held then.
        if !step.outcome.is_error()
            && let Some(gone) = self.detaches.get(&known.statement)
        {
            entry.schemas.retain(|(_, schema)| !schema.eq_ignore_ascii_case(gone));
        }
        let is_refused = step.outcome.code & 0xff == 5 && step.outcome.is_error();
        if is_refused && step.begins {
            let refused = Refused { handle: step.handle, statement: known.statement, step: self.steps };
            entry.refused.push(refused);
        }
        if let Some((schema, database)) = self.attaching.remove(&connection) {
            if let Some(state) = self.connections.get_mut(&connection) {
                state.schemas.push((database, schema.clone()));
            }
            return Some(CallKind::Attach { database, schema });
        }
        let Some(handle) = handle else {
            match attaches {
                true if step.outcome.is_error() => self.skip("ATTACH statements that failed"),
                true => {
                    self.refused.get_or_insert_with(|| {
                        "it attaches a file without saying which of its databases that is, and a replay must not touch the file itself; import the log or script again with this fathom, or capture with its library instead of the loadable extension".into()
                    });
                }
                false if brings_tokenizer => self.skip("tokenizers that the application brought itself"),
                // One that is read to its end is told in several calls.
                false if step.begins && is_of_encryption => {
                    self.skip("PRAGMAs of encryption (the replay's databases are plain: what it costs is in no number)");
                }
                false if step.begins => self.skip("PRAGMAs of what the cell sets"),
                false => {}
            }
            return None;
        };
        if step.outcome.code == UNFINISHED {
            self.skip("executions within which their process was killed");
            return None;
        }
        if step.outcome.is_error() && is_by_chance(step.outcome.code) {
            self.skip("executions that another connection's lock or an interrupt refused");
            if is_refused
                && is_a_writer
                && let Reading::Second { refused, .. } = &self.reading
                && refused.contains(&self.steps)
            {
                return Some(CallKind::Refuse { handle });
            }
            // An interrupt ends a statement, and the transaction with it where the statement was
            // writing.
            return if was_in_transaction && !step.in_transaction {
                Some(CallKind::Rollback)
            } else {
                (!step.begins).then_some(CallKind::Reset { handle })
            };
        }
        // It changed nothing, and a replay's connection may write.
        if step.outcome.is_error() && step.outcome.code & 0xff == READ_ONLY {
            self.skip("executions that would have written to what the application had read-only");
            return (!step.begins).then_some(CallKind::Reset { handle });
        }
        if let Some(why) = self.refused_there(&step.outcome) {
            self.skip(why);
            return if was_in_transaction && !step.in_transaction {
                Some(CallKind::Rollback)
            } else {
                (!step.begins).then_some(CallKind::Reset { handle })
            };
        }
        Some(CallKind::Step { step: Step { handle, ..step }, is_checkpoint })
    }

    fn blob(&mut self, connection: u32, blob: Blob) -> Option<CallKind> {
        // SQLITE_ABORT is no chance here: the blob's row has changed.
        if blob.outcome.is_error() && blob.outcome.code != 4 && is_by_chance(blob.outcome.code) {
            self.skip("calls on blobs that another connection's lock or an interrupt refused");
            // What had to wait for a commit is closed all the same.
            if blob.call != BlobCall::Close {
                return None;
            }
        }
        let known = &mut self.connections.get_mut(&connection)?.blobs;
        let is_there = match blob.call {
            BlobCall::Open { writes, .. } => {
                if !blob.outcome.is_error() {
                    known.insert(blob.blob, writes);
                }
                true
            }
            BlobCall::Close => known.remove(&blob.blob).is_some(),
            _ => known.contains_key(&blob.blob),
        };
        is_there.then_some(CallKind::Blob(blob))
    }

    fn number(&self, connection: u32, handle: u32) -> Option<u32> {
        self.connections.get(&connection)?.number(handle)
    }
}

/// `SELECT fts3_tokenizer(…)`: what it gives or takes is an address in the application's process,
/// which means nothing in another one. DBD::SQLite asks so on every connection.
fn brings_tokenizer(sql: &str) -> bool {
    let mut words = tokens(sql).filter(|token| !token.is_blank());
    let mut next_is = |word: &str| words.next().is_some_and(|token| token.is(word) || token.text == word);
    next_is("select") && next_is("fts3_tokenizer") && next_is("(")
}

/// When the last calls returned, to find what each call had waited for.
#[derive(Default)]
struct Returns {
    /// Largest time of return up to each call. (Returns are in order but for those of rows that
    /// were counted later.)
    latest_ns: VecDeque<u64>,
    /// Number of the first of them.
    first: u64,
    /// The number after that of the last call that wrote.
    last_write: u64,
}

impl Returns {
    /// Adds a call; gives the number below which all must be done before it begins.
    fn add(&mut self, number: u64, start_ns: u64, return_ns: u64, writes: bool) -> u64 {
        let returned = self.latest_ns.partition_point(|at| *at <= start_ns) as u64;
        let mut after = self.first + returned;
        if writes {
            after = after.max(self.last_write);
            self.last_write = number + 1;
        }
        if self.latest_ns.len() == RETURNS_MAX {
            self.latest_ns.pop_front();
            self.first += 1;
        }
        self.latest_ns.push_back(return_ns.max(self.latest_ns.back().copied().unwrap_or(0)));
        after
    }
}
