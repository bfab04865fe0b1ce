//! What each kind of input becomes, and what is wrong with a wrong one.

use std::path::Path;

use super::*;
use crate::Reader;
use crate::model::*;

pub(super) struct Place(pub(super) tempfile::TempDir);

impl Place {
    pub(super) fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    pub(super) fn import(&self, path: &Path) -> Result<(ImportReport, Vec<Record>), TraceError> {
        self.import_with(path, None, &[])
    }

    pub(super) fn import_with(
        &self,
        path: &Path,
        format: Option<Format>,
        starts: &[PathBuf],
    ) -> Result<(ImportReport, Vec<Record>), TraceError> {
        let out = self.0.path().join("out.trace");
        let imported = import(&Request {
            path: path.into(),
            format,
            out: out.clone(),
            starts: starts.to_vec(),
            ..Request::default()
        })?;
        let records = Reader::open(&out)?.collect::<Result<Vec<_>, _>>()?;
        Ok((imported, records))
    }
}

/// Executed statements in order: connection, SQL, start in ms, duration in µs.
pub(super) fn executed(records: &[Record]) -> Vec<(u32, String, u64, u64)> {
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
                assert!(step.begins);
                let sql = prepared[&(*connection, step.handle)].clone();
                executed.push((*connection, sql, start_ns / 1_000_000, duration_ns / 1000));
            }
            _ => {}
        }
    }
    executed
}

pub(super) fn texts(records: &[Record]) -> Vec<String> {
    executed(records).into_iter().map(|(_, sql, ..)| sql).collect()
}

#[test]
fn androids_log_becomes_connections_with_times_and_durations() {
    let place = Place::new();
    // What a log holds is compiled now, so its table must be there: without it the log is refused.
    let log = "--------- beginning of main\n\
        11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"CREATE TABLE t(a, b)\"\n\
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
        (0, "CREATE TABLE t(a, b)", 0, 0),
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
    assert_eq!((imported.statements, imported.connections), (7, 3));
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
        // What a log holds is compiled now, so its table must be there.
        let start = place.0.path().join("a.db");
        let _ = rusqlite::Connection::open(&start)
            .expect("opens")
            .execute_batch("CREATE TABLE IF NOT EXISTS t(a)");
        let log = place.write("trace.log", log);
        let without = place.import(&log).expect_err("no such table").to_string();
        let words = ["trace.log:1: ", "no such table: t", "--start"];
        assert!(words.iter().all(|words| without.contains(words)), "{without}");
        let (_, records) = place.import_with(&log, None, &[start]).expect("imported");
        assert_eq!(
            texts(&records),
            ["INSERT INTO t VALUES('a\nDELETE b')", "SELECT *\nFROM t"],
            "{}",
            log.display()
        );
    }
    let error = place.import(&place.write("trace.log", "hello\n")).expect_err("no SQL").to_string();
    assert!(error.contains("--format"), "{error}");
}

/// What happened: in what Django's connection tells a callback of `sqlite3_trace`, statements begin
/// with spaces or not; those without were glued to the first ones, which have some.
#[test]
fn a_log_of_expanded_sql_may_have_statements_with_and_without_spaces_before_them() {
    let place = Place::new();
    let log = "\n            SELECT name FROM sqlite_master\n            WHERE name='x'\nPRAGMA foreign_keys = OFF\nBEGIN\n\
        CREATE TABLE \"t\" (\"a\")\nINSERT INTO t\nSELECT 'one\ntwo'\n\n            SELECT a FROM t\nCOMMIT\n";
    let start = place.0.path().join("t.db");
    rusqlite::Connection::open(&start).expect("opens").execute_batch("CREATE TABLE y(a)").expect("made");
    let expected = [
        "SELECT name FROM sqlite_master\n            WHERE name='x'",
        "PRAGMA foreign_keys = OFF",
        "BEGIN",
        "CREATE TABLE \"t\" (\"a\")",
        "INSERT INTO t\nSELECT 'one\ntwo'",
        "SELECT a FROM t",
        "COMMIT",
    ];
    let (_, records) = place.import_with(&place.write("orm.log", log), None, &[start]).expect("imported");
    assert_eq!(texts(&records), expected);
    // With something before each, which is then the same for all.
    let log = "SQL:             SELECT 1\nSQL: BEGIN\nSQL:  COMMIT\n";
    let (_, records) = place.import(&place.write("orm.log", log)).expect("imported");
    assert_eq!(texts(&records), ["SELECT 1", "BEGIN", "COMMIT"]);
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

/// ATTACH of a log ran on the path in it: replaying one's own application's log emptied the live
/// database. Import now says which database of the trace is attached, as capture does, and a replay
/// attaches its own.
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
    // What happened: the only file that was given began app.db, and the database of its name was
    // empty.
    let error = place.import_with(&log, None, std::slice::from_ref(&start)).expect_err("taken").to_string();
    assert!(error.contains("/data/other.db has its name") && error.contains("/data/app.db"), "{error}");
    let (imported, records) = place.import_with(&log, None, &[main, start]).expect("imported");
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    assert!(matches!(&attached(&records)[..], [(_, path, Start::Image { .. })] if path == "/data/other.db"));

    for sql in ["ATTACH ? AS x", "ATTACH 'a' || 'b' AS x", "ATTACH 'a' AS ?"] {
        let script = place.write("b.sql", sql);
        let error = place.import(&script).expect_err("not told").to_string();
        assert!(error.contains("cannot be told from the text"), "{error}");
    }
}

