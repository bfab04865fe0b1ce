//! `fathom trace import` of recorded applications, held against the stock `sqlite3` shell: the same
//! statements in the order that the trace states must leave the same content, and return and change
//! the same rows.
//!
//! What happened: folders of the form in which Android recordings are published (`loading.sql`,
//! `benchset/N.sql`, one statement a line, mostly without semicolon) were refused or, put into one
//! folder, glued to texts that are no SQL; and the streams of one application ran freely, so that
//! 14 of 15 replays left different contents. The application here is made up, in the same form,
//! with what made real ones fail.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use fathom_random::Random;
use fathom_trace::Reader;
use fathom_trace::model::{Action, Content, Database, Event, Record, Start, Value};
use fathom_trace::sql::Verb;
use place::Place;

const WORDS: [&str; 12] = [
    "rain",
    "bus",
    "lamp",
    "tea",
    "north",
    "river",
    "it''s",
    "-- no comment",
    "; nor end",
    "비",
    "등불",
    "größe",
];

fn words(random: &mut Random, count: u64) -> String {
    let words: Vec<&str> = (0..count).map(|_| WORDS[random.below(WORDS.len() as u64) as usize]).collect();
    words.join(" ")
}

/// An application with two threads on the same rows.
fn application(place: &Place) {
    let mut random = Random::new(7);
    std::fs::create_dir_all(place.path("app/benchset")).unwrap();
    let mut loading = String::from(
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE android_metadata (locale TEXT);\n\
         INSERT INTO android_metadata VALUES('en_US');\n\
         CREATE TABLE stories(_id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, corpus INTEGER, state INTEGER DEFAULT 0,\n  \
         body TEXT, score REAL);\n\
         CREATE TABLE counters(name TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;\nINSERT INTO counters VALUES('stories',0);\n\
         CREATE TRIGGER stories_ai AFTER INSERT ON stories BEGIN UPDATE counters SET n = n + 1 WHERE name = 'stories'; END;\n\
         CREATE VIEW upcoming AS SELECT _id AS '_id', \"state\", body FROM stories WHERE corpus > 3;\n\
         CREATE VIRTUAL TABLE notes_fts USING fts4(title, body);\n",
    );
    for number in 0..100 {
        let body = words(&mut random, 6);
        let _ = writeln!(
            loading,
            "INSERT INTO stories(key,corpus,body,score) VALUES('k{number:03}',{},'{body}',0.{});",
            number % 17,
            random.below(1_000_000)
        );
    }
    loading.push_str("COMMIT;\n");
    place.write("app/loading.sql", &loading);
    for stream in 0..2 {
        let mut lines = String::new();
        for number in 0..120 {
            let key = random.below(110);
            let (body, state) = (words(&mut random, 4), random.below(4));
            let _ = match random.below(8) {
                0 => writeln!(
                    lines,
                    "SELECT _id, body FROM stories WHERE (corpus='{}') ORDER BY score DESC LIMIT 10",
                    key % 17
                ),
                1 => writeln!(lines, "SELECT '_id', \"state\" FROM upcoming WHERE '_id' <> '{key}' LIMIT 20"),
                2 => writeln!(
                    lines,
                    "BEGIN EXCLUSIVE;\nINSERT OR REPLACE  INTO stories(key,corpus,body) VALUES ('n{}','{}','{body}')\n\
                     UPDATE stories SET state='{state}' WHERE (key='k{key:03}')\nCOMMIT;",
                    key % 9,
                    key % 17
                ),
                3 => writeln!(
                    lines,
                    "UPDATE stories SET state=state+{state} WHERE (_id='{key}' AND state < 3)"
                ),
                4 => writeln!(
                    lines,
                    "BEGIN IMMEDIATE;\nDELETE FROM stories WHERE corpus = {} AND score < 0.05\nCOMMIT;",
                    key % 17
                ),
                // Often it is there already: the application saw the error, and so does a replay.
                5 => writeln!(lines, "INSERT INTO stories(key,corpus) VALUES ('u{}','{stream}')", key % 20),
                6 => writeln!(
                    lines,
                    "BEGIN EXCLUSIVE;\nINSERT INTO notes_fts(title, body) VALUES ('{number}', '{body}')\nCOMMIT;"
                ),
                _ => {
                    writeln!(lines, "SELECT rowid FROM \"main\".notes_fts WHERE notes_fts MATCH 'r*' LIMIT 5")
                }
            };
        }
        place.write(&format!("app/benchset/{stream}.sql"), &lines);
    }
}

/// What an execution did: its text, the rows that it returned and changed, and whether it failed.
#[derive(Debug, PartialEq)]
struct Executed {
    sql: String,
    rows: u64,
    changes: u64,
    fails: bool,
}

/// What the trace says that is done, in its order. A replay steps a query to its first row and then
/// on, so that its capture has two parts of what is one execution.
fn executed(place: &Place, trace: &str) -> Vec<Executed> {
    let (mut texts, mut prepared) = (HashMap::new(), HashMap::new());
    let (mut at, mut all) = (HashMap::new(), Vec::<Executed>::new());
    for record in Reader::open(&place.path(trace)).unwrap() {
        match record.unwrap() {
            Record::Statement(statement) => drop(texts.insert(statement.id, statement.sql)),
            Record::Event(Event {
                connection, action: Action::Prepare { handle, statement, .. }, ..
            }) => {
                prepared.insert((connection, handle), statement);
            }
            Record::Event(Event { connection, action: Action::Step(step), .. }) => {
                let handle = (connection, step.handle);
                let fails = step.outcome.is_error();
                assert!(step.is_counted || fails);
                if step.begins {
                    at.insert(handle, all.len());
                    let sql = texts[&prepared[&handle]].clone();
                    all.push(Executed { sql, rows: step.rows, changes: step.changes, fails });
                } else {
                    let begun = &mut all[at[&handle]];
                    begun.rows += step.rows;
                    begun.changes += step.changes;
                    begun.fails |= fails;
                }
            }
            _ => {}
        }
    }
    all
}

/// The executions but for PRAGMAs, which are a replay's settings where it was captured.
fn work(place: &Place, trace: &str) -> Vec<Executed> {
    let mut all = executed(place, trace);
    all.retain(|done| Verb::of(&done.sql) != Verb::Pragma);
    all
}

/// Puts the database with which a trace begins into the shell's `shell.db`.
fn begin_in_the_shell(place: &Place, trace: &str) {
    let (mut start, mut content) = (None, Vec::new());
    for record in Reader::open(&place.path(trace)).unwrap() {
        match record.unwrap() {
            // A capture has the empty file, too, on which a replay tries its settings.
            Record::Database(Database { start: Start::Empty, .. }) => {}
            Record::Database(database) => {
                assert_eq!(start, None, "a recorded application has one database");
                start = Some((database.id, database.start));
            }
            Record::Content(Content { database, offset, bytes }) => {
                assert_eq!(start.as_ref().map(|(id, _)| *id), Some(database));
                content.resize(usize::try_from(offset).unwrap(), 0);
                content.extend(bytes);
            }
            _ => {}
        }
    }
    match start.map(|(_, start)| start) {
        Some(Start::Script { .. }) => {
            place.write_bytes("shell.db", b"");
            shell(place, "shell.db", &String::from_utf8(content).unwrap());
        }
        Some(Start::Image { .. }) => place.write_bytes("shell.db", &content),
        other => panic!("{trace} begins with {other:?}"),
    }
}

/// Whether there is a `sqlite3` shell that computes hashes.
fn has_shell() -> bool {
    let shell = Command::new("sqlite3").args([":memory:", ".sha3sum --sha3-256"]).output();
    let has = shell.is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: no sqlite3 shell; apt-get install sqlite3");
    }
    has
}

