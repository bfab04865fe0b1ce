//! The files that are there at the end, with their extents.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fathom_probe::{Extent, Note, extents};

use super::cause::Cause;
use fathom_ground::system::now_ns;

/// A file on the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// What it counts as, by its name.
    pub cause: Cause,
    /// Where it lies.
    pub extents: Vec<Extent>,
    /// When it was looked at, CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
}

impl FoundFile {
    /// As notes of the file with this number.
    pub(super) fn notes(&self, number: u32) -> impl Iterator<Item = Note> {
        let at_ns = self.at_ns;
        self.extents.iter().map(move |extent| Note::Mapped {
            at_ns,
            file: number,
            physical: extent.physical,
            length: extent.length,
        })
    }
}

/// Every regular file under `root`. A file system without extent maps gives files without extents.
///
/// # Errors
/// A directory cannot be listed.
pub fn files_on(root: &Path) -> io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = entry.path();
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let extents = File::open(&path).and_then(|file| extents(&file, 0, u64::MAX));
                let cause = cause_of(&path);
                found.push(FoundFile { path, cause, extents: extents.unwrap_or_default(), at_ns: now_ns() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What a file counts as by its name: SQLite's (<https://www.sqlite.org/tempfiles.html>) and
/// PostgreSQL's (<https://www.postgresql.org/docs/current/storage-file-layout.html>).
fn cause_of(path: &Path) -> Cause {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let within = |directory: &str| path.iter().any(|part| part == directory);
    if name.ends_with("-journal") {
        Cause::RollbackJournal
    } else if name.ends_with("-wal") || within("pg_wal") {
        Cause::Wal
    } else if name.ends_with(".db") || within("base") {
        Cause::Database
    } else {
        Cause::OtherFile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_counts_as() {
        for (path, cause) in [
            ("/w/chat.db", Cause::Database),
            ("/w/chat.db-journal", Cause::RollbackJournal),
            ("/w/chat.db-wal", Cause::Wal),
            ("/w/chat.db-shm", Cause::OtherFile),
            ("/w/pg/pg_wal/000000010000000000000001", Cause::Wal),
            ("/w/pg/base/5/1259", Cause::Database),
            ("/w/photo.jpg", Cause::OtherFile),
        ] {
            assert_eq!(cause_of(Path::new(path)), cause, "{path}");
        }
    }
}
