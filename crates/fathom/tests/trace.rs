//! `fathom trace` as a user calls it: real programs captured in all their processes, killed,
//! forked; what cannot be captured.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::collections::HashMap;
use std::path::Path;

use fathom_trace::Reader;
use fathom_trace::model::{Action, Event, Record, Start, Step, UNFINISHED, Value};
use place::Place;

/// A directory with a Python program in it; none, with the reason printed, where Python's SQLite is
/// not the shared library.
fn with_python(program: &str) -> Option<Place> {
    let place = Place::new();
    place.write("app.py", program);
    let probe = "import sqlite3, _sqlite3; c = sqlite3.connect(':memory:'); print('libsqlite3' in open('/proc/self/maps').read())";
    match std::process::Command::new("python3").args(["-c", probe]).output() {
        Ok(output) if output.stdout == b"True\n" => Some(place),
        other => {
            println!("skipped: no python3 with the shared libsqlite3 ({other:?}); apt-get install python3");
            None
        }
    }
}

fn records(file: &Path) -> Vec<Record> {
    Reader::open(file).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Executions: connection, SQL, step.
fn steps(records: &[Record]) -> Vec<(u32, String, Step)> {
    let (mut texts, mut prepared, mut steps) = (HashMap::new(), HashMap::new(), Vec::new());
    for record in records {
        match record {
            Record::Statement(statement) => {
                texts.insert(statement.id, statement.sql.clone());
            }
            Record::Event(event) => match &event.action {
                Action::Prepare { handle, statement, .. } => {
                    prepared.insert((event.connection, *handle), texts[statement].trim_start().to_owned());
                }
                Action::Step(step) => {
                    steps.push((
                        event.connection,
                        prepared[&(event.connection, step.handle)].clone(),
                        step.clone(),
                    ));
                }
                _ => {}
            },
            _ => {}
        }
    }
    steps
}

fn begun(records: &[Record], verb: &str) -> usize {
    steps(records).iter().filter(|(_, sql, step)| step.begins && sql.starts_with(verb)).count()
}

#[test]
fn a_programs_calls_are_kept_with_values_rows_changes_errors_and_transactions() {
    let program = "
import sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('PRAGMA journal_mode=WAL')
c.execute('CREATE TABLE t(id INTEGER PRIMARY KEY, a)')
c.execute('BEGIN')
for value in (None, 7, -2.5, 'größe', b'\\x00\\x01'):
    c.execute('INSERT INTO t(a) VALUES (?)', (value,))
c.execute('COMMIT')
print(len(c.execute('SELECT * FROM t').fetchall()))
c.execute('UPDATE t SET a = 1 WHERE id > ?', (2,))
try: c.execute('INSERT INTO t(id) VALUES (1)')
except sqlite3.IntegrityError as error: print(error)
try: c.execute('SELECT * FROM missing')
except sqlite3.OperationalError as error: print(error)
c.executescript('CREATE TABLE u(a); INSERT INTO u VALUES (1); SELECT * FROM t')
c.close()
";
    let Some(place) = with_python(program) else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]);
    assert_eq!(end.exits(0).stdout, "5\nUNIQUE constraint failed: t.id\nno such table: missing\n");
    assert_eq!(place.files(), ["a.trace", "app.db", "app.py"], "no spool is left");
    let records = records(&place.path("a.trace"));
    let steps = steps(&records);
    let of = |start: &str| -> Vec<&Step> {
        steps.iter().filter(|(_, sql, _)| sql.starts_with(start)).map(|(.., step)| step).collect()
    };
    assert_eq!(of("SELECT * FROM t").iter().map(|step| step.rows).sum::<u64>(), 10);
    let inserts = of("INSERT INTO t(a)");
    assert_eq!(inserts.len(), 5);
    assert!(inserts.iter().all(|step| step.changes == 1 && step.in_transaction && step.outcome.code == 101));
    assert!(!of("COMMIT")[0].in_transaction);
    assert_eq!(of("UPDATE")[0].changes, 3);
    let failed = of("INSERT INTO t(id)")[0];
    assert_eq!(
        (failed.outcome.code, failed.outcome.message.as_str()),
        (1555, "UNIQUE constraint failed: t.id")
    );
    assert_eq!((of("CREATE TABLE u").len(), of("INSERT INTO u").len()), (1, 1));
    let bound: Vec<&Value> = records
        .iter()
        .filter_map(|record| match record {
            Record::Event(event) => match &event.action {
                Action::Bind { value, .. } => Some(value),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let text = Value::Text("größe".into());
    let blob = Value::Blob(vec![0, 1]);
    assert_eq!(
        bound,
        [&Value::Null, &Value::Integer(7), &Value::Real(-2.5), &text, &blob, &Value::Integer(2)]
    );
    let refused = records.iter().find_map(|record| match record {
        Record::Event(event) => match &event.action {
            Action::Prepare { outcome, .. } if outcome.is_error() => Some(outcome.clone()),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(refused.unwrap().message, "no such table: missing");
    assert!(
        records
            .iter()
            .any(|record| matches!(record, Record::Database(database) if database.start == Start::Empty))
    );
    place.fathom(&["trace", "info", "a.trace"]).exits(0);
    let json = place.fathom(&["trace", "info", "a.trace", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    assert_eq!(info["statements"]["insert"]["executions"], 7);
    assert_eq!(info["errors"][0]["code"], 1);
}

#[test]
fn nothing_is_lost_when_the_program_kills_itself() {
    let program = "
import os, sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('CREATE TABLE t(a)')
for i in range(500): c.execute('INSERT INTO t VALUES (?)', (i,))
c.execute('BEGIN')
for i in range(3): c.execute('INSERT INTO t VALUES (?)', (i,))
rows = c.execute('SELECT * FROM t')
next(rows); next(rows)
os.kill(os.getpid(), 9)
";
    let Some(place) = with_python(program) else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]);
    end.exits(1).says("signal: 9").says("the trace holds what it did until then");
    let records = records(&place.path("a.trace"));
    assert_eq!(begun(&records, "INSERT"), 503);
    assert_eq!(begun(&records, "SELECT"), 1);
    assert_eq!(place.rows("app.db", "SELECT count(*) FROM t"), "500");
    let exits: Vec<bool> = records
        .iter()
        .filter_map(|record| match record {
            Record::Exit(exit) => Some(exit.clean),
            _ => None,
        })
        .collect();
    assert_eq!(exits, [false]);
}

/// Whenever the kill comes, every row that is in the database has its INSERT in the trace, and at
/// most one more, which was not finished, is there.
#[test]
fn nothing_is_lost_when_the_program_is_killed_from_outside() {
    let program = "
import sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('PRAGMA journal_mode=WAL')
c.execute('CREATE TABLE t(a)')
for i in range(10_000_000):
    if i == 11: print('ready', flush=True)
    c.execute('INSERT INTO t VALUES (?)', (i,))
";
    let Some(place) = with_python(program) else { return };
    let mut unfinished = 0;
    for delay in ["0.05", "0.11", "0.17", "0.23"] {
        let script = format!("python3 app.py | {{ read x; sleep {delay}; pkill -9 -P $$ python3; }}");
        place.fathom(&["trace", "capture", "--out", "a.trace", "--", "bash", "-c", &script]);
        let rows: usize = place.rows("app.db", "SELECT count(*) FROM t").parse().unwrap();
        let records = records(&place.path("a.trace"));
        let inserts = begun(&records, "INSERT");
        assert!(rows > 10 && inserts >= rows && inserts <= rows + 1, "{rows} rows, {inserts} inserts");
        unfinished += steps(&records).iter().filter(|(.., step)| step.outcome.code == UNFINISHED).count();
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(place.path(&format!("app.db{end}")));
        }
        std::fs::remove_file(place.path("a.trace")).unwrap();
    }
    println!("{unfinished} of 4 kills came within a call");
}

#[test]
fn every_process_and_thread_is_captured_through_fork_and_exec() {
    let program = "
import os, sqlite3, sys, threading
def work(name, rows):
    c = sqlite3.connect('app.db', isolation_level=None, timeout=60)
    for i in range(rows): c.execute(f'INSERT INTO t VALUES (?, {name!r})', (i,))
    c.close()
if len(sys.argv) > 1:
    work('exec', 7)
    sys.exit()
c = sqlite3.connect('app.db', isolation_level=None, timeout=60)
c.execute('CREATE TABLE t(a, b)')
threads = [threading.Thread(target=work, args=(f'thread{i}', 20)) for i in range(3)]
for t in threads: t.start()
for t in threads: t.join()
children = []
for n in range(2):
    pid = os.fork()
    if pid == 0:
        work(f'fork{n}', 11)
        os._exit(0)
    children.append(pid)
pid = os.fork()
if pid == 0: os.execvp(sys.executable, [sys.executable, 'app.py', 'again'])
children.append(pid)
for pid in children: os.waitpid(pid, 0)
work('parent', 5)
";
    let Some(place) = with_python(program) else { return };
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]);
    end.exits(0);
    let records = records(&place.path("a.trace"));
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (_, sql, step) in steps(&records) {
        if let Some(name) = sql.split('\'').nth(1).filter(|_| step.begins) {
            *by_name.entry(name.to_owned()).or_default() += 1;
        }
    }
    let expected = [
        ("thread0", 20),
        ("thread1", 20),
        ("thread2", 20),
        ("fork0", 11),
        ("fork1", 11),
        ("exec", 7),
        ("parent", 5),
    ];
    assert_eq!(by_name, expected.map(|(name, count)| (name.to_owned(), count)).into());
    let count = |is: fn(&Record) -> bool| records.iter().filter(|record| is(record)).count();
    assert_eq!(count(|record| matches!(record, Record::Process(_))), 4);
    assert_eq!(count(|record| matches!(record, Record::Process(process) if process.parent.is_some())), 2);
    assert_eq!(count(|record| matches!(record, Record::Thread(_))), 4 + 2 + 1);
    assert_eq!(
        count(|record| matches!(record, Record::Database(_))),
        1,
        "one file is one database in all processes"
    );
    // The order of the file is the order in which calls returned.
    assert_eq!(place.rows("app.db", "SELECT count(*) FROM t"), "94");
}

/// What happened: a child that ends in order lets go the locks of its parent's connection and
/// closes it, in its own memory. The trace "could not be written: damaged", for the child did not
/// know the database by its number.
#[test]
fn a_child_that_ends_in_order_takes_nothing_of_its_parent_with_it() {
    let program = "
import os, sqlite3, sys
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('CREATE TABLE t(a)')
for i in range(10): c.execute('INSERT INTO t VALUES (?)', (i,))
rows = c.execute('SELECT a FROM t')
for i in range(5): rows.fetchone()
pid = os.fork()
if pid == 0: sys.exit()
os.waitpid(pid, 0)
assert len(rows.fetchall()) == 5
c.execute('INSERT INTO t VALUES (99)')
";
    let Some(place) = with_python(program) else { return };
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]).exits(0);
    let records = records(&place.path("a.trace"));
    let all = steps(&records);
    let read: u64 = all.iter().filter(|(_, sql, _)| sql.starts_with("SELECT")).map(|of| of.2.rows).sum();
    assert_eq!(read, 10, "each row once");
    let is_close =
        |record: &&Record| matches!(record, Record::Event(Event { action: Action::Close { .. }, .. }));
    assert!(records.iter().filter(is_close).count() <= 1, "the child closes nothing");
    place.fathom(&["trace", "replay", "--dir", ".", "a.trace"]).exits(0);
}

