//! What a capture sees and what it must not take for the application's, on C programs that call
//! each function.
//!
//! PHP opens its extensions with RTLD_DEEPBIND, which passes LD_PRELOAD by: its SQLite calls were
//! not seen, and the message blamed the program. rpm asks `sqlite3_table_column_metadata`, which
//! reads the schema by SQL of its own: that was recorded as rpm's. Incremental blobs were noted,
//! and the replay failed or came to another content.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use fathom_trace::model::{
    Action, Blob, BlobCall, Database, Event, OK, Origin, Outcome, Process, Record, Start, Thread,
};
use fathom_trace::{Reader, Writer};
use place::Place;

/// Compiles a program of `tests/programs` against the shared SQLite; none, with the reason printed,
/// where that cannot be done.
fn compiled(place: &Place, source: &str, words: &[&str]) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let made = Command::new("cc").arg(source).args(words).current_dir(place.path(".")).output();
    match made {
        Ok(output) if output.status.success() => Some(()),
        other => {
            println!("SKIP: no C compiler or no shared SQLite ({other:?}); apt-get install gcc libsqlite3-0");
            None
        }
    }
}

fn with_program(source: &str) -> Option<Place> {
    let place = Place::new();
    compiled(&place, source, &["-o", "app", "-l:libsqlite3.so.0"])?;
    Some(place)
}

fn records(file: &Path) -> Vec<Record> {
    Reader::open(file).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Replays a trace and asserts that each of these databases holds what the program's own does.
#[track_caller]
fn comes_to_the_same(place: &Place, trace: &str, databases: &[&str]) {
    let end = place.fathom(&["trace", "replay", trace, "--dir", ".", "--set", "synchronous=off"]);
    end.exits(0);
    for name in databases {
        let hash = fathom_trace::content::content_hash(&place.path(name)).unwrap();
        let line = end.stdout.lines().find(|line| line.contains(&format!("/{name} holds ")));
        assert!(line.is_some_and(|line| line.contains(&hash)), "{name} is {hash}: {end}");
    }
}

/// Texts of the executions on each connection, with the path of its database.
fn executed(records: &[Record]) -> Vec<(String, String)> {
    let (mut databases, mut texts) = (HashMap::new(), HashMap::new());
    let (mut opened, mut prepared) = (HashMap::new(), HashMap::new());
    let mut all = Vec::new();
    for record in records {
        match record {
            Record::Database(database) => {
                drop(databases.insert(database.id, String::from_utf8_lossy(&database.path).into_owned()))
            }
            Record::Statement(statement) => drop(texts.insert(statement.id, statement.sql.clone())),
            Record::Event(event) => match &event.action {
                Action::Open { database, .. } => drop(opened.insert(event.connection, *database)),
                Action::Prepare { handle, statement, .. } => {
                    prepared.insert((event.connection, *handle), *statement);
                }
                Action::Step(step) if step.begins => {
                    let path = databases[&opened[&event.connection]].clone();
                    all.push((path, texts[&prepared[&(event.connection, step.handle)]].clone()));
                }
                _ => {}
            },
            _ => {}
        }
    }
    all
}

/// Every statement of the program says `mine`. Without the guards those stand there as well that
/// read the schema for a blob and for column metadata, ask for the pages to serialize, look at a
/// table for a session, fill a virtual table's own tables, and an automatic extension's.
#[test]
fn what_sqlite_runs_inside_a_call_is_not_the_applications() {
    let Some(place) = with_program("inside.c") else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "./app"]);
    let own: usize = end.exits(0).stdout.trim().parse().unwrap();
    let executed = executed(&records(&place.path("a.trace")));
    let is_target = |path: &str| path.ends_with("/target.db");
    let strange: Vec<_> =
        executed.iter().filter(|(path, sql)| !sql.contains("/* mine */") && !is_target(path)).collect();
    assert!(strange.is_empty(), "SQLite's own: {strange:?}");
    assert_eq!(executed.iter().filter(|(_, sql)| sql.contains("/* mine */")).count(), own);
    // What a changeset does is known by its statements only, so these are kept.
    let has_sessions = place.path("target.db").exists();
    if !has_sessions {
        println!("SKIP changesets: this SQLite was built without sessions");
    }
    let applied =
        executed.iter().any(|(path, sql)| is_target(path) && sql.starts_with("INSERT INTO main.'t'"));
    let applied = applied || executed.iter().any(|(path, sql)| is_target(path) && !sql.contains("mine"));
    assert_eq!(applied, has_sessions, "{executed:?}");
    let mut databases = vec!["inside.db"];
    databases.extend(if has_sessions { &["other.db", "target.db"][..] } else { &[] });
    comes_to_the_same(&place, "a.trace", &databases);
}

