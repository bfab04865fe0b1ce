//! What a trace does, in numbers by which two traces can be compared.

mod distribution;
mod loaded;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;

use serde::Serialize;

pub use distribution::Distribution;
use distribution::Distribution as D;
use loaded::LoadedSettings;

use crate::error::TraceError;
use crate::format::Reader;
use crate::model::*;
use crate::reuse::PreparationCounts;
use crate::sql::Verb;
use crate::untold::UntoldValues;

/// Tables that are listed; the rest is summed up.
const TABLES_MAX: usize = 20;

/// Texts that are remembered before the trace is read again to know which of them it takes to
/// remember.
const TEXTS_MAX: usize = 1 << 16;

/// PRAGMAs that set something of one file alone where they name its schema.
const OF_ONE_FILE: [&str; 9] = [
    "auto_vacuum",
    "cache_size",
    "journal_mode",
    "journal_size_limit",
    "locking_mode",
    "mmap_size",
    "page_size",
    "secure_delete",
    "synchronous",
];

/// The level of `synchronous` that a file has without a word, FULL.
const FULL: u8 = 2;

/// What a trace does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// `capture`, `import` or `synthesise`.
    pub how: String,
    /// Command line, file, or profile and seed.
    pub what: String,
    /// Whether text and blobs are replaced.
    pub anonymised: bool,
    /// What must be known of a trace that is made up.
    pub note: Option<String>,
    /// What must be known of an imported trace that lacks values of parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
    /// Why the file could not be read to its end; all numbers are of what stands before.
    pub torn: Option<String>,
    /// Events of the file.
    pub events: u64,
    /// Processes, threads, connections.
    pub processes: u64,
    /// Threads of all processes.
    pub threads: u64,
    /// Connections opened.
    pub connections: u64,
    /// Most connections open at the same time.
    pub connections_at_once: u64,
    /// Most files that one connection had, those that it attached included: a transaction may be
    /// over all of them.
    #[serde(skip)]
    pub files_at_once: u64,
    /// Most files that one connection had whose own database is in memory: no journal binds a
    /// transaction over several of them together.
    #[serde(skip)]
    pub files_without_main: u64,
    /// Transactions that wrote and were committed, begun with BEGIN IMMEDIATE or EXCLUSIVE by a
    /// connection that had several files: it locks all of them that it may write, whichever it
    /// changes, and binds them together.
    #[serde(skip)]
    pub locking_several: u64,
    /// Transactions that wrote on a connection whose files, of those that it may write, have not
    /// all the same `synchronous`.
    #[serde(skip)]
    pub unlike_files: u64,
    /// From time 0 to the return of the last call, s.
    pub duration_s: f64,
    /// The databases and what they held at the start.
    pub databases: Vec<DatabaseInfo>,
    /// Different statement texts.
    pub texts: u64,
    /// Calls of `sqlite3_prepare`.
    pub prepared: u64,
    /// Executions.
    pub executed: u64,
    /// Executions of a statement that was prepared for an earlier one: how much an application
    /// keeps its statements.
    pub executed_again: u64,
    /// Executions by kind of statement.
    pub statements: BTreeMap<Verb, StatementInfo>,
    /// Share of SELECT among SELECT, INSERT, UPDATE and DELETE.
    pub read_share: f64,
    /// Transactions that wrote: BEGIN … COMMIT, and single statements.
    pub transactions: TransactionInfo,
    /// Time between the return of a call and the next call of the same thread, µs, where it is at
    /// least 1 µs.
    pub think_us: Distribution,
    /// Bytes bound to parameters and written as literals into INSERT, UPDATE and DELETE.
    pub bytes_given: u64,
    /// Incremental blob I/O.
    pub blobs: BlobInfo,
    /// Tables by how often statements name them.
    pub tables: Vec<TableInfo>,
    /// Failed calls by result code, with the first message.
    pub errors: Vec<ErrorInfo>,
    /// Executions in which the process was killed.
    pub unfinished: u64,
    /// Processes of which calls are missing, because the disk of the capture was full.
    pub lost: u64,
    /// PRAGMAs that set something, and settings made by calls, with how often. One that is of an
    /// attached file alone has that file's schema (`PRAGMA cache.synchronous=OFF`), unless the
    /// connection's own database is in memory.
    pub settings: BTreeMap<String, u64>,
    /// Executions of VACUUM, by which a database with content gets other pages.
    #[serde(skip)]
    pub vacuums: u64,
    /// What a replay cannot do again by itself, with how often.
    pub foreign: BTreeMap<String, u64>,
}

