use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::connection::SqliteConnection;
use super::library::SqliteLibrary;
use super::settings::{self, SETTINGS};
use crate::engine::{Connection, Engine, EngineError, Value, start_engine};
use crate::params::{Kind, Params};
use crate::spec::{Durability, EngineSpec};

fn spec(settings: &[(&str, Json)]) -> EngineSpec {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    EngineSpec { name: "sqlite".into(), settings }
}

fn start(directory: &Path, settings: &[(&str, Json)]) -> Result<Box<dyn Engine>, EngineError> {
    start_engine(&spec(settings), directory)
}

fn params(settings: &[(&str, Json)]) -> Params {
    Params::read(SETTINGS, &spec(settings).settings).unwrap()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Debian's library, where it is installed: an older release than the bundled one.
fn other_library() -> Option<&'static str> {
    const PATHS: [&str; 3] = [
        "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
        "/usr/lib/aarch64-linux-gnu/libsqlite3.so.0",
        "/usr/lib64/libsqlite3.so.0",
    ];
    let found = PATHS.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("skipped: no libsqlite3.so.0 here; `apt-get install libsqlite3-0` brings one");
    }
    found
}

#[test]
fn every_word_of_every_setting_reads_back() {
    for parameter in SETTINGS {
        let values: Vec<Json> = match parameter.kind {
            Kind::TextOf(words) => words.iter().map(|&word| word.into()).collect(),
            Kind::IntegerOf(numbers) => numbers.iter().map(|&number| number.into()).collect(),
            Kind::Boolean => vec![false.into(), true.into()],
            Kind::Integer { .. } => match parameter.name {
                "cache_size" => vec![json!(-4000), json!(123), json!(i32::MAX)],
                "journal_size_limit" => vec![json!(-1), json!(0), json!(5_000_000_000_u64)],
                _ => vec![json!(0), json!(65_536 * 3)],
            },
            _ => continue,
        };
        for value in values {
            let directory = directory();
            let engine = start(directory.path(), &[(parameter.name, value.clone())]);
            let engine = engine.unwrap_or_else(|error| panic!("{}={value}: {error}", parameter.name));
            let expected = value.as_str().map_or(value.to_string(), str::to_owned);
            assert_eq!(engine.info().settings[parameter.name], expected, "{}", parameter.name);
            let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
            assert!(left.is_empty(), "{}={value} leaves {left:?}", parameter.name);
        }
    }
}

#[test]
fn settings_hold_on_a_connection_and_on_what_it_attaches() {
    let directory = directory();
    let settings =
        [("journal_mode", json!("wal")), ("page_size", json!(1024)), ("synchronous", json!("extra"))];
    let engine = start(directory.path(), &settings).unwrap();
    let mut connection = engine.connect("one").unwrap();
    connection.attach("two", "other").unwrap();
    connection.execute_script("CREATE TABLE other.t (x); INSERT INTO other.t VALUES (1);").unwrap();
    for (pragma, expected) in [
        ("journal_mode", Value::Text("wal".into())),
        ("page_size", Value::Integer(1024)),
        ("synchronous", Value::Integer(3)),
    ] {
        for schema in ["main", "other"] {
            let statement = connection.prepare(&format!("PRAGMA {schema}.{pragma}")).unwrap();
            let mut answer = None;
            connection.query(statement, &[], &mut |row| answer = Some(row[0].clone())).unwrap();
            assert_eq!(answer.as_ref(), Some(&expected), "{schema}.{pragma}");
        }
    }
    connection.close().unwrap();
    assert!(directory.path().join("one.db").exists() && directory.path().join("two.db").exists());
}

#[test]
fn a_journal_mode_that_does_not_take_is_an_error() {
    let library = SqliteLibrary::bundled().unwrap();
    let settings = params(&[("journal_mode", json!("wal"))]);
    let error =
        SqliteConnection::open(library, fathom_probe::Probe::VFS_NAME, Path::new(":memory:"), &settings)
            .err()
            .unwrap()
            .to_string();
    assert!(error.starts_with("setting journal_mode=wal on :memory:: did not take"), "{error}");
    assert!(error.contains("reads it back as `memory`"), "{error}");
}

#[test]
fn a_page_size_that_comes_too_late_is_an_error() {
    let directory = directory();
    let engine = start(directory.path(), &[]).unwrap();
    let mut connection = engine.connect("t").unwrap();
    connection.execute_script("CREATE TABLE t (x)").unwrap();
    connection.close().unwrap();
    let engine = start(directory.path(), &[("page_size", json!(512))]).unwrap();
    let error = engine.connect("t").err().unwrap().to_string();
    assert!(
        error.contains("page_size=512") && error.contains("`4096`") && error.contains("no content"),
        "{error}"
    );
}

