//! What can be wrong with a results file.

use std::path::{Path, PathBuf};

/// What is wrong with a results file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("{}: there is no such results file", path.display())]
    Missing {
        /// The results file.
        path: PathBuf,
    },
    /// The file exists already and `create` does not overwrite.
    #[error(
        "{}: already holds results. Go on with them (`--resume`), or write elsewhere (`--out OTHER.db`); Fathom does not overwrite results",
        path.display()
    )]
    Exists {
        /// The results file.
        path: PathBuf,
    },
    /// A name under which SQLite keeps a part of another database.
    #[error(
        "{}: SQLite takes a file of this name for a part of a database, and deletes or overwrites it when that is opened: \
         choose one that does not end in -wal, -shm or -journal",
        path.display()
    )]
    PartsName {
        /// The name.
        path: PathBuf,
    },
    /// A part of a database that would have this name is there already.
    #[error(
        "{}: is there, though the results are not: it is a part of a database that was moved or deleted, and SQLite would delete or \
         overwrite it. Bring it to its database, or choose another `--out`",
        path.display()
    )]
    Stray {
        /// The part.
        path: PathBuf,
    },
    /// Not a SQLite file at all.
    #[error("{}: not a results file: {detail}. It was left as it is", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        detail: String,
    },
    /// A SQLite database that Fathom did not write.
    #[error("{}: a SQLite database, but not Fathom's results: {detail}. It was left as it is", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What shows it.
        detail: String,
    },
    /// Written by a later Fathom.
    #[error(
        "{}: results of format version {found}; this Fathom reads up to version {known}. Use the Fathom that wrote it, or a newer one",
        path.display()
    )]
    Newer {
        /// The results file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version this Fathom reads.
        known: i64,
    },
    /// Begun by an earlier Fathom: it can be read, but not gone on with.
    #[error(
        "{}: results of format version {found}; this Fathom writes version {written} and cannot go on with them. \
         Leave out `--resume` and begin anew (`--out OTHER.db`); `fathom report` still reads these",
        path.display()
    )]
    Older {
        /// The results file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version this Fathom writes.
        written: i64,
    },
    /// An excerpt, with which nothing can go on.
    #[error(
        "{}: an excerpt of results, without their single executions: it can be read, and not gone on with. \
         Leave out `--resume` and begin anew (`--out OTHER.db`)",
        path.display()
    )]
    Excerpt {
        /// The excerpt.
        path: PathBuf,
    },
    /// Damaged or cut short.
    #[error(
        "{}: the results file is damaged: {detail}. It was left as it is; `sqlite3 {} .recover` may save what is still readable",
        path.display(),
        path.display()
    )]
    Corrupt {
        /// The results file.
        path: PathBuf,
        /// What SQLite or the check found.
        detail: String,
    },
    /// No space left where a results file was to be made.
    #[error(
        "{}: the disk is full, and nothing was left there: free some space, or name a file on another disk with `--out`",
        path.display()
    )]
    NoRoom {
        /// The results file.
        path: PathBuf,
    },
    /// No space left for what SQLite needs to read.
    #[error(
        "{}: cannot be read, for the disk that holds it is full, and SQLite keeps there what its readers share: free some space, \
         or copy it to another disk",
        path.display()
    )]
    NoRoomToRead {
        /// The results file.
        path: PathBuf,
    },
    /// No space left where the results file is, to which runs are added.
    #[error(
        "{}: the disk that holds the results is full. Finished runs are kept; free some space and go on with `--resume`",
        path.display()
    )]
    Full {
        /// The results file.
        path: PathBuf,
    },
    /// Another file, or none, has the name of the one that runs are added to.
    #[error(
        "{}: was moved, replaced or deleted while runs were added to it, and what has the name now was left as it is. The file that had it holds every run up to then: bring it back, and go on with `--resume`",
        path.display()
    )]
    Moved {
        /// The results file.
        path: PathBuf,
    },
    /// The file or its directory cannot be written.
    #[error("{}: cannot be written: {detail}. Choose another place with `--out FILE.db`", path.display())]
    ReadOnly {
        /// The results file.
        path: PathBuf,
        /// The system's words.
        detail: String,
    },
    /// Another process is writing to it.
    #[error("{}: {holder} is writing to these results; wait for it, or use another `--out`", path.display())]
    Busy {
        /// The results file.
        path: PathBuf,
        /// Who it is, as far as that is known.
        holder: String,
    },
    /// What was read is not what was written: the checksum tells.
    #[error(
        "{}: the results file is damaged: {} not as written (the checksum differs). Nothing of it is shown, for a wrong number \
         looks like a measured one. Copy the file once more from where it came, or measure again with another `--out`",
        path.display(),
        in_words(what)
    )]
    Altered {
        /// The results file.
        path: PathBuf,
        /// Which runs, or that it is the description of the experiment; then `is` or `are`.
        what: Vec<String>,
    },
    /// Anything else that SQLite or the system reports.
    #[error("{}: {detail}", path.display())]
    Other {
        /// The results file.
        path: PathBuf,
        /// SQLite's or the system's words.
        detail: String,
    },
}