/// A database of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatabaseInfo {
    /// Its path.
    pub path: String,
    /// What it held: `empty`, `memory`, `image`, `script`, `generator`, `unknown`.
    pub start: String,
    /// Bytes of an image or script; none for the others.
    pub bytes: Option<u64>,
    /// Page size of an image, or as its loading script sets it.
    pub page_bytes: Option<u32>,
    /// `wal` where the file is in that mode when the application opens it: the one journal mode
    /// that a file keeps.
    pub journal_mode: Option<String>,
    /// Whether it gives free pages back, `none`, `full` or `incremental`: from none to the others,
    /// and back, SQLite changes a file that has content at a VACUUM alone. Of images and scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_vacuum: Option<String>,
    /// Profile of a generator, or why the start is not known.
    pub note: Option<String>,
}

/// Executions of one kind of statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StatementInfo {
    /// Executions.
    pub executions: u64,
    /// Rows returned.
    pub rows: u64,
    /// Rows changed.
    pub changes: u64,
    /// Time inside their steps, ms.
    pub time_ms: f64,
    /// Time of one execution, µs.
    pub latency_us: Distribution,
}

/// Transactions that wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransactionInfo {
    /// All.
    pub count: u64,
    /// Of these, single statements that committed by themselves.
    pub autocommit: u64,
    /// Of the others, those that ended in ROLLBACK.
    pub rolled_back: u64,
    /// INSERT, UPDATE and DELETE executions in one.
    pub writes: Distribution,
    /// Rows changed in one; only of traces that tell it.
    pub changes: Distribution,
}

/// How often a table is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableInfo {
    /// Its name.
    pub table: String,
    /// Executions of SELECT that name it.
    pub reads: u64,
    /// Executions of INSERT, UPDATE and DELETE on it.
    pub writes: u64,
    /// Rows changed in it, triggers not counted.
    pub changes: u64,
}

/// Incremental blob I/O (`sqlite3_blob_…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BlobInfo {
    /// Blobs opened: calls of open and reopen that succeeded.
    pub opened: u64,
    /// Of these, by a handle that may write.
    pub opened_for_writing: u64,
    /// Calls of read that succeeded.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Calls of write that succeeded.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Time inside all calls, ms.
    pub time_ms: f64,
}

/// Calls that failed with one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorInfo {
    /// SQLite's extended result code.
    pub code: i32,
    /// How often.
    pub count: u64,
    /// The first one's message.
    pub message: String,
}

impl Info {
    /// Whether all of its databases are in memory, where nothing of it can be done again.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !self.databases.is_empty() && self.databases.iter().all(|database| database.start == "memory")
    }
}

/// Reads a trace to its end, or to where it is damaged: that is told in [`Info::torn`].
///
/// # Errors
/// A file that is no trace, or of another version.
pub fn info(path: &Path) -> Result<Info, TraceError> {
    match read(path, Count::default())? {
        Some(info) => Ok(info),
        None => {
            let prepared = Some(PreparationCounts::read(path)?);
            Ok(read(path, Count { prepared, ..Count::default() })?.unwrap_or_default())
        }
    }
}

/// None where there are more texts than are remembered.
fn read(path: &Path, mut count: Count) -> Result<Option<Info>, TraceError> {
    let mut reader = Reader::open(path)?;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => count.record(record),
            Ok(None) => break,
            Err(error) => {
                count.info.torn = Some(error.to_string());
                break;
            }
        }
        if count.prepared.is_none() && count.texts.len() > TEXTS_MAX {
            return Ok(None);
        }
    }
    count.info.events = reader.totals().events;
    count.info.duration_s = reader.totals().end_ns as f64 / 1e9;
    Ok(Some(count.finish()))
}