#[test]
fn what_a_database_held_is_kept_also_what_stands_in_its_wal() {
    let program = "
import sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('INSERT INTO t VALUES (2)')
c.execute(\"ATTACH 'other.db' AS o\")
c.execute('INSERT INTO o.u VALUES (3)')
";
    let Some(place) = with_python(program) else { return };
    let open = rusqlite::Connection::open(place.path("app.db")).unwrap();
    open.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    place.sql("other.db", "CREATE TABLE u(a); INSERT INTO u VALUES (9)");
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]).exits(0);
    let mut images: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut attached = 0;
    for record in records(&place.path("a.trace")) {
        match record {
            Record::Content(content) => images.entry(content.database).or_default().extend(content.bytes),
            Record::Event(event) => attached += usize::from(matches!(event.action, Action::Attach { .. })),
            _ => {}
        }
    }
    assert_eq!((images.len(), attached), (2, 1));
    for (number, query, expected) in
        [(0, "SELECT group_concat(a) FROM t", "1"), (1, "SELECT group_concat(a) FROM u", "9")]
    {
        place.write_bytes("image.db", &images[&number]);
        assert_eq!(place.rows("image.db", query), expected);
    }
}

#[test]
fn an_encrypted_database_is_named_and_its_key_is_not_kept() {
    let program = "
import sqlite3
c = sqlite3.connect('secret.db', isolation_level=None)
c.execute(\"PRAGMA key = 'open sesame'\")
try: c.execute('SELECT * FROM sqlite_master')
except sqlite3.DatabaseError as error: print(error)
";
    let Some(place) = with_python(program) else { return };
    place.write_bytes("secret.db", &[0xa7; 8192]);
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]);
    end.exits(0)
        .says("secret.db: what it held at the start is not known")
        .says("it is encrypted, or no database");
    let info = place.fathom(&["trace", "info", "a.trace"]);
    assert!(info.stdout.contains("encryption PRAGMA key"), "{info}");
    assert!(info.stdout.contains("error 26"), "{info}");
    assert!(!info.stdout.contains("sesame"), "{info}");
    let text = format!("{:?}", records(&place.path("a.trace")));
    assert!(!text.contains("sesame") && text.contains("left out"), "the key is not in the trace");
}

