//! `fathom trace replay` held against programs that know nothing of it: the `sqlite3` shell, given
//! the same statements, must come to the same content; and a second capture, of the replay, must
//! see the same executions.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_trace::model::{Action, Event, Origin, Record, Start, Step, UNFINISHED, Value};
use fathom_trace::sql::{Parameters, TokenKind, Verb, literal, pragma, tokens};
use fathom_trace::{Assembler, Execution, Reader, Writer};
use place::Place;

/// What a replay leaves to the cell (see `docs/traces.md`).
const THE_CELLS: [&str; 4] = ["journal_mode", "synchronous", "page_size", "busy_timeout"];

/// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_INTERRUPT.
const BY_CHANCE: [i32; 3] = [5, 6, 9];

fn examples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces");
    let mut traces: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "trace"))
        .collect();
    traces.sort();
    assert!(traces.len() >= 4, "{traces:?}");
    traces
}

/// An execution, or what else happens to a connection, in the order of the trace.
enum Deed {
    Open(u32, u32),
    Close(u32),
    Attach(u32, u32, String),
    Execute {
        connection: u32,
        sql: String,
        values: HashMap<u32, Value>,
        step: Step,
    },
    /// More steps of an execution.
    More {
        sql: String,
        step: Step,
    },
}

#[derive(Default)]
struct Story {
    /// Path, and start content where there is any.
    databases: BTreeMap<u32, (String, Start, Vec<u8>)>,
    deeds: Vec<Deed>,
}

/// What a replay of the trace must do.
fn read(trace: &Path) -> Story {
    let mut story = Story::default();
    let mut texts: HashMap<u32, String> = HashMap::new();
    let mut prepared: HashMap<(u32, u32), String> = HashMap::new();
    let mut bound: HashMap<(u32, u32), HashMap<u32, Value>> = HashMap::new();
    let mut left_out: HashSet<u32> = HashSet::new();
    let mut attaching: HashSet<u32> = HashSet::new();
    for record in Reader::open(trace).unwrap() {
        let Event { connection, action, .. } = match record.unwrap() {
            Record::Database(database) => {
                let path = String::from_utf8_lossy(&database.path).into_owned();
                story.databases.insert(database.id, (path, database.start, Vec::new()));
                continue;
            }
            Record::Content(content) => {
                let bytes = &mut story.databases.get_mut(&content.database).unwrap().2;
                assert_eq!(bytes.len() as u64, content.offset);
                bytes.extend(content.bytes);
                continue;
            }
            Record::Statement(statement) => {
                texts.insert(statement.id, statement.sql);
                continue;
            }
            Record::Event(event) => event,
            _ => continue,
        };
        if left_out.contains(&connection) {
            continue;
        }
        match action {
            Action::Open { database, outcome, .. } => {
                if story.databases[&database].1 == Start::Memory || outcome.is_error() {
                    left_out.insert(connection);
                } else {
                    story.deeds.push(Deed::Open(connection, database));
                }
            }
            Action::Close { outcome } if !outcome.is_error() => story.deeds.push(Deed::Close(connection)),
            Action::Prepare { handle, statement, .. } => {
                prepared.insert((connection, handle), texts[&statement].clone());
                bound.remove(&(connection, handle));
            }
            Action::Bind { handle, index, value } => {
                bound.entry((connection, handle)).or_default().insert(index, value);
            }
            Action::ClearBindings { handle } => drop(bound.remove(&(connection, handle))),
            Action::Attach { schema, database } => {
                attaching.insert(connection);
                story.deeds.push(Deed::Attach(connection, database, schema));
            }
            Action::Step(step) => {
                let key = (connection, step.handle);
                let sql = prepared[&key].clone();
                let is_the_cells = pragma(&sql)
                    .is_some_and(|(name, value)| value.is_some() && THE_CELLS.contains(&name.as_str()));
                let is_by_chance = step.outcome.is_error() && BY_CHANCE.contains(&(step.outcome.code & 0xff));
                if is_the_cells
                    || is_by_chance
                    || step.outcome.code == UNFINISHED
                    || attaching.remove(&connection)
                {
                    continue;
                }
                story.deeds.push(if step.begins {
                    Deed::Execute {
                        connection,
                        sql,
                        values: bound.get(&key).cloned().unwrap_or_default(),
                        step,
                    }
                } else {
                    Deed::More { sql, step }
                });
            }
            _ => {}
        }
    }
    story
}