#[derive(Default)]
struct Count {
    info: Info,
    /// Texts that may be prepared (again).
    texts: HashMap<u32, Rc<Text>>,
    /// Where there are too many texts to remember: which are prepared again.
    prepared: Option<PreparationCounts>,
    connections: HashMap<u32, Connection>,
    /// What the scripts that make databases set.
    scripts: HashMap<u32, LoadedSettings>,
    /// When each thread's last call returned.
    returned_ns: HashMap<u32, u64>,
    statements: BTreeMap<Verb, (StatementInfo, D)>,
    tables: HashMap<String, TableInfo>,
    errors: BTreeMap<i32, ErrorInfo>,
    untold: UntoldValues,
}

/// What a statement's text tells.
struct Text {
    verb: Verb,
    /// Tables it names; the one it changes first.
    tables: Vec<String>,
    literal_bytes: u64,
    /// `PRAGMA journal_mode=wal`
    setting: Option<String>,
    /// The schema of the file that this is of alone; none of the connection's own file, and of what
    /// is of the whole connection.
    setting_schema: Option<String>,
    /// The level that it sets `synchronous` to.
    synchronous: Option<u8>,
    is_vacuum: bool,
    /// Whether it is a BEGIN that locks for writing at once.
    locks_at_once: bool,
    /// The schema that it detaches.
    detaches: Option<String>,
    /// The schema that it attaches to be read only.
    attaches_to_read: Option<String>,
}

#[derive(Default)]
struct Connection {
    handles: HashMap<u32, Handle>,
    /// Databases in files that it has.
    files: Vec<AttachedFile>,
    in_transaction: bool,
    /// Whether the open transaction has locked several files since its BEGIN.
    locks_several: bool,
    writes: u64,
    changes: u64,
    is_counted: bool,
    /// Whether a statement of the open transaction has changed the schema.
    has_schema: bool,
    /// Blobs that may be written: calls of write so far.
    blobs: HashMap<u32, u64>,
}

/// A database in a file that a connection has.
struct AttachedFile {
    schema: String,
    database: u32,
    is_read_only: bool,
    /// The level of its `synchronous`.
    synchronous: u8,
}

#[derive(Default)]
struct Handle {
    text: Option<Rc<Text>>,
    executions: u64,
    inside_ns: u64,
    rows: u64,
    /// Whether it has changed rows, and rests at one that it returned (RETURNING).
    has_written: bool,
}

impl Connection {
    /// How many of its files are such.
    fn files_with(&self, is_such: fn(&AttachedFile) -> bool) -> u64 {
        let such = self.files.iter().filter(|file| is_such(file));
        such.map(|file| file.database).collect::<BTreeSet<u32>>().len() as u64
    }

    /// Gives the file of a schema a level of `synchronous`.
    fn set_synchronous(&mut self, schema: &str, level: u8) {
        let of_schema = self.files.iter_mut().filter(|file| file.schema.eq_ignore_ascii_case(schema));
        of_schema.for_each(|file| file.synchronous = level);
    }

    /// Whether the files that it may write have not all the same `synchronous`.
    fn has_unlike_files(&self) -> bool {
        let mut levels = self.files.iter().filter(|file| !file.is_read_only).map(|file| file.synchronous);
        levels.next().is_some_and(|first| levels.any(|other| other != first))
    }

    /// Whether its own database is in a file: without that SQLite writes no super-journal.
    fn has_main(&self) -> bool {
        self.files.iter().any(|file| file.schema == "main")
    }
}

impl Count {
    fn record(&mut self, record: Record) {
        match record {
            Record::Origin(origin) => {
                self.untold.origin(&origin);
                self.info.note = (origin.how == "synthesise").then(|| crate::synthesise::NOTE.to_owned());
                (self.info.how, self.info.what, self.info.anonymised) =
                    (origin.how, origin.what, origin.anonymised);
            }
            Record::Process(_) => self.info.processes += 1,
            Record::Thread(_) => self.info.threads += 1,
            Record::Database(database) => self.info.databases.push(DatabaseInfo::of(&database)),
            Record::Content(content) => self.content(&content),
            Record::Statement(statement) => {
                self.info.texts += 1;
                self.untold.statement(&statement);
                if self.prepared.as_ref().is_none_or(|prepared| prepared.has(statement.id)) {
                    self.texts.insert(statement.id, Rc::new(Text::of(&statement.sql)));
                }
            }
            Record::Loss(_) => self.info.lost += 1,
            Record::Exit(_) | Record::Lock(_) => {}
            Record::Event(event) => {
                self.untold.event(&event);
                self.event(&event);
            }
        }
    }