/// Connection, text, result code, rows and changes of a statement.
pub(super) type Executed = (u32, String, i32, Option<(u64, u64)>);

/// Every statement with what came of it.
pub(super) fn results(records: &[Record]) -> Vec<Executed> {
    let steps = records.iter().filter_map(|record| match record {
        Record::Event(Event { action: Action::Step(step), .. }) => Some(step),
        _ => None,
    });
    let counts = |step: &Step| step.is_counted.then_some((step.rows, step.changes));
    executed(records)
        .into_iter()
        .zip(steps)
        .map(|((connection, sql, ..), step)| (connection, sql, step.outcome.code, counts(step)))
        .collect()
}

/// What happened: recordings of Android applications have one statement a line without semicolons.
/// They were cut at semicolons only, so the 5,022 lines of one became 2,619 "statements", of which
/// 1,607 were several lines glued together and no SQL; no warning said so. Harm: the replay failed
/// at its first call. Now a line that begins as statements do is one, if what stands before it
/// compiles.
#[test]
fn lines_without_semicolons_are_statements_and_none_is_glued_to_the_next() {
    let place = Place::new();
    place.write(
        "app/loading.sql",
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE);\nCREATE TABLE n(x)\n",
    );
    let lines = "\u{feff}INSERT INTO t VALUES('1','one; -- two ''quoted''')\r\n\
        SELECT a FROM t\n\
        BEGIN EXCLUSIVE;\n\
        INSERT INTO t(b)\n  VALUES('on\ntwo lines')\n\
        INSERT INTO n\nSELECT a FROM t\n\
        COMMIT;\n\
        -- a comment\n\
        \n\
        DELETE FROM n\nWHERE x = '2'\n\
        CREATE TRIGGER r AFTER INSERT ON n BEGIN\nDELETE FROM t WHERE a = new.x;\nSELECT CASE WHEN 1 THEN 2\nEND;\nEND\n;\n\
        INSERT INTO t VALUES(7,'one; -- two ''quoted''')\n\
        SELECT a FROM t\nBEGIN;\nEND\n\
        SELECT 1 ; SELECT ?;\n\
        PRAGMA journal_mode=WAL\n\
        SELECT 3\n\
        BEGIN IMMEDIATE\n\
        UPDATE t SET b = b || 'x'";
    place.write("app/benchset/0.sql", lines);
    let (imported, records) = place.import(&place.0.path().join("app")).expect("imported");
    let texts: Vec<_> =
        results(&records).into_iter().map(|(_, sql, code, counts)| (sql, code, counts)).collect();
    let trigger = "CREATE TRIGGER r AFTER INSERT ON n BEGIN\nDELETE FROM t WHERE a = new.x;\nSELECT CASE WHEN 1 THEN 2\nEND;\nEND";
    let expected = [
        ("INSERT INTO t VALUES('1','one; -- two ''quoted''')", 101, Some((0, 1))),
        ("SELECT a FROM t", 101, Some((1, 0))),
        ("BEGIN EXCLUSIVE", 101, Some((0, 0))),
        ("INSERT INTO t(b)\n  VALUES('on\ntwo lines')", 101, Some((0, 1))),
        ("INSERT INTO n\nSELECT a FROM t", 101, Some((0, 2))),
        ("COMMIT", 101, Some((0, 0))),
        ("-- a comment\nDELETE FROM n\nWHERE x = '2'", 101, Some((0, 0))),
        (trigger, 101, Some((0, 0))),
        ("INSERT INTO t VALUES(7,'one; -- two ''quoted''')", 2067, Some((0, 0))),
        ("SELECT a FROM t", 101, Some((2, 0))),
        ("BEGIN", 101, Some((0, 0))),
        ("END", 101, Some((0, 0))),
        ("SELECT 1", 101, Some((1, 0))),
        ("SELECT ?", 101, Some((1, 0))),
        ("PRAGMA journal_mode=WAL", 101, None),
        ("SELECT 3", 101, Some((1, 0))),
        ("BEGIN IMMEDIATE", 101, Some((0, 0))),
        ("UPDATE t SET b = b || 'x'", 101, Some((0, 2))),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(sql, code, counts)| ((*sql).to_owned(), *code, *counts)).collect();
    assert_eq!(texts, expected);
    let warnings = imported.warnings.join("\n");
    assert!(warnings.contains("1 statements have parameters"), "{warnings}");
    assert!(
        warnings.contains("1 statements fail") && warnings.contains("UNIQUE constraint failed: t.b"),
        "{warnings}"
    );
    let script = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE);\nCREATE TABLE n(x);\n";
    assert!(records.contains(&Record::Content(Content { database: 0, offset: 0, bytes: script.into() })));
}

