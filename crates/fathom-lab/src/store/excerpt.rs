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

use super::plain_names::PlainNames;
use super::{APPLICATION_ID, Results, SCHEMA, StoreError, VERSION, checksum};
use crate::naming::make_unique;

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
/// file names no directories of its author's. What `--on` says of another machine stays.
fn without_places(db: &Connection) -> rusqlite::Result<()> {
    let mut names = PlainNames::default();
    name_cells(db, &mut names)?;
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
        if let Some(axes) = spec.get_mut("axes") {
            names.in_axes(axes);
        }
        Some(spec.to_string())
    })?;
    for column in ["command", "source_name"] {
        rewrite(db, ("experiment", column), &mut |text| Some(names.in_text(text)))?;
    }
    rewrite(db, ("experiment", "source"), &mut |text| Some(names.in_file(text)))?;
    for column in [("run", "stack"), ("power_cut", "outcome")] {
        rewrite(db, column, &mut |told| {
            let mut told: serde_json::Value = serde_json::from_str(told).ok()?;
            names.in_words_of(&mut told);
            Some(told.to_string())
        })?;
    }
    let said = [
        ("experiment", "title"),
        ("run", "message"),
        ("cell", "skipped"),
        ("power_cut", "problem"),
        ("verified", "text"),
        ("warning", "text"),
    ];
    for column in said {
        rewrite(db, column, &mut |text| Some(names.in_words(text)))?;
    }
    name_environment(db, &mut names)
}

/// Names the cells anew, and their values on axes, by which they are told apart.
fn name_cells(db: &Connection, names: &mut PlainNames) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT rowid, label, axes FROM cell ORDER BY rowid")?;
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<(i64, String, String)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    let rows = select.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let axes_of = |axes: &str| serde_json::from_str::<BTreeMap<String, String>>(axes).unwrap_or_default();
    for value in rows.iter().flat_map(|row| axes_of(&row.2).into_values()) {
        if !value.starts_with('/') {
            names.reserve(&value);
        }
    }
    let (mut labels, mut all_axes) = (Vec::new(), Vec::new());
    for (_, label, axes) in &rows {
        let mut changed: Vec<(String, String)> = Vec::new();
        let mut axes = axes_of(axes);
        for (axis, value) in &mut axes {
            let plain = names.in_axis(axis, value);
            changed.push((std::mem::replace(value, plain.clone()), plain));
        }
        // A path may begin as another one does.
        changed.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let named = |label: String, (path, plain): &(String, String)| label.replace(path, plain);
        let changed = changed.iter().filter(|(path, plain)| path != plain);
        labels.push(changed.fold(label.clone(), named));
        all_axes.push(super::json::json(&axes));
    }
    make_unique(labels.iter_mut());
    // No two are called alike in between either.
    db.execute("UPDATE cell SET label = char(1) || rowid", [])?;
    let mut update = db.prepare("UPDATE cell SET label = ?, axes = ? WHERE rowid = ?")?;
    for ((id, ..), (label, axes)) in rows.iter().zip(labels.iter().zip(&all_axes)) {
        update.execute((label, axes, id))?;
    }
    Ok(())
}