    /// The page size stands at byte 16 of a database, and at 18 whether it is in WAL mode.
    fn content(&mut self, content: &Content) {
        let Some(database) = self.info.databases.get_mut(content.database as usize) else { return };
        if database.start == "script" {
            let script = self.scripts.entry(content.database).or_default();
            script.feed(&content.bytes);
            (database.page_bytes, database.journal_mode) = script.of_file();
            database.auto_vacuum = Some(script.auto_vacuum().to_owned());
        }
        if database.start == "image"
            && let (0, Some(&[high, low, version])) = (content.offset, content.bytes.get(16..19))
        {
            let bytes = u32::from(u16::from_be_bytes([high, low]));
            database.page_bytes = Some(if bytes == 1 { 65536 } else { bytes });
            database.journal_mode = (version == 2).then(|| "wal".to_owned());
            database.auto_vacuum = auto_vacuum_of(&content.bytes).map(str::to_owned);
        }
    }

    fn event(&mut self, event: &Event) {
        self.think(event);
        match &event.action {
            Action::Open { database, outcome, .. } => {
                self.info.connections += 1;
                self.connections.insert(event.connection, Connection::default());
                self.info.connections_at_once =
                    self.info.connections_at_once.max(self.connections.len() as u64);
                self.add_file(event.connection, "main", *database);
                self.error(outcome);
            }
            Action::Close { outcome } => {
                self.error(outcome);
                if !outcome.is_error() {
                    self.connections.remove(&event.connection);
                }
            }
            Action::Prepare { handle, statement, outcome } => {
                self.info.prepared += 1;
                self.error(outcome);
                let is_last =
                    self.prepared.as_ref().is_some_and(|prepared| !prepared.is_repeated(*statement));
                let text =
                    if is_last { self.texts.remove(statement) } else { self.texts.get(statement).cloned() };
                let connection = self.connections.entry(event.connection).or_default();
                connection.handles.insert(*handle, Handle { text, ..Handle::default() });
            }
            Action::Bind { value, .. } => add(&mut self.info.bytes_given, value.bytes()),
            Action::Step(step) => self.step(event, step),
            Action::Finalize { handle } => {
                self.rest(event.connection, *handle);
                if let Some(connection) = self.connections.get_mut(&event.connection) {
                    connection.handles.remove(handle);
                }
            }
            Action::Reset { handle } => self.rest(event.connection, *handle),
            Action::Setting { setting, value } => {
                let name = match setting {
                    Setting::BusyTimeout => "sqlite3_busy_timeout".to_owned(),
                    Setting::WalAutocheckpoint => "sqlite3_wal_autocheckpoint".to_owned(),
                    Setting::DbConfig(number) => format!("sqlite3_db_config {number}"),
                };
                *self.info.settings.entry(format!("{name}={value}")).or_default() += 1;
            }
            Action::Foreign(foreign) => {
                *self.info.foreign.entry(format!("{} {}", foreign.kind.name(), foreign.name)).or_default() +=
                    1;
            }
            Action::Checkpoint { outcome, .. } => self.error(outcome),
            Action::Blob(blob) => self.blob(event, blob),
            Action::Attach { schema, database } => self.add_file(event.connection, schema, *database),
            Action::ClearBindings { .. } => {}
        }
    }

    /// A connection has this database from now on.
    fn add_file(&mut self, connection: u32, schema: &str, database: u32) {
        let known = self.info.databases.get(database as usize);
        let connection = self.connections.entry(connection).or_default();
        if known.is_some_and(|known| known.start != "memory") {
            connection.files.push(AttachedFile {
                schema: schema.to_owned(),
                database,
                is_read_only: false,
                synchronous: FULL,
            });
            let files = connection.files_with(|_| true);
            self.info.files_at_once = self.info.files_at_once.max(files);
            if !connection.has_main() {
                self.info.files_without_main = self.info.files_without_main.max(files);
            }
        }
    }

