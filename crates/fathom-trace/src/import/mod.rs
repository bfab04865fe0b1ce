//! Traces out of what others wrote down: Android's log, SQL scripts, logs of expanded SQL, and the
//! spools of a capture that did not come to its end.
//!
//! A text tells what was asked and not what came of it, so rows and changes of its steps are not
//! known. What an application bound to parameters stands in the text as literals; nobody can tell
//! from it which ones were parameters, so statements are taken as they are.

mod android;
mod attach;
mod bad;
mod chatty;
mod checker;
mod died;
mod ends;
mod expanded;
mod firefox;
mod folder;
#[cfg(test)]
mod form_tests;
mod hibernate;
mod inner;
mod iso;
mod kind;
mod lines;
mod loading;
#[cfg(test)]
mod log_tests;
mod logcat;
mod not_read;
mod order;
mod play;
mod pocketdata;
mod private;
mod repr;
mod same_file;
mod script;
mod sqlite_log;
mod statements;
mod studio;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::format::{Totals, Writer};
use crate::model::{Loss, Origin, Start};
use crate::spool::{MergeReport, merge, running};

pub use bad::BadText;
pub(crate) use ends::Ends;
pub use order::Order;
pub(crate) use script::for_each as for_each_statement;

use bad::BadOnes;
use kind::Logger;
use same_file::known_as;

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Android's log with the tag SQLiteStatements.
    Android,
    /// SQL statements, each ended by a semicolon.
    Script,
    /// A folder of scripts: one that loads, and one for each stream.
    Folder,
    /// A log of what `sqlite3_trace` or `sqlite3_expanded_sql` gave, one statement a line or more,
    /// with anything before it.
    Expanded,
    /// PocketData's log: JSON objects, one a line, each with a statement.
    PocketData,
    /// A workload of PocketData's benchmark: one JSON object.
    PocketWorkload,
    /// File calls that `mobigen` or `strace` recorded; what comes of them is no trace of SQL, see
    /// [`crate::file_calls`].
    FileCalls,
    /// The spool directory of a capture.
    Spool,
}

/// What is imported.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// File or folder.
    pub path: PathBuf,
    /// What it is; none: found out.
    pub format: Option<Format>,
    /// The trace.
    pub out: PathBuf,
    /// Database files as they were at the start, each for the database of the same file name (or
    /// for the only one).
    pub starts: Vec<PathBuf>,
    /// The order in which the streams of a folder take their turns; none: by transaction.
    pub order: Option<Order>,
    /// Seed of the order; none: 1.
    pub seed: Option<u64>,
    /// Whether what does not compile is left out and counted, instead of refused.
    pub skip_bad: bool,
    /// Steps of SQLite's virtual machine that a statement may take while it is compiled and
    /// executed; none: 1,000,000,000. What takes more does not compile, as it were.
    pub max_steps: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// What the trace holds.
    pub totals: Totals,
    /// Statements read.
    pub statements: u64,
    /// Connections.
    pub connections: u32,
    /// What a user must know.
    pub warnings: Vec<String>,
    /// A line for each text that is left out, as [`ImportReport::bad`] has them, and how many more.
    pub left_out: Vec<String>,
    /// What did not compile and is left out (the first thousand).
    pub bad: Vec<BadText>,
}