/// Takes the user and all places out of what is told of the machine.
fn name_environment(db: &Connection, names: &mut PlainNames) -> rusqlite::Result<()> {
    // Behind the key of one of several machines stands its name.
    db.execute("DELETE FROM environment WHERE key = 'user' OR key LIKE 'user (%'", [])?;
    let mut select = db.prepare("SELECT key, value FROM environment")?;
    let read =
        |row: &rusqlite::Row<'_>| -> rusqlite::Result<(String, String)> { Ok((row.get(0)?, row.get(1)?)) };
    let rows = select.query_map([], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut update = db.prepare("UPDATE environment SET value = ? WHERE key = ?")?;
    for (key, value) in rows {
        update.execute((names.in_words(&value), key))?;
    }
    Ok(())
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

    /// The tables that are rewritten, with the columns that are.
    fn tables() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE environment(key, value);
             CREATE TABLE run(engine, parameters, stack, message);
             CREATE TABLE cell(label UNIQUE, axes, spec, skipped);
             CREATE TABLE experiment(command, source, source_name, title);
             CREATE TABLE power_cut(problem, outcome);
             CREATE TABLE verified(text);
             CREATE TABLE warning(text);",
        )
        .unwrap();
        db
    }

    /// What happened: where paths were values of an axis they stayed in labels and axes, and they
    /// stood in the experiment file, in messages and warnings, and in what was told of a stack. A
    /// cell may be called already as a file is.
    #[test]
    fn an_excerpt_names_no_home_in_what_was_said_either() {
        let db = tables();
        db.execute_batch(
            r#"INSERT INTO environment VALUES ('disk', '/dev/vda1 below /home/alice/work');
               INSERT INTO run(stack, message) VALUES
                   ('{"mkfs":"mkfs.ext4 -F /home/alice/c/x.img","warnings":["/home/alice/c is slow"]}',
                    'cannot open "/home/alice/my lib.so": no such file');
               INSERT INTO cell VALUES ('lib.so wal', '{"engine.library":"lib.so","m":"wal"}', '{}', NULL);
               INSERT INTO cell VALUES ('/home/alice/lib.so wal',
                   '{"engine.library":"/home/alice/lib.so","m":"wal"}',
                   '{"axes":{"engine.library":"/home/alice/lib.so","m":"wal"}}', 'no /home/alice/lib.so');
               INSERT INTO experiment VALUES ('fathom run', 'engine.library = ["/home/alice/lib.so"]',
                   '/home/alice/mine.toml', 'What /home/alice/lib.so costs');
               INSERT INTO power_cut VALUES ('below /home/alice/w: no room', '{"lines":["/home/alice/w/a.db"]}');
               INSERT INTO verified VALUES ('rows of /home/alice/w/a.db: 10');
               INSERT INTO warning VALUES ('/home/alice/c is noisy');"#,
        )
        .unwrap();
        without_places(&db).unwrap();
        let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        let cell = |column: &str| text(&format!("SELECT {column} FROM cell WHERE rowid = 2"));
        assert_eq!(cell("label"), "lib.so (2) wal");
        assert_eq!(cell("axes"), r#"{"engine.library":"lib.so (2)","m":"wal"}"#);
        assert_eq!(cell("spec"), r#"{"axes":{"engine.library":"lib.so (2)","m":"wal"}}"#);
        assert_eq!(cell("skipped"), "no lib.so (2)");
        assert_eq!(text("SELECT label FROM cell WHERE rowid = 1"), "lib.so wal");
        assert_eq!(text("SELECT source FROM experiment"), r#"engine.library = ["lib.so (2)"]"#);
        assert_eq!(text("SELECT source_name FROM experiment"), "mine.toml");
        assert_eq!(text("SELECT message FROM run"), r#"cannot open "my lib.so": no such file"#);
        assert_eq!(text("SELECT value FROM environment"), "/dev/vda1 below work");
        for told in [
            "SELECT stack FROM run",
            "SELECT problem || outcome FROM power_cut",
            "SELECT text FROM verified",
            "SELECT text FROM warning",
        ] {
            let told = text(told);
            assert!(!told.contains("alice") && !told.contains("/home"), "{told}");
        }
    }

    /// What happened: remarks of an experiment file, and its title, named the home of its author,
    /// and of several machines it stayed who was its user.
    #[test]
    fn an_excerpt_names_no_home_in_remarks_of_its_file() {
        let db = tables();
        db.execute_batch(
            r#"INSERT INTO environment VALUES ('user (local)', 'root'), ('cpu (local)', 'one');
               INSERT INTO experiment VALUES ('fathom run x', '# as in (/home/alice/a.toml), `/home/alice/b c`
                   a = 1 # file:/home/alice/d.db', 'x.toml', 'What /home/alice/e.so costs');"#,
        )
        .unwrap();
        without_places(&db).unwrap();
        let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        let source = text("SELECT source FROM experiment");
        assert!(source.starts_with("# as in (a.toml), `b c`\n"), "{source}");
        assert!(source.ends_with("a = 1 # file:d.db"), "{source}");
        assert_eq!(text("SELECT title FROM experiment"), "What e.so costs");
        assert_eq!(text("SELECT group_concat(key) FROM environment"), "cpu (local)");
    }

    /// What happened: the home of who published an excerpt stood in the cells, in the parameters of
    /// each run, and in the command.
    #[test]
    fn an_excerpt_names_no_directory() {
        let db = tables();
        db.execute_batch(
            r#"INSERT INTO environment VALUES ('user', 'root');
               INSERT INTO run(parameters) VALUES ('{"file":"/home/alice/a/app.trace","ahead":64}');
               INSERT INTO cell(label, axes, spec)
                   VALUES ('a', '{}', '{"workload":{"name":"trace","file":"/home/alice/a/app.trace"}}');
               INSERT INTO cell(label, axes, spec)
                   VALUES ('b', '{}', '{"workload":{"name":"trace","file":"/home/alice/b/app.trace"}}');
               INSERT INTO experiment(command) VALUES ('fathom run x --trace /home/alice/a/app.trace
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