    fn think(&mut self, event: &Event) {
        let before = self.returned_ns.get(&event.thread).copied();
        if let Some(us) =
            before.and_then(|at| event.start_ns.checked_sub(at)).map(|ns| ns / 1000).filter(|us| *us > 0)
        {
            self.info.think_us.add(us);
        }
        let returned = event.start_ns.saturating_add(event.duration_ns);
        let last = self.returned_ns.entry(event.thread).or_default();
        *last = returned.max(*last);
    }

    fn error(&mut self, outcome: &Outcome) {
        if outcome.code == UNFINISHED {
            self.info.unfinished += 1;
        } else if outcome.is_error() {
            let message = outcome.message.clone();
            self.errors
                .entry(outcome.code)
                .or_insert(ErrorInfo { code: outcome.code, count: 0, message })
                .count += 1;
        }
    }

    fn step(&mut self, event: &Event, step: &Step) {
        self.error(&step.outcome);
        let connection = self.connections.entry(event.connection).or_default();
        let Some(text) = connection.handles.get(&step.handle).and_then(|handle| handle.text.clone()) else {
            return;
        };
        if text.locks_at_once && step.in_transaction && !step.outcome.is_error() {
            let locked = connection.files_with(|file| !file.is_read_only);
            connection.locks_several = locked > 1 && connection.has_main();
        }
        if let Some(schema) = text.detaches.as_ref().filter(|_| !step.outcome.is_error()) {
            connection.files.retain(|file| !file.schema.eq_ignore_ascii_case(schema));
        }
        if let Some(schema) = &text.attaches_to_read {
            let attached =
                connection.files.iter_mut().filter(|file| file.schema.eq_ignore_ascii_case(schema));
            attached.for_each(|file| file.is_read_only = true);
        }
        if let Some(level) = text.synchronous.filter(|_| step.begins && !step.outcome.is_error()) {
            connection.set_synchronous(text.setting_schema.as_deref().unwrap_or("main"), level);
        }
        let has_main = connection.has_main();
        let Some(handle) = connection.handles.get_mut(&step.handle) else { return };
        let (statement, latency) = self.statements.entry(text.verb).or_default();
        if step.begins {
            self.info.executed += 1;
            self.info.executed_again += u64::from(handle.executions > 0);
            handle.executions += 1;
            statement.executions += 1;
            add(&mut self.info.bytes_given, if text.verb.changes_rows() { text.literal_bytes } else { 0 });
            self.info.vacuums += u64::from(text.is_vacuum);
            if let Some(setting) = &text.setting {
                let setting = match text.setting_schema.as_ref().filter(|_| has_main) {
                    Some(schema) => setting.replacen("PRAGMA ", &format!("PRAGMA {schema}."), 1),
                    None => setting.clone(),
                };
                *self.info.settings.entry(setting).or_default() += 1;
            }
            for (number, table) in text.tables.iter().enumerate() {
                let entry = self.tables.entry(table.clone()).or_default();
                if text.verb.changes_rows() && number == 0 { entry.writes += 1 } else { entry.reads += 1 }
            }
        }
        add(&mut statement.rows, step.rows);
        add(&mut statement.changes, step.changes);
        statement.time_ms += event.duration_ns as f64 / 1e6;
        add(&mut handle.inside_ns, event.duration_ns);
        add(&mut handle.rows, step.rows);
        handle.has_written = text.verb.changes_rows() && step.outcome.code == ROW;
        if text.verb.changes_rows() {
            if let Some(table) = text.tables.first() {
                add(&mut self.tables.entry(table.clone()).or_default().changes, step.changes);
            }
            add(&mut connection.changes, step.changes);
            connection.is_counted = step.is_counted;
            connection.writes += u64::from(step.begins && !step.outcome.is_error());
        }
        if step.outcome.code != ROW {
            latency.add(handle.inside_ns / 1000);
            handle.inside_ns = 0;
        }
        let is_rolled_back = text.verb == Verb::Rollback || step.outcome.is_error();
        let is_schema = text.verb == Verb::Schema;
        self.transaction(event.connection, step, is_rolled_back, is_schema);
    }

