//! Putting the table back as it was loaded. The head of [`super`] says how and why.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::wrong;
use super::expected::ExpectedTable;
use super::table::{self, DATABASE};
use crate::engine::{Connection, Dialect, Engine, Value};
use crate::workload::WorkloadError;

/// Bytes that are compared and rewritten together.
const CHUNK_BYTES: usize = 64 * 1024;

/// The loaded table, kept to be put back.
pub enum LoadedTable {
    /// SQLite: a copy of the database's file.
    File {
        /// The database.
        database: PathBuf,
        /// Its copy.
        copy: PathBuf,
    },
    /// PostgreSQL: a table `prepared` beside `records`.
    Table,
}

impl LoadedTable {
    /// Loads the table and keeps a copy of it. No connection is open afterwards.
    pub fn load(engine: &dyn Engine, rows: i64, expected: &mut ExpectedTable) -> Result<Self, WorkloadError> {
        let mut connection = engine.connect(DATABASE)?;
        match engine.dialect() {
            Dialect::Sqlite => {
                table::load(&mut *connection, "records", Dialect::Sqlite, rows, expected)?;
                let database = path_of(&mut *connection)?;
                connection.close()?;
                let copy = with_suffix(&database, ".prepared");
                copy_file(&database, &copy)?;
                Ok(LoadedTable::File { database, copy })
            }
            Dialect::Postgresql => {
                table::load(&mut *connection, "prepared", Dialect::Postgresql, rows, expected)?;
                connection.close()?;
                let prepared = LoadedTable::Table;
                prepared.restore(engine)?;
                Ok(prepared)
            }
        }
    }

    /// Whether an UPDATE makes the table another one to work on, so that it must be put back before
    /// the next: PostgreSQL keeps the old versions of rows in the table, SQLite does not.
    pub fn is_worn_by_updates(&self) -> bool {
        matches!(self, LoadedTable::Table)
    }

    /// Puts the table back as it was loaded. No connection may be open, and none is afterwards.
    pub fn restore(&self, engine: &dyn Engine) -> Result<(), WorkloadError> {
        match self {
            LoadedTable::File { database, copy } => {
                refuse_unfinished(database)?;
                rewrite(database, copy)
            }
            LoadedTable::Table => {
                let mut connection = engine.connect(DATABASE)?;
                // One at a time: VACUUM and CHECKPOINT refuse to be part of a transaction, which
                // several statements in one message would be.
                for statement in [
                    "DROP TABLE IF EXISTS records",
                    "CREATE TABLE records AS SELECT * FROM prepared ORDER BY id",
                    "ALTER TABLE records ADD PRIMARY KEY (id)",
                    "VACUUM (FREEZE, ANALYZE) records",
                    "CHECKPOINT",
                ] {
                    connection.execute_script(statement)?;
                }
                Ok(connection.close()?)
            }
        }
    }
}