#[test]
fn a_library_that_is_opened_with_deepbind_is_captured_and_one_in_a_name_space_of_its_own_is_named() {
    let place = Place::new();
    let made = compiled(
        &place,
        "deepbind.c",
        &["-shared", "-fPIC", "-DLIBRARY", "-o", "libdeep.so", "-l:libsqlite3.so.0"],
    )
    .and_then(|()| compiled(&place, "deepbind.c", &["-o", "app", "-ldl"]));
    if made.is_none() {
        return;
    }
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "./app"]).exits(0);
    let records = records(&place.path("a.trace"));
    assert_eq!(executed(&records).len(), 2, "{records:?}");
    comes_to_the_same(&place, "a.trace", &["deep.db"]);
    std::fs::remove_file(place.path("deep.db")).unwrap();
    place
        .fathom(&["trace", "capture", "--out", "b.trace", "--", "./app", "apart"])
        .exits(1)
        .says("libdeep.so was opened in a name space of its own (dlmopen)");
    assert!(!place.files().contains(&"b.trace".to_owned()));
}

/// A shell script that starts a program with an SQLite of its own: the message names that program's
/// file and not the shell.
#[test]
fn an_sqlite_inside_a_program_that_a_script_starts_is_found() {
    let place = Place::new();
    let own = env!("CARGO_BIN_EXE_fathom");
    place.write("start.sh", &format!("{own} --version\n"));
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "sh", "start.sh"]);
    end.exits(1).says(&format!("{own} has an SQLite of its own inside")).says("FATHOM_TRACE_EXTENSION");
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "sh", "-c", "true"]);
    end.exits(1).says("called no shared libsqlite3.so");
}

/// What happened: a program that went on with a statement after `sqlite3_close_v2` crashed within
/// the capture library, which asked the connection that it had forgotten. Such a connection is now
/// closed in the trace where SQLite closes it: when its last statement or blob ends.
#[test]
fn statements_that_outlive_their_connections_close_are_captured() {
    let Some(place) = with_program("zombie.c") else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "./app"]);
    let codes = "0 0 5 0 0 101 0 0 101 0 0 101 0 100 100 100 100 0 100 0 0 0 0 0 0 0 \n";
    assert_eq!(end.exits(0).stdout, codes, "what SQLite says is what the program sees");
    let records = records(&place.path("a.trace"));
    let mut ends = Vec::new();
    for record in &records {
        if let Record::Event(Event { connection, action, .. }) = record {
            match action {
                Action::Close { outcome } => ends.push((*connection, "close", outcome.code)),
                Action::Finalize { .. } => ends.push((*connection, "finalize", 0)),
                Action::Blob(Blob { call: BlobCall::Close, .. }) => ends.push((*connection, "blob", 0)),
                _ => {}
            }
        }
    }
    let of = |connection: u32| -> Vec<(&'static str, i32)> {
        let ours = ends.iter().filter(|(of, ..)| *of == connection);
        ours.map(|(_, end, code)| (*end, *code)).collect()
    };
    let finalized = ("finalize", 0);
    let first = [finalized, finalized, ("close", 5), finalized, finalized, ("close", 0)];
    assert_eq!(of(0), first);
    assert_eq!(of(1), [("blob", 0), ("close", 0)]);
    assert_eq!(of(2), [finalized, ("close", 0)]);
    comes_to_the_same(&place, "a.trace", &["zombie.db"]);
}

