//! What logs become that are not as the tests of each format have them: copied out of another
//! program, with comments, cut, or of several connections.

use super::tests::{Place, executed, results, texts};
use super::*;
use crate::model::*;

/// What happened: a statement that begins with a comment (`-- name: Add :exec`, as generators write
/// before each) was taken for what a trigger does, and left out without a word.
#[test]
fn a_statement_of_androids_log_may_begin_with_a_comment() {
    let place = Place::new();
    let head = "11-21 16:26:38.100  100  101 V SQLiteStatements: ";
    let log = format!(
        "{head}/data/a.db: \"CREATE TABLE t(a)\"\n\
         {head}/data/a.db: \"-- name: Add :exec\n{head}INSERT INTO t VALUES (1)\"\n\
         {head}/data/a.db: \"-- TRIGGER counted\"\n\
         {head}/data/a.db: \"-- UPDATE t\n{head}-- SET a = 2\"\n"
    );
    let (imported, records) = place.import(&place.write("log.txt", &log)).expect("imported");
    assert_eq!(texts(&records), ["CREATE TABLE t(a)", "-- name: Add :exec\nINSERT INTO t VALUES (1)"]);
    assert_eq!((imported.statements, imported.warnings.len()), (2, 0), "{:?}", imported.warnings);
}

/// What happened: a line that ended with a quoted name ended its statement, and a line of a text
/// such as `Accept: "all"` began one, so a log with either was refused, or lost statements with
/// `--skip-bad`.
#[test]
fn quotes_and_colons_within_a_statement_of_androids_log_neither_end_nor_begin_one() {
    let place = Place::new();
    let head = "11-21 16:26:38.100  100  101 V SQLiteStatements: ";
    let log = format!(
        "{head}/data/a.db: \"CREATE TABLE \"t\"(\n{head}\"a\"\n{head})\"\n\
         {head}/data/a.db: \"INSERT INTO t VALUES ('\n{head}Accept: \"all\"\n{head}\"x\": \"y\"')\"\n\
         {head}/data/a.db: \"SELECT *\n{head}FROM \"t\"\"\n"
    );
    let (imported, records) = place.import(&place.write("log.txt", &log)).expect("imported");
    assert_eq!(
        texts(&records),
        [
            "CREATE TABLE \"t\"(\n\"a\"\n)",
            "INSERT INTO t VALUES ('\nAccept: \"all\"\n\"x\": \"y\"')",
            "SELECT *\nFROM \"t\""
        ]
    );
    assert_eq!((imported.connections, imported.warnings.len()), (1, 0), "{:?}", imported.warnings);
}

/// What happened: of a log copied out of Android Studio nothing was read where it has columns
/// (`holds no file call of mobigen or strace`, because of a line that says when the process
/// started), and where it has none, all processes were one and only the first line of a statement
/// was there.
#[test]
fn androids_log_as_android_studio_shows_it_has_its_processes_and_whole_statements() {
    let place = Place::new();
    let label = "/data/a.db: ";
    let columns = |ids: &str| format!("2022-12-29 04:00:18.823 {ids} SQLiteStatements   com.app.mail   V  ");
    let (one, two) = (columns("  788-883  "), columns(" 1788-1790 "));
    let indent = " ".repeat(one.len());
    let new = format!(
        "--------------- PROCESS STARTED (788) for package com.example.app ---------------\n\
         {one}{label}\"CREATE TABLE t(a)\"\n\
         {two}{label}\"SELECT a\n{indent}\n{indent}  FROM t\"\n\
         2022-12-29 04:00:18.900   788-788   Choreographer   com.example.app   I  Skipped 30 frames\n\
         {one}{label}\"INSERT INTO t VALUES (1)\"\n"
    );
    let head = |ids: &str| format!("2020-03-19 20:45:58.981 {ids}/com.example.app V/SQLiteStatements: ");
    let (one, two) = (head("788-883"), head("1788-1790"));
    let old = format!(
        "{one}{label}\"CREATE TABLE t(a)\"\n\
         {two}{label}\"SELECT a\n    \n      FROM t\"\n\
         2020-03-19 20:45:59.040 788-788/? I/Choreographer: Skipped 30 frames\n\
         {one}{label}\"INSERT INTO t VALUES (1)\"\n"
    );
    for log in [new, old] {
        let (imported, records) = place.import(&place.write("log.txt", &log)).expect(&log);
        let mut seen: Vec<_> =
            executed(&records).into_iter().map(|(connection, sql, ..)| (connection, sql)).collect();
        seen.sort();
        let expected =
            [(0_u32, "CREATE TABLE t(a)"), (0, "INSERT INTO t VALUES (1)"), (1, "SELECT a\n\n  FROM t")];
        assert_eq!(seen, expected.map(|(connection, sql)| (connection, sql.to_owned())), "{log}");
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
        let ids: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                Record::Process(process) => Some(process.pid),
                Record::Thread(thread) => Some(thread.tid),
                _ => None,
            })
            .collect();
        assert_eq!(ids, [788, 883, 1788, 1790]);
    }
}

/// What happened: a log with the tag SQLiteTime alone held no SQL statement, as it was told.
#[test]
fn a_log_of_times_alone_is_refused_with_what_lacks() {
    let place = Place::new();
    let log = "11-21 16:26:38.106  100  101 V SQLiteTime: /data/a.db: \"SELECT ?\" took 0.250 ms\n";
    let error = place.import(&place.write("log.txt", log)).expect_err("times").to_string();
    assert!(error.contains("log.tag.SQLiteStatements VERBOSE"), "{error}");
}

/// What happened: of `adb logcat -v long` the heads of entries were taken for lines of statements,
/// which then did not compile, and nothing said what to do.
#[test]
fn androids_log_in_the_format_long_is_refused_with_the_format_to_take() {
    let place = Place::new();
    let log = "--------- beginning of main\n[ 11-21 16:26:38.123  1234: 1240 V/SQLiteStatements ]\n\
        /data/a.db: \"CREATE TABLE t(a)\"\n\n";
    let error = place.import(&place.write("log.txt", log)).expect_err("long").to_string();
    assert!(error.contains("adb logcat -v threadtime"), "{error}");
}

