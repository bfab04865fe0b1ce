use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use postgresql_server::connection::ConnectionError;

use super::{failed, from_hex, settings};
use crate::engine::{DISK_FULL, Engine, EngineError, MACHINE, Value, postgresql_programs, start_engine};
use crate::params::Params;
use crate::spec::{Durability, EngineSpec};

fn start(directory: &Path, settings: &[(&str, Json)]) -> Result<Box<dyn Engine>, EngineError> {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    start_engine(&EngineSpec { name: "postgresql".into(), settings }, directory)
}

/// A directory to run in, or nothing where PostgreSQL is not installed.
fn directory() -> Option<tempfile::TempDir> {
    if let Err(error) = postgresql_programs(None) {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

/// The server's process, by the file in which it says so.
fn server_process(directory: &Path) -> i32 {
    let lines = std::fs::read_to_string(directory.join("postgresql/postmaster.pid")).unwrap();
    lines.lines().next().unwrap().trim().parse().unwrap()
}

/// Whether the process lives (a dead one that was not yet waited for counts as dead).
fn lives(process: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

fn assert_dies(process: i32) {
    let begin = Instant::now();
    while lives(process) {
        assert!(begin.elapsed() < Duration::from_secs(60), "process {process} still lives");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_answers_and_is_gone_when_dropped() {
    let Some(directory) = directory() else { return };
    let settings = [
        ("fsync", json!(true)),
        ("synchronous_commit", json!("off")),
        ("wal_sync_method", json!("open_datasync")),
        ("shared_buffers", json!("64MB")),
        ("checkpoint_timeout", json!(300)),
        ("wal_level", json!("minimal")),
        ("wal_compression", json!("on")),
        ("checkpoint_completion_target", json!(0.5)),
        ("data_checksums", json!(true)),
    ];
    let engine = start(directory.path(), &settings).unwrap();
    let info = engine.info();
    assert!(info.version.split('.').next().unwrap().parse::<u32>().unwrap() >= 10, "{}", info.version);
    assert!(info.build[0].starts_with("PostgreSQL"));
    assert_eq!(info.settings["shared_buffers"], "64MB");
    assert_eq!(info.settings["checkpoint_timeout"], "5min");
    assert_eq!(info.settings["data_checksums"], "on");
    assert_eq!(engine.durability(), Durability::PowerCutPrefix);

    let mut connection = engine.connect("bench").unwrap();
    connection
        .execute_script(
            "CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL, r double precision, b bytea); -- made",
        )
        .unwrap();
    let insert = connection.prepare("INSERT INTO t VALUES ($1, $2, $3, $4)").unwrap();
    let row =
        [Value::Integer(7), Value::Text("한글 ✓".into()), Value::Real(0.1), Value::Blob(vec![0, 1, 255])];
    assert_eq!(connection.execute(insert, &row).unwrap(), 1);
    let nulls = [Value::Integer(8), Value::Text(String::new()), Value::Null, Value::Null];
    assert_eq!(connection.execute(insert, &nulls).unwrap(), 1);
    let select = connection.prepare("SELECT * FROM t ORDER BY id").unwrap();
    assert_eq!(connection.prepare("SELECT * FROM t ORDER BY id").unwrap(), select, "prepared once");
    let mut rows = Vec::new();
    assert_eq!(connection.query(select, &[], &mut |row| rows.push(row.to_vec())).unwrap(), 2);
    assert_eq!(rows, [row.to_vec(), nulls.to_vec()]);
    let (count, bytes) = connection.drain(select, &[]).unwrap();
    assert_eq!((count, bytes), (2, 1 + 10 + 3 + 8 + 1));
    let update = connection.prepare("UPDATE t SET v = $1").unwrap();
    assert_eq!(connection.execute(update, &[Value::Text("x".into())]).unwrap(), 2);

    let error = connection.execute(insert, &row).unwrap_err();
    assert!(error.subject.contains("INSERT INTO t") && error.subject.contains("bench"), "{error}");
    assert!(error.message.contains("23505"), "{error}");
    assert!(connection.execute(insert, &[]).unwrap_err().message.contains("takes 4 parameters"));
    assert!(connection.prepare("SELEC 1").unwrap_err().message.contains("syntax error"));
    assert_eq!(connection.drain(select, &[]).unwrap().0, 2, "the conversation goes on after an error");
    connection.close().unwrap();

    let process = server_process(directory.path());
    engine.forget_caches().unwrap();
    let restarted = server_process(directory.path());
    assert_ne!(process, restarted);
    assert!(!lives(process));
    let mut connection = engine.connect("bench").unwrap();
    let select = connection.prepare("SELECT * FROM t").unwrap();
    assert_eq!(connection.drain(select, &[]).unwrap().0, 2, "the data is still there");
    drop(connection);
    drop(engine);
    assert!(!lives(restarted), "dropping the engine waits for the server to stop");
    std::fs::remove_dir_all(directory.path()).unwrap();
}

#[test]
fn a_server_that_refuses_a_setting_says_so_and_is_gone() {
    let Some(directory) = directory() else { return };
    let error = start(directory.path(), &[("shared_buffers", json!("1kB"))]).err().unwrap().to_string();
    assert!(error.contains("the server ended at its start") && error.contains("shared_buffers"), "{error}");
    assert!(!directory.path().join("postgresql/postmaster.pid").exists());
    let error = start(directory.path(), &[("fsinc", json!(true))]).err().unwrap().to_string();
    assert!(error.contains("did you mean `fsync`?"), "{error}");
    let error = start(directory.path(), &[("bin_directory", json!("/no/such"))]).err().unwrap().to_string();
    assert!(error.contains("/no/such") && error.contains("initdb"), "{error}");
}

/// Started by the test below in a process of its own, which is then killed.
#[test]
#[ignore = "part of a_server_does_not_outlive_a_killed_worker"]
fn a_worker_with_a_server() {
    let Some(directory) = std::env::var_os("FATHOM_TEST_SERVER_DIRECTORY") else { return };
    let _engine = start(Path::new(&directory), &[]).unwrap();
    std::fs::write(Path::new(&directory).join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_server_does_not_outlive_a_killed_worker() {
    let Some(directory) = directory() else { return };
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "engine::postgresql::tests::a_worker_with_a_server"])
        .env("FATHOM_TEST_SERVER_DIRECTORY", directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !directory.path().join("ready").exists() {
        let ended = worker.try_wait().unwrap();
        assert!(
            ended.is_none() && begin.elapsed() < Duration::from_secs(300),
            "the worker did not get ready: {ended:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = server_process(directory.path());
    assert!(lives(server));
    worker.kill().unwrap(); // SIGKILL
    worker.wait().unwrap();
    assert_dies(server);
}

#[test]
fn durability_is_what_postgresql_documents() {
    let class = |given: &[(&str, Json)]| {
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        settings::durability(&Params::read(settings::SETTINGS, &given).unwrap())
    };
    assert_eq!(class(&[]), Durability::PowerCut);
    assert_eq!(class(&[("synchronous_commit", json!("off"))]), Durability::PowerCutPrefix);
    assert_eq!(
        class(&[("fsync", json!(false)), ("synchronous_commit", json!("on"))]),
        Durability::ProcessCrash
    );
    assert_eq!(class(&[("full_page_writes", json!(false))]), Durability::ProcessCrash);
}

/// What happened: a server whose disk was full was known by the words of its error.
#[test]
fn a_full_disk_is_known_by_its_sqlstate() {
    let code = |sqlstate: &str| {
        let message = "could not extend file: No space left on device".into();
        let error = ConnectionError::Refused { sqlstate: sqlstate.into(), message, hint: None };
        failed("`COPY`".into(), &error).code
    };
    assert_eq!((code("53100"), code("42P01"), code("53200")), (DISK_FULL, 0, MACHINE));
    let at_its_start = |is_full_disk, is_of_the_machine| {
        let (subject, message) = ("/x".into(), "the server ended at its start".into());
        let error = postgresql_server::ServerError { subject, message, is_full_disk, is_of_the_machine };
        EngineError::from(error).code
    };
    assert_eq!((at_its_start(true, false), at_its_start(false, false)), (DISK_FULL, 0));
    assert_eq!(at_its_start(false, true), MACHINE);
}

#[test]
fn hexadecimal_digits_become_bytes() {
    assert_eq!(from_hex(b"00ffA1"), Some(vec![0, 255, 161]));
    assert_eq!(from_hex(b""), Some(vec![]));
    assert_eq!(from_hex(b"0"), None);
    assert_eq!(from_hex(b"zz"), None);
}
