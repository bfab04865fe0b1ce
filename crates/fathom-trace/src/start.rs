//! Putting a trace's databases back to what they held at the start.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::confine::ConfinedConnection;
use crate::dump::VirtualTable;
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
    open: HashMap<u32, Filling>,
    /// Databases that a script makes, with the script's file beside them.
    scripts: HashMap<u32, (PathBuf, Filling)>,
    generators: Vec<(PathBuf, Generator)>,
}

/// A file whose content the trace brings, piece by piece.
#[derive(Debug)]
pub(crate) struct Filling {
    path: PathBuf,
    file: File,
    /// The database as people know it.
    name: String,
    /// Its length in the end, bytes.
    bytes: u64,
    /// What came so far.
    came: u64,
}

impl Filling {
    /// A new file that only the user may read, as the trace it comes from.
    pub(crate) fn new(path: &Path, name: &str, bytes: u64) -> Result<Filling, TraceError> {
        let made = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = made.map_err(TraceError::io(path))?;
        Ok(Filling { path: path.to_owned(), file, name: name.to_owned(), bytes, came: 0 })
    }

    /// The next piece. Pieces come in order and without gaps, so that what is on the disk was in
    /// the trace: an offset alone could make a file of exabytes.
    pub(crate) fn add(&mut self, content: &Content) -> Result<(), TraceError> {
        let end = self.came.checked_add(content.bytes.len() as u64).filter(|end| *end <= self.bytes);
        let Some(end) = end.filter(|_| content.offset == self.came) else {
            let problem = format!(
                "what it held at the start is not as the trace says: {} bytes at {}, where {} of {} had come; copy the trace once more from where it came",
                content.bytes.len(),
                content.offset,
                self.came,
                self.bytes
            );
            return Err(TraceError::refused(&self.name, problem));
        };
        // Packed, little can be much.
        crate::room::ask(&self.file, content.bytes.len(), self.came)
            .and_then(|()| self.file.write_all_at(&content.bytes, self.came))
            .map_err(TraceError::io(&self.path))?;
        self.came = end;
        Ok(())
    }

    /// Refuses what did not come whole.
    pub(crate) fn whole(self) -> Result<PathBuf, TraceError> {
        if self.came == self.bytes {
            return Ok(self.path);
        }
        let problem = format!(
            "only {} of the {} bytes that it held at the start are in the trace",
            self.came, self.bytes
        );
        Err(TraceError::refused(self.name, problem))
    }
}

/// How a database becomes what it was.
enum Restoration {
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
    /// A start that is not known, or made by a generator that this program does not have; a file
    /// that cannot be made.
    pub fn database(&mut self, database: &Database, path: &Path) -> Result<(), TraceError> {
        let name = String::from_utf8_lossy(&database.path).into_owned();
        match &database.start {
            Start::Empty | Start::Memory => Ok(()),
            Start::Image { bytes } => {
                self.open.insert(database.id, Filling::new(path, &name, *bytes)?);
                Ok(())
            }
            Start::Script { bytes } => {
                let script = Filling::new(&path.with_extension("start.sql"), &name, *bytes)?;
                self.scripts.insert(database.id, (path.to_owned(), script));
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
    /// A piece that does not follow the one before or goes beyond the length that was told; a full
    /// disk.
    pub fn content(&mut self, content: &Content) -> Result<(), TraceError> {
        if let Some(image) = self.open.get_mut(&content.database) {
            return image.add(content);
        }
        if let Some((_, script)) = self.scripts.get_mut(&content.database) {
            return script.add(content);
        }
        Ok(())
    }

    /// Runs the scripts and generators and gives every database the layout. None is left in WAL
    /// mode: that is the cell's to choose. All is on the device afterwards, so that no commit of a
    /// replay has to wait for it.
    ///
    /// # Errors
    /// An image that is no database or is encrypted; a script that fails; a full disk.
    pub fn finish(self, layout: Layout) -> Result<(), TraceError> {
        let images =
            self.open.into_values().map(|image| Ok::<_, TraceError>((image.whole()?, Restoration::Image)));
        let scripts = self
            .scripts
            .into_values()
            .map(|(path, filling)| Ok((path, Restoration::Script(filling.whole()?))));
        let generators = self
            .generators
            .into_iter()
            .map(|(path, generator)| Ok((path, Restoration::Generator(generator))));
        for entry in images.chain(scripts).chain(generators) {
            let (path, made) = entry?;
            let refused = |error: rusqlite::Error| {
                let hint = match error.sqlite_error_code() {
                    Some(rusqlite::ErrorCode::NotADatabase) => ": it is encrypted, or no database".to_owned(),
                    Some(rusqlite::ErrorCode::DiskFull) => {
                        crate::room::take_refusal().map_or(String::new(), |told| format!(": {told}"))
                    }
                    _ => String::new(),
                };
                TraceError::refused(path.display(), format!("the database cannot be put back: {error}{hint}"))
            };
            // A script and a schema are anybody's SQL.
            let database = ConfinedConnection::open(&path).map_err(refused)?;
            database
                .execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = DELETE")
                .map_err(refused)?;
            let present: u32 =
                database.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(refused)?;
            if let Some(bytes) = layout.page_bytes.filter(|bytes| *bytes != present) {
                database.execute_batch(&format!("PRAGMA page_size = {bytes}; VACUUM")).map_err(refused)?;
            }
            match made {
                Restoration::Image => {}
                Restoration::Script(script) => {
                    // Statement by statement: it may be longer than memory.
                    crate::import::for_each_statement(&script, |number, sql| {
                        let is_chosen = crate::sql::pragma(sql).is_some_and(|(name, _)| match &*name {
                            "journal_mode" => true,
                            "page_size" => layout.page_bytes.is_some(),
                            _ => false,
                        });
                        if is_chosen {
                            return Ok(());
                        }
                        let done = match VirtualTable::of(sql) {
                            Some(table) => table.restore(&database),
                            None => database.execute_batch(sql),
                        };
                        done.map_err(|error| match refused(error) {
                            TraceError::Refused { what, problem } => {
                                let why = database
                                    .take_refusal()
                                    .map_or(String::new(), |refusal| format!(" ({refusal})"));
                                let problem = format!("{problem}{why}; line {number} of its loading script");
                                TraceError::Refused { what, problem }
                            }
                            other => other,
                        })
                    })?;
                    std::fs::remove_file(&script).map_err(TraceError::io(&script))?;
                }
                Restoration::Generator(generator) => generator.make(&database)?,
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
    // Asked first, so that an error names the directory that was meant, and not the one that would
    // have been made in it.
    std::fs::read_dir(parent).map_err(TraceError::io(parent))?;
    tempfile::Builder::new().prefix(".fathom-replay-").tempdir_in(parent).map_err(TraceError::io(parent))
}