#[test]
fn a_program_without_shared_sqlite_is_told_why_nothing_was_seen() {
    let place = Place::new();
    let own = env!("CARGO_BIN_EXE_fathom");
    for (program, words) in
        [("true", "called no shared libsqlite3.so"), (own, "has an SQLite of its own inside")]
    {
        let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", program, "--version"]);
        end.exits(1).says("no call of SQLite was seen").says(words).says("FATHOM_TRACE_EXTENSION");
        assert_eq!(place.files(), [""; 0], "nothing is written");
    }
    place
        .fathom(&["trace", "capture", "--out", "a.trace", "--", "no-such-program"])
        .exits(2)
        .says("no-such-program: No such file");
    place
        .fathom(&["trace", "capture", "--out", "no/a.trace", "--", "true"])
        .exits(2)
        .says("there is no directory no");
}

#[test]
fn the_extension_captures_an_sqlite_that_no_library_can_stand_before() {
    let place = Place::new();
    place.fathom(&["trace", "extension", "libfathomtrace.so"]).exits(0);
    std::fs::create_dir(place.path("spool")).unwrap();
    let script = ".load ./libfathomtrace.so\nCREATE TABLE t(a, b);\nINSERT INTO t VALUES (1, 'x'), (2, 'y');\n\
                  .param init\n.param set @a \"'it''s'\"\nINSERT INTO t VALUES (@a, -1.5);\nSELECT a FROM t;\n";
    place.write("script", script);
    let run = std::process::Command::new("sqlite3")
        .arg(place.path("app.db"))
        .stdin(std::fs::File::open(place.path("script")).unwrap())
        .env("FATHOM_TRACE_SPOOL", place.path("spool"))
        .current_dir(place.path("."))
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) => return println!("skipped: no sqlite3 shell ({error}); apt-get install sqlite3"),
    };
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)),
        ("1\n2\nit's\n".into(), "".into())
    );
    place.fathom(&["trace", "import", "spool", "--out", "a.trace"]).exits(0);
    let records = records(&place.path("a.trace"));
    let steps = steps(&records);
    let of = |start: &str| {
        steps.iter().filter(|(_, sql, _)| sql.starts_with(start)).map(|(.., step)| step).collect::<Vec<_>>()
    };
    assert_eq!(of("INSERT INTO t VALUES (1")[0].changes, 2);
    assert_eq!(of("SELECT a")[0].rows, 3);
    let bound = records.iter().any(|record| {
        matches!(record, Record::Event(event)
            if matches!(&event.action, Action::Bind { index: 1, value: Value::Text(text), .. } if text == b"it's"))
    });
    assert!(bound, "the value of @a is kept");
}