/// A statement with its values in the place of its parameters.
fn filled(sql: &str, values: &HashMap<u32, Value>) -> String {
    let mut parameters = Parameters::default();
    tokens(sql)
        .map(|token| match token.kind {
            TokenKind::Parameter => {
                let number = parameters.number(&token);
                values.get(&number).map_or("NULL".to_owned(), |value| format!(" {} ", literal(value)))
            }
            _ => token.text.to_owned(),
        })
        .collect()
}

/// The trace as a script of the `sqlite3` shell, each connection one of its five.
fn script(story: &Story) -> String {
    let mut script = String::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut present = 0;
    let mut turn_to = |script: &mut String, place: usize| {
        if place != present {
            writeln!(script, ".connection {place}").unwrap();
            present = place;
        }
    };
    for deed in &story.deeds {
        match deed {
            Deed::Open(connection, database) => {
                let place = (0..5).find(|place| !places.values().any(|used| used == place));
                let place = place.expect("the shell has five connections at a time");
                places.insert(*connection, place);
                turn_to(&mut script, place);
                writeln!(script, ".open {database}.db\nPRAGMA synchronous = OFF;").unwrap();
                // A reader must not keep others from writing.
                writeln!(script, "PRAGMA journal_mode = WAL;").unwrap();
            }
            Deed::Close(connection) => {
                turn_to(&mut script, places.remove(connection).unwrap());
                writeln!(script, ".open :memory:").unwrap();
            }
            Deed::Attach(connection, database, schema) => {
                turn_to(&mut script, places[connection]);
                writeln!(script, "ATTACH '{database}.db' AS \"{schema}\";").unwrap();
            }
            Deed::Execute { connection, sql, values, .. } => {
                turn_to(&mut script, places[connection]);
                // A comment at the end would swallow the semicolon.
                writeln!(script, "{}\n;", filled(sql, values)).unwrap();
            }
            Deed::More { .. } => {}
        }
    }
    script
}

/// What `fathom trace replay` says that each database holds.
fn replayed_content(place: &Place, trace: &str, settings: &[&str]) -> BTreeMap<String, String> {
    let mut words = vec!["trace", "replay", trace, "--dir", "."];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    let end = place.fathom(&words);
    let holds = |line: &str| {
        let (name, hash) = line.strip_prefix("checked: ")?.split_once(" holds ")?;
        Some((name.to_owned(), hash.split(' ').next()?.to_owned()))
    };
    end.exits(0).stdout.lines().filter_map(holds).collect()
}

/// What the shell says after the same statements; none where it is not there.
fn shells_content(place: &Place, trace: &Path) -> Option<BTreeMap<String, String>> {
    let story = read(trace);
    let name = trace.file_stem().unwrap().to_string_lossy().into_owned();
    let work = place.path(&format!("shell-{name}"));
    std::fs::create_dir(&work).unwrap();
    let shell = |database: &str, input: &str| {
        let input_file = work.join("input");
        std::fs::write(&input_file, input).unwrap();
        let run = Command::new("sqlite3")
            .args(["-batch", database])
            .current_dir(&work)
            .env("HOME", &work)
            .stdin(std::fs::File::open(&input_file).unwrap())
            .stderr(Stdio::piped())
            .output();
        match run {
            Ok(output) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            Err(error) => {
                println!("skipped: no sqlite3 shell ({error}); apt-get install sqlite3");
                None
            }
        }
    };
    for (id, (_, start, content)) in &story.databases {
        match start {
            Start::Image { .. } => std::fs::write(work.join(format!("{id}.db")), content).unwrap(),
            Start::Script { .. } => drop(shell(&format!("{id}.db"), &String::from_utf8_lossy(content))?),
            _ => {}
        }
    }
    shell(":memory:", &script(&story))?;
    let mut holds = BTreeMap::new();
    for (id, (path, start, _)) in &story.databases {
        let file = work.join(format!("{id}.db"));
        if *start == Start::Memory || std::fs::metadata(file).map_or(0, |metadata| metadata.len()) == 0 {
            continue;
        }
        let answer = shell(&format!("{id}.db"), ".sha3sum --sha3-256\nPRAGMA integrity_check;\n")?;
        let (hash, is_ok) = answer.split_once('\n').unwrap();
        assert_eq!(is_ok, "ok");
        holds.insert(path.clone(), hash.to_owned());
    }
    Some(holds)
}