/// What happened: text that is no SQL was imported without a word. Harm: a replay that fails, long
/// after. Now each is listed by file and line, and one bad line takes no good one along.
#[test]
fn what_does_not_compile_is_listed_by_file_and_line_and_left_out_only_on_wish() {
    let place = Place::new();
    let loading =
        "CREATE TABLE t(a);\nCREATE INDEX i ON t(a COLLATE LOCALIZED);\nINSERT INTO t VALUES(1),(2);\n";
    place.write("app/loading.sql", loading);
    let lines = "SELECT a FROM t WHERE\n\
        SELECT a FROM t\n\
        SELECT no_such FROM t\n\
        DELETE FROM t WHERE a = 'cut off by the log\n\
        SELECT a FROM t WHERE PHONE_NUMBERS_EQUAL(a, '1')\n\
        INSERT INTO t VALUES(4) garbage\n\
        CREATE TABLE t(b)\n\
        VACUUM INTO 'evil.db'\n\
        CREATE TRIGGER bad AFTER INSERT ON no_such BEGIN\nDELETE FROM t;\nEND;\n\
        .quit\n\
        INSERT INTO t VALUES(3)\n";
    place.write("app/benchset/0.sql", lines);
    let app = place.0.path().join("app");
    let out = place.0.path().join("out.trace");
    let error = place.import(&app).expect_err("not all is SQL").to_string();
    assert!(error.contains("9 texts are no statement") && error.contains("--skip-bad"), "{error}");
    for words in [
        "loading.sql:2: no such collation sequence: LOCALIZED; Android's own",
        "0.sql:1: near \"SELECT\": syntax error: `SELECT a FROM t WHERE`",
        "0.sql:3: no such column: no_such",
        "0.sql:4: the statement that begins here has a text",
        "0.sql:5: no such function: PHONE_NUMBERS_EQUAL",
        "0.sql:6: near \"garbage\"",
        "0.sql:7: table t already exists",
        "0.sql:9: no such table: main.no_such",
        "`CREATE TRIGGER bad AFTER INSERT ON no_such BEGIN DELETE FROM t; END;`",
        "0.sql:12: `.quit` is a command of the sqlite3 shell",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!out.exists(), "nothing is written");
    let request = Request { path: app, out: out.clone(), skip_bad: true, ..Request::default() };
    let imported = import(&request).expect("imported");
    assert_eq!((imported.statements, imported.bad.len()), (3, 9));
    let records = Reader::open(&out).expect("opens").collect::<Result<Vec<_>, _>>().expect("whole");
    let texts: Vec<_> = results(&records).into_iter().map(|(_, sql, _, counts)| (sql, counts)).collect();
    let expected = [
        ("SELECT a FROM t", Some((2, 0))),
        // As a replay does it: into a file of its own.
        ("VACUUM INTO 'evil.db'", Some((0, 0))),
        ("INSERT INTO t VALUES(3)", Some((0, 1))),
    ];
    assert_eq!(texts, expected.map(|(sql, counts)| (sql.to_owned(), counts)));
    assert!(!Path::new("evil.db").exists());
}

