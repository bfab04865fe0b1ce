//! Streams of SQL, executed on a private database while they are imported: so each text is known to
//! compile, and each statement's rows, changes and error are known and checked by a replay.

use std::collections::HashMap;
use std::path::Path;

use super::bad::BadOnes;
use super::inner::{Profile, is_inner, profile};
use super::private::{Compilation, DUMPED_TABLE, ExecutionResult, Private, execute};
use super::statements::{Piece, Statements};
use super::{ImportReport, Starts, abridged_list};
use crate::assemble::{Assembler, Execution};
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::model::{Action, DONE, Outcome, Start};
use crate::sql::{Target, Token, Verb, tokens};

/// Where no times are known and the order counts: each statement takes one microsecond, and one
/// passes before the next, ns.
const NOMINAL_NS: u64 = 1000;

/// Different messages that are counted for themselves.
const MESSAGES_MAX: usize = 100;

/// A stream, and its connections: the trace's and the private one.
pub struct Stream {
    pub statements: Statements,
    pub connection: ConfinedConnection,
    pub number: u32,
    pub bytes: u64,
}

/// What all streams share.
pub struct Player<'a> {
    pub assembler: &'a mut Assembler,
    starts: &'a mut Starts,
    pub private: Private,
    pub bad: &'a mut BadOnes,
    /// Nominal time of the next statement, ns; none where statements have no times.
    pub clock_ns: Option<u64>,
    pub statements: u64,
    /// Statements that failed: how many with which message.
    failed: Vec<(String, u64)>,
    /// Those with other messages.
    failed_otherwise: u64,
    with_parameters: u64,
    /// Statements with values of which their beginnings alone are told.
    with_beginnings: u64,
    byte_literals: u64,
    /// The statement before, where it changes rows.
    before: String,
    /// Whether there are triggers; none where that has to be asked.
    has_triggers: Option<bool>,
    /// Statements that are the one before once more, where there are triggers.
    again: u64,
    /// Statements of virtual tables that are left out; none where the input has none for itself.
    inner: Option<u64>,
    /// What is told of statements before their ends, and left out.
    pub begins: u64,
    /// Statements of each connection that change something in a transaction which is open.
    open: HashMap<u32, u64>,
    /// What must be known of inputs that may have been cut off.
    cut_off: Vec<String>,
}

impl<'a> Player<'a> {
    /// For a file that is all of one connection, to a database of this name: with that connection,
    /// its number in the trace, and how long the file is, bytes.
    pub fn of_one_connection(
        path: &Path,
        name: &str,
        (assembler, starts, bad): (&'a mut Assembler, &'a mut Starts, &'a mut BadOnes),
        steps_max: u64,
    ) -> Result<(Player<'a>, ConfinedConnection, u32, u64), TraceError> {
        let thread = assembler.thread(0, 0, &path.display().to_string())?;
        let (database, start) = starts.database_and_file(name, assembler)?;
        let number = assembler.open(thread, database, 0)?;
        let bytes = std::fs::metadata(path).map_err(TraceError::io(path))?.len();
        let private = Private::new(start.as_deref(), bytes, false, steps_max)?;
        let connection = private.open()?;
        Ok((Player::new(assembler, starts, private, bad, None), connection, number, bytes))
    }

    /// Before the first statement.
    pub fn new(
        assembler: &'a mut Assembler,
        starts: &'a mut Starts,
        private: Private,
        bad: &'a mut BadOnes,
        clock_ns: Option<u64>,
    ) -> Player<'a> {
        Player {
            assembler,
            starts,
            private,
            bad,
            clock_ns,
            statements: 0,
            failed: Vec::new(),
            failed_otherwise: 0,
            with_parameters: 0,
            with_beginnings: 0,
            byte_literals: 0,
            before: String::new(),
            has_triggers: None,
            again: 0,
            inner: None,
            begins: 0,
            open: HashMap::new(),
            cut_off: Vec::new(),
        }
    }