#[test]
fn an_anonymous_trace_has_the_same_numbers_and_none_of_the_texts() {
    let program = "
import sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
for name in ('Zacharias', 'Brunhilde', 'Brunhild'): c.execute('INSERT INTO people VALUES (?, ?)', (name, name.encode() * 5))
print(c.execute(\"SELECT count(*) FROM people WHERE name LIKE 'Brunh%'\").fetchall())
";
    let Some(place) = with_python(program) else { return };
    place.sql(
        "app.db",
        "CREATE TABLE people(name TEXT PRIMARY KEY, photo); INSERT INTO people VALUES ('Kunigunde', x'')",
    );
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]).exits(0);
    place.fathom(&["trace", "anonymise", "a.trace", "--out", "b.trace", "--seed", "5"]).exits(0);
    place.fathom(&["trace", "anonymise", "a.trace", "--out", "a.trace"]).exits(2).says("is the input itself");
    let numbers = |file: &str| {
        let json = place.fathom(&["trace", "info", file, "--json"]);
        let mut info: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
        for key in ["what", "anonymised", "databases"] {
            info.as_object_mut().unwrap().remove(key);
        }
        info
    };
    assert_eq!(numbers("a.trace"), numbers("b.trace"));
    let text = |file: &str| -> String {
        let shown = |record: Record| match record {
            Record::Content(content) => String::from_utf8_lossy(&content.bytes).into_owned(),
            Record::Event(Event {
                action: Action::Bind { value: Value::Text(text) | Value::Blob(text), .. },
                ..
            }) => String::from_utf8_lossy(&text).into_owned(),
            other => format!("{other:?}"),
        };
        records(&place.path(file)).into_iter().map(shown).collect()
    };
    let (before, after) = (text("a.trace"), text("b.trace"));
    for word in ["Kunigunde", "Brunh", "Zacharias", "app.py", "python"] {
        assert!(before.contains(word) && !after.contains(word), "{word}");
    }
    place.write_bytes("torn.trace", &place.read("a.trace")[..500]);
    place
        .fathom(&["trace", "anonymise", "torn.trace", "--out", "c.trace"])
        .exits(1)
        .says("torn.trace: torn at byte");
    assert!(!place.files().contains(&"c.trace".to_owned()));
}