#[test]
fn a_replay_leaves_the_content_that_the_stock_shell_makes_of_the_same_statements() {
    let place = Place::new();
    for trace in examples() {
        let Some(expected) = shells_content(&place, &trace) else { return };
        assert!(!expected.is_empty());
        for settings in
            [&["journal_mode=delete", "synchronous=off"][..], &["journal_mode=wal", "page_size=1024"]]
        {
            let found = replayed_content(&place, trace.to_str().unwrap(), settings);
            assert_eq!(found, expected, "{} {settings:?}", trace.display());
        }
    }
}

#[test]
fn so_does_an_imported_folder_of_scripts_and_a_change_of_one_value_shows() {
    let place = Place::new();
    std::fs::create_dir(place.path("work")).unwrap();
    let load = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b REAL);\nCREATE INDEX i ON t(a);\n\
                INSERT INTO t(a, b) VALUES ('größe', 1.5), (NULL, -2), ('it''s', 1e300);\n";
    place.write("work/load.sql", load);
    // Streams run at the same time, so what they leave must not depend on who comes first.
    place.write(
        "work/stream-1.sql",
        "BEGIN;\nINSERT INTO t VALUES (100, 'one;two', 0.1);\nCOMMIT;\nSELECT * FROM t;\n",
    );
    place.write("work/stream-2.sql", "UPDATE t SET b = b * 3 WHERE id = 1;\nDELETE FROM t WHERE id = 2;\n");
    place.fathom(&["trace", "import", "work", "--out", "work.trace"]).exits(0);
    let Some(expected) = shells_content(&place, &place.path("work.trace")) else { return };
    let found = replayed_content(&place, "work.trace", &["synchronous=off"]);
    assert_eq!((found.len(), &found), (1, &expected));
    place.write("work/stream-2.sql", "UPDATE t SET b = b * 4 WHERE id = 1;\nDELETE FROM t WHERE id = 2;\n");
    place.fathom(&["trace", "import", "work", "--out", "other.trace"]).exits(0);
    assert_ne!(replayed_content(&place, "other.trace", &["synchronous=off"]), expected);
}

/// The shared library that Debian's programs use; none, with the reason printed, where there is
/// none.
fn shared_library() -> Option<String> {
    let listed = Command::new("/sbin/ldconfig").arg("-p").output();
    let found = listed.ok().and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.contains("libsqlite3.so.0"))?;
        line.rsplit("=> ").next().map(str::to_owned)
    });
    if found.is_none() {
        println!("skipped: no libsqlite3.so.0; apt-get install libsqlite3-0");
    }
    found
}

/// Executions, rows, changes and errors by the first word of their statement or, where texts are
/// the same in both traces, by text.
fn counts(story: &Story, by_text: bool) -> BTreeMap<String, [u64; 4]> {
    let mut counts: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for deed in &story.deeds {
        let (sql, step) = match deed {
            Deed::Execute { sql, step, .. } | Deed::More { sql, step } => (sql, step),
            _ => continue,
        };
        // What a PRAGMA answers depends on the cell, and a replay has PRAGMAs of its own.
        if Verb::of(sql) == Verb::Pragma {
            continue;
        }
        let key = if by_text { sql.trim().to_owned() } else { Verb::of(sql).name().to_owned() };
        let of = counts.entry(key).or_default();
        of[0] += u64::from(step.begins);
        of[1] += step.rows;
        of[2] += step.changes;
        of[3] += u64::from(step.outcome.is_error());
    }
    counts
}

#[test]
fn captured_anonymised_replayed_and_captured_again_the_examples_execute_the_same_statements() {
    let Some(library) = shared_library() else { return };
    let (library, fathom) = (format!("library={library}"), env!("CARGO_BIN_EXE_fathom"));
    for trace in examples() {
        let place = Place::new();
        let name = trace.to_str().unwrap();
        place.fathom(&["trace", "anonymise", name, "--out", "public.trace", "--seed", "1"]).exits(0);
        let replay = [fathom, "trace", "replay", "public.trace", "--dir", ".", "--set", &library];
        let settings = ["--set", "synchronous=off"];
        let words: Vec<&str> = ["trace", "capture", "--out", "again.trace", "--"]
            .iter()
            .chain(&replay)
            .chain(&settings)
            .copied()
            .collect();
        let end = place.fathom(&words);
        assert!(end.exits(0).stdout.contains("returned and changed the rows that were captured"), "{end}");
        let (first, public, again) =
            (read(&trace), read(&place.path("public.trace")), read(&place.path("again.trace")));
        assert_eq!(counts(&first, false), counts(&public, false), "{name}");
        assert_eq!(counts(&public, true), counts(&again, true), "{name}");
        let executed: u64 = counts(&again, false).values().map(|of| of[0]).sum();
        assert!(executed > 30, "{name}: {executed} executions");
        // And what was captured again can be replayed again.
        let end = place.fathom(&["trace", "replay", "again.trace", "--dir", ".", "--set", "synchronous=off"]);
        assert!(end.exits(0).stdout.contains("returned and changed the rows that were captured"), "{end}");
    }
}