/// What happened: keys were left out of captures alone, and not of what a script or log has.
#[test]
fn no_key_of_a_script_is_in_its_trace() {
    let place = Place::new();
    let script = "PRAGMA key = 'open sesame';\nATTACH 'b.db' AS b KEY 'sesame';\nCREATE TABLE b.t(a);\n\
        PRAGMA rekey('sesame 2');\n";
    let (imported, records) = place.import(&place.write("app.sql", script)).expect("imported");
    assert_eq!(imported.statements, 4);
    let text = format!("{records:?}");
    assert!(!text.contains("sesame") && text.contains("KEY '(left out)'"), "{text}");
    // Nor of one that loads.
    let loading = place.write("app/load.sql", "PRAGMA key = 'sesame';\nCREATE TABLE t(a);\n");
    place.write("app/1.sql", "SELECT a FROM t;\n");
    let (_, records) = place.import(loading.parent().expect("a folder")).expect("imported");
    let (text, bytes) = (format!("{records:?}"), format!("{:?}", b"sesame"));
    assert!(!text.contains("sesame") && !text.contains(bytes.trim_matches(['[', ']'])), "{text}");
}

/// What happened: a pipe (`<(zcat log.gz)`, `/dev/stdin`) was read for its format and then opened
/// again: the first 64 KiB of it were lost, and where what was left compiled, without a word.
#[test]
fn a_pipe_is_not_read_for_its_format() {
    let place = Place::new();
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, b"CREATE TABLE t(a);\nSELECT a FROM t;\n").expect("written");
    drop(writer);
    let path = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    let error = place.import(&path).expect_err("a pipe").to_string();
    assert!(error.contains("is no file") && error.contains("--format"), "{error}");
    let error = place.import_with(&path, Some(Format::PocketData), &[]).expect_err("twice").to_string();
    assert!(error.contains("write it to a file"), "{error}");
    let (_, records) = place.import_with(&path, Some(Format::Script), &[]).expect("imported");
    assert_eq!(texts(&records), ["CREATE TABLE t(a)", "SELECT a FROM t"]);
}

/// What happened: a log of several connections was imported as one, and the replay ended at the
/// second BEGIN. Now that is told where the log is read, by its line.
#[test]
fn transactions_of_several_connections_are_none_of_one() {
    let place = Place::new();
    let log = "[1] CREATE TABLE t(a)\n[1] SAVEPOINT s\n[1] RELEASE s\n[1] BEGIN\n[2] BEGIN IMMEDIATE\n\
        [1] SAVEPOINT s\n[1] ROLLBACK TO s\n[2] INSERT INTO t VALUES (1)\n[2] COMMIT\n[1] END\n";
    let error = place.import(&place.write("app.log", log)).expect_err("two connections").to_string();
    assert!(error.contains("2 texts are"), "{error}");
    assert!(error.contains("app.log:5: ") && error.contains("app.log:10: "), "{error}");
    assert!(error.contains("need a .sql file for each of them"), "{error}");
    let one: Vec<&str> = log.lines().filter(|line| line.starts_with("[1]")).collect();
    let (imported, _) = place.import(&place.write("app.log", &(one.join("\n") + "\n"))).expect("imported");
    assert_eq!((imported.statements, imported.warnings.len()), (7, 0), "{:?}", imported.warnings);
}

/// What happened: Android's log leaves out lines that repeat and says how many; nobody was told
/// that statements are missing.
#[test]
fn lines_that_androids_log_dropped_are_told() {
    let place = Place::new();
    let head = "11-21 16:26:38.100  100  101 ";
    let log = format!(
        "{head}V SQLiteStatements: /data/a.db: \"SELECT 1\"\n\
         {head}I chatty  : uid=10012(u0_a12) com.app.mail identical 2 lines\n\
         {head}V SQLiteStatements: /data/a.db: \"SELECT 1\"\n"
    );
    let (imported, _) = place.import(&place.write("log.txt", &log)).expect("imported");
    assert!(imported.warnings[0].contains("dropped 2 lines (chatty)"), "{:?}", imported.warnings);
}

/// What happened: a statement that failed in the application was taken for one that did not, and
/// the replay of the log ended there, though the log said what SQLite said of it. One that SQLite
/// began once more, because the schema had changed, was there twice.
#[test]
fn statements_that_failed_as_androids_log_tells_fail_alike() {
    let place = Place::new();
    let (head, label) = ("11-21 16:26:38.100  100  101", "/data/XX@YY");
    let log = format!(
        "{head} V SQLiteStatements: {label}: \"CREATE TABLE t(a PRIMARY KEY)\"\n\
         {head} V SQLiteStatements: {label}: \"INSERT INTO t VALUES (1)\"\n\
         {head} V SQLiteStatements: {label}: \"INSERT INTO t VALUES (1)\"\n\
         {head} E SQLiteLog: (1555) abort at 7 in [INSERT INTO t VALUES (?)]: UNIQUE constraint failed: t.a\n\
         {head} V SQLiteStatements: {label}: \"INSERT INTO t VALUES (2)\"\n\
         {head} E SQLiteLog: (13) statement aborts at 9: [INSERT INTO t] database or disk is full\n\
         {head} V SQLiteStatements: {label}: \"INSERT INTO t VALUES (3)\"\n\
         {head} E SQLiteLog: (17) statement aborts at 2: [INSERT INTO t] database schema has changed\n\
         {head} V SQLiteStatements: {label}: \"INSERT INTO t VALUES (3)\"\n\
         {head} W SQLiteLog: (284) automatic index on t(a)\n\
         11-21 16:26:38.100  100  102 E SQLiteLog: (5) statement aborts at 2: [BEGIN] database is locked\n"
    );
    let (imported, records) = place.import(&place.write("log.txt", &log)).expect("imported");
    let came: Vec<_> = results(&records).into_iter().map(|(_, sql, code, _)| (sql, code)).collect();
    let insert = |value: u32, code: i32| (format!("INSERT INTO t VALUES ({value})"), code);
    let first = ("CREATE TABLE t(a PRIMARY KEY)".to_owned(), DONE);
    assert_eq!(came, [first, insert(1, DONE), insert(1, 1555), insert(3, DONE)]);
    assert_eq!(imported.statements, 4);
    let warnings = imported.warnings.join("\n");
    for words in [
        "1 statements failed in the application, as its log tells",
        "1 × UNIQUE constraint failed: t.a",
        "are left out: 1 × database or disk is full",
        "databases whose names differ in these alone are taken for one",
    ] {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
}

/// What happened: the connection of a process that was killed within a transaction stayed open to
/// the log's end, so that the replay of the process that came after it was refused its lock.
#[test]
fn a_process_that_has_died_holds_no_lock() {
    let place = Place::new();
    let log = "11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"CREATE TABLE t(a)\"\n\
        11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"BEGIN EXCLUSIVE;\"\n\
        11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"INSERT INTO t VALUES (1)\"\n\
        11-21 16:26:39.100   60   61 I ActivityManager: Process com.app (pid 100) has died: fg TOP\n\
        11-21 16:26:40.100  200  201 V SQLiteStatements: /data/a.db: \"BEGIN EXCLUSIVE;\"\n";
    let (imported, records) = place.import(&place.write("log.txt", log)).expect("imported");
    assert_eq!((imported.statements, imported.connections), (4, 2));
    let at = |wanted: fn(&Action) -> bool, of: u32| {
        let is_it = |record: &Record| match record {
            Record::Event(Event { connection, action, .. }) => *connection == of && wanted(action),
            _ => false,
        };
        records.iter().position(is_it).expect("there")
    };
    let closed = at(|action| matches!(action, Action::Close { .. }), 0);
    assert!(at(|action| matches!(action, Action::Step(_)), 0) < closed);
    assert!(closed < at(|action| matches!(action, Action::Open { .. }), 1));
    assert_eq!(texts(&records)[2..], ["INSERT INTO t VALUES (1)", "BEGIN EXCLUSIVE"]);
}

/// What happened: a statement that begins with a comment, as generators write one before each, was
/// taken for what a trigger does, and its lines for no SQL, where something stood before it.
#[test]
fn statements_of_a_log_of_expanded_sql_may_begin_with_comments() {
    let place = Place::new();
    let log = "10:00:01 SQL: CREATE TABLE t(a)\n10:00:02 SQL: -- name: Add :exec\nINSERT INTO t\n-- all of them\n\
        SELECT 1\n10:00:03 SQL: -- UPDATE counts SET n = 1\n10:00:03 SQL: -- DELETE FROM x\n  WHERE a\n\
        10:00:04 SQL: SELECT a -- select all\nFROM t; -- 12 ns\n10:00:05 SQL: -- select first\nSELECT 2\n";
    let expected = [
        "CREATE TABLE t(a)",
        "-- name: Add :exec\nINSERT INTO t\n-- all of them\nSELECT 1",
        "SELECT a -- select all\nFROM t",
        "-- select first\nSELECT 2",
    ];
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), expected);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    // What stands before them may have dashes itself, as Ruby's logger does.
    let log = "[10:00:01 #1] DEBUG -- : CREATE TABLE t(a)\n[10:00:12 #1] DEBUG -- : -- x\nSELECT a FROM t\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), ["CREATE TABLE t(a)", "-- x\nSELECT a FROM t"]);
    // With nothing before them they are a script, also where it begins with a comment.
    let log = "-- select nothing yet\nCREATE TABLE t(a);\n-- name: Add :exec\nINSERT INTO t VALUES (1);\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(
        texts(&records),
        ["-- select nothing yet\nCREATE TABLE t(a)", "-- name: Add :exec\nINSERT INTO t VALUES (1)"]
    );
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
}

