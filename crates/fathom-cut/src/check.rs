//! What file system and database make of a state: mounted by the real driver, recovered by the real
//! SQLite.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::acknowledged::AcknowledgedContents;
use crate::centre_store;
use crate::content::{Hasher, content_of};
use crate::error::CutError;
use crate::explore::Judge;
use crate::findings::Findings;
use crate::fingerprint::Fingerprints;
use crate::guest::Answer;
use crate::history::History;
use crate::medium::{FileSystem, GuestMedium, Medium};
use crate::mmdb_store;
use crate::postgresql_store;
use crate::states::{Epoch, State};
use crate::verdict::Verdict;
use crate::vfs;

/// What SQLite found in the files of a state, whoever acknowledged what.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Inspection {
    Content(u128),
    Bad(Verdict),
}

/// Whose data lies on the device, and who recovers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "engine")]
pub enum Subject {
    /// A database of SQLite's, which SQLite recovers as it is built in.
    #[default]
    Sqlite,
    /// A database of mmdb's, a directory.
    Mmdb {
        /// How it is opened.
        settings: BTreeMap<String, Json>,
    },
    /// A cluster of PostgreSQL's, in a directory that a private server is given.
    Postgresql {
        /// Of its server.
        settings: BTreeMap<String, Json>,
    },
    /// A store of the SMS centre's, a directory.
    Smsc {
        /// Which store.
        settings: BTreeMap<String, Json>,
    },
}

/// Judges states of one recording, one after the other, on an image of its own.
#[derive(Debug)]
pub struct Checker<'a> {
    history: &'a History,
    acknowledged: &'a AcknowledgedContents,
    /// The database's path below the root of the file system.
    database: PathBuf,
    subject: Subject,
    place: Place,
    fingerprints: Fingerprints<'a>,
    known: Arc<Findings>,
}

/// Where states are mounted.
#[derive(Debug)]
enum Place {
    Here(Medium),
    Guest(GuestMedium),
}

/// A file of a state as it was found, before SQLite opened anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// Its name below the file system's root.
    pub name: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// A hash of what it holds.
    pub content: u128,
    /// Whether its first byte is not zero (a journal whose header was zeroed is none any more).
    pub begins: bool,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Where it lies: offset in the file, offset on the device, bytes.
    pub extents: Vec<(u64, u64, u64)>,
}