/// What happened: where a recording had a CREATE TRIGGER on a line of its own, without a semicolon
/// after its END, everything behind was taken for the trigger's body up to the next semicolon, and
/// refused with it.
#[test]
fn a_trigger_without_its_semicolon_ends_with_its_end() {
    let place = Place::new();
    let one_line = "CREATE TRIGGER a AFTER INSERT ON n BEGIN DELETE FROM t WHERE a = new.x; SELECT CASE WHEN 1 THEN 2 END; END";
    let lines = "CREATE TEMP TRIGGER IF NOT EXISTS b AFTER DELETE ON n BEGIN\n  UPDATE t SET b = 'x; END';\nEND -- of it";
    let wrong = "CREATE TRIGGER c AFTER DELETE ON no_such BEGIN\nDELETE FROM t;\nEND";
    let text = format!(
        "CREATE TABLE t(a, b)\nCREATE TABLE n(x)\n{one_line}\nINSERT INTO n VALUES(1)\n{lines}\nINSERT INTO n VALUES(2)\n{wrong}\nSELECT x FROM n\n{}",
        one_line.replace("TRIGGER a", "TRIGGER d")
    );
    let script = place.write("a.sql", &text);
    let out = place.0.path().join("out.trace");
    let request = Request { path: script, out: out.clone(), skip_bad: true, ..Request::default() };
    let imported = import(&request).expect("imported");
    let bad: Vec<_> = imported.bad.iter().map(|bad| (bad.line, bad.text.as_str())).collect();
    assert_eq!(bad, [(9, wrong.replace('\n', " ").as_str())]);
    let records = Reader::open(&out).expect("opens").collect::<Result<Vec<_>, _>>().expect("whole");
    let texts: Vec<_> = results(&records).into_iter().map(|(_, sql, ..)| sql).collect();
    let last = one_line.replace("TRIGGER a", "TRIGGER d");
    let expected =
        [one_line, "INSERT INTO n VALUES(1)", lines, "INSERT INTO n VALUES(2)", "SELECT x FROM n", &last];
    assert_eq!(texts[2..], expected);
}

/// What happened: import executes what it reads, and a recursive query without an end (one was
/// found by the fuzzer of imports) ran for ever. Now a statement has so many steps, and what takes
/// more is told by file and line, as what does not compile.
#[test]
fn a_statement_without_an_end_is_told_by_file_and_line() {
    let place = Place::new();
    let endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)";
    let import_as = |path: &Path, skip_bad: bool| {
        let out = place.0.path().join("out.trace");
        import(&Request {
            path: path.to_owned(),
            out,
            skip_bad,
            max_steps: Some(200_000),
            ..Request::default()
        })
    };
    let lines = format!(
        "CREATE TABLE t(a)\nSELECT count(*) FROM t\n{endless} SELECT count(*) FROM c\nINSERT INTO t VALUES(1)\n\
         {endless} INSERT INTO t SELECT n FROM c\nBEGIN\n{endless} SELECT max(n) FROM c\nCOMMIT\nSELECT a FROM t\n"
    );
    let script = place.write("a.sql", &lines);
    let error = import_as(&script, false).expect_err("three do not end").to_string();
    for words in [
        "3 texts are no statement",
        "a.sql:3: is not done after 200000 steps of SQLite's virtual machine; --max-steps",
        "a.sql:5: is not done",
        "a.sql:7: is not done",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!place.0.path().join("out.trace").exists(), "nothing is written");
    let imported = import_as(&script, true).expect("without them");
    assert_eq!((imported.statements, imported.bad.len()), (6, 3));
    let records = Reader::open(&place.0.path().join("out.trace")).expect("opens");
    let records = records.collect::<Result<Vec<_>, _>>().expect("whole");
    assert_eq!(results(&records).last().expect("the last").3, Some((1, 0)), "its rows are rolled back");

    // SQLite rolls back the whole transaction of a change that is stopped. A replay would not, so
    // there is no going on.
    let lines = format!(
        "CREATE TABLE t(a)\nBEGIN\n{endless} INSERT INTO t SELECT n FROM c\nINSERT INTO t VALUES(1)\nCOMMIT\n"
    );
    let script = place.write("b.sql", &lines);
    let error = import_as(&script, true).expect_err("its transaction is gone").to_string();
    assert!(error.starts_with(&format!("{}:3: is not done", script.display())), "{error}");
    assert!(error.contains("its transaction went with it"), "{error}");

    // A log's changes of the schema are executed, and views are compiled where they are used.
    let mut views = "CREATE VIEW v0 AS SELECT 1 AS a\n".to_owned();
    for view in 1..40 {
        views.push_str(&format!("CREATE VIEW v{view} AS SELECT x.a FROM v{0} x, v{0} y\n", view - 1));
    }
    let log = format!("{views}CREATE TABLE t AS {endless} SELECT n FROM c\n");
    let log = place.write("a.log", &log);
    let error = import_as(&log, false).expect_err("it does not end").to_string();
    assert!(error.contains("a.log:41: is not done after 200000 steps"), "{error}");
}

