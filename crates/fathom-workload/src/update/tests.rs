//! The whole workload on small tables, and what happens when its data is spoiled or its parameters
//! are wrong.

use super::*;
use crate::engine::Engine;
use crate::spec::{EngineSpec, WorkloadSpec};
use crate::start_engine;
use crate::testing::{KeepingSink, Saboteur, map, sqlite as engine};
use serde_json::json;

fn workload(params: serde_json::Value) -> Result<Box<dyn Workload>, WorkloadError> {
    crate::create(&WorkloadSpec { name: "update".into(), params: map(params) })
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

/// A run whose rows changed and checks are as they must be, on this engine.
fn run_and_look(engine: &dyn Engine) -> KeepingSink {
    let mut kept = KeepingSink::default();
    run(json!({"rows": 600, "points": 20, "range_repeats": 2}), engine, 1, &mut kept).expect("runs");
    let ranges = [100.0, 500.0, 600.0];
    let mut outline = vec![("insert", None, 20), ("update-point", None, 20)];
    outline.extend(ranges.map(|range| ("update-range", Some(range), 2)));
    outline.push(("delete-point", None, 20));
    outline.extend(ranges.map(|range| ("delete-range", Some(range), 2)));
    assert_eq!(kept.outline(), outline);
    for sample in &kept.samples {
        assert_eq!(sample.rows as f64, sample.x.unwrap_or(1.0), "{sample:?}");
    }
    assert!(kept.progress_is_sound(), "{:?}", kept.progress);
    assert!(kept.warnings.is_empty(), "{:?}", kept.warnings);
    kept
}

#[test]
fn all_phases_run_in_every_journal_mode() {
    for journal_mode in ["delete", "truncate", "persist", "memory", "wal", "off"] {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = engine(json!({"journal_mode": journal_mode, "synchronous": "off"}), directory.path());
        let kept = run_and_look(&*engine);
        let checks = kept.verified.iter().filter(|check| check.starts_with("integrity_check")).count();
        // After the updates and at the end; those after each DELETE are in its own line.
        assert_eq!(checks, 2, "{journal_mode}: {:?}", kept.verified);
    }
}

/// With `cold` every range, and every phase of points, begins with empty caches, and says so.
#[test]
fn cold_ranges_are_read_from_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = engine(json!({"journal_mode": "delete"}), directory.path());
    let run = |cold: bool| {
        let mut kept = KeepingSink::default();
        let params = json!({"rows": 600, "points": 20, "range_repeats": 2, "cold": cold});
        run(params, &*engine, 1, &mut kept).expect("runs");
        std::fs::read_dir(directory.path()).expect("readable").for_each(|entry| {
            std::fs::remove_file(entry.expect("readable").path()).expect("removed");
        });
        let said = |text: &str| kept.verified.iter().chain(&kept.warnings).any(|line| line.contains(text));
        (said("caches before 15 statements or phases"), said("caches before"))
    };
    // Three phases of points, and two executions of three ranges, both ways.
    assert_eq!(run(true), (true, true));
    assert_eq!(run(false), (false, false));
}

#[test]
fn all_phases_run_on_postgresql() {
    if let Err(error) = crate::engine::postgresql_programs(None) {
        println!("SKIP: {error}");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let spec = EngineSpec { name: "postgresql".into(), settings: map(json!({"fsync": false})) };
    let engine = start_engine(&spec, directory.path()).expect("starts");
    let kept = run_and_look(&*engine);
    assert!(kept.verified.iter().any(|check| check.starts_with("all 600 rows right")), "{:?}", kept.verified);
}

#[test]
fn a_run_leaves_the_table_as_it_was_loaded() {
    let files = |params: serde_json::Value| {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = engine(json!({"journal_mode": "delete"}), directory.path());
        run(params, &*engine, 5, &mut KeepingSink::default()).expect("runs");
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory.path())
            .expect("readable")
            .map(|entry| entry.expect("readable"))
            .map(|entry| {
                (
                    entry.file_name().into_string().expect("text"),
                    std::fs::read(entry.path()).expect("readable"),
                )
            })
            .collect();
        files.sort();
        files
    };
    let all = files(json!({"rows": 1_000}));
    // The database and its copy are equal, and equal to those of a run that deleted only points.
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].1, all[1].1);
    assert!(all == files(json!({"rows": 1_000, "phases": ["delete-point"], "points": 3})));
}

#[test]
fn data_spoiled_at_any_moment_fails_the_run() {
    let params = json!({"rows": 300, "points": 5, "ranges": [100]});
    let run_with = |at| {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = engine(json!({"journal_mode": "memory", "synchronous": "off"}), directory.path());
        let saboteur = Saboteur::new(inner, at, "UPDATE records SET bonus = bonus + 1 WHERE id = 7");
        let outcome = run(params.clone(), &saboteur, 1, &mut KeepingSink::default());
        (outcome, saboteur.connections())
    };
    let (outcome, connections) = run_with(0);
    outcome.expect("an unspoiled run passes");
    assert!(connections > 5, "{connections}");
    for at in 2..=connections {
        let (outcome, _) = run_with(at);
        let error = outcome.expect_err("the data was spoiled");
        assert!(matches!(error, WorkloadError::Verification(_)), "connection {at}: {error}");
    }
}

#[test]
fn a_missing_row_fails_the_run_with_the_statement() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = engine(json!({"journal_mode": "memory"}), directory.path());
    let saboteur = Saboteur::new(inner, 2, "DELETE FROM records WHERE id = 50");
    let params = json!({"rows": 100, "phases": ["update-range"], "ranges": [100]});
    let error = run(params, &saboteur, 1, &mut KeepingSink::default()).expect_err("a row is missing");
    assert!(error.to_string().contains("changed 99 rows instead of 100"), "{error}");
}

#[test]
fn ranges_beyond_the_table_give_way_to_the_whole_table() {
    assert_eq!(ranges_within(PAPER_RANGES, 1_000_000), PAPER_RANGES);
    assert_eq!(ranges_within(PAPER_RANGES, 2_000_000), PAPER_RANGES);
    assert_eq!(ranges_within(PAPER_RANGES, 20_000), [100, 500, 1_000, 5_000, 10_000, 20_000]);
    assert_eq!(ranges_within(PAPER_RANGES, 1_000), [100, 500, 1_000]);
    assert_eq!(ranges_within(&[5_000], 100), [100]);
    let shown = workload(json!({"rows": 600})).expect("made").parameters();
    assert_eq!((&shown["ranges"], &shown["points"]), (&json!([100, 500, 600]), &json!(100)));
}

#[test]
fn wrong_parameters_are_errors_that_name_them() {
    for (params, words) in [
        (json!({"rows": 99}), "rows"),
        (json!({"rows": "many"}), "rows"),
        (json!({"rows": 100, "points": 101}), "points: 101 is more than `rows` = 100"),
        (json!({"ranges": []}), "ranges"),
        (json!({"ranges": [0]}), "ranges"),
        (json!({"range_repeats": 0}), "range_repeats"),
        (json!({"phases": ["select"]}), "phases"),
        (json!({"range": [100]}), "did you mean `ranges`"),
    ] {
        let error = workload(params.clone()).err().unwrap_or_else(|| panic!("{params} was accepted"));
        assert!(error.to_string().contains(words), "{params}: {error}");
    }
    let context = Context { directory: std::path::Path::new("/nowhere"), engine: None, seed: 1 };
    let error =
        workload(json!({})).expect("made").run(&context, &mut KeepingSink::default()).expect_err("no engine");
    assert!(error.to_string().contains("needs one"), "{error}");
}
