//! Putting a trace together from statements that are known as text, one after the other.

use std::collections::HashMap;

use crate::error::TraceError;
use crate::format::{Totals, Writer};
use crate::model::*;
use crate::sql::Verb;
use crate::texts::Texts;

/// `SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE`.
const OPEN_FLAGS: u32 = 0x6;

/// Writes processes, connections and executions, numbering what needs a number.
pub struct Assembler {
    writer: Writer,
    processes: HashMap<u32, u32>,
    threads: HashMap<(u32, u32), u32>,
    databases: u32,
    connections: Vec<Connection>,
    texts: Texts,
}

struct Connection {
    thread: u32,
    in_transaction: bool,
    /// Statements that stay prepared: by statement number, the handle.
    prepared: HashMap<u32, u32>,
    handles: u32,
}

/// One execution of a statement.
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    /// The statement.
    pub sql: &'a str,
    /// Values of its parameters, from 1.
    pub values: &'a [Value],
    /// When it begins, ns since time 0.
    pub start_ns: u64,
    /// How long it takes, ns; 0 where that is not known.
    pub duration_ns: u64,
    /// Whether it stays prepared for the next time, as an application keeps a statement that it
    /// uses often.
    pub keep: bool,
    /// Rows and changes, where they are known.
    pub counts: Option<(u64, u64)>,
}