/// What happened: what a log tells between statements without semicolons was taken for their
/// further lines, so that each of them was refused: all that Core Data tells how long it took, for
/// one.
#[test]
fn what_a_log_tells_between_statements_is_none_of_them() {
    let place = Place::new();
    let core_data = "CoreData: sql: CREATE TABLE t(a)\n\
        CoreData: annotation: sql execution time: 0.0004s\n\
        CoreData: sql: SELECT a\n  FROM t\nCoreData: annotation: total time: 0.0006s for 0 rows.\n\
        CoreData: details: bind[0] = 12\n  (more of it)\nCoreData: sql: SELECT 'one\nCoreData: two'\n";
    let timed = "10:00:01.5 app[7]: SQL: CREATE TABLE t(a)\n10:00:01.25 app[7]: request done\n\
        10:00:02.5 app[7]: SQL: SELECT a\n  FROM t\n10:00:02.5 net[12]: 200 OK\n  (more of it)\n\
        10:00:02.5 app[7]: SQL: SELECT 'one\nCoreData: two'\n";
    let other_has_times = "Hibernate: CREATE TABLE t(a)\nHibernate: \nSELECT a\n  FROM t\n\
        2026-01-02T10:00:00.123+01:00 TRACE net : request (1:VARCHAR) <- [x]\n\
        2026-01-02 10:00:00.5 TRACE bind : nothing\nHibernate: SELECT 'one\nCoreData: two'\n";
    for (log, lines) in [(core_data, 4), (timed, 3), (other_has_times, 2)] {
        let (imported, records) = place.import(&place.write("app.log", log)).expect(log);
        assert_eq!(
            texts(&records),
            ["CREATE TABLE t(a)", "SELECT a\n  FROM t", "SELECT 'one\nCoreData: two'"]
        );
        assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
        assert!(imported.warnings[0].starts_with(&format!("{lines} lines ")), "{:?}", imported.warnings);
    }
    // A further line may have what stands before statements, or some of it: without it, all rows
    // would go.
    for further in [
        "10:00:02 app[7]: SQL: WHERE a = 1",
        "10:00:02 app[7]: WHERE a = 1",
        "10:00:02 app[7]   where a = 1",
        "10:00:02 WHERE a IN ( SELECT 1 )",
    ] {
        let log = format!(
            "10:00:01 app[7]: SQL: CREATE TABLE t(a)\n10:00:02 app[7]: SQL: DELETE FROM t\n{further}\n"
        );
        let error = place.import(&place.write("app.log", &log)).expect_err(further).to_string();
        assert!(error.contains("app.log:2: "), "{error}");
    }
    let log =
        "10:00:01 SQL: CREATE TABLE t(a)\n10:00:02 SQL: DELETE FROM t\n10:00:02 net: ok\n  WHERE a = 1\n";
    let error = place.import(&place.write("app.log", log)).expect_err("a parted statement").to_string();
    assert!(error.contains("app.log:4: may go on with the statement above"), "{error}");
    // Another thread's statement is told, as it is behind a semicolon.
    let log = "10:00:01 one: CREATE TABLE t(a)\n10:00:02 two: SELECT a FROM t\n";
    let error = place.import(&place.write("app.log", log)).expect_err("another thread").to_string();
    assert!(error.contains("app.log:2: ") && error.contains("stands without"), "{error}");
}

/// What happened: a log of what was prepared and not of what was expanded has `?` instead of
/// values, and was imported without the warning that each is NULL.
#[test]
fn parameters_in_a_log_of_expanded_sql_are_counted() {
    let place = Place::new();
    let log = "SQL: CREATE TABLE t(a, b)\nSQL: INSERT INTO t VALUES (?1, :b)\nSQL: SELECT '?' FROM t\n\
        SQL: UPDATE t SET a = $x::y(z)\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records).len(), 4);
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(imported.warnings[0].contains("2 statements have parameters"), "{:?}", imported.warnings);
}

