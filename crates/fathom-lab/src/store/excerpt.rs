//! Excerpts: a results file without its single executions, small enough to be published.
//!
//! An excerpt holds every run of every block: its phases, their model time, counts, checks and
//! warnings, so that every mean, interval and ratio that `fathom report` prints can be computed
//! again. It leaves out what only a few figures need and what fills a file: the single executions,
//! the requests of block traces, and recordings. It is a results file of its own, whose checksums
//! are of what it holds, compressed with Zstandard (RFC 8878); `zstd -d` makes a SQLite database of
//! it.
//!
//! It is read into memory, never onto the disk, and nothing goes on with it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use fathom_workload::engine::EngineInfo;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{APPLICATION_ID, Results, SCHEMA, StoreError, VERSION, checksum};

/// How a compressed file begins (RFC 8878, section 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An excerpt unpacks to no more than so many bytes; published ones have a few hundred KiB.
const LARGEST: u64 = 256 << 20;

/// The version since which no table has got another column.
const COLUMNS: i64 = 10;

/// How hard the compressor tries. Excerpts are written once and read for years.
const LEVEL: i32 = 19;

/// What an excerpt does not hold.
const LEFT_OUT: [&str; 5] = ["sample", "trace", "phase_window", "block_request", "recording"];

/// Under this key of its environment an excerpt says what it is.
pub(super) const KEY: &str = "excerpt";

impl Results {
    /// Writes an excerpt of these results.
    ///
    /// # Errors
    /// Results of an earlier version with other columns; a file that was damaged after it was read;
    /// what `out` says.
    pub fn excerpt(&self, out: &mut dyn Write) -> Result<(), StoreError> {
        if self.version < COLUMNS {
            let detail = format!(
                "results of format version {}: an excerpt is made of version {COLUMNS} and later",
                self.version
            );
            return Err(StoreError::Other { path: self.path().to_path_buf(), detail });
        }
        let fail = |error| StoreError::of_reading(self.path(), error);
        let mut small = Connection::open_in_memory().map_err(fail)?;
        self.copy_to(&mut small).map_err(fail)?;
        let data = small.serialize("main").map_err(fail)?;
        let other = |error: std::io::Error| StoreError::Other {
            path: self.path().to_path_buf(),
            detail: format!("its excerpt cannot be written: {error}"),
        };
        let packed = zstd::bulk::compress(&data, LEVEL).map_err(other)?;
        out.write_all(&packed).map_err(other)
    }

    /// Whether these results are an excerpt: means and intervals, and no single executions.
    #[must_use]
    pub fn is_excerpt(&self) -> bool {
        self.environment.contains_key(KEY)
    }

    fn copy_to(&self, small: &mut Connection) -> rusqlite::Result<()> {
        // Seven of eight pages of a small file would be half empty with the usual 4 KiB.
        small.pragma_update(None, "page_size", 1024)?;
        // What is taken out below is not to stay in the free parts of pages.
        small.pragma_update(None, "secure_delete", true)?;
        small.pragma_update(None, "application_id", APPLICATION_ID)?;
        small.pragma_update(None, "user_version", VERSION)?;
        let transaction = small.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        for table in checksum::tables().filter(|table| !LEFT_OUT.contains(table)) {
            // Earlier versions have not all of them.
            if checksum::has(self.connection(), table)? {
                copy(self.connection(), &transaction, table)?;
            }
        }
        without_places(&transaction)?;
        let says =
            "means and intervals of every run; single executions, block traces and recordings left out";
        transaction.execute("INSERT OR REPLACE INTO environment VALUES (?, ?)", [KEY, says])?;
        checksum::store_head(&transaction)?;
        for run in &self.runs {
            checksum::store_run(&transaction, run.id)?;
        }
        transaction.commit()
    }
}