/// Capture → anonymise → replay: the same work each time.
#[test]
fn a_trace_survives_being_captured_made_anonymous_and_replayed() {
    let program = "
import sqlite3
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('PRAGMA journal_mode=WAL')
c.execute('CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT, owner TEXT REFERENCES people)')
for round in range(20):
    c.execute('BEGIN')
    for i in range(5): c.execute('INSERT INTO notes(body, owner) VALUES (?, ?)', (f'note number {round} {i}', 'Kunigunde'))
    c.execute('COMMIT' if round % 4 else 'ROLLBACK')
c.execute('UPDATE notes SET body = upper(body) WHERE id % 3 = 0')
c.execute(\"DELETE FROM notes WHERE body LIKE 'note number 1%'\")
print(len(c.execute('SELECT * FROM notes JOIN people ON name = owner ORDER BY body').fetchall()))
try: c.execute(\"INSERT INTO people VALUES ('Kunigunde')\")
except sqlite3.IntegrityError: pass
";
    let Some(place) = with_python(program) else { return };
    place.sql(
        "app.db",
        "CREATE TABLE people(name TEXT PRIMARY KEY); INSERT INTO people VALUES ('Kunigunde'), ('Brunhilde')",
    );
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]).exits(0);
    place.fathom(&["trace", "anonymise", "a.trace", "--out", "b.trace", "--seed", "5"]).exits(0);
    let counts = |file: &str| -> Vec<(String, u64, u64, i32)> {
        let steps =
            steps(&records(&place.path(file))).into_iter().filter(|(_, sql, _)| !sql.starts_with("PRAGMA"));
        let verb = |sql: String| sql.split_whitespace().next().unwrap_or_default().to_owned();
        steps.map(|(_, sql, step)| (verb(sql), step.rows, step.changes, step.outcome.code)).collect()
    };
    assert_eq!(counts("a.trace"), counts("b.trace"));
    for file in ["a.trace", "b.trace"] {
        let end = place.fathom(&["trace", "replay", file, "--dir", ".", "--set", "journal_mode=delete"]);
        assert!(
            end.exits(0).stdout.contains("executions returned and changed the rows that were captured"),
            "{end}"
        );
    }
    assert!(place.files().iter().all(|name| !name.starts_with(".fathom")), "{:?}", place.files());
    place.fathom(&["trace", "replay", "a.trace", "--dir", ".", "--timing", "x2"]).exits(0).says("lateness");
    place
        .fathom(&["trace", "replay", "a.trace", "--dir", ".", "--timing", "fast"])
        .exits(2)
        .says("xN such as x10");
    // Of two values of one setting the first was passed over without a word.
    let twice = ["trace", "replay", "a.trace", "--dir", ".", "--set", "journal_mode=wal", "--set"];
    place.fathom(&[&twice[..], &["engine.journal_mode=delete"]].concat()).exits(2).says("is set twice");
    place
        .fathom(&["trace", "replay", "a.trace", "--dir", ".", "--set", "journal_mod=wal"])
        .exits(2)
        .says("journal_mode");
    place
        .fathom(&["trace", "replay", "a.trace", "--dir", "missing"])
        .exits(2)
        .says("error: missing: No such file");
    let missing = place.fathom(&["trace", "replay", "a.trace", "--dir", "missing"]);
    assert!(!missing.stderr.contains(".fathom-replay"), "names what was asked for only: {}", missing.stderr);
    let experiment = format!(
        "name = \"mine\"\ntitle = \"Mine\"\nrepeats = 2\n[workload]\nname = \"trace\"\nfile = \"{}\"\n[engine]\nname = \"sqlite\"\n[stack]\nfilesystem = \"dir\"\n[matrix]\n\"engine.journal_mode\" = [\"delete\", \"wal\"]\n",
        place.path("b.trace").display()
    );
    place.write("mine.toml", &experiment);
    place.fathom(&["run", "mine.toml", "--out", "mine.db", "--quiet"]).exits(0);
}