    fn blob(&mut self, event: &Event, blob: &Blob) {
        self.error(&blob.outcome);
        let info = &mut self.info.blobs;
        info.time_ms += event.duration_ns as f64 / 1e6;
        let connection = self.connections.entry(event.connection).or_default();
        let is_done = !blob.outcome.is_error();
        match &blob.call {
            BlobCall::Open { writes, .. } if is_done => {
                info.opened += 1;
                if *writes {
                    info.opened_for_writing += 1;
                    connection.blobs.insert(blob.blob, 0);
                }
            }
            BlobCall::Reopen { .. } if is_done => {
                info.opened += 1;
                info.opened_for_writing += u64::from(connection.blobs.contains_key(&blob.blob));
            }
            BlobCall::Read { bytes, .. } if is_done => {
                info.reads += 1;
                add(&mut info.read_bytes, u64::try_from(*bytes).unwrap_or(0));
            }
            BlobCall::Write { data, .. } if is_done => {
                info.writes += 1;
                add(&mut info.written_bytes, data.len() as u64);
                add(&mut self.info.bytes_given, data.len() as u64);
                *connection.blobs.entry(blob.blob).or_default() += 1;
                connection.writes += u64::from(blob.in_transaction);
            }
            BlobCall::Close => {
                // Outside of a transaction closing it commits what it wrote.
                let writes = connection.blobs.remove(&blob.blob).unwrap_or(0);
                if writes > 0 && !blob.in_transaction {
                    let transactions = &mut self.info.transactions;
                    transactions.count += 1;
                    transactions.autocommit += 1;
                    transactions.writes.add(writes);
                }
            }
            _ => {}
        }
    }

    /// What a step did to the connection's transaction.
    fn transaction(&mut self, connection: u32, step: &Step, is_rolled_back: bool, is_schema: bool) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        let was_open = std::mem::replace(&mut connection.in_transaction, step.in_transaction);
        connection.has_schema |= is_schema && !step.outcome.is_error();
        if step.in_transaction || step.outcome.code == ROW {
            return;
        }
        let (writes, changes) =
            (std::mem::take(&mut connection.writes), std::mem::take(&mut connection.changes));
        let has_schema = std::mem::take(&mut connection.has_schema);
        let locks_several = std::mem::take(&mut connection.locks_several);
        if writes == 0 && !has_schema {
            return;
        }
        self.info.unlike_files += u64::from(connection.has_unlike_files());
        let transactions = &mut self.info.transactions;
        transactions.count += 1;
        transactions.autocommit += u64::from(!was_open);
        transactions.rolled_back += u64::from(was_open && is_rolled_back);
        self.info.locking_several += u64::from(locks_several && !is_rolled_back);
        transactions.writes.add(writes.max(1));
        if connection.is_counted {
            transactions.changes.add(changes);
        }
    }

    /// A statement is reset before its end: its execution ends here, and outside of a transaction
    /// what it wrote is committed.
    fn rest(&mut self, connection: u32, handle: u32) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        let Some(handle) = connection.handles.get_mut(&handle) else { return };
        if handle.inside_ns > 0
            && let Some(text) = &handle.text
        {
            self.statements.entry(text.verb).or_default().1.add(handle.inside_ns / 1000);
            handle.inside_ns = 0;
        }
        if !std::mem::take(&mut handle.has_written) || connection.in_transaction || connection.writes == 0 {
            return;
        }
        // How many rows it changed is told of what came to its end only.
        connection.changes = 0;
        let transactions = &mut self.info.transactions;
        transactions.count += 1;
        transactions.autocommit += 1;
        transactions.writes.add(std::mem::take(&mut connection.writes));
    }

    fn finish(mut self) -> Info {
        let info = &mut self.info;
        for (verb, (mut statement, latency)) in self.statements {
            statement.latency_us = latency;
            info.statements.insert(verb, statement);
        }
        let of = |verb: Verb| info.statements.get(&verb).map_or(0, |statement| statement.executions);
        let (reads, writes) = (of(Verb::Select), of(Verb::Insert) + of(Verb::Update) + of(Verb::Delete));
        info.read_share = if reads + writes == 0 { 0.0 } else { reads as f64 / (reads + writes) as f64 };
        info.tables = self.tables.into_iter().map(|(table, counts)| TableInfo { table, ..counts }).collect();
        info.tables.sort_by(|a, b| (b.reads + b.writes, &a.table).cmp(&(a.reads + a.writes, &b.table)));
        info.tables.truncate(TABLES_MAX);
        info.errors = self.errors.into_values().collect();
        info.untold = self.untold.sentence();
        self.info
    }
}