/// Reads the input once and writes the trace; memory: a statement, and the texts of the statements.
///
/// # Errors
/// Input that cannot be read or is not what it should be, with the line; nothing is written then.
pub fn import(request: &Request) -> Result<ImportReport, TraceError> {
    let path = &request.path;
    let format = match request.format {
        Some(format) => format,
        None => kind::find_out(path)?,
    };
    if format != Format::Folder && (request.order.is_some() || request.seed.is_some()) {
        return Err(TraceError::refused(
            path.display(),
            "is one stream; an order and its seed are for a folder of several",
        ));
    }
    if matches!(format, Format::FileCalls | Format::Spool) {
        refuse_options_of_texts(request, format)?;
    }
    if format == Format::FileCalls {
        return import_file_calls(request);
    }
    let inputs: Vec<&Path> = request.starts.iter().chain([path]).map(PathBuf::as_path).collect();
    let writer = Writer::create_beside(&request.out, &inputs)?;
    let mut what = path.display().to_string();
    let (order, seed) = (request.order.unwrap_or_default(), request.seed.unwrap_or(1));
    if format == Format::Folder {
        what.push_str(&format!("; order {}, seed {seed}", order.name()));
    }
    let origin = Origin { how: "import".into(), what, ..Origin::default() };
    if format == Format::Spool {
        return import_spool(path, Origin { how: "capture".into(), ..origin }, writer);
    }
    let mut assembler = Assembler::new(writer, origin)?;
    let mut starts = Starts::new(&request.starts)?;
    let mut bad = BadOnes::default();
    let steps = request.max_steps.unwrap_or(private::STEPS_MAX);
    let mut imported = match format {
        Format::Android => android::import(path, &mut assembler, &mut starts, &mut bad, steps)?,
        Format::Script => script::import(path, &mut assembler, &mut starts, &mut bad, steps)?,
        Format::Folder => folder::import(
            path,
            &mut assembler,
            &mut starts,
            &mut bad,
            &mut order::Turns::new(order, seed),
            steps,
        )?,
        Format::PocketData => pocketdata::import(path, &mut assembler, &mut starts, &mut bad, steps)?,
        Format::PocketWorkload => {
            pocketdata::import_workload(path, &mut assembler, &mut starts, &mut bad, steps)?
        }
        Format::Expanded | Format::FileCalls | Format::Spool => match kind::logger_of(path)? {
            Logger::Firefox => firefox::import(path, &mut assembler, &mut starts, &mut bad, steps)?,
            Logger::Hibernate(survey) => {
                hibernate::import(path, &survey, &mut assembler, &mut starts, &mut bad, steps)?
            }
            Logger::Other => expanded::import(path, &mut assembler, &mut starts, &mut bad, steps)?,
        },
    };
    if !request.skip_bad {
        let is_otherwise = format == Format::Expanded && imported.statements == 0;
        bad.refuse(path, is_otherwise.then_some(NO_SQL_ALONE))?;
    }
    if imported.statements == 0 {
        return Err(TraceError::refused(path.display(), "holds no SQL statement"));
    }
    starts.refuse_unused()?;
    imported.warnings.extend(starts.attached_empty.iter().map(|path| {
        format!(
            "{path} is attached, and empty when the replay begins: what it held is not in a log or script; give it with --start FILE of that name"
        )
    }));
    if bad.count > 0 {
        imported.warnings.push(format!("{} texts are no statements and are left out:", bad.count));
        imported.left_out = bad.lines();
    }
    imported.bad = bad.listed;
    imported.connections = assembler.connections();
    imported.totals = assembler.finish()?;
    Ok(imported)
}

/// What to do about a log of which no line is SQL alone behind its beginning.
const NO_SQL_ALONE: &str = "no statement of this log is SQL alone, with its values filled in: log what sqlite3_expanded_sql or a trace callback \
    gives, or capture the program (`fathom trace capture -- PROGRAM`; one with an SQLite of its own loads the extension that \
    FATHOM_TRACE_EXTENSION names, see docs/traces.md)";

/// What must be known of a text that ends within a statement, as it seems.
fn cut_off(path: &Path, line: u64) -> String {
    format!(
        "{}: its last statement (line {line}) ends without a semicolon where the file ends: if that was cut off there (a DELETE \
         without its WHERE is a statement, too), the statement is another one than the application's",
        path.display()
    )
}

/// Messages with how often each came, the most frequent first, at most five.
fn abridged_list(counted: &[(String, u64)]) -> String {
    const MAX: usize = 5;
    let mut all: Vec<_> = counted.iter().collect();
    all.sort_by_key(|(message, count)| (std::cmp::Reverse(*count), message.clone()));
    let mut words: Vec<String> =
        all.iter().take(MAX).map(|(message, count)| format!("{count} × {message}")).collect();
    if all.len() > MAX {
        words.push(format!("{} other messages", all.len() - MAX));
    }
    words.join(", ")
}

