//! A folder of scripts: one that loads the database, and one for each stream of statements of the
//! application.
//!
//! The streams are beside the loading script (`load.sql`, `stream-1.sql` …) or in a folder beside
//! it, as recordings of Android applications are published: `APP/loading.sql`,
//! `APP/benchset/0.sql`, `1.sql` …

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use super::bad::BadOnes;
use super::loading::LoadingSettings;
use super::order::Turns;
use super::play::{Player, Stream};
use super::private::{Compilation, Private, execute, message_of};
use super::statements::{Piece, Statements};
use super::{ImportReport, Starts};
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::model::Start;
use crate::sql::{TokenKind, Verb, tokens, without_key};

/// What a loading script may not do.
pub const ATTACHES: &str = "a loading script makes one database, and cannot attach or write another file; put this into a stream's script";

/// Beginnings of the name of the loading script.
const LOADING: [&str; 4] = ["load", "schema", "init", "setup"];

/// Reads the scripts in `path`: the one whose name begins with `load`, `schema`, `init` or `setup`
/// makes the database, and each other one is a connection and thread of its own. Their files tell
/// no order, so `turns` gives one, in which the trace holds and a replay does them.
pub fn import(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    turns: &mut Turns,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    let Folder { loading, streams } = find(path)?;
    let mut bytes = Vec::with_capacity(streams.len());
    for file in loading.iter().chain(&streams) {
        bytes.push(std::fs::metadata(file).map_err(TraceError::io(file))?.len());
    }
    let all_bytes = bytes.iter().sum();
    let mut imported = ImportReport::default();
    let (database, private) = match &loading {
        None => {
            let (database, start) = starts.database_and_file("script.db", assembler)?;
            if start.is_none() {
                imported.warnings.push(format!(
                    "no script is called {}*.sql, so the database is empty when the streams begin",
                    LOADING.join("*.sql, ")
                ));
            }
            (database, Private::new(start.as_deref(), all_bytes, true, steps_max)?)
        }
        Some(script) => {
            let private = Private::new(None, all_bytes, true, steps_max)?;
            (load(script, &private, assembler, bad, &mut imported)?, private)
        }
    };
    // One stream has an order of its own; several have times that give them one.
    let clock_ns = (streams.len() > 1).then_some(0);
    let mut open = Vec::with_capacity(streams.len());
    let stream_bytes = bytes.iter().skip(usize::from(loading.is_some()));
    for ((number, file), bytes) in (1..).zip(&streams).zip(stream_bytes) {
        let thread = assembler.thread(0, number, &path.display().to_string())?;
        let number = assembler.open(thread, database, 0)?;
        let (statements, connection) = (Statements::open(file)?, private.open()?);
        open.push(Some(Stream { statements, connection, number, bytes: *bytes }));
    }
    let mut player = Player::new(assembler, starts, private, bad, clock_ns);
    loop {
        let left: Vec<Option<u64>> = open.iter().map(|stream| stream.as_ref().map(left_of)).collect();
        let Some(next) = turns.next(&left) else { break };
        let Some(stream) = &mut open[next] else { break };
        if !player.unit(stream)?
            && let Some(ended) = open[next].take()
        {
            player.close(ended)?;
        }
    }
    player.finish(&mut imported);
    Ok(imported)
}

/// Bytes of a stream's file that were not read.
fn left_of(stream: &Stream) -> u64 {
    stream.bytes.saturating_sub(stream.statements.read_bytes())
}

/// Executes the loading script, and puts it into the trace as a plain script: each statement with
/// its semicolon, without what is not to be done before a replay.
fn load(
    file: &Path,
    private: &Private,
    assembler: &mut Assembler,
    bad: &mut BadOnes,
    imported: &mut ImportReport,
) -> Result<u32, TraceError> {
    let connection = private.open()?;
    let mut statements = Statements::open(file)?;
    let mut plain = tempfile::tempfile().map_err(TraceError::io(file))?;
    let mut out = std::io::BufWriter::new(&mut plain);
    let mut settings = LoadingSettings::default();
    while let Some(piece) = statements.next(&connection)? {
        let Piece { line, mut sql, compiled } = piece;
        let verb = Verb::of(&sql);
        let of_file = if verb == Verb::Pragma { settings.of_file(&sql) } else { None };
        let problem = match compiled {
            Err(problem) => Some(problem),
            // The file keeps it; what is made of it is the cell's to choose.
            Ok(Compilation::NotHere) if of_file.is_some() => {
                sql = of_file.unwrap_or_default();
                None
            }
            Ok(Compilation::NotHere | Compilation::Nothing) => continue,
            Ok(Compilation::Attach { .. } | Compilation::VacuumInto { .. }) => Some(ATTACHES.into()),
            Ok(Compilation::VirtualTable(table)) => {
                table.restore(&connection).err().map(|error| format!("fails: {}", message_of(&error)))
            }
            Ok(Compilation::Ready(mut statement)) => execute(&connection, &mut statement, verb).problem(),
        };
        if let Some(problem) = problem {
            bad.add(file, line, &sql, &problem);
            continue;
        }
        let sql = without_key(&sql).unwrap_or(sql);
        // A comment at the end would take the semicolon.
        let last = tokens(&sql).last();
        let is_comment =
            last.is_some_and(|token| token.kind == TokenKind::Comment && token.text.starts_with("--"));
        let end = if is_comment { "\n;\n" } else { ";\n" };
        out.write_all(sql.as_bytes())
            .and_then(|()| out.write_all(end.as_bytes()))
            .map_err(TraceError::io(file))?;
    }
    if statements.byte_literals > 0 {
        imported.warnings.push(format!(
            "{}: {} texts hold bytes that are no UTF-8; they are written as CAST(x'…' AS TEXT), which is the same text",
            file.display(),
            statements.byte_literals
        ));
    }
    imported.warnings.extend(settings.warning(&file.display().to_string()));
    imported.warnings.extend(statements.cut_off());
    if !connection.is_autocommit() {
        imported.warnings.push(format!(
            "{} ends within a transaction, which is rolled back: what it loaded after the last BEGIN is not there",
            file.display()
        ));
    }
    out.flush().map_err(TraceError::io(file))?;
    drop(out);
    let bytes = plain.stream_position().map_err(TraceError::io(file))?;
    plain.rewind().map_err(TraceError::io(file))?;
    assembler.database(b"script.db", Start::Script { bytes }, Some((file, plain)))
}

