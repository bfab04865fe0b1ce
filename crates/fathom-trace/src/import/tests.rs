//! What each kind of input becomes, and what is wrong with a wrong one.

use std::path::Path;

use super::*;
use crate::Reader;
use crate::model::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    fn import(&self, path: &Path) -> Result<(Imported, Vec<Record>), TraceError> {
        self.import_with(path, None, &[])
    }

    fn import_with(
        &self,
        path: &Path,
        format: Option<Format>,
        starts: &[PathBuf],
    ) -> Result<(Imported, Vec<Record>), TraceError> {
        let out = self.0.path().join("out.trace");
        let imported =
            import(&Request { path: path.into(), format, out: out.clone(), starts: starts.to_vec() })?;
        let records = Reader::open(&out)?.collect::<Result<Vec<_>, _>>()?;
        Ok((imported, records))
    }
}

/// Executed statements in order: connection, SQL, start in ms, duration in µs.
fn executed(records: &[Record]) -> Vec<(u32, String, u64, u64)> {
    let mut texts = std::collections::HashMap::new();
    let mut prepared = std::collections::HashMap::new();
    let mut executed = Vec::new();
    for record in records {
        match record {
            Record::Statement(statement) => {
                texts.insert(statement.id, statement.sql.clone());
            }
            Record::Event(Event {
                connection, action: Action::Prepare { handle, statement, .. }, ..
            }) => {
                prepared.insert((*connection, *handle), texts[statement].clone());
            }
            Record::Event(Event {
                connection, start_ns, duration_ns, action: Action::Step(step), ..
            }) => {
                assert!(!step.is_counted && step.begins);
                let sql = prepared[&(*connection, step.handle)].clone();
                executed.push((*connection, sql, start_ns / 1_000_000, duration_ns / 1000));
            }
            _ => {}
        }
    }
    executed
}

fn texts(records: &[Record]) -> Vec<String> {
    executed(records).into_iter().map(|(_, sql, ..)| sql).collect()
}

#[test]
fn androids_log_becomes_connections_with_times_and_durations() {
    let place = Place::new();
    let log = "--------- beginning of main\n\
        11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"BEGIN EXCLUSIVE;\"\n\
        11-21 16:26:38.105  100  101 V SQLiteStatements: /data/a.db: \"INSERT INTO t VALUES (1,'a \"quoted\" text\n\
        11-21 16:26:38.105  100  101 V SQLiteStatements: on two lines: \"x\" and more')\"\n\
        11-21 16:26:38.105  100  101 V SQLiteStatements: /data/a.db: \"-- UPDATE counts SET n = n + 1\"\n\
        11-21 16:26:38.106  100  101 V SQLiteTime: /data/a.db: \"INSERT INTO t VALUES (?,?)\" took 0.250 ms\n\
        11-21 16:26:38.200  100  150 V SQLiteStatements: /data/b.db: \"SELECT 1\"\n\
        11-21 16:26:38.210  100  150 V SQLiteStatements: /data/b.db: \"SELECT 'cut off by the log\n\
        11-21 16:26:38.220  100  150 V SQLiteStatements: /data/b.db: \"SELECT 2\"\n\
        11-21 16:26:38.300  100  101 V SQLiteStatements: /data/a.db: \"COMMIT;\"\n\
        11-21 16:26:39.300  200  201 V SQLiteStatements: /data/a.db: \"SELECT 3\"\n";
    let (imported, records) = place.import(&place.write("log.txt", log)).expect("imported");
    let insert = "INSERT INTO t VALUES (1,'a \"quoted\" text\non two lines: \"x\" and more')";
    let expected = [
        (0, "BEGIN EXCLUSIVE", 0, 0),
        (1, "SELECT 1", 100, 0),
        (0, insert, 5, 250),
        (1, "SELECT 2", 120, 0),
        (0, "COMMIT", 200, 0),
        (2, "SELECT 3", 1200, 0),
    ];
    let mut seen = executed(&records);
    seen.sort_by_key(|(.., at, _)| *at);
    let mut expected: Vec<_> =
        expected.iter().map(|(c, sql, at, us)| (*c, (*sql).to_owned(), *at, *us)).collect();
    expected.sort_by_key(|(.., at, _)| *at);
    assert_eq!(seen, expected);
    assert_eq!((imported.statements, imported.connections), (6, 3));
    assert!(imported.warnings[0].contains("1 statements were cut off"), "{:?}", imported.warnings);
    let databases = records.iter().filter(|record| matches!(record, Record::Database(_))).count();
    assert_eq!(databases, 2, "the second process opens the same file");
}

