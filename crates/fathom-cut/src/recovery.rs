//! What a database's own recovery makes of the files of a state.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::content::{Hasher, content_of};
use crate::findings::Findings;
use crate::found_file::files_below;
use crate::inspection::Inspection;
use crate::subject::Subject;
use crate::verdict::Verdict;
use crate::{centre_store, mmdb_store, postgresql_store, vfs};

/// What is found of a database; files that were looked at already are not looked at again. Where a
/// file cannot be read to its end (FAT's chain of a file may be shorter than its length), the
/// engine says whether that matters.
pub(crate) fn find_at(database: &Path, subject: &Subject, known: &Findings) -> Inspection {
    let hash = hash_of(database, subject).ok();
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

/// A hash of all files that a subject's engine would look at.
fn hash_of(database: &Path, subject: &Subject) -> std::io::Result<u128> {
    match subject {
        Subject::Sqlite => sqlite_hash_of(database),
        Subject::Mmdb { .. } | Subject::Postgresql { .. } | Subject::Smsc { .. } => {
            let mut hasher = Hasher::new();
            for file in files_below(database)? {
                hasher.add(file.name.as_bytes());
                hasher.add(&file.content.to_le_bytes());
            }
            Ok(hasher.end())
        }
    }
}

/// A hash of all files that SQLite would look at; a file that is not there is told from an empty
/// one.
fn sqlite_hash_of(database: &Path) -> std::io::Result<u128> {
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