/// What the shell prints for a script on a database.
fn shell(place: &Place, database: &str, script: &str) -> String {
    let mut shell = Command::new("sqlite3")
        .arg(place.path(database))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let script = script.to_owned();
    let writes = std::thread::spawn(move || stdin.write_all(script.as_bytes()).unwrap());
    let output = shell.wait_with_output().unwrap();
    writes.join().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Holds each statement of a trace against the shell, which begins with what is in `shell.db`;
/// gives the hash of what the shell leaves.
fn is_done_by_the_shell(place: &Place, trace: &str) -> String {
    let all = work(place, trace);
    // A text may hold line ends, so a row has an end of its own.
    let mut script = String::from(".changes on\n.separator | \"@row@\\n\"\n");
    for statement in &all {
        let _ = writeln!(script, "{};\n.print @@", statement.sql);
    }
    let told = shell(place, "shell.db", &script);
    let told: Vec<&str> = told.split("@@\n").collect();
    assert_eq!(told.len(), all.len() + 1);
    for (statement, told) in all.iter().zip(told) {
        let is_changes = |line: &&str| line.starts_with("changes:");
        let rows = told.matches("@row@\n").count() as u64;
        let changes = told.lines().rfind(is_changes).map(|line| {
            line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap()
        });
        assert_eq!((statement.rows, statement.fails), (rows, changes.is_none()), "{}: {told}", statement.sql);
        if Verb::of(&statement.sql).changes_rows() && !statement.fails {
            assert_eq!(Some(statement.changes), changes, "{}: {told}", statement.sql);
        }
    }
    shell(place, "shell.db", ".sha3sum --sha3-256\n").trim().to_owned()
}

/// Imports the folder, and holds each statement, the content, and three replays against the shell.
fn is_what_the_shell_does(place: &Place, folder: &str, loading: &str) {
    place.fathom(&["trace", "import", folder, "--out", "app.trace", "--seed", "3"]).exits(0);
    place.write_bytes("shell.db", b"");
    shell(place, "shell.db", &std::fs::read_to_string(loading).unwrap());
    let hash = is_done_by_the_shell(place, "app.trace");
    let executions = executed(place, "app.trace").len();
    for settings in ["journal_mode=delete", "journal_mode=wal", "journal_mode=wal"] {
        let replay = place.fathom(&[
            "trace",
            "replay",
            "app.trace",
            "--dir",
            ".",
            "--set",
            settings,
            "--set",
            "synchronous=off",
        ]);
        assert!(replay.exits(0).stdout.contains(&hash), "{replay}");
        assert!(replay.stdout.contains(&format!("{executions} executions returned and changed")), "{replay}");
    }
}

#[test]
fn a_recorded_application_does_and_leaves_what_the_shell_does_and_leaves() {
    if !has_shell() {
        return;
    }
    let place = Place::new();
    application(&place);
    let loading = place.path("app/loading.sql");
    is_what_the_shell_does(&place, "app", loading.to_str().unwrap());
}

/// All bytes of texts and blobs in a trace, and of its databases.
fn everything(place: &Place, trace: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in Reader::open(&place.path(trace)).unwrap() {
        match record.unwrap() {
            Record::Content(content) => bytes.extend(content.bytes),
            Record::Event(Event {
                action: Action::Bind { value: Value::Text(text) | Value::Blob(text), .. },
                ..
            }) => bytes.extend(text),
            other => bytes.extend(format!("{other:?}").into_bytes()),
        }
        bytes.push(0);
    }
    bytes
}

/// Replays a trace, and gives the hash of its database's content. The replay checks each
/// statement's rows and changes.
fn content(place: &Place, trace: &str) -> String {
    let replay = place.fathom(&["trace", "replay", trace, "--dir", ".", "--set", "synchronous=off"]);
    assert!(replay.exits(0).stdout.contains("returned and changed the rows that were captured"), "{replay}");
    let line = replay.stdout.lines().find(|line| line.contains(" holds "));
    line.and_then(|line| line.split(" holds ").nth(1)).unwrap_or_else(|| panic!("{replay}")).to_owned()
}

/// Holds two traces against each other, execution by execution, whose texts may be others.
fn do_the_same(was: &[Executed], is: &[Executed]) {
    assert_eq!(was.len(), is.len());
    for (was, is) in was.iter().zip(is) {
        let did = |statement: &Executed| (statement.rows, statement.changes, statement.fails);
        assert_eq!(did(was), did(is), "{}\n{}", was.sql, is.sql);
    }
}

/// Holds a trace against the anonymous one that is made of it: each statement returns and changes
/// as many rows, and none of the words remains.
fn is_made_anonymous(place: &Place, trace: &str, public: &str, more: &[&str], words: &[&str]) {
    let command = [&["trace", "anonymise", trace, "--out", public, "--seed", "5"], more].concat();
    place.fathom(&command).exits(0);
    do_the_same(&work(place, trace), &work(place, public));
    let (before, after) = (everything(place, trace), everything(place, public));
    for word in words {
        let is_in = |bytes: &[u8]| bytes.windows(word.len()).any(|part| part == word.as_bytes());
        assert!(is_in(&before) && !is_in(&after), "{public}: {word}");
    }
}

/// Captures the replay of a trace.
fn captured(place: &Place, replayed: &str, out: &str) {
    let library = "library=/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
    let replay = ["trace", "replay", replayed, "--dir", ".", "--set", library, "--set", "synchronous=off"];
    let capture = ["trace", "capture", "--out", out, "--", env!("CARGO_BIN_EXE_fathom")];
    place.fathom(&[&capture[..], &replay].concat()).exits(0);
}

/// Import, replay, capture of the replay, anonymise, replay, capture again: at each step every
/// execution returns and changes what it did at the step before, and the content is that of the
/// step before. Where words are others, it is what the shell comes to with them.
fn is_the_same_all_the_way_round(place: &Place, folder: &str, words: &[&str]) {
    place.fathom(&["trace", "import", folder, "--out", "app.trace", "--seed", "3"]).exits(0);
    is_made_anonymous(place, "app.trace", "public.trace", &[], words);
    is_made_anonymous(place, "app.trace", "ids.trace", &["--numbers"], words);
    let library = Path::new("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0");
    if !library.exists() {
        return println!("skipped: no libsqlite3.so.0; apt-get install libsqlite3-0");
    }
    captured(place, "app.trace", "captured.trace");
    let imported = work(place, "app.trace");
    assert_eq!(imported, work(place, "captured.trace"));
    assert_eq!(content(place, "app.trace"), content(place, "captured.trace"));
    is_made_anonymous(place, "captured.trace", "public2.trace", &[], words);
    captured(place, "public2.trace", "again.trace");
    let again = work(place, "again.trace");
    assert_eq!(work(place, "public2.trace"), again);
    do_the_same(&imported, &again);
    assert_eq!(content(place, "public2.trace"), content(place, "again.trace"));
    if has_shell() {
        for trace in ["public.trace", "ids.trace", "captured.trace", "public2.trace", "again.trace"] {
            begin_in_the_shell(place, trace);
            let hash = is_done_by_the_shell(place, trace);
            assert!(content(place, trace).contains(&hash), "{trace}: the shell leaves {hash}");
        }
    }
}

/// What happened: Android binds arguments as texts, so statements of its applications compare texts
/// with numbers. Made anonymous, the texts were changed and the numbers were not: statements found
/// other rows, and what was captured of such a trace did not replay. Names in single quotes,
/// `"main"` and the words of full-text tables were replaced as well.
#[test]
fn a_recorded_application_does_the_same_when_it_is_anonymous_also_captured() {
    let place = Place::new();
    application(&place);
    let words = ["rain", "lamp", "north", "river", "등불", "größe", "nor end", "no comment"];
    is_the_same_all_the_way_round(&place, "app", &words);
}

/// Two applications as they are published (`tests/apps`), as they stand: no error at import, each
/// statement and the content as in the stock shell, and the same all the way round.
#[test]
fn published_applications_do_what_the_shell_does_all_the_way_round() {
    if !has_shell() {
        return;
    }
    for app in ["notes", "plain"] {
        let place = Place::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps").join(app);
        let (folder, loading) = (folder.display().to_string(), folder.join("loading.sql"));
        is_what_the_shell_does(&place, &folder, loading.to_str().unwrap());
        is_the_same_all_the_way_round(&place, &folder, &["rain", "lamp", "north", "river", "등불"]);
    }
}

/// What happened: a loading script that `.dump` wrote was refused where the application has a
/// full-text table: a dump writes the row of such a table into the schema itself, which no
/// statement of other people may. Most recorded applications are published with a dump.
#[test]
fn a_dump_of_the_shell_with_full_text_tables_is_a_loading_script() {
    if !has_shell() {
        return;
    }
    let place = Place::new();
    let made = "CREATE TABLE notes(_id INTEGER PRIMARY KEY, body TEXT, n INT, up TEXT GENERATED ALWAYS AS (upper(body)) STORED, CHECK(n > 0));\n\
        CREATE INDEX part ON notes(n) WHERE n > 5;\n\
        CREATE VIRTUAL TABLE \"my fts\" USING fts4(body, tokenize=porter);\n\
        CREATE VIRTUAL TABLE f5 USING fts5(body, content='notes', content_rowid='_id');\n\
        CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);\n\
        CREATE TRIGGER fill AFTER INSERT ON notes BEGIN INSERT INTO f5(rowid, body) VALUES (new._id, new.body); END;\n\
        CREATE VIEW recent AS SELECT body AS 'a;b' FROM notes WHERE n > 3;\n\
        INSERT INTO notes(body, n) VALUES ('running; dogs', 1), ('it''s -- a dog', 7), ('größe', 9);\n\
        INSERT INTO \"my fts\" VALUES ('running dogs'), ('a dog');\nINSERT INTO places VALUES (1, 0.5, 1.5);\n";
    shell(&place, "made.db", made);
    std::fs::create_dir_all(place.path("app/benchset")).unwrap();
    let dump = shell(&place, "made.db", ".dump");
    assert!(dump.contains("PRAGMA writable_schema=ON"), "{dump}");
    place.write("app/loading.sql", &dump);
    place.write(
        "app/benchset/0.sql",
        "SELECT rowid FROM \"my fts\" WHERE \"my fts\" MATCH 'run'\nINSERT INTO notes(body, n) VALUES('new dogs', '8')\n\
         SELECT rowid FROM f5 WHERE f5 MATCH 'dogs' ORDER BY rowid\nINSERT INTO \"my fts\" VALUES('a runner')\n\
         SELECT id FROM places WHERE x0 < 1\nSELECT \"a;b\" FROM recent\n",
    );
    let loading = place.path("app/loading.sql");
    is_what_the_shell_does(&place, "app", loading.to_str().unwrap());
    // While an application runs nobody writes the schema.
    place.write("script.sql", &dump);
    let import = place.fathom(&["trace", "import", "script.sql", "--out", "script.trace"]);
    import.exits(2).says("is how a dump makes a virtual table").says("load.sql");
}

/// Applications in the same form from elsewhere: `FATHOM_ANDROID_APPS` names a folder of them.
#[test]
fn recorded_applications_from_elsewhere_do_what_the_shell_does() {
    let Some(apps) = std::env::var_os("FATHOM_ANDROID_APPS") else {
        return println!("skipped: FATHOM_ANDROID_APPS names no folder of recorded applications");
    };
    for app in
        std::fs::read_dir(apps).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir())
    {
        let place = Place::new();
        println!("{}", app.display());
        let loading = app.join("loading.sql");
        is_what_the_shell_does(&place, app.to_str().unwrap(), loading.to_str().unwrap());
        is_the_same_all_the_way_round(&place, app.to_str().unwrap(), &[]);
    }
}

