//! A trace in which nothing of its users' texts and blobs remains, and that does the same work.
//!
//! Every word in texts is replaced by one of the same length and classes of characters; the order of words, their common beginnings and
//! their equality stay, over all tables, statements and values (see `words.rs`). So indexes keep their order and selectivity, LIKE finds
//! what it found, and the database file is rewritten in place, page by page (see `image.rs`). Numbers stay as they are. Names of tables
//! and columns stay. Error messages, comments, command lines and paths go.

mod image;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use image::{Image, Visitor};
use text::Vocabulary;

use crate::confine::Confined;
use crate::error::TraceError;
use crate::format::{Reader, Writer};
use crate::import::for_each_statement;
use crate::model::*;
use crate::start::Filling;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anonymised {
    /// Events of the trace.
    pub events: u64,
    /// Words that gave up their order among their nearest neighbours, because all words of their kind occur.
    pub disordered: u64,
}

/// Reads the trace at `input` twice and writes the anonymous one to `out`. Memory: all different words, and the first bytes of
/// all blobs.
///
/// # Errors
/// A trace that is damaged or torn; one of an encrypted database or of a database with a virtual table; a full disk.
pub fn anonymise(input: &Path, out: &Path, seed: u64) -> Result<Anonymised, TraceError> {
    // Before the minutes that it may take.
    fathom_output::check(out, &[input])?;
    let mut vocabulary = Vocabulary::new(seed);
    let images = Images::unpack(input, &mut vocabulary)?;
    for (database, path) in &images.paths {
        let file = File::open(path).map_err(TraceError::io(path))?;
        let shown = images.shown(*database);
        Image::open(&file, &shown)?.visit(&mut Collect(&mut vocabulary), false)?;
    }
    let disordered = vocabulary.draw();
    for (database, path) in &images.paths {
        let file = File::options().read(true).write(true).open(path).map_err(TraceError::io(path))?;
        let shown = images.shown(*database);
        Image::open(&file, &shown)?.visit(&mut Replace(&vocabulary), true)?;
        check(path, &shown)?;
    }
    let mut writer = Writer::create_beside(out, &[input])?;
    let mut asks_schema = AsksSchema::default();
    for record in Reader::open(input)? {
        let record = record?;
        asks_schema.look(&record);
        if let Record::Event(Event { connection, action: Action::Bind { handle, value, .. }, .. }) = &record
            && asks_schema.handles.contains(&(*connection, *handle))
            && vocabulary.is_name(value)
        {
            writer.write(&record)?;
            continue;
        }
        write(record, &vocabulary, &images, &mut writer)?;
    }
    Ok(Anonymised { events: writer.finish()?.events, disordered })
}

/// Prepared statements that ask for tables and columns: names that are bound to them stay.
#[derive(Default)]
struct AsksSchema {
    statements: HashSet<u32>,
    handles: HashSet<(u32, u32)>,
}

impl AsksSchema {
    fn look(&mut self, record: &Record) {
        match record {
            Record::Statement(statement) if text::is_about_schema(&statement.sql) => {
                self.statements.insert(statement.id);
            }
            Record::Event(Event {
                connection, action: Action::Prepare { handle, statement, .. }, ..
            }) => {
                if self.statements.contains(statement) {
                    self.handles.insert((*connection, *handle));
                } else {
                    self.handles.remove(&(*connection, *handle));
                }
            }
            _ => {}
        }
    }
}

/// The images of a trace's databases, each in a file of its own.
struct Images {
    directory: tempfile::TempDir,
    paths: Vec<(u32, PathBuf)>,
    names: HashMap<u32, Vec<u8>>,
    /// Scripts that make a database, each in a file as well.
    scripts: HashMap<u32, PathBuf>,
}

