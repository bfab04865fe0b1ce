//! Two traces held against each other, call by call: what each statement returned, changed and how
//! it was planned.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;
use std::rc::Rc;

use super::flow::{Source, StatementFlow, Use, findings};
use super::meaning::StatementUses;
use super::names::Schema;
use super::play::{CallResult, Watch, words};
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::model::Value;
use crate::sql::Verb;

/// Bytes of a call in the file between the two plays.
const DONE_BYTES: usize = 32;

/// Differences that are told.
const TOLD_MAX: usize = 20;

/// Pages may differ by one in this many.
const PAGES_PART: u64 = 50;

fn encode(done: &CallResult) -> [u8; DONE_BYTES] {
    let mut bytes = [0; DONE_BYTES];
    bytes[..4].copy_from_slice(&done.statement.to_le_bytes());
    bytes[4..8].copy_from_slice(&done.code.to_le_bytes());
    bytes[8..16].copy_from_slice(&done.rows.to_le_bytes());
    bytes[16..24].copy_from_slice(&done.changes.to_le_bytes());
    bytes[24..].copy_from_slice(&done.plan.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; DONE_BYTES]) -> CallResult {
    let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let eight = |at: usize| {
        let (low, high) = (u32::from_le_bytes(four(at)), u32::from_le_bytes(four(at + 4)));
        u64::from(high) << 32 | u64::from(low)
    };
    CallResult {
        statement: u32::from_le_bytes(four(0)),
        code: i32::from_le_bytes(four(4)),
        rows: eight(8),
        changes: eight(16),
        plan: eight(24),
    }
}

/// Looks on while the original is played: keeps what came of each call, and learns what is done
/// with its texts.
pub struct Original {
    calls: BufWriter<File>,
    learnt: StatementUses,
    /// Schemas of connections, by their addresses, as long as no schema changes.
    schemas: HashMap<usize, Schema>,
    /// Statements that were looked at since.
    looked_at: HashSet<(usize, u32)>,
    /// Tables and views that were looked at.
    tables: HashSet<String>,
    /// Statements that found something else in an anonymous trace.
    suspects: Suspects,
    /// The columns that they read.
    read: ColumnsRead,
}

/// Statements that found something else in an anonymous trace, and what of them stays.
pub type Suspects = BTreeMap<u32, Retention>;

/// Names of the columns that statements read, by the number of the statement's text.
pub type ColumnsRead = BTreeMap<u32, BTreeSet<String>>;

/// What stays of a statement that found something else: in the columns that it reads, among its
/// literals and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// Numbers, also those that are texts.
    Numbers,
    /// All texts without letters as well: telephone numbers, dates.
    Digits,
}

impl Original {
    /// Before the first call; whether it is asked which numbers something is calculated from, and
    /// statements that find something else on a way that their programs do not show.
    ///
    /// # Errors
    /// No room for temporary files.
    pub fn new(with_numbers: bool, suspects: Suspects) -> Result<Original, TraceError> {
        Ok(Original {
            calls: BufWriter::new(temporary()?),
            learnt: StatementUses::new(with_numbers),
            schemas: HashMap::new(),
            looked_at: HashSet::new(),
            tables: HashSet::new(),
            suspects,
            read: BTreeMap::new(),
        })
    }

    fn schema_of(&mut self, connection: &ConfinedConnection) -> &Schema {
        let meanings = &mut self.learnt.meanings;
        self.schemas.entry(address(connection)).or_insert_with(|| {
            let schema = Schema::of(connection).unwrap_or_default();
            meanings.names.extend(schema.names.iter().cloned());
            meanings.keep_dates |= schema.has_dates;
            schema
        })
    }

    /// Looks at what the schema itself does with texts (CHECK, DEFAULT, generated columns,
    /// triggers, views), also of tables that no statement writes.
    fn look_at_schema(&mut self, connection: &ConfinedConnection) {
        let schema = self.schema_of(connection);
        let (roots, tables) = (Rc::clone(&schema.roots), schema.tables.clone());
        for (table, is_view) in tables {
            if !self.tables.insert(table.clone()) {
                continue;
            }
            let sql = if is_view {
                format!("SELECT * FROM {table}")
            } else {
                format!("INSERT INTO {table} DEFAULT VALUES")
            };
            connection.begin_statement();
            let mut found = findings(connection, &sql, &roots);
            // It is not executed, so nothing is calculated from any number.
            found.writes.clear();
            found.uses.retain(|(source, _)| {
                matches!(source, Source::Literal(_) | Source::Column(..) | Source::Any(..))
            });
            self.learnt.add(connection, u32::MAX, found);
        }
    }

    /// What came of each call, what was learnt, and the columns that each suspect statement reads.
    ///
    /// # Errors
    /// A full disk.
    pub fn end(self) -> Result<(File, StatementUses, ColumnsRead), TraceError> {
        let file = self.calls.into_inner().map_err(|error| temporary_error(error.into_error()))?;
        Ok((file, self.learnt, self.read))
    }

    /// What a suspect statement reads stays; its columns are noted.
    fn suspect(&mut self, statement: u32, stays: Retention, found: &mut StatementFlow) {
        let read = self.read.entry(statement).or_default();
        for column in std::mem::take(&mut found.reads) {
            match &column {
                Source::Column(table, name) | Source::Any(table, name) | Source::Numbers(table, name) => {
                    read.insert(format!("{table}.{name}"));
                }
                _ => {}
            }
            let is_text = matches!(column, Source::Column(..));
            for use_ in [Use::Number, Use::Sum, Use::Digits] {
                if use_ != Use::Digits || !is_text || stays == Retention::Digits {
                    found.uses.insert((column.clone(), use_));
                }
            }
        }
    }
}

