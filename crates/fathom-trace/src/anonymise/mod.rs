//! A trace in which nothing of its users' texts and blobs remains, and that does the same work.
//!
//! Every word in texts is replaced by one of the same length and classes of characters; the order
//! of words, their common beginnings and their equality stay, over all tables, statements and
//! values (see `words.rs`). So indexes keep their order and selectivity, LIKE finds what it found,
//! and the database file is rewritten in place, page by page (see `image.rs`). Numbers stay as they
//! are. Names of tables and columns stay. Error messages, comments, command lines and paths go.
//!
//! Some texts are more than words: `corpus = '14'` compares a number. The original is played in
//! private (`play.rs`), and SQLite's own program of each statement says which texts become numbers
//! or dates (`flow.rs`, `meaning.rs`). Then the anonymous trace is played as well, and held against
//! the original call by call (`compare.rs`); it gets its name only if both do the same.

mod alias;
mod compare;
mod flow;
mod image;
mod meaning;
mod names;
mod numbers;
mod play;
#[cfg(test)]
mod random_tests;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod virtuals;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use compare::{Anonymous, ColumnsRead, Differences, Original, Retention, Suspects};
use image::{Image, Visitor};
use meaning::StatementUses;
use play::Play;
use text::Vocabulary;
use virtuals::Virtual;

use crate::confine::ConfinedConnection;
use crate::dump::VirtualTable;
use crate::error::TraceError;
use crate::format::{Reader, Writer};
use crate::import::for_each_statement;
use crate::model::*;
use crate::sql::{TokenKind, tokens, value_of};
use crate::start::Filling;

/// What is wished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The same seed gives the same trace.
    pub seed: u64,
    /// Whether whole numbers are replaced as well.
    pub numbers: bool,
    /// Whether a trace is written that does not do what the original does.
    pub allow_differences: bool,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymiseReport {
    /// Events of the trace.
    pub events: u64,
    /// Words that gave up their order among their nearest neighbours, because all words of their
    /// kind occur.
    pub disordered: u64,
    /// Calls and databases that are not as in the original, and the first of them in words; none
    /// where they were not allowed.
    pub different: u64,
    /// The first of them.
    pub differences: Vec<String>,
    /// Statements that found something else at first, each in words with what of it is as it was.
    pub suspects: Vec<String>,
}

/// How often it is tried: with other words, and with more of what looks like a number left as it
/// is.
const TRIES: u64 = 10;

/// The first tries, in which nothing stays that another choice of words could replace.
const FIRST_TRIES: u64 = 2;

/// Digits of numbers that stay as texts wherever they are; twice as many where the first tries do
/// something else than the original.
const SHORT_DIGITS: usize = 2;

/// Reads the trace at `input` and writes the anonymous one to `out`, after both were played in
/// private and compared. Memory: all different words, and the first bytes of all blobs; disk: the
/// databases four times, in the directory for temporary files.
///
/// # Errors
/// A trace that is damaged or torn; one of an encrypted database or of a database with a virtual
/// table; one that would not do what the original does, with the statements; a full disk.
pub fn anonymise(input: &Path, out: &Path, wish: &Wish) -> Result<AnonymiseReport, TraceError> {
    // Before the minutes that it may take.
    crate::output::check(out, &[input])?;
    let mut vocabulary = Vocabulary::new(wish.numbers);
    let images = Images::unpack(input, &mut vocabulary)?;
    for (database, path) in &images.paths {
        let file = File::open(path).map_err(TraceError::io(path))?;
        let shown = images.shown(*database);
        Image::open(&file, &shown)?.visit(&mut Collect(&mut vocabulary), false)?;
    }
    let mut suspects = Suspects::new();
    let (calls, was, _) = learn(input, wish, &suspects, &mut vocabulary)?;
    let anonymous = images.directory.path().join("anonymous.trace");
    let mut done = AnonymiseReport::default();
    let mut read = BTreeMap::new();
    for number in 0..TRIES {
        vocabulary.meanings.short_digits = if number < FIRST_TRIES { SHORT_DIGITS } else { 2 * SHORT_DIGITS };
        done.disordered = vocabulary.draw(wish.seed.wrapping_add(number));
        done.events = rewrite(input, &anonymous, &vocabulary, &images)?;
        let play = Play::new(&anonymous)?;
        let mut watch = Anonymous::new(&calls)?;
        play.run(&anonymous, &mut watch)?;
        let differences = watch.end(&was, &play.pages()?);
        done.different = differences.count;
        if differences.count == 0 {
            break;
        }
        if number + 1 == TRIES {
            done.differences = in_words(input, &differences)?;
        } else {
            for statement in differences.told.keys() {
                let is_known = suspects.contains_key(statement);
                suspects.insert(*statement, if is_known { Retention::Digits } else { Retention::Numbers });
            }
            (_, _, read) = learn(input, wish, &suspects, &mut vocabulary)?;
            keep_suspect(input, &suspects, &mut vocabulary)?;
        }
    }
    done.suspects = what_stays(input, &suspects, &read)?;
    if done.different > 0 && !wish.allow_differences {
        return Err(TraceError::Different {
            what: input.display().to_string(),
            problem: format!(
                "its anonymous trace does not do what it does; {} {} (--allow-differences writes it all the same):\n  {}",
                done.different,
                if done.different == 1 { "call or database differs" } else { "calls or databases differ" },
                done.differences.join("\n  ")
            ),
        });
    }
    let mut from = File::open(&anonymous).map_err(TraceError::io(&anonymous))?;
    let mut to = crate::output::create(out, &[input])?;
    std::io::copy(&mut from, &mut to).map_err(TraceError::io(out))?;
    to.finish()?;
    Ok(done)
}