impl<'a> Checker<'a> {
    /// Makes the image and attaches a loop device to it.
    ///
    /// # Errors
    /// There is no memory, or no loop device to be had.
    pub fn new(
        history: &'a History,
        acknowledged: &'a AcknowledgedContents,
        filesystem: &FileSystem,
        database: &Path,
        subject: &Subject,
    ) -> Result<Checker<'a>, CutError> {
        vfs::register()?;
        let place = if filesystem.guest {
            Place::Guest(GuestMedium::new(history.bytes, filesystem)?)
        } else {
            let medium = Medium::new(history.bytes, filesystem);
            Place::Here(medium.map_err(CutError::io("an image in memory with a loop device on it"))?)
        };
        let (database, subject) = (database.to_owned(), subject.clone());
        let fingerprints = Fingerprints::of(history);
        Ok(Checker { history, acknowledged, database, subject, place, fingerprints, known: Arc::default() })
    }

    /// With what others have found of the same recording, who see what this one finds.
    #[must_use]
    pub(crate) fn sharing(self, known: &Arc<Findings>) -> Checker<'a> {
        Checker { known: Arc::clone(known), ..self }
    }

    fn bring_to(&mut self, epoch: &Epoch, state: &State) -> Result<(), CutError> {
        let brought = match &mut self.place {
            Place::Here(medium) => medium.bring_to(self.history, epoch.safe, state),
            Place::Guest(medium) => medium.bring_to(self.history, epoch.safe, state),
        };
        brought.map(drop).map_err(CutError::io("bring the image to a state"))
    }

    /// The files of a state, or why it cannot be mounted.
    ///
    /// # Errors
    /// The image could not be brought to the state.
    pub fn files(
        &mut self,
        epoch: &Epoch,
        state: &State,
    ) -> Result<Result<Vec<FoundFile>, String>, CutError> {
        self.bring_to(epoch, state)?;
        Ok(match &mut self.place {
            Place::Here(medium) => match medium.mount() {
                Ok(mounted) => files_below(&mounted.path("")).map_err(|error| error.to_string()),
                Err(unmountable) => Err(unmountable.to_string()),
            },
            Place::Guest(medium) => match medium.look(&self.database, &self.subject, true)? {
                Answer::Files(files) => files,
                Answer::Unmountable(said) => Err(said),
                other => return Err(unexpected(&other)),
            },
        })
    }

    /// Writes the image of a state, zeros too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn copy_to(&mut self, epoch: &Epoch, state: &State, out: &mut dyn Write) -> Result<(), CutError> {
        self.bring_to(epoch, state)?;
        let copied = match &self.place {
            Place::Here(medium) => medium.copy_to(out),
            Place::Guest(medium) => medium.copy_to(out),
        };
        copied.map_err(CutError::io("write the image"))
    }

    /// What is found in the state that the image has, and whether the file system noted an error of
    /// its own.
    fn find(&mut self) -> Result<(Inspection, bool), CutError> {
        match &mut self.place {
            Place::Here(medium) => {
                let mounted = match medium.mount() {
                    Ok(mounted) => mounted,
                    Err(unmountable) => {
                        return Ok((
                            Inspection::Bad(Verdict::CannotBeMounted(unmountable.to_string())),
                            false,
                        ));
                    }
                };
                let database = mounted.path(&self.database.to_string_lossy());
                let found = if self.subject.has_server() {
                    // A server is a program of its own, and wants a path that leads there.
                    let look = |root: &Path| find_at(&root.join(&self.database), &self.subject, &self.known);
                    mounted.attached(look).map_err(CutError::io("attach the file system in a namespace"))?
                } else {
                    find_at(&database, &self.subject, &self.known)
                };
                drop(mounted);
                medium.wait_until_free().map_err(CutError::io("wait until the image is unmounted"))?;
                let notes_errors = medium.notes_errors();
                medium.forget();
                Ok((found, notes_errors))
            }
            Place::Guest(medium) => {
                let found = match medium.look(&self.database, &self.subject, false)? {
                    Answer::Found(found) => found,
                    Answer::Unmountable(said) => Inspection::Bad(Verdict::CannotBeMounted(said)),
                    other => return Err(unexpected(&other)),
                };
                Ok((found, medium.notes_errors()))
            }
        }
    }
}

fn unexpected(answer: &Answer) -> CutError {
    CutError::Usage(format!("guest kernel: an answer that was not asked for: {answer:?}"))
}

/// What is found of a database; files that were looked at already are not looked at again. Where a
/// file cannot be read to its end (FAT's chain of a file may be shorter than its length), the
/// engine says whether that matters.
pub(crate) fn find_at(database: &Path, subject: &Subject, known: &Findings) -> Inspection {
    let hash = subject.hash(database).ok();
    if let Some(found) = hash.and_then(|hash| known.files(hash)) {
        return found;
    }
    let found = match subject {
        Subject::Sqlite => recover(database),
        Subject::Mmdb { settings } => mmdb_store::recover(database, settings),
        Subject::Postgresql { settings } => postgresql_store::recover(database, settings),
        Subject::Smsc { settings } => centre_store::recover(database, settings),
    };
    if let Some(hash) = hash {
        known.recovered_as(hash, &found);
    }
    found
}

impl Judge for Checker<'_> {
    fn judge(&mut self, epoch: &Epoch, state: &State) -> Result<Verdict, CutError> {
        let fingerprint = self.fingerprints.get(epoch, state);
        let (found, notes_errors) = match fingerprint.and_then(|number| self.known.image(number)) {
            Some(known) => known,
            None => {
                self.bring_to(epoch, state)?;
                let found = self.find()?;
                self.known.mounted_as(fingerprint, &found);
                found
            }
        };
        let verdict = match found {
            Inspection::Content(content) => self.acknowledged.judge(content, epoch.acknowledged),
            Inspection::Bad(verdict) => verdict,
        };
        Ok(match verdict {
            Verdict::Kept | Verdict::Lost(_) if notes_errors => {
                Verdict::NeedsRepair(format!("its superblock notes an error; of the database: {verdict}"))
            }
            verdict => verdict,
        })
    }
}