/// What happened: the streams of an application ran freely in a replay, and 14 of 15 replays of two
/// left different contents. Now one order is drawn by a seed, by whole transactions, and stands in
/// the trace: in its times, which a replay goes by.
#[test]
fn streams_take_turns_by_transactions_in_an_order_that_the_trace_holds() {
    let place = Place::new();
    place.write("app/loading.sql", "CREATE TABLE t(a, b);\n");
    for (stream, name) in [2, 10, 1].into_iter().enumerate() {
        let mut lines = String::new();
        for number in 0..20 {
            lines.push_str(&format!(
                "BEGIN EXCLUSIVE;\nINSERT INTO t VALUES({stream}, {number})\nUPDATE t SET b = b + 1\nCOMMIT;\nSELECT * FROM t\n"
            ));
        }
        place.write(&format!("app/benchset/{name}.sql"), &lines);
    }
    // It ends within a transaction, which is rolled back when the stream is closed, and stops
    // nobody.
    place.write("app/benchset/11.sql", "BEGIN\nDELETE FROM t\n");
    let import_as = |order: Option<Order>, seed: Option<u64>| {
        let out = place.0.path().join("out.trace");
        let path = place.0.path().join("app");
        import(&Request { path, out: out.clone(), order, seed, ..Request::default() }).expect("imported");
        Reader::open(&out).expect("opens").collect::<Result<Vec<_>, _>>().expect("whole")
    };
    let order_of = |records: &[Record]| -> Vec<u32> {
        results(records).into_iter().map(|(stream, ..)| stream).collect()
    };
    let first = import_as(None, None);
    assert_eq!(first, import_as(Some(Order::Transaction), Some(1)));
    assert_ne!(order_of(&first), order_of(&import_as(None, Some(2))));
    let Record::Origin(origin) = &first[0] else { panic!("{:?}", first[0]) };
    assert!(origin.what.ends_with("; order transaction, seed 1"), "{origin:?}");
    let all = results(&first);
    assert_eq!(all.len(), 3 * 20 * 5 + 2);
    assert!(all.iter().all(|(_, _, code, _)| *code == 101), "nobody waits for a lock");
    let mut open = None;
    for (stream, sql, ..) in &all {
        assert!(open.is_none_or(|open| open == *stream), "a transaction stays together");
        open = if sql.starts_with("BEGIN") {
            Some(*stream)
        } else if sql == "COMMIT" || sql == "DELETE FROM t" {
            None
        } else {
            open
        };
    }
    let times = first.iter().filter_map(|record| match record {
        Record::Event(Event { start_ns, duration_ns, action: Action::Step(_), .. }) => {
            Some((*start_ns, *duration_ns))
        }
        _ => None,
    });
    let times: Vec<_> = times.collect();
    assert!(times.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "one after the other");
    let robin = order_of(&import_as(Some(Order::RoundRobin), None));
    assert_eq!(robin[..20], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 0, 1, 2, 0, 0, 0]);
    let sequential = order_of(&import_as(Some(Order::Sequential), None));
    assert!(sequential.is_sorted());
}

