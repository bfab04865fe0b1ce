//! What a database's own recovery makes of the files of a state.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, ffi};

use crate::content::{Hasher, content_of};
use crate::findings::Findings;
use crate::found_file::{files_below, read_whole};
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
    // What the machine had not it may have the next time.
    if let Some(hash) = hash.filter(|_| !matches!(found, Inspection::Unseen(_))) {
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
/// one. What the index of a log (`-shm`) holds does not count, for SQLite makes it anew.
///
/// # Errors
/// One cannot be opened as SQLite opens it, or not be read: what SQLite makes of that is not told
/// by what the others hold.
fn sqlite_hash_of(database: &Path) -> std::io::Result<u128> {
    let mut hasher = Hasher::new();
    let mut bytes = Vec::new();
    for end in ["", "-journal", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(end);
        bytes.clear();
        let mut as_sqlite = File::options();
        as_sqlite.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match as_sqlite.open(&path).and_then(|mut file| read_whole(&mut file, &mut bytes)) {
            Ok(length) if end == "-shm" => hasher.add(&length.to_le_bytes()),
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
        Err(error) => return found_by(&error, Verdict::CannotBeOpened, String::new()),
    };
    let checked: rusqlite::Result<String> =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0));
    match checked {
        Ok(said) if said == "ok" => {}
        Ok(said) => return Inspection::Bad(Verdict::Corrupt(said.replace('\n', " "))),
        Err(error) => return found_by(&error, Verdict::Corrupt, "integrity_check: ".into()),
    }
    match content_of(&connection) {
        Ok(content) => Inspection::Content(content),
        Err(error) => found_by(&error, Verdict::Corrupt, String::new()),
    }
}

/// What SQLite's error says of a database: nothing, where this machine had no memory for what was
/// to be done. What a damaged record says of its own length SQLite compares with the file's before
/// it asks for so much.
fn found_by(error: &rusqlite::Error, verdict: fn(String) -> Verdict, before: String) -> Inspection {
    let said = before + &error.to_string();
    let code = error.sqlite_error().map(|error| error.extended_code);
    match code {
        Some(ffi::SQLITE_NOMEM | ffi::SQLITE_IOERR_NOMEM) => Inspection::Unseen(said),
        _ => Inspection::Bad(verdict(said)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{copy, create_dir};

    /// What happened: a file of somebody's recording that is terabytes long, and has no block, was
    /// read into memory as a whole.
    #[test]
    fn a_file_that_is_only_long_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("cut.db");
        let file = File::create(&database).unwrap();
        assert!(sqlite_hash_of(&database).is_ok());
        file.set_len(1 << 40).unwrap();
        assert!(sqlite_hash_of(&database).unwrap_err().to_string().contains("is not read"));
        assert!(files_below(place.path()).is_err());
    }

    /// What happened: where this machine's memory ran short while SQLite recovered a state, that
    /// was *cannot be opened* or *corrupt*, and a promise that was broken.
    #[test]
    fn want_of_memory_is_no_verdict() {
        let of = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            found_by(&error, Verdict::CannotBeOpened, "open: ".into())
        };
        for code in [ffi::SQLITE_NOMEM, ffi::SQLITE_IOERR_NOMEM] {
            assert!(matches!(of(code), Inspection::Unseen(said) if said.starts_with("open: ")), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_IOERR_READ, ffi::SQLITE_CANTOPEN, ffi::SQLITE_NOTADB] {
            assert!(matches!(of(code), Inspection::Bad(Verdict::CannotBeOpened(_))), "{code}");
        }
    }

    /// What happened: a state was known by what its database, journal and log hold. On file systems
    /// without a log of their own the entry of `-shm` may lead nowhere while these are whole, and
    /// nobody opens the database then; whichever of two such states was looked at first decided for
    /// both, *kept* or *cannot be opened*.
    #[test]
    fn a_log_whose_index_cannot_be_opened_is_told_from_one_whose_index_can() {
        vfs::register().unwrap();
        let place = tempfile::tempdir().unwrap();
        let at = |directory: &str, end: &str| place.path().join(directory).join(format!("cut.db{end}"));
        for directory in ["run", "whole", "nowhere"] {
            create_dir(place.path().join(directory)).unwrap();
        }
        let run = Connection::open(at("run", "")).unwrap();
        run.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
        for first in ["whole", "nowhere"] {
            for directory in ["whole", "nowhere"] {
                for end in ["", "-wal"] {
                    copy(at("run", end), at(directory, end)).unwrap();
                }
            }
            let _ = std::fs::remove_file(at("whole", "-shm"));
            let _ = std::fs::remove_file(at("nowhere", "-shm"));
            std::os::unix::fs::symlink("nothing", at("nowhere", "-shm")).unwrap();
            let known = Findings::default();
            let second = if first == "whole" { "nowhere" } else { "whole" };
            for directory in [first, second] {
                let found = find_at(&at(directory, ""), &Subject::Sqlite, &known);
                let is_whole = matches!(found, Inspection::Content(_));
                assert_eq!(is_whole, directory == "whole", "{directory} after {first}: {found:?}");
            }
        }
    }
}