/// The scripts of an application.
struct Folder {
    loading: Option<PathBuf>,
    streams: Vec<PathBuf>,
}

/// The loading script and the streams, in the order of their names, numbers as numbers.
fn find(path: &Path) -> Result<Folder, TraceError> {
    let (all, folders) = scripts(path)?;
    let is_loading = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        LOADING.iter().any(|word| name.starts_with(word))
    };
    let (mut loading, mut streams): (Vec<_>, Vec<_>) = all.into_iter().partition(is_loading);
    if loading.len() > 1 {
        let names: Vec<_> = loading.iter().map(|file| file.display().to_string()).collect();
        return Err(TraceError::refused(
            path.display(),
            format!("has several loading scripts ({}); put them into one", names.join(", ")),
        ));
    }
    let mut within = Vec::new();
    for folder in folders {
        let (scripts, _) = scripts(&folder)?;
        if !scripts.is_empty() {
            within.push((folder, scripts));
        }
    }
    let names = |within: &[(PathBuf, Vec<PathBuf>)]| {
        let names: Vec<_> = within.iter().map(|(folder, _)| folder.display().to_string()).collect();
        names.join(", ")
    };
    if streams.is_empty() && within.len() == 1 && (!loading.is_empty() || !within[0].1.iter().any(is_loading))
    {
        streams = within.remove(0).1;
    } else if !within.is_empty() && (!loading.is_empty() || !streams.is_empty()) {
        return Err(TraceError::refused(
            path.display(),
            format!(
                "it is not clear which scripts are its streams: there are {} in it and more in {}; keep those of one \
                 application in one folder",
                streams.len(),
                names(&within)
            ),
        ));
    }
    if streams.is_empty() {
        let problem = if has_numbered_files(path) {
            "has no .sql file for a stream; what `strace -ff -tt -o LOG` wrote is made one file by \
             `strace-log-merge LOG`, which can be imported"
                .into()
        } else if within.is_empty() {
            "has no .sql file for a stream; see `fathom trace import --help`".into()
        } else {
            format!("has no .sql file itself; import one of the folders in it: {}", names(&within))
        };
        return Err(TraceError::refused(path.display(), problem));
    }
    streams.sort_by_key(|file| sort_key(file));
    Ok(Folder { loading: loading.pop(), streams })
}

/// Whether a folder has files as `strace -ff` writes one for each process: `log.788`.
fn has_numbered_files(path: &Path) -> bool {
    let is_numbered = |file: PathBuf| {
        let number = file.extension().unwrap_or_default().as_encoded_bytes();
        !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    };
    std::fs::read_dir(path)
        .is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_numbered(file.path()))))
}

/// The `.sql` files and the folders in a folder, by name.
fn scripts(path: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), TraceError> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path).map_err(TraceError::io(path))? {
        let file = entry.map_err(TraceError::io(path))?.path();
        let is_hidden = file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden {
            continue;
        }
        let is_script = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sql"));
        if file.is_symlink() && (is_script || file.is_dir()) {
            let problem = "is a link, and what it leads to would get into the trace: put the file itself there, or take the link away";
            return Err(TraceError::refused(file.display(), problem));
        }
        if file.is_dir() {
            folders.push(file);
        } else if file.is_file() && is_script {
            files.push(file);
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// A name by which `2.sql` comes before `10.sql`: runs of digits by their length and digits.
fn sort_key(file: &Path) -> (Vec<(String, usize, String)>, PathBuf) {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parts = Vec::new();
    let mut rest = name.as_str();
    while !rest.is_empty() {
        let digits_at = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let (letters, after) = rest.split_at(digits_at);
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (digits, after) = after.split_at(end);
        let digits = digits.trim_start_matches('0');
        parts.push((letters.to_owned(), digits.len(), digits.to_owned()));
        rest = after;
    }
    (parts, file.to_owned())
}