#[test]
fn a_latin_1_text_stays_byte_for_byte_and_attached_databases_are_the_traces_own() {
    let place = Place::new();
    let file = place.0.path().join("a.sql");
    let real = place.0.path().join("real.db");
    let mut bytes = b"CREATE TABLE t(a);\nINSERT INTO t VALUES('gr\xfc\xdf''e')\nSELECT hex(a) FROM t WHERE hex(a) = '6772FCDF2765'\n".to_vec();
    let attach = format!(
        "ATTACH DATABASE '{}' AS other;\nCREATE TABLE other.x(y)\nINSERT INTO x VALUES(1)\nDETACH other\n",
        real.display()
    );
    bytes.extend_from_slice(attach.as_bytes());
    std::fs::write(&file, bytes).expect("written");
    let (imported, records) = place.import(&file).expect("imported");
    let all = results(&records);
    assert_eq!(all[1].1, "INSERT INTO t VALUES(CAST(x'6772fcdf2765' AS TEXT))");
    assert_eq!(all[2].3, Some((1, 0)));
    assert!(imported.warnings[0].contains("no UTF-8"), "{:?}", imported.warnings);
    assert!(all.iter().all(|(_, _, code, _)| *code == 101), "{all:?}");
    assert!(!real.exists());
    let attached = Action::Attach { schema: "other".into(), database: 1 };
    assert!(records.iter().any(|record| matches!(record, Record::Event(event) if event.action == attached)));
}

#[test]
fn a_trace_replaces_no_input_and_an_order_is_for_several_streams() {
    let place = Place::new();
    let path = place.write("a.sql", "SELECT 1;");
    let over_itself = Request { path: path.clone(), out: path.clone(), ..Request::default() };
    let error = import(&over_itself).expect_err("refused");
    assert!(error.to_string().contains("replace"), "{error}");
    assert_eq!(std::fs::read(&path).expect("there"), b"SELECT 1;");
    let out = place.0.path().join("b.trace");
    let error = import(&Request { path, out, order: Some(Order::RoundRobin), ..Request::default() });
    assert!(error.expect_err("one stream").to_string().contains("is one stream"));
}

/// What happened: `--start`, `--skip-bad` and `--max-steps` were passed over without a word with
/// the spool of a capture, and the last one with file calls: whoever gave a database for one that
/// was "not known" was told again that it is not.
#[test]
fn options_that_say_nothing_about_an_input_are_refused() {
    let place = Place::new();
    let spool = place.write("spool/1.spool", "").parent().expect("a parent").to_owned();
    let calls = place.write("calls.txt", "");
    let start = place.write("app.db", "");
    for (path, format) in [(&spool, Format::Spool), (&calls, Format::FileCalls)] {
        let out = place.0.path().join("out.trace");
        let plain = Request { path: path.clone(), format: Some(format), out, ..Request::default() };
        for (request, option) in [
            (Request { starts: vec![start.clone()], ..plain.clone() }, "--start"),
            (Request { skip_bad: true, ..plain.clone() }, "--skip-bad"),
            (Request { max_steps: Some(5), ..plain.clone() }, "--max-steps"),
        ] {
            let error = import(&request).expect_err("refused").to_string();
            assert!(error.contains(&format!("{option} says nothing about it")), "{error}");
        }
    }
}

