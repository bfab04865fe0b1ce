//! Tests of the results file: round trip, and everything that can be wrong with one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_probe::Split;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_stack::device::DeviceUse;
use fathom_stack::{StackRecord, StackSpec};
use fathom_workload::engine::EngineInfo;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Window};
use fathom_workload::spec::{Durability, EngineSpec, WorkloadSpec};

use super::*;
use crate::cell::Cell;

fn experiment() -> ExperimentRow {
    ExperimentRow {
        name: "unit".into(),
        title: "A test".into(),
        source: "name = \"unit\"".into(),
        source_name: "built-in".into(),
        command: "fathom run unit --seed 7".into(),
        seed: u64::MAX - 3,
        repeats: 2,
        quick: true,
        fathom_version: "0.1.0".into(),
        started_ms: 1_700_000_000_000,
        finished_ms: None,
    }
}

fn cell(id: i64, mode: &str) -> CellRow {
    let axes = BTreeMap::from([("engine.journal_mode".to_owned(), mode.to_owned())]);
    CellRow {
        id,
        label: mode.into(),
        axes: axes.clone(),
        spec: Cell {
            workload: WorkloadSpec {
                name: "mobibench-sql".into(),
                params: BTreeMap::from([("transactions".to_owned(), serde_json::json!(10))]),
            },
            engine: Some(EngineSpec {
                name: "sqlite".into(),
                settings: BTreeMap::from([("journal_mode".to_owned(), serde_json::json!(mode))]),
            }),
            stack: StackSpec::default(),
            instruments: crate::cell::Instruments::default(),
            axes,
        },
        durability: None,
        skipped: (mode == "off").then(|| "no reason".to_owned()),
    }
}

fn split(base: u64) -> Split {
    Split {
        wall_ns: base,
        cpu_ns: 1,
        read_ns: 2,
        write_ns: 3,
        sync_ns: 4,
        other_ns: 5,
        read_bytes: 6,
        write_bytes: 7,
        read_calls: 8,
        write_calls: 9,
        sync_calls: 10,
        other_calls: 11,
    }
}

/// A request of two causes, and a flush.
fn trace() -> TraceRecord {
    let row = BlockRow {
        request: 0,
        piece: 0,
        device: 1,
        op: BlockOp::Write,
        cause: Cause::RollbackJournal,
        window: Some(0),
        submit_ns: 10,
        issue_ns: 11,
        complete_ns: 12,
        offset: 1 << 40,
        bytes: 4096,
        fua: true,
        sync: false,
        meta: true,
    };
    TraceRecord {
        source: TraceSource::Device,
        span_ns: 100,
        lost_events: 3,
        unfinished: 1,
        remarks: vec!["a \"remark\"".into()],
        windows: vec![Window {
            phase: "insert".into(),
            x: Some(1.5),
            start_ns: 5,
            end_ns: 50,
            count: 7,
            changed_bytes: 700,
        }],
        rows: vec![
            row,
            BlockRow { piece: 1, cause: Cause::Database, offset: (1 << 40) + 4096, ..row },
            BlockRow { request: 1, op: BlockOp::Flush, cause: Cause::Flush, window: None, bytes: 0, ..row },
        ],
    }
}

fn record(cell: i64, block: u32, status: RunStatus) -> RunRecord {
    RunRecord {
        row: RunRow {
            id: 0,
            cell,
            block,
            position: 1,
            seed: 99,
            status,
            message: (status == RunStatus::Failed).then(|| "worker was killed".to_owned()),
            started_ms: 5,
            elapsed_ns: 6,
            engine: Some(EngineInfo {
                name: "sqlite".into(),
                version: "3.54.1".into(),
                build: vec!["THREADSAFE=1".into()],
                settings: BTreeMap::from([("journal_mode".to_owned(), "wal".to_owned())]),
            }),
            parameters: BTreeMap::from([("transactions".to_owned(), serde_json::json!(10))]),
            stack: StackRecord { filesystem: "ext4".into(), ..StackRecord::default() },
            floor_ns: Some(81_000),
            max_rss_bytes: Some(1 << 20),
            involuntary_switches: Some(3),
            steal_share: Some(0.01),
            load: Some(0.5),
            devices: vec![
                DeviceUse { timed: 7, late: 1, model_ns: 1000, measured_ns: 1100, ..DeviceUse::default() },
                DeviceUse { timed: 3, ..DeviceUse::default() },
            ],
        },
        durability: Some(Durability::PowerCutAllButLast),
        phases: vec![PhaseSummary {
            phase: "insert".into(),
            x: Some(1.5),
            unit: "transaction".into(),
            count: 10,
            wall_ns: 1000,
            latency_ns: [1, 2, 3, 4, 5, 6],
            split: split(900),
            lock_wait_ns: Some(12),
            lock_waits: None,
        }],
        samples: (0..3)
            .map(|seq| Sample { phase: "insert".into(), x: None, seq, thread: 1, rows: 2, split: split(seq) })
            .collect(),
        io: vec![IoRow {
            phase: "insert".into(),
            class: "wal".into(),
            op: "sync".into(),
            calls: 1,
            bytes: 2,
            ns: 3,
        }],
        verified: vec!["rows 10".into()],
        warnings: vec!["tmpfs: no device".into()],
        trace: (status == RunStatus::Done).then(trace),
    }
}