#[test]
fn wrong_settings_are_named_with_what_is_right() {
    let directory = directory();
    let message =
        |key: &str, value: Json| start(directory.path(), &[(key, value)]).err().unwrap().to_string();
    assert!(message("jornal_mode", json!("wal")).contains("did you mean `journal_mode`?"));
    let wrong = message("journal_mode", json!("wall"));
    assert!(wrong.contains("one of delete, truncate, persist, memory, wal, off"), "{wrong}");
    assert!(wrong.contains("did you mean `wal`?"), "{wrong}");
    assert!(message("page_size", json!(1000)).contains("did you mean `1024`?"));
    assert!(message("mmap_size", json!(-1)).contains("(bytes)"));
    let error = start(Path::new("/no/such/place"), &[]).err().unwrap();
    assert!(
        error.to_string().contains("/no/such/place")
            && error.to_string().contains("does the directory exist")
    );
    assert_eq!(error.code & 0xff, libsqlite3_sys::SQLITE_CANTOPEN);
}

#[test]
fn durability_is_what_sqlite_documents() {
    use Durability::{None, PowerCut, PowerCutAllButLast, PowerCutPrefix, ProcessCrash};
    let expected = [
        ("delete", [ProcessCrash, ProcessCrash, PowerCutAllButLast, PowerCut]),
        ("truncate", [ProcessCrash, ProcessCrash, PowerCut, PowerCut]),
        ("persist", [ProcessCrash, ProcessCrash, PowerCut, PowerCut]),
        ("wal", [ProcessCrash, PowerCutPrefix, PowerCut, PowerCut]),
        ("memory", [None; 4]),
        ("off", [None; 4]),
    ];
    for (mode, classes) in expected {
        for (level, class) in ["off", "normal", "full", "extra"].into_iter().zip(classes) {
            let settings = params(&[("journal_mode", json!(mode)), ("synchronous", json!(level))]);
            assert_eq!(settings::durability(&settings, "3.54.1"), class, "{mode} {level}");
        }
    }
    // What happened: DELETE/FULL with a journal that stays was said to lose the last commit.
    let locked = |mode: &str, level: &str, locking: &str| {
        let settings = [("journal_mode", mode), ("synchronous", level), ("locking_mode", locking)];
        settings::durability(&params(&settings.map(|(key, value)| (key, json!(value)))), "3.54.1")
    };
    assert_eq!(locked("delete", "full", "EXCLUSIVE"), PowerCut);
    assert_eq!(locked("delete", "full", "normal"), PowerCutAllButLast);
    assert_eq!(locked("delete", "normal", "exclusive"), ProcessCrash);
    assert_eq!(locked("wal", "normal", "exclusive"), PowerCutPrefix);
    assert_eq!(locked("memory", "full", "exclusive"), None);
    // The sync after cutting the journal came with 3.8.7.1.
    let of = |mode: &str, version: &str| {
        let settings = params(&[("journal_mode", json!(mode)), ("synchronous", json!("full"))]);
        settings::durability(&settings, version)
    };
    for (version, class) in [
        ("3.7.11", PowerCutAllButLast),
        ("3.8.2", PowerCutAllButLast),
        ("3.8.7", PowerCutAllButLast),
        ("3.8.7.1", PowerCut),
        ("3.8.8", PowerCut),
        ("3.9.0", PowerCut),
        ("3.28.0", PowerCut),
    ] {
        assert_eq!(of("truncate", version), class, "{version}");
        assert_eq!(of("persist", version), PowerCut, "{version}");
    }
}

/// What happened: with the library of Debian 12, with which a program was captured, its triggers
/// that fill a full-text table failed in a replay ("unsafe use of virtual table").
#[test]
fn triggers_of_a_confined_connection_fill_full_text_tables_in_each_version() {
    let library = other_library().map(|path| ("library", json!(path)));
    for settings in [Vec::new(), library.into_iter().collect()] {
        let directory = directory();
        let engine = start(directory.path(), &settings).unwrap();
        let mut connection = engine.connect("a").unwrap();
        connection.confine().unwrap();
        let script = "CREATE TABLE t(a); CREATE VIRTUAL TABLE f USING fts5(a); \
            CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO f VALUES (new.a); END; INSERT INTO t VALUES ('x')";
        connection.execute_script(script).unwrap();
        let reads = "CREATE VIEW v AS SELECT readfile('/etc/hostname'); SELECT * FROM v";
        assert!(connection.execute_script(reads).is_err());
    }
}