impl Subject {
    /// Whether a server of its own recovers it.
    pub(crate) fn has_server(&self) -> bool {
        match self {
            Subject::Sqlite | Subject::Mmdb { .. } => false,
            Subject::Postgresql { .. } => true,
            Subject::Smsc { settings } => centre_store::has_server(settings),
        }
    }

    /// A hash of all files that it would look at.
    fn hash(&self, database: &Path) -> std::io::Result<u128> {
        match self {
            Subject::Sqlite => hash_of(database),
            Subject::Mmdb { .. } | Subject::Postgresql { .. } | Subject::Smsc { .. } => {
                let files = files_below(database)?;
                let mut hasher = Hasher::new();
                for file in files {
                    hasher.add(file.name.as_bytes());
                    hasher.add(&file.content.to_le_bytes());
                }
                Ok(hasher.end())
            }
        }
    }
}

/// A hash of all files that SQLite would look at; a file that is not there is told from an empty
/// one.
fn hash_of(database: &Path) -> std::io::Result<u128> {
    let mut hasher = Hasher::new();
    let mut bytes = Vec::new();
    for end in ["", "-journal", "-wal"] {
        let mut path = database.as_os_str().to_owned();
        path.push(end);
        bytes.clear();
        match File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => hasher.add(&bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => hasher.add(b"\0none"),
            Err(error) => return Err(error),
        }
        hasher.add(end.as_bytes());
    }
    Ok(hasher.end())
}

/// Has SQLite recover a database (hot journal or write-ahead log), and reads it.
fn recover(database: &Path) -> Inspection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match database.try_exists() {
        Ok(false) => Connection::open_in_memory(),
        _ => Connection::open_with_flags_and_vfs(database, flags, vfs::NAME),
    };
    // What is recovered here need not outlive a second cut: recovery does the same whether its
    // writes are waited for or not.
    let opened = opened.and_then(|opened| {
        opened.execute_batch("PRAGMA synchronous=off")?;
        opened.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
        Ok(opened)
    });
    let connection = match opened {
        Ok(connection) => connection,
        Err(error) => return Inspection::Bad(Verdict::CannotBeOpened(error.to_string())),
    };
    let checked: rusqlite::Result<String> =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match checked {
        Ok(said) if said == "ok" => {}
        Ok(said) => return Inspection::Bad(Verdict::Corrupt(said.replace('\n', " "))),
        Err(error) => return Inspection::Bad(Verdict::Corrupt(format!("integrity_check: {error}"))),
    }
    match content_of(&connection) {
        Ok(content) => Inspection::Content(content),
        Err(error) => Inspection::Bad(Verdict::Corrupt(error.to_string())),
    }
}

/// All files and directories below a directory, in order of their names.
pub(crate) fn files_below(root: &Path) -> std::io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let extents = |file: &File| {
            let extents = fathom_probe::extents(file, 0, u64::MAX).unwrap_or_default();
            extents.into_iter().map(|extent| (extent.offset, extent.physical, extent.length)).collect()
        };
        let held = File::open(&directory)?;
        found.push(FoundFile {
            name: name(&directory),
            bytes: 0,
            content: 0,
            begins: true,
            is_directory: true,
            extents: extents(&held),
        });
        for entry in std::fs::read_dir(&directory)? {
            let (path, kind) = {
                let entry = entry?;
                (entry.path(), entry.file_type()?)
            };
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let mut file = File::open(&path)?;
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                let mut hasher = Hasher::new();
                hasher.add(&bytes);
                found.push(FoundFile {
                    name: name(&path),
                    bytes: bytes.len() as u64,
                    content: hasher.end(),
                    begins: bytes.first().is_some_and(|&byte| byte != 0),
                    is_directory: false,
                    extents: extents(&file),
                });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