#[test]
fn a_script_is_one_connection_and_its_errors_name_the_line() {
    let place = Place::new();
    let script = "CREATE TABLE t(a);\n-- two\nINSERT INTO t VALUES (';');\nBEGIN; COMMIT;\nSELECT 1";
    let (imported, records) = place.import(&place.write("a.sql", script)).expect("imported");
    let expected = ["CREATE TABLE t(a)", "-- two\nINSERT INTO t VALUES (';')", "BEGIN", "COMMIT", "SELECT 1"];
    assert_eq!(texts(&records), expected);
    assert_eq!((imported.statements, imported.connections), (5, 1));
    for (script, words) in [
        ("SELECT 1;\n.mode csv\n", "a.sql:2: `.mode csv` is a command of the sqlite3 shell"),
        (
            "SELECT 1;\n\nSELECT 'open;\n",
            "a.sql:3: the statement that begins here has a text or comment that is never closed",
        ),
        ("-- nothing\n", "holds no SQL statement"),
    ] {
        let error = place.import(&place.write("a.sql", script)).expect_err(script).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_folder_is_a_loading_script_and_streams() {
    let place = Place::new();
    let load = "CREATE TABLE t(a);\nINSERT INTO t VALUES (1);\n";
    place.write("w/load.sql", load);
    place.write("w/stream-1.sql", "INSERT INTO t VALUES (2);");
    place.write("w/stream-2.sql", "SELECT * FROM t; DELETE FROM t;");
    place.write("w/notes.txt", "no script");
    let (imported, records) = place.import(&place.0.path().join("w")).expect("imported");
    assert_eq!((imported.statements, imported.connections), (3, 2));
    assert!(records.contains(&Record::Content(Content { database: 0, offset: 0, bytes: load.into() })));
    let threads = records.iter().filter(|record| matches!(record, Record::Thread(_))).count();
    assert_eq!(threads, 2);
    std::fs::write(place.0.path().join("w/schema.sql"), "").expect("written");
    let error = place.import(&place.0.path().join("w")).expect_err("two loading scripts").to_string();
    assert!(error.contains("several loading scripts"), "{error}");
}

#[test]
fn a_log_of_expanded_sql_is_read_whatever_stands_before_the_statements() {
    let place = Place::new();
    for log in [
        "INSERT INTO t VALUES('a\nDELETE b')\nSELECT *\nFROM t;\n",
        "[12:00:01.5] SQL: INSERT INTO t VALUES('a\nDELETE b')\n[12:00:02.25] SQL: -- DELETE FROM u\n[12:00:11.25] SQL: SELECT *\nFROM t\n",
    ] {
        let (_, records) = place.import(&place.write("trace.log", log)).expect("imported");
        assert_eq!(texts(&records), ["INSERT INTO t VALUES('a\nDELETE b')", "SELECT *\nFROM t"], "{log}");
    }
    let error = place.import(&place.write("trace.log", "hello\n")).expect_err("no SQL").to_string();
    assert!(error.contains("--format"), "{error}");
}

#[test]
fn a_database_file_can_be_given_as_the_start() {
    let place = Place::new();
    let script = place.write("a.sql", "SELECT 1;");
    let file = place.0.path().join("a.db");
    rusqlite::Connection::open(&file).expect("opens").execute_batch("CREATE TABLE t(a)").expect("made");
    let (_, records) = place.import_with(&script, None, std::slice::from_ref(&file)).expect("imported");
    let image = std::fs::read(&file).expect("readable");
    assert!(records.contains(&Record::Content(Content { database: 0, offset: 0, bytes: image })));
    let no_database = place.write("no.db", "not a database, long enough");
    let error = place.import_with(&script, None, &[no_database]).expect_err("no database").to_string();
    assert!(error.contains("is no SQLite database, or an encrypted one"), "{error}");
}

/// What a trace attaches, in order: schema, path, what it held.
fn attached(records: &[Record]) -> Vec<(String, String, Start)> {
    let mut databases = std::collections::HashMap::new();
    let mut attached = Vec::new();
    for record in records {
        match record {
            Record::Database(database) => {
                let path = String::from_utf8_lossy(&database.path).into_owned();
                databases.insert(database.id, (path, database.start.clone()));
            }
            Record::Event(Event { action: Action::Attach { schema, database }, .. }) => {
                let (path, start) = databases[database].clone();
                attached.push((schema.clone(), path, start));
            }
            _ => {}
        }
    }
    attached
}

/// ATTACH of a log ran on the path in it: replaying one's own application's log emptied the live database. Import now says which
/// database of the trace is attached, as capture does, and a replay attaches its own.
#[test]
fn what_a_log_attaches_is_a_database_of_the_trace() {
    let place = Place::new();
    let script = place.write(
        "a.sql",
        "ATTACH '/home/live.db' AS live; ATTACH \"file:/home/live.db?mode=ro\" AS [again];\nDETACH live;\nATTACH ':memory:' AS m;",
    );
    let (imported, records) = place.import(&script).expect("imported");
    let text = str::to_owned;
    assert_eq!(
        attached(&records),
        [
            (text("live"), text("/home/live.db"), Start::Empty),
            (text("again"), text("/home/live.db"), Start::Empty),
            (text("m"), text(":memory:"), Start::Memory),
        ]
    );
    assert!(imported.warnings[0].contains("/home/live.db is attached"), "{:?}", imported.warnings);
    assert_eq!(executed(&records).len(), 4, "the statements stay");

    let log = place.write(
        "log.txt",
        "01-02 03:04:05.000  7  8 V SQLiteStatements: /data/app.db: \"ATTACH '/data/other.db' AS other\"\n",
    );
    let start = place.write("other.db", "");
    let database = rusqlite::Connection::open(&start).expect("opens");
    database.execute_batch("CREATE TABLE t(a)").expect("made");
    drop(database);
    let main = place.write("app.db", "");
    std::fs::copy(&start, &main).expect("copied");
    let (imported, records) = place.import_with(&log, None, &[main, start]).expect("imported");
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    assert!(matches!(&attached(&records)[..], [(_, path, Start::Image { .. })] if path == "/data/other.db"));

    for sql in ["ATTACH ? AS x", "ATTACH 'a' || 'b' AS x", "ATTACH 'a' AS ?"] {
        let script = place.write("b.sql", sql);
        let error = place.import(&script).expect_err("not told").to_string();
        assert!(error.contains("cannot be told from the text"), "{error}");
    }
}