#[test]
fn a_library_by_its_path_works_beside_the_bundled_one() {
    let Some(path) = other_library() else { return };
    let directory = directory();
    let bundled = start(directory.path(), &[]).unwrap();
    let other = start(directory.path(), &[("library", json!(path)), ("journal_mode", json!("wal"))]).unwrap();
    let again = start(directory.path(), &[("library", json!(path))]).unwrap();
    assert_eq!(bundled.info().version, "3.54.1");
    assert_ne!(other.info().version, bundled.info().version);
    assert_eq!(other.info().version, again.info().version);
    assert!(
        other.info().build[0].starts_with("20"),
        "a source id begins with its date: {:?}",
        other.info().build
    );
    for (engine, name) in [(&bundled, "a"), (&other, "b")] {
        let mut connection = engine.connect(name).unwrap();
        let statement = connection.prepare("SELECT sqlite_version()").unwrap();
        let mut version = Value::Null;
        connection.query(statement, &[], &mut |row| version = row[0].clone()).unwrap();
        assert_eq!(version, Value::Text(engine.info().version));
        connection.execute_script("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        let before = fathom_probe::thread_io();
        connection.execute_script("INSERT INTO t VALUES (2)").unwrap();
        let seen = fathom_probe::thread_io().since(&before);
        assert!(seen.of_op(fathom_probe::Op::Write).calls > 0, "the probe sees {name}");
        assert!(seen.of_op(fathom_probe::Op::Sync).calls > 0, "the probe sees {name}");
        connection.close().unwrap();
    }
}

/// Which call a sync makes is what SQLite was told at its build, and half of what a commit costs on
/// some file systems.
#[test]
fn an_engine_tells_which_call_its_syncs_make() {
    let directory = directory();
    let told = |engine: Box<dyn Engine>| engine.info().settings["sync_call"].clone();
    assert_eq!(
        told(start(directory.path(), &[]).unwrap()),
        "fdatasync",
        "as .cargo/config.toml has it built"
    );
    // Against what the dynamic linker was asked for, wherever there is a tool that tells.
    let Some(path) = other_library() else { return };
    let Ok(names) = std::process::Command::new("nm").args(["-D", path]).output() else {
        println!("SKIP: nm is not installed");
        return;
    };
    let calls = String::from_utf8_lossy(&names.stdout).contains("U fdatasync");
    let other = told(start(directory.path(), &[("library", json!(path))]).unwrap());
    assert_eq!(other, if calls { "fdatasync" } else { "fsync" });
}

#[test]
fn what_is_no_sqlite_library_is_refused() {
    let directory = directory();
    let message =
        |path: &Path| start(directory.path(), &[("library", json!(path))]).err().unwrap().to_string();
    let missing = message(Path::new("/no/such/libsqlite3.so"));
    assert!(missing.contains("/no/such/libsqlite3.so") && missing.contains("No such file"), "{missing}");
    let text = directory.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    let refused = message(&text);
    assert!(refused.contains("cannot be loaded") && refused.contains("text.so"), "{refused}");
    for other in [
        "/usr/lib/x86_64-linux-gnu/libm.so.6",
        "/usr/lib/aarch64-linux-gnu/libm.so.6",
        "/usr/lib64/libm.so.6",
    ] {
        if Path::new(other).exists() {
            let refused = message(Path::new(other));
            assert!(refused.contains("is not a SQLite library: it has no function sqlite3_"), "{refused}");
        }
    }
}

/// What happened: SQLite reads a text up to a NUL, where it found nothing and no error again and
/// again: the run hung until its time limit.
#[test]
fn a_script_ends_at_a_nul_with_an_error() {
    let directory = directory();
    let engine = start(directory.path(), &[]).unwrap();
    let mut connection = engine.connect("t").unwrap();
    for script in ["\0", "CREATE TABLE t (x);\0 SELECT 1", "SELECT 1 \0; SELECT 2", "-- a comment\0\n"] {
        let refused = connection.execute_script(script).unwrap_err().to_string();
        assert!(refused.contains("has a NUL byte"), "{refused}");
    }
    connection.execute_script("INSERT INTO t VALUES (1); -- a comment").unwrap();
}

#[test]
fn statements_count_what_they_change_and_name_what_fails() {
    let directory = directory();
    let engine = start(directory.path(), &[]).unwrap();
    let mut connection = engine.connect("t").unwrap();
    connection
        .execute_script("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL); -- a comment\n ")
        .unwrap();
    let insert = connection.prepare("INSERT INTO t (v) VALUES ($1)").unwrap();
    assert_eq!(connection.prepare("INSERT INTO t (v) VALUES ($1)").unwrap(), insert, "prepared once");
    for word in ["one", "two", "three"] {
        assert_eq!(connection.execute(insert, &[Value::Text(word.into())]).unwrap(), 1);
    }
    let update = connection.prepare("UPDATE t SET v = v || $1 WHERE id >= $2").unwrap();
    assert_eq!(connection.execute(update, &[Value::Text("!".into()), Value::Integer(2)]).unwrap(), 2);
    let begin = connection.prepare("BEGIN IMMEDIATE").unwrap();
    assert_eq!(
        connection.execute(begin, &[]).unwrap(),
        0,
        "the count of the statement before is not repeated"
    );
    let create = connection.prepare("CREATE TABLE u (x)").unwrap();
    assert_eq!(connection.execute(create, &[]).unwrap(), 0);
    connection.execute_script("COMMIT").unwrap();
    let select = connection.prepare("SELECT id, v, 1.5, NULL, x'00ff' FROM t ORDER BY id").unwrap();
    let mut rows = Vec::new();
    assert_eq!(connection.query(select, &[], &mut |row| rows.push(row.to_vec())).unwrap(), 3);
    let expected = [
        Value::Integer(2),
        Value::Text("two!".into()),
        Value::Real(1.5),
        Value::Null,
        Value::Blob(vec![0, 255]),
    ];
    assert_eq!(rows[1], expected);
    let bytes = 3 * (8 + 8 + 2) + (3 + 4 + 6);
    assert_eq!(connection.drain(select, &[]).unwrap(), (3, bytes));

    let error = connection.execute(insert, &[Value::Null]).unwrap_err();
    assert_eq!(error.code, libsqlite3_sys::SQLITE_CONSTRAINT_NOTNULL, "the extended code");
    assert!(error.subject.contains("INSERT INTO t (v)") && error.subject.contains("t.db"), "{error}");
    assert!(error.message.contains("NOT NULL constraint failed: t.v"), "{error}");
    let error = connection.execute(insert, &[]).unwrap_err().to_string();
    assert!(error.contains("takes 1 parameters, was given 0"), "{error}");
    assert!(
        connection.prepare("SELECT 1; SELECT 2").unwrap_err().message.contains("more than one statement")
    );
    assert!(connection.prepare("-- nothing").unwrap_err().message.contains("no statement"));
    let error =
        connection.execute_script("INSERT INTO t (v) VALUES ('x'); SELEC 1; DROP TABLE t").unwrap_err();
    assert!(error.subject.contains("SELEC 1") && error.message.contains("syntax error"), "{error}");
    assert_eq!(
        connection.drain(select, &[]).unwrap().0,
        4,
        "the statement before the bad one was done, none after"
    );
    connection.close().unwrap();
}

#[test]
fn a_statement_that_was_lost_is_reported_when_closing() {
    let directory = directory();
    let library = SqliteLibrary::bundled().unwrap();
    let path = directory.path().join("t.db");
    let (connection, _) =
        SqliteConnection::open(library, fathom_probe::Probe::VFS_NAME, &path, &params(&[])).unwrap();
    let lost = connection.compile("SELECT 'lost'").unwrap().0;
    let error = Box::new(connection).close().unwrap_err().to_string();
    assert!(error.contains("SELECT 'lost'") && error.contains("never finalised"), "{error}");
    // SAFETY: finalised once; its connection is still open because of it.
    unsafe { (library.functions.sqlite3_finalize)(lost) };
}

#[test]
fn waiting_for_a_lock_is_counted_and_ends_at_the_timeout() {
    let directory = directory();
    for mode in ["delete", "wal"] {
        let settings = [("journal_mode", json!(mode)), ("busy_timeout", json!(150))];
        let engine = start(directory.path(), &settings).unwrap();
        let patient = [("journal_mode", json!(mode)), ("busy_timeout", json!(60_000))];
        // Its commit waits where the other one, which looks in between, gets no processor as it
        // does so.
        let mut holder = start(directory.path(), &patient).unwrap().connect(mode).unwrap();
        let mut waiter = engine.connect(mode).unwrap();
        holder.execute_script("CREATE TABLE t (x); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        let begin = Instant::now();
        let error = waiter.execute_script("INSERT INTO t VALUES (2)").unwrap_err();
        assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
        assert_eq!(error.code & 0xff, libsqlite3_sys::SQLITE_BUSY);
        assert!(error.message.contains("busy_timeout"), "{error}");
        let (waits, wait_ns) = waiter.lock_waits().unwrap();
        assert_eq!(waits, 1, "{mode}");
        assert!(wait_ns >= 150_000_000, "{wait_ns}");
        assert_eq!(holder.lock_waits(), Some((0, 0)));

        holder.execute_script("COMMIT").unwrap();
        waiter.close().unwrap();

        // One that waits for as long as it takes. It may come only when the lock is free again:
        // then the lock is held for longer.
        let mut waiter = start(directory.path(), &patient).unwrap().connect(mode).unwrap();
        let waits = [40, 400, 4000, 30_000].map(|held_ms| {
            if waiter.lock_waits().unwrap().0 == 0 {
                holder.execute_script("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| waiter.execute_script("INSERT INTO t VALUES (3)"));
                    std::thread::sleep(Duration::from_millis(held_ms));
                    holder.execute_script("COMMIT").unwrap();
                    waiting.join().unwrap().unwrap();
                });
            }
            waiter.lock_waits().unwrap().0
        });
        assert_eq!(waits[3], 1, "{mode}: {waits:?}");
        holder.close().unwrap();
        waiter.close().unwrap();
    }
}

#[test]
fn the_probe_splits_what_a_phase_does() {
    use crate::recorder::{Phase, Unit};
    let directory = directory();
    let engine = start(directory.path(), &[]).unwrap();
    let mut connection = engine.connect("t").unwrap();
    connection.execute_script("CREATE TABLE t (x)").unwrap();
    let phase = Phase::begin("insert", None, Unit::Transaction);
    let mut lane = phase.lane(0, 20);
    for _ in 0..20 {
        lane.time(|| connection.execute_script("INSERT INTO t VALUES (1)").map(|()| 1)).unwrap();
    }
    let mut kept = crate::sample::tests::MemorySink::default();
    phase.end(vec![lane], &mut kept);
    let split = kept.phases[0].split;
    assert!(split.sync_calls >= 20 * 2, "{split:?}");
    assert!(split.write_bytes >= 20 * 4096, "{split:?}");
    let parts = split.cpu_ns + split.read_ns + split.write_ns + split.sync_ns + split.other_ns;
    assert!(parts.abs_diff(split.wall_ns) * 100 <= split.wall_ns, "{split:?}");
    assert!(
        kept.rows.iter().any(|row| row.class == "rollback-journal" && row.op == "sync" && row.calls >= 20)
    );
    connection.close().unwrap();
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_filter("SQLite stores NaN as NULL", |x| !x.is_nan()).prop_map(Value::Real),
        "\\PC{0,40}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..80).prop_map(Value::Blob),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is bound comes back the same, and draining counts its bytes.
    #[test]
    fn values_come_back_as_they_went_in(values in prop::collection::vec(any_value(), 1..12)) {
        let library = SqliteLibrary::bundled().unwrap();
        let settings = params(&[("journal_mode", json!("memory"))]);
        let (mut connection, _) = SqliteConnection::open(library, fathom_probe::Probe::VFS_NAME, Path::new(":memory:"), &settings).unwrap();
        let places: Vec<String> = (1..=values.len()).map(|i| format!("${i}")).collect();
        let select = connection.prepare(&format!("SELECT {}", places.join(", "))).unwrap();
        let mut row = Vec::new();
        connection.query(select, &values, &mut |values| row = values.to_vec()).unwrap();
        prop_assert_eq!(&row, &values);
        let bytes: usize = values.iter().map(|value| match value {
            Value::Null => 0,
            Value::Integer(_) | Value::Real(_) => 8,
            Value::Text(text) => text.len(),
            Value::Blob(blob) => blob.len(),
        }).sum();
        prop_assert_eq!(connection.drain(select, &values).unwrap(), (1, bytes as u64));
        Box::new(connection).close().unwrap();
    }

    /// Settings never panic, whatever is written for them.
    #[test]
    fn any_settings_are_accepted_or_explained(key in "[a-z_]{1,16}", word in "\\PC{0,12}") {
        let given = BTreeMap::from([(key.clone(), Json::from(word))]);
        if let Err(error) = crate::engine::check_settings("sqlite", &given) {
            prop_assert_eq!(error.key, key);
        }
    }
}