/// Takes out where the files lay on the machine that measured, and who its user was: a published
/// file names no directories of its author's. What is a value of an axis stays, for the cells are
/// called so; and so do the words of failures and warnings.
fn without_places(db: &Connection) -> rusqlite::Result<()> {
    let mut names = PlainNames::default();
    db.execute("DELETE FROM environment WHERE key = 'user'", [])?;
    rewrite(db, ("run", "engine"), &mut |engine| {
        let mut engine = serde_json::from_str::<EngineInfo>(engine).ok()?;
        for value in engine.settings.values_mut().filter(|value| value.starts_with('/')) {
            *value = names.of(value);
        }
        Some(super::json::json(&engine))
    })?;
    rewrite(db, ("run", "parameters"), &mut |parameters| {
        let mut parameters: serde_json::Value = serde_json::from_str(parameters).ok()?;
        names.in_value(&mut parameters);
        Some(parameters.to_string())
    })?;
    rewrite(db, ("cell", "spec"), &mut |spec| {
        let mut spec: serde_json::Value = serde_json::from_str(spec).ok()?;
        for section in ["workload", "engine", "stack"] {
            if let Some(section) = spec.get_mut(section) {
                names.in_value(section);
            }
        }
        Some(spec.to_string())
    })?;
    rewrite(db, ("experiment", "command"), &mut |command| Some(names.in_text(command)))
}

/// Rewrites a column of a table.
fn rewrite(
    db: &Connection,
    (table, column): (&str, &str),
    write: &mut dyn FnMut(&str) -> Option<String>,
) -> rusqlite::Result<()> {
    let mut select =
        db.prepare(&format!("SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL"))?;
    let mut update = db.prepare(&format!("UPDATE {table} SET {column} = ? WHERE rowid = ?"))?;
    let rows = select.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    for (id, text) in rows.collect::<rusqlite::Result<Vec<_>>>()? {
        if let Some(text) = write(&text) {
            update.execute((text, id))?;
        }
    }
    Ok(())
}

/// Names of files by their whole paths: without directories, and those of two files are two.
#[derive(Default)]
struct PlainNames(BTreeMap<String, String>);

impl PlainNames {
    fn of(&mut self, path: &str) -> String {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let own = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
        let (mut name, mut number) = (own.to_owned(), 1);
        while self.0.values().any(|other| *other == name) {
            number += 1;
            name = format!("{own} ({number})");
        }
        self.0.insert(path.to_owned(), name.clone());
        name
    }

    /// In all texts of a value that are whole paths.
    fn in_value(&mut self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) if text.starts_with('/') => *text = self.of(text),
            serde_json::Value::Array(all) => all.iter_mut().for_each(|value| self.in_value(value)),
            serde_json::Value::Object(all) => all.values_mut().for_each(|value| self.in_value(value)),
            _ => {}
        }
    }

    /// In a command line: each word, or what stands behind `=` or a comma in it.
    fn in_text(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('/') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let last = out.chars().last();
            if !last.is_none_or(|last| last.is_whitespace() || "'\"=,[".contains(last)) {
                out.push('/');
                rest = &from[1..];
                continue;
            }
            // In quotes a path may have blanks.
            let end = match last {
                Some(quote @ ('\'' | '"')) => from.find(quote),
                _ => from.find(|letter: char| letter.is_whitespace() || "'\",]".contains(letter)),
            };
            let (path, after) = from.split_at(end.unwrap_or(from.len()));
            out.push_str(&self.of(path));
            rest = after;
        }
        out + rest
    }
}

/// Copies all rows of a table.
fn copy(from: &Connection, to: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut select = from
        .prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))
        .or_else(|_| from.prepare(&format!("SELECT * FROM {table}")))?;
    // By name: tables of earlier versions have fewer.
    let names = select.column_names().collect::<Vec<_>>().join("\", \"");
    let columns = select.column_count();
    let places = vec!["?"; columns].join(", ");
    let mut insert = to.prepare(&format!("INSERT INTO {table} (\"{names}\") VALUES ({places})"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get::<_, Value>(column));
        insert.execute(params_from_iter(values.collect::<rusqlite::Result<Vec<Value>>>()?))?;
    }
    Ok(())
}

/// Whether a file begins as an excerpt does; a file that cannot be read does not.
pub(super) fn is_packed(path: &Path) -> bool {
    let mut begin = [0; 4];
    // Only of a regular file: the other end of a FIFO would be waited for.
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == MAGIC
}