/// What happened: Django's log of its statements was refused at each of them, because of what it
/// writes behind the semicolon.
#[test]
fn text_behind_the_semicolon_of_a_logged_statement_is_left_out() {
    let place = Place::new();
    let log = "(0.000) CREATE TABLE \"t\" (\"a\"); args=None; alias=default\n\
        (0.000) BEGIN; args=None; alias=default\n\
        (0.001) INSERT INTO \"t\" VALUES ('it''s; \nso'); args=('it\\'s; \\nso',); alias=default\n\
        (0.000) COMMIT;\n(0.001) CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END; args=[]\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "CREATE TABLE \"t\" (\"a\")",
        "BEGIN",
        "INSERT INTO \"t\" VALUES ('it''s; \nso')",
        "COMMIT",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; SELECT 2; END",
    ];
    assert_eq!(texts(&records), expected);
    assert!(imported.warnings[0].contains("semicolon of 4 statements"), "{:?}", imported.warnings);
    // As `manage.py migrate` prints it: SQL that begins with a line end, and other lines between.
    let log = "Watching for file changes with StatReloader\n\
        (0.002) \n            SELECT name FROM sqlite_master\n            ORDER BY name; args=None; alias=x\n\
        Operations to perform:\n  Apply all migrations: polls\n(0.000) BEGIN; args=None; alias=x\n\
        (0.004) CREATE TABLE \"q\" (\"id\"); args=None; alias=x\n(10.001)\n    SELECT \"id\" FROM \"q\"; args=()\n\
        (0.003) COMMIT; args=None; alias=x\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "SELECT name FROM sqlite_master\n            ORDER BY name",
        "BEGIN",
        "CREATE TABLE \"q\" (\"id\")",
        "SELECT \"id\" FROM \"q\"",
        "COMMIT",
    ];
    assert_eq!(texts(&records), expected);
    let warnings = imported.warnings.join("\n");
    assert!(warnings.contains("3 lines before") && warnings.contains("semicolon of 5 "), "{warnings}");
    // With its logger of schemas, which tells each change once more, before it is done.
    let log = "D django.db.backends 7 (0.002) BEGIN; args=None\n\
        D django.db.backends.schema 7 CREATE TABLE \"r\" (\"a\"); (params None)\n\
        D django.db.backends 7 (0.004) CREATE TABLE \"r\" (\"a\"); args=None\n\
        D django.db.backends.schema 7 CREATE INDEX \"i\" ON \"r\" (\"a\"); (params ())\n\
        D django.db.backends 7 (0.001) CREATE INDEX \"i\" ON \"r\" (\"a\"); args=()\n\
        D django.db.backends 7 (0.003) COMMIT; args=None\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = ["BEGIN", "CREATE TABLE \"r\" (\"a\")", "CREATE INDEX \"i\" ON \"r\" (\"a\")", "COMMIT"];
    assert_eq!(texts(&records), expected);
    let warnings = imported.warnings.join("\n");
    assert!(warnings.contains("2 lines are of Django's logger"), "{warnings}");
    // Statements that stand as no other does may be the same again, or another thread's.
    for (log, words) in [
        ("(0.1) BEGIN; args=None\nCREATE TABLE t(a); (params None)\n(0.1) COMMIT;\n", "`CREATE TABLE t(a);`"),
        ("[1] BEGIN;\nplease update it soon\n[main] SELECT a FROM t;\n[2] COMMIT;\n", "`SELECT a FROM t;`"),
    ] {
        let error = place.import(&place.write("app.log", log)).expect_err(log).to_string();
        assert!(error.contains("1 text is") && error.contains("stands without"), "{error}");
        assert!(error.contains(words), "{error}");
    }
    // A second statement is none that may be lost.
    let log = place.write("app.log", "SQL: CREATE TABLE t(a); DELETE FROM t\n");
    let error = place.import(&log).expect_err("two statements").to_string();
    assert!(error.contains("app.log:1: "), "{error}");
}

/// What happened: a statement that failed in the application was taken for one that did not, so the
/// replay of its log ended there. A log of expanded SQL is executed as a script is.
#[test]
fn what_comes_of_a_log_of_expanded_sql_is_known() {
    let place = Place::new();
    let log = "SQL: CREATE TABLE t(a PRIMARY KEY)\nSQL: INSERT INTO t VALUES (1), (2)\n\
        SQL: INSERT INTO t VALUES (2)\nSQL: SELECT a FROM t\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let came: Vec<_> = results(&records).into_iter().map(|(_, _, code, counts)| (code, counts)).collect();
    let done = |rows: u64, changes: u64| (DONE, Some((rows, changes)));
    assert_eq!(came, [done(0, 0), done(0, 2), (1555, Some((0, 0))), done(2, 0)]);
    assert!(imported.warnings[0].contains("1 statements fail"), "{:?}", imported.warnings);
}