/// What happened: a trace, a recording of file calls, a database and a program were searched for
/// lines that look like SQL; what was found was told as bad statements, or became a trace of
/// nonsense. And the list of bad statements, which is one a line, was told in one line with `\n`.
#[test]
fn what_is_no_recording_is_told_as_what_it_is_and_bad_statements_have_a_line_each() {
    let place = Place::new();
    place.write("app.sql", "CREATE TABLE t(a);\nINSERT INTO t VALUES (1);\n");
    place.fathom(&["trace", "import", "app.sql", "--out", "app.trace"]).exits(0);
    place.write("some.calls", "fathom-file-calls 1\nfile 0 0 a\n0 0 write 0 0 4096\n");
    place.sql("some.db", "CREATE TABLE t(a)");
    place.write_bytes("program", b"\x7fELF\x02\x01\x01\0\0\0SELECT 1;\n");
    place.write_bytes("day.out.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    for (file, words) in [
        ("day.out.gz", "is compressed: unpack it first"),
        ("app.trace", "is a trace already"),
        ("some.calls", "is a recording of file calls already"),
        ("some.db", "is a database, and says nothing of what is done with it"),
        ("program", "is no text"),
    ] {
        place.fathom(&["trace", "import", file, "--out", "out.trace"]).exits(2).says(words);
        place.fathom(&["trace", "import", file, "--skip-bad", "--out", "out.trace"]).exits(2).says(words);
    }
    place.fathom(&["trace", "info", "some.calls"]).exits(2).says("work of the workload mobibench-file");
    place.write("bad.sql", "SELECT 1;\nSELEC 2;\nSELECT x FROM missing;\n");
    let import = ["trace", "import", "bad.sql", "--out", "out.trace"];
    let end = place.fathom(&import);
    end.exits(2).says("\n  bad.sql:2: ").says("\n  bad.sql:3: ");
    assert!(!place.path("out.trace").exists());
    let end = place.fathom(&[&import[..], &["--skip-bad"]].concat());
    end.exits(0).says("left out:\n  bad.sql:2: ").says("\n  bad.sql:3: ");
    assert!(!end.stderr.contains("\\n"), "{end}");
}

