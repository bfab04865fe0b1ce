//! Many spools into one trace, in order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::commits::Commits;
use super::file::Spool;
use super::inherited::Inherited;
use super::record::{Raw, tag};
use crate::error::TraceError;
use crate::format::Writer;
use crate::model::*;
use crate::sql::{
    Attach, LEFT_OUT, Target, is_key_pragma, key_of_attach, target_of_vacuum, values_from_expanded,
};
use crate::texts::Texts;

/// What became of a directory of spools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Processes that called SQLite.
    pub processes: u32,
    /// Connections that were opened.
    pub connections: u32,
    /// Events in the trace.
    pub events: u64,
    /// Executions within which their process was killed.
    pub unfinished: u64,
    /// Processes of which calls are missing: their spool could not grow, or be begun, because the
    /// disk was full. Those of which nothing is there at all count as one.
    pub cut: u32,
    /// Databases whose content at the start is not known.
    pub unknown: Vec<UnknownStart>,
}

/// A database whose content at the start is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStart {
    /// Its path.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Writes the records of all spools in `directory`, in order of time, to `writer`. Memory: the
/// texts of the statements and a record of each spool that overlaps in time.
///
/// # Errors
/// A spool that cannot be read or is damaged, a full disk.
pub fn merge(directory: &Path, origin: Origin, writer: &mut Writer) -> Result<MergeReport, TraceError> {
    let mut waiting = spools(directory)?;
    let zero_ns = waiting.iter().map(|spool| spool.header.start_ns).min().unwrap_or(0);
    let unix_s = waiting.iter().map(|spool| spool.header.start_unix_s).min().unwrap_or(0);
    writer.write(&Record::Origin(Origin { unix_s, ..origin }))?;
    let mut merge = Merge {
        directory,
        writer,
        zero_ns,
        sides: Vec::new(),
        threads: 0,
        texts: Texts::default(),
        databases: HashMap::new(),
        commits: HashMap::new(),
        merged: MergeReport::default(),
    };
    // Latest first, so that the next one is at the end.
    waiting.sort_by_key(|spool| Reverse(spool.header.start_ns));
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut heads: Vec<Option<Raw>> = Vec::new();
    loop {
        let earliest = next.peek().map(|Reverse((at, _))| *at);
        if waiting.last().is_some_and(|spool| earliest.is_none_or(|at| spool.header.start_ns <= at)) {
            let Some(spool) = waiting.pop() else { break };
            let number = merge.begin(spool)?;
            heads.push(None);
            merge.advance(number, &mut heads, &mut next)?;
            continue;
        }
        let Some(Reverse((_, number))) = next.pop() else { break };
        if let Some(raw) = heads[number].take() {
            merge.record(number, raw)?;
        }
        merge.advance(number, &mut heads, &mut next)?;
    }
    if directory.join(LOST).symlink_metadata().is_ok() {
        let last_ns = merge.sides.iter().map(|side| side.last_ns).max().unwrap_or(zero_ns);
        merge.lost(None, last_ns)?;
    }
    Ok(merge.merged)
}

/// Names of the file that tells whether each process could begin its spool: capture/spool.c renames
/// it where one could not.
pub(crate) const WHOLE: &str = "whole";
const LOST: &str = "lost";

fn spools(directory: &Path) -> Result<Vec<Spool>, TraceError> {
    let mut spools = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(TraceError::io(directory))? {
        let path = entry.map_err(TraceError::io(directory))?.path();
        if path.extension().is_some_and(|extension| extension == "spool")
            && let Some(spool) = Spool::open(&path)?
        {
            spools.push(spool);
        }
    }
    Ok(spools)
}

/// Processes that still write into a spool of `directory`: each has its own mapped as long as it
/// runs.
#[must_use]
pub fn running(directory: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut running: Vec<u32> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let process = name.strip_suffix(".spool")?.split_once('-')?.0.parse::<u32>().ok()?;
            let maps = std::fs::read(format!("/proc/{process}/maps")).ok()?;
            String::from_utf8_lossy(&maps).contains(&name).then_some(process)
        })
        .collect();
    running.sort_unstable();
    running
}

/// What parameters begin with.
const MARKS: [char; 4] = ['?', ':', '@', '$'];