#[test]
fn the_example_traces_can_be_replayed_as_they_are_and_anonymous() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "trace") {
            continue;
        }
        seen += 1;
        let place = Place::new();
        let trace = path.to_str().unwrap();
        place.fathom(&["trace", "anonymise", trace, "--out", "public.trace", "--seed", "1"]).exits(0);
        for file in [trace, "public.trace"] {
            let end = place.fathom(&["trace", "replay", file, "--dir", ".", "--set", "synchronous=off"]);
            assert!(
                end.exits(0).stdout.contains("returned and changed the rows that were captured"),
                "{end}"
            );
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn damaged_traces_are_refused_with_their_place() {
    let place = Place::new();
    place.write("a.sql", "CREATE TABLE t(a); INSERT INTO t VALUES (1);");
    place.fathom(&["trace", "import", "a.sql", "--out", "a.trace"]).exits(0);
    let whole = place.read("a.trace");
    // Torn before its first event, it has nothing to tell.
    place.write_bytes("early.trace", &whole[..40]);
    let early = place.fathom(&["trace", "info", "early.trace"]);
    early.exits(1).says("early.trace: torn at byte");
    assert_eq!(early.stdout, "");
    place.write_bytes("torn.trace", &whole[..whole.len() - 5]);
    let end = place.fathom(&["trace", "info", "torn.trace"]);
    end.exits(1).says("torn.trace: torn at byte").says("everything before is readable");
    assert!(end.stdout.contains("2 executions"), "what is readable is counted: {end}");
    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    place.write_bytes("damaged.trace", &damaged);
    place.fathom(&["trace", "info", "damaged.trace"]).exits(1).says("damaged.trace: corrupt at byte 16");
    place.write_bytes("text.trace", b"no trace at all");
    place
        .fathom(&["trace", "info", "text.trace"])
        .exits(2)
        .says("not a Fathom trace")
        .says("fathom trace import");
    place.fathom(&["trace", "info", "missing.trace"]).exits(2).says("missing.trace: No such file");
    place
        .fathom(&["trace", "import", "missing.sql", "--out", "b.trace"])
        .exits(2)
        .says("missing.sql: No such file");
    place.write("shell.sql", ".mode csv\n");
    place
        .fathom(&["trace", "import", "shell.sql", "--out", "b.trace"])
        .exits(2)
        .says("shell.sql:1")
        .says("remove the line");
    assert!(!place.files().contains(&"b.trace".to_owned()), "{:?}", place.files());
}

#[test]
fn a_trace_is_made_up_looked_at_and_replayed() {
    let place = Place::new();
    let make = |seed: &str, out: &str| {
        place.fathom(&["trace", "synthesise", "kakaotalk", "--seed", seed, "--scale", "5", "-o", out])
    };
    make("7", "a.trace").exits(0).says("never published").says("fathom trace info a.trace");
    make("7", "b.trace").exits(0);
    make("8", "c.trace").exits(0);
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("a.trace") == bytes("b.trace") && bytes("a.trace") != bytes("c.trace"));
    let info = place.fathom(&["trace", "info", "a.trace"]);
    assert!(info.exits(0).stdout.contains("note: made up from published descriptions"), "{info}");
    let json: serde_json::Value =
        serde_json::from_str(&place.fathom(&["trace", "info", "a.trace", "--json"]).exits(0).stdout).unwrap();
    assert!(json["note"].as_str().unwrap().contains("stands in"), "{json}");
    let replay =
        place.fathom(&["trace", "replay", "a.trace", "--dir", ".", "--set", "synchronous=off", "--json"]);
    let kept: serde_json::Value = serde_json::from_str(&replay.exits(0).stdout).unwrap();
    assert_eq!(kept["verified"][0], "138 executions returned and changed the rows that were captured");
    assert!(kept["warnings"][0].as_str().unwrap().contains("kakaotalk/1 is made up"), "{kept}");
    make("7", "no/a.trace").exits(2).says("there is no directory no");
    place.fathom(&["trace", "synthesise", "gmial", "--out", "x"]).exits(2).says("did you mean `gmail`?");
    place
        .fathom(&["trace", "synthesise", "gmail", "--scale", "0", "--out", "x"])
        .exits(2)
        .says("1 to 10000 %");
    assert_eq!(place.files(), ["a.trace", "b.trace", "c.trace"]);
    let help = place.fathom(&["trace", "synthesise", "--help"]);
    assert!(help.exits(0).stdout.contains("never published"), "{help}");
    let list = place.fathom(&["list", "profiles"]);
    assert!(list.exits(0).stdout.contains("assumed:") && list.stdout.contains("never published"), "{list}");
}