#[test]
fn incremental_blobs_are_captured_counted_made_anonymous_and_replayed() {
    let Some(place) = with_program("blobs.c") else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "./app"]);
    let codes = "0 0 0 1 1 1 0 0 0 1 4 0 \n0 0 0 0 0 0 0 0 0 0 \n0 8 8 1 1 1 0 0 4 0 \n0 0 0 0 0 5 0 0 \n";
    assert_eq!(end.exits(0).stdout, codes, "what SQLite says is what the program sees");
    comes_to_the_same(&place, "a.trace", &["blobs.db"]);
    let json = place.fathom(&["trace", "info", "a.trace", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    // Opened: rows 3 and 4 (reopened), 5, 6, 7 for reading, 8, 1 and 2.
    let counted = serde_json::json!([8, 7, 1, 64, 7, 9 + 9 + 9 + 16 + 10 + 6 + 5]);
    let blobs = &info["blobs"];
    let names = ["opened", "opened_for_writing", "reads", "read_bytes", "writes", "written_bytes"];
    assert_eq!(serde_json::Value::from(names.map(|name| blobs[name].clone()).to_vec()), counted, "{blobs}");
    assert!(place.fathom(&["trace", "info", "a.trace"]).stdout.contains("incremental blobs: 8 opened"));

    place.fathom(&["trace", "anonymise", "a.trace", "--out", "b.trace", "--seed", "3"]).exits(0);
    let end = place.fathom(&["trace", "replay", "b.trace", "--dir", ".", "--set", "synchronous=off"]);
    assert!(end.exits(0).stdout.contains("calls on incremental blobs came to what was captured"), "{end}");
    let written = |file: &str| -> Vec<Vec<u8>> {
        let data = |record| match record {
            Record::Event(Event {
                action: Action::Blob(Blob { call: BlobCall::Write { data, .. }, .. }),
                ..
            }) => Some(data),
            _ => None,
        };
        records(&place.path(file)).into_iter().filter_map(data).collect()
    };
    let (before, after) = (written("a.trace"), written("b.trace"));
    assert_eq!(before.len(), 12);
    assert!(before.contains(&b"Kunigunde".to_vec()));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.len(), after.len());
        assert!(before.len() < 5 || before != after, "{before:?} stands there still");
    }

    // And again, of the replay itself.
    let system = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
    if !Path::new(system).exists() {
        return println!("SKIP the second capture: there is no {system}; apt-get install libsqlite3-0");
    }
    let library = format!("library={system}");
    let replay = ["trace", "replay", "a.trace", "--dir", ".", "--set", &library];
    let again = ["trace", "capture", "--out", "c.trace", "--", env!("CARGO_BIN_EXE_fathom")];
    place.fathom(&[&again[..], &replay[..]].concat()).exits(0);
    assert_eq!(written("c.trace"), before);
}

/// A trace is other people's data: SQLite keeps SQL from writing the schema and the tables of a
/// virtual table (DEFENSIVE), but not blobs.
#[test]
fn a_replay_writes_no_blob_into_the_schema_or_a_virtual_tables_own_tables() {
    let place = Place::new();
    place.sql(
        "start.db",
        "CREATE TABLE plain(id INTEGER PRIMARY KEY, body BLOB); INSERT INTO plain VALUES (1, zeroblob(9));
         CREATE VIRTUAL TABLE f USING fts5(words); INSERT INTO f VALUES ('some')",
    );
    let image = place.read("start.db");
    let made = |table: &str, column: &str| {
        let _ = std::fs::remove_file(place.path("a.trace"));
        let mut writer = Writer::create(&place.path("a.trace")).unwrap();
        let mut write = |record| writer.write(&record).unwrap();
        write(Record::Origin(Origin { how: "capture".into(), ..Origin::default() }));
        write(Record::Process(Process {
            id: 0,
            pid: 1,
            parent: None,
            program: String::new(),
            sqlite: String::new(),
        }));
        write(Record::Thread(Thread { id: 0, process: 0, tid: 1 }));
        let start = Start::Image { bytes: image.len() as u64 };
        write(Record::Database(Database { id: 0, path: b"start.db".to_vec(), start }));
        let bytes = image.clone();
        write(Record::Content(fathom_trace::model::Content { database: 0, offset: 0, bytes }));
        let mut event = |action| {
            write(Record::Event(Event { thread: 0, connection: 0, start_ns: 1, duration_ns: 1, action }))
        };
        event(Action::Open { database: 0, flags: 6, vfs: String::new(), outcome: Outcome::of(OK) });
        let blob =
            |call| Action::Blob(Blob { blob: 0, call, in_transaction: false, outcome: Outcome::of(OK) });
        let (schema, table, column) = ("main".to_owned(), table.to_owned(), column.to_owned());
        event(blob(BlobCall::Open { schema, table, column, row: 1, writes: true, bytes: 9 }));
        event(blob(BlobCall::Write { offset: 0, data: b"x".to_vec() }));
        event(blob(BlobCall::Close));
        event(Action::Close { outcome: Outcome::of(OK) });
        writer.finish().unwrap();
    };
    for (table, column) in
        [("sqlite_master", "sql"), ("SQLITE_SCHEMA", "sql"), ("f_data", "block"), ("f_content", "c0")]
    {
        made(table, column);
        place
            .fathom(&["trace", "replay", "a.trace", "--dir", "."])
            .exits(1)
            .says("does not change the schema or a virtual table's own tables");
    }
    made("plain", "body");
    place.fathom(&["trace", "replay", "a.trace", "--dir", "."]).exits(0);
    made("plain", "missing");
    place.fathom(&["trace", "replay", "a.trace", "--dir", "."]).exits(1).says("no such column: \"missing\"");
}