/// What happened: of a log with BEGIN and no COMMIT (Django before 4.2), imported with `--skip-bad`
/// as the refusal said, the replay left an empty database, and nothing said why.
#[test]
fn a_transaction_that_the_input_never_ends_is_told() {
    let place = Place::new();
    let log = "SQL: CREATE TABLE t(a)\nSQL: BEGIN\nSQL: INSERT INTO t VALUES (1)\nSQL: UPDATE t SET a = 2\n";
    let (imported, _) = place.import(&place.write("app.log", log)).expect("imported");
    let told = "2 statements change something in a transaction that the input never ends";
    assert!(imported.warnings[0].starts_with(told), "{:?}", imported.warnings);
    for end in ["COMMIT", "ROLLBACK"] {
        let log = format!("{log}SQL: {end}\n");
        let (imported, _) = place.import(&place.write("app.log", &log)).expect("imported");
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
}

/// What happened: of a statement with triggers Python's log has a line more for each of their
/// steps, so a trace of it inserted a row several times, and nothing said so.
#[test]
fn statements_that_a_log_may_repeat_for_their_triggers_are_told() {
    let place = Place::new();
    let twice = "INSERT INTO t VALUES(1)\nINSERT INTO t VALUES(1)\n";
    let log = format!(
        "CREATE TABLE t(a)\n{twice}CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t WHERE a > 5; END\n{twice}"
    );
    let (imported, records) = place.import(&place.write("app.log", &log)).expect("imported");
    assert_eq!(texts(&records).len(), 6);
    assert!(imported.warnings[0].starts_with("1 statements are the one before"), "{:?}", imported.warnings);
}

/// What happened: the line that GORM wrote until 2020 below each statement, and the place in its
/// source above the next one, belonged to the statement: none of a log was read.
#[test]
fn a_log_of_the_first_gorm_is_read() {
    let place = Place::new();
    let log = "\n(/home/me/go/app/db.go:428) \n\
        [2018-11-10 12:43:07]  [0.14ms]  CREATE TABLE \"users\" (\"id\" integer primary key,\"name\" text )  \n\
        [0 rows affected or returned ] \n\n(/home/me/go/app/db.go:298) \n\
        [2018-11-10 12:43:07]  [12.17ms]  INSERT INTO \"users\" (\"name\") VALUES ('a\n\
        [3 rows affected or returned ] ')  \n[1 rows affected or returned ] \n\n\
        \u{1b}[35m(/home/me/go/app/db.go:238)\u{1b}[0m \n\
        [2018-11-10 12:43:07]  [0.16ms]  SELECT * FROM \"users\"  WHERE (name = 'a')  \n\
        [0 rows affected or returned ] \n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let texts = texts(&records);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[1].ends_with("VALUES ('a\n[3 rows affected or returned ] ')"), "{texts:?}");
    assert!(texts[2].ends_with("WHERE (name = 'a')"), "{texts:?}");
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
}

/// What happened: GORM's second version writes `[rows:-]` before what does not tell how many rows
/// it has, as each AutoMigrate begins: what has a number stood "without what the log has before its
/// first statement", and the log was refused. And nothing said that its transactions are not in it.
#[test]
fn a_log_of_gorm_has_statements_with_and_without_a_number_of_rows() {
    let place = Place::new();
    let log = "\n2024/01/02 10:00:00 /app/main.go:20\n\
        [0.031ms] [rows:-] SELECT count(*) FROM sqlite_master WHERE type='table' AND name=\"users\"\n\n\
        2024/01/02 10:00:00 /app/main.go:20\n\
        [12.250ms] [rows:0] CREATE TABLE `users` (`id` integer,`name` text,PRIMARY KEY (`id`))\n\n\
        2024/01/02 10:00:01 /app/main.go:31\n\
        [0.500ms] [rows:1] INSERT INTO `users` (`name`) VALUES (\"a [rows:-] b\") RETURNING `id`\n\n\
        2024/01/02 10:00:01 /app/main.go:32 SLOW SQL >= 200ms\n\
        [250.125ms] [rows:1] UPDATE `users` SET `name`='c' WHERE `id` = 1\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let texts = texts(&records);
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts[0].starts_with("SELECT count(*)") && texts[2].contains("a [rows:-] b"), "{texts:?}");
    let told = |warnings: &[String]| warnings.iter().any(|told| told.contains("each of the 2 statements"));
    assert!(told(&imported.warnings), "{:?}", imported.warnings);
    let exposed = "11:23:14.165 [main] DEBUG Exposed - CREATE TABLE t(a)\n\
        11:23:14.782 [main] INFO  Exposed - Executing create tables statements took 615ms\n\
        11:23:21.904 [main] DEBUG Exposed - INSERT INTO t VALUES ('a')\n\
        11:23:21.906 [main] DEBUG Exposed - INSERT INTO t VALUES ('b')\n";
    let (imported, _) = place.import(&place.write("app.log", exposed)).expect("imported");
    assert!(told(&imported.warnings), "{:?}", imported.warnings);
    // What happened: SeaORM's statements, with `debug-print`, were transactions each without a word.
    let sea = "2024-10-07T07:11:47.7Z DEBUG ThreadId(01) run: sea_orm::driver::sqlx_sqlite: CREATE TABLE t(a)\n\
        2024-10-07T07:11:47.8Z DEBUG ThreadId(01) run: sea_orm::driver::sqlx_sqlite: INSERT INTO t VALUES (1)\n\
        2024-10-07T07:11:47.9Z DEBUG ThreadId(01) run: sea_orm::driver::sqlx_sqlite: INSERT INTO t VALUES (2)\n";
    let (imported, _) = place.import(&place.write("app.log", sea)).expect("imported");
    assert!(told(&imported.warnings), "{:?}", imported.warnings);
    // One that tells its transactions, and one of which nobody knows.
    let changes = ["CREATE TABLE t(a)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"];
    for (before, between) in [("Hibernate: ", "Hibernate: BEGIN\n"), ("SQL: ", "")] {
        let [create, one, two] = changes.map(|sql| format!("{before}{sql}\n"));
        let log = place.write("app.log", &format!("{create}{between}{one}{two}"));
        let (imported, _) = place.import(&log).expect("imported");
        assert!(!told(&imported.warnings), "{:?}", imported.warnings);
    }
}

/// What happened: what GORM's logger and Prisma write for a terminal, in colours, was refused where
/// it went to a file. A log whose values alone have such bytes keeps them.
#[test]
fn a_log_that_is_coloured_for_a_terminal_is_read() {
    let place = Place::new();
    let log = "\n2026/11/28 01:28:51 \u{1b}[32m/app/main.go:11 \u{1b}[33mSLOW SQL >= 1ns\n\
        \u{1b}[0m\u{1b}[31;1m[0.243ms] \u{1b}[33m[rows:-]\u{1b}[35m CREATE TABLE `t` (`a` text,`b` blob)\u{1b}[0m\n\n\
        2026/11/28 01:28:52 \u{1b}[32m/app/main.go:12\n\
        \u{1b}[0m\u{1b}[33m[7.082ms] \u{1b}[34;1m[rows:1]\u{1b}[0m INSERT INTO `t` VALUES ('two\nlines','<binary>')\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected =
        ["CREATE TABLE `t` (`a` text,`b` blob)", "INSERT INTO `t` VALUES ('two\nlines','<binary>')"];
    assert_eq!(texts(&records), expected);
    let warnings = imported.warnings.join("\n");
    assert!(warnings.contains("1 statements have `<binary>`"), "{warnings}");
    let log = "\u{1b}[34mprisma:query\u{1b}[39m BEGIN\n\u{1b}[34mprisma:query\u{1b}[39m COMMIT\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), ["BEGIN", "COMMIT"]);
    let log = "SQL: CREATE TABLE t(a)\nSQL: INSERT INTO t VALUES ('\u{1b}[31mred\u{1b}[0m')\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records)[1], "INSERT INTO t VALUES ('\u{1b}[31mred\u{1b}[0m')");
}