#[test]
fn an_experiment_runs_on_traces_of_the_command_line() {
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "androbench", "--scale", "2", "--out", "mine.trace"]).exits(0);
    let run = [
        "run",
        "first-look",
        "--quick",
        "--repeat",
        "1",
        "--set",
        "variants=wal/off",
        "--set",
        "workload.scale=2",
    ];
    // A file has no scale.
    let both = [&run[..], &["--trace", "mine.trace", "--trace", "gmail", "--plan"]].concat();
    place.fathom(&both).exits(2).says("a file has the size that it has");
    let plan = [&run[..7], &["--trace", "mine.trace", "--trace", "gmail", "--plan"]].concat();
    let plan = place.fathom(&plan);
    assert!(plan.exits(0).stdout.contains("mine WAL/OFF") && plan.stdout.contains("gmail WAL/OFF"), "{plan}");
    let end = place.fathom(&[&run[..], &["--trace", "gmail", "--out", "a.db"]].concat());
    assert!(end.exits(0).stdout.contains("replay"), "{end}");
    let json = place.fathom(&["report", "a.db", "--json"]);
    assert!(
        json.exits(0).stdout.contains("trace of gmail/1 is made up from published descriptions"),
        "{json}"
    );
    for (word, says) in [
        ("gmial", "there is no such file, and no profile of this name; did you mean `gmail`?"),
        ("a.db", "not a Fathom trace"),
    ] {
        place.fathom(&["run", "first-look", "--quick", "--trace", word]).exits(2).says(says);
    }
}