/// `run 3, run 4 are`: the last is the verb.
fn in_words(what: &[String]) -> String {
    match what {
        [names @ .., verb] => format!("{} {verb}", names.join(", ")),
        [] => String::new(),
    }
}

impl StoreError {
    /// Whether it is the name that was chosen wrongly; nothing has been made then.
    #[must_use]
    pub fn is_of_the_name(&self) -> bool {
        matches!(self, StoreError::Exists { .. } | StoreError::PartsName { .. } | StoreError::Stray { .. })
    }

    /// Whether the disk is full on which the results lie, or are to lie.
    #[must_use]
    pub fn is_of_a_full_disk(&self) -> bool {
        matches!(self, StoreError::Full { .. } | StoreError::NoRoom { .. } | StoreError::NoRoomToRead { .. })
    }

    /// Of a file that is just being made, and goes again: nothing goes on with it.
    pub(super) fn of_making(self) -> StoreError {
        match self {
            StoreError::Full { path } => StoreError::NoRoom { path },
            other => other,
        }
    }

    /// As [`StoreError::from_sqlite`], of a file that is only read: nothing goes on with it.
    pub(super) fn of_reading(path: &Path, error: rusqlite::Error) -> StoreError {
        match StoreError::from_sqlite(path, error) {
            StoreError::Full { path } => StoreError::NoRoomToRead { path },
            other => other,
        }
    }

    /// Puts SQLite's error codes into words about `path`.
    pub(super) fn from_sqlite(path: &Path, error: rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode as Code;
        let path = path.to_path_buf();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::NotADatabase) => StoreError::NotADatabase { path, detail },
            Some(Code::DatabaseCorrupt) => StoreError::Corrupt { path, detail },
            Some(Code::DiskFull) => StoreError::Full { path },
            Some(Code::SystemIoFailure) if is_of_shared_memory(&error) => StoreError::Full { path },
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                StoreError::ReadOnly { path, detail }
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                StoreError::Busy { path, holder: "another process".into() }
            }
            Some(Code::SystemIoFailure) => {
                let code = error.sqlite_error().map_or(0, |error| error.extended_code);
                StoreError::Other { path, detail: format!("{detail} (SQLite's code {code})") }
            }
            Some(_) => StoreError::Other { path, detail },
            // No code: the file's content is not what the schema promises (a type, a JSON text).
            None => StoreError::Corrupt { path, detail },
        }
    }
}

/// Whether it is the file of readers and writers (`-shm`) that could not grow: SQLite has no better
/// word for a full disk then than that it is broken.
fn is_of_shared_memory(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: "finished runs are kept; go on with `--resume`" was said by `fathom report`,
    /// which has none, and of a file that could not even be begun.
    #[test]
    fn a_full_disk_has_the_remedy_of_whoever_meets_it() {
        let path = Path::new("r.db");
        let full = || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None);
        let written = StoreError::from_sqlite(path, full());
        assert!(written.to_string().contains("`--resume`"), "{written}");
        let (read, made) =
            (StoreError::of_reading(path, full()), StoreError::from_sqlite(path, full()).of_making());
        for (error, remedy) in [(&read, "copy it to another disk"), (&made, "`--out`")] {
            let told = error.to_string();
            assert!(
                told.starts_with("r.db: ") && told.contains(remedy) && !told.contains("resume"),
                "{told}"
            );
        }
        assert!([written, read, made].iter().all(StoreError::is_of_a_full_disk));
    }

    /// What happened: "disk I/O error" of a full disk, once in a hundred: it was the memory that
    /// readers and writers share which did not fit any more.
    #[test]
    fn what_does_not_fit_is_no_broken_disk() {
        let of = |code: i32| {
            let failure = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            StoreError::from_sqlite(Path::new("r.db"), failure)
        };
        assert!(of(rusqlite::ffi::SQLITE_IOERR_SHMSIZE).is_of_a_full_disk());
        let broken = of(rusqlite::ffi::SQLITE_IOERR_READ);
        assert!(!broken.is_of_a_full_disk() && broken.to_string().contains("code 266"), "{broken}");
    }
}