/// FTS5 asks for its configuration and the data version while a statement on it is prepared. With
/// the library that is inside a call; the loadable extension is told of it as of any statement.
#[test]
fn what_a_virtual_table_asks_for_while_a_statement_is_prepared_is_left_out_by_the_extension_too() {
    let place = Place::new();
    place.fathom(&["trace", "extension", "libfathomtrace.so"]).exits(0);
    place.sql("app.db", "CREATE TABLE t(a); CREATE VIRTUAL TABLE f USING fts5(words)");
    std::fs::create_dir(place.path("spool")).unwrap();
    let own = [
        "INSERT INTO t VALUES (replace('a.b', '.', ''))",
        "INSERT INTO f VALUES ('some words')",
        "SELECT 'main'.t.a FROM 'main'.t",
        "SELECT * FROM f",
    ];
    let run = Command::new("sqlite3")
        .args([":memory:", ".load ./libfathomtrace.so", ".open app.db"])
        .args(own)
        .env("FATHOM_TRACE_SPOOL", place.path("spool"))
        .current_dir(place.path("."))
        .output();
    match run {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "ab\nsome words\n", "{output:?}"),
        Err(error) => return println!("SKIP: no sqlite3 shell ({error}); apt-get install sqlite3"),
    }
    place.fathom(&["trace", "import", "spool", "--out", "a.trace"]).exits(0);
    let executed = executed(&records(&place.path("a.trace")));
    let texts: Vec<&str> = executed.iter().map(|(_, sql)| sql.as_str()).collect();
    assert_eq!(texts, own);
}

/// What happened: SQLite tells the extension of a close that is refused (a statement was not ended)
/// as of one that is done. It freed what it knew of the connection, and the next close crashed the
/// program. What is done between, and after `sqlite3_close_v2`, is recorded now.
#[test]
fn the_extension_outlives_a_close_that_is_refused() {
    let Some(place) = with_program("zombie.c") else { return };
    place.fathom(&["trace", "extension", "libfathomtrace.so"]).exits(0);
    std::fs::create_dir(place.path("spool")).unwrap();
    let run = Command::new(place.path("app"))
        .arg("./libfathomtrace.so")
        .env("FATHOM_TRACE_SPOOL", place.path("spool"))
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    place.fathom(&["trace", "import", "spool", "--out", "a.trace"]).exits(0);
    let records = records(&place.path("a.trace"));
    let executed = executed(&records);
    assert_eq!(executed.len(), 7, "{executed:?}");
    let closes: Vec<i32> = records
        .iter()
        .filter_map(|record| match record {
            Record::Event(Event { action: Action::Close { outcome }, .. }) => Some(outcome.code),
            _ => None,
        })
        .collect();
    assert_eq!(closes, [OK, OK, OK]);
}

/// Capture finds a shared cache that no flag of an open asked for, and only that.
#[test]
fn connections_that_share_a_cache_are_found_and_come_to_the_same_one_after_the_other() {
    let Some(place) = with_program("cache.c") else { return };
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "./app"]).exits(0);
    let flags: Vec<bool> = records(&place.path("a.trace"))
        .iter()
        .filter_map(|record| match record {
            Record::Event(Event { action: Action::Open { flags, .. }, .. }) => Some(flags & 0x2_0000 != 0),
            _ => None,
        })
        .collect();
    assert_eq!(flags, [false, true, false], "the second one shares the first one's");
    comes_to_the_same(&place, "a.trace", &["a.db"]);
}