/// What happened: MikroORM's log, whose values can be filled in (`query-params`), was refused
/// because of the time that it writes behind most statements, in brackets as names of SQL are.
#[test]
fn a_log_of_mikro_orm_is_read() {
    let place = Place::new();
    let log = "[query] pragma foreign_keys = on; [took 0 ms]\n\
        [query] create table `t` (`a` integer, `b` text); [took 1 ms]\n[query] begin [took 0 ms]\n\
        [query] insert into `t` (`b`) values ('x [took 2 ms]') returning `a` [took 2 ms, 1 row affected]\n\
        [query] commit\n[query] select `b` from `t` limit 1 [took 12 ms, 1 result]\n\
        [query] select [b] from [t]\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "pragma foreign_keys = on",
        "create table `t` (`a` integer, `b` text)",
        "begin",
        "insert into `t` (`b`) values ('x [took 2 ms]') returning `a`",
        "commit",
        "select `b` from `t` limit 1",
        "select [b] from [t]",
    ];
    assert_eq!(texts(&records), expected);
}

/// What happened: Sequelize names the connection before each statement, and a transaction has one
/// of its own: a log with transactions was refused as that of something else.
#[test]
fn a_log_of_sequelize_with_transactions_is_read() {
    let place = Place::new();
    let log = "Executing (default): CREATE TABLE `t` (`a`);\n\
        Executing (6e7b8c1a-2b0e-4f0d-9a55-0f3ad1b0c6f1): BEGIN DEFERRED TRANSACTION;\n\
        Executing (6e7b8c1a-2b0e-4f0d-9a55-0f3ad1b0c6f1): INSERT INTO `t` VALUES (1)\n\
        Executing (6e7b8c1a-2b0e-4f0d-9a55-0f3ad1b0c6f1): COMMIT;\n\
        Executing (default): SELECT * FROM `t`\n\
        Executing (0bd8d5d4-6a55-4ad4-8fb1-93b8f3a0a2c7): BEGIN DEFERRED TRANSACTION;\n\
        Executing (0bd8d5d4-6a55-4ad4-8fb1-93b8f3a0a2c7): ROLLBACK;\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "CREATE TABLE `t` (`a`)",
        "BEGIN DEFERRED TRANSACTION",
        "INSERT INTO `t` VALUES (1)",
        "COMMIT",
        "SELECT * FROM `t`",
        "BEGIN DEFERRED TRANSACTION",
        "ROLLBACK",
    ];
    assert_eq!(texts(&records), expected);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    // What another connection does meanwhile is none of it, and may not go with its ROLLBACK.
    let log = "Executing (default): CREATE TABLE `t` (`a`);\nExecuting (0b): BEGIN;\n\
        Executing (default): INSERT INTO `t` VALUES (1)\nExecuting (0b): ROLLBACK;\n";
    let error = place.import(&place.write("app.log", log)).expect_err("two connections").to_string();
    assert!(error.contains("1 text is") && error.contains("app.log:3: stands within"), "{error}");
    assert!(error.contains("need a .sql file for each of them"), "{error}");
}

/// What happened: a line that an application printed below a statement of Sequelize's without a
/// semicolon was taken for its further line, so that the whole log was refused: "Listening on port
/// 3000" below the last one. A quote in it took all that followed along.
#[test]
fn what_an_application_prints_below_a_statement_of_sequelizes_is_none_of_it() {
    let place = Place::new();
    let log = "Executing (default): CREATE TABLE IF NOT EXISTS `t` (`a` INTEGER, `b` TEXT);\n\
        Executing (default): PRAGMA INDEX_LIST(`t`)\nCan't reach the cache\n\
        Executing (default): INSERT INTO `t` VALUES (1,'two\nlines')\n{ id: 1, name: 'x' }\n\
        Executing (default): SELECT a FROM t\n  WHERE a = 1\n\
        Executing (default): SELECT 1+1 AS result\nListening on port 3000\nUsing it\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "CREATE TABLE IF NOT EXISTS `t` (`a` INTEGER, `b` TEXT)",
        "PRAGMA INDEX_LIST(`t`)",
        "INSERT INTO `t` VALUES (1,'two\nlines')",
        "SELECT a FROM t\n  WHERE a = 1",
        "SELECT 1+1 AS result",
    ];
    assert_eq!(texts(&records), expected);
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(imported.warnings[0].starts_with("4 lines "), "{:?}", imported.warnings);
    // A clause below such a line may be the statement's.
    let log = "Executing (default): CREATE TABLE t(a)\nExecuting (default): DELETE FROM t\n\
        Listening on port 3000\nWHERE a = 1\n";
    let error = place.import(&place.write("app.log", log)).expect_err("a parted statement").to_string();
    assert!(error.contains("app.log:4: may go on with the statement above"), "{error}");
}

/// What happened: what `.trace FILE` of the shell tells of a statement's triggers and virtual
/// tables below it was taken along with the next statement, so that all texts were different, and a
/// replay compiled up to 4 KiB of comments with each.
#[test]
fn what_the_shells_trace_tells_below_a_statement_is_none_of_the_next_one() {
    let place = Place::new();
    let log = "CREATE TABLE t(a);\nCREATE VIRTUAL TABLE f USING fts5(a);\n\
        -- CREATE TABLE 'main'.'f_data'(id INTEGER PRIMARY KEY, block BLOB);\n\
        INSERT INTO t VALUES (1);\n-- TRIGGER t_ai;\n-- INSERT INTO f VALUES(new.a);\n\
        -- my own words\nINSERT INTO t VALUES (1);\n-- select all\nSELECT a FROM t;\n";
    let (imported, records) = place.import(&place.write("trace.log", log)).expect("imported");
    let expected = [
        "CREATE TABLE t(a)",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
        "INSERT INTO t VALUES (1)",
        "-- my own words\nINSERT INTO t VALUES (1)",
        "-- select all\nSELECT a FROM t",
    ];
    assert_eq!(texts(&records), expected);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
}

