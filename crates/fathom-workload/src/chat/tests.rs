//! The whole workload on small tables, and what happens when its data is spoiled or its parameters
//! are wrong.

use super::*;
use crate::spec::WorkloadSpec;
use crate::testing::{KeepingSink, Saboteur, map, sqlite as engine};
use serde_json::json;

fn workload(params: serde_json::Value) -> Result<Box<dyn Workload>, WorkloadError> {
    crate::create(&WorkloadSpec { name: "chat".into(), params: map(params) })
}

fn run(
    params: serde_json::Value,
    engine: &dyn Engine,
    seed: u64,
    kept: &mut KeepingSink,
) -> Result<(), WorkloadError> {
    let directory = engine.directory();
    workload(params)?.run(&Context { directory, engine: Some(engine), seed }, kept)
}

#[test]
fn the_selects_read_every_row_and_every_column() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = engine(json!({"journal_mode": "delete"}), directory.path());
    let mut kept = KeepingSink::default();
    run(json!({"rows": 500, "queries": 2, "phases": ["select"]}), &*engine, 1, &mut kept).expect("runs");
    let mut outline = vec![("select-asc", None, 2), ("select-desc", None, 2)];
    outline.extend((1..=12).map(|columns| ("select-columns", Some(f64::from(columns)), 2)));
    assert_eq!(kept.outline(), outline);
    assert_eq!(kept.samples.len(), 28);
    assert!(kept.samples.iter().all(|sample| sample.rows == 500 && sample.split.wall_ns > 0));
    // Cold: every query reads the table from the file again.
    assert!(kept.samples.iter().all(|sample| sample.split.read_bytes > 100_000), "{:?}", kept.samples[0]);
    assert!(
        kept.verified.iter().any(|check| check.contains("caches before 28 queries")),
        "{:?}",
        kept.verified
    );
    assert!(kept.warnings.iter().all(|warning| warning.contains("caches")), "{:?}", kept.warnings);
    assert!(kept.progress_is_sound(), "{:?}", kept.progress);
}

#[test]
fn the_writes_change_one_row_each_in_every_journal_mode() {
    for journal_mode in ["delete", "truncate", "persist", "wal"] {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = engine(json!({"journal_mode": journal_mode, "synchronous": "normal"}), directory.path());
        let mut kept = KeepingSink::default();
        let params = json!({"rows": 400, "writes": 60, "chats": 9, "phases": ["delete", "update", "insert"]});
        run(params, &*engine, 1, &mut kept).expect("runs");
        let names = ["update-chat_id", "update-is_temp", "insert", "delete"];
        assert_eq!(kept.outline(), names.map(|name| (name, None, 60)), "{journal_mode}");
        assert!(kept.samples.iter().all(|sample| sample.rows == 1));
        assert!(
            kept.verified.contains(&"all 400 rows right, every column".to_owned()),
            "{:?}",
            kept.verified
        );
        assert!(kept.warnings.is_empty(), "{:?}", kept.warnings);
        // The indexed column touches more pages: four indexes against none.
        let written = |name: &str| -> u64 {
            kept.samples
                .iter()
                .filter(|sample| sample.phase == name)
                .map(|sample| sample.split.write_bytes)
                .sum()
        };
        assert!(written("update-chat_id") > written("update-is_temp"), "{journal_mode}");
    }
}

#[test]
fn data_spoiled_at_any_moment_fails_the_run() {
    let params = json!({"rows": 200, "queries": 1, "writes": 5, "phases": ["update", "insert", "delete"]});
    let run_with = |at, sql| {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = engine(json!({"journal_mode": "memory", "synchronous": "off"}), directory.path());
        let saboteur = Saboteur::new(inner, at, sql);
        let outcome = run(params.clone(), &saboteur, 1, &mut KeepingSink::default());
        (outcome, saboteur.connections())
    };
    let (outcome, connections) = run_with(0, "");
    outcome.expect("an unspoiled run passes");
    for sql in [
        "UPDATE chat_logs SET message = 'spoiled' WHERE _id = 7",
        "UPDATE chat_logs SET attachment = '{}' WHERE _id = 7",
        "UPDATE chat_logs SET chat_id = chat_id + 1 WHERE _id = 7",
        "DELETE FROM chat_logs WHERE _id = 7",
    ] {
        for at in 2..=connections {
            let (outcome, _) = run_with(at, sql);
            let error = outcome.expect_err("the data was spoiled");
            assert!(matches!(error, WorkloadError::Verification(_)), "connection {at}, {sql}: {error}");
        }
    }
}

#[test]
fn a_query_that_misses_a_row_fails_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = engine(json!({"journal_mode": "memory", "synchronous": "off"}), directory.path());
    let saboteur = Saboteur::new(inner, 2, "DELETE FROM chat_logs WHERE _id = 7");
    let params = json!({"rows": 100, "queries": 1, "phases": ["select"]});
    let error = run(params, &saboteur, 1, &mut KeepingSink::default()).expect_err("a row is missing");
    assert!(error.to_string().contains("gave 99 rows instead of 100"), "{error}");
}

#[test]
fn same_seed_same_database() {
    let database = |seed| {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = engine(json!({"journal_mode": "delete", "synchronous": "off"}), directory.path());
        let params = json!({"rows": 300, "writes": 20, "phases": ["update", "insert", "delete"]});
        run(params, &*engine, seed, &mut KeepingSink::default()).expect("runs");
        let files: Vec<_> = std::fs::read_dir(directory.path()).expect("readable").collect();
        assert_eq!(files.len(), 1);
        std::fs::read(files[0].as_ref().expect("readable").path()).expect("readable")
    };
    assert!(database(1) == database(1));
    assert!(database(1) != database(2));
}

#[test]
fn wrong_parameters_are_errors_that_name_them() {
    for (params, words) in [
        (json!({"rows": 1}), "rows"),
        (json!({"zipf": -1.0}), "zipf"),
        (json!({"chats": 0}), "chats"),
        (json!({"queries": 0}), "queries"),
        (json!({"rows": 100, "writes": 101}), "writes: 101 rows cannot be deleted from `rows` = 100"),
        (json!({"phases": ["select", "select"]}), "phases"),
        (json!({"phases": ["selects"]}), "did you mean `select`"),
        (json!({"row": 5}), "did you mean `rows`"),
    ] {
        let error = workload(params.clone()).err().unwrap_or_else(|| panic!("{params} was accepted"));
        assert!(error.to_string().contains(words), "{params}: {error}");
    }
    let context = Context { directory: std::path::Path::new("/nowhere"), engine: None, seed: 1 };
    let error =
        workload(json!({})).expect("made").run(&context, &mut KeepingSink::default()).expect_err("no engine");
    assert!(error.to_string().contains("must be sqlite"), "{error}");
}