/// What came of the original: of each call, each database's pages, and the columns that each
/// suspect statement reads.
type Learning = (File, Vec<(String, u64)>, ColumnsRead);

/// Plays the original, and learns what is done with its texts and numbers; of suspect statements
/// what they read stays.
fn learn(
    input: &Path,
    wish: &Wish,
    suspects: &Suspects,
    vocabulary: &mut Vocabulary,
) -> Result<Learning, TraceError> {
    let original = Play::new(input)?;
    let mut watch = Original::new(wish.numbers, suspects.clone())?;
    original.run(input, &mut watch)?;
    let (calls, learnt, read) = watch.end()?;
    let StatementUses { meanings, staying, .. } = learnt;
    vocabulary.meanings = meanings;
    staying.into_iter().flatten().for_each(|number| vocabulary.add_number(number, true));
    Ok((calls, original.pages()?, read))
}

/// The anonymous trace, at `out`; gives how many events it has.
fn rewrite(input: &Path, out: &Path, vocabulary: &Vocabulary, images: &Images) -> Result<u64, TraceError> {
    for (database, path) in &images.paths {
        let rewritten = images.rewritten(path);
        std::fs::copy(path, &rewritten).map_err(TraceError::io(path))?;
        let file = File::options().read(true).write(true).open(&rewritten).map_err(TraceError::io(path))?;
        let shown = images.shown(*database);
        let mut image = Image::open(&file, &shown)?;
        image.visit(&mut Replace(vocabulary), true)?;
        check(&rewritten, &shown, &image.virtuals)?;
    }
    let mut writer = Writer::create(out)?;
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
        write(record, vocabulary, images, &mut writer)?;
    }
    Ok(writer.finish()?.events)
}

/// The differences, each with its statement as it is in the original.
fn in_words(input: &Path, differences: &Differences) -> Result<Vec<String>, TraceError> {
    let texts = compare::statements(input, &differences.told.keys().copied().collect())?;
    let of = |(statement, what): (&u32, &String)| format!("{} {what}", quoted(&texts, *statement));
    Ok(differences.told.iter().map(of).chain(differences.pages.iter().cloned()).collect())
}

/// Each suspect statement with what of it is as it was.
fn what_stays(input: &Path, suspects: &Suspects, read: &ColumnsRead) -> Result<Vec<String>, TraceError> {
    let texts = compare::statements(input, &suspects.keys().copied().collect())?;
    let of = |(statement, stays): (&u32, &Retention)| {
        let what = match stays {
            Retention::Numbers => "numbers",
            Retention::Digits => "all texts without letters, as telephone numbers and dates are, and numbers",
        };
        let columns: Vec<&str> = read.get(statement).into_iter().flatten().map(String::as_str).collect();
        let columns =
            if columns.is_empty() { String::new() } else { format!(" and in {}", columns.join(", ")) };
        format!("{} keeps {what}, in itself{columns}", quoted(&texts, *statement))
    };
    Ok(suspects.iter().map(of).collect())
}

/// A statement's text in one line, shortened.
fn quoted(texts: &HashMap<u32, String>, statement: u32) -> String {
    const SHOWN_MAX: usize = 160;
    let text = texts.get(&statement).map(String::as_str).unwrap_or_default();
    let mut sql = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = sql.char_indices().nth(SHOWN_MAX) {
        sql.truncate(at);
        sql.push('…');
    }
    format!("`{sql}`")
}