/// What happened: an application that opened its database by `/data/data` and by `/data/user/0`,
/// which lead to one file, had two of them, of which the second was empty: "no such table".
#[test]
fn a_file_that_android_has_under_two_names_is_one_database() {
    let place = Place::new();
    let head = "11-21 16:26:38.100  100  101 V SQLiteStatements: ";
    let (one, two) = ("/data/data/com.app/databases/a.db", "/data/user/0/com.app/databases/a.db");
    let log = format!(
        "{head}{two}: \"CREATE TABLE t(a)\"\n{head}{one}: \"INSERT INTO t VALUES (1)\"\n\
         {head}{one}: \"ATTACH '{two}' AS again\"\n{head}{two}: \"SELECT a FROM t\"\n"
    );
    let start = place.write("a.db", "");
    rusqlite::Connection::open(&start)
        .and_then(|made| made.execute_batch("CREATE TABLE u(a)"))
        .expect("made");
    let (imported, records) =
        place.import_with(&place.write("log.txt", &log), None, &[start]).expect("imported");
    let databases = records.iter().filter(|record| matches!(record, Record::Database(_))).count();
    assert_eq!((texts(&records).len(), imported.connections, databases), (4, 2, 1));
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    // PocketData's log has the name in its object.
    let log = [(two, "CREATE TABLE t(a)"), (one, "SELECT a FROM t")].map(|(database, sql)| {
        format!("{{\"timestamp\": 100.5, \"database\": \"{database}\", \"sql\": \"{sql}\"}}\n")
    });
    let (imported, records) = place.import(&place.write("log.out", &log.concat())).expect("imported");
    assert_eq!((texts(&records).len(), imported.connections), (2, 1));
}

/// What happened: a log whose lines have more than SQL (xorm, Laravel, Doctrine, sqlhooks …) was
/// refused line by line, and nothing said what to do.
#[test]
fn a_log_without_one_statement_alone_says_what_to_do() {
    let place = Place::new();
    let log = "> create table t(a) []. took: 121.2us\n> insert into t(a) values(?) [\"x\"]. took: 36.3us\n";
    let error = place.import(&place.write("app.log", log)).expect_err("sqlhooks").to_string();
    assert!(error.contains("app.log:2: ") && error.contains("fathom trace capture"), "{error}");
    let log = place.write("app.log", "SQL: CREATE TABLE t(a)\nSQL: DELETE FRO t\n");
    let error = place.import(&log).expect_err("one of two").to_string();
    assert!(!error.contains("fathom trace capture"), "{error}");
}

/// What happened: of a log of JSON objects (pino, zap), or of logfmt (slog), whose statements
/// end with a semicolon, the rest of each line was left out, and `\n` and `\"` in texts stayed as
/// they are written there: each such text was another one, and longer. Without semicolons such a
/// log was refused.
#[test]
fn a_statement_in_quotes_has_its_own_line_ends_and_quotes() {
    let place = Place::new();
    let texts_of = [
        "CREATE TABLE t(a, b);",
        "BEGIN -- now",
        "INSERT INTO t VALUES ('it''s \"q\"\nnew', x'00')",
        "UPDATE t SET a = 'é\\n';",
        "COMMIT",
    ];
    for (before, behind) in [
        ("{\"level\":\"debug\",\"time\":17,\"msg\":", ",\"pid\":1}"),
        ("time=2023-08-10T10:00:00Z level=DEBUG msg=query sql=", " took=1ms"),
        ("2023-08-10T10:00:00Z\tDEBUG\tdb.go:12\tquery\t{\"stmt\": ", "}"),
    ] {
        let line = |sql: &&str| format!("{before}{}{behind}\n", serde_json::Value::from(*sql));
        let log: String = texts_of.iter().map(line).collect();
        let (imported, records) = place.import(&place.write("app.log", &log)).expect(before);
        let seen: Vec<String> = texts(&records);
        assert_eq!(seen.len(), 5, "{seen:?}");
        assert_eq!(seen[0], "CREATE TABLE t(a, b)");
        assert!(seen[1].starts_with("BEGIN"), "{seen:?}");
        assert_eq!((seen[2].as_str(), seen[4].as_str()), (texts_of[2], texts_of[4]));
        assert_eq!(format!("{};", seen[3]), texts_of[3]);
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
    // Quotes that are no JSON's: a name of SQL's own, letters as Rust alone writes them, and a
    // backslash that may be one or a part of a line end.
    let log = place.write("app.log", "SQL \"CREATE TABLE t(a);\"\nSQL \"SELECT \"a\" FROM t;\"\n");
    let (_, records) = place.import(&log).expect("as it is");
    assert_eq!(texts(&records), ["CREATE TABLE t(a)", "SELECT \"a\" FROM t"]);
    for text in ["\\u{1b}", "C:\\new"] {
        let log = format!("SQL: \"CREATE TABLE t(a);\"\nSQL: \"INSERT INTO t VALUES ('{text}');\"\n");
        let error = place.import(&place.write("app.log", &log)).expect_err(text).to_string();
        assert!(error.contains("app.log:2: stands in quotes"), "{error}");
    }
}

/// What happened: the log of Go's bun, which has all values and transactions, was refused: each
/// statement's first word and its time stand before it.
#[test]
fn the_log_of_bun_has_the_kind_of_each_statement_before_it() {
    let place = Place::new();
    let log = "[bun]  04:59:45.249   CREATE TABLE          17.71ms  CREATE TABLE \"u\" (\"id\" INTEGER, \"name\" VARCHAR)\n\
        [bun]  04:59:45.249   BEGIN                    46µs  BEGIN\n\
        [bun]  04:59:45.249   INSERT                  274µs  INSERT INTO \"u\" (\"id\", \"name\") VALUES (1, 'it''s\n; 0') RETURNING \"id\"\n\
        [bun]  04:59:45.264   COMMIT               1.00014s  COMMIT\n\
        [bun]  04:59:45.304   UPDATE               40.566ms  UPDATE \"u\" SET \"name\" = '1ms  SELECT' WHERE \"id\" = 1\n";
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    let expected = [
        "CREATE TABLE \"u\" (\"id\" INTEGER, \"name\" VARCHAR)",
        "BEGIN",
        "INSERT INTO \"u\" (\"id\", \"name\") VALUES (1, 'it''s\n; 0') RETURNING \"id\"",
        "COMMIT",
        "UPDATE \"u\" SET \"name\" = '1ms  SELECT' WHERE \"id\" = 1",
    ];
    assert_eq!(texts(&records), expected);
    assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
}

/// What happened: values of which SQLite had expanded the beginning alone were taken for whole ones
/// without a word.
#[test]
fn values_whose_beginnings_alone_are_told_are_counted() {
    let place = Place::new();
    let log = "SQL: CREATE TABLE t(a, b)\nSQL: INSERT INTO t VALUES ('abc'/*+1234 bytes*/, x'00'/*+9 bytes*/)\n\
        SQL: INSERT INTO t VALUES ('/*+9 bytes*/', 1 /*+ a comment */)\n";
    let (imported, _) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(imported.warnings[0].starts_with("1 statements have values of which"), "{:?}", imported.warnings);
}

/// What happened: an UPDATE that another thread had committed by itself was rolled back with the
/// transaction within which it stands in the log, without a word.
#[test]
fn a_statement_of_another_thread_within_a_transaction_is_told() {
    let place = Place::new();
    let written = |names: [&str; 2]| {
        let [one, two] = names;
        let log = format!(
            "{one}CREATE TABLE t(a)\n{one}BEGIN\n{one}INSERT INTO t VALUES (1)\n{two}UPDATE t SET a = 2\n\
             {one}ROLLBACK\n{two}SELECT a FROM t\n"
        );
        place.import(&place.write("app.log", &log)).expect("imported").0.warnings
    };
    for names in [
        ["[Thread-1] ", "[Thread-2] "],
        [
            "10:00:01.100 [http-nio-8080-exec-3] DEBUG SQL: ",
            "10:00:01.200 [http-nio-8080-exec-12] DEBUG SQL: ",
        ],
        ["DEBUG ThreadId(01) sql: ", "DEBUG ThreadId(12) sql: "],
        ["pid=7 tid=8 ", "pid=7 tid=9 "],
        ["[conn 11] ", "[conn 12] "],
    ] {
        let warnings = written(names);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("1 statements (the first on line 4)"), "{warnings:?}");
    }
    for names in [
        ["[Thread-1] 7 ", "[Thread-1] 8 "],
        ["10:00:01 [main] DEBUG SQL: ", "10:00:02 [main] DEBUG SQL: "],
        ["conn took 12ms: ", "conn took 13ms: "],
        ["connection 12ms: ", "connection 13ms: "],
    ] {
        assert!(written(names).is_empty(), "{names:?}");
    }
}