/// What is wrong with a file is said by every command that reads it, with its place and what to do.
#[test]
fn every_command_refuses_a_damaged_torn_newer_or_foreign_file() {
    let place = Place::new();
    let rows: String =
        (0..3000).map(|row| format!("INSERT INTO t VALUES ({row}, 'text number {row}');\n")).collect();
    place.write("a.sql", &format!("CREATE TABLE t(a, b);\n{rows}"));
    place.fathom(&["trace", "import", "a.sql", "--out", "a.trace"]).exits(0);
    let whole = place.read("a.trace");
    let with = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        place.write_bytes(name, &bytes);
    };
    with("torn.trace", &|bytes| bytes.truncate(bytes.len() / 2));
    with("damaged.trace", &|bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    with("newer.trace", &|bytes| {
        bytes[8] = 99;
        let checksum = crc32c(&bytes[..12]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    });
    with("header.trace", &|bytes| bytes[9] ^= 1);
    with("foreign.trace", &|bytes| bytes[0] = b'S');
    with("empty.trace", &Vec::clear);
    let cases: [(&str, &[&str]); 6] = [
        ("torn.trace", &["torn.trace: torn at byte", "copy it once more"]),
        (
            "damaged.trace",
            &["damaged.trace: corrupt at byte", "does not match its checksum", "copy it once more"],
        ),
        ("newer.trace", &["newer.trace", "format version 99", "reads version 2", "use a newer fathom"]),
        ("header.trace", &["header.trace: corrupt at byte 0"]),
        ("foreign.trace", &["foreign.trace: not a Fathom trace", "fathom trace import"]),
        ("empty.trace", &["empty.trace: not a Fathom trace"]),
    ];
    for (file, words) in cases {
        for command in [
            &["trace", "info", file][..],
            &["trace", "replay", file, "--dir", "."],
            &["trace", "anonymise", file, "--out", "out.trace"],
        ] {
            let end = place.fathom(command);
            end.fails();
            for words in words {
                end.says(words);
            }
        }
        let files = place.files();
        assert!(
            !files.iter().any(|file| file == "out.trace" || file.starts_with(".fathom")),
            "{file}: {files:?}"
        );
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    };
    !bytes.iter().fold(!0, step)
}

/// A trace of statements of which it is not known what came of them.
fn written(path: &Path, script: &[&str]) {
    let origin = Origin { how: "import".into(), what: "elsewhere".into(), ..Origin::default() };
    let mut assembler = Assembler::new(Writer::create(path).unwrap(), origin).unwrap();
    let thread = assembler.thread(1, 1, "elsewhere").unwrap();
    let database = assembler.database(b"a.db", Start::Empty, None).unwrap();
    let connection = assembler.open(thread, database, 0).unwrap();
    for sql in script {
        let execution =
            Execution { sql, values: &[], start_ns: 0, duration_ns: 0, keep: false, counts: None };
        assembler.execute(connection, &execution).unwrap();
    }
    assembler.close(connection, 0).unwrap();
    assembler.finish().unwrap();
}

#[test]
fn sql_that_fails_in_a_replay_is_named_with_its_message_and_place() {
    let place = Place::new();
    for (sql, words) in [
        ("SELECT * FROM missing;", "no such table: missing"),
        ("INSERT INTO t VALUES (1);", "UNIQUE constraint failed: t.a"),
        // Confinement comes before SQLite looks for the module.
        (
            "CREATE VIRTUAL TABLE v USING nosuch(a);",
            "module nosuch is not known to keep to its database (an extension that brings it",
        ),
        ("SELECT nosuch(a) FROM t;", "no such function: nosuch"),
        ("SELECT a FROM t ORDER BY a COLLATE nosuch;", "no such collation sequence: nosuch"),
    ] {
        let script = ["CREATE TABLE t(a PRIMARY KEY)", "INSERT INTO t VALUES (1)", sql.trim_end_matches(';')];
        place.write("a.sql", &script.join(";\n"));
        // Import compiles and executes what it reads, and says so itself; a trace from elsewhere
        // may still hold it. (It was imported without a word, and this test made its traces so.)
        let imported = place.fathom(&["trace", "import", "a.sql", "--out", "b.trace"]);
        let what = words.rsplit(": ").next().unwrap();
        imported.exits(if words.starts_with("UNIQUE") { 0 } else { 2 }).says(what);
        written(&place.path("a.trace"), &script);
        let end = place.fathom(&["trace", "replay", "a.trace", "--dir", "."]);
        end.exits(1)
            .says(words)
            .says(&sql[..sql.len() - 1])
            .says("of the replay, thread 0, at 0.000000 s of the trace");
        assert!(place.files().iter().all(|name| !name.starts_with(".fathom")), "{:?}", place.files());
    }
}

/// A Python program that is captured; none where Python's SQLite is not the shared library.
fn captured(place: &Place, program: &str) -> Option<()> {
    place.write("app.py", program);
    let end = place.fathom(&["trace", "capture", "--out", "app.trace", "--", "python3", "app.py"]);
    if end.code != Some(0) {
        println!("skipped: no python3 with the shared libsqlite3; apt-get install python3 ({end})");
        return None;
    }
    Some(())
}

#[test]
fn what_the_application_brought_itself_is_named_when_a_replay_lacks_it() {
    for (program, words) in [
        (
            "c.create_function('own_score', 1, lambda x: x * 2)\nc.execute('SELECT own_score(a) FROM t').fetchall()",
            ["no such function: own_score", "the application brought its own function own_score"],
        ),
        (
            "c.create_collation('by_length', lambda a, b: len(a) - len(b))\nc.execute('SELECT a FROM t ORDER BY a COLLATE by_length').fetchall()",
            ["no such collation sequence: by_length", "the application brought its own collation by_length"],
        ),
    ] {
        let place = Place::new();
        let program = format!(
            "import sqlite3\nc = sqlite3.connect('app.db', isolation_level=None)\nc.execute('CREATE TABLE t(a)')\nc.execute('INSERT INTO t VALUES (1)')\n{program}\n"
        );
        if captured(&place, &program).is_none() {
            return;
        }
        let end = place.fathom(&["trace", "replay", "app.trace", "--dir", "."]);
        end.exits(1).says(words[0]).says(words[1]);
        let info = place.fathom(&["trace", "info", "app.trace"]);
        assert!(info.stdout.contains(words[1].rsplit(' ').next().unwrap()), "{info}");
    }
}

#[test]
fn a_trace_of_an_encrypted_database_is_refused_with_its_reason() {
    let place = Place::new();
    place.write_bytes("secret.db", &[0xa7; 8192]);
    let program = "
import sqlite3
c = sqlite3.connect('secret.db', isolation_level=None)
c.execute(\"PRAGMA key = 'open sesame'\")
try: c.execute('SELECT * FROM sqlite_master')
except sqlite3.DatabaseError: pass
";
    if captured(&place, program).is_none() {
        return;
    }
    place.fathom(&["trace", "info", "app.trace"]).exits(0);
    for command in [
        &["trace", "replay", "app.trace", "--dir", "."][..],
        &["trace", "anonymise", "app.trace", "--out", "out.trace"],
    ] {
        let end = place.fathom(command);
        end.fails().says("secret.db").says("it is encrypted, or no database");
        assert!(!place.files().iter().any(|file| file == "out.trace" || file.starts_with(".fathom")));
    }
    place.write("a.sql", "SELECT 1;");
    place
        .fathom(&["trace", "import", "a.sql", "--out", "b.trace", "--start", "secret.db"])
        .exits(2)
        .says("secret.db")
        .says("is no SQLite database, or an encrypted one");
}

/// A program that loads the library itself and asks for its functions by name.
#[test]
fn a_program_that_opens_libsqlite3_itself_is_captured() {
    let Some(library) = shared_library() else { return };
    let place = Place::new();
    let program = format!(
        "
import ctypes
s = ctypes.CDLL('{library}')
db = ctypes.c_void_p()
assert s.sqlite3_open(b'app.db', ctypes.byref(db)) == 0
for sql in (b'CREATE TABLE t(a)', b'INSERT INTO t VALUES (1), (2)', b'SELECT * FROM t'):
    assert s.sqlite3_exec(db, sql, None, None, None) == 0
assert s.sqlite3_close(db) == 0
"
    );
    place.write("app.py", &program);
    place.fathom(&["trace", "capture", "--out", "app.trace", "--", "python3", "app.py"]).exits(0);
    let story = read(&place.path("app.trace"));
    let expected = BTreeMap::from([
        ("CREATE TABLE t(a)".to_owned(), [1, 0, 0, 0]),
        ("INSERT INTO t VALUES (1), (2)".to_owned(), [1, 0, 2, 0]),
        ("SELECT * FROM t".to_owned(), [1, 2, 0, 0]),
    ]);
    assert_eq!(counts(&story, true), expected);
    let end = place.fathom(&["trace", "replay", "app.trace", "--dir", "."]);
    assert!(end.exits(0).stdout.contains("3 executions returned and changed"), "{end}");
}

/// Letters and digits of a text that stand together.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Texts of a trace in the order in which they stand there: literals and bound values, but for
/// those of statements that ask for names of tables and columns.
fn texts(story: &Story) -> Vec<String> {
    let mut texts = Vec::new();
    for deed in &story.deeds {
        let Deed::Execute { sql, values, .. } = deed else { continue };
        if ["sqlite_master", "sqlite_schema", "sqlite_stat"]
            .iter()
            .any(|table| sql.to_lowercase().contains(table))
            || Verb::of(sql) == Verb::Pragma
        {
            continue;
        }
        let values = values.iter().collect::<BTreeMap<_, _>>();
        let literals =
            tokens(sql).filter(|token| token.kind == TokenKind::Text).map(|token| token.text.to_owned());
        texts.extend(literals);
        texts.extend(values.values().filter_map(|value| match value {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }));
    }
    texts
}

/// Opens a database that a replay with `--keep` left.
fn kept_database(place: &Place, trace: &str) -> rusqlite::Connection {
    let end = place.fathom(&["trace", "replay", trace, "--dir", ".", "--keep", "--set", "synchronous=off"]);
    let line =
        end.exits(0).stderr.lines().find_map(|line| line.strip_prefix("Databases: ")).unwrap().to_owned();
    rusqlite::Connection::open(place.path(&line).join("trace-0.db")).unwrap()
}

#[test]
fn the_anonymous_examples_keep_plans_and_pages_and_no_word_stays_in_its_place() {
    let (mut compared, mut plans) = (0, 0);
    for trace in examples() {
        let place = Place::new();
        let name = trace.to_str().unwrap();
        place.fathom(&["trace", "anonymise", name, "--out", "public.trace", "--seed", "7"]).exits(0);
        let (before, after) = (read(&trace), read(&place.path("public.trace")));
        let (was, is) = (texts(&before), texts(&after));
        assert_eq!(was.len(), is.len());
        for (was, is) in was.iter().zip(&is) {
            assert_eq!(words(was).count(), words(is).count(), "{was} {is}");
            for (was, is) in words(was).zip(words(is)) {
                // Numbers stay, also those that are bound as texts and become numbers. (They were
                // changed, and found other rows.)
                let is_kept = ["true", "false", "null", "now", "localtime", "utc"].contains(&was)
                    || was.bytes().all(|byte| byte.is_ascii_digit());
                assert!(was != is || is_kept || was.chars().count() < 3, "{name}: {was} stays");
                compared += 1;
            }
        }
        let (was, is) = (kept_database(&place, name), kept_database(&place, "public.trace"));
        let pages = |db: &rusqlite::Connection| -> i64 {
            db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
        };
        let (pages_before, pages_after) = (pages(&was), pages(&is));
        assert!((pages_after - pages_before).abs() * 50 <= pages_before, "{pages_before} and {pages_after}");
        for (before, after) in before.deeds.iter().zip(&after.deeds) {
            let (Deed::Execute { sql: before, .. }, Deed::Execute { sql: after, .. }) = (before, after)
            else {
                continue;
            };
            let plan = |db: &rusqlite::Connection, sql: &str| -> Result<Vec<String>, String> {
                let mut statement =
                    db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(|error| error.to_string())?;
                Ok(statement.raw_query().mapped(|row| row.get(3)).map(Result::unwrap).collect())
            };
            match (plan(&was, before), plan(&is, after)) {
                (Ok(was), Ok(is)) => {
                    assert_eq!(was, is, "{before}");
                    plans += usize::from(!was.is_empty());
                }
                // A temporary table that is gone, for one.
                (Err(_), Err(_)) => {}
                (was, is) => panic!("{before}: {was:?} {is:?}"),
            }
        }
    }
    println!("{compared} words, {plans} plans");
    assert!(compared > 1000 && plans > 500, "{compared} words, {plans} plans");
}