    /// Leaves out what virtual tables do within a statement, where the input is what tells that
    /// like the application's own statements. Gives whether each of those stands there twice,
    /// without and with its time.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look_for_profile(&mut self, path: &Path) -> Result<bool, TraceError> {
        let profile = profile(path)?;
        self.inner = (profile != Profile::None).then_some(0);
        Ok(profile == Profile::BeginsAndEnds)
    }

    /// Whether a statement is one of a virtual table, which then is counted.
    pub fn leaves_out(&mut self, sql: &str) -> bool {
        let Some(count) = self.inner.as_mut().filter(|_| is_inner(sql)) else { return false };
        *count += 1;
        true
    }

    /// Plays a stream up to the end of a transaction, or of a statement outside of one. False at
    /// the stream's end, when it is closed: what it leaves open is rolled back.
    pub fn unit(&mut self, stream: &mut Stream) -> Result<bool, TraceError> {
        loop {
            let Stream { statements, connection, number, .. } = &mut *stream;
            let Some(piece) = statements.next(connection)? else { return Ok(false) };
            let Piece { line, sql, compiled } = piece;
            if self.leaves_out(&sql) {
                continue;
            }
            match compiled {
                Err(problem) => self.bad.add(statements.path(), line, &sql, &problem),
                Ok(compiled) => {
                    self.execute(connection, *number, &sql, compiled, (statements.path(), line))?;
                }
            }
            if connection.is_autocommit() {
                return Ok(true);
            }
        }
    }

    /// Closes a stream.
    pub fn close(&mut self, stream: Stream) -> Result<(), TraceError> {
        self.byte_literals += stream.statements.byte_literals;
        self.cut_off.extend(stream.statements.cut_off());
        self.begins += stream.statements.begins;
        let at_ns = self.clock_ns.unwrap_or(0);
        self.assembler.close(stream.number, at_ns)
    }

    /// Executes a statement, which stands in this file on this line, and writes it.
    ///
    /// # Errors
    /// A transaction that is gone with a statement that was stopped: what follows would be another
    /// thing than in a replay.
    pub fn execute(
        &mut self,
        connection: &ConfinedConnection,
        number: u32,
        sql: &str,
        compiled: Compilation<'_>,
        place: (&Path, u64),
    ) -> Result<(), TraceError> {
        let verb = Verb::of(sql);
        let was_autocommit = connection.is_autocommit();
        let at_ns = self.clock_ns.unwrap_or(0);
        let done = match compiled {
            Compilation::Nothing => return Ok(()),
            Compilation::VirtualTable(_) => {
                self.bad.add(place.0, place.1, sql, DUMPED_TABLE);
                return Ok(());
            }
            Compilation::NotHere => ExecutionResult { counts: None, outcome: Outcome::of(DONE), unfit: None },
            Compilation::Ready(mut statement) => {
                if statement.parameter_count() > 0 {
                    self.with_parameters += 1;
                }
                execute(connection, &mut statement, verb)
            }
            Compilation::VacuumInto { at } => self.private.vacuum_into(connection, sql, at)?,
            Compilation::Attach { target, schema } => {
                let (database, start) = match target {
                    Target::File(path) => {
                        let database = self.starts.attached(&path, self.assembler)?;
                        (database, self.starts.file_of.get(&database).cloned())
                    }
                    _ => (self.assembler.database(b":memory:", Start::Memory, None)?, None),
                };
                let done = self.private.attach(connection, &schema, database, start.as_deref())?;
                if !done.outcome.is_error() {
                    self.assembler.event(number, at_ns, 0, Action::Attach { schema, database })?;
                }
                done
            }
        };
        if let Some(unfit) = &done.unfit {
            let (file, line) = place;
            if was_autocommit != connection.is_autocommit() {
                return Err(TraceError::line(
                    file,
                    line,
                    format!("{unfit}, and its transaction went with it: `{}`", sql.trim()),
                ));
            }
            self.bad.add(file, line, sql, &unfit.to_string());
            return Ok(());
        }
        self.look_for_again(connection, verb, sql);
        self.with_beginnings += u64::from(has_beginnings(sql));
        if done.outcome.is_error() {
            let message = &done.outcome.message;
            match self.failed.iter().position(|(known, _)| known == message) {
                Some(place) => self.failed[place].1 += 1,
                None if self.failed.len() < MESSAGES_MAX => self.failed.push((message.clone(), 1)),
                None => self.failed_otherwise += 1,
            }
        }
        let duration_ns = if self.clock_ns.is_some() { NOMINAL_NS } else { 0 };
        let ExecutionResult { counts, outcome, .. } = done;
        let execution = Execution { sql, values: &[], start_ns: at_ns, duration_ns, keep: false, counts };
        self.assembler.execute_as(number, &execution, !connection.is_autocommit(), outcome)?;
        if connection.is_autocommit() {
            self.open.remove(&number);
        } else if verb.changes_rows() || verb == Verb::Schema {
            *self.open.entry(number).or_default() += 1;
        }
        self.clock_ns = self.clock_ns.map(|at_ns| at_ns + 2 * NOMINAL_NS);
        self.statements += 1;
        Ok(())
    }

    /// Counts what is the statement before once more where there are triggers: Python's
    /// `set_trace_callback` writes a statement again for each step of a trigger.
    fn look_for_again(&mut self, connection: &ConfinedConnection, verb: Verb, sql: &str) {
        const TRIGGERS: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger' \
            UNION ALL SELECT 1 FROM sqlite_temp_master WHERE type = 'trigger')";
        if verb == Verb::Schema {
            self.has_triggers = None;
        }
        if !verb.changes_rows() {
            self.before.clear();
        } else if self.before == sql {
            let ask = || connection.query_row(TRIGGERS, [], |row| row.get(0)).unwrap_or(false);
            self.again += u64::from(*self.has_triggers.get_or_insert_with(ask));
        } else {
            self.before.clear();
            self.before.push_str(sql);
        }
    }

    /// What came of it, with what a user must know.
    pub fn finish(self, imported: &mut ImportReport) {
        imported.statements += self.statements;
        if self.with_parameters > 0 {
            imported.warnings.push(format!(
                "{} statements have parameters whose values the input does not tell: they are NULL",
                self.with_parameters
            ));
        }
        if self.with_beginnings > 0 {
            imported.warnings.push(format!(
                "{} statements have values of which the input tells the beginning alone, and how much is missing (`/*+9 bytes*/`, as SQLite \
                 writes them with SQLITE_TRACE_SIZE_LIMIT): they are that much shorter than the application's; a capture has them whole",
                self.with_beginnings
            ));
        }
        if self.again > 0 {
            imported.warnings.push(format!(
                "{} statements are the one before once more, and there are triggers: Python's set_trace_callback writes a statement again for each step of its triggers; a capture (`fathom trace capture -- python3 …`) has each once",
                self.again
            ));
        }
        if let Some(count) = self.inner.filter(|count| *count > 0) {
            imported.warnings.push(format!(
                "{count} statements are what virtual tables (full text, R-tree) do within another one, which `.trace --profile` tells as well; they are left out"
            ));
        }
        let rolled_back: u64 = self.open.values().sum();
        if rolled_back > 0 {
            imported.warnings.push(format!(
                "{rolled_back} statements change something in a transaction that the input never ends: they are rolled back at its end, and nothing of them is left"
            ));
        }
        if self.begins > 0 {
            imported.warnings.push(format!(
                "{} lines of `.trace` tell that a statement begins or has a row, and stand there once more with its time, when it has ended (--profile); they are left out",
                self.begins
            ));
        }
        if self.byte_literals > 0 {
            imported.warnings.push(format!(
                "{} texts hold bytes that are no UTF-8; they are written as CAST(x'…' AS TEXT), which is the same text",
                self.byte_literals
            ));
        }
        let failed = self.failed_otherwise + self.failed.iter().map(|(_, count)| count).sum::<u64>();
        if failed > 0 {
            imported.warnings.push(format!(
                "{failed} statements fail, and are expected to fail alike when they are replayed: {}",
                abridged_list(&self.failed)
            ));
        }
        imported.warnings.extend(self.cut_off);
    }
}

/// Whether a value ends where SQLite expands no more of it (`vdbetrace.c`): `'abc'/*+1234 bytes*/`.
fn has_beginnings(sql: &str) -> bool {
    let is_rest = |token: Token<'_>| {
        let rest = token.text.strip_prefix("/*+").and_then(|rest| rest.strip_suffix(" bytes*/"));
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    sql.contains("/*+") && tokens(sql).any(is_rest)
}