/// The file of an SQLite database.
fn path_of(connection: &mut dyn Connection) -> Result<PathBuf, WorkloadError> {
    let statement = connection.prepare("PRAGMA database_list")?;
    let mut path = None;
    connection.query(statement, &[], &mut |row| {
        if let [_, Value::Text(name), Value::Text(file)] = row
            && name == "main"
        {
            path = Some(PathBuf::from(file));
        }
    })?;
    path.filter(|path| !path.as_os_str().is_empty())
        .ok_or_else(|| wrong("the database has no file, so it cannot be put back".into()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A database whose journal or WAL still holds something must not be overwritten: the next open
/// would roll it back into the restored file.
fn refuse_unfinished(database: &Path) -> Result<(), WorkloadError> {
    for suffix in ["-wal", "-journal"] {
        let path = with_suffix(database, suffix);
        let mut start = [0; 8];
        let holds = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(&path, error)),
            // PERSIST leaves the file with zeroes in its header: nothing to roll back.
            Ok(file) => match file.read_at(&mut start, 0) {
                Ok(_) => start != [0; 8],
                Err(error) => return Err(failed(&path, error)),
            },
        };
        if holds {
            return Err(wrong(format!(
                "{} still holds changes after the connection was closed",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Copies by plain reads and writes and syncs the copy. `std::fs::copy` would let Btrfs and XFS
/// share the blocks, and the next write to the database would pay for parting them.
fn copy_file(from: &Path, to: &Path) -> Result<(), WorkloadError> {
    File::create(to).map_err(|error| failed(to, error))?;
    rewrite(to, from)
}

/// Makes `target` equal to `source`, writing only chunks that differ, in place; then syncs it.
fn rewrite(target: &Path, source: &Path) -> Result<(), WorkloadError> {
    let from = File::open(source).map_err(|error| failed(source, error))?;
    let to = OpenOptions::new().read(true).write(true).open(target).map_err(|error| failed(target, error))?;
    let (mut wanted, mut present) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut offset = 0;
    loop {
        let bytes = read_full(&from, &mut wanted, offset).map_err(|error| failed(source, error))?;
        if bytes == 0 {
            break;
        }
        let same = read_full(&to, &mut present, offset).map_err(|error| failed(target, error))?;
        if same < bytes || wanted[..bytes] != present[..bytes] {
            to.write_all_at(&wanted[..bytes], offset).map_err(|error| failed(target, error))?;
        }
        offset += bytes as u64;
    }
    let truncated = match to.metadata() {
        Ok(metadata) if metadata.len() == offset => Ok(()),
        Ok(_) => to.set_len(offset),
        Err(error) => Err(error),
    };
    truncated.and_then(|()| to.sync_all()).map_err(|error| failed(target, error))
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn failed(path: &Path, source: io::Error) -> WorkloadError {
    WorkloadError::Io { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn rewriting_makes_files_equal(
            seed: u64,
            source_bytes in 0_usize..300_000,
            target_bytes in 0_usize..300_000,
            changed in prop::collection::vec(0_usize..300_000, 0..5),
        ) {
            let directory = tempfile::tempdir().expect("a directory");
            let (source, target) = (directory.path().join("source"), directory.path().join("target"));
            let mut content = vec![0; source_bytes];
            fathom_random::Random::new(seed).fill(&mut content);
            std::fs::write(&source, &content).expect("written");
            let mut other = content.clone();
            other.resize(target_bytes, 9);
            for at in changed {
                if let Some(byte) = other.get_mut(at) {
                    *byte ^= 1;
                }
            }
            std::fs::write(&target, other).expect("written");
            rewrite(&target, &source).expect("rewritten");
            prop_assert_eq!(std::fs::read(&target).expect("readable"), content);
        }
    }

    #[test]
    fn only_what_differs_is_written_and_the_file_stays_the_same_file() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().expect("a directory");
        let (source, target) = (directory.path().join("source"), directory.path().join("target"));
        std::fs::write(&source, vec![1; 200_000]).expect("written");
        copy_file(&source, &target).expect("copied");
        let inode = std::fs::metadata(&target).expect("there").ino();
        let before = std::fs::metadata(&target).expect("there").mtime_nsec();
        // Long enough for a clock tick of the file system's time stamps.
        std::thread::sleep(std::time::Duration::from_millis(20));
        rewrite(&target, &source).expect("rewritten");
        let after = std::fs::metadata(&target).expect("there");
        assert_eq!((after.ino(), after.mtime_nsec()), (inode, before));
    }

    #[test]
    fn an_unfinished_journal_is_refused_and_an_emptied_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("update.db");
        for (suffix, content, is_refused) in [
            ("-journal", &b""[..], false),
            ("-journal", &[0; 512][..], false),
            ("-journal", &b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7rest"[..], true),
            ("-wal", &b""[..], false),
            ("-wal", &b"\x37\x7f\x06\x82rest"[..], true),
        ] {
            let path = with_suffix(&database, suffix);
            std::fs::write(&path, content).expect("written");
            assert_eq!(refuse_unfinished(&database).is_err(), is_refused, "{suffix} {content:?}");
            std::fs::remove_file(&path).expect("removed");
        }
    }
}