/// What happened: PRAGMAs of a loading script were left out without a word, so that an application
/// whose database is in WAL mode was taken to have DELETE/FULL.
#[test]
fn what_a_loading_script_sets_of_its_file_stays_and_of_its_connection_is_said() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("app/benchset")).unwrap();
    let loading = "PRAGMA synchronous=NORMAL;\nPRAGMA page_size=1024;\nPRAGMA journal_mode=WAL;\n\
                   CREATE TABLE t(a);\nINSERT INTO t VALUES ('PRAGMA journal_mode=DELETE;');\n";
    place.write("app/loading.sql", loading);
    place.write("app/benchset/0.sql", "INSERT INTO t VALUES (1)\nSELECT count(*) FROM t\n");
    let end = place.fathom(&["trace", "import", "app", "--out", "my app.trace"]);
    end.exits(0);
    assert!(end.stderr.contains("loading.sql sets synchronous:"), "{end}");
    assert!(end.stderr.contains("Next:  fathom trace info 'my app.trace'"), "{end}");
    place.fathom(&["trace", "anonymise", "my app.trace", "--out", "other.trace"]).exits(0);
    for trace in ["my app.trace", "other.trace"] {
        let info = place.fathom(&["trace", "info", trace, "--json"]);
        let info: serde_json::Value = serde_json::from_str(&info.exits(0).stdout).unwrap();
        let database = &info["databases"][0];
        assert_eq!(
            (database["page_bytes"].as_u64(), database["journal_mode"].as_str()),
            (Some(1024), Some("wal")),
            "{info}"
        );
        assert!(place.fathom(&["trace", "info", trace]).stdout.contains("page size 1024, journal mode wal"));
        // The cell chooses all the same.
        for settings in [&["journal_mode=delete", "page_size=8192"][..], &["journal_mode=wal"]] {
            let sets: Vec<&str> = settings.iter().flat_map(|set| ["--set", set]).collect();
            let words = [&["trace", "replay", trace, "--dir", "."], &sets[..]].concat();
            place.fathom(&words).exits(0);
        }
    }
}