/// What happened: a time of a JSON line that is a text, as most loggers write it, was not read, and
/// so was one under the name `time`: all statements of such a log began at once.
#[test]
fn times_of_json_lines_may_be_texts() {
    let place = Place::new();
    let fields = [
        ["\"ts\":\"2023-08-10T10:00:00Z\"", "\"ts\":\"2023-08-10T10:00:01.5Z\""],
        [
            "\"@timestamp\":\"2023-08-10T12:00:00.000+02:00\"",
            "\"@timestamp\":\"2023-08-10T06:00:01,500-0400\"",
        ],
        ["\"timestamp\":\"2023-08-10 10:00:00,000\"", "\"timestamp\":\"2023-08-10 10:00:01,500\""],
        ["\"time\":1691661600000", "\"time\":1691661601500"],
        ["\"ts\":\"1691661600\"", "\"ts\":\"1691661601.5\""],
    ];
    for [one, two] in fields {
        let log = format!(
            "{{\"level\":\"debug\",{one},\"msg\":\"query\",\"sql\":\"CREATE TABLE t(a)\"}}\n\
             {{\"level\":\"debug\",{two},\"msg\":\"query\",\"sql\":\"SELECT a FROM t\"}}\n"
        );
        let (imported, records) = place.import(&place.write("app.jsonl", &log)).expect(one);
        let starts: Vec<u64> = executed(&records).into_iter().map(|(_, _, at_ms, _)| at_ms).collect();
        assert_eq!(starts, [0, 1500], "{two}");
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }
    // How long a statement took is no time of a day, and a time in words is not read.
    let log = "{\"time\":2.5,\"ts\":\"Thu Aug 10\",\"sql\":\"CREATE TABLE t(a)\"}\n\
        {\"time\":2000.5,\"ts\":\"Fri Aug 11\",\"sql\":\"SELECT a FROM t\"}\n";
    let (imported, records) = place.import(&place.write("app.jsonl", log)).expect("imported");
    assert!(executed(&records).iter().all(|(_, _, at_ms, _)| *at_ms == 0));
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(
        imported.warnings[0].starts_with("2 statements have a time that is neither"),
        "{:?}",
        imported.warnings
    );
}

/// What happened: all statements of a log that Python's `repr` had written were lines that are no
/// SQL, and where one with a text in it was in double quotes, only those were read, or refused.
#[test]
fn statements_as_pythons_repr_writes_them_are_what_they_were() {
    let place = Place::new();
    let log = r#"2023-08-10 10:00:00,100 DEBUG db: connected to 'app.db'
2023-08-10 10:00:00,101 DEBUG db: '\n    CREATE TABLE t (\n        a TEXT,\n        b\n    )\n'
2023-08-10 10:00:00,102 DEBUG db: 'BEGIN '
2023-08-10 10:00:00,103 DEBUG db: "INSERT INTO t VALUES ('C:\\new\nline', 1)"
2023-08-10 10:00:00,104 DEBUG db: 'INSERT INTO "t" VALUES (\'it\'\'s \xa7\', 2)'
2023-08-10 10:00:00,104 DEBUG db: '-- UPDATE counts SET n = n + 1'
2023-08-10 10:00:00,105 DEBUG db: 'COMMIT'
"#;
    let expected = [
        "CREATE TABLE t (\n        a TEXT,\n        b\n    )",
        "BEGIN",
        "INSERT INTO t VALUES ('C:\\new\nline', 1)",
        "INSERT INTO \"t\" VALUES ('it''s §', 2)",
        "COMMIT",
    ];
    let (imported, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), expected);
    assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
    assert!(imported.warnings[0].starts_with("1 lines before the first"), "{:?}", imported.warnings);
    // The first one may be in double quotes.
    let log = "sql=\"CREATE TABLE t(a DEFAULT 'x\\n')\"\nsql='SELECT a FROM t'\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), ["CREATE TABLE t(a DEFAULT 'x\n')", "SELECT a FROM t"]);
    // A word in a message is no statement of such a log.
    let log = "app: 'commit' is left out\napp: SELECT 1\napp: SELECT 2\n";
    let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
    assert_eq!(texts(&records), ["SELECT 1", "SELECT 2"]);
    // Values that stand beside a statement, and quotes that are no `repr`'s.
    for (line, words) in [
        ("('INSERT INTO t VALUES (?)', ['x'])", "stands in quotes"),
        ("('INSERT INTO t VALUES (?)', [7])", "has parameters"),
        ("('INSERT INTO t VALUES ('x')')", "stands in quotes"),
        ("SELECT a FROM t", "stands without what the log has"),
    ] {
        let log = format!("('CREATE TABLE t(a)', [])\n{line}\n");
        let error = place.import(&place.write("app.log", &log)).expect_err(line).to_string();
        assert!(error.contains("app.log:2: ") && error.contains(words), "{line}: {error}");
    }
}