/// Refuses what says nothing about an input that is no text of statements: it would be passed over.
fn refuse_options_of_texts(request: &Request, format: Format) -> Result<(), TraceError> {
    let given = [
        ("--start", !request.starts.is_empty()),
        ("--skip-bad", request.skip_bad),
        ("--max-steps", request.max_steps.is_some()),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let what = match format {
        Format::Spool => "is the spool of a capture, which keeps what its databases held itself",
        _ => "is a recording of file calls, which has no SQL",
    };
    Err(TraceError::refused(request.path.display(), format!("{what}: {option} says nothing about it")))
}

fn import_file_calls(request: &Request) -> Result<ImportReport, TraceError> {
    let imported = crate::file_calls::import(&request.path)?;
    let inputs: Vec<&Path> = request.starts.iter().chain([&request.path]).map(PathBuf::as_path).collect();
    imported.recording.write(&request.out, &inputs)?;
    let events = imported.recording.calls.len() as u64;
    let end_ns = imported.recording.calls.last().map_or(0, |call| call.at_us.saturating_mul(1000));
    Ok(ImportReport {
        totals: Totals { records: events, events, end_ns },
        warnings: imported.warnings,
        ..ImportReport::default()
    })
}

fn import_spool(path: &Path, origin: Origin, mut writer: Writer) -> Result<ImportReport, TraceError> {
    // Before it is read: one that ends meanwhile may have recorded more.
    let running: Vec<String> = running(path).iter().map(u32::to_string).collect();
    let merged: MergeReport = merge(path, origin, &mut writer)?;
    if merged.events == 0 {
        return Err(TraceError::refused(path.display(), "no process wrote anything there"));
    }
    let mut warnings: Vec<String> = merged
        .unknown
        .iter()
        .map(|database| {
            format!("{}: its content at the start is not known: {}", database.path, database.reason)
        })
        .collect();
    if merged.cut > 0 {
        warnings.push(Loss::sentence(merged.cut.into()));
    }
    if !running.is_empty() {
        warnings.push(format!(
            "captured processes still run and record ({}): the trace has what they did so far; import the directory again \
             when they have ended",
            running.join(", ")
        ));
    }
    let totals = writer.finish()?;
    Ok(ImportReport {
        totals,
        statements: totals.events,
        connections: merged.connections,
        warnings,
        left_out: Vec::new(),
        bad: Vec::new(),
    })
}

/// Database files as they were at the start.
struct Starts {
    files: Vec<(PathBuf, bool)>,
    /// Databases that are in the trace, by the names under which they are known.
    known: HashMap<String, u32>,
    /// The files that they begin with.
    file_of: HashMap<u32, PathBuf>,
    /// Those that are attached and begin empty.
    attached_empty: Vec<String>,
}

impl Starts {
    fn new(files: &[PathBuf]) -> Result<Starts, TraceError> {
        for file in files {
            let mut head = [0; 16];
            let read = std::fs::File::open(file)
                .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
            match read {
                Ok(()) if &head == b"SQLite format 3\0" => {}
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                    return Err(TraceError::io(file)(error));
                }
                _ => {
                    return Err(TraceError::refused(
                        file.display(),
                        "is no SQLite database, or an encrypted one",
                    ));
                }
            }
        }
        let files = files.iter().map(|file| (file.clone(), false)).collect();
        Ok(Starts { files, known: HashMap::new(), file_of: HashMap::new(), attached_empty: Vec::new() })
    }

    /// The database at `path`: where it is met first it is made, and begins with the given file of
    /// its name, or empty.
    fn database(&mut self, path: &str, assembler: &mut Assembler) -> Result<u32, TraceError> {
        let name = known_as(path);
        if let Some(known) = self.known.get(&*name) {
            return Ok(*known);
        }
        let database = self.make(path, assembler)?;
        self.known.insert(name.into_owned(), database);
        Ok(database)
    }

    /// The database that an ATTACH names.
    fn attached(&mut self, path: &str, assembler: &mut Assembler) -> Result<u32, TraceError> {
        let is_new = !self.known.contains_key(&*known_as(path));
        let used = |files: &[(PathBuf, bool)]| files.iter().filter(|(_, is_used)| *is_used).count();
        let before = used(&self.files);
        let database = self.database(path, assembler)?;
        if is_new && used(&self.files) == before {
            self.attached_empty.push(path.to_owned());
        }
        Ok(database)
    }

    /// The same, and the file that it begins with.
    fn database_and_file(
        &mut self,
        path: &str,
        assembler: &mut Assembler,
    ) -> Result<(u32, Option<PathBuf>), TraceError> {
        let database = self.database(path, assembler)?;
        Ok((database, self.file_of.get(&database).cloned()))
    }

    fn make(&mut self, path: &str, assembler: &mut Assembler) -> Result<u32, TraceError> {
        let name = Path::new(path).file_name();
        let is_only = self.files.len() == 1;
        let found =
            self.files.iter_mut().find(|(file, is_used)| !is_used && (is_only || file.file_name() == name));
        let Some((file, is_used)) = found else {
            self.refuse_taken(path)?;
            return assembler.database(path.as_bytes(), Start::Empty, None);
        };
        *is_used = true;
        let open = std::fs::File::open(&*file).map_err(TraceError::io(file))?;
        let bytes = open.metadata().map_err(TraceError::io(file))?.len();
        let number = assembler.database(path.as_bytes(), Start::Image { bytes }, Some((file, open)))?;
        self.file_of.insert(number, file.clone());
        Ok(number)
    }

    /// The only file begins the first database that is met, whatever that is called; a later one of
    /// the file's own name is the one that was meant.
    fn refuse_taken(&self, path: &str) -> Result<(), TraceError> {
        let name_of = |path: &str| Path::new(path).file_name().map(std::ffi::OsStr::to_owned);
        let [(file, true)] = self.files.as_slice() else { return Ok(()) };
        let own = file.file_name().map(std::ffi::OsStr::to_owned);
        let first = self.known.iter().find(|(_, number)| self.file_of.contains_key(number));
        match first {
            Some((first, _)) if name_of(path) == own && name_of(first) != own => {
                let problem = format!(
                    "{path} has its name, and it was taken for {first}, the first database of the input: give each a \
                     --start of its own name"
                );
                Err(TraceError::refused(file.display(), problem))
            }
            _ => Ok(()),
        }
    }

    fn refuse_unused(&self) -> Result<(), TraceError> {
        match self.files.iter().find(|(_, is_used)| !is_used) {
            None => Ok(()),
            Some((file, _)) => Err(TraceError::refused(
                file.display(),
                "no database of this name is in the input; --start is matched by file name",
            )),
        }
    }
}
