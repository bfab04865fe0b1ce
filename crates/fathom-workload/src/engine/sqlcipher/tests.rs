use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::engine::{Value, start_engine};
use crate::spec::EngineSpec;

fn spec(settings: &[(&str, Json)]) -> EngineSpec {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    EngineSpec { name: "sqlcipher".into(), settings }
}

/// Whether there is a library here; says what brings one where there is not.
fn is_here() -> bool {
    let none = crate::params::Params::read(super::SETTINGS, &BTreeMap::new()).unwrap();
    let found = super::library(&none).is_ok();
    if !found {
        println!("SKIP: no libsqlcipher.so here; apt-get install libsqlcipher0");
    }
    found
}

#[test]
fn its_settings_are_its_key_and_those_of_sqlite() {
    let names: Vec<&str> = super::SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(names[..3], ["library", "key", "journal_mode"]);
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "{names:?}");
}

/// What is written is not to be read without the key, and comes back with it.
#[test]
fn rows_are_there_with_the_key_and_nothing_is_without_it() {
    if !is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = start_engine(
        &spec(&[("key", json!("it's a secret")), ("journal_mode", json!("wal"))]),
        directory.path(),
    )
    .unwrap();
    let info = engine.info();
    assert_eq!(info.name, "sqlcipher");
    assert_eq!(info.settings["journal_mode"], "wal");
    assert_eq!(info.settings.get("key"), None, "it is not read back");
    assert!(info.settings["library"].contains("sqlcipher"), "{info:?}");
    let mut connection = engine.connect("t").unwrap();
    connection.execute_script("CREATE TABLE t(a TEXT); INSERT INTO t VALUES('plain words')").unwrap();
    connection.close().unwrap();
    let bytes = std::fs::read(directory.path().join("t.db")).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(!has(b"plain words") && !has(b"SQLite format 3"), "the file is not encrypted");
    let mut connection = engine.connect("t").unwrap();
    let select = connection.prepare("SELECT a FROM t").unwrap();
    let mut found = Vec::new();
    connection.query(select, &[], &mut |row| found.extend_from_slice(row)).unwrap();
    assert_eq!(found, [Value::Text("plain words".into())]);
    drop(connection);
    let other = start_engine(&spec(&[("key", json!("another"))]), directory.path()).unwrap();
    let error = other.connect("t").err().expect("a wrong key opens nothing").to_string();
    assert!(error.contains("not a database") || error.contains("encrypted"), "{error}");
}

#[test]
fn attached_databases_have_the_key_as_well() {
    if !is_here() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let engine = start_engine(&spec(&[]), directory.path()).unwrap();
    let mut connection = engine.connect("t").unwrap();
    connection.attach("u", "other").unwrap();
    connection.execute_script("CREATE TABLE other.v(b); INSERT INTO other.v VALUES('plain words')").unwrap();
    connection.close().unwrap();
    let bytes = std::fs::read(directory.path().join("u.db")).unwrap();
    assert!(!bytes.windows(11).any(|window| window == b"plain words"), "the attached file is not encrypted");
    let mut alone = engine.connect("u").unwrap();
    alone.execute_script("SELECT * FROM v").unwrap();
}