/// What happened: a trace that had been replaced by another one was gone on with, and told in the
/// report alone, when its runs had been made; and not even there if both were of one length.
#[test]
fn an_experiment_is_not_gone_on_with_on_another_trace() {
    let place = Place::new();
    let make = |seed: &str| {
        let words = ["trace", "synthesise", "androbench", "--scale", "2", "--out", "mine.trace", "--seed"];
        place.fathom(&[&words[..], &[seed]].concat()).exits(0);
    };
    let run = ["run", "first-look", "--quick", "--repeat", "1", "--set", "variants=wal/off", "--trace"];
    let run = [&run[..], &["mine.trace", "--out", "a.db"]].concat();
    make("1");
    place.fathom(&run).exits(0);
    let resume = [&run[..], &["--resume", "--plan"]].concat();
    place.fathom(&resume).exits(0);
    make("2");
    place.fathom(&resume).exits(2).says("mine.trace is another file now");
    make("1");
    place.fathom(&resume).exits(0);
}

/// The first step of the write ladder, of a trace: the values of statements that change rows, as
/// long as SQLite's records store them.
#[test]
fn a_block_trace_of_a_replay_knows_the_bytes_that_its_statements_change() {
    let place = Place::new();
    let script = "CREATE TABLE t(a, b);\n\
        INSERT INTO t VALUES (300, 'twelve chars');\n\
        INSERT INTO t VALUES (1, x'010203');\n\
        SELECT 'not counted' FROM t;\n\
        UPDATE t SET b = 'four' WHERE a = 70000;\n";
    place.write("app.sql", script);
    place.fathom(&["trace", "import", "app.sql", "--out", "app.trace"]).exits(0);
    // A script's statements are executed when it is imported, so its trace tells changes, as a
    // made-up one does: the UPDATE, which finds no row, counts nothing. (It counted its values when
    // imports told none.)
    for (trace, changed) in [("app.trace", Some((2 + 12) + 3)), ("androbench", None)] {
        let run = ["run", "first-look", "--quick", "--repeat", "1", "--set", "variants=wal/off", "--set"];
        let rest = ["instruments.blocks=true", "--trace", trace, "--out", "blocks.db"];
        let scale: &[&str] = if changed.is_none() { &["--set", "workload.scale=2"] } else { &[] };
        place.fathom(&[&run[..], &rest[..], scale].concat()).exits(0);
        let results = rusqlite::Connection::open(place.path("blocks.db")).unwrap();
        let sum = "SELECT sum(changed_bytes) FROM phase_window";
        let bytes: i64 = results.query_row(sum, [], |row| row.get(0)).unwrap();
        match changed {
            Some(changed) => assert_eq!(bytes, changed, "{trace}"),
            // 18 rows are inserted or updated, with texts of 10 to 100 letters each.
            None => assert!((100..100_000).contains(&bytes), "{trace}: {bytes}"),
        }
        let blocks = place.fathom(&["report", "blocks.db", "--blocks"]);
        assert!(blocks.exits(0).stdout.contains("changed_bytes"), "{blocks}");
        drop(results);
        std::fs::remove_file(place.path("blocks.db")).unwrap();
    }
}