/// The database of an excerpt, in memory, and its first 100 bytes.
///
/// # Errors
/// A file that is no whole compressed file, is too large, or holds no database.
pub(super) fn open(path: &Path) -> Result<(Connection, Vec<u8>), StoreError> {
    let not = |detail: String| StoreError::NotADatabase { path: path.to_path_buf(), detail };
    let file = std::fs::File::open(path).map_err(|error| not(error.to_string()))?;
    let unpack = zstd::stream::read::Decoder::new(file).map_err(|error| not(error.to_string()))?;
    let mut bytes = Vec::new();
    unpack.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| {
        not(format!("it begins as a compressed excerpt does, and cannot be unpacked: {error}"))
    })?;
    if bytes.len() as u64 > LARGEST {
        let most = LARGEST >> 20;
        return Err(not(format!("it unpacks to more than {most} MiB, which no excerpt of results does")));
    }
    if !bytes.starts_with(b"SQLite format 3\0") || bytes.len() < 100 {
        return Err(not("it is a compressed file, and what is in it is no SQLite database".into()));
    }
    // Bytes 18 and 19: a database in memory has no write-ahead log, and SQLite would refuse it in
    // words that speak of a file that cannot be opened.
    if bytes[18] != 1 || bytes[19] != 1 {
        return Err(not(
            "it is a compressed database in WAL mode, which is no excerpt: unpack it first".into()
        ));
    }
    let fail = |error| StoreError::of_reading(path, error);
    let mut db = Connection::open_in_memory().map_err(fail)?;
    let length = bytes.len();
    db.deserialize_read_exact("main", bytes.as_slice(), length, true).map_err(fail)?;
    db.pragma_update(None, "query_only", true).map_err(fail)?;
    bytes.truncate(100);
    Ok((db, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the home of who published an excerpt stood in the cells, in the parameters of
    /// each run, and in the command.
    #[test]
    fn an_excerpt_names_no_directory() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            r#"CREATE TABLE environment(key, value); INSERT INTO environment VALUES ('user', 'root');
               CREATE TABLE run(engine, parameters);
               INSERT INTO run VALUES (NULL, '{"file":"/home/alice/a/app.trace","ahead":64}');
               CREATE TABLE cell(spec);
               INSERT INTO cell VALUES ('{"workload":{"name":"trace","file":"/home/alice/a/app.trace"}}');
               INSERT INTO cell VALUES ('{"workload":{"name":"trace","file":"/home/alice/b/app.trace"}}');
               CREATE TABLE experiment(command);
               INSERT INTO experiment VALUES ('fathom run x --trace /home/alice/a/app.trace
                   --set variants=wal/full --set "engine.library=[''/home/alice/my lib.so'']"
                   --dir ''/home/alice/a b'' --on ssh:pi@board:/mnt');"#,
        )
        .unwrap();
        without_places(&db).unwrap();
        let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert!(text("SELECT parameters FROM run").contains(r#""file":"app.trace""#));
        assert!(text("SELECT spec FROM cell WHERE rowid = 1").contains(r#""file":"app.trace""#));
        assert!(text("SELECT spec FROM cell WHERE rowid = 2").contains(r#""file":"app.trace (2)""#));
        let command = text("SELECT command FROM experiment");
        assert!(command.starts_with("fathom run x --trace app.trace\n"), "{command}");
        assert!(command.contains("variants=wal/full "), "{command}");
        assert!(command.ends_with("--dir 'a b' --on ssh:pi@board:/mnt"), "{command}");
        assert!(command.contains("['my lib.so']") && !command.contains("alice"), "{command}");
    }

    /// What is not an excerpt is refused in words, and a small file cannot fill the memory.
    #[test]
    fn files_that_only_begin_like_an_excerpt_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.db.zst");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Results::load(&path).expect_err("refused").to_string()
        };
        assert!(refused(&MAGIC).contains("cannot be unpacked"));
        let text = zstd::bulk::compress(b"no database", 3).unwrap();
        assert!(refused(&text).contains("is no SQLite database"));
        assert!(refused(&text[..text.len() - 3]).contains("cannot be unpacked"));
        let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        let zeros = vec![0; 1 << 20];
        (0..=LARGEST >> 20).for_each(|_| bomb.write_all(&zeros).unwrap());
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 64 << 10);
        assert!(refused(&bomb).contains("more than 256 MiB"));
    }
}
