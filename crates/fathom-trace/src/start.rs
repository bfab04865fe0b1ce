//! Putting a trace's databases back to what they held at the start.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::model::{Content, Database, Start};
use crate::synthesise::Generator;

/// What the cell chooses and the trace does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Page size in bytes; none: as captured.
    pub page_bytes: Option<u32>,
}

/// Collects databases as a trace brings them, each into a file.
#[derive(Debug, Default)]
pub struct Restore {
    open: HashMap<u32, (PathBuf, File)>,
    /// Databases that a script makes, and the script's file beside them.
    scripts: HashMap<u32, (PathBuf, PathBuf, File)>,
    generators: Vec<(PathBuf, Generator)>,
}

/// How a database becomes what it was.
enum Made {
    /// Its file is there.
    Image,
    /// By the script in this file.
    Script(PathBuf),
    Generator(Generator),
}

impl Restore {
    /// A database that is to be the file at `path`.
    ///
    /// # Errors
    /// A start that is not known, or made by a generator that this program does not have; a file that cannot be made.
    pub fn database(&mut self, database: &Database, path: &Path) -> Result<(), TraceError> {
        let name = String::from_utf8_lossy(&database.path).into_owned();
        match &database.start {
            Start::Empty | Start::Memory => Ok(()),
            Start::Image { .. } => {
                let file = File::create(path).map_err(TraceError::io(path))?;
                self.open.insert(database.id, (path.to_owned(), file));
                Ok(())
            }
            Start::Script { .. } => {
                let script = path.with_extension("start.sql");
                let file = File::create(&script).map_err(TraceError::io(&script))?;
                self.scripts.insert(database.id, (path.to_owned(), script, file));
                Ok(())
            }
            Start::Generator { profile, seed, scale_percent } => {
                let generator = Generator::new(profile, *seed, *scale_percent, &database.path)?;
                self.generators.push((path.to_owned(), generator));
                Ok(())
            }
            Start::Unknown { reason } => Err(TraceError::refused(
                name,
                format!(
                    "what it held when it was captured is not known, so the trace cannot be replayed: {reason}"
                ),
            )),
        }
    }

    /// A piece of one of them.
    ///
    /// # Errors
    /// A full disk.
    pub fn content(&mut self, content: &Content) -> Result<(), TraceError> {
        if let Some((path, file)) = self.open.get(&content.database) {
            return file.write_all_at(&content.bytes, content.offset).map_err(TraceError::io(path));
        }
        if let Some((_, script, file)) = self.scripts.get(&content.database) {
            return file.write_all_at(&content.bytes, content.offset).map_err(TraceError::io(script));
        }
        Ok(())
    }

    /// Runs the scripts and generators and gives every database the layout. None is left in WAL mode: that is the cell's to choose. All is on
    /// the device afterwards, so that no commit of a replay has to wait for it.
    ///
    /// # Errors
    /// An image that is no database or is encrypted; a script that fails; a full disk.
    pub fn finish(self, layout: Layout) -> Result<(), TraceError> {
        let images = self.open.into_values().map(|(path, _)| (path, Made::Image));
        let scripts = self.scripts.into_values().map(|(path, script, _)| (path, Made::Script(script)));
        let generators = self.generators.into_iter().map(|(path, it)| (path, Made::Generator(it)));
        for (path, made) in images.chain(scripts).chain(generators) {
            let refused = |error: rusqlite::Error| {
                let hint = match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::NotADatabase) => ": it is encrypted, or no database",
                    _ => "",
                };
                TraceError::refused(path.display(), format!("the database cannot be put back: {error}{hint}"))
            };
            let database = rusqlite::Connection::open(&path).map_err(refused)?;
            database
                .execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = DELETE")
                .map_err(refused)?;
            let present: u32 =
                database.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(refused)?;
            if let Some(bytes) = layout.page_bytes.filter(|bytes| *bytes != present) {
                database.execute_batch(&format!("PRAGMA page_size = {bytes}; VACUUM")).map_err(refused)?;
            }
            match made {
                Made::Image => {}
                Made::Script(script) => {
                    // Statement by statement: it may be longer than memory.
                    crate::import::for_each_statement(&script, |number, sql| {
                        database.execute_batch(sql).map_err(|error| match refused(error) {
                            TraceError::Refused { what, problem } => TraceError::Refused {
                                what,
                                problem: format!("{problem}; line {number} of its loading script"),
                            },
                            other => other,
                        })
                    })?;
                    std::fs::remove_file(&script).map_err(TraceError::io(&script))?;
                }
                Made::Generator(generator) => generator.make(&database)?,
            }
            drop(database);
            File::open(&path).and_then(|file| file.sync_all()).map_err(TraceError::io(&path))?;
        }
        Ok(())
    }
}

/// A fresh directory for a replay in `parent`, removed when it is dropped.
///
/// # Errors
/// No such directory; one that cannot be written.
pub fn work_directory(parent: &Path) -> Result<tempfile::TempDir, TraceError> {
    // Asked first, so that an error names the directory that was meant, and not the one that would have been made in it.
    std::fs::read_dir(parent).map_err(TraceError::io(parent))?;
    tempfile::Builder::new().prefix(".fathom-replay-").tempdir_in(parent).map_err(TraceError::io(parent))
}
