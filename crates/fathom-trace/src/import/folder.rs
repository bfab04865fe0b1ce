//! A folder of scripts: one that loads the database, and one for each stream of statements that runs at the same time as the others.

use std::path::{Path, PathBuf};

use super::script::{execute, for_each};
use super::{Imported, Starts};
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::model::Start;

/// Beginnings of the name of the loading script.
const LOADING: [&str; 4] = ["load", "schema", "init", "setup"];

/// Reads the scripts in `path`: the one whose name begins with `load`, `schema`, `init` or `setup` makes the database, and each other
/// one is a connection and thread of its own. No order holds between streams, since their scripts tell none.
pub fn import(path: &Path, assembler: &mut Assembler, starts: &mut Starts) -> Result<Imported, TraceError> {
    let (loading, streams) = scripts(path)?;
    let database = match &loading {
        None => starts.database("script.db", assembler)?,
        Some(script) => {
            for_each(script, |line, sql| {
                super::attach::refuse_in_loading(&format!("{}:{line}", script.display()), sql)
            })?;
            let file = std::fs::File::open(script).map_err(TraceError::io(script))?;
            let bytes = file.metadata().map_err(TraceError::io(script))?.len();
            assembler.database(b"script.db", Start::Script { bytes }, Some((script, file)))?
        }
    };
    let mut imported = Imported::default();
    if loading.is_none() {
        imported.warnings.push(format!(
            "no script is called {}*.sql, so the database is empty when the streams begin",
            LOADING.join("*.sql, ")
        ));
    }
    for (number, stream) in (1..).zip(&streams) {
        let name = stream.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let thread = assembler.thread(0, number, &path.display().to_string())?;
        let connection = assembler.open(thread, database, 0)?;
        for_each(stream, |_, sql| {
            imported.statements += 1;
            execute(assembler, starts, connection, sql)
        })?;
        assembler.close(connection, 0)?;
        if imported.statements == 0 {
            return Err(TraceError::refused(path.join(name).display(), "holds no SQL statement"));
        }
    }
    Ok(imported)
}

/// The loading script and the streams, by name.
fn scripts(path: &Path) -> Result<(Option<PathBuf>, Vec<PathBuf>), TraceError> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path).map_err(TraceError::io(path))? {
        let file = entry.map_err(TraceError::io(path))?.path();
        if file.is_file() && file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sql")) {
            all.push(file);
        }
    }
    all.sort();
    let is_loading = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        LOADING.iter().any(|word| name.starts_with(word))
    };
    let (mut loading, streams): (Vec<_>, Vec<_>) = all.into_iter().partition(is_loading);
    if loading.len() > 1 {
        let names: Vec<_> = loading.iter().map(|file| file.display().to_string()).collect();
        return Err(TraceError::refused(
            path.display(),
            format!("has several loading scripts ({}); put them into one", names.join(", ")),
        ));
    }
    if streams.is_empty() {
        return Err(TraceError::refused(
            path.display(),
            "has no .sql file for a stream; see `fathom trace import --help`",
        ));
    }
    Ok((loading.pop(), streams))
}