/// Numbers of a file add up to no more than the largest: who damages one gets a wrong sum, and no
/// panic.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Text {
    fn of(sql: &str) -> Text {
        let verb = Verb::of(sql);
        let literals = crate::sql::tokens(sql).filter_map(|token| crate::sql::value_of(&token));
        let pragma = crate::sql::pragma(sql).and_then(|(name, value)| Some((name, value?)));
        let is_of_file = pragma.as_ref().is_some_and(|(name, _)| OF_ONE_FILE.contains(&name.as_str()));
        let schema = crate::sql::pragma_schema(sql).filter(|schema| is_of_file && schema != "main");
        let level = pragma.as_ref().filter(|(name, _)| name == "synchronous");
        let synchronous = level.map(|(_, value)| synchronous_of(value));
        let setting = pragma.map(|(name, value)| format!("PRAGMA {name}={value}"));
        let mut words = crate::sql::tokens(sql).filter(|token| !token.is_blank());
        let (first, second) = (words.next(), words.next());
        let begins = first.is_some_and(|token| token.is("begin"));
        Text {
            is_vacuum: first.is_some_and(|token| token.is("vacuum")),
            locks_at_once: begins
                && second.is_some_and(|token| token.is("immediate") || token.is("exclusive")),
            detaches: crate::sql::detached(sql),
            attaches_to_read: attached_to_read(sql),
            verb,
            tables: tables::of(sql),
            literal_bytes: literals.fold(0, |sum, value| sum.saturating_add(value.bytes())),
            setting,
            setting_schema: schema,
            synchronous,
        }
    }
}

/// The level that `PRAGMA synchronous` sets with this value, as SQLite reads it: what is neither a
/// number nor one of its words is NORMAL.
fn synchronous_of(value: &str) -> u8 {
    match value.trim_matches(['\'', '"', '`', ' ']).to_ascii_lowercase().as_str() {
        "off" | "no" | "false" => 0,
        "full" => FULL,
        "extra" => 3,
        number => number.parse::<u8>().ok().filter(|level| *level <= 3).unwrap_or(1),
    }
}

/// The schema that an ATTACH attaches to be read only, as its URI says
/// (<https://sqlite.org/uri.html>); none of what may be written.
fn attached_to_read(sql: &str) -> Option<String> {
    let attach = crate::sql::Attach::of(sql)?;
    let is_to_read = sql.contains("file:") && (sql.contains("mode=ro") || sql.contains("immutable=1"));
    Some(attach.schema).filter(|schema| is_to_read && !schema.is_empty())
}

impl DatabaseInfo {
    fn of(database: &Database) -> DatabaseInfo {
        let (start, bytes, note) = match &database.start {
            Start::Empty => ("empty", None, None),
            Start::Memory => ("memory", None, None),
            Start::Image { bytes } => ("image", Some(*bytes), None),
            Start::Script { bytes } => ("script", Some(*bytes), None),
            Start::Generator { profile, seed, scale_percent } => {
                ("generator", None, Some(format!("{profile}, seed {seed}, {scale_percent} %")))
            }
            Start::Unknown { reason } => ("unknown", None, Some(reason.clone())),
        };
        let path = String::from_utf8_lossy(&database.path).into_owned();
        DatabaseInfo {
            path,
            start: start.into(),
            bytes,
            page_bytes: None,
            journal_mode: None,
            auto_vacuum: None,
            note,
        }
    }
}

/// Whether a database gives free pages back, by its header: at 52 stands its largest root page, 0
/// where it does not, and at 64 whether it does so only when it is asked to
/// (<https://www.sqlite.org/fileformat2.html>).
fn auto_vacuum_of(header: &[u8]) -> Option<&'static str> {
    let is_set = |at: usize| header.get(at..at + 4).map(|word| word.iter().any(|byte| *byte != 0));
    Some(match (is_set(52)?, is_set(64)?) {
        (false, _) => "none",
        (true, false) => "full",
        (true, true) => "incremental",
    })
}