/// What looks like a number, or has no letters, in statements that do something else stays as it
/// is, in the next try: it may have met what it is compared with on a way that the statements'
/// programs do not show.
fn keep_suspect(input: &Path, suspects: &Suspects, vocabulary: &mut Vocabulary) -> Result<(), TraceError> {
    let keep = |vocabulary: &mut Vocabulary, stays: Retention, value: &Value| match value {
        Value::Text(text) if stays == Retention::Digits => vocabulary.meanings.keep_digits(text),
        Value::Text(text) => vocabulary.meanings.keep_number(text),
        Value::Integer(number) => vocabulary.add_number(*number, true),
        _ => {}
    };
    let texts = compare::statements(input, &suspects.keys().copied().collect())?;
    for (statement, sql) in &texts {
        let Some(stays) = suspects.get(statement) else { continue };
        for token in tokens(sql).filter(|token| matches!(token.kind, TokenKind::Text | TokenKind::Number)) {
            if let Some(value) = value_of(&token) {
                keep(vocabulary, *stays, &value);
            }
        }
    }
    let mut handles: HashMap<(u32, u32), Retention> = HashMap::new();
    for record in Reader::open(input)? {
        let Record::Event(Event { connection, action, .. }) = record? else { continue };
        match action {
            Action::Prepare { handle, statement, .. } => match suspects.get(&statement) {
                Some(stays) => drop(handles.insert((connection, handle), *stays)),
                None => drop(handles.remove(&(connection, handle))),
            },
            Action::Bind { handle, value, .. } => {
                if let Some(stays) = handles.get(&(connection, handle)) {
                    keep(vocabulary, *stays, &value);
                }
            }
            _ => {}
        }
    }
    Ok(())
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
    directory: crate::private::Directory,
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

    /// Where the rewritten image of this one is.
    fn rewritten(&self, path: &Path) -> PathBuf {
        path.with_extension("rewritten")
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
    fn number(&mut self, number: i64, stays: bool) -> Option<i64> {
        self.0.add_number(number, stays);
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
    fn number(&mut self, number: i64, _: bool) -> Option<i64> {
        Some(self.0.number(number))
    }
    fn sql(&mut self, sql: &str) -> Option<String> {
        Some(self.0.sql(sql))
    }
}

/// Lets SQLite look at the rewritten file. Full-text indexes are made again from the texts that are
/// there now. Where an index is not in order (an expression or collation that looks at more than
/// beginnings, a word that gave up its order), the indexes are made again.
fn check(path: &Path, shown: &Path, virtuals: &[Virtual]) -> Result<(), TraceError> {
    let refused = |error: rusqlite::Error| {
        TraceError::refused(shown.display(), format!("the anonymous database cannot be checked: {error}"))
    };
    let database = ConfinedConnection::open(path).map_err(refused)?;
    if virtuals.iter().any(|value| value.rebuild().is_some()) {
        database.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA secure_delete = ON").map_err(refused)?;
        virtuals.iter().try_for_each(|each| each.make_again(&database)).map_err(refused)?;
    }
    let ask = || database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    let mut done = ask();
    if done.as_deref() != Ok("ok") {
        database
            .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA secure_delete = ON; REINDEX")
            .map_err(refused)?;
        done = ask();
    }
    match done.map_err(refused)? {
        answer if answer == "ok" => Ok(()),
        answer => Err(TraceError::refused(
            shown.display(),
            format!("its content cannot be made anonymous: a constraint does not hold afterwards: {answer}"),
        )),
    }
}

/// A script with its words replaced, statement by statement, in a file beside it. Where it is a
/// dump with full-text tables, what fills their indexes is left out, and they are made again at its
/// end, when the schema is read again.
fn replace_script(script: &Path, vocabulary: &Vocabulary) -> Result<PathBuf, TraceError> {
    let path = script.with_extension("replaced");
    let mut out = BufWriter::new(File::create(&path).map_err(TraceError::io(&path))?);
    let mut dumped: Vec<Virtual> = Vec::new();
    for_each_statement(script, |_, sql| {
        if let Some(table) = VirtualTable::of(sql) {
            let table = Virtual::of(&table.create);
            if let Some(problem) = table.as_ref().and_then(Virtual::problem) {
                return Err(TraceError::refused("the loading script", problem));
            }
            dumped.extend(table);
        }
        if dumped.iter().any(|dumped| dumped.is_filled_by(sql)) {
            return Ok(());
        }
        let sql = vocabulary.sql(sql);
        let end = if sql.ends_with(';') { "\n" } else { "\n;\n" };
        write!(out, "{sql}{end}").map_err(TraceError::io(&path))
    })?;
    if !dumped.is_empty() {
        let made: Vec<String> = dumped.iter().filter_map(Virtual::rebuild).collect();
        write!(out, "PRAGMA writable_schema = RESET;\n{};\n", made.join(";\n"))
            .map_err(TraceError::io(&path))?;
    }
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
                |file: &Path| std::fs::metadata(file).map(|file| file.len()).map_err(TraceError::io(file));
            let (start, content) = match images.paths.iter().find(|(number, _)| *number == id) {
                // Making the indexes again can change the file's length.
                Some((_, image)) => {
                    let image = images.rewritten(image);
                    (Start::Image { bytes: length(&image)? }, Some(image))
                }
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