fn address(connection: &ConfinedConnection) -> usize {
    // SAFETY: the handle is only looked at as a number.
    unsafe { connection.handle() }.addr()
}

fn temporary() -> Result<File, TraceError> {
    tempfile::tempfile().map_err(temporary_error)
}

fn temporary_error(error: std::io::Error) -> TraceError {
    TraceError::io(&std::env::temp_dir())(error)
}

impl Watch for Original {
    fn schema(&mut self, _: &ConfinedConnection) {
        self.schemas.clear();
        self.looked_at.clear();
    }

    fn statement(&mut self, connection: &ConfinedConnection, statement: u32, sql: &str) {
        let asks = match Verb::of(sql) {
            Verb::Select | Verb::Insert | Verb::Update | Verb::Delete | Verb::Other => true,
            // CREATE TABLE … AS SELECT.
            Verb::Schema => sql.to_ascii_lowercase().contains("select"),
            _ => false,
        };
        if asks && self.looked_at.insert((address(connection), statement)) {
            let roots = Rc::clone(&self.schema_of(connection).roots);
            connection.begin_statement();
            let mut found = findings(connection, sql, &roots);
            if let Some(stays) = self.suspects.get(&statement).copied() {
                self.suspect(statement, stays, &mut found);
            }
            self.learnt.add(connection, statement, found);
        }
    }

    fn bound(&mut self, statement: u32, index: u32, value: &Value) {
        match value {
            Value::Text(text) => self.learnt.bound(statement, index, text),
            Value::Integer(number) => self.learnt.bound_number(statement, index, *number),
            _ => {}
        }
    }

    fn done(&mut self, done: CallResult) -> Result<(), TraceError> {
        self.calls.write_all(&encode(&done)).map_err(temporary_error)
    }

    fn closed(&mut self, connection: &ConfinedConnection) {
        self.look_at_schema(connection);
        self.learnt.read_again(connection);
        self.schemas.remove(&address(connection));
        self.looked_at.retain(|(database, _)| *database != address(connection));
    }
}

/// What is different.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// How many calls and databases differ.
    pub count: u64,
    /// The first of them, of each statement one: number and what differs.
    pub told: BTreeMap<u32, String>,
    /// Databases whose pages differ.
    pub pages: Vec<String>,
}

/// Looks on while the anonymous trace is played.
pub struct Anonymous {
    calls: BufReader<File>,
    number: u64,
    differences: Differences,
}

impl Anonymous {
    /// With what came of the original's calls.
    ///
    /// # Errors
    /// A temporary file that cannot be read.
    pub fn new(calls: &File) -> Result<Anonymous, TraceError> {
        let mut calls = calls.try_clone().map_err(temporary_error)?;
        calls.rewind().map_err(temporary_error)?;
        Ok(Anonymous { calls: BufReader::new(calls), number: 0, differences: Differences::default() })
    }

    /// What was different, with the pages before and now.
    pub fn end(mut self, was: &[(String, u64)], is: &[(String, u64)]) -> Differences {
        for ((name, was), (_, is)) in was.iter().zip(is) {
            if is.abs_diff(*was) > (was / PAGES_PART).max(1) {
                self.differences.count += 1;
                self.differences.pages.push(format!("{name} has {is} pages instead of {was}"));
            }
        }
        self.differences
    }
}

impl Watch for Anonymous {
    fn schema(&mut self, _: &ConfinedConnection) {}
    fn statement(&mut self, _: &ConfinedConnection, _: u32, _: &str) {}
    fn bound(&mut self, _: u32, _: u32, _: &Value) {}
    fn closed(&mut self, _: &ConfinedConnection) {}

    fn done(&mut self, is: CallResult) -> Result<(), TraceError> {
        self.number += 1;
        let mut bytes = [0; DONE_BYTES];
        self.calls.read_exact(&mut bytes).map_err(temporary_error)?;
        let was = decode(&bytes);
        if was == is {
            return Ok(());
        }
        self.differences.count += 1;
        if self.differences.told.len() < TOLD_MAX {
            let said = |code: i32| format!("{} ({code})", words(code));
            let what = if was.code != is.code {
                format!("ends with {} instead of {}", said(is.code), said(was.code))
            } else if was.rows != is.rows {
                format!("returns {} rows instead of {}", is.rows, was.rows)
            } else if was.changes != is.changes {
                format!("changes {} rows instead of {}", is.changes, was.changes)
            } else {
                "has another plan".to_owned()
            };
            self.differences.told.entry(was.statement).or_insert(what);
        }
        Ok(())
    }
}

/// The texts of statements of a trace.
///
/// # Errors
/// A trace that is damaged.
pub fn statements(trace: &Path, wanted: &HashSet<u32>) -> Result<HashMap<u32, String>, TraceError> {
    let mut texts = HashMap::new();
    for record in crate::format::Reader::open(trace)? {
        if let crate::model::Record::Statement(statement) = record?
            && wanted.contains(&statement.id)
        {
            texts.insert(statement.id, statement.sql);
        }
    }
    Ok(texts)
}