impl Images {
    /// The first reading: images into files, texts into the vocabulary.
    fn unpack(input: &Path, vocabulary: &mut Vocabulary) -> Result<Images, TraceError> {
        let directory = crate::private::directory(".fathom-anonymise-", &std::env::temp_dir())?;
        let mut images =
            Images { directory, paths: Vec::new(), names: HashMap::new(), scripts: HashMap::new() };
        let mut filling: HashMap<u32, Filling> = HashMap::new();
        for record in Reader::open(input)? {
            match record? {
                Record::Database(database) => {
                    vocabulary.add_text(&database.path);
                    let path = images.directory.path().join(database.id.to_string());
                    let name = String::from_utf8_lossy(&database.path).into_owned();
                    match &database.start {
                        Start::Image { bytes } => {
                            filling.insert(database.id, Filling::new(&path, &name, *bytes)?);
                            images.paths.push((database.id, path));
                        }
                        Start::Script { bytes } => {
                            filling.insert(database.id, Filling::new(&path, &name, *bytes)?);
                            images.scripts.insert(database.id, path);
                        }
                        Start::Unknown { reason } => {
                            let what = String::from_utf8_lossy(&database.path).into_owned();
                            let problem = format!(
                                "what it held at the start is not known ({reason}), so nobody can say what of it the statements show"
                            );
                            return Err(TraceError::refused(what, problem));
                        }
                        Start::Generator { profile, .. } => {
                            let what = String::from_utf8_lossy(&database.path).into_owned();
                            let problem = format!(
                                "is made up by the generator {profile}: it holds nobody's texts and can be passed on as it is"
                            );
                            return Err(TraceError::refused(what, problem));
                        }
                        _ => {}
                    }
                    images.names.insert(database.id, database.path);
                }
                Record::Content(content) => {
                    if let Some(file) = filling.get_mut(&content.database) {
                        file.add(&content)?;
                    }
                }
                Record::Statement(statement) => vocabulary.add_sql(&statement.sql),
                Record::Event(Event { action: Action::Bind { value, .. }, .. }) => {
                    vocabulary.add_value(&value)
                }
                Record::Event(Event {
                    action: Action::Blob(Blob { call: BlobCall::Write { data, .. }, .. }),
                    ..
                }) => vocabulary.add_blob(&data),
                _ => {}
            }
        }
        for (_, file) in filling {
            file.whole()?;
        }
        for script in images.scripts.values() {
            for_each_statement(script, |_, sql| {
                vocabulary.add_sql(sql);
                Ok(())
            })?;
        }
        Ok(images)
    }

    /// The name of a database for people.
    fn shown(&self, database: u32) -> PathBuf {
        self.names
            .get(&database)
            .map_or_else(PathBuf::new, |name| String::from_utf8_lossy(name).into_owned().into())
    }
}

struct Collect<'a>(&'a mut Vocabulary);

impl Visitor for Collect<'_> {
    fn text(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        self.0.add_text(text);
        None
    }
    fn blob(&mut self, blob: &[u8]) -> Option<Vec<u8>> {
        self.0.add_blob(blob);
        None
    }
    fn sql(&mut self, sql: &str) -> Option<String> {
        self.0.add_sql(sql);
        None
    }
}

struct Replace<'a>(&'a Vocabulary);

impl Visitor for Replace<'_> {
    fn text(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.text(text))
    }
    fn blob(&mut self, blob: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.blob(blob))
    }
    fn sql(&mut self, sql: &str) -> Option<String> {
        Some(self.0.sql(sql))
    }
}

/// Lets SQLite look at the rewritten file. Where an index is not in order (an expression or collation that looks at more than
/// beginnings, a word that gave up its order), the indexes are made again.
fn check(path: &Path, shown: &Path) -> Result<(), TraceError> {
    let refused = |error: rusqlite::Error| {
        TraceError::refused(shown.display(), format!("the anonymous database cannot be checked: {error}"))
    };
    let database = Confined::open(path).map_err(refused)?;
    let is_ok = || {
        database
            .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
            .map(|answer| answer == "ok")
    };
    let mut done = is_ok();
    if !matches!(done, Ok(true)) {
        database
            .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA secure_delete = ON; REINDEX")
            .map_err(refused)?;
        done = is_ok();
    }
    match done.map_err(refused)? {
        true => Ok(()),
        false => Err(TraceError::refused(
            shown.display(),
            "its content cannot be made anonymous: a constraint does not hold afterwards",
        )),
    }
}