struct Place {
    _directory: tempfile::TempDir,
    file: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.db");
    Place { _directory: directory, file }
}

fn filled(place: &Place) -> Results {
    let environment = BTreeMap::from([("kernel".to_owned(), "6.18".to_owned())]);
    let cells = [cell(1, "wal"), cell(2, "off")];
    let mut writer = Writer::create(&place.file, &experiment(), &environment, &cells).unwrap();
    writer.record(&record(1, 0, RunStatus::Done)).unwrap();
    writer.record(&record(1, 1, RunStatus::Failed)).unwrap();
    writer.warn(&["noisy".into(), "noisy".into()]).unwrap();
    writer.close(Some(77)).unwrap();
    Results::load(&place.file).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let place = place();
    let results = filled(&place);
    assert_eq!(results.experiment, ExperimentRow { finished_ms: Some(77), ..experiment() });
    assert_eq!(results.environment["kernel"], "6.18");
    let expected = CellRow { durability: Some(Durability::PowerCutAllButLast), ..cell(1, "wal") };
    assert_eq!(results.cells, [expected, cell(2, "off")]);
    let wrote = record(1, 0, RunStatus::Done);
    assert_eq!(results.runs.len(), 2);
    assert_eq!(results.runs[0], RunRow { id: 1, ..wrote.row });
    assert_eq!(results.phases[0].summary, wrote.phases[0]);
    assert_eq!(results.io[0].row, wrote.io[0]);
    assert_eq!(results.samples(1, "insert").unwrap(), wrote.samples);
    assert_eq!(results.sample_count().unwrap(), 6);
    let wrote_trace = wrote.trace.unwrap();
    let found = results.trace(1).unwrap();
    assert_eq!(
        (found.source, found.span_ns, found.lost_events, found.unfinished),
        (TraceSource::Device, 100, 3, 1)
    );
    assert_eq!((&found.remarks, &found.windows), (&wrote_trace.remarks, &wrote_trace.windows));
    let mut rows = Vec::new();
    results.blocks(1, |row| rows.push(row)).unwrap();
    assert_eq!(rows, wrote_trace.rows);
    assert!(results.trace(2).is_none());
    // For people's own questions there are names in a view.
    let db = rusqlite::Connection::open(&place.file).unwrap();
    let named: Vec<String> = db
        .prepare("SELECT op || ' ' || cause || ' ' || ifnull(phase, '-') || ' ' || latency_ns || fua || sync || meta FROM block")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        named,
        ["write rollback-journal insert 2101", "write database insert 2101", "flush flush - 2101"]
    );
    assert_eq!(results.verified.len(), 2);
    assert_eq!(results.warnings[0], WarningRow { run: None, text: "noisy".into() });
    assert_eq!(results.warnings.len(), 3);
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (1, 1));
}

#[test]
fn one_file_is_all_after_closing() {
    let place = place();
    filled(&place);
    assert!(!place.file.with_extension("db-wal").exists());
}

#[test]
fn resuming_replaces_a_failed_run_and_never_a_good_one() {
    let place = place();
    filled(&place);
    let mut writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    writer.record(&record(1, 1, RunStatus::Done)).unwrap();
    assert!(writer.record(&record(1, 0, RunStatus::Done)).is_err());
    writer.close(None).unwrap();
    let results = Results::load(&place.file).unwrap();
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (2, 0));
    assert_eq!((results.phases.len(), results.sample_count().unwrap()), (2, 6));
    assert_eq!(results.experiment.finished_ms, None);
}