impl Assembler {
    /// Begins with where the trace comes from.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn new(mut writer: Writer, origin: Origin) -> Result<Assembler, TraceError> {
        writer.write(&Record::Origin(origin))?;
        Ok(Assembler {
            writer,
            processes: HashMap::new(),
            threads: HashMap::new(),
            databases: 0,
            connections: Vec::new(),
            texts: Texts::default(),
        })
    }

    /// A thread of a process, both by the operating system's numbers; gives the trace's number.
    ///
    /// # Errors
    /// A full disk.
    pub fn thread(&mut self, pid: u32, tid: u32, program: &str) -> Result<u32, TraceError> {
        if let Some(thread) = self.threads.get(&(pid, tid)) {
            return Ok(*thread);
        }
        let next = self.processes.len() as u32;
        let process = *self.processes.entry(pid).or_insert(next);
        if process == next {
            let program = program.to_owned();
            self.writer.write(&Record::Process(Process {
                id: process,
                pid,
                parent: None,
                program,
                sqlite: String::new(),
            }))?;
        }
        let id = self.threads.len() as u32;
        self.threads.insert((pid, tid), id);
        self.writer.write(&Record::Thread(Thread { id, process, tid }))?;
        Ok(id)
    }

    /// A database; `content` is its image or script, where it has one.
    ///
    /// # Errors
    /// A full disk; content that cannot be read.
    pub fn database(
        &mut self,
        path: &[u8],
        start: Start,
        content: Option<(&std::path::Path, std::fs::File)>,
    ) -> Result<u32, TraceError> {
        let id = self.databases;
        self.databases += 1;
        // A file that grows meanwhile is taken as long as it was.
        let bytes = match &start {
            Start::Image { bytes } | Start::Script { bytes } => *bytes,
            _ => 0,
        };
        self.writer.write(&Record::Database(Database { id, path: path.to_vec(), start }))?;
        if let Some((path, file)) = content {
            crate::spool::copy(path, std::io::Read::take(file, bytes), id, &mut self.writer)?;
        }
        Ok(id)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// A full disk.
    pub fn open(&mut self, thread: u32, database: u32, at_ns: u64) -> Result<u32, TraceError> {
        let connection = self.connections.len() as u32;
        self.connections.push(Connection {
            thread,
            in_transaction: false,
            prepared: HashMap::new(),
            handles: 0,
        });
        let outcome = Outcome::of(OK);
        let action = Action::Open { database, flags: OPEN_FLAGS, vfs: String::new(), outcome };
        self.event(connection, at_ns, 0, action)?;
        Ok(connection)
    }

    /// The thread that uses a connection from now on.
    pub fn use_thread(&mut self, connection: u32, thread: u32) {
        self.connections[connection as usize].thread = thread;
    }

    /// Prepares, binds and executes a statement.
    ///
    /// # Errors
    /// A full disk.
    pub fn execute(&mut self, connection: u32, execution: &Execution<'_>) -> Result<(), TraceError> {
        let known = &self.connections[connection as usize];
        let in_transaction = match Verb::of(execution.sql) {
            Verb::Begin => true,
            Verb::Commit | Verb::Rollback if !names_savepoint(execution.sql) => false,
            _ => known.in_transaction,
        };
        self.execute_as(connection, execution, in_transaction, Outcome::of(DONE))
    }

    /// The same of which it is known that it failed. Its transaction is as it was, unless the text
    /// says that it is rolled back.
    ///
    /// # Errors
    /// A full disk.
    pub fn execute_failed(
        &mut self,
        connection: u32,
        execution: &Execution<'_>,
        outcome: Outcome,
    ) -> Result<(), TraceError> {
        let was_in_transaction = self.connections[connection as usize].in_transaction;
        let in_transaction = was_in_transaction && !rolls_back(execution.sql);
        self.execute_as(connection, execution, in_transaction, outcome)
    }

    /// The same of which it is known what came of it, and whether a transaction is open afterwards.
    ///
    /// # Errors
    /// A full disk.
    pub fn execute_as(
        &mut self,
        connection: u32,
        execution: &Execution<'_>,
        in_transaction: bool,
        outcome: Outcome,
    ) -> Result<(), TraceError> {
        let statement = self.texts.number(execution.sql, &mut self.writer)?;
        let at_ns = execution.start_ns;
        let known = &mut self.connections[connection as usize];
        let kept = known.prepared.get(&statement).copied();
        let handle = kept.unwrap_or_else(|| {
            known.handles += 1;
            known.handles - 1
        });
        known.in_transaction = in_transaction;
        if kept.is_none() {
            if execution.keep {
                known.prepared.insert(statement, handle);
            }
            self.event(
                connection,
                at_ns,
                0,
                Action::Prepare { handle, statement, outcome: Outcome::of(OK) },
            )?;
        }
        for (index, value) in (1..).zip(execution.values) {
            self.event(connection, at_ns, 0, Action::Bind { handle, index, value: value.clone() })?;
        }
        let (rows, changes) = execution.counts.unwrap_or_default();
        let step = Step {
            handle,
            begins: true,
            is_counted: execution.counts.is_some(),
            rows,
            changes,
            in_transaction,
            outcome,
        };
        self.event(connection, at_ns, execution.duration_ns, Action::Step(step))?;
        let end_ns = at_ns.saturating_add(execution.duration_ns);
        let last = if execution.keep { Action::Reset { handle } } else { Action::Finalize { handle } };
        self.event(connection, end_ns, 0, last)
    }

    /// The number of a statement's text, which is written where it is new.
    ///
    /// # Errors
    /// A full disk.
    pub(crate) fn statement(&mut self, sql: &str) -> Result<u32, TraceError> {
        self.texts.number(sql, &mut self.writer)
    }

    /// Finalises what is still prepared, and closes.
    ///
    /// # Errors
    /// A full disk.
    pub fn close(&mut self, connection: u32, at_ns: u64) -> Result<(), TraceError> {
        let mut kept: Vec<u32> =
            self.connections[connection as usize].prepared.drain().map(|(_, handle)| handle).collect();
        kept.sort_unstable();
        for handle in kept {
            self.event(connection, at_ns, 0, Action::Finalize { handle })?;
        }
        self.event(connection, at_ns, 0, Action::Close { outcome: Outcome::of(OK) })
    }

    /// Any other call.
    ///
    /// # Errors
    /// A full disk.
    pub fn event(
        &mut self,
        connection: u32,
        start_ns: u64,
        duration_ns: u64,
        action: Action,
    ) -> Result<(), TraceError> {
        let thread = self.connections[connection as usize].thread;
        self.writer.write(&Record::Event(Event { thread, connection, start_ns, duration_ns, action }))
    }

    /// Number of connections so far.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.connections.len() as u32
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// A full disk.
    pub fn finish(self) -> Result<Totals, TraceError> {
        self.writer.finish()
    }
}

/// Whether a statement that fails ends its transaction: `INSERT OR ROLLBACK`.
fn rolls_back(sql: &str) -> bool {
    let mut words = crate::sql::tokens(sql).filter(|token| !token.is_blank()).skip(1);
    words.next().is_some_and(|word| word.is("or")) && words.next().is_some_and(|word| word.is("rollback"))
}

/// Whether a ROLLBACK or RELEASE goes back to a savepoint only. (The last RELEASE of an outermost
/// savepoint commits; texts alone do not tell.)
fn names_savepoint(sql: &str) -> bool {
    crate::sql::tokens(sql).any(|token| token.is("to") || token.is("release"))
}