/// What happened: of a log without values (Hibernate's, GRDB's) an import said that they are NULL,
/// and nobody who used the trace did: `advise` compared settings by an application of which no
/// statement wrote, and named one.
#[test]
fn who_uses_a_trace_without_values_is_told() {
    let place = Place::new();
    place.write(
        "app.log",
        "SQL: CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)\nSQL: INSERT INTO t(a) VALUES ('x')\n\
         SQL: INSERT INTO t(a) VALUES (?)\nSQL: UPDATE t SET a = ? WHERE id = ?\nSQL: SELECT a FROM t WHERE id = ?\n",
    );
    place.fathom(&["trace", "import", "app.log", "--out", "app.trace"]).exits(0);
    let sentence =
        "does not tell the values of 3 executions: their parameters are NULL; 2 that should change rows fail";
    let info = place.fathom(&["trace", "info", "app.trace"]);
    info.exits(0);
    assert!(info.stdout.contains(sentence), "{info}");
    place.fathom(&["trace", "replay", "app.trace", "--dir", "."]).exits(0).says(sentence);
    place.fathom(&["trace", "part", "app.trace", "--transactions", "9", "--out", "part.trace"]).exits(0);
    place.fathom(&["trace", "replay", "part.trace", "--dir", "."]).exits(0).says(sentence);
}