#[test]
fn creating_never_overwrites() {
    let place = place();
    std::fs::write(&place.file, "precious").unwrap();
    let error = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &[]).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&place.file).unwrap(), b"precious");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error =
        Writer::create("/proc/no/results.db".as_ref(), &experiment(), &BTreeMap::new(), &[]).unwrap_err();
    assert!(error.to_string().starts_with("/proc/no/results.db: cannot be written: "), "{error}");
}

/// Opens `bytes` as results, and proves that they were left as they were.
fn refusal(bytes: &[u8]) -> String {
    let place = place();
    std::fs::write(&place.file, bytes).unwrap();
    let error = Results::load(&place.file).unwrap_err().to_string();
    assert_eq!(std::fs::read(&place.file).unwrap(), bytes, "the file was changed");
    error.replace(&place.file.display().to_string(), "R")
}

fn good_bytes() -> Vec<u8> {
    let place = place();
    drop(filled(&place));
    std::fs::read(&place.file).unwrap()
}

#[test]
fn files_that_are_not_results_are_refused_and_left_alone() {
    assert_eq!(
        refusal(b""),
        "R: not a results file: it is empty or shorter than a database's header. It was left as it is"
    );
    assert_eq!(
        refusal(&b"name = 'journal-modes' # a TOML file".repeat(9)),
        "R: not a results file: it does not begin as a SQLite database does. It was left as it is"
    );
    let missing = Results::load("/nowhere/results.db".as_ref()).unwrap_err().to_string();
    assert_eq!(missing, "/nowhere/results.db: there is no such results file");
    let directory = tempfile::tempdir().unwrap();
    let error = Results::load(directory.path()).unwrap_err().to_string();
    assert!(error.contains("it is a directory"), "{error}");
}

#[test]
fn a_foreign_database_is_refused() {
    let place = place();
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert!(
        error.starts_with("R: a SQLite database, but not Fathom's results: its application_id is 0x0"),
        "{error}"
    );
}

#[test]
fn results_of_an_earlier_version_are_read_but_not_gone_on_with() {
    let place = place();
    drop(filled(&place));
    rusqlite::Connection::open(&place.file).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    let results = Results::load(&place.file).unwrap();
    assert_eq!(results.runs.len(), 2);
    let error = Writer::resume(results).unwrap_err().to_string();
    assert!(error.contains("format version 1") && error.contains("begin anew"), "{error}");
}

#[test]
fn a_newer_version_is_refused() {
    let place = place();
    drop(filled(&place));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("PRAGMA user_version = 6; PRAGMA journal_mode = DELETE").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert_eq!(
        error,
        "R: results of format version 6; this Fathom reads up to version 5. Use the Fathom that wrote it, or a newer one"
    );
}

#[test]
fn truncated_and_damaged_files_are_called_damaged() {
    let good = good_bytes();
    let short = refusal(&good[..good.len() / 2]);
    assert!(short.starts_with("R: the results file is damaged: "), "{short}");
    assert!(short.contains("sqlite3 R .recover"), "{short}");
    // Any page after the first overwritten with rubbish: found by quick_check or by reading, and never a panic.
    let pages = good.len() / 4096;
    for page in 1..pages {
        let mut bytes = good.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xA5);
        let error = refusal(&bytes);
        assert!(error.contains("damaged"), "page {page}: {error}");
    }
}

#[test]
fn a_wrong_value_in_a_column_is_called_damaged() {
    let place = place();
    drop(filled(&place));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("UPDATE cell SET spec = '{' ; PRAGMA journal_mode = DELETE").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert!(error.starts_with("R: the results file is damaged: "), "{error}");
}

#[test]
fn a_full_disk_keeps_what_was_finished() {
    let place = place();
    drop(filled(&place));
    let mut writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    // SQLite says "full" at this page count just as it does when the disk has no block left.
    writer.limit_pages(1);
    let mut big = record(1, 1, RunStatus::Done);
    big.samples = (0..50_000)
        .map(|seq| Sample { phase: "p".into(), x: None, seq, thread: 0, rows: 0, split: split(1) })
        .collect();
    let error = writer.record(&big).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("`--resume`"), "{error}");
    drop(writer);
    let results = Results::load(&place.file).unwrap();
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (1, 1));
}

#[test]
fn results_in_a_read_only_directory_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    drop(filled(&place));
    let directory = place.file.parent().unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    let loaded = Results::load(&place.file);
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(loaded.unwrap().runs.len(), 2);
}