/// Whether a key may be bound to a statement: behind the KEY of an ATTACH, or in the URI of its
/// file or of that of a VACUUM INTO. A replay attaches its own files, and writes its own; but a
/// database in memory it attaches by the name that is bound.
fn may_bind_key(sql: &str) -> bool {
    key_of_attach(sql).is_some()
        || Attach::of(sql).is_some_and(|attach| attach.target == Target::Expression)
        || target_of_vacuum(sql).is_some()
}

struct Merge<'a> {
    directory: &'a Path,
    writer: &'a mut Writer,
    zero_ns: u64,
    sides: Vec<Side>,
    threads: u32,
    texts: Texts,
    databases: HashMap<Vec<u8>, u32>,
    /// Of each database by its number.
    commits: HashMap<u32, Commits>,
    merged: MergeReport,
}

/// One process, and how its numbers become the trace's.
struct Side {
    spool: Spool,
    parent: Option<usize>,
    threads: HashMap<u32, u32>,
    connections: HashMap<u32, u32>,
    statements: HashMap<u32, u32>,
    databases: HashMap<u32, u32>,
    /// Executions that began and did not return yet: by connection and handle, with thread and
    /// time.
    begun: HashMap<(u32, u32), (u32, u64)>,
    /// Texts of prepared statements, where the extension tells values only as expanded text.
    templates: HashMap<(u32, u32), String>,
    /// Statements to which a key may be bound ([`may_bind_key`]).
    with_key: HashSet<(u32, u32)>,
    /// Texts with parameters, or with a key.
    texts: HashMap<u32, String>,
    /// What it does on its parent's connections.
    inherited: Inherited,
    last_ns: u64,
}