#[test]
fn pocketdatas_log_gives_statements_values_times_and_tables() {
    let place = Place::new();
    let line = |ms: u64, object: &str| {
        format!(
            "0ee9cead\t{ms}\t{ms}.5\t2015-03-22 12:05:29.324000\t810\t812\tI\tSQLite-Query-PhoneLab\t{object}\n"
        )
    };
    let schema = r#"{"Action":"SCHEMA","TABLE_NAME":"sms","SCHEMA":"cid:0,name:_id,type:INTEGER,notnull:0,dflt_value:null,pk:1...cid:1,name:body,type:TEXT,notnull:0,dflt_value:null,pk:0..."}"#;
    let insert = r#"{"Counter":1,"Time":1152240,"Arguments":"[7, it's, null]","Results":"SQLiteProgram: INSERT INTO sms(_id, body) VALUES (?, coalesce(?, ?))","Action":"INSERT"}"#;
    let select = r#"{"Time":1000,"Arguments":"null","Results":"SELECT _id FROM sms WHERE body=?","Action":"SELECT","Rows returned":0}"#;
    let log = [
        line(1_427_025_929_324, insert),
        line(1_427_025_929_400, r#"{"Action":"APP_NAME","AppName":"com.android.phone"}"#),
        line(1_427_025_929_500, schema),
        line(1_427_025_930_324, select),
    ];
    let (imported, records) = place.import(&place.write("22.out", &log.concat())).expect("imported");
    let seen = executed(&records);
    let insert = "INSERT INTO sms(_id, body) VALUES (?, coalesce(?, ?))";
    let expected = [(0, insert, 0, 1152), (0, "SELECT _id FROM sms WHERE body=?", 1000, 1)];
    assert_eq!(seen, expected.map(|(connection, sql, ms, us)| (connection, sql.to_owned(), ms, us)));
    let values = records.iter().filter_map(|record| match record {
        Record::Event(Event { action: Action::Bind { value, .. }, .. }) => Some(value.clone()),
        _ => None,
    });
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(values.collect::<Vec<_>>(), [text("7"), text("it's"), Value::Null]);
    assert!(imported.warnings[0].contains("1 statements have parameters"), "{:?}", imported.warnings);
    let script =
        "CREATE TABLE IF NOT EXISTS \"sms\"(\"_id\" INTEGER, \"body\" TEXT, PRIMARY KEY(\"_id\"));\n";
    assert!(records.contains(&Record::Content(Content { database: 0, offset: 0, bytes: script.into() })));
    // Lines that are objects alone.
    let log = "{\"timestamp\": 100.5, \"sql\": \"CREATE TABLE t(a)\"}\n{\"timestamp\": 101, \"sql\": \"SELECT a FROM t\"}\n\
               {\"timestamp\": 102, \"sql\": \"SELECT no FROM t\"}\n";
    let error = place.import(&place.write("log.jsonl", log)).expect_err("no column").to_string();
    assert!(error.contains("log.jsonl:3: no such column: no"), "{error}");
    // What happened: values that such lines have in a list were NULL, for it has another name.
    let log = "{\"ts\": 1, \"sql\": \"CREATE TABLE t(a, b, c, d)\", \"args\": []}\n\
        {\"ts\": 2, \"sql\": \"INSERT INTO t VALUES (?, ?, ?, ?)\", \
        \"args\": [\"it's\", 7, true, {\"type\": \"Buffer\", \"data\": [0, 255]}]}\n\
        {\"ts\": 3, \"sql\": \"UPDATE t SET a = ? WHERE b = ?\", \"bindings\": [null, 1.5]}\n";
    let (imported, records) = place.import(&place.write("log.jsonl", log)).expect("imported");
    let values = records.iter().filter_map(|record| match record {
        Record::Event(Event { action: Action::Bind { value, .. }, .. }) => Some(value.clone()),
        _ => None,
    });
    let blob = Value::Blob(vec![0, 255]);
    let expected = [text("it's"), Value::Integer(7), Value::Integer(1), blob, Value::Null, Value::Real(1.5)];
    assert_eq!(values.collect::<Vec<_>>(), expected);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
}

#[test]
fn a_workload_of_pocketdatas_benchmark_has_its_tables_pauses_and_rows() {
    let place = Place::new();
    let workload = r#"{"init": [{"sql": "CREATE TABLE y(k INTEGER PRIMARY KEY, v)"}, {"sql": "INSERT INTO y VALUES (1, 'a')"}],
        "benchmark": [{"op": "query", "sql": "SELECT * FROM y WHERE k = 1"}, {"op": "break", "delta": 250},
        {"op": "query", "sql": "UPDATE y SET v = 'b'"}, {"op": "query", "sql": "INSERT INTO y VALUES (1, 'twice')"}]}"#;
    let (imported, records) = place.import(&place.write("workload_a.json", workload)).expect("imported");
    let all: Vec<_> =
        results(&records).into_iter().map(|(_, sql, code, counts)| (sql, code, counts)).collect();
    let expected = [
        ("SELECT * FROM y WHERE k = 1", 101, Some((1, 0))),
        ("UPDATE y SET v = 'b'", 101, Some((0, 1))),
        ("INSERT INTO y VALUES (1, 'twice')", 1555, Some((0, 0))),
    ];
    assert_eq!(all, expected.map(|(sql, code, counts)| (sql.to_owned(), code, counts)));
    assert_eq!(executed(&records)[1].2, 250);
    assert_eq!(imported.statements, 3);
    let bad = workload.replace("SELECT *", "SELECT no");
    let error = place.import(&place.write("workload_b.json", &bad)).expect_err("no column").to_string();
    assert!(error.contains("workload_b.json benchmark:1: no such column"), "{error}");
}