/// A script with its words replaced, statement by statement, in a file beside it.
fn replace_script(script: &Path, vocabulary: &Vocabulary) -> Result<PathBuf, TraceError> {
    let path = script.with_extension("replaced");
    let mut out = BufWriter::new(File::create(&path).map_err(TraceError::io(&path))?);
    for_each_statement(script, |_, sql| {
        let sql = vocabulary.sql(sql);
        let end = if sql.ends_with(';') { "\n" } else { "\n;\n" };
        write!(out, "{sql}{end}").map_err(TraceError::io(&path))
    })?;
    out.flush().map_err(TraceError::io(&path))?;
    Ok(path)
}

/// The second reading: one record.
fn write(
    record: Record,
    vocabulary: &Vocabulary,
    images: &Images,
    writer: &mut Writer,
) -> Result<(), TraceError> {
    let record = match record {
        Record::Origin(origin) => {
            Record::Origin(Origin { what: String::new(), unix_s: 0, anonymised: true, ..origin })
        }
        Record::Process(process) => Record::Process(Process { program: String::new(), ..process }),
        Record::Database(database) => {
            let id = database.id;
            let path = vocabulary.text(&database.path);
            let length =
                |file: &Path| std::fs::metadata(file).map(|it| it.len()).map_err(TraceError::io(file));
            let (start, content) = match images.paths.iter().find(|(number, _)| *number == id) {
                // Making the indexes again can change the file's length.
                Some((_, image)) => (Start::Image { bytes: length(image)? }, Some(image.clone())),
                None => match images.scripts.get(&id) {
                    Some(script) => {
                        let replaced = replace_script(script, vocabulary)?;
                        (Start::Script { bytes: length(&replaced)? }, Some(replaced))
                    }
                    None => (database.start, None),
                },
            };
            writer.write(&Record::Database(Database { id, path, start }))?;
            if let Some(path) = content {
                crate::spool::copy(&path, File::open(&path).map_err(TraceError::io(&path))?, id, writer)?;
            }
            return Ok(());
        }
        // Written with its database.
        Record::Content(_) => return Ok(()),
        Record::Statement(statement) => {
            Record::Statement(Statement { sql: vocabulary.sql(&statement.sql), ..statement })
        }
        Record::Event(event) => Record::Event(Event { action: action(event.action, vocabulary), ..event }),
        other => other,
    };
    writer.write(&record)
}

fn action(action: Action, vocabulary: &Vocabulary) -> Action {
    // SQLite's messages quote the statement.
    let bare = |outcome: Outcome| Outcome::of(outcome.code);
    match action {
        Action::Bind { handle, index, value } => {
            Action::Bind { handle, index, value: vocabulary.value(value) }
        }
        Action::Open { database, flags, vfs, outcome } => {
            Action::Open { database, flags, vfs, outcome: bare(outcome) }
        }
        Action::Prepare { handle, statement, outcome } => {
            Action::Prepare { handle, statement, outcome: bare(outcome) }
        }
        Action::Step(step) => Action::Step(Step { outcome: bare(step.outcome), ..step }),
        Action::Close { outcome } => Action::Close { outcome: bare(outcome) },
        Action::Checkpoint { schema, mode, outcome } => {
            Action::Checkpoint { schema, mode, outcome: bare(outcome) }
        }
        Action::Foreign(foreign) if foreign.kind == ForeignKind::Extension => {
            Action::Foreign(Foreign { name: String::new(), ..foreign })
        }
        Action::Blob(Blob { blob, call, in_transaction, outcome }) => {
            let call = match call {
                BlobCall::Write { offset, data } => BlobCall::Write { offset, data: vocabulary.blob(&data) },
                other => other,
            };
            Action::Blob(Blob { blob, call, in_transaction, outcome: bare(outcome) })
        }
        other => other,
    }
}