impl Merge<'_> {
    /// Begins a process.
    fn begin(&mut self, spool: Spool) -> Result<usize, TraceError> {
        let header = &spool.header;
        let parent = header.parent.and_then(|parent| {
            self.sides.iter().position(|side| (side.spool.header.pid, side.spool.header.start_ns) == parent)
        });
        let number = self.sides.len();
        self.writer.write(&Record::Process(Process {
            id: number as u32,
            pid: header.pid,
            parent: parent.map(|parent| parent as u32),
            program: header.program.clone(),
            sqlite: header.sqlite.clone(),
        }))?;
        self.merged.processes += 1;
        let last_ns = header.start_ns;
        self.sides.push(Side {
            spool,
            parent,
            threads: HashMap::new(),
            connections: HashMap::new(),
            statements: HashMap::new(),
            databases: HashMap::new(),
            begun: HashMap::new(),
            templates: HashMap::new(),
            with_key: HashSet::new(),
            texts: HashMap::new(),
            inherited: Inherited::default(),
            last_ns,
        });
        Ok(number)
    }

    /// Reads a process's next record; at its end says what was unfinished.
    fn advance(
        &mut self,
        number: usize,
        heads: &mut [Option<Raw>],
        next: &mut BinaryHeap<Reverse<(u64, usize)>>,
    ) -> Result<(), TraceError> {
        let side = &mut self.sides[number];
        match side.spool.next_record()? {
            Some(raw) => {
                // Two threads take their times before they wait for the spool, so these can be out
                // of order by a little.
                side.last_ns = side.last_ns.max(raw.end_ns);
                next.push(Reverse((side.last_ns, number)));
                heads[number] = Some(raw);
                Ok(())
            }
            None => self.end(number),
        }
    }

    fn end(&mut self, number: usize) -> Result<(), TraceError> {
        let side = &mut self.sides[number];
        let mut begun: Vec<_> = std::mem::take(&mut side.begun).into_iter().collect();
        begun.sort_by_key(|(_, (_, at))| *at);
        for ((connection, handle), (tid, at_ns)) in begun {
            let step = Step {
                handle,
                begins: true,
                is_counted: false,
                rows: 0,
                changes: 0,
                in_transaction: false,
                outcome: Outcome::of(UNFINISHED),
            };
            self.merged.unfinished += 1;
            self.event(number, tid, connection, at_ns, at_ns, Action::Step(step))?;
        }
        let side = &mut self.sides[number];
        let exit = Exit {
            process: number as u32,
            at_ns: side.last_ns.saturating_sub(self.zero_ns),
            clean: side.spool.header.is_clean,
        };
        let (is_cut, last_ns) = (side.spool.header.is_cut, side.last_ns);
        // Connections stay known: a child process may still use those that it inherited.
        (side.statements, side.texts, side.templates, side.with_key) = Default::default();
        if is_cut {
            self.lost(Some(number as u32), last_ns)?;
        }
        self.writer.write(&Record::Exit(exit))
    }

    /// Calls of a process are missing from here on.
    fn lost(&mut self, process: Option<u32>, last_ns: u64) -> Result<(), TraceError> {
        self.merged.cut += 1;
        self.writer.write(&Record::Loss(Loss { process, at_ns: last_ns.saturating_sub(self.zero_ns) }))
    }

    /// One record of a process.
    fn record(&mut self, number: usize, mut raw: Raw) -> Result<(), TraceError> {
        let side = &mut self.sides[number];
        let is_its_own = raw.connection >= side.spool.header.inherited;
        if !is_its_own && !side.inherited.counts(&raw) {
            return Ok(());
        }
        let handle = raw.number(0);
        let place = (raw.connection, handle);
        let action = match raw.tag {
            tag::STATEMENT => {
                let mut sql = raw.text(0);
                if is_key_pragma(&sql) {
                    // The key itself must not be kept.
                    LEFT_OUT.clone_into(&mut sql);
                }
                let id = self.texts.number(&sql, self.writer)?;
                let side = &mut self.sides[number];
                side.statements.insert(raw.number(0), id);
                if sql.contains(MARKS) || sql == LEFT_OUT {
                    side.texts.insert(raw.number(0), sql);
                }
                return Ok(());
            }
            tag::DATABASE => {
                let id = self.database(&raw)?;
                self.sides[number].databases.insert(raw.number(0), id);
                return Ok(());
            }
            tag::OPEN => {
                let Some(&database) = self.sides[number].databases.get(&raw.number(0)) else {
                    return Err(self.sides[number].spool.damaged());
                };
                let connection = self.merged.connections;
                self.merged.connections += 1;
                self.sides[number].connections.insert(raw.connection, connection);
                Action::Open { database, flags: raw.number(1), vfs: raw.text(0), outcome: raw.outcome(2, 1) }
            }
            tag::PREPARE => {
                let side = &mut self.sides[number];
                let Some(&statement) = side.statements.get(&raw.number(1)) else {
                    return Err(side.spool.damaged());
                };
                // One that did not compile left its number to this one.
                side.with_key.remove(&place);
                if let Some(text) = side.texts.get(&raw.number(1)) {
                    if text == LEFT_OUT {
                        let name = "PRAGMA key".into();
                        let action = Action::Foreign(Foreign { kind: ForeignKind::Encryption, name });
                        self.event(number, raw.tid, raw.connection, raw.start_ns, raw.start_ns, action)?;
                    } else if text.contains(MARKS) {
                        if may_bind_key(text) {
                            side.with_key.insert(place);
                        }
                        side.templates.insert(place, text.clone());
                    }
                }
                Action::Prepare { handle, statement, outcome: raw.outcome(2, 0) }
            }
            tag::BIND => {
                let index = (raw.word(0) >> 32) as u32;
                let Some(value) = raw.value() else { return Err(self.sides[number].spool.damaged()) };
                // What is attached is told by itself, and a replay attaches its own.
                let is_key = self.sides[number].with_key.contains(&place);
                let value = if is_key { Value::Null } else { value };
                Action::Bind { handle, index, value }
            }
            tag::EXPANDED => return self.expanded(number, &raw),
            tag::LOCK => return self.lock(number, &raw),
            tag::CLEAR => Action::ClearBindings { handle },
            tag::BEGIN_STEP => {
                self.sides[number].begun.insert(place, (raw.tid, raw.start_ns));
                return Ok(());
            }
            tag::STEP => {
                self.sides[number].begun.remove(&place);
                let (start, inside_ns) = (raw.start_ns, raw.word(5));
                let action = Action::Step(Step {
                    handle,
                    begins: raw.word(1) & 1 != 0,
                    in_transaction: raw.word(1) & 2 != 0,
                    is_counted: true,
                    rows: raw.word(2),
                    changes: raw.word(3),
                    outcome: raw.outcome(4, 0),
                });
                return self.event(
                    number,
                    raw.tid,
                    raw.connection,
                    start,
                    start.saturating_add(inside_ns),
                    action,
                );
            }
            tag::RESET => Action::Reset { handle },
            tag::FINALIZE => {
                let side = &mut self.sides[number];
                side.templates.remove(&place);
                side.with_key.remove(&place);
                side.begun.remove(&place);
                Action::Finalize { handle }
            }
            tag::CLOSE => Action::Close { outcome: raw.outcome(0, 0) },
            tag::SETTING => {
                let setting = match raw.word(0) {
                    0 => Setting::BusyTimeout,
                    1 => Setting::WalAutocheckpoint,
                    _ => Setting::DbConfig(raw.number(1)),
                };
                Action::Setting { setting, value: raw.word(2) as i64 }
            }
            tag::CHECKPOINT => {
                Action::Checkpoint { schema: raw.text(0), mode: raw.number(0), outcome: raw.outcome(1, 1) }
            }
            tag::ATTACH => {
                let Some(&database) = self.sides[number].databases.get(&raw.number(0)) else {
                    return Err(self.sides[number].spool.damaged());
                };
                Action::Attach { schema: raw.text(0), database }
            }
            tag::FOREIGN => {
                use ForeignKind::{Call, Collation, Encryption, Extension, Function, Module};
                let kinds = [Function, Collation, Module, Extension, Encryption, Call];
                let kind = kinds.get(raw.word(0) as usize).copied().unwrap_or(Call);
                Action::Foreign(Foreign { kind, name: raw.text(0) })
            }
            tag::BLOB => {
                let Some(blob) = raw.blob() else { return Err(self.sides[number].spool.damaged()) };
                Action::Blob(blob)
            }
            _ => return Err(self.sides[number].spool.damaged()),
        };
        self.event(number, raw.tid, raw.connection, raw.start_ns, raw.end_ns, action)
    }

    /// The values that the loadable extension told as text.
    fn expanded(&mut self, number: usize, raw: &Raw) -> Result<(), TraceError> {
        let handle = raw.number(0);
        if self.sides[number].with_key.contains(&(raw.connection, handle)) {
            return Ok(());
        }
        let values = self.sides[number]
            .templates
            .get(&(raw.connection, handle))
            .and_then(|template| values_from_expanded(template, &raw.text(0)));
        for (index, value) in values.unwrap_or_default() {
            let action = Action::Bind { handle, index, value };
            self.event(number, raw.tid, raw.connection, raw.start_ns, raw.end_ns, action)?;
        }
        Ok(())
    }

    /// A lock that was got or let go.
    fn lock(&mut self, number: usize, raw: &Raw) -> Result<(), TraceError> {
        let (Some(database), Some(connection)) =
            (self.known_database(number, raw.number(0)), self.connection(number, raw.connection))
        else {
            return Err(self.sides[number].spool.damaged());
        };
        let (bits, counter) = (raw.word(1), raw.number(2));
        let is_commit = bits & 1 << 8 != 0;
        let log = (bits & 1 << 9 != 0).then_some(counter);
        let change = match bits & 0xff {
            0 => LockChange::Read,
            1 => LockChange::Write,
            2 => LockChange::Exclusive,
            3 => LockChange::WriteEnd { is_commit },
            4 => LockChange::ReadEnd,
            _ => return Err(self.sides[number].spool.damaged()),
        };
        let of_database = self.commits.entry(database).or_default();
        let commits = match change {
            LockChange::Read => of_database.commits_for(log),
            LockChange::WriteEnd { is_commit: true } => of_database.committed(log),
            _ => 0,
        };
        let thread = self.thread(number, raw.tid)?;
        let at_ns = raw.start_ns.saturating_sub(self.zero_ns);
        self.writer.write(&Record::Lock(Lock { thread, connection, database, at_ns, change, commits }))
    }

    /// The trace's number of a thread.
    fn thread(&mut self, number: usize, tid: u32) -> Result<u32, TraceError> {
        if let Some(thread) = self.sides[number].threads.get(&tid) {
            return Ok(*thread);
        }
        let thread = self.threads;
        self.threads += 1;
        self.sides[number].threads.insert(tid, thread);
        self.writer.write(&Record::Thread(Thread { id: thread, process: number as u32, tid }))?;
        Ok(thread)
    }

    fn event(
        &mut self,
        number: usize,
        tid: u32,
        connection: u32,
        start_ns: u64,
        end_ns: u64,
        action: Action,
    ) -> Result<(), TraceError> {
        let thread = self.thread(number, tid)?;
        let Some(connection) = self.connection(number, connection) else {
            return Err(self.sides[number].spool.damaged());
        };
        self.merged.events += 1;
        self.writer.write(&Record::Event(Event {
            thread,
            connection,
            start_ns: start_ns.saturating_sub(self.zero_ns),
            duration_ns: end_ns.saturating_sub(start_ns),
            action,
        }))
    }

    /// The trace's number of a connection: a child process knows those of its parent.
    fn connection(&self, number: usize, connection: u32) -> Option<u32> {
        let mut side = &self.sides[number];
        loop {
            if let Some(known) = side.connections.get(&connection) {
                return Some(*known);
            }
            if connection >= side.spool.header.inherited {
                return None;
            }
            // A parent stands before its child, so this ends.
            side = &self.sides[side.parent?];
        }
    }

    /// The trace's number of a database: a child process knows those of its parent, and gives its
    /// own other numbers.
    fn known_database(&self, number: usize, database: u32) -> Option<u32> {
        let mut side = &self.sides[number];
        loop {
            if let Some(known) = side.databases.get(&database) {
                return Some(*known);
            }
            side = &self.sides[side.parent?];
        }
    }

    /// A database is one, whichever process met it first: its key says which file it is.
    fn database(&mut self, raw: &Raw) -> Result<u32, TraceError> {
        let empty = Vec::new();
        let (path, key) = (raw.texts.first().unwrap_or(&empty), raw.texts.get(1).unwrap_or(&empty));
        if let Some(id) = self.databases.get(key) {
            return Ok(*id);
        }
        let id = self.databases.len() as u32;
        self.databases.insert(key.clone(), id);
        let mut content: Option<(PathBuf, std::io::Take<File>)> = None;
        let start = match raw.text(2).as_str() {
            "empty" => Start::Empty,
            "memory" => Start::Memory,
            "image" => {
                // A key is device, inode and time: what else stands there could name a file
                // elsewhere.
                let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
                if key.is_empty() || !key.iter().all(is_key) {
                    return Err(TraceError::refused(
                        self.directory.display(),
                        format!(
                            "the key of a database, {:?}, is none; capture again",
                            String::from_utf8_lossy(key)
                        ),
                    ));
                }
                let file = self.directory.join(format!("{}.content", String::from_utf8_lossy(key)));
                let open = super::file::open_regular(&file)?;
                let bytes = open.metadata().map_err(TraceError::io(&file))?.len();
                content = Some((file, open.take(bytes)));
                Start::Image { bytes }
            }
            reason => {
                let path = String::from_utf8_lossy(path).into_owned();
                self.merged.unknown.push(UnknownStart { path, reason: reason.to_owned() });
                Start::Unknown { reason: reason.to_owned() }
            }
        };
        self.writer.write(&Record::Database(Database { id, path: path.clone(), start }))?;
        if let Some((path, file)) = content {
            copy(&path, file, id, self.writer)?;
        }
        Ok(id)
    }
}

/// A file as content, piece by piece.
pub(crate) fn copy(
    path: &Path,
    mut file: impl Read,
    database: u32,
    writer: &mut Writer,
) -> Result<(), TraceError> {
    let mut offset = 0;
    loop {
        let mut bytes = Vec::new();
        let piece = crate::format::CONTENT_BYTES as u64;
        let got = file.by_ref().take(piece).read_to_end(&mut bytes).map_err(TraceError::io(path))?;
        if got == 0 {
            return Ok(());
        }
        writer.write(&Record::Content(Content { database, offset, bytes }))?;
        offset += got as u64;
    }
}
