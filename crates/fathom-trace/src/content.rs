//! What a database holds, as one number: the same for the same rows in tables of the same names,
//! wherever their pages lie. Statistics (`ANALYZE`) are left out, because they depend on how SQLite
//! was built.
//!
//! The number is what the `sqlite3` shell's command `.sha3sum --sha3-256` gives (since SQLite
//! 3.34), so that anybody can check it. It is the SHA3-256 of one query for each table, in order of
//! their names without regard to case: `S`, the length of the query's text, `:` and the text; for
//! each row `R`, and for each value of it `N`, `I` or `F` and 8 bytes (the highest first), or `T`
//! or `B`, the length, `:` and the bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sha3::{Digest, Sha3_256};

use crate::confine::ConfinedConnection;

/// Tables with content of their own (not virtual ones).
const TABLES: &str = "SELECT lower(name) FROM sqlite_schema WHERE type = 'table' AND coalesce(rootpage, 0) > 1 \
                      AND name NOT LIKE 'sqlite_%' ORDER BY 1 COLLATE nocase";

/// The hash of the database file at `path`, in hexadecimal digits. Nobody may have it open for
/// writing.
///
/// # Errors
/// SQLite's: no database, a table with a collation that is not known.
pub fn content_hash(path: &Path) -> rusqlite::Result<String> {
    let database = open(path)?;
    let tables: Vec<String> =
        database.prepare(TABLES)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut hash = Sha3_256::new();
    for table in tables {
        let query = format!("SELECT * FROM \"{}\" NOT INDEXED;", table.replace('"', "\"\""));
        add(&database, &query, &mut hash)?;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The SHA3-256 of a file's own bytes, in hexadecimal digits: whether two traces are the same one.
///
/// # Errors
/// The file cannot be read.
pub fn sha3_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha3_256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks SQLite whether the database is sound; gives what it finds, `ok` where that is nothing.
///
/// # Errors
/// As [`content_hash`]; an index on a function that is not known.
pub fn integrity(path: &Path) -> rusqlite::Result<String> {
    open(path)?.query_row("PRAGMA integrity_check(3)", [], |row| row.get(0))
}

/// Opens the file for reading. Where no write-ahead log is left it is declared to stand still, so
/// that a file system without locks or shared memory does as well.
fn open(path: &Path) -> rusqlite::Result<ConfinedConnection> {
    let mut wal = path.to_owned().into_os_string();
    wal.push("-wal");
    let has_wal = std::fs::metadata(wal).is_ok_and(|file| file.len() > 0);
    // Characters that mean something in a URI.
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str(if has_wal { "" } else { "?immutable=1" });
    let flags = OpenFlags::SQLITE_OPEN_URI
        | if has_wal { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    // What it holds may be anybody's: a generated column or an index on an expression is computed
    // here.
    Ok(ConfinedConnection::over(Connection::open_with_flags(uri, flags)?))
}

fn add(database: &Connection, query: &str, hash: &mut Sha3_256) -> rusqlite::Result<()> {
    hash.update(format!("S{}:{query}", query.len()));
    let mut statement = database.prepare(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        hash.update("R");
        for column in 0..columns {
            match row.get_ref(column)? {
                ValueRef::Null => hash.update("N"),
                ValueRef::Integer(value) => {
                    hash.update("I");
                    hash.update(value.to_be_bytes());
                }
                ValueRef::Real(value) => {
                    hash.update("F");
                    hash.update(value.to_bits().to_be_bytes());
                }
                ValueRef::Text(bytes) => {
                    hash.update(format!("T{}:", bytes.len()));
                    hash.update(bytes);
                }
                ValueRef::Blob(bytes) => {
                    hash.update(format!("B{}:", bytes.len()));
                    hash.update(bytes);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = "CREATE TABLE T1(a, b); CREATE INDEX i ON T1(a); \
        CREATE TABLE \"o \"\"t\"(id INTEGER PRIMARY KEY AUTOINCREMENT, z); \
        CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID; CREATE VIEW v AS SELECT a FROM T1; \
        INSERT INTO T1 VALUES (1, 'x'), (NULL, x'00ff'), (2.5, -7), ('größe', 1e300), (-0.0, ''); \
        INSERT INTO \"o \"\"t\"(z) VALUES ('q'), (zeroblob(3)); INSERT INTO w VALUES ('b', 1), ('a', 2); ANALYZE;";

    #[test]
    fn the_shell_computes_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a b%?#.db");
        let open = Connection::open(&path).expect("opens");
        open.execute_batch(&format!("PRAGMA journal_mode = WAL; {SQL}")).expect("made");
        drop(open);
        let shell = std::process::Command::new("sqlite3").arg(&path).arg(".sha3sum --sha3-256").output();
        let shell = match shell {
            Ok(output) if output.status.success() => output,
            other => return println!("skipped: no sqlite3 shell ({other:?}); apt-get install sqlite3"),
        };
        assert_eq!(content_hash(&path).expect("hashed"), String::from_utf8_lossy(&shell.stdout).trim());
        assert_eq!(integrity(&path).expect("asked"), "ok");
    }

    #[test]
    fn it_depends_on_values_and_types_and_not_on_pages() {
        let directory = tempfile::tempdir().expect("a directory");
        let hash = |name: &str, sql: &str| {
            let path = directory.path().join(name);
            Connection::open(&path).expect("opens").execute_batch(sql).expect("made");
            content_hash(&path).expect("hashed")
        };
        let plain = hash("a.db", SQL);
        let moved = "INSERT INTO T1 VALUES (9, zeroblob(9000)); DELETE FROM T1 WHERE a = 9;";
        assert_eq!(plain, hash("b.db", &format!("PRAGMA page_size = 1024; {SQL}{moved}")));
        assert_eq!(plain, hash("c.db", &SQL.replace(" ANALYZE;", "")));
        for other in ["UPDATE T1 SET a = '1' WHERE a = 1", "DELETE FROM w WHERE k = 'a'", "CREATE TABLE u(a)"]
        {
            assert_ne!(plain, hash(&format!("{}.db", other.len()), &format!("{SQL}{other}")), "{other}");
        }
    }
}