/// What happened: foreign keys were on where an import executes its statements, because the SQLite
/// in this program is compiled so. 348 statements of a recorded application were expected to fail
/// that every other SQLite does, so its replay ended at the first of them.
#[test]
fn foreign_keys_are_checked_where_the_application_asks_for_them_only() {
    let place = Place::new();
    let script = "CREATE TABLE p(a PRIMARY KEY); CREATE TABLE c(a REFERENCES p);\nINSERT INTO c VALUES (1);\n\
        PRAGMA foreign_keys = ON;\nINSERT INTO c VALUES (2);\n";
    let (_, records) = place.import(&place.write("a.sql", script)).expect("imported");
    let codes: Vec<i32> = results(&records)
        .into_iter()
        .filter(|(_, sql, ..)| sql.starts_with("INSERT"))
        .map(|all| all.2)
        .collect();
    assert_eq!(codes, [DONE, 787]);
}

/// What happened: PRAGMAs that an import does not execute were not compiled either, so what a log
/// had behind one (`[query:PRAGMA synchronous=NORMAL][database:…]`), or a file that was cut there,
/// was taken, and its replay failed.
#[test]
fn pragmas_that_are_not_executed_are_compiled() {
    let place = Place::new();
    for (script, words) in [
        ("PRAGMA synchronous=NORMAL][database:0xf0];\n", "unrecognized token"),
        ("PRAGMA journal_mode=\n", "incomplete input"),
        ("PRAGMA nosuch.page_size = 512;\n", "unknown database nosuch"),
        ("PRAGMA temp_store MEMORY;\n", "syntax error"),
    ] {
        let error = place.import(&place.write("a.sql", script)).expect_err(script).to_string();
        assert!(error.contains(words), "{script}: {error}");
    }
    let script = "PRAGMA main.journal_mode = WAL;\nPRAGMA synchronous(1);\nPRAGMA mmap_size = -1;\n";
    let (_, records) = place.import(&place.write("a.sql", script)).expect("imported");
    assert_eq!(texts(&records).len(), 3);
}

/// What happened: a script that was cut off within `DELETE FROM t WHERE …` was taken as it stands,
/// and nothing said that the replay deletes all rows.
#[test]
fn a_text_that_may_have_been_cut_off_is_told() {
    let place = Place::new();
    let begin = "CREATE TABLE t(a);\nINSERT INTO t VALUES (1);\n";
    let told = |name: &str, text: &str| {
        let (imported, _) = place.import(&place.write(name, text)).expect("imported");
        let told = imported.warnings.into_iter().filter(|told| told.contains("cut off there"));
        told.collect::<Vec<String>>()
    };
    for (end, line) in [("DELETE FROM t", 3), ("DELETE\nFROM t\n", 3), ("SELECT 1;DELETE FROM t", 3)] {
        let all = told("a.sql", &format!("{begin}{end}"));
        assert!(all.len() == 1 && all[0].contains(&format!("(line {line})")), "{end}: {all:?}");
    }
    for whole in ["DELETE FROM t;", "DELETE FROM t; -- all", "-- the end", "SELECT 1\nDELETE FROM t\n"] {
        assert!(told("a.sql", &format!("{begin}{whole}")).is_empty(), "{whole}");
    }
    // One statement a line, without semicolons.
    assert!(told("a.sql", "CREATE TABLE t(a)\nDELETE FROM t\n").is_empty());
    assert_eq!(told("a.sql", "CREATE TABLE t(a)\nDELETE FROM t").len(), 1);
    assert_eq!(told("app.log", "SQL: CREATE TABLE t(a)\nSQL: DELETE FROM t").len(), 1);
    assert!(told("app.log", "SQL: CREATE TABLE t(a)\nSQL: DELETE FROM t\n").is_empty());
    // A folder's scripts are told each by itself.
    place.write("app/load.sql", &format!("{begin}DELETE FROM t"));
    let stream = place.write("app/1.sql", "SELECT a FROM t;\nDELETE FROM t");
    let (imported, _) = place.import(stream.parent().expect("a folder")).expect("imported");
    let all: Vec<&String> = imported.warnings.iter().filter(|told| told.contains("cut off there")).collect();
    assert!(all.len() == 2 && all[0].contains("load.sql: ") && all[1].contains("1.sql: "), "{all:?}");
}
